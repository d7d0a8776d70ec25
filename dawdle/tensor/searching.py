"""Searching sorted sequences, distinct elements, and counting.

Distinct elements and the counts of :func:`bincount` are found on the host and at once, because their number
depends on the data. Everything else runs on the device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dawdle.dtype import int32, int64, promote
from dawdle.errors import ArgumentError, DTypeError, RangeError, ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import (
    Operand,
    apply,
    cast,
    coerce,
    constant,
    cut,
    dims,
    to_float,
    widen,
)
from dawdle.tensor.extrema import amax, amin
from dawdle.tensor.joining import cat
from dawdle.tensor.movement import dimension
from dawdle.tensor.sorting import ordered

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

COMPARED = 32  # elements that each of the others is compared with one by one


# ---- sorted sequences


def searchsorted(
    x: Tensor,
    values: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Operand | None = None,
) -> Tensor:
    """For each of ``values``, the first index at which it can be put into ``x``, sorted along its last
    dimension, so that it stays so; with ``right`` (or ``side="right"``) the last. NaN counts as largest.

    ``x`` has one dimension, or the leading dimensions of ``values``. ``sorter`` holds the indices that sort
    ``x``. int64, or int32 with ``out_int32``. Raises ShapeError for other shapes.
    """
    if side not in (None, "left", "right") or (side == "left" and right):
        raise ArgumentError(f"searchsorted: side must be 'left' or 'right', got {side!r} with right={right}")
    x, wanted = x.detach(), coerce(x, values).detach()
    common = promote(x.lazy.dtype, wanted.lazy.dtype)
    shape, batch = wanted.lazy.shape, x.lazy.shape[:-1]
    if not x.lazy.shape or (batch and (len(shape) != len(batch) + 1 or shape[:-1] != batch)):
        raise ShapeError(
            f"searchsorted: values of shape {shape} in sequences {x.lazy.shape}; the sequences must have "
            "one dimension, or the leading dimensions of the values"
        )
    rows = math.prod(batch)
    n = x.lazy.shape[-1]
    flat = apply(Op.RESHAPE, (rows, n), cast(x, common))
    if sorter is not None:
        flat = apply(Op.GATHER, 1, flat, apply(Op.RESHAPE, (rows, n), coerce(x, sorter)))
    queries = apply(Op.RESHAPE, (rows, wanted.lazy.size // rows if rows else 0), cast(wanted, common))
    found = _bisect(flat, queries, right or side == "right")
    return apply(Op.RESHAPE, shape, cast(found, int32 if out_int32 else int64))


def _bisect(x: Tensor, values: Tensor, right: bool) -> Tensor:
    """How many elements of the sorted rows ``x`` come before each of ``values``: the answer's bits from the
    highest on.
    """
    n = x.lazy.shape[1]
    kind = int32 if n < 2**30 else int64
    low = constant(values, 0, kind)
    for step in [1 << i for i in reversed(range(n.bit_length()))]:
        probe = ew.add(low, step - 1)
        element = apply(Op.GATHER, 1, x, probe)
        inside = ew.lt(probe, n)
        low = ew.where(ew.bitand(inside, _before(element, values, right)), ew.add(low, step), low)
    return low


def _before(a: Tensor, b: Tensor, equal_too: bool) -> Tensor:
    """Whether ``a`` comes before ``b`` (or with it) in an order in which NaN is largest."""
    out = ew.le(a, b) if equal_too else ew.lt(a, b)
    if not a.lazy.dtype.is_float:
        return out
    last = ew.isnan(b)
    return ew.bitor(out, last if equal_too else ew.bitand(last, ew.eq(a, a)))


def bucketize(x: Tensor, boundaries: Operand, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The index of the bucket between sorted ``boundaries`` (one dimension) that holds each element: bucket
    i ends with boundary i, which belongs to it, or with ``right`` to the next. int64, or int32.
    """
    edges = coerce(x, boundaries)
    if len(edges.lazy.shape) != 1:
        raise ShapeError(f"bucketize: the boundaries must have one dimension, got shape {edges.lazy.shape}")
    return searchsorted(edges, x, out_int32=out_int32, right=right)


