"""A model's protobuf bytes without its weights: raw data becomes a note of where it lies in the file.

Only the wire format of protobuf is read here (https://protobuf.dev/programming-guides/encoding), and of the
ONNX schema only the way to tensors; the onnx package parses what is left, which is small.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dawdle.errors import ModelError

KEPT = 1024  # raw data of fewer bytes stays where it is

# for each message the fields that lead to tensors, and what they hold
MODEL, GRAPH, NODE, ATTRIBUTE, TENSOR, FUNCTION = "model", "graph", "node", "attribute", "tensor", "function"
INSIDE = {
    MODEL: {7: GRAPH, 25: FUNCTION},
    GRAPH: {1: NODE, 5: TENSOR},
    FUNCTION: {7: NODE},
    NODE: {5: ATTRIBUTE},
    ATTRIBUTE: {5: TENSOR, 6: GRAPH, 10: TENSOR, 11: GRAPH},
    TENSOR: {},
}
RAW_DATA, EXTERNAL_DATA, DATA_LOCATION = 9, 13, 14  # fields of a TensorProto
EXTERNAL = 1  # the DataLocation that says: not here
SELF = ""  # the location of what lies in the model's own file
DEEPEST = 100  # messages within each other: protobuf reads no more

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types
WIDTHS = {FIXED64: 8, FIXED32: 4}


@dataclass(frozen=True)
class Field:
    """A field of a message: its number, and where it, and what it holds, lie."""

    number: int
    kind: int
    start: int
    value: int
    end: int


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        if at >= len(data) or shift > 63:
            raise ModelError("the model's file is damaged: it ends within a number, or isn't an ONNX model")
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at


def _fields(data: memoryview, start: int, end: int) -> Iterator[Field]:
    at = start
    while at < end:
        tag, value = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            _, stop = _varint(data, value)
        elif kind == BYTES:
            length, value = _varint(data, value)
            stop = value + length
        elif kind in WIDTHS:
            stop = value + WIDTHS[kind]
        else:
            raise ModelError(f"the model's file is damaged at byte {at}, or isn't an ONNX model")
        if stop > end:
            raise ModelError(
                f"the model's file is cut off or damaged: a field at byte {at} goes beyond its end"
            )
        yield Field(number, kind, at, value, stop)
        at = stop


def without_weights(data: memoryview) -> bytes:
    """A serialised ModelProto in which large raw data is external data at offsets of ``data`` itself.

    Raises ModelError for bytes that are no message.
    """
    return b"".join(_message(data, 0, len(data), MODEL))


def _message(data: memoryview, start: int, end: int, kind: str, depth: int = 0) -> list[bytes | memoryview]:
    if depth > DEEPEST:
        raise ModelError(f"the model's graphs stand more than {DEEPEST} messages deep within each other")
    parts: list[bytes | memoryview] = []
    kept = start  # where what is copied as it is begins
    for field in _fields(data, start, end):
        changed = _changed(data, field, kind, depth)
        if changed is not None:
            parts += [data[kept : field.start], *changed]
            kept = field.end
    return [*parts, data[kept:end]]


def _changed(data: memoryview, field: Field, kind: str, depth: int) -> list[bytes | memoryview] | None:
    """What replaces a field; None where it stays."""
    if field.kind != BYTES or field.end - field.value < KEPT:
        return None
    if kind == TENSOR:
        return _note(field) if field.number == RAW_DATA else None
    inner = INSIDE[kind].get(field.number)
    if inner is None:
        return None
    body = _message(data, field.value, field.end, inner, depth + 1)
    return [_header(field.number, sum(len(part) for part in body)), *body]


def _note(raw: Field) -> list[bytes | memoryview]:
    """The external data of a tensor that lies in the model's own file."""
    entries = {"location": SELF, "offset": str(raw.value), "length": str(raw.end - raw.value)}
    parts = [_text(1, key) + _text(2, value) for key, value in entries.items()]
    notes: list[bytes | memoryview] = [_header(EXTERNAL_DATA, len(p)) + p for p in parts]
    return [*notes, _encoded(DATA_LOCATION << 3 | VARINT) + _encoded(EXTERNAL)]


def _text(number: int, text: str) -> bytes:
    return _header(number, len(text)) + text.encode("ascii")


def _header(number: int, length: int) -> bytes:
    return _encoded(number << 3 | BYTES) + _encoded(length)


def _encoded(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
