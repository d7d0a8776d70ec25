"""The transformations that schedules are made of: each takes a kernel and gives an equivalent one.

A record of what was done is kept in ``Kernel.applied``. Shown before → after in each docstring.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from dawdle.codegen import expr
from dawdle.codegen.algebra import add, and_, idiv, less, minimum, mod, mul, simplify
from dawdle.codegen.expr import INDEX, Expr, Range, X, alu, const, range_, walk
from dawdle.codegen.kernel import Kernel, StageBuffer, Store
from dawdle.dtype import DType, float32
from dawdle.lazy.ops import Op


def identity_of(op: Op, dtype: DType) -> Expr:
    """The value that ``op`` leaves other operands unchanged with."""
    if op is Op.MAX:
        return const(dtype.min, dtype)
    one = op is Op.MUL
    return const(float(one) if dtype.is_float else bool(one) if dtype.is_bool else int(one), dtype)


def _map_exprs(k: Kernel, rule: Callable[[Expr], Expr], note: str) -> Kernel:
    """Rewrite every expression of the kernel by ``rule`` and simplify the indices."""
    roots = [e for s in k.stores for e in s.exprs] + [s.value for s in k.stages]
    done = iter([simplify(e) for e in expr.rewrite(roots, rule)])
    stores = []
    for s in k.stores:
        index, value = next(done), next(done)
        stores.append(replace(s, index=index, value=value, valid=None if s.valid is None else next(done)))
    stages = [replace(s, value=next(done)) for s in k.stages]
    return k.with_(stores=tuple(stores), stages=tuple(stages), applied=(*k.applied, note))


def _replace_range(k: Kernel, r: Range, by: Expr, new: tuple[Range, ...], note: str) -> Kernel:
    """Put ``by``, made of the ranges ``new``, for ``r`` everywhere, also where a reduction binds it."""

    def rule(e: Expr) -> Expr:
        if e.op is X.RANGE and e.arg is r:
            return by
        if e.op is X.REDUCE and r in e.arg[1]:
            op, ranges = e.arg
            at = ranges.index(r)
            return expr.reduce(op, e.src[0], (*ranges[:at], *new, *ranges[at + 1 :]))
        return e

    out = _map_exprs(k, rule, note)
    if r in k.ranges:
        at = k.ranges.index(r)
        out = out.with_(ranges=(*k.ranges[:at], *new, *k.ranges[at + 1 :]))
    return out


TAILS: dict[str, Callable[[Expr, Expr, Range, int], Expr]] = {
    "shift": lambda start, i, r, factor: add(minimum(start, const(r.extent - factor)), i),
    "clamp": lambda start, i, r, factor: minimum(add(start, i), const(r.extent - 1)),
    "guard": lambda start, i, r, factor: add(start, i),
}


def split(
    k: Kernel, r: Range, factor: int, name: str = "", tail: str = "shift"
) -> tuple[Kernel, Range, Range]:
    """``for r`` → ``for outer, for inner`` with ``inner`` running over ``factor`` values.

    ``tail`` says what happens where the extent of an output range isn't a multiple. "shift": the last tile
    starts earlier, and computes some values again. "clamp": what lies beyond the end computes the last value
    again. "guard": nothing is computed there, for stores that must not be repeated. A reduction's range is
    lengthened instead, and its body masked.
    """
    tiles = -(-r.extent // factor)
    outer, inner = Range(f"{name or r.name}o", tiles), Range(f"{name or r.name}i", factor)
    start, i = mul(range_(outer), const(factor)), range_(inner)
    ragged, output = tiles * factor != r.extent, r in k.ranges
    if ragged and output and tail == "shift" and factor > r.extent:
        raise ValueError(f"cannot split {r!r} into tiles of {factor}")
    place = TAILS[tail](start, i, r, factor) if ragged and output else add(start, i)
    k = _replace_range(k, r, place, (outer, inner), f"split {r!r} by {factor}")
    inside = less(add(start, i), const(r.extent))
    if ragged and not output:
        k = _mask_reduction(k, outer, inside)
    elif ragged and tail == "guard":
        k = _mask_loads(_guard_stores(k, inside), outer, inside)
    return k, outer, inner


def _guard_stores(k: Kernel, inside: Expr) -> Kernel:
    """Let the kernel store nothing outside of ``inside``."""
    stores = [replace(s, valid=inside if s.valid is None else and_(inside, s.valid)) for s in k.stores]
    return k.with_(stores=tuple(stores))


def lengthen(k: Kernel, r: Range, extent: int) -> tuple[Kernel, Range]:
    """A reduction over ``r`` → one over ``extent`` points, those beyond the old extent masked."""
    longer = Range(r.name, extent)
    k = _replace_range(k, r, range_(longer), (longer,), f"lengthen {r!r} to {extent}")
    return _mask_reduction(k, longer, less(range_(longer), const(r.extent))), longer


def _masked_load(e: Expr, inside: Expr) -> Expr:
    """A load that gives zero outside of ``inside``."""
    return expr.load(e.arg, e.src[0], e.dtype, inside if len(e.src) == 1 else and_(e.src[1], inside))


def _mask_reduction(k: Kernel, r: Range, inside: Expr) -> Kernel:
    """Make reductions over ``r`` skip the points outside of ``inside``: loads there give zero, the body the
    identity.

    In a sum of products both factors are masked rather than the product, so that each can be staged on its
    own.
    """

    def masked(e: Expr, other: Expr) -> Expr:
        return e if e.op is X.LOAD and len(e.src) > 1 else alu(Op.WHERE, inside, e, other)

    def rule(e: Expr) -> Expr:
        if e.op is X.LOAD and r in e.src[0].free:
            return _masked_load(e, inside)
        if e.op is X.REDUCE and r in e.arg[1]:
            (op, ranges), body, neutral = e.arg, e.src[0], identity_of(e.arg[0], e.dtype)
            if op is Op.ADD and body.op is Op.MUL:
                body = alu(Op.MUL, *(masked(x, neutral) for x in body.src))
            else:
                body = alu(Op.WHERE, inside, body, neutral)
            return expr.reduce(op, body, ranges)
        return e

    return _map_exprs(k, rule, f"mask {r!r}")


def merge(k: Kernel, a: Range, b: Range, name: str = "") -> tuple[Kernel, Range]:
    """``for a, for b`` → ``for ab`` over the product of their extents; ``b`` is the inner one."""
    both = Range(name or f"{a.name}{b.name}", a.extent * b.extent)
    note = f"merge {a!r} {b!r}"
    k = _replace_range(k, a, idiv(range_(both), b.extent), (both,), note)
    ranges = tuple(r for r in k.ranges if r is not b)

    def rule(e: Expr) -> Expr:
        if e.op is X.RANGE and e.arg is b:
            return mod(range_(both), b.extent)
        if e.op is X.REDUCE and b in e.arg[1]:
            return expr.reduce(e.arg[0], e.src[0], [r for r in e.arg[1] if r is not b])
        return e

    stages = tuple(replace(s, at=both) if s.at in (a, b) else s for s in k.stages)
    return _map_exprs(k.with_(ranges=ranges, stages=stages), rule, note).with_(applied=k.applied), both


def reorder(k: Kernel, order: Iterable[Range]) -> Kernel:
    """The output loops in another order."""
    order = tuple(order)
    assert set(order) == set(k.ranges) and len(order) == len(k.ranges)
    return k.with_(ranges=order, applied=(*k.applied, f"reorder {', '.join(r.name for r in order)}"))


def mark(k: Kernel, r: Range, how: str) -> Kernel:
    """Decide how a range runs: "parallel" over threads, "vector" in a register, "unroll" as repeated code; on
    a GPU over groups ("group") or a group's threads ("local").
    """
    return k.with_(marks={**k.marks, r: how}, applied=(*k.applied, f"{how} {r!r}"))


def accumulate(k: Kernel, r: Range, lanes: int, copies: int) -> Kernel:
    """Vectorise a reduction over ``r``, with ``copies`` independent accumulators and a scalar loop for the
    tail.

    ``op_{r} f(r)`` → ``op(op_{v} op(op_{o} f(o,0,v), op_{o} f(o,1,v), ...), op_{t} f(t))``
    """
    step = lanes * copies
    blocks = r.extent // step
    o, v, t = (
        Range(f"{r.name}o", blocks),
        Range(f"{r.name}v", lanes),
        Range(f"{r.name}t", r.extent - blocks * step),
    )

    def rule(e: Expr) -> Expr:
        if e.op is not X.REDUCE or r not in e.arg[1]:
            return e
        op, ranges = e.arg
        outer = [o if x is r else x for x in ranges]
        parts = []
        for c in range(copies):
            place = add(add(mul(range_(o), const(step)), const(c * lanes)), range_(v))
            (body,) = expr.substitute([e.src[0]], {range_(r): place})
            parts.append(expr.reduce(op, body, outer))
        while len(parts) > 1:
            parts = [
                alu(op, *parts[i : i + 2]) if i + 1 < len(parts) else parts[i]
                for i in range(0, len(parts), 2)
            ]
        result = expr.reduce(op, parts[0], [v])
        if t.extent:
            (tail,) = expr.substitute([e.src[0]], {range_(r): add(range_(t), const(blocks * step))})
            result = alu(op, result, expr.reduce(op, tail, [t if x is r else x for x in ranges]))
        return result

    k = _map_exprs(k, rule, f"accumulate {r!r} in {copies} x {lanes} lanes")
    return k.with_(marks={**k.marks, v: "vector"})


def nest(k: Kernel, r: Range, size: int) -> Kernel:
    """Reduce ``r`` in parts of ``size``, whose results are combined: sums of many terms round less so.

    ``op_{r} f(r)`` → ``op(op_{o} op_{i} f(o*size + i), op_{t} f(t))``
    """
    parts = r.extent // size
    o, i = Range(f"{r.name}o", parts), Range(f"{r.name}i", size)
    t = Range(f"{r.name}t", r.extent - parts * size)
    place = add(mul(range_(o), const(size)), range_(i))

    def rule(e: Expr) -> Expr:
        if e.op is not X.REDUCE or r not in e.arg[1]:
            return e
        op, ranges = e.arg
        (body,) = expr.substitute([e.src[0]], {range_(r): place})
        others = [x for x in ranges if x is not r]
        result = expr.reduce(op, expr.reduce(op, body, [*others, i]), [o])
        if t.extent:
            (rest,) = expr.substitute([e.src[0]], {range_(r): add(range_(t), const(parts * size))})
            result = alu(op, result, expr.reduce(op, rest, [*others, t]))
        return result

    return _map_exprs(k, rule, f"nest {r!r} in parts of {size}")


def group_reduction(k: Kernel, r: Range, threads: int) -> Kernel:
    """Share a reduction over ``r`` among the threads of a group.

    ``op_{r} f(r)`` → ``op_{l} op_{o} f(o*threads + l)``
    """
    turns = -(-r.extent // threads)
    if turns * threads != r.extent:
        k, r = lengthen(k, r, turns * threads)
    o, own = Range(f"{r.name}o", turns), Range(f"{r.name}l", threads)
    place = add(mul(range_(o), const(threads)), range_(own))

    def rule(e: Expr) -> Expr:
        if e.op is not X.REDUCE or r not in e.arg[1]:
            return e
        op, ranges = e.arg
        (body,) = expr.substitute([e.src[0]], {range_(r): place})
        return expr.reduce(op, expr.reduce(op, body, [o if x is r else x for x in ranges]), [own])

    return mark(_map_exprs(k, rule, f"share {r!r} among {threads} threads"), own, "local")


def _mask_loads(k: Kernel, r: Range, inside: Expr) -> Kernel:
    def rule(e: Expr) -> Expr:
        if e.op is not X.LOAD or r not in e.src[0].free:
            return e
        return _masked_load(e, inside)

    return _map_exprs(k, rule, f"mask loads over {r!r}")


def block_reduction(k: Kernel, r: Range, size: int) -> tuple[Kernel, Range, Range]:
    """Run a sum over ``r`` in blocks of ``size``, so that the loop over blocks can stand outside of output
    loops.

    ``sum_{r} f(r)`` → ``scan_{o} sum_{i} f(o, i)``, stored when ``o`` is at its last value.
    """
    k, o, i = split(k, r, size)

    def rule(e: Expr) -> Expr:
        if e.op is X.REDUCE and o in e.arg[1]:
            op, ranges = e.arg
            return expr.scan(op, expr.reduce(op, e.src[0], [x for x in ranges if x is not o]), o)
        return e

    k = _map_exprs(k, rule, f"block {r!r} by {size}")
    last = alu(Op.CMPEQ, range_(o), const(o.extent - 1))
    return _guard_stores(k, last).with_(ranges=(o, *k.ranges)), o, i


def stage(
    k: Kernel, name: str, value: Expr, at: Range | None, dims: tuple[Range, ...], together: bool = False
) -> Kernel:
    """Copy the tile of ``value`` that ``dims`` span into a buffer in their order, once for each iteration of
    ``at``. With ``together`` the threads of a group fill it, over ranges of its own.
    """
    index = const(0)
    for d in dims:
        index = add(mul(index, const(d.extent)), range_(d))
    if together and at is not None:
        tile = math.prod(d.extent for d in dims)
        index = add(mul(mod(range_(at), 2), const(tile)), index)
    staged = expr.load(name, index, value.dtype)
    kept = dims
    if together:
        kept = tuple(Range(f"{name}_{d.name}", d.extent) for d in dims)
        (value_kept,) = expr.substitute([value], dict(zip(map(range_, dims), map(range_, kept), strict=True)))
    double = together and at is not None
    buffer = StageBuffer(name, value_kept if together else value, at, kept, double=double)

    def substituted(s: Store) -> Store:
        return replace(s, value=expr.substitute([s.value], {value: staged})[0])

    note = f"stage {name}[{', '.join(map(repr, dims))}] at {at!r}"
    return k.with_(
        stores=tuple(map(substituted, k.stores)), stages=(*k.stages, buffer), applied=(*k.applied, note)
    )


def stage_row(k: Kernel, name: str, uses: dict[Expr, Range], at: Range | None, lanes: int) -> Kernel:
    """Compute a value once along a row and keep it, where it is used over several ranges of the same extent.

    ``uses`` are the forms the value takes and the range each runs over.
    """
    (value, along), *_ = uses.items()
    s = Range(f"{along.name}s", along.extent)
    (kept,) = expr.substitute([value], {range_(along): range_(s)})
    loads = {use: expr.load(name, range_(r), use.dtype) for use, r in uses.items()}
    roots = [x.value for x in k.stores]
    values = iter(expr.substitute(roots, loads))
    stores = tuple(replace(x, value=next(values)) for x in k.stores)
    buffer = StageBuffer(name, kept, at, (s,), lanes)
    note = f"stage {name}[{s!r}] at {at!r}"
    return k.with_(stores=stores, stages=(*k.stages, buffer), applied=(*k.applied, note))


@dataclass(frozen=True)
class Fragment:
    """The ranges over which a warp's tile of 16 x 8 outputs is spread: see :func:`tensor_core`."""

    ui: Range  # 2: the upper or lower half of the rows
    g: Range  # 8: a row of that half, and a column of the right factor
    t: Range  # 4: a pair of columns, and a pair of the sum's terms
    vi: Range  # 2: a column of the pair
    k: Range  # 16, or 8 of 32 bits: the sum's terms


