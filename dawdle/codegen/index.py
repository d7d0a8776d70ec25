"""Index maps of the movement ops: from an element of the result to the element of the operand it is read
from.

Each rule takes the result's index and returns the operand's, and a condition where the operand has no such
element (the value is zero there).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dawdle.codegen.algebra import add, and_, idiv, less, mod, mul, sub
from dawdle.codegen.expr import Expr, Range, alu, const, range_
from dawdle.lazy.axes import factor_groups
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import Op

Index = tuple[Expr, ...]
ZERO = const(0)


def flatten(index: Sequence[Expr], shape: Sequence[int]) -> Expr:
    """The row-major offset of ``index`` in an array of ``shape``."""
    out = ZERO
    for i, n in zip(index, shape, strict=True):
        out = add(mul(out, const(n)), i)
    return out


def unflatten(offset: Expr, shape: Sequence[int]) -> Index:
    """The index whose row-major offset in ``shape`` is ``offset``."""
    out: list[Expr] = []
    for n in reversed(shape[1:]):
        out.append(mod(offset, n) if n > 1 else ZERO)
        offset = idiv(offset, n) if n > 1 else offset
    return (*([offset] if shape else []), *reversed(out))


def _reshape(node: LazyBuffer, index: Index) -> tuple[Index, None]:
    shape, new = node.src[0].shape, node.shape
    if 0 in shape:
        return tuple(ZERO for _ in shape), None
    out = [ZERO] * len(shape)
    for old_axes, new_axes in factor_groups(shape, new):
        offset = flatten([index[a] for a in new_axes], [new[a] for a in new_axes])
        for axis, i in zip(old_axes, unflatten(offset, [shape[a] for a in old_axes]), strict=True):
            out[axis] = i
    return tuple(out), None


def _permute(node: LazyBuffer, index: Index) -> tuple[Index, None]:
    out = [ZERO] * len(index)
    for i, axis in zip(index, node.arg, strict=True):
        out[axis] = i
    return tuple(out), None


def _expand(node: LazyBuffer, index: Index) -> tuple[Index, None]:
    return tuple(ZERO if n == 1 else i for i, n in zip(index, node.src[0].shape, strict=True)), None


def _flip(node: LazyBuffer, index: Index) -> tuple[Index, None]:
    return tuple(
        sub(const(n - 1), i) if axis in node.arg else i
        for axis, (i, n) in enumerate(zip(index, node.shape, strict=True))
    ), None


def _slice(node: LazyBuffer, index: Index) -> tuple[Index, None]:
    return tuple(
        add(mul(i, const(step)), const(start)) for i, (start, _, step) in zip(index, node.arg, strict=True)
    ), None


def _pad(node: LazyBuffer, index: Index) -> tuple[Index, Expr | None]:
    out, valid = [], []
    for i, n, (low, high, interior) in zip(index, node.src[0].shape, node.arg, strict=True):
        i = sub(i, const(low))
        if low:
            valid.append(less(const(-1), i))
        if high:
            valid.append(less(i, const(max(n - 1, 0) * (interior + 1) + min(n, 1))))
        if interior:
            valid.append(alu(Op.CMPEQ, mod(i, interior + 1), ZERO))
            i = idiv(i, interior + 1)
        out.append(i)
    return tuple(out), and_(*valid) if valid else None


def _window(node: LazyBuffer, index: Index) -> tuple[Index, None]:
    k = len(node.arg)
    lead = len(index) - 2 * k
    places = [
        add(mul(p, const(stride)), mul(tap, const(dilation)))
        for p, tap, (_, stride, dilation) in zip(
            index[lead : lead + k], index[lead + k :], node.arg, strict=True
        )
    ]
    return (*index[:lead], *places), None


def unwindow(node: LazyBuffer, index: Index, taps: Sequence[Range]) -> tuple[Index, Expr | None]:
    """Where tap ``taps`` of an UNWINDOW reads; the taps are summed over."""
    windows, _ = node.arg
    k = len(windows)
    lead = len(index) - k
    positions, valid = [], []
    outs = node.src[0].shape[lead : lead + k]
    for i, tap, out, (_, stride, dilation) in zip(index[lead:], taps, outs, windows, strict=True):
        place = sub(i, mul(range_(tap), const(dilation)))
        valid += [less(const(-1), place), less(place, const((out - 1) * stride + 1))]
        if stride > 1:
            valid.append(alu(Op.CMPEQ, mod(place, stride), ZERO))
        positions.append(idiv(place, stride))
    return (*index[:lead], *positions, *(range_(t) for t in taps)), and_(*valid)


MOVE: dict[Op, Callable[[LazyBuffer, Index], tuple[Index, Expr | None]]] = {
    Op.RESHAPE: _reshape,
    Op.PERMUTE: _permute,
    Op.EXPAND: _expand,
    Op.FLIP: _flip,
    Op.SLICE: _slice,
    Op.PAD: _pad,
    Op.WINDOW: _window,
}
