"""Parts of values in memory that need no kernel.

Where a slice lies is a constant of the graph: the batches of a training loop, ``images[i : i + 128]``, would
each be another graph and another plan. But most slices of a leaf are one piece of its memory. Graphs end at
those as they do at leaves: all batches have one plan, which is given a storage inside of the leaf's, and the
rounds of an unrolled loop have their kernels in common.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dawdle.dtype import Array, to_storage
from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer, Storage
from dawdle.lazy.interpret import evaluate
from dawdle.lazy.narrow import narrowed
from dawdle.lazy.ops import Op
from dawdle.lazy.simplify import on
from dawdle.lazy.walk import postorder
from dawdle.runtime.allocator import Buffer
from dawdle.runtime.compiled import CompiledDevice

CUT = 1 << 16  # bytes that NumPy brings into another order in less time than it takes to look for a kernel
CUTS = frozenset({Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.FLIP, Op.SLICE})
DEPTH = 16  # movements between a part and the leaf

Piece = tuple[LazyBuffer, int]  # a leaf, and the byte at which a piece of its memory begins


def piece(node: LazyBuffer) -> Piece | None:
    """Where the elements of ``node`` lie one after the other in the memory of a leaf, if they do."""
    offset = 0
    for _ in range(DEPTH):
        if node.op is Op.BUFFER:
            return node, offset * node.dtype.itemsize
        if node.op is Op.SLICE:
            inside = _offset(node)
            if inside is None:
                return None
            offset += inside
        elif node.op is not Op.RESHAPE:
            return None
        (node,) = node.src
    return None


def _offset(node: LazyBuffer) -> int | None:
    """At which of its operand's elements a slice begins, if it takes those that follow, and some."""
    offset, stride, whole = 0, 1, True
    for n, size, (start, _, step) in zip(
        reversed(node.shape), reversed(node.src[0].shape), reversed(node.arg), strict=True
    ):
        if n == 0 or (n > 1 and (step > 1 or not whole)):
            return None
        whole = whole and n == size
        offset += start * stride
        stride *= size
    return offset


class Pieces:
    """The slices of a graph that are pieces of leaves' memory, at places where the device can read them."""

    def __init__(self, device: CompiledDevice) -> None:
        self._device = device
        self._found: dict[tuple[LazyBuffer, int, tuple[int, ...]], LazyBuffer] = {}
        self._nodes: dict[LazyBuffer, LazyBuffer] = {}

    def end(self, node: LazyBuffer) -> LazyBuffer | None:
        """What stands for a slice: the first one that was asked for of those that are the same piece, or work
        on pieces. None if it is no piece and no such work.
        """
        known = self._nodes.get(node)
        if known is not None:
            return known
        at = piece(node)
        if at is None:
            other = narrowed(node)
        elif at[1] % self._device.part_alignment:
            return None
        else:
            other = self._found.setdefault((*at, node.shape), node)
        if other is not None:
            self._nodes[node] = other
        return other

    def storages(self, leaves: Sequence[LazyBuffer]) -> list[Buffer]:
        """Those of leaves, of which some are slices."""
        part, places = self._device.part, {node: at for at, node in self._found.items()}
        return [
            x.arg if x.op is Op.BUFFER else part(places[x][0].arg, places[x][1], x.nbytes) for x in leaves
        ]

    def severed(
        self, outputs: Sequence[LazyBuffer], leaves: Sequence[LazyBuffer]
    ) -> tuple[list[LazyBuffer], list[LazyBuffer]]:
        """A graph that ends where :meth:`end` says, and its leaves. The graph's own nodes stay."""
        given = zip(leaves, self.storages(leaves), strict=True)
        ends = {x: build.buffer(s, x.shape, x.dtype, x.device) for x, s in given if x.op is Op.SLICE}
        others = self._nodes
        new = {node: ends[first] for node, first in others.items() if first in ends}

        def below(node: LazyBuffer) -> tuple[LazyBuffer, ...]:
            return () if node in new else (others[node],) if node in others else node.src

        for node in postorder(outputs, below):
            if node in others:
                new.setdefault(node, new[others[node]])
            else:
                new[node] = on(node, tuple([new[s] for s in node.src]))
        return [new[node] for node in outputs], [ends.get(x, x) for x in leaves]


def realize_parts(
    device: CompiledDevice, outputs: Sequence[LazyBuffer], load: Callable[[LazyBuffer], Array]
) -> list[LazyBuffer]:
    """Realise those values that are only parts of leaves, and give the others.

    In the host's memory they are copied, so that no more is kept than they are.
    """
    rest = []
    for node in outputs:
        at = piece(node)
        if at is not None and at[1] % device.part_alignment == 0:
            node.realize_as(_taken(device, node, *at))
        elif len(outputs) == 1 and not device.runs_behind and _is_cut(node):
            (array,) = evaluate([node], load)
            node.realize_as(device.from_numpy(to_storage(array, node.dtype), copy=False))
        else:
            rest.append(node)
    return rest


def _taken(device: CompiledDevice, node: LazyBuffer, leaf: LazyBuffer, offset: int) -> Storage:
    if node.nbytes == leaf.nbytes:
        storage: Storage = leaf.arg  # the same value in another shape
        return storage
    if device.host_memory:
        return device.from_numpy(device.read(leaf.arg, offset, node.dtype.storage, node.shape))
    return device.part(leaf.arg, offset, node.nbytes)


def _is_cut(node: LazyBuffer) -> bool:
    """Whether a value is a small part of a leaf, or its elements in another order."""
    if node.nbytes > CUT:
        return False
    while node.op in CUTS:
        (node,) = node.src
    return node.op is Op.BUFFER
