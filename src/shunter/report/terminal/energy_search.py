"""Ways to control sleep with the settings that are best before, on what came later."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from shunter.energy.forecast import PEAK
from shunter.energy.searching import PARTS, Judged
from shunter.report.bootstrap import estimate, means_of_repeats
from shunter.report.energy import of_course
from shunter.report.terminal.tables import Below, number, share, table

_OWN = {PEAK: ("window", "buffer")}  # settings that matter; of others all but the window
_LEGEND = (
    f"net: asleep less price x shortage, in points of node time; against {PEAK}: the difference with its\n"
    f" 95 % interval over {PARTS} parts of the time; settings were searched before, as many of each"
)


def search_record(found: Mapping[float, Sequence[Judged]]) -> list[dict[str, Any]]:
    """For each price what each way did later, and how that differs from the rule without a forecast."""
    return [
        {
            "price": price,
            "ways": [_way(judged, price, next(each for each in ways if each.kind == PEAK)) for judged in ways],
        }
        for price, ways in found.items()
    ]


def _way(judged: Judged, price: float, rule: Judged) -> dict[str, Any]:
    numbers, settings = of_course(judged.course), dataclasses.asdict(judged.settings)
    own = _OWN.get(judged.kind, [key for key in settings if key != "window"])
    row: dict[str, Any] = {
        "kind": judged.kind,
        "settings": {key: settings[key] for key in own},
        "tried": judged.tried,
        **{key: numbers[key] for key in ("asleep_share", "wake_ups_per_day", "shortage_node_steps", "days")},
        "net_share": float(np.mean(judged.net(price))),
    }
    if judged is not rule:
        row["against_peak"] = list(estimate(means_of_repeats(judged.net(price) - rule.net(price)), PARTS))
    return row


def search_view(record: dict[str, Any]) -> RenderableType:
    """A row for each price and way."""
    made = table("price", "way", "asleep", "wake-ups\na day", "shortage\na day", "net", f"against {PEAK}", "settings")
    made.columns[-1].justify = "left"
    for each in record["prices"]:
        for at, way in enumerate(each["ways"]):
            made.add_row(
                f"{each['price']:g}" if at == 0 else "",
                way["kind"],
                share(way["asleep_share"]),
                number(way["wake_ups_per_day"]),
                number(way["shortage_node_steps"] / way["days"]),
                f"{100 * way['net_share']:.1f}",
                _difference(way),
                Text(" ".join(f"{value:g}" for value in way["settings"].values()), style="dim"),
            )
    names = [
        f"{way['kind']}: {' '.join(way['settings'])}" for way in record["prices"][0]["ways"] if way["kind"] != "last"
    ]
    head = Below(f"{record['series']}, {record['from']} to {record['until']}")
    return Group(head, made, Below(f"{_LEGEND}\n settings of " + "; of ".join(names), style="dim"))


def _difference(way: dict[str, Any]) -> str:
    if "against_peak" not in way:
        return ""
    value, low, high = (100 * each for each in way["against_peak"])
    return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"
