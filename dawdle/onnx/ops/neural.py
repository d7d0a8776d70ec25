"""Convolution, pooling and products."""
