"""Ways in and out: NumPy, lists, Python numbers, DLPack, other dtypes and devices."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from dawdle import dtype as dt
from dawdle.dtype import Array, DType, bfloat16, from_storage, to_dtype, to_storage
from dawdle.errors import (
    ArgumentError,
    ConversionError,
    DTypeError,
    InterchangeError,
    RangeError,
    ShapeError,
)
from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import Op
from dawdle.runtime.device import default_device, get_device
from dawdle.runtime.executor import realize as realize_buffers
from dawdle.runtime.executor import realize_later
from dawdle.runtime.trace import is_tracing, note_read
from dawdle.tensor.autograd import record
from dawdle.tensor.core import apply, cast, fitting, is_scalar, number_of
from dawdle.tensor.dlpack import HOST, exported, imported

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


def device_name(device: str | None) -> str:
    """The canonical name of ``device``, or of the default one."""
    return default_device() if device is None else get_device(device).name


@dataclass(frozen=True)
class HostData:
    """An array in the storage dtype of ``dtype``. ``weak``: only Python's default, replaced by ours."""

    array: Array
    dtype: DType
    weak: bool = False

    @property
    def values(self) -> Array:
        return from_storage(self.array, self.dtype)


def _first_leaf(data: Any) -> Any:
    while isinstance(data, (list, tuple, range)) and data:
        data = data[0]
    return data


def _of_array(array: Array, weak: bool = False) -> HostData:
    """The elements of an ndarray, whose dtype may also be the bfloat16 of ml_dtypes."""
    if array.dtype.name == bfloat16.name:
        return HostData(array.view(bfloat16.storage), bfloat16)
    if array.dtype.kind not in "biuf":
        raise DTypeError(
            f"can't make a tensor of dtype {array.dtype} data; pass numbers, lists of them or an array"
        )
    return HostData(array, to_dtype(array.dtype), weak)


def _of_list(data: Sequence[Any]) -> HostData:
    """Tensors beside numbers give the dtype that they have together."""
    leaf = _first_leaf(data)
    tensors = [t for t in data if hasattr(t, "lazy")]
    try:
        array = np.array([t.numpy() if hasattr(t, "lazy") else t for t in data] if tensors else data)
    except ValueError:
        raise ShapeError("a nested list must be regular: its rows have different lengths") from None
    if tensors and len(tensors) < len(data) and all(hasattr(t, "lazy") or is_scalar(t) for t in data):
        kind = functools.reduce(dt.promote, [t.lazy.dtype for t in tensors])
        for number in data:
            kind = kind if hasattr(number, "lazy") else dt.promote_scalar(kind, number_of(number))
        return HostData(to_storage(array.astype(kind.compute), kind), kind)
    weak = isinstance(leaf, (bool, int, float, list, tuple, range)) and not isinstance(leaf, np.generic)
    if weak and (array.dtype == object or (array.dtype.kind == "f" and (array >= 2.0**63).any())):
        array = _of_integers(np.array(data, object), array)
    return _of_array(array, weak)


def _of_integers(exact: Array, rounded: Array) -> Array:
    """Integers too large for int64, which NumPy keeps as objects or rounds to floats beside smaller ones;
    ``rounded`` where there are others than integers.
    """
    if not all(isinstance(value, int) for value in exact.flat):
        return rounded
    low, high = exact.min(), exact.max()
    if low < 0 or high > dt.uint64.max:
        raise RangeError(f"integers from {low} to {high} are out of the range of any dtype")
    return exact.astype(np.uint64)


def _of_number(value: bool | int | float) -> HostData:
    array = np.asarray(value)
    if array.dtype == object:
        raise RangeError(f"integers from {value} to {value} are out of the range of any dtype")
    return HostData(array, to_dtype(array.dtype), True)


