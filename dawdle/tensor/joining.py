"""Tensors joined and cut: cat, stack, split and their relatives; tensors brought to a common shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dawdle.errors import ArgumentError, ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.autograd import Composite
from dawdle.tensor.core import (
    Operand,
    Shape,
    along,
    apply,
    axis_of,
    broadcast_shape,
    cast,
    common_dtype,
    composite,
    cut,
    dims,
    expand_to,
    keywords,
    same,
    tensors_of,
)
from dawdle.tensor.movement import contiguous, dimension, squeeze, unsqueeze
from dawdle.tensor.reduce import positions

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


@dims
def cat(tensors: Sequence[Operand], dim: int | None = 0) -> Tensor:
    """Tensors joined along an existing dimension; with ``dim=None`` flattened and joined, as in NumPy.

    They must agree in all other dimensions (ShapeError); those of shape (0,) are left out. Dtypes are
    promoted. Arrays and numbers may stand among the tensors, here and in the functions below.
    """
    parts = tensors_of(tensors, "cat")
    if not parts:
        raise ShapeError("cat needs at least one tensor")
    dtype = common_dtype(parts)
    if dim is None:
        parts, dim = [apply(Op.RESHAPE, (p.lazy.size,), p) for p in parts], 0
    shape = next((p.lazy.shape for p in parts if p.lazy.shape != (0,)), (0,))
    if not shape:
        raise ShapeError("cat can't join 0-dimensional tensors; use stack")
    axis = axis_of(dim, len(shape), "cat", shape)
    nothing = (*shape[:axis], 0, *shape[axis + 1 :])
    parts = [apply(Op.RESHAPE, nothing, p) if p.lazy.shape == (0,) else p for p in parts]
    for p in parts:
        other = p.lazy.shape
        if len(other) != len(shape) or other[:axis] + other[axis + 1 :] != shape[:axis] + shape[axis + 1 :]:
            raise ShapeError(
                f"cat along dim {axis}: shapes {shape} and {other} differ elsewhere; pad or slice one"
            )
    parts = [cast(p, dtype) for p in parts]
    return composite(Composite.CAT, lambda *parts: _joined(parts, axis), *parts, arg=axis)


MANY = 8  # parts that one kernel chooses among


def _joined(parts: Sequence[Tensor], axis: int) -> Tensor:
    """A choice by position among the padded parts: where position < end of the first, the first, else ...

    Every element costs a choice for each part, so many parts are first joined in groups.
    """
    parts = [p for p in parts if p.lazy.shape[axis]] or parts[:1]
    if len(parts) == 1:
        return apply(Op.RESHAPE, parts[0].lazy.shape, parts[0])
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
    position = positions(placed[0], axis)
    out = placed[-1]
    for p, end in zip(placed[-2::-1], starts[:0:-1], strict=True):
        out = ew.where(ew.lt(position, end), p, out)
    return out


@dims
def stack(tensors: Sequence[Operand], dim: int = 0) -> Tensor:
    """Tensors of one shape joined along a new dimension."""
    parts = tensors_of(tensors, "stack")
    if not parts:
        raise ShapeError("stack needs at least one tensor")
    shape = parts[0].lazy.shape
    for p in parts:
        if p.lazy.shape != shape:
            raise ShapeError(f"stack: shapes {shape} and {p.lazy.shape} differ; reshape or expand one")
    out: Tensor = cat([unsqueeze(p, dim) for p in parts], axis_of(dim, len(shape) + 1, "stack", shape))
    return out


@keywords(split_size_or_sections="split_size")
@dims
def split(x: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Consecutive parts along ``dim``, each of ``split_size`` (the last may be smaller), or of the sizes
    listed.
    """
    shape = x.lazy.shape
    axis = dimension(x, dim, "split")
    n = shape[axis]
    if isinstance(split_size, int):
        if split_size < min(n, 1):
            raise ShapeError(f"split: the size must be positive, got {split_size}")
        sizes = [min(split_size, n - i) for i in range(0, n, split_size or 1)] or [0]
    else:
        sizes = list(split_size)
        if sum(sizes) != n or min(sizes, default=0) < 0:
            raise ShapeError(
                f"split: sizes {tuple(sizes)} don't add up to {n}, dimension {axis} of shape {shape}"
            )
    out, start = [], 0
    for size in sizes:
        out.append(cut(x, axis, start, start + size))
        start += size
    return tuple(out)


