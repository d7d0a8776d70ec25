"""Optimizers against PyTorch, their state, and clipping."""

import math

import numpy as np
import pytest

import dawdle
from dawdle import Tensor, nn
from dawdle.errors import DawdleError, GradientError, StateError

START = [np.array([[0.5, -1.0], [2.0, 0.1]], np.float32), np.array([3.0], np.float32)]
OPTIMIZERS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.05}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.05}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    ("Adam", {"lr": 0.01}),
    ("Adam", {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.01}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.3}),
]


def make(name, start=START, **kwargs):
    params = [nn.Parameter(p) for p in start]
    return params, getattr(nn.optim, name)(params, **kwargs)


def loss_of(params, i):
    return ((params[0] * (i + 1.0)).square() * 0.5 + params[0]).sum() * params[1].sum()


def run(params, optimizer, steps, first=0):
    for i in range(first, first + steps):
        optimizer.zero_grad()
        loss_of(params, i % 3).backward()
        optimizer.step()


@pytest.mark.parametrize("name, kwargs", OPTIMIZERS, ids=lambda v: str(v))
def test_as_pytorch(name, kwargs):
    torch = pytest.importorskip("torch")
    params, optimizer = make(name, **kwargs)
    theirs = [torch.tensor(p, requires_grad=True) for p in START]
    reference = getattr(torch.optim, name)(theirs, **kwargs)
    for step in range(1, 8):
        run(params, optimizer, 1, first=step)
        run(theirs, reference, 1, first=step)
        for p, q in zip(params, theirs, strict=True):
            np.testing.assert_allclose(p.numpy(), q.detach().numpy(), rtol=2e-5, atol=1e-6)
        assert all(p.requires_grad for p in params)


@pytest.mark.parametrize("name, kwargs", OPTIMIZERS, ids=lambda v: str(v))
def test_state_restores_the_run(name, kwargs, tmp_path):
    params, optimizer = make(name, **kwargs)
    run(params, optimizer, 3)
    nn.save({"params": params, "optimizer": optimizer.state_dict()}, tmp_path / "x")
    run(params, optimizer, 3, first=3)
    saved = nn.load(tmp_path / "x")
    again, other = make(name, [p.numpy() for p in saved["params"]], **{**kwargs, "lr": 7.0})
    other.load_state_dict(saved["optimizer"])
    assert other.lr == kwargs["lr"]
    run(again, other, 3, first=3)
    for p, q in zip(params, again, strict=True):
        np.testing.assert_array_equal(p.numpy(), q.numpy())


def test_state_that_does_not_fit():
    params, optimizer = make("Adam")
    run(params, optimizer, 1)
    state = optimizer.state_dict()
    for start, message in [(START[:1], "groups"), ([START[1], START[0]], "shape")]:
        other = make("Adam", start)[1]
        with pytest.raises(StateError, match=message):
            other.load_state_dict(state)
        assert other.param_groups[0].scalars["step"].item() == 0
    with pytest.raises(StateError, match="Adam"):
        optimizer.load_state_dict(make("SGD")[1].state_dict())


def test_bias_correction_stays_exact():
    _, optimizer = make("Adam", [np.zeros(1, np.float32)])
    group = optimizer.param_groups[0]
    group.params[0].grad = Tensor([1.0])
    for step in range(1, 101):
        optimizer.step()
        if step in (1, 2, 10, 100):
            for name, beta in (("correction1", 0.9), ("correction2", 0.999)):
                assert group.scalars[name].item() == pytest.approx(1 - beta**step, rel=1e-6)
    assert group.scalars["step"].item() == 100


def test_learning_rate_can_be_set():
    params, optimizer = make("SGD", [np.zeros(1, np.float32)], lr=1.0)
    (p,), rate = params, Tensor(0.25)

    def moved(lr):
        optimizer.lr = lr
        before = p.item()
        p.grad = Tensor([1.0])
        optimizer.step()
        return before - p.item()

    assert moved(0.5) == 0.5 and optimizer.lr == 0.5
    assert moved(rate) == 0.25
    rate.assign(Tensor(2.0))
    assert moved(rate) == 2.0
    assert moved(0.125) == 0.125 and rate.item() == 2.0  # the user's tensor isn't written to


def test_schedule_step_only_rebinds():
    params, optimizer = make("Adam")
    loss = loss_of(params, 0)
    loss.backward()
    before = [p.numpy().copy() for p in params]
    changed = optimizer.schedule_step()
    assert {id(p) for p in params} <= {id(t) for t in changed}
    assert len(changed) == 3 + 3 * len(params)
    assert not any(t.lazy.is_realized for t in changed)
    loss.realize(*changed)
    assert all(t.lazy.is_realized for t in changed)
    assert all(np.any(p.numpy() != b) for p, b in zip(params, before, strict=True))


