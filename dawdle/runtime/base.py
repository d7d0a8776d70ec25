"""What every device offers. A device keeps values in its own memory and says what generated code for it must look like."""
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from dawdle.codegen.target import Target
from dawdle.dtype import DType
from dawdle.lazy.buffer import Storage

Array = npt.NDArray[Any]


class Device(ABC):
    """A place where values live and are computed. ``name`` is its canonical name, as in ``Tensor(..., device=name)``."""

    name: str
    target: Target | None  # None: graphs are interpreted, no code is generated

    @abstractmethod
    def from_numpy(self, array: Array, copy: bool = True) -> Storage:
        """Storage with the elements of ``array``, which is in the storage dtype.

        Without ``copy`` a C-contiguous array is adopted as it is, where the device's memory is the host's: the storage
        keeps the array alive, and the caller promises not to write to it any more.
        """

    @abstractmethod
    def view(self, storage: Storage, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """A read-only array on the storage's own memory, which it keeps alive."""

    def to_numpy(self, storage: Storage, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """The elements as a fresh array in the storage dtype."""
        return self.view(storage, dtype, shape).copy()

    def synchronize(self) -> None:
        """Wait until everything that was started has run. Host devices run at once."""


def to_compute(array: Array, dtype: DType) -> Array:
    """An array in the storage dtype as one in the compute dtype: bfloat16's bit patterns become float32 values."""
    if dtype.name != "bfloat16":
        return array
    return (array.astype(np.uint32) << np.uint32(16)).view(np.float32).reshape(array.shape)


def to_storage(array: Array, dtype: DType) -> Array:
    """The inverse of :func:`to_compute`: C-contiguous, in the storage dtype; bfloat16 rounds to nearest even."""
    if dtype.name != "bfloat16":
        return np.asarray(array, dtype.storage, order="C")
    array = np.asarray(array, np.float32, order="C")
    bits = np.ascontiguousarray(array).view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)  # rounding could carry a NaN into an infinity
    nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.where(nan, quiet, rounded).astype(np.uint16).reshape(array.shape)
