"""The list of workloads that ``cpu.py``, ``opencl.py`` and ``cuda.py`` measure, each written once: dawdle's
and PyTorch's tensors and layers have the same names, so one function serves both.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

import dawdle
from dawdle import Tensor, config
from dawdle.errors import DawdleError
from dawdle.runtime.compiled import CompiledDevice
from dawdle.runtime.device import get_device

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

Run = Callable[[int], None]  # carries a workload out so many times, and waits until all of it is done
LONG = 0.03  # seconds that a measurement takes at least


@dataclass(frozen=True)
class Workload:
    """``function(functional, *tensors)``, or a training step of ``model(nn)`` on images of that shape.

    ``flops`` is the arithmetic and ``nbytes`` the memory traffic that no way of doing it can avoid.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]
    flops: float
    nbytes: float
    function: Callable[..., Any] | None = None
    model: Callable[[Any], Any] | None = None

    def arrays(self) -> list[np.ndarray]:
        """The same operands for every contender."""
        rng = np.random.default_rng(0)
        return [rng.standard_normal(shape, np.float32) for shape in self.shapes]


def matmul(n: int) -> Workload:
    return Workload(f"matmul {n}", ((n, n), (n, n)), 2.0 * n**3, 12.0 * n * n, lambda F, a, b: a @ b)


def convolution(batch: int, channels: int, size: int) -> Workload:
    x, w = (batch, channels, size, size), (channels, channels, 3, 3)
    flops = 2.0 * batch * channels**2 * 9 * size**2
    name = f"conv 3x3 {channels} on {size}x{size}, batch {batch}"
    moved = 4.0 * (2 * batch * channels * size**2 + channels**2 * 9)
    return Workload(name, (x, w), flops, moved, lambda F, x, w: F.conv2d(x, w, padding=1))


def softmax(rows: int, columns: int) -> Workload:
    n = rows * columns
    return Workload(
        f"softmax {rows}x{columns}", ((rows, columns),), 5.0 * n, 8.0 * n, lambda F, x: x.softmax(-1)
    )


def layer_norm(rows: int, columns: int) -> Workload:
    n = rows * columns
    return Workload(
        f"layer norm {rows}x{columns}", ((rows, columns), (columns,), (columns,)), 8.0 * n, 8.0 * n,
        lambda F, x, w, b: F.layer_norm(x, (columns,), w, b),
    )  # fmt: skip


def chain(n: int) -> Workload:
    return Workload(
        f"elementwise chain {n}", ((n,), (n,)), 8.0 * n, 12.0 * n,
        lambda F, x, y: ((x * 1.5 + y).relu() - x * y) * 0.5 + x.abs(),
    )  # fmt: skip


def total(shape: tuple[int, int], dim: int | None) -> Workload:
    n = shape[0] * shape[1]
    name = f"sum {shape[0]}x{shape[1]}" + ("" if dim is None else f" over {dim}")
    return Workload(name, (shape,), n, 4.0 * n, lambda F, x: x.sum() if dim is None else x.sum(dim))


def mlp(nn: Any) -> Any:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 100), nn.ReLU(), nn.Linear(100, 10)
    )


def cnn(nn: Any) -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 32, 5), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Conv2d(64, 64, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 4 * 4, 10),
    )  # fmt: skip


def training(name: str, batch: int, model: Callable[[Any], Any]) -> Workload:
    """Forward, backward and Adam. Products forward cost twice as much again backward."""
    layers = {
        "mlp": 784 * 400 + 400 * 100 + 1000,
        "cnn": 32 * 25 * 576 + 64 * 288 * 100 + 64 * 576 * 64 + 10240,
    }
    return Workload(
        f"{name} step, batch {batch}", ((batch, 1, 28, 28),), 6.0 * batch * layers[name], 0, None, model
    )


def workloads(scale: int = 1) -> list[Workload]:
    """The list; ``scale`` multiplies sizes for devices that are faster than a CPU."""
    return [
        matmul(512 * scale), matmul(1024 * scale),
        convolution(8 * scale, 64, 56), convolution(8 * scale, 128, 28),
        softmax(4096 * scale, 1024), layer_norm(4096 * scale, 1024),
        chain((1 << 22) * scale), total((4096 * scale, 1024), None), total((4096 * scale, 1024), 0),
        total((4096 * scale, 1024), 1),
        training("mlp", 128 * scale, mlp), training("cnn", 128 * scale, cnn),
    ]  # fmt: skip


def on_dawdle(device: str) -> Callable[[Workload], Run]:
    """Runs workloads on a dawdle device."""

    def make(w: Workload) -> Run:
        with config.override(device=device):
            tensors = [Tensor(a).realize() for a in w.arrays()]
            if w.function is not None:
                function = w.function
                step = dawdle.jit(lambda *xs: function(dawdle.nn.functional, *xs).realize())
            else:
                step, tensors = _dawdle_step(w, tensors[0])
        place = get_device(device)

        def run(times: int) -> None:
            with config.override(device=device):
                for _ in range(times):
                    out = step(*tensors)
            if isinstance(place, CompiledDevice) and out.lazy.size:
                place.read(out.lazy.arg, 0, out.lazy.dtype.storage, (1,))  # waits

        return run

    return make


