"""Random numbers. Those of a node with a seed are the same at each call, and drawn on the host; the others
come from dawdle's generator.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dawdle.dtype import DType, float32, int32
from dawdle.onnx.ops.common import dtype_given
from dawdle.onnx.registry import Node, operator
from dawdle.onnx.values import placed
from dawdle.tensor import Tensor

DRAWS = {"uniform": Tensor.rand, "normal": Tensor.randn}  # by NumPy's names


def drawn(node: Node, shape: Sequence[int], kind: str) -> Tensor:
    """float32 where the model runs: "uniform" on [0, 1), or "normal" of mean 0 and variance 1."""
    seed = node.float("seed", None)
    if seed is None:
        return DRAWS[kind](*shape, device=node.target)
    numbers = getattr(np.random.RandomState(_whole(seed)), kind)(size=shape)
    return placed(node.constant(numbers.astype(np.float32)), node.target)


def _whole(seed: float) -> int:
    """A seed of NumPy's generators, equal for equal floats."""
    return int(np.float32(seed).view(np.uint32))


@operator("RandomUniform", pure=False)
def random_uniform(node: Node) -> Tensor:
    return _between(node, node.ints("shape"), float32)


@operator("RandomUniformLike", pure=False)
def random_uniform_like(node: Node, x: Tensor) -> Tensor:
    return _between(node, x.shape, x.dtype)


def _between(node: Node, shape: Sequence[int], default: DType) -> Tensor:
    low, high = node.float("low", 0.0), node.float("high", 1.0)
    return (drawn(node, shape, "uniform") * (high - low) + low).cast(dtype_given(node, default))


@operator("RandomNormal", pure=False)
def random_normal(node: Node) -> Tensor:
    return _around(node, node.ints("shape"), float32)


@operator("RandomNormalLike", pure=False)
def random_normal_like(node: Node, x: Tensor) -> Tensor:
    return _around(node, x.shape, x.dtype)


def _around(node: Node, shape: Sequence[int], default: DType) -> Tensor:
    scale, mean = node.float("scale", 1.0), node.float("mean", 0.0)
    return (drawn(node, shape, "normal") * scale + mean).cast(dtype_given(node, default))


@operator("Bernoulli", since=15, pure=False)
def bernoulli(node: Node, x: Tensor) -> Tensor:
    """1 with the probability that each element holds, else 0."""
    chance = placed(x, node.target).cast(float32)
    return (drawn(node, x.shape, "uniform") < chance).cast(dtype_given(node, x.dtype))


@operator("Multinomial", since=7, pure=False)
def multinomial(node: Node, x: Tensor) -> Tensor:
    """Classes drawn by unnormalized logarithms of their probabilities (N, classes); (N, sample_size)."""
    total = placed(x, node.target).cast(float32).softmax(-1).cumsum(1)
    at = drawn(node, (x.shape[0], node.int("sample_size", 1)), "uniform")
    below = total[:, :-1].unsqueeze(1) <= at.unsqueeze(2)
    return below.sum(-1).cast(dtype_given(node, int32))
