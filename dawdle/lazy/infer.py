"""Shapes and dtypes of results, checked when a node is built, so that an error points at the user's line."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dawdle.dtype import DType, bool_
from dawdle.errors import DTypeError, ShapeError
from dawdle.lazy.ops import BITWISE, COMPARE, Op

Shape = tuple[int, ...]


def _named(op: Op) -> str:
    return op.name.lower()


# what each elementwise op accepts: a predicate on the operand's dtype, and how to say it
Accepts = tuple[Callable[[DType], bool], str]
_ANY: Accepts = (lambda d: True, "any dtype")
_NUMBER: Accepts = (lambda d: not d.is_bool, "integers and floats")
_FLOAT: Accepts = (lambda d: d.is_float, "floats")
_INT: Accepts = (lambda d: d.is_int, "integers")
_BITS: Accepts = (lambda d: not d.is_float, "bool and integers")
ACCEPTS: dict[Op, Accepts] = {
    **dict.fromkeys((Op.CAST, Op.BITCAST, Op.MAX, Op.CMPLT, Op.CMPEQ, Op.WHERE, Op.AMAX), _ANY),
    **dict.fromkeys((Op.NEG, Op.ADD, Op.SUB, Op.MUL, Op.IDIV, Op.MOD, Op.SUM, Op.PROD), _NUMBER),
    **dict.fromkeys((Op.RECIP, Op.SQRT, Op.EXP2, Op.LOG2, Op.SIN, Op.TRUNC, Op.DIV, Op.FMA), _FLOAT),
    **dict.fromkeys(BITWISE, _BITS),
    **dict.fromkeys((Op.SHL, Op.SHR), _INT),
}


def elementwise_dtype(op: Op, dtypes: Sequence[DType]) -> DType:
    """Result dtype of an elementwise op on operands of ``dtypes`` (WHERE: of its two branches)."""
    accepts, words = ACCEPTS[op]
    for d in dtypes:
        if not accepts(d):
            raise DTypeError(f"{_named(op)} takes {words}, got {d.name}; cast the operand first")
    if len(set(dtypes)) > 1:
        names = ", ".join(d.name for d in dtypes)
        raise DTypeError(f"{_named(op)} needs operands of one dtype, got {names}; cast one")
    return bool_ if op in COMPARE else dtypes[0]


def same_shape(op: Op, shapes: Sequence[Shape]) -> Shape:
    if len(set(shapes)) > 1:
        words = " and ".join(map(str, shapes))
        raise ShapeError(f"{_named(op)} needs operands of one shape, got {words}; expand one")
    return shapes[0]


def axes_of(op: Op, shape: Shape, axes: Sequence[int]) -> tuple[int, ...]:
    """``axes`` sorted, checked to be distinct and within ``shape``; negative axes count from the end."""
    out = []
    for a in axes:
        if not -len(shape) <= a < len(shape):
            raise ShapeError(f"{_named(op)}: axis {a} is out of range; shape {shape} has {len(shape)} axes")
        out.append(a % len(shape))
    if len(set(out)) < len(out):
        raise ShapeError(f"{_named(op)}: axes {tuple(axes)} name an axis of shape {shape} twice")
    return tuple(sorted(out))


def reduce_shape(shape: Shape, axes: Sequence[int]) -> Shape:
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def _count(shape: Shape) -> int:
    n = 1
    for s in shape:
        n *= s
    return n


def reshape_shape(shape: Shape, new: Shape) -> Shape:
    if any(n < 0 for n in new) or _count(shape) != _count(new):
        count = f"{_count(shape)} elements"
        raise ShapeError(f"cannot reshape {shape} with {count} into {new} with {_count(new)}")
    return new


def permute_shape(shape: Shape, order: Sequence[int]) -> Shape:
    if sorted(order) != list(range(len(shape))):
        raise ShapeError(f"permute: {tuple(order)} is not an order of the {len(shape)} axes of shape {shape}")
    return tuple(shape[i] for i in order)


def expand_shape(shape: Shape, new: Shape) -> Shape:
    if len(shape) != len(new) or any(a != b and a != 1 for a, b in zip(shape, new, strict=True)):
        raise ShapeError(f"cannot expand {shape} to {new}: only axes of size 1 expand; add axes with reshape")
    if any(n < 0 for n in new):
        raise ShapeError(f"cannot expand {shape} to {new}: sizes must not be negative")
    return counted(new)


def counted(shape: Shape) -> Shape:
    """``shape`` itself. Raises ShapeError where indices of 64 bits can't tell its elements apart."""
    if math.prod(shape) >= 1 << 63:
        raise ShapeError(f"shape {shape} has more elements than 64-bit indices count")
    return shape


