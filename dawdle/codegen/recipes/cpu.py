"""Schedules for CPUs: which transformations a kernel gets. Contractions have a recipe of their own
(contraction.py).
"""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass

from dawdle.codegen import expr
from dawdle.codegen.algebra import coefficient, terms_of
from dawdle.codegen.expr import INDEX, Expr, Range, X, range_
from dawdle.codegen.kernel import Kernel
from dawdle.codegen.recipes.contraction import contract, find_contraction
from dawdle.codegen.target import Target
from dawdle.codegen.transform import accumulate, has_division_by, mark, merge, nest, reorder, split, stage_row
from dawdle.lazy.ops import Op

PARALLEL_WORK = 1 << 15  # element operations below which waking another thread costs more than it gains
ACCUMULATORS = 16  # vectors that a loop with inner reductions keeps, so that it reads long runs of each row
STAGE_COST = 8  # operations for each element from which keeping a value beats computing it twice
TRANSPOSE = 8  # rows handled together where a load runs down the columns, so that cache lines are used whole
LONG_SUM = 512  # terms from which a sum is taken in parts
TASKS = 4  # iterations of the parallel loop that each thread should have


def schedule(k: Kernel, target: Target) -> Kernel:
    """The kernel with all decisions taken."""
    k = collapse(k)
    found = find_contraction(k, target)
    return contract(*found, target) if found else _generic(k, target)


def collapse(k: Kernel) -> Kernel:
    """Merge neighbouring ranges that every index walks through without a gap."""
    k = _collapse_outputs(k)
    for ranges in dict.fromkeys(e.arg[1] for e in k.exprs() if e.op is X.REDUCE):
        k = _collapse_reduction(k, ranges)
    return k


def _collapse_outputs(k: Kernel) -> Kernel:
    scanned = {e.arg[1] for e in k.exprs() if e.op is X.SCAN}
    i = len(k.ranges) - 2
    while i >= 0:
        a, b = k.ranges[i], k.ranges[i + 1]
        together = all(
            (a in s.index.free) == (b in s.index.free) and (s.valid is None or not {a, b} & s.valid.free)
            for s in k.stores
        )
        if together and not {a, b} & scanned:
            k = _merged(k, a, b)[0]
        i -= 1
    return k


def _merged(k: Kernel, a: Range, b: Range) -> tuple[Kernel, Range | None]:
    """``k`` with the two merged if no index divides the new range, and that; else ``k`` itself and None."""
    # where a load is valid for one iteration only, its index can be divided and yet go through without a gap
    loads = [e for e in k.exprs() if e.op is X.LOAD]
    plain = {e.src[0] for e in loads if not any({a, b} & valid.free for valid in e.src[1:])}
    if any(_jumps_between(index, a, b) for index in plain | {s.index for s in k.stores}):
        return k, None
    merged, ab = merge(k, a, b)
    return (k, None) if has_division_by(merged, ab) else (merged, ab)


def _jumps_between(index: Expr, a: Range, b: Range) -> bool:
    """Whether a step of ``a`` is another than one step of ``b`` from its last iteration on: then dividing
    the merged range remains. False also where it isn't plain to see.
    """
    terms, _ = terms_of(index)
    outer, inner = terms.pop(range_(a), 0), terms.pop(range_(b), 0)
    hidden = any(a in atom.free or b in atom.free for atom in terms)
    return not hidden and min(a.extent, b.extent) > 1 and outer != inner * b.extent


def _collapse_reduction(k: Kernel, ranges: tuple[Range, ...]) -> Kernel:
    """Merge neighbours within ``ranges``, which no other reduction may bind apart from each other."""
    others = [e.arg[1] for e in k.exprs() if e.op is X.REDUCE and e.arg[1] != ranges]
    left = list(ranges)
    i = len(left) - 2
    while i >= 0:
        a, b = left[i], left[i + 1]
        if not any(a in o or b in o for o in others):
            k, ab = _merged(k, a, b)
            if ab is not None:
                left[i : i + 2] = [ab]
        i -= 1
    return k


@dataclass(frozen=True)
class _Gain:
    """How well loads suit a vector over some range: points where they step by 1, less where they jump."""

    smooth: int
    rough: int

    @property
    def score(self) -> int:
        return self.smooth - self.rough


