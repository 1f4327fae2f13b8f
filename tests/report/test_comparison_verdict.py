"""The verdict claims no more than intervals allow."""

from __future__ import annotations

import pytest

from shunter.report.verdict import verdict


def row(policy, mean, p99=100.0, alike=(), low=None, high=None, oracle=False, **more):
    between = {"value": 0.0, "low": low, "high": high}
    if low is not None:
        between["share"] = {"low": low / 60, "high": high / 60}
    return {
        "policy": policy, "oracle": oracle, "estimate": "none", "jct_s": {"mean": mean, "p99": p99},
        "alike": list(alike), "differences": {"jct_s.mean": between, "jct_s.p99": between}, **more,
    }  # fmt: skip


@pytest.mark.parametrize(("rows", "says"), [
    ([row("fifo", 60), row("las", 30, low=-40, high=-20)],
     "las has the shortest mean JCT, 30.0 s, 50 % below fifo (1.00 m); 95 % interval -67 to -33 %."),
    ([row("fifo", 60), row("las", 50, alike=["fifo"], low=-40, high=20)],
     "No difference in mean JCT from fifo is shown: the shortest, 50.0 s under las, is 17 % below fifo (1.00 m);"
     " 95 % interval -67 to +33 %."),
    ([row("fifo", 60), row("las", 30), row("saf", 31, alike=["las"])],
     "las has the shortest mean JCT, 30.0 s, 50 % below fifo (1.00 m). No difference between it and saf is shown."),
    ([row("fifo", 60), row("las", 90)], "No policy here has a shorter mean JCT than fifo (1.00 m)."),
    ([row("fifo", 60), row("las", 61, alike=["fifo"]), row("x", 99)],
     "No difference in mean JCT is shown between fifo and las. The others are longer."),
    ([row("fifo", 60), row("las", 30, p99=300)],
     "las has the shortest mean JCT, 30.0 s, 50 % below fifo (1.00 m). Its p99 of JCT is 3.0x fifo's (5.00 m),"
     " though the interval of the difference includes 0."),
    ([row("fifo", 60), row("srtf", 10, oracle=True)],
     "No policy here has a shorter mean JCT than fifo (1.00 m). Policies that know the truth are left out here."),
    ([row("edf", 60, deadlines={"met": 9, "jobs": 12}), row("pedf", 90, deadlines={"met": 11, "jobs": 12})],
     "No policy here has a shorter mean JCT than edf (1.00 m). Most deadlines are met under pedf: 11 of 12."
     " Its mean JCT is 1.5x that of edf."),
    ([row("edf", 60, deadlines={"met": 9, "jobs": 12}),
      row("pedf", 90, 300, deadlines={"met": 11, "jobs": 12}, alike=["edf"])],
     "No difference in mean JCT is shown between edf and pedf. Most deadlines are met under pedf: 11 of 12."),
    ([row("edf", 60, deadlines={"met": 9, "jobs": 12}), row("pedf", 90, 300, deadlines={"met": 11, "jobs": 12})],
     "No policy here has a shorter mean JCT than edf (1.00 m). Most deadlines are met under pedf: 11 of 12."
     " Its mean JCT is 1.5x and its p99 is 3.0x that of edf."),
    ([row("fifo", 60)], "Under fifo the mean JCT is 1.00 m, the p99 1.67 m."),
])  # fmt: skip
def test_what_is_said(rows, says):
    assert verdict(rows) == says


def test_free_stops_that_decide_are_named_first():
    costly = {"free": False, "stop_costs": "0 + 62 s", "jct_s": {"mean": 70.0}}
    text = verdict([row("fifo", 60), row("las", 30, low=-40, high=-20, other_costs=costly)])
    assert text.startswith("Costs change the winner: stopping jobs is free here; at 0 + 62 s a stop")
    assert "fifo would have the shortest mean JCT, 1.00 m" in text


def test_costs_are_left_out_where_no_difference_between_the_two_is_shown():
    costly = {"free": False, "stop_costs": "0 + 62 s", "jct_s": {"mean": 70.0}}
    text = verdict([row("fifo", 60), row("las", 55, alike=["fifo"], low=-40, high=20, other_costs=costly)])
    assert text.startswith("No difference in mean JCT from fifo is shown")
    assert "Costs" not in text


def test_costs_are_compared_within_the_repeat_in_which_they_were_tried():
    """The first repeat is slower than the mean of all; that is no effect of free stops."""

    def repeats(*means):
        return [{"jct_s": {"mean": mean, "p99": 100.0}} for mean in means]

    free = {"free": True, "stop_costs": "nothing", "jct_s": {"mean": 88.0}}
    rows = [
        row("saf", 60, repeats=repeats(100, 40, 40)),
        row("las", 30, low=-40, high=-20, other_costs=free, stop_costs="0 + 62 s", repeats=repeats(90, 0, 0)),
    ]
    assert "Costs" not in verdict(rows)


def test_a_policy_that_is_shown_to_be_better_is_named_where_the_best_is_not():
    rows = [row("fifo", 60), row("las", 30, alike=["fifo"], low=-70, high=10), row("easy", 40, low=-40, high=-10)]
    assert verdict(rows) == (
        "easy has a shorter mean JCT than fifo: 40.0 s, 33 % below it (1.00 m); 95 % interval -67 to -17 %. That of las"
        " is the shortest, 30.0 s, but no difference from fifo is shown; 95 % interval -117 to +17 %."
    )
