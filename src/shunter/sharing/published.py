"""Lucid's published tables in our form, for comparison: they are read where the data folder has them, never shipped."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from shunter.errors import SharingError
from shunter.sharing.profiles import Profiles, matrix
from shunter.world import I64

COLUMNS = {"steps_per_s": "speed", "gpu_util": "gpu_util", "mem_util": "gmem_util", "mem_mib": "gmem"}
KEYS = ("model", "dataset", "batchsize", "amp")
ACCURACY = 0.941  # of the tree as the paper reports it


def read(data: Path) -> tuple[Profiles, I64]:
    """Profiles of an RTX 3090, and the scores that the authors gave by hand."""
    solo, pairs = (_rows(data / "colocation" / name) for name in ("single.csv", "pairs.csv"))
    names = tuple(_name(row) for row in solo)
    columns = {ours: np.array([float(row[theirs]) for row in solo]) for ours, theirs in COLUMNS.items()}
    found = []
    for row in pairs:
        one, two = _name(row, "1"), _name(row, "2")
        found += [(one, two, float(row["speed1"]), 1.0), (two, one, float(row["speed2"]), 1.0)]
    models = tuple(row["model"].lower() for row in solo)
    about = {"gpu": "NVIDIA GeForce RTX 3090", "by": "the authors of Lucid"}
    profiles = Profiles(names, models, **columns, pair=matrix(names, found), spread=np.zeros(len(names)), about=about)
    return profiles, np.array([int(row["label"]) for row in solo])


def _name(row: dict[str, str], which: str = "") -> str:
    model, dataset, batch, amp = (row[key + which] for key in KEYS)
    return f"{model}-{dataset}-b{batch}{'-amp' if amp == '1' else ''}".lower()


def _rows(file: Path) -> list[dict[str, str]]:
    try:
        with file.open(newline="") as lines:
            return list(csv.DictReader(lines))
    except OSError:
        raise SharingError(f"{file}: is not there; it is a file of Lucid's artifact") from None
