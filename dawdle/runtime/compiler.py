"""The C compiler: found once, run on as few files as there are cores, all at the same time."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dawdle.errors import CompileError

# nothing of -ffast-math: NaN, infinities and the sign of zero behave as NumPy's. Contracted here and not
# there, a value that is computed twice wouldn't equal itself: Op.FMA says what is fused
FLAGS = (
    "-std=gnu11", "-O2", "-march=native", "-fwrapv", "-fno-math-errno", "-fno-trapping-math",
    "-ffp-contract=off",
    "-fno-semantic-interposition", "-fvisibility=default", "-shared", "-fPIC", "-w",
)  # fmt: skip
FIX = (
    "install one (Debian: apt install gcc; macOS: xcode-select --install; anywhere: pip install ziglang)"
    " or set CC"
)


@dataclass(frozen=True)
class Compiler:
    """A command that compiles C. ``identity`` changes when another version is installed."""

    command: tuple[str, ...]
    identity: str

    @property
    def name(self) -> str:
        return " ".join(self.command)

    def version(self) -> str:
        """The first line that the compiler prints about itself."""
        try:
            text = subprocess.run(
                [*self.command, "--version"], capture_output=True, text=True, check=False
            ).stdout
        except OSError as e:
            return str(e)
        return text.splitlines()[0] if text else "unknown version"

    def start(self, source: Path, output: Path, flags: Sequence[str]) -> subprocess.Popen[str]:
        """Begin compiling; raises CompileError if the command can't be run at all."""
        command = [*self.command, *flags, str(source), "-o", str(output), "-lm"]
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                close_fds=False,
            )
        except OSError as e:
            raise CompileError(f"cannot run the C compiler {self.name!r}: {e}; {FIX}") from None


def _zig() -> tuple[str, ...]:
    return (
        (sys.executable, "-m", "ziglang", "cc", "-fno-sanitize=undefined")
        if importlib.util.find_spec("ziglang")
        else ()
    )


def candidates() -> list[tuple[str, ...]]:
    """Commands to try, in order: $CC, clang, gcc, cc, and the ziglang wheel."""
    wanted = shlex.split(os.environ.get("CC", ""))
    found = [(c,) for c in ("clang", "gcc", "cc") if shutil.which(c)]
    return [tuple(wanted)] if wanted else [*found, *([_zig()] if _zig() else [])]


def find_compiler() -> Compiler:
    """The first compiler there is. Raises CompileError with the fix if there is none."""
    return compilers()[0]


def compilers() -> tuple[Compiler, ...]:
    """Every compiler there is, in the order of preference. Raises CompileError with the fix for none."""
    return _find(os.environ.get("CC", ""), os.environ.get("PATH", ""))


@functools.lru_cache
def _find(cc: str, path: str) -> tuple[Compiler, ...]:
    found = []
    for command in candidates():
        where = shutil.which(command[0])
        if where is None:
            raise CompileError(
                f"no C compiler: CC={cc!r} is not a command that can be run; unset CC or {FIX}"
            )
        # its file's size and time tell one version from another without a process
        files = [os.path.realpath(where)]
        spec = importlib.util.find_spec("ziglang") if "ziglang" in command else None
        if spec is not None and spec.origin:  # Python's own file says nothing of the compiler behind it
            files += [spec.origin, *map(str, Path(spec.origin).parent.glob("zig*"))]
        versions = [f"{f} {os.stat(f).st_size} {os.stat(f).st_mtime_ns}" for f in files]
        found.append(Compiler(command, " ".join((*versions, *command[1:]))))
    if not found:
        raise CompileError(
            f"no C compiler: none of $CC, clang, gcc, cc and the ziglang package is there; {FIX}"
        )
    return tuple(found)


@functools.lru_cache
def cpu_features() -> str:
    """What -march=native depends on: the CPU's model and features."""
    try:
        with open("/proc/cpuinfo", "rb") as f:
            text = f.read(8192).decode(errors="replace")
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    lines = dict(re.findall(r"^(model name|flags|Features|CPU part)\s*:\s*(.*)$", text, re.M))
    return f"{platform.machine()} {lines}"


