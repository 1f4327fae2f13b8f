"""The verdict: what makes a replay one to trust, one to be careful with, and one not to use."""

from __future__ import annotations

import pytest

from shunter.advice.verdict import CAUTION, NO, TRUST, verdict


def replay(rank=0.8, simulated=1000.0, recorded=900.0, **more):
    """A replay as ``validity`` describes it."""
    return {
        "jobs": 5000,
        "rank_of_waits": rank,
        "rank_interval": {"low": 0.6, "high": 0.9, "days": 100},
        "simulated_wait_s": {"mean": simulated},
        "recorded_wait_s": {"mean": recorded},
        "recorded_waiting": 0.3,
        "simulated_waiting": 0.3,
        "record": {"over_capacity": 0.0},
        "parts": [],
    } | more


@pytest.mark.parametrize(
    ("found", "use", "why"),
    [
        (replay(), TRUST, "the replay ranks waits as recorded (rank correlation 0.80)"),
        (replay(rank=0.45), CAUTION, "only roughly as recorded (0.45)"),
        (replay(rank=0.29), NO, "little better than chance (0.29)"),
        (replay(rank=-0.06), NO, "no better than chance (-0.06)"),
        (
            replay(rank=None, simulated_waiting=0.0),
            NO,
            "0.0 % of jobs wait over a minute in the replay and 30.0 % in the",
        ),
        (replay(rank_interval={"low": 0.1, "high": 0.9, "days": 9}), CAUTION, "may by chance be as low as 0.10"),
        (replay(simulated=193_536.0, recorded=1368.0), NO, "simulated waits are 141 times the recorded ones"),
        (replay(simulated=0.0, recorded=86_400.0), NO, "recorded waits are far above the simulated ones"),
        (replay(simulated=2500.0), CAUTION, "simulated waits are 2.8 times the recorded ones"),
        (replay(simulated=40.0, recorded=4.0), TRUST, "the replay ranks"),
        (replay(record={"over_capacity": 0.12}), NO, "more GPUs in use than the cluster has, for 12.0 % of the time"),
        (replay(record={"over_capacity": 0.02}), CAUTION, "more GPUs in use than the cluster has"),
        (replay(rank=0.1, recorded_waiting=0.001, simulated_waiting=0.001), CAUTION, "hardly any job waits"),
        (replay(jobs=20), CAUTION, "only 20 jobs"),
        (replay(goal={"name": "users", "simulated": 628.0, "recorded": 4201.0}), NO, "the goal 'users' is"),
        (replay(goal={"name": "tail", "simulated": 9000.0, "recorded": 4000.0}), CAUTION, "the goal 'tail' is"),
        (replay(goal={"name": "slowdown", "simulated": 12.0, "recorded": 5.0}), CAUTION, "is 12 in the replay"),
        (replay(goal={"name": "users", "simulated": 4000.0, "recorded": 4201.0}), TRUST, "the replay ranks"),
        (replay(goal={"name": "wait", "simulated": 1.0, "recorded": 4201.0}), TRUST, "the replay ranks"),
        ({"jobs": 0, "parts": []}, NO, "no recorded waits"),
    ],
)
def test_each_reason_gives_its_verdict(found, use, why):
    said = verdict(found)
    assert said.use == use
    assert why in said.why[0]


def test_the_days_that_matter_are_judged_on_their_own():
    said = verdict(replay(parts=[replay(rank=0.05) | {"name": "the check days"}]))
    assert said.use == NO
    assert said.why == ("the replay ranks waits no better than chance on the check days (0.05)",)


def test_parts_do_not_repeat_what_is_said_of_all_days():
    days = replay(simulated=51_500.0, recorded=7600.0) | {"name": "the days compared"}
    said = verdict(replay(simulated=51_500.0, recorded=7600.0, parts=[days]))
    assert said.why == ("simulated waits are 6.8 times the recorded ones (14.3 h simulated, 2.11 h recorded)",)
    few = verdict(replay(rank=0.45, parts=[replay(jobs=20) | {"name": "the check days"}])).why
    assert few[1] == "there are only 20 jobs to judge by on the check days"  # which is something else
    worse = verdict(replay(rank=0.45, parts=[replay(rank=0.2) | {"name": "the check days"}])).why
    assert worse == ("the replay ranks waits little better than chance on the check days (0.20)",)


def test_the_worst_reasons_are_the_ones_that_are_reported():
    said = verdict(replay(rank=0.4, record={"over_capacity": 0.2}), [(CAUTION, "something else")])
    assert (said.use, len(said.why)) == (NO, 1)
    assert verdict(replay(), [(CAUTION, "something else")]).why == ("something else",)
