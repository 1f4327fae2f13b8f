"""One run: from a trace, a cluster and a policy to a ``Result``, and from there to a folder on disk."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from shunter import __version__, clusters, folders, registry, traces
from shunter import world as w
from shunter.cluster import Cluster
from shunter.errors import InputError, NetworkError, RunError, TraceError, did_you_mean
from shunter.experiment import ClusterSource, Experiment, TraceSource
from shunter.folders import Run
from shunter.model import GPU, Trace
from shunter.reasons import SCOPES
from shunter.report import metrics
from shunter.report.energy import any_slept, energy
from shunter.report.replay import Replay, replay
from shunter.report.rho import finish_time_fairness
from shunter.report.tiers import by_tier
from shunter.seeding import check_seed, rng
from shunter.world import F64, I64

if TYPE_CHECKING:
    import polars as pl

    from shunter.network.placing import Costs, Fabric

JITTER_MS = 30_000  # a repeat moves every arrival by at most so much
SYNTHETIC = "synthetic"  # a trace text: synthetic, or synthetic:jobs=5000,seed=0,gpus=64,load=1.2

NETWORKS = {  # what --network takes: in words
    "profiled": "calibration profiled",
    "paper": "calibration paper",
    "dally": "the one fitted to Dally's Table I, calibration paper",
    "dally-even": "the one fitted to Dally's Table I, calibration paper, uneven placements charged as even ones",
}

TraceLike: TypeAlias = "Trace | str | Path | pl.DataFrame"
ClusterLike: TypeAlias = "Cluster | str | Path"
Progress: TypeAlias = Callable[[int], None]  # told how many jobs have ended


@dataclass(frozen=True, eq=False)
class Scene:
    """What is simulated, before any policy: the jobs, the machines, and where both came from."""

    trace: Trace
    cluster: Cluster
    trace_source: TraceSource
    cluster_source: ClusterSource
    must_fit: tuple[Any, ...] = ()  # policies under which jobs that can never fit are left out
    dropped: int = 0  # how many those were
    network: str = ""  # one of NETWORKS; "": placements cost nothing
    contention: bool = False  # jobs share the links of that network

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is not as in the trace, in words."""
        jobs = f"{self.dropped:,} job{'' if self.dropped == 1 else 's'}"
        dropped = f"left out {jobs} that can never fit" if self.dropped else ""
        slowed = f"where jobs are put changes their speed: network model, {NETWORKS.get(self.network, '')}"
        shared = "; jobs share its links" if self.contention else ""
        bare = "; no layer files: compute is distributed by multiply-adds" if self._lacks_layers() else ""
        return tuple(filter(None, (dropped, slowed + shared + bare if self.network else "")))

    def _lacks_layers(self) -> bool:
        """Whether the paper's compute times are wanted and the files with them are not there."""
        from shunter.files import data_folder
        from shunter.network.models import LAYER_FILES

        folder = data_folder()
        return self.network not in ("", "profiled") and (folder is None or not (folder / LAYER_FILES).is_dir())

    def repeat(self, seed: int, repeat: int) -> Trace:
        """The trace of a repeat: 0 is the trace itself, the others differ from it by chance.

        A synthetic trace is made anew with the seed ``seed + repeat``.  Of any other, each submission moves by up to
        30 s either way (never before the first one), and the jobs are put in their new order.
        """
        if repeat == 0:
            return self.trace
        if _is_synthetic(self.trace_source.path):
            return _fitting(_synthetic(self.trace_source.path, repeat), self.cluster, self.must_fit)
        moved = self.trace.submit + rng(seed + repeat, "jitter").integers(-JITTER_MS, JITTER_MS + 1, len(self.trace))
        moved = np.maximum(moved, self.trace.submit[0])
        return dataclasses.replace(self.trace, submit=moved).select(np.argsort(moved, kind="stable"))

    def experiment(self, policy: str, seed: int, repeat: int = 0) -> Experiment:
        """The record that leads to this run again."""
        return Experiment(
            policy,
            seed,
            repeat,
            drop_unfit=bool(self.must_fit),
            network=self.network,
            contention=self.contention,
            version=__version__,
            trace=self.trace_source,
            cluster=self.cluster_source,
        )

    def costs(self) -> Costs | None:
        """What placements cost on the cluster's network, if that is to matter."""
        if not self.network:
            if self.contention:
                raise RunError("contention is about the links of a network, and there is none; give --network profiled")
            return None
        from shunter.network.paper import TableFabric
        from shunter.network.placing import Tiers

        if self.network not in NETWORKS:
            raise RunError(f"there is no network '{self.network}'; {did_you_mean(self.network, NETWORKS)}")
        if self.network.startswith("dally"):
            return _costs(TableFabric.of(self.cluster), "paper", "even" if self.network == "dally-even" else "ring")
        return _costs(Tiers.of(self.cluster), self.network)


