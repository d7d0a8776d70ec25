"""Reading and writing by index tensors: gather, scatter and their relatives, masks, and parts replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dawdle.dtype import DType, int64
from dawdle.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import (
    Operand,
    Scalar,
    Shape,
    along,
    apply,
    axis_of,
    broadcast_shape,
    cast,
    coerce,
    constant,
    dims,
    expand_to,
    is_scalar,
    keywords,
)
from dawdle.tensor.indexing import checked, getitem, index_tensor, numbered, replaced
from dawdle.tensor.joining import atleast_1d
from dawdle.tensor.movement import diagonal, dimension

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


def _integers(index: Operand, what: str) -> None:
    if hasattr(index, "lazy") and not index.lazy.dtype.is_int:
        raise DTypeError(f"{what} needs an integer index, got {index.lazy.dtype.name}; cast it with .long()")


def _trimmed(x: Tensor, shape: Shape, axis: int, what: str) -> Tensor:
    """``x`` cut to ``shape`` in every axis but ``axis``."""
    mine = x.lazy.shape
    if len(mine) != len(shape) or any(
        b > a for i, (a, b) in enumerate(zip(mine, shape, strict=True)) if i != axis
    ):
        raise ShapeError(f"{what}: index of shape {shape} exceeds {mine} in a dimension other than {axis}")
    return apply(
        Op.SLICE,
        tuple((0, a if i == axis else b, 1) for i, (a, b) in enumerate(zip(mine, shape, strict=True))),
        x,
    )


def _flat(x: Tensor) -> Tensor:
    return apply(Op.RESHAPE, (x.lazy.size,), x)


# ---- reading


@dims
def gather(x: Tensor, dim: int, index: Operand) -> Tensor:
    """``out[i][j] = x[index[i][j]][j]`` for dim 0, and so on: the result has the index's shape.

    ``index`` may be smaller than ``x`` in other dimensions. Negative indices count from the end. Raises
    IndexingError for an index out of range, as :func:`~dawdle.tensor.indexing.getitem`.
    """
    _integers(index, "gather")
    x = atleast_1d(x)
    axis = axis_of(dim, len(x.lazy.shape), "gather", x.lazy.shape)
    places = index_tensor(x, index, axis, "gather")
    shape = places.lazy.shape
    places = atleast_1d(places)
    out = apply(Op.GATHER, axis, _trimmed(x, places.lazy.shape, axis, "gather"), places)
    return apply(Op.RESHAPE, shape, out) if out.lazy.shape != shape else out


@keywords(indices="index")
@dims
def take_along_dim(x: Tensor, index: Operand, dim: int | None = None) -> Tensor:
    """:func:`gather` with ``x`` and ``index`` broadcast in the other dimensions; both flattened without
    ``dim``.
    """
    _integers(index, "take_along_dim")
    index = coerce(x, np.asarray(index) if is_scalar(index) else index)
    if dim is None:
        flat: Tensor = gather(_flat(x), 0, _flat(index))
        return flat
    if len(index.lazy.shape) != len(x.lazy.shape):
        raise ShapeError(
            f"take_along_dim: an index of shape {index.lazy.shape} needs as many dimensions as {x.lazy.shape}"
        )
    axis = dimension(x, dim, "take_along_dim")
    ones = [s[:axis] + (1,) + s[axis + 1 :] for s in (x.lazy.shape, index.lazy.shape)]
    common = broadcast_shape("take_along_dim", *ones)
    wide = [expand_to(t, common[:axis] + (t.lazy.shape[axis],) + common[axis + 1 :]) for t in (x, index)]
    out: Tensor = gather(wide[0], axis, wide[1])
    return out


def take(x: Tensor, index: Operand) -> Tensor:
    """The elements at places in the flattened tensor, in the shape of ``index``."""
    _integers(index, "take")
    return getitem(_flat(x), index)


@dims
def index_select(x: Tensor, dim: int, index: Operand) -> Tensor:
    """The slices along ``dim`` that a 1-dimensional ``index`` lists."""
    axis = axis_of(dim, len(x.lazy.shape), "index_select", x.lazy.shape)
    return getitem(x, (*[slice(None)] * axis, _line(index, "index_select")))


def _line(index: Operand, what: str) -> Any:
    """A 1-dimensional index as it is, a number as one of one element."""
    _integers(index, what)
    known: Any = index if hasattr(index, "lazy") else np.asarray(index)
    if known.ndim > 1:
        raise ShapeError(f"{what}: the index must have one dimension, got shape {known.shape}")
    return known.reshape(known.shape or (1,))


@dims
def select(x: Tensor, dim: int, index: int) -> Tensor:
    """The slice at ``index`` along ``dim``, without that dimension."""
    axis = axis_of(dim, len(x.lazy.shape), "select", x.lazy.shape)
    return getitem(x, (*[slice(None)] * axis, index))


@dims
def narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """``length`` slices from ``start`` on along ``dim``; a negative ``start`` counts from the end."""
    axis = dimension(x, dim, "narrow")
    n = x.lazy.shape[axis]
    first = start + n if start < 0 else start
    if not 0 <= first <= first + length <= n:
        raise IndexingError(f"narrow: {length} elements from {start} are not within a dimension of size {n}")
    return getitem(x, (*[slice(None)] * axis, slice(first, first + length)))


# ---- masks and conditions


def masked_select(x: Tensor, mask: Operand) -> Tensor:
    """The elements where ``mask`` holds, in a 1-dimensional tensor; the mask is evaluated at once."""
    mask = coerce(x, mask)
    shape = broadcast_shape("masked_select", x.lazy.shape, mask.lazy.shape)
    return getitem(expand_to(x, shape), expand_to(mask, shape))


def masked_scatter(x: Tensor, mask: Operand, source: Operand) -> Tensor:
    """``x`` with the elements of ``source``, in order, where ``mask`` holds."""
    mask = coerce(x, mask)
    shape = broadcast_shape("masked_scatter", x.lazy.shape, mask.lazy.shape)
    x, mask = expand_to(x, shape), expand_to(mask, shape)
    values = _flat(ew.written(x, source, (x.lazy.size,)))
    if not x.lazy.size:
        return x
    count = apply(Op.SCAN, (Op.ADD, 0), cast(_flat(mask), int64))
    # in front of the elements stands what nothing takes: before the first place the count is 0
    drawn = apply(Op.RESHAPE, shape, getitem(apply(Op.PAD, ((1, 0, 0),), values), count))
    return ew.where(mask, drawn, x)


def argwhere(x: Tensor) -> Tensor:
    """The indices of the elements that aren't 0, one row for each; evaluated at once. int64."""
    return type(x)._of(np.argwhere(x.numpy()).astype(np.int64), x.lazy.device)


