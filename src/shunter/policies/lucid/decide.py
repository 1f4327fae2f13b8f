"""One decision of Lucid: which job leaves the profiler, enters it, or starts from the main queue."""

from __future__ import annotations

from shunter import reasons as r
from shunter import world as w
from shunter.compiled import kernel
from shunter.policies.lucid.memory import (
    LAST_HOUR,
    LIMIT,
    NEW,
    NONE,
    ORACLE,
    OVER,
    PROFILING,
    QUEUED,
    RESERVE,
    RING,
    RUNS,
    SCORES,
    SKIP,
    STRICT,
    TO_PROFILE,
    LucidState,
    in_order,
    shares_nodes,
    shift_out,
    soil_all,
)
from shunter.policies.lucid.packing import find_partner, join, lives_alone, may_share, part, rate
from shunter.policies.lucid.places import could_hold, find_own
from shunter.policies.lucid.profiler import (
    give_back,
    line_up,
    off_profiler,
    profiles,
    rescale,
    start_profiling,
    stop_profiling,
    turn_away,
    yield_to,
)
from shunter.policies.lucid.reserving import keep, must_pass, oldest_large, reconsider
from shunter.predictors import learned as model
from shunter.predictors.throughput import AHEAD, BIN_MS, look_ahead, note_arrival
from shunter.scheduling.estimates import took
from shunter.scheduling.placing import add_other, add_shared_start, add_start, held, sort
from shunter.scheduling.waiting_reasons import say
from shunter.world import Decision, World

# ------------------------------------------------------------------------------------------- arrivals and ends


@kernel
def prioritise(world: World, state: LucidState, job: int) -> float:
    """The place of a job in the order: GPU time by its estimate, in GPU-ms."""
    source, jobs = state.config.source, world.jobs
    if source == NONE:
        return float(jobs[w.SUBMIT, job])
    if source == ORACLE:
        expected = state.truth[job]
    elif source == LIMIT and jobs[w.LIMIT, job] > 0:
        expected = float(jobs[w.LIMIT, job])
    else:
        expected = float(model.estimate(jobs, state.learned, job))
        if state.expected[job] == 0:
            state.expected[job] = max(int(expected), 1)
    state.run_time[job] = expected
    return float(expected * jobs[w.GPUS, job] * jobs[w.SHARE, job] / 1000)


@kernel
def comes_before(state: LucidState, job: int, other: int) -> bool:
    """Whether a job is before another in the order."""
    mine, theirs = state.priority[job], state.priority[other]
    return bool(mine < theirs or (mine == theirs and job < other))


@kernel
def enqueue(world: World, state: LucidState, job: int, plan: Decision) -> None:
    """A job enters the main queue."""
    vc = world.jobs[w.VC, job] + 1
    if not could_hold(world, state, job):
        yield_to(state, vc - 1)
    state.stage[job] = QUEUED
    state.priority[job] = prioritise(world, state, job)
    queue = state.members[state.first[vc] :]
    at = state.size[vc]
    while at > 0 and comes_before(state, job, queue[at - 1]):
        queue[at] = queue[at - 1]
        at -= 1
    queue[at] = job
    say(plan, r.OF_JOB, job, r.ORDER, at, 0, 0)
    state.size[vc] += 1
    state.dirty[vc] = 1


@kernel
def gave_up(world: World, state: LucidState, job: int) -> None:
    """A job is off its GPUs."""
    off_profiler(state, job)
    part(world, state, job)
    state.dirty[world.jobs[w.VC, job] + 1] = 1
    if shares_nodes(world, state):
        soil_all(state)


@kernel
def find_way(world: World, state: LucidState, plan: Decision) -> None:
    """Take over a cluster in which jobs wait and run already: those that wait are not profiled any more."""
    line, per_gpu = state.scratch.jobs, world.clock[w.SLOTS_PER_GPU]
    for at in range(in_order(world, w.L_RUNNING, world.clock[w.N_RUNNING], line)):
        job = line[at]
        if world.jobs[w.STATE, job] != w.RUNNING:
            continue
        state.stage[job] = RUNS
        state.priority[job] = prioritise(world, state, job)
        slot, other = world.jobs[w.HEAD, job], -1
        while slot >= 0:
            gpu = slot // per_gpu
            for beside in range(gpu * per_gpu, (gpu + 1) * per_gpu):
                tenant = world.slots[w.SLOT_JOB, beside]
                if tenant not in (-1, job) and (other < 0 or tenant < other):
                    other = tenant
            slot = world.slots[w.SLOT_NEXT, slot]
        state.partner[job] = other
        if other < 0:
            state.fresh[state.fresh_jobs] = job
            state.fresh_jobs += 1
    for at in range(world.clock[w.N_ARRIVED]):
        state.stage[world.lists[w.L_ARRIVED, at]] = OVER  # for the moment: they are not those that waited before
    for at in range(in_order(world, w.L_PENDING, world.clock[w.N_PENDING], line)):
        if state.stage[line[at]] != OVER:
            enqueue(world, state, line[at], plan)
    for at in range(world.clock[w.N_ARRIVED]):
        state.stage[world.lists[w.L_ARRIVED, at]] = NEW


