"""RLTune's experiments: what is judged on what, how differences are made, and what is printed."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from shunter.cli.main import app
from shunter.learning.engine import ground_for
from shunter.learning.training import Trainer, parts_of
from shunter.reproduce.rltune import paper
from shunter.reproduce.rltune.design import (
    COMMON,
    DATA,
    ESTIMATES,
    FIFO,
    FIGURE_12,
    INSPECTOR,
    MOVED_ON,
    ON_FIFO,
    PANELS,
    PUBLISHED_CPU,
    QSSF,
    RLTUNE,
    SAF,
    SAME_VIEW,
    TABLE_9,
    TRUTH,
    UNSEEN_CPU,
    ZERO_SHOT,
    RLTunePart,
)
from shunter.reproduce.rltune.grounds import SITES, Grounds
from shunter.reproduce.rltune.listing import changed
from shunter.reproduce.rltune.outcome import MEASURES, PanelResult, measured, shown, windows_of
from shunter.reproduce.rltune.study import RLTuneStudy
from shunter.reproduce.rltune.teaching import TrainingRunner
from shunter.setup import set_up

WINDOWS = 12


@pytest.fixture(scope="module")
def ground():
    return ground_for(set_up("synthetic:jobs=400,gpus=16,load=1.5", "2x8"), "oracle", 32)


def result(values, panel=TABLE_9, data="philly", information=TRUTH):
    """A table from the waits of each entrant, (trainings, windows)."""
    filled = {
        entrant: np.repeat(np.asarray(waits, float)[:, None], len(MEASURES), axis=1)
        for entrant, waits in values.items()
    }
    return PanelResult(panel, data, information, 256, filled, 0)


def study_of(*results, data=("philly",)):
    return RLTuneStudy(RLTunePart(data), False, {}, {}, results, {(128, 0): 1.0, (128, 128): 1.0})


# ------------------------------------------------------------------------------------------- design


def test_every_table_has_saf_with_the_same_jobs_in_view_and_qssf_where_there_are_users_to_learn_from():
    for panel in PANELS:
        assert {SAF, SAME_VIEW} <= set(panel.entrants)
        assert panel in (PUBLISHED_CPU, UNSEEN_CPU) or set(COMMON) <= set(panel.entrants)


def test_only_agents_that_are_asked_for_are_trained():
    part = RLTunePart(agents=("rltune",))
    assert {training.agent for training in part.all_trainings()} == {"rltune"}
    assert part.has(SAF, "philly", TRUTH)
    assert part.has(RLTUNE, "philly", TRUTH)
    assert not part.has(INSPECTOR, "philly", TRUTH)


def test_the_whole_run_is_as_published_and_trains_no_agent_twice():
    part = RLTunePart()
    trainings = part.all_trainings()
    assert (part.epochs, part.episodes, part.rows) == (100, 100, 60_000)
    assert part.windows >= 12
    assert (part.draws, part.trainings) == (5, 3)
    assert len(trainings) == len(set(trainings)) == 156
    assert {training.information for training in trainings} == {TRUTH, ESTIMATES}


def test_an_agent_of_other_data_or_other_knowledge_is_not_judged_where_it_learned():
    part = RLTunePart()
    assert not part.has(ZERO_SHOT, "philly", TRUTH)
    assert part.has(ZERO_SHOT, "pai", TRUTH)
    assert not RLTunePart(("pai",)).has(ZERO_SHOT, "pai", TRUTH)
    assert {training.data for training in part.trainings_of(ZERO_SHOT, "pai", TRUTH)} == {"philly"}
    assert not part.has(MOVED_ON, "pai", TRUTH)
    assert {training.information for training in part.trainings_of(MOVED_ON, "pai", ESTIMATES)} == {TRUTH}


def test_every_data_set_has_a_place():
    assert set(DATA) == set(SITES)


# ------------------------------------------------------------------------------------------- windows


def test_windows_are_of_jobs_that_no_agent_has_seen_and_do_not_overlap(ground):
    length, firsts = windows_of(TABLE_9, ground, 5)
    assert length == 16  # 80 jobs are judged on
    assert firsts[0] == parts_of(ground)[2][0] == 320
    assert (np.diff(firsts) >= length).all()
    assert firsts[-1] + length == len(ground.trace)


def test_published_windows_are_of_all_jobs(ground):
    length, firsts = windows_of(PUBLISHED_CPU, ground, 5)
    assert (length, firsts[0], firsts[-1] + length) == (80, 0, 400)


def test_the_measures_of_a_window_are_those_of_its_jobs(ground):
    firsts = np.array([0, 100])
    waits = np.arange(64.0).reshape(2, 32)
    wait, bsld, jct, p99, used = measured(ground, firsts, waits)
    jobs = ground.trace.select(np.arange(100, 132))
    run, submit = jobs.duration / 1000, jobs.submit / 1000
    assert wait[1] == pytest.approx(waits[1].mean())
    assert jct[1] == pytest.approx((waits[1] + run).mean())
    assert bsld[1] == pytest.approx(np.maximum(1, (waits[1] + run) / np.maximum(run, 10)).mean())
    assert p99[1] == pytest.approx(np.percentile(waits[1], 99))
    end = (submit + waits[1] + run).max()
    assert used[1] == pytest.approx((run * jobs.gpus / 1000).sum() / (16 * (end - submit[0])))


@pytest.mark.usefixtures("_few_jobs")
def test_a_draw_moves_arrivals_and_each_job_keeps_its_estimate():
    found = Grounds(("philly",), 0)
    assert found.stands_in
    first, second = (found.ground("philly", "history", 64, draw) for draw in (0, 1))
    assert (first.trace.submit != second.trace.submit).any()
    known = dict(zip(first.trace.job_id, first.estimates.tolist(), strict=True))
    assert [known[job] for job in second.trace.job_id] == second.estimates.tolist()
    assert len(set(known.values())) > 1


# ------------------------------------------------------------------------------------------- differences


def test_a_difference_that_all_windows_have_is_shown_and_noise_is_not():
    noise = np.random.default_rng(1)
    base = noise.uniform(100, 1000, WINDOWS)
    found = result({SAF: [base], FIFO: [2 * base], RLTUNE: [base * noise.uniform(0.5, 1.5, WINDOWS)] * 3})
    twice = found.change(FIFO, SAF, "wait")
    assert twice == pytest.approx((1, 1, 1))
    assert shown(twice)
    assert not shown(found.change(RLTUNE, SAF, "wait"))


def test_trainings_that_differ_widen_the_interval():
    base = np.linspace(100, 200, WINDOWS)
    apart = result({SAF: [base], RLTUNE: [base * 0.6, base * 0.9, base * 1.2]}).change(RLTUNE, SAF, "wait")
    alike = result({SAF: [base], RLTUNE: [base * 0.9] * 3}).change(RLTUNE, SAF, "wait")
    assert apart.value == pytest.approx(alike.value) == pytest.approx(-0.1)
    assert shown(alike)
    assert not shown(apart)


def test_changes_are_written_with_their_interval():
    base = np.linspace(100, 200, WINDOWS)
    found = result({SAF: [base], FIFO: [base * 0.5], QSSF: [base * 20]})
    assert changed(found.change(FIFO, SAF, "wait")) == "−50 % (−50 % to −50 %)*"
    assert changed(found.change(QSSF, SAF, "wait")) == "×20 (×20 to ×20)*"


def test_the_sentence_says_where_a_difference_is_shown():
    base = np.linspace(100, 200, WINDOWS)
    less = result({SAF: [base], SAME_VIEW: [base], RLTUNE: [base * 0.9]})
    same = result({SAF: [base], SAME_VIEW: [base], RLTUNE: [base]}, information=ESTIMATES)
    said = study_of(less, same).sentences()[0]
    assert said == (
        "Mean wait of RLTune against SAF, both with EASY. With true run times: less on Philly. With estimates: no"
        " difference is shown on 1 of 1 data sets."
    )


# ------------------------------------------------------------------------------------------- what is printed


def test_printed_numbers_are_those_of_the_tables():
    assert paper.printed(TABLE_9, "philly", RLTUNE, "wait") == 34199.93
    assert paper.printed(TABLE_9, "philly", SAF, "wait") is None
    assert paper.printed(FIGURE_12, "philly", QSSF, "bsld") == 28.17
    assert paper.printed(FIGURE_12, "helios", QSSF, "bsld") is None
    assert paper.fallen(87.5) == pytest.approx(8)


def test_a_claim_is_judged_by_the_factor_on_the_same_windows():
    base = np.linspace(100, 200, WINDOWS)
    found = result({FIFO: [8 * base], ON_FIFO: [base], QSSF: [base], SAF: [base]}, FIGURE_12)
    claims = [
        one for _, one in study_of(found).claims() if one.claim.measure == "wait" and one.claim.base.label == "FIFO"
    ]
    assert [(one.claim.factor, one.direction, one.size) for one in claims] == [(8, "yes", "yes")]


# ------------------------------------------------------------------------------------------- the command


@pytest.mark.xdist_group("torch")
@pytest.mark.usefixtures("_few_jobs")
def test_the_command_trains_judges_and_keeps_what_it_trained(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    arguments = ["reproduce", "rltune", "--data", "lublin", "--windows", "5", "--repeat", "1", "--trainings", "1"]
    arguments += ["--epochs", "1", "--episodes", "4", "--workers", "1"]
    done = CliRunner().invoke(app, [*arguments, "--out", "found"], prog_name="shunter")
    assert done.exit_code == 0, done.output
    assert "made-up stand-ins" in done.output
    assert "RLScheduler, as published" in done.output
    found = json.loads((tmp_path / "found" / "reproduction.json").read_text())
    assert found["trainings"] == 2
    assert found["claims"] == []  # made-up jobs are not what is printed
    assert {row["entrant"] for row in found["tables"][0]["rows"]} >= {"SAF", "SAF, 128 in view", "RLScheduler"}
    assert {row["waiting"] for row in found["latency_ms"]} == {128, 256, 512, 1024, 10_000}
    assert pl.read_parquet(tmp_path / "found" / "results.parquet").height == 2 * 14 * 5
    assert "SDSC-SP2, HPC2N and Lublin-2" in (tmp_path / "found" / "page.html").read_text()

    def refused(trainer):
        raise AssertionError("trained again")

    monkeypatch.setattr(Trainer, "round", refused)
    again = CliRunner().invoke(app, [*arguments, "--json"], prog_name="shunter")
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["tables"] == found["tables"]


@pytest.mark.usefixtures("_few_jobs")
def test_the_key_of_a_training_is_of_its_content():
    part = RLTunePart(("lublin",))
    jobs = Grounds(part.data, 0).ground("lublin", "oracle")
    one, other = part.all_trainings()[:2]
    runner = TrainingRunner({one.place: jobs}, part, "")
    longer = TrainingRunner({one.place: jobs}, RLTunePart(("lublin",), epochs=101), "")
    assert runner.key(one) == TrainingRunner({one.place: jobs}, part, "another").key(one)
    assert len({runner.key(one), runner.key(other), longer.key(one)}) == 3


@pytest.mark.usefixtures("_few_jobs")
def test_too_few_windows_are_refused():
    pytest.importorskip("torch")
    done = CliRunner().invoke(app, ["reproduce", "rltune", "--windows", "3"], prog_name="shunter")
    assert done.exit_code != 0
    assert "--windows must be at least 5" in done.output
