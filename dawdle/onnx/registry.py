"""The operators that the importer knows: one function for each and for each opset that changed it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias, TypeVar

from dawdle.dtype import DType
from dawdle.errors import ModelError
from dawdle.onnx.values import Value, on_host, placed
from dawdle.tensor import Tensor

T = TypeVar("T")
Int: TypeAlias = int  # Node has methods of these names
Float: TypeAlias = float

DOMAINS = {"ai.onnx": ""}  # another name of the default domain


class Graph(Protocol):
    """A body of If, Loop or Scan: its own inputs and outputs, and what it sees of the graph around it."""

    inputs: Sequence[str]
    outputs: Sequence[str]
    declared: Sequence[tuple[DType, tuple[int, ...]]]

    def run(self, bindings: Mapping[str, Value], around: Any, device: str) -> list[Value]: ...


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def label(op: str, name: str, outputs: Sequence[str]) -> str:
    """A node by its name, else by what it gives."""
    return f"{op} {name!r}" if name or not outputs else f"{op} (unnamed, gives {outputs[0]!r})"


class _Required:
    """The default of an attribute that must be there."""


REQUIRED: Any = _Required()


@dataclass(frozen=True)
class Node:
    """One node of a model in one call: attributes by type, and where its results belong.

    ``device`` is where the operator runs: the model's device, or NUMPY where all that it needs is known
    there. ``target`` is the model's device, for results that are large.
    """

    op: str
    domain: str = ""
    name: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    opset: Int = 1
    device: str = "NUMPY"
    target: str = "NUMPY"
    scope: Any = None  # what a body sees of the values around the node

    def __str__(self) -> str:
        return label(self.op, self.name, self.outputs)

    def placed(self, device: str, target: str, scope: Any) -> Node:
        """The node in one call."""
        return replace(self, device=device, target=target, scope=scope)

    def has(self, name: str) -> bool:
        """Whether an attribute is given."""
        return name in self.attributes

    def wants(self, output: Int) -> bool:
        """Whether somebody asks for the output of that number."""
        return output < len(self.outputs) and bool(self.outputs[output])

    def get(self, name: str, default: Any = REQUIRED) -> Any:
        """An attribute of any type; ModelError where it is missing and has no default."""
        if name in self.attributes:
            return self.attributes[name]
        if default is REQUIRED:
            raise ModelError(f"{self} has no attribute {name!r}, which its operator requires")
        return default

    def int(self, name: str, default: Any = REQUIRED) -> Int:
        """An integer attribute, or the default as it is; so for the other types."""
        return self._as(Int, name, default)

    def flag(self, name: str, default: Any = REQUIRED) -> bool:
        """An integer attribute that means yes or no."""
        return bool(self.get(name, default))

    def float(self, name: str, default: Any = REQUIRED) -> Float:
        """A float attribute."""
        return self._as(Float, name, default)

    def string(self, name: str, default: Any = REQUIRED) -> str:
        """A string attribute."""
        return self._as(_text, name, default)

    def ints(self, name: str, default: Any = REQUIRED) -> tuple[Int, ...]:
        """A list of integers."""
        return self._as(lambda numbers: tuple(map(Int, numbers)), name, default)

    def floats(self, name: str, default: Any = REQUIRED) -> tuple[Float, ...]:
        """A list of floats."""
        return self._as(lambda numbers: tuple(map(Float, numbers)), name, default)

    def strings(self, name: str, default: Any = REQUIRED) -> tuple[str, ...]:
        """A list of strings."""
        return self._as(lambda words: tuple(map(_text, words)), name, default)

    def _as(self, convert: Callable[[Any], T], name: str, default: Any) -> T:
        value: T = self.get(name, default)
        if name not in self.attributes:
            return value
        try:
            return convert(value)
        except (TypeError, ValueError, AttributeError):
            raise ModelError(f"the attribute {name!r} of {self} is of the wrong type: {value!r}") from None

    def tensor(self, name: str, default: Any = REQUIRED) -> Value:
        """A tensor, which lies on NUMPY."""
        value: Value = self.get(name, default)
        return value

    def graph(self, name: str) -> Graph:
        """A body, to be given to :meth:`run`."""
        graph: Graph = self.get(name)
        return graph

    def run(self, graph: Graph, bindings: Mapping[str, Value]) -> list[Value]:
        """The outputs of a body whose inputs are bound by name; it sees the values around this node too."""
        return graph.run(bindings, self.scope, self.target)

    def constant(self, array: Any, dtype: Any = None) -> Tensor:
        """A tensor with these elements where the operator runs."""
        return placed(on_host(array, dtype), self.device)


Function: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=Function)


@dataclass(frozen=True)
class Operator:
    """How a node of one kind is computed.

    The inputs of the numbers in ``host`` are read on the host by the function: they aren't moved to the
    device of the others and don't decide where the operator runs. None: that holds for all of them. The same
    goes for those in ``peek`` where they are constants known on the host; else they are as any other.
    ``pure``: equal inputs give equal results, and nothing else is looked at.
    """

    function: Function
    since: int
    host: frozenset[int] | None
    peek: frozenset[int]
    pure: bool

    def reads_on_host(self, position: int) -> bool:
        """Whether the input of that number is one of them."""
        return self.host is None or position in self.host

    def fitted(self, node: Node) -> Node:
        """The node with as many inputs as the function takes: surplus ones that are left out are cut off.
        Raises ModelError where there are too few or too many.
        """
        kinds = list(inspect.signature(self.function).parameters.values())[1:]
        least = sum(p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in kinds)
        if any(p.kind is p.VAR_POSITIONAL for p in kinds):
            most, takes = len(node.inputs), f"{least} or more"
        else:
            most, takes = len(kinds), f"{least} to {len(kinds)}" if least < len(kinds) else f"{least}"
        if len(node.inputs) < least or any(node.inputs[most:]):
            raise ModelError(f"{node} has {len(node.inputs)} inputs, its operator takes {takes}")
        return replace(node, inputs=node.inputs[:most])


_operators: dict[tuple[str, str], dict[int, Operator]] = {}


def operator(
    *names: str,
    since: int = 1,
    domain: str = "",
    host: Sequence[int] | None = (),
    peek: Sequence[int] = (),
    pure: bool = True,
) -> Callable[[F], F]:
    """Register ``(node, *inputs) -> value or tuple of values`` for operators of these names from an opset on.

    An input that the node leaves out is None. ``host`` lists the numbers of the inputs that are read on the
    host (see :func:`dawdle.onnx.values.host`) and stay where they are; None: all of them. ``peek`` lists
    those that the function wants on the host if they are constants there, and on the operator's device
    otherwise. ``pure=False``: the function draws random numbers or runs a body. Registered again, an operator
    is replaced.
    """

    def register(function: F) -> F:
        for name in names:
            versions = _operators.setdefault((domain, name), {})
            places = None if host is None else frozenset(host)
            versions[since] = Operator(function, since, places, frozenset(peek), pure)
        return function

    return register


def find(name: str, domain: str, opset: int) -> Operator | None:
    """The newest version of an operator that ``opset`` has, None for one without a rule."""
    versions = _operators.get((DOMAINS.get(domain, domain), name), {})
    return versions.get(max((since for since in versions if since <= opset), default=0))


def operators() -> list[tuple[str, str, int]]:
    """(domain, name, since) of every registered operator."""
    return sorted((*key, since) for key, versions in _operators.items() for since in versions)
