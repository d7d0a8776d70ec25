"""What the executor needs of a device for which code is generated. A backend implements this, and no more.

Everything above is shared: schedules and plans with their caches in memory and on disk, arenas, replays of
jitted functions, and DEBUG's output.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from dawdle.codegen.target import Target
from dawdle.dtype import Array
from dawdle.errors import DTypeError
from dawdle.runtime.allocator import Allocator, Buffer
from dawdle.runtime.base import Device
from dawdle.runtime.compiler import Source
from dawdle.runtime.plan import KernelStep
from dawdle.runtime.profile import Ceilings
from dawdle.runtime.store import KernelStore


class Launcher(Protocol):
    """A plan's stretch of kernels, compiled and ready to run on buffers, one for each of the plan's slots."""

    def run(self, buffers: Sequence[Buffer]) -> None:
        """Start the kernels in order. They may still be running afterwards; what is asked of the device later
        waits for them.
        """

    def profile(self, buffers: Sequence[Buffer]) -> list[int]:
        """Run the kernels one by one to their ends; gives the nanoseconds that each took."""


class Checked(Protocol):
    """Something that has run on a device and may have met an index that is out of range."""

    def verify(self) -> None:
        """Raise IndexingError if it has, once."""


class Batch(Protocol):
    """Kernels' sources that come one after the other and are compiled by the end of a ``with`` block."""

    def add(self, source: Source) -> None: ...


class CompiledDevice(Device):
    """A device that runs generated code. Storage is a :class:`Buffer` of its allocator."""

    target: Target
    allocator: Allocator
    store: KernelStore  # where its kernels and plans lie on disk
    simulated: bool = False  # so slow that nobody asks how fast it is
    runs_behind: ClassVar[bool] = False  # kernels may still be running when a launcher returns
    part_alignment: ClassVar[int] = 1  # of bytes, at which kernels can read values inside of a buffer

    @cached_property
    def unread(self) -> set[Checked]:
        """What has run with checks that nobody has asked for yet."""
        return set()

    def verify(self) -> None:
        """Raise IndexingError if an index was out of range in what has run so far. Waits for it."""
        while self.unread:
            self.unread.pop().verify()

    @abstractmethod
    def batch(self) -> AbstractContextManager[Batch]:
        """Takes sources while a plan is made; raises CompileError at its end."""

    @abstractmethod
    def link(self, steps: Sequence[KernelStep]) -> Sequence[Launcher]:
        """Load all kernels of a plan's steps, compiling those that aren't known yet."""

    def part(self, buffer: Buffer, offset: int, nbytes: int) -> Buffer:
        """A piece of a buffer as a storage of its own, without a copy. It keeps the buffer alive."""
        return buffer.part(offset, nbytes)

    @abstractmethod
    def read(self, buffer: Buffer, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """Elements that begin ``offset`` bytes into a buffer; not a copy where the memory is the host's.

        Waits for the kernels that compute them.
        """

    @abstractmethod
    def write(self, buffer: Buffer, offset: int, array: Array) -> None:
        """Put a C-contiguous array's elements there. ``array`` won't be written to any more."""

    @abstractmethod
    def ceilings(self, again: bool = False) -> Ceilings:
        """How fast the device is at most, measured once; ``again`` measures once more."""

    def assembly(self, source: Source) -> str:
        """The kernel in the device's own instructions, for DEBUG=7."""
        return "no assembly is known of this device"

    def view(self, storage: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        array = self._value(storage, dtype, shape)
        array.flags.writeable = False
        return array

    def to_numpy(self, storage: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        array = self._value(storage, dtype, shape)
        return array if self.runs_behind else array.copy()

    def _value(self, storage: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        assert isinstance(storage, Buffer)
        array = self.read(storage, 0, dtype, shape)
        self.verify()
        return array


def no_fp64(device: str, what: str) -> DTypeError:
    """The error for a device that can't compute in double precision."""
    return DTypeError(
        f"{what} is float64, which device {device} can't compute (an OpenCL device without cl_khr_fp64);"
        " cast to float32 with .float(), or move to another device with .to('CPU')"
    )
