"""Elements at given places, read and written."""

from __future__ import annotations

from dawdle.tensor import indexing, layouts
from dawdle.tensor import scatter as places
from dawdle.tensor.operators import rebinding


class Places:
    __slots__ = ()

    __getitem__, __setitem__ = indexing.getitem, indexing.setitem
    gather, take_along_dim, index_select = places.gather, places.take_along_dim, places.index_select
    take, select, narrow = places.take, places.select, places.narrow
    scatter, scatter_add, scatter_reduce = places.scatter, places.scatter_add, places.scatter_reduce
    index_add, index_copy, index_fill = places.index_add, places.index_copy, places.index_fill
    index_reduce, index_put, put = places.index_reduce, places.index_put, places.put
    masked_select, masked_scatter = places.masked_select, places.masked_scatter
    nonzero, argwhere, one_hot = places.nonzero, places.argwhere, places.one_hot
    select_scatter, slice_scatter = places.select_scatter, places.slice_scatter
    diagonal_scatter, fill = places.diagonal_scatter, places.fill
    scatter_, scatter_add_, scatter_reduce_ = rebinding(scatter, scatter_add, scatter_reduce)
    index_add_, index_copy_, index_fill_ = rebinding(index_add, index_copy, index_fill)
    index_reduce_, index_put_, put_ = rebinding(index_reduce, index_put, put)
    masked_scatter_, fill_ = rebinding(masked_scatter, fill)
    zero_, fill_diagonal_ = places.zero_, layouts.fill_diagonal_
