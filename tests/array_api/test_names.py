"""dawdle.array_api has the names and signatures of the standard, and says of itself what it should."""

from __future__ import annotations

import array
import inspect
import math

import numpy as np
import pytest

import dawdle
from dawdle import Tensor
from dawdle import array_api as xp
from dawdle.errors import ArgumentError, DTypeError, ShapeError

# the reference's own, what it has from a later version, and what needs complex numbers
OTHER = {
    "ArrayAPIStrictFlags",
    "Device",
    "__version__",
    "get_array_api_strict_flags",
    "set_array_api_strict_flags",
    "reset_array_api_strict_flags",
    "broadcast_shapes",
    "isin",
    "complex64",
    "complex128",
    "fft",
    "linalg",
}


INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def names(module):
    return sorted(set(module.__all__) - OTHER)


def reference():
    try:
        import array_api_strict
    except ImportError:
        return []
    extension = [("linalg", n) for n in names(array_api_strict.linalg)]
    return [*[("", n) for n in names(array_api_strict)], *extension]


@pytest.mark.parametrize("module, name", reference(), ids=lambda n: n or "main")
def test_every_name_is_there_with_its_signature(module, name):
    import array_api_strict

    theirs = getattr(getattr(array_api_strict, module) if module else array_api_strict, name)
    ours = getattr(getattr(xp, module) if module else xp, name)
    assert name in (getattr(xp, module) if module else xp).__all__
    if not inspect.isfunction(theirs):
        assert (
            isinstance(ours, dawdle.DType)
            if "dtype" in type(theirs).__name__.lower()
            else type(ours) is type(theirs)
        )
        return
    assert ours.__name__ == name and ours.__doc__
    expected, got = (inspect.signature(f).parameters for f in (theirs, ours))
    assert list(got) == list(expected)
    for key, parameter in expected.items():
        assert got[key].kind == parameter.kind, key
        if "UNDEF" not in repr(parameter.default) and parameter.default is not parameter.empty:
            assert got[key].default == parameter.default, key


def test_arrays_lead_to_the_namespace():
    x = Tensor([1.0])
    assert x.__array_namespace__() is xp and x.__array_namespace__(api_version="2024.12") is xp
    assert xp.__array_api_version__ == "2024.12"
    with pytest.raises(ValueError, match="2021"):
        x.__array_namespace__(api_version="2021.12")


def test_attributes_and_methods_of_arrays():
    x = xp.ones((2, 3))
    assert (x.ndim, x.shape, x.size, x.dtype) == (2, (2, 3), 6, xp.float32)
    assert x.device == x.to_device(x.device).device and x.T.shape == x.mT.shape == (3, 2)
    operators = (
        "abs add and bool complex dlpack dlpack_device eq float floordiv ge getitem gt index int invert le "
        "lshift lt matmul mod mul ne neg or pos pow rshift setitem sub truediv xor array_namespace "
        "radd rsub rmul rtruediv rfloordiv rpow rmod rmatmul rand ror rxor rlshift rrshift "
        "iadd isub imul itruediv ifloordiv ipow imod imatmul iand ior ixor ilshift irshift"
    )
    assert [n for n in operators.split() if not hasattr(x, f"__{n}__")] == []
    y = xp.asarray([[1.0, 2.0], [3.0, 4.0]])
    z = y
    z @= xp.eye(2) * 2
    assert z.tolist() == [[2, 4], [6, 8]] and (+y).tolist() == y.tolist()


def test_info():
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": 32,
    }
    assert info.default_device() == Tensor([1]).device in info.devices()
    default = info.default_dtypes()
    assert xp.asarray(1.0).dtype == default["real floating"] and xp.asarray(1).dtype == default["integral"]
    assert xp.argmax(xp.ones(3)).dtype == default["indexing"]
    assert set(info.dtypes()) == {"bool", "float32", "float64", *INTEGERS}
    assert all(getattr(xp, name) == kind for name, kind in info.dtypes().items())
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert set(info.dtypes(kind=("bool", "unsigned integer"))) == {
        "bool",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
    }
    assert info.dtypes(kind="complex floating") == {}
    with pytest.raises(DTypeError, match="quaternion"):
        info.dtypes(kind="quaternion")


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_finfo(name):
    ours, theirs = xp.finfo(getattr(xp, name)), np.finfo(name)
    for key in ("bits", "eps", "max", "min", "smallest_normal"):
        assert getattr(ours, key) == getattr(theirs, key), key
    assert ours.dtype == xp.finfo(xp.ones(1, dtype=getattr(xp, name))).dtype == getattr(xp, name)


