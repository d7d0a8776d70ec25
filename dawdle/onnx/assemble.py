"""From protobuf messages to a :class:`Graph`: operators looked up, functions taken apart, unknowns listed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from dawdle.dtype import DType, float32
from dawdle.errors import ModelError
from dawdle.onnx.graph import Cell, Graph, Step
from dawdle.onnx.order import Names, bodies, check_extent, graph_names, key_of
from dawdle.onnx.registry import DOMAINS, Node, find
from dawdle.onnx.schema import NEWEST, alike, check_opsets, check_versions, faults, find_schema
from dawdle.onnx.values import ELEMENT_TYPES, HostArray, Value, tensor_dtype
from dawdle.onnx.weights import Files, check_tensor, from_array, package, read_tensor
from dawdle.tensor import Tensor

CODES = {name: code for code, name in ELEMENT_TYPES.items()}

# AttributeProto.AttributeType: the field that holds the value
SCALARS = {1: "f", 2: "i", 3: "s", 13: "tp"}
LISTS = {6: "floats", 7: "ints", 8: "strings", 14: "type_protos"}
TENSOR, GRAPH, TENSORS, GRAPHS, SPARSE_TENSOR = 4, 5, 9, 10, 11

GRADIENT = ("ai.onnx.preview.training", "Gradient")


@dataclass(frozen=True)
class Within:
    """What holds where a node stands: versions of operators, the attributes of the function that it is part
    of, and the names of values that bodies see.
    """

    opsets: Mapping[str, int]
    given: Mapping[str, Any] = field(default_factory=dict)
    names: Collection[str] = ()


class Assembler:
    """Builds a model's graphs. ``unknown`` gathers the nodes that nothing is known about, ``faults`` what is
    wrong with others.

    Raises ModelError for versions that don't exist, and for functions that call themselves.
    """

    def __init__(self, model: Any, files: Files) -> None:
        self._files = files
        self._functions = {(f.domain, f.name, getattr(f, "overload", "")): f for f in model.functions}
        if len(self._functions) < len(model.functions):
            raise ModelError("the model has two functions of the same domain, name and overload")
        self.opsets = _opsets(model.opset_import)
        check_versions(model, self.opsets)
        check_extent(model.graph, self._functions)
        self.unknown: list[str] = []
        self.faults: list[str] = []

    def main(self, proto: Any) -> Graph:
        """The model's graph. Raises ModelError that lists all that is wrong with it."""
        graph = self._graph(proto, Within(self.opsets))
        self.faults += _mistyped_weights(proto)
        self._check()
        return graph

    def _graph(self, proto: Any, within: Within) -> Graph:
        constants = {t.name: self._constant(t) for t in proto.initializer}
        constants |= {s.values.name: self._sparse_constant(s) for s in proto.sparse_initializer}
        inputs = tuple(i.name for i in proto.input)
        outputs = tuple(o.name for o in proto.output)
        names = graph_names(proto, within.names)
        steps = self._steps(proto.node, names, within)
        names.outputs(outputs, proto.node, f"the graph {proto.name!r}")
        self.faults += names.faults
        declared = tuple(map(_declared, proto.output))
        return Graph(inputs, outputs, constants, steps, declared=declared)

    def _steps(self, nodes: Sequence[Any], names: Names, within: Within) -> list[Step]:
        steps: list[Step] = []
        for node in names.ordered(nodes):
            seen = names.visible if any(bodies(node)) else ()
            steps.append(self._step(node, replace(within, names=seen), steps))
            names.given |= set(filter(None, node.output))
        return steps

    def _constant(self, proto: Any) -> Cell:
        try:
            check_tensor(proto, self._files)
        except ModelError as error:
            self.faults.append(str(error))
        return Cell(partial(read_tensor, proto, self._files), True)

    def _sparse_constant(self, proto: Any) -> Cell:
        return Cell(partial(self._dense, proto), True)

    def _dense(self, proto: Any) -> Value:
        numpy_helper, name, shape = package().numpy_helper, proto.values.name, tuple(proto.dims)
        try:
            values, indices = (numpy_helper.to_array(t) for t in (proto.values, proto.indices))
            dense = np.zeros(shape, values.dtype)
            if len(indices) != len(values) or (indices < 0).any():
                raise IndexError("there must be an index for each value, and none may be negative")
            if indices.ndim == 2:
                dense[tuple(indices.T)] = values
            else:
                dense.reshape(-1)[indices] = values
        except (ValueError, TypeError, IndexError, MemoryError) as error:
            raise ModelError(f"the sparse tensor {name!r} of shape {shape} is malformed: {error}") from None
        return from_array(dense)

    def _step(self, proto: Any, within: Within, before: Sequence[Step]) -> Step:
        domain = DOMAINS.get(proto.domain, proto.domain)
        attributes = {
            a.name: value for a in proto.attribute if (value := self._attribute(a, within)) is not None
        }
        if (domain, proto.op_type) == GRADIENT:
            attributes["derivation"] = _derivation(attributes, before)
        opset = within.opsets.get(domain) or self.opsets.get(domain) or NEWEST.get(domain, 1)
        inputs, outputs = tuple(proto.input), tuple(proto.output)
        node = Node(proto.op_type, domain, proto.name, inputs, outputs, attributes, opset)
        bodies = tuple(v for v in attributes.values() if isinstance(v, Graph))
        local = self._functions.get(key_of(proto))
        if local is not None:
            self._check_call(node, local)
            return Step(node, None, self._function(local, attributes), bodies)
        wrong = list(faults(proto, node))
        self.faults += wrong
        rule = find(node.op, domain, opset)
        if rule is not None:
            fitted = node if wrong else rule.fitted(node)
            return Step(fitted, rule, None, bodies, alike(fitted))
        return self._expansion(proto, node, bodies)

    def _check_call(self, node: Node, function: Any) -> None:
        sides = [("inputs", node.inputs, function.input), ("outputs", node.outputs, function.output)]
        for kind, given, own in sides:
            if len(given) > len(own):
                self.faults.append(f"{node} has {len(given)} {kind}, its function has {len(own)}")

    def _attribute(self, proto: Any, within: Within) -> Any:
        """An attribute as a Python value; None for one that a function's caller leaves out."""
        if proto.ref_attr_name:
            return within.given.get(proto.ref_attr_name)
        if proto.type in SCALARS:
            return getattr(proto, SCALARS[proto.type])
        if proto.type in LISTS:
            return list(getattr(proto, LISTS[proto.type]))
        if proto.type == TENSOR:
            return read_tensor(proto.t, self._files)
        if proto.type == TENSORS:
            return [read_tensor(t, self._files) for t in proto.tensors]
        if proto.type == GRAPH:
            return self._graph(proto.g, within)
        if proto.type == GRAPHS:
            return [self._graph(g, within) for g in proto.graphs]
        if proto.type == SPARSE_TENSOR:
            return self._dense(proto.sparse_tensor)
        raise ModelError(f"attribute {proto.name!r} is of the type {proto.type}, which dawdle can't read")

    def _function(self, proto: Any, attributes: Mapping[str, Any], partial: bool = False) -> Graph:
        """A FunctionProto with the attributes of the node that calls it; if ``partial``, some of its outputs
        may be missing.
        """
        within = Within(_opsets(proto.opset_import))
        check_opsets(within.opsets)
        defaults = {a.name: self._attribute(a, within) for a in proto.attribute_proto}
        names = Names(())
        names.inputs(proto.input, "inputs")
        steps = self._steps(proto.node, names, replace(within, given={**defaults, **attributes}))
        if not partial:
            names.outputs(proto.output, proto.node, f"the function {proto.name!r}")
        self.faults += [f"in the function {proto.name!r}: {fault}" for fault in names.faults]
        return Graph(tuple(proto.input), tuple(proto.output), {}, steps, partial=partial)

    def _expansion(self, proto: Any, node: Node, bodies: tuple[Graph, ...]) -> Step:
        """A node without a rule whose operator ONNX itself defines by others."""
        onnx = package()
        schema = find_schema(node)
        if schema is not None and schema.has_function:
            version = _version(schema.function_opset_versions, node.opset)
            body = onnx.FunctionProto.FromString(schema.get_function_with_opset_version(version))
            graph = self._function(body, {**self._defaults(schema), **node.attributes}, partial=True)
            return Step(node, None, graph, bodies)
        if schema is not None and schema.has_context_dependent_function:
            version = _version(schema.context_dependent_function_opset_versions, node.opset)
            build = partial(self._from_types, schema, version, proto.SerializeToString(), node, {})
            return Step(node, None, build, bodies)
        domain = f"{node.domain}." if node.domain else ""
        self.unknown.append(f"{domain}{node.op} (opset {node.opset}) of {node}")
        return Step(node, None, None, bodies)

    def _defaults(self, schema: Any) -> dict[str, Any]:
        """The attributes of an operator that have a value where a node says nothing."""
        given = {name: a.default_value for name, a in schema.attributes.items() if a.default_value.type}
        return {name: self._attribute(value, Within(self.opsets)) for name, value in given.items()}

    def _from_types(
        self,
        schema: Any,
        version: int,
        proto: bytes,
        node: Node,
        known: dict[bytes, Graph],
        values: Sequence[Value],
    ) -> Graph:
        """The body of a function that depends on the types of its inputs; ``known`` are those seen before."""
        types = [_type(v) for v in values]
        key = b"|".join(types)
        if key not in known:
            written = schema.get_context_dependent_function_with_opset_version(version, proto, types)
            body = package().FunctionProto.FromString(written)
            known[key] = self._function(body, {**self._defaults(schema), **node.attributes}, partial=True)
            self._check()
        return known[key]

    def _check(self) -> None:
        """Raise ModelError that lists all nodes of unknown operators, and all that is wrong with others."""
        found = []
        if self.unknown:
            lines = "\n  ".join(self.unknown)
            found.append(
                f"the model has {len(self.unknown)} nodes of operators that dawdle doesn't know:\n  {lines}\n"
                "register a function for each with dawdle.onnx.operator(name, since=..., domain=...)"
            )
        if self.faults:
            found.append("the model isn't valid:\n  " + "\n  ".join(dict.fromkeys(self.faults)))
        if found:
            raise ModelError("\n".join(found))


