"""Other layouts of the same elements: windows and strides, diagonals, repeated elements, and rearranging by a
formula.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dawdle.errors import ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import Operand, Scalar, Shape, along, apply, axis_of, dims, shape_args
from dawdle.tensor.indexing import getitem
from dawdle.tensor.movement import diagonal
from dawdle.tensor.reduce import positions
from dawdle.tensor.reduce import sum as total

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


# ---- windows and strides


def unfold(x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of ``size`` every ``step`` elements along ``dimension``, as a new last dimension."""
    shape = x.lazy.shape
    axis = axis_of(dimension, len(shape), "unfold", shape)
    if not shape:
        return apply(Op.RESHAPE, (size,), x)
    rest = [i for i in range(len(shape)) if i != axis]
    windows = apply(Op.WINDOW, ((size, step, 1),), apply(Op.PERMUTE, (*rest, axis), x))
    order = [*range(axis), len(shape) - 1, *range(axis, len(shape) - 1), len(shape)]
    return apply(Op.PERMUTE, tuple(order), windows)


def as_strided(
    x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int = 0
) -> Tensor:
    """Element [i, j, ...] is element ``storage_offset + i * stride[0] + j * stride[1] + ...`` of the tensor
    in row-major order, whatever it is a view of. Raises ShapeError where that is outside of the tensor.
    """
    sizes = shape_args((tuple(size),), "as_strided")
    if len(sizes) != len(stride) or min(sizes, default=0) < 0:
        raise ShapeError(f"as_strided: {len(sizes)} sizes {sizes}, {len(stride)} strides {tuple(stride)}")
    ends = [(n - 1) * s for n, s in zip(sizes, stride, strict=True)]
    first = storage_offset + sum(min(e, 0) for e in ends)
    last = storage_offset + sum(max(e, 0) for e in ends)
    if math.prod(sizes) and not 0 <= first <= last < x.lazy.size:
        raise ShapeError(
            f"as_strided: size {sizes}, stride {tuple(stride)} and storage_offset {storage_offset} reach "
            f"from element {first} to {last}; shape {x.lazy.shape} has {x.lazy.size}"
        )
    places = type(x)._iota(1, None, x.lazy.device)
    places = apply(Op.RESHAPE, (1,) * len(sizes), ew.add(places, storage_offset))
    for axis, (n, s) in enumerate(zip(sizes, stride, strict=True)):
        line = along(type(x)._iota(n, None, x.lazy.device), axis, len(sizes))
        places = ew.add(places, ew.mul(line, s))
    flat = apply(Op.RESHAPE, (x.lazy.size,), x)
    found = apply(Op.GATHER, 0, flat, apply(Op.RESHAPE, (math.prod(sizes),), places))
    return apply(Op.RESHAPE, sizes, found)


# ---- repeated elements


@dims
def repeat_interleave(
    x: Tensor, repeats: int | Operand, dim: int | None = None, output_size: int | None = None
) -> Tensor:
    """Each element repeated in place along ``dim`` (in the flattened tensor by default): ``repeats`` times,
    or as often as its place in the 1-dimensional ``repeats`` says. A tensor of those is evaluated at once.
    """
    if dim is None:
        x, dim = apply(Op.RESHAPE, (x.lazy.size,), x), 0
    shape = x.lazy.shape
    axis = axis_of(dim, len(shape), "repeat_interleave", shape)
    if not shape:
        x, shape = apply(Op.RESHAPE, (1,), x), (1,)
    counts = np.asarray(repeats)
    if counts.dtype.kind not in "iu" or counts.ndim > 1 or (counts < 0).any():
        raise ShapeError(f"repeat_interleave: repeats must be a line of numbers from 0 on, got {repeats}")
    if counts.size != 1:
        if counts.size != shape[axis]:
            raise ShapeError(
                f"repeat_interleave: {counts.size} repeats for dimension {axis} of shape {shape}"
            )
        return getitem(x, (*[slice(None)] * axis, np.repeat(np.arange(shape[axis]), counts)))
    times = int(counts.reshape(()))
    wide = apply(Op.RESHAPE, (*shape[: axis + 1], 1, *shape[axis + 1 :]), x)
    wide = apply(Op.EXPAND, (*shape[: axis + 1], times, *shape[axis + 1 :]), wide)
    return apply(Op.RESHAPE, (*shape[:axis], shape[axis] * times, *shape[axis + 1 :]), wide)


# ---- diagonals


