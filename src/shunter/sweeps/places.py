"""A place of a sweep as a setup: traces are read once, everything else is made where it is needed."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from shunter import experiment
from shunter.cluster import Cluster
from shunter.clusters.stop_costs import USUAL
from shunter.errors import InputError, RunError
from shunter.experiment import ClusterSource, TraceSource
from shunter.model import Trace
from shunter.run_folder import versions
from shunter.safe_files import most_loaded
from shunter.setup import Setup, check, data_of, jobs_of, read_trace, set_up
from shunter.simulation import Draw, NamedPolicy, resolve
from shunter.sweeps.plan import Choices, Jobs, Place, RunSpec, SweepPlan

MOST_FILES = 10_000  # of a package that are looked at
JOB_BYTES = 250  # of a job in memory, with its name


@dataclass(frozen=True, eq=False)
class Ground:
    """What the workers of a sweep are given once: every trace, and what is the same for all runs."""

    traces: Mapping[tuple[str, str, str], Trace]  # by what is read, its format, and what happens to bad rows
    choices: Choices
    must_fit: tuple[str, ...]  # the policies under which every job must be able to run
    version: str  # of the shunter that plans; a worker with another one is refused
    seed: int = 0
    clusters: Mapping[str, Cluster] = field(default_factory=dict)  # those that were made before, by their texts

    def setup(self, place: Place) -> Setup:
        """The setup of a place."""
        jobs = place.jobs
        machines = self.clusters.get(place.cluster, place.cluster)
        choices = (place.network, self.choices.contention and bool(place.network), jobs.since, jobs.until)
        models = self.choices.models if place.network else ""
        policies = [resolve(text).policy for text in self.must_fit]
        found = set_up(
            self.traces[source_of(jobs)], machines, policies, None, "fail", *choices, models, "",
            place.overhead, place.load, place.checkpointable,
        )  # fmt: skip
        path = jobs.trace if _made_up(jobs.trace) else str(Path(jobs.trace).resolve())
        source = TraceSource(path, found.trace_source.digest, jobs.format, jobs.on_bad_row)
        return dataclasses.replace(found, trace_source=source)


def source_of(jobs: Jobs) -> tuple[str, str, str]:
    """What is read for these jobs, and how."""
    return jobs.trace, jobs.format, jobs.on_bad_row


def _made_up(trace: str) -> bool:
    return trace.partition(":")[0] == "synthetic"


def ground_of(plan: SweepPlan, seed: int = 0, given: Mapping[str, Trace] | None = None) -> Ground:
    """Read the traces of a plan; ``given`` are traces that were made in memory, by their names."""
    sources = dict.fromkeys(source_of(place.jobs) for place in plan.places)
    _check_jobs(sum(jobs_of(trace) for trace, *_ in sources if _made_up(trace)))
    known, traces, jobs = given or {}, {}, 0
    for each in sources:
        traces[each] = known[each[0]] if each[0] in known else read_trace(each[0], each[1] or None, each[2])
        jobs += len(traces[each])
        _check_jobs(jobs)
    must_fit = tuple(plan.policies) if plan.choices.drop_unfit else ()
    return Ground(traces, plan.choices, must_fit, code_version(), seed)


def _check_jobs(jobs: int) -> None:
    """Refuse traces that together are too large for this machine: a synthetic one before it is made."""
    most = most_loaded() // JOB_BYTES
    if jobs > most:
        raise RunError(
            f"the traces of the sweep have {jobs:,} jobs or more together, and this machine has memory for {most:,};"
            " split the sweep by traces: several can share a folder"
        )


def code_version() -> str:
    """What decides, besides the input, which numbers come out: shunter's version and a hash of its sources."""
    found = versions()
    return f"{found['shunter']}+{found['sources']}"


class Places:
    """The setups of places, made when they are first used; the last few are kept."""

    KEPT = 4

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self._setups: dict[Place, Setup] = {}
        self._policies: dict[tuple[Place, str], NamedPolicy] = {}
        self._identities: dict[tuple[Place, str], Identity] = {}
        self._resolved: dict[str, NamedPolicy] = {}
        self._drawn: tuple[Place, Draw] | None = None

    def setup(self, place: Place) -> Setup:
        """The setup of a place."""
        if place not in self._setups:
            while len(self._setups) >= self.KEPT:
                self._forget(next(iter(self._setups)))
            self._setups[place] = self.ground.setup(place)
        return self._setups[place]

    def _forget(self, old: Place) -> None:
        del self._setups[old]
        self._policies = {key: each for key, each in self._policies.items() if key[0] != old}
        self._identities = {key: each for key, each in self._identities.items() if key[0] != old}

    def draw(self, place: Place, seed: int) -> Draw:
        """The jobs of a place with a seed; the last ones are kept, for the policies that follow."""
        if self._drawn is None or (self._drawn[0], self._drawn[1].repeat) != (place, seed):
            self._drawn = None  # before the next ones are there, which may be large
            self._drawn = (place, Draw(self.setup(place), self.ground.seed, seed))
        return self._drawn[1]

    def policy(self, place: Place, text: str) -> NamedPolicy:
        """A policy, with what it learned from the jobs before the window."""
        from shunter.simulation import learned_before

        key = (place, text)
        if key not in self._policies:
            chosen = self._policy(text)
            self._policies[key] = chosen.with_past(learned_before(chosen.policy, self.setup(place)))
        return self._policies[key]

    def input(self, place: Place) -> str:
        """A hash of the trace and the machines, so that a changed file of the same name counts as another."""
        setup = self.setup(place)
        content = f"{setup.trace_source.digest}\0{setup.cluster_source.definition}"
        return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()

    def identity(self, place: Place, text: str) -> Identity:
        """What the runs of a policy at a place are known by."""
        key = (place, text)
        if key not in self._identities:
            setup, policy = self.setup(place), self._policy(text)  # may forget another place
            self._identities[key] = Identity(setup, policy, self.ground.must_fit, self.ground.choices.measures)
        return self._identities[key]

    def _policy(self, text: str) -> NamedPolicy:
        if text not in self._resolved:
            self._resolved[text] = resolve(text)
        return self._resolved[text]


