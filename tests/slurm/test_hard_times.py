"""The controller where things are odd: it goes on, harms nobody, and gives everything back."""

from __future__ import annotations

import sqlite3
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pretend import Played, Pretend

from shunter.errors import LiveError
from shunter.live.backend import Rhythm, Round
from shunter.live.controller import ChangeLimits, Controller, Mode, RoundResult
from shunter.live.journal import ABANDONED, DONE, RESUME, STOP, Journal, JournalError
from shunter.live.levers import Order
from shunter.live.locks import only_controller
from shunter.live.manager import DeclinedError, UnreachableError
from shunter.live.releasing import release
from shunter.live.running import ControllerSettings, run
from shunter.registry import policy
from shunter.slurm.client import Client
from shunter.slurm.manager import SlurmManager

RUNNING = {"State": "RUNNING", "Reason": "None", "StartTime": "2026-01-05T08:10:00", "NodeList": "n0"}


class Rounds:
    """A controller without a policy: tests say what it wants."""

    def __init__(self, client: Pretend, folder: Path, **more) -> None:
        self.client, self.outcomes = client, []
        self.book = Journal(folder / f"{time.monotonic_ns()}.db")
        self.controller = Controller(SlurmManager(client), self.book, mode=Mode.ACT, **({"interval_s": 60.0} | more))
        self.number = 0

    def __call__(self, ranking: list[str], starts: dict[str, tuple[str, ...]] | None = None) -> RoundResult:
        self.number += 1
        self.client.now += 1
        snapshot = self.controller.manager.snapshot()
        wanted = Round(self.number, snapshot, None, snapshot.jobs, ranking, starts or {})
        self.outcomes.append(self.controller.act_on(wanted))
        return self.outcomes[-1]

    def release(self) -> tuple[int, list[str]]:
        return release(self.controller.manager, self.book, self.controller.manager.snapshot())


@pytest.fixture
def rounds(tmp_path):
    def made(jobs: dict[str, Played], **more) -> Rounds:
        return Rounds(Pretend(jobs), tmp_path, **more)

    return made


STEPS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(1, 400), st.booleans()), max_size=4),  # who comes: its priority, whether ours
        st.integers(0, 3),  # how many leave
        st.randoms(use_true_random=False),
    ),
    min_size=3,
    max_size=8,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_many_rounds_keep_the_order_and_harm_no_job(tmp_path, steps) -> None:
    """Whatever comes, ages, leaves and is ranked: the order comes out, and release leaves no trace of us."""
    client = Pretend({})
    rounds, had = Rounds(client, tmp_path), {}
    for comes, leave, draw in steps:
        for base, ours in comes:
            job = str(100 + len(had))
            had[job] = draw.choice((0, 0, 7, -5))
            client.jobs[job] = Played(base + 50, gpus=int(ours), came=client.now, nice=had[job])
        for job in draw.sample(sorted(client.jobs), min(leave, len(client.jobs))):
            del client.jobs[job]
        ranking = [job for job, played in client.jobs.items() if played.gpus]
        draw.shuffle(ranking)
        rounds(ranking)
        time.sleep(0.002)
        assert not rounds(ranking).orders  # once is enough, while nothing changes but the age
        assert not rounds.book.left_alone()
        natural = {job: played.priority(client.now) + played.nice - had[job] for job, played in client.jobs.items()}
        first = sorted(natural, key=lambda job: (-natural[job], int(job)))
        order = client.order()
        for job in client.jobs.keys() - set(ranking):
            assert client.jobs[job].nice == had[job]
            assert order.index(job) <= first.index(job)  # nobody gets behind more jobs than by Slurm's own rules
        if len(ranking) == len(client.jobs):
            assert order == ranking
        highest = max((natural[job] for job in ranking), default=0) + 10_000  # no ratchet
        assert all(client.jobs[job].priority(client.now) <= highest for job in ranking)
    rounds.release()
    assert {job: played.nice for job, played in client.jobs.items()} == {job: had[job] for job in client.jobs}
    rounds.book.close()


