"""Activation functions."""

from __future__ import annotations

from dawdle.tensor import activation
from dawdle.tensor.operators import rebinding


class Activations:
    __slots__ = ()

    relu, relu6, leaky_relu, prelu = (
        activation.relu, activation.relu6, activation.leaky_relu, activation.prelu
    )  # fmt: skip
    rrelu, hardtanh, threshold = activation.rrelu, activation.hardtanh, activation.threshold
    gelu, silu, swish, mish = activation.gelu, activation.silu, activation.silu, activation.mish
    elu, selu, celu, glu = activation.elu, activation.selu, activation.celu, activation.glu
    softplus, softsign, logsigmoid = activation.softplus, activation.softsign, activation.logsigmoid
    hardsigmoid, hardswish = activation.hardsigmoid, activation.hardswish
    hardshrink, softshrink, tanhshrink = (
        activation.hardshrink, activation.softshrink, activation.tanhshrink
    )  # fmt: skip
    dropout = activation.dropout

    relu_, relu6_, leaky_relu_, rrelu_, hardtanh_ = rebinding(relu, relu6, leaky_relu, rrelu, hardtanh)
    threshold_, elu_, selu_, celu_, silu_ = rebinding(threshold, elu, selu, celu, silu)
    mish_, hardsigmoid_, hardswish_ = rebinding(mish, hardsigmoid, hardswish)
