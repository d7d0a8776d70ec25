"""The cases of onnx.backend.test: models with inputs and the outputs that they must give."""
from __future__ import annotations

import functools
import os
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from dawdle.onnx import Model
from dawdle.onnx.weights import to_array

NODE, REAL = "node", "real"
KINDS = (REAL, NODE, "simple", "pytorch-converted", "pytorch-operator")  # the longest first
PLAIN = frozenset({1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13})  # TensorProto.DataType: ints, floats, bool


class Case:
    """One case. ``name`` is onnx's, with the kind before it where two kinds have a case of one name."""

    def __init__(self, kind: str, case: Any) -> None:
        self.kind = kind
        self.name = case.name.removeprefix("test_")
        self.rtol, self.atol = case.rtol, case.atol
        self._case = case

    @functools.cached_property
    def source(self) -> onnx.ModelProto | Path:
        """What is loaded: a model, or the path of its file."""
        if self._case.model is not None:
            return self._case.model
        if self.kind == REAL:
            return Path(onnx.__file__).parent.parent / self._case.url
        return Path(self._case.model_dir) / "model.onnx"

    @functools.cached_property
    def proto(self) -> onnx.ModelProto:
        return self.source if isinstance(self.source, onnx.ModelProto) else onnx.load(os.fspath(self.source))

    def data(self) -> Iterator[tuple[list[Any], list[Any]]]:
        """(inputs, outputs) of each set."""
        if self._case.data_sets:
            for inputs, outputs in self._case.data_sets:
                yield [_array(x) for x in inputs], [_array(y) for y in outputs]
        elif self.kind == REAL:
            yield self._ramp(), [_read(Path(f"{os.fspath(self.source)[:-5]}_output_0.pb"), None)]
        else:
            for folder in sorted(Path(self._case.model_dir).glob("test_data_set_*")):
                yield self._folder(folder, "input"), self._folder(folder, "output")

    def _folder(self, folder: Path, side: str) -> list[Any]:
        ports = getattr(self.proto.graph, side)
        paths = [folder / f"{side}_{i}.pb" for i in range(len(ports))]
        return [_read(path, port.type) for path, port in zip(paths, ports, strict=True) if path.exists()]

    def _ramp(self) -> list[Any]:
        """The inputs that onnx's own runner gives the models of this kind."""
        weights = {t.name for t in self.proto.graph.initializer}
        ports = [p for p in self.proto.graph.input if p.name not in weights]
        shapes = [[d.dim_value or 1 for d in p.type.tensor_type.shape.dim] for p in ports]
        return [(np.arange(n := np.prod(s)).reshape(s) / n).astype(np.float32) for s in shapes]

    @property
    def plain(self) -> bool:
        """Whether it is a node case of plain types in the default domain."""
        graph = self.proto.graph
        types = [_types(port.type) for port in (*graph.input, *graph.output)]
        return self.kind == NODE and all(t <= PLAIN for t in types) and not any(n.domain for n in graph.node)

    @property
    def sampled(self) -> bool:
        """Whether it is in the tenth that runs on further devices."""
        return zlib.crc32(self.name.encode()) % 10 == 0

    def check(self, model: Model) -> None:
        """Run the model on each set of data; AssertionError where an output isn't as it must be."""
        for inputs, outputs in self.data():
            given = model(*inputs)
            assert len(given) >= len(outputs) > 0
            for got, want in zip(given, outputs, strict=False):
                agree(to_array(got), want, self.rtol, self.atol)


def _types(proto: Any) -> frozenset[Any]:
    which = proto.WhichOneof("value")
    if which == "tensor_type":
        return frozenset({proto.tensor_type.elem_type})
    return frozenset({which})


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _read(path: Path, type_: Any) -> Any:
    data = path.read_bytes()
    which = "tensor_type" if type_ is None else type_.WhichOneof("value")
    if which == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if which == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def agree(got: Any, want: Any, rtol: float, atol: float) -> None:
    """Assert equal structure, shapes and dtypes, and values within the tolerance; integers are equal."""
    if want is None or isinstance(want, list):
        assert type(got) is type(want)
        for g, w in zip(got or (), want or (), strict=True):
            agree(g, w, rtol, atol)
        return
    got, want = np.asarray(got), np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if want.dtype.kind in "OUSbiu":
        np.testing.assert_array_equal(got, want)
        return
    if want.dtype.name == "bfloat16":
        rtol = max(rtol, 2**-6)  # two units in the last place, as onnx's own runner allows
    if not np.issubdtype(want.dtype, np.inexact):  # of ml_dtypes
        got, want = got.astype(np.float32), want.astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


def load_cases() -> dict[str, Case]:
    """All cases by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases' own arithmetic overflows
        found = [Case(kind, case) for kind in KINDS for case in load_model_tests(kind=kind)]
    cases: dict[str, Case] = {}
    for case in found:
        if case.name in cases:
            case.name = f"{case.kind}-{case.name}"
        assert case.name not in cases
        cases[case.name] = case
    return cases
