"""The same elements at other places."""
from __future__ import annotations

import numpy as np
from table import CUBE, F, row, torch

from dawdle import Tensor
from dawdle.tensor import joining

row("reshape", lambda a: a.reshape(4, -1), lambda a: a.reshape(4, 6), shapes=CUBE)
row("view", lambda a: a.view((6, 4)), lambda a: a.reshape(6, 4), shapes=CUBE)
row("flatten", lambda a: a.flatten(1), lambda a: a.reshape(2, 12), shapes=CUBE)
row("unflatten", lambda a: a.unflatten(2, (2, -1)), lambda a: a.reshape(2, 3, 2, 2), shapes=CUBE)
row("permute", lambda a: a.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1), shapes=CUBE)
row("transpose", lambda a: a.transpose(0, -1), lambda a: a.swapaxes(0, 2), shapes=CUBE)
row("T", lambda a: a.T, lambda a: a.T, shapes=CUBE)
row("mT", lambda a: a.mT, lambda a: a.swapaxes(1, 2), shapes=CUBE)
row("movedim", lambda a: a.movedim(0, 2), lambda a: np.moveaxis(a, 0, 2), shapes=CUBE)
row("movedim of a number", lambda a: a.movedim(0, -1), lambda a: a, shapes=(((),),))
row("squeeze", lambda a: a.squeeze(), lambda a: a.squeeze(), shapes=(((1, 3, 1),), ((2,),), ((),)))
row("squeeze dim", lambda a: a.squeeze(0), lambda a: a.squeeze(0), shapes=(((1, 3, 1),),))
row("squeeze_", lambda a: (a * 1).squeeze_(), lambda a: a.squeeze(), shapes=(((1, 3, 1),),))
row("unsqueeze_", lambda a: (a * 1).unsqueeze_(1), lambda a: a[:, None], shapes=(((2, 3),),))
row("transpose_", lambda a: (a * 1).transpose_(0, -1), lambda a: a.swapaxes(0, -1), shapes=CUBE)
row("t_", lambda a: (a * 1).t_(), lambda a: a.T, shapes=(((3, 4),),))
row("unsqueeze", lambda a: a.unsqueeze(-1), lambda a: a[..., None], shapes=(((2, 3),), ((),)))
row("expand", lambda a: a.expand(2, -1, 4), lambda a: np.broadcast_to(a, (2, 3, 4)), shapes=(((3, 1),), ((1,
    3, 1),)))
row("flip", lambda a: a.flip(0, 2), lambda a: np.flip(a, (0, 2)), shapes=CUBE)
row("pad", lambda a: a.pad((1, 2, 0, 1)), lambda a: np.pad(a, ((0, 0), (0, 1), (1, 2))), shapes=CUBE)
row("pad value", lambda a: a.pad(((1, 0), (0, 0), (2, 1)), value=-3.0),
    lambda a: np.pad(a, ((1, 0), (0, 0), (2, 1)), constant_values=-3.0), shapes=CUBE)  # fmt: skip
row("pad negative", lambda a: a.pad((-1, 2)), None, lambda a: F.pad(a, (-1, 2)), shapes=CUBE)
for mode in ("reflect", "replicate", "circular"):
    row(f"pad {mode}", lambda a, mode=mode: a.pad((2, 1), mode=mode), None,
        lambda a, mode=mode: F.pad(a, (2, 1), mode=mode), shapes=CUBE)  # fmt: skip
row("roll", lambda a: a.roll(3), lambda a: np.roll(a, 3), shapes=CUBE)
row("roll dims", lambda a: a.roll((1, -1), (0, 2)), lambda a: np.roll(a, (1, -1), (0, 2)), shapes=CUBE)
row("repeat", lambda a: a.repeat(2, 1, 3), lambda a: np.tile(a, (2, 1, 3)), shapes=(((2, 3),), ((2, 1, 4),)))
row("repeat_interleave", lambda a: a.repeat_interleave(2, 1), lambda a: np.repeat(a, 2, 1), shapes=CUBE)
row("cat", lambda a, b: Tensor.cat([a, b, a], 1), lambda a, b: np.concatenate([a, b, a], 1),
    shapes=(((2, 3), (2, 1)), ((2, 0), (2, 2)), ((0, 3), (0, 3))))  # fmt: skip
