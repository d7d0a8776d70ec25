"""A kernel while the scheduler is still putting it together, and where it reads the nodes below it."""
from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from dawdle.lazy.axes import Access, Axes, Index, extent, free
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.facts import Facts, operands
from dawdle.lazy.ops import MOVEMENT, REDUCE, Op

MAX_OPS, MAX_READS, MAX_OUTPUTS = 200, 30, 16  # of a kernel: more of them would only slow compilers down


class Use(Enum):
    """How a draft uses a node that it reads."""

    PLAIN = "plain"
    BODY = "body"  # on the way from a contraction to the product it sums
    PACKED = "packed"  # a contraction's operand: copied to packed tiles, about twice for each element
    WINDOWED = "windowed"  # the same, under a WINDOW
    WHOLE = "whole"  # from memory, by a transfer or a host function
    LATER = "later"  # not at all, but the draft waits for it

    @property
    def packed(self) -> bool:
        return self in (Use.PACKED, Use.WINDOWED)


Read = tuple[Access, Use]
LATER: Read = ((), Use.LATER)
Reads = dict[int, list[Read]]  # by draft


@dataclass
class Draft:
    """A step under construction. ``ranges`` are those of ``space``, zero for axes of size 1."""

    root: LazyBuffer
    space: tuple[int, ...]
    ranges: Access
    outputs: list[LazyBuffer]
    reasons: list[str]
    inputs: dict[int, LazyBuffer] = field(default_factory=dict)
    reads: set[int] = field(default_factory=set)  # ids of what it reads, or may still inline
    producers: set[int] = field(default_factory=set)  # drafts that it reads outputs of
    ops: int = 0
    contraction: bool = False
    reductions: list[tuple[int, ...]] = field(default_factory=list)  # extents

    @property
    def is_map(self) -> bool:
        """Whether it computes each point of its space on its own."""
        return self.root.op not in (Op.SCAN, Op.SCATTER, Op.COPY, Op.CUSTOM)

    @property
    def is_kernel(self) -> bool:
        return self.root.op not in (Op.COPY, Op.CUSTOM)

    def stores(self, node: LazyBuffer, index: Access) -> bool:
        """Whether ``node``, computed at ``index``, can be an output (see plan.Group)."""
        shape, space = node.shape, self.space
        if len(shape) == len(space):
            dims = zip(shape, index, space, self.ranges, strict=True)
            if all(n == 1 or (n == m and t is r) for n, t, m, r in dims):
                return True
        wide = [(n, t) for n, t in zip(shape, index, strict=True) if n != 1]
        return wide == [(m, r) for m, r in zip(space, self.ranges, strict=True) if m != 1]


class Drafts:
    """All drafts of a schedule, their ranges, and how often an index makes them compute something."""

    def __init__(self, facts: Facts) -> None:
        self.all: list[Draft] = []
        self.axes = Axes()
        self.facts = facts
        self.inside: dict[Index, frozenset[Index]] = {}  # the loops open where a range is, itself included
        self._bound: dict[tuple[object, ...], Index] = {}

    def open(self, node: LazyBuffer, reason: str) -> int:
        """A new draft that computes ``node``."""
        ranges = self._nested(frozenset(), [self.axes.range(n) for n in node.shape])
        self.all.append(Draft(node, node.shape, ranges, [node], [reason]))
        return len(self.all) - 1

    def _nested(self, outer: frozenset[Index], ranges: list[Index]) -> Access:
        for r in ranges:
            if r is not self.axes.zero:
                outer |= {r}
                self.inside.setdefault(r, outer)
        return tuple(ranges)

    def loops(self, index: Access) -> frozenset[Index]:
        """The loops that are open where all ranges of ``index`` are."""
        return frozenset().union(*(self.inside[r] for r in free(index)))

    def times(self, read: Read) -> int:
        """How often one read makes its node be computed, hoisted as far out as its ranges allow."""
        index, use = read
        return 2 * extent(free(index)) if use.packed else extent(self.loops(index))

    def bound(self, number: int, node: LazyBuffer, index: Access, sizes: list[int]) -> list[Index]:
        """The ranges of a reduction read at ``index``; alike reductions in the same place share them."""
        outer = self.loops(index)
        height = self.facts[id(node)].height
        keys = [(number, outer, height, i, n) for i, n in enumerate(sizes)]
        ranges = [self._bound.get(k) or self._bound.setdefault(k, self.axes.range(k[-1])) for k in keys]
        return list(self._nested(outer, ranges))

    def below(self, number: int, node: LazyBuffer, read: Read) -> list[tuple[LazyBuffer, Read]]:
        """What computing ``node`` for one read of draft ``number`` reads."""
        index, use = read
        if node.op in MOVEMENT:
            moved = self.axes.move(node, index)
            return [(node.src[0], (moved, Use.WINDOWED if use.packed and node.op is Op.WINDOW else use))]
        if node.op in REDUCE:
            taps = self.bound(number, node, index, [node.src[0].shape[a] for a in node.arg])
            inner = list(index)
            for axis, tap in zip(node.arg, taps, strict=True):
                inner[axis] = tap
            return [(node.src[0], (tuple(inner), self._summed(node)))]
        if node.op is Op.UNWINDOW:
            taps = self.bound(number, node, index, [size for size, _, _ in node.arg[0]])
            return [(node.src[0], (self.axes.unwindow(node, index, taps), self._summed(node)))]
        if node.op is Op.GATHER:
            return [(node.src[0], (self.axes.gather(node, index), use)), (node.src[1], read)]
        if node.op is Op.SCATTER:
            return self._scattered(node, index)
        if node.op is Op.AFTER:
            return [*[(s, LATER) for s in node.src[:-1]], (node.src[-1], read)]
        if use is Use.BODY and node.op is Op.MUL:
            use = Use.PACKED
        return [(s, (index, use)) for s in operands(node)]

    def _summed(self, node: LazyBuffer) -> Use:
        return Use.BODY if self.facts[id(node)].is_contraction else Use.PLAIN

    def _scattered(self, node: LazyBuffer, index: Access) -> list[tuple[LazyBuffer, Read]]:
        base, position, x = node.src
        axis = node.arg[0]
        others = (*index[:axis], self.axes.zero, *index[axis + 1 :])
        (row,) = self._nested(self.loops(others), [self.axes.range(x.shape[axis])])
        inner = ((*index[:axis], row, *index[axis + 1 :]), Use.PLAIN)
        return [(base, (index, Use.PLAIN)), (position, inner), (x, inner)]

    def feeds(self, sources: set[int], number: int, budget: int = 500) -> bool:
        """Whether draft ``number`` needs a result of one of ``sources``; past ``budget`` it is taken to."""
        seen, stack = {number}, [number]
        while stack:
            for producer in self.all[stack.pop()].producers:
                if producer in sources or len(seen) > budget:
                    return True
                if producer not in seen:
                    seen.add(producer)
                    stack.append(producer)
        return False
