"""What is searched on: the unfinished jobs and an hour of arrivals, as a simulation that begins now.

``past`` repeats the hour before, as SelfTune does; ``generated`` is AutoSched's generation engine; ``truth`` is the
hour that comes, and the true run times, which no site knows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from shunter.adapting.knowledge import SiteKnowledge
from shunter.generating.arrivals import LAST_HOUR, ArrivalRule
from shunter.generating.durations import DurationPredictor
from shunter.generating.known_jobs import HOUR
from shunter.sim.engine import Simulator


class OutlookSource(Protocol):
    """Where the next hour comes from."""

    def outlook(self, simulator: Simulator, now: int) -> Simulator:
        """The unfinished jobs and the arrivals up to an hour from now."""


class TrueHour:
    """What really comes: the best that any forecast could do."""

    def outlook(self, simulator: Simulator, now: int) -> Simulator:
        """The arrivals of the trace, and true run times."""
        coming = simulator.coming
        return simulator.excerpt(coming[simulator.trace.submit[coming] <= now + HOUR])


@dataclass
class ReplayedHour:
    """A past hour by a rule, with run times of unfinished jobs by a predictor; it knows nothing of what comes."""

    knowledge: SiteKnowledge
    rule: ArrivalRule = LAST_HOUR
    predictor: DurationPredictor = field(default_factory=DurationPredictor)
    seed: int = 0
    unplayed: int = 0  # jobs that were left out: none of the run asks for the same

    def outlook(self, simulator: Simulator, now: int) -> Simulator:
        """The hour that the rule names, moved to now."""
        known = self.knowledge.at(simulator, now)
        durations = self.predictor.of_all(known, now)
        rows, submit = self.rule.replay(known, now, self.seed)
        players = self.knowledge.players(rows)
        played = players >= 0
        self.unplayed += int((~played).sum())
        mine = np.ones(len(self.knowledge.trace), np.int64)  # jobs to come have no run time yet
        own = durations[self.knowledge.offset :]
        mine[: len(own)] = own
        return simulator.excerpt(players[played], submit[played], mine, durations[rows[played]])
