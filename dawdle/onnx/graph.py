"""A model's graph, and how a call goes through it: step by step, each on the host or on the model's device.

What is known on the host (shapes, small constants, and what is computed from such) stays there, on the
interpreter's device, and is computed at once: so no kernel is compiled for shape arithmetic, and ``@jit``
sees only what depends on the call's tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from dawdle.dtype import DType
from dawdle.errors import DawdleError, DTypeError, ModelError, OutOfMemoryError
from dawdle.onnx.registry import Node, Operator
from dawdle.onnx.values import HOST, HostArray, Value, placed, scalar, settled
from dawdle.runtime.trace import recording
from dawdle.tensor import Tensor

SMALL = 4096  # elements up to which what is known on the host is computed there
# what functions of operators raise where a model asks for something that isn't there
MALFORMED = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, MemoryError, OSError)
UNREAD = {"Shape", "Size"}  # these look at the shape of their operand only


class Cell:
    """One edge's value, and copies of it on other devices. A constant is shared by all calls and is read when
    it is first used.
    """

    def __init__(self, read: Callable[[], Value], constant: bool) -> None:
        self._read = read
        self.constant = constant
        self._places: dict[str, Value] = {}

    def value(self) -> Value:
        """The value where it was made."""
        if "" not in self._places:
            self._places[""] = self._read()
        return self._places[""]

    def on(self, device: str) -> Value:
        """The value on a device; what no device can hold stays on the host."""
        value = self.value()
        if self.constant and isinstance(value, Tensor) and value.numel() == 1:
            # a literal in the kernels; a new handle, or @jit would take it for a parameter
            return Tensor.full(value.shape, scalar(value), dtype=value.dtype, device=device)
        if device not in self._places:
            self._places[device] = moved(value, device)
        return self._places[device]


def cell(value: Value, constant: bool = False) -> Cell:
    """A cell of a value that is known."""
    return Cell(lambda: value, constant)


def on_the_host(value: Value) -> bool:
    """Whether a value is a tensor that lies on the host."""
    return isinstance(value, Tensor) and value.device == HOST


def known_number(place: Cell | None) -> bool:
    """Whether a value is the same for all calls and known on the host."""
    return place is not None and place.constant and on_the_host(place.value())


def moved(value: Value, device: str) -> Value:
    """A value, or each of a sequence, on another device: see :func:`placed`."""
    if isinstance(value, list):
        return [moved(v, device) for v in value]
    return placed(value, device) if isinstance(value, Tensor) else value


class Scope:
    """The values of a graph's edges in one call, and those of the graph around it."""

    def __init__(self, cells: Mapping[str, Cell], around: Scope | None) -> None:
        self._cells = dict(cells)
        self._around = around

    def __getitem__(self, name: str) -> Cell:
        scope: Scope | None = self
        while scope is not None:
            if name in scope._cells:
                return scope._cells[name]
            scope = scope._around
        raise ModelError(f"the value {name!r} is used, but the node that should give it gives fewer values")

    def bind(self, names: Iterable[str], cells: Iterable[Cell]) -> None:
        """Give names to what a step has computed."""
        self._cells.update((n, c) for n, c in zip(names, cells, strict=False) if n)

    def forget(self, names: Iterable[str]) -> None:
        """Let go of values that no later step uses."""
        for name in names:
            self._cells.pop(name, None)


