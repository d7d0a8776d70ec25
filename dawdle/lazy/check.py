"""Data-dependent indices and whether they are in range: CHECK nodes, found in a graph before it is compiled.

A CHECK is its operand, an integer index. The interpreter raises where it meets an index that is out of range;
kernels can't, so a compiled graph has one more output for each check: its flag, the worst index as an offset
from the least one that is allowed. The flag of an earlier run goes in and the greater comes out, so that
devices that run behind Python needn't be asked after each run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dawdle.dtype import int64, uint64
from dawdle.errors import IndexingError
from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer, toposort
from dawdle.lazy.ops import Op

Bounds = tuple[int, int, str]  # the least index, the first beyond the last one, and who asks


def out_of_range(bounds: Bounds, value: int) -> IndexingError:
    """The error for an index outside of its bounds."""
    low, high, what = bounds
    allowed = f"{low} to {high - 1} are allowed" if high else "it has no elements"
    return IndexingError(f"{what}: index {value} is out of range for a dimension of size {high}: {allowed}")


def from_flag(bounds: Bounds, flag: int) -> IndexingError | None:
    """What a flag says."""
    low, high, _ = bounds
    if flag < high - low:
        return None
    return out_of_range(bounds, int(np.uint64((flag + low) % 2**64).astype(np.int64)))


@dataclass(frozen=True)
class Flags:
    """The checks of a graph: their bounds, the nodes of their flags, and the leaves for the flags before."""

    bounds: tuple[Bounds, ...]
    nodes: tuple[LazyBuffer, ...]
    before: tuple[LazyBuffer, ...]


def flags_of(outputs: Sequence[LazyBuffer]) -> Flags:
    """Every check that is below ``outputs``, each once."""
    found = {(id(n.src[0]), n.arg): n for n in toposort(outputs) if n.op is Op.CHECK and n.size}
    checks = list(found.values())
    before = tuple(build.buffer(np.zeros((), np.uint64), (), uint64, n.device) for n in checks)
    pairs = zip(checks, before, strict=True)
    return Flags(tuple(n.arg for n in checks), tuple(_flag(n, leaf) for n, leaf in pairs), before)


def _flag(node: LazyBuffer, before: LazyBuffer) -> LazyBuffer:
    """Indices below the least one become the largest of offsets."""
    (index,) = node.src
    low = build.full(index.shape, node.arg[0], int64, index.device)
    offset = build.cast(build.binary(Op.SUB, build.cast(index, int64), low), uint64)
    worst = build.reshape(build.reduce(Op.AMAX, offset, range(index.ndim)), ())
    return build.binary(Op.MAX, before, worst)
