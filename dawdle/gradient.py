"""The gradient rule of every primitive operation, in differentiable operations.

A rule gets the recorded node and the gradient of its result and returns that of each operand (None: there is
none).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dawdle.lazy.ops import Op
from dawdle.tensor import Tensor
from dawdle.tensor.autograd import Composite, Node, Parts, rule
from dawdle.tensor.core import apply, cast, constant
from dawdle.tensor.elementwise import where
from dawdle.tensor.extrema import shared_gradient
from dawdle.tensor.reduce import positions
from dawdle.tensor.trigonometry import cos


def _split(n: Node, a: Callable[[], Tensor], b: Callable[[], Tensor]) -> Parts:
    """The parts of two operands, made only where they are wanted."""
    return a() if n.needs(0) else None, b() if n.needs(1) else None


# ---- elementwise


@rule(Op.CAST)
def _cast(n: Node, g: Tensor) -> Parts:
    return (cast(g, n.dtypes[0]),)


@rule(Op.NEG)
def _neg(n: Node, g: Tensor) -> Parts:
    return (-g,)


@rule(Op.RECIP, output=True)
def _recip(n: Node, g: Tensor) -> Parts:
    y = n.y(g)
    return (-(g * y * y),)


@rule(Op.SQRT, output=True)
def _sqrt(n: Node, g: Tensor) -> Parts:
    return (g * 0.5 / n.y(g),)


@rule(Op.EXP2, output=True)
def _exp2(n: Node, g: Tensor) -> Parts:
    return (g * n.y(g) * math.log(2),)


@rule(Op.LOG2, inputs=True)
def _log2(n: Node, g: Tensor) -> Parts:
    return (g / n.x(g) * math.log2(math.e),)


@rule(Op.SIN, inputs=True)
def _sin(n: Node, g: Tensor) -> Parts:
    return (g * cos(n.x(g)),)


@rule(Op.TRUNC)
def _trunc(n: Node, g: Tensor) -> Parts:
    return (g.zeros_like(),)


@rule(Op.ADD)
def _add(n: Node, g: Tensor) -> Parts:
    return g, g


@rule(Op.SUB)
def _sub(n: Node, g: Tensor) -> Parts:
    return _split(n, lambda: g, lambda: -g)


@rule(Op.MUL, inputs=True)
def _mul(n: Node, g: Tensor) -> Parts:
    return _split(n, lambda: g * n.x(g, 1), lambda: g * n.x(g, 0))


@rule(Op.DIV, inputs=True, output=True)
def _div(n: Node, g: Tensor) -> Parts:
    return _split(n, lambda: g / n.x(g, 1), lambda: -(g / n.x(g, 1) * n.y(g)))


@rule(Op.IDIV)
def _idiv(n: Node, g: Tensor) -> Parts:
    return g.zeros_like(), g.zeros_like()


@rule(Op.MOD, inputs=True)
def _mod(n: Node, g: Tensor) -> Parts:
    return _split(n, lambda: g, lambda: -(g * (n.x(g, 0) // n.x(g, 1))))


@rule(Op.MAX, inputs=True)
def _max(n: Node, g: Tensor) -> Parts:
    a, b = n.x(g, 0).detach(), n.x(g, 1).detach()
    shared = where(a == b, g * 0.5, 0.0)
    return _split(n, lambda: where(a > b, g, shared), lambda: where(a < b, g, shared))


@rule(Op.WHERE, inputs=True)
def _where(n: Node, g: Tensor) -> Parts:
    chosen = n.x(g, 0)
    return (
        None,
        where(chosen, g, 0.0) if n.needs(1) else None,
        where(chosen, 0.0, g) if n.needs(2) else None,
    )


@rule(Op.FMA, inputs=True)
def _fma(n: Node, g: Tensor) -> Parts:
    return (*_split(n, lambda: g * n.x(g, 1), lambda: g * n.x(g, 0)), g)


@rule(Composite.ABS, inputs=True)
def _abs(n: Node, g: Tensor) -> Parts:
    x = n.x(g).detach()
    return (where(x > 0, g, where(x < 0, -g, x * 0.0)),)


# ---- along axes


@rule(Op.SUM)
def _sum(n: Node, g: Tensor) -> Parts:
    return (apply(Op.EXPAND, n.shapes[0], g),)


@rule(Op.AMAX, inputs=True)
def _amax(n: Node, g: Tensor) -> Parts:
    # found anew: the maximum that was handed out may have been rounded differently
    return (shared_gradient(n.x(g), lambda x: apply(Op.AMAX, n.arg, x), n.arg, g),)


@rule(Op.PROD, inputs=True)
def _prod(n: Node, g: Tensor) -> Parts:
    """The product of all others: of those before, by a scan, and those after; right also where some are zero.
    """
    shape, axes = n.shapes[0], n.arg
    rest = [i for i in range(len(shape)) if i not in axes]
    order = (*rest, *axes)
    moved = apply(Op.PERMUTE, order, n.x(g))
    flat = apply(Op.RESHAPE, (*[shape[i] for i in rest], math.prod(shape[i] for i in axes)), moved)
    others = _products_before(flat) * _reversed(_products_before(_reversed(flat)))
    back = apply(Op.RESHAPE, moved.shape, others)
    inverse = tuple(sorted(range(len(order)), key=order.__getitem__))
    return (apply(Op.EXPAND, shape, g) * apply(Op.PERMUTE, inverse, back),)


def _reversed(x: Tensor) -> Tensor:
    return apply(Op.FLIP, (x.ndim - 1,), x)


def _products_before(x: Tensor) -> Tensor:
    """Along the last axis, the product of all elements before each; 1 for the first."""
    if x.shape[-1] == 0:
        return x
    lead = x.shape[:-1]
    ones = constant(x, 1.0, shape=(*lead, 1))
    shorter = apply(Op.SLICE, (*[(0, m, 1) for m in lead], (0, x.shape[-1] - 1, 1)), x)
    out: Tensor = Tensor.cat([ones, apply(Op.SCAN, (Op.MUL, x.ndim - 1), shorter)], dim=-1)
    return out


@rule(Op.SCAN, inputs=True, output=True)
def _scan(n: Node, g: Tensor) -> Parts:
    op, axis = n.arg
    return ({Op.ADD: _cumsum, Op.MUL: _cumprod, Op.MAX: _cummax}[op](n, g, axis),)


def _sum_after(g: Tensor, axis: int) -> Tensor:
    """Along ``axis``, the sum of each element and all after it."""
    return apply(Op.FLIP, (axis,), apply(Op.SCAN, (Op.ADD, axis), apply(Op.FLIP, (axis,), g)))


def _cumsum(n: Node, g: Tensor, axis: int) -> Tensor:
    return _sum_after(g, axis)


def _cumprod(n: Node, g: Tensor, axis: int) -> Tensor:
    """sum(g * y) from each element on, divided by it; at the first zero, from products without it; 0 at later
    zeros.
    """
    x, y = n.x(g), n.y(g)
    zero = (x == 0).detach()
    first = zero & (apply(Op.SCAN, (Op.ADD, axis), cast(zero, g.dtype)) == 1)
    without = apply(Op.SCAN, (Op.MUL, axis), where(first, 1.0, x))
    regular = _sum_after(g * y, axis) / where(zero, 1.0, x)
    return where(first, _sum_after(g * without, axis), where(zero, 0.0, regular))


def _cummax(n: Node, g: Tensor, axis: int) -> Tensor:
    """To the latest element that attains the maximum so far."""
    x, y = n.x(g).detach(), n.y(g).detach()
    place = apply(Op.SCAN, (Op.MAX, axis), where(x == y, positions(x, axis), 0))
    return apply(Op.SCATTER, (axis, Op.ADD), g.zeros_like(), place, g)


# ---- movement


@rule(Op.RESHAPE)
def _reshape(n: Node, g: Tensor) -> Parts:
    return (apply(Op.RESHAPE, n.shapes[0], g),)


@rule(Op.PERMUTE)
def _permute(n: Node, g: Tensor) -> Parts:
    return (apply(Op.PERMUTE, tuple(sorted(range(len(n.arg)), key=n.arg.__getitem__)), g),)


@rule(Op.EXPAND)
def _expand(n: Node, g: Tensor) -> Parts:
    axes = tuple(i for i, (a, b) in enumerate(zip(n.shapes[0], n.arg, strict=True)) if a != b)
    return (apply(Op.SUM, axes, g),)


@rule(Op.FLIP)
def _flip(n: Node, g: Tensor) -> Parts:
    return (apply(Op.FLIP, n.arg, g),)


@rule(Op.SLICE)
def _slice(n: Node, g: Tensor) -> Parts:
    amounts = []
    for size, count, (start, _, step) in zip(n.shapes[0], g.shape, n.arg, strict=True):
        last = start + (count - 1) * step
        amounts.append((start, size - last - 1, step - 1) if count else (0, size, 0))
    return (apply(Op.PAD, tuple(amounts), g),)


@rule(Op.PAD)
def _pad(n: Node, g: Tensor) -> Parts:
    ranges = [
        (low, low + max((size - 1) * (interior + 1) + 1, 0) if size else low, interior + 1)
        for size, (low, _, interior) in zip(n.shapes[0], n.arg, strict=True)
    ]
    return (apply(Op.SLICE, tuple(ranges), g),)


@rule(Op.WINDOW)
def _window(n: Node, g: Tensor) -> Parts:
    return (apply(Op.UNWINDOW, (n.arg, n.shapes[0][len(n.shapes[0]) - len(n.arg) :]), g),)


@rule(Op.UNWINDOW)
def _unwindow(n: Node, g: Tensor) -> Parts:
    return (apply(Op.WINDOW, n.arg[0], g),)


@rule(Composite.CAT)
def _cat(n: Node, g: Tensor) -> Parts:
    """Each part's own slice."""
    parts: list[Tensor | None] = []
    start = 0
    for i, shape in enumerate(n.shapes):
        stop = start + shape[n.arg]
        ranges = tuple([(start, stop, 1) if a == n.arg else (0, m, 1) for a, m in enumerate(shape)])
        parts.append(apply(Op.SLICE, ranges, g) if n.needs(i) else None)
        start = stop
    return tuple(parts)


