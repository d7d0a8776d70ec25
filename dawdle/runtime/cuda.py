"""CUDA devices: one stream each, which runs behind Python until a value is asked for.

Stretches of kernels that run again on the same memory, as replays of jitted functions do, are captured as
CUDA graphs: then one call starts them all.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from dawdle import config
from dawdle.codegen.render.cuda import PRELUDE
from dawdle.codegen.target import Target
from dawdle.dtype import Array
from dawdle.errors import DeviceError
from dawdle.runtime.accelerator import Accelerator
from dawdle.runtime.allocator import Allocator, Buffer, Chunk
from dawdle.runtime.compiled import Launcher
from dawdle.runtime.compiler import Source
from dawdle.runtime.cudadriver import Driver, PycudaDriver, pycuda
from dawdle.runtime.library import cores
from dawdle.runtime.modules import ModuleLibrary
from dawdle.runtime.nvrtc import FLAGS, CudaCompiler, architecture, find_compiler
from dawdle.runtime.plan import KernelStep, PlannedKernel

MAX_LOCAL = 256  # threads of a block; more seldom pay
MAX_PARAMS = 500  # pointers in the 4 KiB that a kernel's parameters may take
GRAPHS = 8  # kept for each stretch of kernels; training alternates between two sets of buffers
REMEMBERED = 16  # sets of buffers that are recognised when they come again
CAPTURES = 32  # after so many, graphs that weren't started more often than captured are given up
COPIED = 256 << 20  # bytes, of the copy that is measured
CHAINS, STEPS = 8, 1 << 14  # multiply-adds of the peak that is measured


def target_of(
    capability: tuple[int, int], processors: int, max_local: int = MAX_LOCAL, local_bytes: int = 48 << 10
) -> Target:
    """What recipes decide by on a device of that compute capability."""
    return Target(
        name="cuda",
        kind="gpu",
        vector_bytes=16,
        registers=64,
        threads=processors,
        max_lanes=16,
        max_local=min(max_local, MAX_LOCAL),
        local_bytes=local_bytes,
        max_params=MAX_PARAMS,
        capability=capability,
        tf32=config.current().tf32 > 0,
    )


class CubinLibrary(ModuleLibrary[Any]):
    """Modules of machine code for one compute capability."""

    compiler = "NVRTC"
    suffix = ".cu"

    def __init__(self, driver: Driver, compiler: CudaCompiler, prelude: str = PRELUDE) -> None:
        self.compiler = compiler.name
        self.arch = architecture(driver.capability, compiler)
        super().__init__("\0".join((compiler.identity, self.arch, *FLAGS)), prelude, cores())
        self._driver = driver
        self._translate = compiler

    def compile(self, text: str) -> tuple[bytes, Any]:
        binary = self._translate.compile(text, "kernels", self.arch)
        return binary, self.open(binary)

    def open(self, binary: bytes) -> Any:
        with self._driver.current():
            return self._driver.load(binary)

    def assembly(self, source: Source) -> str:
        """PTX, which the driver's own instructions are made of."""
        arch = self.arch.replace("sm_", "compute_")
        return self._translate.compile(self.text([source]), source.name, arch).rstrip(b"\0").decode()


class Memory:
    """A piece of the device's memory, given back when the object dies."""

    def __init__(self, driver: Driver, nbytes: int) -> None:
        self._driver = driver
        with driver.current():
            self._memory = driver.allocate(nbytes)
        self.address = int(self._memory)

    def __del__(self) -> None:
        try:
            self._driver.free(self._memory)
        except Exception:  # it was never had, or the process is ending
            return


class CudaLauncher:
    """Kernels with the slots that their parameters are in, and graphs of them for the memory seen lately."""

    def __init__(self, device: CudaDevice, step: KernelStep, modules: dict[str, Any]) -> None:
        self._device = device
        self._driver = device.driver
        used = sorted({slot for places in step.places for slot, _ in places})
        number = {slot: i for i, slot in enumerate(used)}
        self._slots = used
        self._launches: list[tuple[Any, int, int, list[tuple[int, int]]]] = []
        for kernel, places in zip(step.kernels, step.places, strict=True):
            assert kernel.launch is not None, f"{kernel.name} isn't for a GPU"
            with self._driver.current():
                function = self._driver.function(modules[kernel.name], kernel.name, len(places))
            self._launches.append((function, *kernel.launch, [(number[s], offset) for s, offset in places]))
        self._worth = self._driver.graphs and len(self._launches) > 1
        self._seen: OrderedDict[tuple[int, ...], None] = OrderedDict()
        self._graphs: OrderedDict[tuple[int, ...], Any] = OrderedDict()
        self._captured = self._started = 0

    def run(self, buffers: Sequence[Buffer]) -> None:
        memory = tuple([buffers[slot].address for slot in self._slots])
        with self._device.working():
            if not self._worth:
                self._launch(memory)
                return
            graph = self._graphs.get(memory)
            if graph is None and memory in self._seen:
                graph = self._capture(memory)
            if graph is None:
                self._remember(memory)
                self._launch(memory)
            else:
                self._graphs.move_to_end(memory)
                self._started += 1
                self._driver.start(graph)

    def profile(self, buffers: Sequence[Buffer]) -> list[int]:
        memory = tuple([buffers[slot].address for slot in self._slots])
        driver = self._driver
        with self._device.working():
            marks = [driver.event()]
            for one in self._launches:
                self._launch_one(memory, one)
                marks.append(driver.event())
            return [driver.elapsed(a, b) for a, b in pairwise(marks)]

    def _launch(self, memory: tuple[int, ...]) -> None:
        for one in self._launches:
            self._launch_one(memory, one)

    def _launch_one(self, memory: tuple[int, ...], one: tuple[Any, int, int, list[tuple[int, int]]]) -> None:
        function, groups, local, params = one
        self._driver.launch(function, groups, local, [memory[i] + offset for i, offset in params])

    def _remember(self, memory: tuple[int, ...]) -> None:
        self._seen[memory] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)

    def _capture(self, memory: tuple[int, ...]) -> Any:
        """The graph of all launches on this memory. The graph used longest ago makes room."""
        driver = self._driver
        driver.begin_capture()
        try:
            self._launch(memory)
        except BaseException:
            with contextlib.suppress(Exception):  # the first error tells more
                driver.discard(driver.end_capture())
            raise
        graph = driver.end_capture()
        self._graphs[memory] = graph
        if len(self._graphs) > GRAPHS:
            driver.discard(self._graphs.popitem(last=False)[1])
        self._captured += 1
        self._worth = self._captured < CAPTURES or self._started >= 2 * self._captured
        return graph

    def __del__(self) -> None:
        for graph in getattr(self, "_graphs", {}).values():
            try:
                self._driver.discard(graph)
            except Exception:  # the process may be ending
                return


