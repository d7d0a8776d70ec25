"""Graphs on one element made graphs on a batch of them: one rule for each op.

A node that depends on an element becomes a node with one more axis, the batch's, in front. All others stay as
they are, and are expanded only where they meet one that has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dawdle.dtype import Array, DType, uint32
from dawdle.errors import TransformError
from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.interpret import call_custom
from dawdle.lazy.ops import BINARY, REDUCE, UNARY, Op
from dawdle.lazy.walk import postorder

Values = Mapping[LazyBuffer, LazyBuffer]


class NoValue:
    """What a stand-in's function is: there is no value."""

    def __call__(self, *arrays: Array) -> Array:
        raise TransformError(
            "the value of a tensor was asked for inside of vmap, where it stands for all elements of the"
            " batch at once (or it was kept after that). Choose with where() instead of with `if`; for shapes"
            " that depend on values, and for Python code that needs them, loop over the batch instead"
        )


def stand_in(shape: Sequence[int], dtype: DType, device: str) -> LazyBuffer:
    """A node that stands for a value which isn't one array. Computing what depends on it raises
    TransformError.
    """
    function: Any = NoValue()  # each its own: no two stand-ins are equal
    return build.custom(function, build.const(0, dtype, device), shape=shape, dtype=dtype)


class Batch:
    """``size`` elements at once. ``elements`` maps stand-ins for an element to the values of all elements.

    ``base``: another batch of the same elements, whose nodes are used again.
    """

    def __init__(self, size: int, elements: Values, base: Batch | None = None) -> None:
        self.size = size
        self._base = base
        self._own = dict(elements)
        self._numbers: dict[str, LazyBuffer] = {}

    def number(self, device: str) -> LazyBuffer:
        """A stand-in for the element's number in the batch, uint32."""
        found = self._numbers.get(device)
        if found is None:
            found = self._numbers[device] = stand_in((), uint32, device)
            self._own[found] = build.iota(self.size, uint32, device)
        return found

    def get(self, node: LazyBuffer) -> LazyBuffer | None:
        """What is known of all elements' values."""
        found = self._own.get(node)
        return found if found is not None or self._base is None else self._base.get(node)

    def __contains__(self, node: LazyBuffer) -> bool:
        return self.get(node) is not None

    def dependent(self, nodes: Iterable[LazyBuffer]) -> set[LazyBuffer]:
        """Those below or among ``nodes`` that differ from element to element."""
        found: set[LazyBuffer] = set()
        for node in postorder(nodes, self._below):
            if node in self or any(s in found for s in node.src):
                found.add(node)
        return found

    def _below(self, node: LazyBuffer) -> tuple[LazyBuffer, ...]:
        return () if node in self else node.src

    def of(self, nodes: Sequence[LazyBuffer]) -> list[LazyBuffer | None]:
        """For each node that of all elements, its first axis theirs; None where all have the same."""
        for node in postorder(nodes, self._below):
            if node not in self and any(s in self for s in node.src):
                self._own[node] = RULES[node.op](node, _Operands(self, node))
        return [self.get(node) for node in nodes]


class _Operands:
    """A node's operands for all elements."""

    def __init__(self, batch: Batch, node: LazyBuffer) -> None:
        self.batch = batch
        self.src = node.src

    def mapped(self, i: int) -> bool:
        return self.src[i] in self.batch

    def __getitem__(self, i: int) -> LazyBuffer:
        x = self.src[i]
        return self.batch.get(x) or repeated(x, self.batch.size)

    def all(self) -> list[LazyBuffer]:
        return [self[i] for i in range(len(self.src))]


def repeated(x: LazyBuffer, size: int) -> LazyBuffer:
    """``x`` for each of ``size`` elements."""
    return build.expand(build.reshape(x, (1, *x.shape)), (size, *x.shape))


def total(x: LazyBuffer) -> LazyBuffer:
    """The sum over the first axis, which is dropped. A sum that it follows is made one with it, so that the
    gradient of a product is a product, not a batch of them.
    """
    moves = []
    y = x
    while (y.op is Op.RESHAPE and y.src[0].shape[:1] == y.shape[:1]) or (
        y.op is Op.PERMUTE and y.arg[0] == 0
    ):
        moves.append(y)
        y = y.src[0]
    if y.op is Op.SUM:
        y = build.reduce(Op.SUM, y.src[0], (0, *y.arg))
    else:
        y = build.reduce(Op.SUM, y, (0,))
    for move in reversed(moves):
        y = build.permute(y, move.arg) if move.op is Op.PERMUTE else build.reshape(y, (1, *move.arg[1:]))
    return build.reshape(y, x.shape[1:])


Rule = Callable[[LazyBuffer, _Operands], LazyBuffer]


