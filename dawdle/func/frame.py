"""What a function did with stand-ins for its arguments, taken over to the arguments, in one piece.

A frame knows what the values inside of it mean outside: those of all elements of a batch, or those computed a
second time. Its results are recorded as one operation. The gradient of that one is found inside of the frame,
where the function was recorded, and taken over to the outside like the results themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dawdle.lazy.buffer import LazyBuffer
from dawdle.runtime.trace import note_read
from dawdle.tensor import Tensor
from dawdle.tensor.autograd import DETACHED, Node, Parent, is_grad_enabled, results_of
from dawdle.tensor.backpropagation import pull, toposort


def name_of(func: Callable[..., Any]) -> str:
    """What errors call a function."""
    return getattr(func, "__name__", repr(func))


@dataclass(frozen=True)
class StandIn:
    """A tensor that a function gets in the place of ``outer``."""

    inner: Tensor
    outer: Tensor
    node: Node | None  # of ``inner`` at first, which the function may rebind; None if nothing is recorded

    @staticmethod
    def of(outer: Tensor, lazy: LazyBuffer) -> StandIn:
        """A stand-in with the value ``lazy``."""
        note_read(outer)
        recorded = outer.dtype.is_float and outer._node is not DETACHED
        node = Node(None, tracked=outer.requires_grad) if recorded else None
        inner = outer._new(lazy, node if recorded or not outer.dtype.is_float else DETACHED)
        return StandIn(inner, outer, node)

    @property
    def parent(self) -> Parent:
        """What stands in the graph outside in the place of ``node``."""
        own = self.outer._node
        return self.outer.lazy if own is None else own


class Frame(ABC):
    """``stand_ins`` are what is known of the outside inside."""

    def __init__(self, stand_ins: Sequence[StandIn]) -> None:
        self.stand_ins = tuple(stand_ins)

    @property
    def ends(self) -> set[int]:
        """The ids of nodes below which the outside is."""
        return {id(s.node) for s in self.stand_ins if s.node is not None}

    @abstractmethod
    def values(self, nodes: Sequence[LazyBuffer]) -> list[LazyBuffer | None]:
        """What values inside are outside; None for those that are the outside's."""

    @abstractmethod
    def inside(self, order: Sequence[Node]) -> set[int]:
        """The ids of those of ``order``, users first, whose gradient has to be found inside."""

    @abstractmethod
    def shared(self, x: Tensor) -> Tensor:
        """The outside's own value as a result."""

    @abstractmethod
    def gathered(self, g: Tensor) -> Tensor:
        """The gradient of the outside's own value, from that of its use inside."""

    @abstractmethod
    def entered(self, gradients: Mapping[int, Tensor]) -> tuple[Frame, dict[int, Tensor]]:
        """This frame with stand-ins for ``gradients``, which are given back."""


def leave(frame: Frame, results: Sequence[Tensor]) -> list[Tensor]:
    """Results of a function inside of ``frame`` as tensors outside, recorded as results of its arguments."""
    values = frame.values([t.lazy for t in results])
    nodes = _recorded(frame, results, values)
    return [
        frame.shared(t) if value is None else t._new(value, DETACHED if t._node is DETACHED else node)
        for t, value, node in zip(results, values, nodes, strict=True)
    ]


def held(node: Node) -> list[LazyBuffer]:
    """The values that a recorded operation keeps for its gradient."""
    arg = node.arg if isinstance(node.arg, tuple) else ()
    kept = [*node.inputs, *arg, node.output]
    return [x for x in kept if isinstance(x, LazyBuffer)]


def _recorded(
    frame: Frame, results: Sequence[Tensor], values: Sequence[LazyBuffer | None]
) -> Sequence[Node | None]:
    roots: dict[int, Node] = {}
    for i, (t, value) in enumerate(zip(results, values, strict=True)):
        if value is not None and t._node is not None and t._node is not DETACHED:
            roots[i] = t._node
    nothing = [None] * len(results)
    if not is_grad_enabled() or not roots:
        return nothing
    targets = _targets(frame, list(roots.values()))
    own = {id(s.node): s for s in frame.stand_ins if s.node is not None}

    def gradients(node: Node, given: dict[int, Tensor]) -> list[Tensor | None]:
        below, seeds = frame.entered(given)
        wanted = [k for k in range(len(targets)) if node.needs(k)]
        ends = [(roots[i], g) for i, g in seeds.items()]
        found = pull(ends, [targets[k] for k in wanted], is_grad_enabled())
        reached = {k: g for k, g in zip(wanted, found, strict=True) if g is not None}
        out: list[Tensor | None] = [None] * len(targets)
        for k, g in zip(reached, leave(below, list(reached.values())), strict=True):
            out[k] = g if id(targets[k]) in own else frame.gathered(g)
        return out

    parents = [own[id(t)].parent if id(t) in own else t for t in targets]
    nodes = results_of(gradients, parents, len(results)) if parents else nothing
    return [node if i in roots else None for i, node in enumerate(nodes)]


def _targets(frame: Frame, roots: Sequence[Node]) -> list[Parent]:
    """The nodes and values outside, and the stand-ins, that the operations inside got directly."""
    ends = frame.ends
    order = toposort(roots, ends)
    inside = frame.inside([node for node in order if id(node) not in ends])
    found: dict[int, Any] = {id(n): n for n in roots if id(n) not in inside}
    for node in order:
        if id(node) in inside:
            found.update((id(p), p) for p in node.parents if p is not None and id(p) not in inside)
    values = [p for p in found.values() if isinstance(p, LazyBuffer)]
    within = {id(p) for p, value in zip(values, frame.values(values), strict=True) if value is not None}
    return [p for key, p in found.items() if key not in within]
