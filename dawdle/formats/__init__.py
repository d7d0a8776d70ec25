"""Files that hold tensors, whoever wrote them: what :func:`dawdle.nn.load` and :func:`dawdle.nn.save` use.

Reading never runs what a file contains, and a damaged or truncated file raises StateError, with the reason.
"""
