"""Layers as functions of their input and weights; activations; the losses of :mod:`dawdle.nn.losses` are here
too.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dawdle.errors import ArgumentError, ShapeError
from dawdle.nn.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)
from dawdle.tensor import (
    Tensor,
    activation,
    attention,
    convolution,
    gridsample,
    layouts,
    padding,
    pooling,
    reduce,
    resample,
    scatter,
    transcendental,
)
from dawdle.tensor.arguments import public
from dawdle.tensor.autograd import no_grad
from dawdle.tensor.core import coerce, keywords, operands
from dawdle.tensor.elementwise import where
from dawdle.tensor.operators import with_inplace

F = TypeVar("F", bound=Callable[..., Any])


def named(function: F) -> F:
    """``function``, whose first argument may also be given as ``input``, as PyTorch calls it."""
    first = next(iter(inspect.signature(function).parameters))
    return keywords(input=first)(public(function))  # type: ignore[return-value]


adaptive_avg_pool1d = named(pooling.adaptive_avg_pool1d)
adaptive_avg_pool2d = named(pooling.adaptive_avg_pool2d)
adaptive_avg_pool3d = named(pooling.adaptive_avg_pool3d)
adaptive_max_pool1d = named(pooling.adaptive_max_pool1d)
adaptive_max_pool2d = named(pooling.adaptive_max_pool2d)
adaptive_max_pool3d = named(pooling.adaptive_max_pool3d)
affine_grid = public(gridsample.affine_grid)
avg_pool1d = named(pooling.avg_pool1d)
avg_pool2d = named(pooling.avg_pool2d)
avg_pool3d = named(pooling.avg_pool3d)
celu = named(with_inplace(activation.celu))
conv1d = named(convolution.conv1d)
conv2d = named(convolution.conv2d)
conv3d = named(convolution.conv3d)
conv_transpose1d = named(convolution.conv_transpose1d)
conv_transpose2d = named(convolution.conv_transpose2d)
conv_transpose3d = named(convolution.conv_transpose3d)
elu = named(with_inplace(activation.elu))
fold = named(convolution.fold)
fractional_max_pool2d = named(pooling.fractional_max_pool2d)
fractional_max_pool3d = named(pooling.fractional_max_pool3d)
gelu = named(activation.gelu)
glu = named(activation.glu)
grid_sample = named(gridsample.grid_sample)
hardshrink = named(activation.hardshrink)
hardsigmoid = named(with_inplace(activation.hardsigmoid))
hardswish = named(with_inplace(activation.hardswish))
hardtanh = named(with_inplace(activation.hardtanh))
interpolate = named(resample.interpolate)
leaky_relu = named(with_inplace(activation.leaky_relu))
log_softmax = named(reduce.log_softmax)
logsigmoid = named(activation.logsigmoid)
lp_pool1d = named(pooling.lp_pool1d)
lp_pool2d = named(pooling.lp_pool2d)
lp_pool3d = named(pooling.lp_pool3d)
max_pool1d = named(pooling.max_pool1d)
max_pool2d = named(pooling.max_pool2d)
max_pool3d = named(pooling.max_pool3d)
max_unpool1d = named(pooling.max_unpool1d)
max_unpool2d = named(pooling.max_unpool2d)
max_unpool3d = named(pooling.max_unpool3d)
mish = named(with_inplace(activation.mish))
one_hot = keywords(tensor="x")(public(scatter.one_hot))
pad = named(padding.pad)
pixel_shuffle = named(layouts.pixel_shuffle)
pixel_unshuffle = named(layouts.pixel_unshuffle)
prelu = named(activation.prelu)
relu = named(with_inplace(activation.relu))
relu6 = named(with_inplace(activation.relu6))
rrelu = named(with_inplace(activation.rrelu))
scaled_dot_product_attention = public(attention.scaled_dot_product_attention)
selu = named(with_inplace(activation.selu))
sigmoid = named(transcendental.sigmoid)
silu = named(with_inplace(activation.silu))
softmax = named(reduce.softmax)
softmin = named(reduce.softmin)
softplus = named(activation.softplus)
softshrink = named(activation.softshrink)
softsign = named(activation.softsign)
tanh = named(transcendental.tanh)
tanhshrink = named(activation.tanhshrink)
threshold = named(with_inplace(activation.threshold))
unfold = named(convolution.unfold)


@named
@operands("weight", "bias")
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x·weightᵀ + bias: shapes (…, in), (out, in), (out,) → (…, out)."""
    if not x.shape or x.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            f"linear: input {x.shape} doesn't fit weight {weight.shape}; "
            f"the input's last axis must be {weight.shape[-1]}"
        )
    y = x @ weight.transpose(0, 1)
    return y if bias is None else y + bias


@named
def normalize(x: Tensor, p: float = 2.0, dim: int | tuple[int, ...] = 1, eps: float = 1e-12) -> Tensor:
    """x divided by its p-norm over ``dim``, or by ``eps`` where that is larger."""
    return x.normalize(p, dim, eps)


