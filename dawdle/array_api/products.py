"""Linear algebra that every namespace has: products of vectors and matrices."""

from __future__ import annotations

from collections.abc import Sequence

from dawdle import linalg
from dawdle.errors import ShapeError
from dawdle.tensor import Tensor

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """See :meth:`Tensor.matmul`."""
    return x1.matmul(x2)


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged."""
    return x.mT


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Sum of products along ``axis``, a negative number counted in each of the operands, which broadcast."""
    if axis >= 0:
        raise ShapeError(f"vecdot: axis must be negative, got {axis}; it counts from the end of each operand")
    if x1.size(axis) != x2.size(axis):
        raise ShapeError(f"vecdot: shapes {x1.shape} and {x2.shape} differ along axis {axis}")
    return linalg.vecdot(x1, x2, dim=axis)


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Sum of products over axes of both operands: the last of the first with the first of the second, as many
    as ``axes`` says, or those that it lists. The other axes of both remain, in order.
    """
    return linalg.tensordot(x1, x2, axes)
