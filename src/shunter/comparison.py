"""Several policies on the same jobs: run side by side in processes, each kept as soon as it is done."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter import caches, experiment
from shunter.clusters.stop_costs import RESTART_S, USUAL, OverheadLike, costs_text, free, text_of
from shunter.compiled import cache_folder
from shunter.errors import RunError, did_you_mean
from shunter.processes import Progress, run_tasks, usable_cores
from shunter.report import additions
from shunter.report.bootstrap import Draws, draws_of, mean_difference
from shunter.report.intervals import JobTimes, differences, drawn, intervals, unsure
from shunter.report.metrics import BOUND_MS
from shunter.report.verdict import MEAN, verdict
from shunter.run_folder import Run, check_folder, load, new_folder
from shunter.seeding import check_seed
from shunter.setup import ClusterLike, Setup, TraceLike, check, set_up
from shunter.simulation import NamedPolicy, describe, resolve, run
from shunter.under_way import RunPoint, UnderWay, shown
from shunter.variants import with_grid

if TYPE_CHECKING:
    import polars as pl

    from shunter.report.drawing import Figure

UNFINISHED = ".unfinished"  # the ending of a hidden folder beside a comparison: its runs that have ended
FREE = "0"  # what stops cost where they cost nothing
USUAL_COSTS = f"0,{RESTART_S:g}"
TWO_INTERVALS = "Those in percent are of the ratio, and don't follow from those of the difference."
MORE_RECORDED = "every repeat of a trace from a file has the same jobs"


@dataclass(frozen=True)
class PlannedRun:
    """One run of a comparison."""

    policy: NamedPolicy
    label: str
    seed: int
    repeat: int
    folder: str  # where its run is kept
    decisions: bool = False  # whether the reasons for waiting are recorded
    overhead: str = ""  # what stops cost under this policy alone; "": as for all


@dataclass(frozen=True, eq=False)
class Comparison:
    """The results of several policies on the same jobs. The first policy is the baseline.

    Examples:
        >>> import shunter
        >>> comparison = shunter.compare("synthetic:jobs=100,gpus=8,load=1.2", "1x8", ["fifo", "las"], workers=1)
        >>> [row["policy"] for row in comparison.policies]
        ['fifo', 'las']
        >>> difference = comparison.policies[1]["difference"]  # of the mean JCT to that of fifo, with its interval
        >>> difference["low_s"] <= difference["mean_s"] <= difference["high_s"]
        True
    """

    trace: str
    cluster: str
    seed: int
    summaries: tuple[tuple[dict[str, Any], ...], ...]  # per policy, per repeat
    times: tuple[tuple[JobTimes, ...], ...]  # per policy, per repeat
    resumed: int = 0  # runs that were there from an interrupted comparison
    redrawn: bool = False  # each repeat has jobs of its own; else the same jobs, with arrivals that moved a little
    stop_costs: tuple[str, ...] = ()  # per policy: what a stop costs, in words
    other_costs: tuple[dict[str, Any] | None, ...] = ()  # per policy that stops jobs: free, or not, where the run was
    runs: tuple[Run, ...] = ()  # the first of each policy, if they were kept
    measures: tuple[Any, ...] = ()  # of third parties, as they were given

    @cached_property
    def policies(self) -> list[dict[str, Any]]:
        """Per policy the summary, averaged over repeats, with intervals and differences to the first policy."""
        rows = [_average(repeats) for repeats in self.summaries]
        for index, (row, repeats) in enumerate(zip(rows, self.summaries, strict=True)):
            if self.stop_costs and row["preemptions"]:
                row["stop_costs"] = self.stop_costs[index]
                row["other_costs"] = self.other_costs[index] if self.other_costs else None
            if len(repeats) > 1:
                seeds = ({"repeat": number, "repeat_seed": self.seed + number} for number in range(len(repeats)))
                row["repeats"] = [{**numbered, **one} for numbered, one in zip(seeds, repeats, strict=True)]
        self._add_intervals(rows)
        return rows

    def _add_intervals(self, rows: Sequence[dict[str, Any]]) -> None:
        draws, repeats = self.draws, len(self.summaries[0])
        found = [drawn(draws, *of, self.seed) for of in zip(self.summaries, self.times, strict=True)]
        for row, own, times in zip(rows, found, self.times, strict=True):
            first = row is rows[0]
            before, after = ([one.jct for one in each] for each in (self.times[0], times))
            row["difference"] = None if first else mean_difference(before, after, draws)
            row["intervals"] = intervals(row, own, draws, repeats)
            row["differences"] = None if first else differences(row, rows[0], own, found[0], draws, repeats)
        for row, own in zip(rows, found, strict=True):
            row["alike"] = [
                other["policy"]
                for other, others in zip(rows, found, strict=True)
                if other is not row and unsure(own[MEAN] - others[MEAN], draws.parts)
            ]

    @cached_property
    def draws(self) -> Draws:
        """What intervals are over: repeats, if they have jobs of their own and are enough, else stretches of time."""
        return draws_of([len(one.jct) for one in self.times[0]], self.redrawn, self.seed)

    @property
    def verdict(self) -> str:
        """What the comparison shows, in a sentence or two."""
        return verdict(self.policies)

    @property
    def about_intervals(self) -> str:
        """What the intervals are about, in a sentence."""
        if self.draws.over == "repeats":
            over = f"{self.draws.parts} repeats, each with jobs of its own"
            return (
                f"95 % intervals are over {over}, and often too narrow: trust the sign of a difference, not its size."
                f" {TWO_INTERVALS}"
            )
        more = "--repeat 5 gives intervals over other jobs of this kind" if self.redrawn else MORE_RECORDED
        over = f"{self.draws.parts} stretches of these jobs"
        return f"95 % intervals are over {over} and often too narrow; {more}. {TWO_INTERVALS}"

    def to_pandas(self) -> Any:
        """One row per policy, with the numbers of its summary as columns such as ``jct_s.mean`` (needs pandas)."""
        from shunter.report.frames import flat, pandas

        return pandas().DataFrame([dict(flat(row)) for row in self.policies]).set_index("policy")

    def plot(self, measure: str = "jct_s", tail: str = "p99") -> Figure:
        """Each policy's mean against its tail: an SVG figure that notebooks show and ``save`` writes."""
        from shunter.report.drawing import mean_and_tail

        return mean_and_tail(self.policies, measure, tail)

    def __repr__(self) -> str:
        names = [str(repeats[0]["policy"]) for repeats in self.summaries]
        return f"Comparison(policies={names}, trace={self.trace!r}, cluster={self.cluster!r})"

    def _repr_html_(self) -> str:
        from shunter.report.frames import html_of

        return html_of(self.policies, f"{self.verdict} {self.about_intervals}")

    def report(self, file: str | Path, force: bool = False, sections: Sequence[Any] = ()) -> Path:
        """Write the page of the command line's ``--report``; ``sections`` are additional ones of your own."""
        if not self.runs:
            raise RunError("the runs of this comparison were not kept; use shunter.compare")
        from shunter.report.html.report import write

        return write(Path(file), self.runs, self.policies, force, self.about_intervals, sections, self.measures)

    def figures(self, folder: str | Path, force: bool = False) -> list[Path]:
        """Write the figures of the command line's ``--figures``: PDF, SVG and CSV (needs the extra ``figures``)."""
        from shunter.report.figures import of_comparison, write

        return write(Path(folder), of_comparison(self.policies, self.times), force)

    def as_dict(self) -> dict[str, Any]:
        """The dictionary of ``comparison.json``."""
        head = {"trace": self.trace, "cluster": self.cluster, "seed": self.seed, "repeat": len(self.summaries[0])}
        head["seeds"] = [self.seed + number for number in range(len(self.summaries[0]))]
        about = {"over": self.draws.over, "parts": self.draws.parts, "about": self.about_intervals}
        head |= {"baseline": self.policies[0]["policy"], "verdict": self.verdict, "intervals": about}
        return {**head, "policies": self.policies}