row("cat of many", lambda a, b: Tensor.cat([a, b] * 10, 1), lambda a, b: np.concatenate([a, b] * 10, 1),
    shapes=(((2, 3), (2, 1)),))  # fmt: skip
row("cat method", lambda a, b: a.cat(b, dim=-1), lambda a, b: np.concatenate([a, b], -1), shapes=(((2, 3),
    (2, 1)),))
row("stack", lambda a, b: Tensor.stack([a, b], dim=1), lambda a, b: np.stack([a, b], 1), shapes=(((2, 3),
    (2, 3)),))
row("stack method", lambda a, b: a.stack(b, a), lambda a, b: np.stack([a, b, a]), shapes=(((2, 3), (2, 3)),
    ((), ())))
row("split", lambda a: a.split(2, 1), lambda a: [a[:, :2], a[:, 2:]], shapes=CUBE)
row("split sizes", lambda a: a.split([1, 3], -1), lambda a: np.split(a, [1], -1), shapes=CUBE)
row("chunk", lambda a: a.chunk(3, -1), lambda a: [a[..., :2], a[..., 2:]], shapes=CUBE)
row("chunk nothing", lambda a: (*a.chunk(2), *a.split(0)), None, lambda a: (*a.chunk(2), *a.split(0)),
    shapes=(((0, 3),),))
row("unbind", lambda a: a.unbind(1), lambda a: [a[:, i] for i in range(3)], shapes=CUBE)
row("unfold", lambda a: a.unfold(1, 3, 2), None, lambda a: a.unfold(1, 3, 2), shapes=(((2, 8, 3),),))
row("diagonal", lambda a: a.diagonal(), np.diagonal, shapes=(((3, 4),), ((4, 2),), ((2, 3, 4),)))
row("diagonal offset", lambda a: a.diagonal(-1, 0, 2), lambda a: np.diagonal(a, -1, 0, 2), shapes=CUBE)
row("diagonal outside", lambda a: a.diagonal(9), lambda a: np.diagonal(a, 9), shapes=(((3, 4),),))
row("tril", lambda a: a.tril(), np.tril, shapes=CUBE)
row("triu", lambda a: a.triu(1), lambda a: np.triu(a, 1), shapes=CUBE)
row("contiguous", lambda a: a.permute(2, 0, 1).contiguous() * 2, lambda a: a.transpose(2, 0, 1) * 2,
    shapes=CUBE)

# ---- reordered and reversed

row("ravel", lambda a: a.ravel(), np.ravel, shapes=CUBE + (((),), ((0, 3),)))
row("reshape_as", lambda a, b: a.reshape_as(b), lambda a, b: a.reshape(b.shape), shapes=(((2, 6), (3, 4)),))
row("view dtype", lambda a: (a * 2).float().view(Tensor([0], dtype="int32").dtype),
    lambda a: (a * 2).astype("float32").view("int32"), shapes=CUBE, gradient=False)  # fmt: skip
row("t", lambda a: a.t(), lambda a: a.T, shapes=(((3, 4),), ((3,),), ((),)))
row("swapaxes", lambda a: a.swapaxes(0, -1), lambda a: a.swapaxes(0, -1), shapes=CUBE)
row("swapdims", lambda a: a.swapdims(1, 2), lambda a: a.swapaxes(1, 2), shapes=CUBE)
row("permute dims", lambda a: a.permute(dims=(1, -1, 0)), lambda a: a.transpose(1, 2, 0), shapes=CUBE)
row("moveaxis", lambda a: a.moveaxis((0, 1), (-1, 0)), lambda a: np.moveaxis(a, (0, 1), (-1, 0)), shapes=CUBE)
row("movedim several", lambda a: a.movedim((2, 0), (0, 1)), lambda a: np.moveaxis(a, (2, 0), (0, 1)),
    shapes=CUBE)
row("squeeze dims", lambda a: a.squeeze((0, 2)), lambda a: a.squeeze((0, 2)),
    shapes=(((1, 3, 1),), ((1, 1, 1),)))
