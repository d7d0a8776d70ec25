"""Arithmetic, comparison, bitwise and rounding functions of elements, with broadcasting and promotion."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from dawdle.dtype import (
    DEFAULT_FLOAT,
    DType,
    bool_,
    promote,
    promote_scalar,
    uint16,
    uint32,
    uint64,
)
from dawdle.errors import ArgumentError, DTypeError, RangeError
from dawdle.lazy.ops import Op
from dawdle.tensor.autograd import Composite
from dawdle.tensor.core import (
    Operand,
    Scalar,
    apply,
    broadcast_shape,
    cast,
    coerce,
    composite,
    constant,
    expand_to,
    fits,
    is_scalar,
    number_of,
    pair,
    same,
    tensors_of,
    to_float,
    widen,
)

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

UNSIGNED = {16: uint16, 32: uint32, 64: uint64}


def promoted(a: Operand, b: Operand) -> DType:
    """The dtype that two operands promote to."""
    if not hasattr(a, "lazy"):
        a, b = b, a
    x: Tensor = a  # type: ignore[assignment]
    if is_scalar(b):
        return promote_scalar(x.lazy.dtype, number_of(b))
    return promote(x.lazy.dtype, coerce(x, b).lazy.dtype)


def float_pair(what: str, a: Operand, b: Operand) -> tuple[Tensor, Tensor]:
    """Two operands as :func:`pair`; integers and bools in float32."""
    dtype = promoted(a, b)
    return pair(what, a, b, dtype if dtype.is_float else DEFAULT_FLOAT)


# ---- arithmetic


def add(x: Tensor, other: Operand, *, alpha: Scalar = 1) -> Tensor:
    """x + alpha * other; of bools, their logical or."""
    a, b = pair("add", x, other if alpha == 1 else _scaled("add", x, other, alpha))
    return apply(Op.OR if a.lazy.dtype.is_bool else Op.ADD, None, a, b)


def sub(x: Tensor, other: Operand, *, alpha: Scalar = 1) -> Tensor:
    """x - alpha * other. Raises DTypeError for bools."""
    return apply(Op.SUB, None, *pair("sub", x, other if alpha == 1 else _scaled("sub", x, other, alpha)))


def _scaled(what: str, x: Operand, other: Operand, alpha: Scalar) -> Operand:
    """``alpha`` times the second operand, which stays an integer where both operands are."""
    if isinstance(alpha, float) and not promoted(x, other).is_float:
        raise DTypeError(f"{what}: alpha={alpha} would make integers floats; cast an operand to float first")
    return other * alpha if is_scalar(other) else mul(coerce(x, other), alpha)  # type: ignore[operator, arg-type]


def mul(x: Tensor, other: Operand) -> Tensor:
    """Product of elements; of bools, their logical and."""
    a, b = pair("mul", x, other)
    return apply(Op.AND if a.lazy.dtype.is_bool else Op.MUL, None, a, b)


def fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """a * b + c of floats of one shape and dtype, rounded once where the device does that in one instruction.

    For approximations: what users write as a product and a sum is rounded twice, as NumPy does.
    """
    return apply(Op.FMA, None, a, b, c)


def div(x: Tensor, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
    """Quotient of elements. Without a mode, the true one: of integers and bools, in float32. Rounded towards
    zero ("trunc") or down ("floor") it keeps the dtype; integers divided by zero then give 0.
    """
    if rounding_mode is not None:
        if rounding_mode not in ROUNDED_QUOTIENTS:
            raise ArgumentError(
                f"div: rounding_mode must be None, 'trunc' or 'floor', got {rounding_mode!r}"
            )
        return ROUNDED_QUOTIENTS[rounding_mode](x, other)
    return apply(Op.DIV, None, *float_pair("div", x, other))


def floordiv(x: Tensor, other: Operand) -> Tensor:
    """Quotient rounded down, as NumPy's ``//``; 0 where integers are divided by zero."""
    return apply(Op.IDIV, None, *pair("floordiv", x, other))


def mod(x: Tensor, other: Operand) -> Tensor:
    """Remainder with the divisor's sign, as NumPy's ``%``; 0 where integers are divided by zero."""
    return apply(Op.MOD, None, *pair("mod", x, other))


