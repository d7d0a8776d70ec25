"""Data sets and the loader that cuts them into batches, prepared ahead by a background thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dawdle.errors import DataError
from dawdle.tensor import Tensor

Indices = NDArray[np.int64]
Batch = tuple[Tensor, ...]
_END = object()
_POLL_SECONDS = 0.05


@runtime_checkable
class Dataset(Protocol):
    """Anything with a length and samples: ``dataset[i]`` is one sample, an array or a tuple of arrays and
    numbers.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class ArrayDataset:
    """Arrays of equal length side by side: sample ``i`` is ``(array[i] for each array)``.

    ``transform`` maps a batch's NumPy arrays to others, for augmentation; it runs in the loader's thread.
    Raises DataError when there is no array, one has no axis, or their lengths differ.
    """

    def __init__(self, *arrays: Any, transform: Callable[..., Any] | None = None) -> None:
        self.arrays = tuple(a.numpy() if isinstance(a, Tensor) else np.asarray(a) for a in arrays)
        self.transform = transform
        lengths = [len(a) if a.ndim else None for a in self.arrays]
        if not lengths or None in lengths or len(set(lengths)) > 1:
            shapes = ", ".join(str(a.shape) for a in self.arrays)
            raise DataError(
                f"a data set needs arrays with equally long first axes, but got shapes [{shapes}]"
            )

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return tuple(a[0] for a in self.batch(np.asarray([index])))

    def batch(self, indices: Indices) -> tuple[NDArray[Any], ...]:
        """The samples at ``indices``, stacked."""
        arrays = tuple(a[indices] for a in self.arrays)
        return _as_arrays(self.transform(*arrays)) if self.transform else arrays


class DataLoader:
    """Iterates over a data set in batches: tuples of tensors, as many as a sample has parts.

    ``data`` is an array, a sequence of equally long arrays, or a :class:`Dataset`. With ``shuffle`` each
    epoch has its own order, a function of ``seed`` and the epoch's number, ``loader.epoch``, which each
    iteration counts up and which can be set to resume. ``drop_last`` leaves out an incomplete last batch.
    ``prefetch`` batches are prepared ahead by a thread that lives as long as the iteration; 0 prepares them
    when they are asked for. What the data set raises, the loop raises.
    """

    def __init__(
        self,
        data: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int | None = None,
        prefetch: int = 2,
        device: str | None = None,
    ) -> None:
        if batch_size < 1:
            raise DataError(f"batch_size must be at least 1, not {batch_size}")
        if prefetch < 0:
            raise DataError(f"prefetch must be at least 0, not {prefetch}")
        self.dataset = as_dataset(data)
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        self.prefetch = prefetch
        self.device = device
        self.epoch = 0

    def __len__(self) -> int:
        """Batches in an epoch."""
        whole, rest = divmod(len(self.dataset), self.batch_size)
        return whole + bool(rest and not self.drop_last)

    def __iter__(self) -> Iterator[Batch]:
        batches = self._make_batches(self.order(self.epoch))
        self.epoch += 1
        return _prefetched(batches, self.prefetch) if self.prefetch else batches

    def order(self, epoch: int) -> Indices:
        """The indices of the samples in the order in which the given epoch has them."""
        count = len(self.dataset)
        order = (
            np.random.default_rng((self.seed, epoch)).permutation(count) if self.shuffle else np.arange(count)
        )
        return order.astype(np.int64, copy=False)

    def _make_batches(self, order: Indices) -> Iterator[Batch]:
        for start in range(0, len(self) * self.batch_size, self.batch_size):
            arrays = _fetch(self.dataset, order[start : start + self.batch_size])
            yield tuple(Tensor(a, device=self.device) for a in arrays)


def as_dataset(data: Any) -> Dataset:
    """``data`` itself if it is a data set, else the arrays in it as an ArrayDataset."""
    if isinstance(data, (np.ndarray, Tensor)):
        return ArrayDataset(data)
    if isinstance(data, (tuple, list)) and data and all(isinstance(a, (np.ndarray, Tensor)) for a in data):
        return ArrayDataset(*data)
    if isinstance(data, Dataset):
        return data
    raise DataError(f"a data set needs __len__ and __getitem__, which {type(data).__name__} lacks")


def _as_arrays(parts: Any) -> tuple[NDArray[Any], ...]:
    return tuple(np.asarray(p) for p in parts) if isinstance(parts, (tuple, list)) else (np.asarray(parts),)


def _fetch(dataset: Dataset, indices: Indices) -> tuple[NDArray[Any], ...]:
    batch = getattr(dataset, "batch", None)
    return _as_arrays(batch(indices)) if batch else _collate([dataset[int(i)] for i in indices])


def _collate(samples: Sequence[Any]) -> tuple[NDArray[Any], ...]:
    """Stack samples part by part; Python floats become float32, as in ``Tensor``."""
    rows = [s if isinstance(s, tuple) else (s,) for s in samples]
    if len({len(row) for row in rows}) > 1:
        raise DataError(f"samples have different numbers of parts: {sorted({len(row) for row in rows})}")
    columns = [
        [p.numpy() if isinstance(p, Tensor) else p for p in column] for column in zip(*rows, strict=True)
    ]
    try:
        arrays = [np.stack([np.asarray(p) for p in column]) for column in columns]
    except ValueError as error:
        shapes = [sorted({np.shape(p) for p in column}) for column in columns]
        raise DataError(f"samples of different shapes can't be stacked into a batch: {shapes}") from error
    weak = [isinstance(column[0], float) and not isinstance(column[0], np.generic) for column in columns]
    return tuple(a.astype(np.float32) if w else a for a, w in zip(arrays, weak, strict=True))


def _prefetched(batches: Iterator[Batch], depth: int) -> Iterator[Batch]:
    """The same batches, made by a thread that stays at most ``depth`` ahead and ends with this generator."""
    ready: queue.Queue[Any] = queue.Queue(maxsize=depth)
    stopped = threading.Event()
    thread = threading.Thread(
        target=_produce, args=(batches, ready, stopped), name="dawdle-loader", daemon=True
    )
    thread.start()
    try:
        while (item := ready.get()) is not _END:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stopped.set()
        with suppress(queue.Empty):
            ready.get_nowait()  # wakes a producer that waits for room
        thread.join()


def _produce(batches: Iterator[Batch], ready: queue.Queue[Any], stopped: threading.Event) -> None:
    def put(item: Any) -> None:
        while not stopped.is_set():
            with suppress(queue.Full):
                ready.put(item, timeout=_POLL_SECONDS)
                break

    try:
        for batch in batches:
            put(batch)
            if stopped.is_set():
                return
        put(_END)
    except BaseException as error:
        put(error)
