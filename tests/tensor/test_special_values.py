"""NaN, infinities, signed zeros, subnormals, the limits of integers: rows of the op table that say so, with
every dtype, against their references in float64.
"""
from __future__ import annotations

import numpy as np
import pytest
from devices import WORKING
from rows import ROWS
from table import BINARY, Row

from dawdle import Tensor
from dawdle.dtype import ALL, DType, bfloat16, float32, round_to, to_dtype

# on devices that compile, a dtype of each kind: the others differ in the primitive operations only
COMPILED = ("float32", "float16", "int32", "uint8", "bool")
LIMITS = {"float16": np.finfo("float16"), "float32": np.finfo("float32"), "float64": np.finfo("float64")}
EXACT = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-22, "float64": 2.0**-50}


def specials(dtype: DType) -> np.ndarray:
    """The values that are tried, in the dtype's compute dtype."""
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.is_int:
        edges = (dtype.min, dtype.min + 1, dtype.max - 1, dtype.max)
        return np.array(sorted({*edges, 0, 1, 2, 3, 7} | ({-1, -2, -3, -7} if dtype.kind == "i" else set())),
            dtype.name)
    limits = LIMITS["float32" if dtype is bfloat16 else dtype.name]
    values = [0.0, -0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.25, 20.0, 100.0, np.inf]
    values += [float(limits.tiny), float(limits.tiny) / 8, float(limits.max) / 10]
    return round_to(np.array([*values, *np.negative(values), np.nan]), dtype)


def operands(row: Row, dtype: DType) -> list[np.ndarray]:
    """The special values, or every pair of them."""
    values = specials(dtype)
    return [g.ravel() for g in np.meshgrid(values, values)] if row.shapes is BINARY else [values]


def leaves(row: Row, dtype: DType) -> list[Tensor]:
    return [Tensor(a).astype(dtype) for a in operands(row, dtype)]


def as_list(out: object) -> list:
    return list(out) if isinstance(out, (list, tuple)) else [out]


def expected(row: Row, dtype: DType) -> list[tuple[np.ndarray, DType]]:
    """What the reference gives, and in which dtype. Float functions are computed in float64 from values of
    the result's dtype: the operands' own, or float32 for integers and bools.
    """
    arrays = operands(row, dtype)
    native = [np.asarray(x) for x in as_list(row.expected(arrays))]
    if not any(x.dtype.kind == "f" for x in native):
        return [(x, to_dtype(x.dtype.name)) for x in native]
    kind = dtype if dtype.is_float else float32
    out = as_list(row.expected([round_to(a, kind).astype("float64") for a in arrays]))
    return [(np.asarray(x), kind if x.dtype.kind == "f" else to_dtype(x.dtype.name)) for x in out]


def check(row: Row, dtype: DType, got: Tensor, want: np.ndarray, slack: float = 1.0) -> None:
    words = f"{row.name} of {dtype.name}"
    result = got.numpy()
    if not got.dtype.is_float:
        np.testing.assert_array_equal(result, want.astype(result.dtype), err_msg=words)
        return
    with np.errstate(over="ignore"):
        rounded = round_to(want, got.dtype).astype("float64")
    limits = LIMITS["float32" if got.dtype is bfloat16 else got.dtype.name]
    precision = EXACT[got.dtype.name] * slack
    underflow = float(limits.tiny) * (1e-5 if slack == 1 else 1)  # devices may flush subnormals
    least = max(underflow, float(limits.smallest_subnormal), precision * row.near_zero)
    np.testing.assert_allclose(result.astype("float64"), rounded, rtol=precision, atol=least, err_msg=words)
    if not isinstance(row.reference, np.ufunc):
        return
    zero = (rounded == 0) & (result == 0)
    assert np.array_equal(np.signbit(result[zero]), np.signbit(rounded[zero])), f"{words}: the sign of zero"


@pytest.mark.parametrize("device", ["NUMPY"], indirect=True)
@pytest.mark.parametrize("row", [row for row in ROWS if row.special], ids=lambda row: row.name)
def test_special_values(row, device):
    if not row.available:
        pytest.skip("the reference is PyTorch")
    for dtype in ALL:
        if dtype.kind in row.special:
            results = as_list(row.call(*leaves(row, dtype)))
            for got, (want, kind) in zip(results, expected(row, dtype), strict=True):
                assert got.dtype is kind, f"{row.name} of {dtype.name}"
                check(row, dtype, got, want)


@pytest.mark.parametrize("device", [d for d in WORKING if d != "NUMPY"], indirect=True)
@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("pairs", [False, True], ids=["unary", "binary"])
def test_compiled_special_values(pairs, name, device):
    """All rows read the same operands, so that they become few kernels."""
    dtype = to_dtype(name)
    rows = [r for r in ROWS if dtype.kind in r.special and r.available and (r.shapes is BINARY) == pairs]
    shared = leaves(rows[0], dtype)
    Tensor.realize(*shared)
    got = [as_list(row.call(*shared)) for row in rows]
    Tensor.realize(*[t for group in got for t in group])
    for row, group in zip(rows, got, strict=True):
        for result, (want, kind) in zip(group, expected(row, dtype), strict=True):
            assert result.device == device and result.dtype is kind
            check(row, dtype, result, want, slack=2)
