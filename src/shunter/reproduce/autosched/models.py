"""The models of AutoSched by themselves: classes of run times (Table 3), generated hours (Fig. 8, Table 5)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter import extras
from shunter.adapting.study import AUTOSCHED, Adapting
from shunter.generating.arrivals import DISTANCES, PLAIN_RULES, NearestHour
from shunter.generating.backtest import RuleScore, backtested
from shunter.generating.durations import DurationModel, duration_model, possible
from shunter.generating.known_jobs import DAY, HOUR, KnownJobs, recorded
from shunter.generating.snapshots import LAST_DAYS, Labelled, labelled, labelled_arrivals
from shunter.processes import Progress
from shunter.reproduce.autosched import paper
from shunter.reproduce.autosched.design import DATA, AutoschedPart, setup_of, trace_of
from shunter.run_folder import versions

if TYPE_CHECKING:
    import polars as pl

MODELS = {  # by the names of Table 3; the last ones are not in it
    "XGBoost": "xgboost",
    "LightGBM": "lightgbm",
    "RandomForest": "forest",
    "MLP": "mlp",
    "LR": "logistic",
    "past (ours)": "past",
    "class reached": "reached",
    "majority": "majority",
}
NEEDS = {"xgboost": "xgboost", "lightgbm": "lightgbm", **dict.fromkeys(("forest", "mlp", "logistic"), "sklearn")}
TRAINED = 0.7  # of the jobs
LEARNED_ROWS, JUDGED_ROWS, QUICK_ROWS = 4000, 3000, 800
JUDGED_DAYS, QUICK_DAYS = 14, 3  # of generated hours
RULES = (
    *PLAIN_RULES,
    *(NearestHour(d, fft, after) for d in DISTANCES for fft in (True, False) for after in (False, True)),
)


@dataclass(frozen=True)
class ClassAccuracy:
    """How often a model is right about the class of a run time."""

    data: str
    model: str
    queries: str  # "arrival": jobs as they arrive; "snapshot": unfinished jobs at an instant
    accuracy: float
    fit_s: float  # per 1,000 rows
    predict_s: float


@dataclass(frozen=True)
class ModelsPart:
    """Which part of it is run."""

    data: tuple[str, ...] = tuple(DATA)
    seed: int = 0
    quick: bool = False


@dataclass(frozen=True, eq=False)
class ModelsStudy:
    """The results."""

    part: ModelsPart
    accuracies: list[ClassAccuracy]
    scores: dict[str, list[RuleScore]]  # of rules, by trace
    jct: dict[str, dict[str, float]]  # by trace and distance: mean JCT of a run that adapts by it, seconds
    stands_in: bool

    @property
    def table(self) -> pl.DataFrame:
        """One row per model."""
        import polars as pl

        return pl.DataFrame([vars(each) for each in self.accuracies])

    def summary(self) -> dict[str, Any]:
        """All of it for scripts."""
        return {
            "experiment": "autosched-models", "paper": paper.TITLE, "quick": self.part.quick,
            "workloads": "stand-in" if self.stands_in else "published", "seed": self.part.seed,
            "accuracy": [vars(each) for each in self.accuracies],
            "generated": {
                data: [{**score.as_dict(), "by_day": list(score.by_day)} for score in scores]
                for data, scores in self.scores.items()
            },
            "similarity_jct_s": self.jct,
            "printed": {"accuracy": paper.ACCURACY, "similarity": paper.SIMILARITY, "differences": paper.DIFFERENCES},
            "versions": versions(),
        }  # fmt: skip


def run_models(part: ModelsPart, progress: Progress = lambda done, total: None) -> ModelsStudy:
    """Fit and judge every model on every trace."""
    accuracies: list[ClassAccuracy] = []
    scores: dict[str, list[RuleScore]] = {}
    jct: dict[str, dict[str, float]] = {}
    made_up = False
    for at, data in enumerate(part.data):
        trace, made_up = trace_of(data, part.seed)
        jobs = recorded(trace)
        accuracies += accuracies_on(data, jobs, part)
        progress(3 * at + 1, 3 * len(part.data))
        scores[data] = backtested(jobs, _hours(data, jobs, part, made_up), RULES, part.seed)
        progress(3 * at + 2, 3 * len(part.data))
        jct[data] = {} if part.quick else jct_by_distance(data, part.seed)
        progress(3 * at + 3, 3 * len(part.data))
    return ModelsStudy(part, accuracies, scores, jct, made_up)


def _hours(data: str, jobs: KnownJobs, part: ModelsPart, made_up: bool) -> list[int]:
    """The hours of the window that schedulers are run on."""
    days = QUICK_DAYS if part.quick else JUDGED_DAYS
    begin = int(jobs.submit[len(jobs) // 2])
    begin = begin if made_up else int(setup_of(data, days, part.seed)[0].trace.submit[0])
    return [begin + k * HOUR for k in range(days * DAY // HOUR)]


def accuracies_on(data: str, jobs: KnownJobs, part: ModelsPart) -> list[ClassAccuracy]:
    """Table 3: models learn from the jobs before 70 % of the arrivals, and are asked about those after."""
    cut = int(jobs.submit[int(TRAINED * len(jobs))])
    past = jobs.at(cut)
    past = past.select(past.between(cut - LAST_DAYS * DAY, cut))
    later = jobs.select(jobs.between(cut - LAST_DAYS * DAY, int(jobs.submit[-1]) + 1))
    end, seed = int(jobs.submit[-1]), part.seed
    most, judged = (QUICK_ROWS, QUICK_ROWS) if part.quick else (LEARNED_ROWS, JUDGED_ROWS)
    sets: dict[str, tuple[Labelled, Labelled]] = {
        "arrival": (
            labelled_arrivals(past, cut - LAST_DAYS * DAY, cut, seed, most),
            labelled_arrivals(later, cut, end, seed, judged),
        ),
        "snapshot": (
            labelled(past, int(past.submit[0]), cut - 1, seed, most=most),
            labelled(later, cut, end, seed, most=judged),
        ),
    }
    return [
        _accuracy(data, name, queries, duration_model(model), *rows)
        for queries, rows in sets.items()
        for name, model in MODELS.items()
        if extras.is_there(NEEDS.get(model, "numpy"))
    ]


def _accuracy(
    data: str, name: str, queries: str, model: DurationModel, known: Labelled, asked: Labelled
) -> ClassAccuracy:
    fit_s, fitted = _timed(lambda: model.fit(known))
    predict_s, chances = _timed(lambda: fitted.chances(asked.features, asked.executed, asked.gpus))
    right = np.argmax(possible(chances, asked.executed), axis=1) == asked.classes
    per_row = 1000 / max(len(known.classes), 1), 1000 / max(len(asked.classes), 1)
    return ClassAccuracy(data, name, queries, float(right.mean()), fit_s * per_row[0], predict_s * per_row[1])


def _timed(do: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.process_time()
    found = do()
    return time.process_time() - begun, found


def jct_by_distance(data: str, seed: int, distances: Sequence[str] = DISTANCES) -> dict[str, float]:
    """Table 5: the mean JCT of Tiresias that adapts to hours found by each distance, over two days."""
    part = AutoschedPart(days=2, budget=10, seed=seed)
    setup, _ = setup_of(data, part.days, seed, DATA[data].small)
    found = {}
    for distance in distances:
        rule = NearestHour(distance, True, False).name
        work = Adapting(setup, replace(part.options("tiresias"), generator=rule, predictor="past"))
        run = work.adapted(AUTOSCHED, work.given)
        found[distance] = float(np.nanmean(run.jct))
    return found
