"""Linear algebra that every namespace has: products of vectors and matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dawdle.errors import ShapeError
from dawdle.tensor import Tensor
from dawdle.tensor.core import axis_of

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
    product = x1 * x2
    if x1.size(axis) != x2.size(axis):
        raise ShapeError(f"vecdot: shapes {x1.shape} and {x2.shape} differ along axis {axis}")
    return product.sum(axis, dtype=product.dtype)


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Sum of products over axes of both operands: the last of the first with the first of the second, as many
    as ``axes`` says, or those that it lists. The other axes of both remain, in order.
    """
    if isinstance(axes, int):
        lists: tuple[Sequence[int], Sequence[int]] = (range(x1.ndim - axes, x1.ndim), range(axes))
    else:
        lists = axes
    left, right = (
        [axis_of(i, x.ndim, "tensordot", x.shape) for i in some]
        for x, some in zip((x1, x2), lists, strict=True)
    )
    if [x1.shape[i] for i in left] != [x2.shape[i] for i in right]:
        raise ShapeError(f"tensordot: axes {left} of {x1.shape} and {right} of {x2.shape} differ in size")
    rows = [i for i in range(x1.ndim) if i not in left]
    columns = [i for i in range(x2.ndim) if i not in right]
    n = math.prod(x1.shape[i] for i in left)
    a = x1.permute(*rows, *left).reshape(math.prod(x1.shape[i] for i in rows), n)
    b = x2.permute(*right, *columns).reshape(n, math.prod(x2.shape[i] for i in columns))
    return a.matmul(b).reshape(*[x1.shape[i] for i in rows], *[x2.shape[i] for i in columns])
