"""The guard: what jobs wait under the controller, against a simulation of what they would wait without it.

The shadow begins where the cluster stood when the window began, gets the jobs that have come since, with the run times
that they had, and is scheduled by the base policy.  When the real waits are worse for long enough, the jobs are handed
back to the manager, and the controller only watches until it is resumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from statistics import median

import numpy as np

from shunter import world as w
from shunter.errors import LiveError, ShunterError
from shunter.live.controller import Controller, RoundResult, own_value
from shunter.live.cpu_jobs import Crowding, has_gpus, without_cpu_jobs
from shunter.live.journal import GUARD
from shunter.live.journal_file import JournalError
from shunter.live.levers import STOPPING
from shunter.live.machines import machines_of
from shunter.live.manager import ResourceManager, UnreachableError
from shunter.live.releasing import release
from shunter.live.replica import Names, Replica
from shunter.live.requests import KEY, Requests
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.live.switching import BAD_DATA
from shunter.live.tolerance import Duty, Tolerance, WaitComparison
from shunter.live.wait_causes import Kind
from shunter.protocols import Policy
from shunter.registry import policy, text
from shunter.report.so_far import JobsBetween, Tail
from shunter.world import I64

DAY_MS = 86_400_000  # waits of the last day are compared
MOST_ARRIVALS = 10_000  # in a window: a check takes a second then ...
LEAST_MS = 3_600_000  # ... that is as old: else a user with many short jobs could end each before anything is compared
CLOCK_MS = 300_000  # by which a clock may be behind the one before it, or behind the manager's
GPUS_CHANGED = 0.05  # of those that are up: then the shadow is of another cluster, and a new window begins
LEAST_JOBS = 20  # without which nothing is said
LEAST_ENDED = 5  # without which limits are taken as run times
FIRST_GUESS_MS = 3_600_000  # a job's run time of which nothing is known
OUR_REQUESTS = {"pin", "shard", "resize"}  # levers that change what a job asks for
ASKED = (
    *("limit", "qos", "account", "licenses", "reservation"),
    *(name for name in KEY if name != "max_nodes"),
)  # what a waiting job asks for, in every format of the manager's output
OwnNice = Callable[[LiveJob], int]
COST = 20  # the pause after a check is this many times its duration
INTERVALS = 5  # from one check to the next


class GuardWindow:
    """The jobs with GPUs since a moment: those that ran then, waited then, or arrived since.

    ``own_nice`` is the nice of a job as its user set it.
    """

    def __init__(self, begin: Snapshot, longest_ms: int = DAY_MS, own_nice: OwnNice = attrgetter("nice")) -> None:
        self.longest_ms = longest_ms
        # The shadow needs the tasks of arrays one by one, the first at least, and would never end jobs without GPUs.
        self.begin = begin = without_cpu_jobs(begin.unfolded())
        self.last = begin.now
        self.warm = {job.id: job for job in begin.jobs if job.runs and has_gpus(job)}  # ran then, as last seen
        self.jobs: dict[str, LiveJob] = {}  # those that waited or arrived, as last seen
        self.arrivals: dict[str, int] = {}  # since when they wait, at the earliest since the window began
        self.starts: dict[str, int] = {}  # the first of each
        self.odd: set[str] = set()  # waited for something else at some time too: the shadow does not know how long
        self.note(begin, own_nice)

    def note(self, snapshot: Snapshot, own_nice: OwnNice = attrgetter("nice")) -> None:
        """Note the jobs that arrived, started, ended, or left without having run."""
        present = {job.id: job for job in snapshot.unfolded().jobs if has_gpus(job)}
        for name, job in present.items():
            if self.jobs.get(name) is job or name in self.warm:
                continue  # as it was: a snapshot keeps what has not changed
            if name in self.jobs or job.waits or (job.nodes and job.start >= self.begin.now):
                self._see(job, snapshot.now)
        waiting = [job for name, job in self.jobs.items() if name not in self.starts]
        usual, crowding = max(min(map(own_nice, waiting), default=0), 0), Crowding(snapshot)
        for job in (job for job in waiting if job.id not in self.odd):
            behind = own_nice(job) > usual  # its user puts it behind others, of which the shadow knows nothing
            if behind or _waits_for_more(job, snapshot) or crowding.keeps_out(job):
                self.odd.add(job.id)
        for name, job in self.warm.items():
            if not job.over:
                self.warm[name] = _later(job, present.get(name), snapshot.now)
        for name, job in list(self.jobs.items()):
            if name not in present and job.runs:
                self.jobs[name] = job.ended_at(snapshot.now)
            elif (job.over and not job.nodes) or (name not in present and job.state == "PENDING"):
                del self.jobs[name], self.arrivals[name]  # cancelled while it waited: in neither world
        self.last = snapshot.now

    def _see(self, job: LiveJob, now: int) -> None:
        before = self.jobs.get(job.id, job)
        put_off = job.eligible > before.eligible and job.id not in self.starts  # to a later start, behind another job
        ours = any(lever in job.marked for lever in STOPPING)
        again = job.state == "PENDING" and job.id in self.starts and not ours  # its user has queued it again
        if put_off or again or _asks_otherwise(job, before):
            self.odd.add(job.id)
        # What the job asked for itself counts: we may have pinned it, and of running jobs no excluded nodes are listed.
        excluded = job.excluded if job.state == "PENDING" else before.excluded
        self.jobs[job.id] = job = replace(job, wanted_nodes=before.wanted_nodes, excluded=excluded)
        self.arrivals.setdefault(job.id, min(max(job.eligible, job.submit, self.last), now))
        if job.nodes and job.start >= 0:
            self.starts.setdefault(job.id, max(job.start, self.arrivals[job.id]))

    def full(self, snapshot: Snapshot) -> bool:
        """Whether a new one should begin: it is old, long, or the cluster is another."""
        came = sum(arrival > self.begin.now for arrival in self.arrivals.values())
        before, after = _gpus_up(self.begin), _gpus_up(snapshot)
        return (
            snapshot.now - self.begin.now > self.longest_ms
            or (came > MOST_ARRIVALS and snapshot.now - self.begin.now >= LEAST_MS)
            or abs(after - before) > GPUS_CHANGED * before
            or {node.name for node in self.begin.nodes} != {node.name for node in snapshot.nodes}
        )

    def verdict(self, base: Policy, slack_s: float = 0.0) -> WaitComparison | None:
        """Compare the waits of the last day, and again those of the day before; None: of too few jobs.

        A wait of ``slack_s`` is never unfair.
        """
        replica, now, requests = self.shadow(base), self.last, self.begin.requests
        shadow = self.started(replica)
        names = [
            name
            for name in self.jobs
            if (name in self.starts or (name in shadow and self.jobs[name].waits))
            and name in replica.rows  # not one of a partition that the shadow's machines lack
            and name not in self.odd
            and _modelled(self.jobs[name], requests)
        ]
        if len(names) < LEAST_JOBS <= sum(name in self.odd for name in self.jobs):
            raise LiveError("too many jobs waited for what a simulation of the queue does not know")
        arrived = np.array([self.arrivals[name] for name in names], np.int64)
        begun = [np.array([min(of.get(name, now), now) for name in names], np.int64) for of in (self.starts, shadow)]
        lately = _waits_between(arrived, begun, max(self.begin.now, now - DAY_MS), now)
        if lately is None:
            return None
        real_s, other_s = _means(lately)
        real_p90, other_p90 = (float(np.quantile(each, 0.9)) / 1000 for each in lately)
        here, there = self._tails(replica, names, round(1000 * slack_s))
        found = WaitComparison(len(lately[0]), real_s, other_s, real_p90, other_p90, here, there)
        before = _waits_between(arrived, begun, now - 2 * DAY_MS, now - DAY_MS)
        if before is None or now - 2 * DAY_MS < self.begin.now:
            return found
        real_s, other_s = _means(before)
        return replace(found, realised_before_s=real_s, shadow_before_s=other_s)

    def _tails(self, replica: Replica, names: list[str], slack: int) -> list[Tail]:
        """P99 of the time in the system so far, and the share of jobs with rho <= 1: real, and in the shadow."""
        simulator, now = replica.simulator, self.last
        judged = np.isin(np.arange(len(replica.jobs)), [replica.rows[name] for name in names if name in replica.rows])
        found = []
        for table in (self._realised(replica), simulator.world.jobs.copy()):
            for name, arrived in self.arrivals.items():
                if (row := replica.rows.get(name)) is not None:
                    table[[w.SUBMIT, w.ELIGIBLE], row] = arrived
            begun = np.where(table[w.STARTED] >= 0, table[w.STARTED], now)
            table[w.ELIGIBLE] = np.minimum(table[w.ELIGIBLE] + slack, begun)
            found.append(JobsBetween(simulator, self.begin.now, now, table).tail(simulator.durations, judged))
        return found

    def _realised(self, replica: Replica) -> I64:
        """The shadow's jobs with what has become of them in reality."""
        table: I64 = replica.simulator.world.jobs.copy()
        for name, row in replica.rows.items():
            job = self.jobs.get(name) or self.warm[name]
            table[w.STATE, row] = w.DONE
            table[w.ENDED_AT, row] = min(job.end, self.last) if job.over else self.last
            if name in self.jobs:
                table[w.STARTED, row] = self.starts.get(name, -1)
        return table

    # -- the shadow

    def shadow(self, base: Policy) -> Replica:
        """The base policy from the beginning of the window up to now."""
        machines = machines_of(self.begin.nodes)
        waited = {job.id for job in self.begin.jobs if job.waits}
        jobs = [  # the manager takes any number of GPUs for a job that it holds
            job for job in self.jobs.values() if machines.vc_of(job) is not None and job.gpus <= machines.cluster.gpus
        ]
        replica = Replica(
            self.begin, machines, Names(),
            [_as_it_came(job, job.submit) for job in jobs if job.id in waited],
            coming=[
                _as_it_came(job, max(self.arrivals[job.id], self.begin.now + 1)) for job in jobs if job.id not in waited
            ],
            durations=self.durations(),
        )  # fmt: skip
        replica.simulator.reconsider()
        replica.simulator.run(base, until=self.last)
        return replica

    def started(self, shadow: Replica) -> dict[str, int]:
        """When each job that waited or came has started there by now."""
        started = shadow.simulator.world.jobs[w.STARTED]
        return {name: int(started[row]) for name, row in shadow.rows.items() if name in self.jobs and started[row] >= 0}

    def durations(self) -> dict[str, int]:
        """How long each job runs: as it did where it has ended, else as it is expected to, and no less than so far."""
        share = self._share_of_limit()
        found = {job.id: _ran(job) or max(_expected(job, share), job.ran + 1) for job in self.jobs.values()}
        begun = {job.id: job for job in self.begin.jobs}
        for name, job in self.warm.items():
            done, left = begun[name].done_ms, max(job.end, self.begin.now + 1) - self.begin.now
            expected = max(_expected(job, share), done + self.last - self.begin.now + 1)
            found[name] = done + left if job.over else expected
        return found

    def _share_of_limit(self) -> float:
        """What jobs of a user use of their limits, typically: one user with many jobs does not decide it."""
        seen = (*self.jobs.values(), *self.warm.values())
        shares: dict[str, list[float]] = {}
        for job in seen:
            if _ran(job) and job.limit:
                shares.setdefault(job.user, []).append(min(_ran(job) / job.limit, 1.0))
        if sum(map(len, shares.values())) < LEAST_ENDED:
            return 1.0
        return median(map(median, shares.values()))


