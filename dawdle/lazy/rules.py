"""Rewrite rules on graph nodes. Each is exact: no bit of a result changes, but for the payload of a NaN.

A rule takes a node whose operands are simplified already and gives a simpler node of equal value, or None.
What it gives may rest on new nodes; :mod:`dawdle.lazy.simplify` simplifies those too. The rules for movement
are in :mod:`dawdle.lazy.movement`.
"""
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dawdle.dtype import DType, bfloat16, float16, float32
from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.interpret import apply
from dawdle.lazy.ops import COMMUTATIVE, Op

Scalar = bool | int | float
Rule = Callable[[LazyBuffer], LazyBuffer | None]


# constants


def constant(x: LazyBuffer) -> Scalar | None:
    """The value of all elements where ``x`` is a constant, reshaped and expanded or not; else None."""
    for op in (Op.EXPAND, Op.RESHAPE):
        if x.op is op:
            (x,) = x.src
    return x.arg if x.op is Op.CONST else None


def is_constant(x: LazyBuffer, value: Scalar) -> bool:
    """Whether ``x`` is constant and ``value``; zeros of different signs differ."""
    found = constant(x)
    return found is not None and found == value and math.copysign(1, found) == math.copysign(1, value)


def like(node: LazyBuffer, value: Scalar) -> LazyBuffer:
    """``value`` in the shape, dtype and device of ``node``."""
    return build.full(node.shape, value, node.dtype, node.device)


def fold(node: LazyBuffer) -> LazyBuffer | None:
    """f(c, d) -> its value, for an elementwise f of constants."""
    values = [constant(s) for s in node.src]
    if any(v is None for v in values) or (node.op is Op.CAST and not _fits(values[0], node.dtype)):
        return None
    pairs = zip(values, node.src, strict=True)
    scalars = tuple(build.const(v, s.dtype, s.device) for v, s in pairs if v is not None)
    scalar = LazyBuffer(node.op, scalars, node.arg, (), node.dtype, node.device)
    with np.errstate(all="ignore"):
        value = apply(scalar, [apply(s, []) for s in scalars]).item()
    return like(node, value)


def _fits(value: Scalar | None, dtype: DType) -> bool:
    """Whether the cast of ``value`` is specified: that of a float to an integer dtype without it is not."""
    if not isinstance(value, float) or not dtype.is_int:
        return True
    return math.isfinite(value) and dtype.min <= math.trunc(value) <= dtype.max


# two operands: f(x, e) -> x; f(x, z) -> z; f(x, x)


def _ones(d: DType) -> Scalar:
    return True if d.is_bool else d.max if d.kind == "u" else -1


# e with f(x, e) = x. x + 0.0 is not x where x is -0.0, x + -0.0 always is
IDENTITY: dict[Op, Callable[[DType], Scalar | None]] = {
    Op.ADD: lambda d: -0.0 if d.is_float else 0,
    Op.SUB: lambda d: 0,
    Op.MUL: lambda d: 1,
    Op.DIV: lambda d: 1,
    Op.IDIV: lambda d: 1 if d.is_int else None,
    Op.MAX: lambda d: d.min,
    Op.AND: _ones,
    Op.OR: lambda d: 0,
    Op.XOR: lambda d: 0,
    Op.SHL: lambda d: 0,
    Op.SHR: lambda d: 0,
}
# z and the result r with f(x, z) = r. 0.0 * x is not 0.0 where x is negative, infinite or NaN
ABSORBING: dict[Op, Callable[[DType], tuple[Scalar, Scalar] | None]] = {
    Op.MUL: lambda d: (0, 0) if d.is_int else None,
    Op.MOD: lambda d: (1, 0) if d.is_int else None,
    Op.MAX: lambda d: None if d.is_float else (d.max, d.max),
    Op.AND: lambda d: (0, 0),
    Op.OR: lambda d: (_ones(d), _ones(d)),
    Op.CMPLT: lambda d: (d.min, False),
}
# f(x, x), where it is x (None) or a constant
EQUAL: dict[Op, Callable[[DType], Scalar | None]] = {
    Op.SUB: lambda d: 0,
    Op.MAX: lambda d: None,
    Op.AND: lambda d: None,
    Op.OR: lambda d: None,
    Op.XOR: lambda d: 0,
    Op.CMPLT: lambda d: False,
    Op.CMPEQ: lambda d: True,
}


def _orders(node: LazyBuffer) -> list[tuple[LazyBuffer, LazyBuffer]]:
    a, b = node.src
    return [(a, b), (b, a)] if node.op in COMMUTATIVE else [(a, b)]


