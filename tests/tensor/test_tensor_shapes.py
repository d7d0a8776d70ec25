"""What functions of shape, creation and places refuse, and the dtypes that they keep."""
from __future__ import annotations

import numpy as np
import pytest

import dawdle
from dawdle import Tensor
from dawdle.errors import ArgumentError, IndexingError, RangeError, ShapeError

X = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize("call, words", [
    (lambda x: x.t(), "at most two dimensions"),
    (lambda x: x.movedim((0, 1), 0), "each named once"),
    (lambda x: x.movedim((0, 0), (1, 2)), "each named once"),
    (lambda x: x.rot90(1, (0, -3)), "are the same"),
    (lambda x: x.roll((1, 2)), "several shifts need a dim"),
    (lambda x: x.roll((1, 2), (0,)), "2 shifts for 1 dims"),
    (lambda x: x.pad((4, 0), mode="reflect"), "too much for mode 'reflect'"),
    (lambda x: x.pad((5, 0), mode="circular"), "too much for mode 'circular'"),
    (lambda x: x.pad((1, 0), mode="mirror"), "mode 'mirror' is unknown"),
    (lambda x: x.pad((1, 0), mode="reflect", value=2), "takes no value"),
    (lambda x: x.pad((1,)), "a flat list holds"),
    (lambda x: x.pad(((1, 1),)), "1 pairs for the 3 dimensions"),
    (lambda x: x.pad((-3, -3)), "remove more"),
    (lambda x: x.repeat_interleave([1, 2], 1), "2 repeats for dimension 1"),
    (lambda x: x.repeat_interleave(-1), "numbers from 0 on"),
    (lambda x: x.diag(), "a vector or a matrix"),
    (lambda x: x.trace(), "takes a matrix"),
    (lambda x: x.diag_embed(0, 1, 1), "are the same"),
    (lambda x: Tensor(1.0).diag_embed(), "at least one dimension"),
    (lambda x: Tensor(1.0).unbind(), "no slices"),
    (lambda x: Tensor(1.0).split(1), "no slices"),
    (lambda x: Tensor(1.0).unflatten(0, (1,)), "no slices"),
    (lambda x: Tensor(1.0).take_along_dim(Tensor(0), 0), "no slices"),
    (lambda x: Tensor(1.0).unique(dim=0), "no slices"),
    (lambda x: x.as_strided((5,), (6,)), "reach from element 0 to 24"),
    (lambda x: x.as_strided((5,), (6, 1)), "1 sizes"),
    (lambda x: x.as_strided((2,), (-1,)), "reach from element -1"),
    (lambda x: x.tensor_split(0), "must be positive"),
    (lambda x: x.hsplit(2), "doesn't split into 2 equal parts"),
    (lambda x: x[0, 0].dsplit(2), "at least 3 dimensions"),
    (lambda x: Tensor.cat([]), "at least one tensor"),
    (lambda x: Tensor.cat([x, x[0]]), "differ elsewhere"),
    (lambda x: Tensor.stack([x, x[0]]), "differ"),
    (lambda x: dawdle.block_diag(x), "takes matrices"),
    (lambda x: dawdle.cartesian_prod(x), "takes vectors"),
    (lambda x: dawdle.meshgrid(x[0, 0], indexing="zz"), "'ij' or 'xy'"),
    (lambda x: dawdle.meshgrid(x), "takes vectors"),
    (lambda x: dawdle.broadcast_shapes((2,), (3,)), "don't broadcast"),
    (lambda x: x.pixel_shuffle(2), "no multiple of 2"),
    (lambda x: x.unsqueeze(0).interpolate(scale_factor=float("inf")), "must be finite"),
    (lambda x: x.pixel_unshuffle(2), "no multiples of 2"),
    (lambda x: x[0].pixel_shuffle(1), "needs channels"),
    (lambda x: x.scatter(0, [[[0]]], 1.0, reduce="mean"), "'add' or 'multiply'"),
    (lambda x: x.scatter_reduce(0, [[[0]]], x, "median"), "is one of sum, mean, prod, amax and amin"),
    (lambda x: x.index_add(0, [0], x), "for slices of shape"),
    (lambda x: x.index_select(0, [[0]]), "one dimension"),
    (lambda x: x.take_along_dim(Tensor([0]), 0), "needs as many dimensions"),
    (lambda x: x.gather(0, [0]), "exceeds"),
    (lambda x: x.diagonal_scatter(x), "for a diagonal of shape"),
    (lambda x: x.vander(), "takes a vector"),
    (lambda x: Tensor.arange(0, 1, 0), "step must not be 0"),
    (lambda x: Tensor.linspace(0, 1, -1), "not be negative"),
    (lambda x: Tensor.arange(0, float("inf")), "no finite number"),
    (lambda x: Tensor.full((-1,), 0), "negative sizes"),
])  # fmt: skip
def test_shapes_that_do_not_fit(call, words):
    with pytest.raises((ArgumentError, ShapeError), match=words):
        call(Tensor(X))


