"""Every op of the graph against straightforward NumPy or plain Python."""
from __future__ import annotations

import itertools
import math
import warnings
import weakref

import numpy as np
import pytest
from random_graphs import assert_same_values, leaf, load, random_array, values_of

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
    round_to,
    uint8,
    uint16,
    uint64,
)
from dawdle.errors import DTypeError, ShapeError
from dawdle.lazy import build
from dawdle.lazy.interpret import RULES, evaluate
from dawdle.lazy.ops import Op

FLOATS = [d for d in ALL if d.is_float]
INTS = [d for d in ALL if d.is_int]
NUMBERS = INTS + FLOATS
IDS = {"ids": lambda d: d.name if hasattr(d, "name") else None}


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def rng():
    return np.random.default_rng(7)


def pair(dtype, shape=(6, 7)):
    r = rng()
    return random_array(r, shape, dtype, True), random_array(r, shape, dtype, True)


def value(node):
    return values_of(node)[0]


def check(node, expected, dtype=None):
    """The node's value is ``expected``, rounded to the node's dtype."""
    assert node.dtype == (dtype or node.dtype) and node.shape == np.shape(expected)
    with np.errstate(all="ignore"):
        assert_same_values(value(node), round_to(np.asarray(expected), node.dtype))


def wide(x):
    return x.astype(np.float32) if x.dtype == np.float16 else x


def test_every_op_has_a_rule():
    assert set(RULES) == set(Op) - {Op.BUFFER}


# elementwise

UNARIES = {
    Op.RECIP: lambda x: 1 / x,
    Op.SQRT: np.sqrt,
    Op.TRUNC: np.trunc,
    Op.EXP2: lambda x: np.exp2(x.astype(np.float64)),
    Op.LOG2: lambda x: np.log2(x.astype(np.float64)),
    Op.SIN: lambda x: np.sin(x.astype(np.float64)),
}


@pytest.mark.parametrize("dtype", FLOATS, **IDS)
@pytest.mark.parametrize("op", UNARIES)
def test_unary(op, dtype):
    x, _ = pair(dtype)
    with np.errstate(all="ignore"):
        expected = UNARIES[op](wide(x))
        if op in (Op.EXP2, Op.LOG2, Op.SIN) and dtype != float64:
            expected = expected.astype(np.float32)
    check(build.unary(op, leaf(x, dtype)), expected, dtype)


@pytest.mark.parametrize("dtype", NUMBERS, **IDS)
def test_neg(dtype):
    x, _ = pair(dtype)
    check(build.unary(Op.NEG, leaf(x, dtype)), -x)


ARITHMETIC = {Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply}
ARITHMETIC |= {Op.IDIV: np.floor_divide, Op.MOD: np.mod}
COMPARE = {Op.CMPLT: np.less, Op.CMPEQ: np.equal}
BITS = {Op.AND: np.bitwise_and, Op.OR: np.bitwise_or, Op.XOR: np.bitwise_xor}


@pytest.mark.parametrize("dtype", NUMBERS, **IDS)
@pytest.mark.parametrize("op", ARITHMETIC)
def test_arithmetic(op, dtype):
    a, b = pair(dtype)
    with np.errstate(all="ignore"):
        expected = ARITHMETIC[op](wide(a), wide(b))
    check(build.binary(op, leaf(a, dtype), leaf(b, dtype)), expected, dtype)


@pytest.mark.parametrize("dtype", FLOATS, **IDS)
def test_fma(dtype):
    a, b = pair(dtype)
    with np.errstate(all="ignore"):
        expected = wide(a) * wide(b) + wide(a)
    check(build.fma(leaf(a, dtype), leaf(b, dtype), leaf(a, dtype)), expected, dtype)


@pytest.mark.parametrize("dtype", FLOATS, **IDS)
def test_division(dtype):
    a, b = pair(dtype)
    with np.errstate(all="ignore"):
        expected = wide(a) / wide(b)
    check(build.binary(Op.DIV, leaf(a, dtype), leaf(b, dtype)), expected)


@pytest.mark.parametrize("dtype", ALL, **IDS)
def test_compare_and_max(dtype):
    a, b = pair(dtype)
    for op, f in COMPARE.items():
        check(build.binary(op, leaf(a, dtype), leaf(b, dtype)), f(a, b), bool_)
    most = build.binary(Op.MAX, leaf(a, dtype), leaf(b, dtype))
    # NumPy chooses freely between zeros of different signs
    np.testing.assert_array_equal(value(most), np.maximum(a, b))


