"""What a Tensor is: a handle on an immutable value. Creation, conversion, in-place forms, printing."""
from __future__ import annotations

import copy
import operator
import pickle
import threading

import numpy as np
import pytest

import dawdle
from dawdle import Tensor
from dawdle.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    GradientError,
    IndexingError,
    RangeError,
    ShapeError,
)
from dawdle.lazy.ops import Op
from dawdle.nn import functional as F


def check(tensor, expected, dtype=None):
    np.testing.assert_array_equal(tensor.numpy(), expected)
    if dtype:
        assert tensor.dtype.name == dtype


@pytest.fixture
def host_memory(device):
    """The device's memory is the host's."""
    if device not in ("CPU", "NUMPY"):
        pytest.skip(f"device {device} has memory of its own, so nothing is shared with the host")


# ---- creation


@pytest.mark.parametrize("data, dtype", [
    (1.5, "float32"), (3, "int64"), (True, "bool"), ([1.0, 2], "float32"), ([[1, 2], [3, 4]], "int64"), ([],
    "float32"),
    ([True, False], "bool"), (np.arange(3, dtype=np.int8), "int8"), (np.ones(2), "float64"), (np.float64(2),
    "float64"),
    ([np.float64(2)], "float64"), (range(3).__class__(3) and list(range(3)), "int64"), (np.zeros((0, 3),
    np.uint16), "uint16"),
    (np.ones(2, ">f4"), "float32"),
])  # fmt: skip
def test_creation_keeps_values_and_chooses_the_dtype(data, dtype):
    t = Tensor(data)
    assert t.dtype.name == dtype and t.shape == np.shape(data)
    np.testing.assert_array_equal(t.numpy(), np.asarray(data))


def test_creation_with_dtype_and_from_tensors():
    check(Tensor([1.7, -2.2], dtype="int32"), [1, -2], "int32")
    check(Tensor(Tensor([1, 2]), dtype=dawdle.float32), [1, 2], "float32")
    check(Tensor([Tensor([1.0, 2.0]), Tensor([3.0, 4.0])]), [[1, 2], [3, 4]], "float32")
    check(Tensor([Tensor(1.0), 2.5]), [1, 2.5], "float32")
    check(Tensor([2, Tensor(1.0, dtype="bfloat16")]), [2, 1], "bfloat16")
    check(Tensor([range(2), range(2, 4)]), [[0, 1], [2, 3]], "int64")
    check(Tensor(0.1, dtype="float64"), 0.1, "float64")
    assert Tensor([1.0], requires_grad=True).requires_grad


@pytest.mark.parametrize("data, error, words", [
    ([[1, 2], [3]], ShapeError, "rows have different lengths"), ("abc", DTypeError,
    "can't make a tensor of str"),
    (["a"], DTypeError, "dtype <U1"), (np.ones(2, complex), DTypeError, "complex"), (None, DTypeError,
    "NoneType"),
])  # fmt: skip
def test_creation_refuses_what_holds_no_numbers(data, error, words):
    with pytest.raises(error, match=words):
        Tensor(data)


def test_creation_copies_and_from_numpy_does_not(host_memory):
    source = np.zeros(4, np.float32)
    copied, shared = Tensor(source), Tensor.from_numpy(source)
    source[0] = 1
    check(copied, [0, 0, 0, 0])
    check(shared, [1, 0, 0, 0])
    out = copied.numpy()
    out[:] = 5
    check(copied, [0, 0, 0, 0])
    check(Tensor.from_numpy(np.arange(6).reshape(2, 3).T), np.arange(6).reshape(2, 3).T)


def test_constant_creations():
    check(Tensor.zeros(2, 3), np.zeros((2, 3)), "float32")
    check(Tensor.ones((2,), dtype="int8"), [1, 1], "int8")
    check(Tensor.full((2, 1), 7), [[7], [7]], "int64")
    check(Tensor.eye(2, 3), np.eye(2, 3), "float32")
    check(Tensor.zeros(), 0.0)
    x = Tensor([[1, 2]])
    check(x.ones_like(), [[1, 1]], "int64")
    check(x.full_like(2.5, dtype="float32"), [[2.5, 2.5]], "float32")
    with pytest.raises(ShapeError, match="negative"):
        Tensor.zeros(2, -1)


