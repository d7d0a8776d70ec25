"""Normalisation, and the cores of the classification losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dawdle.dtype import DType
from dawdle.errors import ArgumentError, DTypeError, ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import Dim, apply, cast, constant, dims, operands, to_float, widen
from dawdle.tensor.indexing import checked, wrap_negative
from dawdle.tensor.movement import dimension
from dawdle.tensor.reduce import log_softmax, mean, shifted_logsumexp
from dawdle.tensor.transcendental import rsqrt

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


@operands("weight", "bias", "mean", "invstd")
def batchnorm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    invstd: Tensor,
    axis: int = 1,
) -> Tensor:
    """(x - mean) * invstd * weight + bias, where each of these holds a number for every element of dimension
    ``axis``.
    """
    shape = x.lazy.shape
    at = dimension(x, axis, "batchnorm")

    def along(t: Tensor) -> Tensor:
        if t.lazy.size != shape[at]:
            raise ShapeError(
                f"batchnorm: a statistic of shape {t.lazy.shape} for the {shape[at]} channels of {shape}"
            )
        return apply(Op.RESHAPE, tuple(shape[at] if i == at else 1 for i in range(len(shape))), t)

    scale = along(invstd) if weight is None else ew.mul(along(invstd), along(weight))
    out = ew.mul(ew.sub(x, along(mean)), scale)
    return out if bias is None else ew.add(out, along(bias))


def layernorm(x: Tensor, axis: int | Sequence[int] = -1, eps: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(variance + eps) over ``axis``. Source: Ba, Kiros and Hinton, Layer Normalization,
    2016.
    """
    x = to_float(x)
    wide = widen(x)
    centred = ew.sub(wide, mean(wide, axis, True))
    variance = mean(ew.square(centred), axis, True)
    return cast(ew.mul(centred, rsqrt(ew.add(variance, eps))), x.lazy.dtype)


def rms_norm(x: Tensor, axis: int | Sequence[int] = -1, eps: float = 1e-6) -> Tensor:
    """x / sqrt(mean(x^2) + eps) over ``axis``. Source: Zhang and Sennrich, Root Mean Square Layer
    Normalization, 2019.
    """
    x = to_float(x)
    wide = widen(x)
    return cast(ew.mul(wide, rsqrt(ew.add(mean(ew.square(wide), axis, True), eps))), x.lazy.dtype)


@dims
def normalize(x: Tensor, p: float = 2.0, dim: Dim = -1, eps: float = 1e-12) -> Tensor:
    """x divided by its p-norm over ``dim``, or by ``eps`` if that is larger."""
    x = to_float(x)
    return ew.div(x, ew.maximum(x.norm(p, dim, True), eps))


def _reduced(loss: Tensor, reduction: str, total: Tensor | None = None) -> Tensor:
    """``loss`` as it is, summed, or divided by ``total`` (the number of elements by default)."""
    if reduction == "none":
        return loss
    if reduction not in ("mean", "sum"):
        raise ArgumentError(f"reduction must be 'none', 'mean' or 'sum', got {reduction!r}")
    if reduction == "mean" and total is None:
        out: Tensor = loss.mean()
        return out
    out = loss.sum()
    return out if total is None or reduction == "sum" else ew.div(out, total)


def _labels(x: Tensor, target: Tensor, axis: int, what: str) -> None:
    want = x.lazy.shape[:axis] + x.lazy.shape[axis + 1 :]
    if target.lazy.shape != want:
        raise ShapeError(
            f"{what}: labels of shape {target.lazy.shape} for predictions {x.lazy.shape}; "
            f"they must have {want}"
        )
    if not target.lazy.dtype.is_int:
        raise DTypeError(f"{what}: labels must be integers, got {target.lazy.dtype.name}; cast with .long()")


def _classes(x: Tensor, what: str) -> int:
    """The dimension of classes: the second, as in PyTorch, or the only one."""
    if not x.lazy.shape:
        raise ShapeError(f"{what} takes (N, C, ...) or (C,), got a 0-dimensional tensor")
    return min(1, len(x.lazy.shape) - 1)


def _picked(x: Tensor, target: Tensor, axis: int, ignore_index: int | None, what: str) -> Tensor:
    """``x`` at each label, without the class axis. Computing it raises IndexingError for a label that is no
    class, but for ``ignore_index``.
    """
    shape = target.lazy.shape
    labels = target if ignore_index is None else ew.where(ew.eq(target, ignore_index), 0, target)
    labels = checked(labels, x.lazy.shape[axis], what, least=0)
    index = apply(Op.RESHAPE, (*shape[:axis], 1, *shape[axis:]), labels)
    return apply(Op.RESHAPE, shape, apply(Op.GATHER, axis, x, index))


def _factors(weight: Tensor, target: Tensor) -> Tensor:
    """The class weight at each label."""
    index = apply(Op.RESHAPE, (target.lazy.size,), wrap_negative(target, weight.lazy.size))
    return apply(Op.RESHAPE, target.lazy.shape, apply(Op.GATHER, 0, weight, index))