@pytest.mark.parametrize("dtype", [bool_, *INTS], **IDS)
def test_bitwise(dtype):
    a, b = pair(dtype)
    for op, f in BITS.items():
        check(build.binary(op, leaf(a, dtype), leaf(b, dtype)), f(a, b), dtype)


@pytest.mark.parametrize("dtype", ALL, **IDS)
def test_where(dtype):
    a, b = pair(dtype)
    c = rng().random(a.shape) < 0.5
    check(build.where(leaf(c, bool_), leaf(a, dtype), leaf(b, dtype)), np.where(c, a, b), dtype)


@pytest.mark.parametrize("dtype", INTS, **IDS)
def test_integer_edges(dtype):
    def both(op, a, b):
        return int(value(build.binary(op, leaf(np.array(a), dtype), leaf(np.array(b), dtype))))

    bits = dtype.bits
    assert both(Op.IDIV, 7, 0) == 0 and both(Op.MOD, 7, 0) == 0
    assert both(Op.ADD, dtype.max, 1) == dtype.min
    assert both(Op.SUB, dtype.min, 1) == dtype.max
    assert both(Op.IDIV, 7, 2) == 3 and both(Op.MOD, 7, 2) == 1
    assert both(Op.SHL, 1, bits) == 0
    assert both(Op.SHL, 1, bits - 1) == (dtype.min if dtype.kind == "i" else 1 << bits - 1)
    assert both(Op.SHR, dtype.max, bits) == 0
    if dtype.kind == "i":
        assert both(Op.IDIV, -7, 2) == -4 and both(Op.MOD, -7, 2) == 1 and both(Op.MOD, 7, -2) == -1
        assert both(Op.IDIV, dtype.min, -1) == dtype.min and both(Op.MOD, dtype.min, -1) == 0
        assert both(Op.SHR, -5, bits) == -1 and both(Op.SHR, -5, -1) == -1 and both(Op.SHL, -5, -1) == 0
        assert both(Op.SHR, -5, 1) == -3


def test_max_propagates_nan_and_orders_zeros():
    a, b = [math.nan, 1.0, 0.0, -0.0, -0.0, -5.0], [1.0, math.nan, -0.0, 0.0, -0.0, 0.0]
    expected = np.float32([math.nan, math.nan, 0.0, 0.0, -0.0, 0.0])
    check(build.binary(Op.MAX, leaf(a, float32), leaf(b, float32)), expected)
    x = leaf([[-0.0, 0.0, -0.0], [-1.0, -0.0, -0.0], [1.0, math.nan, 0.0]], float32)
    check(build.reduce(Op.AMAX, x, (1,)), np.float32([[0.0], [-0.0], [math.nan]]))
    running = np.float32([[-0.0, 0.0, 0.0], [-1.0, -0.0, -0.0], [1.0, math.nan, math.nan]])
    check(build.scan(Op.MAX, x, 1), running)


# casts

GOOD = [0.0, 1.0, 2.5, 100.7, 0.1]


@pytest.mark.parametrize("source", ALL, **IDS)
def test_cast(source):
    x = round_to(np.asarray(GOOD), source)
    for target in ALL:
        wanted = x != 0 if target.is_bool else x.astype(target.compute)
        check(build.cast(leaf(x, source), target), wanted, target)


def test_cast_edges():
    special = leaf([math.nan, math.inf, -math.inf, -0.0, 1e-45], float32)
    check(build.cast(special, bool_), np.array([True, True, True, False, True]))
    assert value(build.cast(special, int8)).shape == (5,)  # unspecified values, and no warning
    check(build.cast(leaf([300, -1, 256], int32), uint8), np.uint8([44, 255, 0]))
    check(build.cast(leaf([1e300, -1e300], float64), float16), np.float16([math.inf, -math.inf]))
    big = build.cast(leaf([2**63 + 2**62], uint64), float32)
    check(big, np.float32([2**63 + 2**62]))


def test_bfloat16_rounds_to_nearest_even():
    one = 1.0
    ulp = 2.0**-7
    cases = {one + ulp / 2: one, one + ulp * 1.5: one + 2 * ulp, one + ulp * 0.51: one + ulp}
    cases |= {-x: -y for x, y in cases.items()}
    check(build.cast(leaf(list(cases), float64), bfloat16), np.float32(list(cases.values())))
    special = build.cast(leaf([3.4e38, math.nan, -math.inf], float32), bfloat16)
    check(special, np.float32([math.inf, math.nan, -math.inf]))
    x = leaf([256.0], bfloat16)
    check(build.binary(Op.ADD, x, leaf([1.0], bfloat16)), np.float32([256.0]))


