"""``shunter learn``: an order learned from a trace, and judged on windows that it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from typer.core import TyperGroup

from shunter.cli.console import (
    ClusterOption,
    ColumnsOption,
    DeviceOption,
    DropOption,
    ForceOption,
    FormatOption,
    JsonOption,
    OnBadRowOption,
    SeedOption,
    TraceArgument,
    answer,
    check_free,
    named_cluster,
    note,
    progress,
    with_columns,
)
from shunter.cli.reports import check_page, write_page
from shunter.errors import RunError

if TYPE_CHECKING:
    from shunter.learning.engine import LearningGround
    from shunter.learning.training import Trainer

EXAMPLES = """Examples:

shunter learn jobs.csv -c 16x8 --agent search --out order.json   # needs no torch

shunter learn jobs.csv -c 16x8 --agent rltune --objective bsld --estimate history --out order.json

shunter learn eval order.json jobs.csv -c 16x8   # on windows that it has not seen

shunter compare jobs.csv -c 16x8 -p saf:backfill=easy -p scored:model=order.json
"""


class DefaultTrain(TyperGroup):
    """The commands of learning; a trace in place of a command trains on it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments; ``learn TRACE`` is ``learn train TRACE``."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["train", *args]
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The commands, and after them the options of training: ``learn TRACE`` takes these."""
        super().format_help(ctx, formatter)
        train = self.commands["train"]
        train.format_help(type(ctx)(train, info_name="train", parent=ctx), formatter)


app = typer.Typer(
    cls=DefaultTrain,
    no_args_is_help=True,
    help="Learn an order from a trace. 'shunter learn TRACE' is short for 'shunter learn train TRACE'.",
)

JobsOption: TypeAlias = Annotated[int, typer.Option("--jobs", min=8, metavar="N", help="Jobs of a window.")]
EstimateOption: TypeAlias = Annotated[
    str, typer.Option("--estimate", metavar="E", help="Where run-time estimates come from; the same for all policies.")
]
ThreadsOption: TypeAlias = Annotated[
    int, typer.Option("--threads", min=1, max=64, metavar="N", help="Threads; the result does not depend on it.")
]
FromOption: TypeAlias = Annotated[
    str | None, typer.Option("--since", metavar="T", help="Use jobs submitted from T on: date, seconds or +days.")
]
BeforeOption: TypeAlias = Annotated[
    str | None, typer.Option("--until", metavar="T", help="Use jobs submitted before T.")
]
AgentOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--agent", metavar="A", help="rltune, rltune-artifact, rltune-naive, rlscheduler, inspector or search."
    ),
]
ObjectiveOption: TypeAlias = Annotated[str, typer.Option("--objective", metavar="O", help="wait, bsld, jct or p99.")]
BaseOption: TypeAlias = Annotated[
    str, typer.Option("--base", metavar="P", help="The policy to improve on, or to inspect.")
]
RoundsOption: TypeAlias = Annotated[
    int, typer.Option("--rounds", min=1, metavar="N", help="Epochs or generations at most.")
]
EpisodesOption: TypeAlias = Annotated[int, typer.Option("--episodes", min=4, metavar="N", help="Windows per epoch.")]
PatienceOption: TypeAlias = Annotated[
    int, typer.Option("--patience", min=1, metavar="N", help="Stop after this many rounds without a better model.")
]
VisibleOption: TypeAlias = Annotated[
    int, typer.Option("--visible", min=0, metavar="N", help="Jobs in view, the first submitted; 0: all.")
]
FilterOption: TypeAlias = Annotated[
    str,
    typer.Option("--filter", metavar="LOW..HIGH", help="Begin with windows whose slowdown under sjf is in this range."),
]
CurvesOption: TypeAlias = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="Write the learning curves as a page.")
]
ModelOutOption: TypeAlias = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE", help="Where the model goes.")
]
ResumeOption: TypeAlias = Annotated[bool, typer.Option("--resume", help="Go on from FILE.checkpoint.")]


@app.command("train", epilog=EXAMPLES)
def train(  # noqa: PLR0913, PLR0917  one argument per option
    trace: TraceArgument,
    cluster: ClusterOption = None,
    agent: AgentOption = "search",
    objective: ObjectiveOption = "wait",
    base: BaseOption = "saf:backfill=easy",
    estimate: EstimateOption = "auto",
    rounds: RoundsOption = 100,
    episodes: EpisodesOption = 100,
    jobs: JobsOption = 256,
    patience: PatienceOption = 25,
    visible: VisibleOption = 0,
    filter: FilterOption = "",  # noqa: A002
    report: CurvesOption = None,
    out: ModelOutOption = None,
    resume: ResumeOption = False,
    threads: ThreadsOption = 1,
    device: DeviceOption = "cpu",
    seed: SeedOption = 0,
    since: FromOption = None,
    until: BeforeOption = None,
    drop_unfit: DropOption = False,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Learn an order for a queue from windows of a trace, and write it as a model for the policy 'scored'.

    The first 70 % of the jobs are learned from, the next 10 % decide which model is kept, and the last 20 % are left
    for 'shunter learn eval'. A training that was stopped goes on with --resume.
    """
    if out is None:
        raise RunError("there is no place for the model; give one, such as --out order.json")
    check_free(out, force or resume)
    check_page(report, force)
    checkpoint = out.with_name(f"{out.name}.checkpoint")

    from shunter.learning.training import Task, Trainer
    from shunter.policies.scored.models import save
    from shunter.report.terminal.learning import learning_view

    ground = _ground(
        trace, cluster, estimate, jobs, (since, until), drop_unfit, with_columns(format, columns), on_bad_row
    )
    task = Task(
        ground, agent, objective, base, seed, rounds, episodes, patience=patience, threads=threads, visible=visible,
        device=device, filter=filter,
    )  # fmt: skip
    trainer = Trainer(task)
    if resume:
        trainer.restore(checkpoint)
        note(f"going on after round {len(trainer.curve)}")
    with progress(f"learning ({agent})", "rounds") as on_progress:
        while not trainer.over:
            on_progress(len(trainer.curve), rounds)
            trainer.round()
            trainer.save(checkpoint)
    save(trainer.model(), out)
    checkpoint.unlink(missing_ok=True)
    note(f"model: {out}")
    found = _told(trainer, out)
    if report is not None:
        from shunter.report.html.learning_page import learning_page

        write_page(report, learning_page(found))
    answer(found, learning_view, json)


