"""Where the windows of convolutions and pools lie: numbers for each axis from the forms in which users give
them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dawdle.dtype import Array
from dawdle.errors import ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor.core import Scalar, Shape, apply
from dawdle.tensor.movement import contiguous, pad_dims

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

Sizes = int | Sequence[int]


def each(value: Sizes, n: int, what: str, least: int = 1) -> Shape:
    """A size for each of ``n`` dimensions."""
    sizes = tuple(value) if isinstance(value, (Sequence, np.ndarray)) else (value,) * n
    if len(sizes) == 1 and n > 1:
        sizes *= n
    if len(sizes) != n or any(not isinstance(s, (int, np.integer)) or s < least for s in sizes):
        raise ShapeError(f"{what} must be an integer of at least {least}, or {n} of them, got {value!r}")
    return tuple(int(s) for s in sizes)


def paddings(value: Any, n: int, span: Sequence[int], what: str = "padding") -> list[tuple[int, int]]:
    """(low, high) for each of ``n`` dimensions from a number, a number for each, a pair for each, "same" or
    "valid".
    """
    if isinstance(value, str):
        if value not in ("same", "valid"):
            raise ShapeError(f"{what} must be numbers, 'same' or 'valid', got {value!r}")
        return [((s - 1) // 2, s // 2) if value == "same" else (0, 0) for s in span]
    pairs = isinstance(value, (list, tuple)) and all(isinstance(v, (list, tuple)) for v in value)
    if not pairs or not value:
        return [(p, p) for p in each(value, n, what, 0)]
    if len(value) != n or any(len(v) != 2 for v in value):
        raise ShapeError(f"{what} must be a (low, high) pair for each of {n} dimensions, got {value!r}")
    return [(int(low), int(high)) for low, high in value]


def for_sizes(function: Callable[..., Any], n: int) -> Callable[..., Any]:
    """``function(x, n, ...)`` as a function of its own for inputs (N, C, *n sizes), or without the batch."""

    @functools.wraps(function)
    def ranked(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if len(x.lazy.shape) not in (n + 1, n + 2):
            raise ShapeError(
                f"{ranked.__name__} takes (N, C, {', '.join('DHW'[3 - n :])}), or that without N, "
                f"got shape {x.lazy.shape}"
            )
        return function(x, n, *args, **kwargs)

    ranked.__name__ = ranked.__qualname__ = f"{function.__name__}{n}d"
    signature = inspect.signature(function)
    kept = [p for name, p in signature.parameters.items() if name != "n"]
    ranked.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    return ranked


@dataclass(frozen=True)
class Windows:
    """The windows over the last axes of an input, one number for each of these axes in every field.

    ``extra`` is what ``ceil_mode`` adds after the padding that was asked for.
    """

    sizes: Shape
    kernel: Shape
    strides: Shape
    dilations: Shape
    pads: tuple[tuple[int, int], ...]
    extra: Shape

    @property
    def arg(self) -> tuple[tuple[int, int, int], ...]:
        """WINDOW's argument."""
        return tuple(zip(self.kernel, self.strides, self.dilations, strict=True))

    @property
    def amounts(self) -> list[tuple[int, int]]:
        """What is put around the input."""
        return [(low, high + more) for (low, high), more in zip(self.pads, self.extra, strict=True)]

    @property
    def is_padded(self) -> bool:
        """Whether a window may hold what isn't of the input."""
        return any(low or high for low, high in self.amounts)

    @property
    def places(self) -> Shape:
        """How many windows there are along each axis."""
        rows = zip(self.sizes, self.amounts, self.arg, strict=True)
        return tuple((n + low + high - (k - 1) * d - 1) // s + 1 for n, (low, high), (k, s, d) in rows)

    def of(self, x: Tensor, value: Scalar = 0, laid: bool = False) -> Tensor:
        """(..., *places, *kernel): the windows of ``x``, padded with ``value``; ``laid`` out in memory with
        its padding, for those who look at a window several times.
        """
        lead = len(x.lazy.shape) - len(self.kernel)
        padded = pad_dims(x, [(0, 0)] * lead + self.amounts, value)
        if laid and self.overlap and self.is_padded:
            padded = contiguous(padded)
        return apply(Op.WINDOW, self.arg, padded)

    def back(self, opened: Tensor) -> Tensor:
        """The adjoint of :meth:`of`: (..., *places, *kernel) added up at the places of the input that they
        come from, (..., *sizes).
        """
        padded = tuple(n + low + high for n, (low, high) in zip(self.sizes, self.amounts, strict=True))
        out = apply(Op.UNWINDOW, (self.arg, padded), opened)
        lead = len(out.lazy.shape) - len(padded)
        return pad_dims(out, [(0, 0)] * lead + [(-low, -high) for low, high in self.amounts])

    @property
    def overlap(self) -> bool:
        """Whether an element may be in several windows."""
        return any(k > 1 and (k > s or d > 1) for k, s, d in self.arg)

    def around(self, x: Tensor) -> Tensor:
        """What ``x`` (..., *places) holds for the windows that each element of the input is in: (..., *sizes,
        *kernel), where the first is the window of which it is the last element; 0 where there is no window.

        What is read is laid out once with zeros in between, so that kernels load it without conditions.
        """
        rows = zip(self.sizes, self.places, self.arg, self.pads, strict=True)
        amounts = [
            ((k - 1) * d - low, size + low - (count - 1) * s - 1, s - 1)
            for size, count, (k, s, d), (low, _) in rows
        ]
        lead = [(0, 0, 0)] * (len(x.lazy.shape) - len(amounts))
        laid = pad_dims(x, lead + amounts)
        return apply(Op.WINDOW, tuple((k, 1, d) for k, _, d in self.arg), contiguous(laid))

    def starts(self, axis: int) -> Array:
        """Where along ``axis`` each element of each window lies, (places, kernel)."""
        size, stride, dilation = self.arg[axis]
        places = np.arange(self.places[axis])[:, None] * stride
        return np.asarray(places + np.arange(size) * dilation - self.pads[axis][0])

    def counts(self, with_padding: bool) -> Array:
        """How many elements of the input, or of its padding too, each window has."""
        out = np.ones((), np.int64)
        for axis, (n, (low, high)) in enumerate(zip(self.sizes, self.pads, strict=True)):
            at = self.starts(axis)
            inside = (at >= -low) & (at < n + high) if with_padding else (at >= 0) & (at < n)
            out = out[..., None] * inside.sum(1)
        return out


def windows(
    shape: Shape,
    kernel: Shape,
    strides: Shape,
    dilations: Shape,
    padding: Any,
    what: str,
    ceil_mode: bool = False,
) -> Windows:
    """The windows over the last dimensions of an input of ``shape``. Raises ShapeError where one is larger
    than the padded input.
    """
    n = len(kernel)
    sizes = shape[len(shape) - n :]
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = paddings(padding, n, span)
    room = [size + low + high for size, (low, high) in zip(sizes, pads, strict=True)]
    extra = [0] * n
    if ceil_mode:
        rows = zip(sizes, pads, span, strides, strict=True)
        extra = [_partial(size, p, s, step) for size, p, s, step in rows]
    if any(s > r + more for s, r, more in zip(span, room, extra, strict=True)):
        raise ShapeError(
            f"{what}: a window spanning {tuple(span)} is larger than the padded input {tuple(room)} "
            f"(input {shape}); pad more or use a smaller kernel"
        )
    return Windows(sizes, kernel, strides, dilations, tuple(pads), tuple(extra))


def _partial(size: int, pads: tuple[int, int], span: int, stride: int) -> int:
    """Room for a last, partial window, as long as that starts within the input or its low padding."""
    low, high = pads
    count = -(-(size + low + high - span) // stride) + 1
    if (count - 1) * stride >= size + low:
        count -= 1
    return max((count - 1) * stride + span - (size + low + high), 0)
