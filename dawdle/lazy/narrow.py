"""Rows of elementwise work as work on rows, so that it ends at slices of leaves, which may lie anywhere."""
from __future__ import annotations

from collections.abc import Sequence

from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import ARITHMETIC, BITWISE, COMPARE, SHIFT, Op
from dawdle.lazy.walk import postorder

MOST = 32  # nodes between a slice and leaves
CHEAP = ARITHMETIC | COMPARE | BITWISE | SHIFT | {Op.CAST, Op.BITCAST, Op.NEG, Op.WHERE}


def narrowed(node: LazyBuffer) -> LazyBuffer | None:
    """slice(f(x)) -> f(slice(x)) along the first axis, where f is cheap elementwise work and x are leaves.

    None for other slices, and where a compiler might round f differently in the two places: it may contract
    products with sums (see rounding.py).
    """
    (x,) = node.src
    if not node.size or not node.shape or node.arg[0][2] != 1 or node.shape[1:] != x.shape[1:]:
        return None
    below: dict[LazyBuffer, Sequence[LazyBuffer]] = {}
    stack = [x]
    while stack:
        n = stack.pop()
        if n not in below:
            found = _below(n)
            if found is None or len(below) == MOST:
                return None
            below[n] = found
            stack += found
    ops = {n.op for n in below}
    if Op.MUL in ops and not ops.isdisjoint((Op.ADD, Op.SUB)):
        return None
    new: dict[LazyBuffer, LazyBuffer] = {}
    for n in postorder([x], below.__getitem__):
        new[n] = _rows(n, node, [new[s] for s in below[n]])
    return new[x]


def _ends(n: LazyBuffer) -> bool:
    """Whether a slice of ``n`` is one of a leaf, or ``n`` is the same in all rows."""
    if n.op is Op.EXPAND:
        return n.src[0].shape[0] == 1
    return n.op is Op.BUFFER or (n.op is Op.RESHAPE and n.src[0].op is Op.BUFFER)


def _below(n: LazyBuffer) -> Sequence[LazyBuffer] | None:
    """Of which operands rows are needed for those of ``n``; None where it isn't as simple as that."""
    if _ends(n):
        return ()
    if n.op in CHEAP or n.op is Op.EXPAND or (n.op is Op.PERMUTE and n.arg[0] == 0):
        return n.src
    return n.src if n.op is Op.RESHAPE and n.src[0].shape[:1] == n.shape[:1] else None


def _rows(n: LazyBuffer, node: LazyBuffer, src: Sequence[LazyBuffer]) -> LazyBuffer:
    shape = (node.shape[0], *n.shape[1:])
    if n.op is Op.EXPAND:
        return build.expand(src[0] if src else n.src[0], shape)
    if not src:
        return build.slice_(n, (node.arg[0], *[(0, m, 1) for m in shape[1:]]))
    if n.op is Op.RESHAPE:
        return build.reshape(src[0], shape)
    return LazyBuffer(n.op, tuple(src), n.arg, shape, n.dtype, n.device)
