"""Functions of one element."""
from __future__ import annotations

import math
from functools import partial

import numpy as np
from table import unary

from dawdle import Tensor

real = partial(unary, special="fiub")  # functions of real numbers: of integers, in float32
number = partial(unary, special="fiu")
whole = partial(unary, gradient=False, special="iu")

number("neg", lambda a: -a, np.negative, lambda a: -a)
number("positive", lambda a: +a, np.positive, lambda a: +a)
real("reciprocal", Tensor.reciprocal, lambda a: 1 / a, lambda a: 1 / a, domain="away")
number("square", Tensor.square, np.square, lambda a: a * a)
real("abs", abs, np.abs, lambda a: a.abs(), domain="away")
unary("int abs", abs, np.abs, domain="int", gradient=False)
number("sign", Tensor.sign, np.sign, lambda a: a.sign(), gradient=False)
unary("signbit", Tensor.signbit, np.signbit, gradient=False, special="f")
real("sqrt", Tensor.sqrt, np.sqrt, lambda a: a.sqrt(), domain="positive")
real("rsqrt", Tensor.rsqrt, lambda a: 1 / np.sqrt(a), lambda a: a.rsqrt(), domain="positive")
real("exp", Tensor.exp, np.exp, lambda a: a.exp())
real("exp2", Tensor.exp2, np.exp2, lambda a: a.exp2())
real("expm1", Tensor.expm1, np.expm1, lambda a: a.expm1())
real("log", Tensor.log, np.log, lambda a: a.log(), domain="positive")
real("log2", Tensor.log2, np.log2, lambda a: a.log2(), domain="positive")
real("log10", Tensor.log10, np.log10, lambda a: a.log10(), domain="positive")
real("log1p", Tensor.log1p, np.log1p, lambda a: a.log1p(), domain="unit")
real("sin", Tensor.sin, np.sin, lambda a: a.sin())
real("cos", Tensor.cos, np.cos, lambda a: a.cos())
real("tan", Tensor.tan, np.tan, lambda a: a.tan(), domain="unit")
real("asin", Tensor.asin, np.arcsin, lambda a: a.asin(), domain="unit")
real("acos", Tensor.acos, np.arccos, lambda a: a.acos(), domain="unit")
real("atan", Tensor.atan, np.arctan, lambda a: a.atan())
real("sinh", Tensor.sinh, np.sinh, lambda a: a.sinh())
real("cosh", Tensor.cosh, np.cosh, lambda a: a.cosh())
real("tanh", Tensor.tanh, np.tanh, lambda a: a.tanh())
real("asinh", Tensor.asinh, np.arcsinh, lambda a: a.asinh())
real("acosh", lambda a: (a + 1.5).acosh(), lambda a: np.arccosh(a + 1.5), lambda a: (a + 1.5).acosh(),
    domain="positive")
real("acosh below", Tensor.acosh, np.arccosh, domain="positive", gradient=False)
real("atanh", Tensor.atanh, np.arctanh, lambda a: a.atanh(), domain="unit")
real("sigmoid", Tensor.sigmoid, lambda a: 1 / (1 + np.exp(0 - a)), lambda a: a.sigmoid())
unary("erf", Tensor.erf, None, lambda a: a.erf(), special="f")
unary("erfc", Tensor.erfc, None, lambda a: a.erfc(), special="f")
unary("lgamma", Tensor.lgamma, None, lambda a: a.lgamma(), special="f", near_zero=1)
unary("lgamma positive", Tensor.lgamma, None, lambda a: a.lgamma(), domain="positive")
unary("digamma", Tensor.digamma, None, lambda a: a.digamma(), domain="away", special="f",
    near_zero=2)
real("sinc", Tensor.sinc, lambda a: np.where((a == np.round(a)) & (a != 0) & np.isfinite(a), 0, np.sinc(a)),
    lambda a: a.sinc())
unary("logit", lambda a: (a * 0.5 + 0.5).logit(), None, lambda a: (a * 0.5 + 0.5).logit(), domain="unit")
unary("logit eps", lambda a: a.logit(0.1), None, lambda a: a.logit(0.1))
unary("logit special", Tensor.logit, None, lambda a: a.logit(), domain="unit", gradient=False, special="f")
real("deg2rad", Tensor.deg2rad, np.deg2rad, lambda a: a.deg2rad())
real("rad2deg", Tensor.rad2deg, np.rad2deg, lambda a: a.rad2deg())
unary("frexp", Tensor.frexp, np.frexp, gradient=False, special="f")
number("floor", Tensor.floor, np.floor, lambda a: a.floor())
number("ceil", Tensor.ceil, np.ceil, lambda a: a.ceil())
number("trunc", Tensor.trunc, np.trunc, lambda a: a.trunc())
number("round", Tensor.round, np.round, lambda a: a.round())
unary("round decimals", lambda a: a.round(decimals=1), lambda a: np.round(a, 1),
    lambda a: a.round(decimals=1))
