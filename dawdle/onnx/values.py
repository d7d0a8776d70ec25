"""What flows along a model's edges, and the dtypes that ONNX counts beside dawdle's own."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dawdle.dtype import BY_NAME, Array, DType
from dawdle.errors import DTypeError
from dawdle.lazy.buffer import toposort
from dawdle.runtime.trace import recording
from dawdle.tensor import Tensor

HOST = "NUMPY"  # the interpreter's device: values there are known, and reading them costs nothing

# TensorProto.DataType; names that dawdle has are its dtypes, the others are ml_dtypes' and NumPy's
ELEMENT_TYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string",
    9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128",
    16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz",
    21: "uint4", 22: "int4", 23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2",
}  # fmt: skip


@dataclass(frozen=True)
class HostArray:
    """An array of a dtype that no device has: strings (dtype object), complex, 8-bit floats, 2 or 4 bits.

    It has those methods of a Tensor that move elements about.
    """

    array: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.array.dtype
        return dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, key: Any) -> HostArray:
        return HostArray(np.asarray(self.array[key]))

    def reshape(self, *shape: Any) -> HostArray:
        return HostArray(self.array.reshape(*shape))

    def permute(self, order: Sequence[int]) -> HostArray:
        return HostArray(self.array.transpose(order))

    def expand(self, shape: Sequence[int]) -> HostArray:
        return HostArray(np.broadcast_to(self.array, shape))

    def repeat(self, sizes: Sequence[int]) -> HostArray:
        return HostArray(np.tile(self.array, sizes))


# a sequence is a list, an absent optional None
Value: TypeAlias = "Tensor | HostArray | list[Any] | None"


def element_type(code: int) -> str:
    """The name of an element type of ``TensorProto.DataType``."""
    if code not in ELEMENT_TYPES:
        raise DTypeError(f"ONNX element type {code} is unknown; known are {ELEMENT_TYPES}")
    return ELEMENT_TYPES[code]


def tensor_dtype(code: int) -> DType | None:
    """dawdle's dtype for an element type of ``TensorProto.DataType``; None where it has none."""
    return BY_NAME.get(element_type(code))


def integer_bits(name: str) -> tuple[int, bool] | None:
    """(bits, whether signed) of an integer type of that name; None for others."""
    if "int" not in name:
        return None
    return int(name.lstrip("uint")), not name.startswith("u")


def numpy_dtype(code: int) -> np.dtype[Any]:
    """The NumPy dtype that holds elements of any ``TensorProto.DataType``: object for strings."""
    name = element_type(code)
    if name == "string":
        return np.dtype(object)
    try:
        dtype: np.dtype[Any] = np.dtype(name)
    except TypeError:
        dtype = np.dtype(getattr(importlib.import_module("ml_dtypes"), name))
    return dtype


def host(value: Value) -> Array:
    """The elements on the host: free for a value on NUMPY, else it is computed and read.

    bfloat16 comes as float32. Raises JitError where a value that isn't known yet is needed within ``@jit``.
    """
    if isinstance(value, HostArray):
        return value.array
    if not isinstance(value, Tensor):
        given = "a sequence" if isinstance(value, list) else "nothing"
        raise DTypeError(f"a tensor is needed here, got {given}")
    with _unseen(value):
        return value.numpy()


def settled(value: Tensor) -> Tensor:
    """The value, computed now."""
    with _unseen(value):
        return value.realize()


def _unseen(value: Tensor) -> AbstractContextManager[None]:
    """A trace doesn't see a value that lies on NUMPY, as it depends on nothing that calls bring."""
    known = all(node.device == HOST for node in toposort([value.lazy]))
    return recording(None) if known else nullcontext()


def on_host(array: Any, dtype: DType | None = None) -> Tensor:
    """A tensor on NUMPY with these elements."""
    with recording(None):
        return Tensor(array, dtype=dtype, device=HOST)


def placed(x: Tensor, device: str) -> Tensor:
    """A tensor on another device. Only what is known on the host ever moves, and a trace needn't see that: it
    finds the value in place, as it does the weights.
    """
    if x.device == device:
        return x
    with recording(None) if x.device == HOST else nullcontext():
        return x.to(device).realize()


def ints(value: Value) -> tuple[int, ...]:
    """A value's elements as Python integers."""
    return tuple(int(n) for n in host(value).reshape(-1))


def scalar(value: Value) -> Any:
    """The only element of a value, as a Python number."""
    return host(value).reshape(-1)[0].item()
