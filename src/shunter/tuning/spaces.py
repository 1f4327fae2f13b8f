"""What can be searched: the settings of policies as points, all coordinates from 0 to 1.

A space comes from the declared parameters of a policy that say what a search tries.  Some coordinates stand for
numbers, others for categories.  Queues with thresholds are dependent: one coordinate says how many there are, and only
as many of the others count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from shunter import extras, registry
from shunter.capabilities import Learns, Shares, Wraps, capability
from shunter.errors import PolicyError, did_you_mean
from shunter.params import Among, Between, Growing, declared, named
from shunter.predictors.models import model
from shunter.protocols import Policy
from shunter.seeding import rng
from shunter.variants import texts_of
from shunter.world import F64

ANY = "any"  # in place of a policy: all that a search may choose among
BACKFILL, EASY = "backfill", "easy"  # a parameter of most orders, and the value that each of them is tried with
OFF_SHARE = 0.25  # of draws in which a parameter that can be off is
SOME = 50  # draws that show whether a space has more than one policy, and whether all can be used
NOT_OURS = frozenset({"scored"})  # it needs a file


@dataclass(frozen=True)
class SearchedParam:
    """One parameter: how its coordinates become its text."""

    key: str
    search: Between | Among | Growing
    whole: bool  # it is a whole number

    @property
    def categories(self) -> tuple[int, ...]:
        """Of each coordinate: how many categories it has; 0: it is a number."""
        match self.search:
            case Among(values):
                return (len(values),)
            case Growing(_, _, most):
                return (most + 1, *[0] * most)
            case Between(off=off):
                return (2, 0) if off else (0,)

    def text(self, point: Sequence[float]) -> str:
        """The value at a point."""
        match self.search:
            case Among(values):
                return values[category(point[0], len(values))]
            case Growing(low, high, most, none):
                count = category(point[0], most + 1)
                found = sorted({_rounded(_scaled(at, low, high, True)) for at in point[1 : 1 + count]})
                return "/".join(f"{number:g}" for number in found) or none
            case Between(low, high, log, off):
                if off and point[0] <= OFF_SHARE:  # the middle of the first of two categories is that, too
                    return off
                value = _scaled(point[-1], low, high, log)
                return str(round(value)) if self.whole else f"{_rounded(value):g}"


def category(at: float, count: int) -> int:
    """Which of this many categories a coordinate stands for."""
    return min(int(at * count), count - 1)


def _scaled(at: float, low: float, high: float, log: bool) -> float:
    return low * (high / low) ** at if log else low + (high - low) * at


def _rounded(value: float) -> float:
    """To three digits: settings are read by people, and equal ones are run once."""
    return float(f"{value:.3g}")


@dataclass(frozen=True)
class PolicySpace:
    """The settings of one policy."""

    policy: str  # with the settings that stay as they are
    dimensions: tuple[SearchedParam, ...]
    also: tuple[str, ...] = ()  # what a search begins with besides the policy as it is

    @cached_property
    def categories(self) -> tuple[int, ...]:
        """Of each coordinate: how many categories it has; 0: it is a number."""
        return tuple(count for each in self.dimensions for count in each.categories)

    def text(self, point: F64) -> str:
        """The policy at a point, "" where its settings contradict each other."""
        settings, at = {}, 0
        for each in self.dimensions:
            size = len(each.categories)
            settings[each.key] = each.text(point[at : at + size].tolist())
            at += size
        try:
            return texts_of(self.policy, [settings])[0]
        except PolicyError:
            return ""

    def drawn(self, draws: np.random.Generator) -> F64:
        """A point anywhere."""
        return draws.random(len(self.categories))

    def some(self) -> set[str]:
        """Some of its policies: a setting may make use of what the policy as it was named does not."""
        draws = rng(0, "spaces")
        return {self.text(self.drawn(draws)) for _ in range(SOME if self.dimensions else 0)} - {""}

    @property
    def varies(self) -> bool:
        """Whether there is anything to search: settings may contradict what the text sets."""
        return len({registry.text(registry.policy(text)) for text in self.some() | {self.policy}}) > 1

    def near(self, point: F64, width: float, draws: np.random.Generator) -> F64:
        """A point in the neighbourhood: numbers move by about ``width``, few categories change."""
        moved = point + width * draws.standard_normal(len(point))
        moved = np.abs(moved) % 2  # reflected at 0 and 1
        moved = np.where(moved > 1, 2 - moved, moved)
        jumps, elsewhere = draws.random(len(point)) < width, draws.random(len(point))
        return np.where(np.array(self.categories) > 0, np.where(jumps, elsewhere, point), moved)


def space_of(policy: str) -> PolicySpace:
    """What a policy says is worth searching, without what its text sets."""
    name, given = named(policy)
    known = declared(registry.policy_class(name))
    return PolicySpace(
        policy,
        tuple(
            SearchedParam(key, about.search, kind is int)
            for key, (kind, _, about) in known.items()
            if about.search is not None and key not in given
        ),
    )


def spaces_of(policy: str) -> list[PolicySpace]:
    """The space of a policy, or of ``any``: of all that a search may choose among."""
    if policy.startswith((f"{ANY}:", f"{ANY},")):
        raise PolicyError(f"'{ANY}' stands for all policies and takes no settings, got '{policy}'; name one policy")
    names = choosable() if policy == ANY else [policy]
    try:
        found = [space_of(name) for name in names]
    except PolicyError:
        known = (ANY, *registry.names())
        if not (hint := did_you_mean(policy, known)).startswith(f"did you mean '{ANY}'"):
            raise
        raise PolicyError(f"there is no policy '{policy}'; {hint}") from None
    if not any(each.dimensions for each in found):
        raise PolicyError(f"policy '{policy}' declares no range to search; give --try KEY=VALUE/VALUE")
    return [replace(each, also=_backfilled(each.policy)) for each in found] if policy == ANY else found


def _backfilled(name: str) -> tuple[str, ...]:
    """The policy with backfilling, if that is not its default: without it, most orders look far worse than they are."""
    known = declared(registry.policy_class(name))
    if BACKFILL not in known or EASY not in (known[BACKFILL][2].choices or ()):
        return ()
    (text,) = texts_of(name, [{BACKFILL: EASY}])
    made = registry.policy(text)
    return (text,) if text != registry.text(registry.policy(name)) and not made.needs else ()


def choosable() -> list[str]:
    """Our policies that any site can use: they know no truth, share no GPU, let no node sleep, and need no file."""
    found = []
    for name in registry.names():
        cls = registry.policy_class(name)
        ours = cls.__module__.startswith("shunter.") and name not in NOT_OURS
        if not ours or issubclass(cls, Shares | Wraps) or first_name(name):
            continue
        if _is_usable(registry.policy(name)):
            found.append(name)
    return found


def first_name(name: str) -> str:
    """The policy of which this name is a second one, such as ``gittins`` of ``express``; "": there is none."""
    cls = registry.policy_class(name)
    return next((other for other in registry.names() if _renames(cls, registry.policy_class(other))), "")


def _renames(cls: type, other: type) -> bool:
    """Whether a policy is another one by a second name: it has the same parameters, and changes no method."""
    inherits = cls is not other and issubclass(cls, other) and declared(cls) == declared(other)
    return inherits and not any(
        name in dir(other) for name, value in vars(cls).items() if callable(value) and name[0] != "_"
    )


def _is_usable(policy: Policy) -> bool:
    """Whether it is no oracle, and what its model needs is installed."""
    learns = capability(Learns, policy)
    module = model(learns.predictor).module if learns is not None and learns.predictor else ""
    return not policy.needs and (not module or extras.is_there(module))
