"""Interpolation, and images read at coordinates."""
from __future__ import annotations

from typing import Any

from table import F, row

from dawdle import Tensor
from dawdle.nn import functional as ours

SHAPES = {1: ((2, 3, 7),), 2: ((2, 3, 6, 5),), 3: ((1, 2, 3, 4, 5),)}


def resized(n: int, mode: str, **options: Any) -> None:
    words = " ".join(f"{k}={v}" for k, v in options.items())
    row(f"interpolate {n}d {mode} {words}", lambda x: ours.interpolate(x, mode=mode, **options), None,
        lambda x: F.interpolate(x, mode=mode, **options), shapes=(SHAPES[n],))  # fmt: skip


for n in (1, 2, 3):
    for mode in ("nearest", "nearest-exact", "area"):
        resized(n, mode, size=4)
        resized(n, mode, scale_factor=1.7)
    resized(n, "nearest", scale_factor=3)
    resized(n, "nearest", scale_factor=0.5)
for n, mode in ((1, "linear"), (2, "bilinear"), (3, "trilinear"), (2, "bicubic")):
    for corners in (False, True):
        resized(n, mode, size=8, align_corners=corners)
        resized(n, mode, size=1, align_corners=corners)
        resized(n, mode, scale_factor=0.6, align_corners=corners)
    resized(n, mode, scale_factor=1.3, recompute_scale_factor=True)
for mode in ("bilinear", "bicubic"):
    for corners in (False, True):
        resized(2, mode, size=(2, 9), align_corners=corners, antialias=True)
        resized(2, mode, scale_factor=0.4, align_corners=corners, antialias=True)
# a size that stays is left alone; PyTorch's gradient isn't that of its result there
row("interpolate antialias 1.1", lambda x: ours.interpolate(x, None, (0.7, 1.1), "bilinear", antialias=True),
    None, lambda x: F.interpolate(x, None, (0.7, 1.1), "bilinear", antialias=True), shapes=(SHAPES[2],),
    gradient=False)  # fmt: skip
row("interpolate int", lambda x: ours.interpolate(x, (4, 11)), None,
    lambda x: F.interpolate(x.double(), (4, 11)).long(), shapes=(SHAPES[2],), domain="int",
    gradient=False)  # fmt: skip

for n, modes in ((2, ("bilinear", "nearest", "bicubic")), (3, ("bilinear", "nearest"))):
    shapes = (((2, 3, 5, 4), (2, 3, 4, 2)) if n == 2 else ((2, 2, 3, 4, 5), (2, 2, 3, 4, 3)),)
    for mode in modes:
        for beyond in ("zeros", "border", "reflection"):
            for corners in (False, True):
                options = {"mode": mode, "padding_mode": beyond, "align_corners": corners}
                row(f"grid_sample {n}d {mode} {beyond} {corners}",
                    lambda x, g, options=options: ours.grid_sample(x, g, **options), None,
                    # of "nearest" PyTorch gives the grid zeros
                    lambda x, g, mode=mode, options=options: F.grid_sample(
                        x, g.detach() if mode == "nearest" else g, **options), shapes=shapes)  # fmt: skip
for n, size in ((2, (2, 3, 4, 5)), (3, (2, 3, 2, 4, 5))):
    for corners in (False, True):
        row(f"affine_grid {n}d {corners}", lambda t, size=size, c=corners: ours.affine_grid(t, size, c), None,
            lambda t, size=size, c=corners: F.affine_grid(t, size, c),
            shapes=(((2, n, n + 1),),))  # fmt: skip
row("method interpolate", lambda x: Tensor.interpolate(x, scale_factor=2), None,
    lambda x: F.interpolate(x, scale_factor=2), shapes=(SHAPES[2],))  # fmt: skip
