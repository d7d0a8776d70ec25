"""Fixtures for all tests."""

from __future__ import annotations

import pytest
from devices import WORKING

from dawdle import config


@pytest.fixture(params=WORKING)
def device(request):
    """The default device of the test, which runs on each of them."""
    with config.override(device=request.param):
        yield request.param
