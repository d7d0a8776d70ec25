"""Data types and what is said of them."""

from __future__ import annotations

from typing import Any

from dawdle.dtype import (
    ALL,
    DType,
    FloatInfo,
    IntInfo,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    promote,
    promote_scalar,
    uint8,
    uint16,
    uint32,
    uint64,
)
from dawdle.dtype import finfo as describe_floats
from dawdle.dtype import iinfo as describe_integers
from dawdle.errors import DTypeError
from dawdle.tensor import Tensor

__all__ = [
    "astype",
    "bfloat16",
    "bool",
    "can_cast",
    "finfo",
    "float16",
    "float32",
    "float64",
    "iinfo",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "result_type",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]  # fmt: skip

_Truth = bool
bool = bool_

KINDS: dict[str, str] = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu", "real floating": "f",
    "complex floating": "", "numeric": "iuf",
}  # fmt: skip


def dtype_of(x: Any) -> DType:
    """The dtype of a tensor, or the dtype itself."""
    kind = x.dtype if isinstance(x, Tensor) else x
    if not isinstance(kind, DType):
        raise DTypeError(f"{kind!r} is neither an array nor a dtype of this namespace")
    return kind


def finfo(type: DType | Tensor, /) -> FloatInfo:
    """Limits of a float dtype. Raises DTypeError for others."""
    return describe_floats(dtype_of(type))


def iinfo(type: DType | Tensor, /) -> IntInfo:
    """Limits of an integer dtype. Raises DTypeError for others."""
    return describe_integers(dtype_of(type))


def isdtype(dtype: DType, kind: DType | str | tuple[DType | str, ...]) -> _Truth:
    """Whether a dtype is, or is of the kind, that is named, or one of several."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise DTypeError(f"unknown kind of dtypes {kind!r}; known are {', '.join(KINDS)}")
        return dtype.kind in KINDS[kind]
    return dtype == kind


def can_cast(from_: DType | Tensor, to: DType, /) -> _Truth:
    """Whether promotion with ``to`` gives ``to``."""
    return promote(dtype_of(from_), to) == to


def result_type(*arrays_and_dtypes: Tensor | DType | complex) -> DType:
    """The dtype that arrays, dtypes and Python numbers promote to."""
    numbers = [x for x in arrays_and_dtypes if isinstance(x, (int, float))]
    kinds = [dtype_of(x) for x in arrays_and_dtypes if not isinstance(x, (int, float))]
    if not kinds:
        raise DTypeError("result_type needs an array or a dtype")
    out = kinds[0]
    for kind in kinds[1:]:
        out = promote(out, kind)
    for number in numbers:
        out = promote_scalar(out, number)
    return out


def astype(x: Tensor, dtype: DType, /, *, copy: _Truth = True, device: str | None = None) -> Tensor:
    """``x`` in another dtype: another handle unless nothing changes and ``copy`` is False."""
    unchanged = dtype == x.dtype and device in (None, x.device)
    return x if unchanged and not copy else x.to(device=device, dtype=dtype)


def summed(x: Tensor, dtype: DType | None) -> DType | None:
    """The dtype in which the standard sums and multiplies: integers in the default one of their kind."""
    return uint64 if dtype is None and x.dtype.kind == "u" else dtype


# those that the standard has
BY_KIND = {k: {d.name: d for d in ALL if d not in (float16, bfloat16) and isdtype(d, k)} for k in KINDS}