# ---- indices given by data


@rule(Op.GATHER, inputs=True)
def _gather(n: Node, g: Tensor) -> Parts:
    base = constant(g, 0, shape=n.shapes[0])
    return apply(Op.SCATTER, (n.arg, Op.ADD), base, n.x(g, 1), g), None


@rule(Op.SCATTER, inputs=True)
def _scatter(n: Node, g: Tensor) -> Parts:
    base, part = SCATTERED[n.arg[1]](n, g, n.x(g, 1), n.arg[0])
    return base, None, part


def _scatter_add(n: Node, g: Tensor, index: Tensor, axis: int) -> Parts:
    return g, apply(Op.GATHER, axis, g, index) if n.needs(2) else None


def _scatter_last(n: Node, g: Tensor, index: Tensor, axis: int) -> Parts:
    """Of equal indices only the last was kept."""
    base = apply(Op.SCATTER, (axis, None), g, index, constant(g, 0, shape=n.shapes[2]))
    if not n.needs(2):
        return base, None
    return base, where(_kept(index, n.shapes[0], axis), apply(Op.GATHER, axis, g, index), 0.0)


def _scatter_max(n: Node, g: Tensor, index: Tensor, axis: int) -> Parts:
    """Elements that equal the largest share its gradient."""
    base, x = n.x(g, 0).detach(), n.x(g, 2).detach()
    largest = apply(Op.SCATTER, (axis, Op.MAX), base, index, x)
    own, others = base == largest, x == apply(Op.GATHER, axis, largest, index)
    count = apply(Op.SCATTER, (axis, Op.ADD), cast(own, g.dtype), index, cast(others, g.dtype))
    share = g / count
    return where(own, share, 0.0), where(others, apply(Op.GATHER, axis, share, index), 0.0)


