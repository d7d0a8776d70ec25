"""Reductions and scans along axes."""
