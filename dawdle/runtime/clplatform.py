"""OpenCL devices of this machine: which there are, and what code for them must be like."""

from __future__ import annotations

import functools
import importlib
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from dawdle.codegen.target import Target
from dawdle.errors import DeviceError
from dawdle.runtime.cpu import detect_target
from dawdle.runtime.library import cores
from dawdle.runtime.store import KernelStore

# nothing of -cl-fast-relaxed-math: NaN, infinities and the sign of zero behave as NumPy's
STANDARD = "-cl-std=CL1.2"
ROUNDED = "-cl-fp32-correctly-rounded-divide-sqrt"
MAX_LOCAL = 256  # work-items of a group; more seldom pay
MAX_LANES = 16  # elements of the language's longest vectors
SIMULATOR = 3  # the rank after GPUs, accelerators and CPUs
INSTALL = "pip install 'pyopencl[pocl]' brings PoCL, which runs OpenCL on the CPU"


def pyopencl() -> Any:
    """The module. Raises DeviceError with the fix where it isn't installed or can't be loaded."""
    try:
        return importlib.import_module("pyopencl")
    except (ImportError, OSError) as e:
        raise DeviceError(f"OpenCL needs pyopencl, which can't be imported ({e}); {INSTALL}") from None


@functools.lru_cache
def find_devices(wanted: str) -> tuple[Any, ...]:
    """The devices whose platform's and own name together contain all words of ``wanted``, in any case of
    letters: GPUs, then accelerators, CPUs, and simulators, which are all of these.

    Raises DeviceError if there are none.
    """
    cl = pyopencl()
    try:
        platforms = cl.get_platforms()
        found = [d for p in platforms for d in _devices(cl, p)]
    except cl.Error as e:
        raise DeviceError(f"no OpenCL platform: {e}; install a vendor's driver, or {INSTALL}") from None
    if not found:
        names = ", ".join(p.name for p in platforms) or "none"
        raise DeviceError(f"no OpenCL device (platforms: {names}); install a vendor's driver, or {INSTALL}")
    words = wanted.lower().split()
    chosen = [d for d in found if all(w in description(d).lower() for w in words)]
    if not chosen:
        raise DeviceError(
            f"no OpenCL device matches DAWDLE_CL_DEVICE={wanted!r}; there are"
            f" {'; '.join(description(d) for d in found)}"
        )
    return tuple(sorted(chosen, key=lambda d: _rank(cl, d)))


def _devices(cl: Any, platform: Any) -> list[Any]:
    try:
        return [d for d in platform.get_devices() if d.available and d.compiler_available]
    except cl.Error:  # a platform without devices
        return []


def _rank(cl: Any, device: Any) -> int:
    kinds = (cl.device_type.GPU, cl.device_type.ACCELERATOR, cl.device_type.CPU)
    found = [i for i, kind in enumerate(kinds) if device.type & kind]
    return found[0] if len(found) == 1 else SIMULATOR


def is_simulator(device: Any) -> bool:
    """Whether a device says that it is of no kind, or of several: it checks kernels, and takes its time."""
    return _rank(pyopencl(), device) == SIMULATOR


def description(device: Any) -> str:
    """The platform's and the device's names."""
    return f"{device.platform.name.strip()} {device.name.strip()}"


def is_pocl(device: Any) -> bool:
    return "portable computing language" in device.platform.name.lower()


def builds_at_once(device: Any) -> int:
    """Programs to build at the same time. Oclgrind's compiler can't be called from several threads."""
    kinds = pyopencl().device_type
    return 1 if device.type & kinds.GPU and device.type & kinds.CPU else cores()


def is_cpu(device: Any) -> bool:
    kinds = pyopencl().device_type
    return bool(device.type & kinds.CPU) and not device.type & kinds.GPU


def options(device: Any) -> str:
    """The build options: those that keep to IEEE arithmetic as far as the device can."""
    exact = device.single_fp_config & pyopencl().device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    return f"{STANDARD} {ROUNDED}" if exact else STANDARD


def identity(device: Any) -> str:
    """All that decides what machine code a source becomes."""
    platform = device.platform
    parts = (platform.name, platform.version, device.name, device.version, device.driver_version)
    return "\0".join((*parts, options(device)))


def detect(device: Any, recipe: str) -> Target:
    """The device's limits. CPUs get kernels that loop and GPUs kernels for groups of work-items, unless
    ``recipe`` says "cpu" or "gpu".
    """
    common = Target(
        name="opencl",
        kind=recipe or ("cpu" if is_cpu(device) else "gpu"),
        threads=device.max_compute_units,
        max_lanes=MAX_LANES,
        max_local=min(device.max_work_group_size, MAX_LOCAL),
        local_bytes=device.local_mem_size,
        # each takes an address and an offset; a last address is that of the scratch memory
        max_params=(device.max_parameter_size - 8) // 16,
        fp64="cl_khr_fp64" in device.extensions.split() or bool(device.double_fp_config),
    )
    if common.kind == "gpu":
        return replace(common, vector_bytes=16, registers=64)
    host = detect_target()
    return replace(common, vector_bytes=host.vector_bytes, registers=host.registers, l1=host.l1, l2=host.l2)


# processes of their own: PoCL builds one program at a time, and ends the process in which it can't link
OPEN = """
import sys, numpy, pyopencl as cl
d = [d for p in cl.get_platforms() for d in p.get_devices()
     if p.name.strip() + " " + d.name.strip() == sys.argv[1]][0]
c = cl.Context([d])
"""
BUILD = OPEN + """
p = cl.Program(c, sys.stdin.buffer.read().decode()).build(sys.argv[2], cache_dir=False)
sys.stdout.buffer.write(p.get_info(cl.program_info.BINARIES)[0])
"""
PROBE = OPEN + """
q = cl.CommandQueue(c)
b = cl.Buffer(c, cl.mem_flags.READ_WRITE, 4)
k = cl.Program(c, "__kernel void probe(__global float *x) { x[0] = exp2(3.0f); }").build(cache_dir=False)
k.probe(q, (1,), (1,), b)
r = numpy.zeros(1, numpy.float32)
cl.enqueue_copy(q, r, b)
assert r[0] == 8, r
"""
LINKER = (
    "PoCL links kernels with the system's ld and libgcc: install them (Debian: apt install binutils"
    " libgcc-12-dev, or gcc, which brings both)"
)


def _apart(code: str, device: Any, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", code, description(device), *arguments],
        input=given, capture_output=True, check=False, env={**os.environ, "PYOPENCL_NO_CACHE": "1"},
    )  # fmt: skip


def build_apart(device: Any, text: str) -> bytes | None:
    """The binary that another process makes of a program; None if it can't."""
    result = _apart(BUILD, device, options(device), given=text.encode())
    return None if result.returncode else result.stdout


def check_pocl(device: Any, store: KernelStore) -> None:
    """Raise DeviceError where PoCL can't build kernels. That it can is noted beside the kernels on disk."""
    if not is_pocl(device):
        return
    if shutil.which("ld") is None:
        raise DeviceError(f"{description(device)}: there is no ld on PATH. {LINKER}")
    note = store.directory / "works.txt"
    if note.exists():
        return
    result = _apart(PROBE, device)
    if result.returncode:
        said = result.stderr.decode(errors="replace").strip()
        raise DeviceError(f"{description(device)} can't run a kernel. {LINKER}. It said:\n{said}")
    store.write_text(Path(note), "it has built and run a kernel\n")
