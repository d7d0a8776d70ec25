"""Buffers from a cache of freed ones: 64-byte aligned memory of the host, or another device's.

Fresh host memory costs a page fault for every 4 KiB, which on large outputs takes longer than computing them,
and fresh memory of a GPU makes it wait. So memory whose last reference has died is kept and handed out again.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dawdle import config
from dawdle.dtype import Array
from dawdle.errors import OutOfMemoryError

ALIGN = 64
HUGE = 2 << 20  # size of a huge page
CACHED_SHARE = 4  # at most one part in so many of the machine's memory lies in the cache


@dataclass(frozen=True)
class Chunk:
    """``capacity`` bytes at ``address``, inside of the memory that ``owner`` keeps alive.

    Where memory has no addresses, ``address`` is a number that no other chunk of the device ever had, and
    ``start`` says at which byte of the owner it begins.
    """

    address: int
    capacity: int
    owner: Any
    start: int = 0


class Buffer:
    """``nbytes`` of memory at ``address``. When the object dies, memory that came from an allocator returns
    to it. A part of the buffer ``whole`` keeps that one alive.
    """

    __slots__ = ("__weakref__", "_home", "address", "chunk", "nbytes", "whole")

    def __init__(
        self, chunk: Chunk, nbytes: int, home: deque[Chunk] | None, whole: Buffer | None = None
    ) -> None:
        self.chunk = chunk
        self.address = chunk.address
        self.nbytes = nbytes
        self.whole = whole
        self._home = home

    def __del__(self) -> None:
        # may run in any thread and in the middle of anything, also of the allocator: so no lock, only an
        # atomic append
        if self._home is not None:
            self._home.append(self.chunk)

    def part(self, offset: int, nbytes: int, number: int | None = None) -> Buffer:
        """``nbytes`` from ``offset`` on; ``number`` is their address where memory has none."""
        chunk = self.chunk
        address = chunk.address + offset if number is None else number
        place = Chunk(address, 0, chunk.owner, chunk.start + offset)
        return Buffer(place, nbytes, None, self.whole or self)

    def array(self, dtype: np.dtype[Any], shape: tuple[int, ...], readonly: bool = True) -> Array:
        """An array on this memory, the host's, which it keeps alive; only who has just allocated the buffer
        may write to it.
        """
        return np.asarray(_Window(self, dtype, shape, readonly))


class _Window:
    """Makes an ndarray on a buffer's memory whose base is the buffer."""

    def __init__(
        self, buffer: Buffer, dtype: np.dtype[Any], shape: tuple[int, ...], readonly: bool = True
    ) -> None:
        self.buffer = buffer
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": dtype.str,
            "data": (buffer.address, readonly),
            "strides": None,
        }


def adopt(array: Array) -> Buffer:
    """A buffer on the memory of a C-contiguous array, which it keeps alive."""
    assert array.flags.c_contiguous
    return Buffer(Chunk(array.__array_interface__["data"][0], 0, array), array.nbytes, None)


