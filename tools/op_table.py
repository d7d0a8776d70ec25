"""What every method of Tensor takes and does, found by calling it: the rows of the tests' op table are run
with each dtype on the interpreter, while every method notes that it was called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np

import dawdle
from dawdle import Tensor, config, linalg, nn
from dawdle.errors import DawdleError
from dawdle.lazy import build

ROOT = Path(__file__).parent.parent
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = ("bool", *INTEGERS, *FLOATS)
KINDS = {"bool": ("bool",), "int": INTEGERS, "float": FLOATS}
TOPICS = tuple(base for base in Tensor.__mro__ if base.__module__.startswith("dawdle.tensor.methods."))
METHOD_OF = {  # operators that are methods under another name
    "__truediv__": "div", "__floordiv__": "floor_divide", "__mod__": "remainder", "__and__": "bitwise_and",
    "__or__": "bitwise_or", "__xor__": "bitwise_xor", "__lshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift", "__invert__": "bitwise_not",
}  # fmt: skip
HEADER = ("| method | dtypes | gradient | host | jit |", "|---|---|---|---|---|")
SHOWN = {"__getitem__": "x[...]", "__setitem__": "x[...] = y"}


@dataclass
class Entry:
    """What is known of one method."""

    dtypes: set[str] = field(default_factory=set)
    gradient: bool = False
    host: bool = False  # part of it is a function that runs on the host
    jit: bool = False  # it can be traced


def methods() -> dict[str, list[str]]:
    """The names that Tensor's topics define, by topic."""
    return {
        topic.__name__: [name for name in vars(topic) if is_listed(name)]
        for topic in TOPICS
    }


def is_operator(name: str) -> bool:
    return name.startswith("__") and name not in SHOWN


def is_listed(name: str) -> bool:
    """Operators and in-place methods are listed under the names of what they compute."""
    in_place = name.endswith("_") and any(name.rstrip("_") in vars(topic) for topic in TOPICS)
    return name in SHOWN or not (name.startswith("_") or in_place)


def function_of(name: str) -> Callable[..., Any]:
    """The function behind a method; aliases share one."""
    for topic in TOPICS:
        if name in vars(topic):
            value = vars(topic)[name]
            return getattr(value, "__func__", value)  # type: ignore[no-any-return]
    raise KeyError(name)


class Recorder:
    """Notes which methods of Tensor are called by others than methods of Tensor, and what becomes of them."""

    def __init__(self) -> None:
        self.called: set[str] = set()
        self.on_host: set[str] = set()  # those that made a CUSTOM node
        self.differentiable: set[str] = set()  # those whose results require gradients
        self.depth = 0
        self.customs = 0

    def noting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def method(*args: Any, **kwargs: Any) -> Any:
            if self.depth:
                return function(*args, **kwargs)
            self.called.add(name)
            self.depth, customs = 1, self.customs
            try:
                result = function(*args, **kwargs)
            finally:
                self.depth = 0
            if self.customs > customs:
                self.on_host.add(name)
            if any(t.requires_grad for t in tensors(result)):
                self.differentiable.add(name)
            return result

        return method

    def clear(self) -> None:
        for noted in (self.called, self.on_host, self.differentiable):
            noted.clear()

    def install(self) -> None:
        """Put noting methods into Tensor, and noting functions of their names into modules; an operator
        counts as the method that it is.
        """
        for topic in TOPICS:
            for name, value in list(vars(topic).items()):
                if not callable(getattr(value, "__func__", value)) or name in ("__module__", "__doc__"):
                    continue
                wrap = type(value) if isinstance(value, (classmethod, staticmethod)) else lambda f: f
                noted = METHOD_OF.get(name, name.strip("_") if is_operator(name) else name)
                setattr(Tensor, name, wrap(self.noting(noted, getattr(value, "__func__", value))))
        for module in (nn.functional, linalg):
            for names in methods().values():
                for name in names:
                    if hasattr(module, name):
                        setattr(module, name, self.noting(name, getattr(module, name)))
        custom = build.custom

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.customs += 1
            return custom(*args, **kwargs)

        build.custom = counted


def with_floats(arrays: list[np.ndarray], dtype: str) -> list[Tensor]:
    """The operands of a row with its floats (or its integers, where it has no floats) in ``dtype``."""
    kind = "f" if any(a.dtype.kind == "f" for a in arrays) else "iub"
    return [Tensor(a).astype(dtype) if a.dtype.kind in kind else Tensor(a) for a in arrays]


def tensors(out: object) -> list[Tensor]:
    parts = out if isinstance(out, (tuple, list)) else [out]
    return [t for t in parts if isinstance(t, Tensor)]


def probe(entries: dict[str, Entry], recorder: Recorder, row: Any) -> None:
    """Learn from one row what the methods do that it calls."""
    arrays = row.inputs(0)
    for dtype in DTYPES:
        operands = with_floats(arrays, dtype)
        recorder.clear()
        try:
            Tensor.realize(*tensors(row.call(*operands)))
        except DawdleError:
            continue
        for name in recorder.called & entries.keys():
            entries[name].dtypes.add(dtype)
            entries[name].host |= name in recorder.on_host
    for name in traced(row, recorder, arrays) & entries.keys():
        entries[name].jit = True
    if row.gradient:
        recorder.clear()
        row.call(*[Tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays])
        for name in recorder.differentiable & entries.keys():
            entries[name].gradient = True


def traced(row: Any, recorder: Recorder, arrays: list[np.ndarray]) -> set[str]:
    """The methods that a row calls, none where it can't be traced by @jit."""
    operands = [Tensor(a) for a in arrays]
    recorder.clear()
    try:
        dawdle.jit(lambda *parts: row.call(*parts))(*operands)
    except DawdleError:
        return set()
    return set(recorder.called)


def op_table() -> dict[str, Entry]:
    """An entry for each method of Tensor; one without dtypes has no row."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "tensor")]
    functions = {name: function_of(name) for topic in methods().values() for name in topic}
    recorder = Recorder()
    recorder.install()
    from rows import ROWS  # type: ignore[import-not-found]  # after the methods note their calls: rows hold some of them

    shared: dict[Callable[..., Any], Entry] = {}
    names = [name for topic in methods().values() for name in topic]
    entries = {name: shared.setdefault(functions[name], Entry()) for name in names}
    with config.override(device="NUMPY"):
        for row in ROWS:
            if row.available:
                probe(entries, recorder, row)
    return entries


def shown_dtypes(dtypes: set[str]) -> str:
    """``float`` for all floats, and so on."""
    words = []
    for kind, members in KINDS.items():
        if dtypes >= set(members):
            words.append(kind)
        else:
            words += [m for m in members if m in dtypes]
    return ", ".join(words)


def markdown() -> str:
    """The table as a page."""
    entries = op_table()
    lines = [
        "# Operations",
        "",
        "Generated by `tools/api_reference.py`, which calls every method with every dtype: don't edit.",
        "",
        "A method of the same name with an underscore at the end is the operation in place.",
        "Every operation runs on every device. *host*: part of it is a function of NumPy or LAPACK on the",
        "host, between kernels. *jit*: `@jit` can trace it; else the shape of its result depends on values.",
    ]
    for topic, names in methods().items():
        lines += ["", f"## {topic}", "", *HEADER]
        for name in names:
            entry = entries[name]
            title = f"`{SHOWN.get(name, name)}`"
            marks = ["yes" if mark else "" for mark in (entry.gradient, entry.host, entry.jit)]
            lines.append(f"| {title} | {shown_dtypes(entry.dtypes)} | {' | '.join(marks)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown())
