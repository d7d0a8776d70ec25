"""Batches of matrices solved with and inverted, and their determinants. LAPACK does it, through NumPy on the
host, in float32 or float64; gradients are products and solves, so that they can be differentiated again.

A singular matrix raises LinAlgError when the result is realised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dawdle.dtype import float32, promote
from dawdle.errors import DTypeError, ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor import lapack
from dawdle.tensor.autograd import Composite, Node, Parts, rule
from dawdle.tensor.core import (
    HALF,
    Operand,
    Shape,
    apply,
    broadcast_shape,
    cast,
    coerce,
    composite,
    cut,
    expand_to,
    on_host,
    operands,
    widen,
)
from dawdle.tensor.linalg import matmul
from dawdle.tensor.movement import matrix_transpose, tril, triu, unsqueeze

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


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


def split(packed: Tensor, shapes: Sequence[Shape]) -> list[Tensor]:
    """The results that :mod:`lapack` has joined along the last dimension."""
    lead = packed.lazy.shape[:-1]
    out, start = [], 0
    for shape in shapes:
        size = int(np.prod(shape))
        part = cut(packed, len(lead), start, start + size)
        out.append(apply(Op.RESHAPE, (*lead, *shape), part))
        start += size
    return out


def on_diagonal(like: Tensor) -> Tensor:
    """Whether a place of a square matrix is on the diagonal, (n, n)."""
    n = like.lazy.shape[-1]
    number = type(like)._iota(n, None, like.lazy.device)
    return ew.eq(apply(Op.RESHAPE, (n, 1), number), number)


# ---- solving


def solve(a: Tensor, b: Operand, *, left: bool = True) -> Tensor:
    """x with ``a @ x = b``, or ``x @ a = b`` without ``left``: shapes (..., n, n), (..., n, k), batch
    dimensions broadcast. ``b`` may be vectors: of shape (n,), or with one dimension less than ``a`` and its
    shape but for the last. Raises LinAlgError for singular matrices. LAPACK on the host.
    """
    y, kinds = coerce(a, b), (lapack.solve, lapack.solve)
    if len(y.lazy.shape) > 1 and y.lazy.shape != a.lazy.shape[:-1]:
        return _solved("solve", a, y, left, kinds)
    if not left:
        raise ShapeError("solve: vectors are solved with left=True alone")
    out = _solved("solve", a, unsqueeze(y, -1), True, kinds)
    return apply(Op.RESHAPE, out.lazy.shape[:-1], out)


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
    a, y = matrices(a, what, True), matrices(b, what)
    if not left:
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
    return cast(solution(a, y, kinds), dtype)


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
    return (ew.mul(unsqueeze(unsqueeze(g, -1), -1), cofactors),)


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
    sign, magnitude = (cast(t, x.lazy.dtype) for t in split(packed, ((), ())))
    return Slogdet(sign.detach(), magnitude)


@rule(Composite.SLOGDET, inputs=True)
def _slogdet_gradient(n: Node, g: Tensor) -> Parts:
    _, part = split(g, ((), ()))
    return (ew.mul(unsqueeze(unsqueeze(part, -1), -1), matrix_transpose(inverse(n.x(g)))),)


def logdet(x: Tensor) -> Tensor:
    """The logarithm of the determinant of (..., n, n): NaN where that is negative. See :func:`slogdet`."""
    sign, magnitude = slogdet(x)
    return ew.where(ew.lt(sign, 0.0), float("nan"), magnitude)
