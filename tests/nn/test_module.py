"""Module: registration, walking, state, and changes to all parts."""

import copy

import numpy as np
import pytest

from dawdle import Tensor, dtype, nn
from dawdle.errors import DTypeError, ShapeError, StateError


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter([1.0, 2.0])
        self.offset = nn.Buffer([0.5])
        self.scratch = nn.Buffer([9.0], persistent=False)
        self.linear = nn.Linear(2, 3)
        self.note = "text"
        self.plain = Tensor([1.0])

    def forward(self, x):
        return self.linear(x * self.scale + self.offset)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(3, 1, bias=False)
        self.blocks[1].linear = self.blocks[0].linear  # shared


def values(module):
    return {name: tensor.numpy().copy() for name, tensor in module.state_dict().items()}


def test_registration():
    block = Block()
    assert [n for n, _ in block.named_parameters()] == ["scale", "linear.weight", "linear.bias"]
    assert [n for n, _ in block.named_buffers()] == ["offset", "scratch"]
    assert [n for n, _ in block.named_modules()] == ["", "linear"]
    assert all(p.requires_grad for p in block.parameters())
    assert not any(b.requires_grad for b in block.buffers())
    assert {"scale", "offset", "linear", "note"} <= set(dir(block))


def test_attributes_keep_their_roles():
    block = Block()
    with pytest.raises(TypeError, match="assign a Parameter or None"):
        block.scale = Tensor([1.0, 2.0])
    with pytest.raises(TypeError, match="assign a Module or None"):
        block.linear = 3
    block.offset = Tensor([7.0])
    assert dict(block.named_buffers())["offset"].item() == 7
    block.scale = None
    assert "scale" not in dict(block.named_parameters()) and block.scale is None
    block.scale = nn.Parameter([3.0, 4.0])
    assert next(block.named_parameters())[0] == "scale"
    block.linear = nn.Parameter([5.0])  # another role needs no other name
    assert list(block.children()) == [] and "linear" in dict(block.named_parameters())
    del block.linear
    with pytest.raises(AttributeError, match="Block has no attribute 'linear'"):
        _ = block.linear


def test_super_init_must_come_first():
    class Wrong(nn.Module):
        def __init__(self):
            self.linear = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\)"):
        Wrong()


def test_register_checks_names():
    block = Block()
    for name in ("", "a.b", "forward"):
        with pytest.raises(ValueError, match=r"name|attribute"):
            block.register_buffer(name, Tensor([1.0]))
    block.register_buffer("extra", Tensor([1.0]), persistent=False)
    assert "extra" in dict(block.named_buffers()) and "extra" not in block.state_dict()
    block.register_parameter("none", None)
    assert block.none is None
    with pytest.raises(TypeError, match="forward"):
        nn.Module()()


def test_shared_parts_are_walked_once_but_saved_under_each_name():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == [
        "blocks.0.scale",
        "blocks.0.linear.weight",
        "blocks.0.linear.bias",
        "blocks.1.scale",
        "head.weight",
    ]
    assert len(list(net.modules())) == 6
    assert list(net.state_dict()) == [
        "blocks.0.scale",
        "blocks.0.offset",
        "blocks.0.linear.weight",
        "blocks.0.linear.bias",
        "blocks.1.scale",
        "blocks.1.offset",
        "blocks.1.linear.weight",
        "blocks.1.linear.bias",
        "head.weight",
    ]


def test_a_deep_chain_of_modules_needs_no_recursion():
    net = inner = nn.Sequential()
    for _ in range(3000):
        child = nn.Sequential()
        inner.add_module("0", child)
        inner = child
    inner.add_module("end", nn.Linear(1, 1))
    assert len(list(net.parameters())) == 2
    assert not net.eval().training and not inner.training
    assert len(net.state_dict()) == 2


def test_state_dict_round_trip():
    a, b = Net(), Net()
    b.load_state_dict(a.state_dict())
    for name, value in values(a).items():
        np.testing.assert_array_equal(values(b)[name], value)
    assert all(p.requires_grad for p in b.parameters())


def test_state_dict_is_a_snapshot():
    linear = nn.Linear(2, 2)
    state = linear.state_dict()
    before = linear.weight.numpy().copy()
    nn.init.zeros_(linear.weight)
    np.testing.assert_array_equal(state["weight"].numpy(), before)
    linear.load_state_dict(state)
    np.testing.assert_array_equal(linear.weight.numpy(), before)


def test_load_lists_all_problems_and_loads_nothing():
    linear = nn.Linear(2, 3)
    before = values(linear)
    with pytest.raises(StateError) as caught:
        linear.load_state_dict({"weight": np.zeros((2, 3)), "biass": np.zeros(3)})
    text = str(caught.value)
    assert "missing: bias" in text and "unexpected: biass" in text
    assert "weight" in text and "(3, 2)" in text and "(2, 3)" in text
    with pytest.raises(StateError):
        linear.load_state_dict({"bias": np.ones(3), "weight": np.zeros((2, 3))}, strict=False)
    for name, value in before.items():
        np.testing.assert_array_equal(values(linear)[name], value)


