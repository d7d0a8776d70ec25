"""onnx.backend.test on dawdle's compiled devices: every case but those that ``excluded`` lists."""
from __future__ import annotations

import pytest
from cases import NODE, REAL, Case, load_cases
from devices import WORKING
from excluded import EXCLUDED, READING

import dawdle.onnx
from dawdle.errors import DawdleError, JitError

CASES = load_cases()
MAIN = "CPU" if "CPU" in WORKING else "NUMPY"
FURTHER = [d for d in WORKING if d not in (MAIN, "NUMPY")]
SAMPLE = [c.name for c in CASES.values() if c.sampled and c.name not in EXCLUDED]


def run(case: Case, device: str) -> None:
    case.check(dawdle.onnx.load(case.source, device=device))


def check(case: Case, device: str) -> None:
    """Run a case; one that is excluded must fail."""
    if case.name not in EXCLUDED:
        run(case, device)
        return
    with pytest.raises((AssertionError, DawdleError)):
        run(case, device)


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    check(CASES[name], MAIN)


@pytest.mark.parametrize("name, device", [(name, device) for device in FURTHER for name in SAMPLE])
def test_sample_elsewhere(name, device):
    run(CASES[name], device)


@pytest.mark.skipif(MAIN == "NUMPY", reason="nothing is traced there")
@pytest.mark.parametrize("name", [name for name in SAMPLE if CASES[name].kind != REAL])
def test_sample_jitted(name):
    """Traced, and replayed."""
    case, model = CASES[name], dawdle.onnx.load(CASES[name].source, device=MAIN, jit=True)
    if name in READING:
        with pytest.raises(JitError):
            case.check(model)
        return
    for _ in range(2):
        case.check(model)


def test_exclusions_name_cases():
    assert set(EXCLUDED) <= set(CASES)
    assert all(EXCLUDED.values())
    assert set(SAMPLE) >= READING


def share(cases: list[Case]) -> float:
    """The share of cases that isn't excluded: all of those pass, or this file's tests fail."""
    return sum(c.name not in EXCLUDED for c in cases) / len(cases)


def test_shares():
    cases = list(CASES.values())
    plain = [c for c in cases if c.plain]
    assert len(plain) >= 1616 and len(cases) >= 2033
    assert share(plain) >= 0.97
    assert share([c for c in cases if c.kind == REAL]) == 1
    assert share([c for c in cases if c.kind != REAL]) >= 0.93


def test_kinds():
    assert sum(c.kind == NODE for c in CASES.values()) >= 1884
    assert sum(c.sampled for c in CASES.values()) > len(CASES) / 12
