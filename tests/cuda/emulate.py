"""CUDA kernels on the host, for tests: their source compiled by g++ under ``emulate.h``, run by
``runner.cpp``.
"""

from __future__ import annotations

import ctypes
import functools
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dawdle.codegen.target import Target
from dawdle.errors import CompileError
from dawdle.runtime.allocator import Allocator, Buffer, Chunk
from dawdle.runtime.compiled import CompiledDevice
from dawdle.runtime.compiler import Source
from dawdle.runtime.modules import Damaged, ModuleBatch, ModuleLibrary, Rejected
from dawdle.runtime.plan import KernelStep, PlannedKernel
from dawdle.runtime.profile import Ceilings
from dawdle.runtime.store import digest

HERE = Path(__file__).parent
# alignment and bounds are checked by calls that runner.cpp answers, not a library
CHECKS = ("-fsanitize=alignment,bounds",)
FLAGS = ("-std=c++17", "-O1", "-fno-strict-aliasing", "-fwrapv", "-fno-math-errno", "-fno-trapping-math",
         "-ffp-contract=fast", "-mfma", "-mf16c", "-w", "-shared", "-fPIC",
         "-nodefaultlibs")  # fmt: skip
KERNEL = re.compile(r'extern "C" __global__ [^;{]*?\bvoid\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\(')
MARGIN = 256  # bytes around each buffer that kernels must leave alone
FILL = 0xFF  # of fresh memory: NaN in every float type


def compiler() -> str:
    """The command of GCC's C++ compiler. Raises CompileError where there is none."""
    found = shutil.which("g++")
    if found is None:
        raise CompileError("the emulation of CUDA needs g++")
    return found


