"""The runs of sweeps as a folder of Parquet files: one per batch, whole or not there, never changed.

A run is known by a key of its content, so that what was run is found again by whoever looks, on whatever machine.
Files may come from others: they are read by their declared columns, within bounds, and nothing in them is executed.
"""

from __future__ import annotations

import os
import secrets
import shlex
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from shunter import caches
from shunter.errors import RunError
from shunter.safe_files import most_loaded, parquet_bytes, parquet_frame, text_of
from shunter.sweeps.work import METRICS, Row
from shunter.toml_forms import Form, filled

if TYPE_CHECKING:
    import polars as pl

FORMAT = 1
MARK = "store.toml"  # by which we know our folders
RUNS = "runs"  # the folder of the Parquet files
TRIES = 3  # to read files that another process joins
SETTLED_FILES = 200  # more files than this are joined when a sweep is done ...
SETTLED_BYTES = 2**26  # ... unless they are large
LONGEST_TEXT = 100_000  # bytes of one cell: an error, settings
NAMES = (
    *("key", "trace", "window", "cluster", "network", "overhead", "checkpointable"),
    *("input", "varies", "policy", "settings"),
    *("version", "digest", "host", "error", "command"),
)
ADDED = {"checkpointable": ""}  # columns that stores of earlier versions lack, and what their runs had
WHOLE = ("seed", "base_seed")
MEASURED = "measures."  # what the columns of third parties' measures begin with
NUMBERS = ("load", "begun", "seconds", "cpu_s", "engine_s", *METRICS)
TEXT, INTEGER, NUMBER = "text", "integer", "number"  # kinds of columns ...
TEXTS, INTEGERS, SERIES = "texts", "integers", "series"  # ... and of those with a list in each row
COLUMNS = MappingProxyType(  # of sweeps, with their kinds
    dict.fromkeys(NAMES, TEXT) | dict.fromkeys(WHOLE, INTEGER) | dict.fromkeys(NUMBERS, NUMBER)
)


class StoreForm(Form):
    """What ``store.toml`` says."""

    format: int
    version: str


def schema(columns: Mapping[str, str]) -> dict[str, Any]:
    """The types of columns, by their kinds."""
    import polars as pl

    kinds = {TEXT: pl.String(), INTEGER: pl.Int64(), NUMBER: pl.Float64()}
    kinds |= {TEXTS: pl.List(pl.String()), INTEGERS: pl.List(pl.Int64()), SERIES: pl.List(pl.Float64())}
    return {name: kinds[kind] for name, kind in columns.items()}


