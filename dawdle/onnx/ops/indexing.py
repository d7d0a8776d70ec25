"""Gather, scatter, slices and sorting."""
