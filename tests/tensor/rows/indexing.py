"""Reading and writing at places."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from table import CUBE, row, torch

from dawdle import Tensor

I1, I2 = np.array([2, 0, -1, 2]), np.array([[0, 1], [1, -2]])
for name, key in {
    "int": 1, "negative int": (-1, 0), "slice": (slice(None), slice(1, 3)), "step": (0, slice(None, None, 2)),
    "negative step": (slice(None, None, -1), slice(None, None, -2)), "empty": (slice(2, 1),),
    "ellipsis": (..., 1),
    "none": (None, 0, None, ..., None), "reversed range": (slice(None), slice(2, 0, -1)),
    "whole": (slice(None),),
}.items():  # fmt: skip
    row(f"getitem {name}", lambda a, key=key: a[key], lambda a, key=key: a[key], shapes=CUBE)
for name, key in {
    "array": (I2,), "list": ([1, 0, 1],), "array last": (..., I1), "two arrays": (I2, I2), "apart": (I2,
    slice(1, 3), I2),
    "array and int": (slice(None), I1 % 3, 1), "broadcast arrays": (np.array([[0], [1]]), np.array([0, 2])),
    "empty array": (np.zeros(0, int),), "mask": (np.array([True, False]),), "mask and none": (None,
    np.array([False, True])),
}.items():  # fmt: skip
    row(f"getitem {name}", lambda a, key=key: a[tuple(key)],
        lambda a, key=key: a[tuple(np.asarray(k) if isinstance(k, list) else k for k in key)],
            shapes=CUBE)  # fmt: skip
row("getitem mask of shape", lambda a: a[np.arange(24).reshape(2, 3, 4) % 5 == 0],
    lambda a: a[np.arange(24).reshape(2, 3, 4) % 5 == 0], shapes=CUBE)  # fmt: skip
row("embedding", lambda w, i: w[i], lambda w, i: w[i], None, shapes=(((6, 3), (2, 5)),), domain=("normal",
    "count"))
row("gather", lambda a, i: a.gather(1, i % 4), None, lambda a, i: a.gather(1, i % 4),
    shapes=(((3, 4), (3, 2)), ((3, 4), (2, 6)), ((3, 4), (3, 0))), domain=("normal", "count"))  # fmt: skip
row("take_along_dim", lambda a, i: a.take_along_dim(i % 4, 1), lambda a, i: np.take_along_axis(a, i % 4, 1),
    shapes=(((3, 4), (3, 2)), ((3, 4), (1, 2))), domain=("normal", "count"))  # fmt: skip
row("index_select", lambda a, i: a.index_select(1, i % 4), lambda a, i: a[:, i % 4], shapes=(((3, 4), (5,)),),
    domain=("normal", "count"))  # fmt: skip
row("scatter_add", lambda a, i, b: a.scatter_add(1, i % 4, b), None, lambda a, i, b: a.scatter_add(1, i % 4,
    b),
    shapes=(((3, 4), (3, 2), (3, 2)), ((3, 4), (2, 3), (2, 3))), domain=("normal", "count",
        "normal"))  # fmt: skip
row("scatter", lambda a, b: a.scatter(1, Tensor([[0, 2], [1, 0]]), b), None,
    lambda a, b: a.scatter(1, torch.tensor([[0, 2], [1, 0]]), b), shapes=(((2, 3), (2, 2)),))  # fmt: skip
row("index_add", lambda a, b: a.index_add(0, Tensor([1, 1, 0]), b), None,
    lambda a, b: a.index_add(0, torch.tensor([1, 1, 0]), b), shapes=(((2, 3), (3, 3)),))  # fmt: skip
row("one_hot", lambda i: i.one_hot(7), lambda i: np.eye(7, dtype=int)[i], domain="count", gradient=False)
row("select", lambda a: a.select(1, -1), lambda a: a[:, -1], shapes=CUBE)
row("narrow", lambda a: a.narrow(2, 1, 2), lambda a: a[:, :, 1:3], shapes=CUBE)
row("masked_select", lambda a: a.masked_select(Tensor([True, False, True, False])), lambda a: a[...,
    ::2].reshape(-1),
    shapes=CUBE)  # fmt: skip


def assigned(key: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def ours(a: Tensor, b: Tensor) -> Tensor:
        a = a * 1
        a[key] = b
        return a

    def theirs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a = a * 1
        a[key] = b
        return a

    return ours, theirs


for name, (key, shape) in {
    "int": (1, (3, 4)), "broadcast": (slice(None), (4,)), "scalar": ((0, 1, 2), ()), "step": ((0,
    slice(None, None, 2)), (2, 4)),
    "negative step": ((slice(None), slice(None, None, -1)), (2, 3, 4)), "negative stride": ((...,
    slice(None, None, -2)), (2,)),
    "array": ((slice(None), np.array([0, 2])), (2, 2, 4)), "arrays": ((np.array([0, 1]), np.array([2, 0])),
    (2, 4)),
    "mask": (np.array([False, True]), (1, 3, 4)), "mask scalar": (np.arange(24).reshape(2, 3, 4) % 2 == 0,
    ()),
    "mask values": (np.arange(24).reshape(2, 3, 4) % 2 == 0, (12,)), "empty": (slice(0, 0), (3, 4)),
    "leading ones": (0, (1, 1, 3, 4)),
}.items():  # fmt: skip
    row(f"setitem {name}", *assigned(key), shapes=(((2, 3, 4), shape),))
