"""The tables in words, for a terminal and for a page."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from shunter.report.bootstrap import Estimate
from shunter.report.terminal.tables import duration, number, share
from shunter.reproduce.claims import ClaimResult
from shunter.reproduce.rltune import paper
from shunter.reproduce.rltune.design import (
    BASES,
    CPU_TRACES,
    FIFO,
    FIGURE_12,
    PANELS,
    SAF,
    TRUTH,
    WORDS,
    Entrant,
    Panel,
)
from shunter.reproduce.rltune.grounds import SITES
from shunter.reproduce.rltune.outcome import PanelResult, shown
from shunter.reproduce.rltune.study import RLTuneStudy

LEGEND = (
    "Change: of the mean wait (Lublin and the ablation: of the bounded slowdown) against SAF with the same information,"
    " all with EASY unless they are called strict; in brackets its 95 % interval over windows and trainings drawn"
    " again. * the whole interval is on one side of zero. QSSF's estimates are its own."
)


@dataclass(frozen=True)
class WordTable:
    """A table of words."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def percent(part: float) -> str:
    """A change in percent, with its sign; from ten times on, how many times."""
    return f"{100 * part:+.0f} %".replace("-", "−") if part < 9 else f"×{1 + part:.0f}"


def changed(change: Estimate) -> str:
    """A change and its interval, with a star where the interval leaves zero out."""
    if not math.isfinite(change.value):  # both wait for nothing
        return "–"
    ends = f" ({percent(change.low)} to {percent(change.high)})" if math.isfinite(change.low) else ""
    return f"{percent(change.value)}{ends}{'*' * shown(change)}"


def listings(study: RLTuneStudy, wide: bool = False) -> Iterator[WordTable]:
    """All tables, in the order of the paper; ``wide``: with completion times and utilisation."""
    for panel in PANELS:
        for data in study.part.data:
            if any(result.panel is panel and result.data == data for result in study.results):
                yield _panel(study, panel, data, wide)
        if panel is FIGURE_12:
            yield from (table for table in (_table_6(study), _table_7(study)) if table.rows)
    yield _latency(study)
    found = study.claims()
    if found:
        yield WordTable(
            "Printed: how many times as much",
            ("claim", "from", "jobs", "with", "printed", "ours", "direction", "size"),
            tuple(_claim(known, one) for known, one in found),
        )


def objective_of(panel: Panel) -> str:
    """The measure by which its entrants are compared: what its agents were trained for."""
    return next((entrant.objective for entrant in panel.entrants if entrant.agent), "wait")


def _panel(study: RLTuneStudy, panel: Panel, data: str, wide: bool) -> WordTable:
    """Entrants on one data set, with each information side by side."""
    results = [study.result(panel, data, information) for information in panel.information]
    found = [result for result in results if result is not None]
    first, measure = found[0], objective_of(panel)
    figures = ("bsld",) if data in CPU_TRACES else ("wait", "bsld")
    heads = ["scheduler"]
    for result in found:
        words = WORDS[result.information]
        more = ["JCT", "in use"] if wide else []
        heads += [f"{words}: wait", "BSLD", *more, f"{'wait' if measure == 'wait' else 'BSLD'} against SAF"]
    printed = [name for name in figures if any(paper.printed(panel, data, one, name) for one in panel.entrants)]
    heads += [f"printed {name}" for name in printed]
    rows = []
    for entrant in (one for one in panel.entrants if any(one in result.values for result in found)):
        cells = [cell for result in found for cell in _cells(result, entrant, measure, wide)]
        rows.append((entrant.label, *cells, *(_printed(study, panel, data, entrant, name) for name in printed)))
    windows = "1 window" if first.windows == 1 else f"{first.windows} windows"
    title = f"{panel.title}, {SITES[data].title}: {windows} of {first.length:,} jobs"
    return WordTable(title, tuple(heads), tuple(rows))


