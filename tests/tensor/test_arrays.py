"""NumPy's functions by their names: the same calls in both libraries."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dawdle
from dawdle import Tensor, arrays, windows
from dawdle.errors import ArgumentError, DTypeError, IndexingError, ShapeError

pytestmark = pytest.mark.parametrize("device", ["NUMPY"], indirect=True)

A = np.array([[3.5, -1.25, 2.0], [0.5, -7.75, 2.0]])
I = np.array([[7, -3, 2], [0, 5, -8]])
N = np.array([[np.nan, 1.0, 4.0], [np.nan, -2.0, np.nan]])
V, W = np.array([1.0, 3.0, -2.0, 3.0, 0.5]), np.array([3.0, 8.0, 1.0])

CALLS = {
    "around": lambda m: m.around(A, 1), "rint": lambda m: m.rint(A), "fabs": lambda m: m.fabs(A),
    "array_equal": lambda m: [m.array_equal(A, A), m.array_equal(A, A[0])],
    "array_split": lambda m: m.array_split(V, 3), "bitwise_invert": lambda m: m.bitwise_invert(I),
    "invert": lambda m: m.invert(I), "degrees": lambda m: m.degrees(A), "radians": lambda m: m.radians(A),
    "cumulative_sum": lambda m: m.cumulative_sum(A, axis=1),
    "cumulative_prod": lambda m: m.cumulative_prod(A, axis=0),
    "expand_dims": lambda m: m.expand_dims(A, axis=1), "left_shift": lambda m: m.left_shift(I, 2),
    "right_shift": lambda m: m.right_shift(I, 1), "mod": lambda m: m.mod(I, 3),
    "power": lambda m: m.power(A, 2),
    "permute_dims": lambda m: m.permute_dims(A, (1, 0)), "unstack": lambda m: m.unstack(A, axis=1),
    "take_along_axis": lambda m: m.take_along_axis(A, np.argsort(A, 1), axis=1),
    "matrix_transpose": lambda m: m.matrix_transpose(A), "divmod": lambda m: m.divmod(I, 3),
    "cbrt": lambda m: m.cbrt(np.array([0.0, -0.0, 8, -27, np.inf, -np.inf, np.nan])),
    "modf": lambda m: m.modf(np.array([1.5, -1.5, -0.0, 3, np.inf, -np.inf, np.nan])),
    "interp": lambda m: m.interp(np.array([-3.0, -1, 0, 0.25, 2, 5]), [-1.0, 0, 2], [4.0, 5, -5], -9.0, 9.0),
    "interp one": lambda m: m.interp([0.0, 2.0], [1.0], [5.0]),
    "polyval": lambda m: m.polyval(np.array([2.0, 0, -1]), A), "percentile": lambda m: m.percentile(A, 30),
    "percentile method": lambda m: m.percentile(A, [0, 50, 100], axis=1, method="lower", keepdims=True),
    "ptp": lambda m: m.ptp(A), "average": lambda m: m.average(A), "nanmax": lambda m: m.nanmax(N, axis=0),
    "average weights": lambda m: m.average(A, weights=A * A), "nanmin": lambda m: m.nanmin(N, axis=1),
    "average axis": lambda m: m.average(A, axis=-1, weights=W), "nanprod": lambda m: m.nanprod(N),
    "nanargmax": lambda m: m.nanargmax(N, axis=1), "nanargmin": lambda m: m.nanargmin(N),
    "nanvar": lambda m: m.nanvar(N, axis=0, ddof=1), "nanstd": lambda m: m.nanstd(N, axis=1, keepdims=True),
    "nancumsum": lambda m: m.nancumsum(N, axis=0), "nancumprod": lambda m: m.nancumprod(N, axis=1),
    "nanpercentile": lambda m: m.nanpercentile(N, 25, axis=1),
    "lexsort": lambda m: m.lexsort((V, np.array([1, 0, 1, 0, 1]))),
    "digitize": lambda m: m.digitize(V, np.array([0.0, 1, 3])),
    "digitize right": lambda m: m.digitize(V, np.array([0.0, 1, 3]), right=True),
    "intersect1d": lambda m: m.intersect1d(V, W), "setdiff1d": lambda m: m.setdiff1d(V, W),
    "union1d": lambda m: m.union1d(V, W), "setxor1d": lambda m: m.setxor1d(V, W),
    "compress": lambda m: m.compress([True, False, True], A, axis=1),
    "compress flat": lambda m: m.compress([False, False, True, True], A),
    "extract": lambda m: m.extract(A > 1, A), "choose": lambda m: m.choose(I[0] % 2, [V[:3], W]),
    "flatnonzero": lambda m: m.flatnonzero(I), "append": lambda m: m.append(A, V),
    "ravel_multi_index": lambda m: m.ravel_multi_index((np.array([1, 0]), np.array([2, 1])), (2, 3)),
    "unravel_index": lambda m: m.unravel_index(np.array([[5, 2], [0, 3]]), (2, 3)),
    "append axis": lambda m: m.append(A, A[:1], axis=0), "delete": lambda m: m.delete(A, [0, -1]),
    "delete axis": lambda m: m.delete(A, slice(0, 2), axis=1), "delete one": lambda m: m.delete(A, 1, axis=0),
    "delete mask": lambda m: m.delete(V, V == 3), "insert": lambda m: m.insert(V, 2, 9.0),
    "insert several": lambda m: m.insert(V, [0, 5], [7.0, 8.0]),
    "insert at one": lambda m: m.insert(V, 1, [7.0, 8.0]),
    "insert row": lambda m: m.insert(A, 1, W, axis=0), "insert column": lambda m: m.insert(A, 1, 5, axis=1),
    "insert slice": lambda m: m.insert(A, slice(0, 2), 5.0, axis=1),
    "insert rows": lambda m: m.insert(A, 1, A, axis=0),
    "ediff1d": lambda m: m.ediff1d(A, to_end=[1.0, 2.0], to_begin=0.0),
    "identity": lambda m: m.identity(3), "tri": lambda m: m.tri(3, 4, 1),
    "geomspace": lambda m: m.geomspace(1, 256, 9),
    "geomspace negative": lambda m: m.geomspace(-2.0, -0.5, num=3),
    **{f"{name} {mode} {i}": lambda m, n=name, d=mode, v=v: getattr(m, n)(*v, d)
       for name in ("convolve", "correlate") for mode in ("full", "same", "valid")
       for i, v in enumerate(((V, W), (W, V), (V, W[:2]), (I[0], I[1])))},
}  # fmt: skip


def as_list(out):
    return list(out) if isinstance(out, (tuple, list)) else [out]


@pytest.mark.parametrize("name", CALLS)
def test_as_numpy(name, device):
    with np.errstate(all="ignore"):
        want = as_list(CALLS[name](np))
    got = as_list(CALLS[name](dawdle))
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        if isinstance(g, bool):
            assert g is w
            continue
        assert g.shape == np.shape(w) and g.dtype.kind == np.asarray(w).dtype.kind
        np.testing.assert_allclose(g.numpy(), w, rtol=1e-6, atol=1e-9)
        assert (np.signbit(g.numpy()) == np.signbit(w))[~np.isnan(w)].all()


def test_each_has_a_call(device):
    called = {name.split()[0] for name in CALLS}
    assert set(arrays.__all__) - called == {"partition", "argpartition", "combinations"}


def test_partitions(device):
    for kth in (0, 2, 4):
        part = dawdle.partition(V, kth).numpy()
        assert part[kth] == np.sort(V)[kth] and part[:kth].max(initial=-9) <= part[kth]
        assert V[dawdle.argpartition(V, kth).numpy()][kth] == part[kth]


def test_combinations(device):
    x = Tensor([1, 4, 9, 16])
    for r, again in ((2, False), (3, False), (2, True), (0, False), (5, False)):
        draw = itertools.combinations_with_replacement if again else itertools.combinations
        want = list(draw([1, 4, 9, 16], r))
        got = dawdle.combinations(x, r, again)
        assert got.shape == (len(want), r) and got.tolist() == [list(w) for w in want]


@pytest.mark.parametrize("name", windows.__all__)
def test_windows(name, device):
    torch = pytest.importorskip("torch")
    for n in (0, 1, 2, 7, 8):
        for periodic in (True, False):
            want = getattr(torch, name)(n, periodic, dtype=torch.float64).numpy()
            got = getattr(dawdle, name)(n, periodic, dtype="float64")
            np.testing.assert_allclose(got.numpy(), want, atol=1e-12)
    assert getattr(dawdle, name)(4, requires_grad=True).requires_grad
    assert getattr(dawdle, name)(window_length=4).dtype == "float32"
    with pytest.raises(ShapeError, match="negative"):
        getattr(dawdle, name)(-1)
    with pytest.raises(DTypeError, match="int32"):
        getattr(dawdle, name)(3, dtype="int32")


@pytest.mark.parametrize("call, error, words", [
    (lambda: dawdle.delete(V, 7), IndexingError, "delete.*7"),
    (lambda: dawdle.insert(V, 9, 1.0), IndexingError, "insert.*9"),
    (lambda: dawdle.convolve(A, V), ShapeError, "vectors"),
    (lambda: dawdle.correlate(V, W, "wide"), ArgumentError, "full, same, valid"),
    (lambda: dawdle.geomspace(-1, 1), ArgumentError, "one sign"),
    (lambda: dawdle.interp(0.5, V, W), ShapeError, "equal vectors"),
    (lambda: dawdle.average(A, 0, weights=W), ShapeError, "weights"),
    (lambda: dawdle.lexsort([]), ShapeError, "lexsort"),
])  # fmt: skip
def test_errors(call, error, words, device):
    with pytest.raises(error, match=words):
        call()
