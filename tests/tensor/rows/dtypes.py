"""Casts."""
from __future__ import annotations

from table import row

row("to float16", lambda a: a.half().float(), lambda a: a.astype("float16").astype("f"), gradient=False)
row("to int", lambda a: a.int(), lambda a: a.astype("int32"), gradient=False)
row("to bool", lambda a: a.bool(), lambda a: a.astype(bool), domain="count", gradient=False)
row("cast", lambda a: a.double() * 2, lambda a: a.astype("float64") * 2)
