"""Runs that were ticked, as one report; a sweep, as its page."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from shunter import experiment, run_folder
from shunter.comparison import of_repeats
from shunter.errors import RunError
from shunter.report.html.page import Contents, Section, table
from shunter.report.html.report import contents
from shunter.report.terminal.tables import duration, share
from shunter.run_folder import Run
from shunter.safe_files import text_of
from shunter.sweeps import page as sweep_page
from shunter.sweeps.store import Store
from shunter.web.folder import COMPARISON_MARK, RUN_MARK, RunsFolder

MOST_RUNS = 12  # beside each other in one report ...
MOST_REPEATS = 100  # ... and with all their repeats
ONLY_LISTED = (
    "Not every policy has all repeats: the section All repeats lists them, and the rest of the report compares"
)
SYNTHETIC = "synthetic"
LONGEST_NAMES = 200  # characters of the names in a message
T = TypeVar("T")


@dataclass(frozen=True)
class TickedRun:
    """A run with its name in the folder."""

    name: str
    run: Run

    @property
    def repeat(self) -> int:
        """Which one of several it is."""
        return int(self.run.experiment.repeat)

    @property
    def policy(self) -> str:
        """The policy's text."""
        return str(self.run.summary["policy"])


def report_of(folder: RunsFolder, names: Sequence[str]) -> Contents:
    """The report of these runs, comparisons or this sweep."""
    paths = [folder.path(name) for name in dict.fromkeys(names)]
    if not paths:
        raise RunError("nothing is ticked; tick one run or more")
    kinds = {folder.kind(path) for path in paths}
    if "" in kinds:
        raise RunError("there is no such run any longer; load the list again")
    if "sweep" in kinds:
        if len(paths) > 1:
            raise RunError("a sweep has a report of its own; tick it alone")
        return sweep_page.contents(Store.existing(paths[0]).read(), store=paths[0].name)
    if len(paths) == 1 and kinds == {"comparison"}:
        return _of_comparison(folder, paths[0])
    return _of_folders(folder, [each for path in paths for each in _folders(folder, path)])


def so_far(folder: RunsFolder, name: str) -> Contents:
    """The report of those runs of a comparison under way that have ended."""
    paths = folder.unfinished(name)
    if not paths:
        raise RunError("no run of it has ended yet, or all have; load the list again")
    return _of_folders(folder, paths)


def _of_comparison(folder: RunsFolder, path: Path) -> Contents:
    """The report of ``shunter compare --report``; if runs were deleted from it, that of those that are left."""
    paths = _folders(folder, path)
    first = _first_repeats(paths)
    runs = [run_folder.load(each) for each in _few(first)]
    try:
        kept = json.loads(text_of(path / COMPARISON_MARK, RunError))
        rows, about = kept["policies"], kept["intervals"]["about"]
        if [run.summary["policy"] for run in runs] == [row["policy"] for row in rows]:
            return contents(runs, rows, about=str(about))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise RunError(f"{folder.name(path)}: {COMPARISON_MARK} is damaged ({error}); run it again") from None
    return _of_folders(folder, paths)


def _of_folders(folder: RunsFolder, paths: Sequence[Path]) -> Contents:
    """The report of these runs; repeats of a policy are one, with the means of all that every policy has."""
    if len(paths) > MOST_REPEATS:
        raise RunError(f"a report shows up to {MOST_REPEATS} runs and repeats, got {len(paths)}; tick fewer")
    ticked = [TickedRun(folder.name(path), run_folder.load(path)) for path in dict.fromkeys(paths)]
    with run_folder.fitting(", ".join(one.name for one in ticked)[:LONGEST_NAMES]):
        return _of_ticked(ticked)


def _of_ticked(ticked: Sequence[TickedRun]) -> Contents:
    groups = _named_apart(_few(_grouped(ticked)))
    if len(ticked) == 1:
        return contents([ticked[0].run])
    numbers = _common(groups)
    chosen = [[next(one for one in group if one.repeat == number) for number in numbers] for group in groups]
    first = chosen[0][0].run
    if len(groups) == 1 and len(numbers) == 1:
        found = contents([first])
    else:
        redrawn = first.experiment.trace.path.startswith(SYNTHETIC)
        compared = of_repeats([[one.run for one in group] for group in chosen], redrawn)
        found = contents(compared.runs, compared.policies, about=compared.about_intervals)
    return found if sum(map(len, chosen)) == len(ticked) else _with_all(found, ticked, numbers)


