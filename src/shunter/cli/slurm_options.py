"""The options of ``shunter slurm run``: names, values and help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from shunter.cli.console import policy_names

PolicyOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--policy",
        "-p",
        metavar="P",
        help="The policy that orders the queue; auto: the autopilot chooses.",
        autocompletion=policy_names,
    ),
]
ModeOption: TypeAlias = Annotated[
    str, typer.Option(metavar="watch|dry-run|act", help="Report, print or apply the changes.")
]

# -- the autopilot (--policy auto)

BaselineOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="P",
        autocompletion=policy_names,
        help="With --policy auto: the site's own policy; default: as Slurm is configured.",
    ),
]
CandidateOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="P",
        autocompletion=policy_names,
        help="With --policy auto: it may choose this policy; repeatable, the first is preferred.",
    ),
]
LimitsOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="K=V,...",
        help="With --policy auto: worst_p99=1.5, worst_fairness=0.95, again=2, hours=24 ...; a wrong name lists all.",
    ),
]
RepositoryOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="With --policy auto: where ended jobs are kept; default: beside the journal."),
]

# -- how often

IntervalOption: TypeAlias = Annotated[float, typer.Option(min=0.2, metavar="S", help="Seconds between rounds.")]
PollOption: TypeAlias = Annotated[
    float, typer.Option(min=0.2, metavar="S", help="Minimum seconds between polls of Slurm.")
]
RoundsOption: TypeAlias = Annotated[int, typer.Option(min=0, metavar="N", help="Stop after N rounds; 0: never.")]

# -- which changes are allowed, and to which jobs

LeversOption: TypeAlias = Annotated[
    str, typer.Option(metavar="L,L", help="Means of change: nice or priority, plus any of pin, requeue, resize, shard.")
]
MaxChangesOption: TypeAlias = Annotated[
    int, typer.Option(min=1, metavar="N", help="Maximum number of jobs changed per round.")
]
LiftOption: TypeAlias = Annotated[
    int, typer.Option(min=1, metavar="N", help="Maximum boost above the highest priority of the queue.")
]
StopsPerHourOption: TypeAlias = Annotated[
    int, typer.Option(min=0, metavar="N", help="Maximum number of jobs stopped per hour (lever requeue).")
]
StopsPerJobOption: TypeAlias = Annotated[
    int, typer.Option(min=0, metavar="N", help="Do not stop a job that was queued again N times (lever requeue).")
]
MinRunOption: TypeAlias = Annotated[
    float, typer.Option(min=0, metavar="S", help="Seconds that a job runs before it may be stopped (lever requeue).")
]
ExcludeUserOption: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="USER", help="Leave this user's jobs to Slurm.")
]
ExcludePartitionOption: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Leave this partition to Slurm.")
]
ExcludeQosOption: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Leave jobs of this QOS to Slurm.")
]
GuardOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="on|watch|off[:K=V,...]",
        help="Hand the jobs back if they wait longer than without us, by more than margin=0.2 (a share) and slack=60"
        " (s), in patience=6 checks; base=P: the policy that would be without us.",
    ),
]
ResumeOption: TypeAlias = Annotated[
    bool, typer.Option("--resume", help="Act again after jobs were handed back (by the guard, or release).")
]

# -- what it learns from, and where it reports

HistoryOption: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="TRACE", help="Ended jobs to learn run times from.")
]
MetricsPortOption: TypeAlias = Annotated[
    int | None, typer.Option(min=0, max=65535, metavar="PORT", help="Serve /metrics and /healthz on this port.")
]
MetricsHostOption: TypeAlias = Annotated[str, typer.Option(metavar="HOST", help="Address to serve on.")]
AuditLogOption: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Append a line of JSON for every change.")
]
