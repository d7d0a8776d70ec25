"""Makes the helpers in this folder (``random_graphs``) importable from every test."""
