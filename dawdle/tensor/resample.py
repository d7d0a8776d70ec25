"""Axes resampled to other sizes: each result is a sum of a few weighted elements. Which ones, and how much of
each, is worked out on the host; a kernel then gathers and adds. Images and volumes are resampled one axis
after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dawdle.dtype import Array, float64
from dawdle.errors import ArgumentError, DTypeError, ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.autograd import Composite, Node, Parts, rule
from dawdle.tensor.core import Scalar, apply, cast, composite, widen

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

Number = TypeVar("Number")  # an array or a tensor


@dataclass(frozen=True, eq=False)
class Taps:
    """What the results take of an axis of ``size`` elements: result i is the sum over k of ``weights[i, k]``
    times element ``index[i, k]``, or that element itself where ``weights`` is None, which needs a single k.

    An index of -1 takes nothing.
    """

    size: int
    index: Array
    weights: Array | None

    def adjoint(self) -> Taps:
        """The same weights the other way around: what each element gives to the results."""
        count, width = self.index.shape
        weights = np.ones(self.index.shape) if self.weights is None else self.weights
        used = (self.index >= 0).reshape(-1)
        source, weight = self.index.reshape(-1)[used], weights.reshape(-1)[used]
        target = np.repeat(np.arange(count), width)[used]
        order = np.argsort(source, kind="stable")
        uses = np.bincount(source, minlength=self.size)
        column = np.arange(len(order)) - np.repeat(np.cumsum(uses) - uses, uses)
        index = np.full((self.size, max(int(uses.max(initial=0)), 1)), -1)
        shares = np.zeros(index.shape)
        index[source[order], column], shares[source[order], column] = target[order], weight[order]
        return Taps(count, index, shares)


def resample(x: Tensor, axis: int, taps: Taps) -> Tensor:
    """``x`` with ``axis`` replaced by the results that ``taps`` describes, in the dtype of ``x``.

    Half types are added in float32. Raises DTypeError for weighted sums of integers.
    """
    if taps.weights is None:
        moved = _moved(x, axis, taps.index[:, 0])
        if moved is not None:
            return moved
    elif not x.lazy.dtype.is_float:
        raise DTypeError(f"resampling takes floats, got {x.lazy.dtype.name}; cast it, or use mode 'nearest'")
    out = composite(Composite.RESAMPLE, lambda x: _taken(x, axis, taps), widen(x), arg=(axis, taps))
    return cast(out, x.lazy.dtype)


@rule(Composite.RESAMPLE)
def _resample_gradient(n: Node, g: Tensor) -> Parts:
    axis, taps = n.arg
    return (resample(g, axis, taps.adjoint()),)


def _taken(x: Tensor, axis: int, taps: Taps) -> Tensor:
    lead, tail = x.lazy.shape[:axis], x.lazy.shape[axis + 1 :]
    count, width = taps.index.shape
    device = x.lazy.device
    index = type(x)._of(taps.index.reshape(-1).astype(np.int32), device)
    index = apply(Op.RESHAPE, (*[1] * len(lead), count * width, *[1] * len(tail)), index)
    parts = apply(Op.GATHER, axis, x, apply(Op.EXPAND, (*lead, count * width, *tail), index))
    if taps.weights is None:
        return parts
    weights = type(x)._of(taps.weights.astype(x.lazy.dtype.compute), device)
    weights = apply(Op.RESHAPE, (count, width, *[1] * len(tail)), weights)
    product = ew.mul(apply(Op.RESHAPE, (*lead, count, width, *tail), parts), weights)
    return apply(Op.RESHAPE, (*lead, count, *tail), apply(Op.SUM, (axis + 1,), product))


def _moved(x: Tensor, axis: int, index: Array) -> Tensor | None:
    """The elements at ``index`` along ``axis`` where a slice or an expansion does it, else None."""
    shape = x.lazy.shape
    n, count = shape[axis], len(index)
    step = int(index[1] - index[0]) if count > 1 else 1
    if count and step > 0 and index[0] >= 0 and (np.diff(index) == step).all():
        part = (int(index[0]), int(index[-1]) + 1, step)
        return apply(Op.SLICE, tuple(part if i == axis else (0, m, 1) for i, m in enumerate(shape)), x)
    if not n or count % n or not (index == np.repeat(np.arange(n), count // n)).all():
        return None
    wide = apply(Op.RESHAPE, (*shape[: axis + 1], 1, *shape[axis + 1 :]), x)
    wide = apply(Op.EXPAND, (*shape[: axis + 1], count // n, *shape[axis + 1 :]), wide)
    return apply(Op.RESHAPE, (*shape[:axis], count, *shape[axis + 1 :]), wide)


# ---- positions: where in the input, counted in elements, each result lies


@dataclass(frozen=True)
class Axis:
    """An axis of ``size`` elements resampled to ``count``, by a factor of ``scale`` (their ratio by default).
    ``roi`` is the part of it, from 0 to 1, that "tf_crop_and_resize" takes.
    """

    size: int
    count: int
    scale: float | None = None
    roi: tuple[float, float] = (0.0, 1.0)

    @property
    def factor(self) -> float:
        return self.count / max(self.size, 1) if self.scale is None else self.scale


def _half_pixel(i: Array, a: Axis) -> Array:
    return (i + 0.5) / a.factor - 0.5


def _pytorch_half_pixel(i: Array, a: Axis) -> Array:
    return _half_pixel(i, a) if a.count > 1 else i * 0.0


def _half_pixel_symmetric(i: Array, a: Axis) -> Array:
    cut = a.count / (a.factor * a.size)  # what rounding the size has left of the axis
    return a.size / 2 * (1 - cut) + _half_pixel(i, a)


def _align_corners(i: Array, a: Axis) -> Array:
    return i * ((a.size - 1) / (a.count - 1)) if a.count > 1 else i * 0.0


def _tf_crop_and_resize(i: Array, a: Axis) -> Array:
    first, last = a.roi[0] * (a.size - 1), a.roi[1] * (a.size - 1)
    return first + i * ((last - first) / (a.count - 1)) if a.count > 1 else i * 0.0 + (first + last) / 2


# by the names that ONNX gives them
POSITIONS: dict[str, Callable[[Array, Axis], Array]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "align_corners": _align_corners,
    "asymmetric": lambda i, a: i / a.factor,
    "tf_half_pixel_for_nn": lambda i, a: (i + 0.5) / a.factor,
    "tf_crop_and_resize": _tf_crop_and_resize,
}


def positions(axis: Axis, how: str) -> Array:
    """Where each result lies on the input, in float64, by one of :data:`POSITIONS`."""
    return POSITIONS[how](np.arange(axis.count, dtype=np.float64), axis)


# ---- taps from positions

ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda at: np.ceil(at - 0.5),
    "round_prefer_ceil": lambda at: np.floor(at + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def nearest(at: Array, size: int, rounding: str = "round_prefer_floor") -> Taps:
    """The element beside each position that one of :data:`ROUNDINGS` picks."""
    return Taps(size, np.clip(ROUNDINGS[rounding](at), 0, size - 1).astype(np.int64)[:, None], None)


def _triangle(distance: Array) -> Array:
    return np.asarray(np.maximum(1 - np.abs(distance), 0))


def keys_cubics(distance: Number, a: float) -> tuple[Number, Number]:
    """The weight of an element by its distance, up to 1 and from 1 to 2. Source: Keys, Cubic Convolution
    Interpolation for Digital Image Processing, 1981.
    """
    d: Any = distance
    return ((a + 2) * d - (a + 3)) * d * d + 1.0, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a


def cubic(a: float) -> Callable[[Array], Array]:
    """The weight of an element by its distance: :func:`keys_cubics`."""

    def weight(distance: Array) -> Array:
        d = np.abs(distance)
        near, far = keys_cubics(d, a)
        return np.where(d <= 1, near, np.where(d < 2, far, 0))

    return weight


def linear(at: Array, size: int, stretch: float = 1.0, exclude_outside: bool = False) -> Taps:
    """The two elements around each position, by their distance; see :func:`weighted`."""
    return weighted(at, size, _triangle, 1, stretch, exclude_outside)


def weighted(
    at: Array,
    size: int,
    kernel: Callable[[Array], Array],
    radius: int,
    stretch: float = 1.0,
    exclude_outside: bool = False,
) -> Taps:
    """The elements less than ``radius`` from each position, weighted by ``kernel(distance)``.

    Beyond its ends the axis goes on with its first and its last element, or, with ``exclude_outside``, the
    other weights are raised to add up to 1. A ``stretch`` above 1 widens the kernel so that shrinking an axis
    doesn't alias.
    """
    reach = radius * stretch
    first = np.floor(at - reach).astype(np.int64) + 1
    index = first[:, None] + np.arange(math.ceil(2 * reach))
    weights = kernel((index - at[:, None]) / stretch)
    clipped = np.clip(index, 0, size - 1)
    if exclude_outside:
        outside = clipped != index
        weights, clipped = np.where(outside, 0, weights), np.where(outside, -1, clipped)
    if exclude_outside or stretch > 1:
        weights = weights / weights.sum(1, keepdims=True)
    return Taps(size, clipped, weights)


def areas(size: int, count: int) -> Taps:
    """The mean of each of ``count`` parts that cover the axis; neighbours may overlap by one element."""
    parts = np.arange(count)
    start, stop = parts * size // count, -(-(parts + 1) * size // count)
    width = stop - start
    column = np.arange(int(width.max(initial=1)))
    index = np.where(column < width[:, None], start[:, None] + column, -1)
    return Taps(size, index, (index >= 0) / np.maximum(width, 1)[:, None])


def resize(
    x: Tensor, taps: dict[int, Taps], outside: dict[int, Array] | None = None, fill: Scalar = 0
) -> Tensor:
    """``x`` resampled along each axis of ``taps``, those that shrink the most first.

    Results for which ``outside`` holds along any of its axes are ``fill``.
    """
    dtype = x.lazy.dtype
    if any(t.weights is not None for t in taps.values()):
        x = widen(x)  # so that half types are rounded once
    for axis in sorted(taps, key=lambda axis: len(taps[axis].index) / max(taps[axis].size, 1)):
        x = resample(x, axis, taps[axis])
    x = cast(x, dtype)
    for axis, mask in (outside or {}).items():
        wide = [len(mask) if i == axis else 1 for i in range(len(x.lazy.shape))]
        x = ew.where(apply(Op.RESHAPE, tuple(wide), type(x)._of(mask, x.lazy.device)), fill, x)
    return x


# ---- interpolate

MODES = {
    "nearest": None, "nearest-exact": None, "area": None, "linear": 1, "bilinear": 2, "trilinear": 3,
    "bicubic": 2,
}  # fmt: skip


def interpolate(
    x: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """(N, C, *sizes) resampled to other sizes, given as such or by factors, which round down.

    ``mode`` is "nearest" (the element before), "nearest-exact" (the closest), "linear", "bilinear",
    "trilinear" for 1, 2 and 3 sizes, "bicubic" (two sizes; Keys' kernel with a = -0.75) or "area" (means).
    With ``align_corners`` the centres of the outermost elements stay in their places, else their outer edges.
    Positions follow from ``scale_factor`` itself unless ``recompute_scale_factor`` has them follow from the
    sizes. ``antialias`` widens the kernels of "bilinear" and "bicubic" (a = -0.5) where sizes shrink. All as
    PyTorch's. Floats, and any dtype for "nearest". Raises ShapeError where arguments don't fit.
    """
    shape = x.lazy.shape
    n = len(shape) - 2
    _check_mode(shape, mode, align_corners, antialias)
    if (size is None) == (scale_factor is None):
        raise ShapeError("interpolate takes either size or scale_factor")
    if scale_factor is None:
        counts, factors = [int(s) for s in _each(size, n, "size")], [None] * n  # type: ignore[arg-type]
    else:
        given = _each(scale_factor, n, "scale_factor")
        if not all(map(math.isfinite, given)):
            raise ShapeError(f"interpolate: factors must be finite, got {scale_factor!r}")
        counts = [math.floor(float(s) * f) for s, f in zip(shape[2:], given, strict=True)]
        factors = [None] * n if recompute_scale_factor else [float(f) for f in given]  # type: ignore[misc]
    if min(counts, default=1) < 1 or 0 in shape[2:]:
        raise ShapeError(f"interpolate: sizes {tuple(shape[2:])} to {tuple(counts)}; all must be positive")
    if antialias:  # PyTorch leaves a dimension as it is whose size stays
        factors = [None if s == c else f for s, c, f in zip(shape[2:], counts, factors, strict=True)]
    axes = [Axis(s, c, f) for s, c, f in zip(shape[2:], counts, factors, strict=True)]
    if mode == "area":
        return area(x, counts)
    if mode.startswith("nearest"):
        shift, wide = (0.0 if mode == "nearest" else 0.5), x.lazy.dtype == float64
        return resize(x, {i: _pytorch_nearest(a, shift, wide) for i, a in enumerate(axes, 2)})
    corners = bool(align_corners)
    return resize(x, {i: _pytorch_taps(a, mode, corners, antialias) for i, a in enumerate(axes, 2)})


def _check_mode(shape: tuple[int, ...], mode: str, align_corners: bool | None, antialias: bool) -> None:
    n = len(shape) - 2
    if mode not in MODES:
        raise ArgumentError(f"interpolate: mode {mode!r} is unknown; use {', '.join(MODES)}")
    if not 1 <= n <= 3 or MODES[mode] not in (None, n):
        wanted = f"{MODES[mode]} sizes after" if MODES[mode] else "1 to 3 sizes after"
        raise ShapeError(f"interpolate: mode {mode!r} takes {wanted} (N, C, ...), got shape {shape}")
    if align_corners is not None and MODES[mode] is None:
        raise ArgumentError(f"interpolate: align_corners has no meaning for mode {mode!r}; leave it out")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ArgumentError(f"interpolate: antialias is for modes 'bilinear' and 'bicubic', not {mode!r}")


def _each(value: float | Sequence[float], n: int, what: str) -> list[float]:
    numbers = [value] * n if isinstance(value, (int, float)) else list(value)
    if len(numbers) != n:
        raise ShapeError(f"interpolate: {what} must be one number or {n}, got {value!r}")
    return numbers


def _pytorch_nearest(axis: Axis, shift: float, wide: bool) -> Taps:
    """Positions are rounded as PyTorch's are: to float32 unless ``wide``."""
    work = np.dtype(np.float64 if wide else np.float32)
    size, count = np.array(axis.size, work), np.array(axis.count, work)
    step = size / count if axis.scale is None else np.array(1.0 / axis.scale, work)
    at = (np.arange(axis.count).astype(work) + np.array(shift, work)) * step
    return nearest(at, axis.size, "floor")


def _pytorch_taps(axis: Axis, mode: str, align_corners: bool, antialias: bool) -> Taps:
    at = positions(axis, "align_corners" if align_corners else "half_pixel")
    stretch = 1.0
    if antialias:
        step = 1 / axis.factor
        if align_corners:
            step = (axis.size - 1) / (axis.count - 1) if axis.count > 1 else 0.0
            at = (np.arange(axis.count) + 0.5) * step - 0.5
        stretch = max(step, 1.0)
    if mode != "bicubic":
        return linear(at, axis.size, stretch, antialias)
    return weighted(at, axis.size, cubic(-0.5 if antialias else -0.75), 2, stretch, antialias)


def area(x: Tensor, counts: Sequence[int]) -> Tensor:
    """The means of parts that cover the last dimensions, ``counts`` of them along each: see :func:`areas`."""
    shape = x.lazy.shape
    parts = dict(enumerate(counts, len(shape) - len(counts)))
    even = {axis: count for axis, count in parts.items() if count and shape[axis] and not shape[axis] % count}
    wide = widen(x)
    if even and x.lazy.dtype.is_float:
        split = tuple(
            m for i, n in enumerate(shape) for m in ((even[i], n // even[i]) if i in even else (n,))
        )
        axes = tuple(i + k for k, i in enumerate(sorted(even), 1))
        total = apply(Op.SUM, axes, apply(Op.RESHAPE, split, wide))
        share = math.prod(count / shape[axis] for axis, count in even.items())
        wide = apply(Op.RESHAPE, tuple(even.get(i, n) for i, n in enumerate(shape)), ew.mul(total, share))
        parts = {axis: count for axis, count in parts.items() if axis not in even}
    return cast(
        resize(wide, {axis: areas(shape[axis], count) for axis, count in parts.items()}), x.lazy.dtype
    )
