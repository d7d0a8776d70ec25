"""Values that must be rounded once, because elements of them are compared with each other.

Computed again for another index, a value may differ in its last bit: a compiler contracts multiplications
and additions as it likes, and a sum's order depends on the loops around it. A maximum would then equal no
element.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.facts import STORED, operands
from dawdle.lazy.ops import COMPARE, MOVEMENT, Op

CORRECTLY_ROUNDED = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.RECIP, Op.SQRT, Op.FMA})
APPROXIMATE = frozenset({Op.EXP2, Op.LOG2, Op.SIN, Op.IDIV, Op.MOD, Op.SUM, Op.PROD, Op.UNWINDOW})


@dataclass(frozen=True)
class _Origin:
    """Where a value was rounded last. ``value`` is the node whose bits may depend on where it is computed,
    None if none does; ``place`` the last node after it that gives elements of other indices.
    """

    rounded: bool = False
    value: LazyBuffer | None = None
    place: LazyBuffer | None = None


def _selects(node: LazyBuffer) -> bool:
    """Whether ``node`` gives elements of its first operand from other indices."""
    if node.op is Op.SCAN:
        return bool(node.arg[0] is Op.MAX)
    return node.op in MOVEMENT or node.op in (Op.AMAX, Op.GATHER)


def _compared(node: LazyBuffer, below: Sequence[_Origin]) -> LazyBuffer | None:
    """The value that is rounded for each of its elements which ``node`` compares; None if there is none."""
    if node.op not in COMPARE or below[0].value is not below[1].value or below[0].place is below[1].place:
        return None
    return below[0].value


def _origin(node: LazyBuffer, below: Sequence[_Origin]) -> _Origin:
    if _selects(node) and below[0].value is not None:
        return replace(below[0], place=node)
    if node.op in STORED:
        return _Origin()
    rounded = any(o.rounded for o in below)
    if node.dtype.is_float and (node.op in APPROXIMATE or (rounded and node.op in CORRECTLY_ROUNDED)):
        return _Origin(True, node)
    inexact = [o for o in below if o.value is not None]
    if not inexact:
        return _Origin(rounded or (node.dtype.is_float and node.op in CORRECTLY_ROUNDED))
    first = inexact[0]
    if any(o.value is not first.value for o in inexact):
        return _Origin(True, node)
    return first if all(o.place is first.place for o in inexact) else replace(first, place=node)


def rounded_once(order: Iterable[LazyBuffer]) -> list[LazyBuffer]:
    """The values whose elements are compared with others of their own; ``order`` holds operands first."""
    origins: dict[int, _Origin] = {}
    found: dict[int, LazyBuffer] = {}
    for node in order:
        below = [origins[id(s)] for s in operands(node)]
        value = _compared(node, below)
        if value is None:
            origins[id(node)] = _origin(node, below)
        else:
            found[id(value)] = value
            origins[id(node)] = _Origin()
    return list(found.values())