def host_data(data: Any) -> HostData:
    """The elements of numbers, nested lists, arrays, and of what exports DLPack, arrays or buffers.

    Raises ShapeError for ragged lists, DTypeError for what holds no numbers, RangeError for huge ones.
    """
    if isinstance(data, (np.ndarray, np.generic)):
        return _of_array(np.asarray(data))
    if isinstance(data, (bool, int, float)):
        return _of_number(data)
    if isinstance(data, (list, tuple, range)):
        return _of_list(data)
    if hasattr(data, "__dlpack__"):
        try:
            return HostData(*imported(data))
        except (InterchangeError, DTypeError):
            if not hasattr(data, "__array__"):
                raise
    if hasattr(data, "__array__"):
        return _of_array(np.asarray(data))
    try:
        return _of_array(np.asarray(memoryview(data)))
    except TypeError:
        raise DTypeError(
            f"can't make a tensor of {type(data).__name__}; pass numbers, lists of them or an array"
        ) from None


def from_data(data: Any, dtype: object | None, device: str | None, copy: bool | None = True) -> LazyBuffer:
    """A BUFFER leaf with the elements of ``data`` in ``dtype`` (its own by default).

    ``copy`` None copies only where the memory can't be used as it is; False raises InterchangeError there.
    """
    host = data if isinstance(data, HostData) else host_data(data)
    array, own = host.array, host.dtype
    kind = to_dtype(dtype) if dtype is not None else dt.DEFAULT_FLOAT if host.weak and own.is_float else own
    if host.weak and not array.size and dtype is None:
        kind = dt.DEFAULT_FLOAT
    if host.weak and own.is_int and array.size:
        fitting(int(array.max()), kind)
        fitting(int(array.min()), kind)
    converted = array
    if kind != own or not array.dtype.isnative:
        with np.errstate(all="ignore"):
            converted = to_storage(host.values.astype(kind.compute), kind)
    place = get_device(device_name(device))
    fits_as_it_is = array.flags.c_contiguous and array.flags.aligned and place.host_memory
    if copy is False and not (converted is array and fits_as_it_is):
        raise InterchangeError(
            f"can't use this memory without a copy: {own.name} elements, shape {array.shape}, strides"
            f" {array.strides}, for {kind.name} on {place.name}; pass copy=None or copy=True"
        )
    if not converted.flags.aligned:
        converted = converted.copy()
    storage = place.from_numpy(
        np.ascontiguousarray(converted).reshape(array.shape), copy=copy is True and converted is array
    )
    return build.buffer(storage, array.shape, kind, place.name)


def from_numpy(cls: type[Tensor], array: Array, device: str | None = None) -> Tensor:
    """A tensor on the memory of a C-contiguous array, without a copy where the device's memory is the host's.

    The array must not be written to afterwards. Other layouts are copied.
    """
    if not isinstance(array, np.ndarray):
        raise DTypeError(f"from_numpy takes an ndarray, got {type(array).__name__}; use Tensor(...)")
    return cls._wrap(from_data(array, None, device, copy=None))


def from_dlpack(
    cls: type[Tensor], source: Any, device: str | None = None, copy: bool | None = None
) -> Tensor:
    """A tensor on the memory of any object with ``__dlpack__``, or of a capsule that one has given.

    Without ``copy`` the memory is shared where it is C-contiguous and ``device`` computes in the host's:
    who else can write to it must not do so afterwards, as a tensor's value is immutable. ``copy=True`` makes
    the tensor independent; ``copy=False`` raises InterchangeError where the memory can't be shared. Raises
    DTypeError for elements that no dtype holds (complex numbers, 8-bit floats).
    """
    return cls._wrap(from_data(HostData(*imported(source, copy)), None, device, copy))


def _realize_now(x: Tensor) -> None:
    note_read(x)
    realize_buffers([x.lazy])


def view(x: Tensor) -> Array:
    """A read-only array of the elements in the storage dtype: no copy where the memory is the host's."""
    _realize_now(x)
    lazy = x.lazy
    return get_device(lazy.device).view(lazy.arg, lazy.dtype.storage, lazy.shape)