def test_what_a_slurm_forgot_that_was_started_in_the_same_second_is_nobodys_doing(rounds) -> None:
    """Slurm says in which second it was started; a change of that second may have been before."""
    jobs = {"1": Played(100), "2": Played(90)}
    play = rounds(jobs)
    play(["2", "1"])
    changed = play.book.acts()[-1]
    play.client.booted = datetime.fromtimestamp(int(changed.at), UTC).replace(tzinfo=None).isoformat()
    for job in jobs.values():
        job.nice, job.said = 0, {}
    assert not play(["2", "1"]).respected
    assert jobs["2"].nice < 0 or jobs["1"].nice > 0  # and it was ordered again


def test_a_job_that_was_corrected_since_the_look_is_not_changed_by_what_the_look_showed(rounds) -> None:
    """A priority of ours had cleared its nice and is gone: its own nice comes back, and nothing else in this round."""
    mark = "shunter:{id}:priority=125:7>678"
    jobs = {"1": Played(100), "2": Played(90)}
    play = rounds(jobs)
    jobs["2"].said["admin_comment"] = mark.format(id=play.book.id)
    play(["2", "1"])
    assert (jobs["2"].nice, jobs["2"].said["admin_comment"]) == (7, "(null)")
    for _ in range(3):
        assert not play(["2", "1"]).respected
    assert play.client.order() == ["2", "1"]
    assert play.release()[1] == []
    assert (jobs["1"].nice, jobs["2"].nice) == (0, 7)


def test_a_correction_that_lands_late_is_not_taken_for_a_change_of_others(rounds, monkeypatch) -> None:
    """The controller gave it up; Slurm had the command all the same, and carries it out in a later round."""
    jobs = {"1": Played(100), "2": Played(90)}
    play = rounds(jobs)
    jobs["2"].said["admin_comment"] = f"shunter:{play.book.id}:priority=125:7>678"
    late = []

    def silent(program: str, *arguments: str, **more: Any) -> str:
        if arguments[0] != "update":
            return Pretend.run(play.client, program, *arguments, **more)
        late.append(arguments[1:])
        raise UnreachableError("no answer")

    monkeypatch.setattr(play.client, "run", silent)
    with pytest.raises(UnreachableError):
        play(["2", "1"])
    monkeypatch.undo()
    for _ in range(2):  # the next controller
        play(["2", "1"])
    play.client._update(*late[0])
    for _ in range(3):
        assert not play(["2", "1"]).respected
    assert play.client.order() == ["2", "1"]
    assert play.release()[1] == []
    assert (jobs["1"].nice, jobs["2"].nice) == (0, 7)


def test_jobs_that_were_handed_back_without_a_note_were_not_changed_by_others(rounds) -> None:
    """The process that handed them back was killed before it wrote down what it had undone."""
    jobs = {"1": Played(1000, nice=300), "2": Played(990, nice=300)}
    play = rounds(jobs)
    play(["2", "1"])
    play.book.note(STOP, "an operator")
    for job in jobs.values():
        job.nice, job.said = 300, {}
    play.book.note(RESUME, "an operator")
    assert not play(["2", "1"]).respected
    assert play.client.order() == ["2", "1"]
    jobs["2"].nice = 300  # and now somebody does
    assert play(["2", "1"]).respected.keys() == {"2"}


def test_a_priority_that_is_as_large_by_chance_is_not_taken_for_one_that_was_given_up(rounds) -> None:
    jobs = {"1": Played(100), "2": Played(90)}
    play = rounds(jobs)
    play.book.settle(play.book.intend(1, [Order("2", "priority", "1", "90:0")])[0], ABANDONED)
    jobs["2"].nice = jobs["2"].priority(play.client.now + 1) - 1  # its own; so Slurm computes 1
    play(["1", "2"])
    assert not play.book.in_force()


def test_equal_priorities_among_others_are_not_changed_for_ever(rounds) -> None:
    jobs = {str(number): Played(500, gpus=number % 2) for number in range(1, 12)}
    play = rounds(jobs)
    assert not play([job for job in jobs if jobs[job].gpus]).orders  # as Slurm has it already, by job ids
    backwards = [job for job in reversed(jobs) if jobs[job].gpus]
    assert play(backwards).done
    assert not play(backwards).orders


