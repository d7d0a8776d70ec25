"""Random graphs of all ops and dtypes: the kernels of each device against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from random_graphs import graphs, load

from dawdle.codegen.verify import verify_kernel, verify_loops
from dawdle.dtype import ALL, DType, bool_, float16, float32, float64, from_storage, int32, int64, uint8
from dawdle.errors import DawdleError
from dawdle.lazy.buffer import LazyBuffer, format_graph
from dawdle.lazy.interpret import evaluate
from dawdle.runtime import cuda, opencl
from dawdle.runtime.compiled import CompiledDevice
from dawdle.runtime.compiler import Source
from dawdle.runtime.cpu import CpuDevice
from dawdle.runtime.executable import Executable
from dawdle.runtime.plan import Plan, build_plan
from dawdle.runtime.structure import canonical

# for each family of dtypes, compiled together; PoCL takes 0.1 s for each kernel
GRAPHS = {"CPU": 120, "CL": 12, "CL for GPUs": 12, "CUDA": 120}
TOLERANCE = {"float64": 1e-11, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
FAMILIES = {
    "float32": (float32, int64),
    "float64": (float64, int32),
    "half": (float16, float32, bool_),
    "integers": (int32, uint8, bool_),
    "all": ALL,
}

Case = tuple[list[LazyBuffer], list[LazyBuffer], Plan]


def _opencl(recipe: str) -> CompiledDevice:
    return opencl.OpenCLDevice("CL", opencl.find_devices("")[0], recipe)


DEVICES = {
    "CPU": CpuDevice,
    "CL": lambda: _opencl(""),
    "CL for GPUs": lambda: _opencl("gpu"),
    "CUDA": lambda: cuda.open_device(0),
}


@pytest.fixture(scope="module", params=DEVICES)
def device(request) -> tuple[str, CompiledDevice]:
    try:
        return request.param, DEVICES[request.param]()
    except DawdleError as e:
        pytest.skip(str(e))


def plans(dtypes: tuple[DType, ...], start: int, device: CompiledDevice, count: int) -> list[Case]:
    """Random graphs, each with its leaves and plan; their IRs are verified on the way."""
    drawn: list[list[LazyBuffer]] = []

    @seed(start)
    @settings(
        max_examples=count, deadline=None, database=None, phases=[Phase.generate],
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
    with device.batch() as batch:
        for kernel in {k.name: k for _, _, p in cases for k in p.kernels}.values():
            batch.add(Source(kernel.name, kernel.source))
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
def test_agrees_with_the_interpreter(family: str, device: tuple[str, CompiledDevice]) -> None:
    kind, place = device
    for outputs, leaves, plan in plans(FAMILIES[family], sum(map(ord, family)), place, GRAPHS[kind]):
        expected = evaluate(outputs, load)
        storages = Executable(plan, place)([place.from_numpy(leaf.arg.array) for leaf in leaves])
        for node, storage, want in zip(outputs, storages, expected, strict=True):
            got = from_storage(place.view(storage, node.dtype.storage, node.shape), node.dtype)
            assert_close(got, want, node.dtype, format_graph([node]))
