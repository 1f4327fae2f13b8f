"""The rule by which nodes sleep and wake, against the description of the authors' code, read literally."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.energy.control import (
    FIRST,
    PRESETS,
    Awake,
    Demand,
    SleepSettings,
    controlled,
    peaks,
    run_peaks,
    run_series,
)
from shunter.energy.power import PowerModel
from shunter.errors import EnergyError


def literal(used, total, near, far, s):
    """The loop of the authors' code in their letters, as it was described to us; the cap may follow the total."""
    h, xi_h, xi_f, de, buffer, keep = s.past, s.fell, s.falls, s.least, s.buffer, s.keep
    active, lack, hold = [], [], 0
    for i, now in enumerate(used):
        if i < 6:
            active.append(min(now + buffer, total[i]))
            lack.append(0)
            continue
        active.append(active[i - 1])
        lack.append(max(now - active[i], 0))
        if active[i] < now:
            active[i] = now + buffer
            hold = i + keep
        active[i] = min(active[i], total[i])
        if lack[i] > 0 or i < hold:
            continue
        past = used[max(i - h, 0) : i]
        big_h, big_f = sum(past) / len(past) - now, now - near[i]
        if big_h >= xi_h and (math.isnan(near[i]) or (big_f >= xi_f and near[i] >= far[i])):
            d = active[i] - min(active[i], now + buffer)
            if d >= de:
                active[i] -= d
    return active, lack


@st.composite
def courses(draw):
    steps = draw(st.integers(1, 60))
    total = draw(st.lists(st.integers(20, 30), min_size=steps, max_size=steps))
    used = [draw(st.integers(0, most)) for most in total]
    forecast = st.one_of(st.just(math.nan), st.integers(0, 60).map(lambda half: half / 2))
    near, far = ([draw(forecast) for _ in used] for _ in range(2))
    far = [0.0 if math.isnan(value) else value for value in far]
    settings = SleepSettings(
        *(draw(st.integers(low, high)) for low, high in ((1, 5), (1, 9))), draw(st.sampled_from([0, 0.5, 2])),
        draw(st.sampled_from([-1, 0, 1])), draw(st.integers(1, 4)), draw(st.integers(0, 6)), draw(st.integers(0, 5)),
    )  # fmt: skip
    return used, total, near, far, settings


@given(courses())
def test_the_rule_does_what_the_description_says(drawn):
    used, total, near, far, settings = drawn
    course = run_series(*map(np.array, (used, total, near, far)), settings)
    active, lack = literal(used, total, near, far, settings)
    assert (course.awake.tolist(), course.shortage.tolist()) == (active, lack)


@given(courses())
def test_what_is_awake_covers_what_is_used_but_for_the_shortage(drawn):
    used, total, near, far, settings = drawn
    course = run_series(*map(np.array, (used, total, near, far)), settings)
    before = np.concatenate([course.awake[:1], course.awake[:-1]])
    assert (course.awake >= course.used).all()
    assert (course.awake <= course.total).all()
    assert (before[FIRST:] + course.shortage[FIRST:] >= course.used[FIRST:]).all()
    assert (course.shortage == 0)[course.change <= 0].all()
    assert course.awake[-1] == course.awake[:FIRST][-1] + course.change[FIRST:].sum()


@given(courses(), st.integers(1, 12), st.data())
def test_the_rule_without_a_forecast_by_its_description(drawn, window, data):
    """The most nodes in use lately and a buffer are awake; more are woken only when they lack; the future is unseen."""
    used, total, _, _, settings = drawn
    settings = replace(settings, window=window)
    course = run_peaks(np.array(used), np.array(total), peaks(np.array(used), window), settings)
    awake = min(used[0] + settings.buffer, total[0])
    for i, now in enumerate(used):
        wanted = min(max(used[max(i - window + 1, 0) : i + 1]) + settings.buffer, total[i])
        lack = 0
        if i < FIRST:
            awake = min(now + settings.buffer, total[i])
        elif awake < now:
            lack, awake = now - awake, wanted
        else:
            awake = min(awake, wanted)
        assert (course.awake[i], course.shortage[i]) == (awake, lack)
    at = data.draw(st.integers(0, len(used) - 1))
    other = np.array([*used[: at + 1], *(0 for _ in used[at + 1 :])])
    again = run_peaks(other, np.array(total), peaks(other, window), settings)
    assert again.awake[: at + 1].tolist() == course.awake[: at + 1].tolist()


DEMAND = Demand(step=20, used=50, recent=60.0, near=40.0, far=39.0, total=100)
SLEEPY = SleepSettings(past=3, ahead=18, fell=0.5, falls=1, least=2, buffer=5, keep=12)


@pytest.mark.parametrize(
    ("change", "awake"),
    [
        ({}, 55),
        ({"recent": 50.4}, 80),  # it has not fallen
        ({"near": 49.5}, 80),  # it will not fall
        ({"far": 41.0}, 80),  # it will rise again
        ({"near": math.nan}, 55),  # nobody knows
        ({"used": 74}, 80),  # one spare node is not worth it
        ({"used": 90}, 95),
        ({"used": 98}, 100),
        ({"total": 70}, 55),
    ],
)
def test_each_threshold(change, awake):
    assert controlled(Awake(80), DEMAND._replace(**change), SLEEPY).nodes == awake


def test_nothing_sleeps_for_a_while_after_a_wake_up():
    woken = controlled(Awake(40), DEMAND, SLEEPY)
    assert woken == Awake(55, 32)
    for step in range(21, 40):
        lower = DEMAND._replace(step=step, used=30, near=20, far=20)
        assert controlled(woken, lower, SLEEPY).nodes == (35 if step >= 32 else 55)


def test_the_published_thresholds():
    assert PRESETS["philly"] == SleepSettings(2, 30, 0.1, 0, 1, 20, 10)
    assert PRESETS["earth"] == SleepSettings(6, 18, 1, 1, 5, 5, 12)
    assert (PRESETS["venus"], PRESETS["uranus"].buffer, PRESETS["saturn"].least) == (SLEEPY, 7, 1)


def test_thresholds_that_make_no_sense_are_refused():
    with pytest.raises(EnergyError, match="buffer must be 0 or more, got -1"):
        SleepSettings(buffer=-1)


# ------------------------------------------------------------------------------------------- power


def test_power():
    power = PowerModel(idle_w=500, sleep_w=100, gpu_w=50, cooling=1.5)
    assert power.kwh(10, 4, 20) == pytest.approx(1.5 * (5000 + 400 + 1000) / 1000)
    assert power.saved(4) == pytest.approx(power.kwh(14, 0, 20) - power.kwh(10, 4, 20))


@pytest.mark.parametrize("wrong", [{"idle_w": -1}, {"cooling": 0.5}, {"idle_w": 5, "sleep_w": 6}])
def test_power_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(EnergyError, match=f"{list(wrong)[-1]} must be"):
        PowerModel(**wrong)
