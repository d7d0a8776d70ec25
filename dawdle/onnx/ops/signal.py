"""Fourier transforms as products with matrices of their own, windows, and the mel scale."""

from __future__ import annotations

import math

import numpy as np

from dawdle.dtype import Array
from dawdle.errors import ModelError
from dawdle.lazy.ops import Op
from dawdle.onnx.ops.common import axis as axis_of
from dawdle.onnx.registry import Node, operator
from dawdle.onnx.values import HostArray, numpy_dtype, scalar, tensor_dtype
from dawdle.tensor import Tensor
from dawdle.tensor.core import apply
from dawdle.tensor.movement import pad_dims

DIRECT = 256  # the length up to which a Fourier transform is one product

# ---- the Fourier transform


@operator("DFT", since=17, host=(1,))
def dft_along_attribute(node: Node, x: Tensor, length: Tensor | None = None) -> Tensor:
    return _dft(node, x, length, node.int("axis", 1))


@operator("DFT", since=20, host=(1, 2))
def dft(node: Node, x: Tensor, length: Tensor | None = None, axis: Tensor | None = None) -> Tensor:
    return _dft(node, x, length, -2 if axis is None else scalar(axis))


def _dft(node: Node, x: Tensor, length: Tensor | None, axis: int) -> Tensor:
    """The transform along ``axis`` of (..., 1) real or (..., 2) complex numbers."""
    axis = axis_of(axis, x.ndim, node)
    inverse, onesided = node.flag("inverse", 0), node.flag("onesided", 0)
    size = x.shape[axis]
    if length is not None:
        n = scalar(length)
    else:
        n = 2 * (size - 1) if inverse and onesided else size
    half = n // 2 + 1
    used = half if inverse and onesided else n
    x = pad_dims(x, [(0, used - size) if i == axis else (0, 0) for i in range(x.ndim)])
    moved = x.movedim(axis, -2)  # (..., n, parts)
    if inverse and onesided:
        if x.shape[-1] != 2:
            raise ModelError(f"{node}: the inverse of onesided spectra takes complex numbers, got {x.shape}")
        return _real_inverse(node, moved, n).movedim(-2, axis).cast(x.dtype)
    return _transform(node, moved, half if onesided else n, inverse).movedim(-2, axis).cast(x.dtype)


def _transform(node: Node, x: Tensor, rows: int, inverse: bool) -> Tensor:
    """(..., rows, 2): the first ``rows`` elements of the transform of (..., n, 1 or 2).

    Long ones are taken apart. Source: Cooley and Tukey, An Algorithm for the Machine Calculation of Complex
    Fourier Series, 1965.
    """
    n, parts = x.shape[-2:]
    a = _factor(n)
    if a == 1:
        return _product(node, x, _table(n, rows, parts, inverse))
    b = n // a
    lead = x.shape[:-2]
    inner = x.reshape(*lead, a, b, parts).transpose(-2, -3)  # (..., b, a, parts): b i + j at [j, i]
    inner = _transform(node, inner, a, inverse)
    turns = np.outer(np.arange(b), np.arange(a)) * (2 * math.pi / n) * (1 if inverse else -1)
    cosine, sine = (node.constant(f(turns).astype(x.dtype.compute)) for f in (np.cos, np.sin))
    real, imaginary = inner[..., 0], inner[..., 1]
    turned = Tensor.stack([real * cosine - imaginary * sine, real * sine + imaginary * cosine], -1)
    outer = _transform(
        node, turned.transpose(-2, -3), b, inverse
    )  # (..., a, b, 2): element k + a l at [k, l]
    return outer.transpose(-2, -3).reshape(*lead, n, 2).narrow(-2, 0, rows)


def _factor(n: int) -> int:
    """The largest divisor of ``n`` up to its root, 1 where a transform of that length isn't taken apart."""
    if n <= DIRECT:
        return 1
    return next(a for a in range(math.isqrt(n), 0, -1) if n % a == 0)


def _product(node: Node, x: Tensor, table: Array) -> Tensor:
    """(..., n, parts) times a table (n * parts, rows * outs) of shape (n, parts, rows, outs)."""
    n, parts, rows, outs = table.shape
    matrix = node.constant(table.reshape(n * parts, rows * outs).astype(x.dtype.compute))
    flat = x.reshape(*x.shape[:-2], n * parts)
    return (flat @ matrix).reshape(*x.shape[:-2], rows, outs)


