"""Files as memory, tensors on the bytes of files, and files that appear complete or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dawdle.dtype import DType
from dawdle.errors import StateError
from dawdle.lazy import build
from dawdle.runtime.device import get_device
from dawdle.runtime.numpy import NumpyDevice
from dawdle.tensor import Tensor
from dawdle.tensor.autograd import no_grad

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class File:
    """A file's bytes and what it is called in messages."""

    path: Path
    data: memoryview

    def damaged(self, why: str) -> StateError:
        """The error for a file that isn't as its format wants it."""
        return StateError(f"{self.path} is damaged: {why}")

    def part(self, start: int, size: int, what: str) -> memoryview:
        """Some of the bytes. Raises StateError where the file ends before."""
        if not 0 <= start <= start + size <= len(self.data):
            raise StateError(
                f"{self.path} is truncated: {what} takes bytes {start} to {start + size}, of {len(self.data)}"
            )
        return self.data[start : start + size]

    def array(
        self, data: memoryview, shape: tuple[int, ...], dtype: np.dtype[Any], what: str
    ) -> NDArray[Any]:
        """Bytes of little-endian elements as an array of a shape that the file states."""
        try:
            return np.ndarray(shape, dtype.newbyteorder("<"), buffer=data)
        except (ValueError, OverflowError) as error:
            raise self.damaged(f"the shape {shape} of {what!r} is impossible ({error})") from error


def open_file(path: PathLike, mapped: bool = True) -> File:
    """A file as memory: mapped, so that bytes are read when they are used, or else read now.

    Raises StateError for a file that is missing or can't be read.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            content = mmap(file.fileno(), 0, access=ACCESS_READ) if mapped and size else file.read()
    except OSError as error:
        raise StateError(f"can't read {path}: {error.strerror or error}") from error
    return File(Path(path), memoryview(content))


def tensor_on(array: NDArray[Any], dtype: DType, device: str | None) -> Tensor:
    """A tensor on an array, read-only memory in the storage dtype of ``dtype`` (in any byte order).

    On devices that compute in the host's memory it isn't copied unless it has to be (for its layout, byte
    order or alignment); to others it is brought when it is used.
    """
    if not (array.flags.aligned and array.flags.c_contiguous and array.dtype.isnative):
        array = np.array(array, dtype.storage, order="C")
    name = Tensor._device_name(device)
    place = get_device(name) if get_device(name).host_memory else get_device(NumpyDevice.name)
    memory = place.from_numpy(array, copy=False)
    tensor = Tensor._wrap(build.buffer(memory, array.shape, dtype, place.name))
    with no_grad():
        return tensor if place.name == name else tensor.to(name)


def write_atomically(path: PathLike, parts: Iterator[bytes | memoryview]) -> None:
    """Write a file that appears complete or not at all. Raises StateError where it can't be written."""
    path = Path(path)
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
