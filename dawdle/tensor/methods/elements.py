"""Arithmetic, comparisons and functions of elements, and Python's operators."""

from __future__ import annotations

from dawdle.tensor import (
    arithmetic,
    elementwise,
    linalg,
    operators,
    power,
    special,
    transcendental,
    trigonometry,
)
from dawdle.tensor.operators import inplace, operator, rebinding, reflected


class Elements:
    __slots__ = ()

    # operators
    __add__, __radd__ = operator(elementwise.add), reflected(elementwise.add)
    __sub__, __rsub__ = operator(elementwise.sub), reflected(elementwise.sub)
    __mul__, __rmul__ = operator(elementwise.mul), reflected(elementwise.mul)
    __truediv__, __rtruediv__ = operator(elementwise.div), reflected(elementwise.div)
    __floordiv__, __rfloordiv__ = operator(elementwise.floordiv), reflected(elementwise.floordiv)
    __mod__, __rmod__ = operator(elementwise.mod), reflected(elementwise.mod)
    __divmod__, __rdivmod__ = operators.divmod_, operators.rdivmod
    __pow__, __rpow__ = operator(power.power), reflected(power.power)
    __matmul__, __rmatmul__ = operator(linalg.matmul), linalg.rmatmul
    __and__, __rand__ = operator(elementwise.bitand), reflected(elementwise.bitand)
    __or__, __ror__ = operator(elementwise.bitor), reflected(elementwise.bitor)
    __xor__, __rxor__ = operator(elementwise.bitxor), reflected(elementwise.bitxor)
    __lshift__, __rlshift__ = operator(elementwise.lshift), reflected(elementwise.lshift)
    __rshift__, __rrshift__ = operator(elementwise.rshift), reflected(elementwise.rshift)
    __iadd__, __isub__ = inplace(elementwise.add), inplace(elementwise.sub)
    __imul__, __itruediv__ = inplace(elementwise.mul), inplace(elementwise.div)
    __ifloordiv__, __imod__ = inplace(elementwise.floordiv), inplace(elementwise.mod)
    __ipow__, __imatmul__ = inplace(power.power), inplace(linalg.matmul)
    __iand__, __ior__ = inplace(elementwise.bitand), inplace(elementwise.bitor)
    __ixor__ = inplace(elementwise.bitxor)
    __ilshift__, __irshift__ = inplace(elementwise.lshift), inplace(elementwise.rshift)
    __neg__, __pos__, __invert__ = elementwise.neg, elementwise.positive, elementwise.invert
    __abs__, __round__ = elementwise.absolute, elementwise.pythons_round
    __lt__, __gt__ = operator(elementwise.lt), operator(elementwise.gt)
    __le__, __ge__ = operator(elementwise.le), operator(elementwise.ge)
    __eq__, __ne__ = operator(elementwise.eq), operator(elementwise.ne)  # type: ignore[assignment]

    # arithmetic
    add, sub, mul, div = elementwise.add, elementwise.sub, elementwise.mul, elementwise.div
    subtract, multiply, divide, true_divide = sub, mul, div, div
    floor_divide, remainder, fmod = elementwise.floordiv, elementwise.mod, arithmetic.fmod
    neg, negative, positive = elementwise.neg, elementwise.neg, elementwise.positive
    reciprocal, square = elementwise.reciprocal, elementwise.square
    abs, absolute, sign, sgn = (
        elementwise.absolute, elementwise.absolute, elementwise.sign, elementwise.sign
    )  # fmt: skip
    signbit, copysign, heaviside = elementwise.signbit, arithmetic.copysign, arithmetic.heaviside
    gcd, lcm, ldexp, frexp = arithmetic.gcd, arithmetic.lcm, arithmetic.ldexp, arithmetic.frexp
    nextafter = arithmetic.nextafter
    hypot, deg2rad, rad2deg = arithmetic.hypot, arithmetic.deg2rad, arithmetic.rad2deg
    lerp, addcmul, addcdiv = arithmetic.lerp, arithmetic.addcmul, arithmetic.addcdiv
    maximum, minimum, fmax, fmin = (
        elementwise.maximum, elementwise.minimum, arithmetic.fmax, arithmetic.fmin
    )  # fmt: skip
    clamp, clip = arithmetic.clamp, arithmetic.clamp
    clamp_min, clamp_max, nan_to_num = arithmetic.clamp_min, arithmetic.clamp_max, arithmetic.nan_to_num
    trunc, fix, floor, ceil = elementwise.trunc, elementwise.trunc, elementwise.floor, elementwise.ceil
    round, frac = elementwise.round, elementwise.frac

    # comparison and choice
    lt, gt, le, ge = elementwise.lt, elementwise.gt, elementwise.le, elementwise.ge
    eq, ne, not_equal = elementwise.eq, elementwise.ne, elementwise.ne
    less, greater, less_equal, greater_equal = lt, gt, le, ge
    isclose, allclose, equal = arithmetic.isclose, arithmetic.allclose, arithmetic.equal
    isnan, isinf, isfinite = elementwise.isnan, elementwise.isinf, elementwise.isfinite
    isposinf, isneginf = arithmetic.isposinf, arithmetic.isneginf
    where, masked_fill = elementwise.where_method, elementwise.masked_fill

    # bits and truth values
    bitwise_and, bitwise_or, bitwise_xor = elementwise.bitand, elementwise.bitor, elementwise.bitxor
    bitwise_not = elementwise.invert
    bitwise_left_shift, bitwise_right_shift = elementwise.lshift, elementwise.rshift
    logical_not, logical_and = elementwise.logical_not, elementwise.logical_and
    logical_or, logical_xor = elementwise.logical_or, elementwise.logical_xor

    # exponentials, powers, trigonometry, special functions
    exp, exp2, expm1 = transcendental.exp, transcendental.exp2, transcendental.expm1
    log, log2, log10, log1p = (
        transcendental.log, transcendental.log2, transcendental.log10, transcendental.log1p
    )  # fmt: skip
    logaddexp, logaddexp2 = transcendental.logaddexp, transcendental.logaddexp2
    sqrt, rsqrt, sigmoid = transcendental.sqrt, transcendental.rsqrt, transcendental.sigmoid
    expit = transcendental.sigmoid
    pow, float_power = power.power, power.float_power
    sin, cos, tan = trigonometry.sin, trigonometry.cos, trigonometry.tan
    asin, acos, atan, atan2 = trigonometry.asin, trigonometry.acos, trigonometry.atan, trigonometry.atan2
    arcsin, arccos, arctan, arctan2 = asin, acos, atan, atan2
    sinh, cosh, tanh = transcendental.sinh, transcendental.cosh, transcendental.tanh
    asinh, acosh, atanh = transcendental.asinh, transcendental.acosh, transcendental.atanh
    arcsinh, arccosh, arctanh = asinh, acosh, atanh
    erf, erfc, lgamma, digamma = special.erf, special.erfc, special.lgamma, special.digamma
    sinc, logit, xlogy = special.sinc, special.logit, special.xlogy
    erfinv, mvlgamma = special.erfinv, special.mvlgamma

    # in place: the handle is rebound
    add_, sub_, mul_, div_, pow_ = rebinding(add, sub, mul, div, pow)
    subtract_, multiply_, divide_, true_divide_ = sub_, mul_, div_, div_
    floor_divide_, remainder_, fmod_ = rebinding(floor_divide, remainder, fmod)
    neg_, abs_, sign_, reciprocal_, square_ = rebinding(neg, abs, sign, reciprocal, square)
    negative_, absolute_ = neg_, abs_
    trunc_, floor_, ceil_, round_, frac_ = rebinding(trunc, floor, ceil, round, frac)
    clamp_, clamp_min_, clamp_max_, nan_to_num_ = rebinding(clamp, clamp_min, clamp_max, nan_to_num)
    clip_, fix_ = clamp_, trunc_
    lerp_, addcmul_, addcdiv_, copysign_ = rebinding(lerp, addcmul, addcdiv, copysign)
    masked_fill_, hypot_, xlogy_ = rebinding(masked_fill, hypot, xlogy)
    bitwise_and_, bitwise_or_, bitwise_xor_ = rebinding(bitwise_and, bitwise_or, bitwise_xor)
    bitwise_not_, logical_not_ = rebinding(bitwise_not, logical_not)
    exp_, exp2_, expm1_, log_, log2_ = rebinding(exp, exp2, expm1, log, log2)
    log10_, log1p_, sqrt_, rsqrt_, sigmoid_ = rebinding(log10, log1p, sqrt, rsqrt, sigmoid)
    sin_, cos_, tan_, asin_, acos_, atan_ = rebinding(sin, cos, tan, asin, acos, atan)
    sinh_, cosh_, tanh_ = rebinding(sinh, cosh, tanh)
    asinh_, acosh_, atanh_ = rebinding(asinh, acosh, atanh)
    erf_, erfc_, lgamma_, digamma_ = rebinding(erf, erfc, lgamma, digamma)
    arcsin_, arccos_, arctan_, arcsinh_, arccosh_, arctanh_ = asin_, acos_, atan_, asinh_, acosh_, atanh_
    atan2_, sinc_, logit_, erfinv_, float_power_ = rebinding(atan2, sinc, logit, erfinv, float_power)
    arctan2_ = atan2_
    sgn_, heaviside_, nextafter_ = rebinding(sgn, heaviside, nextafter)
    gcd_, lcm_, ldexp_, deg2rad_, rad2deg_ = rebinding(gcd, lcm, ldexp, deg2rad, rad2deg)
    eq_, ne_, lt_, gt_, le_, ge_ = rebinding(eq, ne, lt, gt, le, ge)
    not_equal_, less_, greater_, less_equal_, greater_equal_ = ne_, lt_, gt_, le_, ge_
    logical_and_, logical_or_, logical_xor_ = rebinding(logical_and, logical_or, logical_xor)
    bitwise_left_shift_, bitwise_right_shift_ = rebinding(bitwise_left_shift, bitwise_right_shift)
