"""CUDA source to machine code, without a GPU: by NVRTC through ctypes, or else by nvcc.

NVRTC takes 40 to 90 ms for a kernel where nvcc takes a second, and comes as a small wheel
(https://docs.nvidia.com/cuda/nvrtc), which nobody needs the toolkit for.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dawdle.errors import CompileError
from dawdle.runtime.modules import Rejected

# nothing of --use_fast_math: NaN, infinities and the sign of zero behave as NumPy's
FLAGS = ("--std=c++17", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--fmad=true")
# on Windows, nvrtc-builtins64_* and nvrtc64_*.alt.dll lie beside the library itself
PATTERNS = ("libnvrtc.so*", "nvrtc64_*_0.dll", "libnvrtc*.dylib")
FOLDERS = ("lib", "lib64", "bin", "bin/x64", "bin/x86_64", "lib/x64")
FIX = (
    "pip install nvidia-cuda-nvrtc (drivers of CUDA 12: nvidia-cuda-nvrtc-cu12), or install the CUDA toolkit"
    " and set CUDA_HOME"
)


class CudaCompiler(Protocol):
    """What makes machine code of CUDA source. ``identity`` changes when another version is installed."""

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> str: ...

    @property
    def version(self) -> tuple[int, int]: ...

    @property
    def supported(self) -> tuple[int, ...]:
        """The compute capabilities it compiles for, as 80 for 8.0, ascending."""
        ...

    def compile(
        self, source: str, name: str, arch: str, options: Sequence[str] = (), strict: bool = False
    ) -> bytes:
        """Machine code of ``source`` for ``arch``: a cubin for "sm_80", PTX text for "compute_80".

        ``name`` stands for the source in messages. With ``strict`` warnings are errors. Raises Rejected
        with the compiler's messages, which show the lines that they are about.
        """
        ...


@dataclass(frozen=True)
class Nvrtc:
    """NVIDIA's run-time compiler, a library."""

    path: str
    version: tuple[int, int]
    supported: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"NVRTC {self.version[0]}.{self.version[1]}"

    @property
    def identity(self) -> str:
        return f"nvrtc {_stamp(self.path)}"

    def compile(
        self, source: str, name: str, arch: str, options: Sequence[str] = (), strict: bool = False
    ) -> bytes:
        library = _open(self.path)
        program = ctypes.c_void_p()
        file = f"{name}.cu"
        _check(
            library,
            library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), file.encode(), 0, None, None),
        )
        try:
            flags = [f.encode() for f in (f"--gpu-architecture={arch}", *FLAGS, *options)]
            status = library.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
            log = _output(library, "ProgramLog", program).rstrip(b"\0").decode(errors="replace").strip()
            if status or (strict and "warning" in log):
                raise Rejected(log or _words(library, status))
            return _output(library, "CUBIN" if arch.startswith("sm_") else "PTX", program)
        finally:
            library.nvrtcDestroyProgram(ctypes.byref(program))


@dataclass(frozen=True)
class Nvcc:
    """The toolkit's compiler, a command that takes about a second."""

    path: str
    version: tuple[int, int]
    supported: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"nvcc {self.version[0]}.{self.version[1]}"

    @property
    def identity(self) -> str:
        return f"nvcc {_stamp(self.path)}"

    def compile(
        self, source: str, name: str, arch: str, options: Sequence[str] = (), strict: bool = False
    ) -> bytes:
        kind = "cubin" if arch.startswith("sm_") else "ptx"
        with tempfile.TemporaryDirectory(prefix="dawdle-") as where:
            path, output = Path(where) / f"{name}.cu", Path(where) / f"{name}.{kind}"
            path.write_text(source)
            command = [self.path, f"-{kind}", f"-arch={arch}", *FLAGS, *options, path.name, "-o", output.name]
            result = subprocess.run(
                command, cwd=where, capture_output=True, text=True, errors="replace", check=False
            )
            log = (result.stderr + result.stdout).strip()
            if result.returncode or (strict and "warning" in log):
                raise Rejected(log or f"exit status {result.returncode}, and no message")
            return output.read_bytes()


def find_compiler(driver: int = 0) -> CudaCompiler:
    """NVRTC, the newest version there is; where there is none, nvcc.

    ``driver`` is the driver's CUDA version, as 12 for 12.8, if one is known: machine code of a later major
    version can't be loaded by it, so such compilers are passed over. Raises CompileError with the fix if
    none is left.
    """
    found = _find(places())
    usable = [c for c in found if not driver or c.version[0] <= driver]
    if usable:
        return usable[0]
    if found:
        raise CompileError(
            f"the driver is of CUDA {driver}, but of compilers there is only"
            f" {', '.join(c.name for c in found)}: update the driver, or pip install"
            f" nvidia-cuda-nvrtc-cu{driver}"
        )
    raise CompileError(f"no CUDA compiler: neither NVRTC nor nvcc is there; {FIX}")


