"""Solving, inverting and decomposing batches of matrices. LAPACK does it, through NumPy on the host, in
float32 or float64; gradients are composed of products and solves, so that they can be differentiated again.

What a matrix doesn't allow (a singular one to be solved with, one that isn't positive definite to have a
Cholesky factor) raises LinAlgError when the result is realised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dawdle.dtype import float32, promote
from dawdle.errors import ArgumentError, DTypeError, GradientError, ShapeError
from dawdle.lazy import build
from dawdle.lazy.ops import Op
from dawdle.runtime.trace import note_read
from dawdle.tensor import elementwise as ew
from dawdle.tensor import lapack
from dawdle.tensor.autograd import Composite, Node, rule
from dawdle.tensor.core import (
    HALF,
    Operand,
    Shape,
    apply,
    broadcast_shape,
    cast,
    coerce,
    composite,
    constant,
    expand_to,
    operands,
    widen,
)
from dawdle.tensor.joining import cat
from dawdle.tensor.linalg import matmul
from dawdle.tensor.movement import matrix_transpose, tril, triu

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

Parts = tuple["Tensor | None", ...]


def matrices(x: Tensor, what: str, square: bool = False) -> Tensor:
    """``x``, 16-bit floats widened. Raises DTypeError or ShapeError unless it holds (square) matrices of
    floats.
    """
    shape = x.lazy.shape
    if len(shape) < 2 or (square and shape[-1] != shape[-2]):
        kind = "square matrices (..., n, n)" if square else "matrices (..., m, n)"
        raise ShapeError(f"{what} takes {kind}, got shape {shape}")
    if not x.lazy.dtype.is_float:
        raise DTypeError(f"{what} takes floats, got {x.lazy.dtype.name}; cast it with .float()")
    return widen(x)


def on_host(function: lapack.Host, shape: Sequence[int], *operands: Tensor) -> Tensor:
    note_read(*operands)
    lazies = [t.lazy for t in operands]
    return operands[0]._new(build.custom(function, *lazies, shape=shape, dtype=lazies[0].dtype))


def _split(packed: Tensor, shapes: Sequence[Shape]) -> list[Tensor]:
    """The results that :mod:`lapack` has joined along the last dimension."""
    lead = packed.lazy.shape[:-1]
    out, start = [], 0
    for shape in shapes:
        size = int(np.prod(shape))
        part = apply(Op.SLICE, (*[(0, n, 1) for n in lead], (start, start + size, 1)), packed)
        out.append(apply(Op.RESHAPE, (*lead, *shape), part))
        start += size
    return out


def on_diagonal(like: Tensor) -> Tensor:
    """Whether a place of a square matrix is on the diagonal, (n, n)."""
    n = like.lazy.shape[-1]
    number = type(like)._iota(n, None, like.lazy.device)
    return ew.eq(apply(Op.RESHAPE, (n, 1), number), number)


def _over(x: Tensor, divisor: Tensor) -> Tensor:
    """x / divisor, 0 where the divisor is: vectors of equal values have no derivative, but sums over them
    may.
    """
    zero = ew.eq(divisor, 0.0)
    return ew.where(zero, 0.0, ew.div(x, ew.where(zero, 1.0, divisor)))


def _row(x: Tensor) -> Tensor:
    return apply(Op.RESHAPE, (*x.lazy.shape[:-1], 1, x.lazy.shape[-1]), x)


def _column(x: Tensor) -> Tensor:
    return apply(Op.RESHAPE, (*x.lazy.shape, 1), x)


# ---- solving


def solve(a: Tensor, b: Operand, *, left: bool = True) -> Tensor:
    """x with ``a @ x = b``, or ``x @ a = b`` without ``left``: shapes (..., n, n), (..., n, k), batch
    dimensions broadcast. ``b`` may be vectors: of shape (n,), or with one dimension less than ``a`` and its
    shape but for the last. Raises LinAlgError for singular matrices. LAPACK on the host.
    """
    return _solved("solve", a, coerce(a, b), left, (lapack.solve, lapack.solve))


def solve_triangular(
    a: Tensor, b: Operand, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """:func:`solve` for triangular matrices: the other triangle isn't read, with ``unitriangular`` the
    diagonal counts as ones. ``b`` holds matrices. By substitution on the host.
    """
    y = coerce(a, b)
    matrices(a, "solve_triangular", True)
    matrices(y, "solve_triangular")
    part = triu(a) if upper else tril(a)
    if unitriangular:
        part = ew.where(on_diagonal(a), 1.0, part)
    kinds = (lapack.solve_upper, lapack.solve_lower)
    return _solved("solve_triangular", part, y, left, kinds if upper else kinds[::-1])


Kinds = tuple[lapack.Host, lapack.Host]  # how a matrix and its transpose are solved with


def _solved(what: str, a: Tensor, b: Tensor, left: bool, kinds: Kinds) -> Tensor:
    dtype = promote(a.lazy.dtype, b.lazy.dtype)
    a = matrices(a, what, True)
    vectors = len(b.lazy.shape) == 1 or b.lazy.shape == a.lazy.shape[:-1]
    y = _column(b) if vectors else b
    y = matrices(y, what)
    if not left:
        if vectors:
            raise ShapeError(f"{what}: vectors are solved with left=True alone")
        out = _solved(what, matrix_transpose(a), matrix_transpose(y), True, kinds[::-1])
        return matrix_transpose(cast(out, dtype))
    n, k = y.lazy.shape[-2:]
    if a.lazy.shape[-1] != n:
        raise ShapeError(
            f"{what}: {a.lazy.shape} and {b.lazy.shape} don't fit: {a.lazy.shape[-1]} rows are wanted"
        )
    batch = broadcast_shape(what, a.lazy.shape[:-2], y.lazy.shape[:-2])
    work = float32 if dtype in HALF else dtype
    a, y = expand_to(cast(a, work), (*batch, n, n)), expand_to(cast(y, work), (*batch, n, k))
    out = cast(solution(a, y, kinds), dtype)
    return apply(Op.RESHAPE, out.lazy.shape[:-1], out) if vectors else out


def solution(a: Tensor, b: Tensor, kinds: Kinds) -> Tensor:
    return composite(Composite.SOLVE, lambda a, b: on_host(kinds[0], b.lazy.shape, a, b), a, b, arg=kinds)


@rule(Composite.SOLVE, inputs=True, output=True)
def _solve_gradient(n: Node, g: Tensor) -> Parts:
    b = solution(matrix_transpose(n.x(g, 0)), g, n.arg[::-1])
    return ew.neg(matmul(b, matrix_transpose(n.y(g)))) if n.needs(0) else None, b


class TriangularSolve(NamedTuple):
    solution: Tensor
    cloned_coefficient: Tensor


@operands("a")
def triangular_solve(
    b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolve:
    """(x with ``a @ x = b`` for a triangular ``a``, or its transpose; ``a``): :func:`solve_triangular`."""
    matrix = matrix_transpose(a) if transpose else a
    out = solve_triangular(matrix, b, upper=upper != transpose, unitriangular=unitriangular)
    return TriangularSolve(out, a)


def inverse(x: Tensor) -> Tensor:
    """The inverse of matrices (..., n, n). Raises LinAlgError for singular ones. LAPACK on the host."""
    a = matrices(x, "inverse", True)
    identity = cast(on_diagonal(a), a.lazy.dtype)
    kinds = (lapack.inverse, lapack.solve)
    return cast(solution(a, expand_to(identity, a.lazy.shape), kinds), x.lazy.dtype)


# ---- determinants


def det(x: Tensor) -> Tensor:
    """The determinant of square matrices (..., n, n) -> (...). Has a gradient at singular matrices too, but a
    second one only elsewhere. LAPACK on the host.
    """
    a = matrices(x, "det", True)
    out = composite(Composite.DET, lambda a: on_host(lapack.det, a.lazy.shape[:-2], a), a)
    return cast(out, x.lazy.dtype)


@rule(Composite.DET, inputs=True)
def _det_gradient(n: Node, g: Tensor) -> Parts:
    cofactors = composite(Composite.COFACTOR, lambda a: on_host(lapack.cofactors, a.lazy.shape, a), n.x(g))
    return (ew.mul(_column(_column(g)), cofactors),)


@rule(Composite.COFACTOR, inputs=True, output=True)
def _cofactor_gradient(n: Node, g: Tensor) -> Parts:
    inverse_t, cofactors = matrix_transpose(inverse(n.x(g))), n.y(g)
    total = apply(Op.SUM, (g.ndim - 2, g.ndim - 1), ew.mul(g, cofactors))
    turned = matmul(matmul(cofactors, matrix_transpose(g)), inverse_t)
    return (ew.sub(ew.mul(total, inverse_t), turned),)


class Slogdet(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


def slogdet(x: Tensor) -> Slogdet:
    """(sign, logarithm of the magnitude) of the determinant of (..., n, n): 0 and -inf of singular matrices,
    at which there is no gradient. LAPACK on the host.
    """
    a = matrices(x, "slogdet", True)
    packed = composite(Composite.SLOGDET, lambda a: on_host(lapack.slogdet, (*a.lazy.shape[:-2], 2), a), a)
    sign, magnitude = (cast(t, x.lazy.dtype) for t in _split(packed, ((), ())))
    return Slogdet(sign.detach(), magnitude)


@rule(Composite.SLOGDET, inputs=True)
def _slogdet_gradient(n: Node, g: Tensor) -> Parts:
    _, part = _split(g, ((), ()))
    return (ew.mul(_column(_column(part)), matrix_transpose(inverse(n.x(g)))),)


def logdet(x: Tensor) -> Tensor:
    """The logarithm of the determinant of (..., n, n): NaN where that is negative. See :func:`slogdet`."""
    sign, magnitude = slogdet(x)
    return ew.where(ew.lt(sign, 0.0), float("nan"), magnitude)


# ---- factors


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
        rows = [(0, s, 1) for s in a.lazy.shape[:-1]]
        q, r = _qr(apply(Op.SLICE, (*rows, (0, m, 1)), a), False)
        rest = apply(Op.SLICE, (*rows, (m, n, 1)), a)
        r = cat([r, matmul(matrix_transpose(q), rest)], -1)
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
    return _split(packed, shapes)


@rule(Composite.QR, output=True)
def _qr_gradient(n: Node, g: Tensor) -> Parts:
    """Source: Walter and Lehmann, Algorithmic Differentiation of Linear Algebra Functions, 2010."""
    shapes, complete = n.arg
    if complete:
        raise GradientError("qr has no gradient in mode 'complete' for more rows than columns; use 'reduced'")
    (q, r), (gq, gr) = _split(n.y(g), shapes), _split(g, shapes)
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
    part = [(0, s, 1) for s in lead]
    values = apply(Op.SLICE, (*part, (0, 1, 1), (0, n, 1)), packed)
    return apply(Op.RESHAPE, (*lead, n), values), apply(Op.SLICE, (*part, (1, rows, 1), (0, n, 1)), packed)


@rule(Composite.EIGH, output=True)
def _eigh_gradient(n: Node, g: Tensor) -> Parts:
    """Source: Giles, Collected Matrix Derivative Results, 2008."""
    (values, vectors), (g_values, g_vectors) = _eigen_parts(n.y(g)), _eigen_parts(g)
    turned = matrix_transpose(vectors)
    gaps = ew.sub(_row(values), _column(values))
    inner = ew.where(on_diagonal(g), _row(g_values), _over(matmul(turned, g_vectors), gaps))
    return (matmul(matmul(vectors, inner), turned),)


def eigvalsh(x: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues that :func:`eigh` gives, with a gradient also where some are equal."""
    a = _lower(x, UPLO, "eigvalsh")
    out = composite(Composite.EIGVALSH, lambda a: on_host(lapack.eigvalsh, a.lazy.shape[:-1], a), a)
    return cast(out, x.lazy.dtype)


