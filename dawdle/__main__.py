"""``python -m dawdle``: what works on this machine, what doesn't and why, and how fast the machine is."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator

import numpy as np

from dawdle import __version__, config
from dawdle.runtime.allocator import size_text
from dawdle.runtime.compiled import CompiledDevice
from dawdle.runtime.cpu import CpuDevice
from dawdle.runtime.device import devices, get_device
from dawdle.runtime.profile import Ceilings
from dawdle.runtime.store import usage


def lines() -> Iterator[tuple[str, str]]:
    """What to print: a heading and a text each."""
    yield (
        "dawdle",
        f"{__version__}, Python {platform.python_version()}, NumPy {np.__version__}, {platform.platform()}",
    )
    states = devices()
    for state in states:
        works = f"works: {state.description}" if state.description else "works"
        yield f"device {state.name}", works if state.works else f"doesn't work: {state.reason}"
    working = {s.name for s in states if s.works}
    device = get_device(CpuDevice.name) if CpuDevice.name in working else None
    if isinstance(device, CpuDevice):
        compiler = device.library.compiler
        yield "C compiler", f"{compiler.name} ({compiler.version()})"
    disk = usage(config.current().cache_dir)
    yield (
        "kernel cache",
        f"{disk.path}: {disk.libraries} libraries, {disk.plans} plans, {size_text(disk.nbytes)}",
    )
    threads = config.current().num_threads
    yield "threads", f"{threads} (DAWDLE_THREADS)"
    if isinstance(device, CpuDevice):
        target = device.target
        caches = f"{size_text(target.l1)} L1 and {size_text(target.l2)} L2 a core"
        yield "CPU", f"{target.vector_bytes * 8}-bit vectors, {caches}"
        for n in sorted({1, threads}):
            top = device.ceilings(again=True, threads=n)
            yield f"ceilings, {'1 thread' if n == 1 else f'{n} threads'}", rates(top)
    for other in (get_device(name) for name in sorted(working - {CpuDevice.name})):
        if isinstance(other, CompiledDevice) and not other.simulated:
            yield f"ceilings, {other.name}", rates(other.ceilings(again=True))


def rates(top: Ceilings) -> str:
    """A device's ceilings in words."""
    return f"{top.flops / 1e9:.0f} GFLOP/s float32 multiply-add, {top.bytes / 1e9:.1f} GB/s copy"


def main() -> int:
    try:
        for heading, text in lines():
            print(f"{heading:<20} {text}", flush=True)
    except BrokenPipeError:  # as ``| head -1`` leaves it: who reads has seen enough
        # Python flushes stdout once more when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
