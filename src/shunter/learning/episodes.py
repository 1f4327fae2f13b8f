"""Episodes, compiled: a window of jobs on an idle cluster, from its first decision to its last.

The engine and the queue are those of every simulation. What is different: a window begins by copying arrays, not by
making a simulator, and at each decision a caller may choose. A network in arrays chooses inside the kernel; the
environment for Python stops here and asks.
"""

from __future__ import annotations

import math

import numpy as np

from shunter import world as w
from shunter.arrays import F1, F2, I1, I2, Arrays, Variables
from shunter.capabilities import Compiled
from shunter.compiled import copy_into, kernel
from shunter.policies.scored.evaluating import INPUTS, INPUTS_AT, score
from shunter.policies.scored.features import fill_inputs
from shunter.policies.scored.inspecting import first_job, let_wait, may_wait
from shunter.scheduling.queue.decide import start_one
from shunter.scheduling.queue.heaps import insert
from shunter.scheduling.queue.intake import anything_to_try, take_in
from shunter.scheduling.queue.queue import Queue, Tools
from shunter.scheduling.queue.ranking import describe, rekey
from shunter.sim import loop
from shunter.sim.checking import check
from shunter.sim.loop import EnginePointers, advance, perform
from shunter.sim.state import LOG_ROWS, SimulationState
from shunter.world import F64, I64, Decision

PICK, INSPECT = range(2)  # what is asked: which job comes first, or whether the first one is to wait
TAKE, SKIP = range(2)  # answers to INSPECT
FIRST, SEED, DECISIONS = range(3)  # columns of the table of episodes to play


class TraceJobs(Arrays):
    """All jobs of a trace, of which a window takes some."""

    jobs: I2  # (JOB_COLUMNS, jobs)
    truth: I2  # (TRUTH_COLUMNS, jobs)
    estimate: I1  # (jobs,) ms
    class_of: I1  # (jobs,) demand class
    part: F1  # (classes,) as in ``Queue`` ...
    cost: F1  # (classes,)
    pool_of: I1  # (classes,)
    row_of: I1  # (classes,) of its pool in ``Pools``
    local: I1  # (classes,) its number in the present window, -1: it is not there


class Course(Variables):
    """Where an episode is."""

    open: bool = False  # there may be more to decide at this instant
    visible: int = 0  # jobs that are shown
    oldest: int = 0  # all jobs before this one have started
    decisions: int = 0  # that were asked for
    mode: int = PICK


class Episode(Arrays):
    """One cluster with one window of jobs, which can begin again and again."""

    state: SimulationState
    queue: Queue
    source: TraceJobs
    course: Course
    live: I1  # all arrays that change, as one ...
    first: I1  # ... and as they are before the first event
    numbers: I1  # the queue's numbers that change, as one ...
    first_numbers: I1  # ... and as they are at first
    shown: I1  # (most visible,) the jobs that are shown, by submission
    score: F1  # (most visible,) room
    model: F1  # whose inputs are observed
    draws: I1  # (2,) seed, and how many numbers were drawn
    awaited: I1  # (0,) jobs that are awaited: none


class Record(Variables):
    """Decisions, for learning: what was seen of each job that was shown, and which was chosen."""

    rows: int = 0  # in use ...
    decisions: int = 0  # ... and of these
    share: float = 1.0  # of all decisions that are recorded
    offered: int = 0  # rows that all decisions had, recorded or not
    seen: F2  # (rows, inputs)
    begin: I1  # (decisions + 1,) where its rows begin
    chosen: I1  # (decisions,) which of them
    log_probability: F1  # (decisions,)
    episode: I1  # (decisions,)


# ------------------------------------------------------------------------------------------- beginning


@kernel
def begin(episode: Episode, first: int) -> None:
    """Begin with the window of jobs from ``first`` on."""
    copy_into(episode.live, episode.first)
    copy_into(episode.numbers, episode.first_numbers)
    world, truth, source = episode.state.world, episode.state.truth, episode.source
    last = first + world.jobs.shape[1]
    for column in range(world.jobs.shape[0]):
        copy_into(world.jobs[column], source.jobs[column, first:last])
    for column in range(truth.shape[0]):
        copy_into(truth[column], source.truth[column, first:last])
    copy_into(episode.queue.estimate, source.estimate[first:last])
    world.clock[w.NOW] = world.jobs[w.SUBMIT, 0]
    number_classes(episode.queue, source, first, last)
    course = episode.course
    course.open, course.visible, course.oldest, course.decisions = False, 0, 0, 0


