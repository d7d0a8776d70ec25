"""Indexing: any key against NumPy, and indices out of range, whoever knows them."""
from __future__ import annotations

import numpy as np
import pytest
from devices import WORKING
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dawdle
from dawdle import Tensor, config, jit
from dawdle.errors import DTypeError, IndexingError, ShapeError
from dawdle.runtime import executor
from dawdle.runtime.device import get_device

on_numpy = pytest.mark.parametrize("device", ["NUMPY"], indirect=True)


@st.composite
def cases(draw):
    """An array's shape, and a key for it that NumPy takes."""
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    common = draw(st.sampled_from([(), (1,), (3,), (2, 3), (0,)]))  # what the index arrays broadcast to
    parts, axis = [], 0
    dots = draw(st.sampled_from([None, 0, 1, 2]))
    end = len(shape)
    masks = [draw(st.booleans())]  # at most one with several dimensions, so that they broadcast
    while axis < end:
        kinds = ["slice", "slice", "int", "array", "none", "stop", "mask", "truth"]
        kind = draw(st.sampled_from(kinds))
        n = shape[axis]
        if len(parts) == dots:
            parts.append(...)
            dots = None
            axis += draw(st.integers(0, end - axis))
            continue
        if kind == "stop":
            break
        if kind == "none":
            parts.append(None)
        elif kind == "slice":
            bound = st.none() | st.integers(-n - 2, n + 2)
            step = draw(st.none() | st.sampled_from([1, 2, 3, -1, -2, -3]))
            parts.append(slice(draw(bound), draw(bound), step))
            axis += 1
        elif kind == "truth" and common in ((), (1,)):
            parts.append(draw(st.sampled_from([True, np.True_, np.array(True)])))
        elif kind == "mask" and masks and common in ((), (1,)):
            masks.clear()
            count = draw(st.integers(1, end - axis))
            mask = np.zeros(shape[axis : axis + count], bool)
            if mask.size:
                mask.flat[draw(st.integers(0, mask.size - 1))] = True
            parts.append(mask)
            axis += count
        elif n and kind == "int":
            parts.append(draw(st.integers(-n, n - 1)))
            axis += 1
        elif n and kind == "array":
            own = tuple(m if draw(st.booleans()) else 1 for m in common)[draw(st.integers(0, len(common))) :]
            values = draw(st.lists(st.integers(-n, n - 1), min_size=int(np.prod(own)),
            max_size=int(np.prod(own))))
            parts.append(np.array(values, draw(st.sampled_from([np.int64, np.int32, np.int8]))).reshape(own))
            axis += 1
    return shape, tuple(parts), axis


def ours(draw, key):
    """The same key with some of the arrays as tensors."""
    convert = (Tensor, lambda k: k, lambda k: k.tolist() if k.ndim else k)
    return tuple(draw(st.sampled_from(convert))(k) if isinstance(k,
        np.ndarray) and k.size else k for k in key)


def numpys(a, key):
    """What NumPy makes of it; None for what it doesn't take."""
    try:
        return a[key]
    except IndexError:
        return None


@on_numpy
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_reading_as_numpy(device, data):
    shape, key, _ = data.draw(cases())
    a = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    want = numpys(a, key)
    if want is None:
        with pytest.raises((IndexingError, ShapeError)):
            Tensor(a)[key].numpy()
        return
    try:
        got = Tensor(a)[ours(data.draw, key)]
        assert got.shape == want.shape
        np.testing.assert_array_equal(got.numpy(), want)
    except IndexingError:
        assert not want.size  # then NumPy doesn't look at the other indices


@on_numpy
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_writing_as_numpy(device, data):
    shape, key, _ = data.draw(cases())
    a = (np.arange(np.prod(shape, dtype=int)) * 10).reshape(shape)
    part = numpys(a, key)
    if part is None:
        return
    x, before = Tensor(a), a.copy()
    kept = data.draw(st.integers(0, part.ndim))  # last dimensions that the value has
    wide = tuple(n if data.draw(st.booleans()) else 1 for n in part.shape[part.ndim - kept :])
    strict = not isinstance(part, np.ndarray) or (len(key) == 1 and np.asarray(key[0]).dtype == bool)
    ones = () if strict else (1,) * data.draw(st.integers(0, 2))  # NumPy wants no more dimensions there
    value = np.arange(1, 1 + np.prod(wide, dtype=int)).reshape(ones + wide)
    old = x + 0
    try:
        if data.draw(st.booleans()):
            a[key] = value
            x[ours(data.draw, key)] = Tensor(value)
        else:
            a[key] += 7
            x[ours(data.draw, key)] += 7
        np.testing.assert_array_equal(x.numpy(), a)
    except IndexingError:
        assert not np.size(part)
    np.testing.assert_array_equal(old.numpy(), before)


