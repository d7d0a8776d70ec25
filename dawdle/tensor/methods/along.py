"""Reductions, scans, order and statistics along dimensions."""

from __future__ import annotations

from dawdle.tensor import extrema, reduce, scan, searching, sorting, statistics
from dawdle.tensor.operators import rebinding


class Along:
    __slots__ = ()

    sum, nansum, prod, count_nonzero = reduce.sum, reduce.nansum, reduce.prod, reduce.count_nonzero
    any, all = reduce.any, reduce.all
    mean, nanmean = reduce.mean, reduce.nanmean
    var, std, var_mean, std_mean = reduce.var, reduce.std, reduce.var_mean, reduce.std_mean
    norm, logsumexp = reduce.norm, reduce.logsumexp
    softmax, softmin, log_softmax = reduce.softmax, reduce.softmin, reduce.log_softmax
    max, min, amax, amin = extrema.max, extrema.min, extrema.amax, extrema.amin
    aminmax, argmax, argmin = extrema.aminmax, extrema.argmax, extrema.argmin
    cumsum, cumprod, logcumsumexp = scan.cumsum, scan.cumprod, scan.logcumsumexp
    cummax, cummin = scan.cummax, scan.cummin
    diff, trapezoid, cumulative_trapezoid = scan.diff, scan.trapezoid, scan.cumulative_trapezoid
    argsort, sort, msort = sorting.argsort, sorting.sort, sorting.msort
    topk, kthvalue = sorting.topk, sorting.kthvalue
    median, nanmedian, mode = statistics.median, statistics.nanmedian, statistics.mode
    quantile, nanquantile = statistics.quantile, statistics.nanquantile
    cov, corrcoef = statistics.cov, statistics.corrcoef
    searchsorted, bucketize, isin = searching.searchsorted, searching.bucketize, searching.isin
    unique, unique_consecutive = searching.unique, searching.unique_consecutive
    bincount, histc, histogram = searching.bincount, searching.histc, searching.histogram
    renorm, sum_to_size = reduce.renorm, reduce.sum_to_size

    cumsum_, cumprod_, renorm_ = rebinding(cumsum, cumprod, renorm)
