"""``shunter trace describe`` and ``validate``: what is in a trace, and what is wrong with it."""

from __future__ import annotations

from typing import Annotated

import typer

from shunter.cli.console import ClusterOption, JsonOption, ZoneOption, print_json, show

DESCRIBE_EXAMPLES = """Examples:

shunter trace describe jobs.csv

shunter trace describe jobs.csv --cluster 64x8 --timezone Asia/Shanghai

shunter trace describe jobs.csv --html jobs.html   # the same as a page to share
"""

VALIDATE_EXAMPLES = """Examples:

shunter trace validate jobs.csv

shunter trace validate jobs.csv --cluster philly --strict && shunter simulate jobs.csv -c philly -p fifo
"""

TraceArgument = Annotated[str, typer.Argument(metavar="TRACE", help="A trace file, or synthetic[:jobs=N,...].")]


def describe(
    trace: TraceArgument,
    cluster: ClusterOption = None,
    timezone: ZoneOption = "UTC",
    json: JsonOption = False,
) -> None:
    """Show what is in a trace: sizes, run times, arrivals, users, recurrence, load.

    The load is GPU time asked for over what the cluster offers. Without --cluster, a cluster is suggested that would
    have a load of 0.9.
    """
    from shunter import clusters
    from shunter.report.describe import describe as described
    from shunter.report.hours import zone_of
    from shunter.runs import read_trace

    zone = zone_of(timezone)
    found = read_trace(trace)
    about = described(found, clusters.load(cluster, found) if cluster else None, zone)
    if json:
        print_json(about)
        return
    from shunter.report.trace_view import describe_view

    show(describe_view(about))
