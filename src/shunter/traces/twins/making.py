"""From a profile to a trace.

Shares and quantiles are never left to chance: jobs are put in an order by similarity, and the order is cut
by the shares (sizes, users, outcomes) or read off the quantiles (run times, limits).  So the marginals are exact at any
number of jobs, and what is random is which job gets what.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shunter.errors import TraceError
from shunter.model import GPU, Trace
from shunter.seeding import rng
from shunter.traces.twins.arrivals import rhythmic, span_for
from shunter.traces.twins.profile import POSITIONS, Kinds, TwinProfile, UserHabits
from shunter.traces.twins.quantiles import cut, even, normal, ranks
from shunter.world import F64, I64

DAY_MS = 86_400_000
WANDERS = 0.2  # how often a work is of a kind that has nothing to do with the user's others
MINUTE, HOUR, DAY = 60, 3600, 86400
ROUND_S = np.array(  # the run times that people request
    [m * MINUTE for m in (1, 2, 5, 10, 15, 20, 30, 45)]
    + [h * HOUR for h in (1, 2, 3, 4, 6, 8, 12, 16, 18)]
    + [d * DAY for d in (1, 1.5, 2, 3, 4, 5, 6, 7, 10, 14, 21, 30, 45, 60, 90, 180, 365, 3650)]
)


@dataclass(frozen=True, eq=False)
class Cast:
    """The user of each job, and which work it is: the job that it re-runs, or itself."""

    joined: NDArray[np.bool_]  # comes together with the job before
    user: I64
    work: I64


def make(profile: TwinProfile, jobs: int, seed: int = 0, load: float | None = None, gpus: int | None = None) -> Trace:
    """A twin of this many jobs.

    It comes at the rate of the profile unless a ``load`` is given: then the GPU time between its first and last
    submission is ``load`` times what ``gpus`` GPUs (by default the profile's) offer.
    """
    size = check(jobs, seed, load, profile.gpus if gpus is None else gpus)
    cast = _cast(profile, jobs, seed)
    kind = _kinds(profile.kinds, cast, seed)
    score, duration = _durations(profile, cast, kind, seed)
    asked = profile.kinds.gpus[kind]
    span = round(jobs / profile.arrivals.per_day * DAY_MS)
    if load is not None:
        span = span_for(asked, duration, load, size)
    given = {
        **_people(profile.users, cast),
        **_limits(profile, cast, score, duration, seed),
        **_outcomes(profile, score, seed),
        **_places(profile, cast, kind, asked * duration / GPU, seed),
    }
    submit = rhythmic(profile.arrivals, cast.joined, span, seed)
    ids = numbered("job", jobs, 6)
    name = f"{profile.name}-{jobs}-seed{seed}"
    return Trace.of(name, ids, submit=submit, duration=duration, gpus=asked, **given)


def check(jobs: int, seed: int, load: float | None, gpus: int) -> int:
    """Refuse settings that no twin can have; returns the GPUs that a load is of."""
    bounds = (("jobs", jobs, 1, 2e7), ("load", 1 if load is None else load, 0.01, 100), ("seed", seed, 0, 2**31 - 1))
    for name, value, low, high in bounds:
        if not low <= value <= high:
            raise TraceError(f"synthetic trace: {name} must be from {low:g} to {high:g}, got {value}")
    if load is not None and not 1 <= gpus <= 1e7:
        raise TraceError(f"synthetic trace: a load needs a number of GPUs, 1 to 1e+07, got {gpus}; give --gpus")
    return gpus


def numbered(prefix: str, count: int, digits: int) -> list[str]:
    """prefix001, prefix002 ..."""
    return [f"{prefix}{number:0{digits}d}" for number in range(1, count + 1)]


def _cast(profile: TwinProfile, jobs: int, seed: int) -> Cast:
    """Users in sessions, each session of one user; a user's next job is mostly a re-run of the last."""
    draw, users = rng(seed, "twin.users"), profile.users
    joined = draw.random(jobs) < profile.arrivals.together
    comes = ~joined & (draw.random(jobs) >= users.stay)
    joined[0], comes[0] = False, True
    sessions = int(comes.sum())
    weights = np.arange(1.0, max(users.count, 1) + 1) ** -users.skew
    user = cut(draw.permutation(even(sessions)), weights)[np.cumsum(comes) - 1]

    fresh = draw.random(jobs) >= users.repeat
    by_user = np.argsort(user, kind="stable")
    fresh[by_user[np.flatnonzero(np.diff(user[by_user], prepend=-1))]] = True  # a user's first job repeats nothing
    latest = np.maximum.accumulate(np.where(fresh[by_user], np.arange(jobs), 0))
    work = np.empty(jobs, np.int64)
    work[by_user] = by_user[latest]
    return Cast(joined, user, work)


def _kinds(kinds: Kinds, cast: Cast, seed: int) -> I64:
    """The kind of each job: works lie on a line, those of a user side by side, and the line is cut by the shares."""
    draw, jobs = rng(seed, "twin.kinds"), len(cast.user)
    count = np.bincount(cast.user)
    order = draw.permutation(len(count))
    begin = np.empty(len(count))
    begin[order] = np.cumsum(count[order]) - count[order]
    place = (begin[cast.user] + count[cast.user] * draw.random(jobs)) / jobs
    place = np.where(draw.random(jobs) < WANDERS, draw.random(jobs), place)
    return cut(ranks(place[cast.work]), kinds.share)


def _durations(profile: TwinProfile, cast: Cast, kind: I64, seed: int) -> tuple[F64, I64]:
    """The normal score of each job's run time, and the run time in ms.

    Within a kind, works lie evenly over the scores in the order of their users' habits; runs of a work differ a bit.
    """
    draw, users, jobs = rng(seed, "twin.durations"), profile.users, len(kind)
    habit = draw.normal(size=cast.user.max() + 1)[cast.user]
    likes = np.sqrt(users.habit) * habit + np.sqrt(1 - users.habit) * draw.normal(size=jobs)
    order = np.lexsort((cast.work, likes[cast.work], kind))
    kind_of, work_of = kind[order], cast.work[order]
    begins = np.flatnonzero((np.diff(kind_of, prepend=-1) != 0) | (np.diff(work_of, prepend=-1) != 0))
    count = np.diff(np.append(begins, jobs))
    total = np.bincount(kind)
    before = (np.cumsum(total) - total)[kind_of[begins]]
    share = (begins + count * draw.random(len(begins)) - before) / total[kind_of[begins]]
    score = np.empty(jobs)
    score[order] = np.repeat(normal(share), count)
    score += users.drift * draw.normal(size=jobs)
    share = ranks(_among_all(profile.kinds, kind, score))
    return normal(share), np.rint(profile.durations.at(share) * 1000).astype(np.int64)


def _among_all(kinds: Kinds, kind: I64, score: F64) -> F64:
    """The score among all jobs from that within the kind."""
    step = POSITIONS[1] - POSITIONS[0]
    along = np.clip((score - POSITIONS[0]) / step, 0, len(POSITIONS) - 1.001)
    left = along.astype(np.int64)
    part = along - left
    found: F64 = kinds.score[kind, left] * (1 - part) + kinds.score[kind, left + 1] * part
    return found


def _places(profile: TwinProfile, cast: Cast, kind: I64, gpu_time: F64, seed: int) -> dict[str, object]:
    """Where jobs run: as their kinds say, or so that all places are equally loaded.

    Users lie on a line, which is cut by what is free in the places that have room; the largest jobs first.
    """
    kinds = profile.kinds
    if not profile.places:
        where = {"vc": kinds.vc[kind], "gpu_type": kinds.gpu_type[kind]}
        return {**where, "vcs": kinds.vcs, "gpu_types": kinds.gpu_types}
    room = np.array(list(profile.places.values())) * GPU
    free = room / room.sum() * gpu_time.sum()
    order = np.lexsort((cast.work, rng(seed, "twin.places").permutation(cast.user.max() + 1)[cast.user]))
    rooms = np.unique(room)
    needs = rooms[np.searchsorted(rooms, kinds.gpus)][kind][order]  # the least room that will do
    place = np.empty(len(kind), np.int64)
    for need in rooms[::-1]:
        jobs = order[needs == need]
        share = (np.cumsum(gpu_time[jobs]) - gpu_time[jobs] / 2) / max(gpu_time[jobs].sum(), 1.0)
        weights = np.where(room >= need, np.maximum(free, 0), 0)
        place[jobs] = cut(share, weights if weights.any() else (room >= need).astype(float))
        free -= np.bincount(place[jobs], gpu_time[jobs], minlength=len(room))
    return {profile.places_are: place, profile.places_are + "s": tuple(profile.places)}


def _people(users: UserHabits, cast: Cast) -> dict[str, object]:
    """Users, their accounts, and the names of works."""
    if not users.count:
        return {}
    found: dict[str, object] = {"user": cast.user, "users": tuple(numbered("u", users.count, 3))}
    if users.named:
        works, name = np.unique(cast.work, return_inverse=True)
        found |= {"job_name": name, "job_names": tuple(numbered("name", len(works), 3))}
    if users.accounts:
        shares = np.array(users.accounts)
        weights = np.arange(1.0, users.count + 1) ** -users.skew
        middle = np.cumsum(weights) - weights / 2
        account = cut(middle / weights.sum(), shares)[cast.user]
        found |= {"account": account, "accounts": tuple(numbered("account", len(shares), 1))}
    return found


def _limits(profile: TwinProfile, cast: Cast, score: F64, duration: I64, seed: int) -> dict[str, I64]:
    """What users request: the same for all runs of a work, round, and never less than the longest of them took."""
    if profile.limits is None:
        return {}
    draw, tie, jobs = rng(seed, "twin.limits"), profile.limit_tie, len(score)
    habit = draw.normal(size=cast.user.max() + 1)[cast.user]
    likes = tie * score + np.sqrt((1 - tie**2) / 2) * (habit + draw.normal(size=jobs))
    asked = profile.limits.at(ranks(likes[cast.work]))
    longest = np.zeros(jobs)
    np.maximum.at(longest, cast.work, np.maximum(asked[cast.work], duration / 1000))
    rounded = ROUND_S[np.minimum(np.searchsorted(ROUND_S, longest - 0.5), len(ROUND_S) - 1)]
    return {"limit": np.rint(np.maximum(rounded, longest) * 1000).astype(np.int64)[cast.work]}


def _outcomes(profile: TwinProfile, score: F64, seed: int) -> dict[str, object]:
    """How jobs ended: the outcomes of short jobs first, as far as they go with the run time."""
    if not profile.outcomes:
        return {}
    tie = profile.outcome_tie
    likes = tie * score + np.sqrt(1 - tie**2) * rng(seed, "twin.outcomes").normal(size=len(score))
    code = cut(ranks(likes), np.array(list(profile.outcomes.values())))
    return {"outcome": code, "outcomes": tuple(profile.outcomes)}


def for_plain_cluster(profile: TwinProfile, gpus: int) -> TwinProfile:
    """The profile for this many GPUs without virtual clusters or types: only jobs that fit, and fewer of them a day."""
    kinds = profile.kinds
    fits = kinds.gpus <= gpus * GPU
    if not fits.any():
        raise TraceError(f"synthetic trace: gpus must be at least {kinds.gpus.min() // GPU}, got {gpus}")
    smaller = Kinds.of_sizes(kinds.gpus[fits] // GPU, kinds.share[fits], kinds.score[fits])
    arrivals = dataclasses.replace(profile.arrivals, per_day=profile.arrivals.per_day * gpus / profile.gpus)
    return dataclasses.replace(profile, kinds=smaller, places={}, arrivals=arrivals, gpus=gpus, cluster="auto")
