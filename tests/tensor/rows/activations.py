"""Activation functions."""
from __future__ import annotations

from functools import partial

import numpy as np
from table import F, row, unary

from dawdle import Tensor

smooth = partial(unary, special="f")
kinked = partial(unary, domain="away", special="f")

unary("relu", Tensor.relu, lambda a: np.maximum(a, 0), lambda a: a.relu(), domain="away", special="fiu")
unary("relu6", lambda a: (a * 4).relu6(), None, lambda a: F.relu6(a * 4), domain="away", special="f")
kinked("leaky_relu", Tensor.leaky_relu, None, lambda a: F.leaky_relu(a))
kinked("hardtanh", Tensor.hardtanh, None, lambda a: F.hardtanh(a))
kinked("threshold", lambda a: a.threshold(0.1, 20.0), None, lambda a: F.threshold(a, 0.1, 20.0))
kinked("hardshrink", Tensor.hardshrink, None, lambda a: F.hardshrink(a))
kinked("softshrink", lambda a: a.softshrink(0.7), None, lambda a: F.softshrink(a, 0.7))
smooth("hardsigmoid", Tensor.hardsigmoid, None, lambda a: F.hardsigmoid(a))
smooth("hardswish", Tensor.hardswish, None, lambda a: F.hardswish(a))
unary("hardswish wide", lambda a: (a * 3).hardswish(), None, lambda a: F.hardswish(a * 3))
smooth("gelu", Tensor.gelu, None, lambda a: F.gelu(a), near_zero=1)
smooth("gelu tanh", lambda a: a.gelu("tanh"), None, lambda a: F.gelu(a, approximate="tanh"),
    near_zero=1)
smooth("silu", Tensor.silu, None, lambda a: F.silu(a))
smooth("elu", Tensor.elu, None, lambda a: F.elu(a))
smooth("elu alpha", lambda a: a.elu(1.7), None, lambda a: F.elu(a, 1.7))
smooth("selu", Tensor.selu, None, lambda a: F.selu(a))
smooth("celu", lambda a: a.celu(1.3), None, lambda a: F.celu(a, 1.3))
smooth("softplus", Tensor.softplus, None, lambda a: F.softplus(a))
smooth("softplus beta", lambda a: a.softplus(2.0, 1.5), None, lambda a: F.softplus(a, 2.0, 1.5))
smooth("logsigmoid", Tensor.logsigmoid, None, lambda a: F.logsigmoid(a))
smooth("mish", Tensor.mish, None, lambda a: F.mish(a))
smooth("softsign", Tensor.softsign, None, lambda a: F.softsign(a))
smooth("tanhshrink", Tensor.tanhshrink, None, lambda a: F.tanhshrink(a), near_zero=1)
unary("rrelu", Tensor.rrelu, None, lambda a: F.rrelu(a), domain="away")
row("glu", lambda a: a.glu(1), None, lambda a: F.glu(a, 1), shapes=(((3, 4),), ((2, 6, 3),), ((0, 2),)))
row("prelu", Tensor.prelu, None, lambda a, w: F.prelu(a, w), domain=("away", "normal"),
    shapes=(((3, 4), (4,)), ((2, 3, 5), (3,)), ((3, 4), (1,)), ((5,), (1,))))
