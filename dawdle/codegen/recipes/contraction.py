"""The recipe for contractions: sums of products whose factors are each reused along some output axes.

Matrix products, convolutions and their gradients all come here. The sum runs in registers over a tile of 6 x
16 outputs (two vectors wide), reading both factors from panels that were packed in the order in which the
tile walks through them (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008). A
factor is any fused expression.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from dawdle.codegen import expr
from dawdle.codegen.algebra import coefficient
from dawdle.codegen.expr import Expr, Range, X, alu
from dawdle.codegen.kernel import Kernel
from dawdle.codegen.target import Target
from dawdle.codegen.transform import block_reduction, lengthen, mark, merge, reorder, split, stage
from dawdle.lazy.ops import Op

K_BLOCK = 384  # the longest run of the sum between two visits of an output tile
K_UNROLL = 4
SHARED_PANELS = 8 << 20  # bytes of a factor packed at once outside of the blocks
STRIDED_COPY = 3  # how much dearer packing gets where memory order and panel order differ


@dataclass(frozen=True)
class Contraction:
    """``sum_k left[m, k] * right[n, k]`` with n the vector side; ``outer`` are the other output ranges."""

    reduce: Expr
    m: tuple[Range, ...]
    n: tuple[Range, ...]
    outer: tuple[Range, ...]


def find_contraction(k: Kernel, target: Target) -> tuple[Kernel, Contraction] | None:
    """The kernel's sum of products, if it has one worth tiling; its mask, if any, moved to one factor."""
    reduces = [e for e in k.exprs() if e.op in (X.REDUCE, X.SCAN)]
    if len(reduces) != 1 or reduces[0].op is X.SCAN or reduces[0].arg[0] is not Op.ADD or not k.ranges:
        return None
    if any(s.how or s.valid is not None for s in k.stores):
        return None
    k = _mask_factors(k, reduces[0])
    found = _classify(k, target)
    return (k, found) if found else None


def _mask_factors(k: Kernel, total: Expr) -> Kernel:
    """``sum where(v, a*b, 0)`` → ``sum where(v, a, 0) * where(v, b, 0)``: the same, even of infinities."""
    body = total.src[0]
    if body.op is not Op.WHERE or body.src[1].op is not Op.MUL or not _is_zero(body.src[2]):
        return k
    inside, product, zero = body.src
    factors = (
        x if x.op is X.LOAD and len(x.src) > 1 and x.src[1] is inside else alu(Op.WHERE, inside, x, zero)
        for x in product.src
    )
    new = expr.reduce(Op.ADD, alu(Op.MUL, *factors), total.arg[1])
    stores = [replace(s, value=expr.substitute([s.value], {total: new})[0]) for s in k.stores]
    return k.with_(stores=tuple(stores), applied=(*k.applied, "mask the factors"))


def _is_zero(e: Expr) -> bool:
    return e.op is Op.CONST and e.arg == 0 and str(e.arg) != "-0.0"


def _classify(k: Kernel, target: Target) -> Contraction | None:
    (total,) = (e for e in k.exprs() if e.op is X.REDUCE)
    if total.src[0].op is not Op.MUL:
        return None
    a, b = total.src[0].src
    unit = k.ranges[-1]
    if any(coefficient(s.index, unit) != 1 for s in k.stores) or total.dtype.itemsize < 4:
        return None
    if unit in a.free:
        a, b = b, a
    if unit in a.free or unit not in b.free:
        return None
    m = tuple(r for r in k.ranges if r in a.free and r not in b.free)
    at = len(k.ranges)
    while at and k.ranges[at - 1] in b.free and k.ranges[at - 1] not in a.free:
        at -= 1
    n = k.ranges[at:]
    if not m:
        return None
    runs = [[r] for r in m[:1]]
    for r in m[1:]:
        if k.ranges.index(r) == k.ranges.index(runs[-1][-1]) + 1:
            runs[-1].append(r)
        else:
            runs.append([r])
    m = tuple(max(runs, key=_extent))
    depth = _extent(total.arg[1])
    lanes = target.lanes(total.dtype.itemsize)
    small = _extent(m) < 4 or _extent(n) < lanes or depth < 8 or _extent(m) * _extent(n) * depth < 1 << 13
    if small:
        return None
    return Contraction(total, m, n, tuple(r for r in k.ranges if r not in m and r not in n))


def _extent(ranges: Iterable[Range]) -> int:
    return math.prod(r.extent for r in ranges)


def merge_all(k: Kernel, ranges: tuple[Range, ...], name: str) -> tuple[Kernel, Range]:
    """Neighbouring ranges as one."""
    first = ranges[0]
    for r in ranges[1:]:
        k, first = merge(k, first, r, name)
    return k, first