def _truncated_quotient(x: Tensor, other: Operand) -> Tensor:
    a, b = pair("div", x, other)
    if a.lazy.dtype.is_float:
        return trunc(apply(Op.DIV, None, a, b))
    quotient, rest = apply(Op.IDIV, None, a, b), apply(Op.MOD, None, a, b)
    if a.lazy.dtype.kind == "u":
        return quotient
    negative = ne(lt(a, 0), lt(b, 0))
    return where(bitand(ne(rest, 0), negative), add(quotient, 1), quotient)


ROUNDED_QUOTIENTS: dict[str, Callable[[Tensor, Operand], Tensor]] = {
    "trunc": _truncated_quotient,
    "floor": floordiv,
}


def neg(x: Tensor) -> Tensor:
    """Each element negated. Raises DTypeError for bools."""
    return apply(Op.NEG, None, x)


def positive(x: Tensor) -> Tensor:
    """The elements as they are. Raises DTypeError for bools."""
    if x.lazy.dtype.is_bool:
        raise DTypeError("unary plus takes integers and floats, got bool; cast the operand first")
    return same(x)


def reciprocal(x: Tensor) -> Tensor:
    """1 / x; of integers, in float32."""
    return apply(Op.RECIP, None, to_float(x))


def square(x: Tensor) -> Tensor:
    """x * x."""
    return mul(x, x)


def maximum(x: Tensor, other: Operand) -> Tensor:
    """The larger of two elements; NaN where either is NaN. Equal elements share the gradient."""
    return apply(Op.MAX, None, *pair("maximum", x, other))


def minimum(x: Tensor, other: Operand) -> Tensor:
    """The smaller of two elements; NaN where either is NaN. Equal elements share the gradient."""
    a, b = (reversed_order(t) for t in pair("minimum", x, other))
    return reversed_order(apply(Op.MAX, None, a, b))


def reversed_order(x: Tensor) -> Tensor:
    """``x`` mapped so that smaller elements become larger ones, exactly, and back by the same map."""
    return neg(x) if x.lazy.dtype.is_float else invert(x)


def absolute(x: Tensor) -> Tensor:
    """Magnitude of each element; the gradient at 0 is 0."""
    return same(x) if x.lazy.dtype.kind in "bu" else composite(Composite.ABS, _absolute, x)


def _absolute(x: Tensor) -> Tensor:
    dtype = x.lazy.dtype
    if not dtype.is_float:
        return where(lt(x, 0), neg(x), x)
    return from_bits(bitand(bits_of(x), (1 << (dtype.bits - 1)) - 1), dtype)  # also of -0 and NaN


def bits_of(x: Tensor) -> Tensor:
    """The bit patterns of floats, as unsigned integers of their width."""
    return apply(Op.BITCAST, UNSIGNED[x.lazy.dtype.bits], x.detach())


def from_bits(x: Tensor, dtype: DType) -> Tensor:
    """The floats of ``dtype`` with these bit patterns."""
    return apply(Op.BITCAST, dtype, x)


def signbit(x: Tensor) -> Tensor:
    """Whether the sign bit is set: of negative numbers, -0 and some NaNs."""
    dtype = x.lazy.dtype
    if not dtype.is_float:
        return constant(x, False, bool_) if dtype.kind in "bu" else lt(x, 0)
    return ne(rshift(bits_of(x), dtype.bits - 1), 0)


def with_sign(size: Tensor, x: Tensor) -> Tensor:
    """The non-negative floats ``size`` with the sign bits of ``x``, of the same dtype; no gradient."""
    dtype = x.lazy.dtype
    sign = bitand(bits_of(x), 1 << (dtype.bits - 1))
    return from_bits(bitor(bits_of(size), sign), dtype)


def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1 by each element's sign; NaN for NaN. The gradient is 0."""
    if x.lazy.dtype.kind in "bu":
        return cast(ne(x, 0), x.lazy.dtype)
    zero = add(mul(x, 0), 0)  # 0 also of -0; NaN stays
    return where(lt(x, 0), -1, where(gt(x, 0), 1, zero))


# ---- comparison


def _comparable(x: Tensor, other: Operand) -> Operand:
    """An integer beyond the range of the dtype in which it would be compared is an infinity for it."""
    if isinstance(other, int) and not fits(other, promote_scalar(x.lazy.dtype, other)):
        return math.copysign(math.inf, other > 0 or -1)
    return other


def lt(x: Tensor, other: Operand) -> Tensor:
    """x < other, as bool."""
    return apply(Op.CMPLT, None, *pair("lt", x, _comparable(x, other)))