@kernel
def take_in(world: World, state: LucidState, plan: Decision) -> None:
    """Learn from what ended; put what arrived into the profiler's queue or the main one; note which jobs run alone."""
    for at in range(state.fresh_jobs):
        lives_alone(world, state, state.fresh[at])
    state.fresh_jobs = 0
    up = 0
    for node in range(world.nodes.shape[1]):
        up += 1 if world.nodes[w.NODE_STATE, node] == w.UP else 0
    if up != state.up_nodes:
        state.up_nodes = up
        soil_all(state)
    line = state.scratch.jobs
    for at in range(in_order(world, w.L_ENDED, world.clock[w.N_ENDED], line)):
        if state.stage[line[at]] != OVER:
            note_end(world, state, line[at])
    for at in range(turn_away(world, state)):
        enqueue(world, state, line[at], plan)
    for at in range(in_order(world, w.L_ARRIVED, world.clock[w.N_ARRIVED], line)):
        if world.jobs[w.STATE, line[at]] == w.PENDING and state.stage[line[at]] not in (TO_PROFILE, QUEUED):
            admit(world, state, line[at], plan)


@kernel
def note_end(world: World, state: LucidState, job: int) -> None:
    """A job has ended; the model learns only from those that outlast the profiler."""
    state.ended_there[job] = 1 if state.stage[job] == PROFILING else 0
    gave_up(world, state, job)
    state.stage[job] = OVER
    if state.config.source < LIMIT:
        return
    if outlasts(world, state, job):
        model.learn(world.jobs, state.learned, job, took(world, job), world.clock[w.NOW])
    else:
        model.forget(state.learned, job)


@kernel
def outlasts(world: World, state: LucidState, job: int) -> bool:
    """Whether a job that ended would not have ended in the profiler, wherever it ran."""
    large = state.config.profile_time == 0 or world.jobs[w.GPUS, job] > state.config.profile_gpus
    return bool(large or took(world, job) > state.config.profile_time)


@kernel
def has_room(world: World, state: LucidState, job: int) -> bool:
    """Whether a job can start on arrival: no job of its virtual cluster waits, and GPUs are free for it."""
    if state.config.profile_all or state.size[world.jobs[w.VC, job] + 1] > 0:
        return False
    return bool(find_own(world, state, job, must_pass(world, state, job)) > 0)


@kernel
def admit(world: World, state: LucidState, job: int, plan: Decision) -> None:
    """A job came, or came back from its GPUs."""
    first = state.stage[job] == NEW
    if first:
        note_coming(world, state, job)
    else:
        gave_up(world, state, job)
    if first and not has_room(world, state, job) and profiles(world, state, job):
        say(plan, r.OF_JOB, job, r.PROFILE, state.waiting, 0, 0)
        line_up(world, state, job)
    else:
        enqueue(world, state, job, plan)


# ------------------------------------------------------------------------------------------- what is to come


@kernel
def note_coming(world: World, state: LucidState, job: int) -> None:
    """A job was submitted: it counts for what is to come."""
    gpus, now = world.jobs[w.GPUS, job], world.clock[w.NOW]
    if state.arrivals.counts.shape[1] > 0:
        note_arrival(state.arrivals, float(gpus), now)
        return
    at = now // BIN_MS % RING
    if state.recent.bin[at] != now // BIN_MS:
        state.recent.bin[at] = now // BIN_MS
        state.recent.jobs[at] = 0.0
        state.recent.gpus[at] = 0.0
    state.recent.jobs[at] += 1
    state.recent.gpus[at] += gpus


@kernel
def look(world: World, state: LucidState) -> None:
    """Jobs and GPUs that are to come in ten minutes: by the model, else as in the last hour."""
    now, jobs, gpus = world.clock[w.NOW], 0.0, 0.0
    bins = AHEAD - 1
    if state.arrivals.counts.shape[1] > 0:
        look_ahead(state.arrivals, now)
        for step in range(bins):
            jobs += state.arrivals.ahead[0, step]
            gpus += state.arrivals.ahead[1, step]
    else:
        bins, over = LAST_HOUR, now // BIN_MS
        for at in range(RING):
            if over - LAST_HOUR <= state.recent.bin[at] < over:
                jobs += state.recent.jobs[at]
                gpus += state.recent.gpus[at]
    state.coming_jobs, state.coming_gpus = jobs / bins, gpus / bins


