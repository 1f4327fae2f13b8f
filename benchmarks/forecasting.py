"""How good start forecasts are: ``python -m benchmarks.forecasting``, or with ``--quick``.

A record with real waits is stopped at many moments: at submissions, and at regular times at which jobs wait.  Forecasts
from what was known then are compared with the recorded starts.  Four are put side by side:

* Slurm's own, or a stand-in for it: what a backfill planner says that lets every job run to its limit;
* a model learned from past waits: the queue, the user and the request, by a forest and by LightGBM where it is there;
* the roll-forward: many simulations from now on, with drawn run times;
* the combination that ``shunter slurm when --history`` uses.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from shunter import clusters, extras, registry
from shunter import world as w
from shunter.cluster import Cluster
from shunter.live.forest import Forest, quantiles
from shunter.live.nodes import Node
from shunter.live.queue_state import NAMES
from shunter.live.rules import Rules
from shunter.live.run_times import RunTimes
from shunter.live.snapshot import LiveJob
from shunter.live.waits import (
    DAYS_MS,
    MOMENTS,
    SMALLEST,
    TREES,
    TRIED,
    Ask,
    Questions,
    Waits,
    described,
    moments,
    past,
    spread,
)
from shunter.model import Trace
from shunter.safe_files import data_folder
from shunter.seeding import rng
from shunter.setup import read_trace
from shunter.sim.engine import Simulator
from shunter.testing.live import habitual
from shunter.world import F64

DAY_MS = 86_400_000
JUDGED_FROM = 1_541_030_400_000  # 1 November 2018: settings were chosen on what came before
REFIT_MS = 3 * DAY_MS  # models are fitted again
TEN_MINUTES = 600.0
RESAMPLES = 2000
CHANCES = np.array([0.5, 0.9])
P50, P90 = 2, 4  # in LEVELS
Mask: TypeAlias = Any


@dataclass(frozen=True, eq=False)
class Asked:
    """Questions with what happened, and what a planner that goes by limits said."""

    questions: Questions
    planned: F64  # (questions,) s from the question
    at_submission: Mask

    @property
    def truth(self) -> F64:
        """Seconds from the question to the start."""
        return (self.questions.start - self.questions.moment) / 1000

    @property
    def rolled(self) -> F64:
        """P50 and P90 of the roll-forward, s."""
        return rolled(self.questions.rows)


def rolled(rows: F64) -> F64:
    """P50 and P90 of the roll-forward, s."""
    return np.expm1(rows[:, [len(NAMES) + P50, len(NAMES) + P90]])


class Limits(RunTimes):
    """Every job runs to its limit, as Slurm's planner assumes."""

    def draw(self, job: LiveJob, levels: F64) -> F64:
        """The limit; what has outlived its own ends now."""
        return np.full(len(levels), float(max(job.limit, job.ran + 1)))


def ask(trace: Trace, nodes: Sequence[Node], when: Sequence[Ask]) -> Asked:
    """Put the questions; the progress goes to standard error."""
    rows, planned, asked, begun = [], list[float](), list[tuple[int, int, bool]](), time.monotonic()
    for at, (outlook, jobs) in enumerate(past(trace, nodes, when, Rules())):
        if jobs:
            now = outlook.snapshot.now
            rows.append(described(outlook, outlook.rolled(*jobs)))
            by_limits = replace(outlook, run_times=Limits(), samples=1).rolled(*jobs)
            planned += [(each.starts[0] - now) / 1000 for each in by_limits]
            asked += [(now, int(job.id), when[at].row >= 0) for job in jobs]
        if (at + 1) % 100 == 0 or at + 1 == len(when):
            sys.stderr.write(f"\r{at + 1:,} of {len(when):,} moments, {time.monotonic() - begun:.0f} s ")
            sys.stderr.flush()
    sys.stderr.write("\n")
    now, job, new = np.array(asked, np.int64).T
    starts = trace.submit[job] + trace.recorded_wait[job]
    return Asked(Questions(np.concatenate(rows), now, job, starts), np.array(planned), new > 0)


# ------------------------------------------------------------------------------------------- methods

Fit: TypeAlias = Callable[[Questions, int], Callable[[F64], F64]]  # questions and an instant -> rows -> P50 and P90, s


def as_shipped(questions: Questions, until: int) -> Questions:
    """As many questions of the last days as ``when --history`` puts."""
    recent = questions.where((questions.moment < until) & (questions.moment >= until - DAYS_MS))
    counts = np.unique(recent.moment, return_counts=True)
    chosen = [spread(counts[0][some], MOMENTS) for some in (counts[1] == 1, counts[1] > 1)]
    return recent.where(np.isin(recent.moment, np.concatenate(chosen)))


def combined(questions: Questions, until: int) -> Callable[[F64], F64]:
    """What is shipped."""
    learned = Waits.learned(as_shipped(questions, until), until)
    if learned is None:
        return rolled
    return lambda rows: learned.seconds(rows, CHANCES)


