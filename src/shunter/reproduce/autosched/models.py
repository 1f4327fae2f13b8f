"""The models of AutoSched by themselves: run times (Table 3), what settings do (Table 4), hours (Fig. 8, Table 5)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter import extras
from shunter.adapting.causal import CausalModel
from shunter.adapting.study import AUTOSCHED, Adapting
from shunter.generating.arrivals import DISTANCES, RULES, NearestHour
from shunter.generating.backtest import RuleScore, backtested
from shunter.generating.durations import DurationModel, duration_model, possible
from shunter.generating.known_jobs import DAY, HOUR, KnownJobs, recorded
from shunter.generating.snapshots import CLASSES, CUTS_MS, LAST_DAYS, Labelled, labelled, labelled_arrivals
from shunter.model import Trace
from shunter.predictors.features import stream
from shunter.predictors.fitted import Fitted, estimates
from shunter.predictors.fitting import FEWEST, known
from shunter.predictors.models import model as predictor
from shunter.processes import Progress
from shunter.reproduce.autosched import paper
from shunter.reproduce.autosched.design import DATA, AutoschedPart, setup_of, trace_of
from shunter.run_folder import versions
from shunter.world import F64

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
OURS = {f"{name} (ours)": name for name in ("history", "gbm", "ebm")}  # which predict run times, not classes
NEEDS = {"xgboost": "xgboost", "lightgbm": "lightgbm", **dict.fromkeys(("forest", "mlp", "logistic"), "sklearn")}
NAMES = (*tuple(MODELS)[:-3], "past (ours)", *OURS, "class reached", "majority")  # in the order of tables
TRAINED = 0.7  # of the jobs
LEARNED_ROWS, JUDGED_ROWS, QUICK_ROWS = 4000, 3000, 800
JUDGED_DAYS, QUICK_DAYS = 14, 3  # of generated hours


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
class CausalError:
    """How far the causal model is off about settings that were tried after those that it learned from."""

    data: str
    model: float  # the mean of |expected / came - 1|
    same: float  # the same if it always said the mean of what it learned from
    runs: int  # that it was judged by
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
    causal: list[CausalError]  # by trace
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
            "similarity_jct_s": self.jct, "causal_error": [vars(each) for each in self.causal],
            "printed": {
                "accuracy": paper.ACCURACY, "predict_fit_s": paper.SECONDS, "causal_error": paper.CAUSAL_ERROR,
                "causal_predict_fit_s": paper.CAUSAL_SECONDS, "similarity": paper.SIMILARITY,
                "differences": paper.DIFFERENCES,
            },
            "not_measured": [vars(each) for each in paper.MODELS_NOT_MEASURED],
            "versions": versions(),
        }  # fmt: skip


def run_models(part: ModelsPart, progress: Progress = lambda done, total: None) -> ModelsStudy:
    """Fit and judge every model on every trace."""
    accuracies: list[ClassAccuracy] = []
    scores: dict[str, list[RuleScore]] = {}
    jct: dict[str, dict[str, float]] = {}
    causal: list[CausalError] = []
    made_up = False
    for at, data in enumerate(part.data):
        trace, made_up = trace_of(data, part.seed)
        jobs = recorded(trace)
        accuracies += accuracies_on(data, trace, jobs, part)
        progress(3 * at + 1, 3 * len(part.data))
        scores[data] = backtested(jobs, _hours(data, jobs, part, made_up), RULES.values(), part.seed)
        progress(3 * at + 2, 3 * len(part.data))
        jct[data] = {} if part.quick else jct_by_distance(data, part.seed)
        causal += [] if part.quick else causal_error(data, part.seed)
        progress(3 * at + 3, 3 * len(part.data))
    return ModelsStudy(part, accuracies, scores, jct, causal, made_up)


def _hours(data: str, jobs: KnownJobs, part: ModelsPart, made_up: bool) -> list[int]:
    """The hours of the window that schedulers are run on."""
    days = QUICK_DAYS if part.quick else JUDGED_DAYS
    begin = int(jobs.submit[len(jobs) // 2])
    begin = begin if made_up else int(setup_of(data, days, part.seed)[0].trace.submit[0])
    return [begin + k * HOUR for k in range(days * DAY // HOUR)]


def accuracies_on(data: str, trace: Trace, jobs: KnownJobs, part: ModelsPart) -> list[ClassAccuracy]:
    """Table 3: models learn from the jobs before 70 % of the arrivals, and are asked about those after."""
    cut = int(jobs.submit[int(TRAINED * len(jobs))])
    past = jobs.at(cut)
    past = past.select(past.between(cut - LAST_DAYS * DAY, cut))
    recent = jobs.between(cut - LAST_DAYS * DAY, int(jobs.submit[-1]) + 1)
    later = jobs.select(recent)
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
        *(
            _accuracy(data, name, queries, duration_model(model), *rows)
            for queries, rows in sets.items()
            for name, model in MODELS.items()
            if extras.is_there(NEEDS.get(model, "numpy"))
        ),
        *_by_run_time(data, trace.select(np.arange(len(trace))[recent]), cut, {k: rows[1] for k, rows in sets.items()}),
    ]


def _accuracy(
    data: str, name: str, queries: str, model: DurationModel, learned: Labelled, asked: Labelled
) -> ClassAccuracy:
    fit_s, fitted = _timed(lambda: model.fit(learned))
    predict_s, chances = _timed(lambda: fitted.chances(asked.features, asked.executed, asked.gpus))
    per_row = 1000 / max(len(learned.classes), 1), 1000 / max(len(asked.classes), 1)
    return ClassAccuracy(data, name, queries, _right(chances, asked), fit_s * per_row[0], predict_s * per_row[1])


def _right(chances: F64, asked: Labelled) -> float:
    """The share of jobs whose most likely class is theirs."""
    return float((np.argmax(possible(chances, asked.executed), axis=1) == asked.classes).mean())


def _by_run_time(data: str, trace: Trace, cut: int, sets: dict[str, Labelled]) -> list[ClassAccuracy]:
    """Our predictors of run times, as they would be asked at each job's submission, as classes."""
    rows, found = stream(trace), []
    jobs = known(trace, rows, cut)
    for name, text in OURS.items():
        made = predictor(text)
        if len(jobs) < FEWEST or not extras.is_there(made.module or "numpy"):
            continue
        fit_s, fitted = _timed(partial(made.fit, jobs))
        for queries, asked in sets.items():
            predict_s, chances = _timed(partial(class_chances, fitted, rows, asked))
            per_row = 1000 / len(jobs), 1000 / max(len(asked.classes), 1)
            times = fit_s * per_row[0], predict_s * per_row[1]
            found.append(ClassAccuracy(data, name, queries, _right(chances, asked), *times))
    return found


