"""Decomposed ops against float64 and NumPy, however the target rounds products and sums."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dawdle.codegen.decompose import decompose
from dawdle.codegen.expr import Range, X, alu, const, load, range_, reduce, rewrite, scan, var, walk
from dawdle.codegen.interpret import evaluate_exprs
from dawdle.dtype import (
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    from_storage,
    int8,
    int32,
    int64,
    round_to,
    uint8,
    uint16,
    uint32,
    uint64,
)
from dawdle.lazy.ops import Op

SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, 0.5, 1e-45, -1e-45, 1.1754942e-38, 1.17549435e-38,
     3.4028235e38, -3.4028235e38, 127.99999, 128, -126, -149, -150, -150.5, -151,
     16367173.0 * 2.0**72, 3.1415927],
    np.float32,
)  # fmt: skip


def samples(per_exponent):
    """Numbers of every exponent and sign, and more where the functions are steep or change their method."""
    rng = np.random.default_rng(1)
    exponents = np.arange(256, dtype=np.uint32)[:, None] << np.uint32(23)
    fractions = rng.integers(0, 2**23, (256, per_exponent), dtype=np.uint32)
    positive = (exponents | fractions).ravel().view(np.float32)
    near = rng.uniform(-160, 160, 100 * per_exponent), rng.uniform(0.5, 2, 100 * per_exponent)
    multiples = np.arange(1, 20 * per_exponent) * (np.pi / 2)
    return np.concatenate([SPECIAL, positive, -positive, *(x.astype(np.float32) for x in (*near, multiples))])


def max_ulp(got, exact):
    """Largest error in units of the exact value's last place; infinite where a special value is wrong."""
    with np.errstate(all="ignore"):
        expected = exact.astype(np.float32)
        finite = np.isfinite(expected)
        exponent = np.floor(np.log2(np.maximum(np.abs(exact), 2.0**-126)))
        error = np.abs(got.astype(np.float64) - exact) / np.exp2(exponent - 23)
        special = np.where((got == expected) | (np.isnan(got) & np.isnan(expected)), 0.0, np.inf)
    return np.where(finite, error, special).max()


def without_fma(e):
    """What the expression is on a machine without that instruction."""

    def rule(n):
        return alu(Op.ADD, alu(Op.MUL, *n.src[:2]), n.src[2]) if n.op is Op.FMA else n

    return rewrite([e], rule)[0]


@pytest.mark.parametrize("rounding", ["as said", "contracted", "no FMA"])
@pytest.mark.parametrize(("op", "exact"), [(Op.EXP2, np.exp2), (Op.LOG2, np.log2), (Op.SIN, np.sin)])
def test_elementary_functions_within_2_ulp(op, exact, rounding):
    x = var("x", float32)
    (e,) = decompose([alu(op, x)])
    assert not any(n.op is op for n in walk([e]))
    with np.errstate(all="ignore"):
        values = samples(1000)
        expected = exact(values.astype(np.float64))
    if rounding == "no FMA":
        assert any(n.op is Op.FMA for n in walk([e]))
        e = without_fma(e)
    (got,) = evaluate_exprs([e], {x: values}, contract=rounding == "contracted")
    assert max_ulp(got, expected) <= 2


def test_exact_results():
    x = var("x", float32)
    exp2, log2, sin = (decompose([alu(op, x)])[0] for op in (Op.EXP2, Op.LOG2, Op.SIN))
    n = np.arange(-149, 128).astype(np.float32)
    powers = np.ldexp(np.float32(1), n.astype(int)).astype(np.float32)
    np.testing.assert_array_equal(evaluate_exprs([exp2], {x: n})[0], powers)
    np.testing.assert_array_equal(evaluate_exprs([log2], {x: powers})[0], n)
    zeros = evaluate_exprs([sin], {x: np.array([0.0, -0.0], np.float32)})[0]
    np.testing.assert_array_equal(np.signbit(zeros), [False, True])
    assert (np.abs(evaluate_exprs([sin], {x: np.linspace(-9, 9, 10001)})[0]) <= 1).all()