def test_a_job_that_runs_and_is_queued_again_keeps_no_lift_of_ours(rounds) -> None:
    jobs = {"1": Played(100), "2": Played(90), "3": Played(80)}
    play = rounds(jobs)
    play(["3", "1", "2"])
    assert jobs["3"].nice < 0
    jobs["3"].said = dict(RUNNING)
    play(["1", "2"])
    lifted, jobs["3"].said = jobs["3"].nice, {}
    assert not play(["3", "1", "2"]).respected
    assert jobs["3"].nice == lifted  # what it has of us is not its own: it is not put above that again
    jobs["3"].said = dict(RUNNING)
    assert play.release() == (1, [])
    assert jobs["3"].nice == 0


def test_a_task_of_an_array_that_is_queued_again_has_a_handle_of_its_own(rounds) -> None:
    again = {"JobArrayID": "7_2"}
    jobs = {"7": Played(50, said={"JobArrayID": "7_[4-6%2]"}), "9": Played(50, said=again), "10": Played(400)}
    found = rounds(jobs).controller.manager.snapshot().jobs
    assert [(job.id, job.handle, job.whole) for job in found if job.id != "10"] == [
        ("7", "7", "7"),
        ("7_2", "7_2", "7"),
    ]
    jobs["9"].said |= RUNNING
    running = rounds(jobs).controller.manager.snapshot().jobs[1]
    assert (running.handle, running.whole) == ("7_2", "7")  # to be requeued alone


def test_parts_of_a_heterogeneous_job_go_together(rounds) -> None:
    jobs = {number: Played(50, said={"HetJobID": "7"}) for number in ("7", "8")} | {"9": Played(60)}
    play = rounds(jobs, levers=frozenset({"nice", "pin"}))
    outcome = play(["7", "8", "9"], {"7": ("n0",)})
    assert [(order.handle, order.lever) for order in outcome.orders] == [("7", "nice")]


def test_what_slurm_declines_is_tried_ever_more_rarely_and_keeps_no_job_back(rounds) -> None:
    jobs = {str(number): Played(100 + number) for number in range(1, 9)}
    play = rounds(jobs, bounds=ChangeLimits(changes=2))
    play.client.decline = lambda handle, _: "no, thanks" if handle in ("1", "2") else ""
    ranking = sorted(jobs, key=int)  # the other way round: 1 and 2 are the most urgent
    for _ in range(8):
        play(ranking)
    assert sum(handle in ("1", "2") for handle, _, _ in play.client.updates) == 2
    assert [job for job in play.client.order() if int(job) > 2] == [job for job in ranking if int(job) > 2]
    play.controller._refused = {handle: (times, 0.0) for handle, (times, _) in play.controller._refused.items()}
    play.client.decline = lambda *_: ""
    for _ in range(4):
        play(ranking)
    assert play.client.order() == ranking


def test_no_job_is_put_before_an_excluded_job_if_no_other_made_room(rounds) -> None:
    jobs = {"1": Played(300), "2": Played(200), "3": Played(100)}  # 2 is excluded
    play = rounds(jobs)
    play.client.decline = lambda handle, _: "no, thanks" if handle == "1" else ""
    outcome = play(["3", "1"])
    assert play.client.order() == ["1", "2", "3"]
    assert ([order.handle for order, _ in outcome.failed], outcome.postponed) == (["1"], 1)
    play.client.decline = lambda *_: ""
    play.controller._refused = {}
    play(["3", "1"])
    assert play.client.order() == ["3", "2", "1"]


def test_a_job_that_is_cancelled_before_it_is_lowered_has_made_room(rounds) -> None:
    jobs = {"1": Played(300), "2": Played(200), "3": Played(100)}  # 2 is excluded
    play = rounds(jobs)
    play.client.decline = lambda handle, _: "Invalid job id specified" if handle == "1" else ""
    outcome = play(["3", "1"])
    assert outcome.postponed == 0
    assert play.client.order().index("3") < play.client.order().index("2")


