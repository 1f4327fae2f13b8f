"""A run as a folder: what it holds, written whole or not at all, and read back."""

from __future__ import annotations

import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter import __version__, caches, experiment
from shunter.cluster import Cluster
from shunter.compiled import sources_digest
from shunter.errors import RunError
from shunter.experiment import Experiment
from shunter.safe_files import check_output, disk_errors, most_loaded, parquet_frame, text_of, write_parquet
from shunter.texts import unrepeated
from shunter.world import I64

if TYPE_CHECKING:
    import polars as pl

MARKS = ("experiment.toml", "comparison.json", "reproduction.json")  # files by which we know our folders
LIBRARIES = (  # that may change numbers
    *("numpy", "numba", "llvmlite", "polars", "pyarrow"),
    *("lightgbm", "interpret-core", "scikit-learn", "scipy"),
)
EVENTS = ("time", "kind", "job", "a", "b")


@dataclass(frozen=True, eq=False)
class Run:
    """One run as its folder keeps it: what was run, and its results.

    Examples:
        >>> import shunter, tempfile
        >>> result = shunter.simulate("synthetic:jobs=20,gpus=8", "1x8", "fifo")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = shunter.load_run(result.save(f"{folder}/fifo"))
        >>> run.experiment.policy, run.summary["digest"] == result.digest
        ('fifo', True)
    """

    experiment: Experiment
    summary: dict[str, Any]  # as in summary.json
    cluster: Cluster
    jobs: pl.DataFrame  # one row per job, times in seconds
    series: pl.DataFrame  # running and waiting jobs, busy GPUs and fragmentation at every change
    events: I64  # (rows, 5) the event log, ms
    decisions: pl.DataFrame | None = None  # why jobs waited, if that was kept: see ``shunter.reasons``
    timers: pl.DataFrame | None = None  # how the policy's timers changed, if it tunes some
    pairs: pl.DataFrame | None = None  # which jobs shared GPUs with which, if the policy reports it

    @property
    def versions(self) -> dict[str, str]:
        """The versions of everything that may change numbers."""
        return {"shunter": self.experiment.version, **self.experiment.versions}

    def __repr__(self) -> str:
        trace = Path(self.experiment.trace.path).name
        return f"Run(policy={self.summary['policy']!r}, trace={trace!r}, cluster={self.cluster.name!r})"


def save(run: Run, folder: Path, force: bool = False) -> None:
    """Write a run; an older one there is replaced only with ``force``."""
    import polars as pl

    with new_folder(folder, force) as made:
        (made / "experiment.toml").write_text(experiment.to_toml(run.experiment), encoding="utf-8")
        (made / "summary.json").write_text(json.dumps(run.summary, indent=2) + "\n")
        (made / "digest").write_text(run.summary["digest"] + "\n")
        write_parquet(run.jobs, made / "jobs.parquet")
        write_parquet(run.series, made / "series.parquet")
        write_parquet(pl.DataFrame(run.events, schema=EVENTS, orient="row"), made / "events.parquet")
        for name, table in (("decisions", run.decisions), ("timers", run.timers), ("pairs", run.pairs)):
            if table is not None:
                write_parquet(table, made / f"{name}.parquet")


def load(folder: str | Path) -> Run:
    """Read a run that ``Result.save`` or ``shunter simulate --out`` wrote.

    Examples:
        >>> import shunter, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = shunter.simulate("synthetic:jobs=20,gpus=8", "1x8", "fifo").save(f"{folder}/fifo")
        ...     print(shunter.load_run(path).jobs.height)
        20
    """
    import polars as pl

    from shunter.clusters.reading import parse

    folder = Path(folder)
    if not (folder / "experiment.toml").is_file():
        inside = sorted(path.parent.name for path in folder.glob("*/experiment.toml"))
        hint = f"name a run in it, such as {folder / inside[0]}" if inside else "shunter simulate --out makes one"
        raise RunError(f"{folder} is not the folder of a run; {hint}")
    record = experiment.read(folder / "experiment.toml")
    try:
        summary = json.loads(text_of(folder / "summary.json", RunError), object_pairs_hook=unrepeated)
        jobs, series, events = (_table(folder / f"{name}.parquet") for name in ("jobs", "series", "events"))
        if not isinstance(summary, dict) or not {"policy", "digest"} <= set(summary) or "job_id" not in jobs.columns:
            raise ValueError("summary.json or jobs.parquet is not that of a run")
        log = np.ascontiguousarray(events.select(EVENTS).to_numpy(), np.int64)
        optional = [folder / f"{name}.parquet" for name in ("decisions", "timers", "pairs")]
        kept = [_table(path) if path.exists() else None for path in optional]
    except (OSError, ValueError, RecursionError, pl.exceptions.PolarsError) as error:
        reason = str(error).partition("\n")[0]
        raise RunError(f"{folder}: the run is not whole ({reason}); make it again with shunter simulate") from None
    machines = parse(record.cluster.definition, f"cluster '{record.cluster.text}' of {folder}")
    return Run(record, summary, machines, jobs, series, log, *kept)


