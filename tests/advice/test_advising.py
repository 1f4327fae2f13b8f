"""Advice from end to end, on a history of which everything is known: the simulator wrote it."""

from __future__ import annotations

import dataclasses
import json
import shlex
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from test_validity import made, pool
from typer.testing import CliRunner

import shunter
from shunter import traces
from shunter.advice import advising, present
from shunter.advice.candidates import AS_ASKED, Candidate, site_of
from shunter.advice.recorded_waits import Capacity
from shunter.advice.validity import validity
from shunter.advice.verdict import CAUTION, NO, TRUST
from shunter.advice.words import (
    action,
    checked,
    differs,
    dominated,
    explained,
    failed,
    gain,
    percent,
    trust,
    verdict_text,
)
from shunter.cli.main import app
from shunter.cluster import Cluster, NodeGroup
from shunter.errors import RunError
from shunter.setup import set_up
from shunter.simulation import resolve

BASE = "fifo:backfill=easy"
CHOSEN = [
    Candidate("sjf:backfill=easy,bound=0", "shortest first"),
    Candidate("multifactor:age=100,fairshare=0,size=1000,favor_small=true,backfill=easy", "small jobs first",
              {"PriorityType": "priority/multifactor", "PriorityFavorSmall": "YES"}),
    Candidate("fifo:placement=spread", "no backfill"),
]  # fmt: skip


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """Jobs of some weeks with the waits that they had under the base policy."""
    path = tmp_path_factory.mktemp("history") / "jobs.parquet"
    traces.write(shunter.simulate("synthetic:jobs=1500,gpus=32,load=0.9,seed=7", "4x8", BASE).recorded, path)
    return path


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(advising, "candidates", lambda *_: list(CHOSEN))


def question(base=BASE, **more):
    named = resolve(base)
    return advising.Question(named, site_of(named.policy), **({"days": 2, "warmup": 1, "workers": 1} | more))


def replayed(history, cluster, base):
    """The judgement of a replay, its waits, and the site as the record shows it."""
    asked = question(base)
    setup, stated = present.read(str(history), cluster, [asked.base.policy])
    site = present.present(setup, stated, present.replay(setup, asked.base))
    return *advising.replayed(site, asked, 0), site


def test_a_history_of_the_simulators_own_is_found_again_exactly(history):
    found, waits, site = replayed(history, "4x8", BASE)
    assert found["rank_correlation"] == pytest.approx(1)
    assert (found["mean_abs_error_s"], found["within_factor_2"]) == (0, 1)
    assert (waits == site.trace.recorded_wait).all()
    assert explained(found, BASE, ()) == []
    assert "is 1.00" in trust(found)


def test_another_present_is_seen_to_be_wrong(history):
    found, *_ = replayed(history, "4x8", "lifo")
    assert found["rank_correlation"] < 0.9
    assert found["mean_abs_error_s"] > 60


def test_waiting_with_room_is_explained():
    trace = made([(60 * at, 3600 * (at % 2), 600, 1) for at in range(200)])
    found = validity(trace, np.zeros(200, np.int64), pool(48)) | {"with_cycle": False}
    said = " ".join(explained(found, BASE, ("left out 3 jobs that asked for no GPU",)))
    assert "of all recorded waiting went by while the record itself has enough GPUs free" in said
    assert "Not in the simulation: left out 3 jobs that asked for no GPU." in said


@pytest.mark.usefixtures("few")
def test_a_few_users_are_named_for_the_error_only_among_many():
    def said(users):
        trace = made([(60 * at, 600 * (at % users < 3), 60, 1) for at in range(200)], user=np.arange(200) % users)
        found = validity(trace, np.zeros(200, np.int64), pool(48)) | {"with_cycle": False}
        return "Three users" in " ".join(explained(found, BASE, ()))

    assert [said(users) for users in (4, 5, 20)] == [False, False, True]


def test_of_options_with_equal_waits_only_the_first_is_shown(history, monkeypatch):
    """Priorities that differ by a factor order the queue alike."""
    twice = [Candidate(f"multifactor:age=0,fairshare=0,size={size},backfill=easy", f"size {size}") for size in (10, 20)]
    asked = dataclasses.replace(twice[1], policy="multifactor:age=0,fairshare=0,size=30,backfill=easy", title=AS_ASKED)
    monkeypatch.setattr(advising, "candidates", lambda *_: [*twice, asked])
    window = advising.window(set_up(str(history), "4x8"), question())
    rows = advising.compared(window, question())
    assert sorted(row["title"] for row in rows[1:]) == [AS_ASKED, "size 10"]


