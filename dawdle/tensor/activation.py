"""Activation functions, and dropout. Those that do more than compare compute 16-bit floats in float32, and
integers too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dawdle.errors import ArgumentError, ShapeError
from dawdle.lazy.ops import Op
from dawdle.runtime.trace import note_flag
from dawdle.tensor import elementwise as ew
from dawdle.tensor import transcendental as tr
from dawdle.tensor.autograd import Composite, Node, Parts, rule
from dawdle.tensor.core import apply, axis_of, cast, composite, cut, dims, operands, same, to_float, widen
from dawdle.tensor.special import erf

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


def _wide(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Decorator: ``function`` gets floats of at least 32 bits, and its result is rounded once."""

    @functools.wraps(function)
    def method(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        x = to_float(x)
        return cast(function(widen(x), *args, **kwargs), x.lazy.dtype)

    return method


# ---- of straight pieces


def relu(x: Tensor) -> Tensor:
    """max(x, 0); NaN stays. The gradient at 0 is 0."""
    return composite(Composite.RELU, lambda x: ew.maximum(x, 0), x)


@rule(Composite.RELU, output=True)
def _relu_gradient(n: Node, g: Tensor) -> Parts:
    return (ew.where(ew.gt(n.y(g).detach(), 0), g, 0.0),)


def relu6(x: Tensor) -> Tensor:
    """x limited to [0, 6]; the gradient at the limits is 0."""
    return hardtanh(x, 0, 6)


def hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x limited to [min_val, max_val]; the gradient at the limits is 0."""
    if min_val > max_val:
        raise ArgumentError(f"hardtanh: min_val={min_val} is larger than max_val={max_val}")
    return ew.where(ew.le(x, min_val), min_val, ew.where(ew.ge(x, max_val), max_val, x))


def threshold(x: Tensor, threshold: float, value: float) -> Tensor:
    """x above ``threshold``, ``value`` elsewhere; NaN stays."""
    return ew.where(ew.le(x, threshold), value, x)


def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x above 0, negative_slope * x elsewhere."""
    return ew.where(ew.gt(x, 0), x, ew.mul(x, negative_slope))


@operands("weight")
def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """x above 0, weight * x elsewhere, with one weight, or one for each channel (dim 1).

    Source: He et al., Delving Deep into Rectifiers, 2015.
    """
    shape, count = x.lazy.shape, weight.lazy.size
    if count != 1:
        if len(weight.lazy.shape) != 1 or len(shape) < 2 or shape[1] != count:
            raise ShapeError(
                f"prelu: a weight of shape {weight.lazy.shape} needs an input with {count} channels "
                f"(dim 1), got {shape}; pass one weight or one for each channel"
            )
        weight = apply(Op.RESHAPE, (count, *[1] * (len(shape) - 2)), weight)
    elif len(weight.lazy.shape) > len(shape):
        weight = apply(Op.RESHAPE, (), weight)
    return ew.where(ew.gt(x, 0), x, ew.mul(x, weight))


def rrelu(
    x: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool | None = None
) -> Tensor:
    """x above 0, elsewhere x times a random slope from [lower, upper), or their mean where not training.

    ``training`` defaults to ``Tensor.training``. Source: Xu et al., Empirical Evaluation of Rectified
    Activations in Convolutional Network, 2015.
    """
    if not _training(x, training):
        return leaky_relu(x, (lower + upper) / 2)
    drawn = type(x).rand(*x.lazy.shape, device=x.lazy.device)
    slope = cast(ew.add(ew.mul(drawn, upper - lower), lower), to_float(x).lazy.dtype)
    return ew.where(ew.gt(x, 0), x, ew.mul(x, slope))


@_wide
def hardshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """x outside of [-lambd, lambd], 0 inside; NaN stays."""
    return ew.where(ew.bitand(ew.ge(x, -lambd), ew.le(x, lambd)), 0.0, x)


@_wide
def softshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by ``lambd``, 0 inside of [-lambd, lambd]; NaN stays."""
    if lambd < 0:
        raise ArgumentError(f"softshrink: lambd must not be negative, got {lambd}")
    outside = ew.where(ew.gt(x, 0.0), ew.sub(x, lambd), ew.add(x, lambd))
    return ew.where(ew.le(ew.absolute(x.detach()), lambd), 0.0, outside)


@_wide
def hardsigmoid(x: Tensor) -> Tensor:
    """relu6(x + 3) / 6; the gradient at -3 and 3 is 0."""
    return ew.mul(relu6(ew.add(x, 3.0)), 1 / 6)


@_wide
def hardswish(x: Tensor) -> Tensor:
    """x * relu6(x + 3) / 6. Source: Howard et al., Searching for MobileNetV3, 2019."""
    return composite(Composite.HARDSWISH, lambda x: ew.mul(x, hardsigmoid(x)), x)


@rule(Composite.HARDSWISH, inputs=True)
def _hardswish_gradient(n: Node, g: Tensor) -> Parts:
    x = n.x(g)
    middle = ew.mul(g, ew.add(ew.mul(x, 1 / 3), 0.5))
    return (ew.where(ew.le(x, -3.0), 0.0, ew.where(ew.ge(x, 3.0), g, middle)),)


# ---- smooth ones


@_wide
def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution's cumulative function at x: exactly ("none") or by a tanh formula
    ("tanh").

    Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016.
    """
    if approximate not in GATES:
        raise ArgumentError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return ew.mul(ew.mul(x, 0.5), ew.add(GATES[approximate](x), 1.0))


GATES: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: erf(ew.mul(x, math.sqrt(0.5))),
    "tanh": lambda x: tr.tanh(
        ew.mul(ew.add(ew.mul(ew.mul(ew.mul(x, x), x), 0.044715), x), math.sqrt(2 / math.pi))
    ),
}


