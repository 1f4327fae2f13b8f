"""Asking Slurm: the same answers in JSON and in text, and text wherever JSON can't be had or takes long."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import replace
from typing import Any

import pytest

from shunter.errors import LiveError
from shunter.live.manager import DeclinedError, UnreachableError
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.slurm import watcher as watching
from shunter.slurm.client import Client
from shunter.slurm.lab import Lab
from shunter.slurm.scontrol_output import length_ms, time_ms
from shunter.slurm.squeue import job_of, json_record
from shunter.slurm.tres import MOST
from shunter.slurm.watcher import OutputFormat, Watcher

HOSTILE = "a;b|c 'd\" $(e) \\ ü ;0123456789ab;."

DAY_MS = 86_400_000


def submit_all_kinds(lab: Lab) -> None:
    """Jobs of every kind that are seen differently."""
    first = [lab.submit("--gres=gpu:1", "--time=10", script="sleep 600") for _ in range(24)]
    lab.submit("--nice=50", "--gpus=2", "--time=1-0", f"--job-name={HOSTILE}", f"--comment=shunter: model=x {HOSTILE}")
    array = lab.submit("--array=1-9%2", "--gres=gpu:k80:2", "--time=5")
    lab.submit(
        f"--array={','.join(str(number * number) for number in range(30))}", "--gres=gpu:k80:2", "--time=5", "--hold"
    )
    lab.submit("--array=3", "--gres=gpu:1", "--time=5")
    lab.submit("--begin=now+1hour", "--gpus-per-task=1", "--ntasks=3")
    lab.submit("--hold", "--gpus=1")
    lab.submit(f"--dependency=afterok:{first[0]}", "--gpus=1", "--no-requeue")
    lab.submit("--nodelist=p100-1,p100-2", "--gpus=8", "--nodes=2", "--time=30")
    lab.submit("--gpus=1", "--partition=main,urgent", "--mem=2G", "--cpus-per-task=3")
    lab.submit("--gpus=6", "--nodes=2-3", "--ntasks=4")
    lab.submit("--mem=100", "--time=0", script="true")
    lab.submit("--gres=gpu:1", ":", "--gres=gpu:1")
    lab.submit("--hold", "--gres=gpu:1", "--constraint=p100|k80", "--exclude=p100-[2-3],k80-1", "--exclusive")
    lab.submit("--hold", "--gres=gpu:1", "--nodes=2", "--exclusive=user", "--contiguous")
    lab.submit("--hold", "--gres=gpu:1", "--time=5", "--deadline=now+3days")
    for number in first[:3]:
        lab.wait_job(number, "RUNNING")
    for number, change in ((first[-1], "nice=77"), (first[-2], "nice=-5"), (first[-3], "priority=5")):
        lab.run("scontrol", "update", f"jobid={number}", change)
    lab.run("scontrol", "update", f"jobid={array}_7", "nice=400", f"admincomment= {HOSTILE} ")
    lab.run("scontrol", "suspend", str(first[0]))
    lab.run("scontrol", "requeue", str(first[1]))
    lab.run("scontrol", "update", "nodename=k80-1", "state=drain", "reason=test")
    lab.wait_job(first[1], "PENDING")


def test_json_and_text_give_the_same(lab: Lab) -> None:
    submit_all_kinds(lab)
    try:
        for _ in range(60):  # something may happen in between
            one, other = (Watcher(Client(lab.conf), form, surroundings=True) for form in OutputFormat)
            in_json, in_text = one.snapshot(), other.snapshot()
            differing = differences(in_json.jobs, in_text.jobs)
            alike = [[replace(node, state="") for node in each.nodes] for each in (in_json, in_text)]
            if not differing and alike[0] == alike[1]:
                break
            time.sleep(0.5)
    finally:
        lab.run("scontrol", "update", "nodename=k80-1", "state=resume")
    assert not differing
    assert not one.unread
    assert not other.unread
    assert sum(job.count for job in in_json.jobs) > 40
    alive = [job for job in in_json.jobs if not job.over]  # other tests may have left ended ones
    assert {(job.nice, job.annotation) for job in alive if job.nice == 400} == {(400, f" {HOSTILE} ")}
    assert any(len(job.tasks) > 64 for job in in_json.jobs)  # an array's tasks in full
    assert any(job.handle != job.id and "_" not in job.id for job in in_json.jobs)  # a part of a heterogeneous job
    assert {"PENDING", "RUNNING", "SUSPENDED"} <= {job.state for job in in_json.jobs}
    assert {node.name for node in in_json.nodes if not node.up} == {"k80-1"}
    assert alike[0] == alike[1]
    assert [node.up for node in in_json.nodes] == [node.up for node in in_text.nodes]
    assert any(node.used for node in in_json.nodes)
    held = {(job.features, job.excluded, job.exclusive, job.min_nodes, job.contiguous) for job in in_json.jobs}
    assert {("p100|k80", "k80-1,p100-[2-3]", "node", 1, False), ("", "", "user", 2, True)} <= held
    assert [job.due - job.submit for job in in_json.jobs if job.deadline > 0] == [pytest.approx(3 * DAY_MS, abs=5000)]
    assert {node.features for node in in_json.nodes} == {("p100",), ("k80",), ("m40",)}


def differences(some: tuple[LiveJob, ...], others: tuple[LiveJob, ...]) -> dict[str, tuple[object, object]]:
    """What is told differently; how long jobs have run may differ by the seconds in between."""
    by_id = {job.id: job for job in others}
    found: dict[str, tuple[object, object]] = {}
    if by_id.keys() != {job.id for job in some}:
        found["ids"] = (sorted({job.id for job in some} ^ by_id.keys()), None)
    for job in some:
        other = by_id.get(job.id, job)
        if abs(job.ran - other.ran) > 3000:
            found[f"{job.id} ran"] = (job.ran, other.ran)
        for name, value in vars(replace(job, ran=other.ran, max_nodes=other.max_nodes)).items():
            if value != getattr(other, name):
                found[f"{job.id} {name}"] = (value, getattr(other, name))
    return found


# ------------------------------------------------------------------------------------------- shapes of releases

OLD = {
    "job_id": 12, "array_job_id": 10, "array_task_id": 3, "array_task_string": "", "het_job_id": 0,
    "job_state": "PENDING", "state_reason": "Priority", "state_description": "", "user_name": "ann", "account": "red",
    "partition": "main", "qos": "normal", "priority": 4_294_901_700, "nice": 4_294_967_291,
    "submit_time": 1_794_786_000, "eligible_time": 1_794_786_001, "start_time": 0, "end_time": 0, "time_limit": 90,
    "pre_sus_time": 0, "suspend_time": 0, "node_count": 1, "nodes": "", "cpus": 4, "tasks": 1, "restart_cnt": 2,
    "required_nodes": "n[1-2]", "resv_name": "", "dependency": "", "tres_alloc_str": "",
    "tres_req_str": "cpu=4,mem=16G,node=1,billing=4,gres/gpu=2", "tres_per_job": "", "tres_per_node": "gres:gpu:a100:2",
    "tres_per_task": "", "tres_per_socket": "", "requeue": True, "name": "train", "comment": "shunter: model=bert",
    "features": "a100|h100", "licenses": "matlab:2", "shared": "none", "contiguous": False, "excluded_nodes": "n[8-9]",
    "admin_comment": "", "max_nodes": 1, "cpus_per_tres": "", "memory_per_tres": "", "memory_per_cpu": None,
    "memory_per_node": 16384,
}  # fmt: skip
WRAPPED = ("array_job_id", "array_task_id", "het_job_id", "priority", "submit_time", "eligible_time", "start_time")
WRAPPED += ("end_time", "time_limit", "pre_sus_time", "node_count", "cpus", "tasks")


def new(job: dict) -> dict:
    """The same job as releases from 23.11 on write it: wrapped numbers, lists of states, signed numbers."""
    told = {key: {"set": True, "infinite": False, "number": job[key]} for key in WRAPPED}
    return {**job, **told, "job_state": [job["job_state"]], "shared": ["none"], "nice": -5, "unheard_of": {"deep": [1]}}


def read(job: dict, now: int = 1_794_787_000_000) -> LiveJob:
    return job_of(json_record(job, now))


@pytest.mark.parametrize(
    "asked",
    [
        {"time_limit": 4_290_649_226},  # minutes; --time=2000000000
        {"eligible_time": 253_402_214_400, "start_time": 253_402_214_400},  # --begin=9999-12-31
        {"eligible_time": 100_001_795_038_073, "start_time": 100_001_795_038_073},  # --begin=now+99999999999999
        {"deadline": 253_402_214_400},
        {"start_time": 1_794_786_000, "end_time": 130_000_000_000, "job_state": "RUNNING"},
    ],
)
def test_a_snapshot_with_any_time_that_a_user_may_ask_for_is_read_back(tmp_path, asked):
    odd = read(OLD | asked)
    snapshot = Snapshot(1_794_787_000_000, (odd,), ())
    snapshot.save(tmp_path / "now.json")
    assert Snapshot.load(tmp_path / "now.json") == snapshot


def test_times_in_text_have_the_same_bounds():
    assert length_ms("2979617-10:26:00") == time_ms("9999-12-31T00:00:00") == MOST
    assert length_ms("1-00:00:01") == 86_401_000


def test_a_deadline_is_read_in_every_release():
    due = OLD | {"deadline": 1_794_999_000}
    assert read(due).deadline == read(new(due)).deadline == 1_794_999_000_000
    assert read(due | {"deadline": {"set": True, "infinite": False, "number": 1_794_999_000}}).due == 1_794_999_000_000
    assert read(due | {"deadline": {"set": False, "infinite": False, "number": 0}}).due == -1
    assert read(OLD | {"deadline": 0}).due == read(OLD).due == -1


def test_all_releases_write_the_same_job():
    found = read(OLD)
    assert found == read(new(OLD))
    assert (found.id, found.handle, found.nice, found.priority) == ("10_3", "10_3", -5, 4_294_901_700)
    assert (found.gpus, found.gpu_type, found.cpus, found.mem_mib, found.limit) == (2, "a100", 4, 16384, 5_400_000)
    assert (found.start, found.end, found.ran, found.wanted_nodes, found.hints.model) == (-1, -1, 0, "n[1-2]", "bert")
    assert found.waits
    assert (found.features, found.licenses, found.excluded) == ("a100|h100", "matlab:2", "n[8-9]")
    assert (found.exclusive, found.min_nodes, found.contiguous) == ("node", 1, False)


@pytest.mark.parametrize("shape", [dict, new])
def test_states_and_times_of_running_jobs(shape):
    about = {"job_state": "RUNNING", "start_time": 1_794_786_100, "end_time": 1_794_791_500, "nodes": "n[1-2]"}
    runs = OLD | about | {"tres_alloc_str": "cpu=4,mem=16G,node=2,gres/gpu=2,gres/gpu:a100=2"}
    found = read(shape(runs))
    assert (found.ran, found.nodes, found.handle, found.runs) == (900_000, ("n1", "n2"), "10_3", True)
    assert read(shape(runs | {"pre_sus_time": 60, "suspend_time": 1_794_786_900})).ran == 160_000
    assert read(shape(runs | {"job_state": "SUSPENDED", "pre_sus_time": 60, "suspend_time": 1})).ran == 60_000
    ends = shape(runs)
    ends["job_state"] = ["RUNNING", "COMPLETING"]
    assert read(ends).state == "COMPLETING"


def test_no_limit_and_limits_that_are_not_set():
    endless = {"set": True, "infinite": True, "number": 0}
    unset = {"set": False, "infinite": False, "number": 7}
    assert read(OLD | {"time_limit": endless}).limit == read(OLD | {"time_limit": None}).limit == 0
    assert read(OLD | {"nice": unset, "start_time": unset}).nice == 0
    assert read(OLD | {"nice": unset, "start_time": unset}).start == -1


def test_a_waiting_array_is_one_record_with_all_its_tasks():
    def array(tasks):
        return read(OLD | {"array_task_id": None, "array_task_string": tasks})

    few = array("1-3,7%2")
    assert (few.id, few.handle, few.tasks, few.throttle, few.count) == ("10", "10", "1-3,7", 2, 4)
    assert [task.id for task in few.first_tasks(3)] == ["10_1", "10_2", "10_3"]
    assert few.target == few.first_tasks(1)[0].target == "10_[1-3,7]"  # not 10: some tasks have their own record
    assert array("0-9999%50").count == 10_000
    assert array("0-9998:2").count == 5000
    assert (array("7").id, array("7").handle, array("7").count) == ("10_7", "10_7", 1)
    with pytest.raises(LiveError, match="tasks of an array should look like"):
        array("1,3,5,...")  # cut off: the number of tasks is not known


def test_the_last_task_of_an_array_is_named_alone():
    """It has the array's own number, which would name all tasks."""
    last = read(OLD | {"job_id": 10, "array_task_id": None, "array_task_string": "7"})
    assert (last.id, last.handle, last.target, last.whole) == ("10_7", "10_7", "10_7", "10")


