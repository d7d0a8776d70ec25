"""The thread pool in C: shares, phases, several callers, fork."""

import ctypes
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from dawdle import config
from dawdle.runtime.compiler import Compilation, Source, find_compiler
from dawdle.runtime.library import Library
from dawdle.runtime.pool import SOURCE, Call, Pool, Program

PRELUDE = "#include <stdint.h>\n"
SIGNATURE = "void {}(int64_t thread, int64_t threads, void *const *buffers, char *scratch)"
SHARE = "for (int64_t i = 1000 * thread / threads; i < 1000 * (thread + 1) / threads; i++)"
SOURCES = {
    # adds 1 to its share of 1000 elements
    "increment": f"{{ int64_t *x = buffers[0]; {SHARE} x[i]++; }}",
    # x[i] = the sum of y, so every element shows whether all of y was there
    "spread": "{ int64_t *x = buffers[0], *y = buffers[1], s = 0; for (int i = 0; i < 1000; i++) s += y[i];"
    f"{SHARE} x[i] = s; }}",
    # through scratch memory, which must be private and aligned
    "scratch": "{ int64_t *x = buffers[0]; volatile int64_t *s = (void *)scratch;"
    f"if ((uintptr_t)scratch % 64) return; {SHARE} {{ s[i] = i + thread; x[i] = s[i] - thread; }} }}",
    "record": "{ int64_t *x = buffers[0]; x[thread] = threads; }",
    "slow": "{ int64_t *x = buffers[0]; volatile double d = 1;"
    "for (int i = 0; i < 3000000 / threads; i++) d *= 1.0000001; x[thread] = d > 0; }",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Library:
    with config.override(cache_dir=tmp_path_factory.mktemp("cache")):
        return Library(find_compiler(), PRELUDE)


@pytest.fixture(scope="module")
def pool(library) -> Pool:
    return Pool(library)


@pytest.fixture(scope="module")
def kernel(library):
    names = list(SOURCES)
    addresses = library.load([Source(n, SIGNATURE.format(n) + SOURCES[n]) for n in names])
    return dict(zip(names, addresses, strict=True))


def arrays(n: int = 1) -> list[np.ndarray]:
    return [np.zeros(1000, np.int64) for _ in range(n)]


def slots(xs) -> list[int]:
    return [x.ctypes.data for x in xs]


def one(address: int, parallel: bool = True, scratch: int = 0) -> Program:
    return Program([Call(address, ((0, 0),), parallel)], [(0, 1)], scratch)


def build(where: Path, flag: str) -> Path:
    flags = ("-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", flag)
    compilation = Compilation(find_compiler(), "", where, flags)
    compilation.start([Source("pool", SOURCE.read_text())])
    ((_, path),) = compilation.finish(lambda: where)
    return path


@pytest.mark.parametrize("threads", [1, 2, 3, 5, 64, 200])
def test_every_share_runs_once(pool, kernel, threads):
    (x,) = arrays()
    for _ in range(20):
        pool.run(one(kernel["increment"]), slots([x]), threads)
    assert (x == 20).all()
    assert pool.workers <= 63


def test_a_serial_program_needs_no_threads(pool, kernel):
    (x,) = arrays()
    pool.run(one(kernel["record"], parallel=False), slots([x]), 4)
    assert x[0] == 1 and not x[1:].any()


def test_phases_wait_for_each_other(pool, kernel):
    x, y = arrays(2)
    calls = []
    for i in range(200):
        a, b = (0, 1) if i % 2 == 0 else (1, 0)
        calls += [Call(kernel["increment"], ((b, 0),), True), Call(kernel["spread"], ((a, 0), (b, 0)), True)]
        calls.append(Call(kernel["record"], ((2, 0),), False))
    program = Program(calls[:6], [(i, i + 1) for i in range(6)], 0)
    ticks = np.zeros(1000, np.int64)
    for _ in range(50):
        x[:] = y[:] = 0
        pool.run(program, slots([x, y, ticks]), 3)
        # y = 1s; x = 1000s; x = 1001s; y = the sum of x
        assert (x == 1001).all() and (y == 1001_000).all()


def test_kernels_of_one_phase_all_run(pool, kernel):
    xs = arrays(4)
    calls = [Call(kernel["increment"], ((i, 0),), i % 2 == 0) for i in range(4)]
    program = Program(calls, [(0, 4)], 0)
    for _ in range(30):
        pool.run(program, slots(xs), 3)
    assert all((x == 30).all() for x in xs)


def test_offsets(pool, kernel):
    x = np.zeros(2000, np.int64)
    program = Program([Call(kernel["increment"], ((0, 8 * 500),), True)], [(0, 1)], 0)
    pool.run(program, slots([x]), 2)
    assert not x[:500].any() and (x[500:1500] == 1).all() and not x[1500:].any()


def test_scratch_is_private_and_aligned(pool, kernel):
    for threads in (1, 2, 4):
        (x,) = arrays()
        for _ in range(20):
            x[:] = 0
            pool.run(one(kernel["scratch"], scratch=8 * 1000 + threads), slots([x]), threads)
            assert (x == np.arange(1000)).all()


def test_several_callers_at_once(pool, kernel):
    xs = arrays(4)

    def work(x) -> None:
        for _ in range(300):
            pool.run(one(kernel["increment"]), slots([x]), 2)

    threads = [threading.Thread(target=work, args=(x,)) for x in xs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all((x == 300).all() for x in xs)


def test_after_fork(pool, kernel):
    (x,) = arrays()
    pool.run(one(kernel["increment"]), slots([x]), 2)
    child = os.fork()
    if child == 0:
        ok = pool.workers == 0
        pool.run(one(kernel["increment"]), slots([x]), 2)
        os._exit(0 if ok and (x == 2).all() and pool.workers == 1 else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    pool.run(one(kernel["increment"]), slots([x]), 2)
    assert (x == 2).all()


def test_profile_times_each_phase(pool, kernel):
    (x,) = arrays()
    program = Program(
        [Call(kernel["slow"], ((0, 0),), True), Call(kernel["record"], ((0, 0),), False)], [(0, 1), (1, 2)], 0
    )
    slow, fast = pool.profile(program, slots([x]), 2)
    assert slow > 1_000_000 > fast >= 0


def test_idle_workers_sleep(pool, kernel):
    (x,) = arrays()
    pool.run(one(kernel["increment"]), slots([x]), 2)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.05


def test_the_serial_build_runs_the_same_programs(kernel, tmp_path):
    path = build(tmp_path, "-DDAWDLE_SERIAL")
    run = ctypes.CDLL(str(path)).dw_run
    run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
    x, y = arrays(2)
    calls = [Call(kernel["increment"], ((1, 0),), True), Call(kernel["spread"], ((0, 0), (1, 0)), True)]
    program = Program(calls, [(0, 1), (1, 2)], 0)
    addresses = (ctypes.c_void_p * 2)(*slots([x, y]))
    assert run(program.address, addresses, 8, None) == 0
    assert (x == 1000).all()


def test_no_warnings_from_the_compiler(tmp_path: Path):
    assert build(tmp_path, "-pthread").exists()
