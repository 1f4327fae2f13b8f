"""Numbers and spans of time as people and programs write them: 12,5 and 1.234,5 and 01:30:00 and 2 days 03:04:05."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shunter.world import F64

if TYPE_CHECKING:
    import polars as pl

THOUSANDS = r"^[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?$"
COMMA = r"^[+-]?[0-9][0-9.]*,[0-9]+$|^[+-]?[0-9]+,[0-9]+$"
CLOCK = r"^(?:([0-9]{1,6})-)?([0-9]{1,6}):([0-5]?[0-9]):([0-5]?[0-9](?:\.[0-9]+)?)$"  # 26:03:04 and Slurm's 1-02:03:04
DAYS = r"^([0-9]{1,6}) days?,? ?(?:\+?([0-9]{1,6}):([0-5]?[0-9]):([0-5]?[0-9](?:\.[0-9]+)?))?$"  # of Python and pandas
WORDS = (  # 1h30m, 2 hours 5 min, and ISO 8601's P1DT2H
    r"(?i)^P?(?:([0-9]{1,6}(?:\.[0-9]+)?) ?d(?:ays?)?)?[ ,T]*(?:([0-9]{1,6}(?:\.[0-9]+)?) ?h(?:(?:ou)?rs?)?)?[ ,]*"
    r"(?:([0-9]{1,6}(?:\.[0-9]+)?) ?m(?:in(?:ute)?s?)?)?[ ,]*(?:([0-9]{1,9}(?:\.[0-9]+)?) ?s(?:ec(?:ond)?s?)?)?$"
)
SWITCHES = {"true": "1", "yes": "1", "false": "0", "no": "0"}
TWO_PARTS = r"^[0-9]+:[0-9][0-9](\.[0-9]+)?$"


def numbers(texts: pl.Series, separator: str = ",") -> tuple[pl.Series, str]:
    """Numbers, null where a text is not one, and what was assumed about their commas.

    Between fields that are separated by commas, a comma in a number groups thousands; elsewhere it begins the decimals.
    """
    import polars as pl

    found = texts.cast(pl.Float64, strict=False)
    odd = texts.filter(found.is_null() & texts.is_not_null())
    if not odd.len() or not odd.str.contains(",", literal=True).any():
        return found, ""
    groups = separator == "," or bool(odd.str.count_matches(",", literal=True).max() > 1)  # type: ignore[operator]
    pattern, dropped = (THOUSANDS, ",") if groups else (COMMA, ".")
    plain = texts.str.replace_all(dropped, "", literal=True).str.replace(",", ".", literal=True)
    fits = texts.str.contains(pattern).fill_null(False)
    remark = "a comma in a number groups thousands" if groups else "a comma in a number begins the decimals"
    read = plain.zip_with(fits, pl.repeat(None, len(texts), dtype=pl.String, eager=True)).cast(pl.Float64, strict=False)
    return found.fill_null(read), remark if fits.any() else ""


def switches(texts: pl.Series) -> pl.Series:
    """Words for yes and no as 1 and 0; any other text as it is."""
    words = texts.str.to_lowercase().replace(SWITCHES)
    return texts.zip_with(~words.is_in(["0", "1"]).fill_null(False), words)


def spans(texts: pl.Series) -> F64:
    """Spans of time as seconds, NaN where a text is none that is known."""
    import polars as pl

    seconds = np.full(len(texts), np.nan)
    for pattern in (CLOCK, DAYS, WORDS):
        fits = texts.str.contains(pattern).fill_null(False) & texts.str.contains(r"[0-9]").fill_null(False)
        if fits.any():
            parts = texts.filter(fits).str.extract_groups(pattern).struct.unnest()
            days, hours, minutes, rest = (
                parts.to_series(at).cast(pl.Float64, strict=False).fill_null(0).to_numpy() for at in range(4)
            )
            seconds[fits.to_numpy()] = ((days * 24 + hours) * 60 + minutes) * 60 + rest
    return seconds
