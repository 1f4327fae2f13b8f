"""Scheduling by network tiers played out slowly: the reference for Dally, Tiresias and plain Gandiva.

Plain lists and dictionaries; everything is recomputed whenever it is needed.  Times are integers (ms).  At each instant
(1) jobs whose work is done end, (2) jobs whose time has come begin to wait, (3) jobs that waited too long are promoted,
(4) leases that are over end: the job waits again, its waiting clock at zero, (5) offers are made: all that is free, to
the waiting jobs in their order, until none takes any.  After each start the offers begin again with the first job.

Where the papers leave room, this is what holds here:

- Ties in the order go to the lower job index, or before that to the job without GPUs for longest.  "Last started
  first" is about a job's first start.
- A job takes the lowest tier that has room for it if it accepts that tier by now; it does not look at higher ones then,
  since whatever has room at a tier has room at all above.
- A tier is accepted once the timers of *all* lower tiers that could hold the job on an empty cluster have run out.
- A wait counts for the tier that was taken, if it was at least one lease long, as long as it is not older than the
  history: a timer may change without anything else happening, and offers are made then.  Of a floor and a ceiling that
  contradict each other (``clamps``) the floor holds.
- ``keep``: when leases end, the GPUs concerned are offered on paper with the free ones.  Their holders stand in the
  order with the waiting jobs; a holder whose GPUs are all still there when its turn comes keeps them for another lease.
  That is repeated with those that are left, until no more is kept; the rest must go.
- ``moves``: at an instant at which GPUs come free, and at each multiple of ``move_again``, running jobs that began to
  run there before stand in the order with the waiting ones.  In its turn such a job moves to free GPUs of the lowest
  tier below its own that has room, also of one on which it would not be started; its lease goes on.
- ``returns``: a job whose lease ended takes any tier up to the one that it had, unless that was the last, also those on
  which it would not be started.
- ``easy``: see ``reserving``.  The first job that finds no room at any tier that it takes is the head; a job after
  it takes an offer, or keeps its GPUs, only if that leaves the head's reservation alone.  In passes the head is the
  first that finds none even in the place of others, and no job after it takes another's place.
- ``passes``: there are no leases.  A job that does not fit, in its turn, takes the place of running jobs of a larger
  key: as few as needed, the last in the order first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from shunter.testing.offers import (
    LeaseJob,
    LeaseRules,
    ReferenceLeases,
    Stay,
    accepted,
    has_room,
    hold,
    in_order,
    key,
    lease_end,
    opening,
    tiers_of,
    without,
)
from shunter.testing.placement import Places
from shunter.testing.reference import RefRun
from shunter.testing.reserving import Uses, expected_end, leaves_alone, use_of, uses_of
from shunter.testing.tiers import FREE, Layout, lowest_room, place_at, tier_of


def simulate(jobs: Sequence[LeaseJob], layout: Layout, rules: LeaseRules) -> ReferenceLeases:
    """Play it all; ``runs`` and ``waits`` of the result say what happened."""
    nodes, zeros = [[FREE] * gpus for gpus in layout.gpus], [0] * len(jobs)
    runs: list[list[RefRun]] = [[] for _ in jobs]
    state = ReferenceLeases(jobs, layout, rules, nodes, [0.0] * len(jobs), zeros, list(zeros), [-1] * len(jobs), runs)
    while len(state.ended) < len(jobs):
        state.now, state.freed = next_instant(state), False
        end_finished(state)
        enter(state)
        promote(state)
        end_leases(state)
        while make_all_offers(state):  # a job without work is gone before time moves on
            end_finished(state)
    return state


# --------------------------------------------------------------------------------------------------- time and the queue


def next_instant(state: ReferenceLeases) -> int:
    """The next submission, end, end of a lease or look; when a tier is acceptable, or a wait too old to count."""
    instants: list[float] = [job.submit for index, job in enumerate(state.jobs) if index not in state.entered]
    instants += [true_end(state, index) for index in state.running]
    instants += [stay.lease_end for stay in state.running.values()]
    instants += [opening(state, index, tier) for index in state.since for tier in tiers_of(state, index)]
    if state.rules.timers == "auto":
        instants += [time + state.rules.history + 1 for waits in state.waits.values() for time, _ in waits]
    if state.rules.passes and state.since:
        instants.append((state.now // state.rules.look_again + 1) * state.rules.look_again)
    if state.rules.move_again and state.running:
        instants.append((state.now // state.rules.move_again + 1) * state.rules.move_again)
    return int(min(instant for instant in instants if instant > state.now))


def true_end(state: ReferenceLeases, index: int) -> int:
    """When a running job will have done its work where it is."""
    stay = state.running[index]
    return stay.counted + math.ceil((state.jobs[index].work - state.done[index]) / stay.speed)


def end_finished(state: ReferenceLeases) -> None:
    """Rule 1."""
    for index in list(state.running):
        if true_end(state, index) == state.now:
            leave(state, index)
            state.ended.add(index)


def enter(state: ReferenceLeases) -> None:
    """Rule 2."""
    for index, job in enumerate(state.jobs):
        if index not in state.entered and job.submit <= state.now:
            state.entered.add(index)
            state.since[index] = state.now


def promote(state: ReferenceLeases) -> None:
    """Rule 3, at the first instant of each interval ``look_again``: what a job ran is forgotten."""
    rules = state.rules
    if rules.look_again == 0 or state.looked == state.now // rules.look_again:
        return
    state.looked = state.now // rules.look_again
    for index, since in state.since.items():
        ran, waited = state.executed[index] - state.forgotten[index], state.now - since
        long_for_its_run = rules.promote > 0 and waited >= rules.promote * ran
        if ran > 0 and (long_for_its_run or (rules.starve > 0 and waited >= rules.starve)):
            state.forgotten[index] = state.executed[index]


def end_leases(state: ReferenceLeases) -> None:
    """Rule 4."""
    over = [index for index, stay in state.running.items() if stay.lease_end == state.now]
    while state.rules.keep and (kept := renewed(state, over)):
        for index in kept:
            over.remove(index)
            state.running[index].lease_end = state.now + state.rules.lease
    for index in over:
        state.seat[index] = tier_of(state.layout, state.running[index].places)
        leave(state, index)
        state.since[index] = state.now


def renewed(state: ReferenceLeases, over: Sequence[int]) -> list[int]:
    """Those of the jobs whose leases are over that keep their GPUs: offers are made on paper, to all in their order."""
    paper, uses = [[FREE if job in over else job for job in node] for node in state.nodes], uses_of(state, over)
    waiting, kept = set(state.since), []
    for index in in_order(state, over):
        head = take_on_paper(state, paper, uses, waiting, index)
        mine = [(node, gpu) for node, held in enumerate(state.nodes) for gpu, job in enumerate(held) if job == index]
        use = expected_end(state, index), state.now + state.rules.lease
        if any(paper[node][gpu] != FREE for node, gpu in mine):
            continue
        if head is None or leaves_alone(state, paper, uses, head, state.running[index].places, min(use)):
            kept.append(index)
            uses[index] = use
            for node, gpu in mine:
                paper[node][gpu] = index
    return kept


def take_on_paper(
    state: ReferenceLeases, paper: list[list[int]], uses: Uses, waiting: set[int], holder: int
) -> int | None:
    """Those that wait before ``holder`` take what is free on paper; returns which of them holds a reservation then."""
    head = None
    for index in in_order(state, [holder, *waiting]):
        if index == holder:
            break
        found = accepted(state, paper, index)
        use = use_of(state, index)
        if found is not None and (head is None or leaves_alone(state, paper, uses, head, found[1], min(use))):
            hold(paper, index, found[1])
            uses[index] = use
            waiting.remove(index)
            return take_on_paper(state, paper, uses, waiting, holder)
        if head is None and state.rules.easy and not has_room(state, paper, index):
            head = index
    return head


def leave(state: ReferenceLeases, index: int) -> None:
    """A running job gives its GPUs back."""
    stay = state.running.pop(index)
    state.executed[index] += state.now - stay.counted
    state.done[index] += (state.now - stay.counted) * stay.speed
    state.nodes = without(state.nodes, index)
    state.runs[index].append(RefRun(stay.begun, state.now, stay.places))
    state.freed = True


# --------------------------------------------------------------------------------------------------------------- offers


def make_all_offers(state: ReferenceLeases) -> bool:
    """Rule 5; whether any job took anything."""
    taken = False
    while make_offers(state):
        taken = True
    return taken


def make_offers(state: ReferenceLeases) -> bool:
    """Offer what is free up to the first job that takes it; whether there was one."""
    stays = [index for index, stay in state.running.items() if stay.begun < state.now] if may_move(state) else []
    moving = [index for index in stays if state.jobs[index].checkpointable]
    head, uses = None, uses_of(state)
    for index in in_order(state, [*state.since, *moving]):
        if index in state.running:
            if move(state, index):
                return True
            continue
        found = accepted(state, state.nodes, index)
        end = min(use_of(state, index))
        if found is not None and (head is None or leaves_alone(state, state.nodes, uses, head, found[1], end)):
            start(state, index, *found)
            return True
        if head is None and state.rules.passes and preempt_for(state, index):
            return True
        if head is None and state.rules.easy and not has_room(state, state.nodes, index):
            head = index
    return False


def start(state: ReferenceLeases, index: int, tier: int, places: Places) -> None:
    """A waiting job takes an offer."""
    wait = state.now - state.since.pop(index)
    if tier < state.layout.tiers - 1 and wait >= state.rules.unit:
        state.waits.setdefault((tier, state.jobs[index].gpus), []).append((state.now, wait))
    hold(state.nodes, index, places)
    speed = state.jobs[index].speeds[min(tier_of(state.layout, places), 2)]
    state.running[index] = Stay(state.now, state.now, lease_end(state, index), places, speed)
    if state.started[index] < 0:
        state.started[index] = state.now


def may_move(state: ReferenceLeases) -> bool:
    """Whether running jobs are offered GPUs too."""
    looks = state.rules.move_again > 0 and state.now % state.rules.move_again == 0
    return state.rules.moves and (state.freed or looks)


def move(state: ReferenceLeases, index: int) -> bool:
    """Move a running job to a lower tier, if there is room; whether there was."""
    job, stay, rules, layout = state.jobs[index], state.running[index], state.rules, state.layout
    tier = lowest_room(layout, state.nodes, job.gpus, range(tier_of(layout, stay.places)))
    if tier is None:
        return False
    sizes = [job.gpus for job in state.jobs]
    places = place_at(layout, state.nodes, sizes, job.gpus, tier, rules.fit, job.spread or rules.spread)
    leave(state, index)
    hold(state.nodes, index, places)
    speed = job.speeds[min(tier_of(layout, places), 2)]
    state.running[index] = Stay(state.now, state.now, stay.lease_end, places, speed)
    return True


def preempt_for(state: ReferenceLeases, index: int) -> bool:
    """Start a job in the place of running jobs that come after it, if that is possible; whether it was."""
    nodes = state.nodes
    stoppable = [other for other in state.running if state.jobs[other].checkpointable]
    lesser = [other for other in in_order(state, stoppable) if key(state, other) > key(state, index)]
    off: list[int] = []
    while accepted(state, nodes, index) is None:
        if not lesser:
            return False
        off.append(lesser.pop())
        nodes = without(nodes, off[-1])
    for victim in reversed(list(off)):  # spare those that need not go, the first in order first
        spared = [other for other in off if other != victim]
        with_it = state.nodes
        for other in spared:
            with_it = without(with_it, other)
        if accepted(state, with_it, index) is not None:
            off = spared
    for victim in off:
        leave(state, victim)
        if state.runs[victim][-1].start == state.now:
            state.runs[victim].pop()  # it has not run
        state.since[victim] = state.now
    found = accepted(state, state.nodes, index)
    assert found is not None
    start(state, index, *found)
    return True
