"""The devices that are tested: those that work here, or those that DAWDLE_TEST_DEVICES lists."""

from __future__ import annotations

import os

from dawdle.errors import DawdleError
from dawdle.runtime.device import FACTORIES, get_device


def working() -> list[str]:
    """Names of the devices to test."""
    wanted = os.environ.get("DAWDLE_TEST_DEVICES")
    names = []
    for name in wanted.split(",") if wanted else FACTORIES:
        try:
            names.append(get_device(name).name)
        except DawdleError:
            if wanted:
                raise
    return names


WORKING = working()
