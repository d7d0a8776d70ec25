"""The largest and smallest elements along dimensions, and where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dawdle.dtype import int32, int64
from dawdle.errors import ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import (
    Dim,
    Operand,
    apply,
    axes_of,
    axis_of,
    cast,
    composite,
    constant,
    dims,
    expand_to,
    same,
)
from dawdle.tensor.reduce import not_empty, positions, reduced, without

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


class Selection(NamedTuple):
    """Elements that were chosen along a dimension, and the indices that they come from."""

    values: Tensor
    indices: Tensor


class Extremes(NamedTuple):
    """The smallest and the largest elements."""

    min: Tensor
    max: Tensor


@dims
def amax(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Largest element over ``dim`` (all by default), NaN if there is one. Equal elements share the gradient.
    Raises ShapeError for no elements.
    """
    axes = axes_of(dim, x, "max")
    not_empty(x, axes, "max")
    return reduced(Op.AMAX, x, axes, keepdim)


@dims
def amin(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Smallest element over ``dim`` (all by default), NaN if there is one. Equal elements share the gradient.
    Raises ShapeError for no elements.
    """
    axes = axes_of(dim, x, "min")
    not_empty(x, axes, "min")
    return ew.reversed_order(reduced(Op.AMAX, ew.reversed_order(x), axes, keepdim))


@dims
def aminmax(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Extremes:
    """(:func:`amin`, :func:`amax`) as a named tuple ``min, max``."""
    return Extremes(amin(x, dim, keepdim), amax(x, dim, keepdim))


@dims
def max(x: Tensor, dim: int | Operand | None = None, keepdim: bool = False) -> Any:
    """``max()`` is the largest element; ``max(dim)`` the largest along ``dim``, as a named tuple ``values,
    indices`` of the first ones; ``max(other)`` for a tensor :func:`maximum`.

    NaN counts as largest. Equal elements share the gradient of ``max()``; that of ``max(dim)`` goes to the
    element of the index. Several dimensions are for :func:`amax`. Raises ShapeError for no elements.
    """
    return _extreme(x, dim, keepdim, "max")


@dims
def min(x: Tensor, dim: int | Operand | None = None, keepdim: bool = False) -> Any:
    """``min()`` is the smallest element; ``min(dim)`` the smallest along ``dim``, as a named tuple ``values,
    indices`` of the first ones; ``min(other)`` for a tensor :func:`minimum`.

    NaN counts as smallest. Gradients and errors are those of :func:`max`; several dimensions are for
    :func:`amin`.
    """
    return _extreme(x, dim, keepdim, "min")


def _extreme(x: Tensor, dim: int | Operand | None, keepdim: bool, what: str) -> Any:
    largest = what == "max"
    if dim is None:
        out: Tensor = (amax if largest else amin)(x, None, keepdim)
        return out
    if hasattr(dim, "lazy"):
        return (ew.maximum if largest else ew.minimum)(x, dim)
    if isinstance(dim, (tuple, list)):
        raise ShapeError(
            f"{what}: {what}(dim) gives indices too, along one dimension; for dims {tuple(dim)} use a{what}"
        )
    axis = axis_of(dim, len(x.lazy.shape), what, x.lazy.shape)  # type: ignore[arg-type]
    if not x.lazy.shape:
        return Selection(same(x), constant(x, 0, int64))
    not_empty(x, (axis,), what)
    ordered = x if largest else ew.reversed_order(x)
    top = apply(Op.AMAX, (axis,), ordered.detach())
    index = _first(ordered, axis)
    values = chosen(x, index, top if largest else ew.reversed_order(top), axis)
    return Selection(*[t if keepdim else without(t, (axis,)) for t in (values, index)])


def chosen(x: Tensor, index: Tensor, values: Tensor, axis: int) -> Tensor:
    """``values``, which are the elements of ``x`` at ``index``, with their gradient: it goes to these places.
    """
    return composite(Op.GATHER, lambda x, index: values, x, index, arg=axis)


def shared_gradient(x: Tensor, choose: Callable[[Tensor], Tensor], axes: Sequence[int], g: Tensor) -> Tensor:
    """The gradient ``g`` of the element that ``choose`` gives along ``axes``, shared by all that equal it.
    """
    x = x.detach()
    choice = expand_to(choose(x), x.lazy.shape)
    equal = ew.eq(x, choice)
    if x.lazy.dtype.is_float:
        equal = ew.bitor(equal, ew.bitand(ew.isnan(x), ew.isnan(choice)))
    share = ew.div(g, apply(Op.SUM, tuple(axes), cast(equal, g.lazy.dtype)))
    return ew.where(equal, expand_to(share, x.lazy.shape), 0.0)


def _first(x: Tensor, axis: int) -> Tensor:
    """The first index along ``axis``, which keeps size 1, at which ``x`` is its maximum; int64."""
    x = x.detach()
    n = x.lazy.shape[axis]
    found = ew.eq(x, apply(Op.AMAX, (axis,), x))
    if x.lazy.dtype.is_float:
        found = ew.bitor(found, ew.isnan(x))
    index = int32 if n < 2**31 else int64
    # counted backwards, the first is the maximum
    backwards = ew.sub(constant(x, n - 1, index, ()), positions(x, axis, index))
    last = apply(Op.AMAX, (axis,), ew.where(found, backwards, constant(x, -1, index, ())))
    return cast(ew.sub(constant(last, n - 1), last), int64)


@dims
def argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the first largest element (or NaN) along ``dim``, or in the flattened tensor; int64. Raises
    ShapeError for no elements.
    """
    return _place(x.detach(), dim, keepdim, "argmax")


@dims
def argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the first smallest element (or NaN) along ``dim``, or in the flattened tensor; int64. Raises
    ShapeError for no elements.
    """
    return _place(ew.reversed_order(x.detach()), dim, keepdim, "argmin")


def _place(x: Tensor, dim: int | None, keepdim: bool, what: str) -> Tensor:
    shape = x.lazy.shape
    axis = 0 if dim is None else axis_of(dim, len(shape), what, shape)
    flat = apply(Op.RESHAPE, (x.lazy.size,), x) if dim is None or not shape else x
    not_empty(flat, (axis,), what)
    out = _first(flat, axis)
    if dim is None or not shape:
        return apply(Op.RESHAPE, (1,) * len(shape) if keepdim else (), out)
    return out if keepdim else without(out, (axis,))
