"""What is simulated, before any policy: the jobs, those before them, the machines, and where all of it came from."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from shunter import __version__, clusters, extensions, registry, traces
from shunter.capabilities import Shares, Wraps, capability
from shunter.cluster import Cluster
from shunter.clusters.stop_costs import USUAL, OverheadLike, text_of, with_costs
from shunter.errors import InputError, NetworkError, PolicyError, RunError, TraceError, did_you_mean
from shunter.experiment import ClusterSource, Experiment, TraceSource
from shunter.model import GPU, Trace
from shunter.params import declared
from shunter.run_folder import libraries
from shunter.safe_files import digest_of
from shunter.seeding import rng
from shunter.texts import counted
from shunter.traces.checkpointable import remark_on, with_checkpointable

if TYPE_CHECKING:
    import polars as pl

    from shunter.network.placing import Costs, Fabric
    from shunter.scaling.curves import Scaling
    from shunter.sim.scenario import Fault

JITTER_MS = 30_000  # a repeat moves every arrival by at most this much
SYNTHETIC = "synthetic"  # a trace text: synthetic, or synthetic:jobs=5000,seed=0,gpus=64,load=1.2

LOADS = (1e-4, 1e4)  # the least and the most that a cluster can be loaded

MOST_NAMED = 5  # unknown models that a remark names

NETWORKS = {  # what --network takes: in words
    "profiled": "calibration profiled",
    "paper": "calibration paper",
    "dally": "the one fitted to Dally's Table I, calibration paper",
    "dally-even": "the one fitted to Dally's Table I, calibration paper, uneven placements charged as even ones",
}

TraceLike: TypeAlias = "Trace | str | Path | pl.DataFrame | Any"  # or a frame of pandas
ClusterLike: TypeAlias = "Cluster | str | Path"


@dataclass(frozen=True, eq=False)
class Setup:
    """What is simulated, before any policy: the jobs, the machines, and where both came from."""

    trace: Trace
    cluster: Cluster
    trace_source: TraceSource
    cluster_source: ClusterSource
    must_fit: tuple[Any, ...] = ()  # policies under which jobs that can never fit are left out
    dropped: int = 0  # how many those were
    network: str = ""  # one of NETWORKS; "": placements cost nothing
    contention: bool = False  # jobs share the links of that network
    models: str = ""  # a file with models of the user's own; "": none
    history: Trace | None = None  # the jobs submitted before the window, from which policies may learn; None: no window
    since: str = ""  # the window as it was given
    until: str = ""
    faults: tuple[Fault, ...] = ()  # nodes that are away for a time; no experiment records this and the next
    user_cap: int = 0  # thousandths of GPUs that one user's jobs may hold together; 0: any number
    sharing: str = ""  # how jobs share a GPU, where that is not as the cluster's file says; ``cluster`` has it already
    overhead: str = ""  # what stops cost, where that is not as the cluster's file says; ``cluster`` has it already
    load: str = ""  # the load to which arrivals were stretched or compressed; ``trace`` has it already
    checkpointable: str = ""  # which jobs may be stopped, where that is not as the trace says; ``trace`` has it already
    scaling: str = ""  # a file with measured speeds by number of GPUs; "": none
    losses: str = ""  # a file with loss curves; "": none

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is not as in the trace, in words."""
        jobs = f"{self.dropped:,} job{'' if self.dropped == 1 else 's'}"
        dropped = f"left out {jobs} that can never fit" if self.dropped else ""
        window = f"only jobs submitted {_window_text(self.since, self.until)}" if self.since or self.until else ""
        load = f"arrivals stretched or compressed to a load of {self.load}" if self.load else ""
        stops = remark_on(self.trace, self.checkpointable)
        return tuple(filter(None, (dropped, window, load, stops, *self.network_remarks, *self.file_remarks)))

    @property
    def since_remark(self) -> str:
        """That ``since`` leaves out nothing, where days were meant; "": it does not seem so."""
        from shunter.traces.slicing import remark_on_begin

        nothing_before = self.history is not None and not len(self.history) and len(self.trace) > 0
        return remark_on_begin(self.since, int(self.trace.submit[0]), self.trace.dated) if nothing_before else ""

    @property
    def file_remarks(self) -> tuple[str, str]:
        """What the files of measured speeds and of losses are good for, in words; "": there is none."""
        return self.scaling_remark, self.losses_remark

    @property
    def losses_remark(self) -> str:
        """How many jobs report losses, in words; "": there is no file."""
        if not self.losses:
            return ""
        named, trace = self.loss_curves, self.trace
        known = np.array([*(name in named for name in trace.loss_curves), False])
        jobs = int((known[trace.loss_curve] & (trace.declarations > 0)).sum())
        none = "" if jobs else "; a job needs a loss_curve of the file, and declared work"
        return f"losses as in {Path(self.losses).name} for {counted(jobs, 'job')}{none}"

    @cached_property
    def loss_curves(self) -> dict[str, tuple[float, ...]]:
        """The loss curves of the user's file that jobs name, by name."""
        from shunter.traces.measurements import read_losses

        named = set(self.trace.loss_curves)
        found = read_losses(Path(self.losses)) if self.losses else {}
        return {name: curve for name, curve in found.items() if name in named}

    @property
    def scaling_remark(self) -> str:
        """Of how many jobs the speed is as a file of the user's has it, in words; "": there is no file."""
        found = self.speeds()
        if found is None:
            return ""
        known = [found.has_measured(name) for name in self.trace.models]
        jobs = sum(known[model] for model in self.trace.model[self.trace.elastic] if model >= 0)
        none = "" if jobs else "; a job needs a model of the file, and min_gpus and max_gpus"
        return f"speed by number of GPUs as measured in {Path(self.scaling).name} for {counted(jobs, 'job')}{none}"

    def speeds(self) -> Scaling | None:
        """Speeds by number of GPUs with the user's measurements first; None: there are none."""
        from shunter.scaling.curves import Scaling

        return Scaling.usual(self.cluster, Path(self.scaling)) if self.scaling else None

    @property
    def network_remarks(self) -> tuple[str, ...]:
        """What the network is, and what is assumed of it, in words; nothing if it does not matter."""
        if not self.network:
            return ()
        slowed = f"where jobs are put changes their speed: network model, {NETWORKS.get(self.network, '')}"
        slowed += f", on {tiers_text(self.cluster)}" if self.network in ("profiled", "paper") else ""
        shared = "; jobs share its links" if self.contention else ""
        bare = "; no layer files: compute is distributed by multiply-adds" if self._lacks_layers() else ""
        return tuple(filter(None, (slowed + shared + bare, *self._own_models(), self._unknown_models())))

    def _own_models(self) -> tuple[str, ...]:
        """What models of the user's take the place of ours, in words."""
        from shunter.network.models import remarks

        return remarks(Path(self.models)) if self.models else ()

    def _unknown_models(self) -> str:
        """Which models the network model does not know, and what stands in for them, in words; "": it knows all."""
        costs = self.costs()
        if costs is None:
            return ""
        named = np.unique(self.trace.model[(self.trace.model >= 0) & (self.trace.gpus > GPU)])
        unknown = [self.trace.models[model] for model in named if not costs.knows(self.trace.models[model])]
        if not unknown:
            return ""
        from shunter.network.models import STAND_IN

        more = f" and {len(unknown) - MOST_NAMED} more" if len(unknown) > MOST_NAMED else ""
        names = ", ".join(f"'{name}'" for name in unknown[:MOST_NAMED]) + more
        jobs = int(np.isin(self.trace.model, [self.trace.models.index(name) for name in unknown]).sum())
        return (
            f"models that are not known communicate as {STAND_IN} does: {names} ({counted(jobs, 'job')}); "
            "describe them in a file for --models"
        )

    def _lacks_layers(self) -> bool:
        """Whether the paper's compute times are wanted and the files with them are not there."""
        return self.network not in ("", "profiled") and _layers() is None

    @property
    def redraws(self) -> bool:
        """Whether a repeat has jobs of its own: a synthetic trace is made again, any other keeps its jobs."""
        return is_synthetic(self.trace_source.path)

    @property
    def drawn_by(self) -> str:
        """What decides, besides the seed and the jobs, how repeats differ; "": nothing."""
        return ""

    def repeat(self, seed: int, repeat: int) -> Trace:
        """The trace of a repeat: 0 is the trace itself, the others differ from it by chance.

        A synthetic trace is made again with the seed ``seed + repeat``.  Of any other, each submission moves by up to
        30 s either way (never before the first one), and the jobs are put in their new order.  A share of jobs that
        may be stopped is drawn again.
        """
        if repeat == 0:
            return self.trace
        if self.redraws:
            refitted = window_of(_synthetic(self.trace_source.path, repeat), self.since, self.until)[1]
            loaded = _loaded(_fitting(refitted, self.cluster, self.must_fit), self.cluster, self.load)
            return with_checkpointable(loaded, self.checkpointable, repeat)
        moved = self.trace.submit + rng(seed + repeat, "jitter").integers(-JITTER_MS, JITTER_MS + 1, len(self.trace))
        moved = np.maximum(moved, self.trace.submit[0])
        redrawn = with_checkpointable(self.trace, self.checkpointable, repeat)
        return dataclasses.replace(redrawn, submit=moved).select(np.argsort(moved, kind="stable"))

    def experiment(self, policy: str, seed: int, repeat: int = 0) -> Experiment:
        """The record that leads to this run again."""
        return Experiment(
            policy,
            seed,
            repeat,
            drop_unfit=bool(self.must_fit),
            network=self.network,
            contention=self.contention,
            models=self.models,
            sharing=self.sharing,
            overhead=self.overhead,
            load=self.load,
            checkpointable=self.checkpointable,
            scaling=self.scaling,
            losses=self.losses,
            since=self.since,
            until=self.until,
            version=__version__,
            trace=self.trace_source,
            cluster=self.cluster_source,
            versions=libraries(),
        )

    def with_overhead(self, overhead: OverheadLike) -> Setup:
        """The same with other costs of stopping jobs."""
        machines = with_costs(self.cluster, text_of(overhead))
        source = dataclasses.replace(self.cluster_source, definition=clusters.to_toml(machines))
        return dataclasses.replace(self, cluster=machines, cluster_source=source, overhead=text_of(overhead))

    def costs(self) -> Costs | None:
        """What placements cost on the cluster's network, if that is to matter."""
        if not self.network:
            if self.contention:
                raise RunError("contention needs a network, and there is none; give --network profiled")
            return None
        from shunter.network.paper import TableFabric
        from shunter.network.placing import TierNetwork
        from shunter.safe_files import data_folder

        if self.network not in NETWORKS:
            raise RunError(f"there is no network '{self.network}'; {did_you_mean(self.network, NETWORKS)}")
        # what is measured is used only where a paper's figures are to come out: `profiled` is the same everywhere
        measured = None if self.network == "profiled" else data_folder()
        if self.network.startswith("dally"):
            uneven = "even" if self.network == "dally-even" else "ring"
            return _costs(TableFabric.of(self.cluster), "paper", uneven, self.models, measured)
        return _costs(TierNetwork.of(self.cluster), self.network, "ring", self.models, measured)


