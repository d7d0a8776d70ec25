"""The graph's meaning, in NumPy: one rule for each op. It is the NUMPY device and every other's oracle.

Values are arrays of their dtype's ``compute`` dtype. float16 and bfloat16 round to nearest even after each
op; within an op that combines many elements they are held in float32. Nothing here warns.
"""
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from dawdle.dtype import Array, bfloat16, float16, from_storage, round_to, to_storage
from dawdle.errors import DTypeError, ShapeError
from dawdle.lazy.buffer import LazyBuffer, toposort
from dawdle.lazy.check import out_of_range
from dawdle.lazy.ops import ELEMENTWISE, Op

Load = Callable[[LazyBuffer], Array]
Rule = Callable[[LazyBuffer, list[Array]], Array]


def evaluate(outputs: Sequence[LazyBuffer], load: Load) -> list[Array]:
    """The values of ``outputs``, each a fresh C-contiguous array of its dtype's ``compute`` dtype.

    ``load`` gives a BUFFER's elements in its compute dtype and shape. Intermediate values are let go after
    their last use. Raises what a CUSTOM node's function raises, and ShapeError or DTypeError where its result
    isn't as declared.
    """
    order = toposort(outputs)
    uses = Counter(id(s) for node in order for s in node.src)
    uses.update(id(node) for node in outputs)
    values: dict[int, Array] = {}
    loaded: list[Array] = []
    with np.errstate(all="ignore"):
        for node in order:
            if node.op is Op.BUFFER:
                values[id(node)] = load(node)
                loaded.append(values[id(node)])
            else:
                values[id(node)] = apply(node, [values[id(s)] for s in node.src])
            for s in node.src:
                uses[id(s)] -= 1
                if not uses[id(s)]:
                    values.pop(id(s))
        return _own([values[id(node)] for node in outputs], loaded)


def apply(node: LazyBuffer, operands: Sequence[Array]) -> Array:
    """The value of one node from those of its operands. The result may be a view of an operand."""
    rule = RULES[node.op]
    if node.op in WIDENED:
        operands = [x.astype(np.float32) if x.dtype == np.float16 else x for x in operands]
    result = np.asarray(rule(node, list(operands)))
    if node.op in MOVED or node.dtype not in (float16, bfloat16):
        return result
    return round_to(result, node.dtype)


def call_custom(node: LazyBuffer, operands: Sequence[Array]) -> Array:
    """Run a CUSTOM node's function on read-only views of its operands and check what it returns."""
    views = [x.view() for x in operands]
    for v in views:
        v.flags.writeable = False
    result = np.asarray(node.arg(*views))
    name = getattr(node.arg, "__name__", repr(node.arg))
    if result.shape != node.shape:
        raise ShapeError(f"custom function {name} returned shape {result.shape}; it declared {node.shape}")
    if (wanted := node.dtype.compute) != result.dtype:
        fix = f"convert its result with .astype({wanted.name!r})"
        raise DTypeError(f"custom function {name} returned {result.dtype}, not {node.dtype.name}: {fix}")
    return result


def _own(results: list[Array], loaded: list[Array]) -> list[Array]:
    """Copies of those results that are views, or that someone else holds too."""
    held = {id(x) for x in loaded}
    out = []
    for x in results:
        fresh = x.base is None and x.flags.c_contiguous and x.flags.writeable and id(x) not in held
        held.add(id(x))
        out.append(x if fresh else np.array(x, order="C"))
    return out


# leaves and unary ops


def _const(node: LazyBuffer, src: list[Array]) -> Array:
    return np.asarray(node.arg).astype(node.dtype.compute)


def _iota(node: LazyBuffer, src: list[Array]) -> Array:
    return np.arange(node.shape[0], dtype=np.int64).astype(node.dtype.compute)


def _cast(node: LazyBuffer, src: list[Array]) -> Array:
    return src[0] != 0 if node.dtype.is_bool else src[0].astype(node.dtype.compute)


def _bitcast(node: LazyBuffer, src: list[Array]) -> Array:
    return from_storage(to_storage(src[0], node.src[0].dtype).view(node.dtype.storage), node.dtype)


def _map(f: Callable[..., Array]) -> Rule:
    return lambda node, src: f(*src)


def _precise(f: Callable[..., Array]) -> Rule:
    """``f`` in float64, rounded once: the correctly rounded value in all but a few cases."""

    def rule(node: LazyBuffer, src: list[Array]) -> Array:
        return np.asarray(f(src[0].astype(np.float64))).astype(src[0].dtype)

    return rule


