"""Layers whose state changes, inside of jitted functions: each call must go on where the last one ended."""
import numpy as np

import dawdle
from dawdle import Tensor, nn
from dawdle.nn import functional as F


def test_dropout_draws_anew_and_heeds_the_mode():
    layer = nn.Dropout(0.5)

    @dawdle.jit
    def apply(x):
        return layer(x)

    x = Tensor(np.ones(200, np.float32))
    first, second = apply(x).numpy().copy(), apply(x).numpy().copy()
    assert set(np.unique(first)) == set(np.unique(second)) == {0, 2}
    assert not np.array_equal(first, second)
    layer.eval()
    assert apply(x).numpy().all()
    layer.train()
    assert not apply(x).numpy().all()


def test_the_mode_of_modules_that_the_function_reaches_on_its_way():
    class Trainer:
        def __init__(self):
            self.layers = [nn.Sequential(nn.Dropout(0.5), nn.Identity())]

        @dawdle.jit
        def step(self, x):
            return self.layers[0](x)

    trainer, x = Trainer(), Tensor(np.ones(200, np.float32))
    assert not trainer.step(x).numpy().all()
    trainer.layers[0][0].eval()  # one layer alone
    assert trainer.step(x).numpy().all()
    trainer.layers[0].train()
    assert not trainer.step(x).numpy().all()
    assert trainer.step.traces == 2


def test_a_mode_that_the_function_sets_itself_is_no_condition():
    layer = nn.Dropout(0.5)

    @dawdle.jit
    def evaluate(x):
        layer.eval()
        try:
            return layer(x)
        finally:
            layer.train()

    x = Tensor(np.ones(50, np.float32))
    assert all(evaluate(x).numpy().all() for _ in range(3)) and layer.training
    assert evaluate.traces == 1


def test_a_target_network_keeps_its_weights():
    model, target = nn.Linear(2, 1), nn.Linear(2, 1)
    target.load_state_dict(model.state_dict())
    optimizer = nn.optim.SGD(model.parameters(), lr=0.1)

    @dawdle.jit
    def step(x):
        optimizer.zero_grad()
        wanted = target(x).detach() + 1
        F.mse_loss(model(x), wanted).backward()
        optimizer.step()
        return wanted

    x = Tensor(np.ones((1, 2), np.float32))
    first = target(x).item() + 1
    np.testing.assert_allclose([step(x).item() for _ in range(3)], first, rtol=1e-6)
    assert model(x).item() != target(x).item()


def test_running_statistics_advance():
    plain, jitted = nn.BatchNorm1d(3), nn.BatchNorm1d(3)

    @dawdle.jit
    def apply(x):
        return jitted(x)

    for i in range(4):
        x = Tensor(np.random.default_rng(i).standard_normal((8, 3)).astype(np.float32))
        np.testing.assert_allclose(apply(x).numpy(), plain(x).numpy(), rtol=1e-5, atol=1e-6)
    assert jitted.num_batches_tracked.item() == 4
    for (_, a), (_, b) in zip(plain.named_buffers(), jitted.named_buffers(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)


def test_a_whole_step_with_dropout_and_clipping():
    def build():
        dawdle.manual_seed(3)
        model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))
        return model, nn.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)

    def make_step(model, optimizer):
        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            norm = nn.clip_grad_norm_(model.parameters(), 0.1)
            return loss.realize(norm, *optimizer.schedule_step()), norm

        return step

    x = Tensor(np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32))
    y = Tensor(np.arange(5) % 2)
    runs = []
    for wrap in (lambda f: f, dawdle.jit):
        model, optimizer = build()
        step = wrap(make_step(model, optimizer))
        runs.append([[t.item() for t in step(x, y)] for _ in range(4)])
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-4)
