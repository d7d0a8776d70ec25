"""The standard's extension for linear algebra: functions of :mod:`dawdle.linalg` under its names."""

from __future__ import annotations

from typing import Literal

from dawdle import linalg
from dawdle.array_api.dtypes import summed
from dawdle.array_api.products import matmul, matrix_transpose, tensordot, vecdot
from dawdle.dtype import DType
from dawdle.errors import ShapeError
from dawdle.tensor import Tensor
from dawdle.tensor.decompositions import QR, SVD, Eigh
from dawdle.tensor.solving import Slogdet

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd",
    "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """See :func:`dawdle.linalg.cholesky`."""
    return linalg.cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Vector product along ``axis`` of size 3, a negative number; the other axes broadcast."""
    return linalg.cross(x1, x2, dim=axis)


def det(x: Tensor, /) -> Tensor:
    """See :func:`dawdle.linalg.det`."""
    return linalg.det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices, as a new last axis."""
    return linalg.diagonal(x, offset=offset)


def eigh(x: Tensor, /) -> Eigh:
    """See :func:`dawdle.linalg.eigh`."""
    return linalg.eigh(x)


def eigvalsh(x: Tensor, /) -> Tensor:
    """See :func:`dawdle.linalg.eigvalsh`."""
    return linalg.eigvalsh(x)


def inv(x: Tensor, /) -> Tensor:
    """See :func:`dawdle.linalg.inv`."""
    return linalg.inv(x)


def matrix_norm(
    x: Tensor, /, *, keepdims: bool = False, ord: float | Literal["fro", "nuc"] | None = "fro"
) -> Tensor:
    """See :func:`dawdle.linalg.matrix_norm`; None is "fro"."""
    return linalg.matrix_norm(x, "fro" if ord is None else ord, keepdim=keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """See :func:`dawdle.linalg.matrix_power`."""
    return linalg.matrix_power(x, n)


def _limits(values: Tensor, rtol: Tensor) -> Tensor:
    """The singular values that count as zero, for a relative tolerance of each matrix."""
    return values <= rtol.to(device=values.device).unsqueeze(-1) * values.amax(-1, True)


def matrix_rank(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """The number of singular values above ``rtol`` (one number, or one for each matrix) times the largest;
    int64.
    """
    if not isinstance(rtol, Tensor):
        return linalg.matrix_rank(x, rtol=rtol)
    values = linalg.svdvals(x)
    return _limits(values, rtol).logical_not().count_nonzero(-1)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Products of all pairs of elements of two vectors."""
    return linalg.outer(x1, x2)


def pinv(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """See :func:`dawdle.linalg.pinv`; ``rtol`` may be one number or one for each matrix."""
    if not isinstance(rtol, Tensor):
        return linalg.pinv(x, rtol)
    u, s, vh = linalg.svd(x, full_matrices=False)
    inverted = s.reciprocal().masked_fill(_limits(s, rtol), 0)
    return (vh.mT * inverted.unsqueeze(-2)).matmul(u.mT)


def qr(x: Tensor, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QR:
    """See :func:`dawdle.linalg.qr`."""
    return linalg.qr(x, mode)


def slogdet(x: Tensor, /) -> Slogdet:
    """See :func:`dawdle.linalg.slogdet`."""
    return linalg.slogdet(x)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """y with ``x1 @ y = x2``. ``x2`` is matrices unless it has one axis. See :func:`dawdle.linalg.solve`."""
    if x2.ndim > 1:
        x2 = x2.reshape((1,) * max(x1.ndim - x2.ndim, 0) + x2.shape)  # with fewer axes it could mean vectors
    return linalg.solve(x1, x2)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVD:
    """See :func:`dawdle.linalg.svd`."""
    return linalg.svd(x, full_matrices)


def svdvals(x: Tensor, /) -> Tensor:
    """See :func:`dawdle.linalg.svdvals`."""
    return linalg.svdvals(x)


def trace(x: Tensor, /, *, offset: int = 0, dtype: DType | None = None) -> Tensor:
    """The sums of the diagonals of matrices: of integers in int64 or, of unsigned ones, in uint64."""
    if x.ndim < 2:
        raise ShapeError(f"trace takes matrices, got shape {x.shape}")
    return diagonal(x, offset=offset).sum(-1, dtype=summed(x, dtype))


def vector_norm(
    x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """See :func:`dawdle.linalg.vector_norm`."""
    out: Tensor = linalg.vector_norm(x, ord, axis, keepdims)
    return out
