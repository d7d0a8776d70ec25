"""Schedules compute what the graph means, are well formed, and fuse what they should."""
from __future__ import annotations

from collections.abc import Sequence
from unittest import mock

import networks as net
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_graphs import ALL_OPS, graphs, leaf, load, values_of

from dawdle.dtype import BY_NAME, bool_, float32, int64
from dawdle.lazy import build, split
from dawdle.lazy import schedule as scheduler
from dawdle.lazy.buffer import LazyBuffer, format_graph, toposort
from dawdle.lazy.facts import analyse
from dawdle.lazy.ops import Op
from dawdle.lazy.plan import Group, HostCall, Schedule, Transfer, format_schedule
from dawdle.lazy.schedule import schedule
from dawdle.lazy.simplify import simplify


def inlined(group: Group) -> list[LazyBuffer]:
    """The nodes that the group computes, operands before users."""
    inputs = {id(n) for n in group.inputs}
    order, seen, stack = [], set(), [(n, False) for n in reversed(group.outputs)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
        elif id(node) not in seen and id(node) not in inputs:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((s, False) for s in (node.src[-1:] if node.op is Op.AFTER else node.src))
    return order


def ops(group: Group) -> list[Op]:
    return [n.op for n in inlined(group)]


def groups(plan: Schedule) -> list[Group]:
    return [s for s in plan.steps if isinstance(s, Group)]


def fits(space: Sequence[int], shape: Sequence[int]) -> bool:
    if len(space) == len(shape) and all(n in (1, m) for n, m in zip(shape, space, strict=True)):
        return True
    return [n for n in space if n != 1] == [n for n in shape if n != 1]


def execute(plan: Schedule) -> list[np.ndarray]:
    """The outputs' values, computed step by step, each step seeing only its inputs."""
    held: dict[int, np.ndarray] = {}

    def value(node: LazyBuffer) -> np.ndarray:
        holder = plan.aliases.get(id(node), node)
        array = load(holder) if holder.op is Op.BUFFER else held[id(holder)]
        return array.reshape(node.shape)

    def as_leaf(node: LazyBuffer) -> LazyBuffer:
        return leaf(value(node), node.dtype, node.device)

    for step in plan.steps:
        if isinstance(step, Group):
            assert len(step.outputs) == len(step.reasons) and all(step.reasons)
            assert len({id(n) for n in (*step.outputs, *step.inputs)}) == len(step.outputs) + len(step.inputs)
            new = {id(n): as_leaf(n) for n in step.inputs}
            for node in inlined(step):
                assert node.op not in (Op.COPY, Op.CUSTOM, Op.BUFFER)
                assert node.device == step.outputs[0].device
                src = tuple(new.get(id(s), s) for s in node.src)
                new[id(node)] = LazyBuffer(node.op, src, node.arg, node.shape, node.dtype, node.device)
            arrays = values_of(*(new[id(n)] for n in step.outputs))
            assert all(fits(step.space, n.shape) for n in step.outputs)
            held.update((id(n), a) for n, a in zip(step.outputs, arrays, strict=True))
        elif isinstance(step, Transfer):
            held[id(step.output)] = value(step.input).reshape(step.output.shape)
        else:
            assert isinstance(step, HostCall)
            node = step.output
            call = build.custom(node.arg, *map(as_leaf, step.inputs), shape=node.shape, dtype=node.dtype)
            (held[id(node)],) = values_of(call)
    return [value(n) for n in plan.outputs]


def check(outputs: list[LazyBuffer]) -> Schedule:
    plan = schedule(outputs)
    for group in groups(plan):
        for op in (Op.SCAN, Op.SCATTER, Op.CONTIGUOUS):
            assert ops(group).count(op) <= (op is group.outputs[0].op)
    for got, want in zip(execute(plan), values_of(*outputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max(initial=0.1))
    return plan


def one(outputs: list[LazyBuffer]) -> Group:
    (step,) = check(outputs).steps
    assert isinstance(step, Group)
    return step


def check_exactly(outputs: list[LazyBuffer]) -> None:
    before = format_graph(outputs)
    plan = schedule(outputs)
    assert format_graph(outputs) == before
    for got, want in zip(execute(plan), values_of(*outputs), strict=True):
        np.testing.assert_array_equal(got, want)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(ops=ALL_OPS, max_nodes=16))
def test_random_graphs(outputs):
    check_exactly(outputs)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(ops=ALL_OPS, max_nodes=24), st.integers(1, 12), st.integers(1, 6), st.sampled_from((0, 50)))
def test_random_graphs_cut_into_small_kernels(outputs, ops, reads, cost):
    """Where kernels are small and one more costs nothing, small graphs take every kind of decision."""
    limits = {"MAX_OPS": ops, "MAX_READS": reads, "LAUNCH_COST": cost, "SERIAL_WORK": cost, "MAX_KERNELS": 2}
    with mock.patch.multiple(scheduler, **limits):
        check_exactly(outputs)


