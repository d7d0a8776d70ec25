"""``@jit``: arguments that are outside state as well, and outside objects that are replaced."""

import functools

import numpy as np
import pytest

from dawdle import Tensor, nn
from dawdle.errors import JitError
from dawdle.runtime.jit import jit

pytestmark = pytest.mark.usefixtures("device")
state = {}


def equal(x: Tensor, values) -> None:
    np.testing.assert_array_equal(x.numpy(), np.asarray(values, x.numpy().dtype))


class Holder:
    def __init__(self, tensor):
        self.tensor = tensor


class Slotted:
    __slots__ = ("tensor",)

    def __init__(self, tensor):
        self.tensor = tensor


# ---- arguments that are reached in another way too


def by_closure(s):
    def f(x):
        s.assign(s + 1)
        return x + s

    return f


def by_helper(s):
    def bump():
        (lambda: s.assign(s + 1))()

    def f(x):
        bump()
        return x + s

    return f


def by_attribute(s, holder=Holder):
    held = {"deep": [(holder(s),)]}

    def f(x):
        t = held["deep"][0][0].tensor
        t.assign(t + 1)
        return x + t

    return f


def by_module(s):
    layer = nn.Module()
    layer.register_buffer("count", s)
    model = nn.Sequential(layer)

    def f(x):
        layer = model[0]
        layer.count.assign(layer.count + 1)
        return x + layer.count

    return f


def by_self(s):
    class Step:
        def __init__(self):
            self.s = s

        def run(self, x):
            self.s.assign(self.s + 1)
            return x + self.s

    return Step().run


def by_default(s):
    def f(x, s=(s,)):
        s[0].assign(s[0] + 1)
        return x + s[0]

    return functools.partial(f)


MAKERS = [by_closure, by_helper, by_attribute, lambda s: by_attribute(s, Slotted), by_module, by_self]


@pytest.mark.parametrize("make", [*MAKERS, by_default])
@pytest.mark.parametrize("order", ["stst", "ttss", "tsts"])
def test_an_argument_that_is_assigned_as_outside_state(make, order):
    runs = []
    for wrap in (jit, lambda f: f):
        s, t = Tensor([1.0]), Tensor([10.0])
        f = wrap(make(s))
        runs.append([(f({"s": s, "t": t}[which]).item(), s.item(), t.item()) for which in order])
    assert runs[0] == runs[1]


def test_globals_count_as_outside():
    @jit
    def f(x):
        state["total"].assign(state["total"] + 1)
        return x + state["total"]

    total = state["total"] = Tensor([1.0])
    other = Tensor([10.0])
    equal(f(total), [4])
    equal(f(other), [13])
    equal(f(total), [8])
    equal(other, [10])
    assert f.traces == 2


def test_an_argument_that_is_only_read_outside():
    s, t = Tensor([1.0]), Tensor([10.0])
    f = jit(lambda x: x - 3 * s)
    equal(f(s), [-2])
    equal(f(t), [7])
    equal(f(s), [-2])


def test_an_assigned_argument_that_is_read_outside():
    s, t = Tensor([1.0]), Tensor([10.0])

    @jit
    def f(x):
        x.assign(x * 2)
        return x + s

    equal(f(t), [21])
    equal(f(s), [4])
    equal(s, [2])
    equal(f(t), [42])
    equal(f(s), [8])


def test_a_static_argument_that_holds_another_argument():
    @jit
    def f(holder, x):
        holder.tensor.assign(holder.tensor + 1)
        return holder.tensor + x

    held = Holder(Tensor([1.0]))
    equal(f(held, held.tensor), [4])
    equal(f(held, Tensor([10.0])), [13])
    equal(held.tensor, [3])


def test_a_pinned_argument_is_returned_as_itself():
    s = Tensor([1.0])
    f = jit(lambda x: (x, x + s))
    for _ in range(2):
        assert f(s)[0] is s