def test_policies_are_compared_on_the_last_days_after_a_warm_up(history):
    trace = traces.read(history)
    found = advising.window(set_up(trace, "4x8"), question())
    last = int(trace.submit[-1]) + 1
    assert found.begin == last - 2 * 86_400_000
    assert found.setup.trace.submit[0] >= last - 3 * 86_400_000
    assert found.setup.history is not None
    assert (found.counted.submit >= found.begin).all()
    assert len(found.rows) < len(found.setup.trace) < len(trace)


@pytest.mark.usefixtures("few")
def test_the_best_are_better_and_one_of_them_is_slurms_own(history):
    trace, asked = traces.read(history), question()
    rows = advising.compared(advising.window(set_up(trace, "4x8"), asked), asked)
    assert rows[0]["policy"] == BASE
    best = advising.best(advising.better(rows), None)
    assert {row["policy"].partition(":")[0] for row in best} == {"sjf", "multifactor"}
    assert best[0]["wait_s"]["mean"] < best[1]["wait_s"]["mean"] < rows[0]["wait_s"]["mean"]
    assert "Waits: mean" in gain(best[0], rows[0])


@pytest.mark.usefixtures("few")
def test_the_better_ones_are_run_on_the_days_before(history):
    trace, asked = traces.read(history), question(goal="tail")
    setup = set_up(trace, "4x8")
    begin = advising.window(setup, asked).begin
    check = advising.window(setup, asked, begin)
    found = advising.checked(check, asked, [{"policy": CHOSEN[0].policy}])
    inside = (trace.submit >= begin - 2 * 86_400_000) & (trace.submit < begin)
    assert found["jobs"] == inside.sum()
    of_sjf = found["policies"][CHOSEN[0].policy]
    assert of_sjf["mean_change"] == pytest.approx(of_sjf["wait_s"]["mean"] / found["present_wait_s"]["mean"] - 1)
    assert of_sjf["goal"]["change"] == pytest.approx(of_sjf["goal"]["after"] / of_sjf["goal"]["before"] - 1)
    assert f"the P99 wait by {percent(of_sjf['goal']['change'])}" in checked(
        {"policy": CHOSEN[0].policy}, found, "tail"
    )
    assert advising.window(setup, asked, int(trace.submit[0])) is None
    assert "too short" in checked({}, None, "wait")


def row(mean, p99, by_slurm=False, name="x", high=-0.01, before=1000):
    goal = {"before": before, "after": mean, "change": mean / before - 1, "low": -1.0, "high": high, "days": 30}
    return {"policy": name, "title": name, "wait_s": {"mean": mean, "p99": p99}, "by_slurm": by_slurm, "goal": goal}


def test_a_long_tail_comes_last_and_slurms_own_comes_in():
    now = row(1000, 5000, True)
    rows = [now, *sorted(
        [row(100, 9000, name="tail"), row(500, 4000, name="a"), row(600, 4000, name="b"), row(700, 4000, name="c"),
         row(800, 4000, True, name="slurm"), row(1200, 4000, True, name="worse")],
        key=lambda one: advising.order(one, now),
    )]  # fmt: skip
    assert rows[-1]["policy"] == "tail"
    assert [one["policy"] for one in advising.best(advising.better(rows), None)] == ["a", "b", "slurm"]
    for useless in (row(2000, 9000), row(990, 5000), row(700, 5000, high=0.1)):
        assert advising.better([now, useless]) == []


def test_what_fails_on_the_check_days_is_dropped_and_the_next_moves_up():
    good = [
        row(500, 4000, name="refuted"),
        row(550, 4000, name="tail"),
        row(600, 4000, name="a"),
        row(700, 4000, name="b"),
    ]
    elsewhere = {
        "refuted": row(26_670, 5000),
        "tail": row(500, 9000),
        "a": row(900, 5000),
        "b": row(950, 5000, high=0.2),
    }
    now = row(1000, 5000)
    check = {"present_wait_s": now["wait_s"]}
    check["policies"] = {name: one | advising._holds(one, now) for name, one in elsewhere.items()}
    assert [one["policy"] for one in advising.best(good, check)] == ["a", "b"]
    assert [one["policy"] for one in advising.dropped(good, check)] == ["refuted", "tail"]
    assert "by -50 % on the days compared, but by +2567 % (" in failed(good[0], check, "wait")
    assert "P99 wait from 1.39 h to 2.50 h on the check days" in failed(good[1], check, "wait")
    assert "may be chance" not in checked(good[2], check, "wait")
    assert "may be chance" in checked(good[3], check, "wait")


