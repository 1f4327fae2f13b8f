"""A causal graph as a picture: settings on the left, what happens in between, the objective on the right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

import numpy as np

from shunter.adapting.causal import OBJECTIVE, CausalGraph, CausalModel, correlations
from shunter.report.html.page import Section, note, paragraph, points, render

ROW, BOX, WIDTH = 34, 24, 190  # px: from one node to the next, a node's height and width
COLUMNS = (10, 320, 630)  # where each layer begins
BULGE = 60  # px: how far links within a layer swing out
LEAST, MOST = 1.0, 5.0  # px: lines of no and of full correlation
STYLE = (
    ".causal{font:13px sans-serif}.causal rect{fill:none;stroke:currentColor}"
    ".causal text{fill:currentColor}.causal path{fill:none;stroke:currentColor;opacity:.65}"
    ".causal .idle{opacity:.45}"
)
ALONE = ".causal{color:#1b1f24}@media(prefers-color-scheme:dark){.causal{color:#e6e6e6}}"  # a page has its own colours
LEGEND = (
    "Solid lines: more of one is more of the other. Dashed lines: more of one is less of the other. Wide lines: a large"
    " rank correlation. Grey settings act on nothing that was measured. Lines without an arrow: the direction is not"
    " known. The objective is a reward: larger is better."
)

WHILE = "By the models of the whole run; the graph above is the last of them."


def svg(model: CausalModel, alone: bool = True) -> str:
    """The picture, to stand alone or in a page."""
    samples, graph = model.samples, model.graph
    layers = (samples.settings, samples.between, (OBJECTIVE,))
    rows = max(map(len, layers))
    at = {
        name: (COLUMNS[layer], 10 + (rows - len(names)) * ROW // 2 + ROW * row)
        for layer, names in enumerate(layers)
        for row, name in enumerate(names)
    }
    order = {name: column for column, name in enumerate((*samples.settings, *samples.between, OBJECTIVE))}
    table = correlations(np.column_stack([samples.inputs, samples.middle, samples.objective]))
    edges = _edges(graph)
    lines = [_line(at[a], at[b], float(table[order[a], order[b]]), arrow, f"{a} and {b}") for a, b, arrow in edges]
    nodes = [_node(name, at[name], name in graph.settings and not graph.acts(name)) for name in at]
    box = f"0 0 {COLUMNS[2] + WIDTH + 10} {rows * ROW + 20}"
    head = (
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9"'
        ' markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 8 4 0 8z" style="fill:currentColor;stroke:none"/>'
        "</marker></defs>"
    )
    drawn = f"<style>{STYLE}{ALONE * alone}</style>{head}{''.join(lines)}{''.join(nodes)}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="causal" role="img" viewBox="{box}"'
        f' aria-label="causal graph of {len(edges)} edges">{drawn}</svg>'
    )


def _edges(graph: CausalGraph) -> list[tuple[str, str, bool]]:
    """All of them, and whether each has a direction."""
    known = {frozenset(arrow): arrow for arrow in graph.arrows}
    links = [(link, sorted(link)) for link in sorted(graph.links, key=sorted)]
    return [
        *((a, b, True) for a, b in sorted(graph.effects)),
        *((*known[link], True) if link in known else (ends[0], ends[1], False) for link, ends in links),
        *((name, OBJECTIVE, True) for name in sorted(graph.causes)),
    ]


def _node(name: str, at: tuple[int, int], idle: bool) -> str:
    x, y = at
    faint = ' class="idle"' if idle else ""
    return (
        f'<g{faint}><rect x="{x}" y="{y}" width="{WIDTH}" height="{BOX}" rx="4"/>'
        f'<text x="{x + 8}" y="{y + BOX - 7}">{escape(name)}</text></g>'
    )


def _line(begin: tuple[int, int], end: tuple[int, int], strength: float, arrow: bool, title: str) -> str:
    (x0, y0), (x1, y1) = begin, end
    y0, y1, half = y0 + BOX // 2, y1 + BOX // 2, (COLUMNS[1] - COLUMNS[0] - WIDTH) // 2
    if x0 == x1:  # in the middle layer
        path = f"M{x0 + WIDTH} {y0}C{x0 + WIDTH + BULGE} {y0} {x1 + WIDTH + BULGE} {y1} {x1 + WIDTH} {y1}"
    else:
        path = f"M{x0 + WIDTH} {y0}C{x0 + WIDTH + half} {y0} {x1 - half} {y1} {x1} {y1}"
    width = LEAST + (MOST - LEAST) * abs(strength)
    dashes = ' stroke-dasharray="7 4"' if strength < 0 else ""
    marker = ' marker-end="url(#arrow)"' if arrow else ""
    text = escape(f"{title}: rank correlation {strength:+.2f}")
    return f'<path d="{path}" stroke-width="{width:.1f}"{dashes}{marker}><title>{text}</title></path>'


def _counted(reasons: Sequence[str]) -> list[str]:
    """Each reason once, with how often it was given."""
    return [f"{reason} ({times:,} times)" if times > 1 else reason for reason, times in Counter(reasons).items()]


def page(model: CausalModel, policy: str, reasons: Sequence[str]) -> str:
    """The picture with its edges in words, and why settings were rejected or frozen."""
    samples = model.samples
    runs = f"Learned from {len(samples.objective):,} evaluations; mean relative error {100 * model.error:.1f} %."
    sections = [
        Section("Graph", [svg(model, alone=False), note(LEGEND), paragraph(runs)]),
        Section("Edges", [points(model.graph.lines() or ["There are none."])]),
        Section("Rejected and frozen", [points(_counted(reasons) or ["Nothing was."]), note(WHILE)]),
    ]
    return render("Causal model", f"What the settings of {policy} act on.", sections)