def _gain(loads: list[Expr], r: Range) -> _Gain:
    smooth = rough = 0
    for e in loads:
        if r in e.src[0].free:
            points = math.prod(x.extent for x in e.free)
            if coefficient(e.src[0], r) == 1 and (len(e.src) == 1 or r not in e.src[1].free):
                smooth += points
            else:
                rough += points
    return _Gain(smooth, rough)


def lane_size(k: Kernel) -> int:
    """Bytes of the element that vectors of this kernel are sized for."""
    dtypes = {e.dtype for e in k.exprs() if e.op is X.LOAD} | {s.value.dtype for s in k.stores}
    floats = [d.itemsize for d in dtypes if d.is_float]
    return max(4, max(floats) if floats else max((d.itemsize for d in dtypes), default=4))


def _generic(k: Kernel, target: Target) -> Kernel:
    lanes = target.lanes(lane_size(k))
    tail = sequential(k)
    k = stage_rows(k, lanes, target.l2 // 2)
    loads = [e for e in k.exprs() if e.op is X.LOAD]
    reduces = [e for e in k.exprs() if e.op is X.REDUCE]
    last = vector_range(k, lanes, tail)
    inner = [e for e in reduces if last in e.free]
    if last is not None and inner:
        long = [r for e in inner for r in e.arg[1] if r.extent >= lanes]
        if any(_gain(loads, r).score > _gain(loads, last).score for r in long):
            last, inner = None, []
    taken = {s.dims[-1] for s in k.stages if s.lanes > 1} | ({last} if last else set())
    for ranges in dict.fromkeys(e.arg[1] for e in reduces if e not in inner):
        if not any(e.arg[1] == ranges for e in inner):
            k = _vector_reduction(k, ranges, loads, lanes, taken)
    order = [r for r in k.ranges if r not in tail and r is not last]
    if last is None:
        return _parallel(reorder(k, [*order, *tail]), len(order))
    k = _nest_sums(k, inner)
    vectors = last.extent // lanes
    tiles = (
        max(1, min(ACCUMULATORS // len(inner), vectors // (2 * target.threads))) if inner and not tail else 1
    )
    k, outer, tile = split(k, last, lanes * tiles)
    k, unrolled, vector = split(k, tile, lanes, last.name + "u")
    k = mark(mark(k, unrolled, "unroll"), vector, "vector")
    alone = not (inner or tail or k.stages)  # rows that are kept are kept one at a time
    across = [r for r in order if alone and r.extent >= TRANSPOSE and _jumps(loads, last, r)]
    if across:
        k, rows, row = split(k, across[-1], TRANSPOSE)
        k = mark(k, row, "unroll")
        order[order.index(across[-1])] = rows
        unrolled_all = [row, unrolled]
    else:
        unrolled_all = [unrolled]
    return _parallel(reorder(k, [*order, outer, *tail, *unrolled_all, vector]), len(order) + 1)


def _jumps(loads: list[Expr], vector: Range, r: Range) -> bool:
    """Whether some load jumps along ``vector`` but runs smoothly along ``r``: a transposition."""
    return any(
        coefficient(e.src[0], r) == 1 and coefficient(e.src[0], vector) not in (0, 1)
        for e in loads
        if {r, vector} <= e.src[0].free
    )


def stage_rows(k: Kernel, lanes: int, room: int) -> Kernel:
    """Keep dear values that a reduction along a row and the row's output both need, such as softmax's
    exponentials.
    """
    if not k.ranges:
        return k
    column = k.ranges[-1]
    at = k.ranges[-2] if len(k.ranges) > 1 else None
    for body, r in _row_reductions(k, column):
        for value in reversed(expr.walk([body])):
            (image,) = expr.substitute([value], {range_(r): range_(column)})
            size = value.dtype.itemsize * r.extent
            if (
                r not in value.free
                or size > room
                or _row_cost(value, r) < STAGE_COST
                or image not in k.exprs()
            ):
                continue
            uses = {image: column}
            for other in {x for _, x in _row_reductions(k, column)}:
                uses |= {expr.substitute([image], {range_(column): range_(other)})[0]: other}
            width = lanes if r.extent >= lanes else 1
            k = stage_row(k, f"row{len(k.stages)}", uses, at, width)
            return stage_rows(k, lanes, room - size)
    return k


def _row_reductions(k: Kernel, column: Range) -> list[tuple[Expr, Range]]:
    """Bodies of reductions that run along as many elements as ``column`` has, outside of its loop."""
    return [
        (e.src[0], e.arg[1][0])
        for e in k.exprs()
        if e.op is X.REDUCE
        and len(e.arg[1]) == 1
        and e.arg[1][0].extent == column.extent
        and column not in e.free
    ]


def _row_cost(value: Expr, r: Range) -> int:
    """Operations that ``value`` repeats for each element of the row."""
    return sum(
        1 for e in expr.walk([value]) if e.src and e.op is not X.LOAD and e.dtype != INDEX and r in e.free
    )


def sequential(k: Kernel) -> list[Range]:
    """Ranges whose iterations must run in order: scans, and the axis that a scatter writes along."""
    scanned = {e.arg[1] for e in k.exprs() if e.op is X.SCAN}
    if any(s.valid is not None for s in k.stores):
        scanned |= {r for r in k.ranges if not all(r in s.index.free for s in k.stores)}
    return [r for r in k.ranges if r in scanned]


def vector_range(k: Kernel, lanes: int, sequential: list[Range]) -> Range | None:
    """The output range whose neighbours lie side by side in memory in every store, if it is long enough."""
    for r in reversed(k.ranges):
        steps = {coefficient(s.index, r) for s in k.stores if r in s.index.free}
        masked = any(s.valid is not None and r in s.valid.free for s in k.stores)
        used = all(r in s.index.free for s in k.stores if r in s.value.free)
        once = any(s.how for s in k.stores)  # a sum must not be repeated, so tiles may not overlap
        fits = r.extent % lanes == 0 if once else r.extent >= lanes
        if steps == {1} and used and not masked and fits and r not in sequential:
            return r
    return None


def _nest_sums(k: Kernel, sums: list[Expr]) -> Kernel:
    """Take long sums in parts of about as many terms as there are parts. Where lanes are columns, each has
    one accumulator, and its rounding errors grow with the number of terms.
    """
    for ranges in dict.fromkeys(e.arg[1] for e in sums if e.arg[0] is Op.ADD and e.dtype.is_float):
        longest = max(ranges, key=lambda r: r.extent)
        if longest.extent >= LONG_SUM:
            k = nest(k, longest, 1 << (longest.extent.bit_length() // 2))
    return k


def meets(k: Kernel, r: Range, others: Set[Range]) -> bool:
    """Whether something varies with ``r`` and with one of ``others``: not both can be the lanes of a vector,
    or the threads of a group.
    """
    return any(r in e.free and not others.isdisjoint(e.free) for e in k.exprs())


def _vector_reduction(
    k: Kernel, ranges: tuple[Range, ...], loads: list[Expr], lanes: int, taken: Set[Range]
) -> Kernel:
    """Vectorise reductions over ``ranges``; those in ``taken`` are going to be lanes too."""
    vectors = taken | {r for r, how in k.marks.items() if how == "vector"}
    ranges = tuple(r for r in ranges if not meets(k, r, vectors))
    if not ranges:
        return k
    best = max(ranges, key=lambda r: (_gain(loads, r).score, r is ranges[-1]))
    gain = _gain(loads, best)
    if gain.score < 0 or best.extent < lanes:
        return k
    copies = next((c for c in (4, 2) if best.extent >= c * lanes * 2), 1)
    return accumulate(k, best, lanes, copies)


def work(k: Kernel) -> int:
    """Element operations of the kernel, roughly."""
    total = 0
    for e in k.exprs():
        if e.op in (X.LOAD, X.REDUCE) or (e.src and e.dtype != INDEX):
            bound = e.arg[1] if e.op is X.REDUCE else ()
            total += math.prod(r.extent for r in {*e.free, *bound})
    return total


def _carries(k: Kernel, outer: Range, inner: Range) -> bool:
    """Whether something is computed once in each iteration of ``outer``, for all of ``inner``."""
    return any(s.at is outer for s in k.stages) or any(
        e.op is X.REDUCE and outer in e.free and inner not in e.free for e in k.exprs()
    )


def _parallel(k: Kernel, shareable: int) -> Kernel:
    """Share the first loops among threads, merged until each thread has several iterations."""
    if work(k) < PARALLEL_WORK or shareable == 0:
        return k
    first = k.ranges[0]
    while shareable > 1 and first.extent < TASKS * 16 and not _carries(k, first, k.ranges[1]):
        k, first = merge(k, first, k.ranges[1])
        shareable -= 1
    return mark(k, first, "parallel") if first.extent > 1 else k
