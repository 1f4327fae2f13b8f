"""Makes episodes: the jobs of a trace with their estimates, and arrays in which a window of them runs."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shunter import registry
from shunter import world as w
from shunter.arrays import NUMBERS, Arrays
from shunter.capabilities import Compiled
from shunter.cluster import Cluster
from shunter.compiled import compiling
from shunter.errors import ModelError, PolicyError
from shunter.learning import episodes as e
from shunter.model import Trace
from shunter.policies.scored.features import OF_POOL
from shunter.policies.scored.models import ScoreModel, features_of
from shunter.policies.scored.policy import Scored
from shunter.scheduling.queue.decide import decide_pointer, tools_for
from shunter.scheduling.queue.memory import demand_classes, pools_of, pools_seen
from shunter.scheduling.queue.ordering import Ordering
from shunter.scheduling.queue.queue import Inspector, Queue
from shunter.setup import Setup
from shunter.sim import Scenario, Simulator, loop
from shunter.sim import state as s
from shunter.world import F64, I64

LOG_ROWS = 4096


@dataclass(frozen=True)
class LearnedOrder(Scored):
    """An order whose model is at hand, not in a file."""

    given: ScoreModel | None = None

    @cached_property
    def score_model(self) -> ScoreModel:
        """The model itself."""
        return super().score_model if self.given is None else self.given


@dataclass(frozen=True, eq=False)
class LearningGround:
    """What episodes take place on: jobs with estimates that everybody shares, a cluster, and the length of a window."""

    trace: Trace
    cluster: Cluster
    estimates: I64  # (jobs,) ms
    estimate: str  # where they come from, as asked for
    length: int  # jobs of a window
    estimated_by: str = ""  # where they come from, as it turned out: what ``auto`` is on this trace

    def __post_init__(self) -> None:
        if len(self.trace) < self.length:
            raise ModelError(
                f"a window has {self.length:,} jobs, but the trace has {len(self.trace):,}; set --jobs to fewer"
            )

    @property
    def windows(self) -> int:
        """How many jobs a window may begin with."""
        return len(self.trace) - self.length + 1

    @cached_property
    def run_times(self) -> F64:
        """How long each job runs (s)."""
        return self.trace.duration / 1000.0

    @cached_property
    def source(self) -> e.TraceJobs:
        """The jobs as arrays."""
        whole = s.build(self.trace, self.cluster, 0, Scenario())
        world = whole.world
        class_of, sample = demand_classes(world)
        gpus = world.jobs[w.GPUS, sample] * world.jobs[w.SHARE, sample] / 1000
        row_of = pools_seen(world, sample).of_class
        unnumbered = np.full(len(sample), -1, np.int64)
        part, pools = gpus / world.gpus.shape[1], pools_of(world, sample)
        return e.TraceJobs(world.jobs, whole.truth, self.estimates, class_of, part, gpus, pools, row_of, unnumbered)


def ground_for(setup: Setup, estimate: str, length: int) -> LearningGround:
    """The jobs of a setup without dependencies, with what each was estimated to take when it came."""
    trace = dataclasses.replace(
        setup.trace, after=np.full(len(setup.trace), -1, np.int64), model=np.full(len(setup.trace), -1, np.int64)
    )
    found, source = estimates_of(setup, trace, estimate)
    unnamed = dataclasses.replace(trace, user=np.full(len(trace), -1, np.int64))  # estimates are made without it
    return LearningGround(unnamed, setup.cluster, found, estimate, length, source)


def estimates_of(setup: Setup, trace: Trace, estimate: str) -> tuple[I64, str]:
    """What each job was estimated to take when it came, in a run of the whole trace (ms); and by what."""
    from shunter.simulation import taught

    policy = registry.policy(f"saf:backfill=easy,estimate={estimate}")
    assert isinstance(policy, Ordering)
    source = policy.estimate_source(trace)  # refuses what the trace lacks
    if policy.estimate == "oracle":
        return np.maximum(trace.duration, 1), source
    simulator = Simulator(trace, setup.cluster)
    memory = simulator.run(policy, memory=taught(policy, setup, trace))
    return np.maximum(memory.form.memory.estimate, 1), source


class EpisodeEngine:
    """One cluster in arrays, on which a policy, a model or a caller outside plays windows of a ground's jobs.

    ``watched`` is a model whose inputs are recorded or shown; by default the policy's own, if it has one.
    """

    def __init__(
        self,
        ground: LearningGround,
        policy: Ordering,
        watched: ScoreModel | None = None,
        mode: int = e.PICK,
        visible: int = 0,
    ) -> None:
        if policy.backfill == "conservative" or policy.preemptive:
            raise PolicyError("episodes are for orders that stop no job, with backfill=none or backfill=easy")
        self.ground = ground
        known = "oracle" if ground.estimate == "oracle" else "history"  # they are made already; see ``estimates_of``
        self.policy = dataclasses.replace(policy, estimate=known)
        own = policy.score_model if isinstance(policy, Scored) else None
        looked_at = watched or own
        features = {name for given in looked_at.inputs for name in features_of(given)} if looked_at else set()
        sees_pool = bool(features & OF_POOL)
        form = self._form(sees_pool)
        self._decide, self.tools = form.decide, form.parts
        model = form.memory.params if watched is None else watched.arrays()
        in_view = visible or (policy.in_view if isinstance(policy, Scored) else 0) or ground.length
        self.episode = self._arrays(form.memory, model, in_view, mode)
        self.plan = w.new_decision(self.episode.state.world)

    def _form(self, sees_pool: bool) -> Compiled:
        """The compiled policy for the first window; ``sees_pool``: pools are looked at, if not by its key."""
        window = self.ground.trace.select(np.arange(self.ground.length))
        simulator = Simulator(window, self.ground.cluster)
        simulator.prepare(self.policy.needs)
        view = simulator.present()
        with compiling():
            form = self.policy.compiled(view, self.policy.start(self.ground.cluster))
            if not sees_pool or form.memory.config.sees_pool:
                return form
            queue = form.memory.replace(
                config=form.memory.config.replace(sees_pool=True), pools=pools_seen(view.world, form.memory.sample)
            )
            tools = tools_for(form.parts.parts, False, self.policy.backfill, False, self.policy.look)
            return Compiled(decide_pointer(tools), queue, tools)

    def _arrays(self, queue: Queue, model: F64, visible: int, mode: int) -> e.Episode:
        """All arrays that change in one piece, with a copy of how they are at first."""
        ground, length = self.ground, self.ground.length
        source = ground.source
        source = source.replace(local=source.local.copy())
        empty = s.build(ground.trace.select(np.arange(length)), ground.cluster, 0, Scenario())
        empty = empty.replace(log=np.zeros((int(empty.counts[s.LOG_MARGIN]) * 2 + LOG_ROWS, s.LOG_COLUMNS), np.int64))
        classes, pools = min(length, len(source.part)), int(source.pool_of.max(initial=0)) + 1
        queue = with_room(queue, classes, pools, int(source.row_of.max(initial=0)) + 1)
        if mode == e.INSPECT:
            queue = queue.replace(inspector=Inspector(np.zeros(0), np.zeros(length, np.int64)))
        state, queue, live = packed(empty, queue, {id(empty.log), id(queue.params)})
        numbers = queue.state.numbers
        return e.Episode(
            state=state,
            queue=queue,
            source=source,
            course=e.Course(mode=mode),
            live=live,
            first=live.copy(),
            numbers=numbers,
            first_numbers=numbers.copy(),
            shown=np.zeros(visible, np.int64),
            score=np.zeros(visible),
            model=model,
            draws=np.zeros(2, np.int64),
            awaited=np.zeros(0, np.int64),
        )

    def use(self, numbers: F64) -> None:
        """Play on with other numbers of a model of the same form."""
        self.episode.model[:] = numbers

    def waits(self, firsts: I64) -> F64:
        """How long each job of each window waits under the policy itself (s)."""
        waits = np.zeros((len(firsts), self.ground.length))
        form = Compiled(self._decide, self.episode.queue, self.tools)
        stuck = e.run_all(self.episode, loop.engine(), form, self.plan, np.asarray(firsts, np.int64), waits)
        if stuck:
            raise PolicyError(
                f"policy {type(self.policy).__name__.lower()}: {stuck} of {len(firsts)} windows did not end: a job can"
                " never fit; try --drop-unfit"
            )
        return waits

    def play(self, firsts: I64, seeds: I64, record: e.Record, greedy: bool = False) -> tuple[F64, I64]:
        """Play windows with choices drawn by the model: how long jobs wait (s), and how many decisions there were."""
        waits = np.zeros((len(firsts), self.ground.length))
        runs = np.column_stack((firsts, seeds, np.zeros(len(firsts)))).astype(np.int64)
        e.play_all(self.episode, self.tools, self.plan, record, runs, waits, greedy)
        return waits, runs[:, e.DECISIONS]


def new_record(rows: int, decisions: int, inputs: int, share: float = 1.0) -> e.Record:
    """Room for this many rows and decisions."""
    whole = np.zeros(decisions + 1, np.int64)
    return e.Record(
        share=share, seen=np.zeros((rows, inputs)), begin=whole, chosen=np.zeros(decisions, np.int64),
        log_probability=np.zeros(decisions), episode=np.zeros(decisions, np.int64),
    )  # fmt: skip


def with_room(queue: Queue, classes: int, pools: int, rows: int) -> Queue:
    """The queue with room for other classes, pools and rows of pools than those of the first window."""
    whole, numbers = {"size", "blocked", "pool_of", "sample", "class_of", "first"}, {"part", "cost"}
    made: dict[str, Any] = {name: np.zeros(classes, np.int64) for name in whole - {"class_of"}}
    made |= {name: np.zeros(classes) for name in numbers}
    made["head"], made["upset"] = np.full(pools, -1, np.int64), np.zeros(pools, np.int64)
    made["shadow"] = type(queue.shadow)(*(np.full(pools, -1, np.int64) for _ in queue.shadow.fields))
    seen = {name: np.zeros(rows) for name in queue.pools.fields}
    seen |= {"of_class": np.zeros(classes, np.int64), "sample": np.zeros(rows, np.int64)}
    seen |= {"fits": np.zeros(classes), "ways": np.zeros(classes)}
    if not queue.config.sees_pool:
        seen["sample"] = np.zeros(0, np.int64)
    return queue.replace(**made, pools=type(queue.pools)(**seen))


def packed(state: s.SimulationState, queue: Queue, apart: set[int]) -> tuple[s.SimulationState, Queue, I64]:
    """Both with all arrays in one, which is the last; those ``apart`` stay where they are."""
    found: dict[int, Any] = {}
    for struct in (state, queue):
        _collect(struct, found, apart)
    buffer = np.zeros(sum(array.size for array in found.values()), np.int64)
    places: dict[int, Any] = {}
    begin = 0
    for key, array in found.items():
        place = buffer[begin : begin + array.size].view(array.dtype).reshape(array.shape)
        place[...] = array
        places[key], begin = place, begin + array.size
    made: dict[int, Arrays] = {}
    return _rebuilt(state, places, made), _rebuilt(queue, places, made), buffer


def _collect(struct: Arrays, found: dict[int, Any], apart: set[int]) -> None:
    for name, kind in struct.fields.items():
        value = getattr(struct, name)
        if isinstance(value, Arrays):
            _collect(value, found, apart)
        elif kind not in NUMBERS and id(value) not in apart:
            found[id(value)] = value


def _rebuilt(struct: Any, places: dict[int, Any], made: dict[int, Arrays]) -> Any:
    if id(struct) not in made:
        values = {name: getattr(struct, name) for name in struct.fields}
        for name, value in values.items():
            values[name] = _rebuilt(value, places, made) if isinstance(value, Arrays) else places.get(id(value), value)
        made[id(struct)] = type(struct)(**values)
    return made[id(struct)]
