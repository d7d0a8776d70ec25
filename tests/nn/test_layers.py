"""Layers and their functions against PyTorch: values and gradients."""

import numpy as np
import pytest

import dawdle
from dawdle import Tensor, nn, no_grad
from dawdle.errors import DawdleError, GradientError, ShapeError
from dawdle.nn import functional as F

torch = pytest.importorskip("torch")


def array(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def close(ours, theirs, tol=2e-5):
    assert ours.shape == tuple(theirs.shape)
    np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol=tol, atol=tol)


def compare_modules(ours, theirs, x, tol=2e-5):
    """The same weights and input: equal outputs, gradients, and buffers afterwards."""
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours_x, theirs_x = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    y, expected = ours(ours_x), theirs(theirs_x)
    cotangent = array(*expected.shape, seed=1)
    (y * Tensor(cotangent)).sum().backward()
    expected.backward(torch.tensor(cotangent))
    y.realize(ours_x.grad, *[p.grad for p in ours.parameters()])  # compiled together
    close(y, expected, tol)
    close(ours_x.grad, theirs_x.grad, tol)
    for (name, p), (other, q) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert name == other
        close(p.grad, q.grad, 5 * tol)
    for (_, b), (_, c) in zip(ours.named_buffers(), theirs.named_buffers(), strict=True):
        close(b, c, tol)


def randomised(module):
    """All parameters of a layer set to something else than ones and zeros."""
    with no_grad():
        for i, p in enumerate(module.parameters()):
            p.assign(array(*p.shape, seed=10 + i))
    return module


CASES = [
    ("Linear", (3, 4), {}, (5, 3)),
    ("Linear", (3, 4), {"bias": False}, (2, 5, 3)),
    ("Conv1d", (2, 3, 3), {"stride": 2, "padding": 1}, (2, 2, 9)),
    ("Conv2d", (2, 4, 3), {"padding": 1, "groups": 2}, (2, 2, 6, 5)),
    ("Conv2d", (2, 3, (3, 2)), {"stride": (2, 1), "dilation": (1, 2), "bias": False}, (1, 2, 7, 7)),
    ("Conv2d", (1, 2, 3), {"padding": "same"}, (1, 1, 5, 5)),
    ("Conv3d", (2, 2, 2), {"stride": (1, 2, 1)}, (1, 2, 4, 5, 3)),
    ("LayerNorm", (6,), {}, (4, 6)),
    ("LayerNorm", ((3, 4),), {"bias": False}, (2, 3, 4)),
    ("LayerNorm", (5,), {"elementwise_affine": False}, (2, 5)),
    ("RMSNorm", (6,), {}, (4, 6)),
    ("GroupNorm", (2, 4), {}, (3, 4, 5)),
    ("BatchNorm1d", (4,), {}, (6, 4)),
    ("BatchNorm1d", (4,), {"momentum": 0.3}, (6, 4, 3)),
    ("BatchNorm2d", (3,), {"eps": 1e-3}, (4, 3, 5, 2)),
    ("BatchNorm2d", (3,), {"affine": False}, (4, 3, 2, 2)),
    ("MaxPool2d", (2,), {}, (2, 3, 6, 4)),
    ("MaxPool2d", (3,), {"stride": 2, "padding": 1}, (2, 3, 7, 7)),
    ("AvgPool2d", (2,), {}, (2, 3, 6, 4)),
    ("AvgPool2d", ((3, 2),), {"stride": (2, 1), "padding": 1}, (2, 3, 7, 7)),
    ("Flatten", (), {}, (2, 3, 4)),
    ("Flatten", (0, 1), {}, (2, 3, 4)),
    ("Identity", (), {}, (2, 3)),
    *[
        (name, (), {}, (4, 7))
        for name in (
            "ReLU",
            "ReLU6",
            "LeakyReLU",
            "ELU",
            "SELU",
            "Sigmoid",
            "Tanh",
            "GELU",
            "SiLU",
            "Softplus",
            "Mish",
            "Hardswish",
            "Hardsigmoid",
            "Hardtanh",
            "Hardshrink",
            "Softshrink",
            "Tanhshrink",
            "Softsign",
            "LogSigmoid",
            "CELU",
        )
    ],
    ("GELU", (), {"approximate": "tanh"}, (4, 7)),
    ("Softplus", (), {"beta": 3.0, "threshold": 2.0}, (4, 7)),
    ("CELU", (1.4,), {}, (4, 7)),
    ("Hardtanh", (-0.3, 0.8), {}, (4, 7)),
    ("Threshold", (0.1, 20.0), {}, (4, 7)),
    ("RReLU", (0.25, 0.25), {}, (4, 7)),
    ("GLU", (), {}, (4, 6)),
    ("GLU", (0,), {}, (4, 3)),
    ("Softmin", (1,), {}, (2, 3)),
    ("PReLU", (), {}, (4, 7)),
    ("PReLU", (3,), {}, (2, 3, 4)),
    ("Softmax", (1,), {}, (2, 3, 4)),
    ("LogSoftmax", (-1,), {}, (2, 3)),
]