def set_up(  # noqa: PLR0913, PLR0917  one argument per choice
    trace: TraceLike,
    cluster: ClusterLike,
    must_fit: Iterable[Any] = (),
    format: str | None = None,  # noqa: A002
    on_bad_row: str = "fail",
    network: str = "",
    contention: bool = False,
    since: str = "",
    until: str = "",
    models: str = "",
    sharing: str = "",
    overhead: OverheadLike = "",
    load: str | float = "",
    checkpointable: str = "",
    scaling: str | Path = "",
    losses: str | Path = "",
) -> Setup:
    """Read what is to be simulated; jobs that can never fit under one of the policies ``must_fit`` are left out.

    Of a trace with jobs before ``since``, policies may learn from those; only the others are simulated. A cluster that
    describes no network gets one if a ``network`` matters; ``models`` is a file with the user's own models.
    ``overhead`` is what stopping a job costs (see ``clusters.stop_costs``); "": what the cluster says. ``load`` is the
    requested over the available GPU time while jobs arrive; "": as in the trace. ``checkpointable`` says which jobs may
    be stopped (see ``traces.checkpointable``); "": as in the trace. ``scaling`` is a file with the user's measured
    speeds by number of GPUs, ``losses`` one with loss curves.
    """
    whole, trace_source = _trace(trace, format, on_bad_row)
    history, read = window_of(whole, since, until)
    machines = cluster if isinstance(cluster, Cluster) else clusters.load(str(cluster), read)
    machines = clusters.with_tiers(machines) if network else machines
    machines = dataclasses.replace(machines, sharing=sharing) if sharing else machines
    costs = text_of(overhead)
    machines = with_costs(machines, costs)
    text = machines.name if isinstance(cluster, Cluster) else str(cluster)
    cluster_source = ClusterSource(text, clusters.to_toml(machines))
    policies = tuple(registry.policy(policy) for policy in must_fit)
    fitting = _fitting(read, machines, policies)
    wanted = load if isinstance(load, str) else f"{load:g}"
    jobs = with_checkpointable(_loaded(fitting, machines, wanted), checkpointable)
    sources = (trace_source, cluster_source, policies, len(read) - len(jobs))
    named = str(Path(models).resolve()) if models else ""
    window = (history, since, until)
    found = Setup(
        jobs,
        machines,
        *sources,
        network,
        contention,
        named,
        *window,
        sharing=sharing,
        overhead=costs,
        load=wanted,
        checkpointable=checkpointable,
        scaling=str(Path(scaling).resolve()) if str(scaling) else "",
        losses=str(Path(losses).resolve()) if str(losses) else "",
    )
    found.speeds()
    _ = found.loss_curves
    _check_models(found)  # refused before anything is run
    return found


