"""Which job gets what now: needs first, then jobs that run, that wait, and that gain."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.policies.elastic.memory import (
    BLOCKED,
    KINDS,
    LATER,
    OVERTAKEN,
    OWED_IF_BLOCKED,
    ElasticState,
    catch_up,
    elastic_of,
    note_runners,
    unpaid_of,
)
from shunter.policies.elastic.needs import learn_needs
from shunter.policies.elastic.shares import find_shares
from shunter.scheduling.placing import may_use, sort
from shunter.scheduling.resizing.heap import pop, push, settle_top
from shunter.scheduling.resizing.known_jobs import (
    begins_look,
    cost_of,
    look_again,
    runs,
    stays,
    take_in,
    work_left,
)
from shunter.scheduling.resizing.memory import ResizingState
from shunter.scheduling.resizing.placing import add_changes, ask_for
from shunter.world import Decision, World

FAR = 1e300  # ms; no job waits for its turn
MANY = 10**9  # GPUs
ADMITTED, GIVEN_UP, CALM, PATIENT = range(4)  # running jobs, those that keep their GPUs first; CALM: without a deadline
FEWEST, ASKED, ALL = range(3)  # how many of its GPUs a running job keeps
AGAIN_AFTER = 10  # times what a job has waited before it was served first: it may be again
GRACE = 600_000  # ms that it may take until others are stopped for a job that is served first


@kernel
def pool_gpus(world: World, pool: int) -> int:
    """GPUs of nodes that are up and that the jobs of a pool may use."""
    found = 0
    for node in range(world.nodes.shape[1]):
        mine = pool == 0 or world.nodes[w.NODE_VC, node] in (w.OPEN, pool - 1)
        if mine and world.nodes[w.NODE_STATE, node] == w.UP:
            found += world.nodes[w.TOTAL, node]
    return int(found)


@kernel
def give(state: ResizingState, own: ElasticState, job: int, gpus: int) -> None:
    """A job gets GPUs."""
    state.wanted[job] = gpus
    own.spare -= gpus


@kernel
def keep(world: World, state: ResizingState, job: int, most: int) -> None:
    """A job that runs keeps up to so many of its GPUs, as far as they are left; none if too few are."""
    own, has = elastic_of(state.own), state.wanted[job]
    more = min(most, world.jobs[w.WORKERS, job]) - has
    if more <= 0 or not runs(world, job) or stays(world, job):
        return
    gpus = has + min(more, own.spare)
    if gpus >= state.least[job]:
        own.spare -= gpus - has
        state.wanted[job] = gpus


@kernel
def group_of(share: int) -> int:
    """Where running jobs with a deadline stand when GPUs are kept."""
    if share >= 0:
        return ADMITTED
    return PATIENT if share == LATER else GIVEN_UP


@kernel
def keep_all(world: World, state: ResizingState, pool: int, amount: int) -> None:
    """Running jobs keep GPUs: those due first, and last those with time for their deadline."""
    own, begin = elastic_of(state.own), elastic_of(state.own).first[pool]
    for group in range(4):
        rows, size = (own.runners, own.runners_size[pool]) if group == CALM else (own.dated, own.dated_size[pool])
        for at in range(begin, begin + size):
            job = rows[at]
            if group == CALM or group_of(own.share[job]) == group:
                most = world.jobs[w.GPUS, job] if amount == ASKED else MANY
                keep(world, state, job, state.least[job] if amount == FEWEST else most)


@kernel
def time_left(state: ResizingState, job: int, width: int) -> float:
    """How long a job still runs on so many GPUs of one machine, ms."""
    return float(elastic_of(state.own).left[job] / state.speeds.together[state.kind[job], width])


@kernel
def start(world: World, state: ResizingState, job: int) -> None:
    """A job that waits starts on what it asks for, or on fewer; not in the way of one for which room is kept."""
    own = elastic_of(state.own)
    gpus = min(world.jobs[w.GPUS, job], own.spare)
    if state.wanted[job] > 0 or gpus < state.least[job]:
        return
    if time_left(state, job, gpus) > own.ahead:
        gpus = min(gpus, own.beside)
        if gpus < state.least[job]:
            return
        own.beside -= gpus
    give(state, own, job, gpus)
    own.begun[own.begun_size] = job
    own.begun_size += 1


@kernel
def find_turn(world: World, state: ResizingState, pool: int, waits: int) -> None:
    """When there is room for a job if those that have GPUs end as expected, and what that leaves to others."""
    own, draft, size = elastic_of(state.own), state.draft, 0
    begin, free = own.first[pool], own.spare
    for at in range(begin, begin + own.dated_size[pool]):
        job = own.dated[at]
        if state.wanted[job] > 0:
            size = push(draft.value, draft.member, size, -time_left(state, job, state.wanted[job]), job)
    for at in range(begin, begin + own.runners_size[pool]):
        job = own.runners[at]
        if state.wanted[job] > 0:
            size = push(draft.value, draft.member, size, -time_left(state, job, state.wanted[job]), job)
    for at in range(own.begun_size):
        job = own.begun[at]
        if world.jobs[w.DEADLINE, job] == 0:
            size = push(draft.value, draft.member, size, -time_left(state, job, state.wanted[job]), job)
    while size > 0:
        free += state.wanted[draft.member[0]]
        if free >= state.least[waits]:
            own.ahead, own.beside = -draft.value[0], int(free - state.least[waits])
            return
        size = pop(draft.value, draft.member, size)


@kernel
def is_first(world: World, own: ElasticState, job: int) -> bool:
    """Whether a job without a deadline is served before all others now."""
    return bool(own.first_until[job] > world.clock[w.NOW])


@kernel
def waited(world: World, job: int) -> int:
    """How long a job that waits has waited in all, ms."""
    return int(world.jobs[w.WAITED, job] + world.clock[w.NOW] - world.jobs[w.WAITING_SINCE, job])


@kernel
def kept_for_good(world: World, own: ElasticState, pool: int) -> int:
    """GPUs of a pool whose jobs can't be stopped."""
    found, begin = 0, own.first[pool]
    for at in range(begin, begin + own.dated_size[pool]):
        found += world.jobs[w.WORKERS, own.dated[at]] if stays(world, own.dated[at]) else 0
    for at in range(begin, begin + own.runners_size[pool]):
        found += world.jobs[w.WORKERS, own.runners[at]] if stays(world, own.runners[at]) else 0
    return int(found)


