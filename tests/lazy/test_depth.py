"""Deep and shared graphs: no recursion, no exponential walk, and time linear in the number of nodes."""
from __future__ import annotations

import time

import numpy as np
from random_graphs import leaf, values_of

from dawdle.dtype import float32, int64
from dawdle.lazy import build
from dawdle.lazy.buffer import format_graph, toposort
from dawdle.lazy.ops import Op
from dawdle.lazy.simplify import simplify
from dawdle.lazy.verify import verify_graph


def chain(n):
    x = leaf([1.0], float32)
    y = x
    for i in range(n):
        y = build.binary(Op.ADD, y, x) if i % 2 else build.unary(Op.NEG, y)
    return y


def test_a_chain_of_100000_ops():
    y = chain(100_000)
    assert len(toposort([y])) == 100_001
    verify_graph([y])
    (simple,) = simplify([y])
    assert len(toposort([simple])) == 100_001
    np.testing.assert_array_equal(values_of(simple), values_of(y))
    assert format_graph([y]).count("\n") == 100_000


def test_a_chain_that_vanishes():
    x = y = leaf([1.0, 2.0], float32)
    for _ in range(10_000):
        y = build.unary(Op.NEG, build.flip(y, (0,)))
    (simple,) = simplify([y])
    assert len(toposort([simple])) <= 20_001
    np.testing.assert_array_equal(values_of(simple), values_of(x))
    for _ in range(100_000):
        x = build.flip(x, (0,))
    (simple,) = simplify([x])
    assert simple.op is Op.BUFFER


def test_a_diamond_of_60_levels():
    x = leaf([1], int64)
    y = x
    for _ in range(60):
        y = build.binary(Op.ADD, y, y)
    verify_graph([y])
    assert len(toposort(simplify([y]))) == 61
    np.testing.assert_array_equal(values_of(y)[0], [2**60])


def test_a_diamond_written_twice_is_one():
    x = leaf([3], int64)
    a, b = x, x
    for _ in range(60):
        c, d = build.unary(Op.NEG, b), build.unary(Op.NEG, b)
        a, b = build.binary(Op.XOR, a, c), build.binary(Op.XOR, d, a)
    first, second = simplify([a, b])
    assert first is second
    assert len(toposort([first])) == 121


def test_simplify_takes_linear_time():
    def seconds(n):
        y = chain(n)
        start = time.perf_counter()
        simplify([y])
        return time.perf_counter() - start

    seconds(1000)
    small, large = (min(seconds(n) for _ in range(3)) for n in (2_500, 20_000))
    assert large < 30 * small  # 8 if linear, 64 if quadratic
