"""What ``@jit`` keeps of a trace: the computation, where each of its inputs comes from and where each result
goes.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from dawdle.dtype import DType, from_storage, to_storage
from dawdle.errors import JitError
from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer, Storage
from dawdle.lazy.interpret import evaluate
from dawdle.lazy.ops import Op
from dawdle.runtime.compiled import CompiledDevice
from dawdle.runtime.device import get_device
from dawdle.runtime.executor import prepare, realize
from dawdle.runtime.reach import Reach
from dawdle.runtime.signature import Hole, fill, is_handle, template
from dawdle.runtime.structure import canonical
from dawdle.runtime.trace import Cell, Handle, Recorder

Computation = Callable[[Sequence[Any]], Sequence[Storage]]  # from the leaves' storages to the outputs'


@dataclass(frozen=True)
class Source:
    """Where a leaf's storage is found at each call; exactly one of the fields is set.

    argument: in a tensor of the call · handle: in what a tensor outside holds then · cell: in a tensor that
    is an attribute then · constant: always this one.
    """

    argument: int | None = None
    handle: Handle | None = None
    cell: Cell | None = None
    constant: Storage | None = None


@dataclass(frozen=True)
class Guard:
    """A replay reads ``handle`` as an array of this kind; another kind needs another trace."""

    find: Callable[[], Handle]
    shape: tuple[int, ...]
    dtype: DType
    device: str


class Trace:
    """The end of a trace, sorted out: which handles are state, and what has to be computed."""

    def __init__(
        self,
        recorder: Recorder,
        arguments: Sequence[Handle],
        leaves: Sequence[LazyBuffer],
        result: Any,
        reached: Reach,
    ) -> None:
        self.recorder = recorder
        self.arguments = arguments
        self.leaves = leaves  # what the arguments held during the trace
        self.reached = reached
        self.result = result
        self.results: list[Handle] = []
        template(result, self._collect)
        recorder.read(self.results)
        realize(recorder.outside())  # they become the leaves at which the graph ends
        # arguments that the function can reach without being given them are outside state
        self.pinned = [(i, h) for i, h in enumerate(arguments) if h in reached]
        self.number = {id(h): i for i, h in enumerate(arguments) if h not in reached}
        self.state: list[tuple[Handle, LazyBuffer]] = []
        self.local: list[Handle] = []  # made during the trace
        for handle, before in recorder.rebound():
            if id(handle) in self.number:
                continue
            if recorder.is_new(handle):
                self.local.append(handle)
            else:
                self.state.append((handle, before))
        # those of the arguments are in the signature
        self.flags = [f for f in recorder.flags() if id(f.owner()) not in self.number]
        self.cells = [c for c in recorder.cells.values() if c.owner() is not None]
        if any(c.guarded and id(c.before) in self.number for c in self.cells):
            raise JitError(
                "an argument of a jitted function is also the gradient that the function reads as another"
                " tensor's attribute; pass a copy (grad.clone()), or read the attribute only"
            )

    def _collect(self, handle: Handle) -> Hole:
        self.results.append(handle)
        return Hole("output", None)

    def realize(self) -> None:
        """Compute everything that the trace left behind, as if there were no jit."""
        written = [handle for handle, _ in self.recorder.rebound()]
        grads = [g for c in self.cells if (g := c.value()) is not None]
        realize([h.lazy for h in (*self.results, *written, *grads)])

    def outputs(self) -> dict[LazyBuffer, int]:
        """The nodes whose values a call has to give, numbered."""
        handles = [*self.results, *(h for h, _ in self.state), *self.rebound_arguments()]
        nodes = [h.lazy for h in handles] + [g.lazy for c in self.cells if (g := c.value()) is not None]
        return {node: i for i, node in enumerate(dict.fromkeys(nodes))}

    def rebound_arguments(self) -> list[Handle]:
        both = zip(self.arguments, self.leaves, strict=True)
        return [h for h, leaf in both if id(h) in self.number and h.lazy is not leaf]

    def sources(self, leaves: Sequence[LazyBuffer]) -> list[Source]:
        """Where each of the graph's leaves comes from."""
        found: dict[LazyBuffer, Source] = {}
        for node, ref in self.recorder.readers.items():
            handle = ref()
            if handle is not None:
                found[node] = Source(handle=handle)
        for cell in self.cells:
            if cell.lazy is not None:
                found[cell.lazy] = Source(cell=cell.stripped())
        found.update((before, Source(handle=handle)) for handle, before in self.state)
        found.update((self.leaves[i], Source(argument=i)) for i in self.number.values())
        unknown = [x for x in leaves if x not in found and id(x.arg) not in self.recorder.made]
        found.update((node, Source(handle=handle)) for node, handle in only_holders(unknown).items())
        return [found.get(node) or Source(constant=node.arg) for node in leaves]


