"""functional_call: modules as functions of their parameters, under the transforms."""

from __future__ import annotations

import numpy as np
import pytest

import dawdle
from dawdle import Tensor, nn
from dawdle.errors import StateError
from dawdle.func import functional_call


def data(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("f")


def close(got, expected):
    np.testing.assert_allclose(got.numpy(), np.asarray(expected), rtol=1e-4, atol=1e-5)


def network():
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def test_other_parameters():
    net, other, x = network(), network(), Tensor(data(5, 3))
    before = dict(net.named_parameters())
    close(functional_call(net, dict(other.named_parameters()), x), other(x).numpy())
    part = {"2.bias": Tensor([5.0, 7.0])}
    close(functional_call(net, part, (x,)), net(x).numpy() - net[2].bias.numpy() + [5, 7])
    assert all(before[name] is p for name, p in net.named_parameters())


def test_gradients_for_each_sample():
    net, x, y = network(), Tensor(data(6, 3)), Tensor(np.arange(6) % 2)
    parameters = dict(net.named_parameters())

    def loss(parameters, x, y):
        return functional_call(net, parameters, (x[None],)).cross_entropy(y[None])

    each = dawdle.vmap(dawdle.grad(loss), (None, 0, 0))(parameters, x, y)
    net(x).cross_entropy(y).backward()
    for name, p in net.named_parameters():
        assert each[name].shape == (6, *p.shape)
        close(each[name].mean(0), p.grad.numpy())


def test_an_ensemble():
    nets = [network() for _ in range(3)]
    states = [n.state_dict() for n in nets]
    stacked = {name: Tensor.stack([s[name] for s in states]) for name in states[0]}
    x = Tensor(data(5, 3))
    out = dawdle.vmap(lambda p, x: functional_call(nets[0], p, x), (0, None))(stacked, x)
    close(out, np.stack([n(x).numpy() for n in nets]))


def test_buffers_and_keyword_arguments():
    norm, x = nn.BatchNorm1d(3), Tensor(data(5, 3))
    norm.eval()
    mean = Tensor([1.0, 2.0, 3.0])
    out = functional_call(norm, {"running_mean": mean}, (), {"x": x})
    close(out, (x.numpy() - [1, 2, 3]) / np.sqrt(1 + 1e-5))
    close(norm.running_mean, np.zeros(3))


def test_shared_parameters_are_replaced_everywhere():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    net, w, x = Tied(), data(3, 3), data(2, 3)
    close(functional_call(net, {"a.weight": Tensor(w)}, Tensor(x)), x @ w.T @ w.T)


def test_under_jit():
    net = network()
    parameters = {name: p.detach() for name, p in net.named_parameters()}
    step = dawdle.jit(lambda p, x: dawdle.grad(lambda p: functional_call(net, p, x).sum())(p))
    x = Tensor(data(5, 3))
    for scale in (1.0, 2.0):
        p = {name: t * scale for name, t in parameters.items()}
        want = dawdle.grad(lambda p: functional_call(net, p, x).sum())(p)
        for name, g in step(p, x).items():
            close(g, want[name].numpy())
    assert step.traces == 1


def test_errors():
    net, x = network(), Tensor(data(5, 3))
    with pytest.raises(StateError, match=r"has no parameters or buffers nothing; it has 0.weight"):
        functional_call(net, {"nothing": x}, x)
    with pytest.raises(StateError, match=r"0.weight has shape \(4, 3\), the tensor for it \(5, 3\)"):
        functional_call(net, {"0.weight": x}, x)
    with pytest.raises(dawdle.ShapeError):
        functional_call(net, {"0.bias": Tensor(data(4))}, Tensor(data(5, 7)))
    assert isinstance(net[0].bias, nn.Parameter)
