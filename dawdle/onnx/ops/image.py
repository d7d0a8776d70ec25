"""Resizing, sampling and regions of images."""
