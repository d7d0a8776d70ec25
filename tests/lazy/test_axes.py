"""Abstract indices say where elements are read: checked against moved arrays, element by element."""
from __future__ import annotations

import math

import numpy as np
from hypothesis import HealthCheck, given, settings
from random_graphs import graphs, leaf, values_of

from dawdle.dtype import int64
from dawdle.lazy import build
from dawdle.lazy.axes import Access, Axes, Index, factor_groups, free, is_injective
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import MOVEMENT, Op

# what each kind of index computes from its operands
MEANING = {
    "zero": lambda arg, src: 0,
    "merge": lambda shape, src: sum(i * math.prod(shape[a + 1 :]) for a, i in enumerate(src)),
    "digit": lambda arg, src: src[0] // arg[0] % arg[1],
    "flip": lambda n, src: n - 1 - src[0],
    "slice": lambda arg, src: arg[0] + arg[1] * src[0],
    "pad": lambda arg, src: (src[0] - arg[1]) / (arg[3] + 1),
    "window": lambda arg, src: src[0] * arg[1] + src[1] * arg[2],
}


def evaluate(index: Index, values: dict[Index, int]) -> float:
    if index.kind == "range":
        return values[index]
    return MEANING[index.kind](index.arg, [evaluate(s, values) for s in index.src])


def ranges_of(axes: Axes, node: LazyBuffer) -> Access:
    return tuple(axes.range(n) for n in node.shape)


def through(axes: Axes, node: LazyBuffer, index: Access) -> tuple[LazyBuffer, Access]:
    while node.op in MOVEMENT:
        index = axes.move(node, index)
        node = node.src[0]
    return node, index


def numbered(node: LazyBuffer) -> LazyBuffer:
    """The same movement of an array of 1, 2, 3, ..."""
    chain = []
    while node.op in MOVEMENT:
        chain.append(node)
        node = node.src[0]
    moved = leaf(np.arange(1, node.size + 1).reshape(node.shape), int64)
    for n in reversed(chain):
        moved = LazyBuffer(n.op, (moved,), n.arg, n.shape, n.dtype, n.device)
    return moved


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(dtypes=(int64,), ops=MOVEMENT, max_nodes=8))
def test_indices_of_random_movement(outputs):
    axes = Axes()
    node = numbered(outputs[-1])
    ranges = ranges_of(axes, node)
    source, index = through(axes, node, ranges)
    (array,) = values_of(node)
    seen = set()
    repeats = False
    for point in np.ndindex(*node.shape):
        at = tuple(evaluate(t, dict(zip(ranges, point, strict=True))) for t in index)
        if array[point]:  # not padding
            assert np.ravel_multi_index(tuple(int(i) for i in at), source.shape) == array[point] - 1
            assert all(i == int(i) for i in at)
            repeats |= at in seen
            seen.add(at)
    used = {r for r in ranges if r.kind == "range"}
    if is_injective(index, source.size) and free(index) == used:
        assert not repeats
    assert free(index) <= used


def unchanged(node: LazyBuffer) -> bool:
    axes = Axes()
    ranges = ranges_of(axes, node)
    return through(axes, node, ranges)[1] == ranges


def test_movement_that_undoes_itself_is_seen_through():
    x = leaf(np.zeros((4, 6, 5)), int64)
    flat = build.reshape(x, (120,))
    assert unchanged(build.reshape(build.permute(build.reshape(x, (4, 30)), (0, 1)), (4, 6, 5)))
    swapped = build.permute(build.permute(x, (2, 0, 1)), (1, 2, 0))
    assert unchanged(swapped)
    assert unchanged(build.flip(build.flip(x, (0, 2)), (2, 0)))
    padded = build.pad(x, [(1, 0, 0), (0, 2, 1), (0, 0, 0)])
    assert not unchanged(padded)
    axes = Axes()
    cut = build.slice_(x, [(1, 4, 1), (0, 6, 2), (0, 5, 1)])
    filled = build.pad(cut, [(1, 0, 0), (0, 0, 1), (0, 0, 0)])
    index = ranges_of(axes, filled)
    # what is padded and sliced back is read where it was, in the order in which users read: slice, then pad
    back = build.slice_(filled, [(1, 4, 1), (0, 5, 2), (0, 5, 1)])
    assert axes.move(filled, axes.move(back, index)) == index
    assert not unchanged(build.reshape(build.flip(flat, (0,)), (4, 6, 5)))


def test_reshapes_in_several_steps_are_one():
    axes = Axes()
    x = leaf(np.zeros((4, 6, 5)), int64)
    flat = build.reshape(x, (24, 5))
    lifted = LazyBuffer(Op.RESHAPE, (flat,), (2, 2, 30), (2, 2, 30), int64, "NUMPY")
    index = ranges_of(axes, lifted)
    assert through(axes, lifted, index)[1] == axes.move(build.reshape(x, (2, 2, 30)), index)


def test_equal_accesses_are_one_object():
    axes = Axes()
    x = leaf(np.zeros((4, 6)), int64)
    index = ranges_of(axes, x)
    windows = [build.window(x, [(3, 1, 1)]) for _ in range(2)]
    inner = ranges_of(axes, windows[0])
    first, second = (axes.move(w, inner) for w in windows)
    assert first == second and first[1] is second[1] and not is_injective(first, x.size)
    assert axes.move(build.permute(x, (1, 0)), index[::-1]) == index


def test_expanded_axes_are_not_depended_on():
    axes = Axes()
    y = build.expand(leaf(np.zeros((4, 1)), int64), (4, 6))
    index = ranges_of(axes, y)
    assert axes.move(y, index) == (index[0], axes.zero)


def test_factor_groups():
    assert factor_groups((4, 6, 5), (24, 5)) == [([0, 1], [0]), ([2], [1])]
    assert factor_groups((1, 4, 1, 6), (2, 2, 6, 1)) == [([1], [0, 1]), ([3], [2])]
    assert factor_groups((6, 4), (4, 6)) == [([0, 1], [0, 1])]
    assert factor_groups((), (1, 1)) == []
