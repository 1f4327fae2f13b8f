"""``shunter deadline``, and deadlines that jobs have on Slurm."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

import pytest
from typer.testing import CliRunner

from shunter import world as w
from shunter.cli.main import app
from shunter.live.forecast import Outlook
from shunter.live.hints import JobHints
from shunter.live.nodes import Node
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.live.surroundings import Defaults
from shunter.slurm import comments, squeue
from shunter.slurm.comments import hints_in
from shunter.slurm.dialect import SLURM

HOUR = 3_600_000
NOW = 1_800_000_000_000


def job(number, **about):
    given = {"user": "ann", "partition": "main", "limit": HOUR, "gpus": 4, "submit": NOW - HOUR, "eligible": NOW - HOUR}
    usual = {"state": "PENDING", "reason": "Priority", "priority": 100, "cpus": 4, "mem_mib": 400}
    return LiveJob(str(number), str(number), **(usual | given | about))


def running(number, *nodes, **about):
    usual = {"state": "RUNNING", "reason": "", "start": NOW - HOUR, "ran": HOUR, "nodes": nodes, "limit": 4 * HOUR}
    return job(number, **(usual | about))


def node(name, used, partition="main"):
    return Node(name, "mixed", (partition,), 8, "a100", used=tuple(range(used)), cpus=64, mem_mib=512_000)


BUSY = Snapshot(
    NOW,
    (
        running(1, "n1", gpus=8, user="bob", hints=JobHints(run_s=7200)),
        running(2, "n2", gpus=8, hints=JobHints(iterations=1000, done=400, iteration_s=6.0)),
        job(3, gpus=8, hints=JobHints(run_s=1800, deadline=NOW / 1000 + 3 * 3600)),
    ),
    (node("n1", 8), node("n2", 8), node("f1", 0, "free")),
    defaults=(Defaults("main", mem_per_cpu=100), Defaults("free", mem_per_cpu=100)),
    dialect=SLURM,
)


def shunter(*arguments):
    return CliRunner().invoke(app, ["deadline", *map(str, arguments)], prog_name="shunter")


def found_for(*arguments):
    said = shunter(*arguments, "--samples", 20, "--json")
    assert said.exit_code == 0, said.output
    return json.loads(said.stdout)


def test_a_running_job_that_reports_its_iterations_ends_when_they_are_done(recorded):
    found = found_for(2, "--by", "+2h", "--snapshot", recorded)
    assert found["p50"] == found["p90"] == NOW / 1000 + 600 * 6.0
    assert found["chance"] == 1.0
    assert found["start_by"] is None
    assert found_for(2, "--by", "+1h", "--snapshot", recorded)["chance"] == 1.0  # exactly then
    assert found["unknown"] == ["what would help, because it runs already"]


def test_a_waiting_job_is_asked_by_its_own_deadline_and_another_partition_helps(recorded):
    found = found_for(3, "--snapshot", recorded)
    assert found["by"] == NOW / 1000 + 3 * 3600
    assert found["p90"] >= found["p50"] > NOW / 1000 + 1800  # it waits
    assert found["start_by"] == found["by"] - 1800
    sooner = found_for(3, "--by", "+1h", "--snapshot", recorded)
    assert sooner["chance"] < 0.9
    assert [(each["kind"], each["value"], each["chance"]) for each in sooner["remedies"]] == [
        ("partition", "free", 1.0)
    ]


def test_a_job_that_is_not_submitted_needs_the_fewest_gpus_that_do(recorded):
    wish = (
        "--model",
        "resnet50",
        "--iterations",
        3600,
        "--iteration-s",
        3,
        "--partition",
        "free",
        "--snapshot",
        recorded,
    )
    alone = found_for(*wish, "--by", "+2h")  # three hours on one GPU
    assert alone["chance"] == 0.0
    (more,) = [each for each in alone["remedies"] if each["kind"] == "gpus"]
    assert more["value"] == "2"
    assert more["chance"] == 1.0
    said = shunter(*wish, "--by", "+2h", "--samples", 20)
    assert said.exit_code == 0
    words = " ".join(said.stdout.split())
    assert "under 1 % chance" in words
    assert "With 2 GPUs the chance is over 99 %." in words
    assert "That is past: no start is early enough." in words
    assert max(map(len, said.stdout.splitlines())) <= 100


def test_without_a_model_other_widths_are_not_guessed(recorded):
    found = found_for(
        "--iterations", 100, "--iteration-s", 3, "--partition", "free", "--by", "+9h", "--snapshot", recorded
    )
    assert found["chance"] == 1.0
    assert found["unknown"] == ["what other numbers of GPUs would do, because its model is not known; see --model"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((1,), "has no deadline of its own"),
        ((), "--by is missing"),
        ((3, "--by", "Fry 09:00"), "is no day"),
        ((3, "--by", "2020-01-01T00:00"), "is past"),
        ((99, "--by", "+1h"), "no job 99"),
        (("--by", "+1h", "--time", "5days"), "--time: a time must look like"),
        (("--by", "+1h"), "how long it runs is not known"),
        (("--by", "+1h", "--model", "resnet50"), "need --iterations"),
        (("--by", "+1h", "--model", "nonesuch", "--iterations", 5), "set --iteration-s"),
        (("--by", "+1h", "--model", "resnet5", "--iterations", 5, "--iteration-s", 1), "did you mean 'resnet50'?"),
        (("--by", "+1h", "--offline"), "--offline needs --history"),
        ((3, "--by", "+1h", "--gpus", 64, "--time", 5), "job 3 has its own request; leave out --gpus, --time"),
        (("--by", "+1h", "--time", 5, "--user", "zoe"), "--user chooses past jobs, with --offline"),
        ((3, "--by", "+1h", "--columns", "gpus=n"), "are about the file of --history"),
    ],
)
def test_what_can_not_be_answered_is_said_with_code_2(recorded, arguments, words):
    said = shunter(*arguments, "--snapshot", recorded)
    assert said.exit_code == 2
    assert words in " ".join(said.output.split())


def past_jobs(tmp_path, header="job_id,submit,duration,gpus,user,recorded_wait,limit,vc", **changed):
    """A history of 700 jobs; ``changed``: the fields of some jobs, as text."""
    rows = {
        str(at): f"{1_790_000_000 + 600 * at},{900 + 60 * (at % 10)},{1 + at % 2},ann,60,86400,red" for at in range(700)
    }
    rows |= {name.removeprefix("job"): fields for name, fields in changed.items()}
    past = tmp_path / "past.csv"
    past.write_text(header + "\n" + "".join(f"{name},{fields}\n" for name, fields in rows.items()))
    return past


def test_a_history_alone_answers_and_says_that_no_queue_is_known(tmp_path):
    past = past_jobs(tmp_path)
    found = found_for("--offline", "--history", past, "--user", "ann", "--time", "1-0", "--by", "+24h")
    assert found["calibrated"]
    assert found["chance"] > 0.9
    assert 60 + 900 <= found["p50"] - found["now"] <= 60 + 1440
    assert any("the queue of today is not known" in text for text in found["assumptions"])
    named = found_for(7, "--offline", "--history", past, "--by", "+24h")["job"]
    assert named == "A job like 7 (user ann, 2 GPUs, partition red)"
    assert "has no job x" in shunter("x", "--offline", "--history", past, "--by", "+24h").output


def test_a_limit_that_ends_a_job_before_its_iterations_are_done_does_not_make_it_done(tmp_path):
    wanted = ("--offline", "--history", past_jobs(tmp_path), "--iterations", 7200, "--iteration-s", 0.5, "--by", "+9h")
    assert found_for(*wanted, "--time", 60)["chance"] == 1.0
    found = found_for(*wanted, "--time", 59)
    assert (found["chance"], found["p50"], found["start_by"], found["cut_off_by_limit"]) == (0.0, None, None, 1.0)
    words = " ".join(shunter(*wanted, "--time", 59).stdout.split())
    assert "Its limit ends it after 59.0 m, before its work is done: that takes 1.00 h." in words
    assert "not within a year" not in words
    assert "its run time comes from its iterations and counts as exact, so only the wait is uncertain" in words


def test_the_limit_of_a_job_on_slurm_ends_it_before_its_work_too(recorded):
    wanted = ("--iterations", 7200, "--iteration-s", 0.5, "--by", "+9h", "--snapshot", recorded)
    assert found_for("--partition", "free", "--time", 59, *wanted)["cut_off_by_limit"] == 1.0
    assert found_for("--partition", "free", *wanted)["cut_off_by_limit"] == 0.0
    assert found_for(2, *wanted)["cut_off_by_limit"] == 0.0  # three hours are left of its limit
    longer = ("--iterations", 7200 * 4, *wanted[2:])
    assert (found_for(2, *longer)["cut_off_by_limit"], found_for(2, *longer)["chance"]) == (1.0, 0.0)


def test_a_history_is_not_used_for_what_it_does_not_know(tmp_path):
    ask = ("--offline", "--history", past_jobs(tmp_path), "--by", "+9h")
    large = found_for(*ask, "--gpus", 5000)
    assert large["because"] == ["no job of the history used more than 2 GPUs"]
    for option, names in (("--partition", "known: red"), ("--gpu-type", "name none at all, so leave out --gpu-type")):
        said = shunter(*ask, option, "blue")
        assert said.exit_code == 2
        assert names in said.output
    nowhere = shunter("--offline", "--history", "nonesuch.csv", "--by", "Fri 9am")
    assert "'Fri 9am' is not a time" in nowhere.output  # before any history is read
    nobody = found_for(*ask, "--user", "nobody")
    assert nobody["job"] == "A job (1 GPU)"
    assert "User nobody has no past jobs; all users' jobs are used." in nobody["remarks"]


def test_the_age_of_an_old_history_is_reported(tmp_path, monkeypatch):
    ask = ("--offline", "--history", past_jobs(tmp_path), "--user", "ann", "--by", "+9h")
    monkeypatch.setattr("time.time", lambda: 1_790_420_000.0)
    assert found_for(*ask)["remarks"] == []
    monkeypatch.setattr("time.time", lambda: 1_790_421_000.0 + 40 * 86400)
    assert found_for(*ask)["remarks"] == ["The history ended 40 days ago: the cluster may have changed since."]


def test_a_history_is_read_as_by_other_commands(tmp_path):
    bad = past_jobs(tmp_path, job5="1790003000,abc,1,ann,60,86400,red")
    ask = ("--offline", "--history", bad, "--by", "+9h")
    said = shunter(*ask)
    assert said.exit_code == 2
    assert "past.csv line 7: duration must be a number" in said.output
    assert "left out 1 bad row" in shunter(*ask, "--on-bad-row", "skip").stderr
    past_jobs(tmp_path, "job_id,eingang,duration,gpus,user,recorded_wait,limit,vc")
    assert shunter(*ask).exit_code == 2
    assert found_for(*ask, "--columns", "submit=eingang")["chance"] > 0.9


def test_a_model_without_speeds_is_known_all_the_same_and_nothing_was_tried(tmp_path):
    ask = ("--offline", "--history", past_jobs(tmp_path), "--iterations", 9e4, "--iteration-s", 1, "--by", "+1h")
    found = found_for(*ask, "--model", "bert")
    assert found["unknown"] == [
        "what other numbers of GPUs would do, because no speeds of bert are known; known: lm, resnet-18, resnet-50,"
        " transformer"
    ]
    tried = "Nothing that was tried (other numbers of GPUs) gives it a chance of 90 %."
    assert "Nothing that was tried" not in shunter(*ask, "--model", "bert").stdout
    assert tried in shunter(*ask, "--model", "resnet50").stdout


def test_without_slurm_the_other_ways_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    remedy = "use --offline --history FILE, or --snapshot FILE"
    no_conf = "this machine finds no slurm.conf; set SLURM_CONF, or run this on a node of the cluster"
    for words in ("squeue is not on the PATH", f"Could not establish a configuration source; {no_conf}"):
        said = shunter("--by", "+1h", "--time", 5)
        assert said.exit_code == 2
        assert f"Slurm can't be reached ({words}); {remedy}" in " ".join(said.output.split())
        squeue = tmp_path / "squeue"
        squeue.write_text(
            "#!/bin/sh\necho 'squeue: error: fetch_config: DNS SRV lookup failed' >&2\n"
            "echo 'squeue: fatal: Could not establish a configuration source' >&2; exit 1\n"
        )
        squeue.chmod(0o755)


# ------------------------------------------------------------------------------------------- deadlines that jobs have


@pytest.mark.parametrize(
    "text", ["2026-11-20T09:00:00+01:00", "2026-11-20T08:00:00Z", "2026-11-20T08:00+00:00", "1795161600"]
)
def test_a_comment_has_a_deadline_with_colons(text):
    hints = hints_in(f"for the paper shunter: model=bert deadline={text} requeue=yes")
    assert hints == JobHints(model="bert", deadline=1_795_161_600.0, requeue="yes")


def test_a_time_without_an_offset_is_local():
    assert hints_in("shunter: deadline=2026-11-20T09:00").deadline == datetime(2026, 11, 20, 9).timestamp()


@pytest.mark.parametrize(
    "text", ["soon", "2026-99-01T00:00", "-5", "nan", "1e300", "9" * 4000, "inf", "0001-01-01T00:00"]
)
def test_a_deadline_that_is_none_does_not_count_and_the_rest_does(text):
    assert hints_in(f"shunter: deadline={text} model=bert") == JobHints(model="bert")


def test_a_report_from_inside_a_job_keeps_its_deadline(monkeypatch):
    said = []

    class Client:
        def run(self, *arguments):
            said.append(arguments)
            return "   Comment=shunter: deadline=2026-11-20T09:00:00 done=1\n"

    monkeypatch.setattr("shunter.slurm.client.Client", Client)
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setattr(comments, "_last", {})
    assert comments.report(done=7.0)
    assert said[-1][-1] == "comment=shunter: deadline=2026-11-20T09:00:00 done=7"


def test_slurms_own_deadline_is_read_in_text_and_the_earlier_one_counts():
    values = dict.fromkeys(squeue.RECORD_FIELDS, "N/A") | {
        "JobID": "5", "JobArrayID": "5", "State": "PENDING", "UserName": "ann", "Partition": "main", "NumNodes": "1",
        "PriorityLong": "1", "Nice": "0", "RestartCnt": "0", "NumCPUs": "1", "NumTasks": "1", "TimeLimit": "60:00",
        "TimeUsed": "0:00", "tres-alloc": "cpu=1,gres/gpu=1", "Deadline": "2026-11-20T08:00:00", "MostNodes": "",
        "Comment": "shunter: deadline=2026-11-20T07:00Z",
    }  # fmt: skip
    found = squeue.job_of(list(values.values()))
    assert found.deadline == 1_795_161_600_000
    assert found.due == found.deadline - HOUR
    assert squeue.job_of(list((values | {"Comment": "(null)"}).values())).due == found.deadline
    assert squeue.job_of(list((values | {"Comment": "(null)", "Deadline": "N/A"}).values())).due == -1


def test_policies_see_a_deadline_counted_from_submission():
    now = replace(BUSY, jobs=(*BUSY.jobs, job(4, deadline=NOW + HOUR), job(5, deadline=NOW - 9 * HOUR)))
    replica = Outlook(now).replica()
    table = replica.simulator.world.jobs
    seen = {each: int(table[w.DEADLINE, replica.rows[each]]) for each in ("1", "3", "4", "5")}
    assert seen == {"1": 0, "3": 4 * HOUR, "4": 2 * HOUR, "5": 1}
