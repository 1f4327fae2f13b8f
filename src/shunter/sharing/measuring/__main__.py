"""The command line of this package alone: ``python -m measuring --out FOLDER``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .bench import BenchSettings, measure, say
from .errors import MeasuringError
from .loops import CONFIGURATIONS


def main(arguments: list[str] | None = None) -> int:
    """Measure, or list what can be measured."""
    parser = argparse.ArgumentParser(prog="measuring", description="Measure how training loops share a GPU.")
    parser.add_argument("--out", type=Path, help="folder for solo.csv, pairs.csv and about.json")
    parser.add_argument("--seconds", type=float, default=BenchSettings.seconds, help="per measurement (%(default)s)")
    parser.add_argument("--minutes", type=float, help="stop after this time; the same command continues later")
    parser.add_argument("--only", default="", metavar="NAME,NAME", help="these configurations")
    parser.add_argument("--partners", type=int, default=BenchSettings.partners, help="of each loop (%(default)s)")
    parser.add_argument("--gpu", type=int, default=0, help="which, as nvidia-smi counts (0)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: only try the loops")
    parser.add_argument("--list", action="store_true", help="print the configurations")
    given = parser.parse_args(arguments)
    if given.list:
        sys.stdout.writelines(f"{c.name:28}{c.kind:16}{c.batch:>6}{' amp' if c.amp else ''}\n" for c in CONFIGURATIONS)
        return 0
    if given.out is None:
        parser.error("--out FOLDER is missing")
    only = tuple(name for name in given.only.split(",") if name)
    try:
        measure(BenchSettings(given.out, given.seconds, given.minutes, only, given.partners, given.device, given.gpu))
    except MeasuringError as error:
        say(f"measuring: {error}")
        return 2
    except KeyboardInterrupt:
        say("stopped; the same command continues")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