@pytest.mark.parametrize("args", [(5,), (2, 7), (0, 10, 3), (5, 0, -2), (0.0, 1.0, 0.25), (3, 3), (1, 0)])
def test_arange(args):
    np.testing.assert_allclose(Tensor.arange(*args).numpy(), np.arange(*args), rtol=1e-6)
    assert Tensor.arange(*args).dtype.name == ("float32" if any(isinstance(a,
        float) for a in args) else "int64")


@pytest.mark.parametrize("start, end, steps", [(0, 1, 5), (-3, 4, 8), (0.1, 0.7, 7), (2, 2, 3), (0, 1, 1),
    (0, 1, 0)])
def test_linspace_has_exact_ends(start, end, steps):
    got = Tensor.linspace(start, end, steps).numpy()
    np.testing.assert_allclose(got, np.linspace(start, end, steps), rtol=1e-6, atol=1e-7)
    if steps > 1:
        assert got[0] == np.float32(start) and got[-1] == np.float32(end)


# ---- value semantics


def test_expressions_keep_the_value_from_before_an_assignment():
    x = Tensor([1.0, 2.0, 3.0])
    before, view = x * 10, x[1:]
    x[0] = 100.0
    after = x * 10
    x += 1
    x.assign([7.0, 8.0, 9.0])
    check(x, [7, 8, 9])
    check(after, [1000, 20, 30])
    check(view, [2, 3])
    check(before, [10, 20, 30])


def test_views_are_values():
    x = Tensor([[1, 2], [3, 4]])
    row, same, copied = x[0], x.reshape(2, 2), x.clone()
    row[0] = 9
    same += 1
    check(x, [[1, 2], [3, 4]])
    check(copied, [[1, 2], [3, 4]])
    check(row, [9, 2])
    check(same, [[2, 3], [4, 5]])


def test_every_operation_gives_a_handle_of_its_own():
    x = Tensor([1.0, 2.0])
    for same in (x.reshape(2), x.permute(0), x.expand(2), x.to(x.dtype), x.float(), x.round(), x.pad((0,
        0)), x.roll(0),
                 x.dropout(0.5), x.detach(), x.clone(), x**1, x.cumsum(0), x.contiguous(), x.squeeze(),
                     x[:], x.abs(),
                 Tensor.cat([x]), x.flip()):  # fmt: skip
        assert same is not x
        same += 1
        check(x, [1, 2])


def test_inplace_operators_keep_dtype_and_handle():
    x = Tensor([6, 7], dtype="int32")
    handle = x
    x += 2
    x *= 3
    x //= 2
    x <<= 1
    x -= np.array([1, 2], np.int32)
    check(x, [23, 24], "int32")
    assert handle is x
    with pytest.raises(DTypeError, match="would change int32 to float32"):
        x /= 2
    f = Tensor([1.0], dtype="float16")
    f *= 2.5
    f **= 2
    check(f, [6.25], "float16")


def test_assign_fits_shape_and_dtype():
    x = Tensor.zeros(2, 3)
    check(x.assign(Tensor([1, 2, 3])), [[1, 2, 3]] * 2, "float32")
    with pytest.raises(ShapeError, match=r"\(4,\)"):
        x.assign(Tensor([1, 2, 3, 4]))
    with pytest.raises(ShapeError, match="shape \\(5, 2, 3\\)"):
        x.assign(Tensor.zeros(5, 2, 3))


def test_setitem_broadcasts_casts_and_refuses():
    x = Tensor.zeros(2, 3, dtype="int32")
    x[:, 1] = 2.9
    x[0] = Tensor([1.0, 2.0, 3.0])
    check(x, [[1, 2, 3], [0, 2, 0]], "int32")
    with pytest.raises(ShapeError, match="can't assign"):
        x[0] = Tensor([1, 2])
    x[[0, 0, 1], [0, 0, 2]] = Tensor([5, 6, 7])
    check(x, [[6, 2, 3], [0, 2, 7]])


def test_realising_frees_the_graph_below():
    x = Tensor([1.0, 2.0])
    y = x + 1
    z = y * 2
    z.realize()
    assert (z.lazy.op is Op.BUFFER and not z.lazy.src and z._node is None) or not z.requires_grad
    check(z, [4, 6])


def test_realize_takes_several():
    a, b = Tensor([1.0]) + 1, Tensor([2.0]) * 3
    assert Tensor.realize(a, b) is a
    assert a.lazy.is_realized and b.lazy.is_realized


