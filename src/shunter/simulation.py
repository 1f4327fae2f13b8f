"""One run: from a setup and a policy to a ``Result``, and from there to a folder on disk."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from shunter import registry, run_folder
from shunter import world as w
from shunter.capabilities import (
    Describes,
    Explains,
    FollowsDemand,
    Learns,
    RemembersTraining,
    Shares,
    Wraps,
    capability,
    capability_and_memory,
)
from shunter.cluster import Cluster
from shunter.clusters.stop_costs import USUAL, OverheadLike
from shunter.energy.series import NodeSeries
from shunter.errors import AbandonedError
from shunter.experiment import Experiment
from shunter.model import GPU, Trace
from shunter.protocols import Memory, Policy
from shunter.reasons import SCOPES
from shunter.report import metrics
from shunter.report.deadlines import alone_ms, deadlines, why_columns
from shunter.report.energy import any_slept, energy
from shunter.report.finish_fairness import finish_time_fairness
from shunter.report.insights import Insights, insights
from shunter.report.replay import Replay, replay
from shunter.report.tiers import by_tier
from shunter.run_folder import Run
from shunter.seeding import check_seed
from shunter.setup import ClusterLike, Setup, TraceLike, check, check_record, data_of, recorded_setup, set_up
from shunter.world import F64, I64

if TYPE_CHECKING:
    import polars as pl

    from shunter.predictors.lessons import FittedPast, Lessons
    from shunter.report.drawing import Figure
    from shunter.sim import Scenario, Simulator
    from shunter.under_way import RunPoint

Progress: TypeAlias = Callable[["RunPoint"], None]  # gets how far a run is


@dataclass(frozen=True, eq=False)
class NamedPolicy:
    """A policy as a command got it: resolved once, with what it learned from the jobs before the window."""

    text: str
    given: Policy | None = None  # where it was given as an object
    past: FittedPast | None = None

    @cached_property
    def policy(self) -> Policy:
        """The policy itself."""
        return registry.policy(self.text if self.given is None else self.given)

    def with_past(self, past: FittedPast | None) -> NamedPolicy:
        """The same policy, with what it learned."""
        made = NamedPolicy(self.text, self.given, past)
        made.__dict__["policy"] = self.policy
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process resolves the text for itself."""
        return (NamedPolicy, (self.text, self.given, self.past))


def resolve(policy: Any) -> NamedPolicy:
    """The policy that a text names, or a policy as it is; refused at once if there is none."""
    if isinstance(policy, NamedPolicy):
        return policy
    if not isinstance(policy, str):
        return NamedPolicy(registry.text(registry.policy(policy)), policy)
    named = NamedPolicy(policy)
    named.policy  # noqa: B018 a text that names none is refused here
    return named


