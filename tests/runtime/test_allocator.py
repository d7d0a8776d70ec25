"""Buffers, the cache of freed memory, and running out of it."""

import gc
import threading

import numpy as np
import pytest

from dawdle import config
from dawdle.errors import OutOfMemoryError
from dawdle.runtime.allocator import ALIGN, Allocator, adopt, size_class, size_text


@pytest.fixture
def allocator() -> Allocator:
    return Allocator("TEST")


@pytest.mark.parametrize("nbytes", [0, 1, 64, 1000, 4096, 1 << 20, (4 << 20) + 4, 33 << 20])
def test_buffers_are_aligned_and_hold_what_is_written(allocator, nbytes):
    buffer = allocator.allocate(nbytes)
    assert buffer.address % ALIGN == 0 and buffer.nbytes == nbytes
    buffer.array(np.dtype(np.uint8), (nbytes,), readonly=False)[...] = 7
    assert (buffer.array(np.dtype(np.uint8), (nbytes,)) == 7).all()


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 1000, 1025, 10**6, 2**30 + 1, 10**12])
def test_size_classes_waste_at_most_an_eighth(nbytes):
    assert nbytes <= size_class(nbytes) <= max(nbytes * 9 / 8, nbytes + ALIGN)
    assert size_class(nbytes) % ALIGN == 0 and size_class(size_class(nbytes)) == size_class(nbytes)


def test_freed_memory_is_reused(allocator):
    first = allocator.allocate(5000)
    address = first.address
    other = allocator.allocate(5000)
    assert other.address != address
    del first
    again = allocator.allocate(5001)  # of the same size class
    assert again.address == address
    stats = allocator.stats()
    assert (stats.reused, stats.fresh, stats.live) == (1, 2, 2 * size_class(5000))


def test_a_view_keeps_memory_from_being_reused(allocator):
    buffer = allocator.allocate(400)
    buffer.array(np.dtype(np.float32), (100,), readonly=False)[...] = 3
    view = buffer.array(np.dtype(np.float32), (10, 10))[2:]
    del buffer
    gc.collect()
    other = allocator.allocate(400)
    other.array(np.dtype(np.float32), (100,), readonly=False)[...] = 4
    assert (view == 3).all()
    with pytest.raises(ValueError, match="read-only"):
        view[0, 0] = 1
    del view
    assert allocator.stats().cached == size_class(400)


def test_an_adopted_array_stays_alive():
    array = np.arange(1000, dtype=np.int64)
    buffer = adopt(array)
    assert buffer.address == array.ctypes.data
    del array
    gc.collect()
    assert buffer.array(np.dtype(np.int64), (1000,)).sum() == 499500


def test_the_limit_says_what_was_asked_and_what_is_held(allocator):
    with config.override(memory_limit=1 << 20):
        held = allocator.allocate(700_000)
        with pytest.raises(
            OutOfMemoryError, match=r"TEST: 488.3 KiB more would exceed the limit of 1 MiB .*704 KiB are held"
        ):
            allocator.allocate(500_000)
        assert held.nbytes == 700_000


def test_the_cache_is_emptied_before_giving_up(allocator):
    with config.override(memory_limit=1 << 20):
        del_me = allocator.allocate(700_000)
        del del_me
        assert allocator.stats().cached > 0
        kept = allocator.allocate(900_000)
        assert allocator.stats().cached == 0 and kept.nbytes == 900_000


def test_a_failed_group_of_allocations_holds_nothing(allocator):
    with config.override(memory_limit=1 << 20):
        with pytest.raises(OutOfMemoryError):
            allocator.allocate_all([(size_class(n), n) for n in (500_000, 400_000, 300_000)])
        assert allocator.stats().live == 0


def test_more_than_the_machine_has(allocator):
    with pytest.raises(OutOfMemoryError, match=r"TEST: 1024.0 TiB more would exceed the machine's memory"):
        allocator.allocate(1 << 50)
    assert allocator.stats().live == 0


def test_many_threads(allocator):
    failures = []

    def work(mark: int) -> None:
        kept = []
        for i in range(400):
            buffer = allocator.allocate(64 + 64 * (i % 5))
            view = buffer.array(np.dtype(np.uint8), (64,), readonly=False)
            view[...] = mark
            kept.append(view)
            if len(kept) > 7:
                kept.pop(0)
            if not all((k == mark).all() for k in kept):
                failures.append(mark)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    assert allocator.stats().live == 0


def test_empty_cache_gives_memory_back(allocator):
    allocator.allocate(10_000)
    allocator.empty_cache()
    assert allocator.stats().cached == 0


@pytest.mark.parametrize(
    ("n", "text"), [(0, "0 bytes"), (1536, "1.5 KiB"), (1 << 20, "1 MiB"), (3 << 40, "3.0 TiB")]
)
def test_size_text(n, text):
    assert size_text(n) == text
