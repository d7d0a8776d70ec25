"""Functions of one element."""
from __future__ import annotations

import math

import numpy as np
from table import unary

from dawdle import Tensor

unary("neg", lambda a: -a, np.negative, lambda a: -a)
unary("reciprocal", Tensor.reciprocal, np.reciprocal, lambda a: 1 / a, domain="away")
unary("square", Tensor.square, np.square, lambda a: a * a)
unary("abs", abs, np.abs, lambda a: a.abs(), domain="away")
unary("int abs", abs, np.abs, domain="int", gradient=False)
unary("sign", Tensor.sign, np.sign, lambda a: a.sign(), gradient=False)
unary("sqrt", Tensor.sqrt, np.sqrt, lambda a: a.sqrt(), domain="positive")
unary("rsqrt", Tensor.rsqrt, lambda a: 1 / np.sqrt(a), lambda a: a.rsqrt(), domain="positive")
unary("exp", Tensor.exp, np.exp, lambda a: a.exp())
unary("exp2", Tensor.exp2, np.exp2, lambda a: a.exp2())
unary("expm1", Tensor.expm1, np.expm1, lambda a: a.expm1())
unary("log", Tensor.log, np.log, lambda a: a.log(), domain="positive")
unary("log2", Tensor.log2, np.log2, lambda a: a.log2(), domain="positive")
unary("log10", Tensor.log10, np.log10, lambda a: a.log10(), domain="positive")
unary("log1p", Tensor.log1p, np.log1p, lambda a: a.log1p(), domain="unit")
unary("sin", Tensor.sin, np.sin, lambda a: a.sin())
unary("cos", Tensor.cos, np.cos, lambda a: a.cos())
unary("tan", Tensor.tan, np.tan, lambda a: a.tan(), domain="unit")
unary("sinh", Tensor.sinh, np.sinh, lambda a: a.sinh())
unary("cosh", Tensor.cosh, np.cosh, lambda a: a.cosh())
unary("tanh", Tensor.tanh, np.tanh, lambda a: a.tanh())
unary("sigmoid", Tensor.sigmoid, lambda a: 1 / (1 + np.exp(-a)), lambda a: a.sigmoid())
unary("erf", Tensor.erf, None, lambda a: a.erf())
unary("floor", Tensor.floor, np.floor, lambda a: a.floor())
unary("ceil", Tensor.ceil, np.ceil, lambda a: a.ceil())
unary("trunc", Tensor.trunc, np.trunc, lambda a: a.trunc())
unary("round", Tensor.round, np.round, lambda a: a.round())
unary("frac", Tensor.frac, lambda a: a - np.trunc(a), lambda a: a.frac())
unary("clamp", lambda a: a.clamp(-0.5, 0.7), lambda a: np.clip(a, -0.5, 0.7), lambda a: a.clamp(-0.5, 0.7))
unary("clamp min", lambda a: a.clamp(min=0.2), lambda a: np.maximum(a, 0.2), lambda a: a.clamp(min=0.2))
unary("int clamp", lambda a: a.clamp(-2, 3), lambda a: np.clip(a, -2, 3), domain="int", gradient=False)
unary("isnan", lambda a: (a * math.nan).isnan(), lambda a: np.isnan(a * np.nan), gradient=False)
unary("isinf", lambda a: (a / 0.0).isinf(), lambda a: np.isinf(a / 0.0), gradient=False)
unary("isfinite", lambda a: (1 / a.floor()).isfinite(), lambda a: np.isfinite(1 / np.floor(a)),
    gradient=False)
unary("invert", lambda a: ~a, np.invert, domain="int", gradient=False)
unary("not", lambda a: ~a, np.invert, domain="bits", gradient=False)
unary("logical_not", Tensor.logical_not, np.logical_not, domain="count", gradient=False)
unary("square by **", lambda a: a**2, lambda a: a**2, lambda a: a**2)
unary("cube by **", lambda a: a**3, lambda a: a**3, lambda a: a**3)
unary("** -2", lambda a: a**-2, lambda a: a**-2.0, lambda a: a**-2, domain="away")
unary("** 0", lambda a: a**0, lambda a: a**0)
unary("** 0.5", lambda a: a**0.5, np.sqrt, lambda a: a**0.5, domain="positive")
unary("** 2.5", lambda a: a**2.5, lambda a: a**2.5, lambda a: a**2.5, domain="positive")
unary("2 **", lambda a: 2**a, lambda a: 2**a, lambda a: 2**a)
unary("1 -", lambda a: 1 - a, lambda a: 1 - a)
unary("1 /", lambda a: 1 / a, lambda a: 1 / a, domain="away")
unary("int + float", lambda a: a + 0.5, lambda a: (a + 0.5).astype("f"), domain="int", gradient=False)
unary("masked_fill", lambda a: a.masked_fill(a > 0, 2.0), lambda a: np.where(a > 0, 2.0, a), domain="away")
