"""How every operation is built: operands become tensors of one shape and dtype, a graph node is made, and
recorded.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from dawdle.dtype import DEFAULT_FLOAT, DType, bfloat16, bool_, float16, float32, promote, promote_scalar
from dawdle.errors import DTypeError, RangeError, ShapeError
from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import BINARY, REDUCE, UNARY, Op
from dawdle.runtime.cache import Cache
from dawdle.runtime.trace import note_read
from dawdle.tensor.autograd import DETACHED, Composite, no_grad, record

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
Scalar: TypeAlias = "bool | int | float"
Operand: TypeAlias = "Tensor | bool | int | float | np.ndarray[Any, Any] | Sequence[Any]"
Dim: TypeAlias = "int | Sequence[int] | None"
Shape = tuple[int, ...]

HALF = (float16, bfloat16)

_operands: Cache[Hashable, LazyBuffer] = Cache("constant operands", 4096)

# how a node is built from its operands and the argument that its gradient rule will see
BUILD: dict[Op, Callable[..., LazyBuffer]] = {
    **{
        op: functools.partial(lambda op, arg, a: build.unary(op, a), op)
        for op in UNARY - {Op.CAST, Op.BITCAST}
    },
    **{op: functools.partial(lambda op, arg, a, b: build.binary(op, a, b), op) for op in BINARY},
    **{op: functools.partial(lambda op, arg, a: build.reduce(op, a, arg), op) for op in REDUCE},
    Op.CAST: lambda arg, a: build.cast(a, arg),
    Op.BITCAST: lambda arg, a: build.bitcast(a, arg),
    Op.WHERE: lambda arg, c, a, b: build.where(c, a, b),
    Op.FMA: lambda arg, a, b, c: build.fma(a, b, c),
    Op.SCAN: lambda arg, a: build.scan(arg[0], a, arg[1]),
    Op.RESHAPE: lambda arg, a: build.reshape(a, arg),
    Op.PERMUTE: lambda arg, a: build.permute(a, arg),
    Op.EXPAND: lambda arg, a: build.expand(a, arg),
    Op.FLIP: lambda arg, a: build.flip(a, arg),
    Op.SLICE: lambda arg, a: build.slice_(a, arg),
    Op.PAD: lambda arg, a: build.pad(a, arg),
    Op.WINDOW: lambda arg, a: build.window(a, arg),
    Op.UNWINDOW: lambda arg, a: build.unwindow(a, arg[0], arg[1]),
    Op.GATHER: lambda arg, a, i: build.gather(a, i, arg),
    Op.SCATTER: lambda arg, base, i, a: build.scatter(base, i, a, arg[0], arg[1]),
    Op.CHECK: lambda arg, a: build.check(a, *arg),
    Op.CONTIGUOUS: lambda arg, a: build.contiguous(a),
    Op.COPY: lambda arg, a: build.copy(a, arg[1]),
}


def on_host(
    function: Callable[..., Any], shape: Shape, *operands: Tensor, dtype: DType | None = None
) -> Tensor:
    """``function`` of the operands' arrays, called on the host when the value is needed: an array of
    ``shape`` and ``dtype`` (the first operand's by default). No gradient flows through it.
    """
    note_read(*operands)
    lazies = [t.lazy for t in operands]
    return operands[0]._new(build.custom(function, *lazies, shape=shape, dtype=dtype or lazies[0].dtype))


def same(x: Tensor) -> Tensor:
    """Another handle on the value of ``x``, in the same place among recorded operations."""
    note_read(x)
    return x._new(x.lazy, x._node)


def apply(op: Op, arg: Any, *operands: Tensor) -> Tensor:
    """The primitive ``op`` on tensors, recorded for gradients. ``arg`` is as in :data:`BUILD`."""
    note_read(*operands)
    lazy = BUILD[op](arg, *[t.lazy for t in operands])
    return operands[0]._new(lazy, record(op, arg, operands, lazy))


def composite(
    kind: Op | Composite, value: Callable[..., Tensor], *operands: Tensor, arg: Any = None
) -> Tensor:
    """``value(*operands)``, whose gradient is the rule for ``kind`` and not that of the operations it is made
    of.
    """
    with no_grad():
        result = value(*operands)
    return result._new(result.lazy, record(kind, arg, operands, result.lazy))


def keywords(**aliases: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Decorator: each keyword is another name of the parameter that it is given."""

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> R:
            for alias, name in aliases.items():
                if alias in kwargs:
                    if name in kwargs:
                        raise TypeError(
                            f"{function.__name__}() got both {name!r} and its alias {alias!r}; pass one"
                        )
                    kwargs[name] = kwargs.pop(alias)
            return function(*args, **kwargs)

        wrapper.aliases = {**getattr(function, "aliases", {}), **aliases}  # type: ignore[attr-defined]
        return wrapper

    return decorate


def dims(function: Callable[..., R]) -> Callable[..., R]:
    """Decorator: the keywords ``axis`` and ``axes`` mean ``dim``, and ``keepdims`` means ``keepdim``, as in
    NumPy.
    """
    return keywords(axis="dim", axes="dim", keepdims="keepdim")(function)


def axis_of(dim: int, ndim: int, what: str, shape: Shape) -> int:
    """``dim`` counted from the front. A 0-dimensional tensor accepts 0 and -1, as in PyTorch."""
    if not isinstance(dim, (int, np.integer)):
        raise ShapeError(f"{what}: dim must be an integer, got {dim!r}")
    if not -max(ndim, 1) <= dim < max(ndim, 1):
        fix = f"use -{ndim} to {ndim - 1}" if ndim else "it has none"
        raise ShapeError(f"{what}: dim {dim} is out of range for shape {shape} with {ndim} dimensions; {fix}")
    return int(dim) % max(ndim, 1)


def axes_of(dim: Dim, x: Tensor, what: str) -> Shape:
    """The distinct axes that ``dim`` names (all for None), in increasing order."""
    shape = x.lazy.shape
    n = len(shape)
    if dim is None:
        return tuple(range(n))
    if isinstance(dim, (int, np.integer)):
        return (axis_of(int(dim), n, what, shape),)[: max(n, 0)] if n else _none(int(dim), what, shape)
    if not isinstance(dim, Sequence):
        raise ShapeError(f"{what}: dim must be an integer or several, got {dim!r}")
    out = sorted(axis_of(d, n, what, shape) for d in dim)
    if len(set(out)) < len(out):
        raise ShapeError(f"{what}: dims {tuple(dim)} name a dimension of shape {shape} twice")
    return tuple(out) if n else ()


def _none(dim: int, what: str, shape: Shape) -> Shape:
    axis_of(dim, 0, what, shape)
    return ()


def shape_args(shape: Sequence[Any], what: str) -> Shape:
    """A shape given as ``f(2, 3)`` or ``f((2, 3))``."""
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = shape[0]
    for n in shape:
        if not isinstance(n, (int, np.integer)) or isinstance(n, bool):
            raise ShapeError(f"{what}: a shape holds integers, got {n!r} in {tuple(shape)}")
    return tuple(int(n) for n in shape)


def broadcast_shape(what: str, *shapes: Shape) -> Shape:
    """The common shape by NumPy's rules: aligned at the end, sizes equal or 1."""
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    out = []
    n = max(map(len, shapes))
    for column in zip(*[(1,) * (n - len(s)) + s for s in shapes], strict=True):
        sizes = set(column) - {1}
        if len(sizes) > 1:
            raise ShapeError(
                f"{what}: shapes {' and '.join(map(str, shapes))} don't broadcast: aligned at the end, "
                f"sizes {' and '.join(map(str, sorted(sizes)))} differ and neither is 1; "
                "reshape or expand an operand"
            )
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


def expand_to(x: Tensor, shape: Shape) -> Tensor:
    """``x`` broadcast to ``shape``, which must be compatible."""
    mine = x.lazy.shape
    if mine == shape:
        return x
    if len(mine) < len(shape):
        x = apply(Op.RESHAPE, (1,) * (len(shape) - len(mine)) + mine, x)
    return apply(Op.EXPAND, shape, x) if x.lazy.shape != shape else x


def fitting(value: R, dtype: DType) -> R:
    """``value`` itself. Raises RangeError for a number whose integer isn't within the range of ``dtype``:
    numbers are never wrapped, as arrays are by casts.
    """
    number = int(value) if isinstance(value, float) and dtype.is_int and math.isfinite(value) else value
    if not isinstance(number, int) or fits(number, dtype):
        return value
    shown = value if number.bit_length() < 200 else f"an integer of {number.bit_length()} bits"
    limits = "" if dtype.is_float else f", {dtype.min} to {dtype.max}"
    raise RangeError(f"{shown} is out of the range of {dtype.name}{limits}; cast the tensor to a wider dtype")


def fits(value: int, dtype: DType) -> bool:
    """Whether an integer is within the range of ``dtype``."""
    if dtype.is_int:
        return dtype.min <= value <= dtype.max
    return not dtype.is_float or value.bit_length() <= 1023


def constant(x: Tensor, value: Scalar, dtype: DType | None = None, shape: Shape | None = None) -> Tensor:
    """A constant on the device of ``x``, by default of its shape and dtype. Raises RangeError as
    :func:`fitting`.
    """
    lazy = x.lazy
    kind = dtype or lazy.dtype
    value = fitting(value, kind)
    return x._new(build.full(lazy.shape if shape is None else shape, value, kind, lazy.device))


def operand(x: Tensor, value: Scalar, dtype: DType) -> Tensor:
    """A number as an operand beside ``x``: equal ones share a graph node, as nobody realises it on its own.
    Raises RangeError as :func:`fitting`.
    """
    lazy = x.lazy
    key = (value, value == 0 and math.copysign(1, value) < 0, lazy.shape, dtype.name, lazy.device)
    known = _operands.get(key)
    if known is None:
        known = _operands.put(key, build.full(lazy.shape, fitting(value, dtype), dtype, lazy.device))
    return x._new(known, DETACHED)


def cast(x: Tensor, dtype: DType) -> Tensor:
    """``x`` in ``dtype``; the handle itself where nothing changes."""
    return x if x.lazy.dtype == dtype else apply(Op.CAST, dtype, x)


def to_float(x: Tensor) -> Tensor:
    """``x`` itself where it holds floats, else its values in float32."""
    return x if x.lazy.dtype.is_float else apply(Op.CAST, DEFAULT_FLOAT, x)


def widen(x: Tensor) -> Tensor:
    """16-bit floats in float32, for functions whose intermediate steps need the precision."""
    return cast(x, float32) if x.lazy.dtype in HALF else x


def is_scalar(x: object) -> bool:
    return isinstance(x, (bool, int, float, np.generic))


def number_of(value: Any) -> Scalar:
    """A Python number or a scalar of NumPy's as a Python number."""
    number: Scalar = value.item() if isinstance(value, np.generic) else value
    return number


def coerce(x: Tensor, other: Operand) -> Tensor:
    """An operand as a tensor on the device of ``x``: arrays and nested lists keep their dtype, a number gets
    the one that it gives beside ``x``, True and False stay bools. Raises RangeError as :func:`fitting`.
    """
    if hasattr(other, "lazy"):
        return other  # type: ignore[return-value]
    if not is_scalar(other):
        return type(x)._of(other, x.lazy.device)
    value = number_of(other)
    dtype = bool_ if isinstance(value, bool) else promote_scalar(x.lazy.dtype, value)
    return constant(x, value, dtype, ())


def tensors_of(operands: Iterable[Operand], what: str) -> list[Tensor]:
    """Operands as tensors: what isn't one becomes one beside the first that is, see :func:`coerce`.

    Raises DTypeError where none is a tensor.
    """
    given = list(operands)
    first: Any = next((x for x in given if hasattr(x, "lazy")), None)
    if given and first is None:
        kinds = ", ".join(sorted({type(x).__name__ for x in given}))
        raise DTypeError(f"{what} takes a tensor, and arrays or numbers beside it, got {kinds}; use Tensor()")
    return [coerce(first, x) for x in given]


def operands(*names: str) -> Callable[[F], F]:
    """Decorator: the parameters of these names may be anything that :func:`coerce` makes a tensor of, beside
    the first parameter. None stays.
    """

    def decorate(function: F) -> F:
        known = list(inspect.signature(function).parameters)
        places = [known.index(name) for name in names]

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if not args and known[0] not in kwargs:
                return function(**kwargs)  # Python says what is missing
            x = args[0] if args else kwargs[known[0]]
            given = [v if i not in places or v is None else coerce(x, v) for i, v in enumerate(args)]
            named = {k: v if k not in names or v is None else coerce(x, v) for k, v in kwargs.items()}
            return function(*given, **named)

        return wrapper  # type: ignore[return-value]

    return decorate


def common_dtype(tensors: Sequence[Tensor]) -> DType:
    """The dtype that all of ``tensors``, of which there is one at least, promote to."""
    return functools.reduce(promote, [t.lazy.dtype for t in tensors])


def along(x: Tensor, axis: int, ndim: int) -> Tensor:
    """A vector laid along ``axis`` of ``ndim`` dimensions, of which the others have size 1."""
    return apply(Op.RESHAPE, (*[1] * axis, x.lazy.size, *[1] * (ndim - axis - 1)), x)


def cut(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    """The part of ``x`` from ``start`` to ``stop`` along ``axis``."""
    ranges = tuple([(start, stop, 1) if i == axis else (0, n, 1) for i, n in enumerate(x.lazy.shape)])
    return apply(Op.SLICE, ranges, x)


def pair(what: str, a: Operand, b: Operand, dtype: DType | None = None) -> tuple[Tensor, Tensor]:
    """Two operands, at least one a tensor, broadcast to one shape and promoted to one dtype (or cast to
    ``dtype``).
    """
    if not hasattr(a, "lazy"):
        right, left = pair(what, b, a, dtype)
        return left, right
    x: Tensor = a  # type: ignore[assignment]
    if is_scalar(b):
        value = number_of(b)
        common = dtype or promote_scalar(x.lazy.dtype, value)
        return cast(x, common), operand(x, value, common)
    y = coerce(x, b)
    common = dtype or promote(x.lazy.dtype, y.lazy.dtype)
    x, y = cast(x, common), cast(y, common)
    if x.lazy.shape != y.lazy.shape:
        shape = broadcast_shape(what, x.lazy.shape, y.lazy.shape)
        x, y = expand_to(x, shape), expand_to(y, shape)
    return x, y
