"""Activation functions."""
from __future__ import annotations

import numpy as np
from table import F, unary

from dawdle import Tensor

unary("relu", Tensor.relu, lambda a: np.maximum(a, 0), lambda a: a.relu(), domain="away")
unary("relu6", lambda a: (a * 4).relu6(), None, lambda a: F.relu6(a * 4), domain="away")
unary("leaky_relu", Tensor.leaky_relu, None, lambda a: F.leaky_relu(a), domain="away")
unary("gelu", Tensor.gelu, None, lambda a: F.gelu(a, approximate="tanh"))
unary("gelu exact", lambda a: a.gelu("none"), None, lambda a: F.gelu(a))
unary("silu", Tensor.silu, None, lambda a: F.silu(a))
unary("elu", Tensor.elu, None, lambda a: F.elu(a))
unary("selu", Tensor.selu, None, lambda a: F.selu(a))
unary("celu", lambda a: a.celu(1.3), None, lambda a: F.celu(a, 1.3))
unary("softplus", Tensor.softplus, None, lambda a: F.softplus(a))
unary("softplus beta", lambda a: a.softplus(2.0), None, lambda a: F.softplus(a, 2.0))
unary("logsigmoid", Tensor.logsigmoid, None, lambda a: F.logsigmoid(a))
unary("mish", Tensor.mish, None, lambda a: F.mish(a))
unary("hardtanh", Tensor.hardtanh, None, lambda a: F.hardtanh(a))
unary("hardsigmoid", Tensor.hardsigmoid, None, lambda a: F.hardsigmoid(a))
unary("hardswish", Tensor.hardswish, None, lambda a: F.hardswish(a))
unary("softsign", Tensor.softsign, None, lambda a: F.softsign(a))
