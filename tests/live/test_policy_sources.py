"""A controller whose policy changes: the intent is in the journal first, memory goes on, and nothing is left behind."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from busy_manager import busy

from shunter import registry
from shunter.drive import decide
from shunter.errors import LiveError, PolicyError
from shunter.live.backend import LiveBackend, LiveView, Rhythm, Round
from shunter.live.backing_out import back_out
from shunter.live.controller import Mode, RoundResult
from shunter.live.journal import ABANDONED, DONE, GUARD, INTENT, STOP, Journal
from shunter.live.journal_file import DamagedError, JournalError
from shunter.live.metrics import Metrics
from shunter.live.running import ControllerSettings, policy_of, run
from shunter.live.sources import PolicyChoice, PolicySource
from shunter.live.standing import places
from shunter.live.switch_log import SwitchLog
from shunter.live.tolerance import Tolerance
from shunter.registry import policy
from shunter.scheduling.queue.policy import queue_of
from shunter.testing.memory_manager import MemoryManager

BASE, OTHER = "fifo:backfill=easy", "sjf:estimate=limit"


@dataclass
class Scripted(PolicySource):
    """A source that goes through policies, one per round, and then stays."""

    plan: Sequence[str] = (BASE, OTHER)
    name: str = "a script"
    remark: str = "reads its script"
    closed: bool = False
    seen: list[Round] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)

    def begin(self, in_force: str, switched: float | None) -> PolicyChoice:
        self.begun.append(in_force)
        return PolicyChoice(policy(in_force if in_force in self.plan else BASE), "first")

    def choose(self, current: Round, in_force: str) -> PolicyChoice | None:
        self.seen.append(current)
        at = min(len(self.seen), len(self.plan)) - 1
        return PolicyChoice(policy(self.plan[at]), "the script says so", f"line {at}")

    def hand_back(self, why: str) -> PolicyChoice | None:
        return PolicyChoice(policy(BASE), why)

    def close(self) -> None:
        self.closed = True


def control(manager: MemoryManager, journal: Path, source: Scripted, **more) -> list[RoundResult]:
    found: list[RoundResult] = []
    settings = ControllerSettings(**({"mode": Mode.ACT, "rhythm": Rhythm(0.0, 0.0), "rounds": 3} | more))
    run(source, manager, journal, settings, on_round=found.append)
    return found


def log_of(journal: Path) -> list[tuple[str, str, str]]:
    with closing(Journal.reading(journal)) as book:
        return [(each.before, each.policy, each.state) for each in SwitchLog(book).all()]


@pytest.mark.parametrize("problem", [LiveError("the audit log can't be written"), OSError(28, "No space left")])
def test_each_round_is_seen_once_by_all_though_one_fails(tmp_path: Path, problem: Exception) -> None:
    """A full disk behind the output neither ends the controller nor counts a switch twice."""
    manager, reported = busy(), list[LiveError]()
    numbers = Metrics(manager)

    def shown(result: RoundResult) -> None:
        numbers.seen(result)
        raise problem

    def full(found: LiveError) -> None:
        reported.append(found)
        raise OSError(28, "No space left")

    settings = ControllerSettings(Mode.ACT, Rhythm(0.0, 0.0), rounds=4)
    run(Scripted(), manager, tmp_path / "journal.db", settings, on_round=shown, on_silence=full)
    assert len(reported) == 4
    assert str(problem) in str(reported[0])
    assert 'shunter_policy_switches_total{result="made"} 1\n' in numbers.text()


@pytest.fixture
def other_fails(monkeypatch) -> None:
    """Each decision of ``OTHER``."""

    def fails(backend: object, chosen: object, view: object, memory: object) -> None:
        if chosen == policy(OTHER):
            raise KeyError("odd job")
        decide(backend, chosen, view, memory)

    monkeypatch.setattr("shunter.live.rounds.decide", fails)


def locked_at(monkeypatch, time: int) -> None:
    """The journal is locked when a switch is settled for the nth time; 0: never."""

    def locked(self: SwitchLog, number: int, state: str) -> None:
        tries.append(state)
        if len(tries) == time:
            raise JournalError("database is locked")
        settle(self, number, state)

    tries: list[str] = []
    settle = SwitchLog.settle
    monkeypatch.setattr(SwitchLog, "settle", locked)


def test_a_switch_is_noted_explained_and_done(tmp_path: Path) -> None:
    manager, journal = busy(), tmp_path / "journal.db"
    results = control(manager, journal, Scripted())
    assert [result.policy for result in results] == [BASE, OTHER, OTHER]
    assert [result.switch is not None for result in results] == [False, True, False]
    assert results[1].switch.why == "the script says so"
    assert manager.order() == ["5", "4", "3"]  # the new policy orders the jobs that the old one has seen
    assert log_of(journal) == [("", BASE, DONE), (BASE, OTHER, DONE)]
    with closing(Journal(journal)) as book:
        assert policy_of(book) == OTHER
        words = {kind: text for _, kind, text in book.events()}
        assert words["switch"] == f"{BASE} -> {OTHER}: the script says so (line 1)"
        assert "chosen by a script" in words["begin"]
    numbers = Metrics(manager)
    for result in results:
        numbers.seen(result)
    assert f'shunter_policy{{policy="{OTHER}"}} 1' in numbers.text()
    assert 'shunter_policy_switches_total{result="made"} 1' in numbers.text()
    assert BASE not in numbers.text()


def test_release_undoes_what_all_policies_did_and_begins_with_the_baseline_again(tmp_path: Path) -> None:
    manager, journal = busy(), tmp_path / "journal.db"
    control(manager, journal, Scripted())
    report = back_out(manager, journal, from_marks=False)
    assert not report.problems
    assert manager.order() == ["3", "4", "5"]
    assert not any(job.marks or job.nice for job in manager.jobs.values())
    after = Scripted()
    results = control(manager, journal, after, resume=True, rounds=1)
    assert after.begun[-1] == ""  # what was in force was handed back
    assert results[0].policy == BASE


@pytest.mark.parametrize("kind", [STOP, GUARD])
def test_a_hand_back_while_it_runs_forbids_switching_and_returns_to_the_baseline(tmp_path: Path, kind: str) -> None:
    manager, journal, plan = busy(), tmp_path / "journal.db", (BASE, OTHER, OTHER, OTHER, "saf", "saf")
    found: list[RoundResult] = []

    def seen(result: RoundResult) -> None:
        found.append(result)
        if len(found) == 2:
            with closing(Journal(journal)) as book:
                book.note(kind, "enough")

    settings = ControllerSettings(Mode.ACT, Rhythm(0.0, 0.0), rounds=6)
    run(Scripted(plan), manager, journal, settings, on_round=seen)
    assert [result.policy for result in found] == [BASE, OTHER, OTHER, BASE, BASE, BASE]
    assert manager.order() == ["3", "4", "5"]  # given back
    assert log_of(journal)[-1] == (OTHER, BASE, DONE)


def test_a_switch_is_refused_in_the_moment_of_a_hand_back(tmp_path: Path) -> None:
    with closing(Journal(tmp_path / "journal.db")) as book:
        book.note(STOP, "enough")
        with pytest.raises(LiveError, match="the policy stays: enough"):
            SwitchLog(book).intend(BASE, OTHER, "", "")
        assert SwitchLog(book).intend(OTHER, BASE, "", "", back=True)


def test_a_source_that_fails_once_costs_a_round_and_no_more(tmp_path: Path) -> None:
    @dataclass
    class Odd(Scripted):
        def choose(self, current: Round, in_force: str) -> PolicyChoice | None:
            self.seen.append(current)
            if len(self.seen) == 2:
                raise KeyError("odd job")
            return None

    silences: list[LiveError] = []
    settings = ControllerSettings(Mode.ACT, Rhythm(0.0, 0.0), rounds=3)
    source = Odd()
    run(source, busy(), tmp_path / "journal.db", settings, on_silence=silences.append)
    assert len(source.seen) == 4
    assert ["KeyError" in str(each) for each in silences] == [True]


def test_a_policy_that_can_not_start_is_refused_and_the_old_one_goes_on(tmp_path: Path, monkeypatch) -> None:
    wanted = policy(OTHER)

    def fails(self: object, cluster: object, previous: object = None) -> object:
        if self == wanted:
            raise ZeroDivisionError("odd job")
        return start(self, cluster, previous)

    start = type(wanted).start
    monkeypatch.setattr(type(wanted), "start", fails)
    with monkeypatch.context() as patched:
        patched.setattr("shunter.live.warming.rounds", lambda _: None)
        results = control(busy(), tmp_path / "journal.db", Scripted())
    assert {result.policy for result in results} == {BASE}
    assert results[1].switch.refused == "it could not start: ZeroDivisionError: odd job"
    assert log_of(tmp_path / "journal.db") == [("", BASE, DONE)]  # however often it is tried


@pytest.mark.usefixtures("other_fails")
@pytest.mark.parametrize("locked", [0, 1])
def test_a_policy_whose_first_decision_fails_gives_way_to_the_old_one(tmp_path: Path, monkeypatch, locked: int) -> None:
    locked_at(monkeypatch, locked)
    journal, plan = tmp_path / "journal.db", (BASE, OTHER, OTHER, OTHER, "saf")
    results = control(busy(), journal, Scripted(plan), rounds=4)
    assert [result.policy for result in results] == [BASE, BASE, BASE, "saf"]
    assert results[1].switch.refused == "its first decision failed"
    assert results[2].switch is None  # reported once
    assert log_of(journal) == [("", BASE, DONE), (BASE, OTHER, ABANDONED), (BASE, "saf", DONE)]
    with closing(Journal(journal)) as book:
        assert policy_of(book) == "saf"


@pytest.mark.usefixtures("other_fails")
@pytest.mark.parametrize("locked", [0, 1])
def test_a_policy_that_fails_after_a_restart_gives_way_to_the_baseline(
    tmp_path: Path, monkeypatch, locked: int
) -> None:
    """Else a controller that was killed in the first round of a policy which always fails could never start again."""
    journal = tmp_path / "journal.db"
    with closing(Journal(journal)) as book:
        SwitchLog(book).begin("it begins", BASE, "first")
        SwitchLog(book).intend(BASE, OTHER, "the script says so", "")
    locked_at(monkeypatch, locked)
    results = control(busy(), journal, Scripted((OTHER,)), rounds=2)
    assert [result.policy for result in results] == [BASE, BASE]
    assert results[0].switch.refused == "its first decision failed"  # the source wants it at once again
    assert log_of(journal)[-2:] == [("", OTHER, DONE), (OTHER, BASE, DONE)]
    with closing(Journal(journal)) as book:
        assert policy_of(book) == BASE


@pytest.mark.usefixtures("other_fails")
def test_a_policy_in_whose_first_round_two_controllers_were_killed_gives_way(tmp_path: Path, monkeypatch) -> None:
    """It may take all memory, again and again."""
    journal = tmp_path / "journal.db"
    with closing(Journal(journal)) as book:
        SwitchLog(book).begin("it begins", BASE, "first")
        SwitchLog(book).intend(BASE, OTHER, "the script says so", "")

    class KilledError(BaseException):
        pass

    def killed(*_) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr("shunter.live.rounds.decide", killed)
        with pytest.raises(KilledError):
            control(busy(), journal, Scripted((OTHER,)))
    assert log_of(journal)[-1] == ("", OTHER, INTENT)
    after = Scripted((BASE,))
    results = control(busy(), journal, after)
    assert after.begun[-1] == ""
    assert [result.policy for result in results] == [BASE] * len(results)
    assert log_of(journal)[-1] == ("", BASE, DONE)


@pytest.mark.usefixtures("other_fails")
def test_a_policy_that_has_decided_before_a_restart_stays(tmp_path: Path, monkeypatch) -> None:
    """One odd job must not undo what worked for weeks."""
    journal = tmp_path / "journal.db"
    with closing(Journal(journal)) as book:
        log = SwitchLog(book)
        log.begin("it begins", BASE, "first")
        log.settle(log.intend(BASE, OTHER, "the script says so", ""), DONE)
    tries: list[LiveError] = []
    settings = ControllerSettings(Mode.ACT, Rhythm(0.0, 0.0), rounds=1)
    stop = threading.Event()

    def silent(problem: LiveError) -> None:
        tries.append(problem)
        stop.set()

    run(Scripted((OTHER,)), busy(), journal, settings, on_silence=silent, stop=stop)
    assert "odd job" in str(tries[0])
    assert log_of(journal)[-1] == ("", OTHER, DONE)


@pytest.mark.usefixtures("other_fails")
def test_a_switch_whose_policy_fails_in_the_first_round_is_abandoned(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    results = control(busy(), journal, Scripted((OTHER, BASE)), rounds=2)
    assert [result.policy for result in results] == [BASE, BASE]
    assert log_of(journal) == [("", BASE, DONE), (BASE, OTHER, ABANDONED)]


def test_a_policy_that_fails_later_stays(tmp_path: Path, monkeypatch) -> None:
    """Its first round was done, so one odd job does not end it."""
    failed: list[object] = []

    def fails(backend: object, chosen: object, view: object, memory: object) -> None:
        decide(backend, chosen, view, memory)
        if chosen == policy(OTHER) and len(failed) < 2:
            failed.append(chosen)
            if len(failed) == 2:
                raise KeyError("odd job")

    monkeypatch.setattr("shunter.live.rounds.decide", fails)
    results = control(busy(), tmp_path / "journal.db", Scripted(), rounds=4)
    assert [result.policy for result in results] == [BASE, OTHER, OTHER, OTHER]
    assert len(failed) == 2


def test_a_full_disk_while_machines_change_does_not_end_the_controller(tmp_path: Path, monkeypatch) -> None:
    def note(self: Journal, kind: str, text: str) -> None:
        if kind == "machines":
            raise JournalError("disk is full")
        real(self, kind, text)

    def seen(result: RoundResult) -> None:
        found.append(result)
        if len(found) == 2:
            manager.node_count = 3

    real, manager, found = Journal.note, busy(), list[RoundResult]()
    monkeypatch.setattr(Journal, "note", note)
    silences: list[LiveError] = []
    settings = ControllerSettings(Mode.ACT, Rhythm(0.0, 0.0), rounds=4)
    run(policy(BASE), manager, tmp_path / "journal.db", settings, on_round=seen, on_silence=silences.append)
    assert [str(each) for each in silences] == ["disk is full"]
    assert len(found) == 4


def test_a_policy_too_long_for_the_journal_is_refused_before_it_is_written(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with closing(Journal(journal)) as book:
        log = SwitchLog(book)
        log.begin("it begins", BASE, "first")
        with pytest.raises(LiveError, match="at most 1,000 characters, got 1,001"):
            log.intend(BASE, "x" * 1001, "", "")
    assert log_of(journal) == [("", BASE, DONE)]


def test_a_controller_that_was_killed_after_the_intent_goes_on_with_the_new_policy(tmp_path: Path) -> None:
    """It may have changed jobs by then; the journal says which policy is in force."""
    manager, journal = busy(), tmp_path / "journal.db"

    class Killed(BaseException):
        pass

    @dataclass
    class Fatal(Scripted):
        def choose(self, current: Round, in_force: str) -> PolicyChoice | None:
            if len(self.seen) == 1:
                with closing(Journal(journal)) as book:
                    SwitchLog(book).intend(BASE, OTHER, "the script says so", "")
                raise Killed
            return super().choose(current, in_force)

    with pytest.raises(Killed):
        control(manager, journal, Fatal())
    assert log_of(journal)[-1] == (BASE, OTHER, INTENT)
    after = Scripted((OTHER,))
    results = control(manager, journal, after)
    assert after.begun[-1] == OTHER
    assert results[0].policy == OTHER
    assert log_of(journal) == [("", BASE, DONE), (BASE, OTHER, DONE), ("", OTHER, DONE)]
    assert not back_out(manager, journal, from_marks=False).problems
    assert manager.order() == ["3", "4", "5"]


def test_a_fixed_policy_in_between_ends_what_was_in_force(tmp_path: Path) -> None:
    manager, journal = busy(), tmp_path / "journal.db"
    control(manager, journal, Scripted())
    run(policy("saf"), manager, journal, ControllerSettings(Mode.ACT, Rhythm(0.0, 0.0), rounds=1))
    with closing(Journal.reading(journal)) as book:
        assert SwitchLog(book).in_force() == ""
        assert policy_of(book) == "saf"


def test_the_guard_holds_a_switch_back_and_lets_it_pass_later(tmp_path: Path) -> None:
    manager, journal, found = busy(), tmp_path / "journal.db", list[RoundResult]()

    @dataclass
    class Doubtful(Scripted):
        def choose(self, current: Round, in_force: str) -> PolicyChoice | None:
            chosen = super().choose(current, in_force)
            rounds.controller.doubt = "jobs wait longer" if len(self.seen) < 4 else ""
            return chosen

    from shunter.live.backend import LiveBackend
    from shunter.live.controller import Controller
    from shunter.live.rounds import Rounds

    with closing(Journal(journal)) as book:
        controller = Controller(manager, book, mode=Mode.ACT)
        rounds = Rounds(Doubtful(), LiveBackend(manager, Rhythm(0.0, 0.0)), controller, observers=(found.append,))
        rounds.run(5)
    assert [result.policy for result in found] == [BASE] * 3 + [OTHER] * 2
    assert "the guard holds it back" in found[1].switch.refused
    assert found[2].switch is None  # reported once


def test_a_policy_that_a_live_cluster_can_not_run_is_refused_and_the_old_one_stays(tmp_path: Path) -> None:
    results = control(busy(), tmp_path / "journal.db", Scripted((BASE, "sjf:estimate=oracle")))
    assert {result.policy for result in results} == {BASE}
    assert "does not know" in results[1].switch.refused
    assert log_of(tmp_path / "journal.db") == [("", BASE, DONE)]


def test_one_that_watches_switches_on_paper(tmp_path: Path) -> None:
    manager = busy()
    results = control(manager, tmp_path / "journal.db", Scripted(), mode=Mode.WATCH)
    assert [result.policy for result in results] == [BASE, OTHER, OTHER]
    assert [len(result.orders) for result in results] == [0, 2, 2]
    assert not (tmp_path / "journal.db").exists()
    assert manager.calls["change"] == 0


def test_the_shadow_is_that_of_the_baseline_whatever_is_in_force(tmp_path: Path) -> None:
    guard = Tolerance.of(f"on:base={BASE.replace(',', ';')}")
    results = control(busy(), tmp_path / "journal.db", Scripted(), guard=guard)
    assert results[-1].policy == OTHER


@pytest.mark.parametrize(
    "row",
    [
        (1, 1.0, "", "x" * 2000, "", "", DONE),
        (1, 1.0, "", "fifo", "", "", "whatever"),
        (1, "soon", "", "fifo", "", "", DONE),
        (1, 1.0, "", b"\x00\xff", "", "", DONE),
        (1, 1e300, "", "fifo", "", "", DONE),
    ],
    ids=["long", "state", "time", "bytes", "far"],
)
def test_forged_switches_are_refused(tmp_path: Path, row: tuple) -> None:
    journal = tmp_path / "journal.db"
    Journal(journal).close()
    with closing(sqlite3.connect(journal)) as file:
        file.execute(
            "insert into switches (event, at, before, policy, why, evidence, state) values (?, ?, ?, ?, ?, ?, ?)", row
        )
        file.commit()
    with closing(Journal(journal)) as book, pytest.raises(DamagedError):
        SwitchLog(book).in_force()


def test_journals_of_the_release_before_have_no_switches(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with closing(Journal(journal)) as book:
        book.note("begin", "sjf in mode act, journal 1")
    with closing(sqlite3.connect(journal)) as file:
        file.execute("drop table switches")
        file.execute("pragma user_version = 3")
        file.commit()
    with closing(Journal.reading(journal)) as book:
        assert policy_of(book) == "sjf"
    with closing(Journal(journal)) as book:
        assert SwitchLog(book).all() == []
        SwitchLog(book).intend(BASE, OTHER, "", "")


def test_switches_and_events_are_forgotten_but_not_the_last_ones(tmp_path: Path, monkeypatch) -> None:
    """The ids of events go on growing: by them one knows what came later."""
    with closing(Journal(tmp_path / "journal.db")) as book:
        log = SwitchLog(book)
        monkeypatch.setattr("time.time", lambda: 1000.0)
        for _ in range(3):
            log.settle(log.intend(BASE, OTHER, "", ""), DONE)
        monkeypatch.setattr("time.time", lambda: 1e9)
        book.forget(90)
        assert len(log.all()) == len(book.events()) == 1
        assert log.in_force() == OTHER
        book.note("begin", "another")
        assert log.in_force() == ""


def test_who_began_last_and_the_last_switch_are_never_forgotten(tmp_path: Path, monkeypatch) -> None:
    with closing(Journal(tmp_path / "journal.db")) as book:
        log = SwitchLog(book)
        monkeypatch.setattr("time.time", lambda: 1000.0)
        log.begin("auto in mode act", BASE, "first")
        log.settle(log.intend(BASE, OTHER, "", ""), DONE)
        log.begin("auto in mode act", OTHER, "it goes on")
        book.note("begin", "wfp3 in mode act, journal 1")
        monkeypatch.setattr("time.time", lambda: 1e9)
        book.note("machines", "4 nodes")
        book.forget(90)
        assert log.in_force() == ""  # another controller has begun since
        assert policy_of(book) == "wfp3"
        assert log.last_at() == 1000.0


def test_an_abandoned_switch_does_not_make_the_journal_forget_what_is_in_force(tmp_path: Path, monkeypatch) -> None:
    with closing(Journal(tmp_path / "journal.db")) as book:
        log = SwitchLog(book)
        monkeypatch.setattr("time.time", lambda: 1000.0)
        log.begin("auto in mode act", BASE, "first")
        log.settle(log.intend(BASE, OTHER, "", ""), DONE)
        log.settle(log.intend(OTHER, "saf", "", ""), ABANDONED)
        monkeypatch.setattr("time.time", lambda: 1e9)
        book.forget(90)
        assert (log.in_force(), log.last_at()) == (OTHER, 1000.0)


@pytest.mark.usefixtures("other_fails")
def test_an_undone_switch_is_written_down_before_the_next_one(tmp_path: Path, monkeypatch) -> None:
    """Else the journal would say for good that the policy which failed is in force."""
    locked_at(monkeypatch, 2)  # the second is that of the undone switch
    journal = tmp_path / "journal.db"
    control(busy(), journal, Scripted(("saf", BASE, OTHER, "saf", BASE)), rounds=4)
    states = [state for _, _, state in log_of(journal)]
    assert ABANDONED in states
    assert INTENT not in states


def test_a_policy_that_refuses_a_job_does_not_end_the_controller(tmp_path: Path, monkeypatch) -> None:
    """Any user may submit such a job at any time; only a policy that has never decided ends with its message."""

    def fails(backend: object, chosen: object, view: object, memory: object) -> None:
        rounds.append(chosen)
        if len(rounds) == refused_at:
            raise PolicyError("the trace has jobs that want a share")
        decide(backend, chosen, view, memory)

    monkeypatch.setattr("shunter.live.rounds.decide", fails)
    silences: list[LiveError] = []
    settings = ControllerSettings(Mode.ACT, Rhythm(0.0, 0.0), rounds=3)
    rounds: list[object] = []
    refused_at = 2
    run(policy(BASE), busy(), tmp_path / "journal.db", settings, on_silence=silences.append)
    assert ["want a share" in str(each) for each in silences] == [True]
    rounds, refused_at = [], 1
    with pytest.raises(PolicyError, match="want a share"):
        run(policy(BASE), busy(), tmp_path / "other.db", settings)


def test_what_a_failed_decision_planned_is_not_waited_for() -> None:
    manager, chosen = busy(), policy(OTHER)
    manager.end("1")
    backend = LiveBackend(manager, Rhythm(0.0, 0.0))
    view = backend.look()
    assert view is not None
    decide(backend, chosen, view, chosen.start(backend.cluster))
    assert backend._starting
    backend.forget_plan()
    assert not backend._starting


@pytest.mark.parametrize("renumbered", [False, True])
def test_after_a_failed_decision_jobs_are_not_taken_for_others(renumbered: bool) -> None:
    """As many jobs come as end; the policy failed before or after it had seen them."""
    manager, chosen = busy(), policy("sjf:estimate=limit")
    backend = LiveBackend(manager, Rhythm(0.0, 0.0))
    memory = chosen.start(backend.cluster)

    def look() -> LiveView:
        manager.submit(4, 20)
        view = backend.look()
        assert isinstance(view, LiveView)
        return view

    def known() -> dict[str, float]:
        return dict(zip((job.id for job in backend.current.jobs), queue_of(memory.form).estimate.tolist(), strict=True))

    decide(backend, chosen, look(), memory)
    backend.wanted()
    queue_of(memory.form).estimate[:] = 1000 + np.arange(len(known()))  # as if they had been learned
    learned = known()
    for gone in ("3", "4"):
        manager.jobs[gone] = replace(manager.jobs[gone], state="CANCELLED")
        view = look()
        if renumbered:
            chosen.compiled(view, memory)
        backend.forget_plan()
    manager.jobs["5"] = replace(manager.jobs["5"], state="CANCELLED")
    decide(backend, chosen, look(), memory)
    after = known()
    assert len(after) == len(learned)
    stayed = after.keys() & learned.keys()
    assert len(stayed) == 3
    assert {job: after[job] for job in stayed} == {job: learned[job] for job in stayed}
    assert not {*after.values()} & {learned[job] for job in learned.keys() - stayed}


def test_a_full_disk_in_the_moment_of_a_switch_keeps_the_old_policy(tmp_path: Path, monkeypatch) -> None:
    manager, found = busy(), list[RoundResult]()
    full = [True]
    real = SwitchLog.intend

    def intend(self: SwitchLog, *what: str, back: bool = False) -> int:
        if full[0]:
            pages = self.journal.rows("pragma page_count")[0][0]
            self.journal.rows(f"pragma max_page_count = {pages}")
        try:
            with_long = (*what[:3], "e" * 100_000)
            return real(self, *(with_long if full[0] else what), back=back)
        finally:
            self.journal.rows("pragma max_page_count = 1000000")

    monkeypatch.setattr(SwitchLog, "intend", intend)

    def seen(result: RoundResult) -> None:
        found.append(result)
        full[0] = len(found) < 3

    settings = ControllerSettings(Mode.ACT, Rhythm(0.0, 0.0), rounds=4)
    run(Scripted(), manager, tmp_path / "journal.db", settings, on_round=seen)
    assert [result.policy for result in found] == [BASE, BASE, BASE, OTHER]
    assert "can't be written" in found[1].switch.refused
    assert [state for *_, state in log_of(tmp_path / "journal.db")] == [DONE, DONE]


def test_of_two_controllers_the_one_that_gives_way_switches_nothing(tmp_path: Path) -> None:
    manager = busy()
    manager.signs["another"] = 0.0  # it was there before
    results = control(manager, tmp_path / "journal.db", Scripted((BASE, BASE, OTHER, OTHER)), rounds=4)
    assert {result.policy for result in results} == {BASE}
    assert "another controller" in results[-1].paused
    assert log_of(tmp_path / "journal.db") == [("", BASE, DONE)]
    assert manager.calls["change"] == 0


@pytest.mark.parametrize("text", ["saf:backfill=easy", "wfp3:backfill=easy", "srsf", "tiresias"])
def test_a_policy_that_takes_over_orders_all_that_wait_as_a_fresh_one_would(tmp_path: Path, text: str) -> None:
    results = control(busy(), tmp_path / "journal.db", Scripted((BASE, text, BASE)), mode=Mode.WATCH)
    assert [result.policy for result in results] == [BASE, registry.text(policy(text)), BASE]
    for result in results:
        fresh = places(policy(result.policy), result.round.snapshot)
        assert result.round.ranking == sorted(result.round.ranking, key=fresh.__getitem__)
        assert len(result.round.ranking) == 3
