"""Texts of the package name no file of the repository that an installation lacks."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src" / "shunter"
ELSEWHERE = re.compile(
    r"(?<![\w/])(\./)?(docs|scripts|examples|benchmarks|tests)/\w|\b(README|CONTRIBUTING|CHANGELOG)\b|\w\.md\b"
)
CHECKS_FIRST = {"extras.py": "./scripts/install"}  # names it only where it is there


def texts(file: Path) -> list[str]:
    return [
        node.value
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


@pytest.mark.parametrize("text", ["See docs/operating.md.", "run ./scripts/slurm", "the README has it"])
def test_such_a_text_is_found(text):
    assert ELSEWHERE.search(text)


def test_no_text_names_a_file_that_a_wheel_lacks():
    found = [
        f"{file.relative_to(SOURCES)}: {text}"
        for file in sorted(SOURCES.rglob("*.py"))
        for text in texts(file)
        if ELSEWHERE.search(text.replace(CHECKS_FIRST.get(file.name, "\0"), ""))
    ]
    assert found == []
