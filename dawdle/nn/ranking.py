"""Losses that compare: with a margin, of pairs and triplets, and of the classes of one example. Each takes
``reduction``: "mean", "sum" or "none".
"""

from __future__ import annotations

from collections.abc import Callable

from dawdle.errors import ArgumentError, DTypeError, ShapeError
from dawdle.nn.losses import check_same_shape, reduced
from dawdle.tensor import Tensor
from dawdle.tensor.activation import logsigmoid
from dawdle.tensor.arguments import public
from dawdle.tensor.distances import cosine_similarity, pairwise_distance
from dawdle.tensor.elementwise import where

Distance = Callable[[Tensor, Tensor], Tensor]


@public
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """max(0, margin − target·(input1 − input2)): ``target`` 1 says that ``input1`` should be larger, −1 that
    ``input2`` should. The operands broadcast.
    """
    return reduced((margin - target * (input1 - input2)).relu(), reduction)


@public
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """The distance ``input`` where ``target`` is 1, max(0, margin − input) where it is −1."""
    near = where(target != 1, 0.0, input)
    far = where(target != -1, 0.0, (margin - input).relu())
    return reduced(near + far, reduction)


@public
def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """log(1 + exp(−target·input)), for targets 1 and −1, of equal shapes."""
    check_same_shape(input, target)
    return reduced(-logsigmoid(target * input), reduction)


@public
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 − cos(input1, input2) where ``target`` is 1, max(0, cos − margin) where it is −1: shapes (N, D),
    (N, D) and (N,), or (D,), (D,) and ().
    """
    if input1.ndim != target.ndim + 1 or input1.ndim not in (1, 2):
        raise ShapeError(
            f"cosine_embedding_loss takes (N, D), (N, D), (N,) or (D,), (D,), (), got shapes {input1.shape}, "
            f"{input2.shape}, {target.shape}"
        )
    cosine = cosine_similarity(input1, input2, -1)
    near = where(target == 1, 1 - cosine, 0.0)
    far = where(target == -1, (cosine - margin).relu(), 0.0)
    return reduced(near + far, reduction)


@public
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) − d(anchor, negative) + margin) of (…, D), d the ``p``-norm of differences
    (Balntas et al., 2016). With ``swap``, d(positive, negative) counts where it is the smaller one.
    """

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return pairwise_distance(a, b, p, eps)

    return _triplet(anchor, positive, negative, distance, margin, swap, reduction)


@public
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Distance | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """:func:`triplet_margin_loss` with another distance, a function of two tensors; the Euclidean one by
    default.
    """
    distance = distance_function or pairwise_distance
    return _triplet(anchor, positive, negative, distance, margin, swap, reduction)


def _triplet(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance: Distance,
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    if margin <= 0:
        raise ArgumentError(f"a triplet's margin must be positive, got {margin}")
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced((near - far + margin).relu(), reduction)


@public
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The sum over wrong classes of max(0, margin − input[target] + input)^p, divided by the number of
    classes: shapes (N, C) and (N,), or (C,) and (). ``p`` is 1 or 2; ``weight`` (C,) weighs by the target.
    """
    if p not in (1, 2):
        raise ArgumentError(f"multi_margin_loss: p must be 1 or 2, got {p}")
    _check_labels(input, target)
    index = target.unsqueeze(-1)
    excess = (margin - input.gather(-1, index) + input).relu() ** p
    if weight is not None:
        excess = excess * weight[index]
    wrong = target.one_hot(input.shape[-1]) == 0
    return reduced(where(wrong, excess, 0.0).sum(-1) / input.shape[-1], reduction)


def _check_labels(input: Tensor, target: Tensor) -> None:
    if input.ndim not in (1, 2) or target.shape != input.shape[:-1]:
        raise ShapeError(f"labels of shape {target.shape} don't fit an input {input.shape} of (N, C) or (C,)")
    if not target.dtype.is_int:
        raise DTypeError(f"labels must be integers, got {target.dtype.name}; cast with .long()")


@public
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """The mean over classes (the last axis) of the binary cross-entropy between sigmoid(input) and targets 0
    and 1, of equal shapes; ``weight`` (C,) weighs the classes.
    """
    check_same_shape(input, target)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    return reduced((loss if weight is None else loss * weight).mean(-1), reduction)


@public
def multilabel_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The sum of max(0, 1 − (input[y] − input[i])) over the labels y, which ``target`` lists before its first
    −1, and the other classes i, divided by the number of classes: both (N, C) or (C,).
    """
    check_same_shape(input, target)
    _check_labels(input, target[..., 0])
    listed = (target < 0).cumsum(-1) == 0
    labels = where(listed, target, 0)
    marks = input.detach().zeros_like().scatter_add(-1, labels, listed.to(input.dtype))
    gaps = (1 - input.gather(-1, labels).unsqueeze(-1) + input.unsqueeze(-2)).relu()
    counted = listed.unsqueeze(-1) & (marks == 0).unsqueeze(-2)
    return reduced(where(counted, gaps, 0.0).sum((-1, -2)) / input.shape[-1], reduction)