def test_a_user_with_most_of_the_jobs_is_named():
    trace = shunter.simulate("synthetic:jobs=10,gpus=8", "1x8", "fifo").trace
    named = dataclasses.replace(trace, user=np.array([1] * 6 + [0, 0, -1, -1]), users=("ann", "bob"))
    assert "60.0 % of these jobs are of user 'bob'" in dominated(named, "wait")
    others = (np.array([0, 1] * 4 + [-1, -1]), np.full(10, -1))
    assert [dominated(dataclasses.replace(named, user=user), "wait") for user in others] == ["", ""]
    assert dominated(named, "users") == ""
    assert [percent(change) for change in (None, -0.001, 0.126, -1.0)] == ["-", "0 %", "+13 %", "-100 %"]


@pytest.mark.parametrize(
    ("more", "why"), [({"goal": "best"}, "there is no goal 'best'"), ({"days": 0}, "--days must be > 0")]
)
def test_what_can_not_be_asked_is_refused(more, why):
    with pytest.raises(RunError, match=why):
        advising.check(question(**more))


# ------------------------------------------------------------------------------------------- the command


def run(*arguments):
    return CliRunner().invoke(app, ["advise", *map(str, arguments)], prog_name="shunter", env={"COLUMNS": "100"})


@pytest.mark.usefixtures("few")
def test_the_command_prints_json_tables_and_a_page(history, tmp_path, visit):
    (tmp_path / "slurm.conf").write_text("ClusterName=own\nPriorityType=priority/basic\n")
    common = (history, "--cluster", "4x8", "--base", BASE, "--days", 2, "--warmup", 1, "--workers", 1)
    page = tmp_path / "advice.html"
    done = run(*common, "--json", "--output", page, "--slurm-conf", tmp_path / "slurm.conf")
    assert done.exit_code == 0, done.stderr
    record = json.loads(done.stdout)
    assert list(record)[:2] == ["verdict", "why"]
    assert record["verdict"] in {TRUST, CAUTION}
    assert record["validity"]["rank_correlation"] == pytest.approx(1)
    assert record["window"]["jobs"] == sum(group["jobs"] for group in record["compared"][0]["by_size"])
    assert [row["title"] for row in record["best"]] == ["small jobs first"]
    diff = record["best"][0]["action"]["diff"]
    assert "-PriorityType=priority/basic\n+PriorityType=priority/multifactor\n" in diff
    assert " ClusterName=own" in diff
    assert [row["title"] for row in record["dropped"]] == ["shortest first"]  # a gain, but not on the check days
    assert "P99 wait from 1.76 d to 2.69 d on the check days" in record["dropped"][0]["checked"]

    opened = visit(page.read_text(encoding="utf-8"), viewport={"width": 1100, "height": 900})
    assert opened.locator("h2").all_inner_texts() == [
        "Verdict", "What is best", "How far to believe it", "What was compared", "What was run",
    ]  # fmt: skip
    assert opened.locator("figure.chart .plot svg").count() == 1
    assert opened.locator("svg.plane").count() == 1
    assert opened.evaluate("document.documentElement.scrollWidth <= window.innerWidth")

    told = run(*common, "--slurm-conf", tmp_path / "slurm.conf")
    assert told.exit_code == 0, told.stderr
    assert max(len(line) for line in told.stdout.splitlines()) <= 100
    assert told.stdout.startswith(f"{record['verdict'].capitalize()}: ")
    assert "3. What is best" in told.stdout
    assert "+PriorityFavorSmall=YES" in told.stdout
    assert "'shortest first' was dropped" in " ".join(told.stdout.split())


