"""Linear algebra, named as ``torch.linalg``.

Products are kernels like any others. Solvers and decompositions are LAPACK's, called through NumPy on the
host whatever the device; their gradients are products and solves again, so they can be differentiated twice.
A matrix that an algorithm can't take raises LinAlgError when the result is realised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dawdle.tensor.decompositions import (
    cholesky,
    eigh,
    eigvalsh,
    pinv,
    qr,
    svd,
    svdvals,
)
from dawdle.tensor.einsum import tensordot
from dawdle.tensor.linalg import cross as _cross
from dawdle.tensor.linalg import matmul, matrix_power, multi_dot, outer, vecdot
from dawdle.tensor.lu import lu
from dawdle.tensor.matrices import cond, lstsq, matrix_norm, matrix_rank, norm, vector_norm
from dawdle.tensor.movement import diagonal as _diagonal
from dawdle.tensor.movement import matrix_transpose
from dawdle.tensor.solving import det, inverse, logdet, slogdet, solve, solve_triangular

if TYPE_CHECKING:
    from dawdle.tensor import Tensor
    from dawdle.tensor.core import Operand

inv = inverse


def cross(x: Tensor, other: Operand, *, dim: int = -1) -> Tensor:
    """Vector product along ``dim`` of size 3; the other dimensions broadcast."""
    return _cross(x, other, dim)


def diagonal(x: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices, as a new last dimension."""
    out: Tensor = _diagonal(x, offset, dim1, dim2)
    return out


# fmt: off
__all__ = [
    "cholesky", "cond", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "inverse", "logdet", "lstsq",
    "lu", "matmul", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm",
    "outer", "pinv", "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals", "tensordot", "vecdot",
    "vector_norm",
]
# fmt: on
