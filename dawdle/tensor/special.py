"""Error functions, the logarithm of the gamma function, and other special functions (see transcendental.py).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dawdle.dtype import float32, float64
from dawdle.errors import ArgumentError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.autograd import Composite, Node, Parts, rule
from dawdle.tensor.core import Operand, apply, cast, constant, to_float, widen
from dawdle.tensor.extended import exp_of, head, log_of, polynomial
from dawdle.tensor.transcendental import exp, function, log, log1p
from dawdle.tensor.trigonometry import sin, tan

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

# ---- error functions

NEAR = 0.5  # below it erf is a polynomial
# erf(x) / x - 1 as a polynomial in x**2
ERF = {
    float32: (
        0.12837916560179147, -0.37612609007469805, 0.11282831428465862, -0.026757732735015517,
        0.004719082567218814,
    ),
    float64: (
        0.1283791670955126, -0.3761263890318375, 0.1128379167095487, -0.02686617064499972,
        0.0052239776220169365, -0.0008548326510724796, 0.00012055286202005714, -1.4923003368152099e-05,
        1.637123442577e-06, -1.462091340945175e-07,
    ),
}  # fmt: skip
# erfc(x) exp(x**2) / t as a polynomial in t - 0.4, where t = 2 / (2 + x)
ERFC = {
    float32: (
        0.4475028783981086, 0.5803759305825917, 0.5060596446650228, 0.20249165807084496,
        -0.10784413793182976, -0.14730171911202714, 0.03961473247572309, 0.10854454845875725,
        -0.03563445741191239, -0.08528071257259481, 0.03186420249309051, 0.050473840295852446,
    ),
    float64: (
        0.4475028779534749, 0.5803759303404651, 0.5060598454131983, 0.20249176689159085,
        -0.10785902657750557, -0.14730960180668148, 0.040025880114553616, 0.10875158671061659,
        -0.04092889191888031, -0.08768894654997937, 0.06557843030055052, 0.06249365826266191,
        -0.1013368359948613, -0.012038843037467354, 0.1279570027964478, -0.0787495694451782,
        -0.10168807671242101, 0.1937520746326996, -0.03487470884923438, -0.2497251772770753,
        0.28063152684563947, 0.12315906124382883, -0.4601978153230553, 0.1512431695529222,
        0.3142860886771034, -0.22746921712399432,
    ),
}  # fmt: skip


def erf(x: Tensor) -> Tensor:
    """The error function; of integers, in float32."""
    return function(Composite.ERF, _erf, x)


def _erf(x: Tensor) -> Tensor:
    size = ew.absolute(x)
    far = ew.sub(constant(x, 1.0), ew.mul(_scaled_tail(size), _exp2_of_square(x)))
    return ew.with_sign(ew.where(ew.lt(size, NEAR), _near_erf(size), far), x)


def _near_erf(x: Tensor) -> Tensor:
    return ew.fma(x, polynomial(ew.mul(x, x), ERF[x.lazy.dtype]), x)


def _scaled_tail(size: Tensor) -> Tensor:
    """erfc(x) exp(x**2), for x from 1/2 on."""
    t = ew.div(constant(size, 2.0), ew.add(size, 2.0))
    return ew.mul(t, polynomial(ew.sub(t, 0.4), ERFC[size.lazy.dtype]))


def _exp2_of_square(x: Tensor) -> Tensor:
    """exp(-x**2), whose error where it is small doesn't show in erf."""
    return apply(Op.EXP2, None, ew.mul(ew.mul(x, x), -math.log2(math.e)))


@rule(Composite.ERF, inputs=True)
def _erf_gradient(n: Node, g: Tensor) -> Parts:
    return (_erf_slope(n.x(g), g, 2 / math.sqrt(math.pi)),)


def _erf_slope(x: Tensor, g: Tensor, factor: float) -> Tensor:
    return ew.mul(ew.mul(g, exp(ew.neg(ew.square(x)))), factor)


def erfc(x: Tensor) -> Tensor:
    """1 - erf(x), accurate also where it is small; of integers, in float32."""
    return function(Composite.ERFC, _erfc, x)


