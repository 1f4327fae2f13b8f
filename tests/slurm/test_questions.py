"""Questions to a cluster: why a job waits, when it starts, what if; recorded, and on a real Slurm."""

from __future__ import annotations

import io
import json
import math
import time
from dataclasses import replace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from shunter.cli.main import app
from shunter.errors import LiveError
from shunter.live.answers import why_view
from shunter.live.daemons import wait
from shunter.live.forecast import Outlook
from shunter.live.hints import JobHints
from shunter.live.nodes import Node
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.live.surroundings import Defaults, Reservation
from shunter.live.wait_causes import Kind
from shunter.live.why import clock, why
from shunter.slurm import questions
from shunter.slurm.dialect import SLURM
from shunter.slurm.reasons import meaning, parents
from shunter.slurm.site import PartitionForm, Site

HOUR = 3_600_000
NOW = 1_800_000_000_000


def job(number: int, **about) -> LiveJob:
    given = {"user": "ann", "partition": "main", "limit": HOUR, "gpus": 4, "submit": NOW - HOUR, "eligible": NOW - HOUR}
    return LiveJob(
        str(number), str(number), **({"state": "PENDING", "reason": "Priority", "priority": 100} | given | about)
    )


def running(number: int, *nodes: str, **about) -> LiveJob:
    return job(
        number, state="RUNNING", reason="", start=NOW - HOUR, ran=HOUR, nodes=nodes, **{"limit": 4 * HOUR} | about
    )


def node(name: str, used: int, kind: str = "a100", state: str = "mixed") -> Node:
    return Node(name, state, ("main",), 8, kind, used=tuple(range(used)), cpus=64, mem_mib=512_000)


BUSY = Snapshot(
    NOW,
    (
        running(1, "n1", gpus=8, user="bob"),
        running(2, "n2", gpus=5, user="cid", limit=9 * HOUR),
        job(3, gpus=8, priority=200, reason="Resources"),
        job(4, gpus=4, limit=48 * HOUR),
        job(5, reason="JobHeldUser", priority=0),
        job(6, reason="Dependency", dependency="afterok:4(unfulfilled)", eligible=-1),
    ),
    (node("n1", 8), node("n2", 5), node("n3", 0, state="drained"), node("v1", 8, "v100")),
    defaults=(Defaults("main", mem_per_cpu=100),),
    dialect=SLURM,
)


def shunter(*arguments):
    return CliRunner().invoke(app, ["slurm", *map(str, arguments)], prog_name="shunter")


def plain(text: str) -> str:
    return " ".join(text.split())


def shown(what: object) -> str:
    out = Console(file=io.StringIO(), width=100)
    out.print(what)
    return plain(out.file.getvalue())


# ------------------------------------------------------------------------------------------- reasons


@pytest.mark.parametrize(
    ("reason", "kind", "words"),
    [
        ("Priority", Kind.TURN, "higher priority"),
        ("None", Kind.TURN, "not looked at it"),
        ("JobHeldAdmin", Kind.HELD, "administrator holds"),
        ("DependencyNeverSatisfied", Kind.NEVER, "failed"),
        ("ReqNodeNotAvail, UnavailableNodes:n1", Kind.CLUSTER, "not available"),
        (
            "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions",
            Kind.CLUSTER,
            "down, drained",
        ),
        ("QOSMaxGRESPerUser", Kind.LIMIT, "the limit of its QOS on GPUs or other GRES per user is reached"),
        ("AssocGrpCPURunMinutesLimit", Kind.LIMIT, "association (user and account) on CPUs x time is reached by all"),
        ("AssocMaxJobsLimit", Kind.LIMIT, "on jobs is reached"),
        ("QOSMaxWallDurationPerJobLimit", Kind.NEVER, "it asks for more than the limit of its QOS on time per job"),
        ("SomethingNew", Kind.CLUSTER, "Slurm says 'SomethingNew'"),
    ],
)
def test_reasons_in_plain_words(reason, kind, words):
    found = meaning(job(7, reason=reason))
    assert found.kind is kind
    assert words in found.words


