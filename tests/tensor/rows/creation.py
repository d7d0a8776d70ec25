"""Tensors made from nothing, or like others."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from table import row

from dawdle import Tensor

ONE = (((2, 3),), ((),), ((0, 2),))


def made(name: str, ours: Callable[[], Any], theirs: Callable[[], Any], **options: Any) -> None:
    """A row without inputs."""
    row(name, ours, theirs, shapes=((),), gradient=False, **options)


made("zeros", lambda: Tensor.zeros(2, 3), lambda: np.zeros((2, 3), "f4"))
made("ones", lambda: Tensor.ones((2, 0), dtype="int8"), lambda: np.ones((2, 0), "i1"))
made("empty", lambda: Tensor.empty(2, 3) * 0, lambda: np.zeros((2, 3), "f4"))
for value in (2, 2.5, True, -1):
    made(f"full {value}", lambda v=value: Tensor.full((2, 3), v), lambda v=value: np.full((2, 3), v))
for n, m in ((3, None), (2, 4), (4, 2), (0, 3)):
    made(f"eye {n} {m}", lambda n=n, m=m: Tensor.eye(n, m), lambda n=n, m=m: np.eye(n, m, dtype="f4"))
for limits in ((5,), (2, 9, 3), (9, 2, -3), (3, 3), (5, 2), (-4, 4, 2), (0.5, 3.0), (1, 2, 0.1),
    (2.0, -1.0, -0.25),
               (1.0, 0.0), (0, 1, 0.3)):  # fmt: skip
    made(f"arange {limits}", lambda a=limits: Tensor.arange(*a), lambda a=limits: np.arange(*a))
made("arange large", lambda: Tensor.arange(2**53, 2**53 + 3), lambda: np.arange(2**53, 2**53 + 3))
made("arange dtype", lambda: Tensor.arange(1, 5, dtype="float32"), lambda: np.arange(1, 5, dtype="f4"))
made("arange end", lambda: Tensor.arange(1, end=5, step=2), lambda: np.arange(1, 5, 2))
for start, end, steps in ((0, 1, 5), (3, -2, 7), (1, 9, 1), (2, 3, 0), (0, 0.3, 4)):
    made(f"linspace {start} {end} {steps}", lambda a=(start, end, steps): Tensor.linspace(*a),
        lambda a=(start, end, steps): np.linspace(*a).astype("f4"))  # fmt: skip
    made(f"logspace {start} {end} {steps}", lambda a=(start, end, steps): Tensor.logspace(*a, base=2),
        lambda a=(start, end, steps): np.logspace(*a, base=2).astype("f4"))  # fmt: skip
for k in (-4, -1, 0, 2, 5):
    made(f"tril_indices {k}", lambda k=k: Tensor.tril_indices(3, 4, k),
        lambda k=k: np.stack(np.tril_indices(3, k, 4)))
    made(f"triu_indices {k}", lambda k=k: Tensor.triu_indices(4, 3, k),
        lambda k=k: np.stack(np.triu_indices(4, k, 3)))
row("zeros_like", lambda a: a.zeros_like(), np.zeros_like, shapes=ONE, gradient=False)
row("ones_like", lambda a: a.ones_like(dtype="int16"), lambda a: np.ones_like(a, "i2"), shapes=ONE,
    gradient=False)
row("full_like", lambda a: a.full_like(1.5), lambda a: np.full_like(a, 1.5), shapes=ONE, gradient=False)
row("empty_like", lambda a: a.empty_like() * 0, np.zeros_like, shapes=ONE, gradient=False)
row("new_zeros", lambda a: a.new_zeros(2, 1), lambda a: np.zeros((2, 1), a.dtype), shapes=ONE, gradient=False)
row("new_ones", lambda a: a.new_ones((3,)), lambda a: np.ones(3, a.dtype), shapes=ONE, gradient=False)
row("new_empty", lambda a: a.new_empty(4) * 0, lambda a: np.zeros(4, a.dtype), shapes=ONE, gradient=False)
row("new_full", lambda a: a.new_full((2,), 7), lambda a: np.full(2, 7, a.dtype), shapes=ONE, gradient=False)
row("new_tensor", lambda a: a.new_tensor([1, 2]), lambda a: np.array([1, 2], a.dtype), shapes=ONE,
    gradient=False)
row("vander", lambda a: a.vander(), lambda a: np.vander(a), shapes=(((4,),), ((1,),)), domain="away")
row("vander increasing", lambda a: a.vander(3, increasing=True), lambda a: np.vander(a, 3, increasing=True),
    shapes=(((4,),),), domain="away")  # fmt: skip
