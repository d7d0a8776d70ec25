"""Kernel to loop tree: every expression is placed at the outermost loop on which its free ranges allow it to
stand.

Unrolled ranges become repeated stores with constants in their place. Reductions over the same ranges that
stand at the same loop are emitted as one loop with several accumulators. A vector range has no loop: it is
the lanes of a register.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from dawdle.codegen import expr, loop
from dawdle.codegen.algebra import add, and_, coefficient, less, minimum, mod, mul, simplify, without
from dawdle.codegen.expr import Expr, Range, X, alu, const, range_, substitute, walk
from dawdle.codegen.index import unflatten
from dawdle.codegen.kernel import Kernel, StageBuffer, Store
from dawdle.codegen.placement import LOCAL, Placement, Scope, broadcast
from dawdle.codegen.transform import identity_of
from dawdle.lazy.ops import Op

ALIGN = 64


class _Loopify(Placement):
    """Reductions, scans, staged tiles and stores, in their loops."""

    def __init__(self, k: Kernel) -> None:
        super().__init__(k)
        self.shared: dict[str, loop.Alloc] = {}
        self.worker = Range("worker", self.local)
        self.ids[self.worker] = LOCAL
        self.scratch = 0
        self.stores = [self.unroll(s) for s in k.stores]
        flat = list(itertools.chain(*self.stores))
        nodes = walk([e for s in flat for e in s.exprs] + [s.value for s in k.stages])
        self.uses = Counter(s for n in nodes for s in n.src)
        self.reduces = [n for n in nodes if n.op is X.REDUCE]
        self.scans = [n for n in nodes if n.op is X.SCAN]
        self.states: dict[frozenset[Range], str] = {}

    def reduce(self, n: Expr) -> Expr:
        op, ranges = n.arg
        if ranges[0] in self.vectors:
            assert len(ranges) == 1
            return expr.make(X.FOLD, (broadcast(self.value(n.src[0]), ranges[0].extent),), op, n.dtype)
        if ranges[0] in self.ids:
            return self.group_reduce(n)
        here = len(self.scopes) - 1
        scope = self.scopes[here]
        group = [
            m for m in self.reduces if m.arg[1] == ranges and m not in scope.values and self.stands(m, here)
        ]
        if n not in group:
            group.append(n)
        accumulators = {}
        for m in group:
            lanes = max(m.lanes, self.lanes_of(m))
            name, made = self.register(m.dtype, broadcast(identity_of(m.arg[0], m.dtype), lanes))
            self.scopes[-1].body.extend(made)
            accumulators[m] = expr.make(X.LOAD, (const(0),), name, m.dtype, lanes)
        loops = [r for r in ranges if r not in self.unrolled]
        for r in loops:
            self.fill_first(r)
            self.open(r)
            if any(s.at is r and s.double for s in self.k.stages):
                self.emit(loop.Barrier())  # the tile of this iteration is there, that of the last one free
            self.fill(r)
        for point in self.points(r for r in ranges if r in self.unrolled):
            for m in group:
                (body,) = self.at_point([m.src[0]], point)
                self.emit(self.step(body, accumulators[m], m.arg[0]))
        for _ in loops:
            self.close()
        scope.values.update(accumulators)
        return accumulators[n]

    def step(self, body: Expr, total: Expr, op: Op) -> loop.Store:
        """Combine the value of ``body`` into the register ``total``; a product is fused with its addition."""
        if body.op is X.MMA:
            value = expr.rebuild(body, tuple(self.value(s) for s in body.src))
        elif op is Op.ADD and body.op is Op.MUL and body.dtype.is_float and self.found(body) is None:
            factors = (broadcast(self.value(s), total.lanes) for s in body.src)
            fused = expr.make(Op.FMA, (*factors, total), None, body.dtype, total.lanes)
            return loop.Store(total.arg, const(0), fused)
        else:
            value = self.value(body)
        return loop.Store(total.arg, const(0), broadcast(value, total.lanes), op)

    def group_reduce(self, n: Expr) -> Expr:
        """Combine a value over a group's threads, and with it the others that run over the same threads."""
        here = len(self.scopes) - 1
        scope = self.scopes[here]
        (r,) = n.arg[1]
        mates = [m for m in self.reduces if m.arg[1] == (r,) and m is not n and self.stands(m, here)]
        self.open(r)
        own = {m: self.value(m.src[0]) for m in (n, *mates) if m not in scope.values}
        self.close()
        results = {}
        for m, value in own.items():
            array = self.shared_array(f"fold_{m.dtype.name}", m, self.local)
            total = expr.make(X.GROUPFOLD, (value,), (m.arg[0], array), m.dtype)
            results[m] = expr.var(self.name("x"), m.dtype)
            self.emit(loop.Let(results[m].arg, total))
        scope.values.update(results)
        return results[n]

    def shared_array(self, name: str, like: Expr, size: int) -> str:
        self.shared[name] = loop.Alloc(name, like.dtype, size, "shared")
        return name

    def stands(self, m: Expr, here: int) -> bool:
        """Whether ``m`` belongs to the innermost open scope."""
        needed = self.ranges_of(m)
        return needed <= self.scopes[here].opened and (
            here == 0 or not needed <= self.scopes[here - 1].opened
        )

    def scan(self, n: Expr) -> Expr:
        op, r = n.arg
        depth = next(i for i, s in enumerate(self.scopes) if s.innermost is r)
        inner = [s.innermost for s in self.scopes[depth + 1 :] if s.innermost is not None]
        lanes = self.lanes_of(n)
        mates = [m for m in self.scans if m.arg[1] is r and self.ranges_of(m) == self.ranges_of(n)]
        name = self.state(n, depth, math.prod(x.extent for x in inner) * len(mates) if inner else 0, lanes)
        place = const(0)
        for x in inner:
            place = add(mul(place, const(x.extent)), self.variables[x])
        place = add(mul(place, const(len(mates))), const(mates.index(n))) if inner else place
        body = broadcast(self.value(n.src[0]), lanes)
        before = expr.make(X.LOAD, (place,), name, n.dtype, lanes)
        first = alu(Op.CMPEQ, self.variables[r], const(0))
        total = expr.make(Op.WHERE, (first, body, alu(op, before, body, dtype=n.dtype)), None, n.dtype, lanes)
        result = expr.var(self.name("x"), n.dtype, lanes)
        self.emit(loop.Let(result.arg, total))
        self.emit(loop.Store(name, place, result))
        return result

    def state(self, n: Expr, depth: int, size: int, lanes: int) -> str:
        """The name of the memory that carries a scan from one iteration to the next: a register if ``size``
        is 0.
        """
        key = self.ranges_of(n)
        if size and key in self.states:
            return self.states[key]
        outside = self.scopes[depth - 1].body
        if size:
            name = self.states[key] = self.name("state")
            outside.append(self.scratch_array(name, n, size, lanes))
        else:
            name, made = self.register(n.dtype, broadcast(identity_of(n.arg[0], n.dtype), lanes))
            outside.extend(made)
        return name

    def scratch_array(self, name: str, like: Expr, size: int, lanes: int = 1) -> loop.Alloc:
        self.scratch += -(-size * lanes * like.dtype.itemsize // ALIGN) * ALIGN
        return loop.Alloc(name, like.dtype, size, "scratch", lanes)

    # stores

    def points(self, ranges: Iterable[Range]) -> list[dict[Expr, Expr]]:
        """Every combination of values of unrolled ranges."""
        ranges = list(ranges)
        values = itertools.product(*(range(r.extent) for r in ranges))
        return [{range_(r): const(i) for r, i in zip(ranges, v, strict=True)} for v in values]

    def at_point(self, exprs: Sequence[Expr], point: dict[Expr, Expr]) -> list[Expr]:
        return [simplify(e) for e in substitute(exprs, point)] if point else list(exprs)

    def unroll(self, s: Store) -> list[Store]:
        """One store for each value of the unrolled ranges that it depends on."""
        free = frozenset().union(*(e.free for e in s.exprs))
        out = []
        for point in self.points(r for r in self.k.ranges if r in self.unrolled & free):
            new = self.at_point(s.exprs, point)
            out.append(replace(s, index=new[0], value=new[1], valid=new[2] if len(new) > 2 else None))
        return out

    def nest(self, stores: list[Store], order: Sequence[Range]) -> None:
        """Emit stores inside the loops of ``order`` that each depends on."""
        groups: dict[Range | None, list[Store]] = {}
        for s in stores:
            needed = frozenset().union(*(self.ranges_of(e) for e in s.exprs))
            first = next((r for r in order if r in needed and r not in self.scopes[-1].opened), None)
            groups.setdefault(first, []).append(s)
        for r, inside in groups.items():
            if r is None:
                for s in inside:
                    self.store(s)
                continue
            self.open(r)
            self.fill(r)
            self.nest(inside, order[order.index(r) + 1 :])
            self.close()

    def store(self, s: Store) -> None:
        valid = None
        if s.valid is not None:
            for n in walk(s.exprs):
                if n.op in (X.REDUCE, X.SCAN) and self.ranges_of(n) <= self.scopes[-1].opened:
                    self.value(n)
            valid = self.value(s.valid)
            self.scopes.append(Scope(self.scopes[-1].opened, None, guard=True))
        lanes = s.index.free & self.vectors
        v = next(iter(lanes), None)
        if v is None:
            value = self.scalar_load(s.value) if s.param in self.shared else self.value(s.value)
            self.emit(loop.Store(s.param, self.value(s.index), value, s.how))
        elif coefficient(s.index, v) == 1:
            value = broadcast(self.value(s.value), v.extent)
            self.emit(loop.Store(s.param, self.value(without(s.index, v)), value, s.how))
        else:
            raise AssertionError(f"{v} is a vector range, but {s.index} doesn't step by 1 with it")
        if valid is not None:
            scope = self.scopes.pop()
            self.emit(loop.If(valid, tuple(scope.body)))

    def fill(self, at: Range | None) -> None:
        """Fill the buffers that are staged here."""
        for s in self.k.stages:
            if s.at is at:
                self.fill_stage(s)

    def fill_together(self, s: StageBuffer) -> None:
        """All threads of a group fill a shared buffer, each every ``local``-th element.

        A double buffer is filled one iteration ahead, while the other half is in use.
        """
        size = math.prod(r.extent for r in s.dims)
        self.shared_array(s.name, s.value, size * 2 if s.double else size)
        if not s.double:
            self.emit(loop.Barrier())
            self.copy_tile(s, size, {}, None)
            self.emit(loop.Barrier())
            return
        assert s.at is not None
        ahead = add(range_(s.at), const(1))
        self.copy_tile(s, size, {range_(s.at): ahead}, less(ahead, const(s.at.extent)))

    def fill_first(self, at: Range) -> None:
        """Before a loop: the first tiles of its double buffers."""
        for s in self.k.stages:
            if s.at is at and s.double:
                self.emit(loop.Barrier())
                self.copy_tile(s, math.prod(r.extent for r in s.dims), {range_(at): const(0)}, None)

    def copy_tile(self, s: StageBuffer, size: int, when: dict[Expr, Expr], valid: Expr | None) -> None:
        turn = Range(s.name + "_", -(-size // self.local))
        place = add(mul(range_(turn), const(self.local)), range_(self.worker))
        at = dict(zip(map(range_, s.dims), unflatten(place, [r.extent for r in s.dims]), strict=True))
        (value,) = self.at_point([s.value], at | when)
        if size % self.local:
            inside = less(place, const(size))
            valid = inside if valid is None else and_(valid, inside)
        for half in when.values():
            place = add(place, mul(mod(half, 2), const(size)))
        self.open(self.worker)
        self.open(turn)
        self.store(Store(s.name, place, value, valid))
        self.close()
        self.close()

    def fill_stage(self, s: StageBuffer) -> None:
        if self.local:
            self.fill_together(s)
            return
        self.emit(self.scratch_array(s.name, s.value, math.prod(r.extent for r in s.dims)))
        index = const(0)
        for d in s.dims:
            index = add(mul(index, const(d.extent)), range_(d))
        dims, value = s.dims, s.value
        if s.lanes > 1:
            *lead, r = dims
            outer, lane = Range(r.name + "o", -(-r.extent // s.lanes)), Range(r.name + "i", s.lanes)
            self.vectors |= {lane}
            start = minimum(mul(range_(outer), const(s.lanes)), const(r.extent - s.lanes))
            index, value = self.at_point([index, value], {range_(r): add(start, range_(lane))})
            dims = (*lead, outer, lane)
        loops = [r for r in dims if r not in self.vectors | self.unrolled]
        for r in loops:
            self.open(r)
        for point in self.points(r for r in dims if r in self.unrolled):
            place, filled = self.at_point([index, value], point)
            self.store(Store(s.name, place, filled))
        for _ in loops:
            self.close()

    def run(self) -> loop.Function:
        self.fill(None)
        order = [r for r in self.k.ranges if r not in self.vectors | self.unrolled]
        self.nest(list(itertools.chain(*self.stores)), order)
        params = tuple((p.name, p.dtype, p.written) for p in self.k.params)
        body = (*self.shared.values(), *self.scopes[0].body)
        groups, local = (max(self.groups, 1), max(self.local, 1)) if self.k.launched else (0, 0)
        return loop.Function(self.k.name, params, body, self.scratch, groups, local)


def loopify(k: Kernel) -> loop.Function:
    """The loop tree of ``k``, following its order of ranges, marks and stages."""
    return _Loopify(k).run()
