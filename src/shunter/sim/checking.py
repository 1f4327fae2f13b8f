"""Whether a plan can be done: it is tried on paper, action by action."""

from __future__ import annotations

from shunter import world as w
from shunter.compiled import kernel
from shunter.instances import cpu_of, mem_of
from shunter.sim.state import PLACED, STOOD, TIME, TIMERS, WHERE, SimulationState
from shunter.world import I64, Decision, World

# -- why an action is refused; the words are in `engine.WHY`
(
    FINE,
    NO_SUCH_JOB,
    NOT_PENDING,
    NOT_RUNNING,
    NO_SUCH_GPU,
    GPU_TWICE,
    WRONG_COUNT,
    NODE_NOT_UP,
    WRONG_VC,
    WRONG_TYPE,
    GPU_BUSY,
    NO_CPU,
    NO_MEMORY,
    NO_SUCH_NODE,
    NODE_NOT_IDLE,
    NODE_NOT_ASLEEP,
    TIME_PAST,
    TOO_MANY_TIMERS,
    NO_SUCH_VC,
    NO_SLOT,
    NOT_CHECKPOINTABLE,
    OUT_OF_RANGE,
    CPU_OUT_OF_RANGE,
    MEM_OUT_OF_RANGE,
    WRONG_SERVERS,
) = range(25)


@kernel
def state_on_paper(state: SimulationState, plan: Decision, job: int) -> int:
    """The state that a job would be in after the actions of a plan that were tried so far."""
    last = state.tried[STOOD, job] - 1
    if last < 0:
        return int(state.world.jobs[w.STATE, job])
    if plan.actions[last, w.KIND] == w.A_START:
        return w.RUNNING
    stays = plan.actions[last, w.ARG] == 1 and state.world.jobs[w.STOP_COST, job] > 0
    return w.STOPPING if stays else w.PENDING


@kernel
def is_renewal(world: World, job: int, gpu_ids: I64) -> bool:
    """Whether a running job holds exactly these GPUs and its lease is over."""
    if world.jobs[w.UNTIL, job] > world.clock[w.NOW] or world.jobs[w.WORKERS, job] != len(gpu_ids):
        return False
    slot, held = world.jobs[w.HEAD, job], 0
    while slot >= 0:
        gpu = world.slots[w.SLOT_GPU, slot]
        for i in range(len(gpu_ids)):
            if gpu_ids[i] == gpu:
                held += 1
        slot = world.slots[w.SLOT_NEXT, slot]
    return held == len(gpu_ids)


@kernel
def fits(state: SimulationState, paper: World, job: int, gpu_ids: I64, shared: bool, cpu: int, mem: int) -> int:
    """Whether a job may be put on these GPUs, with so much CPU and memory each, given the jobs on them on paper."""
    jobs, nodes, gpus = state.world.jobs, paper.nodes, paper.gpus
    here, beside = -1, 0
    for i in range(len(gpu_ids)):
        gpu = gpu_ids[i]
        if gpu < 0 or gpu >= gpus.shape[1]:
            return NO_SUCH_GPU
        if i > 0 and gpu <= gpu_ids[i - 1]:
            return GPU_TWICE  # they are sorted before
        node = gpus[w.NODE, gpu]
        if nodes[w.NODE_STATE, node] != w.UP:
            return NODE_NOT_UP
        if jobs[w.VC, job] >= 0 and nodes[w.NODE_VC, node] not in (w.OPEN, jobs[w.VC, job]):
            return WRONG_VC
        if jobs[w.TYPE, job] >= 0 and paper.admits[jobs[w.TYPE, job], node] == 0:
            return WRONG_TYPE
        if not shared and gpus[w.USED, gpu] + jobs[w.SHARE, job] > 1000:
            return GPU_BUSY
        if gpus[w.TENANTS, gpu] >= state.world.clock[w.SLOTS_PER_GPU]:
            return NO_SLOT
        beside = beside + 1 if node == here else 1
        here = node
        if nodes[w.CPU_FREE, node] < beside * cpu:
            return NO_CPU
        if nodes[w.MEM_FREE, node] < beside * mem:
            return NO_MEMORY
    return FINE


@kernel
def shift(state: SimulationState, paper: World, job: int, gpu: int, sign: int, cpu: int, mem: int) -> None:
    """Put a job on a GPU on paper (+1) with so much CPU and memory, or take it off (-1)."""
    node = paper.gpus[w.NODE, gpu]
    paper.gpus[w.TENANTS, gpu] += sign
    paper.gpus[w.USED, gpu] += sign * state.world.jobs[w.SHARE, job]
    paper.nodes[w.CPU_FREE, node] -= sign * cpu
    paper.nodes[w.MEM_FREE, node] -= sign * mem