# ------------------------------------------------------------------------------------------- when text is asked for

NODES = {"nodes": [{"name": "n1", "state": ["IDLE"], "gres": "gpu:4", "cpus": 8, "partitions": ["main"]}]}


class Answers(Client):
    """A Slurm whose JSON is given, or fails; its text is empty."""

    def __init__(self, release: tuple[int, int], said: object) -> None:
        super().__init__()
        self.release, self.said, self.asked = release, said, []

    def run(self, program: str, *arguments: str, **more: Any) -> str:
        self.asked.append((program, *arguments[:2]))
        if "--json" not in arguments:
            return ""
        if isinstance(self.said, Exception):
            raise self.said
        return json.dumps(self.said if program == "squeue" else NODES)


def test_which_questions_are_asked():
    old, middle, later = (Answers(release, {"jobs": [OLD]}) for release in ((20, 11), (22, 5), (23, 11)))
    assert [Watcher(each).form for each in (old, middle, later)] == [
        OutputFormat.TEXT,
        OutputFormat.JSON,
        OutputFormat.JSON,
    ]
    for each in (old, middle, later):
        Watcher(each).snapshot()
    assert [("--json" in question) for question in old.asked] == [False, False]
    assert middle.asked[1][0] == "sinfo"
    assert later.asked[1][:2] == ("scontrol", "--all")


