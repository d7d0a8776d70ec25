"""Sharing memory and numbers with NumPy, PyTorch, JAX and Python."""

from __future__ import annotations

import copy
import math
import operator

import numpy as np
import pytest
from devices import WORKING

import dawdle
from dawdle import Tensor, dtype
from dawdle.errors import DTypeError, InterchangeError, RangeError, ShapeError
from dawdle.runtime.device import get_device
from dawdle.tensor import dlpack

VERSION_1 = pytest.mark.skipif(not dlpack.VERSIONED, reason="NumPy before 2.1 doesn't know DLPack 1.0")


@pytest.fixture
def host_memory(device):
    if not get_device(device).host_memory:
        pytest.skip("the device's memory is not the host's")


class Exporter:
    """An object that exports an array, as another library might; it notes what it was asked for."""

    def __init__(self, array, device=(1, 0), old=False):
        self.array, self.device, self.old, self.asked = array, device, old, []

    def __dlpack__(self, **options):
        self.asked.append(dict(options))
        if self.old and set(options) - {"stream"}:
            raise TypeError("unexpected keyword")
        options.pop("dl_device", None)
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device


def address(x):
    return np.asarray(x).ctypes.data


# ---- DLPack, out


@VERSION_1
@pytest.mark.parametrize("kind", [d for d in dtype.ALL if d is not dtype.bfloat16], ids=lambda d: d.name)
def test_numpy_imports_without_a_copy_what_it_may_not_write_to(kind, host_memory):
    x = Tensor([[1, 0, 1], [0, 1, 1]], dtype=kind)
    shared = np.from_dlpack(x)
    assert shared.dtype == kind.storage and shared.shape == (2, 3)
    np.testing.assert_array_equal(shared, x.numpy())
    assert address(x) == shared.ctypes.data and not shared.flags.writeable


@pytest.mark.parametrize(
    "make", [lambda: Tensor(2.5), lambda: Tensor.zeros(0, 3), lambda: Tensor.ones(3) + 1]
)
def test_all_shapes_are_exported(make):
    x = make()
    np.testing.assert_array_equal(np.from_dlpack(x), x.numpy())
    np.testing.assert_array_equal(np.from_dlpack(Exporter(x.numpy())), x.numpy())
    assert x.__dlpack_device__() == (1, 0)


@pytest.mark.parametrize("options", [{}, {"stream": None}, {"max_version": (0, 8)}])
def test_importers_before_version_1_get_a_copy(options):
    x = Tensor([1.0, 2.0])
    capsule = x.__dlpack__(**options)
    assert '"dltensor"' in repr(capsule)
    y = Tensor.from_dlpack(capsule)
    assert y.tolist() == [1, 2]
    assert address(y) != address(x) or not get_device(x.device).host_memory
    with pytest.raises(InterchangeError, match=r"before 1\.0"):
        x.__dlpack__(copy=False, **options)


@VERSION_1
def test_versions_and_copies(host_memory):
    x = Tensor([1.0, 2.0])
    capsule = x.__dlpack__(max_version=(1, 1))
    assert '"dltensor_versioned"' in repr(capsule)
    assert address(Tensor.from_dlpack(capsule)) == address(x)
    assert address(Tensor.from_dlpack(x.__dlpack__(max_version=(2, 0), copy=False))) == address(x)
    own = np.from_dlpack(x, copy=True)
    own[0] = 9
    assert x.tolist() == [1, 2] and own.ctypes.data != address(x)
    assert np.from_dlpack(x, copy=False).ctypes.data == address(x)


def test_other_devices_are_refused():
    with pytest.raises(BufferError, match="on the host"):
        Tensor([1.0]).__dlpack__(dl_device=(2, 0))
    assert Tensor([1.0]).__dlpack__(dl_device=(1, 0)) is not None


def test_exported_memory_outlives_the_tensor():
    x = Tensor(np.arange(1000.0)) * 2
    shared = np.from_dlpack(x)
    del x
    for _ in range(3):
        (Tensor.ones(1000, dtype="float64") * 7).realize()
    np.testing.assert_array_equal(shared, np.arange(1000.0) * 2)


def test_an_exported_value_stays_when_the_handle_is_rebound():
    x = Tensor([1.0, 2.0])
    shared = np.from_dlpack(x)
    x += 1
    x[0] = 7
    assert x.tolist() == [7, 3] and shared.tolist() == [1, 2]


