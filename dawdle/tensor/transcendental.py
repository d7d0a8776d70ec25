"""Exponentials, logarithms, roots and hyperbolic functions, composed of EXP2, LOG2 and SQRT.

The polynomials interpolate at Chebyshev nodes; their relative errors are below 1e-8 for float32 and 1e-17 for
float64. Gradients of functions whose own is simpler or more accurate than the composition's stand below them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from dawdle.dtype import float32, float64
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.autograd import Composite, Node, Parts, rule
from dawdle.tensor.core import Operand, apply, cast, composite, constant, to_float, widen
from dawdle.tensor.extended import exp_of, polynomial

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

Unary = Callable[["Tensor"], "Tensor"]


def function(kind: Composite, value: Unary, x: Tensor) -> Tensor:
    """``value`` of each element, computed in float32 or float64, with the gradient rule for ``kind``; of
    integers, in float32.
    """
    return composite(kind, lambda x: cast(value(widen(x)), x.lazy.dtype), to_float(x))


# ---- exponentials


def exp(x: Tensor) -> Tensor:
    """e to the power of each element, to about 2 ulp; of integers, in float32."""
    x = to_float(x)
    if x.lazy.dtype.bits == 16:  # half precision needs no more than one number
        return function(Composite.EXP, lambda x: exp2(ew.mul(x, math.log2(math.e))), x)
    return composite(Composite.EXP, exp_of, x)


@rule(Composite.EXP, output=True)
def _exp_gradient(n: Node, g: Tensor) -> Parts:
    return (ew.mul(g, n.y(g)),)


def exp2(x: Tensor) -> Tensor:
    """2 to the power of each element; of integers, in float32."""
    return apply(Op.EXP2, None, to_float(x))


def expm1(x: Tensor) -> Tensor:
    """exp(x) - 1, accurate near 0; of integers, in float32."""
    return function(Composite.EXPM1, _expm1, x)


def _expm1(x: Tensor) -> Tensor:
    """2 t / (1 - t) with t = tanh(x / 2) near 0."""
    half = _tanh(ew.mul(x, 0.5))
    near = ew.div(ew.mul(half, 2.0), ew.sub(constant(half, 1.0), half))
    return ew.where(ew.lt(ew.absolute(x), 1.0), near, ew.sub(exp_of(x), 1.0))


@rule(Composite.EXPM1, output=True)
def _expm1_gradient(n: Node, g: Tensor) -> Parts:
    return (ew.mul(g, ew.add(n.y(g), 1.0)),)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)); of integers, in float32."""
    return function(Composite.SIGMOID, _sigmoid, x)


def _sigmoid(x: Tensor) -> Tensor:
    """exp(x) / (1 + exp(x)) below 0, which is right until it underflows."""
    power = exp_of(ew.neg(ew.absolute(x)))
    return ew.div(ew.where(ew.lt(x, 0.0), power, 1.0), ew.add(power, 1.0))


@rule(Composite.SIGMOID, output=True)
def _sigmoid_gradient(n: Node, g: Tensor) -> Parts:
    y = n.y(g)
    return (ew.mul(ew.mul(g, y), ew.sub(constant(y, 1.0), y)),)


# ---- logarithms and roots


def log(x: Tensor) -> Tensor:
    """Natural logarithm; -inf at 0, NaN below; of integers, in float32."""
    return _scaled_log2(x, math.log(2))


def log2(x: Tensor) -> Tensor:
    """Logarithm to base 2; of integers, in float32."""
    return apply(Op.LOG2, None, to_float(x))


def log10(x: Tensor) -> Tensor:
    """Logarithm to base 10; of integers, in float32."""
    return _scaled_log2(x, math.log10(2))


def _scaled_log2(x: Tensor, factor: float) -> Tensor:
    x = to_float(x)
    return cast(ew.mul(apply(Op.LOG2, None, widen(x)), factor), x.lazy.dtype)


def log1p(x: Tensor) -> Tensor:
    """log(1 + x), accurate near 0; of integers, in float32."""
    return function(Composite.LOG1P, _log1p, x)


