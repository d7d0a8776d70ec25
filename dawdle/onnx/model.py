"""Loading a model and calling it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dawdle.dtype import Array, DType
from dawdle.errors import DTypeError, ModelError, ShapeError
from dawdle.onnx import wire
from dawdle.onnx.assemble import Assembler
from dawdle.onnx.graph import Graph, on_the_host, realize
from dawdle.onnx.values import HOST, HostArray, Value, element_type, host, numpy_dtype, tensor_dtype
from dawdle.onnx.weights import Files, from_array, mapped, package
from dawdle.runtime.device import default_device, get_device
from dawdle.runtime.jit import jit as jitted
from dawdle.tensor import Tensor

Dim = int | str | None
FEW = 16  # floats that an input which is read on the host may have


@dataclass(frozen=True)
class Port:
    """An input or output of a model.

    ``dtype`` is dawdle's, or ONNX's name of one that dawdle lacks ("string", "complex64", "int4"...).
    ``shape`` holds a number for a fixed dimension, its symbol for one that is bound by each call, None for
    one that may be anything; it is None where not even the rank is known. ``kind`` is "tensor", "sequence"
    (a list of tensors of that dtype) or "optional" (a value or None).
    """

    name: str
    dtype: DType | str | None
    shape: tuple[Dim, ...] | None
    kind: str = "tensor"
    code: int = 0
    listed: bool = False  # whether a value is a list of tensors

    def __str__(self) -> str:
        dtype = self.dtype.name if isinstance(self.dtype, DType) else self.dtype
        shape = "?" if self.shape is None else ", ".join("?" if d is None else str(d) for d in self.shape)
        return f"{self.name}: {'' if self.kind == 'tensor' else self.kind + ' of '}{dtype}[{shape}]"


class Outputs(tuple[Any, ...]):
    """A call's results, in the model's order and by name: ``y, z = model(x)``, ``out["y"]``, ``out[0]``.

    ``dict(out)`` gives them by name. Results are Tensors; of dtypes that dawdle lacks NumPy arrays; sequences
    are lists, absent optionals None.
    """

    names: tuple[str, ...]

    def __new__(cls, names: Sequence[str], values: Sequence[Any]) -> Outputs:
        made = super().__new__(cls, values)
        made.names = tuple(names)
        return made

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self.names:
            raise KeyError(f"the model has no output {key!r}; its outputs are {', '.join(self.names)}")
        return super().__getitem__(self.names.index(key))

    def keys(self) -> tuple[str, ...]:
        """The names."""
        return self.names

    def items(self) -> Iterator[tuple[str, Any]]:
        """Names with values."""
        return zip(self.names, self, strict=True)

    def __repr__(self) -> str:
        return "Outputs(" + ", ".join(f"{n}={v!r}" for n, v in self.items()) + ")"


def load(source: Any, device: str | None = None, jit: bool = False) -> Model:
    """An ONNX model as a function of tensors.

    ``source`` is a path, the bytes of a file, or an ``onnx.ModelProto``. ``device`` is where it computes, the
    default one unless given. With ``jit`` each signature of inputs is traced once and replayed; models that
    read values on the way (NonZero, Loop with a computed condition) can't be.

    Weights stay in the file, and in files beside it, until they are used. Opsets from 7 to 28 are supported,
    older ones as far as their operators are the same. Nodes may come in any order.
    Needs the package onnx (``pip install 'dawdle[onnx]'``).

    Raises ModelError for a file that is damaged or no model, for versions that don't exist, and for operators
    that aren't known, attributes that their operators don't have, names that nothing gives: one error that
    lists all of them.
    """
    onnx = package()
    if isinstance(source, onnx.ModelProto):
        proto, files = source, Files(memoryview(b""), None)
    elif isinstance(source, (bytes, bytearray, memoryview)):
        data = memoryview(source)
        proto, files = _parse(onnx, data), Files(data, None)
    elif isinstance(source, (str, os.PathLike)):
        path = Path(os.fsdecode(source))
        if not os.path.isfile(path):  # unlike the method of Path, False for names that no file can have
            raise ModelError(f"there is no model at {path}")
        data = mapped(path)
        proto, files = _parse(onnx, data), Files(data, path.parent)
    else:
        raise ModelError(f"a model is a path, bytes or a ModelProto, got {type(source).__name__}")
    return Model(proto, files, device, jit)


def _parse(onnx: Any, data: memoryview) -> Any:
    message: Any = importlib.import_module("google.protobuf.message")
    small = wire.without_weights(data)
    try:
        proto = onnx.ModelProto.FromString(small)
    except message.DecodeError as error:
        raise ModelError(f"this is no ONNX model, or damaged: {error}") from None
    if not proto.HasField("graph"):
        raise ModelError("this is no ONNX model: it has no graph")
    return proto


class Model:
    """A callable ONNX model, made by :func:`load`.

    Call it with its inputs in order or by name: Tensors, NumPy arrays, nested lists, numbers; lists of them
    for sequences. Symbolic dimensions take the sizes that a call brings; one symbol must have one size. The
    result is an :class:`Outputs`.

    ``inputs`` and ``outputs`` are :class:`Port`\\ s, ``opset`` is the version of the default operator set and
    ``device`` the device it computes on.
    """

    def __init__(self, proto: Any, files: Files, device: str | None, jit: bool) -> None:
        assembler = Assembler(proto, files)
        self.opset = assembler.opsets.get("", 0)
        self.device = default_device() if device is None else get_device(device).name
        self._graph: Graph = assembler.main(proto.graph)
        weights = set(self._graph.constants)
        self._ports = {i.name: _port(i) for i in proto.graph.input}
        self.inputs = tuple(p for p in self._ports.values() if p.name not in weights)
        self.outputs = tuple(map(_port, proto.graph.output))
        needed = self._graph.read_on_host()
        # what is read on the host is kept there, and belongs to the signature of a traced call
        self._static = {p.name for p in self._ports.values() if p.name in needed and _few(p)}
        self._jitted = jitted(self._traced) if jit and self.device != HOST else None

    def __repr__(self) -> str:
        sides = [", ".join(map(str, ports)) for ports in (self.inputs, self.outputs)]
        return f"<dawdle.onnx.Model ({sides[0]}) -> ({sides[1]}), opset {self.opset}, on {self.device}>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Outputs:
        """The model's outputs.

        Raises ShapeError or DTypeError for an input that isn't as declared, ModelError for one that is
        missing or unknown.
        """
        given = self._bind(args, kwargs)
        values = {name: self._value(self._ports[name], value) for name, value in given.items()}
        _check_shapes([self._ports[name] for name in values], list(values.values()))
        results = self._graph.run(values, None, self.device) if self._jitted is None else self._replay(values)
        realize(results)
        names = [port.name for port in self.outputs]
        return Outputs(names, list(map(_plain, results)))

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if len(args) > len(self.inputs):
            raise ModelError(f"the model takes {len(self.inputs)} inputs, got {len(args)}: {self!r}")
        given = {port.name: value for port, value in zip(self.inputs, args, strict=False)}
        for name, value in kwargs.items():
            if name not in self._ports or name in given:
                why = "was given twice" if name in given else "is none of the model's"
                raise ModelError(f"input {name!r} {why}: {self!r}")
            given[name] = value
        missing = [p.name for p in self.inputs if p.name not in given and p.kind != "optional"]
        if missing:
            raise ModelError(f"the model's inputs {', '.join(map(repr, missing))} are missing: {self!r}")
        return given

    def _value(self, port: Port, value: Any) -> Value:
        """What a caller passes, where the model wants it."""
        if value is None and port.kind == "optional":
            return None
        if not port.listed:
            return self._tensor(port, value)
        if not isinstance(value, (list, tuple)):
            given = type(value).__name__
            raise DTypeError(f"input {port.name!r} is declared {port}, got {given}; pass a list")
        return [self._tensor(port, v) for v in value]

    def _tensor(self, port: Port, value: Any) -> Value:
        device = HOST if port.name in self._static else self.device
        if isinstance(value, Tensor):
            _check_dtype(port, value.dtype)
            return value if value.device == device else value.to(device)
        made = from_array(_array(port, value))
        _check_dtype(port, made.dtype)
        return made.to(device) if isinstance(made, Tensor) and device != HOST else made

    def _replay(self, values: Mapping[str, Value]) -> list[Value]:
        """Through ``@jit``: values on the host belong to the signature, the others are its arguments."""
        known = {n: v for n, v in values.items() if isinstance(v, HostArray) or on_the_host(v)}
        traced = {n: v for n, v in values.items() if n not in known}
        static = tuple(Known(name, _contents(host(v)), v) for name, v in known.items())
        assert self._jitted is not None
        return self._jitted(traced, static)

    def _traced(self, values: dict[str, Value], static: tuple[Known, ...]) -> list[Value]:
        known = {k.name: k.value for k in static}
        return self._graph.run({**values, **known}, None, self.device)


@dataclass(frozen=True)
class Known:
    """A value that belongs to the signature of a traced call: equal contents are equal."""

    name: str
    contents: tuple[Any, ...]
    value: Value = field(compare=False)


def _contents(array: Array) -> tuple[Any, ...]:
    elements = tuple(array.reshape(-1).tolist()) if array.dtype.kind == "O" else array.tobytes()
    return (array.dtype.name, array.shape, elements)


def _array(port: Port, value: Any) -> Array:
    """What a caller passes, as an array in the machine's order of bytes. Raises DTypeError for what is none.
    """
    try:
        if value is None:
            raise TypeError("it is needed")
        if hasattr(value, "__array__") and not isinstance(value, np.generic):
            array = np.asarray(value)
        else:
            array = np.asarray(value, numpy_dtype(port.code) if port.code else None)
        if array.dtype == object and port.dtype == "string":
            return _strings(array)
    except (TypeError, ValueError, OverflowError) as error:
        raise DTypeError(f"input {port.name!r} is declared {port}, got {value!r}: {error}") from None
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _strings(array: Array) -> Array:
    """Text and UTF-8 bytes as text."""
    found = [s.decode() if isinstance(s, bytes) else s for s in array.reshape(-1)]
    wrong = next((s for s in found if not isinstance(s, str)), None)
    if wrong is not None or None in found:
        raise TypeError(f"{wrong!r} is no string")
    out = np.empty(len(found), object)
    out[:] = found
    return out.reshape(array.shape)


def _port(proto: Any) -> Port:
    """A ValueInfoProto."""
    kind, listed, type_ = "tensor", False, proto.type
    while True:
        which = type_.WhichOneof("value")
        if which not in ("sequence_type", "optional_type"):
            break
        kind = which.removesuffix("_type") if kind == "tensor" else kind
        listed |= which == "sequence_type"
        type_ = getattr(type_, which).elem_type
    tensor = type_.sparse_tensor_type if which == "sparse_tensor_type" else type_.tensor_type
    code = tensor.elem_type
    if which is None or not code:
        return Port(proto.name, None, None, kind, 0, listed)
    shape = tuple(map(_dim, tensor.shape.dim)) if tensor.HasField("shape") else None
    return Port(proto.name, tensor_dtype(code) or element_type(code), shape, kind, code, listed)


def _dim(proto: Any) -> Dim:
    """A dimension's size, its symbol, or None: some exporters write -1 or "?" for one of any size."""
    if proto.WhichOneof("value") == "dim_value":
        return proto.dim_value if proto.dim_value >= 0 else None
    return None if proto.dim_param in ("", "?") else str(proto.dim_param)


