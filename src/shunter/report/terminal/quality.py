"""What the checks of a trace found, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from shunter.report.quality import Finding
from shunter.texts import counted

_STYLES = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}


def validate_view(name: str, jobs: int, findings: Sequence[Finding]) -> RenderableType:
    """Everything that ``shunter trace validate`` prints."""
    counts = Counter[str](finding.severity for finding in findings)
    numbers = [
        f"{counts[key]} {word}{'' if counts[key] == 1 else 's'}"
        for key, word in (("error", "error"), ("warning", "warning"), ("info", "remark"))
        if counts[key]
    ]
    head = Text.assemble((f" {name}", "bold"), f"  {counted(jobs, 'job')}: {', '.join(numbers) or 'nothing found'}")
    grid = Table.grid(padding=(0, 2))
    for finding in findings:
        grid.add_row(Text(f" {finding.severity}", style=_STYLES[finding.severity]), _one(finding))
    return Group(head, Text(), grid) if findings else head


def _one(finding: Finding) -> RenderableType:
    lines: list[RenderableType] = [Text.assemble((finding.check, "bold"), ": ", finding.says)]
    if finding.examples:
        lines.append(
            Text(f"jobs {', '.join(finding.examples)}" + (" ..." if finding.count > len(finding.examples) else ""))
        )
    lines += [Text(finding.means), Text(f"-> {finding.remedy}")]
    return Padding(Group(*lines), (0, 0, 1, 0))
