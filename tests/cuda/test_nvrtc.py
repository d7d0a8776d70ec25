"""Generated CUDA kernels compile without warnings to machine code, for GPUs from Turing to Hopper: those of
every op, of random graphs, and of training steps like the examples'.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rows import ALL, SLOW
from test_random_graphs import FAMILIES, plans
from test_tensor_ops import results

from dawdle import Tensor, config, nn
from dawdle.codegen.render.cuda import PRELUDE
from dawdle.codegen.target import Target
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import Op
from dawdle.runtime import nvrtc
from dawdle.runtime.compiler import Source, balance
from dawdle.runtime.cuda import target_of
from dawdle.runtime.modules import Rejected
from dawdle.runtime.plan import build_plan
from dawdle.runtime.structure import canonical

ROOT = Path(__file__).parents[2]
CAPABILITIES = [(7, 5), (8, 0), (9, 0)]
GRAPHS = 30  # of each family of dtypes
UNIT = 12  # kernels compiled together


@pytest.fixture(scope="module")
def compiler() -> nvrtc.CudaCompiler:
    found = [c for c in nvrtc._find(nvrtc.places()) if isinstance(c, nvrtc.Nvrtc)]
    if not found:
        pytest.skip(f"NVRTC isn't installed: {nvrtc.FIX}")
    return found[0]


def kernels(outputs: Sequence[LazyBuffer], target: Target) -> list[Source]:
    """The kernels of a graph for a target."""
    pending = list(dict.fromkeys(outputs))
    _, leaves, copies = canonical(pending)
    assert not copies
    plan, _ = build_plan(pending, leaves, target)
    return [Source(k.name, k.source) for k in plan.kernels]


@functools.lru_cache
def graphs_of_ops() -> list[list[LazyBuffer]]:
    """Values and gradients of the rows of the table."""
    graphs = [[t.lazy for t in results(row, which)] for row, which in SLOW]
    return [[b for b in outputs if b.op is not Op.BUFFER] for outputs in graphs]


def of_ops(target: Target) -> Iterator[Source]:
    """Every third graph for GPUs in the middle, every eighth for others, as kernels differ little."""
    for outputs in graphs_of_ops()[:: 1 if ALL else 3 if target.capability == CAPABILITIES[1] else 8]:
        yield from kernels(outputs, target)


def of_random_graphs(target: Target) -> Iterator[Source]:
    ignored = SimpleNamespace(add=lambda source: None)
    place = SimpleNamespace(target=target, batch=lambda: contextlib.nullcontext(ignored))
    for i, family in enumerate(FAMILIES):
        for _, _, plan in plans(FAMILIES[family], 100 + i, place, GRAPHS):
            yield from (Source(k.name, k.source) for k in plan.kernels)


def of_examples(target: Target) -> Iterator[Source]:
    """Training steps of the example's models."""
    spec = importlib.util.spec_from_file_location("mnist_example", ROOT / "examples" / "mnist.py")
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    x, y = Tensor(np.zeros((64, 1, 28, 28), np.float32)), Tensor(np.zeros(64, np.int64))
    for make in example.MODELS.values():
        model = make()
        optimizer = nn.optim.Adam(model.parameters(), lr=0.1)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.schedule_step()
        state = [loss, *model.parameters(), *model.buffers()]
        yield from kernels([t.lazy for t in state if t.lazy.op is not Op.BUFFER], target)


def of_products(target: Target) -> Iterator[Source]:
    """On tensor cores where there are some: whole tiles, and others fused into what follows."""
    for dtype in ("float16", "bfloat16", "float32", "float64", "int32"):
        a, b = Tensor(np.ones((65, 33)), dtype=dtype), Tensor(np.ones((40, 33)), dtype=dtype)
        c = Tensor(np.ones((64, 64)), dtype=dtype)
        for graph in (c @ c, (a @ b.T).relu() + 1):
            yield from kernels([graph.lazy], replace(target, tf32=dtype == "float32"))


SOURCES = {"ops": of_ops, "random graphs": of_random_graphs, "examples": of_examples, "products": of_products}


# kernels that there must at least be
MINIMUM = {"ops": 80, "random graphs": 50, "examples": 20, "products": 9}


@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda c: f"sm_{c[0]}{c[1]}")
@pytest.mark.parametrize("origin", SOURCES)
def test_kernels_compile(origin, capability, compiler):
    with config.override(device="NUMPY"):
        sources = {s.name: s for s in SOURCES[origin](target_of(capability, 100))}
    arch = f"sm_{capability[0]}{capability[1]}"

    def compile_unit(unit: list[Source]) -> str:
        text = "\n".join((PRELUDE, *(s.text for s in unit)))
        try:
            binary = compiler.compile(text, "kernels", arch, strict=True)
        except Rejected as e:
            return str(e)
        missing = [s.name for s in unit if s.name.encode() not in binary]
        return f"not in the machine code: {missing}" if missing else ""

    units = balance(list(sources.values()), -(-len(sources) // UNIT))
    with ThreadPoolExecutor(2) as threads:
        problems = [p for p in threads.map(compile_unit, units) if p]
    assert not problems, problems[0]
    assert len(sources) > MINIMUM[origin], "fewer kernels than there were: is everything collected?"


def test_nvcc_takes_the_same_source():
    """The second choice, which takes so long that one product must do."""
    nvcc = nvrtc.find_nvcc()
    if nvcc is None:
        pytest.skip(f"nvcc isn't installed: {nvrtc.FIX}")
    with config.override(device="NUMPY"):
        x = Tensor(np.ones((64, 64)), dtype="float16")
        sources = {s.name: s for s in kernels([(x @ x).lazy, x.softmax(-1).lazy], target_of((8, 0), 100))}
    text = "\n".join((PRELUDE, *(s.text for s in sources.values())))
    binary = nvcc.compile(text, "kernels", "sm_80", strict=True)
    assert all(name.encode() in binary for name in sources)
