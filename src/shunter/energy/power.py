"""The power of nodes, awake and asleep, and the energy it adds up to."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.errors import EnergyError


@dataclass(frozen=True)
class PowerModel:
    """Watts; not published with CES: typical of nodes with eight GPUs.  What cools them draws as much again."""

    idle_w: float = 800.0  # a node that is awake, or waking up
    sleep_w: float = 10.0  # one that is asleep
    gpu_w: float = 200.0  # more for every GPU in use
    cooling: float = 2.0  # times all that

    def __post_init__(self) -> None:
        for name in ("idle_w", "sleep_w", "gpu_w"):
            if getattr(self, name) < 0:
                raise EnergyError(f"{name} must be 0 or more watts, got {getattr(self, name):g}; correct it")
        if self.cooling < 1:
            raise EnergyError(f"cooling must be 1 or more, 1 for none, got {self.cooling:g}; correct it")
        if self.sleep_w > self.idle_w:
            raise EnergyError(
                f"sleep_w must be at most idle_w ({self.idle_w:g}), got {self.sleep_w:g}; sleep would cost energy"
            )

    def kwh(self, awake_hours: float, asleep_hours: float, gpu_hours: float = 0.0) -> float:
        """For this many node-hours awake and asleep, and GPU-hours in use."""
        watt_hours = awake_hours * self.idle_w + asleep_hours * self.sleep_w + gpu_hours * self.gpu_w
        return self.cooling * watt_hours / 1000

    def saved(self, asleep_hours: float) -> float:
        """The kWh that this many node-hours of sleep save."""
        return self.kwh(asleep_hours, 0.0) - self.kwh(0.0, asleep_hours)
