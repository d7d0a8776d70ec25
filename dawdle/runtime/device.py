"""The registry of devices: names, which of them work here, and the default."""
from __future__ import annotations

from collections.abc import Callable

from dawdle import config
from dawdle.errors import DeviceError
from dawdle.runtime.base import Device
from dawdle.runtime.numpy import NumpyDevice

# from the most to the least preferred default; a factory raises a DawdleError that says why a device doesn't work
FACTORIES: dict[str, Callable[[], Device]] = {"NUMPY": NumpyDevice}
_opened: dict[str, Device] = {}


def get_device(name: str) -> Device:
    """The device of that name, in any case of letters.

    Raises DeviceError for an unknown name, and what the device itself raises where it can't work here.
    """
    found = _opened.get(name)
    if found is not None:
        return found
    canonical = name.upper()
    if canonical not in FACTORIES:
        raise DeviceError(f"unknown device {name!r}; known are {', '.join(FACTORIES)}")
    if canonical not in _opened:
        _opened[canonical] = FACTORIES[canonical]()
    return _opened[canonical]


def default_device() -> str:
    """The canonical name of the device that values are made on: DAWDLE_DEVICE, or the best that works."""
    return get_device(config.current().device or "NUMPY").name
