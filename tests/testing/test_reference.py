"""The reference, held against schedules worked out by hand, its defining properties, and published schedules.

Drawings: one line per GPU (or node), one column per tick, a letter per job, '.' for an idle GPU.
"""

import csv
import os
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import PolicyError, TraceError
from shunter.testing.placement import given_back, place, taken
from shunter.testing.reference import RefJob, RefNode, RefRun, fits, place_of, simulate
from shunter.testing.strategies import cases

PLACEMENTS = ("consolidate", "first-fit", "spread", "count", "tight", "weighed")
ONE = [RefNode(4)]  # most examples need no more


def fifo(index, job, now, executed):
    return index


def sjf(index, job, now, executed):
    return job.duration


def srtf(index, job, now, executed):
    return job.duration - executed


def las(index, job, now, executed):
    return executed * job.gpus


def job(submit, duration, gpus, estimate=None, **more):
    return RefJob(submit, duration, gpus, duration if estimate is None else estimate, **more)


def spans(jobs, nodes=ONE, key=fifo, **rules):
    """Return what the drawings show: (start, end) of the runs of each job."""
    return [[(run.start, run.end) for run in runs] for runs in simulate(jobs, nodes, key, **rules)]


def starts(jobs, nodes=ONE, key=fifo, **rules):
    return [runs[0][0] for runs in spans(jobs, nodes, key, **rules)]


# -------------------------------------------------------------------------------------------------------- placement


@pytest.mark.parametrize(
    ("placement", "need", "sizes", "free", "expected"),
    [
        # one node, the tightest that suffices, ties to the lowest index, never split
        ("consolidate", 2, [4, 4, 4], [4, 2, 2], ((1, 2),)),
        ("consolidate", 3, [4, 4, 4], [2, 4, 3], ((2, 3),)),
        ("consolidate", 3, [4, 4], [2, 2], None),
        ("consolidate", 4, [2, 2, 4], [2, 2, 3], None),
        # larger than the largest node: whole idle nodes, the remainder on the freest other node
        ("consolidate", 10, [8, 8], [8, 2], ((0, 8), (1, 2))),
        ("consolidate", 6, [4, 4, 4], [2, 3, 4], ((1, 2), (2, 4))),
        ("consolidate", 12, [4, 4, 4, 4], [4, 3, 4, 4], ((0, 4), (2, 4), (3, 4))),
        ("consolidate", 10, [4, 4, 3], [4, 4, 1], None),  # 2 remain, 1 is free
        ("consolidate", 9, [4, 4, 4], [3, 3, 3], None),  # enough in all, but nothing idle
        # ... the largest first where sizes differ, each that isn't too large
        ("consolidate", 10, [2, 4, 4, 3], [2, 4, 4, 3], ((0, 2), (1, 4), (2, 4))),
        ("consolidate", 11, [2, 4, 4, 3], [2, 4, 4, 3], ((1, 4), (2, 4), (3, 3))),
        ("consolidate", 7, [4, 4, 3], [4, 4, 3], ((0, 4), (2, 3))),
        ("consolidate", 5, [4, 4, 3], [4, 4, 3], ((0, 4), (1, 1))),
        # the lowest index that suffices; larger: idle nodes by index, the remainder on the lowest that has enough
        # tight: the remainder where it fits best
        ("tight", 6, [4, 4, 4], [2, 3, 4], ((0, 2), (2, 4))),
        ("tight", 5, [4, 4, 3], [4, 4, 3], ((0, 4), (2, 1))),
        # weighed: partly used nodes are filled; if as many are left in any case, free GPUs are made even
        ("weighed", 12, [8, 8, 8, 8], [8, 5, 7, 3], ((1, 5), (2, 7))),
        ("weighed", 4, [8, 8], [3, 3], ((0, 3), (1, 1))),
        ("weighed", 2, [8, 8, 8, 8], [4, 4, 4, 6], ((3, 2),)),
        ("weighed", 6, [8, 8, 8, 8], [2, 2, 2, 2], None),  # three nodes, where one would do
        ("first-fit", 2, [4, 4, 4], [1, 4, 2], ((1, 2),)),
        ("first-fit", 3, [4, 4], [2, 2], None),
        ("first-fit", 6, [4, 4, 4], [2, 3, 4], ((0, 2), (2, 4))),
        ("first-fit", 9, [2, 8, 2], [2, 8, 2], ((0, 2), (1, 5), (2, 2))),
        ("first-fit", 7, [4, 3, 4], [0, 3, 4], ((1, 3), (2, 4))),
        ("first-fit", 6, [4, 4, 4], [1, 1, 4], None),
        # the freest node first, as much as it has
        ("spread", 2, [4, 4, 4], [1, 3, 4], ((2, 2),)),
        ("spread", 2, [4, 4], [3, 3], ((0, 2),)),
        ("spread", 5, [4, 4, 4], [1, 3, 4], ((1, 1), (2, 4))),
        ("spread", 9, [4, 4, 4], [1, 3, 4], None),
        # whatever is free, the lowest index first
        ("count", 5, [4, 4, 4], [1, 3, 4], ((0, 1), (1, 3), (2, 1))),
        ("count", 2, [4, 4, 4], [0, 0, 4], ((2, 2),)),
        ("count", 9, [4, 4, 4], [1, 3, 4], None),
    ],
)
def test_placement(placement, need, sizes, free, expected):
    assert place(need, free, dict(enumerate(sizes)), placement) == expected


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_only_nodes_of_the_own_pool_are_used_and_measured(placement):
    nodes = [RefNode(8, pool=1), RefNode(2), RefNode(2), RefNode(8, pool=1)]
    assert place_of(job(0, 1, 4), [8, 2, 2, 8], nodes, placement) == ((1, 2), (2, 2))
    assert not fits(job(0, 1, 5), nodes, placement)
    assert not fits(job(0, 1, 1, pool=2), nodes, placement)


