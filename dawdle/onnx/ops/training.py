"""Gradients, and one step of an optimizer: ai.onnx.preview.training."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dawdle.errors import ModelError
from dawdle.onnx.registry import Node, operator
from dawdle.tensor import Tensor
from dawdle.tensor.elementwise import where

PREVIEW = "ai.onnx.preview.training"


@operator("Gradient", domain=PREVIEW, pure=False)
def gradient(node: Node, *values: Tensor) -> tuple[Tensor, ...]:
    """The gradients of the sum of ``y`` by ``xs``: the steps from these to ``y`` are taken anew."""
    body = node.graph("derivation")
    leaves = [value.detach() for value in values]
    sources = [leaf.requires_grad_() for leaf in leaves[: len(node.strings("xs"))]]
    (y,) = node.run(body, dict(zip(body.inputs, leaves, strict=True)))
    if not isinstance(y, Tensor):
        raise ModelError(f"{node}: {node.string('y')!r} is no tensor")
    return tuple(y.sum().gradient(*sources))


def _each(
    operands: Sequence[Tensor], kinds: int, update: Callable[..., tuple[Tensor, ...]]
) -> tuple[Tensor, ...]:
    """``update`` of every optimized tensor. The operands are all tensors, then all gradients and so on,
    and so are the results.
    """
    count = len(operands) // kinds
    results = [update(*operands[i::count]) for i in range(count)]
    return tuple(result for kind in zip(*results, strict=True) for result in kind)


@operator("Adagrad", domain=PREVIEW)
def adagrad(node: Node, rate: Tensor, step: Tensor, *operands: Tensor) -> tuple[Tensor, ...]:
    """Source: Duchi et al., Adaptive Subgradient Methods, 2011."""
    decay, epsilon = node.float("decay_factor", 0.0), node.float("epsilon", 1e-6)
    norm = node.float("norm_coefficient", 0.0)
    now = rate / (step * decay + 1.0)

    def update(x: Tensor, gradient: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
        slope = x * norm + gradient
        total = squares + slope * slope
        return (x - now.cast(x.dtype) * slope / (total.sqrt() + epsilon)), total

    return _each(operands, 3, update)


@operator("Adam", domain=PREVIEW)
def adam(node: Node, rate: Tensor, step: Tensor, *operands: Tensor) -> tuple[Tensor, ...]:
    """Source: Kingma and Ba, Adam, 2015."""
    alpha, beta = node.float("alpha", 0.9), node.float("beta", 0.999)
    epsilon, norm = node.float("epsilon", 1e-6), node.float("norm_coefficient", 0.0)
    after = 1 - node.float("norm_coefficient_post", 0.0)
    t = step.cast(rate.dtype)
    corrected = rate * (1 - beta**t).sqrt() / (1 - alpha**t)
    now = where(step > 0, corrected, rate)

    def update(x: Tensor, gradient: Tensor, mean: Tensor, squares: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        slope = x * norm + gradient
        mean = mean * alpha + slope * (1 - alpha)
        squares = squares * beta + slope * slope * (1 - beta)
        moved = x - now.cast(x.dtype) * mean / (squares.sqrt() + epsilon)
        return moved * after, mean, squares

    return _each(operands, 4, update)


@operator("Momentum", domain=PREVIEW)
def momentum(node: Node, rate: Tensor, step: Tensor, *operands: Tensor) -> tuple[Tensor, ...]:
    """Descent with momentum, Nesterov's where ``mode`` says so. The first gradient counts in full."""
    alpha, beta, norm = (node.float(name) for name in ("alpha", "beta", "norm_coefficient"))
    nesterov = node.string("mode") == "nesterov"

    def update(x: Tensor, gradient: Tensor, velocity: Tensor) -> tuple[Tensor, Tensor]:
        slope = x * norm + gradient
        share = (step > 0).cast(x.dtype) * (beta - 1) + 1
        velocity = velocity * alpha + slope * share
        direction = slope + velocity * alpha if nesterov else velocity
        return x - rate.cast(x.dtype) * direction, velocity

    return _each(operands, 3, update)
