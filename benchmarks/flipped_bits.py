"""What becomes of a Parquet trace with one bit flipped: ``python -m benchmarks.flipped_bits``; for decision 39."""

from __future__ import annotations

import io
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from shunter.seeding import rng
from shunter.setup import read_trace
from shunter.traces.readers import parquet

TRIES = 1500


def by_pyarrow(data: bytes) -> pl.DataFrame:
    """As traces are read: with checksums."""
    table = pq.read_table(io.BytesIO(data), page_checksum_verification=True)
    table.validate(full=True)
    found = pl.from_arrow(table)
    assert isinstance(found, pl.DataFrame)
    return found


def by_polars(data: bytes) -> pl.DataFrame:
    """As polars reads."""
    return pl.read_parquet(io.BytesIO(data))


def outcome(data: bytes, read: Callable[[bytes], pl.DataFrame], whole: pl.DataFrame) -> str:
    """What a file with a flipped bit gives."""
    try:
        return "same" if read(data).equals(whole) else "other, in silence"
    except Exception:
        return "refused"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return "panic"


def outcomes(data: bytes, read: Callable[[bytes], pl.DataFrame], whole: pl.DataFrame) -> Counter[str]:
    """The same of many, each with another bit flipped."""
    draw = rng(0, "bits")
    found: Counter[str] = Counter()
    for _ in range(TRIES):
        flipped = bytearray(data)
        flipped[draw.integers(4, len(data))] ^= 1 << draw.integers(8)
        found[outcome(bytes(flipped), read, whole)] += 1
    return found


def main() -> None:
    """Print a line for each way."""
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder) / "pyarrow.parquet", Path(folder) / "polars.parquet"
        parquet.write(read_trace("synthetic:jobs=3000,gpus=64"), ours)
        whole = pl.read_parquet(ours)
        whole.write_parquet(theirs)
        for path, read in ((ours, by_pyarrow), (ours, by_polars), (theirs, by_polars)):
            found = outcomes(path.read_bytes(), read, whole)
            print(f"written by {path.stem}, read {read.__name__}: {dict(sorted(found.items()))}")  # noqa: T201


if __name__ == "__main__":
    main()
