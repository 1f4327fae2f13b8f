"""What is said about requests that bind a job, held against what a real Slurm does with it."""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from shunter.errors import LiveError
from shunter.live.answers import why_view
from shunter.live.daemons import wait
from shunter.live.forecast import Forecast
from shunter.live.why import why
from shunter.slurm import questions
from shunter.slurm import watcher as watching
from shunter.slurm.client import Client
from shunter.slurm.constraints import parse
from shunter.slurm.hostlist import expand
from shunter.slurm.lab import Lab
from shunter.slurm.watcher import OutputFormat, Watcher

pytestmark = pytest.mark.slurm
FEATURES = {"p100-1": "p100,x,y", "p100-2": "p100,y", "p100-3": "p100", "k80-1": "k80,x"}


@pytest.fixture(scope="module")
def site() -> Iterator[Lab]:
    """A lab with licences, features, and arrays of ten thousand tasks."""
    if reason := Lab.missing():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="lab", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        settings = {"Licenses": "matlab:4,comsol:9", "MaxArraySize": "10001", "MaxJobCount": "50000"}
        with Lab(Path(folder), settings=settings) as lab:
            for node, features in FEATURES.items():
                both = (f"availablefeatures={features}", f"activefeatures={features}")
                lab.run("scontrol", "update", f"nodename={node}", *both)
            yield lab


@pytest.fixture
def lab(site: Lab, monkeypatch) -> Lab:
    for line in site.run("scontrol", "-o", "show", "reservations").splitlines():
        if line.startswith("ReservationName="):
            site.run("scontrol", "delete", line.split()[0].lower())
    site.reset()
    monkeypatch.setenv("SLURM_CONF", str(site.conf))
    return site


def runs(lab: Lab, *options: str, seconds: int, user: str | None = None, until: Path | None = None) -> str:
    """Submit a job that says how long it runs, and does so, or ends as soon as a file is there."""
    about = ("--time=20", f"--comment=shunter: run_s={seconds}")
    script = f"sleep {seconds}" if until is None else f"while [ ! -e {until} ]; do sleep 0.1; done"
    return str(lab.submit(*about, *options, script=script, user=user))


def filled(lab: Lab, seconds: dict[str, int], ends: Path | None = None) -> dict[str, float]:
    """Nodes that are in use for so long, or until a file in ``ends`` has their name; when each should be free."""
    jobs = {}
    for node, each in seconds.items():
        gpus = 1 if node.startswith("m40") else 4
        jobs[node] = runs(lab, f"--nodelist={node}", f"--gres=gpu:{gpus}", seconds=each, until=ends and ends / node)
    for job in jobs.values():
        lab.wait_job(job, "RUNNING")
    return {node: time_of(lab.job(job)["StartTime"]) + seconds[node] for node, job in jobs.items()}


def looked_at(lab: Lab, *jobs: str) -> None:
    """Wait until Slurm has a reason for each."""

    def reasons() -> bool:
        return all(lab.job(job)["Reason"] not in ("None", "") for job in jobs)

    assert wait(reasons, 180)


def forecast(*jobs: str) -> list[Forecast]:
    outlook = questions.AnswerSources().outlook(samples=10)
    return outlook.of(*(questions.pending(outlook.snapshot, job) for job in jobs))


def time_of(text: str) -> float:
    return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S")) - time.timezone


def shown(what: object) -> str:
    """As printed, in one line."""
    out = Console(file=io.StringIO(), width=100)
    out.print(what)
    return " ".join(out.file.getvalue().split())


EXPRESSIONS = (
    *("k80|p100&x", "p100&x|k80", "k80&x|p100&y", "(k80|p100)&x", "k80|(p100&y)", "x&y", "m40|y&(x|k80)"),
    *("(k80&x)|(p100&y)", "y&(x|p100)"),
)


def test_constraints_mean_what_they_mean_to_slurm(lab: Lab) -> None:
    nodes = {node.name: node for node in Watcher(Client(lab.conf)).snapshot().nodes}
    for text in EXPRESSIONS:
        fulfilled = parse(text)
        for name in ("k80-1", "k80-2", "m40-1", "p100-1", "p100-2", "p100-3"):
            asked = (
                "sbatch",
                "--test-only",
                f"--nodelist={name}",
                f"--constraint={text}",
                "--gres=gpu:1",
                "--wrap=true",
            )
            if fulfilled(nodes[name].features):
                lab.run(*asked)
            else:
                with pytest.raises(LiveError, match="configuration is not available"):
                    lab.run(*asked)


