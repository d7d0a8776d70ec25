"""The index algebra: integer index expressions and conditions on them, kept in one canonical form.

An index expression (dtype ``INDEX``, scalar) is a sum of terms, each an integer times an *atom*: a range, a floor division
or remainder by a positive constant, a minimum, a product, or anything else, which stays opaque. Terms stand in a canonical
order, so equal values built in different orders are one interned object. Division rounds down, also below zero.

Every function takes operands in canonical form (:func:`simplify` makes it) and assumes that indices don't overflow.
``known`` maps an atom, or a sum without its constant, to bounds that may be relied on (see :func:`facts`).
"""
from __future__ import annotations

import hashlib
import math
import weakref
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations

from dawdle.codegen.expr import INDEX, Expr, Range, X, const, make, range_, rebuild, rewrite, substitute
from dawdle.dtype import bool_
from dawdle.lazy.ops import Op

Interval = tuple[int | None, int | None]  # inclusive; None: unbounded
Known = Mapping[Expr, Interval]
Terms = dict[Expr, int]

UNBOUNDED: Interval = (None, None)
TRUE, FALSE = const(True, bool_), const(False, bool_)

_keys: weakref.WeakKeyDictionary[Expr, str] = weakref.WeakKeyDictionary()
_bounds: weakref.WeakKeyDictionary[Expr, Interval] = weakref.WeakKeyDictionary()


def is_index(e: Expr) -> bool:
    """Whether the algebra computes with ``e``: a scalar of the index dtype."""
    return e.dtype is INDEX and e.lanes == 1


# ---- sums of terms ----


def _key(e: Expr) -> str:
    """Text that orders expressions: by structure, not by address, so that generated code is the same in every process."""
    stack = [e]
    while stack:
        n = stack[-1]
        missing = [s for s in n.src if s not in _keys]
        if missing:
            stack.extend(missing)
            continue
        if n not in _keys:
            text = f"{n.op!r} {n.arg!r} {n.dtype.name} {n.lanes} " + " ".join(_keys[s] for s in n.src)
            names = ",".join(sorted(r.name for r in n.free))
            _keys[n] = f"{names} {hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}"
        stack.pop()
    return _keys[e]


def _linear(e: Expr) -> bool:
    if not is_index(e):
        return False
    if e.op is Op.MUL:
        return e.src[0].op is Op.CONST or e.src[1].op is Op.CONST
    return e.op in (Op.ADD, Op.SUB, Op.NEG, Op.CONST)


