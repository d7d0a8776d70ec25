"""Order statistics and covariances."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dawdle.dtype import int64
from dawdle.errors import ArgumentError, RangeError, ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.arithmetic import clamp
from dawdle.tensor.autograd import Composite, Node, Parts, rule
from dawdle.tensor.core import (
    Dim,
    Operand,
    apply,
    axes_of,
    axis_of,
    cast,
    coerce,
    composite,
    constant,
    dims,
    expand_to,
    is_scalar,
    to_float,
    widen,
)
from dawdle.tensor.extrema import Selection, argmax, shared_gradient
from dawdle.tensor.interop import host_data
from dawdle.tensor.linalg import matmul
from dawdle.tensor.reduce import mean, not_empty, positions
from dawdle.tensor.sorting import lone, ordered, selected

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

# ---- medians


@dims
def median(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """``median()`` is the median of all elements; ``median(dim)`` that along ``dim`` with its index, as a
    named tuple ``values, indices``. Of an even number of elements it is the lower one; see :func:`quantile`
    for what lies between. NaN where there is one.

    Equal elements share the gradient of ``median()``. Raises ShapeError for no elements.
    """
    return _median(x, dim, keepdim, _median_index, "median")


@dims
def nanmedian(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """:func:`median` of the elements that aren't NaN; NaN where there are none."""
    return _median(x, dim, keepdim, _nanmedian_index, "nanmedian")


def _median(
    x: Tensor, dim: int | None, keepdim: bool, place: Callable[[Tensor, int], Tensor], what: str
) -> Any:
    shape = x.lazy.shape
    if dim is None:
        flat = apply(Op.RESHAPE, (x.lazy.size,), x)
        not_empty(flat, (0,), what)
        one = composite(Composite.MEDIAN, lambda x: selected(x, 0, place(x, 0)).values, flat, arg=place)
        return apply(Op.RESHAPE, (1,) * len(shape) if keepdim else (), one)
    axis = axis_of(dim, len(shape), what, shape)
    if not shape:
        return lone(x)
    not_empty(x, (axis,), what)
    return selected(x, axis, place(x, axis), keepdim)


@rule(Composite.MEDIAN, inputs=True)
def _median_gradient(node: Node, g: Tensor) -> Parts:
    place = node.arg
    return (shared_gradient(node.x(g), lambda x: selected(x, 0, place(x, 0)).values, (0,), g),)


def _median_index(x: Tensor, axis: int) -> Tensor:
    """The lower middle of the order, or the first NaN."""
    middle = (x.lazy.shape[axis] - 1) // 2
    index = ordered(x, axis, middle, middle + 1)
    if not x.lazy.dtype.is_float:
        return index
    missing = ew.isnan(x.detach())
    found = apply(Op.AMAX, (axis,), missing)
    return ew.where(found, argmax(missing, axis, True), index)


def _nanmedian_index(x: Tensor, axis: int) -> Tensor:
    x = x.detach()
    if not x.lazy.dtype.is_float:
        return _median_index(x, axis)
    order = ordered(x, axis, 0, x.lazy.shape[axis])
    present = apply(Op.SUM, (axis,), cast(ew.eq(x, x), int64))
    middle = ew.maximum(ew.floordiv(ew.sub(present, 1), 2), 0)
    return apply(Op.GATHER, axis, order, middle)


@dims
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> Selection:
    """The most frequent element along ``dim``, the smallest of several, and the index of its last occurrence,
    as a named tuple ``values, indices``. NaNs are all different. Raises ShapeError for no elements.
    """
    shape = x.lazy.shape
    axis = axis_of(dim, len(shape), "mode", shape)
    if not shape:
        return lone(x)
    not_empty(x, (axis,), "mode")
    n = shape[axis]
    order = ordered(x, axis, 0, n)
    values = apply(Op.GATHER, axis, x.detach(), order)
    before = apply(Op.GATHER, axis, values, expand_to(ew.sub(positions(x, axis), 1), shape))
    place = positions(x, axis)
    starts = ew.bitor(ew.eq(place, 0), ew.ne(values, before))
    start = apply(Op.SCAN, (Op.MAX, axis), ew.where(starts, place, constant(x, 0, int64, ())))
    longest = argmax(ew.sub(place, start), axis, True)
    return selected(x, axis, apply(Op.GATHER, axis, order, longest), keepdim)


