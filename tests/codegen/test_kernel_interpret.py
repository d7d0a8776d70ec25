"""The interpreters of the kernel and loop IRs against NumPy."""

import numpy as np
import pytest

from dawdle.codegen import expr, loop
from dawdle.codegen.expr import INDEX, Range, X, alu, const, load, make, range_, reduce, scan, var
from dawdle.codegen.interpret import evaluate_exprs, run_kernel, run_loops, run_threads
from dawdle.codegen.kernel import Kernel, Param, StageBuffer, Store
from dawdle.dtype import bfloat16, bool_, float16, float32, int32, int64, to_storage
from dawdle.errors import VerifyError
from dawdle.lazy.ops import Op

N, M = Range("n", 3), Range("m", 4)
n, m = range_(N), range_(M)
ROW_MAJOR = alu(Op.ADD, alu(Op.MUL, n, const(4)), m)


def kernel(*stores, params=(), ranges=(N, M), stages=()):
    out = Param("out", stores[0].value.dtype, 12, True)
    return Kernel("k", (out, *params), tuple(ranges), stores, stages=tuple(stages))


def run(k, **buffers):
    buffers["out"] = np.zeros(12, k.params[0].dtype.storage)
    run_kernel(k, buffers)
    return buffers["out"]


# ---- expressions ----


def test_reductions_bind_axes_of_their_own():
    r, s = Range("r", 5), Range("s", 2)
    body = alu(Op.ADD, alu(Op.MUL, range_(r), n), range_(s))
    grid = {n: np.arange(3)}
    total, greatest, repeated = evaluate_exprs(
        [reduce(Op.ADD, body, [r, s]), reduce(Op.MAX, body, [r, s]), reduce(Op.ADD, n, [r])], grid
    )
    table = np.arange(5)[:, None, None] * np.arange(3) + np.arange(2)[:, None]
    np.testing.assert_array_equal(total.ravel(), table.sum((0, 1)))
    np.testing.assert_array_equal(greatest.ravel(), table.max((0, 1)))
    np.testing.assert_array_equal(repeated.ravel(), 5 * np.arange(3))


def test_empty_reductions_give_the_identity():
    empty = Range("e", 0)
    for op, expected in ((Op.ADD, 0.0), (Op.MUL, 1.0), (Op.MAX, -np.inf)):
        e = reduce(op, alu(Op.CAST, range_(empty), dtype=float32), [empty])
        assert evaluate_exprs([e], {})[0].item() == expected


def test_fma_rounds_once():
    a, c = var("a", float32), var("c", float32)
    points = np.array([[1 + 2**-12, np.inf, 3], [-1 - 2**-11, -np.inf, 1]], np.float32)
    env = {a: points[0], c: points[1]}
    got, apart = evaluate_exprs([alu(Op.FMA, a, a, c), alu(Op.ADD, alu(Op.MUL, a, a), c)], env)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, np.array([2**-24, np.nan, 10], np.float32))
    np.testing.assert_array_equal(apart, np.array([0, np.nan, 10], np.float32))


def test_integers_wrap_and_division_by_zero_gives_zero():
    a, b = var("a", int32), var("b", int32)
    env = {a: np.array([2**31 - 1, -7, 5], np.int32), b: np.array([1, 2, 0], np.int32)}
    got = evaluate_exprs([alu(Op.ADD, a, b), alu(Op.IDIV, a, b), alu(Op.MOD, a, b)], env)
    np.testing.assert_array_equal(got, [[-(2**31), -5, 5], [2**31 - 1, -4, 0], [0, 1, 0]])
    assert {g.dtype for g in got} == {np.dtype(np.int32)}


def test_unknown_names_and_loads_without_memory_are_errors():
    with pytest.raises(VerifyError, match="unbound"):
        evaluate_exprs([var("x")], {})
    with pytest.raises(VerifyError, match="no memory"):
        evaluate_exprs([load("x", n, float32)], {n: 0})


# ---- kernels ----