def _maximum(node: LazyBuffer, src: list[Array]) -> Array:
    a, b = src
    return _sign_zeros(np.maximum(a, b), lambda: _is_plus_zero(a) | _is_plus_zero(b))


def _sign_zeros(result: Array, has_plus: Callable[[], Array]) -> Array:
    """A maximum in which 0.0 counts as more than -0.0. NumPy's choice depends on how arrays lie in memory."""
    zero = result == 0
    if result.dtype.kind != "f" or not zero.any():
        return result
    return np.where(zero, np.where(has_plus(), result.dtype.type(0.0), result.dtype.type(-0.0)), result)


def _is_plus_zero(x: Array) -> Array:
    return np.asarray((x == 0) & ~np.signbit(x))


# along axes

UFUNC: dict[Op, np.ufunc] = {Op.ADD: np.add, Op.MUL: np.multiply, Op.MAX: np.maximum}


def _fold(ufunc: np.ufunc) -> Rule:
    def rule(node: LazyBuffer, src: list[Array]) -> Array:
        # NumPy adds in the order of memory; made row-major, the value depends on the operand's values alone
        x = np.asarray(src[0], order="C")
        # without dtype it would sum small integers in int64
        return np.asarray(ufunc.reduce(x, axis=node.arg, keepdims=True, dtype=x.dtype))

    return rule


def _amax(node: LazyBuffer, src: list[Array]) -> Array:
    (x,), axes = src, node.arg
    result = np.asarray(np.maximum.reduce(x, axis=axes, keepdims=True, initial=x.dtype.type(node.dtype.min)))
    return _sign_zeros(result, lambda: np.asarray(_is_plus_zero(x).any(axis=axes, keepdims=True)))


def _scan(node: LazyBuffer, src: list[Array]) -> Array:
    (x,), (op, axis) = src, node.arg
    result = np.asarray(UFUNC[op].accumulate(x, axis=axis, dtype=x.dtype))
    if op is not Op.MAX:
        return result
    return _sign_zeros(result, lambda: np.logical_or.accumulate(_is_plus_zero(x), axis=axis))


# movement


def _slice(node: LazyBuffer, src: list[Array]) -> Array:
    return src[0][tuple(slice(*r) for r in node.arg)]


def _pad(node: LazyBuffer, src: list[Array]) -> Array:
    (x,) = src
    out = np.zeros(node.shape, x.dtype)
    if x.size:
        places = zip(x.shape, node.arg, strict=True)
        out[tuple(slice(low, low + (n - 1) * (gap + 1) + 1, gap + 1) for n, (low, _, gap) in places)] = x
    return out


def _window(node: LazyBuffer, src: list[Array]) -> Array:
    (x,), k = src, len(node.arg)
    spans = tuple((size - 1) * dilation + 1 for size, _, dilation in node.arg)
    every = np.lib.stride_tricks.sliding_window_view(x, spans, axis=tuple(range(x.ndim - k, x.ndim)))
    steps = [stride for _, stride, _ in node.arg] + [dilation for _, _, dilation in node.arg]
    lead = [1] * (x.ndim - k)
    return np.asarray(every[tuple(slice(None, None, step) for step in lead + steps)])


def _unwindow(node: LazyBuffer, src: list[Array]) -> Array:
    (x,), (windows, sizes) = src, node.arg
    lead = len(node.shape) - len(windows)
    # the axes are independent: put back one at a time; the offsets of the next are always in the same place
    for i, (window, n) in enumerate(zip(windows, sizes, strict=True)):
        x = _unwindow_axis(x, lead + i, lead + len(windows), window, n)
    return x


def _unwindow_axis(x: Array, positions: int, offsets: int, window: tuple[int, int, int], n: int) -> Array:
    """Add up the axes ``positions`` and ``offsets`` into one of size ``n`` in the place of the first."""
    size, stride, dilation = window
    x = np.moveaxis(x, (positions, offsets), (0, 1))
    count = x.shape[0]
    out = np.zeros((n, *x.shape[2:]), x.dtype)
    if size <= count:
        for k in range(size):
            first = k * dilation
            out[first : first + (count - 1) * stride + 1 : stride] += x[:, k]
    else:
        for p in range(count):
            first = p * stride
            out[first : first + (size - 1) * dilation + 1 : dilation] += x[p]
    return np.moveaxis(out, 0, positions)


# data-dependent indices


