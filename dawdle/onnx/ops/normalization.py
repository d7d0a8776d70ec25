"""Normalisation by batch, instance, group, layer and region."""

from __future__ import annotations

from collections.abc import Sequence

from dawdle.dtype import DType
from dawdle.errors import ShapeError
from dawdle.onnx.ops.common import axis
from dawdle.onnx.registry import Node, operator
from dawdle.onnx.values import tensor_dtype
from dawdle.tensor import Tensor
from dawdle.tensor.core import widen
from dawdle.tensor.elementwise import where


def per_channel(t: Tensor, x: Tensor) -> Tensor:
    """One number for each channel, in the shape that broadcasts to (N, C, ...)."""
    return t.reshape(-1, *[1] * (x.ndim - 2)) if x.ndim > 1 else t


@operator("BatchNormalization")
def batch_norm(node: Node, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    return _scaled(x, scale, bias, mean, variance, node.float("epsilon", 1e-5))


@operator("BatchNormalization", since=14)
def batch_norm_training(
    node: Node, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    """In training, by the statistics of the batch, and the running ones moved towards these."""
    epsilon = node.float("epsilon", 1e-5)
    if not node.flag("training_mode", 0):
        return _scaled(x, scale, bias, mean, variance, epsilon)
    axes = [axis for axis in range(x.ndim) if axis != 1]
    now = widen(x)
    here = now.mean(axes)
    spread = now.var(axes, correction=0)
    kept = node.float("momentum", 0.9)
    running = [
        (old * kept + new.cast(old.dtype) * (1 - kept)) for old, new in ((mean, here), (variance, spread))
    ]
    return _scaled(x, scale, bias, here, spread, epsilon), running[0], running[1]


def _scaled(x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, epsilon: float) -> Tensor:
    factor = scale * (widen(variance) + epsilon).rsqrt()
    out = (x - per_channel(mean, x)) * per_channel(factor, x) + per_channel(bias, x)
    return out.cast(x.dtype)


def _standardized(x: Tensor, axes: Sequence[int], epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """(x less its mean, over its standard deviation; the mean; 1 / the standard deviation)."""
    mean = x.mean(axes, keepdim=True)
    centred = x - mean
    inverse = ((centred * centred).mean(axes, keepdim=True) + epsilon).rsqrt()
    return centred * inverse, mean, inverse


@operator("InstanceNormalization")
def instance_norm(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    wide = widen(x)
    out, _, _ = _standardized(wide, range(2, x.ndim), node.float("epsilon", 1e-5))
    return (out * per_channel(scale, x) + per_channel(bias, x)).cast(x.dtype)


@operator("GroupNormalization", since=18)
def group_norm_by_group(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """The first version: a scale and a bias for each group."""
    size = x.shape[1] // max(node.int("num_groups"), 1)
    return group_norm(node, x, scale.repeat_interleave(size), bias.repeat_interleave(size))


@operator("GroupNormalization", since=21)
def group_norm(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    groups = node.int("num_groups")
    if groups < 1 or x.shape[1] % groups:
        raise ShapeError(f"{node}: the {x.shape[1]} channels of {x.shape} don't divide into {groups} groups")
    grouped = x.cast(_stash(node, x)).reshape(x.shape[0], groups, -1)
    out, _, _ = _standardized(grouped, (2,), node.float("epsilon", 1e-5))
    return out.reshape(x.shape).cast(x.dtype) * per_channel(scale, x) + per_channel(bias, x)


def _stash(node: Node, x: Tensor) -> DType:
    """The dtype in which statistics are computed; a wider input keeps its own."""
    kind = tensor_dtype(node.int("stash_type", 1)) or x.dtype
    return x.dtype if x.dtype.bits > kind.bits else kind


def _from(node: Node, x: Tensor, default: int = -1) -> range:
    return range(axis(node.int("axis", default), x.ndim, node), x.ndim)


@operator("LayerNormalization")
def layer_norm(
    node: Node, x: Tensor, scale: Tensor, bias: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The statistics come in the dtype that ``stash_type`` names, also where a wider one was computed in."""
    wide = x.cast(_stash(node, x))
    out, mean, inverse = _standardized(wide, _from(node, x), node.float("epsilon", 1e-5))
    scaled = out.cast(x.dtype) * scale
    kind = tensor_dtype(node.int("stash_type", 1)) or x.dtype
    return (scaled if bias is None else scaled + bias), mean.cast(kind), inverse.cast(kind)


@operator("RMSNormalization")
def rms_norm(node: Node, x: Tensor, scale: Tensor) -> Tensor:
    wide = x.cast(_stash(node, x))
    square = (wide * wide).mean(tuple(_from(node, x)), keepdim=True)
    return (wide * (square + node.float("epsilon", 1e-5)).rsqrt()).cast(x.dtype) * scale


@operator("LpNormalization")
def lp_norm(node: Node, x: Tensor) -> Tensor:
    """x over its norm; 0 where that is 0."""
    norm: Tensor = x.norm(node.int("p", 2), node.int("axis", -1), keepdim=True)
    return x / where(norm == 0, 1.0, norm)


@operator("MeanVarianceNormalization")
def mean_variance_norm(node: Node, x: Tensor) -> Tensor:
    axes = node.ints("axes", (0, 2, 3))
    centred = x - x.mean(axes, keepdim=True)
    deviation = (centred * centred).mean(axes, keepdim=True).sqrt()
    return centred / (deviation + 1e-9)


@operator("LRN")
def local_response_norm(node: Node, x: Tensor) -> Tensor:
    """x / (bias + alpha / size * the sum of squares of ``size`` channels around)^beta."""
    size = node.int("size")
    low = (size - 1) // 2
    around = (x * x).pad([(0, 0), (low, size - 1 - low)] + [(0, 0)] * (x.ndim - 2)).unfold(1, size, 1).sum(-1)
    scale = around * (node.float("alpha", 1e-4) / size) + node.float("bias", 1.0)
    return x * _power(scale, -node.float("beta", 0.75))


def _power(x: Tensor, exponent: float) -> Tensor:
    """A positive number to a power; roots where the exponent is a multiple of a quarter."""
    if exponent == -0.75:
        root = x.rsqrt()
        return root * root.sqrt()
    out: Tensor = x.pow(exponent)
    return out