def only_holders(nodes: Sequence[LazyBuffer]) -> dict[LazyBuffer, Handle]:
    """For each node the one living handle that holds it, if there is exactly one.

    An operation may have seen a value only through a temporary handle (``p.detach()``); that of the user is
    meant.
    """
    if not nodes:
        return {}
    holders: dict[LazyBuffer, list[Handle]] = {node: [] for node in nodes}
    for referrer in gc.get_referrers(*nodes):
        owners = [referrer] if is_handle(referrer) else []
        if isinstance(referrer, dict) and isinstance(referrer.get("lazy"), LazyBuffer):
            owners = [
                x
                for x in gc.get_referrers(referrer)
                if getattr(x, "__dict__", None) is referrer and is_handle(x)
            ]
        for owner in owners:
            if owner.lazy in holders:
                holders[owner.lazy].append(owner)
    return {node: found[0] for node, found in holders.items() if len(found) == 1}


class Replay:
    """A traced function's computation, ready to run on new arguments."""

    def __init__(self, trace: Trace) -> None:
        outputs = trace.outputs()
        computed = [n for n in outputs if n.op is not Op.BUFFER]
        self._compute, leaves = _computation(computed)
        passed = [n for n in outputs if n.op is Op.BUFFER]
        self._sources = trace.sources([*leaves, *passed])
        self._computed_from = len(leaves)
        # outputs in the order in which __call__ has their storages: computed ones, then those passed through
        order = {node: i for i, node in enumerate([*computed, *passed])}
        self._kinds = [(n.shape, n.dtype, n.device) for n in order]
        self._guards = [
            Guard(_finder(s), n.shape, n.dtype, n.device)
            for s, n in zip(self._sources, [*leaves, *passed], strict=True)
            if s.handle is not None or s.cell is not None
        ]
        self._flags = trace.flags
        self._cells = [(c.stripped(), c.before is None) for c in trace.cells if c.guarded]
        self._state = [(handle, order[handle.lazy]) for handle, _ in trace.state]
        self._arguments = [(trace.number[id(h)], order[h.lazy]) for h in trace.rebound_arguments()]
        self._grads = [
            (c.stripped(), None if (g := c.value()) is None else order[g.lazy]) for c in trace.cells
        ]
        self._pinned = trace.pinned
        state = {id(h) for h, _ in (*trace.state, *((h, i) for i, h in trace.pinned))}
        self.outside = [s.handle for s in self._sources if s.handle is not None]
        self.outside += [h for h, _ in trace.state]
        self._written = {id(h) for h, _ in trace.state}
        self._read = {id(h) for h in self.outside}
        self._free = list(trace.number.values())
        self._unchanged = trace.reached.unchanged({id(h): h for h in self.outside}.values())

        def hole(handle: Handle) -> Hole:
            if id(handle) in trace.number:
                return Hole("argument", trace.number[id(handle)])
            return Hole("handle", handle) if id(handle) in state else Hole("output", order[handle.lazy])

        self._template = template(trace.result, hole)
        grads = [g for c in trace.cells if (g := c.value()) is not None]
        self._like = next((_prototype(h) for h in (*trace.results, *grads)), None)

    def fits(self, arguments: Sequence[Handle]) -> bool:
        """Whether what the function reads beside its arguments is of the kind that was traced, and distinct
        from the arguments where it was.
        """
        if any(arguments[i] is not handle for i, handle in self._pinned) or not self._unchanged():
            return False
        if self._written and any(id(arguments[i]) in self._written for i in self._free):
            return False
        if any(self._is_outside(arguments[i]) for i, _ in self._arguments):
            return False
        if any((c.value() is None) != was_none for c, was_none in self._cells):
            return False
        if not all(flag.holds() for flag in self._flags):
            return False
        pending = []
        for guard in self._guards:
            handle = guard.find()
            lazy = handle.lazy if handle is not None else None
            if (
                lazy is None
                or lazy.shape != guard.shape
                or lazy.dtype is not guard.dtype
                or lazy.device != guard.device
            ):
                return False
            if lazy.op is not Op.BUFFER:
                pending.append(lazy)
        realize(pending)
        return True

    def _is_outside(self, handle: Handle) -> bool:
        return id(handle) in self._read or any(c.value() is handle for c, _ in self._cells)

    def __call__(self, arguments: Sequence[Handle]) -> Any:
        """Run on the arguments' values. State is rebound when everything has run, all at once."""
        storages = [
            arguments[s.argument].lazy.arg if s.argument is not None
            else s.handle.lazy.arg if s.handle is not None
            else s.cell.value().lazy.arg if s.cell is not None
            else s.constant
            for s in self._sources
        ]  # fmt: skip
        n = self._computed_from
        results = [*self._compute(storages[:n]), *storages[n:]]
        buffer = Op.BUFFER
        nodes = [LazyBuffer(buffer, (), x, *kind) for x, kind in zip(results, self._kinds, strict=True)]
        handles: list[Any] = [h for h, _ in self._state]
        handles += [arguments[i] for i, _ in self._arguments]
        values = [nodes[i] for _, i in (*self._state, *self._arguments)]
        owners = [(c.owner(), c.name, i) for c, i in self._grads]
        grads = [None if i is None else self._new(nodes[i]) for _, _, i in owners]
        before = [
            h.lazy for h in handles
        ]  # freeing runs Python code, which could let Ctrl-C in: so that waits
        # from C, where no signal handler runs in between
        deque(map(setattr, handles, repeat("lazy"), values), 0)
        for (owner, name, _), grad in zip(owners, grads, strict=True):
            if owner is not None:
                setattr(owner, name, grad)
        del before

        def filler(hole: Hole) -> Any:
            if hole.kind == "argument":
                return arguments[hole.which]
            return hole.which if hole.kind == "handle" else self._new(nodes[hole.which])

        return fill(self._template, filler)

    def _new(self, node: LazyBuffer) -> Handle:
        assert self._like is not None
        return self._like._new(node, None)  # type: ignore[attr-defined, no-any-return]