def compare(  # noqa: PLR0913, PLR0917  one argument per option of the command
    trace: TraceLike,
    cluster: ClusterLike,
    policies: Sequence[Any],
    seed: int = 0,
    repeat: int = 1,
    out: str | Path | None = None,
    force: bool = False,
    workers: int | None = None,
    decisions: bool = False,
    report: str | Path | None = None,
    overhead: OverheadLike | Mapping[str, OverheadLike] = USUAL,
    drop_unfit: bool = False,
    network: str = "",
    contention: bool = False,
    models: str = "",
    sharing: str = "",
    since: str = "",
    until: str = "",
    format: str | None = None,  # noqa: A002
    on_bad_row: str = "fail",
    measures: Sequence[Any] = (),
    sections: Sequence[Any] = (),
    load: str | float = "",
    checkpointable: str = "",
    grid: Mapping[str, Sequence[Any]] | None = None,
    scaling: str | Path = "",
    losses: str | Path = "",
) -> Comparison:
    """Run several policies on the same jobs in parallel processes.

    An interrupted comparison continues where it was. A script must call this under ``if __name__ == "__main__":``,
    because it starts processes; with ``workers=1`` everything runs in this process.

    Args:
        trace: As for ``simulate``, and so are ``cluster``, ``load`` and ``checkpointable``.
        cluster: Machines.
        policies: Policies or their texts. The first is the baseline.
        seed: Seed of everything random.
        repeat: Runs per policy, with other seeds and arrivals.
        out: A folder for the runs.
        force: Whether to replace an earlier comparison in that folder, or an earlier report.
        workers: Processes at the same time; default: one per core.
        decisions: Whether to record why jobs waited; a report implies it.
        report: A file for the report.
        overhead: As for ``simulate``; or a dictionary from policies, as they are given, to what theirs costs.
        drop_unfit: Whether to leave out jobs that can never fit under one of the policies.
        network: As for ``simulate``, and so are all that follow.
        contention: Whether jobs share the links of that network.
        models: A TOML file with your own models, for the network.
        sharing: How jobs share a GPU: ``time-slice`` or ``mps``.
        since: Start of the evaluation; policies learn from earlier jobs.
        until: End of the evaluation.
        format: Format of the trace; default: detected.
        on_bad_row: ``fail`` or ``skip``.
        measures: Measures of your own: functions that take a ``Run`` and return a number, or their dotted paths.
        sections: Sections of your own for the report: functions that take the runs, or their dotted paths.
        load: Load to reach by stretching or compressing arrivals.
        checkpointable: Which jobs policies may stop.
        grid: Values of parameters, ``{"backfill": ["none", "easy"]}``: each policy that has the parameter is run with
            each of them. Policies must be texts.
        scaling: A TOML file with your measured speeds by number of GPUs, for jobs that give a range.
        losses: A table of loss curves (``curve``, ``iteration``, ``loss``), for jobs whose ``loss_curve`` names one.

    Examples:
        >>> import shunter
        >>> jobs = shunter.Trace.of("two", ["a", "b"], submit=[0, 0], duration=[90_000, 10_000], gpus=[1000, 1000])
        >>> comparison = shunter.compare(jobs, "1x1", ["fifo", "sjf:estimate=oracle"], workers=1)
        >>> [(row["policy"], row["jct_s"]["mean"]) for row in comparison.policies]
        [('fifo', 95.0), ('sjf:estimate=oracle', 55.0)]
    """
    _check_report(report, force)
    chosen = [resolve(policy) for policy in _varied(policies, grid or {})]
    each, general = (overhead, USUAL) if isinstance(overhead, Mapping) else ({}, overhead)
    must_fit = [named.policy for named in chosen] if drop_unfit else ()
    choices = (network, contention, since, until, str(models), sharing, general, load, checkpointable, scaling, losses)
    folder, why = None if out is None else Path(out), decisions or report is not None
    options = CompareOptions(seed, repeat, folder, force, workers, why, True, each, True, measures)
    found = compare_setup(set_up(trace, cluster, must_fit, format, on_bad_row, *choices), chosen, options)
    if report is not None:
        found.report(report, force, sections)
    return found


