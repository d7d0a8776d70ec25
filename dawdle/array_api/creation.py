"""Creation functions."""

from __future__ import annotations

from typing import Any, Literal

from dawdle.dtype import DEFAULT_FLOAT, DType
from dawdle.errors import ArgumentError, InterchangeError
from dawdle.tensor import Tensor, joining
from dawdle.tensor.interop import from_data

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace",
    "meshgrid", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip

Shape = int | tuple[int, ...]


def asarray(
    obj: Any, /, *, dtype: DType | None = None, device: str | None = None, copy: bool | None = None
) -> Tensor:
    """A tensor of numbers, nested lists, arrays or whatever exports a buffer. Only ``copy=False`` shares
    memory that others may write to. Raises ArgumentError, a ValueError, where it can't.
    """
    if isinstance(obj, Tensor):
        unchanged = dtype in (None, obj.dtype) and device in (None, obj.device)
        if copy is False and not unchanged:
            raise ArgumentError(f"{obj.dtype.name} on {obj.device} can't become this without a copy")
        return obj if unchanged and not copy else obj.to(device=device, dtype=dtype)
    try:
        return Tensor._wrap(from_data(obj, dtype, device, copy=copy is not False))
    except InterchangeError as error:
        raise ArgumentError(str(error)) from None


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """See :meth:`Tensor.from_dlpack`."""
    return Tensor.from_dlpack(x, device=device, copy=copy)


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: DType | None = None,
    device: str | None = None,
) -> Tensor:  # fmt: skip
    """See :meth:`Tensor.arange`."""
    return Tensor.arange(start, stop, step, dtype=dtype, device=device)


def linspace(
    start: float, stop: float, /, num: int, *, dtype: DType | None = None, device: str | None = None,
    endpoint: bool = True,
) -> Tensor:  # fmt: skip
    """``num`` equally spaced numbers from ``start`` to ``stop``, with it or (``endpoint`` False) without."""
    if endpoint:
        return Tensor.linspace(start, stop, num, dtype=dtype, device=device)
    return Tensor.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DType | None = None,
    device: str | None = None,
) -> Tensor:  # fmt: skip
    """Ones on diagonal ``k``, above the main one for positive numbers, zeros elsewhere."""
    rows = Tensor.arange(n_rows, device=device).reshape(n_rows, 1)
    columns = Tensor.arange(n_rows if n_cols is None else n_cols, device=device)
    return (rows + k == columns).to(dtype=dtype or DEFAULT_FLOAT)


def full(shape: Shape, fill_value: float, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """See :meth:`Tensor.full`."""
    return Tensor.full(shape, fill_value, dtype=dtype, device=device)


def zeros(shape: Shape, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """Zeros, float32 by default."""
    return Tensor.full(shape, 0, dtype=dtype or DEFAULT_FLOAT, device=device)


def ones(shape: Shape, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """Ones, float32 by default."""
    return Tensor.full(shape, 1, dtype=dtype or DEFAULT_FLOAT, device=device)


def empty(shape: Shape, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """As :func:`zeros`: no element is ever undefined."""
    return zeros(shape, dtype=dtype, device=device)


def full_like(
    x: Tensor, /, fill_value: float, *, dtype: DType | None = None, device: str | None = None
) -> Tensor:
    """``fill_value`` in the shape of ``x``, by default in its dtype and on its device."""
    return Tensor.full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device)


def zeros_like(x: Tensor, /, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """Zeros of the shape of ``x``, by default of its dtype and device."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """Ones of the shape of ``x``, by default of its dtype and device."""
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """As :func:`zeros_like`."""
    return zeros_like(x, dtype=dtype, device=device)


def meshgrid(*arrays: Tensor, indexing: Literal["xy", "ij"] = "xy") -> list[Tensor]:
    """Coordinates of a grid along whose axes the 1-dimensional ``arrays`` lie; with "xy" the first two axes
    are exchanged.
    """
    return list(joining.meshgrid(*arrays, indexing=indexing))


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The lower triangle of each matrix, up to diagonal ``k``; zeros elsewhere."""
    return x.tril(k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The upper triangle of each matrix, from diagonal ``k`` on; zeros elsewhere."""
    return x.triu(k)
