"""``shunter energy``: what letting idle nodes sleep saves, and what it costs."""

from __future__ import annotations

import dataclasses
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from shunter.cli.console import (
    ClusterOption,
    ColumnsOption,
    DropOption,
    ForceOption,
    FormatOption,
    JsonOption,
    SeedOption,
    answer,
    note,
    policy_names,
    progress,
    say_about,
    with_columns,
)
from shunter.cli.reports import ReportOption, check_page, write_page, write_report
from shunter.errors import EnergyError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shunter.cluster import Cluster
    from shunter.energy.control import SleepSettings
    from shunter.energy.power import PowerModel
    from shunter.energy.series import NodeSeries
    from shunter.setup import Setup
    from shunter.simulation import NamedPolicy, Result

EXAMPLES = """Examples:

shunter energy nodes.csv.gz --preset philly --since 2017-12-01 --until 2017-12-15   # nodes in use over time

shunter energy nodes.csv.gz --forecast peak --set window=12 --set buffer=5   # no learning

shunter energy nodes.csv.gz --preset philly --since 2017-11-10 --search   # settings of before

shunter energy jobs.csv -c 133x8 --policy fifo --since +30   # simulated with and without sleep

shunter energy jobs.csv -c 16x8 --forecast last --set buffer=2 --set idle_w=600 --report energy.html
"""
PRESETS = ("venus", "earth", "saturn", "uranus", "philly")
FORECASTS = ("lightgbm", "peak", "last", "leak")
COMPARED = ("lightgbm", "peak")  # unless others are named
SEARCHED = ("lightgbm", "last", "peak")


class Chosen(NamedTuple):
    """What is the same for a node series and for a trace."""

    preset: str
    settings: SleepSettings
    power: PowerModel
    wake: float | None  # seconds; None: what the cluster says
    window: tuple[str | None, str | None]


def _presets(incomplete: str) -> list[str]:
    return [name for name in PRESETS if name.startswith(incomplete)]


def _forecasts(incomplete: str) -> list[str]:
    return [name for name in FORECASTS if name.startswith(incomplete)]


