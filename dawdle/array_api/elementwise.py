"""Functions of elements: methods of Tensor under the standard's names."""

from __future__ import annotations

from collections.abc import Callable

from dawdle.dtype import float16, float32, float64, int16, int32, int64, promote_scalar
from dawdle.errors import DTypeError
from dawdle.tensor import Tensor
from dawdle.tensor.core import constant, fits, pair
from dawdle.tensor.elementwise import where

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]  # fmt: skip

Unary = Callable[[Tensor], Tensor]
Binary = Callable[["Tensor | complex", "Tensor | complex"], Tensor]


def unary(name: str, method: Callable[[Tensor], Tensor]) -> Unary:
    """A method of one operand as a function of the standard."""

    def function(x: Tensor, /) -> Tensor:
        return method(x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = method.__doc__
    return function


def binary(name: str, method: Callable[..., Tensor]) -> Binary:
    """A method of two operands as a function of the standard, of which one may be a Python number."""

    def function(x1: Tensor | complex, x2: Tensor | complex, /) -> Tensor:
        return method(_first(x1, x2, name), x2)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = method.__doc__
    return function


def _first(x1: Tensor | complex, x2: Tensor | complex, name: str) -> Tensor:
    """The first operand as a tensor: a number in the dtype that it gives beside the second one."""
    if isinstance(x1, Tensor):
        return x1
    if not isinstance(x2, Tensor) or not isinstance(x1, (int, float)):
        raise DTypeError(f"{name} takes arrays, or one and a real number; got {x1!r} and {x2!r}")
    return constant(x2, x1, promote_scalar(x2.dtype, x1), ())


abs = unary("abs", Tensor.abs)
acos = unary("acos", Tensor.acos)
acosh = unary("acosh", Tensor.acosh)
asin = unary("asin", Tensor.asin)
asinh = unary("asinh", Tensor.asinh)
atan = unary("atan", Tensor.atan)
atanh = unary("atanh", Tensor.atanh)
bitwise_invert = unary("bitwise_invert", Tensor.bitwise_not)
ceil = unary("ceil", Tensor.ceil)
conj = unary("conj", Tensor.positive)
cos = unary("cos", Tensor.cos)
cosh = unary("cosh", Tensor.cosh)
exp = unary("exp", Tensor.exp)
expm1 = unary("expm1", Tensor.expm1)
floor = unary("floor", Tensor.floor)
isfinite = unary("isfinite", Tensor.isfinite)
isinf = unary("isinf", Tensor.isinf)
isnan = unary("isnan", Tensor.isnan)
log = unary("log", Tensor.log)
log10 = unary("log10", Tensor.log10)
log1p = unary("log1p", Tensor.log1p)
log2 = unary("log2", Tensor.log2)
logical_not = unary("logical_not", Tensor.logical_not)
negative = unary("negative", Tensor.neg)
positive = unary("positive", Tensor.positive)
real = unary("real", Tensor.positive)
reciprocal = unary("reciprocal", Tensor.reciprocal)
round = unary("round", Tensor.round)
sign = unary("sign", Tensor.sign)
signbit = unary("signbit", Tensor.signbit)
sin = unary("sin", Tensor.sin)
sinh = unary("sinh", Tensor.sinh)
sqrt = unary("sqrt", Tensor.sqrt)
square = unary("square", Tensor.square)
tan = unary("tan", Tensor.tan)
tanh = unary("tanh", Tensor.tanh)
trunc = unary("trunc", Tensor.trunc)

add = binary("add", Tensor.add)
atan2 = binary("atan2", Tensor.atan2)
bitwise_and = binary("bitwise_and", Tensor.bitwise_and)
bitwise_left_shift = binary("bitwise_left_shift", Tensor.__lshift__)
bitwise_or = binary("bitwise_or", Tensor.bitwise_or)
bitwise_right_shift = binary("bitwise_right_shift", Tensor.__rshift__)
bitwise_xor = binary("bitwise_xor", Tensor.bitwise_xor)
copysign = binary("copysign", Tensor.copysign)
divide = binary("divide", Tensor.div)
equal = binary("equal", Tensor.eq)
floor_divide = binary("floor_divide", Tensor.__floordiv__)
greater = binary("greater", Tensor.gt)
greater_equal = binary("greater_equal", Tensor.ge)
hypot = binary("hypot", Tensor.hypot)
less = binary("less", Tensor.lt)
less_equal = binary("less_equal", Tensor.le)
logaddexp = binary("logaddexp", Tensor.logaddexp)
logical_and = binary("logical_and", Tensor.logical_and)
logical_or = binary("logical_or", Tensor.logical_or)
logical_xor = binary("logical_xor", Tensor.logical_xor)
maximum = binary("maximum", Tensor.maximum)
minimum = binary("minimum", Tensor.minimum)
multiply = binary("multiply", Tensor.mul)
not_equal = binary("not_equal", Tensor.ne)
pow = binary("pow", Tensor.pow)
remainder = binary("remainder", Tensor.__mod__)
subtract = binary("subtract", Tensor.sub)

_BITS = {float16: int16, float32: int32, float64: int64}


def nextafter(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """The floats beside ``x1`` in the direction of ``x2``. Raises DTypeError unless they are floats, not
    bfloat16.
    """
    x, y = pair("nextafter", _first(x1, x2, "nextafter"), x2)
    kind = x.dtype
    if kind not in _BITS:
        raise DTypeError(f"nextafter takes float16, float32 and float64, got {kind.name}; cast it")
    bits = x.detach().bitcast(_BITS[kind])
    away = (x < y) == (x > 0)
    beside = (bits + away.to(_BITS[kind]) * 2 - 1).bitcast(kind)
    least = constant(x, 1, _BITS[kind]).bitcast(kind).copysign(y)
    moved = where(x == 0, least, beside)
    return where((x != x) | (y != y), x + y, where(x == y, y, moved))


def clip(x: Tensor, /, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor:
    """Each element limited to [min, max], in the dtype of ``x``; limits that it can't hold don't limit."""
    if min is None and max is None:
        return x.positive()
    return x.clamp(_limit(x, min), _limit(x, max)).to(x.dtype)


def _limit(x: Tensor, limit: Tensor | float | None) -> Tensor | float | None:
    if isinstance(limit, int) and x.dtype.is_int and not fits(limit, x.dtype):
        return x.dtype.min if limit < 0 else x.dtype.max
    return limit


def imag(x: Tensor, /) -> Tensor:
    """Zeros: no tensor holds complex numbers."""
    return x.zeros_like()
