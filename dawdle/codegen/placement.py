"""Where expressions stand: scopes for the loops under construction, and the values bound in each.

An expression goes to the outermost loop on which its free ranges allow it to stand. A vector range has no
loop: it is the lanes of a register.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter

from dawdle.codegen import expr, loop
from dawdle.codegen.algebra import add, bounds, coefficient, mul, simplify, without
from dawdle.codegen.expr import INDEX, Expr, Range, X, alu, const, range_, substitute, walk
from dawdle.codegen.kernel import Kernel, StageBuffer
from dawdle.dtype import DType
from dawdle.lazy.ops import Op

IDS = ("group", "local")
MAX_NESTING = 12  # operators in one C expression: compilers limit the depth of brackets
THREAD, THREADS = expr.var("thread"), expr.var("threads")
GROUP, LOCAL = expr.var("group_id"), expr.var("local_id")


class Scope:
    """The body of a loop under construction, or of a condition (``guard``) in a loop's body."""

    def __init__(self, opened: frozenset[Range], innermost: Range | None, guard: bool = False) -> None:
        self.opened = opened
        self.innermost = innermost
        self.guard = guard
        self.body: list[loop.Stmt] = []
        self.values: dict[Expr, Expr] = {}


class Placement(ABC):
    """Binds the expressions of a kernel in the scopes of its loops. What a reduction or a scan becomes is
    left open.
    """

    def __init__(self, k: Kernel) -> None:
        self.k = k
        self.vectors = frozenset(r for r, how in k.marks.items() if how == "vector")
        self.unrolled = frozenset(r for r, how in k.marks.items() if how == "unroll")
        self.ids = {r: {"group": GROUP, "local": LOCAL}[how] for r, how in k.marks.items() if how in IDS}
        self.local = max((r.extent for r, v in self.ids.items() if v is LOCAL), default=0)
        self.groups = max((r.extent for r, v in self.ids.items() if v is GROUP), default=0)
        self.at = {s.name: self._around(s) for s in k.stages}
        self.counter: Counter[str] = Counter()
        self.variables: dict[Range, Expr] = {}
        self.scopes = [Scope(frozenset(), None)]
        self.registers: set[str] = set()
        self.depends: dict[Expr, frozenset[Range]] = {}
        self.uses: Counter[Expr] = Counter()
        self.nesting: dict[Expr, int] = {}

    @abstractmethod
    def reduce(self, n: Expr) -> Expr:
        """Emit a REDUCE in the innermost scope, and give its value."""

    @abstractmethod
    def scan(self, n: Expr) -> Expr:
        """Emit a SCAN in the innermost scope, and give its value there."""

    def _around(self, s: StageBuffer) -> frozenset[Range]:
        """The loops that the filling of a buffer stands in."""
        outside = s.value.free.intersection(self.k.ranges).difference(s.dims)
        return outside if s.at is None else outside | {s.at}

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
                if n.op is X.LOAD:
                    out |= self.at.get(n.arg, frozenset())
                known[n] = out - self.vectors
        return known[e]

    def level(self, e: Expr) -> int:
        """Index of the outermost open scope that ``e`` can stand in."""
        needed = self.ranges_of(e)
        for i, scope in enumerate(self.scopes):
            if needed <= scope.opened:
                guarded = i + 1 < len(self.scopes) and self.scopes[i + 1].guard
                return i + 1 if guarded and e.op not in (X.REDUCE, X.SCAN) else i
        missing = needed - self.scopes[-1].opened
        raise AssertionError(f"{e} needs loops over {missing} that are not open")

    def emit(self, s: loop.Stmt) -> None:
        self.scopes[-1].body.append(s)

    def open(self, r: Range) -> None:
        self.variables[r] = self.ids.get(r) or expr.var(self.name(r.name + "_"))
        self.scopes.append(Scope(self.scopes[-1].opened | {r}, r))

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
        if known is None and self.scopes[level].guard:
            known = self.scopes[level - 1].values.get(e)
        return known

    def place(self, n: Expr) -> None:
        """Compute one node whose operands are placed, in the scope it belongs to."""
        level = self.level(n)
        inner = self.scopes[level + 1 :]
        del self.scopes[level + 1 :]
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

    def is_register(self, e: Expr) -> bool:
        return e.op is X.LOAD and e.arg in self.registers

    def register(self, dtype: DType, start: Expr) -> tuple[str, list[loop.Stmt]]:
        """A variable that holds ``start``: its name, and the statements that make it."""
        name = self.name("acc")
        self.registers.add(name)
        made = [loop.Alloc(name, dtype, 1, "register", start.lanes), loop.Store(name, const(0), start)]
        return name, made

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
