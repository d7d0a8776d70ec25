"""Batch, instance, layer, group and RMS normalisation, softmax, LRN."""
