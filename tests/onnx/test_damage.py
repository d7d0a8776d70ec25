"""Damaged files: whatever is wrong with one, the error is dawdle's own."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from models import linear, made, port
from onnx import TensorProto, helper, numpy_helper

import dawdle.onnx
from dawdle.errors import DawdleError, ModelError

WHOLE = linear(np.random.default_rng(0))[0].SerializeToString()
TELLING = [i for i in range(len(WHOLE)) if i < 200 or i > len(WHOLE) - 300]  # bytes that aren't weights
X = np.ones((1, 300), np.float32)


def damaged(seed: int) -> bytes:
    """The file with some bytes changed; a third of them cut off."""
    rng = np.random.default_rng(seed)
    data = bytearray(WHOLE)
    for at in rng.choice(TELLING, rng.integers(1, 4)):
        data[at] = rng.integers(256)
    return bytes(data[: rng.integers(len(data))] if seed % 3 == 0 else data)


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_damaged_files(first):
    refused = 0
    for seed in range(first, first + 100):
        try:
            dawdle.onnx.load(damaged(seed), device="NUMPY")(X)
        except DawdleError:
            refused += 1
    assert 40 < refused < 100  # changed weights or names go unnoticed


# ---- structures that aren't as they should be


def mutated(seed: int) -> onnx.ModelProto:
    """A model in which something in one node is another thing."""
    rng = np.random.default_rng(seed)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1]),
        helper.make_node("MaxPool", ["a"], ["b"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Resize", ["b", "", "scales"], ["c"], mode="linear"),
        helper.make_node("Transpose", ["c"], ["d"], perm=[0, 2, 3, 1]),
        helper.make_node("Slice", ["d", "starts", "ends", "axes"], ["e"]),
        helper.make_node("ReduceMean", ["e", "axes"], ["f"], keepdims=1),
        helper.make_node("Split", ["f"], ["g", "h"], axis=2, num_outputs=2),
        helper.make_node("Concat", ["g", "h"], ["y"], axis=1),
    ]
    constants = {
        "w": rng.normal(size=(2, 1, 3, 3)).astype(np.float32), "scales": np.float32([1, 1, 2, 1]),
        "starts": np.array([1, 0]), "ends": np.array([3, 9]), "axes": np.array([1, 3]),
    }  # fmt: skip
    model = made(nodes, [port("x", shape=[1, 1, 4, 4])], [port("y", shape=None)], constants)
    numbers = [-(2**63), -3, -1, 0, 1, 2, 7, 2**31, 2**63 - 1]
    for _ in range(rng.integers(1, 3)):
        node = model.graph.node[rng.integers(len(nodes))]
        if rng.random() < 0.3:
            tensor = model.graph.initializer[rng.integers(1, len(constants))]
            array = numpy_helper.to_array(tensor).copy()
            array[rng.integers(len(array))] = rng.choice(numbers)
            tensor.CopyFrom(numpy_helper.from_array(array[: rng.integers(1, len(array) + 1)], tensor.name))
        elif node.attribute and rng.random() < 0.7:
            attribute = node.attribute[rng.integers(len(node.attribute))]
            attribute.i = rng.choice(numbers)
            if attribute.ints:
                attribute.ints[rng.integers(len(attribute.ints))] = rng.choice(numbers)
        else:
            node.input[rng.integers(len(node.input))] = rng.choice(["x", "w", "axes", "a", ""])
    return model


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_models_in_which_something_is_wrong(first: int) -> None:
    refused = 0
    for seed in range(first, first + 100):
        try:
            dawdle.onnx.load(mutated(seed), device="NUMPY")(np.ones((1, 1, 4, 4), np.float32))
        except DawdleError:
            refused += 1
    assert 40 < refused < 95


# ---- weights


def weighty(folder: Path, location: str, changed: dict[str, Any], **entries: str) -> dawdle.onnx.Model:
    """A model whose weights are said to lie in another file."""
    proto, _ = linear(np.random.default_rng(0))
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    for name, value in changed.items():
        del getattr(tensor, name)[:]
        getattr(tensor, name).extend(value)
    inside = folder / "inside"
    inside.mkdir()
    (inside / "model.onnx").write_bytes(proto.SerializeToString())
    (inside / "w.bin").write_bytes(bytes(300 * 40 * 4))
    (inside / "short.bin").write_bytes(bytes(100))
    (folder / "secret").write_bytes(bytes(300 * 40 * 4))
    os.symlink(folder / "secret", inside / "link")
    os.symlink("circle", inside / "circle")
    os.mkfifo(inside / "pipe")
    return dawdle.onnx.load(inside / "model.onnx", device="NUMPY")


OUTSIDE, MISSING, NUMBER = "outside of its folder", "which is missing", "no numbers of bytes"
PLACES: list[tuple[str, dict[str, str], str]] = [
    ("../secret", {}, OUTSIDE),
    ("../../../../../../etc/passwd", {}, OUTSIDE),
    ("/etc/passwd", {}, OUTSIDE),
    ("link", {}, OUTSIDE),
    ("circle", {}, "are said to lie in 'circle'|" + MISSING),
    ("pipe", {}, MISSING),
    ("nowhere.bin", {}, MISSING),
    ("w.bin\0", {}, "are said to lie in"),
    ("w" * 5000, {}, "are said to lie in"),
    ("short.bin", {}, "takes 48000 bytes, but has 100"),
    ("w.bin", {"offset": "4"}, "takes 48000 bytes, but has 47996"),
    ("w.bin", {"offset": "4", "length": "48000"}, "takes bytes 4 to 48004 of a file of 48000"),
    ("w.bin", {"offset": "48004"}, "it is cut off"),
    ("w.bin", {"offset": "-4"}, NUMBER),
    ("w.bin", {"offset": "x"}, NUMBER),
    ("w.bin", {"length": ""}, NUMBER),
    ("w.bin", {"offset": "9" * 5000}, NUMBER),
]


@pytest.mark.parametrize("place, entries, words", PLACES, ids=[f"{p[0]!r:.20}-{p[1]!s:.20}" for p in PLACES])
def test_external_data(place: str, entries: dict[str, str], words: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=words):
        weighty(tmp_path, place, {}, **entries)


@pytest.mark.parametrize("dims", [[-300, -40], [-1, 40], [2**40, 2**40], [2**63 - 1], [41]])
@pytest.mark.parametrize("external", [False, True])
def test_shapes_that_the_data_does_not_fill(dims: list[int], external: bool, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"tensor 'w' .*(bytes, but has|impossible shape)"):
        if external:
            weighty(tmp_path, "w.bin", {"dims": dims})
        proto, _ = linear(np.random.default_rng(0))
        del proto.graph.initializer[0].dims[:]
        proto.graph.initializer[0].dims.extend(dims)
        dawdle.onnx.load(proto, device="NUMPY")


def test_files_that_become_shorter(tmp_path: Path) -> None:
    model = weighty(tmp_path, "w.bin", {})
    os.truncate(tmp_path / "inside" / "w.bin", 100)
    with pytest.raises(ModelError, match=r"it is cut off|has 100"):
        model(X)


@pytest.mark.parametrize("places", [[9], [-1], [[1, 5]], [[0, 0, 0]], [0, 1]])
def test_sparse_weights(places: list[Any]) -> None:
    values = numpy_helper.from_array(np.float32([1]), "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array(places), "i"), [2, 2])
    proto = made([helper.make_node("Identity", ["w"], ["y"])], [], [port("y", shape=None)])
    proto.graph.sparse_initializer.append(sparse)
    with pytest.raises(ModelError, match=r"sparse tensor 'w' .* is malformed"):
        dawdle.onnx.load(proto, device="NUMPY")()


@pytest.mark.parametrize("source", ["a\0b", "x" * 5000, os.devnull])
def test_no_files(source: str) -> None:
    with pytest.raises(ModelError, match="there is no model at"):
        dawdle.onnx.load(source)
