"""Losses of classification."""

from __future__ import annotations

from dawdle.dtype import int64
from dawdle.onnx.registry import Node, operator
from dawdle.tensor import Tensor
from dawdle.tensor.normalize import nll_loss


def _loss(node: Node, log_probabilities: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    ignored = node.int("ignore_index", None)
    labels = target.cast(int64)
    return nll_loss(log_probabilities, labels, weight, ignored, node.string("reduction", "mean"))


@operator("NegativeLogLikelihoodLoss", since=12)
def negative_log_likelihood(node: Node, x: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    return _loss(node, x, target, weight)


@operator("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy(
    node: Node, scores: Tensor, labels: Tensor, weight: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """(the loss, the logarithms of the probabilities)."""
    log_probabilities = scores.log_softmax(1)
    return _loss(node, log_probabilities, labels, weight), log_probabilities
