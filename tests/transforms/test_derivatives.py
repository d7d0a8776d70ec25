"""grad, value_and_grad, vjp, jvp, jacobian and hessian: against torch.func, differences, and each other."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
from drawn import close, data, tensor

import dawdle
from dawdle import Tensor
from dawdle.errors import GradientError, ShapeError

try:
    import torch
except ImportError:
    torch = None
needs_torch = pytest.mark.skipif(torch is None, reason="compared with PyTorch")

Pair = namedtuple("Pair", "left right")


@dataclass(frozen=True)
class Layer:
    weight: object
    bias: object


def same(got, wanted):
    """Nested tensors, ours and PyTorch's or ours."""
    mine, structure = dawdle.tree.flatten(got)
    theirs, other = dawdle.tree.flatten(wanted)
    assert str(structure) == str(other)
    for a, b in zip(mine, theirs, strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-9)


# functions of arrays that both libraries' tensors have
FUNCTIONS = {
    "elementwise": (lambda x, y: (x * y).tanh() + x.exp(), ((3, 4), (4,))),
    "matmul": (lambda x, y: (x @ y).sin(), ((3, 4), (4, 2))),
    "softmax": (lambda x, y: x.softmax(-1) * y, ((2, 3), (3,))),
    "reductions": (lambda x, y: (x.sum(0) * y.prod(), (x - y).amax()), ((3, 2), (2,))),
    "dict": (lambda x, y: {"a": x.cumsum(0), "b": [y * x[0], y.sum()]}, ((3, 2), (2,))),
    "indexing": (lambda x, y: x[[0, 2, 0]] * y[1:], ((3, 2), (3,))),
    "not of y": (lambda x, y: x * 2, ((3,), (2,))),
    "scalar": (lambda x, y: ((x * y) ** 3).sum(), ((3,), (3,))),
    "0-d": (lambda x, y: x.sin() * y, ((), ())),
    "where": (lambda x, y: dawdle_or_torch(x).where(x > 0, x * y, x.exp()), ((5,), (5,))),
}


def dawdle_or_torch(x):
    return dawdle if isinstance(x, Tensor) else torch


def both(name):
    function, shapes = FUNCTIONS[name]
    arrays = [data(*s, seed=i) for i, s in enumerate(shapes)]
    return function, [Tensor(a) for a in arrays], [torch.tensor(a) for a in arrays]


@needs_torch
@pytest.mark.parametrize("name", FUNCTIONS)
def test_vjp_as_in_torch(name):
    function, ours, theirs = both(name)
    out, pullback = dawdle.vjp(function, *ours)
    wanted, their_pullback = torch.func.vjp(function, *theirs)
    same(out, wanted)
    cotangents = dawdle.tree.transform(lambda t: data(*t.shape, seed=7), out)
    found = pullback(dawdle.tree.transform(Tensor, cotangents))
    same(found, their_pullback(dawdle.tree.transform(torch.tensor, cotangents)))


@needs_torch
@pytest.mark.parametrize("name", FUNCTIONS)
def test_jvp_as_in_torch(name):
    function, ours, theirs = both(name)
    tangents = [data(*x.shape, seed=5 + i) for i, x in enumerate(ours)]
    got = dawdle.jvp(function, tuple(ours), tuple(Tensor(t) for t in tangents))
    same(got, torch.func.jvp(function, tuple(theirs), tuple(torch.tensor(t) for t in tangents)))


