"""The agents that can be trained: what each sees, what it is asked, and how it learns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shunter.errors import ModelError, did_you_mean
from shunter.learning.engine import LearningGround
from shunter.learning.episodes import INSPECT, PICK
from shunter.policies.scored.models import Input, LayerWeights, LinearForm, NetworkForm, SampledInput, ScoreModel
from shunter.world import F64

HALF_DAY = 43_200.0  # s: a longer wait counts as this, as in RLScheduler and RLTune
BELOW_1 = 1 - 1e-5
TAKES = -2.0  # what an inspector's network says at first
KERNEL = (32, 16, 8, 1)  # outputs of the layers, as in all three papers


@dataclass(frozen=True)
class Agent:
    """An agent before it has learned anything."""

    name: str
    doc: str
    inputs: tuple[Input, ...]
    widths: tuple[int, ...] = KERNEL  # none: a linear model
    mode: int = PICK
    relative: bool = True  # its reward is the gain on the base policy; else the score itself

    @property
    def numbers(self) -> int:
        """How many numbers it learns."""
        return len(flat(self.untrained(np.random.default_rng(0))))

    def untrained(self, rng: np.random.Generator) -> ScoreModel:
        """A network with random weights, as torch begins; or the linear model that gives the order of ``saf``.

        The last layer of an inspector is a constant: at its best choice it never lets a job wait, and when it tries out
        choices, it does with a chance of 12 %.
        """
        if not self.widths:
            neutral = [1.0 if given.feature == "area" else 0.0 for given in self.inputs]
            return ScoreModel(name=self.name, inputs=list(self.inputs), model=LinearForm(weights=neutral))
        layers, width = [], len(self.inputs)
        for outputs in self.widths:
            bound = width**-0.5
            weights, bias = rng.uniform(-bound, bound, (width, outputs)), rng.uniform(-bound, bound, outputs)
            layers.append(LayerWeights(weights=weights.tolist(), bias=bias.tolist()))
            width = outputs
        if self.mode == INSPECT:
            layers[-1] = LayerWeights(weights=[[0.0]] * len(layers[-1].weights), bias=[TAKES])
        return ScoreModel(name=self.name, inputs=list(self.inputs), model=NetworkForm(layers=layers))


def flat(model: ScoreModel) -> F64:
    """The numbers that are learned, one after another."""
    if isinstance(model.model, LinearForm):
        return np.array(model.model.weights)
    assert isinstance(model.model, NetworkForm)
    return np.concatenate([np.append(np.ravel(layer.weights), layer.bias) for layer in model.model.layers])


def with_numbers(model: ScoreModel, numbers: F64) -> ScoreModel:
    """The model with other numbers."""
    if isinstance(model.model, LinearForm):
        return model.model_copy(update={"model": LinearForm(weights=numbers.tolist())})
    assert isinstance(model.model, NetworkForm)
    layers, begin = [], 0
    for layer in model.model.layers:
        shape = (len(layer.weights), len(layer.bias))
        middle, end = begin + shape[0] * shape[1], begin + shape[0] * shape[1] + shape[1]
        weights, bias = numbers[begin:middle].reshape(shape), numbers[middle:end]
        layers.append(LayerWeights(weights=weights.tolist(), bias=bias.tolist()))
        begin = end
    return model.model_copy(update={"model": NetworkForm(layers=layers)})


def agent_for(name: str, ground: LearningGround) -> Agent:
    """An agent by its name, with its inputs scaled to a cluster and its jobs."""
    agents = {made.name: made for made in _agents(ground)}
    if name not in agents:
        raise ModelError(f"there is no agent '{name}'; {did_you_mean(name, agents)}")
    return agents[name]


AGENTS = ("rltune", "rltune-artifact", "rltune-naive", "rlscheduler", "inspector", "search")


def _agents(ground: LearningGround) -> tuple[Agent, ...]:
    longest, gpus = max(float(ground.estimates.max()) / 1000.0, 1.0), float(ground.cluster.gpus)
    wait = Input(feature="wait", scale=1 / HALF_DAY, high=BELOW_1)
    run = Input(feature="estimate", scale=1 / longest, high=1.0)
    fits, size = Input(feature="fits"), Input(feature="size", high=1.0)
    area = Input(feature="area", log=True, scale=1 / np.log1p(longest * gpus), high=1.0)
    return (
        *_rltune(longest, wait, area),
        Agent("rltune-naive", "RLTune's ablation: wait, estimate and size as the trace has them", (wait, run, size)),
        Agent("rlscheduler", "RLScheduler: what a job asks for and whether it fits", (wait, run, size, fits),
              relative=False),
        Agent(
            "inspector",
            "SchedInspector: takes the first job of a base policy, or lets it wait",
            (
                wait,
                run,
                size,
                Input(feature="free", scale=1 / gpus, high=1.0),
                fits,
                Input(feature="skipped", scale=1 / HALF_DAY, high=1.0),
                Input(feature="growth", scale=10 / 128, high=1.0),
            ),
            mode=INSPECT,
        ),
        Agent(
            "search",
            "weights of a linear order over logarithms and pool features, found by CMA-ES from the order of saf",
            (
                area,
                Input(feature="gpus", log=True),
                Input(feature="estimate", log=True, scale=0.1),
                Input(feature="wait", log=True, scale=0.1),
                Input(feature="urgency", high=10.0, scale=0.1),
                fits,
                Input(feature="pressure", high=1.0),
                Input(feature="fragmentation"),
            ),
            widths=(),
        ),
    )  # fmt: skip


def _rltune(longest: float, wait: Input, area: Input) -> tuple[Agent, Agent]:
    """RLTune with the features of the paper, two of them sampled; and with the seven of its code."""
    gpus = Input(feature="gpus", scale=1 / 8, high=BELOW_1)
    pressure = Input(feature="pressure", high=BELOW_1)
    availability = Input(feature="availability", low=0.0, high=BELOW_1)
    fragmentation, ways = Input(feature="fragmentation", high=1.0), Input(feature="ways", scale=1 / 3, high=BELOW_1)
    estimate = Input(feature="estimate", log=True, scale=1 / np.log1p(longest), high=1.0)
    urgency = {"feature": "urgency", "log": True, "scale": 1 / np.log1p(HALF_DAY / 10), "high": 1.0}
    sampled = (
        SampledInput(**urgency, by="fragmentation", least=0.5, other=area),
        SampledInput(**fragmentation.model_dump(), by="choice", least=1.0, other=ways),
    )
    fits = Input(feature="fits")
    return (
        Agent(
            "rltune",
            "RLTune: eight features of a job and its pool, two of them sampled, reward relative to the base policy",
            (wait, gpus, estimate, pressure, availability, fits, *sampled),
        ),
        Agent(
            "rltune-artifact",
            "RLTune with the seven features of its code, none of which knows how long a job runs",
            (wait, gpus, pressure, availability, fragmentation, ways, fits),
        ),
    )
