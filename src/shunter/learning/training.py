"""Training: episodes on early windows of a trace, checks on later ones, and the model that did best there.

The first seven tenths of the jobs are learned from, the next tenth says when to stop and which model to keep, and the
last two tenths are left for ``judging``.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from shunter import registry
from shunter.errors import ModelError
from shunter.learning import episodes as e
from shunter.learning.agents import Agent, agent_for, flat, with_numbers
from shunter.learning.engine import EpisodeEngine, LearnedOrder, LearningGround, new_record
from shunter.learning.evolution import Evolution
from shunter.learning.outcomes import check_objective, compared, gain, runs_in, scores
from shunter.policies.scored.models import ScoreModel, Training
from shunter.scheduling.queue.ordering import Ordering
from shunter.seeding import rng
from shunter.world import F64, I64

LEARNED_FROM, CHECKED_ON = 0.7, 0.8  # of the jobs: up to here
CHUNKS = 4  # episodes are cut into this many parts, whatever the number of threads
CHECKS = 16  # windows that say which model to keep
SPREAD = 0.3  # of the search at first
TRIED_ON = 24  # windows on which each model of a generation is tried
REFERENCE = "saf:backfill=easy"
FILTERED_FROM, FEWEST_FILTERED = 512, 8  # windows that the filter looks at, and that it must leave
FEWEST_JOBS = 10  # windows that the trace must have room for, one beside the other

Round = dict[str, float]  # one round of training, for the learning curve


@dataclass(frozen=True)
class Task:
    """What to learn, from what, and how long."""

    ground: LearningGround
    agent: str = "rltune"
    objective: str = "wait"
    base: str = REFERENCE  # that the reward is relative to, and that the inspector inspects
    seed: int = 0
    rounds: int = 100  # epochs of PPO, or generations of the search
    episodes: int = 100  # per epoch
    rows: int = 60_000  # observed jobs per epoch that PPO learns from, drawn at random from all
    patience: int = 25  # rounds without a better model on the windows that are checked
    threads: int = 1
    visible: int = 0  # jobs in view, 0: all
    device: str = "cpu"  # that trains the networks of PPO: cpu or cuda
    filter: str = ""  # LOW..HIGH: in the first half of the rounds, windows whose slowdown under sjf is between these

    def __post_init__(self) -> None:
        check_objective(self.objective)
        _bounds(self.filter)
        if len(self.ground.trace) < FEWEST_JOBS * self.ground.length:
            raise ModelError(
                f"{len(self.ground.trace):,} jobs are too few for windows of {self.ground.length}: learning, checking"
                f" and judging need at least {FEWEST_JOBS * self.ground.length:,}; use a longer trace, or shorter"
                " windows (--jobs)"
            )

        if self.device != "cpu" and not self.made.widths:
            raise ModelError(f"--device {self.device}: --agent {self.agent} has no network to train; leave it out")
        if self.made.mode == e.INSPECT and not order(self.base).estimates:
            raise ModelError(
                f"--base {self.base} makes no estimates of run times, which the inspector reads; add backfill=easy"
            )

    @cached_property
    def made(self) -> Agent:
        """The agent, for this cluster and these jobs."""
        return agent_for(self.agent, self.ground)

    def described(self) -> dict[str, Any]:
        """What decides the outcome, for checkpoints; not the threads."""
        ground = self.ground
        own = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        jobs = {"jobs": ground.trace.digest, "cluster": ground.cluster.name, "estimate": ground.estimate}
        return {**own, **jobs, "window": ground.length, "ground": None, "threads": None}


def parts_of(ground: LearningGround) -> tuple[I64, I64, I64]:
    """The windows, by their first job: to learn from, to check on, to judge on; no job is in two of these."""
    jobs, length = len(ground.trace), ground.length
    first, second = int(LEARNED_FROM * jobs), int(CHECKED_ON * jobs)
    ranges = ((0, first), (first, second), (second, jobs))
    return tuple(np.arange(a, max(b - length + 1, a + 1)) for a, b in ranges)  # type: ignore[return-value]


def spaced(windows: I64, count: int) -> I64:
    """This many of these windows, as far apart as they can be."""
    at = np.unique(np.linspace(0, len(windows) - 1, min(count, len(windows))).round().astype(np.int64))
    return np.asarray(windows[at])


def apart(windows: I64, count: int, length: int) -> I64:
    """At most this many of these windows, no two of which have a job in common."""
    return spaced(windows, min(count, (len(windows) - 1) // length + 1))


def order(text: str) -> Ordering:
    """A policy that orders a queue, with EASY backfilling unless it says otherwise."""
    found = registry.policy(text)
    if not isinstance(found, Ordering):
        raise ModelError(f"policy {text}: does not order a queue, which episodes need; use saf, sjf, fifo, wfp3 ...")
    if found.backfill == "conservative" or found.preemptive:
        raise ModelError(
            f"policy {text}: episodes have no stops, and backfill=none or backfill=easy; use such an order"
        )
    return found


def _bounds(text: str) -> tuple[float, float]:
    """``10..150`` as two numbers."""
    if not text:
        return 0.0, float("inf")
    low, _, high = text.partition("..")
    try:
        found = float(low), float(high)
    except ValueError:
        found = (0.0, 0.0)
    if not 0 <= found[0] < found[1]:
        raise ModelError(f"--filter must be LOW..HIGH, such as 10..150, got '{text}'")
    return found


class Players:
    """Engines for a model, one per chunk of episodes, and those of the policies that it is compared with."""

    def __init__(
        self, ground: LearningGround, model: ScoreModel, mode: int, base: str, threads: int, visible: int = 0
    ) -> None:
        self.ground, self._mode, self._threads = ground, mode, threads
        inner = order(base)
        if mode == e.INSPECT:
            self._own = [EpisodeEngine(ground, inner, watched=model, mode=mode) for _ in range(CHUNKS)]
        else:
            own = LearnedOrder(given=model, backfill=inner.backfill, visible=visible)
            self._own = [EpisodeEngine(ground, own) for _ in range(CHUNKS)]
        self._base = [EpisodeEngine(ground, inner) for _ in range(CHUNKS)]
        self._known: dict[str, list[EpisodeEngine]] = {base: self._base}

    def use(self, numbers: F64) -> None:
        """Play on with other numbers of the model, as its arrays have them."""
        for engine in self._own:
            engine.use(numbers)

    def play(self, firsts: I64, seeds: I64, rows: int, share: float) -> tuple[F64, list[e.Record], I64]:
        """Episodes with drawn choices: waits, what was recorded, and how many decisions there were."""
        inputs = int(self._own[0].episode.model[1])
        records = [new_record(rows // CHUNKS + 4096, rows // CHUNKS + 1, inputs, share) for _ in range(CHUNKS)]
        chunks = np.array_split(np.arange(len(firsts)), CHUNKS)

        def one(at: int) -> tuple[F64, I64]:
            return self._own[at].play(firsts[chunks[at]], seeds[chunks[at]], records[at])

        found = self._all(one)
        for record, chunk in zip(records, chunks, strict=True):
            record.episode[: record.decisions] += chunk[0] if len(chunk) else 0
        return np.concatenate([w for w, _ in found]), records, np.concatenate([d for _, d in found])

    def waits(self, firsts: I64) -> F64:
        """How long jobs wait under the model, which takes its best choice each time."""
        if self._mode == e.PICK:
            return self._run(self._own, firsts)
        nothing = [new_record(1, 1, 1, 0.0) for _ in range(CHUNKS)]
        chunks = np.array_split(np.asarray(firsts), CHUNKS)
        found = self._all(lambda at: self._own[at].play(chunks[at], chunks[at], nothing[at], greedy=True)[0])
        return np.concatenate(found)

    def base_waits(self, firsts: I64, policy: str = "") -> F64:
        """How long jobs wait under the base policy, or another one, with the same estimates."""
        if policy and policy not in self._known:
            self._known[policy] = [EpisodeEngine(self.ground, order(policy)) for _ in range(CHUNKS)]
        return self._run(self._known[policy] if policy else self._base, firsts)

    def _run(self, engines: Sequence[EpisodeEngine], firsts: I64) -> F64:
        chunks = np.array_split(np.asarray(firsts), CHUNKS)
        return np.concatenate(self._all(lambda at: engines[at].waits(chunks[at])))

    def _all(self, one: Callable[[int], Any]) -> list[Any]:
        """Each chunk; kernels let other threads run."""
        if self._threads == 1:
            return [one(at) for at in range(CHUNKS)]
        with ThreadPoolExecutor(self._threads) as pool:
            return list(pool.map(one, range(CHUNKS)))


class Trainer:
    """Rounds of learning, until they are over or checks show nothing better."""

    def __init__(self, task: Task) -> None:
        self.task, self.agent = task, task.made
        self.form = self.agent.untrained(rng(task.seed, "networks"))
        self.players = Players(task.ground, self.form, self.agent.mode, task.base, task.threads, task.visible)
        learned_from, checked_on, _ = parts_of(task.ground)
        self._windows, self._checks = learned_from, spaced(checked_on, CHECKS)
        waits = self.players.base_waits(self._checks, REFERENCE)
        if not waits.any():
            raise ModelError(
                f"no job of the {len(self._checks)} windows that are checked waits under {REFERENCE}, so there is"
                f" nothing to learn; use windows of more jobs (--jobs, now {task.ground.length:,}), a busier time"
                " (--since, --until) or a smaller cluster"
            )
        self._reference = self._scores(waits, self._checks)
        self._scale = max(float(self._scores(self.players.base_waits(self._checks), self._checks).mean()), 1e-9)
        self._method: Any = _Search(self) if not self.agent.widths else _Gradient(self)
        self.curve: list[Round] = []
        self.best: F64 = self._method.numbers.copy()  # the start is a candidate: what is kept is never worse
        self.start = self._best_share = self.change(self.best)

    # -- rounds

    @property
    def over(self) -> bool:
        """Whether it is time to stop."""
        done = len(self.curve)
        best_at = min(range(done), key=lambda at: (self.curve[at]["change"], at), default=0)
        return done >= self.task.rounds or (done > 0 and done - 1 - best_at >= self.task.patience)

    def round(self) -> Round:
        """One round, and a check of what was learned."""
        begun = time.process_time()
        found = self._method.round(len(self.curve))
        share = self.change(self._method.numbers)
        if share < self._best_share:
            self.best, self._best_share = self._method.numbers.copy(), share
        row = {"round": float(len(self.curve) + 1), **found, "change": share, "cpu_s": time.process_time() - begun}
        self.curve.append(row)
        return row

    def change(self, numbers: F64) -> float:
        """By what share the objective is above that of the reference on the windows that are checked."""
        self.players.use(with_numbers(self.form, numbers).arrays())
        found = self._scores(self.players.waits(self._checks), self._checks)
        return compared(found, self._reference).share

    def _scores(self, waits: F64, firsts: I64) -> F64:
        ground = self.task.ground
        return scores(self.task.objective, waits, runs_in(ground.run_times, firsts, ground.length))

    def windows(self, at: int, count: int) -> tuple[I64, I64]:
        """The windows of a round, and a seed for each."""
        draws, filtered = rng(self.task.seed, f"round {at}"), self.task.filter and at < self.task.rounds // 2
        windows = self._filtered if filtered else self._windows
        return draws.choice(windows, count), draws.integers(1, 2**62, count)

    @cached_property
    def _filtered(self) -> I64:
        """RLScheduler's trajectory filter: windows that are neither too easy nor too hard for shortest job first."""
        low, high = _bounds(self.task.filter)
        ground, firsts = self.task.ground, spaced(self._windows, FILTERED_FROM)
        waits = self.players.base_waits(firsts, f"sjf:backfill={order(self.task.base).backfill}")
        slowdown = scores("bsld", waits, runs_in(ground.run_times, firsts, ground.length))
        found = firsts[(slowdown > low) & (slowdown < high)]
        if len(found) < FEWEST_FILTERED:
            ends = np.percentile(slowdown, [10, 90])
            raise ModelError(
                f"--filter {self.task.filter} leaves {len(found)} of {len(firsts)} windows; the mean bounded slowdown"
                f" under sjf is from {ends[0]:.1f} to {ends[1]:.1f} in eight of ten, so choose bounds around that"
            )
        return np.asarray(found)

    def rewards(self, waits: F64, firsts: I64) -> F64:
        """What each episode was worth."""
        found = self._scores(waits, firsts)
        if not self.agent.relative:
            return -found / self._scale
        return gain(self._scores(self.players.base_waits(firsts), firsts), found)

    def model(self) -> ScoreModel:
        """The best model so far, with what it was made from."""
        task, submit = self.task, self.task.ground.trace.submit
        training = Training(
            agent=task.agent,
            objective=task.objective,
            trace=task.ground.trace.name,
            jobs=task.ground.trace.digest,
            submitted=(int(submit[0]), int(submit[int(CHECKED_ON * len(submit)) - 1])),
            cluster=task.ground.cluster.name,
            estimate=task.ground.estimate,
            seed=task.seed,
            rounds=len(self.curve),
            window=task.ground.length,
            base=task.base,
            visible=task.visible,
        )
        asks = "skip" if self.agent.mode == e.INSPECT else "order"
        scored = {"change_on_checked_windows": self._best_share, "change_at_the_start": self.start}
        return with_numbers(self.form, self.best).model_copy(
            update={"training": training, "asks": asks, "scores": scored}
        )

    # -- to go on later

    def save(self, path: Path) -> None:
        """Write down where it is."""
        from shunter.safe_files import whole

        header = {"task": self.task.described(), "curve": self.curve, "best_share": self._best_share}
        arrays = {"best": self.best, **self._method.state()}
        text = np.frombuffer(json.dumps(header).encode(), np.uint8)
        with whole(path, ModelError) as made, made.open("wb") as file:
            np.savez(file, header=text, **arrays)

    def restore(self, path: Path) -> None:
        """Go on from there."""
        header, arrays = _checkpoint(path)
        task, known = header.get("task"), self.task.described()
        differ = [name for name in known if not isinstance(task, dict) or task.get(name) != known[name]]
        differ = [name for name in differ if name != "rounds"]
        if differ:
            raise ModelError(
                f"{path}: is of another training: {', '.join(differ)} differ; give the same options, or leave out"
                " --resume"
            )
        try:
            self.curve = [{str(k): float(v) for k, v in row.items()} for row in header["curve"]]
            self._best_share, self.best = float(header["best_share"]), arrays["best"]
            if len(self.best) != len(flat(self.form)):
                raise ValueError("it has another number of weights")
            self._method.restore(arrays)
        except (KeyError, ValueError, TypeError, AttributeError) as problem:
            raise ModelError(f"{path}: is no checkpoint ({problem}); leave out --resume") from None


