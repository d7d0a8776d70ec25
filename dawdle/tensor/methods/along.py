"""Reductions, scans and order along dimensions."""

from __future__ import annotations

from dawdle.tensor import reduce


class Along:
    __slots__ = ()

    sum, prod, mean = reduce.sum, reduce.prod, reduce.mean
    var, std, var_mean, norm = reduce.var, reduce.std, reduce.var_mean, reduce.norm
    max, amax, min, amin = reduce.amax, reduce.amax, reduce.amin, reduce.amin
    argmax, argmin, any, all = reduce.argmax, reduce.argmin, reduce.any, reduce.all
    logsumexp, softmax, log_softmax = reduce.logsumexp, reduce.softmax, reduce.log_softmax
    cumsum, cumprod, cummax = reduce.cumsum, reduce.cumprod, reduce.cummax
