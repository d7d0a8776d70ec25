"""vmap beyond single operations: dimensions, nesting, gradients, random numbers, jit, refusals."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest
from drawn import close, data, tensor

import dawdle
from dawdle import Tensor, nn, vmap
from dawdle.errors import JitError, ShapeError, TransformError
from dawdle.lazy import build
from dawdle.lazy.buffer import toposort
from dawdle.lazy.ops import Op

try:
    import torch
except ImportError:
    torch = None
needs_torch = pytest.mark.skipif(torch is None, reason="compared with PyTorch")

Pair = namedtuple("Pair", "left right")


# ---- dimensions and nesting


@needs_torch
@pytest.mark.parametrize("in_dims, out_dims", [
    (0, 0), ((0, 1), 0), ((1, 0), 1), ((-1, 0), -1), ((None, 2), -2), ((2, None), 0), (1, 1),
])  # fmt: skip
def test_dimensions_as_in_torch(in_dims, out_dims):
    def function(a, b):
        return (a @ b).sin() + a.sum() * 0.5

    x, y = data(3, 3, 3), data(3, 3, 3, seed=1)
    got = vmap(function, in_dims, out_dims)(Tensor(x), Tensor(y))
    close(got, torch.vmap(function, in_dims, out_dims)(torch.tensor(x), torch.tensor(y)))


def test_nested_arguments_and_results():
    def function(model, x, extra):
        h = x * model["scale"] + model["shift"][0]
        return {"h": h, "pair": Pair(h.sum(), (h * extra.left, extra.right))}

    model = {"scale": tensor(4), "shift": [tensor(3, 4)]}
    x, extra = tensor(4, 3, seed=1), Pair(tensor(4, seed=2), tensor(2, seed=3))
    out = vmap(
        function,
        in_dims=({"scale": None, "shift": [0]}, 1, Pair(None, None)),
        out_dims={"h": 1, "pair": Pair(0, (0, None))},
    )(model, x, extra)
    h = x.numpy().T * model["scale"].numpy() + model["shift"][0].numpy()
    close(out["h"], h.T)
    close(out["pair"].left, h.sum(1))
    close(out["pair"].right[0], h * extra.left.numpy())
    assert isinstance(out["pair"], Pair) and out["pair"].right[1].shape == (2,)


def test_nested_vmap():
    a, b = tensor(3, 5), tensor(4, 5, seed=1)
    pairs = vmap(vmap(lambda x, y: (x * y).sum(), (None, 0)), (0, None))(a, b)
    close(pairs, a.numpy() @ b.numpy().T)
    a, b = tensor(2, 3), tensor(4, 3, seed=1)
    deep = vmap(vmap(vmap(lambda x, y: x * y, (0, None)), (1, 0)), (None, 0))(a, b)
    close(deep, np.einsum("ij,kj->kji", a.numpy(), b.numpy()))


def test_integers_bools_and_other_dtypes():
    i, m = Tensor([[1, -2], [3, 4]]), Tensor([[True, False], [False, False]])
    out = vmap(lambda i, m: ((i << 1) // 3, ~m, m.any(), i.argmax(), i.half()))(i, m)
    assert [t.dtype.name for t in out] == ["int64", "bool", "bool", "int64", "float16"]
    close(out[0], (i.numpy() << 1) // 3)
    assert out[2].tolist() == [True, False] and out[3].tolist() == [0, 1]


def test_results_that_dont_depend_on_the_batch():
    x, c = tensor(3, 2), tensor(4, seed=1)
    same, kept, zero = vmap(lambda x: (c * 2, c, Tensor(0.0)), out_dims=(1, None, 0))(x)
    close(same, np.repeat(2 * c.numpy()[:, None], 3, 1))
    assert kept is c and zero.shape == (3,)
    argument, none = vmap(lambda x: (x, None))(x)
    close(argument, x.numpy())
    assert none is None


def test_empty_batches_and_batches_of_one():
    w = tensor(2, requires_grad=True)
    for n in (0, 1):
        x = tensor(n, 2, requires_grad=True)
        out = vmap(lambda x: (x * w).sum().exp())(x)
        assert out.shape == (n,)
        out.sum().backward()
        assert x.grad.shape == (n, 2)
        close(w.grad, (x.numpy() * np.exp(x.numpy() @ w.numpy())[:, None]).sum(0))
        w.grad = None


@pytest.mark.parametrize("chunk", [1, 2, 5, 100])
def test_chunks(chunk):
    x, w = tensor(5, 3, requires_grad=True), tensor(3, seed=1, requires_grad=True)
    out = vmap(lambda x: ((x * w).tanh(), w), out_dims=(1, None), chunk_size=chunk)(x)[0]
    close(out, np.tanh(x.numpy() * w.numpy()).T)
    out.sum().backward()
    whole = np.tanh(x.numpy() * w.numpy())
    close(x.grad, (1 - whole**2) * w.numpy())
    close(w.grad, ((1 - whole**2) * x.numpy()).sum(0))


def test_constants_and_keyword_arguments_are_shared():
    out = vmap(lambda x, n, *, k: x * n + k, in_dims=(0, None))(tensor(3), 2, k=tensor(2))
    close(out, data(3)[:, None] * 2 + data(2))


def test_host_functions_are_called_for_each_element():
    calls = []

    def host(x, y):
        calls.append(x.shape)
        return np.sort(x) + y

    def function(x, y):
        return x._new(build.custom(host, x.lazy, y.lazy, shape=x.shape, dtype=x.dtype))

    x, y = tensor(3, 4), tensor(4, seed=1)
    close(vmap(function, (0, None))(x, y), np.sort(x.numpy()) + y.numpy())
    assert calls == [(4,)] * 3
    nested = vmap(vmap(function, (0, None)), (None, 0))(x, tensor(2, 4, seed=2))
    close(nested, np.sort(x.numpy())[None] + data(2, 4, seed=2)[:, None])


# ---- gradients


def test_gradients_for_each_element_and_of_the_whole():
    def loss(w, b, x, y):
        return ((x @ w + b).tanh() - y).square().sum()

    w, b = tensor(3, 2, requires_grad=True), tensor(2, seed=1, requires_grad=True)
    x, y = tensor(5, 3, seed=2), tensor(5, 2, seed=3)
    each = vmap(dawdle.grad(loss, (0, 1)), (None, None, 0, 0))(w, b, x, y)
    for i in range(5):
        for whole, alone in zip(each, dawdle.grad(loss, (0, 1))(w, b, x[i], y[i]), strict=True):
            close(whole[i], alone.numpy())
    vmap(loss, (None, None, 0, 0))(w, b, x, y).sum().backward()
    close(w.grad, each[0].numpy().sum(0))
    close(b.grad, each[1].numpy().sum(0))


def test_transforms_nest_in_any_order():
    def f(x):
        return (x.sin() * x).sum()

    x = tensor(4, 3)
    hessians = np.stack([dawdle.hessian(f)(x[i]).numpy() for i in range(4)])
    close(vmap(dawdle.hessian(f))(x), hessians)
    close(vmap(dawdle.jacfwd(dawdle.grad(f)))(x), hessians)
    whole = dawdle.hessian(lambda x: vmap(f)(x).sum())(x).numpy()
    close(Tensor(np.stack([whole[i, :, i] for i in range(4)])), hessians)
    through = dawdle.grad(lambda x: vmap(dawdle.grad(f))(x).square().sum())(x)
    gradients = vmap(dawdle.grad(f))(x).numpy()
    close(through, 2 * np.einsum("bij,bj->bi", hessians, gradients))
    pushed = dawdle.jvp(vmap(dawdle.grad(f)), (x,), (x,))[1]
    close(pushed, np.einsum("bij,bj->bi", hessians, x.numpy()))
    outer = vmap(lambda v: vmap(lambda x: dawdle.jvp(f, (x,), (v,))[1])(x))(Tensor(np.eye(3)))
    close(outer, gradients.T)


def test_third_order_through_batches():
    def f(x):
        return (x**4).sum()

    def derived(f):
        return lambda x: vmap(dawdle.grad(f))(x[None]).sum()

    x = tensor(3)
    close(dawdle.grad(derived(derived(f)))(x), 24 * x.numpy())


def test_only_what_the_batch_reaches_is_inside():
    """Values without gradients that differ, beside tensors from outside that have them."""
    w = tensor(3, requires_grad=True)
    x = tensor(4, 3, seed=1)
    (vmap(lambda x: (x.detach() * w + w).sum())(x) * tensor(4, seed=2)).sum().backward()
    weights = data(4, seed=2)
    close(w.grad, (weights[:, None] * (x.numpy() + 1)).sum(0))
    h = w * w
    w.grad = None
    vmap(lambda x: (h.exp() * x).sum() + h.sum())(x).sum().backward()
    v = w.numpy()
    close(w.grad, 2 * v * (np.exp(v**2) * x.numpy().sum(0) + 4))


def test_no_grad_and_detach_inside():
    x = tensor(3, 2, requires_grad=True)

    def function(x):
        with dawdle.no_grad():
            scale = x.sum()
        return x * scale + x.detach()

    out = vmap(function)(x)
    out.sum().backward()
    close(x.grad, np.repeat(x.numpy().sum(1, keepdims=True), 2, 1))
    assert not vmap(lambda x: x.detach() * 2)(x).requires_grad
    with dawdle.no_grad():
        assert not vmap(lambda x: x * 2)(x).requires_grad


def test_gradients_with_respect_to_tensors_that_did_not_ask():
    x, c = tensor(3, 2), tensor(2, seed=1)
    out = vmap(lambda x: x * c * c)(x)
    gx, gc = out.gradient(x, c, gradient=out.ones_like())
    close(gx, np.repeat(c.numpy()[None] ** 2, 3, 0))
    close(gc, 2 * c.numpy() * x.numpy().sum(0))


def test_a_graph_is_freed_by_backward_and_kept_if_asked():
    x = tensor(3, requires_grad=True)
    y = vmap(lambda x: x * x * x)(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    close(x.grad, 6 * x.numpy() ** 2)
    with pytest.raises(dawdle.GradientError, match="retain_graph"):
        y.backward()


def test_gradient_of_a_shared_product_is_one_product():
    """Not a batch of products, which would be summed: that would take a batch of times the memory."""
    w = tensor(20, 30, requires_grad=True)
    vmap(lambda x: (x @ w).sin().sum())(tensor(50, 20)).sum().backward()
    sizes = [node.size for node in toposort([w.grad.lazy]) if node.op is Op.SUM]
    assert max(sizes) <= 50 * 30


def test_an_embedding_shared_by_all_costs_what_it_reads():
    table, index = tensor(1000, 4, requires_grad=True), Tensor(np.arange(12).reshape(3, 4) * 7)
    out = vmap(lambda i: table[i].sum(0))(index)
    gathers = [n for n in toposort([out.lazy]) if n.op is Op.GATHER]
    assert [n.src[0].size for n in gathers] == [4000]
    close(out, table.numpy()[index.numpy()].sum(1))
    out.sum().backward()
    want = np.zeros((1000, 4))
    want[index.numpy().ravel()] = 1
    close(table.grad, want)


# ---- random numbers


def test_randomness():
    x = Tensor(np.zeros((1000, 3)))
    with pytest.raises(TransformError, match="randomness='different'"):
        vmap(lambda x: x + Tensor.rand(3))(x)
    dawdle.manual_seed(0)
    same = vmap(lambda x: x + Tensor.rand(3), randomness="same")(x).numpy()
    assert (same == same[0]).all()
    dawdle.manual_seed(0)
    assert (Tensor.rand(3).numpy() == same[0]).all()
    dawdle.manual_seed(0)
    other = vmap(lambda x: x + Tensor.rand(3), randomness="different")(x).numpy()
    assert len(np.unique(other)) > 2990 and abs(other.mean() - 0.5) < 0.02
    again = vmap(lambda x: x + Tensor.rand(3), randomness="different")(x).numpy()
    assert not np.intersect1d(other, again).size > 5  # the stream has moved on by all of them


def test_different_numbers_are_those_of_one_long_draw():
    dawdle.manual_seed(3)
    whole = Tensor.rand(2 * 4 * 3).numpy().reshape(2, 4, 3)
    after = Tensor.rand(2).numpy()
    dawdle.manual_seed(3)
    x = Tensor(np.zeros((2, 4)))
    draw = vmap(vmap(lambda x: x.float() + Tensor.rand(3), randomness="different"), randomness="different")
    assert (draw(x).numpy() == whole).all()
    assert (Tensor.rand(2).numpy() == after).all()


def test_dropout_for_each_element():
    x = Tensor(np.ones((500, 8)))
    with Tensor.train():
        out = vmap(lambda x: x.dropout(0.5), randomness="different")(x).numpy()
        shared = vmap(lambda x: x.dropout(0.5), randomness="same")(x).numpy()
    assert set(np.unique(out)) == {0.0, 2.0} and len(np.unique(out, axis=0)) > 100
    assert len(np.unique(shared, axis=0)) == 1
    assert (vmap(lambda x: x.dropout(0.5))(x).numpy() == 1).all()  # not training: nothing is drawn


# ---- modules and jit


def test_modules_with_a_batch_of_inputs_of_any_shape():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 1))
    x = Tensor(data(6, 3).astype("f"))
    close(vmap(net)(x), net(x).numpy(), rtol=1e-5, atol=1e-6)
    vmap(net)(x).sum().backward()
    mapped = [p.grad.numpy() for p in net.parameters()]
    net.zero_grad()
    net(x).sum().backward()
    for got, p in zip(mapped, net.parameters(), strict=True):
        np.testing.assert_allclose(got, p.grad.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", ["NUMPY", "CPU"])
def test_under_jit_and_of_jitted_functions(device):
    with dawdle.config.override(device=device):
        w = Tensor([1.0, 2.0], requires_grad=True)
        step = dawdle.jit(lambda x: vmap(dawdle.grad(lambda r: (r * r * w).sum()))(x))
        for seed in range(3):
            x = Tensor(data(3, 2, seed=seed).astype("f"))
            close(step(x), 2 * x.numpy() * [1, 2], rtol=1e-5)
        with dawdle.no_grad():
            w.assign([5.0, 5.0])
        close(step(x), 10 * x.numpy(), rtol=1e-5)
        assert step.traces == 1
        inner = dawdle.jit(lambda r: r.sum() * 2)
        close(vmap(inner)(x), 2 * x.numpy().sum(1), rtol=1e-5)
        draws = dawdle.jit(lambda x: vmap(lambda r: r + Tensor.rand(2), randomness="different")(x))
        assert not (draws(x).numpy() == draws(x).numpy()).any()


def test_reading_values_under_jit_is_refused():
    with pytest.raises(JitError, match="value was asked for"):
        dawdle.jit(lambda x: vmap(lambda r: r if r.sum() > 0 else -r)(x))(tensor(3, 2))


def test_compiled_batches():
    with dawdle.config.override(device="CPU"):
        x, w = Tensor(data(4, 5, 3).astype("f")), Tensor(data(3, 2).astype("f"), requires_grad=True)
        index = Tensor(np.array([[0, 4], [1, 1], [3, 2], [2, 0]]))
        out = vmap(lambda x, i: (x @ w).softmax(-1)[i].cumsum(0))(x, index)
        out.square().sum().backward()
        got, gradient = out.numpy(), w.grad.numpy()
    x, w = Tensor(x.numpy()), Tensor(w.numpy(), requires_grad=True)
    rows = [(x[i] @ w).softmax(-1)[Tensor(index.numpy()[i])].cumsum(0) for i in range(4)]
    np.testing.assert_allclose(got, np.stack([r.numpy() for r in rows]), rtol=1e-4, atol=1e-5)
    sum(r.square().sum() for r in rows).backward()
    np.testing.assert_allclose(gradient, w.grad.numpy(), rtol=1e-3, atol=1e-4)


# ---- what can't be mapped


READS = "the value of a tensor was asked for inside of vmap.*where"


@pytest.mark.parametrize("function", [
    lambda x: x if x.sum() > 0 else -x, lambda x: x.sum().item(), lambda x: x.numpy(), lambda x: x[x > 0],
    lambda x: x.tolist(), lambda x: [float(v) for v in x], lambda x: Tensor.zeros(int(x[0])), repr,
    lambda x: x.nonzero(),
])  # fmt: skip
@pytest.mark.parametrize("device", ["NUMPY", "CPU"])
def test_values_cant_be_read(function, device):
    with dawdle.config.override(device=device), pytest.raises(TransformError, match=READS):
        vmap(function)(tensor(3, 2))


def test_values_from_outside_can_be_read():
    c = tensor(2)
    out = vmap(lambda x: x * c.sum().item() if c[0] > -100 else x)(tensor(3))
    close(out, data(3) * data(2).sum())


def test_tensors_that_escape_have_no_value():
    kept = []
    vmap(lambda x: kept.append(x) or x)(tensor(3))
    with pytest.raises(TransformError, match="or it was kept after that"):
        kept[0].numpy()


def test_tensors_from_outside_cant_hold_a_batch():
    total = Tensor([0.0, 0.0], dtype="float64")

    def accumulate(x):
        total.assign(total + x)
        return x

    with pytest.raises(TransformError, match=r"made to hold a value of shape \(2,\).*return it instead"):
        vmap(accumulate)(tensor(3, 2))
    close(total, [0, 0])
    w = tensor(2, requires_grad=True)
    with pytest.raises(TransformError, match=r"backward\(\)"):
        vmap(lambda x: (x * w).sum().backward())(tensor(3, 2))
    assert w.grad is None
    count = Tensor([0])

    def counted(x):
        count.assign(count + 1)
        return x

    vmap(counted)(tensor(3))
    assert count.tolist() == [1]


def test_an_error_inside_leaves_no_mark():
    count, w = Tensor([0]), tensor(2, requires_grad=True)
    dawdle.manual_seed(1)

    def function(x):
        count.assign(count + x.long())
        (x * w).sum().backward()
        Tensor.rand(3)
        raise KeyError("on purpose")

    with pytest.raises(KeyError, match="on purpose"):
        vmap(function, randomness="different")(tensor(3))
    assert count.tolist() == [0] and w.grad is None
    drawn = Tensor.rand(3).numpy()
    dawdle.manual_seed(1)
    assert (Tensor.rand(3).numpy() == drawn).all()


def test_local_tensors_may_be_assigned():
    def function(x):
        out = Tensor.zeros(3, dtype="float64")
        for i in range(3):
            out[i] = x[i] * i
        x += 1
        return out + x

    x = tensor(2, 3)
    close(vmap(function)(x), x.numpy() * [1, 2, 3] + 1)
    close(x, data(2, 3))


def test_errors_say_what_is_wrong():
    x, y = tensor(3, 2), tensor(4, 2)
    with pytest.raises(ShapeError, match=r"different sizes .* 3 \(dimension 0 of \(3, 2\)\), 4 \("):
        vmap(lambda a, b: a)(x, y)
    with pytest.raises(TransformError, match=r"an argument is a float.*in_dims with None"):
        vmap(lambda a, b: a)(x, 2.0)
    with pytest.raises(TransformError, match="no argument is mapped over"):
        vmap(lambda a: a, in_dims=None)(x)
    with pytest.raises(ShapeError, match=r"in_dims \(0, 0\) doesn't fit the nesting \(\*,\)"):
        vmap(lambda a: a, in_dims=(0, 0))(x)
    with pytest.raises(ShapeError, match="dim 2 is out of range"):
        vmap(lambda a: a, in_dims=2)(x)
    with pytest.raises(ShapeError, match="no dimensions"):
        vmap(lambda a: a)(Tensor(1.0))
    with pytest.raises(TransformError, match="must return tensors, and returned a float"):
        vmap(lambda a: 1.0)(x)
    with pytest.raises(TransformError, match="out_dims is None for a result that differs"):
        vmap(lambda a: a, out_dims=None)(x)
    with pytest.raises(ShapeError, match="dim 5 is out of range"):
        vmap(lambda a: a, out_dims=5)(x)
    with pytest.raises(TransformError, match="randomness must be one of"):
        vmap(lambda a: a, randomness="some")
    with pytest.raises(ShapeError, match="chunk_size must be at least 1"):
        vmap(lambda a: a, chunk_size=0)
    with pytest.raises(ShapeError, match=r"matmul|product"):
        vmap(lambda a: a @ tensor(5, 5))(x)
