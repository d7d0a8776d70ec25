"""Files of torch.save, read without PyTorch."""

from __future__ import annotations

import collections
import io
import os
import pickle
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest

import dawdle
from dawdle import Tensor, dtype, nn
from dawdle.errors import StateError
from dawdle.formats.pickles import Cursor, Refused, read_pickle

FIXTURES = Path(__file__).parent / "files"  # written by tools/make_torch_fixtures.py
LEGACY = pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.anything"


def saved(torch, value, path, zipped=True):
    torch.save(value, path, _use_new_zipfile_serialization=zipped)
    return path


def check(loaded, tensor):
    assert isinstance(loaded, Tensor) and loaded.dtype.name == str(tensor.dtype).removeprefix("torch.")
    assert loaded.shape == tuple(tensor.shape)
    assert loaded.tolist() == tensor.tolist()


# ---- what is read


@LEGACY
@pytest.mark.parametrize("kind", dtype.ALL, ids=lambda d: d.name)
def test_every_dtype(torch, path, kind, zipped):
    theirs = torch.tensor([[1, 0, 1], [0, 1, 1]]).to(getattr(torch, kind.name))
    check(nn.load(saved(torch, {"x": theirs}, path, zipped))["x"], theirs)


@LEGACY
def test_layouts(torch, path, zipped):
    base = torch.arange(24.0, dtype=torch.bfloat16).reshape(2, 3, 4)
    views = {
        "base": base, "transposed": base.transpose(0, 2), "offset": base[1:, 1:, ::2], "row": base[1, 2],
        "expanded": base[:, :1, :1].expand(2, 5, 7), "scalar": torch.tensor(2.5), "empty": torch.zeros(0, 3),
        "channels last": torch.arange(48.0).reshape(2, 2, 3, 4).contiguous(memory_format=torch.channels_last),
        "flat": base.flatten()[5:9],
    }  # fmt: skip
    loaded = nn.load(saved(torch, views, path, zipped))
    assert list(loaded) == list(views)
    for name, theirs in views.items():
        check(loaded[name], theirs)


@LEGACY
def test_modules_optimizers_and_plain_data(torch, path, zipped):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    state = {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3,
        "names": ["a", ("b", None)], "flags": {True, False}, "size": torch.Size([2, 3]), "raw": b"bytes",
        "dtype": torch.float16, "device": torch.device("cpu"), "loss": np.float64(0.5), "step": np.int32(7),
        "frozen": frozenset({"x"}), "z": 1 + 2j,
        "big": 1 << 100, "counts": collections.OrderedDict([(1, 2.5)]), "cuda": torch.device("cuda", 1),
    }  # fmt: skip
    loaded = nn.load(saved(torch, state, path, zipped))
    for name, theirs in state["model"].items():
        check(loaded["model"][name], theirs)
    check(loaded["optimizer"]["state"][0]["exp_avg"], state["optimizer"]["state"][0]["exp_avg"])
    assert loaded["optimizer"]["param_groups"][0]["lr"] == 1e-2 and loaded["epoch"] == 3
    assert (
        loaded["names"] == ["a", ("b", None)]
        and loaded["flags"] == {True, False}
        and loaded["size"] == (2, 3)
    )
    assert loaded["dtype"] is dawdle.float16 and (loaded["device"], loaded["cuda"]) == ("cpu", "cuda:1")
    assert (loaded["loss"], loaded["step"], loaded["raw"]) == (0.5, 7, b"bytes")
    assert (loaded["frozen"], loaded["z"], loaded["big"]) == (frozenset({"x"}), 1 + 2j, 1 << 100)
    assert loaded["counts"] == {1: 2.5}
    ours = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    ours.load_state_dict(loaded["model"])
    np.testing.assert_array_equal(ours[0].weight.numpy(), model[0].weight.detach().numpy())


@LEGACY
def test_shared_tensors_and_parameters(torch, path, zipped):
    weight = torch.nn.Parameter(torch.ones(2, 2))
    attributed = torch.ones(2)
    attributed.note = "lost"
    views = {"tied": weight, "again": weight, "part": weight.detach()[1], "frozen": attributed}
    loaded = nn.load(saved(torch, views, path, zipped))
    assert loaded["tied"] is loaded["again"] and loaded["tied"].requires_grad
    assert loaded["tied"].tolist() == [[1, 1], [1, 1]] and loaded["part"].tolist() == [1, 1]
    assert not loaded["part"].requires_grad and loaded["frozen"].tolist() == [1, 1]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_protocols(torch, path, protocol):
    value = {
        "x": torch.arange(3),
        "long text": "é" * 300,
        "raw": bytes(300),
        "numbers": list(range(-300, 300, 50)),
    }
    torch.save(value, path, pickle_protocol=protocol)
    loaded = nn.load(path)
    assert loaded.pop("x").tolist() == [0, 1, 2]
    value.pop("x")
    assert loaded == value


