"""A page: its title, its sections and their contents, as one HTML file that loads nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any, ParamSpec

from shunter.report.html.charts import Chart
from shunter.texts import printable

GENERATOR = '<meta name="generator" content="shunter">'  # by this we know our pages
SCRIPTS = (
    "vendor/echarts.min.js",
    *(f"js/{name}.js" for name in ("numbers", "controls", "figures", "inflate", "stays", "timeline")),
)


@dataclass(frozen=True)
class Section:
    """A part of a page under its own heading; ``body`` is HTML, made by the functions below."""

    title: str
    body: Sequence[str]


@dataclass(frozen=True)
class Cell:
    """A cell of a table that is more than its text."""

    text: str
    best: bool = False  # the best of its column
    hint: str = ""  # a second, smaller line


@dataclass(frozen=True)
class Heat:
    """A cell of a heat map: its text, and how far its value is from the least to the most, 0 to 1."""

    text: str
    share: float
    best: bool = False


@dataclass(frozen=True)
class Contents:
    """What a page shows, wherever it is shown; ``lead`` is the sentence under the title, as plain text."""

    title: str
    lead: str
    sections: Sequence[Section]

    def links(self) -> str:
        """A list item for each section, which leads to it."""
        return "".join(f'<li><a href="#{_slug(s.title)}">{text_of(s.title)}</a></li>' for s in self.sections)

    def body(self) -> str:
        """All sections."""
        return "\n".join(_section(section) for section in self.sections)


def render(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The whole page; ``lead`` is the sentence under the title, as plain text."""
    contents = Contents(title, lead, sections)
    scripts = [_static(name) for name in SCRIPTS]
    hashes = " ".join(f"'sha256-{_sha256(text)}'" for text in scripts)
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src {hashes}"
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"{GENERATOR}\n"
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text_of(title)}</title>\n<style>\n{_static('report.css')}</style>\n</head>\n<body>\n"
    )
    top = (
        '<a class="skip" href="#content">Skip to the content</a>\n'
        f'<header class="top"><h1>{text_of(title)}</h1><p class="lead">{text_of(lead)}</p></header>\n'
        f'<nav class="bar" aria-label="Sections"><ul>{contents.links()}</ul>'
        '<button type="button" id="theme" hidden>Dark colours</button></nav>\n'
        "<noscript><p>Scripts draw the charts of this page, and scripts are switched off here.</p></noscript>\n"
    )
    foot = '\n<p class="sr" id="announce" role="status" aria-live="polite"></p>\n'
    tail = "\n".join(f"<script>{text}</script>" for text in scripts)
    return f'{head}{top}<main id="content" tabindex="-1">\n{contents.body()}\n</main>{foot}{tail}\n</body>\n</html>\n'


P = ParamSpec("P")


def page_of(contents: Callable[P, Contents]) -> Callable[P, str]:
    """The function that returns the page, as one file, of what ``contents`` returns for the same arguments."""

    def page(*args: P.args, **more: P.kwargs) -> str:
        found = contents(*args, **more)
        return render(found.title, found.lead, found.sections)

    return page


def text_of(plain: str) -> str:
    """Plain text as HTML; a number stays on one line with its unit."""
    return re.sub(r"(?<=\d) (?=(?:%|[smhd]\b))", "\u00a0", escape(printable(plain)))


TERMS = {  # what a reader may not know, shown when the pointer rests on it
    "JCT": "job completion time: from submission to end",
    "bounded slowdown": "bsld: (wait + run) / run, with runs under 10 s counted as 10 s; 1 means no wait",
    "bsld": "bounded slowdown: (wait + run) / run, with runs under 10 s counted as 10 s; 1 means no wait",
    "Jain": "Jain's index over the users' mean slowdowns: 1 if all are equal, 1/n if one of n users has it all",
    "p99": "99 % of the jobs are at or below this",
    "fragmentation": "share of the free GPUs that are on partly used nodes while jobs wait",
    "preemptions": "number of times that running jobs were stopped",
}


def explained(plain: str) -> str:
    """Plain text as HTML, with terms that explain themselves."""
    pattern = r"\b(" + "|".join(map(re.escape, TERMS)) + r")\b"
    return re.sub(pattern, lambda term: f'<abbr title="{text_of(TERMS[term[1]])}">{term[1]}</abbr>', text_of(plain))


def verdict_text(text: str) -> str:
    """The sentence that a page begins with."""
    return f'<p class="verdict">{explained(text)}</p>'


def tiles(found: Iterable[tuple[str, str, str, str]]) -> str:
    """Numbers side by side: what each is, its value, whose it is, and a remark."""
    cards = "".join(
        f'<div class="tile"><dt>{explained(name)}</dt><dd><b>{text_of(value)}</b> <span>{breakable(text_of(whose))}'
        f"</span>{f' <small>{text_of(remark)}</small>' if remark else ''}</dd></div>"
        for name, value, whose, remark in found
    )
    return f'<dl class="tiles">{cards}</dl>'


def paragraph(text: str) -> str:
    """A paragraph of plain text."""
    return f"<p>{text_of(text)}</p>"


