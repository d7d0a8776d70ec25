"""What the CUDA device asks of the driver, and no more: pycuda for devices, memory, modules and launches, and
libcuda through ctypes for graphs, which pycuda doesn't have.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from dawdle.dtype import Array
from dawdle.errors import DeviceError
from dawdle.runtime.modules import Damaged

INSTALL = (
    "pip install 'dawdle[cuda]', which builds pycuda: that needs a C++ compiler and CUDA's headers and driver"
    " library (the toolkit, with nvcc on PATH or CUDA_ROOT set)"
)
THREAD_LOCAL = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads may go on as they like


class Driver(Protocol):
    """One device and the one stream in whose order everything on it happens.

    Every call but ``current`` and ``free`` is made inside of ``with driver.current()``. Calls raise
    ``errors``, and MemoryError where the device has no memory left.
    """

    description: str
    capability: tuple[int, int]
    version: int  # of CUDA, the driver's major one
    memory: int  # bytes
    processors: int  # streaming multiprocessors
    max_local: int  # threads of a block
    local_bytes: int  # static shared memory of a block
    graphs: bool  # whether sequences of launches can be captured
    errors: tuple[type[Exception], ...]

    def current(self) -> AbstractContextManager[object]:
        """Makes the device the calling thread's current one for a block."""
        ...

    def allocate(self, nbytes: int) -> Any:
        """Memory, whose address is ``int(...)`` of it."""
        ...

    def free(self, memory: Any) -> None: ...

    def upload(self, address: int, data: Array) -> None:
        """Copy bytes to the device; they may be changed as soon as this returns."""
        ...

    def download(self, data: Array, address: int) -> None:
        """Copy bytes from the device, after all that has been started before."""
        ...

    def load(self, binary: bytes) -> Any:
        """A module. Raises Damaged if this device can't use it."""
        ...

    def function(self, module: Any, name: str, params: int) -> Any:
        """A kernel that takes so many pointers."""
        ...

    def launch(self, function: Any, groups: int, local: int, addresses: Sequence[int]) -> None: ...

    def event(self) -> Any:
        """A point in the stream."""
        ...

    def elapsed(self, begin: Any, end: Any) -> int:
        """Nanoseconds between two events, which it waits for."""
        ...

    def begin_capture(self) -> None:
        """From here on launches are recorded instead of made."""
        ...

    def end_capture(self) -> Any:
        """The graph of what was recorded, ready to start."""
        ...

    def start(self, graph: Any) -> None:
        """Make all launches of a graph, in their order."""
        ...

    def discard(self, graph: Any) -> None: ...


@functools.lru_cache
def pycuda() -> Any:
    """pycuda's driver module, initialised. Raises DeviceError where it isn't there or finds no device."""
    try:
        driver = importlib.import_module("pycuda.driver")
    except ImportError as e:
        raise DeviceError(f"CUDA needs pycuda and NVIDIA's driver ({e}): {INSTALL}") from None
    try:
        driver.init()
        count = driver.Device.count()
    except driver.Error as e:
        raise DeviceError(f"no CUDA device: {e}") from None
    if not count:
        raise DeviceError("no CUDA device: the driver knows of none (CUDA_VISIBLE_DEVICES hides devices)")
    return driver


