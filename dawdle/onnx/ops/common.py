"""What several topics of operators share."""

from __future__ import annotations

from collections.abc import Sequence

from dawdle.dtype import DType
from dawdle.errors import DTypeError, ShapeError
from dawdle.onnx.registry import Node
from dawdle.onnx.values import Value, element_type, ints, tensor_dtype


def axis(dim: int, ndim: int, what: object) -> int:
    """An axis counted from the front. Raises ShapeError where ``ndim`` dimensions haven't got it."""
    if not -ndim <= dim < max(ndim, 1):
        raise ShapeError(f"{what}: axis {dim} is out of range for {ndim} dimensions")
    return dim % max(ndim, 1)


def axes_given(node: Node, given: Value, name: str = "axes") -> tuple[int, ...] | None:
    """Axes that newer opsets take as an input and older ones as an attribute; None where there are none."""
    if given is not None:
        return ints(given)
    return node.ints(name, None)


def unique_axes(axes: Sequence[int], ndim: int, what: object) -> tuple[int, ...]:
    """Axes counted from the front, in order. Raises ShapeError for one that is named twice."""
    found = sorted(axis(a, ndim, what) for a in axes)
    if len(set(found)) < len(found):
        raise ShapeError(f"{what}: axes {tuple(axes)} name one twice")
    return tuple(found)


def dtype_given(node: Node, default: DType) -> DType:
    """The dtype that the attribute ``dtype`` names. Raises DTypeError where no device has it."""
    code = node.int("dtype", None)
    kind = default if code is None else tensor_dtype(code)
    if kind is None:
        raise DTypeError(f"{node}: no device holds elements of the type {element_type(node.int('dtype'))}")
    return kind
