"""The guard: worse than the shadow for long enough, and the jobs are Slurm's again; as good, and nothing happens."""

from __future__ import annotations

import heapq
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shunter.errors import LiveError
from shunter.live import guard as guarding
from shunter.live.backend import Round
from shunter.live.controller import Controller, Mode, RoundResult
from shunter.live.cpu_jobs import Crowding
from shunter.live.daemons import wait
from shunter.live.guard import MOST_ARRIVALS, Guard, GuardWindow, shadow_policy
from shunter.live.hints import JobHints
from shunter.live.journal import DONE, HandedBackError, Journal
from shunter.live.journal_file import JournalError
from shunter.live.levers import Order
from shunter.live.manager import UnreachableError
from shunter.live.marks import Mark
from shunter.live.nodes import Node
from shunter.live.rounds import Authority
from shunter.live.running import resume
from shunter.live.snapshot import LiveJob, Snapshot
from shunter.live.tolerance import Duty, Tolerance
from shunter.registry import policy, text
from shunter.report import so_far
from shunter.slurm.client import Client
from shunter.slurm.dialect import SLURM
from shunter.slurm.manager import SlurmManager

NOW = 1_700_000_000_000
SECOND = 1000
NODES = (Node("n1", "idle", ("main",), gpus=4, gpu_type="a100", cpus=64, mem_mib=1 << 20),)


def jobs_of(lengths, gap_s=1, gpus=4):
    """Jobs that want the whole node, one after the other."""
    return [
        LiveJob(
            str(at + 1), str(at + 1), "PENDING", "Resources", "ann", partition="main", gpus=gpus, cpus=1, mem_mib=1,
            submit=NOW + at * gap_s * SECOND, eligible=NOW + at * gap_s * SECOND, limit=length * SECOND * 2,
        )
        for at, length in enumerate(lengths)
    ]  # fmt: skip


def reality(jobs, lengths, order):
    """When each starts on one node that serves one at a time: an independent, plain simulation."""
    starts, free, queue, left = {}, NOW, [], sorted(jobs, key=lambda job: job.submit)
    length = {job.id: seconds * SECOND for job, seconds in zip(jobs, lengths, strict=True)}
    while left or queue:
        if not queue:
            free = max(free, left[0].submit)
        while left and left[0].submit <= free:
            job = left.pop(0)
            heapq.heappush(queue, (order(job, length[job.id]), int(job.id), job.id))
        *_, name = heapq.heappop(queue)
        starts[name] = free
        free += length[name]
    return starts, length


def snapshot_at(now, jobs, starts, length):
    seen = []
    for job in jobs:
        start = starts[job.id]
        if job.submit > now:
            continue
        if start > now:
            seen.append(job)
        elif start + length[job.id] > now:
            seen.append(replace(job, state="RUNNING", reason="", start=start, ran=now - start, nodes=("n1",)))
        elif start + length[job.id] > now - 300 * SECOND:
            seen.append(
                replace(job, state="COMPLETED", reason="", start=start, end=start + length[job.id], nodes=("n1",))
            )
    used = (0, 1, 2, 3) if any(job.runs for job in seen) else ()
    return Snapshot(
        now, tuple(seen), (replace(NODES[0], used=used, cpus_used=bool(used), mem_used=bool(used)),), dialect=SLURM
    )


LENGTHS = [(7 * at) % 50 + 1 for at in range(60)]


def window_of(order, until_s, step_s=20, begin_s=0):
    jobs = jobs_of(LENGTHS)
    starts, length = reality(jobs, LENGTHS, order)
    window = GuardWindow(snapshot_at(NOW + begin_s * SECOND, jobs, starts, length))
    for at in range(begin_s + step_s, until_s + 1, step_s):
        window.note(snapshot_at(NOW + at * SECOND, jobs, starts, length))
    return window, starts


def by_submission(job, _):
    return job.submit


def longest_first(_, length):
    return -length


def shortest_first(_, length):
    return length


def test_the_day_before_is_judged_again_by_what_is_known_now(monkeypatch):
    """Run times of jobs that had not ended by then were guesses."""
    monkeypatch.setattr(guarding, "DAY_MS", 450 * SECOND)
    monkeypatch.setattr(guarding, "LEAST_JOBS", 10)
    fifo, strict = policy("fifo"), Tolerance(margin=0.05, slack=5)
    same = window_of(by_submission, 900)[0].verdict(fifo)
    assert same.realised_before_s == same.shadow_before_s > 0
    assert window_of(longest_first, 880)[0].verdict(fifo).shadow_before_s == 0  # it is no whole day
    verdict = replace(window_of(longest_first, 900)[0].verdict(fifo), realised_s=0.0)  # the last day was good
    assert verdict.realised_before_s > 1.05 * verdict.shadow_before_s + 5
    assert "on the day before" in verdict.broken(strict)
    assert not replace(verdict, realised_before_s=verdict.shadow_before_s).broken(strict)


