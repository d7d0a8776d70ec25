"""Models of a single node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import helper

import dawdle.onnx

Array = np.ndarray[Any, Any]


@dataclass
class Row:
    """One node, and what is fed to it. An input of None is left out."""

    op: str
    inputs: list[Array | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    opset: int = 22
    domain: str = ""

    def __str__(self) -> str:
        shapes = "-".join("none" if x is None else "x".join(map(str, x.shape)) for x in self.inputs)
        options = "-".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.op}-{shapes}-{options}".replace(" ", "").replace("'", "")

    def model(self) -> bytes:
        """Its inputs are x0, x1..., its outputs y0, y1..."""
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(self.inputs)]
        outputs = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, outputs, domain=self.domain, **self.attributes)
        ports = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in zip(names, self.inputs, strict=True)
            if x is not None
        ]
        results = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph([node], "g", ports, results)
        opset = helper.make_opsetid(self.domain, self.opset)
        return bytes(helper.make_model(graph, opset_imports=[opset], ir_version=10).SerializeToString())

    def given(self) -> dict[str, Array]:
        """The inputs by name."""
        return {f"x{i}": x for i, x in enumerate(self.inputs) if x is not None}

    def run(self, device: str = "NUMPY") -> list[Array]:
        """What dawdle makes of it."""
        return [y.numpy() for y in dawdle.onnx.load(self.model(), device=device)(**self.given())]
