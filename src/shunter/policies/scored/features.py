"""What a learned order may know of a job and of the nodes that the job may use; the names that model files use."""

from __future__ import annotations

import math

from shunter.compiled import kernel
from shunter.world import F64, Job

# -- what each feature is; the order is that of `value`
FEATURES = {
    "gpus": "GPUs that it asks for",
    "estimate": "estimated run time (s)",
    "area": "GPUs times estimated run time",
    "size": "GPUs over all GPUs of the cluster",
    "submit": "submission, since the first one of the trace (s)",
    "wait": "time spent waiting so far (s)",
    "urgency": "wait over estimated run time, which counts as at least 10 s",
    "free": "free GPUs on the nodes that it may use",
    "largest": "the most free GPUs on one such node",
    "partly": "such nodes with some of their GPUs free, but not all",
    "waiting": "jobs that wait for such nodes, itself included",
    "demand": "GPUs that these ask for",
    "fits": "1: there is room for it now; 0: there is not",
    "fragmentation": "`partly` over the number of such nodes",
    "pressure": "GPUs that it asks for over free ones, over all GPUs of such nodes (RLTune: demand-supply ratio)",
    "availability": "free GPUs less `demand`, from 0 (none, and nobody's share) to 1 (RLTune: future availability)",
    "ways": "ways in which it could be placed now, 0 to 3, as RLTune counts them",
    "choice": "1: some job that waits for such nodes has two ways or more; 0: none has",
    "growth": "what a second adds to the bounded slowdowns of all jobs that wait for such nodes, by their estimates",
    "skipped": "time for which an inspector made it wait (s)",
}
NAMES = tuple(FEATURES)
OF_ESTIMATE = frozenset({"estimate", "area", "urgency", "growth"})  # they need to know how long jobs may run
AGEING = frozenset({"wait", "urgency", "skipped"})  # they change while a job waits
OF_POOL = frozenset(NAMES[NAMES.index("free") : NAMES.index("skipped")])  # they change with every start and end
LEAST_RUN = 10.0  # s
NOTHING = 1e-5

# -- columns of the table of inputs: feature, 1: its logarithm, factor, least, most
FEATURE, LOGARITHM, SCALE, LOW, HIGH = range(5)
# ... the feature that decides whether the input is another one (-1: never), at least this; then that other one
SAMPLED_BY, AT_LEAST, OTHER = range(5, 8)
INPUT_COLUMNS = OTHER + 5


@kernel
def value(job: Job, feature: int) -> float:  # noqa: C901, PLR0911, PLR0912 one line per feature
    """One feature of a job."""
    if feature == 0:
        return job.gpus
    if feature == 1:
        return job.estimate
    if feature == 2:
        return job.gpus * job.estimate
    if feature == 3:
        return job.size
    if feature == 4:
        return job.submit
    if feature == 5:
        return job.wait
    if feature == 6:
        return job.wait / max(job.estimate, LEAST_RUN)
    if feature == 7:
        return job.free
    if feature == 8:
        return job.largest
    if feature == 9:
        return job.partly
    if feature == 10:
        return job.waiting
    if feature == 11:
        return job.demand
    if feature == 12:
        return job.fits
    if feature == 13:
        return job.partly / max(job.pool_nodes, 1.0)
    if feature == 14:
        return job.gpus / max(job.free, NOTHING) / max(job.pool_gpus, 1.0)
    if feature == 15:
        return (job.free - job.demand + job.pool_gpus) / (2.0 * max(job.pool_gpus, 1.0))
    if feature == 16:
        return job.ways
    if feature == 17:
        return job.choice
    if feature == 18:
        return job.growth
    return job.skipped


@kernel
def fill_inputs(job: Job, table: F64, first: int, count: int, row: F64, begin: int) -> None:
    """Write what a model gets of a job from ``begin`` on: its features, scaled and within bounds."""
    for at in range(count):
        column = first + INPUT_COLUMNS * at
        gate = int(table[column + SAMPLED_BY])
        if gate >= 0 and value(job, gate) >= table[column + AT_LEAST]:
            column += OTHER
        found = value(job, int(table[column + FEATURE]))
        if table[column + LOGARITHM] == 1.0:
            found = math.log1p(max(found, 0.0))
        found *= table[column + SCALE]
        row[begin + at] = min(max(found, table[column + LOW]), table[column + HIGH])
