"""What docs/devices.md promises about results on different devices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from devices import WORKING

import dawdle
from dawdle import Tensor, config

OTHERS = [name for name in WORKING if name != "NUMPY"]
RNG = np.random.default_rng(0)
INTS = RNG.integers(-(2**31), 2**31, (2, 200)).astype(np.int32)
FLOATS = RNG.standard_normal((2, 500)).astype(np.float32) * np.float32(1e3)

INTEGER = (
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: a // (b % 7),
    lambda a, b: a % (b % 5),
    lambda a, b: a & b,
    lambda a, b: a ^ b,
    lambda a, b: a < b,
    lambda a, b: a << (b % 40),
)
ROUNDED = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a / b,
    lambda a, b: b.abs().sqrt(),
)


def moved() -> list[Tensor]:
    x = Tensor(FLOATS)
    return [x.T.flip(0)[::3], x[:, Tensor([5, 3, -1])], Tensor(INTS).cast("int8")]


def selected() -> list[Tensor]:
    x = Tensor(FLOATS)
    return [*x.max(1), x.amin(1), x.relu(), x.abs(), x.argmax(1)]


EXACT: dict[str, Callable[[], list[Tensor]]] = {
    "integers": lambda: [op(*map(Tensor, INTS)) for op in INTEGER],
    "movement": moved,
    "selection": selected,
    "rounded once": lambda: [op(*map(Tensor, FLOATS)) for op in ROUNDED],
    "random bits": lambda: [
        seeded(lambda: Tensor.randint(0, 1 << 30, (50,))),
        seeded(lambda: Tensor.rand(50)),
    ],
}
CLOSE: dict[str, Callable[[], list[Tensor]]] = {
    "functions": lambda: [Tensor(FLOATS / 1e3).exp(), Tensor(FLOATS).abs().log(), Tensor(FLOATS).sin()],
    "sums": lambda: [Tensor(abs(FLOATS)).sum(1), Tensor(abs(FLOATS)).mean()],
    "normal numbers": lambda: [seeded(lambda: Tensor.randn(50))],
}


def seeded(draw: Callable[[], Tensor]) -> Tensor:
    dawdle.manual_seed(3)
    return draw()


def results(make: Callable[[], list[Tensor]], device: str) -> list[np.ndarray]:
    with config.override(device=device):
        tensors = make()
        Tensor.realize(*tensors)
        return [t.numpy() for t in tensors]


@pytest.mark.parametrize("device", OTHERS)
@pytest.mark.parametrize("group", EXACT)
def test_bit_exact(group: str, device: str) -> None:
    for got, want in zip(results(EXACT[group], device), results(EXACT[group], "NUMPY"), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("device", OTHERS)
@pytest.mark.parametrize("group", CLOSE)
def test_close(group: str, device: str) -> None:
    for got, want in zip(results(CLOSE[group], device), results(CLOSE[group], "NUMPY"), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=2e-6)


@pytest.mark.skipif("CPU" not in WORKING, reason="no C compiler")
def test_expressions_are_bit_exact_on_the_cpu() -> None:
    """No product is rounded together with what is added to it: computed twice, a value equals itself."""

    def chain(x: Tensor) -> Tensor:
        a, b = x[0], x[1]
        return (a * b + b * 0.3 - a * (a - b)) * a - b * b

    def both() -> list[Tensor]:
        return [chain(Tensor(FLOATS)), chain(Tensor(FLOATS.astype(np.float64)))]

    for got, want in zip(results(both, "CPU"), results(both, "NUMPY"), strict=True):
        np.testing.assert_array_equal(got, want)
    with config.override(device="CPU"):
        x = (Tensor(FLOATS) * 0.3 - Tensor(FLOATS).T.reshape(2, 500) * Tensor(FLOATS[::-1].copy())) * 1.7
        top = x.amax(1, keepdim=True).realize()  # x itself isn't stored
        np.testing.assert_array_equal(x.eq(top).sum(1).numpy(), [1, 1])
        assert (top - x).sqrt().isnan().sum().item() == 0


@pytest.mark.skipif("CPU" not in WORKING, reason="no C compiler")
def test_threads_do_not_change_results() -> None:
    x = RNG.standard_normal((300, 257)).astype(np.float32)
    made = []
    for threads in (1, 2, 3):
        with config.override(device="CPU", threads=threads):
            t = Tensor(x)
            made.append([y.numpy() for y in (t @ t.T, t.softmax(1), t.sum(), t.sum(0))])
    for other in made[1:]:
        for a, b in zip(made[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
