"""Realising graphs: storage sharing, the schedule cache, copies, host functions, interruption."""

import gc
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

from dawdle import Tensor, config
from dawdle.codegen.generate import generate
from dawdle.dtype import ALL, BY_NAME, bfloat16, float32, float64, int64, to_storage
from dawdle.errors import DeviceError, OutOfMemoryError
from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import Op
from dawdle.runtime import executor, plan
from dawdle.runtime.cache import cache_stats, clear_caches
from dawdle.runtime.device import default_device, devices, get_device
from dawdle.runtime.executor import load, realize
from dawdle.runtime.plan import independent
from dawdle.runtime.structure import canonical

DEVICES = ["NUMPY", "CPU"]


def leaf(array, device: str = "CPU", dtype=None) -> LazyBuffer:
    array = np.asarray(array)
    dtype = dtype or BY_NAME[array.dtype.name]
    return build.buffer(get_device(device).from_numpy(array), array.shape, dtype, device)


def floats(*shape: int, device: str = "CPU", seed: int = 0) -> LazyBuffer:
    return leaf(np.random.default_rng(seed).normal(size=shape).astype(np.float32), device)


def add(a: LazyBuffer, b: LazyBuffer) -> LazyBuffer:
    return build.binary(Op.ADD, a, b)


def double(x: LazyBuffer, times: int = 1) -> LazyBuffer:
    for _ in range(times):
        x = add(x, x)
    return x


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ALL, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (5, 7)], ids=str)
def test_storage_round_trip(device, dtype, shape):
    values = np.random.default_rng(1).integers(0, 2, shape).astype(dtype.compute)
    stored = to_storage(values, dtype)
    place = get_device(device)
    storage = place.from_numpy(stored)
    out = place.to_numpy(storage, dtype.storage, shape)
    assert out.dtype == dtype.storage and out.shape == shape and (out == stored).all() and out.flags.writeable
    assert not place.view(storage, dtype.storage, shape).flags.writeable
    assert storage.nbytes == stored.nbytes


@pytest.mark.parametrize("device", DEVICES)
def test_from_numpy_copies_unless_told_not_to(device):
    place, array = get_device(device), np.arange(6.0)
    copied, adopted = place.from_numpy(array), place.from_numpy(array, copy=False)
    strided = place.from_numpy(array[::2], copy=False)
    array[:] = 9
    assert place.view(copied, array.dtype, (6,))[1] == 1
    assert place.view(adopted, array.dtype, (6,))[1] == 9
    assert place.view(strided, array.dtype, (3,))[1] == 2