@pytest.mark.parametrize("formula, sizes, words", [
    ("a b c", {}, "one '->'"),
    ("a b -> a", {}, "names 2 dimensions"),
    ("a b c -> a b", {}, "the same dimensions"),
    ("a b b -> a b b", {}, "doesn't split"),
    ("(a d) b c -> a b c d", {}, "all but one"),
    ("a b (c -> a b c", {}, "match"),
    ("a b c) -> a b c", {}, "match"),
    ("a (b d) c -> a b c d", {"d": 2}, "doesn't split"),
    ("a b c! -> a b", {}, "is no name"),
    ("a b c -> c b a", {"d": 2}, "has no dimensions"),
    ("(a d) b c -> a b c d", {"d": -1}, "integer from 0 on"),
    ("(a d) b c -> a b c d", {"d": "2"}, "integer from 0 on"),
    ("... a ... -> a ...", {}, "several '...'"),
    ("a b 1 -> a b", {}, "doesn't split"),
    ("a b c d ... -> a", {}, "more dimensions"),
])  # fmt: skip
def test_formulas_that_do_not_fit(formula, sizes, words):
    with pytest.raises(ShapeError, match=words):
        Tensor(X).rearrange(formula, **sizes)


def test_narrow_and_values_out_of_range():
    x = Tensor(X)
    for start in (-5, 3, 4):
        with pytest.raises(IndexingError, match="are not within a dimension of size 4"):
            x.narrow(2, start, 2)
    with pytest.raises(RangeError, match="300 is out of the range of uint8"):
        Tensor.zeros(2, dtype="uint8").index_fill(0, [0], 300)


KINDS = ["bool", "uint8", "int16", "int64", "uint64", "float16", "bfloat16", "float64"]


@pytest.mark.parametrize("kind", KINDS)
def test_movements_keep_every_dtype(kind):
    x = Tensor([[1, 0, 3], [0, 5, 1]], dtype=kind)
    a = x.numpy()
    moved = [
        (x.roll(1, 0), np.roll(a, 1, 0)),
        (x.triu(1), np.triu(a, 1)),
        (x.pad((1, 1)), np.pad(a, ((0, 0), (1, 1)))),
        (x.pad((1, 1), value=1.0), np.pad(a, ((0, 0), (1, 1)), constant_values=1)),
        (x.pad((1, 1), "reflect"), np.pad(a, ((0, 0), (1, 1)), "reflect")),
        (x[0].diag(), np.diag(a[0])),
        (x.rot90(), np.rot90(a)),
        (x.gather(1, [[0], [2]]), a[[[0], [1]], [[0], [2]]]),
        (x.scatter(1, [[2], [0]], x), np.stack([a[0, [0, 1, 0]], a[1, [0, 1, 2]]])),
        (x.repeat_interleave([1, 2], 0), np.repeat(a, [1, 2], 0)),
        (Tensor.cat([x, x]), np.concatenate([a, a])),
        (x.unfold(1, 2, 1), np.lib.stride_tricks.sliding_window_view(a, 2, 1)),
        (x.as_strided((2, 2), (1, 2)), a.ravel()[[[0, 2], [1, 3]]]),
        (x.take([5]), a.ravel()[[5]]),
        (x.masked_scatter(x != 0, x + x), np.where(a != 0, (a + a).ravel()[[[0, 0, 1], [0, 2, 3]]], a)),
        (x.tile(2), np.tile(a, 2)),
        (x.fill(1), np.ones_like(a)),
    ]
    for got, want in moved:
        assert got.dtype.name == kind
        np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_scatters_keep_every_dtype(kind):
    x = Tensor([[1, 0, 3], [0, 5, 1]], dtype=kind)
    results = {"sum": 2, "prod": 0, "mean": 0 if x.dtype.is_int else 2 / 3, "amax": 1, "amin": 0}
    for how, first in results.items():
        y = x.scatter_reduce(1, [[0, 0, 1], [2, 2, 1]], x, how)
        assert y.dtype.name == kind
        assert y[0, 0].item() == pytest.approx(first, rel=4e-3)
