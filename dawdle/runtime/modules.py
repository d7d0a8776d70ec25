"""Kernels for devices whose drivers load modules: from memory, from the store on disk, or from the compiler.

A module is what a driver makes of one binary; it holds several kernels.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from dawdle import config
from dawdle.errors import CompileError
from dawdle.runtime.cache import Cache
from dawdle.runtime.compiler import Source, balance
from dawdle.runtime.store import KernelStore, digest

M = TypeVar("M")
SHOWN = 5  # lines of source for which the compiler's errors are shown


class Rejected(Exception):
    """The compiler refused a source; the argument is what it said."""


class Damaged(Exception):
    """The driver can't load a binary."""


def key_of(source: Source) -> str:
    """The name of a kernel's entry in the store."""
    return digest(source.text.encode())


class ModuleLibrary(ABC, Generic[M]):
    """The kernels that one compiler makes for one kind of device of sources that follow one prelude.

    ``tag`` names all of these. At most ``parallel`` modules, of at least ``smallest`` kernels each, are
    compiled at the same time, by threads.
    """

    compiler: str  # what compiles, in messages
    suffix: str  # of files with sources

    def __init__(self, tag: str, prelude: str, parallel: int, smallest: int = 1) -> None:
        self.prelude = prelude
        self.store = KernelStore(digest("\0".join((tag, prelude)).encode())[:16])
        self.compiled = 0  # kernels that this process had to compile
        self._parallel = parallel
        self._smallest = smallest
        self._modules: Cache[str, M] = Cache(f"{self.compiler} modules")
        self._kernels: Cache[str, M] = Cache(f"{self.compiler} kernels")

    @abstractmethod
    def compile(self, text: str) -> tuple[bytes, M]:
        """The binary of a translation unit, and the module itself. Raises Rejected."""

    @abstractmethod
    def open(self, binary: bytes) -> M:
        """The module of a binary. Raises Damaged."""

    def load(self, sources: Iterable[Source]) -> dict[str, M]:
        """For each kernel's name the module that holds it. Compiles those that aren't known yet, or raises
        CompileError.
        """
        wanted = {s.name: s for s in sources}
        missing = [s for s in wanted.values() if not self._knows(s)]
        if missing:
            units = balance(missing, min(self._parallel, len(missing) // self._smallest))
            with ThreadPoolExecutor(len(units)) as threads:
                for unit, (binary, module) in zip(units, threads.map(self._compile, units), strict=True):
                    self._enter(unit, binary, module)
            self.compiled += len(missing)
            if config.current().debug >= 1:
                print(f"dawdle: compiled {len(missing)} kernels with {self.compiler}")
        found = {name: self._kernels.get(name) for name in wanted}
        return {name: module for name, module in found.items() if module is not None}

    def _knows(self, source: Source) -> bool:
        """Whether a kernel is loaded, or could be loaded from the store."""
        if self._kernels.get(source.name) is not None:
            return True
        path = self.store.find(key_of(source))
        if path is None:
            return False
        module = self._modules.get(path.name)
        if module is None:
            try:
                module = self._modules.put(path.name, self.open(path.read_bytes()))
            except (Damaged, OSError):  # of another driver, say
                return False
        self._kernels.put(source.name, module)
        return True

    def _enter(self, unit: Sequence[Source], binary: bytes, module: M) -> None:
        path = self.store.put([key_of(s) for s in unit], binary, ".bin")
        self._modules.put(path.name, module)
        for source in unit:
            self._kernels.put(source.name, module)

    def _compile(self, unit: Sequence[Source]) -> tuple[bytes, M]:
        try:
            return self.compile(self.text(unit))
        except Rejected as e:
            raise self._failure(unit, str(e)) from None

    def text(self, unit: Sequence[Source]) -> str:
        """The translation unit of some kernels."""
        return "\n".join((self.prelude, *(s.text for s in unit)))

    def _failure(self, unit: Sequence[Source], log: str) -> CompileError:
        """The error for a unit that doesn't compile; each of its kernels is tried alone to name the one at
        fault.
        """
        guilty, text = ", ".join(s.name for s in unit), self.text(unit)
        for source in unit if len(unit) > 1 else ():
            try:
                self.compile(self.text([source]))
            except Rejected as e:
                guilty, text, log = source.name, self.text([source]), str(e)
                break
        path = self.store.kept_sources() / f"{guilty.split(',')[0]}{self.suffix}"
        path.write_text(text)
        shown = explain(log, text, path.name)
        return CompileError(f"{self.compiler} failed on kernel {guilty} (source kept in {path}):\n{shown}")


class ModuleBatch:
    """Sources that come one after the other and are compiled together: a context manager."""

    def __init__(self, library: ModuleLibrary[M]) -> None:
        self._load = library.load
        self._sources: list[Source] = []

    def __enter__(self) -> ModuleBatch:
        return self

    def add(self, source: Source) -> None:
        """One more."""
        self._sources.append(source)

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._load(self._sources)


# file:3:10: or file:3: or file(3):
_PLACE = re.compile(r"[:(](\d+)(?::\d+|\)|:\s)")


def explain(log: str, text: str, file: str) -> str:
    """A compiler's messages, the first ones with the line of ``text`` that they are about."""
    lines = text.splitlines()
    result = []
    for message in log.strip().splitlines():
        place = _PLACE.search(message)
        number = int(place[1]) if place and "error" in message else 0
        result.append(message)
        if 0 < number <= len(lines) and sum(x.startswith("    |") for x in result) < SHOWN:
            result.append(f"    | {file}:{number}: {lines[number - 1].strip()}")
    return "\n".join(result) or "no message"
