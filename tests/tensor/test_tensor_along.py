"""Reductions, scans and order: every dtype, NaN and infinities, nothing, and what can't be asked for."""
from __future__ import annotations

import math

import numpy as np
import pytest

import dawdle
from dawdle import Tensor
from dawdle.errors import ArgumentError, DTypeError, JitError, RangeError, ShapeError

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
ALL = ("bool", *INTEGERS, *FLOATS)
NAN, INF = math.nan, math.inf


def same(got, want, **kwargs):
    np.testing.assert_allclose(got.numpy(), want, **kwargs)


def numbers(kind, shape, seed=0):
    """Small numbers of a dtype, with ties."""
    low = 0 if kind[0] in "ub" else -4
    return np.random.default_rng(seed).integers(low, 5, shape).astype(kind)


# ---- every dtype


def test_sums_and_products_of_every_dtype(device):
    inputs = {kind: numbers(kind, (3, 4)) for kind in ALL}
    out = {kind: [Tensor(a).sum(1), Tensor(a).prod(1), Tensor(a).cumsum(1), Tensor(a).cumprod(0),
        Tensor(a).count_nonzero(0), Tensor(a).mean(1)] for kind, a in inputs.items()}  # fmt: skip
    Tensor.realize(*[t for group in out.values() for t in group])
    for kind, (total, product, running, products, count, average) in out.items():
        a = inputs[kind]
        kept = np.dtype(kind).kind == "f" or kind == "uint64"
        wide = a.astype(kind if kept else "int64")
        assert total.dtype.name == product.dtype.name == running.dtype.name == wide.dtype.name
        same(total, wide.sum(1))
        same(product, wide.prod(1))
        same(running, wide.cumsum(1))
        same(products, wide.cumprod(0))
        same(count, np.count_nonzero(a, 0))
        assert average.dtype.name == (kind if np.dtype(kind).kind == "f" else "float32")
        same(average, a.astype("float64").mean(1), rtol=1e-3 if kind == "float16" else 1e-6)


def test_extremes_of_every_dtype(device):
    inputs = {kind: numbers(kind, (3, 5)) for kind in ALL}
    out = {}
    for kind, a in inputs.items():
        x = Tensor(a)
        out[kind] = [*x.max(1), *x.min(1), x.amax(), x.amin(0), x.argmax(), x.argmin(1), *x.cummax(1),
            *x.cummin(1)]  # fmt: skip
    Tensor.realize(*[t for group in out.values() for t in group])
    for kind, got in out.items():
        a = inputs[kind]
        want = [a.max(1), a.argmax(1), a.min(1), a.argmin(1), a.max(), a.min(0), a.argmax(), a.argmin(1),
            np.maximum.accumulate(a, 1), None, np.minimum.accumulate(a, 1), None]  # fmt: skip
        for t, w in zip(got, want, strict=True):
            if w is None:
                assert t.dtype.name == "int64"
                continue
            assert t.dtype.name == ("int64" if w.dtype == np.int64 else kind)
            same(t, w)


@pytest.mark.parametrize("n", [9, 130])  # ordered on the device, on the host
def test_order_of_every_dtype(device, n):
    inputs = {kind: numbers(kind, (2, n)) for kind in ALL}
    out = {k: [*Tensor(a).sort(1), Tensor(a).argsort(1, descending=True), *Tensor(a).topk(3),
        *Tensor(a).kthvalue(4)] for k, a in inputs.items()}  # fmt: skip
    Tensor.realize(*[t for group in out.values() for t in group])
    for kind, (values, indices, down, top, places, fourth, place) in out.items():
        a = inputs[kind]
        order = np.argsort(a, 1, kind="stable")
        wide = a.astype("float64")
        assert values.dtype.name == top.dtype.name == kind and indices.dtype.name == "int64"
        same(values, np.sort(a, 1))
        same(indices, order)
        same(down, np.argsort(-wide, 1, kind="stable"))
        same(places, np.argsort(-wide, 1, kind="stable")[:, :3])
        same(top, np.take_along_axis(a, places.numpy(), 1))
        same(place, order[:, 3])
        same(fourth, np.sort(a, 1)[:, 3])