# two stages of a float sum round differently
EXACT = tuple(BY_NAME[n] for n in ("bool", "int8", "int32", "int64", "uint8"))


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(dtypes=EXACT, ops=ALL_OPS, max_nodes=12), st.integers(1, 8), st.integers(1, 4))
def test_random_graphs_with_split_reductions(outputs, parts, least):
    limits = {"PARTS": parts, "LEAST_PARTS": least, "LEAST_WORK": 0, "LEAST_STEPS": 2, "FEW": 100}
    with mock.patch.multiple(split, **limits):
        check_exactly(outputs)


@pytest.mark.parametrize("shape", [(997,), (3, 997), (7, 5, 11), (2, 2, 2, 64), (512,), (128, 4)])
@pytest.mark.parametrize("op", [Op.SUM, Op.PROD, Op.AMAX])
def test_split_reductions(shape, op):
    """All elements, whether or not their number has divisors, are reduced in two stages of a limited size."""
    x = leaf(np.random.default_rng(0).integers(1, 5, shape), int64)
    always = mock.patch.multiple(split, LEAST_WORK=0, LEAST_STEPS=2)
    with always, mock.patch.object(scheduler, "SERIAL_WORK", 0):
        first, *_, last = groups(check([build.reduce(op, x, range(x.ndim))]))
        assert 8 <= first.outputs[0].size <= split.PARTS and last.outputs[0].size == 1


def test_softmax_is_one_kernel():
    group = one([net.softmax(net.data(64, 100))])
    assert group.space == (64, 100) and ops(group).count(Op.SUM) == ops(group).count(Op.AMAX) == 1


def test_layer_norm_is_one_kernel():
    group = one([net.layer_norm(net.data(64, 100), net.data(100), net.data(100))])
    assert len(group.inputs) == 3 and ops(group).count(Op.SUM) == 2


def test_matmul_bias_relu_is_one_kernel():
    out = net.relu(net.add(net.matmul(net.data(32, 20), net.data(20, 48)), net.row(net.data(48), 2)))
    group = one([out])
    assert group.space == (32, 48) and len(group.inputs) == 3


def test_adam_is_one_kernel():
    group = one(net.adam(*(net.data(100, 50, seed=s) for s in range(4))))
    assert len(group.outputs) == 3 and len(group.inputs) == 4


def test_conv_bn_relu():
    x, w = net.data(2, 3, 16, 16), net.data(8, 3, 3, 3)
    stats = [net.data(8, seed=s) for s in range(4)]
    assert len(check([net.relu(net.batch_norm(net.conv2d(x, w), *stats))]).steps) == 1
    padded = check([net.relu(net.batch_norm(net.conv2d(x, w, 1), *stats))])
    first, second = groups(padded)
    assert first.outputs[0].op is Op.PAD and Op.SUM in ops(second)


def test_cross_entropy_of_few_rows_is_one_kernel():
    one([net.cross_entropy(net.data(128, 10), net.labels(128, 10))])


def test_mlp_step():
    plan = check(net.mlp_step(16, (20, 24, 24, 10)))
    found = groups(plan)
    # forward, softmax and its gradient, gradients of activations, of weights and of biases, loss
    assert len(found) == 3 + 1 + 2 + 3 + 3 + 1
    for group in found:
        matmuls = [n for n in inlined(group) if n.op is Op.SUM and n.src[0].size > 16 * n.size]
        assert len(matmuls) <= 1


def test_attention_keeps_softmax_in_one_kernel():
    q, k, v = (net.data(2, 3, 16, 8, seed=s) for s in range(3))
    scores = net.mul(net.matmul(q, net.transpose(k)), 0.35)
    first, second, third = groups(check([net.matmul(net.softmax(scores), v)]))
    assert ops(first).count(Op.SUM) == 1 and first.outputs[0].op is Op.MUL
    assert Op.EXP2 in ops(second) and Op.EXP2 not in ops(third)


def test_convolutions_gradients_are_contractions():
    x, w, dy = net.data(2, 8, 9, 9), net.data(8, 8, 3, 3), net.data(2, 8, 9, 9)
    found = groups(check(list(net.conv2d_gradients(x, w, dy, 1))))
    # both padded operands are stored, without the axes that they repeat themselves along
    pads = [g.outputs[0] for g in found if g.outputs[0].op is Op.PAD]
    assert len(found) == 4 and sorted(p.size for p in pads) == [2 * 8 * 11 * 11, 2 * 8 * 13 * 13]
    assert not any(Op.UNWINDOW in ops(g) for g in found)


