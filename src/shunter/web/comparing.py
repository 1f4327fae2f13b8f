"""Runs that were ticked, as one report; a sweep, as its page."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from shunter import run_folder
from shunter.comparison import of_runs
from shunter.errors import RunError
from shunter.report.html.page import Contents
from shunter.report.html.report import contents
from shunter.run_folder import Run
from shunter.sweeps import page as sweep_page
from shunter.sweeps.store import Store
from shunter.web.folder import RunsFolder

MOST_RUNS = 12  # in one report


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
    return _report(named_apart(folder, [run for path in paths for run in _runs(folder, path)]))


def so_far(folder: RunsFolder, name: str) -> Contents:
    """The report of those runs of a comparison under way that have ended."""
    paths = [path for path in folder.unfinished(name) if not _is_later_repeat(path)]
    if not paths:
        raise RunError("no run of it has ended yet, or all have; load the list again")
    return _report(named_apart(folder, [(path.name, run_folder.load(path)) for path in paths]))


def _report(runs: Sequence[tuple[str, Run]]) -> Contents:
    if len(runs) > MOST_RUNS:
        raise RunError(f"a report shows up to {MOST_RUNS} runs, got {len(runs)}; tick fewer")
    if len(runs) == 1:
        return contents([runs[0][1]])
    compared = of_runs([run for _, run in runs])
    return contents(compared.runs, compared.policies, about=compared.about_intervals)


def _runs(folder: RunsFolder, path: Path) -> list[tuple[str, Run]]:
    """A run, or all of a comparison, with their names; of repeats the first."""
    return [(folder.name(each), run_folder.load(each)) for each in _folders(folder, path)]


def _folders(folder: RunsFolder, path: Path) -> list[Path]:
    if folder.kind(path) == "run":
        return [path]
    found = sorted(each.parent for each in path.glob("*/experiment.toml") if folder.kind(each.parent) == "run")
    return [each for each in found if not _is_later_repeat(each)]


def single_runs(folder: RunsFolder, names: Sequence[str]) -> list[str]:
    """The names of the runs that a report shows, each of which can be stepped through."""
    return [folder.name(each) for name in dict.fromkeys(names) for each in _folders(folder, folder.path(name))]


def _is_later_repeat(path: Path) -> bool:
    return "-repeat" in path.name and not path.name.endswith("-repeat0")


def leaves_repeats_out(folder: RunsFolder, names: Sequence[str]) -> bool:
    """Whether a comparison among these has repeats that its report does not show."""
    inside = (each.parent for name in names for each in folder.path(name).glob("*/experiment.toml"))
    return any(_is_later_repeat(path) for path in inside)


def named_apart(folder: RunsFolder, runs: Sequence[tuple[str, Run]]) -> list[tuple[str, Run]]:
    """Runs whose policies have different names: where two are equal, the folder is part of the name."""
    labels = [run.summary["policy"] for _, run in runs]
    return [
        (name, run)
        if labels.count(run.summary["policy"]) == 1
        else (name, dataclasses.replace(run, summary={**run.summary, "policy": f"{run.summary['policy']} ({name})"}))
        for name, run in runs
    ]
