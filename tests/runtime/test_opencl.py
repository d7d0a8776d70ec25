"""OpenCL devices: what runs, what is kept on disk, and what goes wrong in which words."""

import gc
import os
import subprocess
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dawdle import Tensor, config, jit
from dawdle.dtype import float32
from dawdle.errors import CompileError, DeviceError, DTypeError, OutOfMemoryError
from dawdle.lazy import build
from dawdle.runtime import clplatform, executor, opencl
from dawdle.runtime.cache import clear_caches
from dawdle.runtime.compiler import Source
from dawdle.runtime.device import devices, get_device
from dawdle.runtime.executor import load, realize
from dawdle.runtime.modules import Rejected, explain, key_of
from dawdle.runtime.plan import KernelStep, PlannedKernel
from dawdle.runtime.store import KernelStore

try:
    DEVICES = opencl.find_devices(config.current().cl_device)
except DeviceError as e:
    pytest.skip(str(e), allow_module_level=True)

F32 = np.dtype(np.float32)
PARAMS = "__global char *b0, ulong o0, __global char *b1, ulong o1, __global char *scratch"
SHARES = f"""__kernel void shares({PARAMS}) {{
  __global float *to = (__global float *)(b0 + o0), *own = (__global float *)scratch + get_global_id(0) * 16;
  const __global float *from = (const __global float *)(b1 + o1);
  for (ulong i = get_global_id(0); i < 1000; i += get_global_size(0)) {{
    own[0] = from[i];
    to[i] = own[0] * 2;
  }}
}}"""
GROUPS = f"""__kernel void groups({PARAMS}) {{
  __local float row[64];
  row[get_local_id(0)] = ((__global float *)(b1 + o1))[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  ((__global float *)(b0 + o0))[get_global_id(0)] = row[63 - get_local_id(0)] + get_group_id(0);
}}"""


def planned(name, source, scratch=0, launch=None):
    return PlannedKernel(name, source, scratch, True, 1000, 8000, (1000,), launch)


def step_of(*kernels):
    """Kernels that write slot 0 from byte 64 on, and read slot 1 from byte 128 on."""
    places = ((0, 64), (1, 128))
    return KernelStep(kernels, tuple(places for _ in kernels), ((0, len(kernels)),))


KERNELS = (planned("shares", SHARES, scratch=64), planned("groups", GROUPS, launch=(4, 64)))


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    """A device with a cache of its own on disk, in which both kernels are."""
    with config.override(cache_dir=tmp_path_factory.mktemp("cache")):
        found = opencl.OpenCLDevice("CL", DEVICES[0])
        found.link([step_of(*KERNELS)])
    return found


@pytest.fixture
def numbers():
    return np.random.default_rng(1).standard_normal(1032, F32)


def run(device, launcher, numbers):
    buffers = [device.allocator.allocate(5000), device.from_numpy(numbers)]
    launcher.run(buffers)
    return device.read(buffers[0], 64, F32, (1000,)), buffers


# ---- kernels


def test_kernels_get_buffers_offsets_and_scratch(device, numbers):
    shares, groups = device.link([step_of(k) for k in KERNELS])
    np.testing.assert_array_equal(run(device, shares, numbers)[0], numbers[32:1032] * 2)
    expected = numbers[32:288].reshape(4, 64)[:, ::-1] + np.arange(4, dtype=F32)[:, None]
    np.testing.assert_array_equal(run(device, groups, numbers)[0][:256].reshape(4, 64), expected)


def test_arguments_follow_the_buffers(device, numbers):
    (launcher,) = device.link([step_of(KERNELS[0])])
    kept = [run(device, launcher, numbers + i) for i in range(3)]
    for i, (_, buffers) in enumerate(kept):  # none has overwritten another's
        np.testing.assert_array_equal(device.read(buffers[0], 64, F32, (1000,)), (numbers + i)[32:1032] * 2)
    assert len({b.address for _, buffers in kept for b in buffers}) == 6