def test_a_remedy_names_the_job():
    assert meaning(job(7, reason="JobHeldUser")).remedy == "scontrol release 7"


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", []),
        ("afterok:12(unfulfilled)", ["12"]),
        ("afterok:12(unfulfilled),afterany:13_*(unfulfilled)", ["12", "13"]),
        ("afternotok:12:14(failed)?afterany:15", ["12", "14", "15"]),
        ("singleton(unfulfilled)", []),
        ("afterok:12_3(unfulfilled)", ["12_3"]),
    ],
)
def test_dependencies(text, ids):
    assert parents(job(20, dependency=text)) == ids


# ------------------------------------------------------------------------------------------- why


def test_why_says_what_is_free_and_which_users_have_the_rest():
    found = why(Outlook(BUSY), BUSY.jobs[3])
    assert (found.place, found.queue, found.ahead_gpus) == (2, 2, 8)
    assert (found.room.nodes, found.room.away, found.room.gpus, found.room.free, found.room.most) == (4, 1, 32, 3, 3)
    assert [(holder.user, holder.gpus) for holder in found.holders] == [("bob", 8), ("cid", 5)]
    assert found.alone_by == NOW + 3 * HOUR  # when bob's job must end


def test_what_helps_is_tried_not_guessed():
    outlook = Outlook(BUSY)
    assert why(outlook, BUSY.jobs[3]).helps == ("with --gpus 2 it could start now",)
    assert why(outlook, BUSY.jobs[2]).helps == ("with --gpus 2 it could start now",)
    alone = replace(BUSY, jobs=tuple(each for each in BUSY.jobs if each.id != "3"))
    assert why(Outlook(alone), alone.jobs[2]).helps == ("with --gpus 2 it could start now",)
    wide = replace(alone, nodes=(*BUSY.nodes[:3], node("v1", 0, "v100")))
    typed = replace(alone.jobs[2], gpu_type="a100")
    assert "with GPUs of type v100 it could start now" in why(Outlook(wide), typed).helps
    half = replace(wide, nodes=(*BUSY.nodes[:3], replace(wide.nodes[3], gpus=3)))
    assert not any("v100" in text for text in why(Outlook(half), typed).helps)  # a node of them has too few
    assert "should start it in its next round" in why(Outlook(wide), alone.jobs[2]).helps[0]


def test_a_shorter_limit_helps_where_backfilling_does():
    long = job(4, gpus=3, limit=48 * HOUR)
    jobs = (*BUSY.jobs[:3], long)
    one = replace(BUSY, jobs=jobs, nodes=BUSY.nodes[1:2])  # job 3 wants all of n2, from which job 2 goes in 8 hours
    one = replace(one, jobs=(BUSY.jobs[1], BUSY.jobs[2], long))
    assert why(Outlook(one), long).helps == ("with --time 6:00:00 it could start now, ahead of others (backfilling)",)


def test_cpus_can_be_what_is_short():
    greedy = replace(BUSY.jobs[3], cpus=256)
    assert why(Outlook(BUSY), greedy).room.fitting == 1


@pytest.mark.parametrize(("ms", "text"), [(4 * HOUR, "4:00:00"), (50 * HOUR, "2-02:00:00"), (12 * HOUR, "12:00:00")])
def test_limits_as_slurm_takes_them(ms, text):
    assert clock(ms) == text


# ------------------------------------------------------------------------------------------- commands, recorded