@dims
def chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` parts along ``dim``, equal but for the last; so many where there are no elements."""
    if chunks <= 0:
        raise ShapeError(f"chunk: the number of chunks must be positive, got {chunks}")
    n = x.lazy.shape[dimension(x, dim, "chunk")]
    out: tuple[Tensor, ...] = split(x, -(-n // chunks) or [0] * chunks, dim)
    return out


@dims
def tensor_split(x: Tensor, indices_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Parts along ``dim``: so many, the first ones larger by 1 if need be, or cut before each index, as
    NumPy's ``array_split``.
    """
    axis = dimension(x, dim, "tensor_split")
    n = x.lazy.shape[axis]
    if isinstance(indices_or_sections, int):
        if indices_or_sections <= 0:
            raise ShapeError(f"tensor_split: the number of parts must be positive, got {indices_or_sections}")
        small, larger = divmod(n, indices_or_sections)
        ends = [i * small + min(i, larger) for i in range(1, indices_or_sections)]
    else:
        ends = [int(i) for i in indices_or_sections]
    spans = [slice(a, b).indices(n)[:2] for a, b in pairwise([None, *ends, None])]
    return tuple([cut(x, axis, a, max(a, b)) for a, b in spans])


def _split_along(name: str, axis_for: Callable[[int], int], least: int) -> Callable[..., tuple[Tensor, ...]]:
    def function(x: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
        n = len(x.lazy.shape)
        if n < least:
            raise ShapeError(f"{name} needs at least {least} dimensions, got shape {x.lazy.shape}")
        axis = axis_for(n)
        parts = indices_or_sections
        if isinstance(parts, int) and (parts < 1 or x.lazy.shape[axis] % parts):
            raise ShapeError(
                f"{name}: dimension {axis} of shape {x.lazy.shape} doesn't split into {indices_or_sections} "
                "equal parts; use tensor_split"
            )
        out: tuple[Tensor, ...] = tensor_split(x, indices_or_sections, axis)
        return out

    function.__name__ = name
    function.__doc__ = f"{name.title()} of parts, equal ones or cut before each index: see NumPy's {name}."
    return function


hsplit = _split_along("hsplit", lambda n: 0 if n == 1 else 1, 1)
vsplit = _split_along("vsplit", lambda n: 0, 2)
dsplit = _split_along("dsplit", lambda n: 2, 3)


@dims
def unbind(x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along ``dim``, without it."""
    axis = dimension(x, dim, "unbind")
    return tuple(squeeze(part, axis) for part in split(x, 1, axis)) if x.lazy.shape[axis] else ()


# ---- dimensions put in front and behind


def _at_least(x: Tensor, n: int, front: int) -> Tensor:
    """With dimensions of size 1: up to ``front`` of those that are missing in front, the others behind."""
    shape = x.lazy.shape
    missing = max(n - len(shape), 0)
    before = min(missing, front) if missing else 0
    return apply(Op.RESHAPE, (1,) * before + shape + (1,) * (missing - before), x)


def atleast_1d(x: Tensor) -> Tensor:
    """A number as a tensor of shape (1,); others as they are."""
    return _at_least(x, 1, 1)


def atleast_2d(x: Tensor) -> Tensor:
    """With as many dimensions of size 1 in front as two dimensions need."""
    return _at_least(x, 2, 2)


def atleast_3d(x: Tensor) -> Tensor:
    """Shape (n,) becomes (1, n, 1), (m, n) becomes (m, n, 1); more dimensions stay."""
    return _at_least(x, 3, 2 - min(len(x.lazy.shape), 2) if x.lazy.shape else 3)


def hstack(tensors: Sequence[Operand]) -> Tensor:
    """Tensors joined along dimension 1, or 0 where they have just that."""
    parts = [atleast_1d(p) for p in tensors_of(tensors, "hstack")]
    out: Tensor = cat(parts, 0 if parts and len(parts[0].lazy.shape) == 1 else 1)
    return out


def vstack(tensors: Sequence[Operand]) -> Tensor:
    """Tensors joined along dimension 0; vectors become rows."""
    out: Tensor = cat([atleast_2d(p) for p in tensors_of(tensors, "vstack")], 0)
    return out


def dstack(tensors: Sequence[Operand]) -> Tensor:
    """Tensors joined along dimension 2, see :func:`atleast_3d`."""
    out: Tensor = cat([atleast_3d(p) for p in tensors_of(tensors, "dstack")], 2)
    return out


def column_stack(tensors: Sequence[Operand]) -> Tensor:
    """Tensors joined along dimension 1; vectors become columns."""
    parts = tensors_of(tensors, "column_stack")
    out: Tensor = cat([p if len(p.lazy.shape) > 1 else along(p, 0, 2) for p in parts], 1)
    return out


def broadcast_shapes(*shapes: Any) -> Shape:
    """The shape that tensors of these shapes broadcast to. Raises ShapeError if they don't."""
    given = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    return broadcast_shape("broadcast_shapes", *given) if given else ()


def broadcast_tensors(*tensors: Operand) -> tuple[Tensor, ...]:
    """The tensors expanded to their common shape."""
    parts = tensors_of(tensors, "broadcast_tensors")
    shape = broadcast_shape("broadcast_tensors", (), *[x.lazy.shape for x in parts])
    return tuple([expand_to(x, shape) for x in parts])


def block_diag(*tensors: Operand) -> Tensor:
    """A matrix with the given ones (vectors are rows, numbers 1 x 1) along its diagonal, zeros elsewhere."""
    blocks = [atleast_2d(x) for x in tensors_of(tensors, "block_diag")]
    if not blocks or any(len(b.lazy.shape) > 2 for b in blocks):
        raise ShapeError(f"block_diag takes matrices, got shapes {[b.lazy.shape for b in blocks]}")
    width, left, rows = sum(b.lazy.shape[1] for b in blocks), 0, []
    for b in blocks:
        n = b.lazy.shape[1]
        rows.append(apply(Op.PAD, ((0, 0, 0), (left, width - left - n, 0)), b))
        left += n
    out: Tensor = cat(rows, 0)
    return out


def cartesian_prod(*tensors: Operand) -> Tensor:
    """All combinations of the elements of vectors, one row for each; a single vector stays as it is."""
    lines = tensors_of(tensors, "cartesian_prod")
    if any(len(x.lazy.shape) != 1 for x in lines) or not lines:
        raise ShapeError(f"cartesian_prod takes vectors, got shapes {[x.lazy.shape for x in lines]}")
    if len(lines) == 1:
        return same(lines[0])
    out: Tensor = stack([apply(Op.RESHAPE, (x.lazy.size,), x) for x in meshgrid(*lines, indexing="ij")], 1)
    return out


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """For vectors of m, n, ... elements tensors of shape (m, n, ...), each of which varies along its own
    dimension. With ``indexing="xy"``, NumPy's default, the first two dimensions are exchanged.
    """
    listed = len(tensors) == 1 and isinstance(tensors[0], (list, tuple))
    lines = tensors_of(tensors[0] if listed else tensors, "meshgrid")
    if indexing not in ("ij", "xy"):
        raise ArgumentError(f"meshgrid: indexing is 'ij' or 'xy', got {indexing!r}")
    if any(len(x.lazy.shape) > 1 for x in lines):
        raise ShapeError(f"meshgrid takes vectors, got shapes {[x.lazy.shape for x in lines]}")
    axes = list(range(len(lines)))
    if indexing == "xy" and len(axes) > 1:
        axes[:2] = [1, 0]
    laid = [along(x, axis, len(lines)) for x, axis in zip(lines, axes, strict=True)]
    return broadcast_tensors(*laid)


# ---- as methods


_LEFT = object()  # stands for an argument that is left out, where None means something


def _sequence(first: Any, others: Sequence[Any], dim: Any) -> tuple[list[Operand], Any]:
    """The tensors and dim of ``f([a, b], dim)`` or ``a.f(b, dim=dim)``."""
    if not isinstance(first, (list, tuple)):
        return [first, *others], 0 if dim is _LEFT else dim
    given = others[0] if others and dim is _LEFT else dim
    return list(first), 0 if given is _LEFT else given


@dims
def cat_method(first: Any, *others: Any, dim: Any = _LEFT) -> Tensor:
    """``Tensor.cat([a, b], dim=0)`` or ``a.cat(b, dim=0)``: see :func:`cat`."""
    out: Tensor = cat(*_sequence(first, others, dim))
    return out


@dims
def stack_method(first: Any, *others: Any, dim: Any = _LEFT) -> Tensor:
    """``Tensor.stack([a, b], dim=0)`` or ``a.stack(b, dim=0)``: see :func:`stack`."""
    out: Tensor = stack(*_sequence(first, others, dim))
    return out
