"""Constructors of graph nodes: each checks its operands and infers the result's shape and dtype."""
from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from dawdle.dtype import DType, float32, round_to
from dawdle.errors import DeviceError, DTypeError, ShapeError
from dawdle.lazy import infer
from dawdle.lazy.buffer import LazyBuffer, Storage
from dawdle.lazy.ops import BINARY, REDUCE, UNARY, Op

Triples = Sequence[tuple[int, int, int]]


def _ints(numbers: Sequence[int]) -> tuple[int, ...]:
    """Sizes, axes or an order as a tuple of Python's ints, whatever holds them."""
    return tuple(index(n) for n in numbers)


def _triples(triples: Triples) -> tuple[tuple[int, int, int], ...]:
    return tuple((index(a), index(b), index(c)) for a, b, c in triples)


def _device(op: Op, *operands: LazyBuffer) -> str:
    devices = {x.device for x in operands}
    if len(devices) > 1:
        places = " and ".join(sorted(devices))
        raise DeviceError(f"{op.name.lower()}: operands live on {places}; move one with .to(device)")
    return operands[0].device


def buffer(storage: Storage, shape: Sequence[int], dtype: DType, device: str) -> LazyBuffer:
    """A leaf whose elements ``storage`` holds in row-major order."""
    return LazyBuffer(Op.BUFFER, (), storage, _ints(shape), dtype, device)


def const(value: bool | int | float, dtype: DType, device: str) -> LazyBuffer:
    """A zero-dimensional constant. Integers wrap to ``dtype`` as NumPy's casts do; floats round to it.

    Raises DTypeError for NaN and infinities in an integer dtype.
    """
    return LazyBuffer(Op.CONST, (), _as_dtype(value, dtype), (), dtype, device)


def _as_dtype(value: bool | int | float, dtype: DType) -> bool | int | float:
    """The value of ``dtype`` that represents ``value``, as a Python scalar."""
    if dtype.is_bool:
        return bool(value)
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return float(round_to(np.asarray(float(value)), dtype))
    if isinstance(value, float | np.floating) and not math.isfinite(value):
        raise DTypeError(f"{value} has no {dtype.name} value; use a float dtype")
    wrapped = int(value) & ((1 << dtype.bits) - 1)
    return wrapped - (1 << dtype.bits) if dtype.kind == "i" and wrapped >> (dtype.bits - 1) else wrapped


def full(shape: Sequence[int], value: bool | int | float, dtype: DType, device: str) -> LazyBuffer:
    """A constant expanded to ``shape``."""
    scalar = const(value, dtype, device)
    return expand(reshape(scalar, (1,) * len(shape)), shape) if len(shape) else scalar


def iota(n: int, dtype: DType, device: str) -> LazyBuffer:
    """0, 1, ..., n-1 in an integer dtype."""
    if not dtype.is_int:
        raise DTypeError(f"iota makes integers, got {dtype.name}; cast its result")
    if n < 0:
        raise ShapeError(f"iota: the length {n} must not be negative")
    return LazyBuffer(Op.IOTA, (), None, infer.counted((index(n),)), dtype, device)


def unary(op: Op, x: LazyBuffer) -> LazyBuffer:
    """NEG, RECIP, SQRT, EXP2, LOG2, SIN or TRUNC of each element."""
    assert op in UNARY and op not in (Op.CAST, Op.BITCAST)
    return LazyBuffer(op, (x,), None, x.shape, infer.elementwise_dtype(op, [x.dtype]), x.device)


def cast(x: LazyBuffer, dtype: DType) -> LazyBuffer:
    """Convert each element's value; the node itself where nothing changes."""
    return x if x.dtype == dtype else LazyBuffer(Op.CAST, (x,), dtype, x.shape, dtype, x.device)


def bitcast(x: LazyBuffer, dtype: DType) -> LazyBuffer:
    """Reinterpret each element's bits in a dtype of the same width."""
    if x.dtype.itemsize != dtype.itemsize or x.dtype.is_bool or dtype.is_bool:
        raise DTypeError(f"bitcast needs dtypes of one width, got {x.dtype.name} and {dtype.name}")
    return x if x.dtype == dtype else LazyBuffer(Op.BITCAST, (x,), dtype, x.shape, dtype, x.device)


def binary(op: Op, a: LazyBuffer, b: LazyBuffer) -> LazyBuffer:
    """A two-operand elementwise op on operands of one shape, dtype and device."""
    assert op in BINARY
    shape = infer.same_shape(op, [a.shape, b.shape])
    dtype = infer.elementwise_dtype(op, [a.dtype, b.dtype])
    return LazyBuffer(op, (a, b), None, shape, dtype, _device(op, a, b))