# ------------------------------------------------------------------------------------------------ the queue, in order


def test_strict_stops_at_the_first_that_does_not_fit():
    # 0123456789
    # AAAABBCC..
    # AAAABB....
    # AAAABB....
    # ....BB....
    abc = [job(0, 4, 3), job(1, 2, 4), job(1, 2, 1)]
    assert spans(abc, blocking="strict") == [[(0, 4)], [(4, 6)], [(6, 8)]]


def test_skip_passes_over_it():
    # AAAABB
    # AAAABB
    # AAAABB
    # .CC.BB
    abc = [job(0, 4, 3), job(1, 2, 4), job(1, 2, 1)]
    assert spans(abc, blocking="skip") == [[(0, 4)], [(4, 6)], [(1, 3)]]


def test_a_blocked_pool_does_not_stop_another():
    # pool 0: AAAABB, then C behind B      pool 1: DD at once, although it comes after B and C
    nodes = [RefNode(4), RefNode(1, pool=1)]
    jobs = [job(0, 4, 3), job(1, 2, 4), job(1, 2, 1), job(1, 2, 1, pool=1)]
    assert starts(jobs, nodes) == [0, 4, 6, 1]


def test_smaller_keys_first_and_ties_by_index():
    # AABDDCCCC: A runs alone; then B (1) before D (2) and C (4); of equals the lower index
    jobs = [job(0, 2, 4), job(1, 1, 4), job(1, 4, 4), job(1, 2, 4)]
    assert starts(jobs, key=sjf) == [0, 2, 5, 3]
    assert starts([job(0, 3, 4), job(0, 3, 4), job(0, 3, 4)], key=sjf) == [0, 3, 6]


def test_keys_are_those_of_the_instant_of_the_decision():
    # B comes first until tick 5, C from then on: AAAAAACB
    jobs = [job(0, 6, 4), job(1, 1, 4), job(1, 1, 4)]
    assert starts(jobs, key=lambda index, job, now, executed: index if now < 5 else -index) == [0, 7, 6]


def test_at_one_instant_ends_come_before_arrivals_before_decisions():
    # AAAAB: B arrives when A ends and starts at once; C arrives then too, and being shorter goes first
    assert starts([job(0, 4, 4), job(4, 1, 4)]) == [0, 4]
    assert starts([job(0, 4, 4), job(1, 3, 4), job(4, 1, 4)], key=sjf) == [0, 5, 4]


