"""Random numbers. Those of a node with a seed are the same at each call, and drawn on the host; the others
come from dawdle's generator.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dawdle.dtype import DType, float32, int32
from dawdle.errors import DTypeError
from dawdle.onnx.registry import Node, operator
from dawdle.onnx.values import element_type, tensor_dtype
from dawdle.runtime.trace import recording
from dawdle.tensor import Tensor


def _dtype(node: Node, default: DType) -> DType:
    code = node.int("dtype", None)
    kind = default if code is None else tensor_dtype(code)
    if kind is None:
        raise DTypeError(f"{node}: no device holds elements of the type {element_type(node.int('dtype'))}")
    return kind


def _placed(node: Node, x: Tensor) -> Tensor:
    """A value where the model runs. Only what the host knows moves, which no trace need see."""
    if x.device == node.target:
        return x
    with recording(None):
        return x.to(node.target).realize()


def uniform(node: Node, shape: Sequence[int]) -> Tensor:
    """float32 on [0, 1) where the model runs."""
    seed = node.float("seed", None)
    if seed is None:
        return Tensor.rand(*shape, device=node.target)
    drawn = np.random.RandomState(_whole(seed)).uniform(size=shape)
    return _placed(node, node.constant(drawn.astype(np.float32)))


def gaussian(node: Node, shape: Sequence[int]) -> Tensor:
    """float32 of mean 0 and variance 1 where the model runs."""
    seed = node.float("seed", None)
    if seed is None:
        return Tensor.randn(*shape, device=node.target)
    drawn = np.random.RandomState(_whole(seed)).normal(size=shape)
    return _placed(node, node.constant(drawn.astype(np.float32)))


def _whole(seed: float) -> int:
    """A seed of NumPy's generators, equal for equal floats."""
    return int(np.float32(seed).view(np.uint32))


@operator("RandomUniform", pure=False)
def random_uniform(node: Node) -> Tensor:
    return _between(node, uniform(node, node.ints("shape")), float32)


@operator("RandomUniformLike", pure=False)
def random_uniform_like(node: Node, x: Tensor) -> Tensor:
    return _between(node, uniform(node, x.shape), x.dtype)


def _between(node: Node, drawn: Tensor, default: DType) -> Tensor:
    low, high = node.float("low", 0.0), node.float("high", 1.0)
    return (drawn * (high - low) + low).cast(_dtype(node, default))


@operator("RandomNormal", pure=False)
def random_normal(node: Node) -> Tensor:
    return _around(node, gaussian(node, node.ints("shape")), float32)


@operator("RandomNormalLike", pure=False)
def random_normal_like(node: Node, x: Tensor) -> Tensor:
    return _around(node, gaussian(node, x.shape), x.dtype)


def _around(node: Node, drawn: Tensor, default: DType) -> Tensor:
    return (drawn * node.float("scale", 1.0) + node.float("mean", 0.0)).cast(_dtype(node, default))


@operator("Bernoulli", since=15, pure=False)
def bernoulli(node: Node, x: Tensor) -> Tensor:
    """1 with the probability that each element holds, else 0."""
    return (uniform(node, x.shape) < _placed(node, x).cast(float32)).cast(_dtype(node, x.dtype))


@operator("Multinomial", since=7, pure=False)
def multinomial(node: Node, x: Tensor) -> Tensor:
    """Classes drawn by unnormalized logarithms of their probabilities (N, classes); (N, sample_size)."""
    total = _placed(node, x).cast(float32).softmax(-1).cumsum(1)
    drawn = uniform(node, (x.shape[0], node.int("sample_size", 1)))
    below = total[:, :-1].unsqueeze(1) <= drawn.unsqueeze(2)
    return below.sum(-1).cast(_dtype(node, int32))