def simulate(  # noqa: PLR0913, PLR0917  one argument per option of the command
    trace: TraceLike,
    cluster: ClusterLike,
    policy: Any,
    seed: int = 0,
    decisions: bool = False,
    overhead: OverheadLike = USUAL,
    drop_unfit: bool = False,
    network: str = "",
    contention: bool = False,
    models: str = "",
    sharing: str = "",
    since: str = "",
    until: str = "",
    format: str | None = None,  # noqa: A002
    on_bad_row: str = "fail",
    load: str | float = "",
    checkpointable: str = "",
    scaling: str | Path = "",
    losses: str | Path = "",
) -> Result:
    """Run one policy on one trace and one cluster; all three as objects or as the texts of the command line.

    Args:
        trace: A ``Trace``, a file, ``synthetic:...``, or a polars frame with the columns of a CSV trace.
        cluster: A ``Cluster``, a text such as ``"64x8"``, a TOML file, the name of a built-in cluster, or ``"auto"``.
        policy: A policy, or its text: ``"name"`` or ``"name:key=value,key=value"``.
        seed: Seed of everything random.
        decisions: Whether to record why jobs waited.
        overhead: Seconds to checkpoint and to restart a job that is stopped: ``"60,120"``, ``(60, 120)``, or 0 for free
            stops. By default as the cluster says, and if it says nothing 0 and 62, as Tiresias' authors measured.
        drop_unfit: Whether to leave out jobs that can never fit.
        network: Let placements cost time: ``profiled``, ``paper``, ``dally``; see the page on networks.
        contention: Whether jobs share the links of that network.
        models: A TOML file with your own models, for the network.
        sharing: How jobs share a GPU: ``time-slice`` or ``mps``.
        since: Start of the evaluation (date, seconds or +days); policies learn from earlier jobs.
        until: End of the evaluation.
        format: Format of the trace; default: detected.
        on_bad_row: ``fail`` or ``skip``: what to do with rows that can't be parsed.
        load: Stretch or compress arrivals until the cluster has this load; default: as in the trace.
        checkpointable: Which jobs policies may stop: ``all``, ``none``, a share such as ``25%``, drawn by user where
            the trace has users (``25%,seed=3`` draws others), or ``user:ann,bob``; default: as in the trace.
        scaling: A TOML file with your measured speeds by number of GPUs, for jobs that give a range.
        losses: A table of loss curves (``curve``, ``iteration``, ``loss``), for jobs whose ``loss_curve`` names one.

    Returns:
        The result: summary, jobs, series, event log.

    Raises:
        InputError: The trace, the cluster or the policy can't be used; the message says why.

    Examples:
        >>> import shunter
        >>> result = shunter.simulate("synthetic:jobs=100,gpus=8,load=0.9", "1x8", "fifo:backfill=easy")
        >>> result.summary["finished"]
        100
        >>> result.jobs.columns[:4]
        ['job_id', 'user', 'vc', 'gpu_type']
    """
    choices = (network, contention, since, until, str(models), sharing, overhead, load, checkpointable, scaling, losses)
    setup = set_up(trace, cluster, [policy] if drop_unfit else (), format, on_bad_row, *choices)
    return run(setup, policy, seed, decisions=decisions)


@dataclass(frozen=True, eq=False)
class Draw:
    """The jobs of one repeat, drawn and checked once for all policies that run on them."""

    setup: Setup
    seed: int = 0
    repeat: int = 0
    _fit: set[str] = field(default_factory=set)  # placements under which every job can run

    @cached_property
    def trace(self) -> Trace:
        """The jobs; with a network they all have models."""
        from shunter.network.model_assignment import with_models

        trace = self.setup.repeat(self.seed, self.repeat)
        return trace if self.setup.costs() is None else with_models(trace, self.seed)

    def check(self, policy: Any) -> None:
        """Refuse a job that can never run under this policy."""
        from shunter.sim.feasibility import placement_of

        placement = placement_of(policy)
        if placement not in self._fit:
            check(dataclasses.replace(self.setup, trace=self.trace), policy)
            self._fit.add(placement)


def run(
    setup: Setup,
    policy: Any,
    seed: int = 0,
    repeat: int = 0,
    progress: Progress | None = None,
    decisions: bool = False,
) -> Result:
    """Run one policy on a setup; ``progress`` gets how far it is now and then.

    With ``decisions`` the run records why jobs waited.
    """
    return run_draw(Draw(setup, check_seed(seed), repeat), policy, progress, decisions)


def run_draw(
    draw: Draw,
    policy: Any,
    progress: Progress | None = None,
    decisions: bool = False,
    budget: int | None = None,
) -> Result:
    """Run one policy on jobs that may have been drawn for another one before.

    After a ``budget`` of decisions the run is abandoned, with an ``AbandonedError``.
    """
    named, setup, seed, repeat = resolve(policy), draw.setup, draw.seed, draw.repeat
    chosen = named.policy
    simulator, scenario = simulator_for(draw, chosen, decisions)
    trace, costs = draw.trace, setup.costs()
    memory = simulator.run(chosen, memory=taught(chosen, setup, trace, named.past), budget=budget, progress=progress)
    if simulator.exhausted:
        raise AbandonedError(f"policy '{named.text}': abandoned after {budget:,} decisions")
    about = {**describe(chosen, trace), "seed": seed}
    record = setup.experiment(named.text, seed, repeat)
    record = dataclasses.replace(record, data=data_of(setup, chosen))
    outcome = (simulator.world.jobs, simulator.events, simulator.digest, float(simulator.elapsed_s))
    reasons = _reasons_given(simulator, chosen, memory) if decisions else None
    communication = simulator.world.progress[w.COMMUNICATION] if costs is not None else None
    timers = _timers(setup.cluster, chosen, memory)
    seen = insights(chosen, memory, scenario.workloads, len(trace))
    return Result(
        record,
        about,
        trace,
        setup.cluster,
        *outcome,
        reasons=reasons,
        remarks=(*training_remarks(chosen, setup), *setup.remarks),
        communication=communication,
        timers=timers,
        insights=seen,
        alone=_alone(simulator),
    )


