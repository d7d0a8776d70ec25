"""Schedules for GPUs: kernels over groups of threads that share local memory.

Elementwise kernels give each thread a vector of neighbours. Rows with reductions go to a group each, which
combines its threads' shares. Contractions are tiles of 64 x 64 outputs a group, 4 x 4 a thread, or 32 x 32 a
warp where tensor cores suit, with both factors' tiles in shared memory.
"""

from __future__ import annotations

import math

from dawdle.codegen import expr
from dawdle.codegen.algebra import coefficient
from dawdle.codegen.decompose import HALF, widen
from dawdle.codegen.expr import Expr, Range, X
from dawdle.codegen.kernel import Kernel
from dawdle.codegen.recipes.contraction import Contraction, factors, find_contraction, merge_all
from dawdle.codegen.recipes.cpu import collapse, lane_size, meets, sequential, stage_rows, vector_range
from dawdle.codegen.target import Target
from dawdle.codegen.transform import (
    Fragment,
    group_reduction,
    lengthen,
    mark,
    merge,
    reorder,
    split,
    stage,
    tensor_core,
)
from dawdle.dtype import DType, float32

MMA_DEPTH = 32  # depth of staged tiles for tensor cores
VECTOR_BYTES = 16  # what one thread loads at once
SHARED_DEPTH = 64  # length of a reduction from which a group shares it
MANY_ROWS = 1 << 14  # rows from which a thread each keeps the device busy
TILE = 64  # outputs along a side of a group's tile
SIDE = 16  # threads along it, fewer where a group can't be that large
WARP = 32
DEPTH = 16  # depth of staged tiles


def schedule(k: Kernel, target: Target) -> Kernel:
    """The kernel with all decisions taken."""
    k = collapse(k).with_(launched=True)
    found = find_contraction(k, target)
    if found:
        return _contract(*found, target)
    rows = _shared_rows(k)
    return _threads(k, target) if rows is None else _row_groups(k, rows, target)


def _shared_rows(k: Kernel) -> tuple[Range, ...] | None:
    """The output ranges that reductions depend on, if a group should compute each point of them."""
    reduces = [e for e in k.exprs() if e.op is X.REDUCE]
    if not reduces or sequential(k):
        return None
    rows = frozenset().union(*(e.free for e in reduces)) & frozenset(k.ranges)
    if set(k.ranges[: len(rows)]) != rows:
        return None
    depth = max(math.prod(r.extent for r in e.arg[1]) for e in reduces)
    count = math.prod(r.extent for r in rows)
    carried = len(rows) < len(k.ranges)
    worth = depth >= SHARED_DEPTH and (carried or count < MANY_ROWS or depth >= 1024)
    return k.ranges[: len(rows)] if worth else None