def scene(
    trace: TraceLike,
    cluster: ClusterLike,
    must_fit: Iterable[Any] = (),
    format: str | None = None,  # noqa: A002
    on_bad_row: str = "fail",
    network: str = "",
    contention: bool = False,
) -> Scene:
    """Read what is to be simulated; jobs that can never fit under one of the policies ``must_fit`` are left out."""
    read, trace_source = _trace(trace, format, on_bad_row)
    machines = cluster if isinstance(cluster, Cluster) else clusters.load(str(cluster), read)
    text = machines.name if isinstance(cluster, Cluster) else str(cluster)
    cluster_source = ClusterSource(text, clusters.to_toml(machines))
    policies = tuple(registry.policy(policy) for policy in must_fit)
    jobs = _fitting(read, machines, policies)
    found = Scene(jobs, machines, trace_source, cluster_source, policies, len(read) - len(jobs), network, contention)
    _check_models(found)  # refused before anything is run
    return found


def _check_models(scene: Scene) -> None:
    """Refuse a network that can't be, and models that it does not know, of jobs for which it matters."""
    costs, trace = scene.costs(), scene.trace
    if costs is None:
        return
    named = np.flatnonzero((trace.model >= 0) & (trace.gpus > GPU))
    for model, first in zip(*np.unique(trace.model[named], return_index=True), strict=True):
        try:
            costs.profile(trace.models[model])
        except NetworkError as error:
            job_id = trace.job_id[named[first]]
            where = f"{_where(scene.trace_source, job_id)}job '{job_id}': model: "
            raise NetworkError(f"{where}{error}; correct it, or leave it empty: one is drawn then") from None


@cache
def _costs(fabric: Fabric, calibration: str, uneven: str = "ring") -> Costs:
    from shunter.files import data_folder
    from shunter.network.placing import Costs

    # what is measured is taken only where a paper's figures are to come out: `profiled` is the same everywhere
    return Costs(fabric, calibration, data=data_folder() if calibration == "paper" else None, uneven=uneven)


def check(scene: Scene, policy: Any) -> None:
    """Refuse a scene in which some job can never run under this policy."""
    from shunter.sim.fitting import check_fit

    try:
        check_fit(scene.trace, scene.cluster, registry.policy(policy))
    except InputError as error:
        raise type(error)(_where(scene.trace_source, error.job_id) + str(error)) from None


def simulate(trace: TraceLike, cluster: ClusterLike, policy: Any, seed: int = 0, decisions: bool = False) -> Result:
    """Run one policy on one trace and one cluster; all three as objects or as the texts of the command line."""
    return run(scene(trace, cluster), policy, seed, decisions=decisions)


def run(
    scene: Scene,
    policy: Any,
    seed: int = 0,
    repeat: int = 0,
    progress: Progress | None = None,
    decisions: bool = False,
) -> Result:
    """Run one policy on a scene; ``progress`` is told the number of ended jobs now and then.

    With ``decisions`` it is kept why jobs waited.
    """
    from shunter.network.drawing import with_models
    from shunter.sim import Scenario, Simulator

    chosen, seed = registry.policy(policy), check_seed(seed)
    trace, costs = scene.repeat(seed, repeat), scene.costs()
    if costs is not None:
        trace = with_models(trace, seed)
    check(dataclasses.replace(scene, trace=trace), chosen)
    scenario = Scenario(network=costs, contention=scene.contention)
    simulator = Simulator(trace, scene.cluster, seed=seed + repeat, scenario=scenario, reasons=decisions)
    memory = simulator.run(chosen, progress=progress)
    about = {**describe(chosen, trace), "seed": seed}
    record = scene.experiment(policy if isinstance(policy, str) else about["policy"], seed, repeat)
    outcome = (simulator.world.jobs, simulator.events, simulator.digest, float(simulator.elapsed_s))
    told = _told(simulator, chosen, memory) if decisions else None
    communication = simulator.world.progress[w.COMMUNICATION] if costs is not None else None
    timers = _timers(scene.cluster, chosen.timer_changes(memory)) if hasattr(chosen, "timer_changes") else None
    return Result(record, about, trace, scene.cluster, *outcome, told, scene.remarks, communication, timers)


