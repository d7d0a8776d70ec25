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


# ---- NumPy's placement of the results of index arrays, and other kinds of keys

for name, key in {
    "int apart from array": (0, slice(None), I1), "array apart from int": (I1 % 2, slice(None), 1),
    "int beside array": (slice(None), 1, I1), "array beside int": (slice(None), I1, 1),
    "int, none, array": (0, None, I1), "none between arrays": (I2, None, I2), "true": True, "false": False,
    "true among": (slice(None), True, 0), "true and array": (np.array(True), I2),
    "0-d array": (slice(None), np.array(-1)), "range": range(2), "tuple": ((0, 1, 1), slice(None), (0, 2, 3)),
    "mask, int": (np.array([True, True]), 0), "int, mask": (1, np.array([True, False, True])),
    "masks": (np.array([True, True]), slice(None), np.array([True, False, False, True])),
    "mask of two": (..., np.arange(12).reshape(3, 4) % 3 == 0), "nothing": (), "ellipsis only": ...,
    "ellipsis for nothing": (slice(None), I1 % 3, ..., I1), "int, ellipsis, array": (0, 1, ..., I1),
    "mask after ellipsis": (..., np.array([False, True, True, False])),
}.items():  # fmt: skip
    row(f"getitem {name}", lambda a, key=key: a[key], lambda a, key=key: a[key], shapes=CUBE)
row("getitem tensors", lambda a, i, j: a[i % 2, :, j % 4], lambda a, i, j: a[i % 2, :, j % 4],
    shapes=(((2, 3, 4), (5,), (2, 1)),), domain=("normal", "count", "count"))  # fmt: skip
row("getitem negative tensor", lambda a, i: a[:, i % 3 - 3], lambda a, i: a[:, i % 3 - 3],
    shapes=(((2, 3, 4), (5,)), ((2, 3), ())), domain=("normal", "count"))  # fmt: skip
for kind in ("int8", "uint8", "int32"):
    row(f"getitem {kind}", lambda a, i, k=kind: a[i.cast(k)], lambda a, i: a[i], shapes=(((300, 2), (5,)),),
        domain=("normal", "count"))  # fmt: skip

# ---- reading

COUNTED = ("normal", "count")
row("take", lambda a, i: a.take(i), lambda a, i: np.take(a, i), shapes=(((3, 4), (2, 3)), ((3, 4), ())),
    domain=COUNTED)  # fmt: skip
row("take_along_dim flat", lambda a, i: a.take_along_dim(i), lambda a,
    i: np.take_along_axis(a.ravel(), i.ravel(), 0),
    shapes=(((3, 4), (5,)),), domain=COUNTED)  # fmt: skip
row("gather list", lambda a: a.gather(1, [[0, 1], [1, -1]]), lambda a: np.stack([a[0, :2], a[1, [1, 3]]]),
    shapes=(((3, 4),),))  # fmt: skip
row("gather a number", lambda a: a.gather(0, Tensor(0)), None, lambda a: a.gather(0, torch.tensor(0)),
    shapes=(((),), ((3,),)))  # fmt: skip
row("gather smaller", lambda a, i: a.gather(0, i % 3), None, lambda a, i: a.gather(0, i % 3),
    shapes=(((3, 4), (5, 2)), ((3, 4), (0, 2))), domain=COUNTED)  # fmt: skip
row("index_select number", lambda a: a.index_select(0, Tensor(1)), None,
    lambda a: a.index_select(0, torch.tensor(1)), shapes=(((3, 4),),))  # fmt: skip
row("narrow negative", lambda a: a.narrow(2, -3, 2), lambda a: a[:, :, 1:3], shapes=CUBE)
row("masked_select broadcast", lambda a: a.masked_select(Tensor([[True], [False]])), None,
    lambda a: a.masked_select(torch.tensor([[True], [False]])), shapes=(((3,),),))  # fmt: skip
row("nonzero", lambda a: (a.round()).nonzero(), lambda a: np.argwhere(np.round(a)),
    shapes=(*CUBE, ((),), ((0, 2),)),
    gradient=False)  # fmt: skip
row("argwhere", lambda a: (a > 0).argwhere(), lambda a: np.argwhere(a > 0), shapes=CUBE, gradient=False)
row("nonzero as_tuple", lambda a: (a > 0).nonzero(as_tuple=True), lambda a: np.nonzero(a > 0),
    shapes=(*CUBE, ((0, 2),)), gradient=False)  # fmt: skip
row("one_hot inferred", lambda i: i.one_hot(), lambda i: np.eye(i.max() + 1, dtype=int)[i],
    shapes=(((3, 4),), ((),)),
    domain="count", gradient=False)  # fmt: skip

# ---- writing