def window_of(trace: Trace, since: str, until: str) -> tuple[Trace | None, Trace]:
    """The jobs submitted before ``since``, None if that is not given, and those from then to before ``until``."""
    from shunter.traces.slicing import moment

    begin, end = (
        moment(text, trace, UTC, option) if text else None for option, text in (("--since", since), ("--until", until))
    )
    if begin is not None and end is not None and begin >= end:
        raise TraceError(
            f"--until {until} must come after --since {since}; exchange them, or write +DAYS: a number alone is seconds"
        )
    inside = np.ones(len(trace), np.bool_)
    if begin is not None:
        inside &= trace.submit >= begin
    if end is not None:
        inside &= trace.submit < end
    if not inside.any():
        raise TraceError(
            f"no job of trace '{trace.name}' was submitted {_window_text(since, until)}; choose another time"
            " ('shunter trace describe' shows when it begins and ends)"
        )
    history = trace.select(trace.submit < begin) if begin is not None else None
    return history, trace if inside.all() else trace.select(inside)


def _loaded(trace: Trace, cluster: Cluster, load: str) -> Trace:
    """The same jobs, their arrivals stretched or compressed until the cluster has this load; "": as they are."""
    if not load:
        return trace
    from shunter.traces.twins import stretched

    try:
        wanted = float(load)
    except ValueError:
        wanted = 0.0
    if not LOADS[0] <= wanted <= LOADS[1]:
        raise RunError(f"--load {load}: must be a number from {LOADS[0]:g} to {LOADS[1]:g}, such as 0.9")
    return stretched(trace, wanted, cluster.gpus)


