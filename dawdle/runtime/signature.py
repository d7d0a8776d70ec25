"""Nested arguments and results of a jitted function: which handles are in them, and what else they hold."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from types import FunctionType, MethodType
from typing import Any

from dawdle import tree
from dawdle.errors import JitError
from dawdle.lazy.buffer import LazyBuffer
from dawdle.runtime.trace import Handle


def is_handle(x: Any) -> bool:
    return isinstance(getattr(x, "lazy", None), LazyBuffer)


def flatten(x: Any, handles: list[Handle]) -> Hashable:
    """The structure of nested lists, tuples and dicts; the handles in it are appended to ``handles``.

    A handle that occurs twice is the same one in both places, which the structure tells. Raises JitError for
    something that can't be compared by value.
    """
    if is_handle(x):
        for i, known in enumerate(handles):
            if known is x:
                return ("again", i)
        handles.append(x)
        lazy = x.lazy
        flags = (getattr(x, "requires_grad", False), getattr(x, "training", False))
        return (lazy.shape, lazy.dtype.name, lazy.device, flags)
    if isinstance(x, (list, tuple)):
        return (type(x), *[flatten(item, handles) for item in x])
    if isinstance(x, dict):
        return (dict, *[(key, flatten(value, handles)) for key, value in x.items()])
    try:
        hash(x)
    except TypeError:
        raise JitError(
            f"an argument of a jitted function is a {type(x).__name__}, which can't be hashed to tell whether"
            " it is the same as in an earlier call; pass a Tensor, or numbers, strings and tuples of them"
        ) from None
    # 1 == 1.0 == True and -0.0 == 0.0, but they may take another way through the function
    return (type(x), repr(x)) if isinstance(x, float) else (type(x), x, getattr(x, "training", None))


def others(x: Any) -> list[Any]:
    """What nested lists, tuples and dicts hold beside handles."""
    if is_handle(x):
        return []
    if isinstance(x, dict):
        x = list(x.values())
    return [y for item in x for y in others(item)] if isinstance(x, (list, tuple)) else [x]


class Hole:
    """A place in a result. ``kind`` is "output" (a fresh tensor), "argument" or "handle" (one that was there
    before).
    """

    __slots__ = ("kind", "which")

    def __init__(self, kind: str, which: Any) -> None:
        self.kind, self.which = kind, which


def template(x: Any, hole: Callable[[Handle], Hole]) -> Any:
    """A nested result with a Hole for every handle."""
    return tree.transform(lambda leaf: hole(leaf) if is_handle(leaf) else leaf, x)


def fill(x: Any, filler: Callable[[Hole], Any]) -> Any:
    """The inverse of :func:`template`."""
    return tree.transform(lambda leaf: filler(leaf) if isinstance(leaf, Hole) else leaf, x)


def modules(function: Callable[..., Any]) -> Sequence[Any]:
    """Objects with a ``training`` flag that a function reaches by name: its closure, globals and ``self``.

    A module that is put into evaluation mode takes another way through its layers, so the flags belong to the
    signature.
    """
    found = []
    if isinstance(function, MethodType):
        found.append(function.__self__)
        function = function.__func__
    if isinstance(function, FunctionType):
        for cell in function.__closure__ or ():
            try:
                found.append(cell.cell_contents)
            except ValueError:  # a name that isn't bound yet
                continue
        found += [function.__globals__[n] for n in function.__code__.co_names if n in function.__globals__]
    return [x for x in found if isinstance(getattr(x, "training", None), bool)]
