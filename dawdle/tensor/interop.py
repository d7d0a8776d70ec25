"""Ways in and out: NumPy, lists, Python numbers, DLPack, other dtypes and devices."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from dawdle import dtype as dt
from dawdle.dtype import Array, DType, from_storage, to_dtype, to_storage
from dawdle.errors import DTypeError, GradientError, RangeError, ShapeError
from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import Op
from dawdle.runtime.device import default_device, get_device
from dawdle.runtime.executor import realize as realize_buffers
from dawdle.runtime.executor import realize_later
from dawdle.runtime.trace import is_tracing, note_read
from dawdle.tensor.core import apply, cast, fitting

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


def device_name(device: str | None) -> str:
    """The canonical name of ``device``, or of the default one."""
    return default_device() if device is None else get_device(device).name


def _first_leaf(data: Any) -> Any:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return data


def to_array(data: Any) -> tuple[Array, bool]:
    """``data`` as an array, and whether its dtype is only Python's default and may be replaced by ours.

    Raises ShapeError for ragged lists, DTypeError for what holds no numbers, RangeError for huge ones.
    """
    if isinstance(data, (bool, int, float)) and not isinstance(data, np.generic):
        array, weak = np.asarray(data), True
    elif isinstance(data, (list, tuple)):
        leaf = _first_leaf(data)
        if hasattr(leaf, "lazy"):
            data = [t.numpy() if hasattr(t, "lazy") else t for t in data]
        try:
            array = np.array(data)
        except ValueError:
            raise ShapeError("a nested list must be regular: its rows have different lengths") from None
        weak = not isinstance(leaf, (np.ndarray, np.generic)) and not hasattr(leaf, "lazy")
    elif hasattr(data, "__array__") or isinstance(data, np.generic):
        array, weak = np.asarray(data), False
    elif hasattr(data, "__dlpack__"):
        array, weak = np.from_dlpack(data), False
    else:
        raise DTypeError(
            f"can't make a tensor of {type(data).__name__}; pass numbers, lists of them or an array"
        )
    if weak and array.dtype == object and all(isinstance(value, int) for value in array.flat):
        raise RangeError(f"integers from {array.min()} to {array.max()} are out of the range of any dtype")
    if array.dtype.kind not in "biuf":
        raise DTypeError(
            f"can't make a tensor of dtype {array.dtype} data; pass numbers, lists of them or an array"
        )
    return array, weak


def from_data(data: Any, dtype: object | None, device: str | None, copy: bool = True) -> LazyBuffer:
    """A BUFFER leaf with the elements of ``data`` in ``dtype`` (its own by default)."""
    array, weak = to_array(data)
    own = to_dtype(array.dtype)
    kind = to_dtype(dtype) if dtype is not None else dt.DEFAULT_FLOAT if weak and own.is_float else own
    if weak and not array.size and dtype is None:
        kind = dt.DEFAULT_FLOAT
    if weak and own.is_int and array.size:
        fitting(int(array.max()), kind)
        fitting(int(array.min()), kind)
    converted = array
    if kind != own or not array.dtype.isnative:
        with np.errstate(all="ignore"):
            converted = to_storage(array.astype(kind.compute), kind)
    place = get_device(device_name(device))
    storage = place.from_numpy(
        np.ascontiguousarray(converted).reshape(array.shape), copy=copy and converted is array
    )
    return build.buffer(storage, array.shape, kind, place.name)


def from_numpy(cls: type[Tensor], array: Array, device: str | None = None) -> Tensor:
    """A tensor on the memory of a C-contiguous array, without a copy where the device's memory is the host's.

    The array must not be written to afterwards. Other layouts are copied.
    """
    if not isinstance(array, np.ndarray):
        raise DTypeError(f"from_numpy takes an ndarray, got {type(array).__name__}; use Tensor(...)")
    return cls._wrap(from_data(array, None, device, copy=False))


def from_dlpack(cls: type[Tensor], source: Any, device: str | None = None) -> Tensor:
    """A tensor on the memory of any object with ``__dlpack__``, without a copy where it is C-contiguous host
    memory.
    """
    try:
        array = np.from_dlpack(source)
    except (BufferError, RuntimeError, TypeError) as error:
        raise DTypeError(f"can't import this DLPack object: {error}") from None
    return cls._wrap(from_data(array, None, device, copy=False))


def _realize_now(x: Tensor) -> None:
    note_read(x)
    realize_buffers([x.lazy])


def view(x: Tensor) -> Array:
    """A read-only array of the elements in the storage dtype, without a copy where the memory is the host's.
    """
    _realize_now(x)
    lazy = x.lazy
    return get_device(lazy.device).view(lazy.arg, lazy.dtype.storage, lazy.shape)


def dlpack(x: Tensor, **options: Any) -> Any:
    """The DLPack capsule of the elements' memory, for ``torch.from_dlpack`` and others. They must not write
    to it.
    """
    if x.lazy.dtype is dt.bfloat16:
        raise DTypeError("NumPy's DLPack doesn't know bfloat16; cast with .float() first")
    memory = view(x)
    memory = memory.view()
    if not memory.flags.writeable:  # NumPy exports a read-only flag that most importers refuse
        memory = _writable(memory)
    return memory.__dlpack__(**options)


def _writable(array: Array) -> Array:
    """The same memory, not flagged as read-only."""
    interface = dict(array.__array_interface__)
    interface["data"] = (interface["data"][0], False)

    class Holder:
        __array_interface__ = interface
        owner = array

    return np.asarray(Holder())


def dlpack_device(x: Tensor) -> tuple[int, int]:
    """(1, 0): the memory is the host's."""
    return (1, 0)


