"""What the scheduler knows of each node before it decides: costs, dependences, and which sums contract.

Costs are in units of one simple vector instruction's time for an element, about 0.02 ns.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from dawdle.lazy.axes import Access, Axes, Index, extent, free
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import ELEMENTWISE, MOVEMENT, REDUCE, Op

OP_COST = {
    Op.EXP2: 8.0, Op.LOG2: 10.0, Op.SIN: 15.0, Op.DIV: 4.0, Op.SQRT: 4.0, Op.RECIP: 4.0,
    Op.IDIV: 8.0, Op.MOD: 8.0, Op.GATHER: 4.0,
}  # fmt: skip
TRANSCENDENTAL = frozenset({Op.EXP2, Op.LOG2, Op.SIN})
LOAD_COST = 2.0
MOST_COST = 1e6
MOST_LEAVES = 4
# a value that is repeated at least this often is hoisted, so that its cost is nothing beside its user's
HOISTED = 16
LEAST_TILE, LEAST_DEPTH = 16, 8  # results and steps of a contraction
STORED = frozenset({Op.BUFFER, Op.SCAN, Op.SCATTER, Op.CONTIGUOUS, Op.COPY, Op.CUSTOM})
SAME_ELEMENTS = frozenset({Op.RESHAPE, Op.PERMUTE})


@dataclass(frozen=True)
class Fact:
    """One node's facts. "Inlined" means: as if nothing but reductions and storage were materialised."""

    base: LazyBuffer  # the node itself, or what a movement node moves
    cost: float = 0.0  # of computing an element anew, reductions and loads excluded
    work: float = 0.0  # the same, reductions and loads included
    transcendental: bool = False  # computing it anew takes exp2, log2 or sin
    reduced: bool = False  # a reduction that isn't a contraction is inlined in it
    stored: bool = False  # it will be in memory, as far as can be told
    leaves: tuple[LazyBuffer, ...] | None = ()  # what it is computed from elementwise; None: too many
    level: int = 0  # reductions and storage on the longest path below
    height: int = 0  # reductions nested below
    contraction: LazyBuffer | None = None  # it is the elementwise epilogue of this contraction
    is_contraction: bool = False


Facts = dict[int, Fact]


def operands(node: LazyBuffer) -> tuple[LazyBuffer, ...]:
    """What the value of ``node`` is computed from."""
    return node.src[-1:] if node.op is Op.AFTER else node.src


def dependence(axes: Axes, node: LazyBuffer, index: Access, budget: int = 32) -> frozenset[Index]:
    """The ranges that ``node`` read at ``index`` varies with, looked for in ``budget`` nodes."""
    found: set[Index] = set()
    stack = [(node, index)]
    while stack:
        node, index = stack.pop()
        budget -= 1
        if node.op in MOVEMENT:
            stack.append((node.src[0], axes.move(node, index)))
        elif node.op in ELEMENTWISE and budget > 0:
            stack.extend((s, index) for s in node.src)
        elif node.op is not Op.CONST:
            found |= free(index)
    return frozenset(found)


def product_below(
    axes: Axes, node: LazyBuffer, index: Access
) -> tuple[list[LazyBuffer], Access, frozenset[Index]] | None:
    """The path from a SUM read at ``index`` to the MUL it sums, the MUL's index, the ranges summed over."""
    if node.op is not Op.SUM:
        return None
    index = tuple(axes.range(n) if a in node.arg else index[a] for a, n in enumerate(node.src[0].shape))
    reduced = free(tuple(index[a] for a in node.arg))
    path, body = [], node.src[0]
    while body.op in SAME_ELEMENTS or body.op is Op.CAST:
        path.append(body)
        index = axes.move(body, index) if body.op in SAME_ELEMENTS else index
        body = body.src[0]
    return ([*path, body], index, reduced) if body.op is Op.MUL else None


def is_contraction(axes: Axes, node: LazyBuffer) -> bool:
    """Whether a SUM is of products of two operands, each with result axes of its own: matmul, convolution."""
    product = product_below(axes, node, tuple(axes.range(n) for n in node.shape))
    if product is None:
        return False
    path, index, reduced = product
    left, right = (dependence(axes, operand, index) for operand in path[-1].src)
    rows, columns, inner = left - right - reduced, right - left - reduced, left & right & reduced
    # what is smaller isn't worth packing
    return bool(rows and columns) and extent(rows | columns) >= LEAST_TILE and extent(inner) >= LEAST_DEPTH


def count_uses(order: Iterable[LazyBuffer]) -> Counter[int]:
    """How many nodes use each node's value, however it is moved."""
    base: dict[int, LazyBuffer] = {}
    uses: Counter[int] = Counter()
    for node in order:
        if node.op in MOVEMENT:
            base[id(node)] = base[id(node.src[0])]
        else:
            base[id(node)] = node
            uses.update({id(s): id(base[id(s)]) for s in operands(node)}.values())
    return uses