def test_why_for_people_and_for_scripts(recorded):
    said = shunter("why", 4, "--snapshot", recorded)
    assert said.exit_code == 0
    for words in (
        "Job 4 (ann, 4 GPUs, limit 2.00 d, partition main) waits: jobs of higher priority are before it (Priority).",
        "place 2 of 2 in the queue; those before it ask for 8 GPUs",
        "free 3 of 32 GPUs where it may run, at most 3 on one node; 1 of 4 nodes is down or drained",
        "bob: 8 GPUs (1 job), until 2027-01-15 11:00:00 UTC at the latest",
    ):
        assert words in plain(said.output)
    told = json.loads(shunter("why", 6, "--snapshot", recorded, "--json").output)
    assert (told["kind"], told["after"]) == ("dependency", ["4"])


def test_when_for_people_and_for_scripts(recorded):
    said = shunter("when", 3, "--snapshot", recorded)
    assert said.exit_code == 0
    for words in ("place 1 of 2", "with 50 % chance 2027-01-15", "with 90 % chance", "assumed: run times over limits"):
        assert words in plain(said.output)
    told = json.loads(shunter("when", 3, "--snapshot", recorded, "--json", "--samples", 20).output)
    assert NOW / 1000 < told["p50"] <= told["p90"] <= NOW / 1000 + 3 * 3600
    assert told["samples"] == 20
    assert told["chance_within_h"]["4"] == 1
    assert "4 h over 99 %, 24 h over 99 %" in plain(said.output)  # a forecast is never certain


def test_why_of_odd_jobs_makes_sense():
    odd = (
        job(7, gpus=0, cpus=4, reason="Resources"),
        replace(job(8, reason="JobArrayTaskLimit"), tasks="1-9", throttle=2),
        job(9, reason="JobHeldUser", priority=0),
        job(10, gpus=8, features="[a*2]", priority=999),
    )
    outlook = Outlook(replace(BUSY, jobs=(*BUSY.jobs, *odd)))
    waiting = (questions.pending(outlook.snapshot, each.id) for each in odd[:3])
    without, throttled, held = (shown(why_view(why(outlook, each))) for each in waiting)
    assert "Job 7 (ann, no GPUs, limit 1.00 h, partition main)" in without
    assert "needs no GPUs with 4 CPUs" in without
    assert "it asks for no GPUs, and only jobs with GPUs are modelled" in without
    assert not [text for text in ("0 shards", "GPUs where it may run", "in use by") if text in without]
    assert "place 4 of 12 in the queue" in throttled
    assert "what helps scontrol release 9" in held
    assert "can't tell" not in held
    assert "can't tell its start, because job 10 is before it" in throttled


def test_what_if_for_people_and_for_scripts(recorded):
    said = shunter("what-if", "--gpus", 2, "--time", "0:30:00", "--snapshot", recorded, "--json")
    told = json.loads(said.output)
    assert told["p90_wait_s"] == 0  # it goes into the gap
    assert told["place"] == told["queue"] == 3
    later = json.loads(shunter("what-if", "--gpus", 8, "--time", "1-0", "--snapshot", recorded, "--json").output)
    assert later["p50_wait_s"] > 0
    ahead = ("what-if", "--gpus", 8, "--time", "1-0", "--priority", 999, "--snapshot", recorded, "--json")
    assert json.loads(shunter(*ahead).output)["place"] == 1
    assert "at the end of the queue" in plain(
        shunter("what-if", "--gpus", 8, "--time", 60, "--snapshot", recorded).output
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("why", 99), "there is no job 99 in the queue"),
        (
            ("when", 1),
            "job 1 does not wait: it has run since 2027-01-15 07:00:00 UTC, and ends by 2027-01-15 11:00:00 UTC",
        ),
        (("when", 5), "no start can be forecast for job 5: its user holds it"),
        (("what-if", "--gpus", 64, "--time", "1:00:00"), "asks for 64 GPUs, and the nodes where it may run have 32"),
        (("what-if", "--gpus", 1, "--time", "soon"), "a time must look like"),
        (("what-if", "--gpus", 1, "--time", "9" * 400), "a time must look like"),
        (("what-if", "--gpus", 1, "--time", 5, "--partition", "mian"), "did you mean 'main'?"),
        (("what-if", "--gpus", 1, "--time", 5, "--gpu-type", "a10"), "did you mean 'a100'?"),
        (("what-if", "--gpus", 1, "--time", 5, "--mem", "lots"), "memory must be a number"),
    ],
)
def test_bad_questions_get_good_answers(arguments, words, recorded):
    said = shunter(*arguments, "--snapshot", recorded)
    assert said.exit_code == 2
    assert words in plain(said.output)


