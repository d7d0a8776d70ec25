"""Finding and running the C compiler, and the kernels on disk: every way in which they fail."""

import ctypes
import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from dawdle import config
from dawdle.errors import CompileError
from dawdle.runtime import store
from dawdle.runtime.compiler import Source, balance, candidates, compilers, find_compiler
from dawdle.runtime.cpu import open_library
from dawdle.runtime.library import Batch, Library

PRELUDE = "#include <stdint.h>\n"


def source(name: str, body: str = "") -> Source:
    return Source(name, f"int {name}(void) {{ {body} return 42; }}")


def library_in(path: Path) -> Library:
    with config.override(cache_dir=path):
        return Library(find_compiler(), PRELUDE)


def entries(library: Library) -> list[Path]:
    return sorted(library.store.directory.iterdir())


def libraries(library: Library) -> list[Path]:
    return [p for p in entries(library) if p.suffix == ".so"]


# ---- the compiler


def test_cc_comes_first_and_is_split(monkeypatch):
    monkeypatch.setenv("CC", "gcc -m64")
    assert candidates() == [("gcc", "-m64")]
    assert find_compiler().command == ("gcc", "-m64")


def test_no_compiler(monkeypatch, tmp_path):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    if any("ziglang" in c for c in candidates()):
        pytest.skip("the ziglang wheel is installed")
    with pytest.raises(CompileError, match=r"no C compiler: none of .* is there; install one .*or set CC"):
        find_compiler()


def test_a_cc_that_is_not_there(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(
        CompileError, match="CC='no-such-compiler' is not a command that can be run; unset CC"
    ):
        find_compiler()


def test_without_a_compiler_numpy_serves_with_a_warning(tmp_path):
    code = (
        "import warnings, numpy as np\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    from dawdle import Tensor\n"
        "    from dawdle.runtime.device import devices\n"
        "    print(Tensor([1.0]).device, Tensor([2.0]).device, len(seen), seen[0].filename)\n"
        "    print('install one' in str(seen[0].message))\n"
        "    print([(s.name, s.works, 'no C compiler' in s.reason) for s in devices()][:2])\n"
    )
    env = {k: v for k, v in os.environ.items() if k not in ("DAWDLE_DEVICE", "CC")}
    env.update(CC="/nowhere/cc", DAWDLE_CACHE_DIR=str(tmp_path))
    out = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    ).stdout
    assert out == "NUMPY NUMPY 1 <string>\nTrue\n[('CPU', False, True), ('NUMPY', True, False)]\n"


def test_a_kernel_that_does_not_compile(tmp_path):
    library = library_in(tmp_path)
    good, bad = source("good"), Source("bad", "int bad(void) { return undeclared_thing; }")
    with pytest.raises(
        CompileError, match=r"failed on kernel bad \(source kept in .*bad.c\):\n(.*\n)*.*undeclared_thing"
    ) as e:
        library.load([good, bad])
    kept = Path(str(e.value).split("kept in ")[1].split(")")[0])
    assert kept.read_text() == f"{PRELUDE}\n{bad.text}" and str(kept) in str(e.value).split("\n", 1)[1]
    assert library.load([good])  # the failure leaves nothing behind


def test_a_compiler_that_always_fails(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", "false")
    with pytest.raises(CompileError, match=r"false failed on kernel k .*:\nexit status 1, and no message"):
        library_in(tmp_path).load([source("k")])


def test_a_compiler_that_lacks_something_is_passed_over(tmp_path, monkeypatch):
    old = tmp_path / "bin" / "clang"
    old.parent.mkdir()
    old.write_text(
        f"#!/bin/sh\necho x >> {tmp_path}/calls\n"
        'for f in "$@"; do case $f in *.c) grep -q convertvector "$f" && exit 1;; esac; done\nexec gcc "$@"\n'
    )
    old.chmod(0o755)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", f"{old.parent}:{os.environ['PATH']}")
    assert [c.name for c in compilers()][:2] == ["clang", "gcc"]
    with config.override(cache_dir=tmp_path / "cache"):
        assert [open_library(PRELUDE).compiler.name for _ in range(3)] == ["gcc"] * 3
    calls = (tmp_path / "calls").read_text().splitlines()
    assert 1 <= len(calls) <= 2  # asked once, and once more to name the kernel


def test_units_are_balanced():
    sources = [Source(f"k{i}", "x" * n) for i, n in enumerate((100, 90, 50, 40, 10))]
    units = balance(sources, 2)
    assert sorted(sum(len(s.text) for s in u) for u in units) == [140, 150]
    assert len(balance(sources[:1], 4)) == 1 and len(balance(sources, 16)) == 5


def test_a_batch_starts_early_and_compiles_each_kernel_once(tmp_path, monkeypatch):
    monkeypatch.setattr("dawdle.runtime.library.EARLY", 50)
    monkeypatch.setattr("dawdle.runtime.library.cores", lambda: 4)
    library = library_in(tmp_path)
    sources = [source(n) for n in "abcde"]
    with Batch(library) as batch:
        for s in [*sources, *sources]:
            batch.add(s)
        assert batch._compilation.running >= 1
    assert library.compiled == 5
    assert [ctypes.CFUNCTYPE(ctypes.c_int)(f)() for f in library.load(sources)] == [42] * 5
    assert library.compiled == 5


def test_an_interrupted_batch_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("dawdle.runtime.library.EARLY", 1)
    library = library_in(tmp_path)
    with pytest.raises(KeyboardInterrupt), Batch(library) as batch:
        batch.add(source("a"))
        started = [process for _, process, _ in batch._compilation._started]
        raise KeyboardInterrupt
    assert started and all(p.poll() is not None for p in started)
    assert library.compiled == 0 and not list(tmp_path.rglob("*.so"))
    assert library.load([source("a")])


# ---- the store


def test_known_kernels_are_not_compiled_again(tmp_path):
    first = library_in(tmp_path)
    first.load([source("a"), source("b"), source("c")])
    assert first.compiled == 3
    second = library_in(tmp_path)
    second.load([source("c"), source("a"), source("d")])
    assert second.compiled == 1
    second.load([source("a"), source("d")])
    assert second.compiled == 1


def test_other_compilers_flags_and_preludes_have_other_stores(tmp_path, monkeypatch):
    first = library_in(tmp_path)
    with config.override(cache_dir=tmp_path):
        other = Library(find_compiler(), PRELUDE + "#include <math.h>\n")
        monkeypatch.setenv("CC", "gcc -O1")
        third = Library(find_compiler(), PRELUDE)
    assert len({x.store.directory for x in (first, other, third)}) == 3


def test_everything_is_private(tmp_path):
    library = library_in(tmp_path / "a" / "b")
    library.load([source("a")])
    root = library.store.root
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(p.stat().st_mode) & 0o077 == 0 for p in root.rglob("*"))
    root.chmod(0o777)
    library_in(root)
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "other"])
def test_a_damaged_library_is_rebuilt(tmp_path, damage):
    library = library_in(tmp_path)
    library.load([source("a")])
    (path,) = libraries(library)
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
    new = {"cut": data[:-100], "flip": data, "empty": b"", "other": b"\x7fELF not"}[damage]
    path.unlink()  # a loaded library must not change under the process
    path.write_bytes(new)
    again = library_in(tmp_path)
    again.load([source("a")])
    assert again.compiled == 1
    assert store.digest(path.read_bytes()) == path.stem


