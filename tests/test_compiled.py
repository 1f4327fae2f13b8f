"""Where machine code is kept, and what it depends on."""

import os
import re
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

import shunter
from shunter import compiled
from shunter.sim import side_compiling


def test_rooms_whose_edits_compile_nothing_have_no_kernels():
    package = Path(shunter.__file__).parent
    for room in compiled.WITHOUT_KERNELS:
        sources = [package / room] if room.endswith(".py") else list((package / room).rglob("*.py"))
        assert sources, f"there is no room {room}"
        for source in sources:
            text = source.read_text()
            assert not re.search(r"@kernel|pointer\(|njit|cfunc", text), source


ANNOUNCED = """
from shunter.cli import compile_kernels
from shunter.sim import side_compiling

side_compiling.is_done = lambda: {done}
said = compile_kernels.Notice()
for name in ("a", "b", "", "c", ""):
    said(name)
"""


@pytest.mark.parametrize(
    ("done", "text"),
    [(False, "the first run of this version compiles"), (True, "this version compiles kernels that it has not used")],
)
def test_compiling_is_announced_once(done, text):
    ran = subprocess.run(
        [sys.executable, "-c", ANNOUNCED.format(done=done)], capture_output=True, text=True, check=True
    )
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.startswith(f"compiling: {text}")
    assert "about " in ran.stderr
    assert "'shunter compile' compiles everything beforehand" in ran.stderr


TREE = """
import numpy as np
from numba.core.dispatcher import Dispatcher
from shunter.compiled import kernel

@kernel
def plus(a, b):
    return a + b

@kernel
def total(values, more):
    found = 0
    for at in range(len(values)):
        found = plus(found, plus(values[at], more))
    return found

@kernel
def once(values):
    return plus(total(values, 0), total(values, 1))

@kernel
def negative(values):
    return total(values, -1)

values = np.arange(5)
print(once(values), negative(values), plus(2, 3))
"""


def of_cache(folder):
    """What was compiled into a cache: names of kernels with machine code, and of those that only kernels call."""
    names = [(path, path.name.partition("-")[0]) for path in Path(folder).rglob("*.nbc")]
    inner = sorted(name for path, name in names if compiled.TRANSLATED in path.parts)
    return sorted(name for path, name in names if compiled.TRANSLATED not in path.parts), inner


def test_what_kernels_call_is_translated_once_whatever_constants_are_passed(tmp_path):
    script = tmp_path / "tree.py"
    script.write_text(TREE)
    environment = os.environ | {compiled.VARIABLE: str(tmp_path / "kernels")}
    for _ in range(2):  # the second time from the cache
        done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == "25 5 5\n"
    made, inner = of_cache(tmp_path / "kernels")
    assert made == ["tree.negative", "tree.once", "tree.plus"]  # what Python calls
    assert inner == ["tree.plus", "tree.total"]


# What each policy adds to those before it: kernels with machine code, and kernels that others call
SHARES = {
    "fifo": (14, 175),
    "fifo:backfill=easy": (2, 30),
    "wfp3": (1, 1),
    "tiresias": (8, 50),
    "dally": (11, 40),
}


@pytest.mark.slow
def test_how_much_policies_compile(tmp_path):
    """A first run takes as long as there is to compile; this keeps it from growing with every policy."""
    environment = os.environ | {compiled.VARIABLE: str(tmp_path)}
    before: set[Path] = set()
    for policy, (machine_code, called) in SHARES.items():
        command = ["simulate", "synthetic:jobs=40,gpus=8", "-c", "2x4", "-p", policy, "--json"]
        subprocess.run([sys.executable, "-m", "shunter", *command], env=environment, capture_output=True, check=True)
        new = set(Path(tmp_path).rglob("*.nbc")) - before
        before |= new
        inner = {path for path in new if compiled.TRANSLATED in path.parts}
        assert len(inner) <= called, (policy, sorted(path.name for path in inner))
        assert len(new - inner) <= machine_code, (policy, sorted(path.name for path in new - inner))
    versions = Counter(
        (path.parent, path.name.partition("-")[0]) for path in before if compiled.TRANSLATED in path.parts
    )
    several = {name for (_, name), count in versions.items() if count > 1}
    assert several <= {"compiled.copy_into"}, "one version should do: pass values of one type"
    assert not {"loop.advance", "loop.check", "loop.perform"} & {name for _, name in versions}, "linked into each loop"


@pytest.mark.slow
def test_the_second_process_translates_the_whole_engine(tmp_path):
    """What it leaves out, or translates for other types, the first process would do again."""
    environment = os.environ | {compiled.VARIABLE: str(tmp_path)}
    subprocess.run([sys.executable, "-m", "shunter.sim.side_compiling"], env=environment, check=True)
    ahead = set(tmp_path.rglob("*.nbc"))
    assert {"loop.advance", "loop.check", "loop.perform"} <= {path.name.partition("-")[0] for path in ahead}
    command = ["simulate", "synthetic:jobs=40,gpus=8", "-c", "2x4", "-p", "fifo", "--json"]
    subprocess.run([sys.executable, "-m", "shunter", *command], env=environment, capture_output=True, check=True)
    engine = [path for path in set(tmp_path.rglob("*.nbc")) - ahead if compiled.TRANSLATED in path.parts]
    assert not [path.name for path in engine if path.name.startswith(("loop.", "transitions."))]


SMALL = """
import shunter
for policy in ("fifo:backfill=easy", "las", "dally", "themis", "gandiva"):
    print(shunter.simulate("synthetic:jobs=20,gpus=8,load=1.2", "2x4", policy).digest)
"""


def test_kernels_run_as_plain_python_for_debugging(tmp_path):
    """With the same digests; overflow in hashes is a warning in NumPy and nothing in compiled code."""
    plain = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore", "SHUNTER_KERNELS": str(tmp_path)}
    digests = [
        subprocess.run([sys.executable, "-c", SMALL], capture_output=True, text=True, check=True, env=env).stdout
        for env in (plain, dict(os.environ))
    ]
    assert digests[0] == digests[1]
    assert len(digests[0].split()) == 5


def test_an_interpreter_that_ignores_its_environment_starts_no_second_one(tmp_path, monkeypatch):
    monkeypatch.setattr(side_compiling, "usable_cores", lambda: 2)
    monkeypatch.setattr(compiled, "cache_folder", lambda: tmp_path)
    assert side_compiling._needed()
    monkeypatch.setattr(side_compiling.sys, "flags", SimpleNamespace(ignore_environment=1))
    assert not side_compiling._needed()


def test_scipy_is_imported_only_for_a_function_that_multiplies_matrices():
    pytest.importorskip("scipy", reason="no SciPy; ./scripts/install ml has it")
    code = """
        import sys
        import numba
        import numpy as np
        import shunter

        shunter.simulate("synthetic:jobs=8,gpus=8", "1x8", "fifo")
        assert "scipy.linalg" not in sys.modules
        assert numba.njit(lambda matrix: matrix @ matrix)(2 * np.eye(2)).tolist() == [[4, 0], [0, 4]]
        assert "scipy.linalg" in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
