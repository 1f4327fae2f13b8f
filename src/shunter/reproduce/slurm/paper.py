"""What is printed about RLTune on a live Slurm cluster (section 5.6)."""

from __future__ import annotations

TITLE = "RLTune: reinforcement learning and mixed-integer programming for GPU clusters"
JOBS = 1024
BASE_MAKESPAN_MIN, MAKESPAN_MIN = 14_081, 10_584
CHANGES = {"makespan_s": MAKESPAN_MIN / BASE_MAKESPAN_MIN - 1, "utilization": 0.039, "wait_mean_s": -0.305}
WHY = (
    "RLTune is a learned order with a solver for places; here it is a known policy that only reorders the queue.",
    "The paper reports 1,024 jobs over ten days on GPUs that differ in speed; ours are a few hundred jobs of seconds,"
    " each bound to a type of virtual GPU, so that no place makes a job faster.",
    "The makespan of a short run depends on its last jobs; an order changes mostly the waits.",
)
