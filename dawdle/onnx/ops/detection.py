"""Non-maximum suppression."""
