"""From a sweep file to its runs: the product of the axes, with what is added and what is left out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from shunter import registry
from shunter.clusters.stop_costs import USUAL
from shunter.errors import RunError
from shunter.params import declared, named
from shunter.seeding import rng
from shunter.sweeps.form import Axes, ExcludeForm, PolicyForm, RangeForm, SweepForm, TraceForm
from shunter.variants import check_varying, combinations, texts_of

MOST_RUNS = 1_000_000


@dataclass(frozen=True, order=True)
class Jobs:
    """The jobs of a run: a trace, and a window of it."""

    trace: str  # a file, or synthetic:...
    name: str  # for tables
    format: str = ""
    on_bad_row: str = "fail"
    since: str = ""
    until: str = ""

    @property
    def window(self) -> str:
        """The window as tables name it; "": the whole trace."""
        return f"{self.since}..{self.until}" if self.since or self.until else ""


@dataclass(frozen=True, order=True)
class Place:
    """Everything of a run but its policy and its seed."""

    jobs: Jobs
    cluster: str
    load: str = ""
    network: str = ""
    overhead: str = USUAL
    checkpointable: str = ""  # which jobs may be stopped; "": as in the trace


@dataclass(frozen=True, order=True)
class RunSpec:
    """One run of a sweep."""

    place: Place
    policy: str  # its text, with the settings that differ from their defaults
    seed: int  # 0: the trace itself; else other jobs (synthetic), or arrivals that moved by seconds


@dataclass(frozen=True)
class Choices:
    """What is the same for all runs of a sweep."""

    drop_unfit: bool = False  # leave out jobs that can never fit under one of the policies
    contention: bool = False
    models: str = ""
    measures: tuple[str, ...] = ()  # of third parties, by dotted path


@dataclass(frozen=True)
class SweepPlan:
    """The runs of a sweep, those of one place and seed together: they have the same jobs."""

    name: str
    runs: tuple[RunSpec, ...]
    choices: Choices

    @property
    def places(self) -> list[Place]:
        """Every place once."""
        return list(dict.fromkeys(run.place for run in self.runs))

    @property
    def policies(self) -> list[str]:
        """Every policy once."""
        return list(dict.fromkeys(run.policy for run in self.runs))


def plan(form: SweepForm) -> SweepPlan:
    """The runs that a form asks for; a contradiction is refused."""
    axes = [form, *(_inherited(more, form) for more in form.include)]
    count = sum(_count(each) for each in axes)
    if count > MOST_RUNS:
        raise RunError(f"the sweep has {count:,} runs, more than {MOST_RUNS:,}; take fewer values, or split it")
    runs = dict.fromkeys(run for each in axes for run in _product(each))
    for number, rule in enumerate(form.exclude, 1):
        left_out = [run for run in runs if _matches(rule, run)]
        if not left_out:
            raise RunError(f"[[exclude]] {number}: no run agrees with it; correct it, or remove it")
        for run in left_out:
            del runs[run]
    if not runs:
        raise RunError("every run is left out by an [[exclude]]; remove one")
    choices = Choices(form.drop_unfit, form.contention, form.models, tuple(form.measures))
    return SweepPlan(form.name, tuple(runs), choices)


def _inherited(more: Axes, base: Axes) -> Axes:
    """An include: axes that it does not name are those of the sweep itself."""
    return more.model_copy(update={key: getattr(base, key) for key in Axes.model_fields if not getattr(more, key)})


def _count(axes: Axes) -> int:
    """How many runs a product has, before anything of it is made."""
    jobs = sum(len(each.windows) or (each.equal_windows.count if each.equal_windows else 1) for each in axes.traces)
    lists = (axes.clusters, axes.loads, axes.networks, axes.overheads, axes.checkpointable)
    return jobs * math.prod(len(each) or 1 for each in lists) * len(_seeds(axes)) * sum(map(_variants, axes.policies))


def _variants(form: PolicyForm) -> int:
    lists = (*(len(values) for values in form.grid.values()), *(each.steps for each in form.range.values()))
    return form.sample or math.prod(lists)


def _product(axes: Axes) -> Iterator[RunSpec]:
    jobs = [each for form in axes.traces for each in _jobs(form)]
    _check_names(jobs)
    loads = [f"{load:g}" for load in axes.loads] or [""]
    stops = axes.checkpointable or [""]
    places = (jobs, axes.clusters, loads, axes.networks or [""], axes.overheads or [USUAL], stops)
    policies = [text for form in axes.policies for text in variants(form)]
    for where in itertools.product(*places):
        place = Place(*where)
        for seed in _seeds(axes):
            for policy in policies:
                yield RunSpec(place, policy, seed)


def _seeds(axes: Axes) -> list[int]:
    return axes.seeds or [0]


def _jobs(form: TraceForm) -> Iterator[Jobs]:
    name = form.name or (form.trace if form.trace.startswith("synthetic") else Path(form.trace).name)
    head = (form.trace, name, form.format, form.on_bad_row)
    if form.equal_windows is not None:
        first, days, count = form.equal_windows.first, form.equal_windows.days, form.equal_windows.count
        edges = [first + days * number for number in range(count + 1)]
        if any(float(f"{edge:g}") != edge for edge in edges):
            raise RunError(f"trace '{name}': equal_windows has edges with too many digits; give whole days or hours")
        yield from (Jobs(*head, f"+{begin:g}", f"+{end:g}") for begin, end in itertools.pairwise(edges))
    elif form.windows:
        yield from (Jobs(*head, window.since, window.until) for window in form.windows)
    else:
        yield Jobs(*head)


def _check_names(jobs: Sequence[Jobs]) -> None:
    """Refuse two traces of one name: tables could not tell them apart."""
    source: dict[str, str] = {}
    for each in jobs:
        if source.setdefault(each.name, each.trace) != each.trace:
            raise RunError(f"two traces are called '{each.name}'; give one of them another name = '...'")


# ------------------------------------------------------------------------------------------- parameters


def variants(form: PolicyForm) -> list[str]:
    """The texts of a policy with every combination of its varying parameters, or with some drawn at random."""
    name, _ = named(form.policy)
    check_varying(form.policy, (*form.grid, *form.range))
    if both := set(form.grid) & set(form.range):
        raise RunError(f"policy '{form.policy}': '{min(both)}' has a grid and a range; leave one out")
    if form.sample is not None and not form.grid and not form.range:
        raise RunError(f"policy '{form.policy}' has a sample and nothing that varies; add a grid or a range")
    grid = {key: [_text(value) for value in some] for key, some in form.grid.items()}
    if form.sample is not None:
        return texts_of(form.policy, _samples(form, name, grid))
    return texts_of(
        form.policy, combinations(grid | {key: _steps(name, key, each) for key, each in form.range.items()})
    )


def _ends(name: str, key: str, form: RangeForm) -> tuple[type, float, float, bool]:
    """The type of a parameter, the ends of its range, and whether it varies by factors."""
    kind, _, about = declared(registry.policy_class(name))[key]
    low, high = (
        mine if mine is not None else theirs for mine, theirs in ((form.low, about.low), (form.high, about.high))
    )
    if kind not in (int, float) or low is None or high is None:
        raise RunError(f"policy '{name}': range of '{key}' needs low and high, and a parameter that is a number")
    by_factors = (form.scale or about.scale) == "log"
    if not (low < high and math.isfinite(high - low)) or (by_factors and low <= 0):
        raise RunError(f"policy '{name}': range of '{key}' needs low < high{', and low > 0' if by_factors else ''}")
    return kind, low, high, by_factors


def _steps(name: str, key: str, form: RangeForm) -> list[str]:
    kind, low, high, by_factors = _ends(name, key, form)
    shares = [step / (form.steps - 1) for step in range(form.steps)]
    return list(dict.fromkeys(_at(share, kind, low, high, by_factors) for share in shares))


def _at(share: float, kind: type, low: float, high: float, by_factors: bool) -> str:
    value = low * (high / low) ** share if by_factors else low + (high - low) * share
    return str(round(value)) if kind is int else f"{value:.6g}"


def _samples(form: PolicyForm, name: str, grid: dict[str, list[str]]) -> list[dict[str, str]]:
    """Combinations drawn at random, the same every time; fewer if there are fewer."""
    assert form.sample is not None
    generator = rng(0, f"sweep {form.policy}")
    ends = {key: _ends(name, key, each) for key, each in form.range.items()}
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for _ in range(20 * form.sample):  # equal ones are drawn again
        chosen = {key: values[generator.integers(len(values))] for key, values in grid.items()}
        chosen |= {key: _at(generator.random(), *each) for key, each in ends.items()}
        found.setdefault(tuple(chosen.values()), chosen)
        if len(found) == form.sample:
            break
    return list(found.values())


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


# ------------------------------------------------------------------------------------------- exclusions


def _matches(rule: ExcludeForm, run: RunSpec) -> bool:
    place = run.place
    load = float(place.load) if place.load else None
    texts = {"trace": place.jobs.name, "window": place.jobs.window, "cluster": place.cluster}
    texts |= {"network": place.network, "overhead": place.overhead, "checkpointable": place.checkpointable}
    texts["policy"] = run.policy
    for key in rule.model_fields_set:
        wanted = getattr(rule, key)
        options = wanted if isinstance(wanted, list) else [wanted]
        if key in texts:
            agrees = any(fnmatchcase(texts[key], str(option)) for option in options)
        else:
            agrees = (load if key == "load" else run.seed) in options
        if not agrees:
            return False
    return True
