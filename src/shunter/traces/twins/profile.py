"""What a twin is made from: a profile, read from a small table of published figures or fitted to a trace."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

import numpy as np

from shunter.errors import TraceError, did_you_mean
from shunter.model import GPU
from shunter.traces.twins.quantiles import Quantiles
from shunter.world import F64, I64

PROFILES = files("shunter").joinpath("traces", "twins", "profiles")


SHORTEST_S = 1.0  # of run times that are bent to other figures
POSITIONS = np.linspace(-4, 4, 33)  # normal scores within a kind


@dataclass(frozen=True, eq=False)
class Arrivals:
    """When jobs come."""

    start: int  # ms; a midnight, so that hours and weekdays mean something
    per_day: float
    week: F64  # (168,) by hour of the week from Monday 00:00 UTC, relative to the mean
    together: float  # how often a job comes in the same second as the one before
    day_surge: float  # standard deviation of ln(arrivals of a day) about the rhythm,
    hour_surge: float  # and of those of an hour
    burst: float  # standard deviation of ln(gap) within an hour
    pauses_per_week: float = 0.0  # times in which nothing comes,
    pause_hours: float = 0.0  # and their mean length


@dataclass(frozen=True, eq=False)
class Kinds:
    """The kinds of jobs, each a size, perhaps in one place: arrays with one entry per kind, by place and then size."""

    gpus: I64  # thousandths
    share: F64  # of the jobs
    score: (
        F64  # (kinds, len(POSITIONS)) among all jobs, the normal score of the run time at these positions in the kind
    )
    vc: I64
    gpu_type: I64
    vcs: tuple[str, ...] = ()
    gpu_types: tuple[str, ...] = ()

    @classmethod
    def of_sizes(cls, sizes: I64, share: F64, score: F64) -> Kinds:
        """Kinds that differ in size alone."""
        nowhere = np.full(len(sizes), -1)
        return cls(sizes * GPU, share, score, vc=nowhere, gpu_type=nowhere)


@dataclass(frozen=True)
class UserHabits:
    """How many users submit, and how similar a user's jobs are."""

    count: int = 0  # 0: jobs have no user
    skew: float = 0.0  # the k-th user submits in proportion to k ** -skew
    stay: float = 0.0  # how often the next job is of the same user
    repeat: float = 0.0  # how often a user's next job is a re-run of the last
    habit: float = 0.0  # how much of a new work's run time is the user's habit: the correlation of two works' ranks
    drift: float = 0.0  # how much re-runs differ: standard deviation of the normal score of the run time
    named: bool = True  # works have names
    accounts: tuple[float, ...] = ()  # shares of the jobs; users are divided among them


@dataclass(frozen=True, eq=False)
class TwinProfile:
    """All that a twin is made from; there is no name in it but those of GPU types and published virtual clusters."""

    name: str
    gpus: int  # of the cluster; 0: not known
    arrivals: Arrivals
    kinds: Kinds
    durations: Quantiles
    users: UserHabits
    limits: Quantiles | None = None
    limit_tie: float = 0.0  # rank correlation of requested and true run time
    outcomes: dict[str, float] = field(default_factory=dict)  # shares, those of the shortest jobs first
    outcome_tie: float = 0.0  # how strongly the outcome goes with the run time, 0 to 1
    places: dict[str, int] = field(default_factory=dict)  # GPUs of each; jobs fill them evenly, unless kinds say where
    places_are: str = "vc"  # or gpu_type
    cluster: str = ""  # what to simulate it on
    published: dict[str, Any] = field(default_factory=dict)  # the figures that it is held to


def names() -> list[str]:
    """The traces that twins can be like."""
    return sorted(file.name.removesuffix(".toml") for file in PROFILES.iterdir() if file.name.endswith(".toml"))


def load(name: str) -> TwinProfile:
    """The profile of a published trace."""
    if name not in names():
        raise TraceError(f"there is no published trace '{name}' to be like; {did_you_mean(name, names())}")
    table = tomllib.loads(PROFILES.joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    durations, sizes, share = _durations(table["durations"]), *_sizes(table["sizes"])
    shift = np.interp(np.log2(sizes), *_against_log2(table["sizes"]["longer"]))
    arrivals, users = table["arrivals"], table["users"]
    week = np.outer(arrivals.pop("weekday"), arrivals.pop("hour")).ravel()
    start = datetime.combine(arrivals.pop("start"), datetime.min.time(), UTC)
    return TwinProfile(
        name=name,
        gpus=table["gpus"],
        cluster=table["cluster"],
        arrivals=Arrivals(int(start.timestamp() * 1000), week=week / week.mean(), **arrivals),
        kinds=Kinds.of_sizes(sizes, share, shift[:, None] + POSITIONS),
        places=table.get("vcs") or table.get("gpu_types") or {},
        places_are="vc" if "vcs" in table else "gpu_type",
        durations=durations,
        users=UserHabits(**users),
        limits=Quantiles.of(table["limits"]["quantiles"]),
        limit_tie=table["limits"]["tie"],
        outcomes=table.get("outcomes", {}).get("shares", {}),
        outcome_tie=table.get("outcomes", {}).get("tie", 0.0),
        published=table["published"],
    )


def _durations(table: dict[str, Any]) -> Quantiles:
    """The run times: quantiles as given, or another profile's bent to a median and a mean."""
    if "quantiles" in table:
        return Quantiles.of(table["quantiles"])
    model = load(table["shape_of"]).durations
    median = float(np.interp(0.5, model.share, model.log_s))

    def bent(power: float) -> Quantiles:
        log_s = np.log1p(table["median"]) + power * (model.log_s - median)
        return Quantiles(model.share, np.maximum(log_s, np.log1p(SHORTEST_S)))

    return bent(solve(lambda power: bent(power).mean(), table["mean"], 0.1, 3.0))


def _sizes(table: dict[str, Any]) -> tuple[I64, F64]:
    """GPUs and shares: as given, or another profile's tilted until the mean is right."""
    if "shares" in table:
        pairs = {int(size): share for size, share in table["shares"].items()}
        share = np.array(list(pairs.values()))
        return np.array(list(pairs), np.int64), share / share.sum()
    published = tomllib.loads(PROFILES.joinpath(f"{table['shape_of']}.toml").read_text(encoding="utf-8"))
    sizes, model = _sizes(published["sizes"])

    def tilted(power: float) -> F64:
        share: F64 = model * sizes.astype(float) ** -power
        share /= share.sum()
        return share

    power = solve(lambda power: -float((tilted(power) * sizes).sum()), -table["mean"], -2.0, 4.0)
    return sizes, tilted(power)


def _against_log2(points: list[list[float]]) -> tuple[F64, F64]:
    size, value = np.array(points, float).T
    return np.log2(size), value


def solve(rising: Any, target: float, low: float, high: float, steps: int = 50) -> float:
    """Where a rising function takes this value, or the end that is nearer to it."""
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < target else (low, middle)
    return (low + high) / 2
