"""The index algebra: index expressions and conditions in one canonical form, decided by bounds if possible.

Sums and division are in :mod:`dawdle.codegen.linear`; here are conditions and whole expressions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from dawdle.codegen.expr import INDEX, Expr, Range, X, const, make, range_, rewrite, substitute
from dawdle.codegen.linear import (
    UNBOUNDED,
    Interval,
    Known,
    Terms,
    add,
    below,
    bounds,
    difference,
    divisor,
    idiv,
    interval,
    is_exact,
    is_index,
    meet,
    minimum,
    mod,
    mul,
    order_key,
    ordered,
    scaled,
    steps,
    sub,
    sum_of,
    terms_of,
)
from dawdle.dtype import bool_
from dawdle.lazy.ops import Op

__all__ = [
    "FALSE", "TRUE", "Interval", "Known", "add", "and_", "bounds", "coefficient", "equal", "facts",
    "idiv", "less", "minimum", "mod", "mul", "not_", "or_", "simplify", "simplify_where",
    "sub", "terms_of", "without",
]  # fmt: skip

TRUE, FALSE = const(True, bool_), const(False, bool_)


def less(a: Expr, b: Expr | int, known: Known | None = None) -> Expr:
    """The condition a < b: a constant if bounds decide it, else ``terms < terms + constant``."""
    b = const(b) if isinstance(b, int) else b
    if not is_exact(a, known) or not is_exact(b, known):
        return FALSE if a is b else make(Op.CMPLT, (a, b), None, bool_)
    return _less_zero(*difference(a, b), known) or make(Op.CMPLT, (a, b), None, bool_)


def _less_zero(terms: Terms, offset: int, known: Known | None) -> Expr | None:
    """The condition that a sum is negative; None if its canonical form might overflow."""
    while terms:
        step = math.gcd(*terms.values())  # g*x + d < 0  <=>  x + d//g < 0
        terms, limit = {a: k // step for a, k in terms.items()}, -(offset // step)
        lo, hi = interval(terms, 0, known)
        if hi is not None and hi < limit:
            return TRUE
        if lo is not None and lo >= limit:
            return FALSE
        reduced = _less_group(terms, limit, known) or _less_quotient(terms, limit, known)
        if reduced is None:
            return _compare(Op.CMPLT, terms, limit, known)
        terms, offset = reduced
    return const(offset < 0, bool_)


def _less_group(terms: Terms, limit: int, known: Known | None) -> tuple[Terms, int] | None:
    """g*x + s < limit  ->  x < ceil(limit / g)  where s can't matter."""
    for g in sorted(steps(terms) - {1}, reverse=True):
        small = {a: k for a, k in terms.items() if k % g}
        lo, hi = interval(small, 0, known)
        if small and lo is not None and hi is not None and hi - lo // g * g <= (limit - 1) % g:
            return {a: k // g for a, k in terms.items() if not k % g}, lo // g - (limit - 1) // g - 1
    return None


def _less_quotient(terms: Terms, limit: int, known: Known | None) -> tuple[Terms, int] | None:
    """x//c < limit  ->  x < limit*c;   -(x//c) < limit  ->  x >= (1-limit)*c."""
    (atom, k), *others = terms.items()
    c = divisor(atom, Op.IDIV)
    if others or not c or not is_exact(atom.src[0], known) or abs(limit) * c >= 1 << 62:
        return None
    inner, offset = terms_of(atom.src[0])
    if k > 0:
        return inner, offset - limit * c
    return {a: -k for a, k in inner.items()}, (1 - limit) * c - 1 - offset


def _compare(op: Op, terms: Terms, limit: int, known: Known | None = None) -> Expr | None:
    """``terms`` against ``limit``, without negative coefficients; None if a side might overflow."""
    left = {a: k for a, k in terms.items() if k > 0}
    right = {a: -k for a, k in terms.items() if k < 0}
    sides = (sum_of(left, 0), sum_of(right, limit)) if left else (const(-limit), sum_of(right, 0))
    return make(op, sides, None, bool_) if all(is_exact(e, known) for e in sides) else None


def equal(a: Expr, b: Expr | int, known: Known | None = None) -> Expr:
    """The condition a == b: a constant where bounds or divisibility decide it."""
    b = const(b) if isinstance(b, int) else b
    plain = TRUE if a is b else make(Op.CMPEQ, tuple(sorted((a, b), key=_by_key)), None, bool_)
    if not is_exact(a, known) or not is_exact(b, known):
        return plain
    terms, offset = difference(a, b)
    lo, hi = interval(terms, offset, known)
    step = math.gcd(*terms.values())
    if (lo is not None and lo > 0) or (hi is not None and hi < 0) or (step and offset % step):
        return FALSE
    if lo == hi == 0:
        return TRUE
    step *= 1 if ordered(terms)[0][1] > 0 else -1
    return _compare(Op.CMPEQ, {a: k // step for a, k in terms.items()}, -offset // step, known) or plain


def _by_key(e: Expr) -> tuple[str, int]:
    return order_key(e), id(e)


def not_(condition: Expr) -> Expr:
    """The opposite condition."""
    if condition.op is Op.CONST:
        return const(not condition.arg, bool_)
    if condition.op is Op.CMPEQ and condition.src[1] is FALSE:
        return condition.src[0]
    opposite = None
    if _is_compare(condition, Op.CMPLT) and all(map(is_exact, condition.src)):
        a, b = condition.src  # not a < b  ->  b - a - 1 < 0
        opposite = _less_zero(*terms_of(sub(sub(b, a), 1)), None)
    return opposite or make(Op.CMPEQ, (condition, FALSE), None, bool_)


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


def _opposed(condition: Expr, others: list[Expr]) -> bool:
    """Whether the opposite is among other conditions."""
    return any(c.free == condition.free for c in others) and not_(condition) in others


def _about(condition: Expr, known: Known) -> Known:
    """What is known of ranges that a condition depends on. Without ranges there are loop variables."""
    free = condition.free
    return {x: i for x, i in known.items() if not (x.free and free and x.free.isdisjoint(free))}


def _decided(condition: Expr, known: Known) -> Expr:
    """``condition``, which is canonical, once more under what is known."""
    if not known:
        return condition
    for op, build in ((Op.CMPLT, less), (Op.CMPEQ, equal)):
        if _is_compare(condition, op):
            return build(condition.src[0], condition.src[1], known)
    return condition


def facts(*conditions: Expr) -> dict[Expr, Interval]:
    """What the truth of all ``conditions`` says about bounds: a ``known`` for the other functions."""
    known: dict[Expr, Interval] = {}
    for part in _conjuncts(conditions, Op.AND):
        if part.fact is None:
            part.fact = _fact(part) or False
        if isinstance(part.fact, tuple):
            x, limits = part.fact
            known[x] = meet(known.get(x, UNBOUNDED), limits)
    return known


def _fact(part: Expr) -> tuple[Expr, Interval] | None:
    """What the truth of one condition says about the bounds of what."""
    compare = _is_compare(part, Op.CMPLT) or _is_compare(part, Op.CMPEQ)
    if not compare or not all(map(is_exact, part.src)):
        return None
    terms, offset = difference(*part.src)
    if not terms:
        return None
    limits: Interval = (None, -offset - 1) if part.op is Op.CMPLT else (-offset, -offset)
    if ordered(terms)[0][1] < 0:
        terms, limits = {a: -k for a, k in terms.items()}, scaled(limits, -1)
    return (sum_of(terms, 0), limits) if len(terms) > 1 or set(terms.values()) == {1} else None


def and_(*conditions: Expr) -> Expr:
    """All of ``conditions`` (none: true); those that the others imply are dropped."""
    parts = sorted(_conjuncts(conditions, Op.AND), key=_by_key)
    for part in list(parts):
        others = [p for p in parts if p is not part]
        verdict = _decided(part, _about(part, facts(*others)))
        if verdict is FALSE or (part is not FALSE and _opposed(part, others)):
            return FALSE
        if verdict is TRUE:
            parts = others
    return _join(Op.AND, parts) if parts else TRUE


def or_(*conditions: Expr) -> Expr:
    """Any of ``conditions`` (none: false)."""
    parts = sorted(_conjuncts(conditions, Op.OR), key=_by_key)
    for part in list(parts):
        others = [p for p in parts if p is not part]
        known = facts(*(n for n in map(not_, others) if _is_compare(n, Op.CMPLT)))
        verdict = _decided(part, _about(part, known))  # where the others are false
        if verdict is TRUE or (part is not TRUE and _opposed(part, others)):
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
    if condition is TRUE or a is b:
        return a
    return b if condition is FALSE else make(Op.WHERE, (condition, a, b), None, a.dtype)


def _by_constant(op: Op, rule: Callable[[Expr, int, Known | None], Expr]) -> Callable[..., Expr]:
    def apply(a: Expr, b: Expr, known: Known | None) -> Expr:
        return rule(a, b.arg, known) if b.op is Op.CONST and b.arg > 0 else make(op, (a, b), None, INDEX)

    return apply


def _same(a: Expr, b: Expr, known: Known | None) -> Expr:
    """Equality of conditions."""
    if FALSE in (a, b):
        return not_(b if a is FALSE else a)
    return make(Op.CMPEQ, (a, b), None, bool_)


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
    Op.CMPEQ: _same,
    Op.WHERE: _where,
}
_VALUE_RULES: dict[Op | X, Callable[..., Expr]] = {Op.WHERE: _where}


def _rule_for(n: Expr) -> Callable[..., Expr] | None:
    """The rule for a node, by its op and its last operand's dtype."""
    if not n.src or n.lanes != 1 or any(s.lanes != 1 for s in n.src) or n.arg is not None:
        return None
    kind = n.src[-1]
    rules = _INDEX_RULES if is_index(kind) else _BOOL_RULES if kind.dtype is bool_ else _VALUE_RULES
    return rules.get(n.op)


def _above_atoms(e: Expr, known: Known) -> Expr:
    """``e``, which is canonical, once more under what is known; what lies below opaque atoms stays."""
    done: dict[Expr, Expr] = {}
    for n in below(e, lambda n: _rule_for(n) is not None):
        rule = _rule_for(n)
        done[n] = n if rule is None else rule(*(done[s] for s in n.src), known)
    return done[e]


def _simplify_load(n: Expr, known: Known) -> Expr:
    index, *valid = n.src
    if not valid or valid[0] is TRUE:
        return make(n.op, (index,), n.arg, n.dtype, n.lanes)
    if valid[0] is FALSE:
        return const(n.dtype.compute.type(0).item(), n.dtype)
    if n.lanes == 1:
        inside = facts(valid[0])  # nothing is read where it isn't valid
        index = _above_atoms(index, {**known, **inside})
    return make(n.op, (index, *valid), n.arg, n.dtype, n.lanes)


def simplify_where(roots: Iterable[Expr], known: Known | None = None) -> list[Expr]:
    """Every index expression and condition in ``roots``, also within values and loads, in canonical form.

    Values stay bit for bit the same, wherever the bounds in ``known`` hold.
    """

    def rule(n: Expr) -> Expr:
        if n.op is X.LOAD and n.lanes == 1:
            return _simplify_load(n, known or {})
        found = _rule_for(n)
        return n if found is None else found(*n.src, known)

    def remembered(n: Expr) -> Expr:
        if n.canonical is None:
            simple = rule(n)
            n.canonical = True if simple is n else simple
        return n.canonical if isinstance(n.canonical, Expr) else n

    if known:
        return rewrite(roots, rule)
    return rewrite(roots, remembered, lambda n: n.canonical is True)


def simplify(e: Expr, known: Known | None = None) -> Expr:
    """The canonical form of an expression: see :func:`simplify_where`."""
    return simplify_where([e], known)[0]
