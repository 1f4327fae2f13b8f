"""``shunter explain``: why jobs waited."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shunter.cli.console import JsonOption, answer, note
from shunter.errors import RunError

EXAMPLES = """Examples:

shunter simulate jobs.csv -c 16x8 -p fifo --decisions --out runs/fifo

shunter explain runs/fifo            # the longest waits, and where waiting time went

shunter explain runs/fifo job812     # one job's course in words
"""


def explain(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run made with --decisions.")],
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="The job to explain.")] = None,
    top: Annotated[int | None, typer.Option("--top", metavar="N", help="List the N longest waits. [20]")] = None,
    json: JsonOption = False,
) -> None:
    """Explain why a job waited, as a timeline; or list the longest waits with their reasons."""
    if job is not None and top is not None:
        raise RunError("--top lists many jobs; leave it out to see one, or leave out the job")
    if top is not None and top < 1:
        raise RunError(f"--top must be >= 1, got {top}")

    from shunter import run_folder
    from shunter.report import explain as why
    from shunter.report.derived_reasons import gives_none, with_reasons
    from shunter.report.terminal import waiting

    kept = run_folder.load(run)
    with run_folder.fitting(run):
        silent, kept = gives_none(kept), with_reasons(kept)
        if silent and not gives_none(kept):
            note(f"policy {kept.summary['policy']} gives no reasons: these follow from its log and the free GPUs")
        if job is not None:
            row = why.find(kept, job)
            answer(why.as_dicts(kept, row), lambda _: waiting.job_view(kept, row), json)
        else:
            answer(waiting.longest(kept, top or 20), waiting.longest_view, json)