def test_batch_norm_step():
    x = net.data(2, 4, 12, 12)
    plan = check(net.batch_norm_step(x, net.data(8, 4, 3, 3), net.data(8), net.data(8), net.data(8, 8, 3, 3)))
    # convolution, statistics, normal form, convolution, its padding; gradients: y, gain and bias, h, weights
    assert len(plan.steps) == 10
    assert [len(g.outputs) for g in groups(plan) if g.space == (1, 8, 1, 1)] == [2, 2]
    assert all(len(g.outputs) == 1 for g in groups(plan) if g.space != (1, 8, 1, 1))


def test_a_value_used_twice_is_stored_by_one_of_its_users():
    x = net.data(64, 64)
    y = net.exp(net.exp(net.exp(net.exp(x))))
    with mock.patch.object(scheduler, "LAUNCH_COST", 0):
        first, second = groups(check([net.add(y, x), net.total(net.mul(y, y), 0)]))
    assert len(first.outputs) == 2 and y in first.outputs and y in second.inputs


def test_a_cheap_value_is_computed_twice():
    x = net.data(64, 64)
    y = net.mul(x, 2.0)
    for group in groups(check([net.total(y, 0), net.total(net.exp(y), 1)])):
        assert group.inputs == (x,)


def test_reductions_over_leading_axes_are_not_repeated():
    x = net.data(50, 60)
    first, second = groups(check([net.sub(x, net.highest(x, 0))]))
    assert first.outputs[0].shape == (1, 60) and "50 times" in first.reasons[0]
    assert Op.AMAX not in ops(second)


def test_kernels_beside_each_other():
    x = net.data(30, 40)
    (group,) = groups(check([net.total(x, 1), net.highest(x, 1), net.mean(net.mul(x, x), 1)]))
    assert len(group.outputs) == 3 and group.space == (30, 1)


def test_small_kernels_run_as_one():
    (group,) = groups(check([net.mul(net.data(3), 2.0), net.exp(net.data(3, seed=1))]))
    assert len(group.outputs) == 2
    assert len(groups(schedule([net.exp(net.big(64, 64)), net.exp(net.big(64, 64))]))) == 2


def test_shared_work_is_counted_once():
    x = y = net.data(64, 64)
    for _ in range(10):
        y = net.add(net.mul(y, y), y)
    facts = analyse(toposort([y]), [])
    assert facts[id(y)].cost == 20 and facts[id(y)].leaves == (x,)


def test_rows_of_what_is_dear_stay_in_one_kernel():
    x = net.big(4096, 1024)
    for _ in range(30):
        x = net.add(net.mul(x, x), x)
    for y in (net.softmax(x), net.log_softmax(x), net.layer_norm(x, net.big(1024), net.big(1024))):
        assert len(schedule([y]).steps) == 1


def test_what_is_dear_is_not_repeated_for_each_row():
    x = net.big(1, 1024)
    repeated = build.expand(net.exp(net.exp(x)), (4096, 1024))
    assert len(schedule([net.add(net.big(4096, 1024), repeated)]).steps) == 2
    cheap = build.expand(net.mul(x, 2.0), (4096, 1024))
    assert len(schedule([net.add(net.big(4096, 1024), cheap)]).steps) == 1


def test_pooling_and_its_gradient():
    x, dy = net.data(2, 3, 8, 8), net.data(2, 3, 4, 4)
    windows = [(2, 2, 1), (2, 2, 1)]
    seen = build.window(x, windows)
    best = net.highest(seen, 4, 5)
    wins = build.cast(build.binary(Op.CMPEQ, seen, build.expand(best, seen.shape)), float32)
    spread = net.mul(wins, net.div(build.reshape(dy, (2, 3, 4, 4, 1, 1)), net.total(wins, 4, 5)))
    dx = build.unwindow(spread, windows, (8, 8))
    plan = check([net.relu(build.reshape(best, (2, 3, 4, 4))), net.mul(dx, 2.0)])
    assert not any(op is Op.UNWINDOW for g in groups(plan) for op in ops(g)) and len(plan.steps) <= 3


def test_a_matmul_of_few_steps_is_no_contraction():
    a, b = net.data(32, 4), net.data(4, 32)
    group = one([net.total(net.matmul(a, b), 1)])
    assert Op.SUM in ops(group)


def test_scan_and_scatter_have_kernels_of_their_own():
    x = net.data(12, 20)
    index = build.cast(net.mul(x, 3.0), int64)
    scanned = build.scan(Op.ADD, net.exp(x), 1)
    added = build.scatter(net.fill(x, 1.0), index, net.mul(x, 2.0), 1)
    plan = check([net.add(net.add(scanned, added), net.total(x, 1))])
    assert [g.outputs[0].op for g in groups(plan)].count(Op.SCAN) == 1 and len(plan.steps) == 3


