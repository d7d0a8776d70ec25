"""Matrix products of 16-bit floats run on tensor cores, which the emulation stands in for by shuffles."""

from __future__ import annotations

import numpy as np
import pytest
from emulate import EmulatedDriver, EmulatedLibrary, compiler, register

from dawdle import Tensor, config
from dawdle.codegen.generate import generate
from dawdle.codegen.render.cuda import PRELUDE
from dawdle.codegen.target import Target
from dawdle.errors import CompileError
from dawdle.lazy.plan import Group
from dawdle.lazy.schedule import schedule
from dawdle.lazy.simplify import simplify
from dawdle.runtime.cuda import CudaDevice
from dawdle.runtime.device import FAMILIES, Family

try:
    compiler()
except CompileError as e:
    pytest.skip(str(e), allow_module_level=True)
register()

SHAPES = [(64, 64, 64), (100, 50, 130), (65, 33, 40)]


def operands(m: int, k: int, n: int, dtype: str) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(m)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    return Tensor(a, dtype=dtype), Tensor(b, dtype=dtype)


@pytest.mark.parametrize("dtype, tolerance", [("float16", 1e-3), ("bfloat16", 8e-3)])
def test_products_agree_with_float32(dtype: str, tolerance: float) -> None:
    with config.override(device="EMU"):
        for shape in SHAPES:
            x, y = operands(*shape, dtype)
            expected = x.numpy().astype(np.float32) @ y.numpy().astype(np.float32)
            got = (x @ y).numpy().astype(np.float32)
            np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * abs(expected).max())


def test_float32_products_round_to_tf32_where_allowed() -> None:
    with config.override(tf32=1):
        device = CudaDevice("EMUTF32", EmulatedDriver(), EmulatedLibrary(PRELUDE, (8, 0)))
    FAMILIES["EMUTF32"] = Family(lambda: ["EMUTF32"], lambda index: device)
    with config.override(device="EMUTF32"):
        x, y = operands(65, 33, 40, "float32")
        expected = x.numpy() @ y.numpy()
        error = abs((x @ y).numpy() - expected).max() / abs(expected).max()
        assert 1e-6 < error < 2e-3


@pytest.mark.parametrize("dtype, capability, used", [
    ("float16", (8, 0), True), ("bfloat16", (9, 0), True), ("float32", (8, 0), False),
    ("float16", (7, 5), False),
])  # fmt: skip
def test_where_they_are_used(dtype: str, capability: tuple[int, int], used: bool) -> None:
    x, y = operands(64, 64, 64, dtype)
    assert ("mma.sync" in source(x @ y, capability)) == used
    assert ("mma.sync" in source(x @ y, capability, tf32=True)) == (capability >= (8, 0))


def source(out: Tensor, capability: tuple[int, int], tf32: bool = False) -> str:
    target = Target(name="cuda", kind="gpu", max_local=256, max_lanes=4, capability=capability, tf32=tf32)
    (group,) = [s for s in schedule(simplify([out.lazy])).steps if isinstance(s, Group)]
    return generate(group, target).source
