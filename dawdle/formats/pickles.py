"""Pickles, read without Python's unpickler: nothing that a pickle names is imported or called.

A pickle is a program for a stack machine (the opcodes are described in Python's ``pickletools``). This
machine knows those that build plain data. A name, such as a function's, means what the caller's table says,
and whatever isn't in the table is refused with its name.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dawdle.errors import DawdleError

LONGEST_LINE = 4096  # bytes of a name or number in the text opcodes


class Refused(Exception):
    """What a pickle asks for isn't allowed, in words."""


@dataclass(frozen=True)
class Function:
    """The meaning of a name that may be called."""

    name: str
    call: Callable[..., Any]


class Stateful:
    """What a function may give for an object that takes further state (the BUILD opcode)."""

    def set_state(self, state: Any) -> None:
        raise NotImplementedError


class Cursor:
    """Reads on from ``position``, as pickletools wants a file."""

    def __init__(self, data: memoryview, position: int = 0) -> None:
        self._data = data
        self.position = position

    def tell(self) -> int:
        return self.position

    def read(self, n: int) -> bytes:
        out = bytes(self._data[self.position : self.position + n])
        self.position += len(out)
        return out

    def readline(self) -> bytes:
        near = bytes(self._data[self.position : self.position + LONGEST_LINE])
        return self.read(near.find(b"\n") + 1)


class Machine:
    """The stack, what was set aside at marks, and the numbered objects."""

    def __init__(self, names: Mapping[str, Any], persistent: Callable[[Any], Any]) -> None:
        self.names = names
        self.persistent = persistent
        self.stack: list[Any] = []
        self.marked: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self, n: int) -> list[Any]:
        """The last ``n`` objects."""
        if n > len(self.stack):
            raise ValueError("an operation lacks its operands")
        out = self.stack[len(self.stack) - n :]
        del self.stack[len(self.stack) - n :]
        return out

    def pop_mark(self) -> list[Any]:
        """All objects since the last mark."""
        out, self.stack = self.stack, self.marked.pop()
        return out

    def mark(self) -> None:
        self.marked.append(self.stack)
        self.stack = []

    def name(self, module: str, name: str) -> None:
        full = f"{module}.{name}"
        if full not in self.names:
            raise Refused(full)
        self.push(self.names[full])

    def call(self) -> None:
        function, arguments = self.pop(2)
        if not isinstance(function, Function) or not isinstance(arguments, tuple):
            raise ValueError(f"{type(function).__name__} is called, which is no function")
        self.push(function.call(*arguments))

    def build(self) -> None:
        (state,) = self.pop(1)
        if isinstance(self.stack[-1], Stateful):
            self.stack[-1].set_state(state)
        elif type(self.stack[-1]) is not dict:  # attributes of an OrderedDict: module versions, not kept
            raise ValueError(f"{type(self.stack[-1]).__name__} takes no state")


def _set_items(m: Machine, items: list[Any]) -> None:
    target = m.stack[-1]
    if type(target) is not dict:
        raise ValueError("items are set in what is no dict")
    target.update(_pairs(items))


def _pairs(items: list[Any]) -> dict[Any, Any]:
    return {plain(k): v for k, v in zip(items[::2], items[1::2], strict=True)}


def plain(key: Any) -> Any:
    """A dict's key or a set's element, if it is plain: hashing deeply nested tuples overflows the stack."""
    flat = key if isinstance(key, tuple) else (key,)
    if not all(k is None or isinstance(k, (str, bytes, int, float)) for k in flat):
        raise ValueError(f"a dict's key or a set's element is a {type(key).__name__}, which is not plain")
    return key


def _extend(m: Machine, items: list[Any]) -> None:
    target = m.stack[-1]
    if type(target) is list:
        target.extend(items)
    elif type(target) is set:
        target.update(map(plain, items))
    else:
        raise ValueError("elements are added to what is neither a list nor a set")


def _constant(value: Any) -> Callable[[Machine, Any], None]:
    return lambda m, _: m.push(value)


def _nothing(m: Machine, _: Any) -> None:
    pass


def _memoize(m: Machine, index: Any) -> None:
    m.memo[len(m.memo) if index is None else index] = m.stack[-1]


Step = Callable[[Machine, Any], None]

STEPS: dict[str, Step] = {
    **dict.fromkeys(("PROTO", "FRAME", "STOP"), _nothing),
    "MARK": lambda m, _: m.mark(),
    "POP": lambda m, _: m.pop(1).clear(),
    "POP_MARK": lambda m, _: m.pop_mark().clear(),
    "DUP": lambda m, _: m.push(m.stack[-1]),
    "NONE": _constant(None),
    "NEWTRUE": _constant(True),
    "NEWFALSE": _constant(False),
    **dict.fromkeys(
        (
            "INT", "LONG", "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING",
            "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
            "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
        ),
        Machine.push,
    ),
    "EMPTY_LIST": lambda m, _: m.push([]),
    "EMPTY_DICT": lambda m, _: m.push({}),
    "EMPTY_SET": lambda m, _: m.push(set()),
    "EMPTY_TUPLE": _constant(()),
    "LIST": lambda m, _: m.push(list(m.pop_mark())),
    "DICT": lambda m, _: m.push(_pairs(m.pop_mark())),
    "TUPLE": lambda m, _: m.push(tuple(m.pop_mark())),
    "TUPLE1": lambda m, _: m.push(tuple(m.pop(1))),
    "TUPLE2": lambda m, _: m.push(tuple(m.pop(2))),
    "TUPLE3": lambda m, _: m.push(tuple(m.pop(3))),
    "FROZENSET": lambda m, _: m.push(frozenset(map(plain, m.pop_mark()))),
    "APPEND": lambda m, _: _extend(m, m.pop(1)),
    "APPENDS": lambda m, _: _extend(m, m.pop_mark()),
    "ADDITEMS": lambda m, _: _extend(m, m.pop_mark()),
    "SETITEM": lambda m, _: _set_items(m, m.pop(2)),
    "SETITEMS": lambda m, _: _set_items(m, m.pop_mark()),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), _memoize),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda m, index: m.push(m.memo[index])),
    "GLOBAL": lambda m, names: m.name(*names.split(" ", 1)),
    "STACK_GLOBAL": lambda m, _: m.name(*m.pop(2)),
    "REDUCE": lambda m, _: m.call(),
    "NEWOBJ": lambda m, _: m.call(),
    "BUILD": lambda m, _: m.build(),
    "BINPERSID": lambda m, _: m.push(m.persistent(m.pop(1)[0])),
}  # fmt: skip


def read_pickle(cursor: Cursor, names: Mapping[str, Any], persistent: Callable[[Any], Any]) -> Any:
    """The value of the pickle at ``cursor``, which then stands behind it.

    ``names`` gives the meaning of ``module.name``, a :class:`Function` where it may be called;
    ``persistent`` that of persistent ids. Raises ValueError for what is no pickle of plain data,
    :class:`Refused` for a name that isn't in the table or an opcode that would make other objects.
    """
    machine = Machine(names, persistent)
    try:
        for opcode, argument, _ in pickletools.genops(cursor):  # type: ignore[arg-type]
            step = STEPS.get(opcode.name)
            if step is None:
                raise Refused(f"the pickle opcode {opcode.name}")
            step(machine, argument)
        (value,) = machine.stack
        return value
    except (Refused, DawdleError):
        raise
    except Exception as error:  # a damaged pickle fails wherever it happens to
        raise ValueError(f"its pickle can't be read ({type(error).__name__}: {error})") from error