@contextmanager
def fitting(name: str | Path) -> Iterator[None]:
    """Around what is made of a run that was loaded: others may have written fields that are none of a run."""
    import polars as pl

    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, pl.exceptions.PolarsError) as error:
        reason = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
        raise RunError(f"{name}: its files are not those of a run ({reason}); make it again") from error


@cache
def _libraries() -> dict[str, str]:
    found = {}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):  # an extra that is not installed
            found[name] = version(name)
    machine = {"python": platform.python_version(), "platform": platform.platform()}
    return {**found, **machine, "sources": sources_digest()}


def libraries() -> dict[str, str]:
    """The versions of everything besides shunter that may change numbers, and a hash of shunter's sources."""
    return dict(_libraries())


def _table(path: Path) -> pl.DataFrame:
    return parquet_frame(path, most_loaded())


def versions() -> dict[str, str]:
    """The versions of everything that may change numbers."""
    return {"shunter": __version__, **libraries()}


def check_folder(folder: Path, force: bool) -> None:
    """Refuse to write where something is; with ``force`` only what shunter wrote may be replaced."""
    check_output(folder, RunError)
    if not folder.exists() or _is_empty(folder):
        return
    if not force:
        raise RunError(
            f"{folder}: exists already; choose another folder, or replace it with --force (in Python: force=True)"
        )
    if not any((folder / name).is_file() for name in MARKS):
        raise RunError(f"{folder}: is not a run of shunter, so --force does not replace it; choose another folder")


def _is_empty(folder: Path) -> bool:
    """Whether it is a folder without anything in it, and no link: a new folder can take its place."""
    return folder.is_dir() and not folder.is_symlink() and next(folder.iterdir(), None) is None


@contextmanager
def new_folder(folder: Path, force: bool = False) -> Iterator[Path]:
    """A folder to write into, which appears under its name only when it is complete."""
    check_folder(folder, force)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise RunError(f"{folder}: can't be written: {error.strerror}; choose another folder") from None
    try:
        with _held(made) as (fixed, number):
            with disk_errors():
                yield fixed
            os.chmod(number, 0o777 & ~_umask())
            if not os.path.samestat(made.lstat(), os.fstat(number)):
                raise RunError(f"{folder}: someone has replaced {made}; choose a folder that others can't write to")
            _put_in_place(made, folder, force)
    except OSError as error:
        raise RunError(f"{folder}: can't be written: {error.strerror}; choose another folder") from None
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def _held(made: Path) -> Iterator[tuple[Path, int]]:
    """A new folder under a name that leads to it whatever others do to its entry; and its number for this process."""
    number = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(number).st_uid != os.geteuid():
            raise RunError(f"{made}: someone has replaced it; choose a folder that others can't write to")
        by_number = Path(f"/proc/{os.getpid()}/fd/{number}")
        yield (by_number if caches.replaceable(made.parent) and by_number.is_dir() else made), number
    finally:
        os.close(number)


def _put_in_place(made: Path, folder: Path, force: bool) -> None:
    """Rename a finished folder to its name; what was there goes away afterwards, unless it came meanwhile."""
    if force and folder.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
        folder.rename(old / "replaced")
        made.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    else:
        made.rename(folder)  # fails where anything but an empty folder is


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