def test_bitcast():
    check(build.bitcast(leaf([1.0, -2.0], float32), int32), np.int32([0x3F800000, -0x40000000]))
    check(build.bitcast(leaf([1.0, -2.0], bfloat16), uint16), np.uint16([0x3F80, 0xC000]))
    check(build.bitcast(leaf([0x3F80, 0x7F80], int16), bfloat16), np.float32([1.0, math.inf]))
    check(build.bitcast(leaf([0x3C00], int16), float16), np.float16([1.0]))
    check(build.bitcast(build.bitcast(leaf([[1.5]], float16), bfloat16), float16), np.float16([[1.5]]))
    check(build.bitcast(leaf(np.array(-1), int8), uint8), np.uint8(255))


# along axes

AXES = [(), (0,), (1,), (2,), (0, 2), (0, 1, 2)]


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("dtype", ALL, **IDS)
def test_reductions(dtype, axes):
    x = random_array(rng(), (3, 2, 4), dtype, False)
    node = leaf(x, dtype)
    least = np.maximum.reduce(x, axis=axes, keepdims=True) if axes else x
    np.testing.assert_array_equal(value(build.reduce(Op.AMAX, node, axes)), least)
    if dtype.is_bool:
        return
    # exactly in Python's numbers, then rounded or wrapped
    for op, exact in ((Op.SUM, np.sum), (Op.PROD, np.prod)):
        wanted = exact(x.astype(np.float64 if dtype.is_float else object), axis=axes, keepdims=True)
        got = value(build.reduce(op, node, axes))
        assert got.dtype == dtype.compute
        if dtype.is_float:
            tolerance = {16: 1e-2, 32: 1e-5, 64: 1e-12}[dtype.bits]
            np.testing.assert_allclose(got, wanted, tolerance, tolerance)
        else:
            bits = (1 << dtype.bits) - 1
            assert [int(v) & bits for v in got.flat] == [int(v) & bits for v in np.asarray(wanted).flat]


@pytest.mark.parametrize("dtype", ALL, **IDS)
def test_reductions_of_nothing(dtype):
    x = leaf(np.zeros((2, 0)), dtype)
    check(build.reduce(Op.AMAX, x, (1,)), np.full((2, 1), dtype.min, dtype.compute))
    if not dtype.is_bool:
        check(build.reduce(Op.SUM, x, (1,)), np.zeros((2, 1), dtype.compute))
        check(build.reduce(Op.PROD, x, (1,)), np.ones((2, 1), dtype.compute))
    assert value(build.reduce(Op.AMAX, x, (0,))).shape == (1, 0)


@pytest.mark.parametrize("dtype", [float16, bfloat16], **IDS)
def test_half_sums_accumulate_in_float32(dtype):
    n = 4096
    x = leaf(np.ones(n), dtype)  # a sum in half precision would stop growing at 2048 or 256
    check(build.reduce(Op.SUM, x, (0,)), np.float32([n]))
    assert value(build.scan(Op.ADD, x, 0))[-1] == n
    base = leaf([0.0], dtype)
    zeros = leaf(np.zeros(n), int64)
    check(build.scatter(base, zeros, x, 0), np.float32([n]))


@pytest.mark.parametrize("dtype", ALL, **IDS)
@pytest.mark.parametrize("axis", [0, 1])
def test_scan(dtype, axis):
    x = random_array(rng(), (3, 4), dtype, False)
    for op, combine in ((Op.ADD, np.add), (Op.MUL, np.multiply), (Op.MAX, np.maximum)):
        if dtype.is_bool and op is not Op.MAX:
            continue
        running = [np.take(wide(x), [0], axis)]
        for i in range(1, x.shape[axis]):
            running.append(combine(running[-1], np.take(wide(x), [i], axis)))
        check(build.scan(op, leaf(x, dtype), axis), np.concatenate(running, axis), dtype)


# movement


@pytest.mark.parametrize("dtype", [bool_, int8, bfloat16, float64], **IDS)
def test_movement(dtype):
    x = random_array(rng(), (2, 3, 4), dtype, True)
    node = leaf(x, dtype)
    check(build.reshape(node, (4, 6)), x.reshape(4, 6), dtype)
    check(build.permute(node, (2, 0, 1)), x.transpose(2, 0, 1), dtype)
    check(build.flip(node, (0, 2)), x[::-1, :, ::-1], dtype)
    check(build.slice_(node, ((0, 2, 1), (1, 1, 1), (0, 4, 3))), x[:, 1:1, ::3], dtype)
    check(build.slice_(node, ((1, 2, 5), (0, 3, 2), (1, 4, 2))), x[1:2, ::2, 1:4:2], dtype)
    repeated = build.expand(build.reshape(node, (2, 1, 12)), (2, 5, 12))
    check(repeated, np.repeat(x.reshape(2, 1, 12), 5, 1), dtype)