@dims
def diag_embed(x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The last dimension laid along a diagonal of two new ones, zeros elsewhere: the adjoint of
    :func:`diagonal`.
    """
    shape = x.lazy.shape
    if not shape:
        raise ShapeError("diag_embed needs at least one dimension; reshape the number to (1,)")
    full = len(shape) + 1
    a, b = (axis_of(d, full, "diag_embed", shape) for d in (dim1, dim2))
    if a == b:
        raise ShapeError(f"diag_embed: dims {dim1} and {dim2} are the same")
    lead, n = shape[:-1], shape[-1]
    m = n + abs(offset)
    start = max(-offset, 0) * m + max(offset, 0)
    gaps = (start, m * m - start - (n - 1) * (m + 1) - 1, m) if n else (0, m * m, 0)
    flat = apply(Op.PAD, (*[(0, 0, 0)] * len(lead), gaps), x)
    square = apply(Op.RESHAPE, (*lead, m, m), flat)
    order = list(range(len(lead)))
    for place, axis in sorted(((a, full - 2), (b, full - 1))):
        order.insert(place, axis)
    return apply(Op.PERMUTE, tuple(order), square)


def diag(x: Tensor, diagonal: int = 0) -> Tensor:
    """A vector as the diagonal of a matrix; of a matrix, its diagonal."""
    if len(x.lazy.shape) not in (1, 2):
        raise ShapeError(f"diag takes a vector or a matrix, got shape {x.lazy.shape}; use diagonal()")
    out: Tensor = (diag_embed if len(x.lazy.shape) == 1 else _diagonal)(x, diagonal)
    return out


def _diagonal(x: Tensor, offset: int) -> Tensor:
    out: Tensor = diagonal(x, offset)
    return out


def diagflat(x: Tensor, offset: int = 0) -> Tensor:
    """All elements along a diagonal of a matrix."""
    return diag(apply(Op.RESHAPE, (x.lazy.size,), x), offset)


def trace(x: Tensor) -> Tensor:
    """The sum of a matrix's diagonal."""
    if len(x.lazy.shape) != 2:
        raise ShapeError(f"trace takes a matrix, got shape {x.lazy.shape}; use diagonal().sum(-1)")
    out: Tensor = total(_diagonal(x, 0))
    return out


# ---- pixels


def pixel_shuffle(x: Tensor, upscale_factor: int) -> Tensor:
    """Shape (..., C r r, H, W) as (..., C, H r, W r). Source: Shi et al., Real-Time Single Image and Video
    Super-Resolution Using an Efficient Sub-Pixel CNN, 2016.
    """
    r = upscale_factor
    c, _, _ = _image(x, "pixel_shuffle")
    if r < 1 or c % (r * r):
        raise ShapeError(
            f"pixel_shuffle: {c} channels of shape {x.lazy.shape} are no multiple of {r} squared"
        )
    return rearrange(x, "... (c r s) h w -> ... c (h r) (w s)", r=r, s=r)


def pixel_unshuffle(x: Tensor, downscale_factor: int) -> Tensor:
    """Shape (..., C, H r, W r) as (..., C r r, H, W): the inverse of :func:`pixel_shuffle`."""
    r = downscale_factor
    _, h, w = _image(x, "pixel_unshuffle")
    if r < 1 or h % r or w % r:
        raise ShapeError(
            f"pixel_unshuffle: {h} x {w} pixels of shape {x.lazy.shape} are no multiples of {r}"
        )
    return rearrange(x, "... c (h r) (w s) -> ... (c r s) h w", r=r, s=r)


def _image(x: Tensor, what: str) -> Shape:
    if len(x.lazy.shape) < 3:
        raise ShapeError(f"{what} needs channels, rows and columns, got shape {x.lazy.shape}")
    return x.lazy.shape[-3:]


# ---- rearranging by a formula


def rearrange(x: Tensor, /, formula: str, **sizes: int) -> Tensor:
    """Dimensions named, split, exchanged and merged by a formula as einops has it.

    ``"b (h p) w -> b w (p h)"`` with ``p=2`` splits the second dimension into ``h`` and 2, and merges them
    the other way round, last. ``...`` stands for any dimensions, ``1`` and ``()`` for one of size 1. Source:
    Rogozhnikov, Einops: Clear and Reliable Tensor Manipulations with Einstein-like Notation, ICLR 2022.
    """
    left, arrow, right = formula.partition("->")
    if not arrow or "->" in right:
        raise ShapeError(f"rearrange: {formula!r} must be two sides with one '->' between them")
    shape = x.lazy.shape
    source, target = _groups(left, formula), _groups(right, formula)
    rest = len(shape) - len(source) + 1
    if ["..."] in source:
        if rest < 0:
            raise ShapeError(f"rearrange: {formula!r} names more dimensions than shape {shape} has")
        source = _with_rest(source, rest)
    target = _with_rest(target, max(rest, 0) if _has_rest(left) else 0)
    if len(source) != len(shape):
        raise ShapeError(
            f"rearrange: {formula!r} names {len(source)} dimensions, shape {shape} has {len(shape)}"
        )
    for name, size in sizes.items():
        if not isinstance(size, (int, np.integer)) or size < 0:
            raise ShapeError(f"rearrange: the size of {name!r} must be an integer from 0 on, got {size!r}")
    known = dict(sizes)
    for group, n in zip(source, shape, strict=True):
        _split(group, n, known, formula, shape)
    before = [name for group in source for name in group]
    after = [name for group in target for name in group]
    if len(set(before)) < len(before) or sorted(before) != sorted(after):
        raise ShapeError(f"rearrange: both sides of {formula!r} must name the same dimensions, each once")
    unknown = sizes.keys() - set(before)
    if unknown:
        raise ShapeError(f"rearrange: {formula!r} has no dimensions {sorted(unknown)}")
    wide = apply(Op.RESHAPE, tuple(known[name] for name in before), x)
    moved = apply(Op.PERMUTE, tuple(before.index(name) for name in after), wide)
    return apply(Op.RESHAPE, tuple(math.prod(known[name] for name in group) for group in target), moved)


Groups = list[list[str]]  # the dimensions of one side, each with the names that are merged in it


def _has_rest(side: str) -> bool:
    return "..." in side


def _groups(side: str, formula: str) -> Groups:
    """The dimensions of one side; ``1`` has no names, ``...`` that name."""
    out: Groups = []
    inside: list[str] | None = None
    for word in side.replace("(", " ( ").replace(")", " ) ").replace("...", " ... ").split():
        if word in "()":
            if (word == "(") != (inside is None):
                raise ShapeError(f"rearrange: the parentheses in {formula!r} don't match")
            if word == "(":
                inside = []
                out.append(inside)
            else:
                inside = None
        elif not (word.isidentifier() or word in ("1", "...")):
            raise ShapeError(f"rearrange: {word!r} in {formula!r} is no name, 1 or '...'")
        elif inside is not None:
            inside += [] if word == "1" else [word]
        else:
            out.append([] if word == "1" else [word])
    if inside is not None:
        raise ShapeError(f"rearrange: the parentheses in {formula!r} don't match")
    if sum(group.count("...") for group in out) > 1:
        raise ShapeError(f"rearrange: {formula!r} has several '...' on one side")
    return out


def _with_rest(groups: Groups, count: int) -> Groups:
    """``...`` replaced by names for the dimensions that it stands for."""
    names = [f".{i}" for i in range(count)]
    out: Groups = []
    for group in groups:
        if group == ["..."]:
            out += [[name] for name in names]
        else:
            out.append([n for name in group for n in (names if name == "..." else [name])])
    return out


def _split(group: Sequence[str], n: int, known: dict[str, int], formula: str, shape: Shape) -> None:
    """Find the one size that isn't known of a dimension of size ``n``."""
    missing = [name for name in group if name not in known]
    rest = math.prod(known[name] for name in group if name in known)
    if len(missing) > 1:
        raise ShapeError(f"rearrange: give the sizes of all but one of {missing} in {formula!r}")
    if missing and rest and n % rest == 0:
        known[missing[0]] = n // rest
    elif missing or rest != n:
        parts = " ".join(f"{name}={known[name]}" if name in known else name for name in group)
        raise ShapeError(
            f"rearrange: a dimension of size {n} of shape {shape} doesn't split into ({parts}) of {formula!r}"
        )


def fill_diagonal_(x: Tensor, fill_value: Scalar | Tensor, wrap: bool = False) -> Tensor:
    """In place: ``fill_value`` where all indices are equal; with ``wrap`` a tall matrix has further
    diagonals, each after an empty row. Raises ShapeError for fewer than two dimensions, or more of
    different sizes.
    """
    shape = x.lazy.shape
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise ShapeError(f"fill_diagonal_ takes matrices, or equal sizes, got shape {shape}")
    first = positions(x, 0)
    if wrap and len(shape) == 2:
        first = ew.mod(first, shape[1] + 1)
    mask = ew.eq(first, positions(x, 1))
    for axis in range(2, len(shape)):
        mask = ew.bitand(mask, ew.eq(first, positions(x, axis)))
    return x._rebind(ew.masked_fill(x, mask, fill_value))
