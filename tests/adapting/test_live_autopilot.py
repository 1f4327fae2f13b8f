"""The autopilot of a live cluster: it searches beside the rounds, begins as the baseline, and believes nothing."""

from __future__ import annotations

import multiprocessing
import pickle
import re
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from shunter.adapting.autopilot import site_jobs
from shunter.adapting.autopilot.candidates import Candidates
from shunter.adapting.autopilot.live import LivePilot
from shunter.adapting.autopilot.rule import AutopilotLimits, PilotAction, PilotVerdict
from shunter.adapting.autopilot.site_jobs import JobsToKeep, joined, trace_of, with_unfinished
from shunter.adapting.autopilot.worker import BackgroundSearch, PilotAnswer, PilotTask, answered
from shunter.cli.slurm_run import _AutopilotOptions
from shunter.errors import LiveError
from shunter.generating.known_jobs import DAY
from shunter.generating.repository import WorkloadRepository
from shunter.live.backend import LiveBackend, Rhythm
from shunter.live.controller import Mode, RoundResult
from shunter.live.daemons import wait
from shunter.live.journal import STOP, Journal
from shunter.live.machines import machines_of
from shunter.live.running import ControllerSettings, run
from shunter.live.snapshot import LiveJob
from shunter.live.switch_log import SwitchLog
from shunter.live.tolerance import Tolerance
from shunter.model import Trace
from shunter.testing.live import habitual
from shunter.testing.memory_manager import MemoryManager

BASE, BEST = "fifo:backfill=easy", "sjf:backfill=easy"
LIMITS = AutopilotLimits.of("days=9,least_days=1,check_days=0.5,least_jobs=50,worst_p99=10,worst_fairness=0.1")
HOUR_MS = 3_600_000
LONGEST_S = 900  # a search has the lowest priority, and other tests may have all cores


def busy() -> MemoryManager:
    manager = MemoryManager(node_count=2, gpus_per_node=8)
    for _ in range(2):
        manager.submit(8, 600)
    manager.schedule()
    for minutes in (60, 30, 10):
        manager.submit(4, minutes)
    return manager


