"""Sums of integer terms: the canonical form of index expressions, their bounds and division by constants.

An index expression (dtype ``INDEX``, scalar) is a sum of terms, each an integer times an *atom*: a range, a
division or remainder by a positive constant, a minimum, a product, or anything else, which stays opaque.
Terms stand in a canonical order: equal values built in different orders are one interned object. Division
rounds down, also below zero.

Every function takes operands in canonical form. Indices (all that is made of ranges and loop variables) are
taken not to overflow; sums with other atoms, which may be a user's int64 values, are only rearranged where
wrapping can't matter. ``known`` maps an atom, or a sum without its constant, to bounds that may be relied on.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from itertools import combinations

from dawdle.codegen.expr import INDEX, Expr, X, const, make, walk
from dawdle.lazy.ops import Op
from dawdle.lazy.walk import postorder

Interval = tuple[int | None, int | None]  # inclusive; None: unbounded
Known = Mapping[Expr, Interval]
Terms = dict[Expr, int]

UNBOUNDED: Interval = (None, None)
MAX_FACTORS = 8


def is_index(e: Expr) -> bool:
    """Whether the algebra computes with ``e``: a scalar of the index dtype."""
    return e.dtype is INDEX and e.lanes == 1


# ---- sums of terms ----


def order_key(e: Expr) -> str:
    """Text that orders expressions by structure, not address: every process generates the same code."""
    if e.key is None:
        for n in walk([e], lambda n: n.key is not None):
            if n.key is None:
                below = " ".join(s.key or "" for s in n.src)
                text = f"{n.op!r} {n.arg!r} {n.dtype.name} {n.lanes} {below}"
                names = ",".join(sorted(r.name for r in n.free))
                n.key = f"{names} {hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}"
    assert e.key is not None
    return e.key


def _linear(e: Expr) -> bool:
    if not is_index(e):
        return False
    if e.op is Op.MUL:
        return e.src[0].op is Op.CONST or e.src[1].op is Op.CONST
    return e.op in (Op.ADD, Op.SUB, Op.NEG, Op.CONST)


def below(root: Expr, descend: Callable[[Expr], bool]) -> list[Expr]:
    """The nodes below ``root``, operands first, but not the operands of nodes that ``descend`` refuses."""
    return postorder([root], lambda node: node.src if descend(node) else ())


def terms_of(e: Expr) -> tuple[Terms, int]:
    """``e`` as a sum: coefficient of each atom, and the constant."""
    if e.terms is not None:
        return dict(e.terms[0]), e.terms[1]
    if not _linear(e):
        return {e: 1}, 0
    if e.op is Op.CONST:
        return {}, e.arg
    weight = {e: 1}
    terms: Terms = {}
    offset = 0
    for n in reversed(below(e, _linear)):  # users before operands
        k = weight[n]
        if n.op is Op.CONST and _linear(n):
            offset += k * n.arg
        elif not _linear(n):
            terms[n] = k
        elif n.op is Op.MUL:
            factor, other = n.src if n.src[0].op is Op.CONST else n.src[::-1]
            weight[other] = weight.get(other, 0) + k * factor.arg
            weight.setdefault(factor, 0)
        else:
            signs = {Op.ADD: (1, 1), Op.SUB: (1, -1), Op.NEG: (-1,)}[n.op]  # type: ignore[index]
            for s, sign in zip(n.src, signs, strict=True):
                weight[s] = weight.get(s, 0) + sign * k
    return {a: k for a, k in terms.items() if k}, offset


def _accumulate(into: Terms, terms: Mapping[Expr, int], k: int = 1) -> None:
    for a, c in terms.items():
        into[a] = into.get(a, 0) + k * c
        if not into[a]:
            del into[a]


def _fits(value: int) -> bool:
    return -(1 << 63) <= value < 1 << 63


def _wrap(value: int) -> int:
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def ordered(terms: Terms) -> list[tuple[Expr, int]]:
    return sorted(terms.items(), key=lambda t: (-abs(t[1]), order_key(t[0]), id(t[0])))


def sum_of(terms: Terms, offset: int) -> Expr:
    """The canonical expression of a sum: large coefficients first, the constant last."""
    terms, offset = _wrapped(terms, offset)
    total: Expr | None = None
    for atom, k in ordered(terms):
        term = atom if k == 1 else make(Op.MUL, (atom, const(k)), None, INDEX)
        total = term if total is None else make(Op.ADD, (total, term), None, INDEX)
    if total is None:
        return const(offset)
    out = make(Op.ADD, (total, const(offset)), None, INDEX) if offset else total
    if out.op is Op.ADD:
        out.terms, out.canonical = (terms, offset), True
    elif out.op is Op.MUL:
        out.terms = terms, 0
    return out


def _wrapped(terms: Terms, offset: int) -> tuple[Terms, int]:
    """The terms that a sum's canonical expression has."""
    terms, offset = _recombine({a: k for a, c in terms.items() if (k := _wrap(c))}, offset)
    return terms, _wrap(offset)