def _window_text(since: str, until: str) -> str:
    return " and ".join(filter(None, (f"from {since} on" if since else "", f"before {until}" if until else "")))


def _check_models(setup: Setup) -> None:
    """Refuse a network that can't be, and models that can't be calibrated so, of jobs for which it matters."""
    costs, trace = setup.costs(), setup.trace
    if costs is None:
        if setup.models:
            raise RunError("--models needs a network, and there is none; add --network profiled")
        return
    named = np.flatnonzero((trace.model >= 0) & (trace.gpus > GPU))
    for model, first in zip(*np.unique(trace.model[named], return_index=True), strict=True):
        try:
            costs.profile(trace.models[model])
        except NetworkError as error:
            job_id = trace.job_id[named[first]]
            where = f"{_where(setup.trace_source, job_id)}job '{job_id}': model: "
            raise NetworkError(f"{where}{error}; correct it, or leave it empty: one is drawn then") from None


def tiers_text(cluster: Cluster) -> str:
    """A cluster's network in words, and whether it is the one that is assumed where none is described."""
    tiers = ", ".join(f"{tier.name} {tier.bandwidth_gbps:g} GB/s" for tier in cluster.tiers)
    usual = cluster.tiers == clusters.assumed_tiers(cluster)
    return f"{tiers} per GPU" + (
        " (as in Dally's paper; assumed for clusters that describe no network)" if usual else ""
    )


