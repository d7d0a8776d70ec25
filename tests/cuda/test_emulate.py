"""The emulation itself: it must find what is wrong with a kernel, else nothing it accepts means anything."""

from __future__ import annotations

import numpy as np
import pytest
from emulate import EmulationError, compiler, run_source

from dawdle.errors import CompileError

try:
    compiler()
except CompileError as e:
    pytest.skip(str(e), allow_module_level=True)

REVERSE = """
extern "C" __global__ void __launch_bounds__(64) reverse(float *out, const float *x) {
  __shared__ float t[64];
  for (int i = 0; i < 2; i++) {
    t[threadIdx.x] = x[(blockIdx.x * 2 + i) * 64 + threadIdx.x];
    __syncthreads();  // written
    out[(blockIdx.x * 2 + i) * 64 + threadIdx.x] = t[63 - threadIdx.x];
    __syncthreads();  // read
  }
}
"""


def reversed_rows(source: str, seed: int) -> bool:
    x, out = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    run_source(source, 2, 64, [out, x], seed)
    return bool((out.reshape(4, 64) == x.reshape(4, 64)[:, ::-1]).all())


@pytest.mark.parametrize("seed", range(4))
def test_barriers_order_threads(seed):
    assert reversed_rows(REVERSE, seed)


@pytest.mark.parametrize("barrier", ["  // written", "  // read"])
def test_a_missing_barrier_shows(barrier):
    broken = REVERSE.replace(f"__syncthreads();{barrier}", "")
    assert broken != REVERSE
    assert not all(reversed_rows(broken, seed) for seed in range(4))


SUM = """
extern "C" __global__ void total(float *out, const float *x) {
  __shared__ float parts[8];
  float v = x[threadIdx.x];
  for (int d = 16; d; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 8) {
    v = parts[threadIdx.x];
    for (int d = 4; d; d /= 2) v += __shfl_xor_sync(0xffu, v, d);
    if (threadIdx.x == 0) *out = v;
  }
}
"""


@pytest.mark.parametrize("seed", range(3))
def test_shuffles(seed):
    x, out = np.arange(256, dtype=np.float32), np.zeros(1, np.float32)
    run_source(SUM, 1, 256, [out, x], seed)
    assert out[0] == x.sum()


def test_shuffles_of_wide_values_and_segments():
    source = """extern "C" __global__ void f(double *out, const double *x) {
  int i = threadIdx.x;
  out[i] = __shfl_down_sync(0xffffffffu, x[i], 3, 8) + 100 * __shfl_sync(0xffffffffu, x[i], 1, 4);
}"""
    x, out = np.arange(32, dtype=np.float64), np.zeros(32)
    run_source(source, 1, 32, [out, x], 5)
    i = np.arange(32)
    down = np.where(i % 8 + 3 < 8, i + 3, i)
    np.testing.assert_array_equal(out, down + 100 * (i // 4 * 4 + 1))


def test_shared_memory_begins_as_garbage():
    source = """extern "C" __global__ void f(float *out) {
  __shared__ float t[32];
  out[blockIdx.x] = t[threadIdx.x];
  t[threadIdx.x] = 1;
}"""
    out = np.zeros(3, np.float32)
    run_source(source, 3, 1, [out])
    assert np.isnan(out).all()


BAD = {
    "aligned": ("struct alignas(16) v4 { float x[4]; };\n", "*(v4 *)(p + 1) = v4{};", "isn't aligned to 16"),
    "bounds": ("", "__shared__ float t[8]; t[threadIdx.x] = 1; p[0] = t[0];", "is outside of its array"),
    "outside": ("", "p[64 + threadIdx.x] = 1;", "writes outside of a buffer"),
    "before": ("", "p[-1] = 1;", "writes outside of a buffer"),
    "different barriers": (
        "", "if (threadIdx.x < 4) __syncthreads();\n else __syncthreads();", "different barriers",
    ),
    "a lane that never comes": (
        "", "if (threadIdx.x < 4) __shfl_sync(~0u, 1, 0); else __syncthreads();", "some threads wait",
    ),
    "copies": (
        "", "__shared__ int t[64]; dw_async_copy(t + 4 * threadIdx.x, p, 16, __LINE__);", "nobody waited for",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_errors_are_found(case):
    above, body, words = BAD[case]
    source = f'{above}extern "C" __global__ void f(float *p) {{ {body} }}'
    with pytest.raises(EmulationError, match=words):
        run_source(source, 1, 16, [np.zeros(64, np.float32)], 1)


def test_asynchronous_copies_arrive_when_they_are_waited_for():
    source = """extern "C" __global__ void f(float *out, const float *x) {
  __shared__ float t[2][128];
  int i = 4 * threadIdx.x;
  dw_async_copy(t[0] + i, x + i, 16, __LINE__);
  dw_async_commit();
  dw_async_copy(t[1] + i, x + 128 + i, 16, __LINE__);
  dw_async_commit();
  dw_async_wait(1);
  out[threadIdx.x] = t[0][i];
  out[32 + threadIdx.x] = t[1][i];
  dw_async_wait(0);
  out[64 + threadIdx.x] = t[1][i];
}"""
    x, out = np.arange(256, dtype=np.float32), np.zeros(96, np.float32)
    run_source(source, 1, 32, [out, x])
    np.testing.assert_array_equal(out[:32], x[:128:4])
    assert np.isnan(out[32:64]).all()
    np.testing.assert_array_equal(out[64:], x[128::4])


def test_impossible_launches_are_refused():
    source = 'extern "C" __global__ void f(float *p) { __shared__ float t[N]; t[0] = 1; p[0] = t[0]; }'
    small, large = source.replace("N", "16"), source.replace("N", "12289")
    for blocks, threads in ((0, 1), (1, 0), (1, 1025)):
        with pytest.raises(EmulationError, match="no GPU launches"):
            run_source(small, blocks, threads, [np.zeros(1, np.float32)])
    with pytest.raises(EmulationError, match="49156 bytes of static shared memory"):
        run_source(large, 1, 1, [np.zeros(1, np.float32)])
