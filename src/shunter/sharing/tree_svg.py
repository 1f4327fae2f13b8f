"""A decision tree as a drawing."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from shunter.sharing.score import Leaf, ScoreTree, Split, leaf_text, split_text
from shunter.texts import printable

STEP_X, STEP_Y, WIDE, HIGH = 190, 92, 174, 34
COLOURS = ("#2a9d8f", "#e9c46a", "#e76f51")  # tiny, medium, jumbo
STYLE = "font-family:system-ui,sans-serif;font-size:12px;text-anchor:middle"


def drawn(tree: ScoreTree) -> str:
    """The tree as an SVG file."""
    parts, _, leaves = _node(tree.root, 0, 0)
    width, height = leaves * STEP_X, (_depth(tree.root) + 1) * STEP_Y
    title = f'<text x="{width / 2}" y="{height - 8}" fill="#666">{escape(printable(tree.origin))}</text>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" style="{STYLE}">'
    back = f'<rect width="{width}" height="{height}" fill="#fff"/>'
    return "\n".join([head, back, *parts, title, "</svg>"]) + "\n"


def _depth(node: Split | Leaf) -> int:
    return 0 if isinstance(node, Leaf) else 1 + max(_depth(node.below), _depth(node.above))


def _node(node: Split | Leaf, left: int, level: int) -> tuple[list[str], float, int]:
    """What draws a node whose leaves begin at column ``left``; the middle of its box, the columns that it takes."""
    y = level * STEP_Y + 8
    if isinstance(node, Leaf):
        x = (left + 0.5) * STEP_X
        return list(_box(x, y, leaf_text(node), COLOURS[node.score])), x, 1
    below, x_below, columns = _node(node.below, left, level + 1)
    above, x_above, more = _node(node.above, left + columns, level + 1)
    x = (x_below + x_above) / 2
    lines = [*_line(x, x_below, y, "yes"), *_line(x, x_above, y, "no")]
    return [*lines, *_box(x, y, split_text(node), "#f1f1f1"), *below, *above], x, columns + more


def _box(x: float, y: float, text: str, colour: str) -> Iterator[str]:
    yield f'<rect x="{x - WIDE / 2}" y="{y}" width="{WIDE}" height="{HIGH}" rx="6" fill="{colour}" stroke="#444"/>'
    yield f'<text x="{x}" y="{y + HIGH / 2 + 4}">{escape(printable(text))}</text>'


def _line(x: float, to: float, y: float, word: str) -> Iterator[str]:
    yield f'<line x1="{x}" y1="{y + HIGH}" x2="{to}" y2="{y + STEP_Y}" stroke="#888"/>'
    side = -22 if to < x else 22
    yield f'<text x="{(x + to) / 2 + side}" y="{y + (HIGH + STEP_Y) / 2}" fill="#666">{word}</text>'
