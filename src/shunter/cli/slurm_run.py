"""``shunter slurm run`` and ``release``: a policy on a live cluster, and the way back."""

from __future__ import annotations

import shlex
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from shunter.cli import slurm_options as given
from shunter.cli.console import (
    ColumnsOption,
    FormatOption,
    JsonOption,
    OnBadRowOption,
    note,
    print_json,
    read_history,
    say,
)
from shunter.cli.slurm_audit import JOURNAL, JournalOption, check_journal

if TYPE_CHECKING:
    from shunter.errors import LiveError
    from shunter.live.controller import Mode, RoundResult
    from shunter.live.manager import ResourceManager
    from shunter.live.metrics import Metrics
    from shunter.live.running import ControllerSettings
    from shunter.live.sources import PolicySource
    from shunter.live.tolerance import Tolerance
    from shunter.model import Trace
    from shunter.protocols import Policy

T = TypeVar("T")
PATIENT_INTERVALS, PATIENCE_S = 3, 240.0  # without a round, after which systemd may take us for hung
AUTO = "auto"  # in place of a policy
# Settings of its guard, unless --guard sets others: the baseline alone for a day says little about weeks.
AUTO_GUARD = {"margin": "0.05", "days": "7"}
MOST_SHOWN = 10  # of what can't be read, in one round
EXAMPLES = """Examples:

shunter slurm run --policy qssf                     # watch: says what it would do, changes nothing

shunter slurm run --policy sjf:backfill=easy --mode dry-run --rounds 1   # the exact commands of one round

shunter slurm run --policy wfp3 --mode act --exclude-partition urgent --max-changes 20

shunter slurm run --policy sjf --mode act --guard watch:margin=0.1,patience=3   # it only notes that jobs wait longer

shunter slurm run --policy auto --history site/jobs.parquet   # watch what the autopilot would choose, and why

shunter slurm run --policy auto --mode act --candidate saf:backfill=easy --limits worst_p99=1.2,hours=48

shunter slurm release                               # stop it, undo everything, and give the jobs back to Slurm

shunter slurm resume                                # act again
"""


def run(  # noqa: PLR0913, PLR0917  one argument per option
    policy: given.PolicyOption,
    mode: given.ModeOption = "watch",
    interval: given.IntervalOption = 60.0,
    poll: given.PollOption = 5.0,
    levers: given.LeversOption = "nice",
    max_changes: given.MaxChangesOption = 100,
    lift: given.LiftOption = 10_000,
    stops_per_hour: given.StopsPerHourOption = 6,
    stops_per_job: given.StopsPerJobOption = 3,
    min_run: given.MinRunOption = 1800.0,
    exclude_user: given.ExcludeUserOption = None,
    exclude_partition: given.ExcludePartitionOption = None,
    exclude_qos: given.ExcludeQosOption = None,
    history: given.HistoryOption = None,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    on_bad_row: OnBadRowOption = None,
    journal: JournalOption = JOURNAL,
    rounds: given.RoundsOption = 0,
    metrics_port: given.MetricsPortOption = None,
    metrics_host: given.MetricsHostOption = "127.0.0.1",
    audit_log: given.AuditLogOption = None,
    guard: given.GuardOption = "on",
    resume: given.ResumeOption = False,
    baseline: given.BaselineOption = None,
    candidate: given.CandidateOption = None,
    limits: given.LimitsOption = None,
    repository: given.RepositoryOption = None,
    json: JsonOption = False,
) -> None:
    """Run a policy on the live cluster that Slurm runs here.

    It begins in mode [bold]watch[/bold] and applies changes only with [bold]--mode act[/bold]. It never cancels a job;
    when it stops, Slurm continues with its own rules. Check first with [bold]shunter slurm doctor[/bold].
    """
    from shunter.errors import LiveError
    from shunter.live import running
    from shunter.live.backend import Rhythm, Scope
    from shunter.live.controller import ChangeLimits, Mode
    from shunter.live.levers import levers_from
    from shunter.live.stops import StopLimits
    from shunter.live.tolerance import Duty, Tolerance
    from shunter.slurm.client import Client
    from shunter.slurm.manager import SlurmManager

    autopilot = _AutopilotOptions(baseline, tuple(candidate or ()), ",".join(limits or ()), repository)
    autopilot.check(policy)
    tolerance = Tolerance.of(guard, autopilot.tolerated(policy))
    if policy == AUTO and mode_named(mode) is Mode.ACT and (tolerance is None or tolerance.duty is not Duty.ON):
        raise LiveError(f"--policy {AUTO} needs the guard in mode act, because it keeps the limits; set --guard on")
    settings = running.ControllerSettings(
        mode_named(mode),
        Rhythm(interval, min(poll, interval)),
        Scope(*(frozenset(names or ()) for names in (exclude_user, exclude_partition, exclude_qos))),
        levers_from(levers),
        ChangeLimits(max_changes, lift=lift, stops=StopLimits(stops_per_hour, stops_per_job, min_run)),
        rounds,
        tolerance,
        resume,
    )
    stop = _stopped_by_signals()
    past = read_history(history, format, columns, on_bad_row)
    manager = SlurmManager(Client())
    outputs = _ControllerOutputs(mode, json, interval, metrics_host, metrics_port, audit_log)
    with ExitStack() as stack:
        source, tolerance = autopilot.source(policy, manager, journal, past, settings, stack)
        on_round, on_silence = outputs.listeners(manager, journal, stack)
        settings = replace(settings, guard=tolerance)
        running.run(
            source, manager, journal, settings, stop=stop, history=past, on_round=on_round, on_silence=on_silence
        )


