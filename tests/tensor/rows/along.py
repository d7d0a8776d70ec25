"""Reductions, scans and the softmax family."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
from table import LINES, F, row, torch

from dawdle import Tensor

EMPTY = (*LINES, ((0, 3),), ((2, 0, 3),))


def unbiased(function: Any, **fixed: Any) -> Any:
    return lambda a, **k: function(a, **fixed, **k)


for dim in (None, 0, -1, (0, 1)):
    for keep in (False, True):
        label = f"{dim} {keep}"
        along: dict[str, Any] = {"dim": dim, "keepdim": keep}
        numpy_along: dict[str, Any] = {"axis": dim, "keepdims": keep}

        def both(ours: Any, theirs: Any, along: Any = along, numpy_along: Any = numpy_along) -> Any:
            return lambda a: ours(a, **along), lambda a: theirs(a, **numpy_along)

        row(f"sum {label}", *both(Tensor.sum, np.sum), shapes=EMPTY)
        row(f"prod {label}", *both(Tensor.prod, np.prod), shapes=EMPTY, domain="away")
        row(f"mean {label}", *both(Tensor.mean, np.mean), shapes=LINES)
        row(f"var {label}", *both(Tensor.var, unbiased(np.var, ddof=1)), shapes=LINES[:2])
        row(f"std {label}", *both(Tensor.std, unbiased(np.std, ddof=1)), shapes=LINES[:2])
        row(f"amax {label}", *both(Tensor.amax, np.max), shapes=LINES, domain="distinct")
        row(f"amin {label}", *both(Tensor.amin, np.min), shapes=LINES, domain="distinct")
        row(f"any {label}", *both(Tensor.any, np.any), shapes=EMPTY, domain="bits", gradient=False)
        row(f"all {label}", *both(Tensor.all, np.all), shapes=EMPTY, domain="bits", gradient=False)
        row(f"logsumexp {label}", *both(Tensor.logsumexp, lambda a, **k: np.log(np.sum(np.exp(a), **k))),
            shapes=LINES)
        if not isinstance(dim, tuple):
            row(f"argmax {label}", *both(Tensor.argmax, np.argmax), shapes=LINES, domain="int",
                gradient=False)
            row(f"argmin {label}", *both(Tensor.argmin, np.argmin), shapes=LINES, gradient=False)
            row(f"aminmax {label}", lambda a, k=along: a.aminmax(**k), None,
                lambda a, k=along: torch.aminmax(a, **k), shapes=LINES, domain="distinct")
        if isinstance(dim, int):
            for name in ("max", "min", "median"):
                row(f"{name} {label}", lambda a, name=name, k=along: getattr(a, name)(**k), None,
                    lambda a, name=name, k=along: getattr(a, name)(**k), shapes=LINES, domain="distinct")
        if keep != (dim == 0):
            continue
        row(f"int any {label}", *both(Tensor.any, np.any), shapes=LINES, domain="count", gradient=False)
        row(f"int all {label}", *both(Tensor.all, np.all), shapes=LINES, domain="count", gradient=False)
        row(f"int amax {label}", *both(Tensor.amax, np.max), shapes=LINES, domain="int", gradient=False)
        row(f"int amin {label}", *both(Tensor.amin, np.min), shapes=LINES, domain="int", gradient=False)
        row(f"int prod {label}", *both(Tensor.prod, np.prod), shapes=EMPTY, domain="nonzero", gradient=False)
        row(f"int mean {label}", *both(Tensor.mean, np.mean), shapes=LINES, domain="int", gradient=False)
        row(f"bool sum {label}", *both(Tensor.sum, np.sum), shapes=EMPTY, domain="bits", gradient=False)
        row(f"count_nonzero {label}", *both(Tensor.count_nonzero, np.count_nonzero), shapes=EMPTY,
            domain="count", gradient=False)
        for p in ("fro", 1, 2, 3, 0.5, -1, 2.5, math.inf, -math.inf):
            row(f"norm {p} {label}", lambda a, p=p, k=along: a.norm(p, **k), None,
                lambda a, p=p, k=along: torch.linalg.vector_norm(a, 2 if p == "fro" else p, **k),
                shapes=LINES[1:2], domain="away")  # fmt: skip
        if isinstance(dim, int):
            for name in ("max", "min", "median"):
                row(f"int {name} {label}", lambda a, name=name, k=along: getattr(a, name)(**k).values, None,
                    lambda a, name=name, k=along: getattr(a, name)(**k).values, shapes=LINES, domain="int",
                    gradient=False)

for name in ("max", "min", "median"):
    row(name, lambda a, name=name: getattr(a, name)(), None, lambda a, name=name: getattr(a, name)(),
        shapes=LINES, domain="distinct")
for name in ("max", "min"):
    row(f"{name} of two", lambda a, b, name=name: getattr(a, name)(b), None,
        lambda a, b, name=name: getattr(torch, f"{name}imum")(a, b), shapes=(((3, 4), (4,)),))
row("sum 0-d", lambda a: a.sum(0), lambda a: a, shapes=(((),),))
row("sum dtype", lambda a: a.sum(1, dtype="int32"), lambda a: a.sum(1, dtype=np.int32), shapes=LINES,
    domain="int", gradient=False)
row("mean dtype", lambda a: a.mean(1, dtype="float64"), None, lambda a: a.mean(1, dtype=torch.float64),
    shapes=LINES, domain="int", gradient=False)
row("int sum", Tensor.sum, np.sum, shapes=EMPTY, domain="int", gradient=False)
row("int norm", lambda a: a.norm(dim=1), lambda a: np.linalg.norm(a, axis=1), shapes=LINES[:1], domain="int",
    gradient=False)
row("norm of everything", Tensor.norm, np.linalg.norm, lambda a: a.norm(), shapes=(((3, 4),), ((7,),)))
row("norm 0", lambda a: (a * Tensor([0.0, 1, 1, 0])).norm(0, 1), None,
    lambda a: (a * torch.tensor([0.0, 1, 1, 0])).norm(0, 1), shapes=LINES[:1], gradient=False)
for options in ({"unbiased": False}, {"unbiased": True}, {"correction": 0}, {"correction": 2},
                {"correction": 0.5}):  # fmt: skip
    words = " ".join(f"{k}={v}" for k, v in options.items())
    for name in ("var", "std", "var_mean", "std_mean"):
        row(f"{name} {words}", lambda a, name=name, o=options: getattr(a, name)(1, **o), None,
            lambda a, name=name, o=options: getattr(torch, name)(a, 1, **o), shapes=LINES[:2])
row("var of everything", lambda a: a.var(False), None, lambda a: a.var(False), shapes=LINES[:2])
row("prod with zeros", lambda a: (a * Tensor([1.0, 0.0, 1.0, 1.0])).prod(1), None,
    lambda a: (a * torch.tensor([1.0, 0.0, 1.0, 1.0])).prod(1), shapes=(((3, 4),),))  # fmt: skip


def holes(a: Any) -> Any:
    """Some elements replaced by NaN."""
    mask = [[False, True, False, True], [False] * 4, [True, False, False, False]]
    return a.masked_fill(Tensor(mask) if isinstance(a, Tensor) else torch.tensor(mask), math.nan)


for name in ("nansum", "nanmean", "nanmedian"):
    for options in ({"dim": 1}, {"dim": 0, "keepdim": True}, {}):
        words = " ".join(f"{k}={v}" for k, v in options.items())
        row(f"{name} {words}", lambda a, name=name, o=options: getattr(holes(a), name)(**o), None,
            lambda a, name=name, o=options: getattr(holes(a), name)(**o), shapes=LINES[:1], domain="distinct")
row("int nansum", lambda a: a.nansum(1), lambda a: np.nansum(a, 1), shapes=LINES, domain="int",
    gradient=False)

# ---- the softmax family

for dim in (0, -1):
    row(f"softmax {dim}", lambda a, d=dim: a.softmax(d), None, lambda a, d=dim: a.softmax(d), shapes=LINES)
    row(f"softmin {dim}", lambda a, d=dim: a.softmin(d), None, lambda a, d=dim: F.softmin(a, d), shapes=LINES)
    row(f"log_softmax {dim}", lambda a, d=dim: a.log_softmax(d), None, lambda a, d=dim: a.log_softmax(d),
        shapes=LINES)
row("softmax dtype", lambda a: a.softmax(-1, dtype="float64"), None,
    lambda a: a.softmax(-1, dtype=torch.float64), shapes=LINES, domain="int", gradient=False)
row("normalize", lambda a: a.normalize(dim=1), None, lambda a: F.normalize(a, dim=1), shapes=LINES)
row("layernorm", Tensor.layernorm, None, lambda a: F.layer_norm(a, a.shape[-1:]), shapes=LINES[:2])
row("rms_norm", Tensor.rms_norm, None, lambda a: a / (a.square().mean(-1, True) + 1e-6).sqrt(), shapes=LINES)

# ---- scans

for dim in (0, -1):
    for name in ("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"):
        row(f"{name} {dim}", lambda a, name=name, d=dim: getattr(a, name)(d), None,
            lambda a, name=name, d=dim: getattr(a, name)(d), shapes=LINES)
        if name != "logcumsumexp":
            row(f"int {name} {dim}", lambda a, name=name, d=dim: getattr(a, name)(d), None,
                lambda a, name=name, d=dim: getattr(a, name)(d), shapes=LINES, domain="int", gradient=False)
row("scans of nothing", lambda a: (a.cumsum(1), a.cumprod(0), a.cummax(1).values, a.logcumsumexp(0)), None,
    lambda a: (a.cumsum(1), a.cumprod(0), a.clone(), a.logcumsumexp(0)), shapes=(((0, 3),),))
row("logcumsumexp of many", lambda a: a.logcumsumexp(0), None, lambda a: a.logcumsumexp(0),
    shapes=(((200, 2),),))
row("logcumsumexp of nothing yet", lambda a: a.masked_fill(Tensor([[True], [True], [False]]), -math.inf)
    .logcumsumexp(0)[1:], None,
    lambda a: a.masked_fill(torch.tensor([[True], [True], [False]]), -math.inf).logcumsumexp(0)[1:],
    shapes=LINES[:1], gradient=False)
row("cumprod with zeros", lambda a: (a * Tensor([1.0, 0.0, 1.0, 0.0])).cumprod(1), None,
    lambda a: (a * torch.tensor([1.0, 0.0, 1.0, 0.0])).cumprod(1), shapes=(((3, 4),),))  # fmt: skip
row("cumsum dtype", lambda a: a.cumsum(1, dtype="float32"), None, lambda a: a.cumsum(1, dtype=torch.float32),
    shapes=LINES, domain="int", gradient=False)
for options in ({}, {"n": 2}, {"dim": 0}, {"n": 0}, {"n": 9}):
    words = " ".join(f"{k}={v}" for k, v in options.items())
    row(f"diff {words}", lambda a, o=options: a.diff(**o), None, lambda a, o=options: a.diff(**o),
        shapes=LINES)
row("diff with ends", lambda a, b, c: a.diff(2, 1, prepend=b, append=c), None,
    lambda a, b, c: a.diff(2, 1, prepend=b, append=c), shapes=(((3, 4), (3, 2), (3, 1)),))
row("diff of bools", lambda a: a.diff(), lambda a: np.diff(a), shapes=LINES, domain="bits", gradient=False)
row("trapezoid", lambda a: a.trapezoid(dx=0.5, dim=0), None, lambda a: torch.trapezoid(a, dx=0.5, dim=0),
    shapes=LINES)
row("trapezoid at points", lambda a, b: a.trapezoid(b), None, torch and torch.trapezoid,
    shapes=(((3, 4), (4,)), ((3, 4), (3, 4))))
row("cumulative_trapezoid", lambda a, b: a.cumulative_trapezoid(b), None,
    torch and torch.cumulative_trapezoid, shapes=(((3, 4), (4,)), ((3, 4), (3, 4))))
# one reduction inside of another, of pairs
row("farthest", lambda a, b: (a.unsqueeze(1) - b).abs().sum(1).amax(0),
    lambda a, b: abs(a[:, None] - b).sum(1).max(0), shapes=(((16,), (8,)), ((130,), (70,))))
row("renorm", lambda a: a.renorm(2, 0, 1.5), None, lambda a: a.renorm(2, 0, 1.5), shapes=LINES[:2])
row("renorm p=1", lambda a: a.renorm(1, -1, 1.0), None, lambda a: a.renorm(1, -1, 1.0), shapes=LINES[:2])
row("sum_to_size", lambda a: a.sum_to_size(3, 1), None, lambda a: a.sum_to_size(3, 1), shapes=LINES[:2])
