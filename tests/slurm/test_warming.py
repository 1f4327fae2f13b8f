"""Compiling comes before the first look, and nothing is done on a look that is too old."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pretend import Played, Pretend

from shunter.errors import PolicyError
from shunter.live import running, warming
from shunter.live.backend import LiveBackend, Rhythm
from shunter.live.controller import Controller, Mode, Watching
from shunter.live.journal import Journal
from shunter.live.rounds import Rounds
from shunter.live.tolerance import Tolerance
from shunter.registry import policy
from shunter.slurm.manager import SlurmManager

COUNTING = """
import gc
from numba.core.dispatcher import Dispatcher
from shunter.registry import policy
from shunter.live import warming
from shunter.live.backend import Rhythm, LiveBackend
from shunter.live.forecast import Outlook
from pathlib import Path
from shunter.live.controller import Watching
from shunter.live.rounds import Rounds
from shunter.slurm.manager import SlurmManager
from pretend import Played, Pretend

def compiled():
    return sum(len(each.overloads) for each in gc.get_objects() if isinstance(each, Dispatcher))

def play(name):
    client = Pretend({str(number): Played(100 - number, gpus=1 + number % 3) for number in range(1, 30)})
    manager = SlurmManager(client)
    backend = LiveBackend(manager, rhythm=Rhythm(0.0, 0.0))
    Rounds(policy(name), backend, Watching(manager, Path("/nowhere"))).run(3)
    return manager.snapshot()

for name in ("multifactor:backfill=easy", "sjf", "tiresias"):
    warming.rounds(policy(name))
    before = compiled()
    seen = play(name)
    assert compiled() == before, f"{name}: {compiled() - before} kernels were compiled in a round"
warming.forecasts()
before = compiled()
outlook = Outlook(seen, samples=5)
outlook.of(seen.jobs[-1])
assert compiled() == before, f"{compiled() - before} kernels were compiled in a forecast"
"""


def test_nothing_is_left_to_compile_for_a_round_or_a_forecast():
    done = subprocess.run(
        [sys.executable, "-c", COUNTING], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_controller_compiles_before_it_looks(tmp_path, monkeypatch):
    client = Pretend({"1": Played(100), "2": Played(90)})
    asked = {}
    for name in ("rounds", "shadow"):
        real = getattr(warming, name)
        monkeypatch.setattr(
            warming, name, lambda chosen, name=name, real=real: (asked.update({name: dict(client.calls)}), real(chosen))
        )
    settings = running.ControllerSettings(Mode.ACT, Rhythm(0.2, 0.2), rounds=1, guard=Tolerance())
    running.run(policy("fifo"), SlurmManager(client), tmp_path / "journal.db", settings)
    assert client.calls["squeue"]
    assert all(not calls.keys() & {"squeue", "sinfo"} for calls in asked.values())
    assert set(asked) == {"rounds", "shadow"}


@pytest.mark.parametrize(
    ("age_s", "interval_s", "acts"), [(0, 60, True), (90, 60, True), (121, 60, False), (5, 1, True), (11, 1, False)]
)
def test_nothing_is_done_on_a_look_that_is_too_old(tmp_path, age_s, interval_s, acts):
    client = Pretend({"1": Played(100), "2": Played(90)})
    book, seen = Journal(tmp_path / "journal.db"), []
    controller = Controller(SlurmManager(client), book, mode=Mode.ACT, interval_s=interval_s)
    backend = LiveBackend(controller.manager, rhythm=Rhythm(0.0, 0.0))
    backend.look()
    wanted = replace(backend.wanted(), ranking=["2", "1"], looked=time.monotonic() - age_s)
    seen.append(controller.act_on(wanted))
    book.close()
    assert bool(client.updates) == acts
    assert (seen[0].stale_s > 0) != acts
    assert seen[0].orders


def test_a_policy_that_lets_jobs_wait_is_refused():
    """The manager would start the first job, whatever the inspector says."""
    manager = SlurmManager(Pretend({"1": Played(1)}))
    backend = LiveBackend(manager, rhythm=Rhythm(0.0, 0.0))
    with pytest.raises(PolicyError, match="takes only an order"):
        Rounds(policy("inspected:policy=sjf"), backend, Watching(manager, Path("/nowhere")))
