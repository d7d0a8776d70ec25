"""Named caches in memory with statistics, and :func:`clear_caches`, which empties them all."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True)
class CacheStats:
    hits: int
    misses: int
    entries: int


class Cache(Generic[K, V]):
    """A dict that counts. With ``limit`` the entry that was used longest ago goes when there are too many."""

    def __init__(self, name: str, limit: int = 0) -> None:
        self.name = name
        self._limit = limit
        self._entries: dict[K, V] = {}
        self._hits = self._misses = 0
        register(name, self.clear, self.stats)

    def get(self, key: K) -> V | None:
        found = self._entries.get(key)
        if found is None:
            self._misses += 1
            return None
        self._hits += 1
        if self._limit and len(self._entries) * 2 > self._limit:  # order matters only once the end is near
            self._entries[key] = self._entries.pop(key, found)
        return found

    def put(self, key: K, value: V) -> V:
        self._entries[key] = value
        if self._limit and len(self._entries) > self._limit:
            self._entries.pop(next(iter(self._entries)), None)
        return value

    def clear(self) -> None:
        self._entries.clear()
        self._hits = self._misses = 0

    def stats(self) -> CacheStats:
        return CacheStats(self._hits, self._misses, len(self._entries))


_registry: dict[str, tuple[Callable[[], None], Callable[[], CacheStats]]] = {}


def register(name: str, clear: Callable[[], None], stats: Callable[[], CacheStats]) -> None:
    """Make a cache known under a name. The caches of other layers (a ``functools.lru_cache``) are added with
    this.
    """
    _registry[name] = (clear, stats)


def cache_stats() -> dict[str, CacheStats]:
    """Statistics of every cache, by name."""
    return {name: stats() for name, (_, stats) in _registry.items()}


def clear_caches() -> None:
    """Empty every cache in memory. The kernels on disk stay: see :meth:`KernelStore.clear`."""
    for clear, _ in _registry.values():
        clear()
