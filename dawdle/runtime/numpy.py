"""The NUMPY device: graphs are interpreted with NumPy. It needs no compiler, and every other device is tested
against it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dawdle.dtype import Array
from dawdle.lazy.buffer import Storage
from dawdle.runtime.base import Device
from dawdle.runtime.trace import note_storage


class NumpyDevice(Device):
    """Storage is a C-contiguous ndarray in the storage dtype."""

    name = "NUMPY"
    host_memory = True
    target = None

    def from_numpy(self, array: Array, copy: bool = True) -> Storage:
        storage: Array = np.array(array, order="C", copy=True) if copy else np.asarray(array, order="C")
        note_storage(storage)
        return storage

    def view(self, storage: Storage, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        assert isinstance(storage, np.ndarray) and storage.dtype == dtype
        array = storage.reshape(shape)
        array.flags.writeable = False
        return array
