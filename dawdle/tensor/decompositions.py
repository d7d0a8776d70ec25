"""Factors of batches of matrices, their eigenvalues and singular values, and pseudo-inverses: by LAPACK and
with gradients as in solving.py.

What a matrix doesn't allow (one that isn't positive definite to have a Cholesky factor) raises LinAlgError
when the result is realised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dawdle.errors import ArgumentError, GradientError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor import lapack
from dawdle.tensor.autograd import Composite, Node, Parts, rule
from dawdle.tensor.core import Shape, apply, cast, composite, constant, cut, expand_to, on_host
from dawdle.tensor.joining import cat
from dawdle.tensor.linalg import matmul
from dawdle.tensor.movement import matrix_transpose, tril, triu, unsqueeze
from dawdle.tensor.solving import matrices, on_diagonal, solution, split

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


def _over(x: Tensor, divisor: Tensor) -> Tensor:
    """x / divisor, 0 where the divisor is: vectors of equal values have no derivative, but sums over them
    may.
    """
    zero = ew.eq(divisor, 0.0)
    return ew.where(zero, 0.0, ew.div(x, ew.where(zero, 1.0, divisor)))


def cholesky(x: Tensor, upper: bool = False) -> Tensor:
    """The lower triangular L with ``L @ L.mT = x`` for symmetric positive definite (..., n, n), of which the
    lower triangle is read; with ``upper`` its transpose. Raises LinAlgError for others. LAPACK on the host.
    """
    a = matrices(x, "cholesky", True)
    out = cast(
        composite(Composite.CHOLESKY, lambda a: on_host(lapack.cholesky, a.lazy.shape, a), a), x.lazy.dtype
    )
    return matrix_transpose(out) if upper else out


@rule(Composite.CHOLESKY, output=True)
def _cholesky_gradient(n: Node, g: Tensor) -> Parts:
    """Source: Murray, Differentiation of the Cholesky Decomposition, 2016."""
    lower = n.y(g)
    kinds = (lapack.solve_upper, lapack.solve_lower)
    inner = tril(matmul(matrix_transpose(lower), g))
    inner = ew.where(on_diagonal(g), ew.mul(inner, 0.5), inner)
    half = solution(matrix_transpose(lower), inner, kinds)  # L^-T inner
    full = matrix_transpose(solution(matrix_transpose(lower), matrix_transpose(half), kinds))
    return (ew.mul(ew.add(full, matrix_transpose(full)), 0.5),)


class QR(NamedTuple):
    Q: Tensor
    R: Tensor


def qr(x: Tensor, mode: str = "reduced") -> QR:
    """(Q, R) with ``Q @ R = x``, Q's columns orthonormal, R upper triangular: shapes (..., m, n) -> (..., m,
    k), (..., k, n), k the smaller of m and n. ``mode`` "complete" has k = m (and no gradient for m > n), "r"
    gives an empty Q. LAPACK on the host.
    """
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentError(f"qr: mode {mode!r} is unknown; use reduced, complete or r")
    a = matrices(x, "qr")
    m, n = a.lazy.shape[-2:]
    complete = mode == "complete" and m > n
    if m < n:  # Q of the first square, the rest of R follows
        columns = len(a.lazy.shape) - 1
        q, r = _qr(cut(a, columns, 0, m), False)
        r = cat([r, matmul(matrix_transpose(q), cut(a, columns, m, n))], -1)
    else:
        q, r = _qr(a, complete)
    if mode == "r":
        q = constant(a, 0, shape=(0,))
    return QR(cast(q, x.lazy.dtype), cast(r, x.lazy.dtype))


def _qr_shapes(shape: Shape, complete: bool) -> tuple[Shape, Shape]:
    m, n = shape[-2:]
    k = m if complete else min(m, n)
    return (m, k), (k, n)


def _qr(a: Tensor, complete: bool) -> list[Tensor]:
    shapes = _qr_shapes(a.lazy.shape, complete)
    size = sum(p * q for p, q in shapes)
    function = lapack.qr_complete if complete else lapack.qr
    packed = composite(
        Composite.QR, lambda a: on_host(function, (*a.lazy.shape[:-2], size), a), a, arg=(shapes, complete)
    )
    return split(packed, shapes)


@rule(Composite.QR, output=True)
def _qr_gradient(n: Node, g: Tensor) -> Parts:
    """Source: Walter and Lehmann, Algorithmic Differentiation of Linear Algebra Functions, 2010."""
    shapes, complete = n.arg
    if complete:
        raise GradientError("qr has no gradient in mode 'complete' for more rows than columns; use 'reduced'")
    (q, r), (gq, gr) = split(n.y(g), shapes), split(g, shapes)
    inner = triu(ew.sub(matmul(gr, matrix_transpose(r)), matmul(matrix_transpose(q), gq)))
    inner = ew.add(inner, matrix_transpose(inner))
    inner = ew.where(on_diagonal(inner), ew.mul(inner, 0.5), inner)
    left = ew.add(gq, matmul(q, inner))
    # X R^T = left
    kinds = (lapack.solve_upper, lapack.solve_lower)
    return (matrix_transpose(solution(r, matrix_transpose(left), kinds)),)


class Eigh(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


def _lower(x: Tensor, uplo: str, what: str) -> Tensor:
    if uplo.upper() not in ("L", "U"):
        raise ArgumentError(f"{what}: UPLO must be 'L' or 'U', got {uplo!r}")
    a = matrices(x, what, True)
    return a if uplo.upper() == "L" else matrix_transpose(a)


def eigh(x: Tensor, UPLO: str = "L") -> Eigh:
    """(eigenvalues in ascending order (..., n), orthonormal eigenvectors as columns (..., n, n)) of symmetric
    (..., n, n), of which the triangle ``UPLO`` is read. Vectors of equal values have no gradient; it counts
    as 0. LAPACK on the host.
    """
    a = _lower(x, UPLO, "eigh")
    n = a.lazy.shape[-1]
    shape = (*a.lazy.shape[:-2], n + 1, n)
    packed = composite(Composite.EIGH, lambda a: on_host(lapack.eigh, shape, a), a)
    values, vectors = _eigen_parts(packed)
    return Eigh(cast(values, x.lazy.dtype), cast(vectors, x.lazy.dtype))


def _eigen_parts(packed: Tensor) -> tuple[Tensor, Tensor]:
    *lead, rows, n = packed.lazy.shape
    values = apply(Op.RESHAPE, (*lead, n), cut(packed, len(lead), 0, 1))
    return values, cut(packed, len(lead), 1, rows)


@rule(Composite.EIGH, output=True)
def _eigh_gradient(n: Node, g: Tensor) -> Parts:
    """Source: Giles, Collected Matrix Derivative Results, 2008."""
    (values, vectors), (g_values, g_vectors) = _eigen_parts(n.y(g)), _eigen_parts(g)
    turned = matrix_transpose(vectors)
    gaps = ew.sub(unsqueeze(values, -2), unsqueeze(values, -1))
    inner = ew.where(on_diagonal(g), unsqueeze(g_values, -2), _over(matmul(turned, g_vectors), gaps))
    return (matmul(matmul(vectors, inner), turned),)


def eigvalsh(x: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues that :func:`eigh` gives, with a gradient also where some are equal."""
    a = _lower(x, UPLO, "eigvalsh")
    out = composite(Composite.EIGVALSH, lambda a: on_host(lapack.eigvalsh, a.lazy.shape[:-1], a), a)
    return cast(out, x.lazy.dtype)


