"""Start forecasts: exact where run times are known, honest where they are not, and quick."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter import clusters, registry
from shunter import world as w
from shunter.errors import InvariantError, LiveError
from shunter.live import run_times
from shunter.live.forecast import ManagerOrder, Outlook
from shunter.live.hints import JobHints
from shunter.live.nodes import Node
from shunter.live.rules import Rules
from shunter.live.run_times import Curve, EndedJob, RunTimes
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.live.waits import moments
from shunter.sim.engine import Simulator
from shunter.slurm import accounting
from shunter.slurm.dialect import SLURM
from shunter.testing.live import habitual, snapshot_of

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks.forecasting import ask, plain_nodes, simulated

HOUR = 3_600_000
NOW = 1_800_000_000_000


class Known(RunTimes):
    """Run times that are no secret."""

    def draw(self, job, levels):
        return np.full(len(levels), float(self.groups[job.id]))


def stopped(jobs: int = 400, load: float = 2.0, share: float = 0.5) -> Simulator:
    """A cluster in the midst of its work, at the last submission."""
    trace = habitual(jobs, 32, load)
    simulator = Simulator(trace, clusters.load("4x8"))
    simulator.run(registry.policy("fifo:backfill=easy"), until=int(trace.submit[int(share * jobs)]))
    return simulator


# ------------------------------------------------------------------------------------------- the roll-forward


@pytest.mark.parametrize(("policy", "rules"), [
    ("fifo:backfill=easy", Rules()),
    ("fifo", Rules(backfills=False)),
])  # fmt: skip
def test_with_known_run_times_and_no_new_jobs_it_is_exact(policy, rules):
    trace = habitual(300, 32, 3.0)
    simulator = Simulator(trace, clusters.load("4x8"))
    policy = registry.policy(policy)
    memory = simulator.run(policy, until=int(trace.submit[-1]))
    present = snapshot_of(simulator)
    known = Known("known", {str(row): ran for row, ran in enumerate(trace.duration.tolist())})
    waiting = [job for job in present.jobs if job.state == "PENDING"]
    assert len(waiting) > 50
    found = Outlook(present, rules, known, samples=2).of(*waiting)
    simulator.run(policy, memory=memory)
    truth = simulator.world.jobs[w.STARTED]
    assert [each.starts[0] for each in found] == [truth[int(job.id)] for job in waiting]
    assert all(each.at(0.5) == each.at(0.9) == each.starts[0] for each in found)


def test_it_is_repeatable_and_the_seed_matters():
    present = snapshot_of(stopped())
    last = max((job for job in present.jobs if job.state == "PENDING"), key=lambda job: job.submit)
    one, again, other = (Outlook(present, samples=20, seed=seed).of(last)[0] for seed in (1, 1, 2))
    assert one.starts == again.starts
    assert one.starts != other.starts
    assert list(one.starts) == sorted(one.starts)
    assert one.within(0) <= one.within(HOUR) <= one.within(100 * HOUR)


def test_calibration_on_a_known_future():
    trace = simulated(habitual(6000, 64, 0.9), clusters.load("8x8"))
    first, last = int(trace.submit[1800]), int(trace.submit[-1])
    found = ask(trace, plain_nodes(8), [each for each in moments(trace, first, last, 30) if each.row < 0])
    assert len(found.truth) > 100
    by50, by90 = (np.mean(found.truth <= found.rolled[:, at]) for at in range(2))
    assert 0.3 < by50 < 0.7
    assert 0.7 < by90 < 0.98
    assert np.median(np.abs(found.rolled[:, 0] - found.truth)) < 0.2 * np.median(np.abs(found.planned - found.truth))


@pytest.fixture(scope="module")
def thousand() -> tuple[Outlook, LiveJob]:
    """A thousand jobs wait for 400 GPUs; the last of them is asked about.  Everything is compiled."""
    trace = habitual(2500, 400, 8.0)
    simulator = Simulator(trace, clusters.load("50x8"))
    simulator.run(registry.policy("fifo:backfill=easy"), until=int(trace.submit[-1]))
    present = snapshot_of(simulator)
    waiting = [job for job in present.jobs if job.state == "PENDING"]
    assert len(waiting) >= 1000
    present = replace(present, jobs=tuple(job for job in present.jobs if job.runs) + tuple(waiting[:1000]))
    outlook = Outlook(present)
    last = outlook.line.order(waiting[:1000])[-1]
    replace(outlook, samples=1).of(last)
    return outlook, last


def quickest(work: Callable[[], object], times: int = 2) -> float:
    """Seconds of processor time: how busy the machine is makes no difference."""

    def took() -> float:
        begun = time.process_time()
        work()
        return time.process_time() - begun

    return min(took() for _ in range(times))


def test_a_hundred_futures_cost_little_beside_the_simulations_themselves(thousand):
    outlook, last = thousand
    replica = outlook.replica(last)
    drawn = outlook.run_times.draws(replica.jobs, outlook.samples, outlook.seed)

    def plain() -> None:
        simulator = replica.simulator.fork_with(drawn[:, 0].copy())
        simulator.reconsider()
        simulator.run(outlook.policy)

    assert quickest(lambda: outlook.of(last)) < 2 * outlook.samples * quickest(plain)


def by_the_hour(simulator: Simulator, policy: ManagerOrder, rows: np.ndarray) -> list[int]:
    """When jobs start, by letting a simulation go on hour by hour and looking."""
    simulator.reconsider()
    memory, until = None, simulator.now
    while (simulator.world.jobs[w.STARTED, rows] < 0).any():
        until += HOUR
        memory = simulator.run(policy, until=until, memory=memory)
    return simulator.world.jobs[w.STARTED, rows].tolist()


def test_stopping_at_the_start_changes_nothing():
    present = snapshot_of(stopped())
    waiting = [job for job in present.jobs if job.state == "PENDING"][::7]
    outlook = Outlook(present, samples=5)
    replica = outlook.replica(*waiting)
    rows = np.array([replica.rows[job.id] for job in waiting])
    drawn = outlook.run_times.draws(replica.jobs, 5, 0)
    slow = [by_the_hour(replica.simulator.fork_with(drawn[:, at].copy()), outlook.policy, rows) for at in range(5)]
    assert [sorted(column) for column in zip(*slow, strict=True)] == [
        list(each.starts) for each in outlook.of(*waiting)
    ]


@pytest.mark.parametrize("compiled", [True, False])
def test_a_simulation_stops_where_the_awaited_have_started(compiled):
    trace = habitual(200, 32, 3.0)
    policy = registry.policy("fifo:backfill=easy")
    whole, halted = (Simulator(trace, clusters.load("4x8")) for _ in range(2))
    whole.run(policy)
    memory = halted.run(policy, awaited=np.array([150, 20]), compiled=compiled)
    assert halted.now == whole.world.jobs[w.STARTED, [150, 20]].max()
    assert not halted.over
    halted.run(policy, memory=memory, compiled=compiled)
    assert halted.digest == whole.digest


# ------------------------------------------------------------------------------------------- small cases


def job(number: int, **about) -> LiveJob:
    given = {"user": "ann", "partition": "main", "limit": HOUR, "gpus": 4, "submit": NOW - HOUR, "eligible": NOW - HOUR}
    return LiveJob(
        str(number), str(number), **({"state": "PENDING", "reason": "Priority", "priority": 100} | given | about)
    )


def running(number: int, hours: float, **about) -> LiveJob:
    """A job on node n1 that says of itself that it takes so long, and began just now."""
    told = JobHints(run_s=3600 * hours)
    return job(number, state="RUNNING", reason="", start=NOW, nodes=("n1",), limit=24 * HOUR, hints=told, **about)


def on_one_node(*jobs: LiveJob, gpus: int = 4, **about) -> Outlook:
    used = sum(each.gpus for each in jobs if each.runs)
    node = Node("n1", "mixed", ("main", "urgent"), gpus, "a100", used=tuple(range(used)), cpus=64, mem_mib=512_000)
    return Outlook(Snapshot(NOW, jobs, (node,), dialect=SLURM), samples=10, **about)


def in_hours(outlook: Outlook, waiting: LiveJob) -> float:
    return (outlook.of(waiting)[0].at(0.5) - NOW) / HOUR


def test_what_fits_starts_at_once():
    waiting, behind = job(2), job(3, gpus=2, limit=2 * HOUR, priority=1)
    assert in_hours(on_one_node(waiting), waiting) == 0
    assert in_hours(on_one_node(running(1, 3, gpus=2), waiting, behind), behind) == 0  # it ends before job 1 must


def test_gpus_that_jobs_have_whom_we_may_not_see_are_not_free():
    waiting = job(2)
    outlook = on_one_node(running(1, 3, gpus=1), waiting)
    node = replace(outlook.snapshot.nodes[0], used=(0, 1, 2, 3))
    hidden = replace(outlook, snapshot=replace(outlook.snapshot, nodes=(node,)))
    assert in_hours(hidden, replace(waiting, gpus=1)) > 0
    assert any("(3) become free" in text for text in hidden.of(waiting)[0].assumptions)


def test_a_declared_run_time_is_taken_at_its_word():
    waiting = job(2)
    assert in_hours(on_one_node(running(1, 3), waiting), waiting) == 3


def test_a_comment_of_another_user_promises_nothing():
    """Else anybody could make the forecasts of all others confidently wrong."""
    waiting = job(2)
    claims = replace(running(1, 0.1), user="bob")
    silent = replace(claims, hints=JobHints())
    assert on_one_node(claims, waiting).of(waiting)[0].starts == on_one_node(silent, waiting).of(waiting)[0].starts
    assert in_hours(on_one_node(claims, waiting), waiting) > 1
    done = replace(silent, hints=JobHints(iterations=100, iteration_s=360, done=99))
    assert on_one_node(done, waiting).of(waiting)[0].starts == on_one_node(silent, waiting).of(waiting)[0].starts


def test_higher_priority_and_higher_tiers_go_first():
    told = JobHints(run_s=7200)
    low, high = job(2, hints=told), job(3, priority=101, hints=told)
    assert in_hours(on_one_node(running(1, 3), low, high), low) == 5
    assert in_hours(on_one_node(running(1, 3), low, high), high) == 3
    urgent = job(4, partition="urgent", priority=1, hints=told)
    rules = Rules(tiers={"main": 1, "urgent": 2})
    assert in_hours(on_one_node(running(1, 3), low, high, urgent, rules=rules), urgent) == 3
    assert in_hours(on_one_node(running(1, 3), low, high, urgent), urgent) == 7


def test_partitions_that_share_nodes_keep_to_their_own():
    small = [Node(f"v{at}", "idle", ("main", "small"), 4, "v100", cpus=64, mem_mib=512_000) for at in range(2)]
    big = Node("a1", "idle", ("main",), 4, "a100", cpus=64, mem_mib=512_000)
    wanted = job(2, partition="small", gpus=12)
    for other in (big, replace(big, gpu_type="v100")):
        outlook = Outlook(Snapshot(NOW, (wanted,), (*small, other)), samples=10)
        assert outlook.of(replace(wanted, gpus=8))[0].within(0) == 1
        with pytest.raises(LiveError, match="asks for 12 GPUs, and the nodes where it may run have 8"):
            outlook.of(wanted)


def test_a_job_that_comes_after_another_waits_for_its_end():
    parent = job(2, hints=JobHints(run_s=7200))
    child = job(3, reason="Dependency", eligible=-1, dependency="afterok:2(unfulfilled)")
    assert in_hours(on_one_node(running(1, 3), parent, child), child) == 5
    grandchild = job(4, reason="Dependency", eligible=-1, dependency="afterany:1:3(unfulfilled)")
    told = replace(child, hints=JobHints(run_s=3600))
    assert in_hours(on_one_node(running(1, 3), parent, told, grandchild), grandchild) == 6


def test_a_begin_time_is_kept():
    later = job(2, reason="BeginTime", eligible=NOW + 2 * HOUR)
    assert in_hours(on_one_node(later), later) == 2
    assert in_hours(on_one_node(running(1, 3), later), later) == 3


def test_held_jobs_stay_out_of_the_way():
    waiting, held = job(2, hints=JobHints(run_s=60)), job(3, reason="JobHeldUser", priority=0)
    limited = job(4, reason="AssocGrpGRES", priority=999)
    outlook = on_one_node(running(1, 3), waiting, held, limited)
    assert in_hours(outlook, waiting) == 3
    assumed = " ".join(outlook.of(waiting)[0].assumptions)
    assert "jobs held (1)" in assumed
    assert "jobs kept back by limits (1)" in assumed
    (kept,) = outlook.of(limited)
    assert (kept.at(0.5), kept.within(HOUR)) == (None, None)
    assert "is reached by all together (AssocGrpGRES)" in kept.because[0]
    with pytest.raises(LiveError, match=r"job 3: its user holds it; what helps: scontrol release 3"):
        outlook.of(held)


def test_what_never_frees_is_not_promised():
    outlook = on_one_node(running(1, 3), job(2, gpus=8), gpus=4)
    with pytest.raises(LiveError, match="asks for 8 GPUs, and the nodes where it may run have 4"):
        outlook.of(job(2, gpus=8))
    with pytest.raises(LiveError, match="requests no GPUs"):
        outlook.of(job(2, gpus=0))
    snapshot = outlook.snapshot
    down = replace(outlook, snapshot=replace(snapshot, nodes=(replace(snapshot.nodes[0], state="down"),), jobs=()))
    found = down.of(job(2))[0]
    assert found.at(0.5) is None
    assert found.because == ("nodes that it needs are down or drained, and it is unknown until when",)


def test_a_fork_with_other_durations_is_as_if_these_had_been_true():
    trace = habitual(120, 32, 2.0)
    policy = registry.policy("fifo:backfill=easy")
    other = trace.duration[::-1].copy()
    plain = Simulator(replace(trace, duration=other), clusters.load("4x8"))
    plain.run(policy)
    forked = Simulator(trace, clusters.load("4x8")).fork_with(other)
    forked.run(policy)
    assert forked.digest == plain.digest
    with pytest.raises(InvariantError, match="120 durations above 0"):
        plain.fork_with(other[:5])


# ------------------------------------------------------------------------------------------- run times


@given(
    st.lists(st.tuples(st.integers(1, 10**9), st.integers(1, 10**9)), max_size=80),
    st.integers(0, 10**8),
    st.integers(0, 10**9),
    st.booleans(),
)
def test_draws_are_possible(ended, ran, limit, same_name):
    past = [EndedJob("ann", "train", float(took), float(most)) for took, most in ended]
    asked = job(1, user="ann", name="train" if same_name else "other", limit=limit, ran=ran, state="RUNNING")
    drawn = RunTimes.of(past, "a test").draw(asked, np.linspace(0, 0.999, 50))
    assert (drawn >= ran).all()
    assert (drawn > 0).all() or ran == 0
    if limit > ran:
        assert (drawn <= limit).all()


LIKE_ALL = Curve(np.array([40.0, 400.0]), np.array([0.5, 1.0]))


def to_the_right(ended: list[int], running: list[int]) -> dict[float, float]:
    """The same estimate after Efron (1967): whoever still runs leaves his share to those who ran longer."""
    grid = len(run_times.GRID)
    found = [(float(ran), 0, 1.0) for ran in ended] + [(float(ran), 1, 1.0) for ran in running]
    found += [(float(ran), 0, run_times.BROADER / grid) for ran in (40, 400) for _ in range(grid // 2)]
    found.sort()
    shares = [share for _, _, share in found]
    for at, (_, still, _) in enumerate(found):
        longer = sum(weight for _, _, weight in found[at + 1 :])
        if still and longer:
            for other in range(at + 1, len(found)):
                shares[other] += shares[at] * found[other][2] / longer
        if still:
            shares[at] = 0.0
    total: dict[float, float] = {}
    for (ran, _, _), share in zip(found, shares, strict=True):
        total[ran] = total.get(ran, 0.0) + share / sum(shares)
    return total


@given(st.lists(st.integers(1, 500), max_size=30), st.lists(st.integers(1, 500), max_size=10))
def test_the_curve_is_what_another_way_of_calculating_gives(ended, running):
    curve = run_times.survival(np.array(ended, float), np.array(running, float), LIKE_ALL)
    slow, by = to_the_right(ended, running), 0.0
    for ran in sorted(slow):
        by += slow[ran]
        assert curve.by(ran) == pytest.approx(by, abs=1e-9)


def test_jobs_that_still_run_count():
    past = [EndedJob("ann", "train", 60.0 * at, 0.0) for at in range(1, 41)]
    known, waiting = RunTimes.of(past, "a test"), job(1, name="train", limit=0)
    running = [job(number, name="train", limit=0, state="RUNNING", ran=2400) for number in range(2, 42)]
    plain, more = (each.draw(waiting, np.array([0.5]))[0] for each in (known, known.beside(running)))
    assert plain < 1500
    assert more > 2000  # half of all that were started run longer than any that ended


def test_the_run_time_of_an_old_job_is_drawn_from_jobs_that_ran_longer():
    past = [EndedJob("ann", "train", 60.0 * at, 0.0) for at in range(1, 301)]
    running = job(1, name="train", limit=0, ran=9000, state="RUNNING")
    drawn = RunTimes.of(past, "a test").draw(running, np.linspace(0, 0.9, 50))
    assert (drawn >= 9000).all()
    assert np.median(drawn) == pytest.approx(13_000, rel=0.1)


def test_the_nearest_group_counts_most_and_few_jobs_count_little():
    past = [EndedJob("ann", "train", 10.0, 100.0)] * 300 + [EndedJob("ann", "eval", 20.0, 100.0)] * 300
    past += [EndedJob("bob", "x", 30.0, 100.0)] * 300
    known, half = RunTimes.of(past, "a test"), np.array([0.5])
    about = {"limit": 1000, "state": "PENDING"}
    assert known.draw(job(1, name="train", **about), half) == 10  # what these took
    assert known.draw(job(1, name="new", **about), half) == 200  # what the user takes of limits
    assert known.draw(job(1, user="cid", name="new", **about), half) == 300
    assert RunTimes().draw(job(1, **about), half) == pytest.approx(62, abs=5)  # AAIC's median
    assert "900 jobs in a test" in known.source
    few = RunTimes.of([*past, EndedJob("cid", "rare", 990.0, 1000.0)], "a test")
    assert few.draw(job(1, user="cid", name="rare", **about), half) == 300
    assert few.draw(job(1, user="cid", name="rare", **about), np.array([0.97])) == 990
    assert "no ended jobs" in RunTimes.of([], "a test").source


def test_a_kind_is_recognised_by_its_limit():
    past = [EndedJob("ann", "train", 10.0, 100.0)] * 200 + [EndedJob("ann", "train", 70.0, 200.0)] * 200
    known = RunTimes.of(past, "a test")
    assert [known.draw(job(1, name="train", limit=limit), np.array([0.5]))[0] for limit in (100, 200)] == [10, 70]


def test_only_the_last_jobs_count():
    past = [EndedJob("ann", "train", 10.0, 0.0)] * 500 + [EndedJob("ann", "train", 99.0, 0.0)] * run_times.LAST
    drawn = RunTimes.of(past, "a test").draw(job(1, name="train", limit=0), np.linspace(0.1, 0.9, 9))
    assert (drawn == 99).all()


def test_jobs_alike_draw_alike_and_all_levels_are_drawn():
    past = [EndedJob("ann", "train", 1000.0 * took, 0.0) for took in range(1, 301)]
    jobs = [job(number, name="train", limit=0) for number in range(20)] + [job(99, user="bob", limit=HOUR)]
    drawn = RunTimes.of(past, "a test").draws(jobs, 100, 0)
    assert (drawn[:20] == drawn[0]).all()
    assert abs(np.corrcoef(drawn[0], drawn[20])[0, 1]) < 0.3
    assert len(set(np.sort(drawn[0]).tolist())) > 70
    assert np.median(drawn[0]) == pytest.approx(150_000, rel=0.1)


def test_accounting_is_read_whatever_jobs_are_called():
    class Client:
        def run(self, program, *arguments, **more):
            assert program == "sacct"
            rows = ["2026-01-02T00:00:00|ann|60|10|a|b|c"] * 60 + ["2026-01-01T00:00:00|ann||UNLIMITED|never started"]
            return "\n".join(rows)

    known = accounting.run_times(Client())
    assert known.groups["name", "ann", "a|b|c"].times.tolist() == [60_000.0] * 60
    assert known.groups[("all",)].ratios.tolist() == [0.1] * 60
