"""Damaged files: whatever is wrong with one, the error is dawdle's own."""
from __future__ import annotations

import numpy as np
import pytest
from models import linear

import dawdle.onnx
from dawdle.errors import DawdleError

WHOLE = linear(np.random.default_rng(0))[0].SerializeToString()
TELLING = [i for i in range(len(WHOLE)) if i < 200 or i > len(WHOLE) - 300]  # bytes that aren't weights
X = np.ones((1, 300), np.float32)


def damaged(seed: int) -> bytes:
    """The file with some bytes changed; a third of them cut off."""
    rng = np.random.default_rng(seed)
    data = bytearray(WHOLE)
    for at in rng.choice(TELLING, rng.integers(1, 4)):
        data[at] = rng.integers(256)
    return bytes(data[: rng.integers(len(data))] if seed % 3 == 0 else data)


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_damaged_files(first):
    refused = 0
    for seed in range(first, first + 100):
        try:
            dawdle.onnx.load(damaged(seed), device="NUMPY")(X)
        except DawdleError:
            refused += 1
    assert 40 < refused < 100  # changed weights or names go unnoticed
