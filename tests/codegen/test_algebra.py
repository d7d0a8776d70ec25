"""The index algebra: each rule by brute force, and properties on random expressions."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dawdle.codegen import algebra as al
from dawdle.codegen.expr import INDEX, Range, X, alu, const, load, make, range_, var, walk
from dawdle.codegen.interpret import evaluate_exprs
from dawdle.dtype import bool_, float32
from dawdle.lazy.ops import Op

RANGES = [Range(n, e) for n, e in zip("ijkl", (3, 4, 5, 12), strict=True)]
I, J, K, L = map(range_, RANGES)
V = var("v")
GRID = {
    e: np.arange(e.arg.extent).reshape([-1 if a == n else 1 for a in range(5)])
    for n, e in enumerate((I, J, K, L))
} | {V: np.arange(-30, 31)}


def same(e, expected):
    """``e`` equals ``expected`` in value everywhere, and is the canonical form of it."""
    a, b = evaluate_exprs([e, expected], GRID)
    np.testing.assert_array_equal(*np.broadcast_arrays(a, b))


def raw(op, *src):
    return make(
        op,
        tuple(const(s) if isinstance(s, int) else s for s in src),
        None,
        bool_ if op in (Op.CMPLT, Op.CMPEQ) else INDEX,
    )


def times(x, k):
    return raw(Op.MUL, x, k)


def plus(*xs):
    total = xs[0]
    for x in xs[1:]:
        total = raw(Op.ADD, total, x)
    return total


def div(x, c):
    return raw(Op.IDIV, x, c)


def rem(x, c):
    return raw(Op.MOD, x, c)


IDENTITIES = [  # (expression, what it must become)
    (plus(V, 0), V),
    (times(V, 1), V),
    (times(V, 0), const(0)),
    (plus(times(V, 2), times(V, 3)), times(V, 5)),
    (raw(Op.SUB, V, V), const(0)),
    (raw(Op.NEG, raw(Op.NEG, V)), V),
    (div(V, 1), V),
    (rem(V, 1), const(0)),
    (div(plus(times(V, 6), J), 6), V),
    (rem(plus(times(V, 6), J), 6), J),
    (div(plus(times(V, -6), J), 6), times(V, -1)),
    (rem(plus(times(V, -6), J), 6), J),
    (div(plus(V, 12), 6), plus(div(V, 6), 2)),
    (rem(plus(V, -12), 6), rem(V, 6)),
    (div(div(V, 3), 4), div(V, 12)),
    (div(rem(V, 12), 4), rem(div(V, 4), 3)),
    (rem(rem(V, 12), 4), rem(V, 4)),
    (div(plus(times(V, 4), times(L, 2)), 6), div(plus(times(V, 2), L), 3)),
    (div(plus(times(V, 4), times(L, 2), 1), 6), div(plus(times(V, 2), L), 3)),
    (rem(plus(times(V, 4), times(L, 2), 1), 6), plus(times(rem(plus(times(V, 2), L), 3), 2), 1)),
    (div(plus(times(V, 4), J), 8), div(V, 2)),
    (rem(plus(times(V, 4), J), 8), plus(times(rem(V, 2), 4), J)),
    (div(raw(Op.SUB, 3, J), 4), const(0)),
    (div(raw(Op.SUB, J, 4), 4), const(-1)),
    (rem(raw(Op.SUB, J, 4), 4), J),
    (plus(times(div(V, 5), 5), rem(V, 5)), V),
    (plus(times(div(V, 5), -15), times(rem(V, 5), -3)), times(V, -3)),
    (plus(times(div(V, 12), 12), times(rem(div(V, 4), 3), 4), rem(V, 4)), V),
    (plus(rem(V, 4), times(rem(div(V, 4), 3), 4)), rem(V, 12)),
    (plus(times(div(plus(V, 1), 5), 5), rem(plus(V, 1), 5)), plus(V, 1)),
    (raw(X.MIN, J, 3), J),
    (raw(X.MIN, J, 0), const(0)),
    (raw(X.MIN, V, plus(V, 2)), V),
    (raw(X.MIN, raw(X.MIN, V, 5), 3), raw(X.MIN, V, 3)),
    (raw(Op.CMPLT, J, 4), al.TRUE),
    (raw(Op.CMPLT, J, 0), al.FALSE),
    (raw(Op.CMPLT, plus(times(V, 4), 1), 12), raw(Op.CMPLT, V, 3)),
    (raw(Op.CMPLT, plus(times(V, 4), J), 12), raw(Op.CMPLT, V, 3)),
    (raw(Op.CMPLT, 12, times(V, -4)), raw(Op.CMPLT, V, -3)),
    (raw(Op.CMPLT, div(V, 4), 3), raw(Op.CMPLT, V, 12)),
    (raw(Op.CMPLT, 3, div(V, 4)), raw(Op.CMPLT, 15, V)),
    (raw(Op.CMPEQ, times(V, 4), 6), al.FALSE),
    (raw(Op.CMPEQ, times(V, -4), 8), raw(Op.CMPEQ, V, -2)),
    (raw(Op.CMPEQ, J, 4), al.FALSE),
    (raw(Op.CMPEQ, plus(V, J), plus(J, V)), al.TRUE),
]


@pytest.mark.parametrize(("e", "expected"), IDENTITIES, ids=lambda e: str(e))
def test_rule(e, expected):
    same(e, expected)
    assert al.simplify(e) is al.simplify(expected)
    assert len(walk([al.simplify(e)])) <= len(walk([expected])) + 2


@pytest.mark.parametrize("c", [1, 2, 3, 4, 6, 12])
def test_division_of_small_sums(c):
    """Every a*i + b*v + d over and modulo c."""
    for a, b, d in product((-13, -4, -1, 2, 6), (-6, -1, 1, 4), (-7, 0, 5)):
        e = plus(times(L, a), times(V, b), d)
        s = al.simplify(e)
        same(al.idiv(s, c), div(e, c))
        same(al.mod(s, c), rem(e, c))
        assert al.add(al.mul(al.idiv(s, c), c), al.mod(s, c)) is s


def test_comparisons_of_small_sums():
    for a, b, limit in product((-6, -4, -1, 1, 3, 8), (-4, 1, 2), range(-9, 10)):
        e = plus(times(V, a), times(J, b))
        for c in (1, 4):
            same(al.less(al.idiv(al.simplify(e), c), limit), raw(Op.CMPLT, div(e, c), limit))
            same(al.less(const(limit), al.idiv(al.simplify(e), c)), raw(Op.CMPLT, limit, div(e, c)))
            same(al.equal(al.idiv(al.simplify(e), c), limit), raw(Op.CMPEQ, div(e, c), limit))


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 5), (2, 3, 1, 4, 5), (7, 2, 2, 2, 3)])
def test_merging_adjacent_axes_leaves_no_division(shape):
    """A row-major index of any number of axes becomes the one range that replaces them."""
    size = int(np.prod(shape))
    f = range_(Range("f", size))
    rest, index, stride = f, const(0), 1
    for n in reversed(shape):
        index = al.add(index, al.mul(al.mod(rest, n), stride))
        rest = al.idiv(rest, n)
        stride *= n
    assert index is f
    # and back: the axes' own indices come out of the flat index
    axes = [range_(Range(f"a{n}", extent)) if extent > 1 else const(0) for n, extent in enumerate(shape)]
    flat = const(0)
    for x, n in zip(axes, shape, strict=True):
        flat = al.add(al.mul(flat, n), x)
    for x, n in zip(reversed(axes), reversed(shape), strict=True):
        assert al.mod(flat, n) is x
        flat = al.idiv(flat, n)


def test_order_of_terms_is_canonical():
    a = al.add(al.add(al.mul(I, 20), al.mul(J, 5)), K)
    b = al.add(K, al.add(al.mul(J, 5), al.mul(I, 20)))
    assert a is b
    assert str(a) == "(((i * 20) + (j * 5)) + k)"
    assert al.mul(al.mul(V, J), K) is al.mul(K, al.mul(J, V))
    assert al.minimum(V, J) is al.minimum(J, V)
    p, q = al.less(V, 3), al.less(const(-2), V)
    assert al.and_(p, q) is al.and_(q, p)


def test_conditions():
    x, y = al.less(V, 3), al.less(V, 5)
    assert al.and_(x, y) is x
    assert al.or_(x, y) is y
    assert al.and_() is al.TRUE
    assert al.or_() is al.FALSE
    assert al.and_(x, al.TRUE) is x
    assert al.and_(x, al.FALSE) is al.FALSE
    assert al.or_(x, al.TRUE) is al.TRUE
    assert al.or_(x, al.FALSE) is x
    assert al.and_(x, al.not_(x)) is al.FALSE
    assert al.or_(x, al.not_(x)) is al.TRUE
    assert al.and_(al.less(V, 3), al.less(const(2), V)) is al.FALSE
    assert al.or_(al.less(V, 3), al.less(const(1), V)) is al.TRUE
    assert al.and_(al.equal(V, 1), x) is al.equal(V, 1)
    assert al.and_(al.less(V, 2), al.less(al.add(V, J), 9)) is al.less(V, 2)
    opaque = load("b", I, bool_)
    assert al.not_(al.not_(opaque)) is opaque
    assert al.and_(opaque, al.not_(opaque)) is al.FALSE


def test_facts_help_below_a_condition():
    """Padding followed by a reshape: the flat index splits only where it is valid."""
    y, x = al.add(al.add(J, K), -1), al.add(al.add(V, L), -1)
    valid = al.and_(al.less(const(-1), x), al.less(x, 28))
    flat = al.add(al.mul(y, 28), x)
    known = al.facts(valid)
    assert al.idiv(flat, 28, known) is y
    assert al.mod(flat, 28, known) is x
    assert al.idiv(flat, 28) is not y
    loaded = load("b", raw(Op.MOD, flat, 28), INDEX, valid)
    assert al.simplify_where([loaded])[0] is load("b", x, INDEX, valid)


def test_values_that_may_wrap_are_not_rearranged():
    """A user's int64 arithmetic keeps NumPy's wrap-around: only ring identities apply to it."""
    user = load("x", I, INDEX)
    lowest, highest = -(2**63), 2**63 - 1
    edges = np.array([lowest, lowest + 1, -1, 0, 1, highest - 1, highest, 2**62, -(2**62)])
    cases = [
        div(times(user, 4), 4),
        rem(plus(user, 5), 3),
        raw(Op.CMPLT, plus(user, 1), 5),
        raw(Op.CMPLT, user, plus(user, 1)),
        raw(Op.CMPEQ, times(user, 4), 8),
        plus(times(div(plus(user, 7), 3), 3), rem(plus(user, 7), 3)),
        raw(Op.CMPLT, div(user, 2), 2**62 + 5),
        raw(Op.CMPLT, user, raw(Op.SUB, 5, I)),
        raw(X.MIN, user, plus(user, 2)),
        raw(Op.MUL, plus(user, 1), plus(user, -1)),
        div(div(user, 2**40), 2**40),
        times(times(user, 2**40), 2**40),
        alu(Op.CMPEQ, raw(Op.CMPLT, user, 3), al.FALSE),
        div(times(L, 2**62), 2**61),
    ]
    for e in cases:
        grid = {I: np.arange(9), L: np.arange(12)[:, None]}
        a, b = evaluate_exprs([e, al.simplify(e)], grid, lambda n, index, valid: edges[index])
        np.testing.assert_array_equal(a, b, err_msg=str(e))
    assert al.simplify(cases[5]) is al.simplify(plus(user, 7))


def test_gathered_index_is_rearranged_where_it_is_valid():
    user = load("x", I, INDEX)
    valid = al.and_(al.less(const(-1), user), al.less(user, 10))
    flat = al.add(al.mul(user, 12), L)
    e = load("table", al.add(al.mul(al.idiv(flat, 12), 12), al.mod(flat, 12)), INDEX, valid)
    assert al.simplify(e) is load("table", flat, INDEX, valid)
    e = load("table", al.idiv(flat, 12), INDEX, valid)
    assert al.simplify(e) is load("table", user, INDEX, valid)


def test_simplify_reaches_values_and_loads():
    inner = load("x", plus(I, rem(plus(times(V, 6), J), 6)), float32)
    value = alu(Op.MUL, inner, alu(Op.WHERE, raw(Op.CMPLT, J, 4), inner, const(1.0, float32)))
    (s,) = al.simplify_where([value])
    plain = load("x", al.add(I, J), float32)
    assert s is alu(Op.MUL, plain, plain)
    assert al.simplify(load("x", I, float32, raw(Op.CMPLT, J, 0))) is const(0.0, float32)


def test_bounds():
    assert al.bounds(al.add(al.mul(I, 4), al.mul(J, -1))) == (-3, 8)
    assert al.bounds(V) == (None, None)
    assert al.bounds(V, {V: (2, 3)}) == (2, 3)
    assert al.bounds(al.mod(V, 7)) == (0, 6)
    assert al.bounds(al.minimum(V, 7)) == (None, 7)
    assert al.bounds(al.idiv(al.add(al.mul(L, -1), 5), 4)) == (-2, 1)


def test_coefficient_and_without():
    e = al.add(al.add(al.mul(I, 12), al.mul(al.mod(V, 5), 3)), al.add(al.mul(J, -2), 7))
    i, j, _, _ = RANGES
    assert al.coefficient(e, i) == 12
    assert al.coefficient(e, j) == -2
    assert al.coefficient(e, RANGES[2]) == 0
    assert al.coefficient(al.add(e, al.idiv(al.add(I, V), 4)), i) is None
    assert al.without(e, i) is al.sub(e, al.mul(I, 12))


def test_repeated_doubling_and_long_chains_are_linear():
    e = V
    for _ in range(60):
        e = raw(Op.ADD, e, e)
    assert al.terms_of(e) == ({V: 1 << 60}, 0)
    e = I
    for n in range(4_000):
        e = raw(Op.ADD, raw(Op.SUB, e, n), n + 1)
    assert al.simplify(e) is al.add(I, 4_000)
    e = V
    for n in range(1_500):  # nested deeper than Python's stack
        e = rem(plus(e, V), 7 + n % 5)
    assert al.bounds(al.simplify(e)) == (0, 10)


INDEXES = st.recursive(
    st.sampled_from([I, J, K, L, V]) | st.integers(-20, 20).map(const),
    lambda s: st.one_of(
        st.tuples(st.sampled_from([Op.ADD, Op.SUB, X.MIN, Op.MUL]), s, s).map(lambda t: raw(*t)),
        st.tuples(s, st.integers(-6, 6)).map(lambda t: times(*t)),
        st.tuples(st.sampled_from([Op.IDIV, Op.MOD]), s, st.sampled_from([1, 2, 3, 4, 5, 6, 8, 12])).map(
            lambda t: raw(*t)
        ),
    ),
    max_leaves=10,
)
COMPARES = st.tuples(st.sampled_from([Op.CMPLT, Op.CMPEQ]), INDEXES, INDEXES).map(lambda t: raw(*t))
CONDITIONS = st.recursive(
    COMPARES, lambda s: st.tuples(st.sampled_from([Op.AND, Op.OR]), s, s).map(lambda t: alu(*t)), max_leaves=4
)


@settings(max_examples=200, deadline=None)
@given(INDEXES)
def test_simplify_keeps_values_and_bounds_are_sound(e):
    s = al.simplify(e)
    same(s, e)
    assert al.simplify(s) is s or len(walk([al.simplify(s)])) <= len(walk([s]))
    (value,) = evaluate_exprs([e], GRID)
    for lo, hi in (al.bounds(s, {V: (-30, 30)}), al.bounds(e, {V: (-30, 30)})):
        assert lo <= value.min() and value.max() <= hi


@settings(max_examples=120, deadline=None)
@given(CONDITIONS)
def test_simplify_keeps_conditions(e):
    same(al.simplify(e), e)
    same(al.not_(al.simplify(e)), alu(Op.CMPEQ, e, al.FALSE))


@settings(max_examples=120, deadline=None)
@given(INDEXES, CONDITIONS)
def test_facts_are_sound(e, condition):
    """Under what a condition implies, an expression keeps its value wherever the condition holds."""
    condition = al.simplify(condition)
    s = al.simplify(e, al.facts(condition))
    a, b, holds = np.broadcast_arrays(*evaluate_exprs([s, e, condition], GRID))
    np.testing.assert_array_equal(a[holds], b[holds])