def _weighted(
    losses: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int | None, reduction: str
) -> Tensor:
    """Losses with class weights, without those whose label is ``ignore_index``, reduced as PyTorch does."""
    scale = None
    if weight is not None:
        scale = cast(_factors(weight, target), losses.lazy.dtype)
    if ignore_index is not None:
        kept = ew.ne(target, ignore_index)
        losses = ew.where(kept, losses, 0.0)
        scale = cast(kept, losses.lazy.dtype) if scale is None else ew.where(kept, scale, 0.0)
    if scale is None:
        return _reduced(losses, reduction)
    losses = losses if weight is None else ew.mul(losses, scale)
    return _reduced(losses, reduction, scale.sum() if reduction == "mean" else None)


@operands("target", "weight")
def nll_loss(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int | None = -100,
    reduction: str = "mean",
) -> Tensor:
    """Negative of the log-probabilities ``x`` (N, C, ...) at the labels ``target`` (N, ...); (C) and () work
    too.

    ``weight`` holds a factor for each class, by whose sum the mean is divided. Labels equal to
    ``ignore_index`` don't count.
    """
    axis = _classes(x, "nll_loss")
    _labels(x, target, axis, "nll_loss")
    picked = _picked(x, target, axis, ignore_index, "nll_loss")
    return _weighted(ew.neg(picked), target, weight, ignore_index, reduction)


@operands("target", "weight")
def cross_entropy(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int | None = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log(softmax(x)) at the labels, for logits (N, C, ...) and integer labels (N, ...) or class
    probabilities (N, C, ...).

    The dimension of classes is the second, as in PyTorch. Options as in :func:`nll_loss`; ``label_smoothing``
    takes that much of each label and spreads it evenly over the classes.
    """
    axis = _classes(x, "cross_entropy")
    if target.lazy.shape == x.lazy.shape and target.lazy.dtype.is_float:
        return _soft_cross_entropy(x, target, weight, axis, reduction, label_smoothing)
    return _hard_cross_entropy(x, target, axis, weight, ignore_index, reduction, label_smoothing)


def _soft_cross_entropy(
    x: Tensor, target: Tensor, weight: Tensor | None, axis: int, reduction: str, smoothing: float
) -> Tensor:
    if smoothing:
        target = ew.add(ew.mul(target, 1 - smoothing), smoothing / x.lazy.shape[axis])
    scores = ew.mul(log_softmax(x, axis), target)
    if weight is not None:
        scores = ew.mul(
            scores, apply(Op.RESHAPE, (weight.lazy.size, *[1] * (len(x.lazy.shape) - axis - 1)), weight)
        )
    losses = ew.neg(scores.sum(axis))
    return _reduced(losses, reduction)


def _hard_cross_entropy(
    x: Tensor,
    target: Tensor,
    axis: int,
    weight: Tensor | None,
    ignore_index: int | None,
    reduction: str,
    smoothing: float,
) -> Tensor:
    """log-sum-exp minus the logit of the label: reads one logit for each label and makes no one-hot array."""
    _labels(x, target, axis, "cross_entropy")
    dtype, x = x.lazy.dtype, widen(to_float(x))
    total, top = (apply(Op.RESHAPE, target.lazy.shape, t) for t in shifted_logsumexp(x, (axis,)))
    losses = ew.sub(total, ew.sub(_picked(x, target, axis, ignore_index, "cross_entropy"), top))
    if not smoothing:
        return _rounded(_weighted(losses, target, weight, ignore_index, reduction), dtype)
    hard = _weighted(losses, target, weight, ignore_index, reduction)
    total = ew.add(total, top)
    return _rounded(
        _smoothed(hard, x, total, target, axis, weight, ignore_index, reduction, smoothing), dtype
    )


def _smoothed(
    hard: Tensor,
    x: Tensor,
    total: Tensor,
    target: Tensor,
    axis: int,
    weight: Tensor | None,
    ignore_index: int | None,
    reduction: str,
    smoothing: float,
) -> Tensor:
    """(1 - smoothing) * hard + smoothing * the mean over the classes of their losses."""
    classes = x.lazy.shape[axis]
    if weight is None:
        spread = ew.sub(ew.mul(total, float(classes)), x.sum(axis))
    else:
        factors = apply(
            Op.RESHAPE, (classes, *[1] * (len(x.lazy.shape) - axis - 1)), cast(weight, x.lazy.dtype)
        )
        spread = ew.sub(ew.mul(total, weight.sum()), ew.mul(x, factors).sum(axis))
    kept = None if ignore_index is None else ew.ne(target, ignore_index)
    spread = spread if kept is None else ew.where(kept, spread, 0.0)
    divisor = None
    if reduction == "mean":
        ones = constant(spread, 1.0) if weight is None else _factors(weight, target)
        divisor = (ones if kept is None else ew.where(kept, ones, 0.0)).sum()
    soft = ew.mul(_reduced(spread, reduction, divisor), smoothing / classes)
    return ew.add(ew.mul(hard, 1 - smoothing), soft)


def _rounded(x: Tensor, dtype: DType) -> Tensor:
    return cast(x, dtype) if dtype.is_float else x


@operands("target")
def sparse_categorical_crossentropy(
    x: Tensor,
    target: Tensor,
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Tensor:
    """:func:`cross_entropy` of logits (..., C) with labels (...): the classes are the last dimension."""
    return _hard_cross_entropy(
        x, target, len(x.lazy.shape) - 1, None, ignore_index, reduction, label_smoothing
    )
