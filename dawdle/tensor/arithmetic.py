"""Functions of elements composed of those in elementwise.py: remainders, signs, limits, closeness."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dawdle.dtype import bool_, float64, int32
from dawdle.errors import ArgumentError, DTypeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor import reduce
from dawdle.tensor.autograd import Composite, Node, Parts, rule
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
    on_host,
    pair,
    same,
    to_float,
    widen,
)
from dawdle.tensor.interop import as_bool
from dawdle.tensor.transcendental import exp2

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


# ---- remainders and common divisors


def fmod(x: Tensor, other: Operand) -> Tensor:
    """What truncating division leaves, with the sign of ``x``, as C's ``fmod``; 0 where integers are divided
    by zero.
    """
    a, b = pair("fmod", x, other)
    if a.lazy.dtype.is_float:
        return composite(Composite.FMOD, _fmod, a, b)
    return ew.where(ew.eq(b, 0), 0, ew.sub(a, ew.mul(ew.div(a, b, rounding_mode="trunc"), b)))


def _fmod(a: Tensor, b: Tensor) -> Tensor:
    return ew.with_sign(ew.mod(ew.absolute(a), ew.absolute(b)), a)


@rule(Composite.FMOD, inputs=True)
def _fmod_gradient(n: Node, g: Tensor) -> Parts:
    slope = ew.neg(ew.mul(g, ew.trunc(ew.div(n.x(g, 0), n.x(g, 1))))) if n.needs(1) else None
    return g, slope


def gcd(x: Tensor, other: Operand) -> Tensor:
    """Greatest common divisor of integers, on the host, by NumPy. Raises DTypeError for other dtypes."""
    return _of_integers(np.gcd, x, other)


def lcm(x: Tensor, other: Operand) -> Tensor:
    """Least common multiple of integers, on the host, by NumPy. Raises DTypeError for other dtypes."""
    return _of_integers(np.lcm, x, other)


def _of_integers(function: np.ufunc, x: Tensor, other: Operand) -> Tensor:
    a, b = pair(function.__name__, x, other)
    if not a.lazy.dtype.is_int:
        raise DTypeError(f"{function.__name__} takes integers, got {a.lazy.dtype.name}; cast the operands")
    return on_host(function, a.lazy.shape, a, b)


# ---- signs and scales


def copysign(x: Tensor, other: Operand) -> Tensor:
    """The magnitude of ``x`` with the sign of ``other``; of integers, in float32. The gradient at 0 is 0."""
    a, b = ew.float_pair("copysign", x, other)
    return composite(Composite.COPYSIGN, lambda a, b: ew.with_sign(ew.absolute(a), b), a, b)


@rule(Composite.COPYSIGN, inputs=True)
def _copysign_gradient(n: Node, g: Tensor) -> Parts:
    a = n.x(g, 0).detach()
    kept = ew.eq(ew.signbit(a), ew.signbit(n.x(g, 1)))
    return ew.where(ew.eq(a, 0), 0.0, ew.where(kept, g, ew.neg(g))), g.zeros_like()


def ldexp(x: Tensor, other: Operand) -> Tensor:
    """x * 2**other; of integers, in float32. For integers as exponents, without overflow on the way."""
    x = to_float(x)
    exponent = coerce(x, np.asarray(other) if isinstance(other, int) else other)
    if exponent.lazy.dtype.is_float:
        return ew.mul(x, exp2(exponent))
    wide = widen(x)
    kind, limit = exponent.lazy.dtype, 3 * wide.lazy.dtype.exponent  # beyond what the floats span
    if kind.bits > 8:
        exponent = ew.minimum(ew.maximum(exponent, 0 if kind.kind == "u" else -limit), limit)
    exponent = cast(exponent, int32)
    quarter = ew.rshift(exponent, 2)
    factor = apply(Op.EXP2, None, cast(quarter, wide.lazy.dtype))
    rest = apply(Op.EXP2, None, cast(ew.sub(exponent, ew.mul(quarter, 3)), wide.lazy.dtype))
    for each in (factor, factor, factor, rest):
        wide = ew.mul(wide, each)
    return cast(wide, x.lazy.dtype)


def nextafter(x: Tensor, other: Operand) -> Tensor:
    """The next number of the dtype from ``x`` towards ``other``; NaN where one is. No gradient flows."""
    a, b = ew.float_pair("nextafter", x.detach(), other)
    b = b.detach()
    bits = ew.bits_of(a)
    larger = ew.eq(ew.lt(a, 0), ew.lt(b, a))
    smallest = ew.with_sign(constant(a, 2.0 ** (1 - a.lazy.dtype.exponent - a.lazy.dtype.mantissa)), b)
    stepped = ew.from_bits(ew.where(larger, ew.add(bits, 1), ew.sub(bits, 1)), a.lazy.dtype)
    moved = ew.where(ew.eq(a, 0), smallest, stepped)
    missing = ew.bitor(ew.isnan(a), ew.isnan(b))
    return ew.where(missing, float("nan"), ew.where(ew.eq(a, b), b, moved))


def frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    """(mantissa, exponent) with x = mantissa * 2**exponent: magnitudes in [0.5, 1), and int32; 0, infinities
    and NaN are their own mantissa.
    """
    x = to_float(x)
    wide = widen(x.detach())
    digits, bias = wide.lazy.dtype.mantissa, wide.lazy.dtype.exponent - 1
    largest = 2 * wide.lazy.dtype.exponent + 1  # the exponent field of infinities
    tiny = ew.lt(ew.absolute(wide), 2.0 ** (1 - bias))
    normal = ew.where(tiny, ew.mul(wide, 2.0 ** (digits + 1)), wide)
    field = cast(ew.bitand(ew.rshift(ew.bits_of(normal), digits), largest), int32)
    exponent = ew.sub(field, ew.where(tiny, constant(field, bias + digits + 1), constant(field, bias)))
    plain = ew.bitor(ew.eq(wide, 0), ew.logical_not(ew.isfinite(wide)))
    exponent = ew.where(plain, 0, exponent)
    return ldexp(x, ew.neg(exponent)), exponent


def hypot(x: Tensor, other: Operand) -> Tensor:
    """sqrt(x*x + other*other), without overflow; of integers, in float32. An infinity wins over NaN."""
    return composite(Composite.HYPOT, _hypot, *ew.float_pair("hypot", x, other))


def _hypot(a: Tensor, b: Tensor) -> Tensor:
    dtype = a.lazy.dtype
    a, b = ew.absolute(widen(a)), ew.absolute(widen(b))
    large, power = (1e18, 70) if a.lazy.dtype.bits == 32 else (1e150, 520)
    size = ew.maximum(a, b)
    scale = ew.where(ew.gt(size, large), 2.0**-power, constant(size, 1.0))
    scale = ew.where(ew.lt(size, 1 / large), 2.0**power, scale)
    root = apply(Op.SQRT, None, ew.add(ew.square(ew.mul(a, scale)), ew.square(ew.mul(b, scale))))
    infinite = ew.bitor(ew.isinf(a), ew.isinf(b))
    return cast(ew.where(infinite, float("inf"), ew.div(root, scale)), dtype)


@rule(Composite.HYPOT, inputs=True, output=True)
def _hypot_gradient(n: Node, g: Tensor) -> Parts:
    y = n.y(g)
    return tuple([ew.mul(g, ew.div(n.x(g, i), y)) if n.needs(i) else None for i in (0, 1)])


def deg2rad(x: Tensor) -> Tensor:
    """Degrees in radians."""
    return ew.mul(to_float(x), np.pi / 180)


def rad2deg(x: Tensor) -> Tensor:
    """Radians in degrees."""
    return ew.mul(to_float(x), 180 / np.pi)


# ---- limits


def clamp(x: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Each element limited to [min, max], which may be tensors; NaN stays. All are promoted together.

    The gradient of ``x`` is 1 within the limits, both included; beyond, it is the limit's. Raises
    ArgumentError without a limit.
    """
    given = [limit for limit in (min, max) if limit is not None]
    if not given:
        raise ArgumentError("clamp: give min, max or both")
    for limit in given:
        x = cast(x, ew.promoted(x, limit))
    limits = [pair("clamp", x, limit, x.lazy.dtype)[1] for limit in given]
    shape = broadcast_shape("clamp", x.lazy.shape, *[limit.lazy.shape for limit in limits])
    operands = [expand_to(t, shape) for t in (x, *limits)]
    kind = (min is not None, max is not None)
    return composite(Composite.CLAMP, _CLAMPS[kind], *operands, arg=kind)