@dataclass(frozen=True)
class Store:
    """A folder of runs."""

    folder: Path
    columns: Mapping[str, str] = field(default_factory=lambda: COLUMNS)  # their kinds; there may be measures besides
    temporary: bool = False  # it is gone when the command ends

    @classmethod
    def open(cls, folder: Path, version: str, columns: Mapping[str, str] = COLUMNS, temporary: bool = False) -> Store:
        """The store in a folder, made if it is not there."""
        store = cls(folder, columns, temporary)
        if (folder / MARK).exists():
            store.check()
            (folder / RUNS).mkdir(exist_ok=True)
            return store
        if folder.exists() and next(folder.iterdir(), None) is not None:
            raise RunError(f"{folder}: is not empty and no store of runs; choose another folder")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            store._put(folder / MARK, f'format = {FORMAT}\nversion = "{version}"\n'.encode())
            (folder / RUNS).mkdir(exist_ok=True)
        except OSError as error:
            raise RunError(f"{folder}: can't be written: {error.strerror}; choose another folder") from None
        return store

    @classmethod
    def existing(cls, folder: Path) -> Store:
        """The store in a folder, which must be there."""
        if not (folder / MARK).is_file():
            raise RunError(f"{folder}: is no store of runs; 'shunter sweep FILE --out DIR' makes one")
        store = cls(folder)
        store.check()
        return store

    def check(self) -> None:
        """Refuse a store that this version can't read."""
        mark = self.folder / MARK
        form = filled(StoreForm, text_of(mark, RunError), str(mark), RunError)
        if form.format != FORMAT:
            raise RunError(
                f"{mark}: format {form.format} was written by shunter {form.version}; this one reads format {FORMAT}."
                " Use that version, or choose another folder"
            )

    @cached_property
    def written_by_others(self) -> str:
        """Why others could add runs to this store; "": they can't."""
        return caches.why_replaceable((self.folder / RUNS).absolute())

    def files(self) -> list[Path]:
        """The files of runs."""
        try:
            return sorted(path for path in (self.folder / RUNS).iterdir() if path.name.endswith(".parquet"))
        except OSError as error:
            raise RunError(f"{self.folder}: can't be read: {error.strerror}; check the path") from None

    def add(self, rows: Sequence[Row]) -> None:
        """Keep runs; after this they are on disk."""
        frame = frame_of(rows, self.columns)
        name = f"{time.time():.0f}-{secrets.token_hex(8)}.parquet"
        self._put(self.folder / RUNS / name, parquet_bytes(frame))

    def _put(self, path: Path, content: bytes) -> None:
        """Write a file so that it is whole and on disk, or not there."""
        part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        try:
            with part.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise RunError(
                f"{self.folder}: can't be written: {why}; all runs before are kept: make room, and the same command"
                " goes on"
            ) from None
        finally:
            part.unlink(missing_ok=True)

    def read(self, columns: Sequence[str] = (), keys: Collection[str] | None = None) -> pl.DataFrame:
        """Every run once, or those with these keys; one that failed and was run again counts as it was last."""
        import polars as pl

        wanted = [*dict.fromkeys(("key", "error", "begun", *columns))] if columns else []
        frames = self._frames(wanted, keys)
        if not frames:
            known = schema(self.columns)
            return pl.DataFrame(schema={name: known[name] for name in wanted or known})
        found = pl.concat(frames, how="diagonal")
        # of a key, a run that succeeded comes before one that failed, and a later one before an earlier one
        order = found.sort([pl.col("error").is_not_null(), pl.col("begun")], descending=[False, True], nulls_last=True)
        return order.unique("key", keep="first", maintain_order=True).sort(
            "begun", maintain_order=True, nulls_last=True
        )

    def _frames(self, wanted: Sequence[str], keys: Collection[str] | None) -> list[pl.DataFrame]:
        """All files; another process may join them meanwhile, and then there are other ones."""
        import polars as pl

        for _ in range(TRIES):
            try:
                frames, size = [], 0.0
                for path in self.files():
                    found = self._file(path, wanted)
                    frames.append(found if keys is None else found.filter(pl.col("key").is_in(list(keys))))
                    size += frames[-1].estimated_size()
                    if size > most_loaded():
                        raise RunError(
                            f"{self.folder}: holds more than {most_loaded() / 2**20:,.0f} MiB, the most that is read on"
                            " this machine; split the sweep"
                        )
                return frames
            except FileNotFoundError as error:
                missing = error
        raise RunError(f"{missing.filename or self.folder}: can't be read; check the folder, and try again")

    def _file(self, path: Path, wanted: Sequence[str]) -> pl.DataFrame:
        """One file; a column that is not there, or of another type, is a reason to refuse it."""
        import polars as pl

        try:
            found = parquet_frame(path, most_loaded(), wanted)
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise RunError(f"{path}: is no file of runs ({reason}); remove it, and its runs are made again") from None
        known = schema(self.columns)
        lacking = [name for name in ADDED if name in (wanted or known) and name not in found.columns]
        found = found.with_columns(pl.lit(ADDED[name]).alias(name) for name in lacking)
        for name, kind in found.schema.items():
            right = known.get(name, pl.Float64() if name.startswith(MEASURED) else None)
            if kind != right:
                raise RunError(f"{path}: column '{name}' is {kind}, must be {right or 'absent'}; remove the file")
        if missing := [name for name in (wanted or known) if name not in found.columns]:
            raise RunError(f"{path}: column '{missing[0]}' is missing; remove the file")
        texts = found.select(pl.col(pl.String).str.len_bytes().max().fill_null(0))
        if texts.width and texts.max_horizontal()[0] > LONGEST_TEXT:
            raise RunError(f"{path}: has a text of more than {LONGEST_TEXT:,} bytes; remove the file")
        return found.with_columns(_harmless_commands(found["command"])) if "command" in found.columns else found

    def settle(self) -> None:
        """Join many small files into one; whoever is stopped in between leaves some runs twice, which are read once."""
        files = self.files()
        if len(files) <= SETTLED_FILES or sum(path.stat().st_size for path in files) > SETTLED_BYTES:
            return
        joined = self.read()
        name = f"joined-{secrets.token_hex(8)}.parquet"
        self._put(self.folder / RUNS / name, parquet_bytes(joined))
        for path in files:
            path.unlink(missing_ok=True)


def _harmless_commands(commands: pl.Series) -> pl.Series:
    """Commands that people may paste; what is none of ours is left out."""
    import polars as pl

    return pl.Series("command", [text if text and _is_ours(text) else None for text in commands], dtype=pl.String)


def _is_ours(command: str) -> bool:
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return words[:2] in (["shunter", "simulate"], ["shunter", "reproduce"]) and shlex.join(words) == command


def frame_of(rows: Iterable[Row], columns: Mapping[str, str] = COLUMNS) -> pl.DataFrame:
    """Rows as a table with all columns of a store."""
    import polars as pl

    rows = list(rows)
    added = sorted({name for row in rows for name in row if name.startswith(MEASURED)})
    kinds = schema(columns) | dict.fromkeys(added, pl.Float64())
    lists = {name: kind.inner for name, kind in kinds.items() if isinstance(kind, pl.List)}

    def cell(row: Row, name: str) -> Any:
        value = row.get(name)
        return pl.Series(value, dtype=lists[name]) if name in lists and value is not None else value

    return pl.DataFrame({name: [cell(row, name) for row in rows] for name in kinds}, schema=kinds)
