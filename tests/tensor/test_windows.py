"""Pools, convolutions and resampling beside the op table: special values, errors, and the tables of taps."""

from __future__ import annotations

import numpy as np
import pytest

from dawdle import Tensor
from dawdle.errors import ArgumentError, DawdleError, DTypeError, ShapeError
from dawdle.nn import functional as F
from dawdle.tensor import resample

INF, NAN = np.inf, np.nan


def test_padding_counts_as_minus_infinity():
    x = -np.arange(1.0, 10).reshape(1, 1, 3, 3)
    y, index = F.max_pool2d(Tensor(x), 3, 2, 1, return_indices=True)
    assert y.numpy().ravel().tolist() == [-1, -2, -4, -5]
    assert index.numpy().ravel().tolist() == [0, 1, 3, 4]
    least = Tensor(np.full((1, 1, 2, 2), -128, np.int8))
    values, places = F.max_pool2d(least, 2, 1, 1, return_indices=True)
    assert values.dtype == least.dtype and (values.numpy() == -128).all()
    assert places.numpy().ravel().tolist() == [0, 0, 1, 0, 0, 1, 2, 2, 3]


def test_nan_is_the_maximum_of_every_window_that_has_it():
    x = np.zeros((1, 1, 1, 6), np.float32)
    x[..., 2], x[..., 5] = NAN, INF
    y, index = F.max_pool2d(Tensor(x), (1, 3), 1, return_indices=True)
    np.testing.assert_array_equal(y.numpy().ravel(), [NAN, NAN, NAN, INF])
    assert index.numpy().ravel().tolist() == [2, 2, 2, 5]
    np.testing.assert_array_equal(F.avg_pool2d(Tensor(x), (1, 3)).numpy().ravel(), [NAN, INF])


def test_the_first_of_equal_elements_gets_the_gradient():
    x = Tensor(np.zeros((1, 5)), requires_grad=True)
    (F.max_pool1d(x, 3, 2) * Tensor([[1.0, 10.0]])).sum().backward()
    assert x.grad.numpy().tolist() == [[1, 0, 10, 0, 0]]
    x = Tensor(np.full((1, 4), NAN), requires_grad=True)
    F.max_pool1d(x, 2).sum().backward()
    assert x.grad.numpy().tolist() == [[1, 0, 1, 0]]


def test_windows_of_nothing_but_padding():
    x = Tensor(np.zeros((1, 1, 3)), requires_grad=True)
    y, index = F.max_pool2d(x, 2, 1, 1, 2, return_indices=True)
    assert y.numpy().tolist() == [[[-INF, -INF, -INF]]]
    assert (index.numpy() == -1).all()
    y.maximum(0).sum().backward()
    assert x.grad.numpy().tolist() == [[[0, 0, 0]]]


def test_fractional_pools_are_drawn():
    x = Tensor(np.arange(400.0).reshape(1, 1, 20, 20), requires_grad=True)
    drawn = [F.fractional_max_pool2d(x, 2, 8) for _ in range(4)]
    assert all(y.shape == (1, 1, 8, 8) and y.numpy().max() == 399 for y in drawn)
    assert len({y.numpy().tobytes() for y in drawn}) > 1
    drawn[0].sum().backward()
    assert x.grad.numpy().sum() == 64


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d"])
def test_empty_batches(name):
    x = Tensor.zeros(0, 3, 4, 4, requires_grad=True)
    y = getattr(F, name)(x, 2)
    assert y.numpy().shape == (0, 3, 2, 2)
    y.sum().backward()
    assert x.grad.shape == x.shape


def image(*shape, **options):
    return Tensor.ones(*shape, **options)


