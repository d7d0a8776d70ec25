"""Operators with options that onnx's suite has no case of, held to onnxruntime on random inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from nodes import Row

onnxruntime = pytest.importorskip("onnxruntime")

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(7)


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def bytes_(*shape: int, dtype: Any = np.uint8) -> Array:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def check(row: Row) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(row.model(), options, providers=["CPUExecutionProvider"])
    want = session.run(None, row.given())
    for ours, theirs in zip(row.run(), want, strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-5)


# ---- windows

POOLS = [
    {"kernel_shape": [3]},
    {"kernel_shape": [3], "strides": [2], "pads": [1, 0]},
    {"kernel_shape": [2], "dilations": [3], "ceil_mode": 1, "strides": [3]},
    {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 2, 1]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [2, 4], "strides": [2, 3], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "VALID"},
    {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    {"kernel_shape": [2, 2, 3], "strides": [1, 2, 2], "pads": [0, 1, 1, 0, 0, 1]},
]
SIZES = {1: (2, 3, 11), 2: (2, 3, 10, 9), 3: (1, 2, 5, 6, 7)}


def pooled(attributes: dict[str, Any]) -> Array:
    return normal(*SIZES[len(attributes["kernel_shape"])])


WINDOWS = [
    *[Row("MaxPool", [pooled(a)], a) for a in POOLS],
    *[Row("MaxPool", [pooled(a)], a, outputs=2) for a in POOLS],
    *[Row("MaxPool", [pooled(a)], {**a, "storage_order": 1}, outputs=2) for a in POOLS[3:5]],
    Row("MaxPool", [bytes_(1, 2, 8, 8, dtype=np.int8)], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    *[Row("AveragePool", [pooled(a)], a) for a in POOLS if "dilations" not in a],
    *[Row("AveragePool", [pooled(a)], {**a, "count_include_pad": 1}) for a in POOLS[1:4]],
    *[Row("LpPool", [pooled(a)], {**a, "p": 3}) for a in POOLS if "ceil_mode" not in a],
    Row("GlobalLpPool", [normal(2, 3, 4, 5)], {"p": 1}, opset=21),
    Row("GlobalMaxPool", [normal(2, 3, 4)]),
    Row("LRN", [normal(2, 7, 3, 3)], {"size": 5, "alpha": 0.3, "beta": 0.6, "bias": 1.5}),
    Row(
        "MaxRoiPool",
        [normal(2, 3, 12, 16), np.array([[0, 1, 2, 9, 11], [1, 0, 0, 15, 7], [1, 5, 5, 5, 5]], np.float32)],
        {"pooled_shape": [3, 2], "spatial_scale": 0.9},
        opset=21,
    ),
]

CONVOLUTIONS = [
    Row(
        "Conv", [normal(2, 4, 9), normal(6, 2, 3), normal(6)], {"group": 2, "dilations": [2], "pads": [2, 1]}
    ),
    Row("Conv", [normal(1, 2, 7, 8), normal(3, 2, 3, 2)], {"auto_pad": "SAME_UPPER", "strides": [2, 3]}),
    Row("Conv", [normal(1, 2, 7, 8), normal(3, 2, 3, 2)], {"auto_pad": "SAME_LOWER", "strides": [2, 3]}),
    Row("Conv", [normal(1, 2, 5, 6, 4), normal(2, 1, 2, 3, 2)], {"group": 2, "pads": [1, 0, 1, 0, 1, 0]}),
    Row("ConvTranspose", [normal(2, 4, 7), normal(4, 3, 3), normal(6)], {"group": 2, "strides": [3]}),
    Row(
        "ConvTranspose",
        [normal(1, 2, 4, 5), normal(2, 3, 3, 3)],
        {"strides": [2, 3], "output_padding": [1, 2]},
    ),
    Row(
        "ConvTranspose", [normal(1, 2, 4, 5), normal(2, 3, 3, 2)], {"dilations": [2, 3], "pads": [1, 0, 2, 1]}
    ),
    Row(
        "ConvTranspose",
        [normal(1, 2, 4, 5), normal(2, 3, 3, 3)],
        {"strides": [2, 2], "output_shape": [9, 10]},
    ),
    Row(
        "ConvTranspose",
        [normal(1, 2, 4, 5), normal(2, 3, 3, 3)],
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    ),
    Row("ConvTranspose", [normal(1, 2, 3, 4, 3), normal(2, 2, 2, 3, 2)], {"strides": [2, 1, 2]}),
]

# ---- images

COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"]
MODES = [
    {"mode": "nearest", "nearest_mode": "floor"},
    {"mode": "nearest", "nearest_mode": "round_prefer_ceil"},
    {"mode": "linear"},
    {"mode": "cubic", "cubic_coeff_a": -0.5},
    {"mode": "cubic", "exclude_outside": 1},
]


def sizes(*n: int) -> Array:
    return np.array(n, np.int64)


def scales(*s: float) -> Array:
    return np.array(s, np.float32)


RESIZES = [
    Row("Resize", [normal(1, 2, 6, 7), None, None, wanted], {**mode, "coordinate_transformation_mode": how})
    for how in COORDINATES
    for mode in MODES
    for wanted in (sizes(1, 2, 9, 5), sizes(1, 2, 3, 14))
] + [
    Row("Resize", [normal(1, 2, 6, 7), None, scales(1, 1, 2, 0.5)], {"mode": "linear"}),
    Row(
        "Resize",
        [normal(1, 2, 9, 9), None, scales(1, 1, 1 / 3, 3)],
        {"coordinate_transformation_mode": "asymmetric"},
    ),
    Row("Resize", [normal(1, 2, 9, 8), None, None, sizes(1, 2, 4, 3)], {"mode": "linear", "antialias": 1}),
    Row("Resize", [normal(1, 2, 9, 8), None, None, sizes(1, 2, 4, 3)], {"mode": "cubic", "antialias": 1}),
    Row("Resize", [bytes_(1, 2, 6, 7), None, None, sizes(1, 2, 12, 14)], {"mode": "nearest"}),
    Row(
        "Resize",
        [normal(1, 2, 6, 7), scales(0, 0, 0.2, 0.1, 1, 1, 0.7, 1.2), None, sizes(1, 2, 5, 8)],
        {
            "mode": "linear",
            "coordinate_transformation_mode": "tf_crop_and_resize",
            "extrapolation_value": 3.0,
        },
    ),
    Row("Upsample", [normal(1, 2, 3, 4), scales(1, 1, 2, 3)], {"mode": "nearest"}, opset=9),
    Row("Upsample", [normal(1, 2, 3, 4), scales(1, 1, 2, 3)], {"mode": "linear"}, opset=9),
    Row("Resize", [normal(1, 2, 6, 4), scales(1, 1, 0.5, 3)], {"mode": "nearest"}, opset=10),
]
ROIS = np.array([[0.6, 1.2, 9.3, 8.8], [2.0, 0.0, 15.5, 11.0], [-1.0, 3.0, 4.0, 20.0]], np.float32)
ALIGN = {"output_height": 3, "output_width": 2}
SAMPLES = [
    Row("RoiAlign", [normal(2, 3, 12, 16), ROIS, sizes(0, 1, 1)], {**ALIGN, **a}, opset=21)
    for a in (
        {},
        {"sampling_ratio": 2, "spatial_scale": 0.5},
        {"coordinate_transformation_mode": "output_half_pixel"},
    )
] + [
    Row(
        "GridSample",
        [normal(2, 2, 3, 4, 5), RNG.uniform(-1.3, 1.3, (2, 2, 3, 4, 3)).astype(np.float32)],
        {"mode": mode, "padding_mode": padding, "align_corners": corners},
    )
    for mode in ("linear", "nearest")
    for padding in ("zeros", "border", "reflection")
    for corners in (0, 1)
]

# ---- recurrent layers


def recurrent(op: str, gates: int, times: int = 5, **options: Any) -> Row:
    """A layer over a batch of 3 with 4 inputs and 5 units. Not all options are attributes."""
    n = 2 if options.get("direction") == "bidirectional" else 1
    lengths = np.array([times, 2, max(times - 1, 1)], np.int32) if options.pop("lengths", False) else None
    initial = options.pop("initial", False)
    peepholes = normal(n, 15) if options.pop("peepholes", False) else None
    bias = normal(n, 2 * gates * 5) if options.pop("bias", True) else None
    inputs = [normal(times, 3, 4), normal(n, gates * 5, 4) / 2, normal(n, gates * 5, 5) / 2, bias, lengths]
    inputs.append(normal(n, 3, 5) if initial else None)
    if op == "LSTM":
        inputs += [normal(n, 3, 5) if initial else None, peepholes]
    return Row(op, inputs, {"hidden_size": 5, **options}, outputs=3 if op == "LSTM" else 2, opset=14)


VARIANTS: list[dict[str, Any]] = [
    {},
    {"direction": "reverse", "lengths": True},
    {"direction": "bidirectional", "lengths": True, "initial": True},
    {"clip": 0.3, "bias": False},
    {"times": 1, "initial": True},
    {"times": 20, "direction": "bidirectional", "lengths": True},
]
LAYERS = [
    *[recurrent("RNN", 1, **v) for v in VARIANTS],
    *[recurrent("GRU", 3, **v) for v in VARIANTS],
    *[recurrent("GRU", 3, linear_before_reset=1, **v) for v in VARIANTS],
    *[recurrent("LSTM", 4, **v) for v in VARIANTS],
    *[recurrent("LSTM", 4, peepholes=True, **v) for v in VARIANTS],
    recurrent("LSTM", 4, input_forget=1, peepholes=True),
    recurrent("RNN", 1, activations=["Affine"], activation_alpha=[0.5], activation_beta=[0.1]),
    recurrent("RNN", 1, activations=["Relu", "Softsign"], direction="bidirectional"),
    recurrent(
        "GRU",
        3,
        activations=["HardSigmoid", "ScaledTanh"],
        activation_alpha=[0.3, 0.9],
        activation_beta=[0.4, 1.1],
    ),
    recurrent("LSTM", 4, activations=["Sigmoid", "LeakyRelu", "Elu"], activation_alpha=[0.2, 0.7]),
    recurrent("LSTM", 4, activations=["Sigmoid", "ThresholdedRelu", "Softplus"], activation_alpha=[0.2]),
]

# ---- quantization


def number(value: float, dtype: Any = np.float32) -> Array:
    return np.array(value, dtype)


SMALL = bytes_(3, 2, 3, 3, dtype=np.int8) // 2  # onnxruntime's sums of products of larger ones saturate
QUANTIZED = [
    Row(
        "ConvInteger",
        [bytes_(1, 2, 6, 5), bytes_(3, 2, 3, 3), number(7, np.uint8), number(3, np.uint8)],
        {"pads": [1, 1, 0, 1]},
    ),
    Row("MatMulInteger", [bytes_(4, 5), bytes_(5, 3), number(9, np.uint8), bytes_(3)]),
    Row(
        "QLinearConv",
        [
            bytes_(1, 2, 6, 5),
            number(0.02),
            number(128, np.uint8),
            SMALL,
            scales(0.01, 0.02, 0.03),
            np.zeros(3, np.int8),
            number(0.4),
            number(100, np.uint8),
            np.array([50, -20, 900], np.int32),
        ],
        {"strides": [2, 1]},
    ),
    Row(
        "QLinearMatMul",
        [
            bytes_(4, 5),
            number(0.02),
            number(128, np.uint8),
            bytes_(5, 3),
            number(0.03),
            number(120, np.uint8),
            number(0.1),
            number(100, np.uint8),
        ],
    ),
    Row(
        "QuantizeLinear",
        [normal(3, 4, 2) * 50, scales(0.3, 0.5, 0.7, 0.9), bytes_(4, dtype=np.int8)],
        {"axis": 1},
    ),
    Row("DequantizeLinear", [bytes_(3, 4, 2), scales(0.3, 0.5), bytes_(2)], {"axis": -1}),
    Row("DequantizeLinear", [bytes_(4, 5), normal(2, 5), bytes_(2, 5)], {"axis": 0, "block_size": 2}),
    Row("DynamicQuantizeLinear", [normal(4, 5) * 10], outputs=3, opset=11),
]

OTHERS = [
    Row("LayerNormalization", [normal(2, 3).astype(np.float64), np.ones(3)], outputs=3, opset=17),
    Row("Hardmax", [normal(0, 3)]),
    Row("Clip", [np.float32([-np.inf, 2, np.inf])], opset=8),
    Row("HannWindow", [number(0, np.int64)], opset=17),
    Row("BlackmanWindow", [number(1, np.int64)], {"periodic": 0}, opset=17),
    Row("Pad", [normal(2, 1, 3), sizes(0, 4, 7, 5, 0, 1)], {"mode": "wrap"}),
    Row("Pad", [normal(2, 4), sizes(-1, 6, 9, -2)], {"mode": "wrap"}),
    Row("Resize", [normal(1, 2, 1, 4), None, np.float32([1, 1, 0.5, 0.5])]),
    Row(
        "RoiAlign",
        [normal(1, 2, 4, 4), np.float32([[2, 1, 9, 3], [9, 9, 12, 12]]), np.zeros(2, np.int64)],
        {"mode": "max", "output_height": 2, "output_width": 3, "sampling_ratio": 1},
        opset=16,
    ),
    Row("Softmax", [normal(2, 3, 4)], {"axis": 1}, opset=11),
    Row("LogSoftmax", [normal(2, 3, 4)], {"axis": -1}, opset=11),
    Row("Hardmax", [normal(2, 3, 4)], {"axis": 1}, opset=11),
    Row(
        "Gemm",
        [normal(3, 4), normal(5, 3), normal(4, 1)],
        {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0},
    ),
    Row("Einsum", [normal(2, 3, 4), normal(2, 4, 5)], {"equation": "b i j , b j k -> b k i"}),
    Row(
        "BatchNormalization",
        [normal(2, 3, 4), normal(3), normal(3), normal(3), abs(normal(3))],
        {"epsilon": 0.1},
    ),
    Row(
        "NonMaxSuppression",
        [
            RNG.uniform(0, 1, (2, 30, 4)).astype(np.float32),
            RNG.uniform(0, 1, (2, 3, 30)).astype(np.float32),
            sizes(6),
            number(0.4),
            number(0.3),
        ],
        {"center_point_box": 1},
    ),
    Row(
        "STFT",
        [normal(2, 40, 1), number(5, np.int64), normal(16), number(16, np.int64)],
        {"onesided": 1},
        opset=17,
    ),
    Row("MeanVarianceNormalization", [normal(2, 3, 4, 5)]),
    Row("LpNormalization", [normal(2, 3, 4)], {"axis": 1, "p": 1}),
]

ROWS = [*WINDOWS, *CONVOLUTIONS, *RESIZES, *SAMPLES, *LAYERS, *QUANTIZED, *OTHERS]


@pytest.mark.parametrize("row", ROWS, ids=[f"{i}-{row}"[:110] for i, row in enumerate(ROWS)])
def test_operator(row: Row) -> None:
    check(row)
