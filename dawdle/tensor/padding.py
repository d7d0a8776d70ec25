"""Elements put around a tensor, and moved round in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dawdle.errors import ArgumentError, ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor.core import Scalar, apply, axis_of, cut, dims, keywords
from dawdle.tensor.joining import cat
from dawdle.tensor.movement import flip, pad_dims

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


def pad(x: Tensor, pad: Sequence[Any], mode: str = "constant", value: Scalar | None = None) -> Tensor:
    """Elements put around the last dimensions.

    ``pad`` is PyTorch's flat form (low and high of the last dimension, then of the one before, ...) or a
    (low, high) pair for each dimension. Negative amounts remove elements. ``mode`` is "constant" (``value``,
    0 by default), "reflect", "replicate" or "circular".
    """
    pairs = _pairs(x, pad)
    if mode == "constant":
        return pad_dims(x, pairs, value or 0)
    if value is not None and value != 0:
        raise ArgumentError(f"pad: mode {mode!r} takes no value, got {value}")
    x = pad_dims(x, [(min(low, 0), min(high, 0)) for low, high in pairs])
    for axis, (low, high) in enumerate(pairs):
        if low > 0 or high > 0:
            x = _pad_from_itself(x, axis, max(low, 0), max(high, 0), mode)
    return x


def _pairs(x: Tensor, pad: Sequence[Any]) -> list[tuple[int, int]]:
    """(low, high) for each dimension."""
    n = len(x.lazy.shape)
    if any(isinstance(p, str) for p in pad):
        raise ShapeError(f"pad: amounts are integers, got {tuple(pad)}")
    if len(pad) and not isinstance(pad[0], int):
        if not all(isinstance(p, Sequence) and len(p) == 2 for p in pad):
            raise ShapeError(f"pad: amounts are (low, high) for each dimension, got {tuple(pad)}")
        pairs = [(int(a), int(b)) for a, b in pad]
        if len(pairs) != n:
            raise ShapeError(f"pad: {len(pairs)} pairs for the {n} dimensions of shape {x.lazy.shape}")
        return pairs
    if len(pad) % 2 or len(pad) > 2 * n:
        raise ShapeError(f"pad: a flat list holds low and high for up to {n} dimensions, got {tuple(pad)}")
    given = [(int(pad[i]), int(pad[i + 1])) for i in range(0, len(pad), 2)]
    return [(0, 0)] * (n - len(given)) + given[::-1]


def _pad_from_itself(x: Tensor, axis: int, low: int, high: int, mode: str) -> Tensor:
    n = x.lazy.shape[axis]
    if mode not in SOURCES:
        raise ArgumentError(f"pad: mode {mode!r} is unknown; use constant, {', '.join(SOURCES)}")
    most, ends = SOURCES[mode]
    if max(low, high) > most(n):
        raise ShapeError(
            f"pad: ({low}, {high}) is too much for mode {mode!r} of a dimension of {n}; at most {most(n)}"
        )
    before, after = ends(x, axis, low, high)
    out: Tensor = cat([before, x, after], axis)
    return out


Ends = tuple["Tensor", "Tensor"]


def _reflected(x: Tensor, axis: int, low: int, high: int) -> Ends:
    last = x.lazy.shape[axis] - 1
    return flip(cut(x, axis, 1, low + 1), axis), flip(cut(x, axis, last - high, last), axis)


def _replicated(x: Tensor, axis: int, low: int, high: int) -> Ends:
    shape = x.lazy.shape
    first, last = cut(x, axis, 0, 1), cut(x, axis, shape[axis] - 1, shape[axis])
    before, after = ((*shape[:axis], count, *shape[axis + 1 :]) for count in (low, high))
    return apply(Op.EXPAND, before, first), apply(Op.EXPAND, after, last)


def _wrapped(x: Tensor, axis: int, low: int, high: int) -> Ends:
    n = x.lazy.shape[axis]
    return cut(x, axis, n - low, n), cut(x, axis, 0, high)


# mode -> (how many elements a side of n can get at the most, what both sides get)
SOURCES: dict[str, tuple[Callable[[int], float], Callable[[Tensor, int, int, int], Ends]]] = {
    "reflect": (lambda n: n - 1, _reflected),
    "replicate": (lambda n: math.inf if n else 0, _replicated),
    "circular": (lambda n: n, _wrapped),
}


@keywords(dims="dim")
@dims
def roll(x: Tensor, shifts: int | Sequence[int], dim: int | Sequence[int] | None = None) -> Tensor:
    """Elements moved on by ``shifts`` along ``dim`` (in the flattened tensor by default), those that fall off
    re-enter.
    """
    if dim is None:
        if not isinstance(shifts, int):
            raise ShapeError("roll: several shifts need a dim for each")
        flat = apply(Op.RESHAPE, (x.lazy.size,), x)
        return apply(Op.RESHAPE, x.lazy.shape, _rolled(flat, shifts, 0))
    amounts = [shifts] if isinstance(shifts, int) else list(shifts)
    axes = [dim] if isinstance(dim, int) else list(dim)
    if len(amounts) != len(axes):
        raise ShapeError(f"roll: {len(amounts)} shifts for {len(axes)} dims")
    for amount, d in zip(amounts, axes, strict=True):
        x = _rolled(x, amount, axis_of(d, len(x.lazy.shape), "roll", x.lazy.shape))
    return apply(Op.RESHAPE, x.lazy.shape, x)


def _rolled(x: Tensor, amount: int, axis: int) -> Tensor:
    shape = x.lazy.shape
    n = shape[axis] if shape else 0
    if not n or not amount % n:
        return x
    at = n - amount % n
    out: Tensor = cat([cut(x, axis, at, n), cut(x, axis, 0, at)], axis)
    return out