@pytest.mark.parametrize("begin_s", [0, 100])
def test_the_shadow_of_what_reality_does_is_reality(begin_s):
    window, starts = window_of(by_submission, 1000, begin_s=begin_s)
    shadow = window.started(window.shadow(policy("fifo")))
    assert len(shadow) > 20
    assert shadow == {name: starts[name] for name in window.starts}
    verdict = window.verdict(policy("fifo"))
    assert verdict.realised_s == pytest.approx(verdict.shadow_s)


@settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(1, 90), min_size=1, max_size=30), st.integers(0, 9), st.integers(0, 60))
def test_whatever_the_jobs_the_shadow_of_fifo_is_fifo(lengths, gap_s, begin_s):
    """So the comparison itself favours neither side, also for jobs that still run or wait."""
    jobs = jobs_of(lengths, gap_s)
    starts, length = reality(jobs, lengths, by_submission)
    moments = [NOW + at * SECOND for at in range(begin_s, begin_s + 400, 25)]
    window = GuardWindow(snapshot_at(moments[0], jobs, starts, length))
    for moment in moments[1:]:
        window.note(snapshot_at(moment, jobs, starts, length))
        assert window.started(window.shadow(policy("fifo"))) == window.starts


def test_longest_first_is_worse_than_fifo_and_shortest_first_is_not():
    worse, _ = window_of(longest_first, 1000)
    better, _ = window_of(shortest_first, 1000)
    strict, fifo = Tolerance(margin=0.05, slack=5), policy("fifo")
    assert worse.verdict(fifo).broken(strict)
    assert worse.verdict(fifo).ratio(5) > 1.1
    assert not better.verdict(fifo).broken(strict)
    assert better.verdict(fifo).ratio(5) < 0.9
    assert not window_of(by_submission, 1000)[0].verdict(fifo).broken(strict)


def test_a_longer_tail_than_is_allowed_is_worse(monkeypatch):
    """Shortest first has shorter waits, and its longest jobs are in the system for longer."""
    fifo, allowed = policy("fifo"), Tolerance(margin=0.05, slack=5, worst_p99=3)
    window, _ = window_of(shortest_first, 1000)
    assert window.verdict(fifo).shadow_tail.p99 == 0  # of 60 jobs nothing is said
    monkeypatch.setattr(so_far, "FEWEST_JOBS", 20)
    verdict = window.verdict(fifo)
    assert verdict.realised_tail.p99 > 1.02 * verdict.shadow_tail.p99 > 0
    assert not verdict.broken(allowed)
    assert not verdict.broken(replace(allowed, worst_p99=0))
    assert verdict.broken(replace(allowed, worst_p99=1.01))
    same = window_of(by_submission, 1000)[0].verdict(fifo)
    assert same.realised_tail.p99 == pytest.approx(same.shadow_tail.p99, abs=20)  # ends are seen at the next look


def test_fewer_fair_jobs_than_are_allowed_is_worse(monkeypatch):
    """Longest first lets short jobs wait, many times as long as they run."""
    fifo, allowed = policy("fifo"), Tolerance(margin=9, worst_fairness=0.95)
    window, _ = window_of(longest_first, 1000)
    assert window.verdict(fifo).shadow_tail.fair == 0  # of 60 jobs nothing is said
    assert not window.verdict(fifo).broken(allowed)
    monkeypatch.setattr(so_far, "FEWEST_JOBS", 20)
    verdict = window.verdict(fifo)
    few = replace(allowed, worst_fairness=1.2)
    assert verdict.broken(few) == "the share of jobs with rho <= 1 is 0.82 times the shadow's; at least 1.2 is required"
    assert not verdict.broken(allowed)  # of 60 jobs this may be chance
    assert not verdict.broken(replace(allowed, worst_fairness=0))
    same = window_of(by_submission, 1000)[0].verdict(fifo)
    assert same.realised_tail.fair == same.shadow_tail.fair > 0


def test_a_manager_that_takes_a_moment_to_start_a_job_is_not_unfair(monkeypatch):
    """No job waits for another, but each starts three seconds late; a simulation starts it at once."""
    monkeypatch.setattr(so_far, "FEWEST_JOBS", 20)
    jobs = jobs_of([5] * 40, gap_s=10)
    starts, length = {job.id: job.submit + 3 * SECOND for job in jobs}, dict.fromkeys((job.id for job in jobs), 5000)
    window = GuardWindow(snapshot_at(NOW - SECOND, jobs, starts, length))
    for at in range(0, 500, 5):
        window.note(snapshot_at(NOW + at * SECOND, jobs, starts, length))
    assert window.verdict(policy("fifo")).realised_tail.fair == 0
    prompt = window.verdict(policy("fifo"), slack_s=5)
    assert prompt.realised_tail.fair == prompt.shadow_tail.fair == 1


def test_waits_of_the_last_day_are_compared(monkeypatch):
    """A window may be longer than a day: what was waited before does not count."""
    window, _ = window_of(longest_first, 1000)
    whole = window.verdict(policy("fifo"))
    monkeypatch.setattr(guarding, "DAY_MS", 100 * SECOND)
    lately = window.verdict(policy("fifo"))
    assert lately.jobs < whole.jobs
    assert lately.realised_p90_s <= 100 < whole.realised_p90_s
    assert not GuardWindow(window.begin, 10**9).full(replace(window.begin, now=window.begin.now + 10**9))
    assert GuardWindow(window.begin, 10**9).full(replace(window.begin, now=window.begin.now + 10**9 + 1))


