"""Rewrite rules on movement and indexed ops: compositions of index maps, and maps of constants."""
from __future__ import annotations

from itertools import pairwise

from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import Op
from dawdle.lazy.rules import Rule, constant, is_constant, like


def move_constant(node: LazyBuffer) -> LazyBuffer | None:
    """The elements of a constant, wherever they are moved -> the constant"""
    value = constant(node.src[0])
    # a constant in its plain form, one reshape and one expansion, is where this ends
    if value is None or (node.op is Op.RESHAPE and node.src[0].op is Op.CONST and set(node.shape) <= {1}):
        return None
    if node.op is Op.EXPAND and node.src[0].op is Op.RESHAPE:
        return None
    return like(node, value)


def spread_zero(node: LazyBuffer) -> LazyBuffer | None:
    """Zeros padded, gathered or added up -> zeros. -0.0 is no such zero: what lies beside it is 0.0"""
    return like(node, 0) if is_constant(node.src[0], 0) else None


def reshape_reshape(node: LazyBuffer) -> LazyBuffer | None:
    """reshape(reshape(x)) -> reshape(x); reshape(x) -> x, where the shape is x's"""
    (x,) = node.src
    return build.reshape(x, node.shape) if x.op is Op.RESHAPE or x.shape == node.shape else None


def permute_permute(node: LazyBuffer) -> LazyBuffer | None:
    """permute(permute(x)) -> permute(x)"""
    (x,) = node.src
    return build.permute(x.src[0], [x.arg[i] for i in node.arg]) if x.op is Op.PERMUTE else None


def permute_unit_axes(node: LazyBuffer) -> LazyBuffer | None:
    """permute(x) -> reshape(x), where only axes of size 1 pass others"""
    (x,) = node.src
    moved = [i for i in node.arg if x.shape[i] != 1]
    return build.reshape(x, node.shape) if all(a < b for a, b in pairwise(moved)) else None


def expand_expand(node: LazyBuffer) -> LazyBuffer | None:
    """expand(expand(x)) -> expand(x); expand(x) -> x, where the shape is x's"""
    (x,) = node.src
    if x.shape == node.shape:
        return x
    return build.expand(x.src[0], node.shape) if x.op is Op.EXPAND else None


def flip_flip(node: LazyBuffer) -> LazyBuffer | None:
    """flip(flip(x)) -> flip(x) along the axes that only one of them names; axes of size 1 need no flip"""
    (x,) = node.src
    if x.op is Op.FLIP:
        return build.flip(x.src[0], sorted(set(node.arg) ^ set(x.arg)))
    axes = [a for a in node.arg if x.shape[a] > 1]
    return None if len(axes) == len(node.arg) else build.flip(x, axes)


def _tight(start: int, count: int, step: int) -> tuple[int, int, int]:
    """The one form of a range: it stops behind its last element, and steps by 1 where it has only one."""
    return (start, start + (count - 1) * step + 1, step if count > 1 else 1)


def slice_tight(node: LazyBuffer) -> LazyBuffer | None:
    """slice(x) with each range in its one form"""
    ranges = tuple(_tight(start, n, step) for n, (start, _, step) in zip(node.shape, node.arg, strict=True))
    return None if ranges == node.arg else build.slice_(node.src[0], ranges)


def slice_slice(node: LazyBuffer) -> LazyBuffer | None:
    """slice(slice(x)) -> slice(x)"""
    (inner,) = node.src
    if inner.op is not Op.SLICE:
        return None
    steps = zip(node.shape, node.arg, inner.arg, strict=True)
    ranges = [_tight(first + start * by, n, step * by) for n, (start, _, step), (first, _, by) in steps]
    return build.slice_(inner.src[0], ranges)


def slice_expand(node: LazyBuffer) -> LazyBuffer | None:
    """slice(expand(x)) -> expand(slice(x))"""
    (inner,) = node.src
    if inner.op is not Op.EXPAND:
        return None
    (x,) = inner.src
    sizes = zip(x.shape, inner.shape, node.arg, strict=True)
    ranges = [r if n == size else (0, 1, 1) for n, size, r in sizes]
    return build.expand(build.slice_(x, ranges), node.shape)