def _alone(simulator: Any) -> F64 | None:
    """How long each job takes alone, where one has a deadline."""
    trace, world = simulator.trace, simulator.world
    return alone_ms(trace, world.jobs, world.scaling, simulator.cluster) if trace.deadline.any() else None


def simulator_for(draw: Draw, policy: Any, decisions: bool = False) -> tuple[Simulator, Scenario]:
    """The simulator of a run before its first event, and what happens in it besides the jobs."""
    from shunter.sim import Scenario, Simulator

    draw.check(policy)
    setup, trace = draw.setup, draw.trace
    workloads = _workloads(policy, trace, draw.seed, setup.cluster.sharing)
    choices: dict[str, Any] = {"network": setup.costs(), "contention": setup.contention, "workloads": workloads}
    choices |= {"scaling": setup.speeds(), "losses": setup.loss_curves}
    scenario = Scenario(setup.faults, user_cap=setup.user_cap, **choices)
    made = Simulator(trace, setup.cluster, seed=draw.seed + draw.repeat, scenario=scenario, reasons=decisions)
    return made, scenario


def _workloads(policy: Any, trace: Trace, seed: int, way: str) -> Any:
    """What each job does to its GPUs, for a policy that lets several share one: as measured, or fitted to that."""
    sharing = capability(Shares, policy)
    if sharing is None or not sharing.shares:
        return None
    from shunter.sharing.workload_assignment import workloads_of
    from shunter.sim.scenario import Workloads

    return Workloads(*workloads_of(trace, seed, way))


def taught(policy: Any, setup: Setup, trace: Trace, past: FittedPast | None = None) -> Any:
    """The memory of a policy that begins with what happened before the window; None for any other."""
    lessons = lessons_before(policy, setup, trace, past)
    follows = isinstance(policy, FollowsDemand) and setup.history is not None and len(setup.history) > 0
    if lessons is None and not follows:
        return None
    memory = _start_with(policy, setup.cluster, lessons)
    if follows:
        policy.remember(memory, _demand_before(policy, setup))
    return memory


def learned_before(policy: Any, setup: Setup, at: int | None = None) -> FittedPast | None:
    """What a policy that learns knows of the jobs before the window, or an instant; None for any other."""
    learner = capability(Learns, policy)
    if learner is None or not learner.predictor:
        return None
    from shunter.predictors import lessons

    begin = int(setup.trace.submit[0]) if at is None else at
    return lessons.learned_before(
        learner.predictor, begin, setup.history, learner.forecasts, _learned_from(learner, setup)
    )


def lessons_before(policy: Any, setup: Setup, trace: Trace, past: FittedPast | None = None) -> Lessons | None:
    """What a policy that learns is given before the first job of a trace; None for any other.

    ``past`` has been learned before this; it serves where the trace begins with the window, as repeats mostly do.
    """
    at = int(min(setup.trace.submit[0], trace.submit[0]))  # the same for all repeats, so that they share a model
    if past is None or past.at != at:
        past = learned_before(policy, setup, at)
    learner = capability(Learns, policy)
    if past is None or learner is None:
        return None
    return past.lessons(trace, setup.history, _learned_from(learner, setup))


def _learned_from(learner: Learns, setup: Setup) -> Any:
    """The jobs of the history that its model learns from."""
    return None if setup.history is None else learner.lessons_of(setup.history)


def _start_with(policy: Policy, cluster: Cluster, lessons: Lessons | None) -> Memory:
    if isinstance(policy, Learns) and lessons is not None:
        return policy.start_with(cluster, lessons)
    if isinstance(policy, Wraps):
        return policy.start_around(cluster, _start_with(policy.inner, cluster, lessons))
    return policy.start(cluster)