@kernel
def may_use_all(world: World, job: int, pool: int) -> bool:
    """Whether a job may run on every node of its pool that is up: counts of GPUs say nothing of one that may not."""
    for node in range(world.nodes.shape[1]):
        mine = pool == 0 or world.nodes[w.NODE_VC, node] in (w.OPEN, pool - 1)
        if mine and world.nodes[w.NODE_STATE, node] == w.UP and not may_use(world, job, node):
            return False
    return True


@kernel
def find_firsts(world: World, state: ResizingState, pool: int) -> None:
    """Find the jobs without a deadline that are served before all others, since they waited for too long.

    They are owed a share of the GPU time behind jobs with a deadline that have several times their work, and a smaller
    one behind others. A job is chosen once it has waited for some hours, and for as long as its share would take for
    it; the least work comes first. The next one is chosen only after the time that the share takes for this one. A job
    is first until it should have ended: one that takes longer than was said is served like others then, until it has
    waited for ten times as long.
    """
    own, draft, now = elastic_of(state.own), state.draft, world.clock[w.NOW]
    drop_former(world, own, pool)
    if own.dated_size[pool] == 0 or own.undated_size[pool] == 0 or own.next_search[pool] > now:
        return
    if not may_choose(own, pool, now):
        return
    for kind in range(KINDS):
        own.next_first[pool, kind] = max(own.next_first[pool, kind], now - state.config.step)
    room, held, size = own.gpus - kept_for_good(world, own, pool), 0, line_up_holders(world, state, pool)
    for at in range(size):
        held += world.jobs[w.WORKERS, draft.member[at]]
    for at in range(own.first[pool], own.first[pool] + own.line_size[pool]):
        job = own.line[at]
        while size > 0 and -draft.value[0] <= own.config.overtakes * own.area[job]:
            held -= world.jobs[w.WORKERS, draft.member[0]]
            size = pop(draft.value, draft.member, size)
        if not may_choose(own, pool, now):
            return
        kind = OVERTAKEN if held >= state.least[job] else BLOCKED
        if own.next_first[pool, kind] <= now and state.least[job] <= room and may_be_first(world, own, job, pool, kind):
            choose(world, own, job, pool, kind)
    own.next_search[pool] = now + state.config.step


@kernel
def may_choose(own: ElasticState, pool: int, now: int) -> bool:
    """Whether any share owed has time left."""
    return bool(min(own.next_first[pool, OVERTAKEN], own.next_first[pool, BLOCKED]) <= now)


@kernel
def share_owed(own: ElasticState, kind: int) -> float:
    """The most of the GPU time that goes to jobs that are served first."""
    return own.config.owed if kind == OVERTAKEN else min(own.config.owed, OWED_IF_BLOCKED)


