"""Tensors of what Python and NumPy hold, and questions about them, by PyTorch's names."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

from dawdle.array_api import creation
from dawdle.dtype import DEFAULT_FLOAT, DType, promote, to_dtype
from dawdle.errors import DTypeError, ShapeError
from dawdle.tensor import Tensor
from dawdle.tensor.arguments import public

KINDS = {"b": 0, "u": 1, "i": 1, "f": 2}


@public
def tensor(
    data: Any, dtype: object | None = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """A new tensor with a copy of ``data``: see :class:`Tensor`."""
    return Tensor(data, dtype=dtype, device=device, requires_grad=requires_grad)


@public
def asarray(
    obj: Any,
    dtype: object | None = None,
    device: str | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``obj`` itself where it is a tensor of that dtype on that device, else a tensor of its elements. Only
    ``copy=False`` shares memory that others may write to; it raises ArgumentError, a ValueError, where that
    can't be. ``copy=True`` gives a tensor of its own in any case.
    """
    kind = None if dtype is None else to_dtype(dtype)
    out = creation.asarray(obj, dtype=kind, device=device, copy=copy)
    return out.requires_grad_() if requires_grad else out


def as_tensor(data: Any, dtype: object | None = None, device: str | None = None) -> Tensor:
    """``data`` itself where it is a tensor of that dtype on that device; one converted to them, which
    gradients flow through; or a new one with a copy of numbers, lists, arrays and buffers.

    ``from_numpy`` shares an array's memory instead.
    """
    return asarray(data, dtype, device)


@public
def scalar_tensor(
    value: float, dtype: object | None = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """A 0-dimensional tensor, float32 by default."""
    return Tensor(value, dtype=dtype or DEFAULT_FLOAT, device=device, requires_grad=requires_grad)


@public
def frombuffer(
    buffer: Any,
    *,
    dtype: object,
    count: int = -1,
    offset: int = 0,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A vector of the ``count`` elements (all by default) that lie in ``buffer`` from byte ``offset`` on: a
    copy. Raises ShapeError where there aren't so many.
    """
    kind = to_dtype(dtype)
    try:
        array = np.frombuffer(buffer, kind.storage, count, offset)
    except ValueError as error:
        raise ShapeError(f"frombuffer: {error}") from None
    except TypeError:
        raise DTypeError(f"frombuffer takes bytes or a buffer, got {type(buffer).__name__}") from None
    stored = Tensor(array, device=device)
    return (stored.bitcast(kind) if stored.dtype is not kind else stored).requires_grad_(requires_grad)


def is_tensor(obj: object) -> TypeGuard[Tensor]:
    """Whether ``obj`` is a Tensor."""
    return isinstance(obj, Tensor)


def get_default_dtype() -> DType:
    """float32, the dtype of Python's floats and of what makes floats of integers."""
    return DEFAULT_FLOAT


def promote_types(type1: object, type2: object) -> DType:
    """The common dtype of arrays of two, as NumPy's; bfloat16 and float16 give float32."""
    return promote(to_dtype(type1), to_dtype(type2))


def can_cast(from_: object, to: object) -> bool:
    """Whether a cast keeps to a kind or leads to a higher one, of bools, integers and floats: what in-place
    operations may do.
    """
    return KINDS[to_dtype(from_).kind] <= KINDS[to_dtype(to).kind]


def is_floating_point(input: Tensor) -> bool:
    """Whether a tensor holds floats."""
    return _of(input, "is_floating_point").is_floating_point()


def is_complex(input: Tensor) -> bool:
    """False for every tensor: none holds complex numbers."""
    return _of(input, "is_complex").is_complex()


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not 0. Raises ConversionError unless there is just one."""
    return _of(input, "is_nonzero").is_nonzero()


def detach(input: Tensor) -> Tensor:
    """See :meth:`Tensor.detach`."""
    return _of(input, "detach").detach()


def _of(x: Tensor, what: str) -> Tensor:
    if not isinstance(x, Tensor):
        raise DTypeError(f"{what} takes a tensor, got {type(x).__name__}; use Tensor()")
    return x