def test_a_job_of_no_length_is_gone_before_time_moves_on():
    # A starts and ends at 0, B takes its GPUs at 0, C (after A) enters at 0
    jobs = [job(0, 0, 4), job(0, 5, 3), job(0, 2, 1, after=0)]
    assert spans(jobs) == [[(0, 0)], [(0, 5)], [(0, 2)]]


def test_a_job_of_no_length_holds_its_gpus_until_the_decision_is_over():
    # skip: A (4 of 4 GPUs) starts, B and C don't fit beside it; then A ends, and B, not C, is first in the order
    assert starts([job(0, 0, 4), job(0, 2, 3), job(0, 2, 2)], blocking="skip") == [0, 0, 2]
    # A (0, 3 GPUs) and C (1 GPU) start together; A's release then comes too late for B (4 GPUs): .C then B
    assert starts([job(0, 0, 3), job(0, 2, 4), job(0, 2, 1)], blocking="skip") == [0, 2, 0]


def test_a_dependent_job_enters_when_the_other_has_ended_and_it_is_submitted():
    # AAAB..C: B waits for A, C (after A too) is submitted only at 6
    jobs = [job(0, 3, 1), job(0, 1, 1, after=0), job(6, 1, 1, after=0)]
    assert starts(jobs) == [0, 3, 6]


def test_a_dependent_job_does_not_block_the_queue_before_it_enters():
    # AAAA        B (4 GPUs, after A) is not in the queue until 4, so C starts at 0
    # CCCCCC B    and B has to wait for C
    assert starts([job(0, 4, 1), job(0, 2, 4, after=0), job(0, 6, 1)]) == [0, 6, 0]


def test_where_it_ran():
    nodes = [RefNode(4), RefNode(4)]
    got = simulate([job(0, 3, 1), job(0, 2, 6), job(0, 1, 3)], nodes, fifo)
    # node 0: ACC.  A on node 0; B needs an idle node and 2 more: both free there: node 1 whole, 2 on node 0
    # node 1: BB..  C (3) doesn't fit beside them, and follows B onto node 0 (A's 3 free GPUs are the tightest)
    assert got == [[RefRun(0, 3, ((0, 1),))], [RefRun(0, 2, ((0, 2), (1, 4)))], [RefRun(2, 3, ((0, 3),))]]


# -------------------------------------------------------------------------------------------------------------- EASY


def test_easy_lets_a_job_pass_that_ends_before_the_head_starts():
    # 0         10
    # AAAAAAAAAABBBBB.   C ends exactly at B's shadow time; D would end one tick later, and B needs everything
    # AAAAAAAAAABBBBB.
    # AAAAAAAAAABBBBB.
    # .CCCCCCCCCBBBBBD
    jobs = [job(0, 10, 3), job(1, 5, 4), job(1, 10, 1), job(1, 9, 1)]
    assert starts(jobs, backfill="easy") == [0, 10, 15, 1]


def test_easy_lets_a_longer_job_pass_on_gpus_that_the_head_leaves_over():
    # 5 GPUs: A (2) until 10, X (1) until 20; B (3) at 10 leaves one over.  C takes that one, D must wait for B's end
    jobs = [job(0, 10, 2), job(0, 20, 1), job(1, 5, 3), job(1, 30, 1), job(1, 30, 1)]
    assert starts(jobs, [RefNode(5)], backfill="easy") == [0, 0, 10, 1, 15]


def test_easy_looks_at_nodes_not_at_sums():
    # node 0: AAA. until 10, node 1: XX.. until 20; B needs 4 on one node: node 0 at 10.
    # C (1 GPU, long) would go on node 0, the tightest, and delay B, although 5 GPUs would be free in all: it waits.
    nodes = [RefNode(4), RefNode(4)]
    jobs = [job(0, 10, 3), job(0, 20, 2), job(1, 5, 4), job(1, 30, 1)]
    assert simulate(jobs, nodes, fifo, backfill="easy")[2:] == [
        [RefRun(10, 15, ((0, 4),))],
        [RefRun(10, 40, ((1, 1),))],
    ]
    # by sums C may start at once
    assert starts(jobs, nodes, backfill="easy", placement="count") == [0, 0, 10, 1]