def _erfc(x: Tensor) -> Tensor:
    size = ew.absolute(x)
    top = head(ew.minimum(size, 1e4))
    rest = ew.neg(ew.mul(ew.sub(size, top), ew.add(size, top)))  # x**2 is top**2, exactly, and this
    tail = ew.mul(_scaled_tail(size), exp_of(ew.neg(ew.mul(top, top)), rest))
    tail = ew.where(ew.gt(size, 1e3), 0.0, tail)
    far = ew.where(ew.lt(x, 0.0), ew.sub(constant(x, 2.0), tail), tail)
    return ew.where(ew.lt(size, NEAR), ew.sub(constant(x, 1.0), _near_erf(x)), far)


@rule(Composite.ERFC, inputs=True)
def _erfc_gradient(n: Node, g: Tensor) -> Parts:
    return (_erf_slope(n.x(g), g, -2 / math.sqrt(math.pi)),)


def erfinv(x: Tensor) -> Tensor:
    """The inverse of :func:`erf`: infinite at -1 and 1, NaN beyond; of integers, in float32.

    Source: Giles, Approximating the erfinv function, GPU Computing Gems, 2011, for the first guess, which
    Halley's method then improves.
    """
    return function(Composite.ERFINV, _erfinv, x)


GILES = (  # of w = -log(1 - x**2): near 0 in w - 2.5, far in sqrt(w) - 3
    (1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06, -3.5233877e-06,
     3.43273939e-07, 2.81022636e-08),
    (2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844, 0.00134934322,
     0.000100950558, -0.000200214257),
)  # fmt: skip


def _erfinv(x: Tensor) -> Tensor:
    size = ew.absolute(x)
    inside = ew.lt(size, 1.0)
    a = ew.where(inside, size, 0.5)
    rest = ew.sub(constant(a, 1.0), a)  # exact from 1/2 on
    w = ew.neg(log(ew.mul(rest, ew.add(a, 1.0))))
    near = ew.lt(w, 5.0)
    place = ew.where(near, ew.sub(w, 2.5), ew.sub(apply(Op.SQRT, None, w), 3.0))
    y = ew.mul(ew.where(near, polynomial(place, GILES[0]), polynomial(place, GILES[1])), a)
    wide = x.lazy.dtype is float64
    if wide:  # beyond float32's numbers: of erfc(y) = exp(-y**2) / (y sqrt(pi)), roughly
        far = ew.maximum(ew.neg(log(rest)), 16.0)
        square = ew.sub(far, ew.mul(log(ew.mul(far, math.pi)), 0.5))
        y = ew.where(ew.gt(w, 16.0), apply(Op.SQRT, None, square), y)
    for _ in range(3 if wide else 1):
        error = ew.where(ew.lt(a, NEAR), ew.sub(_erf(y), a), ew.sub(rest, _erfc(y)))
        slope = ew.mul(exp(ew.neg(ew.mul(y, y))), 2 / math.sqrt(math.pi))
        step = ew.div(error, slope)
        y = ew.sub(y, ew.div(step, ew.add(ew.mul(y, step), 1.0)))
    beyond = ew.where(ew.eq(size, 1.0), math.inf, constant(x, math.nan))
    return ew.with_sign(ew.where(inside, y, beyond), x)


@rule(Composite.ERFINV, output=True)
def _erfinv_gradient(n: Node, g: Tensor) -> Parts:
    y = n.y(g)
    return (ew.mul(ew.mul(g, exp(ew.mul(y, y))), math.sqrt(math.pi) / 2),)


# ---- the gamma function

