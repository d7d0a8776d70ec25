"""Order, statistics that follow from it, and searching."""
from __future__ import annotations

from typing import Any

import numpy as np
from table import CUBE, LINES, row, torch

# a row of 200 is ordered on the host
LONG = (((2, 200),),)
SHAPES = (*CUBE, *LONG, ((5, 1),))

for dim in (0, -1):
    for down in (False, True):
        row(f"sort {dim} {down}", lambda a, d=dim, down=down: a.sort(d, descending=down), None,
            lambda a, d=dim, down=down: a.sort(d, descending=down), shapes=SHAPES, domain="distinct")
        row(f"argsort {dim} {down}", lambda a, d=dim, down=down: a.argsort(d, descending=down), None,
            lambda a, d=dim, down=down: torch.argsort(a, dim=d, descending=down, stable=True), shapes=SHAPES,
            domain="count", gradient=False)
for kind in ("int", "bits"):
    row(f"sort {kind}", lambda a: a.sort(stable=True), None, lambda a: a.sort(stable=True), shapes=SHAPES,
        domain=kind, gradient=False)
row("argsort of nothing", lambda a: a.argsort(), lambda a: np.argsort(a), shapes=(((0,),), ((3, 0),)),
    gradient=False)
row("sort 0-d", lambda a: a.sort(), None, lambda a: a.sort(), shapes=(((),),))
row("msort", lambda a: a.msort(), None, lambda a: a.msort(), shapes=CUBE)
for largest in (True, False):
    for dim in (0, -1):
        row(f"topk {largest} {dim}", lambda a, b=largest, d=dim: a.topk(2, d, largest=b), None,
            lambda a, b=largest, d=dim: a.topk(2, d, largest=b), shapes=(*CUBE, *LONG), domain="distinct")
row("topk of all and none", lambda a: (*a.topk(3, 1), *a.topk(0)), None,
    lambda a: (*a.topk(3, 1), *a.topk(0)), shapes=CUBE, domain="distinct")
for keep in (False, True):
    row(f"kthvalue {keep}", lambda a, k=keep: a.kthvalue(2, 1, k), None,
        lambda a, k=keep: a.kthvalue(2, 1, k), shapes=(*CUBE, *LONG), domain="distinct")
row("median of many", lambda a: (*a.median(1), a.median()), None, lambda a: (*a.median(1), a.median()),
    shapes=LONG, domain="distinct")
for keep in (False, True):
    row(f"mode {keep}", lambda a, k=keep: a.mode(0, k).values, None, lambda a, k=keep: a.mode(0, k).values,
        shapes=(((7, 2),), ((200,),), ((5, 2, 3),)), domain="count", gradient=False)
row("mode", lambda a: a.mode(-1), None, lambda a: a.mode(-1), shapes=CUBE, domain="distinct")

# ---- quantiles

for name in ("quantile", "nanquantile"):
    for how in ("linear", "lower", "higher", "nearest", "midpoint"):
        for dim, keep in ((None, False), (1, True)) if how != "linear" else ((0, True), (-1, False)):
            options: dict[str, Any] = {"dim": dim, "keepdim": keep, "interpolation": how}
            row(f"{name} {how} {dim} {keep}", lambda a, n=name, o=options: getattr(a, n)(0.3, **o), None,
                lambda a, n=name, o=options: getattr(a, n)(0.3, **o), shapes=(LINES[1], *LONG),
                domain="distinct")
        row(f"{name} several {how}",
            lambda a, n=name, h=how: getattr(a, n)([0.0, 0.41, 1.0], 1, interpolation=h), None,
            lambda a, n=name, h=how: getattr(a, n)(torch.tensor([0.0, 0.41, 1.0], dtype=a.dtype), 1,
            interpolation=h), shapes=LINES[:1], domain="distinct")  # fmt: skip
row("quantile of several dims", lambda a: a.quantile(0.4, (0, 2)), lambda a: np.quantile(a, 0.4, (0, 2)),
    shapes=CUBE)
row("quantile of a tensor", lambda a, q: a.quantile(q.abs()), lambda a, q: np.quantile(a, np.abs(q)),
    shapes=(((9,), (2,)), ((9,), ())), domain=("normal", "unit"), gradient=False)
row("int quantile", lambda a: a.quantile(0.5, 1), lambda a: np.quantile(a, 0.5, 1), shapes=LINES,
    domain="int", gradient=False)

# ---- covariances

row("cov", lambda a: a.cov(), None, lambda a: a.cov(), shapes=(((3, 5),), ((5,),), ((1, 5),)))
row("cov uncorrected", lambda a: a.cov(correction=0), None, lambda a: a.cov(correction=0),
    shapes=(((3, 5),),))
