"""What the scheduler produces: an ordered list of steps, each a kernel, a device copy or a host function."""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import MOVEMENT, Op


@dataclass(frozen=True)
class Group:
    """One kernel: computes ``outputs`` over the iteration space ``space`` and reads ``inputs`` from memory.

    Everything between the two is inlined; an AFTER or CONTIGUOUS there is its operand's value. Each output's
    shape is ``space`` with some axes of size 1, or has the same axes as ``space`` but for those of size 1.
    ``reasons`` says why each output is materialised.
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
    """Run a CUSTOM node's function on the host. Its inputs may be aliases (see Schedule)."""

    output: LazyBuffer
    inputs: tuple[LazyBuffer, ...]


Step = Group | Transfer | HostCall


@dataclass(frozen=True)
class Schedule:
    """Steps in execution order. A node that is an alias, a reshape of a value in memory, shares its storage.

    ``aliases`` maps the id of such a node, an output or a host function's operand, to the node that holds the
    memory.
    """

    steps: tuple[Step, ...]
    outputs: tuple[LazyBuffer, ...]
    aliases: dict[int, LazyBuffer] = field(default_factory=dict)


def _described(node: LazyBuffer) -> str:
    return f"{node.op.name.lower()} {node.dtype.name}{list(node.shape)}"


def _inlined(group: Group) -> str:
    """The ops that a group computes, most frequent first; movement is left out."""
    known = {id(n) for n in group.inputs}
    counts: Counter[str] = Counter()
    stack = list(reversed(group.outputs))
    while stack:
        node = stack.pop()
        if id(node) in known:
            continue
        known.add(id(node))
        if node.op not in MOVEMENT and node.op is not Op.CONST:
            counts[node.op.name.lower()] += 1
        stack.extend(reversed(node.src[-1:] if node.op is Op.AFTER else node.src))
    return " ".join(f"{name}" if n == 1 else f"{name}*{n}" for name, n in counts.most_common())


def _lines(step: Step) -> list[str]:
    if isinstance(step, Transfer):
        return [f"copy {_described(step.input)} from {step.input.device} to {step.output.device}"]
    if isinstance(step, HostCall):
        return [f"host function {step.output.arg!r} of {', '.join(map(_described, step.inputs))}"]
    inputs = ", ".join(map(_described, step.inputs)) or "nothing"
    stores = [f"  stores {_described(n)}: {r}" for n, r in zip(step.outputs, step.reasons, strict=True)]
    return [f"kernel over {list(step.space)}: {_inlined(step)}", f"  reads {inputs}", *stores]


def format_schedule(schedule: Schedule) -> str:
    """The steps with their shapes and the reason for each value in memory: what ``DEBUG=3`` prints."""
    lines = []
    for number, step in enumerate(schedule.steps):
        first, *rest = _lines(step)
        lines += [f"{number}: {first}", *rest]
    return "\n".join(lines)