def test_functions_are_short():
    """exp2 and log2 stand in softmax, gelu and every loss: their length is a promise."""

    def arithmetic(op):
        (e,) = decompose([alu(op, var("x", float32))])
        return sum(n.op not in (Op.CONST, Op.BITCAST, X.VAR) for n in walk([e]))

    assert arithmetic(Op.EXP2) <= 26
    assert arithmetic(Op.LOG2) <= 37
    assert arithmetic(Op.SIN) <= 120


def test_float64_functions_are_left_to_libm():
    e = alu(Op.SIN, var("x", float64))
    assert decompose([e]) == [e]


@pytest.mark.parametrize("dtype", [float32, float64, float16, bfloat16])
def test_maximum(dtype):
    a, b = var("a", dtype), var("b", dtype)
    values = np.array([np.nan, -np.inf, -2.5, -0.0, 0.0, 1.0, 3.5, np.inf], dtype.compute)
    grid = {a: values[:, None], b: values}
    roots = [alu(Op.MAX, a, b), alu(Op.MAX, a, const(0.0, dtype)), alu(Op.MAX, const(-0.0, dtype), a)]
    roots.append(alu(Op.MAX, a, const(float("nan"), dtype)))
    for e, d in zip(roots, decompose(roots), strict=True):
        assert not any(n.op is Op.MAX for n in walk([d]))
        x, y = evaluate_exprs([e, d], grid)
        np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(np.signbit(x)[~np.isnan(x)], np.signbit(y)[~np.isnan(y)])