def _scatter_mul(n: Node, g: Tensor, index: Tensor, axis: int) -> Parts:
    """The product of all other factors: where one is 0 only that factor has a gradient."""
    base, x = n.x(g, 0), n.x(g, 2)
    nonzero = [where(y == 0, 1.0, y) for y in (base, x)]
    rest = apply(Op.SCATTER, (axis, Op.MUL), nonzero[0], index, nonzero[1])
    zeros = apply(Op.SCATTER, (axis, Op.ADD), cast(base == 0, g.dtype), index, cast(x == 0, g.dtype))

    def part(y: Tensor, factor: Tensor, g: Tensor, rest: Tensor, zeros: Tensor) -> Tensor:
        return g * where(y == 0, where(zeros == 1, rest, 0.0), where(zeros == 0, rest / factor, 0.0))

    wide = [apply(Op.GATHER, axis, y, index) for y in (g, rest, zeros)]
    return part(base, nonzero[0], g, rest, zeros), part(x, nonzero[1], *wide)


SCATTERED = {Op.ADD: _scatter_add, None: _scatter_last, Op.MAX: _scatter_max, Op.MUL: _scatter_mul}


def _kept(index: Tensor, shape: Sequence[int], axis: int) -> Tensor:
    """Whether each write of a scatter is the last to its place."""
    order = apply(Op.EXPAND, index.shape, positions(index, axis))
    last = apply(Op.SCATTER, (axis, None), constant(order, -1, shape=tuple(shape)), index, order)
    return apply(Op.GATHER, axis, last, index) == order


# ---- storage


@rule(Op.CONTIGUOUS)
def _contiguous(n: Node, g: Tensor) -> Parts:
    return (g,)


@rule(Op.COPY)
def _copy(n: Node, g: Tensor) -> Parts:
    source, target = n.arg
    return (apply(Op.COPY, (target, source), g),)
