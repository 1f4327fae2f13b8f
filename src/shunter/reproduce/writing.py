"""How reproductions are shown and kept: numbers with their intervals, and a folder with runs, figures and a page."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from shunter.report.bootstrap import Estimate
from shunter.report.html.page import Cell
from shunter.report.terminal.tables import duration, number
from shunter.run_folder import new_folder
from shunter.safe_files import write_parquet
from shunter.texts import UNIT_S

if TYPE_CHECKING:
    import polars as pl

STAND_IN = (
    "The public traces were not found: these are made-up stand-ins. What comes out is not to be compared with what is"
    " printed."
)


class Reproduction(Protocol):
    """What came of a published experiment, ready to be kept."""

    @property
    def table(self) -> pl.DataFrame:
        """One row per run."""

    def summary(self) -> dict[str, Any]:
        """All of it for scripts."""


def percent(part: float) -> str:
    """A change in percent, with its sign."""
    if not math.isfinite(part):
        return "–"
    return f"{round(100 * part):+,} %".replace("-", "−").replace("+0 ", "0 ")


def interval(found: Estimate, write: Callable[[float], str] = duration) -> str:
    """The interval in words, times in the unit of the value; nothing where there is none."""
    if not math.isfinite(found.low):
        return ""
    if write is duration:
        unit = duration(found.value).rpartition(" ")[2]
        return f"{number(found.low / UNIT_S[unit])}–{number(found.high / UNIT_S[unit])} {unit}"
    return f"{write(found.low).removesuffix(' %')} to {write(found.high)}"


def cell(found: Estimate, write: Callable[[float], str] = duration, best: bool = False) -> Cell:
    """A number of a table on a page, with its interval below."""
    return Cell(write(found.value), best, interval(found, write))


def record(found: Estimate) -> dict[str, float | None]:
    """A number and its interval for scripts."""
    return {name: value if math.isfinite(value) else None for name, value in found._asdict().items()}


def save(out: Path, force: bool, runs: pl.DataFrame, summary: dict[str, Any], page: str) -> None:
    """Write a reproduction as a folder, all of it or nothing."""
    with new_folder(out, force) as made:
        write_parquet(runs, made / "results.parquet")
        (made / "reproduction.json").write_text(json.dumps(summary, indent=2) + "\n")
        (made / "page.html").write_text(page, encoding="utf-8")
