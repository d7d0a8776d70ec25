"""ONNX models, run by dawdle's compiler."""
