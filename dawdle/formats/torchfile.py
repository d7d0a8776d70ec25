"""Files that ``torch.save`` writes, read without PyTorch: tensors within dicts, lists, numbers and strings.

Since version 1.6 they are zip archives with a pickle of the structure and a file for each storage, stored as
they are; before, pickles followed by the storages' bytes. See
https://pytorch.org/docs/stable/notes/serialization.html. Pickles are read by :mod:`dawdle.formats.pickles`,
which knows the names below and no others.
"""

from __future__ import annotations

import functools
import math
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dawdle import dtype as dt
from dawdle.dtype import DType
from dawdle.errors import StateError
from dawdle.formats.files import File, tensor_on
from dawdle.formats.pickles import Cursor, Function, Refused, Stateful, plain, read_pickle
from dawdle.tensor import Tensor

ZIP = b"PK\x03\x04"
_MAGIC = 0x1950A86A20F9469CFC6C  # begins the older files, as a pickled number
_MAGIC_BYTES = _MAGIC.to_bytes(10, "little")
_PROTOCOL = 1001  # of the older files
_LOCAL_HEADER = 30  # bytes before the name in a zip archive's header of a member


@dataclass(frozen=True)
class StorageType:
    """A class of storages; ``dtype`` None: of bytes."""

    name: str
    dtype: DType | None

    @property
    def itemsize(self) -> int:
        return 1 if self.dtype is None else self.dtype.itemsize


STORAGES = [
    StorageType(f"torch.{name}Storage", dtype)
    for name, dtype in {
        "Float": dt.float32, "Double": dt.float64, "Half": dt.float16, "BFloat16": dt.bfloat16,
        "Long": dt.int64, "Int": dt.int32, "Short": dt.int16, "Char": dt.int8, "Byte": dt.uint8,
        "Bool": dt.bool_,
    }.items()
]  # fmt: skip
STORAGES.append(StorageType("torch.storage.UntypedStorage", None))


@dataclass(frozen=True)
class Storage:
    """The bytes that tensors of a file lie in, ``order`` "<" or ">"."""

    data: memoryview
    type: StorageType
    order: Literal["<", ">"]


class NumpyDType(Stateful):
    """A NumPy dtype in a pickle; its state says the byte order."""

    def __init__(self, name: str, *_: Any) -> None:
        self.dtype = np.dtype(name)
        if self.dtype.kind not in "biufc":
            raise ValueError(f"a NumPy scalar of dtype {name}")

    def set_state(self, state: Any) -> None:
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


def _numpy_scalar(dtype: NumpyDType, data: bytes | str) -> Any:
    """A NumPy scalar as the Python number that it is."""
    raw = data.encode("latin1") if isinstance(data, str) else data
    return np.frombuffer(raw, dtype.dtype, 1)[0].item()