def _log1p(x: Tensor) -> Tensor:
    u = ew.add(x, 1.0)
    lost = ew.div(ew.sub(x, ew.sub(u, 1.0)), u)  # what rounding 1 + x took away
    out = ew.add(log(u), ew.where(ew.isfinite(lost), lost, 0.0))
    return ew.where(ew.eq(u, 1.0), x, out)


@rule(Composite.LOG1P, inputs=True)
def _log1p_gradient(n: Node, g: Tensor) -> Parts:
    return (ew.div(g, ew.add(n.x(g), 1.0)),)


def logaddexp(x: Tensor, other: Operand) -> Tensor:
    """log(exp(x) + exp(other)), without overflow; of integers, in float32."""
    return _logaddexp("logaddexp", x, other, 1.0)


def logaddexp2(x: Tensor, other: Operand) -> Tensor:
    """log2(2**x + 2**other), without overflow; of integers, in float32."""
    return _logaddexp("logaddexp2", x, other, math.log(2))


def _logaddexp(what: str, x: Tensor, other: Operand, base: float) -> Tensor:
    """``base`` is the natural logarithm of the base."""

    def value(a: Tensor, b: Tensor) -> Tensor:
        dtype = a.lazy.dtype
        a, b = widen(a), widen(b)
        top = ew.maximum(a, b)
        gap = ew.neg(ew.absolute(ew.sub(a, b)))
        more = _log1p(exp_of(gap)) if base == 1 else ew.mul(_log1p(exp2(gap)), 1 / base)
        more = ew.where(ew.eq(a, b), math.log(2) / base, more)  # also of equal infinities
        return cast(ew.add(top, more), dtype)

    return composite(Composite.LOGADDEXP, value, *ew.float_pair(what, x, other), arg=base)


@rule(Composite.LOGADDEXP, inputs=True)
def _logaddexp_gradient(n: Node, g: Tensor) -> Parts:
    gap = ew.mul(ew.sub(n.x(g, 0), n.x(g, 1)), n.arg)
    return tuple([ew.mul(g, sigmoid(s)) if n.needs(i) else None for i, s in enumerate((gap, ew.neg(gap)))])


def sqrt(x: Tensor) -> Tensor:
    """Square root; NaN below 0; of integers, in float32."""
    return apply(Op.SQRT, None, to_float(x))


def rsqrt(x: Tensor) -> Tensor:
    """1 / sqrt(x); of integers, in float32."""
    return apply(Op.RECIP, None, sqrt(x))


# ---- hyperbolic functions

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
SINH = {
    float32: (0.16666666646842135, 0.00833333967591706, 0.00019838101968683888, 2.8062802582276946e-06),
    float64: (
        0.16666666666666666, 0.008333333333333299, 0.00019841269841324198, 2.7557319191381816e-06,
        2.5052117695907823e-08, 1.6057679623801638e-10, 7.746178593018827e-13,
    ),
}  # fmt: skip


