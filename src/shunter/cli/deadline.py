"""``shunter deadline``: will a job be done in time, and what would it take?"""

from __future__ import annotations

import time as clock
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli.console import JsonOption, SeedOption, print_json, progress, show
from shunter.cli.slurm_asking import HistoryOption, SamplesOption, SiteOption, SnapshotOption
from shunter.errors import LiveError

if TYPE_CHECKING:
    from shunter.cluster import Cluster
    from shunter.live.past_ends import WantedJob
    from shunter.live.work_left import TrainingWork
    from shunter.slurm.deadlines import Offline

EXAMPLES = """Examples:

shunter deadline 4711 --by "Fri 09:00"

shunter deadline --model resnet50 --iterations 90000 --gpus 4 --by "Fri 09:00"

shunter deadline --offline --history jobs.parquet --user ann --gpus 8 --time 1-0 --by 2026-11-20T09:00 --json
"""


def deadline(  # noqa: PLR0913, PLR0917 one for each option
    job: Annotated[
        str | None, typer.Argument(metavar="[JOB]", help="A job that waits or runs; with --offline one of the history.")
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            "--by", metavar="T",
            help="'Fri 09:00', 'tomorrow 18:00', 2026-11-20T09:00 or +36h; default: the job's own deadline.",
        ),
    ] = "",
    model: Annotated[str, typer.Option("--model", metavar="M", help="What it trains: resnet50, bert and so on.")] = "",
    iterations: Annotated[
        float, typer.Option("--iterations", min=0, metavar="N", help="Iterations in all, on --gpus GPUs.")
    ] = 0,
    iteration_s: Annotated[
        float, typer.Option("--iteration-s", min=0, metavar="S", help="Seconds of one, measured on --gpus GPUs.")
    ] = 0,
    losses: Annotated[
        Path | None,
        typer.Option("--losses", metavar="FILE", help="Its losses so far: a CSV with iteration and loss."),
    ] = None,
    gpus: Annotated[int, typer.Option("--gpus", min=1, max=100_000, metavar="N", help="GPUs in all.")] = 1,
    time: Annotated[
        str, typer.Option("--time", metavar="T", help="Time limit: 4:00:00, 1-0, 90; default: 1.5 times the run.")
    ] = "",
    partition: Annotated[str, typer.Option("--partition", metavar="P", help="Partition.")] = "",
    gpu_type: Annotated[str, typer.Option("--gpu-type", metavar="T", help="Only GPUs of this type.")] = "",
    user: Annotated[str, typer.Option("--user", metavar="U", help="With --offline: whose past jobs count.")] = "",
    offline: Annotated[
        bool, typer.Option("--offline", help="Use --history alone: Slurm is not called, and no queue is known.")
    ] = False,
    snapshot: SnapshotOption = None,
    site: SiteOption = None,
    history: HistoryOption = None,
    samples: SamplesOption = 100,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Estimate whether a job will be done in time, when it ends, and what it would take: GPUs, a start, a partition.

    Without JOB it is one that you would submit now. The run time comes from past jobs, from what the job reports of
    itself, or from --iterations with --model or --iteration-s.
    """
    from shunter.live.deadline_answers import deadline_record, deadline_view
    from shunter.live.past_ends import RUN
    from shunter.slurm import deadlines, questions

    if not by and (job is None or offline):
        raise LiveError("say by when it is wanted: --by 'Fri 09:00'")
    if (model or iteration_s or losses) and not iterations:
        raise LiveError("--model, --iteration-s and --losses need --iterations: how many there are in all")
    if offline:
        if history is None or snapshot is not None:
            raise LiveError("--offline needs --history, and takes no --snapshot: it knows no queue")
        known = _training(model, iterations, iteration_s, gpus, losses, None)
        asked = _offline(history)
        wanted = asked.ends.job(job) if job else _wanted(user, gpus, partition, time)
        found = asked.answer(wanted, by, known)
    else:
        with progress("learning from past waits") as on_progress:
            outlook = questions.AnswerSources(snapshot, site, history).outlook(samples, seed, on_progress)
        known = _training(model, iterations, iteration_s, gpus, losses, outlook.machines.cluster)
        past = _offline(history).ends.ranks(RUN) if history else None
        if job:
            found = deadlines.of_job(outlook, job, by, known, past)
        else:
            runs = known.runs() if known else None
            if runs is None and not time:
                raise LiveError(
                    "how long it runs is not known: set --iterations with --model or --iteration-s, or --time"
                )
            limit = time or deadlines.limit_text(float(runs.max()) if runs is not None else 0.0)
            found = deadlines.of_wish(outlook, questions.Wish(gpus, limit, partition, gpu_type), by, known, past)
    if json:
        print_json(deadline_record(found))
    else:
        show(deadline_view(found))


def _training(
    model: str, iterations: float, iteration_s: float, gpus: int, losses: Path | None, cluster: Cluster | None
) -> TrainingWork | None:
    from shunter.live.work_left import training
    from shunter.scaling.curves import Scaling

    if not iterations:
        return None
    curve = None
    if losses is not None:
        from shunter.traces.measurements import read_loss_curves

        curve = read_loss_curves(losses)[0]
    return training(model, iterations, iteration_s, gpus, Scaling.usual(cluster), curve)


def _offline(history: Path) -> Offline:
    from shunter.live.past_ends import replayed
    from shunter.setup import read_trace
    from shunter.slurm.deadlines import Offline

    past = read_trace(str(history), None, "skip")
    return Offline(replayed(past), round(1000 * clock.time()))


def _wanted(user: str, gpus: int, partition: str, time: str) -> WantedJob:
    from shunter.live.past_ends import WantedJob
    from shunter.slurm.scontrol_output import seconds

    limit = seconds(time) if time else None
    return WantedJob(user, "", gpus, partition, round(1000 * (limit or 0)))