def test_a_file_that_is_no_snapshot_is_refused(tmp_path):
    (tmp_path / "x.json").write_text("[]")
    said = shunter("when", 1, "--snapshot", tmp_path / "x.json")
    assert said.exit_code == 2
    assert "must be a snapshot" in plain(said.output)


def test_your_own_jobs_are_listed(monkeypatch):
    monkeypatch.setattr(questions, "user_name", lambda: "ann")
    with pytest.raises(LiveError, match="of user 'ann' these wait: 3, 4, 5, 6"):
        questions.pending(BUSY, "99")


def test_an_array_is_asked_about_by_its_first_task():
    tasks = tuple(replace(job(7), id=f"7_{task}") for task in (3, 4))
    assert questions.pending(replace(BUSY, jobs=tasks), "7").id == "7_3"
    assert questions.pending(replace(BUSY, jobs=tasks), "7_4").id == "7_4"


def test_a_declared_run_time_is_reported(recorded):
    told = replace(BUSY, jobs=tuple(replace(each, hints=JobHints(run_s=7200)) for each in BUSY.jobs))
    assert (
        "jobs of the same user whose comment says how long they run (3) do so"
        in Outlook(told, samples=10).of(told.jobs[2])[0].assumptions
    )


# ------------------------------------------------------------------------------------------- on a real Slurm


@pytest.fixture
def live(lab, tmp_path, monkeypatch):
    """A lab whose twelve P100 are in use until there is a file "end", with jobs that wait for all sorts of reasons."""
    monkeypatch.setenv("SLURM_CONF", str(lab.conf))

    def submit(*options, seconds, script=None):
        return lab.submit(*options, f"--comment=shunter: run_s={seconds}", script=script or f"sleep {seconds}")

    until = f"while [ ! -e {tmp_path / 'end'} ]; do sleep 0.1; done"
    runs = [submit("--gres=gpu:p100:4", "--time=20", seconds=600, script=until) for _ in range(3)]
    for each in runs:
        lab.wait_job(each, "RUNNING")
    first = submit("--gres=gpu:p100:4", "--time=5", "--nice=-500", seconds=2)
    jobs = {
        "runs": runs[0],
        "first": first,
        "second": submit("--gres=gpu:p100:4", "--time=5", seconds=5),
        "held": lab.submit("--gres=gpu:1", "--hold"),
        "after": submit("--gres=gpu:p100:1", "--time=5", f"--dependency=afterok:{first}", seconds=1),
        "begin": lab.submit("--gres=gpu:1", "--begin=now+2hours"),
    }
    assert wait(
        lambda: {lab.job(jobs[name])["Reason"] for name in ("first", "second")} <= {"Priority", "Resources"}, 180
    )
    return lab, jobs


def asked(*arguments):
    said = shunter(*arguments)
    assert said.exit_code == 0, said.output
    return json.loads(said.output)


