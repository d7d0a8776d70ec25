"""Reductions, scans and the search for extremes along axes."""

from __future__ import annotations

import math
from collections.abc import Callable

from dawdle.onnx.ops.common import axes_given, axis, unique_axes
from dawdle.onnx.registry import Node, operator
from dawdle.onnx.values import Value, scalar
from dawdle.tensor import Tensor

Reduction = Callable[[Tensor, tuple[int, ...], bool], Tensor]


def _extreme(x: Tensor, axes: tuple[int, ...], keep: bool, largest: bool) -> Tensor:
    """The largest or smallest element; of none, the dtype's own extreme."""
    if x.dtype.is_bool:
        return x.any(axes, keep) if largest else x.all(axes, keep)
    if math.prod(x.shape[a] for a in axes) == 0:
        limit = x.dtype.min if largest else x.dtype.max
        zeros = x.sum(axes, keep).cast(x.dtype)
        return zeros.full_like(limit)
    return x.amax(axes, keep) if largest else x.amin(axes, keep)


REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": lambda x, axes, keep: x.sum(axes, keep),
    "ReduceProd": lambda x, axes, keep: x.prod(axes, keep),
    "ReduceMean": lambda x, axes, keep: x.mean(axes, keep),
    "ReduceMax": lambda x, axes, keep: _extreme(x, axes, keep, True),
    "ReduceMin": lambda x, axes, keep: _extreme(x, axes, keep, False),
    "ReduceL1": lambda x, axes, keep: x.abs().sum(axes, keep),
    "ReduceL2": lambda x, axes, keep: x.norm(2, axes, keep),
    "ReduceSumSquare": lambda x, axes, keep: x.square().sum(axes, keep),
    "ReduceLogSum": lambda x, axes, keep: x.sum(axes, keep).log(),
    "ReduceLogSumExp": lambda x, axes, keep: x.logsumexp(axes, keep),
}


def _reduced(function: Reduction) -> Callable[..., Tensor]:
    def rule(node: Node, x: Tensor, axes: Value = None) -> Tensor:
        given = axes_given(node, axes)
        if not given and node.flag("noop_with_empty_axes", 0):
            dims: tuple[int, ...] = ()
        else:
            dims = unique_axes(given or range(x.ndim), x.ndim, node)
        return function(x, dims, node.flag("keepdims", 1)).cast(x.dtype)

    return rule


for _name, _function in REDUCTIONS.items():
    operator(_name, host=(1,))(_reduced(_function))


def _place(node: Node, x: Tensor, method: str) -> Tensor:
    """The place of the first, or the last, extreme along an axis."""
    at = axis(node.int("axis", 0), x.ndim, node)
    keep = node.flag("keepdims", 1)
    if not node.flag("select_last_index", 0):
        first: Tensor = getattr(x, method)(at, keepdim=keep)
        return first
    last: Tensor = getattr(x.flip(at), method)(at, keepdim=keep)
    return x.shape[at] - 1 - last


@operator("ArgMax")
def argmax(node: Node, x: Tensor) -> Tensor:
    return _place(node, x, "argmax")


@operator("ArgMin")
def argmin(node: Node, x: Tensor) -> Tensor:
    return _place(node, x, "argmin")


def _scan(node: Node, x: Tensor, at: Value, method: str) -> Tensor:
    """A running sum or product, from the other end with ``reverse``, without the element itself with
    ``exclusive``.
    """
    dim = axis(scalar(at), x.ndim, node)
    backwards = node.flag("reverse", 0)
    x = x.flip(dim) if backwards else x
    out: Tensor = getattr(x, method)(dim).cast(x.dtype)
    if node.flag("exclusive", 0):
        first = x.narrow(dim, 0, min(1, x.shape[dim])).full_like(int(method == "cumprod"))
        out = Tensor.cat([first, out.narrow(dim, 0, max(x.shape[dim] - 1, 0))], dim=dim)
    return out.flip(dim) if backwards else out


@operator("CumSum", host=(1,))
def cumulative_sum(node: Node, x: Tensor, at: Value) -> Tensor:
    return _scan(node, x, at, "cumsum")


@operator("CumProd", host=(1,))
def cumulative_product(node: Node, x: Tensor, at: Value) -> Tensor:
    return _scan(node, x, at, "cumprod")