# ---- operands


def test_numpy_operands_come_to_the_tensor():
    x = Tensor([1.0, 2.0])
    for out in (np.array([1.0, 1.0], np.float32) + x, x + np.array([1.0, 1.0], np.float32), [1, 1] + x,
        np.float32(1) + x):
        assert isinstance(out, Tensor)
        check(out, [2, 3])
    check(np.eye(2, dtype=np.float32) @ x, [1, 2])
    check(np.array([0.0, 3.0]) < x, [True, False])
    assert (x == None) is False  # noqa: E711
    with pytest.raises(TypeError):
        x + "a"


V, M, I, B = np.arange(1.0, 4), np.arange(9.0).reshape(3, 3), np.array([2, 0, 1]), np.ones((2, 3, 3))


@pytest.mark.parametrize("call, arrays", [
    (lambda a, b: Tensor.cat([b, a]), (V, V)), (lambda a, b: Tensor.stack([a, b]), (V, V)),
    (lambda a, b: dawdle.hstack([a, b, 2]), (V, V)), (lambda a, b: dawdle.vstack([b, a]), (M, V)),
    (lambda a, b: dawdle.dstack([a, b]), (M, M)), (lambda a, b: dawdle.column_stack([a, b]), (M, V)),
    (lambda a, b: dawdle.block_diag(b, a, 7), (M, M)), (lambda a, b: dawdle.cartesian_prod(a, b), (V, V)),
    (lambda a, b: dawdle.meshgrid(b, a)[0], (V, V)), (lambda a, b: dawdle.broadcast_tensors(a, b)[1], (M, V)),
    (lambda a, b: dawdle.where(b, a, 0), (V, V > 2)), (lambda a, b: dawdle.einsum("ij,j", b, a), (V, M)),
    (lambda a, b: dawdle.linalg.multi_dot([b, a, b]), (M, V.reshape(3, 1) * V)),
    (lambda a, b: a.addmm(b, b), (M, M)), (lambda a, b: a.addmv(b, a), (V, M)),
    (lambda a, b: a.tensordot(b, 1), (M, M)), (lambda a, b: a.linear(b, b[0]), (M, M)),
    (lambda a, b: a.prelu(b), (-M, V)),
    (lambda a, b: a.conv1d(weight=b, padding=1), (M, B)), (lambda a, b: a.batchnorm(b, b, b, b), (M, V)),
    (lambda a, b: a.conv_transpose1d(b), (M, np.ones((3, 2, 2)))),
    (lambda a, b: F.linear(a, b, b[0]), (M, M)), (lambda a, b: F.layer_norm(a, (3,), b, b), (M, V)),
    (lambda a, b: F.mse_loss(a, b), (V, V)), (lambda a, b: F.batch_norm(a, b, b, b, b), (M, V)),
    (lambda a, b: a.cross_entropy(b), (M, I)), (lambda a, b: a.nll_loss(I, b), (-M, V)),
    (lambda a, b: a.scaled_dot_product_attention(b, b, attn_mask=b[0] > 2), (B, B)),
    (lambda a, b: a.grid_sample(b, align_corners=True), (B[None], np.zeros((1, 2, 2, 2)))),
    (lambda a, b: (a.requires_grad_() * 2).gradient(a, gradient=b)[0], (V, V)),
    (lambda a, b: a.histogram(bins=2, weight=b).hist, (V, V)), (lambda a, b: a.take_along_dim(b, 0), (V, I)),
])  # fmt: skip
def test_further_operands_may_be_arrays(call, arrays):
    first, second = arrays
    got, wanted = call(Tensor(first), second), call(Tensor(first), Tensor(second))
    check(got, wanted.numpy(), wanted.dtype.name)


def test_numbers_beside_tensors_take_their_dtype():
    half, whole = Tensor([1.0, 2.0], dtype="float16"), Tensor([2, 3])
    for made in (dawdle.hstack([2.5, half]), half.addcmul(0.5, half), half.ldexp(1)):
        assert made.dtype.name == "float16"
    check(whole.isin(2.5), [False, False])
    check(whole.searchsorted(2.5), 1)
    wide = Tensor([1.0], dtype="float64")
    check(wide.addcmul(0.1, wide), [1.1], "float64")


