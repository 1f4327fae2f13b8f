"""Why jobs wait: the codes that policies give, what they are about, and the numbers that go with them.

A reason holds from the time it is given until another is given about the same thing.  Most are about many jobs at once:
all of a demand class, all that compete for the same nodes (a pool), or all that wait; so a policy with a long queue has
little to say.  What holds for one job follows from these four; see ``shunter.report.waiting``.
"""

from __future__ import annotations

OF_JOB, OF_CLASS, OF_POOL, OF_ALL = range(4)
SCOPES = ("job", "class", "pool", "all")

NONE, FULL, SCATTERED, STARVED, AWAY, BEHIND, QUEUED, RESERVATION, PLANNED, UNPLANNED, OFFER, ASLEEP = range(12)
PROFILE, ORDER = range(12, 14)
# with the numbers that go with each code, at most three
CODES = {
    "none": "nothing holds it back",
    "full": "too few GPUs are free where it may run (free there, most on one node, free elsewhere)",
    "scattered": "enough GPUs are free, but not together (free there, most on one node, free elsewhere)",
    "starved": "GPUs are free, but not CPU or memory beside them (free there, most on one node, free elsewhere)",
    "away": "nodes where it may run are down or asleep (GPUs on those that are up)",
    "behind": "an earlier job doesn't fit, and no job may pass it, though enough GPUs are free for this one (that job)",
    "queued": "an earlier job doesn't fit, nor does this one (that job)",
    "reservation": "starting it would delay an earlier job, or it takes too long to pass (that job, when it should "
    "start in ms, the thousandths of the mean completion time that a job may take to pass; 0: any)",
    "planned": "its turn is planned (when it should start in ms)",
    "unplanned": "too many jobs are ahead of it to plan its turn (how many are planned)",
    "offer": "GPUs are free, but closer ones are worth waiting for (the tier that it waits for, for how many ms from "
    "when it began to wait, tuned from how many waits; -1: not tuned)",
    "asleep": "nodes that it needs were asleep and are being woken (when they will be awake in ms)",
    "profile": "it is to be profiled first, and the profiler is busy (jobs before it when it came)",
    "order": "no free GPUs and no job to share with (jobs before it when it came)",
}
