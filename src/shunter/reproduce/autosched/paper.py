"""What is printed about AutoSched."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.adapting.study import AUTOSCHED, FIXED, HINDSIGHT, LABELS, OPTIMAL, SELFTUNE
from shunter.reproduce.autosched.design import BOTH_PARTS, CAUSAL_TUNER, QUARTER

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
    words: str = ""  # as it is printed, where it is no range: the range is what we take it for

    @property
    def text(self) -> str:
        """In words."""
        return f"{self.policy}: {LABELS.get(self.name, self.name)} over {LABELS.get(self.base, self.base)}"

    @property
    def direction(self) -> bool:
        """It is only said which one is better."""
        return self.low == 0 or self.high > MOST

    @property
    def printed(self) -> str:
        """The printed numbers."""
        if self.words:
            return self.words
        if self.low == self.high:
            return f"up to {self.high:.2f}x"
        if self.direction:
            return "above 1x" if self.high > MOST else "below 1x"
        return f"{self.low:.2f} to {self.high:.2f}x"


@dataclass(frozen=True)
class PrintedSaving:
    """How many times as fast a search of AutoSched is with other parts."""

    policy: str
    name: str
    base: str
    low: float  # the printed range over traces
    high: float
    source: str

    @property
    def text(self) -> str:
        """In words."""
        over = "" if self.base == AUTOSCHED else f", over that {self.base}"
        return f"{self.policy}: a search {self.name}{over}"

    @property
    def printed(self) -> str:
        """The printed numbers."""
        return f"up to {self.high:g}x" if self.low == self.high else f"{self.low:g} to {self.high:g}x"


@dataclass(frozen=True)
class PrintedTime:
    """How long a search takes, or one evaluation of it."""

    policy: str
    name: str
    printed: str
    source: str
    data: tuple[str, ...] = ()  # where it is said of some traces only
    evaluation: bool = False

    @property
    def text(self) -> str:
        """In words."""
        return (
            f"{self.policy}: {LABELS.get(self.name, self.name)}, {'an evaluation' if self.evaluation else 'a search'}"
        )


@dataclass(frozen=True)
class NotMeasured:
    """A printed result that has nothing of ours beside it, and why."""

    text: str
    printed: str
    source: str
    reason: str
    policy: str = ""  # "": of no scheduler


GAINS = (
    PrintedGain("tiresias", AUTOSCHED, SELFTUNE, 1.10, 1.36, "section 5.3"),
    PrintedGain("tiresias", SELFTUNE, HINDSIGHT, 1.0, 1e3, "Fig. 9", ("venus", "pai")),
    PrintedGain("tiresias", SELFTUNE, HINDSIGHT, 0.0, 1.0, "Fig. 9", ("philly",)),
    PrintedGain("tiresias", OPTIMAL, AUTOSCHED, 1.0, 1.1, "Fig. 9; we take up to 1.1x", ("venus", "pai"), "narrow gap"),
    PrintedGain("tiresias", AUTOSCHED, OPTIMAL, 1.0, 1e3, "Fig. 9", ("philly",)),
    PrintedGain("tiresias", SELFTUNE, FIXED, 3.8, 3.8, "Fig. 4b, the worst week", ("venus",)),
    PrintedGain("tiresias", OPTIMAL, SELFTUNE, 1.4, 1.4, "Fig. 4c", ("venus",)),
    PrintedGain("themis", AUTOSCHED, HINDSIGHT, 1.07, 1.12, "section 5.4"),
    PrintedGain("themis", AUTOSCHED, SELFTUNE, 1.12, 1.12, "introduction"),
    PrintedGain("lucid", AUTOSCHED, SELFTUNE, 1.15, 1.17, "section 5.5"),
    PrintedGain("lucid", AUTOSCHED, SELFTUNE, 1.46, 1.46, "abstract"),
    PrintedGain("tiresias", BOTH_PARTS, QUARTER, 1.0, 1e3, "Fig. 10: more evaluations, with them"),
    PrintedGain("themis", BOTH_PARTS, AUTOSCHED, 0.96, 0.96, "Fig. 14", ("philly",), "0.96x"),
    PrintedGain("themis", BOTH_PARTS, AUTOSCHED, 0.95, 0.95, "Fig. 14", ("pai",), "0.95x"),
    PrintedGain("lucid", CAUSAL_TUNER, AUTOSCHED, 1 / 1.05, 1.0, "section 5.5: JCT up to 5 % longer"),
)
SAVINGS = (
    PrintedSaving("tiresias", CAUSAL_TUNER, AUTOSCHED, 9.5, 22.7, "Fig. 11"),
    PrintedSaving("tiresias", BOTH_PARTS, CAUSAL_TUNER, 2.6, 5.8, "Fig. 12"),
    PrintedSaving("tiresias", BOTH_PARTS, AUTOSCHED, 132, 132, "abstract"),
    PrintedSaving("themis", CAUSAL_TUNER, AUTOSCHED, 4.8, 5.5, "Fig. 15"),
    PrintedSaving("themis", BOTH_PARTS, CAUSAL_TUNER, 1.9, 3.9, "Fig. 16"),
    PrintedSaving("lucid", CAUSAL_TUNER, AUTOSCHED, 3.4, 3.4, "Fig. 20a"),
)
TIMES = (
    PrintedTime("tiresias", SELFTUNE, "minutes", "section 2.3", ("venus",), evaluation=True),
    PrintedTime("tiresias", SELFTUNE, "tens of minutes", "Fig. 4d", ("venus",)),
    PrintedTime("tiresias", AUTOSCHED, "thousands of s", "Fig. 11, without either part"),
    PrintedTime("tiresias", CAUSAL_TUNER, "hundreds of s", "Fig. 11"),
    PrintedTime("tiresias", BOTH_PARTS, "most 30 s, all 100 s", "Fig. 12"),
)
NOT_MEASURED = (
    NotMeasured(
        "lucid: a search with aggregator", "up to 5.7x", "Fig. 20b",
        "Lucid learns, and an evaluation of merged jobs would begin with nothing learned, so we refuse it.", "lucid",
    ),
)  # fmt: skip
MODELS_NOT_MEASURED = (
    NotMeasured("accuracy lost without users", "3.77 (Helios), 7.18 (PAI)", "section 5.2", "Our files have no users."),
    NotMeasured(
        "jobs of PAI that repeat more than ten times", "about 60 %", "Fig. 2d",
        "Our sample does not say what a job trains.",
    ),
    NotMeasured(
        "period of the arrivals of Helios", "roughly 23 hours", "Fig. 2c",
        "It is not said which seven days. Frequencies of seven days have periods of 21 and 24 hours, and none between.",
    ),
)  # fmt: skip
ACCURACY = {  # Table 3, percent
    "XGBoost": (88.21, 90.41, 82.68),
    "LightGBM": (87.78, 89.93, 82.92),
    "RandomForest": (88.08, 88.19, 79.06),
    "MLP": (85.53, 86.37, 61.60),
    "LR": (84.93, 80.99, 65.79),
}
SECONDS = {  # Table 3, per 1,000 samples: to predict, to fit
    "XGBoost": (0.0331, 0.3291),
    "LightGBM": (0.0318, 0.2132),
    "RandomForest": (0.0420, 0.3489),
    "MLP": (0.0175, 3.1740),
    "LR": (0.0030, 0.1212),
}
CAUSAL_ERROR = (14.23, 11.17, 15.16)  # Table 4, percent
CAUSAL_SECONDS = (0.0927, 1.4731)  # Table 4, as in Table 3
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
    " and try it in every search. The paper does not say how its Fixed was searched, but for Fig. 4: exhaustively.",
    "Settings are drawn at random, in all runs alike; the paper has BlueFin (--search bluefin). The causal tuner judges"
    " these draws, learns its graph on the way by tests of its own, not by FCI, and has no offline phase. SelfTune"
    " gets predicted run times of unfinished jobs, which in the paper are a part of AutoSched.",
    "Optimal knows the next hour. Where it is hardly better than Fixed, a better forecast of that hour hardly helps.",
    "The files have one of Helios' four clusters, a sample of PAI, and no users; Philly begins too late for the paper's"
    " weeks to have a past, so its window is later. The paper's clusters have 560 to 800 GPUs, ours are as large as"
    " these parts of the traces need to queue.",
    "In Fig. 4, Fixed was searched on one week of Helios, and 3.8x is the worst of several weeks. Ours is searched on"
    " the days before those that are run, and is of all of these.",
    "A stop costs 62 s. Placements cost no time, so the pack limit of Tiresias is not searched. XGBoost is not used:"
    " LightGBM takes its place.",
)
SAVINGS_WHY = (
    "Times as fast: the median time of AutoSched's searches without the part over that with it, with its 95 % interval"
    " over stretches of hours. Other work on the machine changes it; evaluations do not depend on that. What was"
    " not run needs --ablations.",
    "An evaluation takes milliseconds here and minutes in the paper, whose simulator is written in Python. So there is"
    " less to save, and fitting the causal model and merging jobs cost time, too.",
    "The printed 132 is 22.7 times 5.8, the largest factor of each part; ours is that of both on one trace.",
)
