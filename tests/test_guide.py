"""The snippets of the user's guide."""

import doctest
from pathlib import Path


def test_guide():
    guide = Path(__file__).parent.parent / "docs" / "guide.md"
    failed, tried = doctest.testfile(str(guide), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert tried > 30 and not failed