def difference(a: Expr, b: Expr) -> tuple[Terms, int]:
    """The terms of a - b: those of :func:`sub`, without the expression."""
    terms, offset = terms_of(a)
    more, constant = terms_of(b)
    _accumulate(terms, more, -1)
    return _wrapped(terms, offset - constant)


def divisor(e: Expr, op: Op) -> int:
    """c where ``e`` is an index ``x // c`` or ``x % c`` (as ``op`` says) by a positive constant, else 0."""
    if e.op is op and is_index(e) and e.src[1].op is Op.CONST:
        return max(int(e.src[1].arg), 0)
    return 0


def _recombine(terms: Terms, offset: int) -> tuple[Terms, int]:
    """Undo divisions: k*c*(x//c) + k*(x%c) -> k*x, and k*c*(x//c%b) + k*(x%c) -> k*(x%(b*c))."""
    changed = True
    while changed:
        changed = False
        for m in [a for a in terms if divisor(a, Op.MOD)]:
            x, c, k = m.src[0], m.src[1].arg, terms[m]
            inner = divisor(x, Op.IDIV)
            quotient = make(Op.IDIV, (x.src[0], const(inner * c)) if inner else (x, const(c)), None, INDEX)
            have = terms.get(quotient, 0)
            outer = next((a for a in terms if a.src and a.src[0] is quotient and divisor(a, Op.MOD)), None)
            if have * k > 0 and abs(have) >= abs(k * c):
                _accumulate(terms, {m: -k, quotient: -k * c})
                whole = x
            elif outer is not None and terms[outer] == k * c and _fits(c * outer.src[1].arg):
                _accumulate(terms, {m: -k, outer: -k * c})
                whole = mod(x, c * outer.src[1].arg)
            else:
                continue
            more, constant = terms_of(whole)
            _accumulate(terms, more, k)
            offset += k * constant
            changed = True
            break
    return terms, offset


def add(a: Expr, b: Expr | int) -> Expr:
    """a + b."""
    return _combine(a, b, 1)


def sub(a: Expr, b: Expr | int) -> Expr:
    """a - b."""
    return _combine(a, b, -1)


def _combine(a: Expr, b: Expr | int, k: int) -> Expr:
    terms, offset = terms_of(a)
    more, constant = ({}, b) if isinstance(b, int) else terms_of(b)
    _accumulate(terms, more, k)
    return sum_of(terms, offset + k * constant)


def mul(a: Expr, b: Expr | int) -> Expr:
    """a * b, distributed over the terms of index sums."""
    b = const(b) if isinstance(b, int) else b
    (ta, ca), (tb, cb) = terms_of(a), terms_of(b)
    alone = max(len(ta) + bool(ca), len(tb) + bool(cb)) <= 1 or not ta or not tb
    if not alone and (len(ta) * len(tb) > 64 or not all(map(is_tame, (*ta, *tb)))):
        return _product(a, b)
    terms: Terms = {}
    for x, kx in ta.items():
        for y, ky in tb.items():
            _accumulate(terms, {_product(x, y): kx * ky})
    _accumulate(terms, ta, cb)
    _accumulate(terms, tb, ca)
    return sum_of(terms, ca * cb)


def _product(x: Expr, y: Expr) -> Expr:
    """x * y, its factors in canonical order; a product of very many, such as a power of user data, stays as
    it is.
    """
    factors: list[Expr] = []
    stack = [x, y]
    while stack:
        if len(factors) + len(stack) > MAX_FACTORS:
            return make(Op.MUL, (x, y), None, INDEX)
        f = stack.pop()
        if f.op is Op.MUL and is_index(f):
            stack.extend(f.src)
        else:
            factors.append(f)
    product, *rest = sorted(factors, key=lambda f: (order_key(f), id(f)))
    for f in rest:
        product = make(Op.MUL, (product, f), None, INDEX)
    return product


# ---- bounds ----


def _plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def scaled(i: Interval, k: int) -> Interval:
    lo, hi = (None if v is None else v * k for v in i)
    return (0, 0) if k == 0 else (lo, hi) if k > 0 else (hi, lo)


def meet(a: Interval, b: Interval) -> Interval:
    """The interval of values that lie in both."""
    los, his = [v for v in (a[0], b[0]) if v is not None], [v for v in (a[1], b[1]) if v is not None]
    return max(los, default=None), min(his, default=None)