def slice_shape(shape: Shape, arg: Sequence[tuple[int, int, int]]) -> Shape:
    """``arg``: (start, stop, step) for each axis with 0 <= start <= stop <= size and step >= 1."""
    if len(arg) != len(shape):
        raise ShapeError(f"slice: {len(arg)} ranges for the {len(shape)} axes of shape {shape}")
    for n, (start, stop, step) in zip(shape, arg, strict=True):
        if not (0 <= start <= stop <= n and step >= 1):
            where = f"({start}, {stop}, {step}) is not within an axis of size {n}"
            raise ShapeError(f"slice: {where}; it needs 0 <= start <= stop <= size and step >= 1")
    return tuple(-(-(stop - start) // step) for start, stop, step in arg)


def pad_shape(shape: Shape, arg: Sequence[tuple[int, int, int]]) -> Shape:
    """``arg``: (low, high, interior) for each axis, all >= 0."""
    if len(arg) != len(shape):
        raise ShapeError(f"pad: {len(arg)} amounts for the {len(shape)} axes of shape {shape}")
    if any(p < 0 for amounts in arg for p in amounts):
        raise ShapeError(f"pad: amounts {tuple(arg)} must not be negative; use a slice to remove elements")
    sizes = zip(shape, arg, strict=True)
    return counted(tuple(low + n + max(n - 1, 0) * interior + high for n, (low, high, interior) in sizes))


def window_shape(shape: Shape, arg: Sequence[tuple[int, int, int]]) -> Shape:
    """Shape (..., positions..., sizes...) for ``arg``: (size, stride, dilation) for each of the last axes."""
    k = len(arg)
    if k > len(shape):
        raise ShapeError(f"window: {k} windows for shape {shape} with {len(shape)} axes")
    outs = []
    for n, (size, stride, dilation) in zip(shape[len(shape) - k :], arg, strict=True):
        if min(size, stride, dilation) < 1:
            numbers = f"({size}, {stride}, {dilation})"
            raise ShapeError(f"window: size, stride and dilation must be >= 1, got {numbers}")
        span = (size - 1) * dilation + 1
        if span > n:
            what = f"a window of {size} with dilation {dilation} spans {span} elements"
            raise ShapeError(f"window: {what}, the axis has {n}; pad it first")
        outs.append((n - span) // stride + 1)
    return (*shape[: len(shape) - k], *outs, *(size for size, _, _ in arg))


def unwindow_shape(shape: Shape, arg: Sequence[tuple[int, int, int]], sizes: Shape) -> Shape:
    """Inverse of :func:`window_shape`: ``sizes`` are those of the last axes of the array that WINDOW read."""
    if len(sizes) != len(arg):
        raise ShapeError(f"unwindow: {len(arg)} windows, but {len(sizes)} sizes of axes")
    lead = shape[: len(shape) - 2 * len(arg)]
    if any(n <= (size - 1) * dilation for n, (size, _, dilation) in zip(sizes, arg, strict=True)) or (
        window_shape((*lead, *sizes), arg) != shape
    ):
        raise ShapeError(f"unwindow: windows {tuple(arg)} over sizes {sizes} do not give shape {shape}")
    return (*lead, *sizes)


def gather_shape(shape: Shape, index: Shape, axis: int, op: Op = Op.GATHER) -> Shape:
    """The index's shape, which must equal ``shape`` but along ``axis``."""
    rest, index_rest = ((*s[:axis], *s[axis + 1 :]) for s in (shape, index))
    if len(shape) != len(index) or rest != index_rest:
        raise ShapeError(f"{_named(op)}: index of shape {index} must match {shape} in every axis but {axis}")
    return index
