"""What learning costs: ``python -m benchmarks.learning``.

Decisions per second of CPU in compiled episodes and through the environment for Python, what beginning an episode
costs, an epoch of PPO, a neutral learned order against ``saf``, and a decision with a long queue.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import workload
from shunter import registry
from shunter.learning import episodes as e
from shunter.learning.agents import agent_for
from shunter.learning.engine import EpisodeEngine, LearnedOrder, LearningGround, ground_for, new_record
from shunter.learning.environment import SchedulingEnv
from shunter.learning.training import Task, Trainer, parts_of, spaced
from shunter.policies.scored.models import NetworkForm, ScoreModel
from shunter.reproduce.rltune.latency import decision_ms
from shunter.seeding import rng
from shunter.setup import set_up
from shunter.sim.engine import Simulator

JOBS, LENGTH, WINDOWS = 20_000, 256, 40
LONG_QUEUE = 10_000
STEPPED, TURNS = 4, 5  # windows played step by step, and how often

Row = tuple[str, float, str]  # what, how much, unit


def cpu_seconds(work: Callable[[], Any], times: int = 3) -> float:
    """The least CPU time of a few runs."""
    found = []
    for _ in range(times):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def ground_of(jobs: int) -> LearningGround:
    """The first jobs of the Philly file, or made-up ones, on as many nodes as keep them waiting."""
    trace, _ = workload.jobs(jobs)
    return ground_for(set_up(trace, workload.cluster(20), ["saf"]), "oracle", LENGTH)


def in_python(env: SchedulingEnv, model: ScoreModel, first: int) -> int:
    """An episode through the environment, with the network in NumPy; how many decisions it had."""
    assert isinstance(model.model, NetworkForm)
    layers = [(np.array(layer.weights, np.float32), np.array(layer.bias, np.float32)) for layer in model.model.layers]
    seen, info = env.reset(options={"first": first})
    steps, over = 0, False
    while not over:
        rows = seen
        for at, (weights, bias) in enumerate(layers):
            rows = rows @ weights + bias
            rows = np.maximum(rows, 0) if at < len(layers) - 1 else rows
        keys = np.where(info["action_mask"], rows[:, 0], np.inf)
        seen, _, over, _, info = env.step(int(keys.argmin()))
        steps += 1
    return steps


def episodes(ground: LearningGround) -> Iterator[Row]:
    """Decisions per second, compiled and step by step."""
    model = agent_for("rltune", ground).untrained(rng(0, "benchmark"))
    firsts = spaced(parts_of(ground)[0], WINDOWS)
    engine, record = (
        EpisodeEngine(ground, LearnedOrder(given=model)),
        new_record(400_000, 40_000, len(model.inputs), 0.1),
    )
    seeds = np.arange(len(firsts))
    _, decisions = engine.play(firsts, seeds, record)

    def play() -> None:
        record.rows = record.decisions = 0
        engine.play(firsts, seeds, record)

    env, first = SchedulingEnv(ground), [int(first) for first in firsts[:STEPPED]]
    steps, whole, stepped = sum(in_python(env, model, at) for at in first), [], []
    for _ in range(TURNS):  # in turns, so that both meet the same neighbours
        whole.append(cpu_seconds(play, 1))
        stepped.append(cpu_seconds(lambda: [in_python(env, model, at) for at in first], 1))
    rate, rate_in_python = decisions.sum() / min(whole), steps / min(stepped)
    yield "decisions/s in compiled episodes, one thread", rate, "/s"
    yield "jobs in view per decision", record.rows / max(record.decisions, 1), ""
    beginning = cpu_seconds(lambda: [e.begin(engine.episode, int(first)) for first in firsts])
    yield "beginning an episode, of an episode", 100 * beginning / min(whole), "%"
    yield "decisions/s through the environment, network in NumPy", rate_in_python, "/s"
    yield "compiled over the environment", rate / rate_in_python, "x"


def training(ground: LearningGround, epochs: int) -> Iterator[Row]:
    """PPO as the papers set it, for so many epochs, checks included; with 100 it is a training as published."""
    begun = time.process_time()
    trainer = Trainer(Task(ground, "rltune", rounds=epochs, patience=epochs))
    while not trainer.over:
        trainer.round()
    took = time.process_time() - begun
    yield f"CPU minutes of {epochs} epochs of PPO, 100 windows of 256 jobs each", took / 60, "min"
    yield "decisions", sum(row["decisions"] for row in trainer.curve), ""


def neutral(jobs: int) -> Iterator[Row]:
    """The neutral learned order against the order that it equals."""
    trace, _ = workload.jobs(jobs)

    def run(text: str) -> tuple[float, str]:
        simulator, policy = Simulator(trace, workload.cluster()), registry.policy(text)
        memory = simulator.run(policy, until=int(trace.submit[0]))
        begun = time.process_time()
        simulator.run(policy, memory=memory)
        return time.process_time() - begun, simulator.digest

    known, learned = ([run(text) for _ in range(3)] for text in ("saf:backfill=easy", "scored:model=saf"))
    yield "time of scored:model=saf over saf:backfill=easy", min(learned)[0] / min(known)[0], "x"
    yield "same digest", float(learned[0][1] == known[0][1]), ""


def long_queue() -> Iterator[Row]:
    """One decision of a network with many jobs waiting."""
    for visible, shown in ((0, "all"), (128, "128")):
        took = decision_ms(LONG_QUEUE, visible)
        yield f"a decision of a network with {LONG_QUEUE:,} jobs waiting, {shown} in view", took, "ms"


PIECES = ("episodes", "training", "neutral", "queue")


def measured(jobs: int, epochs: int, pieces: Sequence[str] = PIECES) -> Iterator[Row]:
    """The rows of some pieces."""
    ground = ground_of(jobs) if {"episodes", "training"} & set(pieces) else None
    if ground is not None and "episodes" in pieces:
        yield from episodes(ground)
    if ground is not None and "training" in pieces:
        yield from training(ground, epochs)
    if "neutral" in pieces:
        yield from neutral(jobs)
    if "queue" in pieces:
        yield from long_queue()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="jobs of the trace")
    parser.add_argument("--epochs", type=int, default=5, help="epochs of PPO; as published: 100")
    parser.add_argument("--only", choices=PIECES, action="append", help="a piece; repeatable; default: all")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = list(measured(arguments.jobs, arguments.epochs, arguments.only or PIECES))
    console = Console(highlight=False)
    if arguments.json:
        console.print_json(json.dumps([{"what": what, "value": value, "unit": unit} for what, value, unit in rows]))
        return
    table = Table("what", "reached", "unit")
    for what, value, unit in rows:
        table.add_row(what, f"{value:,.1f}" if value < 1000 else f"{value:,.0f}", unit)
    console.print(table)


if __name__ == "__main__":
    main()
