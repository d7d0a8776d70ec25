"""Distances between vectors: between those of two sets, of one set, and of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dawdle.errors import ArgumentError, ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.arithmetic import clamp_min
from dawdle.tensor.core import (
    Shape,
    apply,
    axis_of,
    broadcast_shape,
    cast,
    dims,
    expand_to,
    operands,
    to_float,
    widen,
)
from dawdle.tensor.reduce import norm
from dawdle.tensor.reduce import sum as total
from dawdle.tensor.scatter import index_select

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


@operands("x2")
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """The ``p``-norm of the difference of each row of ``x1`` (..., m, d) and each of ``x2`` (..., n, d):
    shape (..., m, n). Leading dimensions broadcast. The gradient is 0 where the distance is.

    Differences are taken before they are squared, whatever ``compute_mode`` says. Raises ShapeError where
    shapes don't fit, ArgumentError for a negative ``p``.
    """
    a, b = x1.lazy.shape, x2.lazy.shape
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-1]:
        raise ShapeError(f"cdist takes (..., m, d) and (..., n, d), got shapes {a} and {b}")
    rows = apply(Op.RESHAPE, (*a[:-1], 1, a[-1]), to_float(x1))
    columns = apply(Op.RESHAPE, (*b[:-2], 1, *b[-2:]), to_float(x2))
    return _length(ew.sub(rows, columns), p, "cdist")


def _length(difference: Tensor, p: float, what: str) -> Tensor:
    if p < 0:
        raise ArgumentError(f"{what}: p must not be negative, got {p}")
    out: Tensor = norm(difference, p, -1)
    return out


def pdist(x: Tensor, p: float = 2.0) -> Tensor:
    """The ``p``-norm of the difference of each two rows of ``x`` (n, d): shape (n * (n - 1) / 2,), in the
    order of the upper triangle of :func:`cdist`.
    """
    shape = x.lazy.shape
    if len(shape) != 2:
        raise ShapeError(f"pdist takes the rows of a matrix, got shape {shape}")
    first, second = (index_select(x, 0, places) for places in np.triu_indices(shape[0], 1))
    return _length(ew.sub(to_float(first), to_float(second)), p, "pdist")


@operands("other")
def dist(x: Tensor, other: Tensor, p: float = 2.0) -> Tensor:
    """The ``p``-norm of all elements of x - other, which broadcast."""
    out: Tensor = norm(ew.sub(to_float(x), to_float(other)), p)
    return out


@operands("x2")
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The ``p``-norm over the last dimension of x1 - x2 + ``eps``."""
    out: Tensor = norm(ew.add(ew.sub(to_float(x1), to_float(x2)), eps), p, -1, keepdim)
    return out


@dims
@operands("x2")
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between the vectors along ``dim``, whose lengths count as ``eps`` at least; the
    operands broadcast.
    """
    x1, x2 = to_float(x1), to_float(x2)
    shape = broadcast_shape("cosine_similarity", x1.lazy.shape, x2.lazy.shape)
    if not shape:
        return apply(Op.RESHAPE, (), cosine_similarity(apply(Op.RESHAPE, (1,), x1), x2, dim, eps))
    axis = axis_of(dim, len(shape), "cosine_similarity", shape)
    product = ew.mul(_unit(x1, axis, shape, eps), _unit(x2, axis, shape, eps))
    out: Tensor = cast(total(product, axis), ew.promoted(x1, x2))
    return out


def _unit(x: Tensor, axis: int, shape: Shape, eps: float) -> Tensor:
    """The directions of vectors that are as long along ``axis`` as in the common ``shape``."""
    mine = (1,) * (len(shape) - len(x.lazy.shape)) + x.lazy.shape
    wide = expand_to(widen(x), (*mine[:axis], shape[axis], *mine[axis + 1 :]))
    return ew.div(wide, clamp_min(norm(wide, 2.0, axis, True), eps))
