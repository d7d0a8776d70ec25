"""Gradients beyond single operations: the recorded graph, its lifetime, higher orders, subgradients."""
from __future__ import annotations

import gc
import math
import weakref

import numpy as np
import pytest

import dawdle
from dawdle import Tensor
from dawdle.errors import GradientError, ShapeError
from dawdle.tensor.elementwise import fma


def leaf(data, dtype="float64"):
    return Tensor(np.asarray(data, dtype), requires_grad=True)


def close(tensor, expected, **tolerance):
    np.testing.assert_allclose(tensor.numpy(), expected, **{"rtol": 1e-6, "atol": 1e-8, **tolerance})


# ---- accumulation and the graph's life


def test_gradients_accumulate_and_shared_values_count_twice():
    x = leaf([1.0, 2.0])
    y = x * x + x
    y.sum().backward()
    close(x.grad, [3, 5])
    (x * 2).sum().backward()
    close(x.grad, [5, 7])
    x.grad = None
    (x * 2).backward(gradient=Tensor([1.0, 10.0], dtype="float64"))
    close(x.grad, [2, 20])


def test_fma_gives_each_operand_its_gradient():
    a, b, c = leaf([2.0, -1.0]), leaf([3.0, 0.5]), leaf([1.0, 7.0])
    fma(a, b, c).sum().backward()
    close(a.grad, b.numpy())
    close(b.grad, a.numpy())
    close(c.grad, [1, 1])
    (fma(a, a, a.detach())).sum().backward()
    close(a.grad, b.numpy() + 2 * a.numpy())


def test_item_before_backward_and_realised_intermediates():
    x = leaf([1.0, 2.0])
    h = (x * 3).exp()
    h.realize()
    loss = h.log().sum()
    assert loss.item() == pytest.approx(9)
    loss.backward()
    close(x.grad, [3, 3])


def test_a_freed_graph_says_so():
    x = leaf([1.0])
    loss = (x * x).sum()
    loss.backward()
    with pytest.raises(GradientError, match="retain_graph"):
        loss.backward()
    kept = (x * x).sum()
    kept.backward(retain_graph=True)
    kept.backward()
    close(x.grad, [6])


def test_nothing_to_differentiate():
    x = leaf([1.0, 2.0])
    with pytest.raises(GradientError, match="scalar"):
        (x * 2).backward()
    with pytest.raises(ShapeError, match="gradient of shape"):
        (x * 2).backward(Tensor([1.0]))
    with dawdle.no_grad():
        y = (x * 2).sum()
    for dead in (y, x.detach().sum(), Tensor([1.0]).sum(), (x > 0).float().sum()):
        assert not dead.requires_grad
        with pytest.raises(GradientError, match="requires gradients"):
            dead.backward()


def test_no_grad_forms():
    x = leaf([1.0])

    @dawdle.no_grad()
    def f():
        return x * 2

    assert not f().requires_grad and (x * 2).requires_grad
    with dawdle.no_grad(), dawdle.enable_grad():
        assert (x * 2).requires_grad
    with Tensor.no_grad():
        assert not (x * 2).requires_grad


def test_inplace_on_recorded_tensors():
    x = leaf([1.0, 2.0])
    y = x * 2
    z = y * y
    y += 1  # z keeps the y from before
    y[0] = 0.0
    (y.sum() + z.sum()).backward()
    close(x.grad, [8 * 1, 8 * 2 + 2])
    with pytest.raises(GradientError, match="leaf"):
        x += 1
    with pytest.raises(GradientError, match="leaf"):
        x[0] = 1.0
    loss = (x * x).sum()
    with dawdle.no_grad():
        x -= 0.5
        assert x.requires_grad and x.is_leaf
    x.grad = None
    loss.backward()  # built from the old value
    close(x.grad, [2, 4])
    close(x, [0.5, 1.5])


def test_assigning_a_recorded_value_records():
    x = leaf([1.0, 2.0])
    buffer = Tensor.zeros(3, dtype="float64")
    buffer[:2] = x * 2
    (buffer * buffer).sum().backward()
    close(x.grad, [8, 16])


def test_training_holds_constant_memory():
    w = leaf(np.ones(4))
    alive = []
    gc.disable()  # no reference cycles: nothing waits for the collector
    try:
        for _ in range(5):
            loss = ((w * 2).exp() * w).mean()
            alive.append((weakref.ref(loss), weakref.ref(loss._node), weakref.ref(loss.lazy)))
            loss.backward()
            with dawdle.no_grad():
                w -= w.grad * 0.1
            w.grad = None
            w.realize()
        del loss
        assert all(ref() is None for refs in alive for ref in refs)
        assert not w.lazy.src
    finally:
        gc.enable()


def test_losses_kept_after_backward_hold_no_graph():
    w = leaf([1.0])
    loss = (w * 3).exp().sum()
    inner = weakref.ref(loss._node.parents[0])
    loss.backward()
    assert inner() is None