def test_bfloat16():
    info = xp.finfo(xp.bfloat16)
    x = xp.asarray(info.max, dtype=xp.bfloat16)
    assert x.item() == info.max and (x * 1.01).item() == math.inf
    assert (1 + xp.asarray(info.eps, dtype=xp.bfloat16)).item() == 1 + info.eps
    assert info.smallest_normal == xp.finfo(xp.float32).smallest_normal


@pytest.mark.parametrize("name", INTEGERS)
def test_iinfo(name):
    ours, theirs = xp.iinfo(getattr(xp, name)), np.iinfo(name)
    assert (ours.bits, ours.min, ours.max) == (theirs.bits, theirs.min, theirs.max)
    assert ours.dtype == getattr(xp, name)


def test_kinds_and_casts():
    assert xp.isdtype(xp.int8, "integral") and xp.isdtype(xp.bool, ("numeric", xp.bool))
    assert not xp.isdtype(xp.float32, "integral") and not xp.isdtype(xp.bool, "numeric")
    assert xp.can_cast(xp.int8, xp.int64) and not xp.can_cast(xp.int64, xp.int8)
    assert xp.can_cast(xp.ones(2, dtype=xp.uint8), xp.float64)
    assert xp.result_type(xp.int8, xp.ones(2, dtype=xp.uint8), 3) == xp.int16
    assert xp.result_type(xp.float64, 1.5, xp.float32) == xp.float64 and xp.result_type(xp.int8, 1) == xp.int8
    for wrong in (
        lambda: xp.finfo(xp.int8),
        lambda: xp.iinfo(xp.float32),
        lambda: xp.result_type(1, 2.0),
        lambda: xp.isdtype(xp.int8, "numbers"),
        lambda: xp.can_cast("int8", xp.int8),
    ):
        with pytest.raises(DTypeError):
            wrong()


# ---- copies


def test_asarray_copies_unless_told_not_to():
    source = np.arange(3.0)
    x, y = xp.asarray(source), xp.asarray(source, copy=True)
    source[:] = 9
    assert x.tolist() == y.tolist() == [0, 1, 2] and x.dtype == xp.float64
    assert xp.asarray(x) is x and xp.asarray(x, copy=True) is not x and xp.asarray(x, copy=False) is x
    z = xp.asarray(x, copy=True)
    z[0] = 5
    assert x.tolist() == [0, 1, 2]
    for impossible in (
        lambda: xp.asarray(x, dtype=xp.int8, copy=False),
        lambda: xp.asarray([1.0], copy=False),
        lambda: xp.asarray(source, dtype=xp.int8, copy=False),
    ):
        with pytest.raises(ValueError, match="copy"):
            impossible()
    assert xp.astype(x, xp.float64, copy=False) is x and xp.astype(x, xp.float64) is not x
    assert xp.astype(x, xp.int8).dtype == xp.int8


def test_buffers_are_arrays():
    assert xp.asarray(array.array("f", [1.5, 2.5])).dtype == xp.float32
    assert xp.asarray(memoryview(b"\x01\x02")).tolist() == xp.asarray(b"\x01\x02").tolist() == [1, 2]
    assert xp.asarray(bytearray(b"\x03"), dtype=xp.int64).dtype == xp.int64


def test_numbers_stand_on_either_side():
    x = xp.asarray([1, 2], dtype=xp.int8)
    assert xp.subtract(5, x).tolist() == [4, 3] and xp.subtract(5, x).dtype == xp.int8
    assert xp.where(x > 1, 7, x).tolist() == [1, 7] and xp.where(x > 1, x, 7).dtype == xp.int8
    assert xp.atan2(1.0, xp.ones(1)).dtype == xp.float32
    with pytest.raises(DTypeError, match="add"):
        xp.add(1, 2)
    with pytest.raises(DTypeError, match="real number"):
        xp.add(1j, x)


def test_mistakes():
    x = xp.ones((2, 3))
    for wrong, words in (
        (lambda: xp.take(x, xp.asarray([0])), "pass axis"),
        (lambda: xp.cumulative_sum(x), "pass axis"),
        (lambda: xp.squeeze(x, 0), "has not size 1"),
        (lambda: xp.nonzero(xp.asarray(1)), "no axes"),
        (lambda: xp.vecdot(x, x, axis=0), "negative"),
        (lambda: xp.tensordot(x, x, axes=1), "sizes differ"),
        (lambda: xp.vecdot(x, xp.ones((2, 1))), "differ along"),
    ):
        with pytest.raises(ShapeError, match=words):
            wrong()
    with pytest.raises(ArgumentError, match="indexing"):
        xp.meshgrid(x, indexing="no")
