"""Activation functions."""

from __future__ import annotations

from dawdle.tensor import activation


class Activations:
    __slots__ = ()

    relu, relu6, leaky_relu, gelu = activation.relu, activation.relu6, activation.leaky_relu, activation.gelu
    silu, swish, mish, elu = activation.silu, activation.silu, activation.mish, activation.elu
    selu, celu, softplus, softsign = (
        activation.selu,
        activation.celu,
        activation.softplus,
        activation.softsign,
    )
    logsigmoid, hardtanh = activation.logsigmoid, activation.hardtanh
    hardsigmoid, hardswish, dropout = activation.hardsigmoid, activation.hardswish, activation.dropout
