"""Operators that move elements and change shapes."""
