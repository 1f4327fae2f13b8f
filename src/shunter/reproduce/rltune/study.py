"""The experiments, run: agents are trained, then all are judged on windows that no agent has seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter.errors import RunError
from shunter.extras import require
from shunter.processes import Progress
from shunter.reproduce.claims import ClaimResult
from shunter.reproduce.rltune import paper
from shunter.reproduce.rltune.design import (
    QSSF_SOURCES,
    QUEUES,
    RLTUNE,
    SAF,
    SAME_VIEW,
    SOURCES,
    TABLE_9,
    VISIBLE,
    WORDS,
    AgentTraining,
    Entrant,
    Panel,
    RLTunePart,
)
from shunter.reproduce.rltune.grounds import SITES, Grounds
from shunter.reproduce.rltune.latency import decision_ms
from shunter.reproduce.rltune.outcome import MEASURES, PanelResult, measured, shown, waits_of, windows_of
from shunter.reproduce.rltune.teaching import TrainedAgent, taught
from shunter.reproduce.writing import record
from shunter.run_folder import versions
from shunter.world import F64

if TYPE_CHECKING:
    import polars as pl

FEWEST_WINDOWS = 5  # of which an interval is made


@dataclass(frozen=True, eq=False)
class RLTuneStudy:
    """What was run, and the results."""

    part: RLTunePart
    stands_in: bool
    jobs: Mapping[str, int]
    trained: Mapping[AgentTraining, TrainedAgent]
    results: Sequence[PanelResult]
    latency: Mapping[tuple[int, int], float]  # ms, by waiting jobs and jobs in view

    def result(self, panel: Panel, data: str, information: str) -> PanelResult | None:
        """A table, if it was run."""
        found = (r for r in self.results if (r.panel, r.data, r.information) == (panel, data, information))
        return next(found, None)

    @property
    def cpu_s(self) -> float:
        """What all trainings took, those of earlier commands too."""
        return sum(agent.cpu_s for agent in self.trained.values())

    def claims(self) -> list[tuple[str, ClaimResult]]:
        """What is printed, judged with each information."""
        found = []
        for panel, data, measure, base, better, factor in paper.claims() if not self.stands_in else ():
            for information in panel.information:
                result = self.result(panel, data, information)
                if result is not None and {base, better} <= result.values.keys():
                    made = paper.claim(panel, data, measure, base, better, factor)
                    found.append((information, ClaimResult(made, result.factor(base, better, measure))))
        return found

    def sentences(self) -> list[str]:
        """What follows from the tables."""
        verdicts = [_verdict(self, entrant, base) for entrant, base in ((RLTUNE, SAF), (RLTUNE, SAME_VIEW))]
        return [sentence for sentence in (*verdicts, _reproduced(self)) if sentence]

    @property
    def table(self) -> pl.DataFrame:
        """One row per table, data, information, entrant, training and window: means over draws."""
        import polars as pl

        rows = [
            {
                "panel": result.panel.title, "data": result.data, "information": result.information,
                "entrant": entrant.label, "training": training, "window": window,
                **{name: float(values[training, at, window]) for at, name in enumerate(MEASURES)},
            }
            for result in self.results
            for entrant, values in result.values.items()
            for training in range(values.shape[0])
            for window in range(values.shape[2])
        ]  # fmt: skip
        return pl.DataFrame(rows)

    def summary(self) -> dict[str, Any]:
        """All of it for scripts."""
        return {
            "experiment": "rltune",
            "paper": paper.TITLE,
            "workloads": "stand-in" if self.stands_in else "published",
            "part": {name: getattr(self.part, name) for name in self.part.__dataclass_fields__},
            "jobs": dict(self.jobs),
            "trainings": len(self.trained),
            "training_cpu_s": self.cpu_s,
            "cannot": list(paper.CANNOT),
            "tables": [_table_record(result) for result in self.results],
            "claims": [{"information": known, **found.record} for known, found in self.claims()],
            "latency_ms": [
                {"waiting": waiting, "visible": visible or waiting, "ms": ms}
                for (waiting, visible), ms in self.latency.items()
            ],
            "sentences": self.sentences(),
            "versions": versions(),
        }


def _table_record(result: PanelResult) -> dict[str, Any]:
    rows = [
        {
            "entrant": entrant.label,
            "policy": entrant.policy,
            "agent": entrant.agent,
            **{name: result.of(entrant, name) for name in MEASURES},
            "against_saf": {name: record(result.change(entrant, SAF, name)) for name in MEASURES},
        }
        for entrant in result.values
    ]
    about = {"table": result.panel.title, "data": result.data, "information": result.information}
    return {**about, "window": result.length, "windows": result.windows, "rows": rows}


def _verdict(study: RLTuneStudy, entrant: Entrant, base: Entrant) -> str:
    """On how many data sets the one waits less than the other, in words."""
    parts = []
    for information, words in WORDS.items():
        changes = {
            SITES[result.data].title: result.change(entrant, base, "wait")
            for result in study.results
            if result.panel is TABLE_9 and result.information == information and entrant in result.values
        }
        less = [name for name, change in changes.items() if shown(change) and change.value < 0]
        more = [name for name, change in changes.items() if shown(change) and change.value > 0]
        if changes:
            said = [f"{word} on {', '.join(names)}" for word, names in (("less", less), ("more", more)) if names]
            unclear = len(changes) - len(less) - len(more)
            said += [f"no difference is shown on {unclear} of {len(changes)} data sets"] if unclear else []
            parts.append(f"With {words}: {'; '.join(said)}.")
    return f"Mean wait of {entrant.label} against {base.label}, both with EASY. {' '.join(parts)}" if parts else ""


def _reproduced(study: RLTuneStudy) -> str:
    """How many of the printed claims come out."""
    found = study.claims()
    if not found:
        return ""
    counts = []
    for information, words in WORDS.items():
        mine = [one for known, one in found if known == information and one.direction == "yes"]
        asked, size = sum(known == information for known, _ in found), sum(one.size == "yes" for one in mine)
        counts.append(f"with {words} {len(mine)} of {asked} in direction, {size} of these in size")
    return f"Of the printed claims: {'; '.join(counts)}."


def check(part: RLTunePart) -> None:
    """Refuse what can't be run before anything is started."""
    require("torch", "training agents")
    if part.windows < FEWEST_WINDOWS:
        raise RunError(f"--windows must be at least {FEWEST_WINDOWS}, else there is no interval, got {part.windows}")


