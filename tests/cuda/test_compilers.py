"""NVRTC and nvcc: where they are found, what they refuse, and for which devices they compile."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import pytest

from dawdle.errors import CompileError
from dawdle.runtime import nvrtc
from dawdle.runtime.modules import Rejected

SOURCE = """extern "C" __global__ void k_1(float *a) {
  int unused;
  a[threadIdx.x] = exp2f(a[0]);
}
"""
WRONG = SOURCE.replace("a[0]", "missing")


def compilers() -> list[nvrtc.CudaCompiler]:
    nvcc = nvrtc.find_nvcc()
    found = [c for c in nvrtc._find(nvrtc.places()) if isinstance(c, nvrtc.Nvrtc)][:1]
    return [*found, *([nvcc] if nvcc else [])]


@pytest.fixture(params=["Nvrtc", "Nvcc"])
def compiler(request):
    for c in compilers():
        if type(c).__name__ == request.param:
            return c
    pytest.skip(f"{request.param} isn't installed: {nvrtc.FIX}")


def test_machine_code(compiler):
    assert compiler.compile(SOURCE, "k_1", "sm_80").startswith(b"\x7fELF")
    assert b".target sm_80" in compiler.compile(SOURCE, "k_1", "compute_80")
    assert {75, 80, 90} <= set(compiler.supported)


def test_messages_show_the_line(compiler):
    with pytest.raises(Rejected) as e:
        compiler.compile(WRONG, "k_1", "sm_80")
    assert 'k_1.cu(3): error: identifier "missing" is undefined' in str(e.value)
    assert "a[threadIdx.x] = exp2f(missing);" in str(e.value)


def test_warnings_are_errors_when_strict(compiler):
    with pytest.raises(Rejected, match="never referenced"):
        compiler.compile(SOURCE, "k_1", "sm_80", strict=True)
    used = SOURCE.replace("  int unused;\n", "")
    assert compiler.compile(used, "k_1", "sm_80", strict=True)


class Fake:
    def __init__(self, version, supported=(75, 80, 86, 90)):
        self.version, self.supported = version, supported
        self.name = f"NVRTC {version[0]}.{version[1]}"


@pytest.mark.parametrize("capability, arch", [
    ((8, 0), "sm_80"), ((8, 9), "sm_86"), ((9, 0), "sm_90"), ((12, 0), "compute_90"), ((7, 5), "sm_75"),
])  # fmt: skip
def test_architecture(capability, arch):
    assert nvrtc.architecture(capability, Fake((13, 0))) == arch


def test_a_device_too_old():
    with pytest.raises(
        CompileError, match=r"NVRTC 13.0 no longer compiles for compute capability 6.1, only from 7.5"
    ):
        nvrtc.architecture((6, 1), Fake((13, 0)))


def test_the_driver_decides(monkeypatch):
    old, new = Fake((12, 8)), Fake((13, 5))
    monkeypatch.setattr(nvrtc, "_find", lambda places: (new, old))
    assert nvrtc.find_compiler() is new
    assert nvrtc.find_compiler(13) is new
    assert nvrtc.find_compiler(12) is old
    with pytest.raises(CompileError, match=r"driver is of CUDA 11.*NVRTC 13.5, NVRTC 12.8.*nvrtc-cu11"):
        nvrtc.find_compiler(11)


def test_none(monkeypatch):
    monkeypatch.setattr(nvrtc, "_find", lambda places: ())
    with pytest.raises(CompileError, match="pip install nvidia-cuda-nvrtc"):
        nvrtc.find_compiler()


@pytest.mark.skipif(sys.platform != "linux", reason="names of libraries on Linux")
@pytest.mark.parametrize("where", ["nvidia/cu13/lib/libnvrtc.so.13", "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"])
def test_layouts_of_wheels(where, tmp_path, monkeypatch):
    path = tmp_path / where
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    path.with_name("libnvrtc-builtins.so.13.0").write_bytes(b"")
    monkeypatch.setattr(nvrtc, "toolkits", lambda: iter(()))
    spec = type("Spec", (), {"submodule_search_locations": [str(tmp_path / "nvidia")]})
    monkeypatch.setattr(nvrtc.importlib.util, "find_spec", lambda name: spec)
    assert nvrtc.libraries() == [os.path.realpath(path)]


def test_a_library_that_cannot_be_loaded_is_passed_over(tmp_path, monkeypatch):
    broken = tmp_path / "libnvrtc.so.13"
    broken.write_bytes(b"for another machine")
    monkeypatch.setattr(nvrtc, "libraries", lambda: [str(broken)])
    monkeypatch.setattr(nvrtc, "find_nvcc", lambda: None)
    assert nvrtc._find.__wrapped__(("", "", "")) == ()


def test_identity_changes_with_the_file(tmp_path):
    path = tmp_path / "libnvrtc.so"
    path.write_bytes(b"one")
    c = nvrtc.Nvrtc(str(path), (13, 0), (80,))
    before = c.identity
    assert replace(c).identity == before
    path.write_bytes(b"another")
    assert c.identity != before
