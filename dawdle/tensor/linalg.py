"""Products of vectors and matrices. Each is a broadcast multiplication and a SUM, never materialised."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dawdle.dtype import float32, promote
from dawdle.errors import ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import (
    HALF,
    Operand,
    Scalar,
    apply,
    axis_of,
    broadcast_shape,
    cast,
    coerce,
    dims,
    expand_to,
    keywords,
    operands,
    same,
    tensors_of,
)
from dawdle.tensor.joining import stack
from dawdle.tensor.reduce import sum as total

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


def contract(a: Tensor, b: Tensor, axes: Sequence[int]) -> Tensor:
    """The sum over ``axes`` of the product of two tensors that broadcast; the axes keep size 1.

    16-bit floats are multiplied and summed in float32, and rounded once.
    """
    dtype = promote(a.lazy.dtype, b.lazy.dtype)
    work = float32 if dtype in HALF else dtype
    shape = broadcast_shape("product", a.lazy.shape, b.lazy.shape)
    a, b = expand_to(cast(a, work), shape), expand_to(cast(b, work), shape)
    if dtype.is_bool:
        return apply(Op.AMAX, tuple(axes), apply(Op.AND, None, a, b))
    return cast(apply(Op.SUM, tuple(axes), apply(Op.MUL, None, a, b)), dtype)


def matmul(x: Tensor, other: Operand) -> Tensor:
    """Matrix product of (..., m, k) and (..., k, n), batch dimensions broadcast.

    A 1-dimensional operand counts as a row on the left and a column on the right, and that dimension is
    dropped again.
    """
    y = coerce(x, other)
    a, b = x.lazy.shape, y.lazy.shape
    if not a or not b:
        raise ShapeError(f"matmul needs operands of at least one dimension, got {a} and {b}; multiply with *")
    if a[-1] != b[-2 if len(b) > 1 else 0]:
        raise ShapeError(
            f"matmul: {a} @ {b} doesn't fit: the last dimension of the left, {a[-1]}, must equal "
            f"the {'next to last' if len(b) > 1 else 'only'} one of the right, {b[-2 if len(b) > 1 else 0]}"
        )
    left = apply(Op.RESHAPE, (*a[:-1], 1, a[-1]), x)  # (..., m, 1, k)
    if len(b) == 1:
        right = apply(Op.RESHAPE, (1, b[0]), y)
    else:
        order = tuple(range(len(b)))
        flipped = apply(Op.PERMUTE, (*order[:-2], order[-1], order[-2]), y)
        shape = flipped.lazy.shape
        right = apply(
            Op.RESHAPE, (*shape[:-2], 1, *shape[-2:]) if len(a) > 1 else shape, flipped
        )  # (..., 1, n, k)
    try:
        product_shape = broadcast_shape("matmul", left.lazy.shape, right.lazy.shape)
    except ShapeError:
        raise ShapeError(f"matmul: the batch dimensions of {a} and {b} don't broadcast") from None
    out = contract(left, right, (len(product_shape) - 1,))
    shape = out.lazy.shape[:-1]
    if len(b) == 1:
        shape = shape[:-1]
    return apply(Op.RESHAPE, shape, out)


def rmatmul(x: Tensor, other: Operand) -> Tensor:
    """``other @ x``."""
    return matmul(coerce(x, other), x)


def _of_ranks(what: str, ranks: tuple[int, ...], *operands: Tensor) -> None:
    shapes = [t.lazy.shape for t in operands]
    if tuple(map(len, shapes)) != ranks:
        wanted = " and ".join(f"{r}" for r in ranks)
        raise ShapeError(
            f"{what} takes operands of {wanted} dimensions, got {' and '.join(map(str, shapes))}; "
            "matmul takes any"
        )


@keywords(mat2="other")
def mm(x: Tensor, other: Operand) -> Tensor:
    """Matrix product of (m, k) and (k, n)."""
    y = coerce(x, other)
    _of_ranks("mm", (2, 2), x, y)
    return matmul(x, y)


@keywords(mat2="other")
def bmm(x: Tensor, other: Operand) -> Tensor:
    """Matrix products of (b, m, k) and (b, k, n)."""
    y = coerce(x, other)
    _of_ranks("bmm", (3, 3), x, y)
    if x.lazy.shape[0] != y.lazy.shape[0]:
        raise ShapeError(f"bmm: {x.lazy.shape} and {y.lazy.shape} hold different numbers of matrices")
    return matmul(x, y)


@keywords(vec="other")
def mv(x: Tensor, other: Operand) -> Tensor:
    """Product of a matrix (m, k) and a vector (k,)."""
    y = coerce(x, other)
    _of_ranks("mv", (2, 1), x, y)
    return matmul(x, y)


def dot(x: Tensor, other: Operand) -> Tensor:
    """Sum of the products of two 1-dimensional tensors."""
    y = coerce(x, other)
    _of_ranks("dot", (1, 1), x, y)
    return matmul(x, y)


def _combined(added: Tensor, product: Tensor, beta: Scalar, alpha: Scalar) -> Tensor:
    """beta * added + alpha * product; what is added times 0 isn't looked at."""
    product = product if alpha == 1 else ew.mul(product, alpha)
    if beta == 0:
        return product
    return ew.add(added if beta == 1 else ew.mul(added, beta), product)


