"""``shunter demo``: something to look at, without any file."""

from __future__ import annotations

from shunter.cli.console import JsonOption, SeedOption, note, print_json, progress, show

EXAMPLES = """Examples:

shunter demo

shunter demo --seed 7 --json
"""

CLUSTER = "16x8"
TRACE = "synthetic:jobs=5000,seed={seed},gpus=128,load=1.0"
POLICIES = ("fifo", "fifo:backfill=easy", "saf:backfill=easy", "las", "sjf:estimate=oracle", "srtf:estimate=oracle")
NEXT = """\
 [bold]How to go on:[/bold] run policies on your own jobs (a CSV with job_id, submit, duration, gpus), such as
 [bold]shunter compare jobs.csv --cluster 16x8 -p fifo -p saf:backfill=easy[/bold]
 Then look at all policies and what can be set with [bold]shunter policies[/bold]."""


def demo(seed: SeedOption = 0, json: JsonOption = False) -> None:
    """Compare six policies on a made-up trace of 5,000 jobs and a busy cluster of 16 nodes with 8 GPUs."""
    from shunter import comparison, runs

    if not json:
        note("5,000 made-up jobs on 16 nodes of 8 GPUs; the first time, compiling takes some seconds", "demo")
    scene = runs.scene(TRACE.format(seed=seed), CLUSTER)
    with progress("comparing six policies") as tell:
        found = comparison.compare_scene(scene, POLICIES, seed, progress=tell)
    if json:
        print_json(found.as_dict())
        return
    from shunter.report.tables import comparison_view

    show(comparison_view(found.policies))
    show(NEXT)
