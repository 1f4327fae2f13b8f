"""Tables 3, 4 and 5 and Fig. 8, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from shunter.report.html.page import Section, code, note, points
from shunter.report.html.page import table as html_table
from shunter.report.terminal.tables import duration, table
from shunter.reproduce import sheets, views
from shunter.reproduce.autosched import paper
from shunter.reproduce.autosched.models import NAMES, CausalError, ClassAccuracy, ModelsStudy
from shunter.reproduce.autosched.page import not_measured as not_measured_sections
from shunter.reproduce.autosched.view import not_measured
from shunter.reproduce.writing import STAND_IN

NOTES = (
    "Accuracy: of the class of the whole run time, among six. Arrival: jobs as they arrive. Snapshot: all unfinished"
    " jobs at an instant, where long jobs are over-represented. Impossible classes are left out for every model.",
    "history, gbm and ebm are our predictors of run times, as of each job's submission, with their past errors beyond"
    " what the job has run. They are fitted to all jobs of four weeks, the others to some thousand instants of jobs.",
    "Printed accuracies are with users, whom our files lack, and do not say how jobs were drawn. Seconds are CPU time"
    " per 1,000 jobs, on the slowest trace; the printed ones, in brackets, are on other machines.",
    "Causal model: how many times as good settings are as those in use, of runs after those that it learned from, over"
    " two days of Tiresias. The paper does not say what its error is of.",
    "Generated hours: the sum of absolute differences over the sum of what came, by hour. Fig. 8 prints these per day,"
    " 0.6 to 2.3 for counts as they are and 0.3 to 1.0 after the FFT.",
)


def accuracy_rows(study: ModelsStudy) -> list[list[str]]:
    """Table 3: ours by trace, and the printed ones."""
    rows = []
    for queries in ("arrival", "snapshot"):
        for name in NAMES:
            found = {each.data: each for each in study.accuracies if (each.model, each.queries) == (name, queries)}
            if not found and (name != "XGBoost" or queries == "arrival"):
                continue
            printed = dict(zip(paper.TRACES, paper.ACCURACY.get(name, ()), strict=False))
            cells = [_pair(100 * found[d].accuracy if d in found else None, printed.get(d)) for d in study.part.data]
            rows.append([f"{name}, {queries}", *cells, *_times(list(found.values()), paper.SECONDS.get(name))])
    return rows


def _times(found: Sequence[ClassAccuracy | CausalError], printed: tuple[float, float] | None) -> list[str]:
    """Seconds to predict and to fit, on the slowest trace."""
    ours = [max((getattr(each, key) for each in found), default=None) for key in ("predict_s", "fit_s")]
    return [_pair(mine, theirs, 3) for mine, theirs in zip(ours, printed or (None, None), strict=True)]


def _pair(ours: float | None, printed: float | None, digits: int = 1) -> str:
    mine = "–" if ours is None else f"{ours:.{digits}f}"
    return mine if printed is None else f"{mine} ({printed:.{digits}f})"


def difference_rows(study: ModelsStudy) -> list[list[str]]:
    """Fig. 8: jobs per hour by every rule, the range of days."""
    names = [score.rule.name for score in next(iter(study.scores.values()))]
    rows = []
    for at, name in enumerate(names):
        found = [scores[at] for scores in study.scores.values()]
        rows.append([name, *(f"{s.requests:.2f} ({min(s.by_day):.2f} to {max(s.by_day):.2f})" for s in found)])
    return rows


def causal_rows(study: ModelsStudy) -> list[list[str]]:
    """Table 4: how far the causal model is off, and the mean of what it learned from."""
    printed, found = (
        dict(zip(paper.TRACES, paper.CAUSAL_ERROR, strict=True)),
        {each.data: each for each in study.causal},
    )
    ours = [_pair(100 * found[d].model if d in found else None, printed[d]) for d in study.part.data]
    same = [_pair(100 * found[d].same if d in found else None, None) for d in study.part.data]
    times = _times(study.causal, paper.CAUSAL_SECONDS)
    return [["causal model", *ours, *times], ["the mean, whatever the settings", *same, "–", "–"]]


def similarity_rows(study: ModelsStudy) -> list[list[str]]:
    """Table 5: mean JCT by distance, relative to Manhattan's."""
    rows = []
    for distance, printed in paper.SIMILARITY.items():
        cells = []
        for data in study.part.data:
            theirs = printed[paper.TRACES.index(data)] / paper.SIMILARITY["manhattan"][paper.TRACES.index(data)]
            found = study.jct[data]
            ours = f"{duration(found[distance])}, {found[distance] / found['manhattan']:.3f}" if found else "–"
            cells.append(f"{ours} ({theirs:.3f})")
        rows.append([distance, *cells])
    return rows


def models_view(study: ModelsStudy) -> RenderableType:
    """All tables."""
    data = study.part.data
    made = table("accuracy in % (printed)", *data, "predict\ns", "fit\ns")
    for row in accuracy_rows(study):
        made.add_row(*map(Text, row))
    hours = table("jobs per hour: error (days)", *data)
    for row in difference_rows(study):
        hours.add_row(*map(Text, row))
    parts: list[RenderableType] = [made, hours]
    if not study.part.quick:
        causal = table("error in % (printed)", *data, "predict\ns", "fit\ns")
        for row in causal_rows(study):
            causal.add_row(*map(Text, row))
        parts.append(causal)
        alike = table("mean JCT, over Manhattan's (printed)", *data)
        for row in similarity_rows(study):
            alike.add_row(*map(Text, row))
        parts.append(alike)
    parts += not_measured(paper.MODELS_NOT_MEASURED)
    return Group(*parts, *views.notes(*([STAND_IN] if study.stands_in else []), *NOTES))


def models_page(study: ModelsStudy, command: str) -> str:
    """The whole page; ``command`` leads there again."""
    data = list(study.part.data)
    accuracy = html_table("Accuracy in % (printed)", ["model", *data, "predict, s", "fit, s"], accuracy_rows(study))
    hours = html_table("Jobs per hour: error (least and most of the days)", ["rule", *data], difference_rows(study))
    sections = [Section("Classes of run times (Table 3)", [accuracy]), Section("Generated hours (Fig. 8)", [hours])]
    if not study.part.quick:
        causal = html_table("Error in % (printed)", ["", *data, "predict, s", "fit, s"], causal_rows(study))
        sections.append(Section("The causal model (Table 4)", [causal]))
        alike = html_table("Mean JCT, over Manhattan's (printed)", ["distance", *data], similarity_rows(study))
        sections.append(Section("Distances (Table 5)", [alike]))
    sections += not_measured_sections(paper.MODELS_NOT_MEASURED)
    sections.append(Section("What was run", [points(NOTES), note(f"seed {study.part.seed}"), code(command)]))
    return sheets.whole("AutoSched's models", f"{paper.TITLE}: its models by themselves.", sections, study.stands_in)
