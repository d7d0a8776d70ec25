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
    gaussian_nll_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    poisson_nll_loss,
    smooth_l1_loss,
)
from dawdle.nn.ranking import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from dawdle.tensor import (
    Tensor,
    activation,
    attention,
    convolution,
    distances,
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
cosine_similarity = public(distances.cosine_similarity)
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
pairwise_distance = public(distances.pairwise_distance)
pdist = named(distances.pdist)
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

    The row at ``padding_idx``, which counts from the end where negative, gets no gradient.
    """
    rows = weight[index]
    if padding_idx is None:
        return rows
    row = padding_idx + weight.shape[0] if padding_idx < 0 else padding_idx
    padding: Tensor = index.eq(row).unsqueeze(-1)
    return where(padding, rows.detach(), rows)


@named
@with_inplace
def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Each element 0 with probability ``p``, else divided by 1 − p (Srivastava et al., 2014); x itself unless
    ``training``.
    """
    return x.dropout(p, training)


def _dropout_of_channels(dimensions: int) -> Callable[..., Tensor]:
    def function(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
        if x.ndim not in (dimensions + 1, dimensions + 2):
            raise ShapeError(
                f"dropout{dimensions}d takes (N, C, …) or (C, …) with {dimensions} dimensions more, "
                f"got {x.shape}"
            )
        if not training or p == 0:
            return x.dropout(p, False)
        kept = x.ndim - dimensions
        mask = Tensor.ones(*x.shape[:kept], *[1] * dimensions, dtype=x.dtype, device=x.device)
        return x * mask.dropout(p, True)

    function.__name__ = function.__qualname__ = f"dropout{dimensions}d"
    function.__doc__ = (
        f"Whole channels of (N, C, …) or (C, …), with {dimensions} dimensions more, are 0 with probability "
        "``p``, else divided by 1 − p (Tompson et al., 2015); x itself unless ``training``."
    )
    return named(with_inplace(function))


dropout1d, dropout2d, dropout3d = (_dropout_of_channels(n) for n in (1, 2, 3))


@named
@with_inplace
def alpha_dropout(x: Tensor, p: float = 0.5, training: bool = False) -> Tensor:
    """Each element selu's lower limit with probability ``p``, then scaled and shifted, so that mean 0 and
    variance 1 stay (Klambauer et al., 2017); x itself unless ``training``.
    """
    if not 0 <= p <= 1:
        raise ArgumentError(f"alpha_dropout: p must be between 0 and 1, got {p}")
    if not training or p == 0:
        return x.dropout(p, False)
    if p == 1:
        return x * 0.0
    limit = -1.7580993408473766  # -alpha * scale of selu
    scale = 1 / math.sqrt((1 - p) * (1 + p * limit * limit))
    kept = x.detach().rand_like() >= p
    return where(kept, x, limit) * scale - scale * limit * p


@named
def gumbel_softmax(
    logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """softmax((logits + g)/tau) along ``dim``, g drawn from Gumbel's distribution: a draw from the classes
    that gradients flow through (Jang et al., 2017). With ``hard`` it is 1 at one class and 0 at others, with
    the same gradient. ``eps`` means nothing, as in PyTorch.
    """
    if tau <= 0:
        raise ArgumentError(f"gumbel_softmax: tau must be positive, got {tau}")
    drawn = logits.detach().clone().exponential_().clamp_min(2.0**-126)
    soft = ((logits - drawn.log()) / tau).softmax(dim)
    if not hard:
        return soft
    chosen = soft.detach().argmax(dim, keepdim=True)
    marked = soft.detach().zeros_like().scatter(dim, chosen, 1.0)
    return marked - soft.detach() + soft


@public
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1·weight[k]·input2 + bias[k]: shapes (…, m), (…, n), (out, m, n), (out,) → (…, out)."""
    sizes = (input1.shape[-1:], input2.shape[-1:])
    if weight.ndim != 3 or sizes != (weight.shape[1:2], weight.shape[2:]):
        raise ShapeError(f"bilinear: inputs {input1.shape}, {input2.shape} don't fit weight {weight.shape}")
    y = ((input1.unsqueeze(-2) @ weight.permute(1, 0, 2).flatten(1)).unflatten(-1, (weight.shape[0], -1)))
    y = (y.squeeze(-3) * input2.unsqueeze(-2)).sum(-1)
    return y if bias is None else y + bias


@named
def local_response_norm(
    x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha·mean of squares)^beta over ``size`` neighbouring channels (axis 1) of (N, C, …)
    (Krizhevsky et al., 2012).
    """
    if x.ndim < 3 or size < 1:
        raise ShapeError(f"local_response_norm takes (N, C, L, …) and a positive size, got {x.shape}, {size}")
    squares = x.square().movedim(1, -1).pad((size // 2, (size - 1) // 2))
    return x / ((squares.unfold(-1, size, 1).mean(-1) * alpha + k) ** beta).movedim(-1, 1)


@named
def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    """Channels (axis 1) of ``groups`` groups interleaved (Zhang et al., 2018)."""
    if x.ndim < 3 or groups < 1 or x.shape[1] % groups:
        raise ShapeError(f"channel_shuffle: axis 1 of {x.shape} can't be cut into {groups} groups")
    return x.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1, 2)


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
    if len(x.shape) < 2 or num_groups < 1 or x.shape[1] % num_groups:
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
    _move(running_mean, mean, momentum)
    _move(running_var, var * (count / (count - 1)), momentum)
    return _normalize(x, mean, var, weight, bias, eps)


@named
def instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """:func:`batch_norm` of each example (N, C, L, …) by itself (Ulyanov et al., 2016); the running
    statistics move towards the mean over examples.
    """
    if x.ndim < 3:
        raise ShapeError(f"instance_norm needs an input of shape (N, C, L, …), not {x.shape}")
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    axes = tuple(range(2, x.ndim))
    count = math.prod(x.shape[2:])
    if count < 2:
        raise ShapeError(f"instance_norm needs more than one value a channel, got shape {x.shape}")
    mean = x.mean(axes, keepdim=True)
    var = (x - mean).square().mean(axes, keepdim=True)
    _move(running_mean, mean.mean(0), momentum)
    _move(running_var, var.mean(0) * (count / (count - 1)), momentum)
    return _normalize(x, mean, var, weight, bias, eps)


def _move(running: Tensor | None, batch: Tensor, momentum: float | Tensor) -> None:
    """Let a running statistic move towards a batch's by ``momentum``."""
    if running is not None:
        with no_grad():
            running.assign((1 - momentum) * running + momentum * batch.reshape(running.shape))


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
            f"the input {x.shape} has {x.shape[1]} channels (axis 1), but a parameter has shape {v.shape}"
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
    "adaptive_max_pool2d", "adaptive_max_pool3d", "affine_grid", "alpha_dropout", "avg_pool1d", "avg_pool2d",
    "avg_pool3d", "batch_norm", "bilinear", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "celu", "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "cosine_embedding_loss", "cosine_similarity", "cross_entropy", "dropout", "dropout1d",
    "dropout2d", "dropout3d", "elu", "embedding", "fold", "fractional_max_pool2d", "fractional_max_pool3d",
    "gaussian_nll_loss", "gelu", "glu", "grid_sample", "group_norm", "gumbel_softmax", "hardshrink",
    "hardsigmoid", "hardswish", "hardtanh", "hinge_embedding_loss", "huber_loss", "instance_norm",
    "interpolate", "kl_div", "l1_loss", "layer_norm", "leaky_relu", "linear", "local_response_norm",
    "log_softmax", "logsigmoid", "lp_pool1d", "lp_pool2d", "lp_pool3d", "margin_ranking_loss", "max_pool1d",
    "max_pool2d", "max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d", "mish", "mse_loss",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "normalize",
    "one_hot", "pad", "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle", "poisson_nll_loss",
    "prelu", "relu", "relu6", "rms_norm", "rrelu", "scaled_dot_product_attention", "selu", "sigmoid", "silu",
    "smooth_l1_loss", "soft_margin_loss", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh",
    "tanhshrink", "threshold", "triplet_margin_loss", "triplet_margin_with_distance_loss", "unfold",
]
# fmt: on