@kernel
def number_classes(queue: Queue, source: TraceJobs, first: int, last: int) -> None:
    """Give the demand classes of a window numbers from 0 on, and their heaps room."""
    count = 0
    for job in range(last - first):
        known = source.class_of[first + job]
        if source.local[known] < 0:
            source.local[known] = count
            queue.sample[count], queue.part[count], queue.cost[count] = job, source.part[known], source.cost[known]
            queue.pool_of[count] = source.pool_of[known]
            if queue.config.sees_pool:
                queue.pools.of_class[count] = source.row_of[known]
                queue.pools.sample[source.row_of[known]] = job
            count += 1
        queue.class_of[job] = source.local[known]
    queue.first[:] = 0
    for job in range(last - first):
        if queue.class_of[job] + 1 < len(queue.first):
            queue.first[queue.class_of[job] + 1] += 1
        source.local[source.class_of[first + job]] = -1
    for cls in range(1, len(queue.first)):
        queue.first[cls] += queue.first[cls - 1]


# ------------------------------------------------------------------------------------------- step by step


@kernel
def to_decision(episode: Episode, tools: Tools, plan: Decision) -> bool:
    """Let time pass up to the next decision; false if the episode is over."""
    state, queue, course = episode.state, episode.queue, episode.course
    while True:
        if course.open:
            take_in(state.world, queue, tools.parts)
            if anything_to_try(state.world, queue):
                if queue.state.keyed_at != state.world.clock[w.NOW]:
                    rekey(state.world, queue, tools.parts)
                tools.see_pools(state.world, queue, tools.parts, 0, plan)
                if show(episode, tools):
                    course.decisions += 1
                    return True
                if course.visible > 0:
                    act(episode, tools, plan, 0)
                    continue
            course.open = False
        status = advance(state, w.NEVER - 1)
        if status == loop.LOG_FULL:
            state.counts[LOG_ROWS] = 0
        elif status == loop.DECIDE:
            course.open = True
        else:
            return False


@kernel
def show(episode: Episode, tools: Tools) -> bool:
    """Find the jobs to be shown; false if there is no choice."""
    world, queue, course = episode.state.world, episode.queue, episode.course
    course.visible = 0
    if course.mode == INSPECT:
        job = first_job(world, queue, tools.parts)
        if job >= 0:
            episode.shown[0], course.visible = job, 1
        return job >= 0 and may_wait(queue, job)
    left = world.clock[w.N_PENDING]
    while left > 0 and world.jobs[w.STARTED, course.oldest] >= 0:
        course.oldest += 1
    for job in range(course.oldest, world.jobs.shape[1]):
        if left == 0 or course.visible == len(episode.shown):
            break
        if world.jobs[w.STATE, job] == w.PENDING:
            episode.shown[course.visible] = job
            course.visible += 1
            left -= 1
    return course.visible > 1


@kernel
def act(episode: Episode, tools: Tools, plan: Decision, choice: int) -> None:
    """Do what was decided: put the job that was picked first, or let the first one wait; then see what starts."""
    queue = episode.queue
    plan.counts[:] = 0
    if episode.course.mode == INSPECT:
        if choice == SKIP:
            let_wait(episode.state.world, queue, episode.shown[0], plan)
        else:
            start_one(episode.state.world, queue, tools, plan)
    else:
        job = episode.shown[choice]
        key = queue.key[job]
        queue.key[job] = -math.inf
        insert(queue, job)
        queue.head[:] = -1
        start_one(episode.state.world, queue, tools, plan)
        queue.key[job] = key
        if queue.at[job] >= 0:
            insert(queue, job)
    carry_out(episode, plan)


@kernel
def act_by_keys(episode: Episode, tools: Tools, plan: Decision, keys: F64) -> None:
    """Put the jobs that are shown into the order of these keys, the least first; then see what starts."""
    queue = episode.queue
    plan.counts[:] = 0
    for at in range(episode.course.visible):
        queue.key[episode.shown[at]] = keys[at]
        insert(queue, episode.shown[at])
    queue.head[:] = -1
    start_one(episode.state.world, queue, tools, plan)
    carry_out(episode, plan)


@kernel
def carry_out(episode: Episode, plan: Decision) -> None:
    """Do what is planned; time passes if nothing is, or only a timer."""
    started = False
    if plan.counts[0] > 0 and check(episode.state, plan) == 0:
        started = perform(episode.state, plan)
    episode.course.open = started


@kernel
def observe(episode: Episode, rows: F64, begin_at: int) -> None:
    """Write what a model gets of each job that is shown."""
    queue, world, model = episode.queue, episode.state.world, episode.model
    table, count = int(model[INPUTS_AT]), int(model[INPUTS])
    for at in range(episode.course.visible):
        job = describe(world, queue, episode.shown[at], queue.state.total_usage, world.clock[w.NOW])
        fill_inputs(job, model, table, count, rows[begin_at + at], 0, 1)


