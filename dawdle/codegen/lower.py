"""Graph to kernel: substitute index expressions through movement ops, down to loads of the group's inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import replace

from dawdle.codegen import expr
from dawdle.codegen.algebra import and_, less, simplify
from dawdle.codegen.decompose import decompose
from dawdle.codegen.expr import Expr, Range, X, alu, const, range_
from dawdle.codegen.index import MOVE, ZERO, Index, flatten, unwindow
from dawdle.codegen.kernel import Kernel, Param, Store
from dawdle.codegen.transform import identity_of
from dawdle.dtype import DType
from dawdle.errors import VerifyError
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import COMBINE, ELEMENTWISE, MOVEMENT, REDUCE, Op
from dawdle.lazy.plan import Group

Key = tuple[int, Index, Expr | None]
Visit = Generator[tuple[LazyBuffer, Index, Expr | None], Expr, Expr]


def reduction(op: Op, body: Expr, ranges: tuple[Range, ...]) -> Expr:
    """A REDUCE node, merged with one that it directly encloses, also through the mask of a padded sum."""
    if body.op is X.REDUCE and body.arg[0] is op:
        return expr.reduce(op, body.src[0], (*ranges, *body.arg[1]))
    if (
        op is Op.ADD
        and body.op is Op.WHERE
        and body.src[1].op is X.REDUCE
        and body.src[2] is _zero(body.dtype)
    ):
        inner = body.src[1]
        # a condition on the inner sum itself runs over the same ranges once more
        plain = all(e.op is not X.REDUCE for e in expr.walk([body.src[0]]))
        if inner.arg[0] is Op.ADD and plain:
            masked = alu(Op.WHERE, body.src[0], inner.src[0], body.src[2])
            return expr.reduce(op, masked, (*ranges, *inner.arg[1]))
    return expr.reduce(op, body, ranges)


def _zero(d: DType) -> Expr:
    """What padding holds."""
    return identity_of(Op.ADD, d)


def _both(a: Expr | None, b: Expr | None) -> Expr | None:
    return b if a is None else a if b is None else and_(a, b)


class _Lowering:
    """The expressions of one group's inlined nodes."""

    def __init__(self, group: Group) -> None:
        self.slots = {id(n): f"in{i}" for i, n in enumerate(group.inputs)}
        self.memo: dict[Key, Expr] = {}
        self.ranges: dict[tuple[int, int, int], Range] = {}
        self.levels: dict[Range, int] = {}
        self.computed = False  # whether an index that is read at holds reductions
        self.height = self._heights(group)

    def _heights(self, group: Group) -> dict[int, int]:
        """How many reductions nest below each inlined node: siblings of one height can share their loop."""
        height: dict[int, int] = {}
        stack = [(n, False) for n in group.outputs]
        while stack:
            node, expanded = stack.pop()
            if id(node) in height and not expanded:
                continue
            if id(node) in self.slots:
                height[id(node)] = 0
            elif expanded:
                heights = [height[id(s)] for s in self._operands(node)]
                # what is gathered is read at an index, and reductions in it enclose those of the index
                below = sum(heights) if node.op is Op.GATHER else max(heights, default=0)
                self.computed |= node.op is Op.GATHER and heights[1] > 0
                height[id(node)] = below + (node.op in REDUCE or node.op is Op.UNWINDOW)
            else:
                stack.append((node, True))
                stack.extend((s, False) for s in self._operands(node))
        return height

    def _operands(self, node: LazyBuffer) -> tuple[LazyBuffer, ...]:
        return node.src[-1:] if node.op is Op.AFTER else node.src

    def bound(self, node: LazyBuffer, sizes: list[int], index: Index, valid: Expr | None) -> list[Range]:
        """The ranges a reduction at ``node`` runs over; reductions of one height and size share theirs."""
        height = self.height[id(node)] + self._height_of_place(index, valid)
        keys = [(height, i, n) for i, n in enumerate(sizes)]
        ranges = [self.ranges.setdefault(k, Range(f"k{k[0]}_{k[1]}", k[2])) for k in keys]
        self.levels.update(dict.fromkeys(ranges, height))
        return ranges

    def _height_of_place(self, index: Index, valid: Expr | None) -> int:
        """How many reductions nest in the place that is read: a sum read at an argmax has its own loop."""
        if not self.computed:
            return 0
        parts = index if valid is None else (*index, valid)
        bound = (r for e in expr.walk(parts) if e.op is X.REDUCE for r in e.arg[1])
        return max((self.levels[r] for r in bound), default=0)

    def run(self, node: LazyBuffer, index: Index, valid: Expr | None = None) -> Expr:
        """The value of ``node`` at ``index``: drives the rules below without recursion."""
        waiting: list[tuple[Key, Visit]] = []
        answer = self.ask(node, index, valid, waiting)
        while waiting:
            key, rule = waiting[-1]
            try:
                answer = self.ask(*(next(rule) if answer is None else rule.send(answer)), waiting)
            except StopIteration as done:
                waiting.pop()
                self.memo[key] = answer = done.value
        assert answer is not None
        return answer

    def ask(
        self, node: LazyBuffer, index: Index, valid: Expr | None, waiting: list[tuple[Key, Visit]]
    ) -> Expr | None:
        """The value if it is known or a leaf's; else None, and the rule that finds it is the next to run."""
        key = (id(node), index, valid)
        known = self.memo.get(key)
        if known is not None:
            return known
        slot = self.slots.get(id(node))
        if slot is not None:
            return self.load(slot, node, index, valid)
        if node.op is Op.CONST:
            return const(node.arg, node.dtype)
        if node.op is Op.IOTA:
            place = index[0]
            if place.op is X.LOAD and valid is not None:  # a load is taken to be masked, and this one isn't
                place = alu(Op.WHERE, valid, place, const(0))
            return place if node.dtype == expr.INDEX else alu(Op.CAST, place, dtype=node.dtype)
        waiting.append((key, RULES[node.op](self, node, index, valid)))
        return None

    def load(self, slot: str, node: LazyBuffer, index: Index, valid: Expr | None) -> Expr:
        if node.size == 0:  # never valid
            return _zero(node.dtype)
        return expr.load(slot, flatten(index, node.shape), node.dtype, valid)

    def elementwise(self, node: LazyBuffer, index: Index, valid: Expr | None) -> Visit:
        operands = []
        for s in node.src:
            operands.append((yield s, index, valid))
        return alu(node.op, *operands, dtype=node.dtype)

    def identity(self, node: LazyBuffer, index: Index, valid: Expr | None) -> Visit:
        return (yield node.src[-1], index, valid)

    def movement(self, node: LazyBuffer, index: Index, valid: Expr | None) -> Visit:
        source, inside = MOVE[node.op](node, index)
        if inside is None:
            return (yield node.src[0], source, valid)
        if inside.op is Op.CONST:
            return (yield node.src[0], source, valid) if inside.arg else _zero(node.dtype)
        value = yield node.src[0], source, _both(valid, inside)
        return value if value.op is X.LOAD else alu(Op.WHERE, inside, value, _zero(value.dtype))

    def reduce(self, node: LazyBuffer, index: Index, valid: Expr | None) -> Visit:
        if 0 in node.src[0].shape:
            return identity_of(COMBINE[node.op], node.dtype)
        axes = [a for a in node.arg if node.src[0].shape[a] != 1]
        ranges = self.bound(node, [node.src[0].shape[a] for a in axes], index, valid)
        inner = list(index)
        for axis, r in zip(axes, ranges, strict=True):
            inner[axis] = range_(r)
        body = yield node.src[0], tuple(inner), valid
        return reduction(COMBINE[node.op], body, tuple(ranges)) if ranges else body

    def unwindow(self, node: LazyBuffer, index: Index, valid: Expr | None) -> Visit:
        taps = self.bound(node, [size for size, _, _ in node.arg[0]], index, valid)
        source, inside = unwindow(node, index, taps)
        value = yield node.src[0], source, _both(valid, inside)
        if inside is not None and value.op is not X.LOAD:
            value = alu(Op.WHERE, inside, value, _zero(value.dtype))
        return reduction(Op.ADD, value, tuple(taps))

    def scan(self, node: LazyBuffer, index: Index, valid: Expr | None) -> Visit:
        op, axis = node.arg
        body = yield node.src[0], index, valid
        if node.shape[axis] == 1:
            return body
        if index[axis].op is not X.RANGE:
            raise VerifyError(
                f"a scan must be materialised along the axis it runs over, not read at {index[axis]}"
            )
        return expr.scan(op, body, index[axis].arg)

    def gather(self, node: LazyBuffer, index: Index, valid: Expr | None) -> Visit:
        position = yield node.src[1], index, valid
        position, inside = data_index(position, node.src[0].shape[node.arg])
        source = (*index[: node.arg], position, *index[node.arg + 1 :])
        value = yield node.src[0], source, _both(valid, inside)
        return value if value.op is X.LOAD else alu(Op.WHERE, inside, value, _zero(value.dtype))