def _after(axes: Iterable[int]) -> tuple[int, ...]:
    return tuple([a + 1 for a in axes])


def _slice(node: LazyBuffer, src: _Operands) -> LazyBuffer:
    return build.slice_(src[0], ((0, src.batch.size, 1), *node.arg))


def _gather(node: LazyBuffer, src: _Operands) -> LazyBuffer:
    if src.mapped(0):
        return build.gather(src[0], src[1], node.arg + 1)
    # from one array the places of all elements in one row
    return _rows_apart(build.gather(src.src[0], _rows(src[1], node.arg), node.arg), src[1].shape, node.arg)


def _rows(x: LazyBuffer, axis: int) -> LazyBuffer:
    """The batch's axis put in front of ``axis`` of an element, and both made one."""
    order = (*range(1, axis + 1), 0, *range(axis + 1, x.ndim))
    rest = x.shape[1:]
    return build.reshape(build.permute(x, order), (*rest[:axis], x.shape[0] * rest[axis], *rest[axis + 1 :]))


def _rows_apart(x: LazyBuffer, shape: Sequence[int], axis: int) -> LazyBuffer:
    """The inverse of :func:`_rows`."""
    size, *rest = shape
    x = build.reshape(x, (*rest[:axis], size, *rest[axis:]))
    return build.permute(x, (axis, *[a for a in range(x.ndim) if a != axis]))


def _scatter(node: LazyBuffer, src: _Operands) -> LazyBuffer:
    axis, how = node.arg
    return build.scatter(src[0], src[1], src[2], axis + 1, how)


@dataclass(frozen=True)
class Looped:
    """A CUSTOM node's function, called once for each element."""

    function: Callable[..., Array]
    mapped: tuple[bool, ...]  # whether an operand is another one for each element
    size: int
    shape: tuple[int, ...]
    dtype: DType

    @property
    def __name__(self) -> str:
        return str(getattr(self.function, "__name__", self.function))

    def __call__(self, *arrays: Array) -> Array:
        one = LazyBuffer(Op.CUSTOM, (), self.function, self.shape, self.dtype, "")
        out = np.empty((self.size, *self.shape), self.dtype.compute)
        for i in range(self.size):
            out[i] = call_custom(one, [a[i] if m else a for a, m in zip(arrays, self.mapped, strict=True)])
        return out


def _custom(node: LazyBuffer, src: _Operands) -> LazyBuffer:
    count = range(len(node.src))
    mapped = tuple([src.mapped(i) for i in count])
    function: Any = Looped(node.arg, mapped, src.batch.size, node.shape, node.dtype)
    operands = [src[i] if m else node.src[i] for i, m in enumerate(mapped)]
    return build.custom(function, *operands, shape=(src.batch.size, *node.shape), dtype=node.dtype)


RULES: dict[Op, Rule] = {
    **dict.fromkeys(UNARY - {Op.CAST, Op.BITCAST}, lambda n, src: build.unary(n.op, src[0])),
    **dict.fromkeys(BINARY, lambda n, src: build.binary(n.op, src[0], src[1])),
    **dict.fromkeys(REDUCE, lambda n, src: build.reduce(n.op, src[0], _after(n.arg))),
    Op.CAST: lambda n, src: build.cast(src[0], n.arg),
    Op.BITCAST: lambda n, src: build.bitcast(src[0], n.arg),
    Op.WHERE: lambda n, src: build.where(*src.all()),
    Op.FMA: lambda n, src: build.fma(*src.all()),
    Op.SCAN: lambda n, src: build.scan(n.arg[0], src[0], n.arg[1] + 1),
    Op.RESHAPE: lambda n, src: build.reshape(src[0], (src.batch.size, *n.arg)),
    Op.PERMUTE: lambda n, src: build.permute(src[0], (0, *_after(n.arg))),
    Op.EXPAND: lambda n, src: build.expand(src[0], (src.batch.size, *n.arg)),
    Op.FLIP: lambda n, src: build.flip(src[0], _after(n.arg)),
    Op.SLICE: _slice,
    Op.PAD: lambda n, src: build.pad(src[0], ((0, 0, 0), *n.arg)),
    Op.WINDOW: lambda n, src: build.window(src[0], n.arg),
    Op.UNWINDOW: lambda n, src: build.unwindow(src[0], *n.arg),
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
    Op.CHECK: lambda n, src: build.check(src[0], *n.arg),
    Op.CONTIGUOUS: lambda n, src: build.contiguous(src[0]),
    Op.COPY: lambda n, src: build.copy(src[0], n.arg),
    Op.AFTER: lambda n, src: build.after(*reversed(src.all())),
    Op.CUSTOM: _custom,
}