def forest(questions: Questions, until: int) -> Callable[[F64], F64]:
    """The same forest on waits themselves, without the roll-forward."""
    some = questions.where(questions.moment < until)
    waited, known = np.log1p(some.waited(until)), some.start <= until
    grown = Forest.grown(some.rows[:, : len(NAMES)], waited, trees=TREES, smallest=SMALLEST, tried=TRIED)

    def answer(rows: F64) -> F64:
        found = [quantiles(waited, known, weights, CHANCES) for weights in grown.weights(rows[:, : len(NAMES)])]
        return np.ceil(np.expm1(np.array(found)) - 1e-6)

    return answer


def boosted(questions: Questions, until: int) -> Callable[[F64], F64]:
    """LightGBM's quantile regression of log waits, without the roll-forward."""
    lightgbm = extras.load("lightgbm", "a model of waits")
    known = questions.where((questions.moment < until) & (questions.start <= until))
    settings = {
        "objective": "quantile", "num_leaves": 15, "min_data_in_leaf": 30, "learning_rate": 0.06, "seed": 0,
        "feature_fraction": 0.7, "bagging_fraction": 0.8, "bagging_freq": 1, "num_threads": 1, "verbosity": -1,
        "deterministic": True, "force_row_wise": True,
    }  # fmt: skip
    data = known.rows[:, : len(NAMES)], np.log1p(known.waited(until))
    models = [lightgbm.train(settings | {"alpha": level}, lightgbm.Dataset(*data), 120) for level in CHANCES]

    def answer(rows: F64) -> F64:
        logs = np.column_stack([model.predict(rows[:, : len(NAMES)]) for model in models])
        return np.ceil(np.expm1(np.maximum(np.maximum.accumulate(logs, axis=1), 0)) - 1e-6)

    return answer


def rolling(asked: Asked, fit: Fit, first: int) -> F64:
    """P50 and P90 of every question from an instant on; the model is fitted again every few days, from the past."""
    questions = asked.questions
    found = np.full((len(questions.moment), len(CHANCES)), np.nan)
    for begin in range(first, int(questions.moment.max()) + 1, REFIT_MS):
        some = (questions.moment >= begin) & (questions.moment < begin + REFIT_MS)
        if some.any():
            found[some] = fit(questions, begin)(questions.rows[some])
            sys.stderr.write(f"\r{fit.__name__}: {np.mean(questions.moment < begin + REFIT_MS):4.0%} ")
            sys.stderr.flush()
    sys.stderr.write("\n")
    return found


def methods(asked: Asked, first: int) -> dict[str, F64]:
    """What each method says; Slurm's planner has one number, which stands for both."""
    found = {
        "Slurm's planner (stand-in)": np.column_stack((asked.planned, asked.planned)),
        "learned, forest": rolling(asked, forest, first),
        "roll-forward": asked.rolled,
        "combined": rolling(asked, combined, first),
    }
    if extras.is_there("lightgbm"):
        found["learned, LightGBM"] = rolling(asked, boosted, first)
    order = ("Slurm's planner (stand-in)", "learned, forest", "learned, LightGBM", "roll-forward", "combined")
    return {name: found[name] for name in order if name in found}


# ------------------------------------------------------------------------------------------- tables


@dataclass(frozen=True)
class Score:
    """How good forecasts were."""

    within: float  # share within ten minutes
    median_min: float  # |error| of P50
    mean_min: float
    by50: float  # share started by P50
    by90: float
    loss50: float  # pinball, min
    loss90: float

    @classmethod
    def of(cls, said: F64, truth: F64) -> Score:
        """Of P50 and P90, s."""
        error = np.abs(said[:, 0] - truth)
        shares = [float(np.mean(truth <= said[:, at])) for at in range(2)]
        losses = [pinball(said[:, at], truth, float(level)) / 60 for at, level in enumerate(CHANCES)]
        return cls(float(np.mean(error <= TEN_MINUTES)), float(np.median(error)) / 60, float(error.mean()) / 60,
                   *shares, *losses)  # fmt: skip

    def line(self, name: str, planner: Score) -> str:
        """A row of a table."""
        ratio = planner.mean_min / max(self.mean_min, 1e-9)
        return (
            f"| {name:26} | {self.within:5.1%} | {self.median_min:7.1f} | {self.mean_min:7.1f} | {ratio:5.1f} |"
            f" {self.by50:4.0%} | {self.by90:4.0%} | {self.loss50:7.1f} | {self.loss90:7.1f} |"
        )


HEAD = (
    "| method | within 10 min | median error, min | mean error, min | nearer than planner |"
    " by P50 | by P90 | P50 loss, min | P90 loss, min |\n|---|---|---|---|---|---|---|---|---|"
)


