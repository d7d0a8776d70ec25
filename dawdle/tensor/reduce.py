"""Reductions along dimensions: sums, products, moments, norms, and the softmax family."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dawdle.dtype import DType, int64, to_dtype
from dawdle.errors import ArgumentError, ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.autograd import Composite
from dawdle.tensor.core import (
    Dim,
    along,
    apply,
    axes_of,
    axis_of,
    broadcast_shape,
    cast,
    composite,
    dims,
    shape_args,
    to_float,
    widen,
)
from dawdle.tensor.transcendental import exp, log

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


def reduced(op: Op, x: Tensor, axes: Sequence[int], keepdim: bool) -> Tensor:
    """The primitive reduction ``op`` over ``axes``, which keep size 1 with ``keepdim`` and else go."""
    out = apply(op, tuple(axes), x)
    return out if keepdim or not axes else without(out, axes)


def without(x: Tensor, axes: Sequence[int]) -> Tensor:
    """``x`` without ``axes``, whose size is 1."""
    return apply(Op.RESHAPE, tuple([n for i, n in enumerate(x.lazy.shape) if i not in axes]), x)


def count_of(x: Tensor, axes: Sequence[int]) -> int:
    """How many elements a reduction over ``axes`` combines into one."""
    return math.prod(x.lazy.shape[i] for i in axes)


def not_empty(x: Tensor, axes: Sequence[int], what: str) -> None:
    """Raise ShapeError if ``axes`` hold no elements, of which ``what`` isn't defined."""
    if axes and count_of(x, axes) == 0:
        raise ShapeError(
            f"{what} of no elements is undefined: shape {x.lazy.shape}, dims {tuple(axes)}; "
            "reduce over dimensions that aren't empty"
        )


def positions(x: Tensor, axis: int, dtype: DType = int64) -> Tensor:
    """The index along ``axis`` of each element, in a shape that broadcasts with ``x``."""
    shape = x.lazy.shape
    return along(type(x)._iota(shape[axis], dtype, x.lazy.device), axis, len(shape))


def in_dtype(x: Tensor, dtype: object | None) -> Tensor:
    """``x`` in ``dtype``, if one is asked for."""
    return x if dtype is None else cast(x, to_dtype(dtype))


# ---- sums and products


def summed(x: Tensor, dtype: object | None) -> Tensor:
    """``x`` in the dtype in which sums and products are made: small integers and bools in int64."""
    if dtype is not None:
        return cast(x, to_dtype(dtype))
    kind = x.lazy.dtype
    return x if kind.is_float or kind.bits == 64 else cast(x, int64)


@dims
def sum(x: Tensor, dim: Dim = None, keepdim: bool = False, dtype: object | None = None) -> Tensor:
    """Sum over ``dim`` (all by default), 0 of no elements. Bools and small integers are summed in int64,
    16-bit floats in float32, rounded once.
    """
    return reduced(Op.SUM, summed(x, dtype), axes_of(dim, x, "sum"), keepdim)


@dims
def nansum(x: Tensor, dim: Dim = None, keepdim: bool = False, dtype: object | None = None) -> Tensor:
    """:func:`sum` with NaN counted as 0."""
    return reduced(Op.SUM, summed(_without_nan(x), dtype), axes_of(dim, x, "nansum"), keepdim)


def _without_nan(x: Tensor) -> Tensor:
    return ew.where(ew.isnan(x), 0.0, x) if x.lazy.dtype.is_float else x


@dims
def prod(x: Tensor, dim: Dim = None, keepdim: bool = False, dtype: object | None = None) -> Tensor:
    """Product over ``dim`` (all by default), 1 of no elements. Bools and small integers are multiplied in
    int64, 16-bit floats in float32, rounded once.
    """
    x = summed(x, dtype)
    return cast(reduced(Op.PROD, widen(x), axes_of(dim, x, "prod"), keepdim), x.lazy.dtype)


