"""Activations as modules; what they compute stands at the functions of the same names."""

from __future__ import annotations

from dawdle.nn import functional as F
from dawdle.nn.layers import InPlace
from dawdle.nn.module import Module, Parameter
from dawdle.tensor import Tensor


class ReLU(InPlace):
    """:func:`functional.relu`."""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x, self.inplace)


class ReLU6(InPlace):
    """:func:`functional.relu6`."""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu6(x, self.inplace)


class LeakyReLU(InPlace):
    """:func:`functional.leaky_relu`."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        return F.leaky_relu(x, self.negative_slope, self.inplace)

    def settings(self) -> str:
        return f"negative_slope={self.negative_slope}"


class PReLU(Module):
    """:func:`functional.prelu` with trained slopes, one or one for each channel."""

    weight: Parameter

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        super().__init__()
        self.weight = Parameter(Tensor.full((num_parameters,), init))

    def forward(self, x: Tensor) -> Tensor:
        return F.prelu(x, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.weight.shape[0]}"


class ELU(InPlace):
    """:func:`functional.elu`."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return F.elu(x, self.alpha, self.inplace)

    def settings(self) -> str:
        return f"alpha={self.alpha}"


class SELU(InPlace):
    """:func:`functional.selu`."""

    def forward(self, x: Tensor) -> Tensor:
        return F.selu(x, self.inplace)


class Sigmoid(Module):
    """:func:`functional.sigmoid`."""

    def forward(self, x: Tensor) -> Tensor:
        return F.sigmoid(x)


class Tanh(Module):
    """:func:`functional.tanh`."""

    def forward(self, x: Tensor) -> Tensor:
        return F.tanh(x)


class GELU(Module):
    """:func:`functional.gelu`."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class SiLU(InPlace):
    """:func:`functional.silu`."""

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(x, self.inplace)


class Softplus(Module):
    """:func:`functional.softplus`."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, x: Tensor) -> Tensor:
        return F.softplus(x, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Mish(InPlace):
    """:func:`functional.mish`."""

    def forward(self, x: Tensor) -> Tensor:
        return F.mish(x, self.inplace)


class Hardswish(InPlace):
    """:func:`functional.hardswish`."""

    def forward(self, x: Tensor) -> Tensor:
        return F.hardswish(x, self.inplace)


class Hardtanh(InPlace):
    """:func:`functional.hardtanh`."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.min_val, self.max_val = min_val, max_val

    def forward(self, x: Tensor) -> Tensor:
        return F.hardtanh(x, self.min_val, self.max_val, self.inplace)

    def settings(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"


class Threshold(InPlace):
    """:func:`functional.threshold`."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold, self.value = threshold, value

    def forward(self, x: Tensor) -> Tensor:
        return F.threshold(x, self.threshold, self.value, self.inplace)

    def settings(self) -> str:
        return f"threshold={self.threshold}, value={self.value}"


class RReLU(InPlace):
    """:func:`functional.rrelu`."""

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.lower, self.upper = lower, upper

    def forward(self, x: Tensor) -> Tensor:
        return F.rrelu(x, self.lower, self.upper, self.training, self.inplace)

    def settings(self) -> str:
        return f"lower={self.lower}, upper={self.upper}"


class CELU(InPlace):
    """:func:`functional.celu`."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return F.celu(x, self.alpha, self.inplace)

    def settings(self) -> str:
        return f"alpha={self.alpha}"


class Hardsigmoid(InPlace):
    """:func:`functional.hardsigmoid`."""

    def forward(self, x: Tensor) -> Tensor:
        return F.hardsigmoid(x, self.inplace)


class LogSigmoid(Module):
    """:func:`functional.logsigmoid`."""

    def forward(self, x: Tensor) -> Tensor:
        return F.logsigmoid(x)


class Softsign(Module):
    """:func:`functional.softsign`."""

    def forward(self, x: Tensor) -> Tensor:
        return F.softsign(x)


class Tanhshrink(Module):
    """:func:`functional.tanhshrink`."""

    def forward(self, x: Tensor) -> Tensor:
        return F.tanhshrink(x)


class Hardshrink(Module):
    """:func:`functional.hardshrink`."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, x: Tensor) -> Tensor:
        return F.hardshrink(x, self.lambd)

    def extra_repr(self) -> str:
        return f"lambd={self.lambd}"


class Softshrink(Module):
    """:func:`functional.softshrink`."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, x: Tensor) -> Tensor:
        return F.softshrink(x, self.lambd)

    def extra_repr(self) -> str:
        return f"lambd={self.lambd}"


class GLU(Module):
    """:func:`functional.glu`."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return F.glu(x, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(Module):
    """:func:`functional.softmax`."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return F.softmax(x, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Softmax):
    """:func:`functional.log_softmax`."""

    def forward(self, x: Tensor) -> Tensor:
        return F.log_softmax(x, self.dim)


class Softmin(Softmax):
    """:func:`functional.softmin`."""

    def forward(self, x: Tensor) -> Tensor:
        return F.softmin(x, self.dim)
