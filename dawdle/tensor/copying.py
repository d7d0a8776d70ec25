"""Tensors as ``copy`` and ``pickle`` have them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from dawdle.dtype import Array
from dawdle.errors import GradientError
from dawdle.runtime.trace import note_new, note_read
from dawdle.tensor.interop import from_data, numpy

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


def copied(x: Tensor) -> Tensor:
    """What ``copy.copy(tensor)`` gives: another handle on the same value, a leaf where ``x`` is one."""
    out = type(x).__new__(type(x))
    note_read(x)
    out.lazy, out._grad, out._node = x.lazy, x._grad, None if x.is_leaf else x._node
    note_new(out)
    if x.is_leaf:
        out.requires_grad_(x.requires_grad)
    for name, value in getattr(x, "__dict__", {}).items():
        setattr(out, name, value)
    return out


def duplicate(x: Tensor, memo: dict[int, Any]) -> Tensor:
    """A deep copy: another handle, a leaf, with a gradient of its own. Values are immutable and shared."""
    if not x.is_leaf:
        raise GradientError(
            "only leaf tensors can be deep-copied while they require gradients; detach() the tensor"
        )
    out = type(x).__new__(type(x))
    memo[id(x)] = out
    out.lazy, out._node, out._grad = x.lazy, None, None
    out.grad = None if x.grad is None else duplicate(x.grad, memo)
    out.requires_grad_(x.requires_grad)
    for name, value in getattr(x, "__dict__", {}).items():
        setattr(out, name, copy.deepcopy(value, memo))
    return out


def pickled(x: Tensor) -> tuple[Any, ...]:
    """How pickle rebuilds a tensor: from its elements."""
    state = dict(getattr(x, "__dict__", {}))
    return rebuilt, (type(x), numpy(x), x.lazy.dtype.name, x.lazy.device, x.requires_grad, state)


def rebuilt(
    cls: type[Tensor], array: Array, dtype: str, device: str, requires_grad: bool, state: dict[str, Any]
) -> Tensor:
    """The inverse of :func:`pickled`."""
    out = cls.__new__(cls)
    out.lazy, out._node, out._grad = from_data(array, dtype, device), None, None
    for name, value in state.items():
        setattr(out, name, value)
    return out.requires_grad_(requires_grad)