def data_index(position: Expr, size: int) -> tuple[Expr, Expr]:
    """An index read from memory, and whether it lies in [0, size)."""
    if position.dtype != expr.INDEX:
        position = alu(Op.CAST, position, dtype=expr.INDEX)
    return position, and_(less(const(-1), position), less(position, const(size)))


RULES: dict[Op, Callable[[_Lowering, LazyBuffer, Index, Expr | None], Visit]] = {
    **dict.fromkeys(ELEMENTWISE, _Lowering.elementwise),
    **dict.fromkeys((Op.AFTER, Op.CONTIGUOUS), _Lowering.identity),
    **dict.fromkeys(MOVEMENT, _Lowering.movement),
    **dict.fromkeys(REDUCE, _Lowering.reduce),
    Op.UNWINDOW: _Lowering.unwindow,
    Op.SCAN: _Lowering.scan,
    Op.GATHER: _Lowering.gather,
}


def _output_index(space: tuple[int, ...], ranges: list[Expr], shape: tuple[int, ...]) -> Index:
    """The index of an output of ``shape`` in terms of the group's ranges (see Group)."""
    if len(shape) == len(space) and all(n in (1, m) for n, m in zip(shape, space, strict=True)):
        return tuple(ZERO if n == 1 else r for n, r in zip(shape, ranges, strict=True))
    wide = [r for r, n in zip(ranges, space, strict=True) if n != 1]
    if [n for n in space if n != 1] != [n for n in shape if n != 1]:
        raise VerifyError(f"an output of shape {shape} doesn't fit a group over {space}")
    return tuple(ZERO if n == 1 else wide.pop(0) for n in shape)


