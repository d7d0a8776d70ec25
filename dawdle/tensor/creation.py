"""Tensors made from nothing: constants, ranges. Each is a class method of Tensor and a function of the
package.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dawdle.dtype import DEFAULT_FLOAT, DEFAULT_INT, DType, of_scalar, to_dtype
from dawdle.errors import DTypeError, ShapeError
from dawdle.lazy import build
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import Scalar, cast, constant, fitting, shape_args

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


def full(
    cls: type[Tensor],
    shape: Any,
    fill_value: Scalar,
    dtype: object | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of ``shape`` with every element ``fill_value``. The dtype defaults to the scalar's (float32,
    int64, bool). Raises RangeError for an integer that doesn't fit it.
    """
    sizes = shape_args(shape if isinstance(shape, (tuple, list)) else (shape,), "full")
    if any(n < 0 for n in sizes):
        raise ShapeError(f"a shape can't have negative sizes, got {sizes}")
    kind = of_scalar(fill_value) if dtype is None else to_dtype(dtype)
    lazy = build.full(sizes, fitting(fill_value, kind), kind, cls._device_name(device))
    return cls._wrap(lazy).requires_grad_(requires_grad)


def zeros(cls: type[Tensor], *shape: Any, dtype: object | None = None, device: str | None = None,
          requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A tensor of zeros, float32 by default."""
    return full(cls, shape_args(shape, "zeros"), 0, dtype or DEFAULT_FLOAT, device, requires_grad)


def ones(cls: type[Tensor], *shape: Any, dtype: object | None = None, device: str | None = None,
         requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A tensor of ones, float32 by default."""
    return full(cls, shape_args(shape, "ones"), 1, dtype or DEFAULT_FLOAT, device, requires_grad)


def eye(
    cls: type[Tensor],
    n: int,
    m: int | None = None,
    dtype: object | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The n x m (n x n by default) matrix with ones on the diagonal, float32 by default."""
    name = cls._device_name(device)
    rows, columns = iota(cls, n, None, name), iota(cls, n if m is None else m, None, name)
    out = cast(ew.eq(rows.reshape(n, 1), columns), to_dtype(dtype or DEFAULT_FLOAT))
    return out.requires_grad_(requires_grad)


def iota(cls: type[Tensor], n: int, dtype: DType | None, device: str) -> Tensor:
    """0, 1, ..., n-1 on a device named canonically; int64 by default."""
    return cls._wrap(build.iota(n, dtype or DEFAULT_INT, device))


def arange(
    cls: type[Tensor],
    start: Scalar,
    stop: Scalar | None = None,
    step: Scalar = 1,
    dtype: object | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """start, start + step, ... below ``stop`` (``arange(n)``: 0 to n-1); int64 if all are integers, else
    float32.
    """
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ShapeError("arange: step must not be 0")
    steps = (stop - start) / step
    if not math.isfinite(steps):
        raise ShapeError(f"arange: from {start} to {stop} by {step} is no finite number of steps")
    n = max(math.ceil(steps), 0)
    whole = all(isinstance(v, int) for v in (start, stop, step))
    kind = to_dtype(dtype) if dtype is not None else DEFAULT_INT if whole else DEFAULT_FLOAT
    out = iota(cls, n, None, cls._device_name(device))
    out = out if whole else cast(out, kind if kind.is_float else DEFAULT_FLOAT)
    out = out if step == 1 else out * step
    out = out if start == 0 else out + start
    return cast(out, kind).requires_grad_(requires_grad)


def linspace(
    cls: type[Tensor],
    start: float,
    end: float,
    steps: int,
    dtype: object | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``steps`` equally spaced numbers from ``start`` to ``end``, both included; float32 by default."""
    if steps < 0:
        raise ShapeError(f"linspace: steps must not be negative, got {steps}")
    kind = to_dtype(dtype or DEFAULT_FLOAT)
    work = kind if kind.is_float else DEFAULT_FLOAT
    i = cast(iota(cls, steps, None, cls._device_name(device)), work)
    step = (end - start) / max(steps - 1, 1)
    from_end = constant(i, end) - (constant(i, steps - 1) - i) * step  # so that both ends are exact
    out = ew.where(ew.lt(i, steps / 2), i * step + start, from_end)
    return cast(out, kind).requires_grad_(requires_grad)


def full_like(
    x: Tensor, fill_value: Scalar, dtype: object | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of the shape, dtype and device of ``x`` with every element ``fill_value``."""
    out = constant(x, fill_value, None if dtype is None else to_dtype(dtype))
    return out.requires_grad_(requires_grad)


def zeros_like(x: Tensor, dtype: object | None = None, requires_grad: bool = False) -> Tensor:
    """Zeros of the shape, dtype and device of ``x``."""
    return full_like(x, 0, dtype, requires_grad)


def ones_like(x: Tensor, dtype: object | None = None, requires_grad: bool = False) -> Tensor:
    """Ones of the shape, dtype and device of ``x``."""
    return full_like(x, 1, dtype, requires_grad)


def float_dtype(dtype: object | None, what: str) -> DType:
    """``dtype``, float32 by default; DTypeError unless it is a float."""
    kind = to_dtype(dtype or DEFAULT_FLOAT)
    if not kind.is_float:
        raise DTypeError(f"{what} makes floats, got dtype {kind.name}; cast its result")
    return kind
