"""The rows of the op table, a file for each topic; importing this imports all."""
from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from table import ROWS

__all__ = ["ROWS"]

for found in iter_modules(__path__):
    import_module(f"{__name__}.{found.name}")
