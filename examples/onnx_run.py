"""Runs ONNX models: what kind of file is this?

python examples/onnx_run.py                     edges in a handwritten digit, by a model that is made here
python examples/onnx_run.py FILE...             the kinds of files, by magika's model, where that is installed
python examples/onnx_run.py model.onnx          any model, on random inputs; --shape x=1,3,48,320 of an input
python examples/onnx_run.py ... --jit           … traced once, with the time that a call takes

Needs ``pip install 'dawdle[onnx]'``. Where onnxruntime is installed, its results are compared.
Magika's model alone, without what its package needs: ``pip install --no-deps magika``.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import dawdle.onnx
from dawdle.dtype import DType
from dawdle.errors import DawdleError
from dawdle.nn import mnist

Arrays = dict[str, np.ndarray[Any, Any]]
SHADES = " ░▒▓█"
END, PADDING, BLOCK = 1024, 256, 4096  # magika looks at this much of both ends of a file


class Session:
    """A model, and how it is run here."""

    def __init__(self, source: Path | bytes, jit: bool) -> None:
        self.source = source
        self.jit = jit
        self.model = dawdle.onnx.load(source, jit=jit)
        print(f"{self.model}\n")

    def __call__(self, inputs: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        """The outputs by name. Says how fast they came, and how far they are from onnxruntime's."""
        outputs = {name: np.asarray(value) for name, value in self.model(**inputs).items()}
        if self.jit:
            print(f"a call takes {1e3 * fastest(lambda: self.model(**inputs)):.2f} ms on {self.model.device}")
        self._compare(inputs, list(outputs.values()))
        return outputs

    def _compare(self, inputs: Arrays, outputs: list[np.ndarray[Any, Any]]) -> None:
        try:
            onnxruntime: Any = importlib.import_module("onnxruntime")
        except ImportError:
            print("(onnxruntime isn't installed: nothing to compare with)")
            return
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        source = self.source if isinstance(self.source, bytes) else str(self.source)
        peer = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        expected = peer.run(None, inputs)
        pairs = zip(outputs, expected, strict=True)
        worst = max(float(np.abs(ours.astype(float) - theirs).max(initial=0)) for ours, theirs in pairs)
        line = f"onnxruntime's results differ by {worst:.1e} at most"
        if self.jit:
            line += f"; its calls take {1e3 * fastest(lambda: peer.run(None, inputs)):.2f} ms"
        print(line)


def fastest(call: Any, times: int = 20) -> float:
    """Seconds of the fastest of several calls."""
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


# ---- a model made here


