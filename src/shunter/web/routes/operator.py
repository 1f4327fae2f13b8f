"""Actions of operators on a live cluster: what each would do, a confirmation, and what came of it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from shunter.errors import LiveError
from shunter.web.forms import Sent, sent
from shunter.web.gate import OPERATOR, OPERATOR_ENTER
from shunter.web.operating import ACTIONS, of_form
from shunter.web.routes.cluster import user_of
from shunter.web.routes.entry import is_secure
from shunter.web.state import SharedState, state_of
from shunter.web.templating import answer

router = APIRouter(include_in_schema=False)
WithState = Annotated[SharedState, Depends(state_of)]
WithForm = Annotated[Sent, Depends(sent)]


def _panel(state: SharedState, signed_in: bool, problem: str = "") -> dict[str, Any]:
    desk = {"policy": state.cluster.policy() or "sjf", "news": state.operator.news()} if signed_in else {}
    return {"signed_in": signed_in, "actions": ACTIONS, "problem": problem, **desk}


@router.get(OPERATOR)
def panel(request: Request, state: WithState) -> Response:
    """The desk of an operator, or where the token is asked for."""
    if not state.access.operator:
        return answer("no_operator.html", {})
    return answer("operator.html", _panel(state, state.access.admits_operator(request.headers.get("cookie", ""))))


@router.post(OPERATOR_ENTER)
def enter(request: Request, state: WithState, form: WithForm) -> Response:
    """Set the cookie of operators if their token is right."""
    if not state.access.is_operator_token(form.one("token").strip()):
        return answer("operator.html", _panel(state, False, "This is not the operators' token."), 403)
    cookie = state.access.set_operator_cookie(is_secure(request), OPERATOR)
    return answer("operator.html", _panel(state, True), headers={"Set-Cookie": cookie})


@router.post(f"{OPERATOR}/leave")
def leave(state: WithState) -> Response:
    """Be an operator no longer."""
    headers = {"Set-Cookie": state.access.clear_operator_cookie(OPERATOR)}
    return answer("operator.html", _panel(state, False), headers=headers)


@router.post(f"{OPERATOR}/confirm")
def confirm(state: WithState, form: WithForm) -> Response:
    """What an action will do, to be confirmed; nothing is done yet."""
    wanted = of_form(form)
    command = state.operator.shown_command(wanted) if wanted.action == "act" else ""
    shown = {"wanted": wanted, "meaning": ACTIONS[wanted.action], "command": command}
    return answer("operator_confirm.html", {**shown, "pairs": [pair for pair in form.pairs if pair[0] != "confirmed"]})


@router.post(f"{OPERATOR}/do")
def do(request: Request, state: WithState, form: WithForm) -> Response:
    """Do what was confirmed."""
    wanted = of_form(form)
    if form.one("confirmed") != wanted.action:
        raise LiveError("this is not confirmed; press the action's button, then confirm it")
    found = state.operator.perform(wanted, user_of(request, state))
    return answer("operator_result.html", {"wanted": wanted, "found": found})
