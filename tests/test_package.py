"""What ``import dawdle`` gives."""

from __future__ import annotations

import subprocess
import sys

import dawdle


def test_exports_exist():
    missing = [name for name in dawdle.__all__ if not hasattr(dawdle, name)]
    assert not missing and len(set(dawdle.__all__)) == len(dawdle.__all__)


def test_one_import_is_enough():
    code = "import dawdle; print(dawdle.nn.Linear(3, 2)(dawdle.ones(1, 3)).shape)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "(1, 2)\n", done.stderr
