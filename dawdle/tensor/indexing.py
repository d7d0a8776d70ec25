"""Reading and writing parts of tensors: slices, integer arrays, masks, gather and scatter."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from dawdle.config import current
from dawdle.dtype import Array, bool_, int64
from dawdle.errors import IndexingError, ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import (
    Operand,
    Shape,
    apply,
    broadcast_shape,
    cast,
    coerce,
    constant,
    expand_to,
    fits,
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
    front: bool  # the arrays' common shape comes first in the result, not in their axes' place


@dataclass(frozen=True)
class _Truth:
    """A single truth value as a key: a new axis of which all or nothing is taken."""

    count: int


def _is_array(k: object) -> bool:
    return isinstance(k, (list, tuple, range, np.ndarray)) or hasattr(k, "lazy")


def _array(k: Any, what: str) -> Array:
    try:
        return np.asarray(k)
    except ValueError:
        raise IndexingError(f"{what}: the rows of a list must have one length, got {k!r}") from None


def _plain(k: Any) -> Any:
    """A key as an int, a slice, None, an ellipsis, an array or a tensor; IndexingError for anything else."""
    if k is None or k is Ellipsis or isinstance(k, slice) or hasattr(k, "lazy"):
        return k
    if _is_array(k) or isinstance(k, (bool, np.bool_)):
        array = _array(k, "x[index]")
        if array.dtype.kind == "f" and not array.size:
            array = array.astype(np.int64)
        return int(array) if array.ndim == 0 and array.dtype.kind in "iu" else array
    if isinstance(k, SupportsIndex):
        return operator.index(k)
    raise IndexingError(
        f"can't index with {type(k).__name__} {k!r}; use integers, slices, None, ..., "
        "or integer and bool tensors"
    )


def _kind(k: Any) -> str:
    """The kind of dtype of an array or a tensor, else nothing."""
    dtype = k.lazy.dtype if hasattr(k, "lazy") else getattr(k, "dtype", None)
    return "" if dtype is None else str(dtype.kind)


def _rank(k: Any) -> int:
    """Dimensions that a key consumes."""
    if k is None or k is Ellipsis or isinstance(k, _Truth):
        return 0
    return k.ndim if _kind(k) == "b" else 1


def _expand_masks(x: Tensor, keys: Sequence[Any]) -> list[Any]:
    """Boolean masks as integer arrays, found on the host: how many elements they pick isn't known before.

    There is an ellipsis among ``keys``.
    """
    out: list[Any] = []
    for place, k in enumerate(keys):
        if _kind(k) != "b":
            out.append(k)
            continue
        mask = k.numpy() if hasattr(k, "lazy") else k
        axis = sum(map(_rank, keys[:place]))
        if any(other is Ellipsis for other in keys[:place]):
            axis = len(x.lazy.shape) - sum(map(_rank, keys[place:]))
        if mask.shape != x.lazy.shape[axis : axis + mask.ndim]:
            raise IndexingError(
                f"a mask of shape {mask.shape} doesn't fit the dimensions "
                f"{x.lazy.shape[axis : axis + mask.ndim]} it selects from, of shape {x.lazy.shape}"
            )
        out += np.nonzero(mask) if mask.ndim else [_Truth(int(mask))]
    return out


def _for_each_dimension(x: Tensor, key: Any) -> tuple[list[Any], bool]:
    """The keys of ``x[key]``, one for each dimension, with None and :class:`_Truth` between them, and whether
    something lies between index arrays. There are no masks, but integer arrays, and no ellipsis.
    """
    shape = x.lazy.shape
    keys = [_plain(k) for k in (key if isinstance(key, tuple) else (key,))]
    dots = sum(k is Ellipsis for k in keys)
    if dots > 1:
        raise IndexingError("an index can have a single ellipsis ('...')")
    if not dots:
        keys.append(Ellipsis)
    used = sum(map(_rank, keys))
    if used > len(shape):
        raise IndexingError(f"too many indices: {used} for the {len(shape)} dimensions of shape {shape}")
    keys = _expand_masks(x, keys)
    at = next(place for place, k in enumerate(keys) if k is Ellipsis)
    apart = _are_apart(keys)  # an ellipsis that stands for no dimensions is between, too
    keys[at : at + 1] = [slice(None)] * (len(shape) - used)
    return keys, apart


def normalize(x: Tensor, key: Any) -> Key:
    """``x[key]``'s key in normal form. Raises IndexingError for too many, out-of-range or unsupported
    indices.
    """
    shape = x.lazy.shape
    keys, apart = _for_each_dimension(x, key)
    ranges: list[tuple[int, int, int]] = []
    flips: list[int] = []
    new_shape: list[int] = []
    arrays: list[tuple[int, Tensor]] = []
    for k in keys:
        axis = len(ranges)
        if k is None:
            new_shape.append(1)
        elif isinstance(k, _Truth):
            arrays.append((len(new_shape), type(x)._of(np.zeros(k.count, np.int64), x.lazy.device)))
            new_shape.append(1)
        elif isinstance(k, int):
            i = _checked(k, shape[axis], axis, shape)
            ranges.append((i, i + 1, 1))
        elif isinstance(k, slice):
            start, stop, step, backwards = _slice(k, shape[axis])
            ranges.append((start, stop, step))
            new_shape.append(-(-(stop - start) // step))
            if backwards:
                flips.append(axis)
        else:
            arrays.append((len(new_shape), index_tensor(x, k, axis, "x[index]")))
            ranges.append((0, shape[axis], 1))
            new_shape.append(shape[axis])
    return Key(tuple(ranges), tuple(flips), tuple(new_shape), tuple(arrays), apart)


def _are_apart(keys: Sequence[Any]) -> bool:
    """Whether something lies between index arrays. An integer beside them counts as one, as in NumPy."""
    between = (type(None), type(Ellipsis), slice)
    places = [place for place, k in enumerate(keys) if not isinstance(k, between)]
    return bool(places) and places != list(range(places[0], places[0] + len(places)))


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


def index_tensor(x: Tensor, k: Operand, axis: int, what: str) -> Tensor:
    """Places along ``axis`` of ``x`` as a tensor of indices counted from the front.

    Integers known on the host are checked now, those of tensors when they are computed: see :func:`checked`.
    """
    n = x.lazy.shape[axis]
    if hasattr(k, "lazy"):
        given: Tensor = k  # type: ignore[assignment]
        if not given.lazy.dtype.is_int:
            raise IndexingError(
                f"{what}: an index must hold integers, got {given.lazy.dtype.name}; cast it with .long()"
            )
        if given.lazy.device != x.lazy.device:
            given = given.to(x.lazy.device)
        return wrap_negative(checked(given, n, what), n)
    array = _array(k, what)
    if array.dtype.kind not in "iu" and array.size:
        raise IndexingError(f"{what}: an index must hold integers, got {array.dtype}")
    wrong = array[(array < -n) | (array >= n)]
    if wrong.size:
        raise IndexingError(
            f"{what}: index {wrong.flat[0]} is out of range for dimension {axis} of size {n}, "
            f"of shape {x.lazy.shape}"
        )
    return type(x)._of(np.where(array < 0, array + n, array).astype(np.int64), x.lazy.device)


def checked(places: Tensor, n: int, what: str, least: int | None = None) -> Tensor:
    """``places`` itself, whose elements must be in [least, n) when they are computed; ``least`` is -n by
    default.

    With ``DAWDLE_CHECK=0`` nothing is checked. Then an index out of range reads 0 or another element of the
    tensor, and writes nothing or to another place in it, but never outside of its memory.
    """
    if not current().check or not places.lazy.size:
        return places
    low = 0 if places.lazy.dtype.kind == "u" else -n if least is None else least
    return apply(Op.CHECK, (low, n, what), places)


def wrap_negative(index: Tensor, n: int) -> Tensor:
    """Negative indices counted from the end of an axis of size ``n``."""
    if index.lazy.dtype.kind == "u":
        return index
    index = index if fits(n, index.lazy.dtype) else cast(index, int64)
    return ew.where(ew.lt(index, 0), ew.add(index, n), index)


def getitem(x: Tensor, key: Any) -> Tensor:
    """The elements that ``key`` names: integers, slices, None, an ellipsis, integer arrays and masks.

    Index arrays, and integers beside them, are broadcast together; their shape replaces their dimensions
    where these are adjacent, else comes first. That is NumPy's order. (PyTorch takes the integers first: for
    a shape (2, 3, 4) and ``i`` of two elements ``x[0, :, i]`` has shape (2, 3) here and (3, 2) there.) Raises
    IndexingError for an index out of range: at once where it is known, for tensors when it is computed.
    """
    k = normalize(x, key)
    part = apply(Op.SLICE, k.ranges, x)
    if k.flips:
        part = apply(Op.FLIP, k.flips, part)
    part = apply(Op.RESHAPE, k.shape, part)
    return _take(part, k.arrays, k.front) if k.arrays else part


def _take(x: Tensor, arrays: Sequence[tuple[int, Tensor]], front: bool) -> Tensor:
    """Integer arrays at several axes: they become one index into those axes flattened, and one GATHER."""
    axes = [axis for axis, _ in arrays]
    together = broadcast_shape("index", *[index.lazy.shape for _, index in arrays])
    if front or axes != list(range(axes[0], axes[0] + len(axes))):
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
    y = ew.written(x, value)
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
    places = getitem(numbered(x), key)
    y = _fit(y, places.lazy.shape, x)
    flat = [apply(Op.RESHAPE, (t.lazy.size,), t) for t in (x, places, y)]
    return apply(Op.RESHAPE, x.lazy.shape, apply(Op.SCATTER, (0, None), *flat))


def numbered(x: Tensor) -> Tensor:
    """Each element's place in the flattened tensor, int64."""
    return apply(Op.RESHAPE, x.lazy.shape, type(x)._iota(x.lazy.size, None, x.lazy.device))
