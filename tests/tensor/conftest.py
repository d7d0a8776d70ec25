"""Tensor tests run on every device."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def everywhere(device):
    """Asks for the ``device`` fixture in every test."""