@pytest.mark.parametrize("device", DEVICES)
def test_several_outputs_together(device):
    x = floats(4, 6, device=device)
    total = build.reduce(Op.SUM, x, (1,))
    centred = build.binary(Op.SUB, x, build.expand(total, (4, 6)))
    flat = build.reshape(centred, (24,))
    expected = load(x) - load(x).sum(1, keepdims=True)
    realize([centred, total, flat, centred])
    assert all(n.is_realized for n in (total, centred, flat))
    np.testing.assert_allclose(load(centred), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(load(flat), load(centred).reshape(24))


def test_a_reshape_shares_storage():
    x = floats(4, 6)
    of_leaf, y = build.reshape(x, (24,)), double(x)
    of_output = build.reshape(y, (2, 12))
    realize([of_leaf, y, of_output])
    assert of_leaf.arg is x.arg and of_output.arg is y.arg


def test_realising_frees_the_graph_and_memory_is_reused():
    x = floats(1000)
    realize([double(x, 3)])
    middle = double(x)
    y = double(middle, 2)
    dead = weakref.ref(middle)
    del middle
    allocator = get_device("CPU").allocator
    realize([y])
    gc.collect()
    assert dead() is None
    realize([double(x, 3)])
    live, fresh = allocator.stats().live, allocator.stats().fresh
    for _ in range(50):
        realize([double(x, 3)])
    assert (allocator.stats().live, allocator.stats().fresh) == (live, fresh)


@pytest.mark.parametrize("device", DEVICES)
def test_deep_chains_and_diamonds(device):
    x = floats(8, device=device)
    one = build.full((8,), 1.0, float32, device)
    chain = x
    for _ in range(3000):
        chain = build.binary(Op.MUL, chain, one)
    diamond = double(x, 60)
    realize([chain])
    realize([diamond])
    np.testing.assert_array_equal(load(chain), load(x))
    np.testing.assert_array_equal(load(diamond), load(x) * np.float32(2.0**60))


def test_what_was_assigned_is_realised_with_the_next_realize():
    with config.override(device="CPU"):
        mean, x = Tensor.zeros(3), Tensor([1.0, 2.0, 3.0])
        for i in range(1, 4):
            mean.assign(mean + x)
            local = Tensor.zeros(3)
            local.assign(x)
            dead = weakref.ref(local)
            del local
            (x * 2).realize()
            assert mean.lazy.is_realized and dead() is None
            np.testing.assert_array_equal(mean.numpy(), [i, 2 * i, 3 * i])
        mean.assign(mean * 2)
        (x * 3).sum().item()  # reading one value computes no other
        assert not mean.lazy.is_realized


def test_a_loss_is_computed_with_what_is_realised_next():
    """Not a second time when it is read after the optimizer's step; where it is dropped, not at all."""
    with config.override(device="CPU"):
        w = Tensor([1.0, 2.0, 3.0], requires_grad=True)
        loss, dropped, several = (w * w).sum(), (w * 3).sum(), w * 2
        for value in (loss, dropped):
            value.backward()
        several.backward(Tensor.ones(3))
        dead = weakref.ref(dropped.lazy)
        del dropped, value
        w.grad.realize()
        assert loss.lazy.is_realized and not several.lazy.is_realized and dead() is None
        np.testing.assert_array_equal(w.grad.numpy(), [7, 9, 11])
        assert loss.item() == 14


def test_the_second_step_is_not_scheduled(monkeypatch):
    x, y = floats(33), floats(33, seed=1)
    realize([double(x, 2)])
    monkeypatch.setattr(executor, "build_plan", None)
    before = cache_stats()["plans"]
    other = double(y, 2)
    realize([other])
    after = cache_stats()["plans"]
    assert (after.hits, after.misses) == (before.hits + 1, before.misses)
    np.testing.assert_array_equal(load(other), load(y) * 4)


def test_plans_share_kernels(monkeypatch):
    """Graphs that differ in a slice, as the batches of a loop do, have most kernels in common."""
    names = []

    def made(group, target):
        kernel = generate(group, target)
        names.append(kernel.name)
        return kernel

    def planned(*outputs):
        found, ready = canonical(outputs)[1], []
        kernels = plan.build_plan(outputs, found, get_device("CPU").target, ready.append)[0].kernels
        assert sorted(k.name for k in ready) == sorted({k.name for k in kernels})  # each is to be compiled
        return [k.name for k in kernels]

    clear_caches()
    monkeypatch.setattr(plan, "generate", made)
    first = planned(double(floats(19)))
    second = planned(double(floats(19)), double(floats(23), 2))
    assert names == list(dict.fromkeys(first + second)) and len(names) == 2
    with config.override(debug=5):  # kernels that are verified are others
        assert planned(double(floats(19))) == first and names[2:] == first


def test_clear_caches_forgets_plans():
    realize([double(floats(17))])
    assert cache_stats()["plans"].entries > 0
    clear_caches()
    assert cache_stats()["plans"].entries == 0
    x = floats(17)
    y = double(x)
    realize([y])
    np.testing.assert_array_equal(load(y), load(x) * 2)


def key(*outputs: LazyBuffer):
    return canonical(outputs)[0]


def scaled(value: float) -> LazyBuffer:
    return build.binary(Op.MUL, floats(3), build.full((3,), value, float32, "CPU"))


def test_keys_tell_apart_what_differs():
    x, y = floats(3), floats(3)
    graphs = [
        key(add(x, x)),
        key(add(x, y)),
        key(build.binary(Op.MUL, x, y)),
        key(add(x, y), x),
        key(x, add(x, y)),
        key(scaled(0.0)),
        key(scaled(-0.0)),
        key(scaled(1.0)),
        key(scaled(float("nan"))),
        key(scaled(float("inf"))),
        key(build.cast(x, float64)),
        key(build.cast(x, int64)),
        key(floats(4)),
        key(floats(1, 3)),
        key(build.flip(x, (0,))),
        key(build.slice_(x, [(0, 2, 1)])),
        key(build.slice_(x, [(1, 3, 1)])),
        key(build.reduce(Op.SUM, x, (0,))),
        key(build.custom(np.sin, x, shape=(3,), dtype=float32)),
        key(build.custom(np.cos, x, shape=(3,), dtype=float32)),
    ]
    assert len(set(graphs)) == len(graphs)


def test_keys_agree_on_equal_structures():
    assert key(scaled(float("nan"))) == key(scaled(float("nan")))
    assert key(double(floats(3), 5)) == key(double(floats(3, seed=4), 5))
    leaves = canonical([add(floats(3), floats(3))])[1]
    assert len(leaves) == 2 and all(n.op is Op.BUFFER for n in leaves)


def test_independent_kernels_share_a_phase():
    a, b, c = (0, 0, 64), (1, 0, 64), (1, 64, 128)
    assert independent([[a], [b], [c]], [[], [], []]) == [(0, 3)]
    assert independent([[a], [b]], [[], [a]]) == [(0, 1), (1, 2)]  # reads what was written
    assert independent([[a], [b]], [[b], []]) == [(0, 1), (1, 2)]  # overwrites what is being read
    assert independent([[a], [a]], [[], []]) == [(0, 1), (1, 2)]
    assert independent([[b], [c], [a]], [[], [], [(1, 32, 96)]]) == [(0, 2), (2, 3)]


@pytest.mark.parametrize("device", DEVICES)
def test_custom_functions_run_between_kernels(device):
    x = floats(4, 5, device=device)
    middle = build.custom(lambda a: np.sort(a, axis=1), double(x), shape=(4, 5), dtype=float32)
    y = double(middle)
    realize([y, middle])
    np.testing.assert_array_equal(load(y), np.sort(load(x) * 2, axis=1) * 2)
    np.testing.assert_array_equal(load(middle), np.sort(load(x) * 2, axis=1))


@pytest.mark.parametrize("device", DEVICES)
def test_custom_functions_take_temporaries_without_elements(device):
    x = leaf(np.zeros((0, 3), np.float32), device)
    y = build.custom(lambda a: a.sum(0, keepdims=True), double(x), shape=(1, 3), dtype=float32)
    realize([y])
    np.testing.assert_array_equal(load(y), np.zeros((1, 3)))


def test_custom_in_bfloat16_and_its_errors():
    x = leaf(to_storage(np.array([1.5, -2.0], np.float32), bfloat16), dtype=bfloat16)
    y = build.custom(lambda a: -a, x, shape=(2,), dtype=bfloat16)
    realize([y])
    np.testing.assert_array_equal(load(y), [-1.5, 2.0])

    def fails(a):
        raise RuntimeError("mine")

    z = build.custom(fails, floats(2), shape=(2,), dtype=float32)
    with pytest.raises(RuntimeError, match="mine"):
        realize([z])
    assert not z.is_realized


def test_values_move_between_devices():
    x = floats(6, device="NUMPY")
    there = build.copy(double(x), "CPU")
    back = build.copy(double(there), "NUMPY")
    end = double(back)
    realize([end, there])
    assert (end.device, there.device, back.device) == ("NUMPY", "CPU", "NUMPY")
    np.testing.assert_array_equal(load(end), load(x) * 8)
    np.testing.assert_array_equal(load(there), load(x) * 2)
    both = [double(x), double(there)]
    realize(both)
    np.testing.assert_array_equal(load(both[0]) * 2, load(both[1]))


def test_out_of_memory_leaves_graphs_as_they_were():
    x = floats(1 << 18)
    y = add(x, double(x))
    get_device("CPU").allocator.empty_cache()
    with (
        config.override(memory_limit=1 << 20),
        pytest.raises(OutOfMemoryError, match="CPU: 1 MiB more would exceed"),
    ):
        realize([y])
    assert y.op is Op.ADD
    realize([y])
    np.testing.assert_allclose(load(y), load(x) * 3, rtol=1e-6)


def test_ctrl_c_leaves_graphs_as_they_were():
    x, pressed = floats(5), []

    def press(a):
        if not pressed:
            pressed.append(1)
            raise KeyboardInterrupt
        return a

    kept = double(x)
    y = double(build.custom(press, kept, shape=(5,), dtype=float32))
    with pytest.raises(KeyboardInterrupt):
        realize([y, kept])
    assert y.op is Op.ADD and kept.op is Op.ADD
    realize([y, kept])
    np.testing.assert_array_equal(load(y), load(x) * 4)


def test_several_threads_realise_at_once():
    x = floats(5000)
    results: list[np.ndarray] = []

    def work(n: int) -> None:
        for _ in range(20):
            y = double(x, n)
            realize([y])
        results.append(load(y) / np.float32(2.0**n))

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3, 1, 2, 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 6 and all((r == load(x)).all() for r in results)


def test_after_fork():
    x = floats(5000)
    realize([double(x)])
    child = os.fork()
    if child == 0:
        try:
            y, z = double(x), double(x, 4)
            realize([y])
            realize([z])
            os._exit(0 if (load(z) == load(x) * 16).all() and (load(y) == load(x) * 2).all() else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    y = double(x)
    realize([y])
    np.testing.assert_array_equal(load(y), load(x) * 2)


@pytest.mark.parametrize("threads", [1, 3])
def test_thread_counts(threads):
    x = floats(300, 300)
    with config.override(threads=threads):
        y = build.reduce(Op.SUM, double(x), (1,))
        realize([y])
    np.testing.assert_allclose(load(y), load(x).sum(1, keepdims=True) * 2, rtol=1e-4, atol=1e-4)


# ---- names and reports


def test_names():
    assert get_device("cpu") is get_device("CPU") and get_device("Numpy").name == "NUMPY"
    with pytest.raises(DeviceError, match="unknown device 'GPU'; known are CPU, NUMPY, CL, CL:1"):
        get_device("GPU")
    with config.override(device="numpy"):
        assert default_device() == "NUMPY"
    with config.override(device=""):
        assert default_device() == "CPU"
    assert [(s.name, s.works, s.reason) for s in devices()][:2] == [("CPU", True, ""), ("NUMPY", True, "")]


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (2, ["GFLOP/s", "GB/s", " us "]),
        (3, ["plan: 1 inputs, 1 new buffers", "kernel k_", "because"]),
        (4, ["void k_", "void *const *buffers"]),
        (5, ["function k_"]),
        (6, ["%0 = buffer", "= add %0 %0"]),
        (7, ["ret"]),
    ],
)
def test_debug_levels(level, expected, capsys):
    x = floats(7, 100 + level)  # a shape of its own, so that a plan is made
    y = double(x)
    with config.override(debug=level):
        realize([y])
    out = capsys.readouterr().out
    assert all(text in out for text in expected), out
    np.testing.assert_array_equal(load(y), load(x) * 2)


def test_python_m_dawdle():
    out = subprocess.run([sys.executable, "-m", "dawdle"], capture_output=True, text=True, check=True).stdout
    for text in (
        "device CPU           works",
        "C compiler",
        "kernel cache",
        "libraries",
        "ceilings, 1 thread",
        "GB/s copy",
    ):
        assert text in out


def test_python_m_dawdle_into_a_pipe_that_is_closed():
    with subprocess.Popen(
        [sys.executable, "-m", "dawdle"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as command:
        command.stdout.readline()
        command.stdout.close()
        assert command.stderr.read() == "" and command.wait() == 0


def test_the_target_describes_the_machine():
    target = get_device("CPU").target
    assert (target.name, target.kind) == ("c", "cpu")
    assert target.vector_bytes in (16, 32, 64) and target.registers in (16, 32)
    assert target.threads == config.current().num_threads
    assert 1 << 12 <= target.l1 <= target.l2
    with pytest.raises(TypeError):
        type(target)("c", 32)  # by position, a new field would shift the others' meaning