def energy(  # noqa: PLR0913, PLR0917  one argument per option
    source: Annotated[
        str, typer.Argument(metavar="TRACE|NODESERIES", help="A trace, or a CSV with time, active, total (nodes).")
    ],
    cluster: ClusterOption = None,
    policy: Annotated[
        str, typer.Option("--policy", "-p", metavar="P", help="Policy, for a trace.", autocompletion=policy_names)
    ] = "fifo",
    preset: Annotated[
        str, typer.Option(metavar="NAME", help="Published thresholds of a cluster.", autocompletion=_presets)
    ] = "venus",
    test_from: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Start of the evaluation; earlier data is used for training."),
    ] = None,
    test_until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="End of the evaluation.")] = None,
    forecast: Annotated[
        list[str] | None,
        typer.Option(
            metavar="lightgbm|peak|last|leak", autocompletion=_forecasts,
            help="Demand forecast, repeatable; default: lightgbm and peak. leak: the authors', which sees the future.",
        ),
    ] = None,
    search: Annotated[
        bool, typer.Option("--search", help="Search settings before --since, and compare the best from then on.")
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="buffer=10, keep=6, idle_w=600, wake=120 (s) ..."),
    ] = None,
    seed: SeedOption = 0,
    drop_unfit: DropOption = False,
    format: FormatOption = None,  # noqa: A002
    columns: ColumnsOption = None,
    report: ReportOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Let idle nodes sleep (Helios' CES): nodes asleep, wake-ups, delayed jobs and kWh, before and after."""
    format = with_columns(format, columns)  # noqa: A001
    from shunter.energy.series import recognises

    check_page(report, force)
    chosen = _chosen(preset, settings or [], (test_from, test_until))
    kinds = list(dict.fromkeys(forecast or COMPARED))
    if search and (forecast or report is not None or test_from is None):
        raise EnergyError("--search needs --since, compares forecasts that use only the past, and writes no report")
    if recognises(Path(source)):
        if search:
            _search_series(Path(source), chosen, json)
        else:
            _series(Path(source), kinds, chosen, seed, report, json)
        return
    from shunter.setup import set_up
    from shunter.simulation import resolve

    if cluster is None:
        raise EnergyError("a trace is simulated on a cluster; give one, such as --cluster 133x8, or --cluster auto")
    if "leak" in kinds:
        raise EnergyError("--forecast leak: it sees the future, which a simulation does not; use another forecast")
    named = resolve(policy)
    setup = set_up(source, cluster, [named.policy] if drop_unfit else (), format)
    say_about(setup, cluster, [named])
    if search:
        _search_trace(setup, named, chosen, seed, json)
    else:
        _trace(setup, named, kinds, chosen, seed, report, json)


def _chosen(preset: str, given: Sequence[str], window: tuple[str | None, str | None]) -> Chosen:
    """The thresholds of a preset and the power model, with what is set in place of theirs."""
    from shunter.energy import control
    from shunter.energy.power import PowerModel

    if preset not in control.PRESETS:
        raise EnergyError(f"there is no preset '{preset}'; {did_you_mean(preset, control.PRESETS)}")
    parts: list[Any] = [control.PRESETS[preset], PowerModel()]
    wake = None
    known = {field.name: at for at, part in enumerate(parts) for field in dataclasses.fields(part)}
    for text in given:
        key, equals, value = (piece.strip() for piece in text.partition("="))
        if not equals or key not in {*known, "wake"}:
            raise EnergyError(f"--set {text}: must be KEY=VALUE; {did_you_mean(key, [*known, 'wake'])}")
        whole = key != "wake" and isinstance(getattr(parts[known[key]], key), int)
        try:
            number = int(value) if whole else float(value)
        except ValueError:
            raise EnergyError(f"--set {text}: must be a {'whole ' if whole else ''}number, got '{value}'") from None
        if key == "wake":
            wake = float(number)
        else:
            parts[known[key]] = dataclasses.replace(parts[known[key]], **{key: number})
    return Chosen(preset, parts[0], parts[1], wake, window)


def _record(chosen: Chosen, first: int, last: int) -> dict[str, Any]:
    """What both kinds of results begin with."""
    from shunter.report.explain import moment

    return {
        "preset": chosen.preset,
        "settings": dataclasses.asdict(chosen.settings),
        "power": dataclasses.asdict(chosen.power),
        "from": moment(first),
        "until": moment(last),
    }


def _times(chosen: Chosen, what: str, begin: int) -> tuple[int | None, int | None]:
    from shunter.model import EARLIEST_DATE_MS
    from shunter.traces.slicing import instant, remark_on_begin

    dated = begin >= EARLIEST_DATE_MS
    if remark := remark_on_begin(chosen.window[0] or "", begin, dated, f"the beginning of {what}"):
        note(remark)
    first, last = (None if text is None else instant(text, what, begin, dated, UTC) for text in chosen.window)
    return first, last


# ------------------------------------------------------------------------------------------- a node series


def _series(path: Path, kinds: Sequence[str], chosen: Chosen, seed: int, report: Path | None, json: bool) -> None:
    from shunter.energy import series as node_series
    from shunter.energy.saving import saving
    from shunter.report.energy import of_course
    from shunter.report.terminal.energy import series_view

    series = node_series.read(path)
    _say_gaps(series)
    first, last = _times(chosen, series.name, int(series.time[0]))
    with progress("learning") as on_progress:
        savings = {}
        for done, kind in enumerate(kinds):
            savings[kind] = saving(series, first, last, kind, chosen.settings, seed)
            on_progress(done + 1, len(kinds))
    one = next(iter(savings.values()))
    after = {kind: of_course(each.course, chosen.power) | {"scores": each.scores} for kind, each in savings.items()}
    awake = dataclasses.replace(
        one.course, awake=one.course.total, change=0 * one.course.change, shortage=0 * one.course.used
    )
    record = {"series": series.name, **_record(chosen, int(one.time[0]), int(one.time[-1]))}
    record |= {"before": of_course(awake, chosen.power), "after": after}
    if report is not None:
        from shunter.report.html.energy import series_page

        write_page(report, series_page(savings, record), "report")
    answer(record, series_view, json)


def _say_gaps(series: NodeSeries) -> None:
    missing = series.resampled().gaps()
    if missing:
        note(f"{series.name} lacks {missing:,} steps of ten minutes; the steps around each gap are joined")


# ------------------------------------------------------------------------------------------- a trace


def _trace(
    setup: Setup, policy: NamedPolicy, kinds: Sequence[str], chosen: Chosen, seed: int, report: Path | None, json: bool
) -> None:
    from shunter import simulation
    from shunter.report.terminal.energy import trace_view

    begin = int(setup.trace.submit[0])
    first, last = _times(chosen, f"trace '{setup.trace.name}'", begin)
    if chosen.wake is not None:
        setup = dataclasses.replace(setup, cluster=_waking(setup.cluster, chosen.wake))
    rule = ",".join(f"{key}={value:g}" for key, value in dataclasses.asdict(chosen.settings).items())
    sleeping = [f"ces:policy={policy.text.replace(',', ';')},forecast={kind},{rule}" for kind in kinds]
    results = []
    for each in (policy, *sleeping):
        with progress("simulating") as on_progress:
            count = lambda point, on_progress=on_progress: on_progress(point.ended, len(setup.trace))  # noqa: E731
            results.append(simulation.run(setup, each, seed, progress=count, decisions=report is not None))
    # not to the end of the run: when no job comes any more, sleep is no merit
    span = (first if first is not None else begin, last if last is not None else int(setup.trace.submit[-1]))
    record: dict[str, Any] = {"trace": setup.trace.name, "cluster": setup.cluster.name, "policy": policy.text}
    record |= _record(chosen, *span)
    record |= {"before": _numbers(results[0], span, chosen.power)}
    if first is not None:
        record |= {"series": {kind: _on_series(results[0], span, kind, chosen) for kind in kinds}}
    slept = zip(kinds, results[1:], strict=True)
    record |= {"after": {kind: _numbers(result, span, chosen.power) for kind, result in slept}}
    if report is not None:
        write_report(report, [result.kept for result in results])
    answer(record, trace_view, json)


def _search_series(path: Path, chosen: Chosen, json: bool) -> None:
    from shunter.energy import series as node_series

    series = node_series.read(path)
    _say_gaps(series)
    first, last = _times(chosen, series.name, int(series.time[0]))
    _search(series, first, last, chosen, json)


def _search_trace(setup: Setup, policy: NamedPolicy, chosen: Chosen, seed: int, json: bool) -> None:
    """On the nodes in use under the policy, without sleep."""
    from shunter import simulation
    from shunter.energy.series import of_run

    first, last = _times(chosen, f"trace '{setup.trace.name}'", int(setup.trace.submit[0]))
    with progress("simulating") as on_progress:
        result = simulation.run(setup, policy, seed, progress=lambda point: on_progress(point.ended, len(setup.trace)))
    series = of_run(setup.trace.name, result.events, result.cluster.nodes)
    _search(series, first, last if last is not None else int(setup.trace.submit[-1]), chosen, json)


def _search(series: NodeSeries, first: int | None, last: int | None, chosen: Chosen, json: bool) -> None:
    from shunter.energy.searching import search
    from shunter.report.terminal.energy_search import search_record, search_view

    assert first is not None
    found = search(series, first, last, SEARCHED, chosen.settings)
    end = int(series.time[-1]) if last is None else last
    answer({"series": series.name, **_record(chosen, first, end), "prices": search_record(found)}, search_view, json)


def _waking(cluster: Cluster, wake: float) -> Cluster:
    return dataclasses.replace(cluster, overheads=dataclasses.replace(cluster.overheads, wake=wake))


def _on_series(result: Result, span: tuple[int, int], forecast: str, chosen: Chosen) -> dict[str, Any]:
    """The rule on the nodes that were in use without it."""
    from shunter.energy.saving import saving
    from shunter.energy.series import of_run
    from shunter.report.energy import gpu_hours, of_course

    nodes = of_run(result.trace.name, result.events, result.cluster.nodes)
    found = saving(nodes, *span, forecast, chosen.settings)
    work = gpu_hours(result.events, *span)
    return of_course(found.course, chosen.power, work) | {"scores": found.scores}


def _numbers(result: Result, span: tuple[int, int], power: PowerModel) -> dict[str, Any]:
    """What nodes did in a window, and how the jobs submitted in it fared."""
    import numpy as np

    from shunter import world as w
    from shunter.report.energy import energy as numbers
    from shunter.report.metrics import jct_ms, spread

    table = result.table
    mine = np.flatnonzero((table[w.SUBMIT] >= span[0]) & (table[w.SUBMIT] <= span[1]) & (table[w.STATE] == w.DONE))
    times = {"wait_s": spread(table[w.WAITED, mine], 1000), "jct_s": spread(jct_ms(table)[mine], 1000)}
    return {"jobs": len(mine), **times, **numbers(result.events, result.cluster.nodes, *span, power)}
