"""Where the windows of convolutions and pools lie: ``kernel_shape``, ``strides``, ``dilations``, ``pads``,
``auto_pad`` and ``ceil_mode`` as numbers for each axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dawdle.dtype import Array
from dawdle.errors import ShapeError
from dawdle.lazy.ops import Op
from dawdle.onnx.registry import Node
from dawdle.tensor import Tensor
from dawdle.tensor.core import apply
from dawdle.tensor.movement import pad_dims

Pads = list[tuple[int, int]]


@dataclass(frozen=True)
class Windows:
    """The windows over the last axes of an input, one number for each of these axes in every field.

    ``extra`` is what ``ceil_mode`` adds after the padding that was asked for.
    """

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: Pads
    extra: tuple[int, ...]

    @property
    def places(self) -> tuple[int, ...]:
        """How many windows there are along each axis."""
        rows = zip(self.sizes, self.pads, self.extra, self.spans, self.strides, strict=True)
        return tuple((n + low + high + more - span) // step + 1 for n, (low, high), more, span, step in rows)

    @property
    def spans(self) -> tuple[int, ...]:
        """How far each window reaches, its first element and its last included."""
        return tuple(
            (size - 1) * dilation + 1 for size, dilation in zip(self.kernel, self.dilations, strict=True)
        )

    def of(self, x: Tensor, value: bool | int | float) -> Tensor:
        """(..., places..., kernel...): the windows of ``x``, padded with ``value``."""
        lead = len(x.shape) - len(self.kernel)
        pads = [(low, high + more) for (low, high), more in zip(self.pads, self.extra, strict=True)]
        padded = pad_dims(x, [(0, 0)] * lead + pads, value)
        return apply(Op.WINDOW, tuple(zip(self.kernel, self.strides, self.dilations, strict=True)), padded)

    def counts(self, with_padding: bool) -> Array:
        """How many elements each window has that are of the input, or of its padding too."""
        out = np.ones((), np.int64)
        rows = zip(self.sizes, self.pads, self.kernel, self.strides, self.dilations, self.places, strict=True)
        for n, (low, high), size, step, dilation, places in rows:
            at = np.arange(places)[:, None] * step + np.arange(size) * dilation - low
            inside = (at >= -low) & (at < n + high) if with_padding else (at >= 0) & (at < n)
            out = out[..., None] * inside.sum(1)
        return out


def windows(node: Node, sizes: Sequence[int], kernel: Sequence[int] | None = None) -> Windows:
    """The windows that the attributes of ``node`` describe, over axes of ``sizes``."""
    kernel = tuple(kernel or node.ints("kernel_shape"))
    n = len(kernel)
    if len(sizes) != n:
        raise ShapeError(f"{node}: a kernel of shape {kernel} doesn't fit an input of spatial shape {sizes}")
    strides, dilations = tuple(node.ints("strides", [1] * n)), tuple(node.ints("dilations", [1] * n))
    spans = tuple((size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True))
    pads = padding(node, sizes, spans, strides)
    extra = [0] * n
    if node.int("ceil_mode", 0):
        rows = zip(sizes, pads, spans, strides, strict=True)
        extra = [_partial(size, low, high, span, step) for size, (low, high), span, step in rows]
    return Windows(tuple(sizes), kernel, strides, dilations, pads, tuple(extra))


def padding(node: Node, sizes: Sequence[int], spans: Sequence[int], strides: Sequence[int]) -> Pads:
    """(low, high) for each axis, from ``pads`` or ``auto_pad``."""
    how = node.string("auto_pad", "NOTSET")
    if how == "NOTSET":
        return pairs(node.ints("pads", [0] * (2 * len(sizes))))
    if how == "VALID":
        return [(0, 0)] * len(sizes)
    rows = zip(sizes, spans, strides, strict=True)
    return [halves(max((-(-n // step) - 1) * step + span - n, 0), how) for n, span, step in rows]


def pairs(pads: Sequence[int]) -> Pads:
    """ONNX's [low of each axis..., high of each axis...] as (low, high) for each axis."""
    n = len(pads) // 2
    return list(zip(pads[:n], pads[n:], strict=True))


def halves(total: int, how: str) -> tuple[int, int]:
    """``total`` zeros on both sides; an odd one is the last for SAME_UPPER, else the first."""
    less, more = total // 2, total - total // 2
    return (less, more) if how == "SAME_UPPER" else (more, less)


def _partial(n: int, low: int, high: int, span: int, step: int) -> int:
    """The padding that makes room for a last, partial window, which starts within the input or before it."""
    places = -(-(n + low + high - span) // step) + 1
    if (places - 1) * step >= n + low:
        places -= 1
    return max((places - 1) * step + span - (n + low + high), 0)
