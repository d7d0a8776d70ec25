"""From kernels' sources to addresses of functions: from memory, from the store on disk, or from the compiler.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from dawdle import config
from dawdle.runtime.cache import Cache
from dawdle.runtime.compiler import FLAGS, Compilation, Compiler, Source, assembly, balance, fingerprint
from dawdle.runtime.store import KernelStore, digest

EARLY = 20_000  # characters of source that are worth a compiler process of their own


class Library:
    """The functions that one compiler makes of sources that follow one prelude."""

    def __init__(self, compiler: Compiler, prelude: str) -> None:
        self.compiler = compiler
        self.prelude = prelude
        self.store = KernelStore(fingerprint(compiler, prelude))
        self.compiled = 0  # kernels that this process had to compile
        self._functions: Cache[str, int] = Cache("kernels")

    def load(self, sources: Sequence[Source]) -> list[int]:
        """The addresses of the functions, compiling those that aren't known yet. Raises CompileError."""
        with Batch(self) as batch:
            for source in sources:
                batch.add(source, early=False)
        return [self._functions.get(s.name) or 0 for s in sources]

    def knows(self, source: Source) -> bool:
        """Whether a function needs no compiling: it is loaded, or could be loaded from the store."""
        return self._functions.get(source.name) is not None or self._from_store(source)

    def enter(self, unit: Sequence[Source], built: Path) -> None:
        """Put a compiled library into the store and load its functions."""
        handle = self._open(self.store.add([self._key(s) for s in unit], built), built)
        for s in unit:
            self._functions.put(s.name, address_of(handle, s.name))
        self.compiled += len(unit)

    def _key(self, source: Source) -> str:
        return digest(source.text.encode())

    def _from_store(self, source: Source) -> bool:
        path = self.store.find(self._key(source))
        if path is None:
            return False
        try:
            self._functions.put(source.name, address_of(ctypes.CDLL(str(path)), source.name))
        except (
            OSError,
            AttributeError,
        ):  # built for another system, or an entry that points to the wrong library
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
        key = digest(text.encode())
        path = self.store.find(key)
        if path is not None:
            try:
                return ctypes.CDLL(str(path))
            except OSError:  # built for another system
                pass
        with self.store.workspace() as where:
            compilation = Compilation(self.compiler, "", where, (*FLAGS, *flags))
            compilation.start([Source(name, text)])
            ((_, built),) = compilation.finish(self.store.kept_sources)
            return self._open(self.store.add([key], built), built)

    def assembly(self, source: Source) -> str:
        """The function as the compiler's assembly text."""
        with self.store.workspace() as where:
            return assembly(self.compiler, self.prelude, source, where)


class Batch:
    """Sources that come one after the other and are to be compiled: early ones while later ones are being
    generated.

    A context manager; at its end all functions are in the library. Raises CompileError there.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self._waiting: list[Source] = []
        self._seen: set[str] = set()
        self._stack = ExitStack()

    def __enter__(self) -> Batch:
        where = self._stack.enter_context(self.library.store.workspace())
        self._compilation = Compilation(self.library.compiler, self.library.prelude, where)
        return self

    def add(self, source: Source, early: bool = True) -> None:
        """One more. With ``early`` it may be compiled at once, beside this process."""
        if source.name in self._seen or self.library.knows(source):
            return
        self._seen.add(source.name)
        self._waiting.append(source)
        enough = sum(len(s.text) for s in self._waiting) >= EARLY
        if early and enough and self._compilation.running < max(1, cores() - 1):
            self._compilation.start(self._waiting)
            self._waiting = []

    def __exit__(self, kind: object, *_: object) -> None:
        with self._stack:
            if kind is not None:
                self._compilation.cancel()
                return
            if self._waiting:
                for some in balance(self._waiting, cores()):
                    self._compilation.start(some)
            for unit, built in self._compilation.finish(self.library.store.kept_sources):
                self.library.enter(unit, built)
        if self._seen and config.current().debug >= 1:
            print(f"dawdle: compiled {len(self._seen)} kernels with {self.library.compiler.name}")


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def address_of(handle: ctypes.CDLL, name: str) -> int:
    """The address of a function; AttributeError if the library hasn't got it."""
    return ctypes.cast(getattr(handle, name), ctypes.c_void_p).value or 0
