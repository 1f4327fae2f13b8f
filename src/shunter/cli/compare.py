"""``shunter compare``: several policies on the same jobs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shunter.cli.console import (
    CheckpointableOption,
    ClusterOption,
    ColumnsOption,
    ContentionOption,
    DecisionsOption,
    DropOption,
    ForceOption,
    FormatOption,
    JsonOption,
    LoadOption,
    LossesOption,
    ModelsOption,
    NetworkOption,
    OnBadRowOption,
    ScalingOption,
    SeedOption,
    SharingOption,
    SinceOption,
    TraceArgument,
    UntilOption,
    WorkersOption,
    answer,
    learn,
    named_cluster,
    note,
    policy_names,
    progress,
    say_about,
    say_stoppable,
    with_columns,
)
from shunter.cli.reports import FiguresOption, ReportOption, check_places, say_figures, write_report
from shunter.errors import RunError
from shunter.texts import agreeing

if TYPE_CHECKING:
    from shunter.comparison import CompareOptions, Comparison
    from shunter.setup import Setup
    from shunter.simulation import NamedPolicy

EXAMPLES = """Examples:

shunter compare jobs.csv --cluster 64x8 -p fifo -p sjf -p saf:backfill=easy

shunter compare jobs.csv -c auto -p fifo -p las --repeat 5 --out runs/las

shunter compare jobs.csv -c 16x8 -p fifo -p las --report policies.html   # charts, for a browser

shunter compare jobs.csv -c 16x8 -p fifo -p saf --grid backfill=none,easy   # four policies

shunter compare synthetic -c 16x8 -p fifo -p srtf --json
"""


PoliciesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        "-p",
        metavar="P",
        autocompletion=policy_names,
        help="name or name:key=value,...; once per policy. The first is the baseline.",
    ),
]
GridOption = Annotated[
    list[str] | None,
    typer.Option(
        "--grid",
        metavar="KEY=V,V",
        help="Run each policy that has this parameter with each value; once per parameter.",
    ),
]
RepeatOption = Annotated[
    int, typer.Option("--repeat", min=1, metavar="N", help="Runs per policy, with other seeds and arrivals.")
]
OutOption = Annotated[Path | None, typer.Option("--out", "-o", metavar="DIR", help="Write the runs here.")]
OverheadsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--overhead",
        metavar="[P=]C,R",
        help="Seconds to checkpoint and to restart a stopped job: 60,120; 0: free; las=60,120 for one policy. "
        "Default: as in the cluster file, else 0,62.",
    ),
]
MeasuresOption = Annotated[
    list[str] | None,
    typer.Option("--measure", metavar="M", help="A measure of your own, by its dotted path: mylab.measures.name."),
]
SectionsOption = Annotated[
    list[str] | None,
    typer.Option("--section", metavar="S", help="A section of your own for the report, by its dotted path."),
]


def compare(  # noqa: PLR0913, PLR0917  one argument per option
    trace: TraceArgument,
    cluster: ClusterOption = None,
    policy: PoliciesOption = None,
    grid: GridOption = None,
    repeat: RepeatOption = 1,
    seed: SeedOption = 0,
    out: OutOption = None,
    report: ReportOption = None,
    figures: FiguresOption = None,
    force: ForceOption = False,
    decisions: DecisionsOption = False,
    json: JsonOption = False,
    drop_unfit: DropOption = False,
    network: NetworkOption = None,
    contention: ContentionOption = False,
    models: ModelsOption = None,
    scaling: ScalingOption = None,
    losses: LossesOption = None,
    sharing: SharingOption = None,
    overhead: OverheadsOption = None,
    load: LoadOption = None,
    checkpointable: CheckpointableOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
    workers: WorkersOption = None,
    measure: MeasuresOption = None,
    section: SectionsOption = None,
) -> None:
    """Run several policies on the same jobs and show them side by side.

    Each policy is compared with the first one by mean JCT, job by job, with a 95 % interval. An interrupted comparison
    continues when the same command is run again.
    """
    if not policy:
        raise RunError("there are no policies; give some, such as --policy fifo --policy sjf")
    cluster = named_cluster(cluster)
    check_places(force, decisions, out, report, figures=figures)
    outputs = _ComparisonOutputs(report, figures, force, tuple(section or ()), tuple(measure or ()), json)
    outputs.check()

    from shunter.comparison import CompareOptions
    from shunter.setup import set_up
    from shunter.simulation import resolve

    general, overheads = _overheads(overhead or [])
    policies = [resolve(text) for text in _with_grid(policy, grid or [])]
    must_fit = [chosen.policy for chosen in policies] if drop_unfit else ()
    texts = (
        since or "", until or "", str(models or ""), sharing or "", general, load or "", checkpointable or "",
        str(scaling or ""), str(losses or ""),
    )  # fmt: skip
    reading = (with_columns(format, columns), on_bad_row or "fail")
    setup = set_up(trace, cluster, must_fit, *reading, network or "", contention, *texts)
    say_about(setup, cluster, policies)
    paged = report is not None
    options = CompareOptions(
        seed, repeat, out, force, workers, decisions or paged, paged, overheads,
        try_costs=True, measures=outputs.measures,
    )  # fmt: skip
    found = _compared(setup, policies, options)
    outputs.write(found)
    say_stoppable(setup.trace, setup.checkpointable, sum(row["preemptions"] for row in found.policies))


@dataclass(frozen=True)
class _ComparisonOutputs:
    """What is shown and written of a comparison."""

    report: Path | None
    figures: Path | None
    force: bool
    sections: tuple[str, ...]
    measures: tuple[str, ...]
    json: bool

    def check(self) -> None:
        """Refuse sections without a page, or that can't be found, before any work is done."""
        from shunter.report import additions

        if self.sections and self.report is None:
            raise RunError("--section adds to the page of --report; give that too")
        additions.sections(self.sections)

    def write(self, found: Comparison) -> None:
        """The files that were asked for, and the table or JSON."""
        from shunter.report.terminal.tables import comparison_view

        if self.report is not None:
            write_report(self.report, found.runs, found.policies, found.about_intervals, self.sections, self.measures)
        if self.figures is not None:
            say_figures(self.figures, found.figures(self.figures, self.force))
        shown = (found.policies, found.verdict, found.about_intervals)
        answer(found.as_dict(), lambda _: comparison_view(*shown), self.json)


