"""What the code generator knows of a machine. It never sees a device, only this."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)  # by position, a new field would shift the others' meaning
class Target:
    """Limits and sizes that recipes decide by."""

    name: str = "c"  # the renderer's dialect: "c", "opencl" or "cuda"
    kind: str = "cpu"  # the recipes: "cpu" or "gpu"
    vector_bytes: int = 32  # width of a SIMD register
    registers: int = 16  # SIMD registers
    threads: int = 1  # threads that share a kernel's parallel range
    l1: int = 32 << 10  # bytes of cache for each core
    l2: int = 512 << 10
    max_lanes: int = 32  # elements that a vector of the dialect may have
    max_local: int = 256  # work-items in a group, threads in a block
    local_bytes: int = 32 << 10  # memory that a group shares
    max_params: int = 0  # buffers that a kernel may take; 0: any number
    capability: tuple[int, int] | None = None  # of a CUDA device
    tf32: bool = False  # whether tensor cores may round float32 factors to 11 bits
    fp64: bool = True

    def lanes(self, itemsize: int) -> int:
        """Elements of ``itemsize`` bytes that fill a SIMD register."""
        return max(1, min(self.vector_bytes // itemsize, self.max_lanes))
