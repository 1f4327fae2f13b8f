"""Templates of the page: every text from elsewhere is escaped and made printable."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from shunter import __version__
from shunter.live.answers import chance_words
from shunter.report.html.page import breakable, explained, text_of
from shunter.report.terminal.tables import duration, number, share
from shunter.texts import printable

PARTS = {"runs": "Runs", "what-if": "What if", "learn": "Learn", "cluster": "Cluster"}  # of the page, by address


def _harmless(value: Any) -> Any:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _prose(text: str) -> Markup:
    """A docstring: names in backquotes, two or one, are code."""
    return Markup(re.sub(r"(``?)([^`]+)\1", r"<code>\2</code>", text_of(text)))


@cache
def _environment() -> Environment:
    folder = str(files("shunter").joinpath("web", "templates"))
    made = Environment(
        loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined, finalize=_harmless,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {"duration": duration, "number": number, "share": share, "address": lambda text: quote(text, "")}
    made.filters |= {"breakable": lambda text: Markup(breakable(text_of(text)))}
    made.filters |= {"chance": chance_words}
    made.filters |= {"prose": _prose, "explained": lambda text: Markup(explained(text))}
    made.globals |= {"version": __version__, "parts": PARTS}
    return made


def written(template: str, **values: Any) -> str:
    """A template filled in."""
    return _environment().get_template(template).render(**values)


def answer(
    template: str, values: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> HTMLResponse:
    """A template filled in, as an answer."""
    return HTMLResponse(written(template, **values), status, headers)


def html(parts: list[str]) -> Markup:
    """HTML that our own functions made."""
    return Markup("\n".join(parts))
