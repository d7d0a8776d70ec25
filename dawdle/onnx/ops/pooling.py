"""Pools: the largest element, the mean or the norm of each window, of each channel, or of regions."""

from __future__ import annotations

import math

from dawdle.dtype import int64
from dawdle.onnx.ops.windows import pairs, windows
from dawdle.onnx.registry import Node, operator
from dawdle.onnx.values import ints
from dawdle.tensor import Tensor
from dawdle.tensor.elementwise import where
from dawdle.tensor.pooling import largest, means, places_of_largest


def _channel_axes(x: Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@operator("GlobalMaxPool")
def global_max(node: Node, x: Tensor) -> Tensor:
    return x.amax(_channel_axes(x), keepdim=True)


@operator("GlobalAveragePool")
def global_mean(node: Node, x: Tensor) -> Tensor:
    return x.mean(_channel_axes(x), keepdim=True)


@operator("GlobalLpPool")
def global_norm(node: Node, x: Tensor) -> Tensor:
    return x.norm(node.int("p", 2), _channel_axes(x), keepdim=True)


@operator("AveragePool")
def average_pool(node: Node, x: Tensor) -> Tensor:
    """The mean over the elements of each window, with ``count_include_pad`` those of the padding too."""
    at = windows(node, x.shape[2:])
    return means(x, at, at.counts(node.flag("count_include_pad", 0)))


@operator("LpPool")
def norm_pool(node: Node, x: Tensor) -> Tensor:
    at = windows(node, x.shape[2:])
    cut = at.of(x, 0)
    out: Tensor = cut.norm(node.int("p", 2), tuple(range(-len(at.kernel), 0)))
    return out


# ---- MaxPool, with the places that the elements come from


@operator("MaxPool")
def max_pool(node: Node, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
    """The largest element of each window; then the places of these in the flattened input, counted by columns
    within each channel where ``storage_order`` is 1.
    """
    at = windows(node, x.shape[2:])
    if not node.wants(1):
        return largest(x, at)
    within = places_of_largest(x, at, _strides(at.sizes, node.flag("storage_order", 0)))
    planes = Tensor.arange(math.prod(x.shape[:2]), device=x.device) * math.prod(at.sizes)
    return largest(x, at), within + planes.reshape(*x.shape[:2], *[1] * len(at.kernel))


def _strides(sizes: tuple[int, ...], by_columns: bool) -> list[int]:
    """How far apart neighbours along each axis lie in memory."""
    n = len(sizes)
    if by_columns:
        return [math.prod(sizes[:axis]) for axis in range(n)]
    return [math.prod(sizes[axis + 1 :]) for axis in range(n)]


@operator("MaxUnpool", host=(2,))
def max_unpool(node: Node, x: Tensor, places: Tensor, output_shape: Tensor | None = None) -> Tensor:
    """Zeros but at ``places`` of the flattened output. Where ``output_shape`` is larger than what the window
    would give, the rest is added at the ends.
    """
    kernel = node.ints("kernel_shape")
    strides = node.ints("strides", [1] * len(kernel))
    pads = pairs(node.ints("pads", [0] * (2 * len(kernel))))
    rows = zip(x.shape[2:], strides, kernel, pads, strict=True)
    sizes = [(n - 1) * step + size - low - high for n, step, size, (low, high) in rows]
    shape = (*x.shape[:2], *sizes)
    flat = Tensor.zeros(math.prod(shape), dtype=x.dtype, device=x.device)
    out = flat.scatter(0, places.flatten(), x.flatten()).reshape(shape)
    if output_shape is None:
        return out
    wanted = ints(output_shape)
    grown = [(0, want - have) for want, have in zip(wanted, shape, strict=True)]
    return out.pad(grown)


@operator("MaxRoiPool")
def max_roi_pool(node: Node, x: Tensor, rois: Tensor) -> Tensor:
    """The largest element in each bin of each region (batch index, x1, y1, x2, y2); 0 in an empty bin.

    The regions' corners are rounded to elements, which both belong to the region. A bin is a range of rows
    and a range of columns, so the maximum is taken along one after the other.
    """
    corners = (rois[:, 1:] * node.float("spatial_scale", 1.0) + 0.5).floor()
    picked = x[rois[:, 0].cast(int64)]  # (R, C, H, W)
    height, width = node.ints("pooled_shape")
    rows, no_rows = _bins(corners[:, 1], corners[:, 3], x.shape[2], height)
    columns, no_columns = _bins(corners[:, 0], corners[:, 2], x.shape[3], width)
    lowest = x.dtype.min
    across = where(columns.reshape(-1, 1, 1, width, x.shape[3]), picked.unsqueeze(3), lowest).amax(-1)
    down = across.movedim(2, 3).unsqueeze(2)
    out = where(rows.reshape(-1, 1, height, 1, x.shape[2]), down, lowest).amax(-1)
    empty = no_rows.reshape(-1, 1, height, 1) | no_columns.reshape(-1, 1, 1, width)
    return out.masked_fill(empty, 0)


def _bins(first: Tensor, last: Tensor, size: int, bins: int) -> tuple[Tensor, Tensor]:
    """(R, bins, size): whether an element lies in a bin of the region; (R, bins): whether a bin has none."""
    length = (last - first + 1).maximum(1.0) / bins
    number = Tensor.arange(bins, dtype=first.dtype, device=first.device)
    start = ((number * length.unsqueeze(1)).floor() + first.unsqueeze(1)).clamp(0, size)
    end = (((number + 1) * length.unsqueeze(1)).ceil() + first.unsqueeze(1)).clamp(0, size)
    at = Tensor.arange(size, dtype=first.dtype, device=first.device)
    inside = (at >= start.unsqueeze(2)) & (at < end.unsqueeze(2))
    return inside, end <= start