def _dawdle_step(w: Workload, images: Tensor) -> tuple[Any, list[Tensor]]:
    assert w.model is not None
    dawdle.random.manual_seed(0)
    model = w.model(dawdle.nn)
    optimizer = dawdle.nn.optim.Adam(model.parameters(), lr=1e-3)
    labels = Tensor(np.arange(images.shape[0]) % 10).realize()

    @dawdle.jit
    def step(images: Tensor, labels: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = dawdle.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        return loss.realize(*optimizer.schedule_step())

    return step, [images, labels]


def on_torch(torch: ModuleType, device: str) -> Callable[[Workload], Run]:
    """Runs workloads in PyTorch, eagerly; on "cuda" its products are cuBLAS's."""

    def make(w: Workload) -> Run:
        tensors = [torch.from_numpy(a).to(device) for a in w.arrays()]
        if w.function is not None:
            function = w.function

            def step(*xs: Any) -> Any:
                with torch.no_grad():
                    return function(torch.nn.functional, *xs)
        else:
            step, tensors = _torch_step(torch, device, w, tensors[0])

        def run(times: int) -> None:
            for _ in range(times):
                step(*tensors)
            if device == "cuda":
                torch.cuda.synchronize()

        return run

    return make


def _torch_step(torch: ModuleType, device: str, w: Workload, images: Any) -> tuple[Any, list[Any]]:
    assert w.model is not None
    torch.manual_seed(0)
    model = w.model(torch.nn).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    labels = torch.arange(images.shape[0], device=device) % 10

    def step(images: Any, labels: Any) -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step, [images, labels]


def measure(runs: dict[str, Run], rounds: int) -> dict[str, float]:
    """Seconds that each contender takes: medians over rounds in which each takes its turn."""
    repeats = {}
    for name, run in runs.items():
        run(3)
        start = time.perf_counter()
        run(3)
        repeats[name] = max(1, int(LONG / max((time.perf_counter() - start) / 3, 1e-9)))
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run(repeats[name])
            times[name].append((time.perf_counter() - start) / repeats[name])
    return {name: statistics.median(t) for name, t in times.items()}


def report(device: str, contenders: dict[str, Callable[[Workload], Run]], scale: int = 1) -> None:
    """Measure all workloads on a dawdle device and its contenders; print a table, and JSON where it is
    wanted.
    """
    options = argparse.ArgumentParser(
        description=f"dawdle on {device} beside {', '.join(contenders) or 'nobody'}"
    )
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--scale", type=int, default=scale, help="multiplies the sizes")
    options.add_argument("--only", default="", help="workloads whose names contain this")
    options.add_argument("--json", help="also write the figures to this file")
    args = options.parse_args()
    try:
        place = get_device(device)
    except DawdleError as e:
        raise SystemExit(f"device {device} doesn't work here: {e}") from None
    top = place.ceilings(again=True) if isinstance(place, CompiledDevice) else None
    print(f"{device} {place.description}".strip())
    if top:
        print(f"ceilings: {top.flops / 1e9:.0f} GFLOP/s float32, {top.bytes / 1e9:.0f} GB/s copy")
    everyone = {f"dawdle {device}": on_dawdle(device), **contenders}
    print(f"{'':<36}" + "".join(f"{name:>26}" for name in everyone))
    result: dict[str, Any] = {"device": device, "description": place.description, "workloads": {}}
    if top:
        result["ceilings"] = {"flops": top.flops, "bytes": top.bytes}
    for w in (w for w in workloads(args.scale) if args.only in w.name):
        seconds = measure({name: make(w) for name, make in everyone.items()}, args.rounds)
        print(f"{w.name:<36}" + "".join(f"{_cell(w, s):>26}" for s in seconds.values()), flush=True)
        result["workloads"][w.name] = {"flops": w.flops, "bytes": w.nbytes, "seconds": seconds}
    if args.json:
        with open(args.json, "w") as f:
            json.dump(result, f, indent=1)


def _cell(w: Workload, seconds: float) -> str:
    """The time and the rate that bounds the workload."""
    intense = w.flops > 10 * w.nbytes
    rate = f"{w.flops / seconds / 1e9:.0f} GFLOP/s" if intense else f"{w.nbytes / seconds / 1e9:.1f} GB/s"
    return f"{seconds * 1e3:.3f} ms {rate}"


def torch_contender(device: str) -> dict[str, Callable[[Workload], Run]]:
    """PyTorch, where it is installed and has that device."""
    if torch is None or (device == "cuda" and not torch.cuda.is_available()):
        return {}
    return {f"PyTorch {device}": on_torch(torch, device)}
