"""Reductions and scans along dimensions, and the softmax family."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dawdle.dtype import DType, int32, int64, promote, to_dtype
from dawdle.errors import DTypeError, ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import Dim, apply, axes_of, axis_of, cast, constant, dims, same, to_float, widen
from dawdle.tensor.transcendental import exp, log

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


def _reduce(op: Op, x: Tensor, axes: Sequence[int], keepdim: bool) -> Tensor:
    out = apply(op, tuple(axes), x)
    if keepdim or not axes:
        return out
    kept = [n for i, n in enumerate(x.lazy.shape) if i not in axes]
    return apply(Op.RESHAPE, tuple(kept), out)


def _summed(x: Tensor, dtype: object | None) -> Tensor:
    """``x`` in the dtype in which sums and products are made: small integers and bools in int64."""
    if dtype is not None:
        return cast(x, to_dtype(dtype))
    kind = x.lazy.dtype
    return x if kind.is_float or kind.bits == 64 else cast(x, int64)


@dims
def sum(x: Tensor, dim: Dim = None, keepdim: bool = False, dtype: object | None = None) -> Tensor:
    """Sum over ``dim`` (all by default). Bools and small integers are summed in int64."""
    return _reduce(Op.SUM, _summed(x, dtype), axes_of(dim, x, "sum"), keepdim)


@dims
def prod(x: Tensor, dim: Dim = None, keepdim: bool = False, dtype: object | None = None) -> Tensor:
    """Product over ``dim`` (all by default). Bools and small integers are multiplied in int64."""
    return _reduce(Op.PROD, _summed(x, dtype), axes_of(dim, x, "prod"), keepdim)


def _count(x: Tensor, axes: Sequence[int]) -> int:
    return math.prod(x.lazy.shape[i] for i in axes)


def _not_empty(x: Tensor, axes: Sequence[int], what: str) -> None:
    if _count(x, axes) == 0 and axes:
        raise ShapeError(f"{what} of no elements is undefined: shape {x.lazy.shape}, dims {tuple(axes)}")


@dims
def mean(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Arithmetic mean over ``dim`` (all by default); of integers, in float32. NaN for no elements."""
    x, axes = to_float(x), axes_of(dim, x, "mean")
    n = _count(x, axes)
    wide = widen(x)
    total = _reduce(Op.SUM, wide, axes, keepdim)
    return cast(ew.mul(total, 1.0 / n) if n else ew.div(total, 0.0), x.lazy.dtype)


@dims
def var(x: Tensor, dim: Dim = None, keepdim: bool = False, correction: int = 1) -> Tensor:
    """Variance over ``dim``: the mean squared distance from the mean, divided by n - ``correction``."""
    out: Tensor = var_mean(x, dim, keepdim, correction)[0]
    return out


@dims
def std(x: Tensor, dim: Dim = None, keepdim: bool = False, correction: int = 1) -> Tensor:
    """Standard deviation over ``dim``: the square root of :func:`var`."""
    return apply(Op.SQRT, None, var_mean(x, dim, keepdim, correction)[0])


@dims
def var_mean(x: Tensor, dim: Dim = None, keepdim: bool = False, correction: int = 1) -> tuple[Tensor, Tensor]:
    """(variance, mean) over ``dim``; see :func:`var`."""
    x, axes = to_float(x), axes_of(dim, x, "var")
    wide, n = widen(x), _count(x, axes)
    average = mean(wide, axes, keepdim=True)
    total = _reduce(Op.SUM, ew.square(ew.sub(wide, average)), axes, keepdim)
    degrees = max(n - correction, 0)
    variance = ew.mul(total, 1.0 / degrees) if degrees else ew.div(total, 0.0)
    if not keepdim and axes:
        average = apply(Op.RESHAPE, variance.lazy.shape, average)
    return cast(variance, x.lazy.dtype), cast(average, x.lazy.dtype)


