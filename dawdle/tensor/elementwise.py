"""Arithmetic, comparison, bitwise and rounding functions of elements, with broadcasting and promotion."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dawdle.dtype import DEFAULT_FLOAT, DType, float32, promote, promote_scalar, uint16, uint32, uint64
from dawdle.errors import DTypeError, ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor.autograd import Composite
from dawdle.tensor.core import (
    HALF,
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
    pair,
    same,
)

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

Binary = Callable[["Tensor", Operand], "Tensor"]


def _dtypes(a: Operand, b: Operand) -> DType:
    """The dtype that two operands promote to."""
    if not hasattr(a, "lazy"):
        a, b = b, a
    x: Tensor = a  # type: ignore[assignment]
    if is_scalar(b):
        return promote_scalar(x.lazy.dtype, b.item() if isinstance(b, np.generic) else b)  # type: ignore[arg-type]
    return promote(x.lazy.dtype, coerce(x, b).lazy.dtype)


def _operands(x: Tensor, other: object) -> bool:
    return hasattr(other, "lazy") or is_scalar(other) or isinstance(other, (np.ndarray, list, tuple))


def operator(function: Binary, reflected: bool = False) -> Binary:
    """``function`` as the method behind an operator: it leaves operands of unknown kinds to their own type.
    """

    def method(x: Tensor, other: Operand) -> Tensor:
        if not _operands(x, other):
            return NotImplemented  # type: ignore[no-any-return]
        return function(other, x) if reflected else function(x, other)  # type: ignore[arg-type]

    method.__name__ = f"__{'r' if reflected else ''}{function.__name__}__"
    method.__doc__ = function.__doc__
    return method


def inplace(function: Binary) -> Binary:
    """``function`` as an in-place operator: the handle is rebound to the result, in its own shape and dtype.
    """

    def method(x: Tensor, other: Operand) -> Tensor:
        if not _operands(x, other):
            return NotImplemented  # type: ignore[no-any-return]
        result = function(x, other)
        if result.lazy.dtype != x.lazy.dtype and not _fits(result.lazy.dtype, x.lazy.dtype):
            raise DTypeError(
                f"in-place {function.__name__} would change {x.lazy.dtype.name} to {result.lazy.dtype.name}; "
                f"write x = {function.__name__}(x, y), or cast the operand"
            )
        if result.lazy.shape != x.lazy.shape:
            raise ShapeError(
                f"in-place {function.__name__} would change the shape {x.lazy.shape} to {result.lazy.shape}; "
                f"write x = {function.__name__}(x, y), or reduce the operand"
            )
        return x._rebind(cast(result, x.lazy.dtype))

    method.__name__ = f"__i{function.__name__}__"
    return method


def _fits(result: DType, own: DType) -> bool:
    order = "biuf"
    return order.index(result.kind.replace("u", "i")) <= order.index(own.kind.replace("u", "i"))


# ---- arithmetic


def add(x: Tensor, other: Operand) -> Tensor:
    """Sum of elements; of bools, their logical or."""
    a, b = pair("add", x, other)
    return apply(Op.OR if a.lazy.dtype.is_bool else Op.ADD, None, a, b)


def sub(x: Tensor, other: Operand) -> Tensor:
    """Difference of elements. Raises DTypeError for bools."""
    return apply(Op.SUB, None, *pair("sub", x, other))


def mul(x: Tensor, other: Operand) -> Tensor:
    """Product of elements; of bools, their logical and."""
    a, b = pair("mul", x, other)
    return apply(Op.AND if a.lazy.dtype.is_bool else Op.MUL, None, a, b)


def div(x: Tensor, other: Operand) -> Tensor:
    """True quotient of elements; of integers and bools, in float32."""
    dtype = _dtypes(x, other)
    return apply(Op.DIV, None, *pair("div", x, other, dtype if dtype.is_float else DEFAULT_FLOAT))


def floordiv(x: Tensor, other: Operand) -> Tensor:
    """Quotient rounded down, as NumPy's ``//``; 0 where integers are divided by zero."""
    return apply(Op.IDIV, None, *pair("floordiv", x, other))


def mod(x: Tensor, other: Operand) -> Tensor:
    """Remainder with the divisor's sign, as NumPy's ``%``; 0 where integers are divided by zero."""
    return apply(Op.MOD, None, *pair("mod", x, other))


def neg(x: Tensor) -> Tensor:
    """Each element negated."""
    return apply(Op.NEG, None, x)


def reciprocal(x: Tensor) -> Tensor:
    """1 / x; of integers, in float32."""
    return apply(Op.RECIP, None, x if x.lazy.dtype.is_float else cast(x, DEFAULT_FLOAT))


def square(x: Tensor) -> Tensor:
    """x * x."""
    return mul(x, x)


def maximum(x: Tensor, other: Operand) -> Tensor:
    """The larger of two elements; NaN where either is NaN. Equal elements share the gradient."""
    return apply(Op.MAX, None, *pair("maximum", x, other))


def minimum(x: Tensor, other: Operand) -> Tensor:
    """The smaller of two elements; NaN where either is NaN. Equal elements share the gradient."""
    a, b = pair("minimum", x, other)
    flip = neg if a.lazy.dtype.is_float else invert
    return flip(apply(Op.MAX, None, flip(a), flip(b)))


def absolute(x: Tensor) -> Tensor:
    """Magnitude of each element; the gradient at 0 is 0."""
    return same(x) if x.lazy.dtype.kind in "bu" else composite(Composite.ABS, _absolute, x)