def _least(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else min(a, b)


def _most(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else max(a, b)


def _bounds_mul(a: Interval, b: Interval) -> Interval:
    for i, j in ((a, b), (b, a)):
        if i[0] is not None and i[0] == i[1]:
            return scaled(j, i[0])
    if None in a or None in b:
        return UNBOUNDED
    corners = [x * y for x in a for y in b if x is not None and y is not None]
    return min(corners), max(corners)


def _bounds_idiv(a: Interval, b: Interval) -> Interval:
    if b[0] is None or b[0] != b[1] or b[0] <= 0:
        return UNBOUNDED
    lo, hi = (None if v is None else v // b[0] for v in a)
    return lo, hi


def _bounds_mod(a: Interval, b: Interval) -> Interval:
    if b[0] is None or b[0] != b[1] or b[0] <= 0:
        return UNBOUNDED
    c, (lo, hi) = b[0], a
    return (lo % c, hi % c) if lo is not None and hi is not None and lo // c == hi // c else (0, c - 1)


_TAME = frozenset({Op.ADD, Op.SUB, Op.NEG, Op.MUL, Op.IDIV, Op.MOD, X.MIN})
_BOUNDS: dict[Op | X, Callable[..., Interval]] = {
    Op.ADD: lambda a, b: (_plus(a[0], b[0]), _plus(a[1], b[1])),
    Op.SUB: lambda a, b: (_plus(a[0], scaled(b, -1)[0]), _plus(a[1], scaled(b, -1)[1])),
    Op.NEG: lambda a: scaled(a, -1),
    Op.MUL: _bounds_mul,
    Op.IDIV: _bounds_idiv,
    Op.MOD: _bounds_mod,
    X.MIN: lambda a, b: (_least(a[0], b[0]), min((v for v in (a[1], b[1]) if v is not None), default=None)),
    Op.MAX: lambda a, b: (max((v for v in (a[0], b[0]) if v is not None), default=None), _most(a[1], b[1])),
    Op.WHERE: lambda _, a, b: (_least(a[0], b[0]), _most(a[1], b[1])),
}


def _leaf_bounds(e: Expr) -> Interval:
    if e.op is Op.CONST and is_index(e):
        return e.arg, e.arg
    if e.op is X.RANGE:
        return 0, e.arg.extent - 1
    if e.op is Op.CAST and is_index(e):
        source = e.src[0].dtype
        if not source.is_float and source.bits < INDEX.bits:
            return int(source.min), int(source.max)
    return UNBOUNDED


def bounds(e: Expr, known: Known | None = None) -> Interval:
    """Inclusive bounds of an index expression over all values of its ranges; None where there is none."""
    if not known and e.bounds is not None:
        return e.bounds
    found: dict[Expr, Interval] = {}
    order = below(e, lambda n: n.op in _BOUNDS and is_index(n) and (bool(known) or n.bounds is None))
    for n in order:
        if not known and n.bounds is not None:
            found[n] = n.bounds
            continue
        ruled = n.op in _BOUNDS and is_index(n)
        i = _BOUNDS[n.op](*(found[s] for s in n.src)) if ruled else _leaf_bounds(n)
        found[n] = meet(i, known[n]) if known and n in known else i
        if not known:
            n.bounds = i
    return found[e]


def interval(terms: Terms, offset: int, known: Known | None) -> Interval:
    """Bounds of a sum of terms and a constant."""
    total: Interval = (0, 0)
    for a, k in terms.items():
        lo, hi = scaled(bounds(a, known), k)
        total = _plus(total[0], lo), _plus(total[1], hi)
    if known and len(terms) > 1:
        opposite = {a: -k for a, k in terms.items()}
        for x, limits in known.items():
            if x.terms is not None and x.terms[0] == terms:
                total = meet(total, limits)
            elif x.terms is not None and x.terms[0] == opposite:
                total = meet(total, scaled(limits, -1))
    return _plus(total[0], offset), _plus(total[1], offset)


def is_tame(e: Expr) -> bool:
    """Whether ``e`` is made of ranges and loop variables only."""
    if e.tame is None:
        for n in below(e, lambda n: n.tame is None and n.op in _TAME and is_index(n)):
            if n.tame is None:
                leaf = n.op in (X.RANGE, X.VAR, Op.CONST)
                n.tame = leaf or (n.op in _TAME and is_index(n) and all(s.tame for s in n.src))
    return bool(e.tame)


def is_exact(e: Expr, known: Known | None = None) -> bool:
    """Whether the sum ``e`` is the same in integers of 64 bits as in unlimited ones."""
    if not _linear(e) or e.op is Op.CONST:
        return True  # no arithmetic to overflow
    terms, offset = terms_of(e)
    lo, hi = interval(terms, offset, known)
    return all(map(is_tame, terms)) if lo is None or hi is None else _fits(lo) and _fits(hi)


def _quotient(i: Interval, c: int) -> int | None:
    """x // c where all x in the interval share it."""
    return i[0] // c if i[0] is not None and i[1] is not None and i[0] // c == i[1] // c else None


# ---- division ----


def steps(terms: Terms) -> set[int]:
    """Numbers worth trying as g in the grouping ``g*X + rest``."""
    sizes = {abs(k) for k in terms.values()}
    return sizes | {math.gcd(a, b) for a, b in combinations(sizes, 2)}


def _reduce(e: Expr, c: int, known: Known | None) -> tuple[Expr, Expr, int, int, Expr]:
    """(Q, X, d, g, S) with  e // c == Q + X//d  and  e % c == g*(X % d) + S;  X is 0 if nothing is left."""
    if not is_exact(e, known):
        return const(0), e, c, 1, const(0)
    terms, offset = terms_of(e)
    whole: Terms = {}
    whole_offset = 0
    low: Terms = {}
    low_offset, scale = 0, 1
    while True:
        # (c*q + r) // c -> q + r//c
        quotients = {a: (abs(k) // c) * (1 if k > 0 else -1) for a, k in terms.items()}
        _accumulate(whole, {a: q for a, q in quotients.items() if q})
        terms = {a: k - c * quotients[a] for a, k in terms.items() if k != c * quotients[a]}
        whole_offset += offset // c
        offset %= c
        q = _quotient(interval(terms, offset, known), c)
        if q is not None:  # r // c is constant
            _accumulate(low, terms, scale)
            low_offset += scale * (offset - c * q)
            return sum_of(whole, whole_offset + q), const(0), c, scale, sum_of(low, low_offset)
        for g in sorted({math.gcd(s, c) for s in steps(terms)} - {1, c}, reverse=True):
            # (g*x + s) // (g*d) -> x // d  where 0 <= s < g
            small = {a: k for a, k in terms.items() if k % g}
            q = _quotient(interval(small, offset % g, known), g)
            if q is not None:
                _accumulate(low, small, scale)
                low_offset += scale * (offset % g - g * q)
                terms = {a: k // g for a, k in terms.items() if not k % g}
                offset = offset // g + q
                scale *= g
                c //= g
                break
        else:
            return sum_of(whole, whole_offset), sum_of(terms, offset), c, scale, sum_of(low, low_offset)


def idiv(a: Expr, c: int, known: Known | None = None) -> Expr:
    """Floor division by a positive constant."""
    assert c > 0
    total = const(0)
    while True:
        if c == 1:
            return add(total, a)
        whole, x, c, _, _ = _reduce(a, c, known)
        total = add(total, whole)
        if x.op is Op.CONST:
            return total
        inner, modulus = divisor(x, Op.IDIV), divisor(x, Op.MOD)
        if inner and _fits(inner * c):  # (x // a) // b -> x // (a*b)
            a, c = x.src[0], inner * c
        elif modulus and modulus % c == 0:  # (x % (a*b)) // a -> (x // a) % b
            return add(total, mod(idiv(x.src[0], c, known), modulus // c, known))
        else:
            return add(total, make(Op.IDIV, (x, const(c)), None, INDEX))


def mod(a: Expr, c: int, known: Known | None = None) -> Expr:
    """Remainder by a positive constant, in [0, c)."""
    assert c > 0
    total, scale = const(0), 1
    while True:
        if c == 1:
            return total
        _, x, c, g, low = _reduce(a, c, known)
        total = add(total, mul(low, scale))
        scale *= g
        if x.op is Op.CONST:
            return total
        modulus = divisor(x, Op.MOD)
        if modulus and modulus % c == 0:  # (x % (a*b)) % a -> x % a
            a = x.src[0]
        else:
            return add(total, mul(make(Op.MOD, (x, const(c)), None, INDEX), scale))


def minimum(a: Expr, b: Expr | int, known: Known | None = None) -> Expr:
    """The lesser of the two."""
    b = const(b) if isinstance(b, int) else b
    lo, hi = interval(*difference(a, b), known) if is_exact(a, known) and is_exact(b, known) else UNBOUNDED
    if a is b or (hi is not None and hi <= 0):
        return a
    if lo is not None and lo >= 0:
        return b
    a, b = sorted((a, b), key=lambda e: (e.op is Op.CONST, order_key(e), id(e)))
    if b.op is Op.CONST and a.op is X.MIN and a.src[1].op is Op.CONST:  # min(min(x, c), d) -> min(x, e)
        return make(X.MIN, (a.src[0], const(min(b.arg, a.src[1].arg))), None, INDEX)
    return make(X.MIN, (a, b), None, INDEX)