def _even(total: int, most: int) -> int:
    """The size of equal parts of ``total``, none above ``most``."""
    return -(-total // -(-total // most))


def _k_block(depth: int) -> int:
    """Length of a block of the sum: a divisor where a good one exists, so that no point needs a mask."""
    if depth <= K_BLOCK * 4 // 3:
        return -(-depth // K_UNROLL) * K_UNROLL
    exact = [c for c in range(K_BLOCK // 2, K_BLOCK * 4 // 3 + 1, K_UNROLL) if depth % c == 0]
    return max(exact) if exact else -(-_even(depth, K_BLOCK) // K_UNROLL) * K_UNROLL


def factors(k: Kernel, m_lane: Range) -> tuple[Expr, Expr]:
    """The two factors of the sum as they stand now, the one that depends on ``m_lane`` first."""
    (total,) = (e for e in k.exprs() if e.op is X.REDUCE)
    a, b = total.src[0].src
    return (a, b) if m_lane in a.free else (b, a)


def contract(k: Kernel, c: Contraction, target: Target) -> Kernel:
    """Tile, block and pack."""
    lanes = target.lanes(c.reduce.dtype.itemsize)
    k, m = merge_all(k, c.m, "m")
    k, n = merge_all(k, c.n, "n")
    k, depth = merge_all(k, c.reduce.arg[1], "k")
    work = _extent(k.ranges) * depth.extent

    wide = 2 * lanes
    width = wide if n.extent >= wide and -(-n.extent // wide) * wide <= n.extent * 5 // 4 else lanes
    height = _even(m.extent, (target.registers - 1 - width // lanes) * lanes // width)
    by_rows = _share_rows(k, m, n, depth, target)
    block = _k_block(depth.extent)
    blocks: list[Range] = []
    if block < depth.extent:
        k, ko, depth = block_reduction(k, depth, block)
        blocks = [ko]
    elif block > depth.extent:
        k, depth = lengthen(k, depth, block)
    k, kj, ku = split(k, depth, K_UNROLL)
    k = mark(k, ku, "unroll")
    k, mt, mu = split(k, m, height, "m")
    k, nt, ni = split(k, n, width, "n")
    k, nu, nv = split(k, ni, lanes, "v")
    for r in (mu, nu):
        k = mark(k, r, "unroll")
    k = mark(k, nv, "vector")

    outer = list(c.outer)
    shared_outside = _extent(outer) >= 2 * target.threads
    tiles, lane_count = (mt, height) if by_rows else (nt, width)
    most = max(1, target.l2 // 2 // (block * lane_count * c.reduce.dtype.itemsize))
    parts = -(-tiles.extent // most)
    parallel = work >= 1 << 16 and target.threads > 1
    if parallel and not shared_outside:
        parts = min(tiles.extent, -(-parts // target.threads) * target.threads)
    k, part, tile = split(k, tiles, -(-tiles.extent // parts), tiles.name + "c")
    mt, nt = (tile, nt) if by_rows else (mt, tile)
    k = reorder(k, [*outer, part, *blocks, nt, mt, mu, nu, nv])
    if parallel:
        if shared_outside:
            k, first = merge_all(k, tuple(outer), "o")
            outer = [first]
        else:
            first = part
        k = mark(k, first, "parallel")
    return _pack(k, by_rows, [*outer, part, *blocks], [nt, mt, kj, ku, mu, nu, nv])


def _share_rows(k: Kernel, m: Range, n: Range, depth: Range, target: Target) -> bool:
    """Whether threads share the m side: then each packs all of the n side for itself. The cheaper way round
    wins.
    """
    if m.extent < 6 * target.threads:
        return False
    left, right = factors(k, m)

    def cost(e: Expr, r: Range) -> int:
        smooth = all(coefficient(x.src[0], r) == 1 for x in expr.loads([e]) if r in x.free)
        return r.extent * (1 if smooth else STRIDED_COPY)

    a, b, t = cost(left, m), cost(right, n), target.threads
    return a // t + b < a + b // t


def _pack(k: Kernel, by_rows: bool, outside: list[Range], inside: list[Range]) -> Kernel:
    """Stage both factors: the shared one as far out as its size allows, the blocked one inside the blocks."""
    mu = inside[-3]
    left, right = factors(k, mu)
    first = next((r for r, how in k.marks.items() if how == "parallel"), None)
    for name, value, blocked in (("packa", left, by_rows), ("packb", right, not by_rows)):
        order = [*outside, *inside]
        used = [r for r in order if r in value.free]
        levels: list[Range | None] = [None, *outside]
        if blocked:
            levels = levels[-1:]
        elif first is not None and first in value.free:
            levels = levels[levels.index(first) :]
        for at in levels:
            dims = tuple(r for r in used if at is None or order.index(r) > order.index(at))
            if _extent(dims) * value.dtype.itemsize <= SHARED_PANELS or at is levels[-1]:
                k = stage(k, name, value, at, dims)
                break
    return k