_CLAMPS: dict[tuple[bool, bool], Callable[..., Tensor]] = {  # by whether there are a lower and an upper limit
    (True, True): lambda x, low, high: ew.minimum(ew.maximum(x, low), high),
    (True, False): ew.maximum,
    (False, True): ew.minimum,
}


def clamp_min(x: Tensor, min: Operand) -> Tensor:
    """:func:`clamp` from below."""
    return clamp(x, min)


def clamp_max(x: Tensor, max: Operand) -> Tensor:
    """:func:`clamp` from above."""
    return clamp(x, None, max)


@rule(Composite.CLAMP, inputs=True)
def _clamp_gradient(n: Node, g: Tensor) -> Parts:
    """As PyTorch's: where the limits are crossed the upper one counts."""
    x, *limits = [n.x(g, i).detach() for i in range(len(n.shapes))]
    has_low, has_high = n.arg
    inside, parts = g, []
    if has_low:
        inside, below = ew.where(ew.ge(x, limits[0]), inside, 0.0), ew.lt(x, limits[0])
        parts.append(ew.bitand(below, ew.lt(limits[0], limits[1])) if has_high else below)
    if has_high:
        inside, above = ew.where(ew.le(x, limits[-1]), inside, 0.0), ew.gt(x, limits[-1])
        parts.append(ew.bitor(above, ew.lt(limits[1], limits[0])) if has_low else above)
    return inside, *[ew.where(part, g, 0.0) for part in parts]


