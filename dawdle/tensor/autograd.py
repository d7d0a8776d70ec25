"""Recording of operations on tensors and the reverse walk over them. The rules themselves are in
dawdle.gradient.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import ContextDecorator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from dawdle.dtype import DType
from dawdle.errors import GradientError, ShapeError
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import Op
from dawdle.lazy.walk import postorder
from dawdle.runtime.trace import note_read, note_rebind

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


class Composite(Enum):
    """Functions composed of primitives whose gradient is simpler or more accurate than the composition's own.
    """

    EXP = "exp"
    EXPM1 = "expm1"
    LOG1P = "log1p"
    COS = "cos"
    TANH = "tanh"
    SIGMOID = "sigmoid"
    ERF = "erf"
    POW = "pow"
    ABS = "abs"
    RELU = "relu"
    CLAMP = "clamp"
    FMOD = "fmod"
    COPYSIGN = "copysign"
    HYPOT = "hypot"
    LOGADDEXP = "logaddexp"
    TAN = "tan"
    ASIN = "asin"
    ACOS = "acos"
    ATAN = "atan"
    ATAN2 = "atan2"
    SINH = "sinh"
    COSH = "cosh"
    ASINH = "asinh"
    ACOSH = "acosh"
    ATANH = "atanh"
    ERFC = "erfc"
    LGAMMA = "lgamma"
    HARDSWISH = "hardswish"
    CAT = "cat"
    CALL = "call"  # a function as a whole, see results_of
    RESULT = "result"
    RESAMPLE = "resample"
    MAX_POOL = "max pool"
    SUM_POOL = "sum pool"
    SOLVE = "solve"
    DET = "det"
    COFACTOR = "cofactor"
    SLOGDET = "slogdet"
    LU = "lu"
    CHOLESKY = "cholesky"
    QR = "qr"
    EIGH = "eigh"
    EIGVALSH = "eigvalsh"
    SVD = "svd"
    SVDVALS = "svdvals"
    PINV = "pinv"


class _Mode(threading.local):
    enabled = True


_mode = _Mode()


class _set_mode(ContextDecorator):
    """Switches recording on or off for a block or a function, in this thread."""

    _value = False

    def __init__(self) -> None:
        self._saved: list[bool] = []

    def _recreate_cm(self) -> _set_mode:
        return type(self)()

    def __enter__(self) -> None:
        self._saved.append(_mode.enabled)
        _mode.enabled = self._value

    def __exit__(self, *_: object) -> None:
        _mode.enabled = self._saved.pop()


class no_grad(_set_mode):
    """``with no_grad():`` or ``@no_grad()``: results inside don't require gradients, whatever their operands.
    """


class enable_grad(_set_mode):
    """Undoes :class:`no_grad` for a block or function."""

    _value = True


def is_grad_enabled() -> bool:
    """Whether operations in this thread are being recorded for gradients."""
    return _mode.enabled


def rebind(x: Tensor, value: Tensor) -> Tensor:
    """Make the handle ``x`` denote ``value``. Nodes that were built from the old value keep it.

    Raises GradientError for a leaf that requires gradients, unless under :class:`no_grad`.
    """
    note_rebind(x)
    note_read(value)
    if _mode.enabled:
        if x._node is not None and x._node.leaf is not None:
            raise GradientError(
                "a leaf tensor that requires gradients can't be changed in place while operations are "
                "recorded; do it under no_grad(), or write x = x + y"
            )
        x._node = value._node
    x.lazy = value.lazy
    return x


Parent: TypeAlias = "Node | LazyBuffer | None"


class Node:
    """A vertex of the autograd graph: one recorded operation, or (``op`` None) a leaf that gradients are
    gathered for.

    It keeps graph nodes rather than tensors, because a tensor is a handle that may be rebound later. A parent
    is the node of an operand, or the operand's graph node if it has none, or None where gradients stop.

    ``tracked`` says that a leaf requires gradients. Other operations are recorded too, until their result is
    realised, so that ``y.gradient(x)`` works for an ``x`` that didn't ask for gradients.
    """

    __slots__ = (
        "__weakref__",
        "arg",
        "dtypes",
        "inputs",
        "leaf",
        "op",
        "output",
        "parents",
        "shapes",
        "tracked",
        "wanted",
    )

    def __init__(
        self,
        op: Op | Composite | None,
        arg: Any = None,
        parents: tuple[Parent, ...] = (),
        tracked: bool = False,
    ):
        self.op = op
        self.arg = arg
        self.parents = parents
        self.tracked = tracked
        self.wanted: tuple[bool, ...] = ()
        self.shapes: tuple[tuple[int, ...], ...] = ()
        self.dtypes: tuple[DType, ...] = ()
        self.inputs: tuple[LazyBuffer, ...] = ()
        self.output: LazyBuffer | None = None
        self.leaf: weakref.ref[Tensor] | None = None

    def needs(self, i: int) -> bool:
        """Whether the walk in progress wants a gradient for operand ``i``."""
        return self.wanted[i]

    def x(self, g: Tensor, i: int = 0) -> Tensor:
        """Operand ``i`` as a tensor that leads back to the operations that made it."""
        parent = self.parents[i]
        return g._new(
            self.inputs[i], parent if isinstance(parent, Node) else DETACHED if parent is None else None
        )

    def y(self, g: Tensor) -> Tensor:
        """The result as a tensor."""
        assert self.output is not None
        return g._new(self.output, self)

    def release(self) -> None:
        """Let go of everything that the backward pass needed."""
        self.parents, self.inputs, self.output, self.arg = (), (), None, _RELEASED

    @property
    def is_released(self) -> bool:
        return self.arg is _RELEASED


_RELEASED = object()
DETACHED = Node(None)  # the node of values that gradients must not flow into


@dataclass(frozen=True)
class Rule:
    """``function(node, g)`` gives the gradient for each operand; ``inputs`` and ``output`` say which values
    it reads.
    """

    function: Callable[[Node, Tensor], tuple[Tensor | None, ...]]
    inputs: bool
    output: bool


RULES: dict[Op | Composite, Rule] = {}


def rule(*ops: Op | Composite, inputs: bool = False, output: bool = False) -> Callable[..., Any]:
    """Decorator that enters a function into the rule table for ``ops``."""

    def enter(function: Callable[[Node, Tensor], tuple[Tensor | None, ...]]) -> Any:
        for op in ops:
            RULES[op] = Rule(function, inputs, output)
        return function

    return enter


def record(op: Op | Composite, arg: Any, operands: Sequence[Tensor], result: LazyBuffer) -> Node | None:
    """The node for an operation that was just done, or None where no gradient can flow through it."""
    if not _mode.enabled or not result.dtype.is_float:
        return None
    entry = RULES.get(op)
    if entry is None:
        return None
    tracked, open_, parents = False, False, []
    for t in operands:
        own = t._node
        parent: Parent = own
        if own is None:
            parent = t.lazy
        elif own is DETACHED:
            parent = None
        elif own.tracked:
            tracked = True
        elif t.lazy.op is Op.BUFFER:  # a realised value lets go of what made it
            t._node, parent = None, t.lazy
        parents.append(parent)
        open_ = open_ or parent is not None
    if not open_:
        return None
    node = Node(op, arg, tuple(parents), tracked)
    node.shapes = tuple([t.lazy.shape for t in operands])
    node.dtypes = tuple([t.lazy.dtype for t in operands])
    if entry.inputs:
        node.inputs = tuple([t.lazy for t in operands])
    if entry.output:
        node.output = result
    return node


def leaf_node(tensor: Tensor) -> Node:
    """The vertex at which gradients for ``tensor`` are gathered; it doesn't keep the tensor alive."""
    node = Node(None, tracked=True)
    node.leaf = weakref.ref(tensor)
    return node


