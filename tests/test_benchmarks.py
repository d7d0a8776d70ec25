"""The benchmarks of all backends run, on small workloads; that of CUDA on the emulation."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from emulate import compiler, register

from dawdle.errors import DawdleError
from dawdle.runtime.device import get_device

HERE = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    """benchmarks/workloads.py, with few and small workloads, and measurements that are over at once."""
    spec = importlib.util.spec_from_file_location("benchmark_workloads", HERE / "workloads.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "benchmark_workloads", module)
    spec.loader.exec_module(module)
    small = [module.matmul(32), module.softmax(4, 100), module.training("mlp", 4, module.mlp)]
    monkeypatch.setattr(module, "workloads", lambda scale: small)
    monkeypatch.setattr(module, "LONG", 0)
    return module


@pytest.mark.parametrize("device", ["CPU", "CL", "EMU"])
def test_report(device, benchmark, tmp_path, monkeypatch, capsys):
    try:
        if device == "EMU":
            compiler()
            register()
            place = get_device("EMU")
            monkeypatch.setattr(
                type(place), "ceilings", lambda self, again=False: None
            )  # takes too long there
        get_device(device)
    except DawdleError as e:
        pytest.skip(str(e))
    path = tmp_path / "out.json"
    monkeypatch.setattr(sys, "argv", ["benchmark", "--rounds", "1", "--json", str(path)])
    benchmark.report(device, {"dawdle NUMPY": benchmark.on_dawdle("NUMPY")})
    printed = capsys.readouterr().out
    found = json.loads(path.read_text())["workloads"]
    assert list(found) == ["matmul 32", "softmax 4x100", "mlp step, batch 4"]
    for name, row in found.items():
        assert name in printed
        assert set(row["seconds"]) == {f"dawdle {device}", "dawdle NUMPY"}
        assert all(s > 0 for s in row["seconds"].values())


def test_a_device_that_is_missing_is_said(benchmark, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmark"])
    with pytest.raises(SystemExit, match="device CL:99 doesn't work here"):
        benchmark.report("CL:99", {})


@pytest.mark.parametrize("script", ["cpu", "opencl", "cuda"])
def test_each_backend_has_a_script(script):
    text = (HERE / f"{script}.py").read_text()
    assert f'report("{ {"cpu": "CPU", "opencl": "CL", "cuda": "CUDA"}[script] }"' in text


def test_the_list_covers_what_matters():
    spec = importlib.util.spec_from_file_location("benchmark_workloads", HERE / "workloads.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["benchmark_workloads"] = module
    spec.loader.exec_module(module)
    names = " ".join(w.name for w in module.workloads())
    words = ("matmul", "conv", "softmax", "layer norm", "chain", "sum", "mlp step", "cnn step")
    assert [w for w in words if w not in names] == []
    assert all(w.flops > 0 for w in module.workloads(2))
