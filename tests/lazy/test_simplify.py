"""Each rewrite rule: what it gives, that values stay, and where it must not apply."""
from __future__ import annotations

import math

import numpy as np
import pytest
from random_graphs import ArrayStorage, assert_same_values, leaf, random_array, values_of

from dawdle.dtype import (
    ALL,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
)
from dawdle.lazy import build
from dawdle.lazy.buffer import toposort
from dawdle.lazy.ops import Op
from dawdle.lazy.rules import constant, lossless
from dawdle.lazy.simplify import simplify
from dawdle.lazy.verify import verify_graph

NEGATIVE_ZERO = [-0.0, 0.0, math.nan, math.inf, -math.inf, 3.0]


def some(dtype, shape=(3, 4)):
    return leaf(random_array(np.random.default_rng(3), shape, dtype, True), dtype)


F, I, B = some(float32), some(int32), some(bool_)


def full(value, dtype, shape=(3, 4)):
    return build.full(shape, value, dtype, "NUMPY")


def simple(node):
    """``node`` simplified, after checking that its value stays the same."""
    (out,) = simplify([node])
    verify_graph([out])
    assert (out.shape, out.dtype, out.device) == (node.shape, node.dtype, node.device)
    assert_same_values(*values_of(node, out))
    return out


def ops(node):
    """The ops below a simplified node, constants' own left out, in order."""
    found = [n.op for n in toposort([simple(node)]) if constant(n) is None]
    return [op for op in found if op not in (Op.BUFFER, Op.IOTA)]


def b(op, x, y):
    return build.binary(op, x, y)


# f(x, e) -> x

SAME = [
    (Op.ADD, F, -0.0), (Op.ADD, I, 0), (Op.SUB, F, 0.0), (Op.SUB, I, 0), (Op.MUL, F, 1), (Op.MUL, I, 1),
    (Op.DIV, F, 1), (Op.IDIV, I, 1), (Op.MAX, F, -math.inf), (Op.MAX, I, int32.min), (Op.MAX, B, False),
    (Op.AND, I, -1), (Op.AND, B, True), (Op.OR, I, 0), (Op.OR, B, False), (Op.XOR, I, 0), (Op.SHL, I, 0),
    (Op.SHR, I, 0),
]  # fmt: skip


@pytest.mark.parametrize("op, x, e", SAME)
def test_identity(op, x, e):
    assert simple(b(op, x, full(e, x.dtype))) is x
    if op in (Op.ADD, Op.MUL, Op.MAX, Op.AND, Op.OR, Op.XOR):
        assert simple(b(op, full(e, x.dtype), x)) is x


def test_identity_of_unsigned():
    u = some(uint8)
    assert simple(b(Op.AND, u, full(255, uint8))) is u
    assert simple(b(Op.MAX, u, full(0, uint8))) is u


@pytest.mark.parametrize("op, x, e", [
    (Op.ADD, F, 0.0), (Op.SUB, F, -0.0), (Op.MUL, F, 0.0), (Op.MAX, F, 0.0), (Op.IDIV, F, 1), (Op.MOD, F, 1),
    (Op.MAX, F, math.inf), (Op.SUB, F, math.nan), (Op.AND, I, 1), (Op.IDIV, I, 0), (Op.IDIV, I, -1),
])  # fmt: skip
def test_what_is_not_exact_stays(op, x, e):
    assert ops(b(op, x, full(e, x.dtype))) == [op]


def test_negative_zero_survives():
    x = leaf(NEGATIVE_ZERO, float32)
    (plus, minus, times) = (full(v, float32, (6,)) for v in (0.0, -0.0, 0.0))
    assert_same_values(values_of(simple(b(Op.ADD, x, plus)))[0][:2], np.float32([0.0, 0.0]))
    assert_same_values(values_of(simple(b(Op.ADD, x, minus)))[0][:2], np.float32([-0.0, 0.0]))
    assert_same_values(values_of(simple(b(Op.MUL, x, times)))[0], np.float32([-0.0, 0, *[math.nan] * 3, 0]))


# f(x, z) -> z

