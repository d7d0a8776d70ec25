"""exp2, log2 and sin of float32 from operations that vector units have, to 2 ulp over the whole range.

Branch-free: every special value goes through the same operations. The polynomials are minimax fits (Lawson's
reweighted least squares on Chebyshev nodes, in float64) rounded to float32, in Horner form with fused
multiply-adds; the error bound holds where the machine has none, too.
"""

from __future__ import annotations

from dawdle.codegen.expr import Expr, alu, const
from dawdle.dtype import DType, float32, int32, uint32
from dawdle.lazy.ops import Op

INF, NAN = float("inf"), float("nan")


class V:
    """An expression with Python's operators; numbers become constants of its dtype."""

    def __init__(self, e: Expr) -> None:
        self.e = e

    def of(self, other: V | int | float) -> V:
        """``other`` as an operand beside this value."""
        if isinstance(other, V):
            return other
        return V(const(float(other) if self.e.dtype.is_float else int(other), self.e.dtype))

    def _with(self, op: Op, other: V | int | float) -> V:
        return V(alu(op, self.e, self.of(other).e))

    def __add__(self, other: V | int | float) -> V:
        return self._with(Op.ADD, other)

    def __sub__(self, other: V | int | float) -> V:
        return self._with(Op.SUB, other)

    def __mul__(self, other: V | int | float) -> V:
        return self._with(Op.MUL, other)

    def times(self, factor: V | int | float, plus: V | int | float) -> V:
        """This value times ``factor``, plus a number, rounded once where the machine can."""
        return V(alu(Op.FMA, self.e, self.of(factor).e, self.of(plus).e))

    def __and__(self, other: V | int) -> V:
        return self._with(Op.AND, other)

    def __or__(self, other: V | int) -> V:
        return self._with(Op.OR, other)

    def __xor__(self, other: V | int) -> V:
        return self._with(Op.XOR, other)

    def __lshift__(self, other: V | int) -> V:
        return self._with(Op.SHL, other)

    def __rshift__(self, other: V | int) -> V:
        return self._with(Op.SHR, other)

    def __lt__(self, other: V | int | float) -> V:
        return self._with(Op.CMPLT, other)

    def equals(self, other: V | int | float) -> V:
        return self._with(Op.CMPEQ, other)

    def cast(self, dtype: DType) -> V:
        return V(alu(Op.CAST, self.e, dtype=dtype))

    def bits(self, dtype: DType) -> V:
        return V(alu(Op.BITCAST, self.e, dtype=dtype))

    def where(self, a: V, b: V | int | float) -> V:
        """``a`` where this condition holds, else ``b``."""
        return V(alu(Op.WHERE, self.e, a.e, a.of(b).e))


def number(value: int | float, dtype: DType) -> V:
    return V(const(value, dtype))


def horner(x: V, coefficients: tuple[float, ...]) -> V:
    """The polynomial with these coefficients, lowest power first."""
    *rest, top = coefficients
    total = x.of(top)
    for c in reversed(rest):
        total = total.times(x, c)
    return total


# 2**f on [-1/2, 1/2], relative error 2**-29; the constant term is 1, so integers give exact results
EXP2 = (
    1.0, 0.6931471824645996, 0.24022647738456726, 0.055503323674201965, 0.00961843691766262,
    0.0013398875016719103, 0.00015353361959569156,
)  # fmt: skip


def exp2(e: Expr) -> Expr:
    """2**x: x = n + f with f in [-1/2, 1/2]; the polynomial in f is scaled by 2**(n/2) twice.

    In two steps the scale is a normal number even where the result overflows or is denormal, and rounds once.
    """
    x = V(e)
    x = (x.of(129.0) < x).where(x.of(129.0), x)  # NaN stays
    x = (x < -151.0).where(x.of(-151.0), x)
    shifted = x + (1.5 * 2**23 + 254)  # rounds to an integer: the low bits hold n + 254
    f = x - (shifted - (1.5 * 2**23 + 254))
    n = shifted.bits(uint32)
    half = n >> 1
    p = horner(f, EXP2)
    return (p * (half << 23).bits(float32) * ((n - half) << 23).bits(float32)).e


# log2(1 + f) / f - 1 on [sqrt(1/2) - 1, sqrt(2) - 1]
LOG2 = (
    0.4426949918270111, -0.7213473320007324, 0.48091062903404236, -0.3607036769390106, 0.28791624307632446,
    -0.23894478380680084, 0.2157156616449356, -0.20727001130580902, 0.12583719193935394,
)  # fmt: skip
SQRT_HALF = 0x3F3504F3  # bits of sqrt(1/2)


