"""Why one job missed its deadline, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shunter.report.terminal.tables import duration

COUNTS = {2: "two", 3: "three", 4: "four", 5: "five"}


def why_missed(about: Mapping[str, Any]) -> str | None:
    """Why a job of a run missed its deadline; None if it has none, met it or has not ended, and for older runs.

    A cause counts by itself if the job would have been in time without it.
    """
    if about.get("deadline") is None or about.get("work") is None:
        return None
    if about["state"] == "failed":
        return "It failed, so it missed its deadline."
    if about["state"] != "done" or about["jct"] <= about["deadline"]:
        return None
    late = about["jct"] - about["deadline"]
    text = f"It missed its deadline by {duration(late)}"
    if about["alone"] > about["deadline"]:
        return f"{text}: it could not have met it alone, as it takes {duration(about['alone'])} at its fastest."
    causes = {what: time for what, time in _causes(about).items() if time > 0}
    enough = [what for what, time in causes.items() if time >= late]
    named = sorted(enough or causes, key=lambda what: -causes[what])
    parts = ", ".join(f"it {what} ({duration(causes[what])})" for what in named)
    return f"{text}: {_how(len(named), bool(enough))}{parts}."


def _how(causes: int, enough: bool) -> str:
    """Whether several causes are each enough, or only add up."""
    if causes < 2:
        return ""
    if enough:
        return f"{'either' if causes == 2 else 'each'} alone would have been enough: "
    return f"{COUNTS[causes]} things together made it that late: "


def _causes(about: Mapping[str, Any]) -> dict[str, float]:
    """What made a job end later, and by how many seconds."""
    queued = about["wait"] - about["lost"]
    return {
        "was held for another job": about["jct"] - queued - about["run"],
        "waited for GPUs": queued,
        "ran on fewer or slower GPUs than it could have": about["run"] - about["lost"] - about["alone"],
        "lost time to stops and changes of GPUs": about["lost"],
        "had more work than was declared": about["work"] - (about["declared"] or about["work"]),
    }