# ---- DLPack, in


@pytest.mark.parametrize("old", [False, True], ids=["version 1", "old"])
def test_imported_memory_is_shared(old, host_memory):
    source = np.arange(3.0)
    x = Tensor.from_dlpack(Exporter(source, old=old))
    assert x.dtype is dtype.float64 and x.device == dawdle.Tensor([1]).device
    assert address(x) == source.ctypes.data
    before = x + 1
    assert before.tolist() == [1, 2, 3]


def test_a_copy_is_independent():
    source = np.arange(3.0)
    x, y = Tensor.from_dlpack(source, copy=True), Tensor.from_dlpack(Exporter(source, old=True), copy=True)
    z = Tensor(Exporter(source))
    source[:] = 9
    assert x.tolist() == y.tolist() == z.tolist() == [0, 1, 2]


@VERSION_1
def test_no_copy_means_no_copy(host_memory):
    source = np.arange(12.0).reshape(3, 4)
    assert address(Tensor.from_dlpack(source, copy=False)) == source.ctypes.data
    for other in (source.T, source[:, ::2], source[::-1]):
        x = Tensor.from_dlpack(Exporter(other))
        np.testing.assert_array_equal(x.numpy(), other)
        with pytest.raises(InterchangeError, match="without a copy"):
            Tensor.from_dlpack(Exporter(other), copy=False)


def test_strides_offsets_and_broadcasts_are_read():
    source = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    for other in (source[1:, :, 1:3], source.transpose(2, 0, 1), np.broadcast_to(source[0, 0], (5, 4))):
        other = other if other.flags.writeable else other.copy()
        np.testing.assert_array_equal(Tensor.from_dlpack(Exporter(other, old=True)).numpy(), other)


def test_the_exporter_is_released_with_the_tensor(host_memory):
    released = []

    class Noisy(np.ndarray):
        def __del__(self):
            released.append(True)

    source = np.arange(64.0).view(Noisy)
    x = Tensor.from_dlpack(Exporter(source))
    y = (x * 2).tolist()
    del source
    assert not released and y[:2] == [0, 2]
    del x
    assert released


def test_a_capsule_is_used_up():
    capsule = np.arange(3.0).__dlpack__()
    assert Tensor.from_dlpack(capsule).tolist() == [0, 1, 2]
    with pytest.raises(InterchangeError, match="only once"):
        Tensor.from_dlpack(capsule)


def test_memory_elsewhere_is_asked_for_on_the_host():
    source = Exporter(np.arange(3.0), device=(2, 0))
    assert Tensor.from_dlpack(source).tolist() == [0, 1, 2]
    assert source.asked[0]["dl_device"] == (1, 0)
    with pytest.raises(InterchangeError, match="move it to the CPU"):
        Tensor.from_dlpack(Exporter(np.arange(3.0), device=(2, 0), old=True))


def test_what_cannot_be_imported():
    with pytest.raises(DTypeError, match="complex"):
        Tensor.from_dlpack(Exporter(np.ones(2, complex)))
    with pytest.raises(DTypeError, match="lacks __dlpack__"):
        Tensor.from_dlpack([1.0])

    class Broken(Exporter):
        def __dlpack__(self, **options):
            raise BufferError("it is on fire")

    with pytest.raises(InterchangeError, match="on fire"):
        Tensor.from_dlpack(Broken(np.ones(2)))
    with pytest.raises(InterchangeError, match="not a DLPack capsule"):
        Tensor.from_dlpack(Exporter(type("Odd", (), {"__dlpack__": lambda self, **_: 3})()))


# ---- DLPack with PyTorch and JAX


@VERSION_1
@pytest.mark.parametrize("kind", dtype.ALL, ids=lambda d: d.name)
def test_torch_both_ways_without_a_copy(kind, host_memory):
    torch = pytest.importorskip("torch")
    theirs = torch.tensor([[1, 0], [0, 1], [1, 1]]).to(getattr(torch, kind.name))
    x = Tensor.from_dlpack(theirs)
    assert x.dtype is kind and x.shape == (3, 2) and x.tolist() == theirs.tolist()
    back = torch.from_dlpack(x)
    assert back.dtype == theirs.dtype and back.data_ptr() == theirs.data_ptr()
    assert Tensor.from_dlpack(torch.utils.dlpack.to_dlpack(theirs)).tolist() == theirs.tolist()
    copied = Tensor(theirs)
    theirs.zero_()
    assert copied.dtype is kind and copied.tolist() == [[1, 0], [0, 1], [1, 1]]


