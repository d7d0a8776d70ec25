"""From one expression to machine code: a walk through every stage of dawdle. Run it: ``python
docs/walkthrough.py``.

It takes about an hour to read with the source beside it, and a second to run. Each stage prints what it made.
The three intermediate representations each answer one question: the graph *what* value, the kernel *which*
values are computed together over which iteration space, the loop tree *how*, in which order and in which
registers.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from dawdle import Tensor, config
from dawdle.codegen.generate import generate
from dawdle.codegen.interpret import run_kernel, run_loops
from dawdle.codegen.loop import format_loops
from dawdle.codegen.loopify import loopify
from dawdle.codegen.lower import lower
from dawdle.codegen.recipes.cpu import schedule as cpu_recipe
from dawdle.codegen.target import Target
from dawdle.lazy.buffer import format_graph
from dawdle.lazy.plan import Group, format_schedule
from dawdle.lazy.schedule import schedule
from dawdle.lazy.simplify import simplify


def chapter(title: str, text: str) -> None:
    print(f"\n{'=' * 100}\n{title}\n{'=' * 100}\n{text.strip()}\n")


ROWS, COLUMNS = 6, 20
data = np.random.default_rng(0).standard_normal((ROWS, COLUMNS), np.float32)

chapter(
    "1. The user's line",
    """
Softmax along the rows. Nothing runs here: each call checks shapes and dtypes, and adds nodes to a graph.""",
)
x = Tensor(data)
y = x.softmax(dim=1)
print(repr(y.lazy))

chapter(
    "2. The graph (lazy/)",
    """
Softmax is not a primitive. It was composed in readable Python from a maximum along the row (AMAX), a
subtraction, a power of two (EXP2), a SUM and a division. EXPAND repeats the row's maximum along the row; it
is an index map and costs nothing. The interpreter in lazy/interpret.py defines what each op means.""",
)
print(format_graph([y.lazy]))

chapter(
    "3. Simplification (lazy/simplify.py)",
    """
Exact rewrites only: x*1 goes, x*0 stays, because NaN*0 is NaN. Equal subgraphs become one node.""",
)
outputs = simplify([y.lazy])
print(format_graph(outputs))

chapter(
    "4. The schedule (lazy/schedule.py)",
    """
Which nodes get memory? Only the result. The two reductions are inlined into the division that uses them:
their free range is the row, so they can stand at the loop over rows and cost nothing twice. No pattern for
softmax is written anywhere.""",
)
plan = schedule(outputs)
print(format_schedule(plan))
(group,) = [s for s in plan.steps if isinstance(s, Group)]

chapter(
    "5. The kernel (codegen/lower.py)",
    """
Index expressions are substituted through the movement ops, down to loads. What is left is one store over
two ranges. Each reduction is an expression over a range of its own. EXP2 has been expanded into arithmetic
that any machine has.""",
)
kernel = lower(group, "softmax")
print(str(kernel)[:1500], "...")

chapter(
    "6. Decisions (codegen/recipes/cpu.py)",
    """
The recipe for CPUs chooses transformations; they are data, and the kernel lists those applied to it. The
reductions get a vector of accumulators and a scalar tail. The output row is written in vectors; 20 columns
are two and a half, so the last tile shifts inwards and computes four values again, which is cheaper than a
mask.""",
)
target = Target(threads=1)
scheduled = cpu_recipe(kernel, target)
print("\n".join(f"  {t}" for t in scheduled.applied))

chapter(
    "7. The loop tree (codegen/loopify.py)",
    """
Every expression was placed at the outermost loop on which its free ranges allow it to stand: read on and
find the maximum, then the sum, inside the loop over rows but before the loop over columns.""",
)
loops = loopify(scheduled)
print(format_loops(loops))

chapter(
    "8. C (codegen/render/)",
    """
The renderer only prints. Vectors are GCC's vector types, which clang has too; thread and threads say which
share of the parallel loop is ours.""",
)
generated = generate(group, target)
print(generated.source)

chapter(
    "9. Meaning",
    """
Each representation has an interpreter in plain Python, and all agree. This is how dawdle is tested.""",
)
expected = np.exp(data - data.max(1, keepdims=True))
expected /= expected.sum(1, keepdims=True)
for name, run in (("kernel", partial(run_kernel, scheduled)), ("loops", partial(run_loops, loops))):
    buffers = {"out0": np.zeros(ROWS * COLUMNS, np.float32), "in0": data.ravel().copy()}
    run(buffers)
    error = abs(buffers["out0"].reshape(ROWS, COLUMNS) - expected).max()
    print(f"{name:8} largest error {error:.1e}")
    assert error < 1e-6

chapter(
    "10. Running it (runtime/)",
    """
Asking for the value does all of this, compiles, keeps the machine code in memory and on disk, and runs it
on all cores. DEBUG=3 prints these stages for your own programs, DEBUG=4 the source too.""",
)
with config.override(debug=0):
    result = y.numpy()
print(result.round(3)[:2])
assert abs(result - expected).max() < 1e-6
print("\nThe graph below y is gone, only its value is left:", repr(y.lazy))
assert y.lazy.is_realized
