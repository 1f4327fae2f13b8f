"""What if: choose, run, and compare with what was run before."""

from __future__ import annotations

import io
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from starlette.requests import ClientDisconnect

from shunter import clusters, registry, traces
from shunter.errors import RunError
from shunter.report.html.page import verdict_text
from shunter.report.quality import validate
from shunter.web import growing, streaming, tasks
from shunter.web.choices import cluster_text, fields_of, trace_text
from shunter.web.folder import check_name
from shunter.web.forms import Sent, asked, sent
from shunter.web.state import SharedState, state_of
from shunter.web.templating import answer, html
from shunter.web.what_if import MOST_JOBS, MOST_KEPT, WhatIfAnswer, answered, of_form, so_far

SOON_S = 1.5  # a result that is there by then comes at once, without a bar of progress
FIRST = ("fifo", "saf")  # policies that the form begins with

router = APIRouter(include_in_schema=False)
WithState = Annotated[SharedState, Depends(state_of)]
WithForm = Annotated[Sent, Depends(sent)]
WithQuestion = Annotated[Sent, Depends(asked)]


@router.get("/what-if")
def what_if(state: WithState) -> Response:
    """The form."""
    slots = [{"slot": f"p{number}", "name": name, "fields": fields_of(name)} for number, name in enumerate(FIRST)]
    shown = {"traces": state.folder.traces(), "ready": clusters.names(), "names": registry.names(), "slots": slots}
    return answer("what_if.html", state.page("what-if", "What if", upload_mib=state.settings.upload_mib, **shown))


@router.get("/what-if/slot")
def slot(form: WithQuestion) -> Response:
    """A policy with its parameters, as a part of the form."""
    name, number = form.one("name", FIRST[0]), form.one("slot")
    if not number.isalnum() or len(number) > 20:
        raise RunError("there is no such part of the form")
    chosen = form.one(f"{number}.policy") or name
    return answer("slot.html", {"slot": number, "name": chosen, "fields": fields_of(chosen), "names": registry.names()})


@router.get("/what-if/cluster")
def picture(form: WithQuestion) -> Response:
    """A picture of a cluster's racks, and the cluster in words."""
    from rich.console import Console

    from shunter.clusters import picture, rack_drawing

    text = cluster_text(form.one("cluster") or f"{form.one('nodes')}x{form.one('gpus')}")
    if text == "auto":
        return answer("picture.html", {"cluster": None})
    cluster, words = clusters.load(text), io.StringIO()
    Console(file=words, width=100, color_system=None).print(picture.tables(cluster))
    kinds = [(number % rack_drawing.COLOURS, name) for number, name in enumerate(cluster.gpu_types)]
    shown = {"cluster": cluster, "totals": picture.totals(cluster).plain, "kinds": kinds, "words": words.getvalue()}
    return answer("picture.html", shown | {"svg": html([rack_drawing.svg(cluster)])})


@router.put("/what-if/traces")
async def drop(request: Request, state: WithState) -> Response:
    """Keep a dropped file."""
    try:
        name = await state.folder.keep_trace(request.query_params.get("name", ""), request.stream())
    except ClientDisconnect:
        raise RunError("the file did not arrive whole; drop it again") from None
    return Response(name, media_type="text/plain")


@router.get("/what-if/trace")
def about_trace(state: WithState, form: WithQuestion) -> Response:
    """What is in a trace, and what is wrong with it."""
    from shunter.report.describe import describe

    name = form.one("trace")
    if name == "synthetic":
        return answer("trace.html", {"about": None, "findings": [], "name": name})
    found = traces.read(trace_text(state.folder, name), None, "fail")
    if len(found) > MOST_JOBS:
        raise RunError(f"a trace has up to {MOST_JOBS:,} jobs here, this one {len(found):,}; use the command line")
    return answer("trace.html", {"about": describe(found), "findings": validate(found), "name": name})


@router.post("/what-if/run")
def run(state: WithState, form: WithForm) -> Response:
    """Run what the form says; what takes longer shows its progress."""
    wanted = of_form(state.folder, form)
    task = state.tasks.begin(lambda task: answered(wanted, task))
    return _shown(state, task) if tasks.ended_within(task, SOON_S) else answer("progress.html", {"task": task})


@router.get("/what-if/tasks/{task_id}/events")
async def events(task_id: str, state: WithState) -> Response:
    """The progress, as server-sent events."""
    return streaming.EventStream(state.watchers, streaming.of_task(state.tasks.find(task_id)))


@router.post("/what-if/tasks/{task_id}/stop")
def stop(task_id: str, state: WithState) -> Response:
    """End what is under way."""
    state.tasks.stop(task_id)
    return answer("problem_part.html", {"problem": "Stopped."})


@router.get("/what-if/tasks/{task_id}/parts")
def parts(task_id: str, state: WithState) -> Response:
    """Charts of the policies that have ended, while others still run."""
    found = state.tasks.find(task_id).parts
    return answer("parts.html", {"charts": html(so_far(found)) if found else "", "count": len(found)})


@router.get("/what-if/tasks/{task_id}/growing")
def grown(task_id: str, state: WithState) -> Response:
    """Charts of the policy that runs, as far as it is."""
    found: growing.GrowingRun | None = state.tasks.find(task_id).growing
    runs = [found] if found is not None else []
    return answer("growing.html", {"runs": runs, "charts": html([growing.charts(runs)])})


@router.get("/what-if/tasks/{task_id}")
def result(task_id: str, state: WithState) -> Response:
    """The result."""
    task = state.tasks.ended(task_id)
    if task.problem:
        return answer("problem_part.html", {"problem": task.problem}, 422)
    return _shown(state, task)


def _shown(state: SharedState, task: tasks.BackgroundTask) -> Response:
    found: WhatIfAnswer = task.result
    others = [each for each in state.tasks.all() if each is not task and each.over and not each.problem]
    answers = [(task.id, found), *((each.id, each.result) for each in others)][:MOST_KEPT]
    values: dict[str, Any] = {"task": task, "found": found, "answers": answers, "glance": html(found.glance())}
    return answer("answer.html", values)


@router.get("/what-if/tasks/{task_id}/verdict")
def verdict(task_id: str, state: WithState) -> Response:
    """How sure it is: intervals take longer than runs, so they come after them."""
    found: WhatIfAnswer = state.tasks.ended(task_id).result
    compared = found.comparison
    values = {"verdict": html([verdict_text(compared.verdict)]), "rows": compared.policies[1:]}
    return answer("verdict.html", {**values, "first": compared.policies[0], "about": compared.about_intervals})


@router.post("/what-if/tasks/{task_id}/save")
def save(task_id: str, state: WithState, form: WithForm) -> Response:
    """Keep the runs of a result in the folder."""
    found: WhatIfAnswer = state.tasks.ended(task_id).result
    name = check_name(form.one("name").strip())
    for number, one in enumerate(found.results, 1):
        part = name if len(found.results) == 1 else f"{name}-{number}-{one.about['policy'].partition(':')[0]}"
        one.save(state.folder.path(part))
        found.saved[str(one.about["policy"])] = part
    return answer("saved.html", {"saved": found.saved})