def identity(node: LazyBuffer) -> LazyBuffer | None:
    """f(x, e) -> x"""
    e = IDENTITY[node.op](node.dtype)
    return next((x for x, y in _orders(node) if e is not None and is_constant(y, e)), None)


def absorbing(node: LazyBuffer) -> LazyBuffer | None:
    """f(x, z) -> r"""
    pair = ABSORBING[node.op](node.src[0].dtype)
    if pair is not None and any(is_constant(y, pair[0]) for _, y in _orders(node)):
        return like(node, pair[1])
    return None


def equal(node: LazyBuffer) -> LazyBuffer | None:
    """f(x, x) -> x or a constant"""
    a, b = node.src
    # inf - inf is NaN, and NaN == NaN is False
    if a is not b or (node.op in (Op.SUB, Op.CMPEQ) and a.dtype.is_float):
        return None
    value = EQUAL[node.op](a.dtype)
    return a if value is None else like(node, value)


def negate(node: LazyBuffer) -> LazyBuffer | None:
    """x * -1 -> -x"""
    found = next((x for x, y in _orders(node) if node.dtype.kind != "u" and is_constant(y, -1)), None)
    return None if found is None else build.unary(Op.NEG, found)


def divide_by_power(node: LazyBuffer) -> LazyBuffer | None:
    """x / 2**k -> x * 2**-k, where both are normal numbers: the exact results are equal"""
    x, y = node.src
    value = constant(y)
    if not value or not math.isfinite(value):
        return None
    mantissa, exponent = math.frexp(value)
    if abs(mantissa) != 0.5 or abs(exponent - 1) > (14 if node.dtype == float16 else 126):
        return None
    return build.binary(Op.MUL, x, like(y, 1 / value))


def shift_out(node: LazyBuffer) -> LazyBuffer | None:
    """x << k -> 0, where k is negative or at least the width"""
    count = constant(node.src[1])
    return None if count is None or 0 <= count < node.dtype.bits else like(node, 0)


# one operand


def double_negation(node: LazyBuffer) -> LazyBuffer | None:
    """-(-x) -> x"""
    (x,) = node.src
    return x.src[0] if x.op is Op.NEG else None


def truncate_integer(node: LazyBuffer) -> LazyBuffer | None:
    """trunc(x) -> x, where x is trunc(y) or an integer's value"""
    (x,) = node.src
    whole = x.op is Op.TRUNC or (x.op is Op.CAST and not x.src[0].dtype.is_float)
    return x if whole else None


SIGNIFICANT = {float16: 11, bfloat16: 8, float32: 24}


def lossless(a: DType, b: DType) -> bool:
    """Whether ``b`` holds every value of ``a``."""
    if a == b or a.is_bool:
        return True
    if b.is_bool or (a.is_float and not b.is_float):
        return False
    if a.is_float:
        return b.bits > a.bits
    if b.is_float:
        return a.bits - (a.kind == "i") <= SIGNIFICANT.get(b, 53)
    return b.min <= a.min and a.max <= b.max


def cast_cast(node: LazyBuffer) -> LazyBuffer | None:
    """cast(cast(x)) -> cast(x), where the inner cast loses nothing that the outer keeps"""
    (inner,) = node.src
    if inner.op is not Op.CAST:
        return None
    (x,) = inner.src
    # integers wrap: the low bits survive any integer dtype that has them
    ints = all(d.is_int for d in (x.dtype, inner.dtype, node.dtype))
    wraps = ints and inner.dtype.bits >= node.dtype.bits
    return build.cast(x, node.dtype) if wraps or lossless(x.dtype, inner.dtype) else None


def bitcast_bitcast(node: LazyBuffer) -> LazyBuffer | None:
    """bitcast(bitcast(x)) -> bitcast(x)"""
    (inner,) = node.src
    # through a float, a NaN's payload may change
    keeps = inner.op is Op.BITCAST and not inner.dtype.is_float
    return build.bitcast(inner.src[0], node.dtype) if keeps else None


# three operands


def known_condition(node: LazyBuffer) -> LazyBuffer | None:
    """where(True, a, b) -> a; where(False, a, b) -> b; where(c, a, a) -> a"""
    c, a, b = node.src
    known = True if a is b else constant(c)
    return None if known is None else a if known else b


def truth_values(node: LazyBuffer) -> LazyBuffer | None:
    """where(c, True, False) -> c; where(c, False, True) -> c ^ True"""
    c, a, b = node.src
    if not node.dtype.is_bool or {constant(a), constant(b)} != {True, False}:
        return None
    return c if constant(a) else build.binary(Op.XOR, c, like(c, True))