def _check_report(file: str | Path | None, force: bool) -> None:
    """Refuse a place for the report before any work is done."""
    if file is not None:
        from shunter.report.html.files import check_file

        check_file(Path(file), force)


def _varied(policies: Sequence[Any], grid: Mapping[str, Sequence[Any]]) -> Sequence[Any]:
    """The policies, with every combination of the values of a grid."""
    policies = [policies] if isinstance(policies, str) else policies
    return (
        with_grid(policies, {key: [str(value) for value in some] for key, some in grid.items()}) if grid else policies
    )


def of_runs(runs: Sequence[Run], redrawn: bool = False) -> Comparison:
    """Finished runs of the same jobs side by side; the first is the baseline."""
    return of_repeats([[run] for run in runs], redrawn)


def of_repeats(groups: Sequence[Sequence[Run]], redrawn: bool = False) -> Comparison:
    """Finished runs side by side, several of each policy: the n-th of all are of the same jobs."""
    first = groups[0][0]
    for same in zip(*groups, strict=True):
        drawn = {(run.experiment.seed, run.experiment.repeat) if run.experiment.repeat else (0, 0) for run in same}
        digests = {run.experiment.trace.digest for run in same}
        if len(digests) > 1 or len(drawn) > 1 or len({run.jobs.height for run in same}) > 1:
            raise RunError("the runs are of different jobs; compare runs of the same trace, and of the same repeat")
    return Comparison(
        Path(first.experiment.trace.path).name,
        first.cluster.name,
        first.experiment.seed,
        tuple(tuple(run.summary for run in runs) for runs in groups),
        tuple(tuple(_times(run.jobs) for run in runs) for runs in groups),
        redrawn=redrawn,
        runs=tuple(runs[0] for runs in groups),
    )


