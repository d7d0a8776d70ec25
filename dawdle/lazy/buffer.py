"""LazyBuffer: a node of the graph. It denotes one immutable array, computed only when it is realised."""
from __future__ import annotations

import math
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, Protocol

from dawdle.dtype import DType
from dawdle.lazy.ops import Op
from dawdle.lazy.walk import postorder


class Storage(Protocol):
    """Memory on a device that holds a value's elements in row-major order. The graph never looks inside."""

    @property
    def nbytes(self) -> int: ...


class LazyBuffer:
    """One array of the graph: ``op`` applied to ``src``, with the parameters ``arg``.

    Build nodes with the functions of :mod:`dawdle.lazy.build`, which check and infer. A node never changes
    its value; realising turns it into a BUFFER leaf (see :meth:`realize_as`), which frees the graph below it.
    """

    __slots__ = ("__weakref__", "arg", "device", "dtype", "op", "shape", "src")

    def __init__(
        self, op: Op, src: tuple[LazyBuffer, ...], arg: Any, shape: tuple[int, ...], dtype: DType, device: str
    ) -> None:
        self.op = op
        self.src = src
        self.arg = arg
        self.shape = shape
        self.dtype = dtype
        self.device = device

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def is_realized(self) -> bool:
        return self.op is Op.BUFFER

    def realize_as(self, storage: Storage) -> None:
        """Become the BUFFER leaf of this value, which ``storage`` now holds; the operands are let go."""
        self.op, self.src, self.arg = Op.BUFFER, (), storage

    def __repr__(self) -> str:
        arg = "" if self.arg is None or self.op is Op.BUFFER else f" {self.arg}"
        dtype = getattr(self.dtype, "name", self.dtype)  # the verifier prints malformed nodes too
        return f"<{self.op.name}{arg} {dtype}{list(self.shape)} {self.device}>"


def toposort(roots: Iterable[LazyBuffer]) -> list[LazyBuffer]:
    """Every node reachable from ``roots``, operands before users, each once."""
    return postorder(roots, attrgetter("src"))


def format_graph(roots: Iterable[LazyBuffer]) -> str:
    """The graph as numbered lines, operands before users: what ``DEBUG=6`` prints."""
    names: dict[int, str] = {}
    lines = []
    for i, node in enumerate(toposort(roots)):
        names[id(node)] = f"%{i}"
        words = [f"%{i} =", node.op.name.lower(), *(names[id(s)] for s in node.src)]
        if node.arg is not None and node.op is not Op.BUFFER:
            words.append(str(node.arg))
        lines.append(f"{' '.join(words)} : {node.dtype.name}{list(node.shape)}")
    return "\n".join(lines)
