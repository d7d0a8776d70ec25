"""Operators that change shapes and move elements without looking at them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dawdle.dtype import int64
from dawdle.errors import ModelError, ShapeError
from dawdle.onnx.ops.common import axes_given, axis, unique_axes
from dawdle.onnx.registry import Node, operator
from dawdle.onnx.values import HostArray, Value, host, ints, on_host, scalar
from dawdle.tensor import Tensor
from dawdle.tensor.core import along
from dawdle.tensor.elementwise import where


@operator("Shape", host=None)
def shape(node: Node, x: Tensor) -> Tensor:
    """The sizes of the dimensions ``start`` to ``end``."""
    part = slice(node.int("start", 0), node.int("end", None))
    return on_host(np.array(x.shape[part], np.int64), int64)


@operator("Size", host=None)
def size(node: Node, x: Tensor) -> Tensor:
    return on_host(np.array(math.prod(x.shape), np.int64), int64)


@operator("Reshape", host=(1,))
def reshape(node: Node, x: Value, wanted: Value) -> Value:
    """0 keeps a size (unless ``allowzero``), -1 is found from the others."""
    assert isinstance(x, (Tensor, HostArray))
    sizes = list(ints(wanted))
    if not node.flag("allowzero", 0):
        kept = [i for i, n in enumerate(sizes) if n == 0]
        if kept and kept[-1] >= len(x.shape):
            raise ShapeError(f"{node}: shape {tuple(sizes)} keeps a dimension that {x.shape} hasn't got")
        for i in kept:
            sizes[i] = x.shape[i]
    return x.reshape(tuple(sizes))


@operator("Flatten")
def flatten(node: Node, x: Tensor) -> Tensor:
    """A matrix: the dimensions before ``axis`` in its rows, the others in its columns."""
    at = node.int("axis", 1)
    at = at + x.ndim if at < 0 else at
    return x.reshape(math.prod(x.shape[:at]), math.prod(x.shape[at:]))


@operator("Squeeze", host=(1,))
def squeeze(node: Node, x: Tensor, axes: Value = None) -> Tensor:
    dims = axes_given(node, axes)
    if dims is None:
        return x.reshape(tuple(n for n in x.shape if n != 1))
    gone = unique_axes(dims, x.ndim, node)
    wrong = [a for a in gone if x.shape[a] != 1]
    if wrong:
        raise ShapeError(f"{node}: axes {wrong} of shape {x.shape} aren't of size 1")
    return x.reshape(tuple(n for i, n in enumerate(x.shape) if i not in gone))


@operator("Unsqueeze", host=(1,))
def unsqueeze(node: Node, x: Tensor, axes: Value = None) -> Tensor:
    dims = axes_given(node, axes) or ()
    new = unique_axes(dims, x.ndim + len(dims), node)
    sizes = iter(x.shape)
    return x.reshape(tuple(1 if i in new else next(sizes) for i in range(x.ndim + len(dims))))


@operator("Transpose")
def transpose(node: Node, x: Tensor) -> Tensor:
    return x.permute(node.ints("perm", None) or tuple(reversed(range(x.ndim))))


@operator("Expand", host=(1,))
def expand(node: Node, x: Tensor, wanted: Value) -> Tensor:
    """``x`` broadcast together with a shape, which may hold ones where ``x`` is larger."""
    shape = ints(wanted)
    try:
        return x.expand(np.broadcast_shapes(x.shape, shape))
    except ValueError:
        raise ShapeError(f"{node}: {x.shape} doesn't broadcast to {shape}") from None


@operator("Tile", host=(1,))
def tile(node: Node, x: Tensor, repeats: Value) -> Tensor:
    times = ints(repeats)
    if len(times) != x.ndim:
        raise ShapeError(f"{node}: {len(times)} repeats for the {x.ndim} dimensions of {x.shape}")
    return x.repeat(times)


@operator("Concat")
def concat(node: Node, *values: Value) -> Value:
    at = node.int("axis")
    if isinstance(values[0], HostArray):
        return HostArray(np.concatenate([host(v) for v in values], at))
    return Tensor.cat([v for v in values if isinstance(v, Tensor)], dim=at)


def parts_of(node: Node, n: int, count: int, sizes: Sequence[int] | None) -> Sequence[int]:
    """The sizes of ``count`` parts of an axis of ``n``: given, or equal but for the last."""
    if sizes is not None:
        if sum(sizes) != n:
            raise ShapeError(f"{node}: parts of {tuple(sizes)} don't add up to the axis' {n}")
        return sizes
    each = -(-n // count)
    return [max(min(each, n - i * each), 0) for i in range(count)]


@operator("Split", host=(1,))
def split(node: Node, x: Tensor, sizes: Value = None) -> tuple[Tensor, ...]:
    at = axis(node.int("axis", 0), x.ndim, node)
    given = axes_given(node, sizes, "split")
    count = node.int("num_outputs", len(node.outputs)) if given is None else len(given)
    if count != len(node.outputs):
        raise ModelError(f"{node} splits into {count} parts, but has {len(node.outputs)} outputs")
    return x.split(list(parts_of(node, x.shape[at], count, given)), dim=at)


@operator("Trilu", host=(1,))
def trilu(node: Node, x: Tensor, diagonal: Value = None) -> Tensor:
    k = 0 if diagonal is None else scalar(diagonal)
    return x.triu(k) if node.flag("upper", 1) else x.tril(k)


@operator("Slice", since=1)
def slice_by_attributes(node: Node, x: Tensor) -> Tensor:
    starts, ends = node.ints("starts"), node.ints("ends")
    return _sliced(node, x, starts, ends, node.ints("axes", tuple(range(len(starts)))), (1,) * len(starts))


@operator("Slice", since=10, host=(1, 2, 3, 4))
def slice_(
    node: Node, x: Tensor, starts: Value, ends: Value, axes: Value = None, steps: Value = None
) -> Tensor:
    first, last = ints(starts), ints(ends)
    dims = tuple(range(len(first))) if axes is None else ints(axes)
    return _sliced(node, x, first, last, dims, (1,) * len(first) if steps is None else ints(steps))


def _sliced(
    node: Node,
    x: Tensor,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int],
    steps: Sequence[int],
) -> Tensor:
    """Where an end lies before the first element and the step goes backwards, the first is included."""
    if not len(starts) == len(ends) == len(axes) == len(steps):
        counts = len(starts), len(ends), len(axes), len(steps)
        raise ShapeError(f"{node}: as many starts, ends, axes and steps are needed, got {counts}")
    key = [slice(None)] * x.ndim
    for start, end, dim, step in zip(starts, ends, axes, steps, strict=True):
        at = axis(dim, x.ndim, node)
        n = x.shape[at]
        key[at] = slice(start, None if step < 0 and end < -n else end, step)
    return x[tuple(key)]


@operator("Pad", since=1)
def pad_by_attributes(node: Node, x: Tensor) -> Tensor:
    return padded(node, x, node.ints("pads"), node.float("value", 0.0), range(x.ndim))


@operator("Pad", since=11, host=(1, 2, 3))
def pad(node: Node, x: Tensor, pads: Value, value: Value = None, axes: Value = None) -> Tensor:
    dims = range(x.ndim) if axes is None else [axis(a, x.ndim, node) for a in ints(axes)]
    return padded(node, x, ints(pads), 0 if value is None else scalar(value), dims)


# ONNX's names of the ways to pad, with PyTorch's
MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


def padded(node: Node, x: Tensor, pads: Sequence[int], value: float, axes: Sequence[int]) -> Tensor:
    """Elements put around, or with negative numbers taken away at the ends of, some axes."""
    mode = node.string("mode", "constant")
    if mode not in MODES:
        raise ModelError(f"{node}: mode is {mode!r}; known are {', '.join(MODES)}")
    if len(pads) != 2 * len(axes):
        raise ShapeError(f"{node}: {len(pads)} pads for {len(axes)} axes; two for each are needed")
    amounts = [(0, 0)] * x.ndim
    for i, dim in enumerate(axes):
        amounts[dim] = (pads[i], pads[i + len(axes)])
    cut = tuple(
        slice(max(-low, 0), n - max(-high, 0)) for (low, high), n in zip(amounts, x.shape, strict=True)
    )
    x = x[cut]
    grown = [max(n, 0) for pair in reversed(amounts) for n in pair]
    if mode == "constant":
        return x.pad(grown, value=value)
    if mode == "wrap" and any(max(pair) > n for pair, n in zip(amounts, x.shape, strict=True)):
        return _wrapped(node, x, amounts)
    return x.pad(grown, mode=MODES[mode])


def _wrapped(node: Node, x: Tensor, amounts: Sequence[tuple[int, int]]) -> Tensor:
    """``x`` repeated at the ends of its axes as often as it takes."""
    if not x.numel():
        raise ShapeError(f"{node}: a tensor of shape {x.shape} has nothing to be repeated")
    for dim, (low, high) in enumerate(amounts):
        low, high, n = max(low, 0), max(high, 0), x.shape[dim]
        if low or high:
            x = x.index_select(dim, node.constant(np.arange(-low, n + high) % n))
    return x


@operator("ReverseSequence", host=())
def reverse_sequence(node: Node, x: Tensor, lengths: Tensor) -> Tensor:
    """The first ``lengths[b]`` elements along the time axis in reverse order, for each batch element b."""
    batch, time = node.int("batch_axis", 1), node.int("time_axis", 0)
    if {batch, time} != {0, 1}:
        raise ModelError(f"{node}: batch_axis {batch} and time_axis {time} must be 0 and 1, or 1 and 0")
    i = along(Tensor.arange(x.shape[time], device=x.device), time, x.ndim)
    n = along(lengths, batch, x.ndim)
    places = where(i < n, n - 1 - i, i).expand(x.shape)
    return x.gather(time, places)