def test_kernel_stores_over_its_ranges():
    x = np.arange(12, dtype=np.float32)
    doubled = alu(Op.MUL, load("x", ROW_MAJOR, float32), const(2.0, float32))
    k = kernel(Store("out", ROW_MAJOR, doubled), params=[Param("x", float32, 12)])
    np.testing.assert_array_equal(run(k, x=x), 2 * x)


def test_kernel_conditions_and_masked_loads():
    x = np.arange(2, dtype=np.float32) + 1
    inside = alu(Op.CMPLT, m, const(2))
    k = kernel(Store("out", ROW_MAJOR, load("x", m, float32, inside)), params=[Param("x", float32, 2)])
    np.testing.assert_array_equal(run(k, x=x), [1, 2, 0, 0] * 3)
    one = const(1.0, float32)
    k = kernel(Store("out", ROW_MAJOR, one, alu(Op.CMPLT, n, const(1))))
    np.testing.assert_array_equal(run(k), [1] * 4 + [0] * 8)
    outside = kernel(Store("out", ROW_MAJOR, load("x", m, float32)), params=[Param("x", float32, 2)])
    with pytest.raises(VerifyError, match=r"x\[2\] is outside of its 2 elements"):
        run(outside, x=x)
    with pytest.raises(VerifyError, match=r"out\[12\]"):
        run(kernel(Store("out", alu(Op.ADD, ROW_MAJOR, const(9)), one)))


def test_kernel_stores_run_in_order_and_only_over_their_own_ranges():
    one = const(1.0, float32)
    k = kernel(Store("out", m, alu(Op.CAST, m, dtype=float32)), Store("out", const(0), one, None, Op.ADD))
    np.testing.assert_array_equal(run(k)[:4], [1, 1, 2, 3])
    combined = kernel(Store("out", const(2), alu(Op.CAST, n, dtype=float32), None, Op.MAX))
    assert run(combined)[2] == 2
    repeated = kernel(Store("out", const(2), alu(Op.CAST, n, dtype=int64), None, Op.ADD))
    assert run(repeated)[2] == 3


@pytest.mark.parametrize("dtype", [float16, bfloat16])
def test_kernel_combines_half_precision(dtype):
    k = kernel(Store("out", const(1), make(Op.CONST, (), 0.1, dtype), None, Op.ADD), ranges=())
    assert run(k)[1] == to_storage(np.array([0.1], np.float32), dtype)[0]


def test_kernel_scan_runs_along_its_range():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    body = load("x", ROW_MAJOR, float32)
    for r, axis in ((N, 0), (M, 1)):
        k = kernel(Store("out", ROW_MAJOR, scan(Op.ADD, body, r)), params=[Param("x", float32, 12)])
        np.testing.assert_array_equal(run(k, x=x).reshape(3, 4), x.cumsum(axis))


def test_kernel_staged_tiles_mean_their_values():
    x = np.arange(12, dtype=np.float32)
    value = alu(Op.MUL, load("x", ROW_MAJOR, float32), const(3.0, float32))
    tile = StageBuffer("tile", value, None, (M, N))
    transposed = load("tile", alu(Op.ADD, alu(Op.MUL, m, const(3)), n), float32)
    k = kernel(Store("out", ROW_MAJOR, transposed), params=[Param("x", float32, 12)], stages=[tile])
    np.testing.assert_array_equal(run(k, x=x), 3 * x)


def test_kernel_inputs_are_not_written():
    k = Kernel("k", (Param("x", float32, 12),), (N,), (Store("x", n, const(0.0, float32)),))
    with pytest.raises(VerifyError, match="input"):
        run_kernel(k, {"x": np.zeros(12, np.float32)})


# ---- loop trees ----


def function(*body, params=(("x", float32, False), ("out", float32, True))):
    return loop.Function("f", tuple(params), tuple(body))


def vector(op, *src, dtype=float32, arg=None, lanes=4):
    return make(op, src, arg, dtype, lanes)