def _power_of_two(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def _row_groups(k: Kernel, rows: tuple[Range, ...], target: Target) -> Kernel:
    columns = k.ranges[len(rows) :]
    if rows:
        k, row = merge_all(k, rows, "row")
        k = mark(k, row, "group")
    if columns:
        k, column = merge_all(k, columns, "column")
    ranges = list(dict.fromkeys(e.arg[1] for e in k.exprs() if e.op is X.REDUCE))
    apart = len({r for rs in ranges for r in rs}) == sum(map(len, ranges))
    longest = max(math.prod(r.extent for r in rs) for rs in ranges)
    threads = min(target.max_local, max(WARP, _power_of_two(longest)))
    if columns:
        k = stage_rows(k, 1, target.local_bytes // 2)
    for rs in dict.fromkeys(e.arg[1] for e in k.exprs() if e.op is X.REDUCE):
        r = rs[-1]
        if apart:
            k, r = merge_all(k, rs, "k")
        own = {x for x, how in k.marks.items() if how == "local"}.union(*(s.dims for s in k.stages))
        if not meets(k, r, own):
            k = group_reduction(k, r, threads)
    if not columns:
        return k
    if column.extent <= threads:
        return mark(k, column, "local")
    k, _, own_column = split(k, column, threads)
    return mark(k, own_column, "local")


def _threads(k: Kernel, target: Target) -> Kernel:
    """Each thread computes one output, or a vector of them, by itself."""
    tail = sequential(k)
    order = [r for r in k.ranges if r not in tail]
    reduces = any(e.op is X.REDUCE for e in k.exprs())
    lanes = max(1, min(VECTOR_BYTES // lane_size(k), target.max_lanes))
    last = None if tail or reduces or lanes == 1 else vector_range(k, lanes, tail)
    vector = []
    if last is not None:
        k, outer, lane = split(k, last, lanes)
        k = mark(k, lane, "vector")
        order[order.index(last)] = outer
        vector = [lane]
    k = reorder(k, [*order, *tail, *vector])
    if not order:
        return k
    k, flat = merge_all(k, tuple(order), "i")
    threads = min(target.max_local, 256)
    if flat.extent <= threads:
        return mark(k, flat, "local")
    once = any(s.how or s.valid is not None for s in k.stores)
    k, group, own = split(k, flat, threads, tail="guard" if once else "shift")
    return mark(mark(k, group, "group"), own, "local")


def _suits_tensor_cores(c: Contraction, target: Target) -> bool:
    """Whether both factors are plain loads, of 16-bit floats, or of float32 where TF32 is allowed."""
    if target.capability is None or target.capability < (8, 0) or target.max_local < 4 * WARP:
        return False
    dtypes = [_tensor_core_dtype(factor, target) for factor in c.reduce.src[0].src]
    return dtypes[0] is not None and dtypes[0] == dtypes[1]


def _tensor_core_dtype(factor: Expr, target: Target) -> DType | None:
    if factor.op is X.LOAD and factor.dtype == float32 and target.tf32:
        return float32
    return next((e.dtype for e in expr.loads([factor]) if e.dtype in HALF and widen(e) is factor), None)


def _contract_in_warps(k: Kernel, c: Contraction) -> Kernel:
    """Four warps a group, each with 32 x 32 outputs on tensor cores."""
    terms = 8 if any(x.op is X.LOAD for x in c.reduce.src[0].src) else 16
    k, m = merge_all(k, c.m, "m")
    k, n = merge_all(k, c.n, "n")
    k, depth = merge_all(k, c.reduce.arg[1], "k")
    if depth.extent % MMA_DEPTH:
        k, depth = lengthen(k, depth, -(-depth.extent // MMA_DEPTH) * MMA_DEPTH)
    k, mo, mi = split(k, m, TILE, "m", "clamp")
    k, no, ni = split(k, n, TILE, "n", "clamp")
    k, mw, mi = split(k, mi, 32, "mw")
    k, mt, mi = split(k, mi, 16, "mt")
    k, ui, g = split(k, mi, 8, "mg")
    k, nw, ni = split(k, ni, 32, "nw")
    k, nt, ni = split(k, ni, 8, "nt")
    k, t, vi = split(k, ni, 2, "ng")
    k, ko, ki = split(k, depth, MMA_DEPTH)
    k, kk, kj = split(k, ki, terms)
    for r in (mt, ui, nt, vi, kk):
        k = mark(k, r, "unroll")
    k = reorder(k, [*c.outer, mo, no, mw, nw, g, t, mt, ui, nt, vi])
    left, right = (next(iter(expr.loads([x]))) for x in factors(k, g))
    k = stage(k, "tile_a", left, ko, (mw, mt, ui, g, kk, kj), together=True)
    k = stage(k, "tile_b", right, ko, (nw, nt, t, vi, kk, kj), together=True)
    left, right = (next(iter(expr.loads([x]))) for x in factors(k, g))
    k = tensor_core(k, Fragment(ui, g, t, vi, kj), left, right)
    k, group = merge_all(k, (*c.outer, mo, no), "g")
    k, own = merge_all(k, (mw, nw, g, t), "l")
    return mark(mark(k, group, "group"), own, "local")


def _contract(k: Kernel, c: Contraction, target: Target) -> Kernel:
    if _suits_tensor_cores(c, target):
        return _contract_in_warps(k, c)
    k, m = merge_all(k, c.m, "m")
    k, n = merge_all(k, c.n, "n")
    k, depth = merge_all(k, c.reduce.arg[1], "k")
    if depth.extent % DEPTH:
        k, depth = lengthen(k, depth, -(-depth.extent // DEPTH) * DEPTH)
    side = min(SIDE, math.isqrt(target.max_local))
    most = TILE // SIDE * side
    tile_m, tile_n = (min(most, -(-r.extent // side) * side) for r in (m, n))
    k, mo, mi = split(k, m, tile_m, "m", "clamp")
    k, no, ni = split(k, n, tile_n, "n", "clamp")
    k, mu, ml = split(k, mi, side, "mt")
    k, nu, nl = split(k, ni, side, "nt")
    k, ko, ki = split(k, depth, DEPTH)
    for r in (mu, nu):
        k = mark(k, r, "unroll")
    outer = list(c.outer)
    k = reorder(k, [*outer, mo, no, ml, nl, mu, nu])
    left, right = factors(k, ml)
    for name, value, own in (("tile_a", left, (mu, ml)), ("tile_b", right, (nu, nl))):
        k = stage(k, name, value, ko, _walk(value, own, ki), together=True)
    k, group = merge_all(k, (*outer, mo, no), "g")
    k, own_id = merge(k, ml, nl)
    return mark(mark(k, group, "group"), own_id, "local")


def _walk(value: Expr, own: tuple[Range, ...], depth: Range) -> tuple[Range, ...]:
    """The order in which neighbouring threads fill a tile: along the range in which memory runs."""
    along_depth = any(
        coefficient(e.src[0], depth) == 1 for e in expr.loads([value]) if depth in e.src[0].free
    )
    return (*own, depth) if along_depth else (depth, *own)
