"""One job's course in words."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from typer.testing import CliRunner

import shunter
from shunter.cli.main import app
from shunter.cluster import Cluster, NodeGroup
from shunter.errors import RunError
from shunter.model import GPU, Trace
from shunter.report.derived_reasons import with_reasons
from shunter.report.explain import Piece, find, headline, moment, pieces, shortened, timeline
from shunter.report.terminal.waiting import longest

HOUR = 3_600_000
FREE = "for 2.00 h enough GPUs were free for it"


def told(trace, cluster, policy, job_id):
    run = shunter.simulate(trace, cluster, policy, decisions=True).kept
    return [(line.begin // HOUR, None if line.end is None else line.end // HOUR, line.text)
            for line in timeline(run, find(run, job_id))]  # fmt: skip


def trace_of(*jobs, **more):
    """Jobs as (name, submit, hours, GPUs)."""
    names, submit, hours, gpus = zip(*jobs, strict=True)
    return Trace.of("t", names, submit=np.array(submit) * HOUR, duration=np.array(hours) * HOUR,
                    gpus=np.array(gpus) * GPU, **more)  # fmt: skip


def test_head_of_the_queue_then_scattered_then_started():
    trace = trace_of(("a", 0, 5, 2), ("b", 0, 9, 2), ("c", 0, 9, 3), ("big", 1, 1, 3))
    assert told(trace, "2x4", "fifo", "big") == [
        (1, None, "submitted: 3 GPUs"),
        (1, 5, "head of the queue, needs 3 GPUs, at most 1 were free (1 on one node)"),
        (5, 9, "head of the queue, needs 3 GPUs on one node, largest free block 2 (3 free in all)"),
        (9, None, "started on node 0 (3 GPUs)"),
        (10, None, "finished"),
    ]


def test_behind_another_job():
    trace = trace_of(("a", 0, 4, 4), ("b", 0, 6, 2), ("big", 1, 1, 6), ("small", 2, 5, 1))
    assert told(trace, "1x8", "fifo", "small")[1:3] == [
        (2, 4, f"not its turn: job 'big' (6 GPUs) came first and did not fit; {FREE}"),
        (4, 5, "head of the queue, no GPU was free"),
    ]


def test_reservation_names_the_job_it_is_for():
    trace = trace_of(("a", 0, 4, 6), ("big", 1, 1, 8), ("small", 2, 5, 2))
    assert told(trace, "1x8", "fifo:estimate=oracle,backfill=easy", "small") == [
        (2, None, "submitted: 2 GPUs"),
        (2, 4, "held back by what is reserved for job 'big' (8 GPUs)"),
        (4, 5, "head of the queue, no GPU was free"),
        (5, None, "started on node 0 (2 GPUs)"),
        (10, None, "finished"),
    ]


def test_a_job_that_is_too_long_to_pass_is_told_so():
    policy, held = (
        "fifo:estimate=oracle,backfill=easy,passing=1.5",
        "held back by what is reserved for job 'big' (8 GPUs)",
    )
    jobs = ("a", 10, 4, 6), ("big", 11, 1, 8), ("small", 12, 5, 2)
    assert told(trace_of(*jobs), "1x8", policy, "small")[1] == (12, 14, held)  # too few have ended for the rule
    ended = [(str(at), 0, 1, 1) for at in range(20)]
    assert told(trace_of(*ended, *jobs), "1x8", policy, "small")[1] == (
        12, 14, f"{held}, or too long to pass it (passing=1.5)",
    )  # fmt: skip


def test_a_policy_that_gives_no_reasons_is_explained_by_the_free_gpus(tmp_path):
    trace = trace_of(("a", 0, 4, 4), ("b", 0, 6, 2), ("big", 1, 1, 6), ("small", 2, 5, 1))
    run = shunter.simulate(trace, "1x8", "fifo", decisions=True).kept
    run = with_reasons(replace(run, decisions=run.decisions.clear()))
    lines = {
        job: [line.text for line in timeline(run, find(run, job)) if line.end is not None] for job in ("big", "small")
    }
    assert lines == {
        "big": ["at most 2 GPUs free for it, but it never ran on fewer than 6"],
        "small": [
            "at most 2 GPUs free for it, which the policy kept for others or left idle",
            "no GPU was free for it",
        ],
    }
    assert with_reasons(run) is run


def test_a_resized_job_is_resized_and_the_log_explains_waits_under_elastic(tmp_path):
    work = np.array([60, 90, 60, 60, 30]) * 60_000
    names, submit, due = "abcde", np.array([0, 0, 5, 6, 7]) * 60_000, np.array([0, 120, 90, 80, 0]) * 60_000
    trace = Trace.of(
        "t", list(names), submit=submit, duration=work, declared=work, gpus=np.full(5, GPU), deadline=due,
        min_gpus=np.ones(5, int), max_gpus=np.full(5, 4),
    )  # fmt: skip
    shunter.simulate(trace, "1x4", "elastic", decisions=True).save(tmp_path / "run")
    resized = command(tmp_path / "run", "a")
    assert "resized to 2 GPUs, on node 0 (2 GPUs)" in resized.stdout
    assert resized.stdout.count("started on") == 1
    said = command(tmp_path / "run")
    assert said.exit_code == 0, said.output
    assert "nothing known" not in said.stdout
    assert "too few GPUs free" in said.stdout
    assert said.stderr.count("policy elastic gives no reasons") == 1


def test_conservative_names_the_planned_time():
    trace = trace_of(("a", 0, 4, 8), ("b", 1, 1, 8))
    lines = told(trace, "1x8", "fifo:estimate=oracle,backfill=conservative", "b")
    assert lines[1] == (1, 4, "its turn was planned for day 0 04:00:00")


def test_a_virtual_cluster_that_is_full_while_others_are_not():
    trace = trace_of(("a", 0, 2, 4), ("b", 1, 1, 4), vc=[0, 0], vcs=("red",))
    cluster = Cluster("two", (NodeGroup(1, 4, vc="red"), NodeGroup(2, 4, vc="blue")))
    why = "head of the queue, no GPU was free in red; 8 free elsewhere, where it may not run"
    assert told(trace, cluster, "fifo", "b")[1] == (1, 2, why)


def test_dependencies_and_preemption():
    trace = trace_of(("a", 0, 2, 1), ("b", 0, 2, 1), after=[-1, 0])
    assert told(trace, "1x1", "fifo", "b")[1] == (0, 2, "held until job 'a' had ended")
    trace = trace_of(("long", 0, 5, 1), ("short", 1, 1, 1))
    assert told(trace, "1x1", "srtf:estimate=oracle", "long") == [
        (0, None, "submitted: 1 GPU"),
        (0, None, "started on node 0 (1 GPU)"),
        (1, None, "stopped to make room for others"),
        (1, 2, "head of the queue, no GPU was free"),
        (2, None, "started on node 0 (1 GPU)"),
        (6, None, "finished"),
    ]


def test_times_are_dates_where_the_trace_has_dates():
    assert moment(1_507_532_515_000) == "2017-10-09 07:01:55"
    assert moment(90_061_000) == "day 1 01:01:01"


def test_times_beyond_all_dates_are_counted_in_days():
    far = 10**12 // 3600  # the latest submission that a trace may have
    assert told(trace_of(("a", far, 1, 1)), "1x1", "fifo", "a")[-1] == (far + 1, None, "finished")
    assert moment(far * HOUR) == "day 11574074 01:00:00"


def test_short_pieces_are_reported_with_their_neighbours():
    edges = [0, 10, 19, 30, 39, 50, 59]
    codes = ["full", "behind"] * 3
    cut = [Piece(*edge, code, (1, 1, 0)) for edge, code in zip(pairwise(edges), codes, strict=True)]
    few = shortened(cut, 2)
    assert len(few) <= 2
    assert (few[0].begin, few[-1].end) == (0, 59)
    assert sum(piece.besides for piece in few) > 0


def test_headline_and_longest():
    trace = trace_of(("a", 0, 4, 8), ("b", 1, 1, 8), ("c", 1, 1, 8))
    run = shunter.simulate(trace, "1x8", "fifo", decisions=True).kept
    assert headline(run, 0) == "Job 'a' waited 0 s and ran 4.00 h."
    assert headline(run, 1).endswith("100 % of the wait: too few GPUs free.")
    found = longest(run, 5)
    assert [job["job_id"] for job in found["jobs"]] == ["c", "b"]
    assert found["jobs"][0]["reasons_s"] == {"full": 3600.0, "queued": 10800.0}
    assert found["by_reason"]["full"]["wait_s"] == 4 * 3600
    assert sum(pieces(run, 2)[i].end - pieces(run, 2)[i].begin for i in range(2)) == 4 * HOUR


# ------------------------------------------------------------------------------------------- the command


@pytest.fixture
def folder(tmp_path):
    trace = trace_of(("a", 0, 4, 8), ("b", 1, 1, 8))
    shunter.simulate(trace, "1x8", "fifo", decisions=True).save(tmp_path / "run")
    return tmp_path / "run"


def command(*arguments):
    return CliRunner().invoke(app, ["explain", *map(str, arguments)])


def test_the_command_explains_a_job(folder):
    done = command(folder, "b")
    assert done.exit_code == 0
    assert "head of the queue" in done.output
    assert json.loads(command(folder, "b", "--json").stdout)["timeline"][1]["code"] == "full"


def test_the_command_lists_the_longest_waits(folder):
    assert "Where waiting time went" in command(folder, "--top", 1).output
    assert [job["job_id"] for job in json.loads(command(folder, "--json").stdout)["jobs"]] == ["b"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nobody"], "there is no job 'nobody' in this run; known: a, b"),
        (["b", "--top", "3"], "leave it out to see one"),
        (["--top", "0"], "--top must be >= 1, got 0"),
    ],
)
def test_bad_input_is_a_message(folder, arguments, message):
    done = command(folder, *arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_a_run_without_decisions_says_how_to_get_them(tmp_path):
    result = shunter.simulate(trace_of(("a", 0, 4, 8)), "1x8", "fifo")
    result.save(tmp_path / "run")
    done = command(tmp_path / "run", "a")
    assert done.exit_code == 2
    assert "make it again with --decisions" in " ".join(done.output.split())
    with pytest.raises(RunError, match="--decisions"):
        longest(result.kept, 3)


def test_an_offer_that_is_not_taken_is_reported_with_its_timer():
    """A and b leave one GPU on each machine free; c waits 3 h for two on one machine before it takes those."""
    trace = trace_of(("a", 0, 9, 3), ("b", 0, 9, 3), ("c", 1, 1, 2))
    policy = "dally:timers=manual,machine_timer=10800,rack_timer=21600,lease=0"
    assert told(trace, "2x4", policy, "c") == [
        (1, None, "submitted: 2 GPUs"),
        (1, 4, "waited for a machine-level offer, until day 0 04:00:00 at most (timer 3.00 h)"),
        (4, None, "started on node 0 (1 GPU), node 1 (1 GPU)"),
        (5, None, "finished"),
    ]


def test_a_tuned_timer_says_from_how_many_waits_it_comes():
    run = shunter.simulate("synthetic:jobs=300,gpus=16,load=1.2", "4x4", "dally:lease=600", decisions=True).kept
    lines = [line.text for job in range(len(run.jobs)) for line in timeline(run, job) if line.code == "offer"]
    assert lines
    assert all(re.search(r"-level offer, until .* at most \(timer .*, tuned from \d+ waits?\)", line) for line in lines)
    assert any("tuned from 0 waits" not in line for line in lines)
    assert set(run.timers.columns) == {"time", "tier", "gpus", "timer", "waits"}
    assert run.timers["timer"].min() >= 600
