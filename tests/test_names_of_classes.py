"""One name, one thing: no two classes of the package share a name."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "shunter"


def test_no_two_classes_have_the_same_name():
    classes = Counter(
        node.name
        for file in SOURCES.rglob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, count in classes.items() if count > 1} == set()
