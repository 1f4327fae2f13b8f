"""What a sweep shows: which policies are better, how sure that is, and what it costs elsewhere.

Policies are compared where all of them have a run: at the same place with the same seed.  At every place a measure
counts relative to its mean over the policies there, so that no place outweighs the others.  Seeds are the unit of
chance: a seed has other jobs (synthetic traces) or moved arrivals (recorded ones), the same for all policies.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from shunter.errors import RunError, did_you_mean
from shunter.report.bootstrap import FEWEST, RESAMPLES
from shunter.seeding import rng
from shunter.sweeps.store import MEASURED
from shunter.sweeps.work import METRICS
from shunter.world import F64, I64

if TYPE_CHECKING:
    import polars as pl

PLACE = ("trace", "window", "cluster", "load", "network", "overhead")
DEFAULT = "jct_s.mean"
LARGER_IS_BETTER = ("utilization", "fairness.jain", "fairness.rho_at_most_1", "finished")
LEVEL = 0.05  # of all comparisons of a ranking together
MOST_NAMED = 5  # policies in a sentence
EXACT = 12  # seeds up to which every pattern of signs is counted
PATTERNS = 20_000  # that are drawn for more seeds


class Ranked(NamedTuple):
    """One policy of a ranking."""

    policy: str
    value: float  # mean over all places and seeds, in the measure's own unit
    relative: float  # to the best policy: 1.2 is 20 % more
    low: float  # its 95 % interval over seeds; NaN: too few seeds
    high: float
    chance: float  # how likely such a difference to the best is by chance, corrected for all comparisons; NaN: the best
    best_at: int  # places at which no other policy is better


@dataclass(frozen=True, eq=False)
class Ranking:
    """Policies by one measure, the best first."""

    measure: str
    rows: list[Ranked]
    places: int
    seeds: int
    left_out: int  # runs that count for nothing, because some policy has none at their place with their seed

    @property
    def seeds_needed(self) -> int:
        """With fewer seeds no difference can be shown, however large it is."""
        needed = 1
        while 2.0 ** (1 - needed) * max(len(self.rows) - 1, 1) > LEVEL:
            needed += 1
        return needed

    @property
    def verdict(self) -> str:
        """What the ranking shows, in a sentence or two."""
        best, others = self.rows[0], self.rows[1:]
        if not others:
            return f"{best.policy} is the only policy."
        behind = [row for row in others if row.chance <= LEVEL]
        head = f"{best.policy} is best in {self.measure}"
        if self.seeds < self.seeds_needed:
            return (
                f"{head}, but {self.seeds} seed{'s' if self.seeds > 1 else ''} can't show that this is no chance:"
                f" {len(self.rows)} policies need {self.seeds_needed}."
            )
        if len(behind) == len(others):
            return f"{head}; each other policy is shown to be worse."
        alike = [row.policy for row in others if row not in behind]
        more = f" and {len(alike) - MOST_NAMED} others" if len(alike) > MOST_NAMED else ""
        return f"{head}; no difference is shown to {', '.join(alike[:MOST_NAMED])}{more}."


def measure_of(name: str, frame: pl.DataFrame) -> str:
    """A column with numbers, by its name."""
    known = [*METRICS, *(column for column in frame.columns if column.startswith(MEASURED))]
    if name not in known:
        raise RunError(f"there is no measure '{name}'; {did_you_mean(name, known)}")
    return name


def rank(frame: pl.DataFrame, measure: str = DEFAULT) -> Ranking:
    """The policies of a sweep by a measure; runs that failed don't count."""
    import polars as pl

    measure_of(measure, frame)
    runs = frame.filter(pl.col("error").is_null() & pl.col(measure).is_finite())
    policies = runs["policy"].unique(maintain_order=True).to_list()
    if not policies:
        raise RunError(f"no run has a value of {measure}; 'shunter sweep show' lists what failed")
    cells = runs.group_by([*PLACE, "seed"], maintain_order=True).agg(pl.len(), pl.col("policy"), pl.col(measure))
    shared = cells.filter(pl.col("policy").list.n_unique() == len(policies))
    if shared.is_empty():
        raise RunError("at no place do all policies have a run with the same seed; choose some with --policy")
    values = _values(shared, policies, measure)  # (policies, places, seeds)
    scores = _scores(values)
    order: I64 = np.argsort(_signed(scores.mean(1), measure), kind="stable").astype(np.int64)
    rows = _rows(policies, values, scores, order, measure)
    used = shared.height * len(policies)
    return Ranking(measure, rows, values.shape[1], values.shape[2], runs.height - used)


def _signed(values: F64, measure: str) -> F64:
    """Values of which the smallest is the best."""
    return -values if measure in LARGER_IS_BETTER else values