@pytest.mark.parametrize("repeats", [1, 50])  # ordered on the device, on the host
def test_order_of_the_ends_of_integers(device, repeats):
    for kind in INTEGERS:
        ends = np.iinfo(kind)
        a = np.tile(np.array([0, ends.max, ends.min, 1, ends.max, ends.min], kind), repeats)
        values, indices = Tensor(a).sort()
        same(indices, np.argsort(a, kind="stable"))
        same(values, np.sort(a))
        same(Tensor(a).sort(descending=True).values, np.sort(a)[::-1])
        assert Tensor(a).topk(1).indices.item() == 1 and Tensor(a).topk(1, largest=False).indices.item() == (
            a.argmin()
        )


def test_sixteen_bits_are_summed_in_float32(device):
    for kind in ("float16", "bfloat16"):
        x = Tensor(np.full((2, 5000), 1.001), dtype=kind)
        one = x[0, 0].float().item()
        assert x.sum(1).dtype.name == kind
        same(x.sum(1).float(), [5000 * one] * 2, rtol=4e-3)
        same(x.mean(1).float(), [one] * 2)
        same(x.cumsum(1)[:, -1].float(), [5000 * one] * 2, rtol=4e-3)
        same(x[:, :50].prod(1).float(), [one**50] * 2, rtol=4e-3)
        same(x.norm(dim=1).float(), [one * 5000**0.5] * 2, rtol=4e-3)
        same((x * 300).norm(dim=1).float(), [300 * one * 5000**0.5] * 2, rtol=8e-3)  # its square overflows
        same(x.var(1).float(), [0, 0])
        same(x[:, :40].logsumexp(1).float(), [one + math.log(40)] * 2, rtol=4e-3)


def test_integers_wrap(device):
    x = Tensor(np.array([[2**62, 2**62, 2**62], [-(2**63), -1, 0]]))
    with np.errstate(over="ignore"):
        same(x.sum(1), x.numpy().sum(1))
        same(x.prod(1), x.numpy().prod(1))
        same(x.cumsum(1), x.numpy().cumsum(1))
    y = Tensor(np.array([100, 100, 100], np.int8))
    assert y.sum().item() == 300 and y.sum(dtype="int8").item() == 300 - 256
    assert Tensor(np.array([0, 255], np.uint8)).diff().tolist() == [255]
    assert Tensor(np.array([255, 0], np.uint8)).diff().tolist() == [1]


def test_reductions_of_bools_choose(device):
    """As masks of a vector's lanes, beside reductions of integers."""
    a = np.random.default_rng(0).random((64, 32)) < 0.02
    m, x = Tensor(a), Tensor(np.arange(32, dtype="float32"))
    same(dawdle.where(m.any(0), x, -x - 100), np.where(a.any(0), np.arange(32), -np.arange(32) - 100))
    same(dawdle.where(m.all(0), x, -x - 100), -np.arange(32) - 100)
    same(m.max(1).indices, a.argmax(1))
    same(m.cummax(1).indices[:, -1], np.where(a.any(1), 31 - a[:, ::-1].argmax(1), 31))


# ---- NaN, infinities, signed zeros


def test_extremes_meet_nan(device):
    a = np.array([[1, NAN, 3], [INF, -INF, 0], [NAN, NAN, -INF], [-INF, -INF, -INF]])
    x = Tensor(a)
    for name in ("max", "min"):
        values, indices = getattr(x, name)(1)
        same(values, getattr(np, name)(a, 1))
        same(indices, getattr(np, f"arg{name}")(a, 1))
        assert np.isnan(getattr(x, name)().item()) and np.isnan(getattr(x, f"a{name}")(1).numpy()[0])
        same(getattr(x, f"arg{name}")(), getattr(np, f"arg{name}")(a))
    same(x.aminmax(dim=0).max, a.max(0))
    largest, smallest = x.cummax(1), x.cummin(1)
    same(largest.values, np.maximum.accumulate(a, 1))
    same(smallest.values, np.minimum.accumulate(a, 1))
    assert largest.indices.tolist() == [[0, 1, 1], [0, 0, 0], [0, 1, 1], [0, 1, 2]]
    assert smallest.indices.tolist() == [[0, 1, 1], [0, 1, 1], [0, 1, 1], [0, 1, 2]]


SPECIAL = np.array([0.0, -0.0, 1.0, NAN, -1.0, INF, -INF, 0.0, -0.0, NAN, 1.0, -1.0, -INF, 1e-45, -1e-45,
    3e38])


