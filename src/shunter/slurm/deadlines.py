"""Whether a job on Slurm will be done in time: one that runs or waits, or one that is not submitted yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shunter.errors import LiveError, SlurmError, did_you_mean
from shunter.live import end_forecast
from shunter.live.answers import described
from shunter.live.deadline_answers import DeadlineAnswer, Remedy
from shunter.live.due_times import due_at
from shunter.live.end_forecast import LIMIT_IS_DONE, WANTED, EndForecast
from shunter.live.forecast import Outlook
from shunter.live.hints import LONGEST_S
from shunter.live.past_ends import PastEnds, WantedJob
from shunter.live.snapshot import LiveJob
from shunter.live.work_left import TrainingWork
from shunter.live.work_left import training as training_of
from shunter.model import EARLIEST_DATE_MS
from shunter.scaling.curves import Scaling, published
from shunter.slurm import questions
from shunter.slurm.questions import Wish
from shunter.texts import counted
from shunter.world import F64

DAY_MS = 86_400_000
PARTITIONS = 4  # that are tried at most
SLACK = 1.5  # times the run time: the limit of a job for which none is set
NO_MODEL = "what other numbers of GPUs would do, because its model is not known; see --model"
GPUS, OTHER_PARTITIONS = "other numbers of GPUs", "other partitions"  # that are tried
OLD_MS = 30 * DAY_MS  # of a history, after which its age is reported


def limit_text(run_ms: float) -> str:
    """A limit for a run, in minutes."""
    return str(max(int(np.ceil(SLACK * run_ms / 60_000)), 1))


# ------------------------------------------------------------------------------------------- a job in the queue


def of_job(
    outlook: Outlook, job_id: str, by: str, training: TrainingWork | None = None, past: F64 | None = None
) -> DeadlineAnswer:
    """A job that runs or waits; without a time, by its own deadline. ``past``: ranks that calibrate run times."""
    job = job_named(outlook, job_id)
    due = _due(job, by, outlook.snapshot.now)
    if job.runs:
        return DeadlineAnswer(_named(job), due, _running_end(outlook, job, training), waits=False, unknown=(RUNNING,))
    training = training or _declared(outlook, job)
    (found,) = outlook.of(job)
    runs = training.runs() if training else end_forecast.run_times(outlook, job, past)
    forecast = end_forecast.of_waiting(outlook, found, runs, declared=training is not None)
    end = _calibrated(forecast, None if training else past)
    answer = DeadlineAnswer(_named(job), due, _with(end, training))
    wish = Wish(
        max(job.gpus, 1), limit_text(job.limit / SLACK) if job.limit else "UNLIMITED", job.partition.partition(",")[0],
        job.gpu_type, job.cpus, f"{job.mem_mib}M" if job.mem_mib else "", job.priority,
    )  # fmt: skip
    return answer if end.because else _with_remedies(answer, outlook, wish, training)


def job_named(outlook: Outlook, job_id: str) -> LiveJob:
    """A job that runs or waits."""
    return _running(outlook, job_id) or questions.pending(outlook.snapshot, job_id)


def _declared(outlook: Outlook, job: LiveJob) -> TrainingWork | None:
    """What a job's own comment says of its training."""
    hints = job.hints
    left = max(hints.iterations - hints.done, 0.0)
    if not 0 < left * hints.iteration_s <= LONGEST_S:
        return None
    return training_of(hints.model, left, hints.iteration_s, max(job.gpus, 1), Scaling.usual(outlook.machines.cluster))


RUNNING = "what would help, because it runs already"


def _running(outlook: Outlook, job_id: str) -> LiveJob | None:
    return next((job for job in outlook.snapshot.jobs if job_id in (job.id, job.handle) and job.runs), None)


def _running_end(outlook: Outlook, job: LiveJob, training: TrainingWork | None) -> EndForecast:
    if training is None:
        return end_forecast.of_running(outlook, job)
    now, left = outlook.snapshot.now, training.runs()
    runs = left if left is not None else np.zeros(1)
    return EndForecast(now, np.array([now]), runs, training.assumptions, limit=end_forecast.limit_left(job))


def _due(job: LiveJob, by: str, now: int) -> int:
    if by:
        return due_at(by, now)
    if job.due <= 0:
        raise SlurmError(f"job {job.id} has no deadline of its own; set one: --by 'Fri 09:00'")
    return job.due


def _named(job: LiveJob) -> str:
    return f"Job {job.id} ({described(job)})"


def _calibrated(end: EndForecast, past: F64 | None) -> EndForecast:
    said = "not calibrated: the starts and run times are as forecast"
    if past is not None:
        said = f"run times calibrated by {len(past):,} past forecasts; the starts are as forecast"
    return end if end.because else replace(end, assumptions=(*end.assumptions, said))