def test_parameters_without_gradient_stay():
    params, optimizer = make("AdamW", lr=0.1)
    params[0].sum().backward()
    optimizer.step()
    assert params[1].numpy() == START[1]
    assert np.all(params[0].numpy() != START[0])
    optimizer.zero_grad()
    before = params[0].numpy().copy()
    optimizer.step()
    np.testing.assert_array_equal(params[0].numpy(), before)
    assert optimizer.param_groups[0].scalars["step"].item() == 1


def test_plain_tensors_are_made_to_require_gradients_and_frozen_parameters_are_not():
    plain, frozen = Tensor([1.0]), nn.Parameter([1.0], requires_grad=False)
    optimizer = nn.optim.SGD([plain, frozen], lr=1.0)
    assert plain.requires_grad and not frozen.requires_grad
    (plain * frozen).sum().backward()
    optimizer.step()
    assert plain.item() == 0 and frozen.item() == 1


def test_groups_have_their_own_settings():
    a, b = nn.Parameter([1.0]), nn.Parameter([1.0])
    optimizer = nn.optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5, "momentum": 0.9}], lr=1.0)
    (a + b).sum().backward()
    optimizer.step()
    assert a.item() == 0 and b.item() == 0.5
    assert optimizer.param_groups[1]["momentum"] == 0.9 and "lr=0.5" in repr(optimizer)
    assert dict(optimizer.param_groups[1])["params"] == [b]
    with pytest.raises(DawdleError, match="no setting"):
        optimizer.param_groups[0]["betas"] = 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_state_has_the_parameters_dtype(dtype):
    p = nn.Parameter([1.0], dtype=dtype)
    optimizer = nn.optim.Adam([p], lr=0.5)
    (p * 3).sum().backward()
    optimizer.step()
    assert p.dtype.name == dtype and p.item() == pytest.approx(0.5, rel=1e-2)
    assert optimizer.param_groups[0].slots[0]["exp_avg"].dtype.name == dtype


@pytest.mark.parametrize(
    "params, kwargs, message",
    [
        ([], {}, "no parameters"),
        ([1.0], {}, "takes tensors"),
        ([Tensor([1.0])], {"lr": -1}, "lr"),
        ([Tensor([1.0])], {"betas": (1.0, 0.9)}, "betas"),
        ([Tensor([1.0])], {"eps": -1}, "eps"),
        ([{"params": [Tensor([1.0])], "momentum": 1}], {}, "momentum"),
    ],
)
def test_mistakes(params, kwargs, message):
    with pytest.raises(DawdleError, match=message):
        nn.optim.Adam(params, **kwargs)


def test_more_mistakes():
    p = Tensor([1.0])
    with pytest.raises(DawdleError, match="twice"):
        nn.optim.SGD([p, p])
    with pytest.raises(GradientError, match="int64"):
        nn.optim.SGD([Tensor([1])])
    with pytest.raises(DawdleError, match="nesterov"):
        nn.optim.SGD([p], nesterov=True)


def with_grads(*grads):
    params = [nn.Parameter(np.zeros_like(g)) for g in grads]
    for p, g in zip(params, grads, strict=True):
        p.grad = Tensor(g)
    return params


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("max_norm", [0.5, 100.0])
def test_clip_grad_norm(norm_type, max_norm):
    torch = pytest.importorskip("torch")
    grads = [np.array([[3.0, -4.0]], np.float32), np.array([1.0, 2.0, 2.0], np.float32)]
    params = with_grads(*grads)
    theirs = [torch.zeros(g.shape, requires_grad=True) for g in grads]
    for q, g in zip(theirs, grads, strict=True):
        q.grad = torch.tensor(g)
    total = nn.clip_grad_norm_(params, max_norm, norm_type)
    expected = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm_type)
    assert total.item() == pytest.approx(expected.item(), rel=1e-6)
    for p, q in zip(params, theirs, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-5)


def test_clip_other():
    (p,) = with_grads(np.array([-3.0, 0.5, 3.0], np.float32))
    nn.clip_grad_value_(p, 1.0)
    assert p.grad.tolist() == [-1, 0.5, 1]
    (q,) = with_grads(np.array([np.nan], np.float32))
    with pytest.raises(GradientError, match="nan"):
        nn.clip_grad_norm_(q, 1.0, error_if_nonfinite=True)
    assert nn.clip_grad_norm_([nn.Parameter([1.0])], 1.0).item() == 0


def test_jitted_steps_are_the_same_and_see_a_new_learning_rate():
    (a, plain), (b, jitted) = make("Adam", lr=0.1), make("Adam", lr=0.1)

    @dawdle.jit
    def step(x):
        jitted.zero_grad()
        loss = (loss_of(b, 0) * x).sum()
        loss.backward()
        return loss.realize(*jitted.schedule_step())

    for i in range(6):
        if i == 4:
            plain.lr = jitted.lr = 0.01
        x = Tensor([1.0 + i])
        plain.zero_grad()
        (loss_of(a, 0) * x).sum().backward()
        plain.step()
        step(x)
        for p, q in zip(a, b, strict=True):
            np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=1e-6)
