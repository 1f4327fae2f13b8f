"""Colours of the page and of reports can be told apart: WCAG 2.2, level AA, in light and in dark."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

PACKAGE = files("shunter")
STYLE = PACKAGE.joinpath("report", "html", "report.css").read_text()
PAGE = PACKAGE.joinpath("web", "static", "site.css").read_text()
COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--(\w+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", STYLE)
}
GROUNDS = ("page", "card", "soft", "best", "empty")  # what texts stand on
TEXTS = [(text, ground) for text in ("ink", "muted", "link") for ground in GROUNDS]
TEXTS += [("down", "page"), ("down", "card"), ("down", "empty"), ("page", "link")]  # the last: main buttons
SHAPES = [(shape, ground) for shape in ("focus", "edge", *(f"s{n}" for n in range(10))) for ground in ("page", "card")]


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_measure_is_that_of_wcag():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("pairs", "least"), [(TEXTS, 4.5), (SHAPES, 3.0)], ids=["texts", "shapes"])
def test_colours_differ_enough(theme, pairs, least):
    found = {pair: contrast(*(COLOURS[name][theme] for name in pair)) for pair in pairs}
    assert {pair: round(value, 2) for pair, value in found.items() if value < least} == {}


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_numbers_on_the_strongest_colour_of_a_table_can_be_read(theme):
    assert re.search(r"color-mix\(in srgb, var\(--heat\) var\(--t\), var\(--card\)\)", STYLE) is not None
    strongest = int(re.search(r"--t:\{(\d+) \* cell.share", _page_module())[1]) / 100
    mixed = "#" + "".join(
        f"{round(strongest * int(heat, 16) + (1 - strongest) * int(card, 16)):02x}"
        for heat, card in zip(*(re.findall("..", COLOURS[name][theme][1:]) for name in ("heat", "card")), strict=True)
    )
    assert contrast(COLOURS["ink"][theme], mixed) >= 4.5


def _page_module() -> str:
    return PACKAGE.joinpath("report", "html", "page.py").read_text()


def test_colours_of_texts_are_named_ones():
    """Others would not be checked above."""
    used = {name for style in (STYLE, PAGE) for name in re.findall(r"[^-]color: *var\(--(\w+)\)", style)}
    assert used <= {text for text, _ in TEXTS}
    assert not re.findall(r"[^-]color: *#", STYLE.partition("}")[2] + PAGE)
