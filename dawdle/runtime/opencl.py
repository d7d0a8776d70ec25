"""OpenCL devices (pyopencl): one in-order queue each, which runs behind Python until a value is asked for."""

from __future__ import annotations

import itertools
import threading
import warnings
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from dawdle import config
from dawdle.codegen.render.opencl import PRELUDE
from dawdle.dtype import Array
from dawdle.errors import DeviceError, OutOfMemoryError
from dawdle.lazy.buffer import Storage
from dawdle.runtime.accelerator import Accelerator
from dawdle.runtime.allocator import Allocator, Buffer, Chunk, size_class, size_text
from dawdle.runtime.clplatform import (
    build_apart,
    builds_at_once,
    check_pocl,
    description,
    detect,
    find_devices,
    identity,
    is_pocl,
    is_simulator,
    options,
    pyopencl,
)
from dawdle.runtime.compiled import no_fp64
from dawdle.runtime.modules import Damaged, ModuleLibrary, Rejected
from dawdle.runtime.plan import KernelStep, PlannedKernel

AHEAD = 32  # stretches of kernels that may wait in the queue
NO_MEMORY = ("MEM_OBJECT_ALLOCATION_FAILURE", "OUT_OF_RESOURCES", "OUT_OF_HOST_MEMORY", "INVALID_BUFFER_SIZE")
SMALLEST = 8  # kernels of a program; PoCL takes most of a second for the first, a tenth for each further one
COPIED = 64 << 20  # bytes, of the copy that is measured
CHAINS, STEPS = 8, 1 << 14  # multiply-adds of the peak that is measured


