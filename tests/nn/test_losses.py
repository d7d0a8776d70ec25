"""Losses against PyTorch: values and gradients for every reduction."""

import itertools

import numpy as np
import pytest

from dawdle import Tensor, nn
from dawdle.errors import DawdleError, DTypeError, ShapeError
from dawdle.nn import functional as F

torch = pytest.importorskip("torch")
REDUCTIONS = ["mean", "sum", "none"]


def array(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def both(name, x, target, **kwargs):
    """Pairs of our tensors, not yet computed, and PyTorch's: the loss, and the gradient of its sum."""
    ours = {k: Tensor(v) if isinstance(v, np.ndarray) else v for k, v in kwargs.items()}
    theirs = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in kwargs.items()}
    a, b = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    loss = getattr(F, name)(a, Tensor(target), **ours)
    expected = getattr(torch.nn.functional, name)(b, torch.tensor(target), **theirs)
    loss.sum().backward()
    expected.sum().backward()
    return [(loss, expected.detach()), (a.grad, b.grad)]


def check(pairs):
    Tensor.realize(*[ours for ours, _ in pairs])  # compiled together
    for number, (ours, theirs) in enumerate(pairs):
        assert ours.shape == tuple(theirs.shape)
        words = f"pair {number} of {len(pairs)}"
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-5, err_msg=words)


def compare(name, x, target, **kwargs):
    check(both(name, x, target, **kwargs))


@pytest.mark.parametrize("shape, target", [((5, 4), (5,)), ((4,), ()), ((2, 4, 3, 2), (2, 3, 2))])
def test_cross_entropy_of_indices(shape, target):
    labels = np.random.default_rng(1).integers(0, 4, target)
    if labels.ndim:
        labels.flat[0] = -100
    weights = [{}, {"weight": np.array([1.0, 2.0, 0.5, 3.0], np.float32)}]
    pairs = []
    for reduction, smoothing, weight in itertools.product(REDUCTIONS, [0.0, 0.1], weights):
        settings = {"reduction": reduction, "label_smoothing": smoothing, **weight}
        pairs += both("cross_entropy", 3 * array(*shape), labels, **settings)
    check(pairs)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy_of_probabilities(smoothing, reduction):
    target = np.abs(array(5, 4, 2, seed=1))
    target /= target.sum(1, keepdims=True)
    weight = np.array([1.0, 2.0, 0.5, 3.0], np.float32)
    for kwargs in ({}, {"weight": weight}):
        compare(
            "cross_entropy", array(5, 4, 2), target, reduction=reduction, label_smoothing=smoothing, **kwargs
        )


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nll_loss(reduction):
    labels = np.array([0, 3, 3, 1, 2])
    compare("nll_loss", array(5, 4), labels, reduction=reduction, ignore_index=3)
    compare("nll_loss", array(5, 4), labels, reduction=reduction, weight=np.array([1, 2, 3, 4], np.float32))


def test_large_logits_are_safe():
    x = np.array([[1000.0, -1000.0], [-1000.0, 1000.0]], np.float32)
    compare("cross_entropy", x, np.array([0, 0]))
    compare("binary_cross_entropy_with_logits", x, np.array([[1.0, 0.0], [1.0, 0.0]], np.float32))


