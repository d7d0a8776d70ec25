"""Functions that move elements without changing them: reshape, transpose, slice, pad, join, split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dawdle.dtype import bool_
from dawdle.errors import ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.autograd import Composite
from dawdle.tensor.core import (
    Dim,
    Scalar,
    apply,
    axes_of,
    axis_of,
    cast,
    composite,
    constant,
    dims,
    expand_to,
    shape_args,
)
from dawdle.tensor.reduce import common_dtype

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


def reshape(x: Tensor, *shape: Any) -> Tensor:
    """The same elements, in row-major order, under another shape; one size may be -1, to be found from the
    rest.
    """
    new = list(shape_args(shape, "reshape"))
    old = x.lazy.shape
    if new.count(-1) > 1:
        raise ShapeError(f"reshape: only one size may be -1, got {tuple(new)}")
    if -1 in new:
        known = math.prod(n for n in new if n != -1)
        if known == 0 or x.lazy.size % known:
            raise ShapeError(
                f"cannot reshape {old} with {x.lazy.size} elements into {tuple(new)}: "
                f"the known sizes multiply to {known}, which leaves no whole number for -1"
            )
        new[new.index(-1)] = x.lazy.size // known
    return apply(Op.RESHAPE, tuple(new), x)


def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions ``start_dim`` to ``end_dim``, both included, merged into one."""
    shape = x.lazy.shape
    first, last = (axis_of(d, len(shape), "flatten", shape) for d in (start_dim, end_dim))
    if first > last:
        raise ShapeError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim} in shape {shape}")
    return apply(Op.RESHAPE, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]), x)


