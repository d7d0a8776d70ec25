"""The rows of the op table, a file for each topic; importing this imports all.

A case is a row and the number of one of its shapes. Where kernels are compiled fast, two of each row are
run; elsewhere one of each operation's first row. DAWDLE_TEST_ALL=1: all.
"""
from __future__ import annotations

import os
from importlib import import_module
from pkgutil import iter_modules

from table import ROWS, Row

__all__ = ["ALL", "CASES", "FAST", "ROWS", "SLOW"]

Case = tuple[Row, int]

for found in iter_modules(__path__):
    import_module(f"{__name__}.{found.name}")


def first_rows() -> list[Case]:
    """The first row of each operation."""
    rows = {row.name.split()[0]: row for row in reversed(ROWS) if row.compiled}
    return [(row, 0) for row in reversed(rows.values())]


CASES = [(row, which) for row in ROWS for which in range(len(row.shapes))]
ALL = os.environ.get("DAWDLE_TEST_ALL") == "1"
FAST = CASES if ALL else [(row, which) for row, which in CASES if which < 2 and row.compiled]
SLOW = CASES if ALL else first_rows()