@pytest.mark.parametrize("name, args, kwargs, shape", CASES, ids=lambda v: str(v))
def test_layer(name, args, kwargs, shape):
    ours, theirs = getattr(nn, name)(*args, **kwargs), getattr(torch.nn, name)(*args, **kwargs)
    compare_modules(randomised(ours), theirs, 2 * array(*shape))


@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm_over_several_batches_then_evaluation(momentum):
    ours, theirs = nn.BatchNorm2d(3, momentum=momentum), torch.nn.BatchNorm2d(3, momentum=momentum)
    for i in range(3):
        x = array(4, 3, 2, 2, seed=i) * (i + 1) + i
        close(ours(Tensor(x)), theirs(torch.tensor(x)))
    assert ours.num_batches_tracked.item() == 3
    close(ours.running_mean, theirs.running_mean)
    close(ours.running_var, theirs.running_var)
    x = array(2, 3, 4, 4, seed=9)
    close(ours.eval()(Tensor(x)), theirs.eval()(torch.tensor(x)))
    assert ours.num_batches_tracked.item() == 3


def test_batch_norm_without_running_statistics():
    ours = nn.BatchNorm1d(3, track_running_stats=False).eval()
    theirs = torch.nn.BatchNorm1d(3, track_running_stats=False).eval()
    x = array(5, 3)
    close(ours(Tensor(x)), theirs(torch.tensor(x)))
    assert list(ours.state_dict()) == list(theirs.state_dict())


def test_batch_norm_refuses_single_values():
    with pytest.raises(ShapeError, match="one value"):
        nn.BatchNorm1d(3)(Tensor.zeros(1, 3))
    with pytest.raises(DawdleError, match="running_mean"):
        F.batch_norm(Tensor.zeros(2, 3), None, None)
    with pytest.raises(ShapeError, match="channels"):
        F.batch_norm(Tensor.zeros(2, 3), None, None, weight=Tensor.ones(2), training=True)


@pytest.mark.parametrize("padding", [None, 2, -1])
def test_embedding(padding):
    ours, theirs = nn.Embedding(5, 3, padding_idx=padding), torch.nn.Embedding(5, 3, padding_idx=padding)
    theirs.load_state_dict({"weight": torch.tensor(ours.weight.numpy())})
    index, cotangent = np.array([[0, 2, 2], [4, 1, 2]]), array(2, 3, 3)
    y, expected = ours(Tensor(index)), theirs(torch.tensor(index))
    close(y, expected)
    (y * Tensor(cotangent)).sum().backward()
    expected.backward(torch.tensor(cotangent))
    close(ours.weight.grad, theirs.weight.grad)
    weight = Tensor(ours.weight.numpy(), requires_grad=True)
    (F.embedding(Tensor(index), weight, padding) * Tensor(cotangent)).sum().backward()
    close(weight.grad, theirs.weight.grad)
    with pytest.raises(DawdleError, match="out of range"):
        nn.Embedding(5, 3, padding_idx=5)