@dims
def count_nonzero(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """How many elements over ``dim`` (all by default) are not 0, NaN among them; int64."""
    return reduced(Op.SUM, cast(ew.truth(x), int64), axes_of(dim, x, "count_nonzero"), keepdim)


@dims
def any(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Whether any element over ``dim`` is not zero; False of no elements."""
    return reduced(Op.AMAX, ew.truth(x), axes_of(dim, x, "any"), keepdim)


@dims
def all(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Whether every element over ``dim`` is not zero; True of no elements."""
    return ew.invert(reduced(Op.AMAX, ew.logical_not(x), axes_of(dim, x, "all"), keepdim))


# ---- moments


@dims
def mean(x: Tensor, dim: Dim = None, keepdim: bool = False, dtype: object | None = None) -> Tensor:
    """Arithmetic mean over ``dim`` (all by default); of integers, in float32. NaN for no elements."""
    x, axes = to_float(in_dtype(x, dtype)), axes_of(dim, x, "mean")
    total = reduced(Op.SUM, widen(x), axes, True)
    average = cast(ew.div(total, float(count_of(x, axes))), x.lazy.dtype)
    return average if keepdim or not axes else without(average, axes)


@dims
def nanmean(x: Tensor, dim: Dim = None, keepdim: bool = False, dtype: object | None = None) -> Tensor:
    """:func:`mean` of the elements that aren't NaN; NaN where there are none."""
    x, axes = to_float(in_dtype(x, dtype)), axes_of(dim, x, "nanmean")
    total = reduced(Op.SUM, widen(_without_nan(x)), axes, keepdim)
    count = reduced(Op.SUM, cast(ew.eq(x, x), total.lazy.dtype), axes, keepdim)
    return cast(ew.div(total, count), x.lazy.dtype)


@dims
def var(
    x: Tensor,
    dim: Dim | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """Variance over ``dim``: the sum of squared distances from the mean, divided by n - ``correction`` (1 by
    default; 0 with ``unbiased=False``). NaN of fewer than two elements then. ``var(False)`` is
    ``var(unbiased=False)``.
    """
    return cast(_moments(x, dim, unbiased, keepdim, correction, "var")[0], to_float(x).lazy.dtype)


@dims
def std(
    x: Tensor,
    dim: Dim | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """Standard deviation over ``dim``: the square root of :func:`var`, with gradient 0 where it is 0."""
    variance, _ = _moments(x, dim, unbiased, keepdim, correction, "std")
    return cast(_root(variance), to_float(x).lazy.dtype)


@dims
def var_mean(
    x: Tensor,
    dim: Dim | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(variance, mean) over ``dim``; see :func:`var`."""
    variance, average = _moments(x, dim, unbiased, keepdim, correction, "var_mean")
    return cast(variance, average.lazy.dtype), average


@dims
def std_mean(
    x: Tensor,
    dim: Dim | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """(standard deviation, mean) over ``dim``; see :func:`std`."""
    variance, average = _moments(x, dim, unbiased, keepdim, correction, "std_mean")
    return cast(_root(variance), average.lazy.dtype), average


def _moments(
    x: Tensor,
    dim: Dim | bool,
    unbiased: bool | None,
    keepdim: bool,
    correction: float | None,
    what: str,
) -> tuple[Tensor, Tensor]:
    """(variance, mean) over ``dim``; the variance in the dtype that sums are taken in, which has room for
    squares.
    """
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise ArgumentError(f"{what}: pass either unbiased={unbiased} or correction={correction}")
    taken = correction if correction is not None else 0 if unbiased is False else 1
    x, axes = to_float(x), axes_of(dim, x, what)
    wide, n = widen(x), count_of(x, axes)
    average = mean(wide, axes, keepdim=True)
    total = reduced(Op.SUM, ew.square(ew.sub(wide, average)), axes, True)
    variance = ew.div(total, float(max(n - taken, 0)))
    both = variance, cast(average, x.lazy.dtype)
    return both if keepdim or not axes else (without(both[0], axes), without(both[1], axes))


def _root(x: Tensor) -> Tensor:
    """Square root with gradient 0 at 0, as PyTorch has it for deviations and norms."""
    return _guarded(x, lambda x: apply(Op.SQRT, None, x))


def _guarded(x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """``function(x)``, which maps 0 to 0, with gradient 0 there whatever its slope."""
    zero = ew.eq(x, 0)
    return ew.where(zero, 0.0, function(ew.where(zero, 1.0, x)))


# ---- norms


@dims
def norm(
    x: Tensor,
    p: float | str | None = "fro",
    dim: Dim = None,
    keepdim: bool = False,
    dtype: object | None = None,
) -> Tensor:
    """The p-norm of the elements over ``dim`` (all by default): sum(abs(x)**p)**(1/p).

    ``p`` is any number; "fro" is 2, ``inf`` gives the largest magnitude, ``-inf`` the smallest, 0 the number
    of elements that aren't 0. The gradient is 0 where the norm is. Norms of matrices, "nuc" among them, are
    in ``dawdle.linalg.matrix_norm``.
    """
    order = 2.0 if p in ("fro", None) else p
    if not isinstance(order, (int, float)):
        raise ArgumentError(
            f"norm: p must be a number or 'fro', got {p!r}; norms of matrices are in linalg.matrix_norm"
        )
    x, axes = to_float(in_dtype(x, dtype)), axes_of(dim, x, "norm")
    wide = widen(x)
    if math.isinf(order):
        return cast(_extreme_norm(wide, axes, keepdim, order > 0), x.lazy.dtype)
    total = reduced(Op.SUM, _NORM_TERMS.get(order, _powers)(wide, order), axes, keepdim)
    return cast(_norm_of(total, order), x.lazy.dtype)


def _powers(x: Tensor, p: float) -> Tensor:
    out: Tensor = ew.absolute(x) ** p
    return out


# TRUNC makes a step whose gradient is 0 rather than one that has none
_NORM_TERMS: dict[float, Callable[[Tensor, float], Tensor]] = {
    0.0: lambda x, p: apply(Op.TRUNC, None, ew.where(ew.ne(x, 0), 1.0, x)),
    1.0: lambda x, p: ew.absolute(x),
    2.0: lambda x, p: ew.square(x),
}


def _norm_of(total: Tensor, p: float) -> Tensor:
    if p in (0, 1):
        return total
    if p == 2:
        return _root(total)
    root: Callable[[Tensor], Tensor] = lambda x: x ** (1 / p)  # noqa: E731
    return _guarded(total, root) if p > 0 else root(total)


def _extreme_norm(x: Tensor, axes: Sequence[int], keepdim: bool, largest: bool) -> Tensor:
    not_empty(x, axes, "norm with p=inf" if largest else "norm with p=-inf")
    size = ew.absolute(x)
    if largest:
        return reduced(Op.AMAX, size, axes, keepdim)
    return ew.neg(reduced(Op.AMAX, ew.neg(size), axes, keepdim))


def renorm(x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Each slice along ``dim`` whose ``p``-norm exceeds ``maxnorm`` scaled down to it."""
    shape = x.lazy.shape
    axis = axis_of(dim, len(shape), "renorm", shape)
    rest = [i for i in range(len(shape)) if i != axis]
    size = norm(widen(to_float(x)), p, rest, True)
    scale = ew.where(ew.gt(size, maxnorm), ew.mul(ew.reciprocal(ew.add(size, 1e-7)), maxnorm), 1.0)
    return cast(ew.mul(widen(to_float(x)), scale), to_float(x).lazy.dtype)


def sum_to_size(x: Tensor, *size: int) -> Tensor:
    """Summed over the dimensions that broadcasting a tensor of shape ``size`` to the shape of ``x`` expands.
    Raises ShapeError where that isn't possible.
    """
    shape, wanted = x.lazy.shape, shape_args(size, "sum_to_size")
    if broadcast_shape("sum_to_size", shape, wanted) != shape:
        raise ShapeError(f"sum_to_size: shape {wanted} doesn't broadcast to {shape}")
    full = (1,) * (len(shape) - len(wanted)) + wanted
    axes = [i for i, n in enumerate(full) if n != shape[i]]
    return apply(Op.RESHAPE, wanted, reduced(Op.SUM, x, axes, True))


# ---- the softmax family


@dims
def logsumexp(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over ``dim``, without overflow; -inf of no elements."""
    dtype, axes = to_float(x).lazy.dtype, axes_of(dim, x, "logsumexp")
    total, top = shifted_logsumexp(widen(to_float(x)), axes)
    out = ew.add(total, top)
    return cast(out if keepdim or not axes else without(out, axes), dtype)


def shifted_logsumexp(x: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """(log(sum(exp(x - top))), top) over ``axes``, which keep size 1: apart they are more accurate than their
    sum.
    """
    top = finite(reduced(Op.AMAX, x.detach(), axes, True))
    return log(reduced(Op.SUM, exp(ew.sub(x, top)), axes, True)), top


def finite(top: Tensor) -> Tensor:
    """A maximum, or 0 where it is infinite: what may be subtracted without changing the result."""
    return ew.where(ew.isfinite(top), top, 0.0)


@dims
def softmax(x: Tensor, dim: int = -1, dtype: object | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along ``dim``, without overflow."""
    x = to_float(in_dtype(x, dtype))
    axes = axes_of(dim, x, "softmax")
    wide = widen(x)
    shifted = ew.sub(wide, reduced(Op.AMAX, wide.detach(), axes, True))
    columns = axes and math.prod(x.lazy.shape[axes[0] + 1 :]) > 1
    e = composite(Composite.EXP, _kept_exp, shifted) if columns else exp(shifted)
    return cast(ew.div(e, reduced(Op.SUM, e, axes, True)), x.lazy.dtype)


def _kept_exp(x: Tensor) -> Tensor:
    """Sums down columns take a kernel of their own: what that and the next one need is kept."""
    return apply(Op.CONTIGUOUS, None, exp(x))


@dims
def softmin(x: Tensor, dim: int = -1, dtype: object | None = None) -> Tensor:
    """The softmax of -x along ``dim``."""
    out: Tensor = softmax(ew.neg(to_float(in_dtype(x, dtype))), dim)
    return out


@dims
def log_softmax(x: Tensor, dim: int = -1, dtype: object | None = None) -> Tensor:
    """log(softmax(x)) along ``dim``, accurate where the softmax is small."""
    x = to_float(in_dtype(x, dtype))
    axes = axes_of(dim, x, "log_softmax")
    wide = widen(x)
    shifted = ew.sub(wide, reduced(Op.AMAX, wide.detach(), axes, True))
    return cast(ew.sub(shifted, log(reduced(Op.SUM, exp(shifted), axes, True))), x.lazy.dtype)
