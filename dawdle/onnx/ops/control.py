"""If, Loop and Scan."""
