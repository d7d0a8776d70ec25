"""Elements at given places, read and written; sorting and what is found by it."""

from __future__ import annotations

import numpy as np

from dawdle.dtype import Array, int64
from dawdle.errors import ModelError, ShapeError
from dawdle.onnx.ops.common import axis
from dawdle.onnx.registry import Node, operator
from dawdle.onnx.values import HOST, HostArray, Value, host, on_host, scalar
from dawdle.onnx.weights import from_array
from dawdle.tensor import Tensor
from dawdle.tensor.core import along
from dawdle.tensor.elementwise import where

# ONNX's names of reductions, with PyTorch's
REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@operator("Gather", peek=(1,))
def gather(node: Node, x: Value, index: Tensor) -> Value:
    """The slices along an axis that an index of any shape lists in its place."""
    assert isinstance(x, (Tensor, HostArray))
    at = axis(node.int("axis", 0), len(x.shape), node)
    if isinstance(x, HostArray):
        return HostArray(np.asarray(np.take(x.array, host(index), at)))
    if index.device == HOST and index.numel() == 1:
        return _slice_at(x, at, scalar(index), index.ndim)
    before = (slice(None),) * at
    return x[(*before, index if index.device == x.device else index.to(x.device))]


def _slice_at(x: Tensor, at: int, place: int, ndim: int) -> Tensor:
    part = x[(*(slice(None),) * at, int(place))]
    return part.reshape(x.shape[:at] + (1,) * ndim + x.shape[at + 1 :])


@operator("GatherElements")
def gather_elements(node: Node, x: Tensor, index: Tensor) -> Tensor:
    return x.gather(node.int("axis", 0), index)


def _coordinates(index: Tensor, batch_dims: int) -> tuple[Tensor, ...]:
    """The columns of an index of places, after the numbers of its own first dimensions."""
    ndim = index.ndim - 1
    batches = []
    for i, n in enumerate(index.shape[:batch_dims]):
        batches.append(along(Tensor.arange(n, device=index.device), i, ndim))
    return (*batches, *[index[..., i] for i in range(index.shape[-1])])


@operator("GatherND")
def gather_nd(node: Node, x: Tensor, index: Tensor) -> Tensor:
    """The parts whose first coordinates lie along the last axis of an index."""
    return x[_coordinates(index, node.int("batch_dims", 0))]


def combined(node: Node, x: Tensor, at: int, index: Tensor, updates: Tensor) -> Tensor:
    """Updates written to, or combined with, places along an axis."""
    how = node.string("reduction", "none")
    if how == "none":
        return x.scatter(at, index, updates)
    if how not in REDUCTIONS:
        raise ModelError(f"{node}: reduction is {how!r}; known are none, {', '.join(REDUCTIONS)}")
    return x.scatter_reduce(at, index, updates, REDUCTIONS[how])


@operator("Scatter", "ScatterElements")
def scatter_elements(node: Node, x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    return combined(node, x, axis(node.int("axis", 0), x.ndim, node), index, updates)


@operator("ScatterND")
def scatter_nd(node: Node, x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    """Updates at the parts whose first coordinates lie along the last axis of an index."""
    n = x.numel()
    places = Tensor.arange(n, device=x.device).reshape(x.shape)[_coordinates(index, 0)]
    flat = combined(node, x.reshape(n), 0, places.reshape(-1), updates.reshape(-1))
    return flat.reshape(x.shape)


@operator("TensorScatter", since=24)
def tensor_scatter(node: Node, cache: Tensor, update: Tensor, starts: Tensor | None = None) -> Tensor:
    """``cache`` with ``update`` written along ``axis`` from each batch entry's start on."""
    at = axis(node.int("axis", -2), cache.ndim, node)
    length, size = update.shape[at], cache.shape[at]
    index = along(node.constant(np.arange(length)), at, cache.ndim)
    if starts is not None:
        index = index + along(starts, 0, cache.ndim)
    if node.string("mode", "linear") == "circular":
        index = index % size
    return cache.scatter(at, index.expand(update.shape), update)


@operator("OneHot", host=(1,))
def one_hot(node: Node, index: Tensor, depth: Value, values: Tensor) -> Tensor:
    """``values[1]`` where a new axis' number is the index, or the index from the end, else ``values[0]``."""
    n = int(scalar(depth))
    if n < 0 or values.shape != (2,):
        given = f"{n} and values of shape {values.shape}"
        raise ShapeError(f"{node} takes a depth of at least 0 and two values, got {given}")
    at = axis(node.int("axis", -1), index.ndim + 1, node)
    numbers = along(Tensor.arange(n, device=index.device), at, index.ndim + 1)
    place = index.cast(int64).unsqueeze(at)
    found = numbers.eq(place) | numbers.eq(place + n)
    return where(found, values[1], values[0])


@operator("NonZero", host=None)
def nonzero(node: Node, x: Value) -> Tensor:
    """The coordinates of the elements that aren't 0, a column for each."""
    array = host(x)
    return on_host(np.array(np.nonzero(array if array.ndim else array.reshape(1)), np.int64), int64)


@operator("Compress", host=(1,))
def compress(node: Node, x: Tensor, condition: Value) -> Tensor:
    """The slices along an axis, or the elements, at which the condition holds."""
    places = np.nonzero(host(condition))[0]
    dim = node.int("axis", None)
    x = x.reshape(-1) if dim is None else x
    at = axis(dim or 0, x.ndim, node)
    return x[(*(slice(None),) * at, places)]


@operator("TopK", since=1)
def topk_by_attribute(node: Node, x: Tensor) -> tuple[Tensor, Tensor]:
    return x.topk(node.int("k"), node.int("axis", -1))


@operator("TopK", since=10, host=(1,))
def topk(node: Node, x: Tensor, k: Value) -> tuple[Tensor, Tensor]:
    return x.topk(scalar(k), node.int("axis", -1), node.flag("largest", 1))


@operator("Unique", host=None)
def unique(node: Node, x: Value) -> tuple[Value, ...]:
    """The distinct elements or slices, their first places, which of them each is, and their counts."""
    array, dim = host(x), node.int("axis", None)
    if dim is not None and not -array.ndim <= dim < array.ndim:
        raise ShapeError(f"{node}: axis {dim} is out of range for shape {array.shape}")
    found = np.unique(array, return_index=True, return_inverse=True, return_counts=True, axis=dim)
    values, first, inverse, counts = found
    inverse = inverse.reshape(-1)
    if not node.flag("sorted", 1):
        order = np.argsort(first, kind="stable")
        values = values[order] if dim is None else np.take(values, order, dim)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    distinct = on_host(values, x.dtype) if isinstance(x, Tensor) else from_array(values)
    return (distinct, *[_numbers(n) for n in (first, inverse, counts)])


def _numbers(array: Array) -> Tensor:
    return on_host(array.astype(np.int64), int64)


@operator("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(node: Node, x: Tensor, index: Tensor) -> Tensor:
    """The columns of the last axis that an index lists."""
    out = x[..., index.reshape(-1)]
    return out.reshape(1, -1) if x.ndim == 1 else out


@operator("Det")
def determinant(node: Node, x: Tensor) -> Tensor:
    out: Tensor = x.det()
    return out
