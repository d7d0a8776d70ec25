"""Images resized, cropped, decoded, and rearranged between space and channels."""

from __future__ import annotations

import importlib
import io
import math
from collections.abc import Iterable, Sequence

import numpy as np

from dawdle.dtype import Array, float32, uint8
from dawdle.errors import ModelError, ShapeError
from dawdle.onnx.ops.windows import pairs
from dawdle.onnx.registry import Node, operator
from dawdle.onnx.values import host, ints
from dawdle.tensor import Tensor
from dawdle.tensor.convolution import folded
from dawdle.tensor.movement import pad_dims
from dawdle.tensor.resample import Axis, Taps, cubic, linear, nearest, positions, resize, weighted
from dawdle.tensor.windows import windows

# ---- Resize


@operator("Upsample", since=7)
def upsample_by_attribute(node: Node, x: Tensor) -> Tensor:
    return _upsampled(node, x, _scales(node, node.floats("scales"), x.ndim))


def _scales(node: Node, given: Iterable[float], count: int) -> list[float]:
    """The factors of so many axes. Raises ShapeError where there are others, or one that is no factor."""
    scales = [float(s) for s in given]
    if len(scales) != count or not all(0 <= s < math.inf for s in scales):
        raise ShapeError(f"{node}: {count} scales of at least 0 are needed, got {scales}")
    return scales


@operator("Upsample", since=9, host=(1,))
@operator("Resize", since=10, host=(1,))
def upsample(node: Node, x: Tensor, scales: Tensor) -> Tensor:
    return _upsampled(node, x, _scales(node, host(scales), x.ndim))


def _upsampled(node: Node, x: Tensor, scales: Sequence[float]) -> Tensor:
    """The older operators: positions count from the first element, and the nearest is the one before."""
    axes = {
        axis: Axis(n, math.floor(n * scale), scale)
        for axis, (n, scale) in enumerate(zip(x.shape, scales, strict=True))
        if scale != 1
    }
    mode = node.string("mode", "nearest")
    at = {axis: _rounded(positions(a, "asymmetric")) for axis, a in axes.items()}
    if mode == "nearest":
        return resize(x, {axis: nearest(at[axis], a.size, "floor") for axis, a in axes.items()})
    return _as_float(x, {axis: linear(at[axis], a.size) for axis, a in axes.items()})


@operator("Resize", since=11, host=(1, 2, 3))
def resized(
    node: Node,
    x: Tensor,
    roi: Tensor | None = None,
    scales: Tensor | None = None,
    sizes: Tensor | None = None,
) -> Tensor:
    """Each axis resampled to another size, from the nearest, two or four elements around each position."""
    axes = [axis % x.ndim for axis in node.ints("axes", range(x.ndim))]
    how = node.string("coordinate_transformation_mode", "half_pixel")
    regions = [(0.0, 1.0)] * len(axes)
    if how == "tf_crop_and_resize" and roi is not None:
        flat = [float(v) for v in host(roi)]
        regions = list(zip(flat[: len(axes)], flat[len(axes) :], strict=True))
    old = [x.shape[axis] for axis in axes]
    if sizes is not None and sizes.numel():
        plan = _by_sizes(node, old, ints(sizes), regions)
    elif scales is not None and scales.numel():
        factors = _scales(node, host(scales), len(axes))
        rows = zip(old, factors, regions, strict=True)
        plan = [Axis(n, math.floor(n * (end - start) * s), s, (start, end)) for n, s, (start, end) in rows]
    else:
        raise ModelError(f"{node} has neither scales nor sizes")
    changed = {i: a for i, a in zip(axes, plan, strict=True) if (a.size, a.roi) != (a.count, (0.0, 1.0))}
    if any(a.count == 0 for a in changed.values()):
        shape = [changed[i].count if i in changed else n for i, n in enumerate(x.shape)]
        return Tensor.zeros(*shape, dtype=x.dtype, device=x.device)
    if any(a.size == 0 for a in changed.values()):
        raise ShapeError(f"{node}: axes {changed} of an input {x.shape} can't be resized from nothing")
    at = {axis: _positions(a, how) for axis, a in changed.items()}
    outside = {}
    if how == "tf_crop_and_resize":
        outside = {axis: (at[axis] < 0) | (at[axis] > a.size - 1) for axis, a in changed.items()}
        outside = {axis: mask for axis, mask in outside.items() if mask.any()}
    taps = {axis: _taps(node, at[axis], a) for axis, a in changed.items()}
    return _as_float(x, taps, outside, node.float("extrapolation_value", 0.0))


