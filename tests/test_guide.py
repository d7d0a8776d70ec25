"""The snippets of the user's guide and of the read-me."""
import doctest
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_guide():
    guide = ROOT / "docs" / "guide.md"
    failed, tried = doctest.testfile(str(guide), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert tried > 30 and not failed


def test_tour(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tour,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(compile(tour, "README.md", "exec"), {})
    assert float(capsys.readouterr().out) < 1
    assert (tmp_path / "model.safetensors").exists()
