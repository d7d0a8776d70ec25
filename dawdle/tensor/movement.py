"""Functions that move elements without changing them: reshape, transpose, expand, flip, repeat, diagonals."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from dawdle.dtype import DType, bool_
from dawdle.errors import ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import (
    Dim,
    Scalar,
    Shape,
    apply,
    axes_of,
    axis_of,
    constant,
    dims,
    expand_to,
    same,
    shape_args,
)

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])


def shaped(name: str) -> Callable[[F], F]:
    """Decorator: what ``f(x, *shape)`` takes may also be given as the keyword ``name``."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapper(x: Any, *shape: Any, **options: Any) -> Any:
            if name in options:
                shape = (*shape, options.pop(name))
            return function(x, *shape, **options)

        return wrapper  # type: ignore[return-value]

    return decorate


def dimension(x: Tensor, dim: int, what: str) -> int:
    """``dim`` counted from the front. Raises ShapeError for a 0-dimensional tensor too: it has no slices."""
    shape = x.lazy.shape
    if not shape:
        raise ShapeError(f"{what}: a 0-dimensional tensor has no slices; reshape it to (1,)")
    return axis_of(dim, len(shape), what, shape)


@shaped("shape")
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
    axis = dimension(x, dim, "unflatten")
    part = list(sizes)
    if part.count(-1) == 1:
        part[part.index(-1)] = shape[axis] // max(math.prod(n for n in part if n != -1), 1)
    if math.prod(part) != shape[axis]:
        raise ShapeError(f"unflatten: dimension {axis} of shape {shape} doesn't split into {tuple(sizes)}")
    return apply(Op.RESHAPE, (*shape[:axis], *part, *shape[axis + 1 :]), x)


def view(x: Tensor, *shape: Any) -> Tensor:
    """:func:`reshape`; given a dtype of the same width, the elements' bits read in it."""
    if len(shape) == 1 and isinstance(shape[0], DType):
        return apply(Op.BITCAST, shape[0], x)
    return reshape(x, *shape)


def _listed(given: Sequence[Any], dims: Sequence[int] | None, what: str) -> Shape:
    """Integers given as ``f(0, 1)``, ``f((0, 1))`` or ``f(dims=(0, 1))``."""
    return shape_args(given if dims is None else (tuple(dims),), what)


def permute(x: Tensor, *order: Any, dims: Sequence[int] | None = None) -> Tensor:
    """Dimension ``i`` of the result is dimension ``order[i]``."""
    shape = x.lazy.shape
    axes = [axis_of(d, len(shape), "permute", shape) for d in _listed(order, dims, "permute")]
    return apply(Op.PERMUTE, tuple(axes), x)


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


def t(x: Tensor) -> Tensor:
    """A matrix transposed; fewer dimensions stay as they are. Raises ShapeError for more."""
    if len(x.lazy.shape) > 2:
        raise ShapeError(f".t() needs at most two dimensions, got shape {x.lazy.shape}; use .mT or permute()")
    return reversed_dims(x)


def movedim(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Dimensions ``source`` moved to ``destination``, the others kept in order."""
    shape = x.lazy.shape
    axes, places = (
        [axis_of(d, len(shape), "movedim", shape) for d in ((given,) if isinstance(given, int) else given)]
        for given in (source, destination)
    )
    if len(set(axes)) != len(axes) or len(set(places)) != len(places) or len(axes) != len(places):
        raise ShapeError(f"movedim: {source} and {destination} must be as many dimensions, each named once")
    if not shape:
        return same(x)
    order = [i for i in range(len(shape)) if i not in axes]
    for place, axis in sorted(zip(places, axes, strict=True)):
        order.insert(place, axis)
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


@shaped("size")
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


def flip(x: Tensor, *axes: Any, dims: Dim = None, axis: Dim = None) -> Tensor:
    """The order of elements reversed along dimensions, given as ``flip(0, 1)``, ``dims=`` or ``axis=``."""
    named = dims if axis is None else axis
    chosen = shape_args(axes, "flip") if named is None else named
    return apply(Op.FLIP, axes_of(chosen, x, "flip"), x)


def fliplr(x: Tensor) -> Tensor:
    """Columns in reverse order: dimension 1."""
    return apply(Op.FLIP, axes_of(1, x, "fliplr"), x)


def flipud(x: Tensor) -> Tensor:
    """Rows in reverse order: dimension 0."""
    return apply(Op.FLIP, axes_of(0, x, "flipud"), x)


def rot90(x: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Rotated ``k`` times by 90 degrees in the plane of two dimensions, from the first to the second."""
    shape = x.lazy.shape
    if len(dims) != 2:
        raise ShapeError(f"rot90 turns in the plane of two dimensions, got {tuple(dims)}")
    a, b = (axis_of(d, len(shape), "rot90", shape) for d in dims)
    if a == b:
        raise ShapeError(f"rot90: dims {tuple(dims)} of shape {shape} are the same")
    turns = k % 4
    flipped = {0: (), 1: (b,), 2: (a, b), 3: (a,)}[turns]
    out = apply(Op.FLIP, tuple(sorted(flipped)), x)
    return transpose(out, a, b) if turns % 2 else out


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
    return ew.where(inside, padded, constant(padded, value, shape=()))


@shaped("repeats")
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


def tile(x: Tensor, *sizes: Any, dims: Sequence[int] | None = None) -> Tensor:
    """As :func:`repeat`, but missing numbers in front count as 1: NumPy's ``tile``."""
    times = _listed(sizes, dims, "tile")
    return repeat(x, (1,) * (len(x.lazy.shape) - len(times)) + times)


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


def is_contiguous(x: Tensor) -> bool:
    """True: a tensor is a value, and has no strides."""
    return True


def contiguous(x: Tensor) -> Tensor:
    """The same value in memory of its own: a point where fusion ends."""
    return apply(Op.CONTIGUOUS, None, x)