def _table(n: int, rows: int, parts: int, inverse: bool) -> Array:
    """(n, parts, rows, 2): the real and imaginary part of each result from those of each element.

    Products j k are taken modulo n first, so that the angles of large ones keep their precision.
    """
    turns = np.outer(np.arange(n), np.arange(rows)) % n * (2 * math.pi / n) * (1 if inverse else -1)
    cosine, sine = np.cos(turns), np.sin(turns)
    table = np.stack([np.stack([cosine, sine], -1), np.stack([-sine, cosine], -1)], 1)[:, :parts]
    return table / n if inverse else table


def _real_inverse(node: Node, x: Tensor, n: int) -> Tensor:
    """(..., n, 1): a real signal from the first half of its spectrum, whose other half is the conjugate."""
    rest = n - x.shape[-2]
    conjugate = x[..., 1 : rest + 1, :].flip(-2) * node.constant(np.array([1, -1], x.dtype.compute))
    return _transform(node, Tensor.cat([x, conjugate], -2), n, inverse=True)[..., :1]


@operator("STFT", since=17, host=(1, 3))
def stft(
    node: Node, x: Tensor, step: Tensor, window: Tensor | None = None, length: Tensor | None = None
) -> Tensor:
    """The transforms of windows of a signal (N, length, 1 or 2): (N, frames, frequencies, 2)."""
    hop = scalar(step)
    n = scalar(length) if length is not None else x.shape[1] if window is None else window.shape[0]
    parts = x.shape[2]
    frames = apply(Op.WINDOW, ((n, hop, 1),), x.transpose(1, 2))  # (N, parts, frames, n)
    frames = frames if window is None else frames * window
    onesided = node.flag("onesided", 1) and parts == 1
    rows = n // 2 + 1 if onesided else n
    return _transform(node, frames.movedim(1, -1), rows, inverse=False).cast(x.dtype)


# ---- windows

COSINES = {
    "HannWindow": (0.5, -0.5),
    "HammingWindow": (25 / 46, -21 / 46),
    "BlackmanWindow": (0.42, -0.5, 0.08),
}


def _window(node: Node, size: Tensor) -> Tensor | HostArray:
    """A sum of cosines over ``size`` points; periodic ones leave out the last of one more."""
    n = scalar(size)
    with np.errstate(divide="ignore", invalid="ignore"):  # the ends of a window of one point coincide: NaN
        turns = np.arange(n) * (2 * math.pi) / (n if node.flag("periodic", 1) else n - 1)
    values = sum(factor * np.cos(k * turns) for k, factor in enumerate(COSINES[node.op]))
    return _typed(node, np.asarray(values))


for _name in COSINES:
    operator(_name, since=17, host=None)(_window)


def _typed(node: Node, values: Array) -> Tensor | HostArray:
    """In the dtype that ``output_datatype`` names."""
    code = node.int("output_datatype", 1)
    kind = tensor_dtype(code)
    if kind is None:
        return HostArray(values.astype(numpy_dtype(code)))
    return node.constant(values.astype(kind.compute), kind)


@operator("MelWeightMatrix", since=17, host=None)
def mel_weight_matrix(
    node: Node, bands: Tensor, length: Tensor, rate: Tensor, low: Tensor, high: Tensor
) -> Tensor | HostArray:
    """(frequencies, bands): triangles that are equally wide on the mel scale, over frequencies."""
    count, n = scalar(bands), scalar(length)
    bottom, top = (2595 * math.log10(1 + scalar(edge) / 700) for edge in (low, high))
    mels = np.arange(count + 2) * ((top - bottom) / (count + 2)) + bottom
    bins = np.floor((n + 1) * 700 * (10 ** (mels / 2595) - 1) / scalar(rate)).astype(np.int64)
    at = np.arange(n // 2 + 1)[:, None]
    first, peak, last = bins[:-2], bins[1:-1], bins[2:]
    rising = np.where(peak > first, (at - first) / np.maximum(peak - first, 1), at == peak)
    falling = (last - at) / np.maximum(last - peak, 1)
    weights = np.where((at >= first) & (at <= peak), rising, np.where((at > peak) & (at < last), falling, 0))
    return _typed(node, weights)
