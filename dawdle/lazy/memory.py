"""One arena for all temporaries of a schedule: those that are never needed together may share memory."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dawdle.dtype import Array
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import Op
from dawdle.lazy.plan import Group, Schedule, Step, Transfer

ALIGNMENT = 64  # a cache line, and the widest vector


@dataclass(frozen=True)
class Lifetime:
    """A temporary and the steps, first and last, during which its memory is in use."""

    node: LazyBuffer
    first: int
    last: int

    @property
    def nbytes(self) -> int:
        """Its size, rounded up to ALIGNMENT."""
        return -(-self.node.nbytes // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class MemoryPlan:
    """Where each temporary lies: ``offsets`` by the id of its node, in an arena of ``size`` bytes.

    Values on several devices have an arena of that size on each.
    """

    offsets: dict[int, int]
    size: int


def written(step: Step) -> tuple[LazyBuffer, ...]:
    """The nodes whose memory a step fills."""
    return step.outputs if isinstance(step, Group) else (step.output,)


def read(step: Step) -> tuple[LazyBuffer, ...]:
    """The nodes that a step reads."""
    return (step.input,) if isinstance(step, Transfer) else step.inputs


def lifetimes(schedule: Schedule) -> list[Lifetime]:
    """Those of all temporaries: values that are computed but aren't outputs."""
    kept = {id(schedule.aliases.get(id(n), n)) for n in schedule.outputs}
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    nodes: dict[int, LazyBuffer] = {}
    for number, step in enumerate(schedule.steps):
        for node in written(step):
            if id(node) not in kept:
                nodes[id(node)], first[id(node)], last[id(node)] = node, number, number
        for node in read(step):
            held = schedule.aliases.get(id(node), node)
            if held.op is not Op.BUFFER:
                last[id(held)] = number
    return [Lifetime(node, first[i], last[i]) for i, node in nodes.items()]


def plan_memory(schedule: Schedule) -> MemoryPlan:
    """Give every temporary a place: the largest first, each in the tightest gap that is free all its life."""
    offsets: dict[int, int] = {}
    size = 0
    by_device: dict[str, list[Lifetime]] = {}
    for life in lifetimes(schedule):
        by_device.setdefault(life.node.device, []).append(life)
    for lives in by_device.values():
        lives.sort(key=lambda x: -x.nbytes)  # stable: equal schedules get equal plans
        # one row for each temporary placed so far: first and last step, begin and end in the arena
        rows = np.zeros((len(lives), 4), dtype=np.int64)
        for i, life in enumerate(lives):
            placed = rows[:i]
            alive = placed[(placed[:, 0] <= life.last) & (life.first <= placed[:, 1]), 2:]
            begin = _tightest_gap(alive, life.nbytes)
            rows[i] = life.first, life.last, begin, begin + life.nbytes
            offsets[id(life.node)] = begin
            size = max(size, begin + life.nbytes)
    return MemoryPlan(offsets, size)


def _tightest_gap(alive: Array, nbytes: int) -> int:
    """Where the smallest gap of ``nbytes`` or more between the intervals ``alive`` begins, or their end."""
    ordered = alive[np.argsort(alive[:, 0], kind="stable")]
    ends = np.maximum.accumulate(np.concatenate(([0], ordered[:, 1])))
    gaps = ordered[:, 0] - ends[:-1]
    wide = np.flatnonzero(gaps >= nbytes)
    return int(ends[wide[np.argmin(gaps[wide])]] if wide.size else ends[-1])