@pytest.mark.parametrize("call", [
    lambda: Tensor.cat([V, [1.0]]), lambda: Tensor.stack((1, 2)), lambda: dawdle.where([True], 1, 2),
    lambda: dawdle.einsum("i,i", V, V),
])  # fmt: skip
def test_operands_without_a_tensor_among_them(call):
    with pytest.raises(DTypeError, match="takes a tensor"):
        call()


@pytest.mark.parametrize("make, dtype", [
    (lambda: Tensor([1], dtype="int8") + 1, "int8"), (lambda: Tensor([1]) + 1.5, "float32"),
    (lambda: Tensor([1], dtype="uint8") + Tensor([1], dtype="int8"), "int16"), (lambda: Tensor([True]) + 1,
    "int64"),
    (lambda: Tensor([1.0], dtype="float16") * 2.0, "float16"), (lambda: Tensor([1.0],
    dtype="float16") + Tensor([1.0]), "float32"),
    (lambda: Tensor([1]) / 2, "float32"), (lambda: Tensor([1]) / Tensor([2]), "float32"),
    (lambda: Tensor([1]) + Tensor([1.0]), "float64"), (lambda: Tensor([1.0], dtype="float64") / 2, "float64"),
    (lambda: Tensor([1.0], dtype="bfloat16") + 1, "bfloat16"), (lambda: Tensor([3]).exp(), "float32"),
    (lambda: Tensor([3]).mean(), "float32"), (lambda: Tensor([3], dtype="int8").sum(), "int64"),
    (lambda: Tensor([3.0], dtype="float16").sum(), "float16"), (lambda: Tensor([1]) + np.float64(1),
    "float32"),
])  # fmt: skip
def test_promotion(make, dtype):
    assert make().dtype.name == dtype


# ---- out


def test_numbers_and_lists():
    x = Tensor([[1.5, 2.0]])
    assert x.tolist() == [[1.5, 2.0]] and Tensor(3).item() == 3 and isinstance(Tensor(3).item(), int)
    assert float(Tensor([2.5])) == 2.5 and int(Tensor(2.9)) == 2
    assert bool(Tensor([[1]])) and not bool(Tensor(0.0))
    assert [10, 20, 30][Tensor(1)] == 20
    assert len(Tensor.zeros(4, 2)) == 4
    for convert in (bool, float, int, Tensor.item):
        with pytest.raises(ShapeError, match=r"shape \(1, 2\)"):
            convert(x)
    with pytest.raises(DTypeError, match="index"):
        [1, 2][Tensor(1.0)]
    with pytest.raises(ShapeError, match="no length"):
        len(Tensor(1))


def test_iteration_gives_the_rows():
    rows = list(Tensor([[1, 2], [3, 4]]) + 1)
    assert [r.tolist() for r in rows] == [[2, 3], [4, 5]]
    x = Tensor([1.0, 2.0], requires_grad=True)
    sum(v * v for v in x).backward()
    check(x.grad, [2, 4])
    a, b = Tensor([5, 6])
    assert a.item() == 5 and b.item() == 6
    assert 5 in Tensor([5, 6]) and 7 not in Tensor([5, 6])


def test_bfloat16_is_float32_in_numpy():
    x = Tensor([1.0, 3.14159, 1e30], dtype="bfloat16")
    assert x.numpy().dtype == np.float32
    np.testing.assert_allclose(x.numpy(), [1.0, 3.140625, 1e30], rtol=4e-3)
    check((x[0] + 1.0).float(), 2.0, "float32")
    assert x.tolist()[0] == 1.0


def test_pickle_and_copies():
    x = Tensor([1.0, 2.5], dtype="bfloat16", requires_grad=True)
    for other in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert other is not x and other.dtype is x.dtype and other.requires_grad and other.is_leaf
        check(other, [1, 2.5])
    with pytest.raises(GradientError, match="deep-copied"):
        copy.deepcopy(x * 2)


@pytest.mark.parametrize("tensor, text", [
    (lambda: Tensor([1.0, 2.5]), "Tensor([1. , 2.5], dtype=float32)"), (lambda: Tensor(3),
    "Tensor(3, dtype=int64)"),
    (lambda: Tensor([[True]]), "Tensor([[ True]], dtype=bool)"),
    (lambda: Tensor.zeros(0, 3), "Tensor([], shape=(0, 3), dtype=float32)"),
    (lambda: Tensor([1.0], requires_grad=True), "Tensor([1.], dtype=float32, requires_grad=True)"),
])  # fmt: skip
def test_printing(tensor, text):
    assert repr(tensor()) == text == str(tensor())


