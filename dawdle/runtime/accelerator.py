"""What devices share that have memory of their own and a driver with a compiler: OpenCL's and CUDA's."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from dawdle.codegen.target import Target
from dawdle.dtype import Array
from dawdle.errors import DeviceError, OutOfMemoryError
from dawdle.lazy.buffer import Storage
from dawdle.runtime.allocator import Buffer, size_text
from dawdle.runtime.compiled import CompiledDevice, Launcher
from dawdle.runtime.compiler import Source
from dawdle.runtime.modules import ModuleBatch, ModuleLibrary
from dawdle.runtime.plan import KernelStep, PlannedKernel
from dawdle.runtime.profile import Ceilings, remembered
from dawdle.runtime.trace import note_storage

RUNS = 5  # of the kernels that measure; the best counts


class Accelerator(CompiledDevice):
    """Memory is the device's; commands are asked of a driver and run behind Python.

    A backend sets ``allocator``, moves bytes with :meth:`upload` and :meth:`download`, makes launchers from
    loaded modules, and gives the two kernels that measure the device's ceilings.
    """

    runs_behind = True
    api: ClassVar[str]
    uploads_later: ClassVar[bool]  # whether an upload may still read the host's memory when it returns

    def __init__(self, name: str, description: str, library: ModuleLibrary[Any], target: Target) -> None:
        self.name = name
        self.description = description
        self.library = library
        self.store = library.store
        self.target = target
        self._process = os.getpid()

    def check_process(self) -> None:
        """Raises DeviceError in a process that was forked after the device was opened."""
        if os.getpid() != self._process:
            raise DeviceError(
                f"device {self.name} was opened before this process was forked, and {self.api} doesn't"
                " survive that; open it in the child only, or start processes with multiprocessing's 'spawn'"
            )

    # memory

    @abstractmethod
    def upload(self, data: Array, buffer: Buffer, offset: int) -> None:
        """Copy bytes into a buffer."""

    @abstractmethod
    def download(self, buffer: Buffer, offset: int, data: Array) -> None:
        """Copy bytes of a buffer to the host, when the kernels that compute them are done."""

    def from_numpy(self, array: Array, copy: bool = True) -> Storage:
        buffer = self.allocator.allocate(array.nbytes)
        later = copy and self.uploads_later
        self.write(buffer, 0, array.copy() if later else np.ascontiguousarray(array))
        note_storage(buffer)
        return buffer

    def write(self, buffer: Buffer, offset: int, array: Array) -> None:
        if array.nbytes:
            self.upload(array.reshape(-1).view(np.uint8), buffer, offset)

    def read(self, buffer: Buffer, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        result: Array = np.empty(shape, dtype)
        if result.nbytes:
            self.download(buffer, offset, result.reshape(-1).view(np.uint8))
        return result

    # kernels

    @abstractmethod
    def launcher(self, step: KernelStep, modules: dict[str, Any]) -> Launcher:
        """A stretch of kernels, from their loaded modules by name."""

    def batch(self) -> ModuleBatch:
        return ModuleBatch(self.library)

    def link(self, steps: Sequence[KernelStep]) -> list[Launcher]:
        modules = self.library.load(Source(k.name, k.source) for s in steps for k in s.kernels)
        return [self.launcher(step, modules) for step in steps]

    # measuring

    @abstractmethod
    def measuring(self) -> tuple[PlannedKernel, PlannedKernel]:
        """A kernel of float32 multiply-adds in registers that stores a little into its buffer, and one that
        copies its second buffer to its first.
        """

    def ceilings(self, again: bool = False) -> Ceilings:
        label = "".join(c if c.isalnum() else "-" for c in f"{self.description} {self.target.kind}")
        return remembered(self.store, label, self._measure, again)

    def _measure(self) -> Ceilings:
        peak, copy = self.measuring()
        step = KernelStep((peak, copy), (((0, 0),), ((0, 0), (1, 0))), ((0, 1), (1, 2)))
        (launcher,) = self.link([step])
        buffers = self._pair(copy.nbytes // 2)
        times = np.min([launcher.profile(buffers) for _ in range(RUNS)], axis=0) * 1e-9
        return Ceilings(self.target.threads, float(peak.flops / times[0]), float(copy.nbytes / times[1]))

    def _pair(self, nbytes: int) -> list[Buffer]:
        try:
            return [self.allocator.allocate(nbytes) for _ in range(2)]
        except OutOfMemoryError as e:
            needed = size_text(2 * nbytes)
            raise OutOfMemoryError(f"measuring how fast {self.name} is needs {needed}: {e}") from None