def test_a_job_that_still_waits_counts_with_its_wait_so_far_in_both_worlds():
    """Fifty jobs wait for one that never should have gone first; in the shadow all have long run."""
    lengths = [10_000] + [1] * 50
    jobs = jobs_of(lengths, gap_s=0)
    starts, length = reality(jobs, lengths, lambda job, length: -length)
    window = GuardWindow(snapshot_at(NOW - SECOND, jobs, starts, length))
    for at in range(0, 601, 60):
        window.note(snapshot_at(NOW + at * SECOND, jobs, starts, length))
    verdict = window.verdict(policy("sjf:estimate=limit"))
    assert verdict.jobs == 51
    assert verdict.realised_s == pytest.approx(50 * 600 / 51)
    limits = 2  # s: what they ask for is all that is known of jobs that have not run
    assert verdict.shadow_s == pytest.approx(limits * (sum(range(50)) + 50) / 51)  # the long one goes last


def test_jobs_of_a_partition_that_the_shadow_lacks_are_not_compared():
    """They would wait in it for ever, and so hide how long others wait in reality."""
    nodes = tuple(replace(node, partitions=(*node.partitions, "new")) for node in NODES)
    window = GuardWindow(Snapshot(NOW - SECOND, (), NODES, dialect=SLURM))
    jobs = [
        replace(job, partition="new" if at % 2 else "main", gpus=1) for at, job in enumerate(jobs_of([20] * 60, 60))
    ]
    starts, length = {job.id: job.submit + 300 * SECOND for job in jobs}, {job.id: 20 * SECOND for job in jobs}
    for at in range(0, 3601, 60):
        window.note(replace(snapshot_at(NOW + at * SECOND, jobs, starts, length), nodes=nodes))
    verdict = window.verdict(policy("fifo"))
    assert verdict.jobs == 30
    assert verdict.shadow_s < 1
    assert verdict.realised_s > 250


def test_jobs_cancelled_while_they_waited_are_in_neither_world():
    jobs = jobs_of([5] * 30, gap_s=0)
    starts, length = reality(jobs, [5] * 30, by_submission)
    window = GuardWindow(snapshot_at(NOW, jobs, starts, length))
    window.note(snapshot_at(NOW + 10 * SECOND, jobs[:20], starts, length))
    gone = LiveJob(
        "99", "99", "CANCELLED", partition="main", gpus=4, submit=NOW, eligible=NOW, start=NOW + 1, end=NOW + 1
    )
    last = snapshot_at(NOW + 20 * SECOND, jobs[:20], starts, length)
    window.note(replace(last, jobs=(*last.jobs, gone)))
    assert set(window.jobs) == set(window.arrivals) == {job.id for job in jobs[1:20]}  # the first ran already
    assert window.started(window.shadow(policy("fifo"))) == window.starts


def test_a_job_that_ran_at_first_ends_when_it_ends_is_queued_again_or_is_no_longer_reported():
    base = jobs_of([1] * 3, gpus=1)
    ran = [replace(job, state="RUNNING", start=NOW - 1000, ran=1000, nodes=("n1",)) for job in base]
    no_gpus = replace(ran[0], id="77", gpus=0)
    window = GuardWindow(Snapshot(NOW, (*ran, no_gpus), NODES))
    assert set(window.warm) == {"1", "2", "3"}
    ended = replace(ran[0], state="FAILED", end=NOW + 5000)
    window.note(Snapshot(NOW + 9000, (ended, base[1]), NODES))
    window.note(Snapshot(NOW + 19_000, (base[1],), NODES))
    assert window.durations() == {"1": 6000, "2": 10_000, "3": 10_000}
    assert window.jobs == {}


def test_nothing_is_said_of_few_jobs_or_none():
    window = GuardWindow(Snapshot(NOW, (), NODES))
    assert window.verdict(policy("fifo")) is None
    assert window_of(longest_first, 40)[0].verdict(policy("fifo")) is None


def test_a_new_window_begins_after_a_day_many_jobs_or_on_another_cluster():
    window = GuardWindow(Snapshot(NOW, (), NODES))
    assert not window.full(Snapshot(NOW + 3600 * SECOND, (), NODES))
    assert window.full(Snapshot(NOW + 25 * 3600 * SECOND, (), NODES))
    assert window.full(Snapshot(NOW, (), (replace(NODES[0], state="drained"),)))
    assert window.full(Snapshot(NOW, (), (replace(NODES[0], name="n2"),)))
    window.note(Snapshot(NOW + SECOND, tuple(jobs_of([1] * (MOST_ARRIVALS + 1), gap_s=0)), NODES))
    assert not window.full(Snapshot(NOW + SECOND, (), NODES))  # they came with the window's first second
    many = jobs_of([1] * (MOST_ARRIVALS + 1))
    later = [replace(job, id=f"{job.id}-later", submit=NOW + 9000, eligible=NOW + 9000) for job in many]
    window.note(Snapshot(NOW + 9000, tuple(later), NODES))
    assert not window.full(Snapshot(NOW + 9000, (), NODES))  # else a user could end each window before it says anything
    assert window.full(Snapshot(NOW + 3600 * SECOND, (), NODES))


