"""Loss functions, and the same as modules. Each takes ``reduction``: "mean", "sum" or "none"."""

from __future__ import annotations

import math
from collections.abc import Callable

from dawdle.errors import ArgumentError, ShapeError
from dawdle.nn.module import Module
from dawdle.tensor import Tensor
from dawdle.tensor.arguments import public
from dawdle.tensor.core import HALF
from dawdle.tensor.elementwise import where

_REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda loss: loss.mean(),
    "sum": lambda loss: loss.sum(),
    "none": lambda loss: loss,
}


@public
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross-entropy between softmax(``input``) and ``target``, over axis 1 of (N, C, …) or axis 0 of (C,).

    ``target`` holds class indices of shape (N, …), or probabilities of the shape of ``input``. Targets equal
    to ``ignore_index`` count for nothing. "mean" divides by the total ``weight`` (shape (C,)) of the targets
    that count, with probabilities by their number. ``label_smoothing`` mixes the target with the uniform
    distribution (Szegedy et al., 2015). Raises ShapeError and DTypeError for operands that don't fit.
    """
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(f"label_smoothing must be in [0, 1], not {label_smoothing}")
    _check_classes(input, reduction)
    return input.cross_entropy(target, weight, ignore_index, reduction, label_smoothing)


@public
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """−``input`` at the class index ``target``: shapes (N, C, …) and (N, …), or (C,) and ().

    ``weight``, ``ignore_index`` and "mean" are as in :func:`cross_entropy`.
    """
    _check_classes(input, reduction)
    return input.nll_loss(target, weight, ignore_index, reduction)


@public
def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """(input − target)², of equal shapes."""
    return reduced((_difference(input, target)).square(), reduction)


@public
def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """|input − target|, of equal shapes."""
    return reduced(_difference(input, target).abs(), reduction)


@public
def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """d²/2 where |d| < delta, else delta·(|d| − delta/2), of d = input − target (Huber, 1964)."""
    if delta <= 0:
        raise ArgumentError(f"huber_loss needs delta > 0, not {delta}")
    size = _difference(input, target).abs()
    return reduced(where(size < delta, 0.5 * size.square(), delta * (size - 0.5 * delta)), reduction)


@public
def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """:func:`huber_loss` divided by its delta, ``beta``; the L1 loss for beta = 0."""
    if beta == 0:
        return l1_loss(input, target, reduction)
    return huber_loss(input, target, reduction, beta) / beta


def _bounded_log(p: Tensor) -> Tensor:
    wide = p.float() if p.dtype in HALF else p
    small = wide < 1e-12
    value = wide.detach()
    below = value.log().maximum(-100.0) + 1e12 * (wide - value)
    return where(small, below, where(small, 1.0, wide).log()).cast(p.dtype)


@public
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """−(target·log input + (1 − target)·log(1 − input)) of probabilities, with logarithms cut off at −100,
    and their slopes at 10¹².
    """
    check_same_shape(input, target)
    loss = -(target * _bounded_log(input) + (1 - target) * _bounded_log(1 - input))
    return reduced(loss if weight is None else loss * weight, reduction)


@public
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """:func:`binary_cross_entropy` of sigmoid(input), stable for large inputs; ``pos_weight`` weighs the
    positive term.
    """
    check_same_shape(input, target)
    softplus = (-input.abs()).exp().log1p() + (-input).relu()  # log(1 + exp(−input))
    positive = 1.0 if pos_weight is None else 1 + (pos_weight - 1) * target
    loss = (1 - target) * input + positive * softplus
    return reduced(loss if weight is None else loss * weight, reduction)


@public
def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target·(log target − input), where ``input`` holds log probabilities and, with ``log_target``,
    ``target`` does too.

    "batchmean" divides the sum by the size of the first axis, which gives the divergence of Kullback and
    Leibler.
    """
    check_same_shape(input, target)
    if log_target:
        loss = target.exp() * (target - input)
    else:
        positive = target > 0
        loss = where(positive, target * (where(positive, target, 1.0).log() - input), 0.0 * input)
    if reduction == "batchmean":
        return reduced(loss, "sum") / (input.shape or (1,))[0]
    return reduced(loss, reduction)