@pytest.mark.parametrize("call, error, words", [
    (lambda: F.max_pool2d(image(4, 4), 2), ShapeError, r"max_pool2d takes \(N, C, H, W\)"),
    (lambda: F.max_pool2d(image(1, 4, 4), 5), ShapeError, "larger than the padded input"),
    (lambda: F.max_pool2d(image(1, 4, 4), 2, padding=2), ShapeError, "more than half of a window"),
    (lambda: F.max_pool2d(image(1, 4, 4), (2, 2, 2)), ShapeError, "kernel_size must be an integer"),
    (lambda: F.max_pool2d(image(1, 4, 4), 2, 0), ShapeError, "stride must be an integer of at least 1"),
    (lambda: F.avg_pool2d(image(1, 4, 4), 2, divisor_override=0), ArgumentError, "divisor_override"),
    (lambda: F.avg_pool2d(image(1, 4, 4, dtype="int64"), 2), DTypeError, "cast the input"),
    (lambda: F.adaptive_avg_pool2d(image(1, 4, 4), (2, 2, 2)), ShapeError, "output_size must be one number"),
    (lambda: F.adaptive_avg_pool2d(image(1, 4, 4, dtype="int64"), 2), DTypeError, "takes floats"),
    (lambda: F.adaptive_max_pool2d(image(1, 0, 4), 2), ShapeError, "nothing to pool"),
    (lambda: F.fractional_max_pool2d(image(1, 4, 4), 2), ShapeError, "either output_size or"),
    (lambda: F.fractional_max_pool2d(image(1, 4, 4), 2, 4), ShapeError, "don't fit into"),
    (lambda: F.max_unpool1d(image(1, 2), Tensor([[0]]), 2), ShapeError, "indices of shape"),
    (lambda: F.max_unpool1d(image(1, 1), Tensor([[0]]), 2, output_size=(9,)), ShapeError, "within a stride"),
    (lambda: F.unfold(image(4, 4), 2), ShapeError, r"\(C, H, W\)"),
    (lambda: F.fold(image(1, 4, 3), (4, 4), 2), ShapeError, r"takes \(N, C \* 4, 9\)"),
    (lambda: F.conv1d(image(1, 1, 4, 4), image(1, 1, 2, 2)), ShapeError, "conv1d takes a weight of 3"),
    (lambda: F.conv2d(image(1, 4, 4), image(1, 1, 2, 2), stride=2, padding="same"), ShapeError, "stride 1"),
    (lambda: F.conv2d(image(1, 4, 4), image(1, 1, 2, 2), padding="full"), ShapeError, "'same' or 'valid'"),
    (lambda: F.conv2d(image(1, 4, 4), image(1, 1, 2, 2), padding=((1, 1),)), ShapeError, r"\(low, high\)"),
    (lambda: F.conv_transpose2d(image(1, 4, 4), image(1, 1, 2, 2), output_padding=1), ShapeError,
     "less than the stride"),
    (lambda: F.conv_transpose2d(image(2, 4, 4), image(1, 1, 2, 2)), ShapeError, "conv_transpose takes"),
    (lambda: F.interpolate(image(1, 3, 4)), ShapeError, "either size or scale_factor"),
    (lambda: F.interpolate(image(1, 1, 3), 2, mode="cubic"), ArgumentError, "unknown"),
    (lambda: F.interpolate(image(1, 1, 3), 2, mode="bilinear"), ShapeError, "2 sizes after"),
    (lambda: F.interpolate(image(1, 1, 3), 0), ShapeError, "must be positive"),
    (lambda: F.interpolate(image(1, 1, 3), (2, 2)), ShapeError, "size must be one number or 1"),
    (lambda: F.interpolate(image(1, 1, 3), 2, align_corners=True), ArgumentError, "no meaning"),
    (lambda: F.interpolate(image(1, 1, 3), 2, mode="linear", antialias=True), ArgumentError, "antialias"),
    (lambda: F.interpolate(image(1, 1, 3, dtype="int64"), 2, mode="linear"), DTypeError, "'nearest'"),
    (lambda: F.grid_sample(image(1, 1, 3, 3), image(2, 2, 2, 2)), ShapeError, "grid_sample takes"),
    (lambda: F.grid_sample(image(1, 1, 3, 3), image(1, 2, 2, 2), "cubic"), ArgumentError, "modes are"),
    (lambda: F.grid_sample(image(1, 1, 3, 3, dtype="int64"), image(1, 2, 2, 2)), DTypeError, "takes floats"),
    (lambda: F.affine_grid(image(1, 2, 2), (1, 1, 3, 3)), ShapeError, "affine_grid takes theta"),
])  # fmt: skip
def test_errors(call, error, words):
    with pytest.raises(error, match=words) as caught:
        call()
    assert isinstance(caught.value, DawdleError)


# ---- the tables that resampling is made of


def dense(taps: resample.Taps) -> np.ndarray:
    """The matrix that resampling multiplies with."""
    out = np.zeros((len(taps.index), taps.size))
    weights = np.ones(taps.index.shape) if taps.weights is None else taps.weights
    for row, (index, weight) in enumerate(zip(taps.index, weights, strict=True)):
        np.add.at(out[row], index[index >= 0], weight[index >= 0])
    return out