def odd_polynomial(x: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    """x + x**3 P(x**2): what odd functions with slope 1 at 0 are near there."""
    square = ew.mul(x, x)
    return ew.fma(ew.mul(x, square), polynomial(square, coefficients), x)


def tanh(x: Tensor) -> Tensor:
    """Hyperbolic tangent; of integers, in float32."""
    return function(Composite.TANH, _tanh, x)


def _tanh(x: Tensor) -> Tensor:
    """1 - 2 / (exp(2x) + 1), which would cancel near 0; odd, so of |x| with the sign put back."""
    size = ew.absolute(x)
    near = odd_polynomial(size, TANH[x.lazy.dtype])
    power = exp2(ew.mul(size, 2 * math.log2(math.e)))
    far = ew.sub(constant(size, 1.0), ew.div(constant(size, 2.0), ew.add(power, 1.0)))
    return ew.with_sign(ew.where(ew.lt(size, 0.6), near, far), x)


@rule(Composite.TANH, output=True)
def _tanh_gradient(n: Node, g: Tensor) -> Parts:
    y = n.y(g)
    return (ew.mul(g, ew.sub(constant(y, 1.0), ew.mul(y, y))),)


def sinh(x: Tensor) -> Tensor:
    """Hyperbolic sine; of integers, in float32."""
    return function(Composite.SINH, _sinh, x)


def _sinh(x: Tensor) -> Tensor:
    size = ew.absolute(x)
    half, inverse = _halves(size)
    far = ew.sub(half, inverse)
    return ew.with_sign(ew.where(ew.lt(size, 1.0), odd_polynomial(size, SINH[x.lazy.dtype]), far), x)


def _halves(size: Tensor) -> tuple[Tensor, Tensor]:
    """exp(size) / 2 and exp(-size) / 2, of which the first overflows no earlier than sinh and cosh."""
    half = exp_of(size, shift=-1)
    return half, ew.div(constant(half, 0.25), half)


@rule(Composite.SINH, inputs=True)
def _sinh_gradient(n: Node, g: Tensor) -> Parts:
    return (ew.mul(g, cosh(n.x(g))),)


def cosh(x: Tensor) -> Tensor:
    """Hyperbolic cosine; of integers, in float32."""
    return function(Composite.COSH, lambda x: ew.add(*_halves(ew.absolute(x))), x)


@rule(Composite.COSH, inputs=True)
def _cosh_gradient(n: Node, g: Tensor) -> Parts:
    return (ew.mul(g, sinh(n.x(g))),)


def asinh(x: Tensor) -> Tensor:
    """Inverse hyperbolic sine; of integers, in float32."""
    return function(Composite.ASINH, _asinh, x)


def _asinh(x: Tensor) -> Tensor:
    """log1p(x + x**2 / (1 + sqrt(1 + x**2))), of |x| with the sign put back."""
    size = ew.absolute(x)
    square = ew.mul(size, size)
    root = apply(Op.SQRT, None, ew.add(square, 1.0))
    near = _log1p(ew.add(size, ew.div(square, ew.add(root, 1.0))))
    return ew.with_sign(_far_log(size, near), x)


def _far_log(size: Tensor, near: Tensor) -> Tensor:
    """``near``, or log(2 size) where squares could overflow."""
    return ew.where(ew.lt(size, 1e9), near, ew.add(log(size), math.log(2)))


@rule(Composite.ASINH, inputs=True)
def _asinh_gradient(n: Node, g: Tensor) -> Parts:
    return (ew.mul(g, rsqrt(ew.add(ew.square(n.x(g)), 1.0))),)


def acosh(x: Tensor) -> Tensor:
    """Inverse hyperbolic cosine; NaN below 1; of integers, in float32."""
    return function(Composite.ACOSH, _acosh, x)


def _acosh(x: Tensor) -> Tensor:
    more = ew.sub(x, 1.0)
    near = _log1p(ew.add(more, apply(Op.SQRT, None, ew.mul(more, ew.add(more, 2.0)))))
    return ew.where(ew.lt(x, 1.0), math.nan, _far_log(x, near))


@rule(Composite.ACOSH, inputs=True)
def _acosh_gradient(n: Node, g: Tensor) -> Parts:
    return (ew.mul(g, rsqrt(ew.sub(ew.square(n.x(g)), 1.0))),)


def atanh(x: Tensor) -> Tensor:
    """Inverse hyperbolic tangent; NaN beyond -1 and 1; of integers, in float32."""
    return function(Composite.ATANH, _atanh, x)


def _atanh(x: Tensor) -> Tensor:
    size = ew.absolute(x)
    ratio = ew.div(ew.mul(size, 2.0), ew.sub(constant(size, 1.0), size))
    return ew.with_sign(ew.mul(_log1p(ratio), 0.5), x)


@rule(Composite.ATANH, inputs=True)
def _atanh_gradient(n: Node, g: Tensor) -> Parts:
    x = n.x(g)
    return (ew.div(g, ew.sub(constant(x, 1.0), ew.square(x))),)