def test_easy_releases_all_jobs_with_one_expected_end_together():
    # A (2 of 4 GPUs) and X (1) end at 5.  B (3) could start then with A's and the free one, but X's is free as well: C,
    # long, takes the free one at 1.  If X ends at 9, C must wait for B's end.
    jobs = [job(0, 5, 2), job(0, 5, 1), job(1, 2, 3), job(1, 50, 1)]
    assert starts(jobs, backfill="easy") == [0, 0, 5, 1]
    jobs = [job(0, 5, 2), job(0, 9, 1), job(1, 2, 3), job(1, 50, 1)]
    assert starts(jobs, backfill="easy") == [0, 0, 5, 7]


def test_easy_expects_an_overdue_job_to_take_a_minute_more():
    # A (4 of 5 GPUs) was expected to end at 3 and ends at 10; B needs all.  At 6 it is expected a minute later than at
    # first, so C and then D pass on the free GPU
    jobs = [job(0, 10, 4, 3), job(1, 2, 5), job(6, 2, 1), job(6, 1, 1)]
    assert starts(jobs, [RefNode(5)], backfill="easy") == [0, 10, 6, 8]


def test_easy_decides_in_key_order_and_the_head_is_the_first_in_it():
    # shortest first: C (4 GPUs, at 10) is the head; D passes before B, and then nothing is left for B
    jobs = [job(0, 10, 2), job(1, 9, 2), job(1, 2, 4), job(1, 8, 2)]
    assert starts(jobs, key=sjf, backfill="easy") == [0, 12, 10, 1]


def test_easy_finishes_its_decision_before_a_job_of_no_length_releases():
    # A (no length, 3 GPUs) starts; B (4) is the head, at 1; C is expected to take one tick and passes; it takes five
    assert starts([job(0, 0, 3), job(0, 5, 4), job(0, 5, 1, 1)], backfill="easy") == [0, 5, 0]


def test_easy_backfill_is_per_pool():
    nodes = [RefNode(4), RefNode(2, pool=1)]
    jobs = [job(0, 10, 3), job(1, 5, 4), job(1, 50, 1, pool=1), job(1, 50, 1)]
    assert starts(jobs, nodes, backfill="easy") == [0, 10, 1, 15]


# ------------------------------------------------------------------------------------------------------- conservative


# 0         10        20
# AAAAAAAAAABBBBBCCCCC       EASY looks after B alone and lets D (1 GPU, 30 ticks) in at 1: C starts at 31.
# AAAAAAAAAABBBBBCCCCC       Conservative has C's reservation at 15 as well: D gets the hole behind it.
# AAAAAAAAAA.....CCCCC
# ...............CCCCC
TWO_RESERVED = [job(0, 10, 3), job(1, 5, 2), job(1, 5, 4), job(1, 30, 1)]


def test_conservative_looks_after_every_waiting_job():
    assert starts(TWO_RESERVED, backfill="easy") == [0, 10, 31, 1]
    assert starts(TWO_RESERVED, backfill="conservative") == [0, 10, 15, 20]


def test_conservative_fills_a_hole_that_is_long_enough():
    # D of 14 ticks fits under B, [1, 15), before C; of 15 ticks it doesn't
    assert starts([*TWO_RESERVED[:3], job(1, 14, 1)], backfill="conservative") == [0, 10, 15, 1]
    assert starts([*TWO_RESERVED[:3], job(1, 15, 1)], backfill="conservative") == [0, 10, 15, 20]


def test_conservative_fills_a_hole_in_the_future():
    # AAAABBBBCC   A, B, C are reserved one behind the other; D (2 GPUs, 4 ticks) gets the hole beside B, [4, 8), and
    # AAAABBBBCC   for E (2 GPUs, 1 tick) there is none before 10
    # AAAADDDDCC
    # AAAADDDDCC
    jobs = [job(0, 4, 4), job(1, 4, 2), job(2, 2, 4), job(3, 4, 2), job(3, 1, 2)]
    assert starts(jobs, backfill="conservative") == [0, 4, 8, 4, 10]


