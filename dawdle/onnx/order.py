"""The nodes of a graph in an order in which they can be computed, with every name defined once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

from dawdle.errors import ModelError
from dawdle.onnx.registry import label

GRAPH, GRAPHS = 5, 10  # fields of an AttributeProto
DEEPEST = 50  # bodies and functions within each other
MOST = 1_000_000  # nodes, once all functions are written out
Key = tuple[str, str, str]


def _label(node: Any) -> str:
    return label(node.op_type, node.name, node.output)


def bodies(node: Any) -> Iterator[Any]:
    """The GraphProtos among a node's attributes."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def uses(node: Any) -> set[str]:
    """The names of all values that a NodeProto looks at, also from inside its bodies."""
    return {name for name in node.input if name}.union(*map(_free, bodies(node)))


def _free(graph: Any) -> set[str]:
    """What a body takes from around it."""
    used = {o.name for o in graph.output}.union(*map(uses, graph.node))
    return used - set(_given(graph)) - {name for node in graph.node for name in node.output}


def _given(graph: Any) -> list[str]:
    """The names that a GraphProto has before its nodes."""
    return [*(i.name for i in graph.input), *_weights(graph)]


def _weights(graph: Any) -> list[str]:
    return [*(t.name for t in graph.initializer), *(s.values.name for s in graph.sparse_initializer)]


@dataclass
class Names:
    """The names that a graph's nodes may use, and what is wrong with how they do."""

    around: Collection[str]  # of the graph around it, up to the node that this is a body of
    given: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    @property
    def visible(self) -> set[str]:
        """What a body of the next node sees."""
        return self.given.union(self.around)

    def inputs(self, names: Iterable[str], what: str) -> None:
        """Define inputs or weights."""
        seen: set[str] = set()
        for name in names:
            if name in seen:
                self.faults.append(f"there are two {what} of the name {name!r}")
            seen.add(name)
        self.given |= seen

    def ordered(self, nodes: Sequence[Any]) -> list[Any]:
        """The nodes, each after those whose results it uses: as they are, where that is so already."""
        self._check_definitions(nodes)
        maker = {name: i for i, node in reversed(list(enumerate(nodes))) for name in node.output if name}
        needs: dict[int, set[int]] = {}
        known = self.visible.union(maker)
        for i, node in enumerate(nodes):
            used = uses(node)
            needs[i] = {maker[name] for name in used if name in maker and name not in self.given}
            for name in sorted(used - known):
                self.faults.append(f"{_label(node)} uses the value {name!r}, which nothing gives")
        if all(before < i for i, befores in needs.items() for before in befores):
            return list(nodes)
        try:
            return [nodes[i] for i in TopologicalSorter(needs).static_order()]
        except CycleError as error:
            circle = " and ".join(_label(nodes[i]) for i in error.args[1][1:])
            self.faults.append(f"these nodes need each other's results: {circle}")
            return []

    def _check_definitions(self, nodes: Sequence[Any]) -> None:
        by: dict[str, str] = {}
        for node in nodes:
            for name in filter(None, node.output):
                if name in by:
                    self.faults.append(f"{_label(node)} gives {name!r}, which {by[name]} gives too")
                elif name in self.given:
                    self.faults.append(f"{_label(node)} gives {name!r}, which is an input or a weight")
                elif name in self.around:
                    self.faults.append(f"{_label(node)} gives {name!r}, which the graph around it defines")
                by.setdefault(name, _label(node))

    def outputs(self, names: Iterable[str], nodes: Sequence[Any], what: str) -> None:
        """Check that all that the graph gives is there."""
        made = self.visible.union(*(node.output for node in nodes))
        for name in names:
            if name not in made or not name:
                self.faults.append(f"the output {name!r} of {what} is given by nothing")


def graph_names(graph: Any, around: Collection[str]) -> Names:
    """The names that the nodes of a GraphProto start with."""
    names = Names(around)
    names.inputs((i.name for i in graph.input), "inputs")
    names.inputs(_weights(graph), "weights")
    return names


# ---- functions within functions


@dataclass
class _Extent:
    """How much a graph becomes once its functions are written out."""

    nodes: int = 0
    depth: int = 0


def check_extent(graph: Any, functions: Mapping[Key, Any]) -> None:
    """Raise ModelError where functions call themselves, or graphs and functions stand within each other so
    often, or so deep, that no computer would end with them.
    """
    calls = {key: _called(f.node, functions) for key, f in functions.items()}
    try:
        order = list(TopologicalSorter(calls).static_order())
    except CycleError as error:
        names = " and ".join(repr(name) for _, name, _ in error.args[1][1:])
        raise ModelError(f"the model's function {names} calls itself, which ONNX doesn't allow") from None
    known: dict[Key, _Extent] = {}
    for key in order:
        known[key] = _extent(functions[key].node, known)
    whole = _extent(graph.node, known)
    if whole.depth > DEEPEST:
        raise ModelError(
            f"bodies and functions stand {whole.depth} deep within each other; {DEEPEST} is the most"
        )
    if whole.nodes > MOST:
        raise ModelError(
            f"the model has {whole.nodes} nodes once its functions are written out; {MOST} is the most"
        )


def key_of(node: Any) -> Key:
    """The function that a NodeProto would call."""
    return (node.domain, node.op_type, getattr(node, "overload", ""))


def _called(nodes: Iterable[Any], functions: Mapping[Key, Any]) -> set[Key]:
    return {key_of(node) for node, _ in _all(nodes)} & functions.keys()


def _all(nodes: Iterable[Any]) -> Iterator[tuple[Any, int]]:
    """Nodes, and those of bodies within them, with how many bodies each stands in."""
    waiting = [(node, 0) for node in nodes]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting += [(inner, depth + 1) for body in bodies(node) for inner in body.node]


def _extent(nodes: Iterable[Any], known: Mapping[Key, _Extent]) -> _Extent:
    extent = _Extent()
    for node, depth in _all(nodes):
        called = known.get(key_of(node), _Extent(depth=-1))
        extent.nodes += 1 + called.nodes
        extent.depth = max(extent.depth, depth + called.depth + 1)
    return extent
