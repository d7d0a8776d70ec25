"""Element types and NumPy's promotion rules, with bfloat16 added."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dawdle.errors import DTypeError


@dataclass(frozen=True, eq=False)
class DType:
    """An element type: ``kind`` is 'b' bool, 'i' signed, 'u' unsigned or 'f' float; ``bits`` its width.

    Equal to its name and to what else :func:`to_dtype` knows it by: ``x.dtype == "float32"``, ``np.float32``.
    """

    name: str
    kind: str
    bits: int

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, DType):
            return False
        if isinstance(other, str):
            return self.name == other
        # NumPy takes many things for a dtype, None among them
        return isinstance(other, (type, np.dtype)) and _known(other) is self

    def __hash__(self) -> int:
        return hash(self.name)

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
    def is_floating_point(self) -> bool:
        """PyTorch's name of :attr:`is_float`."""
        return self.is_float

    @property
    def is_complex(self) -> bool:
        """False: no dtype is complex."""
        return False

    @property
    def is_signed(self) -> bool:
        """Whether there are negative values."""
        return self.kind in "if"

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
    known = _known(x)
    if known is None:
        raise DTypeError(f"dtype {_name_of(x)} is not supported; use one of {', '.join(BY_NAME)}")
    return known


def _known(x: object) -> DType | None:
    """The DType that ``x``, which isn't one, stands for, if there is one."""
    if x is bool:
        return bool_
    if x is int:
        return DEFAULT_INT
    if x is float:
        return DEFAULT_FLOAT
    if isinstance(x, str) and x in BY_NAME:
        return BY_NAME[x]
    return BY_NAME.get(_name_of(x))


def _name_of(x: object) -> str:
    try:
        return str(np.dtype(x).name)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return repr(x)


def of_scalar(value: bool | int | float) -> DType:
    """The default dtype of a Python scalar."""
    return bool_ if isinstance(value, bool) else DEFAULT_INT if isinstance(value, int) else DEFAULT_FLOAT


@dataclass(frozen=True)
class FloatInfo:
    """What a float dtype can hold."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType

    @property
    def tiny(self) -> float:
        """The smallest positive number of full precision."""
        return self.smallest_normal

    @property
    def smallest_subnormal(self) -> float:
        """The smallest positive number."""
        return self.smallest_normal * self.eps

    @property
    def resolution(self) -> float:
        """A power of ten: so far apart numbers of its decimal digits are told from each other."""
        return 10.0 ** -int(self.dtype.mantissa * math.log10(2))


@dataclass(frozen=True)
class IntInfo:
    """What an integer dtype can hold."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: object = DEFAULT_FLOAT) -> FloatInfo:
    """Limits of a float dtype, given as :func:`to_dtype` takes it. Raises DTypeError for others."""
    kind = to_dtype(type)
    if not kind.is_float:
        raise DTypeError(f"finfo describes floats, got {kind.name}; see iinfo")
    smallest = 2.0 ** (1 - kind.exponent)
    return FloatInfo(kind.bits, 2.0**-kind.mantissa, kind.largest, -kind.largest, smallest, kind)


def iinfo(type: object) -> IntInfo:
    """Limits of an integer dtype, given as :func:`to_dtype` takes it. Raises DTypeError for others."""
    kind = to_dtype(type)
    if not kind.is_int:
        raise DTypeError(f"iinfo describes integers, got {kind.name}; see finfo")
    return IntInfo(kind.bits, int(kind.max), int(kind.min), kind)


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
