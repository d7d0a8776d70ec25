"""Functions of elements: arithmetic, comparisons, bits, and the elementary functions."""

from __future__ import annotations

from dawdle.tensor import elementwise, linalg, transcendental
from dawdle.tensor.elementwise import inplace, operator


class Elements:
    __slots__ = ()

    add, sub, mul, div = elementwise.add, elementwise.sub, elementwise.mul, elementwise.div
    __add__, __radd__ = operator(elementwise.add), operator(elementwise.add, True)
    __sub__, __rsub__ = operator(elementwise.sub), operator(elementwise.sub, True)
    __mul__, __rmul__ = operator(elementwise.mul), operator(elementwise.mul, True)
    __truediv__, __rtruediv__ = operator(elementwise.div), operator(elementwise.div, True)
    __floordiv__, __rfloordiv__ = operator(elementwise.floordiv), operator(elementwise.floordiv, True)
    __mod__, __rmod__ = operator(elementwise.mod), operator(elementwise.mod, True)
    __pow__, __rpow__ = operator(transcendental.power), operator(transcendental.power, True)
    __matmul__, __rmatmul__ = operator(linalg.matmul), linalg.rmatmul
    __and__, __rand__ = operator(elementwise.bitand), operator(elementwise.bitand, True)
    __or__, __ror__ = operator(elementwise.bitor), operator(elementwise.bitor, True)
    __xor__, __rxor__ = operator(elementwise.bitxor), operator(elementwise.bitxor, True)
    __lshift__, __rlshift__ = operator(elementwise.lshift), operator(elementwise.lshift, True)
    __rshift__, __rrshift__ = operator(elementwise.rshift), operator(elementwise.rshift, True)
    __iadd__, __isub__, __imul__ = (
        inplace(elementwise.add),
        inplace(elementwise.sub),
        inplace(elementwise.mul),
    )
    __itruediv__, __ifloordiv__ = inplace(elementwise.div), inplace(elementwise.floordiv)
    __imod__, __ipow__ = inplace(elementwise.mod), inplace(transcendental.power)
    __iand__, __ior__, __ixor__ = (
        inplace(elementwise.bitand),
        inplace(elementwise.bitor),
        inplace(elementwise.bitxor),
    )
    __ilshift__, __irshift__ = inplace(elementwise.lshift), inplace(elementwise.rshift)
    __neg__, __invert__, __abs__ = elementwise.neg, elementwise.invert, elementwise.absolute
    __round__ = elementwise.rounded
    __lt__, __gt__ = operator(elementwise.lt), operator(elementwise.gt)
    __le__, __ge__ = operator(elementwise.le), operator(elementwise.ge)
    __eq__, __ne__ = operator(elementwise.eq), operator(elementwise.ne)  # type: ignore[assignment]
    true_divide = elementwise.div
    floor_divide, remainder = elementwise.floordiv, elementwise.mod
    neg, reciprocal, square = elementwise.neg, elementwise.reciprocal, elementwise.square
    abs, sign = elementwise.absolute, elementwise.sign
    maximum, minimum, clamp, clip = (
        elementwise.maximum,
        elementwise.minimum,
        elementwise.clamp,
        elementwise.clamp,
    )
    lt, gt, le, ge = elementwise.lt, elementwise.gt, elementwise.le, elementwise.ge
    eq, ne, isclose = elementwise.eq, elementwise.ne, elementwise.isclose
    isnan, isinf, isfinite = elementwise.isnan, elementwise.isinf, elementwise.isfinite
    bitwise_and, bitwise_or, bitwise_xor = elementwise.bitand, elementwise.bitor, elementwise.bitxor
    bitwise_not = elementwise.invert
    logical_not, logical_and = elementwise.logical_not, elementwise.logical_and
    logical_or, logical_xor = elementwise.logical_or, elementwise.logical_xor
    masked_fill, lerp = elementwise.masked_fill, elementwise.lerp
    trunc, floor, ceil, round, frac = (
        elementwise.trunc, elementwise.floor, elementwise.ceil, elementwise.round, elementwise.frac
    )  # fmt: skip
    exp, exp2, expm1 = transcendental.exp, transcendental.exp2, transcendental.expm1
    log, log2, log10, log1p = (
        transcendental.log,
        transcendental.log2,
        transcendental.log10,
        transcendental.log1p,
    )
    logaddexp, pow, erf = transcendental.logaddexp, transcendental.power, transcendental.erf
    sqrt, rsqrt = transcendental.sqrt, transcendental.rsqrt
    sin, cos, tan = transcendental.sin, transcendental.cos, transcendental.tan
    sinh, cosh, tanh, sigmoid = (
        transcendental.sinh,
        transcendental.cosh,
        transcendental.tanh,
        transcendental.sigmoid,
    )
    where = elementwise.where
