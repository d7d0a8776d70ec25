"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dawdle.nn.optim.base import Optimizer, ParamGroup, Slots, require, require_rate
from dawdle.tensor import Tensor


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015): m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g²,
    p ← p − lr · m/(1 − β₁ᵗ) / (√(v/(1 − β₂ᵗ)) + eps); ``weight_decay`` adds weight_decay·p to g.

    t counts the steps in which any parameter of the group has had a gradient.
    """

    decoupled = False  # whether weight decay acts on the parameter rather than on the gradient

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        require_rate(lr)
        require(all(0 <= b < 1 for b in betas), "betas", betas, "in [0, 1)")
        require(eps >= 0, "eps", eps, "at least 0")
        require(weight_decay >= 0, "weight_decay", weight_decay, "at least 0")
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay})

    def slot_names(self, group: ParamGroup) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def scalar_names(self, group: ParamGroup) -> tuple[str, ...]:
        return ("step", "correction1", "correction2")

    def advance(self, group: ParamGroup) -> Slots:
        # c = 1 − βᵗ as a running average of ones: c ← βc + (1 − β). In float32, 1 − βᵗ itself would cancel.
        old, (beta1, beta2) = group.scalars, group["betas"]
        return {
            "step": old["step"] + 1,
            "correction1": beta1 * old["correction1"] + (1 - beta1),
            "correction2": beta2 * old["correction2"] + (1 - beta2),
        }

    def update(
        self, param: Tensor, grad: Tensor, slots: Slots, scalars: Slots, group: ParamGroup
    ) -> tuple[Tensor, Slots]:
        (beta1, beta2), decay = group["betas"], group["weight_decay"]
        if decay and self.decoupled:
            param = param * (1 - group.lr * decay)
        elif decay:
            grad = grad + decay * param
        m = slots["exp_avg"] + (1 - beta1) * (grad - slots["exp_avg"])
        v = beta2 * slots["exp_avg_sq"] + (1 - beta2) * grad * grad
        size, root = group.lr / scalars["correction1"], scalars["correction2"].sqrt()
        return param - size * m / (v.sqrt() / root + group["eps"]), {"exp_avg": m, "exp_avg_sq": v}


class AdamW(Adam):
    """Adam with decoupled weight decay: first p ← p·(1 − lr·weight_decay) (Loshchilov and Hutter, 2019)."""

    decoupled = True

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)
