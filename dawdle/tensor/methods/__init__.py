"""What a Tensor can do, a list for each topic: every method is a function of a file beside this folder."""
