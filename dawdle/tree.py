"""Nested containers (lists, tuples, named tuples, dicts, dataclasses) as a list of leaves and a structure."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from dawdle.errors import ShapeError


@dataclass(frozen=True)
class Structure:
    """How a container is nested; a leaf has no ``kind``. Printed as the container with ``*`` for leaves."""

    kind: type | None = None
    keys: tuple[Any, ...] = ()  # of a dict or dataclass
    parts: tuple[Structure, ...] = ()

    @property
    def size(self) -> int:
        """The number of leaves."""
        return 1 if self.kind is None else sum(p.size for p in self.parts)

    def __str__(self) -> str:
        if self.kind is None:
            return "*"
        if self.keys:
            return f"{{{', '.join(f'{k}: {p}' for k, p in zip(self.keys, self.parts, strict=True))}}}"
        inside = ", ".join(map(str, self.parts))
        if issubclass(self.kind, list):
            return f"[{inside}]"
        return f"({inside},)" if len(self.parts) == 1 else f"({inside})"


LEAF = Structure()


def _children(x: Any) -> tuple[tuple[Any, ...], list[Any]] | None:
    """The keys and parts of a container; None for a leaf."""
    if isinstance(x, (list, tuple)):
        return (), list(x)
    if isinstance(x, dict):
        return tuple(x), list(x.values())
    if is_dataclass(x) and not isinstance(x, type):
        names = tuple([f.name for f in fields(x)])
        return names, [getattr(x, name) for name in names]
    return None


def _with(x: Any, parts: Sequence[Any]) -> Any:
    """A container like ``x`` with other parts."""
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*parts)
    if isinstance(x, (list, tuple)):
        return type(x)(parts)
    if type(x) is dict:
        return dict(zip(x, parts, strict=True))
    out = copy.copy(x)
    if isinstance(x, dict):  # an OrderedDict, a defaultdict
        out.update(zip(x, parts, strict=True))
    else:
        for field, part in zip(fields(x), parts, strict=True):
            object.__setattr__(out, field.name, part)  # of frozen ones too
    return out


def flatten(x: Any) -> tuple[list[Any], Structure]:
    """The leaves of ``x`` in order, and how they were nested."""
    leaves: list[Any] = []
    return leaves, _flatten(x, leaves)


def _flatten(x: Any, leaves: list[Any]) -> Structure:
    found = _children(x)
    if found is None:
        leaves.append(x)
        return LEAF
    keys, parts = found
    return Structure(type(x), keys, tuple([_flatten(p, leaves) for p in parts]))


def refill(x: Any, leaves: Sequence[Any]) -> Any:
    """A container like ``x`` with other leaves, in the order of :func:`flatten`."""
    return _refill(x, iter(leaves))


def _refill(x: Any, leaves: Iterator[Any]) -> Any:
    found = _children(x)
    return next(leaves) if found is None else _with(x, [_refill(p, leaves) for p in found[1]])


def transform(function: Callable[[Any], Any], x: Any) -> Any:
    """A container like ``x`` with ``function`` of each leaf."""
    found = _children(x)
    return function(x) if found is None else _with(x, [transform(function, p) for p in found[1]])


def spread(prefix: Any, structure: Structure, what: str) -> list[Any]:
    """One item for each leaf of ``structure``: a leaf of ``prefix`` stands for all leaves below its place.

    Raises ShapeError, which names ``what``, where ``prefix`` is nested in another way.
    """
    found = _children(prefix)
    if found is None:
        return [prefix] * structure.size
    keys, parts = found
    if structure.kind is None or keys != structure.keys or len(parts) != len(structure.parts):
        raise ShapeError(f"{what} {prefix!r} doesn't fit the nesting {structure}; pass one number for all")
    pairs = zip(parts, structure.parts, strict=True)
    return [item for part, below in pairs for item in spread(part, below, what)]
