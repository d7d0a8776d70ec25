"""GGUF files (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), in which llama.cpp keeps models.

The header is read here, because a damaged length makes the reader of the ``gguf`` package loop for ever.
That package knows the quantised types: their blocks' sizes, and their values.
"""

from __future__ import annotations

import importlib
import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from dawdle import dtype as dt
from dawdle.dtype import Array, DType, float32
from dawdle.errors import StateError
from dawdle.formats.files import File, tensor_on
from dawdle.lazy import build
from dawdle.tensor import Tensor

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT = 32  # unless the metadata says otherwise

# GGUFValueType: the struct format of each scalar, and what isn't a scalar
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9

# GGMLQuantizationType: those that are dtypes
PLAIN: dict[int, DType] = {
    0: dt.float32, 1: dt.float16, 24: dt.int8, 25: dt.int16, 26: dt.int32, 27: dt.int64, 28: dt.float64,
    30: dt.bfloat16,
}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """What the header says of one tensor; ``offset`` counts from the start of the tensors."""

    kind: int
    shape: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class Contents:
    """A file whose header was read."""

    file: File
    entries: dict[str, Entry]
    metadata: dict[str, Any]
    start: int  # of the tensors

    def tensor(self, name: str, device: str | None) -> Tensor:
        """One of the tensors, whose bytes are read when it is used; a quantised one in float32."""
        entry = self.entries[name]
        kind = PLAIN.get(entry.kind)
        if kind is None:
            return self._quantised(name, entry, device)
        size = math.prod(entry.shape) * kind.itemsize
        data = self.file.part(self.start + entry.offset, size, name)
        return tensor_on(self.file.array(data, entry.shape, kind.storage, name), kind, device)

    def _quantised(self, name: str, entry: Entry, device: str | None) -> Tensor:
        block, nbytes = _block(entry.kind, f"{self.file.path}: {name!r}")
        *rows, width = entry.shape or (1,)
        if width % block:
            raise self.file.damaged(f"rows of {name!r} have {width} elements, not a multiple of {block}")
        packed = (*rows, width // block * nbytes)
        data = self.file.part(self.start + entry.offset, math.prod(packed), name)
        raw = tensor_on(self.file.array(data, packed, dt.uint8.storage, name), dt.uint8, device)
        return Tensor._wrap(build.custom(Dequantise(entry.kind), raw.lazy, shape=entry.shape, dtype=float32))


def package() -> Any:
    """The ``gguf`` package. Raises StateError, with the fix, where it isn't installed."""
    try:
        return importlib.import_module("gguf")
    except ImportError:
        raise StateError(
            "quantised GGUF tensors need the package gguf: pip install 'dawdle[gguf]', or pip install gguf"
        ) from None


def _block(kind: int, what: str) -> tuple[int, int]:
    """(elements, bytes) of a block of a quantised type. Raises StateError for an unknown one."""
    gguf = package()
    try:
        quantisation = gguf.GGMLQuantizationType(kind)
        block, nbytes = gguf.GGML_QUANT_SIZES[quantisation]
        Dequantise(kind)(np.zeros((1, nbytes), np.uint8))
    except (ValueError, KeyError, NotImplementedError):
        raise StateError(f"{what} is of GGML's type {kind}, which the package gguf doesn't know") from None
    return block, nbytes


@dataclass(frozen=True)
class Dequantise:
    """What a CUSTOM node runs: blocks of a quantised type as float32. Equal graphs hold equal ones."""

    kind: int

    def __call__(self, raw: Array) -> Array:
        quants = importlib.import_module("gguf.quants")
        quantisation = package().GGMLQuantizationType(self.kind)
        with np.errstate(all="ignore"):  # damaged scales may be infinite
            return np.ascontiguousarray(quants.dequantize(raw, quantisation), np.float32)


class _Header:
    """Reads the header from front to back, nothing behind the file's end."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.at = len(MAGIC)

    def take(self, size: int, what: str) -> memoryview:
        out = self.file.part(self.at, size, what)
        self.at += size
        return out

    def number(self, form: str, what: str) -> Any:
        form = "<" + form
        return struct.unpack(form, self.take(struct.calcsize(form), what))[0]

    def count(self, least: int, what: str) -> int:
        """A number of things that take at least so many bytes each."""
        n: int = self.number("Q", what)
        if n * least > len(self.file.data) - self.at:
            raise self.file.damaged(f"{what} is {n}, for which the file is too small")
        return n

    def text(self, what: str) -> str:
        raw = bytes(self.take(self.count(1, f"the length of {what}"), what))
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self.file.damaged(f"{what} isn't UTF-8") from None

    def value(self, kind: int, what: str) -> Any:
        if kind in SCALARS:
            return self.number(SCALARS[kind], what)
        if kind == _STRING:
            return self.text(what)
        if kind != _ARRAY:
            raise self.file.damaged(f"{what} is of the unknown type {kind}")
        inner: int = self.number("I", what)
        if inner == _ARRAY:
            raise self.file.damaged(f"{what} is an array of arrays")
        if inner not in SCALARS:
            return [self.value(inner, what) for _ in range(self.count(8, f"the length of {what}"))]
        form = np.dtype(SCALARS[inner]).newbyteorder("<")
        n = self.count(form.itemsize, f"the length of {what}")
        return np.frombuffer(self.take(n * form.itemsize, what), form).tolist()


def parse(file: File) -> Contents:
    """The header of a file. Raises StateError for one that is damaged or of an unknown version."""
    header = _Header(file)
    version = header.number("I", "the version")
    if version not in VERSIONS:
        big = version in [int.from_bytes(v.to_bytes(4, "little"), "big") for v in VERSIONS]
        why = "it was written for big-endian machines" if big else f"version {version}, not among {VERSIONS}"
        raise StateError(f"{file.path} is a GGUF file that can't be read: {why}")
    tensors = header.count(24, "the number of tensors")
    pairs = header.count(13, "the number of metadata")
    metadata: dict[str, Any] = {}
    for _ in range(pairs):
        key = header.text("a key")
        metadata[key] = header.value(header.number("I", key), key)
    entries = dict(_tensor_info(header) for _ in range(tensors))
    alignment = metadata.get("general.alignment", ALIGNMENT)
    if type(alignment) is not int or alignment <= 0:
        raise file.damaged(f"its alignment is {alignment!r}")
    return Contents(file, entries, metadata, -(-header.at // alignment) * alignment)


def _tensor_info(header: _Header) -> tuple[str, Entry]:
    name = header.text("a tensor's name")
    dims = header.number("I", name)
    if dims > 8:
        raise header.file.damaged(f"{name!r} has {dims} dimensions")
    shape = [header.number("Q", name) for _ in range(dims)]
    kind = header.number("I", name)
    return name, Entry(kind, tuple(shape[::-1]), header.number("Q", name))
