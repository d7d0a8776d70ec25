"""Pooling: windows over the last one, two or three dimensions, each reduced to one number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dawdle.dtype import Array, bool_, int32, int64
from dawdle.errors import ArgumentError, DTypeError, ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.autograd import Composite, Node, Parts, rule
from dawdle.tensor.core import Shape, apply, cast, composite, constant, operands, widen
from dawdle.tensor.resample import area
from dawdle.tensor.windows import Sizes, Windows, each, for_sizes, windows

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


def _pool(
    x: Tensor,
    n: int,
    what: str,
    kernel: Sizes,
    stride: Sizes | None,
    padding: Any = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Windows:
    sizes = each(kernel, n, "kernel_size")
    strides = sizes if stride is None else each(stride, n, "stride")
    w = windows(
        x.lazy.shape, sizes, strides, each(dilation, n, "dilation"), padding, f"{what}{n}d", ceil_mode
    )
    for (low, high), k, d in zip(w.pads, w.kernel, w.dilations, strict=True):
        if max(low, high) * 2 > (k - 1) * d + 1:
            raise ShapeError(
                f"{what}{n}d: padding {w.pads} is more than half of a window of {w.kernel}; "
                "pad the input with pad() first"
            )
    return w


def _reduced(op: Op, w: Windows, opened: Tensor) -> Tensor:
    """(..., *places, *kernel) reduced over the kernel."""
    lead = len(opened.lazy.shape) - len(w.kernel)
    axes = tuple(range(lead, len(opened.lazy.shape)))
    return apply(Op.RESHAPE, opened.lazy.shape[:lead], apply(op, axes, opened))


# ---- maximum


def max_pool(
    x: Tensor,
    n: int,
    kernel_size: Sizes = 2,
    stride: Sizes | None = None,
    padding: Any = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Largest element of each window, NaN if there is one; any dtype but bool.

    ``stride`` defaults to the kernel. Padding, at most half a window, counts as -inf. ``ceil_mode`` adds a
    last, partial window where elements are left. With ``return_indices`` also the place of that element
    (the first of equal ones) in the input's last dimensions flattened, int64. The gradient goes to that place
    alone. Raises ShapeError for windows that don't fit.
    """
    w = _pool(x, n, "max_pool", kernel_size, stride, padding, dilation, ceil_mode)
    return (largest(x, w), places_of_largest(x, w)) if return_indices else largest(x, w)


def largest(x: Tensor, w: Windows) -> Tensor:
    """The largest element of each window."""
    least = x.lazy.dtype.min
    return composite(Composite.MAX_POOL, lambda x: _reduced(Op.AMAX, w, w.of(x, least)), x, arg=w)


@rule(Composite.MAX_POOL, inputs=True)
def _max_pool_gradient(node: Node, g: Tensor) -> Parts:
    w: Windows = node.arg
    winner, last = _winners(node.x(g), w), math.prod(w.kernel) - 1
    numbers = apply(Op.RESHAPE, w.kernel, type(g)._iota(last + 1, int32, g.lazy.device))
    if w.overlap:
        mine = ew.eq(w.around(winner), last - numbers)
        return (_reduced(Op.SUM, w, ew.where(mine, w.around(g), 0.0)),)
    opened = (*g.lazy.shape, *[1] * len(w.kernel))
    mine = ew.eq(apply(Op.RESHAPE, opened, winner), numbers)
    return (w.back(ew.where(mine, apply(Op.RESHAPE, opened, g), 0.0)),)


def _winners(x: Tensor, w: Windows) -> Tensor:
    """The number within the kernel of the first largest element of each window that isn't padding; the
    kernel's size where all are.
    """
    x = x.detach()
    opened = w.of(x, x.lazy.dtype.min, laid=True)
    lead = len(opened.lazy.shape) - len(w.kernel)
    largest = apply(Op.AMAX, tuple(range(lead, len(opened.lazy.shape))), opened)
    found = ew.eq(opened, largest)
    if x.lazy.dtype.is_float:
        found = ew.bitor(found, ew.isnan(opened))
    if w.is_padded:
        found = ew.bitand(found, w.of(constant(x, True, bool_, w.sizes), laid=True))
    last = math.prod(w.kernel) - 1
    numbers = apply(Op.RESHAPE, w.kernel, type(x)._iota(last + 1, int32, x.lazy.device))
    # the first is the one with the most after it
    most = _reduced(Op.AMAX, w, ew.where(found, last - numbers, -1))
    return last - most


