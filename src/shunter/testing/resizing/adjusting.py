"""Qore-DL's adjuster in plain Python: which jobs get more or fewer instances, by case, and two ways to search.

The four cases: (1) jobs are late and the cluster is not full: late jobs grow; (2) they are late and it is: late jobs
grow, and jobs with time to spare shrink; (3) none is late and it is nearly empty: jobs grow; (4) none is late and it
is crowded: jobs shrink. Who grows gains most time per resource, who shrinks loses least. Only the number of instances
is changed: CPU and memory per instance stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from shunter.testing.resizing.active import ActiveJobs
from shunter.world import F64

THETA = (0.35, 0.55, 0.70)
AT_ONCE = 2  # jobs adjusted in a round
POPULATION, GENERATIONS, CROSSOVER, MUTATION = 8, 4, 0.8, 0.003  # of the genetic search, as in the authors' code
BITS = 4  # of a change of width


@dataclass(frozen=True, eq=False)
class AdjusterCases:
    """What the adjuster knows: jobs that run, how late each will be, and how full the cluster is."""

    active: ActiveJobs
    speeds: F64  # (jobs, GPUs + 1)
    late: F64  # ms; below 0: time to spare
    usage: float  # U
    free: int  # instances

    def time_left(self, at: int, width: int) -> float:
        """How long a job still takes at a width, ms."""
        return float(self.active.left[at] / max(self.speeds[at, width], 1e-9))

    def saved(self, at: int, width: int) -> float:
        """Time that a job saves by a change of width, ms; below 0: it loses."""
        return self.time_left(at, int(self.active.width[at])) - self.time_left(at, width)

    def gained(self, at: int, width: int) -> float:
        """How good it is for a job to be so wide: time saved, less the cost of the change, ms."""
        return self.saved(at, width) - float(self.active.cost[at])

    def ease(self, at: int, width: int) -> float:
        """How little a job minds to be so narrow."""
        return 1 / max(self.sensitivity(at, width), 1e-9)

    def sensitivity(self, at: int, width: int) -> float:
        """Time saved, or lost, per instance that is added or given up."""
        more = abs(width - int(self.active.width[at]))
        return abs(self.saved(at, width)) / more if more else 0.0


Search = Callable[[Sequence[int], Callable[[int], float]], int]


def adjusted(cases: AdjusterCases, search: Search) -> dict[int, int]:
    """The jobs whose width changes, and their new widths."""
    active = cases.active
    may = [at for at in range(len(active)) if active.runs[at] and not active.stays[at]]
    late = [at for at in may if cases.late[at] > 0]
    early = [at for at in may if cases.late[at] < 0]
    low, middle, high = THETA
    found: dict[int, int] = {}
    if late and cases.usage <= middle:
        found |= _grown(cases, late, cases.free, search)
    elif late:
        found |= _shrunk(cases, early, search)
        found |= _grown(cases, late, cases.free + _given_up(active, found), search)
    elif cases.usage <= low:
        found |= _grown(cases, may, cases.free, search)
    elif cases.usage > high:
        found |= _shrunk(cases, may, search)
    return found


def _given_up(active: ActiveJobs, found: dict[int, int]) -> int:
    return sum(int(active.width[at]) - width for at, width in found.items())


def _grown(cases: AdjusterCases, jobs: Sequence[int], free: int, search: Search) -> dict[int, int]:
    """The jobs that gain most per instance, each as wide as is best for it."""
    active, found = cases.active, {}
    ranked = [at for at in jobs if active.width[at] < active.most[at]]
    ranked.sort(key=lambda at: (-cases.sensitivity(at, int(active.width[at]) + 1), at))
    for at in ranked[:AT_ONCE]:
        widest = min(int(active.most[at]), int(active.width[at]) + free)
        options = list(range(int(active.width[at]) + 1, widest + 1))
        if options:
            found[at] = search(options, partial(cases.gained, at))
            free -= found[at] - int(active.width[at])
    return found


def _shrunk(cases: AdjusterCases, jobs: Sequence[int], search: Search) -> dict[int, int]:
    """The jobs that lose least per instance; none is shrunk beyond its deadline."""
    active, found = cases.active, {}
    ranked = [at for at in jobs if active.width[at] > active.least[at]]
    ranked.sort(key=lambda at: (cases.sensitivity(at, int(active.width[at]) - 1), at))
    for at in ranked[:AT_ONCE]:
        fine = [
            width
            for width in range(int(active.least[at]), int(active.width[at]))
            if cases.late[at] - cases.saved(at, width) + active.cost[at] < 0
        ]
        if fine:
            found[at] = search(fine, partial(cases.ease, at))
    return found


def exhaustive(options: Sequence[int], fitness: Callable[[int], float]) -> int:
    """The best of all options; of equal ones the first."""
    return max(options, key=lambda option: (fitness(option), -option))


def genetic(draw: Callable[[], float]) -> Search:
    """The authors' search: codes of bits, roulette, one-point crossover, mutation of one bit."""

    def search(options: Sequence[int], fitness: Callable[[int], float]) -> int:
        worth = [fitness(option) for option in options]
        codes, best = [int(draw() * 2**BITS) for _ in range(POPULATION)], -1
        for _ in range(GENERATIONS):
            for place in (code % len(options) for code in codes):
                best = place if best < 0 or worth[place] > worth[best] else best
            codes = _bred(codes, [worth[code % len(options)] for code in codes], draw)
        return int(options[best])

    return search


def _bred(codes: list[int], worth: list[float], draw: Callable[[], float]) -> list[int]:
    """The next generation."""
    chance = [each - min(worth) + 1e-4 for each in worth]
    total = 0.0
    for each in chance:
        total += each

    def parent() -> int:
        left = draw() * total
        for code, each in zip(codes, chance, strict=True):
            left -= each
            if left < 0:
                return code
        return codes[-1]

    found = []
    for _ in codes:
        one, other = parent(), parent()
        if draw() < CROSSOVER:
            mask = (1 << (1 + int(draw() * (BITS - 1)))) - 1
            one = (one & ~mask) | (other & mask)
        if draw() < MUTATION:
            one ^= 1 << int(draw() * BITS)
        found.append(one)
    return found
