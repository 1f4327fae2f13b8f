"""What is run: learned orders and known ones on windows of jobs, each with true run times and with estimates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shunter.learning.training import REFERENCE

TRUTH, ESTIMATES = "truth", "estimates"  # what orders know of run times
SOURCES = {TRUTH: "oracle", ESTIMATES: "history"}  # of the policies ...
QSSF_SOURCES = {TRUTH: "noisy", ESTIMATES: "rolling"}  # ... and of QSSF: as in its artifact; from similar jobs
WORDS = {TRUTH: "true run times", ESTIMATES: "estimates"}
WINDOW, LONG_WINDOW, RUN = 256, 1024, 10_000  # jobs: of Table 9 and of training, of Fig. 12, of Fig. 17
VISIBLE = 128  # jobs in view, as in RLTune's and RLScheduler's code
QUEUES = (128, 256, 512, 1024, 10_000)  # waiting jobs for which a decision is timed
EASY = ":backfill=easy"


@dataclass(frozen=True)
class Entrant:
    """What is judged: an order, or an agent that is trained first."""

    label: str
    policy: str  # the order; for an agent, what its reward is relative to, and what an inspector inspects
    agent: str = ""  # "": nothing is learned
    objective: str = "wait"
    of_qssf: bool = False  # it goes by QSSF's estimates, not by those of the others
    solver: bool = False  # places by RLTune's program
    learned_from: str = ""  # what it knew of run times in training, if that is not what it knows when judged
    origin: str = ""  # the data that it was trained on, if these are not those on which it is judged

    def joins(self, data: str, information: str) -> bool:
        """Whether it is judged there."""
        return self.learned_from != information and self.origin != data


@dataclass(frozen=True)
class AgentTraining:
    """An agent that is trained: on which jobs, with what it knows of run times, and by which seed."""

    data: str
    information: str
    agent: str
    base: str
    objective: str
    seed: int

    @property
    def place(self) -> tuple[str, str]:
        """What trainings that take about as long share."""
        return self.data, self.information

    @property
    def policy(self) -> str:
        """Its base, which names it in messages."""
        return self.base


@dataclass(frozen=True)
class Panel:
    """One table: entrants on the same windows."""

    name: str  # for the command line
    title: str
    data: tuple[str, ...]
    entrants: tuple[Entrant, ...]
    jobs: int = WINDOW  # of a window, fewer where there is no room for all windows
    windows: int = 0  # 0: as many as are asked for
    whole: bool = False  # windows are of all jobs, as published, not only of the last fifth, which no agent has seen
    information: tuple[str, ...] = (TRUTH, ESTIMATES)


FIFO_STRICT = Entrant("FIFO, no backfilling", "fifo")
FIFO, SJF, F1, WFP3, SLURM = (
    Entrant(label, name + EASY)
    for label, name in (("FIFO", "fifo"), ("SJF", "sjf"), ("F1", "f1"), ("WFP3", "wfp3"), ("Slurm", "multifactor"))
)
SAF = Entrant("SAF", REFERENCE)
SAME_VIEW = Entrant(f"SAF, {VISIBLE} in view", f"scored:model=saf,visible={VISIBLE}")
QSSF = Entrant("QSSF", REFERENCE, of_qssf=True)
COMMON = (SAF, SAME_VIEW, QSSF)  # in every table
INSPECTOR = Entrant("SchedInspector", FIFO.policy, "inspector")
RLSCHEDULER = Entrant("RLScheduler", FIFO.policy, "rlscheduler")
RLTUNE = Entrant("RLTune", FIFO.policy, "rltune")
MOVED_ON = Entrant("RLTune, learned on the truth", FIFO.policy, "rltune", learned_from=TRUTH)
ZERO_SHOT = Entrant("RLTune of Philly", FIFO.policy, "rltune", origin="philly")  # on other traces as it is
LEARNED = (INSPECTOR, RLSCHEDULER, RLTUNE, MOVED_ON, ZERO_SHOT)
ON_SJF, ON_F1, ON_WFP3 = (Entrant(f"RLTune on {base.label}", base.policy, "rltune") for base in (SJF, F1, WFP3))
ON_FIFO = Entrant("RLTune on FIFO", FIFO.policy, "rltune")
BASES = {FIFO: ON_FIFO, SJF: ON_SJF, F1: ON_F1, WFP3: ON_WFP3}  # Fig. 12, Tables 6 and 7
NAIVE = Entrant("naive", SLURM.policy, "rltune-naive", "bsld")
UNSOLVED = Entrant("pro without solver", SLURM.policy, "rltune", "bsld")
PRO = Entrant("pro", SLURM.policy, "rltune", "bsld", solver=True)
CPU_ORDERS = tuple(
    Entrant(label, name) for label, name in (
        ("FCFS", "fifo"), ("WFP3, strict", "wfp3"), ("UNICEP, strict", "unicep"), ("SJF, strict", "sjf"),
        ("F1, strict", "f1"),
    )
)  # fmt: skip
UNICEP = Entrant("UNICEP", f"unicep{EASY}")
CPU_LEARNED = (
    Entrant("RLScheduler, strict", "fifo", "rlscheduler", "bsld"),
    Entrant("RLScheduler", FIFO.policy, "rlscheduler", "bsld"),
)
ON_CPUS = (*CPU_ORDERS, CPU_LEARNED[0], FIFO, WFP3, UNICEP, SJF, F1, CPU_LEARNED[1], SAF, SAME_VIEW)

GPU_TRACES, CPU_TRACES = ("philly", "helios", "pai"), ("lublin",)
DATA = (*GPU_TRACES, "aaic", *CPU_TRACES)
QUICK = ("philly", "lublin")
TABLE_9, FIGURE_12, FIGURE_17, ABLATION, PUBLISHED_CPU, UNSEEN_CPU = PANELS = (
    Panel("table9", "Table 9", (*GPU_TRACES, "aaic"), (FIFO_STRICT, FIFO, *LEARNED, *COMMON)),
    Panel("figure12", "Fig. 12, Tables 6 to 8", GPU_TRACES, (*BASES, *BASES.values(), *COMMON), LONG_WINDOW),
    Panel("figure17", "Fig. 17: one long window", ("philly",), (FIFO, ON_FIFO, *COMMON), RUN, 1),
    Panel("ablation", "Fig. 10 and 16: ablation", ("philly", "helios"), (SLURM, NAIVE, UNSOLVED, PRO, *COMMON)),
    Panel(
        "rlscheduler", "RLScheduler, as published", CPU_TRACES, ON_CPUS, LONG_WINDOW, whole=True, information=(TRUTH,)
    ),
    Panel(
        "rlscheduler", "RLScheduler, on jobs it has not seen", CPU_TRACES, ON_CPUS, LONG_WINDOW, information=(TRUTH,)
    ),
)  # fmt: skip
TABLES = tuple(dict.fromkeys(panel.name for panel in PANELS))
AGENTS = tuple(dict.fromkeys(one.agent for panel in PANELS for one in panel.entrants if one.agent))


@dataclass(frozen=True)
class RLTunePart:
    """Which part of it is run."""

    data: tuple[str, ...] = DATA
    tables: tuple[str, ...] = TABLES
    windows: int = 12
    draws: int = 5  # arrivals or virtual clusters, as recorded first
    trainings: int = 3  # of each agent, with seeds of their own
    epochs: int = 100
    episodes: int = 100  # windows of an epoch
    seed: int = 0
    agents: tuple[str, ...] = AGENTS  # those that are trained
    device: str = "cpu"  # that trains their networks

    @property
    def rows(self) -> int:
        """Observed jobs that an epoch learns from: 60,000 for 100 windows."""
        return 600 * self.episodes

    def panels(self) -> Iterator[tuple[Panel, str, str]]:
        """Each table of it: on which data, and with which information."""
        for panel in (each for each in PANELS if each.name in self.tables):
            for data in (name for name in self.data if name in panel.data):
                for information in panel.information:
                    yield panel, data, information

    def has(self, entrant: Entrant, data: str, information: str) -> bool:
        """Whether an entrant is judged on these data, with this information."""
        trained = not entrant.agent or entrant.agent in self.agents
        return trained and entrant.joins(data, information) and (not entrant.origin or entrant.origin in self.data)

    def seeds_of(self, entrant: Entrant) -> range:
        """The seeds of its trainings; one in all for what learns nothing."""
        return range(self.seed, self.seed + (self.trainings if entrant.agent else 1))

    def trainings_of(self, entrant: Entrant, data: str, information: str) -> list[AgentTraining]:
        """The trainings behind it."""
        known = entrant.learned_from or information
        return [
            AgentTraining(entrant.origin or data, known, entrant.agent, entrant.policy, entrant.objective, seed)
            for seed in self.seeds_of(entrant)
            if entrant.agent
        ]

    def all_trainings(self) -> Sequence[AgentTraining]:
        """Each once."""
        found = (
            training
            for panel, data, information in self.panels()
            for entrant in panel.entrants
            if self.has(entrant, data, information)
            for training in self.trainings_of(entrant, data, information)
        )
        return list(dict.fromkeys(found))


QUICK_PART = RLTunePart(QUICK, windows=5, draws=1, trainings=1, epochs=3, episodes=12)