def pad_by_hand(x, amounts):
    sizes = zip(x.shape, amounts, strict=True)
    out = np.zeros([lo + n + max(n - 1, 0) * gap + hi for n, (lo, hi, gap) in sizes], x.dtype)
    for at in np.ndindex(x.shape):
        out[tuple(lo + i * (gap + 1) for i, (lo, _, gap) in zip(at, amounts, strict=True))] = x[at]
    return out


@pytest.mark.parametrize("dtype", [bool_, uint8, float16, bfloat16], **IDS)
def test_pad(dtype):
    x = random_array(rng(), (3, 2), dtype, True)
    for amounts in itertools.product([(0, 0, 0), (1, 2, 0), (0, 1, 2)], repeat=2):
        check(build.pad(leaf(x, dtype), amounts), pad_by_hand(x, amounts), dtype)
    check(build.pad(leaf(np.zeros((0, 2)), dtype), ((1, 1, 3), (0, 0, 1))), np.zeros((2, 3), dtype.compute))


WINDOWS = [
    ((7,), ((3, 1, 1),)),
    ((7,), ((3, 2, 1),)),
    ((9,), ((3, 2, 3),)),
    ((2, 7), ((1, 3, 1),)),
    ((2, 6, 7), ((2, 2, 2), (3, 1, 2))),
    ((6, 7), ((5, 1, 1), (7, 1, 1))),
]


