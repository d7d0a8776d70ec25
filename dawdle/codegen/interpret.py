"""What the kernel and loop IRs mean, in NumPy: the oracle for the code generator. For small sizes."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from dawdle.codegen.expr import Expr, X, walk
from dawdle.dtype import DType, bfloat16, int64
from dawdle.errors import VerifyError
from dawdle.lazy.ops import Op

Array = np.ndarray[Any, Any]
Load = Callable[[Expr, Array, Array | None], Array]  # the load, its index, its valid -> elements in the compute dtype


def round_bfloat16(x: Array) -> Array:
    """float32 values rounded to the nearest bfloat16, ties to even; NaN stays NaN."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1)).astype(np.uint32)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), (bits & np.uint32(0xFFFF0000)) | np.uint32(0x400000), rounded).astype(np.uint32).view(np.float32)


def to_compute(stored: Array, dtype: DType) -> Array:
    """Elements of a buffer as values: bfloat16's bit patterns become float32."""
    return (stored.astype(np.uint32) << 16).view(np.float32) if dtype == bfloat16 else stored


def to_storage(values: Array, dtype: DType) -> Array:
    """Values as they lie in a buffer."""
    if dtype == bfloat16:
        return (round_bfloat16(values).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(dtype.storage)


def _shift(op: Op) -> Callable[[Array, Array], Array]:
    def apply(a: Array, b: Array) -> Array:
        return (np.left_shift if op is Op.SHL else np.right_shift)(a, b)

    return apply


def _divide(f: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Integer division with 0 where the divisor is 0."""

    def apply(a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            return f(a, b)
        return np.where(b == 0, 0, f(a, np.where(b == 0, 1, b))).astype(a.dtype)

    return apply


_ELEMENTWISE: dict[Op | X, Callable[..., Any]] = {
    Op.NEG: np.negative, Op.RECIP: lambda a: np.divide(a.dtype.type(1), a), Op.SQRT: np.sqrt, Op.EXP2: np.exp2,
    Op.LOG2: np.log2, Op.SIN: np.sin, Op.TRUNC: np.trunc,
    Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.DIV: np.divide,
    Op.IDIV: _divide(np.floor_divide), Op.MOD: _divide(np.remainder), Op.MAX: np.maximum, X.MIN: np.minimum,
    Op.CMPLT: np.less, Op.CMPEQ: np.equal, Op.AND: np.bitwise_and, Op.OR: np.bitwise_or, Op.XOR: np.bitwise_xor,
    Op.SHL: _shift(Op.SHL), Op.SHR: _shift(Op.SHR), Op.WHERE: np.where,
}  # fmt: skip
_UFUNC = {Op.ADD: np.add, Op.MUL: np.multiply, Op.MAX: np.maximum}


def cast(x: Array, dtype: DType) -> Array:
    """``x`` converted as CAST does."""
    y = x.astype(dtype.compute)
    return round_bfloat16(y) if dtype == bfloat16 else y


def _bitcast(x: Array, source: DType, dtype: DType) -> Array:
    return to_compute(np.ascontiguousarray(to_storage(x, source)).view(dtype.storage), dtype)


def identity(op: Op, dtype: DType) -> Any:
    """What a reduction with ``op`` over nothing gives."""
    return {Op.ADD: 0, Op.MUL: 1, Op.MAX: dtype.min}[op]


def _no_load(node: Expr, index: Array, valid: Array | None) -> Array:
    raise VerifyError(f"{node} loads, but no memory was given")


def evaluate_exprs(roots: Iterable[Expr], env: Mapping[Expr, Any], load: Load = _no_load) -> list[Array]:
    """The values of scalar expressions for all values of their ranges and variables at once.

    ``env`` gives an array (or scalar) for each RANGE and VAR node that is free in ``roots``; the arrays broadcast.
    Ranges that reductions and scans bind get axes of their own, in front. bfloat16 values are float32 arrays.
    """
    roots = list(roots)
    order = walk(roots)
    values: dict[Expr, Array] = {k: np.asarray(v, k.dtype.compute) for k, v in env.items()}
    ndim = max((v.ndim for v in values.values()), default=0)
    axis: dict[Any, int] = {}  # counted from the end, so that broadcasting keeps it
    for n in order:
        for r in n.arg[1] if n.op is X.REDUCE else (n.arg[1],) if n.op is X.SCAN else ():
            if r not in axis and not any(k.arg is r for k in values if k.op is X.RANGE):
                axis[r] = -(ndim + 1 + len(axis))
    with np.errstate(all="ignore"):
        for n in order:
            if n not in values:
                values[n] = _evaluate(n, [values[s] for s in n.src], axis, load)
    return [values[r] for r in roots]


def _evaluate(n: Expr, src: list[Array], axis: dict[Any, int], load: Load) -> Array:
    if n.op is Op.CONST:
        return cast(np.asarray(n.arg), n.dtype) if n.dtype.is_float else np.asarray(n.arg, n.dtype.compute)
    if n.op is X.RANGE and n.arg in axis:
        return np.arange(n.arg.extent).reshape((-1,) + (1,) * (-axis[n.arg] - 1))
    if n.op is Op.CAST:
        return cast(src[0], n.dtype)
    if n.op is Op.BITCAST:
        return _bitcast(src[0], n.src[0].dtype, n.dtype)
    if n.op is X.LOAD:
        return load(n, src[0], src[1] if len(src) > 1 else None)
    if n.op in (X.REDUCE, X.SCAN):
        return _along(n, src[0], axis)
    if n.op not in _ELEMENTWISE:
        raise VerifyError(f"{n} has no value here: {n.op!r} is unbound or of another stage")
    result = np.asarray(_ELEMENTWISE[n.op](*src))
    return round_bfloat16(result) if n.dtype == bfloat16 else result.astype(n.dtype.compute, copy=False)


def _along(n: Expr, body: Array, axis: dict[Any, int]) -> Array:
    """A reduction or scan of ``body``, whose ranges lie along ``axis``."""
    op = n.arg[0]
    ranges = n.arg[1] if n.op is X.REDUCE else (n.arg[1],)
    missing = [r for r in ranges if r not in axis]
    if missing:
        raise VerifyError(f"{n} runs over {missing}, which are bound outside")
    shape = [1] * max(body.ndim, *(-axis[r] for r in ranges))
    for r in ranges:
        shape[axis[r]] = r.extent
    body = np.broadcast_to(body, np.broadcast_shapes(body.shape, tuple(shape)))
    work = n.dtype.compute
    if n.op is X.SCAN:
        return np.asarray(_UFUNC[op].accumulate(body, axis=axis[ranges[0]], dtype=work))
    axes = tuple(axis[r] for r in ranges)
    return np.asarray(_UFUNC[op].reduce(body, axis=axes, keepdims=True, dtype=work, initial=identity(op, n.dtype)))