def test_memory_is_reused_and_given_back(device, numbers):
    (launcher,) = device.link([step_of(KERNELS[0])])
    run(device, launcher, numbers)
    gc.collect()
    before = device.allocator.stats()
    run(device, launcher, numbers)
    after = device.allocator.stats()
    assert (after.fresh, after.reused) == (before.fresh, before.reused + 2)
    device.allocator.empty_cache()
    assert device.allocator.stats().cached == 0
    np.testing.assert_array_equal(run(device, launcher, numbers)[0], numbers[32:1032] * 2)


def test_profiles_are_times_of_each_kernel(device, numbers):
    (launcher,) = device.link([step_of(*KERNELS)])
    _, buffers = run(device, launcher, numbers)
    times = launcher.profile(buffers)
    assert len(times) == 2 and all(0 < t < 10**9 for t in times)


def test_threads_may_run_one_launcher(device, numbers):
    (launcher,) = device.link([step_of(KERNELS[0])])
    results = {}

    def work(i):
        results[i] = [run(device, launcher, numbers + i)[0] for _ in range(20)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i, found in results.items():
        for array in found:
            np.testing.assert_array_equal(array, (numbers + i)[32:1032] * 2)


# ---- the cache on disk


def fresh_library(device, root):
    with config.override(cache_dir=root):
        return opencl.ProgramLibrary(DEVICES[0], device.context)


SOURCES = [Source(k.name, k.source) for k in KERNELS]


def test_binaries_are_found_on_disk(device):
    library = fresh_library(device, device.store.root)
    assert library.load(SOURCES).keys() == {"shares", "groups"} and library.compiled == 0
    assert device.store.usage().libraries >= 1


@pytest.mark.parametrize("damage", [lambda d: d[:100], lambda d: b"", lambda d: d[:-1] + bytes([d[-1] ^ 1])])
def test_a_damaged_binary_is_built_again(device, damage, numbers):
    (path,) = {device.store.find(key_of(s)) for s in SOURCES}
    path.write_bytes(damage(path.read_bytes()))
    library = fresh_library(device, device.store.root)
    assert len(library.load(SOURCES)) == 2 and library.compiled == 2
    assert len(fresh_library(device, device.store.root).load(SOURCES)) == 2


def test_what_the_driver_refuses_is_built_again(device):
    source = SOURCES[0]
    device.store.put([key_of(source)], b"no binary at all", ".bin")
    library = fresh_library(device, device.store.root)
    assert len(library.load([source])) == 1 and library.compiled == 1


def test_identity_depends_on_the_driver_and_the_flags(monkeypatch):
    platform = SimpleNamespace(name="p", version="1")
    one = SimpleNamespace(platform=platform, name="d", version="1", driver_version="1", single_fp_config=0)
    found = {clplatform.identity(one)}
    found.add(clplatform.identity(SimpleNamespace(**{**vars(one), "driver_version": "2"})))
    exact = clplatform.pyopencl().device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    found.add(clplatform.identity(SimpleNamespace(**{**vars(one), "single_fp_config": exact})))
    assert len(found) == 3 and sum("correctly-rounded" in text for text in found) == 1
    assert not any("fast" in text for text in found)


def test_the_next_process_compiles_nothing(tmp_path):
    code = (
        "import numpy as np, dawdle as dw\n"
        "from dawdle.runtime.device import get_device\n"
        "x = dw.Tensor(np.arange(12, dtype=np.float32), device='CL')\n"
        "print((x.reshape(3, 4).sum(1) * 2).tolist(), get_device('CL').library.compiled > 0)\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True, text=True, check=True,
            env={**os.environ, "DAWDLE_CACHE_DIR": str(tmp_path)},
        ).stdout.strip()
        for _ in range(2)
    ]  # fmt: skip
    assert outputs == ["[12.0, 44.0, 76.0] True", "[12.0, 44.0, 76.0] False"]