@dataclass(frozen=True)
class _ControllerOutputs:
    """Where rounds are reported."""

    mode: str
    json: bool
    interval: float
    metrics_host: str
    metrics_port: int | None
    audit_log: Path | None

    def listeners(
        self, manager: ResourceManager, journal: Path, stack: ExitStack
    ) -> tuple[Callable[[RoundResult], None], Callable[[LiveError], None]]:
        """What is called with every round, and where there is none; files and ports are open as long as the stack."""
        from shunter.live import notify

        reports = [_json_report(manager)] if self.json else [_report(self.mode, manager), _policy_report()]
        reports.append(lambda result: notify.alive(_summary(result, self.mode)))
        silences = [_report_silence, lambda problem: notify.alive(str(problem))]
        notify.patience(PATIENT_INTERVALS * self.interval + PATIENCE_S)
        if self.metrics_port is not None:
            numbers = _served(stack, manager, (self.metrics_host, self.metrics_port), self.interval)
            reports.append(numbers.seen)
            silences.append(numbers.silent)
        if self.audit_log is not None:
            reports.append(_audited(stack, self.audit_log, journal))
        return _each(reports), _each(silences)


@dataclass(frozen=True)
class _AutopilotOptions:
    """What was set of the autopilot."""

    baseline: str | None
    candidates: tuple[str, ...]
    limits: str
    repository: Path | None

    def check(self, policy: str) -> None:
        """Refuse options that would have no effect, or have a mistake."""
        from shunter.errors import LiveError

        if policy == "autopilot":
            raise LiveError(f"there is no policy 'autopilot'; the autopilot is --policy {AUTO}")
        if policy == AUTO:
            from shunter.adapting.autopilot.candidates import USUAL, Candidates
            from shunter.adapting.autopilot.rule import AutopilotLimits

            if AutopilotLimits.of(self.limits).worst_day != AutopilotLimits().worst_day:
                raise LiveError("--limits: worst_day is for replays; on a live cluster set --guard on:margin=X")
            Candidates.of(self.candidates, self.baseline or USUAL[0])  # Slurm's own policy is not known yet
        elif self.baseline or self.candidates or self.limits or self.repository:
            raise LiveError(
                f"--baseline, --candidate, --limits and --repository are for --policy {AUTO}; leave them out"
            )

    def tolerated(self, policy: str) -> dict[str, str]:
        """Defaults of the guard: an autopilot's own margin and days, and the operator's limits."""
        if policy != AUTO:
            return {}
        from shunter.adapting.autopilot.rule import AutopilotLimits

        limits = AutopilotLimits.of(self.limits)
        own = {"worst_p99": limits.worst_p99, "worst_fairness": limits.worst_fairness}
        return AUTO_GUARD | {key: f"{value:g}" for key, value in own.items()}

    def source(
        self,
        policy: str,
        manager: ResourceManager,
        journal: Path,
        history: Trace | None,
        settings: ControllerSettings,
        stack: ExitStack,
    ) -> tuple[Policy | PolicySource, Tolerance | None]:
        """The policy, or the autopilot; and what the guard tolerates, with the baseline as its shadow."""
        from shunter.registry import policy as policy_named

        guard = settings.guard
        if policy != AUTO:
            return policy_named(policy), guard

        from shunter.adapting.autopilot.candidates import Candidates
        from shunter.adapting.autopilot.live import LivePilot
        from shunter.adapting.autopilot.rule import AutopilotLimits
        from shunter.live.controller import Mode
        from shunter.live.journal_file import check_place, make_folder

        chosen = Candidates.of(self.candidates, self.baseline or manager.own_policy())
        folder = self.repository
        if folder is None and settings.mode is Mode.ACT:
            folder = journal.with_name(f"{journal.name}.jobs")
        if folder is None:  # one that only watches writes nothing that stays
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="shunter-")))
        make_folder(folder / "hours")
        check_place(folder / "hours")
        limits = AutopilotLimits.of(self.limits)
        if guard is not None:
            guard = replace(guard, base=guard.base or chosen.baseline)
        return LivePilot(chosen, limits, folder, history), guard


