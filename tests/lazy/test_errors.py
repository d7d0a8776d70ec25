"""A mistake is reported where the node is built, with what, which shapes, and the fix."""
from __future__ import annotations

import math

import numpy as np
import pytest
from random_graphs import leaf

from dawdle.dtype import bool_, float32, int8, int32, int64
from dawdle.errors import DeviceError, DTypeError, ShapeError
from dawdle.lazy import build
from dawdle.lazy.ops import Op

F = leaf(np.zeros((2, 3)), float32)
I = leaf(np.zeros((2, 3)), int64)
B = leaf(np.zeros((2, 3)), bool_)
T = leaf(np.zeros((3, 2)), float32)
ELSEWHERE = leaf(np.zeros((2, 3)), float32, "CPU")

DTYPE_ERRORS = [
    (lambda: build.unary(Op.SQRT, I), r"sqrt takes floats, got int64; cast the operand first"),
    (lambda: build.unary(Op.NEG, B), r"neg takes integers and floats, got bool; cast"),
    (lambda: build.binary(Op.ADD, B, B), r"add takes integers and floats, got bool"),
    (lambda: build.binary(Op.DIV, I, I), r"div takes floats, got int64"),
    (lambda: build.binary(Op.AND, F, F), r"and takes bool and integers, got float32"),
    (lambda: build.binary(Op.SHL, B, B), r"shl takes integers, got bool"),
    (lambda: build.binary(Op.ADD, F, I), r"add needs operands of one dtype, got float32, int64; cast one"),
    (lambda: build.fma(I, I, I), r"fma takes floats, got int64"),
    (lambda: build.where(F, F, F), r"where needs a bool condition, got float32; compare it"),
    (lambda: build.where(B, F, I), r"where needs operands of one dtype, got float32, int64"),
    (lambda: build.reduce(Op.SUM, B, (0,)), r"sum takes integers and floats, got bool"),
    (lambda: build.scan(Op.ADD, B, 0), r"add takes integers and floats, got bool"),
    (lambda: build.bitcast(F, int8), r"bitcast needs dtypes of one width, got float32 and int8"),
    (lambda: build.bitcast(B, int8), r"bitcast needs dtypes of one width, got bool and int8"),
    (lambda: build.iota(3, float32, "CPU"), r"iota makes integers, got float32; cast its result"),
    (lambda: build.gather(F, F, 0), r"gather needs an integer index, got float32"),
    (lambda: build.scatter(F, F, F, 0), r"scatter needs an integer index, got float32"),
    (lambda: build.scatter(B, I, B, 0), r"add takes integers and floats, got bool"),
    (lambda: build.unwindow(B, ((2, 1, 1),), (4,)), r"unwindow adds, which takes .*, got bool"),
    (lambda: build.const(math.nan, int32, "CPU"), r"nan has no int32 value; use a float dtype"),
    (lambda: build.const(math.inf, int32, "CPU"), r"inf has no int32 value"),
]


@pytest.mark.parametrize("make, words", DTYPE_ERRORS)
def test_dtype_errors(make, words):
    with pytest.raises(DTypeError, match=words):
        make()