ZERO = [
    (Op.MUL, I, 0, 0), (Op.MOD, I, 1, 0), (Op.MAX, I, int32.max, int32.max), (Op.MAX, B, True, True),
    (Op.AND, I, 0, 0), (Op.AND, B, False, False), (Op.OR, I, -1, -1), (Op.OR, B, True, True),
    (Op.CMPLT, F, -math.inf, False), (Op.CMPLT, I, int32.min, False), (Op.SHL, I, 32, 0), (Op.SHL, I, -1, 0),
]  # fmt: skip


@pytest.mark.parametrize("op, x, z, result", ZERO)
def test_absorbing(op, x, z, result):
    assert constant(simple(b(op, x, full(z, x.dtype)))) == result


@pytest.mark.parametrize("op, x, result", [
    (Op.SUB, I, 0), (Op.XOR, I, 0), (Op.XOR, B, False), (Op.CMPLT, F, False), (Op.CMPEQ, I, True),
])  # fmt: skip
def test_equal_operands_are_constant(op, x, result):
    assert constant(simple(b(op, x, x))) == result


@pytest.mark.parametrize("op, x", [(Op.MAX, F), (Op.MAX, I), (Op.AND, I), (Op.OR, B)])
def test_equal_operands_are_the_result(op, x):
    assert simple(b(op, x, x)) is x


@pytest.mark.parametrize("op", [Op.SUB, Op.CMPEQ, Op.DIV])
def test_equal_floats_may_be_nan(op):
    assert ops(b(op, F, F)) == [op]


def test_strength():
    assert ops(b(Op.MUL, F, full(-1, float32))) == [Op.NEG]
    assert ops(b(Op.MUL, full(-1, int32), I)) == [Op.NEG]
    assert ops(b(Op.DIV, F, full(8, float32))) == [Op.MUL]
    assert ops(b(Op.DIV, F, full(-0.125, float32))) == [Op.MUL]
    assert ops(b(Op.DIV, F, full(-1, float32))) == [Op.NEG]
    for value in (3, 0.0, math.inf, math.nan, 2.0**127, 2.0**-127):
        assert ops(b(Op.DIV, F, full(value, float32))) == [Op.DIV]
    assert ops(b(Op.DIV, some(float16), full(2.0**15, float16))) == [Op.DIV]


@pytest.mark.parametrize("dtype", [float16, bfloat16, float32, float64], ids=lambda d: d.name)
def test_division_by_powers_is_exact(dtype):
    limit = 14 if dtype == float16 else 126
    tiny = leaf([5e-324, 1e-45, 6e-8, 9.2e-41, 1.1754944e-38, 3e38, 65504, 1 / 3, *NEGATIVE_ZERO], dtype)
    for k in range(-limit, limit + 1, 7):
        simple(b(Op.DIV, tiny, full(2.0**k, dtype, tiny.shape)))


# one operand


def test_double_negation_and_truncation():
    assert simple(build.unary(Op.NEG, build.unary(Op.NEG, F))) is F
    assert ops(build.unary(Op.TRUNC, build.unary(Op.TRUNC, F))) == [Op.TRUNC]
    assert ops(build.unary(Op.TRUNC, build.cast(I, float16))) == [Op.CAST]
    assert ops(build.unary(Op.RECIP, build.unary(Op.RECIP, F))) == [Op.RECIP, Op.RECIP]


@pytest.mark.parametrize("chain, kept", [
    ((float16, float32, float16), 0), ((bfloat16, float32, bfloat16), 0),
    ((float32, float16, float32), 2),
    ((int8, int32, uint8), 1), ((int64, int32, int8), 1), ((int8, uint8, int32), 2),
    ((uint8, int16, float32), 1),
    ((int32, float32, float64), 2), ((int16, float32, float64), 1),
    ((bool_, int8, bool_), 0),
    ((bool_, float16, int64), 1), ((int32, int8, bool_), 2), ((int8, int64, bool_), 1),
    ((int8, bool_, int8), 2),
    ((float16, bfloat16, float32), 2), ((float32, float64, bfloat16), 1), ((int8, bfloat16, int8), 0),
    ((int16, bfloat16, int32), 2), ((int32, float64, int32), 0),
])  # fmt: skip
def test_cast_chains(chain, kept):
    first, *rest = chain
    values = np.arange(2 if first.is_bool else 100)
    node = leaf(values, first)
    for dtype in rest:
        node = build.cast(node, dtype)
    assert ops(node) == [Op.CAST] * kept