@operands("mat1", "mat2")
def addmm(x: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """beta * x + alpha * mat1 @ mat2, for matrices; ``x`` broadcasts, and isn't looked at for beta 0."""
    return _combined(x, mm(mat1, mat2), beta, alpha)


@operands("mat", "vec")
def addmv(x: Tensor, mat: Tensor, vec: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """beta * x + alpha * mat @ vec, for a matrix and a vector; see :func:`addmm`."""
    return _combined(x, mv(mat, vec), beta, alpha)


@operands("vec1", "vec2")
def addr(x: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """beta * x + alpha * outer(vec1, vec2); see :func:`addmm`."""
    return _combined(x, outer(vec1, vec2), beta, alpha)


@operands("batch1", "batch2")
def baddbmm(x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """beta * x + alpha * bmm(batch1, batch2); see :func:`addmm`."""
    return _combined(x, bmm(batch1, batch2), beta, alpha)


@operands("batch1", "batch2")
def addbmm(x: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """beta * x + alpha * the sum of the matrices of bmm(batch1, batch2); see :func:`addmm`."""
    product: Tensor = total(bmm(batch1, batch2), 0)
    return _combined(x, product, beta, alpha)


@keywords(vec2="other")
def outer(x: Tensor, other: Operand) -> Tensor:
    """All products of elements of two 1-dimensional tensors."""
    y = coerce(x, other)
    if len(x.lazy.shape) != 1 or len(y.lazy.shape) != 1:
        raise ShapeError(f"outer takes 1-dimensional tensors, got {x.lazy.shape} and {y.lazy.shape}")
    return ew.mul(apply(Op.RESHAPE, (x.lazy.size, 1), x), y)


def inner(x: Tensor, other: Operand) -> Tensor:
    """Sums of products over the last dimension of both: shapes (*a, n), (*b, n) -> (*a, *b). A scalar
    multiplies.
    """
    y = coerce(x, other)
    a, b = x.lazy.shape, y.lazy.shape
    if not a or not b:
        return ew.mul(x, y)
    if a[-1] != b[-1]:
        raise ShapeError(f"inner: the last dimensions of {a} and {b} differ")
    left = apply(Op.RESHAPE, (*a[:-1], *[1] * (len(b) - 1), a[-1]), x)
    return apply(Op.RESHAPE, a[:-1] + b[:-1], contract(left, y, (len(a) + len(b) - 2,)))


@dims
def vecdot(x: Tensor, other: Operand, dim: int = -1) -> Tensor:
    """Sums of products along ``dim`` of tensors that broadcast."""
    y = coerce(x, other)
    shape = broadcast_shape("vecdot", x.lazy.shape, y.lazy.shape)
    axis = axis_of(dim, len(shape), "vecdot", shape)
    if not shape:
        raise ShapeError("vecdot needs operands of at least one dimension; multiply with *")
    out = contract(x, y, (axis,))
    return apply(Op.RESHAPE, shape[:axis] + shape[axis + 1 :], out)


def kron(x: Tensor, other: Operand) -> Tensor:
    """Kronecker's product: each element of ``x`` times all of ``other``, as blocks. Missing leading
    dimensions have size 1.
    """
    y = coerce(x, other)
    n = max(len(x.lazy.shape), len(y.lazy.shape))
    a, b = ((1,) * (n - len(t.lazy.shape)) + t.lazy.shape for t in (x, y))
    left = apply(Op.RESHAPE, tuple(m for size in a for m in (size, 1)), x)
    right = apply(Op.RESHAPE, tuple(m for size in b for m in (1, size)), y)
    return apply(Op.RESHAPE, tuple(p * q for p, q in zip(a, b, strict=True)), ew.mul(left, right))


def cross(x: Tensor, other: Operand, dim: int | None = None) -> Tensor:
    """Vector product along ``dim`` of size 3, by default the first one of that size; the other dimensions
    broadcast.
    """
    y = coerce(x, other)
    shape = broadcast_shape("cross", x.lazy.shape, y.lazy.shape)
    if dim is None:
        dim = next((i for i, n in enumerate(shape) if n == 3), -1)
    axis = axis_of(dim, len(shape), "cross", shape)
    if not shape or any(t.lazy.shape[axis - len(shape) :][:1] != (3,) for t in (x, y)):
        raise ShapeError(
            f"cross: dimension {dim} of shapes {x.lazy.shape} and {y.lazy.shape} must be 3 in both"
        )
    a, b = ([expand_to(t, shape).select(axis, i) for i in range(3)] for t in (x, y))
    parts = [ew.sub(ew.mul(a[i - 2], b[i - 1]), ew.mul(a[i - 1], b[i - 2])) for i in range(3)]
    out: Tensor = stack(parts, axis)
    return out


def multi_dot(tensors: Sequence[Operand]) -> Tensor:
    """The matrix product of several matrices, in the order that takes the fewest multiplications; the first
    and the last may be vectors.
    """
    parts = tensors_of(tensors, "multi_dot")
    if not parts:
        raise ShapeError("multi_dot takes at least one matrix")
    ranks = [len(t.lazy.shape) for t in parts]
    if any(r != 2 for r in ranks[1:-1]) or not {ranks[0], ranks[-1]} <= {1, 2}:
        raise ShapeError(f"multi_dot takes matrices, got {', '.join(str(t.lazy.shape) for t in parts)}")
    if len(parts) == 1:
        return same(parts[0])
    if ranks[0] == 1:
        parts[0] = apply(Op.RESHAPE, (1, parts[0].lazy.size), parts[0])
    if ranks[-1] == 1:
        parts[-1] = apply(Op.RESHAPE, (parts[-1].lazy.size, 1), parts[-1])
    out = _multiplied(parts, _cuts([parts[0].lazy.shape[0], *[t.lazy.shape[1] for t in parts]]))
    rows, columns = out.lazy.shape
    return apply(Op.RESHAPE, (rows,) * (ranks[0] - 1) + (columns,) * (ranks[-1] - 1), out)


def _cuts(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where each stretch of a product of matrices is best cut in two (Cormen et al., Introduction to
    Algorithms, chapter 15).
    """
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    cut = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            costs = {
                k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)
            }
            cut[i, j] = min(costs, key=costs.__getitem__)
            cost[i, j] = costs[cut[i, j]]
    return cut


def _multiplied(parts: Sequence[Tensor], cut: dict[tuple[int, int], int]) -> Tensor:
    """The product by its cuts, the shortest stretches first."""
    done = {(i, i): t for i, t in enumerate(parts)}
    wanted = [(0, len(parts) - 1)]
    for i, j in wanted:  # grows while it is walked
        if i < j:
            wanted += [(i, cut[i, j]), (cut[i, j] + 1, j)]
    for i, j in reversed(wanted):
        if i < j:
            done[i, j] = matmul(done[i, cut[i, j]], done[cut[i, j] + 1, j])
    return done[0, len(parts) - 1]


def chain_matmul(*matrices: Operand) -> Tensor:
    """:func:`multi_dot` of the arguments."""
    return multi_dot(matrices)


@operands("weight", "bias")
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight + bias`` with a weight of shape (in, out), or ``x * weight + bias`` with a 1-dimensional
    one.

    PyTorch's form with a weight of shape (out, in) is ``nn.functional.linear``.
    """
    out = ew.mul(x, weight) if len(weight.lazy.shape) == 1 else matmul(x, weight)
    return out if bias is None else ew.add(out, bias)


def matrix_power(x: Tensor, n: int) -> Tensor:
    """The matrix (..., m, m) multiplied ``n`` times with itself, by repeated squaring; of the inverse for a
    negative ``n``, the identity for 0.
    """
    shape = x.lazy.shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ShapeError(f"matrix_power takes square matrices, got shape {shape}")
    if n < 0:
        return matrix_power(x.inverse(), -n)
    if n == 0:
        return expand_to(type(x).eye(shape[-1], dtype=x.lazy.dtype, device=x.lazy.device), shape)
    powers = [x]
    for _ in range(n.bit_length() - 1):
        powers.append(matmul(powers[-1], powers[-1]))
    return functools.reduce(matmul, [p for i, p in enumerate(powers) if n >> i & 1])