def test_bound_jobs_start_when_and_where_it_is_said(lab: Lab, tmp_path: Path) -> None:
    """Nodes become free one after the other; each job must wait for the right ones."""
    free = filled(lab, {"p100-2": 300, "m40-1": 500, "p100-1": 700, "p100-3": 900}, tmp_path)
    bound = {  # what a job asks for, the node that it waits for, and where it may run
        "constraint": (("--constraint=x&y", "--gres=gpu:1"), "p100-1", {"p100-1"}),
        "exclude": (("--exclude=p100-[1-2]", "--gres=gpu:p100:1"), "p100-3", {"p100-3"}),
        "nodes": (("--nodes=2", "--gres=gpu:p100:1"), "p100-1", {"p100-1", "p100-2"}),
        "any": (("--gpus=p100:1", "--time=5"), "p100-2", {"p100-2"}),  # it ends before "nodes" could start
        "whole": (("--exclusive", "--gres=gpu:m40:1", "--nodelist=m40-1"), "m40-1", {"m40-1"}),
    }
    jobs = {name: runs(lab, *options, seconds=1) for name, (options, *_) in bound.items()}
    looked_at(lab, *jobs.values())
    outlook = questions.AnswerSources().outlook(samples=10)
    asked = [questions.pending(outlook.snapshot, job) for job in jobs.values()]
    said = dict(zip(jobs, outlook.of(*asked), strict=True))
    assert not any(each.because for each in said.values())
    assert {why(outlook, job).room.gpus for job in asked[:2]} == {4}
    for node, at in free.items():
        assert {lab.job(job)["JobState"] for name, job in jobs.items() if free[bound[name][1]] >= at} == {"PENDING"}
        (tmp_path / node).touch()
        for name, job in jobs.items():
            if bound[name][1] == node:
                assert abs(said[name].at(0.5) / 1000 - at) < 60, name
                lab.wait_job(job, "RUNNING", "COMPLETED")
                assert set(expand(lab.job(job)["NodeList"])) <= bound[name][2], name


def test_only_rivals_are_counted_on_slurm(lab: Lab) -> None:
    filled(lab, {"p100-1": 600, "p100-2": 600, "p100-3": 600})
    others = [runs(lab, "--exclude=p100-[2-3]", "--gres=gpu:p100:4", "--nice=-100", seconds=9) for _ in range(5)]
    mine = runs(lab, "--exclude=p100-1", "--gres=gpu:p100:1", seconds=9)
    looked_at(lab, mine, *others)
    outlook = questions.AnswerSources().outlook(samples=10)
    found = why(outlook, questions.pending(outlook.snapshot, mine))
    assert (found.place, found.queue, found.ahead_gpus, found.room.gpus) == (1, 1, 0, 8)


def test_a_job_before_a_maintenance_hears_what_helps(lab: Lab) -> None:
    """With the limit that is proposed Slurm starts it at once; with its own it plans it for after the end."""
    about = ("starttime=now+30minutes", "duration=60", "nodes=p100-[1-3]", "flags=maint", "users=root")
    lab.run("scontrol", "create", "reservation", "reservationname=maint", *about)
    waits = str(lab.submit("--gres=gpu:p100:1", "--time=240", script="sleep 5", user="nobody"))
    short = str(lab.submit("--gres=gpu:p100:1", "--time=120", script="sleep 5", user="nobody"))

    def planned() -> bool:
        reason = lab.run("squeue", "--noheader", f"--jobs={waits}", "--format=%r")
        return lab.job(waits)["StartTime"] != "Unknown" and "ReqNodeNotAvail" in reason

    assert wait(planned, 180)
    outlook = questions.AnswerSources().outlook(samples=10)
    found = why(outlook, questions.pending(outlook.snapshot, waits))
    (reservation,) = outlook.snapshot.reservations
    assert found.kept is not None
    assert (found.kept.by, found.kept.earliest) == (reservation, reservation.end)
    minutes = (reservation.start - outlook.snapshot.now) // 60_000 - 1
    assert (found.kept.limit, found.kept.later) == (minutes * 60_000, False)
    said = shown(why_view(found))
    assert "waits: reservation maint takes the nodes that it needs before it could end by its limit" in said
    assert f"with --time 0:{minutes}:00 or less it ends before maint begins" in said
    assert "it starts no earlier than" in said
    assert "sinfo" not in said
    assert time_of(lab.job(waits)["StartTime"]) >= reservation.end / 1000  # Slurm's own plan
    lab.run("scontrol", "update", f"jobid={short}", f"timelimit={minutes}")
    lab.wait_job(short, "RUNNING", "COMPLETED")
    assert lab.job(waits)["JobState"] == "PENDING"
    lab.run("scontrol", "update", "reservationname=maint", "nodes=p100-[1-2]")
    lab.wait_job(waits, "RUNNING", "COMPLETED")  # the third node is enough


