"""The batches that random numbers are being drawn for: which part of a stream each of their elements gets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dawdle.dtype import uint32
from dawdle.errors import TransformError
from dawdle.lazy import build
from dawdle.lazy.batch import Batch
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import Op

RANDOMNESS = ("error", "different", "same")


class _Active(threading.local):
    def __init__(self) -> None:
        self.lanes: list[tuple[Batch, str]] = []


_active = _Active()


@contextmanager
def lane(batch: Batch, randomness: str) -> Iterator[None]:
    """Random numbers drawn in this block are for the elements of ``batch``."""
    _active.lanes.append((batch, randomness))
    try:
        yield
    finally:
        _active.lanes.pop()


def share(n: int, device: str) -> tuple[LazyBuffer | None, int]:
    """(the place in the stream where the ``n`` numbers for an element begin, None for 0; how many are drawn
    for all elements). Raises TransformError where random numbers may not be drawn.
    """
    offset: LazyBuffer | None = None
    count = n
    for batch, randomness in reversed(_active.lanes):
        if randomness == "error":
            raise TransformError(
                "vmap: random numbers are drawn inside; pass randomness='different' for others for each "
                "element, or randomness='same'"
            )
        if randomness == "different":
            step = build.const(count, uint32, device)
            begin = build.binary(Op.MUL, batch.number(device), step)
            offset = begin if offset is None else build.binary(Op.ADD, offset, begin)
            count *= batch.size
    return offset, count