def describe(policy: Any, trace: Trace) -> dict[str, Any]:
    """What a policy is called and what it goes by on this trace; one of somebody's own need not say."""
    oracle = "duration" in policy.needs
    estimate = policy.estimate_source(trace) if hasattr(policy, "estimate_source") else "oracle" if oracle else "none"
    return {"policy": registry.text(policy), "oracle": oracle, "estimate": estimate}


def rerun(record: Experiment, progress: Progress | None = None) -> Result:
    """Run an experiment again as it was recorded."""
    return run(recorded_scene(record), record.policy, record.seed, record.repeat, progress)


def recorded_scene(record: Experiment) -> Scene:
    """The scene of a recorded experiment; the trace must still be what it was."""
    for key, value in (("trace.path", record.trace.path), ("policy", record.policy)):
        if not value:
            raise RunError(f"the experiment has no {key}; give it with --set {key}=...")
    if record.repeat < 0:
        raise RunError(f"the experiment's repeat must be >= 0, got {record.repeat}")
    machines: ClusterLike = record.cluster.text
    if record.cluster.definition:
        from shunter.clusters.reading import parse

        machines = parse(record.cluster.definition, f"cluster '{record.cluster.text}' of the experiment")
    must_fit = [record.policy] if record.drop_unfit else ()
    source = record.trace
    network = (record.network, record.contention)
    found = scene(source.path, machines, must_fit, source.format, source.on_bad_row, *network)
    if record.trace.digest and record.trace.digest != found.trace_source.digest:
        raise RunError(
            f"{record.trace.path}: is not the trace of the experiment any more (digest {found.trace_source.digest}, was"
            f" {record.trace.digest}); to run on it anyhow: --set trace.digest="
        )
    named = dataclasses.replace(found.cluster_source, text=record.cluster.text)
    return dataclasses.replace(found, cluster_source=named)


@dataclass(frozen=True, eq=False)
class Told:
    """Why jobs waited, as the policy said, and what groups of jobs it spoke of."""

    decisions: pl.DataFrame  # time (ms), scope, subject, code, a, b, c: see ``shunter.reasons``
    demand_class: I64  # (jobs,) -1: the policy spoke only of single jobs
    pool: I64  # (jobs,)


def _told(simulator: Any, policy: Any, memory: Any) -> Told:
    import polars as pl

    rows = simulator.reasons
    names = {"scope": (SCOPES, rows[:, 1]), "code": (simulator.codes, rows[:, 3])}
    texts = {name: pl.Series(known, dtype=pl.String).gather(codes) for name, (known, codes) in names.items()}
    numbers = {name: rows[:, column] for name, column in (("a", 4), ("b", 5), ("c", 6))}
    frame = {"time": rows[:, 0], "scope": texts["scope"], "subject": rows[:, 2], "code": texts["code"], **numbers}
    none = np.full(len(simulator.trace), -1, np.int64)
    groups = policy.groups(memory) if hasattr(policy, "groups") else (none, none)
    return Told(pl.DataFrame(frame), *groups)


def _timers(cluster: Cluster, rows: I64) -> pl.DataFrame | None:
    """Changes of timers, times in seconds; None if there are none."""
    import polars as pl

    if not len(rows):
        return None
    names = cluster.tier_names
    columns = {"time": rows[:, 0] / 1000, "tier": [names[min(tier, len(names) - 1)] for tier in rows[:, 1].tolist()]}
    return pl.DataFrame({**columns, "gpus": rows[:, 2], "timer": rows[:, 3] / 1000, "waits": rows[:, 4]})