def _demand_before(policy: Any, setup: Setup) -> NodeSeries:
    """How many nodes were in use before the window, had the same policy scheduled what came then."""
    from shunter.energy.series import of_run
    from shunter.sim import Simulator
    from shunter.sim.feasibility import unfit

    assert setup.history is not None
    begin, step = int(setup.trace.submit[0]), round(1000 * policy.step)
    past = Simulator(setup.history.select(~unfit(setup.history, setup.cluster, policy)), setup.cluster)
    past.run(policy.inner, until=begin)
    events = np.vstack([past.events, [begin, 0, -1, 0, 0]])  # jobs that still run do so up to then
    found = of_run(setup.trace.name, events, setup.cluster.nodes, step)
    over = found.time + step <= begin
    return NodeSeries(found.name, found.time[over], found.used[over], found.total[over])


def describe(policy: Any, trace: Trace) -> dict[str, Any]:
    """A policy's name and the source of its estimates on this trace."""
    oracle = "duration" in policy.needs
    describing = capability(Describes, policy)
    estimate = describing.estimate_source(trace) if describing else "oracle" if oracle else "none"
    return {"policy": registry.text(policy), "oracle": oracle, "estimate": estimate}


def training_remarks(policy: Any, setup: Setup) -> list[str]:
    """What one must know of the training of a policy's model before its numbers."""
    trained = capability(RemembersTraining, policy)
    return trained.training_remarks(setup.trace, setup.cluster) if trained else []


def rerun(record: Experiment, progress: Progress | None = None) -> Result:
    """Run an experiment again as it was recorded."""
    check_record(record)
    chosen = resolve(record.policy)
    return run(recorded_setup(record, chosen.policy), chosen, record.seed, record.repeat, progress)


@dataclass(frozen=True, eq=False)
class ReasonLog:
    """Why jobs waited, as the policy said, and what groups of jobs it spoke of."""

    decisions: pl.DataFrame  # time (ms), scope, subject, code, a, b, c: see ``shunter.reasons``
    demand_class: I64  # (jobs,) -1: the policy spoke only of single jobs
    pool: I64  # (jobs,)


def _reasons_given(simulator: Any, policy: Any, memory: Any) -> ReasonLog:
    import polars as pl

    rows = simulator.reasons
    names = {"scope": (SCOPES, rows[:, 1]), "code": (simulator.codes, rows[:, 3])}
    texts = {name: pl.Series(known, dtype=pl.String).gather(codes) for name, (known, codes) in names.items()}
    numbers = {name: rows[:, column] for name, column in (("a", 4), ("b", 5), ("c", 6))}
    frame = {"time": rows[:, 0], "scope": texts["scope"], "subject": rows[:, 2], "code": texts["code"], **numbers}
    none = np.full(len(simulator.trace), -1, np.int64)
    explaining = capability_and_memory(Explains, policy, memory)
    groups = explaining[0].groups(explaining[1]) if explaining else None
    return ReasonLog(pl.DataFrame(frame), *(groups or (none, none)))


def _timers(cluster: Cluster, policy: Any, memory: Memory) -> pl.DataFrame | None:
    """Changes of timers, times in seconds; None if there are none."""
    import polars as pl

    explaining = capability_and_memory(Explains, policy, memory)
    rows = explaining[0].timer_changes(explaining[1]) if explaining else None
    if rows is None or not len(rows):
        return None
    names = cluster.tier_names
    columns = {"time": rows[:, 0] / 1000, "tier": [names[min(tier, len(names) - 1)] for tier in rows[:, 1].tolist()]}
    return pl.DataFrame({**columns, "gpus": rows[:, 2], "timer": rows[:, 3] / 1000, "waits": rows[:, 4]})