class ProgramLibrary(ModuleLibrary[Any]):
    """Programs that a device's OpenCL compiler makes; a module is a built ``pyopencl.Program``."""

    compiler = "the OpenCL compiler"
    suffix = ".cl"

    def __init__(self, device: Any, context: Any) -> None:
        self._pocl = is_pocl(device)
        super().__init__(identity(device), PRELUDE, builds_at_once(device), SMALLEST if self._pocl else 1)
        self._building = threading.Lock()
        self._cl = pyopencl()
        self._device = device
        self._context = context

    def compile(self, text: str) -> tuple[bytes, Any]:
        # PoCL builds one program at a time, so other processes have to help
        if not self._pocl:
            return self._compile_here(text)
        if not self._building.acquire(blocking=False):
            binary = build_apart(self._device, text)
            if binary is not None:
                return binary, self.open(binary)
            self._building.acquire()  # for its messages
        try:
            return self._compile_here(text)
        finally:
            self._building.release()

    def _compile_here(self, text: str) -> tuple[bytes, Any]:
        program = self._cl.Program(self._context, text)
        try:
            self._build(program)
        except self._cl.Error as e:
            raise Rejected(str(e)) from None
        (binary,) = program.get_info(self._cl.program_info.BINARIES)
        return bytes(binary), program

    def open(self, binary: bytes) -> Any:
        try:
            program = self._cl.Program(self._context, [self._device], [binary])
            self._build(program)
        except self._cl.Error as e:
            raise Damaged(str(e)) from None
        return program

    def _build(self, program: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the compiler has said something
            program.build(options(self._device), cache_dir=False)


class OpenCLLauncher:
    """Kernel objects whose arguments are set once, and again only where a buffer is another one."""

    def __init__(self, device: OpenCLDevice, step: KernelStep, programs: dict[str, Any]) -> None:
        self._device = device
        self._enqueue = device.cl.enqueue_nd_range_kernel
        self._launches: list[tuple[Any, tuple[int], tuple[int]]] = []
        # by slot: kernels, the numbers of arguments and their offsets in the slot's memory
        self._uses: dict[int, list[tuple[Any, int, int]]] = {}
        self._bound: dict[int, tuple[int, int]] = {}  # by slot: which memory the arguments are, its start
        threads = device.target.threads
        scratch = device.scratch(step.scratch * threads)
        for planned, places in zip(step.kernels, step.places, strict=True):
            kernel = device.cl.Kernel(programs[planned.name], planned.name)
            for i, (slot, offset) in enumerate(places):
                self._uses.setdefault(slot, []).append((kernel, 2 * i, offset))
                kernel.set_arg(2 * i + 1, np.uint64(offset))
            kernel.set_arg(2 * len(places), scratch.chunk.owner)
            self._launches.append((kernel, *_ranges(planned, threads)))
        self._scratch = scratch

    def run(self, buffers: Sequence[Buffer]) -> None:
        device = self._device
        with device.lock, device.errors():
            self._bind(buffers)
            queue, enqueue = device.queue, self._enqueue
            event = None
            for kernel, total, local in self._launches:
                event = enqueue(queue, kernel, total, local)
            device.started(event)

    def profile(self, buffers: Sequence[Buffer]) -> list[int]:
        device = self._device
        with device.lock, device.errors():
            self._bind(buffers)
            device.queue.finish()
            queue, times = device.profiling_queue(), []
            for kernel, total, local in self._launches:
                event = self._enqueue(queue, kernel, total, local)
                event.wait()
                times.append(event.profile.end - event.profile.start)
            return times

    def _bind(self, buffers: Sequence[Buffer]) -> None:
        bound = self._bound
        for slot, uses in self._uses.items():
            chunk = buffers[slot].chunk
            address, start = bound.get(slot, (0, 0))
            if address != chunk.address:
                bound[slot] = 0, -1  # unknown, should Ctrl-C come in between
                for kernel, i, offset in uses:
                    kernel.set_arg(i, chunk.owner)
                    if start != chunk.start:
                        kernel.set_arg(i + 1, np.uint64(offset + chunk.start))
                bound[slot] = chunk.address, chunk.start


def _ranges(kernel: PlannedKernel, threads: int) -> tuple[tuple[int], tuple[int]]:
    """Work-items in all and in a group."""
    if kernel.launch is not None:
        groups, local = kernel.launch
        return (groups * local,), (local,)
    return (threads if kernel.parallel else 1,), (1,)


class OpenCLDevice(Accelerator):
    """Raises DeviceError where there is no such device or it can't build kernels.

    ``recipe`` is "cpu" or "gpu" to override what the device's kind asks for.
    """

    api = "OpenCL"
    uploads_later = True

    def __init__(self, name: str, device: Any, recipe: str = "") -> None:
        self.cl = pyopencl()
        self.context = self.cl.Context([device])
        self.queue = self.cl.CommandQueue(self.context)
        library = ProgramLibrary(device, self.context)
        check_pocl(device, library.store)
        super().__init__(name, description(device), library, detect(device, recipe))
        self.allocator = Allocator(name, self._reserve, device.global_mem_size, "the device's memory")
        self.simulated = is_simulator(device)
        self.lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._most = device.max_mem_alloc_size
        self._scratch: Buffer | None = None
        self._profiling: Any = None
        self._waiting: deque[Any] = deque()
        self._uploads: deque[tuple[Any, Array]] = deque()

    # memory

    def _reserve(self, capacity: int) -> Chunk:
        if capacity > self._most:
            raise MemoryError(f"a buffer has at most {size_text(self._most)}")
        try:
            memory = self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, capacity)
        except self.cl.Error as e:
            raise MemoryError(str(e)) from None
        return Chunk(next(self._numbers), capacity, memory)

    def scratch(self, nbytes: int) -> Buffer:
        """Memory that the kernels in the queue use one after the other."""
        with self.lock:
            if self._scratch is None or self._scratch.nbytes < nbytes:
                self._scratch = self.allocator.allocate(size_class(nbytes))
            return self._scratch

    def from_numpy(self, array: Array, copy: bool = True) -> Storage:
        if array.dtype == np.float64 and not self.target.fp64:
            raise no_fp64(self.name, f"an array of shape {array.shape}")
        return super().from_numpy(array, copy)

    def upload(self, data: Array, buffer: Buffer, offset: int) -> None:
        with self.lock, self.errors():
            memory, begin = buffer.chunk.owner, buffer.chunk.start + offset
            event = self.cl.enqueue_copy(self.queue, memory, data, dst_offset=begin, is_blocking=False)
            self._uploads.append((event, data))  # alive until it is copied
            self.queue.flush()
            done = self.cl.command_execution_status.COMPLETE
            while self._uploads and self._uploads[0][0].command_execution_status == done:
                self._uploads.popleft()

    def download(self, buffer: Buffer, offset: int, data: Array) -> None:
        with self.lock, self.errors():
            begin = buffer.chunk.start + offset
            self.cl.enqueue_copy(self.queue, data, buffer.chunk.owner, src_offset=begin)

    def part(self, buffer: Buffer, offset: int, nbytes: int) -> Buffer:
        return buffer.part(offset, nbytes, next(self._numbers))

    # kernels

    def launcher(self, step: KernelStep, modules: dict[str, Any]) -> OpenCLLauncher:
        return OpenCLLauncher(self, step, modules)

    def started(self, event: Any) -> None:
        """Note the last command of a stretch of kernels, so that Python doesn't run ahead without end."""
        self.queue.flush()
        self._waiting.append(event)
        if len(self._waiting) > AHEAD:
            self._waiting.popleft().wait()

    def profiling_queue(self) -> Any:
        """A queue that takes the time."""
        if self._profiling is None:
            enable = self.cl.command_queue_properties.PROFILING_ENABLE
            self._profiling = self.cl.CommandQueue(self.context, properties=enable)
        return self._profiling

    def errors(self) -> _Errors:
        """Turns the driver's errors inside of a block into the project's own."""
        self.check_process()
        return _Errors(self)

    def measuring(self) -> tuple[PlannedKernel, PlannedKernel]:
        gpu = self.target.kind == "gpu"
        lanes = 1 if gpu else self.target.lanes(4)
        items = self.target.threads * (16 * self.target.max_local if gpu else 1)
        launch = (items // self.target.max_local, self.target.max_local) if gpu else None
        flops = 2 * CHAINS * STEPS * lanes * items
        peak = PlannedKernel("dawdle_peak", _peak(lanes), 0, True, flops, 0, (), launch)
        return peak, PlannedKernel("dawdle_copy", COPY, 0, True, 0, 2 * COPIED, (), launch)


class _Errors:
    """A context manager that is cheap where nothing goes wrong."""

    def __init__(self, device: OpenCLDevice) -> None:
        self._device = device

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        device = self._device
        if not isinstance(error, (device.cl.Error, MemoryError)):
            return
        if isinstance(error, MemoryError) or any(word in str(error) for word in NO_MEMORY):
            live = size_text(device.allocator.stats().live)
            raise OutOfMemoryError(
                f"{device.name}: the device has no memory for what was started ({error}): {live} are held by"
                " live values; let go of values, or use a smaller batch"
            ) from None
        raise DeviceError(f"{device.name} ({device.description}): {error}") from None


def _peak(lanes: int) -> str:
    kind = f"float{lanes}" if lanes > 1 else "float"
    chain = [f"a{i}" for i in range(CHAINS)]
    names = ", ".join(f"{a} = x * {i}.0f" for i, a in enumerate(chain))
    steps = " ".join(f"{a} = {a} * x + y;" for a in chain)
    return f"""__kernel void dawdle_peak(__global char *b0, ulong o0, __global char *scratch) {{
  {kind} x = ({kind})(get_global_id(0) * 1e-9f), y = x, {names};
  for (int i = 0; i < {STEPS}; i++) {{ {steps} }}
  {kind} sum = {" + ".join(chain)};
  ((__global {kind} *)(b0 + o0))[get_global_id(0)] = sum;
}}"""


COPY = f"""
__kernel void dawdle_copy(__global char *b0, ulong o0, __global char *b1, ulong o1, __global char *scratch) {{
  const long n = {COPIED // 16}, count = get_global_size(0), id = get_global_id(0);
  const long begin = get_local_size(0) > 1 ? id : n / count * id;
  const long end = get_local_size(0) > 1 ? n : n / count * (id + 1);
  const long step = get_local_size(0) > 1 ? count : 1;
  __global float4 *to = (__global float4 *)(b0 + o0);
  const __global float4 *from = (const __global float4 *)(b1 + o1);
  for (long i = begin; i < end; i += step) to[i] = from[i];
}}"""


def names() -> list[str]:
    """Canonical names of the OpenCL devices here. Raises DeviceError where there are none."""
    return [f"CL:{i}" if i else "CL" for i in range(len(find_devices(config.current().cl_device)))]


def open_device(index: int) -> OpenCLDevice:
    """The device called ``CL:index``, or ``CL`` where it is 0."""
    found = find_devices(config.current().cl_device)
    if index >= len(found):
        raise DeviceError(f"there is no device CL:{index}; there are {', '.join(names())}")
    return OpenCLDevice(names()[index], found[index], config.current().cl_recipe)