@kernel
def held_on_paper(state: SimulationState, plan: Decision, job: int) -> tuple[int, int]:
    """CPU and memory of each instance of a job after the actions of a plan that were tried so far."""
    placed = state.tried[PLACED, job] - 1
    if placed >= 0:
        return int(plan.actions[placed, w.EACH_CPU]), int(plan.actions[placed, w.EACH_MEM])
    return cpu_of(state.world, job), mem_of(state.world, job)


@kernel
def give_back(state: SimulationState, paper: World, plan: Decision, job: int) -> int:
    """Release on paper the GPUs that a job holds after the actions that were tried so far; returns how many."""
    placed, count = state.tried[PLACED, job] - 1, 0
    cpu, mem = held_on_paper(state, plan, job)
    if placed >= 0:
        used = 0
        for i in range(placed):
            used += plan.actions[i, w.SIZE] % w.SHARED
        count = plan.actions[placed, w.SIZE] % w.SHARED
        for i in range(used, used + count):
            shift(state, paper, job, plan.gpu_ids[i], -1, cpu, mem)
        return int(count)
    slot, slots = state.world.jobs[w.HEAD, job], state.world.slots
    while slot >= 0:
        shift(state, paper, job, slots[w.SLOT_GPU, slot], -1, cpu, mem)
        slot = slots[w.SLOT_NEXT, slot]
        count += 1
    return count


@kernel
def put(state: SimulationState, paper: World, plan: Decision, index: int, gpu_ids: I64, shared: bool) -> int:
    """Put a job on these GPUs on paper if it may be there; else why not.

    The action says how much CPU and memory each instance gets; where it does not, this is filled in.
    """
    job, row = plan.actions[index, w.TARGET], plan.actions[index]
    why = check_instances(state.world, job, row, len(gpu_ids))
    if why != FINE:
        return why
    cpu, mem = held_on_paper(state, plan, job)
    if row[w.KIND] == w.A_START:
        cpu, mem = state.world.jobs[w.CPU, job], state.world.jobs[w.MEM, job]
    row[w.EACH_CPU] = row[w.EACH_CPU] if row[w.EACH_CPU] > 0 else cpu
    row[w.EACH_MEM] = row[w.EACH_MEM] if row[w.EACH_MEM] > 0 else mem
    why = fits(state, paper, job, gpu_ids, shared, row[w.EACH_CPU], row[w.EACH_MEM])
    if why == FINE:
        for i in range(len(gpu_ids)):
            shift(state, paper, job, gpu_ids[i], +1, row[w.EACH_CPU], row[w.EACH_MEM])
    return why


@kernel
def check_instances(world: World, job: int, row: I64, width: int) -> int:
    """Why the instances of a job can't have the CPU, memory and roles that an action gives them; ``FINE``: they can."""
    own, cpu, mem, servers = world.instances, row[w.EACH_CPU], row[w.EACH_MEM], row[w.SERVING]
    least = most = less = more = serving = 0
    if own.shape[1] > 0:
        least, most, serving = own[w.MIN_CPU, job], own[w.MAX_CPU, job], own[w.SERVERS, job]
        less, more = own[w.MIN_MEM, job], own[w.MAX_MEM, job]
    if cpu != 0 and cpu != world.jobs[w.CPU, job] and not (most > 0 and least <= cpu <= most):
        return CPU_OUT_OF_RANGE
    if mem != 0 and mem != world.jobs[w.MEM, job] and not (more > 0 and less <= mem <= more):
        return MEM_OUT_OF_RANGE
    if servers != 0 and not (serving > 0 and 0 < servers < width):
        return WRONG_SERVERS
    return FINE