def places_of_largest(x: Tensor, w: Windows, strides: Sequence[int] | None = None) -> Tensor:
    """The place of each window's first largest element, int64; -1 where all of the window is padding.

    Places count in the flattened last dimensions, whose elements lie ``strides`` apart: by default as in
    row-major order.
    """
    strides = strides or [math.prod(w.sizes[axis + 1 :]) for axis in range(len(w.sizes))]
    winner = rest = _winners(x, w)
    out = None
    for axis in reversed(range(len(w.kernel))):
        (size, stride, dilation), (low, _) = w.arg[axis], w.pads[axis]
        numbers = type(x)._iota(w.places[axis], int32, x.lazy.device)
        wide = tuple(m if i == axis else 1 for i, m in enumerate(w.places))
        start = apply(Op.RESHAPE, wide, numbers) * stride - low
        at = cast(ew.mod(rest, size) * dilation + start, int64) * strides[axis]
        out = at if out is None else out + at
        rest = rest // size
    assert out is not None
    return ew.where(ew.lt(winner, math.prod(w.kernel)), out, -1) if w.is_padded else out


# ---- means and norms


def avg_pool(
    x: Tensor,
    n: int,
    kernel_size: Sizes = 2,
    stride: Sizes | None = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Mean of each window of floats.

    ``stride`` defaults to the kernel. Padding, at most half a window, counts as zeros, or not at all without
    ``count_include_pad``. ``ceil_mode`` adds a last, partial window where elements are left.
    ``divisor_override`` is what sums are divided by instead of their number of elements. Raises ShapeError
    for windows that don't fit.
    """
    if divisor_override == 0:
        raise ArgumentError(f"avg_pool{n}d: divisor_override must not be 0")
    w = _pool(x, n, "avg_pool", kernel_size, stride, padding, 1, ceil_mode)
    counts = w.counts(count_include_pad) if divisor_override is None else np.array(divisor_override)
    return means(x, w, counts)


def means(x: Tensor, w: Windows, counts: Array) -> Tensor:
    """The sum of each window divided by ``counts``, a number for each place or one for all."""
    if not x.lazy.dtype.is_float:
        raise DTypeError(f"means are of floats, got {x.lazy.dtype.name}; cast the input with .float()")
    wide = widen(x)
    total = composite(Composite.SUM_POOL, lambda x: _reduced(Op.SUM, w, w.of(x)), wide, arg=w)
    if counts.size and (counts == counts.flat[0]).all():
        return cast(ew.mul(total, 1.0 / int(counts.flat[0])), x.lazy.dtype)
    divisor = type(x)._of(counts.astype(wide.lazy.dtype.compute), x.lazy.device)
    return cast(ew.div(total, divisor), x.lazy.dtype)


@rule(Composite.SUM_POOL)
def _sum_pool_gradient(node: Node, g: Tensor) -> Parts:
    w: Windows = node.arg
    if w.overlap:
        return (_reduced(Op.SUM, w, w.around(g)),)
    opened = apply(Op.RESHAPE, (*g.lazy.shape, *[1] * len(w.kernel)), g)
    return (w.back(apply(Op.EXPAND, (*g.lazy.shape, *w.kernel), opened)),)


def lp_pool(
    x: Tensor,
    n: int,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum of x^p)^(1/p) over each window for p = ``norm_type``; a partial window of ``ceil_mode`` counts as
    a full one with the same mean. For infinity, the greatest magnitude. A window whose sum is 0 has no
    gradient. Raises ShapeError for windows that don't fit.
    """
    if norm_type == math.inf:
        greatest: Tensor = max_pool(ew.absolute(x), n, kernel_size, stride, ceil_mode=ceil_mode)
        return greatest
    if not norm_type:
        raise ArgumentError("lp_pool: norm_type is the exponent of a norm, which can't be 0")
    w = _pool(x, n, "lp_pool", kernel_size, stride, 0, 1, ceil_mode)
    total = means(x ** float(norm_type), w, w.counts(True)) * math.prod(w.kernel)
    return ew.where(ew.eq(total, 0.0), 0.0, total) ** (1.0 / norm_type)


# ---- pools of a given number of places


def _counts(x: Tensor, n: int, output_size: int | Sequence[int | None] | None, what: str) -> Shape:
    """How many places there are along each of the last ``n`` dimensions; None keeps a size."""
    sizes = x.lazy.shape[len(x.lazy.shape) - n :]
    given = [output_size] * n if output_size is None or isinstance(output_size, int) else list(output_size)
    if len(given) != n or any(c is not None and c < 0 for c in given):
        raise ShapeError(f"{what}: output_size must be one number or {n}, got {output_size!r}")
    counts = tuple(size if c is None else int(c) for c, size in zip(given, sizes, strict=True))
    if 0 in sizes:
        raise ShapeError(f"{what} has nothing to pool in shape {x.lazy.shape}")
    return counts


def adaptive_avg_pool(x: Tensor, n: int, output_size: int | Sequence[int | None]) -> Tensor:
    """Means of ``output_size`` parts along each of the last dimensions. They cover the input; where its size
    isn't a multiple, neighbours overlap by one element. None keeps a size. Floats.
    """
    return area(x, _counts(x, n, output_size, f"adaptive_avg_pool{n}d"))


def adaptive_max_pool(
    x: Tensor, n: int, output_size: int | Sequence[int | None], return_indices: bool = False
) -> Any:
    """Largest elements of ``output_size`` parts along each of the last dimensions, which cover the input as
    in :func:`adaptive_avg_pool`. Indices and gradients as in :func:`max_pool`.
    """
    counts = _counts(x, n, output_size, f"adaptive_max_pool{n}d")
    shape = x.lazy.shape
    lead, sizes = shape[: len(shape) - n], shape[len(shape) - n :]
    if all(c and s % c == 0 for s, c in zip(sizes, counts, strict=True)):
        kernel = [s // c for s, c in zip(sizes, counts, strict=True)]
        return max_pool(x, n, kernel, return_indices=return_indices)
    index = _parts(sizes, counts)
    at = type(x)._of(index, x.lazy.device)
    places = apply(Op.RESHAPE, (*[1] * len(lead), *index.shape), at)
    return _chosen(x, n, apply(Op.EXPAND, (*lead, *index.shape), places), counts, return_indices)


def _chosen(x: Tensor, n: int, places: Tensor, counts: Shape, return_indices: bool) -> Any:
    """The largest elements of ``x`` among those at ``places`` (..., parts, elements) of its last ``n``
    dimensions flattened, (..., *counts), and on demand where they are.
    """
    shape = x.lazy.shape
    lead, last = shape[: len(shape) - n], len(shape) - n
    flat = apply(Op.RESHAPE, (*lead, math.prod(shape[last:])), x)
    wide = apply(Op.RESHAPE, (*lead, math.prod(places.lazy.shape[last:])), places)
    opened = apply(Op.RESHAPE, places.lazy.shape, apply(Op.GATHER, last, flat.detach(), wide))
    winner: Tensor = opened.argmax(-1, True)
    chosen = apply(Op.RESHAPE, (*lead, math.prod(counts)), apply(Op.GATHER, last + 1, places, winner))
    out = apply(Op.RESHAPE, (*lead, *counts), apply(Op.GATHER, last, flat, chosen))
    return (out, apply(Op.RESHAPE, (*lead, *counts), chosen)) if return_indices else out


def _parts(sizes: Shape, counts: Shape) -> Array:
    """The flat places of the elements of each part, (parts, most elements), the first one repeated where a
    part has fewer.
    """
    flat: Array = np.zeros((1, 1), np.int64)
    for size, count in zip(sizes, counts, strict=True):
        number = np.arange(count)
        start, stop = number * size // count, -(-(number + 1) * size // count)
        column = np.arange(int((stop - start).max(initial=1)))
        index = start[:, None] + np.where(column < (stop - start)[:, None], column, 0)
        flat = (flat * size)[:, None, :, None] + index[None, :, None, :]
        flat = flat.reshape(flat.shape[0] * count, flat.shape[2] * len(column))
    return flat


# ---- windows at random places


def fractional_max_pool(
    x: Tensor,
    n: int,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Largest elements of ``output_size`` windows (or so many times the input's size) along each of the last
    dimensions, about evenly spread, at places drawn for each channel. ``_random_samples`` (N, C, n), from 0
    to 1, decides about them. Indices and gradients as in :func:`max_pool`.

    Source: Graham, Fractional Max-Pooling, 2014.
    """
    shape = x.lazy.shape
    what, lead, sizes = f"fractional_max_pool{n}d", shape[: len(shape) - n], shape[len(shape) - n :]
    kernel = each(kernel_size, n, "kernel_size")
    if (output_size is None) == (output_ratio is None):
        raise ShapeError(f"{what} takes either output_size or output_ratio")
    if output_size is not None:
        counts = each(output_size, n, "output_size")
    else:
        ratios = [output_ratio] * n if isinstance(output_ratio, (int, float)) else list(output_ratio or ())
        counts = tuple(int(s * float(r)) for s, r in zip(sizes, ratios, strict=True))
    if any(c < 1 or k + c - 1 > s for c, k, s in zip(counts, kernel, sizes, strict=True)):
        raise ShapeError(f"{what}: {counts} windows of {kernel} don't fit into {sizes}")
    samples = _random_samples
    if samples is None:
        samples = type(x).rand(*((1,) * (n + 2 - len(shape)) + lead), n, device=x.lazy.device)
    index = None
    rows = zip(sizes, counts, kernel, strict=True)
    for axis, (size, count, k) in enumerate(rows):
        number = 1 - axis if n == 2 else axis  # PyTorch's order
        drawn = apply(Op.RESHAPE, (*lead, 1, 1), samples.select(-1, number))
        at = _spread_starts(drawn, size, count, k)
        outer = [1] * (2 * n)
        outer[axis], outer[n + axis] = count, k
        at = apply(Op.RESHAPE, (*lead, *outer), at)
        index = at if index is None else index * size + at
    assert index is not None
    opened = apply(Op.RESHAPE, (*lead, math.prod(counts), math.prod(kernel)), index)
    return _chosen(x, n, opened, counts, return_indices)


def _spread_starts(sample: Tensor, size: int, count: int, k: int) -> Tensor:
    """Places (..., count, k) of windows of ``k`` elements about evenly spread over ``size``."""
    device = sample.lazy.device
    number = apply(Op.RESHAPE, (count, 1), type(sample)._iota(count, int64, device))
    step = (size - k) / (count - 1) if count > 1 else 0.0
    start = cast((number + sample) * step, int64) - cast(sample * step, int64)
    start = ew.where(ew.eq(number, count - 1), size - k, start)
    return start + type(sample)._iota(k, int64, device)


# ---- back to the places that a maximum came from


@operands("indices")
def max_unpool(
    x: Tensor,
    n: int,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Zeros with the elements of ``x`` at ``indices``, which :func:`max_pool` gave: its partial inverse.

    ``output_size`` (of the last dimensions, or the whole shape) tells between inputs that give pools of one
    shape. Raises ShapeError where it can't be the size of such an input.
    """
    shape = x.lazy.shape
    if indices.lazy.shape != shape:
        raise ShapeError(f"max_unpool{n}d: indices of shape {indices.lazy.shape} for an input {shape}")
    kernel, pads = each(kernel_size, n, "kernel_size"), each(padding, n, "padding", 0)
    strides = kernel if stride is None else each(stride, n, "stride")
    lead, places = shape[: len(shape) - n], shape[len(shape) - n :]
    rows = zip(places, kernel, strides, pads, strict=True)
    sizes = tuple((m - 1) * s - 2 * p + k for m, k, s, p in rows)
    if output_size is not None:
        wanted = tuple(int(s) for s in output_size)[-n:]
        if len(wanted) != n or any(abs(a - b) >= s for a, b, s in zip(wanted, sizes, strides, strict=True)):
            raise ShapeError(
                f"max_unpool{n}d: output_size {tuple(output_size)} must be within a stride of {sizes}"
            )
        sizes = wanted
    flat = [apply(Op.RESHAPE, (*lead, math.prod(places)), t) for t in (x, indices)]
    zeros = constant(x, 0, shape=(*lead, math.prod(sizes)))
    out: Tensor = zeros.scatter(len(lead), flat[1], flat[0])
    return apply(Op.RESHAPE, (*lead, *sizes), out)


max_pool1d, max_pool2d, max_pool3d = (for_sizes(max_pool, n) for n in (1, 2, 3))
avg_pool1d, avg_pool2d, avg_pool3d = (for_sizes(avg_pool, n) for n in (1, 2, 3))
lp_pool1d, lp_pool2d, lp_pool3d = (for_sizes(lp_pool, n) for n in (1, 2, 3))
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (
    for_sizes(adaptive_avg_pool, n) for n in (1, 2, 3)
)
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (
    for_sizes(adaptive_max_pool, n) for n in (1, 2, 3)
)
fractional_max_pool2d, fractional_max_pool3d = (for_sizes(fractional_max_pool, n) for n in (2, 3))
max_unpool1d, max_unpool2d, max_unpool3d = (for_sizes(max_unpool, n) for n in (1, 2, 3))
