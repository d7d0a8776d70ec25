"""GGUF files."""

from __future__ import annotations

import builtins
import contextlib
import importlib
import random
import struct

import numpy as np
import pytest

import dawdle
from dawdle import nn
from dawdle.errors import StateError


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def contents(tensors=(), metadata=b"", pairs=0, version=3, counts=None):
    """A file whose tensors are (name, dims, type, bytes)."""
    head = b"GGUF" + struct.pack("<I2Q", version, *(counts or (len(tensors), pairs))) + metadata
    data = b""
    for name, dims, kind, raw in tensors:
        head += (
            text(name)
            + struct.pack(f"<I{len(dims)}Q", len(dims), *dims)
            + struct.pack("<IQ", kind, len(data))
        )
        data += raw + bytes(-len(raw) % 32)
    return head + bytes(-len(head) % 32) + data


SMALL = contents(
    [
        ("a", (3, 2), 0, np.arange(6, dtype=np.float32).tobytes()),
        ("b", (2,), 30, np.array([0x3FC0, 0xC000], np.uint16).tobytes()),
        ("c", (1,), 27, np.array([-7]).tobytes()),
    ],
    text("general.name") + struct.pack("<I", 8) + text("small") + text("n") + struct.pack("<2I", 4, 9),
    2,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model"


@pytest.fixture
def gguf():
    return pytest.importorskip("gguf")


def write(path, content):
    path.write_bytes(content)
    return path


def test_plain_types_need_no_package(path, monkeypatch):
    monkeypatch.setattr(importlib, "import_module", lambda name: pytest.fail(f"{name} is imported"))
    loaded = nn.load(write(path, SMALL))
    assert loaded["a"].tolist() == [[0, 1, 2], [3, 4, 5]] and loaded["a"].dtype is dawdle.float32
    assert loaded["b"].dtype is dawdle.bfloat16 and loaded["b"].tolist() == [1.5, -2]
    assert loaded["c"].tolist() == [-7]
    assert nn.load_metadata(path) == {"general.name": "small", "n": 9}


def test_what_the_package_writes(gguf, path):
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(path, "llama")
    values = {
        "x.count": (writer.add_uint32, 3), "x.scale": (writer.add_float32, 0.5),
        "x.yes": (writer.add_bool, True),
        "x.words": (writer.add_array, ["a", "bé"]), "x.numbers": (writer.add_array, [1, -2, 3]),
        "x.big": (writer.add_uint64, 1 << 60), "x.name": (writer.add_string, "tiny"),
    }  # fmt: skip
    for key, (add, value) in values.items():
        add(key, value)
    arrays = {
        "f32": rng.normal(size=(4, 8)).astype(np.float32), "f16": rng.normal(size=(3, 5)).astype(np.float16),
        "f64": rng.normal(size=3), "i8": np.arange(-3, 3, dtype=np.int8), "i32": np.arange(6, dtype=np.int32),
    }  # fmt: skip
    for name, array in arrays.items():
        writer.add_tensor(name, array)
    weights = rng.normal(size=(6, 512)).astype(np.float32)
    kinds = ["Q4_0", "Q8_0", "Q5_1", "BF16"]
    for name in kinds:
        kind = gguf.GGMLQuantizationType[name]
        writer.add_tensor(name, gguf.quants.quantize(weights, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    metadata = nn.load_metadata(path)
    assert {key: metadata[key] for key in values} == {key: value for key, (_, value) in values.items()}
    assert metadata["general.architecture"] == "llama"
    loaded = nn.load(path)
    assert set(loaded) == {*arrays, *kinds}
    for name, array in arrays.items():
        assert loaded[name].dtype.name == array.dtype.name
        np.testing.assert_array_equal(loaded[name].numpy(), array)
    theirs = {t.name: t for t in gguf.GGUFReader(path).tensors}
    for name in kinds:
        expected = gguf.quants.dequantize(theirs[name].data, theirs[name].tensor_type)
        assert loaded[name].shape == (6, 512)
        np.testing.assert_array_equal(loaded[name].numpy(), expected)
    assert loaded["BF16"].dtype is dawdle.bfloat16 and loaded["Q4_0"].dtype is dawdle.float32
    product = loaded["Q8_0"] @ loaded["Q8_0"].T
    np.testing.assert_allclose(product.numpy(), weights @ weights.T, rtol=0.05, atol=2)


def every_kind():
    try:
        import gguf
    except ImportError:
        return []
    return [k for k in gguf.GGMLQuantizationType if k.name.startswith(("Q", "IQ", "TQ"))]


@pytest.mark.parametrize("kind", every_kind(), ids=lambda k: k.name)
def test_every_quantised_type_agrees_with_the_package(kind, gguf, path):
    block, nbytes = gguf.GGML_QUANT_SIZES[kind]
    raw = np.random.default_rng(1).integers(0, 256, (2, 3 * nbytes), np.uint8)
    write(path, contents([("w", (3 * block, 2), int(kind), raw.tobytes())]))
    try:
        with np.errstate(all="ignore"):
            expected = gguf.quants.dequantize(raw, kind)
    except NotImplementedError:
        with pytest.raises(StateError, match="doesn't know"):
            nn.load(path)
        return
    np.testing.assert_array_equal(nn.load(path)["w"].numpy(), expected)


def test_the_message_without_the_package(path, monkeypatch):
    real = builtins.__import__

    def refuse(name, *arguments):
        if name.split(".")[0] == "gguf":
            raise ImportError(name)
        return real(name, *arguments)

    write(path, contents([("w", (32,), 2, bytes(18))]))
    monkeypatch.setattr(importlib, "import_module", lambda name: refuse(name))
    with pytest.raises(StateError, match=r"pip install 'dawdle\[gguf\]'"):
        nn.load(path)


@pytest.mark.parametrize("content, words", [
    (contents(version=1), "version 1"), (contents(version=3 << 24), "big-endian"),
    (contents(counts=(1 << 60, 0)), "number of tensors"),
    (contents(counts=(0, 1 << 60)), "number of metadata"),
    (contents(metadata=text("k") + struct.pack("<2IQ", 9, 0, 1 << 60), pairs=1), "length of k"),
    (contents(metadata=text("k") + struct.pack("<2IQ", 9, 8, 1 << 60), pairs=1), "length of k"),
    (contents(metadata=text("k") + struct.pack("<IQ", 8, 1 << 63), pairs=1), "length of k"),
    (contents(metadata=struct.pack("<Q", 1 << 50) + bytes(64), pairs=1), "length of a key"),
    (contents(metadata=text("k") + struct.pack("<2IQ", 9, 9, 0), pairs=1), "array of arrays"),
    (contents(metadata=text("k") + struct.pack("<IQ", 77, 0), pairs=1), "unknown type 77"),
    (contents(metadata=text("k") + struct.pack("<IQ", 8, 2) + b"\xff\xfe", pairs=1), "UTF-8"),
    (contents(metadata=text("general.alignment") + struct.pack("<2I", 4, 0), pairs=1), "alignment"),
    (contents([("t", (1 << 40, 1 << 40), 0, bytes(4))]), "'t'|t takes"),
    (contents([("t", (2,) * 9, 0, bytes(4))]), "9 dimensions"),
    (contents([("t", (64,), 0, bytes(4))]), "truncated|t takes"),
    (contents([("t", (0, 1 << 63), 0, b"")]), "shape"),
])  # fmt: skip
def test_damaged_headers(path, content, words):
    with pytest.raises(StateError, match=words):
        nn.load(write(path, content))


def test_damaged_quantised_tensors(gguf, path):
    for tensor, words in (
        (("t", (31,), 2, bytes(18)), "not a multiple of 32"),
        (("t", (64, 1 << 30), 2, bytes(36)), "truncated"),
        (("t", (32,), 9999, bytes(18)), "type 9999"),
        (("t", (0, 1 << 63), 2, b""), "shape"),
    ):
        with pytest.raises(StateError, match=words):
            nn.load(write(path, contents([tensor])))


def test_truncated_and_damaged_files_never_crash(path):
    data = SMALL.rstrip(b"\0")
    for size in range(4, len(data) - 1):
        with pytest.raises(StateError):
            nn.load(write(path, SMALL[:size]))
    rng = random.Random(5)
    for _ in range(500):
        broken = bytearray(SMALL)
        for _ in range(rng.randint(1, 3)):
            broken[rng.randrange(4, len(broken))] = rng.randrange(256)
        with contextlib.suppress(StateError):
            nn.load(write(path, broken))