POCL = [d for d in DEVICES if clplatform.is_pocl(d)]


@pytest.mark.skipif(not POCL, reason="no PoCL")
def test_other_processes_help_pocl(device):
    library = device.library
    found = []

    def work(text):
        try:
            found.append(library.compile(library.prelude + text))
        except Rejected as e:
            found.append(e)

    with library._building:  # as if this process were building
        work(SHARES)
        waiting = threading.Thread(target=work, args=("__kernel void k() { undeclared_thing; }",))
        waiting.start()
    waiting.join()
    (binary, program), error = found
    assert len(binary) > 100 and program.get_info(device.cl.program_info.NUM_KERNELS) == 1
    assert "undeclared_thing" in str(error)


# ---- failures


def test_a_compiler_error_names_the_kernel_and_shows_the_line(device):
    bad = Source("wrong", f"__kernel void wrong({PARAMS}) {{\n  int x = undeclared_thing;\n}}")
    fine = Source("fine", f"__kernel void fine({PARAMS}) {{ }}")
    with pytest.raises(CompileError) as e:
        device.library.load([fine, bad])
    text = str(e.value)
    assert "failed on kernel wrong (source kept in" in text and "undeclared_thing" in text
    assert "int x = undeclared_thing;" in text
    kept = text.split("source kept in ")[1].split(")")[0]
    with open(kept) as f:
        assert "undeclared_thing" in f.read()


@pytest.mark.parametrize("message", [
    "/tmp/x y/tempfile.cl:3:10: error: no y", "error: /tmp/tempfile.cl:3:10: no y",
    "<kernel>:3:5: error: no y", "kernels(3): error: no y",
])  # fmt: skip
def test_messages_are_shown_with_their_lines(message):
    shown = explain(message, "first\nsecond\n  third\n", "k.cl").splitlines()
    assert shown == [message, "    | k.cl:3: third"]


def test_more_than_the_limit(device):
    with (
        config.override(memory_limit=device.allocator.stats().live + (1 << 20)),
        pytest.raises(OutOfMemoryError, match=r"CL: 4 MiB more would exceed the limit of .*_MEMORY_LIMIT"),
    ):
        device.allocator.allocate(4 << 20)


def test_more_than_the_device_has(device):
    with pytest.raises(OutOfMemoryError, match=r"CL: 1024\.0 TiB more would exceed the device's memory"):
        device.allocator.allocate(1 << 50)


def test_errors_of_the_driver_are_named(device):
    with pytest.raises(OutOfMemoryError, match="CL: the device has no memory for what was started"), \
            device.errors():  # fmt: skip
        raise device.cl.RuntimeError("clEnqueueNDRangeKernel failed: MEM_OBJECT_ALLOCATION_FAILURE")
    with pytest.raises(DeviceError, match=r"CL .*INVALID_KERNEL_ARGS"), device.errors():
        raise device.cl.LogicError("clEnqueueNDRangeKernel failed: INVALID_KERNEL_ARGS")
    with pytest.raises(KeyError), device.errors():
        raise KeyError


def test_double_precision_where_there_is_none(device, monkeypatch):
    monkeypatch.setattr(device, "target", replace(device.target, fp64=False))
    monkeypatch.setitem(sys.modules["dawdle.runtime.device"]._opened, "CL", device)
    with pytest.raises(DTypeError, match=r"array of shape \(2,\) is float64, which device CL can't compute"):
        Tensor(np.zeros(2), device="CL")
    x = Tensor(np.ones(3, np.float32), device="CL")
    with pytest.raises(DTypeError, match=r"cast of shape \(3,\) is float64.*cl_khr_fp64"):
        x.double().realize()
    with pytest.raises(DTypeError, match="float64"):
        x.to("CPU").double().to("CL").realize()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_is_told(device, monkeypatch):
    monkeypatch.setattr(device, "_process", os.getpid() + 1)
    with pytest.raises(DeviceError, match="opened before this process was forked"):
        device.from_numpy(np.zeros(3))


