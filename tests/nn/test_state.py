"""Saving and loading."""

import contextlib
import json
import os

import numpy as np
import pytest

from dawdle import Tensor, dtype, nn
from dawdle.errors import StateError
from dawdle.runtime.device import get_device


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "state.safetensors"
    nn.save({"a": Tensor([1.0, 2.0]), "b": Tensor([[3, 4]])}, path)
    return path


@pytest.mark.parametrize("kind", dtype.ALL, ids=lambda d: d.name)
def test_every_dtype_and_shape_comes_back(kind, tmp_path):
    values = [[0, 1, 1], [1, 0, 1]] if kind.is_bool else [[0, 1, 5], [100, 3, 7]]
    state = {
        "matrix": Tensor(values, dtype=kind),
        "scalar": Tensor(1, dtype=kind),
        "empty": Tensor(np.zeros((0, 3)), dtype=kind),
    }
    nn.save(state, tmp_path / "x")
    loaded = nn.load(tmp_path / "x")
    assert set(loaded) == set(state)
    for name, tensor in state.items():
        assert loaded[name].dtype is kind and loaded[name].shape == tensor.shape
        np.testing.assert_array_equal(loaded[name].numpy(), tensor.numpy())


def test_special_values_are_kept_bit_for_bit(tmp_path):
    values = np.array([-0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38], np.float32)
    nn.save({"x": Tensor(values), "h": Tensor(values[:4], dtype="bfloat16")}, tmp_path / "x")
    loaded = nn.load(tmp_path / "x")
    np.testing.assert_array_equal(loaded["x"].numpy().view(np.uint32), values.view(np.uint32))
    np.testing.assert_array_equal(np.signbit(loaded["h"].numpy()), np.signbit(values[:4]))
    np.testing.assert_array_equal(loaded["h"].numpy(), values[:4])


def test_nested_structures(tmp_path):
    state = {
        "model": {"fc.weight": Tensor([1.0]), "fc.bias": Tensor([2.0])},
        "model.fc": {"weight": Tensor([3.0])},  # its dotted name is taken
        "list": [{"m": Tensor([4.0])}, {}, [1, 2.5, "text", None, True]],
        "epoch": 3,
    }
    nn.save(state, tmp_path / "x")
    loaded = nn.load(tmp_path / "x")
    assert loaded["epoch"] == 3 and loaded["list"][1:] == [{}, [1, 2.5, "text", None, True]]
    assert loaded["model"]["fc.weight"].item() == 1 and loaded["model.fc"]["weight"].item() == 3
    assert loaded["list"][0]["m"].item() == 4


def test_modules_and_metadata(tmp_path):
    model = nn.Linear(3, 2)
    nn.save(model, tmp_path / "x", metadata={"made by": "a test"})
    assert nn.load_metadata(tmp_path / "x") == {"made by": "a test"}
    other = nn.Linear(3, 2)
    other.load_state_dict(nn.load(tmp_path / "x"))
    np.testing.assert_array_equal(other.weight.numpy(), model.weight.numpy())


def test_loaded_values_outlive_the_file(saved):
    loaded = nn.load(saved)
    nn.save({"a": Tensor([9.0, 9.0]), "b": Tensor([[9, 9]])}, saved)
    os.unlink(saved)
    assert loaded["a"].tolist() == [1, 2]
    assert (loaded["a"] + 1).tolist() == [2, 3]


def test_layout_is_that_of_the_format(saved):
    content = saved.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    assert length % 8 == 0
    assert header["b"] == {"dtype": "I64", "shape": [1, 2], "data_offsets": [0, 16]}
    assert header["a"] == {"dtype": "F32", "shape": [2], "data_offsets": [16, 24]}
    assert content[8 + length :] == np.array([3, 4]).tobytes() + np.array([1, 2], np.float32).tobytes()


def test_reads_what_the_reference_writes(tmp_path):
    reference = pytest.importorskip("safetensors.numpy")
    reference.save_file({"x": np.arange(6, dtype=np.int16).reshape(2, 3)}, tmp_path / "x")
    np.testing.assert_array_equal(nn.load(tmp_path / "x")["x"].numpy(), np.arange(6).reshape(2, 3))
    nn.save({"y": Tensor([1.5])}, tmp_path / "y")
    np.testing.assert_array_equal(reference.load_file(tmp_path / "y")["y"], [1.5])


@pytest.mark.parametrize("size", [0, 5, 8, 40, -9, -1])
def test_truncated_files(saved, size):
    saved.write_bytes(saved.read_bytes()[:size])
    with pytest.raises(StateError, match="truncated"):
        nn.load(saved)


def test_a_flipped_bit_is_noticed(saved):
    content = bytearray(saved.read_bytes())
    content[-1] ^= 1
    saved.write_bytes(content)
    with pytest.raises(StateError, match="checksum"):
        nn.load(saved)
    assert nn.load(saved, verify=False)["b"].tolist() == [[3, 4]]


def test_a_file_that_was_read_may_be_changed(saved):
    loaded = nn.load(saved, mmap=False)
    with saved.open("r+b") as file:
        file.write(bytes(saved.stat().st_size))
    assert loaded["a"].tolist() == [1, 2] and loaded["b"].tolist() == [[3, 4]]


