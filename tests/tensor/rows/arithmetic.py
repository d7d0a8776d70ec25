"""Arithmetic, comparisons and bits."""
from __future__ import annotations

from functools import partial

import numpy as np
from table import binary, row, torch, unary

from dawdle import Tensor, where

number = partial(binary, special="fiu")
real = partial(binary, special="fiub")
integer = partial(binary, gradient=False, special="iu")
bits = partial(binary, gradient=False, domain="int", special="iub")
THREE = (((3, 4), (3, 4), (3, 4)), ((3, 4), (4,), (3, 1)), ((), (2, 3), ()))

real("add", lambda a, b: a + b, np.add, lambda a, b: a + b)
number("sub", lambda a, b: a - b, np.subtract, lambda a, b: a - b)
real("mul", lambda a, b: a * b, np.multiply, lambda a, b: a * b)
real("div", lambda a, b: a / b, np.divide, lambda a, b: a / b, domain=("normal", "away"))
number("floordiv", lambda a, b: a // b, np.floor_divide, domain=("normal", "away"), gradient=False)
number("mod", lambda a, b: a % b, np.mod, lambda a, b: a % b, domain=("normal", "away"))
number("fmod", Tensor.fmod, np.fmod, lambda a, b: torch.fmod(a, b), domain=("normal", "away"))
binary("divmod", divmod, lambda a, b: [a // b, a % b], domain=("normal", "away"), gradient=False)
binary("add alpha", lambda a, b: a.add(b, alpha=2.5), lambda a, b: a + 2.5 * b,
    lambda a, b: a.add(b, alpha=2.5))
binary("sub alpha", lambda a, b: a.sub(b, alpha=2.5), lambda a, b: a - 2.5 * b,
    lambda a, b: a.sub(b, alpha=2.5))
binary("int add alpha", lambda a, b: a.add(b, alpha=3), lambda a, b: a + 3 * b, domain="int", gradient=False)
binary("div trunc", lambda a, b: a.div(b, rounding_mode="trunc"), lambda a, b: np.trunc(a / b),
    lambda a, b: a.div(b, rounding_mode="trunc"), domain=("normal", "away"), special="f")
binary("div floor", lambda a, b: a.div(b, rounding_mode="floor"), np.floor_divide, domain=("normal", "away"),
    gradient=False)
binary("int quotients", lambda a, b: a.div(b, rounding_mode="trunc") * 100 + a.div(b, rounding_mode="floor"),
    lambda a, b: np.trunc(a / b).astype("int64") * 100 + a // b, domain=("int", "nonzero"), gradient=False)
integer("gcd", Tensor.gcd, np.gcd, domain="int")
integer("lcm", Tensor.lcm, np.lcm, domain="int")
# of two zeros NumPy gives either, so these references are not ufuncs, whose zeros' signs are compared
real("maximum", Tensor.maximum, lambda a, b: np.maximum(a, b), lambda a, b: torch.maximum(a, b))
real("minimum", Tensor.minimum, lambda a, b: np.minimum(a, b), lambda a, b: torch.minimum(a, b))
number("fmax", Tensor.fmax, lambda a, b: np.fmax(a, b), lambda a, b: torch.fmax(a, b))
number("fmin", Tensor.fmin, lambda a, b: np.fmin(a, b), lambda a, b: torch.fmin(a, b))
binary("pow", lambda a, b: a**b, np.power, lambda a, b: a**b, domain=("positive", "normal"), special="f")
binary("pow negative", lambda a, b: a**b, lambda a, b: np.power(a, b.astype(a.dtype)), lambda a, b: a**b,
    domain=("away", "int"))
binary("float_power", Tensor.float_power, np.float_power, lambda a, b: a.float_power(b),
    domain=("positive", "normal"), kinds=("float64",))
real("copysign", Tensor.copysign, np.copysign, lambda a, b: torch.copysign(a, b), domain="away")
real("hypot", Tensor.hypot, np.hypot, lambda a, b: torch.hypot(a, b))
real("atan2", Tensor.atan2, np.arctan2, lambda a, b: torch.atan2(a, b), domain="away")
real("logaddexp", Tensor.logaddexp, np.logaddexp, lambda a, b: torch.logaddexp(a, b))
real("logaddexp2", Tensor.logaddexp2, np.logaddexp2, lambda a, b: torch.logaddexp2(a, b), near_zero=1)
binary("xlogy", Tensor.xlogy, None, lambda a, b: torch.xlogy(a, b), domain=("normal", "positive"),
    special="f")
binary("heaviside", Tensor.heaviside, np.heaviside, gradient=False, special="f")
binary("ldexp", lambda a, b: a.ldexp(b // 3), lambda a, b: np.ldexp(a, (b // 3).astype(np.int32)),
    domain=("normal", "int"))
binary("ldexp between", Tensor.ldexp, lambda a, b: a * 2**b, lambda a, b: torch.ldexp(a, b))
binary("int add", lambda a, b: a + b, np.add, domain="int", gradient=False)
binary("int floordiv", lambda a, b: a // b, np.floor_divide, domain=("int", "nonzero"), gradient=False)
binary("int mod", lambda a, b: a % b, np.mod, domain=("int", "nonzero"), gradient=False)
binary("int fmod", Tensor.fmod, np.fmod, domain=("int", "nonzero"), gradient=False)
binary("int div", lambda a, b: a / b, lambda a, b: (a / b).astype("f"), domain=("int", "nonzero"),
    gradient=False)
binary("int pow", lambda a, b: a**b, np.power, domain=("int", "count"), gradient=False)
binary("int min", Tensor.minimum, np.minimum, domain="int", gradient=False)
bits("and", lambda a, b: a & b, np.bitwise_and)
bits("or", lambda a, b: a | b, np.bitwise_or)
bits("xor", lambda a, b: a ^ b, np.bitwise_xor)
binary("shl", lambda a, b: a << b, np.left_shift, domain=("int", "count"), gradient=False)
binary("shr", lambda a, b: a >> b, np.right_shift, domain=("int", "count"), gradient=False)
binary("bool add", lambda a, b: a + b, np.add, domain="bits", gradient=False)
binary("logical", lambda a, b: a.logical_and(b) ^ a.logical_or(b), lambda a, b: (a != 0) ^ (b != 0),
       domain=("int", "bits"), gradient=False)  # fmt: skip
for name in ("logical_and", "logical_or", "logical_xor"):
    real(name, getattr(Tensor, name), getattr(np, name), domain="bits", gradient=False)
for symbol, compare in {
    "lt": np.less, "gt": np.greater, "le": np.less_equal, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal
}.items():  # fmt: skip
    binary(f"{symbol} normal", getattr(Tensor, symbol), compare, gradient=False, special="fiub")
    binary(f"{symbol} int", getattr(Tensor, symbol), compare, domain="int", gradient=False)
binary("isclose", lambda a, b: a.isclose(b * 0 + a * 1.000001), lambda a, b: np.ones(np.broadcast(a,
    b).shape, bool),
       gradient=False)  # fmt: skip
binary("isclose special", Tensor.isclose, np.isclose, gradient=False, special="fiu")
binary("lerp", lambda a, b: a.lerp(b, 0.3), lambda a, b: a + 0.3 * (b - a), lambda a, b: torch.lerp(
    *torch.broadcast_tensors(a, b), 0.3))
row("lerp tensor", Tensor.lerp, lambda a, b, w: a + w * (b - a), lambda a, b, w: torch.lerp(a, b, w),
    shapes=THREE)
row("addcmul", lambda a, b, c: a.addcmul(b, c, value=0.7), lambda a, b, c: a + 0.7 * b * c,
    lambda a, b, c: torch.addcmul(a, b, c, value=0.7), shapes=THREE)
row("addcdiv", lambda a, b, c: a.addcdiv(b, c, value=0.7), lambda a, b, c: a + 0.7 * b / c,
    lambda a, b, c: torch.addcdiv(a, b, c, value=0.7), shapes=THREE, domain=("normal", "normal", "away"))
row("clamp tensors", Tensor.clamp, lambda a, b, c: np.minimum(np.maximum(a, b), c),
    lambda a, b, c: torch.clamp(a, b, c), shapes=THREE[:2])
binary("clamp tensor min", lambda a, b: a.clamp(min=b), np.maximum, lambda a, b: torch.clamp(a, min=b))
binary("clamp tensor max", lambda a, b: a.clamp(max=b), np.minimum, lambda a, b: torch.clamp(a, max=b))
binary("where", lambda a, b: a.where(a > 0.1, b), lambda a, b: np.where(a > 0.1, a, b), domain=("away",
    "normal"))
row("where function", where, np.where, lambda c, a, b: torch.where(c, a, b), shapes=THREE,
    domain=("bits", "normal", "normal"))
unary("positive method", Tensor.positive, np.positive, lambda a: a.positive())
unary("clamp_min", lambda a: a.clamp_min(0.3), lambda a: np.maximum(a, 0.3), lambda a: a.clamp_min(0.3))
unary("allclose", lambda a: Tensor(a.allclose(a + 1e-9)) | Tensor(a.allclose(a + 1)),
    lambda a: np.array(True), gradient=False)  # fmt: skip
unary("equal", lambda a: Tensor(a.equal(a * 1)), lambda a: np.array(True), gradient=False)
binary("nextafter", Tensor.nextafter, np.nextafter, gradient=False, tolerance=0)