@kernel
def choose(world: World, own: ElasticState, job: int, pool: int, kind: int) -> None:
    """Serve a job first from now on."""
    own.first_until[job] = world.clock[w.NOW] + GRACE + int(own.left[job])
    own.first_kind[job] = kind
    own.charged[job], own.last_run[job], own.former_runs[job] = own.area[job], 0.0, 0.0
    own.stops[job] = world.jobs[w.PREEMPTIONS, job]
    own.patient_for[job] = AGAIN_AFTER * waited(world, job)
    own.next_first[pool, kind] += int(own.area[job] / (own.gpus * share_owed(own, kind)))
    own.firsts[own.first[pool] + own.firsts_size[pool]] = job
    own.firsts_size[pool] += 1


@kernel
def line_up_holders(world: World, state: ResizingState, pool: int) -> int:
    """Put the running jobs with a deadline into the heap, the one with the least work first; returns how many."""
    own, draft, begin, size = elastic_of(state.own), state.draft, elastic_of(state.own).first[pool], 0
    for at in range(begin, begin + own.dated_size[pool]):
        job = own.dated[at]
        if runs(world, job) and not stays(world, job):
            size = push(draft.value, draft.member, size, -own.left[job] * world.jobs[w.GPUS, job], job)
    return size


@kernel
def drop_former(world: World, own: ElasticState, pool: int) -> None:
    """Keep only the jobs that still are served first; what others took beyond their work is taken off the share.

    One that can't be stopped takes the GPUs of others as long as it runs, so it is charged until then.
    """
    for kind in range(KINDS):
        pay(own, pool, kind, own.unpaid[pool, kind])
        own.unpaid[pool, kind] = 0.0
    kept = begin = own.first[pool]
    for at in range(begin, begin + own.firsts_size[pool]):
        job = own.firsts[at]
        note_run(world, own, job)
        first = is_first(world, own, job) and w.PENDING <= world.jobs[w.STATE, job] <= w.STOPPING
        if not first:
            more = unpaid_of(own, job)
            pay(own, pool, own.first_kind[job], more)
            own.charged[job] += more
        if first or stays(world, job):
            own.firsts[kept] = job
            kept += 1
    own.firsts_size[pool] = kept - begin


@kernel
def pay(own: ElasticState, pool: int, kind: int, gpu_ms: float) -> None:
    """Take GPU time off the share owed: the next job is chosen later."""
    own.next_first[pool, kind] += int(gpu_ms / (max(own.gpus, 1) * share_owed(own, kind)))


@kernel
def note_run(world: World, own: ElasticState, job: int) -> None:
    """Note the GPU time of a job that is served first; what it took before it was queued again counts too."""
    stops = world.jobs[w.PREEMPTIONS, job]
    if world.jobs[w.STATE, job] == w.PENDING or stops != own.stops[job]:
        own.former_runs[job] += own.last_run[job]
    own.last_run[job], own.stops[job] = gpu_time_of_run(world, job), stops


@kernel
def gpu_time_of_run(world: World, job: int) -> float:
    """GPU-ms of the present or last run of a job; 0 if it waits."""
    if world.jobs[w.STATE, job] == w.PENDING:
        return 0.0
    over = world.jobs[w.STATE, job] > w.STOPPING
    end = world.jobs[w.ENDED_AT, job] if over else world.clock[w.NOW]
    return float(world.jobs[w.GPUS, job] * max(end - world.jobs[w.BEGUN, job], 0))


@kernel
def may_be_first(world: World, own: ElasticState, job: int, pool: int, kind: int) -> bool:
    """Whether a job without a deadline has waited for too long."""
    if world.jobs[w.DEADLINE, job] > 0 or world.jobs[w.STATE, job] != w.PENDING or is_first(world, own, job):
        return False
    long = waited(world, job)
    if (
        long <= max(own.config.patience, own.patient_for[job])
        or long * own.gpus * share_owed(own, kind) <= own.area[job]
    ):
        return False
    return may_use_all(world, job, pool)


@kernel
def serve_firsts(world: World, state: ResizingState, pool: int) -> None:
    """The jobs that waited for too long start, or keep their GPUs."""
    own, begin = elastic_of(state.own), elastic_of(state.own).first[pool]
    own.ahead, own.beside = FAR, MANY
    for at in range(begin, begin + own.firsts_size[pool]):
        if world.jobs[w.STATE, own.firsts[at]] == w.PENDING:
            start(world, state, own.firsts[at])
        else:
            keep(world, state, own.firsts[at], MANY)