def _by_sizes(
    node: Node, old: Sequence[int], wanted: Sequence[int], regions: Sequence[tuple[float, float]]
) -> list[Axis]:
    policy = node.string("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return [Axis(n, count, None, roi) for n, count, roi in zip(old, wanted, regions, strict=True)]
    if policy not in ("not_larger", "not_smaller"):
        raise ModelError(f"{node}: keep_aspect_ratio_policy {policy!r} is unknown")
    choose = min if policy == "not_larger" else max
    scale = choose(count / n for n, count in zip(old, wanted, strict=True))
    return [Axis(n, math.floor(scale * n + 0.5), scale, roi) for n, roi in zip(old, regions, strict=True)]


def _positions(axis: Axis, how: str) -> Array:
    if how == "align_corners" and axis.scale is not None and axis.count > 1:
        # the last position follows from the scale, not from the size that it was rounded to
        return np.arange(axis.count) * ((axis.size - 1) / (axis.scale * axis.size - 1))
    return positions(axis, how)


def _rounded(at: Array) -> Array:
    """Positions in float32: a scale of 1/3 in float32 must not move a position below the element it is at."""
    return at.astype(np.float32)


def _taps(node: Node, at: Array, axis: Axis) -> Taps:
    mode = node.string("mode", "nearest")
    if mode == "nearest":
        return nearest(_rounded(at), axis.size, node.string("nearest_mode", "round_prefer_floor"))
    stretch = max(1.0, 1 / axis.factor) if node.flag("antialias", 0) else 1.0
    inside_only = node.flag("exclude_outside", 0)
    if mode == "linear":
        return linear(at, axis.size, stretch, inside_only)
    if mode != "cubic":
        raise ModelError(f"{node}: mode {mode!r} is unknown")
    return weighted(at, axis.size, cubic(node.float("cubic_coeff_a", -0.75)), 2, stretch, inside_only)


def _as_float(
    x: Tensor, taps: dict[int, Taps], outside: dict[int, Array] | None = None, fill: float = 0.0
) -> Tensor:
    """:func:`resize`, of integers by way of float32 where elements are weighted."""
    if x.dtype.is_float or all(t.weights is None for t in taps.values()):
        return resize(x, taps, outside, fill if x.dtype.is_float else int(fill))
    return resize(x.cast(float32), taps, outside, fill).cast(x.dtype)


# ---- cropping and rearranging


@operator("CenterCropPad", since=18, host=(1,))
def center_crop_pad(node: Node, x: Tensor, shape: Tensor) -> Tensor:
    """Each axis cut or filled with zeros at both ends; of an odd number, the end gets the more."""
    axes, sizes = tuple(node.ints("axes", range(x.ndim))), ints(shape)
    if len(axes) != len(sizes):
        raise ShapeError(f"{node}: sizes {sizes} don't fit axes {axes} of an input of shape {x.shape}")
    amounts = [(0, 0)] * x.ndim
    for axis, wanted in zip(axes, sizes, strict=True):
        n = x.shape[axis]
        low = (wanted - n) // 2 if wanted > n else -((n - wanted) // 2)
        amounts[axis % x.ndim] = (low, wanted - n - low)
    return pad_dims(x, amounts)


# how the channels of a block's pixels are numbered
BLOCKS = {"DCR": "(p q c)", "CRD": "(c p q)"}


def _blocks(node: Node) -> str:
    mode = node.string("mode", "DCR")
    if mode not in BLOCKS:
        raise ModelError(f"{node}: mode is {mode!r}; known are {', '.join(BLOCKS)}")
    return BLOCKS[mode]


@operator("DepthToSpace")
def depth_to_space(node: Node, x: Tensor) -> Tensor:
    size = node.int("blocksize")
    return x.rearrange(f"n {_blocks(node)} h w -> n c (h p) (w q)", p=size, q=size)


@operator("SpaceToDepth")
def space_to_depth(node: Node, x: Tensor) -> Tensor:
    size = node.int("blocksize")
    return x.rearrange(f"n c (h p) (w q) -> n {_blocks(node)} h w", p=size, q=size)


@operator("Col2Im", since=18, host=(1, 2))
def col2im(node: Node, x: Tensor, image_shape: Tensor, block_shape: Tensor) -> Tensor:
    """(N, C * kernel, places) as images, where the windows' elements that meet are added."""
    sizes, kernel = ints(image_shape), ints(block_shape)
    n = len(sizes)
    strides, dilations = (tuple(node.ints(name, [1] * n)) for name in ("strides", "dilations"))
    pads = pairs(node.ints("pads", [0] * (2 * n)))
    return folded(x, windows(sizes, kernel, strides, dilations, pads, str(node)))


# ---- decoding


@operator("ImageDecoder", since=20, host=None)
def image_decoder(node: Node, encoded: Tensor) -> Tensor:
    """The bytes of an image file as (height, width, channels), read by Pillow."""
    try:
        pillow = importlib.import_module("PIL.Image")
    except ImportError:
        raise ModelError(f"{node} needs Pillow to read images: pip install pillow") from None
    layout = node.string("pixel_format", "RGB")
    mode = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}.get(layout)
    if mode is None:
        raise ModelError(f"{node}: pixel_format {layout!r} is unknown; known are RGB, BGR, Grayscale")
    pixels = np.asarray(pillow.open(io.BytesIO(host(encoded).tobytes())).convert(mode))
    pixels = pixels[..., ::-1] if layout == "BGR" else pixels
    return node.constant(np.ascontiguousarray(pixels.reshape(*pixels.shape[:2], -1)), uint8)