def gt(x: Tensor, other: Operand) -> Tensor:
    """x > other, as bool."""
    a, b = pair("gt", x, _comparable(x, other))
    return apply(Op.CMPLT, None, b, a)


def eq(x: Tensor, other: Operand) -> Tensor:
    """x == other, as bool."""
    return apply(Op.CMPEQ, None, *pair("eq", x, _comparable(x, other)))


def ne(x: Tensor, other: Operand) -> Tensor:
    """x != other, as bool."""
    return logical_not(eq(x, other))


def le(x: Tensor, other: Operand) -> Tensor:
    """x <= other, as bool."""
    a, b = pair("le", x, _comparable(x, other))
    if not a.lazy.dtype.is_float:
        return logical_not(apply(Op.CMPLT, None, b, a))
    return apply(Op.OR, None, apply(Op.CMPLT, None, a, b), apply(Op.CMPEQ, None, a, b))


def ge(x: Tensor, other: Operand) -> Tensor:
    """x >= other, as bool."""
    a, b = pair("ge", x, _comparable(x, other))
    if not a.lazy.dtype.is_float:
        return logical_not(apply(Op.CMPLT, None, a, b))
    return apply(Op.OR, None, apply(Op.CMPLT, None, b, a), apply(Op.CMPEQ, None, a, b))


def isnan(x: Tensor) -> Tensor:
    """Whether each element is NaN."""
    return ne(x, x) if x.lazy.dtype.is_float else constant(x, False, bool_)


def isinf(x: Tensor) -> Tensor:
    """Whether each element is an infinity."""
    return eq(absolute(x.detach()), math.inf) if x.lazy.dtype.is_float else constant(x, False, bool_)


def isfinite(x: Tensor) -> Tensor:
    """Whether each element is neither an infinity nor NaN."""
    return lt(absolute(x.detach()), math.inf) if x.lazy.dtype.is_float else constant(x, True, bool_)


# ---- bitwise and logical


def bitand(x: Tensor, other: Operand) -> Tensor:
    """Bitwise and; of bools, logical and. Raises DTypeError for floats."""
    return apply(Op.AND, None, *pair("bitwise and", x, other))


def bitor(x: Tensor, other: Operand) -> Tensor:
    """Bitwise or; of bools, logical or. Raises DTypeError for floats."""
    return apply(Op.OR, None, *pair("bitwise or", x, other))


def bitxor(x: Tensor, other: Operand) -> Tensor:
    """Bitwise exclusive or. Raises DTypeError for floats."""
    return apply(Op.XOR, None, *pair("bitwise xor", x, other))


def invert(x: Tensor) -> Tensor:
    """Bitwise complement; of bools, logical not. Raises DTypeError for floats."""
    return apply(Op.XOR, None, x, constant(x, -1 if x.lazy.dtype.kind == "i" else x.lazy.dtype.max))


def lshift(x: Tensor, other: Operand) -> Tensor:
    """Bits shifted up; 0 where the count is at least the width."""
    return apply(Op.SHL, None, *pair("shift", x, other))


def rshift(x: Tensor, other: Operand) -> Tensor:
    """Bits shifted down, filling with the sign; the sign where the count is at least the width."""
    return apply(Op.SHR, None, *pair("shift", x, other))


def logical_not(x: Tensor) -> Tensor:
    """Whether each element is zero."""
    return invert(x) if x.lazy.dtype.is_bool else eq(x, 0)


def truth(x: Tensor) -> Tensor:
    """Whether each element is not zero."""
    return x if x.lazy.dtype.is_bool else ne(x, 0)


def logical_and(x: Tensor, other: Tensor) -> Tensor:
    """Whether both elements are not zero."""
    return bitand(truth(x), truth(coerce(x, other)))


def logical_or(x: Tensor, other: Tensor) -> Tensor:
    """Whether either element is not zero."""
    return bitor(truth(x), truth(coerce(x, other)))


def logical_xor(x: Tensor, other: Tensor) -> Tensor:
    """Whether just one of the elements is not zero."""
    return bitxor(truth(x), truth(coerce(x, other)))


# ---- choice


