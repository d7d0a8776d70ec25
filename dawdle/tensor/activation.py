"""Activation functions, and dropout."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dawdle.errors import ShapeError
from dawdle.runtime.trace import note_flag
from dawdle.tensor import elementwise as ew
from dawdle.tensor import transcendental as tr
from dawdle.tensor.autograd import Composite
from dawdle.tensor.core import cast, composite, same, to_float, widen
from dawdle.tensor.special import erf

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


def relu(x: Tensor) -> Tensor:
    """max(x, 0); NaN stays. The gradient at 0 is 0."""
    return composite(Composite.RELU, lambda x: ew.maximum(x, 0), x)


def relu6(x: Tensor) -> Tensor:
    """x limited to [0, 6]."""
    return hardtanh(x, 0.0, 6.0)


def hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x limited to [min_val, max_val]; the gradient at the limits is 0."""
    return ew.where(ew.le(x, min_val), min_val, ew.where(ew.ge(x, max_val), max_val, x))


def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x above 0, negative_slope * x elsewhere."""
    return ew.where(ew.gt(x, 0), x, x * negative_slope)


def gelu(x: Tensor, approximate: str = "tanh") -> Tensor:
    """x times the normal distribution's cumulative function at x: exactly ("none") or by a tanh formula
    ("tanh").

    The default is the tanh form. Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016.
    """
    x = to_float(x)
    wide = widen(x)
    if approximate == "tanh":
        gate = tr.tanh((wide * wide * wide * 0.044715 + wide) * math.sqrt(2 / math.pi))
    elif approximate == "none":
        gate = erf(wide * math.sqrt(0.5))
    else:
        raise ShapeError(f"gelu: approximate must be 'tanh' or 'none', got {approximate!r}")
    return cast(wide * (gate + 1.0) * 0.5, x.lazy.dtype)


def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x)."""
    return x * tr.sigmoid(x)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x above 0, alpha * (exp(x) - 1) elsewhere."""
    x = to_float(x)
    positive = ew.gt(x, 0)
    return ew.where(positive, x, tr.expm1(ew.where(positive, 0.0, x)) * alpha)


def selu(x: Tensor) -> Tensor:
    """Self-normalising elu. Source: Klambauer et al., Self-Normalizing Neural Networks, 2017."""
    return elu(x, 1.6732632423543772) * 1.0507009873554805


def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x above 0, alpha * (exp(x / alpha) - 1) elsewhere."""
    x = to_float(x)
    positive = ew.gt(x, 0)
    return ew.where(positive, x, tr.expm1(ew.where(positive, 0.0, x) / alpha) * alpha)


def softplus(x: Tensor, beta: float = 1.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta."""
    scaled = to_float(x) * beta
    positive = ew.gt(scaled, 0)
    out = tr.log1p(tr.exp(ew.where(positive, -scaled, scaled))) + ew.where(positive, scaled, 0.0)
    return out if beta == 1.0 else out / beta


def logsigmoid(x: Tensor) -> Tensor:
    """log(sigmoid(x)), without overflow."""
    return -softplus(-to_float(x))


def mish(x: Tensor) -> Tensor:
    """x * tanh(softplus(x)). Source: Misra, Mish, 2019."""
    return x * tr.tanh(softplus(x))


def hardsigmoid(x: Tensor) -> Tensor:
    """relu6(x + 3) / 6."""
    return relu6(x + 3.0) * (1 / 6)


def hardswish(x: Tensor) -> Tensor:
    """x * relu6(x + 3) / 6."""
    return x * hardsigmoid(x)


def softsign(x: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    x = to_float(x)
    return x / (ew.absolute(x) + 1.0)


def dropout(x: Tensor, p: float = 0.5, training: bool | None = None) -> Tensor:
    """Each element 0 with probability ``p``, else divided by 1 - p; ``x`` itself where not training.

    ``training`` defaults to ``Tensor.training`` (see ``Tensor.train()``).
    """
    if not 0 <= p <= 1:
        raise ShapeError(f"dropout: p must be between 0 and 1, got {p}")
    if training is None:
        training = type(x).training
        note_flag(type(x), "training", training)
    if not training or p == 0:
        return same(x)
    kept = ew.ge(type(x).rand(*x.lazy.shape, device=x.lazy.device), p)
    return ew.where(kept, x * (1 / (1 - p)) if p < 1 else x, 0.0)
