"""The generator: known answers, reproducibility, distributions, and that a draw never changes the kernel."""
from __future__ import annotations

import math

import numpy as np
import pytest

import dawdle
from dawdle import Generator, Tensor
from dawdle.errors import DTypeError, ShapeError
from dawdle.lazy.buffer import format_graph
from dawdle.tensor.sampling import threefry


def words(*values):
    return tuple(Tensor([v], dtype="uint32") for v in values)


@pytest.mark.parametrize("counter, key, expected", [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
])  # fmt: skip
def test_known_answers_of_threefry(counter, key, expected):
    """The Random123 distribution's kat_vectors for threefry2x32 with 20 rounds."""
    got = threefry(words(*key), words(*counter))
    assert tuple(int(w.item()) for w in got) == expected


def test_seeds_reproduce_and_differ():
    dawdle.manual_seed(7)
    first = [Tensor.rand(5).numpy() for _ in range(3)]
    dawdle.manual_seed(7)
    np.testing.assert_array_equal(first, [Tensor.rand(5).numpy() for _ in range(3)])
    dawdle.manual_seed(8)
    assert not np.array_equal(first[0], Tensor.rand(5).numpy())
    assert len(np.unique(first)) == 15


def test_draws_are_fixed_when_made_not_when_realised():
    dawdle.manual_seed(1)
    a, b = Tensor.rand(4), Tensor.rand(4)
    late = b.numpy(), a.numpy()
    dawdle.manual_seed(1)
    np.testing.assert_array_equal(late[1], Tensor.rand(4).numpy())
    np.testing.assert_array_equal(late[0], Tensor.rand(4).numpy())


def test_a_large_draw_is_the_same_as_its_parts():
    one, two = Generator(3), Generator(3)
    whole = Tensor.rand(10, generator=one).numpy()
    parts = [Tensor.rand(n, generator=two).numpy() for n in (1, 4, 5)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


def test_generators_are_independent_of_the_default():
    g = Generator(11)
    expected = Tensor.randn(3, generator=Generator(11)).numpy()
    Tensor.rand(9)
    np.testing.assert_array_equal(Tensor.randn(3, generator=g).numpy(), expected)


def test_the_counter_carries_into_its_second_word(device):
    g = Generator(0)
    state = g.state(Tensor, device)
    state.assign(Tensor([0, 0, 0xFFFFFFFE, 0], dtype="uint32"))
    drawn = Tensor.rand(4, generator=g).numpy()
    assert g.state(Tensor, device).tolist() == [0, 0, 2, 1]
    state.assign(Tensor([0, 0, 0, 1], dtype="uint32"))
    np.testing.assert_array_equal(drawn[2:], Tensor.rand(2, generator=g).numpy())


def test_draws_have_one_graph_and_no_growing_chain():
    graphs = set()
    for _ in range(4):
        x = Tensor.rand(3, 2)
        graphs.add(format_graph([x.lazy]))
        x.numpy()
    assert len(graphs) == 1


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_uniform_numbers(kind):
    dawdle.manual_seed(0)
    x = Tensor.rand(20_000, dtype=kind)
    assert x.dtype.name == kind
    a = x.double().numpy()
    assert a.min() >= 0 and a.max() < 1
    assert abs(a.mean() - 0.5) < 0.01 and abs(a.var() - 1 / 12) < 0.005
    assert np.histogram(a, 10, (0, 1))[0].min() > 1800


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_normal_numbers(kind):
    dawdle.manual_seed(0)
    a = Tensor.randn(100, 200, dtype=kind).numpy()
    assert a.dtype == kind and np.isfinite(a).all()
    assert abs(a.mean()) < 0.02 and abs(a.std() - 1) < 0.02
    assert abs((a**3).mean()) < 0.1 and abs((a**4).mean() - 3) < 0.2
    assert abs(np.corrcoef(a.ravel()[:-1], a.ravel()[1:])[0, 1]) < 0.02


def test_other_distributions():
    dawdle.manual_seed(0)
    n = Tensor.randint(-3, 4, (5000,)).numpy()
    assert n.dtype == np.int64 and set(n) == set(range(-3, 4))
    assert Tensor.randint(5, size=(2, 3)).shape == (2, 3)
    u = Tensor.uniform(5000, low=2.0, high=4.0).numpy()
    assert u.min() >= 2 and u.max() <= 4 and abs(u.mean() - 3) < 0.05
    m = Tensor.normal(5000, mean=1.0, std=0.1).numpy()
    assert abs(m.mean() - 1) < 0.01 and abs(m.std() - 0.1) < 0.01
    b = Tensor.full((5000,), 0.3).bernoulli().numpy()
    assert set(b) == {0, 1} and abs(b.mean() - 0.3) < 0.03
    like = Tensor.zeros(2, 2, dtype="float16")
    assert like.rand_like().dtype.name == "float16" and like.randn_like().shape == (2, 2)
    assert Tensor.rand().shape == () and Tensor.rand(0, 3).shape == (0, 3)
    assert sorted(Tensor.randperm(50).tolist()) == list(range(50)) != Tensor.randperm(50).tolist()
    with pytest.raises(ShapeError, match="must be above"):
        Tensor.randint(3, 3)
    with pytest.raises(DTypeError, match="makes floats"):
        Tensor.rand(3, dtype="int32")


def test_dropout():
    dawdle.manual_seed(0)
    x = Tensor.ones(10_000, requires_grad=True)
    assert x.dropout(0.5).sum().item() == 10_000
    with Tensor.train():
        assert Tensor.training
        y = x.dropout(0.25)
    assert not Tensor.training
    a = y.numpy()
    assert set(a) == {0, np.float32(1 / 0.75)} and abs(a.mean() - 1) < 0.03
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), a)
    assert math.isclose(x.dropout(1.0, training=True).sum().item(), 0)