def test_torch_strides_and_gradients():
    torch = pytest.importorskip("torch")
    theirs = torch.arange(12.0, dtype=torch.bfloat16).reshape(3, 4)
    for view in (theirs.T, theirs[1:, ::2], theirs[:, :1].expand(3, 4)):
        assert Tensor.from_dlpack(view).tolist() == view.tolist()
    with pytest.raises(InterchangeError, match="detach"):
        Tensor.from_dlpack(torch.ones(2, requires_grad=True))
    with pytest.raises(DTypeError, match="8 bits"):
        Tensor.from_dlpack(torch.ones(2).to(torch.float8_e5m2))


def test_torch_keeps_the_memory(host_memory):
    torch = pytest.importorskip("torch")
    theirs = torch.from_dlpack(Tensor(np.arange(1000.0)) + 1)
    (Tensor.ones(1000, dtype="float64") * 7).realize()
    assert theirs[:3].tolist() == [1, 2, 3]


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int8", "bool", "float16", "uint32"])
def test_jax_both_ways(kind):
    jax = pytest.importorskip("jax")
    theirs = jax.numpy.asarray([[1, 0], [0, 1]]).astype(kind)
    x = Tensor.from_dlpack(theirs)
    assert x.dtype.name == kind and x.tolist() == theirs.tolist()
    back = jax.dlpack.from_dlpack(x + x if kind != "bool" else x)
    assert back.dtype == theirs.dtype and (back == theirs + theirs).all()
    assert Tensor(theirs).tolist() == theirs.tolist()


# ---- NumPy


def test_asarray_reads_and_array_copies(host_memory):
    x = Tensor([[1.0, 2.0], [3.0, 4.0]]) + 1
    shared = np.asarray(x)
    np.testing.assert_array_equal(shared, [[2, 3], [4, 5]])
    assert not shared.flags.writeable and address(x) == shared.ctypes.data
    for own in (np.array(x), x.numpy(), x.__array__(copy=True), x.__array__(np.float64, copy=True)):
        own[0, 0] = 9
    assert x[0, 0].item() == 2
    assert np.asarray(x, dtype=np.float64).dtype == np.float64


def test_asarray_never_copies_when_told_not_to(host_memory):
    x = Tensor([1.0, 2.0])
    assert x.__array__(copy=False).ctypes.data == address(x)
    for needs_one in (
        lambda: x.__array__(np.float64, copy=False),
        lambda: x.bfloat16().__array__(copy=False),
    ):
        with pytest.raises(ValueError, match="needs a copy"):
            needs_one()
    assert np.asarray(x.bfloat16()).dtype == np.float32


def test_numpy_on_the_left_of_an_operator_gives_a_tensor():
    x, a = Tensor([1.0, 2.0]), np.array([3.0, 5.0], np.float32)
    for result, expected in (
        (a + x, [4, 7]),
        (a - x, [2, 3]),
        (a * x, [3, 10]),
        (a / x, [3, 2.5]),
        (a // x, [3, 2]),
        (a % x, [0, 1]),
        (a**x, [3, 25]),
        (a @ x, 13),
        (a > x, [True, True]),
        (a == x, [False, False]),
        (a <= x, [False, False]),
        (np.float32(2) * x, [2, 4]),
        (np.float64(2) ** x, [2, 4]),
        (np.array(1.0, np.float32) - x, [0, -1]),
        (np.int64(3) - x, [2, 1]),
        (x + np.array(1), [2, 3]),
        (np.bool_(True) + x, [2, 3]),
    ):
        assert type(result) is Tensor
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)
    bits = Tensor([1, 2])
    for result, expected in (
        (np.array([3, 3]) & bits, [1, 2]),
        (np.array([4, 4]) | bits, [5, 6]),
        (np.array([1, 1]) ^ bits, [0, 3]),
        (np.array([1, 1]) << bits, [2, 4]),
        (np.array([8, 8]) >> bits, [4, 2]),
        (np.int64(6) & bits, [0, 2]),
    ):
        assert type(result) is Tensor and result.tolist() == expected


