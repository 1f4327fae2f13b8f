"""The report of one run or of several policies on the same jobs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from shunter.report import additions
from shunter.report.html import findings
from shunter.report.html.course import courses, distributions
from shunter.report.html.due import due
from shunter.report.html.energy import asleep
from shunter.report.html.files import check_file, write_file
from shunter.report.html.findings import Row, label
from shunter.report.html.overview import overview
from shunter.report.html.page import Contents, Section, note, page_of, paragraph, render, table
from shunter.report.html.predicted import predicted
from shunter.report.html.provenance import left_out, provenance
from shunter.report.html.reasons import reasons
from shunter.report.html.shared import shared
from shunter.report.html.timeline import Progress, timeline
from shunter.report.terminal.tables import duration
from shunter.texts import counted

if TYPE_CHECKING:
    from shunter.run_folder import Run

LIMIT = 2_900_000  # bytes of a page: how much the node timeline can show depends on it


def contents(
    runs: Sequence[Run],
    rows: Sequence[Row] = (),
    progress: Progress | None = None,
    about: str = "",
    added: Sequence[Any] = (),
    measures: Sequence[Any] = (),
) -> Contents:
    """What the page about runs of the same jobs shows; ``rows``: their summaries as ``Comparison.policies`` has them.

    ``added`` are sections of third parties, ``measures`` those that the rows have; see ``shunter.report.additions``.
    """
    more = additions.sections(added)
    rows = rows or [run.summary for run in runs]
    names = [label(row) for row in rows]
    first = runs[0]
    repeats = len(rows[0].get("repeats", ()))
    again = (
        [_repeats(names, rows), note(f"Numbers above are means of {repeats} repeats. Charts show the first of them.")]
        if repeats > 1
        else []
    )
    summary = findings.several(rows) if len(runs) > 1 else findings.one(rows[0])
    missing = left_out(rows)
    sections = [
        Section("At a glance", overview(runs, rows, about)),
        Section("Summary", [*([paragraph(missing)] if missing else []), *summary, *again]),
        Section("Which jobs wait", distributions(names, runs, rows)),
        Section("Over time", courses(names, runs, rows)),
    ]
    kept = due(names, runs, rows)
    if kept:
        sections.append(Section("Deadlines", kept))
    slept = asleep(names, runs, rows)
    if slept:
        sections.append(Section("Energy", slept))
    why = reasons(names, runs)
    if why:
        sections.append(Section("Where waiting time went", why))
    foreseen = predicted(names, runs, rows)
    if foreseen:
        sections.append(Section("Predicted and actual", foreseen))
    together = shared(names, runs, rows)
    if together:
        sections.append(Section("Sharing", together))
    sections += additions.shown(runs, more)
    run = Section("What was run", provenance(runs, rows, additions.options(measures, added)))
    title, lead = _title(names, first), _lead(runs)
    room = LIMIT - len(render(title, lead, [*sections, run]).encode())
    nodes = timeline(names, runs, room, progress or (lambda done, total: None))
    return Contents(title, lead, [*sections, *([Section("Nodes", nodes)] if nodes else []), run])


report = page_of(contents)


def write(
    file: Path,
    runs: Sequence[Run],
    rows: Sequence[Row],
    force: bool = False,
    about: str = "",
    added: Sequence[Any] = (),
    measures: Sequence[Any] = (),
) -> Path:
    """Write the page of these runs to a file."""
    check_file(file, force)
    write_file(file, report(runs, rows, about=about, added=added, measures=measures))
    return file


def _repeats(names: Sequence[str], rows: Sequence[Row]) -> str:
    """The mean JCT of each repeat, with its seed."""
    lines = [
        [f"{one.get('repeat', at)} (seed {one.get('repeat_seed', one['seed'])})",
         *(duration(row["repeats"][at]["jct_s"]["mean"]) for row in rows)]
        for at, one in enumerate(rows[0]["repeats"])
    ]  # fmt: skip
    return table("Repeats: mean JCT", ["repeat", *names], lines)


def _title(names: Sequence[str], run: Run) -> str:
    who = names[0] if len(names) == 1 else f"{len(names)} policies"
    path = run.experiment.trace.path
    trace = path if path.startswith("synthetic") else PurePath(path).name
    return f"{who} on {trace + ', ' if trace else ''}{run.cluster.name}"


def _lead(runs: Sequence[Run]) -> str:
    first, cluster = runs[0], runs[0].cluster
    longest = max(float(run.summary["makespan_s"]) for run in runs)
    machines = f"{counted(cluster.nodes, 'node')} with {counted(cluster.gpus, 'GPU')}"
    return (
        f"{counted(first.summary['jobs'], 'job')} on {machines},"
        f" simulated over {duration(longest)} by shunter {first.versions.get('shunter', '')}."
    )
