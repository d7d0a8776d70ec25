"""How tensors print: as NumPy's arrays do, with dtype, device and whether gradients are wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dawdle.dtype import bfloat16, from_storage
from dawdle.runtime.device import default_device
from dawdle.tensor.interop import item, view

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

SHOWN = 1000  # elements, beyond which the middle is left out


def represent(x: Tensor) -> str:
    """``Tensor([...], dtype=..., device=..., requires_grad=...)``; what is as by default is left out.

    Of many elements the first and last are shown, and the shape. A result that gradients flow through names
    the operation that it comes from. Realises.
    """
    name, node = type(x).__name__, x._node  # realising lets go of what isn't tracked
    precision = 3 if x.lazy.dtype is bfloat16 else 4
    elements = from_storage(view(x), x.lazy.dtype)
    text = np.array2string(
        elements, separator=", ", prefix=f"{name}(", precision=precision, threshold=SHOWN
    )
    details = [text]
    if not 0 < x.lazy.size <= SHOWN:
        details.append(f"shape={x.lazy.shape}")
    details.append(f"dtype={x.lazy.dtype.name}")
    if x.lazy.device != default_device():
        details.append(f"device={x.lazy.device!r}")
    if x.requires_grad and node is not None:
        details.append("requires_grad=True" if node.op is None else f"grad_fn=<{node.op.value}>")
    return f"{name}({', '.join(details)})"


def display(x: Tensor, spec: str) -> str:
    """A number's own formatting for a tensor of one element; the representation where nothing is specified.

    Raises ShapeError for a specification and another number of elements.
    """
    return format(item(x), spec) if spec else represent(x)