def test_conservative_keeps_the_order_of_arrival_while_all_goes_to_plan():
    # shortest first, but B holds [10, 15) when the shorter C arrives; B and D arrive together: D is the shorter
    jobs = [job(0, 10, 4), job(1, 5, 4), job(2, 1, 4)]
    assert starts(jobs, key=sjf, backfill="conservative") == [0, 10, 15]
    assert starts([job(0, 10, 4), job(1, 5, 4), job(1, 1, 4)], key=sjf, backfill="conservative") == [0, 11, 10]


def test_conservative_plans_again_in_key_order_when_a_job_ends_early():
    # A was expected until 10 and ends at 4: AAAACBBBBB
    jobs = [job(0, 4, 4, 10), job(1, 5, 4), job(2, 1, 4)]
    assert starts(jobs, key=sjf, backfill="conservative") == [0, 5, 4]


def test_conservative_plans_again_in_key_order_when_a_job_overruns():
    # AAAAAABB   A was expected until 3 and ends at 6; at 3, 4 and 5 B is planned anew as if A ended one tick later
    jobs = [job(0, 6, 3, 3), job(1, 2, 4)]
    assert starts(jobs, backfill="conservative") == [0, 6]
    # B held [3, 8) before C arrived; A's overrun at 3 lets the shorter C go first
    jobs = [job(0, 6, 4, 3), job(1, 5, 4), job(2, 1, 4)]
    assert starts(jobs, key=sjf, backfill="conservative") == [0, 7, 6]
    # 4 GPUs, A has 3, B needs 4: D finds the hole [2, 3) if it is expected to take one tick, and none if two
    jobs = [job(0, 6, 3, 3), job(1, 5, 4), job(2, 1, 1, 2)]
    assert starts(jobs, backfill="conservative") == [0, 6, 11]
    assert starts([*jobs[:2], job(2, 1, 1)], backfill="conservative") == [0, 6, 2]


def test_conservative_replans_only_the_pool_that_went_off_plan():
    nodes = [RefNode(4), RefNode(4, pool=1)]
    jobs = [
        job(0, 4, 4, 10),  # ends early, in pool 0
        *(job(0, 10, 4, pool=1), job(1, 5, 4, pool=1), job(2, 1, 4, pool=1)),
    ]
    assert starts(jobs, nodes, key=sjf, backfill="conservative") == [0, 0, 10, 15]


def test_conservative_plans_a_job_of_no_length_for_one_tick():
    # B (estimate 0) holds [4, 5) and C [5, ...); B ends at 4, sooner than planned, so C moves up to 4
    jobs = [job(0, 4, 4), job(1, 0, 4), job(2, 3, 4)]
    assert spans(jobs, backfill="conservative") == [[(0, 4)], [(4, 4)], [(4, 7)]]


def test_conservative_places_by_node():
    # 0123456789
    # AAAABBBCC.   node 0   A (1 GPU); B (4 GPUs) is reserved at 4 on node 0.  C (6 GPUs) needs a whole node and 2 more:
    # XXXX...CC.   node 1   at 4 node 1 is idle but node 0 is B's; so at 7, node 0 whole
    nodes = [RefNode(4), RefNode(4)]
    got = simulate([job(0, 4, 1), job(0, 4, 4), job(1, 3, 4), job(2, 2, 6)], nodes, fifo, backfill="conservative")
    assert got[2:] == [[RefRun(4, 7, ((0, 4),))], [RefRun(7, 9, ((0, 4), (1, 2)))]]
    # B (2 GPUs) is reserved at 2 on node 0; C finds node 1 whole at the same time, and its 2 more beside B
    got = simulate([job(0, 2, 8), job(0, 9, 2), job(1, 2, 6)], nodes, fifo, backfill="conservative")
    assert got[1:] == [[RefRun(2, 11, ((0, 2),))], [RefRun(2, 4, ((0, 2), (1, 4)))]]


