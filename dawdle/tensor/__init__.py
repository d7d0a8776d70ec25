"""Tensor: a handle on an immutable value. ``methods`` lists what it can do; the functions are in the files
beside this one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, TypeAlias

from dawdle.dtype import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    to_dtype,
    uint8,
)
from dawdle.errors import GradientError, ShapeError
from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import Op
from dawdle.runtime.trace import note_attribute, note_new, note_read
from dawdle.tensor import (
    attributes,
    autograd,
    backpropagation,
    copying,
    elementwise,
    hooks,
    interop,
    movement,
    printing,
    reduce,
)
from dawdle.tensor.arguments import check_methods
from dawdle.tensor.autograd import DETACHED, Node, enable_grad, no_grad
from dawdle.tensor.core import Operand, apply, axis_of, broadcast_shape, expand_to, fitting
from dawdle.tensor.methods.activations import Activations
from dawdle.tensor.methods.along import Along
from dawdle.tensor.methods.creation import Creation
from dawdle.tensor.methods.elements import Elements
from dawdle.tensor.methods.places import Places
from dawdle.tensor.methods.products import Products
from dawdle.tensor.methods.shape import Shape

Bool: TypeAlias = bool  # the class has methods of these names
Int: TypeAlias = int


class Count(int):
    """The number of elements of a shape. Calling it gives the shape, or the size of one dimension."""

    shape: tuple[Int, ...]

    def __new__(cls, shape: tuple[Int, ...]) -> Count:
        out = super().__new__(cls, math.prod(shape))
        out.shape = shape
        return out

    def __call__(self, dim: Int | None = None) -> Any:
        return self.shape if dim is None else self.shape[axis_of(dim, len(self.shape), "size", self.shape)]

    def __reduce__(self) -> Any:
        return Count, (self.shape,)


class Tensor(Creation, Elements, Activations, Along, Shape, Places, Products):
    """An array of one dtype on one device, computed when its elements are needed.

    ``Tensor(data, dtype=None, device=None, requires_grad=False)`` copies numbers, nested lists, NumPy arrays,
    and anything with ``__array__`` or ``__dlpack__``. Python's floats become float32 and its integers int64;
    arrays keep their dtype.

    A tensor denotes an immutable value: in-place operators, ``x[...] = y`` and :meth:`assign` make the handle
    denote another one, and whatever was computed from the old value before keeps it.
    """

    __slots__ = ("__weakref__", "_grad", "_node", "lazy")
    __hash__ = object.__hash__
    __array_priority__ = 1000  # so that ``ndarray + tensor`` comes to __radd__

    lazy: LazyBuffer
    _node: Node | None
    _grad: Tensor | None

    training: ClassVar[Bool] = False  # see train()

    def __init__(
        self, data: Any, dtype: object | None = None, device: str | None = None, requires_grad: Bool = False
    ) -> None:
        if isinstance(data, Tensor):
            with no_grad():
                self.lazy = interop.to(data, dtype=dtype, device=device).lazy
        elif isinstance(data, LazyBuffer):
            self.lazy = data
        else:
            self.lazy = interop.from_data(data, dtype, device)
        self._node = None
        self._grad = None
        note_new(self)
        self.requires_grad_(requires_grad)

    # ---- how operations make tensors

    def _new(self, lazy: LazyBuffer, node: Node | None = None) -> Tensor:
        out = Tensor.__new__(Tensor)
        out.lazy, out._node, out._grad = lazy, node, None
        note_new(out)
        return out

    @staticmethod
    def _wrap(lazy: LazyBuffer) -> Tensor:
        out = Tensor.__new__(Tensor)
        out.lazy, out._node, out._grad = lazy, None, None
        note_new(out)
        return out

    @staticmethod
    def _of(data: Any, device: str) -> Tensor:
        return Tensor._wrap(interop.from_data(data, None, device))

    @staticmethod
    def _iota(n: Int, dtype: DType | None, device: str) -> Tensor:
        return Tensor._wrap(build.iota(n, dtype or int64, device))

    _rebind = autograd.rebind
    _device_name = staticmethod(interop.device_name)

    # ---- properties

    @property
    def shape(self) -> tuple[Int, ...]:
        """The size of each dimension."""
        return self.lazy.shape

    @property
    def ndim(self) -> Int:
        """The number of dimensions."""
        return len(self.lazy.shape)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.lazy.dtype

    @property
    def device(self) -> str:
        """The name of the device that holds the elements."""
        return self.lazy.device

    @property
    def nbytes(self) -> Int:
        """Bytes that the elements take."""
        return self.lazy.nbytes

    @property
    def size(self) -> Count:
        """The number of elements, as in NumPy; ``x.size()`` is the shape and ``x.size(dim)`` the size of one
        dimension, as in PyTorch.
        """
        return Count(self.shape)

    def element_size(self) -> Int:
        """Bytes that one element takes."""
        return self.dtype.itemsize

    def is_floating_point(self) -> Bool:
        """Whether the dtype is a float."""
        return self.dtype.is_float

    itemsize = property(element_size)
    numel, nelement = attributes.numel, attributes.numel
    dim, ndimension = attributes.dim, attributes.dim
    stride, storage_offset = attributes.stride, attributes.storage_offset
    is_complex, is_signed = attributes.is_complex, attributes.is_signed
    is_nonzero, is_same_size = attributes.is_nonzero, attributes.is_same_size
    is_cuda, is_cpu = property(attributes.is_cuda), property(attributes.is_cpu)

    @property
    def T(self) -> Tensor:
        """The tensor with its dimensions in reverse order."""
        return movement.reversed_dims(self)

    @property
    def mT(self) -> Tensor:
        """The tensor with its last two dimensions exchanged."""
        return movement.matrix_transpose(self)

    H, mH, adjoint = T, mT, movement.matrix_transpose  # no element is complex

    # ---- gradients

    @property
    def requires_grad(self) -> Bool:
        """Whether gradients with respect to this tensor, or to what it was computed from, are recorded."""
        return self._node is not None and self._node.tracked

    @requires_grad.setter
    def requires_grad(self, wanted: Bool) -> None:
        self.requires_grad_(wanted)

    def requires_grad_(self, requires_grad: Bool = True) -> Tensor:
        """Say whether gradients with respect to this tensor are wanted. Raises GradientError unless it holds
        floats.
        """
        if requires_grad == self.requires_grad:
            return self
        if not requires_grad:
            self._node = None
        elif not self.lazy.dtype.is_float:
            raise GradientError(
                f"only floats have gradients, this tensor holds {self.lazy.dtype.name}; cast it with .float()"
            )
        else:
            self._node = autograd.leaf_node(self)
        return self

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward() has gathered for this leaf, None before."""
        note_attribute(self, "grad", False)
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        note_attribute(self, "grad", True)
        self._grad = value

    @property
    def is_leaf(self) -> Bool:
        """Whether the tensor was created, not computed from others that require gradients."""
        return self._node is None or not self._node.tracked or self._node.leaf is not None

    @property
    def data(self) -> Tensor:
        """The value without its gradients. What is done to this handle in place is done to the tensor, and
        isn't recorded: ``p.data.clamp_(-1, 1)``. Assigning to it makes the tensor denote another value.
        """
        return Data.of(self)

    @data.setter
    def data(self, value: Operand) -> None:
        with no_grad():
            self._rebind(value if isinstance(value, Tensor) else Tensor(value, device=self.device))

    def detach(self) -> Tensor:
        """The same value, which gradients don't flow through."""
        note_read(self)
        return self._new(self.lazy, DETACHED)

    def clone(self) -> Tensor:
        """The same value under another handle, which gradients flow through."""
        return apply(Op.RESHAPE, self.lazy.shape, self)

    @staticmethod
    @contextmanager
    def train(mode: Bool = True) -> Iterator[None]:
        """``with Tensor.train():`` sets ``Tensor.training``, which switches dropout on."""
        saved = Tensor.training
        Tensor.training = mode
        try:
            yield
        finally:
            Tensor.training = saved

    grad_fn, retains_grad = property(attributes.grad_fn), property(hooks.retains_grad)
    detach_, register_hook, retain_grad = attributes.detach_, hooks.register_hook, hooks.retain_grad
    backward = backpropagation.backward
    gradient = backpropagation.gradients
    no_grad = no_grad
    enable_grad = enable_grad

    # ---- in and out

    numpy = interop.numpy
    item = interop.item
    tolist = interop.tolist
    realize = interop.realize
    to = interop.to
    bitcast = interop.bitcast
    from_numpy = classmethod(interop.from_numpy)
    from_dlpack = classmethod(interop.from_dlpack)
    __array__ = interop.array
    __array_function__ = interop.array_function
    __array_namespace__ = interop.array_namespace
    __buffer__ = interop.buffer
    __dlpack__ = interop.dlpack
    __dlpack_device__ = interop.dlpack_device
    __len__ = interop.length
    __iter__ = interop.iterate
    __index__ = interop.index
    __repr__ = printing.represent
    __format__ = printing.display

    def __bool__(self) -> Bool:
        return interop.as_bool(self)

    def __int__(self) -> Int:
        return interop.as_int(self)

    def __float__(self) -> Any:
        return interop.as_float(self)

    def __complex__(self) -> complex:
        return interop.as_complex(self)

    def __contains__(self, value: Operand) -> Bool:
        return interop.as_bool(reduce.any(elementwise.eq(self, value)))

    def __copy__(self) -> Tensor:
        return copying.copied(self)

    def __deepcopy__(self, memo: dict[Int, Any]) -> Tensor:
        return copying.duplicate(self, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return copying.pickled(self)

    def to_device(self, device: str, /, *, stream: object | None = None) -> Tensor:
        """The same values on another device, as the array API standard names :meth:`to`; ``stream`` means
        nothing here.
        """
        return interop.to(self, device=device)

    cuda = attributes.cuda

    def cpu(self) -> Tensor:
        """The same values in the host's memory: on the device CPU, or NUMPY where they are there."""
        return self if self.device == "NUMPY" else interop.to(self, device="CPU")

    def astype(self, dtype: object) -> Tensor:
        """The values in another dtype."""
        return apply(Op.CAST, to_dtype(dtype), self)

    cast = type = astype

    def type_as(self, other: Tensor) -> Tensor:
        """The values in the dtype of ``other``."""
        return self.astype(other.dtype)

    def assign(self, value: Operand) -> Tensor:
        """Make this handle denote ``value``, broadcast and cast to its shape and dtype, on its device.
        Returns it.

        Raises ShapeError where the shape doesn't fit, RangeError for an integer that the dtype doesn't hold.
        """
        x = value if isinstance(value, Tensor) else Tensor(fitting(value, self.dtype), device=self.device)
        if broadcast_shape("assign", self.shape, x.shape) != self.shape:
            raise ShapeError(
                f"can't assign a value of shape {x.shape} to a tensor of shape {self.shape}; "
                "reshape or reduce it"
            )
        return self._rebind(expand_to(interop.to(x, self.dtype, device=self.device), self.shape))

    copy_ = assign

    # ---- dtypes; last, for their names are those of Python's own types

    half, bfloat16, double, long = (
        interop.casts(float16), interop.casts(bfloat16), interop.casts(float64), interop.casts(int64)
    )  # fmt: skip
    short, byte, char = interop.casts(int16), interop.casts(uint8), interop.casts(int8)
    float, int, bool = interop.casts(float32), interop.casts(int32), interop.casts(bool_)


for topic in (Tensor, *Tensor.__bases__):
    check_methods(topic)


class Data(Tensor):
    """What ``tensor.data`` gives: a handle that denotes what its owner denotes, and rebinds that. Whatever is
    made of it is a Tensor.
    """

    __slots__ = ("owner",)
    owner: Tensor

    def __new__(cls, *args: Any, **options: Any) -> Any:
        return Tensor(*args, **options) if args else Tensor.__new__(Tensor)

    @staticmethod
    def of(owner: Tensor) -> Data:
        """A handle on the value of ``owner``."""
        note_read(owner)
        out: Data = object.__new__(Data)
        out.owner, out._node, out._grad = owner, DETACHED, None
        note_new(out)
        return out

    @property
    def lazy(self) -> LazyBuffer:
        """The value of the owner."""
        return self.owner.lazy

    @lazy.setter
    def lazy(self, value: LazyBuffer) -> None:
        self.owner.lazy = value

    def _rebind(self, value: Tensor) -> Tensor:
        with no_grad():
            self.owner._rebind(value)
        return self