# ---- quantiles


@dims
def quantile(
    x: Tensor, q: Operand, dim: Dim = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The element below which a share ``q`` of the elements over ``dim`` (all by default) lies; NaN where one
    is NaN; of integers, in float32.

    ``q`` is a number, or several in one dimension, which then comes first in the result. ``interpolation``
    says what to take where ``q`` falls between two elements: "linear", "lower", "higher", "nearest" (of two
    as near the even place) or "midpoint". Raises RangeError for numbers outside of [0, 1], ShapeError for no
    elements.
    """
    flat, axes = _flattened(to_float(x), dim, "quantile")
    missing = apply(Op.AMAX, (len(flat.lazy.shape) - 1,), ew.isnan(flat.detach()))
    last = constant(flat, flat.lazy.shape[-1] - 1, shape=(*flat.lazy.shape[:-1], 1))
    out = _quantiles(flat, q, last, interpolation)
    return _unflattened(ew.where(missing, math.nan, out), q, x, axes, keepdim)


@dims
def nanquantile(
    x: Tensor, q: Operand, dim: Dim = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """:func:`quantile` of the elements that aren't NaN; NaN where there are none."""
    flat, axes = _flattened(to_float(x), dim, "nanquantile")
    detached = flat.detach()
    present = apply(Op.SUM, (len(flat.lazy.shape) - 1,), cast(ew.eq(detached, detached), flat.lazy.dtype))
    out = _quantiles(flat, q, ew.maximum(ew.sub(present, 1.0), 0.0), interpolation)
    return _unflattened(out, q, x, axes, keepdim)


def _flattened(x: Tensor, dim: Dim, what: str) -> tuple[Tensor, Sequence[int]]:
    """``x`` with the dimensions ``dim`` made one, the last; in float32 at least."""
    axes = axes_of(dim, x, what)
    not_empty(x, axes, what)
    shape = x.lazy.shape
    rest = [i for i in range(len(shape)) if i not in axes]
    moved = apply(Op.PERMUTE, (*rest, *axes), widen(x))
    return apply(Op.RESHAPE, (*[shape[i] for i in rest], math.prod(shape[i] for i in axes)), moved), axes


def _unflattened(out: Tensor, q: Operand, x: Tensor, axes: Sequence[int], keepdim: bool) -> Tensor:
    """The quantiles (..., q) as the result has them: those of one number without a dimension, else first."""
    shape = x.lazy.shape
    rest = [1 if i in axes else n for i, n in enumerate(shape) if keepdim or i not in axes]
    out = cast(out, to_float(x).lazy.dtype)
    n = len(out.lazy.shape) - 1
    if is_scalar(q) or not coerce(x, q).lazy.shape:
        return apply(Op.RESHAPE, tuple(rest), out)
    return apply(Op.RESHAPE, (out.lazy.shape[-1], *rest), apply(Op.PERMUTE, (n, *range(n)), out))


def _shares(x: Tensor, q: Operand) -> Tensor:
    """``q`` in one dimension, in the dtype of ``x``. What is known on the host is checked."""
    if not hasattr(q, "lazy"):
        q = host_data(q).values.astype(x.lazy.dtype.storage)
        wrong = q[~((q >= 0) & (q <= 1))]
        if wrong.size:
            raise RangeError(f"quantile: q must be within [0, 1], got {wrong.flat[0]}")
    shares = cast(coerce(x, q).detach(), x.lazy.dtype)
    if len(shares.lazy.shape) > 1:
        raise ShapeError(f"quantile: q must be a number or have one dimension, got shape {shares.lazy.shape}")
    return apply(Op.RESHAPE, (shares.lazy.size,), shares)


def _quantiles(x: Tensor, q: Operand, last: Tensor, interpolation: str) -> Tensor:
    """At the shares ``q`` of the way to ``last``, the place of the largest element (..., 1)."""
    if interpolation not in PLACES:
        known = ", ".join(PLACES)
        raise ArgumentError(f"quantile: interpolation must be one of {known}, got {interpolation!r}")
    n = x.lazy.shape[-1]
    axis = len(x.lazy.shape) - 1
    shares = _shares(x, q)
    rank = ew.mul(last, shares)
    below, above, weight = PLACES[interpolation](rank)
    order = ordered(x, axis, 0, n)

    def at(place: Tensor) -> Tensor:
        return apply(Op.GATHER, axis, x, apply(Op.GATHER, axis, order, cast(place, int64)))

    if above is None or weight is None:
        return at(below)
    low, high = at(below), at(above)
    between = ew.add(low, ew.mul(ew.sub(high, low), weight))
    # an infinity less itself is NaN, and from minus infinity nothing finite leads on
    stays = ew.bitand(ew.eq(low, -math.inf), ew.lt(high, math.inf))
    return ew.where(ew.bitor(ew.eq(below, above), stays), low, between)


Places = tuple["Tensor", "Tensor | None", "Tensor | float | None"]
# the places between which each interpolation lies, and how far from the first to the second
PLACES: dict[str, Callable[[Tensor], Places]] = {
    "linear": lambda rank: (ew.floor(rank), ew.ceil(rank), ew.sub(rank, ew.floor(rank))),
    "lower": lambda rank: (ew.floor(rank), None, None),
    "higher": lambda rank: (ew.ceil(rank), None, None),
    "nearest": lambda rank: (ew.round(rank), None, None),
    "midpoint": lambda rank: (ew.floor(rank), ew.ceil(rank), 0.5),
}


# ---- covariances


def cov(
    x: Tensor, *, correction: float = 1, fweights: Operand | None = None, aweights: Operand | None = None
) -> Tensor:
    """The covariances of the rows of ``x`` (variables, observations), of which ``fweights`` says how often
    each counts and ``aweights`` how much. Of one variable, in a vector or a row, the variance: a number.

    The divisor is the total weight less ``correction`` (with ``aweights``, that times their mean). Raises
    ShapeError for more than two dimensions.
    """
    shape = x.lazy.shape
    if len(shape) > 2:
        raise ShapeError(f"cov: the variables are rows of a matrix, got shape {shape}")
    wide = widen(to_float(x))
    rows = apply(Op.RESHAPE, shape if len(shape) == 2 else (1, x.lazy.size), wide)
    weights = _weights(rows, fweights, aweights)
    if weights is None:
        centred = ew.sub(rows, mean(rows, 1, True))
        product = matmul(centred, apply(Op.PERMUTE, (1, 0), centred))
        out = ew.div(product, float(max(rows.lazy.shape[1] - correction, 0)))
    else:
        total = weights.sum()
        centred = ew.sub(rows, ew.div(ew.mul(rows, weights).sum(1, True), total))
        product = matmul(ew.mul(centred, weights), apply(Op.PERMUTE, (1, 0), centred))
        taken: Tensor | float = correction
        if aweights is not None:
            taken = ew.div(ew.mul(ew.mul(weights, coerce(rows, aweights)).sum(), float(correction)), total)
        out = ew.div(product, ew.maximum(ew.sub(total, taken), 0.0))
    out = cast(out, to_float(x).lazy.dtype)
    return apply(Op.RESHAPE, (), out) if out.lazy.size == 1 else out


def _weights(rows: Tensor, fweights: Operand | None, aweights: Operand | None) -> Tensor | None:
    """The product of the weights of each observation."""
    out: Tensor | None = None
    for w in (fweights, aweights):
        if w is None:
            continue
        part = cast(coerce(rows, w), rows.lazy.dtype)
        if part.lazy.shape != rows.lazy.shape[1:]:
            raise ShapeError(
                f"cov: weights of shape {part.lazy.shape} for {rows.lazy.shape[1]} observations"
            )
        out = part if out is None else ew.mul(out, part)
    return out


def corrcoef(x: Tensor) -> Tensor:
    """The correlation coefficients of the rows of ``x`` (variables, observations), limited to [-1, 1]; of a
    vector, 1. NaN for a variable that is constant.
    """
    product = cov(x)
    if not product.lazy.shape:
        return ew.div(product, product)
    n = product.lazy.shape[0]
    spread = product.diagonal().sqrt()
    scaled = ew.div(ew.div(product, apply(Op.RESHAPE, (n, 1), spread)), apply(Op.RESHAPE, (1, n), spread))
    return clamp(scaled, -1.0, 1.0)
