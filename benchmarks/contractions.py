"""Matrix product against NumPy's BLAS and convolution against PyTorch, interleaved in one run.

    python benchmarks/contractions.py [--rounds 15] [--json out.json]

Each round times every contender once; the figures are medians over rounds, and the ratio is the median of the
rounds' ratios, which holds when the machine drifts. PyTorch is optional: its rows are left out where it isn't
installed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable

SLOW_BLAS = (
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
)  # settings that slow NumPy's BLAS would make the peer look bad
if any(v in os.environ for v in SLOW_BLAS):
    os.execve(
        sys.executable,
        [sys.executable, *sys.argv],
        {k: v for k, v in os.environ.items() if k not in SLOW_BLAS},
    )

import numpy as np  # noqa: E402

import dawdle  # noqa: E402
from dawdle import Tensor  # noqa: E402

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

Run = Callable[[], object]


def matmul(n: int) -> tuple[dict[str, Run], float]:
    a, b = (np.random.default_rng(i).standard_normal((n, n), np.float32) for i in (0, 1))
    x, y = Tensor(a).realize(), Tensor(b).realize()
    f = dawdle.jit(lambda x, y: (x @ y).realize())
    runs: dict[str, Run] = {"dawdle": lambda: f(x, y), "numpy": lambda: a @ b}
    if torch is not None:
        s, t = torch.from_numpy(a), torch.from_numpy(b)
        runs["torch"] = lambda: s @ t
    return runs, 2.0 * n**3


def convolution(batch: int, channels: int, size: int) -> tuple[dict[str, Run], float]:
    x = np.random.default_rng(0).standard_normal((batch, channels, size, size), np.float32)
    w = np.random.default_rng(1).standard_normal((channels, channels, 3, 3), np.float32)
    a, b = Tensor(x).realize(), Tensor(w).realize()
    f = dawdle.jit(lambda a, b: a.conv2d(b, padding=1).realize())
    runs: dict[str, Run] = {"dawdle": lambda: f(a, b)}
    if torch is not None:
        s, t = torch.from_numpy(x), torch.from_numpy(w)
        runs["torch"] = lambda: torch.nn.functional.conv2d(s, t, padding=1)
    return runs, 2.0 * batch * channels**2 * 9 * size**2


WORKLOADS = {
    "matmul 1024": lambda: matmul(1024),
    "matmul 512": lambda: matmul(512),
    "conv 3x3 64->64 56x56 batch 8": lambda: convolution(8, 64, 56),
    "conv 3x3 128->128 28x28 batch 8": lambda: convolution(8, 128, 28),
}


def measure(runs: dict[str, Run], rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        for _ in range(3):
            run()
    for _ in range(rounds):
        for name, run in runs.items():
            run()  # settles caches and clocks after the other contender
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
            time.sleep(0.03)  # lets the contender's threads go to sleep
    return times


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--json", help="also write the figures to this file")
    args = options.parse_args()
    if torch is not None:
        torch.set_grad_enabled(False)
    result = {}
    for name, make in WORKLOADS.items():
        runs, flops = make()
        times = measure(runs, args.rounds)
        ours = times["dawdle"]
        row = {}
        for peer, seconds in times.items():
            ratio = statistics.median(t / o for t, o in zip(seconds, ours, strict=True))
            middle = statistics.median(seconds)
            row[peer] = {"ms": middle * 1e3, "gflops": flops / middle / 1e9, "dawdle_speed_over_it": ratio}
        result[name] = row
        cells = (
            f"{p} {v['ms']:.2f} ms {v['gflops']:.0f} GFLOP/s ({v['dawdle_speed_over_it']:.2f}x)"
            for p, v in row.items()
        )
        print(f"{name}: " + ", ".join(cells))
    if args.json:
        with open(args.json, "w") as f:
            json.dump(result, f, indent=1)


if __name__ == "__main__":
    main()
