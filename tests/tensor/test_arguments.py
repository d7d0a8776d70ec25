"""Arguments of the wrong kind: every public function says which, and what it takes."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import dawdle
from dawdle import Tensor, linalg
from dawdle.errors import ArgumentTypeError, DawdleError
from dawdle.nn import functional
from dawdle.tensor.arguments import rule_of

pytestmark = pytest.mark.parametrize("device", ["NUMPY"], indirect=True)

TOPICS = [base for base in Tensor.__mro__ if base.__module__.startswith("dawdle.tensor.methods.")]
# what other rules look at: those of dimensions and dtypes, and functions that tell several uses apart
OTHERS = {
    "Any", "object", "object | None", "Dim", "Dim | bool", "int | Operand | None",
    "Order",
}  # fmt: skip
X = Tensor([[3.0, 1.0, 2.0], [1.0, 0.0, 2.0]])


def functions():
    for topic in TOPICS:
        for name, value in vars(topic).items():
            if name[0] != "_" and not isinstance(value, staticmethod):
                of_class = isinstance(value, classmethod)
                yield name, getattr(value, "__func__", value), getattr(Tensor, name), () if of_class else (X,)
    for module in (functional, linalg):
        for name in module.__all__:
            if name != "multi_dot":
                yield name, getattr(module, name), getattr(module, name), (X,)


def test_each_argument_is_checked(device):
    count = 0
    for name, function, call, given in functions():
        for p in list(inspect.signature(function).parameters.values())[1:]:
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) or p.annotation is p.empty:
                continue
            if rule_of(p.name, p.annotation) is None:
                assert p.annotation in OTHERS, f"{name}: no rule for {p.name}: {p.annotation}"
                continue
            count += 1
            with pytest.raises(ArgumentTypeError, match=rf"\w: {p.name} must be .*, got <object"):
                call(*given, **{p.name: object()})
    assert count > 700


@pytest.mark.parametrize("call, words", [
    (lambda: X.topk(2.0), "topk: k must be an integer, got 2.0"),
    (lambda: X.topk("2"), "topk: k must be an integer, got '2'"),
    (lambda: X.tril(1.5), "tril: diagonal must be an integer, got 1.5"),
    (lambda: X.cumsum(axis=1.0), "cumsum: dim must be an integer, got 1.0"),
    (lambda: dawdle.sum(X, 0, "yes"), "sum: keepdim must be True or False, got 'yes'"),
    (lambda: X.norm(p=[]), r"norm: p must be a number, a string or None, got \[\]"),
    (lambda: X.tile(dims=3), "tile: dims must be a sequence of integers or None, got 3"),
    (lambda: X.addmm(None, X), "addmm: mat1 must be a tensor, got None"),
    (lambda: X.clamp_(min="0"), "clamp_: min must be a tensor or None, got '0'"),
    (lambda: X.chunk(X), r"chunk: chunks must be an integer, got a tensor of shape \(2, 3\)"),
    (lambda: functional.softplus(X, beta=None), "softplus: beta must be a number, got None"),
    (lambda: functional.relu([1.0]), r"relu: x must be a tensor, got \[1.0\]"),
    (lambda: Tensor.randn(2, generator=3), "randn: generator must be a Generator or None, got 3"),
    (lambda: Tensor.normal(mean=[1.0]), r"normal: mean must be a tensor or a number, got \[1.0\]"),
    (lambda: X.type_as("float32"), "type_as: other must be a tensor, got 'float32'"),
])  # fmt: skip
def test_words(call, words, device):
    with pytest.raises(ArgumentTypeError, match=f"^{words}$"):
        call()


def test_what_stands_for_an_integer_or_a_tensor(device):
    for two in (2, np.int8(2), np.array(2), Tensor(2), Tensor([2]).sum()):
        assert X.topk(two)[0].tolist() == [[3, 2], [2, 1]]
        assert functional.one_hot(Tensor([1]), two).tolist() == [[0, 1]]
    for sizes in ((2, 1), [2, 1], np.array([2, 1]), Tensor([2, 1]), (np.int64(2), Tensor(1))):
        assert X.tile(dims=sizes).shape == (4, 3)
    assert X.mv(np.float32([1, 0, 0])).tolist() == X.mv([1.0, 0.0, 0.0]).tolist() == [3, 1]
    assert X.sum(0, keepdim=np.True_).shape == (1, 3)


@pytest.mark.parametrize("call, words", [
    (lambda: X.round(decimals=400), "round: decimals must be within -300 and 300, got 400"),
    (lambda: X.rot90(dims=(0,)), "rot90 turns in the plane of two dimensions"),
    (lambda: X.matrix_norm(dim=(0, 1, 0)), "two dimensions"),
    (lambda: X.tensordot(X, [0]), "a pair of lists"),
    (lambda: X.tensordot(X, [0.5, 1]), "a pair of lists"),
    (lambda: X.tensordot(X, 3), "over 3 dimensions of shapes"),
    (lambda: X.vsplit(0), "vsplit: dimension 0"),
    (lambda: X.pad((1, "a")), "amounts are integers"),
    (lambda: X.pad([(1, 2), 3]), "pad: amounts are"),
    (lambda: X.roll(1, 1.5), "roll: dim must be an integer"),
    (lambda: X.shrink([(0,), (1, 2)]), "ranges must be a sequence of pairs of integers"),
    (lambda: X.index_put(0, 1.0), "indices must be a sequence of tensors, got 0"),
    (lambda: X.quantile("half"), "q must be a tensor, got 'half'"),
    (lambda: X.quantile([0.5, "half"]), "dtype"),
    (lambda: X.histogram(3, range=(1.0,)), "range must be two numbers or None"),
    (lambda: X.expand(2**40, 2, 3).expand(2**40, 2, 3)[0, 0].expand(2**62, 3), "64-bit indices"),
    (lambda: X.expand(2**62, 2, 3), "64-bit indices"),
    (lambda: Tensor.zeros(2**70), "64-bit indices"),
    (lambda: Tensor.arange(2**70), "64-bit indices"),
    (lambda: Tensor.randint(1, "9", (2,)), "high must be an integer"),
    (lambda: Tensor(1.0).cholesky_inverse(), "takes matrices"),
    (lambda: Tensor(1.0).cross_entropy(Tensor(1)), "0-dimensional"),
    (lambda: Tensor(1.0).nll_loss(Tensor(1)), "0-dimensional"),
    (lambda: Tensor(1.0).batchnorm(1, 0, Tensor(1.0), Tensor(1.0)), "0-dimensional"),
    (lambda: functional.scaled_dot_product_attention(X[0], X, X), "length, features"),
    (lambda: functional.group_norm(X, 0), "into 0 groups"),
    (lambda: functional.max_pool1d(X, 2, padding=0.5), "padding must be an integer"),
    (lambda: dawdle.frombuffer(3, dtype="int8"), "bytes or a buffer, got int"),
    (lambda: dawdle.delete(X, 0, axis=2), "delete: dim 2 is out of range"),
    (lambda: dawdle.promote_types("float32", "complex64"), "dtype complex64"),
    (lambda: dawdle.get_rng_state(generator=1), "generator must be a Generator or None"),
])  # fmt: skip
def test_values_that_cannot_be(call, words, device):
    with pytest.raises(DawdleError, match=words):
        call()


def test_a_0_dimensional_operand_is_one_element(device):
    assert functional.cosine_similarity(Tensor(2.0), Tensor(-3.0), dim=0).item() == -1
    assert Tensor(2.0).index_reduce(0, Tensor([0]), Tensor([3.0]), "prod").item() == 6
