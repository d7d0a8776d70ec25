"""The order in which graphs are walked."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def postorder(roots: Iterable[N], operands: Callable[[N], Sequence[N]]) -> list[N]:
    """Every node reachable from ``roots``, operands before users, each once; without recursion."""
    order: list[N] = []
    seen: set[N] = set()
    stack = [(root, False) for root in roots]
    stack.reverse()
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((s, False) for s in reversed(operands(node)) if s not in seen)
    return order
