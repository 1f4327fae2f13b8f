"""Tables of measurements: losses by iteration, iteration times, peaks of resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shunter.errors import ModelError, TraceError
from shunter.predictors.progress.curves import BINS, LossCurve
from shunter.traces.delimited import read_table
from shunter.traces.source import Source
from shunter.traces.table import Table
from shunter.world import F64

MOST_FILES = 1000  # of a folder
ENDINGS = (".csv", ".csv.gz", ".tsv")
LOSSES = ("loss", "metric")


@dataclass(frozen=True, eq=False)
class Measurements:
    """Columns of numbers, one row per measurement, and the columns that are no numbers, as text."""

    name: str
    numbers: Mapping[str, F64]
    texts: Mapping[str, Sequence[str]]

    def __len__(self) -> int:
        return len(next(iter((*self.numbers.values(), *self.texts.values())), ()))


def read_measurements(path: Path, required: Sequence[str] = (), given: Mapping[str, str] | None = None) -> Measurements:
    """The tables in a file, or in the files of a folder that have the columns; ``given``: our name -> the file's."""
    named = dict(given or {})
    columns = [named.get(name, name) for name in required]
    files = _files(path)
    tables = [_table(file, columns) for file in files if len(files) == 1 or Source(file).has(*columns)]
    if not tables:
        raise ModelError(f"{path}: no file has the columns {', '.join(columns)}; name another folder, or use --columns")
    ours = {theirs: name for name, theirs in named.items()}
    parts = [_columns(table, ours) for table in tables]
    shared = [name for name in parts[0] if all(name in part for part in parts)]
    numeric = {name for name in shared if all(isinstance(part[name], np.ndarray) for part in parts)}
    if lost := [name for name in required if name not in numeric]:
        raise ModelError(f"{path}: column '{named.get(lost[0], lost[0])}' must have numbers; correct it")
    return Measurements(
        path.name,
        {name: np.concatenate([part[name] for part in parts]) for name in shared if name in numeric},
        {name: [str(each) for part in parts for each in part[name]] for name in shared if name not in numeric},
    )


def columns_given(text: str | None) -> dict[str, str]:
    """``ours=theirs,...`` as a table."""
    found: dict[str, str] = {}
    for pair in filter(None, (text or "").split(",")):
        ours, equals, theirs = (part.strip() for part in pair.partition("="))
        if not (equals and ours and theirs):
            raise ModelError(f"--columns must be OURS=THEIRS,..., got '{pair}'")
        found[ours] = theirs
    return found


def read_loss_curves(path: Path) -> list[LossCurve]:
    """The loss curves in a folder, or in one file: columns ``iteration``, and ``loss`` or ``metric``.

    A metric that rises over the run, such as an accuracy, becomes its distance to 1 or 100. The family is the part of
    the file's name before the first ``_`` or ``-``.
    """
    found = []
    for file in _files(path):
        source = Source(file)
        column = next((name for name in LOSSES if source.has("iteration", name)), None)
        if column is None and file == path:
            raise _lacks(source, ["iteration", "loss"])
        if column is not None:
            found.append(_curve(file, _table(file, ["iteration", column]), column))
    if not found:
        raise ModelError(f"{path}: no file has the columns iteration and loss; name a folder with loss curves")
    return found