def test_numpy_scalars_are_numbers_and_arrays_promote():
    x = Tensor([1.0])
    assert (x + np.float64(1)).dtype is dtype.float32 and (np.float64(1) + x).dtype is dtype.float32
    assert (x + np.ones(1)).dtype is dtype.float64 and (np.array(1.0) + x).dtype is dtype.float64


def test_gradients_flow_through_operators_with_arrays():
    x = Tensor([1.0, 2.0], requires_grad=True)
    (np.array([3.0, 4.0], np.float32) * x).sum().backward()
    assert x.grad.tolist() == [3, 4]


def test_an_array_takes_a_tensor_in_place():
    a = np.ones(2)
    a += Tensor([1.0, 2.0])
    assert a.tolist() == [2, 3]
    a[:] = Tensor([5.0, 6.0])
    assert a.tolist() == [5, 6]


@pytest.mark.parametrize(
    "function, expected",
    [
        (np.sum, 6.0),
        (np.mean, 2.0),
        (np.exp, np.exp([1, 2, 3])),
        (np.shape, (3,)),
        (np.size, 3),
        (np.argmax, 2),
        (lambda x: np.concatenate([x, x[:1]]), [1, 2, 3, 1]),
        (lambda x: np.stack((x, x)), [[1, 2, 3]] * 2),
        (lambda x: np.transpose(x), [1, 2, 3]),
        (lambda x: np.where(x > 1, x, 0), [0, 2, 3]),
        (lambda x: np.allclose(x, [1, 2, 3]), True),
        (lambda x: np.clip(x, a_min=Tensor(2.0), a_max=None), [2, 2, 3]),
    ],
)
def test_functions_of_numpy_convert(function, expected):
    result = function(Tensor([1.0, 2.0, 3.0]))
    assert not isinstance(result, Tensor)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_arrays_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.array([1.5, -0.0, np.inf], ml_dtypes.bfloat16)
    for x in (Tensor(array), Tensor.from_numpy(array), Tensor([1.5, -0.0, np.inf], dtype=ml_dtypes.bfloat16)):
        assert x.dtype is dtype.bfloat16 and x.tolist() == [1.5, 0, np.inf]
    assert math.copysign(1, Tensor(array)[1].item()) == -1
    with pytest.raises(DTypeError, match="float8_e5m2"):
        Tensor(array.astype(ml_dtypes.float8_e5m2))


def test_unaligned_memory_is_copied():
    raw = np.zeros(17, np.uint8)
    raw[1:9] = np.frombuffer(np.array([1.5, 2.5], np.float32).tobytes(), np.uint8)
    unaligned = raw[1:9].view(np.float32)
    assert not unaligned.flags.aligned
    assert (Tensor.from_numpy(unaligned) * 2).tolist() == [3, 5]


# ---- buffers


def test_buffers(host_memory):
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    memory = x.__buffer__(0)
    assert memory.readonly and memory.format == "f" and memory.tolist() == [[1, 2], [3, 4]]
    assert np.asarray(memory).ctypes.data == address(x)
    assert Tensor([True]).__buffer__(0).format == "?" and Tensor(3).__buffer__(0).shape == ()
    with pytest.raises(BufferError, match="read-only"):
        x.__buffer__(1)
    with pytest.raises(BufferError, match="bfloat16"):
        x.bfloat16().__buffer__(0)


# ---- numbers and containers


def test_numbers():
    assert complex(Tensor(2.5)) == 2.5 and type(complex(Tensor([1]))) is complex
    assert math.floor(Tensor(2.5)) == 2 and math.isnan(Tensor(math.nan)) and math.sqrt(Tensor(4.0)) == 2
    assert hex(Tensor(255)) == "0xff" and list(range(Tensor(2))) == [0, 1] and "ab"[Tensor(True) + 0] == "b"
    assert round(Tensor(2.567), 1).item() == pytest.approx(2.6)
    assert (
        f"{Tensor([3.14159]):.2f}" == "3.14"
        and f"{Tensor(7):03d}" == "007"
        and f"{Tensor(1.0)}" == str(Tensor(1.0))
    )
    with pytest.raises(ShapeError, match="shape"):
        f"{Tensor([1.0, 2.0]):.2f}"
    with pytest.raises(ShapeError, match="shape"):
        complex(Tensor([1, 2]))
    with pytest.raises(RangeError, match="range"):
        Tensor([1 << 70])
    with pytest.raises(RangeError, match="range"):
        Tensor(1 << 70)