AXIS = resample.Axis(5, 8)
TABLES = {
    "nearest": resample.nearest(resample.positions(AXIS, "half_pixel"), 5),
    "linear": resample.linear(resample.positions(AXIS, "align_corners"), 5),
    "cubic": resample.weighted(resample.positions(AXIS, "half_pixel"), 5, resample.cubic(-0.75), 2),
    "excluding": resample.weighted(
        resample.positions(AXIS, "half_pixel"), 5, resample.cubic(-0.5), 2, exclude_outside=True
    ),
    "smooth": resample.linear(np.array([0.5, 2.5]), 5, stretch=2.5),
    "smooth inside": resample.linear(np.array([0.5, 2.5]), 5, stretch=2.5, exclude_outside=True),
    "areas": resample.areas(5, 3),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables(name):
    taps = TABLES[name]
    matrix = dense(taps)
    np.testing.assert_allclose(matrix.sum(1), 1, rtol=1e-12)
    np.testing.assert_allclose(dense(taps.adjoint()), matrix.T, rtol=1e-12)
    x = np.random.default_rng(0).normal(size=(2, 5, 3))
    got = resample.resample(Tensor(x), 1, taps)
    np.testing.assert_allclose(got.numpy(), np.einsum("ij,bjk->bik", matrix, x), rtol=1e-6)


@pytest.mark.parametrize("how, expected", [
    ("half_pixel", [-0.25, 0.25, 0.75, 1.25]),
    ("asymmetric", [0, 0.5, 1, 1.5]),
    ("align_corners", [0, 1 / 3, 2 / 3, 1]),
    ("tf_half_pixel_for_nn", [0.25, 0.75, 1.25, 1.75]),
    ("tf_crop_and_resize", [0.25, 0.25 + 1 / 6, 0.25 + 1 / 3, 0.75]),
    ("half_pixel_symmetric", [-0.25, 0.25, 0.75, 1.25]),
    ("pytorch_half_pixel", [-0.25, 0.25, 0.75, 1.25]),
])  # fmt: skip
def test_positions(how, expected):
    axis = resample.Axis(2, 4, roi=(0.25, 0.75))
    np.testing.assert_allclose(resample.positions(axis, how), expected, atol=1e-12)


def test_positions_of_a_single_result():
    axis = resample.Axis(5, 1, roi=(0.0, 0.5))
    ends = {"align_corners": 0, "pytorch_half_pixel": 0, "tf_crop_and_resize": 1, "half_pixel": 2}
    assert {how: resample.positions(axis, how).item() for how in ends} == ends


@pytest.mark.parametrize("rounding, expected", [
    ("round_prefer_floor", [0, 1, 2]), ("round_prefer_ceil", [1, 2, 3]), ("floor", [0, 1, 2]),
    ("ceil", [1, 2, 3]),
])  # fmt: skip
def test_roundings(rounding, expected):
    assert resample.nearest(np.array([0.5, 1.5, 2.5]), 4, rounding).index.ravel().tolist() == expected


def test_places_outside_are_filled():
    taps = {0: TABLES["linear"], 1: resample.nearest(np.arange(2.0), 2)}
    outside = {0: np.arange(8) == 3, 1: np.array([False, True])}
    y = resample.resize(Tensor.ones(5, 2), taps, outside, 7.0).numpy()
    assert (y[:, 1] == 7).all() and (y[3] == 7).all() and y[:3, 0].tolist() == [1, 1, 1]


def test_nearest_enlargement_moves_elements_of_any_dtype():
    x = Tensor(np.array([[[True, False]]]))
    assert F.interpolate(x, scale_factor=2).numpy().tolist() == [[[True, True, False, False]]]
    assert F.interpolate(Tensor([[[1, 2, 3, 4]]]), 2).numpy().tolist() == [[[1, 3]]]


def test_half_types_are_rounded_once():
    x = np.random.default_rng(0).normal(size=(1, 1, 6, 6)).astype(np.float16)
    for call in (lambda x: F.interpolate(x, 9, mode="bicubic"), lambda x: F.adaptive_avg_pool2d(x, 4),
                 lambda x: F.avg_pool2d(x, 3)):  # fmt: skip
        got, exact = call(Tensor(x)), call(Tensor(x.astype(np.float32)))
        assert got.dtype.name == "float16"
        np.testing.assert_array_equal(got.numpy(), exact.numpy().astype(np.float16))
