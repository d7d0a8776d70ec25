"""Realising values: schedule, compile, run. The only way in which anything is ever computed."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace

from dawdle import config
from dawdle.dtype import Array, float64, from_storage, to_storage
from dawdle.errors import DawdleError, OutOfMemoryError
from dawdle.lazy.buffer import LazyBuffer, toposort
from dawdle.lazy.check import flags_of
from dawdle.lazy.interpret import evaluate
from dawdle.lazy.ops import Op
from dawdle.runtime import planfile
from dawdle.runtime.allocator import size_text
from dawdle.runtime.base import Device
from dawdle.runtime.cache import Cache
from dawdle.runtime.compiled import CompiledDevice, no_fp64
from dawdle.runtime.compiler import Source
from dawdle.runtime.device import get_device
from dawdle.runtime.executable import Executable
from dawdle.runtime.parts import Pieces, realize_parts
from dawdle.runtime.plan import build_plan
from dawdle.runtime.planfile import plan_digest
from dawdle.runtime.report import report_graph, report_plan
from dawdle.runtime.structure import Key, canonical
from dawdle.runtime.trace import assigned, is_tracing, refuse

PLANS = 1024
REPORTED = 3  # from this DEBUG level on, plans are made anew to be shown
_plans: Cache[tuple[str, int, Key], Executable] = Cache("plans", PLANS)


def load(node: LazyBuffer) -> Array:
    """The elements of a BUFFER leaf in its compute dtype, read-only where they aren't a copy."""
    return from_storage(get_device(node.device).view(node.arg, node.dtype.storage, node.shape), node.dtype)


def realize(buffers: Sequence[LazyBuffer]) -> None:
    """Compute the values of ``buffers`` and turn each into a BUFFER leaf.

    Raises CompileError or OutOfMemoryError; then, as after a KeyboardInterrupt, values that weren't computed
    are still the graphs they were.
    """
    refuse("a tensor's value was asked for")
    pending = [b for b in dict.fromkeys(buffers) if b.op is not Op.BUFFER]
    if not pending:
        return
    device = pending[0].device
    if any(b.device != device for b in pending):
        for name in dict.fromkeys(b.device for b in pending):
            realize([b for b in pending if b.device == name])
        return
    target = get_device(device)
    if isinstance(target, CompiledDevice):
        rest = realize_parts(target, pending, load)
        if rest:
            _run_compiled(target, rest)
    else:
        _interpret(target, pending)


def realize_later(buffers: Sequence[LazyBuffer]) -> None:
    """As :func:`realize`, where nobody reads the values yet: in a function that @jit traces it can wait.

    What has been assigned before and isn't computed yet is computed as well, in one go with ``buffers``.
    """
    if not is_tracing():
        realize([*buffers, *assigned()])


def move(copies: Sequence[LazyBuffer]) -> None:
    """Carry out COPY nodes. A device's graph ends where a value comes from another device.

    Copies that don't wait for each other are computed together, so that their kernels are compiled together.
    """
    for wave in _waves(copies):
        realize([node.src[0] for node in wave])
        for node in wave:
            source = node.src[0]
            array = get_device(source.device).to_numpy(source.arg, source.dtype.storage, source.shape)
            node.realize_as(get_device(node.device).from_numpy(array, copy=False))


def _waves(copies: Sequence[LazyBuffer]) -> list[list[LazyBuffer]]:
    """COPY nodes by how many copies are at most on a way to them."""
    depth: dict[int, int] = {}
    waves: list[list[LazyBuffer]] = []
    for node in toposort(copies):
        below = max((depth[id(s)] for s in node.src), default=0)
        depth[id(node)] = below + (node.op is Op.COPY)
        if node.op is Op.COPY:
            waves += [[] for _ in range(below + 1 - len(waves))]
            waves[below].append(node)
    return waves


def _interpret(device: Device, outputs: list[LazyBuffer]) -> None:
    move([n for n in toposort(outputs) if n.op is Op.COPY])
    outputs = [b for b in outputs if b.op is not Op.BUFFER]
    try:
        arrays = evaluate(outputs, load)
    except (MemoryError, ValueError) as error:  # a ValueError is NumPy's for what no address space holds
        nbytes = max(math.prod(n.shape) * n.dtype.storage.itemsize for n in toposort(outputs))
        if isinstance(error, DawdleError) or not (isinstance(error, MemoryError) or nbytes > sys.maxsize):
            raise
        raise OutOfMemoryError(f"{device.name}: a value takes {size_text(nbytes)}: {error}") from None
    for node, array in zip(outputs, arrays, strict=True):
        node.realize_as(device.from_numpy(to_storage(array, node.dtype), copy=False))


def _run_compiled(device: CompiledDevice, outputs: list[LazyBuffer]) -> None:
    pieces = Pieces(device)
    key, leaves, copies = canonical(outputs, end=pieces.end)
    if copies:
        move(copies)
        realize(outputs)
        return
    executable = prepare(device, outputs, key, leaves, pieces)
    storages = executable(pieces.storages(leaves))
    for node, storage in zip(outputs, storages, strict=True):
        node.realize_as(storage)


def prepare(
    device: CompiledDevice,
    outputs: Sequence[LazyBuffer],
    key: Key,
    leaves: Sequence[LazyBuffer],
    pieces: Pieces | None = None,
) -> Executable:
    """The compiled plan of a graph, from the cache where one of its structure was seen."""
    full = (device.name, config.current().num_threads, key)
    known = _plans.get(full)
    if known is not None:
        return known
    if pieces is not None:
        outputs, leaves = pieces.severed(outputs, leaves)
    return _plans.put(full, compile_graph(device, outputs, key, leaves))


def compile_graph(
    device: CompiledDevice, outputs: Sequence[LazyBuffer], key: Key, leaves: Sequence[LazyBuffer]
) -> Executable:
    """Plan a graph, unless an earlier process has, and compile its kernels, unless they are known."""
    level, store = config.current().debug, device.store
    check_dtypes(device, outputs)
    report_graph(outputs, level)
    name = plan_digest(key, device.target)
    plan = planfile.read(store, name) if level < REPORTED else None
    if plan is not None:
        return Executable(plan, device)
    flags = flags_of(outputs)
    with device.batch() as batch:
        plan, origins = build_plan(
            [*outputs, *flags.nodes],
            [*leaves, *flags.before],
            device.target,
            lambda kernel: batch.add(Source(kernel.name, kernel.source)),
        )
    plan = replace(plan, checks=flags.bounds)
    report_plan(plan, origins, device, level)
    executable = Executable(plan, device)
    planfile.write(store, name, plan)
    return executable


def check_dtypes(device: CompiledDevice, outputs: Sequence[LazyBuffer]) -> None:
    """Raise DTypeError if a graph computes in a dtype that the device hasn't got."""
    if device.target.fp64:
        return
    for node in toposort(outputs):
        if node.dtype is float64:
            raise no_fp64(device.name, f"{node.op.name.lower()} of shape {node.shape}")
