"""Lucid in plain Python: the same decisions as ``shunter.policies.lucid``, written to be read, not to be fast.

Queues are lists, pairs are dictionaries, and everything is looked for from the beginning at every decision.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from shunter import world as w
from shunter.cluster import Cluster
from shunter.model import Action, Assign, Plan, Preempt, Reason, Start, Timer, View
from shunter.placers import consolidate
from shunter.policies.lucid.policy import Lucid
from shunter.predictors import learned as model
from shunter.predictors.learned import Learned
from shunter.predictors.lessons import Lessons, lessons_for, requests_of
from shunter.predictors.throughput import AHEAD, BIN_MS, SubmissionCounts, look_ahead, note_arrival
from shunter.sharing.score import THRESHOLDS, shipped_tree
from shunter.world import F64

LAST_HOUR = 6  # bins
NEW, TO_PROFILE, PROFILING, QUEUED, RUNS, OVER = range(6)  # stages of a job
NO_JOB = -1


@dataclass
class NodeReservation:
    """Nodes that are kept for a job until it should have room there."""

    job: int
    nodes: set[int]
    until: int


@dataclass
class PlainMemory:
    """All that it remembers."""

    cluster: Cluster
    lessons: Lessons | None = None
    begun: bool = False
    learned: Learned | None = None
    due: int = w.NEVER
    odds: F64 = field(default_factory=lambda: np.zeros(0))
    arrivals: SubmissionCounts | None = None
    recent: list[tuple[int, int]] = field(default_factory=list)  # bin and GPUs of every submission
    coming: tuple[float, float] = (0.0, 0.0)  # jobs and GPUs in ten minutes
    bin: int = -1
    timer: int = -1
    packs: bool = True
    stage: dict[int, int] = field(default_factory=dict)
    priority: dict[int, float] = field(default_factory=dict)
    run_time: dict[int, float] = field(default_factory=dict)
    queue: list[tuple[float, int]] = field(default_factory=list)  # of all virtual clusters
    to_profile: list[tuple[int, int]] = field(default_factory=list)  # GPUs, job
    being_profiled: list[int] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)  # of the profiler
    base: int = 0
    home: dict[int, int] = field(default_factory=dict)  # of nodes set apart
    leaving: set[int] = field(default_factory=set)
    shrunk: bool = False
    fresh: list[int] = field(default_factory=list)
    alone: list[int] = field(default_factory=list)  # jobs without a neighbour, in the order in which they became so
    partner: dict[int, int] = field(default_factory=dict)
    kept: dict[int, NodeReservation] = field(default_factory=dict)  # by virtual cluster
    dirty: set[int] = field(default_factory=set)
    up: int = -1
    reasons: list[Reason] = field(default_factory=list)


@dataclass(frozen=True)
class PlainLucid:
    """A configuration of Lucid, decided in plain Python."""

    of: Lucid

    @property
    def needs(self) -> frozenset[str]:
        """As Lucid."""
        return self.of.needs

    def start(self, cluster: Cluster, previous: Lessons | None = None) -> PlainMemory:
        """A fresh memory, with lessons from the past if there are any."""
        return PlainMemory(cluster, previous)

    def decide(self, view: View, memory: PlainMemory) -> Plan:
        """Plan one step."""
        step = Step(self.of, view, memory)
        actions = [] if memory.begun else step.begin()
        while view.now >= memory.due:
            step.refit()
        step.take_in()
        actions = actions or step.next_actions()
        reasons, memory.reasons = memory.reasons, []
        return Plan(actions, reasons if view.reasons_wanted else ())


class Step:
    """One decision."""

    def __init__(self, policy: Lucid, view: View, memory: PlainMemory) -> None:
        self.policy, self.view, self.memory, self.now = policy, view, memory, view.now
        self.all_nodes = range(view.world.nodes.shape[1])

    # -- the beginning, and what is learned on the way

    def begin(self) -> list[Action]:
        """Set nodes apart for the profiler, and take over what runs and waits."""
        policy, memory, view = self.policy, self.memory, self.view
        memory.begun = True
        learns = "duration" not in policy.needs and policy.estimate != "none"
        if learns:
            memory.lessons = memory.lessons or lessons_for(policy.predictor, requests_of(view), None)
            memory.learned = memory.lessons.prepared()
            if policy.estimate != "limit":
                memory.due = memory.lessons.next_look(self.now, policy.refit)
        memory.odds = policy.odds(memory.lessons)
        if memory.lessons is not None and memory.lessons.arrivals is not None:
            memory.arrivals = memory.lessons.arrivals.copy()
        left = {int(vc): [n for n in self.all_nodes if view.nodes.vc[n] == vc] for vc in np.unique(view.nodes.vc)}
        actions: list[Action] = []
        for _ in range(min(policy.profile_nodes * policy.profiling, len(self.all_nodes) // 4)):
            vc = max(left, key=lambda vc: (len(left[vc]), -vc))
            actions += self.set_apart(left[vc].pop())
        memory.base = len(memory.nodes)
        for job in view.running.tolist():
            memory.stage[job] = RUNS
            memory.priority[job] = self.prioritise(job)
            others = {other for gpu in view.placement(job) for other in view.tenants(gpu)} - {job}
            if others:
                memory.partner[job] = min(others)
            else:
                memory.fresh.append(job)
        for job in sorted(set(view.pending.tolist()) - set(view.arrived.tolist())):
            self.enqueue(job)
        return actions

    def refit(self) -> None:
        """Fit the model again to all that had ended when that was due."""
        memory = self.memory
        assert memory.lessons is not None
        assert memory.learned is not None
        memory.lessons = memory.lessons.refitted(self.view.world, memory.learned, memory.due, self.policy.refit)
        memory.learned, memory.odds = memory.lessons.taught(memory.learned), self.policy.odds(memory.lessons)
        memory.due = memory.lessons.next_look(memory.due, self.policy.refit)

    def prioritise(self, job: int) -> float:
        """The place of a job in the order: GPU time by its estimate, in GPU-ms."""
        policy, jobs = self.policy, self.view.jobs
        if policy.estimate == "none":
            return float(jobs.submit[job])
        if self.view.truth is not None:
            expected = float(self.view.truth[job])
        elif policy.estimate == "limit" and self.view.world.jobs[w.LIMIT, job] > 0:
            expected = float(self.view.world.jobs[w.LIMIT, job])
        else:
            assert self.memory.learned is not None
            expected = float(model.estimate(self.view.world.jobs, self.memory.learned, job))
        self.memory.run_time[job] = expected
        return expected * int(jobs.gpus[job]) * int(jobs.share[job]) / 1000

    # -- arrivals and ends

    def take_in(self) -> None:
        """Learn from what ended; put what arrived into the profiler's queue or the main one; note what runs alone."""
        memory, view = self.memory, self.view
        fresh, memory.fresh = memory.fresh, []
        for job in fresh:
            self.lives_alone(job)
        up = int((view.nodes.state == w.UP).sum())
        if up != memory.up:
            memory.up = up
            self.soil_all()
        for job in view.ended.tolist():
            if memory.stage.get(job) != OVER:
                self.gave_up(job)
                memory.stage[job] = OVER
                self.learn(job)
        for job in self.turned_away():
            self.enqueue(job)
        for job in view.arrived.tolist():
            if view.jobs.state[job] == w.PENDING and memory.stage.get(job) not in (TO_PROFILE, QUEUED):
                self.admit(job)

    def learn(self, job: int) -> None:
        """The model learns from jobs that outlast the profiler."""
        policy, world = self.policy, self.view.world
        done = world.jobs[w.STATE, job] == w.DONE
        took = float(world.progress[w.WORK, job]) if done else float(world.jobs[w.EXECUTED, job])
        large = not policy.profiling or world.jobs[w.GPUS, job] > policy.profile_gpus
        if self.memory.learned is None:
            return
        if large or took > round(policy.profile_time * 1000):
            model.learn(world.jobs, self.memory.learned, job, took, self.now)
        else:
            model.forget(self.memory.learned, job)

    def gave_up(self, job: int) -> None:
        """A job is off its GPUs: a partner that stays runs alone again."""
        memory = self.memory
        memory.being_profiled = [other for other in memory.being_profiled if other != job]
        memory.alone = [other for other in memory.alone if other != job]
        other = memory.partner.pop(job, NO_JOB)
        if memory.partner.pop(other, NO_JOB) != NO_JOB and self.view.jobs.state[other] == w.RUNNING:
            self.lives_alone(other)
        memory.dirty.add(int(self.view.jobs.vc[job]))
        if any(self.view.nodes.vc[node] == w.OPEN and node not in memory.home for node in self.all_nodes):
            self.soil_all()

    def admit(self, job: int) -> None:
        """A job came, or came back from its GPUs."""
        memory = self.memory
        first = job not in memory.stage
        if first:
            self.note_coming(job)
        else:
            self.gave_up(job)
        if first and not self.has_room(job) and self.profiles(job):
            memory.stage[job] = TO_PROFILE
            memory.reasons.append(Reason(job, "profile", (len(memory.to_profile),)))
            bisect.insort(memory.to_profile, (int(self.view.jobs.gpus[job]), job))
        else:
            self.enqueue(job)

    def has_room(self, job: int) -> bool:
        """Whether a job can start on arrival: no job of its virtual cluster waits, and GPUs are free."""
        waits = any(self.view.jobs.vc[other] == self.view.jobs.vc[job] for _, other in self.memory.queue)
        if self.policy.profile_when == "always" or waits:
            return False
        return self.find_own(job) is not None

    def enqueue(self, job: int) -> None:
        """A job enters the main queue; the profiler gives nodes back that its virtual cluster needs to hold it."""
        memory, vc = self.memory, int(self.view.jobs.vc[job])
        if not self.places(job, self.own_nodes(vc), self.view.nodes.total.tolist()):
            for node in [n for n in memory.nodes if vc in (w.OPEN, memory.home[n])]:
                self.let_go(node)
            memory.base = min(memory.base, len(memory.nodes))
        memory.stage[job] = QUEUED
        memory.priority[job] = self.prioritise(job)
        before = [entry for entry in memory.queue if self.view.jobs.vc[entry[1]] == vc]
        memory.reasons.append(Reason(job, "order", (bisect.bisect_left(before, (memory.priority[job], job)),)))
        bisect.insort(memory.queue, (memory.priority[job], job))
        memory.dirty.add(vc)

    def soil_all(self) -> None:
        """Something changed that may matter to every virtual cluster."""
        self.memory.dirty.update(range(-1, int(self.view.world.clock[w.LAST_VC]) + 1))

    # -- what is to come

    def note_coming(self, job: int) -> None:
        """A job was submitted."""
        gpus = int(self.view.jobs.gpus[job])
        if self.memory.arrivals is not None:
            note_arrival(self.memory.arrivals, float(gpus), self.now)
        self.memory.recent.append((self.now // BIN_MS, gpus))

    def look_ahead(self) -> None:
        """Once in a bin: what is to come, and whether jobs are packed."""
        memory, this = self.memory, self.now // BIN_MS
        if memory.bin == this:
            return
        memory.bin = this
        if memory.arrivals is not None:
            look_ahead(memory.arrivals, self.now)
            jobs, gpus = (sum(row[: AHEAD - 1].tolist()) / (AHEAD - 1) for row in memory.arrivals.ahead)
        else:
            hour = [count for at, count in memory.recent if this - LAST_HOUR <= at < this]
            jobs, gpus = len(hour) / LAST_HOUR, sum(hour) / LAST_HOUR
        memory.coming = (jobs, gpus)
        packs = self.policy.packing and (not self.policy.dynamic or jobs > self.policy.quiet)
        if packs != memory.packs:
            memory.packs = packs
            self.soil_all()

    # -- deciding

    def next_actions(self) -> list[Action]:
        """Which job leaves the profiler, enters it, or starts from the main queue."""
        memory, view = self.memory, self.view
        over = [j for j in memory.being_profiled if view.jobs.until[j] <= self.now and view.jobs.state[j] == w.RUNNING]
        if over:
            return [Preempt(job, keep=False) for job in over]
        self.look_ahead()
        actions = self.give_back() or self.rescale()  # a node that goes back is not its virtual cluster's before
        if memory.shrunk:
            self.take_in()
        if actions:
            return actions
        if started := self.profile():
            return [started]
        for vc in sorted(memory.dirty):
            if started := self.serve(vc):
                return [started]
            memory.dirty.discard(vc)
        at = (self.now // BIN_MS + 1) * BIN_MS
        if self.policy.packing and not memory.packs and memory.queue and memory.timer != at:
            memory.timer = at
            return [Timer(at)]
        return []

    def serve(self, vc: int) -> Start | None:
        """Start the first job of a virtual cluster that finds a partner or a place."""
        memory, blocking = self.memory, self.policy.blocking
        kept = memory.kept.get(vc)
        waits = kept is not None and memory.stage[kept.job] == QUEUED
        if kept is not None and not (waits and kept.until > self.now):
            del memory.kept[vc]
            if waits:
                self.keep(kept.job)
        mine = [entry for entry in memory.queue if self.view.jobs.vc[entry[1]] == vc]
        large = [job for _, job in mine if self.view.jobs.gpus[job] > self.view.nodes.total.max()]
        if blocking == "reserve" and vc not in memory.kept and large and self.find_own(min(large)) is None:
            self.keep(min(large))
        for entry in mine:
            job = entry[1]
            found = self.join(job) if self.policy.pack_when == "always" else self.alone(job)
            found = found or (self.alone(job) if self.policy.pack_when == "always" else self.join(job))
            if found:
                memory.queue.remove(entry)
                memory.stage[job] = RUNS
                return found
            if blocking == "strict" or (blocking == "skip" and not memory.packs):
                return None
        return None

    def alone(self, job: int) -> Start | None:
        """Start a job on GPUs of its own."""
        gpus = self.find_own(job)
        if gpus is None:
            return None
        self.memory.fresh.append(job)
        return Start(job, gpus)

    # -- places

    def own_nodes(self, vc: int) -> list[int]:
        """The nodes on which the main queue may put jobs of a virtual cluster."""
        mine = [node for node in self.all_nodes if vc == -1 or self.view.nodes.vc[node] in (vc, w.OPEN)]
        return [node for node in mine if node not in self.memory.home]

    def suits(self, job: int, node: int) -> bool:
        """Whether a node has the type of GPU that a job wants."""
        kind = int(self.view.jobs.gpu_type[job])
        return kind < 0 or bool(self.view.world.admits[kind, node])

    def places(self, job: int, among: Iterable[int], free: list[int]) -> list[tuple[int, int]]:
        """The nodes and counts that a job would get on these nodes, if this many GPUs of each node were free."""
        open_to, total = {node for node in among if self.suits(job, node)}, self.view.nodes.total
        usable = np.array([free[node] if node in open_to else 0 for node in self.all_nodes])
        sizes = np.array([total[node] if node in open_to else 0 for node in self.all_nodes])
        nodes, counts = np.zeros(int(sizes.sum()) + 1, np.int64), np.zeros(int(sizes.sum()) + 1, np.int64)
        wanted, order = int(self.view.jobs.gpus[job]), np.argsort(-total, kind="stable")
        if usable.sum() < wanted:
            return []
        used = consolidate.place(usable, sizes, order, wanted, 0, nodes, counts)
        return list(zip(nodes[:used].tolist(), counts[:used].tolist(), strict=True))

    def find(self, job: int, among: Iterable[int]) -> tuple[int, ...] | None:
        """Free GPUs for a job on these nodes, with the CPU and memory that it wants beside each."""
        view, free = self.view, self.view.nodes.free.tolist()
        for left, each in ((view.nodes.cpu_free, view.jobs.cpu), (view.nodes.mem_free, view.jobs.mem)):
            if each[job] > 0:
                free = [max(min(gpus, int(left[node]) // int(each[job])), 0) for node, gpus in enumerate(free)]
        chosen = self.places(job, among, free)
        if not chosen:
            return None
        return tuple(sorted(int(gpu) for node, count in chosen for gpu in view.free_gpus(node)[:count]))

    def find_own(self, job: int) -> tuple[int, ...] | None:
        """Free GPUs for a job of the main queue."""
        shut = self.shut(job)
        return self.find(job, [node for node in self.own_nodes(int(self.view.jobs.vc[job])) if node not in shut])

    # -- reservations

    def left_to_run(self, job: int) -> float:
        """The time that half of the jobs like it which got so old still run; as long again, if none did."""
        age = float(self.now - int(self.view.world.jobs[w.BEGUN, job]))
        expected = self.memory.run_time.get(job, 0.0)
        longer = [odd for odd in self.memory.odds.tolist() if expected * math.exp(odd) > age]
        if not longer or expected <= 0:
            return max(age, 1.0)
        over = len(self.memory.odds) - len(longer)
        middle = (over + len(self.memory.odds)) // 2
        return max(expected * math.exp(self.memory.odds[middle]) - age, 1.0)

    def keep(self, job: int) -> None:
        """Keep the nodes for a job on which it should have room first."""
        view, vc = self.view, int(self.view.jobs.vc[job])
        mine, free = self.own_nodes(vc), view.nodes.free.tolist()
        ends: dict[int, list[int]] = {}
        for node in mine:
            first = int(view.nodes.first_gpu[node])
            for gpu in range(first, first + int(view.nodes.total[node])):
                if tenants := view.tenants(gpu):
                    end = max(int(self.now + self.left_to_run(other)) for other in tenants)
                    ends.setdefault(end, []).append(node)
        for end in sorted(ends):
            for node in ends[end]:
                free[node] += 1
            if chosen := self.places(job, mine, free):
                self.memory.kept[vc] = NodeReservation(job, {node for node, _ in chosen}, end)
                return

    def shut(self, job: int) -> set[int]:
        """The nodes that are kept for another job, and that this one must leave alone."""
        kept = self.memory.kept.get(int(self.view.jobs.vc[job]))
        if kept is None or kept.job == job:
            return set()
        odds = self.memory.odds
        level = min(int(self.policy.certainty * len(odds)), len(odds) - 1)
        longest = self.memory.run_time.get(job, 0.0) * math.exp(odds[level])
        return set() if 0 < longest <= kept.until - self.now else kept.nodes

    # -- pairs

    def score(self, job: int) -> int | None:
        """The sharing score of a job that was seen running."""
        tree = shipped_tree(self.memory.cluster.sharing) if self.policy.scores == "learned" else THRESHOLDS
        use, memory, bandwidth = (float(value) for value in self.view.world.use[:, job])
        return None if math.isnan(use) else tree.score(use, bandwidth, memory)

    def may_share(self, job: int) -> bool:
        """Whether a job is ever packed: whole GPUs of one node, and seen before."""
        whole, fits = self.view.jobs.share[job] == 1000, self.view.jobs.gpus[job] <= self.view.nodes.total.max()
        return bool(whole and fits and self.score(job) is not None)

    def lives_alone(self, job: int) -> None:
        """A job runs on GPUs of its own, all on one node: others may join it."""
        nodes = {int(self.view.gpus.node[gpu]) for gpu in self.view.placement(job)}
        if self.may_share(job) and len(nodes) == 1 and job not in self.memory.alone:
            self.memory.alone.append(job)

    def join(self, job: int) -> Start | None:
        """Start a job beside the lightest that suits; of those alike, beside the one that has been alone longest."""
        memory = self.memory
        if not memory.packs or not self.may_share(job):
            return None
        for other in sorted(memory.alone, key=lambda other: self.score(other) or 0):
            if self.suit_each_other(job, other):
                memory.alone.remove(other)
                memory.partner[job], memory.partner[other] = other, job
                return Start(job, self.view.placement(other), shared=True)
        return None

    def suit_each_other(self, job: int, other: int) -> bool:
        """Whether a job may join another."""
        view, jobs, use = self.view, self.view.jobs, self.view.world.use[w.GPU_MEMORY]
        node, gpus = int(view.gpus.node[view.placement(other)[0]]), int(jobs.gpus[job])
        return bool(
            jobs.vc[job] == jobs.vc[other]
            and jobs.gpus[job] == jobs.gpus[other]
            and (self.score(job) or 0) + (self.score(other) or 0) <= self.policy.capacity
            and self.memory.priority[job] <= self.policy.ratio * self.memory.priority[other]
            and use[job] + use[other] < self.policy.gpu_memory * 1024
            and self.suits(job, node)
            and view.nodes.cpu_free[node] >= jobs.cpu[job] * gpus
            and view.nodes.mem_free[node] >= jobs.mem[job] * gpus
            and node not in self.shut(job)
        )

    # -- the profiler

    def profiles(self, job: int) -> bool:
        """Whether a job is to be profiled at all: whole GPUs, not too many, and the profiler's nodes can hold it.

        A job that can't be stopped is not: it would have to leave the profiler.
        """
        jobs = self.view.jobs
        if not jobs.checkpointable[job]:
            return False
        if jobs.gpus[job] > self.policy.profile_gpus or jobs.share[job] < 1000:
            return False
        return bool(self.places(job, self.memory.nodes, self.view.nodes.total.tolist()))

    def turned_away(self) -> list[int]:
        """Those that waited for nodes that are no longer set apart."""
        memory = self.memory
        if not memory.shrunk:
            return []
        memory.shrunk = False
        away = [entry for entry in memory.to_profile if not self.profiles(entry[1])]
        memory.to_profile = [entry for entry in memory.to_profile if entry not in away]
        return sorted(job for _, job in away if self.view.jobs.state[job] == w.PENDING)

    def profile(self) -> Start | None:
        """Start the next job on the profiler's nodes; no job passes it."""
        memory = self.memory
        while memory.to_profile and self.view.jobs.state[memory.to_profile[0][1]] != w.PENDING:
            memory.to_profile.pop(0)
        gpus = self.find(memory.to_profile[0][1], memory.nodes) if memory.to_profile else None
        if gpus is None:
            return None
        _, job = memory.to_profile.pop(0)
        memory.being_profiled.append(job)
        memory.stage[job] = PROFILING
        return Start(job, gpus, until=self.now + round(self.policy.profile_time * 1000))

    def set_apart(self, node: int) -> list[Action]:
        """Profile jobs of every virtual cluster on a node."""
        self.memory.nodes.append(node)
        self.memory.home[node] = int(self.view.nodes.vc[node])
        self.soil_all()
        return [Assign(node, w.OPEN)] if self.memory.home[node] != w.OPEN else []

    def let_go(self, node: int) -> None:
        """Profile no more jobs on a node."""
        self.memory.nodes.remove(node)
        self.memory.leaving.add(node)
        self.memory.shrunk = True

    def is_idle(self, node: int) -> bool:
        """Whether nothing runs on a node that is up."""
        return bool(self.view.nodes.free[node] == self.view.nodes.total[node] > 0)

    def give_back(self) -> list[Action]:
        """Give nodes back that are no longer wanted and idle."""
        actions: list[Action] = []
        for node in sorted(filter(self.is_idle, self.memory.leaving)):
            self.memory.leaving.discard(node)
            self.soil_all()
            vc = self.memory.home.pop(node)
            actions += [Assign(node, vc)] if vc != w.OPEN else []
        return actions

    def rescale(self) -> list[Action]:
        """One node more while many wait; one less while few wait and few GPUs are to come."""
        memory, policy = self.memory, self.policy
        if not policy.scaling or not memory.base:
            return []
        waiting, more = len(memory.to_profile), len(memory.nodes) < memory.base + policy.profile_growth
        if waiting > policy.profile_queue and more and not memory.leaving:
            kept = {node for reservation in memory.kept.values() for node in reservation.nodes}
            idle = [n for n in self.all_nodes if self.is_idle(n) and n not in memory.home and n not in kept]
            if idle:
                vcs = self.view.nodes.vc.tolist()
                return self.set_apart(max(idle, key=lambda node: (vcs.count(vcs[node]), node)))
        calm = memory.coming[1] <= 5 * policy.profile_gpus
        if 2 * waiting <= policy.profile_queue and len(memory.nodes) > memory.base and calm:
            self.let_go(memory.nodes[-1])
        return []
