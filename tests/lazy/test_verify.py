"""The graph verifier accepts what the constructors make and names what is wrong with anything else."""
from __future__ import annotations

import numpy as np
import pytest
from random_graphs import ArrayStorage, leaf

from dawdle.dtype import bool_, float32, int8, int64
from dawdle.errors import VerifyError
from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer, format_graph
from dawdle.lazy.ops import Op
from dawdle.lazy.verify import AGAIN, verify_graph

X = leaf(np.zeros((2, 3)), float32)
I = leaf(np.zeros((2, 3)), int64)


def node(op, *src, arg=None, shape=(2, 3), dtype=float32, device="NUMPY"):
    return LazyBuffer(op, src, arg, shape, dtype, device)


def test_every_op_is_verified():
    assert set(AGAIN) == set(Op)


BAD = [
    (node(Op.NEG, X, shape=(3, 2)), r"NEG.*its shape is \(3, 2\), not \(2, 3\)"),
    (node(Op.NEG, X, dtype=int8), r"its dtype is dawdle.int8, not dawdle.float32"),
    (node(Op.NEG, X, device="CPU"), r"its device is 'CPU', not 'NUMPY'"),
    (node(Op.NEG), r"it has 0 operands, not 1"),
    (node(Op.NEG, X, X), r"it has 2 operands, not 1"),
    (node(Op.WHERE, X, X), r"it has 2 operands, not 3"),
    (node(Op.ADD, X, I), r"can't be built from its operands: add needs operands of one dtype"),
    (node(Op.CMPLT, X, X), r"its dtype is dawdle.float32, not dawdle.bool"),
    (node(Op.SUM, X, arg=(0,)), r"its shape is \(2, 3\), not \(1, 3\)"),
    (node(Op.SUM, X, arg=(7,), shape=(1, 3)), r"axis 7 is out of range"),
    (node(Op.SUM, X, arg=None), r"can't be built"),
    (node(Op.SCAN, X, arg=(Op.SUB, 0)), r"can't be built"),
    (node(Op.RESHAPE, X, arg=(3, 2)), r"its shape is \(2, 3\), not \(3, 2\)"),
    (node(Op.PERMUTE, X, arg=(1, 0)), r"its shape is \(2, 3\), not \(3, 2\)"),
    (node(Op.EXPAND, X, arg=(2, 3), shape=(2, 4)), r"its shape is \(2, 4\), not \(2, 3\)"),
    (node(Op.SLICE, X, arg=((0, 3, 1), (0, 3, 1))), r"not within an axis of size 2"),
    (node(Op.PAD, X, arg=((1, 0, 0), (0, 0, 0))), r"its shape is \(2, 3\), not \(3, 3\)"),
    (node(Op.WINDOW, X, arg=((2, 1, 1),)), r"its shape is \(2, 3\), not \(2, 2, 2\)"),
    (node(Op.UNWINDOW, X, arg=(((3, 1, 1),), (4,))), r"its shape is \(2, 3\), not \(4,\)"),
    (node(Op.UNWINDOW, X, arg=(((3, 1, 1),), (2,))), r"can't be built"),
    (node(Op.GATHER, X, X, arg=0), r"needs an integer index"),
    (node(Op.SCATTER, X, I, X, arg=(0, Op.SUB)), r"can't be built"),
    (node(Op.CAST, X, arg=int8), r"its dtype is dawdle.float32, not dawdle.int8"),
    (node(Op.COPY, X, arg="CPU"), r"its device is 'NUMPY', not 'CPU'"),
    (node(Op.CONST, arg=0.1, shape=()), r"its arg is 0.1, not 0.10000000149011612"),
    (node(Op.CONST, arg=1, shape=()), r"its arg is 1, not 1.0"),
    (node(Op.CONST, arg=1.0), r"its shape is \(2, 3\), not \(\)"),
    (node(Op.CONST, arg=1, dtype=bool_, shape=()), r"its arg is 1, not True"),
    (node(Op.IOTA, shape=(3,)), r"iota makes integers"),
    (node(Op.IOTA, shape=(), dtype=int64), r"can't be built"),
    (node(Op.NEG, X, shape=[2, 3]), r"its shape \[2, 3\] is not a tuple of sizes"),
    (node(Op.NEG, X, shape=(2, -3)), r"its shape \(2, -3\) is not a tuple of sizes"),
    (node(Op.NEG, X, shape=(2, np.int64(3))), r"is not a tuple of sizes"),
    (node(Op.NEG, X, dtype="float32"), r"its dtype 'float32' is not a DType"),
    (node(Op.BUFFER, arg=ArrayStorage(np.zeros(2, np.float32))), r"its storage has 8 bytes, it needs 24"),
    (node(Op.CUSTOM, arg=abs), r"custom needs at least one operand"),
]


@pytest.mark.parametrize("bad, words", BAD)
def test_malformed_nodes_are_found(bad, words):
    with pytest.raises(VerifyError, match=words):
        verify_graph([bad])
    if bad.dtype is float32 and bad.shape == (2, 3):
        with pytest.raises(VerifyError):
            verify_graph([X, build.unary(Op.SIN, bad)])


def test_cycles_are_found():
    a = build.unary(Op.NEG, X)
    b = build.unary(Op.SIN, a)
    a.src = (b,)
    with pytest.raises(VerifyError, match="depends on itself"):
        verify_graph([b])


def test_graphs_print_as_numbered_lines():
    total = build.reduce(Op.SUM, build.binary(Op.MUL, X, build.full((2, 3), 2, float32, "NUMPY")), (1,))
    assert format_graph([total]).splitlines() == [
        "%0 = buffer : float32[2, 3]",
        "%1 = const 2.0 : float32[]",
        "%2 = reshape %1 (1, 1) : float32[1, 1]",
        "%3 = expand %2 (2, 3) : float32[2, 3]",
        "%4 = mul %0 %3 : float32[2, 3]",
        "%5 = sum %4 (1,) : float32[2, 1]",
    ]
    assert repr(total) == "<SUM (1,) float32[2, 1] NUMPY>"


def test_realising_frees_the_graph_below():
    x = build.unary(Op.NEG, X)
    y = build.unary(Op.SIN, x)
    y.realize_as(ArrayStorage(np.zeros((2, 3), np.float32)))
    assert y.is_realized and y.src == () and not x.is_realized
    verify_graph([y])
