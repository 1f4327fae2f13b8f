"""Where run-time estimates come from, and in which order the sources are tried."""

import pytest

from shunter import registry
from shunter.cluster import Cluster, NodeGroup
from shunter.errors import PolicyError
from shunter.model import GPU, Trace
from shunter.sim.engine import Simulator

ONE = Cluster("one", (NodeGroup(1, 64),))


def estimates(policy, rows, **more):
    """Estimates in seconds after a run; rows are (submit, duration, gpus, user, limit), seconds, user -1: unknown."""
    submit, duration, gpus, user, limit = (list(column) for column in zip(*rows, strict=True))
    trace = Trace.of(
        "t",
        [str(i) for i in range(len(rows))],
        submit=[1000 * s for s in submit],
        duration=[1000 * d for d in duration],
        gpus=[GPU * g for g in gpus],
        user=user,
        users=("ann", "bob", "cy"),
        limit=[1000 * s for s in limit],
        **more,
    )
    simulator = Simulator(trace, ONE)
    memory = simulator.run(registry.policy(policy))
    return [int(estimate) / 1000 for estimate in memory.form.memory.estimate]


ANN, BOB, CY, NOBODY = 0, 1, 2, -1


def test_oracle_is_the_truth():
    assert estimates("sjf:estimate=oracle", [(0, 7, 1, ANN, 100), (0, 0.5, 1, ANN, 0)]) == [7, 0.5]


def test_an_estimate_is_never_zero():
    assert estimates("sjf:estimate=oracle", [(0, 0, 1, ANN, 0)]) == [0.001]


def test_limit_is_what_the_user_asked_for():
    assert estimates("sjf:estimate=limit", [(0, 7, 1, ANN, 100), (0, 1, 1, ANN, 2)]) == [100, 2]


@pytest.mark.parametrize("source", ["limit", "auto"])
def test_jobs_without_a_limit_use_history(source):
    assert estimates(f"sjf:estimate={source}", [(0, 7, 1, ANN, 100), (50, 1, 1, ANN, 0)]) == [100, 7]


def test_history_ignores_limits():
    assert estimates("sjf:estimate=history", [(0, 7, 1, ANN, 100), (50, 1, 1, ANN, 9)]) == [3600, 7]


def test_history_chain():
    """The first guess, all, the size class, the user's only one, the mean of the user's last two."""
    rows = [
        (0, 100, 8, ANN, 0),  # nothing has ended: the first guess
        (200, 20, 1, BOB, 0),  # bob is new and so is his size: all = 100
        (300, 40, 1, CY, 0),  # cy is new: the size class of one GPU = 20
        (400, 60, 4, NOBODY, 0),  # nobody, and a new size: all = (100 + 20 + 40) / 3
        (500, 10, 1, ANN, 0),  # ann ended one: 100, although one GPU says (20 + 40) / 2
        (600, 30, 16, ANN, 0),  # the mean of ann's last two = 55
        (700, 90, 1, ANN, 0),  # ... (10 + 30) / 2, the first one is forgotten
        (900, 1, 3, NOBODY, 0),  # the size class 2-4 = 60
        (901, 1, 2, CY, 0),  # cy's only one = 40
    ]
    expected = [3600, 100, 20, 53.333, 100, 55, 20, 60, 40]
    assert estimates("sjf:estimate=history", rows) == expected


def test_a_job_is_estimated_when_it_arrives():
    rows = [(0, 100, 8, ANN, 0), (50, 100, 8, ANN, 0), (100, 10, 8, ANN, 0)]
    assert estimates("sjf:estimate=history", rows) == [3600, 3600, 100]  # ends come before arrivals of the same instant


def test_orders_that_need_no_estimate_make_none():
    assert estimates("fifo", [(0, 7, 1, ANN, 100)]) == [0.001]


@pytest.mark.parametrize(
    ("policy", "limits", "source"),
    [
        ("fifo", [1, 1], "none"),
        ("fifo:backfill=easy", [1, 1], "limit"),
        ("sjf", [1, 1], "limit"),
        ("sjf", [1, 0], "limit+history"),
        ("sjf", [0, 0], "history"),
        ("sjf:estimate=limit", [1, 0], "limit+history"),
        ("sjf:estimate=history", [1, 1], "history"),
        ("sjf:estimate=oracle", [1, 1], "oracle"),
    ],
)
def test_the_source_is_named(policy, limits, source):
    trace = Trace.of("t", ["a", "b"], submit=[0, 0], duration=[1, 1], gpus=[GPU, GPU], limit=limits)
    assert registry.policy(policy).estimate_source(trace) == source
    assert ("duration" in registry.policy(policy).needs) == (source == "oracle")


def test_limit_without_any_limit_is_refused():
    trace = Trace.of("t", ["a"], submit=[0], duration=[1], gpus=[GPU])
    with pytest.raises(PolicyError, match="estimate=limit needs a 'limit' column"):
        registry.policy("sjf:estimate=limit").estimate_source(trace)
