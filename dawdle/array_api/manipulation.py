"""Manipulation functions: the same elements in another shape or order."""

from __future__ import annotations

from collections.abc import Sequence

from dawdle.errors import ShapeError
from dawdle.tensor import Tensor
from dawdle.tensor.joining import broadcast_tensors

__all__ = [
    "broadcast_arrays", "broadcast_to", "concat", "expand_dims", "flip", "moveaxis", "permute_dims",
    "repeat", "reshape", "roll", "squeeze", "stack", "tile", "unstack",
]  # fmt: skip

Axes = int | tuple[int, ...]


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """All arrays in their common shape."""
    return list(broadcast_tensors(*arrays))


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """``x`` in a shape that it broadcasts to."""
    return x.broadcast_to(shape)


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Arrays one after the other along ``axis``, or flattened (None), in their common dtype."""
    return Tensor.cat(list(arrays), dim=axis)


def expand_dims(x: Tensor, /, axis: int = 0) -> Tensor:
    """A new axis of size 1 at ``axis``."""
    return x.unsqueeze(axis)


def flip(x: Tensor, /, *, axis: Axes | None = None) -> Tensor:
    """The order of elements reversed along some axes (all by default)."""
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return x.flip(tuple(axes))


def moveaxis(x: Tensor, source: Axes, destination: Axes, /) -> Tensor:
    """Axes moved to other places; the others stay in order."""
    return x.movedim(source, destination)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """The axes in another order."""
    return x.permute(axes)


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element repeated, along ``axis`` or in the flattened array."""
    return x.repeat_interleave(repeats, dim=axis)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The elements in another shape; ``copy`` makes no difference to immutable values."""
    return x.reshape(shape)


def roll(x: Tensor, /, shift: Axes, *, axis: Axes | None = None) -> Tensor:
    """Elements shifted along some axes, or in the flattened array, round its end."""
    if axis is not None and isinstance(shift, int) and not isinstance(axis, int):
        shift = (shift,) * len(axis)
    return x.roll(shift, axis)


def squeeze(x: Tensor, /, axis: Axes) -> Tensor:
    """Without some axes of size 1. Raises ShapeError (a ValueError) for others."""
    for i in (axis,) if isinstance(axis, int) else axis:
        if x.size(i) != 1:
            raise ShapeError(f"squeeze: axis {i} of shape {x.shape} has not size 1")
    return x.squeeze(axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Arrays of one shape along a new axis."""
    return Tensor.stack(list(arrays), dim=axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """The array repeated as a whole along each axis."""
    return x.tile(repetitions)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along ``axis``."""
    return tuple(x.unbind(axis))
