"""What a tensor says of itself by the names of PyTorch and NumPy."""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING

from dawdle.tensor.autograd import DETACHED, Node
from dawdle.tensor.core import axis_of
from dawdle.tensor.interop import device_name, item, to

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


def numel(x: Tensor) -> int:
    """The number of elements."""
    return x.lazy.size


def dim(x: Tensor) -> int:
    """The number of dimensions."""
    return len(x.lazy.shape)


def stride(x: Tensor, dim: int | None = None) -> tuple[int, ...] | int:
    """How many elements lie between neighbours along each dimension, or along ``dim``: a value is laid out in
    row-major order, whatever it was made from.
    """
    shape = x.lazy.shape
    sizes = [max(n, 1) for n in shape[:0:-1]]
    steps = tuple(itertools.accumulate(sizes, operator.mul, initial=1))[::-1] if shape else ()
    return steps if dim is None else steps[axis_of(dim, len(shape), "stride", shape)]


def storage_offset(x: Tensor) -> int:
    """0: every value has memory of its own."""
    return 0


def is_complex(x: Tensor) -> bool:
    """False: there are no complex numbers."""
    return False


def is_signed(x: Tensor) -> bool:
    """Whether the dtype has negative values."""
    return x.lazy.dtype.is_signed


def is_nonzero(x: Tensor) -> bool:
    """Whether the only element is not 0. Raises ConversionError unless there is just one."""
    return bool(item(x))


def is_same_size(x: Tensor, other: Tensor) -> bool:
    """Whether the shapes are equal."""
    return x.lazy.shape == other.lazy.shape


def is_cuda(x: Tensor) -> bool:
    """Whether the elements are on a CUDA device."""
    return x.lazy.device.startswith("CUDA")


def is_cpu(x: Tensor) -> bool:
    """Whether the elements are in the host's memory."""
    return x.lazy.device in ("CPU", "NUMPY")


def cuda(x: Tensor) -> Tensor:
    """The same values on the device CUDA. Raises DeviceError where there is none."""
    return to(x, device=device_name("CUDA"))


def grad_fn(x: Tensor) -> Node | None:
    """What the tensor's gradient goes on through; None for a leaf."""
    node = x._node
    return node if node is not None and node.tracked and node.leaf is None else None


def detach_(x: Tensor) -> Tensor:
    """Let the handle forget what its value was computed from: a leaf that requires no gradients. Returns it.
    """
    x._node = DETACHED
    return x
