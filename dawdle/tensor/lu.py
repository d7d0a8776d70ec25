"""Factors of a matrix by Gaussian elimination."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dawdle.dtype import int64
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor import lapack
from dawdle.tensor.autograd import Composite, Node, Parts, rule
from dawdle.tensor.core import apply, cast, composite, expand_to, on_host
from dawdle.tensor.joining import cat
from dawdle.tensor.linalg import matmul
from dawdle.tensor.movement import matrix_transpose, tril, triu
from dawdle.tensor.solving import matrices, on_diagonal, solution, solve_triangular

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


class LU(NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor


def lu(x: Tensor, *, pivot: bool = True) -> LU:
    """(P, L, U) with ``P @ L @ U = x``: P a permutation (..., m, m), L lower triangular with ones on its
    diagonal (..., m, k), U upper triangular (..., k, n), k the smaller of m and n. Without ``pivot`` rows
    stay in their order and P is the identity. On the host.

    There is no gradient where U is singular. For m > n such a matrix raises LinAlgError.
    """
    a = matrices(x, "lu")
    m, n = a.lazy.shape[-2:]
    k = min(m, n)
    order = _order(a) if pivot else expand_to(type(x)._iota(m, int64, x.lazy.device), a.lazy.shape[:-1])
    wide = apply(Op.RESHAPE, (*order.lazy.shape, 1), order)
    rows = apply(Op.GATHER, len(a.lazy.shape) - 2, a, expand_to(wide, a.lazy.shape))
    top, below = rows.narrow(-2, 0, k), rows.narrow(-2, k, m - k)
    packed = composite(
        Composite.LU, lambda t: on_host(lapack.eliminated, t.lazy.shape, t), top.narrow(-1, 0, k)
    )
    lower, upper = _factors(packed)
    left = solve_triangular(upper, below.narrow(-1, 0, k), upper=True, left=False) if m > k else None
    right = (
        solve_triangular(lower, top.narrow(-1, k, n - k), upper=False, unitriangular=True) if n > k else None
    )
    lower = lower if left is None else cat([lower, left], -2)
    upper = upper if right is None else cat([upper, right], -1)
    number = apply(Op.RESHAPE, (m, 1), type(x)._iota(m, int64, x.lazy.device))
    places = ew.eq(apply(Op.RESHAPE, (*a.lazy.shape[:-2], 1, m), order), number)
    return LU(*[cast(t, x.lazy.dtype) for t in (places, lower, upper)])


def _order(a: Tensor) -> Tensor:
    """The rows in the order in which elimination takes them."""
    return cast(on_host(lapack.pivots, a.lazy.shape[:-1], a.detach()), int64)


def _factors(packed: Tensor) -> tuple[Tensor, Tensor]:
    """L and U from the square matrix that holds both."""
    return ew.where(on_diagonal(packed), 1.0, tril(packed)), triu(packed)


@rule(Composite.LU, output=True)
def _lu_gradient(n: Node, g: Tensor) -> Parts:
    lower, upper = (matrix_transpose(t) for t in _factors(n.y(g)))  # L^T is upper, U^T lower triangular
    inner = ew.add(tril(matmul(lower, tril(g, -1)), -1), triu(matmul(triu(g), upper)))
    kinds = (lapack.solve_upper, lapack.solve_lower)
    half = solution(lower, inner, kinds)
    return (matrix_transpose(solution(matrix_transpose(upper), matrix_transpose(half), kinds)),)
