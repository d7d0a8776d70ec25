"""The API reference is what the docstrings and the op table say, and every method has a row."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WITHOUT_VALUES = {"manual_seed"}


def test_it_is_up_to_date():
    pytest.importorskip("torch", reason="rows whose reference is PyTorch are part of the table")
    command = [sys.executable, "tools/api_reference.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_method_has_a_row():
    text = (ROOT / "docs" / "api" / "operations.md").read_text()
    found = re.findall(r"^\| `(.+)` \| (.*?) \|", text, re.MULTILINE)
    assert len(found) > 350
    assert {name for name, dtypes in found if not dtypes.strip()} == WITHOUT_VALUES
