"""Running results along a dimension, and differences, which undo sums."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dawdle.dtype import int64
from dawdle.errors import ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import (
    Operand,
    along,
    apply,
    axis_of,
    cast,
    coerce,
    constant,
    cut,
    dims,
    expand_to,
    same,
    to_float,
    widen,
)
from dawdle.tensor.extrema import Selection, chosen
from dawdle.tensor.joining import cat
from dawdle.tensor.reduce import finite, positions, summed, without
from dawdle.tensor.transcendental import exp, log

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

BLOCK = 32  # elements whose log-sum-exps are computed all from all


def _scan(op: Op, x: Tensor, dim: int, what: str) -> Tensor:
    if not x.lazy.shape:
        axis_of(dim, 0, what, ())
        return same(x)
    return apply(Op.SCAN, (op, axis_of(dim, len(x.lazy.shape), what, x.lazy.shape)), x)


@dims
def cumsum(x: Tensor, dim: int, dtype: object | None = None) -> Tensor:
    """Running sum along ``dim``. Bools and small integers are summed in int64."""
    return _scan(Op.ADD, summed(x, dtype), dim, "cumsum")


@dims
def cumprod(x: Tensor, dim: int, dtype: object | None = None) -> Tensor:
    """Running product along ``dim``. Bools and small integers are multiplied in int64."""
    return _scan(Op.MUL, summed(x, dtype), dim, "cumprod")


@dims
def cummax(x: Tensor, dim: int) -> Selection:
    """The largest element so far along ``dim``, and the index of its latest occurrence, as a named tuple
    ``values, indices``. From the first NaN on it is NaN. The gradient goes to the element of the index.
    """
    return _running(x, dim, True, "cummax")


@dims
def cummin(x: Tensor, dim: int) -> Selection:
    """The smallest element so far along ``dim``, and the index of its latest occurrence, as a named tuple
    ``values, indices``. From the first NaN on it is NaN. The gradient goes to the element of the index.
    """
    return _running(x, dim, False, "cummin")


def _running(x: Tensor, dim: int, largest: bool, what: str) -> Selection:
    shape = x.lazy.shape
    axis = axis_of(dim, len(shape), what, shape)
    if not shape:
        return Selection(same(x), constant(x, 0, int64))
    order = x.detach() if largest else ew.reversed_order(x.detach())
    top = apply(Op.SCAN, (Op.MAX, axis), order)
    attained = ew.bitor(ew.eq(order, top), ew.isnan(order))
    index = apply(Op.SCAN, (Op.MAX, axis), ew.where(attained, positions(x, axis), constant(x, 0, int64, ())))
    return Selection(chosen(x, index, top if largest else ew.reversed_order(top), axis), index)


# ---- logcumsumexp


@dims
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """log(cumsum(exp(x))) along ``dim``, without overflow or underflow."""
    x = to_float(x)
    shape = x.lazy.shape
    axis = axis_of(dim, len(shape), "logcumsumexp", shape)
    if not x.lazy.size or not shape:
        return same(x)
    last = (*[i for i in range(len(shape)) if i != axis], axis)
    moved = apply(Op.PERMUTE, last, widen(x))
    rows = apply(Op.RESHAPE, (math.prod(moved.lazy.shape[:-1]), shape[axis]), moved)
    out = apply(Op.RESHAPE, moved.lazy.shape, _log_sums(rows))
    back = tuple(sorted(range(len(last)), key=last.__getitem__))
    return cast(apply(Op.PERMUTE, back, out), x.lazy.dtype)


def _log_sums(x: Tensor) -> Tensor:
    """Of rows (r, n): within blocks each from all before it; then, level by level, what the earlier blocks
    add.
    """
    levels = []
    while True:
        rows, n = x.lazy.shape
        if n <= BLOCK:
            break
        blocks = -(-n // BLOCK)
        ends = constant(x, -math.inf, shape=(rows, blocks * BLOCK - n))
        inner = _log_sums_of_block(apply(Op.RESHAPE, (rows, blocks, BLOCK), cat([x, ends], 1)))
        levels.append((inner, n))
        # the last block's total goes nowhere
        x = apply(Op.SLICE, ((0, rows, 1), (0, blocks - 1, 1), (BLOCK - 1, BLOCK, 1)), inner)
        x = without(x, (2,))
    out = _log_sums_of_block(x)
    for inner, n in reversed(levels):
        rows, blocks, _ = inner.lazy.shape
        before = cat([constant(out, -math.inf, shape=(rows, 1)), out], 1)
        whole = _log_add(inner, apply(Op.RESHAPE, (rows, blocks, 1), before))
        out = cut(apply(Op.RESHAPE, (rows, blocks * BLOCK), whole), 1, 0, n)
    return out


def _log_sums_of_block(x: Tensor) -> Tensor:
    """Along the last, short dimension: log-sum-exp of the elements up to each, all from all."""
    shape = x.lazy.shape
    n = shape[-1]
    square = (*shape, n)
    top = finite(apply(Op.SCAN, (Op.MAX, len(shape) - 1), x.detach()))
    mine = apply(Op.RESHAPE, (*shape, 1), top)
    other = expand_to(apply(Op.RESHAPE, (*shape[:-1], 1, n), x), square)
    place = type(x)._iota(n, int64, x.lazy.device)
    reached = ew.le(place, apply(Op.RESHAPE, (n, 1), place))
    terms = exp(ew.where(reached, ew.sub(other, mine), -math.inf))
    total = without(apply(Op.SUM, (len(shape),), terms), (len(shape),))
    return ew.add(_log_or_nothing(total), top)


def _log_add(a: Tensor, b: Tensor) -> Tensor:
    top = finite(ew.maximum(a, b).detach())
    return ew.add(_log_or_nothing(ew.add(exp(ew.sub(a, top)), exp(ew.sub(b, top)))), top)


def _log_or_nothing(total: Tensor) -> Tensor:
    """The logarithm, with gradient 0 at 0: -inf is the sum of no terms."""
    zero = ew.eq(total, 0)
    return ew.where(zero, -math.inf, log(ew.where(zero, 1.0, total)))


# ---- differences and integrals


@dims
def diff(
    x: Tensor, n: int = 1, dim: int = -1, prepend: Operand | None = None, append: Operand | None = None
) -> Tensor:
    """Each element minus the one before it along ``dim``, ``n`` times; of bools, whether they differ.

    ``prepend`` and ``append`` are put before and after first. Raises ShapeError for 0-dimensional tensors and
    negative ``n``.
    """
    shape = x.lazy.shape
    if not shape or n < 0:
        raise ShapeError(f"diff needs a dimension and n >= 0, got shape {shape} and n={n}")
    axis = axis_of(dim, len(shape), "diff", shape)
    parts = [p for p in (prepend, x, append) if p is not None]
    x = cat(parts, axis) if len(parts) > 1 else x
    for _ in range(min(n, x.lazy.shape[axis])):
        size = x.lazy.shape[axis]
        later, earlier = cut(x, axis, 1, size), cut(x, axis, 0, max(size - 1, 0))
        x = ew.bitxor(later, earlier) if x.lazy.dtype.is_bool else ew.sub(later, earlier)
    return same(x)


@dims
def trapezoid(y: Tensor, x: Operand | None = None, dx: float = 1.0, dim: int = -1) -> Tensor:
    """The integral of ``y`` along ``dim`` by the trapezoidal rule, at the points ``x`` or ``dx`` apart.
    Points of one dimension lie along ``dim``. Raises ShapeError for 0-dimensional tensors.
    """
    areas, axis = _areas(y, x, dx, dim, "trapezoid")
    return without(apply(Op.SUM, (axis,), areas), (axis,))


@dims
def cumulative_trapezoid(y: Tensor, x: Operand | None = None, dx: float = 1.0, dim: int = -1) -> Tensor:
    """:func:`trapezoid` up to each point but the first."""
    areas, axis = _areas(y, x, dx, dim, "cumulative_trapezoid")
    return apply(Op.SCAN, (Op.ADD, axis), areas)


def _areas(y: Tensor, x: Operand | None, dx: float, dim: int, what: str) -> tuple[Tensor, int]:
    y = to_float(y)
    shape = y.lazy.shape
    if not shape:
        raise ShapeError(f"{what} needs a dimension to integrate along, got a 0-dimensional tensor")
    axis = axis_of(dim, len(shape), what, shape)
    n = shape[axis]
    heights = ew.mul(ew.add(cut(y, axis, min(n, 1), n), cut(y, axis, 0, max(n - 1, 0))), 0.5)
    if x is None:
        return ew.mul(heights, float(dx)), axis
    points = coerce(y, x)
    if len(points.lazy.shape) == 1:
        points = along(points, axis, len(shape))
    widths: Tensor = diff(points, 1, axis - len(shape))
    return ew.mul(heights, widths), axis
