"""Functions of two operands as Python's operators, and functions of any kind as methods that rebind their
handle.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from dawdle.dtype import DType
from dawdle.errors import DTypeError, ShapeError
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import Operand, cast, is_scalar

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

Binary = Callable[["Tensor", Operand], "Tensor"]


def _operands(other: object) -> bool:
    return hasattr(other, "lazy") or is_scalar(other) or isinstance(other, (np.ndarray, list, tuple))


def operator(function: Callable[..., Tensor], reflected: bool = False) -> Binary:
    """``function`` as the method behind an operator: it leaves operands of unknown kinds to their own type.
    """

    def method(x: Tensor, other: Operand) -> Tensor:
        if not _operands(other):
            return NotImplemented  # type: ignore[no-any-return]
        return function(other, x) if reflected else function(x, other)

    method.__name__ = f"__{'r' if reflected else ''}{function.__name__}__"
    method.__doc__ = function.__doc__
    return method


def reflected(function: Callable[..., Tensor]) -> Binary:
    """``function`` as the method behind an operator whose left operand is no tensor."""
    return operator(function, True)


def inplace(function: Callable[..., Tensor]) -> Binary:
    """``function`` as an in-place operator: the handle is rebound to the result, in its own shape and dtype.
    """
    rebind = _rebinding(function)

    def method(x: Tensor, other: Operand) -> Tensor:
        return rebind(x, other) if _operands(other) else NotImplemented

    method.__name__ = f"__i{function.__name__}__"
    return method


def _rebinding(function: Callable[..., Tensor], reshapes: bool = False) -> Callable[..., Tensor]:
    """``function`` as a method whose name ends in ``_``: ``x`` denotes the result from then on, in its own
    shape (unless ``reshapes``) and dtype. Returns ``x``.

    Raises DTypeError where the result is of a higher kind than ``x``, ShapeError where its shape differs.
    """

    def method(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        result = function(x, *args, **kwargs)
        own, found = x.lazy, result.lazy
        if found is own and result._node is x._node:
            return x  # nothing changes, as in dropout outside of training: leaves too may stay as they are
        if found.dtype != own.dtype and not _fits(found.dtype, own.dtype):
            raise DTypeError(
                f"in-place {function.__name__} would change {own.dtype.name} to {found.dtype.name}; "
                f"write x = {function.__name__}(x, ...), or cast the operand"
            )
        if found.shape != own.shape and not reshapes:
            raise ShapeError(
                f"in-place {function.__name__} would change the shape {own.shape} to {found.shape}; "
                f"write x = {function.__name__}(x, ...), or reduce the operand"
            )
        return x._rebind(cast(result, own.dtype))

    method.__wrapped__ = function  # type: ignore[attr-defined]
    method.__name__ = f"{function.__name__}_"
    method.__doc__ = f"In-place form of :func:`{function.__name__}`: rebinds the handle, and returns it."
    return method


def rebinding(
    *functions: Callable[..., Tensor], reshapes: bool = False
) -> tuple[Callable[..., Tensor], ...]:
    """Each of ``functions`` as a method that changes the tensor in place: see :func:`_rebinding`."""
    return tuple([_rebinding(function, reshapes) for function in functions])


def with_inplace(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``function`` with one more parameter at its end, ``inplace``: with True its first argument is rebound
    to the result, as by the method whose name ends in ``_``, and returned.
    """
    rebind = _rebinding(function)
    signature = inspect.signature(function)
    last = inspect.Parameter(
        "inplace", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=False, annotation="bool"
    )
    before = len(signature.parameters)

    @wraps(function)
    def either(*args: Any, **kwargs: Any) -> Tensor:
        if len(args) == before + 1 and "inplace" not in kwargs:
            args, kwargs["inplace"] = args[:-1], args[-1]
        chosen = rebind if kwargs.pop("inplace", False) else function
        return chosen(*args, **kwargs)

    either.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), last]
    )
    return either


def _fits(result: DType, own: DType) -> bool:
    order = "biuf"
    return order.index(result.kind.replace("u", "i")) <= order.index(own.kind.replace("u", "i"))


def divmod_(x: Tensor, other: Operand) -> tuple[Tensor, Tensor]:
    """(x // other, x % other)."""
    if not _operands(other):
        return NotImplemented  # type: ignore[no-any-return]
    return ew.floordiv(x, other), ew.mod(x, other)


def rdivmod(x: Tensor, other: Operand) -> tuple[Tensor, Tensor]:
    """(other // x, other % x)."""
    if not _operands(other):
        return NotImplemented  # type: ignore[no-any-return]
    return reflected(ew.floordiv)(x, other), reflected(ew.mod)(x, other)
