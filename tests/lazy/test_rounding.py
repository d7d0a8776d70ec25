"""What is compared with its own elements is in memory: it is rounded once."""
from __future__ import annotations

import pytest

from dawdle import Tensor
from dawdle.lazy.buffer import toposort
from dawdle.lazy.ops import Op
from dawdle.lazy.plan import Group
from dawdle.lazy.rounding import rounded_once
from dawdle.lazy.schedule import schedule
from dawdle.lazy.simplify import simplify
from dawdle.tensor.core import apply


def leaf(*shape: int, dtype: str = "float32") -> Tensor:
    return Tensor.rand(*shape).cast(dtype).realize()


A, B = leaf(40, 30), leaf(40, 30)
INTEGERS = leaf(40, 30, dtype="int32")


def found(*outputs: Tensor) -> list[Op]:
    return [node.op for node in rounded_once(toposort(simplify([t.lazy for t in outputs])))]


def row(x: Tensor) -> Tensor:
    return x.softmax(1) * B + 1.0


x = A * 0.3 + B


@pytest.mark.parametrize("make, op", [
    (lambda: x == x.amax(1, keepdim=True), Op.ADD),
    (lambda: x == x.amin(), Op.ADD),
    (lambda: x >= x.T.amax(0).reshape(40, 1), Op.ADD),
    (lambda: x.relu() == x.relu().amax(1, keepdim=True), Op.ADD),
    (lambda: x.argmax(1), Op.ADD),
    (lambda: x.max(1).indices, Op.ADD),
    (lambda: x.cummax(1).indices, Op.ADD),
    (lambda: x.argsort(1), Op.ADD),
    (lambda: x < x[:1], Op.ADD),
    (lambda: x < x.gather(1, INTEGERS.cast("int64")), Op.ADD),
    (lambda: A.exp2() == A.exp2().amax(), Op.EXP2),
    (lambda: A.sum(1) == A.sum(1).amax(), Op.SUM),
    (lambda: (A * B * 2.0).reshape(20, 2, 30).argmax(1), Op.MUL),
    (lambda: A.where(A < B, A.log2() * B).argmin(1), Op.MUL),
    (lambda: A.sin().where(A < B, B.sin()).argmin(1), Op.WHERE),
    (lambda: row(A).argmax(1), Op.ADD),
])  # fmt: skip
def test_what_needs_memory(make, op):
    assert found(make()) == [op]


@pytest.mark.parametrize("make", [
    lambda: A.amax(1, keepdim=True) == A,  # in memory already
    lambda: (A * B).argmax(1),  # one operation, which IEEE 754 rounds in one way
    lambda: (A + B).relu().argmax(1),
    lambda: x.contiguous().argmax(1),
    lambda: x.cumsum(1).argmax(1),
    lambda: (INTEGERS * 3 + 7).argmax(1),
    lambda: A.amax(1, keepdim=True) == x,
    lambda: x.isnan(),
    lambda: x.reshape(1200).floor(),  # compared with itself, but at no other index
    lambda: x - x.amax(1, keepdim=True),
    lambda: x.softmax(1),
])  # fmt: skip
def test_what_needs_none(make):
    assert found(make()) == []


def test_a_kernel_of_its_own_stores_it():
    x = A * 0.3 + B
    both = [x.lazy, x.argmax(1).lazy]
    steps = [s for s in schedule(simplify(both)).steps if isinstance(s, Group)]
    (mine,) = (s for s in steps if any(n.op is Op.ADD for n in s.outputs))
    assert len(mine.outputs) == 1
    assert [n.op for s in steps if s is not mine for n in s.inputs].count(Op.ADD) == len(steps) - 1


def test_a_large_maximum_is_split_and_found():
    x = leaf(1 << 20) * 0.3 + leaf(1 << 20)
    top = apply(Op.AMAX, (0,), x)
    plan = schedule(simplify([(x == top).lazy]))
    reasons = [r for step in plan.steps if isinstance(step, Group) for r in step.reasons]
    assert any("compared with each other" in r for r in reasons)
