"""The generator: known answers, reproducibility, distributions, and that a draw never changes the kernel."""
from __future__ import annotations

import math

import numpy as np
import pytest

import dawdle
from dawdle import Generator, Tensor
from dawdle.errors import ArgumentError, DTypeError, ShapeError
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


def test_parameters_that_are_tensors():
    dawdle.manual_seed(0)
    mean, std = Tensor([0.0, 100.0]), Tensor([1.0, 2.0])
    a = Tensor.normal(mean.expand(2000, 2), std).numpy()
    assert a.shape == (2000, 2)
    np.testing.assert_allclose(a.mean(0), [0, 100], atol=0.2)
    np.testing.assert_allclose(a.std(0), [1, 2], rtol=0.1)
    assert Tensor.normal(mean=mean).shape == (2,) and Tensor.normal(mean, 0.0).tolist() == [0.0, 100.0]
    u = Tensor.uniform(low=Tensor([[0.0], [5.0]]), high=Tensor([1.0, 6.0]).reshape(2, 1)).numpy()
    assert u.shape == (2, 1) and 0 <= u[0, 0] < 1 and 5 <= u[1, 0] < 6
    with pytest.raises(ShapeError, match="don't broadcast"):
        Tensor.normal(mean=Tensor.zeros(2), std=Tensor.ones(3))


def test_filled_in_place():
    dawdle.manual_seed(0)
    x = Tensor.zeros(20_000, dtype="float64")
    same = x
    u = x.uniform_(-1, 3).numpy()
    assert same is x and u.min() >= -1 and u.max() < 3 and abs(u.mean() - 1) < 0.05
    n = x.normal_(5, 2).numpy()
    assert abs(n.mean() - 5) < 0.1 and abs(n.std() - 2) < 0.1 and n.dtype == np.float64
    e = x.exponential_(4).numpy()
    assert e.min() >= 0 and abs(e.mean() - 0.25) < 0.01 and abs(e.std() - 0.25) < 0.02
    g = x.geometric_(0.25).numpy()
    assert g.min() == 1 and abs(g.mean() - 4) < 0.15 and abs((g == 1).mean() - 0.25) < 0.02
    assert abs(np.log(x.log_normal_(1, 0.5).numpy()).mean() - 1) < 0.05
    c = x.cauchy_(2, 3).numpy()
    assert abs(np.median(c) - 2) < 0.15 and abs(np.subtract(*np.quantile(c, [0.75, 0.25])) / 2 - 3) < 0.2
    b = x.bernoulli_(0.2).numpy()
    assert set(b) == {0, 1} and abs(b.mean() - 0.2) < 0.02
    i = Tensor.zeros(5000, dtype="int32").random_(3, 6).numpy()
    assert i.dtype == np.int32 and set(i) == {3, 4, 5}
    assert Tensor.zeros(2000, dtype="uint8").random_().numpy().max() > 200
    assert set(Tensor.zeros(3, 200).bernoulli(0.5).numpy().ravel()) == {0, 1}
    like = Tensor.zeros(2, 3, dtype="int16").randint_like(5, 7)
    assert like.dtype.name == "int16" and like.shape == (2, 3) and set(like.numpy().ravel()) <= {5, 6}
    with pytest.raises(ArgumentError, match="between 0 and 1"):
        x.geometric_(1.0)


def test_multinomial():
    dawdle.manual_seed(0)
    weights = Tensor([[1.0, 0.0, 3.0, 4.0], [0.0, 0.0, 2.0, 0.0]])
    drawn = weights.multinomial(4000, replacement=True)
    assert drawn.shape == (2, 4000) and drawn.dtype.name == "int64"
    frequency = np.bincount(drawn.numpy()[0], minlength=4) / 4000
    np.testing.assert_allclose(frequency, [0.125, 0, 0.375, 0.5], atol=0.03)
    assert set(drawn.numpy()[1]) == {2}
    firsts = []
    for _ in range(300):
        a = Tensor([1.0, 0.0, 3.0, 4.0]).multinomial(3).numpy()
        assert sorted(a) == [0, 2, 3]
        firsts.append(a[0])
    np.testing.assert_allclose(np.bincount(firsts, minlength=4) / 300, [0.125, 0, 0.375, 0.5], atol=0.1)
    one, two = (weights.multinomial(1, generator=Generator(5)).tolist() for _ in range(2))
    assert one == two
    with pytest.raises(ShapeError, match="can't draw 5 of 4"):
        weights.multinomial(5)
    with pytest.raises(ShapeError, match="a vector or a matrix of floats"):
        Tensor([1, 2]).multinomial(1)


