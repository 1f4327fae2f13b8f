"""Advice as one page for a browser, which loads nothing from the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shunter.advice.verdict import NO
from shunter.advice.words import CHOSEN, NO_ADVICE, NO_SETTINGS, NOTHING, interval, percent, rank, verdict_text
from shunter.report.html.charts import Axis, bars
from shunter.report.html.density import density, frame_of
from shunter.report.html.page import (
    Cell,
    Section,
    code,
    facts,
    figure,
    note,
    paragraph,
    points,
    render,
    table,
    text_of,
)
from shunter.report.terminal.tables import duration, share
from shunter.world import F64

WAIT = Axis("mean wait", "duration")
FEW = 10  # jobs of a size that are too few for a bar


def advice_page(record: Mapping[str, Any], recorded: F64, simulated: F64) -> str:
    """The page; waits (s) of the whole history, as recorded and as simulated, are those of the first chart."""
    title = f"Advice for {record['cluster']['name']}"
    window = record["window"]
    lead = (
        f"{record['verdict'].capitalize()}. {record['jobs']:,} jobs on {record['cluster']['gpus']:,} GPUs; the days to"
        f" compare are from {window['from']} to {window['until']}, {window['jobs']:,} jobs."
    )
    believe, run = (
        Section("How far to believe it", _validity(record, recorded, simulated)),
        Section("What was run", _provenance(record)),
    )
    first = Section("Verdict", _verdict(record))
    if record["verdict"] == NO:
        return render(title, lead, [first, believe, run])
    advice = Section("What is best", _best(record))
    compared, worth = Section("What was compared", _compared(record)), record["checkpoints"]
    stops = [Section("The value of checkpoints", _checkpoints(worth))] if worth else []
    return render(title, lead, [first, advice, *stops, believe, compared, run])


def _verdict(record: Mapping[str, Any]) -> list[str]:
    parts = [f"<p><strong>{text_of(record['verdict'].capitalize())}:</strong> {text_of(verdict_text(record))}</p>"]
    if record["verdict"] == NO:
        parts.append(paragraph(NO_ADVICE))
    return [*parts, *([points(record["why"][2:])] if record["why"][2:] else [])]


def _best(record: Mapping[str, Any]) -> list[str]:
    parts = [paragraph(CHOSEN), _by_size_chart(record)] if record["best"] else [paragraph(NOTHING)]
    for row in record["best"]:
        parts += [
            f"<h3>{text_of(row['title'])}</h3>",
            code(row["policy"]),
            paragraph(row["gain"]),
            paragraph(row["checked"]),
            _groups(row),
            *_action(row["action"]),
        ]
    fell = ["<h3>Dropped</h3>", points(row["checked"] for row in record["dropped"])] if record["dropped"] else []
    return [*parts, *fell]


def _checkpoints(worth: Mapping[str, Any]) -> list[str]:
    """What it is worth if more jobs can be stopped: in all, for whom, and whose jobs first."""
    shares = [row["share"] for row in worth["shares"] if row["costs"] == worth["shares"][0]["costs"]]
    means = {"none may be stopped": [worth["before"]["wait_s"]["mean"]] * len(shares)}
    for costs in dict.fromkeys(row["costs"] for row in worth["shares"]):
        mine = [row["wait_s"]["mean"] for row in worth["shares"] if row["costs"] == costs]
        means[f"{costs.replace(',', ' + ')} s"] = mine
    drawn = bars(shares, means, "jobs that may be stopped", WAIT)
    groups = [
        [row["name"], f"{row['jobs']:,}", duration(row["before_s"]), duration(row["after_s"]), percent(row["change"])]
        for row in worth["groups"]
    ]
    users = [
        [
            *(row["name"], f"{row['jobs']:,}", duration(row["mean_s"]), percent(row["change"])),
            *(duration(row[key]) for key in ("before_s", "after_s")),
        ]
        for row in worth["users"]
    ]
    about = f"{worth['policy']} against {worth['before']['policy']}, which stops no job."
    parts = [figure("Mean wait by the share of jobs that may be stopped", about, drawn), points(worth["sentences"])]
    heads = ["", "jobs", "mean wait without", "mean wait with", "change"]
    parts.append(table("For whom, with 25 % of the jobs at 30 + 30 s", heads, groups))
    alone = ["user", "jobs", "mean wait of all", "change", "own wait without", "own wait with"]
    return [*parts, *([table("If only the jobs of one user may be stopped", alone, users)] if users else [])]


def _action(action: Mapping[str, str]) -> list[str]:
    if "diff" in action:
        return [paragraph("Slurm can do it by itself; the change of slurm.conf:"), code(action["diff"])]
    if "compare" in action:
        return [paragraph(NO_SETTINGS), code(action["compare"]), paragraph(action["differs"])]
    return [
        paragraph("Slurm can't do it by itself. What the controller would do, without doing it:"),
        code(action["command"]),
    ]


def _by_size_chart(record: Mapping[str, Any]) -> str:
    rows = [record["compared"][0], *record["best"]]
    shown = [at for at, group in enumerate(rows[0]["by_size"]) if group["jobs"] >= FEW] or [0]
    sizes = [rows[0]["by_size"][at]["name"] for at in shown]
    means = {row["title"]: [row["by_size"][at]["after"]["mean"] for at in shown] for row in rows}
    best = record["best"][0]
    finding = (
        f"'{best['title']}' changes the {record['goal']} by {interval(best['goal'])} on these days;"
        f" {share(best['losers']['users'])} of users wait longer."
    )
    return figure(
        "Mean wait by job size, today and with each change", finding, bars(sizes, means, "GPUs of the job", WAIT)
    )


def _groups(row: Mapping[str, Any]) -> str:
    lines = []
    sizes = ({**group, "name": f"{group['name']} GPU{'' if group['name'] == '1' else 's'}"} for group in row["by_size"])
    for group in (*sizes, *row["by_group"]):
        times = [duration(group[when][key]) for key in ("mean", "p95", "p99") for when in ("before", "after")]
        lines.append([group["name"], f"{group['jobs']:,}", *times[:2], percent(group["change"]), *times[2:]])
    headings = ["group", "jobs", "mean now", "mean then", "change", "P95 now", "P95 then", "P99 now", "P99 then"]
    return table("Waits by job size and by user or account", headings, lines)


def _validity(record: Mapping[str, Any], recorded: F64, simulated: F64) -> list[str]:
    found = record["validity"]
    parts = [paragraph(f"What is done now is modelled as {record['base']}. {record['trust']}")]
    if not found["jobs"]:
        return parts
    title = "Simulated and recorded waits"
    label = f"Chart: {title}. {record['trust']}"
    drawing = density(label, recorded, simulated, ("recorded wait", "simulated wait"), frame_of(recorded, simulated))
    legend = "The darker, the more jobs; on the line both are the same; under 1 s lies at the edge."
    caption = f"<figcaption><h3>{text_of(title)}</h3><p>{text_of(legend)}</p></figcaption>"
    parts.append(f'<figure class="density">{caption}{drawing}</figure>')
    parts += [
        points([*record["inferred"]["sentences"], *record["explained"]]),
        _agreement("by job size (GPUs)", found["by_size"]),
    ]
    return [*parts, _agreement("by month", found["by_month"])]


def _agreement(by: str, rows: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for row in rows:
        both = [rank(row[key]) for key in ("rank_correlation", "rank_of_waits")]
        times = [row["recorded_wait_s"]["mean"], row["simulated_wait_s"]["mean"]]
        errors = [row["mean_abs_error_s"], row["median_abs_error_s"]]
        cells = [*map(duration, times), *both, *map(duration, errors), share(row["within_factor_2"])]
        lines.append([row["name"], f"{row['jobs']:,}", *cells])
    ranks = ("rank correlation", "over a minute")
    headings = ["", "jobs", "recorded mean", "simulated mean", *ranks, "mean error", "median error", "near"]
    return table(f"Agreement {by}; near: within a factor of 2, or both under a minute", headings, lines)


def _compared(record: Mapping[str, Any]) -> list[str]:
    rows, lines = record["compared"], list[list[str | Cell]]()
    least = {key: min(row["wait_s"][key] for row in rows) for key in ("mean", "p95", "p99")}
    for row in rows:
        waits = [Cell(duration(row["wait_s"][key]), row["wait_s"][key] == least[key]) for key in least]
        change = "–" if row is rows[0] else interval(row["goal"])
        losers = [share(row["losers"][key]) for key in ("jobs", "users")]
        by = "–" if row is rows[0] else "Slurm" if row["by_slurm"] else "controller"
        name = Cell(row["title"], hint=row["policy"])
        lines.append([name, by, *waits, change, duration(row["user_wait_s"]), f"{row['slowdown']:.2f}", *losers])
    headings = [
        *("what is done", "by", "mean wait", "P95 wait", "P99 wait", "goal vs now, 95 %", "wait by user", "slowdown"),
        *("jobs 10 m longer", "users longer"),
    ]
    legend = (
        f"The first {record['window']['warmup_days']:g} days of the simulation don't count. Intervals: the same days"
        " are drawn again and again for both. Options that raise the P99 wait by more than 1.5 times come last."
    )
    dominated = [paragraph(record["window"]["dominated"])] if record["window"]["dominated"] else []
    legend = f"{legend} {record['window']['stops']}".strip()
    return [*dominated, table("Policies and settings, the best first", headings, lines, (1,)), note(legend)]


def _provenance(record: Mapping[str, Any]) -> list[str]:
    window = record["window"]
    about = [
        ("history", record["history"]),
        ("cluster", f"{record['cluster']['name']}, {record['cluster']['nodes']:,} nodes"),
        ("present policy", record["base"]),
        ("days", f"{window['days']:g}, after {window['warmup_days']:g} to warm up"),
        ("seed", str(record["seed"])),
        ("shunter", record["version"]),
    ]
    return [facts(about), *([points(record["remarks"])] if record["remarks"] else [])]