@dataclass(frozen=True, eq=False)
class Result:
    """The result of one run. Tables are computed when they are first used.

    ``summary`` has the numbers of ``summary.json``, ``jobs`` one row per job, ``series`` the queue and the busy GPUs
    over time, ``events`` the event log, and ``digest`` its hash. ``save`` writes all of it as a folder, which
    ``load_run`` reads.

    Examples:
        >>> import shunter
        >>> jobs = shunter.Trace.of("two", ["a", "b"], submit=[0, 0], duration=[60_000, 30_000], gpus=[1000, 1000])
        >>> result = shunter.simulate(jobs, "1x1", "fifo")
        >>> result.summary["makespan_s"], result.summary["jct_s"]["mean"], result.summary["utilization"]
        (90.0, 75.0, 1.0)
        >>> result.jobs.select("job_id", "wait", "run", "nodes").rows()
        [('a', 0.0, 60.0, [0]), ('b', 60.0, 30.0, [0])]
    """

    experiment: Experiment
    about: dict[str, Any]  # policy, oracle, estimate, seed: the head of the summary
    trace: Trace
    cluster: Cluster
    table: I64  # (JOB_COLUMNS, jobs) the final job table
    events: I64  # (rows, 5) the event log
    digest: str
    elapsed_s: float  # in the engine
    reasons: ReasonLog | None = None
    remarks: tuple[str, ...] = ()  # what is not as in the trace, in words
    communication: F64 | None = None  # (jobs,) ms that no computing hid; None: there is no network model
    timers: pl.DataFrame | None = None  # how the policy's timers changed, if it tunes some
    insights: Insights = Insights()  # what the policy reports beside its schedule
    alone: F64 | None = None  # (jobs,) ms that each job takes alone at its best; None: no job has a deadline

    @cached_property
    def replay(self) -> Replay:
        """The course of the run at every instant at which something happened."""
        return replay(self.events, self.cluster.node_gpus, len(self.trace))

    @cached_property
    def core_summary(self) -> dict[str, Any]:
        """What of the summary follows from the job table and the replay: all but tiers, energy and insights."""
        return metrics.summary(self.trace, self.table, self.replay, self.cluster.gpus, self.communication)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The dictionary of ``summary.json``."""
        speed = len(self.trace) / self.elapsed_s if self.elapsed_s > 0 else 0.0
        tiers = by_tier(self.events, self.cluster)
        numbers = self.core_summary | self.insights.summary(self.trace, self.table, self.about["estimate"])
        end = {"digest": self.digest, "elapsed_s": self.elapsed_s, "jobs_per_s": speed}
        remarks = [*self.trace.remarks, *self.remarks]
        saved = {"energy": energy(self.events, self.cluster.nodes)} if any_slept(self.events) else {}
        kept = {} if self.alone is None else {"deadlines": deadlines(self.trace, self.table, self.events, self.alone)}
        return {**self.about, **numbers, "tiers": tiers, **saved, **kept, "remarks": remarks, **end}

    @cached_property
    def jobs(self) -> pl.DataFrame:
        """One row per job, times in seconds; ``nodes`` are those of its last run."""
        import polars as pl

        table, trace = self.table, self.trace
        state = np.array(["future", "held", "pending", "running", "stopping", "done", "failed"])[table[w.STATE]]
        frame = pl.DataFrame(
            {
                "job_id": pl.Series(trace.job_id.tolist(), dtype=pl.String),
                "user": _named(trace.users, trace.user),
                "vc": _named(trace.vcs, trace.vc),
                "gpu_type": _named(trace.gpu_types, trace.gpu_type),
                "job_name": _named(trace.job_names, trace.job_name),
                "model": _named(trace.models, trace.model),
                "after": _named(trace.job_id.tolist(), trace.after),
                "gpus": trace.gpus / GPU,
                "limit": pl.Series(trace.limit / 1000).replace(0.0, None),
                "deadline": pl.Series(trace.deadline / 1000).replace(0.0, None),
                "submit": table[w.SUBMIT] / 1000,
                "start": table[w.STARTED] / 1000,
                "end": table[w.ENDED_AT] / 1000,
                "wait": metrics.wait_ms(table) / 1000,
                "run": table[w.EXECUTED] / 1000,
                "lost": metrics.lost_ms(table) / 1000,
                "communication": np.zeros(len(trace)) if self.communication is None else self.communication / 1000,
                "jct": metrics.jct_ms(table) / 1000,
                "rho": finish_time_fairness(trace, table, self.cluster.gpus),
                "state": state,
                "preemptions": table[w.PREEMPTIONS],
                "attempts": table[w.ATTEMPTS],
            }
        ).with_row_index("row")
        rows = self.events[self.replay.last_run]
        nodes = pl.DataFrame({"row": rows[:, 2].astype(np.uint32), "nodes": rows[:, 3]})
        frame = frame.join(
            nodes.group_by("row").agg(pl.col("nodes").sort()), on="row", how="left", maintain_order="left"
        )
        ended, started = pl.col("state").is_in(["done", "failed"]), pl.col("nodes").is_not_null()
        added = {} if self.alone is None else why_columns(trace, self.alone)
        frame = frame.with_columns(pl.col("rho").fill_nan(None), **added, **self.insights.columns(trace, table))
        blanks = [pl.when(ended).then(pl.col(name)).alias(name) for name in ("end", "jct")]
        return frame.with_columns(pl.when(started).then(pl.col("start")).alias("start"), *blanks).drop("row")

    @cached_property
    def series(self) -> pl.DataFrame:
        """Running and waiting jobs, busy GPUs and fragmentation at every change, times in seconds."""
        import polars as pl

        course = self.replay
        return pl.DataFrame(
            {
                "time": course.time / 1000,
                "running": course.running,
                "queue": course.queue,
                "busy_gpus": course.busy / GPU,
                "fragmentation": course.fragmentation,
            }
        )

    @cached_property
    def recorded(self) -> Trace:
        """The run as a trace of what happened, with its waits, run times and outcomes as recorded ones."""
        state = self.table[w.STATE]
        outcome = np.where(state == w.DONE, 0, np.where(state == w.FAILED, 1, -1))
        return dataclasses.replace(
            self.trace,
            duration=self.table[w.EXECUTED],
            recorded_wait=self.table[w.WAITED],
            outcome=outcome,
            outcomes=("completed", "failed"),
        )

    @cached_property
    def kept(self) -> Run:
        """What of it a folder keeps."""
        jobs, decisions = self.jobs, None
        if self.reasons:
            jobs = jobs.with_columns(demand_class=self.reasons.demand_class, pool=self.reasons.pool)
            decisions = self.reasons.decisions
        record = (self.experiment, self.summary, self.cluster)
        return Run(*record, jobs, self.series, self.events, decisions, self.timers, self.insights.pairs)

    def to_pandas(self) -> Any:
        """One row per job (needs pandas)."""
        from shunter.report.frames import pandas

        return pandas().DataFrame(self.jobs.to_dict(as_series=False))

    def report(self, file: str | Path, force: bool = False) -> Path:
        """Write the page of the command line's ``--report``; with ``decisions=True`` it also shows why jobs waited."""
        from shunter.report.html.report import write

        return write(Path(file), [self.kept], [self.summary], force)

    def plot(self, column: str = "jct") -> Figure:
        """How ``jct`` or ``wait`` is distributed: an SVG figure that notebooks show and ``save`` writes."""
        from shunter.report.drawing import distribution

        return distribution(self.jobs[column].cast(float).fill_null(float("nan")).to_numpy(), f"{column} of jobs")

    def figures(self, folder: str | Path, force: bool = False) -> list[Path]:
        """Write the figures of the command line's ``--figures``: PDF, SVG and CSV (needs the extra ``figures``)."""
        from shunter.report.figures import of_run, write

        return write(Path(folder), of_run(self.kept), force)

    def __repr__(self) -> str:
        return f"Result(policy={self.about['policy']!r}, trace={self.trace.name!r}, cluster={self.cluster.name!r})"

    def _repr_html_(self) -> str:
        from shunter.report.frames import html_of
        from shunter.report.verdict import verdict

        return html_of([self.summary], verdict([self.summary]))

    def save(self, folder: str | Path, force: bool = False) -> Path:
        """Write the run as a folder, all of it or nothing; an older run there is replaced only with ``force``."""
        run_folder.save(self.kept, Path(folder), force)
        return Path(folder)


def _named(names: Sequence[str], codes: I64) -> pl.Series:
    import polars as pl

    return pl.Series([names[code] if code >= 0 else None for code in codes.tolist()], dtype=pl.String)
