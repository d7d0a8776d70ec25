"""The layers of the package: imports go only up the list in docs/design.md, and files stay short."""
from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "dawdle"
LONGEST = 500  # lines of a file
FILES = sorted(PACKAGE.rglob("*.py"))


def module_of(path: Path) -> str:
    """"lazy.ops" for dawdle/lazy/ops.py, "lazy" for dawdle/lazy/__init__.py, "" for the package's own."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path) for path in FILES}


def listed(text: str) -> list[str]:
    """The modules that docs/design.md lists, in its order; a folder's own follows its last member."""
    block = re.search(r"in this list.*?:\n\n((?: {4}.+\n)+)", text)
    assert block, "docs/design.md has no list of modules after 'in this list'"
    order: list[str] = []
    folder = ""
    for word in block.group(1).replace("\n    ", "\n").split():
        if word.endswith("/"):
            folder = "" if word == "dawdle/" else word
        else:
            order.append((folder + word).replace("/", ".") if word != "__init__" else "")
    packages = {m.rsplit(".", 1)[0] for m in order if "." in m} | {m.split(".")[0] for m in order if "." in m}
    for package in packages:
        last = max(i for i, m in enumerate(order) if m.startswith(package + "."))
        order.insert(last + 1, package)
    return order


ORDER = listed((ROOT / "docs" / "design.md").read_text())
PLACE = {module: i for i, module in enumerate(ORDER)}


def imported(node: ast.AST, module: str) -> list[str]:
    """The package's modules that an import statement names, without the leading "dawdle."."""
    if isinstance(node, ast.Import):
        names = [a.name for a in node.names if a.name.split(".")[0] == "dawdle"]
        return [name.removeprefix("dawdle").lstrip(".") for name in names]
    if not isinstance(node, ast.ImportFrom):
        return []
    assert not node.level, f"{module}: relative import; write the whole name"
    if (node.module or "").split(".")[0] != "dawdle":
        return []
    base = (node.module or "").removeprefix("dawdle").lstrip(".")
    # from package import module names the module, not the package
    names = [f"{base}.{a.name}".lstrip(".") for a in node.names]
    return [name if name in MODULES else base for name in names]


def for_annotations(node: ast.AST) -> bool:
    """Whether a statement is ``if TYPE_CHECKING:``, the imports below which never run."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def running(tree: ast.AST) -> list[ast.AST]:
    """The nodes below ``tree`` that can run."""
    found: list[ast.AST] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        found.append(node)
        stack.extend(child for child in ast.iter_child_nodes(node) if not for_annotations(child))
    return found


def violations(module: str, source: str) -> list[str]:
    """What a module's imports break, in words."""
    problems = []
    nodes = running(ast.parse(source))
    for other in sorted({name for node in nodes for name in imported(node, module)} - {module}):
        words = f"{module} imports {other or '__init__'}"
        if other not in PLACE:
            problems.append(f"{words}, which docs/design.md doesn't list")
        elif PLACE[other] >= PLACE[module]:
            problems.append(f"{words}, which stands below it in docs/design.md")
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)]
    inside = {name for f in functions for node in ast.walk(f) for name in imported(node, module)}
    return problems + [f"{module} imports {name} inside a function" for name in sorted(inside)]


def test_every_module_has_a_place():
    unknown = sorted(MODULES - set(PLACE))
    assert not unknown, f"add these modules to the list in docs/design.md: {unknown}"
    assert len(ORDER) == len(PLACE), "docs/design.md lists a module twice"


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_go_up_the_list(path):
    if module_of(path) in PLACE:
        assert violations(module_of(path), path.read_text()) == []


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_files_are_short(path):
    lines = path.read_text().count("\n")
    assert lines <= LONGEST, f"{path.relative_to(ROOT)} has {lines} lines; split it by topic"


@pytest.mark.parametrize("module, source, words", [
    ("lazy.ops", "from dawdle.lazy.buffer import LazyBuffer", "imports lazy.buffer, which stands below"),
    ("lazy.ops", "from dawdle.lazy import build", "imports lazy.build, which stands below"),
    ("lazy.ops", "import dawdle.lazy.build as b", "imports lazy.build, which stands below"),
    ("lazy.ops", "from dawdle import Tensor", "imports __init__, which stands below"),
    ("lazy.build", "from dawdle.lazy import LazyBuffer", "imports lazy, which stands below"),
    ("lazy.build", "def f():\n    from dawdle.lazy import ops", "imports lazy.ops inside a function"),
    ("lazy.build", "from dawdle.nonsense import x", "imports nonsense, which docs/design.md"),
    ("dtype", "try:\n    from dawdle import config\nfinally:\n    pass", "imports config, which"),
])  # fmt: skip
def test_the_test_finds(module, source, words):
    assert [p for p in violations(module, source) if words in p]


def test_the_test_lets_pass():
    source = "import numpy\nfrom dawdle.errors import A\nif TYPE_CHECKING:\n    import dawdle.nn.module\n"
    assert violations("lazy.buffer", source + "def f():\n    import torch") == []
