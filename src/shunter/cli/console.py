"""What every command shares: output, progress, and completion at the prompt."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer

from shunter.errors import InputError, RunError
from shunter.safe_files import check_output
from shunter.texts import UNIT_S, counted, printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.progress import Progress, TaskID

    from shunter.model import Trace
    from shunter.setup import Setup
    from shunter.simulation import NamedPolicy

T = TypeVar("T")
WIDTH = 100  # columns of what is not written to a terminal
LONGEST_LINE = 4000  # characters of a line of an error
PATIENCE_S = 2  # what takes longer gets a progress bar
LARGER = 0.05  # of the time, with more GPUs in use than the cluster has: more than a few wrong times


def show(what: RenderableType) -> None:
    """Print a table or a text for people on standard output.

    It is as wide as the terminal, or as COLUMNS says, or 100 columns; wider tables are split.
    """
    from shunter.report.terminal.fitting import fitted

    console = _console()
    if not console.is_terminal and not os.environ.get("COLUMNS", "").isdigit():
        console = _console(width=WIDTH)
    console.print(Harmless(fitted(what, console.width)), crop=False)


class Harmless:
    """Something to print whose texts may be from files of others: they can't do anything to the terminal."""

    def __init__(self, what: RenderableType) -> None:
        self.what = what

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The same in pieces, each cleaned; styles are not part of the text."""
        from rich.segment import Segment

        for text, style, control in console.render(self.what, options):
            yield Segment(text if control else printable(text), style, control)


def _console(stderr: bool = False, width: int | None = None) -> Console:
    """A terminal or file; what stands in brackets or between colons in a text is no markup."""
    from rich.console import Console

    return Console(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)


def stderr_console() -> Console:
    """Standard error, for what is shown beside the result."""
    return _console(stderr=True)


def print_json(what: Any) -> None:
    """Print JSON, and nothing else, on standard output."""
    sys.stdout.write(json.dumps(what, indent=2) + "\n")


def answer(found: T, view: Callable[[T], RenderableType], json: bool) -> None:
    """Print a result: as it is, for scripts, or as it is viewed, for people."""
    if json:
        print_json(found)
    else:
        show(view(found))


def check_free(out: Path, force: bool) -> None:
    """Refuse to write over something, or where there is no folder, before any work is done."""
    check_output(out, InputError)
    if not out.parent.is_dir():
        raise InputError(f"{out}: can't be written: there is no folder {out.parent}; make it, or choose another place")
    if out.exists() and not force:
        raise InputError(f"{out}: exists already; choose another name, or replace it with --force")


def check_trace_file(out: Path, force: bool) -> None:
    """Refuse a place where a trace can't be written before anything is read or made."""
    check_free(out, force)

    from shunter.traces.writing import writer_of

    writer_of(out)


def note(text: str, label: str = "note", style: str = "bold") -> None:
    """Say something beside the result, on standard error."""
    from rich.text import Text

    _console(stderr=True).print(Harmless(Text.assemble((f"{label}: ", style), text)), soft_wrap=True)


def shortened(text: str) -> str:
    """Text whose long lines lack their middle: a name from a file of others may have millions of characters."""
    half = LONGEST_LINE // 2
    return "\n".join(
        line if len(line) <= LONGEST_LINE else f"{line[:half]} ... {line[-half:]}" for line in text.split("\n")
    )


def say(text: str) -> None:
    """Print a line on standard output."""
    typer.echo(printable(text))


@contextmanager
def progress(what: str, unit: str = "jobs") -> Iterator[Callable[[int, int], None]]:
    """A function to call with (done, total); it shows a bar after two seconds if standard error is a terminal."""
    bar, begun = Bar(what, unit), time.monotonic()

    def on_progress(done: int, total: int) -> None:
        if time.monotonic() - begun > PATIENCE_S:
            bar.show(done, total)

    try:
        yield on_progress
    finally:
        bar.hide()


