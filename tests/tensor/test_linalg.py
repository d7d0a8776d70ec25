"""Linear algebra beside the op table: errors, degenerate matrices, second derivatives, other dtypes."""

from __future__ import annotations

import numpy as np
import pytest

from dawdle import Tensor, jit, linalg
from dawdle.errors import DawdleError, DTypeError, GradientError, LinAlgError, ShapeError

torch = pytest.importorskip("torch")


def eye(n: int = 2) -> Tensor:
    return Tensor.eye(n)


SINGULAR = np.stack([np.eye(2), np.ones((2, 2))])


@pytest.mark.parametrize("call, words", [
    (lambda: Tensor.zeros(3, 3).inverse(), "inverse: singular matrix"),
    (lambda: linalg.solve(Tensor(SINGULAR), Tensor.ones(2, 1)), r"solve: .*matrix \(1,\) of a batch"),
    (lambda: linalg.solve_triangular(Tensor.zeros(2, 2), eye(), upper=True), "solve_triangular: singular"),
    (lambda: (-eye()).cholesky(), "cholesky: matrix is not positive definite"),
    (lambda: linalg.svdvals(eye() * float("nan")), "svdvals: svd did not converge"),
])  # fmt: skip
def test_matrices_that_cant_be_taken(call, words):
    result = call()
    with pytest.raises(LinAlgError, match=words):
        result.numpy()


@pytest.mark.parametrize("call, error, words", [
    (lambda: linalg.det(Tensor.zeros(2, 3)), ShapeError, "det takes square matrices"),
    (lambda: linalg.inv(Tensor.ones(3)), ShapeError, "inverse takes square"),
    (lambda: linalg.qr(Tensor.ones(3)), ShapeError, "qr takes matrices"),
    (lambda: linalg.cholesky(eye().long()), DTypeError, r"takes floats, got int64; cast it with \.float"),
    (lambda: linalg.solve(eye(3), Tensor.ones(2, 2)), ShapeError, "don't fit: 3 rows"),
    (lambda: linalg.solve(eye(3), Tensor.ones(3), left=False), ShapeError, "left=True alone"),
    (lambda: linalg.qr(eye(), "full"), DawdleError, "use reduced, complete or r"),
    (lambda: linalg.eigh(eye(), "X"), DawdleError, "'L' or 'U'"),
    (lambda: linalg.matrix_norm(eye(), 3), DawdleError, "ord 3 is unknown"),
    (lambda: linalg.matrix_norm(eye(), dim=(0, 0)), ShapeError, "two dimensions"),
    (lambda: linalg.norm(Tensor.ones(3), "nuc"), ShapeError, "is for matrices"),
    (lambda: linalg.matrix_power(Tensor.ones(2, 3), 2), ShapeError, "square"),
    (lambda: linalg.lstsq(eye(2), Tensor.ones(3, 1)), ShapeError, "lstsq takes"),
    (lambda: linalg.multi_dot([]), ShapeError, "at least one"),
    (lambda: linalg.multi_dot([eye(), Tensor.ones(2, 2, 2), eye()]), ShapeError, "takes matrices"),
    (lambda: linalg.cross(Tensor.ones(2), Tensor.ones(2)), ShapeError, "must be 3"),
    (lambda: eye().mm(Tensor.ones(2)), ShapeError, "mm takes operands of 2 and 2"),
    (lambda: Tensor.ones(2, 2, 2).bmm(Tensor.ones(1, 2, 2)), ShapeError, "different numbers of matrices"),
    (lambda: eye().dot(Tensor.ones(2)), ShapeError, "dot takes operands of 1 and 1"),
    (lambda: eye().tensordot(Tensor.ones(3, 2), 1), ShapeError, "sizes differ"),
    (lambda: eye().inner(Tensor.ones(3)), ShapeError, "inner: the last dimensions"),
    (lambda: Tensor.einsum("ij,jk->ik", eye(), Tensor.ones(3, 2)), ShapeError, "'j' is 2 in one place and 3"),
    (lambda: Tensor.einsum("ii", Tensor.ones(2, 3)), ShapeError, "'i' is 2 in one place and 3"),
    (lambda: Tensor.einsum("ij->ijk", eye()), ShapeError, "'k' is in no operand"),
    (lambda: Tensor.einsum("i->ii", Tensor.ones(2)), ShapeError, "named twice"),
    (lambda: Tensor.einsum("ij", Tensor.ones(2, 2, 2)), ShapeError, "names 2 dimensions"),
    (lambda: Tensor.einsum("i,j", Tensor.ones(2)), ShapeError, "names 2 operands"),
    (lambda: Tensor.einsum("i?", eye()), ShapeError, "may hold letters"),
    (lambda: Tensor.einsum(eye(), [0, 99]), ShapeError, "from 0 to 51"),
    (lambda: Tensor.einsum(eye()), ShapeError, "takes a formula"),
])  # fmt: skip
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_complete_qr_of_a_tall_matrix_has_no_gradient():
    x = Tensor(np.arange(6.0).reshape(3, 2) ** 2, requires_grad=True)
    q, _ = linalg.qr(x, "complete")
    with pytest.raises(GradientError, match="use 'reduced'"):
        q.sum().backward()