def test_vector_loop_with_accumulator():
    """The sum of products of two arrays, in four lanes."""
    i = var("i")
    x = vector(X.LOAD, i, arg="x")
    acc = vector(X.LOAD, const(0), arg="acc")
    zero = vector(X.BROADCAST, const(0.0, float32))
    f = function(
        loop.Alloc("acc", float32, 1, "register", 4),
        loop.Store("acc", const(0), zero),
        loop.For("i", const(0), const(12), 4, (loop.Store("acc", const(0), vector(Op.MUL, x, x), Op.ADD),)),
        loop.Store("out", const(0), make(X.FOLD, (acc,), Op.ADD, float32)),
        loop.Store("out", const(1), acc),
    )
    data, out = np.arange(12, dtype=np.float32), np.zeros(5, np.float32)
    run_loops(f, {"x": data, "out": out})
    assert out[0] == (data**2).sum()
    np.testing.assert_array_equal(out[1:], (data**2).reshape(3, 4).sum(0))


def test_masked_loads_and_untaken_branches_touch_no_memory():
    far = load("x", const(99), float32, const(False, bool_))
    wild = load("x", const(99), float32)
    choice = alu(Op.WHERE, const(True, bool_), const(5.0, float32), wild)
    index = alu(Op.ADD, load("x", const(77), INDEX), const(1))
    f = function(
        loop.Store("out", const(0), far),
        loop.Store("out", const(1), choice),
        loop.Store("out", const(2), load("x", index, float32, alu(Op.CMPLT, const(1), const(0)))),
        loop.If(const(False, bool_), (loop.Store("out", const(99), far),)),
    )
    out = np.full(3, 7, np.float32)
    run_loops(f, {"x": np.ones(2, np.float32), "out": out})
    np.testing.assert_array_equal(out, [0, 5, 0])
    with pytest.raises(VerifyError, match=r"x\[99\]"):
        run_loops(function(loop.Store("out", const(0), wild)), {"x": np.ones(2, np.float32), "out": out})


def test_threads_share_the_loop_and_meet_at_barriers():
    """Each thread fills its part; after the barrier each reads what the next one wrote."""
    thread, threads = var("thread"), var("threads")
    following = expr.alu(Op.MOD, alu(Op.ADD, thread, const(1)), threads)
    f = function(
        loop.Let("mine", alu(Op.CAST, thread, dtype=float32)),
        loop.Store("out", thread, var("mine", float32)),
        loop.Barrier(),
        loop.Let("seen", load("out", following, float32)),
        loop.Barrier(),
        loop.Store("out", thread, var("seen", float32)),
    )
    out = np.full(3, -1, np.float32)
    run_threads(f, {"x": np.zeros(1, np.float32), "out": out}, 3)
    np.testing.assert_array_equal(out, [1, 2, 0])
    alone = np.full(3, -1, np.float32)
    run_loops(f, {"x": np.zeros(1, np.float32), "out": alone}, thread=1, threads=3)
    np.testing.assert_array_equal(alone, [-1, -1, -1])  # thread 2 didn't run, so it read what was there


def test_errors_name_what_is_wrong():
    out = np.zeros(3, np.float32)
    for body, words in [
        (loop.Store("out", const(0), var("y", float32)), "y is used before"),
        (loop.Store("nowhere", const(0), const(0.0, float32)), "nowhere"),
        (loop.Store("x", const(0), const(0.0, float32)), "input"),
        (loop.Store("out", const(0), load("gone", const(0), float32)), "gone"),
        (loop.Let("q", make(Op.IDIV, (const(-3), const(2)), "nonneg", INDEX)), "negative"),
    ]:
        with pytest.raises(VerifyError, match=words):
            run_loops(function(body), {"x": out.copy(), "out": out})
    with pytest.raises(VerifyError, match="float32"):
        run_loops(function(), {"x": np.zeros(3), "out": out})
    two = loop.Alloc("v", float32, 2, "register", 4)
    with pytest.raises(VerifyError, match="4 lanes"):
        run_loops(
            function(two, loop.Store("v", const(0), const(0.0, float32))), {"x": out.copy(), "out": out}
        )
