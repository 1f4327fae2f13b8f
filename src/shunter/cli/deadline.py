"""``shunter deadline``: will a job be done in time, and what would it take?"""

from __future__ import annotations

import time as clock
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from shunter.cli.console import (
    ColumnsOption,
    FormatOption,
    JsonOption,
    OnBadRowOption,
    SeedOption,
    print_json,
    progress,
    read_history,
    show,
)
from shunter.cli.slurm_asking import HistoryOption, SamplesOption, SiteOption, SnapshotOption
from shunter.errors import LiveError
from shunter.live.due_times import due_at

if TYPE_CHECKING:
    from shunter.cluster import Cluster
    from shunter.live.deadline_answers import DeadlineAnswer
    from shunter.live.forecast import Outlook
    from shunter.live.work_left import TrainingWork
    from shunter.model import Trace

REMEDY = "use --offline --history FILE, or --snapshot FILE"  # where Slurm does not answer

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
    model: Annotated[str, typer.Option("--model", metavar="M", help="What it trains, such as resnet50.")] = "",
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
    gpus: Annotated[
        int | None, typer.Option("--gpus", min=1, max=100_000, metavar="N", help="GPUs in all; default: 1.")
    ] = None,
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
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
    samples: SamplesOption = 100,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Estimate whether a job will be done in time, when it ends, and what it would take: GPUs, a start, a partition.

    Without JOB it is one that you would submit now. The run time comes from past jobs, from what the job reports of
    itself, or from --iterations with --model or --iteration-s.
    """
    from shunter.live.deadline_answers import deadline_record, deadline_view
    from shunter.slurm import questions

    asked = _Request(job, by, model, iterations, iteration_s, losses, gpus, time, partition, gpu_type, user)
    asked.check(offline, recorded=snapshot is not None)
    if offline and (history is None or snapshot is not None):
        raise LiveError("--offline needs --history, and takes no --snapshot: it knows no queue")
    past = read_history(history, format, columns, on_bad_row)
    if offline:
        found = asked.from_history(cast("Trace", past))
    else:
        with progress("learning from past waits") as on_progress:
            outlook = questions.AnswerSources(snapshot, site, past, REMEDY).outlook(samples, seed, on_progress)
        found = asked.on_cluster(outlook, past)
    if json:
        print_json(deadline_record(found))
    else:
        show(deadline_view(found))


@dataclass(frozen=True)
class _Request:
    """What the user asked, and how it is answered."""

    job: str | None
    by: str
    model: str
    iterations: float
    iteration_s: float
    losses: Path | None
    gpus: int | None
    time: str
    partition: str
    gpu_type: str
    user: str

    def check(self, offline: bool, recorded: bool) -> None:
        """Refuse mistakes, and options that lack others or would have no effect, before Slurm or a history is read."""
        if not self.by and (self.job is None or offline):
            raise LiveError("--by is missing: the time by which the job should be done, such as --by 'Fri 09:00'")
        if self.by and not recorded:  # a snapshot has a time of its own
            due_at(self.by, round(1000 * clock.time()))
        self._limit_s()
        if (self.model or self.iteration_s or self.losses) and not self.iterations:
            raise LiveError("--model, --iteration-s and --losses need --iterations: how many there are in all")
        request = {
            "--gpus": self.gpus, "--time": self.time, "--partition": self.partition, "--gpu-type": self.gpu_type,
            "--user": self.user,
        }  # fmt: skip
        given = [name for name, value in request.items() if value]
        if self.job is not None and given:
            raise LiveError(f"job {self.job} has its own request; leave out {', '.join(given)}, or the job")
        if self.user and not offline:
            raise LiveError("--user chooses past jobs, with --offline; on Slurm the job would be your own")
        known = self._training(self.gpus or 1, None)
        if self.job is None and not self.time and not offline:
            self._usual_limit(known)

    def _limit_s(self) -> float:
        """The limit that --time sets, 0: none."""
        from shunter.slurm.questions import limit_s

        return limit_s(self.time) or 0.0

    def from_history(self, past: Trace) -> DeadlineAnswer:
        """From past jobs alone."""
        from shunter.live.past_ends import WantedJob, replayed
        from shunter.slurm.deadlines import Offline

        source = Offline(replayed(past), round(1000 * clock.time()))
        wanted = WantedJob(self.user, "", self.gpus or 1, self.partition, round(1000 * self._limit_s()))
        wanted = source.ends.job(self.job) if self.job else wanted
        return source.answer(wanted, self.by, self._training(wanted.gpus, None), self.job or "", self.gpu_type)

    def on_cluster(self, outlook: Outlook, past: Trace | None) -> DeadlineAnswer:
        """From the queue, as it is now."""
        from shunter.live.past_ends import RUN, replayed
        from shunter.slurm import deadlines
        from shunter.slurm.questions import Wish

        ranks = replayed(past).ranks(RUN) if past is not None else None
        if self.job:
            gpus = max(deadlines.job_named(outlook, self.job).gpus, 1)
            known = self._training(gpus, outlook.machines.cluster)
            return deadlines.of_job(outlook, self.job, self.by, known, ranks)
        known = self._training(self.gpus or 1, outlook.machines.cluster)
        wish = Wish(self.gpus or 1, self.time or self._usual_limit(known), self.partition, self.gpu_type)
        return deadlines.of_wish(outlook, wish, self.by, known, ranks)

    @staticmethod
    def _usual_limit(known: TrainingWork | None) -> str:
        from shunter.slurm.deadlines import limit_text

        runs = known.runs() if known else None
        if runs is None:
            raise LiveError("how long it runs is not known: set --iterations with --model or --iteration-s, or --time")
        return limit_text(float(runs.max()))

    def _training(self, gpus: int, cluster: Cluster | None) -> TrainingWork | None:
        from shunter.live.work_left import check_model, training
        from shunter.scaling.curves import Scaling

        if not self.iterations:
            return None
        curve, scaling = None, Scaling.usual(cluster)
        check_model(self.model, scaling)
        if self.losses is not None:
            from shunter.traces.measurements import read_loss_curves

            curve = read_loss_curves(self.losses)[0]
        return training(self.model, self.iterations, self.iteration_s, gpus, scaling, curve)