def test_formatting():
    assert f"{Tensor(3.14159):.2f}" == "3.14"
    assert "..." in repr(Tensor.zeros(2000))


def test_conversions():
    x = Tensor([1.5, -2.5])
    kinds = {"half": "float16", "bfloat16": "bfloat16", "float": "float32", "double": "float64",
        "int": "int32",
             "long": "int64", "short": "int16", "bool": "bool"}  # fmt: skip
    for method, name in kinds.items():
        assert getattr(x, method)().dtype.name == name
    assert x.to("float64").dtype.name == "float64" and x.to(dawdle.int8).dtype.name == "int8"
    assert x.to(x.device).device == x.device and x.type_as(Tensor([1])).dtype.name == "int64"
    check(Tensor([1.0]).bitcast("uint32"), [0x3F800000], "uint32")
    with pytest.raises(DTypeError, match="width"):
        Tensor([1.0]).bitcast("int64")
    with pytest.raises(DeviceError, match="unknown device"):
        x.to("TOASTER")


# ---- errors


@pytest.mark.parametrize("wrong, error, words", [
    (lambda x: x + Tensor([1.0, 2.0]), ShapeError, "don't broadcast"), (lambda x: x @ x, ShapeError,
    r"\(2, 3\) @ \(2, 3\)"),
    (lambda x: x.sum(2), ShapeError, "dim 2 is out of range for shape \\(2, 3\\)"), (lambda x: x.sum((0,
    0)), ShapeError, "twice"),
    (lambda x: x.reshape(4, 2), ShapeError, "6 elements"), (lambda x: x.reshape(-1, 4), ShapeError,
    "no whole number"),
    (lambda x: x.reshape(-1, -1), ShapeError, "only one"), (lambda x: x[2], IndexingError,
    "index 2 is out of range"),
    (lambda x: x[0, 0, 0], IndexingError, "too many indices"), (lambda x: x[[0, -3]], IndexingError,
    "index -3"),
    (lambda x: x["a"], IndexingError, "can't index with str"), (lambda x: x[1.0], IndexingError, "float"),
    (lambda x: x[..., ...], IndexingError, "ellipsis"), (lambda x: x[Tensor([True])], IndexingError,
    "mask of shape"),
    (lambda x: x & x, DTypeError, "bool and integers"), (lambda x: x << 1, DTypeError, "integers"),
    (lambda x: x[:0].max(0), ShapeError, "max of no elements"), (lambda x: x.permute(0, 0), ShapeError,
    "order"),
    (lambda x: x.expand(3, 3), ShapeError, "only dimensions of size 1"), (lambda x: x.split([1, 2]),
    ShapeError, "add up"),
    (lambda x: Tensor.cat([x, x.T]), ShapeError, "differ elsewhere"), (lambda x: Tensor.stack([x, x.T]),
    ShapeError, "differ"),
    (lambda x: x.conv2d(Tensor.zeros(4, 3, 3, 3)), ShapeError, "convolution takes"),
    (lambda x: x.reshape(1, 1, 2, 3).conv2d(Tensor.zeros(1, 1, 3, 3)), ShapeError,
    "larger than the padded input"),
    (lambda x: x.reshape(1, 1, 2, 3).max_pool2d(4), ShapeError, "larger than the padded input"),
    (lambda x: x.reshape(1, 2, 3).conv1d(Tensor.zeros(4, 3, 2)), ShapeError, "2 channels"),
    (lambda x: Tensor.einsum("ij,jk->ik", x, x), ShapeError, "dimension 'j' is 3 in one place and 2"),
    (lambda x: Tensor.einsum("ij->k", x), ShapeError, "'k' is in no operand"),
    (lambda x: x.sum(dim=0, axis=0), TypeError, "alias"), (lambda x: x.gather(0, Tensor([1.0])), DTypeError,
    "integer index"),
    (lambda x: x.cross_entropy(Tensor([0])), ShapeError, "must have \\(2,\\)"), (lambda x: x.dropout(1.5),
    ArgumentError, "between"),
    (lambda x: Tensor([2]) ** -1, DTypeError, "negative power"), (lambda x: x.softmax(5), ShapeError,
    "softmax"),
    (lambda x: Tensor([True]) - Tensor([True]), DTypeError, "sub"), (lambda x: x.int().backward(),
    GradientError, "requires"),
    (lambda x: x.sum(1.0), ShapeError, "dim must be an integer or several, got 1.0"),
    (lambda x: x[0].__iadd__(x), ShapeError, r"would change the shape \(3,\) to \(2, 3\)"),
    (lambda x: Tensor.arange(float("nan")), ShapeError, "no finite number of steps"),
    (lambda x: Tensor.arange(0, float("inf")), ShapeError, "no finite number of steps"),
    (lambda x: x.int().requires_grad_(), GradientError, "only floats"), (lambda x: x.squeeze(7), ShapeError,
    "squeeze"),
])  # fmt: skip
def test_errors_name_the_shapes_and_come_at_once(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(Tensor.ones(2, 3))


def test_dim_aliases():
    x = Tensor.ones(2, 3)
    assert x.sum(axis=0, keepdims=True).shape == (1, 3) and x.softmax(axis=0).shape == (2, 3)


# ---- threads


def test_no_grad_is_per_thread():
    seen = []
    with dawdle.no_grad():
        thread = threading.Thread(target=lambda: seen.append(dawdle.is_grad_enabled()))
        thread.start()
        thread.join()
        assert not dawdle.is_grad_enabled()
    assert seen == [True] and dawdle.is_grad_enabled()


# ---- depth


def test_a_long_chain_builds_and_realises():
    x = Tensor([1.0], requires_grad=True)
    y = x
    for _ in range(20_000):
        y = y + 1.0
    y.sum().backward()
    check(x.grad, [1.0])
    del y


# ---- numbers that a dtype doesn't hold


@pytest.mark.parametrize("make", [
    lambda x: x + 2**64, lambda x: 2**63 - x, lambda x: x.astype("uint8") * 256,
    lambda x: x.astype("uint8") - -1,
    lambda x: x.astype("int8") & 255, lambda x: x.float() + 10**400, lambda x: (x > 1) + 2**70,
    lambda x: dawdle.full((2,), 300, "uint8"), lambda x: x.astype("int8").full_like(200),
    lambda x: Tensor(300, dtype="uint8"), lambda x: Tensor([1, -1], dtype="uint8"), lambda x: Tensor(2**64),
    lambda x: x.astype("int8").assign(128), lambda x: x.astype("int8").__setitem__(0, 128),
    lambda x: x.astype("int8").where(x > 1, 300), lambda x: x.astype("int8").clamp(-500, 5),
])  # fmt: skip
def test_integers_out_of_range_are_refused(device, make):
    with pytest.raises(RangeError, match="out of the range of"):
        make(Tensor([1, 2, 3]))


def test_casts_wrap_and_limits_fit(device):
    check(Tensor([300, -1]).astype("uint8"), [44, 255], "uint8")
    check(Tensor(np.array([300, -1]), dtype="uint8"), [44, 255], "uint8")
    check(Tensor([0], dtype="uint64") + (2**64 - 1), [2**64 - 1], "uint64")
    check(Tensor([0], dtype="int8") + -128, [-128], "int8")
    check(~Tensor([0, 255], dtype="uint8"), [255, 0], "uint8")
    check(Tensor([1.0]) + 2**100, [np.float32(2**100)], "float32")


def test_comparisons_with_integers_out_of_range(device):
    x = Tensor([0, 255], dtype="uint8")
    for f in (operator.lt, operator.ge, operator.eq, operator.ne, lambda x, v: v > x, lambda x, v: v >= x):
        for v in (300, -1, 2**70, -(2**70), 255):
            check(f(x, v), f(x.numpy().astype(object), v).astype(bool), "bool")


def test_narrow_indices_reach_all_of_long_axes(device):
    x = Tensor(np.arange(600).reshape(300, 2))
    check(x[Tensor([-1, 3], dtype="int8")], [[598, 599], [6, 7]])
    check(x[Tensor([200], dtype="uint8"), Tensor([1], dtype="uint8")], [401])


def test_pythons_round(device):
    x = Tensor([1.25, -2.5, 3.5])
    check(round(x), [1, -2, 4], "float32")
    check(round(x, 1), np.round(x.numpy(), 1), "float32")
    check(round(x * 10, -1), np.round(x.numpy() * 10, -1), "float32")
    check(round(Tensor([3])), [3], "int64")