def where(condition: Operand, a: Operand, b: Operand) -> Tensor:
    """``a`` where the bool ``condition`` holds, else ``b``, broadcast together.

    The branch not taken gets a zero gradient, even where its value is NaN.
    """
    mask: Tensor = condition if hasattr(condition, "lazy") else tensors_of((condition, a, b), "where")[0]  # type: ignore[assignment]
    if not hasattr(a, "lazy") and not hasattr(b, "lazy"):
        a = coerce(mask, a)
    x, y = pair("where", a, b)
    shape = broadcast_shape("where", mask.lazy.shape, x.lazy.shape)
    return apply(Op.WHERE, None, expand_to(mask, shape), expand_to(x, shape), expand_to(y, shape))


def where_method(x: Tensor, condition: Operand, other: Operand) -> Tensor:
    """``x`` where ``condition`` holds, else ``other``, broadcast together: ``dawdle.where(condition, x,
    other)``.

    Raises DTypeError where the condition isn't of bools: it is the first argument, ``x`` what is kept.
    """
    mask = coerce(x, condition)
    if not mask.lazy.dtype.is_bool:
        raise DTypeError(
            "x.where(condition, other) keeps x where the condition holds, so the condition must be of bools, "
            f"got {mask.lazy.dtype.name}; to choose by a mask, write dawdle.where(mask, a, b)"
        )
    return where(mask, x, other)


def written(x: Tensor, value: Operand, shape: tuple[int, ...] = ()) -> Tensor:
    """What is to be written into ``x``, in its dtype; a number fills ``shape``."""
    if is_scalar(value):
        return constant(x, number_of(value), shape=shape)
    return cast(coerce(x, value), x.lazy.dtype)


def masked_fill(x: Tensor, mask: Operand, value: Scalar | Tensor) -> Tensor:
    """``x`` with ``value`` where ``mask`` holds, in the dtype of ``x``."""
    return where(coerce(x, mask), written(x, value), x)


# ---- rounding


def _float_only(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Integers are whole already."""

    def method(x: Tensor) -> Tensor:
        return function(x) if x.lazy.dtype.is_float else same(x)

    method.__name__, method.__doc__ = function.__name__, function.__doc__
    return method


@_float_only
def trunc(x: Tensor) -> Tensor:
    """Rounded towards zero; the gradient is 0."""
    return apply(Op.TRUNC, None, x)


@_float_only
def floor(x: Tensor) -> Tensor:
    """Rounded down; the gradient is 0."""
    t = apply(Op.TRUNC, None, x)
    return where(lt(x, t), sub(t, 1), t)


@_float_only
def ceil(x: Tensor) -> Tensor:
    """Rounded up; the gradient is 0."""
    t = apply(Op.TRUNC, None, x)
    return where(lt(t, x), add(t, 1), t)


DECIMALS = 300  # ten to a higher power is no float


def round(x: Tensor, decimals: int = 0) -> Tensor:
    """Rounded to the nearest number of so many decimals, halves to the even one; the gradient is 0.

    Integers are whole already: negative ``decimals``, which count tens, need floats (DTypeError).
    """
    if not x.lazy.dtype.is_float:
        if decimals < 0:
            raise DTypeError(f"round: decimals={decimals} needs floats, got {x.lazy.dtype.name}; cast it")
        return same(x)
    if not decimals:
        return _round(x)
    if abs(decimals) > DECIMALS:
        raise RangeError(f"round: decimals must be within {-DECIMALS} and {DECIMALS}, got {decimals}")
    wide = widen(x)
    scale = 10.0 ** abs(decimals)
    rounded = div(_round(mul(wide, scale)), scale) if decimals > 0 else mul(_round(div(wide, scale)), scale)
    return cast(where(isfinite(wide), rounded, wide), x.lazy.dtype)


def _round(x: Tensor) -> Tensor:
    t = apply(Op.TRUNC, None, x)
    rest = absolute(sub(x, t).detach())
    half = mul(t.detach(), 0.5)
    odd = ne(half, apply(Op.TRUNC, None, half))
    away = bitor(gt(rest, 0.5), bitand(eq(rest, 0.5), odd))
    return where(away, add(t, where(lt(x, 0), constant(x, -1), constant(x, 1))), t)


def pythons_round(x: Tensor, ndigits: int | None = None) -> Tensor:
    """``round(tensor, ndigits)``: a tensor of the same dtype also without ``ndigits``."""
    return round(x, ndigits or 0)


def frac(x: Tensor) -> Tensor:
    """What truncation takes away: x - trunc(x)."""
    return sub(x, trunc(x))
