"""Transforms make graphs of graphs: their tests compute with the interpreter unless they say otherwise."""

from __future__ import annotations

import pytest

from dawdle import config


@pytest.fixture(autouse=True)
def interpreted():
    with config.override(device="NUMPY"):
        yield