def architecture(capability: tuple[int, int], compiler: CudaCompiler) -> str:
    """What to compile for: machine code for the nearest capability that a device of ``capability`` runs,
    else PTX, which the driver translates.

    Machine code runs on devices of its own major capability with at least its minor one. Raises
    CompileError for a device that is older than all that the compiler knows.
    """
    device = capability[0] * 10 + capability[1]
    older = [c for c in compiler.supported if c <= device]
    if not older:
        raise CompileError(
            f"{compiler.name} no longer compiles for compute capability {capability[0]}.{capability[1]},"
            f" only from {compiler.supported[0] / 10:.1f} on; pip install nvidia-cuda-nvrtc-cu12"
        )
    best = max(older)
    return f"sm_{best}" if best // 10 == capability[0] else f"compute_{best}"


# finding


def places() -> tuple[str, str, str]:
    """The parts of the environment that decide what is found."""
    return os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), os.environ.get("PATH", "")


def _stamp(path: str) -> str:
    """A file's path, size and time, which tell one version from another without running it."""
    status = os.stat(path)
    return f"{os.path.realpath(path)} {status.st_size} {status.st_mtime_ns}"


def wheels() -> Iterator[Path]:
    """Folders of the ``nvidia`` namespace package in which wheels put the library:
    ``nvidia/cuda_nvrtc/lib`` up to CUDA 12, ``nvidia/cu13/lib`` since.
    """
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return
    for root in spec.submodule_search_locations or () if spec else ():
        for package in sorted(Path(root).glob("cu*"), reverse=True):
            yield from (package / folder for folder in FOLDERS)


def toolkits() -> Iterator[Path]:
    """Folders of installed toolkits."""
    roots = [os.environ.get(v, "") for v in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX")]
    nvcc = shutil.which("nvcc")
    if nvcc:
        roots.append(str(Path(os.path.realpath(nvcc)).parent.parent))
    roots += ["/usr/local/cuda", "/opt/cuda", "/usr"]
    for root in roots:
        if root:
            yield from (Path(root) / folder for folder in FOLDERS)


def libraries() -> list[str]:
    """Paths of NVRTC libraries, those of wheels first; one for each folder."""
    found: dict[str, None] = {}
    for folder in (*wheels(), *toolkits()):
        for pattern in PATTERNS:
            files = sorted(p for p in folder.glob(pattern) if ".alt." not in p.name)
            if files:
                found.setdefault(os.path.realpath(files[-1]))
    system = ctypes.util.find_library("nvrtc")
    return [*found, *([system] if system and not found else [])]


@functools.lru_cache
def _find(places: tuple[str, str, str]) -> tuple[CudaCompiler, ...]:
    """All compilers, NVRTC's newest version first, nvcc last."""
    found: list[Nvrtc] = []
    for path in libraries():
        try:
            library = _open(path)
        except OSError:  # for another architecture, or without what it needs
            continue
        found.append(Nvrtc(path, _version(library), _supported(library)))
    found.sort(key=lambda c: c.version, reverse=True)
    nvcc = find_nvcc()
    return (*found, *([nvcc] if nvcc else []))


def find_nvcc() -> Nvcc | None:
    """The toolkit's compiler, if it is there and works."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    path = shutil.which("nvcc", path=str(Path(home) / "bin")) if home else None
    path = path or shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if path is None:
        return None
    version = re.search(r"release (\d+)\.(\d+)", _stdout(path, "--version"))
    supported = re.findall(r"compute_(\d+)\b", _stdout(path, "--list-gpu-arch"))
    if not version or not supported:
        return None
    return Nvcc(path, (int(version[1]), int(version[2])), tuple(sorted(map(int, supported))))


def _stdout(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False).stdout
    except OSError:
        return ""


# calling NVRTC


@functools.lru_cache
def _open(path: str) -> ctypes.CDLL:
    if os.name == "nt":
        os.add_dll_directory(str(Path(path).parent))  # type: ignore[attr-defined]
    library = ctypes.CDLL(path)
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def _words(library: ctypes.CDLL, status: int) -> str:
    text: bytes = library.nvrtcGetErrorString(status)
    return text.decode(errors="replace")


def _check(library: ctypes.CDLL, status: int) -> None:
    if status:
        raise CompileError(f"NVRTC failed: {_words(library, status)}")


def _version(library: ctypes.CDLL) -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(library, library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


def _supported(library: ctypes.CDLL) -> tuple[int, ...]:
    count = ctypes.c_int()
    _check(library, library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    capabilities = (ctypes.c_int * count.value)()
    _check(library, library.nvrtcGetSupportedArchs(capabilities))
    return tuple(sorted(capabilities))


def _output(library: ctypes.CDLL, what: str, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    get: Callable[..., int] = getattr(library, f"nvrtcGet{what}")
    _check(library, getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    data = ctypes.create_string_buffer(size.value)
    _check(library, get(program, data))
    return data.raw
