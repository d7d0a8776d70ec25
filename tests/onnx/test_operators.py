"""Operators that neither onnx's suite nor onnxruntime settle: transforms of any length, random numbers,
gradients, running statistics.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx
from devices import WORKING
from nodes import Row
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import dawdle.onnx
from dawdle.errors import DawdleError

RNG = np.random.default_rng(3)
TRAINING = "ai.onnx.preview.training"


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


# ---- Fourier transforms

TYPES = {"bfloat16": "BFLOAT16", "float16": "FLOAT16", "float64": "DOUBLE"}


def complex_(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x[..., 0] + 1j * x[..., 1]


@pytest.mark.parametrize("n", [1, 7, 16, 255, 257, 300, 2018, 4096])  # up to 256 at once, a prime, products
def test_fourier_transforms(n: int) -> None:
    real, numbers = normal(2, n, 1), normal(2, n, 2)
    for x, given in ((real[..., 0], real), (complex_(numbers), numbers)):
        (y,) = Row("DFT", [given]).run()
        np.testing.assert_allclose(complex_(y), np.fft.fft(x), atol=1e-4)
        (y,) = Row("DFT", [given], {"inverse": 1}).run()
        np.testing.assert_allclose(complex_(y), np.fft.ifft(x), atol=1e-5)
    (y,) = Row("DFT", [real], {"onesided": 1}).run()
    np.testing.assert_allclose(complex_(y), np.fft.rfft(real[..., 0]), atol=1e-4)
    length = np.array(n, np.int64)
    half = normal(2, n // 2 + 1, 2)
    (y,) = Row("DFT", [half, length], {"onesided": 1, "inverse": 1}).run()
    np.testing.assert_allclose(y[..., 0], np.fft.irfft(complex_(half), n), atol=1e-5)


@pytest.mark.parametrize("length", [5, 12])
def test_fourier_transform_cuts_and_fills(length: int) -> None:
    x = normal(8, 3, 2)
    (y,) = Row("DFT", [x, np.array(length, np.int64), np.array(0, np.int64)]).run()
    np.testing.assert_allclose(complex_(y), np.fft.fft(complex_(x), length, axis=0), atol=1e-5)


@pytest.mark.parametrize(
    "row",
    [Row("DFT", [normal(1, 4, 1)]), Row("STFT", [normal(1, 8, 1), np.array(2), None, np.array(4)])],
    ids=["DFT", "STFT"],
)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_fourier_transforms_keep_the_dtype(row: Row, dtype: str) -> None:
    """Of which that of the tables isn't always a part."""
    signal = row.inputs[0].astype(helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(TYPES[dtype])))
    model = dawdle.onnx.load(Row(row.op, [signal, *row.inputs[1:]]).model(), device="NUMPY")
    given = {**row.given(), "x0": signal}
    assert model(**given)[0].dtype.name == dtype
    exact = row.run()[0]
    np.testing.assert_allclose(model(**given)[0].numpy(), exact, atol=0.05)


# ---- reading at places


def reference(row: Row) -> np.ndarray[Any, Any]:
    model = onnx.load_from_string(row.model())
    return np.asarray(ReferenceEvaluator(model).run(None, row.given())[0])


PLACES = [
    *[
        Row("GridSample", [normal(2, 3, 7), normal(2, 5, 1)], {"mode": mode, "padding_mode": padding})
        for mode, padding in (("linear", "zeros"), ("nearest", "border"), ("cubic", "reflection"))
    ],
    Row("GridSample", [normal(1, 2, 4, 5, 3), normal(1, 2, 3, 4, 3)], {"mode": "cubic", "align_corners": 1}),
    Row(
        "DeformConv",
        [normal(2, 4, 7, 6), normal(6, 2, 3, 2), normal(2, 24, 5, 5) * 2, normal(6), normal(2, 12, 5, 5)],
        {"group": 2, "offset_group": 2},
    ),
    Row(
        "DeformConv",
        [normal(1, 2, 8, 8), normal(2, 2, 3, 3), normal(1, 18, 4, 3)],
        {"strides": [2, 3], "pads": [1, 0, 1, 1]},
    ),
]


@pytest.mark.parametrize("row", PLACES, ids=map(str, PLACES))
def test_reading_at_places(row: Row) -> None:
    (y,) = row.run()
    np.testing.assert_allclose(y, reference(row), rtol=1e-4, atol=1e-5)


# ---- random numbers

SHAPE = (200, 100)
LIKE = np.zeros(SHAPE, np.float32)
DRAWS = {
    "RandomNormal": ([], {"shape": list(SHAPE), "mean": 2.0, "scale": 3.0}, 2.0, 3.0),
    "RandomNormalLike": ([LIKE], {"mean": 2.0, "scale": 3.0}, 2.0, 3.0),
    "RandomUniform": ([], {"shape": list(SHAPE), "low": -1.0, "high": 3.0}, 1.0, 4 / 12**0.5),
    "RandomUniformLike": ([LIKE], {"low": -1.0, "high": 3.0}, 1.0, 4 / 12**0.5),
    "Bernoulli": ([LIKE + 0.25], {}, 0.25, 0.1875**0.5),
    "Multinomial": (
        [np.log([[1.0, 2.0, 1.0]] * 200).astype(np.float32)],
        {"sample_size": 100},
        1.0,
        0.5**0.5,
    ),
}


