"""Data sets, the loader, and MNIST."""

import gzip
import threading
import time

import numpy as np
import pytest

from dawdle import Tensor, nn
from dawdle.errors import DataError
from dawdle.nn.data import digits as source


def loader_threads():
    return [t for t in threading.enumerate() if t.name == "dawdle-loader"]


def batches(loader):
    return [tuple(t.numpy() for t in batch) for batch in loader]


class Squares:
    """A data set of samples with two parts, one a Python float."""

    def __len__(self):
        return 7

    def __getitem__(self, i):
        if not 0 <= i < 7:
            raise IndexError(i)
        return np.full(2, i, np.int32), float(i * i)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_arrays_come_in_order_and_whole(prefetch):
    x, y = np.arange(20, dtype=np.float32).reshape(10, 2), np.arange(10)
    loader = nn.DataLoader((x, y), batch_size=4, prefetch=prefetch)
    got = batches(loader)
    assert len(loader) == len(got) == 3
    assert [len(b) for b, _ in got] == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate([b for b, _ in got]), x)
    np.testing.assert_array_equal(np.concatenate([b for _, b in got]), y)
    assert got[0][0].dtype == np.float32 and got[0][1].dtype == np.int64


def test_drop_last():
    loader = nn.DataLoader(np.arange(10), batch_size=4, drop_last=True)
    assert len(loader) == len(batches(loader)) == 2


def test_samples_are_stacked():
    (first, value), *_ = batches(nn.DataLoader(Squares(), batch_size=3))
    np.testing.assert_array_equal(first, [[0, 0], [1, 1], [2, 2]])
    np.testing.assert_array_equal(value, [0, 1, 4])
    assert value.dtype == np.float32


def test_shuffling_is_a_function_of_seed_and_epoch():
    def orders(seed, epochs=2):
        loader = nn.DataLoader(np.arange(50), batch_size=8, shuffle=True, seed=seed)
        return [np.concatenate([b for (b,) in batches(loader)]).tolist() for _ in range(epochs)]

    a, b = orders(seed=3), orders(seed=3)
    assert a == b
    assert a[0] != a[1] and sorted(a[0]) == list(range(50))
    assert orders(seed=4) != a
    resumed = nn.DataLoader(np.arange(50), batch_size=8, shuffle=True, seed=3)
    resumed.epoch = 1
    assert np.concatenate([x for (x,) in batches(resumed)]).tolist() == a[1]


def test_an_exception_in_the_data_set_reaches_the_loop():
    class Broken(Squares):
        def __getitem__(self, i):
            if i == 4:
                raise KeyError("sample 4 is broken")
            return super().__getitem__(i)

    seen = 0
    with pytest.raises(KeyError, match="sample 4"):
        for _ in nn.DataLoader(Broken(), batch_size=2):
            seen += 1
    assert seen == 2
    assert not loader_threads()


def test_breaking_out_stops_the_thread():
    for _ in nn.DataLoader(np.arange(1000), batch_size=1):
        assert loader_threads()
        break
    assert not loader_threads()


def test_prefetching_is_bounded_and_runs_ahead():
    asked = []

    class Recording:
        def __len__(self):
            return 100

        def __getitem__(self, i):
            asked.append(i)
            return np.float32(i)

    iterator = iter(nn.DataLoader(Recording(), batch_size=1, prefetch=3))
    next(iterator)
    deadline = time.time() + 5
    while len(asked) < 5 and time.time() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    assert len(asked) == 5  # one taken, three in the queue, one waiting for room
    iterator.close()
    assert not loader_threads()


def test_transform_sees_whole_batches():
    data = nn.ArrayDataset(np.ones((6, 2), np.float32), np.arange(6), transform=lambda x, y: (x * 2, y + 1))
    got = batches(nn.DataLoader(data, batch_size=4))
    np.testing.assert_array_equal(got[0][0], np.full((4, 2), 2))
    np.testing.assert_array_equal(got[1][1], [5, 6])
    assert data[1][0].shape == (2,) and data[1][1] == 2


