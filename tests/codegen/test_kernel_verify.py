"""The verifiers: each rule has a malformed kernel or loop tree that breaks it, and real ones pass."""

import numpy as np
import pytest

from dawdle.codegen import loop
from dawdle.codegen.expr import INDEX, Range, X, alu, const, load, make, range_, reduce, var
from dawdle.codegen.interpret import run_kernel, run_threads
from dawdle.codegen.kernel import Kernel, Param, StageBuffer, Store
from dawdle.codegen.loopify import loopify
from dawdle.codegen.lower import lower
from dawdle.codegen.recipes import cpu
from dawdle.codegen.target import Target
from dawdle.codegen.verify import brief, verify_kernel, verify_loops
from dawdle.dtype import bool_, float32, int32, int64
from dawdle.errors import VerifyError
from dawdle.lazy import build
from dawdle.lazy.interpret import evaluate
from dawdle.lazy.ops import Op
from dawdle.lazy.plan import Group

N, K = Range("n", 4), Range("k", 3)
n, k = range_(N), range_(K)
ONE = const(1.0, float32)
PARAMS = (Param("out", float32, 4, True), Param("x", float32, 4))


def kernel(*stores, params=PARAMS, ranges=(N,), **rest):
    return Kernel("k", tuple(params), tuple(ranges), stores, **rest)


def store(value=ONE, index=n, **rest):
    return Store("out", index, value, **rest)


X_N = load("x", n, float32)
TABLE_SUM = reduce(Op.ADD, load("x", make(X.MIN, (n, k), None, INDEX), float32), [K])
GOOD_KERNELS = [
    kernel(store()),
    kernel(store(X_N)),
    kernel(store(reduce(Op.ADD, alu(Op.MUL, X_N, load("x", k, float32)), [K]))),
    kernel(store(alu(Op.FMA, X_N, ONE, X_N))),
    kernel(store(load("x", alu(Op.ADD, n, const(1)), float32, alu(Op.CMPLT, n, const(3))))),
    kernel(store(index=alu(Op.ADD, n, const(2)), valid=alu(Op.CMPLT, n, const(2)))),
    kernel(
        store(load("tile", n, float32)), stages=(StageBuffer("tile", X_N, None, (N,)),), marks={N: "vector"}
    ),
]
BAD_KERNELS = [
    (kernel(store(load("x", k, float32))), "bound by no loop"),
    (kernel(store(index=k)), "bound by no loop"),
    (kernel(store(), ranges=(N, N)), "twice"),
    (kernel(store(), params=(PARAMS[0], PARAMS[0])), "twice"),
    (kernel(Store("x", n, ONE)), "input"),
    (kernel(Store("y", n, ONE)), "no parameter"),
    (kernel(store(const(1, int32))), "int32"),
    (kernel(store(load("z", n, float32))), "no buffer"),
    (kernel(store(load("x", n, int32))), "holds float32"),
    (kernel(store(index=const(1.0, float32))), "index is float32"),
    (kernel(store(valid=n)), "bool"),
    (kernel(store(how=Op.SUB)), "combine"),
    (kernel(store(make(Op.ADD, (ONE, const(1, int32)), None, float32))), "doesn't take"),
    (kernel(store(make(Op.WHERE, (ONE, ONE, ONE), None, float32))), "doesn't take"),
    (kernel(store(make(Op.FMA, (ONE, ONE), None, float32))), "doesn't take"),
    (kernel(store(index=make(Op.FMA, (n, n, n), None, INDEX))), "doesn't take"),
    (kernel(store(make(X.BROADCAST, (ONE,), None, float32, 4))), "scalar"),
    (kernel(store(var("v", float32))), "loop tree"),
    (kernel(store(index=alu(Op.ADD, n, const(1)))), "runs from 1 to 4"),
    (kernel(store(load("x", alu(Op.MUL, n, const(2)), float32))), "runs from 0 to 6"),
    (kernel(store(index=alu(Op.ADD, n, const(4)), valid=alu(Op.CMPLT, n, const(2)))), "runs from 4 to 5"),
    (kernel(store(), marks={N: "sideways"}), "sideways"),
    (kernel(store(TABLE_SUM), marks={N: "vector", K: "vector"}), "both lanes"),
    (kernel(store(TABLE_SUM), marks={N: "local", K: "local"}), "both lanes"),
    (kernel(store(X_N), stages=(StageBuffer("t", load("x", k, float32), None, (N,)),)), "bound by no loop"),
]