class Several:
    """The gradients of some of a call's results, by their numbers."""

    def __init__(self, parts: dict[int, Tensor]) -> None:
        self.parts = parts

    def __add__(self, other: Several) -> Several:
        out = dict(self.parts)
        for i, g in other.parts.items():
            out[i] = out[i] + g if i in out else g
        return Several(out)


Pull: TypeAlias = "Callable[[Node, dict[int, Tensor]], Sequence[Tensor | None]]"


def results_of(pull: Pull, parents: Sequence[Parent], count: int) -> list[Node]:
    """The nodes of the ``count`` results of a function of ``parents``.

    ``pull(node, gradients)`` gives the gradient of each parent, None where the node doesn't need it, from
    those of the results, by number. It is called once for all results.
    """
    tracked = any(isinstance(p, Node) and p.tracked for p in parents)
    call = Node(Composite.CALL, pull, tuple(parents), tracked)
    return [Node(Composite.RESULT, i, (call,), tracked) for i in range(count)]


@rule(Composite.RESULT)
def _result(n: Node, g: Tensor) -> tuple[Any, ...]:
    return (Several({n.arg: g}),)


@rule(Composite.CALL)
def _call(n: Node, g: Any) -> tuple[Tensor | None, ...]:
    return tuple(n.arg(n, g.parts))


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
    return x


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
