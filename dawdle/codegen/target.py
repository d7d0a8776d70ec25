"""What the code generator knows of a machine. It never sees a device, only this."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """Limits and sizes that recipes decide by."""

    name: str = "c"  # the renderer's dialect
    vector_bytes: int = 32  # width of a SIMD register
    registers: int = 16  # SIMD registers
    threads: int = 1  # threads that share a kernel's parallel range
    l1: int = 32 << 10  # bytes of cache for each core
    l2: int = 512 << 10

    def lanes(self, itemsize: int) -> int:
        """Elements of ``itemsize`` bytes that fill a SIMD register."""
        return max(1, self.vector_bytes // itemsize)