def _checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, F64]]:
    """The content of a checkpoint."""
    import zipfile

    from shunter.safe_files import check_size, most_parsed, opened

    try:
        with opened(path) as file:
            with zipfile.ZipFile(file) as parts:
                check_size(sum(part.file_size for part in parts.infolist()), most_parsed())
            file.seek(0)
            with np.load(file, allow_pickle=False) as found:
                arrays = {name: np.asarray(found[name]) for name in found.files}
        header = json.loads(arrays.pop("header").tobytes())
        return header, {name: array.astype(np.float64) for name, array in arrays.items()}
    except FileNotFoundError:
        raise ModelError(f"{path}: there is no such checkpoint; leave out --resume") from None
    except (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile) as problem:
        raise ModelError(f"{path}: is no checkpoint ({problem}); leave out --resume") from None


class _Gradient:
    """PPO: an epoch of episodes, then steps along the gradient."""

    def __init__(self, trainer: Trainer) -> None:
        from shunter.learning.ppo import Learner

        task = trainer.task
        self._trainer, self._task = trainer, task
        self._learner = Learner(trainer.agent, task.seed, threads=task.threads, device=task.device)
        self._share = 0.0  # of the decisions that are recorded; 0: not known yet

    @property
    def numbers(self) -> F64:
        return self._learner.numbers

    def round(self, at: int) -> Round:
        from shunter.learning.ppo import batch_of

        trainer, task = self._trainer, self._task
        firsts, seeds = trainer.windows(at, task.episodes)
        trainer.players.use(self._learner.model.arrays())
        if self._share == 0.0:
            self._share = self._share_for(trainer.players.play(firsts, seeds, 0, 0.0)[1])
        waits, records, decisions = trainer.players.play(firsts, seeds, task.rows, self._share)
        rewards = trainer.rewards(waits, firsts)
        if sum(record.decisions for record in records) == 0:
            raise ModelError("no window has a decision with a choice: the queue is always empty; use a smaller cluster")
        found = self._learner.learn(batch_of(records, rewards))
        self._share = self._share_for(records)
        return {"reward": float(rewards.mean()), "decisions": float(decisions.sum()), **found}

    def _share_for(self, records: list[e.Record]) -> float:
        """Which share of the decisions to record, so that all windows together give about as many rows as wanted."""
        return min(1.0, 0.95 * self._task.rows / max(sum(record.offered for record in records), 1))

    def state(self) -> dict[str, F64]:
        return {**self._learner.state(), "share": np.array([self._share])}

    def restore(self, state: dict[str, F64]) -> None:
        self._share = float(state["share"][0])
        self._learner.restore(state)


class _Search:
    """CMA-ES: each generation is tried on the same windows."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._evolution = Evolution(flat(trainer.form), SPREAD)

    @property
    def numbers(self) -> F64:
        return self._evolution.mean

    def round(self, at: int) -> Round:
        trainer, evolution = self._trainer, self._evolution
        firsts, _ = trainer.windows(at, TRIED_ON)
        points = evolution.ask(rng(trainer.task.seed, f"points {at}"))
        rewards = np.zeros(len(points))
        for row, point in enumerate(points):
            trainer.players.use(with_numbers(trainer.form, point).arrays())
            rewards[row] = trainer.rewards(trainer.players.waits(firsts), firsts).mean()
        evolution.tell(points, -rewards)
        return {"reward": float(rewards.mean()), "spread": evolution.spread}

    def state(self) -> dict[str, F64]:
        return self._evolution.state()

    def restore(self, state: dict[str, F64]) -> None:
        self._evolution.restore(state)
