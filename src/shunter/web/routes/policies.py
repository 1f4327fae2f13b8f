"""Learn: what each policy does, with an example to step through."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from shunter.web import teaching
from shunter.web.choices import policy_text
from shunter.web.forms import Sent, asked
from shunter.web.state import SharedState, state_of
from shunter.web.templating import answer

router = APIRouter(include_in_schema=False)
WithState = Annotated[SharedState, Depends(state_of)]
WithQuestion = Annotated[Sent, Depends(asked)]


@router.get("/learn")
def learn(state: WithState) -> Response:
    """All policies."""
    return answer("learn.html", state.page("learn", "Learn", lessons=teaching.lessons()))


@router.get("/learn/{name}")
def one(name: str, state: WithState, form: WithQuestion) -> Response:
    """One policy, with parameters as the address says."""
    lesson, given = teaching.lesson(name), form.under("set.")
    shown = {"lesson": lesson, "given": given, "settings": urlencode({f"set.{key}": given[key] for key in given})}
    return answer("lesson.html", state.page("learn", name, **shown))


@router.get("/learn/{name}/example")
def example(name: str, form: WithQuestion) -> Response:
    """Its example, which comes after the page: the first one compiles."""
    text = policy_text(name, form.under("set."))
    return answer("example.html", {"text": text, "example": teaching.example(text)})