def _postorder(root: Expr, descend: Callable[[Expr], bool]) -> list[Expr]:
    """The nodes below ``root``, operands first; the operands of nodes that ``descend`` refuses aren't visited."""
    order: list[Expr] = []
    seen: set[Expr] = set()
    stack = [(root, False)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            if descend(node):
                stack.extend((s, False) for s in node.src)
    return order


def terms_of(e: Expr) -> tuple[Terms, int]:
    """``e`` as a sum: coefficient of each atom, and the constant."""
    if not _linear(e):
        return {e: 1}, 0
    weight = {e: 1}
    terms: Terms = {}
    offset = 0
    for n in reversed(_postorder(e, _linear)):  # users before operands
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


def _wrap(value: int) -> int:
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def _ordered(terms: Terms) -> list[tuple[Expr, int]]:
    return sorted(terms.items(), key=lambda t: (-abs(t[1]), _key(t[0]), id(t[0])))


def _sum(terms: Terms, offset: int) -> Expr:
    """The canonical expression of a sum: large coefficients first, the constant last."""
    terms, offset = _recombine({a: _wrap(k) for a, k in terms.items() if _wrap(k)}, offset)
    total: Expr | None = None
    for atom, k in _ordered(terms):
        term = atom if k == 1 else make(Op.MUL, (atom, const(k)), None, INDEX)
        total = term if total is None else make(Op.ADD, (total, term), None, INDEX)
    if total is None:
        return const(_wrap(offset))
    return make(Op.ADD, (total, const(_wrap(offset))), None, INDEX) if _wrap(offset) else total


def _divisor(e: Expr, op: Op) -> int:
    """c where ``e`` is an index ``x // c`` or ``x % c`` (as ``op`` says) by a positive constant, else 0."""
    if e.op is op and is_index(e) and e.src[1].op is Op.CONST:
        return max(int(e.src[1].arg), 0)
    return 0


def _recombine(terms: Terms, offset: int) -> tuple[Terms, int]:
    """Undo divisions: k*c*(x//c) + k*(x%c) -> k*x, and k*c*(x//c%b) + k*(x%c) -> k*(x%(b*c))."""
    changed = True
    while changed:
        changed = False
        for m in [a for a in terms if _divisor(a, Op.MOD)]:
            x, c, k = m.src[0], m.src[1].arg, terms[m]
            inner = _divisor(x, Op.IDIV)
            quotient = make(Op.IDIV, (x.src[0], const(inner * c)) if inner else (x, const(c)), None, INDEX)
            have = terms.get(quotient, 0)
            outer = next((a for a in terms if a.src and a.src[0] is quotient and _divisor(a, Op.MOD)), None)
            if have * k > 0 and abs(have) >= abs(k * c):
                _accumulate(terms, {m: -k, quotient: -k * c})
                whole = x
            elif outer is not None and terms[outer] == k * c:
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
    return _sum(terms, offset + k * constant)


def mul(a: Expr, b: Expr | int) -> Expr:
    """a * b, distributed over the terms of both."""
    (ta, ca), (tb, cb) = terms_of(a), ({}, b) if isinstance(b, int) else terms_of(b)
    if len(ta) * len(tb) > 64:
        return make(Op.MUL, (a, b), None, INDEX)  # type: ignore[arg-type]  # too many products to write out
    terms: Terms = {}
    for x, kx in ta.items():
        for y, ky in tb.items():
            _accumulate(terms, {_product(x, y): kx * ky})
    _accumulate(terms, ta, cb)
    _accumulate(terms, tb, ca)
    return _sum(terms, ca * cb)


def _product(x: Expr, y: Expr) -> Expr:
    factors = []
    stack = [x, y]
    while stack:
        f = stack.pop()
        if f.op is Op.MUL and is_index(f):
            stack.extend(f.src)
        else:
            factors.append(f)
    product, *rest = sorted(factors, key=lambda f: (_key(f), id(f)))
    for f in rest:
        product = make(Op.MUL, (product, f), None, INDEX)
    return product


# ---- bounds ----


def _plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _scaled(i: Interval, k: int) -> Interval:
    lo, hi = (None if v is None else v * k for v in i)
    return (0, 0) if k == 0 else (lo, hi) if k > 0 else (hi, lo)


def _meet(a: Interval, b: Interval) -> Interval:
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
            return _scaled(j, i[0])
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


_BOUNDS: dict[Op | X, Callable[..., Interval]] = {
    Op.ADD: lambda a, b: (_plus(a[0], b[0]), _plus(a[1], b[1])),
    Op.SUB: lambda a, b: (_plus(a[0], _scaled(b, -1)[0]), _plus(a[1], _scaled(b, -1)[1])),
    Op.NEG: lambda a: _scaled(a, -1),
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
    if e.op is Op.CAST and e.dtype is INDEX and not e.src[0].dtype.is_float and e.src[0].dtype.bits < INDEX.bits:
        return int(e.src[0].dtype.min), int(e.src[0].dtype.max)
    return UNBOUNDED


def bounds(e: Expr, known: Known | None = None) -> Interval:
    """Inclusive bounds of an index expression over all values of its ranges; None where there is none."""
    found: dict[Expr, Interval] = {}
    order = [e] if not known and e in _bounds else _postorder(e, lambda n: n.op in _BOUNDS and is_index(n))
    for n in order:
        if not known and n in _bounds:
            found[n] = _bounds[n]
            continue
        ruled = n.op in _BOUNDS and is_index(n)
        i = _BOUNDS[n.op](*(found[s] for s in n.src)) if ruled else _leaf_bounds(n)
        found[n] = _meet(i, known[n]) if known and n in known else i
        if not known:
            _bounds[n] = i
    return found[e]


def _interval(terms: Terms, offset: int, known: Known | None) -> Interval:
    """Bounds of a sum."""
    total: Interval = (0, 0)
    for a, k in terms.items():
        lo, hi = _scaled(bounds(a, known), k)
        total = _plus(total[0], lo), _plus(total[1], hi)
    if known and len(terms) > 1:
        total = _meet(total, known.get(_sum(dict(terms), 0), UNBOUNDED))
        opposite = known.get(_sum({a: -k for a, k in terms.items()}, 0), UNBOUNDED)
        total = _meet(total, _scaled(opposite, -1))
    return _plus(total[0], offset), _plus(total[1], offset)


def _quotient(i: Interval, c: int) -> int | None:
    """x // c where all x in the interval share it."""
    return i[0] // c if i[0] is not None and i[1] is not None and i[0] // c == i[1] // c else None


# ---- division ----


def _steps(terms: Terms) -> set[int]:
    """Numbers worth trying as g in the grouping ``g*X + rest``."""
    sizes = {abs(k) for k in terms.values()}
    return sizes | {math.gcd(a, b) for a, b in combinations(sizes, 2)}


def _reduce(e: Expr, c: int, known: Known | None) -> tuple[Expr, Expr, int, int, Expr]:
    """(Q, X, d, g, S) with  e // c == Q + X//d  and  e % c == g*(X % d) + S;  X is 0 where nothing is left to divide."""
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
        q = _quotient(_interval(terms, offset, known), c)
        if q is not None:  # r // c is constant
            _accumulate(low, terms, scale)
            return _sum(whole, whole_offset + q), const(0), c, scale, _sum(low, low_offset + scale * (offset - c * q))
        for g in sorted({math.gcd(s, c) for s in _steps(terms)} - {1, c}, reverse=True):
            # (g*x + s) // (g*d) -> x // d  where 0 <= s < g
            small = {a: k for a, k in terms.items() if k % g}
            q = _quotient(_interval(small, offset % g, known), g)
            if q is not None:
                _accumulate(low, small, scale)
                low_offset += scale * (offset % g - g * q)
                terms = {a: k // g for a, k in terms.items() if not k % g}
                offset = offset // g + q
                scale *= g
                c //= g
                break
        else:
            return _sum(whole, whole_offset), _sum(terms, offset), c, scale, _sum(low, low_offset)


def idiv(a: Expr, c: int, known: Known | None = None) -> Expr:
    """Floor division by a positive constant."""
    assert c > 0
    total: Expr = const(0)
    while True:
        whole, x, c, _, _ = _reduce(a, c, known)
        total = add(total, whole)
        if x.op is Op.CONST:
            return total
        inner, modulus = _divisor(x, Op.IDIV), _divisor(x, Op.MOD)
        if inner:  # (x // a) // b -> x // (a*b)
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
        _, x, c, g, low = _reduce(a, c, known)
        total = add(total, mul(low, scale))
        scale *= g
        if x.op is Op.CONST:
            return total
        modulus = _divisor(x, Op.MOD)
        if modulus and modulus % c == 0:  # (x % (a*b)) % a -> x % a
            a = x.src[0]
        else:
            return add(total, mul(make(Op.MOD, (x, const(c)), None, INDEX), scale))


def minimum(a: Expr, b: Expr | int, known: Known | None = None) -> Expr:
    """The lesser of the two."""
    b = const(b) if isinstance(b, int) else b
    lo, hi = bounds_of_difference(a, b, known)
    if hi is not None and hi <= 0:
        return a
    if lo is not None and lo >= 0:
        return b
    a, b = sorted((a, b), key=lambda e: (e.op is Op.CONST, _key(e), id(e)))
    if b.op is Op.CONST and a.op is X.MIN and a.src[1].op is Op.CONST:  # min(min(x, c), d) -> min(x, min(c, d))
        return make(X.MIN, (a.src[0], const(min(b.arg, a.src[1].arg))), None, INDEX)
    return make(X.MIN, (a, b), None, INDEX)


def bounds_of_difference(a: Expr, b: Expr, known: Known | None = None) -> Interval:
    """Bounds of a - b; tighter than the difference of their bounds."""
    return _interval(*terms_of(sub(a, b)), known)


# ---- conditions ----


def less(a: Expr, b: Expr | int, known: Known | None = None) -> Expr:
    """The condition a < b: a constant where bounds decide it, else ``positive terms < negative terms + constant``."""
    terms, offset = terms_of(sub(a, b))
    while terms:
        step = math.gcd(*terms.values())  # g*x + d < 0  <=>  x + d//g < 0
        terms, limit = {a: k // step for a, k in terms.items()}, -(offset // step)
        lo, hi = _interval(terms, 0, known)
        if hi is not None and hi < limit:
            return TRUE
        if lo is not None and lo >= limit:
            return FALSE
        reduced = _less_group(terms, limit, known) or _less_quotient(terms, limit)
        if reduced is None:
            return _less_expr(terms, limit)
        terms, offset = reduced
    return const(offset < 0, bool_)


def _less_group(terms: Terms, limit: int, known: Known | None) -> tuple[Terms, int] | None:
    """g*x + s < limit  ->  x < ceil(limit / g)  where s can't matter."""
    for g in sorted(_steps(terms) - {1}, reverse=True):
        small = {a: k for a, k in terms.items() if k % g}
        lo, hi = _interval(small, 0, known)
        if small and lo is not None and hi is not None and hi - lo // g * g <= (limit - 1) % g:
            return {a: k // g for a, k in terms.items() if not k % g}, lo // g - (limit - 1) // g - 1
    return None


def _less_quotient(terms: Terms, limit: int) -> tuple[Terms, int] | None:
    """x//c < limit  ->  x < limit*c;   -(x//c) < limit  ->  x >= (1-limit)*c."""
    (atom, k), *others = terms.items()
    c = _divisor(atom, Op.IDIV)
    if others or not c:
        return None
    inner, offset = terms_of(atom.src[0])
    if k > 0:
        return inner, offset - limit * c
    return {a: -k for a, k in inner.items()}, (1 - limit) * c - 1 - offset


def _sides(terms: Terms, limit: int) -> tuple[Expr, Expr]:
    """``terms`` against ``limit``, rearranged to have no negative coefficients."""
    left = {a: k for a, k in terms.items() if k > 0}
    right = {a: -k for a, k in terms.items() if k < 0}
    return (_sum(left, 0), _sum(right, limit)) if left else (const(-limit), _sum(right, 0))


def _less_expr(terms: Terms, limit: int) -> Expr:
    return make(Op.CMPLT, _sides(terms, limit), None, bool_)


def equal(a: Expr, b: Expr | int, known: Known | None = None) -> Expr:
    """The condition a == b: a constant where bounds or divisibility decide it."""
    terms, offset = terms_of(sub(a, b))
    lo, hi = _interval(terms, offset, known)
    if (lo is not None and lo > 0) or (hi is not None and hi < 0) or (terms and offset % math.gcd(*terms.values())):
        return FALSE
    if lo == hi == 0:
        return TRUE
    step = math.gcd(*terms.values()) * (1 if _ordered(terms)[0][1] > 0 else -1)
    return make(Op.CMPEQ, _sides({a: k // step for a, k in terms.items()}, -offset // step), None, bool_)


def not_(condition: Expr) -> Expr:
    """The opposite condition."""
    if condition.op is Op.CONST:
        return const(not condition.arg, bool_)
    if _is_compare(condition, Op.CMPLT):  # not a < b  ->  b < a + 1
        return less(condition.src[1], add(condition.src[0], 1))
    if condition.op is Op.CMPEQ and condition.src[1] is FALSE:
        return condition.src[0]
    return make(Op.CMPEQ, (condition, FALSE), None, bool_)


def _is_compare(e: Expr, op: Op) -> bool:
    return e.op is op and is_index(e.src[0])


def _conjuncts(conditions: Iterable[Expr], op: Op) -> list[Expr]:
    parts: list[Expr] = []
    stack = list(conditions)[::-1]
    while stack:
        n = stack.pop()
        if n.op is op and n.dtype is bool_:
            stack.extend(n.src[::-1])
        else:
            parts.append(n)
    return list(dict.fromkeys(parts))


def _decided(condition: Expr, known: Known | None) -> Expr:
    """``condition`` once more, under what is known."""
    for op, build in ((Op.CMPLT, less), (Op.CMPEQ, equal)):
        if _is_compare(condition, op):
            return build(condition.src[0], condition.src[1], known)
    return condition


def facts(*conditions: Expr) -> dict[Expr, Interval]:
    """What the truth of all ``conditions`` says about bounds of atoms and sums: a ``known`` for the other functions."""
    known: dict[Expr, Interval] = {}
    for part in _conjuncts(conditions, Op.AND):
        if not _is_compare(part, Op.CMPLT) and not _is_compare(part, Op.CMPEQ):
            continue
        terms, offset = terms_of(sub(part.src[0], part.src[1]))
        if not terms:
            continue
        interval: Interval = (None, -offset - 1) if part.op is Op.CMPLT else (-offset, -offset)
        if _ordered(terms)[0][1] < 0:
            terms, interval = {a: -k for a, k in terms.items()}, _scaled(interval, -1)
        if terms and set(terms.values()) == {1} or len(terms) > 1:
            x = _sum(terms, 0)
            known[x] = _meet(known.get(x, UNBOUNDED), interval)
    return known


def and_(*conditions: Expr) -> Expr:
    """All of ``conditions`` (none: true); those that the others imply are dropped."""
    parts = sorted(_conjuncts(conditions, Op.AND), key=lambda e: (_key(e), id(e)))
    for part in list(parts):
        others = [p for p in parts if p is not part]
        verdict = _decided(part, facts(*others))
        if verdict is FALSE or (part is not FALSE and not_(part) in others):
            return FALSE
        if verdict is TRUE:
            parts = others
    return _join(Op.AND, parts) if parts else TRUE


def or_(*conditions: Expr) -> Expr:
    """Any of ``conditions`` (none: false)."""
    parts = sorted(_conjuncts(conditions, Op.OR), key=lambda e: (_key(e), id(e)))
    for part in list(parts):
        others = [p for p in parts if p is not part]
        known = facts(*(n for n in map(not_, others) if _is_compare(n, Op.CMPLT)))
        verdict = _decided(part, known)  # where the others are false
        if verdict is TRUE or (part is not TRUE and not_(part) in others):
            return TRUE
        if verdict is FALSE:
            parts = others
    return _join(Op.OR, parts) if parts else FALSE


def _join(op: Op, parts: list[Expr]) -> Expr:
    joined = parts[0]
    for part in parts[1:]:
        joined = make(op, (joined, part), None, bool_)
    return joined


# ---- whole expressions ----


def coefficient(e: Expr, r: Range) -> int | None:
    """c where ``e`` is c*r plus something independent of r; None where it isn't affine in r."""
    terms, _ = terms_of(e)
    k = terms.pop(range_(r), 0)
    return None if any(r in a.free for a in terms) else k


def without(e: Expr, r: Range) -> Expr:
    """``e`` at r = 0."""
    return simplify(substitute([e], {range_(r): const(0)})[0])


def _where(condition: Expr, a: Expr, b: Expr, known: Known | None) -> Expr:
    return a if condition is TRUE or a is b else b if condition is FALSE else make(Op.WHERE, (condition, a, b), None, a.dtype)


def _by_constant(op: Op, rule: Callable[[Expr, int, Known | None], Expr]) -> Callable[..., Expr]:
    def apply(a: Expr, b: Expr, known: Known | None) -> Expr:
        return rule(a, b.arg, known) if b.op is Op.CONST and b.arg > 0 else make(op, (a, b), None, INDEX)

    return apply


_INDEX_RULES: dict[Op | X, Callable[..., Expr]] = {  # operands and what is known -> expression
    Op.ADD: lambda a, b, known: add(a, b),
    Op.SUB: lambda a, b, known: sub(a, b),
    Op.MUL: lambda a, b, known: mul(a, b),
    Op.NEG: lambda a, known: mul(a, -1),
    Op.IDIV: _by_constant(Op.IDIV, idiv),
    Op.MOD: _by_constant(Op.MOD, mod),
    X.MIN: minimum,
    Op.CMPLT: less,
    Op.CMPEQ: equal,
    Op.WHERE: _where,
}
_BOOL_RULES: dict[Op | X, Callable[..., Expr]] = {
    Op.AND: lambda a, b, known: and_(a, b),
    Op.OR: lambda a, b, known: or_(a, b),
    Op.CMPEQ: lambda a, b, known: not_(a) if b is FALSE else not_(b) if a is FALSE else make(Op.CMPEQ, (a, b), None, bool_),
    Op.WHERE: _where,
}


def _rules(e: Expr) -> dict[Op | X, Callable[..., Expr]]:
    """The rules for an expression with operands of ``e``'s last operand's dtype."""
    if not e.src or e.lanes != 1 or e.src[-1].lanes != 1:
        return {}
    return _INDEX_RULES if is_index(e.src[-1]) else _BOOL_RULES if e.src[-1].dtype is bool_ else {}


def simplify(e: Expr, known: Known | None = None) -> Expr:
    """The canonical form of an index expression or condition; what lies below opaque atoms stays as it is."""
    done: dict[Expr, Expr] = {}
    for n in _postorder(e, lambda n: n.op in _rules(n)):
        rule = _rules(n).get(n.op)
        done[n] = n if rule is None else rule(*(done[s] for s in n.src), known)
    return done[e]


def _simplify_load(n: Expr) -> Expr:
    if n.op is not X.LOAD or n.lanes != 1:
        return n
    if len(n.src) == 1:
        return rebuild(n, (simplify(n.src[0]),))
    valid = simplify(n.src[1])
    index = simplify(n.src[0], facts(valid))  # nothing is read where it isn't valid
    return make(n.op, (index,) if valid is TRUE else (index, valid), n.arg, n.dtype, n.lanes)


def simplify_where(roots: Iterable[Expr]) -> list[Expr]:
    """``roots`` with the indices and conditions of all loads in canonical form; values aren't touched."""
    return rewrite(roots, _simplify_load)