class _Analysis:
    def __init__(self, order: Iterable[LazyBuffer]) -> None:
        self.axes = Axes()
        self.facts: Facts = {}
        self.uses = count_uses(order)

    def of(self, nodes: Iterable[LazyBuffer]) -> list[Fact]:
        return [self.facts[id(s)] for s in nodes]

    def leaf(self, node: LazyBuffer) -> Fact:
        return Fact(node)

    def storage(self, node: LazyBuffer) -> Fact:
        level = max((f.level for f in self.of(node.src)), default=-1) + 1
        return Fact(node, work=LOAD_COST, level=level, stored=True)

    def after(self, node: LazyBuffer) -> Fact:
        return self.facts[id(node.src[-1])]

    def elementwise(self, node: LazyBuffer) -> Fact:
        distinct = list({id(s): s for s in node.src}.values())
        below = self.of(distinct)
        level = max(f.level for f in below)
        own = OP_COST.get(node.op, 1.0)
        # the contraction must be the last thing computed: otherwise another operand may depend on it
        hosts = [f.contraction for f in below if f.contraction is not None and f.level == level]
        hosts = [c for c in hosts if c.size == node.size and node.op is not Op.GATHER]
        return Fact(
            node,
            # what several nodes use is shared between them: it is mostly computed once for all
            cost=min(own + sum(f.cost / self.uses[id(f.base)] for f in below), MOST_COST),
            work=min(own + sum(f.work / self.uses[id(f.base)] for f in below), MOST_COST),
            transcendental=node.op in TRANSCENDENTAL or any(f.transcendental for f in below),
            reduced=any(f.reduced for f in below),
            level=level,
            height=max(f.height for f in below),
            contraction=hosts[0] if hosts else None,
        )

    def movement(self, node: LazyBuffer) -> Fact:
        (below,) = self.of(node.src)
        if node.op in SAME_ELEMENTS:
            return below
        if node.op is Op.EXPAND and node.size:
            share = node.src[0].size / node.size
            return replace(
                below,
                cost=below.cost * share,
                work=below.work * share,
                transcendental=below.transcendental and share * HOISTED > 1,
                contraction=None,
            )
        extra = 1.0 if node.op is Op.PAD else 0.0
        return replace(below, cost=below.cost + extra, work=below.work + extra, contraction=None)

    def reduction(self, node: LazyBuffer) -> Fact:
        (below,) = self.of(node.src)
        contraction = self.is_contraction(node)
        steps = node.src[0].size / max(node.size, 1)
        return Fact(
            node,
            work=LOAD_COST if contraction else min((below.work + 1) * steps, MOST_COST),
            reduced=not contraction,
            level=below.level + 1,
            height=below.height + 1,
            contraction=node if contraction else None,
            is_contraction=contraction,
        )

    def is_contraction(self, node: LazyBuffer) -> bool:
        if node.op is not Op.UNWINDOW:
            return is_contraction(self.axes, node)
        below = node.src[0]
        while below.op in SAME_ELEMENTS:
            below = below.src[0]
        return self.facts[id(below)].is_contraction and below.op is Op.SUM


    def find_stored(self, order: Sequence[LazyBuffer], outputs: Iterable[LazyBuffer]) -> None:
        """Mark what surely gets memory: outputs, and epilogues' last nodes, which others go on with."""
        ends: set[int] = set()
        for node in order:
            mine = self.facts[id(node)].contraction
            if node.op not in MOVEMENT:
                below = (f for f in self.of(operands(node)) if f.contraction is not None)
                ends.update(id(f.base) for f in below if f.contraction is not mine)
        required = {id(node) for node in outputs}
        for node in order:
            fact = self.facts[id(node)]
            contraction = fact.contraction
            if contraction is not None and contraction is not node:
                kept = (f for f in self.of(operands(node)) if id(f.base) not in ends)
                contraction = contraction if any(f.contraction is contraction for f in kept) else None
            last = contraction is not None and id(fact.base) in ends
            stored = fact.stored or id(node) in required or last
            if contraction is not fact.contraction or stored != fact.stored:
                self.facts[id(node)] = replace(fact, contraction=contraction, stored=stored)

    def find_leaves(self, order: Iterable[LazyBuffer]) -> None:
        for node in order:
            fact = self.facts[id(node)]
            below = operands(node)
            leaves: tuple[LazyBuffer, ...] | None = (node,)
            stored = fact.stored
            if not stored and node.op not in REDUCE and node.op is not Op.UNWINDOW:
                leaves = _union([f.leaves for f in self.of(below)])
                if leaves is None and node.op not in MOVEMENT and self.uses[id(node)] > 1:
                    leaves, stored = (node,), True  # too much for several kernels to compute
            if leaves != fact.leaves:
                self.facts[id(node)] = replace(fact, leaves=leaves, stored=stored)


def _union(leaves: Sequence[tuple[LazyBuffer, ...] | None]) -> tuple[LazyBuffer, ...] | None:
    if any(x is None for x in leaves):
        return None
    union = {id(n): n for x in leaves for n in x or ()}
    return tuple(union.values()) if len(union) <= MOST_LEAVES else None


_RULES: dict[Op, Callable[[_Analysis, LazyBuffer], Fact]] = {
    Op.CONST: _Analysis.leaf,
    Op.IOTA: _Analysis.leaf,
    Op.AFTER: _Analysis.after,
    Op.GATHER: _Analysis.elementwise,
    Op.UNWINDOW: _Analysis.reduction,
    **dict.fromkeys(STORED, _Analysis.storage),
    **dict.fromkeys(ELEMENTWISE, _Analysis.elementwise),
    **dict.fromkeys(MOVEMENT, _Analysis.movement),
    **dict.fromkeys(REDUCE, _Analysis.reduction),
}


def analyse(order: Sequence[LazyBuffer], outputs: Iterable[LazyBuffer]) -> Facts:
    """The facts of each node by its id; ``order`` holds operands before users, ``outputs`` get memory."""
    analysis = _Analysis(order)
    for node in order:
        analysis.facts[id(node)] = _RULES[node.op](analysis, node)
    analysis.find_stored(order, outputs)
    analysis.find_leaves(order)
    return analysis.facts
