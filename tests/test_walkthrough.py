"""The walk through the compiler runs from beginning to end, and its claims hold (it asserts them)."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WALKTHROUGH = Path(__file__).parent.parent / "docs" / "walkthrough.py"


def test_the_walkthrough_runs() -> None:
    done = subprocess.run([sys.executable, str(WALKTHROUGH)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for chapter in range(1, 11):
        assert f"\n{chapter}. " in done.stdout