# lgamma(2 + t) / t for |t| <= 1/2
LGAMMA = {
    float32: (
        0.4227843350004583, 0.3224670334689425, -0.0673522814721006, 0.020580799471518252,
        -0.007386174155633413, 0.002890795321559696, -0.0011858600344983208, 0.0005065171429518161,
        -0.0002538170956727826, 0.00011347281994554691,
    ),
    float64: (
        0.42278433509846713, 0.32246703342411326, -0.0673523010531981, 0.02058080842778038,
        -0.0073855510286719986, 0.002890510331034267, -0.0011927539118428156, 0.0005096695154115458,
        -0.00022315475400520507, 9.945767355819498e-05, -4.49263133791557e-05, 2.0505590755833454e-05,
        -9.438715099211532e-06, 4.38470440459836e-06, -2.0439048107029907e-06, 9.200527894968101e-07,
        -4.3252393445604814e-07, 2.78740805211359e-07, -1.3219945666117874e-07,
    ),
}  # fmt: skip
# (lgamma(x) - (x - 1/2) log(x) + x - log(2 pi) / 2) x as a polynomial in 1/x**2, from STIRLING_FROM on
STIRLING_FROM = {float32: 3.5, float64: 8.5}
STIRLING = {
    float32: (0.08333332467598593, -0.0027758576131523, 0.0007287949275732625),
    float64: (
        0.08333333333333331, -0.00277777777768216, 0.0007936507127029833, -0.0005952129166201365,
        0.0008381814236811042, -0.0016796510732729059,
    ),
}  # fmt: skip
# (digamma(x) - log(x) + 1/(2x)) x**2 as a polynomial in 1/x**2, from DIGAMMA_FROM on
DIGAMMA_FROM = {float32: 6, float64: 10}
DIGAMMA = {
    float32: (-0.08333333073735108, 0.00833164658787191, -0.003803803249606337),
    float64: (
        -0.0833333333333333, 0.00833333333308159, -0.003968253673479358, 0.004166539940034663,
        -0.007550959652543505, 0.018818831275584015,
    ),
}  # fmt: skip


def lgamma(x: Tensor) -> Tensor:
    """log(|gamma(x)|), inf at 0, -1, -2, ...; of integers, in float32.

    Near its zeros below -2 the absolute error is as small as elsewhere, not the relative one.
    """
    return function(Composite.LGAMMA, _lgamma, x)


def _lgamma(x: Tensor) -> Tensor:
    """By Stirling's series from some number on, below by the recurrence from a polynomial around 2, and below
    -1/2 by reflection.
    """
    size = ew.absolute(x)
    series = ew.ge(size, STIRLING_FROM[x.lazy.dtype])
    base, factors, below = _around_2(x)
    main, rest = log_of(ew.where(series, size, factors))
    log_factors = ew.add(main, rest)
    near = ew.add(base, ew.where(below, ew.neg(log_factors), log_factors))
    out = ew.where(series, _stirling(size, ew.add(ew.sub(main, 1.0), rest)), near)
    away = ew.absolute(ew.sub(x, ew.round(x)))
    mirrored = ew.sub(log(ew.div(constant(x, math.pi), ew.mul(size, sin(ew.mul(away, math.pi))))), out)
    out = ew.where(ew.le(x, -0.5), mirrored, out)
    pole = ew.bitor(ew.isinf(x), ew.bitand(ew.le(x, 0.0), ew.eq(away, 0.0)))
    return ew.where(pole, math.inf, out)


