"""Run times learned from a site's history and from what ends while the controller runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded import Recorded

from shunter.live.backend import Rhythm
from shunter.live.controller import Mode, RoundResult
from shunter.live.running import ControllerSettings, run
from shunter.model import GPU, Trace
from shunter.registry import policy
from shunter.slurm.manager import SlurmManager

HOUR = 3_600_000


def history(waiting: int) -> Trace:
    """Users with even numbers had short jobs, the others long ones; limits say nothing."""
    draw = np.random.default_rng(0)
    user = draw.integers(0, 300, waiting)
    duration = np.where(user % 2 == 0, 60_000, 20 * HOUR) * draw.uniform(0.8, 1.2, waiting)
    submit = 1_766_000_000_000 + np.sort(draw.integers(0, 10 * 24 * HOUR, waiting))
    return Trace.of(
        "past", [f"old{i}" for i in range(waiting)], submit=submit, duration=duration.astype(np.int64),
        gpus=np.full(waiting, GPU), limit=np.full(waiting, 48 * HOUR),
        user=user, users=tuple(f"u{i}" for i in range(300)),
        vc=np.zeros(waiting), vcs=("main",), job_name=user % 7, job_names=tuple(f"train{i}" for i in range(7)),
        account=user % 20, accounts=tuple(f"a{i}" for i in range(20)),
    )  # fmt: skip


@pytest.mark.parametrize("name", ["sjf:estimate=rolling", "qssf:estimate=rolling"])
def test_a_history_orders_the_queue(name: str, tmp_path: Path) -> None:
    outcomes: list[RoundResult] = []
    settings = ControllerSettings(Mode.DRY_RUN, Rhythm(0.0, 0.0), rounds=3)
    run(
        policy(name),
        SlurmManager(Recorded(200, 16)),
        tmp_path / "journal.db",
        settings,
        history=history(3000),
        on_round=outcomes.append,
    )
    for outcome in outcomes:
        jobs = {job.id: job for job in outcome.round.jobs}
        alike = [jobs[name] for name in outcome.round.ranking if jobs[name].gpus == 1]
        short = [int(job.user[1:]) % 2 == 0 for job in alike]
        assert sum(short) > 20
        assert all(short[: sum(short)])  # those who had short jobs come first


def test_without_a_history_it_learns_from_what_ends(tmp_path: Path) -> None:
    """A user's jobs end while the controller looks: the next ones of that user are known."""
    client = Recorded(40, 16)
    outcomes: list[RoundResult] = []

    def told(outcome: RoundResult) -> None:
        outcomes.append(outcome)
        ending = client.running[outcome.round.number - 1]
        minutes = "05" if outcome.round.number % 2 else "55"
        ending |= {"State": "COMPLETED", "EndTime": f"2026-01-05T08:{minutes}:00", "StartTime": "2026-01-05T08:00:00"}

    settings = ControllerSettings(Mode.DRY_RUN, Rhythm(0.0, 0.0), rounds=6)
    run(policy("sjf:estimate=rolling"), SlurmManager(client), tmp_path / "journal.db", settings, on_round=told)
    past = outcomes[-1].round.view.past
    assert past is not None
    assert len(past) == 5
    assert sorted(past.duration.tolist()) == [300_000] * 3 + [3_300_000] * 2
    over = [[job.id for job in outcome.round.jobs if job.over] for outcome in outcomes]
    assert over == [[], ["0"], ["1"], ["2"], ["3"], ["4"]]  # each has a row once, in the view that tells of its end


@pytest.mark.parametrize("name", ["sjf:estimate=rolling", "fifo:backfill=easy", "dally"])
def test_machines_come_and_go(name: str, tmp_path: Path) -> None:
    """A policy is started anew for other machines, and goes on with what it knew of jobs and users."""
    client = Recorded(40, 16)
    outcomes: list[RoundResult] = []

    def told(outcome: RoundResult) -> None:
        outcomes.append(outcome)
        client.nodes = {1: 9, 2: 9, 3: 4}.get(outcome.round.number, 4)

    settings = ControllerSettings(Mode.DRY_RUN, Rhythm(0.0, 0.0), rounds=6)
    run(policy(name), SlurmManager(client), tmp_path / "journal.db", settings, history=history(300), on_round=told)
    assert [len(outcome.round.view.nodes.total) for outcome in outcomes] == [4, 9, 9, 4, 4, 4]
    assert len(outcomes[1].round.starts) > 0  # there is room now
    assert all(len(outcome.round.ranking) == 40 for outcome in outcomes)


@pytest.mark.parametrize("busy", [True, False])
def test_slurm_is_asked_once_in_a_poll_at_most(busy: bool, tmp_path: Path) -> None:
    """Whether something happens all the time or nothing does, and though the interval is no multiple of a poll."""
    asked: list[float] = []
    rhythm = Rhythm(interval_s=0.5, poll_s=0.2)

    class Counting(Recorded):
        def run(self, program: str, *arguments: str, **more: Any) -> str:
            if program == "sdiag":
                asked.append(time.monotonic())
            return super().run(program, *arguments, **more) if busy or program != "sdiag" else "Jobs submitted: 1"

    client = Counting(5, 4)
    run(
        policy("fifo"),
        SlurmManager(client),
        tmp_path / "journal.db",
        ControllerSettings(Mode.DRY_RUN, rhythm, rounds=2),
    )  # compiles
    asked.clear()
    client.calls.clear()
    run(
        policy("fifo"),
        SlurmManager(client),
        tmp_path / "journal.db",
        ControllerSettings(Mode.DRY_RUN, rhythm, rounds=5),
    )
    assert client.calls["squeue"] == 5
    assert min(np.diff(asked)) >= rhythm.poll_s - 0.01
    assert len(asked) >= 5 if busy else len(asked) >= 8  # if nothing happens, there is a question between two looks
    assert asked[-1] - asked[0] >= 4 * (rhythm.poll_s if busy else rhythm.interval_s) - 0.05


def test_a_job_that_is_being_stopped_is_not_stopped_again(tmp_path: Path) -> None:
    """Slurm still empties its GPUs: it holds them and does not run."""
    client = Recorded(5, 8)
    client.running[3]["State"] = "COMPLETING"
    outcomes: list[RoundResult] = []
    run(
        policy("fifo"),
        SlurmManager(client),
        tmp_path / "j.db",
        ControllerSettings(Mode.DRY_RUN, Rhythm(0, 0), rounds=1),
        on_round=outcomes.append,
    )
    view = outcomes[0].round.view
    row = {job.id: row for row, job in enumerate(outcomes[0].round.jobs)}["3"]
    assert len(view.running) == 7
    assert row not in view.running
    assert len(view.placement(row)) == 2
    assert view.nodes.free.sum() == 0