row("masked_fill keeps integers exact", lambda a: (a + 2**60).masked_fill(a > 2, 1.5),
    lambda a: np.where(a > 2, 1, a + 2**60), shapes=(((3, 4),),), domain="int", gradient=False)  # fmt: skip
row("masked_scatter of nothing", lambda a: a.masked_scatter(Tensor([False]), Tensor([])), lambda a: a,
    shapes=(((3,),),))  # fmt: skip
for name in ("scatter_add", "index_add"):
    row(f"{name} of bools", lambda a, b, f=name: getattr(a, f)(0, Tensor([1, 0, 1]), b), None,
        lambda a, b, f=name: getattr(a, f)(0, torch.tensor([1, 0, 1]), b),
        shapes=(((4,), (3,)),), domain="bits", gradient=False)  # fmt: skip
PLACED = (((3, 4), (3, 2), (3, 2)), ((3, 4), (2, 3), (2, 3)), ((3, 4), (3, 0), (3, 0)),
    ((3, 4), (5, 4), (5, 4)))
TRIPLE = ("normal", "count", "normal")
for how in ("sum", "prod", "mean", "amax", "amin"):
    for own in (True, False):
        row(f"scatter_reduce {how} {own}", lambda a, i, b, h=how,
        o=own: a.scatter_reduce(0, i % 3, b, h, include_self=o),
            None, lambda a, i, b, h=how, o=own: a.scatter_reduce(0, i % 3, b, h, include_self=o),
            shapes=PLACED, domain=TRIPLE)  # fmt: skip
    row(f"scatter_reduce {how} ties", lambda a, i, b, h=how: a.round().clamp(-1, 1).scatter_reduce(0, i % 3,
        b.sign(), h)
        + (a + 0 * b.sum()), None,
        lambda a, i, b, h=how: a.round().clamp(-1, 1).scatter_reduce(0, i % 3, b.sign(),
        h) + (a + 0 * b.sum()),
        shapes=PLACED[:1], domain=TRIPLE)  # fmt: skip
    row(f"scatter_reduce {how} zeros", lambda a, i, b, h=how: (a * (a > 0)).scatter_reduce(0, i % 3,
        b * (b > 0), h),
        None, lambda a, i, b, h=how: (a * (a > 0)).scatter_reduce(0, i % 3, b * (b > 0), h),
        shapes=PLACED, domain=TRIPLE)  # fmt: skip
    row(f"scatter_reduce {how} of integers", lambda a, i, b, h=how: a.scatter_reduce(0, i % 3, b, h), None,
        lambda a, i, b, h=how: a.scatter_reduce(0, i % 3, b, h), shapes=PLACED[:2],
        domain=("int", "count", "int"),
        gradient=False)  # fmt: skip
    row(f"index_reduce {how}", lambda a, b, h=how: a.index_reduce(1, Tensor([0, 3, 0]), b, h),
        lambda a, b, h=how: index_reduced(a, b, h), shapes=(((3, 4), (3, 3)),))  # fmt: skip


def index_reduced(a: np.ndarray, b: np.ndarray, how: str) -> np.ndarray:
    """Column by column."""
    fold = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}[how]
    out = a.copy()
    out[:, 0] = fold([a[:, 0], b[:, 0], b[:, 2]], axis=0)
    out[:, 3] = fold([a[:, 3], b[:, 1]], axis=0)
    return out


for how in ("add", "multiply"):
    row(f"scatter {how}", lambda a, i, b, h=how: a.scatter(0, i % 3, b, reduce=h), None,
        lambda a, i, b, h=how: a.scatter(0, i % 3, b, reduce=h), shapes=PLACED[:2], domain=TRIPLE,
        gradient=False)  # fmt: skip
row("scatter value", lambda a: a.scatter(1, Tensor([[0, 2], [1, 0]]), 2.5), None,
    lambda a: a.scatter(1, torch.tensor([[0, 2], [1, 0]]), 2.5), shapes=(((2, 3),),))  # fmt: skip
row("scatter larger source", lambda a, b: a.scatter(0, Tensor([[1, 0]]), b),
    lambda a, b: np.stack([[a[0, 0], b[0, 1], a[0, 2]], [b[0, 0], a[1, 1], a[1, 2]]]),
    shapes=(((2, 3), (2, 3)),))  # fmt: skip
for name in ("index_add", "index_copy"):
    row(f"{name} middle", lambda a, b, f=name: getattr(a, f)(1, Tensor([2, 0]), b), None,
        lambda a, b, f=name: getattr(a, f)(1, torch.tensor([2, 0]), b),
        shapes=(((2, 3, 2), (2, 2, 2)),))  # fmt: skip
