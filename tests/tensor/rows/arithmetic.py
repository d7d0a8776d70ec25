"""Arithmetic, comparisons and bits."""
from __future__ import annotations

import numpy as np
from table import binary, torch

from dawdle import Tensor

binary("add", lambda a, b: a + b, np.add, lambda a, b: a + b)
binary("sub", lambda a, b: a - b, np.subtract, lambda a, b: a - b)
binary("mul", lambda a, b: a * b, np.multiply, lambda a, b: a * b)
binary("div", lambda a, b: a / b, np.divide, lambda a, b: a / b, domain=("normal", "away"))
binary("floordiv", lambda a, b: a // b, np.floor_divide, domain=("normal", "away"), gradient=False)
binary("mod", lambda a, b: a % b, np.mod, lambda a, b: a % b, domain=("normal", "away"))
binary("maximum", Tensor.maximum, np.maximum, lambda a, b: torch.maximum(a, b))
binary("minimum", Tensor.minimum, np.minimum, lambda a, b: torch.minimum(a, b))
binary("pow", lambda a, b: a**b, np.power, lambda a, b: a**b, domain=("positive", "normal"))
binary("logaddexp", Tensor.logaddexp, np.logaddexp, lambda a, b: torch.logaddexp(a, b))
binary("int add", lambda a, b: a + b, np.add, domain="int", gradient=False)
binary("int floordiv", lambda a, b: a // b, np.floor_divide, domain=("int", "nonzero"), gradient=False)
binary("int mod", lambda a, b: a % b, np.mod, domain=("int", "nonzero"), gradient=False)
binary("int div", lambda a, b: a / b, lambda a, b: (a / b).astype("f"), domain=("int", "nonzero"),
    gradient=False)
binary("int pow", lambda a, b: a**b, np.power, domain=("int", "count"), gradient=False)
binary("int min", Tensor.minimum, np.minimum, domain="int", gradient=False)
binary("and", lambda a, b: a & b, np.bitwise_and, domain="int", gradient=False)
binary("or", lambda a, b: a | b, np.bitwise_or, domain="int", gradient=False)
binary("xor", lambda a, b: a ^ b, np.bitwise_xor, domain="int", gradient=False)
binary("shl", lambda a, b: a << b, np.left_shift, domain=("int", "count"), gradient=False)
binary("shr", lambda a, b: a >> b, np.right_shift, domain=("int", "count"), gradient=False)
binary("bool add", lambda a, b: a + b, np.add, domain="bits", gradient=False)
binary("logical", lambda a, b: a.logical_and(b) ^ a.logical_or(b), lambda a, b: (a != 0) ^ (b != 0),
       domain=("int", "bits"), gradient=False)  # fmt: skip
for symbol, compare in {
    "lt": np.less, "gt": np.greater, "le": np.less_equal, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal
}.items():  # fmt: skip
    for domain in ("normal", "int"):
        binary(f"{symbol} {domain}", getattr(Tensor, symbol), compare, domain=domain, gradient=False)
binary("isclose", lambda a, b: a.isclose(b * 0 + a * 1.000001), lambda a, b: np.ones(np.broadcast(a,
    b).shape, bool),
       gradient=False)  # fmt: skip
binary("lerp", lambda a, b: a.lerp(b, 0.3), lambda a, b: a + 0.3 * (b - a))
binary("where", lambda a, b: a.where(a > 0.1, b), lambda a, b: np.where(a > 0.1, a, b), domain=("away",
    "normal"))