SHAPE_ERRORS = [
    (lambda: build.binary(Op.ADD, F, T), r"add needs .* of one shape, got \(2, 3\) and \(3, 2\); expand"),
    (lambda: build.where(B, F, T), r"where needs operands of one shape"),
    (lambda: build.fma(F, F, T), r"fma needs operands of one shape"),
    (lambda: build.reduce(Op.SUM, F, (2,)), r"sum: axis 2 is out of range; shape \(2, 3\) has 2 axes"),
    (lambda: build.reduce(Op.AMAX, F, (0, -2)), r"amax: axes \(0, -2\) name an axis of shape \(2, 3\) twice"),
    (lambda: build.scan(Op.MAX, F, -3), r"scan: axis -3 is out of range"),
    (lambda: build.flip(F, (5,)), r"flip: axis 5 is out of range"),
    (lambda: build.reshape(F, (4, 2)), r"cannot reshape \(2, 3\) with 6 elements into \(4, 2\) with 8"),
    (lambda: build.reshape(F, (-2, -3)), r"cannot reshape \(2, 3\).*into \(-2, -3\)"),
    (lambda: build.permute(F, (0, 0)), r"permute: \(0, 0\) is not an order of the 2 axes of shape \(2, 3\)"),
    (lambda: build.expand(F, (2, 4)), r"cannot expand \(2, 3\) to \(2, 4\): only axes of size 1 expand"),
    (lambda: build.expand(F, (1, 2, 3)), r"cannot expand \(2, 3\) to \(1, 2, 3\).*add axes with reshape"),
    (lambda: build.slice_(F, ((0, 2, 1),)), r"slice: 1 ranges for the 2 axes of shape \(2, 3\)"),
    (lambda: build.slice_(F, ((0, 3, 1), (0, 3, 1))), r"slice: \(0, 3, 1\) is not within an axis of size 2"),
    (lambda: build.slice_(F, ((0, 2, 0), (0, 3, 1))), r"slice: \(0, 2, 0\).*step >= 1"),
    (lambda: build.pad(F, ((0, 2, 0),)), r"pad: 1 amounts for the 2 axes of shape \(2, 3\)"),
    (lambda: build.pad(F, ((0, -1, 0), (0, 0, 0))), r"pad: amounts .* must not be negative; use a slice"),
    (lambda: build.window(F, ((1, 1, 1),) * 3), r"window: 3 windows for shape \(2, 3\) with 2 axes"),
    (lambda: build.window(F, ((2, 0, 1),)), r"window: size, stride .* must be >= 1, got \(2, 0, 1\)"),
    (lambda: build.window(F, ((2, 1, 3),)), r"window of 2 with dilation 3 spans 4 .*axis has 3; pad it"),
    (lambda: build.unwindow(F, ((3, 1, 1),), (5,)), r"unwindow: windows .* over sizes \(5,\) do not"),
    (lambda: build.unwindow(F, ((3, 1, 1),), (1,)), r"unwindow: windows .* over sizes \(1,\) do not give"),
    (lambda: build.unwindow(F, ((3, 1, 1),) * 2, (4, 4)), r"unwindow: windows .* do not give shape \(2, 3\)"),
    (lambda: build.unwindow(F, ((3, 1, 1),), (4, 4)), r"unwindow: 1 windows, but 2 sizes"),
    (lambda: build.gather(T, I, 0), r"gather: index of shape \(2, 3\) must match .* every axis but 0"),
    (lambda: build.gather(F, leaf(np.zeros(2), int64), 0), r"gather: index of shape \(2,\) must match"),
    (lambda: build.gather(F, I, 2), r"gather: axis 2 is out of range"),
    (lambda: build.scatter(T, I, F, 0), r"scatter: index of shape \(2, 3\) must match \(3, 2\)"),
    (lambda: build.scatter(F, I, T, 0), r"scatter needs operands of one shape, got \(2, 3\) and \(3, 2\)"),
    (lambda: build.custom(abs, shape=(), dtype=float32), r"custom needs at least one operand"),
    (lambda: build.iota(-1, int64, "CPU"), r"iota: the length -1 must not be negative"),
    (lambda: build.full((2, -1), 0, int64, "CPU"), r"\(1, 1\) to \(2, -1\): sizes must not be negative"),
]


@pytest.mark.parametrize("make, words", SHAPE_ERRORS)
def test_shape_errors(make, words):
    with pytest.raises(ShapeError, match=words):
        make()


@pytest.mark.parametrize("make", [
    lambda: build.binary(Op.ADD, F, ELSEWHERE),
    lambda: build.where(B, F, ELSEWHERE),
    lambda: build.gather(ELSEWHERE, I, 0),
    lambda: build.scatter(F, I, ELSEWHERE, 0),
    lambda: build.after(F, build.unary(Op.NEG, ELSEWHERE)),
    lambda: build.custom(abs, F, ELSEWHERE, shape=(), dtype=float32),
])  # fmt: skip
def test_device_errors(make):
    with pytest.raises(DeviceError, match=r": operands live on CPU and NUMPY; move one with .to\(device\)"):
        make()


def test_what_changes_nothing_is_the_operand_itself():
    same = [
        build.cast(F, float32), build.bitcast(F, float32), build.reduce(Op.SUM, F, ()),
        build.reshape(F, (2, 3)),
        build.permute(F, (0, 1)), build.expand(F, (2, 3)), build.flip(F, ()),
        build.pad(F, ((0, 0, 0),) * 2),
        build.slice_(F, ((0, 2, 1), (0, 3, 1))), build.window(F, ()), build.unwindow(F, (), ()),
        build.contiguous(F), build.copy(F, "NUMPY"), build.reshape(build.reshape(F, (6,)), (2, 3)),
    ]  # fmt: skip
    assert all(node is F for node in same)


def test_shapes_are_tuples_however_they_are_given():
    nodes = [
        build.reshape(F, [3, 2]), build.permute(F, [1, 0]), build.expand(build.reshape(F, [1, 6]), [2, 6]),
        build.pad(F, [[1, 0, 0], [0, 0, 0]]), build.slice_(F, [[0, 1, 1], [0, 3, 1]]),
        build.window(F, [[2, 1, 1]]), build.unwindow(build.window(F, [[2, 1, 1]]), [[2, 1, 1]], [3]),
        build.flip(F, [0]), build.reduce(Op.SUM, F, [0]),
    ]  # fmt: skip
    for node in nodes:
        assert type(node.shape) is tuple
        hash(node.arg)  # nodes are told apart by their arguments


def test_constants_wrap_and_round():
    def arg(value, dtype):
        return build.const(value, dtype, "CPU").arg

    assert (arg(300, int8), arg(-129, int8), arg(2**64 - 1, int64), arg(2.9, int8)) == (44, 127, -1, 2)
    assert arg(np.float32(0.1), float32) == float(np.float32(0.1)) == arg(0.1, float32)
    assert type(arg(np.int64(3), float32)) is float and type(arg(np.float64(3), int8)) is int
    assert arg(2, bool_) is True
    assert arg(1e300, float32) == math.inf and arg(10**400, int8) == 0