def pinball(said: F64, truth: F64, level: float) -> float:
    """The quantile loss."""
    over = truth - said
    return float(np.mean(np.maximum(level * over, (level - 1) * over)))


def table(asked: Asked, said: dict[str, F64], some: Mask, title: str) -> str:
    """All methods on some of the questions."""
    truth, moment = asked.truth[some], asked.questions.moment[some]
    scores = {name: Score.of(values[some], truth) for name, values in said.items()}
    planner = next(iter(scores.values()))
    begin = f"\n{title}: {len(truth):,} questions at {len(np.unique(moment)):,} moments\n\n{HEAD}\n"
    return begin + "\n".join(score.line(name, planner) for name, score in scores.items()) + "\n"


def differences(asked: Asked, said: dict[str, F64], some: Mask) -> str:
    """How much nearer the combination is than each other method: 95 % intervals from days drawn again and again."""
    truth, days = asked.truth[some], asked.questions.moment[some] // DAY_MS
    _, day = np.unique(days, return_inverse=True)
    weights = rng(0, "days").multinomial(day.max() + 1, np.full(day.max() + 1, 1 / (day.max() + 1)), RESAMPLES)
    errors = {name: np.abs(values[some, 0] - truth) / 60 for name, values in said.items()}
    lines = [f"\nmean error less that of the combination, min (95 % of {RESAMPLES:,} draws of {day.max() + 1} days):"]
    for name, error in errors.items():
        more = np.bincount(day, error - errors["combined"])
        drawn = (weights @ more) / (weights @ np.bincount(day))
        low, high = np.percentile(drawn, (2.5, 97.5))
        if name != "combined":
            lines.append(f"  {name:26} {more.sum() / len(day):7.1f} [{low:7.1f}, {high:7.1f}]")
    return "\n".join(lines) + "\n"


def report(asked: Asked, said: dict[str, F64], parts: Sequence[tuple[str, Mask]]) -> Iterator[str]:
    """Tables of every part, at submission and later."""
    for title, part in parts:
        for kind, some in (("at submission", asked.at_submission), ("while waiting", ~asked.at_submission)):
            if (part & some).sum() >= 20:
                yield table(asked, said, part & some, f"{title}, {kind}")
                if "to " in title or "all" in title:
                    yield differences(asked, said, part & some)


# ------------------------------------------------------------------------------------------- cases


def simulated(trace: Trace, cluster: Cluster) -> Trace:
    """A trace with the waits that it has under first come, first served with EASY backfilling."""
    simulator = Simulator(trace, cluster)
    simulator.run(registry.policy("fifo:backfill=easy"))
    return replace(trace, recorded_wait=simulator.world.jobs[w.STARTED] - trace.submit)


def plain_nodes(count: int, gpus: int = 8) -> list[Node]:
    """Nodes that are all alike."""
    return [Node(f"n{number}", "idle", ("main",), gpus) for number in range(count)]


def made_up(count: int) -> Iterator[str]:
    """Users with habits on a cluster whose rules are known: what is left to learn is little."""
    trace = simulated(habitual(20_000, 128, 0.95), clusters.load("16x8"))
    first, second, last = (int(trace.submit[int(share * (len(trace) - 1))]) for share in (0.2, 0.5, 1.0))
    asked = ask(trace, plain_nodes(16), moments(trace, first, last, count))
    said = methods(asked, second)
    yield from report(asked, said, [("made up, all", asked.questions.moment >= second)])


def aaic(count: int, until: int = w.NEVER) -> Iterator[str]:
    """AAIC's half year, as recorded; ``until``: what comes later is not looked at."""
    folder = data_folder()
    if folder is None:
        yield "AAIC's trace is needed for its part; SHUNTER_DATA names the folder with aaic/\n"
        return
    trace = read_trace(str(folder / "aaic" / "aaicwl-201807-201812.csv.gz"), None, "skip")
    begin, end = int(trace.submit[0]) + 7 * DAY_MS, min(int(trace.submit[-1]), until)
    asked = ask(trace, plain_nodes(36), moments(trace, begin, end, count))
    moment = asked.questions.moment
    month = moment.astype("datetime64[ms]").astype("datetime64[M]")
    first = int(np.datetime64("2018-09-01", "ms").astype(np.int64))
    said = methods(asked, first)
    judged = moment >= JUDGED_FROM
    parts = [
        ("AAIC, September to October: settings were chosen on these", (moment >= first) & ~judged),
        ("AAIC, November to December: after the choice", judged),
        *((f"AAIC, {name}", month == name) for name in np.unique(month[moment >= first])),
    ]
    yield from report(asked, said, parts)


def main(*arguments: str) -> None:
    """Print all tables; the quick ones leave out the months after the choice."""
    quick = "--quick" in arguments
    for part in (made_up(30), aaic(40, JUDGED_FROM)) if quick else (made_up(300), aaic(900)):
        for text in part:
            sys.stdout.write(text)
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