class _Current:
    """Pushes a context and pops it again; any number of threads may do so at a time."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._context.push()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.pop()


class PycudaDriver:
    """Device number ``index``, through its primary context, which other libraries in the process share."""

    def __init__(self, index: int) -> None:
        self._cuda = cuda = pycuda()
        device = cuda.Device(index)
        self._context = device.retain_primary_context()
        attribute, key = device.get_attribute, cuda.device_attribute
        self.description = str(device.name())
        self.capability: tuple[int, int] = tuple(device.compute_capability())
        self.version: int = cuda.get_driver_version() // 1000
        self.memory = int(device.total_memory())
        self.processors: int = attribute(key.MULTIPROCESSOR_COUNT)
        self.max_local: int = attribute(key.MAX_THREADS_PER_BLOCK)
        self.local_bytes: int = attribute(key.MAX_SHARED_MEMORY_PER_BLOCK)
        self.errors: tuple[type[Exception], ...] = (cuda.Error,)
        self._current = _Current(self._context)
        with self._current:
            self._stream = cuda.Stream()
        self._graphs = open_graphs()
        self.graphs = self._graphs is not None

    def current(self) -> _Current:
        return self._current

    def allocate(self, nbytes: int) -> Any:
        try:
            return self._cuda.mem_alloc(nbytes)
        except self._cuda.MemoryError as e:
            raise MemoryError(str(e)) from None

    def free(self, memory: Any) -> None:
        with contextlib.suppress(*self.errors), self._current:  # at the process's end the driver may be gone
            memory.free()

    def upload(self, address: int, data: Array) -> None:
        self._cuda.memcpy_htod_async(address, data, self._stream)  # the driver copies pageable memory at once

    def download(self, data: Array, address: int) -> None:
        self._cuda.memcpy_dtoh_async(data, address, self._stream)
        self._stream.synchronize()

    def load(self, binary: bytes) -> Any:
        try:
            return self._cuda.module_from_buffer(binary)
        except self.errors as e:
            raise Damaged(str(e)) from None

    def function(self, module: Any, name: str, params: int) -> Any:
        return module.get_function(name).prepare("P" * params)

    def launch(self, function: Any, groups: int, local: int, addresses: Sequence[int]) -> None:
        function.prepared_async_call((groups, 1), (local, 1, 1), self._stream, *addresses)

    def event(self) -> Any:
        return self._cuda.Event().record(self._stream)

    def elapsed(self, begin: Any, end: Any) -> int:
        end.synchronize()
        return int(end.time_since(begin) * 1e6)

    def begin_capture(self) -> None:
        assert self._graphs is not None
        self._graphs.begin(self._stream.handle)

    def end_capture(self) -> int:
        assert self._graphs is not None
        return self._graphs.end(self._stream.handle)

    def start(self, graph: int) -> None:
        assert self._graphs is not None
        self._graphs.start(graph, self._stream.handle)

    def discard(self, graph: int) -> None:
        assert self._graphs is not None
        with self._current:
            self._graphs.discard(graph)


@dataclass(frozen=True)
class Graphs:
    """The driver's functions for graphs (CUDA driver API, "Graph Management"). Handles are integers."""

    library: Any

    def begin(self, stream: int) -> None:
        """Begin to capture a stream."""
        self._call("cuStreamBeginCapture_v2", ctypes.c_void_p(stream), ctypes.c_int(THREAD_LOCAL))

    def end(self, stream: int) -> int:
        """The executable graph of what a stream captured."""
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph))
        try:
            flags = ctypes.c_ulonglong(0)
            self._call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, flags)
        finally:
            self._call("cuGraphDestroy", graph)
        return executable.value or 0

    def start(self, executable: int, stream: int) -> None:
        self._call("cuGraphLaunch", ctypes.c_void_p(executable), ctypes.c_void_p(stream))

    def discard(self, executable: int) -> None:
        self._call("cuGraphExecDestroy", ctypes.c_void_p(executable))

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.library, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self.library.cuGetErrorString(status, ctypes.byref(text))
            raise DeviceError(f"{name} failed: {(text.value or b'').decode() or status}")


NEEDED = (
    "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphDestroy",
    "cuGraphLaunch", "cuGraphExecDestroy", "cuGetErrorString",
)  # fmt: skip


def open_graphs(names: Sequence[str] = ()) -> Graphs | None:
    """The driver's library, if it can do all that graphs need (CUDA 11.4 and later)."""
    standard = ("nvcuda.dll",) if os.name == "nt" else ("libcuda.so.1", "libcuda.so")
    for name in names or standard:
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(name)
            return Graphs(library) if all(hasattr(library, f) for f in NEEDED) else None
    return None
