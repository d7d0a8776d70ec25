"""Arithmetic, comparisons and functions of each element."""
