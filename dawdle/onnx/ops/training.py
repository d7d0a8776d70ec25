"""Gradients and optimizer steps of ai.onnx.preview.training."""
