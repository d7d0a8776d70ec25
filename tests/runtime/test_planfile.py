"""Plans on disk: what is read is what was written, or nothing."""

import os
import subprocess
import sys

import numpy as np
import pytest

from dawdle import Tensor, config
from dawdle.codegen.target import Target
from dawdle.runtime import planfile
from dawdle.runtime.device import get_device
from dawdle.runtime.plan import build_plan
from dawdle.runtime.store import KernelStore
from dawdle.runtime.structure import canonical


@pytest.fixture
def store(tmp_path):
    with config.override(cache_dir=tmp_path):
        yield KernelStore("tag")


@pytest.fixture
def plan():
    with config.override(device="CPU"):
        x = Tensor(np.ones((6, 8), np.float32))
        y = (x.reshape(8, 6) @ x).softmax(1)
        outputs = [y.lazy, (y * 2).sum().lazy]
        return build_plan(outputs, canonical(outputs)[1], get_device("CPU").target)[0]


def test_round_trip(store, plan):
    assert len(plan.kernels) > 0
    assert planfile.decode(planfile.encode(plan)) == plan
    assert planfile.read(store, "name") is None
    planfile.write(store, "name", plan)
    assert planfile.read(store, "name") == plan
    assert store.usage().plans == 1


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-20], lambda d: b"", lambda d: d.replace(b"void", b"vo1d", 1), lambda d: b"\xff"]
)
def test_damage_is_noticed(store, plan, damage):
    planfile.write(store, "name", plan)
    path = store.directory / "name.plan"
    path.write_bytes(damage(path.read_bytes()))
    assert planfile.read(store, "name") is None


def test_names_depend_on_everything(monkeypatch):
    names = {planfile.plan_digest(("a",), Target()), planfile.plan_digest(("b",), Target()),
             planfile.plan_digest(("a",), Target(threads=2))}  # fmt: skip
    monkeypatch.setattr(planfile, "code_version", lambda: "another")
    names.add(planfile.plan_digest(("a",), Target()))
    assert len(names) == 4


def test_the_next_process_neither_schedules_nor_compiles(tmp_path):
    code = (
        "import numpy as np, sys\n"
        "from dawdle import Tensor\n"
        "from dawdle.runtime import executor\n"
        "from dawdle.runtime.device import get_device\n"
        "if sys.argv[1] == 'second': executor.build_plan = None\n"
        "x = Tensor(np.arange(12, dtype=np.float32))\n"
        "print((x.reshape(3, 4).sum(1) * 2).tolist(), get_device('CPU').library.compiled > 0)\n"
    )
    env = {**os.environ, "DAWDLE_CACHE_DIR": str(tmp_path), "DAWDLE_DEVICE": "CPU", "DEBUG": "0"}
    outs = [
        subprocess.run(
            [sys.executable, "-c", code, n], env=env, capture_output=True, text=True, check=True
        ).stdout
        for n in ("first", "second")
    ]
    assert outs == ["[12.0, 44.0, 76.0] True\n", "[12.0, 44.0, 76.0] False\n"]
