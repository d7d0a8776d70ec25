"""Tests of the ONNX importer: none where the onnx package is missing."""
from __future__ import annotations

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("onnx") else ["test_*.py"]
