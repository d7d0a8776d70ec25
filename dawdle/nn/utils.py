"""Clipping of gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dawdle.errors import GradientError
from dawdle.tensor import Tensor
from dawdle.tensor.autograd import no_grad


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale all gradients down together so that their norm is at most ``max_norm``; gives the norm before.

    The norm is that of all gradients as one vector; ``norm_type`` may be ``inf``. Lazy: the scaling fuses
    into the optimizer's step. ``error_if_nonfinite`` computes the norm at once and raises GradientError for
    NaN and infinity.
    """
    with_grad = _with_grad(parameters)
    if not with_grad:
        return Tensor(0.0)
    with no_grad():
        grads = [p.grad for p in with_grad if p.grad is not None]
        if norm_type == math.inf:
            total: Tensor = grads[0].abs().max()
            for grad in grads[1:]:
                total = total.maximum(grad.abs().max())
        else:
            powers = [g.square().sum() if norm_type == 2 else (g.abs() ** norm_type).sum() for g in grads]
            power = powers[0]
            for other in powers[1:]:
                power = power + other
            total = power.sqrt() if norm_type == 2 else power ** (1 / norm_type)
        if error_if_nonfinite and not math.isfinite(total.item()):
            raise GradientError(
                f"the gradients' norm is {total.item()}; look for an overflow, or lower the learning rate"
            )
        scale = (max_norm / (total + 1e-6)).minimum(1.0)
        for param, grad in zip(with_grad, grads, strict=True):
            param.grad = (grad * scale).to(grad.dtype)
    return total


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Limit each element of the gradients to [−clip_value, clip_value]."""
    with no_grad():
        for param in _with_grad(parameters):
            if param.grad is not None:
                param.grad = param.grad.clip(-clip_value, clip_value)


def _with_grad(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    given = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p for p in given if p.grad is not None]
