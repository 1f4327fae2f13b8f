"""Runs that were ticked, as one report; a sweep, as its page."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from shunter import experiment, run_folder
from shunter.comparison import of_runs
from shunter.errors import RunError
from shunter.report.html.page import Contents
from shunter.report.html.report import contents
from shunter.run_folder import Run
from shunter.safe_files import text_of
from shunter.sweeps import page as sweep_page
from shunter.sweeps.store import Store
from shunter.web.folder import COMPARISON_MARK, RUN_MARK, RunsFolder

MOST_RUNS = 12  # in one report
FIRST_REPEATS = "This is the first repeat of each policy alone; tick a comparison alone for all of its repeats."


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
    inside = {path: _folders(folder, path) for path in paths}
    shown = [each for path, some in inside.items() for each in (some if some == [path] else _first_repeats(some))]
    return _of_folders(folder, shown, all_of_them=len(shown) == sum(map(len, inside.values())))


def so_far(folder: RunsFolder, name: str) -> Contents:
    """The report of those runs of a comparison under way that have ended."""
    paths = folder.unfinished(name)
    if not paths:
        raise RunError("no run of it has ended yet, or all have; load the list again")
    first = _first_repeats(paths)
    return _of_folders(folder, first, all_of_them=len(first) == len(paths))


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
    return _of_folders(folder, first, all_of_them=len(first) == len(paths))


def _of_folders(folder: RunsFolder, paths: Sequence[Path], all_of_them: bool) -> Contents:
    """The report of these runs; it says if they are not all that were ticked."""
    runs = named_apart(folder, [(folder.name(path), run_folder.load(path)) for path in _few(paths)])
    if len(runs) == 1:
        found = contents([runs[0][1]])
    else:
        compared = of_runs([run for _, run in runs])
        found = contents(compared.runs, compared.policies, about=compared.about_intervals)
    return found if all_of_them else dataclasses.replace(found, lead=f"{found.lead} {FIRST_REPEATS}")


def _few(paths: Sequence[Path]) -> Sequence[Path]:
    if not paths:
        raise RunError("the first repeats are not there; tick single runs")
    if len(paths) > MOST_RUNS:
        raise RunError(f"a report shows up to {MOST_RUNS} runs, got {len(paths)}; tick fewer")
    return paths


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


def named_apart(folder: RunsFolder, runs: Sequence[tuple[str, Run]]) -> list[tuple[str, Run]]:
    """Runs whose policies have different names: where two are equal, the folder is part of the name."""
    labels = [run.summary["policy"] for _, run in runs]
    return [
        (name, run)
        if labels.count(run.summary["policy"]) == 1
        else (name, dataclasses.replace(run, summary={**run.summary, "policy": f"{run.summary['policy']} ({name})"}))
        for name, run in runs
    ]
