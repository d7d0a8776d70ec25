"""Powers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dawdle.dtype import bool_, float64, int8, promote_scalar
from dawdle.errors import DTypeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.autograd import Composite, Node, Parts, rule
from dawdle.tensor.core import (
    Operand,
    Scalar,
    apply,
    cast,
    composite,
    constant,
    is_scalar,
    number_of,
    pair,
    widen,
)
from dawdle.tensor.extended import pow_of
from dawdle.tensor.transcendental import log, sqrt

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

REPEATED = 8  # the highest power made of products, which is still as accurate as pow
INVERTED = 2  # the highest one whose inverse is


def power(x: Operand, exponent: Operand) -> Tensor:
    """``x`` to the power of ``exponent``, as NumPy's ``**``: NaN where a negative number is raised to a
    fraction.

    Integers raised to integers stay integers and wrap; to a negative one they give 0 but for bases 1 and -1,
    and a negative number of Python's is refused (DTypeError).
    """
    if hasattr(x, "lazy") and is_scalar(exponent):
        value = number_of(exponent)
        return _static_power(cast(x, promote_scalar(x.lazy.dtype, value)), value)  # type: ignore[arg-type]
    a, b = pair("pow", x, exponent)
    if a.lazy.dtype.is_float:
        return composite(Composite.POW, _float_power, a, b)
    if a.lazy.dtype.is_bool:
        a, b = cast(a, int8), cast(b, int8)
    return _integer_power(a, b)


def float_power(x: Operand, exponent: Operand) -> Tensor:
    """:func:`power` in float64, whatever the operands."""
    return power(*pair("float_power", x, exponent, float64))


def _static_power(x: Tensor, exponent: Scalar) -> Tensor:
    whole = math.isfinite(exponent) and exponent == int(exponent)
    if not x.lazy.dtype.is_float:
        n = int(exponent)
        if n < 0:
            raise DTypeError(f"integers can't be raised to the negative power {n}; cast to float first")
        return _repeated(x, n)
    if whole and -INVERTED <= exponent <= REPEATED:
        powered = _repeated(x, abs(int(exponent)))
        return powered if exponent >= 0 else apply(Op.RECIP, None, powered)
    if abs(exponent) == 0.5:
        root = sqrt(x)
        return root if exponent > 0 else apply(Op.RECIP, None, root)
    return composite(Composite.POW, _float_power, x, constant(x, exponent))


def _repeated(x: Tensor, n: int) -> Tensor:
    """``x`` to a whole power by squaring."""
    if n == 0:  # with a gradient, which is 0
        return ew.where(constant(x, True, bool_), constant(x, 1), x)
    out: Tensor | None = None
    while n:
        if n & 1:
            out = x if out is None else ew.mul(out, x)
        n >>= 1
        x = ew.mul(x, x) if n else x
    assert out is not None
    return out._new(out.lazy, out._node)


def _float_power(x: Tensor, y: Tensor) -> Tensor:
    dtype = x.lazy.dtype
    x, y = widen(x), widen(y)
    size = pow_of(ew.absolute(x), y)
    half = ew.mul(y, 0.5)
    whole, even = ew.eq(ew.trunc(y), y), ew.eq(ew.trunc(half), half)
    odd = ew.bitand(whole, ew.logical_not(even))
    fraction = ew.bitand(ew.logical_not(whole), ew.bitand(ew.ne(x, 0.0), ew.isfinite(x)))
    signed = ew.where(odd, ew.neg(size), ew.where(fraction, math.nan, size))
    out = ew.where(ew.signbit(x), signed, size)  # -0 counts as negative
    minus_one = ew.bitand(ew.eq(x, -1.0), ew.isinf(y))
    one = ew.bitor(ew.bitor(ew.eq(y, 0.0), ew.eq(x, 1.0)), minus_one)
    return cast(ew.where(one, 1.0, out), dtype)


@rule(Composite.POW, inputs=True, output=True)
def _pow_gradient(n: Node, g: Tensor) -> Parts:
    x, y = n.x(g, 0), n.x(g, 1)
    base = exponent = None
    if n.needs(0):
        slope = ew.mul(ew.mul(g, y), power(x, ew.sub(y, 1.0)))
        base = ew.where(ew.eq(y, 0), 0.0, slope)
    if n.needs(1):
        flat = ew.bitand(ew.eq(x, 0), ew.ge(y, 0))
        exponent = ew.mul(g, ew.mul(n.y(g), ew.where(flat, 0.0, log(ew.where(flat, 1.0, x)))))
    return base, exponent


def _integer_power(x: Tensor, y: Tensor) -> Tensor:
    """By squaring over the bits of the exponent, a few of them in each kernel."""
    dtype = x.lazy.dtype
    out, square = constant(x, 1), x
    for bit in range(dtype.bits - (dtype.kind == "i")):
        if bit and bit % 8 == 0:
            out, square = apply(Op.CONTIGUOUS, None, out), apply(Op.CONTIGUOUS, None, square)
        taken = ew.eq(ew.bitand(ew.rshift(y, bit), 1), 1)
        out = ew.mul(out, ew.where(taken, square, 1))
        square = ew.mul(square, square)
    if dtype.kind != "i":
        return out
    odd = ew.eq(ew.bitand(y, 1), 1)
    minus = ew.where(odd, constant(x, -1), constant(x, 1))
    inverse = ew.where(ew.eq(x, 1), 1, ew.where(ew.eq(x, -1), minus, 0))
    return ew.where(ew.lt(y, 0), inverse, out)
