"""Exponentials and logarithms of numbers in two pieces, whose sum has about twice the precision of one.

Rounding ``x * log2(e)`` or ``y * log2(x)`` to one number would lose up to 7 bits of exp2's result (10 in
float64). A product of two heads (numbers with half of a significand's bits) is exact, so it doesn't matter
whether compilers contract it and a sum to a fused multiply-add.
Source: Dekker, A floating-point technique for extending the available precision, 1971.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dawdle.dtype import float32, float64, int32, int64
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import apply, cast, constant

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

Pair = tuple["Tensor", "Tensor"]
HEAD_MASK = {float32: 0xFFFFF000, float64: 0xFFFFFFFFF8000000}
# constants as a head and the rest
LOG2E = {
    float32: (1.4423828125, 0.00031222838896340733),
    float64: (1.4426950216293335, 1.9259629911266175e-08),
}
LN2 = {
    float32: (0.693115234375, 3.194618494530942e-05),
    float64: (0.6931471675634384, 1.2996506893889889e-08),
}
TWO_LOG2E = {
    float32: (2.884765625, 0.0006244567779268147),
    float64: (2.885390043258667, 3.851925982253235e-08),
}
SQRT_HALF = {float32: 0x3F3504F3, float64: 0x3FE6A09E667F3BCD}  # bits of sqrt(1/2)
TWO_THIRDS_LOG2E = {
    float32: (0.961669921875, 0.0001267720509756049),
    float64: (0.9617966860532761, 7.872699542894897e-09),
}
# what follows 2 log2(e) (s + s**3 / 3) in log2((1 + s) / (1 - s)), divided by s**5, as a polynomial in s**2,
# for |s| <= 3 - sqrt(8)
LOG2_SERIES = {
    float32: (0.5770780149840546, 0.41220007270570375, 0.32034700155023904, 0.27584985334650425),
    float64: (
        0.5770780163555853, 0.4121985831111439, 0.3205988979671547, 0.2623081914681522, 0.2219527885851067,
        0.19238056603036385, 0.16888529114458137, 0.16912971664122153,
    ),
}  # fmt: skip


def polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Horner's scheme; ``coefficients`` from the lowest power."""
    out = constant(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        out = ew.fma(out, x, constant(x, c))
    return out


def head(x: Tensor) -> Tensor:
    """``x`` with the lower half of its significand cleared."""
    dtype = x.lazy.dtype
    return ew.from_bits(ew.bitand(ew.bits_of(x), HEAD_MASK[dtype]), dtype)


def _times(x: Tensor, rest: Tensor | None, factor: tuple[float, float]) -> Pair:
    """(x + rest) times a constant in two pieces."""
    top = head(x)
    low = ew.fma(ew.sub(x, top), constant(x, factor[0]), ew.mul(x, factor[1]))
    if rest is not None:
        low = ew.fma(rest, constant(x, factor[0] + factor[1]), low)
    return ew.mul(top, factor[0]), low


def exp2_of(main: Tensor, rest: Tensor, rough: Tensor) -> Tensor:
    """2 to the power of ``main + rest``, or of ``rough`` where the result overflows, or either isn't finite.

    exp2(s + e) = exp2(s) * (1 + e ln 2), where s is the rounded sum and e the error that rounding made.
    """
    total = ew.add(main, rest)
    error = ew.add(ew.sub(main, total), rest)
    plain = ew.lt(ew.absolute(rough), 2.0 ** (8 if rough.lazy.dtype is float32 else 11))
    power = apply(Op.EXP2, None, ew.where(plain, total, rough))
    corrected = ew.fma(power, ew.mul(error, math.log(2)), power)
    return ew.where(ew.eq(corrected, corrected), corrected, power)  # of infinities the error is NaN


def exp_of(x: Tensor, rest: Tensor | None = None, shift: int = 0) -> Tensor:
    """exp(x + rest) * 2**shift."""
    main, low = _times(x, rest, LOG2E[x.lazy.dtype])
    if shift:
        moved = ew.add(main, shift)
        part = ew.sub(moved, main)
        low = ew.add(low, ew.add(ew.sub(main, ew.sub(moved, part)), ew.sub(constant(part, shift), part)))
        main = moved
    return exp2_of(main, low, ew.mul(x, math.log2(math.e)))


def log2_of(x: Tensor) -> Pair:
    """log2 of positive finite numbers: the nearest number, and the rest. -inf, inf and NaN have no rest.

    x = 2**n * m with m in [sqrt(1/2), sqrt(2)); log2(m) is an odd series in s = (m - 1) / (m + 1).
    """
    dtype = x.lazy.dtype
    digits, signed = dtype.mantissa, int32 if dtype is float32 else int64
    tiny = ew.lt(x, 2.0 ** (1 - dtype.exponent))
    bits = apply(Op.BITCAST, signed, ew.where(tiny, ew.mul(x, 2.0 ** (digits + 1)), x).detach())
    n = ew.rshift(ew.sub(bits, SQRT_HALF[dtype]), digits)
    m = apply(Op.BITCAST, dtype, ew.sub(bits, ew.lshift(n, digits)))
    lead, tail = _log2_near_1(m)
    exponent = ew.sub(cast(n, dtype), ew.where(tiny, constant(x, digits + 1.0), 0.0))
    main = ew.add(exponent, lead)
    tail = ew.add(ew.sub(lead, ew.sub(main, exponent)), tail)
    nearest = ew.add(main, tail)
    plain = ew.bitand(ew.gt(x, 0.0), ew.lt(x, math.inf))
    special = ew.where(ew.eq(x, 0.0), -math.inf, ew.where(ew.lt(x, 0.0), math.nan, x))
    return ew.where(plain, nearest, special), ew.where(plain, ew.sub(tail, ew.sub(nearest, main)), 0.0)


def _log2_near_1(m: Tensor) -> Pair:
    """log2 on [sqrt(1/2), sqrt(2)]: the terms of s and s**3 in two pieces, the others in one."""
    dtype = m.lazy.dtype
    top, low = _ratio(m)
    s = ew.add(top, low)
    z = ew.mul(s, s)
    square = ew.mul(top, top)
    upper = head(square)
    cube = ew.mul(upper, top)  # the head of s**3, exactly; what is missing follows
    missing = ew.mul(ew.mul(ew.fma(top, low, square), low), 3.0)
    missing = ew.fma(ew.sub(square, upper), top, missing)
    main, rest = _times(cube, missing, TWO_THIRDS_LOG2E[dtype])
    c, c_rest = TWO_LOG2E[dtype]
    lead = ew.mul(top, c)
    total = ew.add(lead, main)
    rest = ew.fma(ew.mul(ew.mul(z, z), s), polynomial(z, LOG2_SERIES[dtype]), rest)
    rest = ew.add(rest, ew.fma(top, constant(top, c_rest), ew.mul(low, c + c_rest)))
    return total, ew.add(ew.sub(main, ew.sub(total, lead)), rest)


def _ratio(m: Tensor) -> Pair:
    """(m - 1) / (m + 1) as a head and the rest, which is what the division by the head leaves."""
    f = ew.sub(m, 1.0)
    inverse = apply(Op.RECIP, None, ew.add(m, 1.0))
    top = head(ew.mul(f, inverse))
    upper = head(m)
    left = ew.sub(ew.sub(f, top), ew.mul(top, upper))  # exact, as every step here but the last
    left = ew.sub(left, ew.mul(top, ew.sub(m, upper)))
    return top, ew.mul(left, inverse)


def log_of(x: Tensor) -> Pair:
    """The natural logarithm in two pieces; both are NaN or infinite where log is."""
    nearest, rest = log2_of(x)
    return _times(nearest, rest, LN2[x.lazy.dtype])


def pow_of(x: Tensor, y: Tensor) -> Tensor:
    """``x`` to the power of ``y``, for ``x`` not negative: 2 to the power of y * log2(x)."""
    log, rest = log2_of(x)
    top, upper = head(log), head(y)
    low = ew.add(ew.sub(log, top), rest)
    return exp2_of(
        ew.mul(upper, top),
        ew.fma(ew.sub(y, upper), top, ew.mul(y, low)),
        ew.mul(y, log),
    )