def test_run_times_are_what_they_were_or_what_limits_promise_for_jobs_like_these():
    window, _ = window_of(by_submission, 600)
    durations = window.durations()
    length = {str(at + 1): seconds * SECOND for at, seconds in enumerate(LENGTHS)}
    ended = {name for name, job in window.jobs.items() if job.over}
    assert len(ended) > 10
    assert all(durations[name] == length[name] for name in ended)
    waits = [job for job in window.jobs.values() if job.state == "PENDING"]
    assert waits
    assert all(durations[job.id] == job.limit // 2 for job in waits)  # all others took half of their limits


def test_comments_of_users_do_not_shorten_the_shadows_jobs():
    window, _ = window_of(by_submission, 600)
    honest = window.durations()
    window.jobs = {name: replace(job, hints=JobHints(run_s=1)) for name, job in window.jobs.items()}
    assert window.durations() == honest


@pytest.mark.parametrize(
    "asks",
    [
        {"licenses": "matlab:1"}, {"reservation": "team"}, {"features": "[rack1*2&rack2*2]"},
        {"per_node": "gres:gpu:4,gres:nvme:1"},
    ],
)  # fmt: skip
def test_jobs_that_wait_for_what_the_shadow_does_not_know_are_not_compared(asks):
    """Else a user could make the real waits look worse, and the guard hand all jobs back."""
    window, _ = window_of(by_submission, 1000)
    compared = window.verdict(policy("fifo")).jobs
    odd = sorted(window.starts)[:5]
    for name in odd:
        window.jobs[name] = replace(window.jobs[name], **asks)
    assert window.verdict(policy("fifo")).jobs == compared - len(odd)


@pytest.mark.parametrize(
    "back",
    [
        {"reason": "JobHeldUser"}, {"reason": "BeginTime", "eligible": NOW + 90 * SECOND},
        {"reason": "QOSMaxGRESPerUser"}, {"reason": "PartitionDown"}, {"throttle": 1},
        {"limit": 9}, {"features": "rare"}, {"mem_mib": 9}, {"licenses": "matlab:1"}, {"wanted_nodes": "n9"},
        {"excluded": "n9"},
    ],
)  # fmt: skip
def test_jobs_that_waited_for_more_than_their_turn_are_not_compared(back):
    """Else a user who holds two jobs of a hundred for hours, or asks for what is rare, has all jobs handed back."""
    jobs = jobs_of(LENGTHS)
    starts, length = reality(jobs, LENGTHS, by_submission)
    window = GuardWindow(snapshot_at(NOW, jobs, starts, length))
    for at in range(20, 2001, 20):
        seen = snapshot_at(NOW + at * SECOND, jobs, starts, length)
        holds = ("59", "60") if at == 80 else ()
        held = (replace(job, **back) if job.id in holds else job for job in seen.jobs)
        window.note(replace(seen, jobs=tuple(held)))
    assert window.verdict(policy("fifo")).jobs == len(jobs) - 3  # the first one ran already


def test_a_job_that_its_user_queues_again_is_not_compared():
    """It runs twice in reality and once in the shadow. One that we have stopped counts: its wait is our doing."""
    mark = Mark("0123abcd", "requeue", "0", "1")
    for marks, odd in (((), 1), ((mark,), 0)):
        window, _ = window_of(by_submission, 600)
        name = next(name for name, job in window.jobs.items() if name in window.starts and job.runs)
        back = replace(window.jobs[name], state="PENDING", start=-1, nodes=(), restarts=1, marks=marks)
        window.note(replace(window.begin, now=window.last + 1, jobs=(back,)))
        assert len(window.odd) == odd


def test_nodes_that_a_job_excluded_count_while_it_runs():
    """Slurm lists them of waiting jobs alone; without them the shadow would have started it at once."""
    jobs = jobs_of(LENGTHS)
    starts, length = reality(jobs, LENGTHS, by_submission)

    def seen(at: int) -> Snapshot:
        found = snapshot_at(NOW + at * SECOND, jobs, starts, length)
        return replace(found, jobs=tuple(replace(job, excluded="n9" * (job.state == "PENDING")) for job in found.jobs))

    window, waited = GuardWindow(seen(0)), set()
    for at in range(20, 601, 20):
        window.note(seen(at))
        waited |= {job.id for job in seen(at).jobs if job.state == "PENDING"}
    assert waited & window.starts.keys()
    assert {window.jobs[name].excluded for name in waited} == {"n9"}
    assert not window.odd


def test_one_user_does_not_decide_how_much_of_their_limits_jobs_use():
    """Else many jobs of a second with limits of a month make all others look short."""
    window, _ = window_of(by_submission, 600)
    honest = window._share_of_limit()
    some = [job for job in window.jobs.values() if job.over]
    many = {f"x{at}": replace(job, id=f"x{at}", user="mallory", limit=job.limit * 10**5) for at, job in enumerate(some)}
    window.jobs |= {
        f"{name}-{copy}": replace(job, id=f"{name}-{copy}") for name, job in many.items() for copy in range(9)
    }
    others = {f"y{at}": replace(job, id=f"y{at}", user="eve") for at, job in enumerate(some)}
    window.jobs |= others
    assert window._share_of_limit() == honest


def test_jobs_that_wait_for_a_node_that_is_away_are_not_compared():
    """Of a hundred nodes one is drained, which begins no new window; a user wants that one."""
    nodes = tuple(replace(NODES[0], name=f"n{at}", used=()) for at in range(100))
    jobs = tuple(replace(job, submit=NOW + 9, eligible=NOW + 9, wanted_nodes="n7") for job in jobs_of([60] * 40))
    window = GuardWindow(Snapshot(NOW, (), nodes, dialect=SLURM))
    there = tuple(replace(node, state="drained" if node.name == "n7" else "idle") for node in nodes)
    for at in (1, 3600):
        now = Snapshot(NOW + at * SECOND, jobs, there, dialect=SLURM)
        assert not window.full(now)
        window.note(now)
    with pytest.raises(LiveError, match="too many jobs waited"):
        window.verdict(policy("fifo"))


def put_last(window, nice, own_nice=attrgetter("nice")):
    """A user's many short jobs, all of which wait behind those of others."""
    mine = [replace(job, id=f"m{job.id}", handle=f"m{job.id}", user="eve", nice=nice) for job in jobs_of([60] * 30)]
    others = tuple(job for job in window.jobs.values() if job.waits)
    for later in (60, 600):
        window.note(replace(window.begin, now=window.last + later * SECOND, jobs=(*others, *mine)), own_nice)
    return {job.id for job in mine}


@pytest.mark.parametrize("others_are_odd", [False, True])
def test_jobs_that_their_user_puts_last_are_not_compared(others_are_odd):
    """Slurm lets them wait, and no shadow knows why: else any user could make the guard hand back."""
    window, _ = window_of(by_submission, 600)
    others = {name for name, job in window.jobs.items() if job.waits}
    window.odd |= others if others_are_odd else set()
    mine = put_last(window, nice=1_000_000)
    assert mine <= window.odd
    assert window.odd - mine == (others if others_are_odd else set())


@pytest.mark.parametrize("why", ["we put them last", "it is the site's usual nice"])
def test_jobs_that_others_put_last_are_compared(why):
    window, _ = window_of(by_submission, 600)
    if why == "we put them last":
        put_last(window, nice=1_000_000, own_nice=lambda job: 0)
    else:
        window.jobs = {name: replace(job, nice=100) for name, job in window.jobs.items()}
        put_last(window, nice=100)
    assert not window.odd


def test_what_users_set_counts_and_not_what_we_added(controller):
    """Also where no mark says so, and where somebody has changed what we set."""
    ours, theirs, changed = jobs_of([60] * 3)
    book = controller.journal
    for act in book.intend(1, [Order(job.handle, "nice", "50", "0") for job in (ours, changed)]):
        book.settle(act, DONE)
    book.leave_alone(changed.handle, "its nice was changed")
    own_nice = Guard(controller, Tolerance(base="fifo"))._own_nice()
    assert [own_nice(replace(job, nice=50)) for job in (ours, theirs, changed)] == [0, 50, 50]


@pytest.mark.parametrize(("hour", "paused"), [(0, True), (-1, False), (-24, False)])
def test_nothing_is_compared_across_a_clock_that_was_set_back(controller, hour, paused):
    """Jobs of the future would have no place in the shadow."""
    usual = {"margin": 0.1, "slack": 5.0, "every_s": 0.0, "patience": 3, "base": "fifo"}
    guard, jobs = Guard(controller, Tolerance(**usual)), jobs_of(LENGTHS)
    starts, length = reality(jobs, LENGTHS, longest_first)
    for at in range(0, 1001, 50):
        seen = snapshot_at(NOW + at * SECOND, jobs, starts, length)
        guard.seen(RoundResult(Round(at, replace(seen, now=seen.now + hour * 3600 * SECOND), None, seen.jobs), []))
    assert bool(controller.paused) is paused
    if hour:
        assert controller.doubt == "it can't compare: the clock was set back"  # so that no policy is switched
    later = replace(seen, now=seen.now + 2 * 24 * 3600 * SECOND)
    guard.seen(RoundResult(Round(at, later, None, seen.jobs), []))
    assert not controller.doubt


def test_sizes_of_ours_are_compared():
    """Else a policy could hide what it does to jobs that it resizes."""
    window, _ = window_of(by_submission, 600)
    job = next(job for job in window.jobs.values() if job.waits)
    mark = Mark("0123abcd", "resize", "job:gres:gpu:4", "job:gres:gpu:2")
    window.note(replace(window.begin, now=window.last + 1, jobs=(replace(job, gpus=2, marks=(mark,)),)))
    assert not window.odd
    window.note(replace(window.begin, now=window.last + 1, jobs=(replace(job, nice=-9, limit=job.limit),)))
    assert not window.odd


def test_a_pin_of_ours_does_not_bind_the_shadow():
    window, _ = window_of(by_submission, 600)
    name, job = next((name, job) for name, job in window.jobs.items() if job.waits)
    window.note(replace(window.begin, now=window.last + 1, jobs=(replace(job, wanted_nodes="n9"),)))
    assert window.jobs[name].wanted_nodes == ""


# ------------------------------------------------------------------------------------------- what it is told


def test_defaults_hold_for_what_is_not_set():
    """An autopilot's guard has other ones, and an operator who sets one keeps the rest, or sets any number."""
    usual = {"margin": "0.05", "worst_p99": "1.5"}
    assert Tolerance.of("on:slack=30,worst_p99=0", usual) == Tolerance(margin=0.05, slack=30, worst_p99=0)
    assert Tolerance.of("on", usual).worst_p99 == 1.5


def test_its_settings_stand_behind_its_duty():
    assert Tolerance.of("on") == Tolerance()
    assert Tolerance.of("off") is None
    assert Tolerance.of("watch:margin=0,slack=2.5,patience=1") == Tolerance(0, 2.5, 1, duty=Duty.WATCH)
    assert Tolerance.of("on:base=multifactor:age=1;size=2").base == "multifactor:age=1,size=2"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("onn", "--guard must be on, watch or off, got 'onn'; did you mean 'on'?"),
        ("on:margn=1", "guard 'on' has no parameter 'margn'; did you mean 'margin'?"),
        ("on:duty=watch", "guard 'on' has no parameter 'duty'"),
        ("on:slack=-1", "parameter 'slack' must be 0 .. inf, got '-1'"),
        ("watch:patience=1.5", "parameter 'patience' must be 1 .. inf, got '1.5' (a whole number)"),
        ("on:margin", "settings are written key=value,key=value, got 'margin'"),
        ("off:patience=0", "parameter 'patience' must be 1 .. inf, got '0'"),
    ],
)
def test_what_can_not_be_is_refused(text, says):
    with pytest.raises(LiveError) as refused:
        Tolerance.of(text)
    assert says in str(refused.value)


