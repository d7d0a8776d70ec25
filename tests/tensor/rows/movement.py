"""The same elements at other places."""
from __future__ import annotations

import numpy as np
from table import CUBE, F, row

from dawdle import Tensor

row("reshape", lambda a: a.reshape(4, -1), lambda a: a.reshape(4, 6), shapes=CUBE)
row("view", lambda a: a.view((6, 4)), lambda a: a.reshape(6, 4), shapes=CUBE)
row("flatten", lambda a: a.flatten(1), lambda a: a.reshape(2, 12), shapes=CUBE)
row("unflatten", lambda a: a.unflatten(2, (2, -1)), lambda a: a.reshape(2, 3, 2, 2), shapes=CUBE)
row("permute", lambda a: a.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1), shapes=CUBE)
row("transpose", lambda a: a.transpose(0, -1), lambda a: a.swapaxes(0, 2), shapes=CUBE)
row("T", lambda a: a.T, lambda a: a.T, shapes=CUBE)
row("mT", lambda a: a.mT, lambda a: a.swapaxes(1, 2), shapes=CUBE)
row("movedim", lambda a: a.movedim(0, 2), lambda a: np.moveaxis(a, 0, 2), shapes=CUBE)
row("squeeze", lambda a: a.squeeze(), lambda a: a.squeeze(), shapes=(((1, 3, 1),), ((2,),), ((),)))
row("squeeze dim", lambda a: a.squeeze(0), lambda a: a.squeeze(0), shapes=(((1, 3, 1),),))
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
row("unbind", lambda a: a.unbind(1), lambda a: [a[:, i] for i in range(3)], shapes=CUBE)
row("unfold", lambda a: a.unfold(1, 3, 2), None, lambda a: a.unfold(1, 3, 2), shapes=(((2, 8, 3),),))
row("diagonal", lambda a: a.diagonal(), np.diagonal, shapes=(((3, 4),), ((4, 2),), ((2, 3, 4),)))
row("diagonal offset", lambda a: a.diagonal(-1, 0, 2), lambda a: np.diagonal(a, -1, 0, 2), shapes=CUBE)
row("diagonal outside", lambda a: a.diagonal(9), lambda a: np.diagonal(a, 9), shapes=(((3, 4),),))
row("tril", lambda a: a.tril(), np.tril, shapes=CUBE)
row("triu", lambda a: a.triu(1), lambda a: np.triu(a, 1), shapes=CUBE)
row("contiguous", lambda a: a.permute(2, 0, 1).contiguous() * 2, lambda a: a.transpose(2, 0, 1) * 2,
    shapes=CUBE)