def _with(end: EndForecast, training: TrainingWork | None) -> EndForecast:
    return replace(end, assumptions=(*end.assumptions, *training.assumptions)) if training else end


# ------------------------------------------------------------------------------------------- one not submitted yet


def of_wish(
    outlook: Outlook, wish: Wish, by: str, training: TrainingWork | None = None, past: F64 | None = None
) -> DeadlineAnswer:
    """A job that would be submitted now."""
    due = due_at(by, outlook.snapshot.now)
    job, _ = wish.job(outlook)
    runs = _runs(outlook, wish, training)
    runs = end_forecast.run_times(outlook, job, past) if runs is None else runs
    forecast = end_forecast.of_waiting(outlook, wish.forecast(outlook), runs, declared=training is not None)
    end = _calibrated(forecast, None if training else past)
    answer = DeadlineAnswer(f"A job ({described(job)})", due, _with(end, training))
    return answer if answer.end.because else _with_remedies(answer, outlook, wish, training)


def _runs(outlook: Outlook, wish: Wish, training: TrainingWork | None) -> F64 | None:
    """How long it runs on these GPUs; None: as past jobs do."""
    if training is None:
        return None
    most = max((node.gpus for node in outlook.snapshot.nodes), default=1)
    return training.runs(wish.gpus, -(-wish.gpus // max(most, 1)))


def _with_remedies(
    answer: DeadlineAnswer, outlook: Outlook, wish: Wish, training: TrainingWork | None
) -> DeadlineAnswer:
    """The same, with other numbers of GPUs and other partitions."""
    scales, others = training is not None and training.curve is not None, _others(outlook, wish)
    tried = ((GPUS,) if scales else ()) + ((OTHER_PARTITIONS,) if others else ())
    found = (*_widths(answer, outlook, wish, training), *_partitions(answer, outlook, wish, others))
    said = (f"other numbers of GPUs get a limit of {SLACK:g} times their run",) if scales else ()
    end = replace(answer.end, assumptions=(*answer.end.assumptions, *said))
    return replace(answer, end=end, remedies=found, tried=tried, unknown=_unknown(training))


def _unknown(training: TrainingWork | None) -> tuple[str, ...]:
    """What can't be said of other numbers of GPUs."""
    if training is None or not training.model:
        return (NO_MODEL,)
    if training.curve is not None:
        return ()
    known = ", ".join(sorted({curve.model for curve in published()}))
    return (f"what other numbers of GPUs would do, because no speeds of {training.model} are known; known: {known}",)


def _widths(answer: DeadlineAnswer, outlook: Outlook, wish: Wish, training: TrainingWork | None) -> Iterable[Remedy]:
    """The fewest GPUs with which it is in time; widths that take too long even if they start at once are left out."""
    if training is None or training.curve is None:
        return
    for gpus in widths(sum(node.gpus for node in outlook.snapshot.nodes)):
        scaled = replace(
            wish, gpus=gpus, cpus=-(-wish.cpus * gpus // wish.gpus), mem=wish.mem if gpus >= wish.gpus else ""
        )
        runs = _runs(outlook, scaled, training)
        if gpus == wish.gpus or runs is None or np.mean(outlook.snapshot.now + runs <= answer.by) < WANTED:
            continue
        longer = replace(scaled, time=limit_text(float(runs.max())))
        found = _tried(answer, outlook, longer, runs, Remedy("gpus", str(gpus)))
        if found is not None:
            yield found
            if found.chance >= WANTED:
                return


def widths(most: int) -> list[int]:
    """1, 2, 4 and so on."""
    return [2**power for power in range(max(most, 1).bit_length()) if 2**power <= most]


def _others(outlook: Outlook, wish: Wish) -> list[str]:
    """Other partitions than the job's, of those with GPUs."""
    names = sorted({name for node in outlook.snapshot.nodes for name in node.partitions if node.gpus})
    return [each for each in names if each != wish.partition and wish.partition][:PARTITIONS]


def _partitions(answer: DeadlineAnswer, outlook: Outlook, wish: Wish, names: Sequence[str]) -> Iterable[Remedy]:
    """Other partitions in which it may be done earlier."""
    for name in names:
        found = _tried(answer, outlook, replace(wish, partition=name), answer.end.runs, Remedy("partition", name))
        if found is not None and found.chance > (answer.end.chance(answer.by) or 0.0):
            yield found


def _tried(answer: DeadlineAnswer, outlook: Outlook, wish: Wish, runs: F64, change: Remedy) -> Remedy | None:
    """The chance with a change; None: it can't run so, or nothing is known."""
    try:
        end = end_forecast.of_waiting(outlook, wish.forecast(outlook), runs, declared=answer.end.limit > 0)
    except LiveError:
        return None
    return None if end.because else change.with_end(end, answer.by)


# ------------------------------------------------------------------------------------------- from a history alone


@dataclass(frozen=True)
class Offline:
    """A history in place of Slurm: its jobs' waits and run times."""

    ends: PastEnds
    now: int  # ms since 1970

    def answer(
        self, wanted: WantedJob, by: str, training: TrainingWork | None, like: str = "", gpu_type: str = ""
    ) -> DeadlineAnswer:
        """A job that would be submitted now; ``like``: the job of the history whose request it has."""
        due = due_at(by, self.now)
        self._check(wanted, gpu_type)
        end = self._end(wanted, training)
        answer = DeadlineAnswer(self._named(wanted, like), due, end, remarks=tuple(self._remarks(wanted, gpu_type)))
        if end.because:
            return answer
        scales, others = training is not None and training.curve is not None, self._other_vcs(wanted)
        tried = ((GPUS,) if scales else ()) + ((OTHER_PARTITIONS,) if others else ())
        remedies = (
            *self._widths(wanted, due, training), *self._others(wanted, due, training, end.chance(due) or 0.0),
        )  # fmt: skip
        return replace(answer, remedies=remedies, tried=tried, unknown=_unknown(training))

    def _check(self, wanted: WantedJob, gpu_type: str) -> None:
        """Refuse names that no past job has."""
        trace = self.ends.trace
        for option, value, known in (
            ("--partition", wanted.vc, trace.vcs),
            ("--gpu-type", gpu_type, trace.gpu_types),
        ):
            if value and value not in known:
                names = did_you_mean(value, known) if known else f"its jobs name none at all, so leave out {option}"
                raise LiveError(f"{option} {value}: no job of history '{trace.name}' has it; {names}")

    def _remarks(self, wanted: WantedJob, gpu_type: str) -> Iterable[str]:
        """What to know of the history."""
        if wanted.user and wanted.user not in self.ends.trace.users:
            yield f"User {wanted.user} has no past jobs; all users' jobs are used."
        if gpu_type:
            yield f"Past jobs on all types of GPUs are used, not on {gpu_type} alone."
        end = self.ends.last_end
        if end < EARLIEST_DATE_MS:
            yield "The history has no dates, so its age is not known."
        elif self.now - end > OLD_MS:
            yield f"The history ended {(self.now - end) // DAY_MS:,} days ago: the cluster may have changed since."

    def _named(self, wanted: WantedJob, like: str) -> str:
        user = f"user {wanted.user}" if wanted.user in self.ends.trace.users else ""
        partition = f"partition {wanted.vc}" if wanted.vc else ""
        about = ", ".join(filter(None, (user, counted(wanted.gpus, "GPU"), partition)))
        return f"A job like {like} ({about})" if like else f"A job ({about})"

    def _end(self, wanted: WantedJob, training: TrainingWork | None) -> EndForecast:
        most = self.ends.most_gpus
        if wanted.gpus > most:
            few = f"no job of the history used more than {counted(most, 'GPU')}"
            return EndForecast(self.now, np.zeros(0, np.int64), np.zeros(0), because=(few,))
        found = self.ends.forecast(wanted, self.now)
        runs = training.runs(wanted.gpus) if training else None
        if training is None or runs is None or found.because:
            return replace(found, assumptions=(*found.assumptions, LIMIT_IS_DONE)) if wanted.limit else found
        exact = "" if training.losses is not None else " and counts as exact, so only the wait is uncertain"
        said = (
            found.assumptions[1], f"not calibrated: its run time comes from its iterations{exact}",
            *training.assumptions,
        )  # fmt: skip
        return EndForecast(self.now, found.starts, runs, said, limit=wanted.limit)

    def _widths(self, wanted: WantedJob, due: int, training: TrainingWork | None) -> Iterable[Remedy]:
        if training is None or training.curve is None:
            return
        for gpus in widths(self.ends.most_gpus):
            end = self._end(wanted._replace(gpus=gpus), training)
            if gpus != wanted.gpus and (end.chance(due) or 0.0) >= WANTED:
                yield Remedy("gpus", str(gpus)).with_end(end, due)
                return

    def _other_vcs(self, wanted: WantedJob) -> list[str]:
        return [each for each in self.ends.trace.vcs if wanted.vc and each != wanted.vc][:PARTITIONS]

    def _others(self, wanted: WantedJob, due: int, training: TrainingWork | None, chance: float) -> Iterable[Remedy]:
        for name in self._other_vcs(wanted):
            end = self._end(wanted._replace(vc=name), training)
            if (end.chance(due) or 0.0) > chance:
                yield Remedy("partition", name).with_end(end, due)
