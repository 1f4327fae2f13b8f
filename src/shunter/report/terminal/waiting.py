"""Tables about waiting, for a terminal of 100 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from shunter.report.explain import REASONS, headline, moment, timeline
from shunter.report.metrics import SIZES
from shunter.report.terminal.tables import duration
from shunter.report.waiting import waiting

if TYPE_CHECKING:
    from shunter.run_folder import Run

MOST_PIECES = 20  # of waiting, in the timeline of one job


def job_view(run: Run, job: int) -> RenderableType:
    """One job's course."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("from", "to", "for"):
        table.add_column(name, no_wrap=True, justify="right" if name == "for" else "left")
    table.add_column("what")
    day = ""
    for line in timeline(run, job, MOST_PIECES):
        begin, end = moment(line.begin), moment(line.end) if line.end is not None else ""
        first, day = _without(begin, day)
        length = duration((line.end - line.begin) / 1000) if line.end is not None else ""
        what = Text(line.text, style="" if line.code else "bold")
        table.add_row(first, _without(end, day)[0] if end else "", length, what)
    return Group(Text(headline(run, job), style="bold"), table)


def _without(when: str, day: str) -> tuple[str, str]:
    """A time without its day if that is the day before it in the table, and the day."""
    own, _, clock = when.rpartition(" ")
    return (clock if own == day else when), own


def longest(run: Run, top: int) -> dict[str, Any]:
    """The longest waits with their main reason, and all waiting by reason, as data; times in seconds."""
    found = waiting(run)
    main, queued = found.main(), found.per_job.sum(axis=0)  # "wait" also has what was lost on GPUs
    rows = [row for row in np.argsort(-queued, kind="stable")[:top].tolist() if queued[row] > 0]
    jobs = []
    for row in rows:
        about = run.jobs.row(row, named=True)
        reasons = {code: ms / 1000 for code, ms in zip(found.codes, found.per_job[:, row].tolist(), strict=True) if ms}
        jobs.append(
            {
                **{key: about[key] for key in ("job_id", "user", "vc", "gpus", "submit")},
                "wait_s": int(queued[row]) / 1000,
                "main_reason": found.codes[main[row]],
                "reasons_s": reasons,
                "submitted": moment(round(about["submit"] * 1000)),
            }
        )
    total = found.per_job.sum(axis=1)
    sizes = found.by_size(run.jobs["gpus"].to_numpy())
    kept = [at for at in np.argsort(-total, kind="stable").tolist() if total[at] > 0]
    by_reason = {
        found.codes[at]: {
            "wait_s": int(total[at]) / 1000,
            "share": int(total[at]) / max(int(total.sum()), 1),
            "by_size_s": {name: int(times[at]) / 1000 for name, times in sizes.items()},
        }
        for at in kept
    }
    return {"policy": run.summary["policy"], "jobs": jobs, "by_reason": by_reason}


def longest_view(found: dict[str, Any]) -> RenderableType:
    """The same for people."""
    if not found["jobs"]:
        return Text("No job waited.")
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, title="Longest waits", title_justify="left", collapse_padding=True
    )
    for name, right in (("job", 0), ("user", 0), ("GPUs", 1), ("submitted", 0), ("wait", 1), ("mostly", 0), ("", 1)):
        table.add_column(name, justify="right" if right else "left", no_wrap=name != "mostly", overflow="fold")
    for job in found["jobs"]:
        spent = job["reasons_s"]
        part = spent[job["main_reason"]] / sum(spent.values())
        reason = REASONS.get(job["main_reason"], job["main_reason"])
        shown = (job["job_id"], job["user"] or "", f"{job['gpus']:g}", job["submitted"], duration(job["wait_s"]))
        table.add_row(*(Text(text) for text in (*shown, reason, f"{100 * part:.0f} %")))
    return Group(table, _reasons_table(found["by_reason"]))


def _reasons_table(by_reason: dict[str, Any]) -> Table:
    """The share of each reason in the waiting of all jobs and of each size, and that waiting itself below."""
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        title="Where waiting time went",
        title_justify="left",
        collapse_padding=True,
    )
    table.add_column("reason", overflow="fold")
    columns = {"all jobs": {code: row["wait_s"] for code, row in by_reason.items()}}
    for size, _ in SIZES:
        columns[f"{size} GPU{'' if size == '1' else 's'}"] = {c: row["by_size_s"][size] for c, row in by_reason.items()}
    columns = {name: waits for name, waits in columns.items() if sum(waits.values())}
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for code in by_reason:
        shares = (waits[code] / sum(waits.values()) for waits in columns.values())
        table.add_row(REASONS.get(code, code), *(f"{100 * part:.0f} %" if part else "" for part in shares))
    table.add_section()
    table.add_row("in all", *(duration(sum(waits.values())) for waits in columns.values()))
    return table
