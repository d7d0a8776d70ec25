"""What the kernel and loop IRs mean, in NumPy: the oracle for the code generator. For small sizes."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from dawdle.codegen.expr import Expr, X, walk
from dawdle.dtype import Array, DType, float32, from_storage, round_to, to_storage
from dawdle.errors import VerifyError
from dawdle.lazy.ops import Op

Load = Callable[[Expr, Array, Array | None], Array]  # the load, its index, its valid -> elements as values


def _divide(f: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Integer division with 0 where the divisor is 0."""

    def apply(a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            return f(a, b)
        return np.where(b == 0, 0, f(a, np.where(b == 0, 1, b))).astype(a.dtype)

    return apply


_ELEMENTWISE: dict[Op | X, Callable[..., Any]] = {
    Op.NEG: np.negative, Op.RECIP: lambda a: np.divide(a.dtype.type(1), a), Op.SQRT: np.sqrt,
    Op.EXP2: np.exp2, Op.LOG2: np.log2, Op.SIN: np.sin, Op.TRUNC: np.trunc,
    Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.DIV: np.divide,
    Op.IDIV: _divide(np.floor_divide), Op.MOD: _divide(np.remainder), Op.MAX: np.maximum, X.MIN: np.minimum,
    Op.CMPLT: np.less, Op.CMPEQ: np.equal, Op.AND: np.bitwise_and, Op.OR: np.bitwise_or,
    Op.XOR: np.bitwise_xor,
    Op.SHL: np.left_shift, Op.SHR: np.right_shift, Op.WHERE: np.where,
}  # fmt: skip
_UFUNC = {Op.ADD: np.add, Op.MUL: np.multiply, Op.MAX: np.maximum}


def cast(x: Array, dtype: DType) -> Array:
    """``x`` converted as CAST does."""
    return x != 0 if dtype.is_bool else round_to(x, dtype)


def identity(op: Op, dtype: DType) -> Any:
    """What a reduction with ``op`` over nothing gives."""
    return {Op.ADD: 0, Op.MUL: 1, Op.MAX: dtype.min}[op]


def _no_load(node: Expr, index: Array, valid: Array | None) -> Array:
    raise VerifyError(f"{node} loads, but no memory was given")


def evaluate_exprs(
    roots: Iterable[Expr], env: Mapping[Expr, Any], load: Load = _no_load, contract: bool = False
) -> list[Array]:
    """The values of scalar expressions for all values of their ranges and variables at once.

    ``env`` gives an array (or scalar) for each RANGE and VAR node that is free in ``roots``; they broadcast.
    Ranges that reductions and scans bind get axes of their own, in front. bfloat16 values are float32 arrays.
    With ``contract``, float32 products are rounded only after what is added to them, as with FMA.
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
            if contract and n.dtype == float32 and n.op in (Op.ADD, Op.SUB):
                values[n] = _contracted(n, values)
            elif n not in values:
                values[n] = _evaluate(n, [values[s] for s in n.src], axis, load)
    return [values[r] for r in roots]


def _evaluate(n: Expr, src: list[Array], axis: dict[Any, int], load: Load) -> Array:
    if n.op is Op.CONST:
        return round_to(np.asarray(n.arg), n.dtype)
    if n.op is X.RANGE and n.arg in axis:
        return np.arange(n.arg.extent).reshape((-1,) + (1,) * (-axis[n.arg] - 1))
    if n.op is Op.CAST:
        return cast(src[0], n.dtype)
    if n.op is Op.BITCAST:
        return from_storage(np.asarray(to_storage(src[0], n.src[0].dtype)).view(n.dtype.storage), n.dtype)
    if n.op is X.LOAD:
        return load(n, src[0], src[1] if len(src) > 1 else None)
    if n.op in (X.REDUCE, X.SCAN):
        return _along(n, src[0], axis)
    if n.op not in _ELEMENTWISE:
        raise VerifyError(f"{n} has no value here: {n.op!r} is unbound or of another stage")
    result = np.asarray(_ELEMENTWISE[n.op](*src))
    return round_to(result, n.dtype)


def _contracted(n: Expr, values: Mapping[Expr, Array]) -> Array:
    """A sum or difference in which products stay unrounded."""

    def wide(e: Expr) -> Array:
        if e.op is Op.MUL:
            return values[e.src[0]].astype(np.float64) * values[e.src[1]]
        return values[e].astype(np.float64)

    return np.asarray(_ELEMENTWISE[n.op](*map(wide, n.src))).astype(np.float32)


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
    start = identity(op, n.dtype)
    return np.asarray(_UFUNC[op].reduce(body, axis=axes, keepdims=True, dtype=work, initial=start))
