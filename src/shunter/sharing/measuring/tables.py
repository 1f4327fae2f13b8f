"""The tables in a folder: a row for every measurement, written when it was made."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from .errors import MeasuringError
from .loops import Configuration

SOLO = ("name", "kind", "batch", "amp", "at", "seconds", "steps_per_s", "gpu_util", "mem_util", "mem_mib", "cpu_util",
        "power_w", "sm_util", "sm_occupancy", "dram_util")  # fmt: skip
PAIRS = ("name1", "name2", "at", "seconds", "steps_per_s1", "steps_per_s2", "gpu_util", "mem_util", "power_w",
         "sm_util", "sm_occupancy", "dram_util")  # fmt: skip
SAME = ("gpu", "driver", "torch", "mps")  # what must not change within a folder


class Tables:
    """The rows in a folder, those of an earlier run first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.alone = {row["name"] for row in self._read("solo.csv", SOLO)}
        self.pairs = {tuple(sorted((row["name1"], row["name2"]))) for row in self._read("pairs.csv", PAIRS)}

    def _read(self, name: str, columns: tuple[str, ...]) -> list[dict[str, str]]:
        file = self.folder / name
        if not file.exists():
            return []
        with file.open(newline="") as lines:
            rows = csv.DictReader(lines)
            if tuple(rows.fieldnames or ()) != columns:
                raise MeasuringError(f"{file}: must begin with {','.join(columns)}; choose another folder")
            found = list(rows)
        if any(None in (*row, *row.values()) for row in found):
            raise MeasuringError(f"{file}: a line has too few or too many fields; delete it")
        return found

    def check(self, about: dict[str, Any]) -> None:
        """Write what is measured on what, which must be as before."""
        file = self.folder / "about.json"
        if not file.exists():
            file.write_text(json.dumps(about, indent=2) + "\n")
            return
        try:
            before = json.loads(file.read_text())
        except ValueError:
            raise MeasuringError(f"{file}: is no JSON; choose another folder") from None
        for key in SAME:
            if before.get(key) != about[key]:
                raise MeasuringError(
                    f"{file}: {key} was {before.get(key)} and is {about[key]} now; choose another folder"
                )

    def add_solo(self, loop: Configuration, values: tuple[Any, ...]) -> None:
        """A loop alone."""
        self._add("solo.csv", SOLO, (loop.name, loop.kind, loop.batch, int(loop.amp), *values))

    def add_pair(self, values: tuple[Any, ...]) -> None:
        """Two loops together."""
        self._add("pairs.csv", PAIRS, values)

    def _add(self, name: str, columns: tuple[str, ...], values: tuple[Any, ...]) -> None:
        file = self.folder / name
        new = not file.exists()
        texts = [f"{value:.2f}" if isinstance(value, float) else value for value in values]
        with file.open("a", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerows([columns, texts] if new else [texts])
