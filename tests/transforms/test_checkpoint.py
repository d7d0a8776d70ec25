"""checkpoint: the gradients of a plain call, from less memory."""

from __future__ import annotations

import functools
import gc
import weakref

import numpy as np
import pytest
from drawn import close as roughly_close
from drawn import data, tensor

import dawdle
from dawdle import Tensor, checkpoint, nn
from dawdle.lazy.memory import plan_memory
from dawdle.lazy.schedule import schedule
from dawdle.lazy.simplify import simplify

close = functools.partial(roughly_close, rtol=1e-9, atol=1e-12)


def plainly(function, *args, **kwargs):
    return function(*args, **kwargs)


def both(loss, *leaves):
    """The gradients with a plain call and with a checkpoint, of ``loss(how to call)``."""
    found = []
    for call in (plainly, checkpoint):
        for leaf in leaves:
            leaf.grad = None
        value = loss(call)
        value.backward()
        found.append([value, *[leaf.grad for leaf in leaves]])
    return found


def test_gradients_are_those_of_a_plain_call():
    x, w, b = (tensor(*shape, requires_grad=True) for shape in ((4, 3), (3, 3), (3,)))

    def layer(x, w, *, b):
        h = (x @ w + b).tanh()
        return h * h, {"sum": h.sum(), "n": 3}

    def loss(call):
        y, more = call(layer, x, w, b=b)
        assert more["n"] == 3 and y.requires_grad
        return (y.exp() * x).sum() + more["sum"] ** 2

    plain, again = both(loss, x, w, b)
    for a, c in zip(again, plain, strict=True):
        close(a, c.numpy())


def test_tensors_from_outside_and_nested_arguments():
    w = tensor(3, requires_grad=True)
    h = tensor(3, seed=1, requires_grad=True)

    def loss(call):
        mid = h * 2  # not a leaf, from outside
        out = call(lambda parts: (parts["x"][0] * w).sin() * mid, {"x": [h, None]})
        return call(lambda: (out * w.exp()).sum())

    plain, again = both(loss, w, h)
    for a, c in zip(again, plain, strict=True):
        close(a, c.numpy())


def test_reshaped_arguments_and_results_that_are_arguments():
    x = tensor(2, 6, requires_grad=True)

    def loss(call):
        def inner(a):
            return a, a.reshape(4, 3).sin(), a[0]

        a, b, c = call(inner, x.exp().reshape(3, 4))
        return a.sum() + (b * b).sum() + c.prod()

    plain, again = both(loss, x)
    for a, c in zip(again, plain, strict=True):
        close(a, c.numpy())


def test_without_gradients_it_is_a_call():
    x = tensor(3, requires_grad=True)
    with dawdle.no_grad():
        assert not checkpoint(lambda x: x * 2, x).requires_grad
    assert not checkpoint(lambda x: x * 2, tensor(3)).requires_grad
    assert checkpoint(lambda x, n: x.long() + n, x, 2).dtype.name == "int64"
    out = checkpoint(lambda x: x.detach() * 2, x, use_reentrant=False, preserve_rng_state=True)
    assert not out.requires_grad


def test_values_may_be_read_inside():
    x = tensor(3, requires_grad=True)

    def branch(x):
        return x.exp() if x.sum().item() > -100 else x

    (checkpoint(branch, x) ** 2).sum().backward()
    close(x.grad, 2 * np.exp(2 * x.numpy()))


def test_the_function_runs_once_and_the_same_numbers_are_drawn():
    runs = []
    x = Tensor(np.ones(1000), requires_grad=True)

    def noisy(x):
        runs.append(1)
        return (x.dropout(0.5) * 3).exp()

    with Tensor.train():
        y = checkpoint(noisy, x)
        y.sum().backward()
    kept = np.log(y.numpy()) / 6
    close(x.grad, kept * 6 * y.numpy())
    assert runs == [1] and 300 < kept.sum() < 700
    assert Tensor.rand(1).item() != Tensor.rand(1).item()


def test_values_assigned_in_between_dont_matter():
    w = tensor(3, requires_grad=True)
    before = w.numpy()
    x = tensor(3, seed=1, requires_grad=True)
    y = checkpoint(lambda x: (x * w).sin(), x).sum()
    with dawdle.no_grad():
        w.assign(w * 100)
    y.backward()
    close(x.grad, np.cos(x.numpy() * before) * before)


def test_running_statistics_are_updated_once():
    norm = nn.BatchNorm1d(3)
    norm.train()
    x = Tensor(data(8, 3).astype("f"), requires_grad=True)
    checkpoint(norm, x).square().sum().backward()
    np.testing.assert_allclose(norm.running_mean.numpy(), 0.1 * x.numpy().mean(0), rtol=1e-5, atol=1e-6)
    assert x.grad is not None and norm.weight.grad is not None


