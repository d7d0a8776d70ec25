"""How fast kernels are, beside what the machine can do: its measured rate of multiply-adds and of copying."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from dawdle.runtime.allocator import fresh
from dawdle.runtime.cache import Cache
from dawdle.runtime.compiler import Source
from dawdle.runtime.library import Library
from dawdle.runtime.plan import PlannedKernel
from dawdle.runtime.pool import Call, Pool, Program
from dawdle.runtime.store import KernelStore

COPIED = 64 << 20  # bytes; beyond any cache
FLOPS = 100_000_000  # of each thread

CHAINS = 10  # enough to hide the latency of a multiply-add, few enough to stay in registers
_chain = [f"a{i}" for i in range(CHAINS)]
_step = " ".join(f"{a} = {a} * x + y;" for a in _chain)
PEAK = Source(
    "dawdle_peak",
    f"""
#if defined(__AVX512F__)
#define DAWDLE_LANES 16
#elif defined(__AVX__)
#define DAWDLE_LANES 8
#else
#define DAWDLE_LANES 4
#endif
void dawdle_peak(int64_t thread, int64_t threads, void *const *buffers, char *scratch) {{
  typedef float v __attribute__((vector_size(4 * DAWDLE_LANES)));
  float *seed = (float *)buffers[0] + thread * 64;
  v x = {{0}}, y = {{0}};
  x += seed[0]; y += seed[1];
  v {", ".join(f"{a} = y * {i}.0f" for i, a in enumerate(_chain))};
  for (int64_t r = 0; r < {FLOPS} / ({2 * CHAINS} * DAWDLE_LANES); r++) {{ {_step} }}
  v sum = {" + ".join(_chain)};
  seed[2] = sum[0];
}}""",
)
COPY = Source(
    "dawdle_copy",
    f"""
void dawdle_copy(int64_t thread, int64_t threads, void *const *buffers, char *scratch) {{
  int64_t n = {COPIED // 4}, begin = n * thread / threads, end = n * (thread + 1) / threads;
  float *restrict to = buffers[0];
  const float *restrict from = buffers[1];
  for (int64_t i = begin; i < end; i++) to[i] = from[i];
}}""",
)


@dataclass(frozen=True)
class Ceilings:
    """Floating-point operations and bytes (read and written) in a second that ``threads`` threads reach
    together.
    """

    threads: int
    flops: float
    bytes: float


_measured: Cache[Path, Ceilings] = Cache("ceilings")


def remembered(
    store: KernelStore, label: str, measure: Callable[[], Ceilings], again: bool = False
) -> Ceilings:
    """What was measured once and is kept beside the kernels on disk; ``again`` keeps the best so far."""
    path = store.directory / f"ceilings-{label}.json"
    found = _measured.get(path) or _read(path)
    if found is None or again:
        new = measure()
        old = found or new
        found = Ceilings(new.threads, max(new.flops, old.flops), max(new.bytes, old.bytes))
        store.write_text(path, json.dumps(asdict(found)))
    return _measured.put(path, found)


def ceilings(library: Library, pool: Pool, threads: int, again: bool = False) -> Ceilings:
    """The CPU's, for kernels in C on so many threads."""
    return remembered(library.store, str(threads), lambda: _measure(library, pool, threads), again)


def _read(path: Path) -> Ceilings | None:
    try:
        return Ceilings(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _measure(library: Library, pool: Pool, threads: int) -> Ceilings:
    peak, copy = library.load([PEAK, COPY])
    target, origin = fresh(COPIED), fresh(COPIED)
    slots = (target.address, origin.address)

    def best(call: Call, repeats: int) -> float:
        program = Program([call], [(0, 1)], 0)
        return min(pool.profile(program, slots, threads)[0] for _ in range(repeats)) * 1e-9

    flops = threads * FLOPS / best(Call(peak, ((0, 0),), True), 5)
    rate = 2 * COPIED / best(Call(copy, ((0, 0), (1, 0)), True), 8)
    return Ceilings(threads, flops, rate)


def line(kernel: PlannedKernel, ns: int, top: Ceilings) -> str:
    """One line for a kernel that ran: name, iteration space, time, GFLOP/s and GB/s with their share of the
    ceilings.
    """
    seconds = max(ns, 1) * 1e-9
    flops, rate = kernel.flops / seconds, kernel.nbytes / seconds
    space = "x".join(map(str, kernel.space)) or "1"
    text = (
        f"{kernel.name:<18} {space:<24} {ns / 1000:10.1f} us"
        f" {flops / 1e9:8.2f} GFLOP/s {flops / top.flops:4.0%}"
        f" {rate / 1e9:8.2f} GB/s {rate / top.bytes:4.0%}{'' if kernel.parallel else '  serial'}"
    )
    return (
        f"\033[33m{text}\033[0m"
        if sys.stdout.isatty() and max(flops / top.flops, rate / top.bytes) < 0.3
        else text
    )