def mode_named(text: str) -> Mode:
    """The mode of this name."""
    from shunter.errors import LiveError, did_you_mean
    from shunter.live.controller import Mode

    if text not in tuple(Mode):
        raise LiveError(f"there is no mode '{text}'; {did_you_mean(text, Mode)}")
    return Mode(text)


def _stopped_by_signals() -> threading.Event:
    """Set by Ctrl-C, and by the service manager."""
    from shunter.live import notify

    stop = threading.Event()

    def end(*_: object) -> None:
        stop.set()
        notify.notify(STOPPING="1")

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return stop


def _served(stack: ExitStack, manager: ResourceManager, address: tuple[str, int], interval: float) -> Metrics:
    """Numbers for Prometheus and a health check, served as long as the stack stands."""
    from shunter.errors import LiveError
    from shunter.live.exposition import Server
    from shunter.live.metrics import Metrics

    numbers = Metrics(manager, interval)
    try:
        server = Server(*address, numbers.pages)
    except LiveError as problem:  # any account can take a port: that must not stop the controller
        note(f"{problem}. The controller runs without them", "warning", "bold yellow")
        return numbers
    stack.callback(server.close)
    note(f"http://{address[0]}:{server.port}/metrics", "metrics")
    return numbers


def _audited(stack: ExitStack, file: Path, journal: Path) -> Callable[[RoundResult], None]:
    """Every change in a file, kept open as long as the stack stands."""
    from shunter.live.audit import AuditLog

    log = AuditLog(file, journal)
    stack.callback(log.close)
    return log.seen


def _each(listeners: Sequence[Callable[[T], None]]) -> Callable[[T], None]:
    """Calls all of them, one after the other."""

    def call(what: T) -> None:
        for listener in listeners:
            listener(what)

    return call


def _summary(result: RoundResult, mode: str) -> str:
    """A round in one line."""
    current = result.round
    said = f"{current.waiting} wait, {len(current.view.running)} run; "
    said += f"{result.done} changed" if mode == "act" else f"{len(result.orders)} would change"
    later = f", {result.postponed} put off" if result.postponed else ""
    return f"{said}{later} ({current.took_s:.2f} s)"


