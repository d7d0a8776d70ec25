"""The structure of a graph as a dictionary key: what the schedule cache goes by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import Op

Key = tuple[Any, ...]

# ops by name, because hashing an Enum member is a Python call
_CONST, _BUFFER, _COPY, _SLICE = Op.CONST.value, Op.BUFFER.value, Op.COPY.value, Op.SLICE.value
_IN_DTYPE = frozenset({Op.CAST.value, Op.BITCAST.value, _COPY})  # their arg is in the node's dtype or device


def canonical(
    outputs: Sequence[LazyBuffer],
    given: Sequence[LazyBuffer] = (),
    end: Callable[[LazyBuffer], LazyBuffer | None] | None = None,
) -> tuple[Key, list[LazyBuffer], list[LazyBuffer]]:
    """The graph's structure as a hashable key, its leaves in the order in which the key numbers them, and its
    COPY nodes, operands first.

    Leaves are BUFFER nodes, and SLICE nodes which ``end`` gives back; another node that it gives stands for
    the slice. Nodes in ``given`` count as leaves, numbered first. Two graphs have one key only if they
    compute the same function of their leaves. Every step of an un-jitted loop comes through here, so this
    loop is written for speed.
    """
    number: dict[LazyBuffer, int] = {node: i for i, node in enumerate(given)}
    key: list[Any] = [(node.shape, node.dtype.name) for node in given]
    leaves: list[LazyBuffer] = []
    copies: list[LazyBuffer] = []
    stack = list(outputs)
    while stack:
        node = stack[-1]
        if node in number:
            stack.pop()
            continue
        op = node.op._value_
        leaf = node if op == _BUFFER else end(node) if op == _SLICE and end is not None else None
        if leaf is not None and leaf is not node:
            if leaf in number:
                number[node] = number[leaf]
            else:
                stack.append(leaf)
            continue
        src = () if leaf is node else node.src
        waiting = False
        for s in src:
            if s not in number:
                stack.append(s)
                waiting = True
        if waiting:
            continue
        stack.pop()
        number[node] = len(number)
        if leaf is node:
            leaves.append(node)
            key += (node.shape, node.dtype.name)
            continue
        arg = node.arg
        if op == _CONST:
            arg = repr(arg)  # because -0.0 == 0.0 and nan != nan
        elif op in _IN_DTYPE:
            arg = None
            if op == _COPY:
                copies.append(node)
        key += (op, arg, node.shape, node.dtype.name)
        for s in src:
            key.append(number[s])
    key.append(tuple([number[b] for b in outputs]))
    return tuple(key), leaves, copies
