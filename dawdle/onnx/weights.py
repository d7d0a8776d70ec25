"""Tensors of a model's file, read when they are first used."""

from __future__ import annotations

import importlib
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from dawdle.dtype import BY_NAME, Array, bfloat16
from dawdle.errors import ModelError, StateError
from dawdle.formats.files import open_file, tensor_on
from dawdle.onnx import wire
from dawdle.onnx.values import (
    ELEMENT_TYPES,
    HOST,
    HostArray,
    Value,
    element_type,
    numpy_dtype,
    on_host,
    tensor_dtype,
)
from dawdle.runtime.trace import recording
from dawdle.tensor import Tensor

PACKED = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}  # bits: elements share a byte
# the fields of a TensorProto for data that isn't raw
TYPED = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
DIGITS = re.compile("[0-9]{1,20}")
EXTERNAL = 1  # TensorProto.DataLocation
BFLOAT16 = 16  # TensorProto.DataType


def package() -> Any:
    """The onnx package. Raises ModelError that says how to get it."""
    try:
        return importlib.import_module("onnx")
    except ImportError:
        raise ModelError("reading ONNX models needs the package onnx: pip install 'dawdle[onnx]'") from None


class Files:
    """The bytes that a model's tensors lie in: its own, and files beside it. They are mapped, not read."""

    def __init__(self, own: memoryview, folder: Path | None) -> None:
        self._folder = folder
        self._mapped = {wire.SELF: own}

    def __getitem__(self, location: str) -> memoryview:
        """The bytes of a file. ModelError where it lies outside of the model's folder or is missing."""
        if location not in self._mapped:
            self._mapped[location] = mapped(self._path(location))
        return self._mapped[location]

    def size(self, location: str) -> int:
        """The number of bytes of a file, which isn't opened for it."""
        known = self._mapped.get(location)
        return self._path(location).stat().st_size if known is None else len(known)

    def _path(self, location: str) -> Path:
        if self._folder is None:
            raise ModelError(f"the model's weights lie in the file {location!r}; load the model by its path")
        try:
            path = (self._folder / location).resolve()
            inside, found = path.is_relative_to(self._folder.resolve()), path.is_file()
        except (OSError, ValueError, RuntimeError) as error:  # too long, no name of a file, links in a circle
            raise ModelError(f"the model's weights are said to lie in {location!r:.200}: {error}") from None
        if not inside:
            raise ModelError(f"the model's weights are said to lie in {location!r}, outside of its folder")
        if not found:
            raise ModelError(f"the model's weights lie in {path}, which is missing")
        return path


def mapped(path: Path) -> memoryview:
    """A file's bytes, which the system reads as they are used. ModelError where it can't be read."""
    try:
        return open_file(path).data
    except StateError as error:
        raise ModelError(str(error)) from None


def check_tensor(proto: Any, files: Files) -> None:
    """Raise ModelError where a TensorProto's data is missing or doesn't fill its shape. Nothing is read."""
    name = ELEMENT_TYPES.get(proto.data_type)
    shape = tuple(proto.dims)
    if name is None:
        raise ModelError(f"tensor {proto.name!r} has the unknown element type {proto.data_type}")
    if any(n < 0 for n in shape):
        raise ModelError(f"tensor {proto.name!r} is of the impossible shape {shape}")
    count, given = math.prod(shape), len(proto.raw_data)
    if proto.data_location == EXTERNAL:
        _, start, end = _place(proto, files)
        given = end - start
    elif not given:
        if count and not any(getattr(proto, field) for field in TYPED):
            raise ModelError(f"tensor {proto.name!r} of dtype {name} and shape {shape} has no data")
        return
    if name == "string":
        raise ModelError(f"tensor {proto.name!r} holds strings, which must not be raw data")
    bits = PACKED.get(name) or 8 * numpy_dtype(proto.data_type).itemsize
    wanted = -(-count * bits // 8)
    if given != wanted:
        raise ModelError(
            f"tensor {proto.name!r} of dtype {name} and shape {shape} takes {wanted} bytes, but has {given}"
        )


def read_tensor(proto: Any, files: Files) -> Value:
    """A TensorProto as a value on the host; its bytes stay where they are if their dtype allows it.

    Raises ModelError where the data doesn't fill the shape.
    """
    check_tensor(proto, files)
    raw = _external(proto, files) if proto.data_location == EXTERNAL else proto.raw_data
    if element_type(proto.data_type) in PACKED or not raw:
        return _parsed(proto, raw)
    kind = tensor_dtype(proto.data_type)
    stored = numpy_dtype(proto.data_type) if kind is None else kind.storage
    array = np.frombuffer(raw, stored).reshape(tuple(proto.dims))
    return HostArray(array) if kind is None else _adopted(array, kind)


def _external(proto: Any, files: Files) -> memoryview:
    location, start, end = _place(proto, files)
    data = files[location]
    if end > len(data):
        raise ModelError(f"the file {location!r} of weights has become shorter since the model was loaded")
    return data[start:end]


def _place(proto: Any, files: Files) -> tuple[str, int, int]:
    """The file that a tensor's bytes lie in, and where they start and end."""
    entries = {entry.key: entry.value for entry in proto.external_data}
    location = entries.get("location", wire.SELF)
    numbers = {key: entries.get(key, "0") for key in ("offset", "length")}
    if not all(DIGITS.fullmatch(text) for text in numbers.values()):
        raise ModelError(f"tensor {proto.name!r} is said to lie at {numbers}, which are no numbers of bytes")
    size, offset = files.size(location), int(numbers["offset"])
    end = offset + int(numbers["length"]) if "length" in entries else size
    if not offset <= end <= size:
        raise ModelError(
            f"tensor {proto.name!r} takes bytes {offset} to {end} of a file of {size}: it is cut off"
        )
    return location, offset, end


def _parsed(proto: Any, raw: Any) -> Value:
    """What isn't a plain row of bytes: strings, elements that share bytes, numbers in fields of their own."""
    onnx = package()
    if proto.data_location == EXTERNAL:
        copy = onnx.TensorProto()
        copy.CopyFrom(proto)
        copy.ClearField("external_data")
        copy.data_location, copy.raw_data = 0, bytes(raw)
        proto = copy
    try:
        array = onnx.numpy_helper.to_array(proto)
    except ValueError as error:
        raise ModelError(
            f"tensor {proto.name!r} of shape {tuple(proto.dims)} is malformed: {error}"
        ) from None
    return from_array(array)


def _adopted(array: Array, kind: Any) -> Tensor:
    """A tensor on NUMPY that uses the memory of an array in the storage dtype."""
    with recording(None):
        return tensor_on(array, kind, HOST)


def from_array(array: Array) -> Tensor | HostArray:
    """A NumPy array, of ml_dtypes too, as a value on the host."""
    if array.dtype.name == "bfloat16":
        return _adopted(np.ascontiguousarray(array).view(np.uint16).reshape(array.shape), bfloat16)
    kind = array.dtype
    if kind.name in BY_NAME and kind.isnative and kind.type.__module__ == "numpy":
        return on_host(array)
    if array.dtype.kind in "US":
        array = array.astype(object)
    return HostArray(array)


def to_array(value: Any) -> Any:
    """A value as what NumPy users know: an array, of ml_dtypes where NumPy lacks the dtype; a list; None."""
    if isinstance(value, list):
        return [to_array(v) for v in value]
    if isinstance(value, HostArray):
        return value.array
    if isinstance(value, Tensor) and value.dtype == bfloat16:
        return value.numpy().astype(numpy_dtype(BFLOAT16))
    return value.numpy() if isinstance(value, Tensor) else value