row("expand scalar", lambda a: a.expand(2, 3), lambda a: np.broadcast_to(a, (2, 3)), shapes=(((),), ((1,),)))
row("broadcast_to", lambda a: a.broadcast_to((2, 3, 4)), lambda a: np.broadcast_to(a, (2, 3, 4)),
    shapes=(((3, 1),), ((4,),)))  # fmt: skip
row("flip dims", lambda a: a.flip(dims=(-1,)), lambda a: np.flip(a, -1), shapes=CUBE)
row("fliplr", lambda a: a.fliplr(), np.fliplr, shapes=CUBE)
row("flipud", lambda a: a.flipud(), np.flipud, shapes=CUBE)
for k in range(-1, 5):
    row(f"rot90 {k}", lambda a, k=k: a.rot90(k), lambda a, k=k: np.rot90(a, k), shapes=CUBE)
row("rot90 dims", lambda a: a.rot90(1, (2, 0)), lambda a: np.rot90(a, 1, (2, 0)), shapes=CUBE)
row("roll negative", lambda a: a.roll(-5, 1), lambda a: np.roll(a, -5, 1), shapes=CUBE + (((0, 3),),))
row("roll a number", lambda a: a.roll(3), lambda a: np.roll(a, 3), shapes=(((),),))

# ---- repeated

row("tile", lambda a: a.tile(2, 1, 3), lambda a: np.tile(a, (2, 1, 3)), shapes=(((2, 3),), ((3,),), ((),)))
row("tile few", lambda a: a.tile((2,)), lambda a: np.tile(a, 2), shapes=CUBE)
row("repeat_interleave flat", lambda a: a.repeat_interleave(3), lambda a: np.repeat(a, 3),
    shapes=CUBE + (((),),))
row("repeat_interleave 0", lambda a: a.repeat_interleave(0, 0), lambda a: np.repeat(a, 0, 0), shapes=CUBE)
row("repeat_interleave tensor", lambda a: a.repeat_interleave(Tensor([2, 0, 3]), dim=1),
    lambda a: np.repeat(a, [2, 0, 3], 1), shapes=CUBE)  # fmt: skip

# ---- padded

for mode in ("reflect", "replicate", "circular"):
    row(f"pad {mode} planes", lambda a, mode=mode: a.pad((2, 1, 0, 1), mode=mode), None,
        lambda a, mode=mode: F.pad(a, (2, 1, 0, 1), mode=mode),
        shapes=(((2, 3, 4),), ((1, 2, 3, 3),)))  # fmt: skip
    numpy_mode = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    row(f"pad {mode} everywhere", lambda a, mode=mode: a.pad(((1, 0), (2, 1), (0, 3)), mode),
        lambda a, mode=numpy_mode: np.pad(a, ((1, 0), (2, 1), (0, 3)), mode), shapes=CUBE)  # fmt: skip
row("pad negative reflect", lambda a: a.pad((-1, 2), mode="reflect"),
    lambda a: np.pad(a[..., 1:], ((0, 0), (0, 0), (0, 2)), "reflect"), shapes=CUBE)  # fmt: skip
row("pad all away", lambda a: a.pad((-2, -2)), lambda a: a[..., 2:2], shapes=CUBE)
row("pad empty", lambda a: a.pad((1, 2), value=1.5), None, lambda a: F.pad(a, (1, 2), value=1.5),
    shapes=(((2, 0),), ((0, 3),)))  # fmt: skip

# ---- joined and cut

row("cat none", lambda a, b: Tensor.cat([a, b], None), lambda a, b: np.concatenate([a, b], None),
    shapes=(((2, 3), (4,)),))  # fmt: skip
row("cat with empty", lambda a, b: Tensor.cat([b, a, b]), None, lambda a, b: torch.cat([b, a, b]),
    shapes=(((2, 3), (0,)), ((2,), (0,))))  # fmt: skip
row("concatenate", lambda a, b: Tensor.concatenate([a, b], axis=1), lambda a, b: np.concatenate([a, b], 1),
    shapes=(((2, 3), (2, 1)),))  # fmt: skip
PAIRS = (((2, 3), (2, 3)), ((3,), (3,)), ((), ()), ((2, 3, 4), (2, 3, 4)))
for name in ("hstack", "vstack", "dstack"):
    row(name, lambda a, b, f=name: getattr(joining, f)([a, b, a]),
        lambda a, b, f=name: getattr(np, f)([a, b, a]), shapes=PAIRS)  # fmt: skip
