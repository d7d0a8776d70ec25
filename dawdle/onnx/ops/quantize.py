"""Quantization: numbers as small integers or small floats, with a scale and a zero point."""

from __future__ import annotations

from dawdle.dtype import float32, float64, int32, uint8
from dawdle.errors import ShapeError
from dawdle.onnx.ops.creation import converted, element_code
from dawdle.onnx.ops.neural import integer_conv, integer_matmul
from dawdle.onnx.registry import Node, operator
from dawdle.onnx.values import HostArray, Value, element_type, integer_bits, tensor_dtype
from dawdle.tensor import Tensor
from dawdle.tensor.elementwise import where

UINT8 = 2  # of TensorProto.DataType


def _limits(name: str) -> tuple[int, int] | None:
    """The least and the greatest integer of a dtype of that name; None for floats."""
    kind = integer_bits(name)
    if kind is None:
        return None
    bits, signed = kind
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def _spread(node: Node, t: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A scale or zero point in a shape that broadcasts to ``shape``: one number, one for each slice along
    ``axis``, or one for each block of slices.
    """
    if t.numel() == 1:
        return t.reshape(())
    axis = node.int("axis", 1)
    axis = axis % len(shape) if -len(shape) <= axis < len(shape) else len(shape) - 1
    if t.ndim == 1 and t.numel() == shape[axis]:
        return t.reshape(-1, *[1] * (len(shape) - 1 - axis))
    size = node.int("block_size", 0)
    if not size or t.ndim != len(shape) or t.shape[axis] * size < shape[axis]:
        raise ShapeError(
            f"{node}: a scale of shape {t.shape} fits neither axis {axis} of {shape} nor blocks of {size}"
        )
    return t.repeat_interleave(size, axis).narrow(axis, 0, shape[axis])


def _integers(node: Node, value: Value) -> Tensor:
    """Integers of any dtype in int32, where the operator runs."""
    if isinstance(value, HostArray):
        return node.constant(value.array.astype("int32"))
    assert isinstance(value, Tensor)
    return value.cast(int32)


@operator("QuantizeLinear", since=10)
def quantize_linear(node: Node, x: Tensor, scale: Tensor, zero: Value = None) -> Value:
    """x / scale + zero, rounded to even and kept within the dtype's limits."""
    code = node.int("output_dtype", 0) or (UINT8 if zero is None else element_code(zero))
    precision = tensor_dtype(node.int("precision", 0) or 1) if node.int("precision", 0) else scale.dtype
    kind = precision or float32
    ratio = x.cast(kind) / _spread(node, scale, x.shape).cast(kind)
    limits = _limits(element_type(code))
    if limits is None:
        return converted(ratio, code, node.flag("saturate", 1))
    offset = None if zero is None else _spread(node, _integers(node, zero), x.shape)
    whole = _saturated(ratio, offset, limits)
    small = tensor_dtype(code)
    return converted(whole.cast(int32), code) if small is None else whole.cast(small)


def _saturated(ratio: Tensor, zero: Tensor | None, limits: tuple[int, int]) -> Tensor:
    """Whole numbers within limits, in float32 or wider, which hold all integers of 16 bits."""
    wide = ratio if ratio.dtype == float64 else ratio.cast(float32)
    whole = wide.round()
    return (whole if zero is None else whole + zero.cast(whole.dtype)).clamp(*limits)


@operator("DequantizeLinear", since=10)
def dequantize_linear(node: Node, x: Value, scale: Tensor, zero: Value = None) -> Value:
    """(x - zero) * scale."""
    code = node.int("output_dtype", 0) or element_code(scale)
    out = tensor_dtype(code) or float32
    work = float64 if out == float64 else float32
    if isinstance(x, HostArray) and _limits(x.dtype.name) is None:
        level = node.constant(x.array.astype("float32"))
    else:
        level = _integers(node, x)
        if zero is not None:
            level = level - _spread(node, _integers(node, zero), level.shape)
    return (level.cast(work) * _spread(node, scale, level.shape).cast(work)).cast(out)


@operator("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(node: Node, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(uint8 numbers, their scale, their zero point), which follow from the range of ``x`` and 0."""
    low, high = x.amin().minimum(0.0), x.amax().maximum(0.0)
    scale = (high - low) / 255
    scale = where(scale == 0, 1.0, scale)
    zero = (-low / scale).round().clamp(0, 255)
    return _saturated(x / scale, zero, (0, 255)).cast(uint8), scale, zero.cast(uint8)


# ---- products of quantized numbers


def _requantized(total: Tensor, factor: Tensor, zero: Tensor) -> Tensor:
    """Sums of products in int32 as numbers of the dtype of ``zero``."""
    limits = _limits(zero.dtype.name)
    assert limits is not None
    return _saturated(total.cast(float32) * factor, zero.reshape(()), limits).cast(zero.dtype)


@operator("QLinearConv", since=10)
def qlinear_conv(
    node: Node,
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    weight_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    total = integer_conv(node, x, weight, x_zero, weight_zero)
    ones = [1] * (x.ndim - 2)
    total = total if bias is None else total + bias.cast(int32).reshape(-1, *ones)
    scale = weight_scale if weight_scale.numel() == 1 else weight_scale.reshape(-1, *ones)
    return _requantized(total, _factor(x_scale, scale, y_scale), y_zero)


@operator("QLinearMatMul", since=10)
def qlinear_matmul(
    node: Node,
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
) -> Tensor:
    total = integer_matmul(a, b, a_zero, b_zero)
    rows = a_scale.reshape(-1, 1) if a_scale.ndim == 1 and a_scale.numel() > 1 else a_scale
    return _requantized(total, _factor(rows, b_scale, y_scale), y_zero)


def _factor(a: Tensor, b: Tensor, y: Tensor) -> Tensor:
    """What a product of quantized numbers is worth in units of the result."""
    parts = [t.cast(float32).reshape(()) if t.numel() == 1 else t.cast(float32) for t in (a, b, y)]
    return parts[0] * parts[1] / parts[2]
