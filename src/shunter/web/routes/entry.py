"""The way in: the token becomes a cookie."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response

from shunter.web.forms import Sent, sent
from shunter.web.state import SharedState, state_of
from shunter.web.templating import answer

router = APIRouter(include_in_schema=False)


@router.get("/")
def home() -> Response:
    """The first part of the page."""
    return RedirectResponse("/runs", 303)


@router.get("/enter")
def enter() -> Response:
    """Where the token is asked for."""
    return answer("enter.html", {"problem": ""})


@router.post("/enter")
def check(
    request: Request, form: Annotated[Sent, Depends(sent)], state: Annotated[SharedState, Depends(state_of)]
) -> Response:
    """Set the cookie if the token is right."""
    if not state.access.is_token(form.one("token").strip()):
        return answer("enter.html", {"problem": "This is not the token."}, 403)
    return RedirectResponse("/runs", 303, {"Set-Cookie": state.access.set_cookie(is_secure(request))})


def is_secure(request: Request) -> bool:
    """Whether the browser sends its requests encrypted."""
    return request.headers.get("x-forwarded-proto", request.url.scheme) == "https"