def test_a_command_on_another_cluster_than_the_advice_says_so():
    found = Capacity("", 192, np.array([0]), np.array([288]))
    nodes, held = Cluster("24x8", (NodeGroup(24, 8),)), np.zeros(1, np.int64)
    replayed = present.Present(SimpleNamespace(user_cap=0), nodes, (found,), None, 0, {}, held)
    assert "; the given cluster has 192 GPUs and the record points to 288." in differs(replayed)


def test_every_reason_of_the_verdict_is_shown():
    assert verdict_text({"why": ["one", "two", "three"]}) == "one; two; three."


def test_what_slurm_can_not_do_comes_with_the_controllers_command():
    told = action({"policy": "sjf:backfill=easy", "changes": {}}, question(), "my jobs.csv", None, None)
    assert told == {"command": "shunter slurm run --policy sjf:backfill=easy --history 'my jobs.csv' --mode watch"}


@pytest.mark.usefixtures("few")
def test_a_site_without_slurm_gets_no_change_of_slurm_conf_but_a_command_to_paste(history, tmp_path, monkeypatch):
    table = tmp_path / "my jobs.csv"
    traces.write(traces.read(history), table)
    table.write_text(table.read_text().replace("submit", "came", 1))
    given = ("--cluster", "4x8", "--columns", "submit=came", "--on-bad-row", "skip", "--seed", 3)
    common = (table, *given, "--base", BASE, "--days", 2, "--warmup", 1, "--workers", 1)
    record = json.loads(run(*common, "--json").stdout)
    assert record["best"]
    for row in record["best"]:
        assert list(row["action"]) == ["compare", "differs"]
        assert row["action"]["differs"].startswith("The command runs the whole history on the cluster as given")
        assert f"-p {row['policy']}" in row["action"]["compare"]
    monkeypatch.chdir(tmp_path)
    words = shlex.split(record["best"][0]["action"]["compare"])
    assert words[3:11] == [
        *("--cluster", "4x8", "--format", "table:submit=came", "--on-bad-row", "skip", "-p", BASE),
    ]  # fmt: skip
    assert words[-4:] == ["--seed", "3", "--report", "more.html"]
    pasted = CliRunner().invoke(app, [*words[1:], "--workers", "1"], prog_name="shunter")
    assert pasted.exit_code == 0, pasted.stderr
    shown = run(*common)
    assert all(row["action"]["compare"] in shown.stdout.splitlines() for row in record["best"])
    assert "slurm.conf" not in shown.stdout.replace("--slurm-conf", "")
    assert "PriorityType" not in shown.stdout


@pytest.mark.usefixtures("few")
def test_without_a_replay_that_holds_there_is_no_advice(history, tmp_path):
    page, shuffled, trace = tmp_path / "advice.html", tmp_path / "shuffled.parquet", traces.read(history)
    waits = np.random.default_rng(0).permutation(trace.recorded_wait)
    traces.write(dataclasses.replace(trace, recorded_wait=waits), shuffled)
    common = (shuffled, "--cluster", "4x8", "--base", BASE, "--days", 2, "--warmup", 1, "--workers", 1)
    done = run(*common, "--json", "--output", page)
    assert done.exit_code == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["verdict"] == NO
    assert record["compared"] == record["best"] == record["dropped"] == []
    text = page.read_text(encoding="utf-8")
    assert text.index("Don&#x27;t use") < text.index("How far to believe it")
    assert "What is best" not in text
    told = run(*common)
    assert told.exit_code == 0
    assert told.stdout.startswith("Don't use: ")
    assert "slurm.conf" not in told.stdout
    assert "What is best" not in told.stdout


def test_what_is_done_now_must_be_known(history):
    done = run(history, "--cluster", "4x8")
    assert done.exit_code == 2
    assert "--base fifo:backfill=easy" in " ".join(done.stderr.split())
    assert run(history).exit_code == 2


@pytest.mark.usefixtures("few")
def test_the_folder_of_an_import_is_enough(history, tmp_path):
    (tmp_path / "cluster.toml").write_text("[[nodes]]\ncount = 4\ngpus = 8\n")
    (tmp_path / "site.toml").write_text('[priority]\ntype = "priority/basic"\n\n[scheduler]\ntype = "sched/builtin"\n')
    shutil.copy(history, tmp_path / "jobs.parquet")
    done = run(tmp_path, "--days", 2, "--warmup", 1, "--workers", 1, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["base"] == "fifo"
