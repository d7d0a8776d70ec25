"""Abstract indices: which elements a kernel reads of a node, as far as the scheduler needs to know.

A kernel reads a node at a tuple with one Index for each axis. An Index is a tree over the kernel's ranges;
trees are interned, so equal indices are one object. What is forgotten is arithmetic: a tree only says what it
depends on, and whether it is one to one.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import Op


class Index:
    """One node of a tree: ``kind`` applied to ``src``.

    "range" (``arg``: extent), "zero", "merge" (row-major offset in the shape ``arg``), "digit" (its inverse,
    one coordinate of an offset: ``// arg[0] % arg[1]``, out of ``arg[2]``), and the maps of the movement ops:
    "flip", "slice", "pad", "window", "unwindow", "gather".
    """

    __slots__ = ("arg", "free", "injective", "kind", "src")
    kind: str
    arg: Any
    src: tuple[Index, ...]
    free: frozenset[Index]  # the ranges it depends on
    injective: bool  # built of bijections and slices

    def __repr__(self) -> str:
        return f"<{self.kind} {self.arg}>"


Access = tuple[Index, ...]
Dims = list[tuple[int, Index]]

_INJECTIVE = frozenset({"range", "zero", "merge", "digit", "flip", "slice"})


def free(index: Access) -> frozenset[Index]:
    """The ranges that ``index`` depends on."""
    return frozenset().union(*(t.free for t in index))


def extent(ranges: Iterable[Index]) -> int:
    """How many points the ``ranges`` span together."""
    return math.prod(r.arg for r in ranges)


def is_injective(index: Access, size: int) -> bool:
    """Whether no element of a node of ``size`` elements is read at two points of the ranges in ``index``."""
    return all(t.injective for t in index) and extent(free(index)) <= size


def factor_groups(a: Sequence[int], b: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Runs of axes of two shapes with equal products, as short as possible; axes of size 1 are left out."""
    left = [i for i, n in enumerate(a) if n != 1]
    right = [i for i, n in enumerate(b) if n != 1]
    groups, i, j = [], 0, 0
    while i < len(left):
        i0, j0, size_a, size_b = i, j, a[left[i]], b[right[j]]
        i, j = i + 1, j + 1
        while size_a != size_b:
            if size_a < size_b:
                size_a, i = size_a * a[left[i]], i + 1
            else:
                size_b, j = size_b * b[right[j]], j + 1
        groups.append((left[i0:i], right[j0:j]))
    return groups


class Axes:
    """Makes and interns the indices of one schedule."""

    def __init__(self) -> None:
        self._interned: dict[tuple[Any, ...], Index] = {}
        self.zero = self._make("zero", None, ())

    def _make(self, kind: str, arg: Any, src: tuple[Index, ...]) -> Index:
        key = (kind, arg, src)
        found = self._interned.get(key)
        return found if found is not None else self._interned.setdefault(key, self._new(kind, arg, src))

    def _new(self, kind: str, arg: Any, src: tuple[Index, ...]) -> Index:
        index = Index()
        index.kind, index.arg, index.src = kind, arg, src
        index.free = frozenset((index,)) if kind == "range" else free(src)
        index.injective = kind in _INJECTIVE and all(s.injective for s in src)
        return index

    def range(self, n: int) -> Index:
        """A new range over 0..n-1; over nothing but 0 it is zero."""
        return self.zero if n == 1 else self._new("range", n, ())

    def merge(self, dims: Dims) -> Index:
        """The row-major offset of an index whose axes are given as (size, index)."""
        flat: Dims = []
        for n, t in dims:
            if t.kind == "merge" and math.prod(t.arg) == n:
                flat.extend(zip(t.arg, t.src, strict=True))
            elif n != 1:
                self._append(flat, n, t)
        if all(t is self.zero for _, t in flat):
            return self.zero
        if len(flat) == 1:
            return flat[0][1]
        return self._make("merge", tuple(n for n, _ in flat), tuple(t for _, t in flat))

    def _append(self, flat: Dims, n: int, t: Index) -> None:
        """Add an inner axis; adjacent digits of one offset become one."""
        while flat and t.kind == "digit" == flat[-1][1].kind and t.src == flat[-1][1].src:
            (stride, size, total), (stride_before, size_before, _) = t.arg, flat[-1][1].arg
            if stride_before != stride * size or (n, flat[-1][0]) != (size, size_before):
                break
            n *= flat.pop()[0]
            t = self.digit(t.src[0], stride, n, total)
        flat.append((n, t))

    def digit(self, offset: Index, stride: int, size: int, total: int) -> Index:
        """``offset // stride % size``, where ``offset`` runs over ``total``: one coordinate of an offset."""
        if size == 1 or offset is self.zero:
            return self.zero
        if size == total:
            return offset
        # digit(digit(t)) -> digit(t)
        if offset.kind == "digit" and offset.arg[1] == total:
            outer, _, whole = offset.arg
            return self.digit(offset.src[0], stride * outer, size, whole)
        if offset.kind == "merge" and math.prod(offset.arg) == total:
            return self._digit_of_merge(offset, stride, size, total)
        return self._make("digit", (stride, size, total), (offset,))

    def _digit_of_merge(self, offset: Index, stride: int, size: int, total: int) -> Index:
        """Whole axes of the merge, or a part of one, where the digit covers just those."""
        covered: Dims = []
        inner = 1
        for n, t in zip(reversed(offset.arg), reversed(offset.src), strict=True):
            if stride % inner == 0 == n % (stride // inner * size):
                return self.digit(t, stride // inner, size, n)
            if stride <= inner and inner * n <= stride * size:
                covered.insert(0, (n, t))
            inner *= n
        if math.prod(n for n, _ in covered) == size:
            return self.merge(covered)
        return self._make("digit", (stride, size, total), (offset,))

    def move(self, node: LazyBuffer, index: Access) -> Access:
        """Where a movement node reads its operand when it is read at ``index``."""
        shape = node.src[0].shape
        moved = _MOVE[node.op](self, node, index)
        return tuple(self.zero if n == 1 else t for n, t in zip(shape, moved, strict=True))

    def unwindow(self, node: LazyBuffer, index: Access, taps: Sequence[Index]) -> Access:
        """Where tap ``taps`` of an UNWINDOW reads its operand."""
        windows, _ = node.arg
        lead = len(index) - len(windows)
        places = [
            t if w == (1, 1, 1) else self._make("unwindow", w, (t, tap))
            for t, tap, w in zip(index[lead:], taps, windows, strict=True)
        ]
        return (*index[:lead], *places, *taps)

    def gather(self, node: LazyBuffer, index: Access) -> Access:
        """Where a GATHER reads its first operand: along its axis, an index that depends on data."""
        place = self._make("gather", id(node.src[1]), index)
        return (*index[: node.arg], place, *index[node.arg + 1 :])

    def _reshape(self, node: LazyBuffer, index: Access) -> Access:
        shape = node.src[0].shape
        out = [self.zero] * len(shape)
        if 0 in shape:
            return tuple(out)
        for old, new in factor_groups(shape, node.shape):
            offset = self.merge([(node.shape[a], index[a]) for a in new])
            total = math.prod(node.shape[a] for a in new)
            stride = total
            for axis in old:
                stride //= shape[axis]
                out[axis] = self.digit(offset, stride, shape[axis], total)
        return tuple(out)

    def _permute(self, node: LazyBuffer, index: Access) -> Access:
        out = [self.zero] * len(index)
        for t, axis in zip(index, node.arg, strict=True):
            out[axis] = t
        return tuple(out)

    def _expand(self, node: LazyBuffer, index: Access) -> Access:
        return index  # move() puts zero where the operand's axis has size 1

    def _flip(self, node: LazyBuffer, index: Access) -> Access:
        sizes = enumerate(zip(index, node.shape, strict=True))
        return tuple(self._flipped(t, n) if axis in node.arg else t for axis, (t, n) in sizes)

    def _flipped(self, t: Index, n: int) -> Index:
        # flip(flip(t)) -> t
        return t.src[0] if t.kind == "flip" and t.arg == n else self._make("flip", n, (t,))

    def _slice(self, node: LazyBuffer, index: Access) -> Access:
        return tuple(
            t if (start, step) == (0, 1) else self._make("slice", (start, step), (t,))
            for t, (start, _, step) in zip(index, node.arg, strict=True)
        )

    def _pad(self, node: LazyBuffer, index: Access) -> Access:
        return tuple(
            self._padded(t, n, amounts)
            for t, n, amounts in zip(index, node.src[0].shape, node.arg, strict=True)
        )

    def _padded(self, t: Index, n: int, amounts: tuple[int, int, int]) -> Index:
        if amounts == (0, 0, 0):
            return t
        low, _, interior = amounts
        # pad(slice(t)) -> t where the slice takes what was padded
        if t.kind == "slice" and t.arg == (low, interior + 1):
            return t.src[0]
        return self._make("pad", (n, *amounts), (t,))

    def _window(self, node: LazyBuffer, index: Access) -> Access:
        k = len(node.arg)
        lead = len(index) - 2 * k
        places = []
        for axis, (size, stride, dilation) in enumerate(node.arg, lead):
            place, tap = index[axis], index[axis + k]
            if size == stride and dilation == 1:  # windows side by side: place * size + tap
                places.append(self.merge([(node.shape[axis], place), (size, tap)]))
            else:
                places.append(self._make("window", (size, stride, dilation), (place, tap)))
        return (*index[:lead], *places)


_MOVE: dict[Op, Callable[[Axes, LazyBuffer, Access], Access]] = {
    Op.RESHAPE: Axes._reshape,
    Op.PERMUTE: Axes._permute,
    Op.EXPAND: Axes._expand,
    Op.FLIP: Axes._flip,
    Op.SLICE: Axes._slice,
    Op.PAD: Axes._pad,
    Op.WINDOW: Axes._window,
}
