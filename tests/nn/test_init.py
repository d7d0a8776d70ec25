"""Initialisers: distributions, exact structure, and reproducibility."""

import math

import numpy as np
import pytest

import dawdle
from dawdle import Tensor, nn
from dawdle.errors import DawdleError, ShapeError
from dawdle.nn import init


def drawn(function, shape=(200, 100), **kwargs):
    dawdle.manual_seed(0)
    return function(Tensor.zeros(*shape), **kwargs).numpy()


@pytest.mark.parametrize(
    "function, bound",
    [
        (init.xavier_uniform_, math.sqrt(6 / 300)),
        (init.kaiming_uniform_, math.sqrt(6 / 100)),
        (lambda t: init.kaiming_uniform_(t, a=math.sqrt(5)), 0.1),
        (lambda t: init.kaiming_uniform_(t, mode="fan_out", nonlinearity="tanh"), 5 / 3 * math.sqrt(3 / 200)),
        (lambda t: init.uniform_(t, -2, 2), 2),
    ],
)
def test_uniform(function, bound):
    x = drawn(function)
    assert -bound <= x.min() < -0.99 * bound and 0.99 * bound < x.max() <= bound
    assert abs(x.mean()) < 0.02 * bound and x.std() == pytest.approx(bound / math.sqrt(3), rel=0.02)


@pytest.mark.parametrize(
    "function, std",
    [
        (init.xavier_normal_, math.sqrt(2 / 300)),
        (lambda t: init.kaiming_normal_(t, nonlinearity="relu"), math.sqrt(2 / 100)),
        (lambda t: init.normal_(t, 0, 3), 3),
    ],
)
def test_normal(function, std):
    x = drawn(function)
    assert abs(x.mean()) < 0.03 * std and x.std() == pytest.approx(std, rel=0.02)
    assert (np.abs(x) > 3 * std).mean() == pytest.approx(0.0027, abs=0.0015)


def test_trunc_normal():
    x = drawn(init.trunc_normal_, mean=1.0, std=2.0, a=0.0, b=3.0)
    assert 0 <= x.min() < 0.01 and 2.99 < x.max() <= 3
    assert x.std() == pytest.approx(0.85, rel=0.05)
    with pytest.raises(DawdleError, match="almost none"):
        init.trunc_normal_(Tensor.zeros(2), a=50, b=60)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (8, 2, 2)])
def test_orthogonal(shape):
    x = drawn(init.orthogonal_, shape, gain=2.0).reshape(shape[0], -1)
    gram = x @ x.T if x.shape[0] <= x.shape[1] else x.T @ x
    np.testing.assert_allclose(gram, 4 * np.eye(len(gram)), atol=1e-5)


def test_exact_values():
    assert drawn(init.ones_, (2,)).tolist() == [1, 1]
    assert drawn(init.constant_, (2,), value=3.5).tolist() == [3.5, 3.5]
    np.testing.assert_array_equal(drawn(init.eye_, (2, 3)), np.eye(2, 3))
    kernel = drawn(init.dirac_, (3, 2, 3, 3))
    image = Tensor(np.random.default_rng(0).standard_normal((1, 2, 5, 5)).astype(np.float32))
    passed = nn.functional.conv2d(image, Tensor(kernel), padding=1).numpy()
    np.testing.assert_allclose(passed[:, :2], image.numpy(), rtol=1e-6)
    assert not passed[:, 2].any()
    assert (drawn(init.sparse_, (10, 4), sparsity=0.3) == 0).sum(0).tolist() == [3] * 4


def test_initialisers_work_in_place_on_parameters():
    linear = nn.Linear(3, 2)
    assert init.zeros_(linear.weight) is linear.weight
    assert linear.weight.requires_grad and linear.weight.grad is None
    assert linear.weight.tolist() == [[0, 0, 0]] * 2
    half = nn.Parameter(Tensor.zeros(2, 2, dtype="float16"))
    assert init.orthogonal_(half).dtype.name == "float16"


def test_seeds_make_layers_reproducible():
    def weights(seed):
        dawdle.manual_seed(seed)
        layer = nn.Linear(5, 4)
        init.orthogonal_(layer.weight)
        return layer.bias.numpy(), layer.weight.numpy()

    for a, b in zip(weights(1), weights(1), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(weights(1)[0], weights(2)[0])
    assert not np.array_equal(weights(1)[1], weights(2)[1])


def test_layers_start_in_the_range_of_pytorch():
    weight = nn.Linear(100, 200).weight.numpy()
    assert 0.0995 < np.abs(weight).max() <= 0.1
    kernel = nn.Conv2d(4, 50, 5).weight.numpy()
    assert 0.0995 < np.abs(kernel).max() <= 0.1
    table = nn.Embedding(50, 20, padding_idx=-1).weight.numpy()
    assert table.std() == pytest.approx(1, rel=0.1) and not table[49].any()


def test_gains():
    assert init.calculate_gain("relu") == math.sqrt(2)
    assert init.calculate_gain("leaky_relu", 1.0) == 1
    with pytest.raises(DawdleError, match="gain"):
        init.calculate_gain("sinus")
    with pytest.raises(DawdleError, match="fan_in"):
        init.kaiming_normal_(Tensor.zeros(2, 2), mode="fan")
    with pytest.raises(ShapeError, match="two dimensions"):
        init.xavier_normal_(Tensor.zeros(3))
