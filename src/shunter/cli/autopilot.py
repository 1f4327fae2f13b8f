"""``shunter autopilot``: what an autopilot would have done with a recorded trace, week after week."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from shunter.cli.console import (
    CheckpointableOption,
    ClusterOption,
    ColumnsOption,
    DropOption,
    FormatOption,
    JsonOption,
    LoadOption,
    OnBadRowOption,
    OverheadOption,
    SeedOption,
    SinceOption,
    TraceArgument,
    UntilOption,
    answer,
    milliseconds,
    named_cluster,
    policy_names,
    progress,
    say_about,
    say_stoppable,
    with_columns,
)
from shunter.errors import RunError

EXAMPLES = """Examples:

shunter autopilot jobs.csv -c 64x8 --since +28 --checkpointable none   # stops no job, as live

shunter autopilot jobs.csv -c 64x8 --since +28 --until +56 --baseline multifactor --candidate saf:backfill=easy

shunter autopilot jobs.csv -c 64x8 --since +28 --limits worst_p99=1.2,gain=1.05 --checkpointable none --json
"""
BASELINE = "fifo:backfill=easy"


def autopilot(  # noqa: PLR0913, PLR0917  one argument per option
    trace: TraceArgument,
    cluster: ClusterOption = None,
    baseline: Annotated[
        str, typer.Option("--baseline", metavar="P", autocompletion=policy_names, help="The site's present policy.")
    ] = BASELINE,
    candidate: Annotated[
        list[str] | None,
        typer.Option(
            "--candidate",
            metavar="P",
            autocompletion=policy_names,
            help="A policy that it may choose; repeatable, best guess first.",
        ),
    ] = None,
    limits: Annotated[
        list[str] | None,
        typer.Option(
            "--limits",
            metavar="K=V,...",
            help="worst_p99=1.5, worst_fairness=0.95, hours=24, prefer=1.2, again=2 ...; an unknown name lists all.",
        ),
    ] = None,
    every: Annotated[str, typer.Option("--every", metavar="T", help="Time between decisions: 1d, 7d.")] = "1d",
    rest: Annotated[str, typer.Option("--rest", metavar="T", help="Time from a hand-back to a resume.")] = "1d",
    repeat: Annotated[
        int, typer.Option("--repeat", metavar="N", min=1, help="Runs, with run times of jobs that differ by 1 %.")
    ] = 1,
    since: SinceOption = None,
    until: UntilOption = None,
    seed: SeedOption = 0,
    overhead: OverheadOption = None,
    load: LoadOption = None,
    checkpointable: CheckpointableOption = None,
    json: JsonOption = False,
    drop_unfit: DropOption = False,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
) -> None:
    """Replay a trace with an autopilot that chooses policy and settings by what it knows of the past.

    Side by side: the site's policy; Fixed, the first choice on the weeks before; the autopilot, which begins as the
    site's policy; Optimal, which chooses as often by what really comes. A guard compares every day with a shadow.
    """
    format = with_columns(format, columns)  # noqa: A001
    cluster = named_cluster(cluster)

    from shunter.adapting.autopilot.candidates import Candidates
    from shunter.adapting.autopilot.outcome import ReplayOptions, repeated
    from shunter.adapting.autopilot.replay import PilotReplay
    from shunter.adapting.autopilot.rule import AutopilotLimits
    from shunter.clusters.stop_costs import USUAL
    from shunter.generating.known_jobs import DAY
    from shunter.report.terminal.autopilot import autopilot_view
    from shunter.setup import set_up
    from shunter.simulation import resolve

    chosen = Candidates.of(candidate or (), baseline)
    step = milliseconds("--every", every, 0, "1d or 7d")
    if not step or step % DAY:
        raise RunError(f"--every must be a number of whole days, such as 1d or 7d, got '{every}'")
    options = ReplayOptions(
        chosen, AutopilotLimits.of(",".join(limits or ())), step, milliseconds("--rest", rest), seed
    )
    setup = set_up(
        trace, cluster, chosen.first if drop_unfit else (), format, on_bad_row or "fail", since=since or "",
        until=until or "", overhead=USUAL if overhead is None else overhead, load=load or "",
        checkpointable=checkpointable or "",
    )  # fmt: skip
    say_about(setup, cluster, [resolve(baseline).text])
    with progress("replaying", "steps") as on_progress:
        found = [PilotReplay(setup, replace(options, copy=copy)).run(on_progress) for copy in range(repeat)]
    say_stoppable(setup.trace, checkpointable or "", max(run.stops for run in found[0].runs.values()))
    answer(repeated(found), autopilot_view, json)