@kernel
def start_waiting(world: World, state: ResizingState, pool: int) -> None:
    """Jobs that can still meet a deadline start by deadline, then those with the least work.

    Room is kept for the first one without a deadline that has none now.
    """
    own, begin = elastic_of(state.own), elastic_of(state.own).first[pool]
    for at in range(begin, begin + own.dated_size[pool]):
        job = own.dated[at]
        if own.share[job] >= 0 and world.jobs[w.STATE, job] == w.PENDING:
            start(world, state, job)
    for at in range(begin, begin + own.line_size[pool]):
        if own.spare <= 0:
            return
        job = own.line[at]
        if own.share[job] < 0:
            start(world, state, job)
            if state.wanted[job] == 0 and own.ahead == FAR and world.jobs[w.DEADLINE, job] == 0:
                find_turn(world, state, pool, job)


# ------------------------------------------------------------------------------------------- spare GPUs


@kernel
def offer(world: World, state: ResizingState, job: int, size: int) -> int:
    """Put a job that may be widened into the heap; returns its size."""
    own, draft, wanted = elastic_of(state.own), state.draft, state.wanted[job]
    own.before[job] = wanted
    if wanted == 0 or wanted >= state.most[job] or stays(world, job):
        return size
    if runs(world, job) and world.clock[w.NOW] - world.jobs[w.BEGUN, job] < own.config.rest:
        return size
    units = state.speeds.units[state.kind[job]]
    return push(draft.value, draft.member, size, units[wanted + 1] - units[wanted], job)


@kernel
def widen(world: World, state: ResizingState, pool: int) -> None:
    """Spare GPUs one by one to the job that gains most speed, in units of one GPU; only as far as it pays."""
    own, draft, size = elastic_of(state.own), state.draft, 0
    begin = own.first[pool]
    if own.spare <= 0:
        return
    for at in range(begin, begin + own.dated_size[pool]):
        size = offer(world, state, own.dated[at], size)
    for at in range(begin, begin + own.runners_size[pool]):
        size = offer(world, state, own.runners[at], size)
    for at in range(own.begun_size):
        if world.jobs[w.DEADLINE, own.begun[at]] == 0:
            size = offer(world, state, own.begun[at], size)
    widened = 0
    while own.spare > 0 and size > 0 and draft.value[0] > 0:
        job = draft.member[0]
        if state.wanted[job] == own.before[job]:
            state.changing[widened] = job
            widened += 1
        state.wanted[job] += 1
        own.spare -= 1
        if state.wanted[job] < state.most[job]:
            units = state.speeds.units[state.kind[job]]
            draft.value[0] = units[state.wanted[job] + 1] - units[state.wanted[job]]
            settle_top(draft.value, draft.member, size)
        else:
            size = pop(draft.value, draft.member, size)
    for at in range(widened):
        job = state.changing[at]
        if not is_worth(world, state, job):
            state.wanted[job] = own.before[job]


@kernel
def is_worth(world: World, state: ResizingState, job: int) -> bool:
    """Whether a job that runs saves enough time when it is widened; one that starts, or changes anyhow, always."""
    own, before = elastic_of(state.own), elastic_of(state.own).before[job]
    if world.jobs[w.WORKERS, job] != before:
        return True
    speeds = state.speeds.units[state.kind[job]]
    units = own.left[job] * state.speeds.unit[state.kind[job]]
    saved = units / speeds[before] - units / speeds[state.wanted[job]]
    return bool(saved > own.config.pays * max(cost_of(world, job), 1))


# ------------------------------------------------------------------------------------------- the decision


@kernel
def measure_work(world: World, state: ResizingState, pool: int) -> None:
    """The work left of all jobs of a pool that run or have a deadline; of others it is known since they came."""
    own, begin = elastic_of(state.own), elastic_of(state.own).first[pool]
    for at in range(begin, begin + own.dated_size[pool]):
        own.left[own.dated[at]] = work_left(world, state, own.dated[at])
    for at in range(begin, begin + own.runners_size[pool]):
        own.left[own.runners[at]] = work_left(world, state, own.runners[at])


@kernel
def give_needed(world: World, state: ResizingState, pool: int) -> None:
    """Jobs that can't be stopped keep their GPUs; then come those that waited too long, then who needs some now."""
    own, begin = elastic_of(state.own), elastic_of(state.own).first[pool]
    for at in range(begin, begin + own.dated_size[pool]):
        if stays(world, own.dated[at]):
            give(state, own, own.dated[at], world.jobs[w.WORKERS, own.dated[at]])
    for at in range(begin, begin + own.runners_size[pool]):
        if stays(world, own.runners[at]):
            give(state, own, own.runners[at], world.jobs[w.WORKERS, own.runners[at]])
    serve_firsts(world, state, pool)
    for at in range(begin, begin + own.dated_size[pool]):
        job = own.dated[at]
        if own.share[job] > 0 and not stays(world, job) and own.spare >= state.least[job]:
            give(state, own, job, min(own.share[job], own.spare))


