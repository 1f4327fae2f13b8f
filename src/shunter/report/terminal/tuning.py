"""What settings were tried, and what is left of their gain on jobs that were not searched on, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from shunter.report.terminal.tables import ORACLE, RHO, Below, broken, duration, number, share, table
from shunter.texts import agreeing, counted

SHOWN = 12
WIDTH = 56  # of the column with policies
WHAT = {"jct": "mean JCT", "wait": "mean wait", "tail": "P99 of the wait", "deadlines": "share of deadlines missed"}
COLUMNS = (("jct_s", "mean"), ("wait_s", "mean"), ("wait_s", "p99"))
WARNING = " Chosen on these jobs, so it looks better on them than it will on others."


def tuning_view(found: Mapping[str, Any]) -> RenderableType:
    """A search (see ``Tuning.as_dict``): the best settings first, those on unseen jobs, and the verdict in words."""
    several, tried = len(found["objectives"]) > 1, found["tried"]
    shown = [row for at, row in enumerate(tried if several else _different(tried)) if at < SHOWN or row["front"]]
    legend = [Below(ORACLE, style="dim")] if any(row["oracle"] for row in shown) else []
    parts: list[RenderableType] = [_table(shown, {}, several), *legend, Text(_ending(found, len(shown)))]
    unseen = [{**row, **row["unseen"]} for row in tried if row["unseen"] is not None]
    if found["validation"] is None:
        parts.append(Text(WARNING, style="dim"))
    else:
        jobs, where = found["validation"]["jobs"], found["validation"]["on"]
        parts += [Text(""), Text(f" On {where} that the search did not see, {counted(jobs, 'job')}:")]
        label = "compared with" if found["against"] else "as given"
        parts.append(_table(_different(unseen, keep=found["given"]), {found["given"]: label}, False))
        parts += _open_jobs(found["validation"]["open"])
    if found["search"] != "grid" and found["best"]["policy"] != found["given"]:
        parts += [
            Text(""),
            Text(f" What the best buys and costs on {'the same' if found['validation'] is None else 'these'} jobs:"),
            _effects(found),
            Below(f"{RHO}."),
        ]
    parts += [Below(verdict["words"]) for verdict in found["verdicts"]]
    if found["best"]["oracle"]:
        parts.append(Below("No site can run the best: it knows the true run times."))
    if not any(row["wait_s"]["mean"] for row in tried if not row["abandoned"]):
        parts.append(Below("No job waited, so no policy can be better."))
    return Group(*parts)


def _different(rows: Sequence[Mapping[str, Any]], keep: str = "") -> list[dict[str, Any]]:
    """The first row of each result, with how many others have the same; the policy to ``keep`` has one in any case."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = (*(row[name][point] for name, point in COLUMNS), row.get("missed_share"), row["policy"] == keep)
        first = found.setdefault(key, {**row, "equals": -1})
        first["equals"] += 1
    return list(found.values())


def _open_jobs(still_open: Mapping[str, Any]) -> list[RenderableType]:
    if not still_open["jobs"]:
        return []
    jobs, part = still_open["jobs"], share(still_open["gpu_time"])
    many, were = counted(jobs, "job"), agreeing("were", jobs)
    return [
        Text(
            f" {many} of the search, with {part} of its GPU time, {were} still running when the later jobs begin, even"
            " if none had waited. The search knows their run times; a site would not have known them then.",
            style="dim",
        )
    ]


def _effects(found: Mapping[str, Any]) -> RenderableType:
    made = table("measure", found["given"], "best", "ratio")
    for row in found["effects"]:
        shown = duration if row["measure"].split(".")[-2:][0] in ("jct_s", "wait_s") else number
        numbers = [shown(row[key]) if row[key] is not None else "-" for key in ("given", "best")]
        made.add_row(Text(row["label"]), *numbers, "-" if row["ratio"] is None else f"{row['ratio']:.2f}")
    return made


def _table(rows: Any, labels: Mapping[str, str], several: bool) -> RenderableType:
    due = ["deadlines\nmissed"] if any("missed_share" in row for row in rows) else []
    made = table("policy", "JCT\nmean", "wait\nmean", "wait\np99", *due, *(["Pareto\nfront"] if several else []))
    for row in rows:
        label = labels.get(row["policy"])
        name = row["policy"] + "*" * row["oracle"]
        name += f" ({label})" if label else ""
        name += f" (and {same} with the same result)" if (same := row.get("equals", 0)) else ""
        numbers = [Text(duration(row[key][point])) for key, point in COLUMNS]
        numbers += [Text(share(row["missed_share"]) if "missed_share" in row else "-") for _ in due]
        made.add_row(
            Text(broken(name, WIDTH)), *numbers, *([Text("yes" if row["front"] else "beaten")] if several else [])
        )
    return made


def _ending(found: Mapping[str, Any], shown: int) -> str:
    tried, first = found["tried"], WHAT[found["objective"]]
    left = f"; {shown} {agreeing('are', shown)} shown" if len(tried) > shown else ""
    runs = f", each with {found['repeats']} seeds" if found["repeats"] > 1 else ""
    as_good = [row for row in tried if row["tied"]]
    tied = [row["policy"] for row in _different([tried[0], *as_good])[1:]] if as_good else []
    close = f". Of the next three, no difference from it is shown for {', '.join(tied)}" if tied else ""
    gone = sum(bool(row["abandoned"]) for row in tried)
    close = f"; {gone} {agreeing('were', gone)} abandoned{close}" if gone else close
    head = (
        f" {counted(len(tried), 'setting')} tried on {counted(found['jobs'], 'job')}{runs}, ordered by {first}{left}."
    )
    return f"{head}{_left_out(found)}{_ended(found)} Best: {tried[0]['policy']}{close}"


def _ended(found: Mapping[str, Any]) -> str:
    """That nothing new was left to try; halving runs fewer settings on all jobs by its nature."""
    tried, budget = len(found["tried"]), found["budget"]
    if found["search"] == "halving" or tried >= budget:
        return ""
    return f" The search ended after {tried} of {counted(budget, 'setting')}, because it found no new ones."


def _left_out(found: Mapping[str, Any]) -> str:
    """That the budget was too small for every policy, or for each with backfilling, so that the best is one of some."""
    among, all_of_them, strict, said = found["policies"], found["choosable"], found["strict"], ""
    if 0 < len(among) < all_of_them:
        said = (
            f" {len(among)} of {all_of_them} policies were tried, drawn by seed {found['seed']}: {', '.join(among)}."
            f" A --budget of {all_of_them + 1} tries all of them."
        )
    if strict:
        which = f"{strict} {'policy' if strict == 1 else 'policies'} {agreeing('were', strict)}"
        said += f" {which} not tried with backfilling; a --budget of {found['enough']} does so."
    return said