def edge_model() -> bytes:
    """Image (N, 1, H, W) -> how strong its edges are, twice as large: Sobel's filters and their norm."""
    from onnx import TensorProto, helper, numpy_helper

    sobel = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.float32)
    filters = numpy_helper.from_array(np.stack([sobel, sobel.T])[:, None], "filters")
    scales = numpy_helper.from_array(np.array([1, 1, 1, 2], np.float32), "scales")
    axes = numpy_helper.from_array(np.array([1], np.int64), "axes")
    nodes = [
        helper.make_node("Conv", ["image", "filters"], ["slopes"], pads=[1, 1, 1, 1]),
        helper.make_node("ReduceL2", ["slopes", "axes"], ["strength"], keepdims=1),
        helper.make_node("Resize", ["strength", "", "scales"], ["edges"], mode="linear"),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, "height", "width"])
    edges = helper.make_tensor_value_info("edges", TensorProto.FLOAT, ["batch", 1, None, None])
    graph = helper.make_graph(nodes, "edges", [image], [edges], [filters, scales, axes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return bytes(model.SerializeToString())


def show_edges(jit: bool) -> None:
    digits = mnist("embedded")
    image = digits.test_images[0].astype(np.float32) / 255
    edges = Session(edge_model(), jit)({"image": image.reshape(1, 1, 28, 28)})["edges"]
    print(f"\nthe edges of a {digits.test_labels[0]}:\n{drawn(edges[0, 0])}")


def drawn(image: np.ndarray[Any, Any]) -> str:
    """An image as characters."""
    levels = (image / image.max() * (len(SHADES) - 1) + 0.5).astype(int)
    return "\n".join("".join(SHADES[level] for level in row).rstrip() for row in levels if row.any())


# ---- magika


def magika_folder() -> Path | None:
    """Where the model of the package magika lies; None where it isn't installed. It isn't imported."""
    try:
        files = metadata.files("magika") or []
    except metadata.PackageNotFoundError:
        return None
    found = [f for f in files if f.match("models/*/model.onnx")]
    return Path(str(found[-1].locate())).parent if found else None


def ends(path: Path) -> list[int]:
    """The first and the last bytes of a file, without white space around it, as magika wants them."""
    with path.open("rb") as file:
        first = file.read(BLOCK).lstrip()[:END]
        size = file.seek(0, 2)
        file.seek(max(size - BLOCK, 0))
        last = file.read().rstrip()[-END:]
    return [*first, *[PADDING] * (2 * END - len(first) - len(last)), *last]


def show_kinds(paths: Sequence[Path], folder: Path, jit: bool) -> None:
    labels = json.loads((folder / "config.min.json").read_text())["target_labels_space"]
    scores = Session(folder / "model.onnx", jit)({"bytes": np.array([ends(p) for p in paths], np.int32)})
    print()
    for path, row in zip(paths, scores["target_label"], strict=True):
        best = row.argsort()[::-1][:2]
        print(f"{path}: {labels[best[0]]} ({row[best[0]]:.0%}), or {labels[best[1]]} ({row[best[1]]:.0%})")


# ---- any model


def show_any(path: Path, shapes: dict[str, list[int]], jit: bool) -> None:
    session = Session(path, jit)
    rng = np.random.default_rng(0)
    inputs = {}
    for port in session.model.inputs:
        free = [d if isinstance(d, int) else 1 for d in port.shape or ()]
        shape = shapes.get(port.name, free)
        kind = port.dtype if isinstance(port.dtype, DType) else None
        if kind is None or port.kind != "tensor":
            raise SystemExit(f"random inputs are made for numbers only, not for {port}")
        values = rng.standard_normal(shape) if kind.is_float else rng.integers(0, 2, shape)
        inputs[port.name] = np.asarray(values).astype(kind.compute)
    print()
    for name, value in session(inputs).items():
        numbers = value.size and value.dtype.kind in "biuf"
        extent = f", from {value.min():.4g} to {value.max():.4g}" if numbers else ""
        print(f"{name}: {value.dtype} {value.shape}{extent}")


def shape_of(text: str) -> tuple[str, list[int]]:
    """What is written as INPUT=2,3."""
    name, _, sizes = text.partition("=")
    return name, [int(n) for n in sizes.split(",")]


def main(arguments: Sequence[str] | None = None) -> None:
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_written)
    parser.add_argument("paths", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--jit", action="store_true", help="trace once, replay, and say how fast that is")
    parser.add_argument(
        "--shape", action="append", default=[], type=shape_of, metavar="INPUT=2,3", help="of an input"
    )
    options = parser.parse_args(arguments)
    if importlib.util.find_spec("onnx") is None:
        raise SystemExit("to run ONNX models, first: pip install 'dawdle[onnx]', or '.[onnx]' in a clone")
    try:
        show(options.paths, dict(options.shape), options.jit)
    except (DawdleError, OSError) as error:
        raise SystemExit(f"{error}") from None


def show(paths: Sequence[Path], shapes: dict[str, list[int]], jit: bool) -> None:
    """What the paths ask for: any model, the kinds of files, or a digit's edges."""
    folder = magika_folder()
    if len(paths) == 1 and paths[0].suffix == ".onnx":
        show_any(paths[0], shapes, jit)
    elif paths and folder is not None:
        show_kinds(paths, folder, jit)
    elif paths:
        raise SystemExit("to tell what kind these files are of, first: pip install --no-deps magika")
    else:
        show_edges(jit)


if __name__ == "__main__":
    main(sys.argv[1:])