@_wide
def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x), also called swish."""
    return ew.mul(x, tr.sigmoid(x))


@_wide
def mish(x: Tensor) -> Tensor:
    """x * tanh(softplus(x)). Source: Misra, Mish, 2019."""
    return ew.mul(x, tr.tanh(softplus(x)))


@_wide
def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x above 0, alpha * (exp(x) - 1) elsewhere.

    Source: Clevert et al., Fast and Accurate Deep Network Learning by Exponential Linear Units, 2016.
    """
    positive = ew.gt(x, 0)
    return ew.where(positive, x, ew.mul(tr.expm1(ew.where(positive, 0.0, x)), alpha))


@_wide
def selu(x: Tensor) -> Tensor:
    """Self-normalising elu. Source: Klambauer et al., Self-Normalizing Neural Networks, 2017."""
    return ew.mul(elu(x, 1.6732632423543772), 1.0507009873554805)


@_wide
def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x above 0, alpha * (exp(x / alpha) - 1) elsewhere.

    Source: Barron, Continuously Differentiable Exponential Linear Units, 2017.
    """
    if alpha == 0:
        raise ArgumentError("celu: alpha must not be 0")
    positive = ew.gt(x, 0)
    return ew.where(positive, x, ew.mul(tr.expm1(ew.div(ew.where(positive, 0.0, x), alpha)), alpha))


@_wide
def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x exceeds ``threshold``."""
    scaled = x if beta == 1 else ew.mul(x, beta)
    positive = ew.gt(scaled, 0)
    rest = tr.log1p(tr.exp(ew.where(positive, ew.neg(scaled), scaled)))
    out = ew.add(rest, ew.where(positive, scaled, 0.0))
    return ew.where(ew.gt(scaled, threshold), x, out if beta == 1 else ew.div(out, beta))


@_wide
def logsigmoid(x: Tensor) -> Tensor:
    """log(sigmoid(x)), without overflow."""
    return ew.neg(softplus(ew.neg(x), threshold=math.inf))


@_wide
def softsign(x: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return ew.div(x, ew.add(ew.absolute(x), 1.0))


@_wide
def tanhshrink(x: Tensor) -> Tensor:
    """x - tanh(x)."""
    return ew.sub(x, tr.tanh(x))


@dims
@_wide
def glu(x: Tensor, dim: int = -1) -> Tensor:
    """The first half of ``x`` along ``dim`` times the sigmoid of the second. Raises ShapeError where its size
    is odd.

    Source: Dauphin et al., Language Modeling with Gated Convolutional Networks, 2017.
    """
    shape = x.lazy.shape
    axis = axis_of(dim, len(shape), "glu", shape)
    if not shape or shape[axis] % 2:
        raise ShapeError(f"glu: dim {dim} of shape {shape} can't be halved")
    half = shape[axis] // 2
    return ew.mul(cut(x, axis, 0, half), tr.sigmoid(cut(x, axis, half, 2 * half)))


# ---- dropout


def _training(x: Tensor, training: bool | None) -> bool:
    if training is None:
        training = type(x).training
        note_flag(type(x), "training", training)
    return training


def dropout(x: Tensor, p: float = 0.5, training: bool | None = None) -> Tensor:
    """Each element 0 with probability ``p``, else divided by 1 - p; ``x`` itself where not training.

    ``training`` defaults to ``Tensor.training`` (see ``Tensor.train()``).
    """
    if not 0 <= p <= 1:
        raise ArgumentError(f"dropout: p must be between 0 and 1, got {p}")
    if not _training(x, training) or p == 0:
        return same(x)
    kept = ew.ge(type(x).rand(*x.lazy.shape, device=x.lazy.device), p)
    return ew.where(kept, ew.mul(x, 1 / (1 - p)) if p < 1 else x, 0.0)
