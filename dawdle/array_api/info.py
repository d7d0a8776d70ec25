"""What the namespace says of itself."""

from __future__ import annotations

from typing import Any

from dawdle.array_api.dtypes import BY_KIND
from dawdle.dtype import DEFAULT_FLOAT, DEFAULT_INT, DType
from dawdle.errors import DTypeError
from dawdle.runtime.device import default_device, devices

MAX_DIMS = 32  # of a NumPy array before 2.0, by which values come and go


class ArrayNamespaceInfo:
    """Answers of ``__array_namespace_info__()``."""

    def capabilities(self) -> dict[str, Any]:
        """What is optional in the standard and works here."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": MAX_DIMS}

    def default_device(self) -> str:
        """Where arrays are made unless a device is named."""
        return default_device()

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """The dtypes of what is made without one. There are no complex ones."""
        return {"real floating": DEFAULT_FLOAT, "integral": DEFAULT_INT, "indexing": DEFAULT_INT}

    def devices(self) -> list[str]:
        """The devices that work here."""
        return [status.name for status in devices() if status.works]

    def dtypes(
        self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """The dtypes of a kind, or of several, or all; without 16-bit floats, which the standard lacks."""
        kinds = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
        if unknown := set(kinds) - set(BY_KIND):
            raise DTypeError(f"unknown kinds of dtypes {sorted(unknown)}; known are {', '.join(BY_KIND)}")
        return {name: d for k in kinds for name, d in BY_KIND[k].items()}


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """What works here: capabilities, devices, dtypes."""
    return ArrayNamespaceInfo()
