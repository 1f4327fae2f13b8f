"""Advice for a terminal, within 100 columns; ``record`` is what ``shunter advise --json`` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from shunter.advice.verdict import CAUTION, NO, TRUST
from shunter.advice.words import CHOSEN, NO_ADVICE, NO_SETTINGS, NOTHING, interval, percent, rank, verdict_text
from shunter.report.terminal.tables import Below, broken, duration, share, table

COLOURS = {TRUST: "bold green", CAUTION: "bold yellow", NO: "bold red"}
NAME = 44  # columns of a title
WIDTH = 98
LEGEND = (
    "by Slurm: a setting of its own; by shunter: its controller; wait by user: each user counts alike;\n"
    " slowdown: bounded, mean; users lose: wait longer. Options that raise P99 by over 1.5 times come last."
)


def advice_view(record: Mapping[str, Any]) -> RenderableType:
    """All of it: the verdict, how near the replay is, the comparison, and what is best."""
    parts = [*_verdict(record), *_validity(record)]
    if record["verdict"] == NO:
        return Group(*parts, Text(NO_ADVICE))
    return Group(*parts, *_comparison(record), *_best(record), *_checkpoints(record["checkpoints"]))


def _verdict(record: Mapping[str, Any]) -> list[RenderableType]:
    said = Text.assemble((f"{record['verdict'].capitalize()}: ", COLOURS[record["verdict"]]), verdict_text(record))
    return [said, Text("")]


def _heading(text: str) -> Text:
    return Text(text, style="bold")


def _validity(record: Mapping[str, Any]) -> list[RenderableType]:
    found = record["validity"]
    parts: list[RenderableType] = [_heading("1. The present, modelled as"), Text(broken(record["base"], WIDTH))]
    parts.append(Text(record["trust"]))
    if found["jobs"]:
        parts += [_agreement("GPUs", found["by_size"]), _agreement("submitted", found["by_month"])]
    for sentence in (*record["inferred"]["sentences"], *record["explained"]):
        parts.append(Padding(Text(f"- {sentence}"), (0, 0, 0, 1)))
    return [*parts, Text("")]


def _agreement(first: str, rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    ranks = ("rank corr.\nall waits", "over\na minute")
    made = table(first, "jobs", "recorded\nmean", "simulated\nmean", *ranks, "mean\nerror", "within\nfactor 2")
    for row in rows:
        both = [rank(row[key]) for key in ("rank_correlation", "rank_of_waits")]
        means = (duration(row[key]["mean"]) for key in ("recorded_wait_s", "simulated_wait_s"))
        error = duration(row["mean_abs_error_s"])
        made.add_row(row["name"], f"{row['jobs']:,}", *means, *both, error, share(row["within_factor_2"]))
    return made


def _comparison(record: Mapping[str, Any]) -> list[RenderableType]:
    window, rows = record["window"], record["compared"]
    heads = ("mean\nwait", "vs now", "P95\nwait", "P99\nwait", "wait\nby user", "slow-\ndown", "users\nlose")
    made = table("what is done", "by", *heads)
    chosen = {row["policy"] for row in record["best"]}
    for row in rows:
        change = "" if row is rows[0] else percent(row["mean_change"])
        waits = [duration(row["wait_s"][key]) for key in ("mean", "p95", "p99")]
        by = "" if row is rows[0] else "Slurm" if row["by_slurm"] else "shunter"
        style = "bold green" if row["policy"] in chosen else ""
        rest = [duration(row["user_wait_s"]), f"{row['slowdown']:.2f}", f"{100 * row['losers']['users']:.0f} %"]
        cells = [by, waits[0], change, *waits[1:], *rest]
        made.add_row(Text(row["title"][:NAME], style=style), *cells)
    head = f"2. {window['jobs']:,} jobs from {window['from']} to {window['until']}, by {record['goal']}"
    warning = [Text(window["dominated"], style="yellow")] if window["dominated"] else []
    costs = [Below(window["stops"], style="dim")] if window["stops"] else []
    return [_heading(head), made, Below(LEGEND, style="dim"), *costs, *warning, Text("")]


def _best(record: Mapping[str, Any]) -> list[RenderableType]:
    parts: list[RenderableType] = [_heading("3. What is best")]
    parts.append(Text(CHOSEN if record["best"] else NOTHING))
    for number, row in enumerate(record["best"], 1):
        parts += ["", _heading(f"{number}) {row['title']}"), Text(broken(row["policy"], WIDTH))]
        parts += [Text(row["gain"]), Text(row["checked"])]
        parts += [_groups(row)]
        if "diff" in row["action"]:
            parts += [Text("slurm.conf:"), Syntax(row["action"]["diff"], "diff", background_color="default")]
        elif "compare" in row["action"]:
            parts += [Text(NO_SETTINGS), _command(row["action"]["compare"])]
            parts += [Text(row["action"]["differs"], style="yellow")]
        else:
            parts += [Text("To watch what it would do:"), _command(row["action"]["command"])]
    return [*parts, *(Text(f"\n{row['checked']}", style="yellow") for row in record["dropped"])]


def _checkpoints(worth: Mapping[str, Any] | None) -> list[RenderableType]:
    """What it is worth if more jobs can be stopped; nothing if that was not asked for."""
    if worth is None:
        return []
    shares = table(
        "jobs that\nmay be stopped", "seconds to stop\nand to start", "mean\nwait", "P99\nwait", "goal, 95 %"
    )
    for row in worth["shares"]:
        waits = [duration(row["wait_s"][key]) for key in ("mean", "p99")]
        shares.add_row(row["share"], row["costs"].replace(",", " + "), *waits, interval(row["goal"]))
    groups = table("with 25 % of the jobs, 30 + 30 s", "jobs", "mean wait\nwithout", "mean wait\nwith", "change")
    for row in worth["groups"]:
        times = [duration(row[key]) for key in ("before_s", "after_s")]
        groups.add_row(row["name"], f"{row['jobs']:,}", *times, percent(row["change"]))
    users = table("only this user's jobs", "jobs", "mean wait\nof all", "change", "own wait\nwithout", "own wait\nwith")
    for row in worth["users"]:
        own = [duration(row[key]) for key in ("before_s", "after_s")]
        users.add_row(row["name"][:NAME], f"{row['jobs']:,}", duration(row["mean_s"]), percent(row["change"]), *own)
    head = "\n4. The value of checkpoints"
    about = f"{worth['policy']} against {worth['before']['policy']}, which stops no job."
    said = [Text(sentence) for sentence in worth["sentences"]]
    return [_heading(head), Text(about), shares, groups, *([users] if worth["users"] else []), *said]


def _command(text: str) -> Text:
    """A command on one line, however long: a line end within a word could not be pasted."""
    return Text(text, style="bold", no_wrap=True, overflow="ignore")


def _groups(row: Mapping[str, Any]) -> RenderableType:
    made = table("group", "jobs", "mean wait\nnow", "mean wait\nthen", "change", "P95 wait\nnow", "P95 wait\nthen")
    sizes = ({**group, "name": f"{group['name']} GPU{'' if group['name'] == '1' else 's'}"} for group in row["by_size"])
    for group in (*sizes, *row["by_group"]):
        worse = group["change"] is not None and group["change"] > 0.05
        times = [duration(group[when][key]) for key in ("mean", "p95") for when in ("before", "after")]
        marked = Text(percent(group["change"]), style="red" if worse else "")
        made.add_row(group["name"][:NAME], f"{group['jobs']:,}", *times[:2], marked, *times[2:])
    return made