def test_dropout():
    layer, x = nn.Dropout(0.25), Tensor.ones(100, 100)
    y = layer(x).numpy()
    assert set(np.unique(y)) == {0, np.float32(1 / 0.75)}
    assert (y == 0).mean() == pytest.approx(0.25, abs=0.02)
    assert not np.array_equal(layer(x).numpy(), y)
    assert layer.eval()(x).numpy().all()
    w = Tensor.ones(1000, requires_grad=True)
    z = F.dropout(w, 0.5)
    Tensor.realize(z)
    z.sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), z.numpy())  # the same elements
    assert not F.dropout(Tensor.ones(4), 1.0).numpy().any()
    with pytest.raises(DawdleError, match="p"):
        nn.Dropout(1.5)


INPLACE = [  # name, arguments of the module, and of the function behind them
    ("ReLU", "relu", (), ()),
    ("ReLU6", "relu6", (), ()),
    ("LeakyReLU", "leaky_relu", (0.2,), ()),
    ("ELU", "elu", (1.5,), ()),
    ("SELU", "selu", (), ()),
    ("CELU", "celu", (1.4,), ()),
    ("SiLU", "silu", (), ()),
    ("Mish", "mish", (), ()),
    ("Hardtanh", "hardtanh", (-0.3, 0.8), ()),
    ("Hardsigmoid", "hardsigmoid", (), ()),
    ("Hardswish", "hardswish", (), ()),
    ("Threshold", "threshold", (0.1, 20.0), ()),
    ("RReLU", "rrelu", (0.25, 0.25), (True,)),
    ("Dropout", "dropout", (1.0,), (True,)),
]


@pytest.mark.parametrize("name, function, args, training", INPLACE, ids=lambda v: str(v))
def test_inplace(name, function, args, training):
    a = array(4, 7)
    leaf, plain = torch.tensor(a, requires_grad=True), getattr(torch.nn, name)(*args)
    expected = plain(leaf * 2)
    expected.sum().backward()
    module = getattr(nn, name)(*args, inplace=True)
    forms = [
        module,
        lambda x: getattr(F, function)(x, *args, *training, True),
        lambda x: getattr(F, function)(x, *args, *training, inplace=True),
    ]
    for form in forms:
        x = Tensor(a, requires_grad=True)
        h = x * 2
        before = h + 0
        assert form(h) is h
        h.sum().backward()
        close(h, expected)
        close(x.grad, leaf.grad)
        np.testing.assert_array_equal(before.numpy(), a * 2)
        with pytest.raises(GradientError, match="leaf"):
            form(x)
    assert "inplace=True" in repr(module) and "inplace" not in repr(getattr(nn, name)(*args))
    h = Tensor(a)
    assert getattr(nn, name)(*args)(h) is not h and np.array_equal(h.numpy(), a)


def test_dropout_in_place_leaves_a_leaf_alone_outside_of_training():
    w = Tensor.ones(3, requires_grad=True)
    assert nn.Dropout(0.5, inplace=True).eval()(w) is w
    (w * 2).sum().backward()
    assert w.is_leaf and w.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_dtypes(dtype):
    layer = nn.Sequential(
        nn.Linear(3, 4, dtype=dtype), nn.LayerNorm(4, dtype=dtype), nn.BatchNorm1d(4, dtype=dtype)
    )
    y = layer(Tensor(array(5, 3), dtype=dtype))
    assert y.dtype.name == dtype
    assert layer[2].running_mean.dtype.name == dtype


def test_wrong_settings():
    with pytest.raises(ShapeError, match="groups"):
        nn.Conv2d(3, 4, 3, groups=2)
    with pytest.raises(ShapeError, match="one number or 2"):
        nn.Conv2d(3, 4, (3, 3, 3))
    with pytest.raises(ShapeError, match="groups"):
        nn.GroupNorm(3, 4)
    with pytest.raises(ShapeError, match="normalised shape"):
        nn.LayerNorm(4)(Tensor.zeros(2, 3))