@dataclass(frozen=True)
class CompareOptions:
    """How policies are compared, whatever the jobs are."""

    seed: int = 0
    repeat: int = 1  # runs per policy
    out: Path | None = None  # a folder for the runs
    force: bool = False  # whether an earlier comparison there is replaced
    workers: int | None = None  # processes; None: one per core
    decisions: bool = False  # whether the reasons for waiting are recorded
    keep: bool = False  # whether the comparison has the first run of each policy, for a report
    overheads: Mapping[str, OverheadLike] = field(default_factory=dict)  # what stops cost under single policies
    try_costs: bool = False  # whether policies that stop jobs run at other costs too
    measures: Sequence[Any] = ()  # of third parties; see ``shunter.report.additions``

    def __post_init__(self) -> None:
        if self.repeat < 1:
            raise RunError(f"repeat must be >= 1, got {self.repeat}")
        if self.workers is not None and self.workers < 1:
            raise RunError(f"workers must be >= 1, got {self.workers}")


def compare_setup(
    setup: Setup, policies: Sequence[Any], options: CompareOptions | None = None, progress: Progress | None = None
) -> Comparison:
    """Compare policies on a setup that has been read; ``progress`` gets the steps done, and all."""
    options = options or CompareOptions()
    seed, workers = check_seed(options.seed), options.workers or usable_cores()
    chosen = [resolve(policy) for policy in policies]
    added = additions.measures(options.measures)
    labels = _labels(setup, chosen)
    costs = _costs_of(chosen, labels, options.overheads)
    for each in chosen:
        check(setup, each.policy)
    if options.out is not None:
        check_folder(options.out, options.force)
    about = UnderWay("comparison", setup.trace.name, setup.cluster.name, labels)
    with _stash(setup, options.out) as stash, _resumable(stash), shown(options.out, about) as note_progress:

        def on_progress(ended: int, total: int) -> None:
            note_progress(ended, total)
            if progress is not None:
                progress(ended, total)

        rows = [
            [_task(setup, one, text, seed, repeat, stash, options.decisions, cost) for repeat in range(options.repeat)]
            for one, text, cost in zip(chosen, labels, costs, strict=True)
        ]
        tasks = [task for row in rows for task in row]
        done = _run_tasks(setup, tasks, workers, on_progress)
        found = [[_read(task, added) for task in row] for row in rows]
        first = [row[0] for row in rows]
        comparison = Comparison(
            setup.trace.name,
            setup.cluster.name,
            seed,
            tuple(tuple(summary for summary, _ in row) for row in found),
            tuple(tuple(times for _, times in row) for row in found),
            resumed=len(tasks) - done,
            redrawn=setup.redraws,
            stop_costs=tuple(costs_text(_costing(setup, cost).cluster) for cost in costs),
            other_costs=_other_costs(setup, first, [row[0][0] for row in found], stash, workers)
            if options.try_costs
            else (),
            runs=tuple(load(Path(task.folder)) for task in first) if options.keep else (),
            measures=tuple(options.measures),
        )
        if options.out is not None:
            _save(comparison, tasks, options.out, options.force)
        shutil.rmtree(stash, ignore_errors=True)
    return comparison