@pytest.mark.parametrize("begin", ["now", "now+10minutes"])
def test_reserved_nodes_are_back_when_slurm_says_so(lab: Lab, begin: str) -> None:
    about = (f"starttime={begin}", "duration=60", "nodes=p100-[1-3]", "flags=maint", "users=root")
    lab.run("scontrol", "create", "reservation", "reservationname=maint", *about)
    assert wait(lambda: begin != "now" or "MAINT" in lab.run("scontrol", "show", "node", "p100-1"), 180)
    long, inside = runs(lab, "--gres=gpu:p100:1", seconds=9), runs(lab, "--gres=gpu:k80:1", seconds=1)
    looked_at(lab, long)
    assert wait(lambda: lab.job(long)["StartTime"] != "Unknown", 180)
    lab.wait_job(inside, "RUNNING", "COMPLETED")  # elsewhere nothing is reserved
    (said,) = forecast(long)
    assert said.job.start > said.now
    assert abs(said.at(0.5) - said.job.start) < 90_000  # Slurm rounds its own estimate to minutes
    found = why(questions.AnswerSources().outlook(samples=10), said.job)
    assert [each.name for each in found.reservations] == ["maint"]
    assert found.room.reserved == (3 if begin == "now" else 0)
    if begin != "now":
        lab.wait_job(runs(lab, "--gres=gpu:p100:1", "--time=5", seconds=1), "RUNNING", "COMPLETED")  # a short one fits


def test_licences_are_counted_and_no_start_is_promised(lab: Lab, tmp_path: Path) -> None:
    first = runs(lab, "--licenses=matlab:3", "--gres=gpu:1", seconds=600, until=tmp_path / "end")
    lab.wait_job(first, "RUNNING")
    second = runs(lab, "--licenses=matlab:2,comsol", "--gres=gpu:1", seconds=1)
    looked_at(lab, second)
    outlook = questions.AnswerSources().outlook(samples=10)
    job = questions.pending(outlook.snapshot, second)
    assert job.reason == "Licenses"
    uses = {use.name: (use.wanted, use.free, use.total, use.users) for use in why(outlook, job).licences}
    assert uses == {"matlab": (2, 1, 4, ("root",)), "comsol": (1, 9, 9, ())}
    assert "licences of matlab" in outlook.of(job)[0].because[0]
    (tmp_path / "end").touch()
    lab.wait_job(second, "RUNNING", "COMPLETED")


def test_ten_thousand_tasks_are_one_record(lab: Lab) -> None:
    filled(lab, {"p100-1": 600, "p100-2": 600, "p100-3": 600})
    arrays = [str(lab.submit("--array=0-9999", "--gres=gpu:p100:1", "--time=20")) for _ in range(3)]
    last = runs(lab, "--gres=gpu:p100:1", "--nice=100", seconds=1)
    looked_at(lab, last)
    for form in OutputFormat:
        found = Watcher(Client(lab.conf), form).snapshot()
        assert [job.count for job in found.jobs if job.is_array] == [10_000] * 3
    outlook = questions.AnswerSources().outlook(samples=10)
    assert why(outlook, questions.pending(outlook.snapshot, last)).ahead_gpus == 30_000
    task = questions.pending(outlook.snapshot, f"{arrays[1]}_7345")
    assert outlook.line.place(task) == (17_346, 30_001)
    assert outlook.of(task)[0].at(0.5) > outlook.snapshot.now + 10_000


def test_throttled_tasks_start_when_it_is_said(lab: Lab, tmp_path: Path) -> None:
    """Three at a time, each until there is a file with its number."""
    task = tmp_path / "$SLURM_ARRAY_TASK_ID"
    array = runs(lab, "--array=0-8%3", "--gres=gpu:p100:1", seconds=300, until=task)
    assert wait(lambda: "JobArrayTaskLimit" in lab.run("squeue", "-h", "-o", "%r"), 180)
    lab.wait_job(f"{array}_2", "RUNNING")
    begun = time_of(lab.job(f"{array}_0")["StartTime"])
    waiting = {f"{array}_4": range(3), f"{array}_8": range(3, 6)}  # each with those that must end before
    said = forecast(*waiting)
    for turn, (name, before) in enumerate(waiting.items(), 1):
        assert said[turn - 1].job.reason.startswith("JobArrayTaskLimit")
        assert abs(said[turn - 1].at(0.5) / 1000 - begun - 300 * turn) < 60
        assert lab.job(name)["JobState"] == "PENDING"
        for number in before:
            (tmp_path / str(number)).touch()
        lab.wait_job(name, "RUNNING")


