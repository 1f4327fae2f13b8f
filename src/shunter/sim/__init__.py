"""The simulated world."""

from shunter.sim.engine import Simulator
from shunter.sim.scenario import Fault, Scenario, Warm, random_faults

__all__ = ["Fault", "Scenario", "Simulator", "Warm", "random_faults"]
