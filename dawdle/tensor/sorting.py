"""Sorting. The order is found on the host, by NumPy's stable sort; values are then gathered, so gradients
flow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dawdle.dtype import Array, int64
from dawdle.errors import ShapeError
from dawdle.lazy import build
from dawdle.lazy.ops import Op
from dawdle.runtime.trace import note_read
from dawdle.tensor.core import apply, axis_of, dims, same

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


@functools.lru_cache(maxsize=256)
def _order(axis: int, descending: bool) -> Callable[[Array], Array]:
    """The function that a CUSTOM node runs, one object for each kind so that equal graphs are seen to be
    equal.
    """

    def argsort(x: Array) -> Array:
        if not descending:
            return np.argsort(x, axis, kind="stable").astype(np.int64)
        backwards = np.argsort(np.flip(x, axis), axis, kind="stable")  # keeps the order of equal elements
        return np.ascontiguousarray(np.flip(x.shape[axis] - 1 - backwards, axis), np.int64)

    return argsort


@dims
def argsort(x: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    """The indices that sort ``x`` along ``dim``; equal elements keep their order, NaN counts as largest.
    int64.
    """
    shape = x.lazy.shape
    axis = axis_of(dim, len(shape), "argsort", shape)
    if not shape:
        return type(x).zeros(dtype=int64, device=x.lazy.device)
    note_read(x)
    return x._new(build.custom(_order(axis, descending), x.lazy, shape=shape, dtype=int64))


@dims
def sort(x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """(the elements sorted along ``dim``, the indices that they come from); see :func:`argsort`."""
    index: Tensor = argsort(x, dim, descending)
    if not x.lazy.shape:
        return same(x), index
    return apply(Op.GATHER, axis_of(dim, len(x.lazy.shape), "sort", x.lazy.shape), x, index), index


@dims
def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """(the ``k`` largest or smallest elements along ``dim``, in order, the indices that they come from)."""
    shape = x.lazy.shape
    axis = axis_of(dim, len(shape), "topk", shape)
    if not shape or not 0 <= k <= shape[axis]:
        raise ShapeError(f"topk: k={k} is not within dimension {axis} of shape {shape}")
    index: Tensor = argsort(x, axis, descending=largest)
    index = apply(Op.SLICE, tuple((0, k if i == axis else n, 1) for i, n in enumerate(shape)), index)
    return apply(Op.GATHER, axis, x, index), index


@dims
def median(x: Tensor, dim: int = -1, keepdim: bool = False) -> Tensor:
    """The lower median along ``dim``, as PyTorch's, without the indices."""
    shape = x.lazy.shape
    axis = axis_of(dim, len(shape), "median", shape)
    if not shape or not shape[axis]:
        raise ShapeError(f"median of no elements is undefined: shape {shape}, dim {dim}")
    values, _ = sort(x, axis)
    middle = (shape[axis] - 1) // 2
    part = apply(
        Op.SLICE,
        tuple((middle, middle + 1, 1) if i == axis else (0, n, 1) for i, n in enumerate(shape)),
        values,
    )
    return part if keepdim else apply(Op.RESHAPE, shape[:axis] + shape[axis + 1 :], part)
