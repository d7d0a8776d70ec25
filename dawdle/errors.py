"""The exception tree. Every mistake a user can make raises one of these, saying what, why and the fix."""


class DawdleError(Exception):
    """Base class of all errors raised by dawdle."""


class ShapeError(DawdleError, ValueError):
    """Shapes don't fit together, or an axis or size is out of range."""


class ArgumentError(DawdleError, ValueError):
    """An argument has a value that the operation doesn't know, or that doesn't go with the others."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is of a kind that the operation doesn't take."""


class ConversionError(ShapeError, TypeError):
    """A tensor was used as a Python number or sequence that its shape doesn't allow; Python's own functions
    expect a TypeError there.
    """


class DTypeError(DawdleError, TypeError):
    """An operation doesn't accept the dtype it was given."""


class RangeError(DawdleError, OverflowError):
    """A Python number doesn't fit the dtype that it is needed in."""


class DeviceError(DawdleError, RuntimeError):
    """A device is unknown or unavailable, or operands live on different devices."""


class IndexingError(DawdleError, IndexError):
    """An index is out of range or of an unsupported kind."""


class GradientError(DawdleError, RuntimeError):
    """A gradient was asked for where none can be computed."""


class LinAlgError(DawdleError, ValueError):
    """A matrix is singular, or not positive definite, or an algorithm on it didn't converge."""


class InterchangeError(DawdleError, BufferError):
    """Memory can't be shared with another library in the way that was asked for."""


class CompileError(DawdleError, RuntimeError):
    """No compiler was found, or the compiler rejected a generated kernel."""


class OutOfMemoryError(DawdleError, MemoryError):
    """An allocation would exceed the memory limit or the machine's memory."""


class JitError(DawdleError, RuntimeError):
    """A function can't be captured by ``@jit``."""


class TransformError(DawdleError, RuntimeError):
    """A function can't be transformed, by ``vmap`` or another transform, as it is written."""


class StateError(DawdleError, ValueError):
    """A state dict or checkpoint file doesn't match, or is damaged."""


class DataError(DawdleError, ValueError):
    """A data set or loader was given something it can't use."""


class VerifyError(DawdleError, AssertionError):
    """An IR is malformed: a bug in dawdle, reported by a verifier."""


class ModelError(DawdleError, ValueError):
    """A model's file is malformed, uses operators that dawdle doesn't know, or lacks what it refers to."""
