"""What is noticed while a function is traced, by ``@jit`` or to be transformed: the hooks that the tensor
layer calls, cheap when nothing is traced.

A handle is an object with a ``lazy`` attribute that holds a LazyBuffer: a Tensor. The tensor layer calls

* :func:`note_new` with each handle that it makes,
* :func:`note_read` with the handles that an operation reads,
* :func:`note_rebind` before it gives a handle another ``lazy``,
* :func:`note_attribute` before reading or writing ``owner.name``, which holds a handle or None
  (``Tensor.grad``),
* :func:`note_flag` when ``owner.name``, by which Python code decides, is read or written
  (``Module.training``),
* :func:`note_structure` before a tree's node (``Module``) holds another part,
* :func:`is_tracing` where realising can wait for the end of the trace.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from dawdle.errors import JitError
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import Op


class Handle(Protocol):
    """Something that holds a value and can be made to hold another."""

    lazy: LazyBuffer


@dataclass(frozen=True)
class Flag:
    """An attribute of something from outside that chose the way through the function."""

    owner: weakref.ref[Any]
    name: str
    value: object

    def holds(self) -> bool:
        """Whether it is still as it was; of something that is gone it doesn't matter."""
        owner = self.owner()
        return owner is None or getattr(owner, self.name, None) == self.value


@dataclass(frozen=True)
class Cell:
    """An attribute that holds a handle or None. ``guarded``: it was read before it was written."""

    owner: weakref.ref[Any]
    name: str
    before: Any
    lazy: LazyBuffer | None  # what ``before`` held, if it is from before the trace
    guarded: bool

    def value(self) -> Any:
        """What it holds now."""
        owner = self.owner()
        return None if owner is None else getattr(owner, self.name)

    def stripped(self) -> Cell:
        """The same without what it held, which is not to be kept alive."""
        return replace(self, before=None, lazy=None)