def test_a_nice_set_by_hand_on_a_job_that_we_never_touched_is_respected(rounds) -> None:
    jobs = {"1": Played(100), "2": Played(90)}
    play = rounds(jobs)
    play(["1", "2"])
    jobs["2"].nice = -500
    assert play(["1", "2"]).respected.keys() == {"2"}
    assert play(["1", "2"]).orders == []
    assert jobs["2"].nice == -500


PIN = Order("1", "pin", "n0", "")


def pinned(play: Rounds) -> None:
    (act,) = play.book.intend(0, [PIN])
    play.client.jobs["1"].said["ReqNodes"] = "n0"
    play.book.settle(act, DONE)
    time.sleep(0.002)  # the next look comes later than this, also in whole milliseconds


def test_pins_are_lifted_while_it_is_paused_and_when_pinning_was_put_away(rounds) -> None:
    for levers, paused in ((frozenset({"nice", "pin"}), "the guard said so"), (frozenset({"nice"}), "")):
        play = rounds({"1": Played(100)}, levers=levers)
        pinned(play)
        play.controller.paused = paused
        play(["1"], {"1": ("n0",)})
        assert play.client.jobs["1"].said["ReqNodes"] == "(null)", (levers, paused)


def test_a_pin_that_its_user_replaced_is_the_users(rounds) -> None:
    play = rounds({"1": Played(100)}, levers=frozenset({"nice", "pin"}))
    pinned(play)
    play.client.jobs["1"].said["ReqNodes"] = "n1"
    assert "1" in play([], {}).respected
    play(["1"], {"1": ("n0",)})
    play.release()
    assert play.client.jobs["1"].said["ReqNodes"] == "n1"


def test_what_slurm_would_not_undo_is_not_forgotten(rounds) -> None:
    play = rounds({"1": Played(100)}, levers=frozenset({"nice", "pin"}))
    pinned(play)
    play.client.decline = lambda *_: "Job update not available right now"
    assert play.release()[0] == 0
    assert play.book.in_force()
    play.client.decline = lambda *_: ""
    assert play.release() == (1, [])
    assert not play.book.in_force()


def test_shards_are_halved_once(rounds) -> None:
    play = rounds({"1": Played(100, said={"tres-per-node": "gres:shard:8"})}, levers=frozenset({"shard"}))
    snapshot = play.controller.manager.snapshot()
    for _ in range(2):
        current = Round(1, snapshot, None, snapshot.jobs, ["1"], {"1": ("n0",)}, {"1"})
        orders, _ = play.controller.orders(current)
        for act in play.book.intend(1, orders):
            play.book.settle(act, DONE)
    assert orders == []


ODD = [
    {"PriorityLong": "unknown"},
    {"tres-alloc": "cpu=4,mem=lots"},
    {"SubmitTime": "yesterday"},
    {"NodeList": "n[1-"},
    {"Nice": ""},
]
HARMLESS = [
    {"State": "DANCING"},
    {"State": "RUNNING", "NodeList": "elsewhere", "StartTime": "2026-01-05T08:10:00"},
    {"State": "RUNNING", "NodeList": "n0", "StartTime": "2099-01-01T00:00:00"},
    {"SubmitTime": "2099-01-01T00:00:00", "EligibleTime": "2099-01-01T00:00:00"},
    {"Partition": "renamed"},
    {"Partition": "other,main"},
    {"tres-alloc": "cpu=4,gres/gpu=4000"},
    {"PriorityLong": "0"},
    {"Nice": "-2147483645"},
    {"Name": "\ufffd\x1b[2J;.\n"},
    {"UserName": ""},
    {"TimeLimit": "INVALID"},
    {"JobID": "67108865", "JobArrayID": "67108865", "Dependency": "afterok:1@other(unfulfilled)"},
    {"State": "COMPLETED", "StartTime": "2026-01-05T08:10:00", "EndTime": "2026-01-05T08:00:00"},
]