def test_long_chains_and_wide_diamonds():
    x = leaf([1.0])
    y = x
    for _ in range(100_000):
        y = y + 0.0
    assert y.gradient(x)[0].shape == (1,)
    del y
    y = x
    for _ in range(60):
        y = y + y
    found = y.gradient(x)[0].item()
    assert found == 2.0**60


# ---- gradient(), grad(), value_and_grad()


def test_gradient_of_targets_that_ask_and_that_do_not():
    a, b = leaf([2.0]), Tensor([3.0], dtype="float64")
    loss = (a * b * b).sum()
    ga, gb = loss.gradient(a, b)
    close(ga, [9])
    close(gb, [12])
    assert a.grad is None
    h = Tensor([1.0, 2.0])
    mid = h * h
    out = (mid * 3).sum()
    close(out.gradient(mid)[0], [3, 3])
    close(out.gradient(h)[0], [6, 12])
    v = Tensor([1.0, 5.0])
    close((h * h).gradient(h, gradient=v)[0], [2, 20])


def test_gradient_with_respect_to_what_is_not_there():
    a, b = leaf([2.0]), leaf([1.0])
    close((a * a).gradient(a, b)[1], [0])
    with pytest.raises(GradientError, match="doesn't depend"):
        (a * a).gradient(Tensor([1.0]))
    x = Tensor([1.0])
    y = (x * 2).realize()
    with pytest.raises(GradientError):
        (y * 3).gradient(x)


def test_detach_stops_gradients_for_all_targets():
    x = Tensor([3.0])
    close((x * x.detach()).gradient(x)[0], [3])
    x = leaf([3.0])
    close((x * x.detach()).gradient(x)[0], [3])


def test_grad_of_functions():
    def f(x, y):
        return (x * x * y).sum()

    x, y = Tensor([2.0, 3.0]), Tensor([5.0, 7.0])
    close(dawdle.grad(f)(x, y), [20, 42])
    gx, gy = dawdle.grad(f, (0, 1))(x, y)
    close(gx, [20, 42])
    close(gy, [4, 9])
    value, g = dawdle.value_and_grad(f, 1)(x, y)
    assert value.item() == 83 and not value.requires_grad and not x.requires_grad
    close(g, [4, 9])
    with pytest.raises(GradientError, match="argument 0 of f"):
        dawdle.grad(f)(Tensor([1]), y)


def test_higher_orders():
    third = dawdle.grad(dawdle.grad(dawdle.grad(lambda x: x**5)))
    assert third(Tensor(2.0)).item() == pytest.approx(60 * 4)
    x = leaf([0.3, -1.2, 0.7])
    (g,) = (x.tanh() * x.exp()).sum().gradient(x, create_graph=True)
    g.sum().backward()
    t, e = np.tanh(x.numpy()), np.exp(x.numpy())
    s = 1 - t * t
    close(x.grad, (-2 * t * s) * e + 2 * s * e + t * e)