def _run_tasks(setup: Setup, tasks: Sequence[PlannedRun], workers: int, progress: Progress) -> int:
    """Run those that are not there yet; returns how many these were."""
    todo = [task for task in tasks if not Path(task.folder).exists()]
    if min(workers, len(todo)) > 1:
        compile_once(setup, todo[0].policy)
    run_tasks(_run_task, setup, todo, [len(setup.trace)] * len(todo), workers, progress)
    return len(todo)


def _costing(setup: Setup, overhead: str) -> Setup:
    return setup.with_overhead(overhead) if overhead else setup


def _costs_of(
    policies: Sequence[NamedPolicy], labels: Sequence[str], overheads: Mapping[str, OverheadLike]
) -> list[str]:
    """What stops cost under each policy, where that is said of it alone; else ""."""
    texts = [policy.text for policy in policies]
    for name in overheads:
        if name not in texts and name not in labels:
            raise RunError(f"--overhead {name}=...: is none of the policies; {did_you_mean(name, texts)}")
    found = [
        next((overheads[name] for name in names if name in overheads), "") for names in zip(texts, labels, strict=True)
    ]
    return [text_of(overhead) for overhead in found]


def _other_costs(
    setup: Setup, tasks: Sequence[PlannedRun], summaries: Sequence[dict[str, Any]], stash: Path, workers: int
) -> tuple[dict[str, Any] | None, ...]:
    """Where policies stop jobs at a cost: the same for free; where stops are free: the same at the usual cost.

    It shows whether the cost of a stop decides which policy is best.
    """
    stops = [task for task, one in zip(tasks, summaries, strict=True) if one["preemptions"]]
    if not stops or len(tasks) == 1:
        return ()
    others = {}
    for task in stops:
        other = USUAL_COSTS if free(_costing(setup, task.overhead).cluster) else FREE
        others[task.label] = _task(setup, task.policy, task.label, task.seed, 0, stash, False, other)
    _run_tasks(setup, list(others.values()), workers, lambda ended, total: None)
    return tuple(_other(setup, others[task.label]) if task.label in others else None for task in tasks)


def _other(setup: Setup, task: PlannedRun) -> dict[str, Any]:
    summary, _ = _read(task)
    machines = _costing(setup, task.overhead).cluster
    kept = {key: summary[key] for key in ("jct_s", "wait_s", "preemptions", "lost_gpu_hours")}
    return {"free": free(machines), "stop_costs": costs_text(machines), **kept}


def _labels(setup: Setup, policies: Sequence[NamedPolicy]) -> list[str]:
    if not policies:
        raise RunError("there is nothing to compare; give at least one policy")
    labels = [str(describe(each.policy, setup.trace)["policy"]) for each in policies]
    for label in labels:
        if labels.count(label) > 1:
            raise RunError(f"policy '{label}' is given more than once; leave one out")
    return labels


# ------------------------------------------------------------------------------------------- what is kept


@contextlib.contextmanager
def _stash(setup: Setup, out: Path | None) -> Iterator[Path]:
    """The folder in which finished runs wait for the others; it outlives an interruption and is found again.

    Without ``out`` it is in the user's cache.  Where that can't be used, another process uses it, or others could put
    runs of theirs there, nothing is kept.
    """
    import fcntl

    with contextlib.ExitStack() as stack:
        try:
            stash = _cache(setup) if out is None else out.parent / f".{out.name}{UNFINISHED}"
            stash.mkdir(parents=True, exist_ok=True)
            # The folder may be another account's: a link in it is not followed, and a pipe is not waited for.
            lock = os.open(stash / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(lock), (stash / "lock").lstat()):
                raise BlockingIOError  # it was removed with its folder, which is another comparison's by now
            if not caches.trusted(stash, frozenset({os.geteuid(), caches.ROOT})):
                stash = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shunter-")))
        except (OSError, caches.NotPrivateError) as error:
            if out is not None:
                busy = isinstance(error, BlockingIOError)
                why = "another comparison is being written there" if busy else f"can't be written: {error}"
                raise RunError(f"{out}: {why}; choose another folder") from None
            stash = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shunter-")))
        yield stash