# ---- finding devices


@pytest.fixture
def rediscover():
    clplatform.find_devices.cache_clear()
    yield
    clplatform.find_devices.cache_clear()


def test_devices_are_listed():
    found = {s.name: s for s in devices()}
    assert found["CL"].works and found["CL"].description == clplatform.description(DEVICES[0])
    assert get_device("cl:0") is get_device("Cl") is get_device("CL")
    with pytest.raises(DeviceError, match=r"there is no device CL:99; there are CL"):
        get_device("CL:99")
    for wrong in ("CL:x", "CL:-1", "CPU:1"):
        with pytest.raises(DeviceError, match="unknown device"):
            get_device(wrong)


def test_the_filter(rediscover):
    words = clplatform.description(DEVICES[0]).split()
    assert clplatform.find_devices(f"{words[0].upper()} {words[-1].lower()}")[0] == DEVICES[0]
    with pytest.raises(DeviceError, match=f"no OpenCL device matches DAWDLE_CL_DEVICE='abacus'.*{words[0]}"):
        clplatform.find_devices("abacus")


def test_without_pyopencl(rediscover, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(DeviceError, match=r"needs pyopencl.*pip install 'pyopencl\[pocl\]'"):
        clplatform.find_devices("")
    with pytest.raises(DeviceError, match="pyopencl"):
        opencl.names()


def test_without_a_platform(rediscover, monkeypatch):
    cl = clplatform.pyopencl()
    monkeypatch.setattr(cl, "get_platforms", list)
    with pytest.raises(DeviceError, match=r"no OpenCL device \(platforms: none\)"):
        clplatform.find_devices("")

    def nothing():
        raise cl.LogicError("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")

    monkeypatch.setattr(cl, "get_platforms", nothing)
    clplatform.find_devices.cache_clear()
    with pytest.raises(DeviceError, match=r"no OpenCL platform.*PLATFORM_NOT_FOUND_KHR"):
        clplatform.find_devices("")


@pytest.mark.skipif(not POCL, reason="no PoCL")
def test_pocl_without_a_linker(tmp_path, monkeypatch):
    with config.override(cache_dir=tmp_path):
        store = KernelStore("tag")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError, match=r"no ld on PATH.*install"):
        clplatform.check_pocl(POCL[0], store)
    linker = tmp_path / "ld"  # one that finds no libgcc
    linker.write_text("#!/bin/sh\necho 'ld: cannot find -lgcc' >&2\nexit 1\n")
    linker.chmod(0o755)
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "pocl"))
    with pytest.raises(DeviceError, match=r"(?s)can't run a kernel.*libgcc.*cannot find -lgcc"):
        clplatform.check_pocl(POCL[0], store)
    assert not (store.directory / "works.txt").exists()


def test_targets(monkeypatch):
    cpu, gpu = clplatform.detect(DEVICES[0], "cpu"), clplatform.detect(DEVICES[0], "gpu")
    assert (cpu.name, cpu.kind, gpu.kind) == ("opencl", "cpu", "gpu")
    assert gpu.vector_bytes == 16 and cpu.max_lanes == 16 and gpu.max_local <= 256
    assert gpu.max_params == (DEVICES[0].max_parameter_size - 8) // 16


# ---- tensors


def test_values_move_between_devices():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    a = Tensor(x, device="CPU") + 1
    b = (a.to("CL") * 2).to("NUMPY") - 1
    c = b.to("CL").sum(0)
    assert (a.to("CL").device, b.device, c.device) == ("CL", "NUMPY", "CL")
    np.testing.assert_array_equal(c.numpy(), ((x + 1) * 2 - 1).sum(0))
    with pytest.raises(DeviceError, match="CL and CPU; move one"):
        a + a.to("CL")


