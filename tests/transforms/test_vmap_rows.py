"""vmap of every row of the op table gives what a loop over the batch gives, with gradients."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from devices import WORKING
from rows import ALL, ROWS
from table import DOMAINS, Row

from dawdle import Tensor, config, vmap
from dawdle.errors import TransformError
from dawdle.tree import flatten

SIZE = 3
MAPPED = [r for r in ROWS if all(r.shapes)]  # those with operands
CASES = [(r, i) for r in MAPPED for i in range(len(r.shapes))[: None if ALL else 1]]
GRADIENTS = [(r, 0) for r in MAPPED if r.gradient and (ALL or zlib.crc32(r.name.encode()) % 3 == 0)]
COMPILED = [(r, i) for r, i in CASES if i == 0 and zlib.crc32(r.name.encode()) % 25 == 0]
BATCH = 10
READS = "the value of a tensor was asked for inside of vmap"


def label(case: object) -> str:
    return case.name if isinstance(case, Row) else str(case)


def batches(row: Row, which: int, kind: str) -> list[np.ndarray]:
    """For each operand SIZE draws."""
    rng = np.random.default_rng([which, zlib.crc32(row.name.encode())])
    shapes = row.shapes[which]
    domains = (row.domain,) * len(shapes) if isinstance(row.domain, str) else row.domain
    pairs = zip(domains, shapes, strict=True)
    drawn = [np.stack([DOMAINS[d](rng, s) for _ in range(SIZE)]) for d, s in pairs]
    return [a.astype(kind) if a.dtype.kind == "f" else a for a in drawn]


def variants(count: int) -> list[tuple[int | None, ...]]:
    """Which operands are mapped: all, or a single one of several."""
    single = [tuple(0 if i == j else None for i in range(count)) for j in range(count)]
    return [(0,) * count, *(single if count > 1 else [])]


def mapped(row: Row, arrays: list[np.ndarray], dims: tuple[int | None, ...], leaves: list[Tensor]) -> list:
    """The results for the whole batch, or none where the row needs values, which must then be said."""
    try:
        return flatten(vmap(row.call, in_dims=dims, randomness="different")(*leaves))[0]
    except TransformError as error:
        assert READS in str(error)
        return []


def looped(row: Row, leaves: list[Tensor], dims: tuple[int | None, ...]) -> list[list[Tensor]]:
    rows = [
        flatten(row.call(*[x if d is None else x[i] for x, d in zip(leaves, dims, strict=True)]))[0]
        for i in range(SIZE)
    ]
    return [list(column) for column in zip(*rows, strict=True)]


def operands(arrays: list[np.ndarray], dims: tuple[int | None, ...], gradient: bool) -> list[Tensor]:
    parts = [a[0] if d is None else a for a, d in zip(arrays, dims, strict=True)]
    return [Tensor(a, requires_grad=gradient and a.dtype.kind == "f") for a in parts]


@pytest.mark.parametrize("row, which", CASES, ids=label)
def test_values(row, which):
    with config.override(device="NUMPY"):
        arrays = batches(row, which, row.kinds[0])
        for dims in variants(len(arrays)):
            leaves = operands(arrays, dims, False)
            got = mapped(row, arrays, dims, leaves)
            if not got:
                continue
            want = looped(row, leaves, dims)
            assert len(got) == len(want)
            for g, w in zip(got, want, strict=True):
                assert g.dtype is w[0].dtype and g.shape == (SIZE, *w[0].shape)
                expected = np.stack([t.numpy() for t in w])
                np.testing.assert_allclose(g.numpy(), expected, rtol=1e-5, atol=1e-6)


def total(results: list[Tensor], weights: list[np.ndarray]) -> Tensor:
    return sum((t * Tensor(w)).sum() for t, w in zip(results, weights, strict=True) if t.dtype.is_float)


@pytest.mark.parametrize("row, which", GRADIENTS, ids=label)
def test_gradients(row, which):
    """With respect to the batch, and to an operand that all elements share."""
    rng = np.random.default_rng(which)
    with config.override(device="NUMPY"):
        arrays = batches(row, which, "float64")
        for dims in variants(len(arrays)):
            leaves, others = operands(arrays, dims, True), operands(arrays, dims, True)
            got = mapped(row, arrays, dims, leaves)
            if not got:
                continue
            weights = [rng.normal(size=t.shape) for t in got]
            losses = [total(got, weights)]
            for i in range(SIZE):
                one = row.call(*[x if d is None else x[i] for x, d in zip(others, dims, strict=True)])
                losses.append(total(flatten(one)[0], [w[i] for w in weights]))
            if not losses[0].requires_grad:
                assert not sum(losses[1:]).requires_grad
                continue
            losses[0].backward()
            sum(losses[1:]).backward()
            for a, b in zip(leaves, others, strict=True):
                assert not a.numel() or (a.grad is None) == (b.grad is None)
                if a.grad is not None and b.grad is not None:
                    np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-6, atol=1e-8)


def test_few_rows_need_values():
    """That rows may be left out above must not hide that many are."""
    with config.override(device="NUMPY"):
        needed = []
        for row in MAPPED:
            arrays = batches(row, 0, row.kinds[0])
            leaves = operands(arrays, (0,) * len(arrays), False)
            if not mapped(row, arrays, (0,) * len(arrays), leaves):
                needed.append(row.name)
    counted = ("masked_select", "nonzero", "unique", "argwhere", "bincount", "one_hot inferred")
    allowed = (*counted, "allclose", "equal")
    assert [name for name in needed if not any(word in name for word in allowed)] == []


@pytest.mark.parametrize("device", [d for d in WORKING if d != "NUMPY" if d == "CPU" or ALL], indirect=True)
@pytest.mark.parametrize("start", range(0, len(COMPILED), BATCH))
def test_compiled(start, device):
    """A sample of the rows, compiled together, with gradients."""
    cases = COMPILED[start : start + BATCH]
    sides = []
    for name in (device, "NUMPY"):
        with config.override(device=name):
            sides.append([results(row, which) for row, which in cases])
            Tensor.realize(*[t for found in sides[-1] for t in found])
    for (row, _), got, want in zip(cases, *sides, strict=True):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            assert a.device == device and a.dtype is b.dtype
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=2e-5, err_msg=row.name)


def results(row: Row, which: int) -> list[Tensor]:
    arrays = batches(row, which, "float32")
    dims = (0,) * len(arrays)
    leaves = operands(arrays, dims, row.gradient)
    out = mapped(row, arrays, dims, leaves)
    if out and row.gradient and (loss := total(out, [np.ones(t.shape, "f") for t in out])).requires_grad:
        loss.backward()
    return [t.detach() for t in out] + [x.grad for x in leaves if x.grad is not None]
