"""Trigonometric functions and their inverses, composed of SIN, SQRT and polynomials: see transcendental.py.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dawdle.dtype import float32, float64
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.autograd import Composite, Node, Parts, rule
from dawdle.tensor.core import Operand, apply, cast, composite, constant, keywords, to_float, widen
from dawdle.tensor.extended import polynomial
from dawdle.tensor.transcendental import function, odd_polynomial, rsqrt

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

# pi/2 as the nearest number and the rest
HALF_PI = {
    float32: (1.5707963705062866, -4.371139000186241e-08),
    float64: (1.5707963267948966, 6.123233995736766e-17),
}
ASIN = {
    float32: (
        0.16666666337430908, 0.07500094543497424, 0.04459940152851218, 0.03110066273549457,
        0.017149238357677253, 0.03369084720283012,
    ),
    float64: (
        0.16666666666666666, 0.07500000000000118, 0.044642857142551895, 0.03038194447553234,
        0.02237215744350722, 0.017352816540325496, 0.01396378001220357, 0.011566459612121669,
        0.009621842970100282, 0.009319560794767446, 0.0030448799094556773, 0.019554513336123378,
        -0.01924167174674304, 0.02961201126495512,
    ),
}  # fmt: skip
ATAN = {
    float32: (
        -0.33333331760434554, 0.1999954031495797, -0.14263949753605723, 0.10743668324830098,
        -0.06451718869358958,
    ),
    float64: (
        -0.3333333333333333, 0.19999999999999804, -0.14285714285659779, 0.11111111105150588,
        -0.09090908753259112, 0.07692296368042296, -0.0666642476020052, 0.05878927554473807,
        -0.05230443640686948, 0.045515447340221615, -0.03456931506332609, 0.016284375050043393,
    ),
}  # fmt: skip


def sin(x: Tensor) -> Tensor:
    """Sine of an angle in radians; of integers, in float32."""
    return apply(Op.SIN, None, to_float(x))


def _sines(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(sin(x), sin(2x), whether the second is sin(x/2) instead, because 2x overflows)."""
    huge = ew.ge(ew.absolute(x), 2.0 ** (127 if x.lazy.dtype is float32 else 1023))
    return sin(x), sin(ew.mul(x, ew.where(huge, 0.5, constant(x, 2.0)))), huge


def cos(x: Tensor) -> Tensor:
    """Cosine of an angle in radians; of integers, in float32."""
    return function(Composite.COS, _cos, x)


def _cos(x: Tensor) -> Tensor:
    """sin(2x) / (2 sin(x)) where the cosine is small, and sqrt(1 - sin(x)**2) where it isn't: both keep the
    sine's relative accuracy, for large angles too, which sin(x + pi/2) would not.
    """
    s, double, huge = _sines(x)
    root = apply(Op.SQRT, None, ew.sub(constant(s, 1.0), ew.mul(s, s)))
    large = ew.where(ew.lt(ew.mul(s, double), 0.0), ew.neg(root), root)
    out = ew.where(ew.lt(ew.absolute(s), 0.7), large, ew.div(double, ew.mul(s, 2.0)))
    return ew.where(huge, ew.sub(constant(s, 1.0), ew.mul(ew.mul(double, double), 2.0)), out)


@rule(Composite.COS, inputs=True)
def _cos_gradient(n: Node, g: Tensor) -> Parts:
    return (ew.neg(ew.mul(g, sin(n.x(g)))),)


def tan(x: Tensor) -> Tensor:
    """Tangent of an angle in radians; of integers, in float32."""
    return function(Composite.TAN, lambda x: ew.div(sin(x), _cos(x)), x)


@rule(Composite.TAN, output=True)
def _tan_gradient(n: Node, g: Tensor) -> Parts:
    return (ew.mul(g, ew.add(ew.square(n.y(g)), 1.0)),)


def asin(x: Tensor) -> Tensor:
    """Inverse sine, in [-pi/2, pi/2]; NaN beyond -1 and 1; of integers, in float32."""
    return function(Composite.ASIN, _asin, x)


def _asin(x: Tensor) -> Tensor:
    size = ew.absolute(x)
    far, angle = _arcsine(size)
    half, rest = HALF_PI[x.lazy.dtype]
    beyond = ew.add(ew.sub(constant(angle, rest), ew.mul(angle, 2.0)), half)
    return ew.with_sign(ew.where(far, beyond, angle), x)


def _arcsine(size: Tensor) -> tuple[Tensor, Tensor]:
    """Whether a number is above 1/2, and its inverse sine, or asin(sqrt((1 - size) / 2)) where it is."""
    far = ew.gt(size, 0.5)
    root = apply(Op.SQRT, None, ew.mul(ew.sub(constant(size, 1.0), size), 0.5))
    return far, odd_polynomial(ew.where(far, root, size), ASIN[size.lazy.dtype])