@needs_torch
@pytest.mark.parametrize("mode", ["jacrev", "jacfwd"])
@pytest.mark.parametrize("argnums", [0, 1, (0, 1)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians_as_in_torch(name, argnums, mode):
    function, ours, theirs = both(name)
    wanted = getattr(torch.func, mode)(function, argnums)(*theirs)
    same(getattr(dawdle, mode)(function, argnums)(*ours), wanted)


@needs_torch
@pytest.mark.parametrize("argnums", [0, (0, 1)])
def test_hessians_as_in_torch(argnums):
    def function(x, y):
        return ((x @ y).tanh() * y).sum() + (x[0] * x[1]).prod()

    a, b = data(2, 2), data(2, 2, seed=1)
    want = torch.func.hessian(function, argnums)(torch.tensor(a), torch.tensor(b))
    same(dawdle.hessian(function, argnums)(Tensor(a), Tensor(b)), want)


def test_hessian_numerically():
    def function(x):
        return (x.softmax() * x.sin()).sum()

    x, step = data(3), 1e-5
    first = dawdle.grad(function)
    rows = [(first(Tensor(x + step * e)) - first(Tensor(x - step * e))) / (2 * step) for e in np.eye(3)]
    got = dawdle.hessian(function)(Tensor(x)).numpy()
    np.testing.assert_allclose(got, [r.numpy() for r in rows], rtol=1e-5, atol=1e-8)


def test_forward_mode_agrees_with_reverse_to_the_third_order():
    def function(x):
        return (x**3).sum() * x[0].exp()

    x = tensor(2)
    forward, reverse = (mode(mode(mode(function))) for mode in (dawdle.jacfwd, dawdle.jacrev))
    close(forward(x), reverse(x).numpy())
    mixed = dawdle.jacfwd(dawdle.jacrev(dawdle.grad(function)))
    close(mixed(x), reverse(x).numpy())


def test_nested_jvp():
    def function(x):
        return x.sin()

    one = Tensor(1.0, dtype="float64")
    x = Tensor(0.3, dtype="float64")

    def d1(f):
        return lambda x: dawdle.jvp(f, (x,), (one,))[1]

    close(d1(d1(d1(function)))(x), -np.cos(0.3))
    close(dawdle.grad(d1(function))(x), -np.sin(0.3))
    close(d1(dawdle.grad(function))(x), -np.sin(0.3))


# ---- nested arguments


def test_gradients_are_like_the_arguments():
    def function(model, pair, x):
        h = x
        for layer in model["layers"]:
            h = (h @ layer.weight + layer.bias).tanh()
        return (h * pair.left).sum() + pair.right[0].sum()

    model = {"layers": [Layer(tensor(2, 3), tensor(3)), Layer(tensor(3, 3, seed=1), tensor(3, seed=1))]}
    pair, x = Pair(tensor(3, seed=2), [tensor(4, seed=3)]), tensor(5, 2)
    value, (gm, gp) = dawdle.value_and_grad(function, (0, 1))(model, pair, x)
    assert isinstance(gm["layers"][1], Layer) and isinstance(gp, Pair)
    close(gp.right[0], np.ones(4))
    leaves, _ = dawdle.tree.flatten((model, pair))
    for t in leaves:
        t.requires_grad_()
    loss = function(model, pair, x)
    loss.backward()
    close(value, loss.item())
    for g, t in zip(dawdle.tree.flatten((gm, gp))[0], leaves, strict=True):
        close(g, t.grad.numpy())


def test_jacobian_of_nested_arguments_and_results():
    def function(p):
        return {"y": p["w"] @ p["x"], "s": p["x"].sum()}

    p = {"w": tensor(2, 3), "x": tensor(3)}
    for mode in (dawdle.jacrev, dawdle.jacfwd):
        jacobian = mode(function)(p)
        close(jacobian["y"]["x"], p["w"].numpy())
        assert jacobian["y"]["w"].shape == (2, 2, 3)
        close(jacobian["s"]["x"], np.ones(3))
        close(jacobian["s"]["w"], np.zeros((2, 3)))


def test_auxiliary_results():
    def function(x):
        y = x * x
        return y.sum(), {"y": y, "n": 3}

    x = tensor(3)
    gradient, aux = dawdle.grad(function, has_aux=True)(x)
    close(gradient, 2 * x.numpy())
    assert aux["n"] == 3 and not aux["y"].requires_grad
    (value, aux), _ = dawdle.value_and_grad(function, has_aux=True)(x)
    close(value, aux["y"].numpy().sum())
    *_, aux = dawdle.vjp(function, x, has_aux=True)
    close(aux["y"], x.numpy() ** 2)
    out, tangent, aux = dawdle.jvp(function, (x,), (x,), has_aux=True)
    close(tangent, 2 * out.item())
    jacobian, aux = dawdle.jacrev(lambda x: (x * x, x), has_aux=True)(x)
    close(jacobian, np.diag(2 * x.numpy()))
    jacobian, aux = dawdle.jacfwd(lambda x: (x * x, x), has_aux=True)(x)
    close(jacobian, np.diag(2 * x.numpy()))
    close(aux, x.numpy())
    with pytest.raises(GradientError, match="has_aux=True"):
        dawdle.grad(lambda x: x.sum(), has_aux=True)(x)


# ---- what else gradients flow to


def test_tensors_from_outside():
    w = Tensor([2.0, 3.0], requires_grad=True)
    x = Tensor([5.0, 7.0])
    inner = dawdle.grad(lambda x: (x * x * w).sum())(x)  # 2 x w
    inner.sum().backward()
    close(w.grad, [10, 14])
    value = dawdle.value_and_grad(lambda x: (x * w).sum())(x)[0]
    w.grad = None
    value.backward()
    close(w.grad, [5, 7])
    _, pullback = dawdle.vjp(lambda x: x * w, x)
    w.grad = None
    pullback(Tensor([1.0, 10.0]))[0].sum().backward()
    close(w.grad, [1, 10])
    w.grad = None
    dawdle.jvp(lambda x: x * x * w, (x,), (Tensor([1.0, 1.0]),))[1].sum().backward()
    close(w.grad, [10, 14])


def test_arguments_that_lead_elsewhere():
    w = Tensor([2.0, 3.0], requires_grad=True)
    gradient = dawdle.grad(lambda x: (x**3).sum())(w * w)  # 3 w^4
    gradient.sum().backward()
    close(w.grad, 12 * np.array([2.0, 3.0]) ** 3)
    assert w.requires_grad and w.is_leaf


def test_nothing_is_kept_where_nothing_is_wanted():
    x = Tensor([1.0, 2.0])
    value, gradient = dawdle.value_and_grad(lambda x: (x * x).sum())(x)
    assert not value.requires_grad and not gradient.requires_grad and not x.requires_grad
    w = Tensor([1.0, 2.0], requires_grad=True)
    with dawdle.no_grad():
        gradient = dawdle.grad(lambda x: (x * w).sum())(x)
        assert not dawdle.vjp(lambda x: x * w, x)[0].requires_grad
    close(gradient, [1, 2])
    assert not gradient.requires_grad
    (w * w).sum().backward()  # the graph outside is whole


def test_the_same_tensor_twice():
    x = Tensor([3.0])
    a, b = dawdle.grad(lambda a, b: (a * a * b).sum(), (0, 1))(x, x)
    close(a, [18])
    close(b, [9])
    close(dawdle.grad(lambda a: (a * x).sum())(x), [3])


def test_arguments_may_be_changed_in_place_inside():
    def function(x):
        x *= 2
        x[0] = 0.0
        return (x * x).sum()

    x = Tensor([1.0, 2.0])
    close(dawdle.grad(function)(x), [0, 16])
    close(x, [1, 2])


def test_detached_and_constant_results_have_no_gradient():
    x = tensor(3)
    close(dawdle.grad(lambda x: x.detach().sum())(x), np.zeros(3))
    close(dawdle.grad(lambda x: Tensor(1.0))(x), np.zeros(3))
    out, tangent = dawdle.jvp(lambda x: (x > 0).long(), (x,), (x,))
    assert tangent.dtype is out.dtype and not tangent.numpy().any()
    close(dawdle.jacrev(lambda x: x.detach() * 2)(x), np.zeros((3, 3)))


def test_empty_tensors():
    x = Tensor(np.zeros((0, 2)))
    assert dawdle.grad(lambda x: x.sum())(x).shape == (0, 2)
    assert dawdle.jacrev(lambda x: x.sum(0))(x).shape == (2, 0, 2)
    assert dawdle.jacfwd(lambda x: x.sum(0))(x).shape == (2, 0, 2)


def test_keyword_arguments_and_negative_numbers():
    def function(a, b, *, scale):
        return (a * b * scale).sum()

    a, b = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    close(dawdle.grad(function, -1)(a, b, scale=2.0), [2, 4])
    assert dawdle.grad(function).__name__ == "function"


# ---- errors


def test_errors_say_what_is_wrong():
    x, i = Tensor([1.0, 2.0]), Tensor([1, 2])
    with pytest.raises(GradientError, match=r"argument 0 of f must be a float tensor.*tensor of int64"):
        dawdle.grad(named_f)(i)
    with pytest.raises(GradientError, match=r"argument 0 of f .* holds a str"):
        dawdle.grad(named_f)({"a": x, "b": "text"})
    with pytest.raises(GradientError, match=r"got 1 positional arguments, argnums names 3"):
        dawdle.grad(named_f, 3)(x)
    with pytest.raises(GradientError, match=r"float scalar .* tensor of float32 and shape \(2,\); reduce it"):
        dawdle.grad(named_f)(x)
    with pytest.raises(GradientError, match=r"float scalar .* a float"):
        dawdle.grad(lambda x: 1.0)(x)
    with pytest.raises(GradientError, match="primal 1 of f"):
        dawdle.vjp(named_f, x, i)
    _, pullback = dawdle.vjp(named_f, x)
    with pytest.raises(ShapeError, match=r"cotangent must be a tensor of shape \(2,\), .* \(3,\)"):
        pullback(Tensor([1.0, 2.0, 3.0]))
    with pytest.raises(ShapeError, match=r"cotangent must be nested like \*"):
        pullback((x, x))
    with pytest.raises(ShapeError, match="jvp takes tuples"):
        dawdle.jvp(named_f, x, x)
    with pytest.raises(ShapeError, match=r"tangent must be nested like \(\*,\), not like \(\*, \*\)"):
        dawdle.jvp(named_f, (x,), (x, x))
    with pytest.raises(GradientError, match="must return tensors"):
        dawdle.vjp(lambda x: [x, 3], x)


def named_f(x):
    return x


named_f.__name__ = "f"
