"""Realising values: schedule, compile, run. The only way in which anything is ever computed."""
from __future__ import annotations

from collections.abc import Sequence

from dawdle.lazy.buffer import LazyBuffer, toposort
from dawdle.lazy.interpret import evaluate
from dawdle.lazy.ops import Op
from dawdle.runtime.base import Array, Device, to_compute, to_storage
from dawdle.runtime.device import get_device


def load(node: LazyBuffer) -> Array:
    """The elements of a BUFFER leaf in its compute dtype."""
    return to_compute(get_device(node.device).view(node.arg, node.dtype.storage, node.shape), node.dtype)


def realize(buffers: Sequence[LazyBuffer]) -> None:
    """Compute the values of ``buffers`` and turn each into a BUFFER leaf.

    Raises CompileError or OutOfMemoryError; then, as after a KeyboardInterrupt, values that weren't computed are still
    the graphs they were.
    """
    pending = [b for b in dict.fromkeys(buffers) if b.op is not Op.BUFFER]
    if not pending:
        return
    # a device's graph ends where a value comes from another device: that is moved first
    copies = [n for n in toposort(pending) if n.op is Op.COPY]
    for node in copies:
        source = node.src[0]
        if source.op is not Op.BUFFER:
            _run([source])
        array = get_device(source.device).view(source.arg, source.dtype.storage, source.shape)
        node.realize_as(get_device(node.device).from_numpy(array))
    by_device: dict[str, list[LazyBuffer]] = {}
    for b in pending:
        if b.op is not Op.BUFFER:
            by_device.setdefault(b.device, []).append(b)
    for outputs in by_device.values():
        _run(outputs)


def _run(outputs: list[LazyBuffer]) -> None:
    _interpret(get_device(outputs[0].device), outputs)


def _interpret(device: Device, outputs: list[LazyBuffer]) -> None:
    arrays = evaluate(outputs, load)
    for node, array in zip(outputs, arrays, strict=True):
        node.realize_as(device.from_numpy(to_storage(array, node.dtype), copy=False))
