"""Reading and writing parts of tensors: slices, integer arrays, masks, gather and scatter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dawdle.dtype import bool_, int64
from dawdle.errors import DTypeError, IndexingError, ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import (
    Operand,
    Shape,
    apply,
    axis_of,
    broadcast_shape,
    cast,
    coerce,
    constant,
    dims,
    expand_to,
    fits,
    is_scalar,
)

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


@dataclass(frozen=True)
class Key:
    """An index in normal form: a strided slice, then new shape, then integer arrays at some of its axes."""

    ranges: tuple[tuple[int, int, int], ...]  # (start, stop, step) for each axis of the tensor, ascending
    flips: tuple[int, ...]  # axes that are then reversed
    shape: Shape  # the shape after ints are dropped and None axes put in
    arrays: tuple[tuple[int, Tensor], ...]  # (axis of shape, non-negative index)


def _is_array(k: object) -> bool:
    return isinstance(k, (list, np.ndarray)) or hasattr(k, "lazy")


def _is_int(k: object) -> bool:
    return isinstance(k, (int, np.integer)) and not isinstance(k, (bool, np.bool_))


def _expand_masks(x: Tensor, keys: Sequence[Any]) -> list[Any]:
    """Boolean masks as integer arrays, found on the host: how many elements they pick isn't known before."""
    out: list[Any] = []
    axis = 0
    for k in keys:
        if isinstance(k, (list, np.ndarray)):
            k = np.asarray(k)
            if k.size == 0 and k.dtype.kind == "f":
                k = k.astype(np.int64)
        elif isinstance(k, (bool, np.bool_)):
            k = np.asarray(k)
        kind = k.lazy.dtype.kind if hasattr(k, "lazy") else k.dtype.kind if isinstance(k, np.ndarray) else ""
        if kind == "b":
            mask = k.numpy() if hasattr(k, "lazy") else k
            if mask.shape != x.lazy.shape[axis : axis + mask.ndim]:
                raise IndexingError(
                    f"a mask of shape {mask.shape} doesn't fit the dimensions "
                    f"{x.lazy.shape[axis : axis + mask.ndim]} it selects from, of shape {x.lazy.shape}"
                )
            if mask.ndim == 0:
                out += [None, np.zeros(int(mask), np.int64)]
            else:
                out += list(np.nonzero(mask))
            axis += mask.ndim
            continue
        out.append(k)
        if k is not None and k is not Ellipsis:
            axis += 1
        elif k is Ellipsis:
            axis = len(x.lazy.shape) - sum(_rank(r) for r in keys[_place(keys, Ellipsis) + 1 :])
    return out


def _place(keys: Sequence[Any], wanted: object) -> int:
    return next(i for i, k in enumerate(keys) if k is wanted)


def _rank(k: Any) -> int:
    """Dimensions that a key consumes."""
    if k is None or k is Ellipsis or isinstance(k, (bool, np.bool_)):
        return 0
    if hasattr(k, "lazy") and k.lazy.dtype.is_bool:
        return len(k.lazy.shape)
    if isinstance(k, (list, np.ndarray)) and np.asarray(k).dtype.kind == "b":
        return np.asarray(k).ndim
    return 1


