"""``@jit``: signatures, state, and what replays read and write."""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import pytest

from dawdle import Tensor, no_grad
from dawdle.errors import JitError
from dawdle.runtime.jit import jit

pytestmark = pytest.mark.usefixtures("device")


def equal(x: Tensor, values) -> None:
    np.testing.assert_array_equal(x.numpy(), np.asarray(values, x.numpy().dtype))


# ---- signatures


def test_one_trace_serves_all_values():
    f = jit(lambda x, y: x * 2 + y)
    for i in range(4):
        equal(f(Tensor([1.0, i]), Tensor([i, 1.0])), [2 + i, 2 * i + 1])
    assert f.traces == 1


def test_other_shapes_dtypes_and_statics_are_traced_anew():
    f = jit(lambda x, n=1, mode="a": x * n if mode == "a" else x + n)
    calls = [
        (lambda: f(Tensor([1.0, 2.0])), [1, 2]),
        (lambda: f(Tensor([1.0, 2.0, 3.0])), [1, 2, 3]),
        (lambda: f(Tensor([[1.0, 2.0]])), [[1, 2]]),
        (lambda: f(Tensor([1, 2])), [1, 2]),
        (lambda: f(Tensor([1.0, 2.0]), 3), [3, 6]),
        (lambda: f(Tensor([1.0, 2.0]), 3.5), [3.5, 7]),
        (lambda: f(Tensor([1.0, 2.0]), n=3, mode="b"), [4, 5]),
    ]
    for n, (call, expected) in enumerate(calls, 1):
        equal(call(), expected)
        assert f.traces == n
    for call, expected in calls:
        equal(call(), expected)
    assert f.traces == len(calls)


def test_statics_that_are_equal_but_not_the_same():
    f = jit(lambda x, n: x * n)
    outs = [f(Tensor([1]), n) for n in (1, 1.0, True)]
    assert [o.dtype.name for o in outs] == ["int64", "float32", "int64"]
    g = jit(lambda x, n: 1 / (x * n))
    assert [g(Tensor([1.0]), n).item() for n in (0.0, -0.0)] == [np.inf, -np.inf]


def test_nested_arguments_and_results():
    @jit
    def f(batch, extra):
        x, (y,) = batch["x"], batch["rest"]
        return {"sum": x + y, "list": [x, (y * 2, None)], "name": extra["name"], "n": 3}

    for i in range(3):
        out = f({"x": Tensor([1.0]), "rest": [Tensor([float(i)])]}, extra={"name": "q"})
        equal(out["sum"], [1 + i])
        equal(out["list"][0], [1])
        equal(out["list"][1][0], [2 * i])
        assert out["list"][1][1] is None and (out["name"], out["n"]) == ("q", 3)
    assert f.traces == 1


def test_results_in_containers_of_any_kind():
    @dataclass(frozen=True)
    class Found:
        total: Tensor
        parts: OrderedDict

    f = jit(lambda x: Found(x.sum(), OrderedDict(b=x * 2, a=(x, 3))))
    for i in range(2):
        out = f(Tensor([1.0, float(i)]))
        assert isinstance(out, Found) and list(out.parts) == ["b", "a"] and out.parts["a"][1] == 3
        equal(out.total, 1 + i)
        equal(out.parts["b"], [2, 2 * i])
    assert f.traces == 1 and isinstance(out.parts, OrderedDict)


def test_arguments_that_hold_one_value_are_told_apart():
    f = jit(lambda a, b: a - b)
    x, y = Tensor([5.0]), Tensor([3.0])
    equal(f(x, x.detach()), [0])
    equal(f(x, y), [2])
    equal(f(y, x), [-2])
    assert f.traces == 1
    equal(f(x, x), [0])
    equal(f(y, y), [0])
    equal(f(x, y), [2])


def test_unhashable_arguments_are_refused():
    with pytest.raises(JitError, match=r"an argument of a jitted function is a ndarray, .* pass a Tensor"):
        jit(lambda x: x)(np.zeros(3))


def test_unrealised_arguments():
    f = jit(lambda x: x + 1)
    for i in range(3):
        equal(f(Tensor([1.0]) * i), [i + 1])
    assert f.traces == 1


def test_the_training_flag_belongs_to_the_signature():
    class Layer:
        training = True

        def __call__(self, x):
            return x * 10 if self.training else x

    layer = Layer()
    f = jit(lambda x: layer(x))
    equal(f(Tensor([1.0])), [10])
    layer.training = False
    equal(f(Tensor([1.0])), [1])
    layer.training = True
    equal(f(Tensor([1.0])), [10])
    assert f.traces == 2