def test_values_of_degenerate_matrices_have_gradients():
    x = Tensor(np.eye(3), requires_grad=True)
    linalg.eigh(x).eigenvalues.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.eye(3), atol=1e-12)
    x.grad = None
    linalg.svd(x).S.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.eye(3), atol=1e-12)
    zeros = Tensor.zeros(3, 3, requires_grad=True)
    linalg.det(zeros).backward()
    assert (zeros.grad.numpy() == 0).all()
    sign, magnitude = linalg.slogdet(zeros.detach())
    assert sign.item() == 0 and magnitude.item() == -np.inf
    assert np.isnan(Tensor([[0.0, 1.0], [1.0, 0.0]]).logdet().item())


def symmetric(x):
    return x + x.mT


def definite(x):
    n = x.shape[-1]
    identity = Tensor.eye(n, dtype=x.dtype) if isinstance(x, Tensor) else torch.eye(n, dtype=x.dtype)
    return x @ x.mT + 2 * identity


SECOND = {
    "inverse": (lambda x: x.inverse(), lambda x: x.inverse()),
    "det": (lambda x: x.det(), lambda x: x.det()),
    "slogdet": (lambda x: x.slogdet()[1], lambda x: x.slogdet()[1]),
    "solve": (lambda x: linalg.solve(x, x.mT), lambda x: torch.linalg.solve(x, x.mT)),
    "triangular": (lambda x: linalg.solve_triangular(x, x.mT, upper=True),
                   lambda x: torch.linalg.solve_triangular(x, x.mT, upper=True)),
    "cholesky": (lambda x: linalg.cholesky(definite(x)), lambda x: torch.linalg.cholesky(definite(x))),
    "qr": (lambda x: linalg.qr(x).Q.abs(), lambda x: torch.linalg.qr(x).Q.abs()),
    "qr wide": (lambda x: linalg.qr(x[:2]).R.abs(), lambda x: torch.linalg.qr(x[:2]).R.abs()),
    "eigvalsh": (lambda x: linalg.eigvalsh(symmetric(x)), lambda x: torch.linalg.eigvalsh(symmetric(x))),
    "eigh": (lambda x: linalg.eigh(symmetric(x))[1].abs(),
             lambda x: torch.linalg.eigh(symmetric(x))[1].abs()),
    "svdvals": (lambda x: linalg.svdvals(x), lambda x: torch.linalg.svdvals(x)),
    "svd": (lambda x: linalg.svd(x[:2], full_matrices=False).Vh.abs(),
            lambda x: torch.linalg.svd(x[:2], full_matrices=False).Vh.abs()),
    "pinv": (lambda x: linalg.pinv(x[:2]), lambda x: torch.linalg.pinv(x[:2])),
}  # fmt: skip


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives(name, device):
    if device != "NUMPY":
        pytest.skip("gradients are compositions, which the op table runs everywhere")
    ours, theirs = SECOND[name]
    rng = np.random.default_rng(1)
    a = rng.normal(size=(3, 3)) + 2 * np.eye(3)
    x, y = Tensor(a, requires_grad=True), torch.tensor(a, requires_grad=True)
    first, expected = ours(x), theirs(y)
    weights = rng.normal(size=tuple(expected.shape))
    (g,) = (first * Tensor(weights)).sum().gradient(x, create_graph=True)
    (h,) = torch.autograd.grad((expected * torch.tensor(weights)).sum(), y, create_graph=True)
    np.testing.assert_allclose(g.numpy(), h.detach().numpy(), rtol=1e-8, atol=1e-10)
    weights = rng.normal(size=(3, 3))
    (g * Tensor(weights)).sum().backward()
    (h * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-7, atol=1e-8)