def test_a_tensor_is_a_data_set():
    (got,) = batches(nn.DataLoader(Tensor([1.0, 2.0]), batch_size=2))
    np.testing.assert_array_equal(got[0], [1, 2])


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: nn.DataLoader((np.zeros(3), np.zeros(4))), "equally long"),
        (lambda: nn.DataLoader(np.zeros(())), "first axes"),
        (lambda: nn.DataLoader(np.zeros(3), batch_size=0), "batch_size"),
        (lambda: nn.DataLoader(np.zeros(3), prefetch=-1), "prefetch"),
        (lambda: nn.DataLoader(42), "__len__"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(DataError, match=message):
        make()


def test_samples_of_different_shapes():
    class Ragged(Squares):
        def __getitem__(self, i):
            return np.zeros(i + 1)

    with pytest.raises(DataError, match="different shapes"):
        batches(nn.DataLoader(Ragged(), batch_size=2))


def test_embedded_digits():
    data = nn.mnist()
    assert data.train_images.shape == (5000, 28, 28) and data.train_images.dtype == np.uint8
    assert data.test_images.shape == (1000, 28, 28)
    assert np.bincount(data.train_labels).tolist() == [500] * 10
    assert np.bincount(data.test_labels).tolist() == [100] * 10
    centres = np.stack([data.train_images[data.train_labels == d].mean(0).ravel() for d in range(10)])
    distances = ((data.test_images.reshape(1000, 1, 784) - centres) ** 2).sum(-1)
    assert (distances.argmin(1) == data.test_labels).mean() > 0.75  # images and labels belong together
    assert (source.Path(source.__file__).parent / source.EMBEDDED).stat().st_size <= 1_000_000


def idx(array):
    return (
        bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()
    )


@pytest.fixture
def tiny_mnist(tmp_path, monkeypatch):
    """A folder with four small IDX files, and checksums that fit them."""
    rng, folder, sums = np.random.default_rng(0), tmp_path / "mnist", {}
    folder.mkdir()
    for name, count in zip(source.CHECKSUMS, (6, 6, 3, 3), strict=True):
        shape = (count, 28, 28) if "images" in name else (count,)
        content = idx(rng.integers(0, 10, shape, dtype=np.uint8))
        (folder / name).write_bytes(gzip.compress(content))
        sums[name] = source.hashlib.sha256(content).hexdigest()
    monkeypatch.setattr(source, "CHECKSUMS", sums)
    return folder


def test_full_set_from_a_folder(tiny_mnist, monkeypatch):
    data = nn.mnist("full", root=tiny_mnist)
    assert data.train_images.shape == (6, 28, 28) and data.test_labels.dtype == np.int64
    monkeypatch.setenv("DAWDLE_DATA", str(tiny_mnist.parent))
    np.testing.assert_array_equal(nn.mnist("full").train_images, data.train_images)


def test_damaged_files_are_refused(tiny_mnist):
    path = tiny_mnist / "t10k-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(idx(np.zeros(3, np.uint8))))
    with pytest.raises(DataError, match="checksum"):
        nn.mnist("full", root=tiny_mnist)
    path.write_bytes(path.read_bytes()[:10])
    with pytest.raises(DataError, match="damaged"):
        nn.mnist("full", root=tiny_mnist)
    path.unlink()
    with pytest.raises(DataError, match="lacks"):
        nn.mnist("full", root=tiny_mnist)


def test_download(tiny_mnist, tmp_path, monkeypatch):
    """The first mirror serves damaged files, the second good ones; then nothing more is fetched."""
    bad, cache = tmp_path / "bad", tmp_path / "cache"
    bad.mkdir()
    for name in source.CHECKSUMS:
        (bad / name).write_bytes(gzip.compress(b"something else"))
    monkeypatch.setattr(source, "_candidates", lambda: [cache])
    monkeypatch.setattr(source, "_cache_folder", lambda: cache)
    monkeypatch.setattr(source, "MIRRORS", (bad.as_uri() + "/", tiny_mnist.as_uri() + "/"))
    assert nn.mnist("full").train_images.shape == (6, 28, 28)
    assert sorted(p.name for p in cache.iterdir()) == sorted(source.CHECKSUMS)
    monkeypatch.setattr(source, "MIRRORS", ())
    assert nn.mnist("full").test_images.shape == (3, 28, 28)


def test_offline(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "_candidates", list)
    monkeypatch.setattr(source, "_cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(source, "MIRRORS", ((tmp_path / "nowhere").as_uri() + "/",))
    with pytest.raises(DataError, match="embedded"):
        nn.mnist("full")
    assert not list((tmp_path / "cache").iterdir())
    with pytest.raises(DataError, match="download=False"):
        nn.mnist("full", download=False)


def test_unknown_subset_and_bad_idx():
    with pytest.raises(DataError, match="embedded"):
        nn.mnist("half")
    with pytest.raises(DataError, match="not an IDX"):
        source.parse_idx(b"\x00\x00\x0d\x01")
    with pytest.raises(DataError, match="truncated"):
        source.parse_idx(idx(np.zeros(5, np.uint8))[:-1])