@kernel
def check_job(state: SimulationState, paper: World, plan: Decision, index: int, gpu_ids: I64) -> int:
    """Why a Start, Preempt, Migrate or Resize can't be done after the actions before it; ``FINE`` if it can."""
    kind, job, size = plan.actions[index, w.KIND], plan.actions[index, w.TARGET], plan.actions[index, w.SIZE]
    if job < 0 or job >= state.world.jobs.shape[1]:
        return NO_SUCH_JOB
    standing = state_on_paper(state, plan, job)
    if kind != w.A_START and standing != w.RUNNING:
        return NOT_RUNNING
    if kind != w.A_START and state.world.jobs[w.CHECKPOINTABLE, job] == 0:
        return NOT_CHECKPOINTABLE
    if kind == w.A_PREEMPT:
        if state.world.jobs[w.STOP_COST, job] == 0 or plan.actions[index, w.ARG] == 0:
            give_back(state, paper, plan, job)
        return FINE
    if kind == w.A_START:
        if plan.actions[index, w.ARG] <= state.world.clock[w.NOW]:
            return TIME_PAST
        renews = standing == w.RUNNING and state.tried[PLACED, job] == 0 and is_plain(plan, index)
        if renews and is_renewal(state.world, job, gpu_ids):
            return FINE
        if standing != w.PENDING:
            return NOT_PENDING
        why = check_width(state.world, job, len(gpu_ids), state.world.jobs[w.GPUS, job])
        return why if why != FINE else put(state, paper, plan, index, gpu_ids, size >= w.SHARED)
    held = give_back(state, paper, plan, job)
    if kind == w.A_MIGRATE and len(gpu_ids) != held:
        return WRONG_COUNT
    why = check_width(state.world, job, len(gpu_ids), len(gpu_ids))
    return why if why != FINE else put(state, paper, plan, index, gpu_ids, False)


@kernel
def check_width(world: World, job: int, gpus: int, usual: int) -> int:
    """Why a job can't have this many GPUs; ``FINE`` if it can. A job without a range has the usual number."""
    if gpus == 0:
        return WRONG_COUNT
    if world.jobs[w.MAX_GPUS, job] == 0:
        return FINE if gpus == usual else WRONG_COUNT
    return FINE if world.jobs[w.MIN_GPUS, job] <= gpus <= world.jobs[w.MAX_GPUS, job] else OUT_OF_RANGE


@kernel
def check_other(state: SimulationState, paper: World, plan: Decision, index: int) -> int:
    """Why a Power, Assign or Timer can't be done; ``FINE`` if it can."""
    kind, target, arg = plan.actions[index, w.KIND], plan.actions[index, w.TARGET], plan.actions[index, w.ARG]
    if kind == w.A_TIMER:
        if arg <= state.world.clock[w.NOW]:
            return TIME_PAST
        return FINE if timers_suffice(state, plan, index) else TOO_MANY_TIMERS
    if target < 0 or target >= paper.nodes.shape[1]:
        return NO_SUCH_NODE
    if kind == w.A_ASSIGN:
        if arg < w.OPEN or arg > paper.clock[w.LAST_VC]:
            return NO_SUCH_VC
        paper.nodes[w.NODE_VC, target] = arg
        return FINE
    if arg == 1:
        if paper.nodes[w.NODE_STATE, target] != w.ASLEEP:
            return NODE_NOT_ASLEEP
        paper.nodes[w.NODE_STATE, target] = w.WAKING
        return FINE
    if paper.nodes[w.NODE_STATE, target] != w.UP:
        return NODE_NOT_UP
    first = paper.nodes[w.FIRST_GPU, target]
    for gpu in range(first, first + paper.nodes[w.TOTAL, target]):
        if paper.gpus[w.TENANTS, gpu] > 0:
            return NODE_NOT_IDLE
    paper.nodes[w.NODE_STATE, target] = w.ASLEEP
    return FINE


@kernel
def timer_source(state: SimulationState, at: int) -> int:
    """A timer that already rings at that time, else a free one, else -1."""
    first = state.heap.shape[1] - TIMERS
    free = -1
    for source in range(first, first + TIMERS):
        if state.heap[WHERE, source] < 0:
            free = source
        elif state.heap[TIME, source] == at:
            return source
    return free


@kernel
def timers_suffice(state: SimulationState, plan: Decision, index: int) -> bool:
    """Whether there are timers enough for the first ``index + 1`` actions of a plan."""
    first, left = state.heap.shape[1] - TIMERS, 0
    for source in range(first, first + TIMERS):
        if state.heap[WHERE, source] < 0:
            left += 1
    for i in range(index + 1):
        if plan.actions[i, w.KIND] == w.A_TIMER and is_first_timer(state, plan, i):
            left -= 1
    return left >= 0


@kernel
def is_first_timer(state: SimulationState, plan: Decision, index: int) -> bool:
    """Whether a Timer is for a time at which none is set before it."""
    at = plan.actions[index, w.ARG]
    source = timer_source(state, at)
    first = source < 0 or state.heap[WHERE, source] < 0
    for i in range(index):
        first = first and not (plan.actions[i, w.KIND] == w.A_TIMER and plan.actions[i, w.ARG] == at)
    return bool(first)


