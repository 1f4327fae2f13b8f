"""Where waiting time went: by reason, over time and by job size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shunter.report.derived_reasons import with_reasons
from shunter.report.explain import REASONS
from shunter.report.html.charts import Axis, bars, lines, of_reasons
from shunter.report.html.course import ZOOM, time_axis
from shunter.report.html.page import choice, figure, grid, note
from shunter.report.metrics import SIZES
from shunter.report.terminal.tables import duration, share
from shunter.report.waiting import Waiting, waiting
from shunter.texts import counted
from shunter.world import F64, I64

if TYPE_CHECKING:
    from shunter.run_folder import Run


def reasons(names: Sequence[str], runs: Sequence[Run]) -> list[str]:
    """The charts; nothing unless every run recorded why its jobs waited."""
    if any(run.decisions is None for run in runs):
        return []
    runs = [with_reasons(run) for run in runs]
    found = {name: waiting(run) for name, run in zip(names, runs, strict=True)}
    codes = list(dict.fromkeys(code for one in found.values() for code in one.codes))
    total = np.array([[_total(one, code) for code in codes] for one in found.values()])  # (runs, codes) s
    shown = [at for at in np.argsort(-total.sum(axis=0), kind="stable").tolist() if total[:, at].any()]
    if not shown:
        return [note("No job waited.")]
    styles = {codes[at]: style for style, at in enumerate(shown)}
    parts = {
        name: [_over_time(found[name], styles), _by_size(found[name], run, styles)]
        for name, run in zip(names, runs, strict=True)
    }
    if len(runs) == 1:
        return [grid(parts[names[0]])]
    per_job = total / np.array([[max(len(run.jobs), 1)] for run in runs])
    series = {_words(codes[at]): per_job[:, at] for at in shown}
    chart = of_reasons(bars(names, series, "policy", Axis("mean wait", "duration"), stack=True))
    whole = figure("Why jobs waited, by policy", _across(names, total, [_words(code) for code in codes]), chart)
    return [whole, choice("Policy", {name: [grid(part)] for name, part in parts.items()})]


def _words(code: str) -> str:
    return REASONS.get(code, code)


def _total(one: Waiting, code: str) -> float:
    return float(one.per_job[one.codes.index(code)].sum()) / 1000 if code in one.codes else 0.0


def _across(names: Sequence[str], total: F64, words: Sequence[str]) -> str:
    """The main reason under each policy."""
    main: I64 = total.argmax(axis=1)
    worst = []
    for at in dict.fromkeys(main.tolist()):
        who = [name for name, own, waits in zip(names, main, total, strict=True) if own == at and waits.any()]
        if who:
            worst.append(f"{words[at]} (under {', '.join(who)})")
    return f"Main reasons: {'; '.join(worst)}."


def _over_time(one: Waiting, styles: dict[str, int]) -> str:
    kept = [code for code in styles if code in one.codes and one.over_time[one.codes.index(code)].any()]
    middle = (one.edges[:-1] + one.edges[1:]) / 2 - one.edges[0]
    series = {_words(code): one.over_time[one.codes.index(code)] for code in kept}
    x, y = time_axis(one.edges[0]), Axis("jobs that wait", "number", mean=True)
    chart = lines(middle, series, x, y, kind="stacked", styles=[styles[code] for code in kept], zoom=ZOOM)
    return figure("Why jobs waited, over time", _main(one), of_reasons(chart))


def _main(one: Waiting) -> str:
    total = one.per_job.sum(axis=1)
    if not total.any():
        return "No job waited."
    at = int(total.argmax())
    return f"{share(total[at] / total.sum())} of the waiting time: {_words(one.codes[at])}."


def _by_size(one: Waiting, run: Run, styles: dict[str, int]) -> str:
    gpus = run.jobs["gpus"].to_numpy()
    counts = np.bincount(np.searchsorted([top for _, top in SIZES], gpus), minlength=len(SIZES))
    waits = one.by_size(gpus)
    sizes = [(name, count) for (name, _), count in zip(SIZES, counts.tolist(), strict=True) if count]
    means = np.array([waits[name] / (1000 * count) for name, count in sizes]).T  # (codes, sizes) s
    kept = [code for code in styles if code in one.codes and means[one.codes.index(code)].any()]
    series = {_words(code): means[one.codes.index(code)] for code in kept}
    names = [name for name, _ in sizes]
    y = Axis("mean wait", "duration")
    chart = bars(names, series, "GPUs of the job", y, styles=[styles[code] for code in kept], stack=True)
    return figure("Why jobs waited, by size", _worst_size(means, names, one.codes), of_reasons(chart))


def _worst_size(means: F64, names: Sequence[str], codes: Sequence[str]) -> str:
    worst = int(means.sum(axis=0).argmax())
    if not means[:, worst].any():
        return "No job waited."
    reason, whole = int(means[:, worst].argmax()), float(means[:, worst].sum())
    return (
        f"Jobs of {counted(names[worst], 'GPU')} wait {duration(whole)} on average,"
        f" {duration(means[reason, worst])} of it: {_words(codes[reason])}."
    )
