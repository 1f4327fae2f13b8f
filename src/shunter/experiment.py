"""An experiment is one TOML file: which trace, which cluster, which policy, which seed.

``shunter simulate experiment.toml --set policy=sjf --set seed=3`` runs it again, changed where wanted.
"""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
import typing
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from shunter.errors import RunError, did_you_mean
from shunter.safe_files import text_of
from shunter.texts import toml_text


@dataclass(frozen=True)
class TraceSource:
    """Where the jobs come from."""

    path: str = ""  # a file, or synthetic:jobs=...; "": they were made in memory and can't be read again
    digest: str = ""  # of the trace as read; "": any content will do
    format: str = ""  # of the file; "": as its content says
    on_bad_row: str = "fail"  # or "skip": leave them out


@dataclass(frozen=True)
class ClusterSource:
    """The machines: what ``--cluster`` takes, or all of it as TOML."""

    text: str = ""
    definition: str = ""  # wins over text: a file or a ready-made cluster may change, this does not


@dataclass(frozen=True)
class Experiment:
    """Everything that decides the result of a run."""

    policy: str = ""
    seed: int = 0
    repeat: int = 0  # above 0: the same with other arrivals and another seed, see ``setups.Setup.repeat``
    drop_unfit: bool = False  # leave out jobs that can never fit
    network: str = ""  # how the network model is calibrated; "": where a job is put does not change its speed
    contention: bool = False  # jobs share the links of that network
    models: str = ""  # a file with models of the user's own for that network
    sharing: str = ""  # how jobs share a GPU, one of ``cluster.SHARING``; "": as the cluster says
    overhead: str = ""  # what stopping a job costs, as ``--overhead`` takes it; "": as the cluster says
    load: str = ""  # arrivals are stretched or compressed until the cluster has this load; "": as in the trace
    checkpointable: str = ""  # which jobs may be stopped, as ``--checkpointable`` takes it; "": as in the trace
    scaling: str = ""  # a file with measured speeds by number of GPUs; "": what is known of the models
    losses: str = ""  # a file with loss curves; "": jobs report none
    since: str = ""  # only jobs submitted from then on are simulated; those before are what policies may learn from
    until: str = ""  # only jobs submitted before then
    version: str = ""  # of the shunter that ran it
    trace: TraceSource = field(default_factory=TraceSource)
    cluster: ClusterSource = field(default_factory=ClusterSource)
    versions: dict[str, str] = field(default_factory=dict)  # of Python and of the libraries that may change numbers
    data: dict[str, str] = field(default_factory=dict)  # file -> digest, of all files besides the trace that it reads


STALE = {  # what a change makes untrue
    "trace.path": "trace.digest",
    "cluster.text": "cluster.definition",
    **dict.fromkeys(("policy", "network", "models", "sharing", "scaling", "losses"), "data"),
}


def read(path: Path) -> Experiment:
    """The experiment in a TOML file."""
    try:
        tree = tomllib.loads(text_of(path, RunError, "give an experiment.toml"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise RunError(f"{path}: is not TOML: {error}") from None
    found: Experiment = _build(Experiment, tree, str(path), "")
    return found


def override(experiment: Experiment, settings: Iterable[str]) -> Experiment:
    """The experiment with ``key=value`` settings applied; dots lead into it: ``trace.path=other.csv``.

    What is known of the old trace, cluster or data files is dropped if another one is set.
    """
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise RunError(f"--set {setting}: must be key=value, such as policy=sjf or trace.path=other.csv")
        experiment = _replace(experiment, key.strip().split("."), value.strip(), f"--set {setting}")
        if stale := STALE.get(key.strip()):
            experiment = _replace(experiment, stale.split("."), "", "")
    return experiment


def to_toml(experiment: Experiment) -> str:
    """The experiment as the text of a TOML file."""
    lines: list[str] = []
    for key, value in dataclasses.asdict(experiment).items():
        if isinstance(value, dict):
            lines += ["", f"[{key}]", *(f"{_key(inner)} = {_literal(text)}" for inner, text in value.items())]
        else:
            lines.append(f"{key} = {_literal(value)}")
    return "\n".join(lines) + "\n"


def _key(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else _literal(text, lines=False)


def _literal(value: Any, lines: bool = True) -> str:
    plain = isinstance(value, str) and "'''" not in value and all(c == "\n" or c.isprintable() for c in value)
    if lines and plain and "\n" in value:
        return f"'''\n{value}'''"
    return toml_text(value) if isinstance(value, str) else json.dumps(value)


_kinds = cache(typing.get_type_hints)  # a list of runs reads hundreds of files


def _build(cls: type, tree: dict[str, Any], where: str, prefix: str) -> Any:
    kinds = _kinds(cls)
    values: dict[str, Any] = {}
    for key, value in tree.items():
        if key not in kinds:
            raise RunError(f"{where}: unknown key '{prefix}{key}'; {did_you_mean(key, kinds)}")
        kind = kinds[key]
        if dataclasses.is_dataclass(kind):
            if not isinstance(value, dict):
                raise RunError(f"{where}: '{prefix}{key}' must be a table, got {value!r}")
            values[key] = _build(typing.cast(type, kind), value, where, f"{prefix}{key}.")
        elif kind == TEXTS:
            if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
                raise RunError(f"{where}: '{prefix}{key}' must be a table of texts, got {value!r}")
            values[key] = value
        elif type(value) is not kind:
            raise RunError(f"{where}: '{prefix}{key}' must be {_WORDS[kind]}, got {value!r}")
        elif kind is str and "\0" in value:
            raise RunError(f"{where}: '{prefix}{key}' must have no NUL character, got {value!r}")
        else:
            values[key] = value
    return cls(**values)


TEXTS = dict[str, str]
_WORDS = {str: "text", int: "a whole number", bool: "true or false"}


def _replace(tree: Any, keys: list[str], value: str, where: str) -> Any:
    kinds = typing.get_type_hints(type(tree))
    key, *rest = keys
    if key not in kinds:
        raise RunError(f"{where}: unknown key '{key}'; {did_you_mean(key, kinds)}")
    inner = dataclasses.is_dataclass(kinds[key])
    if inner != bool(rest):
        names = ", ".join(f"{key}.{name}" for name in typing.get_type_hints(kinds[key])) if inner else key
        raise RunError(f"{where}: '{'.'.join(keys)}' is not one value; set {names}")
    new = _replace(getattr(tree, key), rest, value, where) if inner else _parse(value, kinds[key], where)
    return dataclasses.replace(tree, **{key: new})


def _parse(text: str, kind: type, where: str) -> Any:
    if kind == TEXTS:
        if text:
            raise RunError(f"{where}: can only be emptied, by setting it to nothing")
        return {}
    if kind is bool:
        if text not in ("true", "false"):
            raise RunError(f"{where}: must be true or false, got '{text}'")
        return text == "true"
    try:
        return kind(text)
    except ValueError:
        raise RunError(f"{where}: must be {_WORDS[kind]}, got '{text}'") from None
