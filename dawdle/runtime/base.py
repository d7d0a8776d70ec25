"""What every device offers. A device keeps values in its own memory and says what generated code for it must
look like.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from dawdle.codegen.target import Target
from dawdle.dtype import Array
from dawdle.lazy.buffer import Storage


class Device(ABC):
    """A place where values live and are computed. ``name`` is its canonical name, as in ``Tensor(...,
    device=name)``.
    """

    name: str
    description = ""  # what it is, where the name doesn't say
    host_memory = False  # whether its memory is the host's, so that views are no copies
    target: Target | None  # None: graphs are interpreted, no code is generated

    @abstractmethod
    def from_numpy(self, array: Array, copy: bool = True) -> Storage:
        """Storage with the elements of ``array``, which is in the storage dtype.

        Without ``copy`` a C-contiguous array is adopted as it is, where the device's memory is the host's:
        the storage keeps the array alive, and the caller promises not to write to it any more.
        """

    @abstractmethod
    def view(self, storage: Storage, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """A read-only array on the storage's own memory, which it keeps alive."""

    def to_numpy(self, storage: Storage, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """The elements as a fresh array in the storage dtype."""
        return self.view(storage, dtype, shape).copy()