def dlpack(
    x: Tensor,
    *,
    stream: object | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """The DLPack capsule of the elements on the host, for ``torch.from_dlpack`` and others.

    Importers that know DLPack 1.0 (``max_version``) share the memory, where the device computes in the
    host's, and are told that it is read-only; PyTorch doesn't keep them from writing to it, but they must
    not. Others get a copy of their own. ``stream`` is for memory elsewhere and means nothing here. Raises
    InterchangeError for ``copy=False`` where a copy is needed, and for another ``dl_device`` than the host.
    """
    return exported(x, view(x), max_version, dl_device, copy)


def dlpack_device(x: Tensor) -> tuple[int, int]:
    """(1, 0): tensors are exported in the host's memory."""
    return HOST


_WRITABLE = 1  # inspect.BufferFlags.WRITABLE, which Python has from 3.12 on


def buffer(x: Tensor, flags: int) -> memoryview:
    """What ``memoryview(tensor)`` gives from Python 3.12 on: the elements, read-only, in row-major order.

    Without a copy where the device's memory is the host's. Raises InterchangeError for bfloat16, which the
    buffer protocol doesn't know, and where writable memory is asked for.
    """
    if x.lazy.dtype is bfloat16:
        raise InterchangeError("Python's buffers don't know bfloat16; cast with .float() first")
    if flags & _WRITABLE:
        raise InterchangeError("a tensor's memory is read-only; take .numpy(), which is a copy")
    return view(x).data


def numpy(x: Tensor) -> Array:
    """The elements as a fresh, writable array; bfloat16 as float32."""
    _realize_now(x)
    lazy = x.lazy
    stored = get_device(lazy.device).to_numpy(lazy.arg, lazy.dtype.storage, lazy.shape)
    return from_storage(stored, lazy.dtype)


def array(x: Tensor, dtype: Any = None, copy: bool | None = None) -> Array:
    """What ``np.asarray(tensor)`` gives: a read-only array on the tensor's memory where that is the host's,
    unless ``copy`` is True or ``dtype`` is another one. Raises ArgumentError, a ValueError, for
    ``copy=False`` where one is needed.
    """
    lazy = x.lazy
    out = from_storage(view(x), lazy.dtype)
    out = out if dtype is None else out.astype(dtype, copy=False)
    shared = out.dtype == lazy.dtype.storage and get_device(lazy.device).host_memory
    if copy is False and not shared:
        raise ArgumentError(f"an array of {out.dtype} needs a copy of {lazy.dtype.name} on {lazy.device}")
    return out.copy() if copy and not out.flags.writeable else out


def array_function(x: Tensor, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """NumPy's functions of tensors work on their elements and give arrays."""
    return function(*_as_arrays(list(args)), **{k: _as_arrays(v) for k, v in kwargs.items()})


def _as_arrays(value: Any) -> Any:
    if type(value) in (list, tuple):
        return type(value)(_as_arrays(v) for v in value)
    return array(value) if hasattr(value, "lazy") else value


# by version of the array API standard; who implements one enters it
NAMESPACES: dict[str, ModuleType] = {}


def array_namespace(x: Tensor, *, api_version: str | None = None) -> ModuleType:
    """The functions of the array API standard for tensors: ``dawdle.array_api``. Raises ArgumentError, a
    ValueError, for a version that it doesn't implement.
    """
    if api_version is None:
        return next(reversed(NAMESPACES.values()))
    if api_version not in NAMESPACES:
        raise ArgumentError(
            f"version {api_version!r} of the array API is not implemented, {', '.join(NAMESPACES)} is"
        )
    return NAMESPACES[api_version]


def item(x: Tensor) -> bool | int | float:
    """The only element as a Python number. Raises ConversionError unless there is just one."""
    if x.lazy.size != 1:
        raise ConversionError(
            f"only a tensor with one element is a Python number, this one has shape {x.lazy.shape}; "
            "reduce it (.sum(), .any(), .all()) or use .tolist()"
        )
    value: bool | int | float = from_storage(view(x), x.lazy.dtype).reshape(()).item()
    return value


def tolist(x: Tensor) -> Any:
    """The elements as nested lists of Python numbers (a number for a 0-dimensional tensor)."""
    return from_storage(view(x), x.lazy.dtype).tolist()


def length(x: Tensor) -> int:
    """The size of the first dimension. Raises ConversionError where there is none."""
    if not x.lazy.shape:
        raise ConversionError("a 0-dimensional tensor has no length; reshape it to (1,)")
    return x.lazy.shape[0]


def iterate(x: Tensor) -> Iterator[Tensor]:
    """The slices along the first dimension.

    The tensor is realised once and cut on the host, so that a loop doesn't compile a kernel for each.
    """
    n = length(x)
    if is_tracing():
        return iter([x[i] for i in range(n)])
    return (_row(x, row, i) for i, row in enumerate(view(x)))


def _row(x: Tensor, elements: Array, i: int) -> Tensor:
    """``x[i]``, whose elements are known already."""
    shape, kind, device = x.lazy.shape, x.lazy.dtype, x.lazy.device
    storage = get_device(device).from_numpy(np.asarray(elements), copy=False)
    wide = build.buffer(storage, (1, *shape[1:]), kind, device)
    ranges = ((i, i + 1, 1), *[(0, m, 1) for m in shape[1:]])
    part = x._new(wide, record(Op.SLICE, ranges, (x,), wide))
    row = build.buffer(storage, shape[1:], kind, device)
    return x._new(row, record(Op.RESHAPE, shape[1:], (part,), row))


def realize(x: Tensor, *others: Tensor) -> Tensor:
    """Compute the values of these tensors now, together, and let go of the graphs below them. Returns the
    first.
    """
    realize_later([t.lazy for t in (x, *others)])
    return x


def to(x: Tensor, *args: Any, dtype: object | None = None, device: str | None = None) -> Tensor:
    """The tensor in another dtype or on another device: ``x.to("CPU")``, ``x.to(float16)``, ``x.to(device=,
    dtype=)``; ``x.to(other)`` in those of another tensor.
    """
    for a in args:
        if hasattr(a, "lazy"):
            dtype, device = a.lazy.dtype, a.lazy.device
            continue
        if isinstance(a, str) and a not in dt.BY_NAME:
            device = a
        elif a is not None:
            dtype = a
    kind = x.lazy.dtype if dtype is None else to_dtype(dtype)
    place = x.lazy.device if device is None else device_name(device)
    out = cast(x, kind) if kind.itemsize <= x.lazy.dtype.itemsize else x  # move the fewer bytes
    if place != x.lazy.device:
        out = apply(Op.COPY, (x.lazy.device, place), out)
    out = cast(out, kind)
    return apply(Op.RESHAPE, x.lazy.shape, x) if out is x else out  # a handle of its own


def casts(kind: DType) -> Callable[[Tensor], Tensor]:
    """The method that converts to ``kind``."""

    def method(x: Tensor) -> Tensor:
        return apply(Op.CAST, kind, x)

    method.__name__ = kind.name
    method.__doc__ = f"The values in {kind.name}."
    return method


def bitcast(x: Tensor, dtype: object) -> Tensor:
    """The elements' bits read in another dtype of the same width. Raises DTypeError for a different width."""
    return apply(Op.BITCAST, to_dtype(dtype), x)


def as_bool(x: Tensor) -> bool:
    """Whether the only element is not zero."""
    return bool(item(x))


def as_int(x: Tensor) -> int:
    """The only element as an integer, rounded towards zero."""
    return int(item(x))


def as_float(x: Tensor) -> float:
    """The only element as a float."""
    return float(item(x))


def as_complex(x: Tensor) -> complex:
    """The only element as a complex number."""
    return complex(item(x))


def index(x: Tensor) -> int:
    """The only element, where an integer is needed. Raises DTypeError unless it is one, ConversionError for
    several.
    """
    if not x.lazy.dtype.is_int:
        raise DTypeError(f"only integer tensors can be used as an index, got {x.lazy.dtype.name}")
    return int(item(x))