@rule(Composite.EIGVALSH, inputs=True)
def _eigvalsh_gradient(n: Node, g: Tensor) -> Parts:
    vectors = eigh(n.x(g)).eigenvectors
    return (matmul(ew.mul(vectors, unsqueeze(g, -2)), matrix_transpose(vectors)),)


class SVD(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


def svd(x: Tensor, full_matrices: bool = True) -> SVD:
    """(U, S, Vh) with ``U @ diag(S) @ Vh = x``: shapes (..., m, n) -> (..., m, k), (..., k), (..., k, n), k
    the smaller of m and n; S in descending order. ``full_matrices`` completes U and Vh to square matrices;
    what it adds has no gradient, and neither have vectors of equal values. LAPACK on the host.
    """
    a = matrices(x, "svd")
    shapes = _svd_shapes(a.lazy.shape, full_matrices)
    size = sum(int(np.prod(shape)) for shape in shapes)
    function = lapack.svd_full if full_matrices else lapack.svd
    packed = composite(
        Composite.SVD, lambda a: on_host(function, (*a.lazy.shape[:-2], size), a), a, arg=shapes
    )
    return SVD(*[cast(t, x.lazy.dtype) for t in split(packed, shapes)])


def _svd_shapes(shape: Shape, full: bool) -> tuple[Shape, Shape, Shape]:
    m, n = shape[-2:]
    k = min(m, n)
    return (m, m if full else k), (k,), (n if full else k, n)


def _leading(parts: Sequence[Tensor], k: int) -> tuple[Tensor, Tensor, Tensor]:
    """U, S and Vh without what completes them to square matrices."""
    u, s, vh = parts
    return u.narrow(-1, 0, k), s, vh.narrow(-2, 0, k)


def _skew(x: Tensor) -> Tensor:
    return ew.sub(x, matrix_transpose(x))


@rule(Composite.SVD, output=True)
def _svd_gradient(node: Node, g: Tensor) -> Parts:
    """Source: Townsend, Differentiating the Singular Value Decomposition, 2016."""
    shapes = node.arg
    m, k, n = shapes[0][0], shapes[1][0], shapes[2][1]
    u, s, vh = _leading(split(node.y(g), shapes), k)
    gu, gs, gvh = _leading(split(g, shapes), k)
    row, column = unsqueeze(s, -2), unsqueeze(s, -1)
    gaps = ew.mul(ew.sub(row, column), ew.add(row, column))
    left = ew.mul(_over(_skew(matmul(matrix_transpose(u), gu)), gaps), row)
    right = ew.mul(column, _over(_skew(matmul(vh, matrix_transpose(gvh))), gaps))
    inner = ew.where(on_diagonal(left), unsqueeze(gs, -2), ew.add(left, right))
    out = matmul(matmul(u, inner), vh)
    if m > k:
        rest = ew.sub(gu, matmul(u, matmul(matrix_transpose(u), gu)))
        out = ew.add(out, matmul(_over(rest, expand_to(row, rest.lazy.shape)), vh))
    if n > k:
        rest = ew.sub(gvh, matmul(matmul(gvh, matrix_transpose(vh)), vh))
        out = ew.add(out, matmul(u, _over(rest, expand_to(column, rest.lazy.shape))))
    return (out,)


def svdvals(x: Tensor) -> Tensor:
    """The singular values that :func:`svd` gives, with a gradient also where some are equal."""
    a = matrices(x, "svdvals")
    shape = (*a.lazy.shape[:-2], min(a.lazy.shape[-2:]))
    out = composite(Composite.SVDVALS, lambda a: on_host(lapack.svdvals, shape, a), a)
    return cast(out, x.lazy.dtype)


@rule(Composite.SVDVALS, inputs=True)
def _svdvals_gradient(n: Node, g: Tensor) -> Parts:
    u, _, vh = svd(n.x(g), full_matrices=False)
    return (matmul(ew.mul(u, unsqueeze(g, -2)), vh),)


def tolerance(x: Tensor, rtol: float | None, atol: float) -> float:
    """The relative tolerance for singular values of matrices: the machine precision times the larger of m and
    n by default, 0 where an absolute one is given.
    """
    if rtol is not None:
        return float(rtol)
    return 0.0 if atol else max(x.lazy.shape[-2:]) * 2.0**-x.lazy.dtype.mantissa


def pinv(x: Tensor, rtol: float | None = None, atol: float = 0.0) -> Tensor:
    """The pseudo-inverse of (..., m, n), by Moore and Penrose: (..., n, m). Singular values up to the larger
    of ``atol`` and ``rtol`` times the largest count as 0; ``rtol`` is by default the machine precision times
    the larger of m and n, 0 where ``atol`` is given. LAPACK on the host.
    """
    a = matrices(x, "pinv")
    m, n = a.lazy.shape[-2:]
    function = lapack.PseudoInverse(tolerance(a, rtol, atol), float(atol))
    shape = (*a.lazy.shape[:-2], n, m)
    return cast(composite(Composite.PINV, lambda a: on_host(function, shape, a), a), x.lazy.dtype)


@rule(Composite.PINV, inputs=True, output=True)
def _pinv_gradient(n: Node, g: Tensor) -> Parts:
    """Source: Golub and Pereyra, The Differentiation of Pseudo-Inverses and Nonlinear Least Squares Problems,
    1973.
    """
    a, p = n.x(g), n.y(g)
    pt, gt = matrix_transpose(p), matrix_transpose(g)
    out = ew.neg(matmul(matmul(pt, g), pt))
    left = matmul(matmul(gt, p), pt)  # G^T P P^T
    right = matmul(matmul(pt, p), gt)  # P^T P G^T
    out = ew.add(out, ew.sub(left, matmul(a, matmul(p, left))))
    return (ew.add(out, ew.sub(right, matmul(matmul(right, p), a))),)
