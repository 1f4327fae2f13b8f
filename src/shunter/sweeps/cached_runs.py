"""Runs that a command keeps for itself in the user's cache: stopped or repeated, it does only what is missing."""

from __future__ import annotations

import hashlib
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from shunter import caches
from shunter.errors import RunError
from shunter.sweeps.engines import Opener
from shunter.sweeps.places import code_version
from shunter.sweeps.running import OnProgress, Progress, run_all
from shunter.sweeps.store import MARK, RUNS, Store
from shunter.sweeps.work import RunLike, Runner

if TYPE_CHECKING:
    import polars as pl

VARIABLE = "SHUNTER_RUNS"  # the environment variable that names another place than the user's cache
OURS = re.compile(r"\w+-[0-9a-f]{16}")  # the name of a store
MONTH = 30 * 86_400  # what was run longer ago is run again


@contextmanager
def cached_store(room: str, columns: Mapping[str, str], uses: Sequence[str] = ()) -> Iterator[Store]:
    """The store of a room of this package, such as ``reproduce``, for the present state of all sources.

    ``uses``: other rooms that decide what its rows say, of those that the version does not count.

    Where no folder is private, it is a temporary one: runs that others could have put there would be believed.
    """
    name = f"{room}-{_sources(room, *uses)}"
    with tempfile.TemporaryDirectory(prefix="shunter-") as temporary:
        try:
            parent = caches.private(caches.user_folder("runs", VARIABLE))
            _forget_old(parent)
            store = Store.open(caches.private(parent / name), code_version(), columns)
        except caches.NotPrivateError:
            store = Store.open(Path(temporary) / name, code_version(), columns, temporary=True)
        yield store


def _sources(*rooms: str) -> str:
    """A hash of everything that decides what rows say: the version, and the sources that it does not count."""
    package, digest = Path(__file__).parents[1], hashlib.blake2b(code_version().encode(), digest_size=8)
    others = (source for room in rooms for source in (package / room).rglob("*.py"))
    for source in sorted((*(package / "sweeps").glob("*.py"), *others)):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _forget_old(parent: Path) -> None:
    """Delete runs of more than a month ago, and stores that are empty then; nothing else that may lie there."""
    for store in parent.iterdir():
        if not OURS.fullmatch(store.name) or not (store / MARK).is_file():
            continue
        with suppress(OSError):  # another process may do the same; a folder with something else in it stays
            for file in (store / RUNS).glob("*.parquet"):
                if time.time() - file.stat().st_mtime > MONTH:
                    file.unlink()
            if time.time() - (store / MARK).stat().st_mtime > MONTH:
                (store / RUNS).rmdir()
                (store / MARK).unlink()
                store.rmdir()


class _FailedError(Exception):
    """A run failed."""


def rows_of(
    runs: Mapping[str, RunLike],
    runner: Runner,
    store: Store,
    open_engine: Opener,
    on_progress: OnProgress = lambda progress: None,
    columns: Sequence[str] = (),
) -> pl.DataFrame:
    """The rows of runs, in their order; those that the store lacks are run. The first run that fails ends it."""
    import polars as pl

    def watched(progress: Progress) -> None:
        on_progress(progress)
        if progress.failed:
            raise _FailedError

    with suppress(_FailedError):
        run_all(runs, runner, store, open_engine, retry_failed=True, on_progress=watched)
    found = store.read(columns, runs)
    for key, error in found.filter(pl.col("error").is_not_null()).select("key", "error").iter_rows():
        raise RunError(f"policy {runs[key].policy}: {error}")
    return pl.DataFrame({"key": list(runs)}).join(found, "key", how="left", maintain_order="left")


def counted(show: Callable[[int, int], None], before: int, total: int) -> OnProgress:
    """Shows how many runs are done, of several lots with ``total`` runs of which ``before`` came before."""
    return lambda progress: show(before + progress.found + progress.done, total)