def _absolute(x: Tensor) -> Tensor:
    dtype = x.lazy.dtype
    if dtype in HALF:
        return cast(_absolute(cast(x, float32)), dtype)
    if not dtype.is_float:
        return where(lt(x, 0), neg(x), x)
    bits = uint32 if dtype.bits == 32 else uint64  # clearing the sign bit is right for -0 and NaN too
    pattern = apply(Op.AND, None, *pair("abs", apply(Op.BITCAST, bits, x), (1 << (dtype.bits - 1)) - 1))
    return apply(Op.BITCAST, dtype, pattern)


def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1 by each element's sign; NaN for NaN."""
    if x.lazy.dtype.kind in "bu":
        return cast(ne(x, 0), x.lazy.dtype)
    x = x.detach()
    return where(lt(x, 0), -1, where(gt(x, 0), 1, x))


def clamp(x: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Each element limited to [min, max]; NaN stays. The gradient is 1 within the limits, both included."""
    if is_scalar(min) or is_scalar(max):  # a float limit makes an integer tensor float
        for limit in (min, max):
            if is_scalar(limit):
                x = cast(x, promote_scalar(x.lazy.dtype, limit))  # type: ignore[arg-type]
    limits = [None if limit is None else pair("clamp", x, limit)[1] for limit in (min, max)]
    shape = broadcast_shape(
        "clamp", x.lazy.shape, *[limit.lazy.shape for limit in limits if limit is not None]
    )
    low, high = (None if m is None else expand_to(cast(m, x.lazy.dtype), shape).detach() for m in limits)

    def value(x: Tensor) -> Tensor:
        x = x if low is None else maximum(x, low)
        return x if high is None else minimum(x, high)

    bounds = (low if low is None else low.lazy, high if high is None else high.lazy)
    return composite(Composite.CLAMP, value, expand_to(x, shape), arg=bounds)


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
    return ne(x, x) if x.lazy.dtype.is_float else constant(x, False, _bool(x))


def isinf(x: Tensor) -> Tensor:
    """Whether each element is an infinity."""
    return eq(absolute(x.detach()), math.inf) if x.lazy.dtype.is_float else constant(x, False, _bool(x))


def isfinite(x: Tensor) -> Tensor:
    """Whether each element is neither an infinity nor NaN."""
    return lt(absolute(x.detach()), math.inf) if x.lazy.dtype.is_float else constant(x, True, _bool(x))


def _bool(x: Tensor) -> DType:
    return lt(x, 0).lazy.dtype if not x.lazy.dtype.is_bool else x.lazy.dtype


def isclose(
    x: Tensor, other: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Whether |x - other| <= atol + rtol * |other|, or both are equal (or NaN, with ``equal_nan``)."""
    a, b = pair("isclose", x, other)
    close = eq(a, b) | (isfinite(b) & le(absolute(sub(a, b)), add(mul(absolute(b), rtol), atol)))
    return close | (isnan(a) & isnan(b)) if equal_nan else close


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


def where(condition: Tensor, a: Operand, b: Operand) -> Tensor:
    """``a`` where the bool ``condition`` holds, else ``b``, broadcast together.

    The branch not taken gets a zero gradient, even where its value is NaN.
    """
    if not hasattr(a, "lazy") and not hasattr(b, "lazy"):
        a = coerce(condition, a)
    x, y = pair("where", a, b)
    shape = broadcast_shape("where", condition.lazy.shape, x.lazy.shape)
    return apply(Op.WHERE, None, expand_to(condition, shape), expand_to(x, shape), expand_to(y, shape))


def masked_fill(x: Tensor, mask: Tensor, value: Scalar | Tensor) -> Tensor:
    """``x`` with ``value`` where ``mask`` holds."""
    return cast(where(mask, value, x), x.lazy.dtype)


def lerp(x: Tensor, end: Operand, weight: Operand) -> Tensor:
    """x + weight * (end - x)."""
    return add(x, mul(sub(coerce(x, end), x), weight))


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


@_float_only
def round(x: Tensor) -> Tensor:
    """Rounded to the nearest whole number, halves to the even one; the gradient is 0."""
    t = apply(Op.TRUNC, None, x)
    rest = absolute(sub(x, t).detach())
    half = t.detach() * 0.5
    odd = ne(half, apply(Op.TRUNC, None, half))
    away = gt(rest, 0.5) | (eq(rest, 0.5) & odd)
    return where(away, add(t, where(lt(x, 0), constant(x, -1), constant(x, 1))), t)


def rounded(x: Tensor, ndigits: int | None = None) -> Tensor:
    """``round(tensor, ndigits)``: rounded to so many decimals (of floats), a tensor of the same dtype also
    without them.
    """
    if not ndigits:
        return round(x)
    if not x.lazy.dtype.is_float:
        raise DTypeError(f"round() to {ndigits} decimals needs floats, got {x.lazy.dtype.name}; cast it")
    scale = 10.0 ** abs(ndigits)
    return div(round(mul(x, scale)), scale) if ndigits > 0 else mul(round(div(x, scale)), scale)


def frac(x: Tensor) -> Tensor:
    """What truncation takes away: x - trunc(x)."""
    return sub(x, trunc(x))


def bits_of(dtype: DType) -> DType:
    """The unsigned integer of a float's width."""
    return {16: uint16, 32: uint32, 64: uint64}[dtype.bits]
