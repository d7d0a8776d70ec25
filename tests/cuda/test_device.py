"""The CUDA device on drivers that are made up: the emulation's, and pycuda's interface without pycuda."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import types
from types import SimpleNamespace

import numpy as np
import pytest
from emulate import EmulatedDriver, EmulatedLibrary, compiler

from dawdle import config
from dawdle.codegen.render.cuda import PRELUDE
from dawdle.errors import CompileError, DeviceError, OutOfMemoryError
from dawdle.runtime import cuda, cudadriver, nvrtc
from dawdle.runtime.compiler import Source
from dawdle.runtime.cuda import CAPTURES, GRAPHS, CubinLibrary, CudaDevice
from dawdle.runtime.modules import Damaged
from dawdle.runtime.plan import KernelStep, PlannedKernel

SCALE = """extern "C" __global__ void scale(float *out, const float *in) {
  out[blockIdx.x * 4 + threadIdx.x] = 2 * in[blockIdx.x * 4 + threadIdx.x];
}"""
KERNEL = PlannedKernel("scale", SCALE, 0, True, 16, 128, (16,), (4, 4))
TWICE = KernelStep((KERNEL, KERNEL), (((1, 0), (0, 0)), ((2, 64), (1, 0))), ((0, 1), (1, 2)))


@pytest.fixture(scope="module")
def library():
    try:
        compiler()
    except CompileError as e:
        pytest.skip(str(e))
    return EmulatedLibrary(PRELUDE, (8, 0))


@pytest.fixture
def device(library):
    return CudaDevice("CUDA", EmulatedDriver(), library)


def buffers(device: CudaDevice) -> list:
    x = np.arange(16, dtype=np.float32)
    return [device.from_numpy(x), device.allocator.allocate(64), device.allocator.allocate(128)]


def check(device: CudaDevice, memory: list) -> None:
    got = device.read(memory[2], 64, np.dtype("f4"), (16,))
    np.testing.assert_array_equal(got, 4 * np.arange(16))


def test_kernels_run_in_order_at_their_offsets(device):
    (launcher,) = device.link([TWICE])
    memory = buffers(device)
    launcher.run(memory)
    check(device, memory)
    assert device.driver.launches == 2


def test_the_second_run_on_the_same_memory_is_captured(device):
    (launcher,) = device.link([TWICE])
    memory = buffers(device)
    for _ in range(4):
        device.write(memory[2], 0, np.zeros(32, np.float32))
        launcher.run(memory)
        check(device, memory)
    assert device.driver.started == 3
    other = buffers(device)
    launcher.run(other)
    check(device, other)
    assert device.driver.started == 3


def test_graphs_used_longest_ago_make_room(device, monkeypatch):
    discarded = []
    monkeypatch.setattr(device.driver, "discard", discarded.append)
    (launcher,) = device.link([TWICE])
    many = [buffers(device) for _ in range(GRAPHS + 1)]
    for _ in range(2):
        for memory in many:
            launcher.run(memory)
            check(device, memory)
    assert len(discarded) == 1
    del launcher
    assert len(discarded) == GRAPHS + 1


def test_graphs_that_never_come_again_are_given_up(device):
    (launcher,) = device.link([TWICE])
    many = [buffers(device) for _ in range(GRAPHS + 1)]  # more than are kept: each is captured in vain
    for _ in range(2 * CAPTURES):
        for memory in many:
            launcher.run(memory)
    assert device.driver.started <= CAPTURES
    check(device, many[0])


def test_an_error_while_capturing_leaves_no_capture(device, monkeypatch):
    (launcher,) = device.link([TWICE])
    memory = buffers(device)
    launcher.run(memory)

    def fail(*_):
        raise RuntimeError("the driver says no")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="the driver says no"):
        patch.setattr(device.driver, "launch", fail)
        launcher.run(memory)
    assert device.driver._captured is None
    launcher.run(memory)
    check(device, memory)


def test_single_kernels_are_just_launched(device):
    (launcher,) = device.link([KernelStep((KERNEL,), (((1, 0), (0, 0)),), ((0, 1),))])
    memory = buffers(device)
    for _ in range(3):
        launcher.run(memory)
    assert device.driver.started == 0 and device.driver.launches == 3


def test_profiling_times_each_kernel(device):
    (launcher,) = device.link([TWICE])
    times = launcher.profile(buffers(device))
    assert len(times) == 2 and all(t > 0 for t in times)


def test_memory_is_reused_and_given_back(device):
    first = device.allocator.allocate(1000)
    address = first.address
    del first
    again = device.allocator.allocate(1000)
    assert again.address == address and address in device.driver.live
    del again
    device.allocator.empty_cache()
    assert address not in device.driver.live


def test_out_of_memory(device, monkeypatch):
    def full(nbytes):
        raise MemoryError("cuMemAlloc failed: out of memory")

    monkeypatch.setattr(device.driver, "allocate", full)
    with pytest.raises(OutOfMemoryError, match="CUDA: 4 KiB more would exceed the device's memory"):
        device.allocator.allocate(4096)


def test_errors_name_the_device(device, monkeypatch):
    class DriverError(Exception):
        pass

    def fail(*_):
        raise DriverError("an illegal memory access was encountered")

    monkeypatch.setattr(device.driver, "errors", (DriverError,))
    monkeypatch.setattr(device.driver, "download", fail)
    with pytest.raises(DeviceError, match=r"CUDA \(emulation 8\.0\): an illegal memory access.*earlier one"):
        device.to_numpy(device.from_numpy(np.zeros(3)), np.dtype("f8"), (3,))


def test_a_forked_process_is_told(device, monkeypatch):
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    with pytest.raises(DeviceError, match="forked, and CUDA doesn't survive that"):
        device.from_numpy(np.zeros(3))


@pytest.mark.parametrize("shape", [(), (0, 3), (3, 4)])
def test_arrays_come_back(device, shape):
    x = np.random.default_rng(0).standard_normal(shape)
    storage = device.from_numpy(x[..., ::-1] if x.ndim else x)
    got = device.to_numpy(storage, x.dtype, shape)
    np.testing.assert_array_equal(got, x[..., ::-1] if x.ndim else x)
    assert not device.view(storage, x.dtype, shape).flags.writeable


def test_ceilings(device, monkeypatch):
    monkeypatch.setattr(cuda, "COPIED", 1 << 16)
    monkeypatch.setattr(cuda, "PEAK", cuda.PEAK.replace(f"k < {cuda.STEPS}", "k < 2"))
    monkeypatch.setattr(cuda, "COPY", cuda.COPY.replace(str((256 << 20) // 16), str((1 << 16) // 16)))
    found = device.ceilings(again=True)
    assert found.flops > 0 and found.bytes > 0


class Cubins:
    """A driver for which only modules matter."""

    capability = (8, 6)
    description = "none"

    def __init__(self) -> None:
        self.loaded: list[bytes] = []
        self.damaged = False

    def current(self):
        return contextlib.nullcontext()

    def load(self, binary: bytes) -> bytes:
        if self.damaged:
            raise Damaged("no kernel image is available")
        self.loaded.append(binary)
        return binary


@pytest.fixture
def nvrtc_compiler():
    found = [c for c in nvrtc._find(nvrtc.places()) if isinstance(c, nvrtc.Nvrtc)]
    if not found:
        pytest.skip(f"no NVRTC: {nvrtc.FIX}")
    return found[0]


def test_cubins_are_kept_on_disk(nvrtc_compiler, tmp_path, monkeypatch):
    with config.override(cache_dir=tmp_path):
        source = Source("scale", SCALE)
        first = CubinLibrary(Cubins(), nvrtc_compiler)
        module = first.load([source])["scale"]
        assert module.startswith(b"\x7fELF") and first.compiled == 1 and first.arch == "sm_86"
        second = CubinLibrary(Cubins(), nvrtc_compiler)
        assert second.load([source])["scale"] == module and second.compiled == 0
        broken = Cubins()
        broken.damaged = True
        third = CubinLibrary(broken, nvrtc_compiler)
        with pytest.raises(Damaged):  # it is compiled anew, and the driver refuses that too
            third.load([source])


def test_assembly_is_ptx(nvrtc_compiler, tmp_path):
    with config.override(cache_dir=tmp_path):
        library = CubinLibrary(Cubins(), nvrtc_compiler)
        driver = EmulatedDriver((8, 6))
        text = CudaDevice("CUDA", driver, library).assembly(Source("scale", SCALE))
    assert ".target sm_86" in text and ".entry scale" in text


def test_compile_errors_show_the_line(nvrtc_compiler, tmp_path):
    with config.override(cache_dir=tmp_path):
        library = CubinLibrary(Cubins(), nvrtc_compiler)
        bad = Source("bad", SCALE.replace("scale", "bad").replace("2 *", "two *"))
        with pytest.raises(CompileError) as e:
            library.load([Source("scale", SCALE), bad])
    text = str(e.value)
    assert "NVRTC" in text and "failed on kernel bad" in text and 'identifier "two" is undefined' in text
    assert "two * in[blockIdx.x" in text


# pycuda's interface


class FakeCuda(types.ModuleType):
    """What PycudaDriver uses of pycuda.driver; everything is noted in ``calls``."""

    class Error(Exception):
        pass

    class MemoryError(Error):
        pass

    def __init__(self, count: int = 2) -> None:
        super().__init__("pycuda.driver")
        self.calls: list[tuple] = []
        fake = self

        class Context:
            def push(self) -> None:
                fake.calls.append(("push",))

            def pop(self) -> None:
                fake.calls.append(("pop",))

        class Device:
            def __init__(self, index: int) -> None:
                self.index = index

            @staticmethod
            def count() -> int:
                return count

            def name(self) -> str:
                return f"Fake {self.index}"

            def compute_capability(self) -> tuple[int, int]:
                return (8, 9)

            def total_memory(self) -> int:
                return 1 << 33

            def retain_primary_context(self) -> Context:
                return Context()

            def get_attribute(self, key: str) -> int:
                return {"processors": 58, "threads": 1024, "shared": 48 << 10}[key]

        class Stream:
            handle = 77

            def synchronize(self) -> None:
                fake.calls.append(("synchronize",))

        class Event:
            def record(self, stream: Stream) -> Event:
                return self

            def synchronize(self) -> None: ...

            def time_since(self, other: Event) -> float:
                return 0.25

        self.Device, self.Stream, self.Event = Device, Stream, Event
        self.device_attribute = SimpleNamespace(
            MULTIPROCESSOR_COUNT="processors",
            MAX_THREADS_PER_BLOCK="threads",
            MAX_SHARED_MEMORY_PER_BLOCK="shared",
        )

    def init(self) -> None:
        self.calls.append(("init",))

    def get_driver_version(self) -> int:
        return 12080

    def mem_alloc(self, nbytes: int) -> object:
        if nbytes > 1 << 30:
            raise self.MemoryError("cuMemAlloc failed: out of memory")
        return SimpleNamespace(free=lambda: self.calls.append(("free",)))

    def memcpy_htod_async(self, address, data, stream) -> None:
        self.calls.append(("upload", address, data.nbytes))

    def memcpy_dtoh_async(self, data, address, stream) -> None:
        self.calls.append(("download", address, data.nbytes))

    def module_from_buffer(self, binary: bytes) -> object:
        if not binary.startswith(b"\x7fELF"):
            raise self.Error("device kernel image is invalid")
        return SimpleNamespace(get_function=self.get_function)

    def get_function(self, name: str) -> object:
        calls = self.calls

        class Function:
            def prepare(self, kinds: str) -> Function:
                calls.append(("prepare", name, kinds))
                return self

            def prepared_async_call(self, grid, block, stream, *arguments) -> None:
                calls.append(("launch", name, grid, block, stream.handle, arguments))

        return Function()


@pytest.fixture
def fake(monkeypatch):
    module = FakeCuda()
    monkeypatch.setitem(sys.modules, "pycuda", types.ModuleType("pycuda"))
    monkeypatch.setitem(sys.modules, "pycuda.driver", module)
    cudadriver.pycuda.cache_clear()
    yield module
    cudadriver.pycuda.cache_clear()


def test_pycuda_is_called_as_it_wants_to_be(fake):
    driver = cudadriver.PycudaDriver(1)
    assert (driver.description, driver.capability, driver.version) == ("Fake 1", (8, 9), 12)
    assert (driver.processors, driver.max_local, driver.local_bytes) == (58, 1024, 48 << 10)
    fake.calls.clear()
    data = np.zeros(8, np.uint8)
    with driver.current():
        function = driver.function(driver.load(b"\x7fELF"), "f", 2)
        driver.launch(function, 5, 64, [10, 20])
        driver.upload(4096, data)
        driver.download(data, 8192)
    assert fake.calls == [
        ("push",), ("prepare", "f", "PP"), ("launch", "f", (5, 1), (64, 1, 1), 77, (10, 20)),
        ("upload", 4096, 8), ("download", 8192, 8), ("synchronize",), ("pop",),
    ]  # fmt: skip
    assert driver.elapsed(driver.event(), driver.event()) == 250_000
    with pytest.raises(MemoryError, match="out of memory"):
        driver.allocate(1 << 31)
    with pytest.raises(Damaged, match="invalid"):
        driver.load(b"not a module")
    fake.calls.clear()
    driver.free(driver.allocate(8))
    assert fake.calls == [("push",), ("free",), ("pop",)]


def test_names(fake):
    assert cuda.names() == ["CUDA", "CUDA:1"]
    with pytest.raises(DeviceError, match="no device CUDA:2; there are CUDA, CUDA:1"):
        cuda.open_device(2)


def test_no_device(monkeypatch):
    monkeypatch.setitem(sys.modules, "pycuda", types.ModuleType("pycuda"))
    monkeypatch.setitem(sys.modules, "pycuda.driver", FakeCuda(0))
    cudadriver.pycuda.cache_clear()
    with pytest.raises(DeviceError, match="driver knows of none"):
        cuda.names()
    cudadriver.pycuda.cache_clear()


def test_no_pycuda(monkeypatch):
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)
    monkeypatch.setitem(sys.modules, "pycuda", None)
    cudadriver.pycuda.cache_clear()
    with pytest.raises(
        DeviceError, match=r"CUDA needs pycuda.*dawdle\[cuda\].*C\+\+ compiler and CUDA's headers"
    ):
        cuda.names()
    cudadriver.pycuda.cache_clear()


class FakeLibcuda:
    """The functions for graphs, noted in ``calls``; the one named ``failing`` gives error 900."""

    def __init__(self, failing: str = "") -> None:
        self.calls: list[str] = []
        self.failing = failing

    def __getattr__(self, name: str):
        def function(*arguments):
            if name == "cuGetErrorString":
                arguments[1]._obj.value = b"operation not permitted when stream is capturing"
                return 0
            self.calls.append(name)
            if name == self.failing:
                return 900
            for a in arguments:
                if isinstance(getattr(a, "_obj", None), ctypes.c_void_p):
                    a._obj.value = 1234
            return 0

        return function


def test_graphs_of_the_driver():
    library = FakeLibcuda()
    graphs = cudadriver.Graphs(library)
    graphs.begin(7)
    assert graphs.end(7) == 1234
    graphs.start(1234, 7)
    graphs.discard(1234)
    assert library.calls == [
        "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphDestroy",
        "cuGraphLaunch", "cuGraphExecDestroy",
    ]  # fmt: skip


def test_graphs_say_what_failed_and_leave_none_behind():
    library = FakeLibcuda("cuGraphInstantiateWithFlags")
    with pytest.raises(DeviceError, match="cuGraphInstantiateWithFlags failed: operation not permitted"):
        cudadriver.Graphs(library).end(7)
    assert library.calls[-1] == "cuGraphDestroy"


def test_a_driver_without_graphs_has_none():
    assert cudadriver.open_graphs(["libc.so.6"]) is None
    assert cudadriver.open_graphs(["no-such-library.so"]) is None