ODD = [
    *({"jobs": [OLD, OLD | odd]} for odd in ({"nice": "very"}, {"submit_time": "soon"}, {"priority": None})),
    *({"jobs": [OLD, {key: value for key, value in OLD.items() if key != lost}]} for lost in ("qos", "state_reason")),
    {"jobs": [OLD | {"user_name": None, "user_id": None}]},
]


@pytest.mark.parametrize("problem", [DeclinedError("no plug-in"), {"jobs": "none"}, {"errors": []}, ["?"], *ODD])
def test_where_json_can_not_be_had_text_is_asked_for_from_then_on(problem):
    client = Answers((22, 5), problem)
    watcher = Watcher(client)
    assert watcher.snapshot().jobs == ()
    assert watcher.form is OutputFormat.TEXT
    asked = len(client.asked)
    watcher.snapshot()
    assert len(client.asked) == asked + 2  # JSON is not tried again
    with pytest.raises((LiveError, ValueError)):
        Watcher(Answers((22, 5), problem), OutputFormat.JSON).snapshot()


def test_a_slurm_that_does_not_answer_is_not_asked_twice():
    watcher = Watcher(Answers((22, 5), UnreachableError("away")))
    with pytest.raises(UnreachableError):
        watcher.snapshot()
    assert len(watcher.client.asked) == 1
    assert watcher.form is OutputFormat.TEXT  # it may have been too much


