"""Order."""
from __future__ import annotations

import numpy as np
from table import CUBE, row, torch

row("sort", lambda a: a.sort(1), None, lambda a: a.sort(1), shapes=CUBE)
row("sort descending", lambda a: a.sort(0, descending=True), None, lambda a: a.sort(0, descending=True),
    shapes=CUBE)
row("argsort stable", lambda a: a.argsort(), lambda a: np.argsort(a, kind="stable"), shapes=(((9,),), ((3,
    7),), ((0,),)),
    domain="count", gradient=False)  # fmt: skip
row("argsort down", lambda a: a.argsort(0, descending=True), None,
    lambda a: torch.argsort(a, dim=0, descending=True, stable=True), shapes=(((9,),), ((3, 7),)),
        domain="count", gradient=False)  # fmt: skip
row("topk", lambda a: a.topk(2, -1), None, lambda a: a.topk(2, -1), shapes=CUBE)
row("topk smallest", lambda a: a.topk(2, 1, largest=False), None, lambda a: a.topk(2, 1, largest=False),
    shapes=CUBE)
row("median", lambda a: a.median(1), None, lambda a: a.median(1)[0], shapes=CUBE)
