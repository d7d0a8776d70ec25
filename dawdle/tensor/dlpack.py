"""DLPack, by which libraries share memory (https://dmlc.github.io/dlpack/latest/python_spec.html).

NumPy makes and reads the capsules. bfloat16, which it doesn't know, is shown to it as uint16: the dtype that
a capsule states is rewritten before NumPy reads one and after it has made one.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from dawdle.dtype import Array, DType, bfloat16, to_dtype
from dawdle.errors import DTypeError, InterchangeError
from dawdle.runtime.device import get_device

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

HOST = (1, 0)  # DLPack's name of the host's memory
_HOST_KINDS = {1: "host", 3: "pinned for CUDA", 11: "pinned for ROCm", 13: "managed by CUDA"}
_UINT, _BFLOAT = 1, 4  # DLDataTypeCode
_CODES = {0: "int", 1: "uint", 2: "float", 3: "an opaque handle", 4: "bfloat", 5: "complex", 6: "bool"}
VERSIONED = tuple(int(n) for n in np.__version__.split(".")[:2]) >= (2, 1)  # NumPy knows DLPack 1.x


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned of dlpack.h; the older DLManagedTensor begins with its DLTensor."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes, _is_valid.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_int
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p


def _described(capsule: Any) -> _Tensor:
    """What a capsule that nobody has taken yet says of its memory. Raises InterchangeError for others."""
    if _is_valid(capsule, b"dltensor_versioned"):
        address = _pointer(capsule, b"dltensor_versioned") or 0
        major = _Versioned.from_address(address).major
        if major != 1:
            raise InterchangeError(f"the capsule is of DLPack {major}, only version 1 is known")
        return _Tensor.from_address(address + _Versioned.tensor.offset)
    if _is_valid(capsule, b"dltensor"):
        return _Tensor.from_address(_pointer(capsule, b"dltensor") or 0)
    raise InterchangeError("not a DLPack capsule that can be imported; each can be imported only once")


class _Exporter:
    """What NumPy wants to import: an object that gives a capsule."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return HOST


def _capsule_of(source: Any, copy: bool | None) -> Any:
    """The capsule that ``source`` is or gives, of host memory; the newest kind that both sides know."""
    if type(source).__name__ == "PyCapsule":
        return source
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise DTypeError(
            f"{type(source).__name__} can't export its memory: it lacks __dlpack__; use Tensor(...)"
        )
    options: dict[str, Any] = {"max_version": (1, 1)} if VERSIONED else {}
    if copy is not None:
        options["copy"] = copy
    if source.__dlpack_device__()[0] not in _HOST_KINDS:
        options["dl_device"] = HOST
    if options:
        try:
            return source.__dlpack__(**options)
        except TypeError:  # an exporter from before DLPack 1.0
            if "dl_device" in options:
                raise InterchangeError("the memory is not the host's: move it to the CPU first") from None
    return source.__dlpack__()


def imported(source: Any, copy: bool | None = None) -> tuple[Array, DType]:
    """An array in the storage dtype on the memory that ``source`` (a capsule, or an object with
    ``__dlpack__``) exports, and its dtype. It keeps the memory alive.

    ``copy`` is passed on as a wish: the exporter may be too old to know it.
    """
    if isinstance(source, np.ndarray):  # DLPack before 1.0 refuses read-only ones
        return source, to_dtype(source.dtype)
    try:
        capsule = _capsule_of(source, copy)
        about = _described(capsule)
        if (about.code, about.bits, about.lanes) == (_BFLOAT, 16, 1):
            about.code, kind = _UINT, bfloat16
        elif about.lanes != 1 or about.code not in (0, 1, 2, 6):
            raise DTypeError(
                f"elements of {about.lanes} x {about.bits} bits, {_CODES.get(about.code, 'unknown')}, have no"
                " dtype here; convert them before"
            )
        else:
            kind = None
        array = np.from_dlpack(_Exporter(capsule))
    except (BufferError, RuntimeError, ValueError, TypeError) as error:
        if isinstance(error, (InterchangeError, DTypeError)):
            raise
        raise InterchangeError(f"can't import this DLPack object: {error}") from None
    return array, kind or to_dtype(array.dtype)


def exported(
    x: Tensor,
    memory: Array,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """A capsule of ``memory``, the read-only elements of ``x`` in the storage dtype.

    Capsules of version 1 share it and say that it is read-only; older ones can't say so and get a copy.
    """
    if dl_device is not None and tuple(dl_device) != HOST:
        raise InterchangeError(f"tensors are exported on the host, {HOST} for DLPack, not on {dl_device}")
    versioned = VERSIONED and max_version is not None and max_version[0] >= 1
    shared = versioned and get_device(x.lazy.device).host_memory
    if copy is False and not shared:
        why = "the importer's DLPack is before 1.0 and knows no read-only memory" if not versioned else (
            f"the elements are in the memory of {x.lazy.device}"
        )  # fmt: skip
        raise InterchangeError(f"can't export without a copy: {why}")
    if copy or not shared:
        memory = memory.copy()
    capsule = memory.__dlpack__(max_version=max_version) if versioned else memory.__dlpack__()
    if x.lazy.dtype is bfloat16:
        _described(capsule).code = _BFLOAT
    return capsule