def test_higher_orders_nesting_and_other_transforms():
    def f(x):
        return (x**3).sum() * x[0].exp()

    def checkpointed(x):
        return checkpoint(lambda x: checkpoint(f, x * 1.0), x)

    x = tensor(3)
    for transform in (dawdle.grad, dawdle.hessian, lambda f: dawdle.jacfwd(dawdle.grad(f))):
        close(transform(checkpointed)(x), transform(f)(x).numpy())
    xs = tensor(4, 3)
    close(dawdle.vmap(dawdle.grad(checkpointed))(xs), dawdle.vmap(dawdle.grad(f))(xs).numpy())
    whole = dawdle.grad(lambda xs: checkpoint(dawdle.vmap(f), xs).sum())
    close(whole(xs), dawdle.vmap(dawdle.grad(f))(xs).numpy())


def test_a_graph_is_freed_by_backward_and_kept_if_asked():
    x = tensor(3, requires_grad=True)
    y = checkpoint(lambda x: x**3, x).sum()
    y.backward(retain_graph=True)
    y.backward()
    close(x.grad, 6 * x.numpy() ** 2)
    with pytest.raises(dawdle.GradientError, match="retain_graph"):
        y.backward()


def test_realised_in_between():
    x = tensor(3, requires_grad=True)
    h = x * 2
    y = checkpoint(lambda h: h.exp().sin(), h)
    loss = (y * y).sum()
    loss.item()
    h.realize()
    loss.backward()
    e = np.exp(2 * x.numpy())
    close(x.grad, 2 * np.sin(e) * np.cos(e) * e * 2)


# ---- memory


@pytest.mark.parametrize("call", [
    checkpoint, lambda f, x: dawdle.vmap(f)(x), lambda f, x: dawdle.jvp(f, (x,), (x,))[1],
])  # fmt: skip
def test_nothing_waits_for_the_collector_of_cycles(call):
    w, x = tensor(3, requires_grad=True), tensor(4, 3)
    refs = []
    gc.disable()
    try:
        for backwards in (True, False):
            y = call(lambda x: (x * w).tanh(), x)
            refs += [weakref.ref(thing) for thing in (y, y._node, y.lazy)]
            if backwards:
                y.sum().backward()
            w.grad = None
            del y
        assert all(ref() is None for ref in refs)
    finally:
        gc.enable()


WIDTH, ROWS, LAYERS = 64, 512, 8


def deep(call, device, layers=LAYERS):
    """The gradients of a deep network's weights, not computed yet."""
    with dawdle.config.override(device=device):
        arrays = [data(WIDTH, WIDTH, seed=i).astype("f") / 8 for i in range(2 * layers)]
        weights = [Tensor(a, requires_grad=True) for a in arrays]
        h = Tensor(data(ROWS, WIDTH).astype("f"))
        for first, second in zip(weights[::2], weights[1::2], strict=True):
            def layer(h, first=first, second=second):
                return h + ((h @ first).tanh() * 2).sin() @ second

            h = call(layer, h)
        (h * h).mean().backward()
        return [w.grad for w in weights]


def temporaries(grads):
    """Bytes of temporary values that a schedule for one device needs."""
    return plan_memory(schedule(simplify([g.lazy for g in grads]))).size


@pytest.mark.parametrize("order", [1, -1])
def test_plans_need_less_memory(order):
    activation = ROWS * WIDTH * 4
    plain = temporaries(deep(plainly, "NUMPY")[::order])
    again = temporaries(deep(checkpoint, "NUMPY")[::order])
    assert plain > 2 * LAYERS * activation
    assert again < (LAYERS + 5) * activation


def test_compiled_and_under_jit():
    plain = [g.numpy() for g in deep(plainly, "CPU", 2)]
    for got, want in zip(deep(checkpoint, "CPU", 2), plain, strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-6)
    with dawdle.config.override(device="CPU"):
        w = Tensor(data(4, 4).astype("f"), requires_grad=True)
        Tensor.rand(1).realize()  # the first draw makes the generator's state, for which jit traces twice

        @dawdle.jit
        def step(x):
            w.grad = None
            loss = checkpoint(lambda x: (x @ w).tanh().dropout(0.5, True), x).square().sum()
            loss.backward()
            return loss

        x = Tensor(np.eye(4, dtype="f"))
        for _ in range(3):
            loss = step(x)
            kept = w.grad.numpy() != 0
            t = np.tanh(w.numpy()) * 2 * kept
            np.testing.assert_allclose(loss.item(), (t * t).sum(), rtol=1e-5)
            np.testing.assert_allclose(w.grad.numpy(), 2 * t * (4 - t * t) / 2 * kept, rtol=1e-4, atol=1e-5)
        assert step.traces == 1
