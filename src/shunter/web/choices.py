"""What a person may choose on the page: policies with their declared parameters, traces, clusters.

Texts of the command line can name modules and files, which would run or read anything. The page takes none of these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shunter import clusters, registry
from shunter.errors import ClusterError, PolicyError, RunError, did_you_mean
from shunter.params import Param, declared, named
from shunter.setup import jobs_of
from shunter.web.folder import RunsFolder

SYNTHETIC = "synthetic"
MOST_JOBS = 200_000  # of a synthetic trace
MOST_NODES, MOST_GPUS = 10_000, 16
LONGEST_POLICY, DEEPEST_POLICY = 2000, 3
SIZE = re.compile(r"([1-9]\d{0,4})x([1-9]\d?)")
NOT_IN_VALUES = re.compile(r"[,:\s]")


@dataclass(frozen=True)
class ParameterField:
    """A parameter as a field of a form."""

    name: str
    kind: str  # choice, switch, number, text
    default: str
    about: Param
    allowed: str  # in words; "": anything

    @property
    def whole(self) -> bool:
        """Whether it takes whole numbers only."""
        return self.kind == "whole"


def fields_of(name: str) -> list[ParameterField]:
    """The parameters of a policy, from the same declarations as on the command line."""
    return [
        ParameterField(key, _kind(kind, about), written(default), about, _allowed(about))
        for key, (kind, default, about) in declared(policy_class(name)).items()
    ]


def _allowed(about: Param) -> str:
    """The values that a field takes, where its form does not show them."""
    if about.policy:
        return "a policy"
    low, high = ("" if end is None else f"{end:,.10g}" for end in (about.low, about.high))
    if low and high:
        return f"{low} to {high}"
    return f"{low} or more" if low else f"up to {high}" if high else ""


def _kind(kind: type, about: Param) -> str:
    if about.choices:
        return "choice"
    return {bool: "switch", int: "whole", float: "number"}.get(kind, "text")


def written(value: Any) -> str:
    """A value as it is written in a policy's text."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def policy_class(name: str) -> type[Any]:
    """The class of a policy by its name; a dotted path is none here."""
    if name not in registry.names():
        raise PolicyError(f"there is no policy '{name[:80]}'; {did_you_mean(name[:80], registry.names())}")
    return registry.policy_class(name)


def policy_text(name: str, values: Mapping[str, str], depth: int = 0) -> str:
    """A policy's text from a form; fields that are empty or have their defaults are left out."""
    known = {field.name: field for field in fields_of(name)}
    settings = {}
    for key, given in values.items():
        value = given.strip()
        if key not in known:
            raise PolicyError(f"policy '{name}' has no parameter '{key[:80]}'; {did_you_mean(key[:80], known)}")
        if value and value != known[key].default:
            _check(name, known[key], value, depth)
            settings[key] = value
    text = f"{name}:{','.join(f'{key}={value}' for key, value in settings.items())}" if settings else name
    registry.policy(text)  # a value outside its range is refused here
    return text


def _check(name: str, field: ParameterField, value: str, depth: int) -> None:
    if field.about.policy:
        checked_policy(value.replace(";", ","), depth + 1)
    elif NOT_IN_VALUES.search(value):
        raise PolicyError(f"policy '{name}': parameter '{field.name}' takes no spaces, commas or colons")
    elif field.about.choices and value not in field.about.choices:
        raise PolicyError(f"policy '{name}': parameter '{field.name}' must be one of {', '.join(field.about.choices)}")


def checked_policy(text: str, depth: int = 0) -> str:
    """A policy's text from elsewhere, with its settings spelled out."""
    if len(text) > LONGEST_POLICY or depth > DEEPEST_POLICY:
        raise PolicyError(f"a policy has up to {LONGEST_POLICY:,} letters here, and {DEEPEST_POLICY} others inside it")
    name, values = named(text)
    return policy_text(name, values, depth)


def trace_text(folder: RunsFolder, name: str) -> str:
    """What the command line takes for a trace: a file of the folder by its path, or a synthetic one."""
    if name == SYNTHETIC or name.startswith(f"{SYNTHETIC}:"):
        if (jobs := jobs_of(name)) > MOST_JOBS:
            raise RunError(f"a synthetic trace has up to {MOST_JOBS:,} jobs here, got {jobs:,}")
        if "like=" in name:
            raise RunError("a synthetic trace like another can't be made here; use the command line")
        return name
    path = folder.path(name)
    if not path.is_file():
        raise RunError(f"{name}: there is no such trace in this folder")
    return str(path)


def cluster_text(text: str) -> str:
    """What the command line takes for a cluster: a size such as 16x8, a built-in name, or auto."""
    size = SIZE.fullmatch(text)
    if size and int(size[1]) <= MOST_NODES and int(size[2]) <= MOST_GPUS:
        return text
    if text == "auto" or text in clusters.names():
        return text
    raise ClusterError(
        f"there is no cluster '{text[:80]}'; write nodes x GPUs such as 16x8 (up to {MOST_NODES:,} x {MOST_GPUS}),"
        f" auto, or one of {', '.join(clusters.names())}"
    )
