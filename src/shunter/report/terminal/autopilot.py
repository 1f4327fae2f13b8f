"""An autopilot beside policies that stay, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from shunter.report.terminal.tables import duration, table
from shunter.texts import counted

AIMS = {True: "yes", False: "NO", None: "does not apply"}


def autopilot_view(found: Mapping[str, Any]) -> RenderableType:
    """A study (see ``PilotStudy.as_dict``)."""
    made = table(
        "policy", "JCT\nmean", "JCT\np99", "times as good\nas Fixed", "times as good as\nthe site's", "switches"
    )
    for run in found["runs"].values():
        jct = run["jct_s"]
        made.add_row(
            Text(run["label"]), duration(jct["mean"]), duration(jct["p99"]), f"{run['over_fixed']:.3f}",
            f"{run['over_baseline']:.3f}", f"{run['switches']:,}",
        )  # fmt: skip
    weeks = table("mean JCT, by week of submission", *(str(at + 1) for at in range(len(_weeks(found, "fixed")))))
    for name, run in found["runs"].items():
        weeks.add_row(Text(run["label"]), *(duration(mean) for mean in _weeks(found, name)))
    return Group(made, weeks, *_copies(found), *(Text(f" {line}") for line in _lines(found)))


def _copies(found: Mapping[str, Any]) -> list[RenderableType]:
    """Means of all copies, where there are several."""
    if "means" not in found:
        return []
    made = table(f"means of {found['copies']} copies", "JCT\nmean", "times as good\nas Fixed", "from", "to")
    for run in found["means"].values():
        by_copy = run["over_fixed_by_copy"]
        numbers = (run["over_fixed"], min(by_copy), max(by_copy))
        made.add_row(Text(run["label"]), duration(run["jct_s"]), *(f"{number:.3f}" for number in numbers))
    return [made]


def _weeks(found: Mapping[str, Any], name: str) -> list[float]:
    weeks: list[float] = found["runs"][name]["jct_s"]["weeks"]
    return weeks


def _days(found: Mapping[str, Any]) -> list[str]:
    """How bad days were in truth, and what the guard did, which can't know the truth."""
    days = found["days"]
    if not days:
        return ["The site's policy was active on all days"]
    worst, back = max(day["true"] for day in days), sum(day["handed_back"] for day in days)
    return [
        f"The guard judged {counted(len(days), 'day')} with another policy than the site's, the last after the last"
        " arrival. By true run times, jobs spent up to"
        f" {worst:.3f} times as long in the system as in the mean of the shadows. {counted(found['bad_days'], 'day')}"
        " with arrivals exceeded 1.05 times every shadow",
        f"The guard predicts run times of unfinished jobs. It handed the jobs back {counted(back, 'time')}",
    ]


def _broken(pilot: Mapping[str, Any], limits: Mapping[str, Any]) -> list[str]:
    """Each limit that the autopilot broke."""
    p99, fair = pilot["p99_of_baseline"], pilot["fairness_of_baseline"]
    broken = []
    if p99 > (most := limits["worst_p99"]):
        broken.append(f"worst_p99: P99 of the JCT was {p99:.3g} times the site's; at most {most:g} is allowed")
    if fair is not None and fair < (least := limits["worst_fairness"]):
        shown = f"the share of jobs with rho <= 1 was {fair:.3g} times the site's; at least {least:g} is allowed"
        broken.append(f"worst_fairness: {shown}")
    return [f"THE AUTOPILOT BROKE {each}" for each in broken]


def _lines(found: Mapping[str, Any]) -> list[str]:
    lines = [
        f"{counted(found['jobs'], 'job')}; a decision every {found['every_h']:g} h;"
        f" the site's policy: {found['baseline']}",
        f"Fixed, found on the weeks before: {found['runs']['fixed']['policy']}",
        "Only 'Optimal' knows what comes.",
    ]
    for each in found["decisions"]:
        change = f"{each['before']} -> {each['policy']}" if each["policy"] != each["before"] else each["before"]
        lines.append(f"  day {each['day']:.4g}: {each['answer']}: {change}: {each['why']}")
    lines += _days(found)
    if found["undecided"]:
        return [*lines, *(f"aim '{name}': can't tell, because {found['undecided']}" for name in found["aims"])]
    lines += _broken(found["runs"]["autopilot"], found["limits"])
    if not found["runs"]["fixed"]["within_limits"]:
        lines.append("Fixed breaks the limits on these weeks, so that the aims that are relative to it don't apply")
    return [*lines, *(f"aim '{name}': {AIMS[reached]}" for name, reached in found["aims"].items())]
