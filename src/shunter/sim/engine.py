"""The simulator: a backend whose world is made of arrays, with a compiled loop for policies that have one."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from shunter import world as w
from shunter.capabilities import Compilable, Compiled, Refits
from shunter.cluster import Cluster
from shunter.compiled import compiling, entry
from shunter.drive import drive, mistake_of
from shunter.errors import AbandonedError, ClusterError, InvariantError, PolicyError
from shunter.model import (
    GPU,
    Action,
    Assign,
    Migrate,
    Plan,
    Power,
    Preempt,
    Reason,
    Refusal,
    Resize,
    Start,
    Timer,
    Trace,
    View,
)
from shunter.protocols import Memory, Observer, Policy
from shunter.reasons import CODES, SCOPES
from shunter.sim import checking, excerpting, loop, side_compiling, state, transitions
from shunter.sim.excerpting import ExcerptRows, JobKinds
from shunter.sim.log_chunk import LogChunk
from shunter.sim.progress import retime_all
from shunter.sim.scenario import Scenario
from shunter.sim.stalling import ProgressMark
from shunter.texts import counted
from shunter.under_way import RunPoint
from shunter.world import F64, I64, Decision, World

WHY = {
    checking.NO_SUCH_JOB: "there is no such job",
    checking.NOT_PENDING: "the job does not wait",
    checking.NOT_RUNNING: "the job does not run",
    checking.NO_SUCH_GPU: "there is no such GPU",
    checking.GPU_TWICE: "a GPU is named twice",
    checking.WRONG_COUNT: "wrong number of GPUs for the job",
    checking.NODE_NOT_UP: "the node is not up",
    checking.WRONG_VC: "the node belongs to another virtual cluster",
    checking.WRONG_TYPE: "the node has GPUs of another type",
    checking.GPU_BUSY: "a GPU is not free",
    checking.NO_CPU: "too few CPU cores are free on a node",
    checking.NO_MEMORY: "too little memory is free on a node",
    checking.NO_SUCH_NODE: "there is no such node",
    checking.NODE_NOT_IDLE: "the node is not idle",
    checking.NODE_NOT_ASLEEP: "the node is not asleep",
    checking.TIME_PAST: "the time is not in the future",
    checking.TOO_MANY_TIMERS: f"more than {state.TIMERS} timers",
    checking.NO_SUCH_VC: "there is no such virtual cluster",
    checking.NO_SLOT: "the GPU holds as many jobs as it can (Scenario.sharing)",
    checking.OUT_OF_RANGE: "the number of GPUs is outside of the job's range (min_gpus, max_gpus)",
    checking.CPU_OUT_OF_RANGE: "the CPU of an instance is outside of the job's range (min_cpus, max_cpus)",
    checking.MEM_OUT_OF_RANGE: "the memory of an instance is outside of the job's range (min_mem_gib, max_mem_gib)",
    checking.WRONG_SERVERS: "wrong number of parameter servers: one at least and a worker, none for a job without them",
    checking.NOT_CHECKPOINTABLE: "the job is not checkpointable, so it keeps its GPUs until it ends",
}
STEP = 20_000  # decisions at most between two reports of progress, and chances to stop ...
FIRST_STEP, STRETCH_S = 100, 0.2  # ... and seconds, as far as the decisions before show how long they take
PLAIN_STEP = 1000  # the same of a policy in plain Python, between two looks whether it gets anywhere
NO_JOBS = np.zeros(0, np.int64)
STEPS: dict[Any, Callable[..., int]] = {}  # the loop, by the pointer of a policy, whose signature has all types
WHOLE = 1e-9  # by which a share of work may fall short of a whole step
COLUMNS = frozenset({"duration", "use"})  # what the simulator can show beyond the request
GENERATIONS = itertools.count(1)  # of views; all excerpts have other rows


class Simulator:
    """One simulated cluster and its jobs.

    ``run`` runs a policy to the end or up to a given time. ``fork`` makes a copy that continues on its own, to ask what
    would happen if. A simulator is also a ``Backend``. For a whole run with its results, ``simulate`` is simpler.

    Args:
        trace: The jobs.
        cluster: The machines.
        seed: Seed of everything random in the engine. Equal input gives equal digests.
        scenario: What happens in addition to the jobs, such as faults.
        reasons: Whether to keep the reasons that policies give for waiting.

    Examples:
        Run half a minute under one policy, then see how two policies would continue:

        >>> import copy, shunter
        >>> import numpy as np
        >>> from shunter.cluster import NodeGroup
        >>> jobs = shunter.Trace.of(
        ...     "three", ["a", "b", "c"], submit=[0, 0, 0], duration=[60_000, 90_000, 10_000], gpus=[1000, 1000, 1000]
        ... )
        >>> simulator = shunter.Simulator(jobs, shunter.Cluster("small", (NodeGroup(count=1, gpus=1),)))
        >>> fifo, shortest = shunter.policy("fifo"), shunter.policy("sjf:estimate=oracle")
        >>> memory = simulator.run(fifo, until=30_000)
        >>> other = simulator.fork()
        >>> _ = simulator.run(fifo, memory=copy.deepcopy(memory))
        >>> _ = other.run(shortest, memory=shortest.start(other.cluster, memory))
        >>> [future.present().waited(np.arange(3)).tolist() for future in (simulator, other)]
        [[0, 60000, 150000], [0, 70000, 60000]]
    """

    def __init__(
        self,
        trace: Trace,
        cluster: Cluster,
        *,
        seed: int = 0,
        scenario: Scenario | None = None,
        reasons: bool = False,
    ) -> None:
        self.trace = trace
        self.cluster = cluster
        self.elapsed_s = 0.0
        self._until, self._budget = w.NEVER - 1, w.NEVER
        self._awaited = NO_JOBS
        self._state = state.build(trace, cluster, seed, scenario or Scenario(), reasons)
        losses = scenario.losses if scenario else {}
        curves = enumerate(trace.loss_curves)
        self._losses = {code: np.array(losses[name]) for code, name in curves if name in losses}
        self._chunks: tuple[LogChunk, ...] = ()
        self._reasons_given: tuple[I64, ...] = ()
        self.codes = tuple(CODES)  # of reasons; a policy may add its own
        self._plan = w.new_decision(self.world)
        self._truth: Any = None
        self._refused = ""
        self._watch, self._unwatched = ProgressMark(), 0
        self._decider = "the policy"  # as messages name it
        self.rows: ExcerptRows | None = None  # of an excerpt: which row is which job of the whole
        self._generation = 0
        self._kinds: JobKinds | None = None  # once an excerpt was taken
        self.exhausted = False  # the last run was stopped by its budget of decisions
        self._begun = self.now
        for warm in (scenario or Scenario()).warm:
            self._start_warm(warm.job, warm.gpus, warm.done)

    # -- what is there

    @property
    def world(self) -> World:
        """Everything visible, as arrays."""
        return self._state.world

    @property
    def now(self) -> int:
        """The present, ms."""
        return int(self.world.clock[w.NOW])

    @property
    def reached(self) -> RunPoint:
        """How far the simulation is."""
        ended = len(self.trace) - int(self._state.counts[state.UNFINISHED])
        busy = int(self.world.gpus[w.USED].sum()) / GPU
        return RunPoint((self.now - self._begun) / 1000, ended, int(self.world.clock[w.N_PENDING]), busy)

    @property
    def coming(self) -> I64:
        """The jobs that have not arrived yet."""
        return np.arange(self._state.counts[state.NEXT_ARRIVAL], len(self.trace))

    @property
    def over(self) -> bool:
        """Whether every job has ended."""
        return bool(self._state.counts[state.UNFINISHED] == 0)

    @property
    def events(self) -> I64:
        """The event log so far: rows of (time, kind, job, a, b), kinds as in ``shunter.world``."""
        rows = self._state.counts[state.LOG_ROWS]
        return np.concatenate((*(chunk.rows() for chunk in self._chunks), self._state.log[:rows]))

    @property
    def reasons(self) -> I64:
        """Why jobs waited, where that is kept: rows of (time, scope, subject, code, three numbers)."""
        rows = self._state.counts[state.REASON_ROWS]
        return np.concatenate((*self._reasons_given, self._state.reasons_log[:rows]))

    @property
    def digest(self) -> str:
        """A hash of the event log: the same seed gives the same digest on every machine."""
        digest = hashlib.blake2b(digest_size=16)
        for chunk in self._chunks:
            digest.update(np.ascontiguousarray(chunk.rows(), "<i8").data)
        digest.update(np.ascontiguousarray(self._state.log[: self._state.counts[state.LOG_ROWS]], "<i8").data)
        return digest.hexdigest()

    # -- the backend

    def prepare(self, needs: frozenset[str]) -> None:
        """Refuse what it does not know; an oracle gets the true durations."""
        if needs - COLUMNS:
            raise PolicyError(
                f"the simulator does not know {', '.join(sorted(needs - COLUMNS))}; it knows {set(COLUMNS)}"
            )
        if "use" in needs and not self._state.uses.shape[1]:
            raise PolicyError(
                "this policy needs the load of jobs on their GPUs, and the scenario has none; set its workloads"
            )
        self._truth = self._state.truth[state.DURATION].astype(np.float64) if "duration" in needs else None

    def _view(self) -> View:
        trace = self.trace
        names = {"user": trace.users, "vc": self.cluster.vcs, "model": trace.models}
        names |= {"job_name": trace.job_names, "account": trace.accounts}
        view = View(self.world, self._truth, MappingProxyType(names), self._reported if self._losses else None)
        if self.rows is not None:
            view.generation, view.moved, view.taken = self._generation, self.rows.moved, self.rows.taken
        return view

    def _reported(self, job: int, done: float) -> F64:
        """The losses of a job up to a share of its declared work: pairs of that share, and loss."""
        curve = self._losses.get(int(self.trace.loss_curve[job]), np.zeros(0))
        count = int(done * len(curve) + WHOLE)
        return np.stack((np.arange(1, count + 1) / max(len(curve), 1), curve[:count]), axis=1)

    def __iter__(self) -> Iterator[View]:
        """One view per decision point, until all jobs have ended or ``run``'s time is up."""
        view = self._view()
        while not loop.have_started(self.world, self._awaited):
            if self._spend(0):
                return
            status = loop.advance(self._state, self._until)
            if status == loop.LOG_FULL:
                self._empty_log()
            elif status == loop.DECIDE:
                self._spend(1)
                self._count_decision()
                yield view
            else:
                return

    def present(self) -> View:
        """What is there now, once everything has happened that happens at this instant."""
        while loop.advance(self._state, self.now) == loop.LOG_FULL:
            self._empty_log()
        return self._view()

    def reconsider(self) -> None:
        """Let the policy decide at this very instant, although nothing new happens at it."""
        self._state.counts[state.MORE] = 1

    def apply(self, plan: Plan) -> Sequence[Refusal]:
        """Check the whole plan and do it; if anything is refused, nothing is done. Its reasons are noted either way."""
        if plan.reasons and self.world.clock[w.REASONS]:
            self._note(plan.reasons)
        decision = self._encode(plan.actions)
        if checking.check(self._state, decision):
            refused = [Refusal(plan.actions[i], WHY[int(code)]) for i, code in enumerate(decision.refusals) if code]
            self._refused = f" Its last refused plan, at {self.now} ms: {refused[0].action}: {refused[0].why}."
            return refused
        counts = self._state.counts
        rows = max(int(counts[state.LOG_MARGIN]), int(decision.counts.sum()))  # at most one per action and GPU
        if counts[state.LOG_ROWS] + rows > len(self._state.log):
            self._empty_log()
            if rows > len(self._state.log):
                raise InvariantError(f"a plan of {len(plan.actions)} actions is too long; divide it")
        loop.perform(self._state, decision)
        self._count_decision()
        return ()

    def _encode(self, actions: Sequence[Action]) -> Decision:
        gpu_ids: list[int] = []
        rows = []
        for action in actions:
            gpus = sorted(map(_held, action.gpus)) if isinstance(action, Start | Migrate | Resize) else []
            gpu_ids += gpus
            rows.append([_held(number) for number in _row(action, len(gpus))])
        table = np.array(rows, np.int64).reshape(-1, w.ACTION_COLUMNS)
        counts = np.array([len(rows), len(gpu_ids), 0], np.int64)
        nothing = np.zeros((0, w.REASON_COLUMNS), np.int64)
        return Decision(table, np.array(gpu_ids, np.int64), counts, np.zeros(len(rows), np.int64), nothing)

    def _note(self, given: Sequence[Reason]) -> None:
        unknown = dict.fromkeys(reason.code for reason in given if reason.code not in self.codes)
        self.codes = (*self.codes, *unknown)
        rows = np.zeros((len(given), 1 + w.REASON_COLUMNS), np.int64)
        for row, reason in zip(rows, given, strict=True):
            row[:4] = self.now, SCOPES.index(reason.scope), reason.job, self.codes.index(reason.code)
            row[4 : 4 + len(reason.numbers)] = reason.numbers
        self._empty_log()
        self._reasons_given = (*self._reasons_given, rows)

    def _empty_log(self) -> None:
        counts = self._state.counts
        self._watch = dataclasses.replace(self._watch, rows=self._watch.rows + int(counts[state.LOG_ROWS]))
        self._chunks = (*self._chunks, LogChunk.of(self._state.log[: counts[state.LOG_ROWS]]))
        self._reasons_given = (*self._reasons_given, self._state.reasons_log[: counts[state.REASON_ROWS]].copy())
        counts[state.LOG_ROWS] = counts[state.REASON_ROWS] = 0

    def _count_decision(self) -> None:
        """Of a policy in plain Python: a look at each would take longer than many a policy."""
        self._unwatched += 1
        if self._unwatched == PLAIN_STEP:
            self._unwatched = 0
            self._look_for_stalls(PLAIN_STEP)

    def _spend(self, decisions: int) -> bool:
        """Take instants at which the policy decided off the budget; true if nothing is left."""
        self._budget -= decisions
        self.exhausted = self._budget <= 0 and not self.over
        return self.exhausted

    def _look_for_stalls(self, decisions: int) -> None:
        """Stop a simulation that got nowhere in this many decisions and those before."""
        self._watch, why = self._watch.after(self._state, decisions)
        if why:
            raise AbandonedError(
                f"{self._decider} makes no progress: {why}. Stopped at {self.now / 1000:,.0f} s of the simulation, "
                f"with {int(self._state.counts[state.UNFINISHED]):,} of {len(self.trace):,} jobs unfinished. Let jobs "
                "run longer before they are stopped (min_run, lease, look_again), or lower the costs in [overheads] of "
                "the cluster"
            )

    # -- running

    def run(
        self,
        policy: Policy,
        *,
        until: int | None = None,
        awaited: I64 = NO_JOBS,
        memory: Memory | None = None,
        budget: int | None = None,
        compiled: bool = True,
        observers: Sequence[Observer] = (),
        progress: Callable[[RunPoint], None] | None = None,
    ) -> Memory:
        """Run a policy to the end, or up to ``until`` (ms); returns its memory, for a later call to go on with.

        Where jobs are ``awaited``, it stops as soon as all of them have started. After a ``budget`` of decisions it
        stops, too, and the simulator is ``exhausted``: what it found so far is no result of the policy.

        The compiled form is used if the policy has one and no observer watches each decision; ``compiled=False`` takes
        the plain loop, which gives the same events.
        """
        self._until = w.NEVER - 1 if until is None else until
        self._awaited, self._decider = awaited, f"policy '{type(policy).__name__.lower()}'"
        self.exhausted, self._budget = False, w.NEVER if budget is None else budget
        if compiled and not observers and isinstance(policy, Compilable):
            memory = self._run_compiled(policy, memory, progress)
        else:
            watchers = [*observers, *([_Progress(self, progress)] if progress else [])]
            begun = time.perf_counter()
            memory = drive(self, policy, watchers, memory)
            self.elapsed_s += time.perf_counter() - begun
        if until is None and not self.over and not self.exhausted and not loop.have_started(self.world, awaited):
            raise mistake_of(policy, self._stuck())
        return memory

    def _run_compiled(self, policy: Any, memory: Memory, progress: Callable[[RunPoint], None] | None) -> Memory:
        self.prepare(policy.needs)
        if memory is None:
            memory = policy.start(self.cluster)
        if self._state.counts[state.MORE] == 0:  # the next view shows what is new since; none of this is
            self.world.clock[[w.N_ENDED, w.N_ARRIVED]] = 0
        with compiling():  # before the clock is started
            with side_compiling.engine():
                form: Compiled = policy.compiled(self._view(), memory)
            steps = self._steps(form)
        begun, step = time.perf_counter(), FIRST_STEP
        while True:
            until = min(self._until, policy.due(memory) - 1) if isinstance(policy, Refits) else self._until
            step = min(step, self._budget)
            limits, entered = (until, step, self._awaited), time.perf_counter()
            status = steps(self._state, loop.engine(), form, self._plan, *limits)
            policy.check_form(memory)
            self._look_for_stalls(step if status == loop.DECIDE else 0)
            spent = status == loop.DECIDE and self._spend(step)
            step = next_step(step, time.perf_counter() - entered)
            if spent:
                self.elapsed_s += time.perf_counter() - begun
                return memory
            if status == loop.LOG_FULL:
                self._empty_log()
            elif status == loop.PAUSED and until < self._until and not loop.have_started(self.world, self._awaited):
                paused = time.perf_counter()
                view = self._view()
                view.reached = until + 1
                policy.refresh(view, memory)
                form = policy.compiled(view, memory)
                steps = self._steps(form)
                begun += time.perf_counter() - paused  # learning is not the engine's time
            elif status == loop.REFUSED:
                raise InvariantError(f"the compiled form of {policy} made an impossible plan at {self.now} ms")
            elif status != loop.DECIDE:
                self.elapsed_s += time.perf_counter() - begun
                return memory
            if progress:
                progress(self.reached)

    def _steps(self, form: Compiled) -> Callable[..., int]:
        """The loop as machine code for the form of a policy; numba looks at the types of it only the first time."""
        kind = (form.decide, self._awaited.flags.writeable)
        if (known := STEPS.get(kind)) is None:
            limits = (self._until, FIRST_STEP, self._awaited)
            known = STEPS[kind] = entry(loop.run, self._state, loop.engine(), form, self._plan, *limits)
        return known

    def _stuck(self) -> str:
        waiting = np.flatnonzero((self.world.jobs[w.STATE] == w.PENDING) | (self.world.jobs[w.STATE] == w.HELD))
        left = f"it left {counted(len(waiting), 'job')} waiting although nothing more will happen"
        return f"{left}.{self._refused} The first:\n{self.story(int(waiting[0]))}"

    def story(self, job: int) -> str:
        """A job's request and its history so far, for messages."""
        names = {getattr(w, name): name for name in ("ARRIVE", "START", "FINISH", "FAIL", "PREEMPT", "STOP", "MOVE")}
        table, events = self.world.jobs, self.events
        lines = [
            f"job '{self.trace.job_id[job]}': {table[w.GPUS, job]} GPUs, submitted at {table[w.SUBMIT, job]} ms, "
            f"state {('future', 'held', 'pending', 'running', 'stopping', 'done', 'failed')[table[w.STATE, job]]}"
        ]
        for moment, kind, _, a, b in events[events[:, 2] == job]:
            lines.append(f"  {moment} ms {names.get(int(kind), kind)} {a} {b}")
        return "\n".join(lines)

    # -- copies and beginnings

    def fork(self) -> Simulator:
        """A cheap, independent copy: the two then go their own ways. Copy a policy's memory with ``copy.deepcopy``."""
        twin = copy.copy(self)
        twin._state = state.copy(self._state)  # noqa: SLF001
        twin._plan = w.new_decision(self.world)  # noqa: SLF001
        return twin

    def fork_with(self, durations: I64, failures: I64 | None = None) -> Simulator:
        """A fork in which the jobs take other times than the trace says: one of many futures.

        ``failures`` says how often each will still fail; without it they fail as in the trace.
        """
        if durations.shape != (len(self.trace),) or (durations < 1).any():
            raise InvariantError(f"there must be {len(self.trace)} durations above 0 ms, one for each job")
        twin = self.fork()
        if failures is not None:
            twin._state.truth[state.FAILURES] = failures  # noqa: SLF001
        twin._take(durations)  # noqa: SLF001
        return twin

    def _take(self, durations: I64) -> None:
        self._state.truth[state.DURATION] = durations
        retime_all(self._state)

    def excerpt(
        self,
        arrivals: I64 = NO_JOBS,
        submit: I64 | None = None,
        durations: I64 | None = None,
        arriving: I64 | None = None,
    ) -> Simulator:
        """The unfinished jobs with what they did so far, and given arrivals, as a simulation of their own.

        It is much smaller than a fork, and its jobs have other rows: ``rows`` says which. A policy that continues there
        with ``policy.start(cluster, memory)`` decides as it would in a fork, except that models are not fitted again.

        Args:
            arrivals: Jobs of the trace that are still to come, by row. One that is there or has ended comes again, as
                another job that asks for the same.
            submit: When they arrive (ms), in this order and not before now; None: as in the trace.
            durations: True run times (ms) in place of the trace's, for every job of the trace; then no job fails.
            arriving: Those of the arrivals, where they are not the same.
        """
        times = self.trace.submit[arrivals] if submit is None else submit
        if len(times) != len(arrivals) or (np.diff(times) < 0).any() or (times < self.now).any():
            raise InvariantError("arrivals must be in the order of their submission, and none before the present")
        self._kinds = self._kinds or excerpting.kinds_of(self.world)
        rows = excerpting.rows_for(self._state, self._kinds, np.asarray(arrivals, np.int64))
        twin = copy.copy(self)
        twin._state = excerpting.excerpt_of(self._state, self.trace, rows, times)  # noqa: SLF001
        twin.trace = dataclasses.replace(self.trace.select(rows.taken), submit=twin.world.jobs[w.SUBMIT].copy())
        twin._plan, twin._kinds = w.new_decision(twin.world), self._kinds.select(rows.taken)  # noqa: SLF001
        twin._chunks, twin._reasons_given = (), ()  # noqa: SLF001
        twin._watch, twin._unwatched, twin._truth = ProgressMark(), 0, None  # noqa: SLF001
        twin.rows, twin._generation = rows, next(GENERATIONS)  # noqa: SLF001
        if durations is not None:  # what is to fail belongs to the truth that these replace
            twin._state.truth[state.FAILURES] = 0  # noqa: SLF001
        if durations is not None or arriving is not None:
            taken = (self._state.truth[state.DURATION] if durations is None else durations)[rows.taken]
            if arriving is not None:
                taken[rows.begins :] = arriving
            twin._take(taken)  # noqa: SLF001
        return twin

    @property
    def durations(self) -> I64:
        """The run times that the jobs of this simulation take (ms): the truth, which no policy may see."""
        durations: I64 = self._state.truth[state.DURATION]
        return durations

    @property
    def failures(self) -> I64:
        """How often the jobs of this simulation will still fail: the truth, too."""
        failures: I64 = self._state.truth[state.FAILURES]
        return failures

    def _start_warm(self, job: int, gpus: Sequence[int], done: int) -> None:
        if not 0 <= job < len(self.trace) or self.world.jobs[w.STATE, job] != w.FUTURE:
            raise ClusterError(f"warm job {job} must be one of the trace's 0..{len(self.trace) - 1} and be named once")
        if self.trace.submit[job] > self.now:
            raise ClusterError(
                f"warm job '{self.trace.job_id[job]}' is submitted at {self.trace.submit[job]} ms, after the simulation"
                f" begins at {self.now} ms; set Scenario.begin, or leave the job to arrive"
            )
        transitions.admit(self._state, job)
        self.world.progress[:2, job] = done
        refusals = self.apply(Plan((Start(job, gpus),)))
        if refusals:
            raise ClusterError(
                f"warm job '{self.trace.job_id[job]}' can't run on GPUs {tuple(gpus)}: {refusals[0].why}"
            )


