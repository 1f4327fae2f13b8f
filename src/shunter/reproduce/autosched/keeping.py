"""Runs that adapt take minutes, so each is kept: a reproduction that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np

from shunter.adapting.controller import AdaptedRun, Switch
from shunter.adapting.searching import FoundSettings
from shunter.sweeps.places import code_version
from shunter.sweeps.store import LONGEST_TEXT, NUMBER, TEXT, TEXTS, Store

COLUMNS = {
    **dict.fromkeys(("key", "version", "host", "error", "command", "policy", "name"), TEXT),
    "content": TEXTS,  # pieces of JSON: with a number for each job it is longer than a text may be
    **dict.fromkeys(("begun", "seconds", "cpu_s"), NUMBER),
}
USES = ("generating", "tuning")  # rooms beside ``adapting`` that decide what comes of a run
SERIES = ("jct", "rho")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class KeptRuns:
    """The runs of one cell and seed; ``about`` is everything that they depend on."""

    store: Store
    policy: str
    about: tuple[Any, ...]

    def found(self, name: str, do: Callable[[], FoundSettings]) -> FoundSettings:
        """A search for fixed settings."""
        return self._kept(f"search {name}", lambda: asdict(do()), _settings)

    def ran(self, name: str, do: Callable[[], AdaptedRun]) -> AdaptedRun:
        """A run that adapts; its causal model is not kept."""
        return self._kept(name, lambda: _written(do()), _run)

    def _kept(self, name: str, do: Callable[[], dict[str, Any]], made: Callable[[dict[str, Any]], T]) -> T:
        """What is known by this name; what can't be read is made again."""
        key = hashlib.blake2b(json.dumps([*self.about, name]).encode(), digest_size=16).hexdigest()
        known = self.store.read(["content"], [key])
        if len(known):
            with suppress(ValueError, TypeError, LookupError, AttributeError):
                return made(json.loads("".join(known["content"][0])))
        begun, cpu = time.time(), time.process_time()
        found = do()
        row = {"key": key, "version": code_version(), "host": os.uname().nodename, "policy": self.policy, "name": name}
        took = {"begun": begun, "seconds": time.time() - begun, "cpu_s": time.process_time() - cpu}
        text = json.dumps(found)
        pieces = [text[at : at + LONGEST_TEXT] for at in range(0, len(text), LONGEST_TEXT)]
        self.store.add([{**row, **took, "content": pieces}])
        return made(found)


def _written(run: AdaptedRun) -> dict[str, Any]:
    found = {name: getattr(run, name) for name in ("policy", "preemptions", "digest", "unplayed")}
    found |= {name: getattr(run, name).tolist() for name in SERIES}
    return {**found, "switches": [*map(asdict, run.switches)], "searches": [*map(asdict, run.searches)]}


def _run(content: dict[str, Any]) -> AdaptedRun:
    series = {name: np.array(content[name], np.float64) for name in SERIES}
    switches = tuple(Switch(**each) for each in content["switches"])
    return AdaptedRun(
        **{**content, **series, "switches": switches, "searches": tuple(map(_settings, content["searches"]))}
    )


def _settings(content: dict[str, Any]) -> FoundSettings:
    return FoundSettings(**{**content, "reasons": tuple(content["reasons"])})