def _few(port: Port) -> bool:
    """Whether an input is of the kind that shapes, axes and scales come in: a number, or a row of integers or
    of few floats.
    """
    if port.kind != "tensor" or not isinstance(port.dtype, DType):
        return False
    if port.shape is None or len(port.shape) > 1:
        return False
    return not port.dtype.is_float or all(isinstance(n, int) and n <= FEW for n in port.shape)


def _check_dtype(port: Port, given: Any) -> None:
    wanted = port.dtype
    if wanted is None:
        return
    name = "string" if given.name == "object" else given.name
    expected = wanted.name if isinstance(wanted, DType) else wanted
    if name != expected:
        raise DTypeError(f"input {port.name!r} is declared {expected}, got {name}; convert it with .astype")


def _check_shapes(ports: Sequence[Port], values: Sequence[Value]) -> None:
    """Raise ShapeError unless each value is of its declared shape and each symbol has one size."""
    sizes: dict[str, tuple[int, str]] = {}
    for port, value in zip(ports, values, strict=True):
        for part in value if isinstance(value, list) else [value]:
            if part is not None and not isinstance(part, list):
                _check_fixed(port, part.shape)
        if port.shape is None or value is None or isinstance(value, list):
            continue
        shape = value.shape
        for dim, n in zip(port.shape, shape, strict=True):
            if isinstance(dim, str) and sizes.setdefault(dim, (n, port.name))[0] != n:
                size, other = sizes[dim]
                raise ShapeError(
                    f"input {port.name!r} is declared {port}, got shape {shape}: {dim} is {n} here and {size}"
                    f" in input {other!r}"
                )


def _check_fixed(port: Port, shape: tuple[int, ...]) -> None:
    """Raise ShapeError unless a shape is of the declared rank and has its sizes that are numbers."""
    if port.shape is None:
        return
    fits = len(shape) == len(port.shape) and all(
        not isinstance(d, int) or d == n for d, n in zip(port.shape, shape, strict=True)
    )
    if not fits:
        raise ShapeError(f"input {port.name!r} is declared {port}, got shape {shape}")


def _plain(value: Value) -> Any:
    """A result as a caller wants it: arrays as they are."""
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return value.array if isinstance(value, HostArray) else value