def _waits_between(arrived: I64, begun: Sequence[I64], since: int, until: int) -> list[I64] | None:
    """What jobs waited between two instants, in each world; None: of too few jobs."""
    waits = [np.clip(each, since, until) - np.clip(arrived, since, until) for each in begun]
    there = ((arrived >= since) & (arrived <= until)) | (waits[0] > 0) | (waits[1] > 0)
    return [each[there] for each in waits] if np.count_nonzero(there) >= LEAST_JOBS else None


def _means(waits: Sequence[I64]) -> tuple[float, float]:
    """Seconds, real and in the shadow."""
    real, other = (float(each.mean()) / 1000 for each in waits)
    return real, other


def _modelled(job: LiveJob, requests: Requests) -> bool:
    """Whether the shadow knows all that a job waits for; else its user could make the real waits look worse."""
    return not (requests.of(job).unmodelled or job.licenses or job.reservation)


def _waits_for_more(job: LiveJob, snapshot: Snapshot) -> bool:
    """Whether a job waits for more than its turn: a limit, another job, whoever holds it, nodes that are away."""
    if job.state != "PENDING":
        return False
    other = not job.waits and snapshot.words.meaning(job).kind not in (Kind.TURN, Kind.NEVER)  # a pin may be never
    return other or job.throttle > 0 or snapshot.requests.of(job).away


