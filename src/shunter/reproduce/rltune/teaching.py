"""Trainings as rows of the store of runs: on processes or on Dask, and never made twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shunter.learning.engine import LearningGround
from shunter.learning.training import Task, Trainer
from shunter.policies.scored.models import ScoreModel
from shunter.processes import Progress
from shunter.reproduce.rltune.design import SOURCES, VISIBLE, AgentTraining, RLTunePart
from shunter.reproduce.rltune.grounds import Grounds
from shunter.sweeps.cached_runs import cached_store, counted, rows_of
from shunter.sweeps.engines import opener
from shunter.sweeps.places import code_version
from shunter.sweeps.store import INTEGER, NUMBER, TEXT
from shunter.sweeps.work import Row, attempted

COLUMNS = {
    **dict.fromkeys(("key", "version", "host", "error", "command", "data", "information", "agent", "policy"), TEXT),
    **dict.fromkeys(("objective", "model"), TEXT),
    **dict.fromkeys(("seed", "rounds"), INTEGER),
    **dict.fromkeys(("begun", "seconds", "cpu_s", "start", "change"), NUMBER),
}


@dataclass(frozen=True, eq=False)
class TrainingRunner:
    """How a training becomes a row."""

    grounds: Mapping[tuple[str, str], LearningGround]  # by ``AgentTraining.place``
    part: RLTunePart
    version: str

    def task(self, training: AgentTraining) -> Task:
        """What is learned; an inspector sees one job."""
        visible = 0 if training.agent == "inspector" else VISIBLE
        return Task(
            self.grounds[training.place], training.agent, training.objective, training.base, training.seed,
            self.part.epochs, self.part.episodes, self.part.rows, patience=self.part.epochs, visible=visible,
            device=self.part.device,
        )  # fmt: skip

    def key(self, training: AgentTraining) -> str:
        """The name of a training's content."""
        ground = self.grounds[training.place]
        estimates = hashlib.blake2b(ground.estimates.tobytes(), digest_size=16).hexdigest()
        text = json.dumps([self.task(training).described(), estimates, str(ground.cluster.groups)], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def row(self, training: AgentTraining, key: str) -> Row:
        """Train."""
        return attempted(self._about(training, key), training.base, "", lambda: self._done(training))

    def lost(self, training: AgentTraining, key: str, why: str) -> Row:
        """The row of a training whose worker died with it."""
        return {**self._about(training, key), "error": why}

    def _about(self, training: AgentTraining, key: str) -> Row:
        return {
            "key": key, "version": self.version, "data": training.data, "information": training.information,
            "agent": training.agent, "policy": training.base, "objective": training.objective, "seed": training.seed,
        }  # fmt: skip

    def _done(self, training: AgentTraining) -> Row:
        trainer = Trainer(self.task(training))
        while not trainer.over:
            trainer.round()
        model = trainer.model()
        change = model.scores["change_on_checked_windows"]
        return {
            "rounds": len(trainer.curve),
            "start": trainer.start,
            "change": change,
            "model": model.model_dump_json(),
        }


@dataclass(frozen=True, eq=False)
class TrainedAgent:
    """What a training gave."""

    model: ScoreModel
    start: float  # its change against the reference on the windows that are checked, before any training ...
    change: float  # ... and after it
    cpu_s: float


def taught(
    grounds: Grounds, part: RLTunePart, workers: int | None, progress: Progress, dask: str = ""
) -> dict[AgentTraining, TrainedAgent]:
    """All trainings of a part; what was trained in the last month is not trained again."""
    trainings: Sequence[AgentTraining] = part.all_trainings()
    used = {training.place for training in trainings}
    runner = TrainingRunner(
        {place: grounds.ground(place[0], SOURCES[place[1]]) for place in used}, part, code_version()
    )
    keys = [runner.key(training) for training in trainings]
    with cached_store("learning", COLUMNS) as store:
        runs = dict(zip(keys, trainings, strict=True))
        rows = rows_of(runs, runner, store, opener(dask, workers), counted(progress, 0, len(runs)))
    found = {row["key"]: row for row in rows.iter_rows(named=True)}
    return {
        training: TrainedAgent(
            ScoreModel.model_validate_json(found[key]["model"]), found[key]["start"], found[key]["change"],
            found[key]["cpu_s"],
        )
        for training, key in zip(trainings, keys, strict=True)
    }  # fmt: skip