def _report(mode: str, manager: ResourceManager) -> Callable[[RoundResult], None]:
    """Reports the result of a round: in words, or in mode dry-run as the commands that would be run."""
    paused = ""

    def report(result: RoundResult) -> None:
        nonlocal paused
        current = result.round
        note(_summary(result, mode), f"{time.strftime('%H:%M:%S')} round {current.number}", "dim")
        jobs = {job.handle: job for job in current.jobs}
        for order in result.orders:
            user = jobs[order.handle].user if order.handle in jobs else "?"
            if mode == "dry-run":
                for command in manager.commands(order):
                    say(shlex.join(command))
            elif mode == "watch":
                say(f"  job {order.handle} ({user}): {order.lever} {order.before or '-'} -> {order.value}; {order.why}")
        for why in dict.fromkeys(why for _, why in result.failed):
            orders = [order for order, each in result.failed if each == why]
            what = f"job {orders[0].handle}, {orders[0].lever}" if len(orders) == 1 else f"{len(orders)} changes"
            note(f"{what}: {why}", "refused", "yellow")
        for handle, why in result.respected.items():
            note(f"job {handle}: {why}; it is left alone from now on", "respected", "yellow")
        for name, why in list(result.unread.items())[:MOST_SHOWN]:
            note(f"{name}: {why}; it is left to Slurm", "can't be read", "yellow")
        if result.stale_s:
            note(f"the poll was {result.stale_s:.0f} s old, so nothing was changed; the next round polls again", "late")
        if result.silence and not result.failed:
            note(f"{result.silence}; the next round polls again", "unsure", "yellow")
        if result.paused and result.paused != paused:  # once
            note(f"{result.paused}. It only watches now", "HANDED BACK", "bold red")
        paused = result.paused

    return report


def _policy_report() -> Callable[[RoundResult], None]:
    """Reports changes of the policy, and what its source has to say, once."""
    before = ""

    def report(result: RoundResult) -> None:
        nonlocal before
        if (switch := result.switch) is not None:
            because = switch.why + (f" ({switch.evidence})" if switch.evidence else "")
            stays = f"stays {switch.before}: {switch.refused}; wanted: {switch.policy}" if switch.refused else ""
            note(stays or f"{switch.before} -> {switch.policy}: {because}", "policy", "bold yellow")
        if result.remark and result.remark != before:
            note(result.remark, "autopilot", "cyan")
        before = result.remark

    return report


def _json_report(manager: ResourceManager) -> Callable[[RoundResult], None]:
    """Reports the result of a round as JSON."""
    from shunter.live.proposals import record

    return lambda result: print_json(record(result, manager))


def _report_silence(problem: LiveError) -> None:
    note(f"{problem}; nothing is changed until the next round", "no round", "yellow")


def release(
    journal: JournalOption = JOURNAL,
    from_marks: Annotated[
        bool,
        typer.Option(
            "--from-marks",
            help="Undo what any controller did, by marks on jobs and the journal's copy; for a lost journal.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Undo every change that a controller made to jobs that still wait, and give them back to Slurm.

    A controller that runs is stopped first: it only watches until [bold]shunter slurm resume[/bold]. The exit code is 1
    if anything could not be undone, and 2 if nothing could be tried.
    """
    from shunter.live.backing_out import back_out
    from shunter.slurm.client import Client
    from shunter.slurm.manager import SlurmManager
    from shunter.slurm.watcher import OutputFormat

    if not from_marks:
        check_journal(journal)
    found = back_out(SlurmManager(Client(), OutputFormat.TEXT), journal, from_marks)
    if json:
        print_json({"undone": found.undone, "problems": found.problems, "controller": found.controller or None})
    else:
        say(f"{found.undone} change{'' if found.undone == 1 else 's'} undone")
        if found.controller:
            text = "changes nothing any more; it only watches until 'shunter slurm resume'"
            note(f"controller {found.controller} {text}")
        for problem in found.problems:
            note(problem, "not undone", "yellow")
    if found.problems:
        raise typer.Exit(1)


def resume(journal: JournalOption = JOURNAL, json: JsonOption = False) -> None:
    """Let a controller change jobs again after the guard or [bold]shunter slurm release[/bold] handed them back."""
    from contextlib import closing

    from shunter.live.journal import Journal
    from shunter.live.running import resume as take

    check_journal(journal)
    with closing(Journal(journal)) as book:
        was = take(book)
    if json:
        print_json({"resumed": was})
    elif was:
        note("the controller of this journal may change jobs again", "resumed")
    else:
        note("the controller may act already", "nothing to resume")
