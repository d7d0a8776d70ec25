"""Sequences, which are lists, and optionals, which are a value or None."""

from __future__ import annotations

from typing import Any

import numpy as np

from dawdle.dtype import bool_, int64
from dawdle.errors import IndexingError, ModelError
from dawdle.onnx.ops.common import axis
from dawdle.onnx.registry import Node, operator
from dawdle.onnx.values import Value, host, ints, on_host, scalar
from dawdle.tensor import Tensor


@operator("SequenceConstruct", host=None)
def construct(node: Node, *values: Value) -> list[Any]:
    return list(values)


@operator("SequenceEmpty", host=None)
def empty(node: Node) -> list[Any]:
    return []


@operator("SequenceLength", host=None)
def length(node: Node, values: list[Any]) -> Tensor:
    return on_host(len(values), int64)


def _place(node: Node, given: Value, n: int, last: int) -> int:
    """A position, counted from the end where negative. Raises IndexingError unless it is at most ``last``."""
    at = scalar(given)
    if not -n <= at <= last:
        raise IndexingError(f"{node}: position {at} is out of range for a sequence of {n}")
    return int(at) if at >= 0 else int(at) + n


@operator("SequenceAt", host=None)
def at(node: Node, values: list[Any], position: Value) -> Value:
    found: Value = values[_place(node, position, len(values), len(values) - 1)]
    return found


@operator("SequenceInsert", host=None)
def insert(node: Node, values: list[Any], value: Value, position: Value = None) -> list[Any]:
    n = len(values)
    i = n if position is None else _place(node, position, n, n)
    return [*values[:i], value, *values[i:]]


@operator("SequenceErase", host=None)
def erase(node: Node, values: list[Any], position: Value = None) -> list[Any]:
    n = len(values)
    i = n - 1 if position is None else _place(node, position, n, n - 1)
    return [*values[:i], *values[i + 1 :]]


@operator("SequenceMap", host=None, pure=False)
def sequence_map(node: Node, values: list[Any], *others: Value) -> tuple[list[Any], ...]:
    """The body's outputs for each element of the sequences; tensors beside them go to all."""
    body = node.graph("body")
    columns: list[list[Any]] = [[] for _ in body.outputs]
    for i, value in enumerate(values):
        given = [value, *[other[i] if isinstance(other, list) else other for other in others]]
        results = node.run(body, dict(zip(body.inputs, given, strict=True)))
        for column, result in zip(columns, results, strict=True):
            column.append(result)
    return tuple(columns)


@operator("ConcatFromSequence")
def concat(node: Node, values: list[Any]) -> Tensor:
    dim = node.int("axis")
    return Tensor.stack(values, dim=dim) if node.flag("new_axis", 0) else Tensor.cat(values, dim=dim)


@operator("SplitToSequence", host=(1,))
def split(node: Node, x: Tensor, sizes: Value = None) -> list[Any]:
    """Parts along an axis, of a size or of several; by default of size 1, or without the axis."""
    dim = axis(node.int("axis", 0), x.ndim, node)
    if sizes is None:
        parts = x.split(1, dim=dim)
        return list(parts) if node.flag("keepdims", 1) else [p.squeeze(dim) for p in parts]
    given = scalar(sizes) if not host(sizes).ndim else list(ints(sizes))
    return list(x.split(given, dim=dim))


@operator("Optional", host=None)
def optional(node: Node, value: Value = None) -> Value:
    return value


@operator("OptionalHasElement", host=None)
def has_element(node: Node, value: Value = None) -> Tensor:
    return on_host(np.array(value is not None), bool_)


@operator("OptionalGetElement", host=None)
def get_element(node: Node, value: Value) -> Value:
    if value is None:
        raise ModelError(f"{node}: the optional holds nothing")
    return value
