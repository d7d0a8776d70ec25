"""The rows of the op table, a file for each topic; importing this imports all.

A case is a row and the number of one of its shapes. Where kernels are compiled fast, two of each row are
run; elsewhere one, of each operation's first row and of an eighth of the others. DAWDLE_TEST_ALL=1: all.
"""
from __future__ import annotations

import os
import zlib
from importlib import import_module
from pkgutil import iter_modules

from table import ROWS, Row

__all__ = ["ALL", "CASES", "FAST", "ROWS", "SLOW"]

Case = tuple[Row, int]

for found in iter_modules(__path__):
    import_module(f"{__name__}.{found.name}")


def sample() -> list[Case]:
    rows = [row for row in ROWS if row.compiled]
    first = {row.name.split()[0]: row for row in reversed(rows)}
    chosen = {*(row.name for row in first.values()), *(row.name for row in rows if drawn(row))}
    return [(row, 0) for row in rows if row.name in chosen]


def drawn(row: Row) -> bool:
    return zlib.crc32(row.name.encode()) % 8 == 0


CASES = [(row, which) for row in ROWS for which in range(len(row.shapes))]
ALL = os.environ.get("DAWDLE_TEST_ALL") == "1"
FAST = CASES if ALL else [(row, which) for row, which in CASES if which < 2 and row.compiled]
SLOW = CASES if ALL else sample()
