"""Images and volumes read at places that tensors give: GridSample, RoiAlign, deformable convolution."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dawdle.dtype import Array, float32
from dawdle.errors import ShapeError
from dawdle.onnx.ops.windows import windows
from dawdle.onnx.registry import Node, operator
from dawdle.onnx.values import host, ints
from dawdle.tensor import Tensor
from dawdle.tensor.elementwise import where
from dawdle.tensor.gridsample import affine_grid, beside, combinations, read, sampled
from dawdle.tensor.indexing import checked
from dawdle.tensor.windows import Windows

MODES = {"linear": "bilinear", "cubic": "bicubic"}  # opset 20's names, which older ones spell as PyTorch does


@operator("GridSample", since=16)
def grid_sample(node: Node, x: Tensor, grid: Tensor) -> Tensor:
    mode, padding = node.string("mode", "linear"), node.string("padding_mode", "zeros")
    if grid.ndim != x.ndim or grid.shape[-1] != x.ndim - 2:
        raise ShapeError(f"{node}: a grid of shape {grid.shape} has no places in an input of shape {x.shape}")
    wide = x if x.dtype.is_float else x.cast(float32)
    corners = node.flag("align_corners", 0)
    return sampled(wide, grid, MODES.get(mode, mode), padding, corners).cast(x.dtype)


@operator("AffineGrid", since=20, host=(1,))
def grid_of_affine(node: Node, theta: Tensor, size: Tensor) -> Tensor:
    return affine_grid(theta, ints(size), node.flag("align_corners", 0))


# ---- regions


@operator("RoiAlign", since=10)
def roi_align_older(node: Node, x: Tensor, rois: Tensor, batch: Tensor) -> Tensor:
    return _roi_align(node, x, rois, batch, 0.0)


@operator("RoiAlign", since=16)
def roi_align(node: Node, x: Tensor, rois: Tensor, batch: Tensor) -> Tensor:
    shifted = node.string("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    return _roi_align(node, x, rois, batch, 0.5 if shifted else 0.0)


def _roi_align(node: Node, x: Tensor, rois: Tensor, batch: Tensor, shift: float) -> Tensor:
    """The mean over a grid of points in each bin of each region (x1, y1, x2, y2).

    With mode "max", the largest of the weighted elements around any point: so ONNX has defined it.
    """
    corners = rois * node.float("spatial_scale", 1.0) - shift
    ratio = node.int("sampling_ratio", 0)
    bins = node.int("output_height", 1), node.int("output_width", 1)
    rows = _points(corners[:, 1], corners[:, 3], bins[0], x.shape[2], ratio, forced=not shift)
    columns = _points(corners[:, 0], corners[:, 2], bins[1], x.shape[3], ratio, forced=not shift)
    regions, (height, width) = rois.shape[0], bins
    tall, wide = rows.at.shape[2], columns.at.shape[2]
    shape = (regions, height, tall, width, wide)
    at_rows = rows.at.reshape(regions, height, tall, 1, 1).expand(shape).reshape(1, -1)
    at_columns = columns.at.reshape(regions, 1, 1, width, wide).expand(shape).reshape(1, -1)
    numbers = checked(batch, x.shape[0], f"{node}: batch_indices", 0).cast(rois.dtype)
    image = numbers.reshape(-1, 1, 1, 1, 1).expand(shape).reshape(1, 1, -1)
    shares = rows.share.reshape(regions, height, tall, 1, 1) * columns.share.reshape(
        regions, 1, 1, width, wide
    )
    parts = combinations(x.transpose(0, 1).unsqueeze(0), [(image, None), beside(at_rows), beside(at_columns)])
    parts = parts.reshape(x.shape[1], 4, *shape)
    if node.string("mode", "avg") == "max":
        across = columns.counted.reshape(regions, 1, 1, 1, wide)
        counted = rows.counted.reshape(regions, 1, tall, 1, 1) & across
        inside = where(shares != 0, parts, 0.0)
        out = where(counted.expand(shape), inside, -math.inf).amax((1, 4, 6))
    else:
        out = (parts * shares).sum((1, 4, 6))
    return out.transpose(0, 1)


@dataclass(frozen=True)
class Points:
    """Along one axis (regions, bins, points): the places, and how much each counts in a mean; 0 for those
    outside of the image. ``counted`` are those that a region has at all.
    """

    at: Tensor
    share: Tensor
    counted: Tensor  # (regions, 1, points)


def _points(first: Tensor, last: Tensor, bins: int, size: int, ratio: int, forced: bool) -> Points:
    """``ratio`` points in each bin, or one for each element that the bin covers; regions are at least one
    element long where they are ``forced`` to.
    """
    length = last - first
    length = length.maximum(1.0) if forced else length
    step = (length / bins).reshape(-1, 1, 1)
    count = step.full_like(ratio) if ratio else step.ceil().maximum(1.0)
    most = ratio or int(host(count).max(initial=1))
    bin_, point = (Tensor.arange(n, dtype=first.dtype, device=first.device) for n in (bins, most))
    at = first.reshape(-1, 1, 1) + (bin_.reshape(-1, 1) + (point + 0.5) / count) * step
    counted = (point < count).expand(first.shape[0], 1, most)
    inside = (at >= -1) & (at <= size) & counted
    return Points(at.clamp(0, size - 1), inside.cast(at.dtype) / count, counted)


# ---- deformable convolution


@operator("DeformConv", since=19)
def deform_conv(
    node: Node,
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """A convolution whose windows' elements are read beside their places, by ``offset``, and weighted by
    ``mask``. Source: Zhu et al., Deformable ConvNets v2, 2018.
    """
    at = windows(node, x.shape[2:], node.ints("kernel_shape", weight.shape[2:]))
    batch, channels = x.shape[:2]
    groups, shifts = node.int("group", 1), node.int("offset_group", 1)
    n, kernel, places = len(at.kernel), math.prod(at.kernel), at.places
    count = kernel * math.prod(places)
    moves = offset.reshape(batch * shifts, kernel, n, *places).movedim(2, 1).reshape(batch * shifts, n, count)
    taps = [beside(moves[:, axis] + node.constant(_regular(at, axis))) for axis in range(n)]
    parts = read(x.reshape(batch * shifts, channels // shifts, *x.shape[2:]), taps, (kernel, *places))
    if mask is not None:
        parts = parts * mask.reshape(batch * shifts, 1, kernel, *places)
    outs = weight.shape[0]
    columns = parts.reshape(batch, groups, 1, channels // groups * kernel, math.prod(places))
    filters = weight.reshape(1, groups, outs // groups, -1)
    out = (filters @ columns.squeeze(2)).reshape(batch, outs, *places)
    return out if bias is None else out + bias.reshape(-1, *[1] * n)


def _regular(at: Windows, axis: int) -> Array:
    """Where the elements of all windows lie along ``axis``, in the order (*kernel, *places), as float32."""
    n = len(at.kernel)
    inner, outer = [1] * n, [1] * n
    inner[axis], outer[axis] = at.kernel[axis], at.places[axis]
    places = at.starts(axis).T.reshape(*inner, *outer)
    return np.broadcast_to(places, (*at.kernel, *at.places)).reshape(-1).astype(np.float32)