row("index_add alpha", lambda a, b: a.index_add(-1, Tensor([1, 1]), b, alpha=-2), None,
    lambda a, b: a.index_add(-1, torch.tensor([1, 1]), b, alpha=-2), shapes=(((2, 3), (2, 2)),))  # fmt: skip
row("index_fill", lambda a: a.index_fill(1, Tensor([2, 0]), -1.5), None,
    lambda a: a.index_fill(1, torch.tensor([2, 0]), -1.5), shapes=(((2, 3, 2),),))  # fmt: skip
row("index_fill tensor", lambda a, b: a.index_fill(0, Tensor([1]), b), None,
    lambda a, b: a.index_fill(0, torch.tensor([1]), b), shapes=(((2, 3), ()),))  # fmt: skip
for adding in (False, True):
    row(f"index_put {adding}", lambda a, b, add=adding: a.index_put((Tensor([1, 0]), Tensor([2, 2])), b,
        add), None,
        lambda a, b, add=adding: a.index_put((torch.tensor([1, 0]), torch.tensor([2, 2])), b, add),
        shapes=(((2, 3, 2), (2, 2)), ((2, 3), (2,)), ((2, 3), ())))  # fmt: skip
row("index_put again", lambda a, b: a.index_put((Tensor([1, 1, 0]),), b, accumulate=True), None,
    lambda a, b: a.index_put((torch.tensor([1, 1, 0]),), b, accumulate=True),
        shapes=(((2, 3), (3, 3)),))  # fmt: skip
row("put", lambda a, b: a.put(Tensor([5, 0, -1]), b), None, lambda a, b: a.put(torch.tensor([5, 0, -1]), b),
    shapes=(((2, 4), (3,)),))  # fmt: skip
row("put accumulate", lambda a, b: a.put(Tensor([[5, 5]]), b, True), None,
    lambda a, b: a.put(torch.tensor([[5, 5]]), b, True), shapes=(((2, 4), (1, 2)),))  # fmt: skip
MASK = np.arange(12).reshape(3, 4) % 3 == 1
row("masked_scatter", lambda a, b: a.masked_scatter(Tensor(MASK), b), None,
    lambda a, b: a.masked_scatter(torch.tensor(MASK), b),
        shapes=(((3, 4), (2, 3)), ((3, 4), (4,))))  # fmt: skip
row("masked_scatter broadcast", lambda a, b: a.masked_scatter(Tensor(MASK[0]), b), None,
    lambda a, b: a.masked_scatter(torch.tensor(MASK[0]), b), shapes=(((3, 4), (7,)),))  # fmt: skip

# ---- parts replaced

row("select_scatter", lambda a, b: a.select_scatter(b, 1, -1), None, lambda a, b: a.select_scatter(b, 1, -1),
    shapes=(((2, 3, 4), (2, 4)),))  # fmt: skip
row("slice_scatter", lambda a, b: a.slice_scatter(b, 2, 1, 4, 2), None,
    lambda a, b: a.slice_scatter(b, 2, 1, 4, 2), shapes=(((2, 3, 4), (2, 3, 2)),))  # fmt: skip
row("diagonal_scatter", lambda a, b: a.diagonal_scatter(b, 1), None, lambda a, b: a.diagonal_scatter(b, 1),
    shapes=(((3, 4), (3,)), ((3, 2), (1,))))  # fmt: skip
row("diagonal_scatter dims", lambda a, b: a.diagonal_scatter(b, -1, 0, 2), None,
    lambda a, b: a.diagonal_scatter(b, -1, 0, 2), shapes=(((2, 3, 4), (3, 1)),))  # fmt: skip
row("fill", lambda a, b: a.fill(2.5) + a * b, lambda a, b: 2.5 + a * b, shapes=(((2, 3), (2, 3)),))


def added(a: Any) -> Any:
    a = a * 1
    a[[0, 1, 1]] += 10
    a[..., -1] *= 2
    return a


row("augmented assignment", added, added, shapes=CUBE)
for name, (key, shape) in {
    "int apart from array": ((0, slice(None), I1[:3]), (3, 1)),
        "masks": ((np.array([True, True]), slice(None),
    np.array([True, False, False, True])), (2, 3)), "true": (True, (3, 4)), "false": (False, ()),
    "mask and slice": ((np.array([False, True]), slice(None, None, -1)), (3, 1)),
        "none": ((None, 0), (1, 3, 4)),
    "empty array": (np.zeros(0, int), (3, 4)), "strided": ((slice(None, None, -1), slice(0, 3, 2),
        slice(3, 0, -2)),
    (2, 1, 2)), "int array": ((1, np.array([2, 0])), (2, 4)), "0-d": ((slice(None), np.array(1)), (2, 4)),
}.items():  # fmt: skip
    row(f"setitem {name}", *assigned(key), shapes=(((2, 3, 4), shape),))
