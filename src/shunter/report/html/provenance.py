"""What was run: enough to run it again and to check that the result is the same."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from shunter.clusters.stop_costs import USUAL
from shunter.report.html.findings import Row, label
from shunter.report.html.page import code, facts, paragraph, points, table
from shunter.texts import counted

if TYPE_CHECKING:
    from shunter.run_folder import Run


def provenance(runs: Sequence[Run], rows: Sequence[Row], added: Sequence[str] = ()) -> list[str]:
    """The trace, the cluster, the policies, the versions, and the command that leads here again."""
    first, record, cluster = runs[0], runs[0].experiment, runs[0].cluster
    path = record.trace.path
    name = path if path.startswith("synthetic") else PurePath(path).name
    kinds = "; ".join(
        f"{counted(g.count, 'node')} of {g.gpus} {g.gpu_type}{f' ({g.vc})' if g.vc else ''}" for g in cluster.groups[:6]
    )
    more = f"; and {len(cluster.groups) - 6} more groups" if len(cluster.groups) > 6 else ""
    versions = first.versions
    packages = ", ".join(
        f"{name} {version}" for name, version in versions.items() if name not in ("shunter", "platform")
    )
    about = [
        ("trace", name or "made in memory"),
        ("jobs", f"{first.summary['jobs']:,}"),
        ("digest of the trace", record.trace.digest),
        ("cluster", f"{cluster.name}: {counted(cluster.nodes, 'node')}, {counted(cluster.gpus, 'GPU')}"),
        ("nodes", kinds + more),
        ("seed", str(record.seed)),
        ("jobs that can never fit", "left out" if record.drop_unfit else "none allowed"),
        ("shunter", versions.get("shunter", "")),
        ("with", packages),
        ("on", versions.get("platform", "")),
    ]
    lines = [[label(row), _estimates(run), run.summary["digest"]] for run, row in zip(runs, rows, strict=True)]
    noted = remarks(rows)
    return [
        facts(about),
        *([paragraph("Left out or assumed when the trace was read:"), points(noted)] if noted else []),
        table(
            "Policies, with the settings that differ from their defaults",
            ["policy", "estimates", "digest"],
            lines,
            words=(1, 2),
        ),
        code(command(runs, rows, added)),
    ]


def remarks(rows: Sequence[Row]) -> list[str]:
    """What was left out or assumed, as sentences, each once."""
    found = dict.fromkeys(remark for row in rows for remark in row.get("remarks", ()))
    return [f"{remark[0].upper() if remark.split()[0].isalpha() else remark[0]}{remark[1:]}." for remark in found]


def left_out(rows: Sequence[Row]) -> str:
    """In one line which rows of the trace were not simulated; nothing if all were."""
    heads = [remark.partition("\n")[0].rstrip(".").removesuffix(", the first:") for remark in remarks(rows)]
    found = [part[1] for part in (re.search(r"\b[Ll]eft out (.+)", head) for head in heads) if part]
    return f"Left out of the trace: {'; '.join(found)}. See What was run." if found else ""


def _estimates(run: Run) -> str:
    return "–" if run.summary["estimate"] == "none" else str(run.summary["estimate"])


def command(runs: Sequence[Run], rows: Sequence[Row], added: Sequence[str] = ()) -> str:
    """What to type to get this again, where the files that were read lie in the current folder.

    ``added`` are the options for measures and sections of third parties.
    """
    record = runs[0].experiment
    path, cluster = record.trace.path, record.cluster.text
    trace = path if path.startswith("synthetic") else PurePath(path).name or "TRACE"
    cluster = PurePath(cluster).name if cluster.endswith(".toml") else cluster
    words = ["shunter", "compare" if len(runs) > 1 else "simulate", trace, "--cluster", cluster]
    words += ["--format", record.trace.format] if record.trace.format else []
    words += ["--on-bad-row", "skip"] if record.trace.on_bad_row == "skip" else []
    words += [word for run in runs for word in ("--policy", run.experiment.policy)]
    repeats = len(rows[0].get("repeats", ()))
    words += ["--repeat", str(repeats)] if repeats > 1 else []
    words += ["--seed", str(record.seed)] if record.seed else []
    words += ["--load", record.load] if record.load else []
    words += ["--since", record.since] if record.since else []
    words += ["--until", record.until] if record.until else []
    words += ["--checkpointable", record.checkpointable] if record.checkpointable else []
    words += ["--drop-unfit"] if record.drop_unfit else []
    words += ["--network", record.network] if record.network else []
    words += ["--contention"] if record.contention else []
    words += ["--models", PurePath(record.models).name] if record.models else []
    words += ["--scaling", PurePath(record.scaling).name] if record.scaling else []
    words += ["--losses", PurePath(record.losses).name] if record.losses else []
    words += ["--sharing", record.sharing] if record.sharing else []
    words += [word for costs in _overheads(runs) for word in ("--overhead", costs)]
    return shlex.join([*words, *added])


def _overheads(runs: Sequence[Run]) -> list[str]:
    """What stops cost, as ``--overhead`` takes it: once if all policies have the same costs, else for each policy."""
    costs = [run.experiment.overhead or USUAL for run in runs]
    if len(set(costs)) == 1:
        return [] if costs[0] == USUAL else costs[:1]
    return [f"{run.experiment.policy}={cost}" for run, cost in zip(runs, costs, strict=True) if cost != USUAL]