# ---- out of range


def test_numbers_are_checked_at_once():
    x = Tensor.ones(3, 4)
    for bad in (3, -4, [0, 3], np.array([[-4]]), (slice(None), [4]), (0, -5)):
        with pytest.raises(IndexingError, match="out of range for dimension"):
            x[bad]
    for key, words in (((0, 0, 0), "too many indices"), ((..., ...), "single ellipsis"),
        (1.5, "can't index with float"), ([[0], [0, 1]], "must have one length"),
                       ("a", "can't index with str"), (Tensor([1.0]), "must hold integers"),
                       ([1.5], "must hold integers"),
                       (np.array([True]), "doesn't fit"), (slice(0, 1, 0), "bad slice")):  # fmt: skip
        with pytest.raises(IndexingError, match=words):
            x[key]
    with pytest.raises(IndexingError, match="gather: index 4 is out of range for dimension 1 of size 4"):
        x.gather(1, [[0, 4]])
    with pytest.raises(DTypeError, match="needs an integer index"):
        x.gather(1, Tensor([[0.0]]))


OUTSIDE = {
    "getitem": lambda x, i: x[i],
    "two arrays": lambda x, i: x.T[Tensor([0, 0]), i],  # together they would still be inside
    "gather": lambda x, i: x.gather(0, i.reshape(1, 2)),
    "take": lambda x, i: x.take(i * 4),
    "index_select": lambda x, i: x.index_select(0, i),
    "take_along_dim": lambda x, i: x.take_along_dim(i.reshape(2, 1), 0),
    "scatter": lambda x, i: x.scatter(0, i.reshape(1, 2), 5.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i.reshape(1, 2), Tensor.ones(1, 2)),
    "index_add": lambda x, i: x.index_add(0, i, Tensor.ones(2, 4)),
    "index_put": lambda x, i: x.index_put((i,), 5.0, accumulate=True),
    "put": lambda x, i: x.put(i * 4, Tensor.ones(2)),
    "one_hot": lambda x, i: i.one_hot(3),
    "setitem": lambda x, i: written(x, i),
}


def written(x, i):
    x = x * 1
    x[i] = 2.0
    return x


@pytest.mark.parametrize("name", OUTSIDE)
def test_indices_in_tensors_are_checked_when_they_are_computed(name):
    x = Tensor.arange(12.0).reshape(3, 4)
    assert OUTSIDE[name](x, Tensor([2, 0])).numpy().size
    for bad in (3, 99, -5):
        out = OUTSIDE[name](x, Tensor([bad, 0]))
        with pytest.raises(IndexingError, match=r"index -?\d+ is out of range for a dimension of size \d+"):
            out.numpy()


@pytest.mark.parametrize("kind, bad", [("uint8", 255), ("int8", -128), ("int32", 2**31 - 1),
    ("int64", -(2**63)),
    ("int64", 2**63 - 1), ("uint64", 2**63 + 1), ("uint32", 2**32 - 1)])  # fmt: skip
def test_the_message_names_the_value_as_it_was_given(kind, bad):
    x = Tensor.ones(100, 2)
    shown = bad if bad < 2**63 else bad - 2**64  # the flag is signed
    with pytest.raises(IndexingError,
        match=rf"index ({bad}|{shown}) is out of range for a dimension of size 100"):
        x[Tensor([0, bad], dtype=kind)].numpy()


def test_computed_indices_and_gradients_are_checked():
    x = Tensor.ones(4, 3, requires_grad=True)
    place = (Tensor([[0.5, 3.0], [2.0, 1.0]]) * 2).long().sum(1)  # 7 and 6
    x[place - 5].sum().backward()
    np.testing.assert_array_equal(x.grad.numpy().sum(1), [0, 3, 3, 0])
    x.grad = None
    x[place].sum().backward()
    with pytest.raises(IndexingError, match="index 7 is out of range for a dimension of size 4"):
        x.grad.numpy()


