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
from dawdle.codegen.algebra import add, and_, bounds, coefficient, less, minimum, mod, mul, simplify, without
from dawdle.codegen.expr import INDEX, Expr, Range, X, alu, const, range_, substitute, walk
from dawdle.codegen.index import unflatten
from dawdle.codegen.kernel import Kernel, StageBuffer, Store
from dawdle.codegen.transform import identity_of
from dawdle.lazy.ops import Op

ALIGN = 64
IDS = ("group", "local")
MAX_NESTING = 12  # operators in one C expression: compilers limit the depth of brackets
THREAD, THREADS = expr.var("thread"), expr.var("threads")
GROUP, LOCAL = expr.var("group_id"), expr.var("local_id")


class _Scope:
    """The body of a loop under construction."""

    def __init__(self, opened: frozenset[Range], innermost: Range | None) -> None:
        self.opened = opened
        self.innermost = innermost
        self.body: list[loop.Stmt] = []
        self.values: dict[Expr, Expr] = {}


class _Loopify:
    def __init__(self, k: Kernel) -> None:
        self.k = k
        self.vectors = frozenset(r for r, how in k.marks.items() if how == "vector")
        self.unrolled = frozenset(r for r, how in k.marks.items() if how == "unroll")
        self.ids = {r: {"group": GROUP, "local": LOCAL}[how] for r, how in k.marks.items() if how in IDS}
        self.local = max((r.extent for r, v in self.ids.items() if v is LOCAL), default=0)
        self.groups = max((r.extent for r, v in self.ids.items() if v is GROUP), default=0)
        self.shared: dict[str, loop.Alloc] = {}
        self.worker = Range("worker", self.local)
        self.ids[self.worker] = LOCAL
        self.at = {s.name: s.at for s in k.stages}
        self.counter: Counter[str] = Counter()
        self.variables: dict[Range, Expr] = {}
        self.scopes = [_Scope(frozenset(), None)]
        self.guarded = False
        self.depends: dict[Expr, frozenset[Range]] = {}
        self.scratch = 0
        self.stores = [self.unroll(s) for s in k.stores]
        flat = list(itertools.chain(*self.stores))
        nodes = walk([e for s in flat for e in s.exprs] + [s.value for s in k.stages])
        self.uses = Counter(s for n in nodes for s in n.src)
        self.reduces = [n for n in nodes if n.op is X.REDUCE]
        self.scans = [n for n in nodes if n.op is X.SCAN]
        self.states: dict[frozenset[Range], str] = {}
        self.nesting: dict[Expr, int] = {}

    # names, scopes, levels

    def name(self, stem: str) -> str:
        self.counter[stem] += 1
        return f"{stem}{self.counter[stem] - 1}"

    def ranges_of(self, e: Expr) -> frozenset[Range]:
        """The loops that ``e`` must stand inside of: its free ranges, and where its buffers are filled."""
        known = self.depends
        if e not in known:
            for n in walk([e]):
                if n in known:
                    continue
                out = n.free.union(*(known[s] - n.free for s in n.src)) if n.src else n.free
                if n.op is X.REDUCE:
                    out -= frozenset(n.arg[1])
                filled = self.at.get(n.arg) if n.op is X.LOAD else None
                if filled is not None:
                    out |= {filled}
                known[n] = out - self.vectors
        return known[e]

    def level(self, e: Expr) -> int:
        """Index of the outermost open scope that ``e`` can stand in."""
        needed = self.ranges_of(e)
        for i, scope in enumerate(self.scopes):
            if needed <= scope.opened:
                if self.guarded and i == len(self.scopes) - 2 and e.op not in (X.REDUCE, X.SCAN):
                    return i + 1
                return i
        missing = needed - self.scopes[-1].opened
        raise AssertionError(f"{e} needs loops over {missing} that are not open")

    def emit(self, s: loop.Stmt) -> None:
        self.scopes[-1].body.append(s)

    def open(self, r: Range) -> None:
        self.variables[r] = self.ids.get(r) or expr.var(self.name(r.name + "_"))
        self.scopes.append(_Scope(self.scopes[-1].opened | {r}, r))

    def close(self) -> None:
        scope = self.scopes.pop()
        r = scope.innermost
        assert r is not None
        if r in self.ids:  # not a loop: each thread has its own value
            beyond = self.ids[r] is LOCAL and r.extent < self.local
            body = (
                (loop.If(alu(Op.CMPLT, LOCAL, const(r.extent)), tuple(scope.body)),) if beyond else scope.body
            )
            self.scopes[-1].body.extend(body)
            return
        start, stop = const(0), const(r.extent)
        if self.k.marks.get(r) == "parallel":
            start, stop = (
                expr.make(Op.IDIV, (mul(const(r.extent), t), THREADS), "nonneg", INDEX)
                for t in (THREAD, add(THREAD, const(1)))
            )
        self.emit(loop.For(self.variables[r].arg, start, stop, 1, tuple(scope.body)))

    # values

    def value(self, e: Expr) -> Expr:
        """``e`` as an expression of loop variables, bound in the outermost scope it can stand in."""
        stack = [(e, False)]
        while stack:
            n, ready = stack.pop()
            if self.found(n) is not None:
                continue
            if not ready and n.op not in _OPAQUE:
                stack.append((n, True))
                stack.extend((s, False) for s in n.src)
                continue
            self.place(n)
        found = self.found(e)
        assert found is not None
        return found

    def found(self, e: Expr) -> Expr | None:
        """The value of ``e`` if it was placed already; what stands before a guard serves inside of it too."""
        level = self.level(e)
        known = self.scopes[level].values.get(e)
        if known is None and self.guarded and level == len(self.scopes) - 1:
            known = self.scopes[level - 1].values.get(e)
        return known

    def place(self, n: Expr) -> None:
        """Compute one node whose operands are placed, in the scope it belongs to."""
        level = self.level(n)
        inner = self.scopes[level + 1 :]
        del self.scopes[level + 1 :]
        guarded, self.guarded = self.guarded, self.guarded and not inner
        result = self.translate(n)
        scope = self.scopes[level]
        depth = 1 + max((self.nesting.get(s, 0) for s in result.src), default=0)
        shared = self.uses.get(n, 2) > 1 or inner or depth > MAX_NESTING or result.op is X.GROUPFOLD
        if shared and result.op not in (X.VAR, Op.CONST, X.RANGE) and not self.is_register(result):
            name = self.name("x")
            scope.body.append(loop.Let(name, result))
            result, depth = expr.var(name, result.dtype, result.lanes), 0
        self.nesting[result] = depth
        scope.values[n] = result
        self.scopes += inner
        self.guarded = guarded

    def is_register(self, e: Expr) -> bool:
        return e.op is X.LOAD and e.arg.startswith("acc")

    def translate(self, n: Expr) -> Expr:
        if n.op is X.RANGE:
            if n.arg in self.vectors:
                lanes = tuple(const(i) for i in range(n.arg.extent))
                return expr.make(X.VECTOR, lanes, None, INDEX, len(lanes))
            return self.variables[n.arg]
        if n.op is X.LOAD:
            return self.load(n)
        if n.op is X.REDUCE:
            return self.reduce(n)
        if n.op is X.SCAN:
            return self.scan(n)
        if n.op in (X.MMA, X.LANE):
            return expr.rebuild(n, tuple(self.value(s) for s in n.src))
        if n.op in (Op.IDIV, Op.MOD) and n.dtype == INDEX:
            low, _ = bounds(n.src[0])
            if low is not None and low >= 0 and n.src[1].op is Op.CONST and n.src[1].arg > 0:
                return self.apply(n, "nonneg")
        return self.apply(n, n.arg)

    def apply(self, n: Expr, arg: object) -> Expr:
        """An elementwise node on its operands' values; a scalar among vectors is broadcast."""
        src = [self.value(s) for s in n.src]
        lanes = max((s.lanes for s in src), default=1)
        uniform = (
            1 if n.op is Op.WHERE and src[0].lanes == 1 else 0
        )  # one condition for all lanes stays scalar
        src = src[:uniform] + [broadcast(s, lanes) for s in src[uniform:]]
        return expr.make(n.op, tuple(src), arg, n.dtype, lanes)

    def load(self, n: Expr) -> Expr:
        index, valid = n.src[0], n.src[1] if len(n.src) > 1 else None
        lanes = (index.free | (valid.free if valid is not None else frozenset())) & self.vectors
        if not lanes:
            return expr.make(X.LOAD, tuple(self.value(s) for s in n.src), n.arg, n.dtype, n.lanes)
        (v,) = lanes
        step = coefficient(index, v)
        if step is None or (step != 1 and valid is not None):
            return expr.make(X.VECTOR, tuple(map(self.value, each_lane(n, v))), None, n.dtype, v.extent)
        start = self.value(without(index, v))
        if step != 1:
            places = [alu(Op.ADD, start, const(i * step)) for i in range(v.extent)]
            parts = tuple(expr.make(X.LOAD, (place,), n.arg, n.dtype) for place in places)
            return expr.make(X.VECTOR, parts, None, n.dtype, v.extent)
        if valid is None or v not in valid.free:
            src = (start,) if valid is None else (start, self.value(valid))
            return expr.make(X.LOAD, src, n.arg, n.dtype, v.extent)
        whole = expr.make(X.LOAD, (start,), n.arg, n.dtype, v.extent)
        lanewise = expr.make(X.VECTOR, tuple(map(self.scalar_load, each_lane(n, v))), None, n.dtype, v.extent)
        if not _is_interval(valid, v):
            return lanewise
        ends = each_lane(valid, v)
        return expr.make(
            Op.WHERE,
            (alu(Op.AND, self.value(ends[0]), self.value(ends[-1])), whole, lanewise),
            None,
            n.dtype,
            v.extent,
        )

    def scalar_load(self, n: Expr) -> Expr:
        """A load of one element, kept inside the expression so that only the branch that needs it reads."""
        if n.op is not X.LOAD:
            return self.value(n)
        return expr.make(X.LOAD, tuple(self.value(s) for s in n.src), n.arg, n.dtype, 1)

    def lanes_of(self, e: Expr) -> int:
        return max((r.extent for r in e.free & self.vectors), default=1)

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
            name, lanes = self.name("acc"), max(m.lanes, self.lanes_of(m))
            start = broadcast(identity_of(m.arg[0], m.dtype), lanes)
            self.emit(loop.Alloc(name, m.dtype, 1, "register", lanes))
            self.emit(loop.Store(name, const(0), start))
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
                total = accumulators[m]
                step = broadcast(self.product(body), total.lanes)
                self.emit(loop.Store(total.arg, const(0), step, m.arg[0]))
        for _ in loops:
            self.close()
        scope.values.update(accumulators)
        return accumulators[n]

    def product(self, body: Expr) -> Expr:
        """The value of ``body``; a product stays in the statement that adds it, to become a fused one."""
        if body.op is X.MMA:
            return expr.rebuild(body, tuple(self.value(s) for s in body.src))
        if body.op is not Op.MUL or not body.dtype.is_float or self.found(body) is not None:
            return self.value(body)
        lanes = self.lanes_of(body)
        factors = tuple(broadcast(self.value(s), lanes) for s in body.src)
        return expr.make(Op.MUL, factors, None, body.dtype, lanes)

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
            name = self.name("acc")
            outside.append(loop.Alloc(name, n.dtype, 1, "register", lanes))
            outside.append(loop.Store(name, const(0), broadcast(identity_of(n.arg[0], n.dtype), lanes)))
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
            self.scopes.append(_Scope(self.scopes[-1].opened, None))
            self.guarded = True
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
            self.guarded = False
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


_OPAQUE = frozenset({X.REDUCE, X.SCAN, X.LOAD, X.RANGE, Op.CONST, X.VAR})


def each_lane(n: Expr, v: Range) -> list[Expr]:
    """``n`` at every value of a vector range."""
    return [simplify(substitute([n], {range_(v): const(i)})[0]) for i in range(v.extent)]


def _is_interval(valid: Expr, v: Range) -> bool:
    """Whether the lanes where ``valid`` holds are neighbours: then both ends decide for all."""
    if v not in valid.free:
        return True
    if valid.op is Op.AND:
        return all(_is_interval(s, v) for s in valid.src)
    return valid.op is Op.CMPLT and all(coefficient(s, v) is not None for s in valid.src)


def broadcast(e: Expr, lanes: int) -> Expr:
    """``e`` in every lane of a vector."""
    return e if e.lanes == lanes else expr.make(X.BROADCAST, (e,), None, e.dtype, lanes)


def loopify(k: Kernel) -> loop.Function:
    """The loop tree of ``k``, following its order of ranges, marks and stages."""
    return _Loopify(k).run()
