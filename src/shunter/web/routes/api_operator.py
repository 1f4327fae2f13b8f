"""Actions of operators for programs: the same as on the page, with both tokens in headers and never by a cookie."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from shunter.errors import LiveError
from shunter.web.gate import OPERATOR_API, OPERATOR_TOKEN
from shunter.web.operating import asked
from shunter.web.routes.cluster import user_of
from shunter.web.state import SharedState, state_of

router = APIRouter(default_response_class=JSONResponse)
WithState = Annotated[SharedState, Depends(state_of)]
OperatorToken = Annotated[
    str, Header(alias=OPERATOR_TOKEN, description="The operators' token; cookies are refused here.")
]


class OperatorRequest(BaseModel):
    """How a controller is to run."""

    confirmed: str = Field(description="The name of the action again.")
    policy: str = Field("sjf", description="name or name:key=value,...; for watch, dry-run and act.")
    interval: int = Field(60, ge=1, le=999_999, description="Seconds between rounds.")
    changes: int = Field(100, ge=1, le=999_999, description="Changes per round, at most.")
    users: str = Field("", description="Users whose jobs are left alone, separated by commas.")
    partitions: str = Field("", description="Partitions that are left alone, separated by commas.")


@router.post(f"{OPERATOR_API}/{{action}}", summary="Watch, dry-run, act, pause or release")
def operate(
    action: str, request: Request, state: WithState, wanted: OperatorRequest, token: OperatorToken
) -> dict[str, Any]:
    """What the action of this name does on the page, noted in the controller's journal in the same way.

    `result` is what the command line prints: of watch and dry-run `shunter slurm run --mode watch --rounds 1 --json`,
    of release `shunter slurm release --json`.
    """
    asks = asked(action, wanted.policy, wanted.interval, wanted.changes, wanted.users, wanted.partitions)
    if wanted.confirmed != action:
        raise LiveError(f"this is not confirmed; send 'confirmed': '{action}' too")
    found = state.operator.perform(asks, user_of(request, state), "by the API")
    return {"action": action, "said": found.said, "problems": found.problems, "result": found.record}
