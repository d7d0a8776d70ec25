"""From protobuf messages to a :class:`Graph`: operators looked up, functions taken apart, unknowns listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dawdle.dtype import DType, float32
from dawdle.errors import ModelError
from dawdle.onnx.graph import Cell, Graph, Step
from dawdle.onnx.registry import DOMAINS, Node, find
from dawdle.onnx.values import ELEMENT_TYPES, HostArray, Value, tensor_dtype
from dawdle.onnx.weights import Files, from_array, package, read_tensor
from dawdle.tensor import Tensor

CODES = {name: code for code, name in ELEMENT_TYPES.items()}

# AttributeProto.AttributeType: the field that holds the value
SCALARS = {1: "f", 2: "i", 3: "s", 13: "tp"}
LISTS = {6: "floats", 7: "ints", 8: "strings", 14: "type_protos"}
TENSOR, GRAPH, TENSORS, GRAPHS, SPARSE_TENSOR = 4, 5, 9, 10, 11

GRADIENT = ("ai.onnx.preview.training", "Gradient")


class Assembler:
    """Builds a model's graphs. ``unknown`` gathers the nodes that nothing is known about."""

    def __init__(self, model: Any, files: Files) -> None:
        self._files = files
        self._functions = {(f.domain, f.name, getattr(f, "overload", "")): f for f in model.functions}
        self.opsets = _opsets(model.opset_import)
        self.unknown: list[str] = []
        # functions that are being taken apart: they must not call themselves
        self._within: list[tuple[str, str, str]] = []

    def graph(self, proto: Any, opsets: Mapping[str, int], given: Mapping[str, Any] | None = None) -> Graph:
        """A GraphProto. ``given`` are the attributes of the function that it stands in."""
        constants = {t.name: self._constant(t) for t in proto.initializer}
        constants |= {s.values.name: self._sparse_constant(s) for s in proto.sparse_initializer}
        inputs = tuple(i.name for i in proto.input)
        outputs = tuple(o.name for o in proto.output)
        steps: list[Step] = []
        for node in proto.node:
            steps.append(self._step(node, opsets, given or {}, steps))
        declared = tuple(map(_declared, proto.output))
        return Graph(inputs, outputs, constants, steps, declared=declared)

    def _constant(self, proto: Any) -> Cell:
        return Cell(partial(read_tensor, proto, self._files), True)

    def _sparse_constant(self, proto: Any) -> Cell:
        return Cell(partial(self._dense, proto), True)

    def _dense(self, proto: Any) -> Value:
        numpy_helper = package().numpy_helper
        values, indices = (numpy_helper.to_array(t) for t in (proto.values, proto.indices))
        dense = np.zeros(tuple(proto.dims), values.dtype)
        if indices.ndim == 2:
            dense[tuple(indices.T)] = values
        else:
            dense.reshape(-1)[indices] = values
        return from_array(dense)

    def _step(
        self, proto: Any, opsets: Mapping[str, int], given: Mapping[str, Any], before: Sequence[Step] = ()
    ) -> Step:
        domain = DOMAINS.get(proto.domain, proto.domain)
        attributes = {
            a.name: value for a in proto.attribute if (value := self._attribute(a, opsets, given)) is not None
        }
        if (domain, proto.op_type) == GRADIENT:
            attributes["derivation"] = _derivation(attributes, before)
        opset = opsets.get(domain, self.opsets.get(domain, 1))
        inputs, outputs = tuple(proto.input), tuple(proto.output)
        node = Node(proto.op_type, domain, proto.name, inputs, outputs, attributes, opset)
        bodies = tuple(v for v in attributes.values() if isinstance(v, Graph))
        local = self._functions.get((proto.domain, proto.op_type, getattr(proto, "overload", "")))
        if local is not None:
            return Step(node, None, self._function(local, attributes), bodies)
        rule = find(node.op, domain, opset)
        if rule is not None:
            return Step(rule.fitted(node), rule, None, bodies)
        return self._expansion(proto, node, bodies)

    def _attribute(self, proto: Any, opsets: Mapping[str, int], given: Mapping[str, Any]) -> Any:
        """An attribute as a Python value; None for one that a function's caller leaves out."""
        if proto.ref_attr_name:
            return given.get(proto.ref_attr_name)
        if proto.type in SCALARS:
            return getattr(proto, SCALARS[proto.type])
        if proto.type in LISTS:
            return list(getattr(proto, LISTS[proto.type]))
        if proto.type == TENSOR:
            return read_tensor(proto.t, self._files)
        if proto.type == TENSORS:
            return [read_tensor(t, self._files) for t in proto.tensors]
        if proto.type == GRAPH:
            return self.graph(proto.g, opsets, given)
        if proto.type == GRAPHS:
            return [self.graph(g, opsets, given) for g in proto.graphs]
        if proto.type == SPARSE_TENSOR:
            return self._dense(proto.sparse_tensor)
        raise ModelError(f"attribute {proto.name!r} is of the type {proto.type}, which dawdle can't read")

    def _function(self, proto: Any, attributes: Mapping[str, Any]) -> Graph:
        """A FunctionProto with the attributes of the node that calls it."""
        key = (proto.domain, proto.name, getattr(proto, "overload", ""))
        if key in self._within:
            raise ModelError(f"the model's function {proto.name!r} calls itself, which ONNX doesn't allow")
        self._within.append(key)
        opsets = _opsets(proto.opset_import)
        defaults = {a.name: self._attribute(a, opsets, {}) for a in proto.attribute_proto}
        given = {**defaults, **attributes}
        steps = [self._step(n, opsets, given) for n in proto.node]
        self._within.pop()
        return Graph(tuple(proto.input), tuple(proto.output), {}, steps, partial=True)

    def _expansion(self, proto: Any, node: Node, bodies: tuple[Graph, ...]) -> Step:
        """A node without a rule whose operator ONNX itself defines by others."""
        onnx = package()
        try:
            schema = onnx.defs.get_schema(node.op, node.opset, node.domain)
        except (onnx.defs.SchemaError, TypeError):  # TypeError: numbers that no opset has
            schema = None
        if schema is not None and schema.has_function:
            version = _version(schema.function_opset_versions, node.opset)
            body = onnx.FunctionProto.FromString(schema.get_function_with_opset_version(version))
            graph = self._function(body, {**self._defaults(schema), **node.attributes})
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
        return {name: self._attribute(value, self.opsets, {}) for name, value in given.items()}

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
            known[key] = self._function(body, {**self._defaults(schema), **node.attributes})
            self.check()
        return known[key]

    def check(self) -> None:
        """Raise ModelError that lists all nodes whose operators are unknown."""
        if self.unknown:
            lines = "\n  ".join(self.unknown)
            raise ModelError(
                f"the model has {len(self.unknown)} nodes of operators that dawdle doesn't know:\n  {lines}\n"
                "register a function for each with dawdle.onnx.operator(name, since=..., domain=...)"
            )


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