@contextlib.contextmanager
def _resumable(stash: Path) -> Iterator[None]:
    """Add to Ctrl-C that finished runs are kept, where they are: a folder without a lock is temporary."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if (stash / "lock").exists() and any(stash.glob("[!.]*/summary.json")):
            interrupt.add_note("the same command goes on from what was finished")
        raise


def _cache(setup: Setup) -> Path:
    return caches.private(caches.user_folder("compare")) / _key(setup.experiment("", 0))


def _task(
    setup: Setup,
    policy: NamedPolicy,
    label: str,
    seed: int,
    repeat: int,
    stash: Path,
    decisions: bool = False,
    overhead: str = "",
) -> PlannedRun:
    """A task and its place: a name that no other settings, policy code or state of shunter's sources would give."""
    chosen = policy.policy
    source = getattr(sys.modules.get(type(chosen).__module__), "__file__", None)
    code = Path(source).read_bytes() if source and Path(source).is_file() else b""
    more = repr((chosen, decisions)).encode() + code + cache_folder().name.encode()
    name = _key(_costing(setup, overhead).experiment(label, seed, repeat), more)
    return PlannedRun(policy, label, seed, repeat, str(stash / name), decisions, overhead)


def _key(record: experiment.Experiment, more: bytes = b"") -> str:
    return hashlib.blake2b(experiment.to_toml(record).encode() + more, digest_size=8).hexdigest()


def _read(task: PlannedRun, added: Mapping[str, Any] = MappingProxyType({})) -> tuple[dict[str, Any], JobTimes]:
    import polars as pl

    folder = Path(task.folder)
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    if added:
        summary["measures"] = additions.measured(load(folder), added)
    return summary, _times(pl.read_parquet(folder / "jobs.parquet", columns=["jct", "wait", "run", "lost", "state"]))


def _times(jobs: pl.DataFrame) -> JobTimes:
    """What each finished job took; NaN for the others."""
    import polars as pl

    run = pl.max_horizontal("run", pl.lit(BOUND_MS / 1000))
    slowdown = pl.max_horizontal((pl.col("wait") - pl.col("lost") + pl.col("run")) / run, pl.lit(1.0))
    columns = (pl.col("jct"), pl.col("wait"), slowdown)
    done = [pl.when(pl.col("state") == "done").then(column).otherwise(float("nan")) for column in columns]
    return JobTimes(*(jobs.select(column).to_series().to_numpy() for column in done))


def _save(comparison: Comparison, tasks: Sequence[PlannedRun], out: Path, force: bool) -> None:
    """Write ``comparison.json`` and one run folder per policy and repeat."""
    with new_folder(out, force) as made:
        (made / "comparison.json").write_text(json.dumps(comparison.as_dict(), indent=2) + "\n")
        repeats = len(comparison.summaries[0])
        for number, task in enumerate(tasks):
            plain = re.sub(r"[^A-Za-z0-9._=-]+", "_", task.label)[:100]
            suffix = f"-repeat{task.repeat}" if repeats > 1 else ""
            shutil.move(task.folder, made / f"{number // repeats + 1}-{plain}{suffix}")


def _average(repeats: Sequence[Any]) -> Any:
    """The mean of every number in equally built trees; what is no number, or always the same, is the first one's.

    Repeats in which a number is missing don't count.
    """
    repeats = [one for one in repeats if one is not None] or repeats
    first = repeats[0]
    if isinstance(first, dict):
        shared = [key for key in first if all(key in other for other in repeats)]
        return {key: _average([other[key] for other in repeats]) for key in shared}
    if isinstance(first, bool | str | list) or first is None or all(other == first for other in repeats):
        return first
    return float(np.mean(repeats))


# ------------------------------------------------------------------------------------------- runs


def compile_once(setup: Setup, policy: Any) -> None:
    """Compile what all policies share, if nothing is compiled yet; else every worker would, at the same time."""
    if not any(cache_folder().rglob("*.nbi")):
        run(dataclasses.replace(setup, trace=setup.trace.select(np.arange(1))), policy)


def _run_task(setup: Setup, task: PlannedRun, report: Callable[[int], None]) -> None:
    where, jobs = _costing(setup, task.overhead), len(setup.trace)
    label = f"{task.label}, repeat {task.repeat + 1}" if task.repeat else task.label
    about = UnderWay("run", setup.trace.name, setup.cluster.name, [label], total=jobs, gpus=setup.cluster.gpus)
    with shown(Path(task.folder), about, later=True) as others:

        def count(point: RunPoint) -> None:
            report(point.ended)
            others.reach(point, jobs)

        run(where, task.policy, task.seed, task.repeat, count, task.decisions).save(task.folder, force=True)