@rule(Composite.EIGVALSH, inputs=True)
def _eigvalsh_gradient(n: Node, g: Tensor) -> Parts:
    vectors = eigh(n.x(g)).eigenvectors
    return (matmul(ew.mul(vectors, _row(g)), matrix_transpose(vectors)),)


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
    return SVD(*[cast(t, x.lazy.dtype) for t in _split(packed, shapes)])


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
    u, s, vh = _leading(_split(node.y(g), shapes), k)
    gu, gs, gvh = _leading(_split(g, shapes), k)
    row, column = _row(s), _column(s)
    gaps = ew.mul(ew.sub(row, column), ew.add(row, column))
    left = ew.mul(_over(_skew(matmul(matrix_transpose(u), gu)), gaps), row)
    right = ew.mul(column, _over(_skew(matmul(vh, matrix_transpose(gvh))), gaps))
    inner = ew.where(on_diagonal(left), _row(gs), ew.add(left, right))
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
    return (matmul(ew.mul(u, _row(g)), vh),)


def pinv(x: Tensor, rtol: float | None = None, atol: float = 0.0) -> Tensor:
    """The pseudo-inverse of (..., m, n), by Moore and Penrose: (..., n, m). Singular values up to the larger
    of ``atol`` and ``rtol`` times the largest count as 0; ``rtol`` is by default the machine precision times
    the larger of m and n, 0 where ``atol`` is given. LAPACK on the host.
    """
    a = matrices(x, "pinv")
    m, n = a.lazy.shape[-2:]
    if rtol is None:
        rtol = max(m, n) * float(np.finfo(a.lazy.dtype.compute).eps) if atol == 0 else 0.0
    function = lapack.pinv(float(rtol), float(atol))
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