def test_states_are_saved_and_restored(device):
    dawdle.manual_seed(4)
    Tensor.rand(3).numpy()
    state = dawdle.random.get_rng_state()
    kept = state.numpy()
    first = [Tensor.rand(3).tolist(), Tensor.randn(2).tolist()]
    np.testing.assert_array_equal(state.numpy(), kept)
    dawdle.random.set_rng_state(Tensor(kept))
    assert [Tensor.rand(3).tolist(), Tensor.randn(2).tolist()] == first
    with dawdle.random.fork_rng():
        dawdle.manual_seed(9)
        inside = Tensor.rand(2).tolist()
    dawdle.random.set_rng_state(state)
    with dawdle.random.fork_rng():
        Tensor.rand(100)
    assert [Tensor.rand(3).tolist(), Tensor.randn(2).tolist()] == first != inside
    assert dawdle.random.initial_seed() == 9
    seed = dawdle.random.seed()
    assert dawdle.random.initial_seed() == seed
    with pytest.raises(ShapeError, match="four uint32 words"):
        dawdle.random.set_rng_state(Tensor([1, 2, 3, 4]))


def test_permutations_and_their_dtypes():
    dawdle.manual_seed(0)
    assert Tensor.randperm(4, dtype="int32").dtype.name == "int32"
    assert Tensor.randperm(0).shape == (0,)
    first = [Tensor.randperm(4).tolist()[0] for _ in range(200)]
    assert np.bincount(first).min() > 25
    with pytest.raises(ShapeError, match="must not be negative"):
        Tensor.randperm(-1)


@pytest.mark.parametrize(
    "draw, words",
    [
        (lambda x: x.bernoulli(1.5), "p must be within 0 and 1, got 1.5"),
        (lambda x: x.bernoulli_(-0.1), "p must be within 0 and 1"),
        (lambda x: x.normal_(std=-1.0), "std must be at least 0, got -1.0"),
        (lambda x: Tensor.normal(3, std=float("nan")), "std must be at least 0, got nan"),
        (lambda x: x.uniform_(3, 2), "high must be at least 3, got 2"),
        (lambda x: Tensor.uniform(3, low=1.0, high=0.5), "high must be at least 1, got 0.5"),
    ],
)
def test_parameters_that_no_distribution_has(draw, words):
    with pytest.raises(ArgumentError, match=words):
        draw(Tensor.zeros(3))


def test_counts_are_distributed_as_they_should(device):
    dawdle.manual_seed(3)
    rates = Tensor([0.0, 0.5, 40.0]).expand(4000, 3)
    drawn = rates.poisson()
    dawdle.manual_seed(3)
    again = rates.to("NUMPY").poisson()
    np.testing.assert_array_equal(drawn.numpy(), again.numpy())
    a = drawn.numpy()
    np.testing.assert_allclose(a.mean(0), [0, 0.5, 40], atol=0.5)
    np.testing.assert_allclose(a.var(0), [0, 0.5, 40], atol=3)
    b = dawdle.binomial(Tensor([10.0]).expand(4000, 1), Tensor([0.0, 0.25, 1.0])).numpy()
    np.testing.assert_allclose(b.mean(0), [0, 2.5, 10], atol=0.1)
    assert abs(b[:, 1].var() - 1.875) < 0.2
    assert drawn.dtype == "float32" and Tensor([3]).poisson().dtype == "int64"
    for wrong in (lambda: Tensor([-1.0]).poisson(), lambda: dawdle.binomial(Tensor([3.0]), Tensor([1.5]))):
        with pytest.raises(ArgumentError, match=r"poisson|binomial"):
            wrong().realize()
