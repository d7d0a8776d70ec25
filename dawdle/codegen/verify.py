"""Checks that a kernel or a loop tree is well formed. What makes them raise VerifyError is dawdle's bug."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dawdle.codegen import kernel, loop
from dawdle.codegen.algebra import FALSE, bounds, facts, simplify
from dawdle.codegen.expr import INDEX, Expr, Range, X, walk
from dawdle.dtype import DType, bool_
from dawdle.errors import VerifyError
from dawdle.lazy.ops import ARITHMETIC, BITWISE, COMPARE, ELEMENTWISE, SHIFT, Op

MARKS = frozenset({"parallel", "vector", "unroll", "group", "local"})
SPACES = frozenset({"register", "scratch", "shared"})
COMBINING = frozenset({Op.ADD, Op.MUL, Op.MAX})


def _require(condition: bool, text: str, *values: object) -> None:
    """Unless ``condition``, raise ``text`` with ``values`` in its braces; only then are they made text."""
    if not condition:
        raise VerifyError(text.format(*(brief(v) if isinstance(v, Expr) else v for v in values)))


def brief(e: Expr) -> str:
    """``e`` as text, or only its op where that would be long: shared operands are written out at each use."""
    size: dict[Expr, int] = {}
    for n in walk([e]):
        size[n] = 1 + sum(size[s] for s in n.src)
    return str(e) if size[e] < 100 else f"<{e.op!r} {e.dtype.name} of {len(size)} nodes>"


# ---- expressions ----


def _unary(n: Expr) -> bool:
    return len(n.src) == 1 and n.src[0].dtype == n.dtype


def _binary(n: Expr) -> bool:
    return len(n.src) == 2 and n.src[0].dtype == n.src[1].dtype == n.dtype


def _fused(n: Expr) -> bool:
    return len(n.src) == 3 and all(s.dtype == n.dtype for s in n.src) and n.dtype.is_float


def _compare(n: Expr) -> bool:
    return len(n.src) == 2 and n.src[0].dtype == n.src[1].dtype and n.dtype == bool_


def _where(n: Expr) -> bool:
    return len(n.src) == 3 and n.src[0].dtype == bool_ and n.src[1].dtype == n.src[2].dtype == n.dtype


def _load(n: Expr) -> bool:
    return len(n.src) in (1, 2) and n.src[0].dtype == INDEX and all(s.dtype == bool_ for s in n.src[1:])


def _fold(n: Expr) -> bool:
    return _unary(n) and n.arg in COMBINING and n.lanes == 1 and n.src[0].lanes > 1


DTYPES: dict[Op | X, Callable[[Expr], bool]] = {
    **dict.fromkeys((Op.NEG, Op.RECIP, Op.SQRT, Op.EXP2, Op.LOG2, Op.SIN, Op.TRUNC), _unary),
    **dict.fromkeys(ARITHMETIC | BITWISE | SHIFT | {X.MIN}, _binary),
    **dict.fromkeys(COMPARE, _compare),
    Op.WHERE: _where,
    Op.FMA: _fused,
    Op.CAST: lambda n: len(n.src) == 1,
    Op.BITCAST: lambda n: len(n.src) == 1 and n.src[0].dtype.bits == n.dtype.bits,
    Op.CONST: lambda n: not n.src,
    X.RANGE: lambda n: n.dtype == INDEX,
    X.VAR: lambda n: not n.src,
    X.LOAD: _load,
    X.REDUCE: lambda n: _unary(n) and n.arg[0] in COMBINING,
    X.SCAN: lambda n: _unary(n) and n.arg[0] in COMBINING,
    X.BROADCAST: lambda n: _unary(n) and n.src[0].lanes == 1 and n.lanes > 1,
    X.VECTOR: lambda n: len(n.src) == n.lanes and all(s.lanes == 1 and s.dtype == n.dtype for s in n.src),
    X.FOLD: _fold,
    X.MMA: lambda n: len(n.src) == 6 and n.lanes == 4 and all(s.lanes * s.dtype.bits == 32 for s in n.src),
    X.LANE: lambda n: len(n.src) == 2 and n.src[0].dtype == n.dtype and n.src[1].dtype == INDEX,
    X.GROUPFOLD: lambda n: _unary(n) and n.arg[0] in COMBINING and n.lanes == n.src[0].lanes == 1,
}


def _check_node(n: Expr) -> None:
    operands = ", ".join(f"{s.dtype.name}x{s.lanes}" for s in n.src)
    _require(n.op in DTYPES, "{}: {!r} is no op of expressions", n, n.op)
    _require(
        DTYPES[n.op](n),
        "{}: {!r} to {}x{} doesn't take operands ({})",
        n,
        n.op,
        n.dtype.name,
        n.lanes,
        operands,
    )
    if n.op in ELEMENTWISE or n.op is X.MIN:
        uniform = 1 if n.op is Op.WHERE and n.src[0].lanes == 1 else 0
        _require(all(s.lanes == n.lanes for s in n.src[uniform:]), "{}: lanes disagree: ({})", n, operands)


# ---- kernels ----


def verify_kernel(k: kernel.Kernel) -> None:
    """Raise VerifyError unless ranges are bound, dtypes agree, buffers exist and are accessed in bounds."""
    names = [p.name for p in k.params] + [s.name for s in k.stages]
    _require(len(set(names)) == len(names), "kernel {}: names are used twice in {}", k.name, names)
    _require(len(set(k.ranges)) == len(k.ranges), "kernel {}: a range appears twice in {}", k.name, k.ranges)
    for r, how in k.marks.items():
        _require(how in MARKS, "kernel {}: {!r} is marked {!r}; known are {}", k.name, r, how, sorted(MARKS))
    slots = {p.name: (p.dtype, p.size) for p in k.params}
    for stage in k.stages:
        size = 1
        for r in stage.dims:
            size *= r.extent
        slots[stage.name] = (stage.value.dtype, size * 2 if stage.double else size)
    for stage in k.stages:
        _check_values([stage.value], slots)
        unbound = stage.value.free - frozenset((*stage.dims, *k.ranges)) - _bound_in(k)
        _require(not unbound, "stage {}: {} are bound by no loop", stage.name, unbound)
    for how in ("vector", "local"):
        lanes = frozenset(r for r, mark in k.marks.items() if mark == how)
        for n in k.exprs():
            _require(len(n.free & lanes) <= 1, "{}: {} can't be both lanes", n, set(n.free & lanes))
    params = {p.name: p for p in k.params}
    for s in k.stores:
        _check_store(s, params, frozenset(k.ranges))
        _check_values(s.exprs, slots)


def _bound_in(k: kernel.Kernel) -> frozenset[Range]:
    """The ranges that reductions bind."""
    return frozenset(r for n in k.exprs() if n.op is X.REDUCE for r in n.arg[1])


def _check_store(s: kernel.Store, params: dict[str, kernel.Param], ranges: frozenset[Range]) -> None:
    _require(s.param in params, "store to {}, which is no parameter", s.param)
    p = params[s.param]
    _require(p.written, "store to {}, which is an input", p.name)
    _require(
        s.value.dtype == p.dtype,
        "store of {} to {}, which holds {}",
        s.value.dtype.name,
        p.name,
        p.dtype.name,
    )
    _require(s.index.dtype == INDEX, "store to {}: the index is {}", p.name, s.index.dtype.name)
    _require(s.how is None or s.how in COMBINING, "store to {}: cannot combine with {!r}", p.name, s.how)
    _require(s.valid is None or s.valid.dtype == bool_, "store to {}: its condition isn't a bool", p.name)
    for e in s.exprs:
        _require(e.free <= ranges, "store to {}: {} are bound by no loop", p.name, set(e.free - ranges))
    _check_access(s.param, s.index, s.valid, p.size)


def _check_values(roots: Iterable[Expr], slots: dict[str, tuple[DType, int]]) -> None:
    for n in walk(roots):
        _check_node(n)
        _require(n.lanes == 1, "{}: a kernel's expressions are scalar", n)
        _require(n.op is not X.VAR, "{}: a variable of the loop tree stands in a kernel", n)
        if n.op is X.LOAD:
            _require(n.arg in slots, "{}: no buffer is called {}", n, n.arg)
            dtype, size = slots[n.arg]
            _require(n.dtype == dtype, "{}: {} holds {}, not {}", n, n.arg, dtype.name, n.dtype.name)
            _check_access(n, n.src[0], n.src[1] if len(n.src) > 1 else None, size)


def _check_access(what: Expr | str, index: Expr, valid: Expr | None, size: int) -> None:
    """Reject an index that provably leaves [0, size): somewhere if it is affine, else everywhere."""
    if any(r.extent == 0 for r in index.free) or valid is FALSE:
        return
    index = simplify(index)
    lo, hi = bounds(index, facts(valid) if valid is not None else None)
    never = (hi is not None and hi < 0) or (lo is not None and lo >= size)
    inside = lo is not None and hi is not None and lo >= 0 and hi < size
    exact = valid is None and all(n.op in (Op.ADD, Op.MUL, Op.CONST, X.RANGE) for n in walk([index]))
    _require(
        not never and (inside or not exact),
        "{}: index {} runs from {} to {}, of {}",
        what,
        index,
        lo,
        hi,
        size,
    )


# ---- loop trees ----


@dataclass(frozen=True)
class _Array:
    dtype: DType
    space: str
    lanes: int = 1
    size: int | None = None
    written: bool = True


class _Names:
    """What is defined at a point of a loop tree, and every name ever defined."""

    def __init__(self, f: loop.Function) -> None:
        given = ("group_id", "local_id") if f.local else ("thread", "threads")
        self.variables: dict[str, tuple[DType, int]] = dict.fromkeys(given, (INDEX, 1))
        self.arrays = {n: _Array(d, "param", written=written) for n, d, written in f.params}
        self.used = {*self.variables, *self.arrays}
        _require(len(self.arrays) == len(f.params), "function {}: parameters share a name", f.name)

    def define(self, name: str) -> None:
        _require(name not in self.used, "{} is defined twice", name)
        self.used.add(name)

    def check(self, root: Expr) -> None:
        for n in walk([root]):
            _check_node(n)
            _require(
                n.op not in (X.RANGE, X.REDUCE, X.SCAN), "{}: {!r} is left over from the kernel", n, n.op
            )
            if n.op is X.VAR:
                _require(n.arg in self.variables, "{} is used where it isn't defined", n.arg)
                dtype, lanes = self.variables[n.arg]
                same = (n.dtype, n.lanes) == (dtype, lanes)
                _require(same, "{} is {}x{}, used as {}x{}", n.arg, dtype.name, lanes, n.dtype.name, n.lanes)
            elif n.op is X.LOAD:
                self.access(n.arg, n.src[0], n.dtype, n.lanes)
            elif n.op is X.GROUPFOLD:
                array = self.arrays.get(n.arg[1])
                _require(n is root, "{} must be bound by itself: all threads meet there", n)
                _require(array is not None and array.space == "shared", "{} needs a shared array", n)

    def access(self, name: str, index: Expr, dtype: DType, lanes: int) -> None:
        _require(name in self.arrays, "{} is accessed where it isn't defined", name)
        a = self.arrays[name]
        _require(dtype == a.dtype, "{} holds {}, accessed as {}", name, a.dtype.name, dtype.name)
        fixed = index.op is Op.CONST
        _require(
            (index.dtype, index.lanes) == (INDEX, 1), "{}[{}]: an index is one {}", name, index, INDEX.name
        )
        _require(
            lanes == a.lanes or a.lanes == 1, "{} holds vectors of {}, accessed by {}", name, a.lanes, lanes
        )
        _require(a.space != "register" or fixed, "{}[{}]: registers need constant indices", name, index)
        if fixed and a.size is not None:
            inside = index.arg >= 0 and index.arg + (lanes if a.lanes == 1 else 1) <= a.size
            _require(inside, "{}[{}] is outside of its {} elements", name, index, a.size)


def verify_loops(f: loop.Function) -> None:
    """Raise VerifyError unless names are defined once and before use, and dtypes and lanes agree."""
    _check_body(f.body, _Names(f))


def _check_body(body: tuple[loop.Stmt, ...], names: _Names) -> None:
    """Check statements; what they define is forgotten at their end."""
    variables, arrays = dict(names.variables), dict(names.arrays)
    for s in body:
        STATEMENTS[type(s)](s, names)
    names.variables, names.arrays = variables, arrays


def _check_for(s: loop.For, names: _Names) -> None:
    for e in (s.start, s.stop):
        names.check(e)
        _require((e.dtype, e.lanes) == (INDEX, 1), "loop {}: its limit {} is no scalar index", s.var, e)
    _require(s.step > 0, "loop {} steps by {}", s.var, s.step)
    names.define(s.var)
    names.variables[s.var] = (INDEX, 1)
    _check_body(s.body, names)
    del names.variables[s.var]


def _check_if(s: loop.If, names: _Names) -> None:
    names.check(s.condition)
    _require((s.condition.dtype, s.condition.lanes) == (bool_, 1), "if {}: no scalar bool", s.condition)
    _check_body(s.body, names)


def _check_let(s: loop.Let, names: _Names) -> None:
    names.check(s.value)
    names.define(s.name)
    names.variables[s.name] = (s.value.dtype, s.value.lanes)


def _check_alloc(s: loop.Alloc, names: _Names) -> None:
    _require(s.space in SPACES, "alloc {}: space {!r} is unknown", s.name, s.space)
    _require(s.size > 0 and s.lanes > 0, "alloc {}: {} elements of {} lanes", s.name, s.size, s.lanes)
    names.define(s.name)
    names.arrays[s.name] = _Array(s.dtype, s.space, s.lanes, s.size)


def _check_stored(s: loop.Store, names: _Names) -> None:
    names.check(s.index)
    names.check(s.value)
    names.access(s.target, s.index, s.value.dtype, s.value.lanes)
    _require(names.arrays[s.target].written, "store to {}, which is an input", s.target)
    _require(s.how is None or s.how in COMBINING, "store to {}: cannot combine with {!r}", s.target, s.how)


def _check_barrier(s: loop.Barrier, names: _Names) -> None:
    """Nothing to check."""


STATEMENTS: dict[type[loop.Stmt], Callable[..., None]] = {
    loop.For: _check_for,
    loop.If: _check_if,
    loop.Let: _check_let,
    loop.Alloc: _check_alloc,
    loop.Store: _check_stored,
    loop.Barrier: _check_barrier,
}
