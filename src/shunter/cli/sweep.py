"""``shunter sweep``: many runs from one file, kept, resumed, ranked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from typer.core import TyperGroup

from shunter.cli.console import (
    DaskOption,
    ForceOption,
    JsonOption,
    SeedOption,
    WorkersOption,
    answer,
    check_free,
    note,
    print_json,
    progress,
    stderr_console,
)
from shunter.cli.reports import FiguresOption, ReportOption, check_figures, check_page, say_figures, write_page
from shunter.errors import InputError, RunError
from shunter.texts import agreeing, counted

if TYPE_CHECKING:
    from shunter.sweeps.places import Ground
    from shunter.sweeps.plan import SweepPlan
    from shunter.sweeps.running import OnProgress
    from shunter.sweeps.store import Store

MOST_NAMED = 8  # values of an axis in a message
EXAMPLES = """Examples:

shunter sweep plan sweep.toml   # how many runs, how long, how much disk

shunter sweep sweep.toml --out runs   # again: only what is not there yet

shunter sweep sweep.toml --out runs --dask tls://scheduler:8786

shunter sweep show runs --measure wait_s.p99 --report runs.html   # charts, for a browser

shunter sweep export runs runs.csv
"""


class DefaultRun(TyperGroup):
    """The commands of sweeps; a file in place of a command runs it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments; ``sweep FILE`` is ``sweep run FILE``."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=DefaultRun, no_args_is_help=True, epilog=EXAMPLES, help="Many runs from one file.")

FileArgument: TypeAlias = Annotated[Path, typer.Argument(metavar="FILE", help="A sweep file (TOML).")]
StoreArgument: TypeAlias = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a sweep's runs.")]
OutOption: TypeAlias = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="DIR", help="The folder of the runs. Default: FILE without .toml.")
]
MeasureOption: TypeAlias = Annotated[
    str, typer.Option("--measure", "-m", metavar="M", help="What to rank by: jct_s.mean, wait_s.p99, utilization, ...")
]
CodeOption: TypeAlias = Annotated[
    bool, typer.Option("--allow-code", help="Import the modules that FILE names. They can do anything: trust FILE.")
]