def build(text: str, flags: Sequence[str]) -> bytes:
    """A shared library of C++ source. Raises Rejected with the compiler's messages."""
    with tempfile.TemporaryDirectory() as where:
        source, output = Path(where) / "unit.cpp", Path(where) / "unit.so"
        source.write_text(text)
        command = [compiler(), *flags, str(source), "-o", str(output), "-lm", "-lc", "-lgcc"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise Rejected(result.stderr.replace(str(source), "unit.cpp"))
        return output.read_bytes()


def opened(binary: bytes, mode: int = ctypes.DEFAULT_MODE) -> ctypes.CDLL:
    with tempfile.NamedTemporaryFile(suffix=".so") as f:
        f.write(binary)
        f.flush()
        return ctypes.CDLL(f.name, mode)


@functools.lru_cache
def runner() -> ctypes.CDLL:
    """What runs kernels; its symbols are there for the libraries that are loaded later."""
    text = (HERE / "runner.cpp").read_text()
    return opened(build(text, ("-std=c++17", "-O2", "-shared", "-fPIC")), ctypes.RTLD_GLOBAL)


def unit(prelude: str, sources: Sequence[Source], capability: tuple[int, int]) -> str:
    """The translation unit of some kernels, each with its entry for the runner and its own shared memory."""
    parts = [f"#define DW_ARCH {capability[0]}{capability[1]}0", (HERE / "emulate.h").read_text(), prelude]
    for s in sources:
        shared = f"dw_shared_{s.name}"
        parts += [
            f'#undef DW_SECTION\n#define DW_SECTION "{shared}"\n#line 1 "{s.name}.cu"\n{s.text}',
            f'extern "C" char __start_{shared}[] __attribute__((weak, visibility("hidden")));',
            f'extern "C" char __stop_{shared}[] __attribute__((weak, visibility("hidden")));',
            f'extern "C" void {s.name}_run(void **p) {{ dw_apply({s.name}, p); }}',
            f'extern "C" void *{s.name}_begin() {{ return __start_{shared}; }}',
            f'extern "C" void *{s.name}_end() {{ return __stop_{shared}; }}',
        ]
    return "\n".join(parts)


class EmulatedLibrary(ModuleLibrary[ctypes.CDLL]):
    """Kernels compiled for the host, kept on disk as a device's are."""

    compiler = "g++ for CUDA's emulation"
    suffix = ".cpp"

    def __init__(self, prelude: str, capability: tuple[int, int]) -> None:
        header = (HERE / "emulate.h").read_text()
        version = subprocess.run(
            [compiler(), "--version"], capture_output=True, text=True, check=False
        ).stdout
        super().__init__("\0".join((version, header, str(FLAGS + CHECKS), str(capability))), prelude, 2)
        self.capability = capability
        runner()

    def text(self, unit_: Sequence[Source]) -> str:
        return unit(self.prelude, unit_, self.capability)

    def compile(self, text: str) -> tuple[bytes, ctypes.CDLL]:
        binary = build(text, (*FLAGS, *CHECKS))
        return binary, self.open(binary)

    def open(self, binary: bytes) -> ctypes.CDLL:
        try:
            return opened(binary)
        except OSError as e:
            raise Damaged(str(e)) from None


class EmulationError(AssertionError):
    """What a kernel does is an error on a GPU."""


def launch(
    module: ctypes.CDLL, name: str, groups: int, local: int, addresses: Sequence[int], seed: int = 0
) -> None:
    """Run a kernel over its grid. Seed 0 runs threads in their order, others shuffle them.

    Raises EmulationError for misaligned accesses, indices outside of arrays, and barriers that never end.
    """
    arguments = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
    grid, block = (ctypes.c_uint * 3)(groups, 1, 1), (ctypes.c_uint * 3)(local, 1, 1)
    begin, end = (getattr(module, f"{name}_{which}") for which in ("begin", "end"))
    begin.restype = end.restype = ctypes.c_void_p
    text = ctypes.create_string_buffer(512)
    status = runner().dw_run(
        ctypes.cast(getattr(module, f"{name}_run"), ctypes.c_void_p), arguments, grid, block,
        ctypes.c_uint64(seed), ctypes.c_void_p(begin()), ctypes.c_void_p(end()), text, len(text),
    )  # fmt: skip
    if status:
        raise EmulationError(f"{name}: {text.value.decode()}")


def run_source(
    source: str, groups: int, local: int, buffers: Sequence[np.ndarray], seed: int = 0,
    capability: tuple[int, int] = (8, 0),
) -> None:  # fmt: skip
    """Compile the one kernel of a complete source and run it on arrays, which it may write to."""
    found = KERNEL.search(source)
    assert found, "no kernel in the source"
    module = _module(unit("", [Source(found[1], source)], capability))
    guarded = [Guarded(a.nbytes) for a in buffers]
    for g, a in zip(guarded, buffers, strict=True):
        g.array(a.dtype, a.shape)[...] = a
    launch(module, found[1], groups, local, [g.address for g in guarded], seed)
    for g, a in zip(guarded, buffers, strict=True):
        g.check(found[1])
        a[...] = g.array(a.dtype, a.shape)


@functools.lru_cache(maxsize=64)
def _module(text: str) -> ctypes.CDLL:
    runner()
    return opened(build(text, (*FLAGS, *CHECKS)))


class Guarded:
    """``nbytes`` of memory at a 256-byte aligned address, filled with NaNs, between margins that are
    checked.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.memory = np.full(nbytes + 3 * MARGIN, FILL, np.uint8)
        start = self.memory.__array_interface__["data"][0]
        self.begin = -(-(start + MARGIN) // MARGIN) * MARGIN - start
        self.address = start + self.begin

    def array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        return self.memory[self.begin : self.begin + self.nbytes].view(dtype).reshape(shape)

    def check(self, who: str) -> None:
        before, after = self.memory[: self.begin], self.memory[self.begin + self.nbytes :]
        if not ((before == FILL).all() and (after == FILL).all()):
            raise EmulationError(f"{who} writes outside of a buffer of {self.nbytes} bytes")


@dataclass
class EmulatedLauncher:
    """A stretch of kernels; runs them with the device's seed."""

    device: EmulatedDevice
    kernels: tuple[PlannedKernel, ...]
    places: tuple[tuple[tuple[int, int], ...], ...]
    modules: dict[str, ctypes.CDLL]

    def run(self, buffers: Sequence[Buffer]) -> None:
        self.profile(buffers)

    def profile(self, buffers: Sequence[Buffer]) -> list[int]:
        times = []
        for kernel, places in zip(self.kernels, self.places, strict=True):
            assert kernel.launch is not None, f"{kernel.name} has no launch"
            addresses = [buffers[slot].address + offset for slot, offset in places]
            start = time.perf_counter_ns()
            launch(self.modules[kernel.name], kernel.name, *kernel.launch, addresses, self.device.seed)
            times.append(time.perf_counter_ns() - start)
            for b in buffers:
                if isinstance(b.chunk.owner, Guarded):
                    b.chunk.owner.check(kernel.name)
        return times


class EmulatedDevice(CompiledDevice):
    """A CUDA device of some compute capability whose GPU is the emulation. ``seed`` orders its threads."""

    name = "EMU"

    def __init__(self, capability: tuple[int, int] = (8, 0), max_local: int = 256) -> None:
        from dawdle.codegen.render.cuda import PRELUDE

        self.capability = capability
        self.max_local = max_local
        self.seed = 0
        self.library = EmulatedLibrary(PRELUDE, capability)
        self.store = self.library.store
        self.allocator = Allocator(self.name, self._reserve)

    @staticmethod
    def _reserve(capacity: int) -> Chunk:
        memory = Guarded(capacity)
        return Chunk(memory.address, capacity, memory)

    @property
    def code_target(self) -> Target:
        from dawdle.runtime.cuda import target_of

        return target_of(self.capability, self.max_local, 48 << 10)

    def batch(self) -> ModuleBatch:
        return ModuleBatch(self.library)

    def link(self, steps: Sequence[KernelStep]) -> list[EmulatedLauncher]:
        modules = self.library.load(Source(k.name, k.source) for s in steps for k in s.kernels)
        return [EmulatedLauncher(self, s.kernels, s.places, modules) for s in steps]

    def from_numpy(self, array: np.ndarray, copy: bool = True) -> Buffer:
        buffer = self.allocator.allocate(array.nbytes)
        self.write(buffer, 0, np.ascontiguousarray(array))
        return buffer

    def read(self, buffer: Buffer, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        whole = Buffer(Chunk(buffer.address + offset, 0, buffer), buffer.nbytes - offset, None)
        return whole.array(dtype, shape).copy()

    def write(self, buffer: Buffer, offset: int, array: np.ndarray) -> None:
        if array.nbytes:
            ctypes.memmove(buffer.address + offset, array.ctypes.data, array.nbytes)

    def ceilings(self, again: bool = False) -> Ceilings:
        return Ceilings(1, 1e9, 1e9)


def identity() -> str:
    """A hash of the emulation's own sources."""
    return digest(b"".join((HERE / name).read_bytes() for name in ("emulate.h", "runner.cpp")))
