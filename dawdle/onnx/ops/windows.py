"""Where the windows of convolutions and pools lie: ``kernel_shape``, ``strides``, ``dilations``, ``pads``,
``auto_pad`` and ``ceil_mode`` as numbers for each axis.
"""

from __future__ import annotations

from collections.abc import Sequence

from dawdle.errors import ModelError, ShapeError
from dawdle.onnx.registry import Node
from dawdle.tensor.windows import Windows
from dawdle.tensor.windows import windows as windows_over

Pads = list[tuple[int, int]]


def windows(node: Node, sizes: Sequence[int], kernel: Sequence[int] | None = None) -> Windows:
    """The windows that the attributes of ``node`` describe, over axes of ``sizes``."""
    kernel = tuple(kernel or node.ints("kernel_shape"))
    n = len(kernel)
    if len(sizes) != n:
        raise ShapeError(f"{node}: a kernel of shape {kernel} doesn't fit an input of spatial shape {sizes}")
    strides, dilations = tuple(node.ints("strides", [1] * n)), tuple(node.ints("dilations", [1] * n))
    spans = tuple((size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True))
    pads = padding(node, sizes, spans, strides)
    ceil_mode = node.flag("ceil_mode", 0)
    return windows_over(tuple(sizes), kernel, strides, dilations, pads, str(node), ceil_mode)


def padding(node: Node, sizes: Sequence[int], spans: Sequence[int], strides: Sequence[int]) -> Pads:
    """(low, high) for each axis, from ``pads`` or ``auto_pad``."""
    how = node.string("auto_pad", "NOTSET")
    if how == "NOTSET":
        return explicit(node, len(sizes))
    if how == "VALID":
        return [(0, 0)] * len(sizes)
    if how not in ("SAME_UPPER", "SAME_LOWER"):
        raise ModelError(f"{node}: auto_pad is {how!r}; it must be NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    rows = zip(sizes, spans, strides, strict=True)
    return [halves(max((-(-n // step) - 1) * step + span - n, 0), how) for n, span, step in rows]


def explicit(node: Node, axes: int) -> Pads:
    """The attribute ``pads``. Raises ShapeError unless it has two numbers for each axis."""
    pads = node.ints("pads", [0] * (2 * axes))
    if len(pads) != 2 * axes:
        raise ShapeError(f"{node}: {len(pads)} pads for {axes} axes; two for each are needed")
    return pairs(pads)


def pairs(pads: Sequence[int]) -> Pads:
    """ONNX's [low of each axis..., high of each axis...] as (low, high) for each axis."""
    n = len(pads) // 2
    return list(zip(pads[:n], pads[n:], strict=True))


def halves(total: int, how: str) -> tuple[int, int]:
    """``total`` zeros on both sides; an odd one is the last for SAME_UPPER, else the first."""
    less, more = total // 2, total - total // 2
    return (less, more) if how == "SAME_UPPER" else (more, less)