@dataclass
class Step:
    """One node: which values it takes and gives, and how it is computed, by a rule or by a body of its own.

    ``body`` is the graph of a function, or makes it from the values of the inputs.
    """

    node: Node
    operator: Operator | None
    body: Graph | Callable[[Sequence[Value]], Graph] | None = None
    bodies: tuple[Graph, ...] = ()  # attributes that are graphs
    alike: tuple[tuple[int, ...], ...] = ()  # inputs that must be of one dtype
    forgets: tuple[str, ...] = ()
    folded: list[Cell] | None = field(default=None, repr=False)  # its results, where no call changes them

    def uses(self) -> set[str]:
        """The names of all values that it looks at, also from inside its bodies."""
        return {n for n in self.node.inputs if n}.union(*(body.free for body in self.bodies))

    def run(self, scope: Scope, target: str) -> list[Cell]:
        """Its outputs, from the values in ``scope``; large ones are computed on the device ``target``."""
        if self.folded is not None:
            return self.folded
        cells = [scope[name] if name else None for name in self.node.inputs]
        try:
            if self.operator is None:
                values = self._expanded(cells, target)
                return [cell(v) for v in values]
            return self._computed(self.operator, cells, scope, target)
        except DawdleError as error:
            _locate(error, self.node)
            raise

    def _expanded(self, cells: Sequence[Cell | None], target: str) -> list[Value]:
        assert self.body is not None
        values = [None if c is None else c.value() for c in cells]
        graph = self.body if isinstance(self.body, Graph) else self.body(values)
        return graph.run(dict(zip(graph.inputs, values, strict=False)), None, target)

    def _computed(
        self, rule: Operator, cells: Sequence[Cell | None], scope: Scope, target: str
    ) -> list[Cell]:
        given = [None if c is None else c.value() for c in cells]
        self._check_dtypes(given)
        stays = [rule.reads_on_host(i) or (i in rule.peek and known_number(c)) for i, c in enumerate(cells)]
        deciding = [v for v, stay in zip(given, stays, strict=True) if not stay]
        place = place_of(deciding, target)
        known = rule.pure and all(t.device == HOST for t in tensors(given))
        with recording(None) if known else nullcontext():
            results = self._apply(rule, cells, stays, scope, place, target)
            if place != target and any(large(t) for t in tensors(results)):
                results = self._apply(rule, cells, stays, scope, target, target)
        constant = known and all(c is None or c.constant for c in cells)
        out = [cell(v, constant) for v in map(at_rest, results)]
        if constant:
            self.folded = out
        return out

    def _check_dtypes(self, given: Sequence[Value]) -> None:
        for places in self.alike:
            found = [(i, v.dtype.name) for i in places if isinstance(v := given[i], (Tensor, HostArray))]
            if len({dtype for _, dtype in found}) > 1:
                listed = ", ".join(f"{self.node.inputs[i]!r} {dtype}" for i, dtype in found)
                raise DTypeError(f"inputs must be of one dtype, got {listed}; put a Cast before")

    def _apply(
        self,
        rule: Operator,
        cells: Sequence[Cell | None],
        stays: Sequence[bool],
        scope: Scope,
        place: str,
        target: str,
    ) -> list[Value]:
        inputs = [
            None if c is None else c.value() if stay else c.on(place)
            for c, stay in zip(cells, stays, strict=True)
        ]
        node = self.node.placed(place, target, scope)
        try:
            result = rule.function(node, *inputs)
        except MALFORMED as error:
            if isinstance(error, DawdleError):
                raise
            raise _failure(error, inputs) from error
        return list(result) if isinstance(result, tuple) else [result]


def _failure(error: Exception, inputs: Sequence[Value]) -> DawdleError:
    """What is said of an operator that stumbles over its inputs."""
    dtypes = sorted({v.dtype.name for v in inputs if isinstance(v, HostArray)})
    if dtypes and isinstance(error, (AttributeError, TypeError)):
        return DTypeError(f"the operator isn't there for values of dtype {', '.join(dtypes)}")
    if isinstance(error, MemoryError):
        return OutOfMemoryError(str(error))
    return ModelError(f"the operator can't be computed of {', '.join(map(_described, inputs))}: {error}")


def _described(value: Value) -> str:
    if isinstance(value, (Tensor, HostArray)):
        return f"{value.dtype.name} {value.shape}"
    return "nothing" if value is None else "a sequence"


