"""The autopilot of a live cluster: a source of policies that searches in the background, and begins as the baseline."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from shunter.adapting.autopilot.candidates import Candidates
from shunter.adapting.autopilot.rule import AutopilotLimits, PilotAction, PilotVerdict
from shunter.adapting.autopilot.site_jobs import JobsToKeep, trace_of
from shunter.adapting.autopilot.worker import BackgroundSearch, PilotAnswer, PilotTask
from shunter.generating.repository import WorkloadRepository
from shunter.live import warming
from shunter.live.backend import Round
from shunter.live.machines import machines_of
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.live.sources import PolicyChoice, PolicySource
from shunter.model import Trace
from shunter.protocols import Policy
from shunter.registry import policy

EVERY_S = 3600.0  # between two searches
OLDEST_S = 7200.0  # an answer that is older, counted from what it was decided on, is dropped
CPU_S = 900  # of one search
BEGINS = "the baseline, with which it begins"
GOES_ON = "it was in force before this start"


@dataclass
class LivePilot(PolicySource):
    """``history`` are ended jobs that a site brings along."""

    candidates: Candidates
    limits: AutopilotLimits
    folder: Path  # of the repository of ended jobs
    history: Trace | None = None
    every_s: float = EVERY_S
    oldest_s: float = OLDEST_S
    cpu_s: int = CPU_S
    name: str = "the autopilot"
    remark: str = ""
    _search: BackgroundSearch = field(default_factory=BackgroundSearch)
    _ended: JobsToKeep = field(default_factory=JobsToKeep)
    _sent: list[LiveJob] = field(default_factory=list)  # ended jobs that the search is to keep
    _seen: Snapshot | None = None  # in the last round
    _shortlist: tuple[str, ...] = ()  # of the last search; the next one tries them, too
    _in_force: str = ""
    _switched: float = -float("inf")  # by the monotonic clock: the other one may jump
    _due: float = -float("inf")
    _asked: float = 0.0  # when the look was taken that the answer is decided on
    _ready: _Ready | None = None

    def begin(self, in_force: str, switched: float | None) -> PolicyChoice:
        """What was in force, if it may be; else the baseline."""
        if switched is not None:  # a time to come: the clock was set back, so it counts as just now
            self._switched = time.monotonic() - max(time.time() - switched, 0.0)
        goes_on = bool(in_force) and self.candidates.contains(in_force)
        self._in_force = in_force if goes_on else self.candidates.baseline
        why = GOES_ON if goes_on else BEGINS
        if in_force and not goes_on:
            why += f"; what was in force before is not among the candidates: {in_force[:100]!r}"
        return PolicyChoice(policy(self._in_force), why)

    def choose(self, current: Round, in_force: str) -> PolicyChoice | None:
        """What the last search has found, once it is compiled; begins another one now and then."""
        try:
            return self._chosen(current, in_force)
        except Exception as problem:  # whatever it is, also no more threads: the policy stays, and rounds go on
            self.remark = f"can't tell yet, because {problem or type(problem).__name__}"
            return None

    def _chosen(self, current: Round, in_force: str) -> PolicyChoice | None:
        self._ended.note(current)
        self._seen = current.snapshot
        if in_force != self._in_force:
            self._in_force, self._switched, self._ready = in_force, time.monotonic(), None
        self._take_answer()
        if self._ready is not None:
            return self._offered(self._ready)
        if time.monotonic() >= self._due and not self._search.busy:
            self._begin_search(current)
        return None

    def hand_back(self, why: str) -> PolicyChoice | None:
        """The baseline; a choice that is not in force yet is dropped."""
        self._ready = None
        return PolicyChoice(policy(self.candidates.baseline), f"the jobs were handed back: {why}")

    def close(self) -> None:
        """End the search, and keep the jobs that have ended since the last one."""
        self._search.close()
        ended = [*self._sent, *self._ended.take()]
        if ended and self._seen is not None:
            with suppress(Exception):  # it ends in any case
                kept = trace_of(ended, machines_of(self._seen.nodes), self._seen.now)
                WorkloadRepository(self.folder).add(kept)

    # -- the search

    def _begin_search(self, current: Round) -> None:
        snapshot, now = current.snapshot, time.monotonic()
        self._due, self._asked = now + self.every_s, now
        open_jobs = [job for job in snapshot.unfolded().jobs if (job.waits or job.runs) and job.gpus]
        ended = self._ended.take()
        try:
            machines = machines_of(snapshot.nodes)
            present = trace_of(open_jobs, machines, snapshot.now)
            new = trace_of(ended, machines, snapshot.now)
            ran = {f"{job.id}@{job.submit}": job.ran for job in open_jobs}
            since_h = (now - self._switched) / 3600
            self._search.start(
                PilotTask(
                    self.folder, self.history, new, present, ran, machines.cluster, snapshot.now,
                    self._in_force, since_h, self.candidates, self.limits, self.cpu_s, self._shortlist,
                )
            )  # fmt: skip
        except BaseException:  # no process, no memory
            self._ended.put_back(ended)
            raise
        self._sent = ended

    def _take_answer(self) -> None:
        found = self._search.poll()
        if found is None:
            return
        if isinstance(found, str) or not found.kept:
            self._ended.put_back(self._sent)
        else:
            self.history = None  # the repository has it
        self._sent = []
        if isinstance(found, str):
            self.remark = f"can't tell yet, because {found}"
        else:
            self._weigh(found)

    def _weigh(self, found: PilotAnswer) -> None:
        verdict = found.verdict
        self.remark = _said(verdict, found.problems)
        self._shortlist = tuple(text for text in verdict.shortlist if self.candidates.contains(text))
        if verdict.answer is not PilotAction.SWITCH or found.in_force != self._in_force:
            return
        if not self.candidates.contains(verdict.policy):
            self.remark = f"can't tell yet, because the search returned a policy that is no candidate: {verdict.policy}"
            return
        self._ready = _Ready(verdict, policy(verdict.policy))

    def _offered(self, ready: _Ready) -> PolicyChoice | None:
        age_s = time.monotonic() - self._asked
        if age_s > self.oldest_s:
            self._ready = None
            self.remark = f"can't tell yet, because the answer came late: it rests on data that is {age_s:.0f} s old"
            return None
        return PolicyChoice(ready.policy, ready.verdict.why, ready.verdict.evidence) if ready.compiled else None


class _Ready:
    """A choice whose kernels are loaded beside the rounds, before one of them uses it."""

    def __init__(self, verdict: PilotVerdict, chosen: Policy) -> None:
        self.verdict, self.policy = verdict, chosen
        self._thread = threading.Thread(target=warming.rounds, args=(chosen,), daemon=True)
        self._thread.start()

    @property
    def compiled(self) -> bool:
        """Whether a round would not have to wait."""
        return not self._thread.is_alive()


def _said(verdict: PilotVerdict, problems: tuple[str, ...]) -> str:
    left = f"; left out: {'; '.join(problems)}" if problems else ""
    numbers = f" ({verdict.evidence})" if verdict.evidence else ""
    if verdict.answer is PilotAction.UNKNOWN:
        return f"can't tell yet, because {verdict.why}{left}"
    words = f"would switch to {verdict.policy}" if verdict.answer is PilotAction.SWITCH else f"stays {verdict.policy}"
    return f"{words}: {verdict.why}{numbers}{left}"
