"""Random graphs of all ops and dtypes: the kernels of the CPU device against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from random_graphs import graphs, load

from dawdle.codegen.verify import verify_kernel, verify_loops
from dawdle.dtype import ALL, DType, bool_, float16, float32, float64, from_storage, int32, int64, uint8
from dawdle.errors import CompileError
from dawdle.lazy.buffer import LazyBuffer, format_graph
from dawdle.lazy.interpret import evaluate
from dawdle.runtime.allocator import adopt
from dawdle.runtime.compiler import Source
from dawdle.runtime.cpu import CpuDevice
from dawdle.runtime.executable import Executable
from dawdle.runtime.plan import Plan, build_plan
from dawdle.runtime.structure import canonical

GRAPHS = 120  # for each family of dtypes, compiled together
TOLERANCE = {"float64": 1e-11, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
FAMILIES = {
    "float32": (float32, int64),
    "float64": (float64, int32),
    "half": (float16, float32, bool_),
    "integers": (int32, uint8, bool_),
    "all": ALL,
}

Case = tuple[list[LazyBuffer], list[LazyBuffer], Plan]


@pytest.fixture(scope="module")
def device() -> CpuDevice:
    try:
        return CpuDevice()
    except CompileError as e:
        pytest.skip(str(e))


def plans(dtypes: tuple[DType, ...], start: int, device: CpuDevice) -> list[Case]:
    """Random graphs, each with its leaves and plan; their IRs are verified on the way."""
    drawn: list[list[LazyBuffer]] = []

    @seed(start)
    @settings(
        max_examples=GRAPHS, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(graphs(dtypes=dtypes))
    def collect(outputs: list[LazyBuffer]) -> None:
        drawn.append(outputs)

    collect()
    cases = []
    for outputs in drawn:
        _, leaves, _ = canonical(outputs)
        plan, origins = build_plan(outputs, leaves, device.target)
        for o in origins:
            verify_kernel(o.kernel.kernel)
            verify_loops(o.kernel.function)
        cases.append((outputs, leaves, plan))
    device.library.load(
        list({k.name: Source(k.name, k.source) for _, _, p in cases for k in p.kernels}.values())
    )
    return cases


def assert_close(got: np.ndarray, want: np.ndarray, dtype: DType, graph: str) -> None:
    if not dtype.is_float:
        np.testing.assert_array_equal(got, want, err_msg=graph)
        return
    tolerance = TOLERANCE[dtype.name]
    finite = np.abs(want[np.isfinite(want)]).astype(np.float64)
    scale = max(1.0, float(finite.max(initial=0.0)))
    np.testing.assert_allclose(
        got.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance * scale, err_msg=graph
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_cpu_agrees_with_the_interpreter(family: str, device: CpuDevice) -> None:
    for outputs, leaves, plan in plans(FAMILIES[family], sum(map(ord, family)), device):
        expected = evaluate(outputs, load)
        storages = Executable(plan, device)([adopt(leaf.arg.array) for leaf in leaves])
        for node, storage, want in zip(outputs, storages, expected, strict=True):
            got = from_storage(device.view(storage, node.dtype.storage, node.shape), node.dtype)
            assert_close(got, want, node.dtype, format_graph([node]))