def _cells(result: PanelResult, entrant: Entrant, measure: str, wide: bool) -> list[str]:
    if entrant not in result.values:
        return ["–"] * (5 if wide else 3)
    wait, bsld = duration(result.of(entrant, "wait")), number(result.of(entrant, "bsld"))
    more = [duration(result.of(entrant, "jct")), share(result.of(entrant, "utilization"))] if wide else []
    return [wait, bsld, *more, "" if entrant == SAF else changed(result.change(entrant, SAF, measure))]


def _printed(study: RLTuneStudy, panel: Panel, data: str, entrant: Entrant, measure: str) -> str:
    figure = None if study.stands_in else paper.printed(panel, data, entrant, measure)
    return "" if figure is None else duration(figure) if measure == "wait" else number(figure)


def _table_6(study: RLTuneStudy) -> WordTable:
    """The gain in utilisation over each base."""
    rows = []
    for data, gains in paper.TABLE_6.items():
        for information, words in WORDS.items():
            result = _with_bases(study, data, information)
            if result is not None:
                cells = [changed(result.change(BASES[base], base, "utilization")) for base in gains]
                rows.append((f"{SITES[data].title}, {words}", *cells))
        if rows and not study.stands_in and rows[-1][0].startswith(SITES[data].title):
            rows.append((f"{SITES[data].title}, printed", *(percent(gain / 100) for gain in gains.values())))
    heads = ("GPUs in use against", *(base.label for base in paper.TABLE_6["philly"]))
    return WordTable("Table 6: utilisation", heads, tuple(rows))


def _with_bases(study: RLTuneStudy, data: str, information: str) -> PanelResult | None:
    """Fig. 12, if it was run with RLTune on each base."""
    result = study.result(FIGURE_12, data, information)
    return result if result is not None and BASES[FIFO] in result.values else None


def _table_7(study: RLTuneStudy) -> WordTable:
    """The wait of models that were trained on one base, against each."""
    rows = []
    for information, words in WORDS.items():
        result = _with_bases(study, "helios", information)
        for trained_on in BASES if result is not None else ():
            assert result is not None
            cells = [changed(result.change(BASES[trained_on], base, "wait")) for base in BASES]
            rows.append(
                (f"{trained_on.label}, {words}", *cells, changed(result.change(BASES[trained_on], SAF, "wait")))
            )
    if rows and not study.stands_in:
        for base, figures in paper.TABLE_7.items():
            rows.append((f"{base.label}, printed", *(percent(-figure / 100) for figure in figures), ""))
    heads = ("trained on", *(f"against {base.label}" for base in BASES), "against SAF")
    return WordTable("Table 7: the wait of models against other bases, Helios", heads, tuple(rows))


def _latency(study: RLTuneStudy) -> WordTable:
    rows = []
    for waiting in dict.fromkeys(queue for queue, _ in study.latency):
        all_seen, few = (
            study.latency[waiting, visible] for visible in sorted({v for q, v in study.latency if q == waiting})
        )
        printed = f"{paper.DECISION_S[waiting]} s" if waiting in paper.DECISION_S else ""
        rows.append((f"{waiting:,}", f"{all_seen:.2f} ms", f"{few:.2f} ms", printed))
    heads = ("jobs waiting", "a decision, all in view", "128 in view", "printed")
    return WordTable("Section 5.7: a decision", heads, tuple(rows))


def _claim(information: str, one: ClaimResult) -> tuple[str, ...]:
    ends = f" ({number(one.ours.low)} to {number(one.ours.high)})" if math.isfinite(one.ours.low) else ""
    title = SITES[one.claim.data].title
    known = WORDS[information] if one.claim.data not in CPU_TRACES else WORDS[TRUTH]
    return (
        one.claim.text, one.claim.source, title, known, one.claim.printed, f"{number(one.ours.value)}×{ends}",
        one.direction, one.size,
    )  # fmt: skip
