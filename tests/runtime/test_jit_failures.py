"""``@jit`` when something goes wrong: what is refused, errors, interrupts, memory, threads."""

import gc
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

from dawdle import Tensor, config, no_grad
from dawdle.errors import JitError, OutOfMemoryError
from dawdle.runtime.device import get_device
from dawdle.runtime.jit import jit

pytestmark = pytest.mark.usefixtures("device")


def equal(x: Tensor, values) -> None:
    np.testing.assert_array_equal(x.numpy(), np.asarray(values, x.numpy().dtype))


@pytest.mark.parametrize("read", [lambda t: t.item(), lambda t: t.numpy(), lambda t: t.tolist(), bool, float])
@pytest.mark.parametrize("what", ["argument", "result"])
def test_values_cannot_be_read_inside(read, what):
    @jit
    def f(x):
        read(x if what == "argument" else x + 1)

    with pytest.raises(JitError, match="inside of a function that @jit traces: it has no value yet"):
        f(Tensor(1.0))


def test_realize_inside_waits_for_the_end():
    w = Tensor([1.0]).realize()

    @jit
    def f(x):
        w.assign(w + x)
        w.realize()
        return (x + 1).realize()

    for i in range(3):
        equal(f(Tensor([float(i)])), [i + 1])
    equal(w, [4])


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_while_tracing_undoes_everything(error):
    w, x = Tensor([1.0], requires_grad=True), Tensor([2.0]).realize()
    w.realize()
    before = w.lazy

    @jit
    def f(x, fail):
        (w * x).sum().backward()
        with no_grad():
            w.assign(w - w.grad)
            x.assign(x * 5)
        if fail:
            raise error("mine")

    with pytest.raises(error, match="mine"):
        f(x, True)
    assert w.lazy is before and w.grad is None and w.requires_grad
    equal(x, [2])
    f(x, False)
    equal(w, [-1])
    equal(x, [10])
    equal(w.grad, [2])


def test_ctrl_c_in_a_replay_leaves_the_last_good_values(monkeypatch):
    w, v = Tensor([1.0]).realize(), Tensor([1.0]).realize()

    @jit
    def f():
        w.assign(w + 1)
        v.assign(v * 2)

    f()
    (replay,) = [r for replays in f._replays.values() for r in replays]
    real = replay._compute

    def interrupted(storages):
        real(storages)
        raise KeyboardInterrupt

    monkeypatch.setattr(replay, "_compute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        f()
    equal(w, [2])
    equal(v, [2])
    monkeypatch.undo()
    f()
    equal(w, [3])
    equal(v, [4])


INTERRUPTED = """
import os, signal, threading, time
from dawdle import Tensor
from dawdle.runtime.jit import jit

w, v = Tensor.zeros(1000).realize(), Tensor.zeros(1000).realize()
armed = False

@jit
def step():
    w.assign(w + 1)
    v.assign(v + 2)

def handler(number, frame):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt

def press():
    while True:
        time.sleep(0.004)
        os.kill(os.getpid(), signal.SIGINT)

step()
signal.signal(signal.SIGINT, handler)
threading.Thread(target=press, daemon=True).start()
for _ in range(20):
    try:
        armed = True
        while True:
            step()
    except KeyboardInterrupt:
        pass
    assert (w.numpy() * 2 == v.numpy()).all(), (w[0].item(), v[0].item())
print("consistent")
"""


def test_real_interrupts_never_split_a_step(device):
    env = {**os.environ, "DAWDLE_DEVICE": device}
    command = [sys.executable, "-c", INTERRUPTED]
    out = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert out.stdout == "consistent\n", out.stderr


def test_out_of_memory_in_a_replay(device):
    if device != "CPU":
        pytest.skip("only the CPU device has a limit")
    w = Tensor.ones(1 << 18).realize()

    @jit
    def f():
        w.assign(w + 1)

    f()
    get_device("CPU").allocator.empty_cache()
    with config.override(memory_limit=1 << 20), pytest.raises(OutOfMemoryError):
        f()
    assert w[0].item() == 2
    f()
    assert w[0].item() == 3


def test_several_devices_are_refused():
    f = jit(lambda x: x.to("NUMPY").to("CPU") + 1)
    with pytest.raises(JitError, match=r"runs on one device, but this one uses .*; move tensors"):
        f(Tensor([1.0]))


def test_several_threads_call_one_function():
    f = jit(lambda x: (x * 2).sum(0) + 1)
    f(Tensor([[1.0], [2.0]]))
    wrong = []

    def work(n: int) -> None:
        for i in range(30):
            if f(Tensor([[float(i)], [float(n)]])).item() != 2 * (i + n) + 1:
                wrong.append((n, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and f.traces == 1


def test_nested_jit_is_inlined():
    inner = jit(lambda x: x * 2)
    outer = jit(lambda x: inner(x) + inner(x + 1))
    for i in range(3):
        equal(outer(Tensor([float(i)])), [4 * i + 2])
    assert (outer.traces, inner.traces) == (1, 0)


def test_too_many_traces_are_warned_of():
    f = jit(lambda x, n: x + n)
    with pytest.warns(
        RuntimeWarning, match=r"jit has traced .* 32 times: .* pass numbers that change as tensors"
    ):
        for i in range(33):
            f(Tensor([1.0]), i)
    assert f.traces == 33


def test_replays_hold_no_old_values(device):
    w = Tensor([1.0]).realize()

    @jit
    def f(x):
        w.assign(w + x)
        return w * 2

    x = Tensor([1.0])
    x.realize()
    dead = weakref.ref(x.lazy)
    first = weakref.ref(w.lazy)
    f(x)
    del x
    gc.collect()
    assert dead() is None or device == "NUMPY"
    assert first() is None or device == "NUMPY"  # the interpreter keeps the graph that it replays