def test_half_types_are_computed_in_float32():
    x = Tensor(np.array([[2.0, 1.0], [1.0, 3.0]]), dtype="bfloat16")
    for out in (x.inverse(), x.cholesky(), x.det(), *linalg.qr(x), *linalg.svd(x), linalg.solve(x, x)):
        assert out.dtype.name == "bfloat16"
    assert x.det().item() == 5.0


def test_jitted_functions_solve():
    @jit
    def solved(a: Tensor, b: Tensor) -> Tensor:
        return linalg.solve(a, b) * 2

    rng = np.random.default_rng(0)
    for _ in range(3):
        a, b = rng.normal(size=(3, 3)).astype("float32"), rng.normal(size=(3, 2)).astype("float32")
        np.testing.assert_allclose(
            solved(Tensor(a), Tensor(b)).numpy(), 2 * np.linalg.solve(a, b), rtol=1e-3, atol=1e-4
        )
    with pytest.raises(LinAlgError, match="solve: singular"):
        solved(Tensor.zeros(3, 3), Tensor.ones(3, 2)).numpy()


def test_einsum_contracts_the_cheapest_pair_first():
    n = 30_000  # from left to right this would take an array of n * n elements
    a = np.linspace(0, 1, n, dtype=np.float32)
    got = Tensor.einsum("i,j,j,i->", Tensor(a), Tensor(a), Tensor(a), Tensor(a))
    np.testing.assert_allclose(got.item(), float(np.square(a, dtype=np.float64).sum()) ** 2, rtol=1e-4)


def test_products_of_what_is_added_times_0_are_not_looked_at():
    x = Tensor.full((2, 2), float("nan"))
    assert x.addmm(eye(), eye(), beta=0, alpha=3).numpy().tolist() == [[3, 0], [0, 3]]


def test_least_squares_of_a_matrix_without_full_rank_is_the_shortest():
    a, b = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]), np.array([[2.0], [4.0], [1.0]])
    found = linalg.lstsq(Tensor(a), Tensor(b))
    np.testing.assert_allclose(found.solution.numpy(), [[1.5], [1.5]], rtol=1e-6)
    np.testing.assert_allclose(found.residuals.numpy(), [3.0], rtol=1e-6)
    assert found.rank.item() == 1
    np.testing.assert_allclose(found.singular_values.numpy(), [2, 0], atol=1e-7)


def test_the_pseudo_inverse_drops_small_values():
    x = Tensor(np.diag([4.0, 1e-3]))
    np.testing.assert_allclose(linalg.pinv(x, rtol=1e-2).numpy(), np.diag([0.25, 0]), atol=1e-12)
    np.testing.assert_allclose(linalg.pinv(x, atol=1e-4).numpy(), np.diag([0.25, 1e3]), rtol=1e-9)
    assert linalg.matrix_rank(x, rtol=1e-2).item() == 1 and linalg.matrix_rank(x, atol=1e-4).item() == 2