@pytest.mark.parametrize("text", ["", "../../../etc/passwd", "x" * 40 + ".so", "0" * 40 + ".so", "\0\xff"])
def test_a_damaged_entry_is_rebuilt(tmp_path, text):
    library = library_in(tmp_path)
    library.load([source("a")])
    (entry,) = [p for p in entries(library) if p.suffix != ".so"]
    entry.write_bytes(text.encode("latin-1"))
    again = library_in(tmp_path)
    again.load([source("a")])
    assert again.compiled == 1


def test_an_entry_that_points_to_the_wrong_library_is_rebuilt(tmp_path):
    library = library_in(tmp_path)
    library.load([source("a")])
    (first,) = libraries(library)
    library.load([source("b")])
    entry = library.store.directory / store.digest(source("b").text.encode())
    entry.write_text(first.name)
    again = library_in(tmp_path)
    again.load([source("b")])
    assert again.compiled == 1


def test_a_cache_that_cannot_be_written(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    with pytest.warns(
        RuntimeWarning, match=r"kernel cache .*/file/cache can't be used .*DAWDLE_CACHE_DIR"
    ) as seen:
        library = library_in(blocked / "cache")
        assert library.load([source("a")])
        library_in(blocked / "cache")
    assert len(seen) == 1  # once is enough
    assert library.store.root != blocked / "cache" and library.compiled == 1


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_cache(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.warns(RuntimeWarning, match="can't be used"):
        assert library_in(tmp_path / "cache").load([source("a")])


def test_a_full_disk(tmp_path, monkeypatch):
    library = library_in(tmp_path)
    real = os.replace

    def full(a, b):
        if str(tmp_path) in str(b):
            raise OSError(28, "No space left on device")
        real(a, b)

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        assert library.load([source("a"), source("b")])
    assert library.compiled == 2 and not list(tmp_path.rglob("*.so")) and not list(tmp_path.rglob(".new*"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        library.load([source("c")])


def test_two_processes_compile_the_same_kernels(tmp_path):
    code = (
        "from pathlib import Path; import ctypes, sys\n"
        "from dawdle.runtime.compiler import Source, find_compiler\n"
        "from dawdle.runtime.library import Library\n"
        "library = Library(find_compiler(), '#include <stdint.h>\\n')\n"
        "for _ in range(3):\n"
        "    a = library.load([Source(f'k{i}', f'int k{i}(void) {{ return {i}; }}') for i in range(6)])\n"
        "    assert [ctypes.CFUNCTYPE(ctypes.c_int)(x)() for x in a] == list(range(6))\n"
    )
    env = {**os.environ, "DAWDLE_CACHE_DIR": str(tmp_path)}
    running = [
        subprocess.Popen([sys.executable, "-c", code], env=env, stderr=subprocess.PIPE) for _ in range(3)
    ]
    assert [(p.communicate()[1], p.returncode) for p in running] == [(b"", 0)] * 3
    with config.override(cache_dir=tmp_path):
        library = library_in(tmp_path)
        library.load([Source(f"k{i}", f"int k{i}(void) {{ return {i}; }}") for i in range(6)])
    assert library.compiled == 0


def test_pruning_removes_what_was_used_longest_ago(tmp_path):
    library = library_in(tmp_path)
    for i, name in enumerate("abc"):
        library.load([source(name)])
        path = library.store.find(store.digest(source(name).text.encode()))
        os.utime(path, (i, i))
    sizes = sum(p.stat().st_size for p in libraries(library))
    assert (library.store.usage().libraries, library.store.usage().nbytes) == (3, sizes)
    store.prune(tmp_path, sizes - 1)
    left = library_in(tmp_path).store
    assert [left.find(store.digest(source(n).text.encode())) is not None for n in "abc"] == [
        False,
        True,
        True,
    ]
    assert len([p for p in left.directory.iterdir() if p.suffix != ".so"]) == 2
    library.store.clear()
    assert library.store.usage().libraries == 0


def test_assembly(tmp_path):
    text = library_in(tmp_path).assembly(source("a"))
    assert "a:" in text and "ret" in text and ".cfi" not in text
