"""Saving and loading tensors as safetensors files (https://huggingface.co/docs/safetensors), nested
structures included.

The format: eight bytes, the header's length as a little-endian integer; the header, JSON that maps each name
to a dtype, a shape and the range of its bytes; then the bytes. Tensors stand in the order of falling element
size, so that each is aligned.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dawdle import dtype as dt
from dawdle.dtype import DType
from dawdle.errors import StateError
from dawdle.nn.module import Module
from dawdle.tensor import Tensor

NAMES: dict[DType, str] = {
    dt.bool_: "BOOL",
    **{d: f"I{d.bits}" for d in (dt.int8, dt.int16, dt.int32, dt.int64)},
    **{d: f"U{d.bits}" for d in (dt.uint8, dt.uint16, dt.uint32, dt.uint64)},
    **{d: f"F{d.bits}" for d in (dt.float16, dt.float32, dt.float64)},
    dt.bfloat16: "BF16",
}
BY_NAME = {name: dtype for dtype, name in NAMES.items()}
MAX_HEADER = 100_000_000  # bytes; the reference implementation's limit
TREE, CHECKSUM = "dawdle.tree", "dawdle.crc32"  # keys of our metadata
_LEAF = "$tensor"

PathLike = str | os.PathLike[str]


def save(
    state: Module | Mapping[str, Any] | Sequence[Any],
    path: PathLike,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors to ``path`` as safetensors.

    ``state`` is a dict of tensors, a module (its state dict), or nested dicts and lists that also hold
    numbers, strings, bools and None, such as ``{"model": model.state_dict(), "optimizer":
    optimizer.state_dict(), "epoch": 3}``. The file appears complete or not at all. Raises StateError for
    anything that can't be stored.
    """
    tensors: dict[str, Tensor] = {}
    tree = _flatten(state.state_dict() if isinstance(state, Module) else state, (), tensors)
    if isinstance(tree, dict) and all(value == {_LEAF: name} for name, value in tree.items()):
        tree = None  # a flat dict of tensors needs no description
    if tensors:
        Tensor.realize(*tensors.values())
    arrays = {name: (t.dtype, t.shape, _to_bytes(t)) for name, t in tensors.items()}
    extra = {**(metadata or {}), **({TREE: json.dumps(tree)} if tree is not None else {})}
    _write_atomically(Path(path), _encode(arrays, extra))


def load(path: PathLike, device: str | None = None, verify: bool = True, mmap: bool = True) -> Any:
    """What was given to :func:`save` as ``state``, or a flat dict of tensors for files written elsewhere.

    The file is mapped into memory, and tensors on the CPU stay views of it: as long as they live it must not
    be changed in place or truncated (:func:`save` replaces a file as a whole, which does them no harm).
    ``mmap=False`` reads it instead. ``verify`` checks the checksum that :func:`save` has stored.
    Raises StateError, with the reason, for a file that is missing, truncated or damaged, or whose tensors
    overlap.
    """
    file = _open(Path(path), mmap)
    if verify and CHECKSUM in file.metadata and file.metadata[CHECKSUM] != _checksum([file.data]):
        raise StateError(f"{path} is damaged: its checksum differs")
    tensors = {name: _from_bytes(entry, file.data, device) for name, entry in file.entries.items()}
    return _unflatten(json.loads(file.metadata[TREE]), tensors) if TREE in file.metadata else tensors


def load_metadata(path: PathLike) -> dict[str, str]:
    """The ``metadata`` that was given to :func:`save`; reads only the header.

    Raises StateError as :func:`load` does.
    """
    return {k: v for k, v in _open(Path(path)).metadata.items() if k not in (TREE, CHECKSUM)}


@dataclass(frozen=True)
class _Entry:
    dtype: DType
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True)
class _File:
    entries: dict[str, _Entry]
    metadata: dict[str, str]
    data: memoryview


