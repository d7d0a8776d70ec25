"""What a handle says of itself, and what PyTorch's users do with handles and the recording of gradients."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import dawdle
from dawdle import Tensor
from dawdle.errors import ArgumentError, DTypeError, GradientError, ShapeError

on_numpy = pytest.mark.parametrize("device", ["NUMPY"], indirect=True)


@on_numpy
def test_data_is_the_value_without_gradients():
    p = Tensor([1.0, -5.0], requires_grad=True)
    loss = (p * p).sum()
    assert not p.data.requires_grad and p.data.tolist() == [1, -5]
    alias = p.data
    p.data.clamp_(-2, 2).mul_(3)
    assert p.tolist() == alias.tolist() == [3, -6] and p.is_leaf and p.requires_grad
    p.data[0] = 4.0
    p.data += 1
    assert p.tolist() == alias.tolist() == [5, -5]
    p.data = np.float32([7, 8])
    assert p.tolist() == [7, 8] and p.requires_grad
    loss.backward()
    assert p.grad.tolist() == [2, -10]  # what was recorded is of the old values
    for derived in (alias + 1, alias.new_tensor([1]), copy.copy(alias), copy.deepcopy(alias)):
        assert type(derived) is Tensor
    derived.add_(1)
    assert p.tolist() == [7, 8]


@pytest.mark.parametrize("device", ["CPU"], indirect=True)
def test_data_under_jit():
    p = Tensor([1.0, -5.0], requires_grad=True)

    @dawdle.jit
    def step(limit):
        p.data.add_(1.0)
        p.data.clamp_(-limit, limit)
        return p * 2

    for want in ([2, -3], [3, -2], [3, -1]):
        assert step(Tensor(3.0)).tolist() == [2 * w for w in want]
        assert p.tolist() == want


@on_numpy
def test_hooks_see_and_change_gradients():
    x = Tensor([1.0, 2.0], requires_grad=True)
    h = x * 3
    seen = []
    first = h.register_hook(lambda g: seen.append(g.tolist()))
    h.register_hook(lambda g: g * 10)
    h.retain_grad()
    assert h.retains_grad and not x.retains_grad and not h.is_leaf
    (h * h).sum().backward(retain_graph=True)
    assert seen == [[6, 12]] and h.grad.tolist() == [60, 120] and x.grad.tolist() == [180, 360]
    first.remove()
    first.remove()
    with x.register_hook(lambda g: g * 0):
        assert (h * h).sum().gradient(x, retain_graph=True)[0].tolist() == [0, 0]
    (h * h).sum().backward()
    assert seen == [[6, 12]] and x.grad.tolist() == [360, 720] and h.grad.tolist() == [180, 360]
    for wrong in (Tensor([1.0]), h.detach()):
        with pytest.raises(GradientError, match="requires_grad_"):
            wrong.register_hook(print)
        with pytest.raises(GradientError, match="requires_grad_"):
            wrong.retain_grad()


@pytest.mark.parametrize("device", ["CPU"], indirect=True)
def test_hooks_under_jit():
    x = Tensor([1.0, 2.0], requires_grad=True)

    @dawdle.jit
    def step(factor):
        h = x * factor
        h.register_hook(lambda g: g.clamp(-1, 1))
        h.retain_grad()
        (h * h).sum().backward()
        return h.grad

    for factor in (3.0, 0.25, 0.125):
        x.grad = None
        assert step(Tensor(factor)).tolist() == [min(2 * factor, 1), min(4 * factor, 1)]
        assert x.grad.tolist() == [min(2 * factor, 1) * factor, min(4 * factor, 1) * factor]


@on_numpy
def test_leaves_and_what_they_are_computed_by():
    x = Tensor([1.0], requires_grad=True)
    h = x * 2
    assert x.grad_fn is None and h.grad_fn.name() == "gradient of mul" and "mul" in repr(h.grad_fn)
    assert Tensor([1.0]).grad_fn is None and h.detach().grad_fn is None
    assert h.detach_() is h and h.is_leaf and not h.requires_grad


@on_numpy
def test_recording_is_switched():
    x = Tensor([1.0], requires_grad=True)
    before = dawdle.set_grad_enabled(False)
    assert not dawdle.is_grad_enabled() and not (x * 2).requires_grad
    dawdle.set_grad_enabled(True)
    del before
    with dawdle.set_grad_enabled(False):
        assert not (x * 2).requires_grad
        with dawdle.inference_mode(False):
            assert (x * 2).requires_grad
    for decorate in (
        dawdle.no_grad, dawdle.no_grad(), dawdle.inference_mode, dawdle.inference_mode(),
        lambda function: dawdle.set_grad_enabled(False)(function),
    ):  # fmt: skip
        assert dawdle.is_grad_enabled()
        assert [decorate(lambda: (x * 2).requires_grad)() for _ in range(2)] == [False, False]
    assert dawdle.is_grad_enabled()


@on_numpy
def test_what_a_handle_says():
    x = Tensor.zeros(2, 3, 4)
    assert x.stride() == (12, 4, 1) and x.stride(-2) == x.stride(dim=1) == 4
    assert Tensor(1).stride() == () and Tensor.zeros(2, 0, 3).stride() == (3, 3, 1)
    assert x.nelement() == 24 and x.ndimension() == 3 and x.itemsize == 4 and x.storage_offset() == 0
    assert x.is_signed() and not x.bool().is_signed() and not x.is_complex() and not x.is_cuda and x.is_cpu
    assert x.is_same_size(x + 1) and not x.is_same_size(x[0]) and x.char().dtype == "int8"
    assert Tensor([2.0]).is_nonzero() and not dawdle.is_nonzero(Tensor(0))
    assert x[0].H.shape == (4, 3) and x.mH.shape == x.adjoint().shape == (2, 4, 3)
    with pytest.raises(ShapeError, match="stride"):
        x.stride(3)
    with pytest.raises(DTypeError, match="list"):
        dawdle.is_floating_point([1.0])


@on_numpy
def test_tensors_of_data():
    x, a = Tensor([1.0, 2.0], requires_grad=True), np.arange(3)
    assert dawdle.as_tensor(x) is x and dawdle.asarray(x) is x and dawdle.asarray(x, copy=True) is not x
    assert dawdle.as_tensor(x, dtype="float64").requires_grad
    copied = dawdle.as_tensor(a)
    a[0] = 9
    assert copied.tolist() == [0, 1, 2] and dawdle.asarray(a, "float32").dtype == "float32"
    assert dawdle.asarray([1.0], requires_grad=True).requires_grad
    assert dawdle.scalar_tensor(3).dtype == "float32" and dawdle.is_tensor(x) and not dawdle.is_tensor(a)
    with pytest.raises(ArgumentError, match="copy"):
        dawdle.asarray([1.0], copy=False)
    raw = np.float32([1, 2, 3]).tobytes()
    assert dawdle.frombuffer(raw, dtype="float32", count=1, offset=4).tolist() == [2]
    assert dawdle.frombuffer(b"\x80\x3f\x00\x40", dtype="bfloat16").tolist() == [1, 2]
    assert dawdle.frombuffer(b"\x01\x00", dtype=bool).tolist() == [True, False]
    for wrong in ({"count": 4}, {"offset": 13}, {"offset": 1}):
        with pytest.raises(ShapeError, match="frombuffer"):
            dawdle.frombuffer(raw, dtype="float32", **wrong)


@on_numpy
def test_kinds_of_dtypes():
    x = Tensor([1])
    assert dawdle.promote_types(dawdle.int8, dawdle.float16) == "float16"
    assert dawdle.result_type(x, 2.5) == "float32" and dawdle.result_type(x, dawdle.float16) == "float64"
    assert dawdle.can_cast(x.dtype, "int8") and not dawdle.can_cast("float32", int)