def test_an_embedding_reads_its_rows_only():
    table, index = net.data(1000, 16), leaf(np.arange(32).reshape(32, 1) * 7, int64)
    rows = build.gather(net.mul(table, 2.0), build.expand(index, (32, 16)), 0)
    group = one([net.softmax(rows)])
    assert table in group.inputs


def test_what_is_computed_after_others_is_its_value():
    x, y = net.data(4, 4), net.data(4, 4)
    out = build.after(net.relu(y), net.exp(x))
    group = one([net.add(out, 1.0)])
    assert group.inputs == (y,)
    plan = check([out])
    assert plan.aliases == {id(out): out.src[1]}


def place(plan: Schedule, node: LazyBuffer) -> int:
    """The number of the step that computes ``node``."""
    steps = [list(s.outputs) if isinstance(s, Group) else [s.output] for s in plan.steps]
    return next(i for i, nodes in enumerate(steps) if scheduler.holder(node) in nodes)


def test_kernels_wait_for_what_they_come_after():
    x, first, second = net.data(32, 32), net.data(32, 32), net.data(32, 32)
    early = net.matmul(x, first)
    late = net.matmul(build.after(x, early), second)
    for outputs in ([late, early], [early, late]):
        plan = check(outputs)
        assert place(plan, early) < place(plan, late)
    # what has no memory of its own is waited for where it comes from
    inlined = net.relu(net.add(build.permute(early, (1, 0)), 1.0))
    late = net.matmul(build.after(x, inlined), second)
    plan = check([late, net.total(inlined, 0), early])
    assert place(plan, early) < place(plan, late)
    # and what nobody computes is not
    plan = check([net.matmul(build.after(x, early), second)])
    assert len(plan.steps) == 1


def test_host_functions_wait_for_what_they_come_after():
    x = net.data(32, 32)
    early = net.matmul(x, net.data(32, 32))
    late = build.custom(abs, build.reshape(build.after(x, early), (1024,)), shape=(1024,), dtype=float32)
    plan = check([late, early])
    assert place(plan, early) < place(plan, late)


def test_what_is_computed_after_something_isnt_shared_with_what_is_computed_before():
    x, w = net.data(32, 32), net.data(32, 32)
    hidden = net.relu(net.matmul(x, w))
    out = net.matmul(hidden, w)
    again = net.relu(net.matmul(build.after(x, out), w))
    plan = check(simplify([net.matmul(again, out)]))
    assert len(plan.steps) == 4
    shared = check(simplify([net.matmul(net.relu(net.matmul(x, w)), out)]))
    assert len(shared.steps) == 3


def test_a_kernel_may_use_what_it_waits_for():
    x, w = net.data(32, 32), net.data(32, 32)
    g = net.matmul(x, w)
    y = net.mul(build.after(net.exp(x), g), net.relu(g))
    check([net.total(y, 0), y])
    check([net.matmul(net.add(y, build.after(y, y)), w), g])


def test_schedules_print_their_reasons():
    text = format_schedule(schedule([net.softmax(net.matmul(net.data(32, 20), net.data(20, 48)))]))
    assert "0: kernel over [32, 1, 48]: sum mul" in text
    assert "stores div float32[32, 48]: output" in text


def test_masks_of_many_item_assignments_are_not_stored():
    """Each compares a position: cheaper than a load, however full the kernel that uses it is."""
    n = 300
    x = net.data(n)
    out = x
    for i in range(n):
        place = [(i, n - i - 1, 0)]
        inside = build.pad(build.full((1,), True, bool_, x.device), place)
        out = build.where(inside, build.pad(build.full((1,), float(i), float32, x.device), place), out)
    plan = schedule([out])
    assert len(groups(plan)) <= 4
    assert all(node.dtype is float32 and len(g.outputs) == 1 for g in groups(plan) for node in g.outputs)
    np.testing.assert_array_equal(execute(plan)[0], np.arange(n))


@pytest.mark.parametrize("n", [2000])
def test_long_chains_are_cut(n):
    x = net.data(4)
    for _ in range(n):
        x = net.add(x, 1.0)
    plan = check([x])
    assert n / 200 <= len(plan.steps) <= n / 150


def test_diamonds_are_linear():
    x = net.data(4)
    for _ in range(60):
        x = net.add(x, x)
    one([x])


def test_reshapes_are_aliases():
    x = net.data(4, 6)
    y = net.relu(x)
    flat, leafy = build.reshape(y, (24,)), build.reshape(x, (2, 12))
    plan = check([flat, leafy, y, y, x])
    assert len(plan.steps) == 1
    assert plan.aliases == {id(flat): y, id(leafy): x}


def test_constants():
    plan = check([build.const(2.0, float32, "NUMPY"), build.full((2, 3), 1.0, float32, "NUMPY")])
    assert len(plan.steps) == 2
