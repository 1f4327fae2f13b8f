"""What a comparison shows in one or two sentences, and no more than its intervals allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from shunter.report.intervals import shown
from shunter.report.terminal.tables import duration, mark

Row: TypeAlias = dict[str, Any]
MEAN = "jct_s.mean"
_WORSE = 1.1  # a tail is mentioned from this multiple of the first policy's on


def verdict(rows: Sequence[Row]) -> str:
    """Which policy has the shortest mean JCT, whether that is shown, and what else the reader must know.

    Oracles are bounds, not candidates.  The first row is the baseline.
    """
    known = [row for row in rows if not row["oracle"]] or list(rows)
    if len(rows) == 1:
        return _alone(rows[0])
    best = min(known, key=_mean)
    bounds = "Policies that know the truth are left out here." if len(known) < len(rows) else ""
    sentences = [_costs(known, best), _headline(best, rows[0], known), _tail(best, rows[0]), _due(known, best), bounds]
    return " ".join(filter(None, sentences))


def no_difference(row: Row, other: Row) -> bool:
    """Whether an interval of their difference in mean JCT was computed and contains 0."""
    return other["policy"] in row.get("alike", ()) or row["policy"] in other.get("alike", ())


def name_of(row: Row) -> str:
    """A policy's name, marked if it knows more than requests and history."""
    return str(row["policy"]) + mark(row)


def _mean(row: Row) -> float:
    return float(row["jct_s"]["mean"])


def _first_run(row: Row) -> Row:
    return (row.get("repeats") or [row])[0]  # type: ignore[no-any-return]


def _alone(row: Row) -> str:
    jct = row["jct_s"]
    return f"Under {name_of(row)} the mean JCT is {duration(jct['mean'])}, the p99 {duration(jct['p99'])}."


def _headline(best: Row, first: Row, known: Sequence[Row]) -> str:
    alike = [row for row in known if row is not best and no_difference(row, best)]
    worse = [row for row in known if row is not best and row is not first and row not in alike]
    if best is first:
        if not alike:
            return f"No policy here has a shorter mean JCT than {name_of(first)} ({duration(_mean(first))})."
        rest = " The others are longer." if worse else ""
        return f"No difference in mean JCT is shown between {name_of(first)} and {_names(alike)}.{rest}"
    gap = f"{_percent(best, first)} {name_of(first)} ({duration(_mean(first))}){_interval(best)}"
    if first in alike:
        sure = [row for row in known if _mean(row) < _mean(first) and not no_difference(row, first)]
        if sure:
            return _shown(min(sure, key=_mean), best, first)
        return (
            f"No difference in mean JCT from {name_of(first)} is shown: the shortest, {duration(_mean(best))} under "
            f"{name_of(best)}, is {gap}."
        )
    head = f"{name_of(best)} has the shortest mean JCT, {duration(_mean(best))}, {gap}."
    return head + (f" No difference between it and {_names(alike)} is shown." if alike else "")


def _shown(sure: Row, best: Row, first: Row) -> str:
    """A policy that is shown to be better than the first, where the one with the lowest mean is not."""
    return (
        f"{name_of(sure)} has a shorter mean JCT than {name_of(first)}: {duration(_mean(sure))},"
        f" {_percent(sure, first)} it ({duration(_mean(first))}){_interval(sure)}. That of {name_of(best)} is the"
        f" shortest, {duration(_mean(best))}, but no difference from {name_of(first)} is shown{_interval(best)}."
    )


def _percent(row: Row, first: Row) -> str:
    if not _mean(first):
        return "where there is none under"
    change = _mean(row) / _mean(first) - 1
    return (
        "the same as under"
        if abs(change) < 0.005
        else f"{abs(100 * change):.0f} % {'below' if change < 0 else 'above'}"
    )


def share_text(row: Row, measure: str) -> str:
    """The interval of a difference from the first policy, as in ``-67 to -33 %``; "" where there is none."""
    found = ((row.get("differences") or {}).get(measure) or {}).get("share")
    return f"{100 * found['low']:+.0f} to {100 * found['high']:+.0f} %" if found else ""


def _interval(row: Row) -> str:
    between = share_text(row, MEAN)
    return f"; 95 % interval {between}" if between else ""


def _tail(best: Row, first: Row) -> str:
    if best is first or no_difference(best, first):
        return ""
    mine, base = best["jct_s"]["p99"], first["jct_s"]["p99"]
    if not base or mine <= _WORSE * base:
        return ""
    found = (best.get("differences") or {}).get("jct_s.p99")
    sure = "" if found is None or shown(found) else ", though the interval of the difference includes 0"
    return f"Its p99 of JCT is {mine / base:.1f}x {name_of(first)}'s ({duration(mine)}){sure}."


def _due(known: Sequence[Row], best: Row) -> str:
    """Who meets most deadlines, where jobs have them, and what all jobs pay for it."""
    if not all("deadlines" in row for row in known):
        return ""
    most = max(_met(row) for row in known)
    first = [row for row in known if _met(row) == most]
    of = f"{most:,.0f} of {known[0]['deadlines']['jobs']:,.0f}"
    if len(first) == len(known):
        return f"All of them meet {of} deadlines."
    found = f"Most deadlines are met under {_names(first)}: {of}."
    if len(first) > 1 or no_difference(first[0], best):
        return found
    times = {"mean JCT": _over(first[0], best, "mean"), "p99": _over(first[0], best, "p99")}
    price = " and its ".join(f"{name} is {each:.1f}x" for name, each in times.items() if each > _WORSE)
    return f"{found} Its {price} that of {name_of(best)}." if price else found


def _over(row: Row, base: Row, measure: str) -> float:
    """How many times as long jobs take as under another policy; 1 where they take no time there."""
    return float(row["jct_s"][measure] / base["jct_s"][measure]) if base["jct_s"][measure] else 1.0


def _met(row: Row) -> float:
    return float(row["deadlines"]["met"])


def _costs(known: Sequence[Row], best: Row) -> str:
    """Whether what a stop costs decides which policy is best; nothing where no difference between the two is shown."""
    here = {id(row): _mean(_first_run(row)) for row in known}  # other costs were tried in the first repeat alone
    means = {id(row): _mean(row.get("other_costs") or _first_run(row)) for row in known}
    other = min(known, key=lambda row: means[id(row)])
    same = other is best or means[id(other)] >= means[id(best)] or here[id(other)] <= here[id(best)]
    if same or no_difference(other, best):
        return ""
    charged = next(row for row in (other, best, *known) if row.get("other_costs"))
    if charged["other_costs"]["free"]:
        return (
            f"Costs change the winner: if stopping jobs were free, {name_of(other)} would have the shortest mean JCT, "
            f"{duration(means[id(other)])}; here a stop costs {charged['stop_costs']} (checkpoint + restart)."
        )
    return (
        f"Costs change the winner: stopping jobs is free here; at {charged['other_costs']['stop_costs']} a stop, "
        f"{name_of(other)} would have the shortest mean JCT, {duration(means[id(other)])}."
    )


def _names(rows: Sequence[Row]) -> str:
    names = [name_of(row) for row in rows]
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]
