"""A group's kernel as source text: lower, schedule, loopify, render."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from dawdle import config
from dawdle.codegen.kernel import Kernel, Param
from dawdle.codegen.loop import Function
from dawdle.codegen.loopify import loopify
from dawdle.codegen.lower import flops, lower
from dawdle.codegen.recipes import cpu, gpu
from dawdle.codegen.render.c import render_c
from dawdle.codegen.render.cuda import render_cuda
from dawdle.codegen.render.opencl import render_opencl
from dawdle.codegen.target import Target
from dawdle.codegen.verify import verify_kernel, verify_loops
from dawdle.lazy.plan import Group

VERIFIED = 5  # from this DEBUG level on, kernels are verified

RECIPES: dict[str, Callable[[Kernel, Target], Kernel]] = {"cpu": cpu.schedule, "gpu": gpu.schedule}
RENDERERS: dict[str, Callable[[Function], str]] = {
    "c": render_c,
    "opencl": render_opencl,
    "cuda": render_cuda,
}


@dataclass(frozen=True)
class GeneratedKernel:
    """Source text of one kernel, and what the runtime needs to compile, call and profile it.

    ``params`` are the group's outputs, then its inputs. ``scratch`` is bytes for each thread. ``flops`` and
    ``nbytes`` are the arithmetic operations and the least memory traffic of one call.
    """

    name: str
    source: str
    params: tuple[Param, ...]
    scratch: int
    parallel: bool
    flops: int
    nbytes: int
    kernel: Kernel
    function: Function
    launch: tuple[int, int] | None = None


def generate(group: Group, target: Target) -> GeneratedKernel:
    """Source for ``group`` on ``target``. Equal sources have equal names."""
    lowered = lower(group, "KERNEL")
    kernel = RECIPES[target.kind](lowered, target)
    function = loopify(kernel)
    assert function.local <= target.max_local, f"{function.local} threads in a group of {target.max_local}"
    if config.current().debug >= VERIFIED:
        verify_kernel(kernel)
        verify_loops(function)
    source = RENDERERS[target.name](function)
    name = "k_" + hashlib.sha256(source.encode()).hexdigest()[:16]
    return GeneratedKernel(
        name=name,
        source=source.replace("KERNEL", name),
        params=kernel.params,
        scratch=function.scratch,
        parallel="parallel" in kernel.marks.values(),
        flops=flops(lowered),
        nbytes=sum(p.size * p.dtype.itemsize for p in kernel.params),
        kernel=replace(kernel, name=name),
        function=replace(function, name=name),
        launch=(function.groups, function.local) if function.local else None,
    )
