"""What a learned order may know of a job and of the nodes that the job may use; the names that model files use."""

from __future__ import annotations

import math

from shunter.compiled import kernel
from shunter.world import F64, Job

# -- what each feature is
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
    "availability": "free GPUs less `demand`, from 0 (none, and no user's share) to 1 (RLTune: future availability)",
    "ways": "ways in which it could be placed now, 0 to 3, as RLTune counts them",
    "choice": "1: some job that waits for such nodes has two ways or more; 0: none has",
    "growth": "what a second adds to the bounded slowdowns of all jobs that wait for such nodes, by their estimates",
    "skipped": "time for which an inspector made it wait (s)",
}
NAMES = tuple(FEATURES)
(
    GPUS, ESTIMATE, AREA, SIZE, SUBMIT, WAIT, URGENCY, FREE, LARGEST, PARTLY, WAITING, DEMAND, FITS, FRAGMENTATION,
    PRESSURE, AVAILABILITY, WAYS, CHOICE, GROWTH, SKIPPED,
) = range(len(NAMES))  # fmt: skip
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
    if feature == GPUS:
        return job.gpus
    if feature == ESTIMATE:
        return job.estimate
    if feature == AREA:
        return job.gpus * job.estimate
    if feature == SIZE:
        return job.size
    if feature == SUBMIT:
        return job.submit
    if feature == WAIT:
        return job.wait
    if feature == URGENCY:
        return job.wait / max(job.estimate, LEAST_RUN)
    if feature == FREE:
        return job.free
    if feature == LARGEST:
        return job.largest
    if feature == PARTLY:
        return job.partly
    if feature == WAITING:
        return job.waiting
    if feature == DEMAND:
        return job.demand
    if feature == FITS:
        return job.fits
    if feature == FRAGMENTATION:
        return job.partly / max(job.pool_nodes, 1.0)
    if feature == PRESSURE:
        return job.gpus / max(job.free, NOTHING) / max(job.pool_gpus, 1.0)
    if feature == AVAILABILITY:
        return (job.free - job.demand + job.pool_gpus) / (2.0 * max(job.pool_gpus, 1.0))
    if feature == WAYS:
        return job.ways
    if feature == CHOICE:
        return job.choice
    if feature == GROWTH:
        return job.growth
    return job.skipped


@kernel
def fill_inputs(job: Job, table: F64, first: int, count: int, row: F64, begin: int, stride: int) -> None:
    """Write what a model gets of a job from ``begin`` on, at this distance: its features, scaled and within bounds."""
    for at in range(count):
        column = first + INPUT_COLUMNS * at
        gate = int(table[column + SAMPLED_BY])
        if gate >= 0 and value(job, gate) >= table[column + AT_LEAST]:
            column += OTHER
        found = value(job, int(table[column + FEATURE]))
        if table[column + LOGARITHM] == 1.0:
            found = math.log1p(max(found, 0.0))
        found *= table[column + SCALE]
        row[begin + stride * at] = min(max(found, table[column + LOW]), table[column + HIGH])
