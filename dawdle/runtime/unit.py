"""A plan as one C file with one entry point: what a jitted function can be deployed as, without dawdle."""

from __future__ import annotations

from collections.abc import Iterator

from dawdle.errors import JitError
from dawdle.runtime.plan import KernelStep, Plan

HEADER = """\
// {name}: all threads enter {name}_run together, each with its number and scratch memory of its own;
// barrier(context) makes a thread wait for the others, and may be NULL where threads is 1.
//
// slots: the addresses of {leaves} inputs, then of {fresh} outputs of {sizes} bytes,
// then of {name}_arena bytes of temporaries. All are aligned to 64 bytes.
"""


def unit_source(plan: Plan, prelude: str, name: str) -> str:
    """The C file. Its entry point is ``NAME_run(thread, threads, slots, scratch, barrier, context)``.

    ``NAME_arena`` and ``NAME_scratch`` (for each thread) are bytes of memory that the caller provides. Raises
    JitError for a plan that calls Python functions.
    """
    sizes = ", ".join(map(str, plan.fresh)) or "no"
    header = HEADER.format(name=name, leaves=plan.leaves, fresh=len(plan.fresh), sizes=sizes)
    kernels = {k.name: k.source for k in plan.kernels}
    static = [text.replace(f"void {k}(", f"static void {k}(", 1) for k, text in kernels.items()]
    scratch = max((k.scratch for k in plan.kernels), default=0)
    constants = f"const int64_t {name}_arena = {plan.arena}, {name}_scratch = {scratch};"
    signature = (
        f"void {name}_run(int64_t thread, int64_t threads, char *const *slots, char *scratch,"
        " void (*barrier)(void *), void *context) {"
    )
    return "\n".join((header, prelude, *static, constants, signature, *_calls(plan), "}", ""))


def _calls(plan: Plan) -> Iterator[str]:
    """The entry point's statements."""
    first = True
    for step in plan.steps:
        if not isinstance(step, KernelStep):
            raise JitError("this function calls Python code (a custom function), which a C file can't")
        for begin, end in step.phases:
            if not first:
                yield "  if (threads > 1) barrier(context);"
            first = False
            for i in range(begin, end):
                kernel, places = step.kernels[i], step.places[i]
                buffers = ", ".join(f"slots[{slot}] + {offset}" for slot, offset in places)
                call = f"{{ void *const buffers[] = {{{buffers}}}; {kernel.name}"
                if kernel.parallel:
                    yield f"  {call}(thread, threads, buffers, scratch); }}"
                else:
                    yield f"  if (thread == {i - begin} % threads) {call}(0, 1, buffers, scratch); }}"
