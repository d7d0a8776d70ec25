"""Simplify a graph: equal nodes become one, and exact rewrite rules remove work that needn't be done."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dawdle.lazy import movement, rules
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import COMMUTATIVE, LEAF, STORAGE, Op

RULES = rules.RULES | movement.RULES


def simplify(outputs: Sequence[LazyBuffer]) -> list[LazyBuffer]:
    """Nodes of the same values, shapes, dtypes and devices as ``outputs``, with less work below them.

    The given nodes stay as they are; those that can't be improved are used again. Values are equal in every
    bit but for the payload of a NaN. Leaves are never merged, not even if they share a storage: what is
    made of the result then holds for any storages. Takes linear time.
    """
    work = _Simplifier()
    return [work.simplified(node) for node in outputs]


class _Simplifier:
    """``done`` maps the id of a node to its simplified node, ``known`` a structure to its node."""

    def __init__(self) -> None:
        self.done: dict[int, LazyBuffer] = {}
        self.known: dict[Any, LazyBuffer] = {}
        self.kept: list[LazyBuffer] = []  # ids stay valid while the nodes live

    def simplified(self, root: LazyBuffer) -> LazyBuffer:
        done = self.done
        becomes: dict[int, LazyBuffer] = {}  # nodes that wait for the one that they were rewritten to
        stack = [root]
        while stack:
            node = stack[-1]
            if id(node) in done:
                stack.pop()
                continue
            waits = [s for s in node.src if id(s) not in done]
            if id(node) in becomes:
                done[id(node)] = done[id(becomes[id(node)])]
            elif waits:
                stack.extend(reversed(waits))
            else:
                self._visit(node, becomes, stack)
        return done[id(root)]

    def _visit(self, node: LazyBuffer, becomes: dict[int, LazyBuffer], stack: list[LazyBuffer]) -> None:
        """Settle a node whose operands are done, or put the node that it becomes onto the stack."""
        self.kept.append(node)
        new = on(node, tuple(self.done[id(s)] for s in node.src))
        key = _key(new)
        better = None if key in self.known else _rewrite(new)
        if better is None:
            settled = self.known.setdefault(key, new)
            # what a rule makes may rest on it: it is its own simplified form
            self.done[id(node)] = self.done[id(settled)] = settled
        else:
            becomes[id(node)] = better
            self.kept.append(better)
            stack.append(better)


def on(node: LazyBuffer, src: tuple[LazyBuffer, ...]) -> LazyBuffer:
    """``node`` on other operands."""
    if all(a is b for a, b in zip(src, node.src, strict=True)):
        return node
    return LazyBuffer(node.op, src, node.arg, node.shape, node.dtype, node.device)


def _key(node: LazyBuffer) -> Any:
    """Equal for nodes of equal value whose operands are the same nodes."""
    src = tuple(id(s) for s in node.src)
    if node.op in COMMUTATIVE:
        src = tuple(sorted(src))
    arg = node.arg
    if node.op is Op.BUFFER:
        arg = id(node)  # a plan serves other storages too: leaves that share theirs now may not do so then
    elif node.op is Op.CUSTOM:
        arg = id(arg)
    elif node.op is Op.CONST:
        arg = repr(arg)  # 0.0 == -0.0 and nan != nan would mix them up
    return node.op, src, arg, node.shape, node.dtype, node.device


def _rewrite(node: LazyBuffer) -> LazyBuffer | None:
    """What the first rule that applies makes of a node, or None."""
    if node.op in LEAF:
        return None
    if node.size == 0 and node.op not in STORAGE and rules.constant(node) is None:
        return rules.like(node, 0)
    return next((new for rule in RULES.get(node.op, ()) if (new := rule(node)) is not None), None)
