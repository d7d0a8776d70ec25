"""How tensors print: as NumPy's arrays do, with dtype, device and whether gradients are wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dawdle.runtime.device import default_device
from dawdle.tensor.interop import item, numpy

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


def represent(x: Tensor) -> str:
    """``Tensor([...], dtype=..., device=..., requires_grad=...)``; what is as by default is left out.
    Realises.
    """
    name = type(x).__name__
    precision = {"float16": 4, "bfloat16": 3}.get(x.lazy.dtype.name, 4)
    text = np.array2string(numpy(x), separator=", ", prefix=f"{name}(", precision=precision)
    details = [f"shape={x.lazy.shape}"] if not x.lazy.size else []
    details.append(f"dtype={x.lazy.dtype.name}")
    if x.lazy.device != default_device():
        details.append(f"device={x.lazy.device!r}")
    if x.requires_grad:
        details.append("requires_grad=True")
    return f"{name}({text}, {', '.join(details)})"


def display(x: Tensor, spec: str) -> str:
    """A number's own formatting for a tensor of one element; the representation where nothing is specified.

    Raises ShapeError for a specification and another number of elements.
    """
    return format(item(x), spec) if spec else represent(x)
