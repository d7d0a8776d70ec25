"""Reductions and scans."""
from __future__ import annotations

from typing import Any

import numpy as np
from table import LINES, F, row, torch

from dawdle import Tensor

for dim in (None, 0, -1, (0, 1)):
    for keep in (False, True):
        label = f"{dim} {keep}"
        along: dict[str, Any] = {"dim": dim, "keepdim": keep}
        numpy_along: dict[str, Any] = {"axis": dim, "keepdims": keep}

        def both(ours: Any, theirs: Any, along: Any = along, numpy_along: Any = numpy_along) -> Any:
            return lambda a: ours(a, **along), lambda a: theirs(a, **numpy_along)

        row(f"sum {label}", *both(Tensor.sum, np.sum), shapes=(*LINES, ((0, 3),)))
        row(f"prod {label}", *both(Tensor.prod, np.prod), shapes=(*LINES, ((0, 3),)), domain="away")
        row(f"mean {label}", *both(Tensor.mean, np.mean), shapes=LINES)
        row(f"var {label}", *both(Tensor.var, lambda a, **k: np.var(a, ddof=1, **k)), shapes=LINES[:2])
        row(f"std {label}", *both(Tensor.std, lambda a, **k: np.std(a, ddof=1, **k)), shapes=LINES[:2])
        row(f"max {label}", *both(Tensor.max, np.max), shapes=LINES, domain="distinct")
        row(f"min {label}", *both(Tensor.min, np.min), shapes=LINES, domain="distinct")
        row(f"any {label}", *both(Tensor.any, np.any), shapes=LINES, domain="bits", gradient=False)
        row(f"all {label}", *both(Tensor.all, np.all), shapes=LINES, domain="bits", gradient=False)
        row(f"int max {label}", *both(Tensor.max, np.max), shapes=LINES, domain="int", gradient=False)
        row(f"int min {label}", *both(Tensor.min, np.min), shapes=LINES, domain="int", gradient=False)
        row(f"bool sum {label}", *both(Tensor.sum, np.sum), shapes=LINES, domain="bits", gradient=False)
        row(f"logsumexp {label}", *both(Tensor.logsumexp, lambda a, **k: np.log(np.sum(np.exp(a), **k))),
            shapes=LINES)
        if not isinstance(dim, tuple):
            row(f"argmax {label}", *both(Tensor.argmax, np.argmax), shapes=LINES, domain="int",
                gradient=False)
            row(f"argmin {label}", *both(Tensor.argmin, np.argmin), shapes=LINES, gradient=False)
row("sum 0-d", lambda a: a.sum(0), lambda a: a, shapes=(((),),))
row("prod with zeros", lambda a: (a * Tensor([1.0, 0.0, 1.0, 1.0])).prod(1), None,
    lambda a: (a * torch.tensor([1.0, 0.0, 1.0, 1.0])).prod(1), shapes=(((3, 4),),))  # fmt: skip
row("softmax", Tensor.softmax, None, lambda a: a.softmax(-1), shapes=LINES)
row("softmax 0", lambda a: a.softmax(0), None, lambda a: a.softmax(0), shapes=LINES)
row("log_softmax", Tensor.log_softmax, None, lambda a: a.log_softmax(-1), shapes=LINES)
row("cumsum", lambda a: a.cumsum(1), lambda a: np.cumsum(a, 1), lambda a: a.cumsum(1), shapes=LINES)
row("cumprod", lambda a: a.cumprod(1), lambda a: np.cumprod(a, 1), lambda a: a.cumprod(1), shapes=LINES)
row("cumprod with zeros", lambda a: (a * Tensor([1.0, 0.0, 1.0, 0.0])).cumprod(1), None,
    lambda a: (a * torch.tensor([1.0, 0.0, 1.0, 0.0])).cumprod(1), shapes=(((3, 4),),))  # fmt: skip
row("cummax", lambda a: a.cummax(1), lambda a: np.maximum.accumulate(a, 1), lambda a: a.cummax(1)[0],
    shapes=LINES)
row("norm", Tensor.norm, np.linalg.norm, lambda a: a.norm(), shapes=(((3, 4),), ((7,),)))
row("norm 1", lambda a: a.norm(1, 0), lambda a: np.abs(a).sum(0), shapes=LINES, domain="away")
row("normalize", lambda a: a.normalize(dim=1), None, lambda a: F.normalize(a, dim=1), shapes=LINES)
row("layernorm", Tensor.layernorm, None, lambda a: F.layer_norm(a, a.shape[-1:]), shapes=LINES[:2])
row("rms_norm", Tensor.rms_norm, None, lambda a: a / (a.square().mean(-1, True) + 1e-6).sqrt(), shapes=LINES)
