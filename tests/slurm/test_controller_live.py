"""The controller on a real Slurm: what it does, what it leaves alone, and that it stands aside when things go wrong."""

from __future__ import annotations

import itertools
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from acting import rights

from shunter.errors import LiveError
from shunter.live import controller
from shunter.live.backend import Rhythm, Scope
from shunter.live.controller import ChangeLimits, Mode, RoundResult
from shunter.live.daemons import wait
from shunter.live.journal import Journal
from shunter.live.levers import Order, levers_from
from shunter.live.manager import UnreachableError
from shunter.live.releasing import release
from shunter.live.running import ControllerSettings, run
from shunter.live.snapshot import LiveJob
from shunter.live.stops import StopLimits
from shunter.registry import policy
from shunter.slurm import levers
from shunter.slurm.client import Client, declined
from shunter.slurm.lab import Lab
from shunter.slurm.levers import commands, undoing
from shunter.slurm.manager import SlurmManager
from shunter.slurm.watcher import Watcher

pytestmark = pytest.mark.slurm
FAST = Rhythm(0.3, 0.3)
# one of each kind: by a number of the job, by its wait, as Slurm does, by what was learned, and those that lease
POLICIES = [
    "sjf", "wfp3:backfill=easy", "multifactor", "qssf:backfill=easy", "tiresias:backfill=easy", "dally",
    "dally:backfill=easy",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, a look is not too old to act on."""
    monkeypatch.setattr(controller, "FRESH_S", 3600.0)


@pytest.fixture
def full(lab: Lab) -> Lab:
    """All GPUs are taken, so that whoever comes waits."""
    lab.wait_job(lab.submit("--gpus=22", "--time=30", script="sleep 600"), "RUNNING")
    return lab


def controlled(lab: Lab, tmp_path: Path, name: str = "sjf", rounds: int = 2, **more) -> list[RoundResult]:
    """Some rounds of a policy that acts."""
    outcomes: list[RoundResult] = []
    settings = ControllerSettings(**({"mode": Mode.ACT, "rhythm": FAST, "rounds": rounds} | more))
    run(policy(name), SlurmManager(Client(lab.conf)), tmp_path / "journal.db", settings, on_round=outcomes.append)
    return outcomes


def order_of(lab: Lab) -> list[int]:
    """The waiting jobs as Slurm would start them."""
    jobs = [job for job in Watcher(Client(lab.conf)).snapshot().jobs if job.state == "PENDING"]
    return [int(job.handle) for job in sorted(jobs, key=lambda job: (-job.priority, int(job.handle)))]


def waiting(lab: Lab, *minutes: int, **more) -> list[int]:
    return [lab.submit("--gpus=2", f"--time={each}", script="sleep 600", **more) for each in minutes]


@pytest.mark.parametrize("name", POLICIES)
def test_policies_run_live(full: Lab, tmp_path: Path, name: str) -> None:
    jobs = waiting(full, 9, 3, 5)
    for _ in range(20):
        outcomes = controlled(full, tmp_path, name, rounds=2)
        if not outcomes[-1].orders:
            break  # an order by waits may have changed between the two
    assert sorted(outcomes[0].round.ranking) == sorted(map(str, jobs))
    assert order_of(full) == [int(job) for job in outcomes[-1].round.ranking]
    if name.startswith("sjf"):
        assert order_of(full) == [jobs[1], jobs[2], jobs[0]]
    assert not outcomes[-1].orders  # the second round finds everything in its place


def test_watching_changes_nothing(full: Lab, tmp_path: Path) -> None:
    jobs = waiting(full, 9, 3, 5)
    for mode in (Mode.WATCH, Mode.DRY_RUN):
        outcomes = controlled(full, tmp_path, mode=mode)
        assert outcomes[0].orders
        assert order_of(full) == jobs
        assert all(full.job(job)["Nice"] == "0" for job in jobs)


def test_release_gives_everything_back(full: Lab, tmp_path: Path) -> None:
    jobs = [*waiting(full, 9, 3), full.submit("--gpus=2", "--time=1", "--nice=7", script="true")]
    before = [(full.job(job)["Priority"], full.job(job)["Nice"]) for job in jobs]
    controlled(full, tmp_path)
    assert [(full.job(job)["Priority"], full.job(job)["Nice"]) for job in jobs] != before
    client = Client(full.conf)
    undone, problems = release(SlurmManager(client), Journal(tmp_path / "journal.db"), Watcher(client).snapshot())
    assert (undone > 0, problems) == (True, [])
    assert [(full.job(job)["Priority"], full.job(job)["Nice"]) for job in jobs] == before


def test_priority_as_a_lever_and_back(full: Lab, tmp_path: Path) -> None:
    jobs = waiting(full, 9, 3, 5)
    before = [full.job(job)["Priority"] for job in jobs]
    controlled(full, tmp_path, levers=levers_from("priority"))
    assert order_of(full) == [jobs[1], jobs[2], jobs[0]]
    client = Client(full.conf)
    release(SlurmManager(client), Journal(tmp_path / "journal.db"), Watcher(client).snapshot())
    assert [full.job(job)["Priority"] for job in jobs] == before
    assert not any(full.job(job)["Reason"].startswith("JobHeld") for job in jobs)


def test_an_administrator_is_respected(full: Lab, tmp_path: Path) -> None:
    """Whoever sets a priority or a nice by hand wins, before or after us, and it is noted."""
    jobs = waiting(full, 9, 5, 3, 7)  # the second is moved
    full.run("scontrol", "update", f"jobid={jobs[3]}", "priority=3000")
    controlled(full, tmp_path)
    full.run("scontrol", "update", f"jobid={jobs[0]}", "priority=4000")
    full.run("scontrol", "update", f"jobid={jobs[1]}", "nice=123")
    outcomes = controlled(full, tmp_path, rounds=3)
    assert {int(handle) for handle in outcomes[0].respected} <= set(jobs)
    assert full.job(jobs[0])["Priority"] == "4000"
    assert full.job(jobs[1])["Nice"] == "123"
    assert full.job(jobs[3])["Priority"] == "3000"
    alone = Journal(tmp_path / "journal.db").left_alone()
    assert {int(handle) for handle in alone} == {jobs[0], jobs[1], jobs[3]}
    assert "priority to 4000" in alone[str(jobs[0])]


def test_bounds(full: Lab, tmp_path: Path) -> None:
    """Few changes a round, within the band, and jobs that are left alone lose nothing."""
    jobs = waiting(full, 9, 8, 7, 6, 5, 4)
    sla = full.submit("--gpus=2", "--time=2", "--comment=shunter: sla=yes", script="true")
    outcomes = controlled(full, tmp_path, rounds=1, bounds=ChangeLimits(changes=2, lift=50))
    assert len(outcomes[0].orders) == 2
    assert outcomes[0].postponed > 0
    outcomes = controlled(full, tmp_path, rounds=6, bounds=ChangeLimits(changes=2, lift=50))
    priorities = {job: int(full.job(job)["Priority"]) for job in jobs}
    natural = int(full.job(sla)["Priority"])
    assert max(priorities.values()) <= natural + 50
    assert full.job(sla)["Nice"] == "0"
    assert order_of(full) == [*jobs[::-1], sla]


def test_excluded_users_are_left_alone(full: Lab, tmp_path: Path) -> None:
    jobs = waiting(full, 9, 3)
    controlled(full, tmp_path, scope=Scope(without_users=frozenset({"root"})))
    assert all(full.job(job)["Nice"] == "0" for job in jobs)


def test_an_array_is_moved_as_one(full: Lab, tmp_path: Path) -> None:
    long = waiting(full, 9)[0]
    array = full.submit("--gpus=1", "--time=2", "--array=1-40", script="sleep 600")
    assert wait(
        lambda: all(job.waits or job.runs for job in Watcher(Client(full.conf)).snapshot().jobs if not job.over), 180
    )
    outcomes = controlled(full, tmp_path)
    assert outcomes[0].round.waiting == 41
    assert order_of(full)[0] == array
    assert order_of(full)[-1] == long
    states = full.run("squeue", "-h", "-t", "PD", "-o", "%i").split()
    assert f"{array}_[1-40]" in states  # not taken apart


def test_an_array_of_which_a_task_has_ended_and_one_was_queued_again_is_given_back(full: Lab, tmp_path: Path) -> None:
    """Slurm changes all tasks of an array at once, also those that run, and complains of those that have ended."""
    script = "[ $SLURM_ARRAY_TASK_ID = 1 ] && exit; sleep 600"
    (first,) = (job.handle for job in Watcher(Client(full.conf)).snapshot().jobs if job.runs)
    array = full.submit("--gpus=11", "--time=3", "--array=1-4", "--requeue", script=script)
    full.run("scancel", first)
    assert wait(lambda: full.job(f"{array}_1").get("JobState") == "COMPLETED", 180)
    assert wait(lambda: sum(job.runs for job in Watcher(Client(full.conf)).snapshot().jobs) == 2, 180)
    other = full.submit("--gpus=11", "--time=9", script="sleep 600")
    full.run("scontrol", "update", f"jobid={other}", "nice=-50")
    outcomes = controlled(full, tmp_path)
    assert [order.handle for order in outcomes[0].orders] == [f"{array}_4"]  # the only one that waits
    assert not outcomes[0].failed
    full.run("scontrol", "requeue", f"{array}_2")
    assert not controlled(full, tmp_path)[-1].respected
    client = Client(full.conf)
    release(SlurmManager(client), Journal(tmp_path / "journal.db"), Watcher(client).snapshot())
    found = [job for job in Watcher(client).snapshot().jobs if job.id.startswith(f"{array}_") and not job.over]
    assert len(found) == 3
    assert {job.nice for job in found} == {0}


def test_an_array_that_is_too_scattered_for_one_command_is_given_back(full: Lab, tmp_path: Path, monkeypatch) -> None:
    long = waiting(full, 9)[0]
    array = full.submit("--gpus=1", "--time=2", "--array=1,4,7,10,13-15,20", script="sleep 600")
    client = Client(full.conf)
    assert wait(lambda: all(job.waits or job.runs for job in Watcher(client).snapshot().jobs if not job.over), 180)
    controlled(full, tmp_path)
    assert order_of(full) == [array, long]
    monkeypatch.setattr(levers, "LONGEST_NAME", 10)
    said = []
    monkeypatch.setattr(client, "run", lambda *words, **more: said.append(words) or Client.run(client, *words, **more))
    with closing(Journal(tmp_path / "journal.db")) as book:
        assert release(SlurmManager(client), book, Watcher(client).snapshot())[1] == []
        assert not book.in_force()
    assert len([words for words in said if words[:2] == ("scontrol", "update")]) == 2
    found = [job for job in Watcher(Client(full.conf)).snapshot().jobs if job.state == "PENDING"]
    assert sum(job.count for job in found) == 9
    assert {(job.nice, job.annotation) for job in found} == {(0, "")}


def test_hostile_names(full: Lab, tmp_path: Path) -> None:
    """No name, comment or account gets to a shell, and none makes a record look like two."""
    mark = tmp_path / "owned"
    names = [f"$(touch {mark})", f"; touch {mark} #", "a\nb|c;d", "x" * 200, "--help", "%n$s", "nice=-9 jobid=1"]
    for name in names:
        full.submit("--gpus=2", f"--job-name={name}", f"--comment={name} shunter: model={name}", script="true")
    outcomes = controlled(full, tmp_path)
    assert len(outcomes[0].round.view.pending) == len(names)
    assert {job.name for job in outcomes[0].round.jobs if job.state == "PENDING"} == set(names)
    assert not mark.exists()


def test_a_job_that_vanishes_between_view_and_action(full: Lab, tmp_path: Path) -> None:
    jobs = waiting(full, 9, 3, 5)
    calls: list[str] = []

    class Cancelling(Client):
        def run(self, program: str, *arguments: str, **more: Any) -> str:
            words = (program, *arguments)
            if words[:2] == ("scontrol", "update") and words[2].startswith("jobid=") and not calls:
                calls.append(words[2])
                full.run("scancel", words[2].removeprefix("jobid="))
                time.sleep(0.5)
            return super().run(program, *arguments, **more)

    settings = ControllerSettings(mode=Mode.ACT, rhythm=FAST, rounds=3)
    outcomes: list[RoundResult] = []
    run(policy("sjf"), SlurmManager(Cancelling(full.conf)), tmp_path / "journal.db", settings, on_round=outcomes.append)
    gone = int(calls[0].removeprefix("jobid="))
    assert full.job(gone)["JobState"] == "CANCELLED"
    assert order_of(full) == [job for job in (jobs[1], jobs[2], jobs[0]) if job != gone]
    assert not Journal(tmp_path / "journal.db").acts("intent")


@contextmanager
def in_background(
    lab: Lab, tmp_path: Path, client: Client | None = None
) -> Iterator[tuple[list[RoundResult], list[str]]]:
    """A controller that goes on while something happens to Slurm."""
    outcomes: list[RoundResult] = []
    silences: list[str] = []
    stop = threading.Event()
    asking = client or Client(lab.conf, timeout_s=3)

    def away(silence: UnreachableError) -> None:
        silences.append(str(silence))

    def work() -> None:
        settings = ControllerSettings(mode=Mode.ACT, rhythm=FAST)
        journal = tmp_path / "journal.db"
        run(
            policy("sjf"), SlurmManager(asking), journal, settings, stop=stop, on_round=outcomes.append, on_silence=away
        )

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield outcomes, silences
    finally:
        stop.set()
        thread.join(120)
        assert not thread.is_alive()


def test_slurmctld_killed_and_restarted(full: Lab, tmp_path: Path) -> None:
    jobs = waiting(full, 9, 3)
    full.wait_saved()
    with in_background(full, tmp_path) as (outcomes, silences):
        assert wait(lambda: order_of(full) == [jobs[1], jobs[0]], 180)
        full.wait_saved()
        full.stop_controller(kill=True)
        assert wait(lambda: len(silences) > 0, 180)
        full.start_controller()
        seen = len(outcomes)
        assert wait(lambda: len(outcomes) > seen, 180)
        jobs += waiting(full, 1)
        assert wait(lambda: order_of(full) == [jobs[2], jobs[1], jobs[0]], 180)
    assert set(full.jobs()) >= set(jobs)  # none is lost


def test_a_node_goes_down(lab: Lab, tmp_path: Path) -> None:
    filler = lab.submit("--nodes=3", "--gpus-per-node=p100:4", "--time=30", script="sleep 600")
    lab.wait_job(filler, "RUNNING")
    jobs = [lab.submit("--gres=gpu:p100:2", f"--time={each}", script="sleep 600") for each in (9, 3)]
    with in_background(lab, tmp_path) as (outcomes, _):

        def nodes_down() -> int:
            return int((outcomes[-1].round.view.nodes.state != 0).sum()) if outcomes else -1

        assert wait(lambda: nodes_down() == 0, 180)
        lab.stop_node("k80-1", kill=True)
        lab.run("scontrol", "update", "nodename=k80-1", "state=down", "reason=test")
        assert wait(lambda: nodes_down() == 1, 180)
        assert wait(lambda: order_of(lab) == jobs[::-1], 180)
        lab.start_node("k80-1")
        assert wait(lambda: nodes_down() == 0, 180)


def test_a_command_that_hangs(full: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client command that never comes back is given up; nothing is repeated; then it goes on."""
    jobs = waiting(full, 9, 3)
    hangs = tmp_path / "hangs"
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("scontrol", "squeue"):
        program = programs / name
        program.write_text(f'#!/bin/sh\nwhile [ -e {hangs} ]; do sleep 0.1; done\nexec /usr/bin/{name} "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    client = Client(full.conf, timeout_s=3.0)
    with in_background(full, tmp_path, client) as (outcomes, silences):
        assert wait(lambda: order_of(full) == [jobs[1], jobs[0]], 180)
        hangs.touch()
        assert wait(lambda: len(silences) > 0, 180)
        assert "did not answer" in silences[0]
        hangs.unlink()
        seen = len(outcomes)
        assert wait(lambda: len(outcomes) > seen, 180)
        hangs.touch()
        assert wait(lambda: len(silences) > 1, 180)
        hangs.unlink()
        assert wait(lambda: not Journal(tmp_path / "journal.db").acts("intent"), 180)


def test_pins_and_requeues(lab: Lab, tmp_path: Path) -> None:
    """With the levers on: nodes are chosen, and a job that agreed is stopped for another; nobody is cancelled."""
    agreed = lab.submit("--gpus=22", "--time=30", "--comment=shunter: requeue=yes", script="sleep 600")
    lab.wait_job(agreed, "RUNNING")
    time.sleep(2)
    job = waiting(lab, 3)[0]
    outcomes = controlled(
        lab, tmp_path, "srtf", rounds=8, rhythm=Rhythm(1, 0.5), levers=levers_from("nice,pin,requeue"),
        bounds=ChangeLimits(stops=StopLimits(min_run_s=0.0)),
    )  # fmt: skip
    orders = [order for outcome in outcomes for order in outcome.orders]
    assert [order.handle for order in orders if order.lever == "requeue"] == [str(agreed)]
    lab.wait_job(job, "RUNNING")
    lab.wait_job(agreed, "PENDING", "RUNNING")
    assert lab.job(agreed)["Restarts"] == "1"
    pinned = {order.handle for order in orders if order.lever == "pin" and order.value}
    assert pinned
    assert all(
        lab.job(int(handle))["ReqNodeList"] == "(null)" or lab.job(int(handle))["JobState"] == "RUNNING"
        for handle in pinned
    )


@pytest.mark.parametrize("agrees", [True, False])
def test_our_best_stops_a_job_only_if_it_agreed_and_ran_for_long_enough(lab: Lab, tmp_path: Path, agrees: bool) -> None:
    comment = ["--comment=shunter: requeue=yes"] if agrees else []
    runs = lab.submit("--gpus=22", "--time=30", "--requeue", *comment, script="sleep 600")
    lab.wait_job(runs, "RUNNING")
    time.sleep(2)
    job, levers = waiting(lab, 3)[0], levers_from("nice,requeue")
    controlled(lab, tmp_path, "express:estimate=limit", rounds=3, levers=levers)
    assert lab.job(runs)["JobState"] == "RUNNING"  # for seconds, not for half an hour
    at_once = ChangeLimits(stops=StopLimits(per_hour=1, min_run_s=0.0))
    outcomes = controlled(lab, tmp_path, "express:estimate=limit", rounds=3, levers=levers, bounds=at_once)
    stops = [order.handle for outcome in outcomes for order in outcome.orders if order.lever == "requeue"]
    assert stops == ([str(runs)] if agrees else [])
    assert not any(outcome.round.refusals for outcome in outcomes)
    if agrees:
        lab.wait_job(job, "RUNNING")
    assert lab.job(runs)["Restarts"] == ("1" if agrees else "0")


def test_orders_name_one_job_and_one_thing() -> None:
    assert commands(Order("12", "nice", "-5", "0")) == (("scontrol", "update", "jobid=12", "nice=-5"),)
    job = LiveJob("12", "12", "PENDING", priority=5)
    for lever, own in {"nice": "0", "priority": "59:0", "pin": "", "requeue": "0", "shard": "gres:shard:2"}.items():
        doing, back = commands(Order("12", lever, "1", own)), undoing(job, {lever: own}) if lever != "requeue" else ()
        assert not any("cancel" in word or "hold" in word for command in (*doing, *back) for word in command)


def marked(lab: Lab) -> int:
    """How many waiting jobs have our marks; those of tests before are over, and still listed."""
    return sum(bool(job.annotation) for job in Watcher(Client(lab.conf)).snapshot().jobs if job.state == "PENDING")


def test_rights(lab_with_database: Lab, tmp_path: Path) -> None:
    """Without rights it only watches; an operator may change jobs, and an administrator may mark them."""
    lab = lab_with_database
    lab.wait_job(lab.submit("--gpus=22", "--time=30", script="sleep 600"), "RUNNING")
    jobs = [*waiting(lab, 9), lab.submit("--gpus=2", "--time=3", "--nice=9", script="sleep 600")]  # ages differ by less

    class As(Client):
        def __init__(self, user: str) -> None:
            super().__init__(lab.conf)
            self.user = user

        def run(self, program: str, *arguments: str, **more: Any) -> str:
            try:
                return lab.run(program, *arguments, user=self.user, **more)
            except LiveError as error:
                raise declined(str(error)) from None

    outcomes: list[RoundResult] = []
    settings = ControllerSettings(mode=Mode.ACT, rhythm=FAST, rounds=3)
    run(policy("sjf"), SlurmManager(As("nobody")), tmp_path / "nobody.db", settings, on_round=outcomes.append)
    assert "may not change the jobs of others" in outcomes[0].paused
    assert order_of(lab) == jobs
    assert sum(len(outcome.failed) for outcome in outcomes) == 1
    with rights(lab, "daemon") as become:
        become("Operator")
        run(policy("sjf"), SlurmManager(As("daemon")), tmp_path / "daemon.db", settings)
        assert order_of(lab) == jobs[::-1]
        assert Journal(tmp_path / "daemon.db").last_event("marks")  # only administrators may write them
        assert marked(lab) == 0
        become("Administrator")
        with closing(Journal(tmp_path / "daemon.db")) as book:
            assert release(SlurmManager(As("daemon")), book, Watcher(Client(lab.conf)).snapshot()) == (1, [])
        assert order_of(lab) == jobs
        run(policy("sjf"), SlurmManager(As("daemon")), tmp_path / "daemon.db", settings)
        assert marked(lab) == 1


def test_one_controller_acts_at_a_time(full: Lab, tmp_path: Path) -> None:
    waiting(full, 9, 3)
    with in_background(full, tmp_path) as (outcomes, _):
        assert wait(lambda: len(outcomes) > 0, 180)
        with pytest.raises(LiveError, match=f"another controller acts, process {os.getpid()};"):
            controlled(full, tmp_path)


@pytest.mark.slow  # on a busy machine the rounds see old queues, and do not get to the end in five minutes
def test_rounds_that_are_cut_off_cost_excluded_jobs_no_place(full: Lab, tmp_path: Path) -> None:
    """One or two changes per round, the shortest jobs last: after each an excluded job is where it was, or nearer."""
    jobs, kept = [], []
    for minutes in (9, 8, 7, 6):
        jobs.append(full.submit("--gpus=2", f"--time={minutes}"))
        kept.append(full.submit("--gpus=2", f"--time={minutes}", user="nobody"))
    for number, job in enumerate(sorted(jobs + kept)):  # far above 1, the least priority, and ages differ by less
        full.run("scontrol", "update", f"jobid={job}", f"nice={50 * number - 2000}")
    places = {job: order_of(full).index(job) for job in kept}
    scope = Scope(without_users=frozenset({"nobody"}))
    seen = []

    class Seeing(Client):
        """Looks at the queue after each change."""

        def run(self, program: str, *arguments: str, **more: Any) -> str:
            said = super().run(program, *arguments, **more)
            if program == "scontrol" and arguments[0] == "update":
                seen.append({job: order_of(full).index(job) for job in kept})
            return said

    allowed = itertools.chain((1, 1), itertools.repeat(2))

    def ordered() -> bool:
        """After one more round; seven are enough."""
        settings = ControllerSettings(
            mode=Mode.ACT, rhythm=FAST, rounds=1, bounds=ChangeLimits(changes=next(allowed)), scope=scope
        )
        run(policy("sjf"), SlurmManager(Seeing(full.conf)), tmp_path / "journal.db", settings)
        return [job for job in order_of(full) if job in jobs] == jobs[::-1]

    assert wait(ordered, 300)
    assert len(seen) >= 4
    for after in seen:
        assert all(after[job] <= places[job] for job in kept), (after, places)
    assert [full.job(job)["Nice"] for job in kept] == ["-1950", "-1850", "-1750", "-1650"]