def _mistyped_weights(graph: Any) -> list[str]:
    """What is said of weights that are declared as inputs of another type."""
    declared = {i.name: i.type.tensor_type.elem_type for i in graph.input}
    return [
        f"the weight {t.name!r} is of the type {ELEMENT_TYPES.get(t.data_type)}, the input of that name of"
        f" {ELEMENT_TYPES.get(declared[t.name])}"
        for t in graph.initializer
        if declared.get(t.name) and declared[t.name] != t.data_type
    ]


def _derivation(attributes: Mapping[str, Any], before: Sequence[Step]) -> Graph:
    """How ``y`` follows from ``xs`` and ``zs``, which a node Gradient names: the steps between them again."""
    inputs = [name.decode() for key in ("xs", "zs") for name in attributes.get(key, ())]
    wanted = attributes["y"].decode()
    needed, steps = {wanted}, []
    for step in reversed(before):
        if needed & set(step.node.outputs) - set(inputs):
            steps.append(replace(step, forgets=(), folded=None))
            needed |= step.uses()
    return Graph(tuple(inputs), (wanted,), {}, steps[::-1])


def _declared(proto: Any) -> tuple[DType, tuple[int, ...]]:
    """The dtype and shape of a ValueInfoProto; float32 and 0 where it doesn't say."""
    tensor = proto.type.tensor_type
    kind = tensor_dtype(tensor.elem_type) if tensor.elem_type else None
    return kind or float32, tuple(max(d.dim_value, 0) for d in tensor.shape.dim)


def _opsets(imports: Any) -> dict[str, int]:
    return {DOMAINS.get(o.domain, o.domain): o.version for o in imports}


def _version(versions: Sequence[int], opset: int) -> int:
    """Of the versions of a function's body the newest that the model's opset has, else the oldest: each
    body says itself which opset it is written in.
    """
    return max((v for v in versions if v <= opset), default=min(versions))


def _type(value: Value) -> bytes:
    """The TypeProto of a value; empty for one that is absent."""
    onnx = package()
    if value is None:
        return b""
    if isinstance(value, list):
        inner = onnx.TypeProto.FromString(_type(value[0])) if value else onnx.TypeProto()
        made = onnx.helper.make_sequence_type_proto(inner)
    else:
        made = onnx.helper.make_tensor_type_proto(_code(value), value.shape)
    return bytes(made.SerializeToString())


def _code(value: Tensor | HostArray) -> int:
    name = value.dtype.name
    return CODES["string" if name == "object" else name]
