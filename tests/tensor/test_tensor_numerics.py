"""Accuracy over the whole range, and NaN, infinities and signed zeros."""
from __future__ import annotations

import numpy as np
import pytest

from dawdle import Tensor

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.5, 2.5, -2.5, 1e30, -1e30,
    1e-30])


def ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance in units of the last place of the exact values, in the dtype of ``got``."""
    with np.errstate(over="ignore"):
        finite = np.isfinite(exact) & np.isfinite(exact.astype(got.dtype))
    assert np.array_equal(np.isfinite(got), finite)
    exact = exact[finite]
    got = got[finite]
    unit = np.spacing(np.abs(exact).astype(got.dtype))
    inside = np.isfinite(unit) & np.isfinite(got)
    return np.abs(got.astype(np.longdouble) - exact)[inside] / unit[inside]


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name, low, high, worst", [
    ("exp", -104, 89, 2.5), ("exp", -1e-3, 1e-3, 2.5), ("tanh", -12, 12, 3), ("tanh", -1e-4, 1e-4, 2),
    ("sigmoid", -80, 30, 3.5),
    ("expm1", -1, 1, 4), ("expm1", -20, 80, 4), ("log", 1e-30, 1e30, 3), ("log1p", -1e-3, 1e-3, 3),
    ("log1p", -0.9, 10, 4),
])  # fmt: skip
def test_accuracy(kind, name, low, high, worst):
    x = np.linspace(low, high, 20_001).astype(kind)
    exact = {
        "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    }.get(name, getattr(np, name, None))(x.astype(np.longdouble))
    normal = np.abs(exact) > np.finfo(kind).tiny
    assert ulps(getattr(Tensor(x), name)().numpy()[normal], exact[normal]).max() <= worst


@pytest.mark.parametrize("kind, worst", [("float32", 3e-7), ("float64", 2e-15)])
def test_absolute_accuracy_of_cos_and_erf(kind, worst):
    x = np.linspace(-500, 500, 10_001).astype(kind)
    assert np.abs(Tensor(x).cos().numpy() - np.cos(x.astype(np.longdouble))).max() < worst
    torch = pytest.importorskip("torch")
    x = np.linspace(-7, 7, 10_001).astype(kind)
    exact = torch.erf(torch.from_numpy(x.astype(np.float64))).numpy()
    got = Tensor(x).erf().numpy()
    assert np.abs(got - exact).max() < worst
    small = np.abs(x) < 0.5
    np.testing.assert_allclose(got[small], exact[small], rtol=worst)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name, reference", [
    ("exp", np.exp), ("log", np.log), ("sqrt", np.sqrt), ("tanh", np.tanh), ("floor", np.floor), ("ceil",
    np.ceil),
    ("round", np.round), ("trunc", np.trunc), ("abs", np.abs), ("relu", lambda x: np.maximum(x, 0)),
    ("sigmoid", lambda x: 1 / (1 + np.exp(-x))), ("expm1", np.expm1), ("log1p", np.log1p), ("isnan",
    np.isnan),
    ("isinf", np.isinf), ("isfinite", np.isfinite), ("exp2", np.exp2), ("erf", None), ("neg", np.negative),
    ("sign", np.sign),
    ("softplus", lambda x: np.logaddexp(x, 0)), ("sinh", np.sinh), ("cosh", np.cosh),
])  # fmt: skip
def test_special_values(kind, name, reference):
    x = SPECIAL.astype(kind)
    got = getattr(Tensor(x), name)().numpy()
    with np.errstate(all="ignore"):
        expected = np.array([np.nan if v != v else max(min(v * 1e30, 1), -1) for v in x])
        if reference is None:
            big = (x == 0) | (abs(x) > 10) | (x != x)
            got, expected = got[big], expected[big]
        else:
            expected = reference(x)
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    if name not in ("isnan", "isinf", "isfinite", "relu", "sign", "softplus"):
        same = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got[same]), np.signbit(expected[same]))


@pytest.mark.parametrize("ours, theirs", [
    (Tensor.maximum, np.maximum), (Tensor.minimum, np.minimum), (lambda a, b: a**b, np.power), (lambda a,
    b: a < b, np.less),
    (lambda a, b: a <= b, np.less_equal), (lambda a, b: a >= b, np.greater_equal), (lambda a, b: a != b,
    np.not_equal),
    (lambda a, b: a == b, np.equal), (lambda a, b: a / b, np.divide),
])  # fmt: skip
def test_special_pairs(ours, theirs):
    a, b = (g.ravel().astype(np.float64) for g in np.meshgrid(SPECIAL, np.append(SPECIAL, [2.0, 3.0, -2.0])))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(ours(Tensor(a), Tensor(b)).numpy(), theirs(a, b), rtol=1e-12)


def test_reductions_and_scans_propagate_nan():
    x = Tensor([[1.0, np.nan, 3.0], [1.0, 2.0, 3.0]])
    for name in ("sum", "amax", "amin", "mean", "prod", "logsumexp"):
        out = getattr(x, name)(1).numpy()
        assert np.isnan(out[0]) and np.isfinite(out[1]), name
    assert x.argmax(1).tolist() == [1, 2] and x.argmin(1).tolist() == [1, 0]
    assert np.isnan(x.cummax(1)[0].numpy()[0]).tolist() == [False, True, True]
    assert np.isnan(x.softmax(1).numpy()[0]).all()
    assert np.isnan(Tensor.zeros(0).mean().item()) and np.isnan(Tensor([1.0]).var().item())


def test_softmax_family_does_not_overflow():
    x = Tensor([[1e4, 1e4, 0.0], [-1e4, 0.0, -np.inf]])
    np.testing.assert_allclose(x.softmax().numpy(), [[0.5, 0.5, 0], [0, 1, 0]])
    np.testing.assert_allclose(x.log_softmax().numpy()[0, :2], np.log([0.5, 0.5]), rtol=1e-6)
    np.testing.assert_allclose(x.logsumexp(1).numpy(), [1e4 + np.log(2), 0], rtol=1e-6)
    assert Tensor([-np.inf, -np.inf]).logsumexp().item() == -np.inf and Tensor([np.inf,
        0.0]).logsumexp().item() == np.inf
    np.testing.assert_allclose(x.sparse_categorical_crossentropy(Tensor([0, 1])).item(), np.log(2) / 2,
        rtol=1e-6)


def test_integers_wrap_and_divide_as_numpy():
    a = np.array([-128, 127, -7, 7, 0], np.int8)
    x = Tensor(a)
    np.testing.assert_array_equal((x + 1).numpy(), a + np.int8(1))
    np.testing.assert_array_equal((x * x).numpy(), a * a)
    np.testing.assert_array_equal((x // 2).numpy(), a // 2)
    np.testing.assert_array_equal((x % -3).numpy(), a % np.int8(-3))
    np.testing.assert_array_equal((x**3).numpy(), a**3)
    assert (x // 0).tolist() == [0] * 5 and (x % 0).tolist() == [0] * 5
    assert (x << 9).tolist() == [0] * 5 and (x >> 9).tolist() == [-1, 0, -1, 0, 0]
    assert (Tensor([2, -1, 1, 0]) ** Tensor([-1, -3, -2, 0])).tolist() == [0, -1, 1, 1]
    assert x.amin().item() == -128 and Tensor([3, 250], dtype="uint8").minimum(Tensor([4, 9],
        dtype="uint8")).tolist() == [3, 9]


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_halves_are_computed_in_float32_where_it_matters(kind):
    x = Tensor(np.linspace(-4, 4, 201), dtype=kind)
    wide = x.float()
    for name in ("exp", "tanh", "sigmoid", "gelu", "softmax", "log_softmax", "layernorm", "erf", "silu",
        "mean", "var"):
        got, exact = getattr(x, name)(), getattr(wide, name)()
        assert got.dtype.name == kind
        np.testing.assert_allclose(got.float().numpy(), exact.numpy(),
            rtol=2e-2 if kind == "bfloat16" else 3e-3, atol=1e-3)
    a, b = Tensor.ones(2, 3000, dtype=kind), Tensor.ones(3000, 2, dtype=kind)
    assert (a @ b * 0.5).float().numpy()[0, 0] == pytest.approx(1500, rel=1e-2)
    assert a.sum(1).float().numpy()[0] == pytest.approx(3000, rel=1e-2)