def negated_condition(node: LazyBuffer) -> LazyBuffer | None:
    """where(c ^ True, a, b) -> where(c, b, a)"""
    c, a, b = node.src
    if c.op is not Op.XOR:
        return None
    found = next((x for x, y in _orders(c) if is_constant(y, True)), None)
    return None if found is None else build.where(found, b, a)


# along axes


def reduce_nothing(node: LazyBuffer) -> LazyBuffer | None:
    """A reduction over no elements -> the identity of its op"""
    least = {Op.SUM: 0, Op.PROD: 1, Op.AMAX: node.dtype.min}
    return like(node, least[node.op]) if node.src[0].size == 0 else None


def reduce_constant(node: LazyBuffer) -> LazyBuffer | None:
    """A reduction of a constant; sums and products of floats would round in another order"""
    value, n = constant(node.src[0]), node.src[0].size // max(node.size, 1)
    if value is None or (node.dtype.is_float and node.op is not Op.AMAX):
        return None
    if node.op is Op.AMAX:
        return like(node, value)
    return like(node, value * n if node.op is Op.SUM else pow(int(value), n, 1 << node.dtype.bits))


def reduce_unit_axes(node: LazyBuffer) -> LazyBuffer | None:
    """Leave out axes of size 1; a sum of one float is x + 0.0, which makes 0.0 of -0.0"""
    (x,) = node.src
    axes = tuple(a for a in node.arg if x.shape[a] != 1)
    if axes == node.arg:
        return None
    if not axes and node.op is Op.SUM and x.dtype.is_float:
        return build.binary(Op.ADD, x, like(x, 0.0))
    return build.reduce(node.op, x, axes)


def scan_unit_axis(node: LazyBuffer) -> LazyBuffer | None:
    """A scan along an axis of size 1, or the running maximum of a constant -> its operand"""
    (x,), (op, axis) = node.src, node.arg
    return x if x.shape[axis] == 1 or (op is Op.MAX and constant(x) is not None) else None


# storage


def copy_copy(node: LazyBuffer) -> LazyBuffer | None:
    """copy(copy(x)) -> copy(x) or x; copy(c) -> c"""
    (x,) = node.src
    value = constant(x)
    if value is not None:
        return like(node, value)
    return build.copy(x.src[0], node.device) if x.op is Op.COPY else None


def contiguous_twice(node: LazyBuffer) -> LazyBuffer | None:
    """contiguous(x) -> x, where x has memory of its own"""
    return node.src[0] if node.src[0].op in (Op.CONTIGUOUS, Op.BUFFER) else None


def checked(node: LazyBuffer) -> LazyBuffer | None:
    """check(x) -> x: whoever compiles the graph has taken care of its checks"""
    return node.src[0]


RULES: dict[Op, tuple[Rule, ...]] = {
    Op.CAST: (cast_cast, fold),
    Op.BITCAST: (bitcast_bitcast,),
    Op.NEG: (double_negation, fold),
    Op.RECIP: (fold,),
    Op.SQRT: (fold,),
    Op.EXP2: (fold,),
    Op.LOG2: (fold,),
    Op.SIN: (fold,),
    Op.TRUNC: (truncate_integer, fold),
    Op.ADD: (fold, identity),
    Op.SUB: (fold, identity, equal),
    Op.MUL: (fold, identity, absorbing, negate),
    Op.DIV: (fold, identity, divide_by_power),
    Op.IDIV: (fold, identity),
    Op.MOD: (fold, absorbing),
    Op.MAX: (fold, identity, absorbing, equal),
    Op.CMPLT: (fold, absorbing, equal),
    Op.CMPEQ: (fold, equal),
    Op.AND: (fold, identity, absorbing, equal),
    Op.OR: (fold, identity, absorbing, equal),
    Op.XOR: (fold, identity, equal),
    Op.SHL: (fold, identity, shift_out),
    Op.SHR: (fold, identity),
    Op.WHERE: (known_condition, truth_values, negated_condition),
    Op.FMA: (fold,),
    Op.SUM: (reduce_nothing, reduce_constant, reduce_unit_axes),
    Op.PROD: (reduce_nothing, reduce_constant, reduce_unit_axes),
    Op.AMAX: (reduce_nothing, reduce_constant, reduce_unit_axes),
    Op.SCAN: (scan_unit_axis,),
    Op.COPY: (copy_copy,),
    Op.CONTIGUOUS: (contiguous_twice,),
    Op.CHECK: (checked,),
}