def window_by_hand(x, windows):
    k = len(windows)
    lead = x.shape[: x.ndim - k]
    sizes = zip(x.shape[x.ndim - k :], windows, strict=True)
    counts = [(n - (s - 1) * d - 1) // t + 1 for n, (s, t, d) in sizes]
    out = np.zeros((*lead, *counts, *(s for s, _, _ in windows)), x.dtype)
    for at in np.ndindex(out.shape):
        first, p, o = at[: len(lead)], at[len(lead) : len(lead) + k], at[len(lead) + k :]
        out[at] = x[(*first, *(i * t + j * d for i, j, (_, t, d) in zip(p, o, windows, strict=True)))]
    return out


@pytest.mark.parametrize("shape, windows", WINDOWS)
@pytest.mark.parametrize("dtype", [int8, uint16, float16, bfloat16, float32], **IDS)
def test_window_and_unwindow(shape, windows, dtype):
    x = round_to(rng().integers(0, 5, shape), dtype)
    read = build.window(leaf(x, dtype), windows)
    check(read, window_by_hand(x, windows), dtype)
    # each element comes back as often as windows read it
    counts = np.zeros(shape, np.int64)
    places = window_by_hand(np.arange(x.size).reshape(shape), windows)
    np.add.at(counts.reshape(-1), places, 1)
    sizes = shape[len(shape) - len(windows) :]
    check(build.unwindow(read, windows, sizes), x.astype(np.int64) * counts, dtype)


# data-dependent indices


@pytest.mark.parametrize("index_dtype", [int8, int64, uint8, uint64], **IDS)
@pytest.mark.parametrize("dtype", [bool_, int32, float16, bfloat16], **IDS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather(dtype, index_dtype, axis):
    x = random_array(rng(), (2, 3, 4), dtype, True)
    shape = tuple(5 if a == axis else n for a, n in enumerate(x.shape))
    low = -2 if index_dtype.kind == "i" else 0
    index = rng().integers(low, x.shape[axis] + 2, shape)
    wanted = np.zeros(shape, dtype.compute)
    for at in np.ndindex(shape):
        if 0 <= index[at] < x.shape[axis]:
            wanted[at] = x[(*at[:axis], index[at], *at[axis + 1 :])]
    check(build.gather(leaf(x, dtype), leaf(index, index_dtype), axis), wanted, dtype)


HOW = {None: lambda old, new: new, Op.ADD: np.add, Op.MUL: np.multiply, Op.MAX: np.maximum}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("dtype", [int8, uint64, float16, bfloat16, float64], **IDS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scatter(dtype, how, axis):
    r = rng()
    base = round_to(r.integers(1, 4, (2, 3, 4)), dtype)
    shape = tuple(5 if a == axis else n for a, n in enumerate(base.shape))
    x = round_to(r.integers(1, 4, shape), dtype)
    index = r.integers(-1, base.shape[axis] + 1, shape)
    wanted = base.copy()
    for at in np.ndindex(shape):
        place = (*at[:axis], index[at], *at[axis + 1 :])
        if 0 <= index[at] < base.shape[axis]:
            wanted[place] = HOW[how](wanted[place], x[at])
    node = leaf(base, dtype)
    check(build.scatter(node, leaf(index, int64), leaf(x, dtype), axis, how), wanted, dtype)
    assert_same_values(value(node), base)


def test_indexing_nothing():
    x, none = leaf(np.zeros((0, 2)), float32), leaf(np.zeros((3, 2)), int64)
    check(build.gather(x, none, 0), np.zeros((3, 2), np.float32))
    ones = leaf(np.ones((3, 2)), float32)
    check(build.scatter(x, none, ones, 0), np.zeros((0, 2), np.float32))
    check(build.scatter(ones, leaf(np.zeros((0, 2)), int64), x, 0), np.ones((3, 2), np.float32))


# leaves and storage


def test_constants_and_iota():
    check(build.const(3, float32, "NUMPY"), np.float32(3))
    check(build.full((2, 0, 3), 1, int8, "NUMPY"), np.ones((2, 0, 3), np.int8))
    check(build.full((2, 2), 0.1, bfloat16, "NUMPY"), np.full((2, 2), 0.10009765625, np.float32))
    check(build.iota(300, int8, "NUMPY"), np.arange(300).astype(np.int8))
    check(build.iota(0, int64, "NUMPY"), np.arange(0))


def test_storage_ops():
    x, y = leaf([1.0, 2.0], float32), leaf([3.0, 4.0], float32)
    for node, wanted in (
        (build.contiguous(build.flip(x, (0,))), [2.0, 1.0]),
        (build.copy(x, "CPU"), [1.0, 2.0]),
        (build.after(y, build.flip(x, (0,))), [3.0, 4.0]),
        (build.custom(lambda a, b: a + b, x, y, shape=(2,), dtype=float32), [4.0, 6.0]),
    ):
        check(node, np.float32(wanted))


@pytest.mark.parametrize("dtype", ALL, **IDS)
def test_custom_of_zero_dimensions(dtype):
    x = leaf(np.array(1), dtype)
    check(build.custom(np.copy, x, shape=(), dtype=dtype), np.ones((), dtype.compute))


def test_custom_is_checked():
    x = leaf([1.0, 2.0], float32)

    def doubled(a):
        return np.concatenate([a, a])

    with pytest.raises(ShapeError, match=r"doubled returned shape \(4,\); it declared \(2,\)"):
        value(build.custom(doubled, x, shape=(2,), dtype=float32))
    with pytest.raises(DTypeError, match=r"doubled returned float32, not int64: .*astype\('int64'\)"):
        value(build.custom(doubled, x, shape=(4,), dtype=int64))
    with pytest.raises(ValueError, match="read-only"):
        value(build.custom(lambda a: a.sort() or a, x, shape=(2,), dtype=float32))


@pytest.mark.parametrize("make", [
    lambda x: x,
    lambda x: build.reshape(x, (3, 2)),
    lambda x: build.contiguous(build.permute(x, (1, 0))),
    lambda x: build.expand(build.slice_(x, ((0, 1, 1), (0, 3, 1))), (4, 3)),
    lambda x: build.cast(build.cast(x, float64), float32),
])  # fmt: skip
def test_results_are_fresh_arrays(make):
    x = leaf(np.arange(6).reshape(2, 3), float32)
    node = make(x)
    first, second = values_of(node, node)
    for a in (first, second):
        assert a.flags.c_contiguous and a.flags.writeable and not np.shares_memory(a, load(x))
    assert not np.shares_memory(first, second)
    first += 1
    np.testing.assert_array_equal(load(x), np.arange(6).reshape(2, 3))


def test_intermediate_values_are_let_go():
    alive, most = set(), 0

    def tracked(a):
        nonlocal most
        out = a + 1
        alive.add(id(out))
        most = max(most, sum(1 for _ in alive))
        weakref.finalize(out, alive.discard, id(out))
        return out

    node = x = leaf(np.zeros(3), float32)
    for _ in range(50):
        node = build.custom(tracked, node, shape=(3,), dtype=float32)
    np.testing.assert_array_equal(evaluate([node, x], load)[0], 50)
    assert most <= 3
