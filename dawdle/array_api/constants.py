"""Constants of the standard."""

from __future__ import annotations

import math

__all__ = ["e", "inf", "nan", "newaxis", "pi"]

e, pi, inf, nan = math.e, math.pi, math.inf, math.nan
newaxis = None
