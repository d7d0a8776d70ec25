"""Derivatives of functions: ``grad``, ``value_and_grad``, ``vjp`` and ``jvp``, as in ``torch.func``.

A function gets its arguments as tensors of their own, at which gradients end. What it returns, and the
derivatives, can be differentiated further: with respect to what the arguments were computed from, to tensors
that the function uses besides, and by other transforms around it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from dawdle import tree
from dawdle.errors import GradientError, ShapeError
from dawdle.func.frame import name_of
from dawdle.lazy.ops import Op
from dawdle.runtime.trace import note_read
from dawdle.tensor import Tensor
from dawdle.tensor.autograd import DETACHED, Node, enable_grad, is_grad_enabled
from dawdle.tensor.backpropagation import pull, toposort
from dawdle.tensor.core import apply

Argnums = int | Sequence[int]
Function = Callable[..., Any]


class Inputs:
    """Nested float tensors, ``given``, and in their place ``tensors`` at which gradients end."""

    def __init__(self, nested: Any) -> None:
        self._nested = nested
        self.given: list[Tensor] = tree.flatten(nested)[0]
        note_read(*self.given)
        self.tensors = [_separate(x) for x in self.given]
        self.nodes = [t._node for t in self.tensors]

    @property
    def inner(self) -> Any:
        """The tensors, nested as the given ones."""
        return tree.refill(self._nested, self.tensors)

    def filled(self, found: Sequence[Tensor | None]) -> Any:
        """A derivative for each input, 0 for None, nested as the given ones."""
        pairs = zip(found, self.given, strict=True)
        return tree.refill(self._nested, [x.detach().zeros_like() if g is None else g for g, x in pairs])

    def matter_to_others(self, *results: Tensor) -> bool:
        """Whether something else may differentiate what is computed from the inputs and ``results``."""
        if not is_grad_enabled():
            return False
        if any(x.requires_grad for x in self.given):
            return True
        own = {id(node) for node in self.nodes}
        roots = [node for t in results if (node := recorded(t)) is not None]
        return any(n.op is None and n.tracked and id(n) not in own for n in toposort(roots, own))


def _separate(x: Tensor) -> Tensor:
    """The value of ``x`` at a place of its own among recorded operations."""
    if not x.requires_grad:
        return x._new(x.lazy, Node(None, tracked=True))
    with enable_grad():
        return apply(Op.RESHAPE, x.shape, x)


def recorded(t: Tensor) -> Node | None:
    """The node that gradients flow from, None if they don't."""
    return None if t._node is DETACHED else t._node


def check_inputs(x: Any, what: str) -> None:
    """Raise GradientError unless ``x`` is or holds float tensors and nothing else."""
    for leaf in tree.flatten(x)[0]:
        if not isinstance(leaf, Tensor) or not leaf.dtype.is_float:
            raise GradientError(
                f"{what} must be a float tensor to be differentiated by, or hold nothing else; "
                f"it is or holds {_kind(leaf)}"
            )


def _kind(x: Any) -> str:
    if not isinstance(x, Tensor):
        return f"a {type(x).__name__}"
    return f"a tensor of {x.dtype.name} and shape {x.shape}"


def chosen(
    func: Function, args: Sequence[Any], kwargs: Any, argnums: Argnums
) -> tuple[Function, tuple[Any, ...]]:
    """(``func`` of the arguments ``argnums`` alone, these arguments). Raises GradientError as
    :func:`check_inputs`.
    """
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for i in numbers:
        if not -len(args) <= i < len(args):
            raise GradientError(f"{name_of(func)} got {len(args)} positional arguments, argnums names {i}")
    places = [i % len(args) for i in numbers]
    for i in places:
        check_inputs(args[i], f"argument {i} of {name_of(func)}")

    @functools.wraps(func)
    def of_chosen(*inputs: Any) -> Any:
        every = list(args)
        for i, x in zip(places, inputs, strict=True):
            every[i] = x
        return func(*every, **kwargs)

    return of_chosen, tuple([args[i] for i in places])


def called(func: Function, has_aux: bool, args: Sequence[Any]) -> tuple[Any, Any]:
    """(the result, recorded; what was returned besides)."""
    with enable_grad():
        out = func(*args)
    if not has_aux:
        return out, None
    if not isinstance(out, tuple) or len(out) != 2:
        raise GradientError(
            f"with has_aux=True {name_of(func)} must return (result, anything), it returned {_kind(out)}"
        )
    return out


def tensors_of(x: Any, func: Function) -> list[Tensor]:
    """The leaves of a result. Raises GradientError unless they are tensors."""
    leaves = tree.flatten(x)[0]
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise GradientError(
                f"{name_of(func)} must return tensors to be differentiated, it returned {_kind(leaf)}"
            )
    return leaves


def released(x: Any, keep: bool) -> Any:
    """A nested result, without its way back to the inputs unless ``keep``."""
    return tree.transform(lambda t: t.detach() if isinstance(t, Tensor) and not keep else t, x)