# -------------------------------------------------------------------------------------------------------- preemption


def test_preemption_keeps_the_work_done():
    # 0123456789012
    # AABBBAAAAAAAA
    assert spans([job(0, 10, 4), job(2, 3, 4)], key=srtf, preemptive=True) == [[(0, 2), (5, 13)], [(2, 5)]]


def test_preemption_only_of_strictly_larger_keys():
    # at 2, A has 3 ticks to go, as B
    assert spans([job(0, 5, 4), job(2, 3, 4)], key=srtf, preemptive=True) == [[(0, 5)], [(5, 8)]]


def test_preemption_stops_no_more_than_needed():
    # A (1 GPU, 99 to go) and B (3 GPUs, 49 to go); C needs 3.  On paper A goes first, then B; A is then put back.
    jobs = [job(0, 100, 1), job(0, 50, 3), job(1, 5, 3)]
    assert spans(jobs, key=srtf, preemptive=True) == [[(0, 100)], [(0, 1), (6, 55)], [(1, 6)]]


def test_preemption_takes_the_last_in_order_first_by_key_then_index():
    # three equal jobs of 1 GPU, and one to come: the highest index goes
    jobs = [job(0, 9, 1), job(0, 9, 1), job(0, 9, 1), job(1, 2, 1)]
    got = spans(jobs, [RefNode(3)], key=srtf, preemptive=True)
    assert got == [[(0, 9)], [(0, 9)], [(0, 1), (3, 11)], [(1, 3)]]


def test_preemption_puts_back_the_smallest_key_first():
    # A (1 GPU, the longest), B (1), C (2, the shortest) fill the node; D needs 3.  Off on paper: A, B, C, one GPU too
    # many.  C can't go back; B, next in order, can; then A can't.
    jobs = [job(0, 40, 1), job(0, 30, 1), job(0, 20, 2), job(1, 5, 3)]
    assert spans(jobs, key=srtf, preemptive=True) == [[(0, 1), (6, 45)], [(0, 30)], [(0, 1), (6, 25)], [(1, 6)]]


def test_a_job_that_was_pushed_out_may_push_out_another():
    # 0123456789
    # AAAAEEAAAA   node 0   At 4, E needs 2 GPUs on one node.  Off on paper: A (36 to go), C (28), B (17): node 0 is
    # .BBBEECCCC            free; C goes back.  Then the decision begins anew, and B, being shorter, takes C's place.
    # ..CCBBBBBB   node 1
    # ...DDDDDDD
    jobs = [job(0, 40, 1), job(1, 20, 1), job(2, 30, 1), job(3, 10, 1), job(4, 2, 2)]
    got = spans(jobs, [RefNode(2), RefNode(2)], key=srtf, preemptive=True)
    assert got == [[(0, 4), (6, 42)], [(1, 4), (4, 21)], [(2, 4), (6, 34)], [(3, 13)], [(4, 6)]]


def test_after_a_preemption_the_decision_starts_again():
    # ABBBAAAA...AWWW   B pushes out A and leaves a GPU over; A (2 GPUs), not W, is next in the order, and blocks W
    # A...AAAA...A
    jobs = [job(0, 18, 2), job(1, 3, 1), job(1, 20, 1)]
    assert spans(jobs, [RefNode(2)], key=srtf, preemptive=True) == [[(0, 1), (4, 21)], [(1, 4)], [(21, 41)]]


def test_preemption_stays_in_the_pool():
    nodes = [RefNode(1), RefNode(1, pool=1)]
    jobs = [job(0, 5, 1), job(0, 9, 1, pool=1), job(1, 2, 1)]
    assert spans(jobs, nodes, key=srtf, preemptive=True) == [[(0, 1), (3, 7)], [(0, 9)], [(1, 3)]]


# A (3 GPUs) has 1 tick to go at 1, so B (4 GPUs, 5 ticks) can't push it out.  Skip: C (1 GPU) starts at 1 and is pushed
# out by B at 2.  Strict: C waits behind B.
BLOCKED = [job(0, 2, 3), job(1, 5, 4), job(1, 9, 1)]


