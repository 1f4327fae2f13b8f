"""What an autopilot may choose: built-in policies with the settings that an operator allows, and nothing else.

A policy text may come from a journal, which is a file.  It is parsed and compared with the declared ranges; nothing is
imported by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from shunter import registry
from shunter.capabilities import Compilable, Holds, Learns, capability
from shunter.errors import PolicyError, ShunterError, did_you_mean
from shunter.live.switch_log import LONGEST_POLICY
from shunter.params import Among, Between, Growing, named
from shunter.protocols import Policy
from shunter.scheduling.resizing.policy import Resizing
from shunter.tuning.spaces import PolicySpace, SearchedParam, choosable, first_name, space_of

USUAL = ("saf:backfill=easy", "sjf:backfill=easy", "wfp3:backfill=easy", "srsf", "tiresias")


@dataclass(frozen=True)
class Candidates:
    """Policies as texts; what a text does not set, and the policy declares worth searching, is searched."""

    texts: tuple[str, ...]
    baseline: str  # where it begins, and where it returns to

    @classmethod
    def of(cls, texts: Sequence[str], baseline: str) -> Candidates:
        """Checked and spelled out; none: the usual ones."""
        known = set(choosable())
        for text in texts:
            name = named(text)[0]
            why = _unusable(registry.policy(text)) if name in registry.names() else ""
            if name not in known and not why:
                other = first_name(name) if name in registry.names() else ""
                instead = f"it is '{other}'; name that one" if other else did_you_mean(name, _usable(known))
                raise PolicyError(f"the autopilot can't choose '{name}'; {instead}")
        made = [registry.policy(text) for text in (baseline, *(texts or USUAL))]
        base, *others = (registry.text(policy) for policy in made)
        found = cls(tuple(dict.fromkeys(text for text in others if text != base)), base)
        if not found.texts:
            raise PolicyError(f"the only candidate is the baseline, '{base}'; name another one")
        for text in (*found.first, *(text for space in found.spaces for text in space.some())):
            if why := _unusable(registry.policy(text)):
                raise PolicyError(f"the autopilot can't choose '{text}': it {why}; name another candidate")
        return found

    @cached_property
    def spaces(self) -> tuple[PolicySpace, ...]:
        """What is searched."""
        return tuple(space for text in self.texts if (space := space_of(text)).varies)

    @property
    def preferred(self) -> str:
        """The candidate named first: another one must be clearly better on the past to be the first choice."""
        return self.texts[0]

    @property
    def first(self) -> tuple[str, ...]:
        """What every search tries: the baseline and the candidates as they were set."""
        return (self.baseline, *self.texts)

    def contains(self, text: str) -> bool:
        """Whether a text from an untrusted file is one of these policies, with settings that are allowed."""
        if text in self.first:
            return True
        try:
            name, given = named(text[: LONGEST_POLICY + 1])
            fits = len(text) <= LONGEST_POLICY and any(_within(space, name, given) for space in self.spaces)
            return fits and registry.text(registry.policy(text)) == text  # only now is anything made of it
        except ShunterError:
            return False


def _usable(names: Iterable[str]) -> list[str]:
    """Those that it can choose as they are."""
    return [name for name in names if not _unusable(registry.policy(name))]


def _unusable(policy: Policy) -> str:
    """Why it can't choose a policy; "": it can."""
    learns = capability(Learns, policy)
    if learns is not None and learns.predictor:
        return "would lose its model with every switch"
    if policy.needs:
        return "knows the truth, and no site does"
    if capability(Holds, policy) is not None:
        return "holds jobs back"
    if isinstance(policy, Resizing):
        return "resizes jobs, and records don't say which jobs can be resized"
    if not isinstance(policy, Compilable):
        return "is not compiled, so that trying it would take too long"
    return ""


def _within(space: PolicySpace, name: str, given: dict[str, str]) -> bool:
    """Whether settings are those of the space's policy, and else within its ranges."""
    own_name, own = named(space.policy)
    dimensions = {each.key: each for each in space.dimensions}
    if name != own_name or any(given.get(key) != value for key, value in own.items()):
        return False
    return all(key in own or (key in dimensions and _allows(dimensions[key], value)) for key, value in given.items())


def _allows(about: SearchedParam, value: str) -> bool:
    """Whether a search could have found this value."""
    match about.search:
        case Among(values):
            return value in values
        case Growing(low, high, most, none):
            parts = value.split("/")
            return value == none or (len(parts) <= most and all(_between(part, low, high) for part in parts))
        case Between(low, high, _, off):
            return (off != "" and value == off) or _between(value, low, high)


def _between(text: str, low: float, high: float) -> bool:
    try:
        number = float(text)
    except ValueError:
        return False
    return math.isfinite(number) and low * (1 - 1e-9) <= number <= high * (1 + 1e-9)
