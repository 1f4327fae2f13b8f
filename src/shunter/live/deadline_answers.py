"""Whether a job will be done in time, and what it would take: for people and for scripts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from shunter.live.answers import assumed, chance_words, moment
from shunter.live.end_forecast import WANTED, EndForecast
from shunter.report.terminal.tables import Below, duration, table
from shunter.texts import counted


@dataclass(frozen=True)
class Remedy:
    """A change, and the chance to be done in time with it."""

    kind: str  # gpus, partition
    value: str
    chance: float = 0.0
    p90: int | None = None  # ms since 1970

    def with_end(self, end: EndForecast, by: int) -> Remedy:
        """The same, with what is forecast of it."""
        return replace(self, chance=end.chance(by) or 0.0, p90=end.at(WANTED))

    @property
    def words(self) -> str:
        """What to change."""
        if self.kind == "gpus":
            return counted(self.value, "GPU")
        return f"partition {self.value}"


@dataclass(frozen=True)
class DeadlineAnswer:
    """All that is said about a job and a time."""

    job: str  # in words
    by: int  # ms since 1970
    end: EndForecast
    waits: bool = True  # it has not started
    remedies: tuple[Remedy, ...] = ()
    tried: tuple[str, ...] = ()  # what was changed to find remedies, in words
    remarks: tuple[str, ...] = ()  # what to know of where it comes from, in sentences
    unknown: tuple[str, ...] = ()  # what can't be said, each as "..., because ..."


def deadline_view(found: DeadlineAnswer) -> RenderableType:
    """The chance, when it ends, and what it would take."""
    end, chance = found.end, found.end.chance(found.by)
    if chance is None:
        return Group(
            Text(f"{found.job}."),
            *(Text(f" Can't tell when it is done, because {why}.") for why in end.because),
            *(Below(text) for text in found.remarks),
        )
    rows = table("it is done", "by", "from now")
    for name, level in (("with 50 % chance", 0.5), ("with 90 % chance", WANTED)):
        time = end.at(level)
        never = "not before its limit" if end.cut_off > 1 - level else "not within a year"
        rows.add_row(name, *((never, "") if time is None else (moment(time), duration((time - end.now) / 1000))))
    return Group(
        Text(f"{found.job}: done by {moment(found.by)} with {chance_words(chance)} chance."),
        rows,
        *(Below(text) for text in _helps(found, chance)),
        *(Text(f" Can't tell {text}.") for text in found.unknown),
        *(Below(text) for text in found.remarks),
        *assumed(end.assumptions),
    )


def _helps(found: DeadlineAnswer, chance: float) -> list[str]:
    latest = found.end.start_by(found.by) if found.waits else None
    lines = _cut_off(found.end)
    if latest is not None:
        late = " That is past: no start is early enough." if latest < found.end.now else ""
        lines.append(f"For 90 % it has to start by {moment(latest)}.{late}")
    lines += [f"With {each.words} the chance is {chance_words(each.chance)}." for each in found.remedies]
    if found.tried and chance < WANTED and not any(each.chance >= WANTED for each in found.remedies):
        lines.append(f"Nothing that was tried ({', '.join(found.tried)}) gives it a chance of 90 %.")
    return lines


def _cut_off(end: EndForecast) -> list[str]:
    """That its limit ends it too early."""
    if not end.cut_off:
        return []
    sure = "Its" if end.cut_off == 1 else f"With {chance_words(end.cut_off)} chance its"
    needs = duration(float(np.quantile(end.runs, WANTED, method="higher")) / 1000)
    return [f"{sure} limit ends it after {duration(end.limit / 1000)}, before its work is done: that takes {needs}."]


def deadline_record(found: DeadlineAnswer) -> dict[str, Any]:
    """The same for scripts: times in seconds since 1970."""
    end = found.end
    latest = end.start_by(found.by) if found.waits else None
    return {
        "job": found.job,
        "now": end.now / 1000,
        "by": found.by / 1000,
        "chance": end.chance(found.by),
        "p50": _seconds(end.at(0.5)),
        "p90": _seconds(end.at(WANTED)),
        "calibrated": end.past is not None,
        "start_by": _seconds(latest),
        "cut_off_by_limit": end.cut_off,
        "remedies": [
            {"kind": each.kind, "value": each.value, "chance": each.chance, "p90": _seconds(each.p90)}
            for each in found.remedies
        ],
        "remarks": list(found.remarks),
        "unknown": list(found.unknown),
        "because": list(end.because),
        "assumptions": list(end.assumptions),
    }


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