def _grouped(ticked: Sequence[TickedRun]) -> list[list[TickedRun]]:
    """The repeats of each policy of each comparison; other runs are alone."""
    found: dict[tuple[str, str, str], list[TickedRun]] = {}
    for one in ticked:
        stem, mark, number = one.name.rpartition("-repeat")
        key = (stem, one.policy, "") if mark and number.isdecimal() else (one.name, one.policy, "alone")
        found.setdefault(key, []).append(one)
    return [sorted(group, key=lambda one: one.repeat) for group in found.values()]


def _common(groups: Sequence[Sequence[TickedRun]]) -> list[int]:
    """The repeats that all have, from the first on: only these are of the same jobs."""
    common = sorted(set.intersection(*({one.repeat for one in group} for group in groups)))
    if not common:
        raise RunError("the runs are of different repeats, which are other jobs; tick runs of the same repeat")
    return common if common == list(range(len(common))) else common[:1]


def _with_all(found: Contents, ticked: Sequence[TickedRun], numbers: Sequence[int]) -> Contents:
    """The report with a table of every run, also those that have no counterpart."""
    heads = ("run", "policy", "repeat", "mean JCT", "p99 of JCT", "mean wait", "GPUs in use")
    rows = [
        [
            one.name, one.policy, str(one.repeat), duration(row["jct_s"]["mean"]), duration(row["jct_s"]["p99"]),
            duration(row["wait_s"]["mean"]), share(row["utilization"]),
        ]
        for one in ticked
        for row in [one.run.summary]
    ]  # fmt: skip
    section = Section("All repeats", [table("Every run that is ticked", heads, rows, words={1})])
    which = f"repeat {numbers[0]}" if len(numbers) == 1 else f"the repeats 0 to {numbers[-1]}"
    lead = f"{found.lead} {ONLY_LISTED} {which}."
    return dataclasses.replace(found, lead=lead, sections=[*found.sections[:2], section, *found.sections[2:]])


def _few(found: Sequence[T]) -> Sequence[T]:
    if not found:
        raise RunError("the first repeats are not there; tick single runs")
    if len(found) > MOST_RUNS:
        raise RunError(f"a report shows up to {MOST_RUNS} runs, got {len(found)}; tick fewer")
    return found


def _first_repeats(paths: Sequence[Path]) -> list[Path]:
    return [path for path in paths if not experiment.read(path / RUN_MARK).repeat]


def _folders(folder: RunsFolder, path: Path) -> list[Path]:
    """A run, or all of a comparison, in the order of their numbers."""
    if folder.kind(path) == "run":
        return [path]
    found = [each.parent for each in path.glob(f"*/{RUN_MARK}") if folder.kind(each.parent) == "run"]
    return sorted(found, key=lambda each: (_number(each.name), each.name))


def _number(name: str) -> int:
    first = name.partition("-")[0]
    return int(first) if first.isdecimal() and len(first) < 10 else 0


def single_runs(folder: RunsFolder, names: Sequence[str]) -> list[str]:
    """The names of the runs that a report is about, each of which can be stepped through."""
    return [folder.name(each) for name in dict.fromkeys(names) for each in _folders(folder, folder.path(name))]


def _named_apart(groups: Sequence[list[TickedRun]]) -> list[list[TickedRun]]:
    """Runs whose policies have different names: where two are equal, the folder is part of the name."""
    labels = [group[0].policy for group in groups]
    return [
        group if labels.count(group[0].policy) == 1 else [_renamed(one, group[0]) for one in group] for group in groups
    ]


def _renamed(one: TickedRun, first: TickedRun) -> TickedRun:
    policy = f"{one.policy} ({first.name})"
    return TickedRun(one.name, dataclasses.replace(one.run, summary={**one.run.summary, "policy": policy}))