def test_checks_are_some_intervals_apart(controller, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(guarding.time, "monotonic", lambda: clock[0])
    guard, jobs = Guard(controller, Tolerance(base="fifo")), jobs_of(LENGTHS)
    checks = []
    monkeypatch.setattr(guard, "_check", lambda window: checks.append(clock[0]) or Guard._check(guard, window))
    snapshot = snapshot_at(NOW, jobs, *reality(jobs, LENGTHS, longest_first))
    for clock[0] in range(0, 1201, 60):
        guard.seen(RoundResult(Round(1, snapshot, None, snapshot.jobs), []))
    assert checks == [0, 300, 600, 900, 1200]


# ------------------------------------------------------------------------------------------- handing back


class Recording(Client):
    """Takes down commands instead of running them."""

    def __init__(self):
        super().__init__()
        self.said, self.away = [], 0

    def run(self, program, *arguments, **more):
        if self.away:
            self.away -= 1
            raise UnreachableError("away")
        self.said.append((program, *arguments))
        return ""


@pytest.fixture
def controller(tmp_path, monkeypatch):
    monkeypatch.setattr(guarding, "COST", 0)
    book = Journal(tmp_path / "j.db")
    yield Controller(SlurmManager(Recording()), book, mode=Mode.ACT)
    book.close()


def authority(controller):
    return Authority(controller, controller.manager.presence(controller.journal, controller.interval_s))


def watched(controller, order, **more):
    """A guard that has seen all rounds of a reality; the outcomes that it saw."""
    usual = {"margin": 0.1, "slack": 5.0, "every_s": 0.0, "patience": 3, "base": "fifo"}
    guard = Guard(controller, Tolerance(**usual | more))
    jobs = jobs_of(LENGTHS)
    starts, length = reality(jobs, LENGTHS, order)
    found = []
    for at in range(0, 1001, 50):
        snapshot = snapshot_at(NOW + at * SECOND, jobs, starts, length)
        if at == 50:
            last = max((job for job in snapshot.jobs if job.state == "PENDING"), key=lambda job: starts[job.id])
            controller.journal.settle(controller.journal.intend(1, [Order(last.id, "nice", "-9", "0")])[0], DONE)
            jobs = [replace(job, nice=-9) if job.id == last.id else job for job in jobs]
        found.append(RoundResult(Round(at, snapshot, None, snapshot.jobs), []))
        guard.seen(found[-1])
    return found


def test_worse_for_long_enough_and_the_jobs_are_handed_back(controller):
    found = watched(controller, longest_first)
    assert controller.paused.startswith("the guard has handed the jobs back: ")
    assert "in the shadow of fifo, 3 times in a row" in controller.paused
    assert [command[:2] for command in controller.manager.client.said] == [("scontrol", "update")]
    assert controller.manager.client.said[0][-1] == "nice=0"
    assert not controller.journal.in_force()
    kinds = [kind for _, kind, _ in controller.journal.events()]
    assert kinds == ["guard", "release"]  # once
    assert controller.journal.handed_back() == controller.paused
    assert found[-1].paused == ""  # the controller says it from the next round on
    told = [outcome for outcome in found if outcome.paused]
    assert len(told) == 1
    assert told[0].ratio > 1.1
    checked = [outcome.ratio for outcome in found if outcome.ratio is not None]
    assert len(checked) >= 3


def test_a_hand_back_that_can_not_be_written_down_is_tried_again(controller, monkeypatch):
    """Else the controller would only be paused, and act again after a restart."""
    real, failed = Journal.note, []

    def note(book, kind, words):
        if kind == "guard" and len(failed) < 2:
            failed.append(kind)
            raise JournalError("database is locked")
        real(book, kind, words)

    monkeypatch.setattr(Journal, "note", note)
    guard = Guard(controller, Tolerance(margin=0.1, slack=5.0, every_s=0.0, patience=3, base="fifo"))
    jobs = jobs_of(LENGTHS)
    starts, length = reality(jobs, LENGTHS, longest_first)
    for at in range(0, 1001, 50):
        snapshot = snapshot_at(NOW + at * SECOND, jobs, starts, length)
        with suppress(JournalError):  # a round reports it
            guard.seen(RoundResult(Round(at, snapshot, None, snapshot.jobs), []))
        if failed:
            guard._due = float("inf")  # it is tried again without another check, which might be a good one
    assert len(failed) == 2
    assert controller.paused
    assert controller.journal.handed_back() == controller.paused


def test_unfair_for_long_enough_and_the_journal_says_why(controller, monkeypatch):
    monkeypatch.setattr(so_far, "FEWEST_JOBS", 20)
    watched(controller, longest_first, margin=9.0, worst_fairness=0.5)
    assert not controller.paused
    watched(controller, longest_first, margin=9.0, worst_fairness=1.2)
    assert "times the shadow's; at least 1.2 is required: " in controller.journal.handed_back()
    assert not controller.journal.in_force()


def test_while_slurm_is_away_it_is_paused_and_releases_later(controller):
    controller.manager.client.away = 1
    last = watched(controller, longest_first)[-1].round
    assert controller.paused
    assert controller.journal.in_force()
    for _ in range(2):
        authority(controller).check(last.snapshot)
    assert len(controller.manager.client.said) == 1
    assert not controller.journal.in_force()


def test_as_good_and_nothing_happens(controller):
    found = watched(controller, by_submission)
    assert not controller.paused
    assert controller.manager.client.said == []
    assert controller.journal.events() == []
    assert found[-1].ratio == pytest.approx(1.0)


def test_it_can_be_set_to_warn_only(controller):
    watched(controller, longest_first, duty=Duty.WATCH)
    assert not controller.paused
    assert controller.manager.client.said == []
    assert controller.journal.last_event("guard would") is not None
    assert controller.journal.handed_back() == ""


def crowded(now, jobs, cpus_used):
    """A node whose CPUs are held by jobs without GPUs, and jobs that wait or run beside them."""
    held = LiveJob("c", "c", "RUNNING", "", "eve", partition="main", cpus=cpus_used, start=NOW, nodes=("n1",), ran=1)
    return Snapshot(now, (*jobs, *[held] * (cpus_used > 0)), (replace(NODES[0], cpus_used=cpus_used),))


@pytest.mark.parametrize("at", [0, 1])
def test_waits_for_cpus_that_jobs_without_gpus_hold_are_no_harm_of_the_policy(at):
    """Neither where they come after the window began, nor where they leave before the others wait in vain."""
    jobs = [replace(job, submit=NOW + SECOND, eligible=NOW + SECOND, gpus=1) for job in jobs_of([300] * 25)]
    held = [0, 64] if at else [64, 0]
    window = GuardWindow(crowded(NOW, [], held[0]))
    for later in range(60, 7200, 60):
        window.note(crowded(NOW + later * SECOND, jobs, held[1]))
    if at:
        with pytest.raises(LiveError, match="too many jobs waited"):  # so that no policy is switched meanwhile
            window.verdict(policy("fifo"))
    else:
        verdict = window.verdict(policy("fifo"))
        assert verdict.realised_s > 1.5 * verdict.shadow_s


def test_a_share_of_a_gpu_that_lacks_cpus_is_not_compared():
    """It asks for no whole GPU, and may share one that is in use."""
    share = LiveJob(
        "s", "s", "PENDING", "Resources", "eve", partition="main", shards=1, cpus=1, submit=NOW, eligible=NOW
    )
    node = replace(NODES[0], shards=32, used=(0, 1, 2, 3))
    for cpus_used, kept_out in ((64, True), (63, False)):
        held = LiveJob("c", "c", "RUNNING", "", "eve", partition="main", cpus=cpus_used, start=NOW, nodes=("n1",))
        seen = Snapshot(NOW + 1, (held, share), (replace(node, cpus_used=cpus_used),), dialect=SLURM)
        assert Crowding(seen).keeps_out(share) is kept_out


def test_a_job_that_needs_one_node_is_not_kept_out_by_cpus_where_no_node_has_its_gpus():
    """Free GPUs of four nodes are no room for it, whoever holds CPUs."""
    (job,) = jobs_of([600])
    one = replace(job, gpus=4, cpus=4)
    many = replace(one, min_nodes=4, max_nodes=4, per_node="gres:gpu:1")
    nodes = tuple(replace(NODES[0], name=f"n{at}", used=(0, 1, 2), cpus_used=64) for at in range(4))
    ran = LiveJob("c", "c", "RUNNING", "", "eve", partition="main", cpus=256, start=NOW, nodes=("n0", "n1", "n2", "n3"))
    crowding = Crowding(Snapshot(NOW + 1, (ran, one, many), nodes, dialect=SLURM))
    assert [crowding.keeps_out(each) for each in (one, many)] == [False, True]


def test_a_job_that_lacks_gpus_or_fits_is_compared_whatever_jobs_without_gpus_hold():
    (job,) = jobs_of([600])
    for gpus, cpus, cpus_used, kept_out in (
        (4, 8, 0, False), (4, 8, 56, False), (4, 8, 57, True), (1, 8, 57, True), (1, 7, 57, False), (5, 8, 64, False),
    ):  # fmt: skip
        asks = replace(job, gpus=gpus, cpus=cpus)
        assert Crowding(crowded(NOW + 1, [asks], cpus_used)).keeps_out(asks) is kept_out, (gpus, cpus, cpus_used)
    runs = replace(job, state="RUNNING", reason="", gpus=2, cpus=32, start=NOW, nodes=("n1",))
    waits = replace(job, id="9", handle="9", gpus=1, cpus=40)
    busy = replace(NODES[0], used=(0, 1), cpus_used=32)  # all by a job with GPUs: the shadow knows it
    assert not Crowding(Snapshot(NOW + 1, (runs, waits), (busy,))).keeps_out(waits)


def test_a_shadow_that_cannot_be_made_is_reported_and_does_no_harm(controller, monkeypatch):
    def fails(*_):
        raise LiveError("no shadow")

    monkeypatch.setattr(GuardWindow, "shadow", fails)
    watched(controller, longest_first)
    assert not controller.paused
    assert controller.journal.last_event("guard can't")[2] == "no shadow"
    assert controller.doubt == "it can't compare: no shadow"  # no policy is switched without a guard
    monkeypatch.undo()
    watched(controller, shortest_first)
    assert not controller.doubt


@pytest.mark.parametrize("kind", ["guard", "stop"])
def test_what_was_handed_back_stays_so_until_an_operator_resumes(controller, kind):
    first, now = authority(controller), Snapshot(NOW, (), ())
    order = Order("1", "nice", "-9", "0")
    controller.journal.intend(1, [order])
    controller.journal.note(kind, "worse")
    for each in (first, authority(controller)):  # also after a restart
        each.check(now)
        assert controller.paused == "worse"
        controller.paused = ""
    with pytest.raises(HandedBackError, match="worse"):
        controller.journal.intend(1, [order])
    assert resume(controller.journal)
    assert not resume(controller.journal)
    first.check(now)
    assert controller.paused == ""
    controller.journal.intend(1, [order])


# ------------------------------------------------------------------------------------------- the real thing


def test_live_longest_first_is_handed_back_to_a_slurm_that_does_better(lab, tmp_path):
    """Two GPUs; long jobs come after forty short ones, and a policy puts them first."""
    assert text(shadow_policy(Tolerance(), SlurmManager(Client(lab.conf)))).startswith(("multifactor", "fifo"))
    block = [lab.submit(f"--gres=gpu:{gpus}", "--exclusive", f"--nodelist={node}", "--time=9", script="sleep 300")
             for node, gpus in (("m40-1", 1), ("m40-2", 1))]  # fmt: skip
    for job in block:
        lab.wait_job(job, "RUNNING")
    for _ in range(40):
        lab.submit("--gres=gpu:m40:1", "--time=1", script="true")
    for _ in range(20):
        lab.submit("--gres=gpu:m40:1", "--time=9", script="sleep 3")
    journal = tmp_path / "j.db"
    command = [sys.executable, "-m", "shunter", "slurm", "run", "-p", "ljf:estimate=limit", "--mode", "act"]
    options = ["--guard", "on:base=fifo,margin=0,slack=2,patience=2"]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(
            [*command, *options, "--interval", "1", "--poll", "0.5", "--journal", str(journal)],
            env={**os.environ, "SLURM_CONF": str(lab.conf)}, stdout=subprocess.DEVNULL, stderr=said,
        )  # fmt: skip
    try:
        assert wait(journal.exists, 180)
        book = Journal(journal)
        assert wait(lambda: len(book.in_force()) >= 10, 240)
        lab.run("scancel", *map(str, block))
        assert wait(lambda: book.last_event("guard") is not None, 180)
        assert wait(lambda: not book.in_force(), 180)
        assert set(lab.run("squeue", "-h", "-t", "PD", "-O", "nice:12").split()) <= {"0"}
        assert wait(lambda: "HANDED BACK" in (tmp_path / "said").read_text(), 180)
        rounds = (tmp_path / "said").read_text().count(" round ")
        assert wait(lambda: (tmp_path / "said").read_text().count(" round ") >= rounds + 3, 180)
        assert (tmp_path / "said").read_text().count("HANDED BACK") == 1
        process.terminate()
        assert process.wait(180) == 0
        book.close()
    finally:
        process.kill()
        process.wait()
