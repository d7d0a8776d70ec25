"""NumPy's functions of arrays that PyTorch has no name for, or another one. The first argument may be an
array, a nested list or a number, too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from dawdle.dtype import promote
from dawdle.errors import ArgumentError, IndexingError, ShapeError
from dawdle.functions import elementwise, function
from dawdle.tensor import Tensor
from dawdle.tensor.arguments import checked, public
from dawdle.tensor.core import Dim, Operand, coerce, dims
from dawdle.tensor.elementwise import where
from dawdle.tensor.interop import host_data
from dawdle.tensor.joining import broadcast_tensors, cat, stack
from dawdle.tensor.movement import dimension

P = ParamSpec("P")
R = TypeVar("R")


def of_array(method: Callable[Concatenate[Tensor, P], R]) -> Callable[Concatenate[Operand, P], R]:
    """Decorator: the first argument may be anything that a tensor can be made of; the others are checked."""
    return function(checked(method))


# ---- other names

around = function(Tensor.round)
array_equal = function(Tensor.equal)
array_split = function(Tensor.tensor_split)
bitwise_invert = invert = function(Tensor.bitwise_not)
cumulative_prod, cumulative_sum = function(Tensor.cumprod), function(Tensor.cumsum)
degrees, radians = function(Tensor.rad2deg), function(Tensor.deg2rad)
expand_dims = function(Tensor.unsqueeze)
fabs, rint = function(Tensor.abs), function(Tensor.round)
left_shift, right_shift = elementwise(Tensor.bitwise_left_shift), elementwise(Tensor.bitwise_right_shift)
mod, power = elementwise(Tensor.remainder), elementwise(Tensor.pow)
permute_dims = function(Tensor.permute)
take_along_axis = function(Tensor.take_along_dim)
unstack = function(Tensor.unbind)


@of_array
def matrix_transpose(x: Tensor) -> Tensor:
    """The last two dimensions exchanged."""
    return x.mT


# ---- elements


@of_array
def cbrt(x: Tensor) -> Tensor:
    """The real cube root, with the sign of ``x``."""
    return (x.abs() ** (1 / 3)).copysign(x)


@elementwise
@checked
def divmod(x: Tensor, other: Operand) -> tuple[Tensor, Tensor]:
    """(x // other, x % other)."""
    return x // other, x % other


@of_array
def modf(x: Tensor) -> tuple[Tensor, Tensor]:
    """(fraction, whole part), both with the sign of ``x``; the fraction of an infinity is 0."""
    whole = x.trunc()
    return where(x.isinf(), 0.0, x - whole).copysign(x), whole


@of_array
def interp(
    x: Tensor, xp: Tensor, fp: Tensor, left: float | None = None, right: float | None = None
) -> Tensor:
    """The function through the points (``xp``, ``fp``), ``xp`` increasing, at ``x``: linear between them;
    beyond, ``left`` and ``right``, by default the first and last value. Gradients flow to all three.
    """
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.numel():
        raise ShapeError(f"interp takes points in two equal vectors, got shapes {xp.shape}, {fp.shape}")
    last = xp.numel() - 1
    above = xp.detach().searchsorted(x.detach(), right=True).clamp(min(1, last), last)
    below = (above - 1).clamp(0)
    start, span = fp[below], xp[above] - xp[below]
    share = (x - xp[below]) / where(span == 0, 1.0, span)
    out = start + share * (fp[above] - start)
    out = where(x >= xp[-1], fp[-1], where(x < xp[0], fp[0], out))
    out = out if left is None else where(x < xp[0], left, out)
    return out if right is None else where(x > xp[-1], right, out)


@of_array
def polyval(p: Tensor, x: Tensor) -> Tensor:
    """The polynomial with coefficients ``p``, that of the highest power first, at ``x``."""
    if p.ndim != 1:
        raise ShapeError(f"polyval takes coefficients in a vector, got shape {p.shape}")
    out = x * 0 + (p[0] if p.numel() else 0)
    for coefficient in p[1:].unbind():
        out = out * x + coefficient
    return out


# ---- statistics


@of_array
@dims
def percentile(
    x: Tensor, q: Operand, dim: Dim = None, keepdim: bool = False, *, method: str = "linear"
) -> Tensor:
    """:meth:`Tensor.quantile` of ``q`` in percent."""
    return x.quantile(_hundredth(q), dim, keepdim, interpolation=method)


@of_array
@dims
def nanpercentile(
    x: Tensor, q: Operand, dim: Dim = None, keepdim: bool = False, *, method: str = "linear"
) -> Tensor:
    """:func:`percentile` of the elements that aren't NaN."""
    return x.nanquantile(_hundredth(q), dim, keepdim, interpolation=method)


def _hundredth(q: Any) -> Any:
    return q / 100 if hasattr(q, "lazy") else host_data(q).values.astype(np.float64) / 100


@of_array
@dims
def ptp(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The largest element over ``dim`` (all by default) less the smallest."""
    return x.amax(dim, keepdim) - x.amin(dim, keepdim)


@of_array
@dims
def average(
    x: Tensor, dim: int | None = None, weights: Tensor | None = None, keepdim: bool = False
) -> Tensor:
    """The mean over ``dim`` (all by default), of which each element counts by its weight. ``weights`` has the
    shape of ``x``, or is a vector along ``dim``.
    """
    if weights is None:
        return x.mean(dim, keepdim)
    if weights.shape != x.shape:
        if dim is None or weights.ndim != 1 or weights.shape[0] != x.shape[dim]:
            raise ShapeError(f"average: weights of shape {weights.shape} for {x.shape} along {dim}")
        weights = weights.reshape(*[-1 if i == dim % x.ndim else 1 for i in range(x.ndim)]).expand(*x.shape)
    return (x * weights).sum(dim, keepdim) / weights.sum(dim, keepdim)


def _without_nan(x: Tensor, value: float) -> Tensor:
    return where(x.isnan(), value, x) if x.dtype.is_float else x


def _or_nan(x: Tensor, out: Tensor, dim: Dim, keepdim: bool) -> Tensor:
    """``out``, NaN where all elements that it was reduced from are."""
    return where(x.isnan().all(dim, keepdim), math.nan, out) if x.dtype.is_float else out


@of_array
@dims
def nanmax(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The largest element over ``dim`` (all by default) that isn't NaN; NaN where all are."""
    return _or_nan(x, _without_nan(x, -math.inf).amax(dim, keepdim), dim, keepdim)


@of_array
@dims
def nanmin(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The smallest element over ``dim`` (all by default) that isn't NaN; NaN where all are."""
    return _or_nan(x, _without_nan(x, math.inf).amin(dim, keepdim), dim, keepdim)


@of_array
@dims
def nanargmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The index of :func:`nanmax` along ``dim``, or in the flattened tensor; 0 where all are NaN."""
    return _without_nan(x, -math.inf).argmax(dim, keepdim)


@of_array
@dims
def nanargmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The index of :func:`nanmin` along ``dim``, or in the flattened tensor; 0 where all are NaN."""
    return _without_nan(x, math.inf).argmin(dim, keepdim)


@of_array
@dims
def nanprod(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The product over ``dim`` (all by default) of the elements that aren't NaN."""
    return _without_nan(x, 1.0).prod(dim, keepdim)


@of_array
@dims
def nancumsum(x: Tensor, dim: int = 0) -> Tensor:
    """Sums along ``dim`` up to each element, with NaN counted as 0."""
    return _without_nan(x, 0.0).cumsum(dim)


@of_array
@dims
def nancumprod(x: Tensor, dim: int = 0) -> Tensor:
    """Products along ``dim`` up to each element, with NaN counted as 1."""
    return _without_nan(x, 1.0).cumprod(dim)


@of_array
@dims
def nanvar(x: Tensor, dim: Dim = None, keepdim: bool = False, *, ddof: float = 0) -> Tensor:
    """The variance over ``dim`` (all by default) of the n elements that aren't NaN: the sum of squared
    distances from their mean divided by n - ``ddof``. NaN where that isn't positive.
    """
    present = ~x.isnan()
    distance = where(present, x - x.nanmean(dim, keepdim=True), 0.0)
    count = present.sum(dim, keepdim) - ddof
    return distance.square().sum(dim, keepdim) / where(count > 0, count, math.nan).to(distance.dtype)


@of_array
@dims
def nanstd(x: Tensor, dim: Dim = None, keepdim: bool = False, *, ddof: float = 0) -> Tensor:
    """The square root of :func:`nanvar`, with gradient 0 where it is 0."""
    variance = nanvar(x, dim, keepdim, ddof=ddof)
    zero = variance == 0
    return where(zero, 0.0, where(zero, 1.0, variance).sqrt())


# ---- order and sets


@of_array
@dims
def partition(x: Tensor, kth: Operand, dim: int = -1) -> Tensor:
    """Elements along ``dim`` in such an order that those at the places ``kth`` are where sorting has them,
    smaller ones before and larger ones after. Here: sorted.
    """
    return x.sort(dim)[0]


@of_array
@dims
def argpartition(x: Tensor, kth: Operand, dim: int = -1) -> Tensor:
    """The indices that :func:`partition` takes its elements from."""
    return x.argsort(dim)


def lexsort(keys: Sequence[Operand]) -> Tensor:
    """The indices that sort by several vectors, of which the last counts first."""
    parts = [x if isinstance(x, Tensor) else Tensor(x) for x in keys]
    if not parts or any(x.ndim != 1 or x.shape != parts[0].shape for x in parts):
        raise ShapeError(f"lexsort takes vectors of one size, got shapes {[x.shape for x in parts]}")
    order = parts[0].argsort(stable=True)
    for key in parts[1:]:
        order = order[key[order].argsort(stable=True)]
    return order


@of_array
def digitize(x: Tensor, bins: Tensor, right: bool = False) -> Tensor:
    """The number of ``bins``, an increasing vector, that each element reaches: that are at most as large, or
    with ``right`` smaller.
    """
    return x.bucketize(bins, right=not right)


@of_array
def intersect1d(x: Tensor, other: Tensor) -> Tensor:
    """The elements, sorted and each once, that are in both. Evaluated at once, as :meth:`Tensor.unique`."""
    known: Tensor = x.unique()
    return known[known.isin(other)]


@of_array
def setdiff1d(x: Tensor, other: Tensor) -> Tensor:
    """The elements, sorted and each once, that aren't in ``other``."""
    known: Tensor = x.unique()
    return known[known.isin(other, invert=True)]


@of_array
def union1d(x: Tensor, other: Tensor) -> Tensor:
    """The elements, sorted and each once, that are in one or both."""
    out: Tensor = cat([x.flatten(), other.flatten()]).unique()
    return out


@of_array
def setxor1d(x: Tensor, other: Tensor) -> Tensor:
    """The elements, sorted and each once, that are in one of both but not in the other."""
    out: Tensor = cat([setdiff1d(x, other), setdiff1d(other, x)]).unique()
    return out


# ---- places


@of_array
@dims
def compress(condition: Tensor, a: Tensor, dim: int | None = None) -> Tensor:
    """The slices along ``dim``, or the elements in order, for which ``condition``, a vector, holds; it is
    evaluated at once.
    """
    a = a.flatten() if dim is None else a
    return a.index_select(dim or 0, condition.flatten().nonzero().flatten())


@of_array
def extract(condition: Tensor, a: Tensor) -> Tensor:
    """The elements for which ``condition``, of equal shape, holds; it is evaluated at once."""
    return a.masked_select(condition.bool())


@of_array
def choose(x: Tensor, choices: Sequence[Operand]) -> Tensor:
    """``choices[i]`` at each element i; all broadcast."""
    index, *options = broadcast_tensors(x, *[coerce(x, c) for c in choices])
    return stack(options, 0).gather(0, index.unsqueeze(0)).squeeze(0)


@of_array
def flatnonzero(x: Tensor) -> Tensor:
    """The places of the elements that aren't 0 in the flattened tensor; evaluated at once."""
    out: Tensor = x.flatten().nonzero().flatten()
    return out


@public
def ravel_multi_index(multi_index: Sequence[Operand] | Tensor, dims: Sequence[int]) -> Tensor:
    """The places in a flattened tensor of shape ``dims`` of what has these indices along each dimension."""
    indices = [x if isinstance(x, Tensor) else Tensor(x) for x in multi_index]
    if len(indices) != len(dims) or not indices:
        raise ShapeError(f"ravel_multi_index: {len(indices)} indices for the dimensions {tuple(dims)}")
    out = indices[0]
    for index, size in zip(indices[1:], dims[1:], strict=True):
        out = out * size + index
    return out


@of_array
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """The indices along each dimension of places in a flattened tensor of ``shape``."""
    sizes = (shape,) if isinstance(shape, int) else shape
    out: list[Tensor] = []
    for size in reversed(sizes):
        out.append(indices % size)
        indices = indices // size
    return tuple(reversed(out))


# ---- parts put together


@of_array
def append(x: Tensor, values: Operand, axis: int | None = None) -> Tensor:
    """``values`` behind ``x`` along ``axis``; without one both are flattened."""
    more = coerce(x, values)
    return cat([x.flatten(), more.flatten()]) if axis is None else cat([x, more], axis)


@of_array
def delete(x: Tensor, obj: Any, axis: int | None = None) -> Tensor:
    """``x`` without the slices at ``obj``, an index, several, a mask or a slice, along ``axis``; without one
    ``x`` is flattened.
    """
    x, axis = _along("delete", x, axis)
    return x.index_select(axis, _edited("delete", np.delete, x.shape[axis], _places(obj)))


@of_array
def insert(x: Tensor, obj: Any, values: Operand, axis: int | None = None) -> Tensor:
    """``x`` with ``values`` before the slices at ``obj``, an index, several, or a slice, along ``axis``;
    without one ``x`` is flattened. ``values`` are broadcast, and cast to the dtype of ``x``.
    """
    x, axis = _along("insert", x, axis)
    n, places = x.shape[axis], _places(obj)
    count = np.size(np.arange(n)[places] if isinstance(places, slice) else places)
    more = coerce(x, values).to(x.dtype)
    if np.ndim(places) == 0 and not isinstance(places, slice) and more.ndim:  # as NumPy: several at one place
        more = more if more.ndim == x.ndim else more.unsqueeze(0).movedim(0, axis)
        count = more.shape[axis] if x.ndim > 1 or more.ndim == 1 else count
        places = np.full(count, places)
    shape = [count if i == axis else m for i, m in enumerate(x.shape)]
    order = _edited("insert", np.insert, n, places, np.arange(n, n + count))
    return cat([x, more.expand(*shape)], axis).index_select(axis, order)


def _along(what: str, x: Tensor, axis: int | None) -> tuple[Tensor, int]:
    return (x.flatten(), 0) if axis is None else (x, dimension(x, axis, what))


def _places(obj: Any) -> Any:
    return obj if isinstance(obj, slice) else np.asarray(obj)


def _edited(what: str, edit: Callable[..., Any], n: int, places: Any, *values: Any) -> Any:
    """The numbers below ``n``, edited by NumPy's function."""
    try:
        return edit(np.arange(n), places, *values)
    except (IndexError, ValueError, TypeError) as error:
        raise IndexingError(f"{what}: {error}") from None


@of_array
def ediff1d(x: Tensor, to_end: Operand | None = None, to_begin: Operand | None = None) -> Tensor:
    """Differences of neighbours in the flattened tensor, between ``to_begin`` and ``to_end``."""
    flat = x.flatten()
    parts = [to_begin, flat[1:] - flat[:-1], to_end]
    return cat([coerce(x, p).flatten() for p in parts if p is not None])


def identity(n: int, dtype: object | None = None, device: str | None = None) -> Tensor:
    """The n x n matrix with ones on the diagonal, float32 by default."""
    return Tensor.eye(n, dtype=dtype, device=device)


@public
def tri(
    N: int, M: int | None = None, k: int = 0, dtype: object | None = None, device: str | None = None
) -> Tensor:
    """An N x M (N x N by default) matrix of ones on and below diagonal ``k``, float32 by default."""
    return Tensor.ones(N, N if M is None else M, dtype=dtype, device=device).tril(k)


@public
def geomspace(
    start: float, stop: float, num: int = 50, dtype: object | None = None, device: str | None = None
) -> Tensor:
    """``num`` numbers from ``start`` to ``stop``, each the same multiple of the one before."""
    if start == 0 or stop == 0 or (start < 0) != (stop < 0):
        raise ArgumentError(f"geomspace: from {start} to {stop} no factor leads; give two of one sign, not 0")
    sign = -1.0 if start < 0 else 1.0
    exponents = Tensor.linspace(math.log2(abs(start)), math.log2(abs(stop)), num, "float64", device)
    return (exponents.exp2() * sign).to(dtype or "float32")


@of_array
def convolve(a: Tensor, v: Tensor, mode: str = "full") -> Tensor:
    """The convolution of two vectors: "full", its middle part of the longer one's size ("same"), or where
    they overlap completely ("valid").
    """
    return _correlated(a, v.flip(0), mode, "convolve") if len(v) <= len(a) else convolve(v, a, mode)


@of_array
def correlate(a: Tensor, v: Tensor, mode: str = "valid") -> Tensor:
    """The correlation of two vectors: sums of products with ``v`` moved along ``a``; ``mode`` as in
    :func:`convolve`.
    """
    if len(v) <= len(a):
        return _correlated(a, v, mode, "correlate")
    return _correlated(v, a, mode, "correlate").flip(0)


def _correlated(a: Tensor, v: Tensor, mode: str, what: str) -> Tensor:
    """Of ``v`` not longer than ``a``."""
    if a.ndim != 1 or v.ndim != 1 or not v.numel():
        raise ShapeError(f"{what} takes vectors that aren't empty, got shapes {a.shape}, {v.shape}")
    n = v.numel()
    padding = {"full": (n - 1, n - 1), "same": (n // 2, n - 1 - n // 2), "valid": (0, 0)}
    if mode not in padding:
        raise ArgumentError(f"{what}: mode must be one of {', '.join(padding)}, got {mode!r}")
    return (a.pad(padding[mode]).unfold(0, n, 1) * v).sum(-1, dtype=promote(a.dtype, v.dtype))


@of_array
def combinations(x: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """The combinations of ``r`` elements of a vector, one row for each, in the order of ``itertools``."""
    if x.ndim != 1 or r < 0:
        raise ShapeError(f"combinations takes a vector and a number of elements, got {x.shape}, {r}")
    draw = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    chosen = list(draw(range(x.numel()), r))
    return x[np.array(chosen, np.int64).reshape(len(chosen), r)]


# fmt: off
__all__ = [
    "append", "argpartition", "around", "array_equal", "array_split", "average", "bitwise_invert", "cbrt",
    "choose", "combinations", "compress", "convolve", "correlate", "cumulative_prod", "cumulative_sum",
    "degrees", "delete", "digitize", "divmod", "ediff1d", "expand_dims", "extract", "fabs", "flatnonzero",
    "geomspace", "identity", "insert", "interp", "intersect1d", "invert", "left_shift", "lexsort",
    "matrix_transpose", "mod", "modf", "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax",
    "nanmin", "nanpercentile", "nanprod", "nanstd", "nanvar", "partition", "percentile", "permute_dims",
    "polyval", "power", "ptp", "radians", "ravel_multi_index", "right_shift", "rint", "setdiff1d", "setxor1d",
    "take_along_axis", "tri", "union1d", "unravel_index", "unstack",
]
# fmt: on