@kernel
def is_plain(plan: Decision, index: int) -> bool:
    """Whether an action says nothing of the instances of a job."""
    row = plan.actions[index]
    return bool(row[w.EACH_CPU] == 0 and row[w.EACH_MEM] == 0 and row[w.SERVING] == 0)


@kernel
def is_plain_start(state: SimulationState, plan: Decision) -> bool:
    """Whether the only action is to start a pending job on as many GPUs as it wants, without neighbour."""
    kind, job, size = plan.actions[0, w.KIND], plan.actions[0, w.TARGET], plan.actions[0, w.SIZE]
    past = plan.actions[0, w.ARG] <= state.world.clock[w.NOW]
    if kind != w.A_START or job < 0 or job >= state.world.jobs.shape[1] or past:
        return False
    if not is_plain(plan, 0):
        return False
    return bool(state.world.jobs[w.STATE, job] == w.PENDING and size == state.world.jobs[w.GPUS, job])


@kernel
def copy_node(paper: World, world: World, node: int) -> None:
    """Write on paper what plans can change of a node."""
    for column in (w.NODE_VC, w.CPU_FREE, w.MEM_FREE, w.NODE_STATE):
        paper.nodes[column, node] = world.nodes[column, node]


@kernel
def copy_gpu(paper: World, world: World, gpu: int, copied: int) -> int:
    """Write on paper what plans can change of a GPU and its node, if that is not ``copied``; returns the node."""
    paper.gpus[w.TENANTS, gpu] = world.gpus[w.TENANTS, gpu]
    paper.gpus[w.USED, gpu] = world.gpus[w.USED, gpu]
    node = int(world.gpus[w.NODE, gpu])
    if node != copied:
        copy_node(paper, world, node)
    return node


@kernel
def copy_what_it_touches(paper: World, world: World, plan: Decision) -> None:
    """Begin a trial on paper with the GPUs and nodes that the actions of a plan are about; no others are read."""
    node = -1
    for i in range(plan.counts[1]):
        if 0 <= plan.gpu_ids[i] < world.gpus.shape[1]:
            node = copy_gpu(paper, world, plan.gpu_ids[i], node)
    for i in range(plan.counts[0]):
        kind, target = plan.actions[i, w.KIND], plan.actions[i, w.TARGET]
        if kind <= w.A_RESIZE and kind != w.A_START and 0 <= target < world.jobs.shape[1]:
            slot = world.jobs[w.HEAD, target]
            while slot >= 0:
                node = copy_gpu(paper, world, world.slots[w.SLOT_GPU, slot], node)
                slot = world.slots[w.SLOT_NEXT, slot]
        elif kind in (w.A_POWER, w.A_ASSIGN) and 0 <= target < world.nodes.shape[1]:
            copy_node(paper, world, target)
            first = world.nodes[w.FIRST_GPU, target]
            for gpu in range(first, first + world.nodes[w.TOTAL, target]):
                copy_gpu(paper, world, gpu, target)


@kernel
def note_try(state: SimulationState, plan: Decision, index: int) -> None:
    """An action about a job was tried: those after it build on it; where it put the job only if that is fine."""
    kind, job = plan.actions[index, w.KIND], plan.actions[index, w.TARGET]
    if plan.refusals[index] == NO_SUCH_JOB:
        return
    if kind <= w.A_PREEMPT:
        state.tried[STOOD, job] = index + 1
    if kind != w.A_PREEMPT and plan.refusals[index] == FINE:
        state.tried[PLACED, job] = index + 1


@kernel
def forget_tries(state: SimulationState, plan: Decision) -> None:
    """The next plan begins with the world as it is."""
    for i in range(plan.counts[0]):
        if plan.actions[i, w.KIND] <= w.A_RESIZE and plan.refusals[i] != NO_SUCH_JOB:
            job = plan.actions[i, w.TARGET]
            state.tried[STOOD, job] = 0
            state.tried[PLACED, job] = 0


@kernel
def left_to(state: SimulationState, job: int, gpu: int, last: int, shared: bool) -> bool:
    """Whether a job may have a GPU, beside the ``last`` one: nobody is there, or jobs that were stopped just before.

    If it is ``shared``, there may be others too. On paper, GPUs that the plan has given away have a tenant; all others
    that it names have none.
    """
    world, node = state.world, state.world.gpus[w.NODE, gpu]
    if gpu <= last or state.paper.gpus[w.TENANTS, gpu] > 0 or world.nodes[w.NODE_STATE, node] != w.UP:
        return False
    vc, kind = world.jobs[w.VC, job], world.jobs[w.TYPE, job]
    if (vc >= 0 and world.nodes[w.NODE_VC, node] not in (w.OPEN, vc)) or (kind >= 0 and world.admits[kind, node] == 0):
        return False
    state.paper.gpus[w.TENANTS, gpu] = 1
    most = world.clock[w.SLOTS_PER_GPU] - 1 if shared else 0
    return bool(world.gpus[w.TENANTS, gpu] == 0 or staying(state, gpu) <= most)