@pytest.mark.parametrize("kind", [*FLOATS, "bfloat16"])
@pytest.mark.parametrize("repeats", [1, 10])  # ordered on the device, on the host
def test_order_of_special_values(device, kind, repeats):
    with np.errstate(over="ignore"):
        x = Tensor(np.tile(SPECIAL, repeats), dtype=kind)
    a = x.float().numpy()
    values, indices = x.sort()
    want = np.argsort(a, kind="stable")
    same(indices, want)
    same(values.float(), a[want])
    assert (np.signbit(values.float().numpy()) == np.signbit(a[want])).all()  # equal zeros keep their order
    down = x.sort(descending=True)
    ranks = np.where(np.isnan(a), INF, a)
    ranks = np.lexsort((np.arange(a.size), -ranks, ~np.isnan(a)))
    same(down.indices, ranks)
    same(x.topk(5).indices, ranks[:5])
    same(x.topk(5, largest=False).indices, want[:5])
    assert np.isnan(x.median().float().item()) and np.isnan(x.median(0).values.float().item())
    assert x.median(0).indices.item() == 3
    same(x.nanmedian(0).values.float(), np.sort(a[~np.isnan(a)])[(14 * repeats - 1) // 2])


def test_quantiles_meet_nan_and_infinities(device):
    a = np.array([[1, NAN, 3, 2], [INF, -INF, 0, 1], [NAN, NAN, NAN, NAN], [5, 6, 7, 8]])
    x = Tensor(a)
    q = [0.0, 0.25, 0.5, 1.0]
    got = x.quantile(q, 1).numpy().T
    assert np.isnan(got[[0, 2]]).all()
    same(x.quantile(q, 1)[:, 3], np.quantile(a[3], q))
    assert (got[1] == [-INF, -INF, 0.5, INF]).all()
    got = x.nanquantile(q, 1).numpy().T
    same(Tensor(got[0]), np.quantile([1, 2, 3], q))
    assert np.isnan(got[2]).all()
    same(x.nanmean(1), [2, NAN, NAN, 6.5])
    same(x.nansum(1), [6, NAN, 0, 26])


def test_sums_of_special_values(device):
    a = np.array([[INF, 1, 2], [INF, -INF, 0], [NAN, 0, 0], [-0.0, -0.0, -0.0]])
    x = Tensor(a)
    with np.errstate(invalid="ignore"):
        for name in ("sum", "prod", "mean", "cumsum", "cumprod"):
            same(getattr(x, name)(1), getattr(np, name)(a, 1))
        same(x.var(1), np.var(a, 1, ddof=1))
    assert x.any(1).tolist() == [True, True, True, False] and x.all(1).tolist() == [True, False, False, False]
    assert x.count_nonzero(1).tolist() == [3, 2, 1, 0]
    same(x.norm(INF, 1), [INF, INF, NAN, 0])
    same(x.norm(dim=1), [INF, INF, NAN, 0])
    same(x.norm(0, 1), [3, 2, 1, 0])


def test_softmax_family_of_infinities(device):
    x = Tensor([[0.0, -INF, 0.0], [1e4, -1e4, 0.0], [-INF, -INF, -INF], [INF, 0.0, 1.0]])
    same(x.logsumexp(1), [math.log(2), 1e4, -INF, INF], rtol=1e-6)
    same(x.softmax(1)[:2], [[0.5, 0, 0.5], [1, 0, 0]])
    same(x.softmin(1)[1], [0, 1, 0])
    same(x[:3].logcumsumexp(1), [[0, 0, math.log(2)], [1e4, 1e4, 1e4], [-INF, -INF, -INF]], rtol=1e-6)
    same(x[3].logcumsumexp(0), [INF, INF, INF])
    same(Tensor([1.0, NAN, 2.0]).logcumsumexp(0), [1, NAN, NAN])
    far = np.linspace(-3000, 3000, 300)  # no block has a term that another could see
    same(Tensor(far).logcumsumexp(0), np.logaddexp.accumulate(far), rtol=1e-12)
    same(Tensor(far[::-1].copy()).logcumsumexp(0), np.logaddexp.accumulate(far[::-1]), rtol=1e-12)


@pytest.mark.parametrize("logits, label, loss, slope", [
    ([1e4, -1e4, 0], 1, 2e4, [1, -1, 0]), ([-INF, 0, 0], 1, math.log(2), [0, -0.5, 0.5]),
    ([-INF, 0, 0], 0, INF, [-1, 0.5, 0.5]), ([1, 2, 3], -100, NAN, [0, 0, 0]),
])  # fmt: skip
def test_cross_entropy_at_the_ends(device, logits, label, loss, slope):
    x = Tensor(np.array([logits], "float32"), requires_grad=True)
    value = x.cross_entropy(Tensor([label])).backward()
    same(value, loss, rtol=1e-6)
    same(x.grad, [slope], rtol=1e-6)


def test_searching_meets_nan_and_ends(device):
    edges = np.array([-INF, -1.0, 0.0, 0.0, 2.0, INF, NAN])
    values = np.array([-INF, -2, -0.0, 0, 1, 2, 3, INF, NAN])
    for right in (False, True):
        side = "right" if right else "left"
        same(Tensor(edges).searchsorted(values, right=right), np.searchsorted(edges, values, side))
        same(Tensor(edges).searchsorted(values, side=side), np.searchsorted(edges, values, side))
    assert Tensor([1.0, NAN]).isin([NAN, 1.0]).tolist() == [True, False]
    assert Tensor([3, 200]).isin(Tensor(np.arange(100))).tolist() == [True, False]
    distinct, counts = Tensor([NAN, 1.0, NAN, -0.0, 0.0]).unique(return_counts=True)
    same(distinct, [0, 1, NAN, NAN])
    assert counts.tolist() == [2, 1, 1, 1]
    assert Tensor([1.0, NAN, 5.0, -1.0, 2.0]).histc(2, 0, 2).tolist() == [0, 2]
    assert Tensor([1.0, NAN, 5.0, -1.0, 2.0]).histogram(2, range=(0, 2)).hist.tolist() == [0, 2]


# ---- nothing, and no dimensions


def test_reductions_of_nothing(device):
    x = Tensor.zeros(0, 3)
    assert x.sum(0).tolist() == [0, 0, 0] and x.prod(0).tolist() == [1, 1, 1]
    assert x.any(0).tolist() == [False] * 3 and x.all(0).tolist() == [True] * 3
    assert np.isnan(x.mean(0).numpy()).all() and np.isnan(x.var(0).numpy()).all()
    assert x.logsumexp(0).tolist() == [-INF] * 3 and x.norm(dim=0).tolist() == [0] * 3
    assert x.count_nonzero().item() == 0 and x.nansum().item() == 0 and x.norm(1).item() == 0
    assert x.max(1).values.shape == x.argmax(1).shape == x.median(1).values.shape == (0,)
    assert x.sort(0).values.shape == x.sort(1).indices.shape == (0, 3) and x.topk(0, 0).values.shape == (0, 3)
    assert x.quantile(0.5, 1).shape == (0,) and x.unique().shape == (0,)
    assert Tensor.zeros(0, dtype="int64").bincount(minlength=2).tolist() == [0, 0]
    assert Tensor.zeros(0).searchsorted(Tensor([1.0])).tolist() == [0]
    assert Tensor.zeros(0).histc(2).tolist() == [0, 0]
    assert np.isnan(Tensor([1.0]).var().item()) and np.isnan(Tensor([1.0]).std().item())


@pytest.mark.parametrize("call", [
    lambda x: x.max(), lambda x: x.max(0), lambda x: x.amin(0), lambda x: x.min(), lambda x: x.argmax(),
    lambda x: x.argmin(0), lambda x: x.median(), lambda x: x.median(0), lambda x: x.nanmedian(0),
    lambda x: x.mode(0), lambda x: x.quantile(0.5), lambda x: x.norm(INF), lambda x: x.norm(-INF, 0),
    lambda x: x.aminmax(dim=0),
])  # fmt: skip
def test_there_is_no_largest_of_nothing(device, call):
    with pytest.raises(ShapeError, match=r"of no elements is undefined: shape \(0,"):
        call(Tensor.zeros(0, 3)[:, 0])


def test_no_dimensions(device):
    x = Tensor(2.0)
    for name in ("sum", "prod", "mean", "amax", "logsumexp", "norm", "softmax", "cumsum", "cumprod",
        "logcumsumexp"):  # fmt: skip
        for dim in (0, -1):
            out = getattr(x, name)(dim=dim)
            assert out.shape == () and out.item() == pytest.approx(1 if name == "softmax" else 2)
    for name in ("max", "min", "median", "nanmedian", "mode", "sort", "cummax", "cummin"):
        values, indices = getattr(x, name)(0)
        assert values.item() == 2 and indices.item() == 0 and values.shape == indices.shape == ()
    assert x.topk(1).values.item() == 2 and x.kthvalue(1).indices.item() == 0
    assert x.argmax().item() == x.argmin(0).item() == x.argsort().item() == 0
    assert x.quantile(0.3).item() == 2 and x.isin([2.0]).item() and x.unique().tolist() == [2]


def test_what_is_chosen_from_results_of_reductions(device):
    """The place that is read holds reductions then, which what is read there holds too."""
    a = np.random.default_rng(3).standard_normal((3, 7)).astype("float32")
    p = np.exp(a) / np.exp(a).sum(1, keepdims=True)
    x = Tensor(a).softmax(1)
    at = x.argmax(1, keepdim=True)
    chosen, beside = x.gather(1, at), (x.gather(1, at) * x).sum(1)
    q = Tensor(p.max(1, keepdims=True) * p).softmax(1)
    nested = (x.gather(1, at.expand(3, 7)) * x).softmax(1)
    Tensor.realize(chosen, beside)
    same(chosen, p.max(1, keepdims=True), rtol=1e-5)
    same(beside, p.max(1), rtol=1e-5)
    same(x.topk(1).values, p.max(1, keepdims=True), rtol=1e-5)
    same(nested.gather(1, nested.argmin(1, keepdim=True)), q.numpy().min(1, keepdims=True), rtol=1e-5)


ROUNDED_TWICE = {
    "affine": lambda a, b: a * 1.7 + b * 0.3, "gelu": lambda a, b: (a * b + a).gelu(),
    "softmax": lambda a, b: (a.softmax(1) * b).softmax(1), "waves": lambda a, b: (a * b).sin() * a.exp() + b,
    "normal": lambda a, b: (a - a.mean(1, keepdim=True)) * (a.var(1, keepdim=True) + 1e-5).rsqrt() * b,
}  # fmt: skip


@pytest.mark.parametrize("name", ROUNDED_TWICE)
@pytest.mark.parametrize("n", [13, 37])
def test_an_extreme_equals_an_element(device, name, n):
    """A compiler rounds the element and the extreme differently, if both are computed anew."""
    f = ROUNDED_TWICE[name]
    rng = np.random.default_rng(0)
    a, b = (Tensor(rng.standard_normal((50, n)).astype("float32")) for _ in "ab")
    x, rows = f(a, b), np.arange(50)
    found, low, high, now = (x == x.amax(1, True)).sum(1), x.argmin(1), x.argmax(1), x.max(1)
    middle, latest = x.median(1), x.cummax(1)
    now.values.realize()
    values = f(a, b).numpy()
    assert found.tolist() == [1] * 50
    for index, best in ((low, values.min(1)), (high, values.max(1)), (now.indices, values.max(1)),
                        (middle.indices, np.sort(values, 1)[:, (n - 1) // 2]),
                        (latest.indices[:, -1], values.max(1))):  # fmt: skip
        np.testing.assert_allclose(values[rows, index.numpy()], best, rtol=1e-5, atol=1e-6)


def test_the_gradient_of_an_extreme_finds_it(device):
    """Also after the extreme was looked at."""
    rng = np.random.default_rng(0)
    a, b = (Tensor(rng.standard_normal((50, 37)).astype("float32"), requires_grad=True) for _ in "ab")
    for pick in (lambda x: x.amax(1), lambda x: x.amin(1), lambda x: x.median().reshape(1)):
        out = pick(a * 1.7 + b * 0.3)
        out.realize()
        out.sum().backward()
        places = a.grad != 0
        assert places.sum().item() == out.size and np.allclose(a.grad.sum().item(), 1.7 * out.size)
        a.grad = b.grad = None


# ---- what comes back, and what can't be asked for


def test_results_have_names(device):
    x = Tensor([[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]])
    for out in (x.max(1), x.min(1), x.sort(1), x.topk(2), x.median(1), x.mode(1), x.kthvalue(1), x.cummax(1)):
        assert out._fields == ("values", "indices") and out[0] is out.values
    low, high = x.aminmax()
    assert (low.item(), high.item()) == (1, 6) and x.aminmax(dim=1).max.tolist() == [3, 6]
    assert x.max(axis=1, keepdims=True).values.shape == (2, 1)
    same(x.max(Tensor(3.5)), [[3.5, 3.5, 3.5], [4, 6, 5]])
    same(x.min(x.flip(1)), [[2, 1, 2], [4, 6, 4]])
    assert x.histogram(2)._fields == ("hist", "bin_edges")


@pytest.mark.parametrize("call, error, words", [
    (lambda x: x.max((0, 1)), ShapeError, "use amax"), (lambda x: x.min([0]), ShapeError, "use amin"),
    (lambda x: x.topk(4), ShapeError, "k=4"), (lambda x: x.kthvalue(0), ShapeError, "k=0"),
    (lambda x: x.sort(2), ShapeError, "out of range"), (lambda x: x.sum((0, 0)), ShapeError, "twice"),
    (lambda x: x.norm("nuc"), ArgumentError, "matrix_norm"), (lambda x: x.quantile(1.5), RangeError, "1.5"),
    (lambda x: x.quantile(0.5, interpolation="cubic"), ArgumentError, "linear, lower"),
    (lambda x: x.quantile([[0.5]]), ShapeError, "one dimension"),
    (lambda x: x.var(1, unbiased=True, correction=0), ArgumentError, "either"),
    (lambda x: x.searchsorted(Tensor.zeros(3, 3)), ShapeError, "one dimension"),
    (lambda x: x.searchsorted(Tensor.zeros(2, 3), side="up"), ArgumentError, "side"),
    (lambda x: x.bucketize(x), ShapeError, "one dimension"), (lambda x: x.bincount(), DTypeError, "vector"),
    (lambda x: Tensor([1, -2]).bincount(), RangeError, "-2"),
    (lambda x: Tensor([1, 2]).bincount(x), ShapeError, "weights"), (lambda x: x.histc(0), ShapeError, "bins"),
    (lambda x: x.histogram(0), ShapeError, "at least one"), (lambda x: x.diff(-1), ShapeError, "n=-1"),
    (lambda x: x[0, 0].diff(), ShapeError, "dimension"), (lambda x: x[0, 0].trapezoid(), ShapeError, "0-dim"),
    (lambda x: x.unsqueeze(0).cov(), ShapeError, "matrix"),
    (lambda x: x.cov(fweights=Tensor([1])), ShapeError, "observations"),
])  # fmt: skip
def test_refusals(device, call, error, words):
    with pytest.raises(error, match=words):
        call(Tensor([[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]]))


# ---- compiled once, run again


@pytest.mark.parametrize("n", [6, 140])  # ordered on the device, on the host
def test_order_in_jitted_functions(device, n):
    @dawdle.jit
    def f(x):
        return (x.sort(1), x.argsort(0), x.topk(2, 1), x.median(1), x.quantile([0.2, 0.7], 1),
            x.mode(1).values, x.cummax(1), x.max(1).values.searchsorted(x))  # fmt: skip

    for seed in range(3):
        a = np.random.default_rng(seed).normal(size=(3, n)).astype("float32")
        order, rows, top, middle, between, _, running, _ = f(Tensor(a))
        same(order.values, np.sort(a, 1))
        same(order.indices, np.argsort(a, 1))
        same(rows, np.argsort(a, 0))
        same(top.values, np.sort(a, 1)[:, ::-1][:, :2])
        same(middle.values, np.sort(a, 1)[:, (n - 1) // 2])
        same(between, np.quantile(a, [0.2, 0.7], 1), rtol=1e-5)
        same(running.values, np.maximum.accumulate(a, 1))


@pytest.mark.parametrize("call", [
    lambda x: x.unique(), lambda x: x.unique_consecutive(), lambda x: x.long().bincount(),
])  # fmt: skip
def test_sizes_that_depend_on_data_are_refused_in_jitted_functions(device, call):
    with pytest.raises(JitError):
        dawdle.jit(call)(Tensor([1.0, 2.0, 2.0]))


# ---- gradients


def gradient(f, at):
    x = Tensor(np.asarray(at, "float64"), requires_grad=True)
    f(x).sum().backward()
    return x.grad.numpy()


@pytest.mark.parametrize("f, at, expected", [
    (lambda x: x.max(), [2, NAN, NAN], [0, 0.5, 0.5]), (lambda x: x.median(), [2, NAN, 1], [0, 1, 0]),
    (lambda x: x.max(), [2, 1, 2], [0.5, 0, 0.5]), (lambda x: x.max(0).values, [2, 1, 2], [1, 0, 0]),
    (lambda x: x.min(), [2, 1, 1], [0, 0.5, 0.5]), (lambda x: x.min(0).values, [2, 1, 1], [0, 1, 0]),
    (lambda x: x.median(), [2, 2, 3], [0.5, 0.5, 0]), (lambda x: x.median(0).values, [2, 2, 3], [0, 1, 0]),
    (lambda x: x.cummax(0).values, [1, 1, 0], [1, 2, 0]),
    (lambda x: x.cummin(0).values, [1, 1, 2], [1, 2, 0]),
    (lambda x: x.sort().values * Tensor([1.0, 2.0, 3.0]), [3, 1, 2], [3, 1, 2]),
    (lambda x: x.topk(2).values * Tensor([1.0, 2.0]), [3, 1, 2], [1, 0, 2]),
    (lambda x: x.kthvalue(2).values, [3, 1, 2], [0, 0, 1]),
    (lambda x: x.norm(), [0, 0], [0, 0]), (lambda x: x.norm(3), [0, 0], [0, 0]),
    (lambda x: x.norm(1), [0, -2], [0, -1]), (lambda x: x.norm(INF), [3, -3], [0.5, -0.5]),
    (lambda x: x.norm(0.5), [0, 4], [0, 1]), (lambda x: x.norm(0), [0, 4], [0, 0]),
    (lambda x: x.norm(dim=0), [[0, 3], [0, 4]], [[0, 0.6], [0, 0.8]]),
    (lambda x: x.std(), [2, 2], [0, 0]), (lambda x: x.std_mean()[0], [1, 1, 1], [0, 0, 0]),
    (lambda x: x.var(correction=0), [5], [0]),
    (lambda x: x.prod(), [0, 2, 3], [6, 0, 0]), (lambda x: x.prod(), [0, 0, 3], [0, 0, 0]),
    (lambda x: x.cumprod(0), [2, 0, 3], [1, 8, 0]), (lambda x: x.cumprod(0), [0, 0, 3], [1, 0, 0]),
    (lambda x: x.nansum(), [1, NAN], [1, 0]), (lambda x: x.nanmean(), [1, NAN, 3], [0.5, 0, 0.5]),
    (lambda x: x.logsumexp(0), [-INF, 0, 0], [0, 0.5, 0.5]),
    (lambda x: x.logcumsumexp(0)[1:], [-INF, 0, 0], [0, 1.5, 0.5]),
    (lambda x: x.quantile(0.25), [4, 1, 2], [0, 0.5, 0.5]),
])  # fmt: skip
def test_subgradients(f, at, expected):
    np.testing.assert_allclose(gradient(f, at), expected, rtol=1e-12, atol=1e-15)


def test_the_variance_of_one_element_has_no_gradient():
    assert np.isnan(gradient(lambda x: x.var(), [5.0])).all()


# ---- accuracy


def test_moments_of_a_million_numbers(device):
    a = np.random.default_rng(0).normal(1000, 1, 1_000_000).astype("float32")
    exact = a.astype("float64")
    x = Tensor(a)
    assert x.mean().item() == pytest.approx(exact.mean(), rel=2e-7)
    assert x.sum().item() == pytest.approx(exact.sum(), rel=5e-7)
    variance, average = x.var_mean()
    assert variance.item() == pytest.approx(exact.var(ddof=1), rel=2e-5)
    assert average.item() == pytest.approx(exact.mean(), rel=2e-7)
    grid = Tensor(a.reshape(1000, 1000))
    # NumPy adds rows one after the other; kernels take long sums in parts
    same(grid.mean(0), exact.reshape(1000, 1000).mean(0), rtol=3e-6 if device == "NUMPY" else 5e-7)
    same(grid.mean(1), exact.reshape(1000, 1000).mean(1), rtol=3e-7)


def test_the_mean_of_equal_numbers_is_that_number(device):
    for n in (3, 7, 10, 49, 100):
        assert Tensor(np.full((n, 2), 3.0, "float32")).mean(0).tolist() == [3, 3]