@kernel
def look_again(world: World, state: LucidState) -> None:
    """Once in a bin: whether jobs are packed."""
    now = world.clock[w.NOW]
    if state.bin == now // BIN_MS:
        return
    state.bin = now // BIN_MS
    look(world, state)
    busy = not state.config.dynamic or state.coming_jobs > state.config.quiet
    on = state.config.packs and busy
    if on != state.packs_now:
        state.packs_now = on
        soil_all(state)


@kernel
def set_timer(world: World, state: LucidState, plan: Decision) -> None:
    """Look again in the next bin, if that may let a waiting job start."""
    at = (world.clock[w.NOW] // BIN_MS + 1) * BIN_MS
    if not state.config.packs or state.packs_now or state.timer == at:
        return
    for vc in range(len(state.size)):
        if state.size[vc] > 0:
            state.timer = at
            add_other(plan, w.A_TIMER, 0, at)
            return


# ------------------------------------------------------------------------------------------- the main queue


@kernel
def start_beside(world: World, state: LucidState, job: int, beside: int, plan: Decision) -> bool:
    """Start a job beside a partner; false if there is none."""
    this, ids = state.passes, state.scratch.gpu_ids
    if not state.packs_now or not may_share(world, state, job):
        return False
    kind = state.class_of[job] * SCORES + rate(world, state, job)
    if state.no_partner[beside, kind] == this:
        return False
    other = find_partner(world, state, job, beside)
    if other == -1:  # later jobs in the order fare no better
        state.no_partner[beside, kind] = this
    if other < 0:
        return False
    join(world, state, job, other)
    count = held(world, other, ids)
    sort(ids[:count])
    add_shared_start(plan, job, ids[:count], w.NEVER)
    return True


@kernel
def start_alone(world: World, state: LucidState, job: int, beside: int, plan: Decision) -> bool:
    """Start a job on GPUs of its own; false if there is no room."""
    this = state.passes
    if state.no_room[beside, state.class_of[job]] == this:
        return False
    gpus = find_own(world, state, job, beside)
    if gpus == 0:
        state.no_room[beside, state.class_of[job]] = this
        return False
    state.fresh[state.fresh_jobs] = job
    state.fresh_jobs += 1
    add_start(plan, job, state.scratch.gpu_ids[:gpus], w.NEVER)
    return True


@kernel
def start_job(world: World, state: LucidState, job: int, plan: Decision) -> bool:
    """Start a job beside a partner or on GPUs of its own, whichever is tried first; false if there is neither."""
    beside = must_pass(world, state, job)
    if state.config.pack_first:
        return start_beside(world, state, job, beside, plan) or start_alone(world, state, job, beside, plan)
    return start_alone(world, state, job, beside, plan) or start_beside(world, state, job, beside, plan)


@kernel
def serve(world: World, state: LucidState, vc: int, plan: Decision) -> bool:
    """Start the first job of a queue that finds a partner or a place, and that no job before it holds back."""
    queue = state.members[state.first[vc] : state.first[vc] + state.size[vc]]
    state.passes += 1
    reconsider(world, state, vc)
    if state.config.blocking == RESERVE and state.kept_for[vc] < 0:
        oldest = oldest_large(world, queue)
        if oldest >= 0 and find_own(world, state, oldest, 0) == 0:
            keep(world, state, oldest)
    for at in range(len(queue)):
        job = queue[at]
        if start_job(world, state, job, plan):
            shift_out(queue, at, len(queue))
            state.size[vc] -= 1
            state.stage[job] = RUNS
            return True
        if state.config.blocking == STRICT or (state.config.blocking == SKIP and not state.packs_now):
            return False
    return False


@kernel
def decide(world: World, state: LucidState, parts: int, plan: Decision) -> None:
    """Plan one step."""
    if not state.begun:
        state.begun = True
        for at in range(state.profiler_nodes):
            if state.home[state.nodes[at]] != w.OPEN:
                add_other(plan, w.A_ASSIGN, state.nodes[at], w.OPEN)
        find_way(world, state, plan)
    take_in(world, state, plan)
    if plan.counts[0] > 0 or stop_profiling(world, state, plan):
        return
    look_again(world, state)
    give_back(world, state, plan)
    if plan.counts[0] == 0:  # a node that goes back is not its virtual cluster's before the plan is done
        rescale(world, state, plan)
    if state.shrunk:
        take_in(world, state, plan)
    if plan.counts[0] > 0 or start_profiling(world, state, plan):
        return
    for vc in range(len(state.size)):
        if state.dirty[vc] == 1:
            if serve(world, state, vc, plan):
                return
            state.dirty[vc] = 0
    set_timer(world, state, plan)