def test_jitted_functions_check_in_every_replay():
    table = Tensor.arange(10.0).reshape(5, 2)
    total = Tensor.zeros(())

    @jit
    def step(i):
        nonlocal total
        total.assign(total + table[i].sum())
        return table[i] * 2

    for good in ([0, 1], [4, -5]):
        np.testing.assert_array_equal(step(Tensor(good)).numpy(), table.numpy()[good] * 2)
    before = total.item()
    with pytest.raises(IndexingError, match="index 5 is out of range for a dimension of size 5"):
        step(Tensor([0, 5])).numpy()
    np.testing.assert_array_equal(step(Tensor([2, 2])).numpy(), table.numpy()[[2, 2]] * 2)
    assert total.item() >= before


def test_an_error_is_raised_once_and_other_values_stay_readable():
    x = Tensor.arange(4.0)
    out = x[Tensor([9])]
    with pytest.raises(IndexingError):
        out.numpy()
    assert (x + 1).tolist() == [1, 2, 3, 4]
    assert x[Tensor([3])].tolist() == [3]


@pytest.mark.parametrize("name", sorted(set(OUTSIDE) - {"one_hot"}))
def test_without_checks_nothing_outside_is_touched(name):
    with config.override(check=0):
        out = OUTSIDE[name](Tensor.arange(12.0).reshape(3, 4), Tensor([10**6, -(10**6)])).numpy()
    assert np.isfinite(out).all() and out.max() < 100


def test_an_embedding_out_of_range_raises():
    layer = dawdle.nn.Embedding(10, 4)
    assert layer(Tensor([[0, 9]])).numpy().shape == (1, 2, 4)
    with pytest.raises(IndexingError, match="index 10 is out of range"):
        layer(Tensor([[0, 10]])).numpy()


@pytest.mark.parametrize("device", [d for d in WORKING if d in ("CPU", "NUMPY")], indirect=True)
def test_small_parts_of_known_values_are_read_without_kernels(device, monkeypatch):
    x = Tensor.arange(60.0).reshape(5, 12).realize()
    monkeypatch.setattr(executor, "compile_graph", lambda *_: pytest.fail("compiled"))
    assert [x[i, 3].item() for i in range(5)] == [3, 15, 27, 39, 51]
    assert x[3].tolist() == list(range(36, 48))
    np.testing.assert_array_equal(x[1:4:2, ::-5].T.numpy(), x.numpy()[1:4:2, ::-5].T)
    assert repr(x[0, :2]) == "Tensor([0., 1.], dtype=float32)"


def test_printing_names_where_a_value_comes_from_and_leaves_out_the_middle():
    x = Tensor([1.0, 2.0], requires_grad=True)
    assert repr(x * 2) == "Tensor([2., 4.], dtype=float32, grad_fn=<mul>)"
    text = repr(Tensor.zeros(2000))
    assert "..., " in text and "shape=(2000,)" in text and len(text) < 120


@pytest.mark.parametrize("loss", ["cross_entropy", "nll_loss"])
def test_labels_that_are_no_classes_raise(loss):
    x = Tensor([[0.5, 1.0, -1.0], [2.0, 0.0, 1.0]]).log_softmax(1)
    assert np.isfinite(getattr(x, loss)(Tensor([2, -100])).item())
    for bad in (3, -1):
        with pytest.raises(IndexingError,
        match=f"{loss}: index {bad} is out of range for a dimension of size 3"):
            getattr(x, loss)(Tensor([bad, 0])).item()


@pytest.mark.parametrize("device", [d for d in WORKING if d == "CPU"], indirect=True)
def test_devices_that_run_behind_raise_when_a_value_is_read(device, monkeypatch):
    """As OpenCL's and CUDA's do, which keep the worst index of all runs."""
    monkeypatch.setattr(type(get_device(device)), "runs_behind", True)
    table = Tensor.arange(10.0).reshape(5, 2).realize()

    @jit
    def row(i):
        return table[i] + 1

    row(Tensor([0])).numpy()
    results = [row(Tensor([i])) for i in (1, 7, 2, -5)]
    with pytest.raises(IndexingError, match="index 7 is out of range for a dimension of size 5"):
        results[-1].numpy()
    assert results[-1].tolist() == [[1, 2]] and results[0].tolist() == [[3, 4]]
    row(Tensor([-6]))
    with pytest.raises(IndexingError, match="index -6"):
        (table + 1).numpy()
    assert row(Tensor([4])).tolist() == [[9, 10]]