def test_a_tensor_alone_and_other_devices(torch, path):
    check(nn.load(saved(torch, torch.arange(4), path)), torch.arange(4))
    assert nn.load(path, device="NUMPY").device == "NUMPY"
    assert nn.load(path, mmap=False).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["zip.pt", "legacy.pt"])
def test_committed_files(name):
    loaded = nn.load(FIXTURES / name)
    assert loaded["weight"].tolist() == [[0, 1, 2], [3, 4, 5]] and loaded["weight"].dtype is dawdle.float32
    assert loaded["transposed"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert loaded["half"].dtype is dawdle.bfloat16 and loaded["half"].tolist() == [1.5, -2]
    assert loaded["step"].tolist() == 7 and loaded["epoch"] == 3
    assert nn.load_metadata(FIXTURES / name) == {}


def test_bytes_are_read_when_they_are_used(tmp_path):
    """With verify=False: an archive whose storage is exchanged after loading shows the new bytes."""
    path = tmp_path / "x"
    path.write_bytes((FIXTURES / "zip.pt").read_bytes())
    loaded = nn.load(path, verify=False)
    content = path.read_bytes()
    at = content.index(np.arange(6, dtype=np.float32).tobytes())
    with path.open("r+b") as file:
        file.seek(at)
        file.write(np.full(6, 9, np.float32).tobytes())
    assert loaded["weight"].tolist() == [[9] * 3] * 2


# ---- what is refused


class Evil:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def archive(path, pickled, **members):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x/data.pkl", pickled)
        for name, content in members.items():
            file.writestr(f"x/data/{name.removeprefix('_')}", content)
    return path


ran = []


@pytest.mark.parametrize("value, name", [
    (Evil(os.system, "true"), r"(posix|nt)\.system"),
    (Evil(ran.append, 1), r"getattr"),
    (Evil(eval, "1"), r"builtins\.eval"),
    (Evil(exec, "1"), r"builtins\.exec"),
    ({"x": [Evil(io.open, "/etc/passwd")]}, r"io\.open|_io\.open"),
    (Evil(collections.defaultdict, list), r"collections\.defaultdict"),
    (np.ones(2), "_reconstruct"),
    (Path("x"), "pathlib"),
])  # fmt: skip
@pytest.mark.parametrize("protocol", [2, 4])
def test_other_names_are_refused_by_name(path, value, name, protocol):
    archive(path, pickle.dumps(value, protocol).replace(b"__builtin__", b"builtins"))
    with pytest.raises(StateError, match=name):
        nn.load(path)
    assert not ran


def test_modules_and_unsupported_tensors_are_refused(torch, path):
    with pytest.raises(StateError, match=r"torch\.nn\.modules\.linear\.Linear"):
        nn.load(saved(torch, torch.nn.Linear(1, 1), path))
    with pytest.raises(StateError, match="_rebuild_sparse_tensor"):
        nn.load(saved(torch, torch.eye(2).to_sparse(), path))
    with pytest.raises(StateError, match="ComplexFloatStorage"):
        nn.load(saved(torch, torch.ones(2, dtype=torch.complex64), path))


@pytest.mark.parametrize("program, words", [
    (b"cos\nsystem\n(S'true'\ntR.", "os.system"),
    (b"(S'true'\nios\nsystem\n.", "INST"),
    (b"(cos\nsystem\nS'true'\no.", "os.system|OBJ"),
    (b"\x82\x01.", "EXT1"),
    (b"Pname\n.", "PERSID"),
    (b"ctorch._utils\n_rebuild_tensor_v2\n}b.", "takes no state"),
    (b"ccollections\nOrderedDict\n}S'x'\nNsb.", "takes no state"),
    (b"ccollections\nOrderedDict.dict\n.", "OrderedDict.dict"),
    (b"NN\x85R.", "no function"),
    (b"ctorch\nfloat32\n)R.", "no function"),
    (b"(lp0\n}I1\ns.", "no dict"),
    (b"NS'x'\nNs.", "no dict"),
    (b"NNa.", "neither a list nor a set"),
    (b"}" + b")" + b"\x85" * 100_000 + b"Ns.", "not plain"),
    (b"N" * 10 + b".", "too many values"),
    (b"h\x05.", "KeyError"),
    (b"0.", "operands"),
    (b"1.", "IndexError"),
    (b"N", "ValueError"),
    (b"", "ValueError"),
    (b"I" + b"9" * 10_000 + b"\n.", "ValueError"),
    (b"\x8a\xff.", "ValueError"),
    (b"\x8e" + b"\xff" * 8 + b".", "ValueError"),
    (b"cbuiltins\nset\n(]N\x85\x85atR.", "not plain"),
    (b"c_codecs\nencode\nS'x'\nS'rot13'\n\x86R.", "rot13"),
    (b"cnumpy\ndtype\nS'O8'\n\x85R.", "NumPy scalar"),
    (b"S'x'\nQ.", "persistent id"),
])  # fmt: skip
def test_malicious_programs(path, program, words):
    archive(path, program)
    with pytest.raises(StateError, match=words):
        nn.load(path)


def test_nothing_known_is_changed_by_a_pickle(path):
    """State for a function or class, by which Python's unpickler would change it for everyone, is refused."""
    archive(path, b"ctorch\nSize\n}S'call'\nNsb.")
    with pytest.raises(StateError):
        nn.load(path)


@pytest.mark.parametrize("size, stride, offset, words", [
    ((2, 3), (3, 1), 1, "exceeds its storage"), ((5,), (2,), 0, "exceeds"), ((3, 4), (1, 1), 0, "exceeds"),
    ((6,), (-1,), 5, "stride"), ((-1,), (1,), 0, "size"), ((6,), (1,), -1, "offset"),
    ((6,), (1, 1), 0, "stride"), ((0, 1 << 63), (1, 1), 0, "dimension"),
    ((1 << 62, 1 << 62), (1, 1), 0, "exceeds"), ((2.0,), (1,), 0, "size"), ((6,), (1,), 1 << 70, "exceeds"),
])  # fmt: skip
def test_tensors_outside_of_their_storage(path, size, stride, offset, words):
    class Rebuild:
        def __reduce__(self):
            return ordered, (Pid(), offset, size, stride, False, None)

    class Pid:
        pass

    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            return ("storage", np.float32, "0", "cpu", 6) if isinstance(value, Pid) else None

    def ordered():
        pass

    ordered.__module__, ordered.__qualname__ = __name__, "ordered"
    globals()["ordered"] = ordered
    out = io.BytesIO()
    Pickler(out, 2).dump(Rebuild())
    program = out.getvalue()
    program = program.replace(f"c{__name__}\nordered\n".encode(), b"ctorch._utils\n_rebuild_tensor_v2\n")
    program = program.replace(b"cnumpy\nfloat32\n", b"ctorch\nFloatStorage\n")
    archive(path, program, _0=np.arange(6, dtype=np.float32).tobytes())
    with pytest.raises(StateError, match=words):
        nn.load(path)


def test_archives_that_are_none_of_pytorchs(path, tmp_path):
    np.savez(tmp_path / "x.npz", a=np.ones(2))
    with pytest.raises(StateError, match=r"not one of PyTorch's"):
        nn.load(tmp_path / "x.npz")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x/data.pkl", b"N.")
    with pytest.raises(StateError, match="compressed"):
        nn.load(path)


def test_checksums(path):
    content = bytearray((FIXTURES / "zip.pt").read_bytes())
    content[content.index(np.arange(6, dtype=np.float32).tobytes()) + 4] ^= 1
    path.write_bytes(content)
    with pytest.raises(StateError, match="checksum of data/0"):
        nn.load(path)
    assert nn.load(path, verify=False)["weight"][0, 0].item() == 0


@pytest.mark.parametrize("name", ["zip.pt", "legacy.pt"])
def test_truncated_files(path, name):
    content = (FIXTURES / name).read_bytes()
    for size in range(0, len(content) - 1, 7):
        path.write_bytes(content[:size])
        with pytest.raises(StateError):
            nn.load(path)


@pytest.mark.parametrize("name", ["zip.pt", "legacy.pt"])
def test_damaged_files_never_crash(path, name):
    """Each either loads, as the damage may lie in a value, or says what is wrong."""
    content = (FIXTURES / name).read_bytes()
    rng = random.Random(4)
    refused = 0
    for _ in range(300):
        broken = bytearray(content)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        path.write_bytes(broken)
        try:
            nn.load(path, verify=False)
        except StateError:
            refused += 1
    assert refused > 20


def test_the_reader_of_pickles_alone():
    def read(value, names=None):
        return read_pickle(Cursor(memoryview(pickle.dumps(value))), names or {}, lambda pid: pid)

    value = {"a": [1, 2.5, None, True, "text", b"raw", (1, (2,), ()), {3}, frozenset({4}), -(1 << 80)], 5: {}}
    assert read(value) == value
    cycle = []
    cycle.append(cycle)
    again = read(cycle)
    assert again[0] is again
    with pytest.raises(Refused, match=r"decimal\.Decimal"):
        from decimal import Decimal

        read(Decimal(1))
