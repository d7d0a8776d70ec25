"""The thread pool (``cpu/pool.c``): programs of kernels, each run with one foreign call."""

from __future__ import annotations

import ctypes
import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from dawdle.errors import OutOfMemoryError
from dawdle.runtime.allocator import size_text
from dawdle.runtime.library import Library

SOURCE = Path(__file__).with_name("cpu") / "pool.c"


@dataclass(frozen=True)
class Call:
    """One kernel of a program: the function's address and where its parameters lie, as (slot, offset in
    bytes).
    """

    address: int
    params: tuple[tuple[int, int], ...]
    parallel: bool


class Program:
    """Kernels in the form that the pool reads. ``phases`` are (begin, end): kernels that may run at the same
    time.
    """

    def __init__(self, calls: Sequence[Call], phases: Sequence[tuple[int, int]], scratch: int) -> None:
        kernels, params = array("q"), array("q")
        for call in calls:
            kernels.extend((call.address, len(params) // 2, call.parallel))
            for place in call.params:
                params.extend(place)
        table = array("q")
        for begin, end in phases:
            table.extend((begin, end, any(c.parallel for c in calls[begin:end])))
        self.scratch = scratch
        self.phases = len(phases)
        self._arrays = (kernels, table, params)  # the header points into them
        where = [a.buffer_info()[0] for a in self._arrays]
        self._header = array("q", (*where, len(phases), len(params) // 2, scratch))
        self.address = self._header.buffer_info()[0]


class Pool:
    """Runs programs on ``threads`` threads, of which the calling one is the first."""

    def __init__(self, library: Library) -> None:
        text = SOURCE.read_text()
        handle = library.open_source(
            f"pool_{hashlib.sha256(text.encode()).hexdigest()[:16]}", text, ("-pthread",)
        )
        self._run = handle.dw_run
        self._run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
        self._workers = handle.dw_workers
        self._workers.restype = ctypes.c_int64

    def run(self, program: Program, slots: Sequence[int], threads: int) -> None:
        """Run it to its end; ``slots`` are the addresses of its buffers. Safe to call from several threads.
        """
        addresses = array("q", slots)
        if self._run(program.address, addresses.buffer_info()[0], threads, None):
            raise _no_scratch(program)

    def profile(self, program: Program, slots: Sequence[int], threads: int) -> list[int]:
        """Run it, and give the nanoseconds that each phase took."""
        addresses = array("q", slots)
        times = array("q", bytes(8 * (program.phases + 1)))
        if self._run(program.address, addresses.buffer_info()[0], threads, times.buffer_info()[0]):
            raise _no_scratch(program)
        return [b - a for a, b in pairwise(times)]

    @property
    def workers(self) -> int:
        """Threads that have been started beside the calling one."""
        return int(self._workers())


def _no_scratch(program: Program) -> OutOfMemoryError:
    return OutOfMemoryError(
        f"CPU: no memory for {size_text(program.scratch)} of scratch space for each thread"
    )
