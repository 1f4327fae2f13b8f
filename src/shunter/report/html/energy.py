"""Nodes that sleep: how many over time, what that saves, and what it costs; of runs, and of a node series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from shunter.energy.power import PowerModel
from shunter.report.energy import POWER, over_time
from shunter.report.html.charts import Axis, lines
from shunter.report.html.course import BINS, ZOOM, binned, span, time_axis
from shunter.report.html.findings import Row
from shunter.report.html.page import Section, facts, figure, note, render, table
from shunter.report.terminal.energy import SERIES, rows
from shunter.report.terminal.tables import duration, number, share
from shunter.world import F64

if TYPE_CHECKING:
    from shunter.energy.saving import Saving
    from shunter.run_folder import Run

COLUMNS = (
    "nodes asleep",
    "wake-ups a day",
    "nodes per wake-up",
    "jobs delayed",
    "mean delay",
    "nodes in use, of all",
    "of awake ones",
    "kWh",
    "kWh saved",
)


def asleep(names: Sequence[str], runs: Sequence[Run], summaries: Sequence[Row]) -> list[str]:
    """The section of a report; nothing where no node slept."""
    slept = [
        (name, run, row["energy"]) for name, run, row in zip(names, runs, summaries, strict=True) if "energy" in row
    ]
    if not slept:
        return []
    edges = np.linspace(*span(runs), BINS + 1)
    charts = [_nodes(name, run, edges, found) for name, run, found in slept]
    return [
        table(
            "What sleep saves, and what it costs", ["policy", *COLUMNS], [[name, *_cells(e)] for name, _, e in slept]
        ),
        *charts,
        note(f"A job counts as delayed if it started when one of its nodes was awake again. {_assumed(POWER)}"),
    ]


def _assumed(power: PowerModel) -> str:
    return (
        f"Assumptions: awake nodes draw {power.idle_w:g} W, sleeping nodes {power.sleep_w:g} W, every GPU in use"
        f" {power.gpu_w:g} W more; a factor of {power.cooling:g} is for cooling."
    )


def _cells(found: dict[str, Any]) -> list[str]:
    saved = found["kwh_without_sleep"] - found["kwh"]
    return [
        f"{number(found['asleep_nodes'])} ({share(found['asleep_share'])})",
        number(found["wake_ups_per_day"]),
        number(found["nodes_per_wake_up"]),
        f"{found['delayed_jobs']:,.0f}",
        duration(found["delay_s"]["mean"]),
        share(found["node_utilization"]),
        share(found["node_utilization_awake"]),
        number(found["kwh"]),
        f"{number(saved)} ({share(saved / found['kwh_without_sleep'])})",
    ]


def _nodes(name: str, run: Run, edges: F64, found: dict[str, Any]) -> str:
    nodes = over_time(run.events, run.cluster.nodes, int(run.events[0, 0]), int(run.events[-1, 0]) + 1)
    time = nodes.time / 1000
    counts = {"in use": nodes.used, "awake": nodes.awake, "all": np.full(len(time), nodes.total)}
    caption = (
        f"Under {name}, {number(found['asleep_nodes'])} of {nodes.total:,} nodes sleep on average; of those awake,"
        f" {share(found['node_utilization_awake'])} are in use instead of {share(found['node_utilization'])}."
    )
    return _chart(
        f"Nodes under {name}", caption, {key: binned(time, value, edges) for key, value in counts.items()}, edges
    )


def _chart(title: str, caption: str, series: dict[str, F64], edges: F64) -> str:
    middle = (edges[:-1] + edges[1:]) / 2 - edges[0]
    axis = Axis("nodes", "count", mean=True)
    return figure(title, caption, lines(middle, series, time_axis(float(edges[0])), axis, zoom=ZOOM))


# ------------------------------------------------------------------------------------------- a node series


def series_page(savings: Mapping[str, Saving], record: dict[str, Any]) -> str:
    """The page of a controlled node series, by forecast; ``record`` is what ``shunter energy --json`` prints."""
    name = record["series"]
    body = [
        *(_controlled(kind, saving, record["after"][kind]) for kind, saving in savings.items()),
        note(_assumed(PowerModel(**record["power"]))),
    ]
    columns = {"all awake": record["before"], **record["after"]}
    body.insert(0, table("Before and after, by forecast", ["", *columns], rows(columns, SERIES)))
    about = [(key, f"{value:g}") for key, value in {**record["settings"], **record["power"]}.items()]
    lead = f"{name} from {record['from']} to {record['until']}: idle nodes sleep while demand falls."
    return render(f"Energy of {name}", lead, [Section("Energy", body), Section("Settings", [facts(about)])])


def _controlled(kind: str, saving: Saving, found: dict[str, Any]) -> str:
    course, time = saving.course, saving.time
    caption = (
        f"{number(found['asleep_nodes'])} nodes sleep on average; of those awake,"
        f" {share(found['node_utilization_awake'])} are in use instead of {share(found['node_utilization'])}."
    )
    edges = np.append(time, 2 * time[-1] - time[-2]) / 1000
    bins = np.linspace(edges[0], edges[-1], min(BINS, len(time)) + 1)
    counts = {"in use": course.used, "awake": course.awake, "all": course.total}
    drawn = {key: binned(edges, np.append(value, value[-1]).astype(np.float64), bins) for key, value in counts.items()}
    return _chart(f"Nodes, forecast {kind}", caption, drawn, bins)
