"""Elementwise ops that vector units lack, in terms of those that they have; half precision in float32.

Afterwards floats are computed in float32 and float64 only. float16 and bfloat16 remain in loads, WHERE and
BITCAST; their conversions are bit operations, because compilers differ in what they know of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from dawdle.codegen import elementary, expr
from dawdle.codegen.expr import Expr, X, alu, const
from dawdle.dtype import (
    DType,
    bfloat16,
    float16,
    float32,
    from_storage,
    round_to,
    to_storage,
    uint8,
    uint16,
    uint32,
    uint64,
)
from dawdle.lazy.ops import Op

HALF = frozenset({float16, bfloat16})
UNSIGNED_OF = {8: uint8, 16: uint16, 32: uint32, 64: uint64}
Rule = Callable[[Expr], Expr]


# ---- half precision ----


def widen(x: Expr) -> Expr:
    """A float16 or bfloat16 value as float32."""
    if x.op is Op.CONST:
        return const(float(round_to(np.asarray(x.arg, np.float32), x.dtype)), float32)
    bits = x.src[0] if x.op is Op.BITCAST else alu(Op.BITCAST, x, dtype=uint16)
    if bits.op is Op.CONST:
        stored = np.asarray(bits.arg, np.uint16).view(x.dtype.storage)
        return const(float(from_storage(stored, x.dtype)), float32)
    return _WIDEN[x.dtype](bits)


def narrow(x: Expr, dtype: DType) -> Expr:
    """A float32 value rounded to ``dtype``, to nearest and ties to even; NaN stays NaN."""
    return _NARROW[dtype](elementary.V(x)).cast(uint16).bits(dtype).e


def _widen_bfloat16(bits: Expr) -> Expr:
    if bits.op is Op.CAST and bits.src[0].dtype == uint32:  # just narrowed: the upper half is zero
        bits = bits.src[0]
    else:
        bits = alu(Op.CAST, bits, dtype=uint32)
    return alu(Op.BITCAST, alu(Op.SHL, bits, const(16, uint32)), dtype=float32)


def _narrow_bfloat16(v: elementary.V) -> elementary.V:
    bits = v.bits(uint32)
    upper = bits >> 16
    return v.equals(v).where((bits + 0x7FFF + (upper & 1)) >> 16, upper | 0x40)


def _widen_float16(bits: Expr) -> Expr:
    """The bits as a float32's, whose exponent a multiplication corrects, exactly and for subnormals too."""
    half = elementary.V(bits).cast(uint32)
    shifted = (half & 0x7FFF) << 13
    finite = (shifted.bits(float32) * 2.0**112).bits(uint32)
    special = (half & 0x7C00).equals(0x7C00)
    return (special.where(shifted | 0x7F800000, finite) | ((half & 0x8000) << 16)).bits(float32).e


def _narrow_float16(v: elementary.V) -> elementary.V:
    bits = v.bits(uint32)
    size = bits & 0x7FFFFFFF
    normal = (size + (0xFFF - (112 << 23)) % (1 << 32) + ((size >> 13) & 1)) >> 13
    subnormal = (size.bits(float32) + 0.5).bits(uint32) - 0x3F000000  # the addition rounds to its last place
    rounded = (size < 0x38800000).where(subnormal, normal)
    rounded = (size < 0x477FF000).where(rounded, 0x7C00)
    return v.equals(v).where(rounded, 0x7E00) | ((bits >> 16) & 0x8000)


_WIDEN: dict[DType, Callable[[Expr], Expr]] = {bfloat16: _widen_bfloat16, float16: _widen_float16}
_NARROW: dict[DType, Callable[[elementary.V], elementary.V]] = {
    bfloat16: _narrow_bfloat16,
    float16: _narrow_float16,
}


def _in_float32(n: Expr) -> Expr:
    """op(a, b) -> narrow(op(widen(a), widen(b)))."""
    src = tuple(widen(s) if s.dtype in HALF else s for s in n.src)
    wide = expr.make(n.op, src, n.arg, float32 if n.dtype in HALF else n.dtype, n.lanes)
    wide = _apply(wide)
    return narrow(wide, n.dtype) if n.dtype in HALF else wide


def _half_cast(n: Expr) -> Expr:
    (x,) = n.src
    if x.dtype in HALF:
        x = widen(x)
    if n.dtype in HALF:
        return narrow(x if x.dtype == float32 else alu(Op.CAST, x, dtype=float32), n.dtype)
    return alu(Op.CAST, x, dtype=n.dtype) if x.dtype != n.dtype else x


def _half_negate(n: Expr) -> Expr:
    flipped = alu(Op.XOR, alu(Op.BITCAST, n.src[0], dtype=uint16), const(0x8000, uint16))
    return alu(Op.BITCAST, flipped, dtype=n.dtype)