class CudaDevice(Accelerator):
    """Raises CompileError where nothing can compile for it.

    ``driver`` is how it is reached; ``library`` makes its modules.
    """

    api = "CUDA"
    uploads_later = False
    part_alignment = 16  # of the widest load

    def __init__(self, name: str, driver: Driver, library: ModuleLibrary[Any] | None = None) -> None:
        description = f"{driver.description} {'.'.join(map(str, driver.capability))}"
        target = target_of(driver.capability, driver.processors, driver.max_local, driver.local_bytes)
        library = library or CubinLibrary(driver, find_compiler(driver.version))
        super().__init__(name, description, library, target)
        self.driver = driver
        self.allocator = Allocator(name, self._reserve, driver.memory, "the device's memory", True)
        self._lock = threading.RLock()

    # memory

    def _reserve(self, capacity: int) -> Chunk:
        with self._translated():
            memory = Memory(self.driver, capacity)
        return Chunk(memory.address, capacity, memory)

    def upload(self, data: Array, buffer: Buffer, offset: int) -> None:
        with self.working():
            self.driver.upload(buffer.address + offset, data)

    def download(self, buffer: Buffer, offset: int, data: Array) -> None:
        with self.working():
            self.driver.download(data, buffer.address + offset)

    # kernels

    def launcher(self, step: KernelStep, modules: dict[str, Any]) -> CudaLauncher:
        return CudaLauncher(self, step, modules)

    def link(self, steps: Sequence[KernelStep]) -> list[Launcher]:
        with self._translated():
            return super().link(steps)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """The device, current and for this thread alone, with its errors as the project's."""
        with self._lock, self._translated(), self.driver.current():
            yield

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        self.check_process()
        try:
            yield
        except self.driver.errors as e:
            raise DeviceError(
                f"{self.name} ({self.description}): {e}. Kernels run behind Python, so the error may be of"
                " an earlier one"
            ) from None

    def assembly(self, source: Source) -> str:
        library = self.library
        return library.assembly(source) if isinstance(library, CubinLibrary) else super().assembly(source)

    def measuring(self) -> tuple[PlannedKernel, PlannedKernel]:
        launch = (16 * self.target.threads, self.target.max_local)
        flops = 2 * CHAINS * STEPS * launch[0] * launch[1]
        peak = PlannedKernel("dawdle_peak", PEAK, 0, True, flops, 0, (), launch)
        return peak, PlannedKernel("dawdle_copy", COPY, 0, True, 0, 2 * COPIED, (), launch)


_CHAIN = [f"a{i}" for i in range(CHAINS)]
PEAK = f"""
extern "C" __global__ void dawdle_peak(float *to) {{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float x = i * 1e-9f, y = x;
  float {", ".join(f"{a} = x * {i}.0f" for i, a in enumerate(_CHAIN))};
  for (int k = 0; k < {STEPS}; k++) {{ {" ".join(f"{a} = fmaf({a}, x, y);" for a in _CHAIN)} }}
  to[i] = {" + ".join(_CHAIN)};
}}"""
COPY = f"""
extern "C" __global__ void dawdle_copy(float4 *to, const float4 *from) {{
  const int step = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < {COPIED // 16}; i += step) to[i] = from[i];
}}"""


def names() -> list[str]:
    """Canonical names of the CUDA devices here. Raises DeviceError where there are none."""
    return [f"CUDA:{i}" if i else "CUDA" for i in range(pycuda().Device.count())]


def open_device(index: int) -> CudaDevice:
    """The device called ``CUDA:index``, or ``CUDA`` where it is 0."""
    found = names()
    if index >= len(found):
        raise DeviceError(f"there is no device CUDA:{index}; there are {', '.join(found)}")
    return CudaDevice(found[index], PycudaDriver(index))