def class_chances(fitted: Fitted, rows: F64, asked: Labelled) -> F64:
    """How likely each class is, by what a model expects and how far it was off before; no job ends before now."""
    logs = np.log(estimates(fitted, rows[asked.jobs]))
    thirds, errors = (np.searchsorted(fitted.edges, each, side="right") for each in (logs, fitted.errors[0]))
    found = np.zeros((len(logs), CLASSES))
    ends = np.append(CUTS_MS / 1000, np.inf)
    for third in np.unique(thirds):
        mine = np.flatnonzero(thirds == third)
        off = np.sort(fitted.errors[1, errors == third] if (errors == third).any() else fitted.errors[1])
        ran = np.maximum(asked.executed[mine] / 1000, 1e-3)
        upper = np.log(np.maximum(ends[None, :], ran[:, None])) - logs[mine, None]
        below = np.searchsorted(off, np.column_stack([np.log(ran) - logs[mine], upper]))
        found[mine] = np.diff(below, axis=1)
    return found


def _timed(do: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.process_time()
    found = do()
    return time.process_time() - begun, found


def causal_error(data: str, seed: int) -> list[CausalError]:
    """Table 4: a model learns from the first evaluations of Tiresias over two days, and is asked of the others.

    Nothing where there were too few.
    """
    part = AutoschedPart(days=2, budget=10, seed=seed)
    setup, _ = setup_of(data, part.days, seed, DATA[data].small)
    work = Adapting(setup, replace(part.options("tiresias"), causal="layers", predictor="past"))
    found = work.adapted(AUTOSCHED, work.given).causal
    if found is None:
        return []
    samples = found.samples
    first, last = np.split(np.arange(len(samples.objective)), [round(TRAINED * len(samples.objective))])
    learned = replace(
        samples, inputs=samples.inputs[first], middle=samples.middle[first], objective=samples.objective[first]
    )
    came = samples.objective[last]
    fit_s, model = _timed(lambda: CausalModel(learned))
    predict_s, expected = _timed(lambda: model.predicted(samples.inputs[last]))
    off, same = (float(np.mean(np.abs(each / came - 1))) for each in (expected, learned.objective.mean()))
    return [CausalError(data, off, same, len(last), 1000 * fit_s / len(first), 1000 * predict_s / len(last))]


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
