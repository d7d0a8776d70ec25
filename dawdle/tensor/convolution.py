"""Convolution over any number of dimensions, and images as columns: PAD, WINDOW, and reductions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dawdle.errors import ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import Shape, apply, operands
from dawdle.tensor.linalg import contract
from dawdle.tensor.movement import pad_dims
from dawdle.tensor.windows import Sizes, Windows, each, paddings, windows

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


@operands("weight", "bias")
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

    ``padding`` is a number of zeros, one for each dimension, a (low, high) pair for each, "same" (for stride
    1) or "valid". A missing batch dimension is fine. The result is (N, O, *positions). Raises ShapeError
    where shapes don't fit.
    """
    n = len(weight.lazy.shape) - 2
    if n >= 1 and len(x.lazy.shape) == n + 1:
        lone = conv(_batched(x), weight, bias, stride, padding, dilation, groups)
        return apply(Op.RESHAPE, lone.lazy.shape[1:], lone)
    batch, channels, outs = _conv_shapes(x.lazy.shape, weight.lazy.shape, groups)
    kernel, strides = weight.lazy.shape[2:], each(stride, n, "stride")
    if padding == "same" and max(strides) > 1:
        raise ShapeError(
            f"convolution: padding='same' is for stride 1, got {stride!r}; give pairs of numbers"
        )
    w = windows(x.lazy.shape, kernel, strides, each(dilation, n, "dilation"), padding, f"conv{n}d")
    part = channels // groups
    opened = apply(Op.RESHAPE, (batch, groups, 1, part, *w.places, *kernel), w.of(x))
    order = (0, 1, 2, *range(4, 4 + n), 3, *range(4 + n, 4 + 2 * n))  # (N, G, 1, *places, C, *kernel)
    opened = apply(Op.PERMUTE, order, opened)
    filters = apply(Op.RESHAPE, (1, groups, outs // groups, *[1] * n, part, *kernel), weight)
    out = apply(Op.RESHAPE, (batch, outs, *w.places), contract(opened, filters, range(3 + n, 4 + 2 * n)))
    return _with_bias(out, bias, n)


def _batched(x: Tensor) -> Tensor:
    return apply(Op.RESHAPE, (1, *x.lazy.shape), x)


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


@operands("weight", "bias")
def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Transposed convolution: the adjoint of :func:`conv`, of (N, C, *sizes) with a weight of (C, O / groups,
    *kernel).

    ``padding`` is what the convolution would pad: numbers, or (low, high) pairs. ``output_padding``, less
    than the stride or the dilation, makes the result larger at its end: it tells between inputs that a
    convolution takes to one size. A missing batch dimension is fine. Raises ShapeError where shapes don't
    fit.
    """
    n = len(weight.lazy.shape) - 2
    shape, w = x.lazy.shape, weight.lazy.shape
    if n >= 1 and len(shape) == n + 1:
        lone = conv_transpose(_batched(x), weight, bias, stride, padding, output_padding, groups, dilation)
        return apply(Op.RESHAPE, lone.lazy.shape[1:], lone)
    if n < 1 or len(shape) != n + 2 or shape[1] != w[0] or groups < 1 or w[0] % groups:
        raise ShapeError(
            f"conv_transpose takes (N, C, *sizes) and a weight (C, O / groups, *kernel), got {shape} and {w}"
        )
    strides, dilations = each(stride, n, "stride"), each(dilation, n, "dilation")
    extra = each(output_padding, n, "output_padding", 0)
    if any(e and e >= max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True)):
        raise ShapeError(
            f"conv_transpose: output_padding {extra} must be less than the stride {strides} or the dilation "
            f"{dilations}"
        )
    batch, part, outs, places, kernel = shape[0], w[0] // groups, w[1], shape[2:], w[2:]
    taps = tuple(zip(kernel, strides, dilations, strict=True))
    span = [(k - 1) * d + 1 for k, _, d in taps]
    a = apply(Op.RESHAPE, (batch, groups, 1, part, *places, *[1] * n), x)
    a = apply(Op.PERMUTE, (0, 1, 2, *range(4, 4 + 2 * n), 3), a)  # (N, G, 1, *places, 1..., C)
    b = apply(Op.RESHAPE, (groups, part, outs, *kernel), weight)
    b = apply(Op.PERMUTE, (0, 2, *range(3, 3 + n), 1), b)
    b = apply(Op.RESHAPE, (1, groups, outs, *[1] * n, *kernel, part), b)
    spread = apply(Op.RESHAPE, (batch, groups * outs, *places, *kernel), contract(a, b, (3 + 2 * n,)))
    covered = [(m - 1) * s + reach for m, (_, s, _), reach in zip(places, taps, span, strict=True)]
    out = apply(Op.UNWINDOW, (taps, tuple(covered)), spread)
    rows = zip(paddings(padding, n, span), extra, strict=True)
    return _with_bias(pad_dims(out, [(0, 0), (0, 0), *[(-p, e - q) for (p, q), e in rows]]), bias, n)


def _of_rank(function: Callable[..., Tensor], n: int) -> Callable[..., Tensor]:
    """``function`` for weights with ``n`` sizes alone."""

    @functools.wraps(function)
    @operands("weight")
    def ranked(x: Tensor, weight: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if len(weight.lazy.shape) != n + 2:
            raise ShapeError(
                f"{ranked.__name__} takes a weight of {n + 2} dimensions, got shape {weight.lazy.shape}"
            )
        return function(x, weight, *args, **kwargs)

    ranked.__name__ = ranked.__qualname__ = f"{function.__name__}{n}d"
    return ranked


conv1d, conv2d, conv3d = (_of_rank(conv, n) for n in (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = (_of_rank(conv_transpose, n) for n in (1, 2, 3))


# ---- images as columns


def unfold(x: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Any = 0, stride: Sizes = 1) -> Tensor:
    """The windows of (N, C, H, W) as columns, (N, C * kernel, windows), also called im2col. A missing batch
    dimension is fine. Raises ShapeError where shapes don't fit.
    """
    shape = x.lazy.shape
    if len(shape) == 3:
        lone = unfold(_batched(x), kernel_size, dilation, padding, stride)
        return apply(Op.RESHAPE, lone.lazy.shape[1:], lone)
    if len(shape) != 4:
        raise ShapeError(f"unfold takes (N, C, H, W) or (C, H, W), got shape {shape}")
    kernel = each(kernel_size, 2, "kernel_size")
    w = windows(shape, kernel, each(stride, 2, "stride"), each(dilation, 2, "dilation"), padding, "unfold")
    columns = apply(Op.PERMUTE, (0, 1, 4, 5, 2, 3), w.of(x))
    return apply(Op.RESHAPE, (shape[0], shape[1] * math.prod(kernel), math.prod(w.places)), columns)


def fold(
    x: Tensor,
    output_size: int | Sequence[int],
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Any = 0,
    stride: Sizes = 1,
) -> Tensor:
    """The adjoint of :func:`unfold`: columns (N, C * kernel, windows) added up at their places in
    (N, C, H, W), where ``output_size`` is (H, W). A missing batch dimension is fine. Raises ShapeError where
    shapes don't fit.
    """
    shape = x.lazy.shape
    if len(shape) == 2:
        lone = fold(_batched(x), output_size, kernel_size, dilation, padding, stride)
        return apply(Op.RESHAPE, lone.lazy.shape[1:], lone)
    kernel, sizes = each(kernel_size, 2, "kernel_size"), each(output_size, 2, "output_size")
    w = windows(sizes, kernel, each(stride, 2, "stride"), each(dilation, 2, "dilation"), padding, "fold")
    if len(shape) != 3 or shape[1] % math.prod(kernel) or shape[2] != math.prod(w.places):
        raise ShapeError(
            f"fold to {sizes} by a kernel of {kernel} takes (N, C * {math.prod(kernel)}, "
            f"{math.prod(w.places)}), got shape {shape}"
        )
    return folded(x, w)


def folded(x: Tensor, w: Windows) -> Tensor:
    """Columns (N, C * kernel, places) added up where the windows ``w`` took them from, (N, C, *sizes)."""
    batch, n = x.lazy.shape[0], len(w.kernel)
    channels = x.lazy.shape[1] // math.prod(w.kernel)
    opened = apply(Op.RESHAPE, (batch, channels, *w.kernel, *w.places), x)
    return w.back(apply(Op.PERMUTE, (0, 1, *range(2 + n, 2 + 2 * n), *range(2, 2 + n)), opened))
