"""Where a controller gets its policy: one that never changes, or a source that may change it in any round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from shunter.live.backend import Round
from shunter.protocols import Policy


@dataclass(frozen=True)
class PolicyChoice:
    """A policy, and why it is this one."""

    policy: Policy
    why: str = ""
    evidence: str = ""  # numbers that a person can check


class PolicySource(ABC):
    """Decides which policy orders the queue.  A controller calls it in every round, so it must answer at once."""

    name: str  # as people call it; "": the policy never changes, and nothing is noted of it
    remark: str  # what people should know now, such as why it can't choose yet; "": nothing

    @abstractmethod
    def begin(self, in_force: str, switched: float | None) -> PolicyChoice:
        """The policy of the first round, by what the journal says; it may be called more than once.

        ``in_force`` was last, "": nothing was; and when the policy was last ``switched``, in seconds since 1970, None:
        never.  The text comes from a file: a source must check it before it makes a policy of it.
        """

    @abstractmethod
    def choose(self, current: Round, in_force: str) -> PolicyChoice | None:
        """The policy from this round on; None: the same as before, which is ``in_force``."""

    @abstractmethod
    def hand_back(self, why: str) -> PolicyChoice | None:
        """The policy to return to, because the jobs were handed back; None: the same as before."""

    @abstractmethod
    def close(self) -> None:
        """Called after the last round."""


@dataclass
class FixedPolicy(PolicySource):
    """A policy that never changes."""

    policy: Policy
    name: str = ""
    remark: str = ""

    def begin(self, in_force: str, switched: float | None) -> PolicyChoice:
        """The policy."""
        return PolicyChoice(self.policy)

    def choose(self, current: Round, in_force: str) -> PolicyChoice | None:
        """It stays."""
        return None

    def hand_back(self, why: str) -> PolicyChoice | None:
        """It stays."""
        return None

    def close(self) -> None:
        """There is nothing to end."""


def source_of(policy: Policy | PolicySource) -> PolicySource:
    """A source; of a policy the one that never changes."""
    return policy if isinstance(policy, PolicySource) else FixedPolicy(policy)
