"""From a user's trace to a profile: only summaries of at least a few jobs, and no names except those of GPU types."""

from __future__ import annotations

import dataclasses

import numpy as np

from shunter.errors import TraceError
from shunter.model import Trace
from shunter.seeding import rng
from shunter.texts import counted
from shunter.traces.twins.arrivals import HOUR_MS, MONDAY_H, WEEK_H, rhythmic
from shunter.traces.twins.making import DAY_MS, numbered
from shunter.traces.twins.profile import POSITIONS, Arrivals, Kinds, TwinProfile, UserHabits, solve
from shunter.traces.twins.quantiles import Quantiles, cumulative_normal, normal, ranks
from shunter.world import F64, I64

FEW = 5  # what fewer jobs than this have in common is left out
START = 978_307_200_000  # 2001-01-01, a Monday: a twin says the hour and the weekday, not the date
OUTCOMES = ("completed", "failed", "cancelled", "timeout", "out_of_memory", "node_fail", "preempted")
ALIKE = 0.7  # jobs of a user, one after the other, of equal size, whose ln(run time) differ by less: a re-run
KEPT = {"submit", "duration", "gpus", "user", "vc", "gpu_type", "limit", "account", "job_name", "outcome"}
SHARES = np.array([0, 0.1, 1, 2.5, *range(5, 96, 5), 92.5, 97.5, 98, 98.5, 99, 99.5, 99.9, 100]) / 100


def fit(trace: Trace) -> TwinProfile:
    """The profile of a trace."""
    if len(trace) < 100:
        raise TraceError(
            f"trace '{trace.name}': has {counted(len(trace), 'job')}; a twin of fewer than 100 would reveal too much of"
            " each"
        )
    log_s = np.log1p(trace.duration / 1000)
    score = normal(ranks(log_s))
    kinds = _kinds(trace, score)
    limited = trace.limit > 0
    outcomes, outcome_tie = _outcomes(trace, score)
    return TwinProfile(
        name="twin",
        gpus=0,
        arrivals=_arrivals(trace.submit),
        kinds=kinds,
        durations=_quantiles(trace.duration),
        users=_users(trace, log_s, score),
        limits=_quantiles(trace.limit[limited]) if limited.mean() > 0.5 else None,
        limit_tie=_tie(trace.limit[limited], trace.duration[limited]) if limited.sum() > 1 else 0.0,
        outcomes=outcomes,
        outcome_tie=outcome_tie,
        cluster="auto",
    )


def left_out(trace: Trace) -> list[str]:
    """The columns of a trace in which something stands that a twin does not have."""
    columns = Trace.columns().items()
    return [name for name, about in columns if name not in KEPT and (getattr(trace, name) != about.default).any()]


def _quantiles(times: I64) -> Quantiles:
    """The quantiles of times in ms; the few longest and shortest are cut off."""
    edge = min(FEW / len(times), 0.25)
    shares = np.unique(np.clip(SHARES, edge, 1 - edge))
    return Quantiles(shares, np.quantile(np.log1p(times / 1000), shares))


def _tie(one: I64, other: I64) -> float:
    """The correlation of the normal scores."""
    scores = [normal(ranks(values + rng(0, "fit.ties").random(len(values)))) for values in (one, other)]
    return float(np.clip((scores[0] * scores[1]).mean(), 0, 0.99))


# ------------------------------------------------------------------------------------------- kinds


def _kinds(trace: Trace, score: F64) -> Kinds:
    """Sizes by virtual cluster and GPU type; a kind that few jobs have is put to the nearest size that more have."""
    vcs, vc = _by_number(trace.vc)
    sizes, size = np.unique(trace.gpus, return_inverse=True)
    shape = (len(vcs) + 1, len(trace.gpu_types) + 1, len(sizes))
    cell = np.ravel_multi_index((vc + 1, trace.gpu_type + 1, size), shape)
    cells, code, count = np.unique(cell, return_inverse=True, return_counts=True)
    place, kind_of_gpu, size = np.unravel_index(cells, shape)
    found = np.stack([place - 1, kind_of_gpu - 1, sizes[size]])
    nearest = _nearest_common(found, count)
    kept, code = np.unique(nearest[code], return_inverse=True)
    found, count = found[:, kept], np.bincount(code)
    at = cumulative_normal(POSITIONS)
    by_kind = np.split(score[np.argsort(code, kind="stable")], np.cumsum(count)[:-1])
    scores = np.array([np.quantile(of_kind, at) for of_kind in by_kind])
    return Kinds(
        gpus=found[2],
        share=count / count.sum(),
        score=scores,
        vc=found[0],
        gpu_type=found[1],
        vcs=tuple(numbered("vc", len(vcs), 1)),
        gpu_types=trace.gpu_types,
    )