def test_nothing_to_count_gives_nan_as_in_pytorch():
    assert np.isnan(F.cross_entropy(Tensor(array(2, 3)), Tensor([-100, -100])).item())


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    "name, kwargs",
    [
        ("mse_loss", {}),
        ("l1_loss", {}),
        ("huber_loss", {"delta": 0.7}),
        ("smooth_l1_loss", {"beta": 0.7}),
        ("smooth_l1_loss", {"beta": 0.0}),
        ("binary_cross_entropy_with_logits", {}),
        (
            "binary_cross_entropy_with_logits",
            {"pos_weight": np.float32([0.5, 1, 2]), "weight": np.float32([1, 2, 3])},
        ),
    ],
)
def test_elementwise_losses(name, kwargs, reduction):
    compare(
        name, 2 * array(6, 3), (array(6, 3, seed=1) > 0).astype(np.float32), reduction=reduction, **kwargs
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_cross_entropy(reduction):
    x = np.array([0.0, 1e-30, 0.3, 0.999, 1.0, 0.5], np.float32)
    target = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.25], np.float32)
    loss = F.binary_cross_entropy(Tensor(x), Tensor(target), reduction=reduction)
    expected = torch.nn.functional.binary_cross_entropy(
        torch.tensor(x), torch.tensor(target), reduction=reduction
    )
    np.testing.assert_allclose(loss.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    inside = slice(2, 4)
    compare("binary_cross_entropy", x[inside], target[inside], reduction=reduction, weight=np.float32([2, 3]))
    wrong = np.float32([0, 1e-30, 1])  # slopes stay finite
    compare("binary_cross_entropy", wrong, np.float32([1, 1, 0]), reduction=reduction)


@pytest.mark.filterwarnings("ignore:reduction")  # PyTorch's own warning about "mean"
@pytest.mark.parametrize("reduction", [*REDUCTIONS, "batchmean"])
@pytest.mark.parametrize("log_target", [False, True])
def test_kl_div(log_target, reduction):
    target = np.abs(array(4, 3, seed=1))
    if log_target:
        target = np.log(target)
    else:
        target[0, 0] = 0
    compare("kl_div", array(4, 3), target, reduction=reduction, log_target=log_target)
    compare("kl_div", array(), target[1, 1], reduction=reduction, log_target=log_target)


def test_modules_pass_their_settings_on():
    x, labels = array(5, 4), np.array([0, 1, 2, 3, 0])
    weight = np.array([1, 2, 3, 4], np.float32)
    ours = nn.CrossEntropyLoss(Tensor(weight), ignore_index=2, reduction="sum", label_smoothing=0.1)
    theirs = torch.nn.CrossEntropyLoss(
        torch.tensor(weight), ignore_index=2, reduction="sum", label_smoothing=0.1
    )
    expected = theirs(torch.tensor(x), torch.tensor(labels)).item()
    assert ours(Tensor(x), Tensor(labels)).item() == pytest.approx(expected, rel=1e-5)
    assert list(ours.state_dict()) == ["weight"]
    target = np.abs(array(5, 4, seed=2))
    for name, kwargs in [
        ("MSELoss", {"reduction": "sum"}),
        ("L1Loss", {"reduction": "none"}),
        ("HuberLoss", {"delta": 0.5}),
        ("SmoothL1Loss", {"beta": 0.5}),
        ("BCEWithLogitsLoss", {}),
        ("KLDivLoss", {"reduction": "batchmean"}),
    ]:
        value = getattr(nn, name)(**kwargs)(Tensor(x), Tensor(target)).numpy()
        expected = getattr(torch.nn, name)(**kwargs)(torch.tensor(x), torch.tensor(target)).numpy()
        np.testing.assert_allclose(value, expected, rtol=1e-5)
    p = 1 / (1 + np.exp(-x))
    assert nn.BCELoss()(Tensor(p), Tensor(p)).item() == pytest.approx(
        torch.nn.BCELoss()(torch.tensor(p), torch.tensor(p)).item(), rel=1e-5
    )
    assert nn.NLLLoss()(Tensor(x), Tensor(labels)).item() == pytest.approx(
        torch.nn.NLLLoss()(torch.tensor(x), torch.tensor(labels)).item(), rel=1e-5
    )


def test_mistakes():
    x = Tensor(array(5, 4))
    with pytest.raises(ShapeError, match=r"\(5,\)"):
        F.cross_entropy(x, Tensor([1, 2]))
    with pytest.raises(DTypeError, match="integers"):
        F.cross_entropy(x, Tensor([1.0, 2.0, 3.0, 0.0, 0.0]))
    with pytest.raises(ShapeError, match="reshape"):
        F.mse_loss(x, Tensor(array(5, 1)))
    with pytest.raises(DawdleError, match="reduction"):
        F.mse_loss(x, x, reduction="average")
    with pytest.raises(DawdleError, match="reduction"):
        nn.MSELoss(reduction="average")
    with pytest.raises(DawdleError, match="label_smoothing"):
        F.cross_entropy(x, Tensor([0] * 5), label_smoothing=2)
    with pytest.raises(DawdleError, match="delta"):
        F.huber_loss(x, x, delta=0)
    with pytest.raises(ShapeError, match="scalar"):
        F.cross_entropy(Tensor(1.0), Tensor(0))
