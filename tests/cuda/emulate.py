"""CUDA kernels on the host, for tests: their source compiled by g++ under ``emulate.h``, run by
``runner.cpp``.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dawdle.codegen.render.cuda import PRELUDE
from dawdle.errors import CompileError
from dawdle.runtime.compiler import Source
from dawdle.runtime.cuda import CudaDevice
from dawdle.runtime.device import FAMILIES, Family
from dawdle.runtime.modules import Damaged, ModuleLibrary, Rejected

HERE = Path(__file__).parent
# alignment and bounds are checked by calls that runner.cpp answers, not a library
CHECKS = ("-fsanitize=alignment,bounds",)
FLAGS = ("-std=c++17", "-O0", "-fno-strict-aliasing", "-fwrapv", "-fno-math-errno", "-fno-trapping-math",
         "-ffp-contract=fast", "-mfma", "-mf16c", "-w", "-shared", "-fPIC",
         "-nodefaultlibs")  # fmt: skip
KERNEL = re.compile(r'extern "C" __global__ [^;{]*?\bvoid\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\(')
COPIES = {  # what the renderer writes where there is no cp.async, and what the emulation puts there
    "*to = valid ? *from : (T)0;": "dw_copy(to, from, valid);",
    "DW void wait_for_copies() {": "DW void wait_for_copies() { dw_async_commit(); dw_async_wait(0);",
}
SHARED_BYTES = 48 << 10
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


def asynchronous(source: str) -> str:
    """A kernel whose copies to shared memory arrive when they are waited for, as cp.async's do."""
    if "wait_for_copies" not in source:
        return source
    for old, new in COPIES.items():
        assert old in source, f"the renderer no longer writes {old!r}"
        source = source.replace(old, new)
    return source


def unit(prelude: str, sources: Sequence[Source], capability: tuple[int, int]) -> str:
    """The translation unit of some kernels, each with its entry for the runner and its own shared memory."""
    parts = [f"#define DW_ARCH {capability[0]}{capability[1]}0", (HERE / "emulate.h").read_text(), prelude]
    for s in sources:
        shared = f"dw_shared_{s.name}"
        parts += [
            f'#undef DW_SECTION\n#define DW_SECTION "{shared}"\n{asynchronous(s.text)}',
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
    if not (1 <= groups < 1 << 31 and 1 <= local <= 1024):
        raise EmulationError(f"{name}: no GPU launches {groups} blocks of {local} threads")
    shared = (end() or 0) - (begin() or 0)
    if shared > SHARED_BYTES:
        raise EmulationError(
            f"{name}: {shared} bytes of static shared memory, where blocks have {SHARED_BYTES}"
        )
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

    def __int__(self) -> int:
        return self.address

    def array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        return self.memory[self.begin : self.begin + self.nbytes].view(dtype).reshape(shape)

    def check(self, who: str) -> None:
        before, after = self.memory[: self.begin], self.memory[self.begin + self.nbytes :]
        if not ((before == FILL).all() and (after == FILL).all()):
            raise EmulationError(f"{who} writes outside of a buffer of {self.nbytes} bytes")


class EmulatedDriver:
    """A driver whose GPU is the emulation. ``seed`` orders the threads of all kernels; 0 leaves them in
    order.
    """

    description = "emulation"
    version = 13
    memory = 4 << 30
    processors = 4
    local_bytes = 48 << 10
    graphs = True
    errors: tuple[type[Exception], ...] = ()

    def __init__(self, capability: tuple[int, int] = (8, 0), max_local: int = 256) -> None:
        self.capability = capability
        self.max_local = max_local
        self.seed = 0
        self.live: dict[int, Guarded] = {}
        self.launches = 0
        self.started = 0  # graphs
        self._captured: list[tuple[Any, int, int, Sequence[int]]] | None = None

    def current(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def allocate(self, nbytes: int) -> Guarded:
        memory = Guarded(nbytes)
        self.live[memory.address] = memory
        return memory

    def free(self, memory: Guarded) -> None:
        del self.live[memory.address]

    def upload(self, address: int, data: np.ndarray) -> None:
        ctypes.memmove(address, data.ctypes.data, data.nbytes)

    def download(self, data: np.ndarray, address: int) -> None:
        ctypes.memmove(data.ctypes.data, address, data.nbytes)

    def load(self, binary: bytes) -> ctypes.CDLL:
        return opened(binary)

    def function(self, module: ctypes.CDLL, name: str, params: int) -> tuple[ctypes.CDLL, str]:
        return module, name

    def launch(self, function: Any, groups: int, local: int, addresses: Sequence[int]) -> None:
        if self._captured is not None:
            self._captured.append((function, groups, local, tuple(addresses)))
            return
        launch(*function, groups, local, addresses, self.seed)
        self.launches += 1
        for memory in self.live.values():
            memory.check(function[1])

    def event(self) -> int:
        return time.perf_counter_ns()

    def elapsed(self, begin: int, end: int) -> int:
        return end - begin

    def begin_capture(self) -> None:
        assert self._captured is None
        self._captured = []

    def end_capture(self) -> object:
        captured, self._captured = self._captured, None
        return captured

    def start(self, graph: Any) -> None:
        self.started += 1
        for one in graph:
            self.launch(*one)

    def discard(self, graph: Any) -> None:
        graph.clear()


def emulated(capability: tuple[int, int] = (8, 0), max_local: int = 256) -> CudaDevice:
    """The CUDA device with the emulation for a driver. Raises CompileError where there is no g++."""
    return CudaDevice("EMU", EmulatedDriver(capability, max_local), EmulatedLibrary(PRELUDE, capability))


def register() -> None:
    """Make the emulation a device called EMU, for as long as the process lives."""
    FAMILIES.setdefault("EMU", Family(lambda: ["EMU"], lambda index: emulated()))
