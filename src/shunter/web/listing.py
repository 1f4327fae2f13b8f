"""The list of runs, comparisons and sweeps: what each is of, read once while it stays as it is."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

from shunter import experiment
from shunter.errors import InputError, RunError
from shunter.safe_files import text_of
from shunter.sweeps.store import Store
from shunter.web.folder import COMPARISON_MARK, MARKS, RUN_MARK, RunsFolder

SUMMARY = "summary.json"


@dataclass(frozen=True)
class RunEntry:
    """One run, comparison or sweep."""

    name: str
    kind: str
    made: float  # seconds since 1970
    trace: str = ""
    cluster: str = ""
    policies: tuple[str, ...] = ()
    jobs: int = 0
    mean_jct_s: float | None = None  # of a comparison, the shortest
    p99_jct_s: float | None = None  # of the same policy
    problem: str = ""  # why it can't be read
    within: str = ""  # the comparison that it is part of

    @property
    def date(self) -> str:
        """When it was made, in UTC."""
        return f"{datetime.fromtimestamp(self.made, UTC):%Y-%m-%d %H:%M}"


@dataclass(frozen=True)
class RunFilter:
    """Which entries are shown; texts are parts of what they are compared with."""

    trace: str = ""
    cluster: str = ""
    policy: str = ""
    since: str = ""  # a date
    until: str = ""

    def keeps(self, entry: RunEntry) -> bool:
        """Whether an entry is shown."""
        return (
            self.trace.lower() in entry.trace.lower()
            and self.cluster.lower() in entry.cluster.lower()
            and (not self.policy or any(self.policy.lower() in policy.lower() for policy in entry.policies))
            and (not self.since or entry.date >= self.since)
            and (not self.until or entry.date[: len(self.until)] <= self.until)
        )


@dataclass
class Listing:
    """The entries of a folder."""

    folder: RunsFolder
    _known: dict[tuple[str, int], RunEntry] = field(default_factory=dict)

    def entries(self, wanted: RunFilter | None = None) -> list[RunEntry]:
        """Those that a filter keeps, the newest first; runs of a comparison follow it."""
        found: list[RunEntry] = []
        known: dict[tuple[str, int], RunEntry] = {}
        for path, kind in self.folder.found():
            entry = self._entry(path, kind, known)
            if entry is not None and (wanted is None or wanted.keeps(entry)):
                found.append(entry)
        self._known = known  # what is gone is forgotten
        made = {entry.name: entry.made for entry in found}
        return sorted(
            found, key=lambda one: (-made.get(one.within, one.made), one.within or one.name, bool(one.within), one.name)
        )

    def _entry(self, path: Path, kind: str, known: dict[tuple[str, int], RunEntry]) -> RunEntry | None:
        mark = next(path / name for name, each in MARKS.items() if each == kind)
        try:
            changed = (path if kind == "sweep" else mark).stat().st_mtime_ns
        except OSError:
            return None  # it went away just now
        key = (str(path), changed)
        known[key] = self._known.get(key) or _read(self.folder, path, kind, changed / 1e9)
        return known[key]


def _read(folder: RunsFolder, path: Path, kind: str, made: float) -> RunEntry:
    within = (
        folder.name(path.parent) if path.parent != folder.root and (path.parent / COMPARISON_MARK).is_file() else ""
    )
    name = folder.name(path)
    reading = {"run": _run, "comparison": _comparison, "sweep": _sweep}[kind]
    try:
        return RunEntry(name, kind, made, within=within, **reading(path))
    except (
        InputError,
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
        OverflowError,
    ) as error:
        why = str(error).replace(f"{folder.root}/", "")[:300]
        problem = why if isinstance(error, InputError) else f"can't be read ({why}); make the {kind} again"
        return RunEntry(name, kind, made, within=within, problem=problem)


def _json(path: Path) -> Any:
    return json.loads(text_of(path, RunError))


def _run(path: Path) -> dict[str, Any]:
    record, summary = experiment.read(path / RUN_MARK), _json(path / SUMMARY)
    return {
        "trace": trace_name(record.trace.path),
        "cluster": record.cluster.text,
        "policies": (str(summary["policy"]),),
        **_times([summary]),
    }


def _comparison(path: Path) -> dict[str, Any]:
    found = _json(path / COMPARISON_MARK)
    policies = tuple(str(row["policy"]) for row in found["policies"])
    about = {"trace": str(found["trace"]), "cluster": str(found["cluster"])}
    return {**about, "policies": policies, **_times(found["policies"])}


def _times(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    times = min((_finite(row["jct_s"]["mean"]), _finite(row["jct_s"]["p99"])) for row in rows)
    return {"jobs": int(rows[0]["jobs"]), "mean_jct_s": times[0], "p99_jct_s": times[1]}


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("a time is not finite")
    return number


def _sweep(path: Path) -> dict[str, Any]:
    runs = Store.existing(path).read(["trace", "cluster", "policy"])
    return {
        "trace": _some(runs["trace"].unique().to_list()),
        "cluster": _some(runs["cluster"].unique().to_list()),
        "policies": tuple(sorted(str(each) for each in runs["policy"].unique())),
        "jobs": runs.height,
    }


def _some(names: Iterable[Any]) -> str:
    return ", ".join(sorted(trace_name(str(name)) for name in names))


def trace_name(path: str) -> str:
    """A trace as people call it: a file's name, or the text of a synthetic one."""
    return path if path.startswith("synthetic") else PurePath(path).name