@pytest.mark.parametrize("name", ["wfp3:backfill=easy", "tiresias"])
def test_odd_jobs_are_left_to_slurm_and_the_others_ordered(tmp_path, name) -> None:
    jobs = {str(number): Played(100 + number, gpus=9, minutes=9) for number in range(1, 4)}
    jobs |= {str(50 + at): Played(70, said=said) for at, said in enumerate([*ODD, *HARMLESS])}
    client, outcomes = Pretend(jobs), []
    client.nodes["odd"] = [*client.nodes["n0"][:4], "what/ever", "?", "?", "(null)"]
    client.nodes["cpu"] = [*client.nodes["n0"][:2], "(null)", "(null)", *client.nodes["n0"][4:]]
    client.nodes["two"] = ["main", "mixed", "gpu:t4:2,gpu:a100:4,x:y:no_consume:4G", "gpu:a100:2(IDX:4-5)"]
    client.nodes["two"] += client.nodes["n0"][4:]
    run(
        policy(name), SlurmManager(client), tmp_path / "j.db",
        ControllerSettings(Mode.ACT, Rhythm(0.01, 0.01), rounds=3),
        on_round=outcomes.append,
    )  # fmt: skip
    assert len(outcomes) == 3
    assert outcomes[0].unread.keys() == {"node odd", *(f"job {50 + at}" for at in range(len(ODD)))}
    assert not outcomes[1].unread  # said once
    assert {"1", "2", "3"} <= set(outcomes[-1].round.ranking)


@pytest.mark.parametrize("name", ["sjf:backfill=easy", "dally"])
def test_machines_come_and_go(tmp_path, name) -> None:
    """A policy that remembers nodes by number must not meet others; and none at all is no reason to stop."""
    client = Pretend({str(number): Played(100, gpus=number, minutes=9 * number) for number in range(1, 9)}, nodes=3)
    outcomes, problems = [], []
    everything = dict(client.nodes)

    def told(outcome: RoundResult) -> None:
        outcomes.append(outcome)
        if len(outcomes) == 2:
            client.nodes = {f"m{number}": list(everything["n0"]) for number in range(40)}
        elif len(outcomes) == 4:
            client.nodes = {"n1": [*everything["n1"][:2], "gpu:a100:2", *everything["n1"][3:]]}
        elif len(outcomes) == 6:
            client.nodes = {}

    def away(problem: LiveError) -> None:
        problems.append(str(problem))
        client.nodes = everything

    run(
        policy(name), SlurmManager(client), tmp_path / "j.db",
        ControllerSettings(Mode.ACT, Rhythm(0.01, 0.01), rounds=9),
        on_round=told, on_silence=away,
    )  # fmt: skip
    assert len(outcomes) == 9
    assert len(problems) == 1
    assert "no node has GPUs" in problems[0]


def test_a_journal_that_cannot_be_written_stops_changes_and_not_the_controller(tmp_path) -> None:
    client = Pretend({str(number): Played(100 + number, gpus=9, minutes=number) for number in range(1, 5)})
    path, problems, outcomes = tmp_path / "j.db", [], []
    other = None

    def told(outcome: RoundResult) -> None:
        nonlocal other
        outcomes.append(outcome)
        if other is None:
            client.jobs["9"] = Played(1, gpus=9, minutes=1)
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("begin immediate")

    def away(problem: LiveError) -> None:
        problems.append(problem)
        assert client.jobs["9"].nice == 0  # nothing is done that is not written down
        other.execute("rollback")

    original = Journal.__init__

    def impatient(self, path):
        original(self, path)
        self._file.execute("pragma busy_timeout = 50")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "__init__", impatient)
        run(
            policy("sjf"), SlurmManager(client), path, ControllerSettings(Mode.ACT, Rhythm(0.01, 0.01), rounds=4),
            on_round=told, on_silence=away,
        )  # fmt: skip
    assert [type(problem) for problem in problems] == [JournalError]
    assert client.jobs["9"].nice < 0
    other.close()


def test_a_full_disk_does_not_lock_the_journal_for_good(tmp_path) -> None:
    book = Journal(tmp_path / "j.db")
    pages = book._file.execute("pragma page_count").fetchone()[0]
    book._file.execute(f"pragma max_page_count = {pages}")
    with pytest.raises(JournalError, match="full"):
        book.note("x", "y" * 300_000)
    book._file.execute("pragma max_page_count = 100000")
    book.note("z", "there is room again")
    assert book.last_event("z") is not None


