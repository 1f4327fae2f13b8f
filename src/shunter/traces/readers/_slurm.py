"""How Slurm writes resources and lengths of time, for the readers of its logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shunter.world import F64

if TYPE_CHECKING:
    import polars as pl

GIB_PER_UNIT = {"K": 2.0**-20, "M": 2.0**-10, "G": 1.0, "T": 2.0**10, "P": 2.0**20}


def amount(tres: pl.Series, name: str) -> F64:
    """How much of a resource a list such as ``cpu=8,mem=64G,gres/gpu=2`` names; NaN if none."""
    import polars as pl

    found: F64 = tres.str.extract(rf"(?:^|,){name}=([0-9.]+)").cast(pl.Float64, strict=False).to_numpy()
    return found


def memory_gib(tres: pl.Series) -> F64:
    """The memory in such a list; without a unit it is in MiB."""
    import polars as pl

    unit = tres.str.extract(r"(?:^|,)mem=[0-9.]+([KMGTP])").fill_null("M")
    scale = unit.replace_strict(GIB_PER_UNIT, return_dtype=pl.Float64).to_numpy()
    found: F64 = amount(tres, "mem") * scale
    return found


def gpus(tres: pl.Series) -> tuple[F64, pl.Series]:
    """GPUs in such a list, 0 if none, and their type where it names exactly one."""
    import polars as pl

    typed = tres.str.extract_all(r"gres/gpu:[^=,]+=[0-9]+")
    frame = pl.DataFrame({"row": np.arange(len(tres)), "typed": typed}).explode("typed").drop_nulls()
    parts = frame.select(
        "row",
        kind=pl.col("typed").str.extract(r":([^=]+)="),
        count=pl.col("typed").str.extract(r"=([0-9]+)").cast(pl.Float64, strict=False),
    )
    sums = parts.group_by("row").agg(
        pl.col("count").sum(), pl.col("kind").n_unique().alias("kinds"), pl.col("kind").first()
    )
    joined = pl.DataFrame({"row": np.arange(len(tres))}).join(sums, on="row", how="left", maintain_order="left")
    total = np.fmax(np.nan_to_num(amount(tres, "gres/gpu")), joined["count"].fill_null(0).to_numpy())
    kind = joined.select(pl.when(pl.col("kinds") == 1).then("kind"))["kind"]
    return total, kind


def seconds(texts: pl.Series) -> F64:
    """``[D-]HH:MM:SS`` as seconds; NaN where it is a word such as UNLIMITED or Partition_Limit."""
    import polars as pl

    parts = texts.str.extract_groups(r"^(?:([0-9]+)-)?(?:([0-9]+):)?([0-9]+):([0-9]+)(?:\.[0-9]+)?$")
    days, hours, minutes, rest = (parts.struct.field(str(at)).cast(pl.Float64, strict=False) for at in (1, 2, 3, 4))
    total = days.fill_null(0) * 86400 + hours.fill_null(0) * 3600 + minutes * 60 + rest
    found: F64 = total.to_numpy()
    return found
