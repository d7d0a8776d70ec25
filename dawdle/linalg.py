"""Linear algebra, named as ``torch.linalg``.

Products are kernels like any others. Solvers and decompositions are LAPACK's, called through NumPy on the
host whatever the device; their gradients are products and solves again, so they can be differentiated twice.
A matrix that an algorithm can't take raises LinAlgError when the result is realised.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from dawdle.tensor import decompositions as _decompositions
from dawdle.tensor import lu as _lu
from dawdle.tensor import matrices as _matrices
from dawdle.tensor import solving as _solving
from dawdle.tensor.arguments import public as _public
from dawdle.tensor.core import keywords
from dawdle.tensor.einsum import tensordot as _tensordot
from dawdle.tensor.linalg import cross as _cross
from dawdle.tensor.linalg import matmul as _matmul
from dawdle.tensor.linalg import matrix_power as _matrix_power
from dawdle.tensor.linalg import multi_dot
from dawdle.tensor.linalg import outer as _outer
from dawdle.tensor.linalg import vecdot as _vecdot
from dawdle.tensor.movement import diagonal as _diagonal
from dawdle.tensor.movement import matrix_transpose

if TYPE_CHECKING:
    from dawdle.tensor import Tensor
    from dawdle.tensor.core import Operand

R = TypeVar("R")


def _named(function: Callable[..., R]) -> Callable[..., R]:
    """``function``, whose operands may also be given as ``A`` and ``B``, as PyTorch calls matrices."""
    first, *others = inspect.signature(function).parameters
    return keywords(A=first, **({"B": "b"} if "b" in others else {}))(_public(function))


cholesky = _named(_decompositions.cholesky)
cond = _named(_matrices.cond)
det = _named(_solving.det)
eigh = _named(_decompositions.eigh)
eigvalsh = _named(_decompositions.eigvalsh)
inv = inverse = _named(_solving.inverse)
logdet = _named(_solving.logdet)
lstsq = _named(_matrices.lstsq)
lu = _named(_lu.lu)
matmul = _public(_matmul)
matrix_norm = _named(_matrices.matrix_norm)
matrix_power = _named(_matrix_power)
matrix_rank = _named(_matrices.matrix_rank)
norm = _named(_matrices.norm)
outer = _public(_outer)
pinv = _named(_decompositions.pinv)
qr = _named(_decompositions.qr)
slogdet = _named(_solving.slogdet)
solve = _named(_solving.solve)
solve_triangular = _named(_solving.solve_triangular)
svd = _named(_decompositions.svd)
svdvals = _named(_decompositions.svdvals)
tensordot = _public(_tensordot)
vecdot = _public(_vecdot)
vector_norm = _public(_matrices.vector_norm)


@_public
def cross(x: Tensor, other: Operand, *, dim: int = -1) -> Tensor:
    """Vector product along ``dim`` of size 3; the other dimensions broadcast."""
    return _cross(x, other, dim)


@_public
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
