"""The names and orders of arguments that PyTorch's users write."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import dawdle
from dawdle import Tensor, linalg
from dawdle.dtype import ALL
from dawdle.errors import ArgumentError, DeviceError, ShapeError
from dawdle.nn import functional

pytestmark = pytest.mark.usefixtures("device")


@pytest.mark.parametrize("call, shape", [
    (lambda: dawdle.normal(0, 1, (3,)), (3,)),
    (lambda: dawdle.normal(0.0, 1.0, size=(2, 3)), (2, 3)),
    (lambda: dawdle.normal(mean=0.0, std=1.0, size=(2,)), (2,)),
    (lambda: dawdle.normal(1.0, dawdle.ones(3)), (3,)),
    (lambda: dawdle.normal(dawdle.ones(2), dawdle.ones(3, 1)), (3, 2)),
    (lambda: dawdle.normal(dawdle.ones(4)), (4,)),
    (lambda: dawdle.normal(2, 3), (2, 3)),
    (lambda: dawdle.normal((2, 3), mean=5.0), (2, 3)),
    (lambda: dawdle.rand(size=(2, 3)), (2, 3)),
    (lambda: dawdle.randn(size=(2,)), (2,)),
    (lambda: dawdle.zeros(size=(2,)), (2,)),
    (lambda: dawdle.ones(size=()), ()),
    (lambda: dawdle.empty(size=[4]), (4,)),
    (lambda: dawdle.full(size=(2,), fill_value=3), (2,)),
    (lambda: dawdle.ones(4, 3).reshape(shape=(3, -1)), (3, 4)),
    (lambda: dawdle.broadcast_to(dawdle.ones(3), size=(2, 3)), (2, 3)),
    (lambda: dawdle.randint(5, (3,)), (3,)),
    (lambda: dawdle.randint(2, 5, (3,)), (3,)),
    (lambda: dawdle.randint(high=5, size=(2,)), (2,)),
])  # fmt: skip
def test_shapes(call, shape):
    assert call().shape == shape


def test_parameters_of_normal_numbers_in_order():
    drawn = dawdle.normal(100.0, 0.5, (2000,)).numpy()
    assert abs(drawn.mean() - 100) < 0.1 and abs(drawn.std() - 0.5) < 0.1
    np.testing.assert_array_equal(dawdle.normal(dawdle.arange(3.0), dawdle.zeros(3)).numpy(), [0, 1, 2])
    np.testing.assert_array_equal(dawdle.normal(7.0, dawdle.zeros(2)).numpy(), [7, 7])


SQUARE = Tensor([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize("named, plain", [
    (lambda: dawdle.sum(input=SQUARE, dim=0), lambda: dawdle.sum(SQUARE, 0)),
    (lambda: dawdle.roll(SQUARE, shifts=1, dims=0), lambda: SQUARE.roll(1, 0)),
    (lambda: dawdle.split(SQUARE, split_size_or_sections=1)[1], lambda: SQUARE.split(1)[1]),
    (lambda: SQUARE.take_along_dim(indices=SQUARE.argsort(1), dim=1), lambda: SQUARE.sort(1)[0]),
    (lambda: SQUARE.scatter(1, Tensor([[1]]), value=9.0), lambda: SQUARE.scatter(1, Tensor([[1]]), 9.0)),
    (lambda: SQUARE.mm(mat2=SQUARE), lambda: SQUARE @ SQUARE),
    (lambda: SQUARE[None].bmm(mat2=SQUARE[None]), lambda: SQUARE[None] @ SQUARE[None]),
    (lambda: SQUARE.mv(vec=SQUARE[0]), lambda: SQUARE @ SQUARE[0]),
    (lambda: SQUARE[0].outer(vec2=SQUARE[1]), lambda: SQUARE[0].outer(SQUARE[1])),
    (lambda: dawdle.atan2(SQUARE, other=2.0), lambda: SQUARE.atan2(2.0)),
    (lambda: dawdle.where(SQUARE > 2, input=SQUARE, other=0.0), lambda: SQUARE.where(SQUARE > 2, 0.0)),
    (lambda: dawdle.where(SQUARE > 2)[1], lambda: Tensor([0, 1])),
    (lambda: dawdle.isin(2, dawdle.arange(3)), lambda: Tensor(True)),
    (lambda: dawdle.searchsorted(sorted_sequence=[1, 3, 5], input=[3, 9]), lambda: Tensor([1, 3])),
    (lambda: dawdle.searchsorted([1, 3, 5], input=[3, 9], right=True), lambda: Tensor([2, 3])),
    (lambda: dawdle.searchsorted([1, 3, 5], [3, 9]), lambda: Tensor([1, 3])),
    (lambda: SQUARE.repeat(repeats=(2, 1)), lambda: SQUARE.repeat(2, 1)),
    (lambda: linalg.solve(A=SQUARE, B=SQUARE[0]), lambda: SQUARE.solve(SQUARE[0])),
    (lambda: linalg.solve_triangular(SQUARE, B=SQUARE, upper=True),
     lambda: linalg.solve_triangular(SQUARE, SQUARE, upper=True)),
    (lambda: linalg.inv(A=SQUARE), lambda: SQUARE.inverse()),
    (lambda: linalg.svdvals(A=SQUARE), lambda: SQUARE.svd()[1]),
    (lambda: linalg.matrix_power(A=SQUARE, n=2), lambda: SQUARE @ SQUARE),
    (lambda: dawdle.logical_and(2, dawdle.arange(2)), lambda: Tensor([False, True])),
])  # fmt: skip
def test_names_of_arguments(named, plain):
    got, expected = named(), plain()
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got.numpy(), expected.numpy())


@pytest.mark.parametrize("call, words", [
    (lambda: dawdle.mean(), r"mean.*'input'"),
    (lambda: functional.linear(weight=SQUARE), r"linear.*'x'"),
])  # fmt: skip
def test_a_missing_first_argument(call, words):
    with pytest.raises(TypeError, match=words):
        call()


OWN_NAMES = {
    "affine_grid": "theta", "one_hot": "tensor", "scaled_dot_product_attention": "query",
    **dict.fromkeys(("bilinear", "cosine_embedding_loss", "margin_ranking_loss"), "input1"),
    **dict.fromkeys(("cosine_similarity", "pairwise_distance"), "x1"),
    **dict.fromkeys(("triplet_margin_loss", "triplet_margin_with_distance_loss"), "anchor"),
}  # fmt: skip


@pytest.mark.parametrize("name", functional.__all__)
def test_functions_of_layers_take_their_input_by_name(name):
    """That one given twice is refused shows that the name is known."""
    with pytest.raises(TypeError, match=r"multiple values|got both"):
        getattr(functional, name)(SQUARE, **{OWN_NAMES.get(name, "input"): SQUARE})


def test_zero_in_place():
    x = Tensor([1.0, 2.0])
    before = x * 2
    assert x.zero_() is x
    assert x.tolist() == [0, 0] and before.tolist() == [2, 4]


def test_shapes_in_place():
    x = Tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    h = x * 2
    for change, shape in (
        (lambda: h.squeeze_(0), (3,)),
        (lambda: h.unsqueeze_(-1), (3, 1)),
        (lambda: h.t_(), (1, 3)),
        (lambda: h.transpose_(0, 1), (3, 1)),
    ):
        assert change() is h and h.shape == shape
    (h * Tensor([[1.0], [2.0], [3.0]])).sum().backward()
    assert x.grad.tolist() == [[2, 4, 6]] and h.is_contiguous()
    with pytest.raises(ShapeError, match="in-place add"):
        h.add_(Tensor([1.0, 2.0]))


def test_numel():
    assert dawdle.numel(SQUARE) == dawdle.numel([1, 2, 3, 4]) == 4


@pytest.mark.parametrize("dtype", ALL)
def test_copies_of_a_dtype_are_the_dtype(dtype):
    assert copy.copy(dtype) is copy.deepcopy([dtype])[0] is pickle.loads(pickle.dumps(dtype)) is dtype


def test_deviations_of_16_bit_floats_do_not_overflow_on_the_way():
    a = np.array([1, 2.5, -3, 60000], np.float16)
    x = Tensor(a)
    for got in (x.std(), x.std_mean()[0]):
        assert got.dtype.name == "float16"
        assert got.item() == np.float16(a.astype(np.float32).std(ddof=1))


def test_a_device_is_named_by_a_string():
    with pytest.raises(DeviceError, match="got 3"):
        Tensor([1.0], device=3)


def test_to_the_dtype_of_another_tensor():
    assert Tensor([1, 2]).to(Tensor([1.0])).dtype.name == "float32"
    assert Tensor([1.0, 2.0]).to(Tensor([1])).tolist() == [1, 2]


def test_ldexp_of_far_exponents():
    assert Tensor([1.0, 1.0, 0.0]).ldexp(Tensor([2**40, -(2**40), 2**40])).tolist() == [np.inf, 0, 0]
    assert Tensor([2.0**-120]).ldexp(240).item() == 2.0**120
    assert Tensor([3.0]).ldexp(0.5).dtype.name == "float32"


def test_a_norm_of_exponent_zero_pools_nothing():
    with pytest.raises(ArgumentError, match="can't be 0"):
        dawdle.nn.functional.lp_pool1d(dawdle.ones(1, 1, 4), 0, 2)