@cache
def _costs(fabric: Fabric, calibration: str, uneven: str, models: str, measured: Path | None) -> Costs:
    from shunter.network.models import STAND_IN, catalogue
    from shunter.network.placing import Costs

    known = catalogue(Path(models)) if models else None
    return Costs(fabric, calibration, known, measured, uneven, STAND_IN)


def check(setup: Setup, policy: Any) -> None:
    """Refuse a setup in which some job can never run under this policy."""
    from shunter.sim.feasibility import check_fit

    try:
        check_fit(setup.trace, setup.cluster, registry.policy(policy))
    except InputError as error:
        raise type(error)(_where(setup.trace_source, error.job_id) + str(error)) from None


def check_record(record: Experiment) -> None:
    """Refuse a record that lacks what a run needs."""
    for key, value in (("trace.path", record.trace.path), ("policy", record.policy)):
        if not value:
            raise RunError(f"the experiment has no {key}; give it with --set {key}=...")
    if record.repeat < 0:
        raise RunError(f"the experiment's repeat must be >= 0, got {record.repeat}")


def recorded_setup(record: Experiment, policy: Any = None) -> Setup:
    """The setup of a recorded experiment; the trace must still be what it was. ``policy``: its policy, if resolved."""
    check_record(record)
    machines: ClusterLike = record.cluster.text
    if record.cluster.definition:
        from shunter.clusters.reading import parse

        machines = parse(record.cluster.definition, f"cluster '{record.cluster.text}' of the experiment")
    chosen = record.policy if policy is None else policy
    must_fit = [chosen] if record.drop_unfit else ()
    source = record.trace
    overhead = record.overhead or ("" if record.cluster.definition else USUAL)
    choices = (record.network, record.contention, record.since, record.until, record.models, record.sharing, overhead)
    more = (record.load, record.checkpointable, record.scaling, record.losses)
    found = set_up(source.path, machines, must_fit, source.format, source.on_bad_row, *choices, *more)
    if record.trace.digest and record.trace.digest != found.trace_source.digest:
        raise RunError(
            f"{record.trace.path}: is not the trace of the experiment any longer (digest {found.trace_source.digest},"
            f" was {record.trace.digest}); to use it anyway: --set trace.digest="
        )
    _check_data(record, found, chosen)
    named = dataclasses.replace(found.cluster_source, text=record.cluster.text)
    return dataclasses.replace(found, cluster_source=named)


def data_of(setup: Setup, policy: Any) -> dict[str, str]:
    """The digests of the files besides the trace that a run reads: models, layers, measurements, a policy's code."""
    from shunter import sharing

    read = {name: Path(name) for name in (setup.models, setup.scaling, setup.losses) if name}
    if setup.network not in ("", "profiled") and (layers := _layers()):
        read |= {f"layers/{path.name}": path for path in sorted(layers.iterdir())}
    sharer = capability(Shares, policy)
    if sharer is not None and sharer.shares:
        tables = Path(sharing.__file__).parent / "measured" / setup.cluster.sharing
        read |= {f"measured/{tables.name}/{path.name}": path for path in sorted(tables.iterdir())}
    read |= _code_of(policy) | _files_of(policy)
    return {name: digest_of(path) for name, path in read.items() if path.is_file()}


def _code_of(policy: Any) -> dict[str, Path]:
    """The files of third parties that a policy uses, by their modules: its own, its placement, its model."""
    inner = _code_of(policy.inner) if isinstance(policy, Wraps) else {}
    known = declared(type(policy)) if dataclasses.is_dataclass(policy) else {}
    named = [str(getattr(policy, key)).partition(":")[0] for key, (_, _, about) in known.items() if about.by_path]
    paths = [path for path in named if "." in path]
    for path in paths:
        extensions.by_path(path, "setting", PolicyError)  # imports it
    modules = [type(policy).__module__, *(path.rpartition(".")[0] for path in paths)]
    files = {module: getattr(sys.modules.get(module), "__file__", None) for module in modules}
    ours = __name__.partition(".")[0]
    return inner | {name: Path(file) for name, file in files.items() if file and name.partition(".")[0] != ours}