def test_a_real_cluster_is_understood(live, tmp_path):
    lab, jobs = live
    first, after = (asked("when", jobs[name], "--json") for name in ("first", "after"))
    assert "it has run since" in plain(shunter("why", jobs["runs"]).output)
    kinds = {name: asked("why", number, "--json")["kind"] for name, number in jobs.items() if name != "runs"}
    assert kinds == {"first": "turn", "second": "turn", "held": "held", "after": "dependency", "begin": "begin"}
    free = asked("why", jobs["first"], "--json")["room"]
    assert (free["gpus"], free["free"]) == (12, 0)
    begin = asked("when", jobs["begin"], "--json")
    assert 7000 < begin["p50_wait_s"] <= 7200
    idle = asked("what-if", "--gpus", 2, "--time", "1:00:00", "--gpu-type", "k80", "--json")
    assert idle["p90_wait_s"] == 0
    lab.wait_job(lab.submit("--gres=gpu:k80:2", "--time=60"), "RUNNING", "COMPLETED")  # as foreseen
    assert shunter("when", jobs["held"]).exit_code == 2
    assert shunter("snapshot", tmp_path / "now.json").exit_code == 0
    assert asked("when", jobs["begin"], "--snapshot", tmp_path / "now.json", "--json")["p50"] == begin["p50"]
    free = _epoch(lab.job(jobs["runs"])["StartTime"]) + 600
    assert free - 30 <= first["p50"] <= after["p50"] <= free + 60
    assert {lab.job(jobs[name])["JobState"] for name in ("first", "after")} == {"PENDING"}
    (tmp_path / "end").touch()
    for name in ("first", "after"):
        lab.wait_job(jobs[name], "RUNNING", "COMPLETED")
    first, after = (lab.job(jobs[name]) for name in ("first", "after"))
    assert first["EndTime"] <= after["StartTime"]


def _epoch(text: str) -> float:
    return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S")) - time.timezone


def test_accounting_gives_the_run_times(lab_with_database, monkeypatch):
    lab = lab_with_database
    monkeypatch.setenv("SLURM_CONF", str(lab.conf))
    ended = [lab.submit("--gres=gpu:m40:1", "--job-name=short", "--time=60", script="sleep 1") for _ in range(6)]
    for number in ended:
        lab.wait_job(number, "COMPLETED")
    states = ("sacct", "-n", "-X", "-o", "State", "-j", ",".join(map(str, ended)))
    assert wait(lambda: lab.run(*states).split() == ["COMPLETED"] * 6, 180)  # accounting hears of it a little later
    outlook = questions.AnswerSources().outlook()
    assert outlook.rules.backfills
    assert outlook.rules.tiers["urgent"] > 1
    assert "accounting" in outlook.run_times.source
    times = []

    def known():
        """What ended just now is told a little later."""
        times[:] = questions.AnswerSources().outlook().run_times.groups["name", "root", "short"].times
        return len(times) == 6

    assert wait(known, 180), times
    assert max(times) < 20_000


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"time": "3-0"}, r"--time 3-0 is above the limit of partition main \(1-00:00:00\)"),
        ({"time": "UNLIMITED"}, "is above the limit"),
        ({"time": "60", "mem": "100000G"}, "MiB of memory, and the nodes where it may run have"),
        ({"time": "60", "cpus": 100_000}, "100,000 CPUs, and the nodes where it may run have"),
    ],
)
def test_what_slurm_would_never_start_is_refused(wish, said):
    site = Site(partitions=[PartitionForm(name="main", max_time="1-00:00:00")])
    outlook = Outlook(BUSY, site.rules, samples=2)
    with pytest.raises(LiveError, match=said):
        outlook.of(questions.Wish(gpus=1, **wish).job(outlook)[0])


# ------------------------------------------------------------------------------------------- snapshots of others