@public
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """exp(input) − target·input, the negative logarithm of Poisson's distribution at ``target`` but for a
    constant; of the rate itself, without ``log_input``, input − target·log(input + eps). With ``full`` the
    constant is there for targets above 1, by Stirling's formula.
    """
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        large = where(target > 1, target, 1.0)
        constant = large * large.log() - large + 0.5 * (2 * math.pi * large).log()
        loss = loss + where(target > 1, constant, 0.0)
    return reduced(loss, reduction)


@public
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """(log var + (input − target)²/var)/2, the negative logarithm of the normal distribution of mean
    ``input`` at ``target`` but for the constant, which is there with ``full`` (Nix and Weigend, 1994).

    ``var`` has the shape of ``input``, or lacks its last dimension, or has size 1 there; below ``eps`` it
    counts as ``eps``, and gets its gradient all the same.
    """
    spread: Tensor = var if isinstance(var, Tensor) else input.detach().full_like(var)
    if spread.shape == input.shape[:-1] and spread.shape != input.shape:
        spread = spread.unsqueeze(-1)
    if spread.shape not in (input.shape, (*input.shape[:-1], 1)):
        raise ShapeError(f"gaussian_nll_loss: var has shape {spread.shape}, the input {input.shape}")
    spread = spread + (spread.clamp_min(eps) - spread).detach()
    loss = 0.5 * (spread.log() + (input - target).square() / spread)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


class _Loss(Module):
    more_reductions: tuple[str, ...] = ()

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        _check_reduction(reduction, *self.more_reductions)
        self.reduction = reduction


class CrossEntropyLoss(_Loss):
    """:func:`cross_entropy` as a module."""

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(
            input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing
        )


class NLLLoss(_Loss):
    """:func:`nll_loss` as a module."""

    def __init__(
        self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class MSELoss(_Loss):
    """:func:`mse_loss` as a module."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return mse_loss(input, target, self.reduction)


class L1Loss(_Loss):
    """:func:`l1_loss` as a module."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return l1_loss(input, target, self.reduction)


class HuberLoss(_Loss):
    """:func:`huber_loss` as a module."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return huber_loss(input, target, self.reduction, self.delta)


class SmoothL1Loss(_Loss):
    """:func:`smooth_l1_loss` as a module."""

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return smooth_l1_loss(input, target, self.reduction, self.beta)


class BCELoss(_Loss):
    """:func:`binary_cross_entropy` as a module."""

    def __init__(self, weight: Tensor | None = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return binary_cross_entropy(input, target, self.weight, self.reduction)


class BCEWithLogitsLoss(_Loss):
    """:func:`binary_cross_entropy_with_logits` as a module."""

    def __init__(
        self, weight: Tensor | None = None, reduction: str = "mean", pos_weight: Tensor | None = None
    ) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(input, target, self.weight, self.reduction, self.pos_weight)


class KLDivLoss(_Loss):
    """:func:`kl_div` as a module."""

    more_reductions = ("batchmean",)

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return kl_div(input, target, self.reduction, self.log_target)


def _check_reduction(reduction: str, *more: str) -> None:
    if reduction not in (*_REDUCTIONS, *more):
        raise ArgumentError(f"reduction must be one of {', '.join((*_REDUCTIONS, *more))}, not {reduction!r}")


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The mean or the sum of a loss, or itself. Raises ArgumentError for another ``reduction``."""
    _check_reduction(reduction)
    return _REDUCTIONS[reduction](loss)


def _check_classes(input: Tensor, reduction: str) -> None:
    if not input.shape:
        raise ShapeError("the loss needs an input of shape (N, C, …) or (C,), not a scalar")
    _check_reduction(reduction)


def check_same_shape(input: Tensor, target: Tensor) -> None:
    """Raise ShapeError where the shapes differ."""
    if input.shape != target.shape:
        raise ShapeError(
            f"input has shape {input.shape} but target {target.shape}; reshape or expand one explicitly"
        )


def _difference(input: Tensor, target: Tensor) -> Tensor:
    check_same_shape(input, target)
    return input - target