@dataclass(frozen=True, eq=False)
class Identity:
    """The content of everything that decides the runs of a policy at a place, but for their seeds."""

    setup: Setup
    policy: NamedPolicy
    must_fit: tuple[str, ...] = ()
    found: tuple[str, ...] = ()  # what is found besides the usual numbers, such as measures of third parties

    @cached_property
    def _content(self) -> str:
        """The record of a run with the content of files in place of their names, which differ between machines."""
        setup = self.setup
        record = setup.experiment(self.policy.text, 0)
        drawn_again = setup.trace_source.path if setup.redraws else ""
        past = setup.history.digest if setup.history is not None else ""  # policies may learn from it
        data = {(Path(name).name if Path(name).is_absolute() else name): digest for name, digest in self._data.items()}
        bare = dataclasses.replace(
            record,
            models="",
            version="",
            versions={},
            trace=TraceSource(drawn_again, setup.trace.digest),
            cluster=ClusterSource("", setup.cluster_source.definition),
            data={**data, "history": past},
        )
        dropping = ",".join(sorted(self.must_fit)) if setup.redraws else ""
        unrecorded = repr((setup.faults, setup.user_cap)) if setup.faults or setup.user_cap else ""
        return experiment.to_toml(bare) + dropping + ",".join(self.found) + setup.drawn_by + unrecorded

    @cached_property
    def _data(self) -> dict[str, str]:
        return data_of(self.setup, self.policy.policy) | _packages(self.policy.policy, self.found)

    def key(self, base: int, seed: int) -> str:
        """The name of a run's content: equal for whoever runs it, on whatever machine."""
        return hashlib.blake2b(f"{self._content}\0{base}\0{seed}".encode(), digest_size=16).hexdigest()


def _packages(policy: Any, paths: Sequence[str]) -> dict[str, str]:
    """The digests of packages of third parties that a policy or a measure is from: it may use all of one."""
    dotted = [path for path in paths if "." in path and all(part.isidentifier() for part in path.split("."))]
    modules = [type(policy).__module__, *(path.rpartition(".")[0] for path in dotted)]
    tops = {name.partition(".")[0] for name in modules} - {__name__.partition(".")[0]}
    found = {}
    for top in sorted(tops):
        spec = importlib.util.find_spec(top)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        files = sorted(origin.parent.rglob("*.py"))[:MOST_FILES] if spec.submodule_search_locations else [origin]
        digest = hashlib.blake2b(digest_size=8)
        for file in files:
            digest.update(file.read_bytes())
        found[f"package {top}"] = digest.hexdigest()
    return found


def checked(plan: SweepPlan, ground: Ground) -> None:
    """Refuse a plan with a place that can't be set up, or with a job that can never run there."""
    places, resolved = Places(ground), {text: resolve(text).policy for text in plan.policies}
    for place, text in dict.fromkeys((run.place, run.policy) for run in plan.runs):
        try:
            setup = places.setup(place)
        except InputError as error:
            name, window = place.jobs.name, place.jobs.window
            remedy = f"; or leave it out: [[exclude]] with trace = '{name}' and window = '{window}'" if window else ""
            raise type(error)(f"{described(place)}: {error}{remedy}") from None
        try:
            check(setup, resolved[text])
        except InputError as error:
            remedy = "" if plan.choices.drop_unfit else "; or set drop_unfit = true in the sweep"
            raise type(error)(f"{described(place)}, policy {text}: {error}{remedy}") from None


def described(place: Place) -> str:
    """A place in words."""
    parts = (
        f"trace {place.jobs.name}", place.jobs.window and f"window {place.jobs.window}", f"cluster {place.cluster}",
        place.load and f"load {place.load}", place.network and f"network {place.network}",
        place.overhead != USUAL and f"overhead {place.overhead}",
        place.checkpointable and f"checkpointable {place.checkpointable}",
    )  # fmt: skip
    return ", ".join(part for part in parts if part)


def command_of(run: RunSpec, choices: Choices, base: int) -> str:
    """The command that repeats one run alone."""
    place, jobs = run.place, run.place.jobs
    trace = f"./{jobs.trace}" if jobs.trace.startswith("-") else jobs.trace  # no option
    options: list[tuple[str, str]] = [("--cluster", place.cluster), ("--policy", run.policy), ("--seed", str(base))]
    options += [("--format", jobs.format), ("--since", jobs.since), ("--until", jobs.until), ("--load", place.load)]
    options += [("--network", place.network), ("--overhead", "" if place.overhead == USUAL else place.overhead)]
    options += [("--checkpointable", place.checkpointable)]
    options += [("--on-bad-row", "" if jobs.on_bad_row == "fail" else jobs.on_bad_row)]
    options += [("--models", choices.models if place.network else "")]
    options += [("--set", f"repeat={run.seed}" if run.seed else "")]
    flags = [
        name
        for name, wanted in (
            ("--drop-unfit", choices.drop_unfit),
            ("--contention", choices.contention and place.network),
        )
        if wanted
    ]
    words: Sequence[Any] = [
        "shunter",
        "simulate",
        trace,
        *(word for pair in options if pair[1] for word in pair),
        *flags,
    ]
    return shlex.join(map(str, words))
