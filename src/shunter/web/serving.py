"""Serving a page: the port, the printed address, and the server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from shunter.errors import RunError
from shunter.web import access
from shunter.web.app import make_app
from shunter.web.settings import WebSettings
from shunter.web.state import SharedState
from shunter.web.teaching import FIRST, example

REQUEST_S = 10.0  # until a connection has said what it wants, at first and after each answer
MOST_HEADERS = 2**16  # bytes
MOST_CONNECTIONS = 200  # at a time; any account of the machine can open some, without a token


@dataclass(frozen=True)
class Address:
    """Where a page is, and what opens it."""

    url: str
    token: str
    token_file: Path
    operator_token_file: Path | None = None

    @property
    def entrance(self) -> str:
        """The address that opens the page: what stands behind # is never sent to a server or written to its log."""
        return f"{self.url}/enter#token={self.token}"


def serve(
    settings: WebSettings,
    token_file: Path | None,
    ready: Callable[[Address], None],
    operator_token_file: Path | None = None,
) -> None:
    """Serve until stopped; ``ready`` gets the address once the port is open."""
    file = token_file or access.usual_file()
    token = access.token_in(file)
    operator_token = access.token_in(operator_token_file) if operator_token_file is not None else ""
    with open_port(settings) as port:
        settings = replace(settings, port=port.getsockname()[1])
        app = make_app(settings, token, operator_token)
        _prepare(app.state.shunter)
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        ready(Address(f"http://{host}:{settings.port}", token, file, operator_token_file))
        uvicorn.Server(config_of(app)).run(sockets=[port])


class PatientProtocol(H11Protocol):
    """A connection that must say within a time what it wants: others would be kept out by those that say nothing.

    Where there are too many, the one that has said nothing for the longest time makes room.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self.deadline = self.loop.call_later(REQUEST_S, self._give_up)
        if len(self.connections) > MOST_CONNECTIONS:
            idle = [each for each in self.connections if isinstance(each, PatientProtocol) and each.is_idle]
            min(idle, key=lambda each: each.deadline.when(), default=self).transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether no whole request of it is being answered."""
        return not self.transport.is_closing() and (
            self.cycle is None or self.cycle.response_complete or self.cycle.more_body
        )

    def on_response_complete(self) -> None:
        """Begin to wait for the next one, or for the end of a body that nobody reads."""
        self.deadline.cancel()
        self.deadline = self.loop.call_later(REQUEST_S, self._give_up)
        super().on_response_complete()

    def _give_up(self) -> None:
        answered = self.cycle is None or self.cycle.response_complete
        if answered and not self.transport.is_closing():
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self.deadline.cancel()
        super().connection_lost(exc)


def config_of(app: Any, log_level: str = "warning") -> uvicorn.Config:
    """How a page is served: headers of 64 KiB at most, no web sockets, no connections that say nothing."""
    return uvicorn.Config(
        app, log_level=log_level, access_log=False, server_header=False, proxy_headers=False, ws="none",
        http=PatientProtocol, h11_max_incomplete_event_size=MOST_HEADERS,
        timeout_graceful_shutdown=3,
    )  # fmt: skip


def _prepare(state: SharedState) -> None:
    """Read the runs, and compile, if that was not done before, while the first person still opens the page."""
    state.tasks.prepare(state.listing.entries)
    state.tasks.prepare(lambda: example(FIRST))
    if state.settings.live.shows_queue:
        state.tasks.prepare(state.cluster.warm)


def open_port(settings: WebSettings) -> socket.socket:
    """The open port; 0 takes any that is free."""
    made = socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((settings.host, settings.port))
        made.listen()
    except OSError as error:
        made.close()
        raise RunError(
            f"{settings.host}:{settings.port}: can't be served: {error.strerror}; choose another port with --port"
        ) from None
    return made