def recent(jobs: int = 1000) -> Trace:
    """A history that ends now."""
    trace = habitual(jobs, 16, 1.1)
    return replace(trace, submit=trace.submit - int(trace.submit[-1]) + time.time_ns() // 1_000_000 - HOUR_MS)


def pilot(folder: Path, **more) -> LivePilot:
    """One whose search gives way to no other process: on a busy machine tests would wait for it in vain."""
    more.setdefault("_search", BackgroundSearch(nice=0))
    return LivePilot(Candidates.of([BEST], BASE), LIMITS, folder / "jobs", **more)


def fly(manager: MemoryManager, journal: Path, source: LivePilot, until, **more) -> list[RoundResult]:
    """Rounds until something is true."""
    found, stop, latest = list[RoundResult](), threading.Event(), time.monotonic() + LONGEST_S

    def seen(result: RoundResult) -> None:
        found.append(result)
        if until(result) or time.monotonic() > latest:
            stop.set()

    settings = ControllerSettings(**({"mode": Mode.ACT, "rhythm": Rhythm(0.05, 0.05)} | more))
    run(source, manager, journal, settings, stop=stop, on_round=seen)
    assert until(found[-1]), found[-1].remark
    return found


def test_it_begins_as_the_baseline_searches_beside_the_rounds_and_switches(tmp_path: Path) -> None:
    """With a real process; what it chose goes on after a restart, and the rate is kept over it."""
    manager, journal = busy(), tmp_path / "journal.db"
    source = pilot(tmp_path, history=recent())
    results = fly(manager, journal, source, lambda result: result.policy == BEST)
    assert results[0].policy == BASE
    assert len(results) > 3  # rounds went on while it searched
    switch = results[-1].switch
    assert switch.before == BASE
    assert "times as good in the days before" in switch.why
    assert "JCT" in switch.evidence
    assert list((tmp_path / "jobs").glob("hour-*.parquet"))  # kept for the next time
    again = pilot(tmp_path)
    results = fly(manager, journal, again, lambda result: "the last switch was" in result.remark)
    assert {result.policy for result in results} == {BEST}
    with closing(Journal(journal)) as book:
        assert SwitchLog(book).in_force() == BEST
        book.note(STOP, "enough")
    after = fly(manager, journal, pilot(tmp_path), lambda result: bool(result.remark), resume=True)
    assert after[0].policy == BASE


def test_without_history_it_says_that_it_can_not_tell(tmp_path: Path) -> None:
    results = fly(busy(), tmp_path / "journal.db", pilot(tmp_path), lambda result: bool(result.remark), mode=Mode.WATCH)
    assert results[-1].remark.startswith("can't tell yet, because 0 jobs have ended in the last 9 days, and 50 are")
    assert {result.policy for result in results} == {BASE}


@dataclass
class Said:
    """A search that has ended with this answer."""

    answer: PilotAnswer | str | None
    busy: bool = True

    def poll(self) -> PilotAnswer | str | None:
        found, self.answer = self.answer, None
        return found

    def close(self) -> None:
        pass


def one_round():
    backend = LiveBackend(busy(), Rhythm(0.0, 0.0))
    backend.look()
    return backend.current


def said(policy: str = BEST, in_force: str = BASE, answer: PilotAction = PilotAction.SWITCH) -> PilotAnswer:
    return PilotAnswer(PilotVerdict(answer, policy, "because"), in_force)


def offered(source: LivePilot, current) -> str:
    """What it offers once it is compiled; "": nothing."""
    found = source.choose(current, BASE)
    if source._ready is not None:
        assert wait(lambda: source._ready.compiled, 180)
        found = source.choose(current, BASE)
    return "" if found is None else found.why


def test_what_a_search_says_is_believed_only_if_it_may_be(tmp_path: Path) -> None:
    current = one_round()
    for answer, words in (
        (said(), ""),
        (said(in_force=BEST), ""),  # decided on another policy than the one in force
        (said("evil_policy.Evil"), "no candidate"),
        (said("saf"), "no candidate"),
        (said(BASE, answer=PilotAction.UNKNOWN), "can't tell yet, because because"),
        ("the search took longer than 5 s", "can't tell yet, because the search took longer"),
    ):
        source = pilot(tmp_path, _search=Said(answer), _asked=time.monotonic())
        source.begin("", None)
        assert offered(source, current) == ("because" if answer == said() else "")
        assert words in source.remark


def test_an_answer_that_is_too_old_is_dropped(tmp_path: Path) -> None:
    source = pilot(tmp_path, _search=Said(said()), _asked=time.monotonic() - 8000)
    source.begin("", None)
    assert offered(source, one_round()) == ""
    assert re.search(r"rests on data that is 8\d\d\d s old", source.remark)


@pytest.mark.parametrize("text", ["evil_policy.Evil", "saf", "x" * 10_000, "sjf:estimate=oracle"])
def test_a_forged_policy_in_the_journal_is_not_taken(tmp_path: Path, text: str) -> None:
    first = pilot(tmp_path).begin(text, None)
    assert first.policy == pilot(tmp_path).begin("", None).policy
    assert "not among the candidates" in first.why
    assert len(first.why) < 250


def test_a_clock_that_was_set_back_or_forward_does_not_let_it_switch_more_often(tmp_path: Path) -> None:
    for switched in (time.time() + 1e9, time.time() - 7200, 0.0):  # one in the future counts as just now
        source, began = pilot(tmp_path), (time.monotonic(), max(time.time() - switched, 0))
        source.begin("", switched)
        over = (time.monotonic(), max(time.time() - switched, 0))
        assert began[0] - over[1] - 0.01 <= source._switched <= over[0] - began[1] + 0.01
    source, before = pilot(tmp_path, _search=Said(None)), time.monotonic()
    source.begin("", None)
    source.choose(one_round(), BEST)  # it sees that the policy is another now
    assert source._switched >= before


HOSTILE = ("$(reboot)", "a\nb", "\udcff\udcfe", "x" * 100_000, "\0", "../../etc", "'; drop table jobs; --", "")


def test_a_job_counts_from_when_it_could_run() -> None:
    """One that its user held for nine days is no nine days of history."""
    now = time.time_ns() // 1_000_000
    held = LiveJob(
        "1", "1", "COMPLETED", partition="main", submit=now - 9 * DAY, eligible=now - 9, start=now - 5, end=now, gpus=1
    )
    again = replace(held, id="2", eligible=now - 3)  # eligible for its next run, by some managers
    made = trace_of([held, again, replace(held, eligible=0)], machines_of(busy().nodes()), now)
    assert made.submit.tolist() == [now - 9 * DAY, now - 9, now - 5]


def test_hostile_jobs_are_kept_or_left_out_and_spoil_no_hour(tmp_path: Path) -> None:
    now = time.time_ns() // 1_000_000
    plain = LiveJob("1", "1", "COMPLETED", user="ann", partition="main", submit=now, start=now, end=now + 5, gpus=1)
    jobs = [replace(plain, id=str(at), user=name) for at, name in enumerate(HOSTILE)]
    jobs += [
        replace(plain, id="far", submit=now + 10**12),
        replace(plain, id="before", submit=-5),
        replace(plain, id="backwards", start=now + 9, end=now),
        replace(plain, id="many", gpus=10**15),
        replace(plain, id="more", gpus=10**16),  # thousandths of it are no 64-bit number
        replace(plain, id="y" * 10_000),
        replace(plain, id="endless", limit=10**18),
        replace(plain, id="memory", mem_mib=-3),
    ]
    made = trace_of(jobs, machines_of(busy().nodes()), now)
    kept = WorkloadRepository(tmp_path / "jobs")
    kept.add(made)
    found = kept.read(made, now + 1)
    assert kept.problems == []
    assert len(found) == len(made) == len(HOSTILE) + 2  # and 'backwards' and the one with a long id
    assert max(map(len, found.users)) <= 200


def test_ended_jobs_are_kept_once_and_come_back_if_they_could_not_be_written() -> None:
    manager, jobs = busy(), JobsToKeep()
    backend = LiveBackend(manager, Rhythm(0.0, 0.0))
    backend.look()
    jobs.note(backend.current)
    manager.end("1")
    for _ in range(3):
        backend.look()
        jobs.note(backend.current)
    taken = jobs.take()
    assert [job.id for job in taken] == ["1"]
    jobs.put_back(taken)
    assert len(jobs) == 1


def test_of_too_many_ended_jobs_the_last_ones_are_kept(monkeypatch) -> None:
    monkeypatch.setattr(site_jobs, "MOST", 3)
    jobs = JobsToKeep()
    jobs.put_back([LiveJob(name, name, "COMPLETED") for name in "45"])
    jobs.put_back([LiveJob(name, name, "COMPLETED") for name in "123"])
    assert [job.id for job in jobs.take()] == ["3", "4", "5"]


def test_unfinished_jobs_have_predicted_run_times_and_no_stops() -> None:
    ended, now = recent(200), time.time_ns() // 1_000_000
    manager = busy()
    machines, snapshot = machines_of(manager.nodes()), manager.snapshot()
    present = trace_of([job for job in snapshot.jobs if not job.over], machines, now)
    known, finished = with_unfinished(joined(None, ended), present, dict.fromkeys(present.job_id, 9 * HOUR_MS), now + 1)
    rows = np.isin(known.job_id.astype(str), present.job_id.astype(str))
    assert len(known) == 205
    assert (rows == ~finished).all()
    assert (known.duration[rows] > 9 * HOUR_MS).all()
    assert not known.checkpointable.any()


def test_a_task_survives_the_way_to_its_process_and_a_full_disk_is_reported(tmp_path: Path) -> None:
    manager = busy()
    machines, snapshot = machines_of(manager.nodes()), manager.snapshot()
    present = trace_of([job for job in snapshot.jobs if not job.over], machines, snapshot.now)
    place = tmp_path / "jobs"
    place.write_text("not a folder")
    task = PilotTask(
        place, recent(60), recent(40), present, {}, machines.cluster, snapshot.now, BASE, 99.0,
        Candidates.of([BEST], BASE), LIMITS, 600,
    )  # fmt: skip
    twin = pickle.loads(pickle.dumps(task))
    assert twin.candidates.contains(BEST)
    with pytest.raises(OSError):  # noqa: PT011
        answered(task)
    search = BackgroundSearch(nice=0)
    search.start(task)
    found: list[object] = []
    assert wait(lambda: bool(found.append(search.poll()) or found[-1] is not None), 180)
    assert isinstance(found[-1], PilotAnswer)
    assert found[-1].verdict.answer is PilotAction.UNKNOWN
    assert not found[-1].kept


def test_jobs_that_could_not_be_kept_are_tried_again_and_no_problem_ends_a_round(tmp_path: Path, monkeypatch) -> None:
    verdict = PilotVerdict(PilotAction.UNKNOWN, BASE, "jobs: No space left on device")
    for answer in (PilotAnswer(verdict, BASE, kept=False), "the search ended without an answer (code -9)"):
        source = pilot(tmp_path, history=recent(60), _search=Said(answer), _sent=list(busy().jobs.values())[:1])
        source.begin("", None)
        source.choose(one_round(), BASE)
        assert len(source._ended) == 1
        assert source.history is not None
    source = pilot(tmp_path)
    source.begin("", None)
    monkeypatch.setattr(BackgroundSearch, "start", lambda *_: (_ for _ in ()).throw(OSError("no more processes")))
    assert source.choose(one_round(), BASE) is None
    assert source.remark == "can't tell yet, because no more processes"


def test_it_does_not_decide_by_jobs_of_which_none_has_ended(tmp_path: Path) -> None:
    machines, now = machines_of(busy().nodes()), time.time_ns() // 1_000_000
    day = 24 * HOUR_MS
    jobs = [
        LiveJob(str(at), str(at), "PENDING", partition="main", submit=now - 3 * day + at * 3 * day // 200, gpus=1)
        for at in range(200)
    ]
    present = trace_of(jobs, machines, now)
    task = PilotTask(
        tmp_path / "jobs", None, present.select(np.zeros(0, np.int64)), present, {}, machines.cluster, now, BASE, 99.0,
        Candidates.of([BEST], BASE), LIMITS, 600,
    )  # fmt: skip
    verdict = answered(task).verdict
    assert verdict.answer is PilotAction.UNKNOWN
    assert verdict.why == "0 jobs have ended in the last 9 days, and 50 are needed (least_jobs)"


def test_jobs_of_days_to_come_are_not_kept(tmp_path: Path) -> None:
    """A history of them would push all others out."""
    machines, jobs = machines_of(busy().nodes()), recent(200)
    now = int(jobs.submit[99])
    none = jobs.select(np.zeros(0, np.int64))
    candidates = Candidates.of([BEST], BASE)
    answered(PilotTask(tmp_path, jobs, none, none, {}, machines.cluster, now, BASE, 99.0, candidates, LIMITS, 600))
    kept = WorkloadRepository(tmp_path).read(none, 2**62)
    assert sorted(kept.submit.tolist()) == jobs.submit[jobs.submit <= now].tolist()


def test_jobs_that_ended_since_the_last_search_are_kept_when_it_stops(tmp_path: Path) -> None:
    manager, source = busy(), pilot(tmp_path, _search=Said(None))
    manager.end("1")
    backend = LiveBackend(manager, Rhythm(0.0, 0.0))
    backend.look()
    source.begin("", None)
    source.choose(backend.current, BASE)
    source.close()
    none = recent(60).select(np.zeros(0, np.int64))
    assert len(WorkloadRepository(tmp_path / "jobs").read(none, 2**62)) == 1


def test_a_search_that_used_its_cpu_time_says_so(tmp_path: Path) -> None:
    manager = busy()
    machines, snapshot = machines_of(manager.nodes()), manager.snapshot()
    present, more = trace_of([], machines, snapshot.now), AutopilotLimits.of("budget=5000,least_days=1,check_days=0.5")
    task = PilotTask(
        tmp_path / "jobs", recent(3000), present, present, {}, machines.cluster, snapshot.now, BASE, 99.0,
        Candidates.of(["tiresias"], BASE), more, 1,
    )  # fmt: skip
    search = BackgroundSearch(nice=0)
    search.start(task)
    found: list[object] = []
    assert wait(lambda: bool(found.append(search.poll()) or found[-1] is not None), 180)
    assert found[-1] == "the search used all the CPU time it may have; lower budget, copies or days (--limits)"


def test_without_threads_there_is_no_search_and_rounds_go_on(tmp_path: Path, monkeypatch) -> None:
    source, current = pilot(tmp_path), one_round()
    source.begin("", None)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", lambda _: (_ for _ in ()).throw(RuntimeError("no more threads")))
        assert source.choose(current, BASE) is None
    assert source.remark == "can't tell yet, because no more threads"
    assert not source._search.busy
    source.close()


def test_a_search_that_takes_too_long_or_dies_is_ended(tmp_path: Path) -> None:
    manager = busy()
    machines, snapshot = machines_of(manager.nodes()), manager.snapshot()
    present = trace_of([], machines, snapshot.now)
    task = PilotTask(
        tmp_path / "jobs", None, present, present, {}, machines.cluster, snapshot.now, BASE, 99.0,
        Candidates.of([BEST], BASE), LIMITS, 600,
    )  # fmt: skip
    slow = BackgroundSearch(longest_s=0.0)
    slow.start(task)
    time.sleep(0.01)
    assert "took longer" in str(slow.poll())
    assert not slow.busy
    dead = BackgroundSearch(nice=0)
    dead.start(task)
    assert wait(lambda: dead._process.pid is not None, 60)
    dead._process.kill()
    found: list[object] = []
    assert wait(lambda: bool(found.append(dead.poll()) or found[-1] is not None), 60)
    assert "without an answer" in str(found[-1]) or "could not be begun" in str(found[-1])


@pytest.mark.parametrize("sent", [b"garbage", pickle.dumps(7), pickle.dumps("sjf")])
def test_an_answer_that_is_none_ends_no_round(sent: bytes) -> None:
    near, far = multiprocessing.Pipe(duplex=False)
    far.send_bytes(sent)
    far.close()
    assert "answer" in str(BackgroundSearch()._received(None, near))  # type: ignore[arg-type]


def test_a_large_task_makes_no_round_wait(tmp_path: Path, monkeypatch) -> None:
    """A process reads its task only when all is loaded, and a pipe holds little of it: a thread waits, not a round."""
    from multiprocessing.context import SpawnProcess

    let_go = threading.Event()
    monkeypatch.setattr(SpawnProcess, "start", lambda _: let_go.wait(60) and None)
    search = BackgroundSearch()
    search.start(None)  # type: ignore[arg-type]
    assert search.busy
    assert search.poll() is None  # neither waits
    let_go.set()
    search.close()
    assert not search.busy


@pytest.mark.parametrize(("guard", "kept"), [("on", (2.0, 0.9)), ("on:worst_p99=3,worst_fairness=0.5", (3.0, 0.5))])
def test_the_guard_checks_the_limits_of_the_operator(tmp_path: Path, guard: str, kept: tuple[float, float]) -> None:
    options = _AutopilotOptions(BASE, (BEST,), "worst_p99=2,worst_fairness=0.9", tmp_path / "jobs")
    settings = ControllerSettings(guard=Tolerance.of(guard, options.tolerated("auto")))
    with ExitStack() as stack:
        _, found = options.source("auto", busy(), tmp_path / "journal.db", None, settings, stack)
    assert found is not None
    assert (found.worst_p99, found.worst_fairness) == kept


def test_a_limit_that_only_replays_keep_is_refused() -> None:
    with pytest.raises(LiveError, match="worst_day is for replays; on a live cluster set --guard on:margin=X"):
        _AutopilotOptions(BASE, (BEST,), "worst_day=2", None).check("auto")
    _AutopilotOptions(BASE, (BEST,), "worst_day=1.05", None).check("auto")
