"""Priorities that give an order, with few changes."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from shunter.live.ordering import affordable, longest_falling, merged, moves

jobs = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.permutations([f"j{i}" for i in range(n)]), st.lists(st.integers(1, 60), min_size=n, max_size=n)
    )
)


@given(jobs)
def test_the_order_comes_out(case: tuple[list[str], list[int]]) -> None:
    order, values = case
    priority = dict(zip(sorted(order), values, strict=True))
    new = priority | moves(order, priority, set(), 1, 1000)
    assert all(new[a] > new[b] for a, b in pairwise(order))
    assert all(1 <= value <= 1000 for value in new.values())


@given(jobs)
def test_no_job_in_the_right_place_moves(case: tuple[list[str], list[int]]) -> None:
    order, values = case
    priority = dict(zip(sorted(order), values, strict=True))
    new = priority | moves(order, priority, set(), 1, 1000)
    assert moves(order, new, set(), 1, 1000) == {}
    best = max(  # every subset, tried out
        len(chosen)
        for size in range(1, len(order) + 1)
        for chosen in combinations(order, size)
        if all(priority[a] > priority[b] for a, b in pairwise(chosen))
    )
    assert len(longest_falling(order, {job: (value, 0) for job, value in priority.items()})) == best


@given(jobs, st.sets(st.integers(0, 11)))
def test_the_fixed_stay_and_no_job_gets_before_them(case: tuple[list[str], list[int]], which: set[int]) -> None:
    ranking, values = case
    priority = dict(zip(sorted(ranking), values, strict=True))
    natural = sorted(priority, key=lambda job: (-priority[job], job))
    fixed = {job for at, job in enumerate(natural) if at in which}
    order = merged(natural, [job for job in ranking if job not in fixed])
    assert [job for job in order if job in fixed] == [job for job in natural if job in fixed]
    assert [natural.index(job) for job in fixed] == [order.index(job) for job in fixed]
    new = priority | moves(order, priority, fixed, 1, 10_000)
    assert all(new[job] == priority[job] for job in fixed)
    room = all(abs(priority[a] - priority[b]) > len(order) for a, b in combinations(fixed, 2))
    if room and all(priority[job] > len(order) for job in fixed):
        assert all(new[a] > new[b] for a, b in pairwise(order))


@example((["j0", "j1", "j3", "j2", "j6", "j5", "j4", "j7"], [1, 1, 2, 1, 1, 1, 1, 2]), {0, 7}, 2)
@given(jobs, st.sets(st.integers(0, 11)), st.integers(1, 4))
def test_at_equal_priority_no_job_gets_before_the_fixed(
    case: tuple[list[str], list[int]], which: set[int], levels: int
) -> None:
    """Few levels, many equals: nobody who is left alone gets behind more jobs, and the second round finds nothing."""
    ranking, values = case
    priority = {job: 1 + value % levels for job, value in zip(sorted(ranking), values, strict=True)}
    ties = sorted(priority)

    def ahead(job: str, of: dict[str, int]) -> int:
        return sum((-of[other], other) < (-of[job], job) for other in of)

    natural = sorted(priority, key=lambda job: (-priority[job], job))
    fixed = {job for at, job in enumerate(natural) if at in which}
    order = merged(natural, [job for job in ranking if job not in fixed])
    new = priority | moves(order, priority, fixed, 1, 10_000, ties)
    assert min(new.values()) >= 1
    for job in fixed:
        if priority[job] > 1:
            assert ahead(job, new) <= ahead(job, priority)
    assert moves(order, new, fixed, 1, 10_000, ties) == {}
    assert moves(natural, priority, fixed, 1, 10_000, ties) == {}


def test_a_new_job_moves_alone() -> None:
    priority = {"a": 500, "b": 400, "c": 300, "new": 10}
    assert moves(["a", "new", "b", "c"], priority, set(), 1, 1000) == {"new": 450}
    assert moves(["new", "a", "b", "c"], priority, set(), 1, 1000) == {"new": 600}
    assert moves(["a", "b", "c", "new"], priority, set(), 1, 1000) == {}


def test_equal_priorities_are_distinguished() -> None:
    priority = dict.fromkeys("abc", 59)
    new = moves(["b", "c", "a"], priority, set(), 59, 1059)
    assert len(new) == 2
    new = priority | new
    assert new["b"] > new["c"] > new["a"]


def test_too_little_room_gives_equals_at_the_end() -> None:
    new = moves(list("abcd"), dict.fromkeys("abcd", 5), set(), 5, 6)
    assert new["a"] == 6
    assert set(new.values()) <= {5, 6}


@given(jobs, st.sets(st.integers(0, 11)), st.integers(2, 60), st.integers(1, 6), st.integers(1, 24))
def test_whatever_is_cut_off_the_fixed_never_stand_further_back(
    case: tuple[list[str], list[int]], which: set[int], levels: int, most: int, depth: int
) -> None:
    """Rounds of few moves, each of which may be the last one before a crash; in the end the order is there."""
    ranking, values = case
    natural = {job: 1 + len(values) + value % levels for job, value in zip(sorted(ranking), values, strict=True)}
    ties = sorted(natural)

    def ahead(job: str, of: dict[str, int]) -> int:
        return sum((-of[other], other) < (-of[job], job) for other in of)

    by_nature = sorted(natural, key=lambda job: (-natural[job], job))
    fixed = {job for at, job in enumerate(by_nature) if at in which}
    order = merged(by_nature, [job for job in ranking if job not in fixed])
    now = dict(natural)
    for _ in range(40):
        wanted = moves(order, now, fixed, 1, 10_000, ties)
        present = sorted(now, key=lambda job: (-now[job], job))
        urgency = {job: min(present.index(job), order.index(job)) for job in wanted}
        near = sorted((job for job in wanted if urgency[job] < depth), key=urgency.__getitem__)  # as the controller
        done = affordable(near, wanted, order, now, fixed, ties, most)
        assert len(done) <= most
        assert done or not near
        for job in done:
            now[job] = wanted[job]
            for other in fixed:
                assert ahead(other, now) <= ahead(other, natural), (job, other)
    complete = natural | moves(order, natural, fixed, 1, 10_000, ties)
    if depth >= len(order) and all(complete[a] > complete[b] for a, b in pairwise(order)):
        assert sorted(now, key=lambda job: (-now[job], job)) == order