def numpy(x: Tensor) -> Array:
    """The elements as a fresh, writable array; bfloat16 as float32."""
    _realize_now(x)
    lazy = x.lazy
    stored = get_device(lazy.device).to_numpy(lazy.arg, lazy.dtype.storage, lazy.shape)
    return from_storage(stored, lazy.dtype)


def array(x: Tensor, dtype: Any = None, copy: bool | None = None) -> Array:
    """What ``np.asarray(tensor)`` gives: a fresh array."""
    out = numpy(x)
    return out if dtype is None else out.astype(dtype, copy=False)


def item(x: Tensor) -> bool | int | float:
    """The only element as a Python number. Raises ShapeError unless there is just one."""
    if x.lazy.size != 1:
        raise ShapeError(
            f"only a tensor with one element is a Python number, this one has shape {x.lazy.shape}; "
            "reduce it (.sum(), .any(), .all()) or use .tolist()"
        )
    value: bool | int | float = from_storage(view(x), x.lazy.dtype).reshape(()).item()
    return value


def tolist(x: Tensor) -> Any:
    """The elements as nested lists of Python numbers (a number for a 0-dimensional tensor)."""
    return from_storage(view(x), x.lazy.dtype).tolist()


def length(x: Tensor) -> int:
    """The size of the first dimension."""
    if not x.lazy.shape:
        raise ShapeError("a 0-dimensional tensor has no length")
    return x.lazy.shape[0]


def iterate(x: Tensor) -> Iterator[Tensor]:
    """The slices along the first dimension.

    Without gradients the tensor is realised once and cut on the host, so that a loop doesn't compile a kernel
    for each.
    """
    n = length(x)
    if x.requires_grad or is_tracing():
        return iter([x[i] for i in range(n)])
    memory, lazy = view(x), x.lazy
    place = get_device(lazy.device)
    parts = (np.ascontiguousarray(memory[i]).reshape(lazy.shape[1:]) for i in range(n))
    return (x._new(build.buffer(place.from_numpy(p), p.shape, lazy.dtype, lazy.device)) for p in parts)


def realize(x: Tensor, *others: Tensor) -> Tensor:
    """Compute the values of these tensors now, together, and let go of the graphs below them. Returns the
    first.
    """
    realize_later([t.lazy for t in (x, *others)])
    return x


def to(x: Tensor, *args: Any, dtype: object | None = None, device: str | None = None) -> Tensor:
    """The tensor in another dtype or on another device: ``x.to("CPU")``, ``x.to(float16)``, ``x.to(device=,
    dtype=)``.
    """
    for a in args:
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


def duplicate(x: Tensor, memo: dict[int, Any]) -> Tensor:
    """A deep copy: another handle, a leaf, with a gradient of its own. Values are immutable and shared."""
    if not x.is_leaf:
        raise GradientError(
            "only leaf tensors can be deep-copied while they require gradients; detach() the tensor"
        )
    out = type(x).__new__(type(x))
    memo[id(x)] = out
    out.lazy, out._node, out._grad = x.lazy, None, None
    out.grad = None if x.grad is None else duplicate(x.grad, memo)
    out.requires_grad_(x.requires_grad)
    for name, value in getattr(x, "__dict__", {}).items():
        setattr(out, name, copy.deepcopy(value, memo))
    return out


def pickled(x: Tensor) -> tuple[Any, ...]:
    """How pickle rebuilds a tensor: from its elements."""
    state = dict(getattr(x, "__dict__", {}))
    return rebuilt, (type(x), numpy(x), x.lazy.dtype.name, x.lazy.device, x.requires_grad, state)


def rebuilt(
    cls: type[Tensor], array: Array, dtype: str, device: str, requires_grad: bool, state: dict[str, Any]
) -> Tensor:
    """The inverse of :func:`pickled`."""
    out = cls.__new__(cls)
    out.lazy, out._node, out._grad = from_data(array, dtype, device), None, None
    for name, value in state.items():
        setattr(out, name, value)
    return out.requires_grad_(requires_grad)


def index(x: Tensor) -> int:
    """The only element, where an integer is needed. Raises DTypeError unless it is one."""
    if not x.lazy.dtype.is_int:
        raise DTypeError(f"only integer tensors can be used as an index, got {x.lazy.dtype.name}")
    return int(item(x))
