"""Plans on disk, so that a process that computes what an earlier one has computed neither schedules nor
generates.
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dawdle.codegen.target import Target
from dawdle.runtime.plan import KernelStep, Plan, PlannedKernel
from dawdle.runtime.store import KernelStore, digest
from dawdle.runtime.structure import Key

PACKAGE = Path(__file__).parents[1]


@functools.lru_cache
def code_version() -> str:
    """A hash of the sources that plans come from: what they make of a graph changes only together with them.
    """
    found = hashlib.sha256()
    for folder in ("lazy", "codegen", "runtime"):
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()


def plan_digest(key: Key, target: Target) -> str:
    """The name of a plan: of the graph's structure, the target and this version of dawdle."""
    return digest(f"{code_version()} {target} {key}".encode())


def encode(plan: Plan) -> str | None:
    """A plan as text; None if it calls host functions, which can't be written down."""
    if not all(isinstance(s, KernelStep) for s in plan.steps):
        return None
    return json.dumps(asdict(plan), separators=(",", ":"))


def _tuples(x: Any) -> Any:
    return tuple([_tuples(item) for item in x]) if isinstance(x, list) else x


def decode(text: str) -> Plan:
    """The inverse of :func:`encode`."""
    data = json.loads(text)
    steps = tuple(
        KernelStep(
            tuple(PlannedKernel(**{name: _tuples(x) for name, x in k.items()}) for k in s["kernels"]),
            _tuples(s["places"]),
            _tuples(s["phases"]),
        )
        for s in data["steps"]
    )
    rest = {name: _tuples(data[name]) for name in ("leaves", "fresh", "arena", "outputs", "checks")}
    return Plan(steps=steps, **rest)


def _path(store: KernelStore, name: str) -> Path:
    return store.directory / f"{name}.plan"


def write(store: KernelStore, name: str, plan: Plan) -> None:
    """Keep a plan, if it can be kept."""
    text = encode(plan)
    if text is not None:
        store.write_text(_path(store, name), f"{digest(text.encode())}\n{text}")


def read(store: KernelStore, name: str) -> Plan | None:
    """A plan that was kept; None if there is none, or it isn't as it was written."""
    try:
        check, _, text = _path(store, name).read_text().partition("\n")
    except (OSError, ValueError):
        return None
    return decode(text) if digest(text.encode()) == check else None
