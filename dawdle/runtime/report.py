"""What DEBUG=3 to 7 print when a plan is made."""

from __future__ import annotations

from collections.abc import Sequence

from dawdle.codegen.kernel import format_kernel
from dawdle.codegen.loop import format_loops
from dawdle.lazy.buffer import LazyBuffer, format_graph
from dawdle.runtime.allocator import size_text
from dawdle.runtime.compiled import CompiledDevice
from dawdle.runtime.compiler import Source
from dawdle.runtime.plan import KernelStep, Origin, Plan


def report_graph(outputs: Sequence[LazyBuffer], level: int) -> None:
    if level >= 6:
        print(format_graph(outputs))


def report_plan(plan: Plan, origins: Sequence[Origin], device: CompiledDevice, level: int) -> None:
    """The schedule with its reasons (3), source (4), loops (5) and assembly (7)."""
    if level < 3:
        return
    fresh, arena = size_text(sum(plan.fresh)), size_text(plan.arena)
    print(f"plan: {plan.leaves} inputs, {len(plan.fresh)} new buffers of {fresh}, {arena} of temporaries")
    remaining = iter(origins)
    for step in plan.steps:
        if not isinstance(step, KernelStep):
            print(f"host call {step.output.node}")
            continue
        for begin, end in step.phases:
            for _ in range(begin, end):
                report_kernel(next(remaining), device, level)
            print("--- barrier" if end < len(step.kernels) else "---")


def report_kernel(origin: Origin, device: CompiledDevice, level: int) -> None:
    """One kernel of a plan."""
    kernel = origin.kernel
    print(format_kernel(kernel.kernel))
    print("\n".join(f"  because {r}" for r in origin.reasons))
    if level >= 5:
        print(format_loops(kernel.function))
    if level >= 4:
        print(kernel.source)
    if level >= 7:
        print(device.assembly(Source(kernel.name, kernel.source)))