@pytest.mark.parametrize(
    ("harm", "named"),
    [
        (lambda read: read["jobs"][0].update(gpus="many"), "0.gpus"),
        (lambda read: read["jobs"][0].update(limit=1.5), "0.limit"),
        (lambda read: read["jobs"][0].update(nodes=[1]), "0.nodes.0"),
        (lambda read: read["jobs"][0]["hints"].update(run_s="long"), "0.hints.run_s"),
        (lambda read: read["nodes"][0].update(gpus=10**30), "too large a number"),
        (lambda read: read["nodes"].append(7), "4"),
        (lambda read: read.update(now=None), "valid integer"),
        (lambda read: read.update(preemption={"qos": {"a": 7}}), "qos.a"),
        (lambda read: read.update(reservations=[{"name": "r"}]), "0.start"),
        (lambda read: read["jobs"][2].update(gpus=-5), "jobs.2.gpus: must be 0 to"),
        (lambda read: read["jobs"][2].update(limit=-1), "jobs.2.limit: must be 0 to"),
        (lambda read: read["jobs"][2]["hints"].update(run_s=-math.inf), "jobs.2.hints.run_s: must be 0 to"),
        (lambda read: read["jobs"][2]["hints"].update(deadline=1e308), "jobs.2.hints.deadline: must be 0 to"),
        (lambda read: read["jobs"][2]["hints"].update(done=-1e308), "jobs.2.hints.done: must be 0 to"),
        (lambda read: read["jobs"][2].update(tasks="5-1:1"), "jobs.2.tasks: .* smaller number"),
        (lambda read: read["jobs"][2].update(tasks="9" * 5000), "jobs.2.tasks: .* 18 digits"),
        (lambda read: read["jobs"][2].update(tasks="0-99999999"), "jobs.2.tasks: .* at most 10,000,000 tasks"),
        (lambda read: read["jobs"][2].update(tasks=","), "jobs.2.tasks: names no task"),
        (lambda read: read["jobs"][2].update(per_node="gres:gpu:" + "9" * 5000), "jobs.2.per_node: .* 18 digits"),
        (lambda read: read["jobs"][2].update(id="1"), "jobs.2.id: must differ from that of jobs.0, got '1'"),
        (lambda read: read.pop("jobs"), "'jobs' is missing"),
        (lambda read: read["nodes"][1].update(gpus=10**8), "nodes.1.gpus: must be 0 to 4,096"),
        (lambda read: read["nodes"][1].update(used=[-1]), "nodes.1.used"),
        (lambda read: read["nodes"][1].update(name="n1"), "nodes.1.name: must differ from that of nodes.0"),
        (
            lambda read: read["nodes"].extend({"name": f"m{at}", "gpus": 4096} for at in range(2500)),
            "nodes: they must have at most 10,000,000 GPUs",
        ),
    ],
)
def test_a_snapshot_with_odd_values_is_refused_with_the_field_named(tmp_path, harm, named) -> None:
    path = tmp_path / "now.json"
    BUSY.save(path)
    assert Snapshot.load(path) == BUSY
    read = json.loads(path.read_text())
    harm(read)
    path.write_text(json.dumps(read))
    with pytest.raises(LiveError, match=f"must be a snapshot as.*{named}"):
        Snapshot.load(path)


def test_a_snapshot_with_a_field_twice_is_refused(tmp_path) -> None:
    path = tmp_path / "now.json"
    BUSY.save(path)
    path.write_text(path.read_text().replace('"now":', '"now":1,"now":'))
    with pytest.raises(LiveError, match="key 'now' is given twice"):
        Snapshot.load(path)


def test_hints_that_no_job_gives_count_for_nothing() -> None:
    for odd in (-math.inf, math.inf, math.nan, -1e308):
        assert JobHints(run_s=odd).run_time_ms == 0
        assert JobHints(done=odd, iteration_s=1.0).done_ms == 0


def test_a_job_in_a_partition_without_gpus_gets_an_answer() -> None:
    lost = job(9, partition="cpuonly", reason="Resources")
    found = why(Outlook(replace(BUSY, jobs=(*BUSY.jobs, lost), dialect=SLURM)), lost)
    assert found.because == ("partition 'cpuonly' has no node with GPUs",)
    assert found.helps == ()


def test_a_reservation_that_began_long_ago_and_comes_every_hour_is_found_at_once() -> None:
    ago = Reservation("r", NOW - 10**13, NOW - 10**13 + HOUR // 2, flags=("HOURLY",))
    found = list(ago.times(NOW, NOW + 3 * HOUR))
    assert len(found) in (3, 4)
    assert all(end > NOW and start < NOW + 3 * HOUR and (start - ago.start) % HOUR == 0 for start, end in found)