def test_ordinary_arguments_share_a_trace():
    s = Tensor([1.0])
    f = jit(lambda x: x + s)
    batches = [Tensor([float(i)]) for i in range(4)]
    for i, x in enumerate(batches):
        equal(f(x), [i + 1])
    assert f.traces == 1


def test_methods_that_the_function_does_not_call_reach_nothing():
    batches = [Tensor([float(i)]) for i in range(4)]

    class Trainer:
        total = Tensor([0.0])

        def fit(self):
            return [self.step(x) for x in batches]

        def add(self, x):
            self.total.assign(self.total + x)

        @jit
        def step(self, x):
            self.add(x)
            return self.total * 1

    trainer = Trainer()
    assert [t.item() for t in trainer.fit()] == [0, 1, 3, 6]
    assert trainer.step.traces == 1
    equal(trainer.step(Trainer.total), [12])
    assert trainer.step.traces == 2


def test_a_gradient_that_is_read_as_an_attribute_too():
    p = Tensor([1.0], requires_grad=True)
    (p * 3).sum().backward()
    with pytest.raises(JitError, match="also the gradient"):
        jit(lambda g: g + p.grad)(p.grad)
    f = jit(lambda g: g + p)
    equal(f(p.grad), [4])
    p.grad = None
    (p * 4).sum().backward()
    equal(f(p.grad), [5])
    assert f.traces == 1


# ---- objects that are replaced


def test_a_replaced_part_of_a_module_is_traced_anew():
    model = nn.Sequential(nn.Linear(2, 1), nn.Linear(1, 1))
    f = jit(lambda x: model(x))
    x = Tensor([[1.0, 2.0]])

    def check(traces):
        for _ in range(2):
            equal(f(x), model(x).numpy())
        assert f.traces == traces

    check(1)
    model[0].weight = nn.Parameter([[5.0, 6.0]])
    check(2)
    model[0].bias = None
    check(3)
    model[1] = nn.Linear(1, 3)
    check(4)
    model.append(nn.Linear(3, 2))
    check(5)
    nn.Linear(1, 1).bias = None  # of another one
    model.load_state_dict(model.state_dict())
    check(5)


def test_a_replaced_plain_attribute_of_a_module():
    model = nn.Module()
    model.scale = Tensor([2.0])
    f = jit(lambda x: x * model.scale)
    equal(f(Tensor([1.0])), [2])
    model.scale = Tensor([3.0])
    equal(f(Tensor([1.0])), [3])


def test_a_module_that_replaces_its_buffer_in_the_function():
    model = nn.Module()
    model.register_buffer("count", Tensor([0.0]))

    @jit
    def f(x):
        model.count = nn.Buffer(model.count + x)
        return model.count * 1

    for i in range(1, 5):
        equal(f(Tensor([1.0])), [i])


@pytest.mark.parametrize("read, replace", [
    (lambda held: held["list"][1], lambda held, x: held["list"].__setitem__(1, x)),
    (lambda held: held["dict"]["a"], lambda held, x: held["dict"].__setitem__("a", x)),
    (lambda held: held["object"].tensor, lambda held, x: setattr(held["object"], "tensor", x)),
])  # fmt: skip
def test_a_replaced_tensor_in_a_container(read, replace):
    held = {"list": [None, Tensor([1.0])], "dict": {"a": Tensor([1.0])}, "object": Holder(Tensor([1.0]))}
    held["log"] = []
    f = jit(lambda x: x + read(held))
    for value in (1.0, 5.0):
        replace(held, Tensor([value]))
        for _ in range(3):
            held["log"].append(f(Tensor([1.0])))  # what the trace hasn't read may change
            equal(held["log"][-1], [value + 1])
    assert f.traces == 2


def test_a_rebound_name():
    w = Tensor([1.0])
    f = jit(lambda x: x + w)
    equal(f(Tensor([1.0])), [2])
    w = Tensor([5.0])
    equal(f(Tensor([1.0])), [6])
    assert f.traces == 2
