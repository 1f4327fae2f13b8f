"""``shunter``: the commands, and how errors are reported."""

from __future__ import annotations

import os
import select
import sys
from inspect import cleandoc
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from shunter import __version__, notices
from shunter.cli import (
    adapt,
    advise,
    autopilot,
    cluster,
    compare,
    compile_kernels,
    deadline,
    demo,
    energy,
    explain,
    learn,
    network,
    policies,
    predict,
    profile,
    reproduce,
    simulate,
    slurm,
    sweep,
    trace,
    tune,
    web,
)
from shunter.cli.console import end_bars, note, shortened
from shunter.cli.old_names import renamed
from shunter.errors import InputError, ShunterError

HELP = ["-h", "--help"]
OPTIONS_OF_OTHERS = {"report": "simulate, compare and others write a page with --report FILE"}
READER_GONE = 141  # as a shell reports a process that SIGPIPE ended


class Commands(TyperGroup):
    """The commands; bad input is a message and exit code 2, never a traceback."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments; options go by their present names."""
        return super().parse_args(ctx, renamed(args))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of this name; what is an option of others is said to be one."""
        if args and args[0] in OPTIONS_OF_OTHERS and args[0] not in self.commands:
            note(f"there is no command '{args[0]}'; {OPTIONS_OF_OTHERS[args[0]]}", "error", "bold red")
            raise typer.Exit(2)
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **more: Any) -> Any:
        """Understand the arguments."""
        _tidy_help(self)
        try:
            return super().make_context(*args, **more)
        except KeyboardInterrupt as interrupt:
            raise _stopped(interrupt) from None

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        notices.compiling.set(compile_kernels.Notice())
        notices.problem.set(lambda text: note(text, "warning", "bold yellow"))
        try:
            return super().invoke(ctx)
        except InputError as error:
            note(shortened(str(error)), "error", "bold red")
            raise typer.Exit(2) from None
        except ShunterError as error:
            note(f"{error}\nThis is a defect in shunter or in a policy.", "error", "bold red")
            raise typer.Exit(1) from None
        except OSError as error:
            if isinstance(error, BrokenPipeError) and _reader_gone():
                raise
            note(f"{error.filename or 'output'}: {error.strerror}; check the path and the disk", "error", "bold red")
            raise typer.Exit(2) from None
        except KeyboardInterrupt as interrupt:
            raise _stopped(interrupt) from None
        finally:
            end_bars()


def _tidy_help(command: Any) -> None:
    """Show a flag without a type (``--json``, not ``--json <bool>``), and leave line breaks to the terminal."""
    if command.help:
        command.help = "\n\n".join(" ".join(part.split("\n")) for part in cleandoc(command.help).split("\n\n"))
    own_help = command.get_help_option(typer.Context(command, help_option_names=HELP))
    for parameter in (*command.params, own_help):
        if parameter is not None and parameter.param_type_name == "option" and parameter.is_flag:
            parameter.metavar = ""
    for each in command.commands.values() if isinstance(command, TyperGroup) else ():
        _tidy_help(each)


def _stopped(interrupt: KeyboardInterrupt) -> typer.Exit:
    """Say that the user stopped it, and what is kept."""
    end_bars()
    note("; ".join(("stopped", *getattr(interrupt, "__notes__", ()))), "interrupted", "bold red")
    return typer.Exit(130)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"shunter {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    name="shunter",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": HELP},
    epilog="Begin with [bold]shunter demo[/bold]. Every command explains itself: [bold]shunter compare --help[/bold].",
    rich_markup_mode="rich",
)


@app.callback()
def shunter(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Schedule deep-learning jobs on GPU clusters: simulate policies and compare them."""


app.command("demo", epilog=demo.EXAMPLES)(demo.demo)
app.command("simulate", epilog=simulate.EXAMPLES)(simulate.simulate)
app.command("compare", epilog=compare.EXAMPLES)(compare.compare)
app.command("compile", epilog=compile_kernels.EXAMPLES)(compile_kernels.compile_kernels)
app.command("deadline", epilog=deadline.EXAMPLES)(deadline.deadline)
app.command("advise", epilog=advise.EXAMPLES)(advise.advise)
app.command("explain", epilog=explain.EXAMPLES)(explain.explain)
app.command("energy", epilog=energy.EXAMPLES)(energy.energy)
app.command("policies", epilog=policies.EXAMPLES)(policies.policies)
app.command("adapt", epilog=adapt.EXAMPLES)(adapt.adapt)
app.command("autopilot", epilog=autopilot.EXAMPLES)(autopilot.autopilot)
app.command("tune", epilog=tune.EXAMPLES)(tune.tune)
app.command("web", epilog=web.EXAMPLES)(web.web)
app.add_typer(cluster.app, name="cluster")
app.add_typer(trace.app, name="trace")
app.add_typer(learn.app, name="learn")
app.add_typer(network.app, name="network")
app.add_typer(predict.app, name="predict")
app.add_typer(profile.app, name="profile")
app.add_typer(reproduce.app, name="reproduce")
app.add_typer(slurm.app, name="slurm")
app.add_typer(sweep.app, name="sweep")


def _reader_gone() -> bool:
    """Whether it is the reader of the output that is gone, as ``head`` is after its lines, and no other pipe's."""
    output = select.poll()
    output.register(sys.stdout.fileno(), 0)
    return any(happened & (select.POLLERR | select.POLLHUP) for _, happened in output.poll(0))


def _flushed() -> bool:
    """Whether what was printed got to a reader; what is left goes nowhere if not."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def main() -> None:
    """The entry point."""
    try:
        app(prog_name="shunter")
    except SystemExit as end:
        gone = isinstance(end.__context__, BrokenPipeError) or not _flushed()
        raise SystemExit(READER_GONE if gone else end.code) from None
