"""One frozen Config, read from the environment once; ``override`` replaces it for a block (in tests)."""
from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path

from dawdle.errors import DawdleError


def _cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "dawdle"


@dataclass(frozen=True)
class Config:
    """Settings. Each field is read from the environment variable named in its comment."""

    debug: int = 0  # DEBUG: 0 to 7, see README
    device: str = ""  # DAWDLE_DEVICE: "" picks the best device that works
    threads: int = 0  # DAWDLE_THREADS: 0 means one for each core this process may use
    cache_dir: Path = Path()  # DAWDLE_CACHE_DIR, else XDG_CACHE_HOME/dawdle, else ~/.cache/dawdle
    cl_device: str = ""  # DAWDLE_CL_DEVICE: words in the platform's and the device's name; "" takes all
    cl_recipe: str = ""  # DAWDLE_CL_RECIPE: "cpu" or "gpu", whatever the OpenCL device is
    tf32: int = 0  # DAWDLE_TF32: 1 lets CUDA's tensor cores round float32 factors of products to TF32
    check: int = 1  # DAWDLE_CHECK: 0 leaves out the checks of indices that are known only on the device
    memory_limit: int = 0  # DAWDLE_MEMORY_LIMIT: bytes a device's buffers may take; 0 means no limit

    def __post_init__(self) -> None:
        for name, variable in (
            ("debug", "DEBUG"),
            ("threads", "DAWDLE_THREADS"),
            ("tf32", "DAWDLE_TF32"),
            ("check", "DAWDLE_CHECK"),
            ("memory_limit", "DAWDLE_MEMORY_LIMIT"),
        ):
            value = getattr(self, name)
            if value < 0:
                raise DawdleError(f"setting {name} ({variable}) is {value}; it must not be negative")
        if self.cl_recipe not in ("", "cpu", "gpu"):
            words = f"setting cl_recipe (DAWDLE_CL_RECIPE) is {self.cl_recipe!r}"
            raise DawdleError(f"{words}; it must be 'cpu', 'gpu' or empty")

    @staticmethod
    def from_env() -> Config:
        def integer(name: str, default: int = 0) -> int:
            text = os.environ.get(name, "") or str(default)
            try:
                return int(text)
            except ValueError:
                raise DawdleError(f"environment variable {name}={text!r} is not an integer") from None

        cache = os.environ.get("DAWDLE_CACHE_DIR")
        return Config(
            debug=integer("DEBUG"),
            device=os.environ.get("DAWDLE_DEVICE", ""),
            threads=integer("DAWDLE_THREADS"),
            cache_dir=Path(cache) if cache else _cache_dir(),
            cl_device=os.environ.get("DAWDLE_CL_DEVICE", ""),
            cl_recipe=os.environ.get("DAWDLE_CL_RECIPE", ""),
            tf32=integer("DAWDLE_TF32"),
            check=integer("DAWDLE_CHECK", 1),
            memory_limit=integer("DAWDLE_MEMORY_LIMIT"),
        )

    @property
    def num_threads(self) -> int:
        """Threads a CPU kernel runs on."""
        if self.threads > 0:
            return self.threads
        # cores that the process may use, where the system tells
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_current = Config.from_env()


def current() -> Config:
    """The settings in force."""
    return _current


@contextmanager
def override(**changes: object) -> Iterator[Config]:
    """Run a block under changed settings: ``with override(debug=2): ...``"""
    global _current
    unknown = set(changes) - {f.name for f in fields(Config)}
    if unknown:
        raise DawdleError(f"unknown settings {sorted(unknown)}; known are {[f.name for f in fields(Config)]}")
    saved = _current
    _current = replace(saved, **changes)  # type: ignore[arg-type]
    try:
        yield _current
    finally:
        _current = saved
