"""Which nodes get memory: the graph cut into kernels, each decision with its reason.

Nodes are visited users first. Each is inlined into the kernel that uses it, stored by that kernel as one more
output, or the root of a kernel of its own. Inlining is judged by how often the node would be computed, once
its value is hoisted to the outermost loop that its index allows.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from dawdle.lazy.axes import extent, free, is_injective
from dawdle.lazy.buffer import LazyBuffer, toposort
from dawdle.lazy.draft import LATER, MAX_OPS, MAX_OUTPUTS, MAX_READS, Draft, Drafts, Read, Reads, Use
from dawdle.lazy.facts import STORED, analyse
from dawdle.lazy.ops import ELEMENTWISE, LEAF, MOVEMENT, REDUCE, Op
from dawdle.lazy.plan import Group, HostCall, Schedule, Step, Transfer
from dawdle.lazy.rewrite import rewrite
from dawdle.lazy.rounding import rounded_once
from dawdle.lazy.sideways import merge_sideways, topological

# costs in the units of facts.py
MEMORY_COST = 4.0  # of a byte written or read
LAUNCH_COST = 250_000.0  # of one more kernel
FREE_COST = 2.0  # so much arithmetic hides behind a load
ROW_COST = 4.0  # of keeping an element in the cache and reading it back
ROW_BYTES = 128 << 10
SERIAL_WORK = 1 << 17  # so much may run on one thread
PARALLEL = 16  # iterations that keep the threads busy
MAX_REDUCTIONS = 8
MAX_INDICES = 16  # at which one node is read by a kernel
MAX_KERNELS = 16  # that a node is inlined into
# axes are merely renamed or repeated
FREE_MOVES = frozenset({Op.RESHAPE, Op.PERMUTE, Op.EXPAND})


def holder(node: LazyBuffer) -> LazyBuffer:
    """The node whose memory holds the elements of ``node`` too."""
    while node.op in (Op.RESHAPE, Op.AFTER):
        node = node.src[-1]
    return node


def waited_for(node: LazyBuffer) -> list[LazyBuffer]:
    """What has to be computed before whoever reads :func:`holder` of ``node`` for it."""
    found: list[LazyBuffer] = []
    while node.op in (Op.RESHAPE, Op.AFTER):
        found += node.src[:-1]
        node = node.src[-1]
    return found


class _Graph:
    """What there is to compute, operands first, and what is known of it."""

    def __init__(self, outputs: Sequence[LazyBuffer]) -> None:
        self.outputs = outputs
        self.order = toposort(outputs)
        once = rounded_once(self.order)
        self.facts = analyse(self.order, [*map(holder, outputs), *once])
        self.once = set(map(id, once))

    def rewritten(self) -> _Graph:
        """The graph that kernels are cut from: this one where nothing is rewritten."""
        new = rewrite(self.outputs, self.order, self.facts)
        same = all(a is b for a, b in zip(new, self.outputs, strict=True))
        return self if same else _Graph(new)


class _Scheduler:
    def __init__(self, graph: _Graph, max_params: int) -> None:
        self.order, self.facts, self.once = graph.order, graph.facts, graph.once
        self.max_params = max_params
        self.drafts = Drafts(self.facts)
        self.reads: dict[int, dict[tuple[int, Read], None]] = {}
        self.required = {id(holder(node)) for node in graph.outputs}

    def run(self) -> list[Draft]:
        for node in reversed(self.order):
            reads: Reads = {}
            for number, read in self.reads.pop(id(node), {}):
                reads.setdefault(number, []).append(read)
            self.visit(node, reads)
        return self.drafts.all

    def visit(self, node: LazyBuffer, reads: Reads) -> None:
        waiting = {number for number, found in reads.items() if LATER in found}
        if waiting:
            rest = {number: [r for r in found if r is not LATER] for number, found in reads.items()}
            reads = {number: found for number, found in rest.items() if found}
        reads = self.inline_bodies(node, reads)
        required = id(node) in self.required or any(r == ((), Use.WHOLE) for rs in reads.values() for r in rs)
        if node.op is Op.BUFFER:
            for number in reads:
                self.drafts.all[number].inputs[id(node)] = node
        elif required:
            why = "output" if id(node) in self.required else "read from outside"
            self.materialise(node, reads, why, waiting)
        elif reads and (reason := self.obstacle(node, reads)) is not None:
            self.materialise(node, reads, reason, waiting)
        else:
            for number, inlined in reads.items():
                self.inline(node, number, inlined)
            for source in node.src:
                for number in waiting:  # it has no step of its own: what it is computed from is waited for
                    self.reads.setdefault(id(source), {})[(number, LATER)] = None

    def inline_bodies(self, node: LazyBuffer, reads: Reads) -> Reads:
        """Inline what lies between a contraction and its product, whatever else uses it."""
        rest: Reads = {}
        for number, found in reads.items():
            bodies = [r for r in found if r[1] is Use.BODY]
            if bodies:
                self.inline(node, number, bodies)
            if len(bodies) < len(found):
                rest[number] = [r for r in found if r[1] is not Use.BODY]
        return rest

    def inline(self, node: LazyBuffer, number: int, reads: list[Read]) -> None:
        draft = self.drafts.all[number]
        draft.reads.discard(id(node))
        if node.op in LEAF:
            return
        if node.op not in FREE_MOVES:
            draft.ops += len(reads)
        if node.op in REDUCE or node.op is Op.UNWINDOW:
            draft.contraction |= self.facts[id(node)].is_contraction
            draft.reductions.append(_extents(node))
        for read in reads:
            for source, below in self.drafts.below(number, node, read):
                self.push(source, number, below)

    def push(self, node: LazyBuffer, number: int, read: Read) -> None:
        self.reads.setdefault(id(node), {})[(number, read)] = None
        base = self.facts[id(node)].base
        if base.op not in (Op.CONST, Op.IOTA) and read is not LATER:
            self.drafts.all[number].reads.add(id(base))

    def materialise(self, node: LazyBuffer, reads: Reads, reason: str, waiting: set[int]) -> None:
        home = self.home(node, reads, waiting)
        if home is None:
            home = self.drafts.open(node, reason)
            draft = self.drafts.all[home]
            if draft.is_kernel:
                self.inline(node, home, [(draft.ranges, Use.PLAIN)])
            else:
                for source in node.src:
                    for other in waited_for(source):
                        self.push(other, home, LATER)
                    self.push(holder(source), home, ((), Use.WHOLE))
        else:
            draft = self.drafts.all[home]
            draft.outputs.append(node)
            draft.reasons.append(f"{reason}; stored by a kernel that uses it")
            self.inline(node, home, reads[home])
        for number in reads:
            if number != home:
                self.drafts.all[number].inputs[id(node)] = node
                self.drafts.all[number].producers.add(home)
        for number in waiting - {home}:
            self.drafts.all[number].producers.add(home)

    def home(self, node: LazyBuffer, reads: Reads, waiting: set[int]) -> int | None:
        """A draft that uses ``node`` and can store it as it goes, without waiting for another user or for one
        of those ``waiting`` for it.
        """
        for number, found in reads.items():
            draft = self.drafts.all[number]
            if (
                draft.is_map
                and len(draft.outputs) < MAX_OUTPUTS
                and any(self.storable(node, draft, read) for read in found)
                and self.obstacle(node, {number: found}) is None
                and not self.drafts.feeds((reads.keys() | waiting) - {number}, number)
            ):
                return number
        return None

    def storable(self, node: LazyBuffer, draft: Draft, read: Read) -> bool:
        """Whether ``draft`` can store ``node`` where it computes it for ``read``, each element once."""
        index, use = read
        return use is Use.PLAIN and draft.stores(node, index) and self.drafts.times(read) <= node.size

    def obstacle(self, node: LazyBuffer, reads: Reads) -> str | None:
        """Why ``node`` isn't inlined into the drafts that read it, or None."""
        if node.op in FREE_MOVES or node.op in LEAF or node.op is Op.AFTER:
            return None
        if node.op is Op.PAD and self.facts[id(node)].base.op is Op.CONST:
            return None  # a comparison of positions, however full the kernel
        if id(node) in self.once:
            return "its elements are compared with each other: they must be rounded once"
        for number, found in reads.items():
            reason = self.full(node, self.drafts.all[number], found)
            if reason is not None:
                return reason
        return _OBSTACLE[node.op](self, node, reads)

    def full(self, node: LazyBuffer, draft: Draft, reads: list[Read]) -> str | None:
        if len(reads) > MAX_INDICES:
            return f"read at {len(reads)} indices by one kernel"
        leaves = self.facts[id(node)].leaves
        # storing what is much larger than all it is made of would cost far more than a long kernel
        spread = leaves is not None and sum(n.size for n in leaves) * 4 <= node.size
        limit = 2 if spread else 1
        if draft.ops + len(reads) > MAX_OPS * limit:
            return f"the kernel that uses it has {draft.ops} ops"
        bases = {id(b): b for b in (self.facts[id(s)].base for s in node.src)}
        new = [i for i, b in bases.items() if i not in draft.reads and b.op not in (Op.CONST, Op.IOTA)]
        if len(draft.reads) - 1 + len(new) > MAX_READS * limit:
            return f"the kernel that uses it has {len(draft.reads)} inputs"
        params = len(draft.outputs) + len(draft.reads) + len(new)
        if self.max_params and params > self.max_params:
            return f"the kernel that uses it takes {params - 1} of {self.max_params} buffers"
        return None

    def hosts(self, reads: Reads, size: int) -> bool:
        """Whether a contraction read so could be computed by its user, with the rest as its epilogue."""
        ((number, found), *others) = reads.items()
        draft = self.drafts.all[number]
        index, use = found[0]
        return (
            not others
            and len(found) == 1
            and use is Use.PLAIN
            and draft.is_map
            and not draft.reductions
            and free(index) == free(draft.ranges)
            and is_injective(index, size)
        )

    def never(self, node: LazyBuffer, reads: Reads) -> str | None:
        return f"{node.op.value} has memory of its own"

    def movement(self, node: LazyBuffer, reads: Reads) -> str | None:
        # a padded expansion is not worth its memory
        worth = node.op is Op.PAD and node.size <= 6 * self.facts[id(node)].base.size
        if worth and any(use is Use.WINDOWED for found in reads.values() for _, use in found):
            return "padded input of a convolution: the mask would be evaluated at every tap"
        return None

    def elementwise(self, node: LazyBuffer, reads: Reads) -> str | None:
        fact = self.facts[id(node)]
        if fact.contraction is not None and not self.hosts(reads, node.size):
            return "epilogue of a contraction that its users can't compute"
        if any(use.packed for found in reads.values() for _, use in found):
            if fact.reduced:
                return "a contraction's operand that takes a reduction"
            if fact.transcendental:
                return "a contraction's operand that takes exp, log or sin"
        times = sum(self.drafts.times(read) for found in reads.values() for read in found)
        if len(reads) > 1:
            return self.shared(node, len(reads), times)
        (found,) = reads.values()
        again = max(fact.cost - FREE_COST, 0.0)
        if self.in_rows(node, found):
            again = min(again, ROW_COST)
        leaves = [node, node] if fact.leaves is None else fact.leaves
        extra = (times - node.size) * again
        memory = MEMORY_COST * (2 * node.nbytes + sum(n.nbytes for n in leaves))
        if extra > memory + LAUNCH_COST:
            return f"computing it {_ratio(times, node.size)} times costs {extra:.2g}, storing it {memory:.2g}"
        return None

    def in_rows(self, node: LazyBuffer, reads: list[Read]) -> bool:
        """Whether a kernel can keep a row of ``node`` in the cache from one of its reads to the next."""
        if any(use.packed or self.drafts.times((index, use)) != node.size for index, use in reads):
            return False
        rows = extent(frozenset.intersection(*(self.drafts.loops(index) for index, _ in reads)))
        return node.nbytes <= rows * ROW_BYTES

    def shared(self, node: LazyBuffer, kernels: int, times: int) -> str | None:
        """Why an elementwise node isn't computed again by each of several kernels."""
        fact = self.facts[id(node)]
        if kernels > MAX_KERNELS or fact.leaves is None or fact.leaves == (node,):
            return f"used by {kernels} kernels"
        unstored = sum(n.size for n in fact.leaves if not self.facts[id(n)].stored)
        if unstored * 4 > node.size:
            return f"used by {kernels} kernels, and its operands have no memory"
        leaves = MEMORY_COST * sum(n.nbytes for n in fact.leaves)
        inlined = times * fact.cost + kernels * leaves
        stored = node.size * fact.cost + (1 + kernels) * MEMORY_COST * node.nbytes + leaves + LAUNCH_COST
        if inlined > stored:
            return f"used by {kernels} kernels: inlining costs {inlined:.2g}, storing {stored:.2g}"
        return None

    def reduction(self, node: LazyBuffer, reads: Reads) -> str | None:
        if self.facts[id(node)].is_contraction:
            return None if self.hosts(reads, node.size) else "a contraction whose users can't be its epilogue"
        if len(reads) > 1:
            return f"a reduction used by {len(reads)} kernels"
        ((number, found),) = reads.items()
        draft = self.drafts.all[number]
        if not draft.is_map or draft.contraction or any(use.packed for _, use in found):
            return "a reduction used by a contraction, scan or scatter"
        if len(draft.reductions) >= MAX_REDUCTIONS:
            return f"the kernel that uses it has {len(draft.reductions)} reductions"
        if not all(is_injective(index, node.size) for index, _ in found):
            return "a reduction read at overlapping, masked or data-dependent indices"
        times = sum(self.drafts.times(read) for read in found)
        if times > node.size:
            return f"a reduction that would be computed {_ratio(times, node.size)} times"
        return self.serial(node, draft, found)

    def serial(self, node: LazyBuffer, draft: Draft, reads: list[Read]) -> str | None:
        """Why a reduction isn't inlined though computed once: too few threads would share it."""
        outer = free(draft.ranges)
        shares = min(extent(self.drafts.loops(index) & outer) for index, _ in reads)
        work = self.facts[id(node)].work * node.size
        if shares < min(PARALLEL, node.size) and work > SERIAL_WORK:
            return f"{node.size} reductions that would run on {shares} threads"
        return None


