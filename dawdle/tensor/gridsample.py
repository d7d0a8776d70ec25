"""Images and volumes read at places that a tensor of coordinates gives."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dawdle.dtype import int32, int64
from dawdle.errors import ArgumentError, DTypeError, ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.arithmetic import clamp
from dawdle.tensor.core import along, apply, cast, constant, cut, expand_to, operands, widen
from dawdle.tensor.joining import stack
from dawdle.tensor.linalg import matmul
from dawdle.tensor.resample import keys_cubics

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

Taps = tuple["Tensor", "Tensor | None"]  # (N, taps, places) positions along one axis, and weights (None: 1)


@operands("grid")
def grid_sample(
    x: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """(N, C, *sizes) read at ``grid`` (N, *places, d): coordinates from -1 to 1, the last size's first. The
    result is (N, C, *places).

    -1 and 1 are the centres of the outermost elements with ``align_corners``, else their outer edges.
    ``mode`` is "bilinear" (for three sizes, trilinear), "nearest" or, for two sizes, "bicubic". Beyond the
    edges lie zeros, the edges ("border") or the reflected image ("reflection"). As PyTorch's; gradients flow
    to both operands. Raises ShapeError where shapes don't fit.

    Source: Jaderberg et al., Spatial Transformer Networks, 2015.
    """
    shape, places = x.lazy.shape, grid.lazy.shape
    n = len(shape) - 2
    if n not in (2, 3) or len(places) != n + 2 or places[-1] != n or places[0] != shape[0]:
        raise ShapeError(
            f"grid_sample takes (N, C, H, W) and a grid (N, *places, 2), or three sizes and a last dimension "
            f"of 3, got {shape} and {places}"
        )
    if mode not in MODES or padding_mode not in PADDINGS or (mode == "bicubic" and n != 2):
        raise ArgumentError(
            f"grid_sample: mode {mode!r} with padding_mode {padding_mode!r} and {n} sizes; modes are "
            f"{', '.join(MODES)} (bicubic for 2 sizes), padding modes {', '.join(PADDINGS)}"
        )
    if not (x.lazy.dtype.is_float and grid.lazy.dtype.is_float):
        raise DTypeError(
            f"grid_sample takes floats, got {x.lazy.dtype.name} and {grid.lazy.dtype.name}; cast them"
        )
    if 0 in shape[2:]:
        raise ShapeError(f"grid_sample can't read from shape {shape}, which has no elements")
    return sampled(x, grid, mode, padding_mode, bool(align_corners))


def sampled(x: Tensor, grid: Tensor, mode: str, padding_mode: str, align_corners: bool) -> Tensor:
    """:func:`grid_sample` of operands that fit, over any number of sizes and in any mode."""
    shape, places = x.lazy.shape, grid.lazy.shape
    n = len(shape) - 2
    taps = []
    for axis, size in enumerate(shape[2:]):
        at = _on_axis(_coordinate(widen(grid), n - 1 - axis), size, align_corners)
        pad = functools.partial(PADDINGS[padding_mode], size=size, align_corners=align_corners)
        taps.append(MODES[mode](at, pad))
    return cast(read(widen(x), taps, places[1:-1]), x.lazy.dtype)


def _coordinate(grid: Tensor, which: int) -> Tensor:
    """Coordinate number ``which``, of shape (N, number of places)."""
    shape = grid.lazy.shape
    part = cut(grid, len(shape) - 1, which, which + 1)
    return apply(Op.RESHAPE, (shape[0], math.prod(shape[1:-1])), part)


def _on_axis(coordinate: Tensor, size: int, align_corners: bool) -> Tensor:
    """A coordinate from -1 to 1 counted in elements."""
    if align_corners:
        return ew.mul(ew.add(coordinate, 1.0), (size - 1) / 2)
    return ew.mul(ew.sub(ew.mul(ew.add(coordinate, 1.0), float(size)), 1.0), 0.5)


# ---- beyond the edges


def _zeros(at: Tensor, size: int, align_corners: bool) -> Tensor:
    return at


def _border(at: Tensor, size: int, align_corners: bool) -> Tensor:
    """At the edges and beyond them there is no gradient, as in PyTorch."""
    inside = ew.bitand(ew.gt(at, 0.0), ew.lt(at, float(size - 1)))
    return ew.where(inside, at, clamp(at.detach(), 0.0, float(size - 1)))


def _reflection(at: Tensor, size: int, align_corners: bool) -> Tensor:
    low, span = (0.0, float(size - 1)) if align_corners else (-0.5, float(size))
    if not span:
        return ew.mul(at, 0.0)
    distance = ew.absolute(ew.sub(at, low))
    turns = ew.floor(ew.mul(distance.detach(), 1 / span))
    rest = ew.sub(distance, ew.mul(turns, span))
    even = ew.eq(ew.mod(turns, 2.0), 0.0)
    back = ew.where(even, ew.add(rest, low), (span + low) - rest)
    return _border(back, size, align_corners)


PADDINGS: dict[str, Callable[..., Tensor]] = {"zeros": _zeros, "border": _border, "reflection": _reflection}


# ---- the elements around a position

Pad = Callable[["Tensor"], "Tensor"]
A = -0.75  # of Keys' kernel


def _nearest(at: Tensor, pad: Pad) -> Taps:
    return ew.round(_wide(pad(at).detach())), None


def _linear(at: Tensor, pad: Pad) -> Taps:
    return beside(pad(at))


def beside(at: Tensor) -> Taps:
    """The two elements around positions (N, places), by their distance."""
    at = _wide(at)
    low = ew.floor(at.detach())
    rest = ew.sub(at, low)
    number = _numbers(at, 2)
    return ew.add(low, number), ew.where(ew.eq(number, 0.0), 1.0 - rest, rest)


def _cubic(at: Tensor, pad: Pad) -> Taps:
    at = _wide(at)
    low = ew.floor(at.detach())
    offset = ew.sub(_numbers(at, 4), 1.0)
    d = ew.absolute(ew.sub(ew.sub(at, low), offset))
    near, far = keys_cubics(d, A)
    return pad(ew.add(low, offset).detach()), ew.where(ew.le(d, 1.0), near, far)


def _wide(at: Tensor) -> Tensor:
    batch, count = at.lazy.shape
    return apply(Op.RESHAPE, (batch, 1, count), at)


def _numbers(like: Tensor, n: int) -> Tensor:
    """0, 1, ... along dimension 1."""
    return cast(along(type(like)._iota(n, None, like.lazy.device), 1, 3), like.lazy.dtype)


MODES: dict[str, Callable[[Tensor, Pad], Taps]] = {
    "bilinear": _linear, "nearest": _nearest, "bicubic": _cubic,
}  # fmt: skip


def read(x: Tensor, taps: Sequence[Taps], places: tuple[int, ...]) -> Tensor:
    """(N, C, *sizes) at places: the sum over all combinations of one tap for each axis."""
    parts = combinations(x, taps)
    batch, channels, number, _ = parts.lazy.shape
    if number > 1:
        parts = apply(Op.SUM, (2,), parts)
    return apply(Op.RESHAPE, (batch, channels, *places), parts)


def combinations(x: Tensor, taps: Sequence[Taps]) -> Tensor:
    """(N, C, combinations, places): the weighted elements, by one GATHER from the axes flattened. Those
    outside of ``x`` are 0.
    """
    batch, channels, *sizes = x.lazy.shape
    n, count = len(sizes), taps[0][0].lazy.shape[-1]
    index = inside = weight = None
    for i, ((at, share), size) in enumerate(zip(taps, sizes, strict=True)):
        at, share = _combined(at, i, n), None if share is None else _combined(share, i, n)
        within = ew.bitand(ew.ge(at, 0.0), ew.le(at, float(size - 1)))
        whole = cast(ew.where(within, at, 0.0), int32 if math.prod(sizes) < 2**31 else int64)
        inside = within if inside is None else ew.bitand(inside, within)
        index = whole if index is None else ew.add(ew.mul(index, size), whole)
        weight = share if weight is None or share is None else ew.mul(weight, share)
    assert index is not None and inside is not None
    index = ew.where(inside, index, -1)
    number = math.prod(index.lazy.shape[1:-1])
    index = apply(Op.RESHAPE, (batch, 1, number * count), index)
    flat = apply(Op.RESHAPE, (batch, channels, math.prod(sizes)), x)
    parts = apply(Op.GATHER, 2, flat, apply(Op.EXPAND, (batch, channels, number * count), index))
    parts = apply(Op.RESHAPE, (batch, channels, number, count), parts)
    return parts if weight is None else ew.mul(parts, apply(Op.RESHAPE, (batch, 1, number, count), weight))


def _combined(t: Tensor, i: int, n: int) -> Tensor:
    """(N, taps, places) with the taps in the place ``i`` of ``n`` axes of taps."""
    batch, number, count = t.lazy.shape
    return apply(Op.RESHAPE, (batch, *[number if j == i else 1 for j in range(n)], count), t)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid (N, *sizes, d) for :func:`grid_sample` by which each place of an image of ``size``
    (N, C, *sizes) is mapped by the affine matrix ``theta`` (N, d, d + 1). Raises ShapeError where shapes
    don't fit.
    """
    sizes = [int(s) for s in size][2:]
    n = len(sizes)
    if n not in (2, 3) or theta.lazy.shape != (size[0], n, n + 1) or min(sizes) < 1:
        raise ShapeError(
            f"affine_grid takes theta (N, d, d + 1) and a size (N, C, *d sizes), d 2 or 3, "
            f"got {theta.lazy.shape} and {tuple(size)}"
        )
    if not theta.lazy.dtype.is_float:
        raise DTypeError(f"affine_grid takes floats, got {theta.lazy.dtype.name}; cast theta")
    columns = []
    for axis, count in reversed(list(enumerate(sizes))):
        line = _spread_places(theta, count, bool(align_corners))
        columns.append(expand_to(along(line, axis, n), tuple(sizes)))
    columns.append(constant(columns[0], 1.0))
    base = apply(Op.RESHAPE, (math.prod(sizes), n + 1), stack(columns, -1))
    out = matmul(base, theta.transpose(1, 2))
    return apply(Op.RESHAPE, (theta.lazy.shape[0], *sizes, n), out)


def _spread_places(like: Tensor, count: int, align_corners: bool) -> Tensor:
    """``count`` coordinates spread over -1 to 1."""
    i = cast(type(like)._iota(count, None, like.lazy.device), like.lazy.dtype)
    if align_corners:
        return ew.sub(ew.mul(i, 2 / (count - 1)), 1.0) if count > 1 else ew.mul(i, 0.0)
    return ew.sub(ew.mul(ew.add(i, 0.5), 2 / count), 1.0)
