"""Arithmetic, comparisons, bits, elementary functions and activations of each element."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from dawdle.dtype import float64
from dawdle.errors import ModelError
from dawdle.onnx.registry import Node, operator
from dawdle.onnx.values import HostArray, Value, host, on_host
from dawdle.tensor import Tensor
from dawdle.tensor.elementwise import where

LOWEST = float(np.finfo(np.float32).min)

# operators that are a method of Tensor
UNARY = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan",
    "Atanh": "atanh", "BitwiseNot": "bitwise_not", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Erf": "erf",
    "Exp": "exp", "Floor": "floor", "HardSwish": "hardswish", "IsNaN": "isnan", "Log": "log", "Mish": "mish",
    "Neg": "neg", "Not": "logical_not", "Reciprocal": "reciprocal", "Relu": "relu", "Round": "round",
    "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Softplus": "softplus",
    "Softsign": "softsign", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
}  # fmt: skip
BINARY = {
    "Add": "add", "And": "logical_and", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "Greater": "gt", "GreaterOrEqual": "ge", "Less": "lt", "LessOrEqual": "le",
    "Mul": "mul", "Or": "logical_or", "Sub": "sub", "Xor": "logical_xor",
}  # fmt: skip


def _unary(method: str) -> Callable[[Node, Tensor], Tensor]:
    def rule(node: Node, x: Tensor) -> Tensor:
        out: Tensor = getattr(x, method)()
        return out

    return rule


def _binary(method: str) -> Callable[[Node, Tensor, Tensor], Tensor]:
    def rule(node: Node, a: Tensor, b: Tensor) -> Tensor:
        out: Tensor = getattr(a, method)(b)
        return out

    return rule


def _aligned(rule: Callable[..., Value]) -> Callable[[Node, Tensor, Tensor], Value]:
    """Before opset 7 the second operand's dimensions are those of the first from ``axis`` on."""

    def older(node: Node, a: Tensor, b: Tensor) -> Value:
        at = node.int("axis", None)
        if at is not None:
            b = b.reshape(*b.shape, *[1] * (a.ndim - at % a.ndim - b.ndim))
        return rule(node, a, b)

    return older


for _name, _method in UNARY.items():
    operator(_name)(_unary(_method))
for _name, _method in BINARY.items():
    operator(_name, since=7)(_binary(_method))
    operator(_name)(_aligned(_binary(_method)))


@operator("Equal", since=7)
def equal(node: Node, a: Value, b: Value) -> Value:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.eq(b)
    return on_host(np.asarray(host(a) == host(b), np.bool_))


@operator("Div", since=7)
def divide(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """Quotient; of integers, rounded towards zero."""
    return a / b if a.is_floating_point() else a.div(b, rounding_mode="trunc")


@operator("Mod")
def modulo(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """Remainder with the divisor's sign, with ``fmod`` with the dividend's."""
    return a.fmod(b) if node.flag("fmod", 0) else a % b


@operator("Pow", since=7)
def power(node: Node, base: Tensor, exponent: Tensor) -> Tensor:
    if base.is_floating_point() or not exponent.is_floating_point():
        return base.pow(exponent).cast(base.dtype)
    # a whole result that isn't exact must not be rounded down
    exact = base.cast(float64).pow(exponent.cast(float64))
    return where(exact.isclose(exact.round(), 1e-12), exact.round(), exact).cast(base.dtype)


@operator("BitShift")
def bit_shift(node: Node, x: Tensor, amount: Tensor) -> Tensor:
    direction = node.string("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise ModelError(f"{node}: direction is {direction!r}; it must be LEFT or RIGHT")
    return x << amount if direction == "LEFT" else x >> amount


for _name, _rule in {"Div": divide, "Pow": power, "Equal": equal}.items():
    operator(_name)(_aligned(_rule))


def _variadic(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def rule(node: Node, *values: Tensor) -> Tensor:
        return functools.reduce(function, values)

    return rule


operator("Sum")(_variadic(Tensor.add))
operator("Max")(_variadic(Tensor.maximum))
operator("Min")(_variadic(Tensor.minimum))


@operator("Mean")
def mean_of(node: Node, *values: Tensor) -> Tensor:
    return functools.reduce(Tensor.add, values) / len(values)


@operator("IsInf")
def is_infinite(node: Node, x: Tensor) -> Tensor:
    limits = [
        limit
        for limit, name in ((math.inf, "detect_positive"), (-math.inf, "detect_negative"))
        if node.flag(name, 1)
    ]
    found = [x.eq(limit) for limit in limits]
    return functools.reduce(Tensor.logical_or, found) if found else x.isinf() & False


@operator("Where")
def choose(node: Node, condition: Tensor, a: Value, b: Value) -> Value:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return where(condition, a, b)
    return HostArray(np.where(host(condition), host(a), host(b)))


@operator("Clip", since=6)
def clip_to_attributes(node: Node, x: Tensor) -> Tensor:
    return x.clamp(node.float("min", LOWEST), node.float("max", -LOWEST))


@operator("Clip", since=11)
def clip(node: Node, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    """Limited to [low, high]; where low > high, to high."""
    x = x if low is None else x.maximum(low)
    return x if high is None else x.minimum(high)


# ---- activations


@operator("Gelu")
def gelu(node: Node, x: Tensor) -> Tensor:
    return x.gelu(node.string("approximate", "none"))


@operator("Elu")
def elu(node: Node, x: Tensor) -> Tensor:
    return x.elu(node.float("alpha", 1.0))


@operator("Celu")
def celu(node: Node, x: Tensor) -> Tensor:
    return x.celu(node.float("alpha", 1.0))


@operator("Selu")
def selu(node: Node, x: Tensor) -> Tensor:
    alpha = node.float("alpha", 1.67326319217681884765625)
    return x.elu(alpha) * node.float("gamma", 1.05070102214813232421875)


@operator("LeakyRelu")
def leaky_relu(node: Node, x: Tensor) -> Tensor:
    return x.leaky_relu(node.float("alpha", 0.01))


@operator("PRelu", since=1)
def prelu_of_channels(node: Node, x: Tensor, slope: Tensor) -> Tensor:
    """Before opset 7 there is one slope for all or one for each channel."""
    return prelu(node, x, slope if slope.numel() == 1 else slope.reshape(-1, *[1] * (x.ndim - 2)))


@operator("PRelu", since=7)
def prelu(node: Node, x: Tensor, slope: Tensor) -> Tensor:
    return where(x < 0, x * slope, x)


@operator("ThresholdedRelu")
def thresholded_relu(node: Node, x: Tensor) -> Tensor:
    return where(x > node.float("alpha", 1.0), x, 0)


@operator("HardSigmoid")
def hard_sigmoid(node: Node, x: Tensor) -> Tensor:
    return (x * node.float("alpha", 0.2) + node.float("beta", 0.5)).clamp(0, 1)


@operator("Swish")
def swish(node: Node, x: Tensor) -> Tensor:
    return x * (x * node.float("alpha", 1.0)).sigmoid()


@operator("Shrink")
def shrink(node: Node, x: Tensor) -> Tensor:
    limit, bias = node.float("lambd", 0.5), node.float("bias", 0.0)
    out = where(x < -limit, x + bias, where(x > limit, x - bias, 0))
    return out.cast(x.dtype)
