"""The backend on a real Slurm: the rules for all backends, and that what is planned becomes true."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from shunter.errors import PolicyError
from shunter.live.backend import LiveBackend, Rhythm, Scope
from shunter.live.stops import StopLimits
from shunter.model import Plan, Preempt, Start, Timer, View
from shunter.registry import policy
from shunter.slurm.client import Client
from shunter.slurm.lab import Lab
from shunter.slurm.watcher import Watcher
from shunter.testing.conformance import BackendConformance

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def slow_module_lab() -> Iterator[Lab]:
    """A Slurm that looks at its queue every few seconds only, so that jobs wait although there is room."""
    if reason := Lab.missing():
        pytest.skip(reason)
    parameters = "defer,sched_interval=4,bf_interval=60,batch_sched_delay=0"
    with tempfile.TemporaryDirectory(prefix="lab", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with Lab(Path(folder), settings={"SchedulerParameters": parameters}) as running:
            yield running


@pytest.fixture
def slow_lab(slow_module_lab: Lab) -> Lab:
    slow_module_lab.reset()
    return slow_module_lab


def backend_of(lab: Lab, **more) -> LiveBackend:
    return LiveBackend(Watcher(Client(lab.conf)), rhythm=Rhythm(0.3, 0.3), **more)


def waiting_jobs(lab: Lab) -> list[int]:
    """Jobs that come just after Slurm has looked at its queue, so that they wait for some seconds."""
    first = lab.submit("--gpus=1", script="true")
    lab.wait_job(first, "COMPLETED")
    return [lab.submit(f"--gpus={gpus}", "--time=5", script="sleep 1") for gpus in (2, 2, 4, 1)]


class Looked(LiveBackend):
    """Has looked at the cluster once, and shows that view first."""

    first: View | None = None

    def look(self) -> View | None:
        view, self.first = self.first, None
        return super().look() if view is None else view


def looked_in_time(lab: Lab, **more) -> tuple[list[int], Looked]:
    """Jobs that wait although there is room, and a backend that has seen them all waiting."""
    for _ in range(30):  # on a busy machine Slurm may look at its queue again before we do
        jobs = waiting_jobs(lab)
        backend = Looked(Watcher(Client(lab.conf)), rhythm=Rhythm(0.3, 0.3), **more)
        backend.first = LiveBackend.look(backend)
        if backend.first is not None and len(backend.first.pending) == len(jobs):
            return jobs, backend
        lab.cancel_all()
    raise AssertionError("Slurm always started jobs before they were seen")


class TestLive(BackendConformance):
    @pytest.fixture
    def backend(self, slow_lab: Lab) -> LiveBackend:
        return looked_in_time(slow_lab, until_idle=True)[1]


def test_what_is_planned_runs_in_the_end(slow_lab: Lab) -> None:
    jobs, backend = looked_in_time(slow_lab)
    views = iter(backend)
    view = next(views)
    row = int(view.pending[0])
    gpus = tuple(view.free_gpus(int(np.argmax(view.nodes.free)))[:2])
    assert not backend.apply(Plan((Start(row, gpus),)))
    wanted = backend.wanted()
    assert wanted.starts.keys() == {str(jobs[0])}
    assert wanted.ranking[0] == str(jobs[0])
    slow_lab.wait_job(jobs[0], "RUNNING", "COMPLETED")


def test_ended_jobs_are_reported_with_their_run_times(slow_lab: Lab, tmp_path: Path) -> None:
    seen = tmp_path / "seen"  # on a busy machine it could end before the first look
    job = slow_lab.submit("--gpus=1", script=f"until [ -e {seen} ]; do sleep 0.1; done; sleep 2")
    backend = backend_of(slow_lab, until_idle=True)
    took = []
    for view in backend:
        seen.touch()
        took += [int(ms) for ms in view.executed(view.ended)]
    assert len(took) == 1
    ended = slow_lab.job(job)
    begin, end = (np.datetime64(ended[key]).astype(int) for key in ("StartTime", "EndTime"))
    assert end - begin >= 2
    assert took[0] == pytest.approx(1000 * (end - begin), abs=1000)
    assert ended["JobState"] == "COMPLETED"


def test_a_node_that_is_down_is_not_offered(lab: Lab) -> None:
    lab.run("scontrol", "update", "nodename=p100-1", "state=drain", "reason=test")
    view = next(iter(backend_of(lab)))
    assert int(view.nodes.free.sum()) == 18
    assert (view.nodes.state != 0).sum() == 1


def test_what_slurm_has_no_lever_for_is_refused(lab: Lab) -> None:
    lab.submit("--gpus=4", script="sleep 60")
    job = lab.submit("--gpus=1", "--comment=shunter: requeue=yes", script="sleep 60")
    lab.wait_job(job, "RUNNING")
    backend = backend_of(lab)
    view = next(iter(backend))
    assert "switched off" in backend.apply(Plan((Preempt(int(view.running[0])),)))[0].why
    backend = backend_of(lab, levers=frozenset({"nice", "requeue"}), stops=StopLimits(min_run_s=0.0))
    view = next(iter(backend))
    assert "has not agreed" in backend.apply(Plan((Preempt(int(view.running[0])),)))[0].why
    assert not backend.apply(Plan((Preempt(int(view.running[1])),)))
    with pytest.raises(PolicyError, match="duration"):
        backend.prepare(policy("sjf:estimate=oracle").needs)
    with pytest.raises(PolicyError, match="use"):
        backend.prepare(policy("lucid").needs)


def test_scope_leaves_jobs_to_slurm(lab: Lab) -> None:
    lab.wait_job(lab.submit("--gpus=22", script="sleep 60"), "RUNNING")
    ours = lab.submit("--gpus=22", "--partition=main", script="sleep 60")
    lab.submit("--gpus=22", "--partition=share", script="sleep 60")
    lab.submit("--gpus=22", "--comment=shunter: sla=yes", script="sleep 60")
    lab.submit("--ntasks=100000", "--hold", script="sleep 60")
    scope = Scope(without_partitions=frozenset({"share"}))
    backend = backend_of(lab, scope=scope)
    backend.look()
    assert backend.wanted().ranking == [str(ours)]


def test_slurm_is_asked_no_more_than_it_should_be(lab: Lab) -> None:
    """One question per poll at most, and a whole look only when something happened or the interval is over."""
    client = Client(lab.conf)
    backend = LiveBackend(Watcher(client), rhythm=Rhythm(interval_s=8.0, poll_s=1.0))
    views = iter(backend)
    next(views)
    client.calls.clear()
    begun = time.monotonic()
    next(views)
    passed = time.monotonic() - begun
    assert passed > 7.5  # nothing happened: the interval went by
    assert client.calls["squeue"] == 1
    assert client.calls["sdiag"] <= passed / 1.0 + 1
    lab.submit("--gpus=1", script="sleep 5")
    client.calls.clear()
    next(views)
    assert client.calls["sdiag"] < 7  # something did: it did not wait for the interval


def test_a_timer_wakes_the_policy_before_the_interval(lab: Lab) -> None:
    client = Client(lab.conf)
    backend = LiveBackend(Watcher(client), rhythm=Rhythm(interval_s=30.0, poll_s=0.3))
    views = iter(backend)
    view = next(views)
    assert not backend.apply(Plan((Timer(view.now + 1000),)))
    client.calls.clear()
    next(views)
    assert client.calls["sdiag"] < 50  # of a hundred in an interval
