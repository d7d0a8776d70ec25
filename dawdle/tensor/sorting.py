"""Order along a dimension. Values are gathered by their indices, so that gradients flow back to them.

Where the order is found: the first element is found by argmax. Along up to COUNTED elements the device counts
for each how many come before it (n comparisons for each, all in one kernel, no copies to the host). Along
more, and on NUMPY, NumPy sorts on the host, behind a CUSTOM node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dawdle.dtype import Array, int32, int64, uint8
from dawdle.errors import ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import apply, axis_of, cast, constant, dims, expand_to, on_host, same, widen
from dawdle.tensor.extrema import Selection, argmax, argmin
from dawdle.tensor.reduce import positions, without

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

# the longest dimension that is ordered by counting. On two CPU cores it takes a tenth to a third of NumPy's
# time up to 128 elements; a GPU compares a thousand times as fast, and the host is far from it
COUNTED = {"NUMPY": 0, "CUDA": 2048}
COUNTED_ELSEWHERE = 128


@dataclass(frozen=True)
class HostOrder:
    """What a CUSTOM node runs: the indices of the elements number ``start`` to ``stop`` of the order along
    ``axis``, which counts from the end, so that more dimensions may come before. Equal graphs hold equal
    ones.
    """

    axis: int
    descending: bool
    start: int
    stop: int

    def __call__(self, x: Array) -> Array:
        keys = np.moveaxis(_unsigned(x), self.axis, -1)
        keys = ~keys if self.descending else keys
        index = self._packed(keys) if keys.dtype == np.uint32 else self._sorted(keys)
        return np.ascontiguousarray(np.moveaxis(index, -1, self.axis))

    def _sorted(self, keys: Array) -> Array:
        order = np.argsort(keys, -1, kind="stable")[..., self.start : self.stop]
        return order.astype(np.int64, copy=False)

    def _packed(self, keys: Array) -> Array:
        """By keys that hold the index in their lower half: they are distinct, so that NumPy's vectorised
        sorting, which isn't stable, gives the stable order, and only the part that is asked for is sorted.
        """
        n = keys.shape[-1]
        both = (keys.astype(np.uint64) << np.uint64(32)) | np.arange(n, dtype=np.uint64)
        ends = sorted({i for i in (self.start, self.stop) if 0 < i < n})
        if ends:
            both.partition(ends, -1)
        part = both[..., self.start : self.stop]
        part.sort(-1)
        return (part & np.uint64(0xFFFFFFFF)).astype(np.int64)


def _unsigned(x: Array) -> Array:
    """Unsigned integers in the order of ``x``: NaN largest, the zeros equal."""
    kind = x.dtype.kind
    if kind == "b":
        return x.view(np.uint8)
    bits: Array = np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")
    if kind == "u":
        return bits
    top = bits.dtype.type(1 << (8 * x.dtype.itemsize - 1))
    if kind == "i":
        return np.asarray(bits ^ top)
    bits = np.where(x != x, top - bits.dtype.type(1), np.where(x == 0, bits.dtype.type(0), bits))
    return np.asarray(np.where(bits & top, ~bits, bits | top))


def _comparable(x: Tensor) -> Tensor:
    """Integers in the order of ``x``, as :func:`_unsigned` on the device: of floats, the bits with those of
    negative numbers reversed.
    """
    dtype = x.lazy.dtype
    if dtype.is_bool:
        return cast(x, uint8)
    if not dtype.is_float:
        return x
    x = widen(x)
    signed = int32 if x.lazy.dtype.bits == 32 else int64
    bits = apply(Op.BITCAST, signed, x)
    ordered = ew.where(ew.lt(bits, 0), ew.bitxor(bits, signed.max), bits)
    return ew.where(ew.isnan(x), signed.max, ew.where(ew.eq(x, 0), 0, ordered))


def _counted(x: Tensor, axis: int, descending: bool, start: int, stop: int) -> Tensor:
    """Each element's place in the order is the number of elements before it; the indices of those within
    ``start`` to ``stop`` are then written there.
    """
    shape = x.lazy.shape
    n = shape[axis]
    lead, tail = shape[:axis], shape[axis + 1 :]
    key = _comparable(x)
    square = (*lead, n, n, *tail)
    mine = expand_to(apply(Op.RESHAPE, (*lead, n, 1, *tail), key), square)
    other = expand_to(apply(Op.RESHAPE, (*lead, 1, n, *tail), key), square)
    earlier = ew.lt(positions(mine, axis + 1, int32), positions(mine, axis, int32))
    before = ew.bitor(
        ew.gt(other, mine) if descending else ew.lt(other, mine), ew.bitand(ew.eq(other, mine), earlier)
    )
    rank = without(apply(Op.SUM, (axis + 1,), cast(before, int32)), (axis + 1,))
    base = constant(x, 0, int64, (*lead, stop - start, *tail))
    source = expand_to(positions(x, axis), shape)
    return apply(Op.SCATTER, (axis, None), base, ew.sub(rank, start), source)


def ordered(x: Tensor, axis: int, start: int, stop: int, descending: bool = False) -> Tensor:
    """The indices along ``axis`` of the elements number ``start`` to ``stop`` in order; int64. Equal elements
    keep their order, NaN counts as largest.
    """
    x = x.detach()
    shape = x.lazy.shape
    if (start, stop) == (0, 1) and (descending or not x.lazy.dtype.is_float):
        return (argmax if descending else argmin)(x, axis, True)
    if shape[axis] <= COUNTED.get(x.lazy.device, COUNTED_ELSEWHERE):
        return _counted(x, axis, descending, start, stop)
    function = HostOrder(axis - len(shape), descending, start, stop)
    result = (*shape[:axis], stop - start, *shape[axis + 1 :])
    return on_host(function, result, x, dtype=int64)


def selected(x: Tensor, axis: int, index: Tensor, keepdim: bool = True) -> Selection:
    """The elements of ``x`` at ``index`` along ``axis``, which keeps size 1 or goes."""
    both = apply(Op.GATHER, axis, x, index), index
    return Selection(*(both if keepdim else [without(t, (axis,)) for t in both]))


def lone(x: Tensor) -> Selection:
    """A 0-dimensional tensor is all that could be selected from it."""
    return Selection(same(x), constant(x, 0, int64))


@dims
def argsort(x: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices that sort ``x`` along ``dim``; int64. Equal elements keep their order (``stable`` or not),
    NaN counts as largest. Orders of many elements are found on the host.
    """
    shape = x.lazy.shape
    axis = axis_of(dim, len(shape), "argsort", shape)
    return ordered(x, axis, 0, shape[axis], descending) if shape else lone(x).indices


