"""Tensors made from nothing: constants, ranges. Each is a class method of Tensor and a function of the
package.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dawdle.dtype import DEFAULT_FLOAT, DEFAULT_INT, DType, of_scalar, to_dtype
from dawdle.errors import DTypeError, ShapeError
from dawdle.lazy import build
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import Scalar, apply, cast, constant, fitting, keywords, shape_args
from dawdle.tensor.movement import shaped
from dawdle.tensor.power import power

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


@keywords(size="shape")
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


@shaped("size")
def zeros(cls: type[Tensor], *shape: Any, dtype: object | None = None, device: str | None = None,
          requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A tensor of zeros, float32 by default."""
    return full(cls, shape_args(shape, "zeros"), 0, dtype or DEFAULT_FLOAT, device, requires_grad)


@shaped("size")
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
    end: Scalar | None = None,
    step: Scalar = 1,
    dtype: object | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """start, start + step, ... before ``end`` (``arange(n)``: 0 to n-1); int64 if all are integers, else
    float32.
    """
    if end is None:
        start, end = 0, start
    if step == 0:
        raise ShapeError("arange: step must not be 0")
    numbers = (start, end, step)
    whole = all(isinstance(v, (int, np.integer)) for v in numbers)
    kind = to_dtype(dtype) if dtype is not None else DEFAULT_INT if whole else DEFAULT_FLOAT
    if whole:
        n = max(-(-(int(end) - int(start)) // int(step)), 0)
    else:
        steps = (end - start) / step
        if not math.isfinite(steps):
            raise ShapeError(f"arange: from {start} to {end} by {step} is no finite number of steps")
        n = max(math.ceil(steps), 0)
    out = iota(cls, n, None, cls._device_name(device))
    out = out if whole else cast(out, _work(kind))
    out = out if step == 1 else out * step
    out = out if start == 0 else out + start
    return cast(out, kind).requires_grad_(requires_grad)


def _work(kind: DType) -> DType:
    """The float in which steps are computed: at least float32."""
    return kind if kind.is_float and kind.bits >= 32 else DEFAULT_FLOAT


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
    kind = to_dtype(dtype or DEFAULT_FLOAT)
    out = _spaced(cls, start, end, steps, _work(kind), device, "linspace")
    return cast(out, kind).requires_grad_(requires_grad)


def _spaced(
    cls: type[Tensor], start: float, end: float, steps: int, work: DType, device: str | None, what: str
) -> Tensor:
    if steps < 0:
        raise ShapeError(f"{what}: steps must not be negative, got {steps}")
    i = cast(iota(cls, steps, None, cls._device_name(device)), work)
    step = (end - start) / max(steps - 1, 1)
    from_end = constant(i, end) - (constant(i, steps - 1) - i) * step  # so that both ends are exact
    return ew.where(ew.lt(i, steps / 2), i * step + start, from_end)


def logspace(
    cls: type[Tensor],
    start: float,
    end: float,
    steps: int,
    base: float = 10.0,
    dtype: object | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``base`` to the powers of ``linspace(start, end, steps)``; float32 by default."""
    kind = to_dtype(dtype or DEFAULT_FLOAT)
    powers = _spaced(cls, start, end, steps, _work(kind), device, "logspace")
    return cast(power(constant(powers, base), powers), kind).requires_grad_(requires_grad)


def tril_indices(
    cls: type[Tensor], row: int, col: int | None = None, offset: int = 0, device: str | None = None
) -> Tensor:
    """Row and column of each element on and below a diagonal of a ``row`` x ``col`` matrix, shape (2, n);
    int64.
    """
    found = np.stack(np.tril_indices(row, offset, row if col is None else col)).astype(np.int64)
    return cls._of(found, cls._device_name(device))


def triu_indices(
    cls: type[Tensor], row: int, col: int | None = None, offset: int = 0, device: str | None = None
) -> Tensor:
    """Row and column of each element on and above a diagonal, as in :func:`tril_indices`."""
    found = np.stack(np.triu_indices(row, offset, row if col is None else col)).astype(np.int64)
    return cls._of(found, cls._device_name(device))


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The Vandermonde matrix: column ``j`` holds the powers ``N - 1 - j`` of a vector, or ``j`` with
    ``increasing``.
    """
    if len(x.lazy.shape) != 1:
        raise ShapeError(f"vander takes a vector, got shape {x.lazy.shape}")
    n = x.lazy.size if N is None else N
    exponents = iota(type(x), n, None, x.lazy.device)
    line = exponents if increasing else constant(exponents, n - 1) - exponents
    column = apply(Op.RESHAPE, (x.lazy.size, 1), x)
    return power(column, cast(line, x.lazy.dtype))


def full_like(
    x: Tensor,
    fill_value: Scalar,
    dtype: object | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of the shape, dtype and device of ``x`` with every element ``fill_value``."""
    return full(type(x), x.lazy.shape, fill_value, **_as(x, dtype, device), requires_grad=requires_grad)


def _as(x: Tensor, dtype: object | None, device: str | None) -> dict[str, Any]:
    """The dtype and device of ``x`` where none are given."""
    return {"dtype": dtype or x.lazy.dtype, "device": device or x.lazy.device}


def zeros_like(
    x: Tensor, dtype: object | None = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Zeros of the shape, dtype and device of ``x``."""
    return full_like(x, 0, dtype, device, requires_grad)


def ones_like(
    x: Tensor, dtype: object | None = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Ones of the shape, dtype and device of ``x``."""
    return full_like(x, 1, dtype, device, requires_grad)


def new_full(
    x: Tensor,
    size: Any,
    fill_value: Scalar,
    dtype: object | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of shape ``size`` with every element ``fill_value``, of the dtype and device of ``x``."""
    return full(type(x), size, fill_value, **_as(x, dtype, device), requires_grad=requires_grad)


def new_zeros(
    x: Tensor,
    *size: Any,
    dtype: object | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Zeros of shape ``size``, of the dtype and device of ``x``."""
    return new_full(x, shape_args(size, "new_zeros"), 0, dtype, device, requires_grad)


def new_ones(
    x: Tensor,
    *size: Any,
    dtype: object | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones of shape ``size``, of the dtype and device of ``x``."""
    return new_full(x, shape_args(size, "new_ones"), 1, dtype, device, requires_grad)


def new_tensor(
    x: Tensor,
    data: Any,
    dtype: object | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A new tensor with a copy of ``data``, of the dtype and device of ``x``."""
    return type(x)(data, **_as(x, dtype, device), requires_grad=requires_grad)


def float_dtype(dtype: object | None, what: str) -> DType:
    """``dtype``, float32 by default; DTypeError unless it is a float."""
    kind = to_dtype(dtype or DEFAULT_FLOAT)
    if not kind.is_float:
        raise DTypeError(f"{what} makes floats, got dtype {kind.name}; cast its result")
    return kind
