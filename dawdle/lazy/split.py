"""Large reductions to a few elements, rewritten in two stages so that many threads can share the first."""
from __future__ import annotations

from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.facts import Fact
from dawdle.lazy.ops import COMBINE

FEW = 16  # outputs that too few threads could share
PARTS = 128  # at most so many partial results; fixed, so that results don't depend on the number of threads
LEAST_PARTS = 16
LEAST_WORK = 1 << 17
LEAST_STEPS = 256


def is_large(node: LazyBuffer, fact: Fact) -> bool:
    """Whether a reduction is worth two stages."""
    steps = node.src[0].size // max(node.size, 1)
    return node.size < FEW and steps >= LEAST_STEPS and fact.work * node.size >= LEAST_WORK


def _divisor(n: int, limit: int) -> int:
    """The largest divisor of ``n`` that is at most ``limit``."""
    return max(d for d in range(1, min(n, limit) + 1) if n % d == 0)


def split(node: LazyBuffer) -> LazyBuffer:
    """SUM(x) -> SUM(SUM(reshape(x))): the second stage is left whole leading axes, then a part of one."""
    (x,) = node.src
    parts, later = 1, list[int]()
    for axis in node.arg:
        n = x.shape[axis]
        if parts * n > PARTS:
            return _split_axis(node, later, axis, parts)
        parts *= n
        later.append(axis)
    return node


def _split_axis(node: LazyBuffer, later: list[int], axis: int, parts: int) -> LazyBuffer:
    (x,) = node.src
    n = x.shape[axis]
    count = _divisor(n, PARTS // parts)
    if parts * count < LEAST_PARTS:
        piece = max(PARTS // parts // 2, 1)
        whole = n - n % piece
        if n % piece and whole >= piece * 4:
            main, rest = (_along(x, axis, *ends) for ends in ((0, whole), (whole, n)))
            first = split(build.reduce(node.op, main, node.arg))
            return build.binary(COMBINE[node.op], first, build.reduce(node.op, rest, node.arg))
    if parts * count == 1:
        return node
    shape = (*x.shape[:axis], count, n // count, *x.shape[axis + 1 :])
    moved = [a + (a > axis) for a in node.arg if a not in (*later, axis)]
    partial = build.reduce(node.op, build.reshape(x, shape), [axis + 1, *moved])
    return build.reshape(build.reduce(node.op, partial, [*later, axis]), node.shape)


def _along(x: LazyBuffer, axis: int, start: int, stop: int) -> LazyBuffer:
    return build.slice_(x, [(start, stop, 1) if a == axis else (0, n, 1) for a, n in enumerate(x.shape)])