@pytest.mark.parametrize("seeded", [False, True])
@pytest.mark.parametrize("op", DRAWS)
def test_random_numbers(op: str, seeded: bool) -> None:
    inputs, attributes, mean, deviation = DRAWS[op]
    row = Row(op, inputs, {**attributes, **({"seed": 1.5} if seeded else {})})
    model = dawdle.onnx.load(row.model(), device="NUMPY")
    first, second = (model(**row.given())[0].numpy() for _ in range(2))
    assert first.shape == SHAPE
    assert first.mean() == pytest.approx(mean, abs=0.05)
    assert first.std() == pytest.approx(deviation, rel=0.03)
    assert np.array_equal(first, second) == seeded  # a seed belongs to the node: each call draws the same


@pytest.mark.parametrize("op", DRAWS)
def test_random_numbers_in_jitted_models(op: str) -> None:
    """What is drawn meets what is computed on the model's device, and is drawn anew by each replay."""
    device = "CPU" if "CPU" in WORKING else pytest.skip("no device compiles here")
    inputs, attributes, _, _ = DRAWS[op]
    constants = [numpy_helper.from_array(x, "known") for x in inputs]
    nodes = [
        helper.make_node(op, [c.name for c in constants], ["drawn"], **attributes),
        helper.make_node("CastLike", ["drawn", "x"], ["same"]),
        helper.make_node("Add", ["x", "same"], ["y"]),
    ]
    port = helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)
    graph = helper.make_graph(nodes, "g", [port], [helper.make_empty_tensor_value_info("y")], constants)
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    model = dawdle.onnx.load(source.SerializeToString(), device=device, jit=True)
    first, second = (model(LIKE)[0].numpy() for _ in range(2))
    assert not np.array_equal(first, second)


def test_dropout_in_training() -> None:
    x, ratio, training = normal(100, 100) + 9, np.array(0.25, np.float32), np.array(True)
    y, kept = Row("Dropout", [x, ratio, training], outputs=2).run()
    assert kept.mean() == pytest.approx(0.75, abs=0.03)
    np.testing.assert_allclose(y, np.where(kept, x / 0.75, 0), rtol=1e-6)


# ---- training


def test_running_statistics() -> None:
    x, scale, bias, mean, variance = normal(4, 3, 5) * 2 + 1, normal(3), normal(3), normal(3), abs(normal(3))
    attributes = {"training_mode": 1, "momentum": 0.8}
    y, mean_after, variance_after = Row(
        "BatchNormalization", [x, scale, bias, mean, variance], attributes, 3
    ).run()
    here, spread = x.mean((0, 2)), x.var((0, 2))
    want = (x - here[:, None]) / np.sqrt(spread + 1e-5)[:, None] * scale[:, None] + bias[:, None]
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mean_after, mean * 0.8 + here * 0.2, rtol=1e-4)
    np.testing.assert_allclose(variance_after, variance * 0.8 + spread * 0.2, rtol=1e-4)


def gradient_model() -> bytes:
    """y = tanh(w @ x + 1) * w, and its gradient by w."""
    nodes = [
        helper.make_node("MatMul", ["w", "x"], ["product"]),
        helper.make_node("Add", ["product", "one"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["bent"]),
        helper.make_node("Mul", ["bent", "w"], ["y"]),
        helper.make_node("Gradient", ["w", "x"], ["slope"], domain=TRAINING, xs=["w"], zs=["x"], y="y"),
    ]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 2]) for n in ("w", "x")]
    results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 2]) for n in ("y", "slope")]
    one = helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])
    graph = helper.make_graph(nodes, "g", ports, results, [one])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(TRAINING, 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


def test_gradient() -> None:
    w, x = normal(2, 2), normal(2, 2)
    y, slope = (t.numpy() for t in dawdle.onnx.load(gradient_model(), device="NUMPY")(w, x))
    bent = np.tanh(w @ x + 1)
    np.testing.assert_allclose(y, bent * w, rtol=1e-5)
    np.testing.assert_allclose(slope, bent + (w * (1 - bent**2)) @ x.T, rtol=1e-4)


def test_gradient_through_many_steps() -> None:
    """Long recurrences replay one step, but not where gradients are wanted."""
    weights = {"w": normal(1, 12, 2), "r": normal(1, 12, 12) / 5}
    nodes = [
        helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=12),
        helper.make_node("Gradient", ["x"], ["slope"], domain=TRAINING, xs=["x"], y="y"),
    ]
    port = helper.make_tensor_value_info("x", TensorProto.FLOAT, [20, 1, 2])
    results = [helper.make_empty_tensor_value_info(n) for n in ("y", "slope")]
    constants = [numpy_helper.from_array(v, n) for n, v in weights.items()]
    graph = helper.make_graph(nodes, "g", [port], results, constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(TRAINING, 1)]
    source = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    model = dawdle.onnx.load(source, device="NUMPY")
    x, direction = normal(20, 1, 2), normal(20, 1, 2)
    slope = model(x)["slope"].numpy()
    sums = [model(x + step * direction)["y"].numpy().astype(np.float64).sum() for step in (-0.01, 0.01)]
    assert (slope * direction).sum() == pytest.approx((sums[1] - sums[0]) / 0.02, rel=1e-2)


