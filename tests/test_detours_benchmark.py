"""Looks ahead from the present queue, and what becomes of what they find."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from benchmarks.looking_ahead import FEWEST, SCOUTS, Future, Lookout, PastDay, PresentQueue, look

from shunter import clusters, registry
from shunter.adapting.autopilot.candidates import Candidates
from shunter.adapting.knowledge import SiteKnowledge
from shunter.adapting.objectives import jct_of
from shunter.generating.known_jobs import DAY, HOUR, recorded
from shunter.model import GPU, Trace
from shunter.sim.engine import Simulator
from shunter.testing.live import habitual

CHOICE, BETTER, STRICT = "ljf:backfill=easy", "sjf:backfill=easy", "fifo"


def queue_of(minutes: list[int], seed: int = 0) -> tuple[Simulator, Future]:
    """All jobs want all GPUs and have come; a future has them with run times of its own."""
    count = len(minutes)
    jobs = Trace.of(
        "queue", [f"j{at}" for at in range(count)], submit=[0] * count, duration=[60_000 * each for each in minutes],
        gpus=[8 * GPU] * count, limit=[60_000 * each for each in minutes],
    )  # fmt: skip
    simulator = Simulator(jobs, clusters.load("1x8"))

    def future(number: int) -> Simulator:
        draws = np.random.default_rng([seed, number]).uniform(0.9, 1.0, count)
        return simulator.fork_with(np.round(jobs.duration * draws).astype(np.int64))

    return simulator, future


def present(future: Future, in_force: str = CHOICE) -> PresentQueue:
    return PresentQueue(0, CHOICE, in_force, None, future, 3.0)


def test_a_look_finds_what_is_better_for_this_queue() -> None:
    _, future = queue_of([600, 500, *[5] * 12])
    found = look(present(future), [CHOICE, BETTER])
    assert found.policy == BETTER
    assert "% less time in the system" in found.why


def test_where_no_job_waits_a_look_is_short_and_finds_nothing() -> None:
    _, future = queue_of([600])
    found = look(present(future), [CHOICE, BETTER])
    assert found.policy == CHOICE
    assert found.evaluations == 2


def test_what_looks_best_on_a_few_futures_must_be_better_on_others() -> None:
    """Candidates that differ by chance alone: the scouts prefer one, the judges don't confirm it."""
    _, good = queue_of([600, 500, *[5] * 12])
    _, none = queue_of([60, 60])
    found = look(present(lambda number: good(number) if number < SCOUTS else none(number)), [CHOICE, BETTER])
    assert found.policy == CHOICE
    assert "beyond chance" in found.why


def test_a_detour_goes_on_for_any_gain_and_begins_only_beyond_chance() -> None:
    _, good = queue_of([600, 500, *[5] * 12])
    _, none = queue_of([60])
    one_in_ten = [0, 1, 2, 3, 10, 20]

    def future(number: int) -> Simulator:
        return good(number) if number in one_in_ten else none(number)

    assert look(present(future), [CHOICE, BETTER]).policy == CHOICE
    assert look(present(future, in_force=BETTER), [CHOICE, BETTER]).policy == BETTER


def lookout(trace: Trace, texts: list[str]) -> Lookout:
    return Lookout(SiteKnowledge(trace, None), Candidates.of(texts, "fifo:backfill=easy"), hours=2)


def test_past_days_go_round() -> None:
    known = recorded(habitual(600, 16, 1.1))
    now = int(known.submit[0]) + 3 * DAY + HOUR
    known = known.select(known.submit < now)
    days = [PastDay(number, 2 * HOUR).replay(known, now, 0) for number in range(4)]  # three are known
    for ago, day in zip((1, 2, 3, 1), days, strict=True):
        assert len(day.rows)
        assert (day.submit - known.submit[day.rows] == ago * DAY).all()
        assert ((now <= day.submit) & (day.submit < now + 2 * HOUR)).all()
    assert not len(PastDay(0).replay(known.select(slice(0, 0)), now, 0).rows)


def test_no_scout_has_a_day_of_a_judge() -> None:
    known = recorded(habitual(1500, 16, 1.1))
    now = int(known.submit[0]) + 7 * DAY + HOUR
    known = known.select(known.submit < now)
    ago = []
    for number in range(SCOUTS + 6):
        day = PastDay(number).replay(known, now, 0)
        ago += [set(((day.submit - known.submit[day.rows]) // DAY).tolist())]
    assert set.union(*ago[:SCOUTS]) <= {1, 2, 3, 4}
    assert set.union(*ago[SCOUTS:]) <= {5, 6, 7}


@pytest.mark.parametrize(
    ("gains", "trusted"),
    [
        ([0.1] * (FEWEST - 1), False),
        ([0.1, 0.2] * FEWEST, True),
        ([-0.1, -0.2] * FEWEST, False),
        ([0.3, -0.29] * FEWEST, False),
    ],
)
def test_it_is_trusted_while_what_it_found_would_have_helped(gains: list[float], trusted: bool) -> None:
    found = lookout(habitual(20, 16, 1.0), [BETTER])
    found.gains.extend(gains)
    assert found.trusted is trusted


def flown(trace: Trace, looking: Lookout) -> tuple[float, list[int]]:
    """The mean JCT with looks every two hours, and when detours were in force (ms from the beginning)."""
    simulator = Simulator(trace, clusters.load("2x8"))
    text, memory, begin, away = STRICT, None, int(trace.submit[0]), list[int]()
    for now in range(begin + 2 * HOUR, int(trace.submit[-1]), 2 * HOUR):
        memory = simulator.run(registry.policy(text), until=now, memory=memory)
        text = looking.look(simulator, now, STRICT, text, memory).policy
        memory = registry.policy(text).start(simulator.cluster, memory)
        away += [now - begin] * (text != STRICT)
    simulator.run(registry.policy(text), memory=memory)
    return float(np.nanmean(jct_of(simulator))), away


def test_what_was_found_is_judged_a_day_later_by_the_jobs_that_came() -> None:
    """A strict queue is a bad choice: what is found would help, is trusted after a day, and helps."""
    trace = dataclasses.replace(habitual(350, 16, 1.1), checkpointable=np.zeros(350, np.int64))
    alone, led = (lookout(trace, texts) for texts in ([STRICT], [STRICT, BETTER]))
    choice, never = flown(trace, alone)
    found, away = flown(trace, led)
    assert not never
    assert not alone.gains
    assert min(away) >= DAY
    assert np.mean(led.gains) > 0
    assert all(map(math.isfinite, led.gains))
    assert found < 0.5 * choice
