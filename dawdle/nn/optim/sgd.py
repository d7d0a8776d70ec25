"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dawdle.errors import ArgumentError
from dawdle.nn.optim.base import Optimizer, ParamGroup, Slots, require, require_rate
from dawdle.tensor import Tensor
from dawdle.tensor.elementwise import where


class SGD(Optimizer):
    """p ← p − lr·d with d = g + weight_decay·p; with momentum, b ← momentum·b + (1 − dampening)·d, first b ←
    d.

    Then d is b, or with ``nesterov`` d + momentum·b (Sutskever et al., 2013, in PyTorch's form).
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float | Tensor = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        require_rate(lr)
        require(momentum >= 0, "momentum", momentum, "at least 0")
        require(weight_decay >= 0, "weight_decay", weight_decay, "at least 0")
        if nesterov and (momentum == 0 or dampening != 0):
            raise ArgumentError("nesterov needs a momentum and no dampening")
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
            },
        )

    def slot_names(self, group: ParamGroup) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] else ()

    def scalar_names(self, group: ParamGroup) -> tuple[str, ...]:
        return ("step",) if group["dampening"] else ()

    def advance(self, group: ParamGroup) -> Slots:
        return {name: value + 1 for name, value in group.scalars.items()}

    def update(
        self, param: Tensor, grad: Tensor, slots: Slots, scalars: Slots, group: ParamGroup
    ) -> tuple[Tensor, Slots]:
        momentum, new_slots = group["momentum"], {}
        if group["weight_decay"]:
            grad = grad + group["weight_decay"] * param
        if momentum:
            taken = grad
            if group["dampening"]:
                taken = grad * where(scalars["step"] > 1, 1.0 - group["dampening"], 1.0)
            buffer = momentum * slots["momentum_buffer"] + taken
            new_slots = {"momentum_buffer": buffer}
            grad = grad + momentum * buffer if group["nesterov"] else buffer
        return param - group.lr * grad, new_slots
