"""The registry of devices: names, which of them work here, and the default."""

from __future__ import annotations

import functools
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

from dawdle import config
from dawdle.errors import DawdleError, DeviceError
from dawdle.runtime.base import Device
from dawdle.runtime.cpu import CpuDevice
from dawdle.runtime.numpy import NumpyDevice

# from the most to the least preferred default; a factory raises a DawdleError that says why a device doesn't
# work
FACTORIES: dict[str, Callable[[], Device]] = {"CPU": CpuDevice, "NUMPY": NumpyDevice}
_lock = threading.Lock()


def get_device(name: str) -> Device:
    """The device of that name, in any case of letters.

    Raises DeviceError for an unknown name, and what the device itself raises where it can't work here:
    CompileError, if there is no compiler for it.
    """
    found = _opened.get(name)
    return found if found is not None else _open(name)


_opened: dict[str, Device] = {}


def _open(name: str) -> Device:
    canonical = name.upper()
    if canonical not in FACTORIES:
        raise DeviceError(f"unknown device {name!r}; known are {', '.join(FACTORIES)}")
    with _lock:
        if canonical not in _opened:
            _opened[canonical] = FACTORIES[canonical]()
            if config.current().debug >= 1:
                print(f"dawdle: opened device {canonical}")
        return _opened[canonical]


def default_device() -> str:
    """The canonical name of the device on which values are made: DAWDLE_DEVICE, or the best that works.

    Warns, once, where that isn't the fastest kind and says how to get it.
    """
    return get_device(config.current().device or _best()).name


@functools.lru_cache
def _best() -> str:
    for name in FACTORIES:
        try:
            return get_device(name).name
        except DawdleError as e:
            text = f"device {name} doesn't work here, so the next best serves: {e}"
            warnings.warn(text, RuntimeWarning, stacklevel=_users_level())
    raise AssertionError("NUMPY always works")


def _users_level() -> int:
    """The ``stacklevel`` at which the caller's warning names the line outside of dawdle that led to it."""
    package, level = __name__.partition(".")[0], 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    return level


@dataclass(frozen=True)
class Status:
    """Whether a device works here; if not, ``reason`` says why."""

    name: str
    works: bool
    reason: str


def devices() -> list[Status]:
    """Every known device, from the fastest kind to the slowest."""
    result = []
    for name in FACTORIES:
        try:
            get_device(name)
            result.append(Status(name, True, ""))
        except DawdleError as e:
            result.append(Status(name, False, str(e)))
    return result
