"""Remaining iterations from losses so far."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import ModelError
from shunter.predictors.progress import judging
from shunter.predictors.progress.curves import BINS, LossCurve, StopRule
from shunter.predictors.progress.extrapolating import (
    METHODS,
    Linear,
    NoPrediction,
    OptimusCurve,
    PowerLaw,
    expected_end,
    remaining,
)
from shunter.safe_files import data_folder
from shunter.seeding import rng
from shunter.traces.measurements import read_loss_curves

STEPS = np.arange(1, 1001, dtype=np.float64)


def power_law(exponent=1.0, floor=1.0, scale=200.0):
    """A loss that falls as a power law of the step."""
    return scale * (STEPS + 9) ** -exponent + floor


def curve(losses, name="one", family="one"):
    return LossCurve(name, family, STEPS[: len(losses)], np.asarray(losses, np.float64))


def test_a_run_converges_when_the_loss_hardly_falls_over_a_tenth():
    losses = np.concatenate((np.linspace(10, 1, 40), np.ones(60)))
    # bins 36 to 40 have a mean above 1, and bin 50 compares with bin 40
    end = StopRule(decline=0.02).end(losses)
    smooth = np.convolve(losses, np.ones(5) / 5, "valid")  # at bin k: smooth[k - 4]
    assert smooth[end - 1 - 10 - 4] - smooth[end - 1 - 4] < 0.02 * smooth[end - 1 - 10 - 4]
    assert smooth[end - 2 - 10 - 4] - smooth[end - 2 - 4] >= 0.02 * smooth[end - 2 - 10 - 4]


def test_a_loss_that_halves_all_the_time_never_converges():
    assert StopRule().end(0.5 ** np.arange(BINS)) == BINS


def test_bins_are_means_and_gaps_are_interpolated():
    found = LossCurve("gaps", "x", np.array([1.0, 2.0, 950.0]), np.array([4.0, 2.0, 1.0])).binned(1000)
    assert len(found) == 96
    assert found[0] == 3.0
    assert found[-1] == 1.0
    assert (np.diff(found) < 0).all()


def test_the_power_law_finds_the_end_of_a_power_law():
    whole = curve(power_law()).binned(1000)
    truth = StopRule().end(whole)
    assert 30 < truth < BINS
    for seen in (25, 30, truth - 5):
        assert abs(expected_end(PowerLaw(), whole[:seen], StopRule()) - truth) <= 6


def test_the_curve_of_optimus_finds_its_own_end():
    whole = curve(1 / (0.05 * STEPS + 0.2) + 2).binned(1000)
    assert abs(expected_end(OptimusCurve(), whole[:25], StopRule()) - StopRule().end(whole)) <= 4


def test_no_prediction_is_the_declared_run_whatever_the_losses():
    for losses in (np.ones(30), np.linspace(1, 5, 30), np.linspace(5, 1, 30)):
        assert expected_end(NoPrediction(), losses, StopRule()) == BINS


def test_a_line_goes_on_to_zero():
    found = Linear().continued(np.linspace(10, 6, 40))
    assert found[45] == pytest.approx(10 - 4 / 39 * 45)
    assert found[-1] == 0.0


@given(st.lists(st.floats(0, 1e6), min_size=20, max_size=99), st.sampled_from(sorted(METHODS)))
def test_methods_keep_what_was_seen_and_stay_finite(losses, name):
    seen = np.array(losses)
    found = METHODS[name].continued(seen)
    assert found.shape == (BINS,)
    assert (found[: len(seen)] == seen).all()
    assert np.isfinite(found).all()
    assert (found >= 0).all()


def test_remaining_iterations_lie_in_their_interval_and_within_what_is_declared():
    found = remaining(STEPS[:400], power_law()[:400], 1000)
    truth = StopRule().end(curve(power_law()).binned(1000)) * 10 - 400
    assert 0 <= found.low <= found.end <= found.high <= 600
    assert abs(found.end - truth) <= 60


def test_before_a_fifth_of_the_run_nothing_is_expected():
    assert remaining(STEPS[:100], power_law()[:100], 1000) == (900.0, 0.0, 900.0)


@pytest.mark.parametrize(
    ("steps", "losses", "words"),
    [
        ([1, 2], [1.0], "as many losses"),
        ([1, 2], [1.0, float("nan")], "finite"),
        ([1, 2], [1.0, -1.0], "0 or more"),
        ([2, 2], [1.0, 1.0], "must rise"),
        ([1, 2000], [1.0, 1.0], "beyond the declared"),
    ],
)
def test_losses_that_make_no_sense_are_refused(steps, losses, words):
    with pytest.raises(ModelError, match=words):
        remaining(steps, losses, 1000)


def families(count=3, each=3):
    """Families whose curves differ in floor and noise; each family has its exponent."""
    draw = rng(0, "families")
    return [
        curve(
            power_law(0.6 + 0.4 * family, draw.uniform(0.5, 2)) * np.exp(draw.normal(0, 0.01, len(STEPS))),
            f"f{family}_{at}",
            f"f{family}",
        )
        for family in range(count)
        for at in range(each)
    ]


def test_judging_names_both_splits_and_the_power_law_beats_no_prediction():
    found = judging.judge(families(), ["none", "power"], lambda done, total: None)
    assert [split["split"] for split in found["splits"]] == ["random rows", "by model"]
    for split in found["splits"]:
        none, power = split["models"]
        assert power["mean_error"] < none["mean_error"] / 2
        assert 0 <= power["interval_holds"] <= power["upper_holds"] <= 1


def test_no_curve_is_on_both_sides_of_a_fold_and_no_family_of_the_honest_split():
    asked = judging.task(families(), StopRule())
    of = [question.curve for question in asked.questions]
    for split in ("random rows", "by model"):
        judged = []
        for rows, learned in judging._curve_folds(asked, split):
            out = {of[row] for row in rows}
            judged += rows.tolist()
            assert not out & set(learned.tolist())
            if split == "by model":
                assert not {asked.families[at] for at in out} & {asked.families[at] for at in learned}
        assert sorted(judged) == list(range(len(of)))


def test_the_network_of_the_paper_continues_a_curve_and_is_the_same_each_time(monkeypatch):
    pytest.importorskip("torch", reason="no torch; ./scripts/install rl has it")
    from shunter.predictors.progress import lstm

    monkeypatch.setattr(lstm, "EPOCHS", 2)
    curves = [each.binned(1000) for each in families(1, 2)]
    first, second = (lstm.trained(curves, seed=3).continued(curves[0][:30]) for _ in range(2))
    assert (first == second).all()
    assert (first[:30] == curves[0][:30]).all()
    assert expected_end(lstm.trained(curves, seed=3), curves[0][:30], StopRule()) >= lstm.LEAST


def test_public_curves_are_predicted_better_than_not_at_all():
    folder = data_folder("loss/llm_llama7b_181.csv")
    if folder is None:
        pytest.skip("no loss curves; SHUNTER_DATA names the folder with loss/")
    found = judging.judge(read_loss_curves(folder / "loss"), ["none", "power"], lambda done, total: None)
    none, power = found["splits"][1]["models"]
    assert power["mean_error"] < 0.75 * none["mean_error"]