def test_load_not_strict():
    linear = nn.Linear(2, 3)
    weight = linear.weight.numpy().copy()
    keys = linear.load_state_dict({"bias": np.ones(3), "other": np.ones(1)}, strict=False)
    assert keys.missing_keys == ["weight"] and keys.unexpected_keys == ["other"]
    assert linear.load_state_dict(linear.state_dict()) == ([], [])
    assert linear.bias.tolist() == [1, 1, 1]
    np.testing.assert_array_equal(linear.weight.numpy(), weight)
    assert linear.bias.dtype is dtype.float32  # float64 arrays are converted


def test_train_and_eval_reach_everything():
    net = nn.Sequential(nn.Dropout(), nn.Sequential(nn.BatchNorm1d(3)))
    net.eval()
    assert not any(m.training for m in net.modules())
    net.train()
    assert all(m.training for m in net.modules())


def test_to_changes_float_parts_and_keeps_handles():
    norm = nn.BatchNorm1d(3)
    weight, count = norm.weight, norm.num_batches_tracked
    assert norm.to(dtype.float16) is norm
    assert norm.weight is weight and weight.dtype is dtype.float16 and weight.requires_grad
    assert norm.running_var.dtype is dtype.float16 and count.dtype is dtype.int64
    norm.to("float64")
    assert weight.dtype is dtype.float64
    norm.to("NUMPY", dtype="float32")
    assert weight.device == norm.running_mean.device == "NUMPY" and weight.dtype is dtype.float32
    with pytest.raises(DTypeError, match="must be float"):
        norm.to(dtype.int32)


def test_requires_grad_zero_grad_and_apply():
    net = Net()
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    net.requires_grad_()
    block = net.blocks[0]
    block(Tensor([[1.0, 2.0]])).sum().backward()
    assert block.scale.grad is not None
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    seen = []
    assert net.apply(lambda m: seen.append(type(m).__name__)) is net
    assert seen[-1] == "Net" and sorted(seen) == ["Block", "Block", "Linear", "Linear", "ModuleList", "Net"]


def test_repr():
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Sequential(nn.Linear(4, 2, bias=False)))
    assert repr(net) == (
        "Sequential(\n"
        "  (0): Conv2d(1, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))\n"
        "  (1): ReLU()\n"
        "  (2): Sequential(\n"
        "    (0): Linear(4, 2, bias=False)\n"
        "  )\n"
        ")"
    )


def test_sequential_and_list():
    parts = [nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)]
    net = nn.Sequential(*parts)
    assert len(net) == 3 and net[0] is parts[0] and net[-1] is parts[2] and list(net) == parts
    assert isinstance(net[1:], nn.Sequential) and list(net[1:]) == parts[1:]
    net[1] = nn.Tanh()
    net.append(nn.ReLU())
    net.insert(0, nn.Identity())
    del net[1]
    assert [type(m).__name__ for m in net] == ["Identity", "Tanh", "Linear", "ReLU"]
    assert list(net._modules) == ["0", "1", "2", "3"]
    named = nn.Sequential({"first": parts[0], "second": parts[1]})
    assert list(named.state_dict()) == ["first.weight", "first.bias"]
    with pytest.raises(TypeError, match="holds modules"):
        nn.ModuleList([1])


def test_module_dict():
    parts = nn.ModuleDict({"a": nn.Linear(1, 1), "b": nn.ReLU()})
    assert list(parts) == ["a", "b"] and "a" in parts and len(parts) == 2
    parts["b"] = nn.Tanh()
    assert [type(m).__name__ for m in parts.values()] == ["Linear", "Tanh"]
    del parts["a"]
    assert list(parts.keys()) == ["b"] and dict(parts.items())["b"] is parts["b"]


def test_parameters_share_the_tensor_they_are_made_of():
    value = Tensor([1.0, 2.0])
    parameter = nn.Parameter(value)
    assert isinstance(parameter, Tensor) and parameter.requires_grad and not value.requires_grad
    assert type(parameter * 2) is Tensor
    assert parameter.tolist() == [1, 2]


def test_deep_copies_are_independent():
    a = Net()
    b = copy.deepcopy(a)
    assert b.blocks[0].linear is b.blocks[1].linear
    nn.init.zeros_(b.head.weight)
    assert a.head.weight.numpy().any() and not b.head.weight.numpy().any()


def test_shape_errors_name_the_layer():
    with pytest.raises(ShapeError, match="linear"):
        nn.Linear(3, 2)(Tensor.zeros(4, 5))
    with pytest.raises(ShapeError, match="BatchNorm2d"):
        nn.BatchNorm2d(3)(Tensor.zeros(4, 3))
