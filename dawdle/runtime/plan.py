"""Plans: what a graph's kernels are, in which order they run, and where every value lies. Plain data without
storages.

A plan's buffers are numbered slots: first the storages of the graph's leaves, then fresh buffers for its
outputs, last the arena that holds all temporaries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dawdle import config
from dawdle.codegen.generate import VERIFIED, GeneratedKernel, generate
from dawdle.codegen.target import Target
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.check import Bounds
from dawdle.lazy.memory import plan_memory
from dawdle.lazy.ops import Op
from dawdle.lazy.plan import Group, HostCall, Schedule
from dawdle.lazy.schedule import schedule
from dawdle.lazy.simplify import simplify
from dawdle.runtime.cache import Cache
from dawdle.runtime.structure import Key, canonical

GENERATED = 256  # kernels that are kept for other plans

_generated: Cache[tuple[Target, bool, Key], GeneratedKernel] = Cache("generated kernels", GENERATED)

Place = tuple[int, int]  # slot, offset in bytes


@dataclass(frozen=True)
class PlannedKernel:
    """What has to be known of a kernel to compile it, call it and say how fast it was."""

    name: str
    source: str
    scratch: int
    parallel: bool
    flops: int
    nbytes: int
    space: tuple[int, ...]
    launch: tuple[int, int] | None = None  # of a GPU kernel: groups, and work-items in each


@dataclass(frozen=True)
class Origin:
    """How a kernel came about, for reports."""

    kernel: GeneratedKernel
    reasons: tuple[str, ...]  # why its outputs are in memory


@dataclass(frozen=True)
class KernelStep:
    """Kernels that run in one call. ``phases`` are (begin, end): kernels that don't depend on each other."""

    kernels: tuple[PlannedKernel, ...]
    places: tuple[tuple[Place, ...], ...]  # of each kernel's parameters
    phases: tuple[tuple[int, int], ...]

    @property
    def scratch(self) -> int:
        return max((k.scratch for k in self.kernels), default=0)

    def one_by_one(self) -> KernelStep:
        """The same, each kernel in a phase of its own, so that it can be timed."""
        return replace(self, phases=tuple((i, i + 1) for i in range(len(self.kernels))))


@dataclass(frozen=True)
class Value:
    """An array in memory, as host functions see it."""

    place: Place
    node: LazyBuffer  # without operands; for shape, dtype and, of an output, the function


@dataclass(frozen=True)
class HostStep:
    """A CUSTOM node's function, called between kernels."""

    output: Value
    inputs: tuple[Value, ...]


@dataclass(frozen=True)
class Plan:
    """Everything that has to be known to compute a graph's outputs from the storages of its leaves."""

    leaves: int
    fresh: tuple[int, ...]  # bytes of each fresh buffer
    arena: int
    steps: tuple[KernelStep | HostStep, ...]
    outputs: tuple[int, ...]  # the slot that holds each output
    checks: tuple[Bounds, ...] = ()  # what the flags mean that are the last leaves and the last outputs

    @property
    def kernels(self) -> list[PlannedKernel]:
        return [k for s in self.steps if isinstance(s, KernelStep) for k in s.kernels]


class _Places:
    """Gives every materialised value of a schedule its place."""

    def __init__(self, result: Schedule, leaves: Sequence[LazyBuffer]) -> None:
        self.aliases = result.aliases
        self.memory = plan_memory(result)
        self.slots = {id(node): i for i, node in enumerate(leaves)}
        self.fresh: list[int] = []
        self.outputs = []
        for node in result.outputs:
            holder = self.holder(node)
            if id(holder) not in self.slots:
                self.slots[id(holder)] = len(leaves) + len(self.fresh)
                self.fresh.append(holder.nbytes)
            self.outputs.append(self.slots[id(holder)])
        self.arena_slot = len(leaves) + len(self.fresh)

    def holder(self, node: LazyBuffer) -> LazyBuffer:
        """The node whose memory holds a value."""
        while id(node) in self.aliases:
            node = self.aliases[id(node)]
        return node

    def of(self, node: LazyBuffer) -> Place:
        node = self.holder(node)
        slot = self.slots.get(id(node))
        return (slot, 0) if slot is not None else (self.arena_slot, self.memory.offsets[id(node)])


