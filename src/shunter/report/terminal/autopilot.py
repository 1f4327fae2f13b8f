"""An autopilot beside policies that stay, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from shunter.report.terminal.tables import Below, duration, table
from shunter.texts import counted

DAY_MS = 86_400_000
AIMS = {True: "yes", False: "NO", None: "does not apply"}
LABELS = {  # of aims, by their keys
    "0.98 of Fixed": "not worse than its first choice (0.98 times)",
    "half of Optimal - Fixed": "half of what Optimal gained",
    "handed back after a bad day": "bad days handed back",
}


def autopilot_view(found: Mapping[str, Any]) -> RenderableType:
    """A study (see ``PilotStudy.as_dict``)."""
    made = table(
        "policy", "JCT\nmean", "JCT\np99", "rho <= 1\n% of jobs", "times as good\nas Fixed",
        "times as good as\nthe site's", "switches",
    )  # fmt: skip
    for run in found["runs"].values():
        jct = run["jct_s"]
        made.add_row(
            Text(run["label"]), duration(jct["mean"]), duration(jct["p99"]), f"{100 * run['fair']:.1f}",
            f"{run['over_fixed']:.3f}", f"{run['over_baseline']:.3f}", f"{run['switches']:,}",
        )  # fmt: skip
    weeks = table("mean JCT, by week of submission", *(str(at + 1) for at in range(len(_weeks(found, "fixed")))))
    for name, run in found["runs"].items():
        weeks.add_row(Text(run["label"]), *(duration(mean) for mean in _weeks(found, name)))
    verdict = Below(found["verdict"], style="bold")
    return Group(made, weeks, *_copies(found), *(Below(line) for line in _lines(found)), Text(""), verdict)


def _copies(found: Mapping[str, Any]) -> list[RenderableType]:
    """Means of all copies, and from which to which they are, where there are several."""
    if "means" not in found:
        return []
    made = table(
        f"means of {found['copies']} copies", "JCT\nmean", "times as good\nas Fixed", "times as good as\nthe site's",
        "P99 over\nthe site's",
    )  # fmt: skip
    for run in found["means"].values():
        p99 = run["p99_of_baseline_by_copy"]
        made.add_row(
            Text(run["label"]), duration(run["jct_s"]),
            _range(run["over_fixed"], run["over_fixed_by_copy"]),
            _range(run["over_baseline"], run["over_baseline_by_copy"]),
            _range(sum(p99) / len(p99), p99),
        )  # fmt: skip
    return [made]


def _range(mean: float, by_copy: Sequence[float]) -> str:
    return f"{mean:.3f}\n{min(by_copy):.3f} to {max(by_copy):.3f}"


def _weeks(found: Mapping[str, Any], name: str) -> list[float]:
    weeks: list[float] = found["runs"][name]["jct_s"]["weeks"]
    return weeks


def _days(found: Mapping[str, Any]) -> list[str]:
    """How bad days were in truth, and what the guard did, which can't know the truth."""
    days = found["days"]
    if not days:
        return ["The site's policy was active on all days"]
    worst, back = max(day["true"] for day in days), sum(day["handed_back"] for day in days)
    false = _false_alarms(days)
    return [
        f"The guard judged {counted(len(days), 'day')}{_on_copies(found)} with another policy than the site's. By true"
        " run times, jobs spent up to"
        f" {worst:.3f} times as long in the system as in the mean of the shadows. {counted(found['bad_days'], 'day')}"
        " with arrivals exceeded 1.05 times every shadow",
        f"The guard predicts run times of unfinished jobs. It handed the jobs back {counted(back, 'time')}"
        + (f", of which {counted(false, 'false alarm')}: by true run times the day was not too long" if false else ""),
    ]


def _on_copies(found: Mapping[str, Any]) -> str:
    return f" of {found['copies']} copies" if "means" in found else ""


def _by_copy(found: Mapping[str, Any], name: str, key: str) -> list[Any]:
    """A number of each copy of a run."""
    return list(found["means"][name][f"{key}_by_copy"]) if "means" in found else [found["runs"][name][key]]


