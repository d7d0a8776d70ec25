"""Statistical and utility functions."""

from __future__ import annotations

from dawdle.array_api.dtypes import summed
from dawdle.dtype import DType
from dawdle.errors import ShapeError
from dawdle.tensor import Tensor

__all__ = [
    "all", "any", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "prod", "std",
    "sum", "var",
]  # fmt: skip

Axes = int | tuple[int, ...] | None


def sum(x: Tensor, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """Sum over ``axis``: of integers in int64 or, of unsigned ones, in uint64."""
    return x.sum(axis, keepdims, dtype=summed(x, dtype))


def prod(x: Tensor, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """Product over ``axis``: of integers in int64 or, of unsigned ones, in uint64."""
    return x.prod(axis, keepdims, dtype=summed(x, dtype))


def _with_start(x: Tensor, out: Tensor, axis: int, start: int) -> Tensor:
    shape = tuple(1 if i == axis % x.ndim else n for i, n in enumerate(x.shape))
    return Tensor.cat([Tensor.full(shape, start, out.dtype, out.device), out], dim=axis)


def _only_axis(x: Tensor, axis: int | None, what: str) -> int:
    if axis is None and x.ndim != 1:
        raise ShapeError(f"{what}: which axis of shape {x.shape}? pass axis=")
    return axis or 0


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Tensor:
    """Running sum along ``axis``, which one dimension may leave out; with a 0 before it if asked."""
    axis = _only_axis(x, axis, "cumulative_sum")
    out = x.cumsum(axis, dtype=summed(x, dtype))
    return _with_start(x, out, axis, 0) if include_initial else out


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Tensor:
    """Running product along ``axis``, which one dimension may leave out; with a 1 before it if asked."""
    axis = _only_axis(x, axis, "cumulative_prod")
    out = x.cumprod(axis, dtype=summed(x, dtype))
    return _with_start(x, out, axis, 1) if include_initial else out


def max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Largest element over ``axis``, NaN if there is one."""
    return x.amax(axis, keepdims)


def min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Smallest element over ``axis``, NaN if there is one."""
    return x.amin(axis, keepdims)


def mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Arithmetic mean over ``axis``."""
    return x.mean(axis, keepdims)


def std(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Standard deviation over ``axis``: the square root of :func:`var`."""
    return x.std(axis, keepdim=keepdims, correction=correction)


def var(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Variance over ``axis``: the mean squared distance from the mean, divided by n - ``correction``."""
    return x.var(axis, keepdim=keepdims, correction=correction)


def all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether every element over ``axis`` is not zero."""
    return x.all(axis, keepdims)


def any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether any element over ``axis`` is not zero."""
    return x.any(axis, keepdims)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Differences of neighbours along ``axis``, ``n`` times; nothing is added for n = 0."""
    return x.diff(n, axis, prepend, append) if n else x.positive()