@kernel
def staying(state: SimulationState, gpu: int) -> int:
    """How many jobs on a GPU were not stopped so far."""
    count, per_gpu = 0, state.world.clock[w.SLOTS_PER_GPU]
    for slot in range(gpu * per_gpu, (gpu + 1) * per_gpu):
        job = state.world.slots[w.SLOT_JOB, slot]
        count += int(job >= 0 and state.tried[STOOD, job] == 0)
    return count


@kernel
def is_exchange(state: SimulationState, plan: Decision, index: int, gpu_ids: I64) -> bool:
    """Whether an action stops a job at no cost, or starts one on GPUs that are left to it; none before is about it."""
    kind, job, jobs = plan.actions[index, w.KIND], plan.actions[index, w.TARGET], state.world.jobs
    if kind > w.A_PREEMPT or job < 0 or job >= jobs.shape[1] or state.tried[STOOD, job] > 0:
        return False
    if kind == w.A_PREEMPT:
        return bool(
            jobs[w.STATE, job] == w.RUNNING and jobs[w.CHECKPOINTABLE, job] == 1 and jobs[w.STOP_COST, job] == 0
        )
    past = plan.actions[index, w.ARG] <= state.world.clock[w.NOW]
    if jobs[w.STATE, job] != w.PENDING or past or not is_plain(plan, index):
        return False
    if jobs[w.MAX_GPUS, job] > 0 or len(gpu_ids) != jobs[w.GPUS, job] or jobs[w.SHARE, job] < 1000:
        return False
    last, shared = -1, plan.actions[index, w.SIZE] >= w.SHARED
    for i in range(len(gpu_ids)):
        if not left_to(state, job, gpu_ids[i], last, shared):
            return False
        last = gpu_ids[i]
    return True


@kernel
def only_exchanges(state: SimulationState, plan: Decision) -> bool:
    """Whether a plan can be done that needs no calculation; false says nothing.

    It stops jobs at no cost and starts others on whole GPUs that these leave, that are free or that they may share,
    where nodes limit neither CPU nor memory.
    """
    used, tried = 0, 0
    if state.world.clock[w.BOUNDED] == 1:
        return False
    for i in range(plan.counts[1]):
        if plan.gpu_ids[i] < 0 or plan.gpu_ids[i] >= state.world.gpus.shape[1]:
            return False
        state.paper.gpus[w.TENANTS, plan.gpu_ids[i]] = 0
    while tried < plan.counts[0]:
        size = plan.actions[tried, w.SIZE] % w.SHARED
        if not is_exchange(state, plan, tried, plan.gpu_ids[used : used + size]):
            break
        used += size
        plan.refusals[tried] = FINE
        tried += 1
        state.tried[STOOD, plan.actions[tried - 1, w.TARGET]] = tried
    for i in range(tried):
        state.tried[STOOD, plan.actions[i, w.TARGET]] = 0
    return bool(tried == plan.counts[0])


@kernel
def check(state: SimulationState, plan: Decision) -> int:
    """Try a whole plan on paper; fills in why each action would be refused and counts the refused ones."""
    if plan.counts[0] == 1 and is_plain_start(state, plan):
        job = plan.actions[0, w.TARGET]
        cpu, mem = state.world.jobs[w.CPU, job], state.world.jobs[w.MEM, job]
        plan.refusals[0] = fits(state, state.world, job, plan.gpu_ids[: plan.counts[1]], False, cpu, mem)
        return int(plan.refusals[0] != FINE)
    if only_exchanges(state, plan):
        return 0
    paper, used, refused = state.paper, 0, 0
    copy_what_it_touches(paper, state.world, plan)
    for i in range(plan.counts[0]):
        size = plan.actions[i, w.SIZE] % w.SHARED
        if plan.actions[i, w.KIND] <= w.A_RESIZE:
            plan.refusals[i] = check_job(state, paper, plan, i, plan.gpu_ids[used : used + size])
            note_try(state, plan, i)
        else:
            plan.refusals[i] = check_other(state, paper, plan, i)
        used += size
        if plan.refusals[i] != FINE:
            refused += 1
    forget_tries(state, plan)
    return refused