def log2(e: Expr) -> Expr:
    """log2(x): x = 2**n * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); log2(1 + f) = f + f * polynomial."""
    x = V(e)
    denormal = x < 2.0**-126
    i = denormal.where(x * 2.0**23, x).bits(int32)
    n = (i - SQRT_HALF) >> 23
    f = (i - (n << 23)).bits(float32) - 1.0
    exponent = n.cast(float32) + denormal.where(x.of(-23.0), 0.0)
    result = exponent + f.times(horner(f, LOG2), f)
    positive = (x < INF).where(result, x)
    return (x.of(0.0) < x).where(positive, x.equals(0.0).where(x.of(-INF), NAN)).e


# for |t| <= 1/8: sin(2*pi*t) = (TAU + TAU_LOW)*t + t**3 * polynomial, cos(2*pi*t) = polynomial, in t**2
TAU, TAU_LOW = 6.2831854820251465, -1.7484555314695172e-07
SIN = (-41.341670989990234, 81.5937271118164, -75.44358825683594)
COS = (1.0, -19.739208221435547, 64.93932342529297, -85.44319152832031, 59.22760009765625)
# 1/(2*pi) in words of 32 bits, with 35 zeros before its first bit after the point
TURNS = (0, 0x0517CC1B, 0x727220A9, 0x4FE13ABE, 0x8FA9A6EE, 0x06DB14AC, 0xC9E21C82, 0x0FF28B1D)


def _window(u: V) -> list[V]:
    """96 bits of TURNS from bit ``u`` on (0 <= u < 160), in three words."""
    four, two, one = ((u & bit).equals(0) for bit in (128, 64, 32))  # which word to start at
    words = [number(w, uint32) for w in TURNS]
    words = [four.where(words[j], words[j + 4]) for j in range(4)] + words[4:7]
    words = [two.where(words[j], words[j + 2]) for j in range(5)]
    words = [one.where(words[j], words[j + 1]) for j in range(4)]
    s = u & 31
    rest = s ^ 31
    return [(words[j] << s) | ((words[j + 1] >> 1) >> rest) for j in range(3)]


def _fraction(size: V) -> tuple[V, V]:
    """|x| / (2*pi) modulo 1 in 64 bits, upper and lower half, from the bits ``size`` of |x|.

    |x| = m * 2**k with an integer m of 24 bits. Those bits of 1/(2*pi) that 2**k makes whole turns of are
    skipped; m is multiplied by the next 96, w0 w1 w2. All in 32 bits: vector units have no wider product.
    """
    m = (size & 0x7FFFFF) | 0x800000
    a, b = m >> 12, m & 0xFFF
    w0, w1, w2 = _window((size >> 23) - 115)  # k is (size >> 23) - 150
    c, d = w1 >> 16, w1 & 0xFFFF
    high = (a * c + ((b * c + ((a * d + ((b * d) >> 12)) >> 4)) >> 12)) >> 4  # m * w1 // 2**32
    w2 = w2 >> 12
    third = ((a * w2) >> 8) + ((b * w2) >> 20)  # m * w2 // 2**32, almost
    lower = m * w1 + third
    carry = (lower < third).where(lower.of(1), 0)
    return m * w0 + high + carry, lower


def sin(e: Expr) -> Expr:
    """sin(x) after Payne & Hanek (1983): x in turns modulo 1, from just those bits of 1/(2*pi) that matter.

    The fraction is q/4 + t with |t| <= 1/8; then q chooses between sin(t) and cos(t), and their sign.
    """
    x = V(e)
    bits = x.bits(uint32)
    size = bits & 0x7FFFFFFF
    upper, lower = _fraction(size)
    shifted = upper + 0x20000000
    q = shifted >> 30
    near = (shifted & 0x3FFFFFFF) - 0x20000000  # t is near * 2**-32 + lower * 2**-64
    # in three pieces that float32 holds exactly
    first = (near & 0xFFFFFFC0).bits(int32).cast(float32) * 2.0**-32
    second = (((near & 0x3F) << 18) | (lower >> 14)).bits(int32).cast(float32) * 2.0**-50
    second = (lower & 0x3FFF).bits(int32).cast(float32).times(2.0**-64, second)
    t = first + second
    error = second - (t - first)
    z = t * t
    sine = t.times(TAU, t.times(z.times(horner(z, SIN), TAU_LOW), error * TAU))
    result = (q & 1).equals(0).where(sine, horner(z, COS))
    sign = (bits & 0x80000000) ^ ((q & 2) << 30)
    result = (result.bits(uint32) ^ sign).bits(float32)
    magnitude = size.bits(float32)
    return (magnitude < 2.0**-11).where(x, (magnitude < INF).where(result, NAN)).e
