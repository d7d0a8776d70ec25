"""What is composed of decompositions: least squares, ranks, norms and condition numbers of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from dawdle.dtype import int64
from dawdle.errors import ArgumentError, ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import Dim, Operand, apply, axis_of, cast, coerce, dims, operands
from dawdle.tensor.decompositions import QR, pinv, qr, svd, svdvals, tolerance
from dawdle.tensor.linalg import matmul
from dawdle.tensor.movement import matrix_transpose
from dawdle.tensor.reduce import norm as vector_norm_of
from dawdle.tensor.reduce import sum as total
from dawdle.tensor.solving import inverse, solve_triangular

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

Order = float | str | None


@dims
def vector_norm(
    x: Tensor, ord: float = 2, dim: Dim = None, keepdim: bool = False, dtype: object | None = None
) -> Tensor:
    """The ``ord``-norm of the elements over ``dim`` (all by default): see ``Tensor.norm``."""
    out: Tensor = vector_norm_of(x, ord, dim, keepdim, dtype=dtype)
    return out


@dims
def matrix_norm(
    x: Tensor, ord: float | str = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False
) -> Tensor:
    """The norm of the matrices that lie along two dimensions: "fro", the root of the sum of squares; "nuc",
    the sum of the singular values; 2 and -2, the largest and the smallest of these; 1 and -1, the largest and
    smallest sum of magnitudes of a column, ``inf`` and ``-inf`` of a row.
    """
    shape = x.lazy.shape
    if len(dim) != 2:
        raise ShapeError(f"matrix_norm takes two dimensions, got {tuple(dim)} of shape {shape}")
    rows, columns = (axis_of(d, len(shape), "matrix_norm", shape) for d in dim)
    if len(shape) < 2 or rows == columns:
        raise ShapeError(f"matrix_norm takes two dimensions, got {tuple(dim)} of shape {shape}")
    if ord == "fro":
        out: Tensor = vector_norm_of(x, 2, (rows, columns), keepdim)
        return out
    if ord in ("nuc", 2, -2):
        moved = apply(
            Op.PERMUTE, (*[i for i in range(len(shape)) if i not in (rows, columns)], rows, columns), x
        )
        values = svdvals(moved)
        out = {"nuc": values.sum, 2: values.amax, -2: values.amin}[ord](-1)
    elif ord in (1, -1, math.inf, -math.inf):
        sums: Tensor = total(ew.absolute(x), rows if abs(ord) == 1 else columns, True)
        out = (sums.amax if ord > 0 else sums.amin)((rows, columns))
    else:
        raise ArgumentError(
            f"matrix_norm: ord {ord!r} is unknown; use 'fro', 'nuc', 1, 2, inf or their negatives"
        )
    kept = tuple(1 if i in (rows, columns) else n for i, n in enumerate(shape))
    return apply(Op.RESHAPE, kept, out) if keepdim else out


@dims
def norm(x: Tensor, ord: Order = None, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """:func:`vector_norm`, or :func:`matrix_norm` for two dimensions, or a matrix with ``ord`` but no
    ``dim``; without both, the root of the sum of all squares.
    """
    if ord is None or not (isinstance(dim, (tuple, list)) or (dim is None and len(x.lazy.shape) == 2)):
        if isinstance(ord, str):
            raise ShapeError(f"norm: ord {ord!r} is for matrices, give two dims of shape {x.lazy.shape}")
        out: Tensor = vector_norm(x, 2 if ord is None else ord, dim, keepdim)
        return out
    if isinstance(dim, (tuple, list)) and len(dim) == 1 and not isinstance(ord, str):
        single: Tensor = vector_norm(x, ord, dim, keepdim)
        return single
    matrix: Tensor = matrix_norm(x, ord, (-2, -1) if dim is None else dim, keepdim)
    return matrix


def cond(x: Tensor, p: Order = None) -> Tensor:
    """The condition number of matrices: the largest singular value by the smallest (the other way round for
    ``p`` -2), or for other ``p`` the product of the norms of a square matrix and its inverse.
    """
    if p in (None, 2, -2):
        values = svdvals(x)
        largest, least = values.amax(-1), values.amin(-1)
        return ew.div(least, largest) if p == -2 else ew.div(largest, least)
    assert p is not None
    out: Tensor = ew.mul(matrix_norm(x, p), matrix_norm(inverse(x), p))
    return out


def matrix_rank(x: Tensor, *, rtol: float | None = None, atol: float = 0.0) -> Tensor:
    """The number of singular values above the larger of ``atol`` and ``rtol`` times the largest, int64; the
    default as of :func:`pinv`.
    """
    values = svdvals(x).detach()
    if not values.lazy.shape[-1]:
        return cast(total(values, -1), int64)
    limit = ew.maximum(ew.mul(values.amax(-1, True), tolerance(x, rtol, atol)), atol)
    out: Tensor = total(ew.gt(values, limit), -1)
    return out


class Lstsq(NamedTuple):
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


def lstsq(a: Tensor, b: Operand, rcond: float | None = None) -> Lstsq:
    """The x that minimises |a @ x - b| for (..., m, n) and (..., m, k), the shortest where there are several,
    by the pseudo-inverse; the squared distances (..., k); rank and singular values of ``a``. LAPACK on the
    host.
    """
    y = coerce(a, b)
    if len(y.lazy.shape) < 2 or a.lazy.shape[-2:-1] != y.lazy.shape[-2:-1]:
        raise ShapeError(f"lstsq takes (..., m, n) and (..., m, k), got {a.lazy.shape} and {y.lazy.shape}")
    solution = matmul(pinv(a, rcond), y)
    residuals: Tensor = total(ew.square(ew.sub(matmul(a, solution), y)), -2)
    return Lstsq(solution, residuals, matrix_rank(a, rtol=rcond), svdvals(a))


@operands("factor")
def cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    """x with ``a @ x = b``, given the Cholesky factor of ``a``."""
    lower = matrix_transpose(factor) if upper else factor
    half = solve_triangular(lower, b, upper=False)
    return solve_triangular(matrix_transpose(lower), half, upper=True)


def cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    """The inverse of a matrix, given its Cholesky factor."""
    if len(factor.lazy.shape) < 2:
        raise ShapeError(f"cholesky_inverse takes matrices, got shape {factor.lazy.shape}")
    n = factor.lazy.shape[-1]
    identity = type(factor).eye(n, dtype=factor.lazy.dtype, device=factor.lazy.device)
    return cholesky_solve(identity, factor, upper)


class SVDOfMethod(NamedTuple):
    U: Tensor
    S: Tensor
    V: Tensor


def svd_method(x: Tensor, some: bool = True, compute_uv: bool = True) -> SVDOfMethod:
    """(U, S, V) with ``U @ diag(S) @ V.mT = x``, as PyTorch's method of this name: reduced by default, zeros
    for U and V without ``compute_uv``. ``dawdle.linalg.svd`` gives the transposed V.
    """
    u, s, vh = svd(x, full_matrices=not some)
    if not compute_uv:
        return SVDOfMethod(u.zeros_like(), svdvals(x), matrix_transpose(vh).zeros_like())
    return SVDOfMethod(u, s, matrix_transpose(vh))


def qr_method(x: Tensor, some: bool = True) -> QR:
    """(Q, R) with ``Q @ R = x``, reduced with ``some``, else complete: see ``dawdle.linalg.qr``."""
    return qr(x, "reduced" if some else "complete")