def tensor_core(k: Kernel, f: Fragment, left: Expr, right: Expr) -> Kernel:
    """Let warps compute 16 x 8 outputs at a time from factors, loads ``left`` and ``right`` of which are at
    hand in shared memory: 16-bit floats, or float32 rounded to TF32 (PTX ISA, mma.m16n8k16 and m16n8k8).

    ``sum_{o, k} left * right`` → ``lane(sum_{o} mma(left's registers, right's registers), 2*ui + vi)``
    """

    width = 32 // left.dtype.bits  # terms in a register

    def register(load: Expr, half: int, at: dict[Expr, Expr]) -> Expr:
        first = add(const(f.k.extent // 2 * half), mul(range_(f.t), const(width)))
        (one,) = expr.substitute([load], at | {range_(f.k): first})
        return expr.make(X.LOAD, (simplify(one.src[0]),), one.arg, one.dtype, width)

    registers = [register(left, j, {range_(f.ui): const(i)}) for j in (0, 1) for i in (0, 1)]
    column = {range_(f.t): const(0), range_(f.vi): range_(f.g)}
    (turned,) = expr.substitute([right], column)
    registers += [register(turned, j, {}) for j in (0, 1)]
    product = expr.make(X.MMA, tuple(registers), left.dtype, float32, 4)
    lane = add(mul(range_(f.ui), const(2)), range_(f.vi))

    def rule(e: Expr) -> Expr:
        if e.op is not X.REDUCE or f.k not in e.arg[1]:
            return e
        total = expr.reduce(Op.ADD, product, [r for r in e.arg[1] if r is not f.k])
        return expr.make(X.LANE, (total, lane), None, float32)

    return _map_exprs(k, rule, f"tensor cores over {f.k!r}")


def has_division_by(k: Kernel, r: Range) -> bool:
    """Whether some index still divides ``r``: a merge that leaves none was free."""
    return any(
        e.op in (Op.IDIV, Op.MOD) and e.dtype == INDEX and r in e.free
        for e in walk([e for s in k.stores for e in s.exprs])
    )