def _step(draft: Draft) -> Step:
    if draft.root.op is Op.COPY:
        return Transfer(draft.root, holder(draft.root.src[0]))
    if draft.root.op is Op.CUSTOM:
        return HostCall(draft.root, draft.root.src)
    return Group(tuple(draft.outputs), tuple(draft.inputs.values()), draft.space, tuple(draft.reasons))


def _extents(node: LazyBuffer) -> tuple[int, ...]:
    if node.op is Op.UNWINDOW:
        return tuple(size for size, _, _ in node.arg[0])
    return tuple(node.src[0].shape[a] for a in node.arg if node.src[0].shape[a] != 1)


def _ratio(times: int, size: int) -> str:
    return f"{times / max(size, 1):.3g}"


_OBSTACLE: dict[Op, Callable[[_Scheduler, LazyBuffer, Reads], str | None]] = {
    **dict.fromkeys(STORED, _Scheduler.never),
    **dict.fromkeys(MOVEMENT, _Scheduler.movement),
    **dict.fromkeys(ELEMENTWISE, _Scheduler.elementwise),
    **dict.fromkeys(REDUCE, _Scheduler.reduction),
    Op.UNWINDOW: _Scheduler.reduction,
    Op.GATHER: _Scheduler.elementwise,
}


def schedule(outputs: Sequence[LazyBuffer], max_params: int = 0) -> Schedule:
    """The kernels, transfers and host calls that compute ``outputs``, in order.

    A kernel has at most ``max_params`` outputs and inputs together, where that isn't 0. Takes time linear in
    the graph, gives equal schedules for equal graphs, and leaves the nodes as they are.
    """
    graph = _Graph(outputs).rewritten()
    drafts = merge_sideways(_Scheduler(graph, max_params).run(), max_params)
    steps = tuple(_step(drafts[number]) for number in topological(drafts))
    held = [(node, holder(new)) for node, new in zip(outputs, graph.outputs, strict=True)]
    held += [(node, holder(node)) for step in steps if isinstance(step, HostCall) for node in step.inputs]
    return Schedule(steps, tuple(outputs), {id(node): h for node, h in held if h is not node})
