"""Convolutions, products of matrices, softmax and dropout."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from dawdle.dtype import bool_, int32
from dawdle.errors import ShapeError
from dawdle.onnx.ops.windows import explicit, halves, windows
from dawdle.onnx.registry import Node, operator
from dawdle.onnx.values import scalar
from dawdle.tensor import Tensor
from dawdle.tensor.convolution import conv, conv_transpose
from dawdle.tensor.core import along
from dawdle.tensor.elementwise import where
from dawdle.tensor.windows import Windows

# ---- convolution


def placed(node: Node, x: Tensor, weight: Tensor) -> Windows:
    """The windows of a convolution. Raises ShapeError where ``kernel_shape`` isn't that of the weight."""
    kernel = node.ints("kernel_shape", weight.shape[2:])
    if kernel != weight.shape[2:] or x.ndim < 3:
        given = f"kernel {kernel}, input {x.shape} and weight {weight.shape}"
        raise ShapeError(f"{node}: {given} don't fit each other")
    return windows(node, x.shape[2:], kernel)


@operator("Conv")
def convolution(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    at = placed(node, x, weight)
    return conv(x, weight, bias, at.strides, at.pads, at.dilations, node.int("group", 1))


@operator("ConvInteger")
def conv_integer(
    node: Node, x: Tensor, weight: Tensor, x_zero: Tensor | None = None, weight_zero: Tensor | None = None
) -> Tensor:
    return integer_conv(node, x, weight, x_zero, weight_zero)


def integer_conv(
    node: Node, x: Tensor, weight: Tensor, x_zero: Tensor | None, weight_zero: Tensor | None
) -> Tensor:
    """Convolution in int32 of what lies above the zero points; those of the weight may be one a filter."""
    at = placed(node, x, weight)
    return conv(
        above_zero(x, x_zero, x.ndim - 1),
        above_zero(weight, weight_zero, weight.ndim - 1),
        None,
        at.strides,
        at.pads,
        at.dilations,
        node.int("group", 1),
    )


def above_zero(x: Tensor, zero: Tensor | None, trailing: int) -> Tensor:
    """``x - zero`` in int32, with as many axes after those of a zero point that isn't a scalar."""
    wide = x.cast(int32)
    if zero is None:
        return wide
    shape = () if zero.numel() == 1 else (*zero.shape, *[1] * trailing)
    return wide - zero.cast(int32).reshape(shape)


@operator("ConvTranspose")
def conv_transposed(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Each element spreads its multiple of the kernel over the output; where they meet, they are added."""
    n = x.ndim - 2
    kernel = weight.shape[2:]
    strides, dilations = node.ints("strides", [1] * n), node.ints("dilations", [1] * n)
    extra = node.ints("output_padding", [0] * n)
    spans = [(size - 1) * d + 1 for size, d in zip(kernel, dilations, strict=True)]
    full = [(size - 1) * step + span for size, step, span in zip(x.shape[2:], strides, spans, strict=True)]
    pads = _transposed_padding(node, x.shape[2:], full, strides, extra)
    cut = [(low, high - more) for (low, high), more in zip(pads, extra, strict=True)]
    return conv_transpose(x, weight, bias, strides, cut, 0, node.int("group", 1), dilations)


def _transposed_padding(
    node: Node, sizes: Sequence[int], full: Sequence[int], strides: Sequence[int], extra: Sequence[int]
) -> list[tuple[int, int]]:
    """What is cut off of each axis, from ``pads``, ``output_shape`` or ``auto_pad``."""
    how = node.string("auto_pad", "NOTSET")
    wanted = node.ints("output_shape", None)
    if wanted is not None:
        wanted = wanted[-len(sizes) :]
    elif how.startswith("SAME"):
        wanted = tuple(n * step for n, step in zip(sizes, strides, strict=True))
    elif how == "VALID":
        return [(0, 0)] * len(sizes)
    else:
        return explicit(node, len(sizes))
    total = [f + more - w for f, more, w in zip(full, extra, wanted, strict=True)]
    return [halves(t, how) if t >= 0 else (0, t) for t in total]


# ---- products


@operator("Gemm")
def gemm(node: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    """alpha * A' @ B' + beta * C, where A' and B' may be transposed."""
    a = a.mT if node.flag("transA", 0) else a
    b = b.mT if node.flag("transB", 0) else b
    alpha, beta = node.float("alpha", 1.0), node.float("beta", 1.0)
    out = times(a @ b, alpha)
    return out if c is None or beta == 0 else out + times(c, beta)


def times(x: Tensor, factor: float) -> Tensor:
    """``x * factor`` in the dtype of ``x``."""
    if factor == 1:
        return x
    return x * factor if x.dtype.is_float else (x * factor).cast(x.dtype)


@operator("MatMul")
def matmul(node: Node, a: Tensor, b: Tensor) -> Tensor:
    return a @ b


@operator("MatMulInteger")
def matmul_integer(
    node: Node, a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    return integer_matmul(a, b, a_zero, b_zero)


def integer_matmul(a: Tensor, b: Tensor, a_zero: Tensor | None, b_zero: Tensor | None) -> Tensor:
    """A matrix product in int32 of what lies above the zero points, one for each row of ``a`` and column of
    ``b`` or one for all.
    """
    trailing = 1 if a_zero is not None and a_zero.ndim == 1 else 0
    return above_zero(a, a_zero, trailing) @ above_zero(b, b_zero, 0)


@operator("Einsum")
def einsum(node: Node, *operands: Tensor) -> Tensor:
    return Tensor.einsum(node.string("equation").replace(" ", ""), *operands)


# ---- softmax


def _as_matrix(function: Callable[[Tensor, int], Tensor]) -> Callable[[Node, Tensor], Tensor]:
    """Before opset 13: over all axes from ``axis`` on together."""

    def flattened(node: Node, x: Tensor) -> Tensor:
        axis = node.int("axis", 1)
        rows = math.prod(x.shape[: axis % (x.ndim + 1) if axis >= 0 else axis + x.ndim])
        return function(x.reshape(rows, -1 if x.numel() else 0), 1).reshape(x.shape)

    return flattened


def _along_axis(function: Callable[[Tensor, int], Tensor]) -> Callable[[Node, Tensor], Tensor]:
    return lambda node, x: function(x, node.int("axis", -1))


def hardmax(x: Tensor, axis: int) -> Tensor:
    """1 at the first of the largest elements along ``axis``, 0 elsewhere."""
    if not x.numel():
        return x
    at = x.argmax(axis, keepdim=True)
    places = along(Tensor.arange(x.shape[axis], device=x.device), axis % x.ndim, x.ndim)
    return (places == at).cast(x.dtype)


ALONG = {"Softmax": Tensor.softmax, "LogSoftmax": Tensor.log_softmax, "Hardmax": hardmax}
for _name, _function in ALONG.items():
    operator(_name, since=1)(_as_matrix(_function))
    operator(_name, since=13)(_along_axis(_function))


# ---- dropout


@operator("Dropout", since=7)
def dropout_inference(node: Node, x: Tensor) -> tuple[Tensor, Tensor]:
    return x, x.full_like(True, dtype=x.dtype if node.opset < 10 else bool_)


@operator("Dropout", since=12, host=(1, 2), pure=False)
def dropout(
    node: Node, x: Tensor, ratio: Tensor | None = None, training: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """In training, each element is 0 with the probability ``ratio``, else divided by 1 - ratio."""
    rate = 0.5 if ratio is None else scalar(ratio)
    if training is None or not scalar(training) or rate == 0:
        return x, x.full_like(True, dtype=bool_)
    seed = node.int("seed", None)
    if seed is None:
        kept = Tensor.rand(*x.shape, device=x.device) >= rate
    else:
        kept = node.constant(np.random.RandomState(seed).uniform(size=x.shape) >= rate)
    return where(kept, x, 0.0) * (1 / (1 - rate)), kept
