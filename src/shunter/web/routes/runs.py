"""Runs: the list, reports of what is ticked, other names, deleting, and the way back."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from shunter.errors import RunError
from shunter.under_way import UnderWay
from shunter.web import comparing, growing
from shunter.web.comparing import report_of, single_runs
from shunter.web.forms import Sent, asked, sent
from shunter.web.listing import RunFilter
from shunter.web.state import SharedState, state_of
from shunter.web.stepping import of_run
from shunter.web.streaming import EventStream, of_work
from shunter.web.templating import answer, html

MOST_SHOWN = 300  # entries of the list
MOST_DIGITS = 7  # of a number of runs

router = APIRouter(include_in_schema=False)
WithState = Annotated[SharedState, Depends(state_of)]
WithForm = Annotated[Sent, Depends(sent)]
WithQuestion = Annotated[Sent, Depends(asked)]


def _filter(form: Sent) -> RunFilter:
    return RunFilter(*(form.one(name).strip() for name in ("trace", "cluster", "policy", "since", "until")))


def _list(state: SharedState, form: Sent, said: str = "") -> dict[str, Any]:
    wanted = _filter(form)
    entries = state.listing.entries(wanted)
    shown = {"entries": entries[:MOST_SHOWN], "more": max(0, len(entries) - MOST_SHOWN), "wanted": wanted}
    return {**shown, "changes": state.changes.all(), "said": said}


@router.get("/runs")
def runs(state: WithState, form: WithQuestion) -> Response:
    """The page with the list."""
    return answer("runs.html", state.page("runs", "Runs", **_list(state, form)))


@router.get("/runs/list")
def listed(state: WithState, form: WithQuestion) -> Response:
    """The list alone, as a filter changes it."""
    return answer("runs_list.html", _list(state, form))


@router.get("/runs/under-way")
def under_way(state: WithState) -> Response:
    """What is being run now, here or elsewhere, and how far it is; a change of the list loads that again."""
    found = [
        {"name": name, "about": about, "line": _line(about), "ended": len(state.folder.unfinished(name))}
        for name, about in state.folder.under_way()
    ]
    return answer("under_way.html", {"found": found, "names": " ".join(str(each["name"]) for each in found)})


def _line(about: UnderWay) -> str:
    """The course of what is done, as points of a line in a box of 100 by 30."""
    last, total = max((at for at, _ in about.points), default=0.0), about.total or 1
    points = [(0.0, 0), *about.points]
    return " ".join(f"{100 * at / (last or 1):.1f},{30 - 30 * min(done / total, 1):.1f}" for at, done in points)


@router.get("/runs/so-far")
def so_far(state: WithState, form: WithQuestion) -> Response:
    """Charts of what is under way, and the report of the runs that have ended."""
    known = growing.so_far(state.folder, form.one("run"))
    title = f"{known.name}, so far"
    shown = {**_grown(state, known), "shown": known.ended, "links": "", "body": ""}
    if known.ended:
        found = comparing.so_far(state.folder, known.name)
        shown |= {"links": html([found.links()]), "body": html([found.body()])}
    return answer("so_far.html", state.page("runs", title, **shown))


def _grown(state: SharedState, known: growing.RunsSoFar) -> dict[str, Any]:
    there = not known.alive and bool(state.folder.kind(state.folder.path(known.name)))
    return {"known": known, "runs": known.runs, "charts": html([growing.charts(known.runs)]), "there": there}


@router.get("/runs/growing")
def grown(state: WithState, form: WithQuestion) -> Response:
    """How far work that is under way is, with its charts so far."""
    known, shown = growing.so_far(state.folder, form.one("run")), form.one("shown", "0")
    if not shown.isdecimal() or len(shown) > MOST_DIGITS:
        raise RunError("shown must be the number of runs that the page has")
    return answer("growing_run.html", {**_grown(state, known), "shown": int(shown)})


@router.get("/runs/growing/events")
async def events(state: WithState, form: WithQuestion) -> Response:
    """When that changes, as server-sent events."""
    name = form.one("run")
    state.folder.path(name)
    return EventStream(state.watchers, of_work(state.folder, name))


@router.get("/runs/report")
def report(state: WithState, form: WithQuestion) -> Response:
    """The report of what is ticked."""
    names = form.all("run")
    found = report_of(state.folder, names)
    steps = single_runs(state.folder, names)
    shown = {"found": found, "links": html([found.links()]), "body": html([found.body()]), "steps": steps}
    return answer("report.html", state.page("runs", found.title, **shown))


@router.get("/runs/steps")
def steps(state: WithState, form: WithQuestion) -> Response:
    """A stretch of a run, step by step."""
    name = form.one("run")
    path = state.folder.path(name)
    if state.folder.kind(path) != "run":
        raise RunError(f"{name}: is no run; only single runs can be stepped through")
    stretch = of_run(path, _instant(form.one("at", "0")))
    return answer("steps.html", state.page("runs", f"{name}, step by step", name=name, stretch=stretch))


def _instant(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise RunError(f"a step is a whole number, got '{text[:40]}'")
    return int(text)


@router.post("/runs/rename")
def rename(state: WithState, form: WithForm) -> Response:
    """Give a run another name."""
    change = state.changes.rename(form.one("run"), form.one("name"))
    return answer("runs_list.html", _list(state, form, f"{change.before} is now called {change.after}."))


@router.post("/runs/delete")
def delete(state: WithState, form: WithForm) -> Response:
    """Put what is ticked into the bin."""
    names = form.all("run")
    if not names:
        raise RunError("nothing is ticked; tick what is to be deleted")
    whole = [name for name in names if not any(name.startswith(f"{other}/") for other in names)]
    for name in whole:
        state.changes.delete(name)
    what = whole[0] if len(whole) == 1 else f"{len(whole)} entries"
    return answer("runs_list.html", _list(state, form, f"{what} deleted; undo brings it back."))


@router.post("/runs/undo")
def undo(state: WithState, form: WithForm) -> Response:
    """Take back a change."""
    change = state.changes.undo(form.one("change"))
    return answer("runs_list.html", _list(state, form, f"{change.before} is back."))


@router.post("/runs/empty")
def empty(state: WithState, form: WithForm) -> Response:
    """Delete for good what is in the bin."""
    count = state.changes.empty()
    return answer("runs_list.html", _list(state, form, f"The bin is empty; {count} deleted for good."))
