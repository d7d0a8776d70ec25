"""Every row of the table against its reference: values, shapes, dtypes and gradients."""
from __future__ import annotations

import numpy as np
import pytest
from devices import WORKING
from rows import CASES, FAST, SLOW
from table import Row, torch

from dawdle import Tensor, config


def cases_on(device: str) -> list[tuple[Row, int]]:
    """The cases that run on a compiled device."""
    return FAST if device == "CPU" else SLOW


GRADIENTS = [(row, which) for row, which in CASES if row.gradient]
BATCH = 24  # cases whose kernels are compiled together
on_numpy = pytest.mark.parametrize("device", ["NUMPY"], indirect=True)  # test_batches covers the others
BATCHES = [
    (device, start)
    for device in WORKING
    if device != "NUMPY"
    for start in range(0, len(cases_on(device)), BATCH)
]


def label(case: object) -> str:
    return case.name if isinstance(case, Row) else str(case)


def as_list(out: object) -> list:
    return list(out) if isinstance(out, (tuple, list)) else [out]


def layouts(array: np.ndarray) -> list[Tensor]:
    """The same values as a plain tensor, and as the result of movements."""
    plain = Tensor(array)
    if array.ndim == 0:
        return [plain]
    doubled = Tensor(np.repeat(array[::-1], 2, 0))
    return [plain, doubled[::2].flip(0), Tensor(np.ascontiguousarray(array.T)).T]


@on_numpy
@pytest.mark.parametrize("row, which", CASES, ids=label)
def test_values(row, which):
    if not row.available:
        pytest.skip("the reference is PyTorch")
    for kind in row.kinds:
        arrays = row.inputs(which, kind)
        expected = [np.asarray(e) for e in as_list(row.expected(arrays))]
        for variant in range(3):
            operands = [layouts(a)[min(variant, len(layouts(a)) - 1)] for a in arrays]
            results = as_list(row.call(*operands))
            assert len(results) == len(expected)
            for got, want in zip(results, expected, strict=True):
                assert got.shape == want.shape
                assert got.dtype.kind == want.dtype.kind
                np.testing.assert_allclose(got.numpy(), want, rtol=row.tolerance, atol=row.tolerance)


def scalar(out: object, weights: list[np.ndarray]) -> Tensor:
    return sum((o * Tensor(w)).sum() for o, w in zip(as_list(out), weights, strict=True))


def numeric_gradient(row: Row, arrays: list[np.ndarray], index: int, weights: list[np.ndarray]) -> np.ndarray:
    """Central differences in float64: all displaced inputs of one operand."""
    out = np.zeros(arrays[index].shape)
    step = 1e-6
    for place in np.ndindex(arrays[index].shape):
        values = []
        for sign in (1, -1):
            moved = [a.copy() for a in arrays]
            moved[index][place] += sign * step
            values.append(scalar(row.call(*[Tensor(m) for m in moved]), weights).item())
        out[place] = (values[0] - values[1]) / (2 * step)
    return out


def is_leaf_input(array: np.ndarray) -> bool:
    return array.dtype.kind == "f"


@on_numpy
@pytest.mark.parametrize("row, which", GRADIENTS, ids=label)
def test_gradients(row, which):
    arrays = row.inputs(which)
    rng = np.random.default_rng(which)
    leaves = [Tensor(a, requires_grad=is_leaf_input(a)) for a in arrays]
    out = as_list(row.call(*leaves))
    weights = [rng.normal(size=o.shape) for o in out]
    loss = scalar(out, weights)
    if not loss.requires_grad:
        assert row.name == "** 0"
        return
    loss.backward()
    wanted = torch_gradients(row, arrays, weights)
    for i, leaf in enumerate(leaves):
        if not leaf.requires_grad or leaf.grad is None:
            assert wanted is None or wanted[i] is None or not is_leaf_input(arrays[i])
            continue
        assert leaf.grad.shape == leaf.shape and leaf.grad.dtype == leaf.dtype
        got = leaf.grad.numpy()
        if wanted is not None:
            np.testing.assert_allclose(got, wanted[i], rtol=1e-6, atol=1e-8)
        if wanted is None or arrays[i].size <= 12:
            np.testing.assert_allclose(got, numeric_gradient(row, arrays, i, weights), rtol=1e-4, atol=1e-6)


def torch_gradients(row: Row, arrays: list[np.ndarray], weights: list[np.ndarray]) -> list | None:
    if torch is None or row.torch_reference is None:
        return None
    leaves = [torch.tensor(a, requires_grad=is_leaf_input(a)) for a in arrays]
    out = as_list(row.torch_reference(*leaves))
    sum((o * torch.tensor(w)).sum() for o, w in zip(out, weights, strict=True)).backward()
    return [None if leaf.grad is None else leaf.grad.numpy() for leaf in leaves]


def results(row: Row, which: int) -> list[Tensor]:
    """The outputs and the gradients of a case, unrealised."""
    arrays = row.inputs(which, "float32")
    leaves = [Tensor(a, requires_grad=row.gradient and is_leaf_input(a)) for a in arrays]
    out = as_list(row.call(*leaves))
    rng = np.random.default_rng(which)
    loss = scalar(out, [rng.normal(size=o.shape).astype("float32") for o in out]) if row.gradient else None
    if loss is not None and loss.requires_grad:
        loss.backward()
    return [t.detach() for t in out] + [leaf.grad for leaf in leaves if leaf.grad is not None]


@pytest.mark.parametrize("device, start", BATCHES, indirect=["device"])
def test_batches(device, start):
    """Devices that compile give what the interpreter gives: values and gradients of every row."""
    cases = cases_on(device)[start : start + BATCH]
    mine = [results(row, which) for row, which in cases]
    with config.override(device="NUMPY"):
        oracle = [results(row, which) for row, which in cases]
    Tensor.realize(*[t for group in mine for t in group])
    Tensor.realize(*[t for group in oracle for t in group])
    for (row, which), got, want in zip(cases, mine, oracle, strict=True):
        for a, b in zip(got, want, strict=True):
            assert a.device == device and a.dtype is b.dtype
            words = f"{row.name} {row.shapes[which]}"
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=2e-5, err_msg=words)
