"""The primitive ops of the graph and the families they fall into."""
from __future__ import annotations

from enum import Enum


class Op(Enum):
    # leaves
    BUFFER = "buffer"  # arg: the storage that holds the value
    CONST = "const"  # arg: a Python scalar; shape ()
    IOTA = "iota"  # shape (n,): 0, 1, ..., n-1
    # elementwise, one operand
    CAST = "cast"
    BITCAST = "bitcast"
    NEG = "neg"
    RECIP = "recip"
    SQRT = "sqrt"
    EXP2 = "exp2"
    LOG2 = "log2"
    SIN = "sin"
    TRUNC = "trunc"
    # elementwise, two operands of one dtype
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    IDIV = "idiv"  # floor division, as NumPy's //
    MOD = "mod"  # remainder with the divisor's sign, as NumPy's %
    MAX = "max"  # propagates NaN; of two zeros, a device may give either
    CMPLT = "cmplt"
    CMPEQ = "cmpeq"
    AND = "and"
    OR = "or"
    XOR = "xor"
    SHL = "shl"
    SHR = "shr"
    # elementwise, three operands
    WHERE = "where"
    FMA = "fma"  # a * b + c of floats, rounded once where the device does that in one instruction
    # along axes
    SUM = "sum"  # arg: axes; the reduced axes keep size 1
    PROD = "prod"
    AMAX = "amax"  # the reduction with MAX
    SCAN = "scan"  # arg: (ADD | MUL | MAX, axis)
    # movement: pure index maps
    RESHAPE = "reshape"
    PERMUTE = "permute"
    EXPAND = "expand"
    FLIP = "flip"
    SLICE = "slice"
    PAD = "pad"
    WINDOW = "window"
    UNWINDOW = "unwindow"
    # data-dependent indices
    GATHER = "gather"
    SCATTER = "scatter"
    CHECK = "check"  # an index; arg: (low, high, who asks), between which its elements must be: see check.py
    # storage
    CONTIGUOUS = "contiguous"
    COPY = "copy"
    AFTER = "after"  # the last operand, computed after the others
    CUSTOM = "custom"

    def __repr__(self) -> str:
        return self.name

    __hash__ = object.__hash__  # members are singletons: much cheaper than Enum's


LEAF = frozenset({Op.BUFFER, Op.CONST, Op.IOTA})
UNARY = frozenset({Op.CAST, Op.BITCAST, Op.NEG, Op.RECIP, Op.SQRT, Op.EXP2, Op.LOG2, Op.SIN, Op.TRUNC})
COMPARE = frozenset({Op.CMPLT, Op.CMPEQ})
BITWISE = frozenset({Op.AND, Op.OR, Op.XOR})
SHIFT = frozenset({Op.SHL, Op.SHR})
ARITHMETIC = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.IDIV, Op.MOD, Op.MAX})
BINARY = ARITHMETIC | COMPARE | BITWISE | SHIFT
TERNARY = frozenset({Op.WHERE, Op.FMA})
ELEMENTWISE = UNARY | BINARY | TERNARY
REDUCE = frozenset({Op.SUM, Op.PROD, Op.AMAX})
MOVEMENT = frozenset({Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.FLIP, Op.SLICE, Op.PAD, Op.WINDOW})
STORAGE = frozenset({Op.CONTIGUOUS, Op.COPY, Op.AFTER, Op.CUSTOM})
COMMUTATIVE = frozenset({Op.ADD, Op.MUL, Op.MAX, Op.CMPEQ, Op.AND, Op.OR, Op.XOR})

# the elementwise op that a reduction or scan repeats
COMBINE = {Op.SUM: Op.ADD, Op.PROD: Op.MUL, Op.AMAX: Op.MAX}
