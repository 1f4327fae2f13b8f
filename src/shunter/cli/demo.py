"""``shunter demo``: a first comparison, without any file."""

from __future__ import annotations

from pathlib import Path

from shunter.cli.console import JsonOption, SeedOption, note, print_json, progress, show
from shunter.cli.reports import ReportOption, check_page, write_report
from shunter.errors import RunError

EXAMPLES = """Examples:

shunter demo

shunter demo --seed 7 --json
"""

CLUSTER = "16x8"
TRACE = "synthetic:jobs=5000,seed={seed},gpus=128,load=1.0"
POLICIES = ("fifo", "fifo:backfill=easy", "saf:backfill=easy", "las", "sjf:estimate=oracle", "srtf:estimate=oracle")
PAGE = Path("shunter-demo.html")
NEXT = """\
 [bold]How to go on:[/bold] run policies on your own jobs (a CSV with job_id, submit, duration, gpus), such as
 [bold]shunter compare jobs.csv --cluster 16x8 -p fifo -p saf:backfill=easy --report report.html[/bold]
 [bold]shunter policies[/bold] lists all policies and their parameters."""


def demo(seed: SeedOption = 0, report: ReportOption = None, json: JsonOption = False) -> None:
    """Compare six policies on a synthetic trace of 5,000 jobs and a busy cluster of 16 nodes with 8 GPUs.

    It writes a report to shunter-demo.html in the current folder and replaces that of an earlier demo. With --json it
    writes one only if --report names a file.
    """
    from shunter import comparison
    from shunter.clusters.stop_costs import USUAL
    from shunter.setup import set_up

    check_page(report, force=False)
    page = report or (None if json else _usual_page())
    if not json:
        note("5,000 synthetic jobs on 16 nodes of 8 GPUs; the first time, compiling takes a minute or two", "demo")
    setup = set_up(TRACE.format(seed=seed), CLUSTER, overhead=USUAL)
    why = page is not None
    with progress("comparing six policies") as on_progress:
        options = comparison.CompareOptions(seed, decisions=why, keep=why, try_costs=True)
        found = comparison.compare_setup(setup, POLICIES, options, on_progress)
    if json:
        print_json(found.as_dict())
    else:
        from rich.text import Text

        from shunter.report.terminal.tables import comparison_view

        show(comparison_view(found.policies, found.verdict, found.about_intervals))
        show(Text.from_markup(NEXT))
    if page is not None:
        write_report(page, found.runs, found.policies, found.about_intervals)


def _usual_page() -> Path | None:
    """Default path of the report; None if another file is there, or the folder is not writable."""
    from shunter.report.html.files import check_file

    try:
        check_file(PAGE, force=True)
    except RunError as error:
        note(f"there will be no report: {error}; or name one with --report")
        return None
    return PAGE