def _broken(found: Mapping[str, Any]) -> list[str]:
    """Each limit that the autopilot broke; of several copies the worst number."""
    limits, several = found["limits"], "means" in found
    p99 = _by_copy(found, "autopilot", "p99_of_baseline")
    fair = [each for each in _by_copy(found, "autopilot", "fairness_of_baseline") if each is not None]
    most, least = limits["worst_p99"], limits["worst_fairness"]
    over, under = sum(each > most for each in p99), sum(each < least for each in fair)
    broken = []
    if over:
        where, up_to = (f" on {over} of {len(p99)} copies", "up to ") if several else ("", "")
        shown = f"P99 of the JCT was {up_to}{max(p99):.3g} times the site's; at most {most:g} is allowed"
        broken.append(f"worst_p99{where}: {shown}")
    if under:
        where, down_to = (f" on {under} of {len(fair)} copies", "down to ") if several else ("", "")
        shown = f"the share of jobs with rho <= 1 was {down_to}{min(fair):.3g} times the site's"
        broken.append(f"worst_fairness{where}: {shown}; at least {least:g} is required")
    return [f"THE AUTOPILOT BROKE {each}" for each in broken]


def _decisions(decisions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each, but one for all days in a row on which a policy stayed for the same kind of reason."""
    for kept, days in groupby(decisions, _kind):
        of = list(days)
        first, last = of[0], of[-1]
        if kept and len(of) > 1:
            at_last = "" if first["why"] == last["why"] else "on the last of these days: "
            stayed = f"{last['answer']}: {last['policy']}: {at_last}{last['why']}"
            yield f"day {first['day']:.4g} to {last['day']:.4g}: {stayed}"
            continue
        for each in of:
            change = f"{each['before']} -> {each['policy']}" if each["policy"] != each["before"] else each["before"]
            yield f"day {each['day']:.4g}: {each['answer']}: {change}: {each['why']}"


def _kind(decision: Mapping[str, Any]) -> tuple[str, ...]:
    """The kind of a day on which a policy stayed: the reason without policies and numbers; (): it changed."""
    if decision["policy"] != decision["before"]:
        return ()
    words = [word for word in decision["why"].split() if word.isalpha()]
    return decision["answer"], decision["policy"], " ".join(words)


def _fixed(found: Mapping[str, Any]) -> str:
    """What Fixed is, and why it is no choice where too little was known."""
    if found["fixed_unknown"]:
        later = "begin later (--since), or read a longer history"
        return f"Fixed is the site's policy, because {found['fixed_unknown']}; {later}"
    return f"Fixed, the first choice on the weeks before: {found['runs']['fixed']['policy']}"


def _false_alarms(days: Sequence[Mapping[str, Any]]) -> int:
    """Hand-backs for a day that in truth was not too long, and the day before neither."""
    judged = [day for day in days if day["handed_back"] and "time in the system" in day["why"]]
    bad = {(day.get("copy", 0), day["at"]) for day in days if day["worse"]}
    return sum(not {(day.get("copy", 0), day["at"] - before) for before in (0, DAY_MS)} & bad for day in judged)


def _lines(found: Mapping[str, Any]) -> list[str]:
    lines = [
        f"{counted(found['jobs'], 'job')}; a decision every {found['every_h']:g} h;"
        f" the site's policy: {found['baseline']}",
        _fixed(found),
        "Only 'Optimal' knows what comes.",
    ]
    if found["limits"]["objective"] != "jct":
        lines.append("Policies are chosen by the share of jobs with rho <= 1; 'times as good' is by mean JCT")
    if "means" in found:
        lines.append("The range over copies is no confidence interval: all have the same weeks")
        lines.append("The days listed are those of the first copy")
    lines += [*_decisions(found["decisions"]), *_days(found)]
    if found["undecided"]:
        return [*lines, *(f"aim '{LABELS[name]}': can't tell, because {found['undecided']}" for name in found["aims"])]
    lines += _broken(found)
    kept = _by_copy(found, "fixed", "within_limits")
    if not all(kept):
        where = f" on {kept.count(False)} of {len(kept)} copies" if "means" in found else " on these weeks"
        lines.append(f"Fixed breaks the limits{where}, so the aims that are relative to it don't apply")
    return [*lines, *(f"aim '{LABELS[name]}': {AIMS[reached]}" for name, reached in found["aims"].items())]