def where(condition: LazyBuffer, a: LazyBuffer, b: LazyBuffer) -> LazyBuffer:
    """``a`` where the bool ``condition`` holds, else ``b``."""
    if not condition.dtype.is_bool:
        raise DTypeError(f"where needs a bool condition, got {condition.dtype.name}; compare it first")
    shape = infer.same_shape(Op.WHERE, [condition.shape, a.shape, b.shape])
    dtype = infer.elementwise_dtype(Op.WHERE, [a.dtype, b.dtype])
    return LazyBuffer(Op.WHERE, (condition, a, b), None, shape, dtype, _device(Op.WHERE, condition, a, b))


def fma(a: LazyBuffer, b: LazyBuffer, c: LazyBuffer) -> LazyBuffer:
    """a * b + c of floats of one shape, dtype and device, rounded once where the device can."""
    shape = infer.same_shape(Op.FMA, [a.shape, b.shape, c.shape])
    dtype = infer.elementwise_dtype(Op.FMA, [a.dtype, b.dtype, c.dtype])
    return LazyBuffer(Op.FMA, (a, b, c), None, shape, dtype, _device(Op.FMA, a, b, c))


def reduce(op: Op, x: LazyBuffer, axes: Sequence[int]) -> LazyBuffer:
    """SUM, PROD or AMAX over ``axes``, which stay in the shape with size 1.

    Sums and products of integers wrap. AMAX over no elements gives the dtype's least value.
    """
    assert op in REDUCE
    axes = infer.axes_of(op, x.shape, axes)
    dtype = infer.elementwise_dtype(op, [x.dtype])
    return LazyBuffer(op, (x,), axes, infer.reduce_shape(x.shape, axes), dtype, x.device) if axes else x


def scan(op: Op, x: LazyBuffer, axis: int) -> LazyBuffer:
    """Inclusive prefix ADD, MUL or MAX along ``axis``."""
    assert op in (Op.ADD, Op.MUL, Op.MAX)
    (axis,) = infer.axes_of(Op.SCAN, x.shape, [axis])
    return LazyBuffer(Op.SCAN, (x,), (op, axis), x.shape, infer.elementwise_dtype(op, [x.dtype]), x.device)


def _movement(op: Op, x: LazyBuffer, arg: Any, shape: tuple[int, ...]) -> LazyBuffer:
    return LazyBuffer(op, (x,), arg, shape, x.dtype, x.device)


def reshape(x: LazyBuffer, shape: Sequence[int]) -> LazyBuffer:
    """The same elements, in row-major order, under another shape."""
    shape = infer.reshape_shape(x.shape, _ints(shape))
    below = x.src[0] if x.op is Op.RESHAPE else x
    same = next((y for y in (x, below) if y.shape == shape), None)
    return same or _movement(Op.RESHAPE, below, shape, shape)


def permute(x: LazyBuffer, order: Sequence[int]) -> LazyBuffer:
    """Axis ``i`` of the result is axis ``order[i]`` of ``x``."""
    order = _ints(order)
    shape = infer.permute_shape(x.shape, order)
    return x if order == tuple(range(x.ndim)) else _movement(Op.PERMUTE, x, order, shape)


def expand(x: LazyBuffer, shape: Sequence[int]) -> LazyBuffer:
    """Repeat axes of size 1 to the sizes of ``shape``."""
    shape = infer.expand_shape(x.shape, _ints(shape))
    return x if shape == x.shape else _movement(Op.EXPAND, x, shape, shape)


def flip(x: LazyBuffer, axes: Sequence[int]) -> LazyBuffer:
    """Reverse the order along ``axes``."""
    axes = infer.axes_of(Op.FLIP, x.shape, axes)
    return _movement(Op.FLIP, x, axes, x.shape) if axes else x


def slice_(x: LazyBuffer, ranges: Triples) -> LazyBuffer:
    """Elements start, start+step, ... below stop; ``ranges`` holds (start, stop, step) for each axis."""
    arg = _triples(ranges)
    shape = infer.slice_shape(x.shape, arg)
    whole = tuple((0, n, 1) for n in x.shape)
    return x if arg == whole else _movement(Op.SLICE, x, arg, shape)


def pad(x: LazyBuffer, amounts: Triples) -> LazyBuffer:
    """Put ``low`` zeros before, ``high`` after and ``interior`` between the elements of each axis."""
    arg = _triples(amounts)
    shape = infer.pad_shape(x.shape, arg)
    return x if all(a == (0, 0, 0) for a in arg) else _movement(Op.PAD, x, arg, shape)


def window(x: LazyBuffer, windows: Triples) -> LazyBuffer:
    """Sliding windows over the last axes: (..., n) becomes (..., positions..., sizes...).

    ``windows`` holds (size, stride, dilation) for each of the last axes; element [..., p, k] is
    ``x[..., p*stride + k*dilation]``.
    """
    arg = _triples(windows)
    return _movement(Op.WINDOW, x, arg, infer.window_shape(x.shape, arg)) if arg else x