@rule(Composite.ASIN, inputs=True)
def _asin_gradient(n: Node, g: Tensor) -> Parts:
    x = n.x(g)
    return (ew.mul(g, rsqrt(ew.sub(constant(x, 1.0), ew.square(x)))),)


def acos(x: Tensor) -> Tensor:
    """Inverse cosine, in [0, pi]; NaN beyond -1 and 1; of integers, in float32."""
    return function(Composite.ACOS, _acos, x)


def _acos(x: Tensor) -> Tensor:
    far, angle = _arcsine(ew.absolute(x))
    half, rest = HALF_PI[x.lazy.dtype]
    negative = ew.lt(x, 0.0)
    beyond = ew.mul(angle, 2.0)
    beyond = ew.where(negative, ew.add(ew.sub(constant(beyond, 2 * rest), beyond), 2 * half), beyond)
    signed = ew.where(negative, ew.neg(angle), angle)
    return ew.where(far, beyond, ew.add(ew.sub(constant(signed, rest), signed), half))


@rule(Composite.ACOS, inputs=True)
def _acos_gradient(n: Node, g: Tensor) -> Parts:
    x = n.x(g)
    return (ew.neg(ew.mul(g, rsqrt(ew.sub(constant(x, 1.0), ew.square(x))))),)


def atan(x: Tensor) -> Tensor:
    """Inverse tangent, in [-pi/2, pi/2]; of integers, in float32."""
    return function(
        Composite.ATAN,
        lambda x: ew.with_sign(_arctangent(ew.absolute(x), constant(x, 1.0)), x),
        x,
    )


def _arctangent(y: Tensor, x: Tensor) -> Tensor:
    """The angle of a point (x, y) of the first quadrant: less pi/2 or pi/4 it is within 22.5 degrees."""
    steep = ew.gt(y, ew.mul(x, math.tan(3 * math.pi / 8)))
    middle = ew.gt(y, ew.mul(x, math.tan(math.pi / 8)))
    above = ew.where(steep, ew.neg(x), ew.where(middle, ew.sub(y, x), y))
    below = ew.where(steep, y, ew.where(middle, ew.add(y, x), x))
    origin = ew.bitand(ew.eq(above, 0.0), ew.eq(below, 0.0))
    ratio = ew.where(origin, 0.0, ew.div(above, below))
    half, rest = HALF_PI[x.lazy.dtype]
    turned, turned_rest = (
        ew.where(steep, h, ew.where(middle, constant(x, h / 2), 0.0)) for h in (half, rest)
    )
    square = ew.mul(ratio, ratio)
    bend = ew.mul(ew.mul(ratio, square), polynomial(square, ATAN[x.lazy.dtype]))
    return ew.add(ew.add(ew.add(turned_rest, bend), ratio), turned)


@rule(Composite.ATAN, inputs=True)
def _atan_gradient(n: Node, g: Tensor) -> Parts:
    return (ew.div(g, ew.add(ew.square(n.x(g)), 1.0)),)


@keywords(other="x")
def atan2(y: Tensor, x: Operand) -> Tensor:
    """The angle of the point (x, y), in [-pi, pi], with the sign of ``y``, also of its zeros; of integers, in
    float32. The gradient at (0, 0) is 0.
    """
    return composite(Composite.ATAN2, _atan2, *ew.float_pair("atan2", y, x))


def _atan2(y: Tensor, x: Tensor) -> Tensor:
    dtype = y.lazy.dtype
    y, x = widen(y), widen(x)
    high, wide = ew.absolute(y), ew.absolute(x)
    infinite = ew.bitand(ew.isinf(y), ew.isinf(x))
    scale = ew.where(ew.gt(ew.maximum(high, wide), 1e37), 0.125, constant(y, 1.0))  # so that sums stay finite
    high, wide = (ew.where(infinite, 1.0, ew.mul(t, scale)) for t in (high, wide))
    angle = _arctangent(high, wide)
    half, rest = HALF_PI[y.lazy.dtype]
    beyond = ew.add(ew.sub(constant(angle, 2 * rest), angle), 2 * half)
    return cast(ew.with_sign(ew.where(ew.signbit(x), beyond, angle), y), dtype)


@rule(Composite.ATAN2, inputs=True)
def _atan2_gradient(n: Node, g: Tensor) -> Parts:
    y, x = n.x(g, 0), n.x(g, 1)
    size = ew.add(ew.square(y), ew.square(x))
    scaled = ew.div(g, ew.where(ew.eq(size, 0.0), 1.0, size))  # by 1 at the origin, where 0 is multiplied
    return (
        ew.mul(scaled, x) if n.needs(0) else None,
        ew.neg(ew.mul(scaled, y)) if n.needs(1) else None,
    )