@dataclass(frozen=True, eq=False)
class Result:
    """What came out of one run; tables are made when they are first asked for."""

    experiment: Experiment
    about: dict[str, Any]  # policy, oracle, estimate, seed: the head of the summary
    trace: Trace
    cluster: Cluster
    table: I64  # (JOB_COLUMNS, jobs) the final job table
    events: I64  # (rows, 5) the event log
    digest: str
    elapsed_s: float  # in the engine
    told: Told | None = None
    remarks: tuple[str, ...] = ()  # what is not as in the trace, in words
    communication: F64 | None = None  # (jobs,) ms that no computing hid; None: there is no network model
    timers: pl.DataFrame | None = None  # how the policy's timers changed, if it tunes some

    @cached_property
    def replay(self) -> Replay:
        """The course of the run at every instant at which something happened."""
        return replay(self.events, self.cluster.node_gpus, len(self.trace))

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The dictionary of ``summary.json``."""
        speed = len(self.trace) / self.elapsed_s if self.elapsed_s > 0 else 0.0
        numbers = metrics.summary(self.trace, self.table, self.replay, self.cluster.gpus, self.communication)
        tiers = by_tier(self.events, self.cluster)
        end = {"digest": self.digest, "elapsed_s": self.elapsed_s, "jobs_per_s": speed}
        remarks = [*self.trace.remarks, *self.remarks]
        saved = {"energy": energy(self.events, self.cluster.nodes)} if any_slept(self.events) else {}
        return {**self.about, **numbers, "tiers": tiers, **saved, "remarks": remarks, **end}

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
                "submit": table[w.SUBMIT] / 1000,
                "start": table[w.STARTED] / 1000,
                "end": table[w.ENDED_AT] / 1000,
                "wait": table[w.WAITED] / 1000,
                "run": table[w.EXECUTED] / 1000,
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
        frame = frame.with_columns(pl.col("rho").fill_nan(None))
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
        """The run as a trace of what happened: its waits, run times and outcomes, as if they had been recorded."""
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
        if self.told:
            jobs = jobs.with_columns(demand_class=self.told.demand_class, pool=self.told.pool)
            decisions = self.told.decisions
        record = (self.experiment, self.summary, folders.versions(), self.cluster)
        return Run(*record, jobs, self.series, self.events, decisions, self.timers)

    def save(self, folder: str | Path, force: bool = False) -> Path:
        """Write the run as a folder, all of it or nothing; an older run there is replaced only with ``force``."""
        folders.save(self.kept, Path(folder), force)
        return Path(folder)


def _named(names: Sequence[str], codes: I64) -> pl.Series:
    import polars as pl

    return pl.Series([names[code] if code >= 0 else None for code in codes.tolist()], dtype=pl.String)


def read_trace(given: TraceLike, format: str | None = None, on_bad_row: str = "fail") -> Trace:  # noqa: A002
    """The trace behind a path, a ``synthetic`` text, a frame, or the trace itself."""
    return _trace(given, format, on_bad_row)[0]


def _trace(given: TraceLike, form: str | None = None, on_bad_row: str = "fail") -> tuple[Trace, TraceSource]:
    if isinstance(given, Trace):
        return given, TraceSource("", given.digest)
    if isinstance(given, str | Path):
        if _is_synthetic(str(given)):
            trace, path = _synthetic(str(given)), str(given)
        else:
            trace, path = traces.read(Path(given), form or None, on_bad_row), str(Path(given).resolve())
        return trace, TraceSource(path, trace.digest, form or "", on_bad_row)
    with tempfile.TemporaryDirectory() as folder:  # a frame is checked as the CSV that it would be
        given.write_csv(Path(folder) / "frame.csv")
        trace = traces.read(Path(folder) / "frame.csv")
    return trace, TraceSource("", trace.digest)


def _where(source: TraceSource, job_id: str | None) -> str:
    """The file, and the line where it has lines, that a message about a job begins with."""
    if not source.path or _is_synthetic(source.path) or job_id is None:
        return ""
    return " ".join(filter(None, [source.path, traces.place_of(job_id, source.path, source.format or None)])) + ": "


def _is_synthetic(text: str) -> bool:
    return text == SYNTHETIC or text.startswith(SYNTHETIC + ":")


def _synthetic(text: str, repeat: int = 0) -> Trace:
    """The trace of a text such as ``synthetic:jobs=5000,load=1.2``; a repeat takes the next seeds."""
    from shunter.traces.synthetic import synthetic

    values: dict[str, Any] = {"jobs": 5000, "seed": 0}
    kinds = {"like": str, "jobs": int, "seed": int, "gpus": int, "load": float, "arrivals": str}
    for part in filter(None, text.partition(":")[2].split(",")):
        key, _, value = part.partition("=")
        try:
            values[key] = kinds[key](value)
        except (KeyError, ValueError):
            form = "synthetic:like=NAME,jobs=N,seed=N,gpus=N,load=X,arrivals=batch|poisson"
            raise TraceError(f"trace '{text}': must be {form}, got '{part}'") from None
    return synthetic(**{**values, "seed": values["seed"] + repeat})


def _fitting(trace: Trace, cluster: Cluster, policies: tuple[Any, ...]) -> Trace:
    """The trace without the jobs that can never run under one of the policies."""
    if not policies:
        return trace
    from shunter.sim.fitting import unfit

    misfits = np.logical_or.reduce([unfit(trace, cluster, policy) for policy in policies])
    if misfits.all():
        why = (
            "; it is divided into virtual clusters, and no job names one"
            if cluster.vcs and (trace.vc < 0).all()
            else ""
        )
        raise TraceError(
            f"no job of trace '{trace.name}' fits on cluster '{cluster.name}'{why}; choose another cluster"
        )
    return trace.select(~misfits)
