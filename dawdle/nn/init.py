"""Initialisers: each sets a tensor's values in place, whatever its ``requires_grad``, and returns it."""

from __future__ import annotations

import math

import numpy as np

from dawdle.errors import ArgumentError, ShapeError
from dawdle.tensor import Tensor
from dawdle.tensor.autograd import no_grad

_GAINS = {
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "identity": 1.0,
    "sigmoid": 1.0,
    "tanh": 5 / 3,
    "relu": math.sqrt(2),
    "selu": 3 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps a signal's variance through ``nonlinearity``; ``param`` is leaky_relu's slope
    (0.01).
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise ArgumentError(
            f"no gain is known for {nonlinearity!r}; choose leaky_relu or one of {', '.join(_GAINS)}"
        )
    return _GAINS[nonlinearity]


def fans(tensor: Tensor) -> tuple[int, int]:
    """(fan_in, fan_out) of a weight of shape (out, in, *kernel). Raises ShapeError below two dimensions."""
    if len(tensor.shape) < 2:
        raise ShapeError(f"fan in and fan out need at least two dimensions, but the shape is {tensor.shape}")
    receptive = math.prod(tensor.shape[2:])
    return tensor.shape[1] * receptive, tensor.shape[0] * receptive


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Values from the uniform distribution on [a, b)."""
    return _set(tensor, Tensor.rand(*tensor.shape, device=tensor.device) * (b - a) + a)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Values from the normal distribution."""
    return _set(tensor, Tensor.randn(*tensor.shape, device=tensor.device) * std + mean)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0
) -> Tensor:
    """Values from the normal distribution cut to [a, b], drawn on the host by rejection."""
    rng, count = _host_rng(), math.prod(tensor.shape)
    accepted = np.empty(0)
    low, high = (a - mean) / std, (b - mean) / std
    if math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2)) < 1e-3:
        raise ArgumentError(
            f"trunc_normal_: almost none of the distribution N({mean}, {std}²) is in [{a}, {b}]"
        )
    while len(accepted) < count:
        drawn = rng.standard_normal(2 * count + 16)
        accepted = np.concatenate([accepted, drawn[(drawn >= low) & (drawn <= high)]])
    return _set_array(tensor, accepted[:count].reshape(tensor.shape) * std + mean)


def constant_(tensor: Tensor, value: float) -> Tensor:
    """Every value is ``value``."""
    return _set(tensor, Tensor.full(tensor.shape, value, dtype=tensor.dtype, device=tensor.device))


def ones_(tensor: Tensor) -> Tensor:
    """Every value is 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Every value is 0."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix."""
    if len(tensor.shape) != 2:
        raise ShapeError(f"eye_ needs two dimensions, but the shape is {tensor.shape}")
    return _set_array(tensor, np.eye(*tensor.shape))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution's weight that passes each group's channels through unchanged, as many as there are."""
    if not 3 <= len(tensor.shape) <= 5 or tensor.shape[0] % groups:
        raise ShapeError(
            f"dirac_ needs 3 to 5 dimensions and outputs divisible by groups={groups}, not {tensor.shape}"
        )
    array, per_group = np.zeros(tensor.shape), tensor.shape[0] // groups
    centre = tuple(k // 2 for k in tensor.shape[2:])
    for group in range(groups):
        for channel in range(min(per_group, tensor.shape[1])):
            array[(group * per_group + channel, channel, *centre)] = 1
    return _set_array(tensor, array)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Uniform with the variance 2·gain²/(fan_in + fan_out) (Glorot and Bengio, 2010)."""
    bound = math.sqrt(3) * gain * math.sqrt(2 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Normal with the variance 2·gain²/(fan_in + fan_out) (Glorot and Bengio, 2010)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(fans(tensor))))


def kaiming_uniform_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Tensor:
    """Uniform with the variance gain²/fan (He et al., 2015); ``a`` is leaky_relu's slope."""
    bound = math.sqrt(3) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Tensor:
    """Normal with the variance gain²/fan (He et al., 2015); ``a`` is leaky_relu's slope."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity))


def orthogonal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Rows or columns, whichever are fewer, orthonormal times ``gain`` (Saxe et al., 2013); computed on the
    host.
    """
    if len(tensor.shape) < 2:
        raise ShapeError(f"orthogonal_ needs at least two dimensions, but the shape is {tensor.shape}")
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    drawn = _host_rng().standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(drawn)
    q *= np.sign(np.diag(r))  # makes the distribution uniform
    return _set_array(tensor, gain * (q.T if rows < columns else q).reshape(tensor.shape))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01) -> Tensor:
    """Normal values, a share ``sparsity`` of them in each column 0 (Martens, 2010); drawn on the host."""
    if len(tensor.shape) != 2:
        raise ShapeError(f"sparse_ needs two dimensions, but the shape is {tensor.shape}")
    rng = _host_rng()
    array = rng.standard_normal(tensor.shape) * std
    zeros = math.ceil(sparsity * tensor.shape[0])
    for column in range(tensor.shape[1]):
        array[rng.permutation(tensor.shape[0])[:zeros], column] = 0
    return _set_array(tensor, array)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError(f"mode must be 'fan_in' or 'fan_out', not {mode!r}")
    fan = fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(max(fan, 1))


def _host_rng() -> np.random.Generator:
    """A NumPy generator seeded from dawdle's, so that ``manual_seed`` covers what is drawn on the host."""
    return np.random.default_rng(Tensor.randint(2**31, size=(4,)).numpy())


def _set(tensor: Tensor, value: Tensor) -> Tensor:
    with no_grad():
        return tensor.assign(value)


def _set_array(tensor: Tensor, array: np.ndarray) -> Tensor:
    return _set(tensor, Tensor(array.astype(np.float32), dtype=tensor.dtype, device=tensor.device))
