"""The names that people import from shunter: a change here is a change for them."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import shunter

ROOT = Path(__file__).parents[1]
ACTIONS = ["Start", "Preempt", "Migrate", "Resize", "Power", "Assign", "Timer", "Reason", "Refusal"]
CONTRACT = ["Policy", "Backend", "View", "Plan", *ACTIONS, "Ordering"]
WORLD = ["Simulator", "Scenario", "Trace", "Cluster"]
RUNS = ["simulate", "compare", "sweep", "tune", "Result", "Comparison", "Sweep", "Tuning", "Run", "load_run", "policy"]
FILES = ["read_trace", "write_trace"]
PUBLIC = sorted([*CONTRACT, *WORLD, *RUNS, *FILES, "ShunterError", "InputError"])


def test_the_list_is_guarded():
    assert sorted(shunter.__all__) == dir(shunter) == sorted([*PUBLIC, "__version__"])


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_has_an_example_that_runs(name):
    """In a fresh namespace, so that an example can be copied as it is."""
    docs = getattr(shunter, name).__doc__
    example = doctest.DocTestParser().get_doctest(docs, {"__name__": "example"}, name, None, 0)
    assert example.examples, f"{name} has no example"
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=said.append)
    assert said == [], "".join(said)


def test_the_page_lists_every_public_name_and_no_other():
    page = (ROOT / "docs" / "reference" / "api.md").read_text()
    assert sorted(re.findall(r"^::: shunter\.(\w+)$", page, re.MULTILINE)) == PUBLIC


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="simulat"):
        _ = shunter.simulat


def test_importing_shunter_imports_nothing_heavy():
    code = "import sys, shunter; print(*{'numpy', 'numba', 'polars', 'pydantic', 'rich', 'typer'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""


def test_the_version_is_that_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["version"] == shunter.__version__