def _encoded(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise Refused(f"_codecs.encode to {encoding}")
    return text.encode("latin1")


def _device(kind: str, index: int | None = None) -> str:
    return kind if index is None else f"{kind}:{index}"


def _parameter(data: Any, requires_grad: bool = True, *_: Any) -> Any:
    return data.requires_grad_(requires_grad)


def _from_type(function: Any, kind: Any, arguments: tuple[Any, ...], state: Any) -> Any:
    """A tensor that has attributes, which aren't kept."""
    if not isinstance(function, Function):
        raise ValueError("a tensor is rebuilt by what is no function")
    return function.call(*arguments)


def _naturals(numbers: Any, what: str) -> tuple[int, ...]:
    if not isinstance(numbers, tuple) or not all(type(n) is int and n >= 0 for n in numbers):
        raise ValueError(f"a tensor's {what} is {numbers!r}")
    return numbers


def _rebuilt(
    device: str | None,
    storage: Storage,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool = False,
    hooks: Any = None,
    dtype: Any = None,
    metadata: Any = None,
) -> Tensor:
    """The tensor on a part of a storage."""
    kind = storage.type.dtype or dtype if isinstance(storage, Storage) else None
    if not isinstance(kind, DType):
        raise ValueError("a tensor lacks its storage or dtype")
    size, stride = _naturals(size, "size"), _naturals(stride, "stride")
    (offset,) = _naturals((offset,), "offset")
    if len(size) != len(stride):
        raise ValueError(f"a tensor has size {size} and stride {stride}")
    count = len(storage.data) // kind.itemsize
    flat = np.frombuffer(storage.data, kind.storage.newbyteorder(storage.order), count)
    kept = tuple(1 if s == 0 else n for n, s in zip(size, stride, strict=True))  # the rest is expanded
    array = _strided(flat, offset, kept, stride)
    out = tensor_on(array, kind, device)
    out = out if kept == size or 0 in kept else out.expand(size)
    return out.requires_grad_(bool(requires_grad) and kind.is_float)


def _strided(flat: Any, offset: int, size: Sequence[int], stride: Sequence[int]) -> Any:
    """A view of a 1-dimensional array, checked to lie within it and not to be larger than it."""
    if math.prod(size) == 0:
        return np.zeros(tuple(size), flat.dtype)
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if last >= len(flat) or math.prod(size) > len(flat):
        raise ValueError(
            f"a tensor of size {tuple(size)}, stride {tuple(stride)} and offset {offset} exceeds its storage"
            f" of {len(flat)} elements"
        )
    steps = [s * flat.itemsize for s in stride]
    return np.lib.stride_tricks.as_strided(flat[offset:], tuple(size), steps, writeable=False)


def names(rebuild: Callable[..., Any]) -> dict[str, Any]:
    """What a pickle may name. ``rebuild`` makes a tensor: (storage, offset, size, stride, requires_grad,
    hooks, dtype).
    """
    functions: dict[str, Callable[..., Any]] = {
        "collections.OrderedDict": lambda pairs=(): {plain(k): v for k, v in pairs},
        "torch._utils._rebuild_tensor": rebuild,
        # what follows the hooks is metadata in the second version, the dtype in the third
        "torch._utils._rebuild_tensor_v2": lambda *arguments: rebuild(*arguments[:6]),
        "torch._utils._rebuild_tensor_v3": rebuild,
        "torch._utils._rebuild_parameter": _parameter,
        "torch._utils._rebuild_parameter_with_state": _parameter,
        "torch._tensor._rebuild_from_type_v2": _from_type,
        "torch.Size": tuple,
        "torch.device": _device,
        "_codecs.encode": _encoded,
        "numpy.dtype": NumpyDType,
        "numpy.core.multiarray.scalar": _numpy_scalar,
        "numpy._core.multiarray.scalar": _numpy_scalar,
        "builtins.set": lambda items=(): {plain(i) for i in items},
        "builtins.frozenset": lambda items=(): frozenset(map(plain, items)),
        "builtins.complex": complex,
    }
    known: dict[str, Any] = {name: Function(name, call) for name, call in functions.items()}
    known |= {name.replace("builtins", "__builtin__"): f for name, f in known.items()}  # as Python 2 has it
    known |= {s.name: s for s in STORAGES} | {f"torch.{d.name}": d for d in dt.ALL}
    known |= {name: name for name in ("torch.Tensor", "torch._tensor.Tensor", "torch.nn.parameter.Parameter")}
    return known


def _storage_id(pid: Any) -> tuple[StorageType, str, int]:
    """(type, key, elements) of the storage that a persistent id names."""
    if not isinstance(pid, tuple) or len(pid) < 5 or not isinstance(pid[1], StorageType):
        raise ValueError(f"the persistent id {pid!r}")
    if len(pid) > 5 and pid[5] is not None:
        raise Refused("a view of a storage, as PyTorch before 0.4 wrote them")
    (count,) = _naturals((pid[4],), "storage's size")
    return pid[1], str(pid[2]), count


def is_torch(data: memoryview) -> bool:
    """Whether bytes begin as a file that ``torch.save`` writes."""
    return data[:4] == ZIP or (bytes(data[:1]) == b"\x80" and _MAGIC_BYTES in bytes(data[:32]))


def read(file: File, device: str | None, verify: bool) -> Any:
    """What was given to ``torch.save``: its tensors as Tensors on ``device``, an OrderedDict as a dict.

    Tensors' bytes are read when they are used, unless ``verify`` compares the archive's checksums now. Raises
    StateError for a file that is damaged or truncated, or refers to what isn't known to be harmless.
    """
    try:
        if file.data[:4] == ZIP:
            return _read_zip(file, device, verify)
        return _read_legacy(file, device)
    except Refused as error:
        raise StateError(
            f"{file.path} refers to {error}, which is not among what a file of tensors may refer to, and was"
            " not run. Save tensors only, as in torch.save(model.state_dict(), path)"
        ) from None
    except ValueError as error:
        if isinstance(error, StateError):
            raise
        raise file.damaged(str(error)) from error


# ---- zip archives


class Archive:
    """The members of a zip archive, as parts of the file's memory."""

    def __init__(self, file: File, verify: bool) -> None:
        self.file = file
        self.verify = verify
        try:
            with zipfile.ZipFile(file.path) as archive:
                self.members = {info.filename: info for info in archive.infolist()}
        except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError, EOFError) as error:
            raise StateError(f"{file.path} is a truncated or damaged archive: {error}") from error
        roots = [n.removesuffix("data.pkl") for n in self.members if n.endswith("/data.pkl")]
        if len(roots) != 1:
            raise StateError(f"{file.path} is a zip archive, but not one of PyTorch's: it lacks data.pkl")
        self.root = roots[0]

    def __contains__(self, name: str) -> bool:
        return self.root + name in self.members

    def read(self, name: str) -> memoryview:
        """A member's bytes."""
        info = self.members.get(self.root + name)
        if info is None:
            raise self.file.damaged(f"it lacks {name}")
        if info.compress_type != zipfile.ZIP_STORED:
            raise self.file.damaged(f"{name} is compressed, which PyTorch never does")
        header = self.file.part(info.header_offset, _LOCAL_HEADER, f"the header of {name}")
        if header[:4] != ZIP:
            raise self.file.damaged(f"{name} isn't where the archive's directory says")
        skipped = sum(int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
        data = self.file.part(info.header_offset + _LOCAL_HEADER + skipped, info.file_size, name)
        if self.verify and zlib.crc32(data) != info.CRC:
            raise self.file.damaged(f"the checksum of {name} differs; verify=False reads it all the same")
        return data


def _read_zip(file: File, device: str | None, verify: bool) -> Any:
    archive = Archive(file, verify)
    order = bytes(archive.read("byteorder")) if "byteorder" in archive else b"little"
    if order not in (b"little", b"big"):
        raise file.damaged(f"its byte order is {order!r}")

    @functools.cache
    def storage(kind: StorageType, key: str, count: int) -> Storage:
        data = archive.read(f"data/{key}")
        nbytes = count * kind.itemsize
        if len(data) < nbytes:
            raise ValueError(f"data/{key} has {len(data)} bytes, {nbytes} are expected")
        return Storage(data[:nbytes], kind, "<" if order == b"little" else ">")

    return read_pickle(
        Cursor(archive.read("data.pkl")),
        names(functools.partial(_rebuilt, device)),
        lambda pid: storage(*_storage_id(pid)),
    )


# ---- the older format


class _Unread:
    """Stands for a tensor whose storage isn't known yet."""

    def requires_grad_(self, _: bool) -> _Unread:
        return self


def _read_legacy(file: File, device: str | None) -> Any:
    """The structure is read twice: first for the sizes of the storages, which follow it."""
    cursor = Cursor(file.data)
    known = names(lambda *_: _Unread())
    sizes: dict[str, StorageType] = {}

    def noted(pid: Any) -> None:
        kind, key, _ = _storage_id(pid)
        sizes[key] = kind

    def described(what: str) -> Any:
        return read_pickle(cursor, {}, lambda pid: _refuse(f"a persistent id in {what}"))

    if described("the magic number") != _MAGIC or described("the version") != _PROTOCOL:
        raise ValueError("its version is unknown")
    system = described("the system's description")
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise ValueError("it was not written on a little-endian machine")
    start = cursor.position
    read_pickle(cursor, known, noted)
    keys = described("the list of storages")
    if not isinstance(keys, list) or not all(isinstance(k, str) and k in sizes for k in keys):
        raise ValueError("its list of storages isn't that of its tensors")
    storages: dict[str, Storage] = {}
    for key in keys:
        kind = sizes[key]
        count = int.from_bytes(file.part(cursor.position, 8, f"the size of storage {key}"), "little")
        data = file.part(cursor.position + 8, count * kind.itemsize, f"storage {key}")
        storages[key] = Storage(data, kind, "<")
        cursor.position += 8 + len(data)

    def found(pid: Any) -> Storage:
        kind, key, count = _storage_id(pid)
        if key not in storages or count > len(storages[key].data) // kind.itemsize:
            raise ValueError(f"storage {key} is missing or too small")
        return storages[key]

    return read_pickle(Cursor(file.data, start), names(functools.partial(_rebuilt, device)), found)


def _refuse(what: str) -> Any:
    raise Refused(what)