def test_the_journal_forgets_what_is_over_and_nothing_that_is_needed(tmp_path) -> None:
    book = Journal(tmp_path / "j.db")
    for handle, values in (("1", "12"), ("2", "3"), ("3", "4")):
        for value in values:
            (act,) = book.intend(1, [Order(handle, "nice", value, "0")])
            book.settle(act, DONE)
    book.settle(book.in_force()["2", "nice"], "undone")
    book.settle(book.in_force()["3", "nice"], "undone")
    for handle in ("3", "4"):
        book.leave_alone(handle, "by hand")
    for kind in ("begin", "begin", "guard", "end"):
        book.note(kind, "")
    assert book.forget(days=1) == 0
    assert book.forget(days=-1, present={"3"}) == 3  # of job 2 its act, of job 4 that it is left alone, an event
    assert {act.order.handle for act in book.acts()} == {"1", "3"}
    assert book.left_alone().keys() == {"3"}
    assert [kind for _, kind, _ in book.events()] == [
        "begin",
        "guard",
        "end",
    ]  # what is still needed


def test_a_round_that_fails_at_first_is_an_error_and_later_is_not(tmp_path) -> None:
    client = Pretend({"1": Played(5)})
    answer, outcomes, problems = client.run, [], []

    def run_(program: str, *arguments: str, **more: Any) -> str:
        if program == "squeue" and len(outcomes) == (2 if broken_later else 0):
            broken_now.append(1)
            if len(broken_now) < 3:
                raise DeclinedError("squeue: Slurm backup controller in standby mode")
        return answer(program, *arguments, **more)

    client.run = run_
    how = ControllerSettings(Mode.ACT, Rhythm(0.01, 0.01), rounds=4)
    for broken_later in (False, True):
        broken_now: list[int] = []
        if not broken_later:
            with pytest.raises(DeclinedError):
                run(policy("fifo"), SlurmManager(client), tmp_path / "j.db", how, on_round=outcomes.append)
            assert Journal(tmp_path / "j.db").last_event("crash") is not None
        else:
            run(
                policy("fifo"),
                SlurmManager(client),
                tmp_path / "j.db",
                how,
                on_round=outcomes.append,
                on_silence=problems.append,
            )
    assert len(outcomes) == 4
    assert len(problems) == 2


def test_what_a_killed_guard_had_begun_to_hand_back_is_handed_back_at_the_next_start(tmp_path) -> None:
    client = Pretend({"1": Played(5, nice=-40)})
    book = Journal(tmp_path / "j.db")
    (act,) = book.intend(1, [Order("1", "nice", "-40", "3")])
    book.settle(act, DONE)
    book.note("guard", "the guard has handed the jobs back")
    book.close()
    run(
        policy("fifo"),
        SlurmManager(client),
        tmp_path / "j.db",
        ControllerSettings(Mode.ACT, Rhythm(0.01, 0.01), rounds=1),
    )
    assert client.jobs["1"].nice == 3


def script(folder: Path, text: str) -> Client:
    program = folder / "scontrol"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    client = Client()
    client.environment["PATH"] = f"{folder}:/usr/bin:/bin"
    return client


def test_a_command_that_was_killed_may_have_been_heard(tmp_path) -> None:
    with pytest.raises(UnreachableError, match="signal 15"):
        script(tmp_path, "kill -TERM $$").run("scontrol", "update", "jobid=1", "nice=1")


def test_a_command_that_is_too_long_is_no_reason_to_give_up_the_others(tmp_path) -> None:
    tasks = ",".join(map(str, range(0, 100_000, 3)))
    with pytest.raises(DeclinedError, match="too long"):
        script(tmp_path, "true").run("scontrol", "update", f"jobid=13_[{tasks}]", "nice=1")


def test_an_array_of_which_some_tasks_have_ended_was_changed_all_the_same(tmp_path) -> None:
    said = "13_1,3: Job has already finished\n13_2,4-5: No error"
    script(tmp_path, f"printf '{said}' >&2; exit 1").run("scontrol", "update", "jobid=13", "nice=1")
    with pytest.raises(DeclinedError):
        script(tmp_path, "echo 13_1-5: Job has already finished >&2; exit 1").run("scontrol", "update")


