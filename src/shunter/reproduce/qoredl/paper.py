"""What is printed about Qore-DL, and what can't be compared."""

from __future__ import annotations

TITLE = "Qore-DL: quality-of-service for deep-learning jobs (J. Systems Architecture 130, 2022)"
COMPLETION = 0.424  # more deadlines met than its counterparts, at most
EFFICIENCY = 0.218  # more resource efficiency than its counterparts, at most
WHY = (
    f"Printed: up to {COMPLETION:.1%} more deadlines met and {EFFICIENCY:.1%} more resource efficiency than its"
    " counterparts. The counterparts, the submission rates and how efficiency is defined are not printed in what we can"
    " read, so the sizes can't be compared; ours are beside Kubeflow's default.",
    "The adjuster changes the number of instances alone, but for the variant with CPU and servers chosen. No peaks of"
    " CPU per instance are public: what a job asks for is taken for its peak. Memory is never adjusted: the paper does"
    " not go below the peak, and more changes no measured time.",
    "The published rule of convergence is not used: training ends where the workload says, and no policy knows where.",
)
NOT_RUN = (  # (what is printed, its value, why ours is not beside it)
    (
        "R2 of peak CPU, memory and GPU memory by gradient boosting",
        "86.9 %, 96.9 %, 97.57 %",
        "No peaks are public. 'shunter predict eval --what peaks' judges such models on your own measurements.",
    ),
    (
        "R2 of iteration times by a random forest",
        "97.9 %",
        "'shunter predict eval --what iteration-time' on the public rows: 0.99 with random rows, 0.57 with whole models"
        " left out. The split of the paper is not printed.",
    ),
    (
        "squared error of iteration times, CPU and GPU",
        "21.79 and 0.0556",
        "Its units and the GPU rows are not public.",
    ),
    (
        "use of CPU and memory under Kubeflow on 24 hosts",
        "46.62 % and 16.73 %",
        "An instance here is a slot; what it uses of its CPU and memory is not simulated.",
    ),
    (
        "tasks on the lightest third of the hosts",
        "about 95 %",
        "It is a setting of the simulated Qore-DL, not a result.",
    ),
    ("cost of a change of width", "25 s", "It is a setting of the simulated clusters, not a result."),
)