def _to_bytes(tensor: Tensor) -> NDArray[Any]:
    """The elements as stored: bfloat16 values are exact in float32, of which they are the upper half."""
    array = np.ascontiguousarray(tensor.detach().numpy())
    if tensor.dtype is dt.bfloat16:
        array = (array.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _from_bytes(entry: _Entry, data: memoryview, device: str | None) -> Tensor:
    little = entry.dtype.storage.newbyteorder("<")
    mapped: NDArray[Any] = np.ndarray(entry.shape, little, buffer=data[entry.start : entry.end])
    array = mapped.astype(entry.dtype.storage, copy=not mapped.flags.aligned)
    if entry.dtype is dt.bfloat16:
        return Tensor((array.astype(np.uint32) << np.uint32(16)).view(np.float32), entry.dtype, device)
    return Tensor.from_numpy(array, device)


def _encode(
    arrays: Mapping[str, tuple[DType, tuple[int, ...], NDArray[Any]]], metadata: dict[str, str]
) -> Iterator[bytes | memoryview]:
    """The parts of the file, in order."""
    if bad := [k for k, v in metadata.items() if not isinstance(k, str) or not isinstance(v, str)]:
        raise StateError(f"metadata must map strings to strings; fix {bad}")
    header: dict[str, Any] = {}
    parts, offset = [], 0
    for name, (dtype, shape, array) in sorted(
        arrays.items(), key=lambda item: (-item[1][0].itemsize, item[0])
    ):
        end = offset + array.nbytes
        header[name] = {"dtype": NAMES[dtype], "shape": list(shape), "data_offsets": [offset, end]}
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


def _write_atomically(path: Path, parts: Iterator[bytes | memoryview]) -> None:
    handle, temporary = -1, ""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp made it private
        os.replace(temporary, path)
    except OSError as error:
        raise StateError(f"can't write {path}: {error.strerror or error}") from error
    finally:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _open(path: Path, mapped: bool = True) -> _File:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < 8:
                raise StateError(f"{path} is truncated: {size} bytes can't be a safetensors file")
            view = memoryview(mmap(file.fileno(), 0, access=ACCESS_READ) if mapped else file.read())
            size = len(view)
    except OSError as error:
        raise StateError(f"can't read {path}: {error.strerror or error}") from error
    length = int.from_bytes(view[:8], "little")
    if length > MAX_HEADER:
        raise StateError(f"{path} is not a safetensors file: it announces a header of {length} bytes")
    if 8 + length > size:
        raise StateError(
            f"{path} is truncated: its header should have {length} bytes, but only {size - 8} follow"
        )
    try:
        header = json.loads(bytes(view[8 : 8 + length]).decode())
    except ValueError as error:
        raise StateError(f"{path} is damaged: its header is not JSON ({error})") from error
    data = view[8 + length :]
    if not isinstance(header, dict):
        raise StateError(f"{path} is damaged: its header is not a JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise StateError(f"{path} is damaged: its metadata is not a map of strings")
    entries = {name: _parse_entry(path, name, entry) for name, entry in header.items()}
    _check_ranges(path, entries, len(data))
    return _File(entries, metadata, data)


def _parse_entry(path: Path, name: str, entry: Any) -> _Entry:
    try:
        dtype_name, shape, (start, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        whole = all(type(n) is int and n >= 0 for n in (*shape, start, end))
    except (TypeError, KeyError, ValueError) as error:
        raise StateError(
            f"{path} is damaged: the entry of {name!r} lacks dtype, shape or data_offsets"
        ) from error
    if not whole:
        raise StateError(f"{path} is damaged: the shape or offsets of {name!r} are not natural numbers")
    if not isinstance(dtype_name, str) or dtype_name not in BY_NAME:
        raise StateError(f"{path}: {name!r} has dtype {dtype_name}, which is not among {', '.join(BY_NAME)}")
    dtype = BY_NAME[dtype_name]
    if end - start != math.prod(shape) * dtype.itemsize:
        raise StateError(
            f"{path} is damaged: {name!r} takes {end - start} bytes, not those of {dtype_name}{list(shape)}"
        )
    return _Entry(dtype, shape, start, end)


def _check_ranges(path: Path, entries: Mapping[str, _Entry], size: int) -> None:
    """The byte ranges must cover the data without a gap or an overlap."""
    offset, before = 0, ""
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].end)):
        if entry.start < offset:
            raise StateError(
                f"{path} is damaged: {name!r} starts at byte {entry.start}, within {before!r}, which ends at"
                f" {offset}; tensors must not overlap"
            )
        if entry.start != offset:
            raise StateError(f"{path} is damaged: {name!r} starts at byte {entry.start}, expected {offset}")
        offset, before = entry.end, name
    if offset > size:
        raise StateError(f"{path} is truncated: {offset} bytes of tensors expected, {size} found")
    if offset < size:
        raise StateError(f"{path} is damaged: {size - offset} bytes follow the last tensor")


def _flatten(value: Any, path: tuple[str, ...], tensors: dict[str, Tensor]) -> Any:
    """The structure of ``value`` as JSON, its tensors replaced by their names in the file and collected in
    ``tensors``.
    """
    if isinstance(value, Tensor):
        name = ".".join(path) or "value"
        while name in tensors:
            name += "_"
        tensors[name] = value
        return {_LEAF: name}
    if isinstance(value, Mapping):
        if bad := [k for k in value if not isinstance(k, str) or k == _LEAF or k == "__metadata__"]:
            raise StateError(
                f"can't save keys {bad}: keys must be strings other than {_LEAF} and __metadata__"
            )
        return {k: _flatten(v, (*path, k), tensors) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_flatten(v, (*path, str(i)), tensors) for i, v in enumerate(value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    where = ".".join(path) or "the state"
    raise StateError(
        f"can't save {where}: {type(value).__name__} is neither a tensor, dict, list, number, string nor None"
    )


def _unflatten(tree: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(tree, dict):
        if set(tree) == {_LEAF}:
            return tensors[tree[_LEAF]]
        return {k: _unflatten(v, tensors) for k, v in tree.items()}
    return [_unflatten(v, tensors) for v in tree] if isinstance(tree, list) else tree
