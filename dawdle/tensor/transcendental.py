"""Exponentials, logarithms, powers, trigonometry and erf, composed of EXP2, LOG2, SIN and SQRT.

The polynomials interpolate at Chebyshev nodes; their relative errors are below 1e-8 for float32 and 1e-18 for
float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dawdle.dtype import float32, float64, int32, int64
from dawdle.errors import ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.autograd import Composite
from dawdle.tensor.core import (
    HALF,
    Operand,
    apply,
    cast,
    composite,
    constant,
    is_scalar,
    pair,
    to_float,
    widen,
)

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

# log2(e) and 1 as sums of a head of few enough bits that its product with a head of x is exact, and a tail
LOG2E = {
    float32: (1.4423828125, 0.00031222838896340733),
    float64: (1.4426950216293335, 1.9259629911266175e-08),
}
HEAD_MASK = {float32: 0xFFFFF000, float64: 0xFFFFFFFFF8000000}


def _polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Horner's scheme; ``coefficients`` from the lowest power."""
    out = constant(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        out = out * x + c
    return out


def exp(x: Tensor) -> Tensor:
    """e to the power of each element, to about 2 ulp; of integers, in float32."""
    return composite(Composite.EXP, _exp, to_float(x))


def _exp(x: Tensor) -> Tensor:
    """exp2(s + e) = exp2(s) * (1 + e ln 2), where s + e is x log2(e) to twice the precision.

    Rounding x log2(e) to one number alone would lose up to 7 bits of the result. The product of the heads is
    exact, so contraction to fused multiply-adds changes nothing.
    """
    dtype = x.lazy.dtype
    if dtype in HALF:
        return cast(exp2(widen(x) * math.log2(math.e)), dtype)
    bits = ew.bits_of(dtype)
    high, low = LOG2E[dtype]
    head = apply(
        Op.BITCAST, dtype, apply(Op.AND, None, *pair("exp", apply(Op.BITCAST, bits, x), HEAD_MASK[dtype]))
    )
    main = head * high
    rest = (x - head) * high + x * low
    total = main + rest
    total = ew.where(ew.eq(total, total), total, x)  # infinities have no head and tail
    error = (main - total) + rest
    y = exp2(total)
    corrected = y * (error * math.log(2)) + y
    return ew.where(ew.eq(corrected, corrected), corrected, y)


def exp2(x: Tensor) -> Tensor:
    """2 to the power of each element; of integers, in float32."""
    return apply(Op.EXP2, None, to_float(x))


def expm1(x: Tensor) -> Tensor:
    """exp(x) - 1, accurate near 0."""
    return composite(Composite.EXPM1, _expm1, to_float(x))


def _expm1(x: Tensor) -> Tensor:
    wide = widen(x)
    half = _tanh(wide * 0.5)
    out = ew.where(ew.lt(ew.absolute(wide), 1.0), half * 2.0 / (1.0 - half), exp(wide) - 1.0)
    return cast(out, x.lazy.dtype)


def log(x: Tensor) -> Tensor:
    """Natural logarithm; -inf at 0, NaN below; of integers, in float32."""
    dtype = to_float(x).lazy.dtype
    return cast(apply(Op.LOG2, None, widen(to_float(x))) * math.log(2), dtype)


def log2(x: Tensor) -> Tensor:
    """Logarithm to base 2."""
    return apply(Op.LOG2, None, to_float(x))


def log10(x: Tensor) -> Tensor:
    """Logarithm to base 10."""
    dtype = to_float(x).lazy.dtype
    return cast(apply(Op.LOG2, None, widen(to_float(x))) * math.log10(2), dtype)


def log1p(x: Tensor) -> Tensor:
    """log(1 + x), accurate near 0."""
    return composite(Composite.LOG1P, _log1p, to_float(x))


def _log1p(x: Tensor) -> Tensor:
    wide = widen(x)
    u = wide + 1.0
    lost = (wide - (u - 1.0)) / u  # what rounding 1 + x took away
    out = log(u) + ew.where(ew.isfinite(lost), lost, 0.0)
    return cast(ew.where(ew.eq(u, 1.0), wide, out), x.lazy.dtype)


def sqrt(x: Tensor) -> Tensor:
    """Square root; NaN below 0; of integers, in float32."""
    return apply(Op.SQRT, None, to_float(x))


def rsqrt(x: Tensor) -> Tensor:
    """1 / sqrt(x)."""
    return apply(Op.RECIP, None, sqrt(x))


def sin(x: Tensor) -> Tensor:
    """Sine of an angle in radians."""
    return apply(Op.SIN, None, to_float(x))


def cos(x: Tensor) -> Tensor:
    """Cosine of an angle in radians."""
    return composite(Composite.COS, _cos, to_float(x))


def _cos(x: Tensor) -> Tensor:
    """1 - 2 sin(x/2)^2: unlike sin(x + pi/2), as accurate for large angles as the sine is."""
    wide = widen(x)
    s = sin(wide * 0.5)
    return cast(1.0 - s * s * 2.0, x.lazy.dtype)


def tan(x: Tensor) -> Tensor:
    """Tangent of an angle in radians."""
    return sin(x) / cos(x)


TANH = {
    float32: (
        -0.33333333231207907, 0.13333312866860775, -0.05396155178118451, 0.021788321996109226,
        -0.008410070798765653, 0.0023707656377133894,
    ),
    float64: (
        -0.3333333333333333, 0.13333333333333333, -0.0539682539682536, 0.02186948853612935,
        -0.008863235528937866, 0.003592128014984932, -0.0014558340731979102, 0.0005900243334838033,
        -0.00023910757249973665, 9.680943521437635e-05, -3.890849769614763e-05, 1.5014299108561367e-05,
        -4.945692663422794e-06, 9.916372389241057e-07,
    ),
}  # fmt: skip


def tanh(x: Tensor) -> Tensor:
    """Hyperbolic tangent."""
    return composite(Composite.TANH, _tanh, to_float(x))


def _tanh(x: Tensor) -> Tensor:
    """x + x^3 P(x^2) below 0.6, where 1 - 2 / (exp(2x) + 1) would cancel; odd, so of |x| with the sign put
    back.
    """
    dtype = x.lazy.dtype
    if dtype in HALF:
        return cast(_tanh(widen(x)), dtype)
    size = ew.absolute(x)
    square = size * size
    near = size * square * _polynomial(square, TANH[dtype]) + size
    far = 1.0 - 2.0 / (exp2(size * (2 * math.log2(math.e))) + 1.0)
    return _with_sign(ew.where(ew.lt(size, 0.6), near, far), x)


def _with_sign(size: Tensor, x: Tensor) -> Tensor:
    """A non-negative ``size`` with the sign bit of ``x``."""
    dtype = x.lazy.dtype
    bits = ew.bits_of(dtype)
    sign = apply(Op.AND, None, *pair("sign", apply(Op.BITCAST, bits, x), 1 << (dtype.bits - 1)))
    return apply(Op.BITCAST, dtype, apply(Op.OR, None, apply(Op.BITCAST, bits, size), sign))


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return composite(Composite.SIGMOID, _sigmoid, to_float(x))


def _sigmoid(x: Tensor) -> Tensor:
    return cast(apply(Op.RECIP, None, exp(-widen(x)) + 1.0), x.lazy.dtype)


def sinh(x: Tensor) -> Tensor:
    """Hyperbolic sine."""
    return (expm1(x) - expm1(-x)) * 0.5


def cosh(x: Tensor) -> Tensor:
    """Hyperbolic cosine."""
    e = exp(ew.absolute(x))
    return (e + 1.0 / e) * 0.5


ERF = {
    float32: (
        1.1283791655787514, -0.3761261946943705, 0.11283386538408316, -0.026835114568357247,
        0.005115332112084299, -0.0006756479565788901,
    ),
    float64: (
        1.1283791670955126, -0.37612638903183754, 0.11283791670955087, -0.026866170645118446,
        0.005223977625222192, -0.0008548327001135945, 0.00012055331545294089, -1.4925589383820332e-05,
        1.6460383209842056e-06, -1.6333229343233043e-07, 1.4413879287668822e-08, -9.502840890367093e-10,
    ),
}  # fmt: skip
# erfc(x) exp(x^2) / t as a polynomial in t = 2 / (2 + x)
ERFC = {
    float32: (
        0.28236323729062107, 0.2779121284442339, 0.2742271877962594, 0.07987696817459922,
        0.2737717929289939, -0.18895381029247357, -0.03616060839343061, 0.03708327973252469,
    ),
    float64: (
        0.28209477703451524, 0.28209549893725105, 0.2468169669732215, 0.17653510083531138,
        0.08150744134164423, 0.012131226362338352, -0.1510228905700937, 0.3704693234978293,
        -1.526994098406766, 4.449696871456032, -10.164371774219505, 18.95332736282107, -27.833581505441778,
        31.29802798858762, -26.557708791283154, 16.746320684193673, -7.631515839390791, 2.382317951581603,
        -0.45674217513990706, 0.040595872937969575,
    ),
}  # fmt: skip


def erf(x: Tensor) -> Tensor:
    """The error function."""
    return composite(Composite.ERF, _erf, to_float(x))


def _erf(x: Tensor) -> Tensor:
    dtype = x.lazy.dtype
    if dtype in HALF:
        return cast(_erf(widen(x)), dtype)
    size, square = ew.absolute(x), x * x
    near = size * _polynomial(square, ERF[dtype])
    t = 2.0 / (size + 2.0)
    far = 1.0 - t * _polynomial(t, ERFC[dtype]) * exp2(square * -math.log2(math.e))
    return _with_sign(ew.where(ew.lt(size, 0.75), near, far), x)


def power(x: Operand, exponent: Operand) -> Tensor:
    """``x`` to the power of ``exponent``, as NumPy's ``**``: NaN where a negative number is raised to a
    fraction.

    Integers raised to integers stay integers and wrap; to a negative one they give 0 but for bases 1 and -1.
    """
    if hasattr(x, "lazy") and is_scalar(exponent) and not isinstance(exponent, bool):
        return _static_power(x, exponent)  # type: ignore[arg-type]
    a, b = pair("pow", x, exponent)
    if a.lazy.dtype.is_float:
        return composite(Composite.POW, _float_power, a, b)
    return _integer_power(a, b)


def _static_power(x: Tensor, exponent: float) -> Tensor:
    exponent = exponent.item() if hasattr(exponent, "item") else exponent
    if isinstance(exponent, float) and not x.lazy.dtype.is_float:
        x = to_float(x)
    if exponent == int(exponent) if math.isfinite(exponent) else False:
        n = int(exponent)
        if abs(n) <= 64 or not x.lazy.dtype.is_float:
            if n < 0 and not x.lazy.dtype.is_float:
                raise ShapeError(f"integers can't be raised to the negative power {n}; cast to float first")
            powered = _repeated(x, abs(n))
            return powered if n >= 0 else apply(Op.RECIP, None, powered)
    if abs(exponent) == 0.5:
        root = sqrt(x)
        return root if exponent > 0 else apply(Op.RECIP, None, root)
    return composite(Composite.POW, _float_power, x, constant(x, exponent))


def _repeated(x: Tensor, n: int) -> Tensor:
    """``x`` to a whole power by squaring."""
    if n == 0:
        return constant(x, 1)
    out: Tensor | None = None
    while n:
        if n & 1:
            out = x if out is None else out * x
        n >>= 1
        x = x * x if n else x
    assert out is not None
    return out._new(out.lazy, out._node)


def _float_power(x: Tensor, y: Tensor) -> Tensor:
    dtype = x.lazy.dtype
    if dtype in HALF:
        return cast(_float_power(widen(x), widen(y)), dtype)
    size = exp2(y * log2(ew.absolute(x)))
    half = y * 0.5
    whole, even = ew.eq(ew.trunc(y), y), ew.eq(ew.trunc(half), half)
    sign_kept = ew.where(even, size, -size)
    negative = ew.where(whole, sign_kept, ew.where(ew.isinf(x) | ew.eq(x, 0.0), size, math.nan))
    signed = int32 if dtype is float32 else int64
    out = ew.where(ew.lt(apply(Op.BITCAST, signed, x), 0), negative, size)  # -0 counts as negative
    one = ew.eq(y, 0.0) | ew.eq(x, 1.0) | (ew.eq(x, -1.0) & ew.isinf(y))
    return ew.where(one, 1.0, out)


def _integer_power(x: Tensor, y: Tensor) -> Tensor:
    """By squaring over the bits of the exponent, a few of them in each kernel."""
    dtype = x.lazy.dtype
    out, square = constant(x, 1), x
    for bit in range(dtype.bits - (dtype.kind == "i")):
        if bit and bit % 8 == 0:
            out, square = apply(Op.CONTIGUOUS, None, out), apply(Op.CONTIGUOUS, None, square)
        out = out * ew.where(ew.eq(ew.rshift(y, bit) & 1, 1), square, 1)
        square = square * square
    if dtype.kind != "i":
        return out
    odd = ew.eq(y & 1, 1)
    inverse = ew.where(
        ew.eq(x, 1), 1, ew.where(ew.eq(x, -1), ew.where(odd, constant(x, -1), constant(x, 1)), 0)
    )
    return ew.where(ew.lt(y, 0), inverse, out)


def logaddexp(x: Tensor, other: Operand) -> Tensor:
    """log(exp(x) + exp(other)), without overflow."""
    a, b = pair("logaddexp", to_float(x), other)
    top = ew.maximum(a.detach(), b.detach())
    top = ew.where(ew.isfinite(top), top, 0.0)
    return top + log(exp(a - top) + exp(b - top))