def _inside(index: Array, size: int) -> tuple[Array, Array]:
    """Where ``index`` lies in [0, size), and the index with the others replaced by 0."""
    valid = (index >= 0) & (index < size)
    return valid, np.where(valid, index, 0).astype(np.intp)


def _gather(node: LazyBuffer, src: list[Array]) -> Array:
    (x, index), axis = src, node.arg
    valid, places = _inside(index, x.shape[axis])
    if not x.size:
        return np.zeros(node.shape, x.dtype)
    return np.where(valid, np.take_along_axis(x, places, axis), x.dtype.type(0))


def _scatter(node: LazyBuffer, src: list[Array]) -> Array:
    (base, index, x), (axis, how) = src, node.arg
    valid, places = _inside(index, base.shape[axis])
    out = np.array(base, order="C")
    coordinates = list(np.ogrid[tuple(slice(n) for n in x.shape)])
    coordinates[axis] = places
    flat = np.zeros(x.shape, np.intp)
    for coordinate, stride in zip(coordinates, _strides(base.shape), strict=True):
        flat += coordinate * stride
    target, where, what = out.reshape(-1), flat[valid], x[valid]
    if how is None:
        target[where] = what
    else:
        UFUNC[how].at(target, where, what)
    return out


def _strides(shape: tuple[int, ...]) -> list[int]:
    """Elements between neighbours along each axis of a row-major array."""
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def _check(node: LazyBuffer, src: list[Array]) -> Array:
    (index,), (low, high, _) = src, node.arg
    wrong = index[(index < low) | (index >= high)]
    if wrong.size:
        raise out_of_range(node.arg, int(wrong.flat[0]))
    return index


RULES: dict[Op, Rule] = {
    Op.CONST: _const,
    Op.IOTA: _iota,
    Op.CAST: _cast,
    Op.BITCAST: _bitcast,
    Op.NEG: _map(np.negative),
    Op.RECIP: _map(lambda x: np.divide(x.dtype.type(1), x)),
    Op.SQRT: _map(np.sqrt),
    Op.EXP2: _precise(np.exp2),
    Op.LOG2: _precise(np.log2),
    Op.SIN: _precise(np.sin),
    Op.TRUNC: _map(np.trunc),
    Op.ADD: _map(np.add),
    Op.SUB: _map(np.subtract),
    Op.MUL: _map(np.multiply),
    Op.DIV: _map(np.divide),
    Op.IDIV: _map(np.floor_divide),
    Op.MOD: _map(np.mod),
    Op.MAX: _maximum,
    Op.CMPLT: _map(np.less),
    Op.CMPEQ: _map(np.equal),
    Op.AND: _map(np.bitwise_and),
    Op.OR: _map(np.bitwise_or),
    Op.XOR: _map(np.bitwise_xor),
    Op.SHL: _map(np.left_shift),
    Op.SHR: _map(np.right_shift),
    Op.WHERE: _map(np.where),
    Op.FMA: _map(lambda a, b, c: a * b + c),
    Op.SUM: _fold(np.add),
    Op.PROD: _fold(np.multiply),
    Op.AMAX: _amax,
    Op.SCAN: _scan,
    Op.RESHAPE: lambda node, src: src[0].reshape(node.arg),
    Op.PERMUTE: lambda node, src: src[0].transpose(node.arg),
    Op.EXPAND: lambda node, src: np.broadcast_to(src[0], node.arg),
    Op.FLIP: lambda node, src: np.flip(src[0], node.arg),
    Op.SLICE: _slice,
    Op.PAD: _pad,
    Op.WINDOW: _window,
    Op.UNWINDOW: _unwindow,
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
    Op.CHECK: _check,
    Op.CONTIGUOUS: lambda node, src: src[0],
    Op.COPY: lambda node, src: src[0],
    Op.AFTER: lambda node, src: src[-1],
    Op.CUSTOM: call_custom,
}
# float16 operands are converted to float32 first, so that each of these rounds once, at its end
WIDENED = ELEMENTWISE - {Op.CAST, Op.BITCAST, Op.WHERE} | {Op.SUM, Op.PROD, Op.SCAN, Op.UNWINDOW}
# these pass elements on as they are: nothing to round
MOVED = frozenset({
    Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.FLIP, Op.SLICE, Op.PAD, Op.WINDOW, Op.GATHER, Op.WHERE, Op.AMAX,
    Op.BITCAST, Op.CONTIGUOUS, Op.COPY, Op.AFTER, Op.CHECK,
})  # fmt: skip