SECOND = {
    "exp": lambda x: x.exp(), "log": lambda x: (x + 3).log(), "sin": lambda x: x.sin(),
    "cos": lambda x: x.cos(),
    "tanh": lambda x: x.tanh(), "sigmoid": lambda x: x.sigmoid(), "erf": lambda x: x.erf(),
    "sqrt": lambda x: (x + 3).sqrt(),
    "div": lambda x: 1 / (x + 3), "pow": lambda x: (x + 3) ** 2.5, "pow of tensors": lambda x: (x + 3) ** x,
    "softmax": lambda x: x.softmax() ** 2, "logsumexp": lambda x: x.logsumexp(), "prod": lambda x: x.prod(),
    "cumprod": lambda x: x.cumprod(0), "cumsum": lambda x: x.cumsum(0) ** 2, "amax": lambda x: x.amax() ** 2,
    "layernorm": lambda x: x.layernorm() ** 3, "expm1": lambda x: x.expm1(),
    "log1p": lambda x: (x + 1).log1p(),
    "gather": lambda x: x[[0, 0, 2]] ** 3, "slice": lambda x: x[::2] ** 3, "gelu": lambda x: x.gelu(),
    "softplus": lambda x: x.softplus(), "std": lambda x: x.std(), "matmul": lambda x: (x @ x) ** 2,
    "window": lambda x: x.unfold(0, 2, 1) ** 3, "mod": lambda x: x % 0.7 * x,
    "clamp": lambda x: x.clamp(-0.5, 0.5) ** 3,
    "max": lambda x: x.max(0).values ** 3, "sort": lambda x: x.sort().values ** 3 * Tensor([1.0, 2.0, 3.0]),
    "topk": lambda x: x.topk(2).values ** 3, "median": lambda x: x.median() ** 3,
    "cummax": lambda x: x.cummax(0).values ** 3, "logcumsumexp": lambda x: x.logcumsumexp(0) ** 2,
    "norm": lambda x: x.norm(), "norm 3": lambda x: x.norm(3), "norm 1": lambda x: x.norm(1) ** 2,
    "norm inf": lambda x: x.norm(math.inf) ** 2, "var": lambda x: x.var() ** 2,
    "quantile": lambda x: x.quantile(0.3) ** 3, "prod squared": lambda x: x.prod() ** 2,
    "cov": lambda x: x.cov() ** 2,
    "softmin": lambda x: x.softmin() ** 2, "trapezoid": lambda x: x.trapezoid() ** 2,
}  # fmt: skip


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives_numerically(name):
    f, weights = SECOND[name], np.array([0.9, -1.3, 0.4])
    point = np.array([0.31, -0.82, 0.57])

    def first(at):
        return dawdle.grad(lambda x: f(x).sum())(Tensor(at)).numpy() @ weights

    x = leaf(point)
    (g,) = f(x).sum().gradient(x, create_graph=True)
    got = (g * Tensor(weights)).sum().gradient(x)[0].numpy()
    step = 1e-6
    numeric = [(first(point + step * e) - first(point - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(got, numeric, rtol=1e-4, atol=1e-6)


# ---- subgradients and traps


@pytest.mark.parametrize("f, at, expected", [
    (lambda x: x.relu(), [0.0, -0.0, 1.0], [0, 0, 1]), (lambda x: x.abs(), [0.0, -0.0, -2.0], [0, 0, -1]),
    (lambda x: x.amax(), [2.0, 1.0, 2.0], [0.5, 0, 0.5]), (lambda x: x.amin(), [2.0, 2.0, 3.0], [0.5, 0.5,
    0]),
    (lambda x: x.maximum(1.0), [1.0, 2.0, 0.0], [0.5, 1, 0]), (lambda x: x.clamp(0.0, 1.0), [0.0, 1.0, 2.0],
    [1, 1, 0]),
    (lambda x: x.log().where(x > 1, 0.0), [-2.0, -1.0, 2.0], [0, 0, 0.5]), (lambda x: x.sign() * x, [2.0,
    -3.0, 0.0], [1, -1, 0]),
    (lambda x: x**2, [0.0, 1.0, -2.0], [0, 2, -4]), (lambda x: x**0.5, [4.0, 1.0, 0.25], [0.25, 0.5, 1]),
    (lambda x: x ** Tensor([0.0, 1.0, 2.0]), [0.0, 0.0, 0.0], [0, 1, 0]), (lambda x: x.round(), [0.5, 1.2,
    3.0], [0, 0, 0]),
    (lambda x: x.prod(), [0.0, 2.0, 3.0], [6, 0, 0]), (lambda x: x.prod(), [0.0, 0.0, 3.0], [0, 0, 0]),
    (lambda x: x.cummax(0).values, [1.0, 1.0, 0.0], [1, 2, 0]),
    (lambda x: x.relu6(), [0.0, 6.0, 3.0], [0, 0, 1]),
    (lambda x: x.logsumexp(), [-math.inf, 0.0, 0.0], [0, 0.5, 0.5]), (lambda x: x.softplus(), [1000.0,
    -1000.0, 0.0], [1, 0, 0.5]),
    (lambda x: x.sigmoid(), [1000.0, -1000.0, 0.0], [0, 0, 0.25]), (lambda x: x.elu(), [1000.0, 0.0,
    -1000.0], [1, 1, 0]),
    (lambda x: x.scatter(0, Tensor([1, 1]), x[:2] * 2), [1.0, 2.0, 3.0], [1, 2, 1]),
])  # fmt: skip
def test_subgradients(f, at, expected):
    x = leaf(at)
    f(x).sum().backward()
    close(x.grad, expected)


def test_gradients_of_halves_are_halves():
    for kind in ("float16", "bfloat16"):
        x = Tensor([1.0, 2.0], dtype=kind, requires_grad=True)
        ((x * 2).float().exp() @ Tensor([1.0, 1.0])).backward()
        assert x.grad.dtype.name == kind
        close(x.grad.float(), 2 * np.exp([2.0, 4.0]), rtol=1e-2)


def test_empty_and_zero_dimensional_leaves():
    x, s = leaf(np.zeros((0, 3))), leaf(2.0)
    ((x.sum() + s * s) * s).backward()
    close(s.grad, 12)
    assert x.grad.shape == (0, 3)


@pytest.mark.parametrize("loss", [lambda y: y.sum(), lambda y: (y * y).sum()])
def test_windows_of_nothing_but_padding_give_no_gradient(device, loss):
    x = leaf(np.arange(12).reshape(1, 3, 1, 4), "float32")
    y = x.max_pool2d(2, 1, 1, 2)  # rows -1 and 1 of a single one
    loss(y).backward()
    close(y, np.full((1, 3, 1, 4), -np.inf))
    close(x.grad, np.zeros(x.shape))