def isin(x: Tensor, test_elements: Operand, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element is among ``test_elements`` (with ``invert``, whether not). NaN equals nothing."""
    tests = coerce(x, test_elements)
    common = promote(x.lazy.dtype, tests.lazy.dtype)
    tests = apply(Op.RESHAPE, (tests.lazy.size,), cast(tests.detach(), common))
    found = _is_one_of(cast(x.detach(), common), tests)
    return ew.invert(found) if invert else found


def _is_one_of(x: Tensor, tests: Tensor) -> Tensor:
    shape, n = x.lazy.shape, tests.lazy.size
    if n <= COMPARED:
        equal = ew.eq(apply(Op.RESHAPE, (*shape, 1), x), tests)
        return apply(Op.RESHAPE, shape, apply(Op.AMAX, (len(shape),), equal))
    tests = apply(Op.GATHER, 0, tests, ordered(tests, 0, 0, n))
    flat = apply(Op.RESHAPE, (x.lazy.size,), x)
    place = ew.minimum(searchsorted(tests, flat), n - 1)
    return apply(Op.RESHAPE, shape, ew.eq(apply(Op.GATHER, 0, tests, place), flat))


# ---- distinct elements


def _result(x: Tensor, found: np.ndarray[Any, Any]) -> Tensor:
    return cast(type(x)._of(found, x.lazy.device), x.lazy.dtype)


def _indices(x: Tensor, found: np.ndarray[Any, Any]) -> Tensor:
    return type(x)._of(found.astype(np.int64), x.lazy.device)


def _with_extras(
    x: Tensor,
    values: np.ndarray[Any, Any],
    inverse: np.ndarray[Any, Any] | None,
    counts: np.ndarray[Any, Any] | None,
) -> Any:
    out = [_result(x, values), *[_indices(x, e) for e in (inverse, counts) if e is not None]]
    return out[0] if len(out) == 1 else tuple(out)


@dims
def unique(
    x: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements of ``x``, or slices along ``dim``, in order (``sorted`` or not).

    With ``return_inverse`` also the index among them of each element, with ``return_counts`` how often each
    occurs: a tuple then. NaNs are all different. Found on the host, at once; raises JitError in a jitted
    function, for the number of elements depends on the data.
    """
    axis = None if dim is None else dimension(x, dim, "unique")
    found = np.unique(x.numpy(), return_inverse=True, return_counts=True, axis=axis, equal_nan=False)
    inverse = found[1].reshape(x.lazy.shape if axis is None else -1)
    return _with_extras(x, found[0], inverse if return_inverse else None, found[2] if return_counts else None)


@dims
def unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements of ``x``, or slices along ``dim``, without those that equal the one before them. Options,
    results and errors as :func:`unique`.
    """
    array = x.numpy()
    shape = x.lazy.shape
    axis = 0 if dim is None else dimension(x, dim, "unique_consecutive")
    along = array.reshape(-1) if dim is None else np.moveaxis(array, axis, 0)
    n = along.shape[0]
    rows = along.reshape(n, math.prod(along.shape[1:]))
    new = np.ones(n, bool)
    new[1:] = (rows[1:] != rows[:-1]).any(1)
    values = along[new] if dim is None else np.moveaxis(along[new], 0, axis)
    inverse = (np.cumsum(new) - 1).reshape(shape if dim is None else n)
    counts = np.diff(np.append(np.flatnonzero(new), n))
    return _with_extras(x, values, inverse if return_inverse else None, counts if return_counts else None)


# ---- counting


class Histogram(NamedTuple):
    """Counts, and the edges of the bins that they are of."""

    hist: Tensor
    bin_edges: Tensor


def bincount(x: Tensor, weights: Operand | None = None, minlength: int = 0) -> Tensor:
    """How often each number from 0 to the largest, or ``minlength`` - 1, occurs in a vector of non-negative
    integers; with ``weights``, the sums of these, in their dtype. int64 else.

    How many there are is found on the host, at once; raises JitError in a jitted function. Raises RangeError
    for negative numbers.
    """
    if len(x.lazy.shape) != 1 or not x.lazy.dtype.is_int:
        raise DTypeError(
            f"bincount needs a vector of integers, got {x.lazy.dtype.name} of shape {x.lazy.shape}"
        )
    least, largest = (int(amin(x).item()), int(amax(x).item())) if x.lazy.size else (0, -1)
    if least < 0:
        raise RangeError(f"bincount counts numbers from 0 on, got {least}")
    length = max(largest + 1, minlength)
    part = constant(x, 1, int64) if weights is None else coerce(x, weights)
    if part.lazy.shape != x.lazy.shape:
        raise ShapeError(f"bincount: weights of shape {part.lazy.shape} for {x.lazy.shape} numbers")
    part = part if part.lazy.dtype.is_float or weights is None else to_float(part)
    return apply(Op.SCATTER, (0, Op.ADD), constant(part, 0, shape=(length,)), x, part)


def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements lie in each of ``bins`` equal bins from ``min`` to ``max``, both included, in the
    dtype of ``x``; others and NaN don't count. By default the limits are those of the data.
    """
    if bins < 1 or max < min:
        raise ShapeError(f"histc needs bins > 0 and min <= max, got bins={bins}, min={min}, max={max}")
    dtype = x.lazy.dtype
    flat = apply(Op.RESHAPE, (x.lazy.size,), widen(to_float(x.detach())))
    low, high = (constant(flat, float(v), shape=()) for v in (min, max))
    if min == max and x.lazy.size:
        low, high = amin(flat), amax(flat)
    lone = ew.eq(low, high)
    low, high = ew.where(lone, ew.sub(low, 1.0), low), ew.where(lone, ew.add(high, 1.0), high)
    place = ew.floor(ew.mul(ew.div(ew.sub(flat, low), ew.sub(high, low)), float(bins)))
    inside = ew.bitand(ew.ge(flat, low), ew.le(flat, high))
    index = ew.where(inside, ew.minimum(place, float(bins - 1)), -1.0)
    counts = apply(
        Op.SCATTER,
        (0, Op.ADD),
        constant(flat, 0, int64, (bins,)),
        cast(index, int64),
        constant(flat, 1, int64),
    )
    return cast(counts, dtype)


def histogram(
    x: Tensor,
    bins: int | Tensor | Sequence[float],
    *,
    range: tuple[float, float] | None = None,
    weight: Operand | None = None,
    density: bool = False,
) -> Histogram:
    """Counts of the elements in bins, or the sums of their ``weight``, and the edges of the bins, as a named
    tuple ``hist, bin_edges``.

    ``bins`` holds increasing edges, or is the number of equal bins within ``range`` (by default that of the
    data). A bin contains its lower edge, the last one both. With ``density`` the integral over all bins is 1.
    """
    flat = apply(Op.RESHAPE, (x.lazy.size,), widen(to_float(x.detach())))
    edges = _edges(flat, bins, range) if isinstance(bins, int) else cast(coerce(flat, bins), flat.lazy.dtype)
    n = edges.lazy.size - 1
    place = ew.sub(searchsorted(edges, flat, right=True), 1)
    place = ew.where(ew.eq(flat, cut(edges, 0, n, n + 1)), n - 1, place)
    part = constant(flat, 1.0)
    if weight is not None:
        part = apply(Op.RESHAPE, flat.lazy.shape, coerce(flat, weight).detach())
    # a NaN is put after all edges, in a bin that isn't there
    hist = apply(
        Op.SCATTER, (0, Op.ADD), constant(flat, 0.0, shape=(n,)), place, cast(part, flat.lazy.dtype)
    )
    if density:
        widths = ew.sub(cut(edges, 0, 1, n + 1), cut(edges, 0, 0, n))
        hist = ew.div(hist, ew.mul(hist.sum(), widths))
    return Histogram(hist, edges)


def _edges(x: Tensor, bins: int, limits: tuple[float, float] | None) -> Tensor:
    if bins < 1:
        raise ShapeError(f"histogram needs at least one bin, got {bins}")
    if limits is not None:
        low, high = (constant(x, float(v), shape=(1,)) for v in limits)
    elif x.lazy.size:
        low, high = amin(x, 0, True), amax(x, 0, True)
    else:
        low, high = constant(x, 0.0, shape=(1,)), constant(x, 1.0, shape=(1,))
    lone = ew.eq(low, high)
    low, high = ew.where(lone, ew.sub(low, 0.5), low), ew.where(lone, ew.add(high, 0.5), high)
    steps = cast(type(x)._iota(bins, int64, x.lazy.device), x.lazy.dtype)
    inner = ew.add(low, ew.mul(ew.div(ew.sub(high, low), float(bins)), steps))
    return cat([inner, high], 0)
