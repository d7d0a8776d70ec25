"""Compiled kernels on disk. Many processes may use one store at a time; what is damaged is never loaded.

A library's file is named by the hash of its contents, and an entry named by a kernel's hash holds the name of
the library that the kernel is in. Files appear under their names only when complete, by renaming.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import re
import shutil
import stat
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dawdle import config

FORMAT = "v1"
DISK_LIMIT = 1 << 30  # bytes that libraries may take before those used longest ago are removed
_PATTERNS = ("*.so", "*.bin")  # libraries for the CPU, for other devices
_LIBRARY = re.compile(r"[0-9a-f]{40}\.(so|bin)")


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:40]


class KernelStore:
    """The libraries that one compiler, with one set of flags, made for one CPU: ``tag`` stands for these."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.root = writable_root()
        self.directory = self.root / FORMAT / tag
        self._pruned = False

    def find(self, key: str) -> Path | None:
        """The library that holds a kernel; None if it isn't there, or isn't as it was written."""
        entry = self.directory / key
        try:
            name = entry.read_text()
        except (OSError, ValueError):
            return None
        if not _LIBRARY.fullmatch(name):
            entry.unlink(missing_ok=True)
            return None
        path = self.directory / name
        return path if self._intact(path) else None

    @functools.lru_cache(maxsize=4096)  # noqa: B019 -- stores live as long as the process
    def _intact(self, path: Path) -> bool:
        try:
            if digest(path.read_bytes()) == path.stem:
                os.utime(path)
                return True
            path.unlink()
        except OSError:
            return False
        return False

    def add(self, keys: Sequence[str], library: Path) -> Path:
        """Copy a library into the store and enter the kernels that it holds; gives its path."""
        return self.put(keys, library.read_bytes())

    def put(self, keys: Sequence[str], data: bytes, suffix: str = ".so") -> Path:
        """Write a library into the store and enter the kernels that it holds; gives its path."""
        path = self.directory / f"{digest(data)}{suffix}"
        try:
            self._write(path, data)
            for key in keys:
                self._write(self.directory / key, path.name.encode())
            if not self._pruned:
                self._pruned = True
                prune(self.root, DISK_LIMIT)
        except OSError as e:
            self._abandon(e)
            return self.put(keys, data, suffix)
        return path

    def _write(self, path: Path, data: bytes) -> None:
        self.directory.parent.mkdir(mode=0o700, exist_ok=True)
        self.directory.mkdir(mode=0o700, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self.directory, prefix=".new")
        try:
            with os.fdopen(handle, "wb") as f:
                f.write(data)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise

    def write_text(self, path: Path, text: str) -> None:
        """Write a small file beside the libraries; where that can't be done it just isn't kept."""
        with contextlib.suppress(OSError):
            self._write(path, text.encode())

    def _abandon(self, error: OSError) -> None:
        private = private_directory()
        if self.root == private:
            raise error
        _warn(self.root, str(error))
        self.root = private
        self.directory = private / FORMAT / self.tag

    def abandon(self, error: OSError) -> None:
        """Go on in a private directory, because this one can't be used (a file system without execution,
        say).
        """
        self._abandon(error)

    @contextlib.contextmanager
    def workspace(self) -> Iterator[Path]:
        """A directory for a compiler to work in, removed afterwards."""
        with tempfile.TemporaryDirectory(prefix="dawdle-", ignore_cleanup_errors=True) as name:
            yield Path(name)

    def kept_sources(self) -> Path:
        """Where sources that don't compile are kept for their reader."""
        for root in (self.root, private_directory()):
            with contextlib.suppress(OSError):
                path = root / "failed"
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
                if os.access(path, os.W_OK):
                    return path
        return Path(tempfile.gettempdir())

    def usage(self) -> DiskUsage:
        return usage(self.root)

    def clear(self) -> None:
        """Remove every kernel on disk, of all compilers."""
        self._intact.cache_clear()
        shutil.rmtree(self.root / FORMAT, ignore_errors=True)


@dataclass(frozen=True)
class DiskUsage:
    """What a cache directory holds."""

    path: Path
    libraries: int
    plans: int
    nbytes: int


def _files(root: Path, *patterns: str) -> list[tuple[float, int, Path]]:
    """Time, size and path of the files that count, those used longest ago first."""
    found = []
    for path in (p for pattern in patterns for p in (root / FORMAT).glob(f"*/{pattern}")):
        with contextlib.suppress(OSError):
            status = path.stat()
            found.append((status.st_mtime, status.st_size, path))
    return sorted(found)


def usage(root: Path) -> DiskUsage:
    """What the cache under ``root`` holds."""
    libraries, plans = _files(root, *_PATTERNS), _files(root, "*.plan")
    return DiskUsage(root, len(libraries), len(plans), sum(size for _, size, _ in libraries + plans))


def prune(root: Path, limit: int) -> None:
    """Remove the libraries and plans used longest ago until the rest takes at most ``limit`` bytes. Their
    entries become misses.
    """
    found = _files(root, *_PATTERNS, "*.plan")
    total = sum(size for _, size, _ in found)
    touched = set()
    for _, size, path in found:
        if total <= limit:
            break
        with contextlib.suppress(OSError):
            path.unlink()
            total -= size
            touched.add(path.parent)
    for directory in touched:
        for entry in directory.iterdir():
            with contextlib.suppress(OSError):
                if not entry.suffix and not (directory / entry.read_text()).exists():
                    entry.unlink()


def writable_root() -> Path:
    """The cache directory, private to the user; a temporary one, with a warning, where that can't be had."""
    root = config.current().cache_dir
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = root.stat()
        if hasattr(os, "getuid") and status.st_uid != os.getuid():
            raise PermissionError(f"it belongs to user {status.st_uid}")
        if stat.S_IMODE(status.st_mode) & 0o077:
            root.chmod(0o700)
        if not os.access(root, os.W_OK | os.X_OK):
            raise PermissionError("it is not writable")
    except OSError as e:
        _warn(root, str(e))
        return private_directory()
    return root


@functools.lru_cache
def _warn(root: Path, error: str) -> None:
    warnings.warn(
        f"the kernel cache {root} can't be used ({error}); kernels will be compiled anew in each process."
        " Set DAWDLE_CACHE_DIR to a directory that can",
        RuntimeWarning,
        stacklevel=3,
    )


@functools.lru_cache
def _private(pid: int) -> Path:
    path = Path(tempfile.mkdtemp(prefix="dawdle-cache-"))

    def remove() -> None:
        if os.getpid() == pid:  # a fork inherits the handler
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    return path


def private_directory() -> Path:
    """A temporary directory of this process, removed at its end."""
    return _private(os.getpid())