def value_and_grad(
    func: Function, argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """A function that returns the value of ``func``, a scalar, and its gradients with respect to the
    positional arguments ``argnums``.

    The gradient is like the argument: a tensor, or tensors nested in tuples, lists, dicts and dataclasses; a
    tuple for several ``argnums``. With ``has_aux`` ``func`` returns (value, anything), and the result is
    ((value, anything), gradients). Nesting gives higher derivatives. Raises GradientError for arguments that
    hold anything but float tensors and for a value that isn't a float scalar.
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        of_chosen, given = chosen(func, args, kwargs, argnums)
        inputs = Inputs(given)
        value, aux = called(of_chosen, has_aux, inputs.inner)
        _check_scalar(value, func)
        keep = inputs.matter_to_others(value)
        root = recorded(value)
        seeds = [] if root is None else [(root, value.detach().ones_like())]
        gradients = inputs.filled(pull(seeds, inputs.nodes, keep))
        if isinstance(argnums, int):
            (gradients,) = gradients
        value = released(value, keep)
        return ((value, released(aux, keep)) if has_aux else value), gradients

    return wrapper


def _check_scalar(value: Any, func: Function) -> None:
    if not isinstance(value, Tensor) or not value.dtype.is_float or value.lazy.size != 1:
        raise GradientError(
            f"{name_of(func)} must return a float scalar to have a gradient, it returned {_kind(value)}; "
            "reduce it with .sum() or .mean(), or use vjp or jacobian"
        )


def grad(func: Function, argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradients of ``func`` as :func:`value_and_grad` does, without the value;
    with ``has_aux`` (gradients, what ``func`` returned besides).
    """
    both = value_and_grad(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        value, gradients = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return wrapper


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """(``func(*primals)``, a function of cotangents). With ``has_aux`` ``func`` returns (result, anything),
    and the latter comes third.

    The function gets a cotangent for the result, nested like it, and returns a tuple with the products of
    cotangents and Jacobian for each of ``primals``: the gradients of the sum of result times cotangent. It
    may be called any number of times. Integer results take part with no effect. As ``torch.func.vjp``.
    """
    for i, x in enumerate(primals):
        check_inputs(x, f"primal {i} of {name_of(func)}")
    inputs = Inputs(primals)
    out, aux = called(func, has_aux, inputs.inner)
    results = tensors_of(out, func)

    def pullback(cotangents: Any) -> tuple[Any, ...]:
        given = like(out, cotangents, "cotangent")
        pairs = [(node, g) for t, g in zip(results, given, strict=True) if (node := recorded(t)) is not None]
        keep = inputs.matter_to_others(*results, *given)
        found: tuple[Any, ...] = inputs.filled(pull(pairs, inputs.nodes, keep))
        return found

    keep = inputs.matter_to_others(*results)
    return (released(out, keep), pullback, *([released(aux, keep)] if has_aux else []))


def like(nested: Any, given: Any, what: str) -> list[Tensor]:
    """The leaves of ``given``, in the dtypes of those of ``nested``. Raises ShapeError unless they are nested
    alike, with tensors of equal shapes.
    """
    wanted, structure = tree.flatten(nested)
    found, other = tree.flatten(given)
    if str(structure) != str(other):
        raise ShapeError(f"the {what} must be nested like {structure}, not like {other}")
    out = []
    for x, g in zip(wanted, found, strict=True):
        if not isinstance(g, Tensor) or g.shape != x.shape:
            kind = f"of shape {g.shape}" if isinstance(g, Tensor) else f"a {type(g).__name__}"
            raise ShapeError(f"a {what} must be a tensor of shape {x.shape}, it is {kind}")
        out.append(g.to(x.dtype))
    return out


def jvp(
    func: Function, primals: Sequence[Any], tangents: Sequence[Any], *, has_aux: bool = False
) -> tuple[Any, ...]:
    """(``func(*primals)``, the derivative of the result in the direction of ``tangents``). With ``has_aux``
    ``func`` returns (result, anything), and the latter comes third.

    ``primals`` and ``tangents`` are tuples, nested alike. The derivative of integer results is 0. As
    ``torch.func.jvp``. The product of Jacobian and vector is found as the derivative of the product of a
    vector and the Jacobian with respect to that vector, which is linear in it; of that nothing but the
    product itself is computed. Source: Townsend, A new trick for calculating Jacobian vector products, 2017.
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise ShapeError("jvp takes tuples: jvp(func, (x,), (tangent,))")
    for i, x in enumerate(primals):
        check_inputs(x, f"primal {i} of {name_of(func)}")
    given = like(tuple(primals), tuple(tangents), "tangent")
    inputs = Inputs(tuple(primals))
    out, aux = called(func, has_aux, inputs.inner)
    results = tensors_of(out, func)
    keep = inputs.matter_to_others(*results, *given)
    found = _pushed(results, inputs, given, keep)
    pairs = zip(found, results, strict=True)
    derivative = tree.refill(out, [t.detach().zeros_like() if d is None else d for d, t in pairs])
    return (released(out, keep), derivative, *([released(aux, keep)] if has_aux else []))


def _pushed(
    results: Sequence[Tensor], inputs: Inputs, tangents: Sequence[Tensor], keep: bool
) -> list[Tensor | None]:
    """The derivative of each result, None for 0."""
    duals = [_separate(t.detach().zeros_like()) if recorded(t) is not None else None for t in results]
    nodes = [recorded(t) for t in results]
    roots = [(n, d) for n, d in zip(nodes, duals, strict=True) if n is not None and d is not None]
    products = pull(roots, inputs.nodes, True)
    pairs = zip(products, tangents, strict=True)
    linear = [(node, v) for p, v in pairs if p is not None and (node := recorded(p)) is not None]
    reached = [d._node for d in duals if d is not None]
    found = iter(pull(linear, reached, keep))
    return [None if d is None else next(found) for d in duals]