def _prototype(handle: Any) -> Handle:
    """A handle of the same class on nothing, from which others are made."""
    return handle._new(build.const(0, handle.lazy.dtype, handle.lazy.device), None)  # type: ignore[no-any-return]


def _finder(source: Source) -> Callable[[], Any]:
    handle, cell = source.handle, source.cell
    if cell is not None:
        return cell.value
    return lambda: handle


def _computation(outputs: list[LazyBuffer]) -> tuple[Computation, list[LazyBuffer]]:
    """A function from the storages of the graph's leaves to those of ``outputs``, and the leaves."""
    key, leaves, copies = canonical(outputs)
    devices = {n.device for n in (*outputs, *leaves)}
    if copies or len(devices) > 1:
        raise JitError(
            f"a jitted function runs on one device, but this one uses {', '.join(sorted(devices))};"
            " move tensors with .to(device) before calling it"
        )
    if not outputs:
        return (lambda storages: []), leaves
    device = get_device(devices.pop())
    if isinstance(device, CompiledDevice):
        return prepare(device, outputs, key, leaves), leaves

    def interpret(storages: Sequence[Any]) -> list[Storage]:
        known = dict(zip(leaves, storages, strict=True))
        arrays = evaluate(
            outputs, lambda n: from_storage(device.view(known[n], n.dtype.storage, n.shape), n.dtype)
        )
        return [
            device.from_numpy(to_storage(array, node.dtype), copy=False)
            for array, node in zip(arrays, outputs, strict=True)
        ]

    return interpret, leaves
