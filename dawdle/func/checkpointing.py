"""``checkpoint``: what a gradient needs of a function's inside is computed again instead of kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dawdle import tree
from dawdle.func.frame import Frame, StandIn, leave
from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import Op
from dawdle.lazy.walk import postorder
from dawdle.runtime.trace import Watch, recording
from dawdle.tensor import Tensor
from dawdle.tensor.autograd import Node, is_grad_enabled


class _Checkpoint(Frame):
    """Inside and outside, values are the same; but gradients are found from values computed again.

    ``kept`` are the values from outside that the function used, ``outer`` the ids of the nodes they had.
    ``again`` maps values inside to the ones computed again, None as long as no gradient is asked for.
    """

    def __init__(
        self,
        stand_ins: Sequence[StandIn],
        kept: Iterable[LazyBuffer],
        outer: frozenset[int],
        again: dict[LazyBuffer, LazyBuffer] | None = None,
    ) -> None:
        super().__init__(stand_ins)
        self.kept, self.outer, self.again = tuple(kept), outer, again

    @property
    def ends(self) -> set[int]:
        return super().ends | self.outer

    def values(self, nodes: Sequence[LazyBuffer]) -> list[LazyBuffer | None]:
        if self.again is None:
            return list(nodes)
        known = self.again
        for node in postorder(nodes, lambda n: () if n in known else n.src):
            if node not in known:
                known[node] = _on([known[s] for s in node.src], node)
        return [known[node] for node in nodes]

    def inside(self, order: Sequence[Node]) -> set[int]:
        return {id(node) for node in order}

    def shared(self, x: Tensor) -> Tensor:
        return x

    def gathered(self, g: Tensor) -> Tensor:
        return g

    def entered(self, gradients: Mapping[int, Tensor]) -> tuple[Frame, dict[int, Tensor]]:
        new = {i: StandIn.of(g, g.lazy) for i, g in gradients.items()}
        given = [s.inner.lazy for s in new.values()]
        again = {x: build.after(x, *given) for x in self.kept} if self.again is None else dict(self.again)
        again.update((g, g) for g in given)
        frame = _Checkpoint((*self.stand_ins, *new.values()), self.kept, self.outer, again)
        return frame, {i: s.inner for i, s in new.items()}


def _on(src: Sequence[LazyBuffer], node: LazyBuffer) -> LazyBuffer:
    """``node`` on other operands."""
    return LazyBuffer(node.op, tuple(src), node.arg, node.shape, node.dtype, node.device) if src else node


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)``, of which the backward pass keeps nothing but the tensors that went in.

    Whatever else the gradients need is computed again when they are computed, which takes time instead of
    memory: around every layer of a deep network, the memory of one layer's inside rather than of all. Tensors
    in the arguments may be nested; others that the function uses, such as parameters, get their gradients as
    well. The function's Python code runs once; its graph is what is computed twice, from the same values and
    with the same random numbers, also if tensors have been assigned in between. Checkpoints may be nested and
    differentiated twice. Without gradients it is a mere call.

    ``use_reentrant`` and ``preserve_rng_state`` are accepted for programs that pass them, and have no effect.
    As ``torch.utils.checkpoint.checkpoint``. Source: Chen et al., Training Deep Nets with Sublinear Memory
    Cost, 2016.
    """
    if not is_grad_enabled():
        return function(*args, **kwargs)
    given, _ = tree.flatten((args, kwargs))
    stand_ins = {id(x): StandIn.of(x, x.lazy) for x in given if isinstance(x, Tensor) and x.dtype.is_float}
    inner = [stand_ins[id(x)].inner if id(x) in stand_ins else x for x in given]
    watch = Watch()
    with recording(watch):
        inner_args, inner_kwargs = tree.refill((args, kwargs), inner)
        out = function(*inner_args, **inner_kwargs)
    seen = list(watch.seen.values())
    own = {id(s.node) for s in stand_ins.values()}
    outer = frozenset(id(node) for _, node in seen if node is not None and id(node) not in own)
    frame = _Checkpoint(list(stand_ins.values()), _values(x for x, _ in seen), outer)
    results, _ = tree.flatten(out)
    left = iter(leave(frame, [t for t in results if isinstance(t, Tensor)]))
    return tree.refill(out, [next(left) if isinstance(t, Tensor) else t for t in results])


def _values(nodes: Iterable[LazyBuffer]) -> list[LazyBuffer]:
    """``nodes``, and what those are reshaped from: reshaping twice leaves out what is between."""
    found = list(nodes)
    return [*found, *[x.src[0] for x in found if x.op is Op.RESHAPE]]
