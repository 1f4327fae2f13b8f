"""Every example runs."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("[0-9]*.py"))


def test_they_are_numbered():
    assert [int(path.name[:2]) for path in EXAMPLES] == list(range(1, len(EXAMPLES) + 1))
    assert len(EXAMPLES) >= 5


def all_of_them():
    """A training with a library of others takes as long as five others together."""
    return [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if "sb3_contrib" in path.read_text() else [])
        for path in EXAMPLES
    ]


@pytest.mark.parametrize("path", all_of_them())
def test_it_runs(path, tmp_path):
    how = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if "PolicyConformance" in path.read_text() else []
    done = subprocess.run([sys.executable, *how, str(path)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout
    assert not list(tmp_path.iterdir()), "an example leaves something behind"
