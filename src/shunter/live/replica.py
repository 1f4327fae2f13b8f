"""A simulated cluster in the present state of the real one: the same jobs wait, the same jobs run.

It serves twice: as the world that a policy sees and plans in, whose clock stands still, and as the start of what
may come, which is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from shunter import world as w
from shunter.live.machines import Machines
from shunter.live.nodes import Node
from shunter.live.requests import UNKNOWN
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.model import GPU, Trace
from shunter.network import models
from shunter.scaling.curves import published
from shunter.sim.engine import Simulator
from shunter.sim.scenario import Fault, Scenario, Warm
from shunter.world import I64, World

UNKNOWN_MS = 30 * 86_400_000  # assumed run time of a job without any information
LATEST_DUE_MS = 10**12  # a deadline farther off than 31 years is none that matters; a trace has no later ones
SKEW_MS = 30_000  # clocks may differ by so much
COLUMNS = ("user", "vc", "gpu_type", "model", "account", "job_name")
NAMED = {"user": "user", "account": "account", "job_name": "name"}  # our column: the manager's field


class Names:
    """The codes of names: a name keeps its code as long as it is in use, so that what is learned of it can be kept."""

    def __init__(self, given: Mapping[str, Sequence[str]] | None = None) -> None:
        self._texts = {column: list((given or {}).get(column, ())) for column in COLUMNS}  # by code; "": no user's
        self._codes = {column: {name: code for code, name in enumerate(of)} for column, of in self._texts.items()}
        self._given = {column: len(of) for column, of in self._texts.items()}
        self._free: dict[str, list[int]] = {column: [] for column in COLUMNS}

    @classmethod
    def of(cls, history: Trace | None) -> Names:
        """The codes that a history has given out, or none."""
        if history is None:
            return cls()
        return cls({column: getattr(history, Trace.names_of(column)) for column in COLUMNS})

    def code(self, column: str, name: str) -> int:
        """The code of a name; -1 for none."""
        known = self._codes[column]
        if not name or name in known:
            return known.get(name, -1)
        texts, free = self._texts[column], self._free[column]
        code = free.pop() if free else len(texts)
        texts[code : code + 1] = [name]
        known[name] = code
        return code

    def keep(self, column: str, names: Collection[str]) -> None:
        """Forget all names but these and those of the history; their codes go to names to come."""
        known, texts = self._codes[column], self._texts[column]
        gone = [name for name, code in known.items() if code >= self._given[column] and name not in names]
        for name in gone:
            code = known.pop(name)
            texts[code] = ""
            self._free[column].append(code)

    def count(self, column: str) -> int:
        """How many names are known."""
        return len(self._codes[column])

    def table(self) -> dict[str, tuple[str, ...]]:
        """All names, in the order of their codes, as a trace takes them."""
        return {Trace.names_of(column): tuple(self._texts[column]) for column in COLUMNS}


class Replica:
    """The simulated cluster, and which of its rows is which of the manager's jobs.

    Jobs that are ``coming`` join the queue when they are submitted; ``after`` says which job another waits for, and
    ``repeats`` how many tasks of an array a job stands for that run one after another.  Of arrays as such the first
    tasks are there, as many as could run at a time.  ``stoppable`` says which jobs may be stopped; by default those
    that have agreed.
    """

    def __init__(  # noqa: PLR0913 all that there may be besides what runs
        self,
        snapshot: Snapshot,
        machines: Machines,
        names: Names,
        waiting: Iterable[LiveJob],
        *,
        ended: Sequence[LiveJob] = (),
        coming: Iterable[LiveJob] = (),
        after: Mapping[str, str] | None = None,
        repeats: Mapping[str, int] | None = None,
        durations: Mapping[str, int] | None = None,
        stoppable: Callable[[LiveJob], bool] = lambda job: job.may_be_requeued,
        widths: Callable[[LiveJob], tuple[int, int]] = lambda _: (0, 0),
        reasons: bool = False,
        seed: int = 0,
    ) -> None:
        self._stoppable, self._widths = stoppable, widths
        self.snapshot, self.machines, self._after = snapshot, machines, after or {}
        self.requests, self._repeats = snapshot.requests, repeats or {}
        held = self._placements()
        running = [job for job in snapshot.jobs if job.id in held]
        usable = [
            task
            for job in waiting
            if machines.vc_of(job) is not None
            and job.gpus + job.shards > 0
            and job.gpus <= machines.cluster.gpus  # Slurm takes any number for a held job, also one of twenty digits
            and job.eligible <= snapshot.now + SKEW_MS  # after a requeue the manager says no reason for a moment
            for task in job.first_tasks(machines.at_a_time(job, self.requests.of(job)) if job.is_array else 1)
        ]
        jobs = [*usable, *running, *ended]
        self._since = self._order(jobs)
        jobs.sort(key=lambda job: (self._since[job.id], number_of(job.id)))
        later = sorted((job for job in coming if job.submit > snapshot.now), key=lambda job: job.submit)
        self._later = {job.id for job in later}
        self.jobs: tuple[LiveJob, ...] = (*jobs, *later)  # by row
        self.rows = {job.id: row for row, job in enumerate(self.jobs)}
        self.repeats = np.array([self._repeats.get(job.id, 1) for job in self.jobs], np.int64)
        trace = self._trace(names, held, durations or {})
        warm = tuple(Warm(self.rows[job], gpus, self.jobs[self.rows[job]].done_ms) for job, gpus in held.items())
        self.node_sets = self._node_sets(set(held))
        outages = self._outages()
        scenario = Scenario(
            warm=warm, begin=snapshot.now, node_sets=self.node_sets, faults=outages, drains=bool(outages)
        )
        self.simulator = Simulator(trace, machines.cluster, scenario=scenario, reasons=reasons, seed=seed)
        over = [self.rows[job.id] for job in ended]
        self.simulator.world.jobs[w.STATE, over] = w.DONE  # so that they don't arrive
        self.view = self.simulator.present()
        self._correct(self.simulator.world, set(held))

    def _order(self, jobs: Iterable[LiveJob]) -> dict[str, int]:
        """Since when each could run, and none before the one that it waits for: of tasks that wait Slurm says less."""
        found = {job.id: _came(job) for job in jobs}
        for job, parent in self._after.items():
            if job in found and parent in found:
                found[job] = max(found[job], found[parent])
        return found

    def _placements(self) -> dict[str, tuple[int, ...]]:
        """The GPUs of running jobs, but not on nodes that are reserved now: these come back when that is over."""
        now = self.snapshot.now
        kept = {name for each in self.snapshot.reservations if each.start <= now < each.end for name in each.nodes}
        found = placements(self.snapshot, self.machines)
        jobs = {job.id: job for job in self.snapshot.jobs}
        return {name: gpus for name, gpus in found.items() if kept.isdisjoint(jobs[name].nodes)}

    def _outages(self) -> tuple[Fault, ...]:
        """When nodes are kept for the jobs of a reservation; of one that has begun, until when."""
        now, place = self.snapshot.now, self.machines.place
        nodes = {node.name: node for node in self.snapshot.nodes}
        return tuple(
            Fault(max(start, now + 1), place[name], end, known=True)
            for each in self.snapshot.reservations
            if not each.partial
            for start, end in each.times(now, now + UNKNOWN_MS)
            for name in each.nodes
            if name in place and (nodes[name].up or nodes[name].reserved)
        )

    def _node_sets(self, held: set[str]) -> tuple[tuple[int, ...], ...]:
        """Sets of nodes that waiting jobs are bound to; ``self.bound`` says which job to which, -1: to none."""
        place, sets = self.machines.place, dict[frozenset[str], int]()
        self.bound = [-1] * len(self.jobs)
        for row, job in enumerate(self.jobs):
            names = self.requests.of(job).names
            if job.id not in held and not job.over and names != self.machines.admitted(job):
                self.bound[row] = sets.setdefault(names, len(sets))
        return tuple(tuple(place[name] for name in names if name in place) for names in sets)

    def _thousandths(self, job: LiveJob) -> int:
        return self.machines.thousandths(job, self.requests.of(job).gpus)

    def _trace(self, names: Names, held: Mapping[str, tuple[int, ...]], durations: Mapping[str, int]) -> Trace:
        """The jobs as a trace."""
        jobs, types = self.jobs, self.machines.cluster.named_types
        given: dict[str, Any] = {
            column: [names.code(column, getattr(job, of)) for job in jobs] for column, of in NAMED.items()
        }
        given["model"] = [names.code("model", known_model(job.hints.model)) for job in jobs]
        given["vc"] = [names.code("vc", self._vc(job, held)) for job in jobs]
        wanted = ["" if job.id in held else self.machines.type_of(job) for job in jobs]
        given["gpu_type"] = [names.code("gpu_type", kind if kind in types else "") for kind in wanted]
        given["gpus"] = [
            len(gpus) * GPU if (gpus := held.get(job.id, ())) and job.gpus else self._thousandths(job) for job in jobs
        ]
        given["limit"] = [job.limit * self._repeats.get(job.id, 1) for job in jobs]
        given["cpus"] = [0 if job.id in held else job.cpus * 1000 for job in jobs]  # what runs has its CPUs already
        given["mem_gib"] = [0 if job.id in held else self.requests.of(job).mem_mib for job in jobs]
        given["submit"] = [
            job.submit if job.id in self._later else min(self._since[job.id], self.snapshot.now) for job in jobs
        ]
        given["deadline"] = [
            min(max(job.due - submit, 1), LATEST_DUE_MS) if job.due > 0 else 0
            for job, submit in zip(jobs, given["submit"], strict=True)
        ]
        first = [self.rows.get(self._after.get(job.id, ""), -1) for job in jobs]
        given["after"] = [parent if parent < row else -1 for row, parent in enumerate(first)]
        given["checkpointable"] = [int(self._stoppable(job)) for job in jobs]
        whole = [self._widths(job) if given["gpus"][row] % GPU == 0 else (0, 0) for row, job in enumerate(jobs)]
        given["min_gpus"], given["max_gpus"] = zip(*whole, strict=True) if whole else ((), ())
        done = [job.done_ms if job.id in held else 0 for job in jobs]  # whatever it has done, it runs still
        given["duration"] = [max(durations.get(job.id, UNKNOWN_MS), at + 1) for job, at in zip(jobs, done, strict=True)]
        return Trace.of("slurm", [job.id for job in jobs], **given, **names.table())

    def _vc(self, job: LiveJob, held: Collection[str]) -> str:
        """The virtual cluster of a job: of one that runs, where it runs, whatever its partition is called by now."""
        if job.id not in held:
            return self.machines.vc_of(job) or ""
        cluster = self.machines.cluster
        return (*cluster.vcs, "")[int(cluster.node_vc[self.machines.place[job.nodes[0]]])]

    def _correct(self, world: World, held: set[str]) -> None:
        """Set what a simulation that begins now can't know: when jobs began to wait and to run, and what is in use."""
        table, nodes = world.jobs, world.nodes
        bound, kinds = np.array(self.bound, np.int64), len(self.machines.cluster.gpu_types)
        table[w.TYPE] = np.where(bound >= 0, bound + kinds, table[w.TYPE])
        table[w.DECLARED] = [job.hints.run_time_ms for job in self.jobs]
        table[w.PREEMPTIONS] = [job.restarts for job in self.jobs]
        table[[w.ELIGIBLE, w.WAITING_SINCE]] = [_came(job) for job in self.jobs]
        for row, job in enumerate(self.jobs):
            if job.over:
                took = max(job.end - job.start, 0)
                table[[w.STARTED, w.BEGUN, w.ENDED_AT, w.EXECUTED], row] = job.start, job.start, job.end, took
                table[w.ATTAINED, row] = took * max(job.gpus, 1)
                world.progress[w.WORK, row] = took
            elif job.id in held:
                table[[w.STARTED, w.BEGUN], row] = job.start
                table[w.WAITED, row] = max(job.start - _came(job), 0)
                workers = max(int(table[w.WORKERS, row]), 1)
                table[w.CPU, row], table[w.MEM, row] = job.cpus * 1000 // workers, job.mem_mib // workers
            else:
                self._demand(table, row, job)
        place = self.machines.place
        for node in self.snapshot.nodes:
            number = place.get(node.name, -1)
            if number < 0:
                continue  # it is in no partition
            nodes[w.CPU_FREE, number] = max(node.cpus - node.cpus_used, 0) * 1000
            nodes[w.MEM_FREE, number] = max(node.mem_mib - node.mem_used, 0)
            if not node.up:
                nodes[w.NODE_STATE, number], nodes[w.FREE, number] = w.DOWN, 0

    def _demand(self, table: I64, row: int, job: LiveJob) -> None:
        """What a waiting job wants of each node; fractions of a core or MiB for each GPU are rounded down."""
        request, gpus = self.requests.of(job), max(int(table[w.GPUS, row]), 1)
        table[w.SPAN, row] = max(request.span, w.ANY_NODES) if request.span != UNKNOWN else 0
        table[w.CPU, row], table[w.MEM, row] = job.cpus * 1000 // gpus, request.mem_mib // gpus
        if request.whole and request.nodes:
            table[w.CPU, row] = request.nodes[0].cpus * 1000 // max(request.nodes[0].gpus, 1)