def normalize(x: Tensor, key: Any) -> Key:
    """``x[key]``'s key in normal form. Raises IndexingError for too many, out-of-range or unsupported
    indices.
    """
    shape = x.lazy.shape
    keys = list(key) if isinstance(key, tuple) else [key]
    if sum(k is Ellipsis for k in keys) > 1:
        raise IndexingError("an index can have a single ellipsis ('...')")
    keys = _expand_masks(x, keys)
    used = sum(_rank(k) for k in keys)
    if used > len(shape):
        raise IndexingError(f"too many indices: {used} for the {len(shape)} dimensions of shape {shape}")
    if not any(k is Ellipsis for k in keys):
        keys.append(Ellipsis)
    at = _place(keys, Ellipsis)
    keys[at : at + 1] = [slice(None)] * (len(shape) - used)
    ranges: list[tuple[int, int, int]] = []
    flips: list[int] = []
    new_shape: list[int] = []
    arrays: list[tuple[int, Tensor]] = []
    for k in keys:
        if k is None:
            new_shape.append(1)
            continue
        axis = len(ranges)
        n = shape[axis]
        if _is_int(k):
            i = _checked(int(k), n, axis, shape)
            ranges.append((i, i + 1, 1))
        elif isinstance(k, slice):
            start, stop, step, backwards = _slice(k, n)
            ranges.append((start, stop, step))
            new_shape.append(-(-(stop - start) // step))
            if backwards:
                flips.append(axis)
        elif _is_array(k):
            arrays.append((len(new_shape), _index_tensor(x, k, n, axis)))
            ranges.append((0, n, 1))
            new_shape.append(n)
        else:
            raise IndexingError(
                f"can't index with {type(k).__name__} {k!r}; use integers, slices, None, ..., "
                "or integer and bool tensors"
            )
    return Key(tuple(ranges), tuple(flips), tuple(new_shape), tuple(arrays))


def _checked(i: int, n: int, axis: int, shape: Shape) -> int:
    if not -n <= i < n:
        raise IndexingError(f"index {i} is out of range for dimension {axis} of size {n}, of shape {shape}")
    return i % n


def _slice(k: slice, n: int) -> tuple[int, int, int, bool]:
    """(start, stop, step, reversed) with ascending indices."""
    try:
        start, stop, step = k.indices(n)
    except (TypeError, ValueError) as error:
        raise IndexingError(f"bad slice {k}: {error}") from None
    if step > 0:
        return start, max(start, stop), step, False
    count = max(-(-(stop - start) // step), 0)
    if not count:
        return 0, 0, 1, False
    return start + (count - 1) * step, start + 1, -step, True


def _index_tensor(x: Tensor, k: Any, n: int, axis: int) -> Tensor:
    """An integer array as a tensor of indices counted from the front. Those known on the host are checked."""
    if hasattr(k, "lazy"):
        index: Tensor = k
        if not index.lazy.dtype.is_int:
            raise IndexingError(
                f"an index must hold integers or bools, got {index.lazy.dtype.name}; cast it with .long()"
            )
        if index.lazy.device != x.lazy.device:
            index = index.to(x.lazy.device)
        return wrap_negative(index, n)
    array = np.asarray(k)
    if array.dtype.kind not in "iu":
        raise IndexingError(f"an index must hold integers or bools, got {array.dtype}")
    wrong = array[(array < -n) | (array >= n)]
    if wrong.size:
        raise IndexingError(
            f"index {wrong.flat[0]} is out of range for dimension {axis} of size {n}, of shape {x.lazy.shape}"
        )
    return type(x)._of(np.where(array < 0, array + n, array).astype(np.int64), x.lazy.device)


def wrap_negative(index: Tensor, n: int) -> Tensor:
    """Negative indices counted from the end of an axis of size ``n``."""
    if index.lazy.dtype.kind == "u":
        return index
    index = index if fits(n, index.lazy.dtype) else cast(index, int64)
    return ew.where(ew.lt(index, 0), ew.add(index, n), index)


def getitem(x: Tensor, key: Any) -> Tensor:
    """The elements that ``key`` names.

    Integers take one slice and drop their dimension, before anything else. Index arrays are broadcast
    together; their shape replaces their dimensions where these are adjacent then, else comes first. That is
    PyTorch's order; NumPy counts an integer beside an index array as one more array, so for a shape
    (2, 3, 4) and ``i`` of two elements ``x[0, :, i]`` has shape (3, 2) here and (2, 3) there. Tensor indices
    out of range read as 0.
    """
    k = normalize(x, key)
    part = apply(Op.SLICE, k.ranges, x)
    if k.flips:
        part = apply(Op.FLIP, k.flips, part)
    part = apply(Op.RESHAPE, k.shape, part)
    return _take(part, k.arrays) if k.arrays else part


def _take(x: Tensor, arrays: Sequence[tuple[int, Tensor]]) -> Tensor:
    """Integer arrays at several axes: they become one index into those axes flattened, and one GATHER."""
    axes = [axis for axis, _ in arrays]
    together = broadcast_shape("index", *[index.lazy.shape for _, index in arrays])
    if axes != list(range(axes[0], axes[0] + len(axes))):
        rest = [i for i in range(len(x.lazy.shape)) if i not in axes]
        x = apply(Op.PERMUTE, (*axes, *rest), x)
        axes = list(range(len(axes)))
    shape = x.lazy.shape
    lead, sizes, tail = shape[: axes[0]], shape[axes[0] : axes[-1] + 1], shape[axes[-1] + 1 :]
    linear = arrays[0][1]
    if len(arrays) > 1 and not fits(math.prod(sizes), linear.lazy.dtype):
        linear = cast(linear, int64)
    for (_, index), n in zip(arrays[1:], sizes[1:], strict=True):
        linear = ew.add(ew.mul(linear, n), index)
    linear = expand_to(linear, together)
    count = math.prod(together)
    before, n, after = math.prod(lead), math.prod(sizes), math.prod(tail)
    flat = apply(Op.RESHAPE, (before, n, after), x)
    places = apply(Op.EXPAND, (before, count, after), apply(Op.RESHAPE, (1, count, 1), linear))
    return apply(Op.RESHAPE, (*lead, *together, *tail), apply(Op.GATHER, 1, flat, places))


def setitem(x: Tensor, key: Any, value: Operand) -> None:
    """Rebind ``x`` to a tensor with ``value``, broadcast and cast, at the elements that ``key`` names.

    Where indices repeat, the last value stays. Expressions built before keep the old elements.
    """
    x._rebind(replaced(x, key, value))


def replaced(x: Tensor, key: Any, value: Operand) -> Tensor:
    """What ``x`` becomes by ``x[key] = value``."""
    y = constant(x, value, shape=()) if is_scalar(value) else cast(coerce(x, value), x.lazy.dtype)  # type: ignore[arg-type]
    if y.lazy.device != x.lazy.device:
        y = y.to(x.lazy.device)
    mask = _whole_mask(x, key)
    if mask is not None and y.lazy.size == 1:
        return ew.where(mask, apply(Op.RESHAPE, (), y), x)
    k = normalize(x, key)
    if k.arrays:
        return _scattered(x, key, y)
    y = _fit(y, k.shape, x)
    kept = tuple(-(-(stop - start) // step) for start, stop, step in k.ranges)
    y = apply(Op.RESHAPE, kept, y)
    if k.flips:
        y = apply(Op.FLIP, k.flips, y)
    amounts = tuple(_gaps(r, m, n) for r, m, n in zip(k.ranges, kept, x.lazy.shape, strict=True))
    if y.lazy.shape == x.lazy.shape:
        return y
    placed = apply(Op.PAD, amounts, y)
    inside = apply(Op.PAD, amounts, constant(y, True, bool_))
    return ew.where(inside, placed, x)


def _gaps(r: tuple[int, int, int], m: int, n: int) -> tuple[int, int, int]:
    """(low, high, interior) that put ``m`` elements at the places of a range in an axis of ``n``."""
    start, _, step = r
    return (start, n - (start + (m - 1) * step + 1), step - 1) if m else (0, n, 0)


def _whole_mask(x: Tensor, key: Any) -> Tensor | None:
    """``key`` as a mask that broadcasts to ``x`` from the left, if it is one mask and nothing else."""
    if hasattr(key, "lazy"):
        mask: Tensor = key
    elif isinstance(key, np.ndarray) and key.dtype == np.bool_:
        mask = coerce(x, key)
    else:
        return None
    shape = mask.lazy.shape
    if not mask.lazy.dtype.is_bool or shape != x.lazy.shape[: len(shape)]:
        return None
    return apply(Op.RESHAPE, shape + (1,) * (len(x.lazy.shape) - len(shape)), mask)


def _fit(y: Tensor, shape: Shape, x: Tensor) -> Tensor:
    """``y`` broadcast to the shape that an assignment wants, leading axes of size 1 dropped."""
    mine = y.lazy.shape
    while len(mine) > len(shape) and mine[0] == 1:
        mine = mine[1:]
    if len(mine) > len(shape) or any(a not in (1, b) for a, b in zip(mine[::-1], shape[::-1], strict=False)):
        raise ShapeError(
            f"can't assign a value of shape {y.lazy.shape} to a part of shape {shape} "
            f"of a tensor {x.lazy.shape}"
        )
    return expand_to(apply(Op.RESHAPE, mine, y), shape)


def _scattered(x: Tensor, key: Any, y: Tensor) -> Tensor:
    places = getitem(apply(Op.RESHAPE, x.lazy.shape, type(x)._iota(x.lazy.size, None, x.lazy.device)), key)
    y = _fit(y, places.lazy.shape, x)
    flat = [apply(Op.RESHAPE, (t.lazy.size,), t) for t in (x, places, y)]
    return apply(Op.RESHAPE, x.lazy.shape, apply(Op.SCATTER, (0, None), *flat))


def _check_index(index: Tensor, what: str) -> None:
    if not index.lazy.dtype.is_int:
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


def _at_least_1d(x: Tensor) -> Tensor:
    return x if x.lazy.shape else apply(Op.RESHAPE, (1,), x)


@dims
def gather(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """``out[i][j] = x[index[i][j]][j]`` for dim 0, and so on: the result has the index's shape.

    ``index`` may be smaller than ``x`` in other dimensions. Negative indices count from the end; others out
    of range read 0.
    """
    index = coerce(x, index)
    _check_index(index, "gather")
    shape = index.lazy.shape
    x, index = _at_least_1d(x), _at_least_1d(index)
    axis = axis_of(dim, len(x.lazy.shape), "gather", x.lazy.shape)
    x = _trimmed(x, index.lazy.shape, axis, "gather")
    out = apply(Op.GATHER, axis, x, wrap_negative(index, x.lazy.shape[axis]))
    return apply(Op.RESHAPE, shape, out) if out.lazy.shape != shape else out


@dims
def take_along_dim(x: Tensor, index: Tensor, dim: int) -> Tensor:
    """:func:`gather` with ``x`` and ``index`` broadcast in the other dimensions."""
    index = coerce(x, index)
    axis = axis_of(dim, len(x.lazy.shape), "take_along_dim", x.lazy.shape)
    ones = [s[:axis] + (1,) + s[axis + 1 :] for s in (x.lazy.shape, index.lazy.shape)]
    common = broadcast_shape("take_along_dim", *ones)
    wide = [expand_to(t, common[:axis] + (t.lazy.shape[axis],) + common[axis + 1 :]) for t in (x, index)]
    out: Tensor = gather(wide[0], axis, wide[1])
    return out


@dims
def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices along ``dim`` that a 1-dimensional ``index`` lists."""
    axis = axis_of(dim, len(x.lazy.shape), "index_select", x.lazy.shape)
    index = coerce(x, index)
    if len(index.lazy.shape) != 1:
        raise ShapeError(f"index_select: the index must have one dimension, got shape {index.lazy.shape}")
    return getitem(x, (*[slice(None)] * axis, index))


def _scatter(x: Tensor, dim: int, index: Tensor, src: Operand, how: Op | None, what: str) -> Tensor:
    index = coerce(x, index)
    _check_index(index, what)
    axis = axis_of(dim, len(x.lazy.shape), what, x.lazy.shape)
    shape = index.lazy.shape
    if is_scalar(src):
        y = constant(x, src, shape=shape)  # type: ignore[arg-type]
    else:
        y = cast(coerce(x, src), x.lazy.dtype)
        y = _trimmed(y, shape, -1, what)
    index = wrap_negative(index, x.lazy.shape[axis])
    inner = _trimmed(x, shape, axis, what)
    out = apply(Op.SCATTER, (axis, how), inner, index, y)
    if out.lazy.shape == x.lazy.shape:
        return out
    return replaced(x, tuple(slice(0, n) for n in out.lazy.shape), out)


@dims
def scatter(x: Tensor, dim: int, index: Tensor, src: Operand) -> Tensor:
    """``x`` with ``out[index[i][j]][j] = src[i][j]`` for dim 0, and so on; the last of equal indices stays.
    """
    return _scatter(x, dim, index, src, None, "scatter")


@dims
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Operand) -> Tensor:
    """``x`` with each ``src[i][j]`` added at ``[index[i][j]][j]`` for dim 0, and so on. The adjoint of
    :func:`gather`.
    """
    return _scatter(x, dim, index, src, Op.ADD, "scatter_add")


@dims
def index_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """``x`` with slice ``i`` of ``src`` along ``dim`` added to slice ``index[i]``."""
    axis = axis_of(dim, len(x.lazy.shape), "index_add", x.lazy.shape)
    wide = [1] * len(x.lazy.shape)
    wide[axis] = index.lazy.size
    places = expand_to(apply(Op.RESHAPE, tuple(wide), index), src.lazy.shape)
    return _scatter(x, axis, places, src, Op.ADD, "index_add")


def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """The elements where ``mask`` holds, in a 1-dimensional tensor; the mask is evaluated at once."""
    shape = broadcast_shape("masked_select", x.lazy.shape, mask.lazy.shape)
    return getitem(expand_to(x, shape), expand_to(mask, shape))


def nonzero(x: Tensor) -> Tensor:
    """The indices of the elements that aren't 0, one row for each; evaluated at once. int64."""
    return type(x)._of(np.argwhere(x.numpy()).astype(np.int64), x.lazy.device)


def one_hot(x: Tensor, num_classes: int) -> Tensor:
    """A last dimension of ``num_classes`` with 1 at the index that ``x`` holds, 0 elsewhere; int64."""
    _check_index(x, "one_hot")
    classes = type(x)._iota(num_classes, x.lazy.dtype, x.lazy.device)
    return cast(ew.eq(apply(Op.RESHAPE, (*x.lazy.shape, 1), x), classes), int64)


def select(x: Tensor, dim: int, index: int) -> Tensor:
    """The slice at ``index`` along ``dim``, without that dimension."""
    axis = axis_of(dim, len(x.lazy.shape), "select", x.lazy.shape)
    return getitem(x, (*[slice(None)] * axis, index))


def narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """``length`` slices from ``start`` on along ``dim``."""
    axis = axis_of(dim, len(x.lazy.shape), "narrow", x.lazy.shape)
    n = x.lazy.shape[axis]
    if not 0 <= start <= start + length <= n:
        raise IndexingError(f"narrow: {length} elements from {start} are not within a dimension of size {n}")
    return getitem(x, (*[slice(None)] * axis, slice(start, start + length)))