def _asks_otherwise(job: LiveJob, before: LiveJob) -> bool:
    """Whether its user has changed what a waiting job asks for: the shadow knows only the present request."""
    if not (job.state == before.state == "PENDING") or OUR_REQUESTS & {*job.marked, *before.marked}:
        return False
    return any(getattr(job, name) != getattr(before, name) for name in ASKED)


def _later(ran: LiveJob, now: LiveJob | None, at: int) -> LiveJob:
    """What has become of a job that ran; one that was queued again, or is no longer listed, has ended."""
    return now if now is not None and (now.runs or (now.over and now.nodes)) else ran.ended_at(at)


def _as_it_came(job: LiveJob, at: int) -> LiveJob:
    """A job without what has become of it, that came then: when it could have run, not when it was submitted."""
    return replace(job, state="PENDING", submit=at, eligible=at, start=-1, end=-1, nodes=(), ran=0)


def _ran(job: LiveJob) -> int:
    """How long an ended job ran; 0: it has not ended."""
    return max(job.end - job.start, 1) if job.over and job.nodes else 0


def _expected(job: LiveJob, share: float) -> int:
    return round(job.limit * share) or FIRST_GUESS_MS  # not what its comment says: users write those


def _gpus_up(snapshot: Snapshot) -> int:
    return sum(node.gpus for node in snapshot.nodes if node.up)