# ------------------------------------------------------------------------------------------- whole episodes


@kernel
def uniform(draws: I64) -> float:
    """A random number from 0 to 1; ``draws`` is (seed, how many were drawn), counted on (splitmix64)."""
    draws[1] += 1
    mixed = np.uint64(draws[0]) + np.uint64(draws[1]) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed = mixed ^ (mixed >> np.uint64(31))
    return float(mixed >> np.uint64(11)) / 9007199254740992.0


@kernel
def pick(episode: Episode, draws: I64, greedy: bool) -> tuple[int, float]:
    """Draw one of the jobs that are shown, by a softmax of minus their keys; and the logarithm of its probability."""
    count, score, best = episode.course.visible, episode.score, 0
    for at in range(count):
        score[at] = -episode.queue.key[episode.shown[at]]
        if score[at] > score[best]:
            best = at
    most, total = score[best], 0.0
    for at in range(count):
        total += math.exp(score[at] - most)
    if greedy:
        return best, -math.log(total)
    left, chosen = uniform(draws) * total, 0
    for at in range(count):
        chosen = at
        left -= math.exp(score[at] - most)
        if left < 0.0:
            break
    return chosen, score[chosen] - most - math.log(total)


@kernel
def take_or_skip(value: float, draws: I64, greedy: bool) -> tuple[int, float]:
    """Take the first job or let it wait, with odds of e^value for waiting; and the logarithm of the probability."""
    odds = 1.0 / (1.0 + math.exp(-min(max(value, -500.0), 500.0)))
    choice = SKIP if (value > 0.0 if greedy else uniform(draws) < odds) else TAKE
    return choice, math.log(max(odds if choice == SKIP else 1.0 - odds, 1e-300))


@kernel
def note(episode: Episode, record: Record, number: int, choice: int, log_probability: float) -> None:
    """Record a decision, if there is room."""
    count, at = episode.course.visible, record.decisions
    if record.rows + count > len(record.seen) or at + 1 >= len(record.begin):
        return
    observe(episode, record.seen, record.rows)
    record.begin[at], record.chosen[at] = record.rows, choice
    record.log_probability[at], record.episode[at] = log_probability, number
    record.rows += count
    record.decisions = at + 1
    record.begin[at + 1] = record.rows


@kernel
def play(episode: Episode, tools: Tools, plan: Decision, record: Record, number: int, greedy: bool) -> None:
    """Play an episode that has begun to its end."""
    world, queue, draws = episode.state.world, episode.queue, episode.draws
    while to_decision(episode, tools, plan):
        if episode.course.mode == INSPECT:
            job = describe(world, queue, episode.shown[0], queue.state.total_usage, world.clock[w.NOW])
            choice, log_probability = take_or_skip(score(job, episode.model), draws, greedy)
        else:
            choice, log_probability = pick(episode, draws, greedy)
        record.offered += episode.course.visible
        if record.share > 0.0 and (record.share >= 1.0 or uniform(draws) < record.share):
            note(episode, record, number, choice, log_probability)
        act(episode, tools, plan, choice)


@kernel
def play_all(
    episode: Episode, tools: Tools, plan: Decision, record: Record, runs: I64, waits: F64, greedy: bool
) -> None:
    """Play episodes, each row (first job, seed, decisions); fills in the latter and how long each job waited (s)."""
    for at in range(len(runs)):
        episode.draws[0], episode.draws[1] = runs[at, SEED], 0
        begin(episode, runs[at, FIRST])
        play(episode, tools, plan, record, at, greedy)
        runs[at, DECISIONS] = episode.course.decisions
        read_waits(episode, waits[at])


@kernel
def run_all(episode: Episode, engine: EnginePointers, form: Compiled, plan: Decision, firsts: I64, waits: F64) -> int:
    """Let the policy itself run the episodes that begin at these jobs; how many did not end."""
    stuck = 0
    for at in range(len(firsts)):
        begin(episode, firsts[at])
        status = loop.LOG_FULL
        while status in (loop.LOG_FULL, loop.DECIDE):
            episode.state.counts[LOG_ROWS] = 0
            status = loop.run(episode.state, engine, form, plan, w.NEVER - 1, 1 << 30, episode.awaited)
        stuck += int(status != loop.OVER)
        read_waits(episode, waits[at])
    return stuck


@kernel
def read_waits(episode: Episode, waits: F64) -> None:
    """How long each job waited for its start (s)."""
    jobs = episode.state.world.jobs
    for job in range(len(waits)):
        waits[job] = (jobs[w.STARTED, job] - jobs[w.SUBMIT, job]) / 1000.0
