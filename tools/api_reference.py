"""Writes the API reference in docs/api from docstrings, and the table of operations from their tests' rows.

python tools/api_reference.py [--check]    with --check: says what has changed, and writes nothing
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import op_table

from dawdle import Tensor

OUTPUT = Path(__file__).parent.parent / "docs" / "api"
NOTE = "Generated from docstrings by `tools/api_reference.py`: don't edit."
MODULES = (
    "dawdle", "dawdle.nn", "dawdle.nn.functional", "dawdle.nn.init", "dawdle.nn.optim", "dawdle.nn.data",
    "dawdle.nn.state", "dawdle.linalg", "dawdle.func", "dawdle.array_api", "dawdle.random", "dawdle.onnx",
    "dawdle.errors",
)  # fmt: skip


class Written(str):
    """An annotation as it stands in the source."""

    __repr__ = str.__str__


def written(annotation: Any) -> Any:
    return Written(annotation) if isinstance(annotation, str) else annotation


def signature(function: Any) -> str:
    """The parameters as they are written; a default that is an object is shown by its type alone."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [p.replace(annotation=written(p.annotation)) for p in found.parameters.values()]
    shown = found.replace(parameters=parameters, return_annotation=written(found.return_annotation))
    return re.sub(r"<(?:function )?([\w.]+)[^<>]* at 0x[0-9a-f]+>", r"<\1>", str(shown))


def tidy(text: str) -> str:
    """A page with the roles and literals of docstrings in Markdown, without empty lines side by side."""
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`")
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def described(title: str, thing: Any) -> list[str]:
    doc = inspect.getdoc(thing) or ""
    return [f"### `{title}`", "", doc, ""] if doc else [f"### `{title}`", ""]


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """The methods and properties that a class defines and documents itself."""
    for name, value in vars(cls).items():
        function = getattr(value, "__func__", value)
        documented = function.__doc__ and (callable(function) or isinstance(value, property))
        borrowed = cls is not Tensor and getattr(function, "__module__", cls.__module__) != cls.__module__
        if documented and not borrowed and not name.startswith("_"):
            yield name, function


def class_lines(name: str, cls: type) -> list[str]:
    lines = described(name + signature(cls), cls)
    for member, function in members(cls):
        shown = member if isinstance(function, property) else member + signature(function)
        summary = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
        lines.append(f"* `{shown}` — {summary}")
    return [*lines, ""]


def public(module: ModuleType) -> dict[str, Any]:
    """What a module offers: ``__all__``, else what it defines."""
    names = getattr(module, "__all__", None)
    if names is None:
        names = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__]
    found = {name: getattr(module, name) for name in names if not name.startswith("_")}
    return {n: v for n, v in found.items() if callable(v) and v is not Tensor}


def is_method(name: str, function: Any) -> bool:
    """Whether a function is a method of Tensor under the same name."""
    return getattr(function, "__wrapped__", function) is inspect.getattr_static(Tensor, name, None)


def module_page(name: str) -> str:
    module = importlib.import_module(name)
    things = public(module)
    lines = [f"# {name}", "", NOTE, "", inspect.getdoc(module) or "", ""]
    methods = [title for title, thing in things.items() if is_method(title, thing)]
    if methods:
        named = ", ".join(f"`{title}`" for title in sorted(methods))
        lines += [f"Methods of [Tensor](tensor.md) that are functions too: {named}.", ""]
    things = {title: thing for title, thing in things.items() if title not in methods}
    for title, thing in sorted(things.items(), key=lambda item: item[0].lower()):
        one = class_lines(title, thing) if inspect.isclass(thing) else None
        lines += one or described(title + signature(thing), thing)
    return "\n".join(lines)


def tensor_page() -> str:
    lines = ["# Tensor", "", NOTE, "", inspect.getdoc(Tensor) or "", ""]
    lines += ["## The handle", "", *class_lines("Tensor", Tensor)]
    for topic in op_table.TOPICS:
        module = sys.modules[topic.__module__]
        lines += [f"## {topic.__name__}", "", inspect.getdoc(module) or "", ""]
        for name in op_table.methods()[topic.__name__]:
            function = op_table.function_of(name)
            if callable(function):
                lines += described(name + signature(function), function)
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """Every page by its file's name."""
    texts = {"tensor.md": tensor_page()}
    texts |= {name.replace(".", "_") + ".md": module_page(name) for name in MODULES}
    texts["operations.md"] = op_table.markdown()
    links = [f"* [{text.splitlines()[0][2:]}]({name})" for name, text in texts.items()]
    texts["README.md"] = "\n".join(["# API reference", "", NOTE, "", *links])
    return {name: tidy(text) for name, text in texts.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    OUTPUT.mkdir(exist_ok=True)
    wanted = pages()
    known = {path.name: path.read_text() for path in OUTPUT.glob("*.md")}
    changed = sorted(n for n in wanted.keys() | known.keys() if wanted.get(n) != known.get(n))
    if args.check:
        for name in changed:
            print(f"docs/api/{name} is out of date: run python tools/api_reference.py")
        return int(bool(changed))
    for name in changed:
        if name in wanted:
            (OUTPUT / name).write_text(wanted[name])
        else:
            (OUTPUT / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
