"""What a sweep shows: which policies are better, how sure that is, and what it costs elsewhere.

Policies are compared where all of them have a run: at the same place with the same seed.  Over places we take the
geometric mean: a place with long waits does not outweigh the others, and no policy changes how two others compare.
Seeds are the unit of chance: a seed has other jobs (synthetic traces) or moved arrivals (recorded ones), the same for
all policies.
"""

from __future__ import annotations

import difflib
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from shunter.errors import RunError
from shunter.report.bootstrap import RESAMPLES, estimate
from shunter.seeding import rng
from shunter.sweeps.store import MEASURED
from shunter.sweeps.work import ARRIVALS, METRICS
from shunter.texts import counted
from shunter.world import F64

if TYPE_CHECKING:
    import polars as pl

PLACE = ("trace", "window", "cluster", "load", "network", "overhead", "checkpointable", "input")
DEFAULT = "jct_s.mean"
LARGER_IS_BETTER = ("utilization", "fairness.jain", "fairness.rho_at_most_1", "finished")
LEVEL = 0.05  # how often any two equal policies of a ranking may be called different
MOST_PAIRS = 1000  # of policies; for more, more patterns of signs would have to be drawn
MOST_NAMED = 5  # policies in a sentence
EXACT = 12  # seeds up to which every pattern of signs is counted
PATTERNS = 20_000  # that are drawn for more seeds, some at a time
BLOCK = 500


class Ranked(NamedTuple):
    """One policy of a ranking."""

    policy: str
    value: float  # the mean over seeds at each place, geometric mean over places, in the measure's own unit
    relative: float  # to the best policy: 1.2 is 20 % more
    low: float  # its 95 % interval over seeds; NaN: too few seeds
    high: float
    chance: float  # how likely such a difference from the best is by chance, corrected for all pairs; NaN: the best
    best_at: int  # places at which no other policy is better


@dataclass(frozen=True, eq=False)
class Ranking:
    """Policies by one measure, the best first."""

    measure: str
    rows: list[Ranked]
    places: int
    seeds: int
    left_out: int  # runs that count for nothing, because some policy has none at their place with their seed

    moved: bool = False  # at some place seeds move arrivals only, and the jobs stay the same
    failed: tuple[str, ...] = ()  # policies of which runs failed
    unranked: tuple[str, ...] = ()  # policies without any run that counts
    idle: int = 0  # places at which every policy has less than the least time that counts, a second

    @property
    def seeds_needed(self) -> int:
        """With fewer seeds no difference can be shown, however large it is."""
        return seeds_needed(len(self.rows))

    @property
    def verdict(self) -> str:
        """What the ranking shows, in a few sentences."""
        return " ".join(filter(None, (self._comparison, *self._limits)))

    @property
    def _comparison(self) -> str:
        best, others = self.rows[0], self.rows[1:]
        if not others:
            return f"{best.policy} is the only policy."
        neutral = _is_neutral(self.measure)
        head = f"{best.policy} {'has the smallest' if neutral else 'is best in'} {self.measure}"
        if _pairs(len(self.rows)) > MOST_PAIRS:
            return f"{head}. {len(self.rows)} policies are too many for a test: confirm the best few with other seeds."
        if self.seeds < self.seeds_needed:
            return (
                f"{head}, but {counted(self.seeds, 'seed')} can't show that this is no chance:"
                f" {len(self.rows)} policies need {self.seeds_needed}."
            )
        alike = [row.policy for row in others if not row.chance <= LEVEL]
        if not alike:
            return f"{head}; each other policy is shown to be {'larger' if neutral else 'worse'}."
        more = f" and {len(alike) - MOST_NAMED} more" if len(alike) > MOST_NAMED else ""
        return f"{head}; no difference is shown to {', '.join(alike[:MOST_NAMED])}{more}."

    @property
    def _limits(self) -> Iterator[str]:
        """What the comparison does not say."""
        if self.idle and len(self.rows) > 1:
            yield f"At {self.idle} of {counted(self.places, 'place')} all are below a second and count as equal."
        if self.moved and len(self.rows) > 1:
            yield "This is about these jobs: seeds only move arrivals by seconds, and other jobs may say the opposite."
        if self.unranked:
            yield f"Not ranked, because every run failed: {', '.join(self.unranked[:MOST_NAMED])}."
        if self.failed:
            yield (
                f"Runs of {', '.join(self.failed[:MOST_NAMED])} failed; their places and seeds count for no policy,"
                " which may favour the policies that failed."
            )


def _is_neutral(measure: str) -> bool:
    """Whether it is not known if more of it is better."""
    return measure.startswith(MEASURED) or measure.endswith("jobs") or measure == "gpu_hours"


def _pairs(policies: int) -> int:
    return policies * (policies - 1) // 2


def seeds_needed(policies: int) -> int:
    """With fewer seeds no difference between this many policies can be shown, however large it is."""
    needed = 1
    while 2.0 ** (1 - needed) * max(_pairs(policies), 1) > LEVEL:
        needed += 1
    return needed


