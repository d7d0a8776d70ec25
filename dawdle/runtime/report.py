"""What DEBUG=3 to 7 print when a plan is made."""
from __future__ import annotations

from collections.abc import Sequence

from dawdle.codegen.kernel import format_kernel
from dawdle.codegen.loop import format_loops
from dawdle.lazy.buffer import LazyBuffer, format_graph
from dawdle.runtime.allocator import size_text
from dawdle.runtime.compiler import Source
from dawdle.runtime.library import Library
from dawdle.runtime.plan import KernelStep, Plan


def report_graph(outputs: Sequence[LazyBuffer], level: int) -> None:
    if level >= 6:
        print(format_graph(outputs))


def report_plan(plan: Plan, library: Library, level: int) -> None:
    """The schedule with its reasons (3), source (4), loops (5) and assembly (7)."""
    if level < 3:
        return
    fresh = size_text(sum(plan.fresh))
    print(f"plan: {plan.leaves} inputs, {len(plan.fresh)} new buffers of {fresh}, {size_text(plan.arena)} of temporaries")
    for step in plan.steps:
        if not isinstance(step, KernelStep):
            print(f"host call {step.output.node}")
            continue
        for begin, end in step.phases:
            for kernel, reasons in zip(step.kernels[begin:end], step.reasons[begin:end], strict=True):
                print(format_kernel(kernel.kernel))
                print("\n".join(f"  because {r}" for r in reasons))
                if level >= 5:
                    print(format_loops(kernel.function))
                if level >= 4:
                    print(kernel.source)
                if level >= 7:
                    print(library.assembly(Source(kernel.name, kernel.source)))
            print("--- barrier" if end < len(step.kernels) else "---")
