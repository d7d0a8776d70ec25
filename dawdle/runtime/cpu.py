"""The CPU device: kernels in C, run by a pool of threads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dawdle import config
from dawdle.codegen.render.c import PRELUDE
from dawdle.codegen.target import Target
from dawdle.dtype import Array
from dawdle.errors import CompileError
from dawdle.lazy.buffer import Storage
from dawdle.runtime.allocator import Allocator, Buffer, adopt
from dawdle.runtime.compiled import CompiledDevice
from dawdle.runtime.compiler import Source, compilers, cpu_features
from dawdle.runtime.library import Batch, Library
from dawdle.runtime.plan import KernelStep
from dawdle.runtime.pool import Call, Pool, Program
from dawdle.runtime.profile import Ceilings, ceilings
from dawdle.runtime.trace import note_storage


class CpuLauncher:
    """Kernels that the pool runs with one foreign call, on as many threads as were set when they were linked.
    """

    def __init__(self, device: CpuDevice, step: KernelStep, program: Program) -> None:
        self._device = device
        self._step = step
        self._program = program
        self._one_by_one: Program | None = None
        self._threads = config.current().num_threads
        self._run = device.pool.run

    def run(self, buffers: Sequence[Buffer]) -> None:
        self._run(self._program, [b.address for b in buffers], self._threads)

    def profile(self, buffers: Sequence[Buffer]) -> list[int]:
        if self._one_by_one is None:
            self._one_by_one = self._device.programs([self._step.one_by_one()])[0]
        return self._device.pool.profile(self._one_by_one, [b.address for b in buffers], self._threads)


class CpuDevice(CompiledDevice):
    """Memory is the host's. Raises CompileError if no C compiler works."""

    name = "CPU"
    host_memory = True

    def __init__(self) -> None:
        self.allocator = Allocator(self.name)
        self.library = open_library(PRELUDE)
        self.store = self.library.store
        self.pool = Pool(self.library)
        self._machine = detect_target()

    @property
    def target(self) -> Target:  # type: ignore[override]
        return replace(self._machine, threads=config.current().num_threads)

    def from_numpy(self, array: Array, copy: bool = True) -> Storage:
        if not copy and array.flags.c_contiguous:
            buffer = adopt(array)
            note_storage(buffer)
            return buffer
        buffer = self.allocator.allocate(array.nbytes)
        if array.nbytes:
            buffer.array(array.dtype, array.shape, readonly=False)[...] = array
        note_storage(buffer)
        return buffer

    def read(self, buffer: Buffer, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        return (rest(buffer, offset) if offset else buffer).array(dtype, shape)

    def write(self, buffer: Buffer, offset: int, array: Array) -> None:
        if array.size:
            rest(buffer, offset).array(array.dtype, array.shape, readonly=False)[...] = array

    def batch(self) -> Batch:
        return Batch(self.library)

    def link(self, steps: Sequence[KernelStep]) -> list[CpuLauncher]:
        return [CpuLauncher(self, s, p) for s, p in zip(steps, self.programs(steps), strict=True)]

    def programs(self, steps: Sequence[KernelStep]) -> list[Program]:
        """Compile all kernels of a plan's steps, in parallel where they aren't known yet, into what the pool
        runs.
        """
        kernels = [k for s in steps for k in s.kernels]
        addresses = iter(self.library.load([Source(k.name, k.source) for k in kernels]))
        return [
            Program(
                [Call(next(addresses), at, k.parallel) for k, at in zip(s.kernels, s.places, strict=True)],
                s.phases,
                s.scratch,
            )
            for s in steps
        ]

    def ceilings(self, again: bool = False, threads: int = 0) -> Ceilings:
        return ceilings(self.library, self.pool, threads or config.current().num_threads, again)

    def assembly(self, source: Source) -> str:
        return self.library.assembly(source)


def rest(buffer: Buffer, offset: int) -> Buffer:
    """What comes behind the first ``offset`` bytes."""
    return buffer.part(offset, buffer.nbytes - offset)


# what kernels need of a compiler beyond C11: vectors and conversions between them
PROBE = Source(
    "dawdle_probe",
    """
void dawdle_probe(int64_t thread, int64_t threads, void *const *buffers, char *scratch) {
  typedef uint8_t byte8 __attribute__((vector_size(8)));
  typedef float float8 __attribute__((vector_size(32)));
  *(float8 *)buffers[0] = __builtin_convertvector(*(byte8 *)buffers[1], float8);
}""",
)


def open_library(prelude: str) -> Library:
    """A library with the first compiler that can do all that kernels need; if none can, with the first."""
    found = [Library(compiler, prelude) for compiler in compilers()]
    return next((library for library in found if len(found) == 1 or suits(library)), found[0])


def suits(library: Library) -> bool:
    """Whether a compiler translates the probe; the answer is kept on disk."""
    refused = library.store.directory / "unsuitable.txt"
    if refused.exists():
        return False
    try:
        library.load([PROBE])
    except CompileError as e:
        library.store.write_text(refused, str(e))
        return False
    return True


def detect_target() -> Target:
    """This machine's vector unit and caches."""
    features = cpu_features()
    if "avx512f" in features:
        vector, registers = 64, 32
    elif "avx2" in features:
        vector, registers = 32, 16
    else:
        vector, registers = 16, 32 if "aarch64" in features or "arm64" in features else 16
    return Target(
        vector_bytes=vector,
        registers=registers,
        l1=_cache_bytes(1, 32 << 10),
        l2=_cache_bytes(2, 512 << 10),
    )


def _cache_bytes(level: int, default: int) -> int:
    """Size of a core's data cache of that level, where the system says."""
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (index / "level").read_text().strip() == str(level) and (
                index / "type"
            ).read_text().strip() != "Instruction":
                found = re.fullmatch(r"(\d+)([KM]?)", (index / "size").read_text().strip())
                if found:
                    return int(found[1]) << {"": 0, "K": 10, "M": 20}[found[2]]
        except OSError:
            continue
    return default