def _compared(setup: Setup, policies: list[NamedPolicy], options: CompareOptions) -> Comparison:
    """Fit what policies learn, and run all of them."""
    from shunter.comparison import compare_setup

    policies = learn(setup, policies)
    with progress("comparing") as on_progress:
        found = compare_setup(setup, policies, options, on_progress)
    if found.resumed:
        again = f"runs {agreeing('were', found.resumed)} reused from an interrupted comparison"
        note(f"{found.resumed} of {len(policies) * options.repeat} {again}")
    return found


def _with_grid(policies: list[str], grid: list[str]) -> list[str]:
    """The policies, those with a parameter of the grid once per combination of its values."""
    if not grid:
        return policies

    from shunter.variants import with_grid

    parts = {key: values.split(",") for key, _, values in (text.partition("=") for text in grid)}
    for text in grid:
        if not all(parts[text.partition("=")[0]]):
            raise RunError(f"--grid {text}: must be KEY=VALUE,VALUE, such as backfill=none,easy")
    return with_grid(policies, parts)


def _overheads(given: list[str]) -> tuple[str, dict[str, str]]:
    """What stops cost under all policies, and under single ones."""
    from shunter.clusters.stop_costs import USUAL

    parts = [text.rpartition("=") for text in given]
    general = [costs for policy, _, costs in parts if not policy]
    if len(general) > 1:
        raise RunError(
            f"--overhead is given {len(general)} times for all policies; leave one, or name policies: las=60,120"
        )
    return (general or [USUAL])[0], {policy: costs for policy, _, costs in parts if policy}