def lower(group: Group, name: str = "kernel") -> Kernel:
    """The kernel that computes ``group``, with no decisions taken yet."""
    lowering = _Lowering(group)
    ranges = [Range(f"r{i}", n) for i, n in enumerate(group.space)]
    index = [ZERO if n == 1 else range_(r) for r, n in zip(ranges, group.space, strict=True)]
    params = [Param(f"out{i}", n.dtype, n.size, True) for i, n in enumerate(group.outputs)]
    params += [Param(f"in{i}", n.dtype, n.size) for i, n in enumerate(group.inputs)]
    if 0 in group.space:  # nothing to compute
        return Kernel(name, tuple(params), (), ())
    order = [r for r in ranges if r.extent != 1]
    stores: list[Store] = []
    for i, node in enumerate(group.outputs):
        where = _output_index(group.space, index, node.shape)
        if node.op is Op.SCATTER:
            order, scattered = _scatter(lowering, node, ranges, where, f"out{i}")
            stores += scattered
        else:
            stores.append(Store(f"out{i}", flatten(where, node.shape), lowering.run(node, where)))
    simple = iter([simplify(e) for e in decompose([e for s in stores for e in s.exprs])])
    stores = [
        replace(s, index=next(simple), value=next(simple), valid=None if s.valid is None else next(simple))
        for s in stores
    ]
    return Kernel(name, tuple(params), tuple(order), tuple(stores))


def _scatter(
    lowering: _Lowering, node: LazyBuffer, ranges: list[Range], where: Index, slot: str
) -> tuple[list[Range], list[Store]]:
    """First the base is copied, then each element of x goes to its place; both inside the loops over the
    other axes.
    """
    base, position, x = node.src
    axis, how = node.arg
    rows = Range("s", x.shape[axis])
    inner = (*where[:axis], range_(rows) if rows.extent != 1 else ZERO, *where[axis + 1 :])
    place, inside = data_index(lowering.run(position, inner), node.shape[axis])
    target = flatten((*where[:axis], place, *where[axis + 1 :]), node.shape)
    copy = Store(slot, flatten(where, node.shape), lowering.run(base, where))
    others = [r for i, r in enumerate(ranges) if i != axis and r.extent != 1]
    last = [r for r in (ranges[axis], rows) if r.extent != 1]
    return [*others, *last], [copy, Store(slot, target, lowering.run(x, inner), inside, how)]


def flops(kernel: Kernel) -> int:
    """Arithmetic operations of the kernel: each node once for every point of its free ranges, FMA twice."""
    total = 0
    for e in kernel.exprs():
        if e.dtype.is_float and e.op in ELEMENTWISE and e.op not in (Op.CAST, Op.BITCAST, Op.WHERE):
            total += (2 if e.op is Op.FMA else 1) * math.prod(r.extent for r in e.free)
        elif e.op is X.REDUCE:
            total += math.prod(r.extent for r in e.src[0].free.union(e.arg[1]))
    return total