row("column_stack", lambda a, b: joining.column_stack([a, b]), lambda a, b: np.column_stack([a, b]),
    shapes=(((2, 3), (2,)), ((3,), (3,)), ((), ())))  # fmt: skip
for n in (1, 2, 3):
    row(f"atleast_{n}d", lambda a, n=n: getattr(a, f"atleast_{n}d")(), getattr(np, f"atleast_{n}d"),
        shapes=(((),), ((3,),), ((2, 3),), ((2, 3, 4),), ((1, 2, 3, 1),)))  # fmt: skip
row("tensor_split", lambda a: a.tensor_split(3, -1), lambda a: np.array_split(a, 3, -1),
    shapes=CUBE + (((2, 1),),))  # fmt: skip
row("tensor_split indices", lambda a: a.tensor_split((1, 3, 2, 9), 2),
    lambda a: np.array_split(a, (1, 3, 2, 9), 2),
    shapes=CUBE)  # fmt: skip
row("tensor_split negative", lambda a: a.tensor_split([-1], 1), lambda a: np.array_split(a, [-1], 1),
    shapes=CUBE)
row("hsplit", lambda a: a.hsplit(2), lambda a: np.hsplit(a, 2), shapes=(((3, 4),), ((4,),)))
row("vsplit", lambda a: a.vsplit([1]), lambda a: np.vsplit(a, [1]), shapes=CUBE)
row("dsplit", lambda a: a.dsplit(2), lambda a: np.dsplit(a, 2), shapes=CUBE)
row("unbind negative", lambda a: a.unbind(-1), lambda a: [a[..., i] for i in range(4)], shapes=CUBE)
row("broadcast_tensors", lambda a, b: joining.broadcast_tensors(a, b), lambda a, b: np.broadcast_arrays(a, b),
    shapes=(((3, 1), (4,)), ((), (2,))))  # fmt: skip
row("block_diag", lambda a, b, c: joining.block_diag(a, b, c), None, lambda a, b,
    c: torch.block_diag(a, b, c),
    shapes=(((2, 3), (2,), ()), ((1, 1), (0, 2), (3, 1))))  # fmt: skip
row("cartesian_prod", lambda a, b, c: joining.cartesian_prod(a, b, c), None,
    lambda a, b, c: torch.cartesian_prod(a, b, c), shapes=(((2,), (3,), (2,)),))  # fmt: skip
for order in ("ij", "xy"):
    row(f"meshgrid {order}", lambda a, b, c, order=order: joining.meshgrid(a, b, c, indexing=order),
        lambda a, b, c, order=order: np.meshgrid(a, b, c, indexing=order),
        shapes=(((2,), (3,), (4,)),))  # fmt: skip

# ---- windows, strides, diagonals

row("unfold last", lambda a: a.unfold(-1, 2, 1), None, lambda a: a.unfold(-1, 2, 1), shapes=CUBE)
row("unfold a number", lambda a: a.unfold(0, 1, 1), None, lambda a: a.unfold(0, 1, 1), shapes=(((),),))
row("as_strided", lambda a: a.contiguous().as_strided((3, 2, 2), (2, 1, 3), 1), None,
    lambda a: a.as_strided((3, 2, 2), (2, 1, 3), 1), shapes=CUBE)  # fmt: skip
row("as_strided 0", lambda a: a.as_strided((3, 2), (0, 5)), None, lambda a: a.as_strided((3, 2), (0, 5)),
    shapes=CUBE)  # fmt: skip
row("as_strided backwards", lambda a: a.as_strided((4,), (-5,), 20),
    lambda a: a.ravel()[20:0:-5], shapes=CUBE)  # fmt: skip
DIAGONALS = (((3,),), ((2, 3),), ((2, 0),), ((1, 2, 1),))
for offset in (0, 2, -1):
    row(f"diag_embed {offset}", lambda a, o=offset: a.diag_embed(o), None, lambda a,
        o=offset: a.diag_embed(o),
        shapes=DIAGONALS)  # fmt: skip
    row(f"diag {offset}", lambda a, o=offset: a.diag(o), lambda a, o=offset: np.diag(a, o),
        shapes=(((3,),), ((3, 4),), ((4, 2),), ((0,),)))  # fmt: skip
    row(f"diagflat {offset}", lambda a, o=offset: a.diagflat(o), lambda a, o=offset: np.diagflat(a, o),
        shapes=(((2, 3),), ((3,),)))  # fmt: skip
