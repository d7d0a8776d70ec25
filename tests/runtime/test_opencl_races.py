"""Kernels for GPUs under Oclgrind, which simulates a device and finds data races: pyopencl[oclgrind]."""

import os
import subprocess
import sys

import pytest

from dawdle.errors import DeviceError
from dawdle.runtime import clplatform

try:
    clplatform.find_devices("oclgrind")
except DeviceError as e:
    pytest.skip(f"no Oclgrind: {e}", allow_module_level=True)

OPS = """
import numpy as np
from dawdle import Tensor
from dawdle.runtime.device import get_device

assert get_device("CL").target.kind == "gpu"
x = np.random.default_rng(0).standard_normal((70, 130)).astype(np.float32)

def results(device):
    a = Tensor(x, device=device)
    outs = [
        a @ a.T, a.softmax(1), a.sum(0), a.sum(), *a.max(1), (a - a.mean(1, keepdim=True)).exp(),
        a.cumsum(1), a[[3, 3, 0]], a.argmax(1),
    ]
    outs[0].realize(*outs)
    return [o.numpy() for o in outs]

for got, want in zip(results("CL"), results("NUMPY"), strict=True):
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
"""
RACE = """
import numpy as np, pyopencl as cl
from dawdle.runtime.clplatform import find_devices
context = cl.Context([find_devices("oclgrind")[0]])
queue, memory = cl.CommandQueue(context), cl.Buffer(context, cl.mem_flags.READ_WRITE, 256)
source = '''__kernel void k(__global float *x) {
  __local float row[64];
  row[get_local_id(0)] = get_local_id(0);
  x[get_local_id(0)] = row[63 - get_local_id(0)];
}'''
cl.Program(context, source).build(cache_dir=False).k(queue, (64,), (64,), memory)
queue.finish()
"""


def run(code: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "OCLGRIND_DATA_RACES": "1", "DAWDLE_CL_DEVICE": "oclgrind"},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


def test_no_kernel_races():
    out = run(OPS).lower()
    assert "race" not in out and "invalid" not in out, out


def test_a_race_would_be_found():
    assert "data race" in run(RACE).lower()
