"""Rewrites for the scheduler's sake: the same values, computed in a form that makes better kernels."""
from __future__ import annotations

from collections.abc import Sequence

from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.correlate import are_disjoint, assemble, correlate
from dawdle.lazy.facts import Fact, Facts
from dawdle.lazy.ops import REDUCE, Op
from dawdle.lazy.split import is_large, split


def _applies(node: LazyBuffer, fact: Fact) -> bool:
    if node.op is Op.UNWINDOW:
        return fact.is_contraction or are_disjoint(node)
    return node.op in REDUCE and not fact.is_contraction and is_large(node, fact)


def _rewritten(node: LazyBuffer) -> LazyBuffer:
    if node.op is not Op.UNWINDOW:
        return split(node)
    return assemble(node) if are_disjoint(node) else correlate(node) or node


def rewrite(outputs: Sequence[LazyBuffer], order: Sequence[LazyBuffer], facts: Facts) -> list[LazyBuffer]:
    """``outputs`` with some reductions rewritten and what is above them rebuilt; other nodes are kept.

    ``order`` holds the graph's nodes, operands first.
    """
    found = {id(node) for node in order if _applies(node, facts[id(node)])}
    if not found:
        return list(outputs)
    new: dict[int, LazyBuffer] = {}
    for node in order:
        src = tuple(new[id(s)] for s in node.src)
        same = all(a is b for a, b in zip(src, node.src, strict=True))
        rebuilt = node if same else LazyBuffer(node.op, src, node.arg, node.shape, node.dtype, node.device)
        new[id(node)] = _rewritten(rebuilt) if id(node) in found else rebuilt
    return [new[id(node)] for node in outputs]
