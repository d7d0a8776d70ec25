"""Whole Jacobians and Hessians: one batch of products with unit vectors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from dawdle import tree
from dawdle.func.batching import vmap
from dawdle.func.derivatives import Argnums, Function, chosen, jvp, tensors_of, vjp
from dawdle.tensor import Tensor


def _sizes(like: Sequence[Tensor]) -> list[int]:
    return [t.lazy.size for t in like]


def _units(like: Sequence[Tensor]) -> list[Tensor]:
    """For each tensor a batch of as many as there are elements in all: each has 1 at another element."""
    n = sum(_sizes(like))
    wholes = [Tensor.eye(n, dtype=t.dtype, device=t.device).split(_sizes(like), 1) for t in like]
    return [parts[i].reshape(n, *t.shape) for i, (parts, t) in enumerate(zip(wholes, like, strict=True))]


def _cut(rows: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """A batch of as many as there are elements, as one for each tensor, of its shape."""
    parts = zip(rows.split(_sizes(like)), like, strict=True)
    return [part.reshape(*t.shape, *rows.shape[1:]) for part, t in parts]


def jacrev(
    func: Function, argnums: Argnums = 0, has_aux: bool = False, *, chunk_size: int | None = None
) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``func`` with respect to the positional arguments ``argnums``,
    by reverse mode: as much work as one gradient for each element of the result.

    For a result of shape (m, ...) and an argument of shape (n, ...) it has shape (m, ..., n, ...). If they
    are nested, each tensor of the result is replaced by what is nested like the argument (a tuple of that for
    several ``argnums``). With ``has_aux`` ``func`` returns (result, anything), and the Jacobian comes with
    the latter. ``chunk_size``: at most so many elements of the result at a time. As ``torch.func.jacrev``.
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        of_chosen, given = chosen(func, args, kwargs, argnums)
        out, pullback, *aux = vjp(of_chosen, *given, has_aux=has_aux)
        results = tensors_of(out, func)
        units = tree.refill(out, _units(results))
        rows, _ = tree.flatten(vmap(pullback, chunk_size=chunk_size)(units))
        blocks = [_cut(r, results) for r in rows]  # for each input, those for each result
        jacobian = tree.refill(out, [_nested(given, argnums, block) for block in zip(*blocks, strict=True)])
        return (jacobian, *aux) if has_aux else jacobian

    return wrapper


def _nested(given: tuple[Any, ...], argnums: Argnums, leaves: Sequence[Tensor]) -> Any:
    """A tensor for each of the chosen arguments', nested like them."""
    found = tree.refill(given, leaves)
    return found[0] if isinstance(argnums, int) else found


def jacfwd(
    func: Function, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """:func:`jacrev` by forward mode: as much work as one call for each element of the arguments, which is
    less where these have fewer elements than the result. ``randomness`` is that of :func:`vmap`.
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        of_chosen, given = chosen(func, args, kwargs, argnums)
        inputs, _ = tree.flatten(given)

        def directional(tangents: tuple[Any, ...]) -> Any:
            _, *found = jvp(of_chosen, given, tangents, has_aux=has_aux)
            return tuple(found)

        out_dims = (0, None) if has_aux else (0,)
        units = tree.refill(given, _units(inputs))
        columns, *aux = vmap(directional, out_dims=out_dims, randomness=randomness)(units)
        blocks = [_nested(given, argnums, _columns(t, inputs)) for t in tensors_of(columns, func)]
        jacobian = tree.refill(columns, blocks)
        return (jacobian, *aux) if has_aux else jacobian

    return wrapper


def _columns(rows: Tensor, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Derivatives of one result by every element of the inputs, as a block for each input."""
    parts = zip(rows.movedim(0, -1).split(_sizes(inputs), -1), inputs, strict=True)
    return [part.reshape(*rows.shape[1:], *t.shape) for part, t in parts]


jacobian = jacrev


def hessian(func: Function, argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that returns the second derivatives of ``func``: the Jacobian of the Jacobian, nested
    accordingly. For a scalar result and an argument of shape (n,) it has shape (n, n).
    """
    return jacrev(jacrev(func, argnums), argnums)