# ------------------------------------------------------------------------------------------- what can't be read, or be


def test_what_was_done_to_a_job_is_remembered_while_slurms_words_about_it_can_not_be_read(rounds):
    played = {"1": Played(100), "2": Played(200)}
    one = rounds(played)
    one(["1", "2"])
    done = one.book.in_force().keys()
    assert done
    for job in played.values():
        job.said["PriorityLong"] = "?"
    one([])
    assert one.book.in_force().keys() == done
    undone, problems = one.release()
    assert (undone, len(problems)) == (0, len(done))
    assert one.book.in_force().keys() == done
    for job in played.values():
        job.said.clear()
    assert one.release() == (len(done), [])
    assert [job.nice for job in played.values()] == [0, 0]


ON_N0 = {"tres-alloc": "cpu=4,mem=16G,node=1,gres/gpu=1", "TimeUsed": "1:00"}
ODD_RUNNING = {
    "a comment that says that it is done": {"Comment": "shunter: done=100000 iteration_s=100"},
    "a comment with a run time of more than 64 bits": {
        "Comment": "shunter: iterations=1e15 iteration_s=1e15 done=1e15"
    },
    "running for longer than we take anybody to": {"TimeUsed": "31-00:00:00", "TimeLimit": "UNLIMITED"},
    "of a partition that is no longer there": {"Partition": "gone"},
    "on the other GPUs of its node": {"tres-alloc": "cpu=4,node=1,gres/gpu=1,gres/gpu:v100=1"},
    "on a node that went to another partition": {"NodeList": "n1"},
}


@pytest.mark.parametrize("odd", ODD_RUNNING)
@pytest.mark.parametrize("name", ["fifo", "sjf:backfill=easy"])
def test_no_running_job_ends_the_controller(odd, name, tmp_path):
    client = Pretend({"1": Played(100), "2": Played(200, said=RUNNING | ON_N0 | ODD_RUNNING[odd])})
    client.nodes = {
        "n0": [
            "main",
            "mixed",
            "gpu:a100:3,gpu:v100:1",
            "gpu:a100:1(IDX:0-1,0,9)",
            "4/60/0/64",
            "1000000",
            "0",
            "(null)",
        ],
        "n1": ["other", "mixed", "gpu:v100:4", "gpu:v100:1(IDX:0)", "4/60/0/64", "1000000", "0", "(null)"],
    }
    outcomes: list[RoundResult] = []
    silences: list[LiveError] = []
    settings = ControllerSettings(Mode.ACT, Rhythm(0.0, 0.0), rounds=3)
    run(
        policy(name),
        SlurmManager(client),
        tmp_path / "journal.db",
        settings,
        on_round=outcomes.append,
        on_silence=silences.append,
    )
    assert len(outcomes) == 3
    assert not silences
    assert {job.id for job in outcomes[-1].round.jobs} == {"1", "2"}


def test_a_new_partition_on_known_nodes_is_seen(tmp_path):
    client = Pretend({"1": Played(100)})
    outcomes: list[RoundResult] = []

    def told(outcome: RoundResult) -> None:
        outcomes.append(outcome)
        client.jobs["2"] = Played(50, said={"Partition": "new"})
        client.more = [[name, "new", *row[1:]] for name, row in client.nodes.items()]

    run(
        policy("fifo"),
        SlurmManager(client),
        tmp_path / "journal.db",
        ControllerSettings(rhythm=Rhythm(0.0, 0.0), rounds=3),
        on_round=told,
    )
    assert {job.id for job in outcomes[-1].round.jobs} == {"1", "2"}


def test_a_link_to_a_journal_is_the_same_journal(tmp_path):
    (tmp_path / "link.db").symlink_to(tmp_path / "journal.db")
    with (
        only_controller(tmp_path / "journal.db"),
        pytest.raises(LiveError, match="another controller acts"),
        only_controller(tmp_path / "link.db"),
    ):
        pass