def fmax(x: Tensor, other: Operand) -> Tensor:
    """The larger of two elements; where one is NaN, the other."""
    a, b = pair("fmax", x, other)
    return ew.where(ew.bitor(ew.ge(a, b), ew.isnan(b)), a, b)


def fmin(x: Tensor, other: Operand) -> Tensor:
    """The smaller of two elements; where one is NaN, the other."""
    a, b = pair("fmin", x, other)
    return ew.where(ew.bitor(ew.le(a, b), ew.isnan(b)), a, b)


def nan_to_num(
    x: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """NaN and the infinities replaced by numbers: 0 and the dtype's largest and least finite ones by default.
    """
    dtype = x.lazy.dtype
    if not dtype.is_float:
        return same(x)
    top = dtype.largest
    out = ew.where(ew.eq(x, float("inf")), top if posinf is None else float(posinf), x)
    out = ew.where(ew.eq(x, float("-inf")), -top if neginf is None else float(neginf), out)
    return ew.where(ew.isnan(x), float(nan), out)


def heaviside(x: Tensor, values: Operand) -> Tensor:
    """0 below 0, 1 above, ``values`` at 0; NaN stays."""
    a, b = pair("heaviside", x, values)
    step = ew.where(ew.lt(a, 0), 0, ew.where(ew.gt(a, 0), 1, a.detach()))
    return ew.where(ew.eq(a, 0), b, step)


# ---- combinations


def lerp(x: Tensor, end: Operand, weight: Operand) -> Tensor:
    """x + weight * (end - x), computed from the nearer end, so that weights 0 and 1 give the ends."""
    a, b = ew.float_pair("lerp", x, end)
    span = ew.sub(b, a)

    def from_start() -> Tensor:
        return ew.add(a, ew.mul(span, weight))

    def from_end() -> Tensor:
        return ew.sub(b, ew.mul(span, ew.sub(constant(span, 1.0), weight)))

    if isinstance(weight, (int, float)):
        return from_start() if abs(weight) < 0.5 else from_end()
    weight = coerce(x, weight)
    return ew.where(ew.lt(ew.absolute(weight), 0.5), from_start(), from_end())


def addcmul(x: Tensor, tensor1: Operand, tensor2: Operand, *, value: Scalar = 1) -> Tensor:
    """x + value * tensor1 * tensor2."""
    return ew.add(x, ew.mul(coerce(x, tensor1), tensor2), alpha=value)


def addcdiv(x: Tensor, tensor1: Operand, tensor2: Operand, *, value: Scalar = 1) -> Tensor:
    """x + value * tensor1 / tensor2."""
    return ew.add(x, ew.div(coerce(x, tensor1), tensor2), alpha=value)


# ---- closeness


def isposinf(x: Tensor) -> Tensor:
    """Whether each element is positive infinity."""
    return _is_infinity(x, float("inf"))


def isneginf(x: Tensor) -> Tensor:
    """Whether each element is negative infinity."""
    return _is_infinity(x, float("-inf"))


def _is_infinity(x: Tensor, value: float) -> Tensor:
    return ew.eq(x, value) if x.lazy.dtype.is_float else constant(x, False, bool_)


def isclose(
    x: Tensor, other: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Whether |x - other| <= atol + rtol * |other|, or both are equal (or NaN, with ``equal_nan``); integers
    are compared in float64.
    """
    a, b = pair("isclose", x, other)
    if not a.lazy.dtype.is_float:
        a, b = cast(a, float64), cast(b, float64)
    a, b = widen(a), widen(b)
    limit = ew.add(ew.mul(ew.absolute(b), rtol), atol)
    near = ew.bitand(ew.isfinite(b), ew.le(ew.absolute(ew.sub(a, b)), limit))
    close = ew.bitor(ew.eq(a, b), near)
    return ew.bitor(close, ew.bitand(ew.isnan(a), ew.isnan(b))) if equal_nan else close


def allclose(
    x: Tensor, other: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close, see :func:`isclose`: a bool of Python."""
    return as_bool(reduce.all(isclose(x, other, rtol, atol, equal_nan)))


def equal(x: Tensor, other: Operand) -> bool:
    """Whether the shapes are equal and all elements too: a bool of Python."""
    y = coerce(x, other)
    return x.lazy.shape == y.lazy.shape and as_bool(reduce.all(ew.eq(x, y)))