@dims
def unflatten(x: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Dimension ``dim`` split into ``sizes``, of which one may be -1."""
    shape = x.lazy.shape
    axis = axis_of(dim, len(shape), "unflatten", shape)
    part = list(sizes)
    if part.count(-1) == 1:
        part[part.index(-1)] = shape[axis] // max(math.prod(n for n in part if n != -1), 1)
    if math.prod(part) != shape[axis]:
        raise ShapeError(f"unflatten: dimension {axis} of shape {shape} doesn't split into {tuple(sizes)}")
    return apply(Op.RESHAPE, (*shape[:axis], *part, *shape[axis + 1 :]), x)


def permute(x: Tensor, *dims: Any) -> Tensor:
    """Dimension ``i`` of the result is dimension ``dims[i]``."""
    shape = x.lazy.shape
    order = [axis_of(d, len(shape), "permute", shape) for d in shape_args(dims, "permute")]
    return apply(Op.PERMUTE, tuple(order), x)


def transpose(x: Tensor, dim0: int = 1, dim1: int = 0) -> Tensor:
    """Two dimensions exchanged."""
    shape = x.lazy.shape
    a, b = (axis_of(d, len(shape), "transpose", shape) for d in (dim0, dim1))
    order = list(range(len(shape)))
    if order:
        order[a], order[b] = b, a
    return apply(Op.PERMUTE, tuple(order), x)


def reversed_dims(x: Tensor) -> Tensor:
    """All dimensions in reverse order."""
    return apply(Op.PERMUTE, tuple(range(len(x.lazy.shape)))[::-1], x)


def matrix_transpose(x: Tensor) -> Tensor:
    """The last two dimensions exchanged."""
    if len(x.lazy.shape) < 2:
        raise ShapeError(f".mT needs at least two dimensions, got shape {x.lazy.shape}")
    return transpose(x, -2, -1)


def movedim(x: Tensor, source: int, destination: int) -> Tensor:
    """Dimension ``source`` moved to ``destination``, the others kept in order."""
    shape = x.lazy.shape
    a, b = (axis_of(d, len(shape), "movedim", shape) for d in (source, destination))
    order = [i for i in range(len(shape)) if i != a]
    order.insert(b, a)
    return apply(Op.PERMUTE, tuple(order), x)


@dims
def squeeze(x: Tensor, dim: Dim = None) -> Tensor:
    """Without the dimensions of size 1, or those of them that ``dim`` names."""
    axes = axes_of(dim, x, "squeeze")
    shape = x.lazy.shape
    return apply(Op.RESHAPE, tuple(n for i, n in enumerate(shape) if i not in axes or n != 1), x)


@dims
def unsqueeze(x: Tensor, dim: int) -> Tensor:
    """With a dimension of size 1 put in before ``dim``."""
    shape = x.lazy.shape
    axis = axis_of(dim, len(shape) + 1, "unsqueeze", shape)
    return apply(Op.RESHAPE, (*shape[:axis], 1, *shape[axis:]), x)


def expand(x: Tensor, *shape: Any) -> Tensor:
    """Dimensions of size 1 repeated to ``shape``, where -1 keeps a size; new ones may be put in front."""
    new = shape_args(shape, "expand")
    old = x.lazy.shape
    extra = len(new) - len(old)
    sizes = tuple(old[i - extra] if n == -1 and i >= extra else n for i, n in enumerate(new))
    if extra < 0 or any(a not in (1, b) for a, b in zip(old, sizes[max(extra, 0) :], strict=True)):
        raise ShapeError(
            f"cannot expand {old} to {new}: only dimensions of size 1 expand, and none may be left out"
        )
    return expand_to(x, sizes) if sizes != old else apply(Op.RESHAPE, old, x)


def expand_as(x: Tensor, other: Tensor) -> Tensor:
    """``x`` broadcast to the shape of ``other``."""
    return expand(x, *other.shape)


def view_as(x: Tensor, other: Tensor) -> Tensor:
    """``x`` reshaped to the shape of ``other``."""
    return reshape(x, *other.shape)


def flip(x: Tensor, *dims: Any) -> Tensor:
    """The order of elements reversed along ``dims``."""
    return apply(Op.FLIP, axes_of(shape_args(dims, "flip"), x, "flip"), x)


def shrink(x: Tensor, ranges: Sequence[tuple[int, int]]) -> Tensor:
    """The part between (start, stop) along each dimension."""
    return apply(Op.SLICE, tuple((a, b, 1) for a, b in ranges), x)


Amounts = Sequence["tuple[int, int] | tuple[int, int, int]"]


def pad_dims(x: Tensor, amounts: Amounts, value: Scalar = 0) -> Tensor:
    """``value`` put before and after the elements of each dimension: ``amounts`` holds (low, high) for each.

    A third number puts that many between any two elements. Negative amounts remove elements.
    """
    full = [(a[0], a[1], a[2] if len(a) > 2 else 0) for a in amounts]
    if any(low < 0 or high < 0 for low, high, _ in full):
        shape = x.lazy.shape
        kept = [(max(-a, 0), n - max(-b, 0)) for n, (a, b, _) in zip(shape, full, strict=True)]
        if any(a > b for a, b in kept):
            raise ShapeError(f"pad: amounts {tuple(amounts)} remove more than shape {shape} has")
        x = shrink(x, kept)
        full = [(max(a, 0), max(b, 0), c) for a, b, c in full]
    padded = apply(Op.PAD, tuple(full), x)
    if value == 0 or padded.lazy.shape == x.lazy.shape:
        return padded
    inside = apply(Op.PAD, tuple(full), constant(x, True, bool_))
    return ew.where(inside, padded, value)


def pad(x: Tensor, pad: Sequence[Any], mode: str = "constant", value: Scalar = 0) -> Tensor:
    """Elements put around the last dimensions.

    ``pad`` is PyTorch's flat form (low and high of the last dimension, then of the one before, ...) or a
    (low, high) pair for each dimension. ``mode`` is "constant", "reflect", "replicate" or "circular".
    """
    n = len(x.lazy.shape)
    if pad and not isinstance(pad[0], int):
        pairs = [(int(a), int(b)) for a, b in pad]
        if len(pairs) != n:
            raise ShapeError(f"pad: {len(pairs)} pairs for the {n} dimensions of shape {x.lazy.shape}")
    else:
        if len(pad) % 2 or len(pad) > 2 * n:
            raise ShapeError(
                f"pad: a flat list holds low and high for up to {n} dimensions, got {tuple(pad)}"
            )
        given = [(int(pad[i]), int(pad[i + 1])) for i in range(0, len(pad), 2)]
        pairs = [(0, 0)] * (n - len(given)) + given[::-1]
    if mode == "constant":
        return pad_dims(x, pairs, value)
    for axis, (low, high) in enumerate(pairs):
        if low or high:
            x = _pad_from_itself(x, axis, low, high, mode)
    return x


def _pad_from_itself(x: Tensor, axis: int, low: int, high: int, mode: str) -> Tensor:
    n = x.lazy.shape[axis]
    limit = {"reflect": n - 1, "replicate": math.inf if n else 0, "circular": n}.get(mode)
    if limit is None:
        raise ShapeError(f"pad: mode {mode!r} is unknown; use constant, reflect, replicate or circular")
    if not min(low, high) >= 0 or max(low, high) > limit:
        raise ShapeError(
            f"pad: ({low}, {high}) is too much for mode {mode!r} of a dimension of size {n}; at most {limit}"
        )

    def part(start: int, stop: int) -> Tensor:
        return apply(
            Op.SLICE,
            tuple((start, stop, 1) if i == axis else (0, m, 1) for i, m in enumerate(x.lazy.shape)),
            x,
        )

    def edge(at: int, count: int) -> Tensor:
        shape = tuple(count if i == axis else m for i, m in enumerate(x.lazy.shape))
        return apply(Op.EXPAND, shape, part(at, at + 1))

    if mode == "reflect":
        pieces = [flip(part(1, low + 1), axis), x, flip(part(n - 1 - high, n - 1), axis)]
    elif mode == "circular":
        pieces = [part(n - low, n), x, part(0, high)]
    else:
        pieces = [edge(0, low), x, edge(n - 1, high)]
    out: Tensor = cat(pieces, axis)
    return out


@dims
def roll(x: Tensor, shifts: int | Sequence[int], dim: Dim = None) -> Tensor:
    """Elements moved on by ``shifts`` along ``dim`` (in the flattened tensor by default), those that fall off
    re-enter.
    """
    if dim is None:
        if not isinstance(shifts, int):
            raise ShapeError("roll: several shifts need a dim for each")
        flat = apply(Op.RESHAPE, (x.lazy.size,), x)
        return apply(Op.RESHAPE, x.lazy.shape, roll(flat, shifts, 0))
    amounts = [shifts] if isinstance(shifts, int) else list(shifts)
    axes = [dim] if isinstance(dim, int) else list(dim)
    if len(amounts) != len(axes):
        raise ShapeError(f"roll: {len(amounts)} shifts for {len(axes)} dims")
    for amount, d in zip(amounts, axes, strict=True):
        axis = axis_of(d, len(x.lazy.shape), "roll", x.lazy.shape)
        n = x.lazy.shape[axis]
        if n and amount % n:
            x = _pad_from_itself(x, axis, amount % n, 0, "circular")
            x = apply(Op.SLICE, tuple((0, n if i == axis else m, 1) for i, m in enumerate(x.lazy.shape)), x)
    return apply(Op.RESHAPE, x.lazy.shape, x)


def repeat(x: Tensor, *sizes: Any) -> Tensor:
    """The tensor laid out ``sizes`` times along each dimension; new ones may be put in front."""
    times = shape_args(sizes, "repeat")
    old = x.lazy.shape
    if len(times) < len(old):
        raise ShapeError(
            f"repeat: {times} needs a number for each of the {len(old)} dimensions of shape {old}"
        )
    shape = (1,) * (len(times) - len(old)) + old
    x = apply(Op.RESHAPE, tuple(m for n in shape for m in (1, n)), x)
    x = apply(Op.EXPAND, tuple(m for t, n in zip(times, shape, strict=True) for m in (t, n)), x)
    return apply(Op.RESHAPE, tuple(t * n for t, n in zip(times, shape, strict=True)), x)


@dims
def repeat_interleave(x: Tensor, repeats: int, dim: int | None = None) -> Tensor:
    """Each element repeated ``repeats`` times in place along ``dim`` (in the flattened tensor by default)."""
    if dim is None:
        x, dim = apply(Op.RESHAPE, (x.lazy.size,), x), 0
    shape = x.lazy.shape
    axis = axis_of(dim, len(shape), "repeat_interleave", shape)
    wide = apply(Op.RESHAPE, (*shape[: axis + 1], 1, *shape[axis + 1 :]), x)
    wide = apply(Op.EXPAND, (*shape[: axis + 1], repeats, *shape[axis + 1 :]), wide)
    return apply(Op.RESHAPE, (*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :]), wide)


@dims
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors joined along an existing dimension. They must agree in all others; dtypes are promoted."""
    parts = list(tensors)
    if not parts:
        raise ShapeError("cat needs at least one tensor")
    dtype, shape = common_dtype(parts), parts[0].lazy.shape
    if not shape:
        raise ShapeError("cat can't join 0-dimensional tensors; use stack")
    axis = axis_of(dim, len(shape), "cat", shape)
    for p in parts:
        other = p.lazy.shape
        if len(other) != len(shape) or other[:axis] + other[axis + 1 :] != shape[:axis] + shape[axis + 1 :]:
            raise ShapeError(
                f"cat along dim {axis}: shapes {shape} and {other} differ elsewhere; pad or slice one"
            )
    parts = [cast(p, dtype) for p in parts if p.lazy.shape[axis]] or [cast(parts[0], dtype)]
    if len(parts) == 1:
        return apply(Op.RESHAPE, parts[0].lazy.shape, parts[0])
    return composite(Composite.CAT, lambda *parts: _joined(parts, axis), *parts, arg=axis)


MANY = 8  # parts that one kernel chooses among


def _joined(parts: Sequence[Tensor], axis: int) -> Tensor:
    """A choice by position among the padded parts: where position < end of the first, the first, else ...

    Every element costs a choice for each part, so many parts are first joined in groups.
    """
    while len(parts) > MANY:
        groups = [parts[i : i + MANY] for i in range(0, len(parts), MANY)]
        parts = [contiguous(_joined(g, axis)) if len(g) > 1 else g[0] for g in groups]
    total = sum(p.lazy.shape[axis] for p in parts)
    placed, start, starts = [], 0, []
    for p in parts:
        n = p.lazy.shape[axis]
        low_high = (start, total - start - n, 0)
        placed.append(
            apply(Op.PAD, tuple(low_high if i == axis else (0, 0, 0) for i in range(len(p.lazy.shape))), p)
        )
        starts.append(start)
        start += n
    wide = [1] * len(placed[0].lazy.shape)
    wide[axis] = total
    position = apply(Op.RESHAPE, tuple(wide), type(parts[0])._iota(total, None, parts[0].lazy.device))
    out = placed[-1]
    for p, end in zip(placed[-2::-1], starts[:0:-1], strict=True):
        out = ew.where(ew.lt(position, end), p, out)
    return out


@dims
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape joined along a new dimension."""
    parts = list(tensors)
    if not parts:
        raise ShapeError("stack needs at least one tensor")
    shape = parts[0].lazy.shape
    for p in parts:
        if p.lazy.shape != shape:
            raise ShapeError(f"stack: shapes {shape} and {p.lazy.shape} differ; reshape or expand one")
    out: Tensor = cat([unsqueeze(p, dim) for p in parts], axis_of(dim, len(shape) + 1, "stack", shape))
    return out


@dims
def split(x: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Consecutive parts along ``dim``, each of ``split_size`` (the last may be smaller), or of the sizes
    listed.
    """
    shape = x.lazy.shape
    axis = axis_of(dim, len(shape), "split", shape)
    n = shape[axis]
    if isinstance(split_size, int):
        if split_size <= 0:
            raise ShapeError(f"split: the size must be positive, got {split_size}")
        sizes = [min(split_size, n - i) for i in range(0, n, split_size)] or [0]
    else:
        sizes = list(split_size)
        if sum(sizes) != n or min(sizes, default=0) < 0:
            raise ShapeError(
                f"split: sizes {tuple(sizes)} don't add up to {n}, dimension {axis} of shape {shape}"
            )
    out, start = [], 0
    for size in sizes:
        ranges = [(start, start + size) if i == axis else (0, m) for i, m in enumerate(shape)]
        out.append(shrink(x, ranges))
        start += size
    return tuple(out)


@dims
def chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` parts along ``dim``, equal but for the last."""
    if chunks <= 0:
        raise ShapeError(f"chunk: the number of chunks must be positive, got {chunks}")
    n = x.lazy.shape[axis_of(dim, len(x.lazy.shape), "chunk", x.lazy.shape)]
    out: tuple[Tensor, ...] = split(x, max(-(-n // chunks), 1), dim)
    return out


@dims
def unbind(x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along ``dim``, without it."""
    return tuple(squeeze(part, dim) for part in split(x, 1, dim)) if x.lazy.shape[dim] else ()


@dims
def unfold(x: Tensor, dim: int, size: int, step: int) -> Tensor:
    """Windows of ``size`` every ``step`` elements along ``dim``, as a new last dimension."""
    shape = x.lazy.shape
    axis = axis_of(dim, len(shape), "unfold", shape)
    last = movedim(x, axis, -1)
    windows = apply(Op.WINDOW, ((size, step, 1),), last)
    order = [*range(axis), len(shape) - 1, *range(axis, len(shape) - 1), len(shape)]
    return apply(Op.PERMUTE, tuple(order), windows)


@dims
def diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The elements [i, i + offset] of two dimensions, as a new last dimension: a strided slice."""
    shape = x.lazy.shape
    a, b = (axis_of(d, len(shape), "diagonal", shape) for d in (dim1, dim2))
    if a == b:
        raise ShapeError(f"diagonal: dims {dim1} and {dim2} of shape {shape} are the same")
    rest = [i for i in range(len(shape)) if i not in (a, b)]
    x = apply(Op.PERMUTE, (*rest, a, b), x)
    lead, m, n = x.lazy.shape[:-2], x.lazy.shape[-2], x.lazy.shape[-1]
    size = max(min(m + min(offset, 0), n - max(offset, 0)), 0)
    row, column = max(-offset, 0), max(offset, 0)
    flat = apply(Op.RESHAPE, (*lead, m * n), x)
    start = row * n + column if size else 0
    stop = start + (size - 1) * (n + 1) + 1 if size else 0
    return apply(Op.SLICE, (*[(0, s, 1) for s in lead], (start, stop, n + 1)), flat)


def _banded(x: Tensor, diagonal: int, lower: bool) -> Tensor:
    shape = x.lazy.shape
    if len(shape) < 2:
        raise ShapeError(f"tril and triu need at least two dimensions, got shape {shape}")
    rows = apply(Op.RESHAPE, (shape[-2], 1), type(x)._iota(shape[-2], None, x.lazy.device))
    columns = type(x)._iota(shape[-1], None, x.lazy.device)
    edge = ew.add(rows, diagonal)
    kept = ew.le(columns, edge) if lower else ew.ge(columns, edge)
    return ew.where(kept, x, constant(x, 0, shape=()))


def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """The elements on and below a diagonal of the last two dimensions; zeros above."""
    return _banded(x, diagonal, True)


def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """The elements on and above a diagonal of the last two dimensions; zeros below."""
    return _banded(x, diagonal, False)


def contiguous(x: Tensor) -> Tensor:
    """The same value in memory of its own: a point where fusion ends."""
    return apply(Op.CONTIGUOUS, None, x)


def _sequence(first: Any, others: Sequence[Any], dim: int | None) -> tuple[list[Tensor], int]:
    """The tensors and dim of ``f([a, b], dim)`` or ``a.f(b, dim=dim)``."""
    if isinstance(first, (list, tuple)):
        given = others[0] if others and dim is None else dim
        return list(first), given or 0
    return [first, *others], dim or 0


@dims
def cat_method(first: Any, *others: Any, dim: int | None = None) -> Tensor:
    """``Tensor.cat([a, b], dim=0)`` or ``a.cat(b, dim=0)``: see :func:`cat`."""
    out: Tensor = cat(*_sequence(first, others, dim))
    return out


@dims
def stack_method(first: Any, *others: Any, dim: int | None = None) -> Tensor:
    """``Tensor.stack([a, b], dim=0)`` or ``a.stack(b, dim=0)``: see :func:`stack`."""
    out: Tensor = stack(*_sequence(first, others, dim))
    return out