def fingerprint(compiler: Compiler, *more: str) -> str:
    """A short hash of all that decides what machine code a source becomes."""
    parts = (compiler.identity, *FLAGS, cpu_features(), *more)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Source:
    """A named C function, without the prelude."""

    name: str
    text: str


def balance(sources: Sequence[Source], units: int) -> list[list[Source]]:
    """Share sources out among at most ``units`` files of about the same length."""
    bins: list[list[Source]] = [[] for _ in range(max(1, min(units, len(sources))))]
    loads = [0] * len(bins)
    for source in sorted(sources, key=lambda s: -len(s.text)):
        i = loads.index(min(loads))
        bins[i].append(source)
        loads[i] += len(source.text)
    return [b for b in bins if b]


class Compilation:
    """Compiler processes that work side by side in the directory ``where``, each on one unit."""

    def __init__(self, compiler: Compiler, prelude: str, where: Path, flags: Sequence[str] = FLAGS) -> None:
        self.compiler = compiler
        self.prelude = prelude
        self.where = where
        self.flags = flags
        self._started: list[tuple[Sequence[Source], subprocess.Popen[str], Path]] = []

    @property
    def running(self) -> int:
        """Processes that haven't ended."""
        return sum(process.poll() is None for _, process, _ in self._started)

    def start(self, unit: Sequence[Source]) -> None:
        """Begin to compile these sources to one shared library."""
        name = f"unit{len(self._started)}"
        source, output = self.where / f"{name}.c", self.where / f"{name}.so"
        source.write_text("\n".join((self.prelude, *(s.text for s in unit))))
        self._started.append((unit, self.compiler.start(source, output, self.flags), output))

    def finish(self, keep: Callable[[], Path]) -> list[tuple[Sequence[Source], Path]]:
        """Wait for all; gives each unit with its library.

        Raises CompileError with the compiler's message, the kernel's name and the path of its source, which
        then lies in the directory that ``keep`` gives.
        """
        try:
            messages = [process.communicate()[1] for _, process, _ in self._started]
        except BaseException:
            self.cancel()
            raise
        for (unit, process, _), message in zip(self._started, messages, strict=True):
            if process.returncode != 0:
                raise _failure(self.compiler, self.prelude, unit, message, self.where, keep(), self.flags)
        return [(unit, output) for unit, _, output in self._started]

    def cancel(self) -> None:
        """End all processes."""
        for _, process, _ in self._started:
            process.kill()
            process.communicate()


def _failure(
    compiler: Compiler,
    prelude: str,
    unit: Sequence[Source],
    message: str,
    where: Path,
    kept: Path,
    flags: Sequence[str],
) -> CompileError:
    """The error for a unit that doesn't compile; each of its kernels is tried alone to name the one at fault.
    """
    for source in unit:
        path, output = where / "alone.c", where / "alone.so"
        path.write_text(f"{prelude}\n{source.text}")
        process = compiler.start(path, output, flags)
        alone = process.communicate()[1]
        if process.returncode != 0:
            break
    else:
        path, alone = where / "unit.c", message
        path.write_text("\n".join((prelude, *(s.text for s in unit))))
    target = kept / f"{source.name}.c"
    shutil.copyfile(path, target)
    text = (
        alone.replace(str(path), str(target)).strip() or f"exit status {process.returncode}, and no message"
    )
    return CompileError(f"{compiler.name} failed on kernel {source.name} (source kept in {target}):\n{text}")


def assembly(compiler: Compiler, prelude: str, source: Source, where: Path) -> str:
    """The kernel as assembly text, without the assembler's directives."""
    path, output = where / "kernel.c", where / "kernel.s"
    path.write_text(f"{prelude}\n{source.text}")
    flags = [f for f in FLAGS if f != "-shared"] + ["-S"]
    process = compiler.start(path, output, flags)
    message = process.communicate()[1]
    if process.returncode != 0:
        return message
    return "\n".join(line for line in output.read_text().splitlines() if not re.match(r"\s+\.", line))