# ---- mistakes


def ints(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.int64)


def weights(gates: int) -> list[Any]:
    """Two steps of a layer of 4 units."""
    return [normal(2, 1, 3), normal(1, gates * 4, 3), normal(1, gates * 4, 4)]


X, IMAGE = normal(1, 1, 4), normal(1, 1, 2, 2)
MISTAKES = [
    (Row("RNN", weights(1), {"hidden_size": 4, "activations": ["Cosh"]}), "unknown activation 'cosh'"),
    (Row("RNN", weights(1), {"hidden_size": 5}), "don't fit each other, or 5 units of 1 gates"),
    (Row("LSTM", weights(3), {"hidden_size": 4}, 3), "4 units of 4 gates"),
    (
        Row("DequantizeLinear", [np.zeros((4, 5), np.uint8), np.ones(3, np.float32)], {"axis": 1}),
        "fits neither axis 1",
    ),
    (Row("Resize", [IMAGE], opset=13), "neither scales nor sizes"),
    (Row("Resize", [IMAGE, None, np.float32([1, 2])]), "4 scales of at least 0 are needed"),
    (Row("Resize", [IMAGE, None, np.float32([1, 1, np.nan, 1])]), "4 scales of at least 0 are needed"),
    (Row("Conv", [X, normal(1, 1, 2)], {"kernel_shape": [3]}), "kernel .* don't fit"),
    (Row("Conv", [X, normal(1, 1, 2)], {"pads": [1]}), "1 pads for 1 axes"),
    (Row("Conv", [X, normal(1, 1, 2)], {"auto_pad": "SAME"}), "auto_pad is 'SAME'"),
    (Row("Pad", [X, ints(1, 1)]), "2 pads for 3 axes"),
    (Row("Slice", [X, ints(0, 1), ints(2)]), "as many starts, ends"),
    (Row("Split", [X, ints(1, 3)], {"axis": 2}, 3), "splits into 2 parts, but has 3 outputs"),
    (Row("Expand", [X, ints(3)]), r"\(1, 1, 4\) doesn't broadcast to \(3,\)"),
    (Row("Tile", [X, ints(2)]), "1 repeats for the 3 dimensions"),
    (
        Row("ReverseSequence", [normal(2, 2), ints(1, 1)], {"batch_axis": 0, "time_axis": 0}),
        "must be 0 and 1",
    ),
    (Row("OneHot", [ints(1), ints(3), normal(3)]), "two values, got 3 and values of shape"),
    (Row("EyeLike", [X]), "takes a matrix, got shape"),
    (Row("Range", [ints(1, 2), ints(3), ints(1)]), "takes three numbers"),
    (Row("Range", [np.float32(0), np.float32(np.inf), np.float32(1)]), "there is no end"),
    (Row("GroupNormalization", [normal(2, 3, 4), normal(3), normal(3)], {"num_groups": 2}), "into 2 groups"),
    (Row("NonMaxSuppression", [normal(1, 2, 3), normal(1, 1, 2)]), "takes boxes"),
    (Row("DFT", [normal(1, 4, 1), None, np.array(9)]), "axis 9 is out of range"),
    (Row("CenterCropPad", [normal(3, 3), ints(1)]), "don't fit axes"),
    (Row("Add", [normal(2), ints(1, 2)]), "of one dtype, got 'x0' float32, 'x1' int64"),
    (Row("RoiAlign", [IMAGE, normal(1, 4), ints(7)]), "batch_indices: index 7 is out of range"),
    (Row("GridSample", [IMAGE, normal(1, 2, 2, 3)]), "has no places in an input"),
    (Row("ImageDecoder", [np.zeros(9, np.uint8)]), "cannot identify image file|needs Pillow"),
    (Row("HannWindow", [np.array(2**60)]), r"can't be computed of int64 \(\): "),
    (Row("ConstantOfShape", [ints(2**40, 2**40)]), "NUMPY: a value takes|more elements than 64-bit"),
    (Row("ConstantOfShape", [ints(2**44)]), "NUMPY: a value takes"),
]


@pytest.mark.parametrize("row, words", MISTAKES, ids=[f"{i}-{row.op}" for i, (row, _) in enumerate(MISTAKES)])
def test_mistakes(row: Row, words: str) -> None:
    """The error names the node once, and says what is wrong."""
    with pytest.raises(DawdleError, match=words) as caught:
        row.run()
    assert str(caught.value).count(row.op) == 1 or "takes" in words