def tensors(values: Iterable[Value]) -> list[Tensor]:
    """The tensors among values and in sequences among them."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list):
            found += tensors(value)
    return found


def realize(values: Iterable[Value]) -> None:
    """Compute values now, those on one device together."""
    found = tensors(values)
    for device in {t.device for t in found}:
        Tensor.realize(*[t for t in found if t.device == device])


def place_of(values: Iterable[Value], target: str) -> str:
    """Where an operator on these values runs: on the host if all are known there and are few."""
    operands = tensors(values)
    known = all(t.device == HOST for t in operands)
    return HOST if known and sum(math.prod(t.shape) for t in operands) <= SMALL else target


def large(value: Tensor) -> bool:
    """Whether a result is better computed on the model's device."""
    return value.device == HOST and not value.lazy.is_realized and math.prod(value.shape) > SMALL


def at_rest(value: Value) -> Value:
    """A value whose part on the host is computed."""
    if isinstance(value, list):
        return [at_rest(v) for v in value]
    return settled(value) if isinstance(value, Tensor) and value.device == HOST else value


def _locate(error: DawdleError, node: Node) -> None:
    """Put before an error's words which node it comes from, the innermost only."""
    if not getattr(error, "_located", False) and error.args:
        words = str(error.args[0])
        if not words.startswith(str(node)):
            error.args = (f"{node}: {words}", *error.args[1:])
        error._located = True  # type: ignore[attr-defined]


@dataclass
class Graph:
    """Steps in the order of a model's nodes. ``free`` are the names it takes from the graph around it.

    A function's outputs that no step gives (``partial``) are absent. ``declared`` are the outputs' dtypes and
    shapes, with 0 for sizes that aren't said.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: dict[str, Cell]
    steps: list[Step]
    partial: bool = False
    declared: tuple[tuple[DType, tuple[int, ...]], ...] = ()
    free: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        made = {*self.inputs, *self.constants}.union(*(s.node.outputs for s in self.steps))
        if self.partial:
            absent = cell(None, constant=True)
            self.constants = {**{n: absent for n in self.outputs if n not in made}, **self.constants}
            made |= set(self.outputs)
        used = set(self.outputs).union(*(s.uses() for s in self.steps))
        self.free = frozenset(used - made)
        self._plan_forgetting(made)

    def _plan_forgetting(self, made: set[str]) -> None:
        later = set(self.outputs) | set(self.constants)
        for step in reversed(self.steps):
            last = {*step.uses(), *step.node.outputs} - later
            step.forgets = tuple(last & made)
            later |= last

    def run(self, bindings: Mapping[str, Value], around: Scope | None, device: str) -> list[Value]:
        """The outputs for inputs bound by name; what isn't bound is the constant of its name, or absent."""
        scope = Scope({**dict.fromkeys(self.inputs, cell(None)), **self.constants}, around)
        scope.bind(bindings, map(cell, bindings.values()))
        for step in self.steps:
            scope.bind(step.node.outputs, step.run(scope, device))
            scope.forget(step.forgets)
        return [scope[name].value() for name in self.outputs]

    def read_on_host(self) -> set[str]:
        """Names, also of the graph around it, whose values operators read on the host, directly or from what
        is computed of them.
        """
        needed: set[str] = set()
        for step in reversed(self.steps):
            needed |= _host_reads(step, needed)
        return needed


def _host_reads(step: Step, needed: set[str]) -> set[str]:
    """What a step reads on the host; all that it uses, where its results are ``needed`` there."""
    if step.node.op in UNREAD:
        return set()
    if any(name in needed for name in step.node.outputs):
        return step.uses()
    found = set().union(*(body.read_on_host() for body in step.bodies)) & step.uses()
    inputs = step.node.inputs
    if step.operator is not None:
        return found | {n for i, n in enumerate(inputs) if n and step.operator.reads_on_host(i)}
    if isinstance(step.body, Graph):
        inner = step.body.read_on_host()
        return found | {n for n, own in zip(inputs, step.body.inputs, strict=False) if n and own in inner}
    return found