@named
@operands("weight")
def embedding(index: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Rows of ``weight`` (n, d) at ``index`` (…): shape (…, d).

    The row at ``padding_idx`` gets no gradient.
    """
    rows = weight[index]
    if padding_idx is None:
        return rows
    padding: Tensor = index.eq(padding_idx).unsqueeze(-1)
    return where(padding, rows.detach(), rows)


@named
@with_inplace
def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Each element 0 with probability ``p``, else divided by 1 − p (Srivastava et al., 2014); x itself unless
    ``training``.
    """
    return x.dropout(p, training)


@named
@operands("weight", "bias")
def layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """x with mean 0, variance 1 over its last axes, then times ``weight`` plus ``bias`` (Ba et al., 2016)."""
    y = x.layernorm(_normalized_axes("layer_norm", x, normalized_shape), eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


@named
@operands("weight")
def rms_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x divided by its root mean square over its last axes, then times ``weight`` (Zhang and Sennrich, 2019).

    ``eps`` None is the machine precision of the dtype.
    """
    axes = _normalized_axes("rms_norm", x, normalized_shape)
    y = x.rms_norm(axes, _precision(x) if eps is None else eps)
    return y if weight is None else y * weight


@named
@operands("weight", "bias")
def group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """:func:`layer_norm` over each of ``num_groups`` groups of channels (Wu and He, 2018); shapes (N, C, …),
    (C,), (C,).
    """
    if len(x.shape) < 2 or x.shape[1] % num_groups:
        raise ShapeError(f"group_norm: axis 1 of {x.shape} can't be cut into {num_groups} groups")
    grouped = x.reshape(x.shape[0], num_groups, -1)
    y = layer_norm(grouped, grouped.shape[2:], eps=eps).reshape(*x.shape)
    y = y if weight is None else y * _by_channel(weight, x)
    return y if bias is None else y + _by_channel(bias, x)


@named
@operands("weight", "bias")
def batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel (axis 1) with mean 0 and variance 1, then times ``weight`` plus ``bias`` (Ioffe and
    Szegedy, 2015).

    With ``training`` the statistics are the batch's, and the running ones move towards them by ``momentum``:
    the running variance towards the unbiased one. Otherwise the running statistics are used.
    """
    if len(x.shape) < 2:
        raise ShapeError(f"batch_norm needs an input of shape (N, C, …), not {x.shape}")
    if not training:
        if running_mean is None or running_var is None:
            raise ArgumentError("batch_norm without training needs running_mean and running_var")
        mean, variance = (_by_channel(coerce(x, t), x) for t in (running_mean, running_var))
        return _normalize(x, mean, variance, weight, bias, eps)
    axes = (0, *range(2, len(x.shape)))
    count = math.prod(x.shape) // max(x.shape[1], 1)
    if count < 2:
        raise ShapeError(f"batch_norm can't train on one value a channel, but the input has shape {x.shape}")
    mean = x.mean(axes, keepdim=True)
    var = (x - mean).square().mean(axes, keepdim=True)
    updates = ((running_mean, mean, 1.0), (running_var, var, count / (count - 1)))
    for running, batch, factor in updates:
        if running is not None:
            with no_grad():
                value = (batch * factor).reshape(running.shape)
                running.assign((1 - momentum) * running + momentum * value)
    return _normalize(x, mean, var, weight, bias, eps)


def _normalize(
    x: Tensor, mean: Tensor, var: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    scale = (var + eps).rsqrt()
    scale = scale if weight is None else scale * _by_channel(weight, x)
    y = (x - mean) * scale
    return y if bias is None else y + _by_channel(bias, x)


def _by_channel(v: Tensor, x: Tensor) -> Tensor:
    """``v`` of shape (C,) shaped to broadcast along axis 1 of ``x``."""
    if v.shape != (x.shape[1],):
        raise ShapeError(
            f"the input {x.shape} has {x.shape[1]} channels (axis 1), but the layer is for {v.shape[0]}"
        )
    return v.reshape(1, -1, *(1 for _ in x.shape[2:]))


def _normalized_axes(name: str, x: Tensor, shape: Sequence[int]) -> tuple[int, ...]:
    if not shape or tuple(x.shape[-len(shape) :]) != tuple(shape):
        raise ShapeError(f"{name}: the input {x.shape} doesn't end in the normalised shape {tuple(shape)}")
    return tuple(range(-len(shape), 0))


def _precision(x: Tensor) -> float:
    return {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float64": 2.0**-52}.get(x.dtype.name, 2.0**-23)


# fmt: off
__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "affine_grid", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "batch_norm", "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu", "conv1d", "conv2d",
    "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cross_entropy", "dropout", "elu",
    "embedding", "fold", "fractional_max_pool2d", "fractional_max_pool3d", "gelu", "glu", "grid_sample",
    "group_norm", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "huber_loss", "interpolate",
    "kl_div", "l1_loss", "layer_norm", "leaky_relu", "linear", "log_softmax", "logsigmoid", "lp_pool1d",
    "lp_pool2d", "lp_pool3d", "max_pool1d", "max_pool2d", "max_pool3d", "max_unpool1d", "max_unpool2d",
    "max_unpool3d", "mish", "mse_loss", "nll_loss", "normalize", "one_hot", "pad", "pixel_shuffle",
    "pixel_unshuffle", "prelu", "relu", "relu6", "rms_norm", "rrelu", "scaled_dot_product_attention",
    "selu", "sigmoid", "silu", "smooth_l1_loss", "softmax", "softmin", "softplus", "softshrink", "softsign",
    "tanh", "tanhshrink", "threshold", "unfold",
]
# fmt: on
