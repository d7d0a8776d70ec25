"""dawdle: a deep-learning framework on a lazy tensor compiler."""

__version__ = "0.1.0"
