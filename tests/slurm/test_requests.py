"""What requests mean, which jobs compete, and what is said where something is not modelled; without a Slurm."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from shunter import world as w
from shunter.cli.main import app
from shunter.live import job_arrays
from shunter.live.forecast import Outlook
from shunter.live.hints import JobHints
from shunter.live.nodes import Node
from shunter.live.requests import UNKNOWN, Requests
from shunter.live.rules import Rules
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.live.surroundings import Licence, Preemption, Reservation
from shunter.live.waiting_line import WaitingLine, unmodelled
from shunter.live.why import why
from shunter.slurm import questions
from shunter.slurm.constraints import parse
from shunter.slurm.dialect import SLURM
from shunter.slurm.surroundings import hidden, licences, preemption, reservations

HOUR = 3_600_000
NOW = 1_800_000_000_000
NODES = tuple(
    Node(f"n{at}", "idle", ("main",), 4, "a100", cpus=64, mem_mib=512_000, features=("a100", "fast") if at < 3 else ())
    for at in range(1, 5)
)


def job(number: int, gpus: int = 4, **about) -> LiveJob:
    usual = {"user": "ann", "partition": "main", "limit": HOUR, "submit": NOW - HOUR, "eligible": NOW - HOUR}
    usual |= {"state": "PENDING", "reason": "Priority", "priority": 100, "per_node": f"gres:gpu:{gpus}", "max_nodes": 1}
    return LiveJob(str(number), str(number), gpus=gpus, **usual | about)


def running(number: int, *nodes: str, gpus: int = 4, hours: float = 1, **about) -> LiveJob:
    usual = {"cpus": gpus, "reason": "", "start": NOW - HOUR, "ran": HOUR, "hints": JobHints(run_s=3600 * (1 + hours))}
    return job(number, gpus, state="RUNNING", nodes=nodes, limit=9 * HOUR, **usual | about)


def cluster(*jobs: LiveJob, nodes: tuple[Node, ...] = NODES, **about) -> Outlook:
    busy = {
        name: sum(each.gpus // len(each.nodes) for each in jobs if name in each.nodes)
        for name in ["n1", "n2", "n3", "n4"]
    }
    used = tuple(replace(node, used=tuple(range(busy[node.name])), cpus_used=busy[node.name]) for node in nodes)
    return Outlook(Snapshot(NOW, jobs, used, dialect=SLURM, **about), samples=10)


def hours(outlook: Outlook, asked: LiveJob) -> float | None:
    (found,) = outlook.of(asked)
    start = found.at(0.9)
    return None if start is None else round((start - NOW) / HOUR, 2)


# ------------------------------------------------------------------------------------------- constraints


@pytest.mark.parametrize(
    ("text", "features", "fulfilled"),
    [
        ("a", {"a"}, True),
        ("a&b", {"a"}, False),
        ("a|b&c", {"a"}, False),  # from left to right, as Slurm has it
        ("a&b|c", {"c"}, True),
        ("a|(b&c)", {"a"}, True),
        ("[a|b]", {"b"}, True),
    ],
)
def test_constraints_are_read_from_left_to_right(text, features, fulfilled):
    assert parse(text)(features) is fulfilled


@pytest.mark.parametrize("text", ["a*2", "[a*1&b*2]", "!a", "a&", "((a|b)&c)", "", "a b", "[a&b]"])
def test_constraints_of_other_kinds_are_not_guessed(text):
    assert parse(text) is None


# ------------------------------------------------------------------------------------------- arrays


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20), st.integers(1, 4)), max_size=5), st.integers(0, 90))
def test_an_array_is_cut_at_any_task(spans, cut):
    found, begin = [], 0
    for gap, length, step in spans:
        found.append(range(begin + gap, begin + gap + length * step, step))
        begin = found[-1][-1] + 1
    every = [number for span in found for number in span]
    assert job_arrays.count(tuple(found)) == len(every)
    assert [*job_arrays.part(job_arrays.numbers(job_arrays.text_of(found)), 0, 10_000)] == every
    assert [*job_arrays.part(job_arrays.below(tuple(found), cut), 0, 10_000)] == [
        number for number in every if number < cut
    ]
    assert [*job_arrays.part(job_arrays.above(tuple(found), cut), 0, 10_000)] == [
        number for number in every if number > cut
    ]


@given(st.integers(0, 20_000), st.integers(1, 300), st.booleans())
def test_bundles_have_all_tasks_and_are_few(tasks, lanes, throttled):
    sizes = job_arrays.bundles(tasks, lanes, throttled)
    assert sum(sizes) == tasks
    assert sizes[: min(lanes, tasks)] == [1] * min(lanes, tasks)
    assert max(job_arrays.bundles(tasks, lanes, throttled, most=3), default=0) <= 3
    assert len(sizes) <= lanes * (3 + 2 * max(len(bin(tasks)) - 2, 0))


def test_ten_arrays_of_ten_thousand_are_few_rows_and_right_counts():
    many = [job(number, 1, tasks="0-9999", priority=100 - number) for number in range(10, 20)]
    last = job(20, 1, priority=1)
    outlook = cluster(*many, last)
    assert outlook.line.place(last) == (100_001, 100_001)
    assert why(outlook, last).ahead_gpus == 100_000
    task = questions.pending(outlook.snapshot, "15_7345")
    assert outlook.line.place(task) == (57_346, 100_001)
    assert outlook.line.place(questions.pending(outlook.snapshot, "15")) == (50_001, 100_001)
    assert len(outlook.replica(last).jobs) < 5000
    assert sum(len(job.first_tasks(16)) for job in many) == 160


def test_waves_of_an_array_are_counted():
    array = job(2, 1, tasks="0-9999", hints=JobHints(run_s=3600))
    behind = job(3, 1, priority=1)
    outlook = cluster(array, behind)
    assert hours(outlook, questions.pending(outlook.snapshot, "2_8000")) == 500  # 16 at a time
    assert hours(outlook, behind) == 625


@pytest.mark.parametrize("eligible", [NOW - HOUR, -1], ids=["known", "said only of tasks that run"])
def test_a_throttle_bounds_what_runs_at_a_time(eligible):
    """Slurm says of tasks above the throttle no time since when they could run; those that run came a second later."""
    about = {"reason": "JobArrayTaskLimit", "hints": JobHints(run_s=3600), "eligible": eligible}
    array = job(2, 1, tasks="2-999", throttle=2, **about)
    begun = running(2, "n1", gpus=1, hours=1, eligible=NOW - HOUR + 1000)
    ran = [replace(begun, id=f"2_{task}") for task in (0, 1)]
    other = job(3, 4, priority=1)
    outlook = cluster(*ran, array, other)
    assert [hours(outlook, questions.pending(outlook.snapshot, f"2_{task}")) for task in (2, 3, 4, 501)] == [
        1,
        1,
        2,
        250,
    ]
    assert hours(outlook, other) == 0  # it goes beside them


# ------------------------------------------------------------------------------------------- shapes


@pytest.mark.parametrize(
    ("about", "span"),
    [
        ({}, 0),
        ({"min_nodes": 2, "max_nodes": 2, "gpus": 2, "per_node": "gres:gpu:1"}, 2),
        ({"min_nodes": 1, "max_nodes": 4}, UNKNOWN),
        ({"per_node": "", "per_job": "gres:gpu:4", "max_nodes": 0}, w.ANY_NODES),
        ({"per_node": "", "per_job": "gres:gpu:4", "max_nodes": 1}, 0),
        ({"per_node": "", "per_job": "gres:gpu:4", "max_nodes": -1}, UNKNOWN),
        ({"per_node": "", "per_job": "gres:gpu:4", "max_nodes": 2, "min_nodes": 2}, UNKNOWN),
        ({"per_node": "", "per_job": "gres:gpu:8", "gpus": 8, "max_nodes": 2, "min_nodes": 2}, 2),
        ({"per_node": "", "per_task": "gres:gpu:1", "processes": 4, "max_nodes": 0}, w.ANY_NODES),
        ({"per_node": "", "per_task": "gres:gpu:4", "processes": 1, "max_nodes": 0}, 0),
    ],
)
def test_on_how_many_nodes_a_job_runs(about, span):
    asked = replace(job(2), **about)
    request = Requests(NODES, SLURM).of(asked)
    assert request.span == span
    assert bool(request.unmodelled) == (span == UNKNOWN)


def test_nodes_that_a_job_can_not_have_are_not_counted():
    busy = [running(1, "n1", gpus=4, hours=2), running(2, "n2", gpus=4, hours=3)]
    fast = job(3, 1, features="fast")
    outlook = cluster(*busy, fast)
    assert (why(outlook, fast).room.gpus, why(outlook, fast).room.free) == (8, 0)
    assert hours(outlook, fast) == 2
    assert hours(outlook, replace(fast, excluded="n[1,3-4]")) == 3
    assert hours(outlook, replace(fast, features="", excluded="n[1-2]")) == 0
    assert hours(outlook, replace(fast, features="", wanted_nodes="n2")) == 3


def test_whole_nodes_and_several_nodes():
    busy = [running(at, f"n{at}", gpus=1, hours=at) for at in range(1, 5)]
    outlook = cluster(*busy, job(9))
    assert hours(outlook, job(9, 1, exclusive="node")) == 1
    assert hours(outlook, job(9, 1)) == 0
    two = job(9, 8, per_node="gres:gpu:4", min_nodes=2, max_nodes=2)
    assert hours(outlook, two) == 2
    assert hours(outlook, replace(two, gpus=4, per_node="gres:gpu:2")) == 0
    assert hours(outlook, job(9, 4, per_node="", per_job="gres:gpu:4", max_nodes=0)) == 0  # on any nodes
    assert hours(outlook, job(9, 4)) == 1
    alone = job(9, 1, exclusive="node")
    without = running(5, "n4", gpus=0, per_node="")
    assert "jobs without GPUs run on n4" in cluster(*busy, without).of(alone)[0].because[0]


def test_what_runs_alone_on_its_node_keeps_others_away():
    outlook = cluster(running(1, "n1", gpus=1, hours=2, exclusive="node"), nodes=NODES[:1])
    assert hours(outlook, job(9, 1)) == 2  # also one that says nothing of CPUs


# ------------------------------------------------------------------------------------------- who competes


def test_only_jobs_that_compete_are_counted():
    slow = [job(number, 1, priority=200, excluded="n[1-2]") for number in range(10, 15)]
    mine = job(20, 2, features="fast")
    line = cluster(*slow, job(15, 3, priority=300), mine, job(16, 1, priority=50)).line
    assert line.place(mine) == (2, 3)
    assert [each.id for each in line.before(mine)] == ["15"]
    no_gpus = job(17, 0, priority=999, per_node="")
    assert cluster(no_gpus, mine).line.place(mine) == (1, 1)


# ------------------------------------------------------------------------------------------- reservations


def reserved(begin: float, end: float, *nodes: str, **about) -> Reservation:
    return Reservation("maint", NOW + round(begin * HOUR), NOW + round(end * HOUR), nodes, **about)


def test_a_reservation_to_come_keeps_long_jobs_away():
    one = NODES[:1]
    kept = (reserved(2, 5, "n1"),)
    short, long = job(2, hints=JobHints(run_s=60)), job(3, limit=3 * HOUR, hints=JobHints(run_s=60))
    outlook = cluster(short, long, nodes=one, reservations=kept)
    assert hours(outlook, short) == 0
    assert hours(outlook, long) == 5
    assert why(outlook, long).reservations == kept
    assert why(outlook, short).reservations == ()
    daily = (reserved(2, 5, "n1", flags=("DAILY",)),)
    often = cluster(nodes=one, reservations=daily)
    assert hours(often, job(4, limit=21 * HOUR)) == 5
    many = job(5, tasks="0-99", hints=JobHints(run_s=3600))
    said = hours(cluster(many, nodes=one, reservations=daily), replace(many, id="5_22"))
    assert 25 <= said <= 29  # 2 and then 21 a day one by one; bundles waste some hours, and are never too long
    assert "comes again before it could end" in often.of(job(4, limit=22 * HOUR))[0].because[0]


def test_what_keeps_a_job_back_is_named_with_what_fits_around_it():
    one, two = (NODES[0],), NODES[:2]
    long = job(3, limit=4 * HOUR, reason="ReqNodeNotAvail, Reserved for maintenance")
    kept = why(cluster(long, nodes=one, reservations=(reserved(2, 5, "n1"),)), long).kept
    assert (kept.limit, kept.all_nodes, kept.earliest) == (2 * HOUR - 60_000, True, NOW + 5 * HOUR)
    begun = why(cluster(long, nodes=one, reservations=(reserved(-1, 2, "n1"),)), long)
    assert (begun.kept.limit, begun.kept.earliest) == (0, NOW + 2 * HOUR)
    assert begun.meaning.words == "reservation maint has the nodes that it needs"
    two_in_a_row = (reserved(2, 5, "n1"), replace(reserved(6, 7, "n1"), name="more"))
    assert why(cluster(long, nodes=one, reservations=two_in_a_row), long).kept.earliest == NOW + 7 * HOUR
    some = why(cluster(long, nodes=two, reservations=(reserved(2, 5, "n1"),)), long)
    assert (some.kept.all_nodes, some.kept.earliest) == (False, None)
    assert "sinfo" not in some.meaning.remedy
    turn = replace(long, reason="Resources")
    assert why(cluster(turn, nodes=two, reservations=(reserved(2, 5, "n1"),)), turn).kept is None  # n2 will do
    assert why(cluster(long, nodes=one), long).kept is None


def test_gpus_that_no_job_has_are_hidden_only_where_slurm_hides_jobs():
    """Slurm is asked for jobs first and for nodes then: one may have started in between."""
    node = replace(NODES[0], used=(0, 1))
    for private, words in (((), "took or left while Slurm was polled (2)"), (("jobs",), "does not show you (2)")):
        outlook = Outlook(Snapshot(NOW, (job(1),), (node,), hidden=private, dialect=SLURM), samples=2)
        assert any(words in text for text in outlook.assumptions(outlook.replica(job(1)))), private


def test_a_reservation_that_has_begun_ends():
    outlook = cluster(nodes=(replace(NODES[0], state="idle+reserved"),), reservations=(reserved(-1, 2, "n1"),))
    assert hours(outlook, job(2)) == 2
    assert why(outlook, job(2)).room.reserved == 1
    inside = replace(job(3), reservation="maint")
    assert "runs in reservation maint" in outlook.of(inside)[0].because[0]


# ------------------------------------------------------------------------------------------- what can't be told


@pytest.mark.parametrize(
    ("about", "why_not"),
    [
        ({"features": "[a100*1&fast*2]"}, "constraint '[a100*1&fast*2]' is of a kind that is not modelled"),
        ({"contiguous": True}, "next to each other"),
        ({"exclusive": "user"}, "only with jobs of the same user"),
        ({"max_nodes": 3}, "it takes 1 to 3 nodes"),
        ({"licenses": "matlab:2"}, "licences of matlab, of which there are too few"),
        ({"licenses": "unknown"}, "licences of unknown"),
        ({"reason": "QOSMaxGRESPerUser"}, "the limit of its QOS"),
        ({"qos": "high"}, "it may stop running jobs such as 1 (PreemptType=preempt/qos: not modelled)"),
    ],
)
def test_what_is_not_modelled_is_said(about, why_not, tmp_path):
    about_site = {"licences": (Licence("matlab", 4, 1),), "preemption": Preemption("qos", {"high": ("low",)})}
    runs = running(1, "n1", qos="low", licenses="matlab:3")
    outlook = cluster(runs, job(2, **about), **about_site)
    (found,) = outlook.of(outlook.snapshot.jobs[1])
    assert why_not in found.because[0]
    outlook.snapshot.save(tmp_path / "now.json")
    told = [
        json.loads(CliRunner().invoke(app, ["slurm", *ask, "--snapshot", str(tmp_path / "now.json"), "--json"]).output)
        for ask in (("why", "2"), ("when", "2"))
    ]
    assert [why_not in each["because"][0] for each in told] == [True, True]
    assert told[1]["p50"] is told[1]["p90"] is told[1]["chance_within_h"]["1"] is told[0]["first_in_line_by"] is None
    behind = job(3, priority=1)
    if "reason" not in about:  # who is behind such a job can't be told either
        assert (
            cluster(runs, job(2, **about), behind, **about_site).of(behind)[0].because[0].startswith("job 2 is before")
        )
    elsewhere = replace(behind, excluded="n[1-4]", partition="other")
    assert WaitingLine(outlook.snapshot, Rules()).before(elsewhere) == []
    said = CliRunner().invoke(app, ["slurm", "when", "2", "--snapshot", str(tmp_path / "now.json")]).output
    assert "Can't tell when it starts, because" in said


def test_licences_that_are_enough_for_all_are_no_obstacle():
    asked = job(2, licenses="matlab:2")
    enough = cluster(running(1, "n1", licenses="matlab:3"), asked, licences=(Licence("matlab", 5, 2),))
    assert hours(enough, asked) == 0


def test_hidden_jobs_have_unknown_places():
    outlook = cluster(job(2), hidden=("jobs",))
    found = why(outlook, outlook.snapshot.jobs[0])
    assert (found.place, found.queue, found.ahead_gpus, found.helps) == (None, None, None, ())
    assert "PrivateData=jobs" in outlook.of(outlook.snapshot.jobs[0])[0].because[0]


def test_the_report_for_a_site_names_what_is_not_modelled():
    outlook = cluster(job(2, features="a*2"), licences=(Licence("x", 1, 1),), preemption=Preemption("qos"))
    said = " ".join(unmodelled(outlook.snapshot, Rules()))
    for words in ("PreemptType=preempt/qos", "licences", "1 waiting jobs: job 2: its constraint"):
        assert words in said
    assert unmodelled(cluster(job(2)).snapshot, Rules()) == []


# ------------------------------------------------------------------------------------------- reading


def test_reservations_and_licences_are_read():
    text = (
        "ReservationName=maint StartTime=2026-11-16T08:47:44 EndTime=2026-11-16T09:47:44 Duration=01:00:00"
        " Nodes=k80-[1-2] NodeCnt=2 CoreCnt=32 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES TRES=cpu=32"
        " Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a\n"
    )
    (found,) = reservations(text)
    assert (found.name, found.nodes, found.flags) == ("maint", ("k80-1", "k80-2"), ("MAINT", "SPEC_NODES"))
    assert found.end - found.start == HOUR
    assert not found.partial
    assert reservations("No reservations in the system\n") == []
    assert licences("LicenseName=matlab Total=4 Used=2 Free=2 Reserved=0 Remote=no\n") == [Licence("matlab", 4, 2)]


def test_which_jobs_may_stop_which_and_what_is_hidden():
    assert preemption({"preempttype": "preempt/none"}, str) == Preemption()
    assert preemption({"preempttype": "preempt/partition_prio"}, str).kind == "partition"
    found = preemption({"preempttype": "preempt/qos"}, lambda: "normal|\nhigh|low,normal\n")
    assert found.qos["high"] == ("low", "normal")
    config = {"privatedata": "jobs,usage", "slurmuser": "slurm(64030)"}
    assert hidden(config, "ann") == ("jobs", "usage")
    assert hidden(config, "slurm") == hidden(config, "root") == hidden({"privatedata": "none"}, "ann") == ()
