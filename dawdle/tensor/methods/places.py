"""Elements at given places, read and written."""

from __future__ import annotations

from dawdle.tensor import indexing, sorting


class Places:
    __slots__ = ()

    __getitem__, __setitem__ = indexing.getitem, indexing.setitem
    gather, take_along_dim, index_select = indexing.gather, indexing.take_along_dim, indexing.index_select
    scatter, scatter_add, index_add = indexing.scatter, indexing.scatter_add, indexing.index_add
    masked_select, nonzero, one_hot = indexing.masked_select, indexing.nonzero, indexing.one_hot
    select, narrow = indexing.select, indexing.narrow
    argsort, sort, topk, median = sorting.argsort, sorting.sort, sorting.topk, sorting.median
