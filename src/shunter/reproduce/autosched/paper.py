"""What is printed about AutoSched."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.adapting.study import AUTOSCHED, HINDSIGHT, LABELS, OPTIMAL, SELFTUNE

TITLE = "AutoSched: An adaptive self-configured framework for scheduling deep learning training workloads"

MOST = 100.0  # no printed gain is as large


@dataclass(frozen=True)
class PrintedGain:
    """How many times as good one is as another: mean JCT, or jobs with rho <= 1."""

    policy: str
    name: str
    base: str
    low: float  # the printed range over traces
    high: float
    source: str
    data: tuple[str, ...] = ()  # where it is said of some traces only

    @property
    def text(self) -> str:
        """In words."""
        return f"{self.policy}: {LABELS[self.name]} over {LABELS[self.base]}"

    @property
    def direction(self) -> bool:
        """It is only said which one is better."""
        return self.low == 0 or self.high > MOST

    @property
    def printed(self) -> str:
        """The printed numbers."""
        if self.low == self.high:
            return f"up to {self.high:.2f}x"
        if self.direction:
            return "above 1x" if self.high > MOST else "below 1x"
        return f"{self.low:.2f} to {self.high:.2f}x"


GAINS = (
    PrintedGain("tiresias", AUTOSCHED, SELFTUNE, 1.10, 1.36, "section 5.3"),
    PrintedGain("tiresias", SELFTUNE, HINDSIGHT, 1.0, 1e3, "Fig. 9", ("venus", "pai")),
    PrintedGain("tiresias", SELFTUNE, HINDSIGHT, 0.0, 1.0, "Fig. 9", ("philly",)),
    PrintedGain("tiresias", OPTIMAL, AUTOSCHED, 1.0, 1.1, "Fig. 9, a narrow gap"),
    PrintedGain("themis", AUTOSCHED, HINDSIGHT, 1.07, 1.12, "section 5.4"),
    PrintedGain("themis", AUTOSCHED, SELFTUNE, 1.12, 1.12, "abstract"),
    PrintedGain("lucid", AUTOSCHED, SELFTUNE, 1.15, 1.17, "section 5.5"),
    PrintedGain("lucid", AUTOSCHED, SELFTUNE, 1.46, 1.46, "abstract"),
)
ACCURACY = {  # Table 3, percent
    "XGBoost": (88.21, 90.41, 82.68),
    "LightGBM": (87.78, 89.93, 82.92),
    "RandomForest": (88.08, 88.19, 79.06),
    "MLP": (85.53, 86.37, 61.60),
    "LR": (84.93, 80.99, 65.79),
}
SIMILARITY = {  # Table 5, mean JCT, without a unit
    "manhattan": (2.851, 3.082, 2.988),
    "euclidean": (2.853, 3.089, 2.978),
    "pearson": (2.996, 3.160, 3.151),
    "cosine": (3.108, 3.195, 3.155),
}
DIFFERENCES = {"raw": (0.6, 2.3), "fft": (0.3, 1.0)}  # Fig. 8: jobs per hour, by day, least and most
TRACES = ("philly", "venus", "pai")  # the columns of these tables; Helios is all of its clusters
WHY = (
    "Fixed is searched here in up to as many evaluations as an adapting run has, and all adapting runs begin with it"
    " and try it in every search. The paper does not say how its Fixed was searched.",
    "Optimal knows the next hour. Where it is hardly better than Fixed, a better forecast of that hour hardly helps.",
    "The files have one of Helios' four clusters, a sample of PAI, and no users; Philly begins too late for the paper's"
    " weeks to have a past, so its window is later. The paper's clusters have 560 to 800 GPUs, ours are as large as"
    " these parts of the traces need to queue.",
    "A stop costs 62 s. Placements cost no time, so the pack limit of Tiresias is not searched. XGBoost is not used:"
    " LightGBM takes its place.",
)
