"""Former names of options: they still work and are not shown."""

from __future__ import annotations

from collections.abc import Sequence

PAGE, WINDOW = {"--html": "--report"}, {"--test-from": "--since", "--test-until": "--until"}
RENAMED = {  # command -> its old names
    ("advise",): {"--output": "--report"},
    ("energy",): WINDOW,
    ("predict", "explain"): PAGE,
    ("trace", "describe"): PAGE,
    ("trace", "slice"): {"--from": "--since", "--to": "--until"},
}


def renamed(arguments: Sequence[str]) -> list[str]:
    """The arguments of a command line, with the present names of options."""
    words = [word for word in arguments if not word.startswith("-")]
    for command, names in RENAMED.items():
        if tuple(words[: len(command)]) == command:
            return [_present(argument, names) for argument in arguments]
    return list(arguments)


def _present(argument: str, names: dict[str, str]) -> str:
    name, equals, value = argument.partition("=")
    return names.get(name, name) + equals + value
