"""The reverse walk over recorded operations, and what users call: backward() and gradient()."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dawdle.errors import GradientError, ShapeError
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import Op
from dawdle.lazy.walk import postorder
from dawdle.runtime.trace import note_awaited
from dawdle.tensor.autograd import DETACHED, RULES, Node, Parent, enable_grad, no_grad
from dawdle.tensor.core import operands
from dawdle.tensor.hooks import hooked

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


def toposort(roots: Iterable[Node], cut: Container[int] = ()) -> list[Node]:
    """Every node that ``roots`` depend on, users before operands, but nothing below those with ids in
    ``cut``.
    """

    def below(node: Node) -> list[Node]:
        return [p for p in reversed(node.parents) if isinstance(p, Node)] if id(node) not in cut else []

    order = postorder(roots, below)
    order.reverse()
    return order


def _leading(order: Sequence[Node], targets: set[int], cut: Container[int]) -> set[int]:
    """The ids of the nodes and values that are or lead to one of ``targets``; each node's ``wanted`` is set
    by it.
    """
    useful = set(targets)
    for node in reversed(order):
        if id(node) not in cut:
            node.wanted = tuple([id(p) in useful for p in node.parents])
            if any(node.wanted):
                useful.add(id(node))
    return useful


def backpropagate(
    roots: Sequence[tuple[Node, Tensor]],
    targets: Callable[[Sequence[Node]], set[int]],
    visit: Callable[[Node | LazyBuffer, Tensor], None],
    create_graph: bool,
    retain_graph: bool,
    cut: Container[int] = (),
) -> None:
    """Call ``visit(target, gradient of the roots with respect to its value)`` for each of ``targets(all
    nodes)``, by id. ``roots`` are nodes with the gradients there; nodes in ``cut`` pass nothing on.
    """
    order = toposort([node for node, _ in roots], cut)
    if any(node.is_released for node in order):
        raise GradientError(
            "this graph was freed by an earlier backward(); pass retain_graph=True to the first call "
            "to use it again"
        )
    wanted = targets(order)
    useful = _leading(order, wanted, cut)
    gradients: dict[int, Any] = {}
    values: dict[int, LazyBuffer] = {}

    def add(key: int, part: Any) -> None:
        known = gradients.get(key)
        gradients[key] = part if known is None else known + part

    with enable_grad() if create_graph else no_grad():
        for node, gradient in roots:
            add(id(node), gradient)
        for node in order:
            g = gradients.pop(id(node), None) if id(node) in useful else None
            if g is None:
                continue
            g = hooked(node, g)
            if id(node) in wanted:
                visit(node, g)
            if node.op is None or id(node) in cut or not any(node.wanted):
                continue
            for parent, part, want in zip(
                node.parents, RULES[node.op].function(node, g), node.wanted, strict=True
            ):
                if want and part is not None and parent is not None:
                    add(id(parent), part)
                    if isinstance(parent, LazyBuffer):
                        values[id(parent)] = parent
        for key, value in values.items():
            visit(value, gradients[key])
    if not (retain_graph or create_graph):
        for node in order:
            if node.op is not None and node.tracked:
                node.release()


def pull(
    roots: Sequence[tuple[Node, Tensor]], targets: Sequence[Parent], create_graph: bool
) -> list[Tensor | None]:
    """The gradients at ``roots`` carried back to each of ``targets``, not through these; None where a target
    isn't reached. The recorded graph stays.
    """
    keys = {id(t) for t in targets}
    found: dict[int, Tensor] = {}

    def gather(node: Node | LazyBuffer, g: Tensor) -> None:
        found[id(node)] = g

    backpropagate(roots, lambda order: keys, gather, create_graph, True, keys)
    return [found.get(id(t)) for t in targets]


def _seed(x: Tensor, gradient: Tensor | None, what: str, tracked: bool) -> tuple[Node, Tensor]:
    """The node to start from and the gradient there."""
    if x._node is None or x._node is DETACHED or (tracked and not x._node.tracked):
        raise GradientError(
            f"{what}: this tensor doesn't depend on any that requires gradients; create inputs with "
            "requires_grad=True, and don't compute it under no_grad() or from detached or integer tensors"
        )
    if gradient is None:
        if x.lazy.size != 1:
            raise GradientError(
                f"{what} needs a scalar, this tensor has shape {x.lazy.shape}; reduce it with .sum() "
                "or .mean(), or pass gradient="
            )
        return x._node, x.ones_like()
    if gradient.lazy.shape != x.lazy.shape:
        raise ShapeError(
            f"{what}: gradient of shape {gradient.lazy.shape} for a tensor of shape {x.lazy.shape}"
        )
    return x._node, gradient.to(x.lazy.dtype)


@operands("gradient")
def backward(
    x: Tensor, gradient: Tensor | None = None, retain_graph: bool = False, create_graph: bool = False
) -> Tensor:
    """Add the gradient of ``x`` to ``.grad`` of every leaf tensor that it was computed from and that requires
    gradients.

    ``gradient`` is the gradient with respect to ``x`` itself, 1 for a scalar. The recorded graph is then
    freed, unless ``retain_graph``; with ``create_graph`` the gradients can be differentiated again. Returns
    ``x``. Raises GradientError where there is nothing to differentiate, or the graph was freed.
    """
    root, seed = _seed(x, gradient, "backward()", True)

    def leaves(order: Sequence[Node]) -> set[int]:
        return {id(node) for node in order if node.leaf is not None}

    def gather(node: Node | LazyBuffer, g: Tensor) -> None:
        leaf = node.leaf() if isinstance(node, Node) and node.leaf is not None else None
        if leaf is not None:
            found = g if create_graph else g.detach()
            leaf.grad = found if leaf.grad is None else leaf.grad + found

    backpropagate([(root, seed)], leaves, gather, create_graph, retain_graph)
    if x.lazy.size == 1:  # a loss: computed with the optimizer's step, it isn't computed a second time
        note_awaited(x)
    return x


@operands("gradient")
def gradients(
    x: Tensor,
    *targets: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool = False,
    create_graph: bool = False,
) -> list[Tensor]:
    """The gradients of ``x`` with respect to ``targets``; ``.grad`` stays as it is. Options as in
    :func:`backward`.

    A target that requires gradients but that ``x`` doesn't depend on gets zeros. One that doesn't require
    them must have been used since ``x`` was last realised, for results are recorded only so long. Raises
    GradientError otherwise.
    """
    keys = [
        id(t.lazy if t._node is None or (not t._node.tracked and t.lazy.op is Op.BUFFER) else t._node)
        for t in targets
    ]
    root, seed = _seed(x, gradient, "gradient()", False)
    found: dict[int, Tensor] = {}

    def gather(node: Node | LazyBuffer, g: Tensor) -> None:
        found[id(node)] = g if create_graph else g.detach()

    backpropagate([(root, seed)], lambda order: set(keys), gather, create_graph, retain_graph)
    for key, t in zip(keys, targets, strict=True):
        if key not in found:
            if not t.requires_grad:
                raise GradientError(
                    f"gradient(): the tensor doesn't depend on a target of shape {t.lazy.shape}, "
                    "or what lies between was realised before; create the target with requires_grad=True"
                )
            found[key] = t.detach().zeros_like()
    return [found[key] for key in keys]
