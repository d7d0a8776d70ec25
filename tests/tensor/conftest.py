"""Tensor tests run on every device; where compiling is slow, most of those that don't depend on it are left
out. DAWDLE_TEST_ALL=1 runs all.
"""
from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from rows import ALL

HERE = Path(__file__).parent
FAST = ("CPU", "NUMPY")
# one in so many is run elsewhere: of what a device's own arithmetic decides more than of what methods mean
ONE_IN = {"test_tensor_ops": 1, "test_special_values": 2, "test_elementwise": 1, "test_tensor_numerics": 3}
ONE_IN_OTHERS = 6


@pytest.fixture(autouse=True)
def everywhere(device):
    """Asks for the ``device`` fixture in every test."""


def left_out(item: pytest.Item) -> bool:
    path = Path(item.path)
    device = item.callspec.params.get("device", "CPU") if hasattr(item, "callspec") else "CPU"
    one_in = ONE_IN.get(path.stem, ONE_IN_OTHERS)
    return path.parent == HERE and device not in FAST and zlib.crc32(item.name.encode()) % one_in > 0


def pytest_collection_modifyitems(config, items):
    if ALL:
        return
    config.hook.pytest_deselected(items=[item for item in items if left_out(item)])
    items[:] = [item for item in items if not left_out(item)]
