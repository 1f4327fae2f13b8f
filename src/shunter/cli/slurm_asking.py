"""``shunter slurm why``, ``when``, ``what-if`` and ``snapshot``: questions about a live cluster; nothing is changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from shunter.cli.console import (
    ColumnsOption,
    ForceOption,
    FormatOption,
    JsonOption,
    OnBadRowOption,
    SeedOption,
    check_free,
    print_json,
    progress,
    read_history,
    say,
    show,
)
from shunter.texts import counted

if TYPE_CHECKING:
    from shunter.live.forecast import Forecast, Outlook

WHEN_EXAMPLES = """Examples:

shunter slurm when 4711

shunter slurm when 4711 --history jobs.parquet   # uses run times and waits of your site's past

shunter slurm when 4711 --snapshot now.json --json
"""

WHY_EXAMPLES = """Examples:

shunter slurm why 4711

shunter slurm why 4711_3 --json
"""

WHAT_IF_EXAMPLES = """Examples:

shunter slurm what-if --gpus 8 --time 4:00:00

shunter slurm what-if --gpus 4 --time 1-0 --gpu-type a100 --cpus 32 --mem 256G
"""

SNAPSHOT_EXAMPLES = """Examples:

shunter slurm snapshot now.json

shunter slurm when 4711 --snapshot now.json
"""

JobArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="JOBID", help="A waiting job: 12 or 12_3; for an array, 12 is its next task.")
]
SnapshotOption: TypeAlias = Annotated[
    Path | None, typer.Option("--snapshot", metavar="FILE", help="Use a recorded snapshot; Slurm is not called.")
]
SiteOption: TypeAlias = Annotated[
    Path | None, typer.Option("--site", metavar="FILE", help="Slurm's rules, as 'shunter slurm import' writes them.")
]
HistoryOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--history", metavar="TRACE", help="Past jobs: run times are drawn from them, waits are learned."),
]
SamplesOption: TypeAlias = Annotated[
    int, typer.Option("--samples", min=10, max=10_000, metavar="N", help="Number of simulated futures.")
]


def why(job: JobArgument, snapshot: SnapshotOption = None, site: SiteOption = None, json: JsonOption = False) -> None:
    """Explain why a job waits: which jobs are before it, which hold what it needs, and what would let it start now."""
    from shunter.live import answers
    from shunter.live.why import why as explained
    from shunter.slurm import questions

    outlook = questions.AnswerSources(snapshot, site).outlook()
    found = explained(outlook, questions.pending(outlook.snapshot, job))
    if json:
        print_json(answers.why_record(found))
    else:
        show(answers.why_view(found))


def _answer(outlook: Outlook, found: Forecast, json: bool) -> None:
    """Forecast when a job may start."""
    from shunter.live import answers

    if json:
        print_json(answers.when_record(outlook, found))
    else:
        show(answers.when_view(outlook, found))


def when(  # noqa: PLR0913, PLR0917 one for each option
    job: JobArgument,
    snapshot: SnapshotOption = None,
    site: SiteOption = None,
    history: HistoryOption = None,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
    samples: SamplesOption = 100,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Forecast when a waiting job may start: simulates the cluster many times from now on, with random run times."""
    from shunter.slurm import questions

    past = read_history(history, format, columns, on_bad_row)
    with progress("learning from past waits") as on_progress:
        outlook = questions.AnswerSources(snapshot, site, past).outlook(samples, seed, on_progress)
    (found,) = outlook.of(questions.pending(outlook.snapshot, job))
    _answer(outlook, found, json)


def what_if(  # noqa: PLR0913, PLR0917 one for each option
    gpus: Annotated[int, typer.Option("--gpus", min=1, metavar="N", help="GPUs in all.")],
    time: Annotated[str, typer.Option("--time", metavar="T", help="Time limit as Slurm takes it: 4:00:00, 1-0, 90.")],
    partition: Annotated[str, typer.Option(metavar="P", help="Partition; default: the one with most jobs.")] = "",
    gpu_type: Annotated[str, typer.Option(metavar="T", help="Only GPUs of this type.")] = "",
    cpus: Annotated[int, typer.Option(min=0, metavar="N", help="CPUs in all; default: the partition's.")] = 0,
    mem: Annotated[str, typer.Option(metavar="M", help="Memory in all: 64G; default: the partition's.")] = "",
    priority: Annotated[
        int | None, typer.Option(metavar="N", help="Slurm priority; default: behind all other jobs.")
    ] = None,
    snapshot: SnapshotOption = None,
    site: SiteOption = None,
    history: HistoryOption = None,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
    samples: SamplesOption = 100,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Forecast when a job would start if you submitted it now."""
    from shunter.slurm import questions

    wish = questions.Wish(gpus, time, partition, gpu_type, cpus, mem, priority)
    wish.check()
    past = read_history(history, format, columns, on_bad_row)
    with progress("learning from past waits") as on_progress:
        outlook = questions.AnswerSources(snapshot, site, past).outlook(samples, seed, on_progress)
    _answer(outlook, wish.forecast(outlook), json)


def record(
    out: Annotated[Path, typer.Argument(metavar="FILE", help="The JSON file to write.")],
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Record the queue and the nodes as they are now, for later questions or another machine."""
    check_free(out, force)

    from shunter.slurm.client import Client
    from shunter.slurm.watcher import Watcher

    present = Watcher(Client(), surroundings=True).snapshot()
    present.save(out)
    if json:
        print_json({"file": str(out), "jobs": len(present.jobs), "nodes": len(present.nodes)})
    else:
        say(f"{out}: {counted(len(present.jobs), 'job')}, {counted(len(present.nodes), 'node')} with GPUs")


def register(app: typer.Typer) -> None:
    """Add the commands to ``shunter slurm``."""
    app.command("why", epilog=WHY_EXAMPLES)(why)
    app.command("what-if", epilog=WHAT_IF_EXAMPLES)(what_if)
    app.command("when", epilog=WHEN_EXAMPLES)(when)
    app.command("snapshot", epilog=SNAPSHOT_EXAMPLES)(record)