def _told(trainer: Trainer, out: Path) -> dict[str, Any]:
    """What a training says of itself."""
    from shunter.learning.training import REFERENCE

    return {
        "agent": trainer.task.agent,
        "objective": trainer.task.objective,
        "out": str(out),
        "reference": REFERENCE,
        "stopped_early": len(trainer.curve) < trainer.task.rounds,
        "curve": trainer.curve,
        "model": trainer.model().model_dump(mode="json", include={"name", "training", "scores", "asks"}),
    }


@app.command("eval", epilog=EXAMPLES)
def evaluate(  # noqa: PLR0913, PLR0917  one argument per option
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A file that 'shunter learn' wrote.")],
    trace: TraceArgument,
    cluster: ClusterOption = None,
    policy: Annotated[
        list[str] | None, typer.Option("--policy", "-p", metavar="P", help="Another policy to compare; repeatable.")
    ] = None,
    estimate: Annotated[
        str, typer.Option("--estimate", metavar="E", help="Where estimates come from; default: as in training.")
    ] = "",
    windows: Annotated[int, typer.Option("--windows", metavar="N", help="Windows to judge on, at most.")] = 24,
    jobs: Annotated[int, typer.Option("--jobs", min=0, metavar="N", help="Jobs of a window; 0: as in training.")] = 0,
    threads: ThreadsOption = 1,
    seed: SeedOption = 0,
    since: FromOption = None,
    until: BeforeOption = None,
    drop_unfit: DropOption = False,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
    json: JsonOption = False,
) -> None:
    """Judge a model on the last 20 % of a trace, beside policies with the same estimates and the same jobs in view."""
    from shunter.learning.judging import judged
    from shunter.policies.scored.models import load
    from shunter.report.terminal.learning import judging_view

    made = load(model, "MODEL comes first, a file that 'shunter learn' wrote, and then TRACE")
    length, source = jobs or made.training.window or 256, estimate or made.training.estimate or "auto"
    form = with_columns(format, columns)
    ground = _ground(trace, cluster, source, length, (since, until), drop_unfit, form, on_bad_row)
    answer(judged(made, ground, windows, policy or (), seed, threads), judging_view, json)


def _ground(
    trace: str,
    cluster: str | None,
    estimate: str,
    jobs: int,
    between: tuple[str | None, str | None],
    drop_unfit: bool,
    format: str | None,  # noqa: A002
    on_bad_row: str | None,
) -> LearningGround:
    """The jobs with their estimates, and the cluster."""
    cluster = named_cluster(cluster)

    from shunter.learning.engine import ground_for
    from shunter.learning.training import REFERENCE
    from shunter.setup import check, set_up
    from shunter.simulation import resolve

    fits = [REFERENCE] if drop_unfit else ()
    setup = set_up(trace, cluster, fits, format, on_bad_row or "fail", since=between[0] or "", until=between[1] or "")
    if setup.since_remark:
        note(setup.since_remark)
    check(setup, resolve(REFERENCE).policy)
    return ground_for(setup, estimate, jobs)