def slice_pad(node: LazyBuffer) -> LazyBuffer | None:
    """slice(pad(x)) -> pad(slice(x)), where both only cut and add at the ends"""
    (inner,) = node.src
    if inner.op is not Op.PAD:
        return None
    (x,) = inner.src
    ranges, amounts = [], []
    for n, (start, stop, step), (low, _, interior) in zip(x.shape, node.arg, inner.arg, strict=True):
        first, last = max(start - low, 0), min(stop - low, n)
        if step != 1 or interior:
            return None
        if first >= last:  # only padding is left
            return like(node, 0)
        ranges.append((first, last, 1))
        amounts.append((first + low - start, stop - low - last, 0))
    return build.pad(build.slice_(x, ranges), amounts)


def pad_pad(node: LazyBuffer) -> LazyBuffer | None:
    """pad(pad(x)) -> pad(x), where the outer puts nothing between"""
    (inner,) = node.src
    if inner.op is not Op.PAD or any(interior for _, _, interior in node.arg):
        return None
    pairs = zip(inner.arg, node.arg, strict=True)
    amounts = [(low + more, high + further, interior) for (low, high, interior), (more, further, _) in pairs]
    return build.pad(inner.src[0], amounts)


def pad_between_nothing(node: LazyBuffer) -> LazyBuffer | None:
    """pad(x) without interior amounts along axes of at most one element"""
    (x,) = node.src
    sizes = zip(x.shape, node.arg, strict=True)
    amounts = tuple((low, high, interior if n > 1 else 0) for n, (low, high, interior) in sizes)
    return None if amounts == node.arg else build.pad(x, amounts)


def window_of_one(node: LazyBuffer) -> LazyBuffer | None:
    """window(x) -> reshape(slice(x)), where every window has one element"""
    (x,) = node.src
    if any(size != 1 for size, _, _ in node.arg):
        return None
    lead = x.ndim - len(node.arg)
    steps = [1] * lead + [stride for _, stride, _ in node.arg]
    sliced = build.slice_(x, [(0, n, step) for n, step in zip(x.shape, steps, strict=True)])
    return build.reshape(sliced, node.shape)


def unwindow_of_one(node: LazyBuffer) -> LazyBuffer | None:
    """unwindow(x) -> pad(x + 0.0), where every window has one element; integers need no + 0"""
    (x,), (windows, sizes) = node.src, node.arg
    if any(size != 1 for size, _, _ in windows):
        return None
    lead = node.ndim - len(windows)
    counts = x.shape[lead : lead + len(windows)]
    amounts = [(0, 0, 0)] * lead
    for n, count, (_, stride, _) in zip(sizes, counts, windows, strict=True):
        amounts.append((0, n - (count - 1) * stride - 1, stride - 1))
    values = build.reshape(x, x.shape[: lead + len(windows)])
    if x.dtype.is_float:
        values = build.binary(Op.ADD, values, like(values, 0.0))
    return build.pad(values, amounts)


def gather_constant(node: LazyBuffer) -> LazyBuffer | None:
    """gather(x, c) -> expand(slice(x)), or zeros where c is out of range"""
    (x, index), axis = node.src, node.arg
    i = constant(index)
    if i is None:
        return None
    if not 0 <= i < x.shape[axis]:
        return like(node, 0)
    place = int(i)
    ranges = [(place, place + 1, 1) if a == axis else (0, n, 1) for a, n in enumerate(x.shape)]
    return build.expand(build.slice_(x, ranges), node.shape)


def scatter_nothing(node: LazyBuffer) -> LazyBuffer | None:
    """scatter of no elements -> the base"""
    return node.src[0] if node.src[1].size == 0 else None


RULES: dict[Op, tuple[Rule, ...]] = {
    Op.RESHAPE: (reshape_reshape, move_constant),
    Op.PERMUTE: (move_constant, permute_permute, permute_unit_axes),
    Op.EXPAND: (expand_expand, move_constant),
    Op.FLIP: (move_constant, flip_flip),
    Op.SLICE: (move_constant, slice_slice, slice_tight, slice_expand, slice_pad),
    Op.PAD: (spread_zero, pad_pad, pad_between_nothing),
    Op.WINDOW: (move_constant, window_of_one),
    Op.UNWINDOW: (spread_zero, unwindow_of_one),
    Op.GATHER: (spread_zero, gather_constant),
    Op.SCATTER: (scatter_nothing,),
}