def build_plan(
    outputs: Sequence[LazyBuffer],
    leaves: Sequence[LazyBuffer],
    target: Target,
    ready: Callable[[GeneratedKernel], None] = lambda kernel: None,
) -> tuple[Plan, list[Origin]]:
    """Schedule a graph of one device, generate its kernels and place its values; also where each kernel comes
    from.

    ``ready`` is called with each kernel as soon as its source is there.
    """
    result = schedule(simplify(outputs), target.max_params)
    places = _Places(result, leaves)
    steps: list[KernelStep | HostStep] = []
    origins: list[Origin] = []
    groups: list[Group] = []
    known: set[str] = set()
    verified = config.current().debug >= VERIFIED

    def kernel_of(g: Group) -> GeneratedKernel:
        # layers that repeat have the same kernels, and so have graphs that differ in a slice
        key = (target, verified, (g.space, canonical(g.outputs, g.inputs)[0]))
        kernel = _generated.get(key) or _generated.put(key, generate(g, target))
        if kernel.name not in known:
            known.add(kernel.name)
            ready(kernel)
        return kernel

    def end_of_kernels() -> None:
        if groups:
            generated = [kernel_of(g) for g in groups]
            origins.extend(Origin(k, g.reasons) for k, g in zip(generated, groups, strict=True))
            steps.append(_kernel_step(generated, groups, places))
            groups.clear()

    for step in result.steps:
        if isinstance(step, Group):
            groups.append(step)
            continue
        assert isinstance(step, HostCall), f"{step} within one device's schedule"
        end_of_kernels()
        steps.append(HostStep(_value(step.output, places), tuple(_value(x, places) for x in step.inputs)))
    end_of_kernels()
    arena = max(places.memory.size, 1) if places.memory.offsets else 0  # what has no elements lies in it, too
    plan = Plan(len(leaves), tuple(places.fresh), arena, tuple(steps), tuple(places.outputs))
    return plan, origins


def _value(node: LazyBuffer, places: _Places) -> Value:
    arg = node.arg if node.op is Op.CUSTOM else None
    return Value(places.of(node), LazyBuffer(node.op, (), arg, node.shape, node.dtype, node.device))


def _kernel_step(
    generated: Sequence[GeneratedKernel], groups: Sequence[Group], places: _Places
) -> KernelStep:
    kernels = tuple(
        PlannedKernel(
            k.name, k.source, k.scratch, k.parallel, k.flops, k.nbytes, tuple(g.space), k.launch
        )
        for k, g in zip(generated, groups, strict=True)
    )
    at = tuple(tuple(places.of(n) for n in (*g.outputs, *g.inputs)) for g in groups)
    writes = [[_extent(places, n) for n in g.outputs] for g in groups]
    reads = [[_extent(places, n) for n in g.inputs] for g in groups]
    return KernelStep(kernels, at, tuple(independent(writes, reads)))


Extent = tuple[int, int, int]  # slot, first and last byte


def _extent(places: _Places, node: LazyBuffer) -> Extent:
    slot, offset = places.of(node)
    return slot, offset, offset + max(node.nbytes, 1)


def independent(
    writes: Sequence[Sequence[Extent]], reads: Sequence[Sequence[Extent]]
) -> list[tuple[int, int]]:
    """Cut a sequence of kernels into runs, none of which touches what another of its run writes."""
    phases = []
    begin = 0
    for i in range(1, len(writes)):
        if any(
            _touch(writes[i], reads[j]) or _touch(writes[j], (*writes[i], *reads[i])) for j in range(begin, i)
        ):
            phases.append((begin, i))
            begin = i
    return [*phases, (begin, len(writes))]


def _touch(a: Sequence[Extent], b: Sequence[Extent]) -> bool:
    return any(x[0] == y[0] and x[1] < y[2] and y[1] < x[2] for x in a for y in b)
