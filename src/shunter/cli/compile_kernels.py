"""``shunter compile``, and the progress that users see while kernels are compiled."""

from __future__ import annotations

import time
from typing import Annotated, NamedTuple

import typer

from shunter import notices
from shunter.cli.console import Bar, JsonOption, note, print_json, progress

EXAMPLES = """Examples:

shunter compile                 # now, so that no later command of yours waits

sudo shunter compile --for-all  # once after an installation, for all accounts of this machine
"""


class Expected(NamedTuple):
    """How much there is to compile."""

    what: str
    kernels: int
    seconds: int


# Measured: 72 kernels for fifo, 94 for las and 105 for lucid in a first run; 11 to 26 more for another kind of policy.
FIRST = Expected("the first run of this version compiles its kernels", 100, 30)
ANOTHER = Expected("this version compiles kernels that it has not used before", 25, 10)


class Notice:
    """Says once that kernels are compiled, why, for how long and how to avoid it; a bar on a terminal shows how far."""

    def __init__(self) -> None:
        self.count = 0
        self._expected = FIRST
        self._bar = Bar("compiling", "kernels, about")

    def __call__(self, kernel: str) -> None:
        """Take note of one more kernel, or (without a name) of the end."""
        if kernel and not self.count:
            self._begin()
        self.count += bool(kernel)
        if kernel:
            self._bar.show(self.count, max(self._expected.kernels, self.count))
        else:
            self._bar.hide()

    def _begin(self) -> None:
        self._expected = ANOTHER if engine_is_compiled() else FIRST
        self._bar = Bar(f"compiling, about {self._expected.seconds} s", "kernels, about")
        note(self._text(), "compiling", "dim")

    def _text(self) -> str:
        from shunter.compiled import place

        what, _, seconds = self._expected
        problem = place().problem
        if problem:
            return f"{what}, about {seconds} s, and again every time, because they can't be kept: {problem}"
        return (
            f"{what}, about {seconds} s, longer on a busy machine; later runs don't. 'shunter compile' compiles"
            " everything beforehand"
        )


def engine_is_compiled() -> bool:
    """Whether a run of this version was compiled before."""
    from shunter.sim import side_compiling

    return side_compiling.is_done()


def compile_kernels(
    for_all: Annotated[
        bool,
        typer.Option("--for-all", help="Keep them beside the program, for all accounts; needs its owner's rights."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Compile all kernels now, so that no later command waits for that.

    Without it, commands compile what they need when they first need it, and keep it in the user's cache.
    """
    from shunter import precompile

    begun = time.monotonic()
    if for_all:
        folder = precompile.for_all()
    else:
        with progress("compiling", "policies") as on_progress, notices.silently():
            folder = precompile.for_this_account(on_progress)
    taken = time.monotonic() - begun
    if json:
        print_json({"folder": str(folder), "seconds": taken})
    else:
        typer.echo(f"compiled in {taken:.0f} s: {folder}")
