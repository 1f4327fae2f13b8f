"""``shunter slurm run`` and ``release``: a policy on a live cluster, and the way back."""

from __future__ import annotations

import shlex
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from shunter.cli.console import JsonOption, note, policy_names, print_json
from shunter.cli.slurm_audit import JOURNAL, JournalOption, check_journal

if TYPE_CHECKING:
    from shunter.errors import SlurmError
    from shunter.slurm.controller import Outcome

T = TypeVar("T")
MOST_TOLD = 10  # of what can't be read, in one round
GUARDS = ("on", "watch", "off")
EXAMPLES = """Examples:

shunter slurm run --policy qssf                     # watch: says what it would do, changes nothing

shunter slurm run --policy sjf:backfill=easy --mode dry-run --rounds 1   # the exact commands of one round

shunter slurm run --policy wfp3 --mode act --exclude-partition urgent --max-changes 20

shunter slurm release                               # undo everything, and give the jobs back to Slurm
"""


def run(  # noqa: PLR0913, PLR0917  one argument per option
    policy: Annotated[
        str, typer.Option("--policy", "-p", metavar="P", help="Who orders the queue.", autocompletion=policy_names)
    ],
    mode: Annotated[
        str, typer.Option(metavar="watch|dry-run|act", help="Say it, print the commands, or run them.")
    ] = "watch",
    interval: Annotated[float, typer.Option(min=0.2, help="Seconds between two rounds.")] = 60.0,
    poll: Annotated[float, typer.Option(min=0.2, help="Least seconds between two questions to Slurm.")] = 5.0,
    levers: Annotated[
        str, typer.Option(metavar="L,L", help="nice, or priority; pin, requeue and shard when added.")
    ] = "nice",
    max_changes: Annotated[int, typer.Option(min=1, help="Jobs changed in one round, at most.")] = 100,
    lift: Annotated[
        int, typer.Option(min=1, help="So far above the highest priority of the queue a job may be put.")
    ] = 10_000,
    exclude_user: Annotated[
        list[str] | None, typer.Option(metavar="USER", help="Leave this user's jobs to Slurm.")
    ] = None,
    exclude_partition: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Leave this partition to Slurm.")
    ] = None,
    exclude_qos: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Leave jobs of this QOS to Slurm.")
    ] = None,
    history: Annotated[Path | None, typer.Option(metavar="TRACE", help="Ended jobs to learn run times from.")] = None,
    journal: JournalOption = JOURNAL,
    rounds: Annotated[int, typer.Option(min=0, help="Stop after so many rounds; 0: never.")] = 0,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, metavar="PORT", help="Serve /metrics for Prometheus there.")
    ] = None,
    metrics_host: Annotated[str, typer.Option(metavar="HOST", help="On this address.")] = "127.0.0.1",
    audit_log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Add a line of JSON to it for every change.")
    ] = None,
    guard: Annotated[
        str, typer.Option(metavar="on|watch|off", help="Hand the jobs back if they wait longer than without us.")
    ] = "on",
    guard_base: Annotated[
        str, typer.Option(metavar="P", help="What they would have without us; else what Slurm's configuration says.")
    ] = "",
    guard_margin: Annotated[float, typer.Option(min=0, help="So much longer, as a share, they may wait.")] = 0.2,
    guard_slack: Annotated[float, typer.Option(min=0, help="And so many seconds.")] = 60.0,
    guard_patience: Annotated[int, typer.Option(min=1, help="Checks in a row; one every five intervals.")] = 6,
    resume: Annotated[bool, typer.Option("--resume", help="Act again after the guard has handed jobs back.")] = False,
    json: JsonOption = False,
) -> None:
    """Run a policy on the live cluster that Slurm runs here.

    It begins in mode [bold]watch[/bold] and changes nothing until told to [bold]act[/bold]. It never cancels a job;
    when it stops, Slurm goes on by its own rules. See docs/operating.md.
    """
    from shunter.errors import SlurmError, did_you_mean
    from shunter.registry import policy as policy_named
    from shunter.slurm.audit import AuditLog
    from shunter.slurm.backend import Rhythm, Scope
    from shunter.slurm.client import Client
    from shunter.slurm.controller import Bounds, Mode
    from shunter.slurm.exposition import Server
    from shunter.slurm.guard import Tolerance
    from shunter.slurm.levers import levers_from
    from shunter.slurm.metrics import Metrics
    from shunter.slurm.running import Settings
    from shunter.slurm.running import run as control

    if mode not in tuple(Mode):
        raise SlurmError(f"there is no mode '{mode}'; {did_you_mean(mode, Mode)}")
    if guard not in GUARDS:
        raise SlurmError(f"--guard must be {', '.join(GUARDS)}, got '{guard}'; {did_you_mean(guard, GUARDS)}")
    settings = Settings(
        Mode(mode),
        Rhythm(interval, min(poll, interval)),
        Scope(frozenset(exclude_user or ()), frozenset(exclude_partition or ()), frozenset(exclude_qos or ())),
        levers_from(levers),
        Bounds(max_changes, lift=lift),
        rounds,
        None
        if guard == "off"
        else Tolerance(guard_margin, guard_slack, 5 * interval, guard_patience, guard == "on", guard_base),
        resume,
    )
    from shunter import traces

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    past = traces.read(history) if history is not None else None
    client, followers, aways = Client(), [_tell_json if json else _teller(mode)], [_tell_away]
    with ExitStack() as stack:
        if metrics_port is not None:
            numbers = Metrics(client)
            server = Server(metrics_host, metrics_port, numbers.text)
            stack.callback(server.close)
            note(f"http://{metrics_host}:{server.port}/metrics", "metrics")
            followers.append(numbers.seen)
            aways.append(numbers.away)
        if audit_log is not None:
            log = AuditLog(audit_log, journal)
            stack.callback(log.close)
            followers.append(log.seen)
        control(
            policy_named(policy), client, journal, settings, stop=stop, history=past,
            told=_each(followers), away=_each(aways),
        )  # fmt: skip