@pytest.mark.parametrize("dtype", [int8, int32, int64, uint8, uint16, uint32, uint64])
@pytest.mark.parametrize("op", [Op.SHL, Op.SHR])
def test_shifts_with_any_count(dtype, op):
    a, b = var("a", dtype), var("b", dtype)
    counts = np.unique(
        np.array([0, 1, 3, dtype.bits - 1, dtype.bits, dtype.bits + 1, dtype.max, dtype.min], dtype.storage)
    )
    numbers = np.array([0, 1, 5, dtype.max, dtype.min, dtype.max // 3], dtype.storage)[:, None]
    (e,) = decompose([alu(op, a, b)])
    f = np.left_shift if op is Op.SHL else np.right_shift
    np.testing.assert_array_equal(evaluate_exprs([e], {a: numbers, b: counts})[0], f(numbers, counts))
    for n in walk([e]):  # every shift that is left has a count in range
        if n.op is op:
            (c,) = evaluate_exprs([n.src[1]], {a: numbers, b: counts})
            assert ((c >= 0) & (c < dtype.bits)).all()
    for c in counts:
        (e,) = decompose([alu(op, a, const(int(c), dtype))])
        expected = f(numbers, np.full(numbers.shape, c))
        got = np.broadcast_to(evaluate_exprs([e], {a: numbers})[0], expected.shape)
        np.testing.assert_array_equal(got, expected)
    assert decompose([alu(op, a, const(3, dtype))]) == [alu(op, a, const(3, dtype))]


def test_reciprocal_and_integer_maximum():
    x, i, p = var("x", float32), var("i", int32), var("p", bool_)
    roots = [
        alu(Op.RECIP, x),
        alu(Op.MAX, i, const(3, int32)),
        alu(Op.MAX, p, alu(Op.CMPLT, i, const(0, int32))),
    ]
    env = {x: SPECIAL, i: np.arange(-12, 13, dtype=np.int32), p: np.arange(25) % 2 == 0}
    for e, d in zip(roots, decompose(roots), strict=True):
        assert not any(n.op in (Op.RECIP, Op.MAX) for n in walk([d]))
        np.testing.assert_array_equal(*evaluate_exprs([e, d], env))


# ---- half precision ----

HALF = (float16, bfloat16)
COMPUTED = (Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MAX, Op.CMPLT, Op.CMPEQ)


@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_rounds_after_each_op(dtype):
    a, b = var("a", dtype), var("b", dtype)
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**16, (2, 20000)).astype(np.uint16)
    x, y = (from_storage(v if dtype == bfloat16 else v.view(np.float16), dtype) for v in bits)
    roots = [alu(op, a, b) for op in COMPUTED]
    roots += [alu(Op.NEG, a), alu(Op.TRUNC, a), alu(Op.SQRT, a), alu(Op.WHERE, alu(Op.CMPLT, a, b), a, b)]
    roots += [
        alu(Op.ADD, alu(Op.MUL, a, b), const(1.1, dtype)),
        alu(Op.MUL, const(0.3, dtype), alu(Op.NEG, b)),
    ]
    done = decompose(roots)
    for n in walk(done):
        computed = n.op in COMPUTED or n.op in (Op.TRUNC, Op.SQRT, Op.NEG)
        assert not computed or all(s.dtype not in HALF for s in n.src), n
    for e, d in zip(roots, done, strict=True):
        assert d.dtype == e.dtype
        expected, got = evaluate_exprs([e, d], {a: x, b: y})
        np.testing.assert_array_equal(got, expected, err_msg=str(e))


def test_bfloat16_conversions_are_bit_operations():
    h, f, i, d = var("h", bfloat16), var("f", float32), var("i", int32), var("d", float64)
    every = from_storage(np.arange(2**16, dtype=np.uint16), bfloat16)
    with np.errstate(all="ignore"):
        near = np.nextafter(every[:, None], np.array([-np.inf, np.inf], np.float32)).ravel()
    roots = [
        alu(Op.CAST, h, dtype=float32), alu(Op.CAST, h, dtype=float16), alu(Op.CAST, h, dtype=bool_),
        alu(Op.CAST, f, dtype=bfloat16), alu(Op.CAST, i, dtype=bfloat16), alu(Op.CAST, d, dtype=bfloat16),
    ]  # fmt: skip
    env = {
        h: every,
        f: near,
        i: np.arange(2**24 - 2**17, 2**24 + 2**17, 3).astype(np.int32),
        d: near.astype(float),
    }
    done = decompose(roots)
    for n in walk(done):
        assert n.op is not Op.CAST or bfloat16 not in (n.dtype, n.src[0].dtype)
    for e, x in zip(roots, done, strict=True):
        (a,), (b,) = (evaluate_exprs([r], {k: v for k, v in env.items() if k in walk([e])}) for r in (e, x))
        np.testing.assert_array_equal(a, b, err_msg=str(e))


def test_bfloat16_constants_become_bits():
    (e,) = decompose([alu(Op.WHERE, var("p", bool_), const(1.5, bfloat16), const(-2.0, bfloat16))])
    assert not any(n.op is Op.CONST and n.dtype == bfloat16 for n in walk([e]))
    np.testing.assert_array_equal(
        evaluate_exprs([e], {var("p", bool_): np.array([True, False])})[0], [1.5, -2.0]
    )


@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_sums_accumulate_in_float32(dtype):
    r = Range("r", 3000)
    ones = load("x", range_(r), dtype)

    def read(n, index, valid):
        return round_to(np.ones(index.shape), dtype)

    (total,) = decompose([reduce(Op.ADD, ones, [r])])
    assert total.dtype == dtype
    assert evaluate_exprs([total], {}, read)[0].item() == round_to(np.array(3000.0), dtype)
    (running,) = decompose([scan(Op.ADD, ones, r)])
    assert running.dtype == dtype
    last = evaluate_exprs([running], {}, read)[0].ravel()[-1]
    assert last == round_to(np.array(3000.0), dtype)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(width=32), min_size=1, max_size=20), st.sampled_from([Op.EXP2, Op.LOG2, Op.SIN]))
def test_any_float(values, op):
    x = var("x", float32)
    v = np.array(values, np.float32)
    exact = {Op.EXP2: np.exp2, Op.LOG2: np.log2, Op.SIN: np.sin}[op]
    with np.errstate(all="ignore"):
        expected = exact(v.astype(np.float64))
    (got,) = evaluate_exprs(decompose([alu(op, x)]), {x: v})
    assert max_ulp(got, expected) <= 2
