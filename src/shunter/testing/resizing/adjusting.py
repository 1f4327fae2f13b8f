"""Qore-DL's adjuster in plain Python: which jobs get more or less, by case, and two ways to search.

The four cases: (1) jobs are late and the cluster is not full: late jobs grow; (2) they are late and it is: late jobs
grow, and jobs with time to spare shrink; (3) none is late and it is nearly empty: jobs grow; (4) none is late and it
is crowded: jobs shrink. Who grows gains most time per resource, who shrinks loses least. A change is of the number of
instances, or of the CPU of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from shunter.testing.resizing.active import ActiveJobs
from shunter.world import F64, I64

THETA = (0.35, 0.55, 0.70)
AT_ONCE = 2  # jobs adjusted in a round
POPULATION, GENERATIONS, CROSSOVER, MUTATION = 8, 4, 0.8, 0.003  # of the genetic search, as in the authors' code
BITS = 4  # of a change; where CPU can be changed, one more says whether it is
LEVELS = 8  # of a change of CPU


@dataclass(frozen=True)
class Option:
    """What a job could have."""

    width: int
    cpu: int  # milli-cores of each instance
    vertical: bool = False


@dataclass(frozen=True, eq=False)
class AdjusterCases:
    """What the adjuster knows: jobs that run, how late each will be, and how full the cluster is."""

    active: ActiveJobs
    speed: Callable[[int, int, int], float]  # of a job by width and CPU
    late: F64  # ms; below 0: time to spare
    usage: float  # U
    free: int  # instances
    cpu: I64  # milli-cores of each instance, now
    ends: tuple[I64, I64]  # the least and the most that each may have
    room: Callable[[int], int]  # how much more each instance of a job could have where it is

    def time_left(self, at: int, option: Option) -> float:
        """How long a job still takes, ms."""
        return float(self.active.left[at] / max(self.speed(at, option.width, option.cpu), 1e-9))

    def now(self, at: int) -> Option:
        """What a job has."""
        return Option(int(self.active.width[at]), int(self.cpu[at]))

    def saved(self, at: int, option: Option) -> float:
        """Time that a job saves by a change, ms; below 0: it loses."""
        return self.time_left(at, self.now(at)) - self.time_left(at, option)

    def gained(self, at: int, option: Option) -> float:
        """How good a change is: time saved, less the cost of the change, ms."""
        return self.saved(at, option) - float(self.active.cost[at])

    def ease(self, at: int, option: Option) -> float:
        """How little a job minds to have so little."""
        return 1 / max(self.sensitivity(at, option), 1e-9)

    def sensitivity(self, at: int, option: Option) -> float:
        """Time saved, or lost, per instance, or as much CPU as one has, that is added or given up."""
        now = self.now(at)
        more = float(abs(option.width - now.width))
        if option.cpu != now.cpu:
            more = option.width * abs(option.cpu - now.cpu) / now.cpu
        return abs(self.saved(at, option)) / more

    def steps(self, at: int, sign: int) -> list[float]:
        """The sensitivity of one instance more or less, and of that much CPU spread over all."""
        now, active = self.now(at), self.active
        options = [Option(now.width + sign, now.cpu)] if _inside(active, at, now.width + sign) else []
        end = int(self.ends[sign > 0][at])
        if end != now.cpu:
            step = now.cpu + sign * max(now.cpu // now.width, 1)
            options.append(Option(now.width, min(step, end) if sign > 0 else max(step, end)))
        return [self.sensitivity(at, option) for option in options]

    def levels(self, at: int, sign: int) -> list[Option]:
        """Other CPU for each instance."""
        now, end, found = self.now(at), int(self.ends[sign > 0][at]), [int(self.cpu[at])]
        for level in range(1, LEVELS + 1) if end != now.cpu else ():
            if sign > 0:
                cpu = min(now.cpu + int(0.36 * now.cpu * level / LEVELS), end, now.cpu + self.room(at))
            else:
                cpu = max(now.cpu - int((0.05 + (0.5 - 0.05) * (level - 1) / (LEVELS - 1)) * now.cpu), end)
            found += [cpu] if cpu != found[-1] else []
        return [Option(now.width, cpu, vertical=True) for cpu in found[1:]]


def _inside(active: ActiveJobs, at: int, width: int) -> bool:
    return bool(active.least[at] <= width <= active.most[at])


Search = Callable[[Sequence[Option], Callable[[Option], float]], Option]


def adjusted(cases: AdjusterCases, search: Search) -> dict[int, Option]:
    """The jobs that change, and what they get."""
    active = cases.active
    may = [at for at in range(len(active)) if active.runs[at] and not active.stays[at]]
    late = [at for at in may if cases.late[at] > 0]
    early = [at for at in may if cases.late[at] < 0]
    low, middle, high = THETA
    found: dict[int, Option] = {}
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


def _given_up(active: ActiveJobs, found: dict[int, Option]) -> int:
    return sum(int(active.width[at]) - option.width for at, option in found.items())


def _grown(cases: AdjusterCases, jobs: Sequence[int], free: int, search: Search) -> dict[int, Option]:
    """The jobs that gain most per resource, each as is best for it."""
    active, found = cases.active, {}
    gains = {at: max(steps) for at in jobs if (steps := cases.steps(at, +1))}
    for at in sorted(gains, key=lambda at: (-gains[at], at))[:AT_ONCE]:
        now = cases.now(at)
        widest = min(int(active.most[at]), now.width + free)
        options = [Option(width, now.cpu) for width in range(now.width + 1, widest + 1)] + cases.levels(at, +1)
        if options:
            found[at] = search(options, partial(cases.gained, at))
            free -= found[at].width - now.width
    return found


def _shrunk(cases: AdjusterCases, jobs: Sequence[int], search: Search) -> dict[int, Option]:
    """The jobs that lose least per resource; none is shrunk beyond its deadline."""
    active, found = cases.active, {}
    losses = {at: min(steps) for at in jobs if (steps := cases.steps(at, -1))}
    for at in sorted(losses, key=lambda at: (losses[at], at))[:AT_ONCE]:
        now = cases.now(at)
        options = [Option(width, now.cpu) for width in range(int(active.least[at]), now.width)] + cases.levels(at, -1)
        fine = [option for option in options if cases.late[at] - cases.saved(at, option) + active.cost[at] < 0]
        if fine:
            found[at] = search(fine, partial(cases.ease, at))
    return found


def exhaustive(options: Sequence[Option], fitness: Callable[[Option], float]) -> Option:
    """The best of all options; of equal ones the first."""
    return max(options, key=fitness)


def genetic(draw: Callable[[], float]) -> Search:
    """The authors' search: codes of bits, roulette, one-point crossover, mutation of one bit."""

    def search(options: Sequence[Option], fitness: Callable[[Option], float]) -> Option:
        across = [option for option in options if not option.vertical]
        upwards = [option for option in options if option.vertical]
        bits = BITS + bool(upwards)

        def meant(code: int) -> Option:
            kind = upwards if upwards and (code >= 2**BITS or not across) else across
            return kind[code % (1 << BITS) % len(kind)]

        codes, best = [int(draw() * 2**bits) for _ in range(POPULATION)], None
        for _ in range(GENERATIONS):
            for option in map(meant, codes):
                best = option if best is None or fitness(option) > fitness(best) else best
            codes = _bred(codes, [fitness(meant(code)) for code in codes], draw, bits)
        assert best is not None
        return best

    return search


def _bred(codes: list[int], worth: list[float], draw: Callable[[], float], bits: int) -> list[int]:
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
            mask = (1 << (1 + int(draw() * (bits - 1)))) - 1
            one = (one & ~mask) | (other & mask)
        if draw() < MUTATION:
            one ^= 1 << int(draw() * bits)
        found.append(one)
    return found
