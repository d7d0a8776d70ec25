"""Small models for the tests, made by onnx.helper."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def port(name: str, dtype: int = TensorProto.FLOAT, shape: Sequence[Any] | None = ("n",)) -> Any:
    """An input or output."""
    return helper.make_tensor_value_info(name, dtype, shape)


def made(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 21,
    **more: Any,
) -> onnx.ModelProto:
    """A model of these nodes, checked by onnx."""
    initializers = [numpy_helper.from_array(a, name) for name, a in (weights or {}).items()]
    graph = helper.make_graph(list(nodes), "test", list(inputs), list(outputs), initializers)
    imports = [helper.make_opsetid("", opset), *more.pop("domains", [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, **more)


def linear(rng: np.random.Generator, n: int = 300) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """relu(x @ w + b) with weights large enough to be left in the file."""
    weights = {
        "w": rng.normal(size=(n, 40)).astype(np.float32),
        "b": rng.normal(size=40).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["xw"], "product"),
        helper.make_node("Add", ["xw", "b"], ["sum"], "bias"),
        helper.make_node("Relu", ["sum"], ["y"], "relu"),
    ]
    inputs, outputs = [port("x", shape=["batch", n])], [port("y", shape=["batch", 40])]
    return made(nodes, inputs, outputs, weights), weights
