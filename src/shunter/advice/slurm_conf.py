"""Changes of ``slurm.conf`` as a unified diff: against the site's own file, or against what Slurm said of itself."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

SETTING = re.compile(r"(\s*)([A-Za-z]+)(\s*=\s*)(\S.*?)?(\s+#.*)?$")
NEIGHBOURS = ("priority", "scheduler")  # a new line goes behind the last that begins so


def changed(text: str, changes: Mapping[str, str]) -> str:
    """A file with these settings: lines that have them are changed, the others stand behind their like."""
    left = {key.lower(): (key, value) for key, value in changes.items()}
    lines, behind = [], 0
    for line in text.splitlines():
        found = SETTING.fullmatch(line)
        key = found[2].lower() if found else ""
        if found and key in left:
            line = f"{found[1]}{found[2]}{found[3]}{left.pop(key)[1]}{found[5] or ''}"  # noqa: PLW2901
        lines.append(line)
        if key.startswith(NEIGHBOURS):
            behind = len(lines)
    behind = behind or len(lines)
    lines[behind:behind] = [f"{key}={value}" for key, value in left.values()]
    return "\n".join(lines) + "\n"


def of_settings(settings: Mapping[str, str]) -> str:
    """Settings as the lines of a file."""
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def diff(before: str, after: str, name: str = "slurm.conf") -> str:
    """What ``patch`` takes."""
    made = difflib.unified_diff(before.splitlines(True), after.splitlines(True), name, name, n=1)
    return "".join(line if line.endswith("\n") else line + "\n" for line in made)
