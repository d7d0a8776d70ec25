"""Generated CUDA kernels do what the interpreter does: every op, random graphs and training steps, run by the
emulation with threads in shuffled orders.
"""

from __future__ import annotations

import numpy as np
import pytest
from emulate import EmulationError, compiler, register, run_source
from random_graphs import load
from rows import SLOW
from test_random_graphs import FAMILIES, assert_close, plans
from test_tensor_ops import results

import dawdle
from dawdle import Tensor, config, nn
from dawdle.codegen.render.cuda import PRELUDE
from dawdle.dtype import from_storage
from dawdle.errors import CompileError
from dawdle.lazy.buffer import format_graph
from dawdle.lazy.interpret import evaluate
from dawdle.runtime.device import get_device
from dawdle.runtime.executable import Executable
from dawdle.runtime.plan import PlannedKernel, build_plan
from dawdle.runtime.structure import canonical

try:
    compiler()
except CompileError as e:
    pytest.skip(str(e), allow_module_level=True)
register()

BATCH = 32  # cases whose kernels are compiled together
GRAPHS = 16  # of each family of dtypes


@pytest.fixture(autouse=True)
def device():
    """The emulation is the default device, its threads in an order of its own for each test."""
    found = get_device("EMU")
    found.driver.seed += 1
    with config.override(device="EMU"):
        yield found


@pytest.mark.parametrize("start", range(0, len(SLOW), BATCH))
def test_ops(start):
    """Values and gradients of every row of the table."""
    cases = SLOW[start : start + BATCH]
    mine = [results(row, which) for row, which in cases]
    with config.override(device="NUMPY"):
        oracle = [results(row, which) for row, which in cases]
    Tensor.realize(*[t for group in mine for t in group])
    Tensor.realize(*[t for group in oracle for t in group])
    for (row, which), got, want in zip(cases, mine, oracle, strict=True):
        for a, b in zip(got, want, strict=True):
            assert a.device == "EMU" and a.dtype is b.dtype
            np.testing.assert_allclose(
                a.numpy(), b.numpy(), rtol=2e-4, atol=2e-5, err_msg=f"{row.name} {which}"
            )


@pytest.mark.parametrize("family", FAMILIES)
def test_random_graphs(family, device):
    for outputs, leaves, plan in plans(FAMILIES[family], 1 + sum(map(ord, family)), device, GRAPHS):
        expected = evaluate(outputs, load)
        storages = Executable(plan, device)([device.from_numpy(leaf.arg.array) for leaf in leaves])
        for node, storage, want in zip(outputs, storages, expected, strict=True):
            got = from_storage(device.view(storage, node.dtype.storage, node.shape), node.dtype)
            assert_close(got, want, node.dtype, format_graph([node]))


def training(device: str) -> list[float]:
    """Losses of a small convolutional network, trained by a jitted step."""
    with config.override(device=device):
        dawdle.random.manual_seed(1)
        rng = np.random.default_rng(0)
        x, y = Tensor(rng.standard_normal((8, 1, 8, 8)).astype("float32")), Tensor(np.arange(8) % 4)
        model = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 4)
        )
        optimizer = nn.optim.Adam(model.parameters(), lr=0.01)

        @dawdle.jit
        def step(x, y):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return [step(x, y).item() for _ in range(8)]


def test_training_is_captured_as_graphs(device):
    started = device.driver.started
    mine = training("EMU")
    assert device.driver.started > started
    np.testing.assert_allclose(mine, training("NUMPY"), rtol=1e-3)
    assert mine[-1] < mine[0] / 2


@pytest.mark.parametrize("shape", [(64, 64, 64), (65, 33, 70), (128, 96, 200), (1, 300, 5)])
def test_contractions(shape):
    """Tiles in shared memory, whole and partial."""
    m, k, n = shape
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype("float32") for s in ((m, k), (k, n)))
    got = (Tensor(a) @ Tensor(b) + 1).relu().numpy()
    np.testing.assert_allclose(got, np.maximum(a @ b + 1, 0), rtol=1e-4, atol=1e-4)


def test_empty_tensors(device):
    """Nothing is launched for what has no elements; a sum of nothing is zero."""
    x = Tensor(np.zeros((0, 3), np.float32))
    assert (x * 2 + 1).numpy().shape == (0, 3)
    np.testing.assert_array_equal(x.sum(0).numpy(), np.zeros(3))
    y = Tensor(np.zeros((4, 0), np.float32)) @ Tensor(np.zeros((0, 5), np.float32))
    np.testing.assert_array_equal(y.numpy(), np.zeros((4, 5)))


def kernel_of(tensor: Tensor, device) -> tuple[PlannedKernel, list[np.ndarray]]:
    """The only kernel of a tensor's graph, and the arrays of its parameters, the first one empty."""
    _, leaves, _ = canonical([tensor.lazy])
    plan, _ = build_plan([tensor.lazy], leaves, device.target)
    ((kernel,), (places,)) = plan.steps[0].kernels, plan.steps[0].places
    arrays = [device.to_numpy(x.arg, x.dtype.storage, x.shape) for x in leaves]
    arrays.append(np.zeros(tensor.shape, np.float32))
    return kernel, [arrays[slot] for slot, _ in places]


@pytest.mark.parametrize("graph", [lambda a, b: a.softmax(-1), lambda a, b: a @ b], ids=["softmax", "matmul"])
def test_generated_barriers_matter(graph, device):
    """A kernel is right in any order of its threads, and wrong in some without its barriers."""
    rng = np.random.default_rng(0)
    operands = [rng.standard_normal((80, 80)).astype("float32") for _ in range(2)]
    kernel, arrays = kernel_of(graph(*map(Tensor, operands)), device)
    with config.override(device="NUMPY"):
        want = graph(*map(Tensor, operands)).numpy()

    def right(source: str, seed: int) -> bool:
        arrays[0][...] = 0
        run_source(PRELUDE + source, *kernel.launch, arrays, seed)
        return np.allclose(arrays[0], want, rtol=1e-4, atol=1e-5)

    assert all(right(kernel.source, seed) for seed in range(3))
    assert "__syncthreads();" in kernel.source
    assert not all(right(kernel.source.replace("__syncthreads();", ""), seed) for seed in range(3))
    if "copy<" in kernel.source:  # they must be waited for
        hasty = kernel.source.replace("wait_for_copies(); __syncthreads();", "__syncthreads();")
        with pytest.raises(EmulationError, match="nobody waited for"):
            right(hasty, 0)


def test_slices_are_places_where_the_widest_loads_can_begin(device):
    """Others are computed by a kernel of their own."""
    values = np.arange(300, dtype=np.float32).reshape(50, 6)
    x = Tensor(values)
    for i, aligned in ((2, True), (3, False)):
        part = x[i : i + 40].realize()
        assert (part.lazy.arg.whole is x.lazy.arg) is aligned and part.lazy.arg.address % 16 == 0
        np.testing.assert_array_equal(part.numpy(), values[i : i + 40])
        np.testing.assert_array_equal((x[i : i + 40] * 2).numpy(), values[i : i + 40] * 2)