def test_hash_is_identity():
    x, y = Tensor([1.0]), Tensor([1.0])
    assert len({x, y, x}) == 2 and {x: "x"}[x] == "x"


def test_rows_share_memory_and_pass_gradients_on():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    rows = list(x)
    assert [r.tolist() for r in rows] == [[1, 2], [3, 4]]
    (rows[0].sum() * 2 + (rows[1] * rows[1]).sum()).backward()
    assert x.grad.tolist() == [[2, 2], [6, 8]]
    y = x * 3
    total = sum((row.sum() for row in y), Tensor(0.0))
    x.grad = None
    total.backward()
    assert x.grad.tolist() == [[3, 3], [3, 3]]


def test_iteration_compiles_nothing_for_each_element(monkeypatch):
    from dawdle.runtime import executor

    x = Tensor(np.arange(50.0), requires_grad=True).realize()
    compiled = []
    monkeypatch.setattr(executor, "compile_graph", lambda *_: compiled.append(1))
    assert [v.item() for v in x] == list(range(50)) and "Tensor(" in repr(x) and str(x.detach())
    assert not compiled


def test_copies_share_the_value(host_memory):
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = copy.copy(x)
    assert y is not x and y.is_leaf and y.requires_grad and address(y) == address(x)
    y.sum().backward()
    assert x.grad is None and y.grad.tolist() == [1, 1]
    z = copy.copy(x * 2)
    z.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_subclasses_are_copied_and_pickled_with_their_attributes():
    class Named(Tensor):
        pass

    globals()["Named"] = Named
    Named.__qualname__ = "Named"
    x = Named([1.0])
    x.names = ["a"]
    shallow, deep = copy.copy(x), copy.deepcopy(x)
    assert type(shallow) is type(deep) is Named
    assert shallow.names is x.names and deep.names == ["a"] and deep.names is not x.names


def test_size_is_numpys_attribute_and_pytorchs_method():
    x = Tensor.zeros(2, 3)
    assert x.size == 6 and x.size() == (2, 3) and x.size(1) == x.size(-1) == 3 and x.size // 2 == 3
    assert Tensor(1).size == 1 and Tensor(1).size() == () and repr(x.size) == "6"
    assert copy.copy(x.size)(0) == 2
    with pytest.raises(ShapeError, match="dim 2"):
        x.size(2)


def test_to_device():
    x = Tensor([1.0])
    assert x.to_device("NUMPY").device == "NUMPY" and x.to_device(x.device).tolist() == [1]


@pytest.mark.parametrize("name", WORKING)
def test_cpu_is_the_hosts_memory(name):
    x = Tensor([1.0, 2.0], device=name, requires_grad=True)
    y = (x * 2).detach().cpu()
    assert y.device == ("NUMPY" if name == "NUMPY" else "CPU") and y.numpy().tolist() == [2, 4]
    (x.cpu() * 3).sum().backward()
    assert x.grad.device == name and x.grad.tolist() == [3, 3]


def test_large_integers_are_exact():
    big = (1 << 64) - 2
    for x in (Tensor([0, big]), Tensor([0, big], dtype="uint64"), Tensor([[big], [1]])):
        assert x.dtype is dtype.uint64 and big in x.reshape(-1).tolist()
    assert (
        Tensor([0.5, big]).dtype is dtype.float32 and Tensor([1e300, 2.0], dtype="float64")[0].item() == 1e300
    )
    with pytest.raises(RangeError, match="-1 to 18446744073709551614"):
        Tensor([-1, big])


def test_python_asks_by_type_errors():
    number, pair = Tensor(3.0), Tensor([1, 2])
    assert not np.iterable(number) and np.iterable(pair)
    for wrong in (lambda: iter(number), lambda: len(number), lambda: int(pair), lambda: operator.index(pair)):
        with pytest.raises(TypeError) as caught:
            wrong()
        assert isinstance(caught.value, ShapeError)