@dataclass(frozen=True, eq=False)
class TrainedPart:
    """A part of which all agents are trained."""

    part: RLTunePart
    grounds: Grounds
    trained: Mapping[AgentTraining, TrainedAgent]


def prepare(
    part: RLTunePart, workers: int | None = None, progress: Progress = lambda done, total: None, dask: str = ""
) -> TrainedPart:
    """Read all jobs and train all agents."""
    check(part)
    grounds = Grounds(part.data, part.seed)
    return TrainedPart(part, grounds, taught(grounds, part, workers, progress, dask))


def run(prepared: TrainedPart, progress: Progress = lambda done, total: None) -> RLTuneStudy:
    """Judge all, and time a decision."""
    part, grounds = prepared.part, prepared.grounds
    panels = list(part.panels())
    results = []
    for done, (panel, data, information) in enumerate(panels):
        progress(done, len(panels))
        results.append(judged(prepared, panel, data, information))
    latency = {(waiting, visible): decision_ms(waiting, visible) for waiting in QUEUES for visible in (0, VISIBLE)}
    jobs = {name: grounds.jobs(name) for name in part.data}
    return RLTuneStudy(part, grounds.stands_in, jobs, prepared.trained, results, latency)


def judged(prepared: TrainedPart, panel: Panel, data: str, information: str) -> PanelResult:
    """One table: every entrant on the same windows, in every draw."""
    part, grounds, trained = prepared.part, prepared.grounds, prepared.trained
    length, firsts = windows_of(panel, grounds.ground(data, SOURCES[information]), part.windows)
    values: dict[Entrant, F64] = {}
    for entrant in panel.entrants:
        if not part.has(entrant, data, information):
            continue
        models = [trained[training].model for training in part.trainings_of(entrant, data, information)]
        source = (QSSF_SOURCES if entrant.of_qssf else SOURCES)[information]
        found = []
        for draw in range(part.draws):
            ground = grounds.ground(data, source, length, draw)
            found.append([measured(ground, firsts, waits) for waits in waits_of(entrant, ground, firsts, models)])
        values[entrant] = np.mean(found, axis=0)
    return PanelResult(panel, data, information, length, values, part.seed)