class _Progress:
    """Reports now and then how far a simulation is."""

    def __init__(self, simulator: Simulator, report: Callable[[RunPoint], None]) -> None:
        self._simulator, self._report, self._reported = simulator, report, time.perf_counter()

    def decided(self, view: View, plan: Plan, refusals: Sequence[Refusal]) -> None:
        """Report if it is time."""
        if (now := time.perf_counter()) - self._reported >= STRETCH_S:
            self._reported = now
            self._report(self._simulator.reached)


def _row(action: Action, size: int) -> tuple[int, ...]:  # noqa: PLR0911 one per kind
    match action:
        case Start(job, _, until, shared):
            lease = w.NEVER if until is None else min(until, w.NEVER)
            return w.A_START, job, size + (w.SHARED if shared else 0), lease, *_each(action)
        case Preempt(job, keep):
            return w.A_PREEMPT, job, 0, int(keep), 0, 0, 0
        case Migrate(job):
            return w.A_MIGRATE, job, size, 0, 0, 0, 0
        case Resize(job):
            return w.A_RESIZE, job, size, 0, *_each(action)
        case Power(node, on):
            return w.A_POWER, node, 0, int(on), 0, 0, 0
        case Assign(node, vc):
            return w.A_ASSIGN, node, 0, vc, 0, 0, 0
        case Timer(at):
            return w.A_TIMER, 0, 0, at, 0, 0, 0


def _held(number: int) -> int:
    """A number of an action; one that 64 bits can't hold becomes -1, which is no job, no GPU and in no range."""
    return number if -(2**63) <= number < 2**63 else -1


def _each(action: Start | Resize) -> tuple[int, int, int]:
    """CPU and memory of an instance, and servers; 0: not said. What can't be, 0 itself included, becomes -1."""
    cpu, mem, servers = (
        0 if each is None else (each if each > 0 else -1) for each in (action.cpu, action.mem, action.servers)
    )
    return cpu, mem, servers


def next_step(step: int, took: float) -> int:
    """Decisions until the loop returns, by the seconds that the last ones took; Ctrl-C and progress wait for it."""
    wanted = int(step * STRETCH_S / max(took, 1e-6))
    return max(1, min(wanted, 4 * step, STEP))
