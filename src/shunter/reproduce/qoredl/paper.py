"""What is printed about Qore-DL, and what can't be compared."""

from __future__ import annotations

TITLE = "Qore-DL: quality-of-service for deep-learning jobs (J. Systems Architecture 130, 2022)"
COMPLETION = 0.424  # more deadlines met than its counterparts, at most
EFFICIENCY = 0.218  # more resource efficiency than its counterparts, at most
WHY = (
    f"Printed: up to {COMPLETION:.1%} more deadlines met and {EFFICIENCY:.1%} more resource efficiency than its"
    " counterparts. The counterparts, the submission rates and how efficiency is defined are not printed in what we can"
    " read, so the sizes can't be compared; ours are beside Kubeflow's default.",
    "The adjuster changes the number of instances alone: no measurements of peaks per instance are public.",
    "The published rule of convergence is not used: training ends where the workload says, and no policy knows where.",
)
