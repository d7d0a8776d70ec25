"""From kernels' sources to addresses of functions: from memory, from the store on disk, or from the compiler."""
from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from dawdle import config
from dawdle.runtime.cache import Cache
from dawdle.runtime.compiler import FLAGS, Compiler, Source, assembly, balance, compile_units, fingerprint
from dawdle.runtime.store import KernelStore, digest


class Library:
    """The functions that one compiler makes of sources that follow one prelude."""

    def __init__(self, compiler: Compiler, prelude: str) -> None:
        self.compiler = compiler
        self.prelude = prelude
        self.store = KernelStore(fingerprint(compiler, prelude))
        self.compiled = 0  # kernels that this process had to compile
        self._functions: Cache[str, int] = Cache("kernels")
        self._lock = threading.RLock()
        os.register_at_fork(after_in_child=self._unlock)

    def _unlock(self) -> None:
        self._lock = threading.RLock()  # another thread may have held it when the process forked

    def load(self, sources: Sequence[Source]) -> list[int]:
        """The addresses of the functions, compiling those that aren't known yet. Raises CompileError."""
        with self._lock:
            missing = {s.name: s for s in sources if self._functions.get(s.name) is None}
            if missing:
                self._load_missing(list(missing.values()))
            found = [self._functions.get(s.name) for s in sources]
            return [address for address in found if address is not None]

    def _load_missing(self, sources: Sequence[Source]) -> None:
        unknown = [s for s in sources if not self._from_store(s)]
        if config.current().debug >= 1:
            known = len(sources) - len(unknown)
            print(f"dawdle: {known} kernels from {self.store.directory}, {len(unknown)} to compile with {self.compiler.name}")
        if not unknown:
            return
        units = balance(unknown, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
        with self.store.workspace() as where:
            paths = compile_units(self.compiler, self.prelude, units, where, self.store.kept_sources)
            for unit, path in zip(units, paths, strict=True):
                handle = self._open(self.store.add([self._key(s) for s in unit], path), path)
                for s in unit:
                    self._functions.put(s.name, address_of(handle, s.name))
        self.compiled += len(unknown)

    def _key(self, source: Source) -> str:
        return digest(source.text.encode())

    def _from_store(self, source: Source) -> bool:
        path = self.store.find(self._key(source))
        if path is None:
            return False
        try:
            self._functions.put(source.name, address_of(ctypes.CDLL(str(path)), source.name))
        except (OSError, AttributeError):  # built for another system, or an entry that points to the wrong library
            return False
        return True

    def _open(self, path: Path, original: Path) -> ctypes.CDLL:
        try:
            return ctypes.CDLL(str(path))
        except OSError as e:  # a cache on a file system from which nothing may be executed
            self.store.abandon(e)
            return ctypes.CDLL(str(self.store.add([], original)))

    def open_source(self, name: str, text: str, flags: Sequence[str] = ()) -> ctypes.CDLL:
        """The library of a complete C file, without the prelude."""
        with self._lock:
            key = digest(text.encode())
            path = self.store.find(key)
            if path is not None:
                try:
                    return ctypes.CDLL(str(path))
                except OSError:
                    pass
            with self.store.workspace() as where:
                units = [[Source(name, text)]]
                (built,) = compile_units(self.compiler, "", units, where, self.store.kept_sources, (*FLAGS, *flags))
                return self._open(self.store.add([key], built), built)

    def assembly(self, source: Source) -> str:
        """The function as the compiler's assembly text."""
        with self.store.workspace() as where:
            return assembly(self.compiler, self.prelude, source, where)


def address_of(handle: ctypes.CDLL, name: str) -> int:
    """The address of a function; AttributeError if the library hasn't got it."""
    return ctypes.cast(getattr(handle, name), ctypes.c_void_p).value or 0
