"""Element types and NumPy's promotion rules, with bfloat16 added."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dawdle.errors import DTypeError


@dataclass(frozen=True)
class DType:
    """An element type: ``kind`` is 'b' bool, 'i' signed, 'u' unsigned or 'f' float; ``bits`` its width."""

    name: str
    kind: str
    bits: int

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are the dtype itself: dtypes are compared by identity."""
        return _named, (self.name,)

    @property
    def itemsize(self) -> int:
        """Bytes an element takes in memory (a bool takes one)."""
        return max(self.bits, 8) // 8

    @property
    def storage(self) -> np.dtype[Any]:
        """NumPy dtype of the bytes in a buffer; bfloat16 is stored as its uint16 bit pattern."""
        return np.dtype("uint16" if self.name == "bfloat16" else self.name)

    @property
    def compute(self) -> np.dtype[Any]:
        """NumPy dtype that holds its values exactly; bfloat16 values are held in float32."""
        return np.dtype("float32" if self.name == "bfloat16" else self.name)

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_int(self) -> bool:
        return self.kind in "iu"

    @property
    def is_bool(self) -> bool:
        return self.kind == "b"

    @property
    def min(self) -> float | int | bool:
        """The least value: -inf for floats."""
        if self.kind == "i":
            return -(1 << (self.bits - 1))
        return {"b": False, "u": 0, "f": float("-inf")}[self.kind]

    @property
    def max(self) -> float | int | bool:
        """The greatest value: inf for floats."""
        if self.is_int:
            return (1 << (self.bits - (self.kind == "i"))) - 1
        return {"b": True, "f": float("inf")}[self.kind]

    @property
    def mantissa(self) -> int:
        """Bits of a float's significand after the first, which isn't stored."""
        return {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}[self.name]

    @property
    def exponent(self) -> int:
        """The exponent of the largest powers of 2 among a float's values."""
        return (1 << (self.bits - self.mantissa - 2)) - 1

    @property
    def largest(self) -> float:
        """A float's greatest finite value."""
        return (2 - 2.0**-self.mantissa) * 2.0**self.exponent

    def __repr__(self) -> str:
        return f"dawdle.{self.name}"


bool_ = DType("bool", "b", 1)
int8, int16, int32, int64 = (DType(f"int{n}", "i", n) for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (DType(f"uint{n}", "u", n) for n in (8, 16, 32, 64))
float16, float32, float64 = (DType(f"float{n}", "f", n) for n in (16, 32, 64))
bfloat16 = DType("bfloat16", "f", 16)

ALL = (bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64)
BY_NAME = {d.name: d for d in ALL}
DEFAULT_FLOAT, DEFAULT_INT = float32, int64


def _named(name: str) -> DType:
    return BY_NAME[name]


def to_dtype(x: object) -> DType:
    """The DType for a DType, its name, a NumPy dtype or scalar type, or Python's bool, int and float.

    Raises DTypeError for anything else, complex numbers and strings included.
    """
    if isinstance(x, DType):
        return x
    if x is bool:
        return bool_
    if x is int:
        return DEFAULT_INT
    if x is float:
        return DEFAULT_FLOAT
    if isinstance(x, str) and x in BY_NAME:
        return BY_NAME[x]
    try:
        name = np.dtype(x).name  # type: ignore[call-overload]
    except TypeError:
        name = repr(x)
    if name not in BY_NAME:
        raise DTypeError(f"dtype {name} is not supported; use one of {', '.join(BY_NAME)}")
    return BY_NAME[name]


def of_scalar(value: bool | int | float) -> DType:
    """The default dtype of a Python scalar."""
    return bool_ if isinstance(value, bool) else DEFAULT_INT if isinstance(value, int) else DEFAULT_FLOAT


def promote(a: DType, b: DType) -> DType:
    """The common dtype of two arrays, as ``numpy.promote_types``.

    bfloat16 ranks beside float16, and the two give float32.
    """
    if a == b:
        return a
    if bfloat16 in (a, b):
        other = b if a is bfloat16 else a
        if other.is_float:
            return float32 if other is float16 else other
        return bfloat16 if other.bits <= 8 else to_dtype(np.promote_types("float16", other.name))
    return BY_NAME[np.promote_types(a.name, b.name).name]


def promote_scalar(a: DType, value: bool | int | float) -> DType:
    """The common dtype of an array and a Python scalar: the array's unless the scalar has a higher kind."""
    scalar = of_scalar(value)
    order = "bif"
    rank = order.index("i" if a.kind == "u" else a.kind)
    return scalar if order.index(scalar.kind) > rank else a


Array = np.ndarray[Any, Any]


def round_bfloat16(x: Array) -> Array:
    """A float32 array rounded to the nearest bfloat16 values, ties to even; NaN stays NaN."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    # the carry of a NaN's mantissa could reach the sign and give a zero
    return np.where(np.isnan(x), x, rounded.view(np.float32))


def round_to(x: Array, dtype: DType) -> Array:
    """Numbers as values of ``dtype``, held in its compute dtype; bfloat16 rounds by way of float32."""
    out = x.astype(dtype.compute, copy=False)
    return round_bfloat16(out) if dtype == bfloat16 else out


def to_storage(x: Array, dtype: DType) -> Array:
    """An array of ``dtype.compute`` as ``dtype.storage``; bfloat16 values round to their bit patterns."""
    if dtype != bfloat16:
        return np.asarray(x, dtype.storage)
    bits = round_bfloat16(x).view(np.uint32) >> np.uint32(16)
    # a NaN whose payload lies in the lower half only must not become an infinity
    return np.where(np.isnan(x), bits | np.uint32(0x40), bits).astype(np.uint16)


def from_storage(x: Array, dtype: DType) -> Array:
    """An array of ``dtype.storage`` as ``dtype.compute``: the inverse of :func:`to_storage`."""
    if dtype != bfloat16:
        return np.asarray(x, dtype.compute)
    return np.asarray((x.astype(np.uint32) << np.uint32(16)).view(np.float32))  # 0-d: a scalar