row("diag_embed dims", lambda a: a.diag_embed(1, 0, 2), None, lambda a: a.diag_embed(1, 0, 2),
    shapes=DIAGONALS[1:])
row("trace", lambda a: a.trace(), lambda a: np.trace(a), shapes=(((3, 3),), ((2, 4),)))
for k in (-5, -1, 0, 2, 5):
    row(f"tril {k}", lambda a, k=k: a.tril(k), lambda a, k=k: np.tril(a, k), shapes=CUBE + (((0, 3),),))
    row(f"triu {k}", lambda a, k=k: a.triu(k), lambda a, k=k: np.triu(a, k), shapes=CUBE + (((0, 3),),))

# ---- rearranged

row("pixel_shuffle", lambda a: a.pixel_shuffle(2), None, lambda a: F.pixel_shuffle(a, 2),
    shapes=(((1, 8, 2, 3),), ((4, 3, 1),)))  # fmt: skip
row("pixel_unshuffle", lambda a: a.pixel_unshuffle(2), None, lambda a: F.pixel_unshuffle(a, 2),
    shapes=(((1, 2, 4, 6),), ((3, 2, 2),)))  # fmt: skip
PICTURE = (((2, 4, 6),),)
for formula, theirs in {
    "a b c -> c a b": lambda x: x.transpose(2, 0, 1),
    "a (b d) c -> a b (c d)": lambda x: x.reshape(2, 2, 2, 6).transpose(0, 1, 3, 2).reshape(2, 2, 12),
    "a (d b) c -> (d a) b c": lambda x: x.reshape(2, 2, 2, 6).transpose(1, 0, 2, 3).reshape(4, 2, 6),
    "... (b d) -> d ... b": lambda x: x.reshape(2, 4, 3, 2).transpose(3, 0, 1, 2),
    "a ... (b d) -> (a ...) 1 d b": lambda x: x.reshape(8, 1, 3, 2).transpose(0, 1, 3, 2),
    "a b (d c) -> (a b d c)": lambda x: x.ravel(),
    "a b (c d) -> b () c d a": lambda x: x.reshape(2, 4, 1, 3, 2).transpose(1, 2, 3, 4, 0),
}.items():
    row(f"rearrange {formula}", lambda a, f=formula: a.rearrange(f, **({"d": 2} if "d" in f else {})), theirs,
        shapes=PICTURE)  # fmt: skip
row("flip axis", lambda a: a.flip(axis=1), lambda a: np.flip(a, 1), shapes=CUBE)
row("expand_as", lambda a, b: a.expand_as(b), lambda a, b: np.broadcast_to(a, b.shape), shapes=(((3, 1),
    (2, 3, 4)),), gradient=False)  # fmt: skip
row("shrink", lambda a: a.shrink(((0, 1), (0, 3), (1, 3))), lambda a: a[:1, :, 1:3], shapes=CUBE)
row("is_contiguous", lambda a: Tensor(a.T.is_contiguous()), lambda a: np.array(True), shapes=CUBE,
    gradient=False)
row("zero_", lambda a: (a * 1).zero_(), np.zeros_like, shapes=CUBE, gradient=False)
row("fill_diagonal_", lambda a: (a * 1).fill_diagonal_(7.0), None, lambda a: (a * 1).fill_diagonal_(7.0),
    shapes=(((3, 4),), ((5, 2),), ((3, 3, 3),)))
row("fill_diagonal_ wrap", lambda a: (a * 1).fill_diagonal_(7.0, wrap=True), None,
    lambda a: (a * 1).fill_diagonal_(7.0, wrap=True), shapes=(((7, 2),), ((2, 5),)))
row("split_with_sizes", lambda a: a.split_with_sizes([1, 2], 1), None,
    lambda a: a.split_with_sizes([1, 2], 1), shapes=(((2, 3),),))