def test_preemption_skip_goes_on_with_the_next():
    got = spans(BLOCKED, key=srtf, blocking="skip", preemptive=True)
    assert got == [[(0, 2)], [(2, 7)], [(1, 2), (7, 15)]]


def test_preemption_strict_stops_the_pool():
    assert spans(BLOCKED, key=srtf, blocking="strict", preemptive=True) == [[(0, 2)], [(2, 7)], [(7, 16)]]


def test_preemption_is_decided_only_when_something_happens():
    # least attained service: from 1 on A has had more than B, but only C's end at 4 is a moment to decide (pool 1)
    nodes = [RefNode(1), RefNode(1, pool=1)]
    jobs = [job(0, 6, 1), job(0, 3, 1), job(0, 4, 1, pool=1)]
    assert spans(jobs, nodes, key=las, preemptive=True) == [[(0, 4), (7, 9)], [(4, 7)], [(0, 4)]]


def test_a_job_stopped_at_the_instant_it_started_has_not_run():
    # Z ends at 0, so that F (after Z) enters at 0 and pushes out E, which has just been started: FEEEEE
    jobs = [job(0, 0, 1), job(0, 5, 3), job(0, 1, 4, after=0)]
    assert spans(jobs, key=srtf, preemptive=True) == [[(0, 0)], [(1, 6)], [(0, 1)]]


# -------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("jobs", "rules", "error", "message"),
    [
        ([job(0, 1, 5)], {}, TraceError, "job 0 needs 5 GPUs in pool 0"),
        ([job(1, 1, 1), job(0, 1, 1)], {}, TraceError, "sorted by submit"),
        ([job(0, 1, 1, after=1), job(0, 1, 1, after=0)], {}, TraceError, "wait for each other"),
        ([job(0, 1, 1)], {"preemptive": True, "backfill": "conservative"}, PolicyError, "preemptive"),
    ],
)
def test_bad_input(jobs, rules, error, message):
    with pytest.raises(error, match=message):
        simulate(jobs, ONE, fifo, **rules)


# -------------------------------------------------------------------------------------------------------- properties

RULES = [
    *({"blocking": blocking, "preemptive": again} for blocking, again in product(("strict", "skip"), (False, True))),
    {"backfill": "easy"},
    {"backfill": "conservative"},
]


@given(
    case=cases(),
    rules=st.sampled_from(RULES),
    placement=st.sampled_from(PLACEMENTS),
    key=st.sampled_from([fifo, sjf, srtf, las]),
)
def test_no_node_is_oversubscribed_and_every_job_runs_its_duration(case, rules, placement, key):
    jobs, nodes = case
    schedule = simulate(jobs, nodes, key, placement=placement, **rules)
    for job, runs in zip(jobs, schedule, strict=True):
        assert sum(run.end - run.start for run in runs) == job.duration
        assert runs[0].start >= job.submit
        assert job.after == -1 or runs[0].start >= schedule[job.after][-1].end
        assert all(before.end <= run.start for before, run in pairwise(runs))
        assert all(sum(gpus for _, gpus in run.nodes) == job.gpus for run in runs)
        assert all(nodes[node].pool == job.pool and gpus > 0 for run in runs for node, gpus in run.nodes)
    everything = [run for runs in schedule for run in runs]
    for tick in range(max(run.end for run in everything) + 1):
        used = [0] * len(nodes)
        for run in everything:
            if run.start <= tick < run.end:
                used = given_back(used, run.nodes)
        assert all(gpus <= node.gpus for gpus, node in zip(used, nodes, strict=True))


@given(
    case=cases(dependencies=False),
    placement=st.sampled_from(PLACEMENTS),
    backfill=st.sampled_from(["none", "easy", "conservative"]),
)
def test_the_first_in_the_queue_never_waits_while_it_fits(case, placement, backfill):
    """In order of arrival, at the end of every instant at which a job ends or arrives, however wrong estimates are."""
    jobs, nodes = case
    runs = [run for (run,) in simulate(jobs, nodes, fifo, placement=placement, backfill=backfill)]
    for tick in {*(job.submit for job in jobs), *(run.end for run in runs)}:
        free = free_at(nodes, [run for run in runs if run.start <= tick < run.end])
        for pool in {job.pool for job in jobs}:
            queue = [i for i, job in enumerate(jobs) if job.pool == pool and job.submit <= tick < runs[i].start]
            assert not queue or place_of(jobs[queue[0]], free, nodes, placement) is None