def _each(listeners: Sequence[Callable[[T], None]]) -> Callable[[T], None]:
    """All of them are told, one after the other."""

    def tell(what: T) -> None:
        for listener in listeners:
            listener(what)

    return tell


def _teller(mode: str) -> Callable[[Outcome], None]:
    """Says what a round came to: in words, or in mode dry-run as the commands that would be run."""

    def tell(outcome: Outcome) -> None:
        current = outcome.round
        said = f"{len(current.view.pending)} wait, {len(current.view.running)} run; "
        said += f"{outcome.done} changed" if mode == "act" else f"{len(outcome.orders)} would change"
        later = f", {outcome.postponed} put off" if outcome.postponed else ""
        note(f"{said}{later} ({current.took_s:.2f} s)", f"{time.strftime('%H:%M:%S')} round {current.number}", "dim")
        jobs = {job.handle: job for job in current.jobs}
        for order in outcome.orders:
            user = jobs[order.handle].user if order.handle in jobs else "?"
            if mode == "dry-run":
                for command in order.commands():
                    typer.echo(shlex.join(command))
            elif mode == "watch":
                typer.echo(
                    f"  job {order.handle} ({user}): {order.lever} {order.before or '-'} -> {order.value}; {order.why}"
                )
        for order, why in outcome.failed:
            note(f"job {order.handle}, {order.lever}: {why}", "refused", "yellow")
        for handle, why in outcome.respected.items():
            note(f"job {handle}: {why}; it is left alone from now on", "respected", "yellow")
        for name, why in list(outcome.unread.items())[:MOST_TOLD]:
            note(f"{name}: {why}; it is left to Slurm", "can't be read", "yellow")
        if outcome.paused:
            note(f"{outcome.paused}. It only watches now", "HANDED BACK", "bold red")

    return tell


def _tell_json(outcome: Outcome) -> None:
    current = outcome.round
    print_json(
        {
            "round": current.number,
            "now": current.snapshot.now,
            "pending": len(current.view.pending),
            "running": len(current.view.running),
            "orders": [vars(order) | {"commands": order.commands()} for order in outcome.orders],
            "postponed": outcome.postponed,
            "done": outcome.done,
            "failed": [{"job": order.handle, "lever": order.lever, "why": why} for order, why in outcome.failed],
            "respected": outcome.respected,
            "unread": outcome.unread,
            "paused": outcome.paused,
            "guard_ratio": outcome.ratio,
        }
    )


def _tell_away(silence: SlurmError) -> None:
    note(f"{silence}; the jobs go on under Slurm's own rules, and it is asked again", "no answer", "yellow")


def release(journal: JournalOption = JOURNAL, json: JsonOption = False) -> None:
    """Undo every change that a controller made to jobs that still wait, and give them back to Slurm."""
    from shunter.slurm.client import Client
    from shunter.slurm.journal import Journal
    from shunter.slurm.releasing import release as give_back
    from shunter.slurm.watcher import Watcher

    check_journal(journal)
    book, client = Journal(journal), Client()
    undone, problems = give_back(client, book, Watcher(client).snapshot())
    book.close()
    if json:
        print_json({"undone": undone, "problems": problems})
        return
    typer.echo(f"{undone} change{'' if undone == 1 else 's'} undone")
    for problem in problems:
        note(problem, "not undone", "yellow")