unary("round tens", lambda a: (a * 20).round(decimals=-1), lambda a: np.round(a * 20, -1))
unary("frac", Tensor.frac, lambda a: a - np.trunc(a), lambda a: a.frac())
unary("clamp", lambda a: a.clamp(-0.5, 0.7), lambda a: np.clip(a, -0.5, 0.7), lambda a: a.clamp(-0.5, 0.7),
    special="f")
unary("clamp min", lambda a: a.clamp(min=0.2), lambda a: np.maximum(a, 0.2), lambda a: a.clamp(min=0.2))
unary("clamp max", lambda a: a.clamp_max(0.2), lambda a: np.minimum(a, 0.2), lambda a: a.clamp_max(0.2))
unary("int clamp", lambda a: a.clamp(-2, 3), lambda a: np.clip(a, -2, 3), domain="int", gradient=False)
unary("nan_to_num", lambda a: (a / a.floor()).nan_to_num(1.5, 7.0), lambda a: np.nan_to_num(a / np.floor(a),
    nan=1.5, posinf=7.0), gradient=False)
unary("nan_to_num special", lambda a: a.nan_to_num(2.0, 3.0, -4.0),
    lambda a: np.nan_to_num(a, nan=2.0, posinf=3.0, neginf=-4.0), gradient=False, special="f")
unary("isnan", lambda a: (a * math.nan).isnan(), lambda a: np.isnan(a * np.nan), gradient=False)
unary("isinf", lambda a: (a / 0.0).isinf(), lambda a: np.isinf(a / 0.0), gradient=False)
unary("isfinite", lambda a: (1 / a.floor()).isfinite(), lambda a: np.isfinite(1 / np.floor(a)),
    gradient=False)
for name in ("isnan", "isinf", "isfinite"):
    real(f"{name} special", getattr(Tensor, name), getattr(np, name), gradient=False)
for name in ("isposinf", "isneginf"):
    unary(name, getattr(Tensor, name), getattr(np, name), gradient=False, special="f")
unary("invert", lambda a: ~a, np.invert, domain="int", gradient=False)
unary("not", lambda a: ~a, np.invert, domain="bits", gradient=False)
unary("bitwise_not", Tensor.bitwise_not, np.invert, domain="int", gradient=False, special="iub")
real("logical_not", Tensor.logical_not, np.logical_not, domain="count", gradient=False)
number("square by **", lambda a: a**2, lambda a: a * a, lambda a: a**2)
number("cube by **", lambda a: a**3, lambda a: a**3, lambda a: a**3)
number("to the power of 0", lambda a: a**0, lambda a: a**0, lambda a: a**0)
unary("** 9", lambda a: a**9, lambda a: a**9, lambda a: a**9, domain="unit", special="f")
unary("** -2", lambda a: a**-2, lambda a: a**-2.0, lambda a: a**-2, domain="away")
unary("** -1", lambda a: a**-1, lambda a: a**-1.0, lambda a: a**-1, domain="away", special="f")
unary("** -3", lambda a: a**-3, lambda a: a**-3.0, lambda a: a**-3, domain="away", special="f")
unary("** 0", lambda a: a**0, lambda a: a**0, special="f")
unary("** 0.5", lambda a: a**0.5, np.sqrt, lambda a: a**0.5, domain="positive")
unary("** 2.5", lambda a: a**2.5, lambda a: a**2.5, lambda a: a**2.5, domain="positive", special="f")
unary("2 **", lambda a: 2**a, lambda a: 2**a, lambda a: 2**a, special="f")
unary("1 -", lambda a: 1 - a, lambda a: 1 - a)
unary("1 /", lambda a: 1 / a, lambda a: 1 / a, domain="away")
unary("int + float", lambda a: a + 0.5, lambda a: (a + 0.5).astype("f"), domain="int", gradient=False)
unary("masked_fill", lambda a: a.masked_fill(a > 0, 2.0), lambda a: np.where(a > 0, 2.0, a), domain="away")
whole("int div trunc", lambda a: a.div(3, rounding_mode="trunc"), lambda a: a // 3 + ((a < 0) & (a % 3 != 0)),
    domain="int")
unary("erfinv", Tensor.erfinv, None, lambda a: a.erfinv(), domain="unit", special="f")
unary("erfinv of ends", lambda a: (1 - a * 1e-6).erfinv(), None, lambda a: (1 - a * 1e-6).erfinv(),
    domain="positive", kinds=("float64",), compiled=False)
unary("mvlgamma", lambda a: (a + 2).mvlgamma(3), None, lambda a: (a + 2).mvlgamma(3), domain="positive")