def read_losses(path: Path) -> dict[str, tuple[float, ...]]:
    """Loss curves for a simulation, by name: columns ``iteration``, ``loss`` and, of several in one file, ``curve``.

    Iterations must rise within a curve. The last one is the end of the declared work; losses come in equal steps
    up to it. Without the column ``curve`` there is one, with the name of the file.
    """
    table = _table(path, ["iteration", "loss"])
    iteration, losses = table.number("iteration"), table.number("loss")
    names = table.text("curve").fill_null("").to_list() if table.has("curve") else [table.source.name] * len(table)
    problems, bad = table.problems, table.problems.bad()
    for wrong, must, got in (
        (np.array([not name for name in names]), "curve must name a curve", lambda _: "got none; fill it in"),
        (np.isnan(iteration) & ~bad, "iteration must be a number above 0", lambda _: "got none; fill it in"),
        (iteration <= 0, "iteration must be a number above 0", lambda row: f"got {iteration[row]:g}; count from 1"),
        (np.isnan(losses) & ~bad, "loss must be a number of 0 or more", lambda _: "got none; fill it in"),
        (losses < 0, "loss must be a number of 0 or more", lambda row: f"got {losses[row]:g}; correct it"),
        (
            _falls(names, iteration),
            "iteration must rise within a curve",
            lambda row: f"got {iteration[row]:g} of '{names[row]}' after as many or more; sort the rows",
        ),
    ):
        problems.add(wrong, must, got)
    try:
        problems.raise_if_any()
    except TraceError as error:
        raise ModelError(str(error)) from None
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    steps = np.arange(1, BINS + 1) / BINS
    return {
        name: tuple(np.interp(steps * iteration[mine[-1]], iteration[mine], losses[mine]).tolist())
        for name, mine in rows.items()
    }


def _lacks(source: Source, required: Sequence[str]) -> ModelError:
    """The error for a table without some of its columns."""
    missing = [f"'{name}'" for name in required if not source.has(name)]
    which = f"column {missing[0]} is" if len(missing) == 1 else f"columns {' and '.join(missing)} are"
    has = ", ".join(f"'{name}'" for name in source.header)
    return ModelError(f"{source.path} line 1: {which} missing; it has {has}")


def _falls(names: Sequence[str], iteration: F64) -> NDArray[np.bool_]:
    """Which rows are not after the last one of the same curve."""
    last: dict[str, float] = {}
    found = np.zeros(len(names), np.bool_)
    for row, (name, at) in enumerate(zip(names, iteration.tolist(), strict=True)):
        found[row] = at <= last.get(name, -np.inf)
        last[name] = at
    return found


def _curve(file: Path, table: Table, column: str) -> LossCurve:
    iteration, losses = table.number("iteration"), table.number(column)
    empty = np.isnan(iteration) | np.isnan(losses)
    table.problems.add(empty & ~table.problems.bad(), "an iteration needs a loss", lambda _: "got none; fill it in")
    table.problems.raise_if_any()
    if column == "metric" and losses[-1] > losses[0]:
        losses = (1.0 if losses.max() <= 1 else 100.0) - losses
    name = table.source.name
    family = name.replace("-", "_").partition("_")[0]
    try:
        return LossCurve(name, family, iteration, losses)
    except ModelError as error:
        raise ModelError(f"{file}: {error}") from None


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(each for each in path.iterdir() if each.name.endswith(ENDINGS) and each.is_file())
    if not found or len(found) > MOST_FILES:
        raise ModelError(
            f"{path}: must have 1 to {MOST_FILES:,} files ending in {', '.join(ENDINGS)}, has {len(found)}"
        )
    return found


def _table(file: Path, required: Sequence[str]) -> Table:
    source = Source(file, "measurements")
    try:
        if not source.has(*required):
            raise _lacks(source, required)
        return read_table(source, required)
    except TraceError as error:
        said = str(error).replace("name another format, or leave --format out to detect it", "correct it")
        raise ModelError(said.replace("no job; add a line per job", "no measurement; add a line for each")) from None


def _columns(table: Table, ours: Mapping[str, str]) -> dict[str, F64 | list[str]]:
    """Each column as numbers where all of it is numbers, else as text."""
    found: dict[str, F64 | list[str]] = {}
    for field in table.frame.columns:
        texts = table.text(field)
        numbers = table.numbers(texts)
        name = ours.get(field, field)
        found[name] = numbers if np.isfinite(numbers).all() else [each or "" for each in texts.to_list()]
    table.problems.raise_if_any()
    return found
