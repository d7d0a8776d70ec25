"""Kernels of the GPU recipes mean what the graph means: as kernels, and as loop trees that groups run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from random_graphs import leaf, leaves, load

from dawdle.codegen.generate import generate
from dawdle.codegen.interpret import run_groups, run_kernel
from dawdle.codegen.target import Target
from dawdle.codegen.verify import verify_kernel, verify_loops
from dawdle.dtype import float32, int64, to_storage
from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.interpret import evaluate
from dawdle.lazy.ops import Op
from dawdle.lazy.plan import Group

TARGET = Target(name="cuda", kind="gpu", max_local=32, max_lanes=4, local_bytes=48 << 10, capability=(8, 0))
RNG = np.random.default_rng(0)


def floats(*shape: int) -> LazyBuffer:
    return leaf(RNG.standard_normal(shape), float32)


def softmax() -> LazyBuffer:
    x = floats(3, 70)
    top = build.expand(build.reduce(Op.AMAX, x, [1]), x.shape)
    e = build.unary(Op.EXP2, build.binary(Op.SUB, x, top))
    return build.binary(Op.DIV, e, build.expand(build.reduce(Op.SUM, e, [1]), x.shape))


def chain() -> LazyBuffer:
    x = floats(7, 33)
    return build.binary(Op.MUL, build.binary(Op.ADD, x, x), x)


def column_sum() -> LazyBuffer:
    return build.reduce(Op.SUM, floats(40, 9), [0])


def total() -> LazyBuffer:
    return build.reduce(Op.SUM, floats(11, 13), [0, 1])


def prefix_sum() -> LazyBuffer:
    return build.scan(Op.ADD, floats(5, 12), 1)


def scatter() -> LazyBuffer:
    index = leaf(RNG.integers(-2, 9, (6, 37)), int64)
    return build.scatter(floats(7, 37), index, floats(6, 37), 0, Op.ADD)


def padded() -> LazyBuffer:
    return build.pad(floats(5, 6), [(1, 2, 1), (0, 3, 0)])


def matmul() -> LazyBuffer:
    m, n, k = 17, 18, 9
    a, b = build.reshape(floats(m, k), (m, 1, k)), build.reshape(floats(n, k), (1, n, k))
    product = build.binary(Op.MUL, build.expand(a, (m, n, k)), build.expand(b, (m, n, k)))
    return build.reduce(Op.SUM, product, [2])


def nearest() -> LazyBuffer:
    """A reduction inside of another: only one of them is shared among a group's threads."""
    a, b = (build.expand(x, (70, 65)) for x in (floats(70, 1), floats(1, 65)))
    return build.reduce(Op.AMAX, build.reduce(Op.SUM, build.binary(Op.MAX, a, b), [1]), [0])


def convolution() -> LazyBuffer:
    """Windows of one image, whose 17 results for each place are one partial tile."""
    x = build.window(floats(1, 3, 5, 16), [(2, 1, 1), (4, 2, 1)])
    full = (1, 17, 3, *x.shape[2:])
    x = build.expand(build.reshape(x, (1, 1, *x.shape[1:])), full)
    w = build.expand(build.reshape(floats(17, 3, 2, 4), (1, 17, 3, 1, 1, 2, 4)), full)
    return build.reduce(Op.SUM, build.binary(Op.MUL, x, w), [2, 5, 6])


def test_a_tile_is_filled_inside_of_its_group() -> None:
    out = convolution()
    generated = generate(Group((out,), tuple(leaves([out])), out.shape), replace(TARGET, max_local=256))
    verify_loops(generated.function)
    assert generated.launch == (1, 256)


GRAPHS = [softmax, chain, column_sum, total, prefix_sum, scatter, padded, matmul, nearest]


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda g: g.__name__)
def test_meaning(graph: Callable[[], LazyBuffer]) -> None:
    out = graph()
    inputs = leaves([out])
    generated = generate(Group((out,), tuple(inputs), out.shape), TARGET)
    assert generated.launch is not None and generated.launch[1] <= TARGET.max_local
    verify_kernel(generated.kernel)
    verify_loops(generated.function)
    (expected,) = evaluate([out], load)
    runs = {run_kernel: generated.kernel}
    if generated.function.groups * generated.function.local <= 256:
        runs[run_groups] = generated.function
    for run, what in runs.items():
        buffers = {f"in{i}": to_storage(load(x), x.dtype).ravel().copy() for i, x in enumerate(inputs)}
        buffers["out0"] = np.full(out.size, np.nan, np.float32)
        run(what, buffers)
        np.testing.assert_allclose(buffers["out0"].reshape(out.shape), expected, rtol=1e-5, atol=1e-5)