@app.command("run", epilog=EXAMPLES)
def run(  # noqa: PLR0913, PLR0917  one argument per option
    file: FileArgument,
    out: OutOption = None,
    workers: WorkersOption = None,
    dask: DaskOption = "",
    seed: SeedOption = 0,
    measure: MeasureOption = "jct_s.mean",
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Repeat runs that failed before.")] = False,
    any_version: Annotated[
        bool, typer.Option("--any-version", help="Count runs by another version of shunter as done.")
    ] = False,
    allow_code: CodeOption = False,
    report: ReportOption = None,
    figures: FiguresOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Run what a sweep file asks for, but for what is there already, and rank the policies.

    Each batch of runs is on disk before the next one. A sweep that was stopped, however it was, goes on with the same
    command.
    """
    check_page(report, force)
    check_figures(figures, force)
    _check_measure(measure)
    made, ground, store = _prepared(file, out, seed, allow_code, any_version, make=True)

    from shunter.sweeps.sweep import finished

    if why := store.written_by_others:
        note(f"{why.partition(',')[0]}; runs that they put there count as done", "warning", "bold yellow")
    with _watching() as on_progress:
        found = finished(made, ground, store, workers, dask, retry_failed, on_progress)
    done = found.progress
    if done.found:
        note(f"{done.found:,} of {done.total:,} runs {agreeing('were', done.found)} in {store.folder} already")
    if not retry_failed and done.found and found.failed.height > done.failed:
        note("some of them failed; --retry-failed repeats these")
    note(f"runs: {store.folder}")
    _answer(found.runs, measure, json)
    _draw(found.runs, measure, store.folder, report, figures, force, made.name)


@app.command("plan", epilog=EXAMPLES)
def plan(
    file: FileArgument,
    out: OutOption = None,
    workers: WorkersOption = None,
    seed: SeedOption = 0,
    allow_code: CodeOption = False,
    json: JsonOption = False,
) -> None:
    """Say how many runs a sweep has, what they cost, and how many are there, without running them."""
    made, ground, store = _prepared(file, out, seed, allow_code, False, make=False)

    from shunter.processes import usable_cores
    from shunter.report.terminal.sweep import plan_view
    from shunter.sweeps.analysis import seeds_needed
    from shunter.sweeps.estimating import estimate
    from shunter.sweeps.running import keys_of
    from shunter.sweeps.store import MARK

    with progress("finding what is there", "runs") as on_progress:
        keys = keys_of(made, ground, on_progress)
    there = set(store.read(["key"])["key"].to_list()) if (store.folder / MARK).exists() else set()
    count = workers or usable_cores()
    with progress("estimating", "short runs") as on_progress:
        cost = estimate(made, keys, there, ground, count, on_progress)
    if (needed := seeds_needed(len(made.policies))) > len({run.seed for run in made.runs}):
        note(f"to show a difference between {len(made.policies)} policies, a sweep needs {needed} seeds")
    found = {
        "runs": len(made.runs), "there": len(made.runs) - cost.runs, "todo": cost.runs, "axes": _axes(made),
        "cpu_s": cost.cpu_s, "simulating_s": cost.simulating_s, "drawing_s": cost.drawing_s,
        "starting_s": cost.starting_s, "wall_s": cost.cpu_s / count, "workers": count,
        "disk_bytes": cost.disk_bytes, "tried": cost.tried, "kinds": cost.kinds,
    }  # fmt: skip
    answer(found, plan_view, json)


@app.command("show", epilog=EXAMPLES)
def show_store(  # noqa: PLR0913, PLR0917  one argument per option
    folder: StoreArgument,
    measure: MeasureOption = "jct_s.mean",
    policy: Annotated[
        list[str] | None, typer.Option("--policy", "-p", metavar="P", help="Only these policies; may have *.")
    ] = None,
    trace: Annotated[
        list[str] | None, typer.Option("--trace", metavar="T", help="Only these traces, by their names; may have *.")
    ] = None,
    cluster: Annotated[
        list[str] | None, typer.Option("--cluster", "-c", metavar="C", help="Only these clusters; may have *.")
    ] = None,
    load: Annotated[list[float] | None, typer.Option("--load", metavar="X", help="Only these loads.")] = None,
    window: Annotated[
        list[str] | None, typer.Option("--window", metavar="W", help="Only these windows; may have *.")
    ] = None,
    network: Annotated[
        list[str] | None, typer.Option("--network", metavar="NET", help="Only these networks; may have *.")
    ] = None,
    overhead: Annotated[
        list[str] | None, typer.Option("--overhead", metavar="C,R", help="Only these costs of stops; may have *.")
    ] = None,
    checkpointable: Annotated[
        list[str] | None,
        typer.Option("--checkpointable", metavar="WHICH", help="Only these choices of jobs to stop; may have *."),
    ] = None,
    report: ReportOption = None,
    figures: FiguresOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Rank the policies of a sweep, and list what failed."""
    from shunter.sweeps.analysis import sound
    from shunter.sweeps.store import Store

    check_page(report, force)
    check_figures(figures, force)
    runs = sound(Store.existing(folder).read())
    if runs.is_empty():
        raise RunError(f"{folder}: has no runs; 'shunter sweep FILE --out {folder}' adds some")
    texts = {"policy": policy, "trace": trace, "cluster": cluster, "window": window, "network": network}
    for axis, wanted in {**texts, "overhead": overhead, "checkpointable": checkpointable}.items():
        if wanted:
            runs = _only(runs, axis, wanted, _any_of(wanted, runs[axis].to_list()), folder)
    if load:
        runs = _only(runs, "load", load, runs["load"].is_in(load), folder)
    _answer(runs, measure, json)
    _draw(runs, measure, folder, report, figures, force)


@app.command("export", epilog=EXAMPLES)
def export(
    folder: StoreArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write: .csv, .parquet or .jsonl.")],
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Write all runs of a sweep as one table."""
    from shunter.safe_files import whole, write_parquet
    from shunter.sweeps.store import Store

    check_free(out, force)
    writers: dict[str, Callable[[Any, Path], Any]] = {
        ".csv": lambda runs, path: _no_formulas(runs).write_csv(path),
        ".parquet": write_parquet,
        ".jsonl": lambda runs, path: runs.write_ndjson(path),
    }
    if out.suffix not in writers:
        raise RunError(f"{out}: must end in {', '.join(writers)}; choose another name")
    runs = Store.existing(folder).read()
    with whole(out, RunError) as path:
        writers[out.suffix](runs, path)
    if json:
        print_json({"file": str(out), "runs": runs.height})
    else:
        note(f"{counted(runs.height, 'run')} written to {out}")


def _no_formulas(runs: Any) -> Any:
    """The same table with an apostrophe before texts that a spreadsheet would compute."""
    import polars as pl

    text = pl.col(pl.String)
    return runs.with_columns(pl.when(text.str.contains(r"^[=+\-@]")).then("'" + text).otherwise(text).name.keep())


def _check_measure(measure: str) -> None:
    """Refuse a measure that no run has, before any is run; those of third parties are known afterwards."""
    from shunter.errors import did_you_mean
    from shunter.sweeps.store import MEASURED
    from shunter.sweeps.work import METRICS

    if measure not in METRICS and not measure.startswith(MEASURED):
        raise RunError(f"there is no measure '{measure}'; {did_you_mean(measure, METRICS)}")


def _prepared(
    file: Path, out: Path | None, seed: int, allow_code: bool, any_version: bool, make: bool
) -> tuple[SweepPlan, Ground, Store]:
    """The plan of a file, what its runs share, and the store."""
    from shunter.sweeps import form as forms
    from shunter.sweeps.places import checked, ground_of
    from shunter.sweeps.plan import plan as plan_of
    from shunter.sweeps.running import check_version
    from shunter.sweeps.store import MARK, Store

    form = forms.read(file)
    if not allow_code:
        forms.check_code(form, f"{file}: ", "--allow-code")
    folder = out or file.with_suffix("")
    if folder == file:
        raise RunError(f"{file}: name a folder for the runs with --out")
    try:
        made = plan_of(form)
        ground = ground_of(made, seed)
        checked(made, ground)
    except InputError as error:
        raise type(error)(f"{file}: {error}") from None
    if not make and not (folder / MARK).exists():
        return made, ground, Store(folder)
    store = Store.open(folder, ground.version)
    try:
        check_version(store, ground.version, any_version)
    except RunError as error:
        if make:
            raise
        note(str(error), "warning", "bold yellow")
    return made, ground, store


def _axes(made: SweepPlan) -> dict[str, list[str]]:
    """The values of each axis that has some."""
    places = made.places
    found = {
        "trace": [place.jobs.name for place in places], "window": [place.jobs.window for place in places],
        "cluster": [place.cluster for place in places], "load": [place.load for place in places],
        "network": [place.network for place in places], "overhead": [place.overhead for place in places],
        "checkpointable": [place.checkpointable for place in places],
        "policy": made.policies, "seed": [str(run.seed) for run in made.runs],
    }  # fmt: skip
    unique = {axis: list(dict.fromkeys(values)) for axis, values in found.items()}
    return {axis: values for axis, values in unique.items() if values not in ([""], ["usual"])}


def _only(runs: Any, axis: str, wanted: Sequence[Any], agrees: Any, folder: Path) -> Any:
    """The runs that agree; there must be some."""
    found = runs.filter(agrees)
    if found.is_empty():
        there = [str(value) for value in runs[axis].unique().sort().to_list()]
        more = f" and {len(there) - MOST_NAMED} more" if len(there) > MOST_NAMED else ""
        some = ", ".join(there[:MOST_NAMED]) + more
        raise RunError(f"{folder}: has no run with {axis} {', '.join(map(str, wanted))}; it has {some}")
    return found


def _any_of(patterns: list[str], texts: list[str]) -> Any:
    from fnmatch import fnmatchcase

    import polars as pl

    return pl.Series([any(fnmatchcase(text, each) for each in patterns) for text in texts], dtype=pl.Boolean)


def _draw(
    runs: Any, measure: str, store: Path, report: Path | None, figures: Path | None, force: bool, name: str = ""
) -> None:
    """Write the page and the figures of runs, where they are wanted."""
    if report is not None:
        from shunter.sweeps import page

        write_page(report, page.report(runs, measure, store.resolve().name, name), "report")
    if figures is not None:
        from shunter.report.figures import write
        from shunter.sweeps.figures import of_sweep

        say_figures(figures, write(figures, of_sweep(runs, measure), force))


def _answer(runs: Any, measure: str, json: bool) -> None:
    """Print the ranking of runs."""
    import math

    from shunter.report.terminal.sweep import ranking_view
    from shunter.sweeps import analysis

    failed = runs.filter(runs["error"].is_not_null()).select("trace", "cluster", "policy", "seed", "error", "command")
    if failed.height == runs.height:
        found: dict[str, Any] = {"ranking": [], "verdict": "Every run failed.", "places": 0, "seeds": 0, "left_out": 0}
    else:
        ranking = analysis.rank(runs, measure)
        rows = [
            {
                key: None if isinstance(value, float) and math.isnan(value) else value
                for key, value in row._asdict().items()
            }
            for row in ranking.rows
        ]
        found = {"measure": measure, "verdict": ranking.verdict, "ranking": rows, "places": ranking.places}
        found |= {"seeds": ranking.seeds, "left_out": ranking.left_out}
    found |= {"runs": runs.height, "failed": failed.to_dicts()}
    answer(found, lambda _: ranking_view(found, measure), json)
    if failed.height == runs.height:
        raise typer.Exit(1)


@contextmanager
def _watching() -> Iterator[OnProgress]:
    """Show how far a sweep is on standard error, if that is a terminal."""
    from rich.live import Live

    from shunter.report.terminal.sweep import progress_view

    if not sys.stderr.isatty():
        yield lambda progress: None
        return
    with Live(console=stderr_console(), refresh_per_second=4, transient=True) as live:
        yield lambda progress: live.update(progress_view(progress))