def shadow_policy(tolerance: Tolerance, manager: ResourceManager) -> Policy:
    """The policy of the shadow: the one that was set, or the nearest to what the manager does by itself."""
    return policy(tolerance.base or manager.own_policy())


class Guard:
    """Compares waits with the shadow's every few rounds, and hands the jobs back if they are longer."""

    def __init__(self, controller: Controller, tolerance: Tolerance) -> None:
        self.controller, self.tolerance = controller, tolerance
        self.base = shadow_policy(tolerance, controller.manager)
        self.window: GuardWindow | None = None
        self.verdict: WaitComparison | None = None
        self.worse, self.why = 0, ""  # checks in a row, and what was wrong with the last one
        self._decided = ""  # to hand the jobs back, which could not be written down yet
        self._due = -1.0  # the first check is made at once: it compiles, which is not held against it

    def seen(self, result: RoundResult) -> None:
        """A round is over: note it, and compare now and then."""
        snapshot = result.round.snapshot
        if self.controller.paused:
            self.controller.doubt = ""
            self.window, self.worse, self._decided = None, 0, ""  # when the jobs are taken again, all begins again
            return
        if self._decided:
            self._hand_back(snapshot, self._decided)
            result.paused = self.controller.paused
            return
        if self._set_back(snapshot):
            self.window, self.worse = None, 0  # nothing from before can be compared with what comes
            self.controller.doubt = "it can't compare: the clock was set back"
            return
        own_nice = self._own_nice()
        if self.window is None or self.window.full(snapshot):  # bad checks still count: nodes may come and go
            self.window = GuardWindow(snapshot, round(self.tolerance.days * DAY_MS), own_nice)
        self.window.note(snapshot, own_nice)
        if time.monotonic() >= self._due:
            self._check(self.window)
            if self.worse >= self.tolerance.patience:
                self._act(snapshot)
        result.paused = self.controller.paused
        result.ratio = self.verdict.ratio(self.tolerance.slack) if self.verdict is not None else None

    def _set_back(self, snapshot: Snapshot) -> bool:
        """Whether the clock was set back: the last look, or a job's submission, is in the future."""
        late = snapshot.now + CLOCK_MS
        before = self.window is not None and self.window.last > late
        return before or any(job.submit > late for job in snapshot.jobs if not job.over)

    def _own_nice(self) -> OwnNice:
        """The nice of a job without what we added; one that is left alone has the nice that somebody else set."""
        force, alone = self.controller.journal.in_force(), self.controller.journal.left_alone()
        return lambda job: job.nice if job.handle in alone else int(own_value(job, "nice", force))

    def _check(self, window: GuardWindow) -> None:
        begun, found, blind = time.monotonic(), None, ""
        try:
            found = window.verdict(self.base, self.tolerance.slack)
        except (ShunterError, *BAD_DATA) as problem:  # of the shadow: the controller continues, and reports it
            blind = str(problem) or type(problem).__name__
            if blind not in self.controller.doubt:
                with suppress(JournalError):
                    self.controller.journal.note("guard can't", blind)
        now = time.monotonic()
        every_s = self.tolerance.every_s
        rest_s = INTERVALS * self.controller.interval_s if every_s is None else every_s
        self._due = now + max(rest_s, COST * (now - begun) if self._due >= 0 else 0.0)
        if found is not None:
            self.verdict = found
            with suppress(JournalError):  # a full disk must not keep the guard from handing jobs back
                self.controller.journal.note_waits(found.entry(time.time()))
            self.why = found.broken(self.tolerance)
            self.worse = self.worse + 1 if self.why else 0
        if blind:  # no policy is switched without a guard
            self.controller.doubt = f"it can't compare: {blind}"
        elif found is not None or not self.worse:
            self.controller.doubt = self._words() if self.worse else ""

    def _words(self) -> str:
        return f"{self.why}: {self.verdict} of {text(self.base)}"

    def _act(self, snapshot: Snapshot) -> None:
        words = f"{self._words()}, {self.worse} times in a row"
        if self.tolerance.duty is Duty.WATCH:
            self.worse = 0
            self.controller.journal.note("guard would", words)
            return
        self._decided = f"the guard has handed the jobs back: {words}"
        self._hand_back(snapshot, self._decided)

    def _hand_back(self, snapshot: Snapshot, why: str) -> None:
        self.controller.journal.note(GUARD, why)  # first: if it can't be written, the next round tries again
        self.controller.paused, self._decided, self.worse = why, "", 0
        with suppress(UnreachableError):  # a round of a controller that is paused gives back what is still in force
            release(self.controller.manager, self.controller.journal, snapshot)
