"""The numbers of the page for programs: the same as the command line prints with ``--json``."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from shunter import registry, run_folder
from shunter.errors import RunError
from shunter.live import audit
from shunter.report import explain
from shunter.safe_files import text_of
from shunter.slurm.questions import Wish
from shunter.web.choices import policy_class
from shunter.web.cluster_view import QueueFilter
from shunter.web.listing import RunFilter
from shunter.web.state import SharedState, state_of
from shunter.web.templating import answer
from shunter.web.what_if import answered, asked

MOST_JOBS = 10_000  # of the queue in one answer

router = APIRouter(prefix="/api", default_response_class=JSONResponse)
WithState = Annotated[SharedState, Depends(state_of)]


class SimulationRequest(BaseModel):
    """What is to be run."""

    trace: str = Field(description="A trace of the folder, or synthetic:jobs=5000,gpus=128,load=1,seed=0.")
    cluster: str = Field(description="Nodes x GPUs such as 16x8, a built-in cluster, or auto.")
    policies: list[str] = Field(description="name or name:key=value,...; the first is the baseline.")
    load: str = Field("", description="Stretch or compress arrivals until the cluster has this load.")
    drop_unfit: bool = Field(False, description="Skip jobs that can never fit.")
    overhead: str = Field("", description="Seconds that a stop and a start cost, such as 60,120; none: 62 s in all.")
    checkpointable: str = Field("", description="Which jobs can be stopped: all, none, 25%, user:ann.")


class JobRequest(BaseModel):
    """A job that is not submitted yet."""

    gpus: int = Field(ge=1, description="GPUs in all.")
    time: str = Field(description="Time limit as Slurm takes it: 4:00:00, 1-0, 90.")
    partition: str = Field("", description="Partition; default: the one with most jobs.")
    gpu_type: str = Field("", description="Only GPUs of this type.")
    cpus: int = Field(0, ge=0, description="CPUs in all; default: the partition's.")
    mem: str = Field("", description="Memory in all: 64G; default: the partition's.")
    priority: int | None = Field(None, description="Slurm priority; default: behind all other jobs.")


@router.get("/docs", include_in_schema=False)
def docs(request: Request, state: WithState) -> Response:
    """The list of addresses, from their own description."""
    return answer("api.html", state.page("", "API", schema=request.app.openapi()))


# -- runs


@router.get("/runs", summary="Runs, comparisons and sweeps of the folder, the newest first")
def runs(
    state: WithState, trace: str = "", cluster: str = "", policy: str = "", since: str = "", until: str = ""
) -> list[dict[str, Any]]:
    """Each text is a part of what it filters by; dates are in UTC."""
    return [asdict(entry) for entry in state.listing.entries(RunFilter(trace, cluster, policy, since, until))]


@router.get("/summary", summary="The summary of a run, or the record of a comparison")
def summary(state: WithState, run: str) -> dict[str, Any]:
    """What `shunter simulate --json` or `shunter compare --json` printed for it."""
    path = state.folder.path(run)
    file = {"run": "summary.json", "comparison": "comparison.json"}.get(state.folder.kind(path))
    if file is None:
        raise RunError(f"{run}: is no run and no comparison")
    try:
        found = json.loads(text_of(path / file, RunError), parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RunError(f"{run}: its {file} can't be read; make the run again")
    return found


@router.get("/explain", summary="Why a job of a run waited")
def explained(state: WithState, run: str, job: str) -> dict[str, Any]:
    """What `shunter explain RUN JOB --json` prints."""
    path = state.folder.path(run)
    if state.folder.kind(path) != "run":
        raise RunError(f"{run}: is no run")
    kept = run_folder.load(path)
    with run_folder.fitting(run):
        return explain.as_dicts(kept, explain.find(kept, job))


@router.post("/simulate", summary="Run policies on a trace and a cluster")
def simulate(state: WithState, wanted: SimulationRequest) -> list[dict[str, Any]]:
    """A summary per policy: what `shunter simulate --json` prints. Nothing is kept."""
    question = asked(
        state.folder, wanted.trace, wanted.cluster, wanted.policies, load=wanted.load, drop_unfit=wanted.drop_unfit,
        overhead=wanted.overhead, checkpointable=wanted.checkpointable,
    )  # fmt: skip
    return [dict(row) for row in state.tasks.begin(lambda task: answered(question, task)).result.rows]


# -- policies


@router.get("/policies", summary="The policies")
def policies() -> list[dict[str, Any]]:
    """What `shunter policies --json` prints."""
    return [registry.about(name) for name in registry.names()]


@router.get("/policies/{name}", summary="One policy with its parameters")
def policy(name: str) -> dict[str, Any]:
    """What `shunter policies NAME --json` prints."""
    policy_class(name)
    return registry.about(name)


# -- the live cluster


@router.get("/jobs", summary="The waiting jobs in the order of the resource manager")
def jobs(state: WithState, user: str = "", partition: str = "", page: int = 0) -> dict[str, Any]:
    """Up to 10,000 jobs; `page` counts from 0."""
    if page < 0:
        raise RunError("page must be 0 or more")
    found, count = state.cluster.queue(QueueFilter(user, partition, "", page * MOST_JOBS), MOST_JOBS)
    listed = [
        {
            "job_id": one.job.id, "user": one.job.user, "partition": one.job.partition, "gpus": one.job.gpus,
            "limit_s": one.job.limit / 1000, "priority": one.job.priority, "place": one.place,
            "policy_place": one.policy_place, "reason": one.reason,
        }
        for one in found
    ]  # fmt: skip
    return {"jobs": listed, "count": count}


@router.get("/jobs/{job_id}/why", summary="Why a job waits")
def why(job_id: str, state: WithState) -> dict[str, Any]:
    """What `shunter slurm why JOBID --json` prints."""
    return state.cluster.why(job_id)


@router.get("/jobs/{job_id}/when", summary="When a job may start")
def when(job_id: str, state: WithState) -> dict[str, Any]:
    """What `shunter slurm when JOBID --json` prints."""
    return state.cluster.when(job_id)


@router.post("/jobs/what-if", summary="When a job would start if it were submitted now")
def what_if(state: WithState, wanted: JobRequest) -> dict[str, Any]:
    """What `shunter slurm what-if --json` prints."""
    return state.cluster.what_if(Wish(**wanted.model_dump()))


@router.get("/nodes", summary="The nodes with GPUs")
def nodes(state: WithState) -> list[dict[str, Any]]:
    """Name, state, partitions, GPUs and those in use."""
    return [asdict(node) for node in state.cluster.snapshot.nodes]


@router.get("/audit", summary="What the controller changed or left alone, the last first")
def changes(state: WithState) -> list[dict[str, Any]]:
    """The last 200 entries of what `shunter slurm audit --json` prints."""
    return [vars(entry) | {"at": audit.moment(entry.at)} for entry in state.cluster.audit()]
