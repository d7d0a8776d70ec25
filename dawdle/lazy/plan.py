"""What the scheduler produces: an ordered list of steps, each a kernel, a device copy or a host function."""
from __future__ import annotations

from dataclasses import dataclass, field

from dawdle.lazy.buffer import LazyBuffer


@dataclass(frozen=True)
class Group:
    """One kernel: it computes ``outputs`` over the iteration space ``space`` and reads ``inputs`` from memory.

    Everything between the two is inlined. Each output's shape is ``space`` with some axes of size 1, or has the same
    axes as ``space`` once those of size 1 are left out. ``reasons`` says why each output is materialised.
    """

    outputs: tuple[LazyBuffer, ...]
    inputs: tuple[LazyBuffer, ...]
    space: tuple[int, ...]
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Transfer:
    """Copy a materialised value to another device."""

    output: LazyBuffer
    input: LazyBuffer


@dataclass(frozen=True)
class HostCall:
    """Run a CUSTOM node's function on the host."""

    output: LazyBuffer
    inputs: tuple[LazyBuffer, ...]


Step = Group | Transfer | HostCall


@dataclass(frozen=True)
class Schedule:
    """Steps in execution order. A node that is an alias (a reshape of a materialised value) shares its storage.

    ``aliases`` maps the id of such a node to the node that holds the memory.
    """

    steps: tuple[Step, ...]
    outputs: tuple[LazyBuffer, ...]
    aliases: dict[int, LazyBuffer] = field(default_factory=dict)