def test_what_is_written_to_an_array_later_is_not_seen():
    array = np.zeros(1 << 16, np.float32)
    tensors = []
    for i in range(20):
        array[:] = i
        tensors.append(Tensor(array, device="CL"))
    array[:] = -1
    for i, t in enumerate(tensors):
        assert (t.numpy() == i).all()


def test_empty_and_single_values():
    assert Tensor(np.zeros((0, 3), np.float32), device="CL").numpy().shape == (0, 3)
    assert (Tensor.zeros(0, 3, device="CL") + 1).numpy().shape == (0, 3)
    assert Tensor(3.0, device="CL").item() == 3.0
    assert (Tensor(3.0, device="CL") + 1).item() == 4.0


def test_host_functions_run_between_kernels():
    x = build.buffer(get_device("CL").from_numpy(np.arange(4, dtype=np.float32)), (4,), float32, "CL")
    double = build.binary(build.Op.ADD, x, x)
    cubed = build.custom(lambda a: a**3, double, shape=(4,), dtype=float32)
    y = build.binary(build.Op.ADD, cubed, x)
    realize([y])
    np.testing.assert_array_equal(load(y), (2 * np.arange(4)) ** 3 + np.arange(4))


def test_replays_see_new_values():
    @jit
    def step(w, x):
        w.assign(w * 0.5 + x.sum(0))
        return w * 2

    w, expected = Tensor.zeros(3, device="CL"), np.zeros(3)
    for i in range(60):  # more than may wait in the queue
        x = np.full((4, 3), i, np.float32)
        out = step(w, Tensor(x, device="CL"))
        expected = expected * 0.5 + x.sum(0)
    np.testing.assert_allclose(out.numpy(), expected * 2, rtol=1e-6)
    np.testing.assert_allclose(w.numpy(), expected, rtol=1e-6)


def test_kernels_with_too_many_buffers_are_split(device, monkeypatch):
    monkeypatch.setattr(device, "target", replace(device.target, max_params=6))
    monkeypatch.setitem(sys.modules["dawdle.runtime.device"]._opened, "CL", device)
    clear_caches()
    arrays = [np.full(2000, i, np.float32) for i in range(20)]
    total, scaled = None, []
    for x in (Tensor(a, device="CL") for a in arrays):
        total = x if total is None else total * 0.5 + x
        scaled.append(total + 1)
    scaled[-1].realize(*scaled[10:])
    expected = 0
    for i, a in enumerate(arrays):
        expected = a if i == 0 else expected * np.float32(0.5) + a
        if i >= 10:
            np.testing.assert_allclose(scaled[i].numpy(), expected + 1, rtol=1e-6)
    clear_caches()


def test_debug_output(capsys):
    x = Tensor(np.ones((37, 5), np.float32), device="CL")
    with config.override(debug=4):
        (x * 3 + 1).realize()
    out = capsys.readouterr().out
    for words in ("plan: 1 inputs", "because", "__kernel void", "GFLOP/s", " us "):
        assert words in out


def test_copies_are_computed_together(monkeypatch):
    compiled = []
    compile_graph = executor.compile_graph

    def counted(device, outputs, key, leaves):
        compiled.append((device.name, len(outputs)))
        return compile_graph(device, outputs, key, leaves)

    monkeypatch.setattr(executor, "compile_graph", counted)
    clear_caches()
    arrays = [np.random.default_rng(7).standard_normal((3, 5 + i)).astype(np.float32) for i in range(4)]
    outs = [(Tensor(a, device="CPU") * 1.25 + 3).to("CL") * 2 for a in arrays]
    again = [(o.to("CPU") - 1).to("CL") for o in outs]  # copies of what copies bring
    again[0].realize(*again)
    for a, o in zip(arrays, again, strict=True):
        np.testing.assert_allclose(o.numpy(), (a * 1.25 + 3) * 2 - 1, rtol=1e-6)
    assert compiled == [("CPU", 4), ("CL", 4), ("CPU", 4)]
