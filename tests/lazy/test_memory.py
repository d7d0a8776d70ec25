"""Temporaries that are alive together never overlap, and those that aren't share memory."""
from __future__ import annotations

import networks as net
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_graphs import ALL_OPS, graphs

from dawdle.dtype import float32
from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.memory import ALIGNMENT, lifetimes, plan_memory
from dawdle.lazy.plan import Group, Schedule
from dawdle.lazy.schedule import schedule


def check(plan: Schedule) -> None:
    memory = plan_memory(plan)
    lives = lifetimes(plan)
    assert memory.offsets.keys() == {id(x.node) for x in lives}
    held = {id(plan.aliases.get(id(n), n)) for n in plan.outputs}
    assert not held & memory.offsets.keys()
    for i, a in enumerate(lives):
        begin, end = memory.offsets[id(a.node)], memory.offsets[id(a.node)] + a.node.nbytes
        assert begin % ALIGNMENT == 0 and begin >= 0 and end <= memory.size
        for b in lives[:i]:
            if a.node.device == b.node.device and a.first <= b.last and b.first <= a.last:
                other = memory.offsets[id(b.node)]
                assert end <= other or other + b.node.nbytes <= begin


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(ops=ALL_OPS, max_nodes=20))
def test_temporaries_of_random_graphs(outputs):
    check(schedule(outputs))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 300), st.lists(st.integers(0, 30), max_size=3)), min_size=1))
def test_temporaries_of_random_schedules(steps):
    """Each step makes one value of some size and reads a few of the earlier ones."""
    made: list[LazyBuffer] = []
    groups = []
    for size, reads in steps:
        inputs = tuple({id(n): n for n in (made[r % len(made)] for r in reads if made)}.values())
        made.append(build.const(0.0, float32, "NUMPY"))
        made[-1].shape = (size,)
        groups.append(Group((made[-1],), inputs, (size,), ("test",)))
    check(Schedule(tuple(groups), (made[-1],)))


def test_a_chain_needs_two_buffers():
    x = net.data(1000)
    for _ in range(20):
        x = build.contiguous(net.add(x, 1.0))
    plan = schedule([x])
    check(plan)
    assert len(plan.steps) == 20 and plan_memory(plan).size == 2 * 4032


def test_a_reshaped_output_keeps_its_memory():
    x = net.add(net.data(8, 8), 1.0)
    plan = schedule([build.reshape(x, (64,)), net.total(x)])
    check(plan)
    assert id(x) not in plan_memory(plan).offsets


def test_many_temporaries_are_placed_fast():
    x = net.data(100)
    values = []
    for _ in range(2000):
        x = build.contiguous(net.add(x, 1.0))
        values.append(x)
    total = values[0]
    for v in reversed(values):
        total = net.add(total, v)
    plan = schedule([total])
    memory = plan_memory(plan)
    assert memory.size >= 2000 * 448