@pytest.mark.parametrize("a", ALL, ids=lambda d: d.name)
def test_lossless_means_that_values_come_back(a):
    if a.is_float:
        values = [0.1, 1 / 3, 65504.0, 3e38, 1e-45, 5e-324, 1e300]
    else:
        values = [a.min, a.max, int(a.max) // 2 + 1, int(a.max) - 1, 1]
    x = leaf(np.array(values, dtype=np.float64 if a.is_float else a.compute), a)
    there = [build.cast(x, dtype) for dtype in ALL]
    for node, back in zip(there, values_of(*[build.cast(y, a) for y in there]), strict=True):
        if lossless(a, node.dtype):
            np.testing.assert_array_equal(back, values_of(x)[0])
        elif not (a.is_float and node.dtype.is_int) and not (a.is_int and node.dtype.is_int):
            assert (back != values_of(x)[0]).any(), f"{a} to {node.dtype} loses nothing on these values"


def test_bitcasts():
    assert simple(build.bitcast(build.bitcast(F, int32), float32)) is F
    assert ops(build.bitcast(build.bitcast(some(int16), uint16), bfloat16)) == [Op.BITCAST]


# where


def test_where():
    other = some(float32)
    for known, result in ((True, F), (False, other)):
        assert simple(build.where(full(known, bool_), F, other)) is result
    assert simple(build.where(B, F, F)) is F
    assert simple(build.where(B, full(True, bool_), full(False, bool_))) is B
    assert ops(build.where(B, full(False, bool_), full(True, bool_))) == [Op.XOR]
    flipped = simple(build.where(b(Op.XOR, B, full(True, bool_)), F, other))
    assert flipped.op is Op.WHERE and flipped.src == (B, other, F)


# constants


@pytest.mark.parametrize("dtype", ALL, ids=lambda d: d.name)
def test_folding(dtype):
    two, three = full(2, dtype), full(3, dtype)
    nodes = [b(Op.MAX, two, three), b(Op.CMPLT, two, three)]
    nodes += [build.cast(three, float64), build.cast(two, int8)]
    if not dtype.is_bool:
        nodes += [b(op, two, three) for op in (Op.ADD, Op.SUB, Op.MUL, Op.IDIV, Op.MOD)]
    if dtype.is_float:
        nodes += [b(Op.DIV, two, three)]
        nodes += [build.fma(two, three, two)]
        nodes += [build.unary(op, three) for op in (Op.SQRT, Op.EXP2, Op.LOG2, Op.SIN, Op.RECIP, Op.TRUNC)]
    for node in nodes:
        out = simple(node)
        assert constant(out) is not None and len(toposort([out])) == 3


def test_folding_edges():
    assert ops(build.cast(full(300.0, float32), int8)) == [Op.CAST]  # unspecified: left to the device
    assert ops(build.cast(full(math.nan, float32), int32)) == [Op.CAST]
    assert constant(simple(b(Op.DIV, full(1, float32), full(0, float32)))) == math.inf
    assert math.isnan(constant(simple(b(Op.SUB, full(math.inf, float32), full(math.inf, float32)))))
    assert constant(simple(b(Op.IDIV, full(-7, int8), full(0, int8)))) == 0
    assert constant(simple(build.unary(Op.NEG, full(-128, int8)))) == -128


@pytest.mark.parametrize("value", [0.0, -0.0, 2.5])
def test_movement_of_constants(value):
    x = full(value, float32, (2, 6))
    moved = [
        build.reshape(x, (3, 4)), build.permute(x, (1, 0)), build.flip(x, (0,)),
        build.window(x, ((2, 1, 1),)),
        build.slice_(x, ((0, 1, 1), (0, 6, 2))), build.expand(build.reshape(x, (2, 1, 6)), (2, 3, 6)),
        build.expand(build.reshape(x, (2, 6, 1, 1)), (2, 6, 1, 3)), build.copy(x, "CPU"),
    ]  # fmt: skip
    for node in moved:
        out = simple(node)
        assert constant(out) == value and len(toposort([out])) <= 3
        assert simple(out) is out
    padded = build.pad(x, ((1, 0, 0), (0, 0, 1)))
    gathered = build.gather(x, leaf(np.zeros((2, 1)), int64), 1)
    windows = ((2, 1, 1),)
    spread = [padded, gathered, build.unwindow(build.window(x, windows), windows, (6,))]
    if math.copysign(1, value) == 1 and value == 0:
        assert all(constant(simple(node)) == 0 for node in spread)
    else:
        assert all(constant(simple(node)) is None for node in spread)


# movement


def test_movements_compose():
    x = some(float32, (2, 3, 4))
    once = [
        build.reshape(build.reshape(x, (6, 4)), (8, 3)),
        build.permute(build.permute(x, (1, 2, 0)), (1, 0, 2)),
        build.expand(build.expand(build.reshape(x, (2, 3, 4, 1, 1)), (2, 3, 4, 2, 1)), (2, 3, 4, 2, 2)),
        build.flip(build.flip(x, (0, 1)), (1, 2)),
        build.slice_(build.slice_(x, ((0, 2, 1), (1, 3, 1), (0, 4, 2))), ((1, 2, 1), (0, 2, 1), (1, 2, 1))),
        build.pad(build.pad(x, ((1, 0, 2), (0, 1, 0), (0, 0, 0))), ((0, 2, 0), (1, 1, 0), (0, 3, 0))),
    ]
    for node in once:
        kept = [op for op in ops(node) if not (node.op is Op.EXPAND and op is Op.RESHAPE)]
        assert kept == [node.op]


def test_movements_cancel():
    x = some(float32, (2, 3, 4))
    assert simple(build.permute(build.permute(x, (1, 2, 0)), (2, 0, 1))) is x
    assert simple(build.flip(build.flip(x, (0, 2)), (2, 0))) is x
    padded = build.pad(x, ((1, 2, 0), (0, 0, 0), (3, 0, 0)))
    assert simple(build.slice_(padded, ((1, 3, 1), (0, 3, 1), (3, 7, 1)))) is x
    assert constant(simple(build.slice_(padded, ((0, 5, 1), (0, 3, 1), (0, 3, 1))))) == 0
    assert ops(build.slice_(padded, ((0, 2, 1), (0, 3, 1), (3, 5, 1)))) == [Op.SLICE, Op.PAD]
    between = build.pad(x, ((1, 0, 1), (0, 0, 0), (0, 0, 0)))
    assert ops(build.slice_(between, ((0, 2, 1), (0, 3, 1), (0, 4, 1)))) == [Op.PAD, Op.SLICE]


def test_unit_axes():
    x = some(float32, (3, 1, 4, 1))
    assert ops(build.permute(x, (1, 0, 3, 2))) == [Op.RESHAPE]
    assert ops(build.permute(x, (2, 1, 0, 3))) == [Op.PERMUTE]
    assert simple(build.flip(x, (1, 3))) is x
    assert simple(build.reduce(Op.AMAX, x, (1, 3))) is x
    assert simple(build.reduce(Op.PROD, x, (3,))) is x
    assert ops(build.reduce(Op.SUM, x, (1,))) == [Op.ADD]  # -0.0 becomes 0.0
    assert simple(build.reduce(Op.SUM, x, (0, 1))).arg == (0,)
    assert simple(build.scan(Op.ADD, x, 1)) is x
    y = some(int32, (3, 1))
    assert simple(build.reduce(Op.SUM, y, (1,))) is y


def test_slices_of_expansions_and_ranges():
    x = build.expand(some(float32, (3, 1)), (3, 5))
    assert ops(build.slice_(x, ((1, 3, 1), (0, 5, 2)))) == [Op.SLICE, Op.EXPAND]
    assert ops(build.slice_(x, ((0, 3, 1), (2, 3, 1)))) == []
    y = some(float32, (5,))
    a, c = simplify([build.slice_(y, ((1, 5, 3),)), build.slice_(y, ((1, 5, 3),))])
    assert a is c and a.arg == ((1, 5, 3),)
    assert simple(build.slice_(y, ((1, 4, 4),))).arg == ((1, 2, 1),)


def test_windows_of_one_element():
    x = some(float32, (2, 5, 6))
    windows = ((1, 2, 3), (1, 1, 1))
    read = build.window(x, windows)
    assert ops(read) == [Op.SLICE, Op.RESHAPE]
    back = build.unwindow(some(float32, read.shape), windows, (5, 6))
    assert Op.UNWINDOW not in ops(back) and Op.PAD in ops(back)
    assert Op.ADD not in ops(build.unwindow(some(int32, read.shape), windows, (5, 6)))


def test_indices():
    x = some(float32, (4, 3))
    assert ops(build.gather(x, full(2, int64, (5, 3)), 0)) == [Op.SLICE, Op.EXPAND]
    assert constant(simple(build.gather(x, full(4, int64, (5, 3)), 0))) == 0
    assert constant(simple(build.gather(x, full(-1, int64, (5, 3)), 0))) == 0
    nothing = leaf(np.zeros((0, 3)), int64)
    assert simple(build.scatter(x, nothing, leaf(np.zeros((0, 3)), float32), 0)) is x


# reductions


def test_reductions_of_constants():
    assert constant(simple(build.reduce(Op.SUM, full(100, int8, (3, 4)), (0, 1)))) == -80
    assert constant(simple(build.reduce(Op.PROD, full(-3, int8, (3, 4)), (1,)))) == 81
    assert constant(simple(build.reduce(Op.AMAX, full(2.5, float32), (1,)))) == 2.5
    assert ops(build.reduce(Op.SUM, full(0.1, float32), (1,))) == [Op.SUM]
    assert simple(build.scan(Op.MAX, full(2.5, float32), 1)).op is Op.EXPAND


@pytest.mark.parametrize("dtype", [int8, float32, float16], ids=lambda d: d.name)
def test_work_on_nothing_is_removed(dtype):
    x = some(dtype, (0, 3))
    y = build.unary(Op.NEG, build.binary(Op.ADD, x, x))
    assert len(toposort([simple(y)])) == 3
    for op, least in ((Op.SUM, 0), (Op.PROD, 1), (Op.AMAX, dtype.min)):
        assert constant(simple(build.reduce(op, y, (0,)))) == least


# storage, duplicates


def test_copies_and_contiguous():
    x = some(float32)
    assert simple(build.copy(build.copy(x, "CPU"), "NUMPY")) is x
    assert simple(build.copy(build.copy(x, "CPU"), "CL")).src == (x,)
    assert ops(build.copy(x, "CPU")) == [Op.COPY]
    twice = build.contiguous(build.flip(build.flip(build.contiguous(build.flip(x, (0,))), (1,)), (1,)))
    assert ops(twice) == [Op.FLIP, Op.CONTIGUOUS]
    assert ops(build.contiguous(build.flip(build.flip(x, (0,)), (0,)))) == []
    assert ops(build.after(x, build.unary(Op.NEG, x))) == [Op.NEG, Op.AFTER]
    assert build.after(x, some(float32)) is x


def test_equal_nodes_are_one():
    x, y = some(float32), some(float32)
    one, two = simplify([b(Op.ADD, x, y), b(Op.ADD, y, x)])
    assert one is two
    one, two = simplify([b(Op.SUB, x, y), b(Op.SUB, y, x)])
    assert one is not two
    f = np.negative
    one, two, other = simplify([build.custom(g, x, shape=(3, 4), dtype=float32) for g in (f, f, np.positive)])
    assert one is two and one is not other


def test_leaves_and_zeros_are_told_apart():
    array = np.zeros((2,), np.float32)
    first, second = ArrayStorage(array), ArrayStorage(array)
    # two leaves that share a storage stay two: the next graph of this structure may have two storages
    nodes = [build.unary(Op.NEG, build.buffer(s, (2,), float32, "NUMPY")) for s in (first, second, second)]
    assert len({id(n) for n in simplify(nodes)}) == 3
    x = leaf(NEGATIVE_ZERO, float32)
    zeros = [b(Op.ADD, x, full(v, float32, (6,))) for v in (0.0, -0.0, math.nan)]
    assert len({id(n) for n in simplify(zeros)}) == 3
    one, true = simplify([full(1, int8), full(1, int16)])
    assert one is not true
