"""Constants, ranges and casts."""
