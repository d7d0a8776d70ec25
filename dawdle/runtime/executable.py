"""A plan bound to the CPU device: compiled, and run with one foreign call for each stretch of kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dawdle import config
from dawdle.dtype import from_storage, to_storage
from dawdle.lazy.interpret import apply
from dawdle.runtime import profile
from dawdle.runtime.allocator import Buffer, Chunk, size_class
from dawdle.runtime.cpu import CpuDevice
from dawdle.runtime.plan import HostStep, KernelStep, Plan, Value
from dawdle.runtime.pool import Program


class Executable:
    """Callable with the storages of the leaves; gives those of the outputs. It keeps no storage itself."""

    def __init__(self, plan: Plan, device: CpuDevice) -> None:
        self.plan = plan
        self.device = device
        kernel_steps = [s for s in plan.steps if isinstance(s, KernelStep)]
        programs = iter(device.link(kernel_steps))
        self.steps = [next(programs) if isinstance(s, KernelStep) else s for s in plan.steps]
        fresh = (*plan.fresh, plan.arena) if plan.arena else plan.fresh
        self._sizes = [(size_class(n), n) for n in fresh]
        self.threads = config.current().num_threads
        self._separate: dict[int, Program] = {}

    def __call__(self, leaves: Sequence[Buffer]) -> list[Buffer]:
        """Run it. Raises OutOfMemoryError, and what a CUSTOM function raises."""
        buffers = [*leaves, *self.device.allocator.allocate_all(self._sizes)]
        slots = [b.address for b in buffers]
        run = self.device.pool.run
        profiling = config.current().debug >= 2
        for i, step in enumerate(self.steps):
            if isinstance(step, HostStep):
                call_host(step, buffers)
            elif profiling:
                self._profile(i, slots)
            else:
                run(step, slots, self.threads)
        return [buffers[i] for i in self.plan.outputs]

    def _profile(self, i: int, slots: Sequence[int]) -> None:
        """Run a step's kernels one by one and print how fast each was."""
        step = self.plan.steps[i]
        assert isinstance(step, KernelStep)
        if i not in self._separate:
            self._separate[i] = self.device.link([step.one_by_one()])[0]
        times = self.device.pool.profile(self._separate[i], slots, self.threads)
        ceilings = profile.ceilings(self.device.library, self.device.pool, self.threads)
        for kernel, ns in zip(step.kernels, times, strict=True):
            print(profile.line(kernel, ns, ceilings))


def call_host(step: HostStep, buffers: Sequence[Buffer]) -> None:
    """Call a CUSTOM node's function with read-only arrays, and put its result in its place."""
    operands = [
        from_storage(_window(v, buffers).array(v.node.dtype.storage, v.node.shape), v.node.dtype)
        for v in step.inputs
    ]
    node = step.output.node
    result = to_storage(np.asarray(apply(node, operands)), node.dtype)
    if result.size:
        _window(step.output, buffers).array(node.dtype.storage, node.shape, readonly=False)[...] = result


def _window(value: Value, buffers: Sequence[Buffer]) -> Buffer:
    """A value's part of the buffer that it lies in."""
    slot, offset = value.place
    whole = buffers[slot]
    return Buffer(Chunk(whole.address + offset, 0, whole), value.node.nbytes, None)
