"""What ``import dawdle`` gives."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

import dawdle


def test_exports_exist():
    missing = [name for name in dawdle.__all__ if not hasattr(dawdle, name)]
    assert not missing and len(set(dawdle.__all__)) == len(dawdle.__all__)


def test_one_import_is_enough():
    code = "import dawdle; print(dawdle.nn.Linear(3, 2)(dawdle.ones(1, 3)).shape)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "(1, 2)\n", done.stderr


def test_pytorchs_names_of_dtypes_and_numbers():
    x = dawdle.tensor([0.0, 2.0])
    for name in ("bool", "half", "float", "double", "short", "int", "long"):
        assert x.to(getattr(dawdle, name)).dtype is getattr(x, name)().dtype
        assert name not in dawdle.__all__  # a star import leaves Python's
    assert x.masked_fill(x > 1, -dawdle.inf).tolist() == [0.0, -np.inf] and np.isnan(dawdle.nan)
    assert (dawdle.pi, dawdle.e) == (np.pi, np.e) and x[:, dawdle.newaxis].shape == (2, 1)


def test_functions_are_the_methods():
    x = dawdle.tensor([[3.0, 1.0], [2.0, 4.0]])
    for name in dawdle.functions.__all__:
        method, function = getattr(dawdle.Tensor, name, None), getattr(dawdle, name)
        layers = [function]
        while hasattr(layers[-1], "__wrapped__"):
            layers.append(layers[-1].__wrapped__)
        assert method is None or method in layers, name
    assert dawdle.sum(x, 0).tolist() == [5, 5] and dawdle.gather(x, 1, [[1], [0]]).tolist() == [[1], [2]]
    assert dawdle.sort(x, dim=1).indices.tolist() == [[1, 0], [0, 1]]
    assert dawdle.sin(np.zeros(2)).tolist() == [0, 0] and dawdle.sum([1, 2]).item() == 3
    assert dawdle.maximum(1, x.half()).dtype is dawdle.float16
    assert dawdle.hstack([x, x]).shape == (2, 4) and dawdle.uniform(3, low=0.5).shape == (3,)