def test_a_user_who_sees_only_their_own_jobs_gets_a_message(lab: Lab, monkeypatch) -> None:
    """The cluster is full of jobs that he does not see; one of them is before his."""
    monkeypatch.setattr(watching, "user_name", lambda: "nobody")

    class Nobody(Client):
        def run(self, program: str, *arguments: str, **more: Any) -> str:
            return lab.run(program, *arguments, user="nobody", **more)

    filled(lab, {"p100-1": 600, "p100-2": 600, "p100-3": 600})
    runs(lab, "--gres=gpu:p100:4", "--nice=-100", seconds=600)
    mine = runs(lab, "--gres=gpu:p100:1", seconds=600, user="nobody")
    looked_at(lab, mine)
    before = lab.conf.read_text()
    try:
        lab.conf.write_text(f"PrivateData=jobs\n{before}")
        lab.run("scontrol", "reconfigure")
        monkeypatch.setattr(questions, "Client", lambda: Nobody(lab.conf))

        def alive() -> list[str]:  # Slurm goes on listing jobs of other tests that are over
            return [job.id for job in Watcher(Nobody(lab.conf)).snapshot().jobs if not job.over]

        assert wait(lambda: alive() == [mine], 180)
        outlook = questions.AnswerSources().outlook(samples=10)
        found = why(outlook, questions.pending(outlook.snapshot, mine))
        assert (found.place, found.queue) == (None, None)
        assert (found.room.gpus, found.room.free) == (12, 0)  # nodes show what is in use
        assert "PrivateData=jobs" in outlook.of(found.job)[0].because[0]
        monkeypatch.setattr(watching, "user_name", lambda: "root")
        root = Watcher(Client(lab.conf), surroundings=True).snapshot()
        assert (len(root.jobs) > 3, root.hidden) == (True, ())
    finally:
        lab.conf.write_text(before)
        lab.run("scontrol", "reconfigure")


def test_a_job_that_may_stop_others_by_its_partition(lab: Lab) -> None:
    filled(lab, {"p100-1": 1000, "p100-2": 1000, "p100-3": 1000})
    urgent = runs(lab, "--partition=urgent", "--gres=gpu:p100:4", "--begin=now+5minutes", seconds=1)
    plain = runs(lab, "--gres=gpu:p100:4", "--begin=now+5minutes", seconds=1)
    said = forecast(urgent, plain)
    assert "it may stop running jobs" in said[0].because[0]
    assert f"job {urgent} may stop running jobs where it may run" in said[1].because[0]
    others = runs(lab, "--gres=gpu:k80:2", "--begin=now+5minutes", seconds=1)
    assert not forecast(others)[0].because  # nothing runs there that could be stopped
    lab.run("scontrol", "update", f"jobid={urgent}", "starttime=now")
    lab.wait_job(urgent, "RUNNING", "COMPLETED")  # long before any of those would have ended


def test_a_job_that_may_stop_others_by_its_qos(lab_with_database: Lab, monkeypatch) -> None:
    lab = lab_with_database
    monkeypatch.setenv("SLURM_CONF", str(lab.conf))
    for words in (("add", "qos", "low"), ("add", "qos", "high", "preempt=low")):
        lab.run("sacctmgr", "-i", *words)
    lab.run("sacctmgr", "-i", "modify", "user", "root", "set", "qos=normal,low,high")
    before = lab.conf.read_text()
    by_qos = before.replace("preempt/partition_prio", "preempt/qos").replace(
        "PreemptMode=SUSPEND,GANG", "PreemptMode=REQUEUE"
    )
    try:
        lab.stop_controller()
        lab.conf.write_text(by_qos)
        lab.start_controller()
        low = [runs(lab, f"--nodelist=p100-{at}", "--gres=gpu:4", "--qos=low", seconds=1000) for at in (1, 2, 3)]
        for job in low:
            lab.wait_job(job, "RUNNING")
        high, normal = (
            runs(lab, "--gres=gpu:p100:2", f"--qos={qos}", "--begin=now+5minutes", seconds=1)
            for qos in ("high", "normal")
        )
        said = forecast(high, normal)
        assert "it may stop running jobs" in said[0].because[0]
        assert all("PreemptType=preempt/qos" in each.because[0] for each in said)
        for job in (high, normal):
            lab.run("scontrol", "update", f"jobid={job}", "starttime=now")
        lab.wait_job(high, "RUNNING", "COMPLETED")
        lab.wait_job(normal, "RUNNING", "COMPLETED")  # on what the job that was stopped left over
        for job in low:
            lab.wait_job(job, "RUNNING", "PENDING", "COMPLETING")
        assert sum(lab.job(job)["JobState"] == "PENDING" for job in low) == 1
    finally:
        lab.cancel_all()
        lab.stop_controller()
        lab.conf.write_text(before)
        lab.start_controller()
