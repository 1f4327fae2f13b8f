"""``shunter.tune``: settings of a policy, searched on a part of the past and judged on a later one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from shunter import clusters
from shunter.cluster import Cluster
from shunter.clusters.stop_costs import USUAL, OverheadLike, text_of
from shunter.errors import PolicyError, RunError, did_you_mean
from shunter.model import Trace
from shunter.params import named
from shunter.processes import Progress
from shunter.seeding import check_seed, rng
from shunter.setup import SYNTHETIC, ClusterLike, TraceLike, read_trace, window_of
from shunter.simulation import resolve
from shunter.sweeps.analysis import unbeaten
from shunter.sweeps.cached_runs import cached_store
from shunter.sweeps.engines import lasting, opener
from shunter.sweeps.places import Ground, code_version, source_of
from shunter.sweeps.plan import Choices, Jobs, Place
from shunter.traces.slicing import moment
from shunter.tuning.evaluating import COLUMNS, DEADLINES, OBJECTIVES, Evaluated, Evaluator, JobSample
from shunter.tuning.halving import HALVING, drawn_settings, halved
from shunter.tuning.judging import Change, Judgement, change, surviving, tied
from shunter.tuning.outcome import OpenJobs, Tried, Tuning
from shunter.tuning.sampling import EXPLORED, METHODS, sampled, search_named
from shunter.tuning.search import Grid, grid_of, search
from shunter.tuning.spaces import ANY, PolicySpace, spaces_of

NONE = "none"  # instead of a time: nothing is kept for judging
DRAWN, LATER = "other draws of the jobs", "later jobs"  # what settings are judged on
FEWEST_JOBS = 20  # that the search sees, and that it is judged on
MOST_TIED = 3  # policies beside the best that are judged, because no difference from it is shown
MOST_OF_FRONT = 8  # policies of a Pareto front that are judged
AGAINST = "tiresias"  # what a choice among all policies is compared with
BUDGET, BUDGET_OF_ALL = 40, 200  # settings that are drawn of one policy, and of all


@dataclass(frozen=True, eq=False)
class SearchTask:
    """What is searched, and where."""

    policy: str  # that the best is compared with
    grid: Grid
    objectives: tuple[str, ...]
    ground: Ground
    place: Place  # of the jobs that settings are chosen on
    later: Place | None  # of those that they are judged on; None: the others are other draws of the same, or none
    where: str  # what they are judged on, in words; "": nothing
    jobs: tuple[int, int]  # how many there are
    spaces: tuple[PolicySpace, ...] = ()  # what is drawn from; none: the grid is gone through
    budget: int = 0  # settings that are drawn
    method: str = "grid"
    searched: str = ""  # the policy whose values are gone through
    open_jobs: OpenJobs = OpenJobs()

    @property
    def against(self) -> bool:
        """Whether the best is compared with another policy than the one that is searched."""
        return self.policy != self.searched

    @property
    def plain(self) -> tuple[str, ...]:
        """The policies without any change of what is searched."""
        return tuple(dict.fromkeys(resolve(space.policy).text for space in self.spaces))

    @property
    def backfilled(self) -> tuple[str, ...]:
        """Policies that a search among all begins with in another form, too."""
        return tuple(text for space in self.spaces for text in space.also)

    @property
    def begun(self) -> list[str]:
        """What a search begins with: the policies as they are, then with backfilling, as far as the budget goes."""
        others = [each for each in self.plain if each != self.policy]
        more = [each for each in self.backfilled if each != self.policy]
        if self.method == HALVING:
            return [self.policy, *others, *more]
        others = self._by_lot(others, self.budget - 1, "policies to begin with")
        left = int(EXPLORED * self.budget) - 1 - len(others)  # half of the budget is kept for settings
        return [self.policy, *others, *self._by_lot(more, max(left, 0), "backfilling to begin with")]

    def _by_lot(self, texts: Sequence[str], most: int, purpose: str) -> list[str]:
        """As many of these as there is room for, in their order."""
        if len(texts) <= most:
            return list(texts)
        drawn = rng(self.ground.seed, purpose).permutation(len(texts))
        return [texts[at] for at in sorted(drawn[:most].tolist())]

    @property
    def enough(self) -> int:
        """A budget that has room for all policies, as they are and with backfilling."""
        return math.ceil(len({self.policy, *self.plain, *self.backfilled}) / EXPLORED)

    @property
    def seen(self) -> JobSample:
        """What settings are chosen on."""
        return JobSample(self.place)

    def unseen(self, repeats: int) -> JobSample | None:
        """What they are judged on; None: nothing."""
        if self.later is not None:
            return JobSample(self.later)
        return JobSample(self.place, repeats) if self.where else None


def tune(  # noqa: PLR0913  one argument per choice
    trace: TraceLike,
    cluster: ClusterLike,
    policy: str,
    *,
    tries: Mapping[str, Sequence[Any]] | None = None,
    objectives: Sequence[str] = ("jct",),
    since: str = "",
    until: str = "",
    validate: str = "",
    budget: int = 0,
    search: str = "random",
    against: str = "",
    overhead: OverheadLike = USUAL,
    checkpointable: str = "",
    repeat: int = 1,
    seed: int = 0,
    drop_unfit: bool = False,
    format: str | None = None,  # noqa: A002
    on_bad_row: str = "fail",
    workers: int | None = None,
    dask: str = "",
    progress: Progress = lambda done, total: None,
) -> Tuning:
    """Try settings of a policy, one parameter after the other, and judge the best on jobs that were not searched on.

    Finished runs are kept in the user's cache for a month and are not repeated. A script must call this under
    ``if __name__ == "__main__":``, because it starts processes; with ``workers=1`` everything runs in this process.

    Args:
        trace: Jobs, as for ``simulate``.
        cluster: Machines, as for ``simulate``.
        policy: A name, or ``name:key=value,...``; ``any``: all that any site can use.
        tries: The values of each parameter to try, one parameter after the other; default: settings are drawn.
        objectives: ``jct`` (mean JCT), ``wait`` (mean wait), ``tail`` (P99 of the wait), ``deadlines`` (share of
            deadlines missed; of equals, mean JCT). Each one is searched for; the first decides which setting is the
            best, and all of them give a Pareto front.
        since: The beginning of the jobs that are simulated; policies may learn from those before.
        until: Their end.
        validate: When the jobs begin that settings are judged on; default: the last third of the jobs, or of a
            synthetic trace other draws; ``none``: no jobs.
        budget: Number of settings to draw from the ranges that policies declare, without ``tries``; default: 40, or
            200 for ``any``.
        search: How: ``random``, ``halving``, ``bluefin``, ``bluefin-one``, ``tpe``, ``cmaes``; the last two need the
            extra ``search``.
        against: The policy that the best is compared with; default: the policy as given, or ``tiresias`` for ``any``.
        overhead: Seconds to checkpoint and to restart a job that is stopped, as for ``simulate``.
        checkpointable: Which jobs policies may stop, as for ``simulate``.
        repeat: Runs of each setting, with other seeds.
        seed: Seed of everything random.
        drop_unfit: Whether to leave out jobs that can never fit.
        format: The format of the trace.
        on_bad_row: What happens to bad rows: ``fail`` or ``skip``.
        workers: Processes at the same time; default: one per core.
        dask: The address of a Dask scheduler, or ``local:N``; needs the extra ``dask``.
        progress: Called several times a second with the runs that are done, and all.

    Examples:
        >>> import shunter
        >>> jobs = "synthetic:jobs=120,gpus=8,load=1.2"
        >>> found = shunter.tune(jobs, "1x8", "fifo", tries={"backfill": ["none", "easy"]}, workers=1)
        >>> len(found.tried), found.jobs
        (2, (120, 120))
    """
    texts = [f"{key}={'/'.join(map(str, values))}" for key, values in (tries or {}).items()]
    choices = (texts, objectives, since, until, validate, check_seed(seed), drop_unfit, format, on_bad_row)
    stops = (text_of(overhead), checkpointable)
    task = prepared(trace, cluster, policy, *choices, budget, search, against, *stops)
    return tuned(task, repeat, workers, dask, progress)


def prepared(  # noqa: PLR0913, PLR0917  one argument per choice
    trace: TraceLike,
    cluster: ClusterLike,
    policy: str,
    tries: Sequence[str] = (),
    objectives: Sequence[str] = ("jct",),
    since: str = "",
    until: str = "",
    validate: str = "",
    seed: int = 0,
    drop_unfit: bool = False,
    format: str | None = None,  # noqa: A002
    on_bad_row: str = "fail",
    budget: int = 0,
    method: str = "random",
    against: str = "",
    overhead: str = USUAL,
    checkpointable: str = "",
) -> SearchTask:
    """Read the jobs, and cut them into those that are searched on and later ones."""
    for objective in objectives:
        if objective not in OBJECTIVES:
            raise RunError(f"there is no objective '{objective}'; {did_you_mean(objective, OBJECTIVES)}")
    if not objectives:
        raise RunError("there is no objective; give one, such as jct")
    spaces, grid = _asked(policy, tries, budget, method)
    given = resolve(against or (AGAINST if policy == ANY else policy)).text
    whole = read_trace(trace, format, on_bad_row)
    window = window_of(whole, since, until)[1]
    drawn = isinstance(trace, str) and trace.partition(":")[0] == SYNTHETIC and not validate
    split, later = ("", 0) if drawn or validate == NONE else _split(whole, window, validate)
    text = str(cluster) if isinstance(cluster, str | Path) else cluster.name
    # the same machines for both parts; "auto" sizes them for the jobs that are searched on
    searched = window_of(whole, since, split)[1] if split else window
    if DEADLINES in objectives:
        _check_deadlines(searched, *([window_of(whole, split, until)[1]] if split else []))
    machines = cluster if isinstance(cluster, Cluster) else clusters.load(text, searched)
    source = str(trace) if isinstance(trace, str | Path) else whole.name
    head = (source, Path(source).name, format or "", on_bad_row)
    stops = {"overhead": overhead, "checkpointable": checkpointable}
    place = Place(Jobs(*head, since, split or until), text, **stops)
    after = Place(Jobs(*head, split, until), text, **stops) if split else None
    must_fit = (given,) if drop_unfit else ()
    traces = {source_of(place.jobs): whole}
    ground = Ground(traces, Choices(drop_unfit=drop_unfit), must_fit, code_version(), seed, {text: machines})
    where = DRAWN if drawn else f"{LATER} (from {validate or _when(whole, split)} on)" if split else ""
    jobs = (len(window) - later, len(window) if drawn else later)
    task = SearchTask(given, grid, tuple(dict.fromkeys(objectives)), ground, place, after, where, jobs)
    still_open = OpenJobs.at(searched, round(float(split) * 1000)) if split else OpenJobs()
    task = replace(task, searched="" if policy == ANY else resolve(policy).text, open_jobs=still_open)
    drawn_settings = budget or (BUDGET_OF_ALL if policy == ANY else BUDGET)
    return replace(task, spaces=spaces, budget=drawn_settings, method=method) if spaces else task


def _check_deadlines(*parts: Trace) -> None:
    """Refuse jobs without any deadline, where there are to be fewer missed ones."""
    for part in parts:
        if not (part.deadline > 0).any():
            raise RunError(
                f"objective {DEADLINES}: no job of '{part.name}' has a deadline among the {len(part):,} that settings"
                " are tried or judged on; add a column 'deadline' (seconds after submission), make some with 'shunter"
                " trace synth OUT --from TRACE --deadlines 1', or choose another objective"
            )


def _asked(policy: str, tries: Sequence[str], budget: int, method: str) -> tuple[tuple[PolicySpace, ...], Grid]:
    """What is drawn from, or the values that are gone through."""
    if tries:
        if policy == ANY or budget:
            raise RunError("--try names values to go through, and --budget or --policy any draws them; leave one out")
        return (), grid_of(policy, tries)
    if method not in (*METHODS, HALVING):
        raise RunError(f"there is no search '{method}'; {did_you_mean(method, (*METHODS, HALVING))}")
    return tuple(spaces_of(policy)), {}


def _split(whole: Trace, window: Trace, wanted: str) -> tuple[str, int]:
    """When the jobs begin that are judged on, as a time of the trace, and how many they are."""
    at = len(window) * 2 // 3
    begin = moment(wanted, whole, UTC, "--validate") if wanted else int(window.submit[min(at, len(window) - 1)])
    later = int((window.submit >= begin).sum())
    if min(later, len(window) - later) < FEWEST_JOBS:
        raise RunError(
            f"{len(window) - later:,} jobs to choose on and {later:,} later ones to judge on: both must be at least"
            f" {FEWEST_JOBS}; give another time with --validate T, or more jobs, or judge on none with --validate none"
        )
    return f"{begin / 1000:.3f}", later


def _when(trace: Trace, seconds: str) -> str:
    """A time of a trace in words."""
    if trace.dated:
        return f"{datetime.fromtimestamp(float(seconds), UTC):%Y-%m-%dT%H:%M:%S}"
    return f"+{(float(seconds) - int(trace.submit[0]) / 1000) / 86400:.4g}"


def tuned(
    task: SearchTask, repeat: int, workers: int | None, dask: str, progress: Progress = lambda done, total: None
) -> Tuning:
    """Search, and judge."""
    if repeat < 1:
        raise RunError(f"repeat must be >= 1, got {repeat}")
    each = task.budget if task.spaces else 1 + sum(len(values) for values in task.grid.values())
    expected = len(task.objectives) * each + 2
    with cached_store("tuning", COLUMNS) as store, lasting(opener(dask, workers)) as open_engine:
        runs = Evaluator(task.ground, repeat, store, open_engine, progress, expected * repeat)
        tried = _searched(task, runs)
        close = _tied(task, runs, tried)
        judged = _judged(task, runs, tried, close)
        users = bool((runs.places.setup(task.later or task.place).trace.user >= 0).any())
        verdicts = [_verdict(task, runs, tried, objective) for objective in task.objectives]
    rows = [
        Tried(
            each.policy,
            {name: each.value(name) for name in task.objectives},
            each.numbers,
            front,
            judged.get(each.policy),
            each.policy in close,
            each.abandoned,
        )
        for each, front in zip(tried, _fronts(task, tried), strict=True)
    ]
    seed = task.ground.seed
    policies = tuple(each for each in task.begun if each in task.plain) if len(task.plain) > 1 else ()
    strict = len(set(task.backfilled) - {*task.begun, *(each.policy for each in tried)})
    return Tuning(
        task.objectives, task.policy, tuple(rows), tuple(verdicts), task.where, task.jobs, repeat, seed, runs.ran,
        task.method, policies, len(task.plain), task.against, users, task.open_jobs, task.budget, strict, task.enough,
    )  # fmt: skip


def _searched(task: SearchTask, runs: Evaluator) -> list[Evaluated]:
    """Everything that was tried, the best by the first objective first."""
    tried: dict[str, Evaluated] = {}
    for objective in task.objectives:

        def values(policies: Sequence[str], by: str = objective) -> list[float]:
            found = runs.evaluate(task.seen, policies)
            tried.update((each.policy, each) for each in found)
            return [each.rank(by) for each in found]

        (given,) = runs.evaluate(task.seen, [task.policy])
        if given.abandoned:
            raise PolicyError(given.abandoned)
        if task.method == HALVING and task.spaces:
            _halved(task, runs, objective, values)
        elif task.spaces:
            drawn = search_named(task.method, task.spaces, task.budget, task.ground.seed)
            sampled(drawn, task.begun, values)
        else:
            values([task.policy])
            search(task.searched, task.grid, values)
    return sorted(tried.values(), key=lambda each: _order(task, each, task.objectives[0]))


def _order(task: SearchTask, own: Evaluated, objective: str) -> tuple[float, bool, int, str]:
    """The best first; of equals the policy as given, then the plainest."""
    return own.rank(objective), own.policy != task.policy, len(named(own.policy)[1]), own.policy


def _halved(
    task: SearchTask, runs: Evaluator, objective: str, on_all: Callable[[Sequence[str]], Sequence[float]]
) -> None:
    """Successive halving on growing parts of the jobs, from the first one on; ``on_all`` runs policies on all."""
    window = runs.places.setup(task.place).trace
    begin, span = int(window.submit[0]), int(window.submit[-1] - window.submit[0])

    def values_at(policies: Sequence[str], part: float) -> Sequence[float]:
        if part == 1:
            return on_all(policies)
        until = f"{(begin + max(round(part * span), 1)) / 1000:.3f}"  # the first job is always among them
        sample = JobSample(replace(task.place, jobs=replace(task.place.jobs, until=until)))
        return [each.rank(objective) for each in runs.evaluate(sample, policies)]

    halved(drawn_settings(task.spaces, task.begun, task.budget, task.ground.seed), [task.policy], values_at)


def _fronts(task: SearchTask, tried: Sequence[Evaluated]) -> list[bool]:
    return unbeaten(np.array([[each.value(name) for name in task.objectives] for each in tried]))


def _tied(task: SearchTask, runs: Evaluator, tried: Sequence[Evaluated]) -> list[str]:
    """Policies right behind the best, from which no difference is shown."""
    first, draws = task.objectives[0], runs.draws(task.seen, task.policy)
    behind = [each for each in tried[1:] if each.policy != task.policy and not each.abandoned][:MOST_TIED]
    return [each.policy for each in behind if tied(each, tried[0], first, draws)]


def _judged(
    task: SearchTask, runs: Evaluator, tried: Sequence[Evaluated], close: Sequence[str]
) -> dict[str, dict[str, float]]:
    """The numbers on unseen jobs of the policy as given, the best ones, those that are close, and the front."""
    sample = task.unseen(runs.repeats)
    if sample is None:
        return {}
    front = [each.policy for each, on in zip(tried, _fronts(task, tried), strict=True) if on][:MOST_OF_FRONT]
    best = [_best(task, tried, objective).policy for objective in task.objectives]
    wanted = dict.fromkeys((task.policy, *best, *close, *front))
    return {each.policy: each.numbers for each in runs.evaluate(sample, list(wanted))}


def _best(task: SearchTask, tried: Sequence[Evaluated], objective: str) -> Evaluated:
    return min(tried, key=lambda each: _order(task, each, objective))


def _verdict(task: SearchTask, runs: Evaluator, tried: Sequence[Evaluated], objective: str) -> Judgement:
    """What becomes of the gain in an objective."""
    best = _best(task, tried, objective).policy

    def on(sample: JobSample) -> Change:
        own, given = runs.evaluate(sample, [best, task.policy])
        return change(own, given, objective, runs.draws(sample, task.policy))

    seen, sample = on(task.seen), task.unseen(runs.repeats)
    if sample is None:
        return Judgement(objective, best, task.policy, task.against, seen.estimate)
    unseen, where = on(sample), DRAWN if task.later is None else LATER
    part = surviving(seen, unseen)
    return Judgement(objective, best, task.policy, task.against, seen.estimate, unseen.estimate, part, where)