class Recorder:
    """What happened since a trace began. ``realize`` computes values from outside of it."""

    def __init__(self, realize: Callable[[Sequence[LazyBuffer]], None]) -> None:
        self._realize = realize
        self._new: dict[int, weakref.ref[Any]] = {}
        self._rebound: dict[int, tuple[weakref.ref[Any], LazyBuffer, Any]] = {}
        self.cells: dict[tuple[int, str], Cell] = {}
        # the handle from outside that was seen to hold a value
        self.readers: dict[LazyBuffer, weakref.ref[Any]] = {}
        self._shared: list[tuple[weakref.ref[Any], LazyBuffer, LazyBuffer]] = []
        self._flags: dict[tuple[int, str], tuple[weakref.ref[Any], Flag | None]] = {}
        self.made: set[int] = set()  # ids of storages made from host data
        self._kept: list[Any] = []  # keeps those ids from being used again

    def new(self, handle: Handle) -> None:
        self._new[id(handle)] = weakref.ref(handle)

    def is_new(self, handle: Any) -> bool:
        """Whether a handle was made since the trace began."""
        known = self._new.get(id(handle))
        return known is not None and known() is handle

    def read(self, handles: Iterable[Handle]) -> None:
        for handle in handles:
            if self.is_new(handle) or self.is_rebound(handle):
                continue
            known = self.readers.get(handle.lazy)
            reader = None if known is None else known()
            if reader is handle:
                continue
            if reader is not None:
                self._separate(handle)
            self.readers[handle.lazy] = weakref.ref(handle)
            self.flag(handle, "requires_grad", getattr(handle, "requires_grad", None), written=False)

    def _separate(self, handle: Handle) -> None:
        """Give a handle a leaf of its own: another one holds the same value now, but not at each replay."""
        shared = handle.lazy
        with recording(None):
            self._realize([shared])
        handle.lazy = LazyBuffer(Op.BUFFER, (), shared.arg, shared.shape, shared.dtype, shared.device)
        self._shared.append((weakref.ref(handle), shared, handle.lazy))

    def flag(self, owner: Any, name: str, value: object, written: bool) -> None:
        """Note the value of ``owner.name`` when it is first read, unless the function has set it itself."""
        key, ref = (id(owner), name), weakref.ref(owner)
        known = self._flags.get(key)
        if known is None or known[0]() is not owner:
            self._flags[key] = (ref, None if written else Flag(ref, name, value))

    def flags(self) -> list[Flag]:
        """What decided the way through the function beside its arguments."""
        return [flag for _, flag in self._flags.values() if flag is not None]

    def is_rebound(self, handle: Any) -> bool:
        """Whether a handle holds what the trace gave it."""
        known = self._rebound.get(id(handle))
        return known is not None and known[0]() is handle

    def rebind(self, handle: Handle) -> None:
        if not self.is_rebound(handle):
            self.read([handle])
            # a Tensor's _node, its place in the gradients' graph, changes together with its value
            self._rebound[id(handle)] = (weakref.ref(handle), handle.lazy, getattr(handle, "_node", None))

    def attribute(self, owner: Any, name: str, written: bool) -> None:
        key = (id(owner), name)
        known = self.cells.get(key)
        if known is None or known.owner() is not owner:
            # the guard against recursion: looking at the attribute is noted, too
            self.cells[key] = Cell(weakref.ref(owner), name, None, None, not written)
            before = getattr(owner, name, None)
            traced = before is not None and (self.is_new(before) or self.is_rebound(before))
            if before is not None:
                self.read([before])
            lazy = None if before is None or traced else before.lazy
            self.cells[key] = Cell(weakref.ref(owner), name, before, lazy, not written)

    def storage(self, storage: Any) -> None:
        self.made.add(id(storage))
        self._kept.append(storage)

    def refuse(self, what: str) -> None:
        raise JitError(
            f"{what} inside of a function that @jit traces: it has no value yet, because nothing runs before"
            " the trace ends, and later calls replay the kernels without the Python code. Return the tensor"
            " and read it outside, or choose with where() instead of with `if`"
        )

    def rebound(self) -> list[tuple[Any, LazyBuffer]]:
        """The handles that were rebound and are still alive, with what they held before."""
        return [
            (handle, before) for ref, before, _ in self._rebound.values() if (handle := ref()) is not None
        ]

    def outside(self) -> list[LazyBuffer]:
        """Values that were there before the trace began and that it may have used."""
        held = [before for handle, before in self.rebound() if not self.is_new(handle)]
        cells = [c.lazy for c in self.cells.values() if c.lazy is not None]
        return [*self.readers, *held, *cells]

    def undo(self) -> None:
        """Give every handle and attribute back what it held when the trace began."""
        for ref, before, node in self._rebound.values():
            rebound = ref()
            if rebound is not None:
                rebound.lazy = before
                if hasattr(rebound, "_node"):
                    rebound._node = node
        for ref, before, leaf in self._shared:
            reader = ref()
            if reader is not None and reader.lazy is leaf:
                reader.lazy = before
        for cell in self.cells.values():
            owner = cell.owner()
            if owner is not None:
                setattr(owner, cell.name, cell.before)


class Watch:
    """What a function that is being transformed does to handles from outside. A trace that is under way
    notices it as well.
    """

    def __init__(self) -> None:
        self._outer = _active.recorder
        self._new: dict[int, weakref.ref[Any]] = {}
        self._rebound: dict[int, tuple[weakref.ref[Any], LazyBuffer, Any]] = {}
        self._attributes: dict[tuple[int, str], tuple[weakref.ref[Any], Any]] = {}
        # values and nodes of handles from outside that were read
        self.seen: dict[int, tuple[LazyBuffer, Any]] = {}

    def new(self, handle: Handle) -> None:
        self._new[id(handle)] = weakref.ref(handle)
        if self._outer is not None:
            self._outer.new(handle)

    def is_new(self, handle: Any) -> bool:
        """Whether a handle was made since the watch began."""
        known = self._new.get(id(handle))
        return known is not None and known() is handle

    def read(self, handles: Iterable[Handle]) -> None:
        handles = list(handles)
        for handle in handles:
            if not self.is_new(handle) and id(handle) not in self._rebound:
                self.seen[id(handle.lazy)] = handle.lazy, getattr(handle, "_node", None)
        if self._outer is not None:
            self._outer.read(handles)

    def rebind(self, handle: Handle) -> None:
        if not self.is_new(handle):
            before = weakref.ref(handle), handle.lazy, getattr(handle, "_node", None)
            self._rebound.setdefault(id(handle), before)
        if self._outer is not None:
            self._outer.rebind(handle)
        else:
            _assign(handle)

    def attribute(self, owner: Any, name: str, written: bool) -> None:
        if self._outer is not None:
            self._outer.attribute(owner, name, written)
        if written and not self.is_new(owner):
            key = id(owner), name
            if key not in self._attributes:
                self._attributes[key] = weakref.ref(owner), None  # guards against recursion, as in Recorder
                self._attributes[key] = weakref.ref(owner), getattr(owner, name, None)

    def flag(self, owner: Any, name: str, value: object, written: bool) -> None:
        if self._outer is not None:
            self._outer.flag(owner, name, value, written)

    def storage(self, storage: Any) -> None:
        if self._outer is not None:
            self._outer.storage(storage)

    def refuse(self, what: str) -> None:
        if self._outer is not None:
            self._outer.refuse(what)

    def changed(self) -> list[Handle]:
        """The handles from outside that were rebound, and those that were put into attributes."""
        rebound = [handle for ref, _, _ in self._rebound.values() if (handle := ref()) is not None]
        owners = [(ref(), name) for (_, name), (ref, _) in self._attributes.items()]
        held = [getattr(owner, name) for owner, name in owners if owner is not None]
        return [*rebound, *[handle for handle in held if handle is not None]]

    def undo(self) -> None:
        """Give everything from outside back what it held when the watch began."""
        for ref, before, node in self._rebound.values():
            rebound: Any = ref()
            if rebound is not None:
                rebound.lazy, rebound._node = before, node
        for (_, name), (ref, value) in self._attributes.items():
            owner = ref()
            if owner is not None:
                setattr(owner, name, value)


