"""safetensors files (https://huggingface.co/docs/safetensors).

Eight bytes, the header's length as a little-endian integer; the header, JSON that maps each name to a dtype,
a shape and the range of its bytes; then the bytes. Tensors are written in the order of falling element size,
so that each is aligned.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dawdle import dtype as dt
from dawdle.dtype import DType
from dawdle.errors import StateError
from dawdle.formats.files import File, tensor_on
from dawdle.tensor import Tensor
from dawdle.tensor.interop import view

NAMES: dict[DType, str] = {
    dt.bool_: "BOOL",
    **{d: f"I{d.bits}" for d in (dt.int8, dt.int16, dt.int32, dt.int64)},
    **{d: f"U{d.bits}" for d in (dt.uint8, dt.uint16, dt.uint32, dt.uint64)},
    **{d: f"F{d.bits}" for d in (dt.float16, dt.float32, dt.float64)},
    dt.bfloat16: "BF16",
}
BY_NAME = {name: dtype for dtype, name in NAMES.items()}
MAX_HEADER = 100_000_000  # bytes; the reference implementation's limit
CHECKSUM = "dawdle.crc32"  # a key of the metadata that we write


@dataclass(frozen=True)
class Entry:
    """What the header says of one tensor; ``start`` and ``end`` count from the end of the header."""

    dtype: DType
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True)
class Contents:
    """A file whose header was read and found right."""

    file: File
    entries: dict[str, Entry]
    metadata: dict[str, str]
    data: memoryview

    def verify(self) -> None:
        """Raise StateError if the file has a checksum of ours and the bytes aren't those it was made of."""
        expected = self.metadata.get(CHECKSUM)
        if expected is not None and expected != _checksum([self.data]):
            raise self.file.damaged("its checksum differs")

    def tensor(self, name: str, device: str | None) -> Tensor:
        """One of the tensors, whose bytes are read when it is used."""
        entry = self.entries[name]
        data = self.data[entry.start : entry.end]
        array = self.file.array(data, entry.shape, entry.dtype.storage, name)
        return tensor_on(array, entry.dtype, device)


def encode(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Iterator[bytes | memoryview]:
    """The parts of a file, in order. Raises StateError for metadata that aren't strings."""
    if bad := [k for k, v in metadata.items() if not isinstance(k, str) or not isinstance(v, str)]:
        raise StateError(f"metadata must map strings to strings; fix {bad}")
    header: dict[str, Any] = {}
    parts, offset = [], 0
    for name, tensor in sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])):
        stored = view(tensor)
        array = stored.astype(stored.dtype.newbyteorder("<"), copy=False)
        end = offset + array.nbytes
        header[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, end],
        }
        parts.append(array.reshape(-1).view(np.uint8).data)
        offset = end
    header = {"__metadata__": {**metadata, CHECKSUM: _checksum(parts)}, **header}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little")
    yield text
    yield from parts


def _checksum(parts: Sequence[bytes | memoryview]) -> str:
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, crc)
    return f"{crc:08x}"


def parse(file: File) -> Contents:
    """The header of a file. Raises StateError for one that is damaged, or whose tensors overlap."""
    path, memory = file.path, file.data
    size = len(memory)
    if size < 8:
        raise StateError(f"{path} is truncated: {size} bytes can't be a safetensors file")
    length = int.from_bytes(memory[:8], "little")
    if length > MAX_HEADER:
        raise StateError(
            f"{path} is not a safetensors file: it announces a header of {length} bytes; nor is it a file of"
            " PyTorch or a GGUF file"
        )
    if 8 + length > size:
        raise StateError(
            f"{path} is truncated: its header should have {length} bytes, but only {size - 8} follow"
        )
    header = json_object(file, bytes(memory[8 : 8 + length]), "header")
    data = memory[8 + length :]
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise file.damaged("its metadata is not a map of strings")
    entries = {name: _parse_entry(file, name, entry) for name, entry in header.items()}
    _check_ranges(file, entries, len(data))
    return Contents(file, entries, metadata, data)


def json_object(file: File, text: bytes | str, what: str) -> dict[str, Any]:
    """JSON that must be an object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise file.damaged(f"its {what} is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise file.damaged(f"its {what} is not a JSON object")
    return value


def _parse_entry(file: File, name: str, entry: Any) -> Entry:
    try:
        dtype_name, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        whole = all(type(n) is int and n >= 0 for n in (*shape, start, end))
    except (TypeError, KeyError, ValueError) as error:
        raise file.damaged(f"the entry of {name!r} lacks dtype, shape or data_offsets") from error
    if not whole:
        raise file.damaged(f"the shape or offsets of {name!r} are not natural numbers")
    if not isinstance(dtype_name, str) or dtype_name not in BY_NAME:
        known = ", ".join(BY_NAME)
        raise StateError(f"{file.path}: {name!r} has dtype {dtype_name}, which is not among {known}")
    dtype = BY_NAME[dtype_name]
    if end - start != math.prod(shape) * dtype.itemsize:
        raise file.damaged(f"{name!r} takes {end - start} bytes, not those of {dtype_name}{list(shape)}")
    return Entry(dtype, shape, start, end)


def _check_ranges(file: File, entries: Mapping[str, Entry], size: int) -> None:
    """The byte ranges must cover the data without a gap or an overlap."""
    offset, before = 0, ""
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].end)):
        if entry.start < offset:
            raise file.damaged(
                f"{name!r} starts at byte {entry.start}, within {before!r}, which ends at {offset}; tensors"
                " must not overlap"
            )
        if entry.start != offset:
            raise file.damaged(f"{name!r} starts at byte {entry.start}, expected {offset}")
        offset, before = entry.end, name
    if offset > size:
        raise StateError(f"{file.path} is truncated: {offset} bytes of tensors expected, {size} found")
    if offset < size:
        raise file.damaged(f"{size - offset} bytes follow the last tensor")