def points(texts: Iterable[str]) -> str:
    """A list of sentences."""
    return f'<ul class="points">{"".join(f"<li>{text_of(text)}</li>" for text in texts)}</ul>'


def note(text: str) -> str:
    """A remark that is read after the rest."""
    return f'<p class="note">{text_of(text)}</p>'


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and what they are."""
    rows = "".join(f"<div><dt>{text_of(name)}</dt><dd>{text_of(text)}</dd></div>" for name, text in pairs)
    return f'<dl class="facts">{rows}</dl>'


def code(text: str) -> str:
    """Text to be copied as it is."""
    return f'<pre tabindex="0"><code>{escape(printable(text))}</code></pre>'


def table(
    caption: str, headings: Sequence[str], rows: Sequence[Sequence[str | Cell]], words: Collection[int] = ()
) -> str:
    """A table; the first column names the rows, the others are numbers, or ``words`` where it says so."""
    head = "".join(
        f'<th scope="col"{_kind("word" * (at in words))}>{explained(heading)}</th>'
        for at, heading in enumerate(headings)
    )
    body = "".join(
        f'<tr><th scope="row">{breakable(_cell(row[0]))}</th>'
        f"{''.join(_td(cell, at in words) for at, cell in enumerate(row[1:], 1))}</tr>"
        for row in rows
    )
    return (
        f'<div{_kind("table words" if words else "table")} role="region" tabindex="0" aria-label="{text_of(caption)}">'
        f"<table><caption>{text_of(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def figure(title: str, finding: str, chart: Chart, note: str = "") -> str:
    """A chart with its title, and the sentence that says what is to be seen in it."""
    remark = f'<p class="note">{text_of(note)}</p>' if note else ""
    return (
        f'<figure class="chart" data-title="{text_of(title)}"><figcaption><h3>{text_of(title)}</h3>'
        f"<p>{text_of(finding)}</p></figcaption>"
        f'<div class="plot" role="img" aria-label="{text_of(f"Chart: {title}. {finding}")}"></div>'
        f"{embed(chart)}<details><summary>Data of this chart</summary></details>"
        f"{remark}</figure>"
    )


def heat_map(
    title: str, finding: str, axes: tuple[str, str], columns: Sequence[str], rows: Sequence[tuple[str, Sequence[Heat]]]
) -> str:
    """A table whose cells are the darker, the larger their values are; ``axes`` are what columns and rows are."""
    across, down = axes
    head = "".join(f'<th scope="col">{text_of(column)}</th>' for column in columns)
    body = "".join(
        f'<tr><th scope="row">{text_of(name)}</th>{"".join(_heat(cell) for cell in cells)}</tr>' for name, cells in rows
    )
    corner = f'<th scope="col">{text_of(down)} ↓ &nbsp; {text_of(across)} →</th>'
    return (
        f'<figure class="heat"><figcaption><h3>{text_of(title)}</h3><p>{text_of(finding)}</p></figcaption>'
        f'<div class="table" role="region" tabindex="0" aria-label="{text_of(title)}"><table>'
        f"<thead><tr>{corner}{head}</tr></thead><tbody>{body}</tbody></table></div></figure>"
    )


def _heat(cell: Heat) -> str:
    mark = '<span class="sr">, best</span>' if cell.best else ""
    return f'<td{_kind("star" * cell.best)} style="--t:{60 * cell.share:.0f}%">{text_of(cell.text)}{mark}</td>'


def grid(figures: Iterable[str]) -> str:
    """Figures side by side where there is room."""
    return f'<div class="grid">{"".join(figures)}</div>'


def choice(label: str, options: Mapping[str, Sequence[str]]) -> str:
    """One of several parts, chosen from a list; all of them where scripts are switched off."""
    parts = "".join(f'<div data-choice="{text_of(name)}">{"".join(body)}</div>' for name, body in options.items())
    return f'<div class="choice" data-label="{text_of(label)}">{parts}</div>'


def embed(data: Any) -> str:
    """Data for the scripts of the page."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json">{text}</script>'


def _section(section: Section) -> str:
    name = _slug(section.title)
    body = "\n".join(section.body)
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{text_of(section.title)}</h2>\n{body}\n</section>'


def _td(cell: str | Cell, word: bool) -> str:
    best = isinstance(cell, Cell) and cell.best
    return f"<td{_kind('best' if best else 'word' if word else '')}>{_cell(cell)}</td>"


def _kind(name: str) -> str:
    return f' class="{name}"' if name else ""


def _cell(cell: str | Cell) -> str:
    if isinstance(cell, str):
        return text_of(cell)
    mark = '<span class="sr">, best</span>' if cell.best else ""
    hint = f"<small>{text_of(cell.hint)}</small>" if cell.hint else ""
    return f"{text_of(cell.text)}{mark}{hint}"


def breakable(name: str) -> str:
    """A policy's name may go on in the next line after a colon or comma."""
    return re.sub(r"([:,])(?=\w)", r"\1<wbr>", name)


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


@cache
def _static(name: str) -> str:
    return files("shunter").joinpath("report", "html", name).read_text(encoding="utf-8")


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