def _half_const(n: Expr) -> Expr:
    bits = to_storage(round_to(np.asarray(n.arg, np.float32), n.dtype), n.dtype).view(np.uint16)
    return alu(Op.BITCAST, const(int(bits), uint16), dtype=n.dtype)


def _keep(n: Expr) -> Expr:
    return n


# ---- other ops ----


def _reciprocal(n: Expr) -> Expr:
    return alu(Op.DIV, const(1.0, n.dtype), n.src[0])


def _float_max(n: Expr) -> Expr:
    """The greater, NaN if either is; 0.0 counts as more than -0.0."""
    a, b = n.src if n.src[0].op is not Op.CONST else n.src[::-1]
    greater = alu(Op.WHERE, alu(Op.CMPLT, a, b), b, a)
    if b.op is Op.CONST and b.arg == b.arg:
        return alu(Op.ADD, greater, const(0.0, n.dtype)) if b.arg == 0 and str(b.arg) == "0.0" else greater
    bits = UNSIGNED_OF[n.dtype.bits]
    both = alu(Op.AND, alu(Op.BITCAST, a, dtype=bits), alu(Op.BITCAST, b, dtype=bits))
    proper = alu(Op.WHERE, alu(Op.CMPEQ, b, b), greater, b)
    return alu(Op.WHERE, alu(Op.CMPEQ, a, b), alu(Op.BITCAST, both, dtype=n.dtype), proper)


def _int_max(n: Expr) -> Expr:
    a, b = n.src
    return alu(Op.WHERE, alu(Op.CMPLT, a, b), b, a)


def _bool_max(n: Expr) -> Expr:
    return alu(Op.OR, *n.src)


def _shift(n: Expr) -> Expr:
    """Counts outside of [0, bits) give 0, or the sign where a signed number is shifted right."""
    x, count = n.src
    width = n.dtype.bits
    signed_right = n.op is Op.SHR and n.dtype.kind == "i"
    if count.op is Op.CONST:
        if 0 <= count.arg < width:
            return n
        return alu(Op.SHR, x, const(width - 1, n.dtype)) if signed_right else const(0, n.dtype)
    unsigned = UNSIGNED_OF[width]
    size = count if count.dtype == unsigned else alu(Op.BITCAST, count, dtype=unsigned)
    inside = alu(Op.CMPLT, size, const(width, unsigned))
    if signed_right:
        return alu(Op.SHR, x, alu(Op.WHERE, inside, count, const(width - 1, n.dtype)))
    masked = alu(Op.AND, count, const(width - 1, n.dtype))
    return alu(Op.WHERE, inside, expr.rebuild(n, (x, masked)), const(0, n.dtype))


# ---- the table ----


def _kind(n: Expr) -> str:
    """What rules are keyed by beside the op: "half", "float32", "float64", "int" or "bool"."""
    d = n.src[-1].dtype if n.src else n.dtype
    if d in HALF or n.dtype in HALF:
        return "half"
    return d.name if d.is_float else "int" if d.is_int else "bool"


_ROUNDED = (
    Op.RECIP, Op.SQRT, Op.EXP2, Op.LOG2, Op.SIN, Op.TRUNC, Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.IDIV, Op.MOD,
    Op.MAX, Op.CMPLT, Op.CMPEQ, Op.FMA, X.REDUCE, X.SCAN,
)  # fmt: skip
RULES: dict[tuple[Op | X, str], Rule] = {
    **{(op, "half"): _in_float32 for op in _ROUNDED},
    (Op.CAST, "half"): _half_cast,
    (Op.NEG, "half"): _half_negate,
    (Op.EXP2, "float32"): lambda n: elementary.exp2(n.src[0]),
    (Op.LOG2, "float32"): lambda n: elementary.log2(n.src[0]),
    (Op.SIN, "float32"): lambda n: elementary.sin(n.src[0]),
    **{(Op.RECIP, kind): _reciprocal for kind in ("float32", "float64")},
    **{(Op.MAX, kind): _float_max for kind in ("float32", "float64")},
    (Op.MAX, "int"): _int_max,
    (Op.MAX, "bool"): _bool_max,
    (Op.SHL, "int"): _shift,
    (Op.SHR, "int"): _shift,
}


def _apply(n: Expr) -> Expr:
    if n.op is Op.CONST and n.dtype in HALF:
        return _half_const(n)
    return RULES.get((n.op, _kind(n)), _keep)(n)


def decompose(roots: Iterable[Expr]) -> list[Expr]:
    """The same values without the ops in RULES; EXP2, LOG2 and SIN of float32 within 2 ulp."""
    return expr.rewrite(roots, _apply)
