"""Fixed settings, and those that adapt to the past, to a generated and to the true next hour, side by side.

Fixed settings are searched in at most as many evaluations as an adapting run has, on the jobs before the run, which is
what a site can do, and on the jobs of the run itself, which only hindsight can.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from shunter import extras
from shunter.adapting.controller import AdaptedRun, AdaptingScheduler, SearchTimes, plain_run
from shunter.adapting.knowledge import SiteKnowledge
from shunter.adapting.objectives import check_objective
from shunter.adapting.outlooks import OutlookSource, ReplayedHour, TrueHour
from shunter.adapting.rejecting import GRAPHS
from shunter.adapting.searching import FoundSettings, SettingSpace, search_whole
from shunter.capabilities import Learns, capability
from shunter.errors import RunError, did_you_mean
from shunter.generating.arrivals import LAST_HOUR, NEAREST_RULES, PLAIN_RULES, ArrivalRule, rule_named
from shunter.generating.backtest import best_rule
from shunter.generating.durations import DurationPredictor, duration_model
from shunter.generating.known_jobs import MINUTE
from shunter.protocols import Memory
from shunter.registry import policy as policy_of
from shunter.report.bootstrap import Estimate
from shunter.report.finish_fairness import FAIR
from shunter.report.intervals import quotient_of_means
from shunter.setup import Setup
from shunter.sim.engine import Simulator
from shunter.sim.feasibility import unfit
from shunter.simulation import Draw, resolve, simulator_for, taught
from shunter.traces.checkpointable import with_checkpointable
from shunter.tuning.halving import HALVING
from shunter.tuning.sampling import METHODS
from shunter.tuning.spaces import ANY, PolicySpace, spaces_of
from shunter.tuning.tuning import AGAINST
from shunter.world import F64

GIVEN, FIXED, HINDSIGHT, SELFTUNE, AUTOSCHED, OPTIMAL = (
    "given",
    "fixed",
    "hindsight",
    "selftune",
    "autosched",
    "optimal",
)
LABELS = {
    GIVEN: "as given",
    FIXED: "Fixed, by the past",
    HINDSIGHT: "Fixed, in hindsight",
    SELFTUNE: "SelfTune (past hour)",
    AUTOSCHED: "AutoSched (generated)",
    OPTIMAL: "Optimal (truth)",
}
SOURCES = {"past": SELFTUNE, "generated": AUTOSCHED, "truth": OPTIMAL}
AUTO = "auto"  # in place of a rule: the one with the best forecasts of the days before the run
CHOSEN_AMONG = (
    *PLAIN_RULES,
    *(rule for rule in NEAREST_RULES if rule.distance == "manhattan"),
)
FEWEST_JOBS = 20  # before the run, to search fixed settings on

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class AdaptingOptions:
    """How the schedulers adapt."""

    policy: str
    budget: int = 40
    method: str = "random"
    objective: str = "jct"
    times: SearchTimes = field(default_factory=SearchTimes)
    generator: str = AUTO
    predictor: str = "past"
    fixed_evaluations: int = 0  # 0: as many as an adapting run has
    seed: int = 0
    threads: int = 1
    causal: str = ""  # how a causal model is learned that rejects settings before they are run; "": there is none
    aggregate: bool = False  # jobs of an outlook that are alike are merged


@dataclass(frozen=True, eq=False)
class AdaptingStudy:
    """The runs by name (see ``LABELS``), all on the same jobs."""

    options: AdaptingOptions
    runs: dict[str, AdaptedRun]
    fixed: dict[str, FoundSettings]  # the searches for fixed settings
    rule: str  # the generator that was used
    begin: int
    unplayed: int  # generated jobs that were left out, because none of the run asks for the same

    def value(self, name: str) -> float:
        """The objective of a run."""
        run = self.runs[name]
        return 1 - run.fair if self.options.objective == "rho" else float(np.nanmean(run.jct))

    def speedup(self, name: str, base: str) -> Estimate:
        """How many times as good as another run, see ``speedup``."""
        return speedup([self], name, base)

    def drawn_from(self, name: str) -> F64:
        """What the objective is a mean of, per job: its JCT, or whether its rho is at most 1."""
        run = self.runs[name]
        return run.jct if self.options.objective == "jct" else np.where(np.isnan(run.rho), np.nan, run.rho <= FAIR)

    def as_dict(self) -> dict[str, Any]:
        """For scripts."""
        options = self.options
        return {
            "policy": options.policy,
            "objective": options.objective,
            "every_s": options.times.every / 1000,
            "recheck_s": options.times.recheck / 1000,
            "budget": options.budget,
            "search": options.method,
            "generator": self.rule,
            "predictor": options.predictor,
            "seed": options.seed,
            "jobs": len(self.runs[GIVEN].jct),
            "unplayed": self.unplayed,
            "oracle": bool(policy_of(self.runs[GIVEN].policy).needs),
            "runs": {name: self._record(name) for name in self.runs},
            "verdict": self.verdict,
        }

    @property
    def verdict(self) -> list[str]:
        """What is shown of those that adapt without knowing what comes, in words."""
        said = [self._shown(name) for name in (SELFTUNE, AUTOSCHED)]
        if self.rule == LAST_HOUR.name and self.options.predictor == DurationPredictor.name:
            said[1] = f"The generator is the last hour ({self.rule}), so AutoSched is SelfTune here."
        given = self.runs[GIVEN].jct
        if all(np.array_equal(run.jct, given, equal_nan=True) for run in self.runs.values()):
            said.append("No setting changed anything.")
        return said

    def _shown(self, name: str) -> str:
        """Whether a run is better than the policy as given, and than fixed settings chosen by the past."""
        words = [f"{_against(self.speedup(name, base))} '{LABELS[base]}'" for base in (GIVEN, FIXED)]
        return f"{LABELS[name]}: {', and '.join(words)}."

    def _record(self, name: str) -> dict[str, Any]:
        run = self.runs[name]
        seconds = [each.seconds for each in run.searches]
        searched = self.fixed.get(name)
        return {
            "label": LABELS[name],
            "policy": run.policy,
            "jct_s": {"mean": float(np.nanmean(run.jct)), "p99": float(np.nanpercentile(run.jct, 99))},
            "rho_at_most_1": run.fair,
            "preemptions": run.preemptions,
            "over_fixed": _estimate(self.speedup(name, FIXED)),
            "over_selftune": _estimate(self.speedup(name, SELFTUNE)),
            "switches": [switch.as_dict(self.begin) for switch in run.switches],
            "evaluations": searched.evaluations if searched else run.evaluations,
            "not_run": [reason for each in run.searches for reason in each.reasons],
            "search_s": searched.seconds if searched else float(np.sum(seconds)),
            "search_median_s": float(np.median(seconds)) if seconds else None,
            "digest": run.digest,
        }


def _estimate(found: Estimate) -> dict[str, float | None]:
    return {key: value if math.isfinite(value) else None for key, value in found._asdict().items()}


def speedup(studies: Sequence[AdaptingStudy], name: str, base: str) -> Estimate:
    """How many times as good one is as another: by mean JCT, or by the share of jobs with rho <= 1.

    The studies are repeats of one another.  The interval is over stretches of the jobs, the same for both.
    """
    options = studies[0].options
    first, other = ([study.drawn_from(each) for study in studies] for each in (name, base))
    above, below = (other, first) if options.objective == "jct" else (first, other)
    return quotient_of_means(above, below, options.seed)


def _against(found: Estimate) -> str:
    """What an estimate of how many times as good shows."""
    if not math.isfinite(found.low) or found.low <= 1 <= found.high:
        return "no difference is shown from"
    worse = "worse: " if found.value < 1 else ""
    return f"{worse}{found.value:.3f} times as good ({found.low:.3f} to {found.high:.3f}) as"


class RunKeeper(Protocol):
    """Runs that need not be made again."""

    def found(self, name: str, do: Callable[[], FoundSettings]) -> FoundSettings:
        """A search for fixed settings."""

    def ran(self, name: str, do: Callable[[], AdaptedRun]) -> AdaptedRun:
        """A run that adapts."""


class NothingKept:
    """Everything is run."""

    def found(self, name: str, do: Callable[[], FoundSettings]) -> FoundSettings:
        """Search."""
        return do()

    def ran(self, name: str, do: Callable[[], AdaptedRun]) -> AdaptedRun:
        """Run."""
        return do()


class Adapting:
    """Runs the study on a setup."""

    def __init__(self, setup: Setup, options: AdaptingOptions, repeat: int = 0) -> None:
        self.setup, self.options = setup, checked(options)
        self.given = resolve(_first(options.policy)).text
        self.seed = options.seed + repeat  # of searches, and of what is generated
        self._draw = Draw(setup, options.seed, repeat)
        self.space = SettingSpace(
            tuple(_spaces(options.policy)), options.budget, options.method, options.objective, options.threads,
            options.causal, options.aggregate,
        )  # fmt: skip
        self.knowledge = SiteKnowledge(self._draw.trace, setup.history)

    def simulator(self) -> Simulator:
        """The run before its first event."""
        return simulator_for(self._draw, policy_of(self.given))[0]

    def memory(self, text: str) -> Memory:
        """What a policy begins with; a model is that of the policy as given, whatever the settings."""
        return policy_of(text).start(self.setup.cluster, self._taught)

    @cached_property
    def _taught(self) -> Memory:
        return taught(policy_of(self.given), self.setup, self._draw.trace)

    @cached_property
    def rule(self) -> ArrivalRule:
        """The generator: as named, or the one that did best on the days before the run."""
        if self.options.generator != AUTO:
            return rule_named(self.options.generator)
        begin = int(self._draw.trace.submit[0])
        return best_rule(self.knowledge.past_at(begin), begin, CHOSEN_AMONG, self.options.seed)

    def source(self, name: str) -> OutlookSource:
        """What a scheduler searches on."""
        if name == OPTIMAL:
            return TrueHour()
        if name == SELFTUNE:
            return ReplayedHour(self.knowledge, predictor=DurationPredictor(seed=self.seed), seed=self.seed)
        plain = self.options.predictor == DurationPredictor.name  # others predict the most likely class, as published
        predictor = DurationPredictor(self.options.predictor, self.seed, plain)
        return ReplayedHour(self.knowledge, self.rule, predictor, self.seed)

    @property
    def searches(self) -> int:
        """How many an adapting run makes, and at least one."""
        submit = self._draw.trace.submit
        return max((int(submit[-1] - submit[0]) - 1) // self.options.times.step, 1)

    @property
    def fixed_budget(self) -> int:
        """Evaluations of a search for fixed settings: as many as an adapting run has."""
        return self.options.fixed_evaluations or self.searches * self.options.budget

    def run(
        self, progress: Progress = lambda done, total: None, by_past: FoundSettings | None = None,
        kept: RunKeeper | None = None,
    ) -> AdaptingStudy:  # fmt: skip
        """All of them; ``by_past`` are the fixed settings, if they were searched before."""
        kept = kept or NothingKept()
        fixed = {FIXED: by_past or self.fixed_by_past()}
        progress(1, 2 + len(SOURCES) * self.searches)
        begin = fixed[FIXED].policy
        fixed[HINDSIGHT] = kept.found(HINDSIGHT, lambda: self.fixed_in_hindsight(begin))
        chosen = {GIVEN: self.given, FIXED: begin, HINDSIGHT: fixed[HINDSIGHT].policy}
        runs = {name: plain_run(self.simulator(), text, self.memory(text)) for name, text in chosen.items()}
        for at, name in enumerate(SOURCES.values()):
            on_progress = self._progress(progress, at)
            runs[name] = kept.ran(name, partial(self.adapted, name, begin, on_progress))
        return AdaptingStudy(
            self.options, runs, fixed, self.rule.name, int(self._draw.trace.submit[0]), runs[AUTOSCHED].unplayed
        )

    def _progress(self, progress: Progress, done: int) -> Callable[[int], None]:
        step = self.options.times.step
        total = 2 + len(SOURCES) * self.searches
        return lambda ms: progress(2 + done * self.searches + ms // step, total)

    def adapted(self, name: str, begin: str, progress: Callable[[int], None] = lambda ms: None) -> AdaptedRun:
        """One that adapts, beginning with these settings."""
        source = self.source(name)
        scheduler = AdaptingScheduler(source, self.space, self.options.times, (begin, self.given), self.seed)
        run = scheduler.run(self.simulator(), begin, self.memory(begin), progress)
        return dataclasses.replace(run, unplayed=source.unplayed if isinstance(source, ReplayedHour) else 0)

    def fixed_in_hindsight(self, begin: str) -> FoundSettings:
        """The best settings on the jobs of the run."""
        return search_whole(self.simulator(), self.memory(self.given), self.space, begin, self.fixed_budget)

    def fixed_by_past(self) -> FoundSettings:
        """The best settings on the jobs before the run, of as long a time; without enough of them, as given."""
        past = self._past()
        if past is None:
            return FoundSettings(self.given, math.nan, math.nan, 0, 0.0)
        draw, policy = Draw(past, self.options.seed), policy_of(self.given)
        simulator = simulator_for(draw, policy)[0]
        memory = taught(policy, past, past.trace) or policy.start(past.cluster)
        return search_whole(simulator, memory, self.space, self.given, self.fixed_budget)

    def _past(self) -> Setup | None:
        """The time before the run, as long as the run; None: too few jobs are known of it.

        Jobs that had not ended when the run began have predicted run times.
        """
        trace, now = self._draw.trace, int(self._draw.trace.submit[0])
        durations = DurationPredictor(seed=self.options.seed).of_all(self.knowledge.past_at(now), now)
        history = dataclasses.replace(self.knowledge.before, duration=durations)
        begin = 2 * now - int(trace.submit[-1])
        fit = ~unfit(history, self.setup.cluster, policy_of(self.given)) if len(history) else np.zeros(0, np.bool_)
        recent = history.submit >= begin
        if np.count_nonzero(fit & recent) < FEWEST_JOBS:
            return None
        jobs = with_checkpointable(history.select(fit & recent), self.setup.checkpointable)
        return dataclasses.replace(self.setup, trace=jobs, history=history.select(~recent), faults=())


def checked(options: AdaptingOptions) -> AdaptingOptions:
    """Refuse what can't be run before anything is."""
    check_objective(options.objective)
    duration_model(options.predictor)
    if options.generator != AUTO:
        rule_named(options.generator)
    if options.causal and options.causal not in GRAPHS:
        raise RunError(f"there is no causal model '{options.causal}'; {did_you_mean(options.causal, GRAPHS)}")
    if options.causal == "fci":
        extras.require("causallearn", "--causal fci")
    if options.causal and options.policy == ANY:
        raise RunError(
            "--causal is for one policy: its model has no layer for policies; leave it out, or name a policy"
        )
    spaces_of(options.policy)
    methods = (*METHODS, HALVING)
    if options.method not in methods:
        raise RunError(f"there is no search '{options.method}'; {did_you_mean(options.method, methods)}")
    if options.causal and options.method == HALVING:
        raise RunError("--causal judges proposals one by one, and halving has none; choose another --search")
    if options.aggregate and _learns(_first(options.policy)):
        raise RunError("--aggregate begins every evaluation with nothing learned; name a policy that learns nothing")
    times = options.times
    if times.recheck and (times.every % times.recheck or times.recheck < MINUTE):
        raise RunError("--recheck must divide --every, and be at least a minute, such as 5m")
    return options


def _spaces(policy: str) -> list[PolicySpace]:
    """What is searched; policies that learn keep their model only while the policy stays the same."""
    found = spaces_of(policy)
    if policy != ANY:
        return found
    return [space for space in found if not _learns(space.policy)]


def _learns(policy: str) -> bool:
    found = capability(Learns, policy_of(policy))
    return found is not None and bool(found.predictor)


def _first(policy: str) -> str:
    return AGAINST if policy == ANY else policy
