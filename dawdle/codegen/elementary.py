"""exp2, log2 and sin of float32 from operations that vector units have, to 2 ulp over the whole range.

Branch-free: every special value goes through the same operations. The polynomials are minimax fits (Lawson's
reweighted least squares on Chebyshev nodes, in float64) rounded to float32, in Horner form so that a compiler
may contract them to FMA; the error bound holds with and without.
"""

from __future__ import annotations

from dawdle.codegen.expr import Expr, alu, const
from dawdle.dtype import DType, float32, float64, int32, int64, uint32, uint64
from dawdle.lazy.ops import Op

INF, NAN = float("inf"), float("nan")
TAU = 6.283185307179586


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
        total = total * x + c
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
    result = exponent + (f * horner(f, LOG2) + f)
    positive = (x < INF).where(result, x)
    return (x.of(0.0) < x).where(positive, x.equals(0.0).where(x.of(-INF), NAN)).e


# sin(r)/r = 1 + r**2 * polynomial in r**2, for |r| <= pi/2, relative error 2**-27
SIN = (-0.16666659712791443, 0.00833306647837162, -0.00019809602235909551, 2.605780537123792e-06)
# the bits of 1/(2*pi) after the binary point, in words of 32, after one word of zeros
TURNS = (0, 0x28BE60DB, 0x9391054A, 0x7F09D5F4, 0x7D4D3770, 0x36D8A566, 0x4F10E410, 0x7F9458EA)


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


def sin(e: Expr) -> Expr:
    """sin(x) after Payne & Hanek (1983): x/(2*pi) mod 1 from just those bits of 1/(2*pi) that can matter.

    |x| = m * 2**k with an integer m of 24 bits. The bits of 1/(2*pi) that 2**k makes whole turns of are skipped;
    m times the next 96 gives the fraction of a turn to 64 bits. The rest is in float64, for precision near pi/2.
    """
    x = V(e)
    bits = x.bits(uint32)
    sign, size = bits & 0x80000000, bits & 0x7FFFFFFF
    m = (size & 0x7FFFFF) | 0x800000
    w0, w1, w2 = _window((size >> 23) - 118)  # the exponent k is (size >> 23) - 150
    wide = m.cast(uint64)
    low = (wide * w2.cast(uint64)) >> 32
    turn = (((m * w0).cast(uint64) << 32) + wide * w1.cast(uint64) + low).bits(int64)  # 2**64 is a turn
    outer = (turn + 2**62) < 0  # in the left half: sin(t) = sin(pi - t)
    turn = outer.where(turn.of(-(2**63)) - turn, turn)
    high, rest = (turn.bits(uint64) >> 32).cast(uint32).bits(int32), (turn.cast(uint32) >> 1).bits(int32)
    angle = high.cast(float64) * (TAU * 2.0**-32) + rest.cast(float64) * (TAU * 2.0**-63)
    magnitude = size.bits(float32)
    r = (magnitude < 2.0**-7).where(magnitude.cast(float64), angle)
    z = r * r
    result = ((r * z) * horner(z, SIN) + r).cast(float32)
    result = (magnitude < INF).where(result, NAN)
    return (result.bits(uint32) ^ sign).bits(float32).e