@dims
def sort(x: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Selection:
    """The elements sorted along ``dim`` and the indices that they come from, as a named tuple ``values,
    indices``; see :func:`argsort`.
    """
    shape = x.lazy.shape
    axis = axis_of(dim, len(shape), "sort", shape)
    return selected(x, axis, ordered(x, axis, 0, shape[axis], descending)) if shape else lone(x)


def msort(x: Tensor) -> Tensor:
    """The elements sorted along the first dimension; see :func:`sort`."""
    out: Selection = sort(x, 0)
    return out.values


@dims
def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Selection:
    """The ``k`` largest or smallest elements along ``dim`` and the indices that they come from, as a named
    tuple ``values, indices``, in order (``sorted`` or not); see :func:`argsort`. Raises ShapeError unless
    there are ``k``.
    """
    shape = x.lazy.shape
    axis = axis_of(dim, len(shape), "topk", shape)
    if not 0 <= k <= (shape[axis] if shape else 1):
        raise ShapeError(f"topk: k={k} is not within dimension {axis} of shape {shape}")
    return selected(x, axis, ordered(x, axis, 0, k, largest)) if shape else lone(x)


@dims
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Selection:
    """The ``k``-th smallest element (from 1) along ``dim`` and its index, as a named tuple ``values,
    indices``; see :func:`argsort`. Raises ShapeError unless there are ``k``.
    """
    shape = x.lazy.shape
    axis = axis_of(dim, len(shape), "kthvalue", shape)
    if not 1 <= k <= (shape[axis] if shape else 1):
        raise ShapeError(f"kthvalue: k={k} is not within 1 to the size of dimension {axis} of shape {shape}")
    return selected(x, axis, ordered(x, axis, k - 1, k), keepdim) if shape else lone(x)