def _by_number(code: I64) -> tuple[I64, I64]:
    """The codes that occur, the most frequent first, and each entry's place among them (-1 stays)."""
    count = np.bincount(code[code >= 0])
    order = np.argsort(-count, kind="stable")[: int((count > 0).sum())]
    place = np.full(len(count) + 1, -1)
    place[order] = np.arange(len(order))
    return order, place[code]


def _nearest_common(found: I64, count: I64) -> I64:
    """For each kind itself if many jobs have it, else the kind in the same place, or anywhere, of the nearest size."""
    common = np.flatnonzero(count >= FEW)
    if not len(common):
        common = np.argsort(-count)[:1]
    nearest = np.arange(len(count))
    for kind in np.flatnonzero(count < FEW):
        far = np.abs(np.log(found[2, common] / found[2, kind]))
        elsewhere = (found[:2, common] != found[:2, [kind]]).sum(axis=0)
        nearest[kind] = common[np.lexsort((far, elsewhere))[0]]
    return nearest


# ------------------------------------------------------------------------------------------- arrivals


def _arrivals(submit: I64) -> Arrivals:
    """Rhythm, surges and bursts; the burstiness is found by trying until the gaps vary as much."""
    span = max(int(submit[-1] - submit[0]), 1000)
    per_day = len(submit) / span * DAY_MS
    start = START + (int(submit[0]) - MONDAY_H * HOUR_MS) % (WEEK_H * HOUR_MS) // HOUR_MS * HOUR_MS
    gaps = np.diff(submit)
    long = max(4 * HOUR_MS, 30 * span // len(submit))
    pauses = gaps[gaps > long] / HOUR_MS
    week, hour_surge, day_surge = _rhythm(submit)
    guess = Arrivals(
        start=start,
        per_day=per_day,
        week=week,
        together=float((np.diff(submit // 1000) == 0).mean()),
        day_surge=day_surge,
        hour_surge=hour_surge,
        burst=1.0,
        pauses_per_week=len(pauses) / (span / HOUR_MS / WEEK_H) if len(pauses) else 0.0,
        pause_hours=float(pauses.mean()) if len(pauses) else 0.0,
    )
    joined = rng(0, "fit.joined").random(min(len(submit), 50_000)) < guess.together
    joined[0] = False
    some = round(len(joined) / per_day * DAY_MS)

    def varies(burst: float) -> float:
        return _variation(rhythmic(dataclasses.replace(guess, burst=burst), joined, some, 0), long)

    found = dataclasses.replace(guess, burst=solve(varies, _variation(submit, long), 0.3, 1.6, steps=8))
    made = rhythmic(found, np.zeros(len(joined), bool), some, 0)
    by_chance = float((np.diff(made) == 0).mean())
    return dataclasses.replace(found, together=max(guess.together - by_chance, 0.0))


def _variation(times: I64, long: int) -> float:
    """The coefficient of variation of the gaps, but for pauses."""
    gaps = np.diff(times)
    gaps = gaps[gaps <= long]
    return float(gaps.std() / max(gaps.mean(), 1e-9)) if len(gaps) else 0.0


def _rhythm(submit: I64) -> tuple[F64, float, float]:
    """Arrivals by hour of the week, and how much hours and days stray from it (sd of ln, without the chance of few)."""
    hour = (submit // HOUR_MS) - submit[0] // HOUR_MS
    hours = np.arange(hour[-1] + 1)
    of_week = (submit[0] // HOUR_MS - MONDAY_H + hours) % WEEK_H
    count = np.bincount(hour, minlength=len(hours)).astype(float)
    seen = np.bincount(of_week, minlength=WEEK_H)
    rate = np.bincount(of_week, count, minlength=WEEK_H)
    by_day, by_hour = (_relative(rate.reshape(7, 24).sum(axis), seen.reshape(7, 24).sum(axis)) for axis in (1, 0))
    usual = np.outer(by_day, by_hour).ravel() * count.mean()
    week = (rate + usual) / (seen + 1)  # where little was seen, day and hour of the day say most
    strays = []
    for length in (1, 24):
        whole = len(hours) // length * length
        got, wanted = (x[:whole].reshape(-1, length).sum(axis=1) for x in (count, week[of_week]))
        fine = wanted >= 1
        excess = ((got[fine] / wanted[fine] - 1) ** 2 - 1 / wanted[fine]).mean() if fine.sum() > 1 else 0.0
        strays.append(float(np.sqrt(np.log1p(np.clip(excess, 0, 3)))))
    hour_surge = np.sqrt(max(strays[0] ** 2 - strays[1] ** 2, 0))
    return week / week.mean(), float(hour_surge), strays[1]


def _relative(count: F64, seen: I64) -> F64:
    """Rates relative to their mean; 1 where nothing was looked at."""
    rate = np.divide(count, seen, out=np.full(len(count), np.nan), where=seen > 0)
    found: F64 = np.nan_to_num(rate / max(float(np.nanmean(rate)), 1e-9), nan=1.0)
    return found


# ------------------------------------------------------------------------------------------- users and outcomes


def _users(trace: Trace, log_s: F64, score: F64) -> UserHabits:
    """How few submit most, how they stay, and how much their jobs are alike."""
    known = trace.user >= 0
    if known.mean() < 0.5:
        return UserHabits()
    order, user = _by_number(trace.user)
    count = np.bincount(user[known])
    top = max(len(count) // 20, 1)
    ranked = np.arange(1, len(count) + 1)
    skew = solve(
        lambda skew: (ranked[:top] ** -skew).sum() / (ranked**-skew).sum(), count[:top].sum() / count.sum(), 0, 6
    )
    apart = np.diff(trace.submit // 1000) > 0
    stays = (np.diff(user) == 0)[apart]

    by_user = np.argsort(user, kind="stable")
    same = (np.diff(user[by_user]) == 0) & (user[by_user][1:] >= 0)
    away = np.diff(score[by_user])
    alike = same & (np.abs(np.diff(log_s[by_user])) < ALIKE) & (np.diff(trace.gpus[by_user]) == 0)
    pairs = np.stack([score[by_user][:-1], score[by_user][1:]])[:, same & ~alike]
    habit = float((pairs[0] * pairs[1]).mean()) if pairs.shape[1] > FEW else 0.0  # scores have mean 0, variance 1
    return UserHabits(
        count=len(order),
        skew=skew,
        stay=float(np.clip(stays.mean(), 0, 0.99)) if len(stays) else 0.0,
        repeat=float(alike.sum() / max(same.sum(), 1)),
        habit=float(np.clip(habit, 0, 0.95)),
        drift=float(np.median(np.abs(away[alike])) / 0.954) if alike.any() else 0.0,  # of a difference of two normals
        named=bool((trace.job_name >= 0).mean() > 0.5),
        accounts=tuple((np.sort(np.bincount(trace.account[trace.account >= 0]))[::-1] / len(trace)).tolist()),
    )


def _outcomes(trace: Trace, score: F64) -> tuple[dict[str, float], float]:
    """Shares of the well-known outcomes, all others as one, from those of short jobs to those of long ones."""
    known = trace.outcome >= 0
    if known.mean() < 0.5:
        return {}, 0.0
    names = [name.lower() if name.lower() in OUTCOMES else "other" for name in trace.outcomes]
    outcome = np.array(names, object)[trace.outcome[known]]
    groups = {name: score[known][outcome == name] for name in sorted(set(outcome.tolist()))}
    order = sorted(groups, key=lambda name: float(groups[name].mean()))
    between = sum(len(group) * (group.mean() - score[known].mean()) ** 2 for group in groups.values())
    tie = np.sqrt(between / known.sum() / max(score[known].var(), 1e-9))
    return {name: len(groups[name]) / int(known.sum()) for name in order}, float(np.clip(tie, 0, 0.99))


def apart(twin: Trace, original: Trace) -> Trace:
    """The twin with no pair (submission, run time) that the original has: such a job runs a millisecond longer."""
    suspects = np.flatnonzero(np.isin(twin.submit, original.submit))
    near = np.isin(original.submit, twin.submit[suspects])
    taken = set(zip(original.submit[near].tolist(), original.duration[near].tolist(), strict=True))
    duration = twin.duration.copy()
    for job in suspects.tolist():
        while (int(twin.submit[job]), int(duration[job])) in taken:
            duration[job] += 1
    return dataclasses.replace(twin, duration=duration)
