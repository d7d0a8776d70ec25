"""ONNX models, run by dawdle's compiler on any of its devices: ``model = dawdle.onnx.load(path)``."""

from dawdle.onnx import ops  # registers the operators
from dawdle.onnx.model import Model, Outputs, Port, load
from dawdle.onnx.registry import Node, operator, operators
from dawdle.onnx.values import HostArray, host

__all__ = ["HostArray", "Model", "Node", "Outputs", "Port", "host", "load", "operator", "operators", "ops"]
