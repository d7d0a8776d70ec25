"""What ONNX's own schemas say about a model: which versions there are, and what is wrong with a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dawdle.errors import ModelError
from dawdle.onnx.registry import Node
from dawdle.onnx.weights import package

# the newest versions that dawdle's operators follow; what later ones change isn't known
NEWEST = {"": 28, "ai.onnx.ml": 5, "ai.onnx.preview": 1, "ai.onnx.preview.training": 1}
NEWEST_IR = 14
OPSETS_SINCE_IR = 3  # earlier models name no opsets: they use the first
UNBOUNDED = 2**31 - 1  # how schemas say "any number"


def check_versions(model: Any, opsets: Mapping[str, int]) -> None:
    """Raise ModelError for versions of the file format or of operators that aren't known or don't exist."""
    if model.ir_version > NEWEST_IR:
        raise ModelError(
            f"the model is of IR version {model.ir_version}; the newest that dawdle knows is {NEWEST_IR}"
        )
    if not opsets and model.ir_version >= OPSETS_SINCE_IR:
        raise ModelError("the model doesn't say which opset its operators are of (opset_import is empty)")
    check_opsets(opsets)


def check_opsets(opsets: Mapping[str, int]) -> None:
    """Raise ModelError for versions of operators that aren't known or don't exist."""
    for domain, version in opsets.items():
        newest = NEWEST.get(domain, version)
        if not 1 <= version <= newest:
            known = f"dawdle knows those from 1 to {newest}" if domain in NEWEST else "they start at 1"
            raise ModelError(f"the model uses opset {version} of the domain {domain or 'ai.onnx'!r}; {known}")


def find_schema(node: Node) -> Any:
    """The schema of a node's operator; None where ONNX, or the onnx package that is installed, has none."""
    defs = package().defs
    try:
        return defs.get_schema(node.op, node.opset, node.domain)
    except (defs.SchemaError, TypeError):  # TypeError: numbers that no opset has
        return None


def faults(proto: Any, node: Node) -> Iterator[str]:
    """What is wrong with a node's attributes and with the numbers of its inputs and outputs."""
    schema = find_schema(node)
    if schema is None or schema.deprecated or _newer_than_the_package(node):
        return
    yield from _attribute_faults(proto, node, schema.attributes)
    yield from _input_faults(node, schema)
    if not schema.min_output <= len(node.outputs) <= schema.max_output:
        takes = _numbers(schema.min_output, schema.max_output)
        yield f"{node} has {len(node.outputs)} outputs, its operator gives {takes}"


def alike(node: Node) -> tuple[tuple[int, ...], ...]:
    """The positions of inputs that must be of one dtype."""
    schema = find_schema(node)
    if schema is None or _newer_than_the_package(node):
        return ()
    variables = {constraint.type_param_str for constraint in schema.type_constraints}
    groups: dict[str, list[int]] = {}
    for i in range(len(node.inputs) if schema.inputs else 0):
        parameter = schema.inputs[min(i, len(schema.inputs) - 1)]
        if parameter.type_str in variables and parameter.is_homogeneous:
            groups.setdefault(parameter.type_str, []).append(i)
    return tuple(tuple(places) for places in groups.values() if len(places) > 1)


def _newer_than_the_package(node: Node) -> bool:
    defs = package().defs
    newest = {"": defs.onnx_opset_version, "ai.onnx.ml": defs.onnx_ml_opset_version}.get(node.domain)
    return newest is not None and node.opset > newest()


def _attribute_faults(proto: Any, node: Node, known: Mapping[str, Any]) -> Iterator[str]:
    seen: set[str] = set()
    for given in proto.attribute:
        if given.name in seen:
            yield f"{node} has the attribute {given.name!r} twice"
        elif given.name not in known:
            options = f"it knows {', '.join(sorted(known))}" if known else "its operator has none"
            yield f"{node} has an attribute {given.name!r}, which opset {node.opset} doesn't know; {options}"
        elif given.type != _code(known[given.name]):
            wanted = known[given.name].type.name
            yield (
                f"the attribute {given.name!r} of {node} is of the wrong type:"
                f" {_type_name(given)} instead of {wanted}"
            )
        seen.add(given.name)
    for name, attribute in known.items():
        if attribute.required and not node.has(name):
            yield f"{node} has no attribute {name!r}, which its operator requires"


def _input_faults(node: Node, schema: Any) -> Iterator[str]:
    given = len(node.inputs)
    while given > schema.max_input and not node.inputs[given - 1]:  # left out: as if they weren't there
        given -= 1
    if not schema.min_input <= given <= schema.max_input:
        takes = _numbers(schema.min_input, schema.max_input)
        yield f"{node} has {given} inputs, its operator takes {takes}"
    for name, parameter in zip(node.inputs, schema.inputs, strict=False):
        if not name and parameter.option.name == "Single":
            yield f"{node} leaves out the input {parameter.name!r}, which its operator requires"


def _code(attribute: Any) -> int:
    return int(getattr(attribute.type, "value", attribute.type))


def _type_name(proto: Any) -> str:
    return str(package().AttributeProto.AttributeType.Name(proto.type))


def _numbers(least: int, most: int) -> str:
    if most >= UNBOUNDED:
        return f"{least} or more"
    return f"{least}" if least == most else f"{least} to {most}"
