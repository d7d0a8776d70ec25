"""LAPACK through NumPy, on the host: what the CUSTOM nodes of linear algebra run. Each function takes batches
of matrices and returns one array; several results are flattened and joined.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dawdle.dtype import Array
from dawdle.errors import LinAlgError

BLOCK = 32  # rows that a triangular solve takes at once

Host = Callable[..., Array]


def _named(name: str) -> Callable[[Host], Host]:
    """Decorator: NumPy's errors are raised as the project's, which name the operation and the matrix."""

    def decorate(function: Host) -> Host:
        @functools.wraps(function)
        def call(*arrays: Array) -> Array:
            try:
                with np.errstate(all="ignore"):
                    return np.asarray(function(*arrays)).astype(arrays[0].dtype, copy=False)
            except np.linalg.LinAlgError as error:
                which = _which(function, arrays)
                raise LinAlgError(f"{name}: {str(error).lower().rstrip('.')}{which}") from None

        call.__name__ = name
        return call

    return decorate


def _which(function: Host, arrays: Sequence[Array]) -> str:
    """In words, the matrix of a batch that an error is about."""
    batch = arrays[0].shape[:-2]
    for index in np.ndindex(batch) if batch else ():
        try:
            function(*[a[index] for a in arrays])
        except np.linalg.LinAlgError:
            return f" (matrix {index} of a batch of shape {batch})"
    return ""


def _joined(*parts: Array) -> Array:
    """Several results, matrices in their last two axes, flattened and joined."""
    lead = parts[0].shape[:-2]
    return np.concatenate([p.reshape(*lead, p.shape[-2] * p.shape[-1]) for p in parts], -1)


@_named("solve")
def solve(a: Array, b: Array) -> Array:
    """x with a x = b."""
    return np.linalg.solve(a, b)


@_named("inverse")
def inverse(a: Array, b: Array) -> Array:
    """x with a x = b, where b is the identity."""
    return np.linalg.solve(a, b)


@_named("solve_triangular")
def solve_lower(a: Array, b: Array) -> Array:
    """x with a x = b for a lower triangular a, by substitution in blocks."""
    n = a.shape[-1]
    x = np.empty(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + b.shape[-2:], a.dtype)
    for start in range(0, n, BLOCK):
        rows = slice(start, start + BLOCK)
        rest = b[..., rows, :] - a[..., rows, :start] @ x[..., :start, :]
        x[..., rows, :] = np.linalg.solve(a[..., rows, rows], rest)
    return x


@_named("solve_triangular")
def solve_upper(a: Array, b: Array) -> Array:
    """x with a x = b for an upper triangular a: a lower one with its rows and columns reversed."""
    return np.asarray(solve_lower(a[..., ::-1, ::-1], b[..., ::-1, :])[..., ::-1, :])


@_named("det")
def det(a: Array) -> Array:
    return np.asarray(np.linalg.det(a))


@_named("slogdet")
def slogdet(a: Array) -> Array:
    """Sign, and logarithm of the magnitude."""
    return np.stack(np.linalg.slogdet(a), -1)


@_named("det")
def cofactors(a: Array) -> Array:
    """The derivative of the determinant, also of singular matrices: from the singular values but one."""
    u, s, vh = np.linalg.svd(a)
    before = np.ones_like(s)
    before[..., 1:] = np.cumprod(s, -1)[..., :-1]
    after = np.ones_like(s)
    after[..., :-1] = np.cumprod(s[..., ::-1], -1)[..., ::-1][..., 1:]
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return np.asarray(np.sign(sign)[..., None, None] * (u * (before * after)[..., None, :] @ vh))


def _elimination(a: Array, pivot: bool) -> tuple[Array, Array]:
    """(both factors in one matrix, the order of the rows), by Gaussian elimination."""
    a = np.array(a)
    rows, columns = a.shape[-2:]
    order = np.broadcast_to(np.arange(rows), a.shape[:-1]).copy()
    for k in range(min(rows, columns)):
        if pivot:
            largest = np.argmax(np.abs(a[..., k:, k]), -1)[..., None] + k
            _swap(order[..., None], k, largest[..., None])
            _swap(a, k, largest[..., None])
        divisor = a[..., k, k, None]
        factor = np.where(divisor == 0, 0, a[..., k + 1 :, k] / np.where(divisor == 0, 1, divisor))
        a[..., k + 1 :, k] = factor
        a[..., k + 1 :, k + 1 :] -= factor[..., None] * a[..., None, k, k + 1 :]
    return a, order


def _swap(a: Array, k: int, other: Array) -> None:
    """Row ``k`` of each matrix exchanged with its row ``other``, in place."""
    row = a[..., k : k + 1, :].copy()
    a[..., k : k + 1, :] = np.take_along_axis(a, other, -2)
    np.put_along_axis(a, other, row, -2)


@_named("lu")
def pivots(a: Array) -> Array:
    """The rows in the order in which elimination takes them: each time the one with the largest element."""
    return _elimination(a, True)[1]


@_named("lu")
def eliminated(a: Array) -> Array:
    """L below the diagonal and U on and above it, without exchanging rows."""
    return _elimination(a, False)[0]


@_named("cholesky")
def cholesky(a: Array) -> Array:
    """The lower factor; reads the lower triangle."""
    return np.linalg.cholesky(a)


@_named("qr")
def qr(a: Array) -> Array:
    """Q (m, k) and R (k, n)."""
    return _joined(*np.linalg.qr(a, "reduced"))


@_named("qr")
def qr_complete(a: Array) -> Array:
    """Q (m, m) and R (m, n)."""
    return _joined(*np.linalg.qr(a, "complete"))


@_named("eigh")
def eigh(a: Array) -> Array:
    """The values as a row above the matrix whose columns are the vectors; reads the lower triangle."""
    values, vectors = np.linalg.eigh(a)
    return np.concatenate([values[..., None, :], vectors], -2)


@_named("eigvalsh")
def eigvalsh(a: Array) -> Array:
    return np.linalg.eigvalsh(a)


@_named("svd")
def svd(a: Array) -> Array:
    """U (m, k), S (k,) and Vh (k, n)."""
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return _joined(u, s[..., None], vh)


@_named("svd")
def svd_full(a: Array) -> Array:
    """U (m, m), S (k,) and Vh (n, n)."""
    u, s, vh = np.linalg.svd(a, full_matrices=True)
    return _joined(u, s[..., None], vh)


@_named("svdvals")
def svdvals(a: Array) -> Array:
    return np.linalg.svd(a, compute_uv=False)


@dataclass(frozen=True)
class PseudoInverse:
    """The pseudo-inverse that takes singular values up to the larger of ``atol`` and ``rtol`` times the
    largest as 0. Equal graphs hold equal ones.
    """

    rtol: float
    atol: float

    def __call__(self, a: Array) -> Array:
        return _named("pinv")(self._of)(a)

    def _of(self, a: Array) -> Array:
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        kept = s > np.maximum(self.rtol * s.max(-1, keepdims=True, initial=0), self.atol)
        inverse = np.where(kept, 1 / np.where(kept, s, 1), 0).astype(a.dtype)
        return np.swapaxes(u * inverse[..., None, :] @ vh, -1, -2)