class _Active(threading.local):
    recorder: Recorder | Watch | None = None

    def __init__(self) -> None:
        self.assigned: dict[int, weakref.ref[Any]] = {}  # by id, because == of tensors is elementwise


_active = _Active()


def is_tracing() -> bool:
    """Whether this thread is tracing a function, for ``@jit`` or to transform it."""
    return _active.recorder is not None


def note_new(handle: Handle) -> None:
    """A handle has been made."""
    if _active.recorder is not None:
        _active.recorder.new(handle)


def note_read(*handles: Handle) -> None:
    """An operation is about to read these handles' values."""
    if _active.recorder is not None:
        _active.recorder.read(handles)


def note_rebind(handle: Handle) -> None:
    """``handle.lazy`` is about to be replaced."""
    if _active.recorder is not None:
        _active.recorder.rebind(handle)
    else:
        _assign(handle)


def note_awaited(handle: Handle) -> None:
    """The value of a handle will be read once others are realised, of which much is computed in common."""
    if _active.recorder is None:
        _assign(handle)


def _assign(handle: Handle) -> None:
    known = _active.assigned
    known[id(handle)] = weakref.ref(handle, partial(known.pop, id(handle)))


def assigned() -> list[LazyBuffer]:
    """The values, not computed yet, of living handles that this thread has rebound, or noted as awaited,
    since it was last asked.

    Running statistics that nobody reads while training would be an ever longer graph if nobody asked.
    """
    handles = [ref() for ref in list(_active.assigned.values())]
    _active.assigned.clear()
    return [handle.lazy for handle in handles if handle is not None and handle.lazy.op is not Op.BUFFER]


def note_attribute(owner: Any, name: str, written: bool) -> None:
    """``owner.name``, which holds a handle or None, is about to be read or (``written``) replaced."""
    if _active.recorder is not None:
        _active.recorder.attribute(owner, name, written)


def note_flag(owner: Any, name: str, value: object, written: bool = False) -> None:
    """``owner.name``, by which Python code decides, is read or (``written``) set to ``value``."""
    if _active.recorder is not None:
        _active.recorder.flag(owner, name, value, written)


class _Structure:
    version = 0  # of all trees, because a change is rare and looking at the trees then is cheap enough


def note_structure() -> None:
    """Some tree of objects, a module's, is about to hold another part, or one less."""
    _Structure.version += 1


def structure_version() -> int:
    """Another number after each change of any tree."""
    return _Structure.version


def note_storage(storage: Any) -> None:
    """Storage was made from host data."""
    if _active.recorder is not None:
        _active.recorder.storage(storage)


def refuse(what: str) -> None:
    """Raise JitError if a function is being traced for ``@jit``: no value is known yet."""
    if _active.recorder is not None:
        _active.recorder.refuse(what)


@contextmanager
def recording(recorder: Recorder | Watch | None) -> Iterator[None]:
    """Trace a block with ``recorder``; None: don't trace it."""
    saved = _active.recorder
    _active.recorder = recorder
    try:
        yield
    finally:
        _active.recorder = saved