@pytest.mark.parametrize("good", GOOD_KERNELS, ids=str)
def test_good_kernels_pass(good):
    verify_kernel(good)


@pytest.mark.parametrize(("bad", "words"), BAD_KERNELS, ids=lambda x: x if isinstance(x, str) else "")
def test_bad_kernels_are_rejected(bad, words):
    with pytest.raises(VerifyError, match=words):
        verify_kernel(bad)


I = var("i")
ZERO = const(0)
FOUR = make(X.BROADCAST, (ONE,), None, float32, 4)
REGISTER = loop.Alloc("r", float32, 2, "register")
VECTORS = loop.Alloc("v", float32, 2, "register", 4)


def put(value=ONE, index=ZERO, target="out", how=None):
    return loop.Store(target, index, value, how)


def over(*body, stop=None):
    return loop.For("i", ZERO, stop or const(4), 1, body)


GOOD_BODIES = [
    [over(put(load("x", I, float32), I))],
    [REGISTER, put(target="r"), put(load("r", const(1), float32))],
    [VECTORS, put(FOUR, const(1), "v"), put(make(X.LOAD, (const(1),), "v", float32, 4))],
    [put(FOUR), loop.Barrier(), put(make(X.FOLD, (FOUR,), Op.ADD, float32))],
    [loop.Let("a", var("thread")), loop.If(alu(Op.CMPLT, var("a"), var("threads")), (put(),))],
    [put(make(Op.FMA, (FOUR, FOUR, FOUR), None, float32, 4))],
    [put(make(Op.WHERE, (alu(Op.CMPLT, ZERO, var("thread")), FOUR, FOUR), None, float32, 4))],
]
BAD_BODIES = [
    ([put(index=I)], "isn't defined"),
    ([over(), put(index=I)], "isn't defined"),
    ([over(), over()], "defined twice"),
    ([loop.Let("a", ONE), loop.Let("a", ONE)], "defined twice"),
    ([loop.If(const(True, bool_), (loop.Let("a", ONE),)), put(var("a", float32))], "isn't defined"),
    ([loop.Let("a", ONE), put(index=var("a"))], "used as int64"),
    ([loop.Let("a", FOUR), put(var("a", float32))], "used as float32x1"),
    ([put(target="y")], "isn't defined"),
    ([put(target="x")], "input"),
    ([put(how=Op.DIV)], "combine"),
    ([put(const(1, int32))], "accessed as int32"),
    ([put(make(Op.FMA, (FOUR, FOUR, ONE), None, float32, 4))], "lanes disagree"),
    ([put(index=make(X.VECTOR, (ZERO, ZERO), None, INDEX, 2))], "an index is one"),
    ([put(make(Op.ADD, (FOUR, ONE), None, float32, 4))], "lanes disagree"),
    ([put(make(X.VECTOR, (ONE, ONE), None, float32, 3))], "doesn't take"),
    ([put(n)], "left over"),
    ([REGISTER, over(put(index=I, target="r"))], "constant indices"),
    ([REGISTER, put(index=const(2), target="r")], "outside of its 2"),
    ([REGISTER, put(FOUR, target="r")], "outside of its 2"),
    ([VECTORS, put(target="v")], "vectors of 4"),
    ([loop.Alloc("a", float32, 1, "moon")], "moon"),
    ([loop.Alloc("a", float32, 0, "scratch")], "0 elements"),
    ([loop.If(ONE, ())], "bool"),
    ([over(stop=ONE)], "no scalar index"),
    ([loop.For("i", ZERO, ZERO, 0, ())], "steps by 0"),
]


def function(body):
    return loop.Function("f", (("out", float32, True), ("x", float32, False)), tuple(body))


@pytest.mark.parametrize("body", GOOD_BODIES)
def test_good_loops_pass(body):
    verify_loops(function(body))


@pytest.mark.parametrize(("body", "words"), BAD_BODIES, ids=lambda x: x if isinstance(x, str) else "")
def test_bad_loops_are_rejected(body, words):
    with pytest.raises(VerifyError, match=words):
        verify_loops(function(body))


def test_parameters_have_names_of_their_own():
    with pytest.raises(VerifyError, match="share a name"):
        verify_loops(loop.Function("f", (("x", float32, True), ("x", float32, False)), ()))


