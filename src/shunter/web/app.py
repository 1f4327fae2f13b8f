"""The page as an application: its addresses, its files, and what stands before them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles

from shunter import __version__
from shunter.errors import ShunterError
from shunter.web.gate import Gate
from shunter.web.routes import api, api_operator, cluster, entry, operator, policies, runs, trying
from shunter.web.settings import WebSettings
from shunter.web.state import SharedState
from shunter.web.templating import answer

ASSETS = (".js", ".css", ".svg")
ABOUT = """The numbers of the page for programs: the same as those of the command line with `--json`.

Send the token as `Authorization: Bearer TOKEN`. Times are in seconds."""


def make_app(settings: WebSettings, token: str, operator_token: str = "") -> FastAPI:
    """The application of one page; without a token for operators it changes no cluster."""
    state = SharedState.of(settings, token, operator_token)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        state.tasks.close()

    app = FastAPI(
        title="Shunter", version=__version__, description=ABOUT, lifespan=lifespan,
        openapi_url="/api/openapi.json", docs_url=None, redoc_url=None,
    )  # fmt: skip
    app.state.shunter = state
    app.add_middleware(Gate, access=state.access, settings=settings)
    app.add_exception_handler(ShunterError, _refused)
    app.add_exception_handler(RequestValidationError, _not_valid)
    for module in (entry, runs, trying, policies, cluster, operator, api, api_operator):
        app.include_router(module.router)
    app.openapi()  # describes every address now, and not while other threads compile
    package = files("shunter")
    for address, folder in (("/static/report", ("report", "html")), ("/static", ("web", "static"))):
        app.mount(address, AssetFiles(directory=str(package.joinpath(*folder))))
    return app


class AssetFiles(StaticFiles):
    """Files that browsers need; their folders have others too."""

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        """Where a file is; nowhere, if it is none of these."""
        return super().lookup_path(path) if path.endswith(ASSETS) else ("", None)


async def _refused(request: Request, error: Exception) -> Response:
    """Bad input is a message, never a traceback; names of folders on this machine stay here."""
    state: SharedState = request.app.state.shunter
    text = _sendable(str(error).replace(f"{state.folder.root}/", "").replace(str(state.folder.root), "the folder"))
    if request.url.path.startswith("/api/"):
        return JSONResponse({"detail": text}, 422)
    values: dict[str, Any] = state.page("", "Not possible", problem=text)
    part = "hx-request" in request.headers
    return answer("problem_part.html" if part else "problem.html", values, 422)


async def _not_valid(_: Request, error: Exception) -> Response:
    """What a program sent does not fit; what it was is not sent back, since it may be no JSON (NaN)."""
    found = error.errors() if isinstance(error, RequestValidationError) else []
    parts = [f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in found[:10]]
    return JSONResponse({"detail": _sendable("; ".join(parts)) or "this does not fit"}, 422)


def _sendable(text: str) -> str:
    """A text without the halves of letters that JSON may have and UTF-8 has not."""
    return text.encode(errors="replace").decode()
