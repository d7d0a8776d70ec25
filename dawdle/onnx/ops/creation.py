"""Constants, ranges and changes of dtype."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dawdle.dtype import Array, float32, to_dtype
from dawdle.errors import ModelError, ShapeError
from dawdle.onnx.ops.common import dtype_given
from dawdle.onnx.registry import Node, operator
from dawdle.onnx.values import (
    HostArray,
    Value,
    host,
    integer_bits,
    ints,
    numpy_dtype,
    on_host,
    scalar,
    tensor_dtype,
)
from dawdle.onnx.weights import from_array, package
from dawdle.tensor import Tensor

# attributes of Constant beside its tensors, with their dtypes
LITERALS = {
    "value_float": "float32",
    "value_floats": "float32",
    "value_int": "int64",
    "value_ints": "int64",
    "value_string": "object",
    "value_strings": "object",
}


@operator("Constant")
def constant(node: Node) -> Value:
    for name in ("value", "sparse_value"):
        if node.has(name):
            return node.tensor(name)
    for name, dtype in LITERALS.items():
        if node.has(name):
            return from_array(np.array(_decoded(node.get(name)), np.dtype(dtype)))
    raise ModelError(f"{node} has no value")


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(v) for v in value]
    return value.decode() if isinstance(value, bytes) else value


@operator("Identity")
def identity(node: Node, x: Value) -> Value:
    return x


@operator("ConstantOfShape", host=None)
def constant_of_shape(node: Node, shape: Value) -> Value:
    value = node.tensor("value", None)
    sizes = ints(shape)
    if isinstance(value, HostArray):
        return HostArray(np.full(sizes, value.array.reshape(())))
    number, dtype = (scalar(value), value.dtype) if isinstance(value, Tensor) else (0.0, float32)
    return Tensor.full(sizes, number, dtype=dtype, device=node.device)


@operator("EyeLike", host=None)
def eye_like(node: Node, x: Tensor) -> Tensor:
    """Ones on the diagonal ``k`` of a matrix of the shape of ``x``."""
    if x.ndim != 2:
        raise ShapeError(f"{node} takes a matrix, got shape {x.shape}")
    rows, columns = x.shape
    kind = dtype_given(node, x.dtype)
    i = Tensor.arange(rows, device=node.device).reshape(rows, 1)
    j = Tensor.arange(columns, device=node.device)
    return (j - i).eq(node.int("k", 0)).cast(kind)


@operator("Range", host=None)
def number_range(node: Node, start: Value, limit: Value, delta: Value) -> Tensor:
    first, last, step = (host(v) for v in (start, limit, delta))
    assert isinstance(start, Tensor)
    if not first.size == last.size == step.size == 1 or not step:
        raise ModelError(f"{node} takes three numbers, the last other than 0, got {first}, {last} and {step}")
    rounds = (last.item() - first.item()) / step.item()
    if not math.isfinite(rounds):
        raise ModelError(f"{node}: there is no end to numbers from {first} to {last} by {step}")
    count = max(math.ceil(rounds), 0)
    steps = Tensor.arange(count, device=node.device)
    kind = start.dtype
    out: Tensor = (steps.cast(kind) * step.item() + first.item()).cast(kind)
    return out


# ---- dtypes


@operator("Cast")
def cast(node: Node, x: Value) -> Value:
    return converted(x, node.int("to"), node.flag("saturate", 1), node.string("round_mode", "up"))


@operator("CastLike", host=(1,))
def cast_like(node: Node, x: Value, like: Value) -> Value:
    return converted(x, element_code(like), node.flag("saturate", 1), node.string("round_mode", "up"))


def element_code(value: Value) -> int:
    """The ``TensorProto.DataType`` of a value."""
    assert isinstance(value, (Tensor, HostArray))
    name = value.dtype.name
    return next(code for code in range(1, 64) if _code_name(code) == name)


def _code_name(code: int) -> str:
    kind = tensor_dtype(code)
    return numpy_dtype(code).name if kind is None else kind.name


def converted(value: Value, code: int, saturate: bool = True, rounding: str = "up") -> Value:
    """A value in another dtype, by way of the host where no device has it."""
    kind = tensor_dtype(code)
    if isinstance(value, Tensor) and kind is not None:
        return value.cast(kind)
    if isinstance(value, HostArray) and value.dtype == object:
        return from_array(_numbers(value.array, code))
    array = host(value)
    if kind is not None:
        with np.errstate(all="ignore"):
            return on_host(array.astype(kind.compute), kind)
    wanted = numpy_dtype(code)
    if wanted.kind == "O":
        return HostArray(_strings(array))
    return HostArray(narrowed(array, wanted, saturate, rounding))


def _numbers(strings: Array, code: int) -> Array:
    """Strings read as numbers."""
    wanted = numpy_dtype(code)
    if wanted.kind == "O":
        return strings
    read = np.array([float(s) for s in strings.reshape(-1)], np.float64).reshape(strings.shape)
    return read.astype(wanted)


def _strings(numbers: Array) -> Array:
    """Numbers written as NumPy writes them."""
    out = np.empty(numbers.shape, object)
    out.reshape(-1)[:] = [str(n) for n in numbers.reshape(-1)]
    return out


def narrowed(array: Array, wanted: np.dtype[Any], saturate: bool, rounding: str = "up") -> Array:
    """Numbers in a dtype of 8 bits or fewer (float8, int4...), as ONNX rounds and saturates them."""
    helper = package().numpy_helper
    source = array.astype(np.float32) if array.dtype.kind == "V" else array
    with np.errstate(all="ignore"):
        if wanted.name.startswith("float8_e8m0"):
            return np.asarray(helper.to_float8e8m0(source.astype(np.float32), saturate, rounding))
        if wanted.name.startswith("float8") and saturate:
            return np.asarray(helper.saturate_cast(source, wanted))
        kind = integer_bits(wanted.name)
        return np.asarray(source if kind is None else _wrapped(source, *kind)).astype(wanted)


def _wrapped(array: Array, bits: int, signed: bool) -> Array:
    """Numbers as integers of few bits, of which the lowest are kept."""
    low = array.astype(np.int64) & ((1 << bits) - 1)
    if signed:
        low = np.where(low >= 1 << (bits - 1), low - (1 << bits), low)
    return low


@operator("BitCast")
def bit_cast(node: Node, x: Value) -> Value:
    code = node.int("to")
    kind = tensor_dtype(code)
    if isinstance(x, Tensor) and kind is not None and "bool" not in (kind.name, x.dtype.name):
        return x.bitcast(kind)
    return from_array(host(x).view(numpy_dtype(code) if kind is None else to_dtype(kind).storage))
