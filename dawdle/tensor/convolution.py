"""Convolution and pooling over any number of dimensions: PAD, WINDOW, and a reduction of the windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dawdle.errors import ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import Shape, apply, cast, constant, widen
from dawdle.tensor.linalg import contract
from dawdle.tensor.movement import pad_dims

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

Sizes = int | Sequence[int]


def _spread(value: Sizes, n: int, what: str, least: int = 1) -> Shape:
    """A size for each of ``n`` dimensions."""
    sizes = (value,) * n if isinstance(value, int) else tuple(value)
    if len(sizes) == 1 and n > 1:
        sizes *= n
    if len(sizes) != n or any(not isinstance(s, int) or s < least for s in sizes):
        raise ShapeError(f"{what} must be an integer of at least {least}, or {n} of them, got {value!r}")
    return sizes


def _padding(value: Any, n: int, span: Sequence[int], what: str) -> list[tuple[int, int]]:
    """(low, high) for each of ``n`` dimensions from a number, a number for each, a pair for each, "same" or
    "valid".
    """
    if value == "valid":
        return [(0, 0)] * n
    if value == "same":
        return [((s - 1) // 2, s - 1 - (s - 1) // 2) for s in span]
    if (
        isinstance(value, (list, tuple))
        and len(value) == n
        and all(isinstance(v, (list, tuple)) for v in value)
    ):
        return [(int(low), int(high)) for low, high in value]
    return [(p, p) for p in _spread(value, n, what, 0)]


def _check_window(shape: Shape, pads: Sequence[tuple[int, int]], span: Sequence[int], what: str) -> None:
    room = [
        size + low + high for size, (low, high) in zip(shape[len(shape) - len(span) :], pads, strict=True)
    ]
    if any(s > r for s, r in zip(span, room, strict=True)):
        raise ShapeError(
            f"{what}: a window spanning {tuple(span)} is larger than the padded input {tuple(room)} "
            f"(input {shape}); pad more or use a smaller kernel"
        )


def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of (N, C, *sizes) with a weight of (O, C / groups, *kernel), over 1, 2 or more
    dimensions.

    ``padding`` is a number of zeros, one for each dimension, a (low, high) pair for each, "same" or "valid".
    A missing batch dimension is fine. The result is (N, O, *positions). Raises ShapeError where shapes don't
    fit.
    """
    n = len(weight.lazy.shape) - 2
    if n >= 1 and len(x.lazy.shape) == n + 1:
        lone = conv(apply(Op.RESHAPE, (1, *x.lazy.shape), x), weight, bias, stride, padding, dilation, groups)
        return apply(Op.RESHAPE, lone.lazy.shape[1:], lone)
    batch, channels, outs = _conv_shapes(x.lazy.shape, weight.lazy.shape, groups)
    kernel = weight.lazy.shape[2:]
    strides, dilations = _spread(stride, n, "stride"), _spread(dilation, n, "dilation")
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = _padding(padding, n, span, "padding")
    _check_window(x.lazy.shape, pads, span, f"conv{n}d")
    part = channels // groups
    windows = apply(
        Op.WINDOW, tuple(zip(kernel, strides, dilations, strict=True)), pad_dims(x, [(0, 0), (0, 0), *pads])
    )
    places = windows.lazy.shape[2 : 2 + n]
    windows = apply(Op.RESHAPE, (batch, groups, 1, part, *places, *kernel), windows)
    order = (0, 1, 2, *range(4, 4 + n), 3, *range(4 + n, 4 + 2 * n))  # (N, G, 1, *places, C, *kernel)
    windows = apply(Op.PERMUTE, order, windows)
    filters = apply(Op.RESHAPE, (1, groups, outs // groups, *[1] * n, part, *kernel), weight)
    out = apply(Op.RESHAPE, (batch, outs, *places), contract(windows, filters, range(3 + n, 4 + 2 * n)))
    return _with_bias(out, bias, n)


def _conv_shapes(x: Shape, weight: Shape, groups: int) -> Shape:
    n = len(weight) - 2
    if n < 1 or len(x) != n + 2:
        raise ShapeError(
            f"convolution takes an input (N, C, *sizes) and a weight (O, C, *kernel), got {x} and {weight}"
        )
    if groups < 1 or weight[0] % groups or x[1] != weight[1] * groups:
        raise ShapeError(
            f"convolution: input {x} has {x[1]} channels, weight {weight} with groups={groups} takes "
            f"{weight[1] * groups}; the {weight[0]} outputs must also divide by groups"
        )
    return x[0], x[1], weight[0]


def _with_bias(out: Tensor, bias: Tensor | None, n: int) -> Tensor:
    if bias is None:
        return out
    if bias.lazy.shape != out.lazy.shape[1:2]:
        raise ShapeError(
            f"convolution: bias of shape {bias.lazy.shape} must have a number "
            f"for each of {out.lazy.shape[1]} outputs"
        )
    return ew.add(out, apply(Op.RESHAPE, (bias.lazy.size, *[1] * n), bias))


def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Transposed convolution: the adjoint of :func:`conv`, of (N, C, *sizes) with a weight of (C, O / groups,
    *kernel).
    """
    n = len(weight.lazy.shape) - 2
    shape, w = x.lazy.shape, weight.lazy.shape
    if n < 1 or len(shape) != n + 2 or shape[1] != w[0] or groups < 1 or w[0] % groups:
        raise ShapeError(
            f"conv_transpose takes (N, C, *sizes) and a weight (C, O / groups, *kernel), got {shape} and {w}"
        )
    strides, dilations = _spread(stride, n, "stride"), _spread(dilation, n, "dilation")
    pads, extra = _spread(padding, n, "padding", 0), _spread(output_padding, n, "output_padding", 0)
    batch, part, outs, places, kernel = shape[0], w[0] // groups, w[1], shape[2:], w[2:]
    a = apply(Op.RESHAPE, (batch, groups, 1, part, *places, *[1] * n), x)
    a = apply(Op.PERMUTE, (0, 1, 2, *range(4, 4 + 2 * n), 3), a)  # (N, G, 1, *places, 1..., C)
    b = apply(Op.RESHAPE, (groups, part, outs, *kernel), weight)
    b = apply(Op.PERMUTE, (0, 2, *range(3, 3 + n), 1), b)
    b = apply(Op.RESHAPE, (1, groups, outs, *[1] * n, *kernel, part), b)
    spread = apply(Op.RESHAPE, (batch, groups * outs, *places, *kernel), contract(a, b, (3 + 2 * n,)))
    windows = tuple(zip(kernel, strides, dilations, strict=True))
    covered = [(m - 1) * s + (k - 1) * d + 1 for m, (k, s, d) in zip(places, windows, strict=True)]
    out = apply(Op.UNWINDOW, (windows, tuple(covered)), spread)
    return _with_bias(
        pad_dims(out, [(0, 0), (0, 0), *[(-p, e - p) for p, e in zip(pads, extra, strict=True)]]), bias, n
    )


def _pool_windows(
    x: Tensor,
    kernel: Sizes,
    stride: Sizes | None,
    padding: Any,
    dilation: Sizes,
    ceil_mode: bool,
    value: Any,
    what: str,
) -> tuple[Tensor, int, list[tuple[int, int]]]:
    """(windows of the padded input, number of pooled dimensions, the padding)."""
    n = 2 if isinstance(kernel, int) else len(kernel)
    if len(x.lazy.shape) < n:
        raise ShapeError(
            f"{what} over {n} dimensions needs an input of at least as many, got shape {x.lazy.shape}"
        )
    sizes = _spread(kernel, n, "kernel_size")
    strides = sizes if stride is None else _spread(stride, n, "stride")
    dilations = _spread(dilation, n, "dilation")
    span = [(k - 1) * d + 1 for k, d in zip(sizes, dilations, strict=True)]
    pads = _padding(padding, n, span, "padding")
    if ceil_mode:
        pads = [
            _ceil_high(m, p, s, t) for m, p, s, t in zip(x.lazy.shape[-n:], pads, span, strides, strict=True)
        ]
    _check_window(x.lazy.shape, pads, span, what)
    lead = len(x.lazy.shape) - n
    padded = pad_dims(x, [(0, 0)] * lead + pads, value)
    return apply(Op.WINDOW, tuple(zip(sizes, strides, dilations, strict=True)), padded), n, pads


def _ceil_high(size: int, pads: tuple[int, int], span: int, stride: int) -> tuple[int, int]:
    """Padding that makes room for a last, partial window, as long as that starts within the input or its low
    padding.
    """
    low, high = pads
    count = -(-(size + low + high - span) // stride) + 1
    if (count - 1) * stride >= size + low:
        count -= 1
    return low, max(high, (count - 1) * stride + span - size - low)


def _window_axes(windows: Tensor, n: int) -> Shape:
    return tuple(range(len(windows.lazy.shape) - n, len(windows.lazy.shape)))


def max_pool(
    x: Tensor,
    kernel_size: Sizes = 2,
    stride: Sizes | None = None,
    padding: Any = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Largest element of each window over the last dimensions, one for each number of ``kernel_size`` (two
    for an integer).

    ``stride`` defaults to the kernel. Padding counts as -inf. Equal elements share the gradient; what a
    window of nothing but padding would get is dropped.
    """
    windows, n, _ = _pool_windows(
        x, kernel_size, stride, padding, dilation, ceil_mode, x.lazy.dtype.min, "max_pool"
    )
    axes = _window_axes(windows, n)
    return apply(Op.RESHAPE, windows.lazy.shape[: axes[0]], apply(Op.AMAX, axes, windows))


def avg_pool(
    x: Tensor,
    kernel_size: Sizes = 2,
    stride: Sizes | None = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Mean of each window over the last dimensions; see :func:`max_pool`. ``count_include_pad``: padding
    counts as zeros.
    """
    dtype = x.lazy.dtype
    x = widen(x)
    windows, n, pads = _pool_windows(x, kernel_size, stride, padding, 1, ceil_mode, 0, "avg_pool")
    axes = _window_axes(windows, n)
    total = apply(Op.RESHAPE, windows.lazy.shape[: axes[0]], apply(Op.SUM, axes, windows))
    if (count_include_pad and not ceil_mode) or not any(low or high for low, high in pads):
        return cast(ew.mul(total, 1 / math.prod(windows.lazy.shape[axes[0] :])), dtype)
    counted = constant(x, 1.0, shape=x.lazy.shape[-n:])
    if count_include_pad:
        counted = pad_dims(counted, _padding(padding, n, [1] * n, "padding"), 1.0)
        pads = [(0, max(w, 0)) for w in _missing(x, counted, pads, n)]
    ones = pad_dims(counted, pads)
    arg = windows_of(kernel_size, stride, n)
    counts = apply(Op.WINDOW, arg, ones)
    number = apply(Op.SUM, _window_axes(counts, n), counts)
    return cast(ew.div(total, apply(Op.RESHAPE, counts.lazy.shape[:n], number)), dtype)


def _missing(x: Tensor, counted: Tensor, pads: Sequence[tuple[int, int]], n: int) -> list[int]:
    """What ceil_mode adds beyond the padding asked for."""
    wanted = [size + low + high for size, (low, high) in zip(x.lazy.shape[-n:], pads, strict=True)]
    return [w - have for w, have in zip(wanted, counted.lazy.shape, strict=True)]


def windows_of(kernel: Sizes, stride: Sizes | None, n: int) -> tuple[tuple[int, int, int], ...]:
    """WINDOW's argument for a pooling kernel."""
    sizes = _spread(kernel, n, "kernel_size")
    strides = sizes if stride is None else _spread(stride, n, "stride")
    return tuple((k, s, 1) for k, s in zip(sizes, strides, strict=True))
