"""Tensor tests run on every device."""
from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from rows import ALL

HERE = Path(__file__).parent
FAST = ("CPU", "NUMPY")
# what a device's own arithmetic decides
OF_DEVICES = ("test_tensor_ops", "test_special_values", "test_elementwise", "test_tensor_numerics")


@pytest.fixture(autouse=True)
def everywhere(device):
    """Asks for the ``device`` fixture in every test."""


def left_out(item: pytest.Item) -> bool:
    """Whether a test isn't run on its device: where compiling is slow, two thirds of those on the meaning of
    methods, which is the same for all devices.
    """
    path = Path(item.path)
    device = getattr(item, "callspec", None) and item.callspec.params.get("device")
    return (
        path.parent == HERE
        and path.stem not in OF_DEVICES
        and device is not None
        and device not in FAST
        and zlib.crc32(item.name.encode()) % 3 > 0
    )


def pytest_collection_modifyitems(config, items):
    if ALL:
        return
    config.hook.pytest_deselected(items=[item for item in items if left_out(item)])
    items[:] = [item for item in items if not left_out(item)]
