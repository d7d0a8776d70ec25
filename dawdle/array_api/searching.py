"""Searching, sorting, sets, and choosing by index."""

from __future__ import annotations

from typing import Literal, NamedTuple

from dawdle.dtype import promote_scalar
from dawdle.errors import DTypeError, ShapeError
from dawdle.tensor import Tensor

__all__ = [
    "argmax", "argmin", "argsort", "count_nonzero", "nonzero", "searchsorted", "sort", "take",
    "take_along_axis", "unique_all", "unique_counts", "unique_inverse", "unique_values", "where",
]  # fmt: skip


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """See :meth:`Tensor.argmax`."""
    return x.argmax(axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """See :meth:`Tensor.argmin`."""
    return x.argmin(axis, keepdims)


def count_nonzero(
    x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False
) -> Tensor:
    """How many elements aren't zero; int64."""
    return x.count_nonzero(axis, keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of the elements that aren't zero, for each axis."""
    if x.ndim == 0:
        raise ShapeError("nonzero: a 0-dimensional array has no axes; reshape it to (1,)")
    return tuple(x.nonzero().unbind(1))


def searchsorted(
    x1: Tensor,
    x2: Tensor | float,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: Tensor | None = None,
) -> Tensor:
    """Where each of ``x2`` would have to be put into the sorted ``x1`` for it to stay sorted; int64."""
    return x1.searchsorted(x2, side=side, sorter=sorter)


def where(condition: Tensor, x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """``x1`` where the bool ``condition`` holds, else ``x2``."""
    if isinstance(x1, Tensor):
        return x1.where(condition, x2)
    if not isinstance(x2, Tensor):
        raise DTypeError("where takes at least one array beside the condition")
    return Tensor.full((), x1, promote_scalar(x2.dtype, x1), x2.device).where(condition, x2)


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that sort along ``axis``, NaN last; always stable. int64."""
    return x.argsort(axis, descending, stable=True)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements sorted along ``axis``, NaN last; always stable."""
    values: Tensor = x.sort(axis, descending, stable=True)[0]
    return values


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The slices along ``axis`` that ``indices`` lists; ``axis`` may be left out for one dimension."""
    if axis is None and x.ndim != 1:
        raise ShapeError(f"take: which axis of shape {x.shape}? pass axis=")
    return x.index_select(axis or 0, indices)


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """The elements along ``axis`` at ``indices``, which broadcast with ``x`` in the other axes."""
    return x.take_along_dim(indices, axis)


class UniqueAll(NamedTuple):
    """Distinct values, where each occurs first, which of them each element is, how often each occurs."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Distinct values and how often each occurs."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Distinct values and which of them each element is."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """The distinct elements in order, and all that is known of them; NaNs are distinct. Evaluated at once."""
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    first = inverse.reshape(-1).argsort(stable=True)[counts.cumsum(0) - counts]
    return UniqueAll(values, first, inverse, counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The distinct elements in order and how often each occurs; NaNs are distinct. Evaluated at once."""
    return UniqueCounts(*x.unique(return_counts=True))


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The distinct elements in order and which of them each element is; NaNs are distinct. Found at once."""
    return UniqueInverse(*x.unique(return_inverse=True))


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct elements in order; NaNs are distinct. Evaluated at once."""
    values: Tensor = x.unique()
    return values
