"""What the paper prints: Tables II and III, and the claims of section VI; and whether we reproduce them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from shunter.report.bootstrap import FEWEST, Estimate
from shunter.reproduce.claims import TOLERANCE, place
from shunter.reproduce.dally.design import (
    CONSOLIDATED,
    DALLY,
    GANDIVA,
    MANUAL,
    NO_WAIT,
    PAPERS,
    RACKS,
    SHOWN,
    TIRESIAS,
    Design,
)
from shunter.reproduce.trials import Scheduler, Trials
from shunter.world import F64

Over: TypeAlias = Literal["each", "most", "mean"]  # at each cluster size, at the one where it is most, in the mean

MEASURES = ("jct_mean_s", "jct_p50_s", "jct_p95_s", "jct_p99_s")
PRINTED = {  # JCT in seconds on 8 racks: mean, median, P95, P99
    "batch": {
        GANDIVA: (5828719, 183717, 17485823, 39214710),
        TIRESIAS: (4461998, 2547080, 17841606, 25696135),
        MANUAL: (3128566, 2552189, 7097646, 8868401),
        DALLY: (2828955, 2401390, 5983042, 8395214),
    },
    "poisson": {
        GANDIVA: (17371514, 22722917, 71362014, 208939883),
        TIRESIAS: (4329941, 4212795, 15059080, 15390860),
        MANUAL: (4960727, 2787855, 39298828, 39817762),
        DALLY: (2831880, 2595529, 16469069, 16681241),
    },
}
TABLES = {"batch": "Table II", "poisson": "Table III"}
WITHIN = "within 10 %"
NAMES = {
    "makespan_s": "makespan",
    "jct_mean_s": "mean JCT",
    "jct_p50_s": "median JCT",
    "jct_p95_s": "P95 of JCT",
    "jct_p99_s": "P99 of JCT",
    "wait_mean_s": "mean queueing delay",
    "wait_p95_s": "P95 of queueing delay",
    "wait_p99_s": "P99 of queueing delay",
    "communication_mean_s": "communication time",
}


def printed(workload: str, scheduler: Scheduler, measure: str) -> float | None:
    """The figure of Table II or III, if there is one."""
    found = PRINTED[workload].get(scheduler)
    return float(found[MEASURES.index(measure)]) if found and measure in MEASURES else None


@dataclass(frozen=True)
class ChangeClaim:
    """By which part a measure of one scheduler is above (below: negative) that of others; of several, the best one."""

    workload: str
    measure: str
    against: tuple[Scheduler, ...]
    low: float  # the printed change, from .. to; of one number both are the same, without one infinite
    high: float
    printed_as: str = ""  # what is printed; made of the numbers if empty
    whose: Scheduler = DALLY
    racks: tuple[int, ...] = RACKS
    over: Over = "each"

    @property
    def text(self) -> str:
        """What is compared, in words."""
        others = self.against[0].label if len(self.against) == 1 else "the least of the others"
        over = {"each": "", "most": ", where most", "mean": ", mean of sizes"}[self.over]
        return f"{NAMES[self.measure]}, {self.whose.label} against {others}{over}"

    @property
    def below(self) -> bool:
        """Whether it says: below."""
        return self.low < 0

    @property
    def sized(self) -> bool:
        """Whether it says by how much."""
        return bool(np.isfinite(self.low + self.high))

    @property
    def printed(self) -> str:
        """What is printed, in words."""
        if self.printed_as or not self.sized:
            return self.printed_as or ("below" if self.below else "above")
        ends = sorted({f"{100 * abs(end):.0f}" for end in (self.low, self.high)}, key=float)
        most = "up to " if self.over == "most" else ""
        return f"{most}{' to '.join(ends)} % {'below' if self.below else 'above'}"


def _claims() -> Iterator[ChangeClaim]:
    below, above = (-np.inf, -np.inf), (np.inf, np.inf)
    tiresias, gandiva, dally = (TIRESIAS,), (GANDIVA,), (DALLY,)
    others = tuple(s for s in PAPERS if s is not DALLY)
    larger = tuple(n for n in RACKS if n > 2)

    m, c, j = "makespan_s", "communication_mean_s", "jct_mean_s"
    yield ChangeClaim("batch", m, tiresias, -0.69, -0.69, over="most")
    yield ChangeClaim("batch", m, tiresias, -0.68, -0.68, over="mean")
    yield ChangeClaim("batch", m, gandiva, -0.92, -0.92, over="most")
    yield ChangeClaim("batch", m, dally, *above, whose=MANUAL)
    yield ChangeClaim("batch", m, tiresias, *below, whose=MANUAL)
    yield ChangeClaim("batch", m, gandiva, *below, whose=MANUAL)
    yield ChangeClaim("batch", m, tiresias, *above, whose=NO_WAIT, racks=larger)
    yield ChangeClaim("batch", m, tiresias, *below, whose=NO_WAIT, racks=(2,))
    yield ChangeClaim("batch", m, dally, *above, whose=CONSOLIDATED)
    yield ChangeClaim("batch", m, tiresias, *below, whose=CONSOLIDATED)
    yield ChangeClaim("batch", "wait_mean_s", tiresias, -0.31, -0.18)
    yield ChangeClaim("batch", "wait_p95_s", tiresias, -0.71, -0.58)
    yield ChangeClaim("batch", "wait_p99_s", tiresias, -0.78, -0.67)
    yield ChangeClaim("batch", "wait_p95_s", gandiva, -0.81, -0.81, over="most")
    yield ChangeClaim("batch", "wait_p99_s", gandiva, -0.81, -0.81, over="most")
    yield ChangeClaim("batch", c, tiresias, -0.83, -0.53)
    yield ChangeClaim("batch", c, tiresias, -0.66, -0.66, over="mean")
    yield ChangeClaim("batch", c, others, *below)
    yield ChangeClaim("batch", j, tiresias, -0.36, -0.19)
    yield ChangeClaim("batch", j, tiresias, -0.26, -0.26, over="mean")
    yield ChangeClaim("batch", j, gandiva, -0.51, -0.23, racks=larger)
    yield ChangeClaim("batch", j, gandiva, 0.39, 0.39, racks=(2,))
    yield ChangeClaim("batch", j, others, *below, racks=(SHOWN,))
    yield ChangeClaim("poisson", j, tiresias, -0.34, -0.16, racks=(2, 8, 16))
    yield ChangeClaim("poisson", j, tiresias, *above, racks=(4,))
    yield ChangeClaim("poisson", j, gandiva, -0.51, -0.23)
    yield from _read_off_table_iii()


def _read_off_table_iii() -> Iterator[ChangeClaim]:
    for against, changes in ((TIRESIAS, (-0.35, -0.38)), (GANDIVA, (-0.83, -0.88, -0.76, -0.92))):
        for measure, change in zip(MEASURES, changes, strict=False):
            yield ChangeClaim("poisson", measure, (against,), change, change, racks=(SHOWN,))
    for measure in MEASURES[2:]:
        yield ChangeClaim("poisson", measure, (TIRESIAS,), -0.1, 0.1, WITHIN, racks=(SHOWN,))


CLAIMS = tuple(_claims())


@dataclass(frozen=True)
class ChangeClaimResult:
    """A claim and our result."""

    claim: ChangeClaim
    ours: dict[int, Estimate]  # the change by cluster size
    judged: dict[str, Estimate]  # what the claim is about: the same, or one number of all sizes
    counted: bool  # there are enough repeats for intervals, and all cluster sizes that it names were run

    @property
    def direction(self) -> str:
        """Whether it is below or above as printed: yes, no, not clear, or where."""
        right = -1 if self.claim.below else 1
        sides = {name: _side(change) * right for name, change in self.judged.items()}
        if self.claim.printed_as == WITHIN:
            return "-"
        if set(sides.values()) <= {1} or set(sides.values()) <= {-1}:
            return "yes" if 1 in sides.values() else "no"
        holds, fails = ([name for name, side in sides.items() if side == wanted] for wanted in (1, -1))
        return f"at {_racks(holds)}" if holds else f"not at {_racks(fails)}" if fails else "not clear"

    @property
    def size(self) -> str:
        """Whether it is as large as printed: yes, smaller, larger, not clear, or where it is."""
        if not self.claim.sized:
            return "-"
        found = {name: _size(change, self.claim) for name, change in self.judged.items()}
        inside, kinds = [name for name, size in found.items() if size == "yes"], set(found.values())
        if len(kinds) == 1:
            return kinds.pop()
        return f"at {_racks(inside)}" if inside else "not clear" if "not clear" in kinds else "no"

    @property
    def comes_out(self) -> bool:
        """Whether all of it does."""
        return self.counted and self.direction in ("yes", "-") and self.size in ("yes", "-")


def _racks(names: Sequence[str]) -> str:
    return f"{', '.join(names)} racks"


def _ends(ours: Estimate) -> tuple[float, float]:
    """The interval; of too few repeats it is all that could be."""
    return (ours.low, ours.high) if np.isfinite(ours.low) else (-math.inf, math.inf)


def _side(ours: Estimate) -> int:
    """1: all of the interval is above 0, -1: below, 0: neither."""
    low, high = _ends(ours)
    return int(low > 0) - int(high < 0)


def _size(change: Estimate, claim: ChangeClaim) -> str:
    """How the size of a change compares with the printed one; a range within which it should be is not widened."""
    within = claim.printed_as == WITHIN
    found = place(Estimate(*(1 + end for end in change)), 1 + claim.low, 1 + claim.high, 1.0 if within else TOLERANCE)
    if found in ("inside", "not clear"):
        return "yes" if found == "inside" else found
    if within:
        return "larger"
    if _side(change) == (1 if claim.below else -1):
        return "no"
    return "larger" if (found == "below") == claim.below else "smaller"


def findings(design: Design, trials: Trials) -> list[ChangeClaimResult]:
    """The judged claims about what was run."""
    return [found for claim in CLAIMS if (found := _finding(claim, design, trials))]


def _finding(claim: ChangeClaim, design: Design, trials: Trials) -> ChangeClaimResult | None:
    racks = [size for size in claim.racks if size in design.racks]
    if claim.workload not in design.workloads or not racks or not design.has(claim.whose, *claim.against):
        return None
    counted = trials.repeats >= FEWEST and racks == list(claim.racks)
    draws = {size: _changes(claim, design, trials, size) for size in racks}
    ours = {size: trials.estimate(changes) for size, changes in draws.items()}
    table = np.stack(list(draws.values()))
    if claim.over == "each":
        return ChangeClaimResult(claim, ours, {str(size): change for size, change in ours.items()}, counted)
    one = table.mean(axis=0) if claim.over == "mean" else table.min(axis=0)
    return ChangeClaimResult(claim, ours, {claim.over: trials.estimate(one)}, counted)


def verdict(found: Sequence[ChangeClaimResult]) -> str:
    """How many claims come out, in words; none is counted where that takes more repeats or cluster sizes."""
    counted = [one for one in found if one.counted]
    if not counted:
        return (
            f"No claim is counted: that takes {FEWEST} repeats at least, for intervals, and all cluster sizes that the"
            " claim names."
        )
    whole = sum(one.comes_out for one in counted)
    sides = sum(one.direction == "yes" and not one.comes_out for one in counted)
    return (
        f"Of {len(counted)} claims of the paper, {whole} come out at all cluster sizes that they name, {sides} in"
        f" direction but not in size, and {len(counted) - whole - sides} not, or not clearly."
    )


def _changes(claim: ChangeClaim, design: Design, trials: Trials, racks: int) -> F64:
    cases = [design.case(claim.workload, racks, s.policy) for s in (claim.whose, *claim.against)]
    best = min(cases[1:], key=lambda case: trials.of(case, claim.measure).value)
    return trials.changes(cases[0], best, claim.measure)
