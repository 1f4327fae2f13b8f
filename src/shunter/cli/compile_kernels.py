"""``shunter compile``, and the progress that users see while kernels are compiled."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from shunter import notices
from shunter.cli.console import Bar, JsonOption, note, print_json, progress

EXAMPLES = """Examples:

shunter compile                 # now, so that no later command of yours waits

sudo shunter compile --for-all  # once after an installation, for all accounts of this machine
"""
USUAL = 100  # kernels that a first run compiles, about: 72 for fifo, 94 for las, 105 for lucid


class Notice:
    """Says that kernels are compiled: a line for a log, and a bar on a terminal."""

    def __init__(self) -> None:
        self.count = 0
        self._bar = Bar("compiling", "kernels, about")

    def __call__(self, kernel: str) -> None:
        """Take note of one more kernel, or (without a name) of the end."""
        if kernel and not self.count:
            self._begin()
        self.count += bool(kernel)
        if kernel:
            self._bar.show(self.count, max(USUAL, self.count))
        else:
            self._bar.hide()

    def _begin(self) -> None:
        from shunter.compiled import place

        problem = place().problem
        kept = f"every time, because they can't be kept: {problem}" if problem else "once for this version of shunter"
        note(
            f"kernels are compiled, {kept}; this takes about 30 s, up to two minutes on a busy machine",
            "compiling",
            "dim",
        )


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