def free_at(nodes, running):
    free = [node.gpus for node in nodes]
    for run in running:
        free = taken(free, run.nodes)
    return free


@given(case=cases(min_duration=1, exact=True, dependencies=False), placement=st.sampled_from(PLACEMENTS))
def test_easy_never_delays_the_head(case, placement):
    """With exact estimates the head starts exactly when it would if nothing were started from then on.

    In order of arrival, a job is head of its pool from the moment at which it is there and all before it have started.
    """
    jobs, nodes = case
    runs = [run for (run,) in simulate(jobs, nodes, fifo, backfill="easy", placement=placement)]
    for head, job in enumerate(jobs):
        ours = [i for i in range(len(jobs)) if jobs[i].pool == job.pool]
        since = max([job.submit, *(runs[i].start for i in ours if i < head)])
        if runs[head].start < since:
            continue  # it passed others and never was head
        there = [runs[i] for i in ours if runs[i].start < since or (runs[i].start == since and i < head)]
        alone = min(
            instant
            for instant in [since, *(run.end for run in there if run.end > since)]
            if place_of(job, free_at(nodes, [run for run in there if run.end > instant]), nodes, placement) is not None
        )
        assert runs[head].start == alone


@given(
    case=cases(min_duration=1, exact=True, dependencies=False),
    placement=st.sampled_from(PLACEMENTS),
    key=st.sampled_from([fifo, sjf]),
    until=st.integers(1, 15),
)
def test_conservative_never_delays_a_reservation(case, placement, key, until):
    """With exact estimates a job runs when and where it was promised on arrival: later ones change nothing."""
    jobs, nodes = case
    early = [job for job in jobs if job.submit < until]
    everybody = simulate(jobs, nodes, key, backfill="conservative", placement=placement)
    assert simulate(early, nodes, key, backfill="conservative", placement=placement) == everybody[: len(early)]


# ------------------------------------------------------------------------------------------------ published schedules

DATA = Path(os.environ.get("SHUNTER_DATA", Path(__file__).parents[2].parent / "shared" / "data"))


@pytest.mark.parametrize(
    ("key", "blocking", "placement", "jct", "wait"),
    [
        (fifo, "strict", "count", "16257.883", "2590.842"),
        (fifo, "strict", "consolidate", "16530.172", "2863.131"),
        (fifo, "strict", "first-fit", "16530.340", "2863.299"),
        (fifo, "skip", "count", "16141.133", "2474.092"),
        pytest.param(fifo, "skip", "consolidate", "16144.464", "2477.423", marks=pytest.mark.slow),
        (sjf, "strict", "consolidate", "15936.698", "2269.657"),
        pytest.param(sjf, "skip", "consolidate", "15888.527", "2221.486", marks=pytest.mark.slow),
    ],
)
def test_the_schedules_that_independent_simulators_agree_on(key, blocking, placement, jct, wait):
    path = DATA / "reference" / "philly_1000.csv"
    if not path.exists():
        pytest.skip(f"{path} is missing; set SHUNTER_DATA to the folder that holds reference/philly_1000.csv")
    with path.open() as file:
        rows = list(csv.DictReader(file))
    jobs = [job(int(row["submit"]), int(row["duration"]), int(row["gpus"])) for row in rows]
    runs = [run for (run,) in simulate(jobs, [RefNode(8)] * 32, key, blocking=blocking, placement=placement)]
    ended = Fraction(sum(run.end - job.submit for run, job in zip(runs, jobs, strict=True)), len(jobs))
    waited = Fraction(sum(run.start - job.submit for run, job in zip(runs, jobs, strict=True)), len(jobs))
    assert (ended, waited) == (Fraction(jct), Fraction(wait))
    assert max(run.end for run in runs) - jobs[0].submit == 2176232