def test_long_answers_are_asked_for_in_text_the_next_time(monkeypatch):
    monkeypatch.setattr(watching, "LONG_S", -1.0)
    watcher = Watcher(Answers((22, 5), {"jobs": [OLD]}))
    assert [job.id for job in watcher.snapshot().jobs] == ["10_3"]
    assert watcher.form is OutputFormat.TEXT
    fixed = Watcher(Answers((22, 5), {"jobs": [OLD]}), OutputFormat.JSON)
    fixed.snapshot()
    assert fixed.form is OutputFormat.JSON


def test_the_mark_between_fields_is_not_in_the_arguments_that_everybody_sees(lab: Lab, monkeypatch) -> None:
    """Who saw it in time could name a job so that it looks like two."""
    marks, seen = ["a0b1c2d3e4f5"] * 9, []
    monkeypatch.setattr(secrets, "token_hex", lambda _bytes: marks.pop())

    class Seen(Client):
        def run(self, program: str, *arguments: str, **more: Any) -> str:
            seen.append((program, *arguments))
            return super().run(program, *arguments, **more)

    number = lab.submit("--gpus=1", "--hold")
    watcher = Watcher(Seen(lab.conf), OutputFormat.TEXT, surroundings=True)
    assert str(number) in {job.id for job in watcher.snapshot().jobs}
    asked = [words for words in seen if words[0] == "squeue"]
    assert asked
    assert not [words for words in asked if "a0b1c2d3e4f5" in " ".join(words)]