@kernel
def line_up_changes(world: World, state: ResizingState, pool: int) -> None:
    """Jobs that waited too long are placed first, then those with an urgent need, that start, and that are widened."""
    own, begin, wider = elastic_of(state.own), elastic_of(state.own).first[pool], 0
    for at in range(begin, begin + own.firsts_size[pool]):
        ask_for(world, state, own.firsts[at])
    for at in range(begin, begin + own.dated_size[pool]):
        job = own.dated[at]
        if own.share[job] > 0:
            ask_for(world, state, job)
        elif runs(world, job):
            state.changing[wider] = job
            wider += 1
    for at in range(own.begun_size):
        if own.share[own.begun[at]] <= 0 and not is_first(world, own, own.begun[at]):
            ask_for(world, state, own.begun[at])
    for at in range(begin, begin + own.runners_size[pool]):
        if not is_first(world, own, own.runners[at]):
            state.changing[wider] = own.runners[at]
            wider += 1
    sort(state.changing[:wider])
    for at in range(wider):
        ask_for(world, state, state.changing[at])
    own.started = own.started or own.begun_size > 0


@kernel
def note_loans(world: World, state: ResizingState, pool: int) -> None:
    """Note whether a job has more GPUs than it asked for and needs, which it would give back to one that comes."""
    own, begin = elastic_of(state.own), elastic_of(state.own).first[pool]
    for at in range(begin, begin + own.dated_size[pool]):
        job = own.dated[at]
        own.lends |= state.wanted[job] > max(world.jobs[w.GPUS, job], own.share[job])
    for at in range(begin, begin + own.runners_size[pool]):
        own.lends |= state.wanted[own.runners[at]] > world.jobs[w.GPUS, own.runners[at]]
    for at in range(own.begun_size):
        own.lends |= state.wanted[own.begun[at]] > world.jobs[w.GPUS, own.begun[at]]


@kernel
def serve(world: World, state: ResizingState, pool: int) -> None:
    """Find the widths of all jobs of a pool."""
    own = elastic_of(state.own)
    own.gpus, own.begun_size = pool_gpus(world, pool), 0
    own.spare = own.gpus
    measure_work(world, state, pool)
    find_firsts(world, state, pool)
    find_shares(world, state, pool)
    give_needed(world, state, pool)
    keep_all(world, state, pool, FEWEST)
    keep_all(world, state, pool, ASKED)
    start_waiting(world, state, pool)
    keep_all(world, state, pool, ALL)
    own.spare = min(own.spare, own.beside)
    widen(world, state, pool)
    note_loans(world, state, pool)
    line_up_changes(world, state, pool)


@kernel
def is_full_for_new(world: World, own: ElasticState) -> bool:
    """Whether nothing happened but that jobs without a deadline came for which no GPU is free, or lent to others."""
    if world.clock[w.N_ENDED] > 0 or world.clock[w.RELEASES] != own.releases or world.clock[w.N_ARRIVED] == 0:
        return False
    if own.lends:
        return False
    for at in range(world.clock[w.N_ARRIVED]):
        job = world.lists[w.L_ARRIVED, at]
        if world.jobs[w.DEADLINE, job] > 0:
            return False
        for node in range(world.nodes.shape[1]):
            mine = own.pool[job] == 0 or world.nodes[w.NODE_VC, node] in (w.OPEN, own.pool[job] - 1)
            if mine and world.nodes[w.FREE, node] > 0:
                return False
    return True


@kernel
def decide(world: World, state: ResizingState, parts: int, plan: Decision) -> None:
    """Look at all jobs, unless only jobs came for which there is no room before the next look."""
    own, now = elastic_of(state.own), world.clock[w.NOW]
    learn_needs(world, state)
    take_in(world, state)
    catch_up(world, state)
    if now < state.wake and is_full_for_new(world, own):
        return
    if not begins_look(world, state):
        own.releases = world.clock[w.RELEASES]
        return
    note_runners(world, own)
    own.lends = False
    for pool in range(len(own.first)):
        serve(world, state, pool)
    add_changes(world, state, plan)
    if plan.counts[0] == 0:
        own.releases = world.clock[w.RELEASES]
    look_again(world, state, plan)