def _values(shared: pl.DataFrame, policies: Sequence[str], measure: str) -> F64:
    """(policies, places, seeds); a place counts with the seeds that all places have."""
    flat = shared.explode("policy", measure)
    places = flat.select(PLACE).unique(maintain_order=True)
    seeds = set.intersection(*(set(some) for some in flat.group_by(PLACE).agg("seed")["seed"].to_list()))
    if not seeds:
        raise RunError("no seed is common to all places; give every place the same seeds")
    number = {seed: at for at, seed in enumerate(sorted(seeds))}
    place_of = {row: at for at, row in enumerate(places.iter_rows())}
    index = {policy: at for at, policy in enumerate(policies)}
    found = np.full((len(policies), places.height, len(number)), np.nan)
    for *place, seed, policy, value in flat.select(*PLACE, "seed", "policy", measure).iter_rows():
        if seed in number:
            found[index[policy], place_of[tuple(place)], number[seed]] = value
    return found


def _scores(values: F64) -> F64:
    """(policies, seeds) the measure relative to its mean at each place, mean over places."""
    usual = values.mean(axis=(0, 2), keepdims=True)
    relative: F64 = np.divide(values, usual, out=np.ones_like(values), where=usual != 0)
    scores: F64 = relative.mean(1)
    return scores


def _rows(policies: Sequence[str], values: F64, scores: F64, order: I64, measure: str) -> list[Ranked]:
    best = scores[order[0]]
    seeds = scores.shape[1]
    picks = rng(0, "sweep").integers(seeds, size=(RESAMPLES, seeds))
    chances = holm([sign_flip(scores[at] - best) for at in order[1:]])
    means = _signed(values.mean(2), measure)
    wins = (means == means.min(0)).sum(1)
    rows = []
    for at, chance in zip(order.tolist(), [float("nan"), *chances], strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            drawn = scores[at][picks].mean(1) / best[picks].mean(1)
            relative = float(scores[at].mean() / best.mean())
        known = seeds >= FEWEST and np.isfinite(drawn).all()
        low, high = np.percentile(drawn, (2.5, 97.5)) if known else (np.nan, np.nan)
        value = float(values[at].mean())
        rows.append(Ranked(policies[at], value, relative, float(low), float(high), chance, int(wins[at])))
    return rows


def sign_flip(differences: F64) -> float:
    """How likely a mean at least this far from 0 is if every difference could as well have the other sign."""
    count = len(differences)
    if not differences.any():
        return 1.0
    if count <= EXACT:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=count)))
    else:
        signs = rng(0, "signs").choice((1.0, -1.0), size=(PATTERNS, count))
        signs[0] = 1.0  # what was seen is one of the patterns
    means = np.abs(signs @ differences)
    return float((means >= abs(differences.sum()) * (1 - 1e-12)).mean())


def holm(chances: Sequence[float]) -> list[float]:
    """Holm's correction: the chance that any of them all is called different by mistake stays below the level."""
    order = np.argsort(chances, kind="stable")
    found, most = [0.0] * len(chances), 0.0
    for place, at in enumerate(order.tolist()):
        most = max(most, min(1.0, (len(chances) - place) * chances[at]))
        found[at] = most
    return found


def settings_of(frame: pl.DataFrame, policy: str) -> pl.DataFrame:
    """The runs of a policy with one column per parameter that varies; numbers where all its values are numbers."""
    import polars as pl

    own = frame.filter(pl.col("policy").str.split(":").list.first() == policy, pl.col("settings").is_not_null())
    parsed = [_settings(text) for text in own["settings"].to_list()]
    names = [key for key in (parsed[0] if parsed else {}) if len({row.get(key) for row in parsed}) > 1]
    columns = [pl.Series(f"set.{key}", [row.get(key) for row in parsed], dtype=pl.String) for key in names]
    wide = own.with_columns(columns)
    numeric = [f"set.{key}" for key in names if wide[f"set.{key}"].cast(pl.Float64, strict=False).is_not_null().all()]
    return wide.with_columns(pl.col(numeric).cast(pl.Float64)) if numeric else wide


def _settings(text: str) -> dict[str, str]:
    """The settings of a run as the store has them; a store of others may have anything there."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return {key: str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def pareto(frame: pl.DataFrame, measures: Sequence[str]) -> pl.DataFrame:
    """The mean of measures per policy over the runs that all policies share, and whether no other is better in all."""
    import polars as pl

    runs = frame.filter(pl.col("error").is_null())
    count = runs["policy"].n_unique()
    shared = runs.filter(pl.col("policy").n_unique().over([*PLACE, "seed"]) == count)
    means = shared.group_by("policy", maintain_order=True).agg(pl.col(name).mean() for name in measures)
    points = np.column_stack([_signed(means[name].to_numpy().astype(np.float64), name) for name in measures])
    return means.with_columns(front=pl.Series(unbeaten(points), dtype=pl.Boolean))


def unbeaten(points: F64) -> list[bool]:
    """Of each point, whether no other is as small in every coordinate and smaller in one."""
    return [not ((points <= own).all(1) & (points < own).any(1)).any() for own in points]