def offsets(name, start, end):
    return lambda header: header[name].update(data_offsets=[start, end])


@pytest.mark.parametrize(
    "change, message",
    [
        (offsets("a", 0, 8), "within 'a'|within 'b'"),
        (offsets("a", 8, 16), "'a' starts at byte 8, within 'b', which ends at 16"),
        (offsets("a", 20, 28), "starts at byte"),
        (offsets("a", 16, 20), "takes 4 bytes"),
        (offsets("a", -8, 0), "natural"),
        (lambda h: h.update(z={"dtype": "F32", "shape": [0, 1 << 63], "data_offsets": [24, 24]}), "shape"),
        (lambda h: h["a"].update(shape=[3]), "takes 8 bytes"),
        (lambda h: h["a"].update(dtype="F8_E4M3"), "F8_E4M3"),
        (lambda h: h["a"].update(dtype=["F32"]), "is not among"),
        (lambda h: h["a"].pop("shape"), "lacks"),
        (lambda h: h.pop("a"), "follow the last"),
        (lambda h: h.update(__metadata__=[1]), "not a map of strings"),
    ],
)
def test_damaged_headers(saved, change, message):
    content = saved.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__")
    change(header)
    text = json.dumps(header).encode()
    saved.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])
    with pytest.raises(StateError, match=message):
        nn.load(saved)


def test_not_a_state_file(tmp_path):
    (tmp_path / "text").write_bytes(b"this is not a state file at all")
    with pytest.raises(StateError, match="not a safetensors file"):
        nn.load(tmp_path / "text")
    (tmp_path / "json").write_bytes((4).to_bytes(8, "little") + b"{{{{")
    with pytest.raises(StateError, match="not JSON"):
        nn.load(tmp_path / "json")
    (tmp_path / "list").write_bytes((2).to_bytes(8, "little") + b"[]")
    with pytest.raises(StateError, match="not a JSON object"):
        nn.load(tmp_path / "list")
    with pytest.raises(StateError, match="can't read"):
        nn.load(tmp_path / "missing")


def test_a_failed_save_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StateError, match="No space left"):
        nn.save({"a": Tensor([5.0])}, saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


@pytest.mark.parametrize("state", [{"a": object()}, {1: Tensor([1.0])}, {"a": {"$tensor": "x"}}])
def test_what_cannot_be_saved(state, tmp_path):
    with pytest.raises(StateError, match="can't save"):
        nn.save(state, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def edit(path, change):
    """Change a file's header."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])


@pytest.mark.parametrize(
    "tree", ["{", '{"a": {"$tensor": "lost"}}', '{"a": {"$tensor": [1]}}', "[" * 100_000]
)
def test_damaged_structures(saved, tree):
    edit(saved, lambda header: header["__metadata__"].update({"dawdle.tree": tree}))
    with pytest.raises(StateError, match="its structure"):
        nn.load(saved)


def test_bytes_are_read_when_they_are_used(tmp_path):
    path = tmp_path / "x"
    nn.save({"a": Tensor([1.0, 2.0]), "h": Tensor([1.0, 2.0], dtype="bfloat16")}, path)
    loaded = nn.load(path, verify=False)
    content = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(len(content) - 12)
        file.write(np.array([5, 6], np.float32).tobytes() + np.array([0x40E0, 0x4100], np.uint16).tobytes())
    assert loaded["a"].tolist() == [5, 6] and loaded["h"].tolist() == [7, 8]


def test_tensors_lie_in_the_mapped_file(saved, device):
    loaded = nn.load(saved)
    if get_device(device).host_memory:
        first, second = (np.asarray(loaded[name]).ctypes.data for name in "ba")
        assert second - first == 16


def test_unaligned_tensors(tmp_path):
    header = {
        "b": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
        "f": {"dtype": "F32", "shape": [2], "data_offsets": [1, 9]},
        "h": {"dtype": "BF16", "shape": [], "data_offsets": [9, 11]},
    }
    text = json.dumps(header).encode()
    data = b"\x07" + np.array([1.5, 2.5], np.float32).tobytes() + np.uint16(0x3FC0).tobytes()
    (tmp_path / "x").write_bytes(len(text).to_bytes(8, "little") + text + data)
    loaded = nn.load(tmp_path / "x")
    assert loaded["b"].tolist() == [7] and (loaded["f"] * 2).tolist() == [3, 5] and loaded["h"].item() == 1.5


def test_other_devices(saved):
    loaded = nn.load(saved, device="NUMPY")
    assert loaded["a"].device == "NUMPY" and loaded["a"].is_leaf
    assert loaded["a"].requires_grad_().requires_grad


def test_damaged_files_never_crash(saved):
    content = saved.read_bytes()
    rng = np.random.default_rng(3)
    for _ in range(300):
        broken = np.frombuffer(content, np.uint8).copy()
        broken[rng.integers(0, len(broken), 3)] = rng.integers(0, 256, 3)
        saved.write_bytes(broken.tobytes())
        with contextlib.suppress(StateError):
            nn.load(saved, verify=False)


def test_missing_files_and_folders(tmp_path):
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(StateError, match="can't read"):
            nn.load(path)
