"""Which running jobs may be stopped for others, and how many in an hour; only with the lever ``requeue``."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.live.snapshot import LiveJob

HOUR_S = 3600.0


@dataclass(frozen=True)
class StopLimits:
    """How often jobs may be stopped.  A job must have agreed as well, see ``LiveJob.may_be_requeued``."""

    per_hour: int = 6  # stops of all jobs together
    per_job: int = 3  # times that a job has been queued again, for whatever reason, after which it is left alone
    min_run_s: float = 1800.0  # for which a job has run at least since its last start

    def ever(self, job: LiveJob) -> bool:
        """Whether a job may be stopped at some time: it has agreed, and was not stopped too often."""
        return job.may_be_requeued and job.restarts < self.per_job

    def now(self, job: LiveJob) -> bool:
        """Whether a running job may be stopped now, as far as it alone is concerned."""
        return self.ever(job) and job.state == "RUNNING" and job.ran >= 1000 * self.min_run_s