def test_whether_gradients_are_wanted_belongs_to_the_signature():
    a, b = Tensor([2.0], requires_grad=True), Tensor([3.0], requires_grad=True)
    f = jit(lambda x: (a * b * x).sum().backward())
    f(Tensor([1.0]))
    b.requires_grad_(False)
    b.grad = None
    f(Tensor([1.0]))
    assert b.grad is None
    equal(a.grad, [6])
    b.requires_grad_(True)
    f(Tensor([1.0]))
    equal(b.grad, [2])


def test_methods_share_nothing():
    class Model:
        def __init__(self, k):
            self.k = Tensor([k])

        @jit
        def run(self, x):
            return self.k * x

    a, b = Model(2.0), Model(3.0)
    for _ in range(2):
        equal(a.run(Tensor([1.0])), [2])
        equal(b.run(Tensor([1.0])), [3])
    assert a.run.traces == b.run.traces == 1


# ---- state


def test_assigned_tensors_are_state():
    total, count = Tensor([0.0, 0.0]), Tensor(0)
    total.realize(count)

    @jit
    def f(x):
        total.assign(total + x)
        count.assign(count + 1)
        return total * 10

    for i in range(1, 5):
        equal(f(Tensor([1.0, 2.0])), [10 * i, 20 * i])
        equal(total, [i, 2 * i])
        assert count.item() == i
    assert f.traces == 1


def test_state_changed_outside_is_read_and_another_shape_retraces():
    w = Tensor([1.0, 2.0]).realize()

    @jit
    def f():
        w.assign(w * 2)

    f()
    f()
    equal(w, [4, 8])
    w.assign(Tensor([100.0, 1.0]))
    f()
    equal(w, [200, 2])
    assert f.traces == 1
    w.lazy = Tensor([1.0, 1.0, 1.0]).lazy
    f()
    equal(w, [2, 2, 2])
    assert f.traces == 2


def test_old_values_survive_replays():
    w = Tensor([1.0]).realize()

    @jit
    def f():
        w.assign(w + 1)
        return w * 2

    kept, results = [w.detach()], []
    for _ in range(4):
        results.append(f())
        kept.append(w.detach())
    for i in range(4):
        equal(kept[i], [1 + i])
        equal(results[i], [2 * (2 + i)])


def test_an_expression_from_before_keeps_the_old_value():
    w = Tensor([1.0]).realize()

    @jit
    def f():
        w.assign(w + 1)

    f()
    lazy = w * 100
    f()
    equal(lazy, [200])
    equal(w, [3])


def test_tensors_used_but_not_assigned_are_read_at_each_call():
    w = Tensor([2.0]).realize()
    f = jit(lambda x: x * w.detach() + w)
    equal(f(Tensor([1.0])), [4])
    w.assign(Tensor([5.0]))
    equal(f(Tensor([1.0])), [10])
    assert f.traces == 1


def test_tensors_from_outside_that_hold_one_value_are_told_apart():
    a, b, c = Tensor([1.0]), Tensor([0.0]), Tensor([0.0])
    b.assign(a)
    c.assign(a)
    assert a.lazy is b.lazy is c.lazy

    def total(x):
        return x * 0 + a * 100 + b.detach() * 10 + c

    f = jit(total)
    for handle, value in ((a, 1.0), (b, 2.0), (c, 3.0), (a, 4.0)):
        handle.assign(Tensor([value]))
        equal(f(Tensor([0.0])), total(Tensor([0.0])).numpy())
    assert f.traces == 1


def test_a_copy_follows_while_the_original_is_trained():
    weight, average = Tensor([8.0]), Tensor([0.0])
    average.assign(weight)

    @jit
    def step(rate):
        average.assign(average * 0.5 + weight * 0.5)
        weight.assign(weight - rate)
        return weight

    expected = mean = 8.0
    for _ in range(4):
        step(Tensor([1.0]))
        mean, expected = mean / 2 + expected / 2, expected - 1
        equal(weight, [expected])
        equal(average, [mean])


def test_an_assigned_copy_stays_apart():
    original, copy = Tensor([1.0]), Tensor([0.0])
    f = jit(lambda x: copy.assign(original) + x)
    equal(f(Tensor([1.0])), [2])
    original.assign(Tensor([5.0]))
    equal(f(Tensor([1.0])), [6])
    equal(copy, [5])