def _around_2(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(lgamma(2 + t) with 2 + t as far from |x| as a whole number, the product of the factors of gamma
    between the two, whether |x| is below 2 + t). Below 1/2 it is ``x`` itself, of either sign.
    """
    small = ew.lt(ew.absolute(x), 0.5)
    size = ew.where(small, x, ew.absolute(x))
    t = ew.where(small, x, ew.sub(size, ew.floor(ew.add(size, 0.5))))
    below = ew.lt(size, 1.5)
    factors = ew.where(small, ew.absolute(ew.mul(x, ew.add(x, 1.0))), ew.where(below, size, 1.0))
    for k in range(1, int(STIRLING_FROM[x.lazy.dtype] - 1.5) + 1):
        factors = ew.where(ew.lt(size, k + 1.5), factors, ew.mul(factors, ew.sub(size, float(k))))
    return ew.mul(t, polynomial(t, LGAMMA[x.lazy.dtype])), factors, below


def _stirling(x: Tensor, log_less_one: Tensor) -> Tensor:
    """(x - 1/2)(log(x) - 1) + log(2 pi)/2 - 1/2 + P(1/x**2)/x."""
    inverse = apply(Op.RECIP, None, x)
    series = ew.mul(inverse, polynomial(ew.mul(inverse, inverse), STIRLING[x.lazy.dtype]))
    series = ew.add(series, math.log(2 * math.pi) / 2 - 0.5)
    return ew.add(ew.mul(ew.sub(x, 0.5), log_less_one), series)


@rule(Composite.LGAMMA, inputs=True)
def _lgamma_gradient(n: Node, g: Tensor) -> Parts:
    return (ew.mul(g, digamma(n.x(g))),)


def mvlgamma(x: Tensor, p: int) -> Tensor:
    """The logarithm of the gamma function of ``p`` dimensions: the sum of lgamma(x - i/2) for i below ``p``,
    and log(pi) * p * (p - 1) / 4; of integers, in float32.
    """
    if p < 1:
        raise ArgumentError(f"mvlgamma: p must be positive, got {p}")
    x = to_float(x)
    wide = widen(x)
    out = lgamma(wide)
    for i in range(1, p):
        out = ew.add(out, lgamma(ew.sub(wide, i / 2)))
    return cast(ew.add(out, math.log(math.pi) * p * (p - 1) / 4), x.lazy.dtype)


def digamma(x: Tensor) -> Tensor:
    """The derivative of lgamma: -inf at 0, inf at -0, NaN at -1, -2, ...; of integers, in float32."""
    x = to_float(x)
    wide = widen(x)
    negative = ew.lt(wide, 0.0)
    positive = _positive_digamma(ew.where(negative, ew.sub(constant(wide, 1.0), wide), wide))
    away = ew.sub(wide, ew.round(wide))
    pole = ew.bitor(ew.eq(away, 0.0), ew.isnan(away))
    angle = ew.mul(ew.where(ew.bitand(negative, ew.logical_not(pole)), away, 0.25), math.pi)
    mirrored = ew.sub(positive, ew.div(constant(angle, math.pi), tan(angle)))
    out = ew.where(negative, ew.where(pole, math.nan, mirrored), positive)
    return cast(out, x.lazy.dtype)


def _positive_digamma(x: Tensor) -> Tensor:
    """By the recurrence from the asymptotic series; in operations whose gradients are right too."""
    dtype = x.lazy.dtype
    first = DIGAMMA_FROM[dtype]
    near = ew.lt(x, float(first))
    low = ew.where(near, x, 1.0)
    before = apply(Op.RECIP, None, low)
    for k in range(1, first):
        before = ew.add(before, apply(Op.RECIP, None, ew.add(low, float(k))))
    y = ew.where(near, ew.add(x, float(first)), x)
    inverse = apply(Op.RECIP, None, y)
    square = ew.mul(inverse, inverse)
    series = ew.sub(ew.mul(square, polynomial(square, DIGAMMA[dtype])), ew.mul(inverse, 0.5))
    return ew.sub(ew.add(log(y), series), ew.where(near, before, 0.0))


# ---- others


def sinc(x: Tensor) -> Tensor:
    """sin(pi x) / (pi x), 1 at 0, NaN at infinities; of integers, in float32. The gradient at 0 is 0."""
    x = to_float(x)
    wide = widen(x)
    zero = ew.eq(wide, 0.0)
    safe = ew.where(zero, 0.5, wide)
    whole = ew.round(safe.detach())
    half = ew.mul(whole, 0.5)
    odd = ew.ne(half, ew.trunc(half))
    sine = sin(ew.mul(ew.sub(safe, whole), math.pi))
    out = ew.div(ew.where(odd, ew.neg(sine), sine), ew.mul(safe, math.pi))
    return cast(ew.where(zero, 1.0, out), x.lazy.dtype)


def logit(x: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), of ``x`` limited to [eps, 1 - eps] where given; of integers, in float32."""
    x = to_float(x)
    wide = widen(x)
    if eps is not None:
        wide = ew.where(ew.lt(wide, eps), eps, ew.where(ew.gt(wide, 1.0 - eps), 1.0 - eps, wide))
    low = ew.lt(wide, 0.25)
    rest = ew.sub(constant(wide, 1.0), wide)
    small = log(ew.div(ew.where(low, wide, 0.25), ew.where(low, rest, 0.75)))
    large = log1p(ew.div(ew.sub(ew.mul(ew.where(low, 0.5, wide), 2.0), 1.0), ew.where(low, 0.5, rest)))
    return cast(ew.where(low, small, large), x.lazy.dtype)


def xlogy(x: Operand, y: Operand) -> Tensor:
    """x * log(y), 0 where ``x`` is 0 and ``y`` not NaN; of integers, in float32."""
    a, b = ew.float_pair("xlogy", x, y)
    dtype = a.lazy.dtype
    a, b = widen(a), widen(b)
    nothing = ew.bitand(ew.eq(a, 0.0), ew.bitor(ew.le(b, 0.0), ew.eq(b, math.inf)))
    return cast(ew.mul(a, log(ew.where(nothing, 1.0, b))), dtype)
