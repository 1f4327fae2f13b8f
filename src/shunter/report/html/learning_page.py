"""A training as a page: what was learned from what, and its learning curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from shunter.report.html import charts, page
from shunter.report.html.charts import Axis
from shunter.report.html.page import Section
from shunter.texts import percent

ROUND = Axis("round", "count")
JUDGE = "The best round was chosen on these windows, so judge the model on others: shunter learn eval."


def learning_page(found: Mapping[str, Any]) -> str:
    """The whole page, from what ``shunter learn`` found (see ``cli/learn.py``)."""
    curve = found["curve"]
    at = [row["round"] for row in curve]
    ended = "stopped early" if found["stopped_early"] else "done"
    lead = f"{found['agent']} for the {found['objective']}: {len(curve)} rounds, {ended}."
    training = found["model"]["training"]
    facts = [(name, str(value)) for name, value in training.items() if value not in ("", 0, None)]
    curves = [_change(at, curve, found["reference"]), _rewards(at, curve)]
    if any("divergence" in row for row in curve):
        curves.append(_steps(at, curve))
    sections = [
        Section("Learning curves", [page.grid(curves), page.note(JUDGE)]),
        Section("Training", [page.facts(facts)]),
    ]
    return page.render(f"Learning {found['agent']}", lead, sections)


def _change(at: list[float], curve: list[dict[str, float]], reference: str) -> str:
    """How the model of each round did on the windows that are checked."""
    changes = [row["change"] for row in curve]
    best: Any = np.minimum.accumulate(changes) if changes else []
    chart = charts.lines(at, {"this round": changes, "best so far": best}, ROUND, Axis("change", "share"))
    least = f"{percent(min(changes))} at best" if changes else "no round yet"
    return page.figure(f"Change against {reference} on the windows that are checked", f"{least}.", chart)


def _rewards(at: list[float], curve: list[dict[str, float]]) -> str:
    """The reward of each round, with the choices drawn at random as in training."""
    rewards = [row["reward"] for row in curve]
    chart = charts.lines(at, {"mean reward": rewards}, ROUND, Axis("reward"))
    course = f"From {rewards[0]:+.3f} to {rewards[-1]:+.3f}" if rewards else "No round yet"
    return page.figure("Mean reward of the windows that are learned from", f"{course}.", chart)


def _steps(at: list[float], curve: list[dict[str, float]]) -> str:
    """How far PPO moved the policy in each round."""
    chart = charts.lines(
        at, {"divergence": [row.get("divergence", np.nan) for row in curve]}, ROUND, Axis("divergence")
    )
    return page.figure("How far the policy moved", "Steps of a round stop at 0.015.", chart)
