"""A plan as one C file: it computes what the executor computes, on one thread and on several."""
import ctypes
import threading

import numpy as np
import pytest

from dawdle import Tensor, config
from dawdle.codegen.render.c import PRELUDE
from dawdle.dtype import float32
from dawdle.errors import JitError
from dawdle.lazy import build
from dawdle.runtime.compiler import FLAGS, Compilation, Source, find_compiler
from dawdle.runtime.device import get_device
from dawdle.runtime.executor import load, realize
from dawdle.runtime.plan import build_plan
from dawdle.runtime.structure import canonical
from dawdle.runtime.unit import unit_source

BARRIER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def aligned(n: int) -> np.ndarray:
    raw = np.zeros(n + 64, np.uint8)
    return raw[-raw.ctypes.data % 64 :][:n]


@pytest.mark.parametrize("threads", [1, 3])
def test_it_computes_the_same(threads, tmp_path):
    rng = np.random.default_rng(0)
    with config.override(device="CPU"):
        x, w = (Tensor(rng.normal(size=s).astype(np.float32)) for s in ((60, 80), (80, 90)))
        h = (x @ w).relu()
        outputs = [((h * 0.25).sin() @ w.permute(1, 0)).lazy, h.sum(0).lazy]
        leaves = canonical(outputs)[1]
        plan, _ = build_plan(outputs, leaves, get_device("CPU").target)
    text = unit_source(plan, PRELUDE, "net")
    compilation = Compilation(find_compiler(), "", tmp_path, (*FLAGS, "-Wall", "-Wno-unused"))
    compilation.start([Source("net", text)])
    ((_, path),) = compilation.finish(lambda: tmp_path)
    library = ctypes.CDLL(str(path))
    arena, scratch = (ctypes.c_int64.in_dll(library, f"net_{n}").value for n in ("arena", "scratch"))
    assert (arena, len(plan.fresh)) == (plan.arena, 2)
    inputs = [get_device("CPU").view(n.arg, n.dtype.storage, n.shape) for n in leaves]
    fresh = [aligned(n) for n in (*plan.fresh, arena)]
    slots = (ctypes.c_void_p * (len(inputs) + len(fresh)))(*(a.ctypes.data for a in (*inputs, *fresh)))
    meeting = threading.Barrier(threads)
    barrier = BARRIER(lambda context: (meeting.wait(), None)[1])
    run = library.net_run
    run.argtypes = (*[ctypes.c_int64] * 2, *[ctypes.c_void_p] * 2, BARRIER, ctypes.c_void_p)

    def enter(thread: int) -> None:
        own = aligned(scratch)
        run(thread, threads, slots, own.ctypes.data, barrier, None)

    entered = [threading.Thread(target=enter, args=(i,)) for i in range(threads)]
    for t in entered:
        t.start()
    for t in entered:
        t.join()
    realize(outputs)
    for slot, node in zip(plan.outputs, outputs, strict=True):
        got = fresh[slot - plan.leaves].view(np.float32).reshape(node.shape)
        np.testing.assert_allclose(got, load(node), rtol=1e-4, atol=1e-4)


def test_host_functions_are_refused():
    x = build.buffer(get_device("CPU").from_numpy(np.ones(3, np.float32)), (3,), float32, "CPU")
    y = build.custom(np.sin, x, shape=(3,), dtype=float32)
    plan, _ = build_plan([y], [x], get_device("CPU").target)
    with pytest.raises(JitError, match="calls Python code"):
        unit_source(plan, PRELUDE, "net")