def nonzero(x: Tensor, as_tuple: bool = False) -> Any:
    """:func:`argwhere`, or its columns in a tuple: one index for each dimension, as NumPy's ``nonzero``."""
    if not as_tuple:
        return argwhere(x)
    found = np.nonzero(np.atleast_1d(x.numpy()))
    return tuple(type(x)._of(i.astype(np.int64), x.lazy.device) for i in found)


def one_hot(x: Tensor, num_classes: int = -1) -> Tensor:
    """A last dimension of ``num_classes`` with 1 at the index that ``x`` holds, 0 elsewhere; int64.

    By default there are as many classes as the largest index asks for, which is evaluated at once. Raises
    IndexingError for an index that is negative or too large.
    """
    _integers(x, "one_hot")
    if num_classes < 0:
        num_classes = int(x.numpy().astype(np.int64).max(initial=-1)) + 1
    x = checked(x, num_classes, "one_hot", least=0)
    classes = type(x)._iota(num_classes, x.lazy.dtype, x.lazy.device)
    return cast(ew.eq(apply(Op.RESHAPE, (*x.lazy.shape, 1), x), classes), int64)


# ---- writing


def _combined(how: Op | None, axis: int, x: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """A SCATTER into ``x``. The sum of bools is whether one of them holds, as for ``+``."""
    if how is Op.ADD and x.lazy.dtype.is_bool:
        how = Op.MAX
    return apply(Op.SCATTER, (axis, how), x, places, values)


def _scatter(x: Tensor, dim: int, index: Operand, src: Operand, how: Op | None, what: str) -> Tensor:
    _integers(index, what)
    shape = x.lazy.shape
    wide = atleast_1d(x)
    axis = axis_of(dim, len(wide.lazy.shape), what, shape)
    places = atleast_1d(index_tensor(wide, index, axis, what))
    area = places.lazy.shape
    y = _trimmed(atleast_1d(ew.written(x, src, area)), area, -1, what)
    inner = _trimmed(wide, area, axis, what)
    out = _combined(how, axis, inner, places, y)
    if out.lazy.shape != wide.lazy.shape:
        out = replaced(wide, tuple(slice(0, n) for n in out.lazy.shape), out)
    return apply(Op.RESHAPE, shape, out) if out.lazy.shape != shape else out


REDUCE = {None: None, "add": Op.ADD, "multiply": Op.MUL}


@keywords(value="src")
@dims
def scatter(x: Tensor, dim: int, index: Operand, src: Operand, reduce: str | None = None) -> Tensor:
    """``x`` with ``out[index[i][j]][j] = src[i][j]`` for dim 0, and so on; the last of equal indices stays.

    ``src`` may be a number. ``reduce`` is None, "add" or "multiply".
    """
    if reduce not in REDUCE:
        raise ArgumentError(f"scatter: reduce is 'add' or 'multiply', got {reduce!r}; see scatter_reduce")
    return _scatter(x, dim, index, src, REDUCE[reduce], "scatter")


@dims
def scatter_add(x: Tensor, dim: int, index: Operand, src: Operand) -> Tensor:
    """``x`` with each ``src[i][j]`` added at ``[index[i][j]][j]`` for dim 0, and so on. The adjoint of
    :func:`gather`.
    """
    return _scatter(x, dim, index, src, Op.ADD, "scatter_add")


# reduce -> (combining op, the value that changes nothing)
COMBINED: dict[str, tuple[Op, Callable[[DType], Scalar]]] = {
    "sum": (Op.ADD, lambda dtype: 0),
    "mean": (Op.ADD, lambda dtype: 0),
    "prod": (Op.MUL, lambda dtype: 1),
    "amax": (Op.MAX, lambda dtype: dtype.min),
}


@dims
def scatter_reduce(
    x: Tensor, dim: int, index: Operand, src: Operand, reduce: str, include_self: bool = True
) -> Tensor:
    """``x`` with the elements of ``src`` combined into the places that ``index`` gives, as in
    :func:`scatter`.

    ``reduce`` is "sum", "prod", "mean", "amax" or "amin". Without ``include_self`` the old elements of places
    that something is written to don't count. The gradient of "amax" and "amin" is shared by equal elements.
    """
    return _reduced(x, dim, index, src, reduce, include_self, "scatter_reduce")


def _reduced(
    x: Tensor, dim: int, index: Operand, src: Operand, reduce: str, include_self: bool, what: str
) -> Tensor:
    if reduce == "amin":
        mirrored = ew.reversed_order(ew.written(x, src, ()))
        out = _reduced(ew.reversed_order(x), dim, index, mirrored, "amax", include_self, what)
        return ew.reversed_order(out)
    if reduce not in COMBINED:
        raise ArgumentError(f"{what}: reduce is one of {', '.join(COMBINED)} and amin, got {reduce!r}")
    how, neutral = COMBINED[reduce]
    count = None
    if reduce == "mean" or not include_self:
        own = constant(x, int(include_self), int64)
        count = _scatter(own, dim, index, 1, Op.ADD, what)
    if count is not None and not include_self:
        x = ew.where(ew.gt(count, 0), constant(x, neutral(x.lazy.dtype), shape=()), x)
    out = _scatter(x, dim, index, src, how, what)
    if reduce != "mean" or count is None:
        return out
    divide = ew.div if out.lazy.dtype.is_float else ew.floordiv
    return divide(out, cast(ew.maximum(count, 1), out.lazy.dtype))


def _spread(x: Tensor, dim: int, index: Operand, source: Operand, what: str) -> tuple[int, Tensor, Tensor]:
    """The axis, and a 1-dimensional index and what it places, both in the shape of the latter."""
    axis = axis_of(dim, len(x.lazy.shape), what, x.lazy.shape)
    places = index_tensor(x, _line(index, what), axis, what)
    area = list(x.lazy.shape)
    area[axis : axis + 1] = [places.lazy.size]
    values = ew.written(x, source, tuple(area))
    if values.lazy.shape != tuple(area):
        if broadcast_shape(what, values.lazy.shape, tuple(area)) != tuple(area):
            words = f"a source of shape {values.lazy.shape} for slices of shape {tuple(area)}"
            raise ShapeError(f"{what}: {words}")
        values = expand_to(values, tuple(area))
    return axis, expand_to(along(places, axis, len(area)), tuple(area)), values


def _sliced(
    x: Tensor, dim: int, index: Operand, source: Operand, how: Op | None, what: str
) -> Tensor:
    if not x.lazy.shape:
        return apply(Op.RESHAPE, (), _sliced(atleast_1d(x), dim, index, source, how, what))
    axis, places, values = _spread(x, dim, index, source, what)
    return _combined(how, axis, x, places, values)


@dims
def index_add(x: Tensor, dim: int, index: Operand, source: Operand, alpha: Scalar = 1) -> Tensor:
    """``x`` with ``alpha`` times slice ``i`` of ``source`` along ``dim`` added to slice ``index[i]``."""
    scaled = source if alpha == 1 else ew.mul(coerce(x, source), alpha)
    return _sliced(x, dim, index, scaled, Op.ADD, "index_add")


@dims
def index_copy(x: Tensor, dim: int, index: Operand, source: Operand) -> Tensor:
    """``x`` with slice ``index[i]`` along ``dim`` replaced by slice ``i`` of ``source``."""
    return _sliced(x, dim, index, source, None, "index_copy")


@dims
def index_fill(x: Tensor, dim: int, index: Operand, value: Scalar | Tensor) -> Tensor:
    """``x`` with ``value`` in the slices along ``dim`` that ``index`` lists."""
    return _sliced(x, dim, index, value, None, "index_fill")


@dims
def index_reduce(
    x: Tensor, dim: int, index: Operand, source: Operand, reduce: str, include_self: bool = True
) -> Tensor:
    """``x`` with slice ``i`` of ``source`` combined into slice ``index[i]``; see :func:`scatter_reduce`."""
    if not x.lazy.shape:
        of_one = index_reduce(atleast_1d(x), dim, index, source, reduce, include_self)
        return apply(Op.RESHAPE, (), of_one)
    _, places, values = _spread(x, dim, index, source, "index_reduce")
    return _reduced(x, dim, places, values, reduce, include_self, "index_reduce")


def index_put(
    x: Tensor, indices: Sequence[Operand | None], values: Operand, accumulate: bool = False
) -> Tensor:
    """``x`` with ``values`` at ``x[indices]``; with ``accumulate`` added to what is there, once for each time
    that a place is named. None stands for a whole dimension.
    """
    key = tuple(slice(None) if i is None else i for i in indices)
    if not accumulate:
        return replaced(x, key, values)
    places = getitem(numbered(x), key)
    values = expand_to(ew.written(x, values, places.lazy.shape), places.lazy.shape)
    out = _combined(Op.ADD, 0, *map(_flat, (x, places, values)))
    return apply(Op.RESHAPE, x.lazy.shape, out)


def put(x: Tensor, index: Operand, source: Operand, accumulate: bool = False) -> Tensor:
    """``x`` with the elements of ``source`` at places in the flattened tensor."""
    _integers(index, "put")
    places = index_tensor(_flat(x), index, 0, "put")
    values = _flat(ew.written(x, source, places.lazy.shape))
    how = Op.ADD if accumulate else None
    return apply(Op.RESHAPE, x.lazy.shape, _combined(how, 0, _flat(x), _flat(places), values))


# ---- parts replaced


@dims
def select_scatter(x: Tensor, src: Operand, dim: int, index: int) -> Tensor:
    """``x`` with ``src`` in place of ``x.select(dim, index)``."""
    axis = axis_of(dim, len(x.lazy.shape), "select_scatter", x.lazy.shape)
    return replaced(x, (*[slice(None)] * axis, index), src)


@dims
def slice_scatter(
    x: Tensor, src: Operand, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """``x`` with ``src`` in place of the slices ``start:end:step`` along ``dim``."""
    axis = axis_of(dim, len(x.lazy.shape), "slice_scatter", x.lazy.shape)
    return replaced(x, (*[slice(None)] * axis, slice(start, end, step)), src)


@dims
def diagonal_scatter(x: Tensor, src: Operand, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """``x`` with ``src`` in place of ``x.diagonal(offset, dim1, dim2)``."""
    places: Tensor = diagonal(numbered(x), offset, dim1, dim2)
    values = ew.written(x, src, places.lazy.shape)
    if values.lazy.shape != places.lazy.shape:
        raise ShapeError(
            f"diagonal_scatter: a source of shape {values.lazy.shape} for a diagonal of shape "
            f"{places.lazy.shape}"
        )
    out = apply(Op.SCATTER, (0, None), *map(_flat, (x, places, values)))
    return apply(Op.RESHAPE, x.lazy.shape, out)


def fill(x: Tensor, value: Scalar | Tensor) -> Tensor:
    """Every element replaced by ``value``."""
    return expand_to(ew.written(x, value, ()), x.lazy.shape)


def zero_(x: Tensor) -> Tensor:
    """In place: every element 0."""
    return x._rebind(fill(x, 0))