def size_class(nbytes: int) -> int:
    """Bytes that are really reserved: a multiple of 64, of 1/8 of the power of two below, so that sizes
    nearby share.
    """
    step = max(ALIGN, 1 << max(nbytes.bit_length() - 4, 0))
    return max(ALIGN, -(-nbytes // step) * step)


@dataclass(frozen=True)
class MemoryStats:
    """Bytes in live buffers, bytes kept for reuse, the most that was live at once, and how many allocations
    were reused.
    """

    live: int
    cached: int
    peak: int
    reused: int
    fresh: int


class Allocator:
    """A caching allocator of the memory that ``reserve`` gives, raising MemoryError where there is none left.

    ``total`` bytes of that memory, named ``memory`` in messages, exist. With ``repeatable`` the lowest
    address is reused first, so that a loop soon sees the same memory again; without, what was used last and
    may still lie in a CPU's cache. Safe to use from several threads.
    """

    def __init__(
        self,
        name: str,
        reserve: Callable[[int], Chunk] | None = None,
        total: int = 0,
        memory: str = "the machine's memory",
        repeatable: bool = False,
    ) -> None:
        self.name = name
        self._fresh_chunk = reserve or fresh
        self._memory = memory
        self._repeatable = repeatable
        self._lock = threading.Lock()
        self._returned: deque[Chunk] = deque()
        self._free: dict[int, list[Chunk]] = {}
        self._live = self._cached = self._peak = self._reused = self._fresh = 0
        self._most_cached = (total or physical_memory()) // CACHED_SHARE
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._unlock)

    def _unlock(self) -> None:
        self._lock = threading.Lock()  # another thread may have held it when the process forked

    def allocate(self, nbytes: int) -> Buffer:
        """An uninitialised buffer. Raises OutOfMemoryError if the limit or the machine doesn't allow it."""
        return self.allocate_all(((size_class(nbytes), nbytes),))[0]

    def allocate_all(self, sizes: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Several buffers at once: all or, with OutOfMemoryError, none. ``sizes`` are (size_class(nbytes),
        nbytes).
        """
        buffers = []
        returned = self._returned
        with self._lock:
            if returned:
                self._collect()
            for capacity, nbytes in sizes:
                free = self._free.get(capacity)
                if free:
                    chunk = free.pop()
                    self._cached -= capacity
                    self._reused += 1
                else:
                    chunk = self._reserve(capacity, nbytes)
                    self._fresh += 1
                self._live += capacity
                buffers.append(Buffer(chunk, nbytes, returned))
            if self._live > self._peak:
                self._peak = self._live
        return buffers

    def _collect(self) -> None:
        """Put what has been returned into the free lists."""
        while self._returned:
            chunk = self._returned.popleft()
            self._live -= chunk.capacity
            if self._cached + chunk.capacity <= self._most_cached:
                free = self._free.setdefault(chunk.capacity, [])
                if self._repeatable:
                    insort(free, chunk, key=lambda c: -c.address)
                else:
                    free.append(chunk)
                self._cached += chunk.capacity

    def _reserve(self, capacity: int, nbytes: int) -> Chunk:
        limit = config.current().memory_limit
        if limit and self._live + self._cached + capacity > limit:
            self._drop()
            if self._live + capacity > limit:
                raise self._failure(nbytes, f"the limit of {size_text(limit)} (DAWDLE_MEMORY_LIMIT)")
        try:
            return self._fresh_chunk(capacity)
        except MemoryError:
            cached = self._cached
            self._drop()
            try:
                return self._fresh_chunk(capacity)
            except MemoryError:
                raise self._failure(nbytes, self._memory, cached) from None

    def _failure(self, nbytes: int, bound: str, cached: int = 0) -> OutOfMemoryError:
        given_back = f", {size_text(cached)} of cache were given back" if cached else ""
        return OutOfMemoryError(
            f"{self.name}: {size_text(nbytes)} more would exceed {bound}: {size_text(self._live)} are held by"
            f" live values{given_back}; let go of values, or use a smaller batch"
        )

    def _drop(self) -> None:
        self._free.clear()
        self._cached = 0

    def empty_cache(self) -> None:
        """Give the memory that no value uses back to the system."""
        with self._lock:
            self._collect()
            self._drop()

    def stats(self) -> MemoryStats:
        with self._lock:
            self._collect()
            return MemoryStats(self._live, self._cached, self._peak, self._reused, self._fresh)


def fresh(capacity: int) -> Chunk:
    """New memory from the system: small blocks from the heap, big ones as pages of their own, huge where
    possible.
    """
    if capacity < HUGE:
        block = np.empty(capacity + ALIGN, np.uint8)
        address = block.__array_interface__["data"][0]
        return Chunk(-(-address // ALIGN) * ALIGN, capacity, block)
    try:
        pages = mmap.mmap(-1, capacity + HUGE)
    except (OSError, ValueError, OverflowError) as e:
        raise MemoryError(str(e)) from None
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without huge pages
            pages.madvise(mmap.MADV_HUGEPAGE)
    address = np.frombuffer(pages, np.uint8).__array_interface__["data"][0]
    return Chunk(-(-address // HUGE) * HUGE, capacity, pages)


def physical_memory() -> int:
    """Bytes of the machine's memory; 16 GiB where the system doesn't say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 16 << 30


def size_text(nbytes: float) -> str:
    """``1536`` as ``1.5 KiB``."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if nbytes < 1024:
            return (
                f"{nbytes:.0f} {unit}" if unit == "bytes" or nbytes == int(nbytes) else f"{nbytes:.1f} {unit}"
            )
        nbytes /= 1024
    return f"{nbytes:.1f} TiB"
