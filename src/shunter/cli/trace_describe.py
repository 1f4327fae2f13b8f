"""``shunter trace describe`` and ``validate``: what is in a trace, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shunter.cli.console import (
    ClusterOption,
    ColumnsOption,
    ForceOption,
    FormatOption,
    JsonOption,
    OnBadRowOption,
    TraceArgument,
    ZoneOption,
    answer,
    read,
    with_columns,
)
from shunter.cli.reports import check_page, write_page
from shunter.errors import RunError

DESCRIBE_EXAMPLES = """Examples:

shunter trace describe jobs.csv

shunter trace describe jobs.csv --cluster 64x8 --timezone Asia/Shanghai

shunter trace describe jobs.csv --report jobs.html   # the same as a page to share
"""

VALIDATE_EXAMPLES = """Examples:

shunter trace validate jobs.csv

shunter trace validate jobs.csv --cluster philly --strict && shunter simulate jobs.csv -c philly -p fifo
"""


def describe(  # noqa: PLR0913, PLR0917  one argument per option
    trace: TraceArgument,
    cluster: ClusterOption = None,
    timezone: ZoneOption = "UTC",
    json: JsonOption = False,
    html: Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write a page with charts.")] = None,
    force: ForceOption = False,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
) -> None:
    """Show what is in a trace: sizes, run times, arrivals, users, recurrence, load.

    The load is requested over available GPU time. Without --cluster, the command suggests a cluster that would have a
    load of 0.9. The page needs no network and includes the findings of validate.
    """
    format = with_columns(format, columns)  # noqa: A001
    if force and html is None:
        raise RunError("--force replaces the file of --report; give both or neither")

    from shunter import clusters
    from shunter.report.calendar import zone_of
    from shunter.report.describe import describe as described
    from shunter.report.terminal.trace import describe_view

    check_page(html, force)
    zone = zone_of(timezone)
    found = read(trace, format, on_bad_row)
    machines = clusters.load(cluster, found) if cluster else None
    about = described(found, machines, zone)
    if html is not None:
        from shunter.report.html.trace_page import trace_page
        from shunter.report.quality import validate as validated

        write_page(html, trace_page(found, about, validated(found, machines)))
    answer(about, describe_view, json)


def validate(
    trace: TraceArgument,
    cluster: ClusterOption = None,
    json: JsonOption = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 1 on errors and warnings.")] = False,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
) -> None:
    """Check a trace for anomalies: impossible times, truncated run times, jobs that never fit, overload ...

    Each finding says how often, where, what it means and what to do. A file that can't be read ends with code 2; all
    others with 0, whatever is found, unless --strict is given.
    """
    format = with_columns(format, columns)  # noqa: A001
    from shunter import clusters
    from shunter.report.quality import validate as validated
    from shunter.report.terminal.quality import validate_view

    found = read(trace, format, on_bad_row)
    findings = validated(found, clusters.load(cluster, found) if cluster else None)
    listed = [finding.as_dict() for finding in findings]
    record = {"trace": found.name, "digest": found.digest, "jobs": len(found), "findings": listed}
    answer(record, lambda _: validate_view(found.name, len(found), findings), json)
    if strict and any(finding.severity != "info" for finding in findings):
        raise typer.Exit(1)
