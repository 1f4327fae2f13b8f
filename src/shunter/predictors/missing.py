"""What a model can't know because a trace does not say it."""

from __future__ import annotations

from shunter.model import Trace

LOST = {
    "user": "no user column: what a user's earlier jobs took is not known, only what jobs with as many GPUs did",
    "job_name": "no job_name column: jobs of similar names are not recognised",
    "limit": "no limit column: the run time that users requested is not known",
    "recorded_wait": "no recorded_wait column: jobs are treated as ended without a wait, so that a model "
    "learns of them earlier than it could have",
}


def missing(trace: Trace) -> list[str]:
    """The columns that matter and are empty, with what is lost."""
    columns = trace.columns()
    lost = [text for name, text in LOST.items() if (getattr(trace, name) == columns[name].default).all()]
    if not trace.dated:
        lost.append("no dates: the time of day and the day of the week are not known")
    return lost
