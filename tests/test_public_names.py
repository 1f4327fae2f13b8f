"""The names that people import from shunter: a change here is a change for them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import shunter

PUBLIC = [
    "Cluster",
    "Comparison",
    "InputError",
    "Result",
    "Run",
    "ShunterError",
    "Trace",
    "__version__",
    "compare",
    "load_run",
    "policy",
    "read_trace",
    "simulate",
    "write_trace",
]


def test_the_list_is_guarded():
    assert sorted(shunter.__all__) == PUBLIC
    assert dir(shunter) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_is_there(name):
    assert getattr(shunter, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="simulat"):
        _ = shunter.simulat


def test_importing_shunter_imports_nothing_heavy():
    code = "import sys, shunter; print(*{'numpy', 'numba', 'polars', 'pydantic', 'rich', 'typer'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""


def test_the_version_is_that_of_the_package():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    assert project["project"]["version"] == shunter.__version__