def unwindow(x: LazyBuffer, windows: Triples, sizes: Sequence[int]) -> LazyBuffer:
    """Adjoint of :func:`window`: each element of every window is added to the place that it was read from."""
    if not x.dtype.is_float and not x.dtype.is_int:
        raise DTypeError(f"unwindow adds, which takes integers and floats, got {x.dtype.name}")
    arg, sizes = _triples(windows), _ints(sizes)
    shape = infer.unwindow_shape(x.shape, arg, sizes)
    return LazyBuffer(Op.UNWINDOW, (x,), (arg, sizes), shape, x.dtype, x.device) if arg else x


def _index(op: Op, index: LazyBuffer) -> None:
    if not index.dtype.is_int:
        raise DTypeError(f"{op.name.lower()} needs an integer index, got {index.dtype.name}")


def gather(x: LazyBuffer, index: LazyBuffer, axis: int) -> LazyBuffer:
    """``x[..., index[..., i, ...], ...]``, of the index's shape, which must equal x's but along ``axis``.

    Indices outside [0, size) read as zero.
    """
    _index(Op.GATHER, index)
    (axis,) = infer.axes_of(Op.GATHER, x.shape, [axis])
    shape = infer.gather_shape(x.shape, index.shape, axis)
    return LazyBuffer(Op.GATHER, (x, index), axis, shape, x.dtype, _device(Op.GATHER, x, index))


def scatter(
    base: LazyBuffer, index: LazyBuffer, x: LazyBuffer, axis: int, how: Op | None = Op.ADD
) -> LazyBuffer:
    """``base`` with each ``x[..., i, ...]`` combined into its place ``[..., index[..., i, ...], ...]``.

    ``how`` is ADD (the adjoint of gather), MUL, MAX, or None, which overwrites: of equal indices the last
    wins. Indices outside [0, size) are dropped. ``x`` and ``index`` have one shape, which equals base's but
    along ``axis``. Half types are combined in float32 and rounded once, at the end.
    """
    assert how in (Op.ADD, Op.MUL, Op.MAX, None)
    _index(Op.SCATTER, index)
    (axis,) = infer.axes_of(Op.SCATTER, base.shape, [axis])
    infer.gather_shape(base.shape, index.shape, axis, Op.SCATTER)
    infer.same_shape(Op.SCATTER, [index.shape, x.shape])
    dtype = infer.elementwise_dtype(how or Op.WHERE, [base.dtype, x.dtype])
    device = _device(Op.SCATTER, base, index, x)
    if how and dtype.is_float and dtype.bits == 16:
        return cast(scatter(cast(base, float32), index, cast(x, float32), axis, how), dtype)
    return LazyBuffer(Op.SCATTER, (base, index, x), (axis, how), base.shape, dtype, device)


def check(x: LazyBuffer, low: int, high: int, what: str) -> LazyBuffer:
    """``x``, an integer index. Computing it raises IndexingError, which names ``what``, unless all of its
    elements are in [low, high).
    """
    _index(Op.CHECK, x)
    return LazyBuffer(Op.CHECK, (x,), (index(low), index(high), what), x.shape, x.dtype, x.device)


def contiguous(x: LazyBuffer) -> LazyBuffer:
    """The same value, materialised in memory of its own."""
    if x.op in (Op.CONTIGUOUS, Op.BUFFER):
        return x
    return LazyBuffer(Op.CONTIGUOUS, (x,), None, x.shape, x.dtype, x.device)


def copy(x: LazyBuffer, device: str) -> LazyBuffer:
    """The same value on another device."""
    return x if x.device == device else LazyBuffer(Op.COPY, (x,), device, x.shape, x.dtype, device)


def after(x: LazyBuffer, *others: LazyBuffer) -> LazyBuffer:
    """``x``, and what is computed from it is computed after ``others``: it isn't shared with what is computed
    from ``x`` itself, so that the memory of that can be let go in between.
    """
    waits = [y for y in others if y.op not in (Op.BUFFER, Op.CONST, Op.IOTA)]
    if not waits:
        return x
    return LazyBuffer(Op.AFTER, (*waits, x), None, x.shape, x.dtype, _device(Op.AFTER, x, *waits))


def custom(function: Any, *operands: LazyBuffer, shape: Sequence[int], dtype: DType) -> LazyBuffer:
    """``function(*arrays) -> array``, run on the host with NumPy arrays; ``function`` must be pure."""
    if not operands:
        raise ShapeError("custom needs at least one operand")
    return LazyBuffer(Op.CUSTOM, operands, function, _ints(shape), dtype, _device(Op.CUSTOM, *operands))
