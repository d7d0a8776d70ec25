"""ONNX models, run by dawdle's compiler on any of its devices: ``model = dawdle.onnx.load(path)``."""

import dawdle.onnx.ops as _ops
from dawdle.onnx.model import Model, Outputs, Port, load
from dawdle.onnx.registry import Node, known, operator
from dawdle.onnx.values import HostArray, host

__all__ = ["HostArray", "Model", "Node", "Outputs", "Port", "host", "known", "load", "operator"]

assert _ops.__all__  # imported for its operators
