"""A plan bound to a device: compiled, and started with one call for each stretch of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dawdle import config
from dawdle.dtype import from_storage, to_storage
from dawdle.errors import IndexingError
from dawdle.lazy.check import from_flag
from dawdle.lazy.interpret import apply
from dawdle.runtime import profile
from dawdle.runtime.allocator import Buffer, size_class
from dawdle.runtime.compiled import CompiledDevice, Launcher
from dawdle.runtime.plan import HostStep, KernelStep, Plan

FLAG = np.dtype(np.uint64)


class Executable:
    """Callable with the storages of the leaves; gives those of the outputs. The only storages that it keeps
    are those of its checks' flags.
    """

    def __init__(self, plan: Plan, device: CompiledDevice) -> None:
        self.plan = plan
        self.device = device
        launchers = iter(device.link([s for s in plan.steps if isinstance(s, KernelStep)]))
        self._launchers = [next(launchers) if isinstance(s, KernelStep) else None for s in plan.steps]
        fresh = (*plan.fresh, plan.arena) if plan.arena else plan.fresh
        self._sizes = [(size_class(n), n) for n in fresh]
        self._flags = self._lowered()

    def _lowered(self) -> list[Any]:
        """Flags of checks that have found nothing yet."""
        return [self.device.from_numpy(np.zeros((), np.uint64)) for _ in self.plan.checks]

    def __call__(self, leaves: Sequence[Buffer]) -> list[Buffer]:
        """Run it. Raises OutOfMemoryError, and what a CUSTOM function raises.

        An index that is out of range raises IndexingError: at once where the device runs while Python waits,
        else when the next value is read.
        """
        buffers = [*leaves, *self._flags, *self.device.allocator.allocate_all(self._sizes)]
        profiling = config.current().debug >= 2
        for launcher, step in zip(self._launchers, self.plan.steps, strict=True):
            if isinstance(step, HostStep):
                call_host(step, buffers, self.device)
            elif profiling:
                self._profile(step, launcher, buffers)
            else:
                launcher.run(buffers)  # type: ignore[union-attr]
        outputs = [buffers[i] for i in self.plan.outputs]
        if not self.plan.checks:
            return outputs
        first = len(outputs) - len(self.plan.checks)
        if self.device.runs_behind:
            self._flags = outputs[first:]
            self.device.unread.add(self)
        else:
            self._raise(outputs[first:])
        return outputs[:first]

    def verify(self) -> None:
        """Raise IndexingError if an index has been out of range since this was last asked."""
        try:
            self._raise(self._flags)
        except IndexingError:
            self._flags = self._lowered()
            raise

    def _raise(self, flags: Sequence[Buffer]) -> None:
        for bounds, flag in zip(self.plan.checks, flags, strict=True):
            error = from_flag(bounds, int(self.device.read(flag, 0, FLAG, ())))
            if error is not None:
                raise error

    def _profile(self, step: KernelStep, launcher: Launcher | None, buffers: Sequence[Buffer]) -> None:
        """Run a step's kernels one by one and print how fast each was."""
        assert launcher is not None
        ceilings = self.device.ceilings()
        for kernel, ns in zip(step.kernels, launcher.profile(buffers), strict=True):
            print(profile.line(kernel, ns, ceilings))


def call_host(step: HostStep, buffers: Sequence[Buffer], device: CompiledDevice) -> None:
    """Call a CUSTOM node's function with read-only arrays, and put its result in its place."""
    operands = []
    for value in step.inputs:
        (slot, offset), node = value.place, value.node
        array = device.read(buffers[slot], offset, node.dtype.storage, node.shape)
        array.flags.writeable = False
        operands.append(from_storage(array, node.dtype))
    node = step.output.node
    result = np.ascontiguousarray(to_storage(np.asarray(apply(node, operands)), node.dtype))
    slot, offset = step.output.place
    device.write(buffers[slot], offset, result.copy() if result.base is not None else result)