def sound(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows that say what was run; a store of others may have any."""
    import polars as pl

    said = [pl.col(name).is_not_null() for name in ("policy", "trace", "cluster", "seed")]
    return frame.filter(*said, pl.col("load").is_null() | pl.col("load").is_finite())


def measure_of(name: str, frame: pl.DataFrame) -> str:
    """A column with numbers, by its name."""
    known = [*METRICS, *(column for column in frame.columns if column.startswith(MEASURED))]
    if name not in known:
        near = [other for other in known if other.startswith(name)] or difflib.get_close_matches(name, known, 4)
        hint = f"did you mean {', '.join(near[:6])}?" if near else "such as jct_s.mean, wait_s.p99 or utilization"
        raise RunError(f"there is no measure '{name}'; {hint} It is a number of the summary, by its path")
    return name


def rank(frame: pl.DataFrame, measure: str = DEFAULT) -> Ranking:
    """The policies of a sweep by a measure; runs that failed don't count."""
    import polars as pl

    measure_of(measure, frame)
    runs = frame.filter(pl.col("error").is_null() & pl.col(measure).is_finite())
    policies = runs["policy"].unique(maintain_order=True).to_list()
    if not policies:
        raise RunError(f"no run has a value of {measure}; 'shunter sweep show' lists what failed")
    cells = runs.group_by([*PLACE, "seed"], maintain_order=True).agg(pl.col("policy"), pl.col(measure), "varies")
    shared = cells.filter(pl.col("policy").list.n_unique() == len(policies))
    if shared.is_empty():
        raise RunError("at no place do all policies have a run with the same seed; choose some with --policy")
    values = _values(shared, policies, measure)  # (policies, places, seeds)
    rows = _rows(policies, values, measure)
    all_policies = frame["policy"].unique(maintain_order=True).drop_nulls().to_list()
    failed = frame.filter(pl.col("error").is_not_null())["policy"].unique(maintain_order=True).to_list()
    return Ranking(
        measure, rows, values.shape[1], values.shape[2], runs.height - values.size,
        moved=bool((shared["varies"].explode() == ARRIVALS).any()),
        failed=tuple(policy for policy in failed if policy in policies),
        unranked=tuple(policy for policy in all_policies if policy not in policies),
        idle=int((values <= _least(measure)).all((0, 2)).sum()) if _is_time(measure) else 0,
    )  # fmt: skip


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


def _rows(policies: Sequence[str], values: F64, measure: str) -> list[Ranked]:
    """The ranked policies of values (policies, places, seeds)."""
    seeds = values.shape[2]
    logs = _log(values, measure).mean(1)  # (policies, seeds)
    drawn = np.vstack([np.ones(seeds), rng(0, "sweep").multinomial(seeds, np.full(seeds, 1 / seeds), RESAMPLES)])
    # (policies, 1 + RESAMPLES): first all seeds, then those that were drawn
    means = np.exp(np.stack([_log(each @ drawn.T / seeds, measure).mean(0) for each in values]))
    order = np.argsort(_signed(means[:, 0], measure), kind="stable").tolist()
    pairs = _pairs(len(policies))  # the best is chosen by the same runs, so any pair could have been compared
    testable = pairs <= MOST_PAIRS
    chances = [min(1.0, pairs * sign_flip(logs[at] - logs[order[0]])) if testable else np.nan for at in order[1:]]
    at_places = _signed(values.mean(2), measure)
    wins = (at_places == at_places.min(0)).sum(1)
    rows = []
    for at, chance in zip(order, [float("nan"), *chances], strict=True):
        relative = estimate(means[at] / means[order[0]], seeds)
        rows.append(Ranked(policies[at], float(means[at, 0]), *relative, float(chance), int(wins[at])))
    return rows


def _log(values: F64, measure: str) -> F64:
    """Logarithms; times below a second count as a second, so that no wait at all is no infinite gain."""
    logs: F64 = np.log(np.maximum(values, _least(measure)))
    return logs


def _least(measure: str) -> float:
    """What smaller values count as in a geometric mean."""
    return 1.0 if _is_time(measure) else 1e-6


def _is_time(measure: str) -> bool:
    return measure.endswith("_s") or "_s." in measure


def over_places(runs: pl.DataFrame, by: Sequence[str], measures: Sequence[str]) -> pl.DataFrame:
    """Measures by some columns: the mean of the runs at each place, and over several places the geometric mean."""
    import polars as pl

    cells = runs.group_by([*dict.fromkeys((*PLACE, *by))], maintain_order=True).agg(pl.col(measures).mean())
    several = pl.len() > 1
    means = [
        pl.when(several).then(pl.col(name).clip(_least(name)).log().mean().exp()).otherwise(pl.col(name).first())
        for name in measures
    ]
    return cells.group_by(by, maintain_order=True).agg(
        mean.alias(name) for name, mean in zip(measures, means, strict=True)
    )


def sign_flip(differences: F64) -> float:
    """How likely a mean at least this far from 0 is if every difference could as well have the other sign."""
    count = len(differences)
    if not differences.any():
        return 1.0
    seen = abs(differences.sum()) * (1 - 1e-12)
    if count <= EXACT:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=count)))
        return float((np.abs(signs @ differences) >= seen).mean())
    generator, farther = rng(0, "signs"), 1  # what was seen is one of the patterns
    for _ in range(PATTERNS // BLOCK):
        signs = generator.choice((1.0, -1.0), size=(BLOCK, count))
        farther += int((np.abs(signs @ differences) >= seen).sum())
    return farther / (PATTERNS + 1)


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
    """Measures per policy over the runs that all policies share, and whether no other is better in all."""
    import polars as pl

    runs = frame.filter(pl.col("error").is_null())
    count = runs["policy"].n_unique()
    shared = runs.filter(pl.col("policy").n_unique().over([*PLACE, "seed"]) == count)
    means = over_places(shared, ["policy"], measures)
    points = np.column_stack([_signed(means[name].to_numpy().astype(np.float64), name) for name in measures])
    return means.with_columns(front=pl.Series(unbeaten(points), dtype=pl.Boolean))


def unbeaten(points: F64) -> list[bool]:
    """Of each point, whether no other is as small in every coordinate and smaller in one."""
    return [not ((points <= own).all(1) & (points < own).any(1)).any() for own in points]
