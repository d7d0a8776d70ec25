"""Random numbers: shapes, dtypes and bounds; how they are distributed is in test_tensor_random.py."""
from __future__ import annotations

from typing import Any

import numpy as np
from table import row

from dawdle import Tensor

VECTOR = (((5,),),)


def drawn(name: str, ours: Any, dtype: str = "f4", **options: Any) -> None:
    """A row of three numbers without inputs, all within 0 and 10."""
    row(name, lambda: (ours() >= 0) & (ours() <= 10) & (ours() * 0 == 0),
        lambda: np.ones(3, bool), shapes=((),), gradient=False, **options)  # fmt: skip


drawn("rand", lambda: Tensor.rand(3))
drawn("randn", lambda: Tensor.randn(3).abs())
drawn("randint", lambda: Tensor.randint(10, size=(3,)))
drawn("randperm", lambda: Tensor.randperm(3))
drawn("uniform", lambda: Tensor.uniform(3, low=2, high=5))
drawn("normal", lambda: Tensor.normal(3, mean=5.0, std=0.1))
for name, options in {
    "rand_like": {}, "randn_like": {}, "uniform_": {}, "normal_": {}, "log_normal_": {}, "exponential_": {},
    "cauchy_": {}, "geometric_": {"p": 0.5}, "bernoulli_": {"p": 0.5},
    "random_": {"low": 0, "high": 10}, "randint_like": {"low": 0, "high": 10},
}.items():  # fmt: skip
    row(f"{name} shape", lambda x, n=name, o=options: getattr(x * 1, n)(**o).isfinite(),
        lambda x: np.ones(x.shape, bool), shapes=VECTOR, gradient=False)  # fmt: skip
row("bernoulli of 0 and 1", lambda x: (x > 0).float().bernoulli(), lambda x: (x > 0).astype("f4"),
    shapes=VECTOR, gradient=False)  # fmt: skip
row("multinomial of one", lambda x: ((x >= x.max()) * 1.0).multinomial(1), lambda x: np.array([np.argmax(x)]),
    shapes=VECTOR, domain="distinct", gradient=False)  # fmt: skip
row("dropout of none", lambda x: x.dropout(0.0), lambda x: x, lambda x: x, shapes=VECTOR)
drawn("poisson", lambda: Tensor([0.0, 0.1, 2.0]).poisson())
