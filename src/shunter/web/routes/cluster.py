"""The live cluster: nodes, queue, answers to users, and what the controller does; nothing here changes anything."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from shunter import registry
from shunter.errors import RunError
from shunter.live.answers import WITHIN_H
from shunter.live.answers import moment as clock
from shunter.live.audit import moment
from shunter.live.journal import WaitsEntry
from shunter.report.html.charts import Axis, lines
from shunter.report.html.page import embed, figure
from shunter.slurm.questions import Wish
from shunter.web.choices import checked_policy
from shunter.web.cluster_view import QueueFilter
from shunter.web.forms import Sent, asked
from shunter.web.state import SharedState, state_of
from shunter.web.templating import answer, html

ENTRIES = 50  # of the audit
SHOWN = 60  # waiting jobs of one part of the list
MOST_USERS = 200  # that a field suggests

router = APIRouter(include_in_schema=False)
WithState = Annotated[SharedState, Depends(state_of)]
WithQuestion = Annotated[Sent, Depends(asked)]


def user_of(request: Request, state: SharedState) -> str:
    """Who asks, as a proxy says; "": not known."""
    header = state.settings.user_header
    return request.headers.get(header, "") if header else ""


def _queue(state: SharedState, form: Sent, user: str = "") -> dict[str, Any]:
    begin = form.one("begin", "0")
    if not begin.isdecimal() or len(begin) > 7:
        raise RunError("there is no such part of the list")
    named = form.one("policy").strip()
    policy = checked_policy(named) if named else ""
    texts = (form.one("user", user), form.one("partition"), form.one("text"))
    wanted = QueueFilter(*texts, int(begin), bool(form.one("when")), policy)
    jobs, count = state.cluster.queue(wanted, SHOWN)
    shown = {"jobs": jobs, "count": count, "wanted": wanted, "shown": SHOWN, "order": state.cluster.order(policy)}
    return {**shown, **_words()}


def _live(state: SharedState) -> dict[str, Any]:
    return {
        "totals": state.cluster.totals(),
        "as_of": state.cluster.as_of,
        "map": html([embed(state.cluster.nodes())]),
    }


def _controller(state: SharedState) -> dict[str, Any]:
    shown = {"controller": state.cluster.controller(), "entries": state.cluster.audit()[:ENTRIES], "moment": moment}
    return {**shown, "waits": _waits(state.cluster.waits())}


def _waits(found: list[WaitsEntry]) -> dict[str, Any]:
    """The last comparison of waits with the shadow, and all of a day as a chart; empty: there is none."""
    if not found:
        return {}
    begin = found[0].at
    series = {"with the controller": [one.real_s for one in found], "without it": [one.shadow_s for one in found]}
    chart = lines(
        [one.at - begin for one in found], series, Axis("time", "elapsed", origin=begin), Axis("mean wait", "duration")
    )
    finding = "Each point is the mean over the jobs since the guard's window began, a day at the most."
    return {"last": found[-1], "chart": html([figure("Mean wait", finding, chart)]) if len(found) > 1 else ""}


@router.get("/cluster")
def cluster(request: Request, state: WithState, form: WithQuestion) -> Response:
    """The page."""
    if not state.settings.live.shows_queue:
        return answer("no_cluster.html", state.page("cluster", "Cluster", **_controller(state)))
    user = user_of(request, state)
    choices = {
        "names": registry.names(),
        "users": state.cluster.users()[:MOST_USERS],
        "partitions": state.cluster.partitions(),
        "me": user,
    }
    values = {**choices, **_live(state), **_controller(state), **_queue(state, form, user)}
    return answer("cluster.html", state.page("cluster", "Cluster", **values))


@router.get("/cluster/now")
def now(state: WithState) -> Response:
    """The numbers and the map, as they are now."""
    return answer("cluster_now.html", _live(state))


@router.get("/cluster/controller")
def controller(state: WithState) -> Response:
    """The controller, as it is now."""
    return answer("controller.html", _controller(state))


@router.get("/cluster/queue")
def queue(state: WithState, form: WithQuestion) -> Response:
    """The waiting jobs, as a filter changes them."""
    return answer("queue.html", _queue(state, form))


@router.get("/cluster/queue/rows")
def rows(state: WithState, form: WithQuestion) -> Response:
    """A part of the waiting jobs, as someone scrolls."""
    return answer("queue_rows.html", _queue(state, form))


@router.get("/cluster/jobs/{job_id}")
def job(job_id: str, state: WithState) -> Response:
    """Why a job waits, and when it may start."""
    sentence, lines = state.cluster.why_lines(job_id)
    values = {"sentence": sentence, "lines": lines, "found": state.cluster.when(job_id), **_words()}
    return answer("job.html", state.page("cluster", f"Job {job_id}", job_id=job_id, **values))


@router.get("/cluster/what-if")
def what_if(state: WithState, form: WithQuestion) -> Response:
    """When a job would start if it were submitted now."""
    return answer("when.html", {"found": state.cluster.what_if(wish(form)), **_words()})


def _words() -> dict[str, Any]:
    return {"clock": lambda seconds: clock(round(seconds * 1000)), "hours": [str(hours) for hours in WITHIN_H]}


def wish(form: Sent) -> Wish:
    """The job that a form describes."""
    numbers = {name: form.one(name).strip() or "0" for name in ("gpus", "cpus")}
    for name, text in numbers.items():
        if not text.isdecimal() or len(text) > 6:
            raise RunError(f"{name} must be a whole number, got '{text[:40]}'")
    if numbers["gpus"] == "0" or not form.one("time").strip():
        raise RunError("say how many GPUs, and for how long (as Slurm takes it: 2:00:00, 1-0, 90)")
    more = (form.one("partition"), form.one("gpu_type"), int(numbers["cpus"]), form.one("mem").strip())
    return Wish(int(numbers["gpus"]), form.one("time").strip(), *more)