def _came(job: LiveJob) -> int:
    """Since when a job could run: time for which its user held it or put it off gives it no place in the queue."""
    return max(job.eligible, job.submit)


def placements(snapshot: Snapshot, machines: Machines) -> dict[str, tuple[int, ...]]:
    """The GPUs of every running job, by our numbers.

    The manager says how many a job has, on which nodes, and which of a node's are in use; where several jobs share a
    node, it makes no difference which job has which.  A job on which the two answers differ (it has just
    ended) is left out.
    """
    place, first, sharing = machines.place, machines.first_gpu, machines.shards_per_gpu
    room = {node.name: _used_first(node) for node in snapshot.nodes}
    shards: dict[tuple[str, int], int] = {}
    found: dict[str, tuple[int, ...]] = {}
    for job in sorted((job for job in snapshot.jobs if job.runs), key=lambda job: -len(job.nodes)):
        if not all(node in place and node in room for node in job.nodes):
            continue
        if job.gpus:
            there = [len(room[node]) for node in job.nodes]
            counts = there if job.exclusive == "node" else divided(job.gpus, there)
            if counts and sum(counts):
                taken = [
                    (node, room[node].pop(0))
                    for node, count in zip(job.nodes, counts, strict=True)
                    for _ in range(count)
                ]
                found[job.id] = tuple(sorted(int(first[place[node]]) + at for node, at in taken))
        elif job.shards and job.nodes:
            node = job.nodes[0]
            for at in list(room[node]):
                if shards.get((node, at), 0) + job.shards <= sharing:
                    shards[node, at] = shards.get((node, at), 0) + job.shards
                    found[job.id] = (int(first[place[node]]) + at,)
                    break
    return found


def _used_first(node: Node) -> list[int]:
    """The GPUs of a node, those in use before the others."""
    used = [at for at in dict.fromkeys(node.used) if at < node.gpus]
    return [*used, *(at for at in range(node.gpus) if at not in used)]


def divided(count: int, room: Sequence[int]) -> list[int]:
    """A number of GPUs on nodes with this much room, as evenly as possible; [] if they don't fit."""
    if count > sum(room):
        return []
    given = [min(each, count // len(room)) for each in room]
    for at in range(len(room)):
        more = min(room[at] - given[at], count - sum(given))
        given[at] += more
    return given


@lru_cache(maxsize=4096)
def known_model(name: str) -> str:
    """What policies call the model that a user named; "": nothing is known of it, and users can invent any number."""
    if models.is_known(name):
        return models.find(name).name
    return next((curve.model for curve in published() if models.plain(curve.model) == models.plain(name)), "")


@lru_cache(maxsize=65_536)
def number_of(job_id: str) -> tuple[int, ...]:
    """Job ids in the order in which the manager gave them."""
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in job_id.replace("+", "_").split("_"))