@dims
def amax(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Largest element over ``dim`` (all by default), NaN if there is one. Equal elements share the gradient.

    As in NumPy only the values are returned, whatever ``dim``; see :func:`argmax` for the places.
    """
    axes = axes_of(dim, x, "max")
    _not_empty(x, axes, "max")
    return _reduce(Op.AMAX, x, axes, keepdim)


@dims
def amin(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Smallest element over ``dim`` (all by default), NaN if there is one. Equal elements share the gradient.
    """
    axes = axes_of(dim, x, "min")
    _not_empty(x, axes, "min")
    flip = ew.neg if x.lazy.dtype.is_float else ew.invert
    return flip(_reduce(Op.AMAX, flip(x), axes, keepdim))


@dims
def any(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Whether any element over ``dim`` is not zero."""
    return _reduce(Op.AMAX, ew.truth(x), axes_of(dim, x, "any"), keepdim)


@dims
def all(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Whether every element over ``dim`` is not zero."""
    return ew.invert(_reduce(Op.AMAX, ew.invert(ew.truth(x)), axes_of(dim, x, "all"), keepdim))


def positions(x: Tensor, axis: int, dtype: DType = int64) -> Tensor:
    """The index along ``axis`` of each element, in a shape that broadcasts with ``x``."""
    shape = x.lazy.shape
    wide = [1] * len(shape)
    wide[axis] = shape[axis]
    return apply(Op.RESHAPE, tuple(wide), type(x)._iota(shape[axis], dtype, x.lazy.device))


@dims
def argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the first largest element (or NaN) along ``dim``, or in the flattened tensor; int64."""
    x = x.detach()
    shape = x.lazy.shape
    flat = apply(Op.RESHAPE, (x.lazy.size,), x) if dim is None or not shape else x
    axis = 0 if dim is None else axis_of(dim, len(shape), "argmax", shape)
    _not_empty(flat, (axis,), "argmax")
    n = flat.lazy.shape[axis]
    largest = _reduce(Op.AMAX, flat, (axis,), True)
    found = ew.eq(flat, largest)
    if flat.lazy.dtype.is_float:
        found = ew.bitor(found, ew.isnan(flat))
    index = int32 if n < 2**31 else int64
    backwards = ew.sub(
        constant(flat, n - 1, index, ()), positions(flat, axis, index)
    )  # the maximum is then the first
    last = _reduce(
        Op.AMAX, ew.where(found, backwards, constant(flat, -1, index, ())), (axis,), keepdim or dim is None
    )
    out = cast(ew.sub(constant(last, n - 1), last), int64)
    if dim is None:
        return apply(Op.RESHAPE, (1,) * len(shape) if keepdim else (), out)
    return out if shape else apply(Op.RESHAPE, (), out)


@dims
def argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the first smallest element (or NaN) along ``dim``, or in the flattened tensor; int64."""
    x = x.detach()
    out: Tensor = argmax((ew.neg if x.lazy.dtype.is_float else ew.invert)(x), dim, keepdim)
    return out


@dims
def logsumexp(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over ``dim``, without overflow."""
    dtype, axes = to_float(x).lazy.dtype, axes_of(dim, x, "logsumexp")
    total, top = shifted_logsumexp(widen(to_float(x)), axes)
    out = ew.add(total, top)
    if not keepdim and axes:
        out = apply(Op.RESHAPE, tuple([n for i, n in enumerate(x.lazy.shape) if i not in axes]), out)
    return cast(out, dtype)


def shifted_logsumexp(x: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """(log(sum(exp(x - top))), top) over ``axes``, which keep size 1: apart they are more accurate than their
    sum.
    """
    top = _finite_max(x, axes)
    return log(_reduce(Op.SUM, exp(ew.sub(x, top)), axes, True)), top


def _finite_max(x: Tensor, axes: Sequence[int]) -> Tensor:
    """The maximum over ``axes``, or 0 where it is infinite: what may be subtracted without changing the
    result.
    """
    top = _reduce(Op.AMAX, x.detach(), axes, True)
    return ew.where(ew.isfinite(top), top, 0.0)


@dims
def softmax(x: Tensor, dim: int = -1, dtype: object | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along ``dim``, without overflow."""
    x = to_float(x if dtype is None else cast(x, to_dtype(dtype)))
    axes = axes_of(dim, x, "softmax")
    wide = widen(x)
    e = exp(ew.sub(wide, _reduce(Op.AMAX, wide.detach(), axes, True)))
    return cast(ew.div(e, _reduce(Op.SUM, e, axes, True)), x.lazy.dtype)


@dims
def log_softmax(x: Tensor, dim: int = -1, dtype: object | None = None) -> Tensor:
    """log(softmax(x)) along ``dim``, accurate where the softmax is small."""
    x = to_float(x if dtype is None else cast(x, to_dtype(dtype)))
    axes = axes_of(dim, x, "log_softmax")
    wide = widen(x)
    shifted = ew.sub(wide, _reduce(Op.AMAX, wide.detach(), axes, True))
    return cast(ew.sub(shifted, log(_reduce(Op.SUM, exp(shifted), axes, True))), x.lazy.dtype)


def _scan(op: Op, x: Tensor, dim: int, what: str) -> Tensor:
    if not x.lazy.shape:
        axis_of(dim, 0, what, ())
        return same(x)
    return apply(Op.SCAN, (op, axis_of(dim, len(x.lazy.shape), what, x.lazy.shape)), x)


@dims
def cumsum(x: Tensor, dim: int, dtype: object | None = None) -> Tensor:
    """Running sum along ``dim``. Bools and small integers are summed in int64."""
    return _scan(Op.ADD, _summed(x, dtype), dim, "cumsum")


@dims
def cumprod(x: Tensor, dim: int, dtype: object | None = None) -> Tensor:
    """Running product along ``dim``. Bools and small integers are multiplied in int64."""
    return _scan(Op.MUL, _summed(x, dtype), dim, "cumprod")


@dims
def cummax(x: Tensor, dim: int) -> Tensor:
    """Running maximum along ``dim`` (the values only)."""
    return _scan(Op.MAX, x, dim, "cummax")


@dims
def norm(x: Tensor, p: float = 2.0, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The p-norm over ``dim`` (all by default), for p = inf, 1, 2 or any other positive number."""
    x = to_float(x)
    if p == math.inf:
        out: Tensor = amax(ew.absolute(x), dim, keepdim)
        return out
    if p <= 0:
        raise ShapeError(f"norm: p must be positive, got {p}")
    total: Tensor = sum(ew.square(x) if p == 2 else ew.absolute(x) ** p, dim, keepdim)
    return apply(Op.SQRT, None, total) if p == 2 else total ** (1 / p)


def common_dtype(tensors: Sequence[Tensor]) -> DType:
    """The dtype that all of ``tensors`` promote to."""
    if not tensors:
        raise DTypeError("no tensors were given")
    out = tensors[0].lazy.dtype
    for t in tensors[1:]:
        out = promote(out, t.lazy.dtype)
    return out
