"""Arguments of public functions, checked by their annotations before anything is made of them."""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from dawdle.errors import ArgumentTypeError
from dawdle.tensor.core import coerce, is_scalar

F = TypeVar("F", bound=Callable[..., Any])
Take = Callable[[Any, Any], Any]
UNFIT = object()
LEAST, MOST = -(1 << 63), (1 << 64) - 1  # what the integers of any dtype lie within


def _integer(value: Any, first: Any) -> Any:
    if not hasattr(value, "__index__"):
        return UNFIT
    try:
        index = operator.index(value)
    except TypeError:  # of arrays with several elements, or that hold floats
        return UNFIT
    return index if LEAST <= index <= MOST else UNFIT


def _number(value: Any, first: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    return value if hasattr(value, "__float__") and not isinstance(value, (str, bytes)) else UNFIT


def _truth(value: Any, first: Any) -> Any:
    return bool(value) if isinstance(value, (int, np.bool_, np.integer)) or hasattr(value, "lazy") else UNFIT


def _operand(value: Any, first: Any) -> Any:
    known = is_scalar(value) or isinstance(value, (list, tuple))
    exports = ("lazy", "__array__", "__dlpack__", "__buffer__")
    return value if known or any(hasattr(value, name) for name in exports) else UNFIT


def _tensor(value: Any, first: Any) -> Any:
    if hasattr(value, "lazy"):
        return value
    if isinstance(first, type) or not hasattr(first, "lazy") or _operand(value, first) is UNFIT:
        return UNFIT
    return coerce(first, value)


def _maybe(take: Take) -> Take:
    """None as well."""
    return lambda value, first: None if value is None else take(value, first)


def _several(take: Take, count: int | None = None) -> Take:
    """A sequence of what ``take`` takes, of ``count`` if there is one."""

    def sequence(value: Any, first: Any) -> Any:
        if hasattr(value, "tolist") and value.ndim == 1:
            value = value.tolist()
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
            return UNFIT
        fitted = tuple([take(v, first) for v in value])
        return UNFIT if any(v is UNFIT for v in fitted) or count not in (None, len(fitted)) else fitted

    return sequence


@dataclass(frozen=True)
class Kind:
    """What an annotation stands for: ``take(value, first argument)`` is what the function gets, or UNFIT.
    Values of the types ``plain`` need not be looked at.
    """

    words: str
    take: Take
    plain: tuple[type, ...] = ()


INTEGERS = Kind("a sequence of integers", _several(_integer))
KINDS = {
    "None": Kind("None", lambda value, first: None if value is None else UNFIT, (type(None),)),
    "int": Kind("an integer", _integer, (int,)),
    "float": Kind("a number", _number, (float, int)),
    "Scalar": Kind("a number", _number, (float, int, bool)),
    "bool": Kind("True or False", _truth, (bool,)),
    "str": Kind("a string", lambda value, first: value if isinstance(value, str) else UNFIT, (str,)),
    "Tensor": Kind("a tensor", _tensor),
    "Operand": Kind("a tensor", _operand, (float, int, bool)),
    "Sequence[int]": INTEGERS,
    "tuple[int, ...]": INTEGERS,
    "Sequence[int | None]": Kind("a sequence of integers", _several(_maybe(_integer))),
    "Sequence[float]": Kind("a sequence of numbers", _several(_number)),
    "Generator": Kind("a Generator", lambda value, first: value if hasattr(value, "bits") else UNFIT),
    "tuple[float, float]": Kind("two numbers", _several(_number, 2)),
    "Sequence[tuple[int, int]]": Kind("a sequence of pairs of integers", _several(_several(_integer, 2))),
    "Sequence[Operand]": Kind("a sequence of tensors", _several(_operand)),
    "Sequence[Operand | None]": Kind("a sequence of tensors", _several(_maybe(_operand))),
    "Sequence[Any]": Kind("a sequence", _several(lambda value, first: value)),
    "Distance": Kind("a function", lambda value, first: value if callable(value) else UNFIT),
}
SIZES = ["int", "Sequence[int]"]
VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
UNION = re.compile(r" \| (?![^\[]*\])")


class Rule:
    """What one parameter takes."""

    def __init__(self, name: str, kinds: Sequence[Kind]) -> None:
        self.name, self.kinds = name, kinds
        self.plain = frozenset([t for kind in kinds for t in kind.plain])

    def fitted(self, value: Any, first: Any, what: str) -> Any:
        """What the function gets for ``value``. Raises ArgumentTypeError where it can't be used."""
        for kind in self.kinds:
            found = kind.take(value, first)
            if found is not UNFIT:
                return found
        words = [kind.words for kind in self.kinds]
        listed = ", ".join(words[:-1]) + " or " + words[-1] if words[1:] else words[0]
        raise ArgumentTypeError(f"{what}: {self.name} must be {listed}, got {_shown(value)}")


def _shown(value: object) -> str:
    if hasattr(value, "lazy"):
        return f"a tensor of shape {value.lazy.shape}"
    text = repr(value)
    return text if len(text) < 80 else f"{text[:80]}... ({type(value).__name__})"


def rule_of(name: str, annotation: object) -> Rule | None:
    """The rule for a parameter; None for an annotation that says nothing, or that no kind is known for."""
    names = [n for part in UNION.split(str(annotation)) for n in (SIZES if part == "Sizes" else [part])]
    return Rule(name, [KINDS[n] for n in names]) if all(n in KINDS for n in names) else None


def checked(function: F, name: str | None = None, skip: int = 1) -> F:
    """``function``, with its arguments checked by their annotations, but for the first ``skip``; converted
    where they are integers, truth values or arrays of another library's. ``name`` is what errors call it.
    """
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    rules = [rule_of(p.name, p.annotation) for p in parameters if p.kind not in VARIABLE]
    known = {rule.name: rule for rule in rules if rule is not None}
    if not known:
        return function
    by_place = [known.get(p.name) for p in parameters if p.kind in PLACED]
    aliases = getattr(function, "aliases", {})
    by_name = {**known, **{alias: known[key] for alias, key in aliases.items() if key in known}}
    what = name or function.__name__

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        for i, (value, rule) in enumerate(zip(args[skip:], by_place, strict=False), skip):
            if rule is not None and type(value) not in rule.plain:
                args = (*args[:i], rule.fitted(value, args[0], what), *args[i + 1 :])
        for key, value in kwargs.items():
            rule = by_name.get(key)
            if rule is not None and type(value) not in rule.plain:
                kwargs[key] = rule.fitted(value, args[0] if args else None, what)
        return function(*args, **kwargs)

    return wrapper  # type: ignore[return-value]


def public(function: F) -> F:
    """Decorator for functions of the package: all their arguments are :func:`checked`."""
    return checked(function, skip=0)


def check_methods(topic: type) -> None:
    """Make every public method of a class check its arguments; aliases stay the same function."""
    made: dict[Any, Any] = {}
    for name, value in list(vars(topic).items()):
        function = getattr(value, "__func__", value)
        if name.startswith("_") or isinstance(value, staticmethod) or not callable(function):
            continue
        if function not in made:
            made[function] = checked(function, name)
        method = made[function]
        setattr(topic, name, classmethod(method) if isinstance(value, classmethod) else method)