def test_messages_stay_short_for_shared_expressions():
    e = ONE
    for _ in range(60):
        e = alu(Op.ADD, e, e)
    assert brief(e) == "<ADD float32 of 61 nodes>"
    with pytest.raises(VerifyError):
        verify_kernel(kernel(store(alu(Op.ADD, e, load("z", n, float32)))))


# ---- real kernels keep their meaning through every stage ----


class _Array:
    def __init__(self, data):
        self.data, self.nbytes = data, data.nbytes


def leaf(*shape):
    data = np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)
    return build.buffer(_Array(data), shape, float32, "CPU")


def softmax(x):
    shifted = build.binary(Op.SUB, x, build.expand(build.reduce(Op.AMAX, x, [1]), x.shape))
    e = build.unary(Op.EXP2, shifted)
    return build.binary(Op.DIV, e, build.expand(build.reduce(Op.SUM, e, [1]), x.shape))


def residual_of_transpose(x):
    y = build.permute(x, (1, 0))
    return build.binary(Op.ADD, softmax(y), y)


def matmul(x, y):
    shape = (x.shape[0], *y.shape)
    a = build.expand(build.reshape(x, (*x.shape, 1)), shape)
    b = build.expand(build.reshape(y, (1, *y.shape)), shape)
    return build.reduce(Op.SUM, build.binary(Op.MUL, a, b), [1])


def nearest(x, y):
    """A reduction inside of another, both of which could be vectors."""
    shape = (x.shape[0], y.shape[1])
    apart = build.binary(Op.MAX, build.expand(x, shape), build.expand(y, shape))
    return build.reduce(Op.AMAX, build.reduce(Op.SUM, apart, [1]), [0])


def chosen_sums(x):
    """A sum of sums, each under a condition on itself."""
    sums = build.reduce(Op.SUM, x, [1])
    zero = build.full(sums.shape, 0.0, float32, "CPU")
    return build.reduce(Op.SUM, build.where(build.binary(Op.CMPLT, zero, sums), sums, zero), [0])


def padded(x):
    return build.reshape(build.pad(build.reshape(x, (x.size,)), [(1, 1, 0)]), (5, 10))


CASES = {
    "softmax": (softmax, (6, 16)),
    "residual of a transpose": (residual_of_transpose, (24, 16)),
    "scan": (lambda x: build.scan(Op.ADD, build.permute(x, (1, 0)), 1), (5, 7)),
    "matmul": (matmul, (5, 12), (12, 17)),
    "nearest": (nearest, (16, 1), (1, 8)),
    "chosen sums": (chosen_sums, (16, 8)),
    "chosen sums of columns": (chosen_sums, (20, 3, 9)),
    "padded": (padded, (6, 8)),
    "flipped": (lambda x: build.reshape(build.flip(x, [0, 1]), (8, 6)), (6, 8)),
    "windows": (
        lambda x: build.reduce(Op.SUM, build.window(build.pad(x, [(0, 0, 0), (1, 1, 0)]), [(3, 1, 1)]), [2]),
        (3, 9),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_stage_computes_what_the_graph_means(name):
    make_graph, *shapes = CASES[name]
    inputs = [leaf(*s) for s in shapes]
    node = make_graph(*inputs)
    (expected,) = evaluate([node], lambda b: b.arg.data)
    plain = lower(Group((node,), tuple(inputs), node.shape))
    scheduled = cpu.schedule(plain, Target(threads=2))
    functions = [loopify(plain), loopify(scheduled)]
    buffers = {f"in{i}": x.arg.data.ravel() for i, x in enumerate(inputs)}
    runs = [lambda b, k=k: run_kernel(k, b) for k in (plain, scheduled)]
    runs += [lambda b, f=f: run_threads(f, b, 2) for f in functions]
    for k in (plain, scheduled):
        verify_kernel(k)
    for f in functions:
        verify_loops(f)
    for execute in runs:
        buffers["out0"] = np.full(node.size, np.nan, np.float32)
        execute(buffers)
        np.testing.assert_allclose(buffers["out0"].reshape(node.shape), expected, rtol=2e-5, atol=1e-6)


def test_numbers_gathered_out_of_range_are_zero():
    places = np.array([-1, 0, 3, 4, 2])
    index = build.buffer(_Array(places), (5,), int64, "CPU")
    node = build.gather(build.iota(4, int64, "CPU"), index, 0)
    buffers = {"in0": places, "out0": np.full(5, 9)}
    run_kernel(lower(Group((node,), (index,), (5,))), buffers)
    np.testing.assert_array_equal(buffers["out0"], [0, 0, 3, 0, 2])