row("cov weighted", lambda a, f, w: a.cov(fweights=f + 1, aweights=w), None,
    lambda a, f, w: a.cov(fweights=f + 1, aweights=w), shapes=(((3, 5), (5,), (5,)),),
    domain=("normal", "count", "positive"), gradient=False)
row("corrcoef", lambda a: a.corrcoef(), None, lambda a: a.corrcoef(),
    shapes=(((3, 5),), ((5,),), ((1, 5),)),
    gradient=False)

# ---- searching and counting

for right in (False, True):
    row(f"searchsorted {right}", lambda a, b, r=right: a.sort(-1).values.searchsorted(b, right=r), None,
        lambda a, b, r=right: torch.searchsorted(a.sort(-1).values, b, right=r), domain="count",
        shapes=(((9,), (4, 3)), ((2, 7), (2, 3)), ((1,), (5,)), ((0,), (2,)), ((300,), (40,))),
        gradient=False)
    row(f"searchsorted by a sorter {right}", lambda a, b, r=right: a.searchsorted(b, right=r,
        sorter=a.argsort()), None, lambda a, b, r=right: torch.searchsorted(a, b, right=r,
        sorter=a.argsort()), domain="count", shapes=(((9,), (4, 3)), ((2, 7), (2, 3))),
        gradient=False)  # fmt: skip
    row(f"bucketize {right}", lambda a, r=right: a.bucketize([-1.0, 0.0, 0.5], right=r), None,
        lambda a, r=right: torch.bucketize(a, torch.tensor([-1.0, 0.0, 0.5]), right=r), shapes=LINES,
        gradient=False)
row("searchsorted of a number", lambda a: a.sort().values.searchsorted(0.5, out_int32=True), None,
    lambda a: torch.searchsorted(a.sort().values, 0.5, out_int32=True), shapes=(((9,),),), gradient=False)
for invert in (False, True):
    row(f"isin {invert}", lambda a, b, i=invert: a.isin(b, invert=i), None,
        lambda a, b, i=invert: torch.isin(a, b, invert=i), domain="count",
        shapes=(((3, 4), (3,)), ((2, 3), (40,)), ((3,), (0,))), gradient=False)
row("unique", lambda a: a.unique(return_inverse=True, return_counts=True), None,
    lambda a: a.unique(return_inverse=True, return_counts=True), domain="count", shapes=(*LINES, ((0,),)),
    gradient=False)
for dim in (0, 1):
    row(f"unique {dim}", lambda a, d=dim: a.unique(return_inverse=True, return_counts=True, dim=d), None,
        lambda a, d=dim: a.unique(return_inverse=True, return_counts=True, dim=d), domain="bits",
        shapes=(((5, 2),), ((3, 4),), ((2, 3, 2),)), gradient=False)
    row(f"unique_consecutive {dim}",
        lambda a, d=dim: a.unique_consecutive(return_inverse=True, return_counts=True, dim=d), None,
        lambda a, d=dim: a.unique_consecutive(return_inverse=True, return_counts=True, dim=d), domain="bits",
        shapes=(((9, 1),), ((3, 4),), ((2, 3, 2),)), gradient=False)
row("unique_consecutive", lambda a: a.unique_consecutive(return_inverse=True, return_counts=True), None,
    lambda a: a.unique_consecutive(return_inverse=True, return_counts=True), domain="bits",
    shapes=(((9,),), ((3, 4),)), gradient=False)
row("bincount", lambda a: a.bincount(), lambda a: np.bincount(a), domain="count", shapes=(((9,),), ((1,),)),
    gradient=False)
row("bincount with weights", lambda a, w: a.bincount(w, 8), lambda a, w: np.bincount(a, w, 8).astype(w.dtype),
    domain=("count", "normal"), shapes=(((9,), (9,)),), gradient=False)
row("histc", lambda a: a.histc(5, -1, 1), None, lambda a: a.histc(5, -1, 1), shapes=(((3, 40),),),
    gradient=False)
row("histc by itself", lambda a: a.histc(4), None, lambda a: a.histc(4), shapes=(((3, 40),),), gradient=False)
row("histogram", lambda a: a.histogram(4), None, lambda a: torch.histogram(a, 4), shapes=(((30,),),),
    gradient=False)
row("histogram in a range", lambda a, w: a.histogram(4, range=(-1, 1), weight=w, density=True), None,
    lambda a, w: torch.histogram(a, 4, range=(-1.0, 1.0), weight=w, density=True),
    shapes=(((30,), (30,)),), domain=("normal", "positive"), gradient=False)
row("histogram of edges", lambda a: a.histogram([-1.0, 0.0, 0.25, 2.0]), None,
    lambda a: torch.histogram(a, torch.tensor([-1.0, 0.0, 0.25, 2.0], dtype=a.dtype)), shapes=(((30,),),),
    gradient=False)