def test_functional_pooling_takes_what_pytorch_takes():
    x = np.random.default_rng(0).standard_normal((2, 3, 7, 8)).astype(np.float32)
    ours, theirs = Tensor(x), torch.tensor(x)
    np.testing.assert_array_equal(
        F.max_pool2d(ours, 3, 2, 1, 2, True).numpy(),
        torch.nn.functional.max_pool2d(theirs, 3, 2, 1, 2, True).numpy(),
    )
    np.testing.assert_allclose(
        F.avg_pool2d(ours, 3, 2, 1, True, False).numpy(),
        torch.nn.functional.avg_pool2d(theirs, 3, 2, 1, True, False).numpy(),
        rtol=1e-5, atol=1e-6,
    )  # fmt: skip


def test_normalize_is_along_the_channels():
    x = array(2, 4, 3)
    close(F.normalize(Tensor(x)), torch.nn.functional.normalize(torch.tensor(x)))
    close(F.normalize(Tensor(x), 1.0, (0, 2)), torch.nn.functional.normalize(torch.tensor(x), 1.0, (0, 2)))


def test_dropout_of_channels_drops_whole_ones():
    dawdle.manual_seed(1)
    for call, shape in (
        (F.dropout1d, (200, 5)), (F.dropout2d, (8, 25, 2, 3)), (F.dropout3d, (4, 50, 2, 1, 2)),
    ):  # fmt: skip
        y = call(Tensor.ones(*shape), 0.25).numpy()
        flat = y.reshape(200, -1)
        assert (flat == flat[:, :1]).all() and set(np.unique(flat)) == {0, np.float32(1 / 0.75)}
        assert 20 < (flat[:, 0] == 0).sum() < 80
        x = Tensor.ones(*shape)
        assert (call(x, 0.25, training=False) == x).all().item()
        with pytest.raises(ShapeError, match="dimensions more"):
            call(Tensor.ones(3), 0.25)


def test_alpha_dropout_keeps_mean_and_variance():
    dawdle.manual_seed(1)
    x = Tensor.randn(4000)
    y = F.alpha_dropout(x, 0.3, training=True).numpy()
    assert abs(y.mean()) < 0.06 and abs(y.var() - 1) < 0.08
    assert 1000 < np.unique(y, return_counts=True)[1].max() < 1400
    assert (F.alpha_dropout(x, 0.3) == x).all().item() and not F.alpha_dropout(x, 1.0, True).any().item()


def test_gumbel_softmax_draws_classes():
    dawdle.manual_seed(1)
    logits = Tensor(np.log([[0.1, 0.6, 0.3]] * 2000), dtype="float32", requires_grad=True)
    soft = F.gumbel_softmax(logits, tau=0.5)
    np.testing.assert_allclose(soft.sum(-1).numpy(), 1, rtol=1e-5)
    hard = F.gumbel_softmax(logits, hard=True)
    assert set(np.unique(hard.numpy().round(5))) == {0, 1}
    np.testing.assert_allclose(hard.numpy().mean(0), [0.1, 0.6, 0.3], atol=0.05)
    (hard * Tensor([1.0, 2.0, 4.0])).sum().backward()
    assert np.abs(logits.grad.numpy()).max() > 0.1


def test_instance_norm_moves_its_statistics():
    a = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("f4")
    mine = Tensor.zeros(3), Tensor.ones(3)
    theirs = torch.zeros(3), torch.ones(3)
    for _ in range(2):
        F.instance_norm(Tensor(a), *mine, momentum=0.3)
        torch.nn.functional.instance_norm(torch.from_numpy(a), *theirs, momentum=0.3)
    for m, t in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(m.numpy(), t.numpy(), rtol=1e-5)
    got = F.instance_norm(Tensor(a), *mine, use_input_stats=False)
    want = torch.nn.functional.instance_norm(torch.from_numpy(a), *theirs, use_input_stats=False)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-6)
