"""What a function can reach without its arguments: by its closure, the globals that its code names, and
whatever those hold.

``@jit`` tells by this which arguments are outside state as well, and notices when another object has taken a
place from which a trace has read.
"""

from __future__ import annotations

import dis
import functools
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import getitem, is_
from types import CellType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, Protocol

import numpy as np

from dawdle.lazy.buffer import LazyBuffer
from dawdle.runtime.trace import structure_version

LIMIT = 20_000  # objects that are looked at, nearest first
NUMBERS = (int, float, complex, type(None), np.ndarray, np.generic)
LEAVES = (*NUMBERS, str, bytes, bytearray, LazyBuffer, ModuleType, CodeType)
LIBRARIES = sys.stdlib_module_names | {"dawdle", "numpy", "torch"}  # hold none of a user's state

Place = tuple[Any, Any, Any]  # (container, key or None for a cell, what it holds)


class Structured(Protocol):
    """A tree's node that calls ``note_structure`` before it holds another part: ``nn.Module``."""

    def jit_parts(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Parts:
    """What a node of a tree held."""

    owner: Structured
    names: tuple[str, ...]
    values: tuple[Any, ...]

    def hold(self) -> bool:
        now = self.owner.jit_parts()
        return tuple(now) == self.names and all(map(is_, now.values(), self.values))


@dataclass
class Reach:
    """What was reached: ``places`` by the id of what they hold, and the nodes of trees."""

    version: int = field(default_factory=structure_version)
    seen: dict[int, Any] = field(default_factory=dict)
    places: dict[int, list[Place]] = field(default_factory=dict)
    parts: list[Parts] = field(default_factory=list)

    def __contains__(self, x: Any) -> bool:
        return id(x) in self.seen

    def unchanged(self, used: Iterable[Any]) -> Unchanged:
        """A check that ``used`` are still where they were found, and that trees are as they were."""
        places = [place for x in used for place in self.places.get(id(x), ())]
        cells = [(c, value) for c, _, value in places if isinstance(c, CellType)]
        return Unchanged(
            self.version, self.parts, cells, [p for p in places if not isinstance(p[0], CellType)]
        )


class Unchanged:
    """See :meth:`Reach.unchanged`. Every replay comes through here: the loops are C's."""

    def __init__(
        self,
        version: int,
        parts: Sequence[Parts],
        cells: Sequence[tuple[CellType, Any]],
        places: Sequence[Place],
    ) -> None:
        self._version = version
        self._parts = parts
        self._cells = cells
        self._containers = [container for container, _, _ in places]
        self._keys = [key for _, key, _ in places]
        self._values = [value for _, _, value in places]

    def __call__(self) -> bool:
        now = structure_version()
        if now != self._version:
            if not all(part.hold() for part in self._parts):
                return False
            self._version = now
        try:
            return all(cell.cell_contents is value for cell, value in self._cells) and all(
                map(is_, map(getitem, self._containers, self._keys), self._values)
            )
        except (LookupError, ValueError):  # a container is shorter, a cell empty
            return False


def reach(roots: Iterable[Any]) -> Reach:
    """Everything that ``roots`` hold, themselves included, up to LIMIT objects."""
    found = Reach()
    queue: deque[Any] = deque()
    named: set[str] = set()  # attributes that code names
    waiting: dict[str, list[Any]] = {}  # what classes have under other names

    def visit(x: Any) -> None:
        if id(x) not in found.seen and not isinstance(x, LEAVES):
            found.seen[id(x)] = x
            queue.append(x)

    for root in roots:
        visit(root)
    while queue and len(found.seen) < LIMIT:
        owner = queue.popleft()
        if hasattr(type(owner), "jit_parts"):
            parts = owner.jit_parts()
            found.parts.append(Parts(owner, tuple(parts), tuple(parts.values())))
        if isinstance(owner, FunctionType) and not _of_library(owner):
            new = _names(owner.__code__)[1] - named
            named |= new
            for value in [v for name in new for v in waiting.pop(name, ())]:
                visit(value)
        if isinstance(owner, type) and not _of_library(owner):
            known = {name for base in owner.__mro__ if _of_library(base) for name in vars(base)}
            for name, value in vars(owner).items():
                if name in named or name in known or name.startswith("__"):
                    visit(value)
                else:
                    waiting.setdefault(name, []).append(value)
        for place in _places(owner):
            container, _, x = place
            if container is not None and hasattr(type(x), "lazy"):
                found.places.setdefault(id(x), []).append(place)
            visit(x)
    return found


def _places(x: Any) -> Iterator[Place]:
    """Where an object holds others; the container is None where that isn't worth watching. A class's
    attributes are the caller's affair.
    """
    if isinstance(x, (list, deque)):
        yield from ((x, i, value) for i, value in enumerate(x))
    elif isinstance(x, dict):
        yield from ((x, key, value) for key, value in list(x.items()))
    elif isinstance(x, FunctionType):
        if not _of_library(x):
            yield from _named(x)
    elif isinstance(x, type):
        yield from ((None, None, base) for base in x.__bases__)
    else:
        yield from _parts_of(x)


def _parts_of(x: Any) -> Iterator[Place]:
    if isinstance(x, (tuple, set, frozenset)):
        yield from ((None, None, value) for value in x)
    elif isinstance(x, MethodType):
        yield from ((None, None, value) for value in (x.__self__, x.__func__))
    elif isinstance(x, functools.partial):
        yield from ((None, None, value) for value in (x.func, *x.args, *x.keywords.values()))
    elif isinstance(x, property):
        yield from ((None, None, value) for value in (x.fget, x.fset))
    elif isinstance(x, (staticmethod, classmethod)):
        yield None, None, x.__func__
    else:
        yield from _attributes(x)


def _attributes(x: Any) -> Iterator[Place]:
    held = getattr(x, "__dict__", None) if type(x).__dictoffset__ else None
    if isinstance(held, dict):
        if "__wrapped__" in held:  # a jitted function: what it keeps of traces is not the user's
            yield None, None, held["__wrapped__"]
            return
        # the parts of a tree's node are compared by themselves, and only after a change
        watched = None if hasattr(type(x), "jit_parts") else held
        tables = [v for v in held.values() if isinstance(v, dict)] if watched is None else []
        yield from ((None, None, value) for table in tables for value in table.values())
        rest = [(k, v) for k, v in held.items() if watched is not None or not isinstance(v, dict)]
        yield from ((watched, key, value) for key, value in rest)
    if not hasattr(type(x), "lazy"):
        for kind in type(x).__mro__:
            slots = [m for m in vars(kind).values() if isinstance(m, MemberDescriptorType)]
            yield from ((None, None, value) for m in slots if (value := _slot(m, x)) is not None)
    yield None, None, type(x)


def _slot(member: MemberDescriptorType, x: Any) -> Any:
    try:
        return member.__get__(x)
    except AttributeError:  # not set
        return None


def _of_library(x: Any) -> bool:
    return str(getattr(x, "__module__", "")).partition(".")[0] in LIBRARIES


def _named(function: FunctionType) -> Iterator[Place]:
    """What a function's closure, defaults and the globals that its code names hold."""
    for cell in function.__closure__ or ():
        try:
            yield cell, None, cell.cell_contents
        except ValueError:  # a name that isn't bound yet
            continue
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    yield from ((None, None, value) for value in (*defaults, *vars(function).values()))
    names, attributes = _names(function.__code__)
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        yield function.__globals__, name, value
        if isinstance(value, ModuleType):
            space = vars(value)
            yield from ((space, key, space[key]) for key in attributes & space.keys())


def _names(code: CodeType) -> tuple[set[str], set[str]]:
    """Names of globals and of attributes in code, that of nested functions included."""
    names: set[str] = set()
    attributes: set[str] = set()
    pending = [code]
    while pending:
        code = pending.pop()
        attributes.update(code.co_names)
        names.update(i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
        pending += [const for const in code.co_consts if isinstance(const, CodeType)]
    return names, attributes