def _files_of(policy: Any) -> dict[str, Path]:
    """The files that a policy's parameters name."""
    inner = _files_of(policy.inner) if isinstance(policy, Wraps) else {}
    known = declared(type(policy)) if dataclasses.is_dataclass(policy) else {}
    named = [str(getattr(policy, key)) for key, (_, _, about) in known.items() if about.file]
    return inner | {path: Path(path) for path in named}


def _layers() -> Path | None:
    """The folder with measured layers; None: it is not there."""
    from shunter.network.models import LAYER_FILES
    from shunter.safe_files import data_folder

    folder = data_folder()
    return folder / LAYER_FILES if folder is not None and (folder / LAYER_FILES).is_dir() else None


def _check_data(record: Experiment, setup: Setup, policy: Any) -> None:
    """Refuse to run an experiment again if a file that it read has changed."""
    if not record.data:
        return
    found = data_of(setup, registry.policy(policy))
    for name in {**record.data, **found}:
        was, now = (digests.get(name, "none") for digests in (record.data, found))
        if was != now:
            raise RunError(
                f"{name}: is not the file of the experiment any longer (digest {now}, was {was}); to use it anyway: "
                "--set data="
            )


def read_trace(given: TraceLike, format: str | None = None, on_bad_row: str = "fail") -> Trace:  # noqa: A002
    """The trace behind a path, a ``synthetic`` text, a frame, or the trace itself."""
    return _trace(given, format, on_bad_row)[0]


def trace_version(path: str) -> tuple[int, int]:
    """What changes when the file of a trace is written again; a synthetic trace, or none, never changes."""
    try:
        found = Path(path).stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _trace(given: TraceLike, form: str | None = None, on_bad_row: str = "fail") -> tuple[Trace, TraceSource]:
    if isinstance(given, Trace):
        return given, TraceSource("", given.digest)
    if isinstance(given, str | Path):
        if is_synthetic(str(given)):
            trace, path = _synthetic(str(given)), str(given)
        else:
            trace = traces.read(Path(given), form or None, on_bad_row)
            path = str(given) if str(given) == traces.STANDARD_INPUT else str(Path(given).resolve())
        return trace, TraceSource(path, trace.digest, form or "", on_bad_row)
    trace = traces.of_frame(given)
    return trace, TraceSource("", trace.digest)


def _where(source: TraceSource, job_id: str | None) -> str:
    """The file, and the line where it has lines, that a message about a job begins with."""
    if not source.path or is_synthetic(source.path) or job_id is None:
        return ""
    return " ".join(filter(None, [source.path, traces.place_of(job_id, source.path, source.format or None)])) + ": "


def is_synthetic(text: str) -> bool:
    """Whether a trace is named that needs no file."""
    return text == SYNTHETIC or text.startswith(SYNTHETIC + ":")


def _synthetic(text: str, repeat: int = 0) -> Trace:
    """The trace of a text such as ``synthetic:jobs=5000,load=1.2``; a repeat takes the next seeds."""
    from shunter.traces.synthetic import synthetic

    values = _synthetic_choices(text)
    return synthetic(**{**values, "seed": values["seed"] + repeat})


def jobs_of(text: str) -> int:
    """How many jobs a synthetic trace has, by its text."""
    return int(_synthetic_choices(text)["jobs"])


def _synthetic_choices(text: str) -> dict[str, Any]:
    values: dict[str, Any] = {"jobs": 5000, "seed": 0}
    kinds = {"like": str, "jobs": int, "seed": int, "gpus": int, "load": float, "arrivals": str}
    kinds |= {"deadlines": float, "elastic": float}
    for part in filter(None, text.partition(":")[2].split(",")):
        key, _, value = part.partition("=")
        try:
            values[key] = kinds[key](value)
        except (KeyError, ValueError):
            form = "synthetic:like=NAME,jobs=N,seed=N,gpus=N,load=X,arrivals=batch|poisson,deadlines=X,elastic=X"
            raise TraceError(f"trace '{text}': must be {form}, got '{part}'") from None
    return values


def _fitting(trace: Trace, cluster: Cluster, policies: tuple[Any, ...]) -> Trace:
    """The trace without the jobs that can never run under one of the policies."""
    if not policies:
        return trace
    from shunter.sim.feasibility import unfit

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