def test_unrealised_tensors_from_outside_keep_their_value():
    w = Tensor([1.0]).realize()
    before, state = w * 10, w * 100  # not computed yet

    @jit
    def f():
        w.assign(w + 1)
        state.assign(state + before)
        return before * 1, w * 10

    for i in range(1, 4):
        was, now = f()
        equal(was, [10])
        equal(now, [10 * (i + 1)])
        equal(state, [100 + 10 * i])
    before.assign(Tensor([0.0]))
    equal(f()[0], [0])
    assert f.traces == 1


def test_train_and_evaluate_share_parameters():
    w = Tensor([1.0]).realize()

    @jit
    def train(x):
        w.assign(w + x)

    evaluate = jit(lambda x: w * x)
    for i in range(3):
        train(Tensor([1.0]))
        equal(evaluate(Tensor([10.0])), [10 * (i + 2)])
    assert evaluate.traces == train.traces == 1


def test_arguments_can_be_assigned():
    @jit
    def f(x, y):
        x.assign(x + y)
        return x

    for _ in range(2):
        a, b = Tensor([1.0]).realize(), Tensor([5.0])
        assert f(a, b) is a
        equal(a, [6])
        equal(b, [5])
    assert f.traces == 1


def test_local_tensors_are_not_state():
    @jit
    def f(x):
        out = Tensor.zeros(3)
        out[1] = x
        scratch = Tensor(np.ones(3, np.float32))
        scratch[0] = x
        return out + scratch

    for i in range(4):
        equal(f(Tensor(float(i))), [i, i + 1, 1])


def test_a_local_tensor_that_is_returned():
    @jit
    def f(x):
        out = Tensor.zeros(3)
        out[1] = x
        return out

    for i in range(4):
        equal(f(Tensor(float(i))), [0, i, 0])


def test_state_that_is_made_in_the_first_call():
    class Counter:
        n = None

    @jit
    def f(x):
        if Counter.n is None:
            Counter.n = Tensor.zeros(1)
        Counter.n.assign(Counter.n + x)
        return Counter.n * 1

    for i in range(1, 5):
        equal(f(Tensor([1.0])), [i])
        equal(Counter.n, [i])


def test_constants_made_inside():
    f = jit(lambda x: x + Tensor([1.0, 2.0]) + Tensor(np.array([10, 20], np.float32)))
    equal(f(Tensor([0.0, 0.0])), [11, 22])
    equal(f(Tensor([1.0, 1.0])), [12, 23])


def test_results_that_are_what_went_in():
    w = Tensor([7.0]).realize()
    f = jit(lambda x: (x, w, x))
    a, b, c = f(Tensor([1.0]))
    a2, b2, c2 = f(Tensor([2.0]))
    for x, v in ((a, 1), (b, 7), (c, 1), (a2, 2), (b2, 7), (c2, 2)):
        equal(x, [v])
    assert jit(lambda: 5)() == 5 and jit(lambda: None)() is None


# ---- gradients


def test_a_training_step():
    def run(wrap):
        w, m = Tensor([1.0, -2.0], requires_grad=True), Tensor([0.0, 0.0]).realize()
        w.realize()

        @wrap
        def step(x):
            w.grad = None
            loss = ((w * x - 3) ** 2).sum()
            loss.backward()
            with no_grad():
                m.assign(m * 0.9 + w.grad)
                w.assign(w - 0.1 * m)
            return loss

        losses = [step(Tensor([1.0, i / 4])).item() for i in range(6)]
        return losses, w.numpy(), m.numpy(), w.grad.numpy(), step

    plain, jitted = run(lambda f: f), run(jit)
    for a, b in zip(plain[:4], jitted[:4], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    assert jitted[4].traces == 1


def test_results_have_no_history():
    w = Tensor([1.0], requires_grad=True)
    out = jit(lambda x: w * x)(Tensor([2.0]))
    assert not out.requires_grad


def test_gradients_accumulate_as_without_jit():
    w = Tensor([1.0], requires_grad=True)
    w.realize()

    @jit
    def f(x):
        (w * x).sum().backward()

    for i in range(1, 5):
        f(Tensor([2.0]))
        equal(w.grad, [2 * i])
    w.grad = None
    f(Tensor([3.0]))
    equal(w.grad, [3])
    assert f.traces == 2


def test_a_jitted_update_reads_the_gradient_of_the_day():
    w = Tensor([10.0], requires_grad=True)
    w.realize()

    @jit
    def update():
        with no_grad():
            w.assign(w - w.grad)

    for x in (1.0, 2.0, 4.0):
        w.grad = None
        (w * x).sum().backward()
        update()
    equal(w, [3])
    assert update.traces == 1


def test_the_docstring_and_name_stay():
    @jit
    def documented():
        """What it does."""

    assert documented.__name__ == "documented" and documented.__doc__ == "What it does."