class Bar:
    """A bar on standard error, if that is a terminal; several stand below each other."""

    def __init__(self, what: str, unit: str) -> None:
        self.what, self.unit = what, unit
        self._task: TaskID | None = None

    def show(self, done: int, total: int) -> None:
        """Show how far it is."""
        if sys.stderr.isatty():
            bars = _bars()
            if self._task is None:
                self._task = bars.add_task(self.what, unit=self.unit)
            bars.update(self._task, completed=done, total=total)
            bars.start()

    def hide(self) -> None:
        """Remove it; what is written next stands where it was."""
        if self._task is not None:
            _bars().remove_task(self._task)
            self._task = None
            if not _bars().tasks:
                _bars().stop()


@cache
def _bars() -> Progress:
    """One display for all bars of this process: two would write over each other."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    ends = (MofNCompleteColumn(), TextColumn("{task.fields[unit]}"), TimeRemainingColumn())
    start = TextColumn("{task.description}", markup=False)
    return Progress(start, BarColumn(), *ends, console=_console(stderr=True), transient=True)


def end_bars() -> None:
    """Leave the terminal as it was, whatever happened."""
    if _bars.cache_info().currsize:
        for task in _bars().task_ids:
            _bars().remove_task(task)
        _bars().stop()


def policy_names(incomplete: str) -> list[str]:
    """The policies whose names begin so."""
    from shunter import registry

    return [name for name in registry.names() if name.startswith(incomplete)]


def cluster_names(incomplete: str) -> list[str]:
    """The ready-made clusters whose names begin so."""
    from importlib.resources import files

    ready = files("shunter").joinpath("clusters", "ready")  # looked up without importing what reads them: that is slow
    names = sorted(file.name.removesuffix(".toml") for file in ready.iterdir() if file.name.endswith(".toml"))
    return [name for name in ["auto", *names] if name.startswith(incomplete)]


def _network_names(incomplete: str) -> list[str]:
    return [name for name in ("profiled", "paper", "dally", "dally-even") if name.startswith(incomplete)]


_CLUSTER = "64x8, 16x8:v100+16x2:p100, a TOML file, a ready-made name, or auto."
ClusterOption: TypeAlias = Annotated[
    str | None, typer.Option("--cluster", "-c", metavar="C", help=_CLUSTER, autocompletion=cluster_names)
]
DeviceOption: TypeAlias = Annotated[
    str, typer.Option("--device", metavar="D", help="What trains the networks: cpu or cuda; weights differ a little.")
]
SearchedPolicyOption: TypeAlias = Annotated[
    str,
    typer.Option("--policy", "-p", metavar="P", autocompletion=policy_names, help="name or name:key=value,...; any"),
]
FixedOption: TypeAlias = Annotated[
    int, typer.Option("--fixed", min=0, metavar="N", help="Evaluations for fixed settings; 0: as many in total.")
]
EvaluationThreadsOption: TypeAlias = Annotated[
    int, typer.Option("--threads", min=1, max=64, metavar="N", help="Evaluations at the same time.")
]
SearchOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--search", metavar="random|halving|bluefin|...", help="How settings are drawn while the policy runs."
    ),
]
GeneratorOption: TypeAlias = Annotated[
    str, typer.Option("--generator", metavar="G", help="Which past hour AutoSched replays; auto: by a backtest.")
]
SeedOption: TypeAlias = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Random seed.")]
WorkersOption: TypeAlias = Annotated[
    int | None, typer.Option("--workers", min=1, metavar="N", help="Processes; default: one per core.")
]
DaskOption: TypeAlias = Annotated[
    str, typer.Option("--dask", metavar="ADDRESS", help="Run on a Dask cluster: tls://host:8786, or local:N here.")
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
ForceOption: TypeAlias = Annotated[bool, typer.Option("--force", help="Overwrite existing output.")]
ZoneOption: TypeAlias = Annotated[
    str, typer.Option("--timezone", metavar="TZ", help="Time zone of hours and dates: Europe/Berlin, +08:00.")
]
DecisionsOption: TypeAlias = Annotated[
    bool, typer.Option("--decisions", help="Record why jobs waited, for 'shunter explain'.")
]
NetworkOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--network", metavar="NET", autocompletion=_network_names,
        help="Let placements cost time: profiled or paper, on the cluster's tiers; dally, on those of Dally's paper.",
    ),
]  # fmt: skip
ModelsOption: TypeAlias = Annotated[
    Path | None, typer.Option("--models", metavar="FILE", help="A TOML file with your own models, for the network.")
]
ScalingOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--scaling", metavar="FILE",
        help="A TOML file with your measured speeds by number of GPUs, for jobs that give a range.",
    ),
]  # fmt: skip
LossesOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--losses", metavar="FILE",
        help="A table of loss curves (curve, iteration, loss), for jobs whose loss_curve names one.",
    ),
]  # fmt: skip
ContentionOption: TypeAlias = Annotated[
    bool, typer.Option("--contention", help="With --network: jobs share the links that lead out of machines and racks.")
]
SharingOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--sharing", metavar="WAY",
        help="How jobs share a GPU: time-slice or mps. Default: as in the cluster file, else time-slice.",
    ),
]  # fmt: skip
OverheadOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--overhead", metavar="C,R",
        help="Seconds to checkpoint and to restart a stopped job: 60,120; 0: free. Default: as in the cluster file, "
        "else 0,62.",
    ),
]  # fmt: skip
LoadOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--load", metavar="X", help="Stretch or compress arrivals until the cluster has this load: 0.9."),
]
CheckpointableOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--checkpointable", metavar="WHICH",
        help="Jobs that policies may stop: all, none, 25% (drawn by user where there are users; 25%,seed=3 draws "
        "others), or user:ann,bob. Default: as in the trace, else all.",
    ),
]  # fmt: skip
SinceOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="T",
        help="Start of the evaluation (date, seconds or +days); policies learn from earlier jobs.",
    ),
]  # fmt: skip
UntilOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--until", metavar="T", help="End of the evaluation: simulate jobs submitted before this time."),
]
DropOption: TypeAlias = Annotated[bool, typer.Option("--drop-unfit", help="Skip jobs that can never fit.")]


def named_cluster(cluster: str | None) -> str:
    """The cluster that the user named."""
    if cluster is None:
        raise RunError("there is no cluster; give one, such as --cluster 64x8, or --cluster auto")
    return cluster


def format_names(incomplete: str) -> list[str]:
    """The trace formats whose names begin so."""
    from importlib.resources import files

    readers = files("shunter").joinpath("traces", "readers")  # looked up without importing any: that is slow
    names = sorted(file.name.removesuffix(".py") for file in readers.iterdir() if file.name.endswith(".py"))
    return [name for name in names if not name.startswith("_") and name.startswith(incomplete)]


FormatOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="F",
        help="Format of TRACE; default: detected from its content.",
        autocompletion=format_names,
    ),
]
ColumnsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--columns", metavar="OURS=THEIRS,...",
        help="What a table's columns mean: submit=created, duration=took:min, gpus=n; a unit, dmy or mdy after a "
        "colon. Quote it if it has spaces.",
    ),
]  # fmt: skip
OnBadRowOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--on-bad-row", metavar="fail|skip", help="What to do with rows that can't be parsed; default: fail.",
        autocompletion=lambda incomplete: [word for word in ("fail", "skip") if word.startswith(incomplete)],
    ),
]  # fmt: skip


TraceArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="TRACE", help="A trace file, - (standard input), or synthetic[:jobs=N,...].")
]
OutArgument: TypeAlias = Annotated[
    Path, typer.Argument(metavar="OUT", help="The file to write: .parquet, .csv, .csv.gz, .swf, .swf.gz.")
]


def with_columns(format: str | None, columns: str | None) -> str | None:  # noqa: A002
    """The format that the user named, with what its columns mean."""
    if not columns:
        return format

    from shunter import traces

    return traces.with_columns(format, columns)


def read(trace: str, format: str | None, on_bad_row: str | None) -> Trace:  # noqa: A002
    """The trace that the user named."""
    from shunter.setup import read_trace

    return read_trace(trace, format, on_bad_row or "fail")


def read_history(
    history: Path | None,
    format: str | None,  # noqa: A002
    columns: str | None,
    on_bad_row: str | None,
) -> Trace | None:
    """The past jobs that the user named with --history; None: no file. What was left out of them is reported."""
    if history is None:
        if format or columns or on_bad_row:
            raise RunError("--format, --columns and --on-bad-row are about the file of --history; name one")
        return None
    found = read(str(history), with_columns(format, columns), on_bad_row)
    for remark in found.remarks:
        note(remark)
    return found


def say_whether_larger(setup: Setup) -> None:
    """Warn that the cluster of a recorded history was larger than the one that was made to its load."""
    from shunter.report.demand import recorded_use

    _, over = recorded_use(setup.trace, setup.trace.recorded_wait >= 0, setup.cluster.gpus)
    if over > LARGER:
        used = f"more GPUs were in use for {100 * over:.0f} % of the time"
        note(f"as recorded, {used}: name the real cluster to compare waits")


def say_about(setup: Setup, cluster: str, policies: Sequence[str | NamedPolicy]) -> None:
    """Report what was chosen or left out for the user, and which settings have no effect."""
    from shunter.capabilities import Describes, capability
    from shunter.simulation import resolve, training_remarks
    from shunter.traces.checkpointable import remark_on

    for each in policies:
        for remark in training_remarks(resolve(each).policy, setup):
            note(f"{resolve(each).text}: {remark}", "warning", "bold yellow")
    if cluster.startswith("auto"):
        made = setup.cluster
        note(f"cluster auto: {made.name}, {counted(made.nodes, 'node')}, {counted(made.gpus, 'GPU')}")
        say_whether_larger(setup)
    for remark in setup.trace.remarks:
        note(remark)
    if setup.dropped:
        note(f"{setup.remarks[0]}; {len(setup.trace):,} are left")
    for remark in (
        setup.since_remark,
        remark_on(setup.trace, setup.checkpointable),
        *setup.network_remarks,
        *setup.file_remarks,
    ):
        if remark:
            note(remark)
    for each in policies:
        describing = capability(Describes, resolve(each).policy)
        for remark in describing.remarks(setup.trace) if describing else ():
            note(remark, "warning", "bold yellow")


def say_stoppable(trace: Trace, checkpointable: str, stops: int) -> None:
    """Report after a run with stops that every job could be stopped, unless the user chose that: few clusters can."""
    if stops and not checkpointable and (trace.checkpointable > 0).all():
        note("policies could stop every job, as the trace doesn't say which can be stopped; --checkpointable sets it")


def say_searchable(policy: str) -> None:
    """Report that there is nothing to search."""
    from shunter.tuning.spaces import ANY, space_of

    if policy != ANY and not space_of(policy).varies:
        note(f"'{policy}' has no settings left to search; 'shunter policies' shows what policies have")


def learn(setup: Setup, policies: Sequence[str | NamedPolicy]) -> list[NamedPolicy]:
    """Fit the models of policies that learn before any of them is run; returns the policies with what they learned."""
    from shunter.simulation import resolve

    return [_learned(setup, resolve(policy)) for policy in policies]


def _learned(setup: Setup, chosen: NamedPolicy) -> NamedPolicy:
    from shunter.capabilities import Learns, capability
    from shunter.simulation import learned_before

    learner, text = capability(Learns, chosen.policy), chosen.text
    if learner is None or not learner.predictor:
        return chosen
    if setup.history is None:
        note(f"{text}: it has no earlier jobs to learn from, so it learns during the run; see --since")
        return chosen
    earlier = counted(len(setup.history), "earlier job")
    bar = Bar(f"{text}: fitting model '{learner.predictor}' to {earlier}", "models")
    bar.show(0, 1)
    try:
        past = learned_before(chosen.policy, setup)
    finally:
        bar.hide()
    if past is not None and past.fitted is None:
        note(
            f"{text}: too few jobs ended before the window to fit model '{learner.predictor}'; it learns during the run"
        )
    return chosen.with_past(past)


def milliseconds(option: str, text: str, least: int = 60, such_as: str = "5m or 1h") -> int:
    """A time such as 5m or 1h, of at least so many seconds."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNIT_S else (text, "s")
    try:
        seconds = float(number) * UNIT_S[unit]
    except ValueError:
        seconds = -1.0
    if not least <= seconds <= 30 * 86400:
        raise RunError(f"{option} must be a time from {least} seconds to 30 days, such as {such_as}, got '{text}'")
    return round(seconds * 1000)
